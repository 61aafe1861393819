/* test_endpoint.c - JSON-RPC over POST: statuses, streams, cancellation, and no memory. */
#include "support/http_peer.h"

#include "http/endpoint.h"
#include "support/fault_alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *post(const char *headers, const char *body) {
  static char text[4096];
  snprintf(text, sizeof text,
           "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s"
           "Content-Length: %zu\r\n\r\n%s",
           headers, strlen(body), body);
  return text;
}

static void send_post(http_peer *peer, const char *headers, const char *body) {
  const char *text = post(headers, body);
  http_peer_feed(peer, text, strlen(text), 0);
}

static void expect(http_peer *peer, const char *body, const char *status, const char *contains) {
  http_peer_forget_output(peer);
  send_post(peer, "", body);
  if (!strstr(peer->output, status) || !strstr(peer->output, contains))
    fail_msg("%s: wanted %s with %s, got\n%s", body, status, contains, peer->output);
}

static void statuses_follow_the_answer(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  expect(&peer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\"}", "HTTP/1.1 200 ", "null");
  expect(&peer, "{\"jsonrpc\":\"2.0\",\"id\":\"x\\\"y\",\"method\":\"nope\"}", "HTTP/1.1 200 ",
         "\"id\":\"x\\\"y\",\"error\":{\"code\":-32601");
  expect(&peer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"fail\"}", "HTTP/1.1 200 ", "-32603");
  expect(&peer, "{", "HTTP/1.1 400 ",
         "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700");
  expect(&peer, "{\"jsonrpc\":\"1.0\",\"id\":7,\"method\":\"echo\"}", "HTTP/1.1 400 ",
         "\"id\":7,\"error\":{\"code\":-32600");
  expect(&peer, "[]", "HTTP/1.1 400 ", "empty-batch");
  expect(&peer, "[1]", "HTTP/1.1 200 ", "[{\"jsonrpc\":\"2.0\",\"id\":null");
  http_peer_deinit(&peer);
}

static void the_status_of_a_notification_is_a_choice(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.notification_status = 202}), IDEM_OK);
  expect(&peer, "{\"jsonrpc\":\"2.0\",\"method\":\"hello\"}", "HTTP/1.1 202 Accepted\r\n", "\r\n");
  expect(&peer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}", "HTTP/1.1 204 ", "\r\n");
  http_peer_deinit(&peer);
}

static void notifications_and_responses_get_204_and_nothing(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  static const char *const bodies[] = {
      "{\"jsonrpc\":\"2.0\",\"method\":\"hello\"}", "{\"jsonrpc\":\"2.0\",\"method\":\"nobody\"}",
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}",
      "[{\"jsonrpc\":\"2.0\",\"method\":\"hello\"},{\"jsonrpc\":\"2.0\",\"method\":\"hello\"}]"};
  for (size_t i = 0; i < 4; i++) {
    expect(&peer, bodies[i], "HTTP/1.1 204 No Content\r\n", "\r\n\r\n");
    assert_string_equal(strstr(peer.output, "\r\n\r\n"), "\r\n\r\n");
    assert_int_equal(
        http_peer_count(&peer, "Content-Length") + http_peer_count(&peer, "Content-Type:"), 0);
  }
  assert_int_equal(peer.hellos, 3);
  http_peer_deinit(&peer);
}

static void rules_change_the_statuses(void **state) {
  (void)state;
  static const idem__http_code_status codes[] = {{-32601, 404}, {-32602, 400}};
  static const idem__http_rules rules = {
      .notification_status = 202, .response_status = 400, .codes = codes, .code_count = 2};
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.rules = &rules}), IDEM_OK);
  expect(&peer, "{\"jsonrpc\":\"2.0\",\"method\":\"hello\"}", "HTTP/1.1 202 Accepted",
         "Content-Length: 0\r\n");
  expect(&peer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}", "HTTP/1.1 400 ",
         "\"id\":null,\"error\":{\"code\":-32600");
  expect(&peer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"nope\"}", "HTTP/1.1 404 ", "-32601");
  expect(&peer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\"}", "HTTP/1.1 200 ", "null");
  http_peer_deinit(&peer);
}

static void check_head(const idem_http_request *request, idem__http_refusal *refusal, void *user) {
  (void)user;
  if (!idem__http_header_value(request, "X-Needed").at)
    *refusal = (idem__http_refusal){.status = 406, .reason = "unavailable"};
}

