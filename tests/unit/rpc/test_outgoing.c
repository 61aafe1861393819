/* test_outgoing.c - a message on its way out says what it is, so that transports need not read it. */
#include "support/unit.h"

#include <idem/rpc.h>
#include <string.h>

typedef struct stage {
  idem_router *router;
  idem_conn *conn;
} stage;

static void echo(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  idem_reply(request, params);
}

static void answer_seven(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_reply_error(request, 7, "seven", NULL);
}

static void on_response(idem_conn *conn, const idem_response *response, void *user) {
  (void)conn;
  (void)response;
  (void)user;
}

static void open_stage(stage *s, idem_framing framing) {
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.framing = framing;
  assert_int_equal(idem_router_new(NULL, &s->router), IDEM_OK);
  assert_int_equal(idem_router_method(s->router, "echo", echo, NULL), IDEM_OK);
  assert_int_equal(idem_router_method(s->router, "fail", answer_seven, NULL), IDEM_OK);
  idem_conn_opts opts = {.router = s->router, .policy = &policy};
  assert_int_equal(idem_conn_new(&opts, &s->conn), IDEM_OK);
}

static void close_stage(stage *s) {
  idem_conn_free(s->conn);
  idem_router_free(s->router);
}

/* What the next chunk says of itself; it must be there, and hold `part`. */
static idem_outgoing take(stage *s, const char *part) {
  idem_chunk chunk;
  assert_true(idem_conn_next_chunk(s->conn, &chunk));
  char text[512];
  assert_true(chunk.len < sizeof text);
  memcpy(text, chunk.data, chunk.len);
  text[chunk.len] = 0;
  assert_non_null(strstr(text, part));
  idem_outgoing what = chunk.what;
  idem_chunk_free(&chunk);
  return what;
}

static void feed(stage *s, const char *text) {
  assert_int_equal(idem_conn_feed(s->conn, text, strlen(text)), IDEM_OK);
}

static idem_outgoing answer_to(const char *text, const char *part) {
  stage s;
  open_stage(&s, IDEM_FRAMING_WHOLE);
  feed(&s, text);
  assert_int_equal(idem_conn_feed_eof(s.conn), IDEM_OK);
  idem_outgoing what = take(&s, part);
  close_stage(&s);
  return what;
}

static void a_result_says_so(void **state) {
  (void)state;
  const char *trick = "{\"jsonrpc\":\"2.0\",\"id\":\"a\\\",\\\"error\\\":{\",\"method\":\"echo\"}";
  assert_int_equal(answer_to(trick, "result").kind, IDEM_OUTGOING_RESULT);
}

static void an_error_says_its_code(void **state) {
  (void)state;
  idem_outgoing what =
      answer_to("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"fail\"}", "\"code\":7");
  assert_int_equal(what.kind, IDEM_OUTGOING_ERROR);
  assert_int_equal(what.code, 7);
  what = answer_to("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"nope\"}", "-32601");
  assert_int_equal(what.kind, IDEM_OUTGOING_ERROR);
  assert_int_equal(what.code, IDEM_RPC_METHOD_NOT_FOUND);
  what = answer_to("not JSON", "-32700");
  assert_int_equal(what.kind, IDEM_OUTGOING_ERROR);
  assert_int_equal(what.code, IDEM_RPC_PARSE_ERROR);
}

static void an_array_of_answers_says_so(void **state) {
  (void)state;
  const char *batch = "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"fail\"}]";
  assert_int_equal(answer_to(batch, "[{").kind, IDEM_OUTGOING_BATCH);
}

static void our_own_messages_say_what_they_are(void **state) {
  (void)state;
  stage s;
  uint64_t id = 0;
  open_stage(&s, IDEM_FRAMING_WHOLE);
  assert_int_equal(idem_call(s.conn, "m", NULL, NULL, on_response, NULL, &id), IDEM_OK);
  assert_int_equal(idem_notify_json(s.conn, "n", "{\"id\":1}", 8), IDEM_OK);
  idem_outgoing what = take(&s, "\"m\"");
  assert_int_equal(what.kind, IDEM_OUTGOING_CALL);
  assert_int_equal(what.call, id);
  assert_int_equal(take(&s, "\"n\"").kind, IDEM_OUTGOING_NOTIFICATION);
  close_stage(&s);
}

static void a_chunk_of_several_messages_says_so(void **state) {
  (void)state;
  stage s;
  open_stage(&s, IDEM_FRAMING_LINE);
  feed(&s, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\"}\n"
           "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"echo\"}\n");
  assert_int_equal(take(&s, "\"id\":2").kind, IDEM_OUTGOING_SEVERAL);
  close_stage(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_result_says_so),
      cmocka_unit_test(an_error_says_its_code),
      cmocka_unit_test(an_array_of_answers_says_so),
      cmocka_unit_test(our_own_messages_say_what_they_are),
      cmocka_unit_test(a_chunk_of_several_messages_says_so),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
