/* test_write.c - a buffer's maximum is what is written, not what the writer would like to have meanwhile. */
#include "../../support/fault_alloc.h"
#include "../../support/unit.h"

#include "json/json.h"

#include <stdlib.h>

static idem_status put(const idem_alloc *alloc, yyjson_mut_val *val, size_t max, size_t *len) {
  idem_buf out;
  idem_buf_init(&out, alloc, max);
  idem_status status = idem__json_put_mut(&out, val);
  assert_int_equal(out.max, max);
  *len = out.len;
  idem_buf_deinit(&out);
  return status;
}

/* Fits exactly, and not into one byte less; then nothing was written. */
static void fits_exactly(yyjson_mut_val *val) {
  fault_alloc fault;
  size_t len, written;
  char *text = yyjson_mut_val_write(val, 0, &len);
  free(text);
  fault_alloc_init(&fault);
  assert_int_equal(put(&fault.alloc, val, len, &written), IDEM_OK);
  assert_int_equal(written, len);
  assert_int_equal(put(&fault.alloc, val, len - 1, &written), IDEM_E_LIMIT);
  assert_int_equal(written, 0);
  assert_true(fault.peak_bytes <= len * 32 + 8192);
  fault_alloc_assert_clean(&fault);
}

static void what_is_as_large_as_the_maximum_fits(void **state) {
  (void)state;
  static char plain[100000], control[10000];
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *numbers = yyjson_mut_arr(doc), *nested = yyjson_mut_arr(doc), *inner = nested;
  memset(plain, 'a', sizeof plain - 1);
  memset(control, 1, sizeof control - 1);
  for (int i = 0; i < 10000; i++) yyjson_mut_arr_add_int(doc, numbers, 1);
  for (int i = 0; i < 500; i++) inner = yyjson_mut_arr_add_arr(doc, inner);
  fits_exactly(yyjson_mut_str(doc, plain));
  fits_exactly(yyjson_mut_str(doc, control));
  fits_exactly(numbers);
  fits_exactly(nested);
  yyjson_mut_doc_free(doc);
}

static void no_memory_is_not_called_a_limit(void **state) {
  (void)state;
  fault_alloc fault;
  size_t written;
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  fault_alloc_init(&fault);
  fault_alloc_fail_in(&fault, 1);
  assert_int_equal(put(&fault.alloc, yyjson_mut_str(doc, "text"), 100, &written), IDEM_E_NOMEM);
  yyjson_mut_doc_free(doc);
}

static void memory_of_the_callers_is_not_left(void **state) {
  (void)state;
  char storage[16];
  idem_buf out;
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  idem_buf_fixed(&out, storage, sizeof storage);
  assert_int_equal(idem__json_put_mut(&out, yyjson_mut_str(doc, "0123456789abcdef")), IDEM_E_LIMIT);
  assert_ptr_equal(out.data, storage);
  yyjson_mut_doc_free(doc);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_as_large_as_the_maximum_fits),
      cmocka_unit_test(no_memory_is_not_called_a_limit),
      cmocka_unit_test(memory_of_the_callers_is_not_left),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
