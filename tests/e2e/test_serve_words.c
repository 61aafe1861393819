/* test_serve_words.c - hostile values stay what they are: a part of one argument of a program. */
#include "serving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A program that shows its arguments, each in brackets. */
#define SHOW "\"sh\",\"-c\",\"for a; do printf '[%s]' \\\"$a\\\"; done\",\"show\""

static const char config[] =
    "{\"tools\":{\n"
    " \"plain\":{\"args\":{\"a\":\"string\"},\"run\":[" SHOW ",\"{a}\"]},\n"
    " \"dashes\":{\"args\":{\"a\":\"string\"},\"run\":[" SHOW ",\"--\",\"{a}\"]},\n"
    " \"flag\":{\"args\":{\"a?\":\"string\",\"n?\":\"integer\",\"b?\":\"boolean\"},\n"
    "  \"run\":[" SHOW ",[\"--a\",\"{a}\"],[\"--n\",\"{n}\"],\n"
    "  {\"if\":\"b\",\"then\":[\"-b\"],\"else\":[\"-B\"]},\"--eq={a}\",\"end\"]},\n"
    " \"list\":{\"args\":{\"a\":\"string[]\"},\"run\":[" SHOW
    ",\"{a}\",[\"-I\",\"x{a}\"],\"{{}}\"]},\n"
    " \"numbers\":{\"args\":{\"a\":{\"type\":\"array\"}},\"run\":[" SHOW ",\"{a}\"]},\n"
    " \"within\":{\"args\":{\"file\":\"string\"},\"run\":[\"cat\",\"{file}\"],"
    "\"inside\":{\"file\":\".\"}},\n"
    " \"feed\":{\"args\":{\"a\":\"string\"},\"run\":[\"cat\"],\"stdin\":\"<{a}>\"},\n"
    " \"env\":{\"args\":{\"a\":\"string\",\"b?\":\"string\",\"file?\":\"string\"},"
    "\"inside\":{\"file\":\".\"},\n"
    "  \"run\":[\"sh\",\"-c\",\"printf '[%s]' \\\"$A\\\" \\\"${{B-unset}}\\\" "
    "\\\"${{F##*/}}\\\"\"],"
    "\"env\":{\"A\":\"<{a}>\",\"B\":\"{b}\",\"F\":\"{file}\"}},\n"
    " \"deaf\":{\"args\":{\"a\":\"string\"},\"run\":[\"true\"],\"stdin\":\"{a}\"}\n"
    "}}";

static int start(void **state) {
  static serving self;
  serving_make(&self, config);
  serving_file(&self, "here.txt", "inside");
  char link[512];
  serving_path(&self, "out", link, sizeof link);
  assert_int_equal(symlink("/etc", link), 0);
  serving_start(&self);
  *state = &self;
  return 0;
}

static int end(void **state) {
  serving_end(*state);
  return 0;
}

static void shell_characters_are_only_characters(void **state) {
  expect_in(serving_call(*state, "plain", "{\"a\":\"$(id) `id` ; | & > x * ~ 'q'\"}"),
            "[$(id) `id` ; | & > x * ~ 'q']");
  expect_in(serving_call(*state, "plain", "{\"a\":\"two\\nlines and spaces\"}"),
            "[two\\nlines and spaces]");
  expect_in(serving_call(*state, "plain", "{\"a\":\"\"}"), "\"text\":\"[]\"");
}

/* Past what fits into a packet to the hand: it comes as a file in memory. */
static void a_long_value_arrives_whole(void **state) {
  static char value[100001];
  char *arguments = NULL, *wanted = NULL;
  for (size_t i = 0; i < sizeof value - 1; i++) value[i] = (char)('a' + i % 26);
  assert_true(asprintf(&arguments, "{\"a\":\"%s\"}", value) > 0);
  assert_true(asprintf(&wanted, "[%s]", value) > 0);
  expect_in(serving_call(*state, "plain", arguments), wanted);
  free(arguments);
  free(wanted);
}

static void more_than_a_program_can_be_given_is_told(void **state) {
  static char words[10000]; /* "1,1,1" */
  char *arguments = NULL;
  memset(words, ',', sizeof words - 1);
  for (size_t i = 0; i < sizeof words - 1; i += 2) words[i] = '1';
  assert_true(asprintf(&arguments, "{\"a\":[%s]}", words) > 0);
  expect_in(serving_call(*state, "numbers", arguments),
            "more than a program can be given (4096 words");
  free(arguments);
}

static void numbers_keep_every_digit(void **state) {
  expect_in(serving_call(*state, "flag", "{\"n\":123456789012345678901234567890}"),
            "[--n][123456789012345678901234567890]");
  expect_in(serving_call(*state, "flag", "{\"n\":-7}"), "[--n][-7]");
}

static void a_leading_dash_is_refused_unless_behind_dashes(void **state) {
  const char *answer = serving_call(*state, "plain", "{\"a\":\"--delete\"}");
  expect_in(answer, "\"isError\":true");
  expect_in(answer, "arguments.a: must not begin with '-'");
  expect_in(serving_call(*state, "dashes", "{\"a\":\"--delete\"}"), "[--][--delete]");
}

static void an_absent_argument_takes_its_flag_along(void **state) {
  expect_in(serving_call(*state, "flag", "{}"), "\"text\":\"[-B][end]\"");
  expect_in(serving_call(*state, "flag", "{\"a\":\"x\",\"b\":true}"),
            "\"text\":\"[--a][x][-b][--eq=x][end]\"");
  expect_in(serving_call(*state, "flag", "{\"n\":-5,\"b\":false}"), "[--n][-5][-B][end]");
  expect_in(serving_call(*state, "flag", "{\"a\":\"-x\"}"), "must not begin with '-'");
}

