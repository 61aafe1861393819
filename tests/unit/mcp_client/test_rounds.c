/* test_rounds.c - what servers want to know: in the newer era as rounds of a call, in the older as requests; the
 * handler sees no difference, and nothing of one call reaches another. */
#include "support/mcp_asker_unit.h"

#include <stdio.h>

#define FORM                                                                                       \
  "{\"method\":\"elicitation/"                                                                     \
  "create\",\"params\":{\"message\":\"m\",\"requestedSchema\":{\"type\":\"object\","               \
  "\"properties\":{\"n\":{\"type\":\"integer\",\"default\":7},\"s\":{\"type\":\"string\"}},"       \
  "\"required\":[\"s\"]}}}"
#define NEED(id, more) OK(id, "{\"resultType\":\"input_required\"," more "}")

static idem_mcp_question *kept;

static void accept_form(idem_mcp_client *client, idem_mcp_question *question, void *user) {
  (void)client;
  char why[256];
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *content = yyjson_mut_obj(doc);
  assert_int_equal(idem_mcp_question_kind(question), IDEM_ASK_FORM);
  mcp_asker_note(user, "asked %s",
                 yyjson_get_str(yyjson_obj_get(idem_mcp_question_params(question), "message")));
  assert_int_equal(idem_mcp_accept(question, content, why, sizeof why), IDEM_E_INVAL);
  assert_non_null(strstr(why, "s"));
  yyjson_mut_obj_add_str(doc, content, "s", "yes");
  assert_int_equal(idem_mcp_accept(question, content, why, sizeof why), IDEM_OK);
  yyjson_mut_doc_free(doc);
}

static void keep_form(idem_mcp_client *client, idem_mcp_question *question, void *user) {
  (void)client, (void)user;
  idem_mcp_question_keep(question);
  kept = question;
}

static void say_nothing(idem_mcp_client *client, idem_mcp_question *question, void *user) {
  (void)client, (void)question;
  mcp_asker_note(user, "asked");
}

static void sample(idem_mcp_client *client, idem_mcp_question *question, void *user) {
  (void)client, (void)user;
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *said = yyjson_mut_obj(doc);
  assert_int_equal(idem_mcp_sampled(question, said), IDEM_E_INVAL);
  yyjson_mut_obj_add_str(doc, said, "role", "assistant");
  yyjson_mut_obj_add_str(doc, said, "model", "m");
  assert_int_equal(idem_mcp_sampled(question, said), IDEM_OK);
  yyjson_mut_doc_free(doc);
}

static const idem_mcp_client_opts answering = {
    .on_form = accept_form, .on_sampling = sample, .roots = true};
static const idem_mcp_client_opts keeping = {.on_form = keep_form, .on_url = keep_form};

static void a_round_is_answered_with_defaults_filled_in_and_the_state_as_it_came(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(&answering);
  mcp_asker_call(self, "t", NULL);
  HAS(mcp_asker_sent(self), "\"elicitation\":{\"form\":{}}");
  mcp_asker_hear(self, NEED(2, "\"inputRequests\":{\"k\\\"1\":" FORM
                               "},\"requestState\":\"a\\u0000\\\"\\u00e9\""));
  assert_string_equal(mcp_asker_told(self), "asked m\n");
  const char *sent = mcp_asker_sent(self);
  HAS(sent, "\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"t\",\"arguments\":{},");
  HAS(sent, "\"inputResponses\":{\"k\\\"1\":{\"action\":\"accept\",\"content\":{");
  HAS(sent, "\"s\":\"yes\"");
  HAS(sent, "\"n\":7");
  HAS(sent, "\"requestState\":\"a\\u0000\\\"\xc3\xa9\"}}");
  mcp_asker_call(self, "other", NULL); /* knows nothing of it */
  sent = mcp_asker_sent(self);
  LACKS(sent, "requestState");
  LACKS(sent, "inputResponses");
  mcp_asker_hear(self, OK(3, "{\"content\":[]}"));
  assert_string_equal(mcp_asker_told(self), "ok {\"content\":[]}\n");
  mcp_asker_end(self);
}

