/* test_queue.c - the operations a thread waits for: heard where they were asked, in whatever order they
 * come, once, and within bounds. The contract of stores holds for one that answers later, too. */
#include "store/store.h"
#include "support/fault_alloc.h"
#include "support/later_store.h"
#include "support/store_contract.h"
#include "support/unit.h"

#include <stdlib.h>

typedef struct world {
  idem__store *store;
  idem__store_queue *queue;
  unsigned woken;
} world;

typedef struct heard {
  unsigned times;
  idem_status status;
  unsigned order; /* as whose it came */
  idem__store_pending *pending;
} heard;

static unsigned order;

static void hear(const idem__store_answer *answer, void *user) {
  heard *one = user;
  one->times++;
  one->status = answer->status;
  one->order = ++order;
  assert_null(one->pending);
}

static void wake(void *user) { ((world *)user)->woken++; }

static idem__store *make_later(unsigned never_in) {
  idem__store *memory;
  idem__store_memory_opts opts = {.seed = 7};
  assert_int_equal(idem__store_memory_new(&opts, &memory), IDEM_OK);
  return later_store_new(memory, &(later_store_opts){.seed = 11, .never_in = never_in});
}

static void open_world(world *in, idem__store_queue_opts opts) {
  *in = (world){.store = make_later(0)};
  opts.wake = wake;
  opts.user = in;
  order = 0;
  assert_int_equal(idem__store_queue_new(&opts, &in->queue), IDEM_OK);
}

static void close_world(world *in) {
  idem__store_queue_free(in->queue);
  idem__store_unref(in->store);
}

static void put(world *in, const char *name, heard *one) {
  idem__store_op op = {.verb = IDEM__STORE_PUT, .name = name, .bytes = "value", .len = 5};
  op.name_len = strlen(name);
  op.done = hear;
  op.user = one;
  idem__store_submit(in->store, in->queue, &op, &one->pending);
}

static void settle(world *in) {
  while (later_store_pump(in->store)) {
  }
  idem__store_queue_run(in->queue);
}

static void an_answer_is_heard_when_the_queue_runs_and_not_before(void **state) {
  (void)state;
  world in;
  heard one = {.times = 0};
  open_world(&in, (idem__store_queue_opts){0});
  put(&in, "a", &one);
  assert_non_null(one.pending);
  assert_int_equal(in.woken, 1); /* somebody waits: the clock is to be looked at */
  assert_true(later_store_pump(in.store));
  assert_int_equal(one.times, 0);
  assert_int_equal(in.woken, 2);
  idem__store_queue_run(in.queue);
  assert_int_equal(one.times, 1);
  assert_int_equal(one.status, IDEM_OK);
  assert_int_equal(idem__store_queue_open(in.queue), 0);
  close_world(&in);
}

static void answers_come_in_odd_orders(void **state) {
  (void)state;
  world in;
  heard ones[16] = {{.times = 0}};
  bool odd = false;
  open_world(&in, (idem__store_queue_opts){0});
  for (size_t i = 0; i < 16; i++) {
    char name[2] = {(char)('a' + i), '\0'};
    put(&in, name, &ones[i]);
  }
  settle(&in);
  for (size_t i = 0; i < 16; i++) {
    assert_int_equal(ones[i].times, 1);
    odd = odd || ones[i].order != i + 1;
  }
  assert_true(odd);
  close_world(&in);
}

static void what_was_forgotten_is_not_heard_but_may_have_happened(void **state) {
  (void)state;
  world in;
  heard before = {.times = 0}, after = {.times = 0};
  open_world(&in, (idem__store_queue_opts){0});
  put(&in, "a", &before);
  idem__store_forget(before.pending);
  assert_null(before.pending);
  put(&in, "b", &after);
  while (later_store_pump(in.store)) {
  }
  idem__store_forget(after.pending); /* answered, and not heard yet */
  idem__store_queue_run(in.queue);
  assert_int_equal(before.times + after.times, 0);
  assert_int_equal(idem__store_queue_open(in.queue), 0);
  assert_int_equal(idem__store_memory_records(later_store_inner(in.store), IDEM__STORE_SESSIONS),
                   2);
  idem__store_forget(NULL);
  close_world(&in);
}

