/* test_once.c - keys by HTTP: the header Idempotency-Key, what its answer says, plain methods, batches, and the end of a
 * connection. */
#include "kept_call.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define MODERN "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: slow\r\n"
#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":{}}"

typedef struct world {
  mcp_web web;
  kept_call call;
  char session[64];
} world;

static void shake_hands(world *in) {
  char *answer = mcp_web_ask(
      &in->web, "POST", "/mcp", "",
      "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
      "\"2025-03-26\",\"capabilities\":{},\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}");
  mcp_web_session(answer, in->session);
}

static void set_up(world *in) {
  *in = (world){.call = {0}};
  mcp_web_open(&in->web, &(mcp_web_opts){.store = NULL});
  kept_call_at(&in->web, &in->call);
  shake_hands(in);
}

static char *post(world *in, const char *headers, const char *body) {
  char all[512];
  snprintf(all, sizeof all, "%sMCP-Protocol-Version: 2025-03-26\r\n%s", in->session, headers);
  return mcp_web_ask(&in->web, "POST", "/mcp", all, body);
}

static void expect(char *answer, const char *text, const char *more) {
  if (more && !strstr(answer, more)) fail_msg("no %s in:\n%s", more, answer);
  mcp_web_expect(answer, text);
}

#define ADD                                                                                        \
  "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{\"name\":\"add\","         \
  "\"arguments\":{\"a\":1,\"b\":%d}%s}}"

static char *add(world *in, const char *headers, int id, int number, const char *meta) {
  char body[512];
  snprintf(body, sizeof body, ADD, id, number, meta);
  return post(in, headers, body);
}

static void the_answer_says_that_it_was_given_before(void **state) {
  world in;
  (void)state;
  set_up(&in);
  char *first = add(&in, "Idempotency-Key: \"a-1\"\r\n", 1, 2, "");
  assert_null(strstr(first, "Idempotency-Replayed"));
  expect(first, " 200 ", "\"id\":1,\"result\"");
  char *again = add(&in, "Idempotency-Key: a-1\r\n", 2, 2, "");
  assert_non_null(strstr(again, "\"idem/replayed\":true"));
  expect(again, "Idempotency-Replayed: true\r\n", "\"id\":2,\"result\"");
  expect(add(&in, "", 3, 2, ",\"_meta\":{\"idem/key\":\"a-1\"}"), "Idempotency-Replayed: true\r\n",
         "\"id\":3,");
  mcp_web_close(&in.web);
}

static void what_cannot_be_is_refused_with_its_reason(void **state) {
  world in;
  (void)state;
  set_up(&in);
  free(add(&in, "Idempotency-Key: k\r\n", 1, 2, ""));
  expect(add(&in, "Idempotency-Key: k\r\n", 2, 3, ""), " 422 ", "\"reason\":\"key-reused\"");
  expect(add(&in, "Idempotency-Key: \"\"\r\n", 3, 3, ""), " 400 ", "\"reason\":\"bad-key\"");
  expect(add(&in, "Idempotency-Key: a b\r\n", 4, 3, ""), " 400 ", "\"reason\":\"bad-key\"");
  expect(add(&in, "Idempotency-Key: a\r\nIdempotency-Key: b\r\n", 5, 3, ""), " 400 ",
         "\"reason\":\"bad-key\"");
  expect(add(&in, "Idempotency-Key: a\r\n", 6, 3, ",\"_meta\":{\"idem/key\":\"b\"}"), " 400 ",
         "\"reason\":\"key-mismatch\"");
  mcp_web_close(&in.web);
}

/* It says who asks for each of several; that is not known of a key. */
static void a_key_on_a_batch_is_refused(void **state) {
  char one[512], two[512], body[1100];
  world in;
  (void)state;
  set_up(&in);
  snprintf(one, sizeof one, ADD, 1, 2, "");
  snprintf(two, sizeof two, ADD, 2, 3, "");
  snprintf(body, sizeof body, "[%s,%s]", one, two);
  char *answer = post(&in, "Idempotency-Key: k\r\n", body);
  if (!strstr(answer, "\"id\":2,\"error\"")) fail_msg("%s", answer);
  expect(answer, "\"reason\":\"key-on-batch\"", "\"id\":1,\"error\"");
  /* Whatever is in it. */
  expect(
      post(&in, "Idempotency-Key: k\r\n", "[{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"}]"),
      "\"reason\":\"key-on-batch\"", "\"id\":3,\"error\"");
  mcp_web_close(&in.web);
}