static void a_round_without_a_state_is_repeated_without_one(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(&answering);
  mcp_asker_call(self, "t", NULL);
  mcp_asker_hear(
      self,
      NEED(2,
           "\"inputRequests\":{\"a\":" FORM ",\"r\":{\"method\":\"roots/list\"},\"s\":{"
           "\"method\":\"sampling/createMessage\",\"params\":{\"messages\":[],\"maxTokens\":1}}}"));
  const char *sent = mcp_asker_sent(self);
  LACKS(sent, "requestState");
  HAS(sent, "\"r\":{\"roots\":[]}");
  HAS(sent, "\"s\":{\"role\":\"assistant\",\"model\":\"m\"}");
  mcp_asker_end(self);
}

static void a_state_alone_is_brought_back_after_a_pause_and_not_for_ever(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(&(idem_mcp_client_opts){.max_rounds = 3});
  mcp_asker_call(self, "t", NULL);
  mcp_asker_sent(self);
  for (int id = 2; id < 6; id++) {
    char line[128];
    snprintf(line, sizeof line,
             "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{\"resultType\":\"input_required\","
             "\"requestState\":\"s\"}}",
             id);
    mcp_asker_hear(self, line);
    assert_string_equal(mcp_asker_sent(self), "");
    mcp_asker_wait(self, 1000);
    LACKS(mcp_asker_sent(self), "inputResponses");
  }
  HAS(mcp_asker_told(self), "asks for input again and again");
  mcp_asker_end(self);
}

static void what_was_not_declared_is_not_handed_over(void **state) {
  (void)state;
  const char *const asks[] = {
      NEED(2, "\"inputRequests\":{\"a\":" FORM "}"),
      NEED(2, "\"inputRequests\":{\"a\":{\"method\":\"roots/list\"}}"),
      NEED(2, "\"inputRequests\":{\"a\":{\"method\":\"x\"}}"),
      NEED(2, "\"inputRequests\":{\"a\":7}"),
      NEED(2, "\"inputRequests\":{\"a\":{\"method\":\"sampling/createMessage\"}}")};
  for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
    mcp_asker *self = mcp_asker_modern(NULL);
    mcp_asker_call(self, "t", NULL);
    mcp_asker_sent(self);
    mcp_asker_hear(self, asks[i]);
    HAS(mcp_asker_told(self), "not offered");
    assert_string_equal(mcp_asker_sent(self), "");
    mcp_asker_end(self);
  }
}

static void too_many_questions_end_the_call(void **state) {
  (void)state;
  mcp_asker *self =
      mcp_asker_modern(&(idem_mcp_client_opts){.on_form = keep_form, .max_questions = 1});
  mcp_asker_call(self, "t", NULL);
  mcp_asker_hear(self, NEED(2, "\"inputRequests\":{\"a\":" FORM ",\"b\":" FORM "}"));
  HAS(mcp_asker_told(self), "too many questions");
  mcp_asker_end(self);
}

static void a_kept_question_is_answered_later_and_the_clock_waits(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_modern(&keeping);
  uint64_t call = mcp_asker_call(self, "t", &(idem_mcp_call_opts){.idle_ms = 1000});
  mcp_asker_hear(self, NEED(2, "\"inputRequests\":{\"a\":" FORM "}"));
  assert_true(idem_mcp_question_open(kept));
  assert_true(idem_mcp_question_call(kept) == call);
  mcp_asker_sent(self);
  mcp_asker_wait(self, 600000);
  assert_string_equal(mcp_asker_told(self), "");
  assert_int_equal(idem_mcp_decline(kept), IDEM_OK);
  HAS(mcp_asker_sent(self), "\"inputResponses\":{\"a\":{\"action\":\"decline\"}}");
  mcp_asker_end(self);
}

static void a_question_outlives_its_call_its_conn_and_its_client(void **state) {
  (void)state;
  for (int which = 0; which < 3; which++) {
    mcp_asker *self = mcp_asker_modern(&keeping);
    uint64_t call = mcp_asker_call(self, "t", NULL);
    mcp_asker_hear(self, NEED(2, "\"inputRequests\":{\"a\":" FORM "}"));
    if (which == 0) idem_mcp_cancel(self->client, call);
    if (which == 1) {
      idem_conn_free(self->conn);
      self->conn = NULL;
    }
    if (which == 2) mcp_asker_close(self);
    assert_false(idem_mcp_question_open(kept));
    assert_non_null(idem_mcp_question_params(kept));
    assert_int_equal(idem_mcp_dismiss(kept), IDEM_E_CLOSED);
    mcp_asker_end(self);
  }
}

