/* test_h1.c - HTTP/1.1 requests at any split, their answers in order, and every trick refused. */
#include "support/http_peer.h"
#include "support/http_tricks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void feed(http_peer *peer, const char *text, size_t piece) {
  http_peer_feed(peer, text, strlen(text), piece);
}

/* Plays the text whole, byte by byte and in pieces of 2, 3, 5 ...; each on a conn of its own. */
static void play_all_splits(const http_peer_opts *opts, const char *text, const char *status,
                            const char *contains, size_t answers) {
  static const size_t pieces[] = {0, 1, 2, 3, 5, 7, 11, 16, 33, 64, 100};
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, opts), IDEM_OK);
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
    assert_int_equal(http_peer_reconnect(&peer), IDEM_OK);
    feed(&peer, text, pieces[i]);
    assert_int_equal(peer.status, IDEM_OK);
    if (!strstr(peer.output, status) || !strstr(peer.output, contains) ||
        http_peer_count(&peer, "HTTP/1.1 ") != answers)
      fail_msg("pieces of %zu: wanted %zu x %s with %s, got:\n%s", pieces[i], answers, status,
               contains, peer.output);
  }
  http_peer_deinit(&peer);
}

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
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  feed(&peer,
       HEAD
       "Content-Length: 40\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"slow\"}" ECHO ECHO,
       0);
  assert_int_equal(peer.output_len, 0);
  assert_true(idem__http_conn_want_read(peer.conn));
  http_peer_answer_slow(&peer);
  assert_true(peer.wakes > 0);
  const char *first = strstr(peer.output, "{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":\"done\"}");
  assert_non_null(first);
  assert_non_null(strstr(first, ECHO_ANSWER));
  assert_int_equal(http_peer_count(&peer, "HTTP/1.1 200 OK"), 3);
  http_peer_deinit(&peer);
}

static void a_flood_behind_a_late_answer_is_not_read(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  feed(&peer, HEAD "Content-Length: 40\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"slow\"}",
       0);
  size_t fed = 0;
  while (idem__http_conn_want_read(peer.conn) && fed < 1000) feed(&peer, ECHO, 0), fed++;
  assert_true(fed < 1000);
  http_peer_answer_slow(&peer);
  assert_int_equal(http_peer_count(&peer, "HTTP/1.1 200 OK"), fed + 1);
  assert_true(idem__http_conn_want_read(peer.conn));
  http_peer_deinit(&peer);
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
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  feed(&peer, HEAD "Expect: 100-continue\r\nContent-Length: 53\r\n\r\n", 0);
  assert_string_equal(peer.output, "HTTP/1.1 100 Continue\r\n\r\n");
  feed(&peer, ECHO_BODY, 1);
  assert_non_null(strstr(peer.output, ECHO_ANSWER));
  http_peer_deinit(&peer);
}

static void does_not_invite_a_body_it_will_refuse(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  feed(&peer,
       "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
       "Expect: 100-continue\r\nContent-Length: 53\r\n\r\n",
       0);
  assert_int_equal(http_peer_count(&peer, "100 Continue"), 0);
  assert_non_null(strstr(peer.output, "HTTP/1.1 415 "));
  assert_true(idem__http_conn_closing(peer.conn));
  http_peer_deinit(&peer);
}

static void an_unknown_expectation_is_417(void **state) {
  (void)state;
  play_all_splits(NULL, HEAD "Expect: tea\r\nContent-Length: 53\r\n\r\n" ECHO_BODY, "HTTP/1.1 417 ",
                  "\"id\":null", 1);
}

static void closes_when_asked_and_keeps_otherwise(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  feed(&peer, ECHO, 0);
  assert_int_equal(http_peer_count(&peer, "Connection:"), 0);
  assert_false(idem__http_conn_closing(peer.conn));
  assert_true(idem__http_conn_idle(peer.conn));
  feed(&peer, HEAD "Connection: close\r\nContent-Length: 53\r\n\r\n" ECHO_BODY ECHO, 0);
  assert_int_equal(http_peer_count(&peer, "Connection: close\r\n"), 1);
  assert_int_equal(http_peer_count(&peer, "HTTP/1.1 "), 2);
  assert_true(idem__http_conn_closing(peer.conn));
  assert_false(idem__http_conn_finished(peer.conn));
  http_peer_eof(&peer);
  assert_true(idem__http_conn_finished(peer.conn));
  http_peer_deinit(&peer);
}

