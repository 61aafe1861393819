/* test_clean.c - what a tool printed becomes text: whole, or cut with the word that it was; never with a hole. */
#include "support/unit.h"

#include "service/clean.h"

#include <stdlib.h>

#define MARK "\xEF\xBF\xBD"

static void expect_clean(const char *text, size_t len, const char *wanted, bool marked) {
  idem_buf out;
  bool replaced;
  idem_buf_init(&out, NULL, 1024);
  assert_int_equal(clean_put(&out, text, len, &replaced), IDEM_OK);
  assert_int_equal(out.len, strlen(wanted));
  if (out.len) assert_memory_equal(out.data, wanted, out.len);
  assert_int_equal(replaced, marked);
  idem_buf_deinit(&out);
}

static void bytes_that_are_no_text_are_marked(void **state) {
  (void)state;
  expect_clean("", 0, "", false);
  expect_clean("gr\xC3\xBC\xC3\x9F", 6, "gr\xC3\xBC\xC3\x9F", false);
  expect_clean("a\xFF\xFE"
               "b",
               4, "a" MARK MARK "b", true);
  expect_clean("\xFF", 1, MARK, true);
  expect_clean("a\xC3", 2, "a" MARK, true);
}

/* A tenth of what is asked for is refused, then there is memory again. */
typedef struct poor {
  unsigned asked;
} poor;

static void *poor_realloc(void *ctx, void *memory, size_t old_size, size_t size) {
  (void)old_size;
  return ++((poor *)ctx)->asked % 10 == 2 ? NULL : realloc(memory, size);
}

static void *poor_malloc(void *ctx, size_t size) { return poor_realloc(ctx, NULL, 0, size); }

static void poor_free(void *ctx, void *memory) {
  (void)ctx;
  free(memory);
}

static void without_memory_it_ends_where_that_was(void **state) {
  (void)state;
  poor ctx = {.asked = 0};
  const idem_alloc alloc = {poor_malloc, poor_realloc, poor_free, &ctx};
  char text[4096];
  for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i % 7 ? 'a' + i % 26 : 0xFF);
  idem_buf out, whole;
  bool replaced;
  idem_buf_init(&out, &alloc, 3 * sizeof text);
  idem_buf_init(&whole, NULL, 3 * sizeof text);
  assert_int_equal(clean_put(&whole, text, sizeof text, &replaced), IDEM_OK);
  assert_int_equal(clean_put(&out, text, sizeof text, &replaced), IDEM_E_NOMEM);
  assert_true(out.len < whole.len);
  if (out.len) assert_memory_equal(out.data, whole.data, out.len);
  idem_buf_deinit(&out);
  idem_buf_deinit(&whole);
}

static void without_room_it_ends_there(void **state) {
  (void)state;
  idem_buf out;
  bool replaced;
  idem_buf_init(&out, NULL, 5);
  assert_int_equal(clean_put(&out,
                             "ab\xFF"
                             "cd",
                             5, &replaced),
                   IDEM_E_LIMIT);
  assert_int_equal(out.len, 5);
  assert_memory_equal(out.data, "ab" MARK, 5);
  idem_buf_deinit(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_that_are_no_text_are_marked),
      cmocka_unit_test(without_memory_it_ends_where_that_was),
      cmocka_unit_test(without_room_it_ends_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
