/* test_memory.c - the store in memory keeps the contract of stores, and is clean without memory. */
#include "support/fault_alloc.h"
#include "support/store_contract.h"
#include "support/unit.h"

static idem__store *make(size_t max_bytes) {
  idem__store *store;
  idem__store_memory_opts opts = {.max_bytes = max_bytes, .seed = 7};
  return idem__store_memory_new(&opts, &store) == IDEM_OK ? store : NULL;
}

static bool look(const idem__store_item *item, void *user) {
  (void)item, (void)user;
  return true;
}

static void hear(const idem__store_change *change, void *user) { (void)change, (void)user; }

/* A bit of everything; any status will do, but nothing may leak or be counted wrongly. */
static void use(fault_alloc *fault, void *user) {
  (void)user;
  idem__store *store;
  idem__store_watcher *watcher;
  idem__store_memory_opts opts = {.seed = 7, .alloc = &fault->alloc};
  if (idem__store_memory_new(&opts, &store) != IDEM_OK) return;
  if (idem__store_watch(store, IDEM__STORE_TASKS, hear, NULL, &watcher) != IDEM_OK) watcher = NULL;
  idem__store_op op = {.space = IDEM__STORE_TASKS, .name = "task", .name_len = 4, .bytes = "value"};
  op.len = 5;
  op.group = "me";
  op.expect = IDEM__STORE_ANY;
  op.ttl_ms = 10;
  op.each = look;
  static const idem__store_verb verbs[] = {IDEM__STORE_PUT,  IDEM__STORE_APPEND, IDEM__STORE_PUT,
                                           IDEM__STORE_READ, IDEM__STORE_LIST,   IDEM__STORE_GET};
  for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
    op.verb = verbs[i];
    idem__store_ask(store, &op, NULL);
  }
  op.now_ms = 100;
  op.verb = IDEM__STORE_GET;
  idem__store_ask(store, &op, NULL);
  assert_int_equal(idem__store_memory_records(store, IDEM__STORE_TASKS), 0);
  assert_int_equal(idem__store_memory_bytes(store), 0);
  idem__store_unwatch(store, watcher);
  idem__store_unref(store);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(use, NULL, 100) > 5);
}

int main(void) {
  const store_maker memory = {.name = "store.memory", .make = make};
  const struct CMUnitTest own[] = {cmocka_unit_test(every_allocation_may_fail)};
  int failed = store_contract_run(&memory);
  return failed + cmocka_run_group_tests(own, NULL, NULL);
}