static void a_question_nobody_answers_is_dismissed(void **state) {
  (void)state;
  mcp_asker *self =
      mcp_asker_modern(&(idem_mcp_client_opts){.on_form = say_nothing, .on_sampling = say_nothing});
  mcp_asker_call(self, "t", NULL);
  mcp_asker_hear(self, NEED(2, "\"inputRequests\":{\"a\":" FORM "}"));
  HAS(mcp_asker_sent(self), "{\"action\":\"cancel\"}");
  mcp_asker_told(self);
  mcp_asker_hear(self, NEED(3, "\"inputRequests\":{\"a\":{\"method\":\"sampling/"
                               "createMessage\",\"params\":{\"messages\":[]}}}"));
  HAS(mcp_asker_told(self), "sampling was refused");
  mcp_asker_end(self);
}

#define REQUEST(method, params)                                                                    \
  "{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"" method "\",\"params\":" params "}"
#define FORM_PARAMS                                                                                \
  "{\"message\":\"m\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"s\":{\"type\":"   \
  "\"string\","                                                                                    \
  "\"default\":\"d\"},\"n\":{\"type\":\"integer\",\"default\":7}},\"required\":[\"s\"]}}"

static void accept_defaults(idem_mcp_client *client, idem_mcp_question *question, void *user) {
  (void)client, (void)user;
  assert_int_equal(idem_mcp_accept(question, NULL, NULL, 0), IDEM_OK);
}

