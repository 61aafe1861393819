/* test_tool_counts.c - each call of a tool is counted once, by how it ended, under a name that exists. */
#include "support/mcp_fixture.h"
#include "support/unit.h"

#include <idem/mcp.h>
#include <stdio.h>
#include <string.h>

#define CALL(name, rest)                                                                           \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"" name           \
  "\"," rest "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","              \
  "\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{\"form\":{}},\"extensions\":{" \
  "\"io.modelcontextprotocol/tasks\":{}}}}}}\n"
#define CANCEL                                                                                     \
  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}\n"

typedef struct world {
  mcp_fixture fixture;
  idem_metrics *metrics;
  idem_conn *conn;
  idem_request *kept;
  uint64_t now_ns;
} world;

static void keep(idem_request *request, void *user) {
  world *in = user;
  in->kept = request;
  idem_request_keep(request);
}

static uint64_t now_ns(void *ctx) { return ((world *)ctx)->now_ns; }

static int set_up(void **state) {
  static world in;
  in = (world){.fixture = {.keep = keep, .user = &in}};
  assert_int_equal(mcp_fixture_open(&in.fixture, &(idem_server_opts){.name = "t"}), IDEM_OK);
  assert_int_equal(idem_metrics_new(NULL, &in.metrics), IDEM_OK);
  idem_conn_opts opts = {.metrics = in.metrics, .now_ns = now_ns, .clock_ctx = &in};
  assert_int_equal(idem_server_accept(in.fixture.server, &opts, &in.conn), IDEM_OK);
  *state = &in;
  return 0;
}

static int tear_down(void **state) {
  world *in = *state;
  idem_conn_free(in->conn);
  mcp_fixture_close(&in->fixture);
  idem_metrics_free(in->metrics);
  return 0;
}

static void send(world *in, const char *text) {
  idem_chunk chunk;
  assert_int_equal(idem_conn_feed(in->conn, text, strlen(text)), IDEM_OK);
  while (idem_conn_next_chunk(in->conn, &chunk)) idem_chunk_free(&chunk);
}

static size_t count_of(world *in, const char *line) {
  char *text;
  size_t len, count = 0;
  assert_int_equal(idem_metrics_render(&in->metrics, 1, &text, &len), IDEM_OK);
  for (const char *at = text; (at = strstr(at, line)); at += strlen(line)) count++;
  idem_metrics_text_free(in->metrics, text);
  return count;
}

#define EXPECT_COUNT(in, tool, status, number)                                                     \
  assert_int_equal(count_of(in, "\nmcp_tool_calls_total{tool=\"" tool "\",status=\"" status        \
                                "\"} " number "\n"),                                               \
                   1)

static void a_result_is_ok_and_its_time_is_taken(void **state) {
  world *in = *state;
  send(in, CALL("add", "\"arguments\":{\"a\":1,\"b\":2},"));
  send(in, CALL("add", "\"arguments\":{\"a\":1,\"b\":2},"));
  EXPECT_COUNT(in, "add", "ok", "2");
  assert_int_equal(count_of(in, "mcp_tool_duration_seconds_count{tool=\"add\"} 2\n"), 1);
  send(in, CALL("slow", ""));
  in->now_ns += 30 * 1000000u;
  idem_tool_text(in->kept, "done", 4);
  EXPECT_COUNT(in, "slow", "ok", "1");
  assert_int_equal(count_of(in, "mcp_tool_duration_seconds_sum{tool=\"slow\"} 0.030000000\n"), 1);
  assert_int_equal(count_of(in, "mcp_tool_duration_seconds_bucket{tool=\"slow\",le=\"0.025\"} 0\n"),
                   1);
  assert_int_equal(count_of(in, "mcp_tool_duration_seconds_bucket{tool=\"slow\",le=\"0.05\"} 1\n"),
                   1);
}

static void failures_and_errors_are_told_apart(void **state) {
  world *in = *state;
  send(in, CALL("fail", ""));
  send(in, CALL("add", "\"arguments\":{\"a\":1},")); /* a failure in this revision */
  send(in, CALL("error", ""));
  send(in, CALL("drop", ""));
  EXPECT_COUNT(in, "fail", "failed", "1");
  EXPECT_COUNT(in, "add", "failed", "1");
  EXPECT_COUNT(in, "error", "error", "1");
  EXPECT_COUNT(in, "drop", "error", "1");
}

static void cancelled_calls_are_counted_when_their_handler_is_done(void **state) {
  world *in = *state;
  send(in, CALL("slow", ""));
  send(in, CANCEL);
  assert_true(idem_request_cancelled(in->kept));
  idem_request_drop(in->kept);
  EXPECT_COUNT(in, "slow", "cancelled", "1");
  assert_int_equal(count_of(in, "mcp_requests_total{method=\"other\",status=\"cancelled\"} 1\n"),
                   1);
  assert_int_equal(count_of(in, "mcp_tool_duration_seconds_count{tool=\"slow\"}"), 0);
}

static void a_call_that_asks_first_is_counted_as_such(void **state) {
  world *in = *state;
  send(in, CALL("ask", ""));
  EXPECT_COUNT(in, "ask", "asked", "1");
}

static void a_task_is_counted_when_its_tool_ends(void **state) {
  world *in = *state;
  send(in, CALL("job", "\"task\":{},"));
  assert_int_equal(count_of(in, "{tool=\"job\""), 0);
  in->fixture.wall_ms += 2000;
  idem_tool_text(in->kept, "done", 4);
  EXPECT_COUNT(in, "job", "ok", "1");
  assert_int_equal(count_of(in, "mcp_tool_duration_seconds_sum{tool=\"job\"} 2.000000000\n"), 1);
}

static void a_peer_cannot_make_labels(void **state) {
  world *in = *state;
  send(in, CALL("nosuch", ""));
  assert_int_equal(count_of(in, "nosuch"), 0);
  assert_int_equal(count_of(in, "{tool="), 0);
}

static void each_of_many_tools_has_its_row(void **state) {
  world *in = *state;
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 40; i++) {
      char name[16], line[1024], wanted[96];
      snprintf(name, sizeof name, "tool%d", i);
      if (round == 0) assert_int_equal(mcp_fixture_add_tool(&in->fixture, name), IDEM_OK);
      snprintf(line, sizeof line, "%s", CALL("toolXX", ""));
      char *at = strstr(line, "toolXX");
      memmove(at + strlen(name), at + 6, strlen(at + 6) + 1);
      memcpy(at, name, strlen(name));
      send(in, line);
      snprintf(wanted, sizeof wanted, "\nmcp_tool_calls_total{tool=\"%s\",status=\"ok\"} %d\n",
               name, round + 1);
      assert_int_equal(count_of(in, wanted), 1);
    }
  }
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      IN_WORLD(a_result_is_ok_and_its_time_is_taken),
      IN_WORLD(failures_and_errors_are_told_apart),
      IN_WORLD(cancelled_calls_are_counted_when_their_handler_is_done),
      IN_WORLD(a_call_that_asks_first_is_counted_as_such),
      IN_WORLD(a_task_is_counted_when_its_tool_ends),
      IN_WORLD(a_peer_cannot_make_labels),
      IN_WORLD(each_of_many_tools_has_its_row),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
