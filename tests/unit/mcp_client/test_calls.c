/* test_calls.c - every typed question says what its revision has, every call ends once and says what is known of it,
 * and time is counted as its options say. */
#include "support/mcp_asker_unit.h"

#include <stdio.h>

#define ASK(expression) assert_int_equal((expression), IDEM_OK)

static void every_question_is_written_as_its_method_has_it(void **state) {
  (void)state;
  for (int modern = 0; modern < 2; modern++) {
    mcp_asker *self = modern ? mcp_asker_modern(NULL) : mcp_asker_legacy(NULL, "2025-11-25");
    idem_mcp_client *client = self->client;
    ASK(idem_mcp_read(client, "file:///a \"b\"", NULL, NULL, NULL, NULL));
    HAS(mcp_asker_sent(self),
        "\"method\":\"resources/read\",\"params\":{\"uri\":\"file:///a \\\"b\\\"\",");
    ASK(idem_mcp_get_prompt(client, "p", NULL, NULL, NULL, NULL, NULL));
    HAS(mcp_asker_sent(self), "\"method\":\"prompts/get\",\"params\":{\"name\":\"p\",\"_meta\"");
    ASK(idem_mcp_complete(client,
                          &(idem_mcp_completion){.prompt = "p", .argument = "a", .value = "v"},
                          NULL, NULL, NULL, NULL));
    HAS(mcp_asker_sent(self),
        "\"ref\":{\"type\":\"ref/prompt\",\"name\":\"p\"},\"argument\":{\"name\":\"a\","
        "\"value\":\"v\"}");
    ASK(idem_mcp_client_ping(client, NULL, NULL, NULL, NULL));
    HAS(mcp_asker_sent(self), modern ? "server/discover" : "\"method\":\"ping\"");
    ASK(idem_mcp_task_get(client, "t", NULL, NULL, NULL, NULL));
    HAS(mcp_asker_sent(self), "\"method\":\"tasks/get\",\"params\":{\"taskId\":\"t\"");
    ASK(idem_mcp_task_cancel(client, "t", NULL, NULL, NULL, NULL));
    HAS(mcp_asker_sent(self), "\"method\":\"tasks/cancel\"");
    ASK(idem_mcp_method(client, "x/y", "{\"a\":1,\"_meta\":{\"b\":2,\"progressToken\":9}}", 41,
                        NULL, NULL, NULL, NULL));
    const char *sent = mcp_asker_sent(self);
    HAS(sent, "\"method\":\"x/y\",\"params\":{\"a\":1,\"_meta\":{\"progressToken\":");
    HAS(sent, "\"b\":2}");
    LACKS(sent, "\"progressToken\":9,");
    ASK(idem_mcp_notify(client, "notifications/x", "{}", 2));
    HAS(mcp_asker_sent(self), "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\",\"params\":{}}");
    mcp_asker_end(self);
  }
}

static void what_a_revision_has_not_is_refused_without_a_word(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(NULL);
  assert_int_equal(idem_mcp_subscribe(self->client, "u:x", NULL, NULL, NULL, NULL), IDEM_E_STATE);
  assert_int_equal(idem_mcp_task_list(self->client, NULL, NULL, NULL, NULL), IDEM_E_STATE);
  assert_int_equal(idem_mcp_task_result(self->client, "t", NULL, NULL, NULL, NULL), IDEM_E_STATE);
  assert_string_equal(mcp_asker_sent(self), "");
  mcp_asker_end(self);
  self = mcp_asker_legacy(NULL, "2025-06-18");
  assert_int_equal(idem_mcp_task_get(self->client, "t", NULL, NULL, NULL, NULL), IDEM_E_STATE);
  assert_int_equal(idem_mcp_task_update(self->client, "t", "{}", 2, NULL, NULL, NULL, NULL),
                   IDEM_E_STATE);
  mcp_asker_end(self);
}