#define CALL(tool, members)                                                                        \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"" tool           \
  "\",\"arguments\":{}" members "}}"
#define MODERN_CALL(tool, capabilities)                                                            \
  CALL(tool, ",\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","             \
             "\"io.modelcontextprotocol/clientCapabilities\":{" capabilities "}}")
#define FOLLOWS "\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}"

/* With the key "t", in 2026-07-28. */
static char *call_modern(world *in, const char *tool, const char *body) {
  char headers[256];
  snprintf(headers, sizeof headers,
           "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: %s\r\n"
           "Idempotency-Key: t\r\n",
           tool);
  return mcp_web_ask(&in->web, "POST", "/mcp", headers, body);
}

/* ... and in 2025-11-25. */
static char *call_core(world *in, const char *body) {
  char session[64], headers[256];
  mcp_web_session(
      mcp_web_ask(&in->web, "POST", "/mcp", "",
                  "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
                  "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":"
                  "{\"name\":\"c\",\"version\":\"1\"}}}"),
      session);
  snprintf(headers, sizeof headers, "%sMCP-Protocol-Version: 2025-11-25\r\nIdempotency-Key: t\r\n",
           session);
  return mcp_web_ask(&in->web, "POST", "/mcp", headers, body);
}

static void the_key_of_a_task_is_answered_in_the_form_of_who_asks(void **state) {
  world in;
  (void)state;
  set_up(&in);
  expect(call_modern(&in, "job", MODERN_CALL("job", FOLLOWS)), "\"resultType\":\"task\",\"taskId\"",
         NULL);
  expect(call_modern(&in, "job", MODERN_CALL("job", FOLLOWS)), "\"idem/replayed\":true",
         "\"resultType\":\"task\",\"taskId\"");
  expect(call_core(&in, CALL("job", ",\"task\":{}")), "\"idem/replayed\":true",
         "\"result\":{\"task\":{\"taskId\"");
  char *nested = call_core(&in, CALL("job", ",\"task\":{}"));
  assert_null(strstr(nested, "ttlMs"));
  assert_null(strstr(nested, "resultType"));
  expect(nested, "\"pollInterval\":", "\"ttl\":");
  assert_int_equal(in.call.runs, 1);
  mcp_web_close(&in.web);
}

static void who_cannot_follow_a_task_is_not_told_of_one(void **state) {
  world in;
  (void)state;
  set_up(&in);
  free(call_core(&in, CALL("job", ",\"task\":{}")));
  char *answer = call_modern(&in, "job", MODERN_CALL("job", ""));
  assert_null(strstr(answer, "taskId"));
  assert_null(strstr(answer, "Idempotency-Replayed"));
  expect(answer, " 400 ", "-32021");
  expect(call_core(&in, CALL("job", "")), " 422 ", "\"reason\":\"key-of-task\"");
  expect(post(&in, "Idempotency-Key: t\r\n", CALL("job", "")), " 422 ",
         "\"reason\":\"key-of-task\"");
  assert_int_equal(in.call.runs, 1);
  mcp_web_close(&in.web);
}

static void a_result_is_replayed_in_the_form_of_who_asks(void **state) {
  world in;
  (void)state;
  set_up(&in);
  expect(call_modern(&in, "fail", MODERN_CALL("fail", "")), "\"resultType\":\"complete\"", NULL);
  char *answer = call_core(&in, CALL("fail", ""));
  assert_null(strstr(answer, "resultType"));
  expect(answer, "\"idem/replayed\":true", "\"isError\":true");
  mcp_web_close(&in.web);
}

