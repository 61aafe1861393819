/* test_ws_endpoint.c - WebSockets to the engine: handshakes and who may shake, answers now and late, the
 * end of quiet and dead ones. */
#include "support/fault_alloc.h"
#include "support/http_peer.h"
#include "support/ws_frame.h"

#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

/* ------------------------------------------------------------------ handshake */

#define SHAKE(extra)                                                                               \
  "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n" \
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" extra "\r\n"
#define VERSION "Sec-WebSocket-Version: 13\r\n"

static void digests_are_the_standard_ones(void **state) {
  (void)state;
  uint8_t digest[IDEM__SHA1_BYTES];
  static const uint8_t abc[] = {0xa9, 0x99, 0x3e, 0x36, 0x47, 0x06, 0x81, 0x6a, 0xba, 0x3e,
                                0x25, 0x71, 0x78, 0x50, 0xc2, 0x6c, 0x9c, 0xd0, 0xd8, 0x9d};
  static const uint8_t none[] = {0xda, 0x39, 0xa3, 0xee, 0x5e, 0x6b, 0x4b, 0x0d, 0x32, 0x55,
                                 0xbf, 0xef, 0x95, 0x60, 0x18, 0x90, 0xaf, 0xd8, 0x07, 0x09};
  static const uint8_t million[] = {0x34, 0xaa, 0x97, 0x3c, 0xd4, 0xc4, 0xda, 0xa4, 0xf6, 0x1e,
                                    0xeb, 0x2b, 0xdb, 0xad, 0x27, 0x31, 0x65, 0x34, 0x01, 0x6f};
  idem__sha1("abc", 3, digest);
  assert_memory_equal(digest, abc, sizeof abc);
  idem__sha1("", 0, digest);
  assert_memory_equal(digest, none, sizeof none);
  char *text = malloc(1000000);
  assert_non_null(text);
  memset(text, 'a', 1000000);
  idem__sha1(text, 1000000, digest);
  free(text);
  assert_memory_equal(digest, million, sizeof million);
}

static void a_handshake_opens_a_socket_of_messages(void **state) {
  (void)state;
  static const char shake[] = SHAKE(VERSION);
  char bytes[1024];
  memcpy(bytes, shake, sizeof shake - 1);
  size_t len = sizeof shake - 1;
  static const char ask[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[\n1]}";
  static const char told[] = "{\"jsonrpc\":\"2.0\",\"method\":\"hello\"}";
  len += frame(bytes + len, FIN | TEXT, ask, sizeof ask - 1, true);
  len += frame(bytes + len, FIN | TEXT, told, sizeof told - 1, true);
  len += frame(bytes + len, FIN | TEXT, "nonsense", 8, true);
  static const size_t sizes[] = {0, 1, 3, 50};
  for (size_t i = 0; i < 4; i++) {
    http_peer peer;
    assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
    http_peer_feed(&peer, bytes, len, sizes[i]);
    static const char head[] = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                               "Connection: Upgrade\r\n"
                               "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    assert_memory_equal(peer.output, head, sizeof head - 1);
    assert_memory_equal(peer.output + sizeof head - 1,
                        "\x81\x25{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[1]}\x81\x4b", 41);
    assert_non_null(strstr(peer.output, "\"id\":null,\"error\":{\"code\":-32700"));
    assert_int_equal(peer.hellos, 1);
    http_peer_deinit(&peer);
  }
}

static void open_websocket(http_peer *peer) {
  http_peer_feed(peer, SHAKE(VERSION), sizeof(SHAKE(VERSION)) - 1, 0);
  assert_int_equal(http_peer_count(peer, "HTTP/1.1 101 "), 1);
  http_peer_forget_output(peer);
}

