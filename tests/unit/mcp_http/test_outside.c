/* test_outside.c - what sessions are told outside their requests, over HTTP: on one GET stream, by its own
 * session alone, and when it comes back. */
#include "support/mcp_web.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define CALL(NAME, MORE)                                                                           \
  "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":\"" NAME "\"" MORE \
  "}}"
#define INITIALIZE                                                                                 \
  "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"       \
  "\"2025-11-25\",\"capabilities\":{\"elicitation\":{\"url\":{}}},\"clientInfo\":{\"name\":\"c\"," \
  "\"version\":\"1\"}}}"

/* A session of 2025-11-25 that can open addresses, with its GET stream. */
static void begin(mcp_web *web, char line[64], mcp_web_conn *stream) {
  char *answer = mcp_web_ask(web, "POST", "/mcp", "", INITIALIZE);
  const char *id = strcasestr(answer, "Mcp-Session-Id: ");
  assert_non_null(id);
  snprintf(line, 64, "Mcp-Session-Id: %.32s\r\n", id + 16);
  free(answer);
  mcp_web_expect(mcp_web_ask(web, "POST", "/mcp", line,
                             "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"),
                 "202 Accepted");
  mcp_web_connect(web, stream);
  mcp_web_send(stream, "GET", "/mcp", line, NULL);
  assert_non_null(strstr(stream->output, "text/event-stream"));
}

static void settle(mcp_web *web, mcp_web_conn *one, mcp_web_conn *other) {
  mcp_web_deliver(web);
  mcp_web_settle(one);
  mcp_web_settle(other);
}

/* MUST elicitation.complete-own 2025-11-25 */
static void who_was_sent_somewhere_hears_that_it_is_over_and_nobody_else(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_conn asked, other;
  char line[64], others[64];
  mcp_web_open(&web, &(mcp_web_opts){0});
  begin(&web, line, &asked);
  begin(&web, others, &other);
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", line, CALL("visit", "")), "-32042");
  assert_int_equal(idem_server_elicitation_complete(web.fixture->server, "visit-1"), IDEM_OK);
  settle(&web, &asked, &other);
  assert_non_null(strstr(asked.output, "{\"elicitationId\":\"visit-1\"}"));
  assert_null(strstr(other.output, "visit-1"));
  assert_int_equal(idem_server_elicitation_complete(web.fixture->server, "visit-1"),
                   IDEM_E_NOTFOUND);
  mcp_web_disconnect(&asked);
  mcp_web_disconnect(&other);
  mcp_web_close(&web);
}

/* The page may be another process's: those who share the store find who was asked. */
static void a_visit_may_end_in_another_process(void **state) {
  (void)state;
  mcp_web_pair both;
  mcp_web_conn stream;
  char line[64];
  mcp_web_pair_open(&both);
  begin(&both.first, line, &stream);
  mcp_web_expect(mcp_web_ask(&both.first, "POST", "/mcp", line, CALL("visit", "")), "-32042");
  assert_int_equal(idem_server_elicitation_complete(both.second.fixture->server, "visit-1"),
                   IDEM_E_NOTFOUND);
  mcp_web_deliver(&both.second);
  mcp_web_deliver(&both.first);
  mcp_web_settle(&stream);
  assert_non_null(strstr(stream.output, "{\"elicitationId\":\"visit-1\"}"));
  mcp_web_disconnect(&stream);
  mcp_web_pair_close(&both);
}

static void a_task_is_told_of_in_the_session_that_began_it(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_conn mine, other;
  char line[64], others[64];
  mcp_web_open(&web, &(mcp_web_opts){0});
  begin(&web, line, &mine);
  begin(&web, others, &other);
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", line, CALL("job_fail", ",\"task\":{}")),
                 "working");
  settle(&web, &mine, &other);
  assert_non_null(strstr(mine.output, "notifications/tasks/status"));
  assert_non_null(strstr(mine.output, "\"status\":\"failed\""));
  assert_null(strstr(other.output, "tasks/status"));
  mcp_web_disconnect(&mine);
  mcp_web_disconnect(&other);
  mcp_web_close(&web);
}

/* The id of a task does not open it to another user of 2025-11-25, whose list does not have it.
 * MUST tasks.bound 2025-11-25 */
