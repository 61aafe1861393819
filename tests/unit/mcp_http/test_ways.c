/* test_ways.c - what has to travel has a way to, or is refused at once: Accept, versions, sessions, streams
 * that are left and calls that are cancelled. */
#include "support/mcp_web.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

static void expect(char *answer, const char *status, const char *text) {
  if (!strstr(answer, status) || !strstr(answer, text))
    fail_msg("no %s and %s in:\n%s", status, text, answer);
  free(answer);
}

#define JSON_ALONE "Accept: application/json\r\n"
#define HINT "Accept: application/json, text/event-stream"

static void hello(mcp_web *web, const char *date, const char *capabilities, char line[64]) {
  char body[512];
  snprintf(
      body, sizeof body,
      "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
      "\"%s\",\"capabilities\":%s,\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}",
      date, capabilities);
  char *answer = mcp_web_ask(web, "POST", "/mcp", "", body);
  const char *id = strstr(answer, "Mcp-Session-Id: ");
  assert_non_null(id);
  snprintf(line, 64, "%.*s", (int)(strcspn(id, "\n") + 1), id);
  free(answer);
}

static void what_needs_a_stream_is_refused_where_there_can_be_none(void **state) {
  (void)state;
  mcp_web web;
  char session[64], headers[160];
  mcp_web_open(&web, &(mcp_web_opts){.store = NULL});
  hello(&web, "2025-11-25", "{\"elicitation\":{},\"roots\":{}}", session);
  snprintf(headers, sizeof headers, "%s" JSON_ALONE, session);
  expect(mcp_web_ask(&web, "POST", "/mcp", headers,
                     "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
                     "\"ask\"}}"),
         "200 OK", HINT ".\"}],\"isError\":true");
  expect(mcp_web_ask(&web, "POST", "/mcp", headers,
                     "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/read\",\"params\":{"
                     "\"uri\":\"ask:\"}}"),
         "406 ", "\"hint\":\"" HINT "\"");
  expect(mcp_web_ask(
             &web, "POST", "/mcp",
             JSON_ALONE "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n",
             "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"subscriptions/listen\",\"params\":{"
             "\"notifications\":{},\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":"
             "\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}}}"),
         "406 ",
         "\"id\":3,\"error\":{\"code\":-32600,\"message\":\"Invalid Request: this needs an");
  mcp_web_close(&web);
}

#define PING "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"
#define READY "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"
#define SUPPORTED "supported: 2026-07-28, 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05"

static void a_version_that_is_not_served_is_refused_for_everything(void **state) {
  (void)state;
  mcp_web web;
  char session[64], headers[160];
  mcp_web_open(&web, &(mcp_web_opts){.store = NULL});
  hello(&web, "2025-11-25", "{}", session);
  snprintf(headers, sizeof headers, "%sMCP-Protocol-Version: 1900-01-01\r\n", session);
  static const char *const bodies[] = {
      PING, READY, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}",
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}"};
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
    expect(mcp_web_ask(&web, "POST", "/mcp", headers, bodies[i]), "400 ", SUPPORTED);
    expect(mcp_web_ask(&web, "POST", "/mcp", "MCP-Protocol-Version: 1900-01-01\r\n", bodies[i]),
           "400 ", SUPPORTED);
  }
  mcp_web_close(&web);
}

static void without_a_session_there_is_nothing_but_initialize(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_open(&web, &(mcp_web_opts){.store = NULL});
  expect(mcp_web_ask(&web, "POST", "/mcp", "", PING), "400 ", "not initialized; send initialize");
  expect(mcp_web_ask(&web, "POST", "/mcp", "", READY), "400 ",
         "\"hint\":\"send the Mcp-Session-Id that initialize gave\"");
  expect(mcp_web_ask(&web, "POST", "/mcp", "MCP-Protocol-Version: 2026-07-28\r\n", READY),
         "202 Accepted", "");
  expect(mcp_web_ask(&web, "POST", "/mcp", "Mcp-Session-Id: 00000000000000000000000000000000\r\n",
                     PING),
         "404 ", "\"data\":{\"reason\":\"unknown-session\",\"hint\":\"initialize again\"}");
  mcp_web_close(&web);
}