static void http_1_0_is_answered_and_closed_unless_kept(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  feed(&peer, "GET /healthz HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n", 0);
  assert_non_null(strstr(peer.output, "Connection: keep-alive\r\n"));
  assert_false(idem__http_conn_closing(peer.conn));
  feed(&peer, "GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n", 0);
  assert_non_null(strstr(peer.output, "Connection: close\r\n"));
  assert_true(idem__http_conn_closing(peer.conn));
  http_peer_deinit(&peer);
}

static void head_has_no_body(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  feed(&peer, "HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 1);
  assert_non_null(strstr(peer.output, "Content-Length: 16\r\n"));
  assert_string_equal(peer.output + peer.output_len - 4, "\r\n\r\n");
  http_peer_forget_output(&peer);
  feed(&peer, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 1);
  assert_non_null(strstr(peer.output, "\r\n\r\n{\"status\":\"ok\"}\n"));
  http_peer_deinit(&peer);
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
  (void)state;
  static const char text[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n";
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  http_peer_feed(&peer, text, sizeof text - 1, 1);
  assert_non_null(strstr(peer.output, "HTTP/1.1 400 "));
  http_peer_deinit(&peer);
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
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  const char *text = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ";
  feed(&peer, text, 0);
  for (int second = 0; second < 29; second++) {
    http_peer_wait(&peer, 1000);
    feed(&peer, "x", 0);
  }
  assert_int_equal(peer.output_len, 0);
  http_peer_wait(&peer, 1000);
  assert_non_null(strstr(peer.output, "HTTP/1.1 408 "));
  assert_true(idem__http_conn_closing(peer.conn));
  assert_int_equal(peer.status, IDEM_OK);
  http_peer_wait(&peer, 3000);
  assert_int_equal(peer.status, IDEM_E_TIMEOUT);
  http_peer_deinit(&peer);
}

static void a_dripped_body_is_ended_and_a_steady_one_is_not(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  feed(&peer, HEAD "Content-Length: 1000000\r\n\r\n", 0);
  char *piece = repeat("", "0123456789abcdef", 2000, "");
  for (int second = 0; second < 32; second++) {
    feed(&peer, piece, 0); /* 32,000 bytes a second */
    http_peer_wait(&peer, 1000);
  }
  free(piece);
  assert_non_null(strstr(peer.output, "400 Bad Request")); /* arrived whole; no JSON */
  http_peer_reconnect(&peer);
  feed(&peer, HEAD "Content-Length: 100\r\n\r\n{", 0);
  http_peer_wait(&peer, 30001);
  assert_non_null(strstr(peer.output, "HTTP/1.1 408 "));
  http_peer_deinit(&peer);
}

static void an_idle_conn_is_closed(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  feed(&peer, ECHO, 0);
  http_peer_wait(&peer, 299999);
  assert_false(idem__http_conn_closing(peer.conn));
  http_peer_wait(&peer, 1);
  assert_true(idem__http_conn_closing(peer.conn));
  http_peer_deinit(&peer);
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
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  feed(&peer,
       HEAD "Content-Length: 40\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"slow\"}" ECHO, 0);
  http_peer_eof(&peer);
  assert_int_equal(peer.cancelled, 0);
  http_peer_answer_slow(&peer);
  assert_int_equal(http_peer_count(&peer, "HTTP/1.1 200 OK"), 2);
  assert_true(idem__http_conn_finished(peer.conn));
  http_peer_deinit(&peer);
}

static void an_aborted_request_leaves_nothing(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  feed(&peer, HEAD "Content-Length: 53\r\n\r\n{\"json", 1);
  http_peer_eof(&peer);
  assert_true(idem__http_conn_finished(peer.conn));
  assert_int_equal(peer.output_len, 0);
  http_peer_deinit(&peer);
}

static void a_lost_peer_cancels_what_it_asked(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  feed(&peer, HEAD "Content-Length: 40\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"slow\"}",
       0);
  assert_int_equal(peer.slow_count, 1);
  http_peer_reconnect(&peer);
  assert_int_equal(peer.cancelled, 1);
  feed(&peer, ECHO, 0);
  assert_non_null(strstr(peer.output, ECHO_ANSWER));
  http_peer_deinit(&peer);
}

static void closing_waits_for_the_answer(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  feed(&peer, HEAD "Content-Length: 40\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"slow\"}",
       0);
  idem__http_conn_close(peer.conn, peer.now_ms);
  assert_false(idem__http_conn_closing(peer.conn));
  http_peer_answer_slow(&peer);
  assert_non_null(strstr(peer.output, "Connection: close"));
  assert_true(idem__http_conn_closing(peer.conn));
  http_peer_deinit(&peer);
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
  (void)state;
  static const struct {
    uint64_t wall_s;
    const char *text;
  } dates[] = {{0, "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"},
               {784111777, "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"},
               {951782400, "Date: Tue, 29 Feb 2000 00:00:00 GMT\r\n"},
               {4107542399, "Date: Sun, 28 Feb 2100 23:59:59 GMT\r\n"},
               {1785196800, "Date: Tue, 28 Jul 2026 00:00:00 GMT\r\n"}};
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  for (size_t i = 0; i < sizeof dates / sizeof *dates; i++) {
    http_peer_forget_output(&peer);
    idem__http_hub_set_date(peer.hub, dates[i].wall_s);
    feed(&peer, ECHO, 0);
    assert_non_null(strstr(peer.output, dates[i].text));
  }
  http_peer_deinit(&peer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(answers_a_request_at_any_split),
      cmocka_unit_test(answers_pipelined_requests_in_order),
      cmocka_unit_test(a_late_answer_holds_back_the_ones_behind_it),
      cmocka_unit_test(a_flood_behind_a_late_answer_is_not_read),
      cmocka_unit_test(reads_chunked_bodies),
      cmocka_unit_test(a_request_after_a_chunked_one_is_answered),
      cmocka_unit_test(invites_a_body_that_asks_first),
      cmocka_unit_test(does_not_invite_a_body_it_will_refuse),
      cmocka_unit_test(an_unknown_expectation_is_417),
      cmocka_unit_test(closes_when_asked_and_keeps_otherwise),
      cmocka_unit_test(http_1_0_is_answered_and_closed_unless_kept),
      cmocka_unit_test(head_has_no_body),
      cmocka_unit_test(empty_lines_between_requests_are_skipped),
      cmocka_unit_test(other_upgrades_are_ignored),
      cmocka_unit_test(every_trick_is_refused_once_at_any_split),
      cmocka_unit_test(a_nul_byte_in_the_head_is_refused),
      cmocka_unit_test(nothing_after_a_trick_is_read),
      cmocka_unit_test(a_405_says_what_is_allowed),
      cmocka_unit_test(good_types_are_accepted),
      cmocka_unit_test(a_long_head_is_431),
      cmocka_unit_test(a_head_at_the_limit_is_served),
      cmocka_unit_test(too_many_headers_are_431),
      cmocka_unit_test(which_fault_is_told_does_not_depend_on_the_split),
      cmocka_unit_test(a_body_over_the_limit_is_413),
      cmocka_unit_test(oversized_chunk_extensions_are_refused),
      cmocka_unit_test(oversized_trailers_are_refused),
      cmocka_unit_test(a_refused_body_is_read_and_the_conn_goes_on),
      cmocka_unit_test(a_long_refused_body_closes_the_conn),
      cmocka_unit_test(a_dripped_request_is_ended_with_408),
      cmocka_unit_test(a_dripped_body_is_ended_and_a_steady_one_is_not),
      cmocka_unit_test(an_idle_conn_is_closed),
      cmocka_unit_test(a_peer_that_reads_nothing_is_not_read),
      cmocka_unit_test(a_half_closed_peer_still_gets_its_answer),
      cmocka_unit_test(an_aborted_request_leaves_nothing),
      cmocka_unit_test(a_lost_peer_cancels_what_it_asked),
      cmocka_unit_test(closing_waits_for_the_answer),
      cmocka_unit_test(the_busy_answer_is_whole),
      cmocka_unit_test(dates_are_right),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
