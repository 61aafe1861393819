/* test_access_log.c - one line a request: who, what, the status, how long, and no secrets; and a line
 * for who is refused. */
#include "support/fault_alloc.h"
#include "support/http_peer.h"

#include "support/unit.h"

#include <stdio.h>

#define POST_AS(headers, body, len)                                                                \
  "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" headers               \
  "Content-Length: " len "\r\n\r\n" body
#define ECHO "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\"}"
#define SLOW "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"slow\"}"

typedef struct world {
  http_peer peer;
  idem_log *log;
  char line[1024]; /* the last one */
  int lines;
} world;

static void keep_line(void *ctx, const char *line, size_t len) {
  world *in = ctx;
  char text[1024];
  snprintf(text, sizeof text, "%.*s", (int)len, line);
  if (strstr(text, "a request was cancelled")) return; /* the engine's */
  memcpy(in->line, text, sizeof text);
  in->lines++;
}

static void set_up_as(world *in, const idem_http_opts *http, const idem_alloc *alloc) {
  static const idem__http_subject subjects[] = {{"tools/call", "name", "tool"},
                                                {"prompts/get", "name", "prompt"},
                                                {"resources/read", "uri", "resource"},
                                                {NULL, NULL, NULL}};
  static const idem__http_rules rules = {.event_streams = true, .subjects = subjects};
  *in = (world){.line = ""};
  idem_log_opts opts = {.level = IDEM_LOG_INFO, .write = keep_line, .write_ctx = in};
  assert_int_equal(idem_log_new(&opts, &in->log), IDEM_OK);
  http_peer_opts peer = {.http = http, .rules = &rules, .log = in->log, .alloc = alloc};
  assert_int_equal(http_peer_init(&in->peer, &peer), IDEM_OK);
}

static void set_up_with(world *in, bool access_log) {
  static const char *const trusted[] = {"127.0.0.1", NULL};
  idem_http_opts http = {.access_log = access_log, .trusted_proxies = trusted};
  set_up_as(in, &http, NULL);
}

static void set_up(world *in) { set_up_with(in, true); }

static void tear_down(world *in) {
  http_peer_deinit(&in->peer);
  idem_log_free(in->log);
}

static void expect_line(const world *in, const char *wanted) {
  if (!strstr(in->line, wanted)) fail_msg("no %s in: %s", wanted, in->line);
}

static void it_tells_and_redacts(void **state) {
  (void)state;
  world in;
  set_up(&in);
  static const char post[] = POST_AS("Authorization: Bearer hush\r\n", ECHO, "40"),
                    get[] = "GET /healthz?token=hush HTTP/1.1\r\nHost: evil\r\n\r\n";
  http_peer_feed(&in.peer, post, sizeof post - 1, 0);
  expect_line(&in, "POST / 200 38 bytes 0 ms");
  expect_line(&in, "peer=\"http 127.0.0.1:4242\"");
  assert_null(strstr(in.line, "hush"));
  http_peer_feed(&in.peer, get, sizeof get - 1, 0);
  expect_line(&in, "GET /healthz 403 ");
  expect_line(&in, "forbidden-host");
  assert_null(strstr(in.line, "hush"));
  tear_down(&in);
}

/* What was asked, of whom and under which id; what a peer may have hidden in a name is hidden here, too. */
static void it_names_the_message(void **state) {
  (void)state;
#define ABOUT(method, member, name)                                                                \
  "{\"jsonrpc\":\"2.0\",\"id\":\"a7\",\"method\":\"" method "\",\"params\":{\"" member             \
  "\":\"" name "\"}}"
  static const char *const cases[][2] = {
      {"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"echo\"}", "request id=5 method=echo "},
      {"{\"jsonrpc\":\"2.0\",\"method\":\"heard\"}", "request method=heard "},
      {ABOUT("tools/call", "name", "lint"), "id=\"a7\" method=tools/call "},
      {ABOUT("tools/call", "name", "lint"), " ms tool=lint"},
      {ABOUT("prompts/get", "name", "hello"), " ms prompt=hello"},
      {ABOUT("resources/read", "uri", "item:7"), " ms resource=item:7"},
      {ABOUT("resources/read", "uri", "x:?token=hush"), " ms resource=x:?token=[redacted]"},
      {ABOUT("tools/call", "name", "a\\nb"), "tool=a%0Ab"},
      {ABOUT("tools/call", "name", "a principal=b"), "tool=a%20principal=b"},
      {ABOUT("tools/call", "name", "--token hush"), "tool=--token%20[redacted]"},
      {"[{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"echo\"},1]", "request id=6 method=echo "},
      {"nonsense", "request peer="},
  };
  world in;
  set_up(&in);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[512];
    int len = snprintf(text, sizeof text,
                       "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       "Content-Length: %zu\r\n\r\n%s",
                       strlen(cases[i][0]), cases[i][0]);
    http_peer_feed(&in.peer, text, (size_t)len, 0);
    expect_line(&in, cases[i][1]);
  }
  tear_down(&in);
}

