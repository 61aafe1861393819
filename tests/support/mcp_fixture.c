/* mcp_fixture.c - a fixed MCP server: a tool, resource or prompt for each thing a handler can do. */
#include "mcp_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char ICONS[] = "[{\"src\":\"https://x.example/i.png\",\"mimeType\":\"image/png\"}]";

/* ------------------------------------------------------------------- telling */

static void say(idem_request *request, const char *text) {
  idem_tool_text(request, text, strlen(text));
}

static const char *text_of(yyjson_val *object, const char *key) {
  const char *text = yyjson_get_str(yyjson_obj_get(object, key));
  return text ? text : "";
}

static void tool_echo(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  say(request, text_of(arguments, "text"));
}

static void tool_name(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  say(request, "here");
}

static void tool_fail(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_tool_failed(request, "it broke");
}

static void tool_error(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_reply_error(request, -32050, "no", NULL);
}

static void tool_drop(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_request_drop(request);
}

static void tool_twice(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  say(request, "once");
  say(request, "twice");
}

/* Only what grows is told, and nothing after the answer. */
static void tool_progress(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_progress(request, 1, 0, NULL);
  idem_progress(request, 1, 10, "again");
  idem_progress(request, 0.5, 10, "back");
  idem_progress(request, 2.5, 10, "on");
  say(request, "done");
}

static void tool_log(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_mcp_log(request, IDEM_MCP_DEBUG, "l", "a detail");
  idem_mcp_log(request, IDEM_MCP_INFO, NULL, "some news");
  idem_mcp_log(request, IDEM_MCP_EMERGENCY, "l", "fire");
  say(request, "logged");
}

static void tool_log_json(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  char *json = yyjson_val_write(yyjson_obj_get(arguments, "data"), 0, NULL);
  bool bad = idem_mcp_log_json(request, IDEM_MCP_ERROR, "l", "{\"a\"", 4) == IDEM_E_INVAL;
  if (json) idem_mcp_log_json(request, IDEM_MCP_WARNING, "l", json, strlen(json));
  free(json);
  say(request, bad ? "logged" : "unheard");
}

/* What a handler can learn of who asks. */
static void tool_who(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  char text[256];
  yyjson_val *meta = idem_request_meta(request);
  snprintf(text, sizeof text, "%s|%s|%d|%s|%s", text_of(idem_peer_info(request), "name"),
           idem_principal(request), (int)idem_request_revision(request),
           text_of(meta, "traceparent"),
           yyjson_get_type_desc(yyjson_obj_get(idem_peer_capabilities(request), "roots")));
  say(request, text);
}

/* ---------------------------------------------------------------- answering */

static bool decorate(yyjson_mut_doc *doc, yyjson_mut_val *block) {
  yyjson_mut_val *annotations = yyjson_mut_obj_add_obj(doc, block, "annotations");
  yyjson_mut_val *meta = yyjson_mut_obj_add_obj(doc, block, "_meta");
  return yyjson_mut_obj_add_int(doc, annotations, "priority", 1) &&
         yyjson_mut_obj_add_str(doc, annotations, "lastModified", "2025-01-12T15:00:58Z") &&
         yyjson_mut_obj_add_int(doc, meta, "m", 1);
}

/* Every kind of content, each with what newer revisions may carry. */
static void tool_everything(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *content = yyjson_mut_arr(doc);
  yyjson_mut_val *meta = yyjson_mut_obj(doc);
  bool built = idem_content_text(doc, content, "t", 1) &&
               idem_content_image(doc, content, "png", 3, "image/png") &&
               idem_content_audio(doc, content, "wav", 3, "audio/wav") &&
               idem_content_resource_text(doc, content, "file:///a", "text/plain", "A", 1) &&
               idem_content_link(doc, content, "file:///b", "b", "text/plain") &&
               yyjson_mut_obj_add_int(doc, meta, "r", 1);
  yyjson_mut_val *last = yyjson_mut_arr_get_last(content);
  built = built && decorate(doc, yyjson_mut_arr_get_first(content)) && decorate(doc, last) &&
          yyjson_mut_obj_add_str(doc, last, "title", "B");
  if (built)
    idem_tool_reply(request, &(idem_tool_result){.content = content, .meta = meta});
  else
    idem_request_drop(request);
}

