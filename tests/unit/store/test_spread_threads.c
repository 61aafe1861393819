/* test_spread_threads.c - many threads use one spread store, whose parts answer later on threads of their own: each list is whole and in
 * order while records come and go, and every operation ends once. Also runs under the thread sanitizer. */
#include "support/later_store.h"
#include "support/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4
#define ROUNDS 60
#define PARTS 3

static idem__store *store;
static _Atomic unsigned open_ops, heard;
static _Atomic uint64_t ticks;

typedef struct listing {
  uint64_t last;
  unsigned lasting;
  _Atomic bool done;
} listing;

static bool see(const idem__store_item *item, void *user) {
  listing *self = user;
  assert_true(item->number > self->last);
  self->last = item->number;
  self->lasting += item->name_len && *item->name == 's';
  return true;
}

static void on_listed(const idem__store_answer *answer, void *user) {
  assert_int_equal(answer->status, IDEM_OK);
  atomic_store(&((listing *)user)->done, true);
}

static void on_done(const idem__store_answer *answer, void *user) {
  (void)answer, (void)user;
  atomic_fetch_sub(&open_ops, 1);
}

static void run(idem__store_verb verb, const char *name) {
  idem__store_op op = {.verb = verb, .name = name, .name_len = strlen(name), .done = on_done};
  op.expect = IDEM__STORE_ANY;
  atomic_fetch_add(&open_ops, 1);
  idem__store_run(store, &op);
}

static void hear(const idem__store_change *change, void *user) {
  (void)change, (void)user;
  atomic_fetch_add(&heard, 1);
}

static void *work(void *arg) {
  char name[32];
  for (int i = 0; i < ROUNDS; i++) {
    listing all = {.last = 0};
    snprintf(name, sizeof name, "t%d-%d", *(int *)arg, i);
    run(IDEM__STORE_PUT, name);
    run(IDEM__STORE_GET, name);
    idem__store_op list = {.verb = IDEM__STORE_LIST, .each = see, .done = on_listed, .user = &all};
    idem__store_run(store, &list);
    run(IDEM__STORE_REMOVE, name);
    while (!atomic_load(&all.done)) sched_yield();
    assert_int_equal(all.lasting, 10); /* those that stay are in every list */
  }
  return NULL;
}

static void threads_share_a_store_of_parts(void **state) {
  idem__store *parts[PARTS];
  idem__store_watcher *watcher;
  pthread_t threads[THREADS];
  int numbers[THREADS];
  char name[32];
  (void)state;
  for (unsigned i = 0; i < PARTS; i++) {
    idem__store_memory_opts opts = {.seed = i, .clock = &ticks};
    assert_int_equal(idem__store_memory_new(&opts, &parts[i]), IDEM_OK);
    parts[i] = later_store_new(parts[i], &(later_store_opts){.seed = i + 1, .threaded = true});
  }
  idem__store_spread_opts opts = {.parts = parts, .count = PARTS};
  assert_int_equal(idem__store_spread_new(&opts, &store), IDEM_OK);
  assert_int_equal(idem__store_watch(store, IDEM__STORE_SESSIONS, hear, NULL, &watcher), IDEM_OK);
  for (int i = 0; i < 10; i++) {
    snprintf(name, sizeof name, "stays%d", i);
    run(IDEM__STORE_PUT, name);
  }
  while (atomic_load(&open_ops)) sched_yield();
  for (int i = 0; i < THREADS; i++) {
    numbers[i] = i;
    assert_int_equal(pthread_create(&threads[i], NULL, work, &numbers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  while (atomic_load(&open_ops)) sched_yield();
  assert_int_equal(heard, 10 + 2 * THREADS * ROUNDS);
  idem__store_unwatch(store, watcher);
  idem__store_unref(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(threads_share_a_store_of_parts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
