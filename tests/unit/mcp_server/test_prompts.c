/* test_prompts.c - prompts are listed as each revision knows them, their arguments are checked before
 * anyone sees them, and completion helps to fill them in. */
#include "support/mcp_peer.h"
#include "support/unit.h"

#include <stdio.h>

/* ---------------------------------------------------------------- fixture */

static void say(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  char text[128];
  const char *what = yyjson_get_str(yyjson_obj_get(arguments, "what"));
  int len = snprintf(text, sizeof text, "say %s", what ? what : "nothing");
  idem_prompt_text(request, text, (size_t)len);
}

static void talk(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *blocks = yyjson_mut_arr(doc), *messages = yyjson_mut_arr(doc);
  idem_content_resource_text(doc, blocks, "x:y", "text/plain", "t", 1);
  idem_content_image(doc, blocks, "png", 3, "image/png");
  idem_content_audio(doc, blocks, "wav", 3, "audio/wav");
  yyjson_mut_arr_iter each = yyjson_mut_arr_iter_with(blocks);
  for (yyjson_mut_val *block; (block = yyjson_mut_arr_iter_next(&each));) {
    yyjson_mut_val *message = yyjson_mut_arr_add_obj(doc, messages);
    yyjson_mut_obj_add_str(doc, message, "role", "assistant");
    yyjson_mut_obj_add_val(doc, message, "content", yyjson_mut_val_mut_copy(doc, block));
  }
  idem_prompt_reply(request, "a talk", messages);
}

static void talk_nonsense(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *messages = yyjson_mut_arr(doc);
  yyjson_mut_val *message = yyjson_mut_arr_add_obj(doc, messages);
  yyjson_mut_obj_add_str(doc, message, "role", "robot");
  yyjson_mut_obj_add_obj(doc, message, "content");
  assert_int_equal(idem_prompt_reply(request, NULL, messages), IDEM_E_INVAL);
}

static void talk_not_at_all(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  assert_int_equal(idem_prompt_reply(request, NULL, NULL), IDEM_E_INVAL);
}

static void talk_twice(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  assert_int_equal(idem_prompt_text(request, "once", 4), IDEM_OK);
  assert_int_equal(idem_prompt_text(request, "twice", 5), IDEM_E_STATE);
}

static void add(idem_server *server, const idem_prompt *prompt) {
  char why[128] = "";
  if (idem_server_add_prompt(server, prompt, why, sizeof why) != IDEM_OK) fail_msg("%s", why);
}

static const idem_prompt_argument say_arguments[] = {
    {.name = "what", .title = "What", .description = "what to say", .required = true},
    {.name = "how"},
    {.name = NULL},
};

static idem_server *full_server(void) {
  idem_server *server = mcp_test_server(NULL);
  add(server, &(idem_prompt){.name = "say",
                             .title = "Say it",
                             .description = "says something",
                             .arguments = say_arguments,
                             .icons = "[{\"src\":\"https://x/y.png\"}]",
                             .meta = "{\"m\":1}",
                             .fn = say});
  return server;
}

static idem_server *talking_server(void) {
  idem_server *server = mcp_test_server(NULL);
  add(server, &(idem_prompt){.name = "talk", .fn = talk});
  add(server, &(idem_prompt){.name = "nonsense", .fn = talk_nonsense});
  add(server, &(idem_prompt){.name = "silence", .fn = talk_not_at_all});
  add(server, &(idem_prompt){.name = "twice", .fn = talk_twice});
  add(server, &(idem_prompt){.name = "plain", .fn = say});
  return server;
}

/* ---------------------------------------------------------------- prompts */