static void reply_structured(idem_request *request, const char *json, bool is_error) {
  yyjson_doc *parsed = yyjson_read(json, strlen(json), 0);
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *value = yyjson_val_mut_copy(doc, yyjson_doc_get_root(parsed));
  yyjson_doc_free(parsed);
  if (value)
    idem_tool_reply(request, &(idem_tool_result){.structured = value, .is_error = is_error});
  else
    idem_request_drop(request);
}

static void tool_add(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  char json[64];
  snprintf(json, sizeof json, "{\"sum\":%lld}",
           (long long)yyjson_get_sint(yyjson_obj_get(arguments, "a")) +
               (long long)yyjson_get_sint(yyjson_obj_get(arguments, "b")));
  reply_structured(request, json, false);
}

static void tool_structured(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments;
  reply_structured(request, user, false);
}

static void tool_failed_structured(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments;
  reply_structured(request, user, true);
}

/* -------------------------------------------------------------------- asking */

static void tool_ask(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  size_t len = 0;
  const char *state = idem_state(request, &len);
  yyjson_val *answer = idem_answer_to(request, "who");
  if (!answer) {
    idem_ask ask = {.key = "who",
                    .kind = IDEM_ASK_FORM,
                    .message = "Who?",
                    .schema =
                        "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}}}"};
    idem_needs_input(request, &ask, 1, "kept", 4);
    return;
  }
  char text[256];
  snprintf(text, sizeof text, "%s %s %.*s", text_of(answer, "action"),
           text_of(yyjson_obj_get(answer, "content"), "name"), (int)len, state ? state : "");
  say(request, text);
}

/* Everything that can be asked, at once. */
static void tool_ask_all(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  static const idem_ask asks[] = {
      {.key = "u", .kind = IDEM_ASK_URL, .message = "Go", .url = "https://x.example/"},
      {.key = "s",
       .kind = IDEM_ASK_SAMPLING,
       .params =
           "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"Hi\"}}],"
           "\"maxTokens\":5}"},
      {.key = "r", .kind = IDEM_ASK_ROOTS},
  };
  if (!idem_answer_to(request, "r") && !idem_state(request, NULL)) {
    idem_needs_input(request, asks, 3, "", 0);
    return;
  }
  char text[256];
  snprintf(text, sizeof text, "%s|%s|%zu", text_of(idem_answer_to(request, "u"), "action"),
           text_of(idem_answer_to(request, "s"), "model"),
           yyjson_arr_size(yyjson_obj_get(idem_answer_to(request, "r"), "roots")));
  say(request, text);
}

/* Asks what its arguments say, once, and tells what came of it. */
static idem_ask ask_of(yyjson_val *arguments, char **json) {
  yyjson_val *form = yyjson_obj_get(arguments, "form");
  yyjson_val *sampling = yyjson_obj_get(arguments, "sampling");
  yyjson_val *url = yyjson_obj_get(arguments, "url");
  idem_ask ask = {.key = "q", .message = "Well?"};
  *json = form || sampling ? yyjson_val_write(form ? form : sampling, 0, NULL) : NULL;
  ask.kind = form ? IDEM_ASK_FORM : sampling ? IDEM_ASK_SAMPLING : IDEM_ASK_ROOTS;
  ask.schema = form ? *json : NULL;
  ask.params = sampling ? *json : NULL;
  if (url) ask.kind = IDEM_ASK_URL;
  ask.url = yyjson_get_str(url);
  ask.elicitation_id = yyjson_get_str(yyjson_obj_get(arguments, "id"));
  return ask;
}

