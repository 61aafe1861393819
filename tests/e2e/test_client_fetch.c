/* test_client_fetch.c - one HTTP request and its answer, against servers that behave and others. */
#include "script.h"

#include "support/unit.h"
#include <idem/fetch.h>

#include <stdio.h>
#include <stdlib.h>

typedef struct world {
  uv_loop_t loop;
  uv_timer_t ticker; /* a turn of the loop never blocks for long */
  script *server, *other;
  char url[64], elsewhere[64];
  char requests[8][2048];
  int asked;
  int ended;
  idem_status status;
  int http_status;
  char why[256], body[256], last_url[256], kind[64];
  idem_fetch *fetch;
  char streamed[256];
  bool cancel_in_stream;
} world;

static void on_answer(const idem_fetch_answer *answer, void *user) {
  world *in = user;
  const char *kind = idem_fetch_header(answer, "content-type");
  in->ended++;
  in->status = answer->status;
  in->http_status = answer->http_status;
  snprintf(in->why, sizeof in->why, "%s", answer->why);
  snprintf(in->body, sizeof in->body, "%s", answer->body);
  snprintf(in->last_url, sizeof in->last_url, "%s", answer->url);
  snprintf(in->kind, sizeof in->kind, "%s", kind ? kind : "");
  if (answer->status != IDEM_OK) assert_true(answer->why[0]);
}