static void late_answers_travel_and_a_lost_peer_cancels(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  open_websocket(&peer);
  char bytes[256];
  static const char ask[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"slow\"}";
  size_t len = frame(bytes, FIN | TEXT, ask, sizeof ask - 1, true);
  http_peer_feed(&peer, bytes, len, 0);
  assert_int_equal(peer.output_len, 0);
  http_peer_answer_slow(&peer);
  assert_true(peer.wakes > 0);
  assert_non_null(strstr(peer.output, "\"result\":\"done\""));
  http_peer_feed(&peer, bytes, len, 0);
  http_peer_reconnect(&peer);
  assert_int_equal(peer.cancelled, 1);
  http_peer_deinit(&peer);
}

/* Its turn comes when the one before it is answered, which nobody hears of but by its answer. */
static void what_waits_for_its_turn_has_it_at_once(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.concurrency = 1}), IDEM_OK);
  open_websocket(&peer);
  char bytes[256];
  static const char ask[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"slow\"}",
                    next[] = "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"echo\"}";
  size_t len = frame(bytes, FIN | TEXT, ask, sizeof ask - 1, true);
  len += frame(bytes + len, FIN | TEXT, next, sizeof next - 1, true);
  http_peer_feed(&peer, bytes, len, 0);
  assert_int_equal(peer.output_len, 0);
  http_peer_answer_slow(&peer);
  assert_int_equal(http_peer_count(&peer, "\"id\":2,\"result\""), 1);
  http_peer_wait(&peer, 30000); /* and pings go on */
  assert_int_equal(http_peer_count(&peer, "\x89"), 1);
  http_peer_deinit(&peer);
}

/* Whichever allocation fails: the message is answered, or the socket is closed with 1011, or, where there
 * is no memory to say so, lost. */
static void what_the_server_cannot_do_is_1011(void **state) {
  (void)state;
  static const char ask[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"slow\"}";
  char bytes[256];
  size_t len = frame(bytes, FIN | TEXT, ask, sizeof ask - 1, true), told = 0, answered = 0;
  for (size_t n = 1; n < 64 && !answered; n++) {
    fault_alloc fault;
    http_peer peer;
    fault_alloc_init(&fault);
    assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.alloc = &fault.alloc}), IDEM_OK);
    open_websocket(&peer);
    fault_alloc_fail_in(&fault, n);
    http_peer_feed(&peer, bytes, len, 0);
    fault_alloc_fail_in(&fault, 0);
    bool closed = peer.output_len == 4 && memcmp(peer.output, "\x88\x02\x03\xf3", 4) == 0;
    if (closed) told++;
    if (peer.slow_count) answered++;
    assert_true(closed || peer.slow_count || peer.output_len || peer.status != IDEM_OK);
    http_peer_deinit(&peer);
    fault_alloc_assert_clean(&fault);
  }
  assert_true(told > 0);
  assert_int_equal(answered, 1);
}

static void a_quiet_socket_is_pinged_and_a_dead_one_closed(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  open_websocket(&peer);
  http_peer_wait(&peer, 30000);
  assert_memory_equal(peer.output, "\x89\x00", 2);
  char pong[8];
  size_t len = frame(pong, FIN | PONG, "", 0, true);
  http_peer_feed(&peer, pong, len, 0);
  for (int i = 0; i < 20; i++) http_peer_wait(&peer, 29000);
  http_peer_wait(&peer, 300000);
  assert_true(peer.status == IDEM_E_TIMEOUT || idem__http_conn_closing(peer.conn) ||
              strstr(peer.output, "idle"));
  http_peer_deinit(&peer);
}

/* Pings in between do not stretch it, and afterwards nothing does. */
static void a_message_that_does_not_end_is_1008(void **state) {
  (void)state;
  http_peer peer;
  char bytes[64], ping[16];
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  open_websocket(&peer);
  size_t len = frame(ping, FIN | PING, "", 0, true);
  http_peer_feed(&peer, bytes, frame(bytes, TEXT, "{", 1, true), 0);
  for (int i = 0; i < 29; i++) {
    http_peer_wait(&peer, 1000);
    http_peer_feed(&peer, ping, len, 0);
  }
  assert_null(strstr(peer.output, "too slow"));
  http_peer_wait(&peer, 1000);
  assert_int_equal(http_peer_count(&peer, "\x88\x0a\x03\xf0too slow"), 1);
  for (int i = 0; i < 29; i++) {
    http_peer_wait(&peer, 1000);
    http_peer_feed(&peer, ping, len, 0);
  }
  assert_int_equal(peer.status, IDEM_OK);
  http_peer_wait(&peer, 1001);
  assert_int_equal(peer.status, IDEM_E_TIMEOUT);
  http_peer_deinit(&peer);
}

