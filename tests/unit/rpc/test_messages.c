/* test_messages.c - messages without a conn: what is read of them, and what they are composed to. */
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <idem/rpc.h>
#include <stdlib.h>

static idem_messages *read_text(const char *text, const idem_policy *policy) {
  idem_messages *messages;
  assert_int_equal(idem_messages_read(text, strlen(text), policy, NULL, &messages), IDEM_OK);
  return messages;
}

static void expect_bytes(const char *bytes, size_t len, const char *wanted) {
  if (!wanted) {
    assert_null(bytes);
    return;
  }
  assert_int_equal(len, strlen(wanted));
  assert_memory_equal(bytes, wanted, len);
}

static void expect(const idem_message *message, idem_message_kind kind, const char *id,
                   const char *method) {
  assert_non_null(message);
  assert_int_equal(message->kind, kind);
  expect_bytes(message->id, message->id_len, id);
  expect_bytes(message->method, message->method_len, method);
}

static void each_kind_is_told_from_the_others(void **state) {
  (void)state;
  static const struct {
    const char *text;
    idem_message_kind kind;
    const char *id, *method;
  } rows[] = {
      {"{\"jsonrpc\":\"2.0\",\"id\":1.0,\"method\":\"m\"}", IDEM_MESSAGE_REQUEST, "1.0", "m"},
      {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"m\"}", IDEM_MESSAGE_REQUEST, "null", "m"},
      {" {\"method\":\"m\",\"jsonrpc\":\"2.0\"} ", IDEM_MESSAGE_NOTIFICATION, NULL, "m"},
      {"{\"jsonrpc\":\"2.0\",\"id\":\"\\u00e9\",\"result\":null}", IDEM_MESSAGE_RESULT,
       "\"\\u00e9\"", NULL},
      {"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"no\"}}",
       IDEM_MESSAGE_ERROR, "null", NULL},
      {"{\"jsonrpc\":\"2.0\",\"error\":{\"code\":1,\"message\":\"no\"}}", IDEM_MESSAGE_ERROR, NULL,
       NULL},
      {"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":1,\"error\":{}}", IDEM_MESSAGE_INVALID, "7", NULL},
      {"{\"jsonrpc\":\"2.0\",\"result\":1}", IDEM_MESSAGE_INVALID, NULL, NULL},
      {"{\"jsonrpc\":\"2.0\",\"id\":[],\"result\":1}", IDEM_MESSAGE_INVALID, NULL, NULL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    idem_messages *messages = read_text(rows[i].text, NULL);
    assert_int_equal(idem_messages_count(messages), 1);
    assert_false(idem_messages_is_batch(messages));
    expect(idem_messages_at(messages, 0), rows[i].kind, rows[i].id, rows[i].method);
    assert_null(idem_messages_at(messages, 1));
    idem_messages_free(messages);
  }
}

static void values_and_errors_are_there(void **state) {
  (void)state;
  idem_messages *messages =
      read_text("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":[5]}", NULL);
  assert_int_equal(yyjson_get_int(yyjson_arr_get(idem_messages_at(messages, 0)->value, 0)), 5);
  idem_messages_free(messages);
  messages = read_text(
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-5,\"message\":\"no\",\"data\":true}}",
      NULL);
  const idem_message *error = idem_messages_at(messages, 0);
  assert_int_equal(error->code, -5);
  expect_bytes(error->text, error->text_len, "no");
  assert_true(yyjson_get_bool(error->value));
  idem_messages_free(messages);
}

static void what_a_conn_would_refuse_says_how(void **state) {
  (void)state;
  idem_policy mcp = idem_policy_preset(IDEM_PROFILE_MCP), small = mcp, tight = mcp;
  small.limits.message_bytes = 5;
  tight.limits.parse_bytes = 10;
  const struct {
    const char *text;
    const idem_policy *policy;
    int64_t code;
    const char *reason;
  } rows[] = {
      {"{", NULL, -32700, NULL},
      {"", NULL, -32700, NULL},
      {"\xef\xbb\xbf{}", NULL, -32700, NULL},
      {"7", NULL, -32600, "not-an-object"},
      {"{\"id\":1,\"method\":\"m\"}", NULL, -32600, "bad-version"},
      {"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"m\"}", &mcp, -32600, "invalid-id-type"},
      {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":[]}", &mcp, -32602, NULL},
      {"[]", NULL, -32600, "empty-batch"},
      {"[1]", &mcp, -32600, "batch-not-supported"},
      {"{\"jsonrpc\":\"2.0\"}", &small, -32600, "oversize"},
      {"{\"jsonrpc\":\"2.0\"}", &tight, -32600, "oversize"},
      {"{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{}}", NULL, 0, NULL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    idem_messages *messages = read_text(rows[i].text, rows[i].policy);
    const idem_message *one = idem_messages_at(messages, 0);
    assert_int_equal(one->kind, IDEM_MESSAGE_INVALID);
    assert_int_equal(one->code, rows[i].code);
    expect_bytes(one->text, one->text_len, rows[i].reason);
    idem_messages_free(messages);
  }
}

static void a_batch_is_its_messages(void **state) {
  (void)state;
  idem_messages *messages = read_text("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"},2,"
                                      "{\"jsonrpc\":\"2.0\",\"method\":\"b\"}]",
                                      NULL);
  assert_int_equal(idem_messages_count(messages), 3);
  assert_true(idem_messages_is_batch(messages));
  expect(idem_messages_at(messages, 0), IDEM_MESSAGE_REQUEST, "1", "a");
  expect(idem_messages_at(messages, 1), IDEM_MESSAGE_INVALID, NULL, NULL);
  expect(idem_messages_at(messages, 2), IDEM_MESSAGE_NOTIFICATION, NULL, "b");
  idem_messages_free(messages);
}

static void a_batch_and_its_depth_are_bounded(void **state) {
  (void)state;
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.limits.batch = 2;
  policy.limits.depth = 3;
  idem_messages *messages = read_text("[1,2,3]", &policy);
  expect_bytes(idem_messages_at(messages, 0)->text, idem_messages_at(messages, 0)->text_len,
               "batch-too-large");
  idem_messages_free(messages);
  messages = read_text("[[[[]]]]", &policy);
  assert_int_equal(idem_messages_at(messages, 0)->code, -32700);
  idem_messages_free(messages);
}

static void expect_composed(const idem_message *message, const char *wanted) {
  char *text;
  size_t len;
  assert_int_equal(idem_message_compose(message, NULL, NULL, &text, &len), IDEM_OK);
  assert_string_equal(text, wanted);
  assert_int_equal(len, strlen(wanted));
  idem_message_text_free(NULL, text);
}

#define ID(text) .id = (text), .id_len = sizeof(text) - 1
#define METHOD(text) .method = (text), .method_len = sizeof(text) - 1
#define JSON(text) .value_json = (text), .value_json_len = sizeof(text) - 1
#define TEXT(words) .text = (words), .text_len = sizeof(words) - 1

static void messages_are_composed_with_the_id_of_ones_choice(void **state) {
  (void)state;
  expect_composed(
      &(idem_message){
          .kind = IDEM_MESSAGE_REQUEST, ID("\"\\u00e9\""), METHOD("a\"b"), JSON("[ 1.0 ]")},
      "{\"jsonrpc\":\"2.0\",\"id\":\"\\u00e9\",\"method\":\"a\\\"b\",\"params\":[1.0]}");
  expect_composed(&(idem_message){.kind = IDEM_MESSAGE_NOTIFICATION, METHOD("n")},
                  "{\"jsonrpc\":\"2.0\",\"method\":\"n\"}");
  expect_composed(&(idem_message){.kind = IDEM_MESSAGE_RESULT, ID("1e2"), JSON("{\"a\": 1}")},
                  "{\"jsonrpc\":\"2.0\",\"id\":1e2,\"result\":{\"a\":1}}");
  expect_composed(&(idem_message){.kind = IDEM_MESSAGE_RESULT, ID("null")},
                  "{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":null}");
  expect_composed(&(idem_message){.kind = IDEM_MESSAGE_ERROR, .code = -32601, ID("0")},
                  "{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":-32601,\"message\":\"Method "
                  "not found\"}}");
  expect_composed(
      &(idem_message){.kind = IDEM_MESSAGE_ERROR, .code = 5, TEXT("no"), JSON("[true]")},
      "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":5,\"message\":\"no\",\"data\":[true]}"
      "}");
}

/* The guide quotes it. */
static idem_status compose_question(char **text, size_t *len) {
  idem_message question = {.kind = IDEM_MESSAGE_REQUEST,
                           .id = "\"a-7\"",
                           .id_len = 5,
                           .method = "sum",
                           .method_len = 3,
                           .value_json = "[1,2]",
                           .value_json_len = 5};
  return idem_message_compose(&question, NULL, NULL, text, len);
}

static void the_guides_question_is_one(void **state) {
  (void)state;
  char *text;
  size_t len;
  assert_int_equal(compose_question(&text, &len), IDEM_OK);
  assert_string_equal(text,
                      "{\"jsonrpc\":\"2.0\",\"id\":\"a-7\",\"method\":\"sum\",\"params\":[1,2]}");
  idem_message_text_free(NULL, text);
}

static void values_of_a_document_are_composed(void **state) {
  (void)state;
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *list = yyjson_mut_arr(doc);
  yyjson_mut_arr_add_int(doc, list, 7);
  expect_composed(
      &(idem_message){.kind = IDEM_MESSAGE_REQUEST, ID("1"), METHOD("m"), .value_mut = list},
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":[7]}");
  yyjson_mut_doc_free(doc);
}

static void what_was_read_can_be_composed_again(void **state) {
  (void)state;
  static const char *const texts[] = {
      "{\"jsonrpc\":\"2.0\",\"id\":-0,\"method\":\"m\",\"params\":{\"a\":[1,2]}}",
      "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":[null]}",
      "{\"jsonrpc\":\"2.0\",\"id\":\"\\u0000\",\"result\":\"x\"}",
      "{\"jsonrpc\":\"2.0\",\"id\":4,\"error\":{\"code\":-1,\"message\":\"m\",\"data\":3}}",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    idem_messages *messages = read_text(texts[i], NULL);
    expect_composed(idem_messages_at(messages, 0), texts[i]);
    idem_messages_free(messages);
  }
}

