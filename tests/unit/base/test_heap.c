/* test_heap.c - deadlines come out in order, and a timer can be moved or taken out at any time. */
#include "base/base.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

enum { TIMERS = 300 };

static void an_empty_heap_has_no_first(void **state) {
  (void)state;
  idem__heap heap;
  idem__timer timer = {0};
  idem__heap_init(&heap, NULL);
  assert_null(idem__heap_first(&heap));
  idem__heap_remove(&heap, &timer);
  idem__heap_deinit(&heap);
}

static void timers_come_out_earliest_first(void **state) {
  (void)state;
  idem__heap heap;
  idem__timer timers[TIMERS] = {{0}};
  idem__heap_init(&heap, NULL);
  for (size_t i = 0; i < TIMERS; i++)
    assert_int_equal(idem__heap_put(&heap, &timers[i], i * 7919 % 311), IDEM_OK);
  uint64_t last = 0;
  for (size_t i = 0; i < TIMERS; i++) {
    idem__timer *first = idem__heap_first(&heap);
    assert_true(first->at_ms >= last);
    last = first->at_ms;
    idem__heap_remove(&heap, first);
    assert_int_equal(first->index, 0);
  }
  assert_null(idem__heap_first(&heap));
  idem__heap_deinit(&heap);
}

static void putting_a_timer_again_moves_it(void **state) {
  (void)state;
  idem__heap heap;
  idem__timer a = {0}, b = {0}, c = {0};
  idem__heap_init(&heap, NULL);
  idem__heap_put(&heap, &a, 10);
  idem__heap_put(&heap, &b, 20);
  idem__heap_put(&heap, &c, 30);
  idem__heap_put(&heap, &c, 5);
  assert_ptr_equal(idem__heap_first(&heap), &c);
  idem__heap_put(&heap, &c, UINT64_MAX);
  assert_ptr_equal(idem__heap_first(&heap), &a);
  assert_int_equal(heap.count, 3);
  idem__heap_deinit(&heap);
}

static void a_timer_taken_out_twice_is_taken_out_once(void **state) {
  (void)state;
  idem__heap heap;
  idem__timer a = {0}, b = {0};
  idem__heap_init(&heap, NULL);
  idem__heap_put(&heap, &a, 1);
  idem__heap_put(&heap, &b, 2);
  idem__heap_remove(&heap, &a);
  idem__heap_remove(&heap, &a);
  assert_ptr_equal(idem__heap_first(&heap), &b);
  assert_int_equal(heap.count, 1);
  idem__heap_deinit(&heap);
}

static void deinit_lets_its_timers_go(void **state) {
  (void)state;
  idem__heap heap;
  idem__timer timer = {0};
  idem__heap_init(&heap, NULL);
  idem__heap_put(&heap, &timer, 1);
  idem__heap_deinit(&heap);
  assert_int_equal(timer.index, 0);
  assert_null(idem__heap_first(&heap));
}

static void a_long_random_life_keeps_the_order(void **state) {
  (void)state;
  idem__heap heap;
  idem__timer timers[TIMERS] = {{0}};
  uint64_t random = 88172645463325252u;
  idem__heap_init(&heap, NULL);
  for (int step = 0; step < 50000; step++) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    idem__timer *timer = &timers[random % TIMERS];
    if (random & 1u << 20)
      idem__heap_put(&heap, timer, random >> 40);
    else
      idem__heap_remove(&heap, timer);
    for (size_t i = 2; i <= heap.count && step % 100 == 0; i++)
      assert_true(heap.items[i / 2]->at_ms <= heap.items[i]->at_ms);
  }
  for (size_t i = 1; i <= heap.count; i++) assert_int_equal(heap.items[i]->index, i);
  idem__heap_deinit(&heap);
}

static void fill_a_heap(fault_alloc *fault, void *user) {
  (void)user;
  idem__heap heap;
  idem__timer timers[100] = {{0}};
  idem__heap_init(&heap, &fault->alloc);
  size_t in = 0;
  for (size_t i = 0; i < 100; i++) {
    if (idem__heap_put(&heap, &timers[i], 100 - i) == IDEM_OK)
      in++;
    else
      assert_int_equal(timers[i].index, 0);
  }
  assert_int_equal(heap.count, in);
  idem__heap_deinit(&heap);
}

static void no_want_of_memory_leaks(void **state) {
  (void)state;
  assert_int_equal(fault_alloc_sweep(fill_a_heap, NULL, 100), 4);
  assert_true(fault_alloc_sweep_ever_after(fill_a_heap, NULL, 100) > 0);
}

typedef struct item {
  int number;
  idem_list link;
} item;

static void lists_keep_the_order_of_appending(void **state) {
  (void)state;
  idem_list list;
  item items[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
  idem_list_init(&list);
  assert_true(idem_list_empty(&list));
  for (int i = 0; i < 3; i++) idem_list_append(&list, &items[i].link);
  idem_list_remove(&items[1].link);
  idem_list_remove(&items[1].link);
  assert_ptr_equal(IDEM_CONTAINER(list.next, item, link), &items[0]);
  assert_ptr_equal(IDEM_CONTAINER(list.next->next, item, link), &items[2]);
  assert_ptr_equal(list.prev, &items[2].link);
  idem_list_remove(&items[0].link);
  idem_list_remove(&items[2].link);
  assert_true(idem_list_empty(&list));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_empty_heap_has_no_first),
      cmocka_unit_test(timers_come_out_earliest_first),
      cmocka_unit_test(putting_a_timer_again_moves_it),
      cmocka_unit_test(a_timer_taken_out_twice_is_taken_out_once),
      cmocka_unit_test(deinit_lets_its_timers_go),
      cmocka_unit_test(a_long_random_life_keeps_the_order),
      cmocka_unit_test(no_want_of_memory_leaks),
      cmocka_unit_test(lists_keep_the_order_of_appending),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