static void who_loses_its_connection_comes_back_for_the_answer(void **state) {
  static const char body[] = "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{"
                             "\"name\":\"slow\"," META "}}";
  char text[512];
  mcp_web_conn first;
  world in;
  (void)state;
  set_up(&in);
  snprintf(text, sizeof text, body, 1);
  mcp_web_connect(&in.web, &first);
  mcp_web_send(&first, "POST", "/mcp", MODERN "Idempotency-Key: k\r\n", text);
  assert_int_equal(in.call.runs, 1);
  mcp_web_disconnect(&first);
  assert_int_equal(in.call.cancelled, 0);
  mcp_web_connect(&in.web, &first);
  snprintf(text, sizeof text, body, 2);
  mcp_web_send(&first, "POST", "/mcp", MODERN "Idempotency-Key: k\r\n", text);
  assert_int_equal(in.call.runs, 1);
  idem_tool_text(in.call.request, "it happened", 11);
  mcp_web_settle(&first);
  if (!strstr(first.output, "it happened")) fail_msg("%s", first.output);
  assert_non_null(strstr(first.output, "Idempotency-Replayed: true"));
  mcp_web_disconnect(&first);
  mcp_web_close(&in.web);
}

#define SLOW                                                                                       \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"slow\"," META "}}"
#define GIVEN_UP                                                                                   \
  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/idem/"                                          \
  "cancelled\",\"params\":{\"name\":\"slow\","                                                     \
  "\"_meta\":{\"idem/key\":\"%s\"}}}"

static void give_up(world *in, const char *key) {
  char body[256];
  snprintf(body, sizeof body, GIVEN_UP, key);
  expect(mcp_web_ask(&in->web, "POST", "/mcp", "MCP-Protocol-Version: 2026-07-28\r\n", body),
         " 202 ", NULL);
}

static void ask_slow(world *in, mcp_web_conn *conn) {
  mcp_web_connect(&in->web, conn);
  mcp_web_send(conn, "POST", "/mcp", MODERN "Idempotency-Key: k\r\n", SLOW);
  assert_int_equal(in->call.runs, 1);
}

/* The connection may be noticed to have gone before that, or after. */
static void who_gives_a_call_up_by_its_key_cancels_it(void **state) {
  (void)state;
  for (int late = 0; late < 2; late++) {
    mcp_web_conn conn;
    world in;
    set_up(&in);
    ask_slow(&in, &conn);
    give_up(&in, "another");
    if (late) give_up(&in, "k");
    assert_int_equal(in.call.cancelled, 0);
    mcp_web_disconnect(&conn);
    if (!late) assert_int_equal(in.call.cancelled, 0);
    if (!late) give_up(&in, "k");
    assert_int_equal(in.call.cancelled, 1);
    mcp_web_connect(&in.web, &conn);
    mcp_web_send(&conn, "POST", "/mcp", MODERN "Idempotency-Key: k\r\n", SLOW);
    if (!strstr(conn.output, "outcome-unknown")) fail_msg("%s", conn.output);
    assert_int_equal(in.call.runs, 1);
    mcp_web_disconnect(&conn);
    mcp_web_close(&in.web);
  }
}

static void who_gives_a_call_up_does_not_take_it_from_another(void **state) {
  mcp_web_conn first, second;
  world in;
  (void)state;
  set_up(&in);
  ask_slow(&in, &first);
  ask_slow(&in, &second);
  mcp_web_disconnect(&first);
  give_up(&in, "k");
  assert_int_equal(in.call.cancelled, 0);
  idem_tool_text(in.call.request, "it happened", 11);
  mcp_web_settle(&second);
  if (!strstr(second.output, "it happened")) fail_msg("%s", second.output);
  mcp_web_disconnect(&second);
  mcp_web_close(&in.web);
}