static void expect_refused(const idem_message *message, idem_status wanted) {
  char *text;
  size_t len;
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.limits.message_bytes = 100;
  assert_int_equal(idem_message_compose(message, &policy, NULL, &text, &len), wanted);
  assert_null(text);
}

static void what_is_no_message_is_not_composed(void **state) {
  (void)state;
  const idem_message bad[] = {
      {.kind = IDEM_MESSAGE_INVALID, METHOD("m")},
      {.kind = IDEM_MESSAGE_REQUEST, METHOD("m")},
      {.kind = IDEM_MESSAGE_REQUEST, ID("1")},
      {.kind = IDEM_MESSAGE_RESULT},
      {.kind = IDEM_MESSAGE_NOTIFICATION, ID("1"), METHOD("m")},
      {.kind = IDEM_MESSAGE_REQUEST, ID("true"), METHOD("m")},
      {.kind = IDEM_MESSAGE_REQUEST, ID("nul"), METHOD("m")},
      {.kind = IDEM_MESSAGE_REQUEST, ID("1 "), METHOD("m")},
      {.kind = IDEM_MESSAGE_REQUEST, ID("1,\"x\":2"), METHOD("m")},
      {.kind = IDEM_MESSAGE_REQUEST, ID("[1]"), METHOD("m")},
      {.kind = IDEM_MESSAGE_REQUEST, ID(""), METHOD("m")},
      {.kind = IDEM_MESSAGE_REQUEST, ID("01"), METHOD("m")},
      {.kind = IDEM_MESSAGE_REQUEST, ID("1"), METHOD("\xff")},
      {.kind = IDEM_MESSAGE_REQUEST, ID("1"), METHOD("m"), JSON("7")},
      {.kind = IDEM_MESSAGE_REQUEST, ID("1"), METHOD("m"), JSON("{")},
      {.kind = IDEM_MESSAGE_RESULT, ID("1"), JSON("1 2")},
      {.kind = IDEM_MESSAGE_ERROR, ID("1"), TEXT("\xff")},
      {.kind = IDEM_MESSAGE_ERROR, ID("1"), TEXT("a\0b")},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) expect_refused(&bad[i], IDEM_E_INVAL);
  char method[200];
  memset(method, 'm', sizeof method);
  expect_refused(&(idem_message){.kind = IDEM_MESSAGE_NOTIFICATION,
                                 .method = method,
                                 .method_len = sizeof method},
                 IDEM_E_LIMIT);
}