static idem_status add_headers(idem_http_exchange *exchange, idem_buf *out, void *user) {
  (void)exchange;
  return idem_buf_printf(out, "X-Added: %s\r\n", (const char *)user);
}

static void rules_may_ask_for_headers_and_add_some(void **state) {
  (void)state;
  static char value[] = "yes";
  idem__http_rules rules = {.check_head = check_head, .add_headers = add_headers, .user = value};
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.rules = &rules}), IDEM_OK);
  expect(&peer, "{}", "HTTP/1.1 406 ", "unavailable");
  http_peer_forget_output(&peer);
  send_post(&peer, "x-needed:  \r\n", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\"}");
  assert_non_null(strstr(peer.output, "X-Added: yes\r\n"));
  http_peer_deinit(&peer);
}

static void a_large_answer_is_sent_whole(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  size_t size = 300000;
  char *text = malloc(size + 512);
  assert_non_null(text);
  size_t head =
      (size_t)sprintf(text,
                      "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                      "Content-Length: %zu\r\n\r\n",
                      size + 54);
  head += (size_t)sprintf(text + head,
                          "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[\"");
  memset(text + head, 'x', size);
  static const char end[] = {'"', ']', '}'};
  memcpy(text + head + size, end, sizeof end);
  for (size_t piece = 0; piece < 70000; piece = piece ? piece * 37 : 37) {
    http_peer_forget_output(&peer);
    http_peer_feed(&peer, text, head + size + 3, piece);
    assert_int_equal(http_peer_count(&peer, "HTTP/1.1 200 "), 1);
    const char *body = strstr(peer.output, "\r\n\r\n") + 4;
    assert_int_equal(strlen(body),
                     strlen("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[\"\"]}") + size);
  }
  free(text);
  http_peer_deinit(&peer);
}

/* ----------------------------------------------------------------- streams */

#define SLOW "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"slow\"}"
#define CHATTY "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"chatty\"}"
#define ACCEPT "Accept: application/json, text/event-stream\r\n"
static const idem__http_rules streaming = {.event_streams = true, .disconnect_cancels = true};

static void a_notification_turns_the_answer_into_a_stream(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.rules = &streaming}), IDEM_OK);
  send_post(&peer, ACCEPT, CHATTY);
  assert_non_null(strstr(peer.output, "HTTP/1.1 200 OK\r\n"));
  assert_non_null(strstr(peer.output, "Content-Type: text/event-stream\r\n"));
  assert_non_null(strstr(peer.output, "X-Accel-Buffering: no\r\n"));
  assert_non_null(strstr(peer.output, "Transfer-Encoding: chunked\r\n"));
  assert_non_null(strstr(peer.output, "Cache-Control: no-store\r\n"));
  assert_int_equal(http_peer_count(&peer, "Content-Length"), 0);
  const char *body = strstr(peer.output, "\r\n\r\n") + 4;
  assert_string_equal(
      body, "3\r\n:\n\n\r\n"
            "49\r\nevent: message\ndata: "
            "{\"jsonrpc\":\"2.0\",\"method\":\"note\",\"params\":{\"n\":1}}\n\n\r\n"
            "3f\r\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"told\"}\n\n\r\n"
            "0\r\n\r\n");
  assert_false(idem__http_conn_closing(peer.conn));
  http_peer_forget_output(&peer);
  send_post(&peer, ACCEPT, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\"}");
  assert_non_null(strstr(peer.output, "Content-Type: application/json\r\n"));
  http_peer_deinit(&peer);
}

static void who_takes_json_alone_gets_no_stream(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.rules = &streaming}), IDEM_OK);
  static const char *const accepts[] = {"Accept: application/json\r\n",
                                        "Accept: application/*, text/event-stream;q=0\r\n"};
  for (size_t i = 0; i < 2; i++) {
    http_peer_forget_output(&peer);
    send_post(&peer, accepts[i], CHATTY);
    assert_non_null(strstr(peer.output, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"told\"}"));
    assert_non_null(strstr(peer.output, "Content-Type: application/json\r\n"));
  }
  http_peer_deinit(&peer);
}

static void who_takes_streams_alone_gets_one(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.rules = &streaming}), IDEM_OK);
  send_post(&peer, "Accept: text/event-stream\r\n",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\"}");
  assert_non_null(strstr(peer.output, "Content-Type: text/event-stream\r\n"));
  assert_non_null(strstr(peer.output, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\""));
  http_peer_forget_output(&peer);
  send_post(&peer, "Accept: text/event-stream\r\n", "{nonsense");
  assert_non_null(strstr(peer.output, "HTTP/1.1 400 "));
  http_peer_deinit(&peer);
}

