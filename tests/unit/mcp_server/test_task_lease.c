/* test_task_lease.c - a task whose process died while it ran has failed, and says so: to who asks, to who waits, and in
 * lists. A node's record stands for the process. */
#include "support/mcp_peer.h"
#include "support/unit.h"

#include "mcp_server/mcp_server.h"

#include <string.h>

typedef struct pair {
  idem__store *store;
  idem_server *server[2];
  mcp_peer peer[2];
  idem_request *kept;
  char id[33];
} pair;

static void run(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments;
  ((pair *)user)->kept = request;
  idem_request_keep(request);
}

static void expect_in(const char *answer, const char *part) {
  if (!strstr(answer, part)) fail_msg("no %s in: %s", part, answer);
}

static void open_pair(pair *self) {
  memset(self, 0, sizeof *self);
  assert_int_equal(idem__store_memory_new(&(idem__store_memory_opts){0}, &self->store), IDEM_OK);
  for (int i = 0; i < 2; i++) {
    self->server[i] = mcp_test_server(NULL);
    assert_int_equal(idem__server_use_store(self->server[i], self->store), IDEM_OK);
    idem_tool tool = {.name = "t", .task = IDEM_TASK_OPTIONAL, .fn = run, .user = self};
    assert_int_equal(idem_server_add_tool(self->server[i], &tool, NULL, 0), IDEM_OK);
    mcp_peer_open(&self->peer[i], self->server[i], "2025-11-25");
  }
  const char *answer = mcp_peer_ask(&self->peer[0], "tools/call", "\"name\":\"t\",\"task\":{}");
  const char *id = strstr(answer, "\"taskId\":\"");
  assert_non_null(id);
  memcpy(self->id, id + strlen("\"taskId\":\""), 32);
}

static const char *ask(pair *self, int which, const char *method) {
  char members[64];
  snprintf(members, sizeof members, "\"taskId\":\"%s\"", self->id);
  return mcp_peer_ask(&self->peer[which], method, members);
}

static void kill_first(pair *self) {
  idem__store_op op = {.verb = IDEM__STORE_REMOVE,
                       .space = IDEM__STORE_NODES,
                       .name = self->server[0]->node.id,
                       .name_len = IDEM__NODE_ID,
                       .expect = IDEM__STORE_ANY};
  assert_int_equal(idem__store_ask(self->store, &op, NULL).status, IDEM_OK);
}

static void close_pair(pair *self) {
  mcp_peer_close(&self->peer[0]);
  mcp_peer_close(&self->peer[1]);
  idem_server_free(self->server[1]);
  idem__worker_free(self->server[0]->own_worker);
  self->server[0]->own_worker = NULL;
  idem_request_drop(self->kept);
  idem_server_free(self->server[0]);
  idem__store_unref(self->store);
}

static void who_asks_is_told_that_it_failed_and_why(void **state) {
  pair self;
  (void)state;
  open_pair(&self);
  expect_in(ask(&self, 1, "tasks/get"), "\"status\":\"working\"");
  kill_first(&self);
  const char *answer = ask(&self, 1, "tasks/get");
  expect_in(answer, "\"status\":\"failed\"");
  expect_in(answer, "\"statusMessage\":\"The process that ran this task has ended.\"");
  expect_in(ask(&self, 1, "tasks/result"), "\"reason\":\"process-ended\"");
  close_pair(&self);
}

static void nobody_has_to_have_looked_before(void **state) {
  pair self;
  (void)state;
  open_pair(&self);
  kill_first(&self);
  expect_in(ask(&self, 1, "tasks/get"), "\"status\":\"failed\"");
  close_pair(&self);
}

static void who_waits_for_the_result_hears_of_it(void **state) {
  pair self;
  (void)state;
  open_pair(&self);
  assert_string_equal(ask(&self, 1, "tasks/result"), "");
  kill_first(&self);
  idem__worker_deliver(self.server[1]->own_worker);
  expect_in(mcp_peer_more(&self.peer[1]), "\"reason\":\"process-ended\"");
  close_pair(&self);
}

/* Its news was lost: the nodes are looked at all the same, with every renewal while somebody waits. */
static void who_waits_hears_of_it_without_news(void **state) {
  pair self;
  (void)state;
  open_pair(&self);
  idem_server *server = self.server[1];
  assert_string_equal(ask(&self, 1, "tasks/result"), "");
  assert_int_equal(atomic_load(&server->node.awaited), 1);
  idem__store_unwatch(self.store, server->node_changes);
  server->node_changes = NULL;
  kill_first(&self);
  idem__worker_deliver(server->own_worker);
  assert_string_equal(mcp_peer_more(&self.peer[1]), "");
  atomic_store(&server->node.look, true);
  idem__worker_deliver(server->own_worker);
  expect_in(mcp_peer_more(&self.peer[1]), "\"reason\":\"process-ended\"");
  assert_int_equal(atomic_load(&server->node.awaited), 0);
  close_pair(&self);
}

static void an_answer_that_comes_too_late_changes_nothing(void **state) {
  pair self;
  (void)state;
  open_pair(&self);
  kill_first(&self);
  expect_in(ask(&self, 1, "tasks/get"), "\"status\":\"failed\"");
  idem_tool_text(self.kept, "late", 4);
  expect_in(ask(&self, 1, "tasks/get"), "\"status\":\"failed\"");
  mcp_peer_close(&self.peer[0]);
  mcp_peer_close(&self.peer[1]);
  for (int i = 0; i < 2; i++) idem_server_free(self.server[i]);
  idem__store_unref(self.store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_asks_is_told_that_it_failed_and_why),
      cmocka_unit_test(nobody_has_to_have_looked_before),
      cmocka_unit_test(who_waits_for_the_result_hears_of_it),
      cmocka_unit_test(who_waits_hears_of_it_without_news),
      cmocka_unit_test(an_answer_that_comes_too_late_changes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
