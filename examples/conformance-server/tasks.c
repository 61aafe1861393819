/* tasks.c - tools of the tasks extension, and of 2025-11-25's own tasks: slow ones, failing ones, and
 * ones that ask while they run. */
#include "fixtures.h"

#include <stdlib.h>
#include <string.h>

#define FAILING_MS 1000u
#define ASKING_MS 50u

static void greet(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  say(request, "Hello, %s!", yyjson_get_str(yyjson_obj_get(arguments, "name")));
}

/* ---------------------------------------------------------------------------- slow */

static bool computed(idem_request *request, unsigned number, void *user) {
  (void)number, (void)user;
  yyjson_val *arguments = yyjson_obj_get(idem_request_params(request), "arguments");
  const char *label = yyjson_get_str(yyjson_obj_get(arguments, "label"));
  say(request, "%s: computed", label ? label : "slow_compute");
  return true;
}

static void slow_compute(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  double seconds = yyjson_get_num(yyjson_obj_get(arguments, "seconds"));
  idem_task_status(request, "Computing");
  take_steps(request, (uint64_t)(seconds * 1000), computed, NULL);
}

static bool job_failed(idem_request *request, unsigned number, void *user) {
  (void)number, (void)user;
  idem_tool_failed(request, "The job failed, as it always does");
  return true;
}

static void failing_job(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  take_steps(request, FAILING_MS, job_failed, NULL);
}

static bool protocol_failed(idem_request *request, unsigned number, void *user) {
  (void)number, (void)user;
  idem_reply_error_text(request, IDEM_RPC_INTERNAL_ERROR, "Internal error", "the job broke");
  return true;
}

static void protocol_error_job(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  take_steps(request, ASKING_MS, protocol_failed, NULL);
}

/* -------------------------------------------------------------------------- asking */

static const char confirm_form[] = JSON({
  "type" : "object",
  "properties" : {"confirm" : {"type" : "boolean"}},
  "required" : ["confirm"]
});
static const char name_form[] =
    JSON({"type" : "object", "properties" : {"name" : {"type" : "string"}}, "required" : ["name"]});

static void confirm_delete(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  const char *filename = yyjson_get_str(yyjson_obj_get(arguments, "filename"));
  yyjson_val *answer = idem_answer_to(request, "confirm");
  if (!answer) {
    idem_needs_input(
        request,
        &(idem_ask){.key = "confirm", .message = "Delete the file?", .schema = confirm_form}, 1,
        NULL, 0);
    return;
  }
  bool yes = yyjson_get_bool(yyjson_obj_get(yyjson_obj_get(answer, "content"), "confirm"));
  say(request, "%s %s", yes ? "Deleted" : "Kept", filename);
}

static void multi_input(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  static const idem_ask asks[] = {
      {.key = "first", .message = "The first name?", .schema = name_form},
      {.key = "second", .message = "The second name?", .schema = name_form}};
  const char *first = accepted_string(request, "first", "name");
  const char *second = accepted_string(request, "second", "name");
  if (idem_answer_to(request, "first") && idem_answer_to(request, "second"))
    say(request, "%s and %s", first ? first : "nobody", second ? second : "nobody");
  else
    idem_needs_input(request, asks, COUNT(asks), NULL, 0);
}

static bool named(idem_request *request, unsigned number, void *user) {
  (void)number, (void)user;
  const char *name = accepted_string(request, "user_name", "name");
  say(request, "Hello, %s!", name ? name : "nobody");
  return true;
}

/* Asks before it becomes a task. */
static void ask_then_task(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  static const idem_ask ask = {
      .key = "user_name", .message = "What is your name?", .schema = name_form};
  if (!idem_answer_to(request, "user_name")) {
    idem_needs_input(request, &ask, 1, NULL, 0);
    return;
  }
  if (idem_can_task(request)) idem_task_start(request);
  take_steps(request, ASKING_MS, named, NULL);
}

/* Looks at who asked, and asks, long after the question came: its session may have ended by then. */
static bool late_question(idem_request *request, unsigned number, void *user) {
  (void)number, (void)user;
  static const idem_ask ask = {.key = "name", .message = "Who are you?", .schema = name_form};
  bool known = idem_peer_info(request) && idem_peer_capabilities(request);
  if (known && idem_can_ask(request, IDEM_ASK_FORM))
    idem_needs_input(request, &ask, 1, NULL, 0);
  else
    idem_tool_failed(request, "There is nobody to ask");
  return true;
}

static void ask_late(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  const char *name = accepted_string(request, "name", "name");
  if (idem_answer_to(request, "name"))
    say(request, "Hello, %s!", name ? name : "nobody");
  else
    take_steps(request, ASKING_MS, late_question, NULL);
}

static const idem_tool tools[] = {
    {.name = "greet",
     .description = "Greets at once",
     .input_schema = JSON(
         {"type" : "object", "properties" : {"name" : {"type" : "string"}}, "required" : ["name"]}),
     .fn = greet},
    {.name = "slow_compute",
     .description = "Takes some seconds",
     .input_schema = JSON({
       "type" : "object",
       "properties" : {
         "seconds" : {"type" : "number", "minimum" : 0, "maximum" : 3600},
         "label" : {"type" : "string"}
       },
       "required" : ["seconds"]
     }),
     .task = IDEM_TASK_OPTIONAL,
     .fn = slow_compute},
    {.name = "failing_job",
     .description = "Fails after a second, as a tool does",
     .task = IDEM_TASK_REQUIRED,
     .fn = failing_job},
    {.name = "protocol_error_job",
     .description = "Ends with a JSON-RPC error",
     .task = IDEM_TASK_OPTIONAL,
     .fn = protocol_error_job},
    {.name = "confirm_delete",
     .description = "Asks whether to delete a file (and deletes nothing)",
     .input_schema = JSON({
       "type" : "object",
       "properties" : {"filename" : {"type" : "string"}},
       "required" : ["filename"]
     }),
     .task = IDEM_TASK_OPTIONAL,
     .fn = confirm_delete},
    {.name = "multi_input",
     .description = "Asks two things at once",
     .task = IDEM_TASK_OPTIONAL,
     .fn = multi_input},
    {.name = "test_tool_with_task",
     .description = "Asks for a name, then greets in a task",
     .task = IDEM_TASK_BY_HAND,
     .fn = ask_then_task},
    {.name = "test_late_question",
     .description = "Asks for a name after a moment",
     .task = IDEM_TASK_OPTIONAL,
     .fn = ask_late},
};

bool tasks_register(idem_server *server) { return tools_add(server, tools, COUNT(tools)); }
