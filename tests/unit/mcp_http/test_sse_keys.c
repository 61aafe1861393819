/* test_sse_keys.c - keys on 2024-11-05's transport: the header Idempotency-Key of a POST to /message belongs to the message that it
 * came with, whenever that has its turn. */
#include "http/endpoint.h"
#include "kept_call.h"

#include <stdio.h>

#define HELLO                                                                                      \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"       \
  "\"2024-11-05\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}"
#define READY "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"
#define CALL(id, tool, arguments)                                                                  \
  "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" tool     \
  "\",\"arguments\":" arguments "}}"
#define ADD(id, number) CALL(id, "add", "{\"a\":1,\"b\":" #number "}")
#define KEY(key) "Idempotency-Key: " key "\r\n"

typedef struct world {
  mcp_web web;
  mcp_web_conn stream;
  kept_call call;
  char target[128];
} world;

static void post(world *in, const char *headers, const char *body) {
  mcp_web_expect(mcp_web_ask(&in->web, "POST", in->target, headers, body), "202 Accepted");
  mcp_web_settle(&in->stream);
}

static void set_up(world *in, size_t concurrency) {
  *in = (world){.call = {0}};
  mcp_web_open(&in->web, &(mcp_web_opts){.store = NULL});
  kept_call_at(&in->web, &in->call);
  in->web.endpoint->rpc->policy.concurrency = concurrency;
  mcp_web_connect(&in->web, &in->stream);
  mcp_web_open_sse(&in->stream, "", in->target);
  post(in, "", HELLO);
  post(in, "", READY);
}

static void tear_down(world *in) {
  mcp_web_disconnect(&in->stream);
  mcp_web_deliver(&in->web);
  mcp_web_close(&in->web);
}

/* What the stream said to the request of this id, up to its end. */
static void expect(world *in, const char *id, const char *text) {
  char from[32];
  snprintf(from, sizeof from, "\"id\":%s,", id);
  const char *at = strstr(in->stream.output, from), *found = at ? strstr(at, text) : NULL;
  if (!found || found > at + strcspn(at, "\n"))
    fail_msg("no %s of %s in:\n%s", text, id, in->stream.output);
}

static void a_posted_call_with_a_key_runs_once(void **state) {
  (void)state;
  world in;
  set_up(&in, 0);
  post(&in, KEY("\"a-1\""), ADD(2, 2));
  expect(&in, "2", "\"result\"");
  assert_int_equal(mcp_web_times(&in.stream, "idem/replayed"), 0);
  post(&in, KEY("a-1"), ADD(3, 2));
  expect(&in, "3", "\"idem/replayed\":true");
  post(&in, KEY("a-1"), ADD(4, 3));
  expect(&in, "4", "\"reason\":\"key-reused\"");
  post(&in, "", ADD(5, 3));
  expect(&in, "5", "\"result\"");
  tear_down(&in);
}

static void what_is_no_key_is_refused_on_the_stream(void **state) {
  (void)state;
  world in;
  set_up(&in, 0);
  post(&in, KEY("a b"), ADD(2, 2));
  expect(&in, "2", "\"reason\":\"bad-key\"");
  post(&in, KEY("a") KEY("b"), ADD(3, 2));
  expect(&in, "3", "\"reason\":\"bad-key\"");
  post(&in, KEY("\xff"), ADD(4, 2));
  expect(&in, "4", "\"reason\":\"bad-key\"");
  tear_down(&in);
}

/* Whichever was posted last while they waited. */
static void calls_that_wait_for_their_turn_keep_their_own_keys(void **state) {
  (void)state;
  world in;
  set_up(&in, 1);
  post(&in, "", CALL(2, "slow", "{}"));
  assert_int_equal(in.call.runs, 1);
  post(&in, KEY("x"), ADD(3, 3));
  post(&in, KEY("y"), ADD(4, 4));
  post(&in, "", ADD(5, 5));
  idem_tool_text(in.call.request, "done", 4);
  mcp_web_settle(&in.stream);
  expect(&in, "5", "\"result\"");
  post(&in, KEY("x"), ADD(6, 3));
  expect(&in, "6", "\"idem/replayed\":true");
  post(&in, KEY("y"), ADD(7, 4));
  expect(&in, "7", "\"idem/replayed\":true");
  tear_down(&in);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_posted_call_with_a_key_runs_once),
      cmocka_unit_test(what_is_no_key_is_refused_on_the_stream),
      cmocka_unit_test(calls_that_wait_for_their_turn_keep_their_own_keys),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
