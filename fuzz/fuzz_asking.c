/* fuzz_asking.c - a hostile server on the other end of idem_connect: any order of heads, bodies,
 * broken streams and time over HTTP, any bytes over WebSocket. Every call ends exactly once.
 * Input: a byte for the transport, then records of an action, a length and that many bytes. */
#include "http/http_client.h"
#include "http/ws_client.h"

#include <stdlib.h>
#include <string.h>

#define MUST(condition)                                                                            \
  do {                                                                                             \
    if (!(condition)) abort();                                                                     \
  } while (0)

#define CALLS 64
#define ASKS 256

typedef struct ask {
  idem__http_post *post;
  bool live, streaming;
} ask;

typedef struct world {
  idem_conn *conn;
  idem__http_client *http;
  idem__ws_client *ws;
  idem_buf out;
  ask asks[ASKS];
  size_t count;
  uint64_t now_ms;
  unsigned accepted;
  unsigned ended[CALLS + 1];
} world;

static uint64_t clock_ns(void *ctx) { return ((const world *)ctx)->now_ms * 1000000; }

static void plain_random(void *ctx, uint8_t *bytes, size_t len) {
  (void)ctx;
  memset(bytes, 7, len);
}

static void on_response(idem_conn *conn, const idem_response *response, void *user) {
  world *in = user;
  (void)conn;
  MUST(response->id <= CALLS && ++in->ended[response->id] == 1);
}

static void call(world *in) {
  if (in->accepted == CALLS) return;
  in->accepted += idem_call_json(in->conn, "m", NULL, 0, NULL, on_response, in, NULL) == IDEM_OK;
}

/* ------------------------------------------------------------------------- HTTP */

static idem_status fake_send(void *user, idem__http_post *post, const idem__http_ask *what,
                             void **handle) {
  world *in = user;
  MUST(!what->last_event_id || !strpbrk(what->last_event_id, "\r\n"));
  if (in->count == ASKS) return IDEM_E_LIMIT;
  ask *one = &in->asks[in->count++];
  *one = (ask){.post = post, .live = true};
  *handle = one;
  return IDEM_OK;
}

static void fake_cancel(void *user, void *handle) {
  ask *one = handle;
  (void)user;
  MUST(one->live);
  one->live = false;
}

static void fake_hold(void *user, void *handle, bool held) {
  (void)user, (void)held;
  MUST(((const ask *)handle)->live);
}

static ask *chosen(world *in, uint8_t which) {
  for (size_t i = 0; i < in->count; i++) {
    ask *one = &in->asks[(which + i) % in->count];
    if (one->live) return one;
  }
  return NULL;
}

static void end(world *in, ask *one, int status, idem_status outcome, const char *text,
                size_t len) {
  static const int codes[] = {200, 202, 204, 302, 400, 401, 404, 429, 500, 503, 777, 0};
  int code = one->streaming ? 200 : codes[(size_t)status % (sizeof codes / sizeof *codes)];
  const char *type = status % 3 ? "application/json" : "text/plain";
  one->live = false;
  if (!one->streaming)
    idem__http_post_head(one->post, &(idem__http_outcome){.http_status = code, .type = type});
  idem__http_post_end(one->post,
                      &(idem__http_outcome){.status = outcome,
                                            .why = "why",
                                            .http_status = code,
                                            .type = type,
                                            .retry_after = status % 5 ? NULL : "12",
                                            .body = one->streaming ? "" : text,
                                            .len = one->streaming ? 0 : len},
                      in->now_ms);
}