static void a_list_holds_what_the_revision_knows(void **state) {
  (void)state;
  static const char old[] = "{\"name\":\"say\",\"description\":\"says something\",\"arguments\":[{"
                            "\"name\":\"what\",\"description\":\"what to say\",\"required\":true},{"
                            "\"name\":\"how\"}]}";
  static const char titled[] =
      "{\"name\":\"say\",\"title\":\"Say it\",\"description\":\"says something\",\"arguments\":[{"
      "\"name\":\"what\",\"title\":\"What\",\"description\":\"what to say\",\"required\":true},{"
      "\"name\":\"how\"}],\"_meta\":{\"m\":1}}";
  static const char full[] =
      "{\"name\":\"say\",\"title\":\"Say it\",\"description\":\"says something\",\"arguments\":[{"
      "\"name\":\"what\",\"title\":\"What\",\"description\":\"what to say\",\"required\":true},{"
      "\"name\":\"how\"}],\"icons\":[{\"src\":\"https://x/y.png\"}],\"_meta\":{\"m\":1}}";
  static const char *const lists[MCP_TEST_REVISIONS] = {old, old, titled, full, full};
  idem_server *server = full_server();
  for (size_t i = 0; i < MCP_TEST_REVISIONS; i++) {
    mcp_peer peer;
    char wanted[1024];
    mcp_peer_open(&peer, server, mcp_test_revisions[i]);
    snprintf(wanted, sizeof wanted,
             peer.modern ? "\"result\":{\"resultType\":\"complete\",\"prompts\":[%s],\"ttlMs\":0,"
                           "\"cacheScope\":\"public\"," MCP_TEST_INFO "}"
                         : "\"result\":{\"prompts\":[%s]}",
             lists[i]);
    mcp_peer_expect(&peer, "prompts/list", "", wanted);
    mcp_peer_close(&peer);
  }
  idem_server_free(server);
}

static void a_prompt_is_made_in_every_revision(void **state) {
  (void)state;
  idem_server *server = full_server();
  for (size_t i = 0; i < MCP_TEST_REVISIONS; i++) {
    mcp_peer peer;
    mcp_peer_open(&peer, server, mcp_test_revisions[i]);
    mcp_peer_expect(&peer, "prompts/get", "\"name\":\"say\",\"arguments\":{\"what\":\"hi\"}",
                    peer.modern
                        ? "\"result\":{\"resultType\":\"complete\",\"description\":\"says "
                          "something\",\"messages\":[{\"role\":\"user\",\"content\":{\"type\":"
                          "\"text\",\"text\":\"say hi\"}}]," MCP_TEST_INFO "}"
                        : "\"result\":{\"description\":\"says something\",\"messages\":[{\"role\":"
                          "\"user\",\"content\":{\"type\":\"text\",\"text\":\"say hi\"}}]}");
    mcp_peer_close(&peer);
  }
  idem_server_free(server);
}

static void absent_arguments_are_an_empty_object(void **state) {
  (void)state;
  idem_server *server = talking_server();
  mcp_peer peer;
  mcp_peer_open(&peer, server, "2024-11-05");
  mcp_peer_expect_part(&peer, "prompts/get", "\"name\":\"plain\"", "say nothing");
  mcp_peer_expect_part(&peer, "prompts/get", "\"name\":\"plain\",\"arguments\":{\"extra\":\"x\"}",
                       "say nothing");
  mcp_peer_close_with(&peer, server);
}

static void bad_arguments_never_reach_the_prompt(void **state) {
  (void)state;
  idem_server *server = full_server();
  for (size_t i = 0; i < MCP_TEST_REVISIONS; i++) {
    mcp_peer peer;
    mcp_peer_open(&peer, server, mcp_test_revisions[i]);
    mcp_peer_expect_bad_param(&peer, "prompts/get", "", "name", "string", "nothing");
    mcp_peer_expect_bad_param(&peer, "prompts/get", "\"name\":1", "name", "string", "number");
    mcp_peer_expect_bad_param(&peer, "prompts/get", "\"name\":\"say\"", "arguments.what", "string",
                              "nothing");
    mcp_peer_expect_bad_param(&peer, "prompts/get", "\"name\":\"say\",\"arguments\":[]",
                              "arguments", "object", "array");
    mcp_peer_expect_bad_param(&peer, "prompts/get", "\"name\":\"say\",\"arguments\":null",
                              "arguments", "object", "null");
    mcp_peer_expect_bad_param(&peer, "prompts/get",
                              "\"name\":\"say\",\"arguments\":{\"how\":\"x\"}", "arguments.what",
                              "string", "nothing");
    mcp_peer_expect_bad_param(&peer, "prompts/get", "\"name\":\"say\",\"arguments\":{\"what\":1}",
                              "arguments.what", "string", "number");
    mcp_peer_expect_bad_param(&peer, "prompts/get",
                              "\"name\":\"say\",\"arguments\":{\"what\":\"x\",\"extra\":{}}",
                              "arguments.extra", "string", "object");
    mcp_peer_expect(
        &peer, "prompts/get", "\"name\":\"none\"",
        "\"error\":{\"code\":-32602,\"message\":\"Unknown prompt: none\",\"data\":{\"prompt\":"
        "\"none\"}}");
    mcp_peer_close(&peer);
  }
  idem_server_free(server);
}

