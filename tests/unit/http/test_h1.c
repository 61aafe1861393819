/* test_h1.c - HTTP/1.1 requests at any split, their answers in order, and every trick refused. */
#include "h1.h"

static void answers_a_request_at_any_split(void **state) {
  (void)state;
  play_all_splits(NULL, ECHO, "HTTP/1.1 200 OK\r\n", "\r\n\r\n" ECHO_ANSWER, 1);
}

static void answers_pipelined_requests_in_order(void **state) {
  (void)state;
  char *burst = calloc(1, 100 * 300), *at = burst;
  assert_non_null(burst);
  for (int i = 0; i < 100; i++) {
    char body[96];
    int len = snprintf(body, sizeof body,
                       "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"echo\",\"params\":[%d]}", i, i);
    at += snprintf(at, 300, HEAD "Content-Length: %d\r\n\r\n%s", len, body);
  }
  static const size_t pieces[] = {0, 1, 13, 1000};
  for (size_t p = 0; p < 4; p++) {
    http_peer peer;
    assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
    feed(&peer, burst, pieces[p]);
    const char *seen = peer.output;
    for (int i = 0; i < 100; i++) {
      char want[64];
      snprintf(want, sizeof want, "\"id\":%d,\"result\":[%d]}", i, i);
      seen = strstr(seen, want);
      assert_non_null(seen);
    }
    assert_int_equal(http_peer_count(&peer, "HTTP/1.1 200 OK"), 100);
    http_peer_deinit(&peer);
  }
  free(burst);
}

static void a_late_answer_holds_back_the_ones_behind_it(void **state) {
  http_peer *peer = *state;
  feed(peer, SLOW ECHO ECHO, 0);
  assert_int_equal(peer->output_len, 0);
  assert_true(idem__http_conn_want_read(peer->conn));
  http_peer_answer_slow(peer);
  assert_true(peer->wakes > 0);
  const char *first = strstr(peer->output, "{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":\"done\"}");
  assert_non_null(first);
  assert_non_null(strstr(first, ECHO_ANSWER));
  assert_int_equal(http_peer_count(peer, "HTTP/1.1 200 OK"), 3);
}

static void a_flood_behind_a_late_answer_is_not_read(void **state) {
  http_peer *peer = *state;
  feed(peer, SLOW, 0);
  size_t fed = 0;
  while (idem__http_conn_want_read(peer->conn) && fed < 1000) feed(peer, ECHO, 0), fed++;
  assert_true(fed < 1000);
  http_peer_answer_slow(peer);
  assert_int_equal(http_peer_count(peer, "HTTP/1.1 200 OK"), fed + 1);
  assert_true(idem__http_conn_want_read(peer->conn));
}

static void reads_chunked_bodies(void **state) {
  (void)state;
  play_all_splits(NULL,
                  HEAD "Transfer-Encoding: chunked\r\n\r\n"
                       "10\r\n{\"jsonrpc\":\"2.0\"\r\n"
                       "22;name=value\r\n,\"id\":1,\"method\":\"echo\",\"params\":[\r\n"
                       "3\r\n1]}\r\n0\r\nTrailer: x\r\n\r\n",
                  "HTTP/1.1 200 OK\r\n", ECHO_ANSWER, 1);
}

static void a_request_after_a_chunked_one_is_answered(void **state) {
  (void)state;
  play_all_splits(NULL,
                  HEAD "Transfer-Encoding: chunked\r\n\r\n35\r\n" ECHO_BODY "\r\n0\r\n\r\n" ECHO,
                  "HTTP/1.1 200 OK\r\n", ECHO_ANSWER, 2);
}

static void invites_a_body_that_asks_first(void **state) {
  http_peer *peer = *state;
  feed(peer, HEAD "Expect: 100-continue\r\nContent-Length: 53\r\n\r\n", 0);
  assert_string_equal(peer->output, "HTTP/1.1 100 Continue\r\n\r\n");
  feed(peer, ECHO_BODY, 1);
  assert_non_null(strstr(peer->output, ECHO_ANSWER));
}

static void does_not_invite_a_body_it_will_refuse(void **state) {
  http_peer *peer = *state;
  feed(peer,
       "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
       "Expect: 100-continue\r\nContent-Length: 53\r\n\r\n",
       0);
  assert_int_equal(http_peer_count(peer, "100 Continue"), 0);
  assert_non_null(strstr(peer->output, "HTTP/1.1 415 "));
  assert_true(idem__http_conn_closing(peer->conn));
}

static void an_unknown_expectation_is_417(void **state) {
  (void)state;
  play_all_splits(NULL, HEAD "Expect: tea\r\nContent-Length: 53\r\n\r\n" ECHO_BODY, "HTTP/1.1 417 ",
                  "\"id\":null", 1);
}

