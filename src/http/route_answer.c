/* route_answer.c - what the functions of an embedder's routes may do: read a request, answer it now or later,
 * stream a body. A kept exchange is counted with its route and goes with its client, its time or its server.
 * See docs/internals/http.md. */
#include "conn.h"

#include <string.h>

#define ANSWER_LINES_MAX ((size_t)32 * 1024) /* header lines of one answer */

/* An exchange that its function has kept. */
typedef struct keeping {
  idem_http_keep_opts opts;
  idem_http_exchange *exchange;
  bool streaming;
  bool events; /* streaming: comments keep it alive */
} keeping;

/* ---------------------------------------------------------------- requests */

static const char *lend(idem__view text, size_t *len) {
  *len = text.len;
  return text.at;
}

idem_http_method idem_http_request_method(const idem_http_request *request) {
  return request->method;
}
const char *idem_http_request_path(const idem_http_request *request, size_t *len) {
  return lend(request->path, len);
}
const char *idem_http_request_query(const idem_http_request *request, size_t *len) {
  return lend(request->query, len);
}
const char *idem_http_request_header(const idem_http_request *request, const char *name,
                                     size_t *len) {
  return lend(idem__http_header_value(request, name), len);
}
const char *idem_http_request_body(const idem_http_request *request, size_t *len) {
  return lend(request->body.len ? request->body : IDEM__VIEW(""), len);
}
const char *idem_http_exchange_principal(const idem_http_exchange *exchange) {
  return exchange->principal;
}
yyjson_val *idem_http_exchange_claim(const idem_http_exchange *exchange, const char *name) {
  return exchange->grant ? idem__grant_claim(exchange->grant, name) : NULL;
}

/* ----------------------------------------------------------------- keeping */

/* Nobody waits, or everything has been said. */
static void forget(idem_http_exchange *exchange) {
  if (!exchange->kept) return;
  keeping *kept = exchange->user;
  exchange->kept = false;
  exchange->user = NULL;
  exchange->route->kept--;
  idem__free(&exchange->conn->server->alloc, kept);
}

static void tell_gone(idem_http_exchange *exchange) {
  const keeping *kept = exchange->user;
  idem_http_keep_opts opts = kept->opts;
  forget(exchange);
  if (opts.on_gone) opts.on_gone(opts.user);
}

static void on_abort(idem_http_exchange *exchange, void *user) {
  (void)user;
  tell_gone(exchange);
}

static void give_up(idem_http_exchange *exchange, const char *why) {
  tell_gone(exchange);
  idem__http_refuse(
      exchange, &(idem__http_refusal){.status = 503, .reason = "unavailable", .why = why}, NULL);
}

static void on_stop(void *user, idem__http_stop how) {
  keeping *kept = user;
  idem_http_exchange *exchange = kept->exchange;
  if (kept->streaming) {
    tell_gone(exchange);
    idem__http_stream_end(exchange);
  } else if (how == IDEM__HTTP_STOP_NOW) {
    give_up(exchange, "the server is going");
  }
}

/* Who has ended its input still reads a single answer; a stream is read by nobody then. */
static bool on_input_end(idem_http_exchange *exchange, void *user) {
  (void)exchange;
  return ((const keeping *)user)->streaming;
}

static void on_time(idem_http_exchange *exchange, uint64_t now_ms, void *user) {
  const keeping *kept = user;
  if (!kept->streaming) {
    give_up(exchange, "a route did not answer in time");
  } else if (kept->events) {
    idem__http_set_time(exchange, now_ms + exchange->conn->server->stream_ms);
    idem__http_stream_put(exchange, IDEM__SSE_COMMENT, sizeof IDEM__SSE_COMMENT - 1);
  }
}

idem_status idem_http_keep(idem_http_exchange *exchange, const idem_http_keep_opts *opts) {
  idem__http_route *route = exchange->route;
  if (!exchange->active || exchange->kept) return IDEM_E_INVAL;
  if (route->kept >= route->is.max_kept) return IDEM_E_LIMIT;
  keeping *kept = idem__calloc(&exchange->conn->server->alloc, sizeof *kept);
  if (!kept) return IDEM_E_NOMEM;
  kept->opts = *opts;
  kept->exchange = exchange;
  route->kept++;
  exchange->kept = true;
  idem__http_exchange_set_user(exchange, kept);
  idem__http_on_abort(exchange, on_abort, kept);
  idem__http_on_input_end(exchange, on_input_end);
  idem__http_on_time(exchange, exchange->conn->now_ms + route->is.answer_ms, on_time);
  idem__http_conn_on_stop(exchange->conn, on_stop, kept);
  return IDEM_OK;
}

/* ----------------------------------------------------------------- answers */

