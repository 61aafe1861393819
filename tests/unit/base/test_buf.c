/* test_buf.c - buffers stop at their maximum and survive the want of memory. */
#include "base/base.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

static void starts_at_256_and_doubles(void **state) {
  (void)state;
  idem_buf buf;
  idem_buf_init(&buf, NULL, 10000);
  assert_int_equal(idem_buf_put(&buf, "x", 1), IDEM_OK);
  assert_int_equal(buf.cap, 256);
  assert_int_equal(idem_buf_reserve(&buf, 256), IDEM_OK);
  assert_int_equal(buf.cap, 512);
  assert_int_equal(idem_buf_reserve(&buf, 3000), IDEM_OK);
  assert_int_equal(buf.cap, 4096);
  assert_int_equal(idem_buf_grow(&buf, 1), IDEM_OK);
  assert_int_equal(buf.cap, 4096);
  idem_buf_deinit(&buf);
}

static void fills_to_the_last_byte_of_its_maximum_and_no_further(void **state) {
  (void)state;
  fault_alloc fault;
  fault_alloc_init(&fault);
  idem_buf buf;
  idem_buf_init(&buf, &fault.alloc, 1000);
  for (int i = 0; i < 1000; i++) assert_int_equal(idem_buf_put(&buf, "x", 1), IDEM_OK);
  assert_int_equal(buf.cap, 1000);
  assert_int_equal(idem_buf_put(&buf, "x", 1), IDEM_E_LIMIT);
  assert_int_equal(buf.len, 1000);
  assert_true(fault.live_bytes <= 1000);
  idem_buf_deinit(&buf);
  fault_alloc_assert_clean(&fault);
}

static void a_small_maximum_is_exact(void **state) {
  (void)state;
  idem_buf buf;
  idem_buf_init(&buf, NULL, 5);
  assert_int_equal(idem_buf_put(&buf, "123456", 6), IDEM_E_LIMIT);
  assert_int_equal(buf.len, 0);
  assert_int_equal(idem_buf_put(&buf, "12345", 5), IDEM_OK);
  assert_int_equal(buf.cap, 5);
  idem_buf_deinit(&buf);
  idem_buf_init(&buf, NULL, 0);
  assert_int_equal(idem_buf_put(&buf, "", 0), IDEM_OK);
  assert_int_equal(idem_buf_put(&buf, "x", 1), IDEM_E_LIMIT);
}

static void sizes_that_overflow_are_refused(void **state) {
  (void)state;
  fault_alloc fault;
  fault_alloc_init(&fault);
  fault.limit_bytes = 1 << 20;
  idem_buf buf;
  idem_buf_init(&buf, &fault.alloc, SIZE_MAX);
  assert_int_equal(idem_buf_puts(&buf, "abc"), IDEM_OK);
  assert_int_equal(idem_buf_reserve(&buf, SIZE_MAX), IDEM_E_LIMIT);
  assert_int_equal(idem_buf_reserve(&buf, SIZE_MAX - 3), IDEM_E_NOMEM);
  assert_int_equal(idem_buf_reserve(&buf, SIZE_MAX / 2), IDEM_E_NOMEM);
  assert_memory_equal(buf.data, "abc", 3);
  idem_buf_deinit(&buf);
  fault_alloc_assert_clean(&fault);
}

static void a_failed_append_leaves_it_as_it_was(void **state) {
  (void)state;
  fault_alloc fault;
  fault_alloc_init(&fault);
  idem_buf buf;
  idem_buf_init(&buf, &fault.alloc, 100000);
  char block[300] = {0};
  assert_int_equal(idem_buf_puts(&buf, "kept"), IDEM_OK);
  fault_alloc_fail_in(&fault, 1);
  assert_int_equal(idem_buf_put(&buf, block, sizeof block), IDEM_E_NOMEM);
  assert_int_equal(buf.len, 4);
  assert_memory_equal(buf.data, "kept", 4);
  assert_int_equal(idem_buf_put(&buf, block, sizeof block), IDEM_OK);
  idem_buf_deinit(&buf);
  fault_alloc_assert_clean(&fault);
}

static void deinit_leaves_it_usable(void **state) {
  (void)state;
  idem_buf buf;
  idem_buf_init(&buf, NULL, 10);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(idem_buf_puts(&buf, "abc"), IDEM_OK);
    idem_buf_deinit(&buf);
    assert_int_equal(buf.len, 0);
  }
  idem_buf_deinit(&buf);
}