static void bad_arguments_are_refused_and_nothing_is_sent(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(NULL);
  idem_mcp_client *client = self->client;
  idem_mcp_call_opts meta = {.meta = "[]"};
  assert_int_equal(idem_mcp_call_tool_json(client, "t", "[1]", 3, NULL, NULL, NULL, NULL),
                   IDEM_E_INVAL);
  assert_int_equal(idem_mcp_call_tool_json(client, "t", "{", 1, NULL, NULL, NULL, NULL),
                   IDEM_E_INVAL);
  assert_int_equal(idem_mcp_method(client, "m", "7", 1, NULL, NULL, NULL, NULL), IDEM_E_INVAL);
  assert_int_equal(idem_mcp_read(client, "u", &meta, NULL, NULL, NULL), IDEM_E_INVAL);
  assert_int_equal(idem_mcp_list(client, (idem_mcp_list_kind)9, NULL, NULL, NULL, NULL),
                   IDEM_E_INVAL);
  assert_int_equal(
      idem_mcp_complete(client, &(idem_mcp_completion){.argument = "a"}, NULL, NULL, NULL, NULL),
      IDEM_E_INVAL);
  assert_int_equal(idem_mcp_set_level(client, (idem_mcp_level)8, NULL, NULL, NULL, NULL),
                   IDEM_E_INVAL);
  assert_string_equal(mcp_asker_sent(self), "");
  assert_int_equal(idem_mcp_client_calls(client), 0);
  mcp_asker_end(self);
}

