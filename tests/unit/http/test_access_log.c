/* test_access_log.c - one line a request: who, what, the status, how long, and no secrets. */
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
} world;

static void keep_line(void *ctx, const char *line, size_t len) {
  world *in = ctx;
  snprintf(in->line, sizeof in->line, "%.*s", (int)len, line);
}

static void set_up(world *in) {
  static const char *const trusted[] = {"127.0.0.1", NULL};
  static const idem__http_rules rules = {.event_streams = true};
  static const idem_http_opts http = {.access_log = true, .trusted_proxies = trusted};
  *in = (world){.line = ""};
  idem_log_opts opts = {.level = IDEM_LOG_INFO, .write = keep_line, .write_ctx = in};
  assert_int_equal(idem_log_new(&opts, &in->log), IDEM_OK);
  http_peer_opts peer = {.http = &http, .rules = &rules, .log = in->log};
  assert_int_equal(http_peer_init(&in->peer, &peer), IDEM_OK);
}

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
  tear_down(&in);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_tells_and_redacts),
      cmocka_unit_test(a_late_answer_took_as_long_as_it_took),
      cmocka_unit_test(the_client_of_a_proxy_is_named),
      cmocka_unit_test(who_left_before_the_answer_has_a_line_too),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
