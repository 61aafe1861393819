/* test_alloc.c - the allocator in hand: defaults, sizes, failure. Also the promises that
 * tests/support/fault_alloc makes to all other tests. */
#include "base/base.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

static void null_and_zero_allocators_mean_the_c_library(void **state) {
  (void)state;
  const idem_alloc zero = {0};
  for (int i = 0; i < 2; i++) {
    const idem_alloc *given = i ? &zero : NULL;
    idem_alloc filled = idem__alloc_or_default(given);
    assert_non_null(filled.malloc);
    assert_non_null(filled.realloc);
    assert_non_null(filled.free);
    char *ptr = idem__malloc(given, 3);
    assert_non_null(ptr);
    ptr = idem__realloc(given, ptr, 3, 300);
    assert_non_null(ptr);
    ptr[299] = 'x';
    idem__free(given, ptr);
  }
}

static void a_given_allocator_is_used_as_it_is(void **state) {
  (void)state;
  fault_alloc fault;
  fault_alloc_init(&fault);
  idem_alloc filled = idem__alloc_or_default(&fault.alloc);
  assert_ptr_equal(filled.ctx, &fault);
  char *ptr = idem__malloc(&filled, 10);
  assert_int_equal(fault.live_bytes, 10);
  ptr = idem__realloc(&filled, ptr, 10, 20);
  assert_int_equal(fault.live_bytes, 20);
  idem__free(&filled, ptr);
  fault_alloc_assert_clean(&fault);
}

static void nothing_asked_for_is_nothing_given(void **state) {
  (void)state;
  fault_alloc fault;
  fault_alloc_init(&fault);
  assert_null(idem__malloc(&fault.alloc, 0));
  assert_null(idem__calloc(&fault.alloc, 0));
  assert_null(idem__realloc(&fault.alloc, NULL, 0, 0));
  assert_int_equal(fault.calls, 0);
  idem__free(&fault.alloc, NULL);
}

static void realloc_of_null_allocates_and_to_zero_frees(void **state) {
  (void)state;
  fault_alloc fault;
  fault_alloc_init(&fault);
  void *ptr = idem__realloc(&fault.alloc, NULL, 0, 8);
  assert_non_null(ptr);
  assert_null(idem__realloc(&fault.alloc, ptr, 8, 0));
  fault_alloc_assert_clean(&fault);
}

static void calloc_gives_zeroes(void **state) {
  (void)state;
  fault_alloc fault;
  fault_alloc_init(&fault);
  char *ptr = idem__calloc(&fault.alloc, 64);
  for (int i = 0; i < 64; i++) assert_int_equal(ptr[i], 0);
  idem__free(&fault.alloc, ptr);
  fault_alloc_assert_clean(&fault);
}

static void strndup_copies_and_ends_with_nul(void **state) {
  (void)state;
  char *copy = idem__strndup(NULL, "abcdef", 3);
  assert_string_equal(copy, "abc");
  idem__free(NULL, copy);
  copy = idem__strndup(NULL, NULL, 0);
  assert_string_equal(copy, "");
  idem__free(NULL, copy);
  assert_null(idem__strndup(NULL, "a", SIZE_MAX));
}

static void failure_reaches_the_caller(void **state) {
  (void)state;
  fault_alloc fault;
  fault_alloc_init(&fault);
  fault_alloc_fail_from(&fault, 1);
  assert_null(idem__malloc(&fault.alloc, 1));
  assert_null(idem__calloc(&fault.alloc, 1));
  assert_null(idem__strndup(&fault.alloc, "a", 1));
  assert_int_equal(fault.failures, 3);
}

static void fault_alloc_fails_the_nth_call_only(void **state) {
  (void)state;
  fault_alloc fault;
  fault_alloc_init(&fault);
  fault_alloc_fail_in(&fault, 2);
  void *first = idem__malloc(&fault.alloc, 5);
  assert_non_null(first);
  assert_null(idem__realloc(&fault.alloc, first, 5, 50));
  assert_int_equal(fault.live_bytes, 5);
  first = idem__realloc(&fault.alloc, first, 5, 50);
  assert_non_null(first);
  idem__free(&fault.alloc, first);
  assert_int_equal(fault.peak_bytes, 50);
  assert_int_equal(fault.calls, 3);
  fault_alloc_assert_clean(&fault);
}

static void fault_alloc_keeps_to_its_byte_limit(void **state) {
  (void)state;
  fault_alloc fault;
  fault_alloc_init(&fault);
  fault.limit_bytes = 100;
  void *ptr = idem__malloc(&fault.alloc, 60);
  assert_non_null(ptr);
  assert_null(idem__malloc(&fault.alloc, 41));
  ptr = idem__realloc(&fault.alloc, ptr, 60, 100);
  assert_non_null(ptr);
  assert_null(idem__malloc(&fault.alloc, SIZE_MAX - 64));
  idem__free(&fault.alloc, ptr);
  fault_alloc_assert_clean(&fault);
}

static void three_allocations(fault_alloc *fault, void *user) {
  size_t *runs = user;
  (*runs)++;
  for (int i = 0; i < 3; i++) idem__free(&fault->alloc, idem__malloc(&fault->alloc, 8));
}

static void a_sweep_fails_each_allocation_once(void **state) {
  (void)state;
  size_t runs = 0;
  assert_int_equal(fault_alloc_sweep(three_allocations, &runs, 10), 3);
  assert_int_equal(runs, 4);
  assert_int_equal(fault_alloc_sweep_ever_after(three_allocations, &runs, 10), 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(null_and_zero_allocators_mean_the_c_library),
      cmocka_unit_test(a_given_allocator_is_used_as_it_is),
      cmocka_unit_test(nothing_asked_for_is_nothing_given),
      cmocka_unit_test(realloc_of_null_allocates_and_to_zero_frees),
      cmocka_unit_test(calloc_gives_zeroes),
      cmocka_unit_test(strndup_copies_and_ends_with_nul),
      cmocka_unit_test(failure_reaches_the_caller),
      cmocka_unit_test(fault_alloc_fails_the_nth_call_only),
      cmocka_unit_test(fault_alloc_keeps_to_its_byte_limit),
      cmocka_unit_test(a_sweep_fails_each_allocation_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
