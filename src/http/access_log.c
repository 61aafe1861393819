/* access_log.c - one line a request: who, what, the status, how much, how long.
 * Method and target are the peer's words: they go through the log's escaping and redaction, and a
 * query is never written. See docs/internals/http.md. */
#include "conn.h"

#include <string.h>

#define LINE_MAX 160

void idem__http_log_begin(idem__http_exchange *exchange, const idem__http_request *request) {
  idem__http_conn *conn = exchange->conn;
  char text[LINE_MAX];
  idem__buf line;
  idem__view target = {request->base + request->target.value, request->target.value_len};
  const char *query = target.len ? memchr(target.at, '?', target.len) : NULL;
  if (query) target.len = (size_t)(query - target.at);
  idem__buf_fixed(&line, text, sizeof text);
  const char *method = llhttp_method_name((llhttp_method_t)llhttp_get_method(&conn->parser));
  size_t cut = idem__utf8_cut(target.at, target.len, LINE_MAX - 32);
  idem__buf_printf(&line, "%s ", method);
  idem__buf_put(&line, target.at, cut);
  exchange->log_line = idem__strndup(&conn->hub->alloc, text, line.len);
}

void idem__http_log_access(const idem__http_exchange *exchange, size_t bytes) {
  const idem__http_conn *conn = exchange->conn;
  if (!exchange->log_line) return;
  char text[LINE_MAX + 96];
  idem__buf line;
  idem__buf_fixed(&line, text, sizeof text);
  idem__buf_printf(&line, "%s %u %zu bytes %llu ms%s%s", exchange->log_line,
                   (unsigned)exchange->status, bytes,
                   (unsigned long long)(conn->now_ms - exchange->began_ms),
                   exchange->note ? " " : "", exchange->note ? exchange->note : "");
  idem_log_write(conn->hub->log, &(idem_log_record){.level = IDEM_LOG_INFO,
                                                    .message = "request",
                                                    .peer = conn->peer,
                                                    .detail = text,
                                                    .detail_len = line.len});
}