static void tool_ask_any(idem_request *request, yyjson_val *arguments, void *user) {
  static const char *const words[] = {"none", "given", "refused", "failed"};
  (void)user;
  char *json;
  idem_answer_error error;
  idem_answer_kind kind = idem_answer_of(request, "q", &error);
  if (kind == IDEM_ANSWER_NONE) {
    idem_ask ask = ask_of(arguments, &json);
    idem_needs_input(request, &ask, 1, NULL, 0);
    free(json);
    return;
  }
  char text[1024];
  json = yyjson_val_write(idem_answer_to(request, "q"), 0, NULL);
  snprintf(text, sizeof text, "%s %d %s %s", words[kind], (int)error.code, error.message,
           json ? json : "");
  free(json);
  say(request, text);
}

/* Wants the user to have been somewhere, or everywhere its arguments say, first. */
static void tool_visit(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  bool wrong = yyjson_obj_get(arguments, "wrong") != NULL;
  const idem_ask asks[] = {{.key = "u",
                            .kind = wrong ? IDEM_ASK_ROOTS : IDEM_ASK_URL,
                            .message = "Sign in",
                            .url = "https://x.example/in",
                            .elicitation_id = "visit-1"}};
  if (idem_answer_to(request, "u"))
    say(request, "been there");
  else
    idem_requires_url(request, asks, 1);
}

/* Never content with an answer. */
static void tool_nag(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_needs_input(request, &(idem_ask){.key = "r", .kind = IDEM_ASK_ROOTS}, 1, NULL, 0);
}

/* Comes back for nothing but its state. */
static void tool_later(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  if (idem_state(request, NULL))
    say(request, "later");
  else
    idem_needs_input(request, NULL, 0, "s", 1);
}

static void tool_needs(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_requires(request, "{\"sampling\":{}}");
}

/* --------------------------------------------------------------------- tasks */

static void hand_over(mcp_fixture *fixture, idem_request *request) {
  if (fixture->keep)
    fixture->keep(request, fixture->user);
  else
    idem_request_drop(request);
}

static void tool_slow(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments;
  hand_over(user, request);
}

static void tool_by_hand(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments;
  if (idem_can_task(request) && idem_task_start(request) != IDEM_OK) {
    idem_request_drop(request);
    return;
  }
  idem_task_status(request, "begun");
  hand_over(user, request);
}

/* ----------------------------------------------------------------- resources */

static void read_text(idem_request *request, const char *uri, void *user) {
  (void)uri;
  idem_resource_text(request, NULL, user, strlen(user));
}

static void read_blob(idem_request *request, const char *uri, void *user) {
  (void)uri, (void)user;
  idem_resource_blob(request, "application/octet-stream", "\x00\xff", 2);
}

static void read_item(idem_request *request, const char *uri, void *user) {
  (void)uri, (void)user;
  const char *id = idem_uri_variable(request, "id");
  if (!id || strcmp(id, "none") == 0)
    idem_resource_missing(request);
  else
    idem_resource_text(request, "text/plain", id, strlen(id));
}

static void read_asking(idem_request *request, const char *uri, void *user) {
  (void)uri, (void)user;
  yyjson_val *answer = idem_answer_to(request, "r");
  if (answer)
    idem_resource_text(request, NULL, "answered", 8);
  else
    idem_needs_input(request, &(idem_ask){.key = "r", .kind = IDEM_ASK_ROOTS}, 1, NULL, 0);
}

/* ------------------------------------------------------------------- prompts */

static void prompt_greet(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  const char *name = text_of(arguments, "name");
  idem_prompt_text(request, name, strlen(name));
}

static void prompt_asking(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  yyjson_val *answer = idem_answer_to(request, "r");
  if (answer)
    idem_prompt_text(request, "answered", 8);
  else
    idem_needs_input(request, &(idem_ask){.key = "r", .kind = IDEM_ASK_ROOTS}, 1, NULL, 0);
}

static void complete(idem_request *request, const idem_completion_query *query, void *user) {
  (void)user;
  const char *values[] = {query->value, query->context ? "with context" : "alone"};
  idem_completion_reply(request, values, 2, false);
}

/* -------------------------------------------------------------------- server */

