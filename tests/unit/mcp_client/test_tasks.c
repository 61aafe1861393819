/* test_tasks.c - a call that became a task ends as the call would have, in both forms; listening is one call in both
 * eras; skills are believed when they are what their list says. */
#include "support/mcp_asker_unit.h"

#define ASK(expression) assert_int_equal((expression), IDEM_OK)
#define FORM                                                                                       \
  "{\"method\":\"elicitation/"                                                                     \
  "create\",\"params\":{\"message\":\"m\",\"requestedSchema\":{\"type\":\"object\"}}}"

static void say_yes(idem_mcp_client *client, idem_mcp_question *question, void *user) {
  (void)client;
  mcp_asker_note(user, "asked");
  ASK(idem_mcp_accept(question, NULL, NULL, 0));
}

static void on_progress(idem_mcp_client *client, const idem_mcp_progress *progress, void *user) {
  (void)client;
  mcp_asker_note(user, "%s %.*s", progress->task_status, (int)progress->message_len,
                 progress->message ? progress->message : "");
}

static const idem_mcp_client_opts with_tasks = {.tasks = true, .on_form = say_yes};

static void a_task_of_the_newer_era_is_polled_at_the_servers_pace(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(&with_tasks);
  mcp_asker_call(self, "t", &(idem_mcp_call_opts){.on_progress = on_progress});
  HAS(mcp_asker_sent(self), "\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}");
  mcp_asker_hear(
      self,
      OK(2,
         "{\"resultType\":\"task\",\"taskId\":\"T\",\"status\":\"working\",\"pollIntervalMs\":500,"
         "\"statusMessage\":\"begun\"}"));
  assert_string_equal(mcp_asker_told(self), "working begun\n");
  mcp_asker_wait(self, 499);
  assert_string_equal(mcp_asker_sent(self), "");
  mcp_asker_wait(self, 1);
  HAS(mcp_asker_sent(self), "\"id\":3,\"method\":\"tasks/get\",\"params\":{\"taskId\":\"T\"");
  mcp_asker_hear(
      self,
      OK(3, "{\"taskId\":\"T\",\"status\":\"input_required\",\"inputRequests\":{\"a\":" FORM "}}"));
  HAS(mcp_asker_told(self), "asked\n");
  HAS(mcp_asker_sent(self),
      "\"method\":\"tasks/update\",\"params\":{\"taskId\":\"T\",\"inputResponses\":{\"a\":{"
      "\"action\":\"accept\",\"content\":{}}}");
  mcp_asker_hear(self, OK(4, "{\"resultType\":\"complete\"}"));
  HAS(mcp_asker_sent(self), "\"id\":5,\"method\":\"tasks/get\"");
  /* It still shows the question: it is not asked again. */
  mcp_asker_hear(
      self,
      OK(5, "{\"taskId\":\"T\",\"status\":\"input_required\",\"inputRequests\":{\"a\":" FORM "}}"));
  LACKS(mcp_asker_told(self), "asked");
  mcp_asker_wait(self, 1000);
  mcp_asker_hear(self, OK(6, "{\"taskId\":\"T\",\"status\":\"completed\",\"result\":{\"content\":[]"
                             ",\"isError\":true}}"));
  assert_string_equal(mcp_asker_told(self), "ok {\"content\":[],\"isError\":true} isError\n");
  mcp_asker_end(self);
}

