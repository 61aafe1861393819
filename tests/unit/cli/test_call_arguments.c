/* test_call_arguments.c - words of a command line become what a tool's schema asks for, or are refused by name. */
#include "support/unit.h"

#include "call/arguments.h"

#include <string.h>
#include <unistd.h>

#define SCHEMA                                                                                     \
  "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"},\"count\":{\"type\":"       \
  "\"integer\",\"minimum\":1},\"loud\":{\"type\":\"boolean\"},\"tags\":{\"type\":\"array\","       \
  "\"items\":{\"type\":\"string\"}},\"deep\":{\"type\":\"object\"}},\"required\":[\"text\"]}"

/* What is made, or the sentences of what is wrong. */
static void makes(const char *schema, const char *data, char **words, int count,
                  const char *expected) {
  call_options options = {.kind = CALL_TOOL, .data = data, .values = words, .value_count = count};
  call_arguments given;
  text out = {.data = NULL}, why = {.data = NULL}, note = {.data = NULL};
  yyjson_doc *doc = schema ? yyjson_read(schema, strlen(schema), YYJSON_READ_NUMBER_AS_RAW) : NULL;
  assert_true(arguments_read(&given, &options));
  bool fine = arguments_make(&given, yyjson_doc_get_root(doc), &out, &why, &note);
  if (fine)
    assert_string_equal(out.data, expected);
  else if (!strstr(why.data, expected))
    assert_string_equal(why.data, expected);
  text_free(&out);
  text_free(&why);
  text_free(&note);
  arguments_free(&given);
  yyjson_doc_free(doc);
}
#define WORDS(...) (char *[]){__VA_ARGS__}, (int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *))

static void values_have_the_types_of_the_schema(void **state) {
  (void)state;
  makes(SCHEMA, NULL, WORDS("text=7", "count=7", "loud=true"),
        "{\"text\":\"7\",\"count\":7,\"loud\":true}");
  makes(SCHEMA, NULL, WORDS("text=", "tags=a", "tags=b=c"),
        "{\"text\":\"\",\"tags\":[\"a\",\"b=c\"]}");
  makes(SCHEMA, NULL, WORDS("text=x", "tags=one"), "{\"text\":\"x\",\"tags\":[\"one\"]}");
  makes(SCHEMA, NULL, WORDS("text=x", "deep={\"a\":1}"), "{\"text\":\"x\",\"deep\":{\"a\":1}}");
  makes(NULL, NULL, WORDS("n=1"), "{\"n\":\"1\"}");
}

static void json_is_taken_at_its_word(void **state) {
  (void)state;
  makes(SCHEMA, NULL, WORDS("text:=\"a\"", "count:=12345678901234567890123"),
        "{\"text\":\"a\",\"count\":12345678901234567890123}");
  makes(SCHEMA, NULL, WORDS("text=x", "count:=\"3\""), "count");
  makes(SCHEMA, "{\"text\":\"base\",\"count\":3}", WORDS("text=over"),
        "{\"text\":\"over\",\"count\":3}");
}

static void what_the_schema_refuses_is_named(void **state) {
  (void)state;
  makes(SCHEMA, NULL, WORDS("text=x", "count=0"), "arguments.count");
  makes(SCHEMA, NULL, WORDS("text=x", "count=many"), "arguments.count");
  makes(SCHEMA, NULL, WORDS("count=2"), "text");
  makes(SCHEMA, NULL, WORDS("text=x", "cuont=2"),
        "there is no argument cuont; did you mean count?");
}

static void both_faults_are_told(void **state) {
  (void)state;
  makes(SCHEMA, NULL, WORDS("count=0", "loud=maybe"), "arguments.loud");
  makes(SCHEMA, NULL, WORDS("count=0", "loud=maybe"), "arguments.count");
}

static void a_schema_that_is_none_is_told_and_the_words_are_sent(void **state) {
  (void)state;
  const char *bad = "{\"type\":\"object\",\"properties\":{\"a\":{\"pattern\":\"(\"}}}";
  call_options options = {.kind = CALL_TOOL, .values = (char *[]){"a=1"}, .value_count = 1};
  call_arguments given;
  text out = {.data = NULL}, why = {.data = NULL}, note = {.data = NULL};
  yyjson_doc *doc = yyjson_read(bad, strlen(bad), 0);
  assert_true(arguments_read(&given, &options));
  assert_true(arguments_make(&given, yyjson_doc_get_root(doc), &out, &why, &note));
  assert_string_equal(out.data, "{\"a\":\"1\"}");
  assert_true(strstr(note.data, "pattern") != NULL);
  text_free(&out);
  text_free(&why);
  text_free(&note);
  arguments_free(&given);
  yyjson_doc_free(doc);
}

static void files_are_values(void **state) {
  (void)state;
  char path[] = "/tmp/idem-call-XXXXXX", word[64];
  int fd = mkstemp(path);
  assert_true(fd >= 0 && write(fd, "two\nlines", 9) == 9);
  close(fd);
  snprintf(word, sizeof word, "text=@%s", path);
  makes(SCHEMA, NULL, WORDS(word), "{\"text\":\"two\\nlines\"}");
  unlink(path);
}

static void what_is_no_json_is_refused_before_anything_is_sent(void **state) {
  (void)state;
  static const char *const wrong[] = {"a:={", "a:=", "a=@/no/such/file"};
  for (size_t i = 0; i < 3; i++) {
    char *word = (char *)wrong[i];
    call_options options = {.kind = CALL_TOOL, .values = &word, .value_count = 1};
    call_arguments given;
    assert_false(arguments_read(&given, &options));
    arguments_free(&given);
  }
  call_options list = {.kind = CALL_TOOL, .data = "[1]"};
  call_arguments given;
  assert_false(arguments_read(&given, &list));
  arguments_free(&given);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_have_the_types_of_the_schema),
      cmocka_unit_test(json_is_taken_at_its_word),
      cmocka_unit_test(what_the_schema_refuses_is_named),
      cmocka_unit_test(both_faults_are_told),
      cmocka_unit_test(a_schema_that_is_none_is_told_and_the_words_are_sent),
      cmocka_unit_test(files_are_values),
      cmocka_unit_test(what_is_no_json_is_refused_before_anything_is_sent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
