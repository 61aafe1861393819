/* test_copy.c - a value that was copied says what it said, whatever becomes of the document it came from, and takes no more memory than
 * was said. */
#include "../../support/unit.h"

#include "json/json.h"

#include <stdlib.h>

static void expect_copied(const char *json, yyjson_read_flag flags) {
  yyjson_doc *doc = yyjson_read(json, strlen(json), flags);
  assert_non_null(doc);
  yyjson_val *root = yyjson_doc_get_root(doc);
  yyjson_val *copy = malloc(idem__json_copy_size(root)); /* the sanitizer sees one byte more */
  assert_non_null(copy);
  char *said = yyjson_val_write(root, 0, NULL);
  idem__json_copy(root, copy);
  yyjson_doc_free(doc);
  char *says = yyjson_val_write(copy, 0, NULL);
  assert_string_equal(says, said);
  free(says);
  free(said);
  free(copy);
}

static void a_copy_says_what_was_said(void **state) {
  static const char *const texts[] = {
      "null",
      "true",
      "-7",
      "1.5e300",
      "123456789012345678901234567890",
      "\"\"",
      "\"a text\"",
      "\"\\u0000 and \\n\"",
      "[]",
      "{}",
      "[[],{},[[1],2],\"x\"]",
      "{\"a\":{\"b\":[\"c\",{\"d\":\"\"}],\"e\":99999999999999999999},\"f\":null}",
  };
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    expect_copied(texts[i], YYJSON_READ_BIGNUM_AS_RAW);
    expect_copied(texts[i], YYJSON_READ_NUMBER_AS_RAW);
  }
}

static void part_of_a_document_is_copied_alone(void **state) {
  static const char json[] = "{\"a\":[\"one\",\"two\"],\"b\":\"three\"}";
  (void)state;
  yyjson_doc *doc = yyjson_read(json, sizeof json - 1, 0);
  yyjson_val *part = yyjson_obj_get(yyjson_doc_get_root(doc), "a"), copy[16];
  assert_int_equal(idem__json_copy_size(part), 3 * sizeof(yyjson_val) + 8);
  idem__json_copy(part, copy);
  yyjson_doc_free(doc);
  assert_int_equal(yyjson_arr_size(copy), 2);
  assert_string_equal(yyjson_get_str(yyjson_arr_get(copy, 1)), "two");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_copy_says_what_was_said),
      cmocka_unit_test(part_of_a_document_is_copied_alone),
  };
  return cmocka_run_group_tests_name("json.copy", tests, NULL, NULL);
}
