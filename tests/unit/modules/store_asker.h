/* store_asker.h - asks a store that answers later and waits, and counts what its watchers hear. */
#ifndef IDEM_TEST_STORE_ASKER_H
#define IDEM_TEST_STORE_ASKER_H

#include "store/store.h"
#include "support/unit.h"

#include <sched.h>

typedef struct answered {
  _Atomic int times;
  idem__store_answer answer;
  char bytes[64];
} answered;

static inline void on_answer(const idem__store_answer *answer, void *user) {
  answered *self = user;
  self->answer = *answer;
  size_t len = answer->len < sizeof self->bytes - 1 ? answer->len : sizeof self->bytes - 1;
  if (len) memcpy(self->bytes, answer->bytes, len);
  self->bytes[len] = 0;
  atomic_fetch_add(&self->times, 1);
}

static inline idem__store_answer ask(idem__store *store, idem__store_op op, char *bytes) {
  answered self = {.times = 0};
  op.done = on_answer;
  op.user = &self;
  if (op.name && !op.name_len) op.name_len = strlen(op.name);
  idem__store_run(store, &op);
  while (!atomic_load(&self.times)) sched_yield();
  if (bytes) memcpy(bytes, self.bytes, sizeof self.bytes);
  return self.answer;
}

static inline idem__store_answer put(idem__store *store, const char *name, const char *text,
                                     uint64_t expect) {
  return ask(store,
             (idem__store_op){.verb = IDEM__STORE_PUT,
                              .name = name,
                              .bytes = text,
                              .len = strlen(text),
                              .expect = expect},
             NULL);
}

static inline idem__store_answer get(idem__store *store, const char *name, char *bytes) {
  return ask(store, (idem__store_op){.verb = IDEM__STORE_GET, .name = name}, bytes);
}

typedef struct heard {
  _Atomic unsigned puts, told;
} heard;

static inline void hear(const idem__store_change *change, void *user) {
  heard *all = user;
  if (change->event == IDEM__STORE_WAS_PUT) atomic_fetch_add(&all->puts, 1);
  if (change->event == IDEM__STORE_WAS_TOLD) atomic_fetch_add(&all->told, 1);
}

#endif