/* What a server does not know it does not advise. */
static void hints_can_be_followed_where_one_era_is_served(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_open(&web, &(mcp_web_opts){.server = {.revisions = IDEM_MCP_2026_07_28}});
  expect(mcp_web_ask(&web, "POST", "/mcp", "", READY), "400 ",
         "\"hint\":\"send an MCP-Protocol-Version that is served\"");
  mcp_web_close(&web);
  mcp_web_open(&web, &(mcp_web_opts){.server = {.revisions = IDEM_MCP_2025_11_25}});
  expect(mcp_web_ask(&web, "POST", "/mcp", "", PING), "400 ",
         "Invalid Request: not initialized; send initialize first\",\"data\"");
  mcp_web_close(&web);
}

static void batches_need_no_session_where_nothing_does(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_open(&web, &(mcp_web_opts){.table = {.stateless_legacy = true}});
  expect(mcp_web_ask(&web, "POST", "/mcp", "", "[" PING "]"), "200 OK", "[{\"jsonrpc\"");
  expect(mcp_web_ask(&web, "POST", "/mcp", "MCP-Protocol-Version: 2025-06-18\r\n", "[" PING "]"),
         "400 ", "batch-not-supported");
  mcp_web_close(&web);
}

static void what_names_no_version_speaks_one_that_must_be_served(void **state) {
  (void)state;
  static const char dated[] = "MCP-Protocol-Version: 2025-11-25\r\n";
  mcp_web web;
  mcp_web_open(&web, &(mcp_web_opts){.table = {.stateless_legacy = true},
                                     .server = {.revisions = IDEM_MCP_2025_11_25}});
  expect(mcp_web_ask(&web, "POST", "/mcp", "", "[" PING "]"), "400 ", "batch-not-supported");
  expect(mcp_web_ask(&web, "POST", "/mcp", "", PING), "400 ", "not-initialized");
  expect(mcp_web_ask(&web, "POST", "/mcp", dated, PING), "200 OK", "\"result\":{}");
  mcp_web_close(&web);
}

static void a_server_of_the_newest_alone_names_it(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_open(&web, &(mcp_web_opts){.server = {.revisions = IDEM_MCP_2026_07_28}});
  expect(mcp_web_ask(&web, "POST", "/mcp", "", PING), "400 ",
         "\"code\":-32022,\"message\":\"Unsupported protocol version: 2025-03-26 (supported: "
         "2026-07-28)\",\"data\":{\"supported\":[\"2026-07-28\"],\"requested\":\"2025-03-26\"}");
  mcp_web_close(&web);
}

/* Lines of one name are one list, and that is no session's id and no revision: not as if there were none. */
static void a_header_that_comes_twice_is_not_passed_over(void **state) {
  (void)state;
  static const char version[] = "MCP-Protocol-Version: 2025-11-25\r\n";
  mcp_web web;
  char session[64], headers[256];
  mcp_web_open(&web, &(mcp_web_opts){.table = {.stateless_legacy = true}});
  hello(&web, "2025-11-25", "{}", session);
  snprintf(headers, sizeof headers, "%s%s", session, session);
  expect(mcp_web_ask(&web, "POST", "/mcp", headers, PING), "404 ", "unknown-session");
  expect(mcp_web_ask(&web, "POST", "/mcp", headers, READY), "404 ", "unknown-session");
  expect(mcp_web_ask(&web, "GET", "/mcp", headers, NULL), "404 ", "unknown-session");
  expect(mcp_web_ask(&web, "DELETE", "/mcp", headers, NULL), "404 ", "unknown-session");
  snprintf(headers, sizeof headers, "%s%s%s", session, version, version);
  expect(mcp_web_ask(&web, "POST", "/mcp", headers, PING), "400 ", "\"reason\":\"bad-version\"");
  expect(mcp_web_ask(&web, "POST", "/mcp", headers, READY), "400 ", "\"reason\":\"bad-version\"");
  expect(mcp_web_ask(&web, "DELETE", "/mcp", headers, NULL), "400 ", "\"reason\":\"bad-version\"");
  snprintf(headers, sizeof headers, "%s%s", version, version);
  expect(mcp_web_ask(&web, "POST", "/mcp", headers, PING), "400 ", "\"reason\":\"bad-version\"");
  expect(mcp_web_ask(&web, "POST", "/mcp", session, PING), "200 OK", "\"result\":{}");
  mcp_web_close(&web);
}