static void answer_internal_error(idem_http_exchange *exchange, const char *why) {
  forget(exchange);
  idem__http_refuse(
      exchange, &(idem__http_refusal){.status = 500, .code = IDEM_RPC_INTERNAL_ERROR, .why = why},
      NULL);
}

/* The lines of an answer stand instead of its route's. */
static idem_status write_lines(const idem_http_exchange *exchange, const char *const *headers,
                               idem_buf *out) {
  idem__view usual = {exchange->route->lines.data, exchange->route->lines.len};
  idem_status status = idem__http_put_others(out, usual, headers);
  return status == IDEM_OK ? idem__http_put_lines(out, headers) : status;
}

static bool good_answer(const idem_http_answer *answer) {
  if (answer->status < 200 || !idem__http_reason(answer->status)) return false;
  return idem__http_good_lines(answer->headers) &&
         (!answer->type || idem__http_good_value(answer->type));
}

/* What the private side takes. `lines` are the caller's to free. */
static idem_status prepare(const idem_http_exchange *exchange, const idem_http_answer *answer,
                           idem_buf *lines, idem__http_answer *out) {
  idem_buf_init(lines, &exchange->conn->server->alloc, ANSWER_LINES_MAX);
  if (!good_answer(answer)) return IDEM_E_INVAL;
  *out = (idem__http_answer){.status = (uint16_t)answer->status,
                             .type = answer->type,
                             .body = answer->body,
                             .len = answer->len,
                             .lasts = answer->lasts};
  if (!answer->headers) return IDEM_OK;
  idem_status status = write_lines(exchange, answer->headers, lines);
  out->policy = (idem__view){lines->data, lines->len};
  return status;
}

idem_status idem_http_respond(idem_http_exchange *exchange, const idem_http_answer *answer) {
  idem_buf lines;
  idem__http_answer prepared;
  if (!exchange->active) return IDEM_E_INVAL;
  idem_status status = prepare(exchange, answer, &lines, &prepared);
  if (status == IDEM_OK) {
    forget(exchange);
    idem__http_respond(exchange, &prepared);
  } else {
    answer_internal_error(exchange, "a route's answer is none");
  }
  idem_buf_deinit(&lines);
  return status;
}

/* ----------------------------------------------------------------- streams */

static bool is_events(const char *type) {
  static const char events[] = "text/event-stream";
  return type && strncmp(type, events, sizeof events - 1) == 0;
}

static idem_status begin(idem_http_exchange *exchange, const idem__http_answer *head) {
  keeping *kept = exchange->user;
  if (exchange->head_only) forget(exchange);
  idem_status status = idem__http_stream_head(exchange, head);
  if (exchange->head_only) {
    idem__http_stream_end(exchange);
    return IDEM_E_CLOSED;
  }
  kept->streaming = true;
  kept->events = is_events(head->type);
  uint64_t comment_ms = exchange->conn->now_ms + exchange->conn->server->stream_ms;
  idem__http_set_time(exchange, kept->events ? comment_ms : UINT64_MAX);
  idem__http_conn_notify(exchange->conn);
  return status;
}

idem_status idem_http_stream_begin(idem_http_exchange *exchange, const idem_http_answer *head) {
  idem_buf lines;
  idem__http_answer prepared;
  if (!exchange->active || !exchange->kept || ((keeping *)exchange->user)->streaming)
    return IDEM_E_INVAL;
  idem_status status = prepare(exchange, head, &lines, &prepared);
  if (status == IDEM_OK)
    status = begin(exchange, &prepared);
  else
    answer_internal_error(exchange, "a route's answer is none");
  idem_buf_deinit(&lines);
  return status;
}

static void on_room(void *user) {
  const keeping *kept = user;
  if (kept->opts.on_room) kept->opts.on_room(kept->exchange, kept->opts.user);
}

idem_status idem_http_stream_write(idem_http_exchange *exchange, const void *data, size_t len) {
  keeping *kept = exchange->kept ? exchange->user : NULL;
  if (!kept || !kept->streaming) return IDEM_E_INVAL;
  if (!idem__http_conn_has_room(exchange->conn, on_room, kept)) return IDEM_E_LIMIT;
  if (kept->events)
    idem__http_set_time(exchange, exchange->conn->now_ms + exchange->conn->server->stream_ms);
  return idem__http_stream_put(exchange, data, len);
}

void idem_http_stream_end(idem_http_exchange *exchange) {
  if (!exchange->kept) return;
  forget(exchange);
  idem__http_stream_end(exchange);
}

/* ----------------------------------------------------------------- serving */

void idem__http_serve_embedded(idem_http_exchange *exchange, const idem_http_request *request) {
  const idem_http_route *is = &exchange->route->is;
  if (!is->no_rate_limit && !idem__http_admit(exchange->conn->server->limiter, exchange)) return;
  is->serve(exchange, request, is->user);
  if (exchange->active && !exchange->kept)
    answer_internal_error(exchange, "a route did not answer");
}
