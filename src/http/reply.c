/* reply.c - giving the answer: heads, bodies, refusals, streams.
 * Head and body are written by hand into one output block, so that an answer is one write; every
 * refusal carries a whole JSON-RPC error object. See docs/internals/http.md. */
#include "conn.h"

#include <string.h>

#define OPTIONS_ROOM 4096 /* the header lines that answer OPTIONS */
#define HEADERS_ROOM 8192 /* those of a refusal, with all that a challenge asks for */

static const char usual_lines[] = "X-Content-Type-Options: nosniff\r\n"
                                  "Cache-Control: no-store\r\n"
                                  "Content-Security-Policy: default-src 'none'; "
                                  "frame-ancestors 'none'\r\n";

idem__view idem__http_usual_lines(void) {
  return (idem__view){usual_lines, sizeof usual_lines - 1};
}

/* ------------------------------------------------------------------- heads */

/* Appends to memory that was made large enough. */
typedef struct head_writer {
  char *at;
} head_writer;
static void write_bytes(head_writer *out, const char *text, size_t len) {
  memcpy(out->at, text, len);
  out->at += len;
}
#define write_literal(out, literal) write_bytes((out), "" literal, sizeof(literal) - 1)
static void write_text(head_writer *out, const char *text) { write_bytes(out, text, strlen(text)); }
static void write_number(head_writer *out, size_t number) {
  char digits[24];
  size_t at = sizeof digits;
  do digits[--at] = (char)('0' + number % 10);
  while (number /= 10);
  write_bytes(out, digits + at, sizeof digits - at);
}

static size_t text_length(const char *text) { return text ? strlen(text) : 0; }

#define HEAD_ROOM 640 /* everything of fixed length that a head may hold */

static const char *exposed(const idem_http_exchange *exchange) {
  return exchange->route ? exchange->route->is.expose_headers : NULL;
}

static bool is_for_any_origin(const idem_http_exchange *exchange) {
  return exchange->route && exchange->route->is.any_origin;
}

static const char *judge_says(const idem_http_exchange *exchange) {
  bool judged = exchange->route && !exchange->route->is.no_token;
  return judged ? exchange->conn->server->judge_says : NULL;
}

static void write_cors(head_writer *out, const idem_http_exchange *exchange) {
  bool any = is_for_any_origin(exchange);
  if (!exchange->origin && !any) return;
  write_literal(out, "Access-Control-Allow-Origin: ");
  write_text(out, any ? "*" : exchange->origin);
  if (!any) write_literal(out, "\r\nVary: Origin");
  write_literal(out, "\r\nAccess-Control-Expose-Headers: Retry-After, WWW-Authenticate");
  if (exposed(exchange)) {
    write_literal(out, ", ");
    write_text(out, exposed(exchange));
  }
  if (judge_says(exchange)) {
    write_literal(out, ", ");
    write_text(out, judge_says(exchange));
  }
  write_literal(out, "\r\n");
}

static void write_connection(head_writer *out, const idem_http_exchange *exchange) {
  if (!exchange->keep_alive)
    write_literal(out, "Connection: close\r\n");
  else if (exchange->minor == 0)
    write_literal(out, "Connection: keep-alive\r\n");
}

/* What the answer says itself, or its route, or what is usual. */
static idem__view policy_of(const idem_http_exchange *exchange, const idem__http_answer *answer) {
  if (answer->policy.at) return answer->policy;
  if (!exchange->route) return idem__http_usual_lines();
  return (idem__view){exchange->route->lines.data, exchange->route->lines.len};
}

