/* test_cut_off.c - calls that are under way when their server or their session ends: who asked is told with its id whether its
 * call was begun, which only its handler knows. */
#include "http/endpoint.h"
#include "rpc/rpc.h"
#include "support/mcp_web.h"
#include "support/unit.h"

#include <stdio.h>

#define HEADERS(method, name)                                                                      \
  "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: " method "\r\nMcp-Name: " name "\r\n"
#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define SLOW                                                                                       \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"slow\"," META "}}"
#define READ                                                                                       \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/"                                          \
  "read\",\"params\":{\"uri\":\"slow:\"," META "}}"

typedef struct world {
  mcp_web web;
  mcp_web_conn conn;
  idem_request *kept;
  idem_cancel_fn on_cancel; /* NULL: the handler does not listen */
} world;

static void expect_in(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("no %s in:\n%s", part, text);
}

static void keep(idem_request *request, void *user) {
  world *in = user;
  idem_request_keep(request);
  if (in->on_cancel) idem_request_on_cancel(request, in->on_cancel, in);
  in->kept = request;
}

static void read_slowly(idem_request *request, const char *uri, void *user) {
  (void)uri;
  keep(request, user);
}

static void add_resource(world *in) {
  idem_resource slow = {.uri = "slow:", .name = "slow", .fn = read_slowly, .user = in};
  assert_int_equal(idem_server_add_resource(in->web.fixture->server, &slow, NULL, 0), IDEM_OK);
}

/* Asks, ends the server, and gives what came. */
static const char *ask_and_end(world *in, idem_cancel_fn on_cancel, const char *headers,
                               const char *body) {
  *in = (world){.on_cancel = on_cancel};
  mcp_web_open(&in->web, &(mcp_web_opts){.store = NULL});
  in->web.fixture->keep = keep;
  in->web.fixture->user = in;
  add_resource(in);
  mcp_web_connect(&in->web, &in->conn);
  mcp_web_send(&in->conn, "POST", "/mcp", headers, body);
  mcp_web_settle(&in->conn);
  assert_non_null(in->kept);
  idem__http_conn_abort(in->conn.conn, in->web.now_ms);
  mcp_web_settle(&in->conn);
  return in->conn.output;
}

static void tear_down(world *in) {
  mcp_web_disconnect(&in->conn);
  mcp_web_close(&in->web);
}

static void expect_unknown(const char *output) {
  expect_in(output, " 409 ");
  expect_in(output, "\"id\":1,\"error\":{\"code\":-32603,\"message\":\"Outcome unknown: the server "
                    "ended while this call ran\"");
  expect_in(output, "\"reason\":\"outcome-unknown\"");
}

static void expect_unavailable(const char *output) {
  expect_in(output, " 503 ");
  expect_in(output, "Retry-After: ");
  expect_in(output, "\"id\":1,\"error\":{\"code\":-32603");
  expect_in(output, "\"reason\":\"unavailable\"");
}

static void let_go(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)user;
  assert_int_equal(reason, IDEM_CANCEL_CLOSED);
  idem_request_drop(request);
}

static void a_call_that_runs_is_unknown(void **state) {
  world in;
  (void)state;
  expect_unknown(ask_and_end(&in, let_go, HEADERS("tools/call", "slow"), SLOW));
  tear_down(&in);
}

static void what_its_handler_says_too_late_is_nobodys(void **state) {
  world in;
  (void)state;
  expect_unknown(ask_and_end(&in, NULL, HEADERS("tools/call", "slow"), SLOW));
  assert_int_not_equal(idem_tool_text(in.kept, "late", 4), IDEM_OK);
  mcp_web_settle(&in.conn);
  assert_null(strstr(in.conn.output, "late"));
  tear_down(&in);
}

static void say_not_run(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason, (void)user;
  idem_not_run(request);
  idem_request_drop(request);
}

static void a_call_that_only_waited_may_be_asked_again(void **state) {
  world in;
  (void)state;
  expect_unavailable(ask_and_end(&in, say_not_run, HEADERS("tools/call", "slow"), SLOW));
  tear_down(&in);
}

static void say_half(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason, (void)user;
  idem_tool_failed(request, "half of it was done");
}

static void what_a_handler_says_when_it_is_told_is_its_answer(void **state) {
  world in;
  (void)state;
  const char *output = ask_and_end(&in, say_half, HEADERS("tools/call", "slow"), SLOW);
  expect_in(output, " 200 ");
  expect_in(output, "half of it was done");
  tear_down(&in);
}

static void reading_may_be_asked_again(void **state) {
  world in;
  (void)state;
  expect_unavailable(ask_and_end(&in, let_go, HEADERS("resources/read", "slow:"), READ));
  tear_down(&in);
}

/* ------------------------------------------------------- a session that ends */

#define OLD(id, method, params)                                                                    \
  "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\",\"params\":" params "}"
#define OLD_SLOW OLD("1", "tools/call", "{\"name\":\"slow\"}")
#define OLD_READ OLD("1", "resources/read", "{\"uri\":\"slow:\"}")