static void a_task_of_another_is_none(void **state) {
  (void)state;
  mcp_web web;
  static const char *const methods[] = {"tasks/get", "tasks/result", "tasks/cancel"};
  char ann[64], bob[64], headers[128], body[256];
  mcp_web_open(&web, &(mcp_web_opts){0});
  mcp_web_hello(&web, "Authorization: Bearer ann\r\n", ann);
  mcp_web_hello(&web, "Authorization: Bearer bob\r\n", bob);
  snprintf(headers, sizeof headers, "%sAuthorization: Bearer ann\r\n", ann);
  char *made = mcp_web_ask(&web, "POST", "/mcp", headers, CALL("job_fail", ",\"task\":{}"));
  const char *id = strstr(made, "\"taskId\":\"");
  assert_non_null(id);
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", headers,
                             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tasks/list\"}"),
                 "taskId");
  snprintf(headers, sizeof headers, "%sAuthorization: Bearer bob\r\n", bob);
  for (size_t i = 0; i < 3; i++) {
    snprintf(body, sizeof body,
             "{\"jsonrpc\":\"2.0\",\"id\":%zu,\"method\":\"%s\",\"params\":{\"taskId\":\"%.32s\"}}",
             i, methods[i], id + 10);
    mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", headers, body), "-32602");
  }
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", headers,
                             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tasks/list\"}"),
                 "\"tasks\":[]");
  char nobody[64]; /* has none to list */
  mcp_web_hello(&web, "", nobody);
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", nobody,
                             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tasks/list\"}"),
                 "-32601,\"message\":\"Method not found\",\"data\":{\"method\":\"tasks/list\"}");
  free(made);
  mcp_web_close(&web);
}

static void a_log_line_reaches_each_session_by_its_level(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_conn loud, quiet;
  char line[64], others[64];
  mcp_web_open(&web, &(mcp_web_opts){0});
  begin(&web, line, &loud);
  begin(&web, others, &quiet);
  mcp_web_expect(
      mcp_web_ask(&web, "POST", "/mcp", others,
                  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"logging/setLevel\",\"params\":{"
                  "\"level\":\"alert\"}}"),
      "200 OK");
  assert_int_equal(idem_server_log(web.fixture->server, IDEM_MCP_ERROR, NULL, "{\"x\":[1]}", 9),
                   IDEM_OK);
  settle(&web, &loud, &quiet);
  assert_non_null(strstr(loud.output, "{\"level\":\"error\",\"data\":{\"x\":[1]}}"));
  assert_null(strstr(quiet.output, "notifications/message"));
  mcp_web_disconnect(&quiet);
  /* Who is away finds it on coming back, if it has the level. */
  idem_server_log(web.fixture->server, IDEM_MCP_EMERGENCY, NULL, "\"fire\"", 6);
  mcp_web_deliver(&web);
  char back[128];
  snprintf(back, sizeof back, "%sLast-Event-ID: 0-0\r\n", others);
  mcp_web_connect(&web, &quiet);
  mcp_web_send(&quiet, "GET", "/mcp", back, NULL);
  assert_non_null(strstr(quiet.output, "fire"));
  mcp_web_disconnect(&loud);
  mcp_web_disconnect(&quiet);
  mcp_web_close(&web);
}

static void lines_that_nobody_takes_are_bounded(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_open(&web, &(mcp_web_opts){0});
  idem_status status = IDEM_OK;
  size_t taken = 0;
  while (status == IDEM_OK && taken < 5000) {
    status = idem_server_log(web.fixture->server, IDEM_MCP_INFO, NULL, "1", 1);
    taken += status == IDEM_OK;
  }
  assert_int_equal(status, IDEM_E_LIMIT);
  assert_int_equal(taken, 1000);
  mcp_web_deliver(&web);
  assert_int_equal(idem_server_log(web.fixture->server, IDEM_MCP_INFO, NULL, "1", 1), IDEM_OK);
  mcp_web_close(&web);
}

typedef struct pinged {
  bool heard;
  idem_status status, sent;
} pinged;

static void on_pong(idem_conn *conn, const idem_response *response, void *user) {
  (void)conn;
  pinged *seen = user;
  seen->heard = true;
  seen->status = response->status;
}

static void keep_and_ping(idem_request *request, void *user) {
  pinged *seen = user;
  idem_request_keep(request);
  seen->sent = idem_mcp_ping(idem_request_conn(request), 0, on_pong, seen);
  idem_tool_text(request, "pinged", 6);
}

static void a_ping_goes_on_the_stream_of_a_request(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_conn stream;
  char line[64];
  pinged seen = {0};
  mcp_web_open(&web, &(mcp_web_opts){0});
  web.fixture->keep = keep_and_ping;
  web.fixture->user = &seen;
  begin(&web, line, &stream);
  char *answer = mcp_web_ask(&web, "POST", "/mcp", line, CALL("slow", ""));
  assert_int_equal(seen.sent, IDEM_OK);
  assert_non_null(strstr(answer, "\"method\":\"ping\""));
  free(answer);
  char json[160];
  snprintf(json, sizeof json, "%sAccept: application/json\r\n", line);
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", json, CALL("slow", "")), "pinged");
  assert_int_equal(seen.sent, IDEM_E_STATE);
  mcp_web_disconnect(&stream);
  mcp_web_close(&web);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_was_sent_somewhere_hears_that_it_is_over_and_nobody_else),
      cmocka_unit_test(a_visit_may_end_in_another_process),
      cmocka_unit_test(a_task_is_told_of_in_the_session_that_began_it),
      cmocka_unit_test(a_task_of_another_is_none),
      cmocka_unit_test(a_log_line_reaches_each_session_by_its_level),
      cmocka_unit_test(lines_that_nobody_takes_are_bounded),
      cmocka_unit_test(a_ping_goes_on_the_stream_of_a_request),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
