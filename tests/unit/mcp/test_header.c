/* test_header.c - headers that mirror a message: what one side spells the other reads as the same. */
#include "support/fault_alloc.h"
#include "support/unit.h"

#include "mcp/mcp.h"

#include <stdlib.h>

static const char marked[] =
    "{\"type\":\"object\",\"properties\":{\"region\":{\"type\":\"string\",\"x-mcp-header\":"
    "\"Region\"},"
    "\"at\":{\"properties\":{\"year\":{\"type\":\"integer\",\"x-mcp-header\":\"Year\"}}},"
    "\"dry\":{\"type\":\"boolean\",\"x-mcp-header\":\"Dry-Run\"}}}";

static bool safe(const idem_buf *value) {
  for (size_t i = 0; i < value->len; i++)
    if (value->data[i] < ' ' || value->data[i] > '~') return false;
  return value->len == 0 || (value->data[0] != ' ' && value->data[value->len - 1] != ' ');
}

static void goes_and_comes_back(const char *text, size_t len, bool as_it_is) {
  idem_buf spelled, read;
  idem_buf_init(&spelled, NULL, IDEM__HEADER_VALUE_MAX);
  idem_buf_init(&read, NULL, IDEM__HEADER_VALUE_MAX);
  assert_int_equal(idem__header_encode(&spelled, text, len), IDEM_OK);
  assert_true(safe(&spelled));
  assert_int_equal(spelled.len == len && (len == 0 || memcmp(spelled.data, text, len) == 0),
                   as_it_is);
  assert_int_equal(idem__header_decode(&read, spelled.data, spelled.len), IDEM_OK);
  assert_int_equal(read.len, len);
  if (len) assert_memory_equal(read.data, text, len);
  idem_buf_deinit(&spelled);
  idem_buf_deinit(&read);
}

static void any_text_goes_and_comes_back(void **state) {
  (void)state;
  static const char *const plain[] = {"", "echo", "a b", "file:///x?y=z", "=?base64?", "?=", "~"};
  static const char *const wrapped[] = {
      " a",
      "a ",
      "caf\xc3\xa9",
      "a\nb",
      "\x7f",
      "=?base64?\x3f=", /* two question marks and = are a trigraph */
      "=?base64?eA==?=",
      "\t"};
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
    goes_and_comes_back(plain[i], strlen(plain[i]), true);
  for (size_t i = 0; i < sizeof wrapped / sizeof *wrapped; i++)
    goes_and_comes_back(wrapped[i], strlen(wrapped[i]), false);
  goes_and_comes_back("a\0b", 3, false);
}

static void what_is_wrapped_badly_is_refused(void **state) {
  (void)state;
  static const char *const bad[] = {"=?base64?!?=", "=?base64?eA?=", "=?base64?/w==?="};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    idem_buf read;
    idem_buf_init(&read, NULL, IDEM__HEADER_VALUE_MAX);
    assert_int_equal(idem__header_decode(&read, bad[i], strlen(bad[i])), IDEM_E_INVAL);
    idem_buf_deinit(&read);
  }
}

/* A client's headers for these arguments are what a server wants to see, and no others are. */
static void agrees(const idem__header_rules *rules, const char *arguments, size_t given) {
  yyjson_doc *doc = yyjson_read(arguments, strlen(arguments), 0);
  size_t found = 0;
  for (size_t i = 0; i < rules->count; i++) {
    const idem__header_rule *rule = &rules->rules[i];
    yyjson_val *val = idem__header_argument(rule, yyjson_doc_get_root(doc));
    if (!val) continue;
    idem_buf spelled, read;
    idem_buf_init(&spelled, NULL, IDEM__HEADER_VALUE_MAX);
    idem_buf_init(&read, NULL, IDEM__HEADER_VALUE_MAX);
    assert_int_equal(idem__header_put_argument(&spelled, rule, val), IDEM_OK);
    assert_int_equal(idem__header_decode(&read, spelled.data, spelled.len), IDEM_OK);
    assert_true(idem__header_agrees(rule, val, read.data, read.len));
    assert_false(idem__header_agrees(rule, val, "other", 5));
    idem_buf_deinit(&spelled);
    idem_buf_deinit(&read);
    found++;
  }
  assert_int_equal(found, given);
  yyjson_doc_free(doc);
}