/* Writes a head and leaves room for `extra` bytes after it. `length` SIZE_MAX: a stream. */
static block *put_head(idem_http_exchange *exchange, const idem__http_answer *answer, size_t length,
                       size_t extra) {
  idem_http_conn *conn = exchange->conn;
  size_t type_len = text_length(answer->type), headers_len = text_length(answer->headers);
  idem__view policy = policy_of(exchange, answer);
  size_t room = HEAD_ROOM + policy.len + headers_len + text_length(exchange->origin) +
                text_length(exposed(exchange)) + text_length(judge_says(exchange)) +
                text_length(exchange->judge_lines) + type_len + extra;
  block *out = conn->failed == IDEM_OK ? idem__http_room_for(conn, room) : NULL;
  if (!out) return NULL;
  head_writer head = {out->data + out->len};
  idem__view status = idem__http_status_text(answer->status);
  write_literal(&head, "HTTP/1.1 ");
  write_bytes(&head, status.at, status.len);
  write_literal(&head, "\r\n");
  write_bytes(&head, conn->server->date, conn->server->date_len);
  write_bytes(&head, policy.at, policy.len);
  if (answer->type) {
    write_literal(&head, "Content-Type: ");
    write_bytes(&head, answer->type, type_len);
    write_literal(&head, "\r\n");
  }
  if (length != SIZE_MAX && answer->status != 204 && answer->status != 304) {
    write_literal(&head, "Content-Length: ");
    write_number(&head, length);
    write_literal(&head, "\r\n");
  } else if (length == SIZE_MAX && exchange->minor == 1) {
    write_literal(&head, "Transfer-Encoding: chunked\r\n");
  }
  write_connection(&head, exchange);
  write_cors(&head, exchange);
  if (exchange->judge_lines) write_text(&head, exchange->judge_lines);
  if (answer->headers) write_bytes(&head, answer->headers, headers_len);
  write_literal(&head, "\r\n");
  size_t len = (size_t)(head.at - out->data) - out->len;
  out->len += len;
  conn->queued += len;
  return out;
}

/* ----------------------------------------------------------------- answers */

void idem__http_give_share(idem_http_exchange *exchange) {
  if (exchange->counted) idem__shares_give(exchange->conn->server->shares, &exchange->client);
  exchange->counted = false;
}

static void free_texts(idem_http_exchange *exchange, const idem_alloc *alloc) {
  idem__free(alloc, exchange->logged);
  idem__free(alloc, exchange->origin);
  idem__free(alloc, exchange->principal);
  idem__free(alloc, exchange->log_line);
  idem__free(alloc, exchange->challenge);
  idem__free(alloc, exchange->judge_lines);
  exchange->logged = NULL;
  exchange->origin = exchange->log_line = exchange->principal = exchange->challenge = NULL;
  exchange->judge_lines = NULL;
  idem__grant_unref(exchange->grant);
  exchange->grant = NULL;
}

void idem__http_exchange_drop(idem_http_exchange *exchange) {
  idem_http_conn *conn = exchange->conn;
  if (conn && !conn->websocket) { /* a WebSocket keeps them */
    idem__http_give_share(exchange);
    if (conn->stay) idem__http_stay_end(conn);
  }
  exchange->active = false;
  if (exchange->held) idem__http_let_go(exchange);
  exchange->on_abort = NULL;
  exchange->on_input_end = NULL;
  exchange->on_time = NULL;
  exchange->at_ms = UINT64_MAX;
  if (conn) {
    conn->on_room = NULL;
    if (!conn->websocket) conn->on_stop = NULL;
  }
  if (conn && (exchange->origin || exchange->log_line || exchange->principal ||
               exchange->challenge || exchange->judge_lines || exchange->logged))
    free_texts(exchange, &conn->server->alloc);
}

void idem__http_exchange_ended(idem_http_exchange *exchange) {
  idem_http_conn *conn = exchange->conn;
  bool keep_alive = exchange->keep_alive && !(conn->eof && !conn->backlog.len && !conn->resuming);
  idem__http_exchange_drop(exchange);
  if (!keep_alive)
    idem__http_begin_closing(conn);
  else if (conn->backlog.len)
    conn->resume = true; /* handlers run in the driver's calls, never inside a reply */
  idem__http_conn_notify(conn);
}

