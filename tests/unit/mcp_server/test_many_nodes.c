/* test_many_nodes.c - many servers that share a store and start one after another: each reads what the one that comes says of itself, and not
 * what all do. */
#include "mcp_server/server.h"
#include "mcp_server/worker.h"
#include "support/mcp_peer.h"
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

enum { NODES = 256 };

/* A store around another, which counts what it is asked for. */
typedef struct counting {
  idem__store head;
  idem__store *inner;
  size_t lists, items, gets;
  idem__store_each each;
  void *user;
} counting;

static bool count_item(const idem__store_item *item, void *user) {
  counting *self = user;
  self->items++;
  return self->each(item, self->user);
}

static void run(idem__store *head, const idem__store_op *op) {
  counting *self = IDEM_CONTAINER(head, counting, head);
  idem__store_op ours = *op;
  bool nodes = op->space == IDEM__STORE_NODES;
  self->gets += nodes && op->verb == IDEM__STORE_GET;
  if (!nodes || op->verb != IDEM__STORE_LIST) {
    idem__store_run(self->inner, op);
    return;
  }
  self->lists++;
  self->each = op->each;
  self->user = op->user;
  idem__store_answer answer = {.status = IDEM_E_SYS};
  ours.each = count_item;
  ours.user = self;
  ours.done = NULL;
  answer = idem__store_ask(self->inner, &ours, NULL);
  if (op->done) op->done(&answer, op->user);
}

static idem_status watch(idem__store *head, idem__store_space space, idem__store_watch_fn fn,
                         void *user, idem__store_watcher **out) {
  return idem__store_watch(IDEM_CONTAINER(head, counting, head)->inner, space, fn, user, out);
}

static void unwatch(idem__store *head, idem__store_watcher *watcher) {
  idem__store_unwatch(IDEM_CONTAINER(head, counting, head)->inner, watcher);
}

static void end(idem__store *head) {
  idem__store_unref(IDEM_CONTAINER(head, counting, head)->inner);
}

static const idem__store_kind counting_kind = {.name = "counting",
                                               .immediate = true,
                                               .run = run,
                                               .watch = watch,
                                               .unwatch = unwatch,
                                               .free = end};

static void nothing(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_tool_text(request, "", 0);
}

static void who_comes_is_read_by_each_and_all_by_nobody(void **state) {
  static idem_server *servers[NODES];
  static mcp_peer peers[NODES];
  counting self = {.head = {.kind = &counting_kind}};
  (void)state;
  atomic_init(&self.head.refs, 1);
  assert_int_equal(idem__store_memory_new(&(idem__store_memory_opts){0}, &self.inner), IDEM_OK);
  for (int i = 0; i < NODES; i++) {
    servers[i] = mcp_test_server(NULL);
    idem_tool tool = {.name = i % 2 ? "odd" : "even", .fn = nothing};
    assert_int_equal(idem_server_add_tool(servers[i], &tool, NULL, 0), IDEM_OK);
    assert_int_equal(idem__server_use_store(servers[i], &self.head), IDEM_OK);
    mcp_peer_open(&peers[i], servers[i], "2025-11-25");
    for (int j = 0; j <= i; j++) idem__worker_deliver(servers[j]->own_worker);
  }
  for (int i = 1; i < NODES; i++) /* who differs is known to */
    assert_non_null(strstr(mcp_peer_more(&peers[i - 1]), i < 2 ? "" : "list_changed"));
  printf("%d nodes: %zu lists, %zu items of them, %zu records by name\n", NODES, self.lists,
         self.items, self.gets);
  assert_in_range(self.gets, NODES / 2, NODES * NODES);
  assert_in_range(self.items, 0, 2 * NODES * NODES);
  for (int i = 0; i < NODES; i++) mcp_peer_close_with(&peers[i], servers[i]);
  idem__store_unref(&self.head);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(who_comes_is_read_by_each_and_all_by_nobody)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
