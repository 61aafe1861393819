/* test_plain_request.c - a method of a plain router may ask everything that mcp.h offers: it gets nothing,
 * and its request is answered once. Programs that serve both share their handlers' helpers. */
#include "support/unit.h"

#include <idem/mcp.h>

typedef void (*use_fn)(idem_request *request);

static void ask_everything(idem_request *request) {
  size_t len = 7;
  assert_string_equal(idem_principal(request), "");
  assert_int_equal(idem_request_revision(request), 0);
  assert_null(idem_request_meta(request));
  assert_null(idem_peer_info(request));
  assert_null(idem_peer_capabilities(request));
  assert_null(idem_uri_variable(request, "x"));
  assert_null(idem_answer_to(request, "x"));
  assert_null(idem_state(request, &len));
  assert_int_equal(len, 0);
  assert_false(idem_can_ask(request, IDEM_ASK_FORM));
  assert_false(idem_can_ask(request, IDEM_ASK_ROOTS));
  assert_false(idem_can_task(request));
}

static void tell_everything(idem_request *request) {
  idem_progress(request, 1, 2, "half");
  idem_mcp_log(request, IDEM_MCP_ERROR, NULL, "text");
  idem_task_status(request, "at work");
  idem_leave_stream(request);
  assert_int_equal(idem_task_start(request), IDEM_E_STATE);
}

static void look(idem_request *request) {
  ask_everything(request);
  tell_everything(request);
  assert_int_equal(idem_mcp_reply_json(request, "true", 4), IDEM_OK);
}

static void need(idem_request *request) {
  const idem_ask ask = {.key = "x", .kind = IDEM_ASK_ROOTS};
  assert_int_equal(idem_needs_input(request, &ask, 1, NULL, 0), IDEM_E_STATE);
}

static void require(idem_request *request) {
  assert_int_equal(idem_requires(request, "{\"roots\":{}}"), IDEM_E_STATE);
}

static void reply_resource(idem_request *request) {
  assert_int_equal(idem_resource_text(request, NULL, "x", 1), IDEM_E_STATE);
}

static void reply_prompt(idem_request *request) {
  assert_int_equal(idem_prompt_text(request, "x", 1), IDEM_E_STATE);
}

static void reply_completion(idem_request *request) {
  assert_int_equal(idem_completion_reply(request, NULL, 0, false), IDEM_E_STATE);
}

static void use(idem_request *request, yyjson_val *params, void *user) {
  use_fn *fn = user;
  (void)params;
  (*fn)(request);
}

static void plays(use_fn fn, const char *expected) {
  static const char question[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"use\"}\n";
  idem_router *router;
  idem_conn *conn;
  idem_chunk chunk;
  assert_int_equal(idem_router_new(NULL, &router), IDEM_OK);
  assert_int_equal(idem_router_method(router, "use", use, &fn), IDEM_OK);
  assert_int_equal(idem_conn_new(&(idem_conn_opts){.router = router}, &conn), IDEM_OK);
  assert_int_equal(idem_conn_feed(conn, question, sizeof question - 1), IDEM_OK);
  assert_true(idem_conn_next_chunk(conn, &chunk));
  assert_int_equal(chunk.len, strlen(expected));
  assert_memory_equal(chunk.data, expected, chunk.len);
  idem_chunk_free(&chunk);
  assert_false(idem_conn_next_chunk(conn, &chunk));
  idem_conn_free(conn);
  idem_router_free(router);
}

static void questions_about_a_plain_request_give_nothing(void **state) {
  (void)state;
  plays(look, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":true}\n");
}

static void answers_of_mcp_are_refused_for_a_plain_request(void **state) {
  (void)state;
  static const use_fn answers[] = {need, require, reply_resource, reply_prompt, reply_completion};
  for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
    plays(answers[i], "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32603,\"message\":"
                      "\"Internal error\"}}\n");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(questions_about_a_plain_request_give_nothing),
      cmocka_unit_test(answers_of_mcp_are_refused_for_a_plain_request),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