/* What one header says, the server remembers; it must not be said for another. */
static void every_accept_header_is_judged_by_its_own_words(void **state) {
  (void)state;
#define LONG_WORDS "application/json, application/x-something-of-a-length-that-is-not-remembered, "
  static const struct {
    const char *accept;
    bool streamed, refused;
  } cases[] = {{"Accept: text/event-stream\r\n", true, false},
               {"Accept: text/event-strean\r\n", false, true},
               {"Accept: text/event-stream\r\n", true, false},
               {"", true, false},
               {"Accept: */*\r\n", true, false},
               {"Accept: text/*\r\n", true, false},
               {"Accept:\r\n", true, false},
               {"Accept: text/event-stream, a/b\r\n", true, false},
               {"Accept: text/event-stream;q=0\r\n", false, true},
               {"Accept: " LONG_WORDS "text/event-stream\r\n", true, false},
               {"Accept: " LONG_WORDS "text/event-strean\r\n", false, false},
               {"Accept: a/b\r\nAccept: text/event-stream\r\n", true, false},
               {"Accept: a/b\r\n", false, true},
               {"Accept: text/event-stream\r\nAccept: a/b\r\n", true, false}};
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.rules = &streaming}), IDEM_OK);
  for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) { /* each one twice running */
    http_peer_forget_output(&peer);
    send_post(&peer, cases[i / 2].accept, CHATTY);
    assert_int_equal(http_peer_count(&peer, "Content-Type: text/event-stream\r\n"),
                     cases[i / 2].streamed);
    assert_non_null(
        strstr(peer.output, cases[i / 2].refused
                                ? "\"hint\":\"Accept: application/json, text/event-stream\""
                                : "\"result\":\"told\""));
    assert_int_equal(http_peer_count(&peer, "HTTP/1.1 406 "), cases[i / 2].refused);
  }
  http_peer_deinit(&peer);
}

static void a_late_error_keeps_its_status_until_the_stream_begins(void **state) {
  (void)state;
  static const idem__http_code_status codes[] = {{-32603, 500}};
  static const idem__http_rules rules = {.event_streams = true, .codes = codes, .code_count = 1};
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.rules = &rules}), IDEM_OK);
  send_post(&peer, ACCEPT, SLOW);
  http_peer_wait(&peer, 14999);
  assert_int_equal(peer.output_len, 0);
  idem_request_drop(peer.slow[--peer.slow_count]);
  http_peer_settle(&peer);
  assert_non_null(strstr(peer.output, "HTTP/1.1 500 "));
  http_peer_deinit(&peer);
}

static void time_turns_the_answer_into_a_stream_with_comments(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.rules = &streaming}), IDEM_OK);
  send_post(&peer, ACCEPT, SLOW);
  http_peer_wait(&peer, 15000);
  assert_non_null(strstr(peer.output, "HTTP/1.1 200 OK\r\n"));
  assert_int_equal(http_peer_count(&peer, "3\r\n:\n\n\r\n"), 1);
  http_peer_wait(&peer, 14999);
  assert_int_equal(http_peer_count(&peer, "3\r\n:\n\n\r\n"), 1);
  http_peer_wait(&peer, 1);
  assert_int_equal(http_peer_count(&peer, "3\r\n:\n\n\r\n"), 2);
  for (int i = 0; i < 40; i++) http_peer_wait(&peer, 15000); /* ten minutes: the idle limit rests */
  assert_int_equal(http_peer_count(&peer, "3\r\n:\n\n\r\n"), 42);
  http_peer_answer_slow(&peer);
  assert_non_null(strstr(peer.output, "\"result\":\"done\"}\n\n\r\n0\r\n\r\n"));
  http_peer_deinit(&peer);
}

