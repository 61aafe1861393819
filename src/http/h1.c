/* h1.c - one HTTP/1.1 connection as a state machine around llhttp, every leniency off.
 * The parser stops after each head and each message, so that checks and handlers run outside it
 * and answers keep their order. A request that lies whole in the lent input is never copied.
 * See docs/internals/http.md. */
#include "conn.h"

#include <string.h>

#define TRAILER_MAX 4096              /* trailer fields and chunk extensions of one request */
#define DRAIN_MAX ((size_t)64 * 1024) /* body of a refused request we read to keep the conn */
#define BACKLOG_MAX ((size_t)64 * 1024)
#define LINGER_MS 2000

/* ------------------------------------------------------ parser's callbacks */

static idem_http_conn *conn_of(llhttp_t *parser) { return parser->data; }

/* Ends parsing: the refusal is answered and the connection closed. */
static int stop(idem_http_conn *conn, uint16_t status, int code, const char *reason) {
  if (!conn->refusal.status)
    conn->refusal = (idem__http_refusal){.status = status, .code = code, .reason = reason};
  conn->refusal.close = true;
  return -1;
}

static int stop_no_memory(idem_http_conn *conn) {
  conn->failed = IDEM_E_NOMEM;
  return -1;
}

static int on_url(llhttp_t *parser, const char *at, size_t len) {
  idem_http_request *request = conn_of(parser)->request;
  if (!request->target.value_len) request->target.value = (uint32_t)(at - request->base);
  request->target.value_len += (uint32_t)len;
  return 0;
}

static int add_trailer(idem_http_conn *conn, size_t len) {
  conn->request->trailer_bytes += len;
  return conn->request->trailer_bytes > TRAILER_MAX ? stop(conn, 400, 0, "header-too-large") : 0;
}

static int on_extension(llhttp_t *parser, const char *at, size_t len) {
  (void)at;
  return add_trailer(conn_of(parser), len);
}

static int on_header_field(llhttp_t *parser, const char *at, size_t len) {
  idem_http_conn *conn = conn_of(parser);
  idem_http_request *request = conn->request;
  if (request->head_len) return add_trailer(conn, len);
  if (request->too_many) return 0;
  if (request->in_value || !request->header_count) {
    request->too_many = request->header_count >= conn->server->header_count;
    if (request->too_many) return 0;
    request->in_value = false;
    request->headers[request->header_count++] =
        (idem__http_header){.name = (uint32_t)(at - request->base)};
  }
  request->headers[request->header_count - 1].name_len += (uint32_t)len;
  return 0;
}

static int on_header_value(llhttp_t *parser, const char *at, size_t len) {
  idem_http_conn *conn = conn_of(parser);
  idem_http_request *request = conn->request;
  if (request->head_len) return add_trailer(conn, len);
  if (request->too_many) return 0;
  idem__http_header *header = &request->headers[request->header_count - 1];
  if (!header->value_len) header->value = (uint32_t)(at - request->base);
  header->value_len += (uint32_t)len;
  request->in_value = true;
  return 0;
}

/* One too many is refused when it is whole: by then a fault in it has shown, wherever input was
 * split. */
static int on_header_value_complete(llhttp_t *parser) {
  idem_http_conn *conn = conn_of(parser);
  conn->request->in_value = true; /* an empty value has no span */
  return conn->request->too_many ? stop(conn, 431, 0, "header-too-large") : 0;
}

static int on_headers_complete(llhttp_t *parser) {
  (void)parser;
  return HPE_PAUSED;
}

static int on_body(llhttp_t *parser, const char *at, size_t len) {
  idem_http_conn *conn = conn_of(parser);
  idem_http_request *request = conn->request;
  size_t room = conn->discard ? DRAIN_MAX : idem__http_body_most(conn);
  if (len > room - request->body.len) return stop(conn, 413, 0, "oversize");
  if (conn->discard || !request->body.len) {
    request->body = (idem__view){at, request->body.len + len};
    return 0;
  }
  if (!idem__http_own_body(request)) return stop_no_memory(conn);
  if (idem__buf_put(&request->body_copy, at, len) != IDEM_OK) return stop_no_memory(conn);
  request->body = (idem__view){request->body_copy.data, request->body_copy.len};
  return 0;
}

static int on_message_complete(llhttp_t *parser) {
  (void)parser;
  return HPE_PAUSED;
}

void idem__h1_settings(llhttp_settings_t *settings) {
  llhttp_settings_init(settings);
  settings->on_url = on_url;
  settings->on_header_field = on_header_field;
  settings->on_header_value = on_header_value;
  settings->on_header_value_complete = on_header_value_complete;
  settings->on_headers_complete = on_headers_complete;
  settings->on_chunk_extension_name = on_extension;
  settings->on_chunk_extension_value = on_extension;
  settings->on_body = on_body;
  settings->on_message_complete = on_message_complete;
}

