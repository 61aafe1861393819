/* test_lists.c - lists: pages as one, fresh ones not asked for again, endless ones ended; and what is known of tools: a
 * promise about their results, arguments that go into headers, marks that forbid a call. */
#include "mcp_client/mcp_client.h"
#include "support/mcp_asker_unit.h"

#include <stdio.h>

#define ASK(expression) assert_int_equal((expression), IDEM_OK)

static void list(mcp_asker *self, const idem_mcp_call_opts *opts) {
  ASK(idem_mcp_list(self->client, IDEM_MCP_TOOLS, opts, mcp_asker_on_result, self, NULL));
}

static void pages_are_joined_and_an_empty_cursor_is_one(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_legacy(NULL, "2025-06-18");
  list(self, NULL);
  LACKS(mcp_asker_sent(self), "cursor");
  mcp_asker_hear(self, OK(3, "{\"tools\":[{\"name\":\"a\"}],\"nextCursor\":\"\"}"));
  HAS(mcp_asker_sent(self), "\"params\":{\"cursor\":\"\",");
  mcp_asker_hear(self, OK(4, "{\"tools\":[],\"nextCursor\":\"x\"}"));
  HAS(mcp_asker_sent(self), "\"cursor\":\"x\"");
  mcp_asker_hear(self, OK(5, "{\"tools\":[{\"name\":\"b\"},{\"name\":\"b\"}]}"));
  assert_string_equal(mcp_asker_told(self),
                      "ok [{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"b\"}]\n");
  mcp_asker_end(self);
}

static void a_list_without_end_is_ended(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(&(idem_mcp_client_opts){.max_items = 5, .max_pages = 4});
  list(self, NULL);
  mcp_asker_hear(self, OK(2, "{\"tools\":[],\"nextCursor\":\"c\"}"));
  mcp_asker_hear(self, OK(3, "{\"tools\":[],\"nextCursor\":\"c\"}"));
  HAS(mcp_asker_told(self), "the list is longer than allowed");
  list(self, NULL);
  for (int id = 4; id < 9; id++) {
    char line[128];
    snprintf(line, sizeof line,
             "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{\"tools\":[],\"nextCursor\":\"%d\"}}", id,
             id);
    mcp_asker_hear(self, line);
  }
  HAS(mcp_asker_told(self), "the list is longer than allowed");
  list(self, NULL);
  mcp_asker_hear(self, OK(8, "{\"tools\":[1,2,3,4,5,6]}"));
  HAS(mcp_asker_told(self), "the list is longer than allowed");
  list(self, NULL);
  mcp_asker_hear(self, OK(9, "{\"tools\":7}"));
  HAS(mcp_asker_told(self), "the server's list is none");
  mcp_asker_end(self);
}

static void a_fresh_list_is_not_asked_for_again(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(NULL);
  list(self, NULL);
  mcp_asker_hear(self,
                 OK(2, "{\"tools\":[{\"name\":\"a\"}],\"ttlMs\":1000,\"cacheScope\":\"public\"}"));
  mcp_asker_told(self);
  mcp_asker_sent(self);
  list(self, NULL);
  assert_string_equal(self->told, ""); /* never inside */
  assert_string_equal(mcp_asker_sent(self), "");
  assert_string_equal(mcp_asker_told(self), "ok [{\"name\":\"a\"}]\n");
  list(self, &(idem_mcp_call_opts){.fresh = true});
  HAS(mcp_asker_sent(self), "tools/list");
  mcp_asker_hear(self, OK(3, "{\"tools\":[],\"ttlMs\":1000,\"cacheScope\":\"public\"}"));
  mcp_asker_hear(self, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}");
  list(self, NULL);
  HAS(mcp_asker_sent(self), "tools/list");
  mcp_asker_hear(self, OK(4, "{\"tools\":[],\"ttlMs\":1000,\"cacheScope\":\"public\"}"));
  mcp_asker_wait(self, 1000);
  list(self, NULL);
  HAS(mcp_asker_sent(self), "tools/list");
  mcp_asker_end(self);
}

