/* test_pattern.c - methods whose names have values in them: who is found, and with which values. */
#include "support/fault_alloc.h"
#include "support/unit.h"
#include <idem/rpc.h>

#include <stdio.h>
#include <stdlib.h>

/* Answers with the pattern's own name (user) and its values a and b. */
static void tell(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *told = yyjson_mut_arr(doc);
  yyjson_mut_arr_add_str(doc, told, user);
  static const char *const names[] = {"a", "b", "missing"};
  for (size_t i = 0; i < 3; i++) {
    size_t len;
    const char *value = idem_request_value(request, names[i], &len);
    if (value) yyjson_mut_arr_add_strn(doc, told, value, len);
  }
  idem_reply_mut(request, told);
}

static void add(idem_router *router, const char *pattern) {
  assert_int_equal(idem_router_pattern(router, pattern, tell, (char *)(uintptr_t)pattern), IDEM_OK);
}

static char *answer_of(idem_conn *conn, const char *method) {
  char *text;
  assert_true(asprintf(&text, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\"}\n", method) > 0);
  assert_int_equal(idem_conn_feed(conn, text, strlen(text)), IDEM_OK);
  free(text);
  idem_chunk chunk;
  assert_true(idem_conn_next_chunk(conn, &chunk));
  char *answer = strndup(chunk.data, chunk.len);
  idem_chunk_free(&chunk);
  return answer;
}

/* `wanted`: the result; NULL: nothing is found. */
static void expect(idem_conn *conn, const char *method, const char *wanted) {
  char *answer = answer_of(conn, method), *result = strstr(answer, "\"result\":");
  if (wanted) {
    assert_non_null(result);
    result[strlen(result) - 2] = '\0';
    assert_string_equal(result + strlen("\"result\":"), wanted);
  } else {
    assert_non_null(strstr(answer, "-32601"));
  }
  free(answer);
}

static idem_conn *open_conn(const idem_router *router) {
  idem_conn *conn;
  assert_int_equal(idem_conn_new(&(idem_conn_opts){.router = router}, &conn), IDEM_OK);
  return conn;
}

static void values_are_given_to_the_handler(void **state) {
  (void)state;
  idem_router *router;
  assert_int_equal(idem_router_new(NULL, &router), IDEM_OK);
  add(router, "list.{a}");
  add(router, "doc/{a}/part.{b}");
  add(router, "get_{a}_by_{b}");
  idem_conn *conn = open_conn(router);
  expect(conn, "list.open", "[\"list.{a}\",\"open\"]");
  expect(conn, "list.\\u00e9", "[\"list.{a}\",\"\u00e9\"]");
  expect(conn, "doc/7/part.x", "[\"doc/{a}/part.{b}\",\"7\",\"x\"]");
  expect(conn, "get_user_by_name_", "[\"get_{a}_by_{b}\",\"user\",\"name_\"]");
  expect(conn, "list.{a}", "[\"list.{a}\",\"{a}\"]");
  idem_conn_free(conn);
  idem_router_free(router);
}

static void what_does_not_fit_whole_is_not_found(void **state) {
  (void)state;
  idem_router *router;
  assert_int_equal(idem_router_new(NULL, &router), IDEM_OK);
  add(router, "list.{a}");
  add(router, "x.{a}.y");
  idem_conn *conn = open_conn(router);
  static const char *const strangers[] = {"list",    "list.", "list.a.b", "list.a/b",
                                          "xlist.a", "x..y",  "x.a.z",    "x.a.",
                                          "x.a.yy",  "x.a",   "List.a"};
  for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++)
    expect(conn, strangers[i], NULL);
  char name[1200] = "list.";
  memset(name + 5, 'n', 1019);
  char *answer = answer_of(conn, name);
  assert_non_null(strstr(answer, "\"result\""));
  free(answer);
  name[1024] = 'n'; /* one past the bound */
  expect(conn, name, NULL);
  idem_conn_free(conn);
  idem_router_free(router);
}

static void a_name_wins_over_patterns_and_the_first_pattern_over_others(void **state) {
  (void)state;
  idem_router *router;
  assert_int_equal(idem_router_new(NULL, &router), IDEM_OK);
  add(router, "list.{a}");
  add(router, "{b}.open");
  assert_int_equal(idem_router_method(router, "list.all", tell, "exactly"), IDEM_OK);
  idem_conn *conn = open_conn(router);
  for (int again = 0; again < 2; again++) { /* what was asked last is remembered */
    expect(conn, "list.all", "[\"exactly\"]");
    expect(conn, "list.open", "[\"list.{a}\",\"open\"]");
    expect(conn, "list.all", "[\"exactly\"]");
    expect(conn, "file.open", "[\"{b}.open\",\"file\"]");
  }
  idem_conn_free(conn);
  idem_router_free(router);
}

static void what_is_no_pattern_is_refused(void **state) {
  (void)state;
  idem_router *router;
  char long_one[300] = "{a}.";
  memset(long_one + 4, 'x', 253);
  const char *const bad[] = {"",
                             "list",
                             "list.{}",
                             "list.{a",
                             "list.a}",
                             "{a}{b}",
                             "{a}.{a}",
                             "{a b}",
                             "{a}}",
                             "{{a}}",
                             "rpc.{a}",
                             "{n}n",
                             "{1}.{2}.{3}.{4}.{5}.{6}.{7}.{8}.{9}",
                             long_one};
  assert_int_equal(idem_router_new(NULL, &router), IDEM_OK);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(idem_router_pattern(router, bad[i], tell, NULL), IDEM_E_INVAL);
  assert_int_equal(idem_router_pattern(router, "{a}", NULL, NULL), IDEM_E_INVAL);
  add(router, "{a}.x");
  assert_int_equal(idem_router_pattern(router, "{a}.x", tell, NULL), IDEM_E_EXISTS);
  assert_int_equal(idem_router_method(router, "{a}.x", tell, NULL), IDEM_E_EXISTS);
  idem_router_free(router);
}

