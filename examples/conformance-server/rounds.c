/* rounds.c - tools that need input in one or more rounds, written for the checks of 2026-07-28: which
 * answers complete them, what they keep between rounds, and what they may ask for. */
#include "fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char name_form[] =
    JSON({"type" : "object", "properties" : {"name" : {"type" : "string"}}, "required" : ["name"]});
static const char color_form[] = JSON(
    {"type" : "object", "properties" : {"color" : {"type" : "string"}}, "required" : ["color"]});
static const char ok_form[] =
    JSON({"type" : "object", "properties" : {"ok" : {"type" : "boolean"}}, "required" : ["ok"]});

static const idem_ask ask_name = {
    .key = "user_name", .message = "What is your name?", .schema = name_form};
static const idem_ask ask_roots = {.key = "client_roots", .kind = IDEM_ASK_ROOTS};

/* The user said no, which is an answer, too. */
static bool declined(idem_request *request, const char *key) {
  const char *action = yyjson_get_str(yyjson_obj_get(idem_answer_to(request, key), "action"));
  if (!action || strcmp(action, "accept") == 0) return false;
  say(request, "The user chose to %s.", action);
  return true;
}

static void ask_sampling(idem_request *request, const char *key, const char *question) {
  char *params = sampling_params(question);
  idem_needs_input(request, &(idem_ask){.key = key, .kind = IDEM_ASK_SAMPLING, .params = params}, 1,
                   NULL, 0);
  free(params);
}

static void greet_by_name(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  const char *name = accepted_string(request, "user_name", "name");
  if (name)
    say(request, "Hello, %s!", name);
  else if (!declined(request, "user_name"))
    idem_needs_input(request, &ask_name, 1, NULL, 0);
}

static void ask_capital(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  const char *text = sampled_text(request, "capital_question");
  if (text)
    say(request, "The model said: %s", text);
  else
    ask_sampling(request, "capital_question", "What is the capital of France?");
}

static void list_roots(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  yyjson_val *roots = yyjson_obj_get(idem_answer_to(request, "client_roots"), "roots");
  if (yyjson_is_arr(roots))
    say(request, "The client has %zu roots", yyjson_arr_size(roots));
  else
    idem_needs_input(request, &ask_roots, 1, NULL, 0);
}

/* --------------------------------------------------------------------------- state */

static bool state_is(const idem_request *request, const char *expected) {
  size_t len;
  const void *state = idem_state(request, &len);
  return state && len == strlen(expected) && memcmp(state, expected, len) == 0;
}

static void confirm_with_state(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  static const char state[] = "confirming";
  if (idem_answer_to(request, "confirm") && state_is(request, state))
    say(request, "state-ok");
  else
    idem_needs_input(request, &(idem_ask){.key = "confirm", .message = "Go on?", .schema = ok_form},
                     1, state, sizeof state - 1);
}

static void ask_everything(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  const char *name = accepted_string(request, "user_name", "name");
  const char *greeting = sampled_text(request, "greeting");
  yyjson_val *roots = yyjson_obj_get(idem_answer_to(request, "client_roots"), "roots");
  if (name && greeting && yyjson_is_arr(roots)) {
    say(request, "%s: %s (%zu roots)", name, greeting, yyjson_arr_size(roots));
    return;
  }
  char *params = sampling_params("Write a greeting.");
  idem_ask asks[] = {
      ask_name, {.key = "greeting", .kind = IDEM_ASK_SAMPLING, .params = params}, ask_roots};
  idem_needs_input(request, asks, COUNT(asks), "everything", 10);
  free(params);
}

static void ask_step(idem_request *request, const idem_ask *step, const char *state) {
  idem_needs_input(request, step, 1, state, strlen(state));
}

static void two_steps(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  static const idem_ask step1 = {
      .key = "step1", .message = "Step 1: your name?", .schema = name_form};
  static const idem_ask step2 = {
      .key = "step2", .message = "Step 2: your favourite colour?", .schema = color_form};
  if (state_is(request, "second") && idem_answer_to(request, "step2"))
    say(request, "Both steps are done");
  else if (state_is(request, "second") ||
           (state_is(request, "first") && idem_answer_to(request, "step1")))
    ask_step(request, &step2, "second");
  else
    ask_step(request, &step1, "first");
}

/* -------------------------------------------------------------------- capabilities */

static void ask_what_is_possible(idem_request *request, yyjson_val *arguments, void *user) {
  if (idem_can_ask(request, IDEM_ASK_SAMPLING))
    ask_capital(request, arguments, user);
  else if (idem_can_ask(request, IDEM_ASK_FORM))
    greet_by_name(request, arguments, user);
  else
    idem_requires(request, JSON({"sampling" : {}}));
}

/* Work that could ask, but says what it has instead. */
static void stream_without_asking(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_progress(request, 1, 1, "Nothing to ask");
  say(request, "Done without asking");
}

static const idem_tool tools[] = {
    {.name = "test_input_required_result_elicitation",
     .description = "Asks for a name and greets",
     .fn = greet_by_name},
    {.name = "test_input_required_result_sampling",
     .description = "Asks the model for a capital",
     .fn = ask_capital},
    {.name = "test_input_required_result_list_roots",
     .description = "Asks for the client's roots",
     .fn = list_roots},
    {.name = "test_input_required_result_request_state",
     .description = "Keeps state while it asks",
     .fn = confirm_with_state},
    {.name = "test_input_required_result_multiple_inputs",
     .description = "Asks three things at once",
     .fn = ask_everything},
    {.name = "test_input_required_result_multi_round",
     .description = "Asks one thing after the other",
     .fn = two_steps},
    {.name = "test_input_required_result_tampered_state",
     .description = "Keeps state that nobody may change",
     .fn = confirm_with_state},
    {.name = "test_input_required_result_capabilities",
     .description = "Asks only what the client can answer",
     .fn = ask_what_is_possible},
    {.name = "test_streaming_elicitation",
     .description = "Sends progress and a result, but no request",
     .fn = stream_without_asking},
};

bool rounds_register(idem_server *server) { return tools_add(server, tools, COUNT(tools)); }
