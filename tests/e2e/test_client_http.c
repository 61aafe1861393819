/* test_client_http.c - idem_connect over HTTP to servers that misbehave.
 * The promise behind all of them: a call ends exactly once, and says what happened. */
#include "client_world.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define JSON "Content-Type: application/json\r\n"
#define STREAM "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

/* ------------------------------------------------------- a server with many bad habits */

static void send_event(script_conn *conn, const char *id, const char *data) {
  char event[1024];
  snprintf(event, sizeof event, "%s%s%sdata: %s\n\n", id ? "id: " : "", id ? id : "",
           id ? "\n" : "", data);
  script_send(conn, event);
}

static void send_result(script_conn *conn, const char *id, const char *call) {
  char data[128];
  snprintf(data, sizeof data, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":\"late\"}", call);
  send_event(conn, id, data);
}

static void on_resume(world *in, script_conn *conn, const char *request) {
  const char *last = script_header(request, "Last-Event-ID");
  if (strcmp(last, "drop-1") == 0 || strcmp(last, "retry-9") == 0) {
    script_send(conn, STREAM);
    send_result(conn, "drop-2", "1");
    script_close(conn);
  } else if (strcmp(last, "gone-1") == 0) {
    script_answer(conn, "404 Not Found", "", "");
  } else {
    script_close(conn); /* again and again */
  }
  (void)in;
}

static void on_call(world *in, script_conn *conn, const char *method, const char *id) {
  char text[512], large[8000];
  snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":true}", id);
  if (strcmp(method, "\"plain\"") == 0) {
    script_answer(conn, "200 OK", JSON, text);
  } else if (strcmp(method, "\"elsewhere\"") == 0) {
    snprintf(text, sizeof text, "Location: %s/x\r\n", in->elsewhere);
    script_answer(conn, "307 Temporary Redirect", text, "");
  } else if (strcmp(method, "\"moved\"") == 0) {
    script_answer(conn, "302 Found", "Location: /x\r\n", "");
  } else if (strcmp(method, "\"unauthorized\"") == 0) {
    script_answer(conn, "401 Unauthorized", "WWW-Authenticate: Bearer\r\n", "who are you?");
  } else if (strcmp(method, "\"missing\"") == 0) {
    script_answer(conn, "404 Not Found", "Content-Type: text/html\r\n", "<h1>no</h1>");
  } else if (strcmp(method, "\"limited\"") == 0) {
    script_answer(conn, "429 Too Many Requests", "Retry-After: 7\r\n", "");
  } else if (strcmp(method, "\"broken\"") == 0) {
    script_answer(conn, "500 Internal Server Error", JSON, "{\"error\":17}");
  } else if (strcmp(method, "\"error\"") == 0) {
    snprintf(text, sizeof text,
             "{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32601,\"message\":\"nope\"}}",
             id);
    script_answer(conn, "404 Not Found", JSON, text);
  } else if (strcmp(method, "\"nullerror\"") == 0) {
    script_answer(conn, "400 Bad Request", JSON,
                  "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"bad\","
                  "\"data\":{\"n\":1e400}}}");
  } else if (strcmp(method, "\"otherid\"") == 0) {
    script_answer(conn, "200 OK", JSON, "{\"jsonrpc\":\"2.0\",\"id\":999,\"result\":1}");
  } else if (strcmp(method, "\"empty\"") == 0) {
    script_answer(conn, "202 Accepted", "", "");
  } else if (strcmp(method, "\"html\"") == 0) {
    script_answer(conn, "200 OK", "Content-Type: text/html\r\n", "<h1>yes</h1>");
  } else if (strcmp(method, "\"oversize\"") == 0) {
    memset(large, ' ', sizeof large - 1);
    large[sizeof large - 1] = 0;
    script_answer(conn, "200 OK", JSON, large);
  } else if (strcmp(method, "\"cut\"") == 0) {
    script_send(conn, "HTTP/1.1 200 OK\r\n" JSON "Content-Length: 100\r\n\r\n{");
    script_close(conn);
  } else if (strcmp(method, "\"stream\"") == 0) {
    script_send(conn, STREAM ": hello\n\n");
    send_event(conn, NULL, "{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"greet\"}");
    send_result(conn, NULL, id);
    script_close(conn);
  } else if (strcmp(method, "\"endless\"") == 0) {
    script_send(conn, STREAM);
    send_result(conn, NULL, id); /* and the stream stays open */
  } else if (strcmp(method, "\"truncated\"") == 0) {
    script_send(conn, STREAM "data: {\"jsonrpc\":\"2.0\",");
    script_close(conn);
  } else if (strcmp(method, "\"largeevent\"") == 0) {
    script_send(conn, STREAM "data: ");
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = 0;
    script_send(conn, large);
  } else if (strcmp(method, "\"drop\"") == 0) {
    static const char events[] =
        "retry: 10\n\nid: drop-1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"note\"}\n\n"
        "id: drop-3\ndata: {\"half\":";
    snprintf(text, sizeof text,
             "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
             "Transfer-Encoding: chunked\r\n\r\n%zx\r\n%s\r\n",
             sizeof events - 1, events);
    script_send(conn, text); /* the last chunk never comes */
    script_close(conn);
  } else if (strcmp(method, "\"gone\"") == 0) {
    script_send(conn, STREAM "id: gone-1\nretry: 1\ndata:\n\n");
    script_close(conn);
  } else if (strcmp(method, "\"flapping\"") == 0) {
    script_send(conn, STREAM "id: flap\nretry: 1\ndata:\n\n");
    script_close(conn);
  } else {
    in->kept[in->keeps++ % 8] = conn; /* "silent": the test says when */
  }
}

