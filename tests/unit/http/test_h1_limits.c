/* test_h1_limits.c - how much HTTP/1.1 may be and how long it may take, and how a connection ends. */
#include "h1.h"

/* ----------------------------------------------------------------- limits */

static char *repeat(const char *start, const char *piece, size_t count, const char *end) {
  size_t len = strlen(start) + strlen(piece) * count + strlen(end) + 1;
  char *text = malloc(len), *at = text;
  assert_non_null(text);
  at += sprintf(at, "%s", start);
  for (size_t i = 0; i < count; i++) at += sprintf(at, "%s", piece);
  sprintf(at, "%s", end);
  return text;
}

static void a_long_head_is_431(void **state) {
  (void)state;
  char *text = repeat("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ", "0123456789abcdef", 4096,
                      "\r\n\r\n");
  play_all_splits(NULL, text, "HTTP/1.1 431 ", INVALID("header-too-large"), 1);
  free(text);
}

static void a_head_at_the_limit_is_served(void **state) {
  (void)state;
  idem_http_opts http = {.header_bytes = 1024};
  const char *start = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ", *end = "\r\n\r\n";
  size_t fill = 1024 - strlen(start) - strlen(end);
  char *text = repeat(start, "x", fill, end);
  play_all_splits(&(http_peer_opts){.http = &http}, text, "HTTP/1.1 200 OK", "ok", 1);
  free(text);
  text = repeat(start, "x", fill + 1, end);
  play_all_splits(&(http_peer_opts){.http = &http}, text, "HTTP/1.1 431 ", "header-too-large", 1);
  free(text);
}

static void too_many_headers_are_431(void **state) {
  (void)state;
  char *text = repeat("GET /healthz HTTP/1.1\r\nHost: localhost\r\n", "X: y\r\n", 99, "\r\n");
  play_all_splits(NULL, text, "HTTP/1.1 200 OK", "ok", 1);
  free(text);
  text = repeat("GET /healthz HTTP/1.1\r\nHost: localhost\r\n", "X: y\r\n", 100, "\r\n");
  play_all_splits(NULL, text, "HTTP/1.1 431 ", INVALID("header-too-large"), 1);
  free(text);
}

/* Of two faults the first one counts, and what is past a limit is not looked at. */
static void which_fault_is_told_does_not_depend_on_the_split(void **state) {
  (void)state;
  idem_http_opts http = {.header_bytes = 1024, .header_count = 4};
  http_peer_opts opts = {.http = &http};
  const char *start = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n";
  char *text = repeat(start, "X: y\r\n", 3, "no colon\r\nX: y\r\n\r\n");
  play_all_splits(&opts, text, "HTTP/1.1 400 ", "Parse error", 1);
  free(text);
  text = repeat(start, "X: y\r\n", 3, "X: a\001control\r\n\r\n");
  play_all_splits(&opts, text, "HTTP/1.1 400 ", "Parse error", 1);
  free(text);
  text = repeat(start, "X: y\r\n", 4, "no colon\r\n\r\n");
  play_all_splits(&opts, text, "HTTP/1.1 431 ", "header-too-large", 1);
  free(text);
  text =
      repeat("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ", "y", 1024, "\r\nno colon\r\n\r\n");
  play_all_splits(&opts, text, "HTTP/1.1 431 ", "header-too-large", 1);
  free(text);
}

static void a_body_over_the_limit_is_413(void **state) {
  (void)state;
  http_peer_opts opts = {.body_bytes = 52};
  play_all_splits(&opts, ECHO, "HTTP/1.1 413 ", INVALID("oversize"), 1);
  play_all_splits(&opts, HEAD "Transfer-Encoding: chunked\r\n\r\n35\r\n" ECHO_BODY "\r\n0\r\n\r\n",
                  "HTTP/1.1 413 ", INVALID("oversize"), 1);
  opts.body_bytes = 53;
  play_all_splits(&opts, ECHO, "HTTP/1.1 200 OK", ECHO_ANSWER, 1);
  play_all_splits(&opts, HEAD "Transfer-Encoding: chunked\r\n\r\n35\r\n" ECHO_BODY "\r\n0\r\n\r\n",
                  "HTTP/1.1 200 OK", ECHO_ANSWER, 1);
}