static void a_clients_headers_are_what_a_server_wants(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__header_rules rules = {0};
  yyjson_doc *schema = yyjson_read(marked, sizeof marked - 1, 0);
  assert_int_equal(idem__header_rules_find(&alloc, yyjson_doc_get_root(schema), &rules, NULL),
                   IDEM_OK);
  assert_int_equal(rules.count, 3);
  assert_string_equal(rules.rules[0].header, "mcp-param-region");
  agrees(&rules, "{\"region\":\"caf\xc3\xa9\",\"at\":{\"year\":2026},\"dry\":true}", 3);
  agrees(&rules, "{\"region\":\"\",\"at\":{\"year\":-1.0},\"dry\":false}", 3);
  agrees(&rules, "{\"region\":null,\"at\":{}}", 0);
  idem__header_rules_free(&rules, &alloc);
  yyjson_doc_free(schema);
}

static void what_is_not_of_its_type_has_no_header(void **state) {
  (void)state;
  static const struct {
    char type;
    const char *json;
  } bad[] = {{'s', "1"},   {'s', "true"}, {'i', "\"1\""},
             {'i', "1.5"}, {'b', "0"},    {'i', "9007199254740993"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    idem_buf out;
    idem__header_rule rule = {.type = bad[i].type};
    yyjson_doc *doc = yyjson_read(bad[i].json, strlen(bad[i].json), 0);
    idem_buf_init(&out, NULL, IDEM__HEADER_VALUE_MAX);
    assert_int_equal(idem__header_put_argument(&out, &rule, yyjson_doc_get_root(doc)),
                     IDEM_E_INVAL);
    idem_buf_deinit(&out);
    yyjson_doc_free(doc);
  }
}

static void find_rules(fault_alloc *fault, void *user) {
  idem__header_rules rules = {0};
  idem_status status = idem__header_rules_find(&fault->alloc, user, &rules, NULL);
  assert_int_equal(status, fault->failures ? IDEM_E_NOMEM : IDEM_OK);
  idem__header_rules_free(&rules, &fault->alloc);
}

static void rules_are_found_or_there_was_no_memory(void **state) {
  (void)state;
  yyjson_doc *schema = yyjson_read(marked, sizeof marked - 1, 0);
  assert_true(fault_alloc_sweep(find_rules, yyjson_doc_get_root(schema), 100) > 5);
  yyjson_doc_free(schema);
}

static void every_method_is_found_by_its_name_alone(void **state) {
  (void)state;
  for (size_t i = 0; i < IDEM__METHODS; i++) {
    const idem__mcp_method *method = &idem__mcp_methods[i];
    assert_non_null(method->name);
    assert_true(method->revisions != 0);
    assert_ptr_equal(idem__mcp_method_find(method->name, strlen(method->name)), method);
    assert_null(idem__mcp_method_find(method->name, strlen(method->name) - 1));
  }
  assert_null(idem__mcp_method_find("tools/Call", 10));
}

static void a_methods_subject_is_what_mcp_name_mirrors(void **state) {
  (void)state;
  static const char params[] = "{\"name\":\"n\",\"uri\":\"u\",\"taskId\":\"t\"}";
  yyjson_doc *doc = yyjson_read(params, sizeof params - 1, 0);
  yyjson_val *root = yyjson_doc_get_root(doc);
  const idem__mcp_method *methods = idem__mcp_methods;
  assert_true(
      yyjson_equals_str(idem__mcp_method_subject(&methods[IDEM__METHOD_TOOLS_CALL], root), "n"));
  assert_true(yyjson_equals_str(
      idem__mcp_method_subject(&methods[IDEM__METHOD_RESOURCES_READ], root), "u"));
  assert_true(
      yyjson_equals_str(idem__mcp_method_subject(&methods[IDEM__METHOD_TASKS_GET], root), "t"));
  assert_null(idem__mcp_method_subject(&methods[IDEM__METHOD_TOOLS_LIST], root));
  assert_null(idem__mcp_method_subject(&methods[IDEM__METHOD_TOOLS_CALL], NULL));
  yyjson_doc_free(doc);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_text_goes_and_comes_back),
      cmocka_unit_test(what_is_wrapped_badly_is_refused),
      cmocka_unit_test(a_clients_headers_are_what_a_server_wants),
      cmocka_unit_test(what_is_not_of_its_type_has_no_header),
      cmocka_unit_test(rules_are_found_or_there_was_no_memory),
      cmocka_unit_test(every_method_is_found_by_its_name_alone),
      cmocka_unit_test(a_methods_subject_is_what_mcp_name_mirrors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