static void draw(void *ctx, void *bytes, size_t len) {
  mcp_fixture *fixture = ctx;
  memset(bytes, (int)(++fixture->drawn & 0xff), len);
}

static uint64_t wall(void *ctx) { return ((mcp_fixture *)ctx)->wall_ms; }

static idem_status add_tools(mcp_fixture *fixture) {
  static const char numbers[] = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},"
                                "\"b\":{\"type\":\"integer\"}},\"required\":[\"a\",\"b\"]}";
  static const char sum[] = "{\"type\":\"object\",\"properties\":{\"sum\":{\"type\":\"integer\"}},"
                            "\"required\":[\"sum\"]}";
  static const char texts[] =
      "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}},"
      "\"required\":[\"text\"]}";
  static char wrong[] = "{\"sum\":\"x\"}", list[] = "[1,2]", null[] = "null";
  const idem_tool tools[] = {
      {.name = "echo",
       .title = "Echo",
       .description = "says it",
       .input_schema = texts,
       .annotations = "{\"readOnlyHint\":true}",
       .icons = ICONS,
       .meta = "{\"m\":1}",
       .fn = tool_echo},
      {.name = "add", .input_schema = numbers, .output_schema = sum, .fn = tool_add},
      {.name = "list",
       .output_schema = "{\"type\":\"array\"}",
       .fn = tool_structured,
       .user = list},
      {.name = "null", .fn = tool_structured, .user = null},
      {.name = "wrong", .output_schema = sum, .fn = tool_structured, .user = wrong},
      {.name = "broken_word", .output_schema = sum, .fn = tool_name},
      {.name = "broken_reply", .output_schema = sum, .fn = tool_everything},
      {.name = "kept_word", .output_schema = sum, .fn = tool_fail},
      {.name = "fails", .output_schema = sum, .fn = tool_failed_structured, .user = wrong},
      {.name = "fail", .fn = tool_fail},
      {.name = "error", .fn = tool_error},
      {.name = "drop", .fn = tool_drop},
      {.name = "twice", .fn = tool_twice},
      {.name = "everything", .fn = tool_everything},
      {.name = "progress", .fn = tool_progress},
      {.name = "log", .fn = tool_log},
      {.name = "log_json", .input_schema = "{\"type\":\"object\"}", .fn = tool_log_json},
      {.name = "visit", .input_schema = "{\"type\":\"object\"}", .fn = tool_visit},
      {.name = "who", .fn = tool_who},
      {.name = "ask", .fn = tool_ask},
      {.name = "ask_all", .fn = tool_ask_all},
      {.name = "ask_any",
       .input_schema = "{\"type\":\"object\"}",
       .fn = tool_ask_any,
       .task = IDEM_TASK_BY_HAND},
      {.name = "nag", .fn = tool_nag},
      {.name = "later", .fn = tool_later},
      {.name = "needs", .fn = tool_needs},
      {.name = "slow", .fn = tool_slow, .user = fixture},
      {.name = "job", .fn = tool_slow, .user = fixture, .task = IDEM_TASK_OPTIONAL},
      {.name = "job_must", .fn = tool_slow, .user = fixture, .task = IDEM_TASK_REQUIRED},
      {.name = "job_by_hand", .fn = tool_by_hand, .user = fixture, .task = IDEM_TASK_BY_HAND},
      {.name = "job_ask", .fn = tool_ask, .task = IDEM_TASK_OPTIONAL},
      {.name = "job_ask_all", .fn = tool_ask_all, .task = IDEM_TASK_OPTIONAL},
      {.name = "job_fail", .fn = tool_fail, .task = IDEM_TASK_OPTIONAL},
      {.name = "job_error", .fn = tool_error, .task = IDEM_TASK_OPTIONAL},
      {.name = "job_drop", .fn = tool_drop, .task = IDEM_TASK_OPTIONAL},
      {.name = "job_add",
       .input_schema = numbers,
       .output_schema = sum,
       .fn = tool_add,
       .task = IDEM_TASK_OPTIONAL},
  };
  idem_status status = IDEM_OK;
  for (size_t i = 0; i < sizeof tools / sizeof tools[0] && status == IDEM_OK; i++) {
    status = idem_server_add_tool(fixture->server, &tools[i], NULL, 0);
  }
  return status;
}