static void a_list_repeats_its_place(void **state) {
  expect_in(serving_call(*state, "list", "{\"a\":[\"1\",\"2 3\"]}"),
            "\"text\":\"[1][2 3][-I][x1][-I][x2 3][{}]\"");
  expect_in(serving_call(*state, "list", "{\"a\":[]}"), "\"text\":\"[{}]\"");
  expect_in(serving_call(*state, "list", "{\"a\":[\"1\",\"-2\"]}"), "must not begin with '-'");
}

static void a_nul_character_is_refused(void **state) {
  const char *answer = serving_call(*state, "plain", "{\"a\":\"x\\u0000y\"}");
  expect_in(answer, "\"isError\":true");
  expect_in(answer, "arguments.a: must not hold a NUL character");
}

static char *long_argument(size_t len) {
  char *json = malloc(len + 16);
  assert_non_null(json);
  snprintf(json, len + 16, "{\"a\":\"%0*d\"}", (int)len, 0);
  return json;
}

static void a_megabyte_is_refused_as_a_word_and_fed_as_input(void **state) {
  char *json = long_argument(1000000);
  expect_in(serving_call(*state, "plain", json), "too long to be an argument of a program");
  expect_in(serving_call(*state, "feed", json), "\"text\":\"<00000");
  free(json);
}

static void a_program_need_not_read_its_input(void **state) {
  char *json = long_argument(1000000);
  expect_not_in(serving_call(*state, "deaf", json), "isError");
  free(json);
}

static void bad_arguments_name_the_field(void **state) {
  const char *answer = serving_call(*state, "plain", "{\"b\":1}");
  expect_in(answer, "\"isError\":true");
  answer = serving_call(*state, "plain", "{\"a\":1}");
  expect_in(answer, "Invalid arguments for tool plain: a: expected string");
}

static void files_outside_the_folder_are_not_reached(void **state) {
  expect_in(serving_call(*state, "within", "{\"file\":\"here.txt\"}"), "\"text\":\"inside\"");
  expect_in(serving_call(*state, "within", "{\"file\":\"./out/../here.txt\"}"), "isError");
  static const char *const outside[] = {"{\"file\":\"../../../../etc/passwd\"}",
                                        "{\"file\":\"/etc/passwd\"}",
                                        "{\"file\":\"out/passwd\"}",
                                        "{\"file\":\"here.txt\\u0000/../x\"}",
                                        "{\"file\":\"none\"}",
                                        "{\"file\":\"%2e%2e/%2e%2e/etc/passwd\"}",
                                        "{\"file\":\"..%2f..%2fetc%2fpasswd\"}",
                                        "{\"file\":\"%252e%252e%252fetc/passwd\"}",
                                        "{\"file\":\"....//....//etc/passwd\"}",
                                        "{\"file\":\"..\\\\..\\\\etc\\\\passwd\"}",
                                        "{\"file\":\"\\u002e\\u002e/\\u002e\\u002e/etc/passwd\"}",
                                        "{\"file\":\"\\uff0e\\uff0e/etc/passwd\"}",
                                        "{\"file\":\"file:///etc/passwd\"}",
                                        "{\"file\":\"~/.profile\"}",
                                        "{\"file\":\"/proc/self/root/etc/passwd\"}",
                                        "{\"file\":\"./././../x/../../etc/passwd\"}",
                                        "{\"file\":\"-n\"}",
                                        "{\"file\":\"\"}",
                                        "{\"file\":\".\"}",
                                        "{\"file\":\"./\"}"};
  for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
    expect_in(serving_call(*state, "within", outside[i]), "no such file in the folder");
}

/* For shells: what a variable holds is not read as a part of their text. */
static void a_value_in_the_environment_stays_one_value(void **state) {
  expect_in(serving_call(*state, "env", "{\"a\":\"$(id) `id` \\\" ; x\\ny\"}"),
            "\"text\":\"[<$(id) `id` \\\" ; x\\ny>][unset][]\"");
  expect_in(
      serving_call(*state, "env", "{\"a\":\"LD_PRELOAD=x\",\"b\":\"\",\"file\":\"here.txt\"}"),
      "\"text\":\"[<LD_PRELOAD=x>][][here.txt]\"");
  expect_in(serving_call(*state, "env", "{\"a\":\"x\",\"file\":\"out/passwd\"}"),
            "arguments.file: no such file");
  expect_in(serving_call(*state, "env", "{\"a\":\"x\\u0000B=y\"}"), "must not hold a NUL");
  char *large = NULL;
  assert_true(asprintf(&large, "{\"a\":\"%0140000d\"}", 0) > 0);
  expect_in(serving_call(*state, "env", large), "arguments.a: too long");
  free(large);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shell_characters_are_only_characters),
      cmocka_unit_test(a_value_in_the_environment_stays_one_value),
      cmocka_unit_test(a_long_value_arrives_whole),
      cmocka_unit_test(more_than_a_program_can_be_given_is_told),
      cmocka_unit_test(numbers_keep_every_digit),
      cmocka_unit_test(a_leading_dash_is_refused_unless_behind_dashes),
      cmocka_unit_test(an_absent_argument_takes_its_flag_along),
      cmocka_unit_test(a_list_repeats_its_place),
      cmocka_unit_test(a_nul_character_is_refused),
      cmocka_unit_test(a_megabyte_is_refused_as_a_word_and_fed_as_input),
      cmocka_unit_test(a_program_need_not_read_its_input),
      cmocka_unit_test(bad_arguments_name_the_field),
      cmocka_unit_test(files_outside_the_folder_are_not_reached),
  };
  return cmocka_run_group_tests(tests, start, end);
}
