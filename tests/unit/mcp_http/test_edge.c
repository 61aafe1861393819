/* test_edge.c - where MCP meets HTTP: what ends of input, browsers and preflights get, and what the
 * counters say of sessions. */
#include "kept_call.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

/* ------------------------------------------------------------- ends of input */

typedef struct world {
  mcp_web web;
  mcp_web_conn waiting;
  kept_call call;
} world;

/* A call that waits, whose client has ended its input. */
static void set_up(world *in, const char *headers, const char *meta) {
  char session[64] = "", all[256], body[512];
  *in = (world){.call = {0}};
  mcp_web_open(&in->web, &(mcp_web_opts){.store = NULL});
  kept_call_at(&in->web, &in->call);
  if (!*meta) mcp_web_hello(&in->web, "", session);
  snprintf(all, sizeof all, "%s%s", session, headers);
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":"
           "\"slow\"%s}}",
           meta);
  mcp_web_connect(&in->web, &in->waiting);
  mcp_web_send(&in->waiting, "POST", "/mcp", all, body);
  assert_non_null(in->call.request);
  assert_int_equal(idem__http_conn_feed_eof(in->waiting.conn, in->web.now_ms), IDEM_OK);
}

static void tear_down(world *in) {
  mcp_web_disconnect(&in->waiting);
  mcp_web_close(&in->web);
}

static void a_half_closed_legacy_client_gets_its_answer(void **state) {
  (void)state;
  world in;
  set_up(&in, "MCP-Protocol-Version: 2025-11-25\r\n", "");
  assert_int_equal(in.call.cancelled, 0);
  assert_false(idem__http_conn_closing(in.waiting.conn));
  idem_tool_text(in.call.request, "done", 4);
  mcp_web_settle(&in.waiting);
  assert_non_null(strstr(in.waiting.output, "\"id\":7,\"result\""));
  assert_true(idem__http_conn_finished(in.waiting.conn));
  tear_down(&in);
}

static void since_2026_07_28_the_end_of_input_cancels(void **state) {
  (void)state;
  world in;
  set_up(&in, "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: slow\r\n",
         ",\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
         "\"io.modelcontextprotocol/clientCapabilities\":{}}");
  assert_int_equal(in.call.cancelled, 1);
  assert_true(idem__http_conn_finished(in.waiting.conn));
  assert_int_equal(in.waiting.len, 0);
  tear_down(&in);
}

/* What people see is the message: it shows the way, as data does, and by the same rules. */
static void who_misses_the_endpoint_is_shown_the_way(void **state) {
  (void)state;
  static const char told[] =
      "\"message\":\"Invalid Request: there is nothing at this path; the endpoint is /mcp\","
      "\"data\":{\"reason\":\"unavailable\",\"hint\":\"the endpoint is /mcp\"}}}";
  mcp_web web;
  mcp_web_open(&web, &(mcp_web_opts){.store = NULL});
  mcp_web_expect(mcp_web_ask(&web, "GET", "/", "", NULL), told);
  mcp_web_expect(mcp_web_ask(&web, "POST", "/", "", "{}"), told);
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp/", "", "{}"), told);
  mcp_web_close(&web);
}

/* The header promises a claim, which only an object can hold. */
static void params_that_are_no_object_are_400_under_a_modern_header(void **state) {
  (void)state;
  static const char *const bodies[] = {
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":[]}",
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":null}"};
  mcp_web web;
  mcp_web_open(&web, &(mcp_web_opts){.store = NULL});
  for (int i = 0; i < 2; i++)
    mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp",
                               "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n",
                               bodies[i]),
                   "HTTP/1.1 400");
  mcp_web_close(&web);
}

/* ------------------------------------------------------------------- browsers */

static void a_page_may_send_every_header_of_mcp(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_open(&web, &(mcp_web_opts){.store = NULL});
  char *answer =
      mcp_web_ask(&web, "OPTIONS", "/mcp",
                  "Origin: http://localhost:3000\r\nAccess-Control-Request-Method: POST\r\n"
                  "Access-Control-Request-Headers: mcp-method,mcp-param-city\r\n",
                  NULL);
  static const char *const wanted[] = {
      "Access-Control-Allow-Origin: http://localhost:3000\r\n",
      "Access-Control-Allow-Methods: GET, HEAD, DELETE, POST\r\n",
      ("Access-Control-Allow-Headers: Authorization, Content-Type, Accept, Mcp-Session-Id, "
       "MCP-Protocol-Version, Last-Event-ID, Mcp-Method, Mcp-Name, Idempotency-Key, "
       "mcp-param-city\r\n"),
      ("Access-Control-Expose-Headers: Retry-After, WWW-Authenticate, Mcp-Session-Id, "
       "MCP-Protocol-Version, Idempotency-Replayed\r\n")};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    if (!strstr(answer, wanted[i])) fail_msg("no %s in:\n%s", wanted[i], answer);
  free(answer);
  mcp_web_close(&web);
}

