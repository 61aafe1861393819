/* test_ws_client.c - the asking end of a WebSocket without I/O, against a server of our own frames,
 * at any split of the bytes. */
#include "http/ws_client.h"

#include "support/fault_alloc.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct world {
  idem_conn *conn;
  idem__ws_client *client;
  idem_buf out;
  idem__websocket *far; /* the server's end */
  char sent[8192];      /* by it */
  size_t sent_len;
  char heard[1024]; /* "text;" for each message it got */
  int far_closed;
  int answers;
  idem_status status;
} world;

static uint64_t clock_ns(void *ctx) {
  (void)ctx;
  return 1000000000;
}

static void plain_random(void *ctx, uint8_t *bytes, size_t len) {
  (void)ctx;
  for (size_t i = 0; i < len; i++) bytes[i] = (uint8_t)(i * 37 + 11);
}

static idem_status far_output(void *user, const char *data, size_t len) {
  world *in = user;
  assert_true(in->sent_len + len <= sizeof in->sent);
  memcpy(in->sent + in->sent_len, data, len);
  in->sent_len += len;
  return IDEM_OK;
}

static void far_message(idem__websocket *socket, const char *text, size_t len, void *user) {
  world *in = user;
  static const char answer[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":true}";
  strncat(in->heard, text, len);
  strcat(in->heard, ";");
  idem__websocket_send(socket, answer, sizeof answer - 1);
}

static void far_close(idem__websocket *socket, uint16_t code, void *user) {
  (void)socket;
  ((world *)user)->far_closed = code;
}

static void on_response(idem_conn *conn, const idem_response *response, void *user) {
  world *in = user;
  (void)conn;
  in->answers++;
  in->status = response->status;
}

static idem_status open_world(world *in, const idem_alloc *alloc, const char *const *headers) {
  *in = (world){0};
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.framing = IDEM_FRAMING_WHOLE;
  idem_buf_init(&in->out, alloc, 65536);
  idem_status status = idem_conn_new(
      &(idem_conn_opts){.policy = &policy, .alloc = alloc, .now_ns = clock_ns}, &in->conn);
  if (status != IDEM_OK) return status;
  return idem__ws_client_new(&(idem__ws_client_opts){.host = "example.org",
                                                     .target = "/x?y=1",
                                                     .headers = headers,
                                                     .conn = in->conn,
                                                     .out = &in->out,
                                                     .random = plain_random,
                                                     .alloc = alloc},
                             &in->client);
}

static void close_world(world *in) {
  idem__ws_client_free(in->client);
  idem_conn_free(in->conn);
  idem__websocket_free(in->far);
  idem_buf_deinit(&in->out);
}

static void open_far(world *in) {
  assert_int_equal(idem__websocket_new(&(idem__websocket_opts){.on_message = far_message,
                                                               .on_close = far_close,
                                                               .output = far_output,
                                                               .user = in},
                                       &in->far),
                   IDEM_OK);
}

/* The answer that the question in `out` deserves. */
static size_t good_answer(const world *in, char *text, size_t size) {
  char accept[IDEM__WEBSOCKET_ACCEPT];
  const char *key = NULL;
  for (size_t i = 0; i + 19 < in->out.len && !key; i++)
    if (memcmp(in->out.data + i, "Sec-WebSocket-Key: ", 19) == 0) key = in->out.data + i + 19;
  assert_non_null(key);
  idem__websocket_accept((idem__view){key, 24}, accept);
  return (size_t)snprintf(text, size,
                          "HTTP/1.1 101 Fine\r\nupgrade: foo, WEBSOCKET\r\nConnection: Upgrade\r\n"
                          "Sec-WebSocket-Accept: %.*s \r\n\r\n",
                          (int)sizeof accept, accept);
}

static idem_status feed(world *in, const char *data, size_t len, size_t piece) {
  idem_status status = IDEM_OK;
  for (size_t at = 0; at < len && status == IDEM_OK; at += piece) {
    size_t take = len - at < piece ? len - at : piece;
    char *lent = malloc(take); /* so that reading past it shows */
    assert_non_null(lent);
    memcpy(lent, data + at, take);
    status = idem__ws_client_feed(in->client, lent, take);
    free(lent);
  }
  return status;
}

static void the_question_is_whole(void **state) {
  (void)state;
  world in;
  static const char *const headers[] = {"Authorization: Bearer x", NULL};
  assert_int_equal(open_world(&in, NULL, headers), IDEM_OK);
  assert_int_equal(idem_buf_puts(&in.out, "\0"), IDEM_OK);
  assert_memory_equal(in.out.data, "GET /x?y=1 HTTP/1.1\r\nHost: example.org\r\n", 40);
  assert_non_null(strstr(in.out.data, "\r\nSec-WebSocket-Version: 13\r\n"));
  assert_non_null(strstr(in.out.data, "\r\nAuthorization: Bearer x\r\n\r\n"));
  close_world(&in);
  static const char *const bad[] = {"Host: x", "upgrade: y", "X: a\r\nY: b", "none", ": x"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const char *const list[] = {bad[i], NULL};
    assert_int_equal(open_world(&in, NULL, list), IDEM_E_INVAL);
    close_world(&in);
  }
}

static void a_call_is_answered_at_any_split(void **state) {
  (void)state;
  for (size_t piece = 1; piece < 40; piece++) {
    world in;
    char text[512];
    assert_int_equal(open_world(&in, NULL, NULL), IDEM_OK);
    open_far(&in);
    size_t len = good_answer(&in, text, sizeof text);
    in.out.len = 0;
    assert_int_equal(idem_call_json(in.conn, "m", NULL, 0, NULL, on_response, &in, NULL), IDEM_OK);
    assert_int_equal(idem__ws_client_pump(in.client), IDEM_OK);
    assert_int_equal(in.out.len, 0); /* nothing before the handshake */
    assert_int_equal(feed(&in, text, len, piece), IDEM_OK);
    assert_true(idem__ws_client_open(in.client));
    assert_int_equal(idem__ws_client_pump(in.client), IDEM_OK);
    assert_int_equal(idem__websocket_feed(in.far, in.out.data, in.out.len), IDEM_OK);
    assert_string_equal(in.heard, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"};");
    assert_int_equal(feed(&in, in.sent, in.sent_len, piece), IDEM_OK);
    assert_int_equal(in.answers, 1);
    assert_int_equal(in.status, IDEM_OK);
    in.out.len = 0;
    idem_conn_close(in.conn);
    assert_int_equal(idem__ws_client_pump(in.client), IDEM_OK);
    assert_int_equal(idem__websocket_feed(in.far, in.out.data, in.out.len), IDEM_OK);
    assert_int_equal(in.far_closed, 1000);
    close_world(&in);
  }
}

/* It is not waited for, and no more of it is told than fits a line. */
static void a_long_refusal_is_cut(void **state) {
  (void)state;
  static const char head[] = "HTTP/1.1 503 Busy\r\nContent-Length: 99999999999999999999\r\n\r\n";
  char words[5000];
  memset(words, 'x', sizeof words);
  world in;
  assert_int_equal(open_world(&in, NULL, NULL), IDEM_OK);
  assert_int_equal(feed(&in, head, sizeof head - 1, sizeof head), IDEM_OK);
  assert_string_equal(idem__ws_client_fault(in.client), "HTTP 503 Service Unavailable");
  assert_int_equal(feed(&in, words, 4000, 4000), IDEM_OK);
  assert_int_equal(feed(&in, words, 200, 200), IDEM_E_PROTO);
  assert_int_equal(strlen(idem__ws_client_fault(in.client)), 30 + 300 + 3);
  close_world(&in);
}

static void an_unproven_answer_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *fault;
  } cases[] = {
      {"HTTP/1.1 403 Go away\r\n\r\n", "HTTP 403 Forbidden"},
      {"HTTP/1.1 403 Go away\r\nContent-Length: 0\r\n\r\n", "HTTP 403 Forbidden"},
      {"HTTP/1.1 403 Go away\r\nContent-Length: 9\r\n\r\nno\x1b[2J\nx\n",
       "HTTP 403 Forbidden: no\\x1b[2J\\nx"},
      {"HTTP/1.1 401 No\r\nContent-Length: 40\r\n\r\n{\"error\":{\"code\":1,\"message\":\"who "
       "now\"}}",
       "HTTP 401 Unauthorized: who now"},
      {"HTTP/1.1 499 Odd\r\ncontent-length: 2\r\n\r\n[]", "HTTP 499: []"},
      {"HTTP/1.0 101 Old\r\n\r\n", "the answer is not HTTP/1.1"},
      {"HTTP/1.1 1x1 Odd\r\n\r\n", "the answer is not HTTP/1.1"},
      {"\r\n\r\n", "the answer is not HTTP/1.1"},
      {"HTTP/1.1 101 Fine\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
       "the handshake is not proven"},
      {"HTTP/1.1 101 Fine\r\nno colon\r\n\r\n", "a header without a colon"},
      {"HTTP/1.1 101 Fine\r\nSec-WebSocket-Protocol: x\r\n\r\n",
       "the server chose what was not offered"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (size_t piece = 1; piece < 100; piece += 7) {
      world in;
      assert_int_equal(open_world(&in, NULL, NULL), IDEM_OK);
      assert_int_equal(feed(&in, cases[i].text, strlen(cases[i].text), piece), IDEM_E_PROTO);
      assert_string_equal(idem__ws_client_fault(in.client), cases[i].fault);
      assert_false(idem__ws_client_open(in.client));
      assert_int_equal(feed(&in, "x", 1, 1), IDEM_E_PROTO);
      close_world(&in);
    }
  }
}

static void play(fault_alloc *faults, void *user) {
  world *in = user;
  char text[512];
  if (open_world(in, &faults->alloc, NULL) == IDEM_OK) {
    size_t len = good_answer(in, text, sizeof text);
    bool accepted = idem_call_json(in->conn, "m", NULL, 0, NULL, on_response, in, NULL) == IDEM_OK;
    if (feed(in, text, len, 7) == IDEM_OK) idem__ws_client_pump(in->client);
    close_world(in);
    assert_int_equal(in->answers, accepted);
  } else {
    close_world(in);
  }
}

static void nothing_leaks_whatever_fails(void **state) {
  (void)state;
  static world in;
  assert_true(fault_alloc_sweep(play, &in, 500) > 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_question_is_whole),
      cmocka_unit_test(a_call_is_answered_at_any_split),
      cmocka_unit_test(an_unproven_answer_is_refused),
      cmocka_unit_test(a_long_refusal_is_cut),
      cmocka_unit_test(nothing_leaks_whatever_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
