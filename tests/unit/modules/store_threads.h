/* store_threads.h - many threads change one record of a store by its version, while others come to watch and go: no change is
 * lost, and who has gone is told nothing. */
#ifndef IDEM_TEST_STORE_THREADS_H
#define IDEM_TEST_STORE_THREADS_H

#include "store/store.h"
#include "support/unit.h"

#include <pthread.h>
#include <sched.h>

#define THREADS 4
#define CHANGES 50

typedef struct answered {
  _Atomic bool there;
  idem__store_answer answer;
  unsigned value;
} answered;

static inline void on_answer(const idem__store_answer *answer, void *user) {
  answered *self = user;
  self->answer = *answer;
  if (answer->len == sizeof self->value) memcpy(&self->value, answer->bytes, answer->len);
  atomic_store(&self->there, true);
}

static inline answered ask(idem__store *store, idem__store_op op) {
  answered self = {.there = false};
  op.name = "counter";
  op.name_len = 7;
  op.done = on_answer;
  op.user = &self;
  idem__store_run(store, &op);
  while (!atomic_load(&self.there)) sched_yield();
  return self;
}

static inline bool add_one(idem__store *store) {
  answered now = ask(store, (idem__store_op){.verb = IDEM__STORE_GET});
  unsigned next = now.value + 1;
  answered put = ask(store, (idem__store_op){.verb = IDEM__STORE_PUT,
                                             .bytes = &next,
                                             .len = sizeof next,
                                             .expect = now.answer.version});
  return put.answer.status == IDEM_OK;
}

static inline void *change(void *user) {
  for (int i = 0; i < CHANGES; i++)
    while (!add_one(user)) continue;
  return NULL;
}

static inline void hear(const idem__store_change *change, void *user) {
  (void)change;
  *(unsigned *)user += 1; /* on one thread at a time, and never when unwatch has returned */
}

static inline void *come_and_go(void *user) {
  for (int i = 0; i < CHANGES; i++) {
    unsigned told = 0;
    idem__store_watcher *watcher;
    if (idem__store_watch(user, IDEM__STORE_SESSIONS, hear, &told, &watcher) != IDEM_OK) continue;
    ask(user, (idem__store_op){.verb = IDEM__STORE_TELL});
    idem__store_unwatch(user, watcher);
  }
  return NULL;
}

static inline void expect_no_change_lost(idem__store *store) {
  pthread_t threads[THREADS + 1];
  unsigned none = 0;
  ask(store, (idem__store_op){.verb = IDEM__STORE_PUT, .bytes = &none, .len = sizeof none});
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, change, store), 0);
  assert_int_equal(pthread_create(&threads[THREADS], NULL, come_and_go, store), 0);
  for (int i = 0; i <= THREADS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(ask(store, (idem__store_op){.verb = IDEM__STORE_GET}).value, THREADS * CHANGES);
}

#endif
