/* asking.c - tools that ask the user or the model once and report what came back, written for the
 * checks of 2025-11-25; the same handlers serve 2026-07-28. */
#include "fixtures.h"

#include <stdlib.h>

static void report(idem_request *request, yyjson_val *answer) {
  char *content = yyjson_val_write(yyjson_obj_get(answer, "content"), 0, NULL);
  const char *action = yyjson_get_str(yyjson_obj_get(answer, "action"));
  say(request, "User response: action=%s, content=%s", action ? action : "none",
      content ? content : "{}");
  free(content);
}

static void sampling(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  if (idem_answer_to(request, "question")) {
    const char *text = sampled_text(request, "question");
    say(request, "LLM response: %s", text ? text : "(no text)");
    return;
  }
  char *params = sampling_params(yyjson_get_str(yyjson_obj_get(arguments, "prompt")));
  idem_needs_input(
      request,
      &(idem_ask){.key = "question", .kind = IDEM_ASK_SAMPLING, .params = params ? params : "{}"},
      1, NULL, 0);
  free(params);
}

/* `user` is the schema of the form. */
static void elicit(idem_request *request, const char *message, void *user) {
  yyjson_val *answer = idem_answer_to(request, "form");
  if (answer) {
    report(request, answer);
    return;
  }
  idem_needs_input(request,
                   &(idem_ask){.key = "form", .message = message, .schema = (const char *)user}, 1,
                   NULL, 0);
}

static void elicitation(idem_request *request, yyjson_val *arguments, void *user) {
  elicit(request, yyjson_get_str(yyjson_obj_get(arguments, "message")), user);
}

static void elicitation_fixed(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments;
  elicit(request, "Please review and update the form fields", user);
}

static char contact_form[] = JSON({
  "type" : "object",
  "properties" : {
    "username" : {"type" : "string", "description" : "User's response"},
    "email" : {"type" : "string", "description" : "User's email address"}
  },
  "required" : [ "username", "email" ]
});

static char defaults_form[] = JSON({
  "type" : "object",
  "properties" : {
    "name" : {"type" : "string", "default" : "John Doe"},
    "age" : {"type" : "integer", "default" : 30},
    "score" : {"type" : "number", "default" : 95.5},
    "status" :
        {"type" : "string", "enum" : [ "active", "inactive", "pending" ], "default" : "active"},
    "verified" : {"type" : "boolean", "default" : true}
  },
  "required" : []
});

static char enums_form[] = JSON({
  "type" : "object",
  "properties" : {
    "untitledSingle" : {"type" : "string", "enum" : [ "option1", "option2", "option3" ]},
    "titledSingle" : {
      "type" : "string",
      "oneOf" : [
        {"const" : "value1", "title" : "First Option"},
        {"const" : "value2", "title" : "Second Option"},
        {"const" : "value3", "title" : "Third Option"}
      ]
    },
    "legacyEnum" : {
      "type" : "string",
      "enum" : [ "opt1", "opt2", "opt3" ],
      "enumNames" : [ "Option One", "Option Two", "Option Three" ]
    },
    "untitledMulti" : {
      "type" : "array",
      "items" : {"type" : "string", "enum" : [ "option1", "option2", "option3" ]}
    },
    "titledMulti" : {
      "type" : "array",
      "items" : {
        "anyOf" : [
          {"const" : "value1", "title" : "First Choice"},
          {"const" : "value2", "title" : "Second Choice"},
          {"const" : "value3", "title" : "Third Choice"}
        ]
      }
    }
  },
  "required" : []
});

static void missing_capability(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  if (idem_can_ask(request, IDEM_ASK_SAMPLING))
    say(request, "The client can sample");
  else
    idem_requires(request, JSON({"sampling" : {}}));
}

static const idem_tool tools[] = {
    {.name = "test_sampling",
     .description = "Asks the client's model",
     .input_schema = JSON({
       "type" : "object",
       "properties" : {"prompt" : {"type" : "string", "description" : "What to ask"}},
       "required" : ["prompt"]
     }),
     .fn = sampling},
    {.name = "test_elicitation",
     .description = "Asks the user to fill in a form",
     .input_schema = JSON({
       "type" : "object",
       "properties" : {"message" : {"type" : "string", "description" : "What the user is told"}},
       "required" : ["message"]
     }),
     .fn = elicitation,
     .user = contact_form},
    {.name = "test_elicitation_sep1034_defaults",
     .description = "Asks for values that have defaults",
     .fn = elicitation_fixed,
     .user = defaults_form},
    {.name = "test_elicitation_sep1330_enums",
     .description = "Asks for choices of every kind",
     .fn = elicitation_fixed,
     .user = enums_form},
    {.name = "test_missing_capability",
     .description = "Refuses clients that cannot sample",
     .fn = missing_capability},
};

bool asking_register(idem_server *server) { return tools_add(server, tools, COUNT(tools)); }