/* Each of its requests is told as it would be alone. */
static void a_batch_is_told_what_is_wrong_with_its_session(void **state) {
  (void)state;
  static const char unknown[] = "Mcp-Session-Id: 00000000000000000000000000000000\r\n";
  mcp_web web;
  char session[64], headers[160];
  mcp_web_open(&web, &(mcp_web_opts){.store = NULL});
  hello(&web, "2025-03-26", "{}", session);
  expect(mcp_web_ask(&web, "POST", "/mcp", unknown, "[" PING "," READY "]"), "404 ",
         "\r\n\r\n[{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32600,\"message\":"
         "\"Invalid Request: the session is unknown or has ended; initialize again\",\"data\":{"
         "\"reason\":\"unknown-session\",\"hint\":\"initialize again\"}}}]");
  expect(mcp_web_ask(&web, "POST", "/mcp", unknown, "[" READY "]"), "404 ",
         "\"reason\":\"unknown-session\"");
  snprintf(headers, sizeof headers, "%sMCP-Protocol-Version: 1900-01-01\r\n", session);
  expect(mcp_web_ask(&web, "POST", "/mcp", headers, "[" PING "]"), "400 ", SUPPORTED);
  expect(mcp_web_ask(&web, "POST", "/mcp", headers, "[" READY "]"), "400 ", SUPPORTED);
  expect(mcp_web_ask(&web, "POST", "/mcp", "MCP-Protocol-Version: 1900-01-01\r\n", "[" PING "]"),
         "400 ", SUPPORTED);
  hello(&web, "2025-06-18", "{}", session);
  expect(mcp_web_ask(&web, "POST", "/mcp", session, "[" PING "]"), "400 ", "batch-not-supported");
  mcp_web_close(&web);
}

/* ---------------------------------------------------------- leaving, cancelling */

typedef struct world {
  mcp_web web;
  mcp_web_conn waiting;
  idem_request *kept;
  char session[64];
} world;

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason;
  ((world *)user)->kept = NULL;
  idem_request_drop(request);
}

static void keep(idem_request *request, void *user) {
  world *in = user;
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancel, in);
  in->kept = request;
}

#define TELLING_7                                                                                  \
  "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":\"slow\","         \
  "\"_meta\":{\"progressToken\":1}}}"

static void tell_and_keep(idem_request *request, void *user) {
  keep(request, user);
  idem_progress(request, 1, 2, NULL);
}

static void set_up_with(world *in, const char *date, const char *accept) {
  char headers[160];
  *in = (world){.kept = NULL};
  mcp_web_open(&in->web, &(mcp_web_opts){.store = NULL});
  in->web.fixture->keep = keep;
  in->web.fixture->user = in;
  hello(&in->web, date, "{}", in->session);
  mcp_web_connect(&in->web, &in->waiting);
  snprintf(headers, sizeof headers, "%s%s", in->session, accept);
  mcp_web_send(&in->waiting, "POST", "/mcp", headers, TELLING_7);
  assert_non_null(in->kept);
}

static void set_up(world *in, const char *date) { set_up_with(in, date, ""); }

static void tear_down(world *in) {
  mcp_web_disconnect(&in->waiting);
  mcp_web_close(&in->web);
}

/* Without an event there is no id to come back with: who would leave stays, and the answer comes. */
static void a_stream_is_left_only_where_its_client_can_come_back(void **state) {
  (void)state;
  world in;
  set_up(&in, "2025-06-18");
  idem_leave_stream(in.kept);
  mcp_web_settle(&in.waiting);
  idem_tool_text(in.kept, "done", 4);
  mcp_web_settle(&in.waiting);
  assert_non_null(strstr(in.waiting.output, "\"text\":\"done\""));
  tear_down(&in);
  set_up(&in, "2025-06-18");
  idem_progress(in.kept, 1, 2, NULL); /* has an id */
  idem_leave_stream(in.kept);
  mcp_web_settle(&in.waiting);
  assert_non_null(strstr(in.waiting.output, "id: "));
  assert_non_null(strstr(in.waiting.output, "\r\n0\r\n\r\n"));
  idem_tool_text(in.kept, "done", 4);
  mcp_web_settle(&in.waiting);
  assert_null(strstr(in.waiting.output, "\"text\":\"done\""));
  tear_down(&in);
}

/* Streamable HTTP, Sending Messages to the Server: a request is answered with an event stream or a JSON object, 202 is for what
 * is none; Cancellation: no response to what was cancelled. So it is a stream without one, also where Accept rules streams out
 * (which a client MUST NOT): then not a byte is in it. */
