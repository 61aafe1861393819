/* test_small.c - the writer for small values gives the bytes that yyjson's gives.
 * Held against it for strings of every length, with and without escapes, nested and empty
 * containers, the edges of integers, and buffers with any amount of room left. */
#include "../../support/unit.h"

#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>

static void writes_as_yyjson_does(yyjson_val *val, size_t room) {
  idem_buf out;
  size_t len = 0;
  char *expected = yyjson_val_write(val, 0, &len);
  idem_buf_init(&out, NULL, SIZE_MAX / 4);
  assert_int_equal(idem_buf_reserve(&out, room), IDEM_OK);
  idem_status status = idem__json_put(&out, val);
  if (expected) {
    assert_int_equal(status, IDEM_OK);
    assert_int_equal(out.len, len);
    assert_memory_equal(out.data, expected, len);
  } else {
    assert_int_equal(status, IDEM_E_INVAL);
    assert_int_equal(out.len, 0);
  }
  free(expected);
  idem_buf_deinit(&out);
}

static void text_is_written_as_yyjson_does(const char *json) {
  static const yyjson_read_flag flags[] = {YYJSON_READ_BIGNUM_AS_RAW, YYJSON_READ_NUMBER_AS_RAW};
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    yyjson_doc *doc = yyjson_read(json, strlen(json), flags[i]);
    assert_non_null(doc);
    for (size_t room = 0; room < 600; room += 7) writes_as_yyjson_does(doc->root, room);
    yyjson_doc_free(doc);
  }
}

static void string_read_from(const char *before, const char *escape, const char *after) {
  char text[256];
  snprintf(text, sizeof text, "\"%s%s%s\"", before, escape, after);
  yyjson_doc *doc = yyjson_read(text, strlen(text), 0);
  assert_non_null(doc);
  writes_as_yyjson_does(doc->root, 256);
  writes_as_yyjson_does(doc->root, 0);
  yyjson_doc_free(doc);
}

static void strings_of_every_length_with_and_without_escapes(void **state) {
  static const char *const escapes[] = {
      "",    "\\n", "\\\"", "\\\\", "\\/", "\\u0000", "\\u00e9", "\xc3\xa9", "\xf0\x9f\x98\x80",
      "\x7f"};
  char before[80] = "", after[80] = "";
  (void)state;
  for (size_t len = 0; len + 1 < sizeof before; len++) {
    memset(before, 'a', len);
    memset(after, 'z', len);
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
      string_read_from(before, escapes[i], "");
      string_read_from("", escapes[i], after);
      string_read_from(before, escapes[i], after);
    }
  }
}

/* Values that no reader made: nothing is known of their bytes. */
static void every_byte_in_a_string_of_unknown_origin(void **state) {
  char text[21];
  (void)state;
  for (int byte = 0; byte < 256; byte++) {
    memset(text, 'a', sizeof text);
    text[byte % 21] = (char)byte;
    yyjson_val val = {.tag = (uint64_t)sizeof text << YYJSON_TAG_BIT | YYJSON_TYPE_STR};
    val.uni.str = text;
    writes_as_yyjson_does(&val, 256);
  }
}

static void raw_text_of_unknown_origin(void **state) {
  static const char *const texts[] = {"1", "true", "{\"a\":1}", "-1.5e+3",
                                      "12345678901234567890123456"};
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    yyjson_val val = {.tag = (uint64_t)strlen(texts[i]) << YYJSON_TAG_BIT | YYJSON_TYPE_RAW};
    val.uni.str = texts[i];
    writes_as_yyjson_does(&val, 256);
  }
}

static void containers_empty_nested_and_mixed(void **state) {
  (void)state;
  static const char *const texts[] = {
      "{}",
      "[]",
      "[[]]",
      "{\"a\":{}}",
      "[{},[],[[[]]],{\"k\":[{}]}]",
      "{\"a\":1,\"b\":[true,false,null],\"c\":{\"d\":\"e\",\"f\":[\"g\"]},\"h\":\"\"}",
      "[\"\\u00e9\",\"tab\\t\",\"\\u0001\",\"plain\"]",
      "{\"k\\\"ey\":\"v\"}",
      "null",
      "true",
      "\"text\"",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    text_is_written_as_yyjson_does(texts[i]);
}

static void numbers_at_the_edges(void **state) {
  (void)state;
  static const char *const texts[] = {"0",
                                      "-0",
                                      "9",
                                      "10",
                                      "-1",
                                      "1.5",
                                      "-2.5e-300",
                                      "1e308",
                                      "4294967296",
                                      "18446744073709551615",
                                      "1e400",
                                      "-9223372036854775808",
                                      "9223372036854775807",
                                      "123456789012345678901234",
                                      "123456789012345678901234567890",
                                      "[1,2.5,-3,18446744073709551616]"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    text_is_written_as_yyjson_does(texts[i]);
}

/* Where the small writer gives way to yyjson's: 64 values, and as many levels. */
static void about_as_many_values_as_are_small(void **state) {
  (void)state;
  char text[1024];
  for (size_t count = 55; count < 75; count++) {
    size_t at = 0;
    for (size_t i = 0; i < count; i++)
      at += (size_t)snprintf(text + at, sizeof text - at, "%c%zu", i ? ',' : '[', i);
    snprintf(text + at, sizeof text - at, "]");
    text_is_written_as_yyjson_does(text);
    memset(text, '[', count);
    memset(text + count, ']', count);
    text[2 * count] = '\0';
    text_is_written_as_yyjson_does(text);
    memset(text + count, '1', 24); /* as long as a number's text may be */
    memset(text + count + 24, ']', count);
    text[2 * count + 24] = '\0';
    text_is_written_as_yyjson_does(text);
  }
}

static void a_full_buffer_is_left_as_it_was(void **state) {
  (void)state;
  char storage[64];
  idem_buf out;
  yyjson_val val = {.tag = (uint64_t)sizeof storage << YYJSON_TAG_BIT | YYJSON_TYPE_STR};
  char text[sizeof storage];
  memset(text, 'a', sizeof text);
  val.uni.str = text;
  idem_buf_fixed(&out, storage, sizeof storage);
  assert_int_not_equal(idem__json_put(&out, &val), IDEM_OK);
  assert_int_equal(out.len, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strings_of_every_length_with_and_without_escapes),
      cmocka_unit_test(every_byte_in_a_string_of_unknown_origin),
      cmocka_unit_test(raw_text_of_unknown_origin),
      cmocka_unit_test(containers_empty_nested_and_mixed),
      cmocka_unit_test(numbers_at_the_edges),
      cmocka_unit_test(about_as_many_values_as_are_small),
      cmocka_unit_test(a_full_buffer_is_left_as_it_was),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