static void act_http(world *in, uint8_t action, const char *text, size_t len) {
  ask *one = in->count ? chosen(in, action) : NULL;
  switch (action % 8) {
  case 0: call(in); break;
  case 1: idem_notify_json(in->conn, "n", NULL, 0); break;
  case 2: in->now_ms += len * 40; break;
  case 3:
    if (in->accepted) idem_cancel(in->conn, 1 + action / 8 % in->accepted);
    break;
  case 4:
    if (one) end(in, one, action / 8, IDEM_OK, text, len);
    break;
  case 5:
    if (one) end(in, one, action / 8, IDEM_E_CLOSED, text, len);
    break;
  default:
    if (!one) break;
    if (!one->streaming)
      one->streaming = idem__http_post_head(
          one->post, &(idem__http_outcome){.http_status = 200, .type = "text/event-stream"});
    if (!idem__http_post_data(one->post, text, len)) end(in, one, 0, IDEM_E_CANCELLED, "", 0);
  }
  if (idem_conn_deadline(in->conn) <= in->now_ms) idem_conn_expire(in->conn);
  idem__http_client_pump(in->http, in->now_ms);
}

static void open_http(world *in) {
  MUST(idem__http_client_new(&(idem__http_client_opts){.conn = in->conn,
                                                       .max_requests = 3,
                                                       .send = fake_send,
                                                       .cancel = fake_cancel,
                                                       .hold = fake_hold,
                                                       .user = in},
                             &in->http) == IDEM_OK);
}

/* -------------------------------------------------------------------- WebSocket */

static void open_ws(world *in, bool shake_hands) {
  char accept[IDEM__WEBSOCKET_ACCEPT], text[256];
  idem_buf answer;
  idem_buf_init(&in->out, NULL, (size_t)1 << 20);
  MUST(idem__ws_client_new(&(idem__ws_client_opts){.host = "h",
                                                   .target = "/",
                                                   .conn = in->conn,
                                                   .out = &in->out,
                                                   .random = plain_random},
                           &in->ws) == IDEM_OK);
  if (!shake_hands) return;
  idem__websocket_accept(IDEM__VIEW("BwcHBwcHBwcHBwcHBwcHBw=="), accept);
  idem_buf_fixed(&answer, text, sizeof text);
  MUST(idem_buf_printf(&answer,
                       "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
                       "Sec-WebSocket-Accept: %.28s\r\n\r\n",
                       accept) == IDEM_OK);
  MUST(idem__ws_client_feed(in->ws, answer.data, answer.len) == IDEM_OK);
  MUST(idem__ws_client_open(in->ws));
}

/* False: the peer would be closed now. */
static bool act_ws(world *in, uint8_t action, const char *text, size_t len) {
  idem_status status = IDEM_OK;
  if (action % 4 == 0)
    call(in);
  else
    status = idem__ws_client_feed(in->ws, text, len);
  in->out.len = 0;
  return status == IDEM_OK && idem__ws_client_pump(in->ws) == IDEM_OK;
}

/* --------------------------------------------------------------------- the play */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static world in;
  in = (world){.now_ms = 1000};
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.framing = IDEM_FRAMING_WHOLE;
  policy.answer_junk = false;
  policy.limits.message_bytes = 4096;
  MUST(idem_conn_new(&(idem_conn_opts){.policy = &policy, .now_ns = clock_ns, .clock_ctx = &in},
                     &in.conn) == IDEM_OK);
  bool http = !size || data[0] % 3 == 0, goes_on = true;
  if (http)
    open_http(&in);
  else
    open_ws(&in, data[0] % 3 == 1);
  for (size_t at = 1; goes_on && at + 2 <= size;) {
    uint8_t action = data[at];
    size_t len = data[at + 1] < size - at - 2 ? data[at + 1] : size - at - 2;
    const char *text = (const char *)data + at + 2;
    if (http)
      act_http(&in, action, text, len);
    else
      goes_on = act_ws(&in, action, text, len);
    at += 2 + len;
  }
  idem__http_client_free(in.http);
  idem__ws_client_free(in.ws);
  idem_conn_free(in.conn);
  idem_buf_deinit(&in.out);
  for (size_t i = 0; i < in.count; i++) MUST(!in.asks[i].live);
  for (unsigned id = 1; id <= in.accepted; id++) MUST(in.ended[id] == 1);
  return 0;
}
