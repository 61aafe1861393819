/* test_guard_streams.c - streams end with the token they were opened with, by the clock: when it expires, when it is revoked, when its key is
 * taken back. Who comes back with another token goes on. What each ends with: unit.mcp_http.stays. */
#include "guard_world.h"

#include <stdlib.h>
#include <time.h>

#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":{}}"

static const char listen_body[] =
    "{\"jsonrpc\":\"2.0\",\"id\":\"l\",\"method\":\"subscriptions/listen\",\"params\":{"
    "\"notifications\":{\"toolsListChanged\":true}," META "}}";
static const char ended[] = "\"id\":\"l\",\"result\":{\"resultType\":\"complete\"";

static idem_fetch *listen_with(world *in, const char *token, outcome *out) {
  static char value[TOKEN + 16];
  snprintf(value, sizeof value, "Bearer %s", token);
  return send_body(in, value, "subscriptions/listen", "", listen_body, out);
}

static const char *short_token(const world *in, int seconds) {
  static char token[TOKEN], claims[1024];
  snprintf(claims, sizeof claims, "{\"iss\":\"%s\",\"aud\":\"%s\",\"sub\":\"alice\",\"exp\":%lld}",
           in->issuer_url, in->url, (long long)time(NULL) + seconds);
  jwt_make(token, sizeof token, &in->keys[0], claims);
  return token;
}

static void open_short(world *in) {
  open_issuer(in);
  add_key(in, "k1", "ES256");
  idem_http_issuer issuer = {.issuer = in->issuer_url};
  open_server(in, &(idem_http_auth){.issuers = &issuer, .issuer_count = 1, .skew_s = 1},
              (idem_http_opts){0});
}

/* Goes on until `fn` is true, or what is waited for has come. */
static void run_until(world *in, const outcome *out, bool (*fn)(const world *in)) {
  while (out->status == -1 && !fn(in)) uv_run(&in->loop, UV_RUN_ONCE);
}

static void a_stream_ends_when_its_token_expires_and_goes_on_with_another(void **state) {
  (void)state;
  world w;
  outcome first, other, calls;
  char longer[TOKEN];
  open_short(&w);
  snprintf(longer, sizeof longer, "%s", token_of(&w, &w.keys[0], ""));
  idem_fetch *stays = listen_with(&w, longer, &other);
  /* On a machine that is busy a token may be over before it is shown. */
  for (int seconds = 1; seconds < 32 && (seconds == 1 || first.status == 401); seconds *= 2) {
    listen_with(&w, short_token(&w, seconds), &first);
    wait_for(&w, &first);
  }
  assert_int_equal(first.status, 200);
  assert_non_null(strstr(first.body, "subscriptions/acknowledged"));
  if (!strstr(first.body, ended)) fail_msg("%s", first.body);
  assert_int_equal(other.status, -1); /* whose token holds */
  call_with(&w, longer, &calls);
  assert_int_equal(calls.status, 200);
  idem_fetch_cancel(stays);
  close_world(&w);
}

/* A server that asks the issuer about tokens each second, which says of all that they are good. */
static void open_introspecting(world *in, char active[256]) {
  char url[128];
  open_issuer(in);
  snprintf(url, sizeof url, "%s/introspect", in->issuer_url);
  open_server(in, &(idem_http_auth){.introspection_url = url, .introspection_s = 1},
              (idem_http_opts){0});
  snprintf(active, 256, "{\"active\":true,\"aud\":\"%s\",\"sub\":\"alice\"}", in->url);
  in->introspection = active;
}

static bool was_asked_thrice(const world *in) { return in->introspections >= 3; }

static void a_stream_ends_when_its_token_is_revoked(void **state) {
  (void)state;
  char active[256];
  world w;
  outcome out, other;
  open_introspecting(&w, active);
  listen_with(&w, "opaque", &out);
  run_until(&w, &out, was_asked_thrice); /* it goes on while it is good */
  assert_int_equal(out.status, -1);
  w.introspection = "{\"active\":false}";
  wait_for(&w, &out);
  assert_int_equal(out.status, 200);
  if (!strstr(out.body, ended)) fail_msg("%s", out.body);
  call_with(&w, "opaque", &other);
  assert_int_equal(other.status, 401);
  close_world(&w);
}

static void a_stream_outlives_a_server_that_cannot_be_asked_for_a_while(void **state) {
  (void)state;
  char active[256];
  world w;
  outcome out;
  open_introspecting(&w, active);
  listen_with(&w, "opaque", &out);
  while (!w.introspections) uv_run(&w.loop, UV_RUN_ONCE);
  w.manner = "500";
  wait_for(&w, &out); /* nobody can say any more: three times, then it is over */
  assert_int_equal(w.introspections, 4);
  assert_int_equal(out.status, 200);
  if (!strstr(out.body, ended)) fail_msg("%s", out.body);
  close_world(&w);
}

static bool was_asked_twice(const world *in) { return in->introspections >= 2; }