/* As an answer of its own, or as the last event of a stream that has begun. */
static void who_waits_too_long_is_told_and_the_work_is_cancelled(void **state) {
  (void)state;
  for (int streams = 0; streams < 2; streams++) {
    http_peer peer;
    assert_int_equal(
        http_peer_init(&peer, &(http_peer_opts){.rules = &streaming, .request_ms = 20000}),
        IDEM_OK);
    send_post(&peer, streams ? ACCEPT : "Accept: application/json\r\n", SLOW);
    http_peer_wait(&peer, 15000);
    http_peer_wait(&peer, 4999);
    assert_int_equal(http_peer_count(&peer, "\"error\""), 0);
    assert_int_equal(peer.cancelled, 0);
    http_peer_wait(&peer, 1);
    assert_int_equal(peer.cancelled, 1);
    assert_int_equal(http_peer_count(&peer, "\"error\""), 1);
    assert_int_equal(http_peer_count(&peer, "\r\n0\r\n\r\n"), streams ? 1 : 0);
    http_peer_answer_slow(&peer); /* too late: nobody gets it */
    expect(&peer, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"echo\"}", "200 OK",
           "\"id\":2,\"result\"");
    assert_int_equal(http_peer_count(&peer, "done"), 0);
    http_peer_deinit(&peer);
  }
}

static void http_1_0_streams_end_with_the_connection(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.rules = &streaming}), IDEM_OK);
  static const char text[] =
      "POST / HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Connection: keep-alive\r\n" ACCEPT "Content-Length: 42\r\n\r\n" CHATTY;
  http_peer_feed(&peer, text, sizeof text - 1, 0);
  assert_int_equal(http_peer_count(&peer, "chunked"), 0);
  assert_non_null(strstr(peer.output, "\r\n\r\n:\n\nevent: message\n"));
  assert_true(idem__http_conn_closing(peer.conn));
  http_peer_deinit(&peer);
}

static void disconnecting_cancels_where_the_rules_say_so(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.rules = &streaming}), IDEM_OK);
  send_post(&peer, ACCEPT, SLOW);
  send_post(&peer, ACCEPT, SLOW); /* nor is what stands behind it begun */
  http_peer_eof(&peer);
  assert_int_equal(peer.cancelled, 1);
  assert_true(idem__http_conn_finished(peer.conn));
  assert_int_equal(peer.output_len, 0);
  http_peer_deinit(&peer);
}

/* Whether who ended its input still reads shows only when something is sent. */
static void a_comment_asks_whether_a_half_closed_reader_is_there(void **state) {
  (void)state;
  static const idem__http_rules rules = {.event_streams = true};
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.rules = &rules}), IDEM_OK);
  send_post(&peer, ACCEPT, SLOW);
  http_peer_wait(&peer, 15000);
  http_peer_wait(&peer, 5000);
  assert_int_equal(http_peer_count(&peer, "3\r\n:\n\n\r\n"), 1);
  http_peer_eof(&peer);
  assert_int_equal(http_peer_count(&peer, "3\r\n:\n\n\r\n"), 2);
  http_peer_wait(&peer, 14999);
  assert_int_equal(http_peer_count(&peer, "3\r\n:\n\n\r\n"), 2);
  http_peer_wait(&peer, 1);
  assert_int_equal(http_peer_count(&peer, "3\r\n:\n\n\r\n"), 3);
  assert_int_equal(peer.cancelled, 0);
  http_peer_answer_slow(&peer); /* it is: it gets its answer and the end */
  assert_non_null(strstr(peer.output, "\"result\":\"done\"}\n\n\r\n0\r\n\r\n"));
  assert_true(idem__http_conn_finished(peer.conn));
  http_peer_reconnect(&peer);
  send_post(&peer, ACCEPT, SLOW); /* what has no head yet keeps its status */
  http_peer_eof(&peer);
  assert_int_equal(peer.output_len, 0);
  http_peer_deinit(&peer);
}

static void work_outlives_its_peer_where_the_rules_say_so(void **state) {
  (void)state;
  static const idem__http_rules rules = {.outlives_peer = true};
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.rules = &rules}), IDEM_OK);
  send_post(&peer, "", SLOW);
  http_peer_reconnect(&peer);
  assert_int_equal(peer.cancelled, 0);
  assert_int_equal(peer.slow_count, 1);
  http_peer_answer_slow(&peer);
  assert_int_equal(peer.output_len, 0);
  send_post(&peer, "", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\"}");
  assert_int_equal(http_peer_count(&peer, "HTTP/1.1 200 "), 1);
  send_post(&peer, "", SLOW);
  http_peer_reconnect(&peer);
  http_peer_deinit(&peer); /* with the work still running */
}

/* --------------------------------------------------------------- slow readers */

