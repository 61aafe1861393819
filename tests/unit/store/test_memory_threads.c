/* test_memory_threads.c - threads share the store in memory: no change is lost, versions order them,
 * whoever unwatches is not called again. */
#include "store/store.h"
#include "support/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, TURNS = 500 };

static idem__store *store;

static void take_number(const idem__store_answer *answer, void *user) {
  char text[24] = {0};
  uint64_t *pair = user;
  assert_in_range(answer->len, 1, sizeof text - 1);
  memcpy(text, answer->bytes, answer->len);
  pair[0] = strtoull(text, NULL, 10);
  pair[1] = answer->version;
}

/* Adds one to the number in a record, as often as it takes. */
static void increment(void) {
  for (idem_status status = IDEM_E_STATE; status != IDEM_OK;) {
    uint64_t pair[2] = {0, 0};
    idem__store_op op = {.verb = IDEM__STORE_GET, .name = "sum", .name_len = 3};
    op.done = take_number;
    op.user = pair;
    idem__store_run(store, &op);
    char text[24];
    int len = snprintf(text, sizeof text, "%llu", (unsigned long long)pair[0] + 1);
    op = (idem__store_op){.verb = IDEM__STORE_PUT, .name = "sum", .name_len = 3, .bytes = text};
    op.len = (size_t)len;
    op.expect = pair[1];
    status = idem__store_ask(store, &op, NULL).status;
    assert_true(status == IDEM_OK || status == IDEM_E_STATE);
  }
}

/* What a watcher points to is gone right after it was unwatched. */
static void hear(const idem__store_change *change, void *user) {
  (void)change;
  atomic_fetch_add((_Atomic unsigned *)user, 1);
}

static void watch_for_a_moment(void) {
  idem__store_watcher *watcher;
  _Atomic unsigned *heard = calloc(1, sizeof *heard);
  assert_non_null(heard);
  assert_int_equal(
      idem__store_watch(store, IDEM__STORE_SESSIONS, hear, (void *)(uintptr_t)heard, &watcher),
      IDEM_OK);
  increment();
  idem__store_unwatch(store, watcher);
  assert_true(atomic_load(heard) > 0);
  free((void *)(uintptr_t)heard);
}

/* Records that come, are logged to, read and expire under the eyes of the others. */
static bool look(const idem__store_item *item, void *user) {
  *(size_t *)user += item->len;
  return true;
}

static void come_and_go(unsigned turn) {
  char name[16];
  size_t bytes = 0;
  snprintf(name, sizeof name, "r%u", turn % 8);
  idem__store_op op = {.verb = IDEM__STORE_PUT, .name = name, .name_len = strlen(name)};
  op.bytes = name;
  op.len = op.name_len;
  op.expect = IDEM__STORE_ANY;
  op.ttl_ms = 3;
  op.now_ms = turn;
  op.group = "g";
  op.each = look;
  op.user = &bytes;
  static const idem__store_verb verbs[] = {IDEM__STORE_PUT,   IDEM__STORE_APPEND, IDEM__STORE_READ,
                                           IDEM__STORE_LIST,  IDEM__STORE_TOUCH,  IDEM__STORE_COUNT,
                                           IDEM__STORE_REMOVE};
  for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
    op.verb = verbs[i];
    op.limit = op.verb == IDEM__STORE_APPEND ? 256 : 0;
    idem__store_ask(store, &op, NULL);
  }
}

static void *work(void *arg) {
  (void)arg;
  for (unsigned i = 0; i < TURNS; i++) {
    increment();
    come_and_go(i);
    if (i % 16 == 0) watch_for_a_moment();
  }
  return NULL;
}

static void no_change_is_lost_between_threads(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  idem__store_memory_opts opts = {.seed = 3};
  assert_int_equal(idem__store_memory_new(&opts, &store), IDEM_OK);
  idem__store_op op = {.verb = IDEM__STORE_PUT, .name = "sum", .name_len = 3, .bytes = "0"};
  op.len = 1;
  assert_int_equal(idem__store_ask(store, &op, NULL).status, IDEM_OK);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, work, NULL), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  uint64_t pair[2];
  op = (idem__store_op){.verb = IDEM__STORE_GET, .name = "sum", .name_len = 3};
  op.done = take_number;
  op.user = pair;
  idem__store_run(store, &op);
  assert_int_equal(pair[0], THREADS * (TURNS + (TURNS + 15) / 16));
  idem__store_unref(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_change_is_lost_between_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