/* ----------------------------------------------------------------- closing */

void idem__http_begin_closing(idem_http_conn *conn) {
  if (!conn->closing) conn->last_ms = conn->now_ms;
  conn->closing = true;
  conn->judged = false;
  idem__http_judge_gone(conn);
  idem__buf_deinit(&conn->backlog);
  if (!conn->request) return;
  idem__http_server_give_request(conn->server, conn->request);
  conn->request = NULL;
}

static void dispatch(idem_http_conn *conn);

/* Answers what could not be parsed or would take too long to, and closes. */
static void refuse_and_close(idem_http_conn *conn) {
  conn->exchange.active = true;
  conn->exchange.keep_alive = false;
  idem__http_refuse(&conn->exchange, &conn->refusal, NULL);
  idem__http_begin_closing(conn);
}

static void refuse_syntax(idem_http_conn *conn, llhttp_errno_t error) {
  bool length = error == HPE_UNEXPECTED_CONTENT_LENGTH || error == HPE_INVALID_CONTENT_LENGTH;
  if (length)
    stop(conn, 400, 0, "bad-content-length");
  else
    stop(conn, 400, IDEM_RPC_PARSE_ERROR, NULL);
  refuse_and_close(conn);
}

/* ----------------------------------------------------------------- parsing */

static bool begin_request(idem_http_conn *conn, const char *data) {
  idem_http_request *request = idem__http_server_take_request(conn->server);
  if (!request) return false;
  request->base = data;
  request->body = (idem__view){NULL, 0};
  request->target = (idem__http_header){0};
  request->head_len = request->trailer_bytes = request->header_count = 0;
  request->in_value = request->too_many = request->in_use = false;
  request->held = 0;
  request->began_ms = conn->now_ms;
  conn->request = request;
  conn->discard = conn->upgrading = false;
  conn->refusal.status = 0;
  conn->exchange =
      (idem_http_exchange){.conn = conn, .at_ms = UINT64_MAX, .minor = 1, .began_ms = conn->now_ms};
  return true;
}

/* No more than the limit is looked at. What was begun before goes on in a copy of its own, so that
 * the head's parts stay in one piece. */
static idem_status continue_head(idem_http_conn *conn, const char *data, size_t *len,
                                 const char **input) {
  idem_http_request *request = conn->request;
  size_t room = conn->server->header_bytes - request->head.len;
  if (*len > room) *len = room;
  if (!request->head.len) return IDEM_OK;
  idem_status status = idem__buf_put(&request->head, data, *len);
  if (status != IDEM_OK) return status;
  request->base = request->head.data;
  *input = request->head.data + request->head.len - *len;
  return IDEM_OK;
}

/* Input ends (at `end`) inside a request: what was lent is copied. */
static idem_status keep_partial(idem_http_conn *conn, const char *end) {
  idem_http_request *request = conn->request;
  bool lent = !request->head.len;
  size_t head = request->head_len;
  if (!head) head = lent ? (size_t)(end - request->base) : request->head.len;
  if (lent) {
    idem_status status = idem__buf_put(&request->head, request->base, head);
    if (status != IDEM_OK) return status;
    request->base = request->head.data;
    if (request->head_len) idem__http_split_target(request); /* its views have moved */
  }
  return conn->discard || idem__http_own_body(request) ? IDEM_OK : IDEM_E_NOMEM;
}

static bool body_expected(const llhttp_t *parser) {
  return (parser->flags & F_CHUNKED) || parser->content_length > 0;
}

/* What was found of the head, for its body. */
static void head_judged(idem_http_conn *conn) {
  /* To anything else, or where it is refused, we do not upgrade: what follows is HTTP as before. */
  if (!conn->upgrading || conn->refusal.status) conn->parser.upgrade = 0;
  if (!conn->refusal.status) return;
  bool long_body =
      conn->parser.content_length > DRAIN_MAX && (conn->parser.flags & F_CONTENT_LENGTH);
  conn->discard = true;
  if (conn->refusal.close || (long_body && body_expected(&conn->parser))) refuse_and_close(conn);
}

static void end_without_body(idem_http_conn *conn, const char *at);

/* The head is complete: judge it before its body is read. */
static void head_complete(idem_http_conn *conn, const char *input, size_t used) {
  idem_http_request *request = conn->request;
  request->head_len = (size_t)(input - request->base) + used;
  if (request->head.len) request->head.len = request->head_len; /* what follows was not its own */
  idem__http_judge(conn, request);
  if (!conn->judging) head_judged(conn);
}