static void a_name_of_any_length_can_be_refused(void **state) {
  (void)state;
  static char members[70000];
  idem_server *server = full_server();
  mcp_peer peer;
  mcp_peer_open(&peer, server, "2026-07-28");
  int len = snprintf(members, sizeof members, "\"name\":\"say\",\"arguments\":{\"what\":\"x\",\"");
  memset(members + len, 'n', 60000);
  snprintf(members + len + 60000, sizeof members - (size_t)len - 60000, "\":1}");
  mcp_peer_expect_part(&peer, "prompts/get", members, "\"param\":\"arguments.nnnn");
  len = snprintf(members, sizeof members, "\"name\":\"");
  memset(members + len, 'n', 60000);
  snprintf(members + len + 60000, sizeof members - (size_t)len - 60000, "\"");
  mcp_peer_expect_part(&peer, "prompts/get", members, "\"data\":{\"prompt\":\"nnn");
  mcp_peer_close_with(&peer, server);
}

static void messages_hold_what_the_revision_knows(void **state) {
  (void)state;
  idem_server *server = talking_server();
  mcp_peer peer;
  mcp_peer_open(&peer, server, "2025-03-26");
  mcp_peer_expect(
      &peer, "prompts/get", "\"name\":\"talk\"",
      "\"result\":{\"description\":\"a talk\",\"messages\":[{\"role\":\"assistant\","
      "\"content\":{\"type\":\"resource\",\"resource\":{\"uri\":\"x:y\",\"mimeType\":"
      "\"text/plain\",\"text\":\"t\"}}},{\"role\":\"assistant\",\"content\":{\"type\":"
      "\"image\",\"data\":\"cG5n\",\"mimeType\":\"image/png\"}},{\"role\":\"assistant\","
      "\"content\":{\"type\":\"audio\",\"data\":\"d2F2\",\"mimeType\":\"audio/wav\"}}]"
      "}");
  mcp_peer_close(&peer);
  mcp_peer_open(&peer, server, "2024-11-05");
  const char *answer = mcp_peer_ask(&peer, "prompts/get", "\"name\":\"talk\"");
  assert_null(strstr(answer, "\"type\":\"audio\""));
  assert_non_null(strstr(answer, "\"type\":\"image\""));
  mcp_peer_close_with(&peer, server);
}

static void a_prompts_mistake_is_an_internal_error(void **state) {
  (void)state;
  idem_server *server = talking_server();
  mcp_peer peer;
  mcp_peer_open(&peer, server, "2026-07-28");
  mcp_peer_expect_part(&peer, "prompts/get", "\"name\":\"nonsense\"", "\"code\":-32603");
  mcp_peer_expect_part(&peer, "prompts/get", "\"name\":\"silence\"", "\"code\":-32603");
  mcp_peer_expect_part(&peer, "prompts/get", "\"name\":\"twice\"", "\"text\":\"once\"");
  mcp_peer_close_with(&peer, server);
}

static void expect_refused(idem_server *server, idem_prompt prompt) {
  char why[128] = "";
  assert_int_equal(idem_server_add_prompt(server, &prompt, why, sizeof why), IDEM_E_INVAL);
  assert_true(strlen(why) > 0);
  assert_int_equal(idem_server_add_prompt(server, &prompt, NULL, 0), IDEM_E_INVAL);
}

static void a_bad_definition_is_refused_with_a_sentence(void **state) {
  (void)state;
  static const idem_prompt_argument nameless[] = {{.name = ""}, {.name = NULL}};
  static const idem_prompt_argument twins[] = {{.name = "a"}, {.name = "a"}, {.name = NULL}};
  idem_server *server = mcp_test_server(NULL);
  expect_refused(server, (idem_prompt){.name = "x"});
  expect_refused(server, (idem_prompt){.fn = say});
  expect_refused(server, (idem_prompt){.name = "", .fn = say});
  expect_refused(server, (idem_prompt){.name = "x", .fn = say, .arguments = nameless});
  expect_refused(server, (idem_prompt){.name = "x", .fn = say, .arguments = twins});
  expect_refused(server, (idem_prompt){.name = "x", .fn = say, .icons = "{}"});
  expect_refused(server, (idem_prompt){.name = "x", .fn = say, .meta = "nonsense"});
  add(server, &(idem_prompt){.name = "x", .fn = say});
  assert_int_equal(idem_server_add_prompt(server, &(idem_prompt){.name = "x", .fn = say}, NULL, 0),
                   IDEM_E_EXISTS);
  assert_int_equal(idem_server_remove_prompt(server, "x"), IDEM_OK);
  assert_int_equal(idem_server_remove_prompt(server, "x"), IDEM_E_NOTFOUND);
  idem_server_free(server);
}