static void a_call_ends_with_what_the_server_said(void **state) {
  (void)state;
  const struct {
    const char *heard, *told;
  } cases[] = {
      {OK(2, "{\"content\":[]}"), "ok {\"content\":[]}\n"},
      {OK(2, "{\"resultType\":\"complete\",\"content\":[],\"isError\":true}"),
       "ok {\"resultType\":\"complete\",\"content\":[],\"isError\":true} isError\n"},
      {ERROR(2, -32602), "remote -32602 no\n"},
      {OK(2, "7"), "protocol broken by the peer (answered) the result is no object\n"},
      {OK(2, "{\"resultType\":\"odd\"}"),
       "protocol broken by the peer (answered) the result is of a type that is not known\n"},
      {OK(2, "{\"resultType\":\"task\",\"taskId\":\"t\"}"),
       "protocol broken by the peer (answered) the server made a task of what was no offer of "
       "one\n"},
      {OK(2, "{\"resultType\":\"input_required\"}"),
       "protocol broken by the peer (answered) the server asks for input in a form that is none\n"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mcp_asker *self = mcp_asker_modern(NULL);
    mcp_asker_call(self, "t", NULL);
    mcp_asker_sent(self);
    mcp_asker_hear(self, cases[i].heard);
    const char *told = mcp_asker_told(self);
    const char *behind = strchr(cases[i].told, '(');
    if (behind)
      HAS(told, behind);
    else
      assert_string_equal(told, cases[i].told);
    mcp_asker_hear(self, cases[i].heard); /* again: nobody waits any more */
    assert_string_equal(mcp_asker_told(self), "");
    mcp_asker_end(self);
  }
}

static void on_progress(idem_mcp_client *client, const idem_mcp_progress *progress, void *user) {
  (void)client;
  mcp_asker_note(user, "progress %g of %g %.*s", progress->progress, progress->total,
                 (int)progress->message_len, progress->message ? progress->message : "");
}

static void hear_progress(mcp_asker *self, uint64_t call, const char *rest) {
  char line[256];
  snprintf(line, sizeof line, NOTICE("notifications/progress", "{\"progressToken\":%llu,%s}"),
           (unsigned long long)call, rest);
  mcp_asker_hear(self, line);
}

static void progress_is_told_and_resets_the_idle_time_but_not_the_deadline(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(NULL);
  idem_mcp_call_opts opts = {.idle_ms = 1000, .deadline_ms = 2500, .on_progress = on_progress};
  uint64_t call = mcp_asker_call(self, "t", &opts);
  mcp_asker_wait(self, 900);
  hear_progress(self, call, "\"progress\":1,\"total\":4,\"message\":\"one\"");
  assert_string_equal(mcp_asker_told(self), "progress 1 of 4 one\n");
  mcp_asker_wait(self, 900);
  hear_progress(self, call, "\"progress\":2");
  mcp_asker_told(self);
  mcp_asker_wait(self, 600);
  assert_string_equal(mcp_asker_told(self), "");
  mcp_asker_sent(self);
  mcp_asker_wait(self, 100);
  HAS(mcp_asker_told(self), "(unknown) the deadline of the call has passed\n");
  HAS(mcp_asker_sent(self), "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2}");
  hear_progress(self, call, "\"progress\":3"); /* after the end: nobody's */
  assert_string_equal(mcp_asker_told(self), "");
  mcp_asker_end(self);
}

static void silence_ends_a_call_and_the_server_is_told(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_legacy(NULL, "2025-03-26");
  idem_mcp_call_opts opts = {.idle_ms = 1000};
  mcp_asker_call(self, "t", &opts);
  mcp_asker_sent(self);
  mcp_asker_wait(self, 999);
  assert_string_equal(mcp_asker_told(self), "");
  mcp_asker_wait(self, 1);
  HAS(mcp_asker_told(self), "(unknown) the server said nothing for too long");
  HAS(mcp_asker_sent(self), "notifications/cancelled");
  mcp_asker_end(self);
}

static void a_cancelled_call_ends_at_once_and_a_stale_handle_is_nobodys(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(NULL);
  uint64_t first = mcp_asker_call(self, "t", NULL);
  ASK(idem_mcp_cancel(self->client, first));
  HAS(mcp_asker_told(self), "cancelled");
  uint64_t second = mcp_asker_call(self, "t", NULL);
  assert_int_not_equal(first, second);
  assert_int_equal(idem_mcp_cancel(self->client, first), IDEM_E_NOTFOUND);
  assert_int_equal(idem_mcp_client_calls(self->client), 1);
  mcp_asker_end(self);
}

static void on_lost(idem_mcp_client *client, const idem_mcp_trouble *trouble, void *user) {
  (void)client;
  mcp_asker_note(user, "lost: %zu not sent, %zu unknown", trouble->not_sent, trouble->unknown);
}

static void a_lost_connection_says_what_is_known_of_each_call(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(&(idem_mcp_client_opts){.on_lost = on_lost});
  mcp_asker_call(self, "sent", NULL);
  mcp_asker_sent(self);
  mcp_asker_call(self, "queued", NULL);
  idem_conn_feed_eof(self->conn);
  idem_conn_free(self->conn);
  self->conn = NULL;
  const char *told = mcp_asker_told(self);
  HAS(told, "(unknown)");
  HAS(told, "(not sent)");
  HAS(told, "lost: 1 not sent, 1 unknown\n");
  assert_int_equal(idem_mcp_list(self->client, IDEM_MCP_TOOLS, NULL, NULL, NULL, NULL),
                   IDEM_E_CLOSED);
  mcp_asker_end(self);
}

static void calls_are_bounded(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(&(idem_mcp_client_opts){.max_calls = 3});
  for (int i = 0; i < 3; i++) mcp_asker_call(self, "t", NULL);
  assert_int_equal(idem_mcp_call_tool_json(self->client, "t", NULL, 0, NULL, NULL, NULL, NULL),
                   IDEM_E_LIMIT);
  mcp_asker_hear(self, OK(3, "{}"));
  mcp_asker_call(self, "t", NULL);
  mcp_asker_end(self);
}

static void log_levels_go_with_every_request_of_the_newer_era(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(NULL);
  ASK(idem_mcp_set_level(self->client, IDEM_MCP_WARNING, NULL, mcp_asker_on_result, self, NULL));
  assert_string_equal(self->told, "");
  assert_string_equal(mcp_asker_sent(self), "");
  assert_string_equal(mcp_asker_told(self), "ok -\n");
  mcp_asker_call(self, "t", NULL);
  HAS(mcp_asker_sent(self), "\"io.modelcontextprotocol/logLevel\":\"warning\"");
  mcp_asker_end(self);
  self = mcp_asker_legacy(NULL, "2024-11-05");
  ASK(idem_mcp_set_level(self->client, IDEM_MCP_DEBUG, NULL, NULL, NULL, NULL));
  HAS(mcp_asker_sent(self), "\"method\":\"logging/setLevel\",\"params\":{\"level\":\"debug\"");
  mcp_asker_end(self);
}

static void a_version_refused_in_the_middle_is_mended_once(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(NULL);
  mcp_asker_call(self, "t", NULL);
  mcp_asker_sent(self);
#define REFUSED(id)                                                                                \
  "{\"jsonrpc\":\"2.0\",\"id\":" #id                                                               \
  ",\"error\":{\"code\":-32022,\"message\":\"v\",\"data\":{\"supported\":["                        \
  "\"2026-07-28\"]}}}"
  mcp_asker_hear(self, REFUSED(2));
  HAS(mcp_asker_sent(self), "\"id\":3,\"method\":\"tools/call\"");
  mcp_asker_hear(self, REFUSED(3));
  assert_string_equal(mcp_asker_told(self), "remote -32022 v\n");
  mcp_asker_end(self);
}

static void everything(fault_alloc *fault, void *user) {
  mcp_asker *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->fault = *fault;
  self->fault.alloc.ctx = fault;
  (void)user;
  if (mcp_asker_open(self, NULL)) {
    mcp_asker_be_modern(self);
    idem_mcp_list(self->client, IDEM_MCP_TOOLS, NULL, mcp_asker_on_result, self, NULL);
    mcp_asker_hear(
        self,
        OK(2, "{\"tools\":[{\"name\":\"t\",\"inputSchema\":{\"type\":\"object\"},"
              "\"outputSchema\":{\"type\":\"object\"}}],\"nextCursor\":\"n\",\"ttlMs\":1000}"));
    mcp_asker_hear(self, OK(3, "{\"tools\":[],\"ttlMs\":1000}"));
    idem_mcp_call_opts opts = {.meta = "{\"a\":1}"};
    idem_mcp_call_tool_json(self->client, "t", "{}", 2, &opts, mcp_asker_on_result, self, NULL);
    mcp_asker_hear(self, OK(4, "{\"structuredContent\":{}}"));
    idem_mcp_listen(self->client, &(idem_mcp_listening){.tools = true}, NULL, NULL, NULL, NULL);
    idem_mcp_method(self->client, "m", "{\"a\":[1]}", 9, NULL, mcp_asker_on_result, self, NULL);
    mcp_asker_sent(self);
  }
  mcp_asker_close(self);
  free(self);
}

static void no_memory_at_any_step_leaves_nothing_behind(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(everything, NULL, 2000) > 20);
}

