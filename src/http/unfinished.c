/* unfinished.c - how much of bodies and WebSocket messages has come whose rest has not, or waits behind a request that
 * is being answered, and who gives way where that is too much (base/unfinished.c). See docs/internals/http.md. */
#include "conn.h"

static size_t bytes_of(const idem_http_conn *conn) {
  if (conn->closing || conn->failed != IDEM_OK) return 0;
  if (conn->websocket) return idem__websocket_unfinished(conn->websocket);
  return conn->backlog.cap + (conn->request ? conn->request->body_copy.cap : 0);
}

static void give_way(idem__half *half, uint64_t now_ms) {
  idem_http_conn *conn = IDEM_CONTAINER(half, idem_http_conn, unfinished);
  idem__metrics_add(conn->server->metrics, IDEM__M_UNFINISHED_REFUSED, 1);
  idem__http_give_way(conn, now_ms);
}

void idem__http_uncount_unfinished(idem_http_conn *conn) {
  idem__unfinished_forget(conn->server->unfinished, &conn->unfinished);
}

void idem__http_count_unfinished(idem_http_conn *conn) {
  const idem_http_server *server = conn->server;
  conn->unfinished.give_way = give_way;
  idem__unfinished_count(server->unfinished, &conn->unfinished, bytes_of(conn),
                         server->max_unfinished_bytes, conn->now_ms);
}
