/* clean.h - see clean.c. */
#ifndef IDEM_CLI_CLEAN_H
#define IDEM_CLI_CLEAN_H

#include <idem/text.h>

/* Appends it; invalid bytes become U+FFFD. *replaced: there were some. NOMEM, LIMIT: a part of it is there, without holes. */
idem_status clean_put(idem_buf *out, const char *text, size_t len, bool *replaced);

#endif