void idem__http_respond(idem_http_exchange *exchange, const idem__http_answer *answer) {
  size_t length = answer->chunk ? answer->chunk->len : answer->len;
  bool body = length && !exchange->head_only;
  size_t extra = body && length <= IDEM__HTTP_COPY ? length : 0;
  exchange->status = answer->status;
  bool written = put_head(exchange, answer, length, extra) != NULL;
  if (answer->chunk) {
    if (written && body)
      idem__http_put_chunk(exchange->conn, answer->chunk);
    else
      idem_chunk_free(answer->chunk);
  } else if (written && body && answer->lasts) {
    idem__http_put_chunk(exchange->conn, &(idem_chunk){.data = answer->body, .len = answer->len});
  } else if (written && body) {
    idem__http_put(exchange->conn, answer->body, answer->len);
  }
  if (exchange->log_line) idem__http_log_access(exchange, body ? length : 0);
  idem__http_exchange_ended(exchange);
}

/* ---------------------------------------------------------------- refusals */

#define MESSAGE_MAX 256u

/* "Invalid Request: unsupported content type; Content-Type: application/json". What the peer sent is in a hint's value
 * alone. */
static idem_status put_cause(idem_buf *out, const char *name, const idem__http_refusal *refusal) {
  char plain[2 * MESSAGE_MAX], escaped[4 * sizeof plain];
  idem_buf line, text;
  idem_buf_fixed(&line, plain, sizeof plain);
  idem_buf_printf(&line, "%s: ", name);
  for (const char *at = refusal->cause ? "" : refusal->reason; *at; at++)
    idem_buf_put(&line, *at == '-' ? " " : at, 1);
  if (refusal->cause) idem_buf_printf(&line, "%s", refusal->cause);
  if (refusal->hint)
    idem_buf_printf(&line, "; %s%s%s", refusal->hint, *refusal->hint_value ? " " : "",
                    refusal->hint_value);
  idem_buf_fixed(&text, escaped, sizeof escaped);
  idem_status status = idem_text_escape(&text, line.data, line.len, SIZE_MAX);
  if (status != IDEM_OK) return status;
  return idem_text_json_string(out, text.data, idem_utf8_cut(text.data, text.len, MESSAGE_MAX));
}

static idem_status put_code(idem_buf *out, const idem__http_refusal *refusal, idem_code_set codes,
                            bool causes) {
  int code = refusal->code ? refusal->code : IDEM_RPC_INVALID_REQUEST;
  const char *name = idem_code_name(codes, code);
  bool own = code == IDEM_RPC_INVALID_REQUEST ||
             (code == IDEM_RPC_INTERNAL_ERROR && refusal->cause); /* others say what they are */
  if (!name) name = "Invalid Request";
  idem_status status = idem_buf_printf(out, "\"error\":{\"code\":%d,\"message\":", code);
  if (status != IDEM_OK) return status;
  return causes && own && refusal->reason ? put_cause(out, name, refusal)
                                          : idem_text_json_string(out, name, strlen(name));
}

static idem_status put_hint(idem_buf *out, const idem__http_refusal *refusal) {
  char text[160];
  idem_buf plain;
  idem_buf_fixed(&plain, text, sizeof text);
  const char *value = refusal->hint_value;
  idem_status status = idem_buf_printf(&plain, "%s%s%s", refusal->hint, *value ? " " : "", value);
  if (status == IDEM_OK) status = idem_buf_puts(out, ",\"hint\":");
  return status == IDEM_OK ? idem_text_json_string(out, text, plain.len) : status;
}

#define ID_ROOM 256 /* in the body of a refusal */

static idem_status put_id(idem_buf *out, const idem__http_refusal *refusal,
                          idem_unknown_id unknown_id) {
  if (refusal->id && refusal->id_len <= ID_ROOM)
    return idem_buf_printf(out, "\"id\":%.*s,", (int)refusal->id_len, refusal->id);
  return unknown_id == IDEM_UNKNOWN_ID_NULL ? idem_buf_puts(out, "\"id\":null,") : IDEM_OK;
}