static void in_the_set_erlmcp_a_body_over_the_limit_says_how_large_it_may_be(void **state) {
  (void)state;
  http_peer_opts opts = {.body_bytes = 52, .codes = IDEM_CODES_ERLMCP};
  play_all_splits(
      &opts, ECHO, "HTTP/1.1 413 ",
      "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32012,\"message\":\"Message too "
      "large\",\"data\":{\"maxSize\":52,\"unit\":\"bytes\"}}}",
      1);
}

static void oversized_chunk_extensions_are_refused(void **state) {
  (void)state;
  char *text = repeat(HEAD "Transfer-Encoding: chunked\r\n\r\n1;a=", "0123456789abcdef", 300,
                      "\r\n{\r\n0\r\n\r\n");
  play_all_splits(NULL, text, "HTTP/1.1 400 ", "\"id\":null", 1);
  free(text);
  text = repeat(HEAD "Transfer-Encoding: chunked\r\n\r\n", "1;a=0123456789abcdef\r\n \r\n", 300,
                "0\r\n\r\n");
  play_all_splits(NULL, text, "HTTP/1.1 400 ", "\"id\":null", 1);
  free(text);
}

static void oversized_trailers_are_refused(void **state) {
  (void)state;
  char *text = repeat(HEAD "Transfer-Encoding: chunked\r\n\r\n35\r\n" ECHO_BODY "\r\n0\r\n",
                      "X: 0123456789abcdef\r\n", 300, "\r\n");
  play_all_splits(NULL, text, "HTTP/1.1 400 ", "\"id\":null", 1);
  free(text);
}

static void a_refused_body_is_read_and_the_conn_goes_on(void **state) {
  (void)state;
  char *text = repeat("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16000\r\n\r\n",
                      "0123456789abcdef", 1000, ECHO);
  play_all_splits(NULL, text, "HTTP/1.1 415 ", ECHO_ANSWER, 2);
  free(text);
}

static void a_long_refused_body_closes_the_conn(void **state) {
  (void)state;
  play_all_splits(NULL, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 70000\r\n\r\n{}",
                  "HTTP/1.1 415 ", "Connection: close", 1);
}

/* ------------------------------------------------------------------- time */

static void a_dripped_request_is_ended_with_408(void **state) {
  http_peer *peer = *state;
  const char *text = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ";
  feed(peer, text, 0);
  for (int second = 0; second < 29; second++) {
    http_peer_wait(peer, 1000);
    feed(peer, "x", 0);
  }
  assert_int_equal(peer->output_len, 0);
  http_peer_wait(peer, 1000);
  assert_non_null(strstr(peer->output, "HTTP/1.1 408 "));
  assert_true(idem__http_conn_closing(peer->conn));
  assert_int_equal(peer->status, IDEM_OK);
  http_peer_wait(peer, 3000);
  assert_int_equal(peer->status, IDEM_E_TIMEOUT);
}

static void a_dripped_body_is_ended_and_a_steady_one_is_not(void **state) {
  http_peer *peer = *state;
  feed(peer, HEAD "Content-Length: 1000000\r\n\r\n", 0);
  char *piece = repeat("", "0123456789abcdef", 2000, "");
  for (int second = 0; second < 32; second++) {
    feed(peer, piece, 0); /* 32,000 bytes a second */
    http_peer_wait(peer, 1000);
  }
  free(piece);
  assert_non_null(strstr(peer->output, "400 Bad Request")); /* arrived whole; no JSON */
  http_peer_reconnect(peer);
  feed(peer, HEAD "Content-Length: 100\r\n\r\n{", 0);
  http_peer_wait(peer, 30001);
  assert_non_null(strstr(peer->output, "HTTP/1.1 408 "));
}

static void an_idle_conn_is_closed(void **state) {
  http_peer *peer = *state;
  feed(peer, ECHO, 0);
  http_peer_wait(peer, 299999);
  assert_false(idem__http_conn_closing(peer->conn));
  http_peer_wait(peer, 1);
  assert_true(idem__http_conn_closing(peer->conn));
}

