/* record.h - the lines of a recording: a header, then a line a message, a log line or a sample, each JSON. One format for
 * live traffic and files (docs/guide/page.md). Secrets of the log are taken out. */
#ifndef IDEM_CLI_RECORD_H
#define IDEM_CLI_RECORD_H

#include "samples.h"

#define RECORD_MESSAGE_MOST ((size_t)64 * 1024) /* a longer one is cut */

/* Each appends a whole line, or nothing: LIMIT, NOMEM. */
idem_status record_put_header(idem__buf *out);
/* `scratch` is for its use alone. */
idem_status record_put_message(idem__buf *out, const idem_traced *message, const idem_log *log,
                               idem__buf *scratch);
/* `line` is the log's own, in JSON. */
idem_status record_put_log(idem__buf *out, const char *line, size_t len);
idem_status record_put_sample(idem__buf *out, const sample *taken);
idem_status record_put_lost(idem__buf *out, uint64_t count);

#endif
