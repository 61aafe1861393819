/* test_work.c - work in flight is bounded for a session, a client and all, whatever becomes of the
 * connections: who is past a bound is told so under its own id, and what has ended makes room. */
#include "http/endpoint.h"
#include "support/mcp_web.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

static const char alice[] = "Authorization: Bearer alice\r\n";
static const char bob[] = "Authorization: Bearer bob\r\n";
static const char carol[] = "Authorization: Bearer carol\r\n";

static void let_go(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason, (void)user;
  idem_request_drop(request);
}

/* Nobody ever answers; the end of the session or the server ends them. */
static void keep(idem_request *request, void *user) {
  (void)user;
  idem_request_keep(request);
  idem_request_on_cancel(request, let_go, NULL);
}

/* As an embedder does who knows its tokens. */
static int name_bearer(const idem_http_caller *caller, char *principal, size_t size, void *user) {
  (void)user;
  size_t len = 0;
  const char *bearer = idem_http_caller_header(caller, "authorization", &len);
  if (bearer) snprintf(principal, size, "%.*s", (int)len, bearer);
  return 0;
}

static const idem_http_opts with_names = {.principal = name_bearer};

static void open_web_with(mcp_web *web, const idem_http_opts *http, size_t total, size_t client,
                          size_t session) {
  mcp_web_open(web, &(mcp_web_opts){.table = {.session_idle_ms = 60000}, .http = http});
  web->fixture->keep = keep;
  idem__router_limit_work(web->fixture->server->router, total, client, session);
}

static void open_web(mcp_web *web, size_t total, size_t client, size_t session) {
  open_web_with(web, &with_names, total, client, session);
}

static size_t in_flight(const mcp_web *web) {
  return idem__router_work(web->fixture->server->router);
}

/* ------------------------------------------------------------------- bounds */

#define PLAIN ""
#define AS_TASK ",\"task\":{}"

/* A call whose connection is lost at once. True: it was taken in; else it was told why, under its id. */
static bool call_and_lose(mcp_web *web, const char *client, const char *session, unsigned id,
                          const char *more) {
  char lines[256], body[256], refusal[256];
  snprintf(lines, sizeof lines, "%s%s", client, session);
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":\"call-%u\",\"method\":\"tools/call\",\"params\":{\"name\":"
           "\"%s\",\"arguments\":{}%s}}",
           id, *more ? "job" : "slow", more);
  snprintf(refusal, sizeof refusal,
           "{\"jsonrpc\":\"2.0\",\"id\":\"call-%u\",\"error\":{\"code\":-32600,\"message\":"
           "\"Invalid Request: too many requests are in flight\",\"data\":{\"reason\":"
           "\"too-many-in-flight\"}}}",
           id);
  size_t before = in_flight(web);
  char *answer = mcp_web_ask(web, "POST", "/mcp", lines, body);
  bool taken = in_flight(web) == before + 1;
  if (!taken && !strstr(answer, refusal)) fail_msg("not refused as it should be: %s", answer);
  if (taken && strstr(answer, "\"error\"")) fail_msg("taken in, and told: %s", answer);
  free(answer);
  return taken;
}

static size_t call_many(mcp_web *web, const char *client, const char *session, const char *more) {
  size_t taken = 0;
  static unsigned id;
  for (unsigned i = 0; i < 12; i++) taken += call_and_lose(web, client, session, ++id, more);
  return taken;
}

static void end_session(mcp_web *web, const char *client, const char *session) {
  char lines[256];
  snprintf(lines, sizeof lines, "%s%s", client, session);
  free(mcp_web_ask(web, "DELETE", "/mcp", lines, NULL));
  mcp_web_deliver(web);
}