static void a_cancelled_call_ends_as_an_empty_stream(void **state) {
  (void)state;
  static const char *const dates[] = {"2025-03-26", "2025-06-18", "2025-11-25"};
  for (size_t i = 0; i < 6; i++) {
    world in;
    set_up_with(&in, dates[i % 3], i < 3 ? "" : JSON_ALONE);
    expect(mcp_web_ask(&in.web, "POST", "/mcp", in.session,
                       "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                       "\"requestId\":7}}"),
           "202 Accepted", "");
    mcp_web_settle(&in.waiting);
    assert_null(in.kept);
    assert_non_null(strstr(in.waiting.output, "Content-Type: text/event-stream\r\n"));
    assert_non_null(strstr(in.waiting.output, "\r\n0\r\n\r\n"));
    assert_null(strstr(in.waiting.output, "jsonrpc"));
    assert_non_null(strstr(in.waiting.output, "HTTP/1.1 200 OK\r\n"));
    if (i >= 3) assert_non_null(strstr(in.waiting.output, "\r\n\r\n0\r\n\r\n"));
    tear_down(&in);
  }
}

#define CANCEL_7                                                                                   \
  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":7}}"
#define SLOW_7                                                                                     \
  "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":\"slow\"}}"

/* A batch of 2025-03-26 that holds a request is answered with a stream or an array, 202 is for one that holds none; also where it
 * cancels itself all that it asks. What else it asks is answered. */
static void a_batch_that_cancels_itself_ends_as_an_empty_stream(void **state) {
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    world in;
    char headers[160];
    set_up(&in, "2025-03-26");
    snprintf(headers, sizeof headers, "%s%s", in.session, i ? JSON_ALONE : "");
    idem_tool_text(in.kept, "done", 4);
    char *answer = mcp_web_ask(&in.web, "POST", "/mcp", headers, "[" SLOW_7 "," CANCEL_7 "]");
    assert_null(in.kept);
    assert_null(strstr(answer, "jsonrpc"));
    assert_non_null(strstr(answer, "\r\n0\r\n\r\n"));
    expect(answer, "HTTP/1.1 200 OK\r\n", "Content-Type: text/event-stream\r\n");
    expect(mcp_web_ask(&in.web, "POST", "/mcp", headers, "[" CANCEL_7 "," READY "]"),
           "202 Accepted", "");
    expect(mcp_web_ask(&in.web, "POST", "/mcp", headers, "[" SLOW_7 "," PING "," CANCEL_7 "]"),
           "200 OK", "\r\n\r\n[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}]");
    tear_down(&in);
  }
}

/* Its stream had begun, with an event that its client can come back after: who does hears that it is over. */
static void a_stream_whose_batch_cancels_itself_is_over(void **state) {
  (void)state;
  world in;
  set_up(&in, "2025-03-26");
  idem_tool_text(in.kept, "done", 4);
  in.web.fixture->keep = tell_and_keep;
  char *answer = mcp_web_ask(&in.web, "POST", "/mcp", in.session, "[" TELLING_7 "," CANCEL_7 "]");
  const char *id = strstr(answer, "id: ");
  char headers[160];
  assert_non_null(id);
  assert_non_null(strstr(answer, "\r\n0\r\n\r\n"));
  snprintf(headers, sizeof headers, "%sLast-Event-ID: %.*s\r\n", in.session,
           (int)strcspn(id + 4, "\r\n"), id + 4);
  free(answer);
  expect(mcp_web_ask(&in.web, "GET", "/mcp", headers, NULL), "200 OK", "\r\n0\r\n\r\n");
  tear_down(&in);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_needs_a_stream_is_refused_where_there_can_be_none),
      cmocka_unit_test(a_version_that_is_not_served_is_refused_for_everything),
      cmocka_unit_test(without_a_session_there_is_nothing_but_initialize),
      cmocka_unit_test(hints_can_be_followed_where_one_era_is_served),
      cmocka_unit_test(batches_need_no_session_where_nothing_does),
      cmocka_unit_test(what_names_no_version_speaks_one_that_must_be_served),
      cmocka_unit_test(a_server_of_the_newest_alone_names_it),
      cmocka_unit_test(a_header_that_comes_twice_is_not_passed_over),
      cmocka_unit_test(a_batch_is_told_what_is_wrong_with_its_session),
      cmocka_unit_test(a_stream_is_left_only_where_its_client_can_come_back),
      cmocka_unit_test(a_cancelled_call_ends_as_an_empty_stream),
      cmocka_unit_test(a_batch_that_cancels_itself_ends_as_an_empty_stream),
      cmocka_unit_test(a_stream_whose_batch_cancels_itself_is_over),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
