/* test_memory.c - the store in memory keeps the contract of stores, and is clean without memory. */
#include "support/fault_alloc.h"
#include "support/store_contract.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

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

/* ------------------------------------------------- more than is shown in one go */

#define ENTRIES 1000

typedef struct seen {
  uint64_t first, last;
  size_t count;
} seen;

static bool see(const idem__store_item *item, void *user) {
  seen *so_far = user;
  if (!so_far->count++) so_far->first = item->number;
  assert_true(item->number > so_far->last);
  so_far->last = item->number;
  return true;
}

/* Entries cost what they hold and as much again as one without bytes: so many fit. */
static void a_long_log_is_read_from_anywhere(void **state) {
  (void)state;
  idem__store *store = make(0);
  idem__store_op op = {.verb = IDEM__STORE_PUT, .name = "log", .name_len = 3, .bytes = "12345678"};
  op.len = 8;
  idem__store_ask(store, &op, NULL);
  op.verb = IDEM__STORE_APPEND;
  op.limit = (size_t)300 * 24;
  for (int i = 0; i < ENTRIES; i++) idem__store_ask(store, &op, NULL);
  for (uint64_t after = 0; after <= ENTRIES; after++) {
    seen found = {0};
    op = (idem__store_op){.verb = IDEM__STORE_READ, .name = "log", .name_len = 3, .after = after};
    op.each = see;
    op.user = &found;
    assert_int_equal(idem__store_ask(store, &op, NULL).number, ENTRIES);
    uint64_t first = after < ENTRIES - 300 ? ENTRIES - 300 + 1 : after + 1;
    assert_int_equal(found.count, ENTRIES + 1 - first);
    if (found.count) assert_true(found.first == first && found.last == ENTRIES);
  }
  idem__store_unref(store);
}

static void put_named(idem__store *store, unsigned number, const char *group) {
  char name[16];
  snprintf(name, sizeof name, "n%u", number);
  idem__store_op op = {.verb = IDEM__STORE_PUT, .name = name, .name_len = strlen(name)};
  op.bytes = "x";
  op.len = 1;
  op.group = group;
  assert_int_equal(idem__store_ask(store, &op, NULL).status, IDEM_OK);
}

/* Removes what it is shown, and the neighbours: what is still there is shown all the same. */
static bool see_and_remove(const idem__store_item *item, void *user) {
  idem__store *store = *(idem__store **)user;
  unsigned number = (unsigned)strtoul(item->name + 1, NULL, 10);
  for (unsigned i = number; i < number + 3; i++) {
    char name[16];
    snprintf(name, sizeof name, "n%u", i);
    idem__store_op op = {.verb = IDEM__STORE_REMOVE, .name = name, .name_len = strlen(name)};
    op.expect = IDEM__STORE_ANY;
    idem__store_ask(store, &op, NULL);
  }
  return true;
}

static void a_long_list_is_shown_while_records_go(void **state) {
  (void)state;
  idem__store *store = make(0);
  for (unsigned i = 0; i < ENTRIES * 3; i++) put_named(store, i, i % 3 ? "others" : "mine");
  idem__store_op op = {.verb = IDEM__STORE_LIST, .group = "mine"};
  seen found = {0};
  op.each = see;
  op.user = &found;
  assert_int_equal(idem__store_ask(store, &op, NULL).status, IDEM_OK);
  assert_int_equal(found.count, ENTRIES);
  op.each = see_and_remove;
  op.user = &store;
  idem__store_ask(store, &op, NULL);
  assert_int_equal(idem__store_memory_records(store, IDEM__STORE_SESSIONS), 0);
  assert_int_equal(idem__store_memory_bytes(store), 0);
  idem__store_unref(store);
}

int main(void) {
  const store_maker memory = {.name = "store.memory", .make = make};
  const struct CMUnitTest own[] = {cmocka_unit_test(every_allocation_may_fail),
                                   cmocka_unit_test(a_long_log_is_read_from_anywhere),
                                   cmocka_unit_test(a_long_list_is_shown_while_records_go)};
  int failed = store_contract_run(&memory);
  return failed + cmocka_run_group_tests(own, NULL, NULL);
}