static void lists_of_the_older_era_are_never_cached(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_legacy(NULL, "2025-11-25");
  list(self, NULL);
  mcp_asker_hear(self, OK(3, "{\"tools\":[],\"ttlMs\":100000,\"cacheScope\":\"public\"}"));
  mcp_asker_sent(self);
  list(self, NULL);
  HAS(mcp_asker_sent(self), "tools/list");
  mcp_asker_end(self);
}

#define TOOL_T                                                                                     \
  "{\"tools\":[{\"name\":\"t\",\"inputSchema\":{\"type\":\"object\"},\"outputSchema\":{\"type\":"  \
  "\"object\","                                                                                    \
  "\"properties\":{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"]}}]}"

static void a_result_that_breaks_its_promise_is_not_taken(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(NULL);
  list(self, NULL);
  mcp_asker_hear(self, OK(2, TOOL_T));
  mcp_asker_told(self);
  mcp_asker_call(self, "t", NULL);
  mcp_asker_hear(self, OK(3, "{\"content\":[],\"structuredContent\":{\"n\":1}}"));
  HAS(mcp_asker_told(self), "ok ");
  mcp_asker_call(self, "t", NULL);
  mcp_asker_hear(self, OK(4, "{\"content\":[],\"structuredContent\":{\"n\":\"x\"}}"));
  HAS(mcp_asker_told(self), "structuredContent.n: expected integer");
  mcp_asker_call(self, "t", NULL);
  mcp_asker_hear(self, OK(5, "{\"content\":[]}"));
  HAS(mcp_asker_told(self), "no structured content");
  mcp_asker_call(self, "t", NULL);
  mcp_asker_hear(self, OK(6, "{\"content\":[],\"isError\":true}"));
  HAS(mcp_asker_told(self), "isError");
  mcp_asker_end(self);
}

static void on_problem(idem_mcp_client *client, const idem_mcp_problem *problem, void *user) {
  (void)client;
  mcp_asker_note(user, "problem: %s", problem->what);
}

static void a_schema_that_cannot_be_honoured_checks_nothing_and_is_not_fetched(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(&(idem_mcp_client_opts){.on_problem = on_problem});
  list(self, NULL);
  mcp_asker_hear(
      self, OK(2, "{\"tools\":[{\"name\":\"t\",\"outputSchema\":{\"$ref\":\"http://evil/x\"}}]}"));
  mcp_asker_told(self);
  mcp_asker_call(self, "t", NULL);
  mcp_asker_hear(self, OK(3, "{\"structuredContent\":{}}"));
  const char *told = mcp_asker_told(self);
  HAS(told, "problem: a tool's output schema cannot be used");
  HAS(told, "ok ");
  mcp_asker_end(self);
}

/* ------------------------------------------------------------------ over HTTP */

static const idem__mcp_link http_link = {.http = true};

/* A client that believes to speak HTTP: its headers are asked for by hand. */
static mcp_asker *mirroring(void) {
  mcp_asker *self = calloc(1, sizeof *self);
  assert_non_null(self);
  fault_alloc_init(&self->fault);
  self->link = &http_link;
  assert_true(mcp_asker_open(self, NULL));
  mcp_asker_be_modern(self);
  return self;
}

static void expect_headers(mcp_asker *self, uint64_t id, const char *const *expected) {
  idem_buf lines;
  idem__mcp_call *call = idem__mcp_call_of(self->client, id);
  assert_non_null(call);
  idem_buf_init(&lines, &self->fault.alloc, 65536);
  ASK(idem__mcp_call_headers(call, &lines));
  size_t at = 0;
  for (; *expected; expected++) {
    assert_true(at < lines.len);
    assert_string_equal(lines.data + at, *expected);
    at += strlen(lines.data + at) + 1;
  }
  assert_int_equal(at, lines.len);
  idem_buf_deinit(&lines);
}