/* Who asks was said at last. */
static void continue_judging(idem_http_conn *conn) {
  conn->judged = false;
  conn->request->began_ms = conn->now_ms; /* its body has all its time */
  idem__http_judge_rest(conn, conn->request);
  head_judged(conn);
  if (!conn->closing && conn->failed == IDEM_OK && !body_expected(&conn->parser))
    end_without_body(conn, "");
}

static void resume_parser(llhttp_t *parser, llhttp_errno_t error) {
  if (error == HPE_PAUSED)
    llhttp_resume(parser);
  else
    llhttp_resume_after_upgrade(parser);
}

/* A request without a body ends with its head; the parser tells when it is asked again. */
static void end_without_body(idem_http_conn *conn, const char *at) {
  llhttp_errno_t error = llhttp_execute(&conn->parser, at, 0);
  if (error == HPE_PAUSED || error == HPE_PAUSED_UPGRADE) {
    resume_parser(&conn->parser, error);
    dispatch(conn);
  } else if (error != HPE_OK) {
    refuse_syntax(conn, error);
  }
}

/* What paused the parser: a head or a message. */
static void paused(idem_http_conn *conn, const char *input, size_t used) {
  if (conn->request->head_len) {
    dispatch(conn);
    return;
  }
  head_complete(conn, input, used);
  if (conn->judging || conn->closing || conn->failed != IDEM_OK) return;
  if (!body_expected(&conn->parser)) end_without_body(conn, input + used);
}

/* Parses up to the next pause. */
static idem_status step(idem_http_conn *conn, const char *data, size_t len, size_t *used) {
  if (!conn->request && !begin_request(conn, data)) return IDEM_E_NOMEM;
  const char *input = data;
  idem_http_request *request = conn->request;
  if (!request->head_len) {
    idem_status status = continue_head(conn, data, &len, &input);
    if (status != IDEM_OK) return status;
  }
  llhttp_errno_t error = llhttp_execute(&conn->parser, input, len);
  *used = len;
  if (conn->failed != IDEM_OK) return conn->failed;
  if (error == HPE_OK) {
    if (request->head_len || (size_t)(input + len - request->base) < conn->server->header_bytes)
      return IDEM_OK;
    stop(conn, 431, 0, "header-too-large");
    refuse_and_close(conn);
  } else if (error == HPE_PAUSED || error == HPE_PAUSED_UPGRADE) {
    *used = (size_t)(llhttp_get_error_pos(&conn->parser) - input);
    resume_parser(&conn->parser, error);
    paused(conn, input, *used);
  } else {
    refuse_syntax(conn, error);
  }
  return conn->failed;
}

static idem_status keep_backlog(idem_http_conn *conn, const char *data, size_t len) {
  return len ? idem__buf_put(&conn->backlog, data, len) : IDEM_OK;
}

static bool can_parse(const idem_http_conn *conn) {
  return !conn->closing && !conn->exchange.active && !conn->websocket && !conn->judging &&
         conn->queued <= 2 * conn->server->queued_bytes;
}

static idem_status feed_websocket(idem_http_conn *conn, const char *data, size_t len) {
  if (!len) return IDEM_OK;
  idem_status status = idem__websocket_feed(conn->websocket, data, len);
  conn->message_by_ms = idem__websocket_due(conn->websocket, conn->now_ms, conn->server->request_ms,
                                            conn->server->request_most_ms);
  return status;
}

static idem_status parse(idem_http_conn *conn, const char *data, size_t len) {
  while (len && can_parse(conn)) {
    size_t used = 0;
    if (!conn->request && (*data == '\r' || *data == '\n')) { /* empty lines between requests */
      data++, len--;
      continue;
    }
    idem_status status = step(conn, data, len, &used);
    if (status != IDEM_OK) return status;
    data += used;
    len -= used;
  }
  if (conn->closing) return IDEM_OK;
  if (conn->websocket) return feed_websocket(conn, data, len);
  idem_status status = conn->request ? keep_partial(conn, data) : IDEM_OK;
  return status == IDEM_OK ? keep_backlog(conn, data, len) : status;
}

/* ---------------------------------------------------------------- dispatch */

static void upgrade(idem_http_conn *conn, idem_http_exchange *exchange,
                    const idem_http_request *request) {
  char accept[IDEM__WEBSOCKET_ACCEPT];
  idem__websocket_accept(idem__http_header_value(request, "sec-websocket-key"), accept);
  conn->websocket = exchange->route->binding.upgrade(conn, request, exchange->route->is.user);
  if (!conn->websocket) {
    conn->failed = IDEM_E_NOMEM;
    return;
  }
  static const char head[] = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                             "Connection: Upgrade\r\nSec-WebSocket-Accept: ";
  idem__http_put(conn, head, sizeof head - 1);
  idem__http_put(conn, accept, sizeof accept);
  idem__http_put(conn, "\r\n\r\n", 4);
  exchange->status = 101;
  idem__http_log_access(exchange, 0);
  idem__http_exchange_drop(exchange);
}

