/* conn.c - an HTTP connection as its driver sees it: bytes, time, and how it comes to an end.
 * See docs/internals/http.md. */
#include "conn.h"

#include <string.h>

#define BACKLOG_MAX ((size_t)64 * 1024)
#define LINGER_MS 2000
#define FRESH_LAST_MS 1000
#define IDLE_LAST_MS 50
#define UNFINISHED "too much is unfinished"

/* ------------------------------------------------------------ entry points */

idem_status idem__http_conn_new(const idem__http_conn_opts *opts, idem_http_conn **out) {
  idem_http_server *server = opts->server;
  idem_http_conn *conn = idem__calloc(&server->alloc, sizeof *conn);
  *out = NULL;
  if (!conn) return IDEM_E_NOMEM;
  llhttp_init(&conn->parser, HTTP_REQUEST, &server->settings);
  conn->parser.data = conn;
  conn->server = server;
  idem_buf_init(&conn->backlog, &server->alloc, (size_t)1 << 20);
  conn->now_ms = conn->last_ms = conn->heard_ms = opts->now_ms;
  conn->time_at_ms = conn->message_by_ms = UINT64_MAX;
  conn->on_output = opts->on_output;
  conn->user = opts->user;
  conn->from = opts->from;
  size_t len = opts->peer ? strlen(opts->peer) : 0;
  if (len >= PEER_MAX) len = PEER_MAX - 1;
  if (len) memcpy(conn->peer, opts->peer, len);
  idem__metrics_add(server->metrics, IDEM__M_CONNECTIONS_OPENED, 1);
  *out = conn;
  return IDEM_OK;
}

/* Nobody waits for the answer any more, or the request never came to its end. */
static void abandon(idem_http_exchange *exchange) {
  if (exchange->log_line) idem__http_log_gone(exchange);
  if (exchange->active && exchange->on_abort) exchange->on_abort(exchange, exchange->abort_user);
  idem__http_exchange_drop(exchange);
}

void idem__http_conn_free(idem_http_conn *conn) {
  if (!conn) return;
  conn->inside++;
  idem__http_uncount_unfinished(conn);
  idem__http_stay_end(conn);
  abandon(&conn->exchange);
  idem__websocket_free(conn->websocket);
  idem__http_give_share(&conn->exchange);
  idem__http_begin_closing(conn);
  idem__metrics_add(conn->server->metrics, IDEM__M_CONNECTIONS_CLOSED, 1);
  while (conn->first) {
    block *next = conn->first->next;
    idem__http_server_give_block(conn->first);
    conn->first = next;
  }
  idem__free(&conn->server->alloc, conn);
}

void *idem__http_conn_user(const idem_http_conn *conn) { return conn->user; }

static idem_status leave(idem_http_conn *conn, idem_status status) {
  idem__http_count_unfinished(conn);
  conn->inside--;
  if (status != IDEM_OK && conn->failed == IDEM_OK) conn->failed = status;
  if (conn->websocket && idem__websocket_finished(conn->websocket)) conn->closing = true;
  if (conn->websocket && !conn->parting_ms && idem__websocket_closing(conn->websocket))
    conn->parting_ms = conn->now_ms;
  return conn->failed;
}

idem_status idem__http_conn_feed(idem_http_conn *conn, const char *data, size_t len,
                                 uint64_t now_ms) {
  if (conn->failed != IDEM_OK) return conn->failed;
  conn->now_ms = now_ms;
  if (conn->closing) return IDEM_OK; /* read and dropped, so that the last answer arrives */
  conn->last_ms = conn->heard_ms = now_ms;
  conn->heard = true;
  conn->inside++;
  idem__metrics_add(conn->server->metrics, IDEM__M_BYTES_IN, len);
  idem_status status =
      conn->backlog.len ? idem__h1_keep_backlog(conn, data, len) : idem__h1_parse(conn, data, len);
  return leave(conn, status);
}

static bool input_end_cancels(idem_http_exchange *exchange) {
  if (exchange->on_input_end) return exchange->on_input_end(exchange, exchange->user);
  const idem__http_rules *rules = exchange->route ? exchange->route->binding.rules : NULL;
  return rules && rules->disconnect_cancels;
}

idem_status idem__http_conn_feed_eof(idem_http_conn *conn, uint64_t now_ms) {
  conn->now_ms = now_ms;
  conn->eof = true;
  conn->inside++;
  bool cancels = conn->exchange.active && input_end_cancels(&conn->exchange);
  if (cancels) abandon(&conn->exchange);
  if (cancels ||
      (!conn->exchange.active && !conn->backlog.len && !idem__http_waits_for_judge(conn)))
    idem__http_begin_closing(conn);
  return leave(conn, IDEM_OK);
}

