/* test_told.c - lines of the log for what comes over HTTP: one for each that is refused, with its method and its id. */
#include "support/mcp_web.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct world {
  mcp_web web;
  idem_log *log;
  char lines[1 << 14];
  size_t len;
} world;

static void keep_line(void *ctx, const char *line, size_t len) {
  world *in = ctx;
  assert_true(in->len + len < sizeof in->lines);
  memcpy(in->lines + in->len, line, len);
  in->len += len;
  in->lines[in->len] = '\0';
}

static void open_world(world *in, idem_log_level level) {
  *in = (world){.len = 0};
  idem_log_opts log = {.level = level, .write = keep_line, .write_ctx = in};
  assert_int_equal(idem_log_new(&log, &in->log), IDEM_OK);
  mcp_web_open(&in->web, &(mcp_web_opts){.log = in->log});
}

static void close_world(world *in) {
  mcp_web_close(&in->web);
  idem_log_free(in->log);
}

/* Posts and has this answer, and these lines alone; they begin with the time where there is a clock. */
static void expect(world *in, const char *headers, const char *body, const char *answer,
                   const char *lines) {
  in->len = 0;
  in->lines[0] = '\0';
  mcp_web_expect(mcp_web_ask(&in->web, "POST", "/mcp", headers, body), answer);
  assert_string_equal(in->lines, lines);
}

static void hello(world *in, char session[64]) {
  mcp_web_session(
      mcp_web_ask(&in->web, "POST", "/mcp", "",
                  "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
                  "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":"
                  "\"c\",\"version\":\"1\"}}}"),
      session);
}

#define NOTE(method) "{\"jsonrpc\":\"2.0\",\"method\":\"" method "\"}"
#define NO_SESSION "Mcp-Session-Id: 00000000000000000000000000000000\r\n"

static void a_refused_notification_has_one_line(void **state) {
  world in;
  (void)state;
  open_world(&in, IDEM_LOG_WARN);
#define REFUSED(method, why)                                                                       \
  "WARN  a notification was refused method=" method " peer=test detail=" why
  expect(&in, NO_SESSION, NOTE("notifications/x"), " 404 ",
         REFUSED("notifications/x", "unknown-session, 44 bytes\n"));
  expect(&in, NO_SESSION, NOTE("notifications/initialized"), " 404 ", ""); /* never a warning */
  expect(&in, "MCP-Protocol-Version: 1900-01-01\r\n", NOTE("notifications/x"), " 400 ",
         REFUSED("notifications/x", "bad-version, 44 bytes\n"));
  expect(&in, "", NOTE("notifications/x"), " 400 ",
         REFUSED("notifications/x", "not-initialized, 44 bytes\n"));
  close_world(&in);
}

static void a_request_that_accepts_nothing_is_told_with_its_id(void **state) {
  world in;
  (void)state;
  open_world(&in, IDEM_LOG_WARN);
  expect(&in, "Accept: text/plain\r\n", "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\"}",
         " 406 ",
         "WARN  a request was refused id=5 method=ping peer=test detail=406 unavailable; Accept: "
         "application/json, text/event-stream, 40 bytes\n");
  close_world(&in);
}

/* It is answered as a tool that failed, which is no error. */
static void a_question_that_cannot_be_asked_is_told(void **state) {
  world in;
  char session[64];
  (void)state;
  open_world(&in, IDEM_LOG_WARN);
  hello(&in, session);
  expect(&in, session,
         "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"ask\"}}",
         "\"isError\":true",
         "WARN  a request was refused id=1 method=tools/call peer=test detail=ask: the client has "
         "not declared {\"elicitation\":{\"form\":{}}}, 70 bytes\n");
  close_world(&in);
}

static void drop(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason, (void)user;
  idem_request_drop(request);
}

static void keep(idem_request *request, void *user) {
  (void)user;
  idem_request_keep(request);
  idem_request_on_cancel(request, drop, NULL);
}

static void a_call_whose_client_goes_is_told(void **state) {
  static const char headers[] =
      "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: slow\r\n";
  world in;
  mcp_web_conn conn;
  (void)state;
  open_world(&in, IDEM_LOG_INFO);
  in.web.fixture->keep = keep;
  mcp_web_connect(&in.web, &conn);
  mcp_web_send(&conn, "POST", "/mcp", headers,
               "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
               "\"slow\",\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
               "\"io.modelcontextprotocol/clientCapabilities\":{}}}}");
  assert_int_equal(in.len, 0);
  mcp_web_disconnect(&conn);
  assert_string_equal(in.lines, "INFO  a request was cancelled id=1 method=tools/call peer=test "
                                "detail=its peer has gone\n");
  close_world(&in);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_refused_notification_has_one_line),
      cmocka_unit_test(a_request_that_accepts_nothing_is_told_with_its_id),
      cmocka_unit_test(a_question_that_cannot_be_asked_is_told),
      cmocka_unit_test(a_call_whose_client_goes_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
