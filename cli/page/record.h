/* record.h - the lines of a recording: a header, then a line a message, a log line or a sample, each JSON. One format for
 * live traffic and files (docs/guide/page.md). Secrets of the log are taken out. */
#ifndef IDEM_CLI_RECORD_H
#define IDEM_CLI_RECORD_H

#include "config/template.h"

#include <idem/rpc.h>

#define RECORD_MESSAGE_MOST ((size_t)64 * 1024) /* a longer one is cut */

#define SAMPLE_SECONDS 10u
typedef struct sample {
  uint64_t wall_us, memory;
  uint32_t requests, errors, p50_us, p95_us, p99_us, sessions, connections, processes;
} sample;

/* Each appends a whole line, or nothing: LIMIT, NOMEM. Times are microseconds since 1970. */
idem_status record_put_header(idem_buf *out, uint64_t wall_us);
/* `scratch` is for its use alone. */
idem_status record_put_message(idem_buf *out, uint64_t wall_us, const idem_traced *message,
                               const idem_log *log, idem_buf *scratch);
/* `line` is the log's own, in JSON. */
idem_status record_put_log(idem_buf *out, uint64_t wall_us, const char *line, size_t len);
idem_status record_put_sample(idem_buf *out, const sample *taken);
idem_status record_put_lost(idem_buf *out, uint64_t wall_us, uint64_t count);

#endif
