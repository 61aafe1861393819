/* viewer.h - recordings without a server: the files that show them as one HTML document. */
#ifndef IDEM_CLI_VIEWER_H
#define IDEM_CLI_VIEWER_H

#include "config/config.h"

/* Browsers refuse modules from file://, so it is one classic script, whose digest its policy names. NOMEM, LIMIT. */
idem_status viewer_put(idem_buf *out);

#endif
