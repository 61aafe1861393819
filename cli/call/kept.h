/* kept.h - what the library gives to be kept of a login (JSON, see idem/auth.h), as far as people are told of it. */
#ifndef IDEM_CLI_CALL_KEPT_H
#define IDEM_CLI_CALL_KEPT_H

#include "text.h"

#include <stdint.h>

/* A text of it; false: it is not there, and `out` is "". */
bool kept_says(const text *kept, const char *name, char *out, size_t size);
bool kept_has_token(const text *kept);
/* What --client named, which is added here; else how the authorization server knows the client. False: neither. */
bool kept_client(const text *kept, char *out, size_t size);
void kept_name_client(text *kept, const char *id);
/* It shows neither a secret nor a key when it asks for tokens. */
bool kept_is_public(const text *kept);
/* Whether one of these words, which blanks part, was not asked for with it. */
bool kept_lacks_scope(const text *kept, const char *wanted);
/* Who the client is stays. */
void kept_drop_tokens(text *kept);
bool kept_has_refresh_token(const text *kept);
/* Seconds since 1970; UINT64_MAX: nobody said. */
uint64_t kept_expires(const text *kept);
/* Leaves no byte of it. */
void kept_wipe(text *kept);

#endif