/* Bytes earn time, but not without end: two megabytes would have earned two minutes more. */
static void a_large_message_that_does_not_end_is_1008(void **state) {
  (void)state;
  enum { BYTES = 2000000 };
  const idem_http_opts http = {.request_most_ms = 40000};
  for (int usual = 0; usual < 2; usual++) {
    http_peer peer;
    char *text = calloc(1, BYTES), *bytes = malloc(BYTES + 16);
    assert_true(text && bytes);
    assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.http = usual ? NULL : &http}),
                     IDEM_OK);
    open_websocket(&peer);
    memset(text, ' ', BYTES);
    http_peer_feed(&peer, bytes, frame(bytes, TEXT, text, BYTES, true), 0);
    for (int i = 1; i < (usual ? 120 : 40); i++) {
      http_peer_wait(&peer, 1000);
      http_peer_feed(&peer, bytes, frame(bytes, 0, " ", 1, true), 0);
    }
    assert_null(strstr(peer.output, "too slow"));
    http_peer_wait(&peer, 1000);
    assert_int_equal(http_peer_count(&peer, "\x88\x0a\x03\xf0too slow"), 1);
    http_peer_deinit(&peer);
    free(text);
    free(bytes);
  }
}

static void who_waits_too_long_is_told_on_the_socket(void **state) {
  (void)state;
  http_peer peer;
  char bytes[256];
  static const char ask[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"slow\"}";
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.request_ms = 5000}), IDEM_OK);
  open_websocket(&peer);
  size_t len = frame(bytes, FIN | TEXT, ask, sizeof ask - 1, true);
  http_peer_feed(&peer, bytes, len, 0);
  http_peer_wait(&peer, 4999);
  assert_int_equal(peer.output_len, 0);
  http_peer_wait(&peer, 1);
  assert_int_equal(peer.cancelled, 1);
  assert_int_equal(http_peer_count(&peer, "\"id\":1,\"error\""), 1);
  http_peer_answer_slow(&peer);
  assert_int_equal(http_peer_count(&peer, "done"), 0);
  http_peer_deinit(&peer);
}

