/* test_hostile.c - a zoo of servers: each says what it should not, and the client stays what it was: bounded, every call
 * ended once, nothing answered that is no question, and a sentence for what happened. */
#include "support/mcp_asker_unit.h"

#include <stdio.h>

static void on_problem(idem_mcp_client *client, const idem_mcp_problem *problem, void *user) {
  (void)client;
  mcp_asker_note(user, "problem: %s [%.*s]", problem->what, (int)problem->bytes_len,
                 problem->bytes ? problem->bytes : "");
}

static const idem_mcp_client_opts watched = {.on_problem = on_problem};

static void stray_output_is_reported_and_never_answered(void **state) {
  (void)state;
  const char *const strays[] = {
      "Server listening on port 3000", "{", "[]", "null", "42", "\x1b[31mred", "{\"a\":1}"};
  for (int modern = 0; modern < 2; modern++) {
    mcp_asker *self =
        modern ? mcp_asker_modern(&watched) : mcp_asker_legacy(&watched, "2025-11-25");
    for (size_t i = 0; i < sizeof strays / sizeof *strays; i++) {
      char expected[128];
      mcp_asker_hear(self, strays[i]);
      snprintf(expected, sizeof expected, "problem: something that is no message [%s]", strays[i]);
      HAS(mcp_asker_told(self), expected);
      assert_string_equal(mcp_asker_sent(self), "");
    }
    assert_non_null(idem_mcp_client_trouble(self->client).stray);
    mcp_asker_call(self, "t", NULL);
    mcp_asker_hear(self, modern ? OK(2, "{}") : OK(3, "{}"));
    HAS(mcp_asker_told(self), "ok {}");
    mcp_asker_end(self);
  }
}

static void answers_nobody_waits_for_end_no_call(void **state) {
  (void)state;
  const char *const answers[] = {OK(99, "{}"),
                                 OK("2", "{}"),
                                 OK(1, "{}"),
                                 OK(2.5, "{}"),
                                 "{\"jsonrpc\":\"2.0\",\"result\":{}}",
                                 "{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}",
                                 ERROR(77, -1),
                                 OK(-2, "{}"),
                                 "{\"jsonrpc\":\"2.0\",\"id\":[2],\"result\":{}}"};
  mcp_asker *self = mcp_asker_modern(&watched);
  mcp_asker_call(self, "t", NULL);
  mcp_asker_call(self, "u", NULL);
  mcp_asker_sent(self);
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
    mcp_asker_hear(self, answers[i]);
    LACKS(mcp_asker_told(self), "ok ");
    assert_string_equal(mcp_asker_sent(self), "");
    assert_int_equal(idem_mcp_client_calls(self->client), 2);
  }
  mcp_asker_hear(self, OK(2, "{}"));
  assert_string_equal(mcp_asker_told(self), "ok {}\n");
  mcp_asker_hear(self, OK(2, "{}")); /* and again */
  LACKS(mcp_asker_told(self), "ok ");
  assert_int_equal(idem_mcp_client_calls(self->client), 1);
  mcp_asker_end(self);
}

static void an_error_without_an_id_ends_the_one_call_it_can_mean(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(NULL);
  mcp_asker_call(self, "t", NULL);
  mcp_asker_hear(self, ERROR(null, -32700));
  assert_string_equal(mcp_asker_told(self), "remote -32700 no\n");
  mcp_asker_end(self);
}

static void an_answer_too_large_ends_its_call_and_nothing_is_kept_of_it(void **state) {
  (void)state;
  mcp_asker *self =
      mcp_asker_modern(&(idem_mcp_client_opts){.on_problem = on_problem, .message_bytes = 4096});
  mcp_asker_call(self, "t", NULL);
  mcp_asker_sent(self);
  size_t before = self->fault.live_bytes;
  static const char open[] = "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"x\":\"";
  static char filler[65536];
  memset(filler, 'x', sizeof filler);
  idem_conn_feed(self->conn, open, sizeof open - 1);
  for (int i = 0; i < 1600; i++) idem_conn_feed(self->conn, filler, sizeof filler); /* 100 MiB */
  idem_conn_feed(self->conn, "\"}}\n", 4);
  HAS(mcp_asker_told(self), "the answer is too large");
  assert_true(self->fault.peak_bytes < before + 262144);
  mcp_asker_call(self, "t", NULL);
  mcp_asker_hear(self, OK(3, "{}"));
  HAS(mcp_asker_told(self), "ok {}");
  mcp_asker_end(self);
}

static void endless_progress_ends_with_the_deadline(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(&watched);
  uint64_t call =
      mcp_asker_call(self, "t", &(idem_mcp_call_opts){.idle_ms = 100, .deadline_ms = 5000});
  char line[160];
  for (int i = 0; i < 60; i++) {
    snprintf(line, sizeof line,
             NOTICE("notifications/progress", "{\"progressToken\":%llu,\"progress\":%d}"),
             (unsigned long long)call, i);
    mcp_asker_hear(self, line);
    mcp_asker_wait(self, 90);
  }
  HAS(mcp_asker_told(self), "the deadline of the call has passed");
  mcp_asker_hear(self, line);
  HAS(mcp_asker_told(self), "problem: progress of no call under way");
  mcp_asker_end(self);
}

static void notices_that_are_none_are_reported(void **state) {
  (void)state;
  const char *const notices[] = {
      NOTICE("notifications/progress", "{}"),
      NOTICE("notifications/message", "{\"level\":\"loud\"}"),
      NOTICE("notifications/resources/updated", "{\"uri\":7}"),
      NOTICE("notifications/subscriptions/acknowledged", "{}"),
      NOTICE("notifications/progress", "{\"progressToken\":1e300,\"progress\":1}")};
  mcp_asker *self = mcp_asker_modern(&watched);
  for (size_t i = 0; i < sizeof notices / sizeof *notices; i++) {
    mcp_asker_hear(self, notices[i]);
    HAS(mcp_asker_told(self), "problem: ");
    assert_string_equal(mcp_asker_sent(self), "");
  }
  mcp_asker_end(self);
}