static void who_waits_too_long_is_told_and_a_late_answer_is_nobodys(void **state) {
  (void)state;
  world in;
  heard one = {.times = 0}, young = {.times = 0};
  open_world(&in, (idem__store_queue_opts){.wait_ms = 80});
  assert_true(idem__store_queue_deadline(in.queue) == UINT64_MAX);
  put(&in, "a", &one);
  assert_true(idem__store_queue_deadline(in.queue) == 0); /* its time begins when it is looked at */
  idem__store_queue_expire(in.queue, 1000);
  assert_in_range(idem__store_queue_deadline(in.queue), 1001, 1080);
  idem__store_queue_expire(in.queue, 1050);
  put(&in, "b", &young);
  idem__store_queue_expire(in.queue, 1079);
  assert_int_equal(one.times, 0);
  idem__store_queue_expire(in.queue, 1080);
  assert_int_equal(one.status, IDEM_E_TIMEOUT);
  assert_int_equal(young.times, 0);
  assert_int_equal(idem__store_queue_waiting(in.queue), 1);
  assert_int_equal(idem__store_queue_open(in.queue), 2); /* the store has both */
  settle(&in);
  assert_int_equal(one.times, 1);
  assert_int_equal(young.times, 1);
  assert_int_equal(young.status, IDEM_OK);
  assert_int_equal(idem__store_queue_open(in.queue), 0);
  close_world(&in);
}

static void no_more_wait_than_the_limits_allow(void **state) {
  (void)state;
  world in;
  heard ones[4] = {{.times = 0}};
  open_world(&in, (idem__store_queue_opts){.max_count = 2, .wait_ms = 10});
  for (size_t i = 0; i < 3; i++) put(&in, "a", &ones[i]);
  assert_int_equal(ones[2].status, IDEM_E_LIMIT);
  /* What nobody waits for any more still takes room, as long as the store may answer it. */
  idem__store_queue_expire(in.queue, 1000);
  idem__store_queue_expire(in.queue, 2000);
  assert_int_equal(ones[0].status, IDEM_E_TIMEOUT);
  put(&in, "a", &ones[3]);
  assert_int_equal(ones[3].status, IDEM_E_LIMIT);
  settle(&in);
  put(&in, "a", &ones[3]);
  assert_non_null(ones[3].pending);
  close_world(&in);
  assert_int_equal(ones[3].status, IDEM_E_CLOSED);
}

static void what_does_not_fit_is_refused(void **state) {
  (void)state;
  world in;
  heard small = {.times = 0}, big = {.times = 0};
  static char text[4096];
  open_world(&in, (idem__store_queue_opts){.max_bytes = 2048});
  put(&in, "a", &small);
  idem__store_op op = {.verb = IDEM__STORE_PUT, .name = "b", .name_len = 1, .bytes = text};
  op.len = sizeof text;
  op.done = hear;
  op.user = &big;
  idem__store_submit(in.store, in.queue, &op, NULL);
  assert_int_equal(big.status, IDEM_E_LIMIT);
  settle(&in);
  assert_int_equal(small.status, IDEM_OK);
  /* Neither does an answer. */
  op.expect = IDEM__STORE_ABSENT;
  op.done = NULL;
  idem__store_run(later_store_inner(in.store), &op);
  op.verb = IDEM__STORE_GET;
  op.len = 0;
  op.done = hear;
  idem__store_submit(in.store, in.queue, &op, NULL);
  settle(&in);
  assert_int_equal(big.times, 2);
  assert_int_equal(big.status, IDEM_E_LIMIT);
  close_world(&in);
}

static void ask_again(const idem__store_answer *answer, void *user) {
  world *in = user;
  idem__store_op op = {.verb = IDEM__STORE_GET, .name = "a", .name_len = 1};
  op.done = answer->status == IDEM_E_CLOSED ? ask_again : NULL;
  op.user = in;
  if (in->woken < 100) idem__store_submit(in->store, in->queue, &op, NULL);
}