/* ------------------------------------------------------------- completion */

/* Answers with what it was asked. */
static void complete(idem_request *request, const idem_completion_query *query, void *user) {
  (void)user;
  const char *context = yyjson_get_str(yyjson_obj_get(query->context, "other"));
  const char *values[] = {query->prompt ? query->prompt : query->uri_template, query->argument,
                          query->value, context ? context : "no context"};
  assert_true(!query->prompt != !query->uri_template);
  idem_completion_reply(request, values, 4, false);
}

static void complete_many(idem_request *request, const idem_completion_query *query, void *user) {
  const char *values[250];
  for (size_t i = 0; i < 250; i++) values[i] = query->value;
  idem_completion_reply(request, values, 250, user != NULL);
}

static void nothing(idem_request *request, const char *uri, void *user) {
  (void)uri, (void)user;
  idem_resource_missing(request);
}

static idem_server *completing_server(idem_completion_fn fn, void *user) {
  idem_server *server = full_server();
  idem_resource items = {.uri = "x:{id}", .name = "x", .is_template = true, .fn = nothing};
  assert_int_equal(idem_server_add_resource(server, &items, NULL, 0), IDEM_OK);
  idem_server_on_complete(server, fn, user);
  return server;
}

#define PROMPT_REF "\"ref\":{\"type\":\"ref/prompt\",\"name\":\"say\"}"
#define ARGUMENT "\"argument\":{\"name\":\"what\",\"value\":\"v\"}"

static void completion_reaches_who_can_complete(void **state) {
  (void)state;
  idem_server *server = completing_server(complete, NULL);
  for (size_t i = 0; i < MCP_TEST_REVISIONS; i++) {
    mcp_peer peer;
    mcp_peer_open(&peer, server, mcp_test_revisions[i]);
    mcp_peer_expect(&peer, "completion/complete",
                    "\"ref\":{\"type\":\"ref/resource\",\"uri\":\"x:{id}\"}," ARGUMENT,
                    peer.modern ? "\"result\":{\"resultType\":\"complete\",\"completion\":{"
                                  "\"values\":[\"x:{id}\",\"what\",\"v\",\"no context\"],\"total\":"
                                  "4,\"hasMore\":false}," MCP_TEST_INFO "}"
                                : "\"result\":{\"completion\":{\"values\":[\"x:{id}\",\"what\","
                                  "\"v\",\"no context\"],\"total\":4,\"hasMore\":false}}");
    mcp_peer_expect_part(
        &peer, "completion/complete",
        PROMPT_REF "," ARGUMENT ",\"context\":{\"arguments\":{\"other\":\"said\"}}",
        i < 2 ? "[\"say\",\"what\",\"v\",\"no context\"]" : "[\"say\",\"what\",\"v\",\"said\"]");
    mcp_peer_close(&peer);
  }
  idem_server_free(server);
}

static void at_most_a_hundred_values_are_sent(void **state) {
  (void)state;
  static char more[] = "more";
  for (int unknown = 0; unknown < 2; unknown++) {
    idem_server *server = completing_server(complete_many, unknown ? more : NULL);
    mcp_peer peer;
    mcp_peer_open(&peer, server, "2025-11-25");
    const char *answer = mcp_peer_ask(&peer, "completion/complete", PROMPT_REF "," ARGUMENT);
    size_t sent = 0;
    for (const char *at = answer; (at = strstr(at, "\"v\"")); at++) sent++;
    assert_int_equal(sent, 100);
    assert_non_null(
        strstr(answer, unknown ? "],\"hasMore\":true}" : "],\"total\":250,\"hasMore\":true}"));
    mcp_peer_close_with(&peer, server);
  }
}

