/* test_workers.c - a loop may end while handlers still work for it: what they hold stays good, and
 * their answers go nowhere. */
#include "support/mcp_peer.h"
#include "support/unit.h"

#include "mcp_server/mcp_server.h"

#define META(capabilities)                                                                         \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":" capabilities "}"
#define CALL(capabilities)                                                                         \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"keep\"," META(   \
      capabilities) "}}\n"
#define TASKS "{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}"

static idem_request *kept;
static unsigned cancelled;

static void on_cancelled(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)request;
  (void)user;
  assert_int_equal(reason, IDEM_CANCEL_CLOSED);
  cancelled++;
}

static void keep(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments;
  (void)user;
  kept = request;
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancelled, NULL);
}

static void wake(idem__mcp_worker *hub, void *user) {
  (void)hub;
  (void)user;
}

/* A call is kept, then its conn and its hub go. */
static idem_server *outlive(const char *call) {
  idem_server *server = mcp_test_server(NULL);
  idem__mcp_worker *hub;
  idem_conn *conn;
  idem_tool tool = {.name = "keep", .task = IDEM_TASK_OPTIONAL, .fn = keep};
  assert_int_equal(idem_server_add_tool(server, &tool, NULL, 0), IDEM_OK);
  assert_int_equal(idem__worker_new(server, wake, NULL, &hub), IDEM_OK);
  assert_int_equal(idem__worker_accept(hub, &(idem_conn_opts){0}, NULL, &conn), IDEM_OK);
  kept = NULL;
  cancelled = 0;
  assert_int_equal(idem_conn_feed(conn, call, strlen(call)), IDEM_OK);
  assert_non_null(kept);
  idem_conn_free(conn);
  idem__worker_free(hub);
  assert_int_equal(cancelled, 1);
  return server;
}

static void a_request_may_outlive_its_hub(void **state) {
  (void)state;
  idem_server *server = outlive(CALL("{}"));
  assert_int_equal(idem_tool_text(kept, "late", 4), IDEM_E_CLOSED);
  idem_server_free(server);
}

static void a_task_may_outlive_its_hub(void **state) {
  (void)state;
  idem_server *server = outlive(CALL(TASKS));
  idem_task_status(kept, "nearly there");
  idem_progress(kept, 1, 2, "half");
  idem_tool_text(kept, "late", 4);
  idem_server_free(server);
}

static void a_dropped_task_may_outlive_its_hub(void **state) {
  (void)state;
  idem_server *server = outlive(CALL(TASKS));
  idem_request_drop(kept);
  idem_server_free(server);
}

/* A hub's own thread would deliver these; here they are only counted. */
static uint32_t changes(idem__mcp_worker *hub) { return atomic_exchange(&hub->changed, 0); }

static idem_server *with_tool(const char *description, void *user) {
  idem_server *server = mcp_test_server(NULL);
  idem_tool tool = {.name = "keep", .description = description, .fn = keep, .user = user};
  assert_int_equal(idem_server_add_tool(server, &tool, NULL, 0), IDEM_OK);
  return server;
}

static void only_lists_that_differ_are_told_of_when_all_is_replaced(void **state) {
  (void)state;
  idem__mcp_worker *hub;
  int other;
  idem_server *server = with_tool("one", NULL);
  assert_int_equal(idem__worker_new(server, wake, NULL, &hub), IDEM_OK);
  idem_server *same = with_tool("one", &other), *changed = with_tool("two", NULL);
  idem_server_replace(server, same);
  assert_int_equal(changes(hub), 0);
  idem__worker_lists *view = idem__worker_snapshot(hub);
  assert_ptr_equal(idem__registry_tool(view->registry, "keep", 4)->head.user, &other);
  idem_server_replace(server, changed);
  assert_int_equal(changes(hub), 1u << IDEM__TOOLS);
  idem_server_free(same);
  idem_server_free(changed);
  assert_ptr_equal(idem__registry_tool(view->registry, "keep", 4)->head.user, &other);
  idem__worker_lists_unref(view);
  idem__worker_free(hub);
  idem_server_free(server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_request_may_outlive_its_hub),
      cmocka_unit_test(a_task_may_outlive_its_hub),
      cmocka_unit_test(a_dropped_task_may_outlive_its_hub),
      cmocka_unit_test(only_lists_that_differ_are_told_of_when_all_is_replaced),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
