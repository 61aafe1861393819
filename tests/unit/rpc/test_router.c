/* test_router.c - what can be registered, and what the built-ins tell about it. */
#include "support/fault_alloc.h"
#include "support/peer.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

static void nothing(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_reply(request, NULL);
}

static void hear(idem_conn *conn, yyjson_val *params, void *user) {
  (void)conn;
  (void)params;
  (void)user;
}

static void a_name_is_taken_once_for_methods_and_once_for_notifications(void **state) {
  (void)state;
  idem_router *router;
  assert_int_equal(idem_router_new(NULL, &router), IDEM_OK);
  assert_int_equal(idem_router_method(router, "a", nothing, NULL), IDEM_OK);
  assert_int_equal(idem_router_method(router, "a", nothing, NULL), IDEM_E_EXISTS);
  assert_int_equal(idem_router_notification(router, "a", hear, NULL), IDEM_OK);
  assert_int_equal(idem_router_notification(router, "a", hear, NULL), IDEM_E_EXISTS);
  idem_router_free(router);
}

static void names_that_begin_with_rpc_are_refused(void **state) {
  (void)state;
  idem_router *router;
  assert_int_equal(idem_router_new(NULL, &router), IDEM_OK);
  assert_int_equal(idem_router_method(router, "rpc.x", nothing, NULL), IDEM_E_INVAL);
  assert_int_equal(idem_router_notification(router, "rpc.", hear, NULL), IDEM_E_INVAL);
  assert_int_equal(idem_router_method(router, "rpc", nothing, NULL), IDEM_OK);
  assert_int_equal(idem_router_method(router, "rpcx", nothing, NULL), IDEM_OK);
  idem_router_free(router);
}

static void only_what_is_registered_can_be_described(void **state) {
  (void)state;
  idem_router *router;
  idem_method_info info = {.description = "d"};
  assert_int_equal(idem_router_new(NULL, &router), IDEM_OK);
  assert_int_equal(idem_router_describe(router, "a", &info), IDEM_E_NOTFOUND);
  assert_int_equal(idem_router_method(router, "a", nothing, NULL), IDEM_OK);
  assert_int_equal(idem_router_describe(router, "a", &info), IDEM_OK);
  assert_int_equal(idem_router_describe(router, "a", &info), IDEM_OK);
  idem_router_free(router);
}

static char *ask(idem_router *router, const char *method) {
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_LSP);
  policy.framing = IDEM_FRAMING_LINE;
  idem_conn *conn;
  idem_conn_opts opts = {.router = router, .policy = &policy};
  assert_int_equal(idem_conn_new(&opts, &conn), IDEM_OK);
  char text[256];
  int len =
      snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\"}\n", method);
  assert_int_equal(idem_conn_feed(conn, text, (size_t)len), IDEM_OK);
  idem_chunk chunk;
  assert_true(idem_conn_next_chunk(conn, &chunk));
  char *answer = strndup(chunk.data, chunk.len);
  idem_chunk_free(&chunk);
  idem_conn_free(conn);
  return answer;
}

static void expect_answer(idem_router *router, const char *method, const char *wanted) {
  char *answer = ask(router, method);
  assert_string_equal(answer, wanted);
  free(answer);
}

static void the_built_ins_list_and_describe_methods(void **state) {
  (void)state;
  idem_router *router;
  static const char *const params[] = {"level: string", "b: integer", NULL};
  idem_method_info info = {.description = "does \"it\"", .params = params, .returns = "object"};
  assert_int_equal(idem_router_new(NULL, &router), IDEM_OK);
  assert_int_equal(idem_router_method(router, "a", nothing, NULL), IDEM_OK);
  assert_int_equal(idem_router_method(router, "b", nothing, NULL), IDEM_OK);
  assert_int_equal(idem_router_notification(router, "only_heard", hear, NULL), IDEM_OK);
  assert_int_equal(idem_router_describe(router, "a", &info), IDEM_OK);
  idem_lsp_opts lsp = {.server_name = "s", .server_version = "1.2.3"};
  assert_int_equal(idem_router_lsp(router, &lsp), IDEM_OK);
  assert_int_equal(idem_router_lsp(router, &lsp), IDEM_E_EXISTS);
  expect_answer(router, "listMethods",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":["
                "{\"name\":\"a\",\"description\":\"does \\\"it\\\"\"},"
                "{\"name\":\"b\",\"description\":\"\"},"
                "{\"name\":\"initialize\",\"description\":\"Names the server\"},"
                "{\"name\":\"listMethods\",\"description\":\"Lists the methods\"},"
                "{\"name\":\"describeMethods\",\"description\":\"Describes the methods\"},"
                "{\"name\":\"version\",\"description\":\"Tells the server's version\"},"
                "{\"name\":\"setLogLevel\",\"description\":\"Sets the log level\"},"
                "{\"name\":\"shutdown\",\"description\":\"Shuts down gracefully\"}]}\n");
  char *described = ask(router, "describeMethods");
  assert_non_null(strstr(described, "{\"name\":\"a\",\"params\":[\"level: string\",\"b: integer\"],"
                                    "\"returns\":\"object\"},"
                                    "{\"name\":\"b\",\"params\":[],\"returns\":\"any\"}"));
  assert_non_null(strstr(described, "{\"name\":\"setLogLevel\",\"params\":[\"level: string\"]"));
  assert_null(strstr(described, "only_heard"));
  free(described);
  expect_answer(router, "version",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"version\":\"1.2.3\"}}\n");
  idem_router_free(router);
}

