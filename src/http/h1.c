/* h1.c - one HTTP/1.1 connection read as requests, by llhttp with every leniency off.
 * The parser stops after each head and each message, so that checks and handlers run outside it
 * and answers keep their order. A request that lies whole in the lent input is never copied.
 * See docs/internals/http.md. */
#include "conn.h"

/* ----------------------------------------------------------------- closing */

void idem__http_begin_closing(idem_http_conn *conn) {
  if (!conn->closing) conn->last_ms = conn->now_ms;
  conn->closing = true;
  conn->judged = false;
  idem__http_judge_gone(conn);
  idem_buf_deinit(&conn->backlog);
  if (!conn->request) return;
  idem__http_server_give_request(conn->server, conn->request);
  conn->request = NULL;
}

static void dispatch(idem_http_conn *conn);

/* The parser counts down what was said to come. */
static uint64_t body_bytes(const idem_http_conn *conn) {
  uint64_t here = conn->request ? conn->request->body.len : 0;
  bool said = conn->request && conn->request->head_len && (conn->parser.flags & F_CONTENT_LENGTH);
  return said ? here + conn->parser.content_length : here;
}

void idem__h1_refuse_and_close(idem_http_conn *conn) {
  conn->exchange.bytes = body_bytes(conn);
  conn->exchange.active = true;
  conn->exchange.keep_alive = false;
  idem__http_refuse(&conn->exchange, &conn->refusal, NULL);
  idem__http_begin_closing(conn);
}

/* The parser knows methods by name and ends at the first byte that is none's. All that are registered are of capital letters; what
 * has another byte there, or a blank before any, is not HTTP. What follows is not looked at, so that the answer is the same wherever
 * input was split. */
static bool is_unknown_method(const idem_http_conn *conn, llhttp_errno_t error) {
  const char *at = llhttp_get_error_pos(&conn->parser);
  if (error != HPE_INVALID_METHOD || !at) return false;
  bool ends = *at == ' ' && conn->request && at > conn->request->base;
  return (*at >= 'A' && *at <= 'Z') || *at == '-' || ends;
}

static void refuse_syntax(idem_http_conn *conn, llhttp_errno_t error) {
  bool length = error == HPE_UNEXPECTED_CONTENT_LENGTH || error == HPE_INVALID_CONTENT_LENGTH;
  if (is_unknown_method(conn, error))
    idem__h1_stop(conn, 501, 0, "method-not-allowed");
  else if (length)
    idem__h1_stop(conn, 400, 0, "bad-content-length");
  else
    idem__h1_stop(conn, 400, IDEM_RPC_PARSE_ERROR, NULL);
  idem__h1_refuse_and_close(conn);
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
  idem_status status = idem_buf_put(&request->head, data, *len);
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
    idem_status status = idem_buf_put(&request->head, request->base, head);
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
      conn->parser.content_length > IDEM__H1_DRAIN && (conn->parser.flags & F_CONTENT_LENGTH);
  conn->discard = true;
  if (conn->refusal.close || (long_body && body_expected(&conn->parser)))
    idem__h1_refuse_and_close(conn);
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
    idem__h1_stop(conn, 431, 0, "header-too-large");
    idem__h1_refuse_and_close(conn);
  } else if (error == HPE_PAUSED || error == HPE_PAUSED_UPGRADE) {
    *used = (size_t)(llhttp_get_error_pos(&conn->parser) - input);
    resume_parser(&conn->parser, error);
    paused(conn, input, *used);
  } else {
    refuse_syntax(conn, error);
  }
  return conn->failed;
}

/* Behind the last request of a connection nothing will be looked at. */
idem_status idem__h1_keep_backlog(idem_http_conn *conn, const char *data, size_t len) {
  bool last = conn->exchange.active && !conn->exchange.keep_alive;
  return len && !last ? idem_buf_put(&conn->backlog, data, len) : IDEM_OK;
}

static bool can_parse(const idem_http_conn *conn) {
  return !conn->closing && !conn->exchange.active && !conn->websocket &&
         !idem__http_waits_for_judge(conn) && conn->queued <= 2 * conn->server->queued_bytes;
}

static idem_status feed_websocket(idem_http_conn *conn, const char *data, size_t len) {
  if (!len) return IDEM_OK;
  idem_status status = idem__websocket_feed(conn->websocket, data, len);
  conn->message_by_ms = idem__websocket_due(conn->websocket, conn->now_ms, conn->server->request_ms,
                                            conn->server->request_most_ms);
  return status;
}

idem_status idem__h1_parse(idem_http_conn *conn, const char *data, size_t len) {
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
  return status == IDEM_OK ? idem__h1_keep_backlog(conn, data, len) : status;
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
  idem__http_stay_begin(conn);
  idem__http_log_access(exchange, 0);
  idem__http_exchange_drop(exchange);
}

/* A whole request is here: it is answered now, or the conn waits for its answer. */
static void dispatch(idem_http_conn *conn) {
  idem_http_request *request = conn->request;
  idem_http_exchange *exchange = &conn->exchange;
  conn->request = NULL;
  exchange->active = true;
  exchange->bytes = request->body.len;
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

idem_status idem__h1_resume(idem_http_conn *conn) {
  conn->resume = false;
  if (conn->judged) continue_judging(conn);
  if (conn->closing || conn->failed != IDEM_OK) return conn->failed;
  idem_buf input = conn->backlog;
  idem_buf_init(&conn->backlog, &conn->server->alloc, input.max);
  conn->resuming = true; /* so that the first of several is not taken for the last */
  idem_status status = idem__h1_parse(conn, input.data, input.len);
  conn->resuming = false;
  idem_buf_deinit(&input);
  if (conn->eof && !conn->exchange.active && !conn->backlog.len) idem__http_begin_closing(conn);
  return status;
}
