/* changes.c - tools that change what the server offers, so that those who listen are told. */
#include "fixtures.h"

static void changed(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  say(request, "I come and go");
}

static void changed_prompt(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_prompt_text(request, "I come and go", 13);
}

static const idem_tool passing_tool = {
    .name = "test_passing_tool", .description = "Comes and goes", .fn = changed};
static const idem_prompt passing_prompt = {
    .name = "test_passing_prompt", .description = "Comes and goes", .fn = changed_prompt};

static void change_tools(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments;
  bool gone = idem_server_remove_tool(user, passing_tool.name) == IDEM_OK;
  if (!gone) idem_server_add_tool(user, &passing_tool, NULL, 0);
  say(request, "%s was %s", passing_tool.name, gone ? "removed" : "added");
}

static void change_prompts(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments;
  bool gone = idem_server_remove_prompt(user, passing_prompt.name) == IDEM_OK;
  if (!gone) idem_server_add_prompt(user, &passing_prompt, NULL, 0);
  say(request, "%s was %s", passing_prompt.name, gone ? "removed" : "added");
}

static void update_resource(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments;
  idem_server_resource_updated(user, "test://watched-resource");
  say(request, "test://watched-resource was updated");
}

bool changes_register(idem_server *server) {
  const idem_tool tools[] = {
      {.name = "test_trigger_tool_change",
       .description = "Adds or removes a tool",
       .fn = change_tools,
       .user = server},
      {.name = "test_trigger_prompt_change",
       .description = "Adds or removes a prompt",
       .fn = change_prompts,
       .user = server},
      {.name = "test_trigger_resource_update",
       .description = "Says that test://watched-resource changed",
       .fn = update_resource,
       .user = server},
  };
  return tools_add(server, tools, COUNT(tools));
}
