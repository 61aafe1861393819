/* test_task_rounds.c - a task that asks more than once: an answer belongs to the round that asked, also
 * when the handler asks for the same again and the answer comes late. */
#include "support/mcp_peer.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define TASK "\"taskId\":\"07070707070707070707070707070707\""
#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{},\"extensions\":{"            \
  "\"io.modelcontextprotocol/tasks\":{}}}}"
#define HELLO                                                                                      \
  "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"       \
  "\"2025-11-25\",\"capabilities\":{\"elicitation\":{}},"                                          \
  "\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}\n"
#define ACCEPT(name) "{\"action\":\"accept\",\"content\":{\"name\":\"" name "\"}}"

/* Asks for a name as often as its user says, each time under the same key; says the last one. */
static void ask_again(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments;
  const char *key = user;
  size_t rounds = 0;
  idem_state(request, &rounds);
  if (rounds < 2) {
    idem_ask ask = {.key = key, .kind = IDEM_ASK_FORM, .message = "Who?"};
    idem_needs_input(request, &ask, 1, "..", rounds + 1);
    return;
  }
  yyjson_val *content = yyjson_obj_get(idem_answer_to(request, key), "content");
  const char *name = yyjson_get_str(yyjson_obj_get(content, "name"));
  idem_tool_text(request, name ? name : "nobody", name ? strlen(name) : 6);
}

static idem_server *new_server(const char *key) {
  idem_server *server = mcp_test_server(NULL);
  idem_tool tool = {
      .name = "t", .task = IDEM_TASK_OPTIONAL, .fn = ask_again, .user = (void *)(uintptr_t)key};
  assert_int_equal(idem_server_add_tool(server, &tool, NULL, 0), IDEM_OK);
  return server;
}

static const char *send_line(mcp_peer *peer, const char *line) {
  assert_int_equal(idem_conn_feed(peer->conn, line, strlen(line)), IDEM_OK);
  return mcp_peer_more(peer);
}

static void expect(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("no %s in %s", part, text);
}

static void expect_task(mcp_peer *peer, const char *part) {
  expect(send_line(peer, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tasks/get\",\"params\":{" TASK
                         "," META "}}\n"),
         part);
}

static void update(mcp_peer *peer, const char *responses) {
  char line[1024];
  snprintf(line, sizeof line,
           "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tasks/update\",\"params\":{" TASK
           ",\"inputResponses\":%s," META "}}\n",
           responses);
  expect(send_line(peer, line), "\"result\":");
}

static void start(mcp_peer *peer, idem_server *server) {
  mcp_peer_open(peer, server, "2026-07-28");
  expect(send_line(peer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{"
                         "\"name\":\"t\"," META "}}\n"),
         TASK);
}

static void a_late_answer_is_not_taken_for_the_next_round(void **state) {
  (void)state;
  mcp_peer peer;
  idem_server *server = new_server("who");
  start(&peer, server);
  expect_task(&peer, "\"inputRequests\":{\"who\":{");
  update(&peer, "{\"who\":" ACCEPT("first") "}");
  expect_task(&peer, "\"inputRequests\":{\"who#2\":{"); /* a client shows each key once */
  update(&peer, "{\"who\":" ACCEPT("late") "}");
  expect_task(&peer, "\"status\":\"input_required\"");
  update(&peer, "{\"who#2\":" ACCEPT("second") "}");
  expect_task(&peer, "\"text\":\"second\"");
  mcp_peer_close_with(&peer, server);
}

/* What a handler calls its questions cannot make two rounds share a name. */
static void no_key_gives_two_rounds_the_same_name(void **state) {
  (void)state;
  mcp_peer peer;
  idem_server *server = new_server("who#2");
  start(&peer, server);
  expect_task(&peer, "\"inputRequests\":{\"who#2#1\":{");
  update(&peer, "{\"who#2#1\":" ACCEPT("first") "}");
  expect_task(&peer, "\"inputRequests\":{\"who#2#2\":{");
  update(&peer, "{\"who#2\":" ACCEPT("late") ",\"who#2#1\":" ACCEPT("late") "}");
  expect_task(&peer, "\"status\":\"input_required\"");
  update(&peer, "{\"who#2#2\":" ACCEPT("second") "}");
  expect_task(&peer, "\"text\":\"second\"");
  mcp_peer_close_with(&peer, server);
}

/* The id of the question in a line of the server's, from "id": on. */
static void question_id(const char *text, char id[32]) {
  expect(text, "\"method\":\"elicitation/create\"");
  const char *at = strstr(text, "\"id\":");
  assert_non_null(at);
  snprintf(id, 32, "%.*s", (int)strcspn(at + 5, ",}"), at + 5);
}

static const char *respond(mcp_peer *peer, const char *id, const char *result) {
  char line[512];
  snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", id, result);
  return send_line(peer, line);
}

/* 2025-11-25 asks by requests. Somebody else answers the first one; its own answer comes when the second
 * is being asked. */
static void a_late_response_is_not_taken_for_the_next_round(void **state) {
  (void)state;
  mcp_peer waiter, other;
  char first[32], second[32];
  idem_server *server = new_server("who");
  mcp_peer_open(&waiter, server, "2026-07-28");
  mcp_peer_open(&other, server, "2026-07-28");
  expect(send_line(&waiter, HELLO), "\"protocolVersion\":\"2025-11-25\"");
  send_line(&waiter, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
  expect(send_line(&waiter, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{"
                            "\"name\":\"t\",\"task\":{}}}\n"),
         TASK);
  question_id(send_line(&waiter, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tasks/result\","
                                 "\"params\":{" TASK "}}\n"),
              first);
  update(&other, "{\"who\":" ACCEPT("other") "}");
  question_id(mcp_peer_more(&waiter), second);
  assert_string_not_equal(first, second);
  assert_string_equal(respond(&waiter, first, ACCEPT("late")), "");
  expect_task(&other, "\"status\":\"input_required\"");
  expect(respond(&waiter, second, ACCEPT("second")), "\"text\":\"second\"");
  mcp_peer_close(&other);
  mcp_peer_close_with(&waiter, server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_late_answer_is_not_taken_for_the_next_round),
      cmocka_unit_test(no_key_gives_two_rounds_the_same_name),
      cmocka_unit_test(a_late_response_is_not_taken_for_the_next_round),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