static void a_peer_that_reads_nothing_is_not_read(void **state) {
  (void)state;
  http_peer peer;
  idem_http_opts http = {.queued_bytes = 4096};
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.http = &http}), IDEM_OK);
  size_t fed = 0;
  while (idem__http_conn_want_read(peer.conn) && fed < 1000) {
    assert_int_equal(idem__http_conn_feed(peer.conn, ECHO, strlen(ECHO), peer.now_ms), IDEM_OK);
    fed++;
  }
  assert_true(fed < 1000);
  for (int i = 0; i < 100; i++, fed++)
    assert_int_equal(idem__http_conn_feed(peer.conn, ECHO, strlen(ECHO), peer.now_ms), IDEM_OK);
  http_peer_settle(&peer);
  assert_int_equal(peer.status, IDEM_OK);
  assert_int_equal(http_peer_count(&peer, "HTTP/1.1 200 OK"), fed);
  assert_true(idem__http_conn_want_read(peer.conn));
  http_peer_deinit(&peer);
}

/* -------------------------------------------------------------- end of input */

static void a_half_closed_peer_still_gets_its_answer(void **state) {
  http_peer *peer = *state;
  feed(peer, SLOW ECHO, 0);
  http_peer_eof(peer);
  assert_int_equal(peer->cancelled, 0);
  http_peer_answer_slow(peer);
  assert_int_equal(http_peer_count(peer, "HTTP/1.1 200 OK"), 2);
  assert_true(idem__http_conn_finished(peer->conn));
}

static void an_aborted_request_leaves_nothing(void **state) {
  http_peer *peer = *state;
  feed(peer, HEAD "Content-Length: 53\r\n\r\n{\"json", 1);
  http_peer_eof(peer);
  assert_true(idem__http_conn_finished(peer->conn));
  assert_int_equal(peer->output_len, 0);
}

static void a_lost_peer_cancels_what_it_asked(void **state) {
  http_peer *peer = *state;
  feed(peer, SLOW, 0);
  assert_int_equal(peer->slow_count, 1);
  http_peer_reconnect(peer);
  assert_int_equal(peer->cancelled, 1);
  feed(peer, ECHO, 0);
  assert_non_null(strstr(peer->output, ECHO_ANSWER));
}

static void closing_waits_for_the_answer(void **state) {
  http_peer *peer = *state;
  feed(peer, SLOW, 0);
  idem__http_conn_close(peer->conn, peer->now_ms);
  assert_false(idem__http_conn_closing(peer->conn));
  http_peer_answer_slow(peer);
  assert_non_null(strstr(peer->output, "Connection: close"));
  assert_true(idem__http_conn_closing(peer->conn));
}

/* It was sent before its sender could know that the server stops. */
static void what_is_on_its_way_when_the_server_stops_is_served(void **state) {
  http_peer *peer = *state;
  static const size_t read_before[] = {0, 10, sizeof HEAD - 1, sizeof ECHO - 2};
  for (size_t i = 0; i < sizeof read_before / sizeof *read_before; i++) {
    assert_int_equal(http_peer_reconnect(peer), IDEM_OK);
    http_peer_feed(peer, ECHO, read_before[i], 0);
    idem__http_conn_close(peer->conn, peer->now_ms);
    assert_false(idem__http_conn_closing(peer->conn));
    feed(peer, &ECHO[read_before[i]], 0);
    assert_non_null(strstr(peer->output, ECHO_ANSWER));
    assert_non_null(strstr(peer->output, "Connection: close"));
    assert_true(idem__http_conn_closing(peer->conn));
  }
}

static void nobody_is_waited_for_long_when_the_server_stops(void **state) {
  http_peer *peer = *state;
  idem__http_conn_close(peer->conn, peer->now_ms);
  assert_int_equal(idem__http_conn_deadline(peer->conn), peer->now_ms + 1000);
  http_peer_wait(peer, 1000);
  assert_true(idem__http_conn_closing(peer->conn));
  assert_int_equal(http_peer_reconnect(peer), IDEM_OK);
  feed(peer, ECHO, 0);
  idem__http_conn_close(peer->conn, peer->now_ms);
  assert_int_equal(idem__http_conn_deadline(peer->conn), peer->now_ms + 50);
  idem__http_conn_abort(peer->conn, peer->now_ms);
  assert_true(idem__http_conn_closing(peer->conn));
}