static void patterns_are_bounded(void **state) {
  (void)state;
  idem_router *router;
  char pattern[32];
  assert_int_equal(idem_router_new(NULL, &router), IDEM_OK);
  for (int i = 0; i < 256; i++) {
    snprintf(pattern, sizeof pattern, "n%d.{a}", i);
    assert_int_equal(idem_router_pattern(router, pattern, tell, "x"), IDEM_OK);
  }
  assert_int_equal(idem_router_pattern(router, "more.{a}", tell, NULL), IDEM_E_LIMIT);
  idem_conn *conn = open_conn(router);
  expect(conn, "n255.last", "[\"x\",\"last\"]");
  idem_conn_free(conn);
  idem_router_free(router);
}

static void patterns_are_listed_and_described_as_written(void **state) {
  (void)state;
  idem_router *router;
  assert_int_equal(idem_router_new(NULL, &router), IDEM_OK);
  add(router, "list.{a}");
  assert_int_equal(
      idem_router_describe(router, "list.{a}", &(idem_method_info){.description = "lists"}),
      IDEM_OK);
  assert_int_equal(idem_router_discover(router, "t", "1.0.0"), IDEM_OK);
  idem_conn *conn = open_conn(router);
  char *answer = answer_of(conn, "rpc.discover");
  assert_non_null(strstr(answer, "{\"name\":\"list.{a}\",\"description\":\"lists\""));
  free(answer);
  idem_conn_free(conn);
  idem_router_free(router);
}

static void a_peer_creates_no_labels_by_patterns(void **state) {
  (void)state;
  idem_router *router;
  idem_metrics *metrics;
  char *text;
  size_t len;
  assert_int_equal(idem_router_new(NULL, &router), IDEM_OK);
  assert_int_equal(idem_metrics_new(NULL, &metrics), IDEM_OK);
  add(router, "list.{a}");
  assert_int_equal(idem_router_label(router, metrics), IDEM_OK);
  idem_conn *conn;
  assert_int_equal(idem_conn_new(&(idem_conn_opts){.router = router, .metrics = metrics}, &conn),
                   IDEM_OK);
  expect(conn, "list.one", "[\"list.{a}\",\"one\"]");
  expect(conn, "list.two", "[\"list.{a}\",\"two\"]");
  assert_int_equal(idem_metrics_render(&metrics, 1, &text, &len), IDEM_OK);
  assert_non_null(strstr(text, "mcp_requests_total{method=\"list.{a}\",status=\"ok\"} 2"));
  assert_null(strstr(text, "list.one"));
  idem_metrics_text_free(metrics, text);
  idem_conn_free(conn);
  idem_router_free(router);
  idem_metrics_free(metrics);
}

/* Its values are read after the message's text has gone. */
static idem_request *kept;
static void keep(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  kept = request;
  idem_request_keep(request);
}

static void values_last_as_long_as_the_request(void **state) {
  (void)state;
  static const char text[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"wait.for_it\"}\n";
  idem_router *router;
  size_t len;
  assert_int_equal(idem_router_new(NULL, &router), IDEM_OK);
  assert_int_equal(idem_router_pattern(router, "wait.{a}", keep, NULL), IDEM_OK);
  idem_conn *conn = open_conn(router);
  char *copy = strdup(text);
  assert_int_equal(idem_conn_feed(conn, copy, strlen(copy)), IDEM_OK);
  free(copy);
  idem_conn_free(conn);
  const char *value = idem_request_value(kept, "a", &len);
  assert_int_equal(len, 6);
  assert_memory_equal(value, "for_it", 6);
  idem_request_drop(kept);
  idem_router_free(router);
}

static void register_and_ask(fault_alloc *fault, void *user) {
  (void)user;
  idem_router *router;
  idem_conn *conn;
  if (idem_router_new(&(idem_router_opts){.alloc = &fault->alloc}, &router) != IDEM_OK) return;
  idem_status status = idem_router_pattern(router, "list.{a}", tell, "x");
  if (status == IDEM_OK) status = idem_router_pattern(router, "{a}.x", tell, "x");
  idem_conn_opts opts = {.router = router, .alloc = &fault->alloc};
  if (status == IDEM_OK && idem_conn_new(&opts, &conn) == IDEM_OK) {
    static const char text[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"list.q\"}\n";
    idem_conn_feed(conn, text, sizeof text - 1);
    idem_conn_free(conn);
  }
  idem_router_free(router);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(register_and_ask, NULL, 1000) > 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_are_given_to_the_handler),
      cmocka_unit_test(what_does_not_fit_whole_is_not_found),
      cmocka_unit_test(a_name_wins_over_patterns_and_the_first_pattern_over_others),
      cmocka_unit_test(what_is_no_pattern_is_refused),
      cmocka_unit_test(patterns_are_bounded),
      cmocka_unit_test(patterns_are_listed_and_described_as_written),
      cmocka_unit_test(a_peer_creates_no_labels_by_patterns),
      cmocka_unit_test(values_last_as_long_as_the_request),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