/* The handler has answered and the store is slow, or its key is not even taken: a server that goes says 503, as at other times. */
static void what_the_store_has_not_taken_when_the_server_ends_is_503(void **state) {
  static const later_store_opts later = {.seed = 3};
  (void)state;
  for (int run = 0; run < 2; run++) {
    world in = {.call = {0}};
    mcp_web_conn conn;
    mcp_web_open(&in.web, &(mcp_web_opts){.later = &later});
    kept_call_at(&in.web, &in.call);
    later_store_hold(in.web.later, run == 0);
    mcp_web_connect(&in.web, &conn);
    mcp_web_send(&conn, "POST", "/mcp", MODERN "Idempotency-Key: k\r\n", SLOW);
    mcp_web_settle(&conn);
    assert_int_equal(in.call.runs, run);
    later_store_hold(in.web.later, true);
    if (run) idem_tool_text(in.call.request, "done", 4);
    idem__http_conn_abort(conn.conn, in.web.now_ms);
    mcp_web_settle(&conn);
    if (!strstr(conn.output, " 503 ")) fail_msg("%s", conn.output);
    assert_non_null(strstr(conn.output, "Retry-After: "));
    assert_non_null(strstr(conn.output, "\"id\":1,\"error\":{\"code\":-32603"));
    assert_non_null(strstr(conn.output, "\"reason\":\"unavailable\""));
    mcp_web_disconnect(&conn);
    later_store_hold(in.web.later, false);
    mcp_web_close(&in.web);
  }
}

/* It is told to end, and its client hears what the record will say: at once, or while the store has not answered. */
static void what_runs_when_the_server_ends_is_unknown(void **state) {
  static const later_store_opts later = {.seed = 3};
  (void)state;
  for (int run = 0; run < 2; run++) {
    world in = {.call = {0}};
    mcp_web_conn conn;
    mcp_web_open(&in.web, &(mcp_web_opts){.later = run ? &later : NULL});
    kept_call_at(&in.web, &in.call);
    mcp_web_connect(&in.web, &conn);
    mcp_web_send(&conn, "POST", "/mcp", MODERN "Idempotency-Key: k\r\n", SLOW);
    mcp_web_settle(&conn);
    assert_int_equal(in.call.runs, 1);
    if (run) later_store_hold(in.web.later, true);
    idem__http_conn_abort(conn.conn, in.web.now_ms);
    mcp_web_settle(&conn);
    assert_int_equal(in.call.cancelled, 1);
    if (!strstr(conn.output, " 409 ")) fail_msg("%s", conn.output);
    assert_non_null(
        strstr(conn.output, "\"id\":1,\"error\":{\"code\":-32603,\"message\":\"Outcome"));
    assert_non_null(strstr(conn.output, "\"reason\":\"outcome-unknown\""));
    mcp_web_disconnect(&conn);
    if (run) later_store_hold(in.web.later, false);
    mcp_web_expect(mcp_web_ask(&in.web, "POST", "/mcp", MODERN "Idempotency-Key: k\r\n", SLOW),
                   "outcome-unknown");
    assert_int_equal(in.call.runs, 1);
    mcp_web_close(&in.web);
  }
}

static void who_has_all_the_keys_it_may_have_is_told_to_come_again(void **state) {
  world in = {.call = {0}};
  (void)state;
  mcp_web_open(&in.web, &(mcp_web_opts){.server = {.max_keys_each = 1}});
  shake_hands(&in);
  expect(add(&in, "Idempotency-Key: a\r\n", 1, 2, ""), "\"id\":1,\"result\"", " 200 ");
  char *refused = add(&in, "Idempotency-Key: b\r\n", 2, 2, "");
  assert_non_null(strstr(refused, " 429 "));
  expect(refused, "too-many-keys-of-caller", "\r\nRetry-After: 1\r\n");
  mcp_web_close(&in.web);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_answer_says_that_it_was_given_before),
      cmocka_unit_test(what_cannot_be_is_refused_with_its_reason),
      cmocka_unit_test(a_key_on_a_batch_is_refused),
      cmocka_unit_test(the_key_of_a_task_is_answered_in_the_form_of_who_asks),
      cmocka_unit_test(who_cannot_follow_a_task_is_not_told_of_one),
      cmocka_unit_test(a_result_is_replayed_in_the_form_of_who_asks),
      cmocka_unit_test(who_loses_its_connection_comes_back_for_the_answer),
      cmocka_unit_test(who_gives_a_call_up_by_its_key_cancels_it),
      cmocka_unit_test(who_gives_a_call_up_does_not_take_it_from_another),
      cmocka_unit_test(what_the_store_has_not_taken_when_the_server_ends_is_503),
      cmocka_unit_test(what_runs_when_the_server_ends_is_unknown),
      cmocka_unit_test(who_has_all_the_keys_it_may_have_is_told_to_come_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