static void each_bound_is_reached_and_given_back(void **state) {
  (void)state;
  mcp_web web;
  char a1[64], a2[64], b1[64], b2[64], c1[64];
  open_web(&web, 20, 10, 7);
  mcp_web_hello(&web, alice, a1);
  mcp_web_hello(&web, alice, a2);
  mcp_web_hello(&web, bob, b1);
  mcp_web_hello(&web, bob, b2);
  mcp_web_hello(&web, carol, c1);
  assert_int_equal(call_many(&web, alice, a1, PLAIN), 7); /* of a session */
  assert_int_equal(call_many(&web, alice, a2, PLAIN), 3); /* of a client: she has ten */
  assert_int_equal(call_many(&web, bob, b1, PLAIN), 7);   /* he is not bound by hers */
  assert_int_equal(call_many(&web, bob, b2, PLAIN), 3);
  assert_int_equal(in_flight(&web), 20);
  assert_int_equal(call_many(&web, carol, c1, PLAIN), 0); /* of all, and she has none */
  end_session(&web, bob, b2);
  assert_int_equal(in_flight(&web), 17);
  assert_int_equal(call_many(&web, carol, c1, PLAIN), 3);
  end_session(&web, alice, a1);
  assert_int_equal(call_many(&web, alice, a2, PLAIN), 4); /* up to a session's */
  assert_int_equal(call_many(&web, carol, c1, PLAIN), 3); /* up to all again */
  web.now_ms += 1000000;
  mcp_web_deliver(&web);
  assert_int_equal(in_flight(&web), 0);
  mcp_web_close(&web);
}

/* Anybody can send another one each time: without somebody who checks it the address counts. */
static void a_header_that_nobody_checks_has_no_share(void **state) {
  (void)state;
  mcp_web web;
  char a1[64], a2[64], b1[64];
  open_web_with(&web, NULL, 20, 10, 7);
  mcp_web_hello(&web, alice, a1);
  mcp_web_hello(&web, alice, a2);
  mcp_web_hello(&web, bob, b1);
  assert_int_equal(call_many(&web, alice, a1, PLAIN), 7);
  assert_int_equal(call_many(&web, alice, a2, PLAIN), 3);
  assert_int_equal(call_many(&web, bob, b1, PLAIN), 0);
  mcp_web_close(&web);
  static const char *const tokens[] = {"alice", "bob", NULL};
  open_web_with(&web, &(idem_http_opts){.tokens = tokens}, 20, 10, 7);
  mcp_web_hello(&web, alice, a1);
  mcp_web_hello(&web, alice, a2);
  mcp_web_hello(&web, bob, b1);
  assert_int_equal(call_many(&web, alice, a1, PLAIN), 7);
  assert_int_equal(call_many(&web, alice, a2, PLAIN), 3);
  assert_int_equal(call_many(&web, bob, b1, PLAIN), 7); /* shown, and known */
  mcp_web_close(&web);
}

/* A task has left its conn before it begins; the bounds are the same, and so are the words. Tasks outlive
 * their sessions, so theirs are given back when they end. */
static void tasks_are_refused_as_calls_are(void **state) {
  (void)state;
  mcp_web web;
  char a1[64], a2[64], b1[64];
  open_web(&web, 15, 10, 7);
  mcp_web_hello(&web, alice, a1);
  mcp_web_hello(&web, alice, a2);
  mcp_web_hello(&web, bob, b1);
  assert_int_equal(call_many(&web, alice, a1, AS_TASK), 7);
  assert_int_equal(call_many(&web, alice, a2, AS_TASK), 3);
  assert_int_equal(call_many(&web, bob, b1, AS_TASK), 5);
  assert_int_equal(in_flight(&web), 15);
  mcp_web_close(&web);
}

/* ------------------------------------------------- calls that wait for nobody */

#define HELLO                                                                                      \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"       \
  "\"2025-11-25\",\"capabilities\":{\"elicitation\":{}},"                                          \
  "\"clientInfo\":{\"name\":\"somebody\",\"version\":\"1\"}}}"

/* Where all is taken there are no new sessions either: the old one is used. */
static void shake_hands(mcp_web *web, const char *client, char lines[128]) {
  char *answer = mcp_web_ask(web, "POST", "/mcp", client, HELLO);
  const char *at = strstr(answer, "Mcp-Session-Id: ");
  if (!at) assert_non_null(strstr(answer, "\"reason\":\"too-many-in-flight\""));
  if (at) snprintf(lines, 128, "%s%.*s\r\n", client, (int)strcspn(at, "\r"), at);
  free(answer);
}

/* One connection at a time, a call that asks its client on each, and the connection is lost: with a new
 * session whenever one is full, and another client whenever that is. */