#define MARKED                                                                                     \
  "{\"tools\":[{\"name\":\"t\xc3\xa9\",\"inputSchema\":{\"type\":\"object\",\"properties\":{"      \
  "\"r\":{\"type\":\"string\","                                                                    \
  "\"x-mcp-header\":\"Region\"},\"n\":{\"type\":\"integer\",\"x-mcp-header\":\"N\"},\"b\":{"       \
  "\"type\":\"boolean\","                                                                          \
  "\"x-mcp-header\":\"B\"}}}},{\"name\":\"bad\",\"inputSchema\":{\"type\":\"object\","             \
  "\"properties\":{\"o\":{"                                                                        \
  "\"type\":\"object\",\"x-mcp-header\":\"O\"}}}}],\"ttlMs\":0}"

static void marked_arguments_go_into_headers_after_the_tools_are_known(void **state) {
  (void)state;
  mcp_asker *self = mirroring();
  static const char arguments[] = "{\"r\":\" x\",\"n\":42.0,\"b\":true,\"z\":1}";
  ASK(idem_mcp_call_tool_json(self->client, "t\xc3\xa9", arguments, sizeof arguments - 1, NULL,
                              mcp_asker_on_result, self, NULL));
  HAS(mcp_asker_sent(self), "\"method\":\"tools/list\"");
  mcp_asker_hear(self, OK(2, MARKED));
  HAS(mcp_asker_sent(self), "\"id\":3,\"method\":\"tools/call\"");
  expect_headers(self, 3,
                 (const char *const[]){"Mcp-Method: tools/call", "Mcp-Name: =?base64?dMOp?=",
                                       "mcp-param-region: =?base64?IHg=?=", "mcp-param-n: 42",
                                       "mcp-param-b: true", NULL});
  ASK(idem_mcp_read(self->client, "file:///x", NULL, NULL, NULL, NULL));
  expect_headers(self, 4,
                 (const char *const[]){"Mcp-Method: resources/read", "Mcp-Name: file:///x", NULL});
  ASK(idem_mcp_task_get(self->client, "T", NULL, NULL, NULL, NULL));
  expect_headers(self, 5, (const char *const[]){"Mcp-Method: tasks/get", "Mcp-Name: T", NULL});
  mcp_asker_end(self);
}

static void a_tool_with_bad_marks_is_not_called_and_the_reason_is_there(void **state) {
  (void)state;
  mcp_asker *self = mirroring();
  const char *why = NULL;
  mcp_asker_call(self, "bad", NULL);
  mcp_asker_sent(self);
  mcp_asker_hear(self, OK(2, MARKED));
  HAS(mcp_asker_told(self), "(not sent) its x-mcp-header annotation");
  assert_string_equal(mcp_asker_sent(self), "");
  mcp_asker_call(self, "bad", NULL); /* known by now: nothing is asked */
  assert_string_equal(self->told, "");
  HAS(mcp_asker_told(self), "(not sent)");
  assert_string_equal(idem_mcp_tool_refused(self->client, 0, &why), "bad");
  assert_non_null(why);
  assert_null(idem_mcp_tool_refused(self->client, 1, NULL));
  assert_non_null(idem_mcp_tool_fault(self->client, "bad"));
  list(self, &(idem_mcp_call_opts){.fresh = true});
  mcp_asker_hear(self, OK(3, MARKED));
  LACKS(mcp_asker_told(self), "\"bad\"");
  mcp_asker_end(self);
}

static void headers_that_are_refused_have_the_tools_listed_anew_once(void **state) {
  (void)state;
  mcp_asker *self = mirroring();
  mcp_asker_call(self, "u", NULL);
  mcp_asker_hear(self, OK(2, MARKED));
  mcp_asker_sent(self);
  mcp_asker_hear(self, ERROR(3, -32020));
  HAS(mcp_asker_sent(self), "tools/list");
  mcp_asker_hear(self, OK(4, MARKED));
  HAS(mcp_asker_sent(self), "\"id\":5,\"method\":\"tools/call\"");
  mcp_asker_hear(self, ERROR(5, -32020));
  assert_string_equal(mcp_asker_told(self), "remote -32020 no\n");
  mcp_asker_end(self);
}