static void closes_when_asked_and_keeps_otherwise(void **state) {
  http_peer *peer = *state;
  feed(peer, ECHO, 0);
  assert_int_equal(http_peer_count(peer, "Connection:"), 0);
  assert_false(idem__http_conn_closing(peer->conn));
  assert_true(idem__http_conn_idle(peer->conn));
  feed(peer, HEAD "Connection: close\r\nContent-Length: 53\r\n\r\n" ECHO_BODY ECHO, 0);
  assert_int_equal(http_peer_count(peer, "Connection: close\r\n"), 1);
  assert_int_equal(http_peer_count(peer, "HTTP/1.1 "), 2);
  assert_true(idem__http_conn_closing(peer->conn));
  assert_false(idem__http_conn_finished(peer->conn));
  http_peer_eof(peer);
  assert_true(idem__http_conn_finished(peer->conn));
}

static void http_1_0_is_answered_and_closed_unless_kept(void **state) {
  http_peer *peer = *state;
  feed(peer, "GET /healthz HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n", 0);
  assert_non_null(strstr(peer->output, "Connection: keep-alive\r\n"));
  assert_false(idem__http_conn_closing(peer->conn));
  feed(peer, "GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n", 0);
  assert_non_null(strstr(peer->output, "Connection: close\r\n"));
  assert_true(idem__http_conn_closing(peer->conn));
}

static void head_has_no_body(void **state) {
  http_peer *peer = *state;
  feed(peer, "HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 1);
  assert_non_null(strstr(peer->output, "Content-Length: 16\r\n"));
  assert_string_equal(peer->output + peer->output_len - 4, "\r\n\r\n");
  http_peer_forget_output(peer);
  feed(peer, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 1);
  assert_non_null(strstr(peer->output, "\r\n\r\n{\"status\":\"ok\"}\n"));
}

static void empty_lines_between_requests_are_skipped(void **state) {
  (void)state;
  play_all_splits(NULL, "\r\n" ECHO "\r\n\r\n" ECHO "\r\n", "HTTP/1.1 200 OK", ECHO_ANSWER, 2);
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  feed(&peer, ECHO "\r\n", 0);
  assert_true(idem__http_conn_idle(peer.conn));
  http_peer_deinit(&peer);
}

static void other_upgrades_are_ignored(void **state) {
  (void)state;
  play_all_splits(NULL,
                  HEAD "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                       "HTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 53\r\n\r\n" ECHO_BODY
                       "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
                       "Upgrade: h2c\r\n\r\n" ECHO,
                  "HTTP/1.1 200 OK\r\n", ECHO_ANSWER, 3);
}

/* --------------------------------------------------------------- refusals */

static void every_trick_is_refused_once_at_any_split(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof tricks / sizeof *tricks; i++) {
    print_message("  %s\n", tricks[i].name);
    play_all_splits(NULL, tricks[i].text, tricks[i].status, tricks[i].contains, 1);
  }
}

static void a_nul_byte_in_the_head_is_refused(void **state) {
  http_peer *peer = *state;
  static const char text[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n";
  http_peer_feed(peer, text, sizeof text - 1, 1);
  assert_non_null(strstr(peer->output, "HTTP/1.1 400 "));
}

static void nothing_after_a_trick_is_read(void **state) {
  (void)state;
  play_all_splits(NULL,
                  HEAD "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" ECHO,
                  "HTTP/1.1 400 ", "Connection: close\r\n", 1);
}

static void a_405_says_what_is_allowed(void **state) {
  (void)state;
  play_all_splits(NULL, "PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi" ECHO,
                  "HTTP/1.1 405 ", "Allow: POST, OPTIONS\r\n", 2);
}

static void good_types_are_accepted(void **state) {
  (void)state;
  static const char *const types[] = {
      "application/json", "Application/JSON", "application/json;charset=utf-8",
      "application/json ; charset=\"UTF-8\"", "application/json; a=b; charset=utf8"};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    char text[300];
    snprintf(
        text, sizeof text,
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: 53\r\n\r\n%s",
        types[i], ECHO_BODY);
    play_all_splits(NULL, text, "HTTP/1.1 200 OK", ECHO_ANSWER, 1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(answers_a_request_at_any_split),
      cmocka_unit_test(answers_pipelined_requests_in_order),
      WITH_PEER(a_late_answer_holds_back_the_ones_behind_it),
      WITH_PEER(a_flood_behind_a_late_answer_is_not_read),
      cmocka_unit_test(reads_chunked_bodies),
      cmocka_unit_test(a_request_after_a_chunked_one_is_answered),
      WITH_PEER(invites_a_body_that_asks_first),
      WITH_PEER(does_not_invite_a_body_it_will_refuse),
      cmocka_unit_test(an_unknown_expectation_is_417),
      WITH_PEER(closes_when_asked_and_keeps_otherwise),
      WITH_PEER(http_1_0_is_answered_and_closed_unless_kept),
      WITH_PEER(head_has_no_body),
      cmocka_unit_test(empty_lines_between_requests_are_skipped),
      cmocka_unit_test(other_upgrades_are_ignored),
      cmocka_unit_test(every_trick_is_refused_once_at_any_split),
      WITH_PEER(a_nul_byte_in_the_head_is_refused),
      cmocka_unit_test(nothing_after_a_trick_is_read),
      cmocka_unit_test(a_405_says_what_is_allowed),
      cmocka_unit_test(good_types_are_accepted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
