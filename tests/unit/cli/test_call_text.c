/* test_call_text.c - what a stranger's text becomes before a terminal shows it. */
#include "support/unit.h"

#include "call/text.h"

#include <idem/text.h>

#include <string.h>

static void escapes(const char *given, size_t len, text_form form, const char *expected) {
  text made = {.data = NULL};
  text_escape(&made, given, len, form);
  assert_string_equal(made.data ? made.data : "", expected);
  text_free(&made);
}
#define ESCAPES(given, form, expected) escapes(given, sizeof(given) - 1, form, expected)

static void no_byte_moves_the_cursor(void **state) {
  (void)state;
  ESCAPES("\033[2J\033]0;x\a", TEXT_LINES, "\\x1b[2J\\x1b]0;x\\x07");
  ESCAPES("a\bb\rc\x7f", TEXT_LINES, "a\\x08b\\rc\\x7f");
  ESCAPES("\xc2\x9b"
          "31m",
          TEXT_LINES, "\\u{009b}31m");
  ESCAPES("\0", TEXT_LINES, "\\x00");
}

static void nothing_turns_the_direction_of_reading(void **state) {
  (void)state;
  ESCAPES("a\xe2\x80\xae"
          "b",
          TEXT_LINES, "a\\u{202e}b");
  ESCAPES("\xe2\x81\xa6", TEXT_LINES, "\\u{2066}");
  ESCAPES("\xd8\x9c", TEXT_LINES, "\\u{061c}");
  ESCAPES("\xf3\xa0\x81\x81", TEXT_LINES, "\\u{e0041}");
  ESCAPES("\xe2\x80\x8b", TEXT_LINES, "\\u{200b}");
}

static void letters_of_every_script_stay(void **state) {
  (void)state;
  ESCAPES(
      "gr\xc3\xbc\xc3\x9f \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x94\xac",
      TEXT_LINES,
      "gr\xc3\xbc\xc3\x9f \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x94\xac");
}

static void line_ends_stay_where_lines_are_meant(void **state) {
  (void)state;
  ESCAPES("a\n\tb", TEXT_LINES, "a\n\tb");
  ESCAPES("a\r\nb", TEXT_LINES, "a\nb");
  ESCAPES("a\n\tb\r", TEXT_LINE, "a\\n\\tb\\r");
}

static void what_is_no_utf8_is_shown_as_bytes(void **state) {
  (void)state;
  ESCAPES("\xff\xc3", TEXT_LINES, "\\xff\\xc3");
  ESCAPES("\xc0\xaf", TEXT_LINES, "\\xc0\\xaf");
  ESCAPES("\xed\xa0\x80", TEXT_LINES, "\\xed\\xa0\\x80");
  ESCAPES("\xf4\x90\x80\x80", TEXT_LINES, "\\xf4\\x90\\x80\\x80");
}

static void a_cut_never_splits_an_escape(void **state) {
  (void)state;
  text made = {.data = NULL};
  text_escape_cut(&made, "abc\033def", 7, 5);
  assert_string_equal(made.data, "abc...");
  text_free(&made);
  text_escape_cut(&made, "abc", 3, 3);
  assert_string_equal(made.data, "abc");
  text_free(&made);
}

static void columns_are_those_of_a_terminal(void **state) {
  (void)state;
  assert_int_equal(text_width("abc", 3), 3);
  assert_int_equal(text_width("gr\xc3\xbc\xc3\x9f", 6), 4);
  assert_int_equal(text_width("\xe4\xbd\xa0\xe5\xa5\xbd", 6), 4); /* two letters of two columns */
  assert_int_equal(text_width("e\xcc\x81", 3), 1);                /* e and the accent on it */
  assert_int_equal(text_width("\xf0\x9f\x9a\x80\xe2", 5), 3); /* cut off: no byte beyond is read */
}

static void fits(const char *given, size_t columns, const char *expected) {
  text made = {.data = NULL};
  text_escape_fit(&made, given, strlen(given), columns);
  assert_string_equal(made.data, expected);
  assert_true(text_width(made.data, made.len) <= columns);
  text_free(&made);
}

static void a_text_is_cut_to_its_columns(void **state) {
  (void)state;
  fits("abcdef", 6, "abcdef");
  fits("abcdefg", 6, "abc...");
  fits("\xe4\xbd\xa0\xe5\xa5\xbd", 4, "\xe4\xbd\xa0\xe5\xa5\xbd");
  fits("\xe4\xbd\xa0\xe5\xa5\xbd\xe4\xbd\xa0", 5, "\xe4\xbd\xa0...");
  fits("\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc", 4, "\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc");
}

static void what_follows_begins_at_its_column(void **state) {
  (void)state;
  text made = {.data = NULL};
  text_puts(&made, "\n\xe4\xbd\xa0");
  text_pad(&made, 1, 4);
  assert_string_equal(made.data, "\n\xe4\xbd\xa0  ");
  text_pad(&made, 1, 4); /* past it: one blank all the same */
  assert_int_equal(made.len, 7);
  text_free(&made);
}

static void expect_bytes(const char *base64, size_t len, const char *bytes, size_t count) {
  text back = {.data = NULL};
  assert_true(text_base64(&back, base64, len));
  assert_int_equal(back.len, count);
  assert_memory_equal(back.data, bytes, count);
  text_free(&back);
}

static void base64_comes_back(void **state) {
  (void)state;
  char bytes[70], room[128];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * 37 + 200);
  for (size_t len = 0; len < sizeof bytes; len++) {
    for (int alphabet = IDEM_BASE64_STANDARD; alphabet <= IDEM_BASE64_URL; alphabet++) {
      idem_buf made;
      idem_buf_fixed(&made, room, sizeof room);
      assert_int_equal(idem_base64_encode(&made, bytes, len, (idem_base64_alphabet)alphabet),
                       IDEM_OK);
      expect_bytes(made.data, made.len, bytes, len);
    }
  }
}

static void careless_base64_is_read_and_what_is_none_is_not(void **state) {
  (void)state;
  expect_bytes("+/-_", 4, "\xfb\xff\xbf", 3);
  expect_bytes("Zg", 2, "f", 1);
  expect_bytes("Zg=", 3, "f", 1);
  text refused = {.data = NULL};
  assert_false(text_base64(&refused, "a", 1));
  assert_false(text_base64(&refused, "ab*d", 4));
  assert_null(refused.data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_byte_moves_the_cursor),
      cmocka_unit_test(nothing_turns_the_direction_of_reading),
      cmocka_unit_test(letters_of_every_script_stay),
      cmocka_unit_test(line_ends_stay_where_lines_are_meant),
      cmocka_unit_test(what_is_no_utf8_is_shown_as_bytes),
      cmocka_unit_test(a_cut_never_splits_an_escape),
      cmocka_unit_test(columns_are_those_of_a_terminal),
      cmocka_unit_test(a_text_is_cut_to_its_columns),
      cmocka_unit_test(what_follows_begins_at_its_column),
      cmocka_unit_test(base64_comes_back),
      cmocka_unit_test(careless_base64_is_read_and_what_is_none_is_not),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