static void rpc_discover_is_an_openrpc_document(void **state) {
  (void)state;
  idem_router *router;
  static const char *const params[] = {"level: string", "b: whatever", NULL};
  idem_method_info info = {.description = "does it", .params = params, .returns = "object"};
  assert_int_equal(idem_router_new(NULL, &router), IDEM_OK);
  assert_int_equal(idem_router_method(router, "a", nothing, NULL), IDEM_OK);
  assert_int_equal(idem_router_notification(router, "only_heard", hear, NULL), IDEM_OK);
  assert_int_equal(idem_router_describe(router, "a", &info), IDEM_OK);
  assert_int_equal(idem_router_discover(router, "mine", "1.2.3"), IDEM_OK);
  assert_int_equal(idem_router_discover(router, "mine", "1.2.3"), IDEM_E_EXISTS);
  assert_int_equal(idem_router_method(router, "rpc.discover", nothing, NULL), IDEM_E_INVAL);
  expect_answer(router, "rpc.discover",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"openrpc\":\"1.3.2\","
                "\"info\":{\"title\":\"mine\",\"version\":\"1.2.3\"},\"methods\":["
                "{\"name\":\"a\",\"description\":\"does it\",\"params\":["
                "{\"name\":\"level\",\"schema\":{\"type\":\"string\"}},"
                "{\"name\":\"b\",\"schema\":{}}],"
                "\"result\":{\"name\":\"result\",\"schema\":{\"type\":\"object\"}}},"
                "{\"name\":\"rpc.discover\",\"description\":\"Describes the methods, as OpenRPC\","
                "\"params\":[],\"result\":{\"name\":\"result\",\"schema\":{\"type\":\"object\"}}}"
                "]}}\n");
  idem_router_free(router);
}

static void rpc_discover_has_the_schemas_of_params_and_results(void **state) {
  (void)state;
  idem_router *router;
  idem_method_info info = {
      .params_schema = IDEM_JSON({
        "properties" : {
          "n" : {"type" : "integer", "minimum" : 1, "description" : "how many"},
          "list" : {"type" : "array", "items" : {"$ref" : "#/$defs/one"}}
        },
        "required" : ["n"],
        "$defs" : {"one" : {"type" : "string"}}
      }),
      .result_schema =
          IDEM_JSON({"type" : "object", "properties" : {"ok" : {"type" : "boolean"}}})};
  assert_int_equal(idem_router_new(NULL, &router), IDEM_OK);
  assert_int_equal(idem_router_method(router, "a", nothing, NULL), IDEM_OK);
  assert_int_equal(idem_router_describe(router, "a", &(idem_method_info){.params_schema = "{"}),
                   IDEM_E_INVAL);
  assert_int_equal(idem_router_describe(router, "a", &(idem_method_info){.result_schema = "[]"}),
                   IDEM_E_INVAL);
  assert_int_equal(idem_router_describe(router, "a", &info), IDEM_OK);
  assert_int_equal(idem_router_discover(router, "mine", "1.2.3"), IDEM_OK);
  expect_answer(router, "rpc.discover",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"openrpc\":\"1.3.2\","
                "\"info\":{\"title\":\"mine\",\"version\":\"1.2.3\"},\"methods\":["
                "{\"name\":\"a\",\"params\":["
                "{\"name\":\"n\",\"description\":\"how many\",\"required\":true,\"schema\":"
                "{\"type\":\"integer\",\"minimum\":1,\"description\":\"how many\"}},"
                "{\"name\":\"list\",\"schema\":{\"type\":\"array\"}}],"
                "\"result\":{\"name\":\"result\",\"schema\":"
                "{\"type\":\"object\",\"properties\":{\"ok\":{\"type\":\"boolean\"}}}}},"
                "{\"name\":\"rpc.discover\",\"description\":\"Describes the methods, as OpenRPC\","
                "\"params\":[],\"result\":{\"name\":\"result\",\"schema\":{\"type\":\"object\"}}}"
                "]}}\n");
  idem_router_free(router);
}

