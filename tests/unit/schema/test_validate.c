/* test_validate.c - verdicts, errors that can be acted on, and the bounds of a validation. */
#include "schema_help.h"

#include <time.h>

static const char tool[] =
    "{\"type\":\"object\",\"properties\":{\"count\":{\"type\":\"integer\",\"minimum\":1},"
    "\"unit\":{\"enum\":[\"celsius\",\"kelvin\"]},\"tags\":{\"type\":\"array\",\"items\":"
    "{\"type\":\"string\",\"minLength\":2},\"uniqueItems\":true},"
    "\"odd name\":{\"type\":\"null\"}},"
    "\"required\":[\"count\"],\"additionalProperties\":false}";

static void expect_sentence(judge *j, const char *instance, const char *sentence) {
  assert_false(accepts(j, instance));
  assert_int_equal(j->status, IDEM_OK);
  assert_true(j->result.error_count > 0);
  assert_string_equal(j->result.errors[0].sentence, sentence);
}

static void sentences_say_what_to_change(void **state) {
  (void)state;
  judge j = judge_new(compile(tool));
  j.check.root_name = "arguments";
  expect_sentence(&j, "{\"count\":\"3\"}",
                  "arguments.count: expected integer >= 1, received string");
  expect_sentence(&j, "{\"count\":0}",
                  "arguments.count: expected integer >= 1, received a number that is too small");
  expect_sentence(
      &j, "{}",
      "arguments: expected property \"count\" (integer >= 1), received an object without it");
  expect_sentence(
      &j, "{\"count\":1,\"unit\":\"celcius\"}",
      "arguments.unit: expected one of \"celsius\", \"kelvin\", received another string, "
      "did you mean \"celsius\"?");
  expect_sentence(&j, "{\"count\":1,\"cuont\":2}",
                  "arguments.cuont: expected only known properties, received the unknown property "
                  "\"cuont\", did you mean \"count\"?");
  expect_sentence(&j, "{\"count\":1,\"tags\":[\"ab\",\"c\"]}",
                  "arguments.tags[1]: expected at least 2 characters, received 1");
  expect_sentence(
      &j, "{\"count\":1,\"tags\":[\"ab\",\"cd\",\"ab\"]}",
      "arguments.tags: expected items that all differ, received the same value at 0 and 2");
  expect_sentence(&j, "{\"count\":1,\"odd name\":1}",
                  "arguments[\"odd name\"]: expected null, received integer");
  expect_sentence(&j, "[]", "arguments: expected object, received array");
  judge_free(&j);
}

static void an_error_names_its_places(void **state) {
  (void)state;
  judge j = judge_new(compile("{\"properties\":{\"a/b\":{\"prefixItems\":[true,{\"$ref\":"
                              "\"#/$defs/n\"}]}},\"$defs\":{\"n\":{\"maximum\":5}}}"));
  assert_false(accepts(&j, "{\"a/b\":[1,6]}"));
  assert_int_equal(j.result.error_count, 1);
  const idem_schema_error *e = j.result.errors;
  assert_string_equal(e->instance_path, "/a~1b/1");
  assert_string_equal(e->schema_path, "#/$defs/n/maximum");
  assert_string_equal(e->keyword, "maximum");
  assert_string_equal(e->expected, "number <= 5");
  assert_string_equal(e->received, "a number that is too large");
  judge_free(&j);
}

static void values_are_shown_only_on_request_and_never_for_logs(void **state) {
  (void)state;
  judge j = judge_new(compile(tool));
  static const char secret[] = "{\"count\":1,\"unit\":\"hunter2\"}";
  assert_false(accepts(&j, secret));
  assert_null(strstr(j.result.errors[0].sentence, "hunter2"));
  assert_null(strstr(j.result.errors[0].received, "hunter2"));
  j.check.show_values = true;
  assert_false(accepts(&j, secret));
  assert_non_null(strstr(j.result.errors[0].sentence, "hunter2"));
  assert_null(strstr(j.result.errors[0].log_sentence, "hunter2"));
  judge_free(&j);
}

