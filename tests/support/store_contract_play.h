/* store_contract_play.h - how the promises of stores ask one: an operation at a time, waited for. */
#ifndef IDEM_TEST_STORE_CONTRACT_PLAY_H
#define IDEM_TEST_STORE_CONTRACT_PLAY_H

#include "support/store_contract.h"
#include "support/unit.h"

#include <stdio.h>

static const store_maker *maker;
static uint64_t now_ms;
static idem__store_queue *queue;

typedef struct told {
  unsigned count[IDEM__STORE_WAS_TOLD + 1];
  char name[64];
  uint64_t version;
} told;

typedef struct reply {
  idem__store_answer answer;
  char bytes[256];
  unsigned times;
} reply;

/* An operation that is waited for, and who looks at its items. */
typedef struct waited {
  reply got;
  idem__store_each each;
  void *user;
} waited;

static inline void on_done(const idem__store_answer *answer, void *user) {
  reply *got = &((waited *)user)->got;
  got->times++;
  got->answer = *answer;
  assert_true(answer->len < sizeof got->bytes);
  if (answer->len) memcpy(got->bytes, answer->bytes, answer->len);
  got->bytes[answer->len] = '\0';
}

static inline bool on_item(const idem__store_item *item, void *user) {
  const waited *one = user;
  return one->each(item, one->user);
}

static inline reply run(idem__store *store, idem__store_op op) {
  waited one = {.each = op.each, .user = op.user};
  if (op.name && !op.name_len) op.name_len = strlen(op.name);
  op.now_ms = now_ms;
  op.done = on_done;
  op.each = op.each ? on_item : NULL;
  op.user = &one;
  idem__store_submit(store, queue, &op, NULL);
  while (!one.got.times && maker->pump) {
    maker->pump(store);
    idem__store_queue_run(queue);
  }
  assert_int_equal(one.got.times, 1);
  return one.got;
}

static inline void pass(idem__store *store, uint64_t ms) {
  now_ms += ms;
  if (maker->pass) maker->pass(store, ms);
}

static inline reply put(idem__store *store, const char *name, const char *text, uint64_t expect) {
  return run(store, (idem__store_op){.verb = IDEM__STORE_PUT,
                                     .name = name,
                                     .bytes = text,
                                     .len = strlen(text),
                                     .expect = expect});
}

static inline reply get(idem__store *store, const char *name) {
  return run(store, (idem__store_op){.verb = IDEM__STORE_GET, .name = name});
}

static inline reply append(idem__store *store, const char *name, const char *text, size_t limit) {
  return run(store, (idem__store_op){.verb = IDEM__STORE_APPEND,
                                     .name = name,
                                     .bytes = text,
                                     .len = strlen(text),
                                     .limit = limit});
}

static inline void put_for(idem__store *store, const char *name, uint64_t ttl_ms) {
  reply made =
      run(store,
          (idem__store_op){
              .verb = IDEM__STORE_PUT, .name = name, .expect = IDEM__STORE_ANY, .ttl_ms = ttl_ms});
  assert_int_equal(made.answer.status, IDEM_OK);
}

static inline void ignore_wake(void *user) { (void)user; }

static inline int make_store(void **state) {
  now_ms = 1000;
  *state = maker->make(0);
  if (idem__store_queue_new(&(idem__store_queue_opts){.wake = ignore_wake}, &queue) != IDEM_OK)
    return -1;
  return *state ? 0 : -1;
}

static inline int free_store(void **state) {
  idem__store_unref(*state);
  idem__store_queue_free(queue);
  return 0;
}

#define PROMISE(name) cmocka_unit_test_setup_teardown(name, make_store, free_store)

/* store_contract_told.c: logs, lists, and who is told of what. */
int store_contract_run_told(const store_maker *which);

#endif
