/* parsed.h - for the other folders of the library: compiling text that they have parsed already. */
#ifndef IDEM_SCHEMA_PARSED_H
#define IDEM_SCHEMA_PARSED_H

#include <idem/schema.h>

/* idem_schema_compile for text of `len` bytes that has been parsed already, as for compile_value. */
idem_status idem__schema_compile_parsed(const idem_schema_opts *opts, yyjson_val *value, size_t len,
                                        idem_schema **out, idem_schema_fault *fault);

#endif