static void a_bad_completion_is_refused(void **state) {
  (void)state;
  static const char *const bad[] = {
      "",
      "\"ref\":1," ARGUMENT,
      "\"ref\":{}," ARGUMENT,
      "\"ref\":{\"type\":\"ref/tool\",\"name\":\"say\"}," ARGUMENT,
      "\"ref\":{\"type\":\"ref/prompt\"}," ARGUMENT,
      "\"ref\":{\"type\":\"ref/prompt\",\"name\":\"none\"}," ARGUMENT,
      "\"ref\":{\"type\":\"ref/resource\",\"uri\":\"x:none\"}," ARGUMENT,
      "\"ref\":{\"type\":\"ref/resource\",\"uri\":7}," ARGUMENT,
      PROMPT_REF,
      PROMPT_REF ",\"argument\":[]",
      PROMPT_REF ",\"argument\":{\"name\":\"what\"}",
      PROMPT_REF ",\"argument\":{\"value\":\"what\"}",
      PROMPT_REF ",\"argument\":{\"name\":\"what\",\"value\":1}",
      PROMPT_REF ",\"argument\":{\"name\":\"what\",\"value\":\"a\\u0000b\"}",
  };
  static const char *const bad_context[] = {
      PROMPT_REF "," ARGUMENT ",\"context\":1",
      PROMPT_REF "," ARGUMENT ",\"context\":{\"arguments\":[]}",
      PROMPT_REF "," ARGUMENT ",\"context\":{\"arguments\":{\"other\":1}}",
  };
  idem_server *server = completing_server(complete, NULL);
  for (size_t i = 0; i < MCP_TEST_REVISIONS; i++) {
    mcp_peer peer;
    mcp_peer_open(&peer, server, mcp_test_revisions[i]);
    for (size_t j = 0; j < sizeof bad / sizeof bad[0]; j++) {
      mcp_peer_expect_part(&peer, "completion/complete", bad[j], "\"code\":-32602");
    }
    for (size_t j = 0; j < sizeof bad_context / sizeof bad_context[0]; j++) {
      mcp_peer_expect_part(&peer, "completion/complete", bad_context[j],
                           i < 2 ? "\"no context\"" : "\"code\":-32602");
    }
    mcp_peer_close(&peer);
  }
  idem_server_free(server);
}

static void without_a_completer_there_is_no_such_method(void **state) {
  (void)state;
  idem_server *server = full_server();
  for (size_t i = 0; i < MCP_TEST_REVISIONS; i++) {
    mcp_peer peer;
    mcp_peer_open(&peer, server, mcp_test_revisions[i]);
    mcp_peer_expect_part(&peer, "completion/complete", PROMPT_REF "," ARGUMENT, "\"code\":-32601");
    mcp_peer_close(&peer);
  }
  idem_server_free(server);
}

static void fill(idem_server *server) {
  idem_prompt full = {
      .name = "say", .arguments = say_arguments, .icons = "[]", .meta = "{}", .fn = say};
  idem_prompt talking = {.name = "talk", .fn = talk};
  idem_status full_status = idem_server_add_prompt(server, &full, NULL, 0);
  idem_status talking_status = idem_server_add_prompt(server, &talking, NULL, 0);
  assert_true(full_status == IDEM_OK || full_status == IDEM_E_NOMEM);
  assert_true(talking_status == IDEM_OK || talking_status == IDEM_E_NOMEM);
  idem_server_on_complete(server, complete, NULL);
}

static void empty(idem_server *server) { idem_server_remove_prompt(server, "say"); }

static void any_allocation_may_fail(void **state) {
  (void)state;
  static const mcp_test_life life = {
      .fill = fill,
      .questions = {{"prompts/list", ""},
                    {"prompts/get", "\"name\":\"say\",\"arguments\":{\"what\":\"hi\"}"},
                    {"prompts/get", "\"name\":\"say\""},
                    {"prompts/get", "\"name\":\"none\""},
                    {"prompts/get", "\"name\":\"talk\""},
                    {"completion/complete", PROMPT_REF "," ARGUMENT}},
      .empty = empty};
  mcp_test_sweep(&life);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_list_holds_what_the_revision_knows),
      cmocka_unit_test(a_prompt_is_made_in_every_revision),
      cmocka_unit_test(absent_arguments_are_an_empty_object),
      cmocka_unit_test(bad_arguments_never_reach_the_prompt),
      cmocka_unit_test(a_name_of_any_length_can_be_refused),
      cmocka_unit_test(messages_hold_what_the_revision_knows),
      cmocka_unit_test(a_prompts_mistake_is_an_internal_error),
      cmocka_unit_test(a_bad_definition_is_refused_with_a_sentence),
      cmocka_unit_test(completion_reaches_who_can_complete),
      cmocka_unit_test(at_most_a_hundred_values_are_sent),
      cmocka_unit_test(a_bad_completion_is_refused),
      cmocka_unit_test(without_a_completer_there_is_no_such_method),
      cmocka_unit_test(any_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