static void requests_of_the_older_era_get_one_answer_each(void **state) {
  (void)state;
  const idem_mcp_client_opts opts = {
      .on_form = accept_defaults, .on_url = accept_defaults, .on_sampling = sample, .roots = true};
  const struct {
    const char *heard, *sent;
  } cases[] = {
      {REQUEST("ping", "{}"), "{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"result\":{}}"},
      {REQUEST("roots/list", "{}"), "\"result\":{\"roots\":[{\"uri\":\"file:///x\"}]}"},
      {REQUEST("sampling/createMessage", "{\"messages\":[],\"maxTokens\":1}"), "\"model\":\"m\""},
      {REQUEST("sampling/createMessage", "{\"messages\":[],\"tools\":[]}"), "\"code\":-32602"},
      {REQUEST("sampling/createMessage", "{}"), "\"code\":-32602"},
      {REQUEST("elicitation/create", FORM_PARAMS),
       "\"result\":{\"action\":\"accept\",\"content\":{\"s\":\"d\",\"n\":7}}"},
      {REQUEST(
           "elicitation/create",
           "{\"mode\":\"url\",\"message\":\"m\",\"url\":\"https://x\",\"elicitationId\":\"e\"}"),
       "\"result\":{\"action\":\"accept\"}"},
      {REQUEST("elicitation/create", "{\"mode\":\"odd\",\"message\":\"m\"}"), "\"code\":-32602"},
      {REQUEST("elicitation/create", "{\"message\":7}"), "\"code\":-32602"},
      {REQUEST("tools/list", "{}"), "\"code\":-32601"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mcp_asker *self = mcp_asker_legacy(&opts, "2025-11-25");
    assert_int_equal(idem_mcp_client_set_roots(self->client, "[ {\"uri\": \"file:///x\"} ]", 24),
                     IDEM_OK);
    HAS(mcp_asker_sent(self), "notifications/roots/list_changed");
    mcp_asker_hear(self, cases[i].heard);
    HAS(mcp_asker_sent(self), cases[i].sent);
    mcp_asker_end(self);
  }
}

static void requests_without_a_handler_are_not_found(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_legacy(NULL, "2025-11-25");
  mcp_asker_hear(self, REQUEST("roots/list", "{}"));
  HAS(mcp_asker_sent(self), "-32601");
  mcp_asker_hear(self, REQUEST("sampling/createMessage", "{\"messages\":[]}"));
  HAS(mcp_asker_sent(self), "-32601");
  mcp_asker_end(self);
}

static void a_request_the_server_takes_back_closes_its_question(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_legacy(&keeping, "2025-11-25");
  mcp_asker_hear(self, REQUEST("elicitation/create", FORM_PARAMS));
  assert_true(idem_mcp_question_open(kept));
  mcp_asker_hear(self, NOTICE("notifications/cancelled", "{\"requestId\":\"q\"}"));
  assert_false(idem_mcp_question_open(kept));
  assert_int_equal(idem_mcp_accept(kept, NULL, NULL, 0), IDEM_E_CLOSED);
  assert_string_equal(mcp_asker_sent(self), "");
  mcp_asker_end(self);
}

static void calls_wait_while_the_server_waits_for_us(void **state) {
  (void)state;
  mcp_asker *self = mcp_asker_legacy(&keeping, "2025-06-18");
  mcp_asker_call(self, "t", &(idem_mcp_call_opts){.idle_ms = 1000});
  mcp_asker_hear(self, REQUEST("elicitation/create", FORM_PARAMS));
  mcp_asker_wait(self, 100000);
  assert_string_equal(mcp_asker_told(self), "");
  assert_int_equal(idem_mcp_decline(kept), IDEM_OK);
  mcp_asker_wait(self, 2001);
  HAS(mcp_asker_told(self), "said nothing for too long");
  mcp_asker_end(self);
}

static void a_hostile_form_is_refused_not_obeyed(void **state) {
  (void)state;
  const char *const schemas[] = {
      "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"http://evil/x\"}}}",
      "{\"type\":\"object\",\"properties\":{\"a\":{\"pattern\":\"(\"}}}", "{\"$ref\":\"#\"}"};
  for (size_t i = 0; i < 3; i++) {
    char line[512], why[256] = "";
    mcp_asker *self = mcp_asker_legacy(&keeping, "2025-11-25");
    snprintf(line, sizeof line,
             REQUEST("elicitation/create", "{\"message\":\"m\",\"requestedSchema\":%s}"),
             schemas[i]);
    mcp_asker_hear(self, line);
    assert_int_not_equal(idem_mcp_accept(kept, NULL, why, sizeof why), IDEM_OK);
    assert_int_equal(idem_mcp_decline(kept), IDEM_OK);
    mcp_asker_end(self);
  }
}

static void a_round(fault_alloc *fault, void *user) {
  mcp_asker *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->fault = *fault;
  self->fault.alloc.ctx = fault;
  (void)user;
  idem_mcp_client_opts opts = {.on_form = say_nothing, .roots = true};
  if (mcp_asker_open(self, &opts)) {
    mcp_asker_be_modern(self);
    idem_mcp_call_tool_json(self->client, "t", "{}", 2, NULL, mcp_asker_on_result, self, NULL);
    mcp_asker_hear(self, NEED(2, "\"inputRequests\":{\"a\":" FORM
                                 ",\"r\":{\"method\":\"roots/list\"}},\"requestState\":\"s\""));
    mcp_asker_hear(self, OK(3, "{\"content\":[]}"));
  }
  mcp_asker_close(self);
  free(self);
}

static void no_memory_at_any_step_leaves_nothing_behind(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(a_round, NULL, 2000) > 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_round_is_answered_with_defaults_filled_in_and_the_state_as_it_came),
      cmocka_unit_test(a_round_without_a_state_is_repeated_without_one),
      cmocka_unit_test(a_state_alone_is_brought_back_after_a_pause_and_not_for_ever),
      cmocka_unit_test(what_was_not_declared_is_not_handed_over),
      cmocka_unit_test(too_many_questions_end_the_call),
      cmocka_unit_test(a_kept_question_is_answered_later_and_the_clock_waits),
      cmocka_unit_test(a_question_outlives_its_call_its_conn_and_its_client),
      cmocka_unit_test(a_question_nobody_answers_is_dismissed),
      cmocka_unit_test(requests_of_the_older_era_get_one_answer_each),
      cmocka_unit_test(requests_without_a_handler_are_not_found),
      cmocka_unit_test(a_request_the_server_takes_back_closes_its_question),
      cmocka_unit_test(calls_wait_while_the_server_waits_for_us),
      cmocka_unit_test(a_hostile_form_is_refused_not_obeyed),
      cmocka_unit_test(no_memory_at_any_step_leaves_nothing_behind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