static void the_busy_answer_is_whole(void **state) {
  (void)state;
  assert_non_null(strstr(idem__http_busy, "HTTP/1.1 503 "));
  const char *body = strstr(idem__http_busy, "\r\n\r\n") + 4;
  unsigned length = 0;
  assert_int_equal(
      sscanf(strstr(idem__http_busy, "Content-Length: "), "Content-Length: %u", &length), 1);
  assert_int_equal(strlen(body), length);
  assert_int_equal(strlen(idem__http_busy), idem__http_busy_len);
}

static void dates_are_right(void **state) {
  http_peer *peer = *state;
  static const struct {
    uint64_t wall_s;
    const char *text;
  } dates[] = {{0, "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"},
               {784111777, "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"},
               {951782400, "Date: Tue, 29 Feb 2000 00:00:00 GMT\r\n"},
               {4107542399, "Date: Sun, 28 Feb 2100 23:59:59 GMT\r\n"},
               {1785196800, "Date: Tue, 28 Jul 2026 00:00:00 GMT\r\n"}};
  for (size_t i = 0; i < sizeof dates / sizeof *dates; i++) {
    http_peer_forget_output(peer);
    idem__http_server_set_date(peer->server, dates[i].wall_s);
    feed(peer, ECHO, 0);
    assert_non_null(strstr(peer->output, dates[i].text));
  }
}

/* Nobody connects to say nothing. */
static void the_first_byte_has_its_own_time(void **state) {
  http_peer *peer = *state;
  assert_int_equal(idem__http_conn_deadline(peer->conn), peer->now_ms + 10000);
  http_peer_wait(peer, 10000);
  assert_true(idem__http_conn_closing(peer->conn));
  http_peer_reconnect(peer);
  feed(peer, "G", 0);
  assert_int_equal(idem__http_conn_deadline(peer->conn), peer->now_ms + 30000);
  http_peer_reconnect(peer);
  feed(peer, ECHO, 0);
  assert_int_equal(idem__http_conn_deadline(peer->conn), peer->now_ms + 300000);
}

/* Bytes earn time for the rest of a body, up to a bound. */
static void a_body_has_no_more_than_its_time(void **state) {
  http_peer *peer = *state;
  char piece[16000];
  memset(piece, ' ', sizeof piece);
  feed(peer,
       "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
       "Content-Length: 9000000\r\n\r\n",
       0);
  http_peer_feed(peer, piece, sizeof piece, 0);
  assert_int_equal(idem__http_conn_deadline(peer->conn), peer->now_ms + 31000);
  for (int i = 0; i < 500; i++) http_peer_feed(peer, piece, sizeof piece, 0);
  assert_int_equal(idem__http_conn_deadline(peer->conn), peer->now_ms + 120000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      WITH_PEER(the_first_byte_has_its_own_time),
      WITH_PEER(a_body_has_no_more_than_its_time),
      cmocka_unit_test(a_long_head_is_431),
      cmocka_unit_test(a_head_at_the_limit_is_served),
      cmocka_unit_test(too_many_headers_are_431),
      cmocka_unit_test(which_fault_is_told_does_not_depend_on_the_split),
      cmocka_unit_test(a_body_over_the_limit_is_413),
      cmocka_unit_test(in_the_set_erlmcp_a_body_over_the_limit_says_how_large_it_may_be),
      cmocka_unit_test(oversized_chunk_extensions_are_refused),
      cmocka_unit_test(oversized_trailers_are_refused),
      cmocka_unit_test(a_refused_body_is_read_and_the_conn_goes_on),
      cmocka_unit_test(a_long_refused_body_closes_the_conn),
      WITH_PEER(a_dripped_request_is_ended_with_408),
      WITH_PEER(a_dripped_body_is_ended_and_a_steady_one_is_not),
      WITH_PEER(an_idle_conn_is_closed),
      cmocka_unit_test(a_peer_that_reads_nothing_is_not_read),
      WITH_PEER(a_half_closed_peer_still_gets_its_answer),
      WITH_PEER(an_aborted_request_leaves_nothing),
      WITH_PEER(a_lost_peer_cancels_what_it_asked),
      WITH_PEER(closing_waits_for_the_answer),
      WITH_PEER(what_is_on_its_way_when_the_server_stops_is_served),
      WITH_PEER(nobody_is_waited_for_long_when_the_server_stops),
      cmocka_unit_test(the_busy_answer_is_whole),
      WITH_PEER(dates_are_right),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
