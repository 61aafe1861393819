/* test_coerce.c - strings become what a schema asks for, defaults are filled, names suggested. */
#include "schema_help.h"
#include "support/fault_alloc.h"

/* Shapes `value` by `schema` and compares the JSON it becomes. */
static void becomes(const char *schema_text, const char *value, idem_schema_shape shape,
                    const char *expected) {
  idem_schema *schema = compile(schema_text);
  yyjson_doc *in = yyjson_read(value, strlen(value), YYJSON_READ_BIGNUM_AS_RAW);
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *out;
  assert_int_equal(idem_schema_apply(schema, yyjson_doc_get_root(in), &shape, doc, &out), IDEM_OK);
  char *text = yyjson_mut_val_write(out, 0, NULL);
  assert_string_equal(text, expected);
  free(text);
  yyjson_mut_doc_free(doc);
  yyjson_doc_free(in);
  idem_schema_free(schema);
}

static const idem_schema_shape coerce = {.coerce = true}, fill = {.fill_defaults = true};

static void strings_become_the_types_asked_for(void **state) {
  (void)state;
  static const char schema[] =
      "{\"properties\":{\"i\":{\"type\":\"integer\"},\"n\":{\"type\":\"number\"},"
      "\"b\":{\"type\":\"boolean\"},\"z\":{\"type\":[\"null\",\"integer\"]},\"s\":{\"type\":"
      "\"string\"},\"e\":{\"enum\":[1,2]},\"r\":{\"$ref\":\"#/$defs/i\"},\"l\":{\"type\":\"array\","
      "\"items\":{\"type\":\"integer\"}},\"o\":{\"type\":\"object\",\"properties\":{\"i\":{"
      "\"type\":"
      "\"integer\"}}},\"u\":{\"anyOf\":[{\"type\":\"boolean\"},{\"type\":\"integer\"}]}},"
      "\"$defs\":{\"i\":{\"type\":\"integer\"}}}";
  static const char *const cases[][2] = {
      {"{\"i\":\"3\"}", "{\"i\":3}"},
      {"{\"i\":\"-12\"}", "{\"i\":-12}"},
      {"{\"i\":\"3.5\"}", "{\"i\":\"3.5\"}"},
      {"{\"i\":\"3.0\"}", "{\"i\":3}"},
      {"{\"i\":\"007\"}", "{\"i\":\"007\"}"},
      {"{\"i\":\"123456789012345678901234567890\"}", "{\"i\":123456789012345678901234567890}"},
      {"{\"n\":\"2.5\"}", "{\"n\":2.5}"},
      {"{\"n\":\"0.1000000000000000055511151231257827\"}",
       "{\"n\":0.1000000000000000055511151231257827}"},
      {"{\"n\":\"1e5x\"}", "{\"n\":\"1e5x\"}"},
      {"{\"b\":\"true\"}", "{\"b\":true}"},
      {"{\"b\":\"yes\"}", "{\"b\":\"yes\"}"},
      {"{\"z\":\"\"}", "{\"z\":null}"},
      {"{\"z\":\"4\"}", "{\"z\":4}"},
      {"{\"s\":\"4\"}", "{\"s\":\"4\"}"},
      {"{\"e\":\"2\"}", "{\"e\":2}"},
      {"{\"r\":\"2\"}", "{\"r\":2}"},
      {"{\"l\":\"[1,\\\"2\\\"]\"}", "{\"l\":[1,2]}"},
      {"{\"l\":\"5\"}", "{\"l\":[5]}"},
      {"{\"l\":[\"5\",6]}", "{\"l\":[5,6]}"},
      {"{\"o\":\"{\\\"i\\\":\\\"5\\\"}\"}", "{\"o\":{\"i\":5}}"},
      {"{\"o\":\"{oops\"}", "{\"o\":\"{oops\"}"},
      {"{\"u\":\"false\"}", "{\"u\":false}"},
      {"{\"unknown\":\"1\"}", "{\"unknown\":\"1\"}"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    becomes(schema, cases[i][0], coerce, cases[i][1]);
}

static void nothing_changes_unless_asked(void **state) {
  (void)state;
  becomes("{\"properties\":{\"a\":{\"type\":\"integer\",\"default\":1}}}", "{\"b\":\"1\"}",
          (idem_schema_shape){0}, "{\"b\":\"1\"}");
}

static void defaults_fill_what_is_absent(void **state) {
  (void)state;
  static const char schema[] =
      "{\"properties\":{\"a\":{\"default\":[1,{\"k\":\"v\"}]},\"o\":{\"properties\":{\"x\":"
      "{\"default\":null}}}},\"allOf\":[{\"$ref\":\"#/$defs/more\"}],"
      "\"$defs\":{\"more\":{\"properties\":{\"m\":{\"default\":2.5}}}}}";
  becomes(schema, "{}", fill, "{\"a\":[1,{\"k\":\"v\"}],\"m\":2.5}");
  becomes(schema, "{\"a\":0,\"o\":{}}", fill, "{\"a\":0,\"o\":{\"x\":null},\"m\":2.5}");
  becomes("{\"properties\":{\"c\":{\"$ref\":\"#\",\"default\":{}}}}", "{}", fill, "{\"c\":{}}");
}

static void shaping_is_bounded(void **state) {
  (void)state;
  idem_schema *schema = compile("{\"items\":{\"$ref\":\"#\"}}");
  char *deep = nested("[", "", "]", 1000);
  yyjson_doc *in = yyjson_read(deep, strlen(deep), 0);
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *out;
  assert_int_equal(idem_schema_apply(schema, yyjson_doc_get_root(in), &coerce, doc, &out),
                   IDEM_E_LIMIT);
  assert_null(out);
  yyjson_doc_free(in);
  free(deep);
  idem_schema_free(schema);
  schema =
      compile("{\"items\":{\"$ref\":\"#/$defs/a\"},\"$defs\":{\"a\":{\"anyOf\":["
              "{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/a\"},"
              "{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/a\"},"
              "{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/a\"},"
              "{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/a\"}]}}}");
  static const char many[] = "[\"1\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\"]";
  in = yyjson_read(many, sizeof many - 1, 0);
  idem_status status = idem_schema_apply(schema, yyjson_doc_get_root(in), &coerce, doc, &out);
  assert_true(status == IDEM_OK || status == IDEM_E_LIMIT);
  yyjson_doc_free(in);
  yyjson_mut_doc_free(doc);
  idem_schema_free(schema);
}

/* Strings that hold JSON are read with the document's memory, so that a failure there is one of ours, too. */
static void shape_with(fault_alloc *fault, void *user) {
  const idem_schema *schema = user;
  static const char value[] = "{\"o\":\"{\\\"i\\\":\\\"5\\\"}\",\"l\":\"[1,2]\"}";
  yyjson_doc *in = yyjson_read(value, strlen(value), 0);
  const yyjson_alc alc = {fault->alloc.malloc, fault->alloc.realloc, fault->alloc.free,
                          fault->alloc.ctx};
  yyjson_mut_doc *doc = yyjson_mut_doc_new(&alc);
  yyjson_mut_val *out = NULL;
  idem_status status =
      doc ? idem_schema_apply(schema, yyjson_doc_get_root(in), &coerce, doc, &out) : IDEM_E_NOMEM;
  assert_int_equal(status, fault->failures ? IDEM_E_NOMEM : IDEM_OK);
  if (status == IDEM_OK) assert_true(yyjson_mut_is_obj(yyjson_mut_obj_get(out, "o")));
  yyjson_mut_doc_free(doc);
  yyjson_doc_free(in);
}

static void a_string_is_not_left_as_it_was_for_want_of_memory(void **state) {
  (void)state;
  idem_schema *schema = compile("{\"properties\":{\"o\":{\"type\":\"object\",\"properties\":{\"i\":"
                                "{\"type\":\"integer\"}}},\"l\":{\"type\":\"array\"}}}");
  assert_true(fault_alloc_sweep(shape_with, schema, 100) >= 5);
  assert_true(fault_alloc_sweep_ever_after(shape_with, schema, 100) >= 5);
  idem_schema_free(schema);
}

static void near_names_are_suggested(void **state) {
  (void)state;
  idem_schema *schema = compile("{\"properties\":{\"query\":{},\"limit\":{},\"id\":{}},"
                                "\"allOf\":[{\"properties\":{\"language\":{}}}]}");
  static const char *const cases[][2] = {
      {"qurey", "query"}, {"limits", "limit"}, {"langauge", "language"},
      {"zebra", NULL},    {"ix", NULL},        {"", NULL},
      {"qqqq", NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *near = idem_schema_suggest_property(schema, cases[i][0], strlen(cases[i][0]));
    if (cases[i][1])
      assert_string_equal(near, cases[i][1]);
    else
      assert_null(near);
  }
  static const char *const names[] = {"--verbose", "--version"};
  assert_string_equal(idem_schema_suggest("--versoin", 9, names, 2), "--version");
  assert_null(idem_schema_suggest("--help", 6, names, 2));
  idem_schema_free(schema);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strings_become_the_types_asked_for),
      cmocka_unit_test(nothing_changes_unless_asked),
      cmocka_unit_test(defaults_fill_what_is_absent),
      cmocka_unit_test(shaping_is_bounded),
      cmocka_unit_test(a_string_is_not_left_as_it_was_for_want_of_memory),
      cmocka_unit_test(near_names_are_suggested),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
