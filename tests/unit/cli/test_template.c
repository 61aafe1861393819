/* test_template.c - a value becomes a part of one word, never two words, never an option. */
#include "support/unit.h"

#include "config/template.h"

#include <stdlib.h>

/* Words joined by '|', or the sentence of what is wrong. */
static void expands(const char *template_json, const char *arguments, const char *expected) {
  config_memory memory = {0};
  arguments_template made = {0};
  template_fault fault = {{0}};
  word_list words = {0};
  char text[1024] = "";
  yyjson_doc *array = yyjson_read(template_json, strlen(template_json), 0);
  yyjson_doc *given = yyjson_read(arguments, strlen(arguments), YYJSON_READ_NUMBER_AS_RAW);
  yyjson_val *at;
  const char *why = template_compile(&made, yyjson_doc_get_root(array), &memory, &at);
  const values from = {.arguments = yyjson_doc_get_root(given)};
  if (!why && !template_expand(&made, &from, &words, &fault)) why = fault.sentence;
  for (size_t i = 0; i < words.count && !why; i++) {
    if (i) strcat(text, "|");
    strncat(text, words.items[i], 200);
  }
  if (why)
    assert_true(strstr(why, expected) != NULL);
  else
    assert_string_equal(text, expected);
  word_list_free(&words);
  yyjson_doc_free(given);
  yyjson_doc_free(array);
  memory_free(&memory);
}

static void a_value_is_one_word(void **state) {
  (void)state;
  expands("[\"grep\",\"{what}\"]", "{\"what\":\"a b; $(c) 'd' \\\"e\\\"\"}",
          "grep|a b; $(c) 'd' \"e\"");
  expands("[\"x={a}{b}!\"]", "{\"a\":\"1\",\"b\":true}", "x=1true!");
  expands("[\"{{a}}\"]", "{}", "{a}");
  expands("[\"{n}\"]", "{\"n\":123456789012345678901234567890}", "123456789012345678901234567890");
}

static void a_value_becomes_no_option(void **state) {
  (void)state;
  expands("[\"{a}\"]", "{\"a\":\"-rf\"}", "must not begin with '-'");
  expands("[\"--\",\"{a}\"]", "{\"a\":\"-rf\"}", "--|-rf");
  expands("[\"x{a}\"]", "{\"a\":\"-rf\"}", "x-rf");
  expands("[[\"--offset\",\"{a}\"]]", "{\"a\":-3}", "--offset|-3");
  expands("[[\"--offset\",\"{a}\"]]", "{\"a\":\"-3\"}", "must not begin with '-'");
  expands("[\"{a}\"]", "{\"a\":-3}", "must not begin with '-'");
}

static void what_is_absent_takes_its_words_along(void **state) {
  (void)state;
  expands("[\"a\",[\"--limit\",\"{n}\"],\"b\"]", "{}", "a|b");
  expands("[\"a\",[\"--limit\",\"{n}\"],\"b\"]", "{\"n\":null}", "a|b");
  expands("[\"a\",[\"--limit\",\"{n}\"],\"b\"]", "{\"n\":5}", "a|--limit|5|b");
}

static void a_list_repeats_its_words(void **state) {
  (void)state;
  expands("[[\"-e\",\"x{l}\"]]", "{\"l\":[\"1\",\"2\"]}", "-e|x1|-e|x2");
  expands("[[\"-e\",\"{l}\"]]", "{\"l\":[]}", "");
  expands("[\"{l}{m}\"]", "{\"l\":[\"1\"],\"m\":[\"2\"]}", "two lists");
  expands("[\"{l}\"]", "{\"l\":[\"ok\",\"-x\"]}", "must not begin with '-'");
}

static void a_condition_chooses(void **state) {
  (void)state;
  static const char either[] = "[{\"if\":\"deep\",\"then\":\"-r\",\"else\":[\"-n\",\"1\"]}]";
  expands(either, "{\"deep\":true}", "-r");
  expands(either, "{\"deep\":false}", "-n|1");
  expands(either, "{}", "-n|1");
}

static void a_brace_alone_is_refused(void **state) {
  (void)state;
  static const char *const bad[] = {"[\"{\"]", "[\"a}\"]", "[\"{}\"]", "[\"{a b}\"]", "[\"{a\"]"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) expands(bad[i], "{}", "brace");
  expands("[\"a\\u0000b\"]", "{}", "NUL");
}

static void words_are_bounded(void **state) {
  (void)state;
  template_fault fault;
  word_list words = {0};
  for (size_t i = 0; i < WORDS_MAX; i++) assert_true(word_list_add(&words, "x", 1, &fault));
  assert_false(word_list_add(&words, "x", 1, &fault));
  assert_null(words.items[words.count]);
  word_list_free(&words);
  char *large = calloc(1, WORDS_BYTES_MAX + 1);
  assert_false(word_list_add(&words, large, WORDS_BYTES_MAX + 1, &fault));
  assert_true(word_list_add(&words, large, WORDS_BYTES_MAX, &fault));
  word_list_free(&words);
  free(large);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_value_is_one_word),
      cmocka_unit_test(a_value_becomes_no_option),
      cmocka_unit_test(what_is_absent_takes_its_words_along),
      cmocka_unit_test(a_list_repeats_its_words),
      cmocka_unit_test(a_condition_chooses),
      cmocka_unit_test(a_brace_alone_is_refused),
      cmocka_unit_test(words_are_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