/* The client, or the server, goes while nobody has said yet whether the token is still good. */
static void a_stream_may_go_while_its_token_is_asked_about(void **state) {
  (void)state;
  for (int way = 0; way < 2; way++) {
    char active[256];
    world w;
    outcome out;
    open_introspecting(&w, active);
    idem_fetch *fetch = listen_with(&w, "opaque", &out);
    while (!w.introspections) uv_run(&w.loop, UV_RUN_ONCE);
    w.manner = "silent";
    run_until(&w, &out, was_asked_twice);
    assert_int_equal(out.status, -1);
    if (way == 0) idem_fetch_cancel(fetch);
    for (int i = 0; i < 5; i++) uv_run(&w.loop, UV_RUN_NOWAIT);
    close_world(&w);
  }
}

/* ------------------------------------------------------------ of a session */

static char session_line[256];

static bool on_session_head(const idem_fetch_answer *answer, void *user) {
  const char *id = idem_fetch_header(answer, "Mcp-Session-Id");
  if (id) snprintf(session_line, sizeof session_line, "Mcp-Session-Id: %s", id);
  ((outcome *)user)->began = true;
  return true;
}

static bool on_session_data(const char *data, size_t len, void *user) {
  (void)data, (void)len, (void)user;
  return true;
}

static void send_in_session(world *in, const char *method, const char *body, outcome *out) {
  const char *headers[] = {
      "Content-Type: application/json",    "Accept: application/json, text/event-stream",
      "MCP-Protocol-Version: 2025-11-25",  "Authorization: Bearer opaque",
      *session_line ? session_line : NULL, NULL};
  idem_fetch_opts opts = {.method = method,
                          .url = in->url,
                          .headers = headers,
                          .body = body,
                          .body_len = strlen(body),
                          .on_head = on_session_head,
                          .on_data = on_session_data,
                          .proxy = ""};
  idem_fetch *fetch;
  *out = (outcome){.in = in, .status = -1};
  assert_int_equal(idem_fetch_start(&in->loop, &opts, on_answer, out, &fetch), IDEM_OK);
}

static void run_for(world *in, uint64_t ms) {
  uint64_t end = uv_hrtime() + ms * 1000000;
  while (uv_hrtime() < end) {
    uv_run(&in->loop, UV_RUN_NOWAIT);
    uv_sleep(1);
  }
}

/* What was let in by the word that is awaited ends something else that waits for it, too: both came with the same token. */
static void a_request_may_end_a_stream_whose_token_is_asked_about_with_its_own(void **state) {
  (void)state;
  char active[256];
  world w;
  outcome hello, stream, end;
  open_introspecting(&w, active);
  *session_line = '\0';
  send_in_session(&w, "POST",
                  "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
                  "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{"
                  "\"name\":\"t\",\"version\":\"1\"}}}",
                  &hello);
  wait_for(&w, &hello);
  assert_int_equal(hello.status, 200);
  send_in_session(&w, "GET", "", &stream);
  while (!stream.began) uv_run(&w.loop, UV_RUN_ONCE);
  w.manner = "silent";
  int asked = w.introspections;
  for (time_t now = time(NULL); time(NULL) == now;) run_for(&w, 1); /* the word is a second old */
  send_in_session(&w, "DELETE", "", &end);
  while (w.introspections == asked) uv_run(&w.loop, UV_RUN_ONCE);
  run_for(&w, 1300); /* the stream waits for it, too */
  assert_int_equal(w.introspections, asked + 1);
  w.manner = "";
  answer_held(&w);
  wait_for(&w, &end);
  assert_in_range(end.status, 200, 204);
  wait_for(&w, &stream);
  close_world(&w);
}

static void a_stream_ends_when_its_key_is_taken_back(void **state) {
  (void)state;
  world w;
  outcome out, other;
  open_world(&w);
  idem__guard_pause_ms = 1;
  listen_with(&w, token_of(&w, &w.keys[0], ""), &out);
  while (!out.began) uv_run(&w.loop, UV_RUN_ONCE);
  jwt_key old = w.keys[0];
  w.keys[0] = jwt_key_new("k2", "ES256");
  call_with(&w, token_of(&w, &w.keys[0], ""), &other); /* has the keys fetched */
  assert_int_equal(other.status, 200);
  wait_for(&w, &out);
  assert_int_equal(out.status, 200);
  assert_non_null(strstr(out.body, ended));
  jwt_key_free(&old);
  close_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_stream_ends_when_its_token_expires_and_goes_on_with_another),
      cmocka_unit_test(a_stream_ends_when_its_token_is_revoked),
      cmocka_unit_test(a_stream_outlives_a_server_that_cannot_be_asked_for_a_while),
      cmocka_unit_test(a_stream_may_go_while_its_token_is_asked_about),
      cmocka_unit_test(a_request_may_end_a_stream_whose_token_is_asked_about_with_its_own),
      cmocka_unit_test(a_stream_ends_when_its_key_is_taken_back),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  uv_library_shutdown(); /* its threads give back what OpenSSL has kept for them */
  return failed;
}