static void on_request(script_conn *conn, const char *request, void *user) {
  world *in = user;
  char method[64], id[32];
  if (in->asked < 16) snprintf(in->requests[in->asked], sizeof in->requests[0], "%s", request);
  in->asked++;
  member(request, "method", method, sizeof method);
  member(request, "id", id, sizeof id);
  if (strncmp(request, "GET ", 4) == 0)
    on_resume(in, conn, request);
  else if (!*method || !*id)
    script_answer(conn, "202 Accepted", "", ""); /* a notification or an answer */
  else if (strncmp(request, "POST /x ", 8) == 0)
    on_call(in, conn, "\"plain\"", id);
  else
    on_call(in, conn, method, id);
}

/* ----------------------------------------------------------------------------- the tests */

static void a_call_is_a_post_and_its_answer(void **state) {
  (void)state;
  world in;
  set_up(&in, on_request);
  static const char *const headers[] = {"X-Mine: 1", NULL};
  char url[128];
  snprintf(url, sizeof url, "%s/rpc?key=value", in.url);
  connect_to(&in, url, &(idem_client_opts){.headers = headers, .token = "secret"});
  answer got = ask(&in, "plain");
  assert_int_equal(got.status, IDEM_OK);
  assert_string_equal(got.result, "true");
  const char *request = in.requests[0];
  assert_memory_equal(request, "POST /rpc?key=value HTTP/1.1\r\n", 30);
  assert_string_equal(script_header(request, "Content-Type"), "application/json");
  assert_string_equal(script_header(request, "Accept"), "application/json, text/event-stream");
  assert_string_equal(script_header(request, "Authorization"), "Bearer secret");
  assert_string_equal(script_header(request, "X-Mine"), "1");
  assert_string_equal(script_body(request),
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"plain\",\"params\":[1]}");
  for (int i = 0; i < 5; i++) ask(&in, "plain");
  assert_int_equal(script_accepted(in.server), 1); /* one connection for all of them */
  assert_int_equal(idem_notify_json(in.conn, "told", NULL, 0), IDEM_OK);
  while (in.asked < 7) uv_run(&in.loop, UV_RUN_ONCE);
  tear_down(&in);
}