/* Words are shown; what may be somebody's key is not, whether it is served or not. */
static void a_path_shows_words_alone(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"/healthz", "GET /healthz 200"},
      {"/else", "GET /else 404"},
      {"/v2/mcp", "GET /v2/mcp 404"},
      {"/.well-known/oauth-protected-resource", "GET /.well-known/oauth-protected-resource 404"},
      {"/a/2026-07-28/Tools_x.json/", "GET /a/2026-07-28/Tools_x.json/ 404"},
      {"/mcp/9f8a7b6c5d4e3f2a", "GET /mcp/[redacted] 404"},
      {"/mcp/dGhlIHNhbXBsZSBub25jZQ/x?token=dGhl", "GET /mcp/[redacted]/x 404"},
      {"/550e8400-e29b-41d4-a716-446655440000/mcp", "GET /[redacted]/mcp 404"},
      {"/sk-live-Xk2", "GET /[redacted] 404"},
      {"/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "GET /[redacted] 404"},
      {"/%73ecret", "GET /[redacted] 404"},
      {"/mcp/hush", "GET /mcp/[redacted] 404"},
      {"http://user:word@localhost/else", "GET /else 400"},
  };
  static const char *const tokens[] = {"hush", NULL};
  world in;
  idem_http_opts http = {.access_log = true, .tokens = tokens};
  set_up_as(&in, &http, NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[256];
    int len =
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", cases[i][0]);
    http_peer_reconnect(&in.peer);
    http_peer_feed(&in.peer, text, (size_t)len, 0);
    expect_line(&in, cases[i][1]);
  }
  tear_down(&in);
}

static void a_late_answer_took_as_long_as_it_took(void **state) {
  (void)state;
  world in;
  set_up(&in);
  static const char slow[] = POST_AS("", SLOW, "40");
  http_peer_feed(&in.peer, slow, sizeof slow - 1, 0);
  in.peer.now_ms += 1234; /* nobody has told the conn */
  http_peer_answer_slow(&in.peer);
  expect_line(&in, "POST / 200 ");
  expect_line(&in, " 1234 ms");
  tear_down(&in);
}

static void the_client_of_a_proxy_is_named(void **state) {
  (void)state;
  world in;
  set_up(&in);
  static const char post[] = POST_AS("X-Forwarded-For: 192.0.2.7\r\n", ECHO, "40");
  http_peer_feed(&in.peer, post, sizeof post - 1, 0);
  expect_line(&in, "peer=\"http 127.0.0.1:4242 for 192.0.2.7\"");
  tear_down(&in);
}

static void who_left_before_the_answer_has_a_line_too(void **state) {
  (void)state;
  world in;
  set_up(&in);
  static const char slow[] = POST_AS("", SLOW, "40"),
                    stream[] = POST_AS("Accept: text/event-stream\r\n", SLOW, "40");
  http_peer_feed(&in.peer, slow, sizeof slow - 1, 0);
  in.peer.now_ms += 70;
  http_peer_reconnect(&in.peer);
  expect_line(&in, "POST / 499 0 bytes 70 ms client-gone");
  http_peer_feed(&in.peer, stream, sizeof stream - 1, 0);
  http_peer_wait(&in.peer, 15000);
  http_peer_reconnect(&in.peer);
  expect_line(&in, "POST / 200 0 bytes 15000 ms client-gone");
  static const char cut[] = POST_AS("", "{\"jsonrpc\"", "40"); /* in its body */
  http_peer_feed(&in.peer, cut, sizeof cut - 1, 0);
  in.peer.now_ms += 5;
  http_peer_eof(&in.peer);
  int lines = in.lines;
  http_peer_reconnect(&in.peer);
  expect_line(&in, "POST / 499 0 bytes 5 ms client-gone");
  http_peer_reconnect(&in.peer); /* who asked nothing has none */
  assert_int_equal(in.lines, lines + 1);
  tear_down(&in);
}