bool idem__http_conn_want_read(const idem_http_conn *conn) {
  if (conn->eof) return false;
  if (conn->closing) return true;
  return !conn->paused && conn->queued <= conn->server->queued_bytes &&
         conn->backlog.len < BACKLOG_MAX;
}

void idem__http_conn_pause(idem_http_conn *conn, bool paused) { conn->paused = paused; }
bool idem__http_conn_waits(const idem_http_conn *conn) { return conn->paused; }

void idem__http_conn_go_on(idem_http_conn *conn) {
  conn->paused = false;
  conn->inside++;
  idem_status status = idem__websocket_go_on(conn->websocket);
  conn->message_by_ms = idem__websocket_due(conn->websocket, conn->now_ms, conn->server->request_ms,
                                            conn->server->request_most_ms);
  leave(conn, status);
  idem__http_conn_notify(conn);
}

/* ------------------------------------------------------------------- time */

static uint64_t request_deadline(const idem_http_conn *conn) {
  const idem_http_request *request = conn->request;
  return request->began_ms + idem__time_to_arrive(conn->server->request_ms,
                                                  conn->server->request_most_ms, request->body.len);
}

static uint64_t earlier(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* When a socket is given up. Our own pings prove nothing; once a goodbye was said, neither does what
 * still comes. */
static uint64_t websocket_end(const idem_http_conn *conn) {
  if (conn->parting_ms) return conn->parting_ms + conn->server->request_ms;
  return earlier(conn->heard_ms + conn->server->idle_ms, conn->message_by_ms);
}

static uint64_t websocket_deadline(const idem_http_conn *conn) {
  return earlier(conn->time_at_ms, websocket_end(conn));
}

uint64_t idem__http_conn_deadline(const idem_http_conn *conn) {
  if (conn->resume) return 0;
  uint64_t idle = conn->last_ms + conn->server->idle_ms;
  if (conn->closing) return conn->queued ? idle : conn->last_ms + LINGER_MS;
  if (conn->exchange.active) {
    uint64_t at = conn->exchange.at_ms;
    return conn->queued && idle < at ? idle : at;
  }
  if (conn->websocket) return websocket_deadline(conn);
  if (conn->judging) return conn->judge_by_ms;
  if (conn->heard && conn->request) return request_deadline(conn);
  if (conn->final) return conn->final_ms;
  return conn->heard ? idle : conn->last_ms + conn->server->first_ms;
}

static void expire_exchange(idem_http_conn *conn) {
  idem_http_exchange *exchange = &conn->exchange;
  if (conn->queued && conn->last_ms + conn->server->idle_ms <= conn->now_ms) {
    conn->failed = IDEM_E_TIMEOUT; /* the peer reads nothing */
    return;
  }
  exchange->at_ms = UINT64_MAX;
  if (exchange->on_time) exchange->on_time(exchange, conn->now_ms, exchange->user);
}

static idem_status expire_websocket(idem_http_conn *conn) {
  if (conn->time_at_ms <= conn->now_ms) {
    conn->time_at_ms = UINT64_MAX;
    conn->on_time(conn->time_user, conn->now_ms);
    return IDEM_OK;
  }
  if (idem__websocket_closing(conn->websocket) || conn->queued) return IDEM_E_TIMEOUT;
  bool slow = conn->message_by_ms <= conn->now_ms;
  conn->message_by_ms = UINT64_MAX;
  idem__websocket_close(conn->websocket, slow ? 1008 : 1001, slow ? "too slow" : "idle");
  return IDEM_OK;
}

/* Nobody said in time who asks, or there is no more time. */
static void refuse_judging(idem_http_conn *conn) {
  idem__h1_stop(conn, 503, 0, "unavailable");
  idem__h1_refuse_and_close(conn);
}

static idem_status overdue(idem_http_conn *conn) {
  if (conn->resume) return idem__h1_resume(conn);
  if (conn->closing) return IDEM_E_TIMEOUT;
  if (conn->exchange.active) {
    expire_exchange(conn);
  } else if (conn->websocket) {
    return expire_websocket(conn);
  } else if (conn->judging) {
    refuse_judging(conn);
  } else if (conn->request) {
    idem__h1_stop(conn, 408, 0, "unavailable");
    idem__h1_refuse_and_close(conn);
  } else {
    idem__http_begin_closing(conn);
  }
  return IDEM_OK;
}

idem_status idem__http_conn_expire(idem_http_conn *conn, uint64_t now_ms) {
  if (conn->failed != IDEM_OK) return conn->failed;
  conn->now_ms = now_ms;
  if (idem__http_conn_deadline(conn) > now_ms) return IDEM_OK;
  conn->inside++;
  return leave(conn, overdue(conn));
}

/* A request may be on its way, sent before anybody could know: it is served, and is the last. Who has connected just now is about to send
 * one; who was silent for a while most likely is not. */
static void stop_conn(idem_http_conn *conn, idem__http_stop how) {
  if (conn->exchange.active || conn->websocket) {
    conn->exchange.keep_alive = false;
    if (conn->on_stop) conn->on_stop(conn->stop_user, how);
  } else if (idem__http_waits_for_judge(conn) && !conn->closing) {
    conn->exchange.keep_alive = false;
    if (how != IDEM__HTTP_STOP_SOON) refuse_judging(conn);
  } else if (!conn->closing && how == IDEM__HTTP_STOP_SOON && !conn->final) {
    conn->final = true;
    conn->exchange.keep_alive = false; /* of one that is being read */
    conn->final_ms = conn->now_ms + (conn->heard ? IDLE_LAST_MS : FRESH_LAST_MS);
  } else if (!conn->closing && how != IDEM__HTTP_STOP_SOON) {
    idem__http_begin_closing(conn);
  }
}

void idem__http_conn_close(idem_http_conn *conn, uint64_t now_ms) {
  conn->now_ms = now_ms;
  conn->inside++;
  stop_conn(conn, IDEM__HTTP_STOP_SOON);
  leave(conn, IDEM_OK);
}

void idem__http_conn_abort(idem_http_conn *conn, uint64_t now_ms) {
  conn->now_ms = now_ms;
  conn->inside++;
  stop_conn(conn, IDEM__HTTP_STOP_NOW);
  leave(conn, IDEM_OK);
}

/* The connection goes on: the next request may bring another token. */
void idem__http_stay_over(idem__http_stay *stay, uint64_t now_ms) {
  idem_http_conn *conn = stay->conn;
  idem__http_stay_end(conn);
  conn->now_ms = now_ms;
  conn->inside++;
  if (conn->on_stop) conn->on_stop(conn->stop_user, IDEM__HTTP_STOP_UNAUTHORIZED);
  leave(conn, IDEM_OK);
  idem__http_conn_notify(conn);
}

static void tell_unfinished(const idem_http_conn *conn, const char *message) {
  idem_log_write(conn->server->log, &(idem_log_record){.level = IDEM_LOG_WARN,
                                                       .message = message,
                                                       .peer = conn->peer,
                                                       .detail = UNFINISHED,
                                                       .detail_len = sizeof UNFINISHED - 1});
}

/* What runs is answered, and is the last; what came behind it is not looked at. */
void idem__http_give_way(idem_http_conn *conn, uint64_t now_ms) {
  conn->now_ms = now_ms;
  conn->inside++;
  if (conn->websocket) {
    idem__websocket_close(conn->websocket, 1013, UNFINISHED);
    tell_unfinished(conn, "a WebSocket was closed");
  } else if (conn->exchange.active) {
    conn->exchange.keep_alive = false;
    idem_buf_deinit(&conn->backlog);
    tell_unfinished(conn, "a connection ends with its answer");
  } else {
    idem__h1_stop(conn, 503, 0, "unavailable");
    conn->refusal.why = UNFINISHED;
    idem__h1_refuse_and_close(conn);
  }
  leave(conn, IDEM_OK);
  idem__http_conn_notify(conn);
}

bool idem__http_conn_closing(const idem_http_conn *conn) { return conn->closing; }

bool idem__http_conn_finished(const idem_http_conn *conn) {
  if (conn->failed != IDEM_OK) return true;
  return conn->closing && conn->eof && !conn->first && !conn->queued;
}

bool idem__http_conn_silent(const idem_http_conn *conn) { return !conn->heard; }

bool idem__http_conn_may_go(const idem_http_conn *conn) {
  if (conn->exchange.active || conn->websocket || conn->backlog.len || conn->queued) return false;
  return !conn->request || !conn->request->head_len;
}

bool idem__http_conn_idle(const idem_http_conn *conn) {
  return !conn->request && !conn->exchange.active && !conn->websocket && !conn->backlog.len;
}