static void what_is_open_ends_with_the_queue_and_nothing_can_be_asked_then(void **state) {
  (void)state;
  world in;
  heard one = {.times = 0};
  open_world(&in, (idem__store_queue_opts){0});
  put(&in, "a", &one);
  idem__store_op op = {.verb = IDEM__STORE_GET, .name = "a", .name_len = 1, .done = ask_again};
  op.user = &in;
  idem__store_submit(in.store, in.queue, &op, NULL);
  idem__store_queue_free(in.queue);
  assert_int_equal(one.status, IDEM_E_CLOSED);
  unsigned woken = in.woken;
  while (later_store_pump(in.store)) {
  }
  assert_int_equal(in.woken, woken);
  idem__store_unref(in.store);
}

static void the_store_may_go_before_its_queues(void **state) {
  (void)state;
  world in;
  heard ones[8] = {{.times = 0}};
  open_world(&in, (idem__store_queue_opts){0});
  idem__store_unref(in.store);
  in.store = make_later(2); /* half of them never */
  for (size_t i = 0; i < 8; i++) put(&in, "a", &ones[i]);
  settle(&in);
  unsigned missing = 0;
  for (size_t i = 0; i < 8; i++) missing += ones[i].times == 0;
  assert_in_range(missing, 1, 7);
  idem__store_unref(in.store);
  idem__store_queue_run(in.queue);
  for (size_t i = 0; i < 8; i++) assert_int_equal(ones[i].times, 1);
  idem__store_queue_free(in.queue);
}

/* ----------------------------------------------------------------- no memory */

static bool look(const idem__store_item *item, void *user) {
  (void)item;
  (*(unsigned *)user)++;
  return true;
}

static void count_done(const idem__store_answer *answer, void *user) {
  (void)answer;
  *(unsigned *)user += 100;
}

static void use(fault_alloc *fault, void *user) {
  (void)user;
  idem__store *store = make_later(0);
  idem__store_queue *queue;
  unsigned told = 0, asked = 0;
  idem__store_queue_opts opts = {.wake = wake, .alloc = &fault->alloc};
  world in = {.store = store};
  opts.user = &in;
  if (idem__store_queue_new(&opts, &queue) == IDEM_OK) {
    static const idem__store_verb verbs[] = {IDEM__STORE_PUT,  IDEM__STORE_APPEND,
                                             IDEM__STORE_READ, IDEM__STORE_LIST,
                                             IDEM__STORE_GET,  IDEM__STORE_REMOVE};
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
      idem__store_op op = {.verb = verbs[i], .name = "a", .name_len = 1, .bytes = "x", .len = 1};
      op.expect = IDEM__STORE_ANY;
      op.each = look;
      op.done = count_done;
      op.user = &told;
      idem__store_submit(store, queue, &op, NULL);
      asked++;
    }
    while (later_store_pump(store)) {
    }
    idem__store_queue_run(queue);
    assert_int_equal(told / 100, asked); /* each exactly once, whatever there was no memory for */
    assert_int_equal(idem__store_queue_open(queue), 0);
    idem__store_queue_free(queue);
  }
  idem__store_unref(store);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(use, NULL, 100) > 5);
  assert_true(fault_alloc_sweep_ever_after(use, NULL, 100) > 5);
}

static idem__store *make(size_t max_bytes) {
  idem__store *memory;
  idem__store_memory_opts opts = {.max_bytes = max_bytes, .seed = 7};
  if (idem__store_memory_new(&opts, &memory) != IDEM_OK) return NULL;
  return later_store_new(memory, &(later_store_opts){.seed = 5});
}

static void pump(idem__store *store) { later_store_pump(store); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_answer_is_heard_when_the_queue_runs_and_not_before),
      cmocka_unit_test(answers_come_in_odd_orders),
      cmocka_unit_test(what_was_forgotten_is_not_heard_but_may_have_happened),
      cmocka_unit_test(who_waits_too_long_is_told_and_a_late_answer_is_nobodys),
      cmocka_unit_test(no_more_wait_than_the_limits_allow),
      cmocka_unit_test(what_does_not_fit_is_refused),
      cmocka_unit_test(what_is_open_ends_with_the_queue_and_nothing_can_be_asked_then),
      cmocka_unit_test(the_store_may_go_before_its_queues),
      cmocka_unit_test(every_allocation_may_fail),
  };
  const store_maker later = {.name = "a store that answers later", .make = make, .pump = pump};
  return cmocka_run_group_tests(tests, NULL, NULL) + store_contract_run(&later);
}