static void http_errors_say_what_happened(void **state) {
  (void)state;
  world in;
  set_up(&in, on_request);
  connect_to(&in, in.url, NULL);
  static const struct {
    const char *method;
    idem_status status;
    int64_t code;
    const char *message, *data;
  } cases[] = {
      {"unauthorized", IDEM_E_REMOTE, -32000, "HTTP 401 Unauthorized",
       "{\"status\":401,\"body\":\"who are you?\"}"},
      {"missing", IDEM_E_REMOTE, -32000, "HTTP 404 Not Found",
       "{\"status\":404,\"body\":\"<h1>no</h1>\"}"},
      {"limited", IDEM_E_REMOTE, -32000, "HTTP 429 Too Many Requests",
       "{\"status\":429,\"retryAfter\":7}"},
      {"broken", IDEM_E_REMOTE, -32000, "HTTP 500 Internal Server Error",
       "{\"status\":500,\"body\":\"{\\\"error\\\":17}\"}"},
      {"moved", IDEM_E_REMOTE, -32000, "HTTP 302 Found", "{\"status\":302}"},
      {"error", IDEM_E_REMOTE, -32601, "nope", ""},
      {"nullerror", IDEM_E_REMOTE, -32600, "bad", "{\"n\":1e400}"},
      {"otherid", IDEM_E_PROTO, 0, "the answer is not to this call", ""},
      {"empty", IDEM_E_PROTO, 0, "the server answered without an answer", ""},
      {"html", IDEM_E_PROTO, 0, "the answer is neither JSON nor an event stream", ""},
      {"oversize", IDEM_E_LIMIT, 0, "the answer is larger than 4096 bytes", ""},
      {"cut", IDEM_E_CLOSED, 0, NULL, ""},
      {"truncated", IDEM_E_CLOSED, 0, "the event stream ended without an answer", ""},
      {"largeevent", IDEM_E_LIMIT, 0, "an event is too large", ""},
      {"elsewhere", IDEM_E_PROTO, 0, NULL, ""},
      {"gone", IDEM_E_CLOSED, 0,
       "the event stream ended without an answer, and is not taken up again: HTTP 404 Not Found",
       ""},
      {"flapping", IDEM_E_CLOSED, 0, NULL, ""},
      {"plain", IDEM_OK, 0, "", ""}, /* the conn has lived through all of it */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    answer got = ask(&in, cases[i].method);
    if (got.status != cases[i].status) fail_msg("%s: %d", cases[i].method, got.status);
    assert_int_equal(got.code, cases[i].code);
    if (cases[i].message) assert_string_equal(got.message, cases[i].message);
    if (got.status != IDEM_OK) assert_true(got.message[0]);
    assert_string_equal(got.data, cases[i].data);
  }
  assert_int_equal(script_accepted(in.other), 0);
  assert_int_equal(in.protocol_errors, 1); /* otherid */
  tear_down(&in);
}

static void a_stream_may_ask_back_before_it_answers(void **state) {
  (void)state;
  world in;
  set_up(&in, on_request);
  connect_to(&in, in.url, NULL);
  answer got = ask(&in, "stream");
  assert_int_equal(got.status, IDEM_OK);
  assert_string_equal(got.result, "\"late\"");
  while (in.asked < 2) uv_run(&in.loop, UV_RUN_ONCE);
  assert_string_equal(script_body(in.requests[1]),
                      "{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"result\":\"hello\"}");
  tear_down(&in);
}