static int messages;
static char seen[4096];
static void on_traffic(idem_mcp_client *client, const idem_mcp_traffic *traffic, void *user) {
  (void)client, (void)user;
  assert_int_equal(traffic->kind, IDEM_MCP_TRAFFIC_MESSAGE);
  assert_int_equal(traffic->at_ns, 1000000000u);
  size_t len = strlen(seen);
  snprintf(seen + len, sizeof seen - len, "%c%.*s\n", traffic->direction == IDEM_OUT ? '>' : '<',
           (int)traffic->len, traffic->data);
  messages++;
}

static void what_a_server_says_of_itself_can_be_asked_for(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_new(&(idem_mcp_client_opts){.on_traffic = on_traffic});
  size_t len;
  assert_null(idem_mcp_client_instructions(self->client, &len));
  assert_string_equal(idem_mcp_revision_date(idem_mcp_client_revision(self->client)), "");
  mcp_asker_hear(self,
                 OK(1, "{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],"
                       "\"capabilities\":{\"tools\":{},\"x\":false},\"instructions\":\"ask\","
                       "\"_meta\":{\"io.modelcontextprotocol/serverInfo\":{\"name\":\"n\"}}}"));
  assert_memory_equal(idem_mcp_client_instructions(self->client, &len), "ask", 3);
  assert_int_equal(len, 3);
  assert_true(idem_mcp_client_declares(self->client, (const char *const[]){"tools", NULL}));
  assert_false(idem_mcp_client_declares(self->client, (const char *const[]){"x", NULL}));
  assert_true(
      yyjson_equals_str(yyjson_obj_get(idem_mcp_client_server_info(self->client), "name"), "n"));
  assert_ptr_equal(idem_mcp_client_user(self->client), self);
  assert_ptr_equal(idem_mcp_client_conn(self->client), self->conn);
  HAS(seen, ">{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\"");
  HAS(seen, "<{\"jsonrpc\":\"2.0\",\"id\":1,\"result\"");
  assert_int_equal(messages, 2);
  mcp_asker_end(self);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_a_server_says_of_itself_can_be_asked_for),
      cmocka_unit_test(every_question_is_written_as_its_method_has_it),
      cmocka_unit_test(what_a_revision_has_not_is_refused_without_a_word),
      cmocka_unit_test(bad_arguments_are_refused_and_nothing_is_sent),
      cmocka_unit_test(a_call_ends_with_what_the_server_said),
      cmocka_unit_test(progress_is_told_and_resets_the_idle_time_but_not_the_deadline),
      cmocka_unit_test(silence_ends_a_call_and_the_server_is_told),
      cmocka_unit_test(a_cancelled_call_ends_at_once_and_a_stale_handle_is_nobodys),
      cmocka_unit_test(a_lost_connection_says_what_is_known_of_each_call),
      cmocka_unit_test(calls_are_bounded),
      cmocka_unit_test(log_levels_go_with_every_request_of_the_newer_era),
      cmocka_unit_test(a_version_refused_in_the_middle_is_mended_once),
      cmocka_unit_test(no_memory_at_any_step_leaves_nothing_behind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