/* What still runs is answered with an error, then the socket is closed with 1012, restart. */
static void a_server_that_must_go_answers_before_it_does(void **state) {
  (void)state;
  http_peer peer;
  char bytes[256];
  static const char ask[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"slow\"}";
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  open_websocket(&peer);
  http_peer_feed(&peer, bytes, frame(bytes, FIN | TEXT, ask, sizeof ask - 1, true), 0);
  idem__http_conn_close(peer.conn, peer.now_ms);
  http_peer_settle(&peer);
  assert_int_equal(http_peer_count(&peer, "\"error\""), 0);
  idem__http_conn_abort(peer.conn, peer.now_ms);
  http_peer_settle(&peer);
  assert_int_equal(http_peer_count(&peer, "\"id\":1,\"error\""), 1);
  assert_memory_equal(peer.output + peer.output_len - 4, "\x88\x02\x03\xf4", 4);
  assert_int_equal(peer.cancelled, 1);
  http_peer_deinit(&peer);
}

static void handshakes_that_are_not_right_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *status;
  } cases[] = {
      {SHAKE(""), "HTTP/1.1 426 "},
      {SHAKE("Sec-WebSocket-Version: 8\r\n"), "HTTP/1.1 426 "},
      {SHAKE(VERSION "Origin: https://evil.example\r\n"), "HTTP/1.1 403 "},
      {SHAKE(VERSION "Origin: null\r\n"), "HTTP/1.1 403 "},
      {SHAKE(VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"), "HTTP/1.1 400 "},
      {"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" VERSION
       "Sec-WebSocket-Key: short\r\n\r\n",
       "HTTP/1.1 400 "},
      {"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n" VERSION
       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
       "HTTP/1.1 400 "},
      {"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: Upgrade\r\nUpgrade: "
       "websocket\r\n" VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
       "HTTP/1.1 403 "},
      {"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: "
       "websocket\r\n" VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
       "HTTP/1.1 200 "}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    http_peer peer;
    assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
    http_peer_feed(&peer, cases[i].text, strlen(cases[i].text), 1);
    if (!strstr(peer.output, cases[i].status))
      fail_msg("case %zu: wanted %s, got\n%s", i, cases[i].status, peer.output);
    http_peer_deinit(&peer);
  }
}

/* A proxy sends the next request of somebody else on the same connection. */
static void after_a_refused_handshake_the_next_request_is_served(void **state) {
  (void)state;
  static const char health[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  static const char *const refused[] = {
      SHAKE(""),
      SHAKE("Sec-WebSocket-Version: 8\r\n"),
      SHAKE(VERSION "Sec-WebSocket-Key: x\r\n"),
      SHAKE(VERSION "Origin: https://evil.example\r\n"),
      SHAKE(VERSION "Expect: wonders\r\n"),
      SHAKE("Content-Length: 2\r\n") "ab",
      SHAKE("Transfer-Encoding: chunked\r\n") "1\r\na\r\n0\r\n\r\n"};
  static const size_t pieces[] = {0, 1, 7};
  for (size_t i = 0; i < 3 * sizeof refused / sizeof *refused; i++) {
    http_peer peer;
    char bytes[1024];
    int len = snprintf(bytes, sizeof bytes, "%s%s%s", refused[i / 3], refused[i / 3], health);
    assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
    http_peer_feed(&peer, bytes, (size_t)len, pieces[i % 3]);
    if (http_peer_count(&peer, "HTTP/1.1 ") != 3 || http_peer_count(&peer, "HTTP/1.1 200 ") != 1)
      fail_msg("case %zu in pieces of %zu:\n%s", i / 3, pieces[i % 3], peer.output);
    http_peer_deinit(&peer);
  }
}

static void a_handshake_needs_the_token(void **state) {
  (void)state;
  static const char *const tokens[] = {"secret", NULL};
  idem_http_opts http = {.tokens = tokens};
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.http = &http}), IDEM_OK);
  static const char without[] = SHAKE(VERSION),
                    with[] = SHAKE(VERSION "Authorization: Bearer secret\r\n");
  http_peer_feed(&peer, without, sizeof without - 1, 0);
  assert_non_null(strstr(peer.output, "HTTP/1.1 401 "));
  http_peer_feed(&peer, with, sizeof with - 1, 0);
  assert_non_null(strstr(peer.output, "HTTP/1.1 101 "));
  http_peer_deinit(&peer);
}

static void the_rate_limit_holds_on_sockets_too(void **state) {
  (void)state;
  idem_http_opts http = {.rate_count = 2, .rate_seconds = 10};
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.http = &http}), IDEM_OK);
  open_websocket(&peer);
  char bytes[256];
  static const char ask[] = "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"echo\"}";
  size_t len = frame(bytes, FIN | TEXT, ask, sizeof ask - 1, true);
  for (int i = 0; i < 3; i++) http_peer_feed(&peer, bytes, len, 0);
  assert_int_equal(http_peer_count(&peer, "\"result\""), 2);
  assert_int_equal(http_peer_count(&peer, "\"id\":5,\"error\":{\"code\":-32000"), 1);
  http_peer_deinit(&peer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(digests_are_the_standard_ones),
      cmocka_unit_test(a_handshake_opens_a_socket_of_messages),
      cmocka_unit_test(late_answers_travel_and_a_lost_peer_cancels),
      cmocka_unit_test(what_waits_for_its_turn_has_it_at_once),
      cmocka_unit_test(what_the_server_cannot_do_is_1011),
      cmocka_unit_test(a_quiet_socket_is_pinged_and_a_dead_one_closed),
      cmocka_unit_test(a_message_that_does_not_end_is_1008),
      cmocka_unit_test(a_large_message_that_does_not_end_is_1008),
      cmocka_unit_test(who_waits_too_long_is_told_on_the_socket),
      cmocka_unit_test(a_server_that_must_go_answers_before_it_does),
      cmocka_unit_test(handshakes_that_are_not_right_are_refused),
      cmocka_unit_test(after_a_refused_handshake_the_next_request_is_served),
      cmocka_unit_test(a_handshake_needs_the_token),
      cmocka_unit_test(the_rate_limit_holds_on_sockets_too),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