static void a_dropped_stream_is_taken_up_where_it_was(void **state) {
  (void)state;
  world in;
  set_up(&in, on_request);
  connect_to(&in, in.url, &(idem_client_opts){.token = "secret"});
  answer got = ask(&in, "drop");
  assert_int_equal(got.status, IDEM_OK);
  assert_string_equal(got.result, "\"late\"");
  assert_int_equal(in.asked, 2);
  assert_memory_equal(in.requests[1], "GET / HTTP/1.1\r\n", 16);
  assert_string_equal(script_header(in.requests[1], "Last-Event-ID"), "drop-1");
  assert_string_equal(script_header(in.requests[1], "Accept"), "text/event-stream");
  assert_string_equal(script_header(in.requests[1], "Authorization"), "Bearer secret");
  tear_down(&in);
}

static void a_redirect_elsewhere_takes_no_secrets_along(void **state) {
  (void)state;
  world in;
  set_up(&in, on_request);
  static const char *const headers[] = {"Cookie: secret", "X-Api-Key: secret", NULL};
  connect_to(
      &in, in.url,
      &(idem_client_opts){.headers = headers, .token = "secret", .redirect_elsewhere = true});
  answer got = ask(&in, "elsewhere");
  assert_int_equal(got.status, IDEM_OK);
  assert_int_equal(script_accepted(in.other), 1);
  assert_non_null(strstr(in.requests[0], "secret"));
  assert_null(strstr(in.requests[1], "secret"));
  assert_memory_equal(in.requests[1], "POST /x ", 8);
  tear_down(&in);
}

static void an_answered_stream_that_stays_open_is_cut_off(void **state) {
  (void)state;
  world in;
  set_up(&in, on_request);
  connect_to(&in, in.url, NULL);
  answer got = ask(&in, "endless");
  assert_int_equal(got.status, IDEM_OK);
  assert_int_equal(script_open(in.server), 1);
  while (script_open(in.server)) uv_run(&in.loop, UV_RUN_ONCE);
  tear_down(&in);
}

static void calls_that_get_no_answer_end_in_time(void **state) {
  (void)state;
  world in;
  set_up(&in, on_request);
  connect_to(&in, in.url, &(idem_client_opts){.idle_ms = 40});
  assert_int_equal(ask(&in, "silent").status, IDEM_E_TIMEOUT);
  answer one = {0}, two = {0};
  assert_int_equal(idem_call_json(in.conn, "silent", NULL, 0, &(idem_call_opts){.timeout_ms = 10},
                                  on_response, &one, NULL),
                   IDEM_OK);
  wait_for(&in, &one);
  assert_int_equal(one.status, IDEM_E_TIMEOUT);
  uint64_t id;
  assert_int_equal(idem_call_json(in.conn, "silent", NULL, 0, NULL, on_response, &two, &id),
                   IDEM_OK);
  assert_int_equal(idem_cancel(in.conn, id), IDEM_OK);
  assert_int_equal(two.status, IDEM_E_CANCELLED);
  tear_down(&in);
}

static void at_most_so_many_calls_are_under_way(void **state) {
  (void)state;
  world in;
  set_up(&in, on_request);
  connect_to(&in, in.url, &(idem_client_opts){.max_requests = 2});
  answer answers[5];
  for (int i = 0; i < 5; i++) call(&in, "silent", &answers[i]);
  assert_int_equal(idem_notify_json(in.conn, "told", NULL, 0), IDEM_OK); /* passes them */
  while (in.asked < 3) uv_run(&in.loop, UV_RUN_ONCE);
  for (int i = 0; i < 20; i++) uv_run(&in.loop, UV_RUN_NOWAIT);
  assert_int_equal(in.keeps, 2);
  for (int done = 0; done < 5; done++) {
    char text[128];
    while (in.keeps <= done) uv_run(&in.loop, UV_RUN_ONCE);
    snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":true}", done + 1);
    script_answer(in.kept[done], "200 OK", JSON, text);
    wait_for(&in, &answers[done]);
    assert_int_equal(answers[done].status, IDEM_OK);
  }
  tear_down(&in);
}