static void a_modern_server_that_asks_is_not_answered(void **state) {
  (void)state;
  mcp_asker *self =
      mcp_asker_modern(&(idem_mcp_client_opts){.on_problem = on_problem, .roots = true});
  for (int i = 0; i < 100; i++) {
    char line[128];
    snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"%s\",\"params\":{}}",
             i, i % 2 ? "roots/list" : "x");
    mcp_asker_hear(self, line);
  }
  HAS(mcp_asker_told(self), "problem: a request of a server that may send none");
  assert_string_equal(mcp_asker_sent(self), "");
  mcp_asker_end(self);
}

static void a_server_that_changes_its_era_gets_clear_ends(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(NULL);
  mcp_asker_call(self, "t", NULL);
  mcp_asker_hear(self, OK(2, "{\"content\":[]}")); /* no resultType: complete */
  HAS(mcp_asker_told(self), "ok ");
  mcp_asker_call(self, "t", NULL);
  mcp_asker_hear(self, "{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-32022,\"message\":"
                       "\"older now\",\"data\":{\"supported\":[\"2025-11-25\"]}}}");
  assert_string_equal(mcp_asker_told(self), "remote -32022 older now\n");
  mcp_asker_end(self);
  self = mcp_asker_legacy(NULL, "2025-11-25");
  mcp_asker_call(self, "t", NULL);
  mcp_asker_hear(self, OK(3, "{\"resultType\":\"input_required\",\"requestState\":\"s\"}"));
  HAS(mcp_asker_told(self), "by another revision than was agreed on");
  mcp_asker_end(self);
}

static void schemas_that_are_bombs_cost_little(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(&watched);
  static char line[200000];
  size_t at = (size_t)snprintf(
      line, sizeof line,
      "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"tools\":[{\"name\":\"t\",\"outputSchema\":");
  for (int i = 0; i < 200; i++) at += (size_t)snprintf(line + at, sizeof line - at, "{\"allOf\":[");
  at += (size_t)snprintf(line + at, sizeof line - at, "true");
  for (int i = 0; i < 200; i++) at += (size_t)snprintf(line + at, sizeof line - at, "]}");
  snprintf(line + at, sizeof line - at, "}]}}");
  assert_int_equal(
      idem_mcp_list(self->client, IDEM_MCP_TOOLS, NULL, mcp_asker_on_result, self, NULL), IDEM_OK);
  mcp_asker_hear(self, line);
  HAS(mcp_asker_told(self), "ok [");
  mcp_asker_call(self, "t", NULL);
  mcp_asker_hear(self, OK(3, "{\"structuredContent\":{}}"));
  const char *told = mcp_asker_told(self);
  HAS(told, "cannot be used");
  HAS(told, "ok ");
  mcp_asker_end(self);
}

static void everything_may_end_in_the_middle_of_anything(void **state) {
  (void)state;
  static const char *const lines[] = {
      OK(2, "{\"tools\":[{\"name\":\"t\"}],\"nextCursor\":\"n\",\"ttlMs\":9}"),
      OK(3, "{\"resultType\":\"input_required\",\"inputRequests\":{\"r\":{\"method\":\"roots/"
            "list\"}}}"),
      OK(4, "{\"resultType\":\"task\",\"taskId\":\"T\",\"status\":\"working\"}"),
      OK(6, "{\"tools\":[]}"),
      OK(5, "{\"resultType\":\"complete\"}"),
      "junk"};
  enum { LINES = sizeof lines / sizeof *lines };
  for (size_t stop = 0; stop <= LINES; stop++) {
    for (int how = 0; how < 4; how++) {
      mcp_asker *self = mcp_asker_modern(&(idem_mcp_client_opts){.roots = true, .tasks = true});
      idem_mcp_list(self->client, IDEM_MCP_TOOLS, NULL, mcp_asker_on_result, self, NULL);
      mcp_asker_call(self, "a", NULL);
      mcp_asker_call(self, "b", NULL);
      idem_mcp_listen(self->client, &(idem_mcp_listening){.tools = true}, NULL, mcp_asker_on_result,
                      self, NULL);
      for (size_t i = 0; i < stop; i++) mcp_asker_hear(self, lines[i]);
      if (how == 0) idem_mcp_client_close(self->client);
      if (how == 1) idem_conn_feed_eof(self->conn);
      if (how >= 2) idem_conn_abort(self->conn);
      if (how == 3) {
        idem_conn_free(self->conn);
        self->conn = NULL;
      }
      if (how == 3) assert_int_equal(idem_mcp_client_calls(self->client), 0);
      mcp_asker_end(self);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stray_output_is_reported_and_never_answered),
      cmocka_unit_test(answers_nobody_waits_for_end_no_call),
      cmocka_unit_test(an_error_without_an_id_ends_the_one_call_it_can_mean),
      cmocka_unit_test(an_answer_too_large_ends_its_call_and_nothing_is_kept_of_it),
      cmocka_unit_test(endless_progress_ends_with_the_deadline),
      cmocka_unit_test(notices_that_are_none_are_reported),
      cmocka_unit_test(a_modern_server_that_asks_is_not_answered),
      cmocka_unit_test(a_server_that_changes_its_era_gets_clear_ends),
      cmocka_unit_test(schemas_that_are_bombs_cost_little),
      cmocka_unit_test(everything_may_end_in_the_middle_of_anything),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