static void consume_removes_from_the_front(void **state) {
  (void)state;
  idem_buf buf;
  idem_buf_init(&buf, NULL, 100);
  idem_buf_puts(&buf, "abcdef");
  idem_buf_consume(&buf, 0);
  idem_buf_consume(&buf, 2);
  assert_int_equal(buf.len, 4);
  assert_memory_equal(buf.data, "cdef", 4);
  idem_buf_consume(&buf, 400);
  assert_int_equal(buf.len, 0);
  idem_buf_deinit(&buf);
}

static void trim_gives_memory_back_only_when_empty(void **state) {
  (void)state;
  fault_alloc fault;
  fault_alloc_init(&fault);
  idem_buf buf;
  idem_buf_init(&buf, &fault.alloc, 100000);
  idem_buf_reserve(&buf, 5000);
  idem_buf_puts(&buf, "abc");
  idem_buf_trim(&buf, 0);
  assert_int_equal(buf.cap, 8192);
  buf.len = 0;
  idem_buf_trim(&buf, 10000);
  assert_int_equal(buf.cap, 8192);
  fault_alloc_fail_in(&fault, 1);
  idem_buf_trim(&buf, 1024);
  assert_int_equal(buf.cap, 8192);
  idem_buf_trim(&buf, 1024);
  assert_int_equal(buf.cap, 1024);
  assert_int_equal(fault.live_bytes, 1024);
  idem_buf_trim(&buf, 0);
  fault_alloc_assert_clean(&fault);
}

static void printf_appends_exactly_what_it_formats(void **state) {
  (void)state;
  idem_buf buf;
  idem_buf_init(&buf, NULL, 2000);
  assert_int_equal(idem_buf_printf(&buf, "%s-%d", "a", 7), IDEM_OK);
  assert_memory_equal(buf.data, "a-7", 3);
  assert_int_equal(buf.len, 3);
  for (int width = 505; width < 520; width++) {
    buf.len = 0;
    assert_int_equal(idem_buf_printf(&buf, "%*d", width, 5), IDEM_OK);
    assert_int_equal(buf.len, width);
    assert_int_equal(buf.data[width - 1], '5');
  }
  buf.len = 0;
  assert_int_equal(idem_buf_printf(&buf, "%2000d", 1), IDEM_OK);
  assert_int_equal(buf.len, 2000);
  assert_int_equal(buf.data[1999], '1');
  assert_int_equal(idem_buf_printf(&buf, "%d", 1), IDEM_E_LIMIT);
  buf.len = 0;
  assert_int_equal(idem_buf_printf(&buf, "%2001d", 1), IDEM_E_LIMIT);
  assert_int_equal(buf.len, 0);
  idem_buf_deinit(&buf);
}

static void a_fixed_buffer_never_grows(void **state) {
  (void)state;
  char storage[8];
  idem_buf buf;
  idem_buf_fixed(&buf, storage, sizeof storage);
  assert_int_equal(idem_buf_puts(&buf, "12345678"), IDEM_OK);
  assert_int_equal(idem_buf_puts(&buf, "9"), IDEM_E_LIMIT);
  assert_ptr_equal(buf.data, storage);
  assert_memory_equal(storage, "12345678", 8);
}

static void use_a_buffer(fault_alloc *fault, void *user) {
  (void)user;
  idem_buf buf;
  idem_buf_init(&buf, &fault->alloc, 1 << 16);
  for (int i = 0; i < 8; i++) {
    size_t before = buf.len;
    if (idem_buf_printf(&buf, "%600d", i) != IDEM_OK) assert_int_equal(buf.len, before);
  }
  buf.len = 0;
  idem_buf_trim(&buf, 512);
  idem_buf_deinit(&buf);
}

static void no_want_of_memory_leaks(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(use_a_buffer, NULL, 100) > 8);
  assert_true(fault_alloc_sweep_ever_after(use_a_buffer, NULL, 100) > 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(starts_at_256_and_doubles),
      cmocka_unit_test(fills_to_the_last_byte_of_its_maximum_and_no_further),
      cmocka_unit_test(a_small_maximum_is_exact),
      cmocka_unit_test(sizes_that_overflow_are_refused),
      cmocka_unit_test(a_failed_append_leaves_it_as_it_was),
      cmocka_unit_test(deinit_leaves_it_usable),
      cmocka_unit_test(consume_removes_from_the_front),
      cmocka_unit_test(trim_gives_memory_back_only_when_empty),
      cmocka_unit_test(printf_appends_exactly_what_it_formats),
      cmocka_unit_test(a_fixed_buffer_never_grows),
      cmocka_unit_test(no_want_of_memory_leaks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
