/* ecma.h - from ECMA-262 regular expressions to PCRE2's syntax. */
#ifndef IDEM_SCHEMA_ECMA_H
#define IDEM_SCHEMA_ECMA_H

#include "base/base.h"

/* Appends the translation. OK; INVAL with the reason in *why (a constant); LIMIT; NOMEM. */
idem_status idem__ecma_translate(const char *text, size_t len, idem_buf *out, const char **why);

#endif
