/* test_compile.c - what is no schema is refused with a reason, and compiling is bounded. */
#include "schema/keyword.h"
#include "schema_help.h"

/* MUST base.schema-valid 2025-11-25+ */
static void bad_keyword_values_are_named(void **state) {
  (void)state;
  static const struct {
    const char *schema, *path;
  } cases[] = {{"{\"type\":\"strong\"}", "#/type"},
               {"{\"type\":[]}", "#/type"},
               {"{\"type\":[\"null\",1]}", "#/type"},
               {"{\"minimum\":\"1\"}", "#/minimum"},
               {"{\"multipleOf\":0}", "#/multipleOf"},
               {"{\"multipleOf\":-0.5}", "#/multipleOf"},
               {"{\"minLength\":-1}", "#/minLength"},
               {"{\"maxItems\":1.5}", "#/maxItems"},
               {"{\"pattern\":\"(\"}", "#/pattern"},
               {"{\"pattern\":1}", "#/pattern"},
               {"{\"patternProperties\":{\"[\":{}}}", "#/patternProperties"},
               {"{\"properties\":[]}", "#/properties"},
               {"{\"properties\":{\"a\":{\"b\":{}},\"c\":{\"enum\":1}}}", "#/properties/c/enum"},
               {"{\"required\":\"a\"}", "#/required"},
               {"{\"required\":[1]}", "#/required"},
               {"{\"allOf\":[]}", "#/allOf"},
               {"{\"allOf\":[{},{\"not\":3}]}", "#/allOf/1/not"},
               {"{\"items\":[{}]}", "#/items"},
               {"{\"uniqueItems\":1}", "#/uniqueItems"},
               {"{\"dependentRequired\":{\"a\":\"b\"}}", "#/dependentRequired"},
               {"{\"$defs\":{\"a/b\":{\"type\":1}}}", "#/$defs/a~1b/type"},
               {"{\"$ref\":1}", "#/$ref"},
               {"{\"$ref\":\"#/$defs/none\"}", "#/$ref"},
               {"{\"$ref\":\"#nowhere\"}", "#/$ref"},
               {"{\"$ref\":\"other.json\"}", "#/$ref"},
               {"{\"$id\":\"x#y\"}", "#/$id"},
               {"{\"$anchor\":1}", "#/$anchor"},
               {"{\"format\":1}", "#/format"},
               {"{\"$schema\":\"http://json-schema.org/draft-04/schema#\"}", "#/$schema"},
               {"{\"$schema\":\"https://json-schema.org/draft/2019-09/schema\"}", "#/$schema"},
               {"{\"$schema\":7}", "#/$schema"},
               {"{\"$defs\":{\"a\":{\"$id\":\"u\"},\"b\":{\"$id\":\"u\"}}}", "#/$defs/b/$id"},
               {"3", "#"},
               {"[]", "#"},
               {"{\"type\":", "#"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    idem_schema_fault fault = refused_with(NULL, cases[i].schema, IDEM_E_INVAL);
    if (strncmp(fault.schema_path, cases[i].path, strlen(cases[i].path)) != 0)
      fail_msg("%s: the path is %s", cases[i].schema, fault.schema_path);
    assert_non_null(strstr(fault.sentence, ": "));
  }
}

/* MUST base.schema-dialect 2025-11-25+ */
static void an_unknown_dialect_is_never_permissive(void **state) {
  (void)state;
  idem_schema_fault fault =
      refused_with(NULL, "{\"$schema\":\"https://example.com/mine\"}", IDEM_E_INVAL);
  assert_non_null(strstr(fault.sentence, "https://example.com/mine"));
  assert_string_equal(fault.keyword, "$schema");
}

static void keywords_are_found_by_their_whole_name(void **state) {
  (void)state;
  for (int k = KEYWORD_NONE + 1; k < KEYWORD_COUNT; k++) {
    const char *text = idem__keyword_text((keyword)k);
    assert_int_equal(idem__keyword_find(text, strlen(text)), k);
    assert_int_equal(idem__keyword_find(text, strlen(text) - 1), KEYWORD_NONE);
  }
  assert_int_equal(idem__keyword_find("unevaluatedPropertiesX", 22), KEYWORD_NONE);
}

/* ---------------------------------------------------------------- registry */

/* MUST base.no-fetch 2026-07-28 */
static void references_reach_registered_documents_only(void **state) {
  (void)state;
  idem_schema_registry *registry;
  static const char list[] = "{\"$id\":\"https://x.test/list\",\"items\":{\"$ref\":\"leaf\"}}";
  static const char leaf[] = "{\"type\":\"integer\",\"$defs\":{\"s\":{\"type\":\"string\"}}}";
  assert_int_equal(idem_schema_registry_new(NULL, &registry), IDEM_OK);
  assert_int_equal(
      idem_schema_registry_add(registry, "https://x.test/list#", list, sizeof list - 1), IDEM_OK);
  assert_int_equal(idem_schema_registry_add(registry, "https://x.test/list", list, 1),
                   IDEM_E_EXISTS);
  assert_int_equal(idem_schema_registry_add(registry, "https://x.test/bad", "{", 1), IDEM_E_INVAL);
  assert_int_equal(idem_schema_registry_add(registry, "", "1", 1), IDEM_E_INVAL);
  idem_schema_opts opts = {.registry = registry, .base_uri = "https://x.test/main"};
  idem_schema_fault fault = refused_with(&opts, "{\"$ref\":\"list\"}", IDEM_E_INVAL);
  assert_non_null(strstr(fault.sentence, "leaf leads to nothing"));
  assert_int_equal(idem_schema_registry_add(registry, "https://x.test/leaf", leaf, sizeof leaf - 1),
                   IDEM_OK);
  judge j = judge_new(compile_with(
      &opts, "{\"properties\":{\"l\":{\"$ref\":\"list\"},\"s\":{\"$ref\":\"leaf#/$defs/s\"}}}"));
  idem_schema_registry_free(registry); /* the program keeps what it needs */
  assert_true(accepts(&j, "{\"l\":[1,2],\"s\":\"a\"}"));
  assert_false(accepts(&j, "{\"l\":[1,\"2\"]}"));
  assert_string_equal(j.result.errors[0].schema_path, "https://x.test/leaf#/type");
  judge_free(&j);
}

static void meta_schemas_are_built_in(void **state) {
  (void)state;
  judge j = judge_new(compile("{\"$ref\":\"https://json-schema.org/draft/2020-12/schema\"}"));
  assert_true(accepts(&j, "{\"properties\":{\"a\":{\"minLength\":1}}}"));
  assert_false(accepts(&j, "{\"properties\":{\"a\":{\"minLength\":-1}}}"));
  assert_false(accepts(&j, "{\"allOf\":[{\"not\":{\"type\":\"strong\"}}]}"));
  judge_free(&j);
  j = judge_new(compile("{\"$ref\":\"http://json-schema.org/draft-07/schema#\"}"));
  assert_true(accepts(&j, "{\"items\":[{\"type\":\"string\"}]}"));
  assert_false(accepts(&j, "{\"items\":[{\"type\":\"strong\"}]}"));
  judge_free(&j);
}

static void a_registered_dialect_says_which_vocabularies_count(void **state) {
  (void)state;
  static const char meta[] =
      "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"$vocabulary\":{"
      "\"https://json-schema.org/draft/2020-12/vocab/core\":true,"
      "\"https://json-schema.org/draft/2020-12/vocab/applicator\":true}}";
  static const char strange[] =
      "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"$vocabulary\":{"
      "\"https://example.com/vocab/strange\":true}}";
  idem_schema_registry *registry;
  assert_int_equal(idem_schema_registry_new(NULL, &registry), IDEM_OK);
  idem_schema_registry_add(registry, "https://x.test/meta", meta, sizeof meta - 1);
  idem_schema_registry_add(registry, "https://x.test/strange", strange, sizeof strange - 1);
  idem_schema_opts opts = {.registry = registry};
  judge j = judge_new(compile_with(
      &opts, "{\"$schema\":\"https://x.test/meta\",\"properties\":{\"a\":{\"minimum\":5},"
             "\"b\":false}}"));
  assert_true(accepts(&j, "{\"a\":1}"));
  assert_false(accepts(&j, "{\"b\":1}"));
  judge_free(&j);
  idem_schema_fault fault =
      refused_with(&opts, "{\"$schema\":\"https://x.test/strange\"}", IDEM_E_INVAL);
  assert_non_null(strstr(fault.sentence, "https://example.com/vocab/strange"));
  idem_schema_registry_free(registry);
}

/* ------------------------------------------------------------------ bounds */

static void refused_by(const idem_schema_opts *opts, const char *text, const char *bound) {
  idem_schema_fault fault = refused_with(opts, text, IDEM_E_LIMIT);
  if (!strstr(fault.sentence, bound)) fail_msg("%s does not name %s", fault.sentence, bound);
}

static void deep_nesting_ends_at_its_bound(void **state) {
  (void)state;
  char *text = nested("{\"not\":", "true", "}", 10000);
  refused_by(NULL, text, "max_depth");
  free(text);
  text = nested("{\"properties\":{\"a\":", "true", "}}", 5);
  refused_by(&(idem_schema_opts){.max_depth = 5}, text, "max_depth");
  idem_schema_free(compile_with(&(idem_schema_opts){.max_depth = 6}, text));
  free(text);
  text = nested("[", "", "]", 10000);
  char *constants = malloc(strlen(text) + 200);
  sprintf(constants, "{\"enum\":[1,2,3,4,5,6,7,8,9,%s]}", text);
  refused_by(NULL, constants, "max_depth");
  free(constants);
  free(text);
}

static void subschemas_bytes_and_patterns_are_bounded(void **state) {
  (void)state;
  refused_by(&(idem_schema_opts){.max_subschemas = 3}, "{\"anyOf\":[{},{},{}]}", "max_subschemas");
  idem_schema_free(
      compile_with(&(idem_schema_opts){.max_subschemas = 4}, "{\"anyOf\":[{},{},{}]}"));
  refused_by(&(idem_schema_opts){.max_bytes = 10}, "{\"type\":\"null\"}", "max_bytes");
  refused_by(&(idem_schema_opts){.max_pattern_bytes = 3}, "{\"pattern\":\"abcd\"}",
             "max_pattern_bytes");
}

static void a_parsed_value_compiles_like_its_text(void **state) {
  (void)state;
  static const char text[] = "{\"const\":[1,{\"a\":2.50}],\"default\":{\"k\":\"v\"}}";
  yyjson_doc *doc = yyjson_read(text, sizeof text - 1, 0);
  idem_schema *schema;
  assert_int_equal(idem_schema_compile_value(NULL, yyjson_doc_get_root(doc), &schema, NULL),
                   IDEM_OK);
  yyjson_doc_free(doc); /* borrowed for the call only */
  judge j = judge_new(schema);
  assert_true(accepts(&j, "[1.0,{\"a\":2.5}]"));
  assert_false(accepts(&j, "[1.0,{\"a\":2.51}]"));
  judge_free(&j);
  assert_int_equal(idem_schema_compile_value(NULL, NULL, &schema, NULL), IDEM_E_INVAL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bad_keyword_values_are_named),
      cmocka_unit_test(an_unknown_dialect_is_never_permissive),
      cmocka_unit_test(keywords_are_found_by_their_whole_name),
      cmocka_unit_test(references_reach_registered_documents_only),
      cmocka_unit_test(meta_schemas_are_built_in),
      cmocka_unit_test(a_registered_dialect_says_which_vocabularies_count),
      cmocka_unit_test(deep_nesting_ends_at_its_bound),
      cmocka_unit_test(subschemas_bytes_and_patterns_are_bounded),
      cmocka_unit_test(a_parsed_value_compiles_like_its_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