static void who_opens_the_endpoint_in_a_browser_is_told_what_it_is(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_open(&web, &(mcp_web_opts){.store = NULL});
  mcp_web_expect(mcp_web_ask(&web, "GET", "/mcp", "", NULL),
                 "\"reason\":\"not-initialized\",\"hint\":\"this URL is for an MCP client\"}");
  mcp_web_close(&web);
}

/* The length of a stream's body is not in its head: a client reads none, and then the next answer. */
static void head_of_a_stream_has_no_body(void **state) {
  (void)state;
  static const char *const targets[] = {"/mcp", "/sse"};
  mcp_web web;
  char session[64];
  mcp_web_open(&web, &(mcp_web_opts){.store = NULL});
  mcp_web_hello(&web, "", session);
  for (int i = 0; i < 2; i++) {
    mcp_web_conn conn;
    mcp_web_connect(&web, &conn);
    mcp_web_send(&conn, "HEAD", targets[i], session, NULL);
    assert_non_null(strstr(conn.output, "Content-Type: text/event-stream\r\n"));
    assert_string_equal(strstr(conn.output, "\r\n\r\n"), "\r\n\r\n");
    size_t len = conn.len;
    mcp_web_send(&conn, "POST", "/mcp", session,
                 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
    assert_memory_equal(conn.output + len, "HTTP/1.1 200 OK\r\n", 17);
    mcp_web_disconnect(&conn);
  }
  mcp_web_close(&web);
}

/* ------------------------------------------------------------------- refusals */

/* Who is refused is told by one of the reasons of -32600, and once what is allowed. */
static void refusals_name_a_known_reason(void **state) {
  (void)state;
#define NEW "MCP-Protocol-Version: 2026-07-28\r\n"
#define PING "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"
  static const char unknown[] = "Mcp-Session-Id: 00000000000000000000000000000000\r\n";
  static const char *const cases[][5] = {
      {"GET", NEW, NULL, "405 Method Not Allowed", "\"reason\":\"method-not-allowed\""},
      {"DELETE", NEW, NULL, "405 Method Not Allowed", "\r\nAllow: POST\r\n"},
      {"GET", unknown, NULL, "404 Not Found", "\"reason\":\"unknown-session\""},
      {"POST", unknown, PING, "404 Not Found", "\"reason\":\"unknown-session\""},
      {"GET", "MCP-Protocol-Version: 1\r\n", NULL, "400 ", "\"reason\":\"bad-version\""},
  };
  mcp_web web;
  char headers[128], session[64];
  mcp_web_open(&web, &(mcp_web_opts){.store = NULL});
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *answer = mcp_web_ask(&web, cases[i][0], "/mcp", cases[i][1], cases[i][2]);
    const char *allow = strstr(answer, "Allow: ");
    assert_true(!allow || !strstr(allow + 1, "Allow: "));
    assert_non_null(strstr(answer, cases[i][3]));
    mcp_web_expect(answer, cases[i][4]);
  }
  mcp_web_hello(&web, "", session);
  snprintf(headers, sizeof headers, "%sMCP-Protocol-Version: 1\r\n", session);
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", headers, PING), "\"reason\":\"bad-version\"");
  static const char *const odd[] = {
      "x",           "",           "1",    "-",     "1-",
      "-1",          "+1-1",       "-1-1", "0x1-1", "1-0x1",
      "1- 1",        "1 -1",       "1--1", "1-+1",  "01-1",
      "1-01",        "A-1",        "1-A",  "1-1-1", "1-1\r\nLast-Event-ID: 1-1",
      "100000000-1", "1-100000000"};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    snprintf(headers, sizeof headers, "%sLast-Event-ID: %s\r\n", session, odd[i]);
    char *answer = mcp_web_ask(&web, "GET", "/mcp", headers, NULL);
    if (!strstr(answer, "\"reason\":\"unavailable\"")) fail_msg("\"%s\" was taken", odd[i]);
    free(answer);
  }
  mcp_web_close(&web);
}