static void tasks_end_badly_in_words(void **state) {
  (void)state;
  const struct {
    const char *heard, *told;
  } cases[] = {
      {OK(3, "{\"taskId\":\"T\",\"status\":\"failed\",\"error\":{\"code\":-5,\"message\":"
             "\"broken\"}}"),
       "remote -5 broken"},
      {OK(3, "{\"taskId\":\"T\",\"status\":\"failed\"}"), "failed without an error"},
      {OK(3, "{\"taskId\":\"T\",\"status\":\"cancelled\"}"), "the task was cancelled"},
      {OK(3, "{\"taskId\":\"T\",\"status\":\"completed\"}"), "ended without a result"},
      {OK(3, "{\"taskId\":\"T\",\"status\":\"odd\"}"), "a status that is not known"},
      {OK(3, "[]"), "the task is no object"},
      {ERROR(3, -32602), "remote -32602 no"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mcp_asker *self = mcp_asker_modern(&with_tasks);
    mcp_asker_call(self, "t", NULL);
    mcp_asker_hear(self,
                   OK(2, "{\"resultType\":\"task\",\"taskId\":\"T\",\"status\":\"working\"}"));
    mcp_asker_wait(self, 1000);
    mcp_asker_hear(self, cases[i].heard);
    HAS(mcp_asker_told(self), cases[i].told);
    mcp_asker_end(self);
  }
}

static void a_cancelled_call_cancels_its_task(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(&with_tasks);
  uint64_t call = mcp_asker_call(self, "t", NULL);
  mcp_asker_hear(self, OK(2, "{\"resultType\":\"task\",\"taskId\":\"T\",\"status\":\"working\"}"));
  mcp_asker_sent(self);
  ASK(idem_mcp_cancel(self->client, call));
  HAS(mcp_asker_told(self), "cancelled");
  HAS(mcp_asker_sent(self), "\"method\":\"tasks/cancel\",\"params\":{\"taskId\":\"T\"");
  mcp_asker_end(self);
}

static void on_detached(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  (void)client;
  mcp_asker_note(user, "task %s", yyjson_get_str(yyjson_obj_get(result->task, "taskId")));
}

static void a_detached_call_ends_with_its_task(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(&with_tasks);
  idem_mcp_call_opts opts = {.detach = true};
  ASK(idem_mcp_call_tool_json(self->client, "t", NULL, 0, &opts, on_detached, self, NULL));
  mcp_asker_hear(self, OK(2, "{\"resultType\":\"task\",\"taskId\":\"T\",\"status\":\"working\"}"));
  assert_string_equal(mcp_asker_told(self), "task T\n");
  ASK(idem_mcp_task_wait(self->client, "T", NULL, mcp_asker_on_result, self, NULL));
  HAS(mcp_asker_sent(self), "tasks/get");
  mcp_asker_hear(self,
                 OK(3, "{\"taskId\":\"T\",\"status\":\"completed\",\"result\":{\"content\":[]}}"));
  assert_string_equal(mcp_asker_told(self), "ok {\"content\":[]}\n");
  mcp_asker_end(self);
}

static void a_task_of_the_older_form_ends_by_its_result(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_legacy(NULL, "2025-11-25");
  mcp_asker_call(self, "t", &(idem_mcp_call_opts){.task = true, .task_ttl_ms = 60000});
  HAS(mcp_asker_sent(self), "\"task\":{\"ttl\":60000}");
  mcp_asker_hear(
      self, OK(3, "{\"task\":{\"taskId\":\"T\",\"status\":\"working\",\"pollInterval\":100}}"));
  mcp_asker_wait(self, 100);
  HAS(mcp_asker_sent(self), "tasks/get");
  mcp_asker_hear(self, OK(4, "{\"taskId\":\"T\",\"status\":\"completed\"}"));
  HAS(mcp_asker_sent(self), "\"method\":\"tasks/result\"");
  mcp_asker_hear(self, OK(5, "{\"content\":[]}"));
  assert_string_equal(mcp_asker_told(self), "ok {\"content\":[]}\n");
  ASK(idem_mcp_task_list(self->client, NULL, mcp_asker_on_result, self, NULL));
  mcp_asker_hear(self, OK(6, "{\"tasks\":[{\"taskId\":\"T\"}]}"));
  assert_string_equal(mcp_asker_told(self), "ok [{\"taskId\":\"T\"}]\n");
  mcp_asker_end(self);
}

/* ------------------------------------------------------------------- listening */

static void on_begin(idem_mcp_client *client, uint64_t call, yyjson_val *honoured, void *user) {
  (void)client, (void)call;
  mcp_asker_note(user, "begun %s", honoured ? "with word" : "without");
}
static void on_updated(idem_mcp_client *client, const char *uri, size_t len, void *user) {
  (void)client;
  mcp_asker_note(user, "updated %.*s", (int)len, uri);
}
static void on_changed(idem_mcp_client *client, idem_mcp_list_kind kind, void *user) {
  (void)client;
  mcp_asker_note(user, "changed %d", (int)kind);
}
static const idem_mcp_client_opts hearing = {.on_resource_updated = on_updated,
                                             .on_list_changed = on_changed};
static const char *const uris[] = {"x:1", "x:2", NULL};
static const idem_mcp_listening wishes = {.tools = true, .uris = uris, .on_begin = on_begin};

static void listening_is_one_long_call_in_the_newer_era(void **state) {
  (void)state;
  const char *const ends[] = {OK(2, "{\"resultType\":\"complete\"}"),
                              NOTICE("notifications/cancelled", "{\"requestId\":2}")};
  for (size_t i = 0; i < 2; i++) {
    mcp_asker *self = mcp_asker_modern(&hearing);
    ASK(idem_mcp_listen(self->client, &wishes, NULL, mcp_asker_on_result, self, NULL));
    HAS(mcp_asker_sent(self), "\"method\":\"subscriptions/"
                              "listen\",\"params\":{\"notifications\":{\"toolsListChanged\":true,"
                              "\"resourceSubscriptions\":[\"x:1\",\"x:2\"]}");
    mcp_asker_hear(
        self,
        NOTICE("notifications/subscriptions/acknowledged",
               "{\"notifications\":{},\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":2}}"));
    mcp_asker_hear(self, NOTICE("notifications/resources/updated", "{\"uri\":\"x:1\"}"));
    mcp_asker_hear(self, NOTICE("notifications/prompts/list_changed", "{}"));
    assert_string_equal(mcp_asker_told(self), "begun with word\nupdated x:1\nchanged 3\n");
    mcp_asker_wait(self, 3600000);
    assert_string_equal(mcp_asker_told(self), "");
    mcp_asker_hear(self, ends[i]);
    HAS(mcp_asker_told(self), "ok ");
    mcp_asker_hear(self, ends[1 - i]); /* either, in either order */
    assert_string_equal(mcp_asker_told(self), "");
    mcp_asker_end(self);
  }
}

static void listening_subscribes_one_by_one_in_the_older_era(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_legacy(&hearing, "2025-06-18");
  uint64_t call;
  ASK(idem_mcp_listen(self->client, &wishes, NULL, mcp_asker_on_result, self, &call));
  HAS(mcp_asker_sent(self), "\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"x:1\"");
  mcp_asker_hear(self, OK(3, "{}"));
  HAS(mcp_asker_sent(self), "\"uri\":\"x:2\"");
  mcp_asker_hear(self, OK(4, "{}"));
  assert_string_equal(mcp_asker_told(self), "begun without\n");
  ASK(idem_mcp_cancel(self->client, call));
  HAS(mcp_asker_told(self), "cancelled");
  const char *sent = mcp_asker_sent(self);
  HAS(sent, "\"method\":\"resources/unsubscribe\",\"params\":{\"uri\":\"x:1\"");
  HAS(sent, "\"method\":\"resources/unsubscribe\",\"params\":{\"uri\":\"x:2\"");
  mcp_asker_end(self);
}

/* ---------------------------------------------------------------------- skills */

#define BODY "---\nname: s\ndescription: \"a: b\"\n---\nbody\n"
#define DIGEST "91cfd8eefaf02059772c6d9d54320de5a154e5eadc0c58f82a07929ef484ae49"
#define ENTRY(size, digest, name)                                                                  \
  "{\"uri\":\"skill://s/SKILL.md\",\"frontmatter\":{\"name\":\"" name                              \
  "\",\"description\":\"a: b\"},\"resources\":[{"                                                  \
  "\"uri\":\"skill://s/SKILL.md\",\"digest\":\"sha256:" digest "\",\"size\":" size "}]}"
#define READ                                                                                       \
  "{\"contents\":[{\"uri\":\"skill://s/SKILL.md\",\"text\":\"---\\nname: s\\ndescription: \\\"a: " \
  "b\\\"\\n---\\nbody\\n\"}]}"

static void on_skill(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  (void)client;
  mcp_asker_note(user, "%s %.*s", result->status == IDEM_OK ? "loaded" : "refused",
                 (int)result->message_len, result->message ? result->message : "");
  assert_int_equal(result->skill_text != NULL, result->status == IDEM_OK);
}

static void a_skill_is_what_its_list_says_or_nothing(void **state) {
  (void)state;
  const struct {
    const char *entry, *told;
  } cases[] = {
      {ENTRY("41", DIGEST, "s"), "loaded"},
      {ENTRY("42", DIGEST, "s"), "refused the file is not as long"},
      {ENTRY("41", "0000000000000000000000000000000000000000000000000000000000000000", "s"),
       "refused the file is not the one"},
      {ENTRY("41", DIGEST, "other"), "refused the front matter"},
  };
  assert_int_equal(sizeof BODY - 1, 41);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mcp_asker *self = mcp_asker_modern(NULL);
    yyjson_doc *doc = yyjson_read(cases[i].entry, strlen(cases[i].entry), 0);
    ASK(idem_mcp_load_skill(self->client, yyjson_doc_get_root(doc), "skill://s/SKILL.md", NULL,
                            on_skill, self, NULL));
    yyjson_doc_free(doc);
    HAS(mcp_asker_sent(self), "resources/read");
    mcp_asker_hear(self, OK(2, READ));
    HAS(mcp_asker_told(self), cases[i].told);
    mcp_asker_end(self);
  }
}

