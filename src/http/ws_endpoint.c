/* ws_endpoint.c - a JSON-RPC peer behind a WebSocket: one message a text frame, both ways.
 * The conn of the engine lives as long as the socket; a ping now and then keeps proxies from
 * cutting it and shows when the other side is dead. When the turn is over (rpc.md), it waits in the line of the pool.
 * See docs/internals/http.md. */
#include "endpoint.h"

typedef struct peer {
  idem__http_rpc *rpc;
  idem_http_conn *http;
  idem__websocket *socket;
  idem_conn *conn;
  idem__late late;  /* in line while a message waits */
  uint64_t ping_ms; /* when the next one is due */
  uint16_t goodbye; /* the code of our close frame; 0: the usual one */
  bool closing;
  bool going_on; /* with what has waited */
} peer;

static void pump(peer *who);
static void set_time(peer *who);

/* What the engine held back for want of room may go on: its deadline says so. */
static void on_room(void *user) {
  pump(user);
  set_time(user);
}

static void pump(peer *who) {
  idem_chunk chunk;
  while (idem__http_conn_has_room(who->http, on_room, who) &&
         idem_conn_next_chunk(who->conn, &chunk)) {
    if (who->socket) idem__websocket_send(who->socket, chunk.data, chunk.len);
    idem_chunk_free(&chunk);
  }
  if (who->socket && idem_conn_done(who->conn) && !who->closing) {
    who->closing = true;
    idem__websocket_close(who->socket, who->goodbye ? who->goodbye : 1000,
                          who->goodbye == 1008 ? "the token has ended" : NULL);
  }
}

static void on_output(idem_conn *conn, void *user) {
  peer *who = user;
  (void)conn;
  on_room(who);
  idem__http_conn_notify(who->http);
}

static bool on_admit(idem_conn *conn, void *user) {
  peer *who = user;
  uint32_t retry_s;
  (void)conn;
  return idem__limiter_take(who->rpc->opts.limiter, idem__http_conn_client(who->http),
                            idem__http_conn_now(who->http), &retry_s);
}

static void on_time(void *user, uint64_t now_ms);

static void set_time(peer *who) {
  uint64_t at = idem_conn_deadline(who->conn);
  idem__http_conn_set_time(who->http, at < who->ping_ms ? at : who->ping_ms, on_time, who);
}

/* Something was heard, or has just been asked. */
static void put_off_ping(peer *who, uint64_t now_ms) {
  who->ping_ms = now_ms + 2 * who->rpc->opts.stream_ms;
  set_time(who);
}

static void on_time(void *user, uint64_t now_ms) {
  peer *who = user;
  if (idem_conn_deadline(who->conn) <= now_ms) {
    if (idem_conn_expire(who->conn) != IDEM_OK && who->socket)
      idem__websocket_close(who->socket, 1011, NULL);
    pump(who);
  }
  if (who->ping_ms > now_ms) {
    set_time(who);
    return;
  }
  if (who->socket) idem__websocket_ping(who->socket);
  put_off_ping(who, now_ms);
}

static void on_message(idem__websocket *socket, const char *text, size_t len, void *user) {
  peer *who = user;
  idem_status status = idem__conn_message(who->conn, text, len, NULL);
  if (status != IDEM_OK && status != IDEM_E_CLOSED) {
    idem__websocket_close(socket, 1011, NULL);
    return;
  }
  pump(who);
  put_off_ping(who, idem__http_conn_now(who->http));
}

static bool stand_in_line(peer *who) {
  idem__http_conn_pause(who->http, true);
  idem__pool_put_off(who->rpc->pool, &who->late);
  return true;
}

/* Who has had a message of another turn goes on only while nobody is in line; behind a batch that goes on nobody does. */
static bool must_wait(void *user) {
  peer *who = user;
  idem_pool *pool = who->rpc->pool;
  if (idem__conn_refuses(who->conn)) return false;
  bool others = who->going_on && idem__pool_has_late(pool);
  if (!others && !idem__conn_waits(who->conn) && IDEM__LIKELY(!idem__pool_turn_over_now(pool)))
    return false;
  return stand_in_line(who);
}

static bool must_halt(void *user) {
  peer *who = user;
  return idem__conn_waits(who->conn) && stand_in_line(who);
}

static void go_on(idem__late *late) {
  peer *who = IDEM_CONTAINER(late, peer, late);
  if (idem__conn_waits(who->conn)) {
    idem__pool_put_off(who->rpc->pool, late);
    return;
  }
  who->going_on = true;
  idem__http_conn_go_on(who->http);
  who->going_on = false;
}

static void end_unauthorized(peer *who) {
  const idem__http_rpc_opts *opts = &who->rpc->opts;
  who->goodbye = 1008;
  if (opts->unauthorized) opts->unauthorized(opts->protocol_user, who->conn);
  idem__conn_revoke(who->conn);
}

/* Nothing that waits is begun any more: its requests are told so, with their ids. */
static void refuse_waiting(peer *who, idem__reason reason) {
  idem_list_remove(&who->late.link);
  idem__conn_refuse_new(who->conn, reason);
  pump(who); /* what is older leaves first */
  idem__http_conn_go_on(who->http);
}

static void on_stop(void *user, idem__http_stop how) {
  peer *who = user;
  if (!who->goodbye) who->goodbye = 1012;
  if (!idem_list_empty(&who->late.link))
    refuse_waiting(who,
                   how == IDEM__HTTP_STOP_UNAUTHORIZED ? IDEM__UNAUTHORIZED : IDEM__UNAVAILABLE);
  switch (how) {
  case IDEM__HTTP_STOP_SOON: idem_conn_close(who->conn); break;
  case IDEM__HTTP_STOP_NOW: idem_conn_abort(who->conn); break;
  case IDEM__HTTP_STOP_UNAUTHORIZED: end_unauthorized(who); break;
  }
  pump(who);
}

static idem_status put_bytes(void *user, const char *data, size_t len) {
  peer *who = user;
  return idem__http_conn_put(who->http, data, len);
}

static void on_free(void *user) {
  peer *who = user;
  who->socket = NULL;
  idem_list_remove(&who->late.link);
  idem_conn_free(who->conn);
  idem__free(&who->rpc->alloc, who);
}

idem__websocket *idem__http_rpc_upgrade(idem_http_conn *conn, const idem_http_request *request,
                                        void *user) {
  idem__http_rpc *rpc = user;
  (void)request;
  peer *who = idem__calloc(&rpc->alloc, sizeof *who);
  if (!who) return NULL;
  who->rpc = rpc;
  who->http = conn;
  who->late.run = go_on;
  idem_list_init(&who->late.link);
  idem_status status =
      idem__http_rpc_conn(rpc, who, on_output, on_admit, idem__http_conn_peer(conn), &who->conn);
  if (status == IDEM_OK)
    status = idem__websocket_new(
        &(idem__websocket_opts){.message_bytes = rpc->policy.limits.message_bytes,
                                .on_message = on_message,
                                .must_wait = must_wait,
                                .must_halt = must_halt,
                                .output = put_bytes,
                                .on_free = on_free,
                                .user = who,
                                .alloc = &rpc->alloc},
        &who->socket);
  if (status != IDEM_OK) {
    idem_conn_free(who->conn);
    idem__free(&rpc->alloc, who);
    return NULL;
  }
  idem__conn_set_client(who->conn, idem__http_conn_client(conn)->bytes);
  idem__http_conn_on_stop(conn, on_stop, who);
  put_off_ping(who, idem__http_conn_now(conn));
  return who->socket;
}