static void hostile_names_cannot_forge_lines(void **state) {
  (void)state;
  judge j = judge_new(compile("{\"additionalProperties\":false}"));
  assert_false(accepts(&j, "{\"a\\nERROR \\u202e\":1}"));
  const idem_schema_error *e = j.result.errors;
  const char *texts[] = {e->sentence, e->instance_path, e->received};
  for (size_t i = 0; i < 3; i++) {
    assert_null(strchr(texts[i], '\n'));
    assert_null(strstr(texts[i], "\xe2\x80\xae"));
  }
  judge_free(&j);
}

static void all_errors_are_collected_up_to_the_bound(void **state) {
  (void)state;
  judge j = judge_new(compile("{\"items\":{\"type\":\"null\"}}"));
  assert_false(accepts(&j, "[1,2,3,4]"));
  assert_int_equal(j.result.error_count, 1);
  j.check.all_errors = true;
  assert_false(accepts(&j, "[1,null,3,4]"));
  assert_int_equal(j.result.error_count, 3);
  assert_string_equal(j.result.errors[2].instance_path, "/3");
  assert_false(j.result.truncated);
  j.check.max_errors = 2;
  assert_false(accepts(&j, "[1,2,3,4]"));
  assert_int_equal(j.result.error_count, 2);
  assert_true(j.result.truncated);
  j.check.verdict_only = true;
  assert_false(accepts(&j, "[1,2,3,4]"));
  assert_int_equal(j.result.error_count, 0);
  judge_free(&j);
}

static void a_choice_is_described_by_its_alternatives(void **state) {
  (void)state;
  judge j = judge_new(compile("{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"object\","
                              "\"required\":[\"a\"]}]}"));
  j.check.all_errors = true;
  assert_false(accepts(&j, "{}"));
  assert_string_equal(j.result.errors[0].sentence,
                      "value: expected string or object, received an object");
  assert_string_equal(j.result.errors[1].keyword, "required");
  judge_free(&j);
  j = judge_new(compile("{\"oneOf\":[{\"minimum\":1},{\"maximum\":5}]}"));
  assert_false(accepts(&j, "3"));
  assert_string_equal(j.result.errors[0].received, "a value that matches alternatives 0 and 1");
  judge_free(&j);
}

static void text_that_is_not_json_is_said_to_be_so(void **state) {
  (void)state;
  judge j = judge_new(compile("true"));
  assert_false(accepts(&j, "{\"a\":tru}"));
  assert_int_equal(j.status, IDEM_E_INVAL);
  assert_int_equal(j.result.error_count, 1);
  assert_non_null(strstr(j.result.errors[0].sentence, "expected JSON text"));
  assert_false(accepts(&j, ""));
  assert_int_equal(j.status, IDEM_E_INVAL);
  judge_free(&j);
}

static void numbers_in_text_are_exact(void **state) {
  (void)state;
  assert_false(valid("{\"type\":\"integer\"}", "1.00000000000000000000000001"));
  assert_true(valid("{\"type\":\"integer\"}", "1.000000000000000000000000000"));
  assert_true(valid("{\"type\":\"integer\"}", "1e3"));
  assert_false(valid("{\"maximum\":9007199254740992}", "9007199254740993"));
  assert_true(
      valid("{\"const\":123456789012345678901234567890}", "123456789012345678901234567890.0"));
  assert_false(
      valid("{\"const\":123456789012345678901234567890}", "123456789012345678901234567891"));
  assert_true(valid("{\"multipleOf\":0.01}", "4.35"));
  assert_false(valid("{\"uniqueItems\":true}", "[1,1.0]"));
  assert_true(valid("{\"uniqueItems\":true}", "[1,true,\"1\",[1],{\"a\":1}]"));
  assert_true(valid("{\"maxLength\":1}", "\"\xf0\x9f\x90\xb2\""));
  assert_false(valid("{\"minLength\":2}", "\"\xf0\x9f\x90\xb2\""));
}