static void a_file_that_was_not_announced_is_not_read(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(NULL);
  const char *const entry = ENTRY("41", DIGEST, "s");
  yyjson_doc *doc = yyjson_read(entry, strlen(entry), 0);
  assert_int_equal(idem_mcp_load_skill(self->client, yyjson_doc_get_root(doc), "skill://s/x", NULL,
                                       on_skill, self, NULL),
                   IDEM_E_INVAL);
  assert_string_equal(mcp_asker_sent(self), "");
  yyjson_doc_free(doc);
  ASK(idem_mcp_list_skills(self->client, NULL, mcp_asker_on_result, self, NULL));
  HAS(mcp_asker_sent(self), "\"method\":\"skills/list\"");
  mcp_asker_hear(self, OK(2, "{\"skills\":[{\"uri\":\"skill://s/SKILL.md\"}]}"));
  HAS(mcp_asker_told(self), "ok [{\"uri\"");
  assert_string_equal(mcp_asker_sent(self), "");
  mcp_asker_end(self);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_task_of_the_newer_era_is_polled_at_the_servers_pace),
      cmocka_unit_test(tasks_end_badly_in_words),
      cmocka_unit_test(a_cancelled_call_cancels_its_task),
      cmocka_unit_test(a_detached_call_ends_with_its_task),
      cmocka_unit_test(a_task_of_the_older_form_ends_by_its_result),
      cmocka_unit_test(listening_is_one_long_call_in_the_newer_era),
      cmocka_unit_test(listening_subscribes_one_by_one_in_the_older_era),
      cmocka_unit_test(a_skill_is_what_its_list_says_or_nothing),
      cmocka_unit_test(a_file_that_was_not_announced_is_not_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