static void closing_ends_what_is_under_way(void **state) {
  (void)state;
  world in;
  set_up(&in, on_request);
  connect_to(&in, in.url, NULL);
  answer got;
  call(&in, "silent", &got);
  while (in.keeps < 1) uv_run(&in.loop, UV_RUN_ONCE);
  assert_int_equal(idem_notify_json(in.conn, "goodbye", NULL, 0), IDEM_OK);
  idem_conn_close(in.conn);
  in.conn = NULL;
  assert_int_equal(got.times, 1);
  assert_int_equal(got.status, IDEM_E_CLOSED);
  while (in.asked < 2) uv_run(&in.loop, UV_RUN_ONCE); /* what was said last still goes out */
  tear_down(&in);
}

static void who_says_nothing_for_long_is_not_closed(void **state) {
  (void)state;
  world in;
  set_up(&in, on_request);
  in.idle_ms = 1;
  connect_to(&in, in.url, NULL);
  for (uint64_t until = uv_now(&in.loop) + 50; uv_now(&in.loop) < until;)
    uv_run(&in.loop, UV_RUN_ONCE);
  assert_int_equal(in.closed, 0);
  assert_int_equal(ask(&in, "plain").status, IDEM_OK);
  tear_down(&in);
}

static void nobody_there_fails_the_call_not_the_conn(void **state) {
  (void)state;
  world in;
  set_up(&in, on_request);
  connect_to(&in, "http://127.0.0.1:1/", &(idem_client_opts){.proxy = ""});
  assert_int_equal(ask(&in, "plain").status, IDEM_E_SYS);
  assert_int_equal(ask(&in, "plain").status, IDEM_E_SYS);
  tear_down(&in);
}

static void what_is_no_url_or_header_is_refused(void **state) {
  (void)state;
  world in;
  set_up(&in, on_request);
  static const char *const urls[] = {"http://", "https://a:b@c/", "http://a b/", "http://[::1"};
  for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
    assert_int_equal(idem_connect(&in.loop, urls[i], &(idem_connect_opts){0}, on_ready, &in),
                     IDEM_E_INVAL);
  static const char *const headers[] = {"Content-Length: 5", NULL};
  idem_client_opts bad[] = {{.token = "a\r\nb"}, {.token = ""}, {.headers = headers}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(
        idem_connect(&in.loop, in.url, &(idem_connect_opts){.client = &bad[i]}, on_ready, &in),
        IDEM_E_INVAL);
  tear_down(&in);
  assert_int_equal(in.readies, 0);
}

static void a_message_has_no_longer_than_it_is_given(void **state) {
  (void)state;
  world in;
  set_up(&in, on_request);
  connect_to(&in, in.url, &(idem_client_opts){.total_ms = 40});
  answer got = ask(&in, "silent");
  assert_int_equal(got.status, IDEM_E_TIMEOUT);
  assert_true(got.message[0]);
  assert_int_equal(ask(&in, "plain").status, IDEM_OK);
  tear_down(&in);
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  setenv("no_proxy", "*", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_call_is_a_post_and_its_answer),
      cmocka_unit_test(http_errors_say_what_happened),
      cmocka_unit_test(a_stream_may_ask_back_before_it_answers),
      cmocka_unit_test(a_dropped_stream_is_taken_up_where_it_was),
      cmocka_unit_test(a_redirect_elsewhere_takes_no_secrets_along),
      cmocka_unit_test(an_answered_stream_that_stays_open_is_cut_off),
      cmocka_unit_test(calls_that_get_no_answer_end_in_time),
      cmocka_unit_test(at_most_so_many_calls_are_under_way),
      cmocka_unit_test(closing_ends_what_is_under_way),
      cmocka_unit_test(who_says_nothing_for_long_is_not_closed),
      cmocka_unit_test(nobody_there_fails_the_call_not_the_conn),
      cmocka_unit_test(what_is_no_url_or_header_is_refused),
      cmocka_unit_test(a_message_has_no_longer_than_it_is_given),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