static void tools_that_cannot_be_listed_are_called_as_they_are(void **state) {
  (void)state;
  mcp_asker *self = mirroring();
  mcp_asker_call(self, "u", NULL);
  mcp_asker_sent(self);
  mcp_asker_hear(self, ERROR(2, -32601));
  HAS(mcp_asker_sent(self), "tools/call");
  mcp_asker_end(self);
}

static void what_was_learnt_before_spares_the_question(void **state) {
  (void)state;
  mcp_asker *self = mirroring();
  ASK(idem_mcp_client_learn_tools(self->client, MARKED, strlen(MARKED), 1000));
  mcp_asker_call(self, "t\xc3\xa9", NULL);
  HAS(mcp_asker_sent(self), "tools/call");
  list(self, NULL);
  LACKS(mcp_asker_sent(self), "tools/list");
  HAS(mcp_asker_told(self), "ok [{");
  assert_int_equal(idem_mcp_client_learn_tools(self->client, "{}", 2, 0), IDEM_E_INVAL);
  assert_int_equal(idem_mcp_client_learn_tools(self->client, "{", 1, 0), IDEM_E_INVAL);
  mcp_asker_end(self);
}

static void what_is_cached_and_changes_before_the_call_has_ended_is_asked_for(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(NULL);
  idem_mcp_list(self->client, IDEM_MCP_TOOLS, NULL, mcp_asker_on_result, self, NULL);
  mcp_asker_hear(self, OK(2, "{\"tools\":[],\"ttlMs\":60000,\"cacheScope\":\"public\"}"));
  idem_mcp_read(self->client, "a:1", NULL, mcp_asker_on_result, self, NULL);
  mcp_asker_hear(self, OK(3, "{\"contents\":[],\"ttlMs\":60000,\"cacheScope\":\"public\"}"));
  mcp_asker_told(self);
  mcp_asker_sent(self);
  idem_mcp_list(self->client, IDEM_MCP_TOOLS, NULL, mcp_asker_on_result, self, NULL);
  idem_mcp_read(self->client, "a:1", NULL, mcp_asker_on_result, self, NULL);
  mcp_asker_hear(self, NOTICE("notifications/tools/list_changed", "{}") "\n" NOTICE(
                           "notifications/resources/updated", "{\"uri\":\"a:1\"}"));
  const char *sent = mcp_asker_sent(self);
  HAS(sent, "\"tools/list\"");
  HAS(sent, "\"resources/read\"");
  assert_string_equal(mcp_asker_told(self), "");
  mcp_asker_end(self);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_cached_and_changes_before_the_call_has_ended_is_asked_for),
      cmocka_unit_test(pages_are_joined_and_an_empty_cursor_is_one),
      cmocka_unit_test(a_list_without_end_is_ended),
      cmocka_unit_test(a_fresh_list_is_not_asked_for_again),
      cmocka_unit_test(lists_of_the_older_era_are_never_cached),
      cmocka_unit_test(a_result_that_breaks_its_promise_is_not_taken),
      cmocka_unit_test(a_schema_that_cannot_be_honoured_checks_nothing_and_is_not_fetched),
      cmocka_unit_test(marked_arguments_go_into_headers_after_the_tools_are_known),
      cmocka_unit_test(a_tool_with_bad_marks_is_not_called_and_the_reason_is_there),
      cmocka_unit_test(headers_that_are_refused_have_the_tools_listed_anew_once),
      cmocka_unit_test(tools_that_cannot_be_listed_are_called_as_they_are),
      cmocka_unit_test(what_was_learnt_before_spares_the_question),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
