/* test_values.c - what handlers may answer with and callers may send: hostile text, values built by
 * hand, numbers at their edges. */
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <idem/rpc.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct stage {
  fault_alloc memory;
  idem_router *router;
  idem_conn *conn;
  const char *json; /* what the handler answers with */
  size_t len;
  bool as_error_data;
  idem_status status; /* what replying returned */
} stage;

static void answer(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  stage *s = user;
  s->status = s->as_error_data ? idem_reply_error_json(request, 5, "five", s->json, s->len)
                               : idem_reply_json(request, s->json, s->len);
}

static void integer(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  int64_t value;
  idem_param_fault fault;
  char text[32];
  if (idem_param_int(params, "n", 0, &value, &fault) != IDEM_OK) {
    idem_reply_invalid_params(request, &fault);
    return;
  }
  int len = snprintf(text, sizeof text, "%lld", (long long)value);
  idem_reply_json(request, text, (size_t)len);
}

static stage *open_stage(void) {
  stage *s = calloc(1, sizeof *s);
  assert_non_null(s);
  fault_alloc_init(&s->memory);
  idem_router_opts router_opts = {.alloc = &s->memory.alloc};
  assert_int_equal(idem_router_new(&router_opts, &s->router), IDEM_OK);
  assert_int_equal(idem_router_method(s->router, "answer", answer, s), IDEM_OK);
  assert_int_equal(idem_router_method(s->router, "integer", integer, s), IDEM_OK);
  idem_conn_opts opts = {.router = s->router, .alloc = &s->memory.alloc};
  assert_int_equal(idem_conn_new(&opts, &s->conn), IDEM_OK);
  return s;
}

static void close_stage(stage *s) {
  idem_conn_free(s->conn);
  idem_router_free(s->router);
  fault_alloc_assert_clean(&s->memory);
  free(s);
}

static void expect_output(stage *s, const char *wanted) {
  idem_chunk chunk;
  assert_true(idem_conn_next_chunk(s->conn, &chunk));
  char *got = strndup(chunk.data, chunk.len);
  assert_string_equal(got, wanted);
  free(got);
  idem_chunk_free(&chunk);
}

static void ask(stage *s, const char *method, const char *params, const char *wanted) {
  char text[512];
  int len =
      snprintf(text, sizeof text,
               "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":%s}\n", method, params);
  assert_int_equal(idem_conn_feed(s->conn, text, (size_t)len), IDEM_OK);
  expect_output(s, wanted);
}

static const char internal_error[] =
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32603,\"message\":\"Internal error\"}}\n";

static void hostile_text_never_reaches_the_wire(void **state) {
  (void)state;
  static const struct {
    const char *json;
    size_t len;
  } rows[] = {
      {"", 0},
      {"{", 1},
      {"1 2", 3},
      {"1\n2", 3},
      {"nul", 3},
      {"\"\xff\"", 3},
      {"\"\n\"", 3},
      {"\xef\xbb\xbf"
       "1",
       4},
      {"1\0", 2},
      {"[1,]", 4},
      {"1}", 2},
      {"\"a\",\"id\":2", 10},
      {"NaN", 3},
      {"01", 2},
      {"// x\n1", 6},
  };
  stage *s = open_stage();
  for (int data = 0; data < 2; data++) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
      /* Memory of its own, so that a read past its end is noticed. */
      char *copy = malloc(rows[i].len + 1);
      assert_non_null(copy);
      memcpy(copy, rows[i].json, rows[i].len);
      s->json = copy;
      s->len = rows[i].len;
      s->as_error_data = data;
      ask(s, "answer", "[]", internal_error);
      assert_int_equal(s->status, IDEM_E_INVAL);
      free(copy);
    }
  }
  close_stage(s);
}

static void text_nested_too_deeply_is_refused(void **state) {
  (void)state;
  stage *s = open_stage();
  char deep[2 * 600];
  memset(deep, '[', 600);
  memset(deep + 600, ']', 600);
  s->json = deep;
  s->len = sizeof deep;
  ask(s, "answer", "[]", internal_error);
  assert_int_equal(s->status, IDEM_E_INVAL);
  close_stage(s);
}

static void good_text_is_made_compact(void **state) {
  (void)state;
  stage *s = open_stage();
  static const char text[] = " { \"a\" : [ 1e400 , \"\\u00e9\\n\" ] ,\n\"b\":\t-0.50 } ";
  s->json = text;
  s->len = sizeof text - 1;
  ask(s, "answer", "[]",
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":[1e400,\"é\\n\"],\"b\":-0.50}}\n");
  s->as_error_data = true;
  ask(s, "answer", "[]",
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":5,\"message\":\"five\",\"data\":"
      "{\"a\":[1e400,\"é\\n\"],\"b\":-0.50}}}\n");
  s->json = " null ";
  s->len = 6;
  ask(s, "answer", "[]",
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":5,\"message\":\"five\"}}\n");
  close_stage(s);
}