idem_status idem__http_put_error(idem_buf *out, const idem__http_refusal *refusal,
                                 idem_code_set codes, bool causes, idem_unknown_id unknown_id,
                                 idem_error_detail detail) {
  bool data = refusal->reason && detail != IDEM_ERROR_DETAIL_NONE;
  idem_status status = idem_buf_puts(out, "{\"jsonrpc\":\"2.0\",");
  if (status == IDEM_OK) status = put_id(out, refusal, unknown_id);
  if (status == IDEM_OK) status = put_code(out, refusal, codes, causes);
  if (status == IDEM_OK && data)
    status = idem_buf_printf(out, ",\"data\":{\"reason\":\"%s\"", refusal->reason);
  if (status == IDEM_OK && data && refusal->hint) status = put_hint(out, refusal);
  if (status == IDEM_OK && data) status = idem_buf_puts(out, "}");
  return status == IDEM_OK ? idem_buf_puts(out, "}}") : status;
}

/* A set of codes of its own has a number for what is too large; its data says how large it may be. */
static int put_too_large(idem_buf *out, const idem_http_conn *conn) {
  static const int code = -32012;
  const idem_http_server *server = conn->server;
  idem_buf_printf(out, "{\"jsonrpc\":\"2.0\",%s\"error\":{\"code\":%d,\"message\":\"%s\"",
                  server->unknown_id == IDEM_UNKNOWN_ID_NULL ? "\"id\":null," : "", code,
                  idem_code_name(server->codes, code));
  if (server->detail == IDEM_ERROR_DETAIL_FULL)
    idem_buf_printf(out, ",\"data\":{\"maxSize\":%zu,\"unit\":\"bytes\"}",
                    idem__http_body_most(conn));
  idem_buf_puts(out, "}}");
  return code;
}

/* Returns the code. */
static int put_body(idem_buf *out, const idem_http_exchange *exchange,
                    const idem__http_refusal *refusal) {
  const idem_http_conn *conn = exchange->conn;
  const idem_http_server *server = conn->server;
  const idem__http_route *route = exchange->route;
  if (!route) route = idem__http_told_route(server); /* whose way is shown, in its words */
  const idem__http_rules *rules = route ? route->binding.rules : NULL;
  bool causes = rules && rules->causes && !server->canonical;
  if (server->codes == IDEM_CODES_ERLMCP && refusal->status == 413) return put_too_large(out, conn);
  idem__http_put_error(out, refusal, server->codes, causes, server->unknown_id, server->detail);
  return refusal->code ? refusal->code : IDEM_RPC_INVALID_REQUEST;
}

/* Returns what stands before another. */
static const char *put_methods(idem_buf *out, unsigned methods, const char *between) {
  static const struct {
    idem_http_method method;
    const char *name;
  } names[] = {{IDEM_HTTP_GET, "GET"},        {IDEM_HTTP_HEAD, "HEAD"},
               {IDEM_HTTP_POST, "POST"},      {IDEM_HTTP_PUT, "PUT"},
               {IDEM_HTTP_PATCH, "PATCH"},    {IDEM_HTTP_DELETE, "DELETE"},
               {IDEM_HTTP_OPTIONS, "OPTIONS"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!(methods & (unsigned)names[i].method)) continue;
    idem_buf_printf(out, "%s%s", between, names[i].name);
    between = ", ";
  }
  return between;
}

static void put_allow(idem_buf *out, const idem__http_route *route) {
  idem_buf_puts(out, "Allow: ");
  put_methods(out, (route ? route->methods : 0) | IDEM_HTTP_OPTIONS, "");
  idem_buf_puts(out, "\r\n");
}