/* Asks in a session, has it ended by another connection, and gives what came. */
static const char *ask_and_delete(world *in, idem_cancel_fn on_cancel, const char *headers,
                                  const char *body) {
  char session[64], all[256];
  *in = (world){.on_cancel = on_cancel};
  mcp_web_open(&in->web, &(mcp_web_opts){.store = NULL});
  in->web.fixture->keep = keep;
  in->web.fixture->user = in;
  add_resource(in);
  mcp_web_hello(&in->web, "", session);
  snprintf(all, sizeof all, "%sAccept: application/json\r\n%s", session, headers);
  mcp_web_connect(&in->web, &in->conn);
  mcp_web_send(&in->conn, "POST", "/mcp", all, body);
  mcp_web_settle(&in->conn);
  assert_non_null(in->kept);
  mcp_web_expect(mcp_web_ask(&in->web, "DELETE", "/mcp", session, NULL), " 204 ");
  mcp_web_deliver(&in->web);
  mcp_web_settle(&in->conn);
  return in->conn.output;
}

static void expect_unknown_since_deleted(const char *output) {
  expect_in(output, " 409 ");
  expect_in(output,
            "\"id\":1,\"error\":{\"code\":-32603,\"message\":\"Outcome unknown: the session "
            "ended while this call ran\"");
  expect_in(output, "\"reason\":\"outcome-unknown\"");
}

static void expect_no_session(const char *output) {
  expect_in(output, " 404 ");
  expect_in(output, "\"id\":1,\"error\":{\"code\":-32600");
  expect_in(output, "\"reason\":\"unknown-session\"");
}

static void a_call_that_runs_in_a_session_that_ends_is_unknown(void **state) {
  world in;
  (void)state;
  expect_unknown_since_deleted(ask_and_delete(&in, let_go, "", OLD_SLOW));
  tear_down(&in);
  expect_unknown_since_deleted(ask_and_delete(&in, NULL, "", OLD_SLOW));
  assert_int_not_equal(idem_tool_text(in.kept, "late", 4), IDEM_OK);
  tear_down(&in);
}

static void a_call_that_only_waited_needs_another_session(void **state) {
  world in;
  (void)state;
  expect_no_session(ask_and_delete(&in, say_not_run, "", OLD_SLOW));
  tear_down(&in);
  expect_no_session(ask_and_delete(&in, let_go, "", OLD_READ));
  tear_down(&in);
}

static void what_a_handler_says_when_its_session_ends_is_its_answer(void **state) {
  world in;
  (void)state;
  const char *output = ask_and_delete(&in, say_half, "", OLD_SLOW);
  expect_in(output, " 200 ");
  expect_in(output, "half of it was done");
  tear_down(&in);
}

static void on_told(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)request, (void)reason, (void)user;
  fail_msg("what has a key goes on");
}

/* Who comes with the key, in whichever session, gets the answer. */
static void a_call_with_a_key_outlives_its_session(void **state) {
  world in;
  char session[64], headers[128];
  (void)state;
  expect_unavailable(ask_and_delete(&in, on_told, "Idempotency-Key: k\r\n", OLD_SLOW));
  idem_tool_text(in.kept, "it happened", 11);
  mcp_web_hello(&in.web, "", session);
  snprintf(headers, sizeof headers, "%sIdempotency-Key: k\r\n", session);
  mcp_web_expect(mcp_web_ask(&in.web, "POST", "/mcp", headers, OLD_SLOW), "it happened");
  tear_down(&in);
}

/* ----------------------------------------------------- before it had its turn */

static uint64_t never(void *ctx) {
  (void)ctx;
  return 0; /* only a turn that goes on asks */
}

static void on_late(void *user) { ++*(unsigned *)user; }

static void what_waits_for_a_turn_is_told_that_its_session_has_ended(void **state) {
  char session[64];
  unsigned late = 0;
  world in = {0};
  (void)state;
  mcp_web_open(&in.web, &(mcp_web_opts){.store = NULL});
  mcp_web_hello(&in.web, "", session);
  idem_pool *pool = in.web.endpoint->rpc->pool;
  idem__pool_set_turns(pool, 30000000, never, on_late, &late);
  mcp_web_expect(mcp_web_ask(&in.web, "POST", "/mcp", session, OLD("7", "ping", "{}")), " 200 ");
  in.web.now_ms += 30;
  mcp_web_connect(&in.web, &in.conn);
  mcp_web_send(&in.conn, "POST", "/mcp", session, OLD("1", "ping", "{}"));
  assert_int_equal(late, 1);
  mcp_web_expect(mcp_web_ask(&in.web, "DELETE", "/mcp", session, NULL), " 204 ");
  mcp_web_deliver(&in.web);
  assert_false(idem__pool_run_late(pool));
  mcp_web_settle(&in.conn);
  expect_no_session(in.conn.output);
  mcp_web_disconnect(&in.conn);
  mcp_web_close(&in.web);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_waits_for_a_turn_is_told_that_its_session_has_ended),
      cmocka_unit_test(a_call_that_runs_is_unknown),
      cmocka_unit_test(what_its_handler_says_too_late_is_nobodys),
      cmocka_unit_test(a_call_that_only_waited_may_be_asked_again),
      cmocka_unit_test(what_a_handler_says_when_it_is_told_is_its_answer),
      cmocka_unit_test(reading_may_be_asked_again),
      cmocka_unit_test(a_call_that_runs_in_a_session_that_ends_is_unknown),
      cmocka_unit_test(a_call_that_only_waited_needs_another_session),
      cmocka_unit_test(what_a_handler_says_when_its_session_ends_is_its_answer),
      cmocka_unit_test(a_call_with_a_key_outlives_its_session),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