static void read_and_compose(fault_alloc *fault, void *user) {
  const char *text = user;
  idem_messages *messages;
  if (idem_messages_read(text, strlen(text), NULL, &fault->alloc, &messages) != IDEM_OK) return;
  for (size_t i = 0; i < idem_messages_count(messages); i++) {
    char *composed;
    size_t len;
    idem_message_compose(idem_messages_at(messages, i), NULL, &fault->alloc, &composed, &len);
    idem_message_text_free(&fault->alloc, composed);
  }
  idem_messages_free(messages);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  static char batch[] =
      "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":{}},2,"
      "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":{\"code\":1,\"message\":\"m\",\"data\":[1]}}]";
  assert_true(fault_alloc_sweep(read_and_compose, batch, 1000) > 4);
  assert_true(fault_alloc_sweep_ever_after(read_and_compose, batch, 1000) > 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_kind_is_told_from_the_others),
      cmocka_unit_test(values_and_errors_are_there),
      cmocka_unit_test(what_a_conn_would_refuse_says_how),
      cmocka_unit_test(a_batch_is_its_messages),
      cmocka_unit_test(a_batch_and_its_depth_are_bounded),
      cmocka_unit_test(messages_are_composed_with_the_id_of_ones_choice),
      cmocka_unit_test(the_guides_question_is_one),
      cmocka_unit_test(values_of_a_document_are_composed),
      cmocka_unit_test(what_was_read_can_be_composed_again),
      cmocka_unit_test(what_is_no_message_is_not_composed),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
