/* test_text.c - UTF-8 is judged exactly, and escaped text cannot forge anything. */
#include "base/base.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

#define VALID(literal) idem_utf8_valid(literal, sizeof(literal) - 1)

/* Compares what an escaping function makes of `text` with `wanted`. */
static void expect_escape(const char *text, size_t len, size_t max, const char *wanted) {
  idem_buf out;
  idem_buf_init(&out, NULL, 4096);
  assert_int_equal(idem_text_escape(&out, text, len, max), IDEM_OK);
  idem_buf_put(&out, "", 1);
  assert_string_equal(out.data, wanted);
  idem_buf_deinit(&out);
}
#define ESCAPES(literal, wanted) expect_escape(literal, sizeof(literal) - 1, SIZE_MAX, wanted)

static void expect_json(const char *text, size_t len, const char *wanted) {
  idem_buf out;
  idem_buf_init(&out, NULL, 4096);
  assert_int_equal(idem_text_json_string(&out, text, len), IDEM_OK);
  idem_buf_put(&out, "", 1);
  assert_string_equal(out.data, wanted);
  idem_buf_deinit(&out);
}
#define JSON(literal, wanted) expect_json(literal, sizeof(literal) - 1, wanted)

static void well_formed_utf8_is_valid(void **state) {
  (void)state;
  assert_true(VALID(""));
  assert_true(VALID("plain ASCII of more than eight bytes"));
  assert_true(VALID("a\0b"));
  assert_true(VALID("\xc2\x80\xdf\xbf"));
  assert_true(VALID("\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"));
  assert_true(VALID("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"));
  assert_true(VALID("mixed \xc3\xa9 and ASCII again, long enough \xf0\x9f\x98\x80"));
}

static void malformed_utf8_is_not(void **state) {
  (void)state;
  assert_false(VALID("\x80"));
  assert_false(VALID("\xbf..."));
  assert_false(VALID("\xc0\x80"));
  assert_false(VALID("\xc1\xbf"));
  assert_false(VALID("\xe0\x9f\xbf"));
  assert_false(VALID("\xed\xa0\x80"));
  assert_false(VALID("\xed\xbf\xbf"));
  assert_false(VALID("\xf0\x8f\xbf\xbf"));
  assert_false(VALID("\xf4\x90\x80\x80"));
  assert_false(VALID("\xf5\x80\x80\x80"));
  assert_false(VALID("\xff"));
  assert_false(VALID("\xc3("));
  assert_false(VALID("\xe2\x82("));
  assert_false(VALID("\xf0\x9f\x98("));
  assert_false(VALID("12345678\xff"));
}

static void a_truncated_sequence_is_invalid_at_every_length(void **state) {
  (void)state;
  assert_false(VALID("\xc3"));
  assert_false(VALID("\xe2\x82"));
  assert_false(VALID("\xe2"));
  assert_false(VALID("\xf0\x9f\x98"));
  assert_false(VALID("\xf0\x9f"));
  assert_false(VALID("\xf0"));
}

/* Encodes every code point by the definition and asks for it back; surrogates must not come back. */
static void every_code_point_is_read_as_itself(void **state) {
  (void)state;
  for (uint32_t code = 0; code < 0x110000; code++) {
    char text[4];
    size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = len - 1; i > 0; i--)
      text[i] = (char)(0x80 | (code >> 6 * (len - 1 - i) & 0x3f));
    text[0] = (char)(lead[len] | code >> 6 * (len - 1));
    uint32_t read = UINT32_MAX;
    bool surrogate = code >= 0xd800 && code <= 0xdfff;
    if (idem_utf8_decode(text, len, &read) != (surrogate ? 0 : len)) fail();
    if (!surrogate && read != code) fail();
    if (idem_utf8_decode(text, len - 1, &read) != 0) fail();
  }
}

