/* test_task_answers.c - whatever way a handler answers, its task ends with that answer. */
#include "support/mcp_peer.h"
#include "support/unit.h"

#include <stdio.h>

#define TASKS "{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}"
#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":" TASKS "}"

static void answer(idem_request *request, yyjson_val *arguments, void *user) {
  const char *how = user;
  (void)arguments;
  if (strcmp(how, "text") == 0)
    idem_tool_text(request, "done", 4);
  else if (strcmp(how, "failed") == 0)
    idem_tool_failed(request, "no luck");
  else if (strcmp(how, "error") == 0)
    idem_reply_error_text(request, 404, "No such book", "shelf 3");
  else if (strcmp(how, "params") == 0)
    idem_reply_invalid_params(request,
                              &(idem_param_fault){.param = "isbn", .expected = "13 digits"});
  else if (strcmp(how, "fault") == 0)
    idem_reply_fault(request, IDEM_FAULT_RATE_LIMITED, NULL);
  else if (strcmp(how, "json") == 0)
    idem_reply_json(request, "{\"content\":[]}", 14);
  else if (strcmp(how, "drop") == 0)
    idem_request_drop(request);
  /* else: forgotten */
}

static void ask(mcp_peer *peer, char *line, size_t size) {
  assert_int_equal(idem_conn_feed(peer->conn, line, strlen(line)), IDEM_OK);
  snprintf(line, size, "%s", mcp_peer_more(peer));
}

/* What tasks/get says of a call of the one tool, from "status" on. */
static void outcome(const char *how, char *text, size_t size) {
  idem_server *server = mcp_test_server(NULL);
  mcp_peer peer;
  char id[33];
  idem_tool tool = {
      .name = "t", .task = IDEM_TASK_OPTIONAL, .fn = answer, .user = (void *)(uintptr_t)how};
  assert_int_equal(idem_server_add_tool(server, &tool, NULL, 0), IDEM_OK);
  mcp_peer_open(&peer, server, "2026-07-28");
  snprintf(
      text, size,
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\"," META
      "}}\n");
  ask(&peer, text, size);
  const char *at = strstr(text, "\"taskId\":\"");
  assert_non_null(at);
  snprintf(id, sizeof id, "%s", at + 10);
  snprintf(
      text, size,
      "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tasks/get\",\"params\":{\"taskId\":\"%s\"," META
      "}}\n",
      id);
  ask(&peer, text, size);
  mcp_peer_close(&peer);
  idem_server_free(server);
}

static void expect(const char *how, const char *status, const char *part) {
  char text[2048];
  outcome(how, text, sizeof text);
  if (!strstr(text, status) || !strstr(text, part)) fail_msg("%s: %s", how, text);
}

static void a_result_completes_the_task(void **state) {
  (void)state;
  expect("text", "\"status\":\"completed\"", "\"text\":\"done\"");
  expect("failed", "\"status\":\"completed\"", "\"isError\":true");
  expect("json", "\"status\":\"completed\"", "\"result\":{\"content\":[]}");
}

static void an_error_fails_the_task_with_that_error(void **state) {
  (void)state;
  expect(
      "error", "\"status\":\"failed\"",
      "\"error\":{\"code\":404,\"message\":\"No such book\",\"data\":{\"details\":\"shelf 3\"}}");
  expect("params", "\"status\":\"failed\"", "\"code\":-32602");
  expect("params", "\"status\":\"failed\"", "\"param\":\"isbn\"");
  expect("fault", "\"status\":\"failed\"", "\"error\":{\"code\":-3");
}

static void no_answer_fails_the_task(void **state) {
  (void)state;
  expect("drop", "\"status\":\"failed\"", "\"code\":-32603");
  expect("forget", "\"status\":\"failed\"", "\"code\":-32603");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_result_completes_the_task),
      cmocka_unit_test(an_error_fails_the_task_with_that_error),
      cmocka_unit_test(no_answer_fails_the_task),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