static void integers_are_read_however_they_are_written(void **state) {
  (void)state;
  static const struct {
    const char *params, *result;
  } rows[] = {
      {"[0]", "0"},
      {"[-0]", "0"},
      {"[5.0]", "5"},
      {"[1e2]", "100"},
      {"[-7.00e0]", "-7"},
      {"[9223372036854775807]", "9223372036854775807"},
      {"{\"n\":-5}", "-5"},
      {"[-9223372036854775808]", "-9223372036854775808"},
      {"{\"n\":1,\"n\":2}", "2"},
  };
  stage *s = open_stage();
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char wanted[128];
    snprintf(wanted, sizeof wanted, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":%s}\n",
             rows[i].result);
    ask(s, "integer", rows[i].params, wanted);
  }
  close_stage(s);
}

static void what_is_no_integer_is_refused(void **state) {
  (void)state;
  static const char *const rows[] = {"[0.5]",
                                     "[1e19]",
                                     "[-1e19]",
                                     "[1e400]",
                                     "[9223372036854775808]",
                                     "[99999999999999999999999]"};
  stage *s = open_stage();
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    ask(s, "integer", rows[i],
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32602,\"message\":\"Invalid "
        "params\",\"data\":"
        "{\"param\":\"[0]\",\"expected\":\"integer\",\"received\":\"number\"}}}\n");
  }
  close_stage(s);
}

static void calls_and_notifications_take_values_built_by_hand(void **state) {
  (void)state;
  stage *s = open_stage();
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *params = yyjson_mut_arr(doc);
  yyjson_mut_arr_add_str(doc, params, "é\"\n");
  yyjson_mut_arr_add_real(doc, params, 0.5);
  assert_int_equal(idem_notify(s->conn, "m \"x\"", params), IDEM_OK);
  expect_output(s,
                "{\"jsonrpc\":\"2.0\",\"method\":\"m \\\"x\\\"\",\"params\":[\"é\\\"\\n\",0.5]}\n");
  assert_int_equal(idem_call(s->conn, "m", params, NULL, NULL, NULL, NULL), IDEM_OK);
  expect_output(s,
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":[\"é\\\"\\n\",0.5]}\n");
  assert_int_equal(idem_notify(s->conn, "m", NULL), IDEM_OK);
  expect_output(s, "{\"jsonrpc\":\"2.0\",\"method\":\"m\"}\n");
  assert_int_equal(idem_notify(s->conn, "m", yyjson_mut_int(doc, 5)), IDEM_E_INVAL);
  yyjson_mut_arr_add_str(doc, params, "\xff");
  assert_int_equal(idem_notify(s->conn, "m", params), IDEM_E_INVAL);
  assert_int_equal(idem_call(s->conn, "m", params, NULL, NULL, NULL, NULL), IDEM_E_INVAL);
  idem_chunk none;
  assert_false(idem_conn_next_chunk(s->conn, &none));
  yyjson_mut_doc_free(doc);
  close_stage(s);
}

static void presets_are_what_the_rules_say(void **state) {
  (void)state;
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  assert_int_equal(policy.limits.message_bytes, 10485760);
  assert_int_equal(policy.limits.depth, 512);
  assert_int_equal(policy.limits.parse_bytes, 128 << 20);
  assert_int_equal(policy.limits.in_flight, 1024);
  assert_int_equal(policy.limits.in_flight_id_bytes, 1 << 20);
  assert_int_equal(policy.limits.queued_output_bytes, 16 << 20);
  assert_int_equal(policy.limits.batch, 1000);
  assert_int_equal(policy.limits.header_bytes, 8192);
  assert_int_equal(policy.limits.frame_ms, 30000);
  assert_int_equal(policy.limits.idle_ms, 300000);
  assert_int_equal(policy.limits.request_ms, 0);
  assert_int_equal(policy.limits.call_ms, 0);
  assert_int_equal(policy.null_id_error, IDEM_NULL_ID_ERROR_REPORT);
  assert_int_equal(policy.unknown_id, IDEM_UNKNOWN_ID_NULL);
  idem_policy unknown = idem_policy_preset((idem_profile)99);
  assert_int_equal(unknown.framing, policy.framing);
  assert_int_equal(idem_policy_preset(IDEM_PROFILE_LSP).concurrency, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hostile_text_never_reaches_the_wire),
      cmocka_unit_test(text_nested_too_deeply_is_refused),
      cmocka_unit_test(good_text_is_made_compact),
      cmocka_unit_test(integers_are_read_however_they_are_written),
      cmocka_unit_test(what_is_no_integer_is_refused),
      cmocka_unit_test(calls_and_notifications_take_values_built_by_hand),
      cmocka_unit_test(presets_are_what_the_rules_say),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