static void pour(idem_request *request, yyjson_val *params, void *user) {
  size_t *sent = user;
  static char text[2002];
  (void)params;
  memset(text, 'x', sizeof text);
  text[0] = text[2001] = '"';
  char params_text[2100];
  int len = snprintf(params_text, sizeof params_text, "[%.*s]", 2002, text);
  while (*sent < 100000 &&
         idem_notify_json(idem_request_conn(request), "drop", params_text, (size_t)len) == IDEM_OK)
    ++*sent;
  idem_reply_json(request, "1", 1);
}

static void a_slow_reader_of_a_stream_holds_back_the_sender(void **state) {
  (void)state;
  http_peer peer;
  size_t sent = 0;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.rules = &streaming}), IDEM_OK);
  assert_int_equal(idem_router_method(peer.router, "pour", pour, &sent), IDEM_OK);
  const char *text = post(ACCEPT, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pour\"}");
  assert_int_equal(idem__http_conn_feed(peer.conn, text, strlen(text), peer.now_ms), IDEM_OK);
  assert_true(sent > 100 && sent < 100000); /* the engine's own limit stopped it */
  assert_true(idem__http_conn_queued(peer.conn) < (size_t)3 << 20);
  assert_false(idem__http_conn_want_read(peer.conn));
  http_peer_settle(&peer);
  assert_int_equal(http_peer_count(&peer, "\"method\":\"drop\""), sent);
  assert_true(idem__http_conn_want_read(peer.conn));
  http_peer_deinit(&peer);
}

static void a_reader_that_has_stopped_is_dropped(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.rules = &streaming}), IDEM_OK);
  const char *text = post(ACCEPT, SLOW);
  assert_int_equal(idem__http_conn_feed(peer.conn, text, strlen(text), peer.now_ms), IDEM_OK);
  idem_status status = IDEM_OK;
  for (int i = 0; i < 30 && status == IDEM_OK; i++) {
    peer.now_ms += 15000;
    status = idem__http_conn_expire(peer.conn, peer.now_ms);
  }
  assert_int_equal(status, IDEM_E_TIMEOUT);
  assert_true(idem__http_conn_finished(peer.conn));
  http_peer_reconnect(&peer);
  assert_int_equal(peer.cancelled, 1);
  http_peer_deinit(&peer);
}

/* Its turn comes when the one before it is answered, which nobody hears of but by its answer. */
static void what_waits_for_its_turn_has_it_at_once(void **state) {
  (void)state;
  static const char *const accepts[] = {"", ACCEPT};
  for (size_t i = 0; i < 2; i++) {
    http_peer peer;
    http_peer_opts opts = {.rules = &streaming, .concurrency = 1};
    assert_int_equal(http_peer_init(&peer, &opts), IDEM_OK);
    send_post(&peer, accepts[i],
              "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"slow\"},"
              "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"echo\"}]");
    assert_int_equal(peer.slow_count, 1);
    http_peer_answer_slow(&peer);
    assert_int_equal(http_peer_count(&peer, "\"id\":2,\"result\""), 1);
    http_peer_deinit(&peer);
  }
}

/* -------------------------------------------------------------------- memory */

static void scenario(fault_alloc *fault, void *user) {
  static const char *const tokens[] = {"t", NULL}, *const proxies[] = {"127.0.0.1", NULL};
  idem_http_opts http = {.tokens = tokens,
                         .trusted_proxies = proxies,
                         .rate_count = 100,
                         .rate_seconds = 1,
                         .access_log = true};
  http_peer peer;
  size_t piece = *(size_t *)user;
  http_peer_opts opts = {.http = &http, .rules = &streaming, .alloc = &fault->alloc};
  if (http_peer_init(&peer, &opts) == IDEM_OK) {
    static const char headers[] = ACCEPT "Authorization: Bearer t\r\nOrigin: http://localhost\r\n";
    static const char *const bodies[] = {
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[1,2,3]}",
        ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\"},"
         "{\"jsonrpc\":\"2.0\",\"method\":\"x\"}]"),
        CHATTY, SLOW};
    for (size_t i = 0; i < 4; i++) {
      const char *text = post(headers, bodies[i]);
      http_peer_feed(&peer, text, strlen(text), piece);
    }
    http_peer_feed(&peer, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 43, piece);
    http_peer_answer_slow(&peer);
    if (peer.status == IDEM_OK) http_peer_eof(&peer);
    if (http_peer_reconnect(&peer) == IDEM_OK) {
      const char *text = post(headers, SLOW);
      http_peer_feed(&peer, text, strlen(text), piece);
    }
  }
  http_peer_deinit(&peer);
}

