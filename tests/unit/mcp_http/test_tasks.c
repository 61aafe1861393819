/* test_tasks.c - tasks live in the store: another server that shares it shows them, cancels them,
 * answers their questions and waits for them, for their principal alone. */
#include "kept_call.h"
#include "mcp_server/task.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{},\"extensions\":{"            \
  "\"io.modelcontextprotocol/tasks\":{}}}}"

typedef struct pair {
  mcp_web owner, other;
  idem__store *store;
  kept_call call;
} pair;

static int open_pair(void **state) {
  static pair both;
  both = (pair){.call = {0}};
  both.store = mcp_web_store();
  mcp_web_open(&both.owner, &(mcp_web_opts){.store = both.store});
  mcp_web_open(&both.other, &(mcp_web_opts){.store = both.store});
  both.other.fixture->drawn = 100; /* its ids are its own */
  kept_call_at(&both.owner, &both.call);
  *state = &both;
  return 0;
}

static int close_pair(void **state) {
  pair *both = *state;
  mcp_web_close(&both->other);
  mcp_web_close(&both->owner);
  idem__store_unref(both->store);
  return 0;
}

/* A request of 2026-07-28 by a bearer of `token`; members are those of params before _meta. */
static char *ask(mcp_web *web, const char *token, const char *method, const char *name,
                 const char *members) {
  char headers[512], body[1024];
  snprintf(headers, sizeof headers,
           "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: %s\r\nMcp-Name: %s\r\n"
           "Authorization: Bearer %s\r\n",
           method, name, token);
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{%s," META "}}", method,
           members);
  return mcp_web_ask(web, "POST", "/mcp", headers, body);
}

/* Starts the tool as a task of alice's. */
static void start(pair *both, const char *tool, char id[IDEM__TASK_ID + 1]) {
  char members[128];
  snprintf(members, sizeof members, "\"name\":\"%s\",\"arguments\":{}", tool);
  char *answer = ask(&both->owner, "alice", "tools/call", tool, members);
  const char *at = strstr(answer, "\"taskId\":\"");
  assert_non_null(at);
  memcpy(id, at + 10, IDEM__TASK_ID);
  id[IDEM__TASK_ID] = '\0';
  free(answer);
}

static char *ask_task(mcp_web *web, const char *token, const char *method, const char *id,
                      const char *more) {
  char members[512];
  snprintf(members, sizeof members, "\"taskId\":\"%s\"%s", id, more);
  return ask(web, token, method, id, members);
}

static void a_task_is_seen_from_anywhere(void **state) {
  pair *both = *state;
  char id[IDEM__TASK_ID + 1];
  start(both, "job", id);
  mcp_web_expect(ask_task(&both->other, "alice", "tasks/get", id, ""), "\"status\":\"working\"");
  idem_task_status(both->call.request, "half way");
  mcp_web_deliver(&both->owner);
  mcp_web_expect(ask_task(&both->other, "alice", "tasks/get", id, ""),
                 "\"statusMessage\":\"half way\"");
  idem_tool_text(both->call.request, "12345678901234567890.10", 23);
  mcp_web_deliver(&both->owner);
  mcp_web_expect(ask_task(&both->other, "alice", "tasks/get", id, ""), "12345678901234567890.10");
  mcp_web_expect(ask_task(&both->other, "alice", "tasks/get", id, ""), "\"status\":\"completed\"");
}

static void nobody_else_can_use_a_task(void **state) {
  pair *both = *state;
  char id[IDEM__TASK_ID + 1];
  start(both, "job", id);
  mcp_web *const webs[] = {&both->owner, &both->other};
  for (int i = 0; i < 2; i++) {
    mcp_web_expect(ask_task(webs[i], "bob", "tasks/get", id, ""), "-32602");
    mcp_web_expect(ask_task(webs[i], "bob", "tasks/cancel", id, ""), "-32602");
    mcp_web_expect(ask_task(webs[i], "bob", "tasks/update", id, ",\"inputResponses\":{}"),
                   "-32602");
  }
  assert_int_equal(both->call.cancelled, 0);
  idem_tool_text(both->call.request, "x", 1);
}

static void a_task_cancelled_elsewhere_stops_its_handler(void **state) {
  pair *both = *state;
  char id[IDEM__TASK_ID + 1];
  start(both, "job", id);
  mcp_web_expect(ask_task(&both->other, "alice", "tasks/cancel", id, ""), "200 OK");
  mcp_web_deliver(&both->owner);
  assert_int_equal(both->call.cancelled, 1);
  mcp_web_expect(ask_task(&both->owner, "alice", "tasks/get", id, ""), "\"status\":\"cancelled\"");
}

/* ---------------------------------------------------------- what the store has not taken */