static void parsed_values_with_raw_numbers_are_judged_alike(void **state) {
  (void)state;
  judge j = judge_new(compile("{\"items\":{\"type\":\"integer\",\"multipleOf\":3},"
                              "\"uniqueItems\":true}"));
  static const char text[] = "[3,123456789012345678901234567890,6.0]";
  static const yyjson_read_flag flags[] = {YYJSON_READ_BIGNUM_AS_RAW, YYJSON_READ_NUMBER_AS_RAW};
  for (size_t i = 0; i < 2; i++) {
    yyjson_doc *doc = yyjson_read(text, sizeof text - 1, flags[i]);
    assert_int_equal(
        idem_schema_validate(j.schema, j.ctx, yyjson_doc_get_root(doc), NULL, &j.result), IDEM_OK);
    assert_true(j.result.valid);
    yyjson_doc_free(doc);
  }
  judge_free(&j);
}

/* ------------------------------------------------------------------ bounds */

static double seconds_since(const struct timespec *start) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

/* The validation must end soon with the named bound: neither a pass nor a crash. */
static void limited_by(const char *schema, const char *instance, const char *bound) {
  struct timespec start;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
  judge j = judge_new(compile(schema));
  j.check.all_errors = true;
  assert_false(accepts(&j, instance));
  assert_int_equal(j.status, IDEM_E_LIMIT);
  assert_false(j.result.valid);
  assert_string_equal(j.result.limit, bound);
  judge_free(&j);
  assert_true(seconds_since(&start) <
              20); /* of a processor; generous: sanitizers, a slow machine */
}

/* Each level tries the next one `fan` times. */
static char *exponential(const char *group, unsigned levels) {
  char *text = malloc(200 * (levels + 1) + 100), *at = text;
  assert_non_null(text);
  at += sprintf(at, "{\"$ref\":\"#/$defs/l0\",\"$defs\":{");
  for (unsigned i = 0; i < levels; i++)
    at += sprintf(at, "\"l%u\":{\"%s\":[{\"$ref\":\"#/$defs/l%u\"},{\"$ref\":\"#/$defs/l%u\"}]},",
                  i, group, i + 1, i + 1);
  sprintf(at, "\"l%u\":{\"type\":\"%s\"}}}", levels, strcmp(group, "anyOf") ? "number" : "null");
  return text;
}

static void exponential_trees_end_at_the_step_bound(void **state) {
  (void)state;
  static const char *const groups[] = {"allOf", "anyOf", "oneOf"};
  for (size_t i = 0; i < 3; i++) {
    char *schema = exponential(groups[i], 60);
    limited_by(schema, "1", "max_steps");
    free(schema);
  }
}

static void self_references_end_at_the_reference_bound(void **state) {
  (void)state;
  limited_by("{\"$ref\":\"#\"}", "1", "max_references");
  limited_by("{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},"
             "\"b\":{\"$ref\":\"#/$defs/a\"}}}",
             "1", "max_references");
  limited_by("{\"$dynamicAnchor\":\"x\",\"$dynamicRef\":\"#x\"}", "1", "max_references");
  limited_by("{\"not\":{\"$ref\":\"#\"}}", "1", "max_references");
}

static void deep_instances_end_at_the_depth_bound(void **state) {
  (void)state;
  char *deep = nested("[", "", "]", 10000);
  limited_by("{\"items\":{\"$ref\":\"#\"}}", deep, "max_depth");
  char *twins = malloc(2 * strlen(deep) + 8);
  assert_non_null(twins);
  sprintf(twins, "[%s,%s]", deep, deep);
  limited_by("{\"uniqueItems\":true}", twins, "max_depth");
  assert_true(valid("{\"items\":true,\"minItems\":1}", twins)); /* nobody looks inside */
  free(twins);
  free(deep);
}

static void backtracking_patterns_end_at_the_regex_bound(void **state) {
  (void)state;
  limited_by("{\"pattern\":\"^(a+)+\\\\1$\"}",
             "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\"", "max_regex_steps");
  limited_by("{\"patternProperties\":{\"^(?!(a|aa)+$)\":false}}",
             "{\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\":1}",
             "max_regex_steps");
}