/* A whole request is here: it is answered now, or the conn waits for its answer. */
static void dispatch(idem_http_conn *conn) {
  idem_http_request *request = conn->request;
  idem_http_exchange *exchange = &conn->exchange;
  conn->request = NULL;
  exchange->active = true;
  request->in_use = true;
  if (conn->upgrading && !conn->refusal.status)
    upgrade(conn, exchange, request);
  else if (conn->refusal.status)
    idem__http_refuse(exchange, &conn->refusal, NULL);
  else if (request->method == IDEM_HTTP_OPTIONS)
    idem__http_serve_options(exchange, request);
  else if (exchange->route->embedded)
    idem__http_serve_embedded(exchange, request);
  else
    exchange->route->is.serve(exchange, request, exchange->route->is.user);
  request->in_use = false;
  if (!request->held) idem__http_server_give_request(conn->server, request);
}

/* ------------------------------------------------------------ entry points */

idem_status idem__http_conn_new(const idem__http_conn_opts *opts, idem_http_conn **out) {
  idem_http_server *server = opts->server;
  idem_http_conn *conn = idem__calloc(&server->alloc, sizeof *conn);
  *out = NULL;
  if (!conn) return IDEM_E_NOMEM;
  llhttp_init(&conn->parser, HTTP_REQUEST, &server->settings);
  conn->parser.data = conn;
  conn->server = server;
  idem__buf_init(&conn->backlog, &server->alloc, (size_t)1 << 20);
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
  idem_status status = conn->backlog.len ? keep_backlog(conn, data, len) : parse(conn, data, len);
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
  bool waits = conn->judging || conn->judged;
  if (cancels || (!conn->exchange.active && !conn->backlog.len && !waits))
    idem__http_begin_closing(conn);
  return leave(conn, IDEM_OK);
}

bool idem__http_conn_want_read(const idem_http_conn *conn) {
  if (conn->eof) return false;
  if (conn->closing) return true;
  return conn->queued <= conn->server->queued_bytes && conn->backlog.len < BACKLOG_MAX;
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
  if (!conn->heard) return conn->last_ms + conn->server->first_ms;
  return conn->request ? request_deadline(conn) : idle;
}

static idem_status resume(idem_http_conn *conn) {
  conn->resume = false;
  if (conn->judged) continue_judging(conn);
  if (conn->closing || conn->failed != IDEM_OK) return conn->failed;
  idem__buf input = conn->backlog;
  idem__buf_init(&conn->backlog, &conn->server->alloc, input.max);
  idem_status status = parse(conn, input.data, input.len);
  idem__buf_deinit(&input);
  if (conn->eof && !conn->exchange.active && !conn->backlog.len) idem__http_begin_closing(conn);
  return status;
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
  stop(conn, 503, 0, "unavailable");
  refuse_and_close(conn);
}

static idem_status overdue(idem_http_conn *conn) {
  if (conn->resume) return resume(conn);
  if (conn->closing) return IDEM_E_TIMEOUT;
  if (conn->exchange.active) {
    expire_exchange(conn);
  } else if (conn->websocket) {
    return expire_websocket(conn);
  } else if (conn->judging) {
    refuse_judging(conn);
  } else if (conn->request) {
    stop(conn, 408, 0, "unavailable");
    refuse_and_close(conn);
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

static void stop_conn(idem_http_conn *conn, bool now) {
  if (conn->exchange.active || conn->websocket) {
    conn->exchange.keep_alive = false;
    if (conn->on_stop) conn->on_stop(conn->stop_user, now);
  } else if (conn->judging && !conn->closing) {
    conn->exchange.keep_alive = false;
    if (now) refuse_judging(conn);
  } else if (!conn->closing) {
    idem__http_begin_closing(conn);
  }
}

void idem__http_conn_close(idem_http_conn *conn, uint64_t now_ms) {
  conn->now_ms = now_ms;
  conn->inside++;
  stop_conn(conn, false);
  leave(conn, IDEM_OK);
}

void idem__http_conn_abort(idem_http_conn *conn, uint64_t now_ms) {
  conn->now_ms = now_ms;
  conn->inside++;
  stop_conn(conn, true);
  leave(conn, IDEM_OK);
}

void idem__http_give_way(idem_http_conn *conn, uint64_t now_ms) {
  conn->now_ms = now_ms;
  conn->inside++;
  if (conn->websocket) {
    idem__websocket_close(conn->websocket, 1013, "too much is unfinished");
  } else {
    stop(conn, 503, 0, "unavailable");
    refuse_and_close(conn);
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