/* The other server asks through a store that answers when the test lets it. */
static void open_uneven(pair *both) {
  static const later_store_opts later = {.seed = 9};
  *both = (pair){.call = {0}};
  both->store = mcp_web_store();
  mcp_web_open(&both->owner, &(mcp_web_opts){.store = both->store});
  mcp_web_open(&both->other, &(mcp_web_opts){.store = both->store, .later = &later});
  both->other.fixture->drawn = 100;
  kept_call_at(&both->owner, &both->call);
}

static void close_uneven(pair *both) {
  mcp_web_close(&both->other);
  mcp_web_close(&both->owner);
  idem__store_unref(both->store);
}

/* Lets the other server hear of what it asked its store, and ask again. */
static void let_one_step(pair *both) {
  later_store_hold(both->other.later, false);
  assert_true(later_store_pump(both->other.later));
  later_store_hold(both->other.later, true);
}

/* What is asked of the store first: records of the task and of who owns it. */
#define READ_BEFORE_A_CHANGE 2

/* Asks the other server to cancel the task, as far as having read its record and that of its owner, who lives. */
static void begin_cancelling(pair *both, const char *id, mcp_web_conn *conn) {
  char headers[256], body[512];
  snprintf(headers, sizeof headers,
           "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tasks/cancel\r\nMcp-Name: %s\r\n"
           "Authorization: Bearer alice\r\n",
           id);
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tasks/cancel\",\"params\":{\"taskId\":"
           "\"%s\"," META "}}",
           id);
  mcp_web_deliver(
      &both->other); /* what a node asks of itself is over: the steps below are the request's */
  later_store_hold(both->other.later, true);
  mcp_web_connect(&both->other, conn);
  mcp_web_send(conn, "POST", "/mcp", headers, body);
  let_one_step(both);
  for (int asked = 1; asked < READ_BEFORE_A_CHANGE; asked++) {
    mcp_web_settle(conn);
    let_one_step(both);
  }
}

static void a_cancellation_that_is_not_kept_is_not_acknowledged(void **state) {
  (void)state;
  static pair both;
  mcp_web_conn conn;
  char id[IDEM__TASK_ID + 1];
  open_uneven(&both);
  start(&both, "job", id);
  begin_cancelling(&both, id, &conn);
  later_store_fail(both.other.later, IDEM_E_SYS);
  mcp_web_settle(&conn);
  assert_int_equal(conn.len, 0);
  later_store_hold(both.other.later, false);
  mcp_web_settle(&conn);
  assert_non_null(strstr(conn.output, "503 Service Unavailable"));
  mcp_web_disconnect(&conn);
  later_store_fail(both.other.later, IDEM_OK);
  mcp_web_deliver(&both.owner);
  assert_int_equal(both.call.cancelled, 0);
  mcp_web_expect(ask_task(&both.other, "alice", "tasks/get", id, ""), "\"status\":\"working\"");
  mcp_web_expect(ask_task(&both.other, "alice", "tasks/cancel", id, ""), "200 OK");
  mcp_web_deliver(&both.owner);
  assert_int_equal(both.call.cancelled, 1);
  close_uneven(&both);
}

static void a_cancellation_is_not_lost_to_a_change_of_the_owner(void **state) {
  (void)state;
  static pair both;
  mcp_web_conn conn;
  char id[IDEM__TASK_ID + 1];
  open_uneven(&both);
  start(&both, "job", id);
  begin_cancelling(&both, id, &conn);
  mcp_web_settle(&conn); /* what is to be written is on its way */
  idem_task_status(both.call.request, "half way");
  mcp_web_deliver(&both.owner);
  later_store_hold(both.other.later, false);
  mcp_web_settle(&conn);
  assert_non_null(strstr(conn.output, "200 OK"));
  mcp_web_disconnect(&conn);
  mcp_web_deliver(&both.owner);
  assert_int_equal(both.call.cancelled, 1);
  mcp_web_expect(ask_task(&both.owner, "alice", "tasks/get", id, ""), "\"status\":\"cancelled\"");
  close_uneven(&both);
}

/* Who goes while its change is on its way is not answered; what was asked may happen. */
static void who_waits_for_a_change_to_be_kept_may_go(void **state) {
  (void)state;
  static pair both;
  mcp_web_conn conn;
  char id[IDEM__TASK_ID + 1];
  open_uneven(&both);
  start(&both, "job", id);
  begin_cancelling(&both, id, &conn);
  mcp_web_settle(&conn);
  mcp_web_disconnect(&conn);
  later_store_hold(both.other.later, false);
  mcp_web_deliver(&both.other);
  mcp_web_deliver(&both.owner);
  assert_int_equal(both.call.cancelled, 1);
  close_uneven(&both);
}