static void put_refusal_headers(idem_buf *out, const idem_http_exchange *exchange, uint16_t status,
                                bool allow) {
  const char *challenge = exchange->route ? exchange->route->is.challenge : NULL;
  const char *usual = exchange->conn->server->challenge;
  if (!challenge) challenge = usual ? usual : "Bearer";
  if (exchange->challenge) challenge = exchange->challenge;
  if (status == 401 || exchange->challenge)
    idem_buf_printf(out, "WWW-Authenticate: %s\r\n", challenge);
  if (status == 405 && allow) put_allow(out, exchange->route);
  if (status == 426) idem_buf_puts(out, "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n");
  if (status == 503) idem_buf_puts(out, "Retry-After: 1\r\n");
}

void idem__http_refuse(idem_http_exchange *exchange, const idem__http_refusal *refusal,
                       const char *headers) {
  char body_text[2048], header_text[HEADERS_ROOM];
  idem_buf body, lines;
  idem_buf_fixed(&body, body_text, sizeof body_text);
  idem_buf_fixed(&lines, header_text, sizeof header_text - 1);
  int code = put_body(&body, exchange, refusal);
  put_refusal_headers(&lines, exchange, refusal->status, !headers);
  if (headers) idem_buf_put(&lines, headers, strlen(headers));
  header_text[lines.len] = 0;
  exchange->note = refusal->reason;
  idem__http_log_refusal(exchange, refusal);
  idem__metrics_error(exchange->conn->server->metrics, code);
  idem__http_respond(exchange, &(idem__http_answer){.status = refusal->status,
                                                    .type = "application/json",
                                                    .headers = header_text,
                                                    .body = body_text,
                                                    .len = body.len});
}

/* ------------------------------------------------------------------- rates */

bool idem__http_admit(idem__limiter *limiter, idem_http_exchange *exchange) {
  char header[48];
  uint32_t retry_s;
  idem_http_conn *conn = exchange->conn;
  if (!limiter || idem__limiter_take(limiter, &exchange->client, conn->now_ms, &retry_s))
    return true;
  idem__metrics_add(conn->server->metrics, IDEM__M_RATE_LIMITED, 1);
  idem_buf lines;
  idem_buf_fixed(&lines, header, sizeof header - 1);
  idem_buf_printf(&lines, "Retry-After: %u\r\n", (unsigned)retry_s);
  header[lines.len] = 0;
  idem__http_refuse(exchange, &(idem__http_refusal){.status = 429, .reason = "rate-limited"},
                    header);
  return false;
}

/* ----------------------------------------------------------------- OPTIONS */

/* A browser knows no patterns of header names: those it names that begin so are named back to it. */
static void put_prefixed(idem_buf *out, const char *prefix, const idem_http_request *request) {
  idem__view list = idem__http_header_value(request, "access-control-request-headers"), name;
  size_t len = strlen(prefix);
  while (list.at && idem__view_next(&list, &name)) {
    bool begins = name.len > len && idem__text_equal_nocase(name.at, len, prefix, len);
    if (begins && idem__view_is_token(name) && out->len + name.len < OPTIONS_ROOM - 128)
      idem_buf_printf(out, ", %.*s", (int)name.len, name.at);
  }
}

/* What a browser asks before it asks: who may, with which methods and headers. */
void idem__http_serve_options(idem_http_exchange *exchange, const idem_http_request *request) {
  const idem__http_route *route = exchange->route;
  char text[OPTIONS_ROOM];
  idem_buf lines;
  idem_buf_fixed(&lines, text, sizeof text - 1);
  put_allow(&lines, route);
  if (route && (exchange->origin || route->is.any_origin)) {
    idem_buf_puts(&lines, "Access-Control-Allow-Methods: ");
    const unsigned post = IDEM_HTTP_POST;
    put_methods(&lines, route->methods & post, put_methods(&lines, route->methods & ~post, ""));
    idem_buf_puts(&lines, "\r\nAccess-Control-Allow-Headers: Authorization, Content-Type, Accept");
    if (route->is.allow_headers) idem_buf_printf(&lines, ", %s", route->is.allow_headers);
    if (exchange->conn->server->judge_reads && !route->is.no_token)
      idem_buf_printf(&lines, ", %s", exchange->conn->server->judge_reads);
    if (route->is.allow_prefix) put_prefixed(&lines, route->is.allow_prefix, request);
    idem_buf_puts(&lines, "\r\nAccess-Control-Max-Age: 600\r\n");
  }
  text[lines.len] = 0;
  idem__http_respond(exchange, &(idem__http_answer){.status = 204, .headers = text});
}