/* The path of the request says what is to be answered. */
static void on_request(script_conn *conn, const char *request, void *user) {
  world *in = user;
  char path[256] = "", location[160];
  if (in->asked < 8) snprintf(in->requests[in->asked], sizeof in->requests[0], "%s", request);
  in->asked++;
  sscanf(request, "%*s %255s", path);
  if (strcmp(path, "/plain") == 0) {
    script_answer(conn, "200 OK", "Content-Type: text/plain\r\n", "hello");
  } else if (strcmp(path, "/teapot") == 0) {
    script_answer(conn, "418 Teapot", "Content-Type: text/plain\r\n", "short and stout");
  } else if (strncmp(path, "/hop/", 5) == 0) {
    int left = atoi(path + 5);
    snprintf(location, sizeof location, "Location: /hop/%d\r\n", left - 1);
    if (left == 0) snprintf(location, sizeof location, "Location: /plain\r\n");
    script_answer(conn, "302 Found", location, "moved");
  } else if (strcmp(path, "/keep") == 0) {
    script_answer(conn, "307 Temporary Redirect", "Location: plain\r\n", "");
  } else if (strcmp(path, "/away") == 0) {
    snprintf(location, sizeof location, "Location: %s/plain\r\n", in->elsewhere);
    script_answer(conn, "307 Temporary Redirect", location, "");
  } else if (strcmp(path, "/file") == 0) {
    script_answer(conn, "302 Found", "Location: file:///etc/passwd\r\n", "");
  } else if (strcmp(path, "/user") == 0) {
    script_answer(conn, "302 Found", "Location: http://a:b@127.0.0.1/\r\n", "");
  } else if (strcmp(path, "/large") == 0) {
    char large[2001];
    memset(large, 'x', 2000);
    large[2000] = 0;
    script_answer(conn, "200 OK", "", large);
  } else if (strcmp(path, "/endless") == 0) {
    script_send(conn, "HTTP/1.1 200 OK\r\n\r\n");
    for (int i = 0; i < 64; i++) script_send(conn, "0123456789012345678901234567890123456789");
  } else if (strcmp(path, "/headers") == 0) {
    script_send(conn, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 4000; i++) script_send(conn, "X-Padding: 01234567890123456789\r\n");
    script_send(conn, "\r\n");
  } else if (strcmp(path, "/header") == 0) {
    script_send(conn, "HTTP/1.1 200 OK\r\nX-Long: ");
    for (int i = 0; i < 7000; i++) script_send(conn, "0123456789");
    script_send(conn, "\r\n\r\n");
  } else if (strcmp(path, "/cut") == 0) {
    script_send(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    script_close(conn);
  } else if (strcmp(path, "/cut-head") == 0) {
    script_send(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Le");
    script_close(conn);
  } else if (strcmp(path, "/reset") == 0) {
    script_reset(conn);
  } else if (strcmp(path, "/junk") == 0) {
    script_send(conn, "this is no HTTP at all\r\n\r\n");
    script_close(conn);
  } else if (strcmp(path, "/stream") == 0) {
    script_send(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
    script_send(conn, "3\r\ntwo\r\n0\r\nX-Trailer: late\r\n\r\n");
  } else if (strcmp(path, "/early") == 0) {
    script_send(conn, "HTTP/1.1 103 Early Hints\r\nContent-Type: wrong\r\n\r\n");
    script_answer(conn, "200 OK", "Content-Type: right\r\n", "hello");
  } else if (strcmp(path, "/drip") == 0) {
    script_send(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
  } else if (strcmp(path, "/bye") == 0) {
    script_answer(conn, "200 OK", "", "bye");
    script_close(conn);
  } else if (strcmp(path, "/lost") == 0 && script_count(conn) > 1) {
    script_close(conn); /* it has read all of it */
  } else if (strcmp(path, "/lost") == 0) {
    script_answer(conn, "200 OK", "", "found");
  } else if (strcmp(path, "/last") == 0) {
    script_stop(in->server);
    in->server = NULL;
  } /* "/silent": nothing */
}

static void on_tick(uv_timer_t *timer) { (void)timer; }

static void set_up(world *in) {
  *in = (world){0};
  assert_int_equal(uv_loop_init(&in->loop), 0);
  uv_timer_init(&in->loop, &in->ticker);
  uv_timer_start(&in->ticker, on_tick, 20, 20);
  in->server = script_start(&in->loop, on_request, in);
  in->other = script_start(&in->loop, on_request, in);
  snprintf(in->url, sizeof in->url, "http://127.0.0.1:%d", script_port(in->server));
  snprintf(in->elsewhere, sizeof in->elsewhere, "http://127.0.0.1:%d", script_port(in->other));
}

static void tear_down(world *in) {
  uv_close((uv_handle_t *)&in->ticker, NULL);
  if (in->server) script_stop(in->server);
  script_stop(in->other);
  uv_run(&in->loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&in->loop), 0);
}

static idem_status start(world *in, const char *path, idem_fetch_opts opts) {
  char url[256];
  snprintf(url, sizeof url, "%s%s", in->url, path);
  opts.url = url;
  return idem_fetch_start(&in->loop, &opts, on_answer, in, &in->fetch);
}

static void fetch(world *in, const char *path, idem_fetch_opts opts) {
  int before = in->ended;
  assert_int_equal(start(in, path, opts), IDEM_OK);
  assert_int_equal(in->ended, before);
  while (in->ended == before) uv_run(&in->loop, UV_RUN_ONCE);
  assert_int_equal(in->ended, before + 1);
}
#define FETCH(in, path, ...) fetch(in, path, (idem_fetch_opts){__VA_ARGS__})

static void an_answer_comes_with_status_headers_and_body(void **state) {
  (void)state;
  world in;
  set_up(&in);
  FETCH(&in, "/plain", .method = "GET");
  assert_int_equal(in.status, IDEM_OK);
  assert_int_equal(in.http_status, 200);
  assert_string_equal(in.body, "hello");
  assert_string_equal(in.kind, "text/plain");
  assert_string_equal(script_header(in.requests[0], "User-Agent"), "idem/" IDEM_VERSION);
  assert_string_equal(script_header(in.requests[0], "Content-Type"), "");
  FETCH(&in, "/teapot", .method = NULL);
  assert_int_equal(in.status, IDEM_OK); /* an answer is an answer */
  assert_int_equal(in.http_status, 418);
  FETCH(&in, "/plain", .method = "HEAD");
  assert_int_equal(in.status, IDEM_OK);
  assert_string_equal(in.body, "");
  FETCH(&in, "/early", .method = NULL);
  assert_string_equal(in.kind, "right");
  tear_down(&in);
}

static void method_headers_and_body_arrive_as_they_were_given(void **state) {
  (void)state;
  world in;
  set_up(&in);
  static const char *const headers[] = {"X-One: first", "X-Empty:", "Content-Type: a/b", NULL};
  FETCH(&in, "/plain", .method = "PATCH", .headers = headers, .body = "{\"a\":1}", .body_len = 7);
  assert_memory_equal(in.requests[0], "PATCH /plain HTTP/1.1\r\n", 23);
  assert_string_equal(script_header(in.requests[0], "X-One"), "first");
  assert_non_null(strstr(in.requests[0], "X-Empty:"));
  assert_string_equal(script_header(in.requests[0], "Content-Type"), "a/b");
  assert_string_equal(script_header(in.requests[0], "Content-Length"), "7");
  assert_string_equal(script_header(in.requests[0], "Expect"), "");
  assert_string_equal(script_body(in.requests[0]), "{\"a\":1}");
  FETCH(&in, "/plain", .method = "POST");
  assert_string_equal(script_header(in.requests[1], "Content-Length"), "0");
  FETCH(&in, "/plain", .method = "DELETE");
  assert_memory_equal(in.requests[2], "DELETE ", 7);
  tear_down(&in);
}

static void what_would_break_the_message_is_refused(void **state) {
  (void)state;
  world in;
  set_up(&in);
  static const char *const bad[] = {
      "No colon",          "X: a\r\nY: b",        "X\n: a",
      ": empty",           "content-length: 3",   "Transfer-Encoding: chunked",
      "Connection: close", "Expect: 100-continue"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const char *const headers[] = {bad[i], NULL};
    assert_int_equal(start(&in, "/", (idem_fetch_opts){.headers = headers}), IDEM_E_INVAL);
  }
  assert_int_equal(start(&in, "/", (idem_fetch_opts){.method = "GE T"}), IDEM_E_INVAL);
  assert_int_equal(start(&in, "/", (idem_fetch_opts){.method = ""}), IDEM_E_INVAL);
  static const char *const urls[] = {"file:///etc/passwd",
                                     "ftp://127.0.0.1/",
                                     "nonsense:/",
                                     "http://a:b@127.0.0.1/",
                                     "",
                                     "http://"};
  for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
    idem_fetch_opts opts = {.url = urls[i]};
    assert_int_equal(idem_fetch_start(&in.loop, &opts, on_answer, &in, NULL), IDEM_E_INVAL);
  }
  tear_down(&in);
  assert_int_equal(in.ended, 0);
}

/* Its texts are of 8,000,000 bytes at most. */
static void what_libcurl_does_not_take_is_refused_and_no_want_of_memory(void **state) {
  (void)state;
  world in;
  set_up(&in);
  size_t len = 8000002;
  char *long_text = malloc(len + 1);
  assert_non_null(long_text);
  memset(long_text, 'a', len);
  long_text[len] = '\0';
  assert_int_equal(start(&in, "/", (idem_fetch_opts){.ca_file = long_text}), IDEM_E_INVAL);
  assert_int_equal(start(&in, "/", (idem_fetch_opts){.proxy = long_text}), IDEM_E_INVAL);
  free(long_text);
  tear_down(&in);
  assert_int_equal(in.ended, 0);
}

static void connections_are_used_again(void **state) {
  (void)state;
  world in;
  set_up(&in);
  assert_int_equal(start(&in, "/silent", (idem_fetch_opts){.total_ms = 60000}), IDEM_OK);
  idem_fetch *other = in.fetch; /* holds the runtime, as a server does */
  for (int i = 0; i < 5; i++) FETCH(&in, "/plain", .total_ms = 5000);
  assert_int_equal(script_accepted(in.server), 2);
  idem_fetch_cancel(other);
  tear_down(&in);
}

static void redirects_stay_at_home(void **state) {
  (void)state;
  world in;
  set_up(&in);
  static const char *const secret[] = {"Authorization: Bearer secret", NULL};
  FETCH(&in, "/hop/3", .headers = secret);
  assert_int_equal(in.status, IDEM_OK);
  assert_string_equal(in.body, "hello");
  assert_non_null(strstr(in.last_url, "/plain"));
  assert_string_equal(script_header(in.requests[4], "Authorization"), "Bearer secret");
  FETCH(&in, "/hop/4", .url = NULL);
  assert_int_equal(in.status, IDEM_OK); /* five of them */
  FETCH(&in, "/hop/5", .url = NULL);
  assert_int_equal(in.status, IDEM_E_PROTO);
  assert_string_equal(in.why, "redirected too often");
  in.asked = 0;
  FETCH(&in, "/away", .headers = secret);
  assert_int_equal(in.status, IDEM_E_PROTO);
  assert_int_equal(in.http_status, 307);
  assert_non_null(strstr(in.why, "another origin"));
  assert_int_equal(script_accepted(in.other), 0);
  FETCH(&in, "/file", .url = NULL);
  assert_int_equal(in.status, IDEM_E_PROTO);
  FETCH(&in, "/user", .url = NULL);
  assert_int_equal(in.status, IDEM_E_PROTO);
  FETCH(&in, "/away", .redirects = IDEM_REDIRECTS_NONE);
  assert_int_equal(in.status, IDEM_OK);
  assert_int_equal(in.http_status, 307);
  tear_down(&in);
}

static void a_redirect_keeps_or_drops_the_body_as_its_status_says(void **state) {
  (void)state;
  world in;
  set_up(&in);
  static const char *const headers[] = {"Content-Type: a/b", NULL};
  FETCH(&in, "/keep", .method = "POST", .headers = headers, .body = "body", .body_len = 4);
  assert_memory_equal(in.requests[1], "POST /plain", 11);
  assert_string_equal(script_body(in.requests[1]), "body");
  FETCH(&in, "/hop/0", .method = "POST", .headers = headers, .body = "body", .body_len = 4);
  assert_memory_equal(in.requests[3], "GET /plain", 10);
  assert_string_equal(script_body(in.requests[3]), "");
  assert_string_equal(script_header(in.requests[3], "Content-Type"), "");
  tear_down(&in);
}

static void secrets_never_go_to_another_origin(void **state) {
  (void)state;
  world in;
  set_up(&in);
  static const char *const headers[] = {"Authorization: Bearer secret",
                                        "Cookie: secret=1",
                                        "X-Api-Key: secret",
                                        "Accept: a/b",
                                        "Content-Type: c/d",
                                        NULL};
  FETCH(&in, "/away", .method = "POST", .headers = headers, .body = "body", .body_len = 4,
        .redirects = IDEM_REDIRECTS_STRIPPED);
  assert_int_equal(in.status, IDEM_OK);
  assert_int_equal(script_accepted(in.other), 1);
  assert_null(strstr(in.requests[1], "secret"));
  assert_string_equal(script_header(in.requests[1], "Accept"), "a/b");
  assert_string_equal(script_header(in.requests[1], "Content-Type"), "c/d");
  tear_down(&in);
}

static void what_is_too_large_is_cut_off(void **state) {
  (void)state;
  world in;
  set_up(&in);
  FETCH(&in, "/large", .max_bytes = 2000);
  assert_int_equal(in.status, IDEM_OK);
  FETCH(&in, "/large", .max_bytes = 1999);
  assert_int_equal(in.status, IDEM_E_LIMIT);
  assert_string_equal(in.body, "");
  FETCH(&in, "/endless", .max_bytes = 1000);
  assert_int_equal(in.status, IDEM_E_LIMIT);
  FETCH(&in, "/headers", .url = NULL);
  assert_int_equal(in.status, IDEM_E_LIMIT);
  FETCH(&in, "/header", .url = NULL);
  assert_int_equal(in.status, IDEM_E_LIMIT);
  tear_down(&in);
}

static void a_broken_answer_is_an_error(void **state) {
  (void)state;
  world in;
  set_up(&in);
  FETCH(&in, "/cut", .url = NULL);
  assert_int_equal(in.status, IDEM_E_CLOSED);
  FETCH(&in, "/cut-head", .url = NULL);
  assert_int_equal(in.status, IDEM_E_CLOSED);
  FETCH(&in, "/reset", .url = NULL);
  assert_int_equal(in.status, IDEM_E_CLOSED);
  FETCH(&in, "/junk", .url = NULL);
  assert_int_equal(in.status, IDEM_E_PROTO);
  snprintf(in.url, sizeof in.url, "http://127.0.0.1:%d", script_port(in.other));
  tear_down(&in);
}

static void nobody_waits_for_ever(void **state) {
  (void)state;
  world in;
  set_up(&in);
  FETCH(&in, "/silent", .total_ms = 30);
  assert_int_equal(in.status, IDEM_E_TIMEOUT);
  FETCH(&in, "/silent", .idle_ms = 30);
  assert_int_equal(in.status, IDEM_E_TIMEOUT);
  FETCH(&in, "/drip", .idle_ms = 30);
  assert_int_equal(in.status, IDEM_E_TIMEOUT);
  FETCH(&in, "/drip", .total_ms = 30);
  assert_int_equal(in.status, IDEM_E_TIMEOUT);
  tear_down(&in);
}

static void nobody_there_is_an_error(void **state) {
  (void)state;
  world in;
  set_up(&in);
  script_stop(in.other);
  while (uv_run(&in.loop, UV_RUN_NOWAIT) && in.ended) continue;
  snprintf(in.url, sizeof in.url, "%s", in.elsewhere);
  FETCH(&in, "/", .url = NULL);
  assert_int_equal(in.status, IDEM_E_SYS);
  in.other = script_start(&in.loop, on_request, &in);
  tear_down(&in);
}

static void a_cancelled_fetch_is_silent(void **state) {
  (void)state;
  world in;
  set_up(&in);
  assert_int_equal(start(&in, "/silent", (idem_fetch_opts){.idle_ms = 60000}), IDEM_OK);
  idem_fetch_cancel(in.fetch); /* before anything happened */
  assert_int_equal(start(&in, "/silent", (idem_fetch_opts){.idle_ms = 60000}), IDEM_OK);
  while (in.asked == 0) uv_run(&in.loop, UV_RUN_ONCE);
  idem_fetch_cancel(in.fetch);
  idem_fetch_cancel(NULL);
  tear_down(&in);
  assert_int_equal(in.ended, 0);
}

static bool stream_head(const idem_fetch_answer *answer, void *user) {
  (void)user;
  assert_int_equal(answer->http_status, 200);
  return true;
}

static bool stream_data(const char *data, size_t len, void *user) {
  world *in = user;
  strncat(in->streamed, data, len);
  if (in->cancel_in_stream) idem_fetch_cancel(in->fetch);
  return true;
}

static void a_stream_is_seen_as_it_comes(void **state) {
  (void)state;
  world in;
  set_up(&in);
  FETCH(&in, "/stream", .on_head = stream_head, .on_data = stream_data, .max_bytes = 1);
  assert_int_equal(in.status, IDEM_OK);
  assert_string_equal(in.streamed, "onetwo");
  assert_string_equal(in.body, "");
  in.cancel_in_stream = true;
  idem_fetch_opts opts = {.on_head = stream_head, .on_data = stream_data};
  assert_int_equal(start(&in, "/stream", opts), IDEM_OK);
  while (strlen(in.streamed) < 9) uv_run(&in.loop, UV_RUN_ONCE);
  tear_down(&in);
  assert_int_equal(in.ended, 1);
}

/* What the stream has started is cancelled by the stream's own end, before libcurl has seen it. */
typedef struct chain {
  world *in;
  idem_fetch *second;
  bool first_ended;
} chain;

static void second_ended(const idem_fetch_answer *answer, void *user) {
  (void)answer, (void)user;
  fail_msg("a cancelled fetch has ended");
}

static bool start_second(const char *data, size_t len, void *user) {
  chain *of = user;
  char url[256];
  (void)data, (void)len;
  snprintf(url, sizeof url, "%s/plain", of->in->url);
  idem_fetch_opts opts = {.url = url};
  assert_int_equal(idem_fetch_start(&of->in->loop, &opts, second_ended, of, &of->second), IDEM_OK);
  return false; /* this one ends here and now */
}

static void cancel_second(const idem_fetch_answer *answer, void *user) {
  chain *of = user;
  assert_int_equal(answer->status, IDEM_E_CANCELLED);
  idem_fetch_cancel(of->second);
  of->first_ended = true;
}

static void what_a_callback_starts_the_next_may_cancel(void **state) {
  (void)state;
  world in;
  char url[256];
  set_up(&in);
  chain of = {.in = &in};
  snprintf(url, sizeof url, "%s/stream", in.url);
  idem_fetch_opts opts = {.url = url, .on_head = stream_head, .on_data = start_second};
  assert_int_equal(idem_fetch_start(&in.loop, &opts, cancel_second, &of, NULL), IDEM_OK);
  while (!of.first_ended) uv_run(&in.loop, UV_RUN_ONCE);
  FETCH(&in, "/plain", .method = "GET");
  assert_string_equal(in.body, "hello");
  tear_down(&in);
}

/* A request elsewhere holds the runtime, and with it the connections that are kept. */
static idem_fetch *keep_connections(world *in) {
  char url[128];
  idem_fetch *held = NULL;
  snprintf(url, sizeof url, "%s/silent", in->elsewhere);
  idem_fetch_opts opts = {.url = url};
  assert_int_equal(idem_fetch_start(&in->loop, &opts, on_answer, in, &held), IDEM_OK);
  while (!in->asked) uv_run(&in->loop, UV_RUN_ONCE);
  FETCH(in, "/plain", .method = "GET");
  in->asked = 0;
  return held;
}

/* A server that reads a request on a kept connection and leaves may have done what it says. */
static void what_may_change_something_is_sent_once(void **state) {
  (void)state;
  static const char *const methods[] = {"POST", "PUT", "PATCH", "DELETE"};
  for (size_t i = 0; i < 8; i++) {
    world in;
    set_up(&in);
    idem_fetch *held = keep_connections(&in);
    FETCH(&in, "/lost", .method = methods[i / 2], .body = i % 2 ? "x" : NULL, .body_len = i % 2);
    assert_int_equal(in.status, IDEM_E_CLOSED);
    assert_int_equal(in.asked, 1);
    assert_int_equal(script_accepted(in.server), 1);
    FETCH(&in, "/lost", .method = "POST");
    assert_string_equal(in.body, "found");
    idem_fetch_cancel(held);
    tear_down(&in);
  }
}

static void what_changes_nothing_is_sent_again(void **state) {
  (void)state;
  world in;
  set_up(&in);
  idem_fetch *held = keep_connections(&in);
  FETCH(&in, "/lost", .method = "GET");
  assert_string_equal(in.body, "found");
  assert_int_equal(in.asked, 2);
  FETCH(&in, "/lost", .method = "POST", .body = "x", .body_len = 1, .may_repeat = true);
  assert_string_equal(in.body, "found");
  assert_int_equal(in.asked, 4);
  idem_fetch_cancel(held);
  tear_down(&in);
}

static void what_went_out_is_never_told_as_not_sent(void **state) {
  (void)state;
  for (int repeats = 0; repeats < 2; repeats++) {
    world in;
    set_up(&in);
    idem_fetch *held = keep_connections(&in);
    FETCH(&in, "/last", .method = "POST", .may_repeat = repeats);
    assert_int_equal(in.status, IDEM_E_CLOSED);
    assert_string_equal(in.why, "the connection broke before an answer came");
    assert_int_equal(in.asked, 1);
    idem_fetch_cancel(held);
    tear_down(&in);
  }
}

static void a_connection_that_was_closed_while_idle_is_noticed(void **state) {
  (void)state;
  world in;
  set_up(&in);
  idem_fetch *held = keep_connections(&in);
  for (int i = 0; i < 3; i++) {
    FETCH(&in, "/bye", .method = "POST", .body = "x", .body_len = 1);
    assert_string_equal(in.body, "bye");
    while (script_open(in.server)) uv_run(&in.loop, UV_RUN_ONCE);
  }
  assert_int_equal(in.asked, 3);
  idem_fetch_cancel(held);
  tear_down(&in);
}

int main(void) {
  setenv("no_proxy", "*", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_answer_comes_with_status_headers_and_body),
      cmocka_unit_test(method_headers_and_body_arrive_as_they_were_given),
      cmocka_unit_test(what_would_break_the_message_is_refused),
      cmocka_unit_test(what_libcurl_does_not_take_is_refused_and_no_want_of_memory),
      cmocka_unit_test(connections_are_used_again),
      cmocka_unit_test(what_may_change_something_is_sent_once),
      cmocka_unit_test(what_changes_nothing_is_sent_again),
      cmocka_unit_test(what_went_out_is_never_told_as_not_sent),
      cmocka_unit_test(a_connection_that_was_closed_while_idle_is_noticed),
      cmocka_unit_test(redirects_stay_at_home),
      cmocka_unit_test(a_redirect_keeps_or_drops_the_body_as_its_status_says),
      cmocka_unit_test(secrets_never_go_to_another_origin),
      cmocka_unit_test(what_is_too_large_is_cut_off),
      cmocka_unit_test(a_broken_answer_is_an_error),
      cmocka_unit_test(nobody_waits_for_ever),
      cmocka_unit_test(nobody_there_is_an_error),
      cmocka_unit_test(a_cancelled_fetch_is_silent),
      cmocka_unit_test(a_stream_is_seen_as_it_comes),
      cmocka_unit_test(what_a_callback_starts_the_next_may_cancel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