static void a_cut_never_splits_a_character(void **state) {
  (void)state;
  const char *text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
  const size_t wanted[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
  for (size_t max = 0; max < 13; max++) assert_int_equal(idem_utf8_cut(text, 11, max), wanted[max]);
}

static void a_cut_of_garbage_still_ends(void **state) {
  (void)state;
  assert_int_equal(idem_utf8_cut("\x80\x80\x80\x80\x80\x80", 6, 5), 5);
  assert_int_equal(idem_utf8_cut("\x80\x80", 2, 0), 0);
  assert_int_equal(idem_utf8_cut(NULL, 0, 10), 0);
}

static void ascii_is_compared_without_case_and_nothing_else_is(void **state) {
  (void)state;
  assert_true(idem__text_equal_nocase("Content-LENGTH", 14, "content-length", 14));
  assert_false(idem__text_equal_nocase("abc", 3, "abcd", 4));
  assert_false(idem__text_equal_nocase("abc", 3, "abd", 3));
  assert_false(idem__text_equal_nocase("[", 1, "{", 1));
  assert_false(idem__text_equal_nocase("@", 1, "`", 1));
  assert_false(idem__text_equal_nocase("\xc3\x89", 2, "\xc3\xa9", 2));
}

static void ordinary_text_passes_unescaped(void **state) {
  (void)state;
  ESCAPES("", "");
  ESCAPES("tools/call \"x\" 'y' {1}", "tools/call \"x\" 'y' {1}");
  ESCAPES("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
}

static void control_characters_are_escaped(void **state) {
  (void)state;
  ESCAPES("a\nb\rc\td", "a\\nb\\rc\\td");
  ESCAPES("\0\x1b[31m\x7f", "\\x00\\x1b[31m\\x7f");
  ESCAPES("\xc2\x80\xc2\x85\xc2\x9b\xc2\xa0", "\\u{0080}\\u{0085}\\u{009b}\xc2\xa0");
  ESCAPES("back\\slash", "back\\\\slash");
}

static void marks_that_turn_or_break_text_are_escaped(void **state) {
  (void)state;
  ESCAPES("\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f", "\\u{061c}\\u{200e}\\u{200f}");
  ESCAPES("\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa\xe2\x80\xae",
          "\\u{2028}\\u{2029}\\u{202a}\\u{202e}");
  ESCAPES("\xe2\x81\xa6\xe2\x81\xa9\xef\xbb\xbf", "\\u{2066}\\u{2069}\\u{feff}");
  ESCAPES("\xe2\x80\x90\xe2\x81\xaa", "\xe2\x80\x90\xe2\x81\xaa");
}

static void invalid_bytes_are_shown_one_by_one(void **state) {
  (void)state;
  ESCAPES("\xff\xfe", "\\xff\\xfe");
  ESCAPES("\xe2\x82x", "\\xe2\\x82x");
  ESCAPES("\xed\xa0\x80", "\\xed\\xa0\\x80");
}

static void long_text_is_cut_with_three_dots(void **state) {
  (void)state;
  expect_escape("abcdef", 6, 6, "abcdef");
  expect_escape("abcdef", 6, 5, "abcde...");
  expect_escape("a\xc3\xa9z", 4, 2, "a...");
  expect_escape("abc", 3, 0, "...");
}

/* Whatever the bytes, what comes out is printable. Walks all pairs and, spread out, triples. */
static void no_bytes_at_all_yield_a_control_character(void **state) {
  (void)state;
  char storage[64];
  idem_buf out;
  for (unsigned bytes = 0; bytes < 0x1000000; bytes += bytes < 0x10000 ? 1 : 251) {
    char text[3] = {(char)bytes, (char)(bytes >> 8), (char)(bytes >> 16)};
    idem_buf_fixed(&out, storage, sizeof storage);
    assert_int_equal(idem_text_escape(&out, text, 3, SIZE_MAX), IDEM_OK);
    if (!idem_utf8_valid(out.data, out.len)) fail();
    for (size_t i = 0; i < out.len; i++)
      if ((unsigned char)out.data[i] < 0x20 || out.data[i] == 0x7f) fail();
  }
}

static void json_strings_are_quoted_and_escaped(void **state) {
  (void)state;
  JSON("", "\"\"");
  JSON("a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
  JSON("\n\r\t\b\0\x1f\x7f", "\"\\n\\r\\t\\u0008\\u0000\\u001f\\u007f\"");
  JSON("\xc3\xa9\xf0\x9f\x98\x80", "\"\xc3\xa9\xf0\x9f\x98\x80\"");
  JSON("\xc2\x85\xe2\x80\xae\xe2\x80\xa8", "\"\\u0085\\u202e\\u2028\"");
  JSON("a\xff\xe2\x82z", "\"a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\"");
}

/* Eight bytes are looked at together: what needs an escape must be seen in each place. */
static void json_escapes_are_seen_wherever_they_stand(void **state) {
  (void)state;
  for (int byte = 0; byte < 0x80; byte++) {
    bool plain = byte >= 0x20 && byte != '"' && byte != '\\' && byte != 0x7f;
    for (size_t at = 0; at < 19; at++) {
      char text[19];
      idem_buf out;
      memset(text, '!', sizeof text); /* one past a blank, one before a quotation mark */
      text[at] = (char)byte;
      idem_buf_init(&out, NULL, 4096);
      assert_int_equal(idem_text_json_string(&out, text, sizeof text), IDEM_OK);
      assert_int_equal(out.len > sizeof text + 2, !plain);
      assert_int_equal(out.data[at + 1], plain ? byte : '\\');
      idem_buf_deinit(&out);
    }
  }
}

static void escaping_that_does_not_fit_leaves_the_buffer_as_it_was(void **state) {
  (void)state;
  const char text[] = "abc\n\xff\xe2\x80\xae\"end";
  for (size_t room = 0; room < 24; room++) {
    char storage[32];
    idem_buf out;
    idem_buf_fixed(&out, storage, room + 2);
    idem_buf_puts(&out, "k:");
    if (idem_text_escape(&out, text, sizeof text - 1, 10) != IDEM_OK) assert_int_equal(out.len, 2);
    out.len = 2;
    if (idem_text_json_string(&out, text, sizeof text - 1) != IDEM_OK) assert_int_equal(out.len, 2);
    assert_memory_equal(storage, "k:", 2);
  }
}

static void escape_twice(fault_alloc *fault, void *user) {
  (void)user;
  idem_buf out;
  idem_buf_init(&out, &fault->alloc, 1 << 16);
  char text[400];
  memset(text, '\x01', sizeof text);
  (void)idem_text_escape(&out, text, sizeof text, SIZE_MAX);
  (void)idem_text_json_string(&out, text, sizeof text);
  idem_buf_deinit(&out);
}

static void bytes_are_written_as_two_digits_each(void **state) {
  (void)state;
  const uint8_t bytes[] = {0x00, 0x09, 0x0a, 0x7f, 0x80, 0xf0, 0xff};
  char text[2 * sizeof bytes + 2];
  memset(text, '#', sizeof text);
  idem__text_hex(text, bytes, sizeof bytes);
  assert_string_equal(text, "00090a7f80f0ff");
  assert_int_equal(text[sizeof text - 1], '#');
  idem__text_hex(text, bytes, 0);
  assert_string_equal(text, "");
}

static void no_want_of_memory_leaks(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(escape_twice, NULL, 100) >= 4);
}

static void expect_word(const char *text, size_t len, size_t max, const char *wanted) {
  idem_buf out;
  idem_buf_init(&out, NULL, 4096);
  assert_int_equal(idem_text_word(&out, text, len, max), IDEM_OK);
  idem_buf_put(&out, "", 1);
  assert_string_equal(out.data, wanted);
  idem_buf_deinit(&out);
}
#define WORD(literal, max, wanted) expect_word(literal, sizeof(literal) - 1, max, wanted)

static void a_word_stays_one_word(void **state) {
  (void)state;
  WORD("alice@b.example", SIZE_MAX, "alice@b.example");
  WORD("Zo\xc3\xab", SIZE_MAX, "Zo\xc3\xab");
  WORD("a b=c", SIZE_MAX, "a%20b=c");
  WORD("100%, \"x\" 'y' \\", SIZE_MAX, "100%25,%20%22x%22%20%27y%27%20%5C");
  WORD("a\r\nb\x7f\0", SIZE_MAX, "a%0D%0Ab%7F%00");
  WORD("\xe2\x80\xae\xff", SIZE_MAX, "%E2%80%AE%FF");
  WORD("", 0, "");
}

static void a_word_is_cut_between_characters(void **state) {
  (void)state;
  WORD("abc", 3, "abc");
  WORD("abcd", 3, "abc...");
  WORD("a b", 3, "a...");
  WORD("a b", 4, "a%20...");
  WORD("a\xc3\xab", 2, "a...");
  WORD("\xe2\x80\xae", 8, "...");
  char text[4];
  idem_buf out;
  idem_buf_fixed(&out, text, sizeof text);
  idem_buf_puts(&out, "x");
  assert_int_equal(idem_text_word(&out, "a b", 3, SIZE_MAX), IDEM_E_LIMIT);
  assert_int_equal(out.len, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(well_formed_utf8_is_valid),
      cmocka_unit_test(malformed_utf8_is_not),
      cmocka_unit_test(a_truncated_sequence_is_invalid_at_every_length),
      cmocka_unit_test(every_code_point_is_read_as_itself),
      cmocka_unit_test(a_cut_never_splits_a_character),
      cmocka_unit_test(a_cut_of_garbage_still_ends),
      cmocka_unit_test(ascii_is_compared_without_case_and_nothing_else_is),
      cmocka_unit_test(bytes_are_written_as_two_digits_each),
      cmocka_unit_test(ordinary_text_passes_unescaped),
      cmocka_unit_test(control_characters_are_escaped),
      cmocka_unit_test(marks_that_turn_or_break_text_are_escaped),
      cmocka_unit_test(invalid_bytes_are_shown_one_by_one),
      cmocka_unit_test(long_text_is_cut_with_three_dots),
      cmocka_unit_test(no_bytes_at_all_yield_a_control_character),
      cmocka_unit_test(json_strings_are_quoted_and_escaped),
      cmocka_unit_test(json_escapes_are_seen_wherever_they_stand),
      cmocka_unit_test(escaping_that_does_not_fit_leaves_the_buffer_as_it_was),
      cmocka_unit_test(a_word_stays_one_word),
      cmocka_unit_test(a_word_is_cut_between_characters),
      cmocka_unit_test(no_want_of_memory_leaks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