static void a_question_answered_elsewhere_wakes_its_handler(void **state) {
  pair *both = *state;
  char id[IDEM__TASK_ID + 1];
  start(both, "job_ask", id);
  mcp_web_expect(ask_task(&both->other, "alice", "tasks/get", id, ""), "\"who\":{\"method\"");
  mcp_web_expect(
      ask_task(&both->other, "alice", "tasks/update", id,
               ",\"inputResponses\":{\"who\":{\"action\":\"accept\",\"content\":{\"name\":"
               "\"Ann\"}}}"),
      "200 OK");
  mcp_web_deliver(&both->owner);
  mcp_web_expect(ask_task(&both->other, "alice", "tasks/get", id, ""), "\"status\":\"completed\"");
  mcp_web_expect(ask_task(&both->owner, "alice", "tasks/get", id, ""), "Ann");
}

static void whoever_ends_a_task_first_is_right(void **state) {
  pair *both = *state;
  char id[IDEM__TASK_ID + 1];
  start(both, "job", id);
  mcp_web_expect(ask_task(&both->other, "alice", "tasks/cancel", id, ""), "200 OK");
  /* The handler answers before it hears of that. */
  idem_request *kept = both->call.request;
  idem_tool_text(kept, "too late", 8);
  mcp_web_deliver(&both->owner);
  mcp_web_expect(ask_task(&both->owner, "alice", "tasks/get", id, ""), "\"status\":\"cancelled\"");
  mcp_web_expect(ask_task(&both->other, "alice", "tasks/get", id, ""), "\"status\":\"cancelled\"");
}

static void who_listens_elsewhere_is_told(void **state) {
  pair *both = *state;
  mcp_web_conn listener;
  char id[IDEM__TASK_ID + 1], body[1024];
  start(both, "job", id);
  mcp_web_connect(&both->other, &listener);
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"subscriptions/listen\",\"params\":{"
           "\"notifications\":{\"taskIds\":[\"%s\"]}," META "}}",
           id);
  mcp_web_send(&listener, "POST", "/mcp",
               "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n"
               "Authorization: Bearer alice\r\n",
               body);
  assert_non_null(strstr(listener.output, "acknowledged"));
  idem_tool_text(both->call.request, "heard", 5);
  mcp_web_deliver(&both->owner);
  mcp_web_settle(&listener);
  assert_non_null(strstr(listener.output, "notifications/tasks"));
  assert_non_null(strstr(listener.output, "heard"));
  mcp_web_disconnect(&listener);
}

/* Their memory goes with whatever is asked of tasks next, a few with each, so that nobody waits for all. */
static void tasks_whose_time_is_over_go_a_few_at_a_time(void **state) {
  (void)state;
  enum { TASKS = 200 };
  static pair both;
  fault_alloc fault;
  char id[IDEM__TASK_ID + 1];
  fault_alloc_init(&fault);
  mcp_web_open(&both.owner,
               &(mcp_web_opts){.server = {.alloc = &fault.alloc, .task_ttl_ms = 1000}});
  kept_call_at(&both.owner, &both.call);
  size_t blocks[8];
  for (int i = 0; i < TASKS; i++) {
    start(&both, "job", id);
    idem_tool_text(both.call.request, "done", 4);
    mcp_web_deliver(&both.owner);
  }
  both.owner.fixture->wall_ms += 5000;
  for (int i = 0; i < 8; i++) {
    mcp_web_expect(ask_task(&both.owner, "alice", "tasks/get", id, ""), "\"error\"");
    blocks[i] = fault.live_blocks;
  }
  assert_true(blocks[0] > blocks[1] && blocks[1] > blocks[2]);
  assert_true(blocks[0] - blocks[2] < TASKS * 3);
  assert_int_equal(blocks[6], blocks[7]);
  assert_true(blocks[0] - blocks[7] > TASKS - 64);
  mcp_web_close(&both.owner);
  fault_alloc_assert_clean(&fault);
}

int main(void) {
#define PROMISE(name) cmocka_unit_test_setup_teardown(name, open_pair, close_pair)
  const struct CMUnitTest tests[] = {
      PROMISE(a_task_is_seen_from_anywhere),
      PROMISE(nobody_else_can_use_a_task),
      PROMISE(a_task_cancelled_elsewhere_stops_its_handler),
      PROMISE(a_question_answered_elsewhere_wakes_its_handler),
      PROMISE(whoever_ends_a_task_first_is_right),
      PROMISE(who_listens_elsewhere_is_told),
      cmocka_unit_test(a_cancellation_that_is_not_kept_is_not_acknowledged),
      cmocka_unit_test(a_cancellation_is_not_lost_to_a_change_of_the_owner),
      cmocka_unit_test(who_waits_for_a_change_to_be_kept_may_go),
      cmocka_unit_test(tasks_whose_time_is_over_go_a_few_at_a_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