static void discover_once(fault_alloc *fault, void *user) {
  idem_router *router;
  (void)user;
  if (idem_router_new(&(idem_router_opts){.alloc = &fault->alloc}, &router) != IDEM_OK) return;
  idem_method_info info = {.params_schema = "{\"properties\":{\"a\":{}}}", .result_schema = "{}"};
  if (idem_router_method(router, "a", nothing, NULL) == IDEM_OK)
    (void)idem_router_describe(router, "a", &info);
  (void)idem_router_discover(router, "mine", "1.2.3");
  idem_router_free(router);
}

static void discovery_leaks_nothing_without_memory(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(discover_once, NULL, 100) >= 4);
}

static void json_is_written_without_escapes(void **state) {
  static const char text[] = IDEM_JSON({"type" : [ "a", "b\\d \"c\"" ]});
  (void)state;
  yyjson_doc *doc = yyjson_read(text, sizeof text - 1, 0);
  assert_string_equal(
      yyjson_get_str(yyjson_arr_get(yyjson_obj_get(yyjson_doc_get_root(doc), "type"), 1)),
      "b\\d \"c\"");
  yyjson_doc_free(doc);
}

static void drop_line(void *ctx, const char *line, size_t len) {
  (void)ctx;
  (void)line;
  (void)len;
}

static void set_log_level_sets_the_log(void **state) {
  (void)state;
  idem_router *router;
  idem_log *log;
  idem_log_opts log_opts = {.level = IDEM_LOG_ERROR, .write = drop_line};
  assert_int_equal(idem_log_new(&log_opts, &log), IDEM_OK);
  idem_lsp_opts lsp = {.server_name = "s", .server_version = "1.2.3", .log = log};
  assert_int_equal(idem_router_new(NULL, &router), IDEM_OK);
  assert_int_equal(idem_router_lsp(router, &lsp), IDEM_OK);
  idem_conn *conn;
  idem_conn_opts opts = {.router = router, .log = log};
  assert_int_equal(idem_conn_new(&opts, &conn), IDEM_OK);
  static const char text[] =
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"setLogLevel\",\"params\":{\"level\":\"INFO\"}}\n";
  assert_int_equal(idem_conn_feed(conn, text, sizeof text - 1), IDEM_OK);
  assert_int_equal(idem_log_get_level(log), IDEM_LOG_INFO);
  idem_conn_free(conn);
  idem_router_free(router);
  idem_log_free(log);
}

static void fill_router(fault_alloc *fault, void *user) {
  (void)user;
  idem_router *router;
  idem_router_opts opts = {.alloc = &fault->alloc};
  if (idem_router_new(&opts, &router) != IDEM_OK) return;
  static const char *const params[] = {"a: string", "b: string", NULL};
  idem_method_info info = {.description = "d", .params = params, .returns = "r"};
  for (int i = 0; i < 20; i++) {
    char name[16];
    snprintf(name, sizeof name, "m%d", i);
    if (idem_router_method(router, name, nothing, NULL) != IDEM_OK) continue;
    idem_router_describe(router, name, &info);
  }
  idem_lsp_opts lsp = {.server_name = "s", .server_version = "1.2.3"};
  idem_router_lsp(router, &lsp);
  idem_router_free(router);
}

static void a_router_survives_the_want_of_memory(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(fill_router, NULL, 10000) > 20);
  assert_true(fault_alloc_sweep_ever_after(fill_router, NULL, 10000) > 20);
}

