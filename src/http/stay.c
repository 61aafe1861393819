/* stay.c - what lasts with the token it was opened with: event streams and WebSockets. Whoever judged the token hears of them, and
 * ends them when it does; a request that is answered at once is nobody's to end. See docs/internals/auth.md. */
#include "conn.h"

/* Without memory it could not be ended, so it does not begin. */
void idem__http_stay_begin(idem_http_conn *conn) {
  const idem_http_server *server = conn->server;
  const idem_http_exchange *exchange = &conn->exchange;
  if (!exchange->grant || !server->stays || exchange->head_only || conn->stay) return;
  conn->stay = idem__calloc(&server->alloc, sizeof *conn->stay);
  if (!conn->stay) {
    conn->failed = IDEM_E_NOMEM;
    return;
  }
  conn->stay->conn = conn;
  conn->stay->grant = idem__grant_ref(exchange->grant);
  idem_list_init(&conn->stay->link);
  server->stays(conn->stay, true, server->judge_user);
}

void idem__http_stay_end(idem_http_conn *conn) {
  idem__http_stay *stay = conn->stay;
  if (!stay) return;
  conn->stay = NULL;
  conn->server->stays(stay, false, conn->server->judge_user);
  idem__grant_unref(stay->grant);
  idem__free(&conn->server->alloc, stay);
}

/* The judge looks at it when it would have looked at the other. */
void idem__http_conn_renew(idem_http_conn *conn, idem__grant *grant) {
  idem__http_stay *stay = conn->stay;
  if (!stay || !grant || grant->ends_s < stay->grant->ends_s) return;
  idem__grant_ref(grant);
  idem__grant_unref(stay->grant);
  stay->grant = grant;
}
