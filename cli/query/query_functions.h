/* query_functions.h - SQL functions in place of SQLite's own that one call can keep busy past every deadline:
 * like, glob, instr, replace, trim, ltrim, rtrim and json_patch. They come to the same. */
#ifndef IDEM_CLI_QUERY_FUNCTIONS_H
#define IDEM_CLI_QUERY_FUNCTIONS_H

#include "query_session.h"

/* Bytes of a pattern of LIKE and GLOB; SQLite itself takes 50000. */
#define QUERY_PATTERN_BYTES 1024

/* What SQLite says of it. The session's limit is asked while they work. */
int query_functions_add(query_session *session);

#endif
