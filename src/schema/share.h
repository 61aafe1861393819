/* share.h - what other folders of the library do with schemas beside what everyone does.
 * A program is immutable, so whoever has the same text may have the same program. */
#ifndef IDEM_SCHEMA_SHARE_H
#define IDEM_SCHEMA_SHARE_H

#include <idem/schema.h>

/* Another owner: the schema lives until each has called idem_schema_free. */
idem_schema *idem__schema_share(idem_schema *schema);

/* idem_schema_compile for text of `len` bytes that has been parsed already, as for compile_value. */
idem_status idem__schema_compile_parsed(const idem_schema_opts *opts, yyjson_val *value, size_t len,
                                        idem_schema **out, idem_schema_fault *fault);

#endif