/* What people and models see is the message; an id that could be read comes back. */
static void refusals_name_their_cause_and_the_request(void **state) {
  (void)state;
#define ASKED "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}"
  static const char unknown[] = "Mcp-Session-Id: 00000000000000000000000000000000\r\n";
  static const char gone[] =
      "Invalid Request: the session is unknown or has ended; initialize again";
  static const char *const cases[][4] = {
      {"POST", unknown, ASKED, "\"id\":7,"},
      {"POST", unknown, ASKED, gone},
      {"GET", unknown, NULL, gone},
      {"DELETE", unknown, NULL, gone},
      {"POST", unknown, "[]", "404 Not Found"},
      {"POST", unknown, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}", gone},
      {"POST", "Accept: text/html\r\n", ASKED, "\"id\":7,"},
      {"POST", "Accept: text/html\r\n", ASKED,
       "Accept names neither JSON nor event streams; Accept: "},
      {"POST", "Content-Type: text/plain\r\n", ASKED,
       "Invalid Request: unsupported content type; Content-Type: application/json"},
      {"GET", "MCP-Protocol-Version: 1\r\n", NULL,
       "Invalid Request: unsupported MCP-Protocol-Version; supported: 2026-07-28"},
      {"DELETE", "MCP-Protocol-Version: 1\r\n", NULL, "\"hint\":\"supported: 2026-07-28"},
  };
  mcp_web web;
  char headers[128], session[64];
  mcp_web_open(&web, &(mcp_web_opts){.store = NULL});
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    mcp_web_expect(mcp_web_ask(&web, cases[i][0], "/mcp", cases[i][1], cases[i][2]), cases[i][3]);
  mcp_web_hello(&web, "", session);
  snprintf(headers, sizeof headers, "%sMCP-Protocol-Version: 1\r\n", session);
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", headers, ASKED),
                 "\"id\":7,\"error\":{\"code\":-32600,\"message\":\"Invalid Request: unsupported "
                 "MCP-Protocol-Version: 1 (supported: 2026-07-28");
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", headers, ASKED),
                 "\"supported\":[\"2026-07-28\"");
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", session, ASKED), "\"result\":{}");
  mcp_web_close(&web);
}

/* ------------------------------------------------------------------- counters */

static void expect_sessions(idem_metrics *metrics, uint64_t opened, uint64_t closed) {
  idem_metrics *const all[] = {metrics};
  assert_int_equal(idem__metrics_total(all, 1, IDEM__M_SESSIONS_OPENED), opened);
  assert_int_equal(idem__metrics_total(all, 1, IDEM__M_SESSIONS_CLOSED), closed);
}

static void sessions_are_counted(void **state) {
  (void)state;
  mcp_web web;
  idem_metrics *metrics;
  char session[64];
  assert_int_equal(idem_metrics_new(NULL, &metrics), IDEM_OK);
  mcp_web_open(&web, &(mcp_web_opts){.table = {.metrics = metrics, .session_idle_ms = 1000}});
  mcp_web_hello(&web, "", session);
  mcp_web_hello(&web, "", session);
  expect_sessions(metrics, 2, 0);
  mcp_web_expect(mcp_web_ask(&web, "DELETE", "/mcp", session, NULL), "204 No Content");
  expect_sessions(metrics, 2, 1);
  mcp_web_conn stream; /* of 2024-11-05 */
  mcp_web_connect(&web, &stream);
  mcp_web_send(&stream, "GET", "/sse", "", NULL);
  expect_sessions(metrics, 3, 1);
  mcp_web_disconnect(&stream);
  web.now_ms += 5000; /* the other one expires; the next to come finds out */
  mcp_web_hello(&web, "", session);
  expect_sessions(metrics, 4, 3);
  mcp_web_close(&web);
  expect_sessions(metrics, 4, 4);
  idem_metrics_free(metrics);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_misses_the_endpoint_is_shown_the_way),
      cmocka_unit_test(params_that_are_no_object_are_400_under_a_modern_header),
      cmocka_unit_test(a_half_closed_legacy_client_gets_its_answer),
      cmocka_unit_test(since_2026_07_28_the_end_of_input_cancels),
      cmocka_unit_test(a_page_may_send_every_header_of_mcp),
      cmocka_unit_test(who_opens_the_endpoint_in_a_browser_is_told_what_it_is),
      cmocka_unit_test(head_of_a_stream_has_no_body),
      cmocka_unit_test(refusals_name_a_known_reason),
      cmocka_unit_test(refusals_name_their_cause_and_the_request),
      cmocka_unit_test(sessions_are_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
