/* test_task_start.c - a request that could not become a task is a request as before: its handler answers
 * directly, and nothing of the task is left. */
#include "support/fault_alloc.h"
#include "support/mcp_peer.h"
#include "support/unit.h"

#include <string.h>

#define CALL                                                                                       \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\","            \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":{\"extensions\":{"                               \
  "\"io.modelcontextprotocol/tasks\":{}}}}}}\n"

typedef struct attempt {
  fault_alloc memory;
  size_t fail_in; /* which allocation of idem_task_start fails; 0: none */
  idem_status started, replied;
} attempt;

static void start_or_answer(idem_request *request, yyjson_val *arguments, void *user) {
  attempt *self = user;
  (void)arguments;
  fault_alloc_fail_in(&self->memory, self->fail_in);
  self->started = idem_task_start(request);
  fault_alloc_fail_in(&self->memory, 0);
  self->replied = idem_tool_text(request, "directly", 8);
}

static const char *call(mcp_peer *peer) {
  static const char line[] = CALL;
  assert_int_equal(idem_conn_feed(peer->conn, line, sizeof line - 1), IDEM_OK);
  return mcp_peer_more(peer);
}

/* Where it failed after the peer was told "Internal error" there is nobody to answer any more. */
static void check_fallback(const attempt *self, const char *answer) {
  bool told = self->replied != IDEM_OK;
  if (told) assert_int_equal(self->replied, IDEM_E_STATE);
  if (!strstr(answer, told ? "-32603" : "\"text\":\"directly\""))
    fail_msg("allocation %zu: %s", self->fail_in, answer);
}

/* True: nothing failed. */
static bool try_to_start(size_t fail_in) {
  attempt self = {.fail_in = fail_in};
  idem_server *server;
  mcp_peer peer;
  fault_alloc_init(&self.memory);
  idem_server_opts opts = {.alloc = &self.memory.alloc, .max_tasks = 1};
  assert_int_equal(mcp_test_server_try(&opts, &server), IDEM_OK);
  idem_tool tool = {.name = "t", .task = IDEM_TASK_BY_HAND, .fn = start_or_answer, .user = &self};
  assert_int_equal(idem_server_add_tool(server, &tool, NULL, 0), IDEM_OK);
  assert_true(mcp_peer_try_open(&peer, server, "2026-07-28", &self.memory.alloc));
  const char *answer = call(&peer);
  bool started = self.started == IDEM_OK;
  if (!started) {
    check_fallback(&self, answer);
    self.fail_in = 0; /* one task is all there may be: that of before left nothing */
    call(&peer);
    assert_int_equal(self.started, IDEM_OK);
  }
  mcp_peer_close(&peer);
  idem_server_free(server);
  fault_alloc_assert_clean(&self.memory);
  return started;
}

static void a_task_that_cannot_begin_leaves_a_request_to_answer(void **state) {
  (void)state;
  size_t failed = 0;
  while (!try_to_start(failed + 1)) failed++;
  assert_true(failed >= 5);
}

#define LISTEN(capabilities)                                                                       \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscriptions/listen\",\"params\":{"                 \
  "\"notifications\":{\"taskIds\":[\"x\"]},\"_meta\":{\"io.modelcontextprotocol/"                  \
  "protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":" capabilities  \
  "}}}\n"

static void listen_for(mcp_peer *peer, const char *line, const char *wanted) {
  assert_int_equal(idem_conn_feed(peer->conn, line, strlen(line)), IDEM_OK);
  const char *answer = mcp_peer_more(peer);
  if (!strstr(answer, wanted)) fail_msg("no %s in %s", wanted, answer);
}

/* Tasks extension, Task Status Notifications: a client that wants news of tasks and does not declare the extension MUST be told what it
 * lacks; one that does hears of which tasks, of none where the server has none. */
static void who_wants_news_of_tasks_has_declared_them_also_where_there_are_none(void **state) {
  (void)state;
  mcp_peer peer;
  idem_server *server = mcp_test_server(&(idem_server_opts){0});
  mcp_peer_open(&peer, server, "2026-07-28");
  listen_for(&peer, LISTEN("{}"),
             "\"code\":-32021,\"message\":\"Missing required client capability: "
             "{\\\"extensions\\\":{\\\"io.modelcontextprotocol/tasks\\\":{}}}\",\"data\":{"
             "\"requiredCapabilities\":{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}}");
  listen_for(&peer, LISTEN("{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}"),
             "subscriptions/acknowledged\",\"params\":{\"notifications\":{},");
  mcp_peer_close_with(&peer, server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_task_that_cannot_begin_leaves_a_request_to_answer),
      cmocka_unit_test(who_wants_news_of_tasks_has_declared_them_also_where_there_are_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