static void no_allocation_failure_leaks_or_crashes(void **state) {
  (void)state;
  size_t pieces[] = {0, 50};
  for (size_t i = 0; i < 2; i++) {
    assert_true(fault_alloc_sweep(scenario, &pieces[i], 5000) > 20);
    assert_true(fault_alloc_sweep_ever_after(scenario, &pieces[i], 5000) > 20);
  }
}

static void serving_allocates_nothing_once_it_runs(void **state) {
  (void)state;
  fault_alloc fault;
  http_peer peer;
  fault_alloc_init(&fault);
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.alloc = &fault.alloc}), IDEM_OK);
  static const char body[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[1]}";
  for (int i = 0; i < 3; i++) {
    send_post(&peer, "", body);
    const char *text = post("", body);
    http_peer_feed(&peer, text, strlen(text), 40);
  }
  size_t before = fault.calls;
  for (int i = 0; i < 100; i++) {
    send_post(&peer, "", body);
    const char *text = post("", body);
    http_peer_feed(&peer, text, strlen(text), 40);
  }
  assert_int_equal(fault.calls, before);
  http_peer_deinit(&peer);
  fault_alloc_assert_clean(&fault);
}

static void an_idle_conn_is_small(void **state) {
  (void)state;
  fault_alloc fault;
  http_peer peer;
  fault_alloc_init(&fault);
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.alloc = &fault.alloc}), IDEM_OK);
  send_post(&peer, "", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\"}");
  size_t before = fault.live_bytes;
  idem_http_conn *conns[100];
  for (size_t i = 0; i < 100; i++)
    assert_int_equal(idem__http_conn_new(&(idem__http_conn_opts){.server = peer.server}, &conns[i]),
                     IDEM_OK);
  for (size_t i = 0; i < 100; i++) {
    idem_http_chunk chunk;
    const char *text = post("", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\"}");
    assert_int_equal(idem__http_conn_feed(conns[i], text, 60, 0), IDEM_OK);
    assert_int_equal(idem__http_conn_feed(conns[i], text + 60, strlen(text) - 60, 0), IDEM_OK);
    while (idem__http_conn_next_chunk(conns[i], &chunk)) idem__http_chunk_free(conns[i], &chunk, 0);
  }
  size_t each = (fault.live_bytes - before) / 100;
  print_message("  %zu bytes a conn\n", each);
  assert_true(each <= 1024);
  for (size_t i = 0; i < 100; i++) idem__http_conn_free(conns[i]);
  http_peer_deinit(&peer);
  fault_alloc_assert_clean(&fault);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(statuses_follow_the_answer),
      cmocka_unit_test(notifications_and_responses_get_204_and_nothing),
      cmocka_unit_test(the_status_of_a_notification_is_a_choice),
      cmocka_unit_test(rules_change_the_statuses),
      cmocka_unit_test(rules_may_ask_for_headers_and_add_some),
      cmocka_unit_test(a_large_answer_is_sent_whole),
      cmocka_unit_test(a_notification_turns_the_answer_into_a_stream),
      cmocka_unit_test(who_takes_json_alone_gets_no_stream),
      cmocka_unit_test(who_takes_streams_alone_gets_one),
      cmocka_unit_test(every_accept_header_is_judged_by_its_own_words),
      cmocka_unit_test(a_late_error_keeps_its_status_until_the_stream_begins),
      cmocka_unit_test(time_turns_the_answer_into_a_stream_with_comments),
      cmocka_unit_test(who_waits_too_long_is_told_and_the_work_is_cancelled),
      cmocka_unit_test(http_1_0_streams_end_with_the_connection),
      cmocka_unit_test(disconnecting_cancels_where_the_rules_say_so),
      cmocka_unit_test(a_comment_asks_whether_a_half_closed_reader_is_there),
      cmocka_unit_test(work_outlives_its_peer_where_the_rules_say_so),
      cmocka_unit_test(a_slow_reader_of_a_stream_holds_back_the_sender),
      cmocka_unit_test(a_reader_that_has_stopped_is_dropped),
      cmocka_unit_test(what_waits_for_its_turn_has_it_at_once),
      cmocka_unit_test(no_allocation_failure_leaks_or_crashes),
      cmocka_unit_test(serving_allocates_nothing_once_it_runs),
      cmocka_unit_test(an_idle_conn_is_small),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