static void say(world *in, const char *text) {
  in->line[0] = 0;
  http_peer_reconnect(&in->peer);
  http_peer_feed(&in->peer, text, strlen(text), 0);
}

static void who_is_refused_has_a_line_without_asking(void **state) {
  (void)state;
  world in;
  set_up_with(&in, false);
  say(&in, "GET /healthz HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n");
  expect_line(&in, "WARN  a request was refused peer=\"http 127.0.0.1:4242 for 192.0.2.7\"");
  expect_line(&in, "403 forbidden-host; --allow-host evil.example, 0 bytes");
  say(&in, "nonsense\r\n\r\n");
  expect_line(&in, "WARN  a request was refused peer=\"http 127.0.0.1:4242\" detail=400 not HTTP");
  say(&in, "FOO / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  expect_line(&in, "WARN  a request was refused peer=\"http 127.0.0.1:4242\" detail=501 method-");
  say(&in, "GET / HTTP/2.0\r\nHost: localhost\r\n\r\n");
  expect_line(&in, "WARN  a request was refused peer=\"http 127.0.0.1:4242\" detail=505 ");
  say(&in, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
           "Content-Length: 4\r\n\r\nabcd");
  expect_line(&in, "detail=415 unsupported-content-type; Content-Type: application/json, 4 bytes");
  say(&in, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Accept: text/html\r\nContent-Length: 4\r\n\r\nnull");
  expect_line(&in,
              "WARN  a request was refused peer=\"http 127.0.0.1:4242\" detail=406 unavailable;");
  say(&in, POST_AS("", ECHO, "40")); /* who is not has none */
  assert_string_equal(in.line, "");
  say(&in, "GET /else HTTP/1.1\r\nHost: localhost\r\n\r\n"); /* nor who only looks around */
  assert_string_equal(in.line, "");
  tear_down(&in);
}

/* Good HTTP all along: whichever allocation fails, the log does not blame the peer. */
static void what_we_cannot_do_is_not_the_peer_s_fault(void **state) {
  (void)state;
  size_t told = 0;
  for (size_t n = 1; n < 40; n++) {
    world in;
    fault_alloc fault;
    fault_alloc_init(&fault);
    set_up_as(&in, NULL, &fault.alloc);
    fault_alloc_fail_in(&fault, n);
    http_peer_feed(&in.peer, POST_AS("", SLOW, "40"), sizeof(POST_AS("", SLOW, "40")) - 1, 0);
    fault_alloc_fail_in(&fault, 0);
    assert_null(strstr(in.line, "not HTTP"));
    if (strstr(in.line, " no memory")) told++;
    tear_down(&in);
  }
  assert_true(told > 0);
}

static void a_flood_of_refusals_does_not_flood_the_log(void **state) {
  (void)state;
  static const char bad[] = "GET /healthz HTTP/1.1\r\nHost: evil\r\n\r\n";
  world in;
  set_up_with(&in, false);
  for (int i = 0; i < 50; i++) say(&in, "GET /else HTTP/1.1\r\nHost: localhost\r\n\r\n");
  for (int i = 0; i < 1000; i++) say(&in, bad);
  assert_int_equal(in.lines, 10);
  in.peer.now_ms += 1000;
  say(&in, bad);
  assert_int_equal(in.lines, 11);
  expect_line(&in, "; 990 more before");
  tear_down(&in);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_tells_and_redacts),
      cmocka_unit_test(it_names_the_message),
      cmocka_unit_test(a_late_answer_took_as_long_as_it_took),
      cmocka_unit_test(the_client_of_a_proxy_is_named),
      cmocka_unit_test(who_left_before_the_answer_has_a_line_too),
      cmocka_unit_test(who_is_refused_has_a_line_without_asking),
      cmocka_unit_test(a_path_shows_words_alone),
      cmocka_unit_test(what_we_cannot_do_is_not_the_peer_s_fault),
      cmocka_unit_test(a_flood_of_refusals_does_not_flood_the_log),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