static void no_number_of_lost_calls_passes_the_bounds(void **state) {
  (void)state;
  enum { CALLS = 21000, IN_SESSION = 100, SESSIONS = 16, TOTAL = 2048, CLIENT = 512, SESSION = 64 };
  mcp_web web;
  char client[64], lines[128] = "", body[192];
  size_t most = 0, taken = 0;
  open_web(&web, TOTAL, CLIENT, SESSION);
  for (unsigned i = 0; i < CALLS; i++) {
    if (i % IN_SESSION == 0) {
      unsigned who = i / (IN_SESSION * SESSIONS);
      snprintf(client, sizeof client, "Authorization: Bearer client-%u\r\n", who);
      shake_hands(&web, client, lines);
    }
    snprintf(body, sizeof body,
             "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{\"name\":"
             "\"ask\",\"arguments\":{}}}",
             i + 2);
    char *answer = mcp_web_ask(&web, "POST", "/mcp", lines, body);
    size_t now = in_flight(&web);
    taken += !strstr(answer, "\"reason\":\"too-many-in-flight\"");
    free(answer);
    if (now > most) most = now;
  }
  assert_int_equal(most, TOTAL);
  assert_int_equal(taken, TOTAL);
  assert_int_equal(web.endpoint->rpc->detached_count, TOTAL);
  web.now_ms += 1000000;
  mcp_web_deliver(&web);
  assert_int_equal(in_flight(&web), 0);
  assert_int_equal(web.endpoint->rpc->detached_count, 0);
  mcp_web_close(&web);
}

/* ---------------------------------------------------------------- arguments */

/* A call with so many bytes of arguments; true: it was taken in. */
static bool call_with(mcp_web *web, const char *lines, unsigned id, size_t bytes) {
  char *body = malloc(bytes + 256);
  assert_non_null(body);
  int head = snprintf(body, 256,
                      "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{"
                      "\"name\":\"slow\",\"arguments\":{},\"_meta\":{\"x\":\"",
                      id);
  memset(body + head, 'x', bytes);
  strcpy(body + head + bytes, "\"}}}");
  size_t before = in_flight(web);
  char *answer = mcp_web_ask(web, "POST", "/mcp", lines, body);
  bool taken = in_flight(web) == before + 1;
  if (!taken) assert_non_null(strstr(answer, "too-many-in-flight"));
  free(answer);
  free(body);
  return taken;
}

/* A client's arguments take a quarter of what there is for all, while its handlers have them. */
static void arguments_in_flight_are_bounded(void **state) {
  (void)state;
  enum { BYTES = 100000, MOST = 8 };
  mcp_web web;
  char session[64];
  open_web(&web, 0, 0, 0);
  idem__router_limit_work_bytes(web.fixture->server->router, MOST * BYTES / 2);
  mcp_web_hello(&web, "", session);
  size_t taken = 0;
  for (unsigned i = 0; i < 2 * MOST; i++) taken += call_with(&web, session, i, BYTES);
  if (!taken || taken >= MOST)
    fail_msg("%zu were taken in, %zu are in flight", taken, in_flight(&web));
  assert_int_equal(in_flight(&web), taken);
  char *answer = mcp_web_ask(&web, "POST", "/mcp", session,
                             "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}");
  assert_non_null(strstr(answer, "\"result\":{}"));
  free(answer);
  mcp_web_close(&web);
}

/* With the bounds that a server has by itself. */
static void nobodys_large_calls_keep_others_out(void **state) {
  (void)state;
  enum { CALLS = 14, BYTES = 9000000 };
  mcp_web web;
  char a1[64], b1[64], lines[256];
  open_web(&web, 0, 0, 0);
  mcp_web_hello(&web, alice, a1);
  mcp_web_hello(&web, bob, b1);
  snprintf(lines, sizeof lines, "%s%s", alice, a1);
  size_t taken = 0;
  for (unsigned i = 0; i < CALLS; i++) taken += call_with(&web, lines, i, BYTES);
  assert_in_range(taken, 1, CALLS - 1);
  snprintf(lines, sizeof lines, "%s%s", bob, b1);
  assert_true(call_with(&web, lines, 1, BYTES));
  end_session(&web, alice, a1);
  assert_int_equal(in_flight(&web), 1);
  mcp_web_close(&web);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_bound_is_reached_and_given_back),
      cmocka_unit_test(a_header_that_nobody_checks_has_no_share),
      cmocka_unit_test(tasks_are_refused_as_calls_are),
      cmocka_unit_test(no_number_of_lost_calls_passes_the_bounds),
      cmocka_unit_test(arguments_in_flight_are_bounded),
      cmocka_unit_test(nobodys_large_calls_keep_others_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
