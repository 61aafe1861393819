/* hold.c - requests that are kept beyond their handler, because something must be known before they
 * begin: their bytes, which were lent, become their own. Bounded in number and bytes for each server.
 * See docs/internals/http.md. */
#include "conn.h"

idem_status idem__http_own_request(idem_http_request *request) {
  if (!request->head.len) {
    idem_status status = idem_buf_put(&request->head, request->base, request->head_len);
    if (status != IDEM_OK) return status;
    request->base = request->head.data;
    idem__http_split_target(request); /* its views have moved */
  }
  return idem__http_own_body(request) ? IDEM_OK : IDEM_E_NOMEM;
}

bool idem__http_own_body(idem_http_request *request) {
  if (!request->body.len || request->body.at == request->body_copy.data) return true;
  request->body_copy.len = 0;
  if (idem_buf_put(&request->body_copy, request->body.at, request->body.len) != IDEM_OK)
    return false;
  request->body.at = request->body_copy.data;
  return true;
}

static size_t size_of(const idem_http_request *request) {
  return sizeof *request + request->head_len + request->body.len;
}

bool idem__http_may_wait(idem_http_server *server, size_t bytes) {
  return server->held < server->max_held && bytes <= server->max_held_bytes - server->held_bytes;
}

static idem_status hold(idem_http_exchange *exchange, const idem_http_request *lent, bool turn) {
  idem_http_server *server = exchange->conn->server;
  idem_http_request *request = (idem_http_request *)(uintptr_t)lent; /* the server's own */
  size_t size = size_of(request);
  bool room = turn ? size <= server->max_held_bytes - server->held_bytes
                   : idem__http_may_wait(server, size);
  if (!room) return IDEM_E_LIMIT;
  idem_status status = idem__http_own_request(request);
  if (status != IDEM_OK) return status;
  request->held = size;
  request->for_turn = turn;
  server->held += !turn;
  server->held_bytes += size;
  exchange->held = request;
  return IDEM_OK;
}

idem_status idem__http_hold(idem_http_exchange *exchange, const idem_http_request *lent) {
  return hold(exchange, lent, false);
}

idem_status idem__http_hold_for_turn(idem_http_exchange *exchange, const idem_http_request *lent) {
  return hold(exchange, lent, true);
}

/* One whose function is on the stack goes back to the pool after it. */
void idem__http_let_go(idem_http_exchange *exchange) {
  idem_http_server *server = exchange->conn->server;
  idem_http_request *request = exchange->held;
  if (!request) return;
  exchange->held = NULL;
  server->held -= !request->for_turn;
  server->held_bytes -= request->held;
  request->held = 0;
  if (!request->in_use) idem__http_server_give_request(server, request);
}

/* The exchange may have ended when the function returns; its connection is there. */
void idem__http_serve_held(idem_http_exchange *exchange, idem_http_serve_fn fn, void *user) {
  idem_http_conn *conn = exchange->conn;
  idem_http_request *request = exchange->held;
  request->in_use = true;
  idem__http_let_go(exchange);
  fn(exchange, request, user);
  request->in_use = false;
  idem__http_server_give_request(conn->server, request);
  idem__http_conn_notify(conn);
}
