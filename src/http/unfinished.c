/* unfinished.c - what has come of bodies and WebSocket messages whose rest has not: bounded for each
 * server. Past the bound whoever has been at it for longest gives way, so that those who send slowly,
 * or half of something, do not keep out those who just send. Little is not counted: the number of
 * connections bounds that. See docs/internals/http.md. */
#include "conn.h"

#define SMALL ((size_t)64 << 10)

static size_t bytes_of(const idem_http_conn *conn) {
  size_t bytes = 0;
  if (conn->closing || conn->failed != IDEM_OK) return 0;
  if (conn->websocket)
    bytes = idem__websocket_unfinished(conn->websocket);
  else if (conn->request)
    bytes = conn->request->body_copy.cap;
  return bytes > SMALL ? bytes : 0;
}

void idem__http_uncount_unfinished(idem_http_conn *conn) {
  if (!conn->unfinished_bytes) return;
  conn->server->unfinished_bytes -= conn->unfinished_bytes;
  conn->unfinished_bytes = 0;
  idem_list_remove(&conn->unfinished);
}

static void count(idem_http_conn *conn, size_t bytes) {
  idem_http_server *server = conn->server;
  if (!conn->unfinished_bytes) idem_list_append(&server->unfinished, &conn->unfinished);
  server->unfinished_bytes += bytes - conn->unfinished_bytes;
  conn->unfinished_bytes = bytes;
}

/* The last one may stay, however large: some message has to be the one that is let in. */
static bool too_much(const idem_http_server *server) {
  return server->unfinished_bytes > server->max_unfinished_bytes &&
         server->unfinished.next->next != &server->unfinished;
}

void idem__http_count_unfinished(idem_http_conn *conn) {
  idem_http_server *server = conn->server;
  size_t bytes = bytes_of(conn);
  if (!bytes) {
    idem__http_uncount_unfinished(conn);
    return;
  }
  count(conn, bytes);
  while (too_much(server)) {
    idem_http_conn *oldest = IDEM_CONTAINER(server->unfinished.next, idem_http_conn, unfinished);
    idem__http_uncount_unfinished(oldest);
    idem__http_give_way(oldest, conn->now_ms);
  }
}
