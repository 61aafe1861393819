/* notify.h - what peers are told unasked: on a request's own stream, on subscriptions/listen, and what
 * legacy peers subscribed to. */
#ifndef IDEM_MCP_NOTIFY_H
#define IDEM_MCP_NOTIFY_H

#include "nouns.h"

/* A notification on the request's own stream. `params` is what was written. */
idem_status idem__notify_text(idem_conn *conn, const char *method, idem_buf *params);

/* The params of notifications/message; `json` is any value. INVAL: it is none. */
idem_status idem__log_params(idem_buf *out, idem_mcp_level level, const char *logger,
                             const char *json, size_t len);

/* Those who listen: what changed in the lists, a resource, a task of their principal that they named. */
void idem__listeners_tell(idem__mcp_worker *worker, uint32_t changed, const char *updated_uri);
/* Of each the resource with this number that it subscribed to may have changed; false: none has that many. */
bool idem__listeners_remind(idem__mcp_worker *worker, size_t which);
void idem__listeners_task(idem__mcp_worker *worker, const idem__task *task, const char *task_json,
                          size_t len);
/* Ends every subscriptions/listen. */
void idem__listeners_close(idem__mcp_worker *worker);
/* Those of one conn alone. */
void idem__listeners_end(idem__mcp_worker *worker, const idem_conn *conn);

#endif
