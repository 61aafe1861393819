/* test_task_answers.c - whatever way a handler answers, its task ends with that answer. */
#include "mcp_server/server.h"
#include "support/mcp_peer.h"
#include "support/unit.h"

#include <stdio.h>

#define TASKS "{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}"
#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":" TASKS "}"

#define DIGITS "[123456789012345678901234567890,0.10000000000000000000000001,18446744073709551615]"

static void say_long(idem_request *request) {
  char text[1000];
  memset(text, 'x', sizeof text);
  idem_tool_text(request, text, sizeof text);
}

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
  else if (strcmp(how, "digits") == 0)
    idem_reply_error(request, 404, "Far away", yyjson_mut_raw(idem_request_doc(request), DIGITS));
  else if (strcmp(how, "long") == 0)
    say_long(request);
  else if (strcmp(how, "drop") == 0)
    idem_request_drop(request);
  /* else: forgotten */
}

static void ask(mcp_peer *peer, char *line, size_t size) {
  assert_int_equal(idem_conn_feed(peer->conn, line, strlen(line)), IDEM_OK);
  snprintf(line, size, "%s", mcp_peer_more(peer));
}

/* What tasks/get says of a call of the one tool, from "status" on. */
static void outcome_in(idem__store *store, const char *how, char *text, size_t size) {
  idem_server *server = mcp_test_server(NULL);
  if (store) assert_int_equal(idem__server_use_store(server, store), IDEM_OK);
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

static void outcome(const char *how, char *text, size_t size) { outcome_in(NULL, how, text, size); }

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

/* 2025-11-25 has the error itself as the answer to tasks/result. */
static void expect_error(const idem_policy *policy, const char *how, const char *error) {
  idem_server *server = mcp_test_server(NULL);
  mcp_peer peer;
  char members[64];
  idem_tool tool = {
      .name = "t", .task = IDEM_TASK_OPTIONAL, .fn = answer, .user = (void *)(uintptr_t)how};
  assert_int_equal(idem_server_add_tool(server, &tool, NULL, 0), IDEM_OK);
  mcp_peer_open_by(&peer, server, "2025-11-25", policy);
  const char *made = mcp_peer_ask(&peer, "tools/call", "\"name\":\"t\",\"task\":{}");
  const char *id = strstr(made, "\"taskId\":\"");
  assert_non_null(id);
  snprintf(members, sizeof members, "%.43s", id);
  mcp_peer_expect(&peer, "tasks/result", members, error);
  mcp_peer_close(&peer);
  idem_server_free(server);
}

static void an_errors_data_keeps_its_digits(void **state) {
  (void)state;
  expect_error(NULL, "digits",
               "\"error\":{\"code\":404,\"message\":\"Far away\",\"data\":" DIGITS "}");
}

static void an_applications_data_stay_however_little_idem_says(void **state) {
  (void)state;
  idem_policy terse = idem_policy_preset(IDEM_PROFILE_MCP);
  terse.error_detail = IDEM_ERROR_DETAIL_NONE;
  expect_error(
      &terse, "error",
      "\"error\":{\"code\":404,\"message\":\"No such book\",\"data\":{\"details\":\"shelf 3\"}}");
  expect_error(&terse, "params", "\"error\":{\"code\":-32602,\"message\":\"Invalid params\"}");
}

static void no_answer_fails_the_task(void **state) {
  (void)state;
  expect("drop", "\"status\":\"failed\"", "\"code\":-32603");
  expect("forget", "\"status\":\"failed\"", "\"code\":-32603");
}

/* A result that the store has no room for is not kept beside it. */
static void a_result_the_store_refuses_is_a_failure(void **state) {
  (void)state;
  idem__store *store;
  idem__store_memory_opts small = {.seed = 5, .max_bytes = 1000};
  assert_int_equal(idem__store_memory_new(&small, &store), IDEM_OK);
  char text[2048];
  outcome_in(store, "long", text, sizeof text);
  if (!strstr(text, "\"status\":\"failed\"") || !strstr(text, "no-room-for-the-result"))
    fail_msg("%s", text);
  idem__store_unref(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_result_completes_the_task),
      cmocka_unit_test(an_error_fails_the_task_with_that_error),
      cmocka_unit_test(an_errors_data_keeps_its_digits),
      cmocka_unit_test(an_applications_data_stay_however_little_idem_says),
      cmocka_unit_test(no_answer_fails_the_task),
      cmocka_unit_test(a_result_the_store_refuses_is_a_failure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