/* ----------------------------------------------------------------- streams */

idem_status idem__http_stream_head(idem_http_exchange *exchange, const idem__http_answer *head) {
  if (exchange->minor == 0) exchange->keep_alive = false;
  exchange->streaming = true;
  exchange->status = head->status;
  if (!put_head(exchange, head, SIZE_MAX, 0)) return IDEM_E_NOMEM;
  idem__http_stay_begin(exchange->conn);
  return exchange->conn->failed;
}

idem_status idem__http_stream_begin(idem_http_exchange *exchange, uint16_t status, const char *type,
                                    const char *headers) {
  return idem__http_stream_head(
      exchange, &(idem__http_answer){.status = status, .type = type, .headers = headers});
}

idem_status idem__http_stream_put(idem_http_exchange *exchange, const char *data, size_t len) {
  idem_http_conn *conn = exchange->conn;
  if (!len || exchange->head_only) return conn->failed;
  if (exchange->minor == 0) {
    idem__http_put(conn, data, len);
  } else {
    char size[24];
    idem_buf text;
    idem_buf_fixed(&text, size, sizeof size);
    idem_buf_printf(&text, "%zx\r\n", len);
    idem__http_put(conn, size, text.len);
    idem__http_put(conn, data, len);
    idem__http_put(conn, "\r\n", 2);
  }
  idem__http_conn_notify(conn);
  return conn->failed;
}

void idem__http_stream_end(idem_http_exchange *exchange) {
  if (exchange->minor == 1 && !exchange->head_only) idem__http_put(exchange->conn, "0\r\n\r\n", 5);
  if (exchange->log_line) idem__http_log_access(exchange, 0);
  idem__http_exchange_ended(exchange);
}

bool idem__http_head_of_events(idem_http_exchange *exchange) {
  if (!exchange->head_only) return false;
  idem__http_stream_begin(exchange, 200, "text/event-stream", "X-Accel-Buffering: no\r\n");
  idem__http_stream_end(exchange);
  return true;
}

/* --------------------------------------------------------------- accessors */

void idem__http_on_abort(idem_http_exchange *exchange,
                         void (*fn)(idem_http_exchange *exchange, void *user), void *user) {
  exchange->on_abort = fn;
  exchange->abort_user = user;
}
void idem__http_on_input_end(idem_http_exchange *exchange,
                             bool (*fn)(idem_http_exchange *exchange, void *user)) {
  exchange->on_input_end = fn;
}
void idem__http_on_time(idem_http_exchange *exchange, uint64_t at_ms,
                        void (*fn)(idem_http_exchange *exchange, uint64_t now_ms, void *user)) {
  exchange->on_time = fn;
  exchange->at_ms = at_ms;
}
void idem__http_set_time(idem_http_exchange *exchange, uint64_t at_ms) { exchange->at_ms = at_ms; }
idem_http_conn *idem__http_exchange_conn(const idem_http_exchange *exchange) {
  return exchange->conn;
}
const idem__ip *idem__http_exchange_client(const idem_http_exchange *exchange) {
  return &exchange->client;
}
const char *idem__http_exchange_peer(const idem_http_exchange *exchange) {
  return exchange->conn->peer;
}
uint64_t idem__http_exchange_now(const idem_http_exchange *exchange) {
  return exchange->conn->now_ms;
}
void idem__http_exchange_set_user(idem_http_exchange *exchange, void *user) {
  exchange->user = user;
}