/* Kept requests hold their messages' memory; all conns of a router share one bound for it. */
static void the_memory_of_all_messages_of_a_router_is_bounded(void **state) {
  (void)state;
  fault_alloc memory;
  fault_alloc_init(&memory);
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  peer *p = calloc(1, sizeof *p);
  assert_non_null(p);
  peer_opts opts = {.alloc = &memory.alloc, .policy = &policy, .test_methods = true};
  assert_int_equal(peer_open(p, &opts), IDEM_OK);
  idem_router *router;
  idem_router_opts router_opts = {.alloc = &memory.alloc, .parse_bytes_total = 1 << 20};
  assert_int_equal(idem_router_new(&router_opts, &router), IDEM_OK);
  idem_router *first = p->router;
  idem_conn_free(p->conn);
  p->router = router;
  assert_int_equal(peer_register_test(p), IDEM_OK);
  idem_conn_opts conn_opts = {
      .router = router, .policy = &policy, .alloc = &memory.alloc, .user = p};
  assert_int_equal(idem_conn_new(&conn_opts, &p->conn), IDEM_OK);
  char *text = malloc(50000);
  assert_non_null(text);
  for (int i = 0; i < 100; i++) {
    int len =
        snprintf(text, 50000, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"keep\",\"params\":[", i);
    for (int k = 0; k < 20000; k++) text[len++] = k % 2 ? ',' : '1';
    len += snprintf(text + len, 16, "1]}\n");
    assert_int_equal(peer_feed(p, text, (size_t)len), IDEM_OK);
  }
  assert_true(memory.peak_bytes < 3 << 20);
  size_t refused = 0;
  const peer_text *got;
  while ((got = peer_list_take(&p->messages))) refused += strstr(got->data, "-32600") != NULL;
  assert_true(refused > 50);
  free(text);
  peer_close(p);
  idem_router_free(first);
  free(p);
  fault_alloc_assert_clean(&memory);
}

static void counted_requests_show_up_in_the_metrics(void **state) {
  (void)state;
  idem_router *router;
  idem_metrics *metrics;
  assert_int_equal(idem_router_new(NULL, &router), IDEM_OK);
  assert_int_equal(idem_router_method(router, "a", nothing, NULL), IDEM_OK);
  assert_int_equal(idem_metrics_new(NULL, &metrics), IDEM_OK);
  assert_int_equal(idem_router_label(router, metrics), IDEM_OK);
  idem_conn *conn;
  idem_conn_opts opts = {.router = router, .metrics = metrics};
  assert_int_equal(idem_conn_new(&opts, &conn), IDEM_OK);
  static const char text[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\n"
                             "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"evil{label=\\\"x\\\"}\"}\n"
                             "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n"
                             "{\"jsonrpc\":\"2.0\",\"method\":\"evil\"}\n"
                             "x\n";
  assert_int_equal(idem_conn_feed(conn, text, sizeof text - 1), IDEM_OK);
  char *rendered;
  size_t len;
  assert_int_equal(idem_metrics_render(&metrics, 1, &rendered, &len), IDEM_OK);
  assert_non_null(strstr(rendered, "mcp_requests_total{method=\"a\",status=\"ok\"} 1"));
  assert_non_null(strstr(rendered, "mcp_requests_total{method=\"other\",status=\"error\"} 1"));
  assert_non_null(strstr(rendered, "mcp_notifications_total{method=\"a\"} 1"));
  assert_non_null(strstr(rendered, "mcp_notifications_total{method=\"other\"} 1"));
  assert_null(strstr(rendered, "evil"));
  idem_metrics_text_free(metrics, rendered);
  idem_conn_free(conn);
  idem_metrics_free(metrics);
  idem_router_free(router);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_name_is_taken_once_for_methods_and_once_for_notifications),
      cmocka_unit_test(names_that_begin_with_rpc_are_refused),
      cmocka_unit_test(only_what_is_registered_can_be_described),
      cmocka_unit_test(the_built_ins_list_and_describe_methods),
      cmocka_unit_test(rpc_discover_is_an_openrpc_document),
      cmocka_unit_test(rpc_discover_has_the_schemas_of_params_and_results),
      cmocka_unit_test(discovery_leaks_nothing_without_memory),
      cmocka_unit_test(json_is_written_without_escapes),
      cmocka_unit_test(set_log_level_sets_the_log),
      cmocka_unit_test(a_router_survives_the_want_of_memory),
      cmocka_unit_test(the_memory_of_all_messages_of_a_router_is_bounded),
      cmocka_unit_test(counted_requests_show_up_in_the_metrics),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