/* A name is judged by a pattern of ours, which must not turn "no steps left" into "invalid". */
static void formats_end_at_the_regex_bound(void **state) {
  (void)state;
  idem_schema_opts opts = {.assert_formats = true};
  judge j = judge_new(compile_with(&opts, "{\"format\":\"hostname\"}"));
  assert_true(accepts(&j, "\"xn--bcher-kva.example\""));
  j.check.max_regex_steps = 3;
  assert_false(accepts(&j, "\"xn--bcher-kva.example\""));
  assert_int_equal(j.status, IDEM_E_LIMIT);
  assert_string_equal(j.result.limit, "max_regex_steps");
  judge_free(&j);
}

static void bounds_are_settable(void **state) {
  (void)state;
  judge j = judge_new(compile("{\"items\":{\"pattern\":\"(x+x+)+[yz]\"},\"maxItems\":9}"));
  j.check = (idem_schema_check){.max_steps = 3};
  assert_false(accepts(&j, "[\"xxy\",\"xxy\",\"xxy\",\"xxy\"]"));
  assert_string_equal(j.result.limit, "max_steps");
  j.check = (idem_schema_check){.max_depth = 1};
  assert_true(accepts(&j, "[\"xxy\"]"));
  judge_free(&j);
  j = judge_new(compile("{\"items\":{\"items\":{\"pattern\":\"(x+x+)+\\\\1[yz]\"}}}"));
  j.check = (idem_schema_check){.max_depth = 1};
  assert_false(accepts(&j, "[[\"xy\"]]"));
  assert_string_equal(j.result.limit, "max_depth");
  j.check = (idem_schema_check){.max_regex_steps = 50};
  assert_false(accepts(&j, "[[\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"]]"));
  assert_string_equal(j.result.limit, "max_regex_steps");
  j.check = (idem_schema_check){.max_bytes = 3};
  assert_false(accepts(&j, "[1,2]"));
  assert_string_equal(j.result.limit, "max_bytes");
  j.check = (idem_schema_check){0};
  assert_true(accepts(&j, "[1,2]"));
  judge_free(&j);
}

static void huge_enums_cost_a_lookup(void **state) {
  (void)state;
  enum { COUNT = 200000 };
  char *schema = malloc(COUNT * 12 + 32), *at = schema;
  assert_non_null(schema);
  at += sprintf(at, "{\"items\":{\"enum\":[-1");
  for (int i = 0; i < COUNT; i++) at += sprintf(at, ",\"v%d\"", i);
  sprintf(at, "]}}");
  struct timespec start;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
  judge j = judge_new(compile(schema));
  char *instance = malloc(20000 * 12 + 8);
  at = instance;
  at += sprintf(at, "[-1.0");
  for (int i = 0; i < 20000; i++) at += sprintf(at, ",\"v%d\"", COUNT - 1 - i);
  sprintf(at, "]");
  assert_true(accepts(&j, instance));
  assert_false(accepts(&j, "[\"v200000\"]"));
  assert_true(seconds_since(&start) < 20); /* pair by pair it would be hours */
  judge_free(&j);
  free(instance);
  free(schema);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sentences_say_what_to_change),
      cmocka_unit_test(an_error_names_its_places),
      cmocka_unit_test(values_are_shown_only_on_request_and_never_for_logs),
      cmocka_unit_test(hostile_names_cannot_forge_lines),
      cmocka_unit_test(all_errors_are_collected_up_to_the_bound),
      cmocka_unit_test(a_choice_is_described_by_its_alternatives),
      cmocka_unit_test(text_that_is_not_json_is_said_to_be_so),
      cmocka_unit_test(numbers_in_text_are_exact),
      cmocka_unit_test(parsed_values_with_raw_numbers_are_judged_alike),
      cmocka_unit_test(exponential_trees_end_at_the_step_bound),
      cmocka_unit_test(self_references_end_at_the_reference_bound),
      cmocka_unit_test(deep_instances_end_at_the_depth_bound),
      cmocka_unit_test(backtracking_patterns_end_at_the_regex_bound),
      cmocka_unit_test(formats_end_at_the_regex_bound),
      cmocka_unit_test(bounds_are_settable),
      cmocka_unit_test(huge_enums_cost_a_lookup),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
