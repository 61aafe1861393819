/* test_queue_threads.c - threads with queues of their own share a store that answers on yet another
 * thread: each hears its own answers, on itself, once; queues come and go meanwhile. */
#include "store/store.h"
#include "support/later_store.h"
#include "support/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { THREADS = 4, TURNS = 10, ASKED = 20 };

static idem__store *store;

typedef struct asker {
  pthread_t self;
  atomic_bool woken;
  unsigned asked, heard;
} asker;

static void hear(const idem__store_answer *answer, void *user) {
  asker *mine = user;
  assert_true(answer->status == IDEM_OK || answer->status == IDEM_E_CLOSED);
  assert_true(pthread_equal(mine->self, pthread_self()));
  mine->heard++;
}

static void wake(void *user) { atomic_store(&((asker *)user)->woken, true); }

/* Every other turn does not wait for the answers. */
static void take_turn(asker *mine, unsigned turn) {
  idem__store_queue *queue;
  idem__store_queue_opts opts = {.wake = wake, .user = mine};
  assert_int_equal(idem__store_queue_new(&opts, &queue), IDEM_OK);
  for (unsigned i = 0; i < ASKED; i++) {
    char name[16];
    idem__store_op op = {.verb = IDEM__STORE_PUT, .name = name, .bytes = "x", .len = 1};
    op.name_len = (size_t)snprintf(name, sizeof name, "%u", i);
    op.expect = IDEM__STORE_ANY;
    op.done = hear;
    op.user = mine;
    mine->asked++;
    idem__store_submit(store, queue, &op, NULL);
  }
  while (turn % 2 && mine->heard < mine->asked) {
    if (atomic_exchange(&mine->woken, false)) idem__store_queue_run(queue);
  }
  idem__store_queue_free(queue);
  assert_int_equal(mine->heard, mine->asked);
}

static void *ask(void *arg) {
  (void)arg;
  asker mine = {.self = pthread_self()};
  for (unsigned turn = 0; turn < TURNS; turn++) take_turn(&mine, turn);
  return NULL;
}

static void each_thread_hears_its_own_answers(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  idem__store *memory;
  idem__store_memory_opts opts = {.seed = 3};
  assert_int_equal(idem__store_memory_new(&opts, &memory), IDEM_OK);
  store = later_store_new(memory, &(later_store_opts){.seed = 9, .threaded = true});
  assert_non_null(store);
  for (size_t i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, ask, NULL), 0);
  for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  idem__store_unref(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_thread_hears_its_own_answers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