static idem_status add_resources(mcp_fixture *fixture) {
  static char a[] = "A";
  const idem_resource resources[] = {
      {.uri = "file:///a",
       .name = "a",
       .title = "The A",
       .description = "one",
       .size = 1,
       .mime_type = "text/plain",
       .icons = ICONS,
       .meta = "{\"m\":1}",
       .fn = read_text,
       .user = a,
       .annotations = "{\"audience\":[\"user\"],\"lastModified\":\"2025-01-12T15:00:58Z\"}"},
      {.uri = "file:///b", .name = "b", .fn = read_blob, .ttl_ms = 5000, .cache_private = true},
      {.uri = "ask:", .name = "asking", .fn = read_asking},
      {.uri = "item:{id}", .name = "items", .title = "Items", .is_template = true, .fn = read_item},
  };
  idem_status status = IDEM_OK;
  for (size_t i = 0; i < sizeof resources / sizeof resources[0] && status == IDEM_OK; i++) {
    status = idem_server_add_resource(fixture->server, &resources[i], NULL, 0);
  }
  return status;
}

static idem_status add_prompts(mcp_fixture *fixture) {
  static const idem_prompt_argument arguments[] = {
      {.name = "name", .title = "Name", .description = "whom", .required = true}, {.name = NULL}};
  const idem_prompt prompts[] = {
      {.name = "greet",
       .title = "Greet",
       .description = "greets",
       .arguments = arguments,
       .icons = ICONS,
       .meta = "{\"m\":1}",
       .fn = prompt_greet},
      {.name = "asking", .fn = prompt_asking},
  };
  idem_status status = IDEM_OK;
  for (size_t i = 0; i < sizeof prompts / sizeof prompts[0] && status == IDEM_OK; i++) {
    status = idem_server_add_prompt(fixture->server, &prompts[i], NULL, 0);
  }
  return status;
}

idem_status mcp_fixture_open(mcp_fixture *fixture, const idem_server_opts *opts) {
  idem_server_opts all = opts ? *opts : (idem_server_opts){0};
  all.name = "fixture";
  all.version = "1";
  all.title = "Fixture";
  all.description = "a fixture";
  all.website_url = "https://x.example/";
  all.icons = ICONS;
  all.instructions = "Try it.";
  if (!all.random) {
    all.random = draw;
    all.wall_ms = wall;
    all.os_ctx = fixture;
  }
  fixture->wall_ms = UINT64_C(1700000000000);
  fixture->drawn = 0;
  idem_status status = idem_server_new(&all, &fixture->server);
  if (status != IDEM_OK) return status;
  status = add_tools(fixture);
  if (status == IDEM_OK) status = add_resources(fixture);
  if (status == IDEM_OK) status = add_prompts(fixture);
  idem_server_on_complete(fixture->server, complete, NULL);
  if (status != IDEM_OK) mcp_fixture_close(fixture);
  return status;
}

void mcp_fixture_close(mcp_fixture *fixture) {
  idem_server_free(fixture->server);
  fixture->server = NULL;
}

idem_status mcp_fixture_add_tool(mcp_fixture *fixture, const char *name) {
  return idem_server_add_tool(fixture->server, &(idem_tool){.name = name, .fn = tool_name}, NULL,
                              0);
}

idem_status mcp_fixture_add_resource(mcp_fixture *fixture, const char *uri, bool is_template) {
  static char text[] = "added";
  idem_resource resource = {
      .uri = uri, .name = "added", .is_template = is_template, .fn = read_text, .user = text};
  return idem_server_add_resource(fixture->server, &resource, NULL, 0);
}

idem_status mcp_fixture_add_prompt(mcp_fixture *fixture, const char *name) {
  return idem_server_add_prompt(fixture->server, &(idem_prompt){.name = name, .fn = prompt_greet},
                                NULL, 0);
}
