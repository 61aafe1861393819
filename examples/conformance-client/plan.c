/* plan.c - the steps: list, call, read, one after the other, and what is kept of their results. */
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(plan *self, const char *what, const idem_mcp_result *result) {
  fprintf(stderr, "%s: %s: %s %.*s\n", self->scenario, what, idem_status_text(result->status),
          (int)result->message_len, result->message ? result->message : "");
  self->failures++;
}

void plan_go_on(plan *self) {
  while (*self->steps) {
    if ((*self->steps)(self)) return;
    self->steps++;
    self->at = 0;
  }
  idem_mcp_client_close(self->client);
}

void plan_took(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  plan *self = user;
  (void)client;
  if (result->status == IDEM_E_CANCELLED) return; /* the client was closed */
  if (result->status != IDEM_OK) fail(self, "a call failed", result);
  plan_go_on(self);
}

static bool started(plan *self, idem_status status) {
  if (status == IDEM_OK) return true;
  fprintf(stderr, "%s: cannot ask: %s\n", self->scenario, idem_status_text(status));
  self->failures++;
  return false;
}

/* A step runs until it has nothing more to do: once, unless it counts otherwise. */
static bool first_time(plan *self) { return self->at++ == 0; }

/* ----------------------------------------------------------------------- lists */

static void keep_list(plan *self, const idem_mcp_result *result, yyjson_doc **kept) {
  if (result->status != IDEM_OK) {
    fail(self, "a list", result);
  } else {
    yyjson_mut_doc *copy = yyjson_mut_doc_new(NULL);
    yyjson_mut_doc_set_root(copy, yyjson_val_mut_copy(copy, result->items));
    *kept = yyjson_mut_doc_imut_copy(copy, NULL);
    yyjson_mut_doc_free(copy);
  }
  plan_go_on(self);
}

static void took_tools(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  const char *why, *name;
  for (size_t i = 0; (name = idem_mcp_tool_refused(client, i, &why)); i++)
    fprintf(stderr, "tool %s is refused: %s\n", name, why);
  keep_list(user, result, &((plan *)user)->tools);
}
static void took_resources(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  (void)client;
  keep_list(user, result, &((plan *)user)->resources);
}
static void took_prompts(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  (void)client;
  keep_list(user, result, &((plan *)user)->prompts);
}

static bool list_tools(plan *self) {
  return first_time(self) &&
         started(self, idem_mcp_list(self->client, IDEM_MCP_TOOLS, NULL, took_tools, self, NULL));
}
static bool list_resources(plan *self) {
  return first_time(self) && started(self, idem_mcp_list(self->client, IDEM_MCP_RESOURCES, NULL,
                                                         took_resources, self, NULL));
}
static bool list_prompts(plan *self) {
  return first_time(self) && started(self, idem_mcp_list(self->client, IDEM_MCP_PROMPTS, NULL,
                                                         took_prompts, self, NULL));
}

/* ----------------------------------------------------------------------- calls */

static bool call(plan *self, const char *name, const char *arguments) {
  return started(self, idem_mcp_call_tool_json(self->client, name, arguments,
                                               arguments ? strlen(arguments) : 0, NULL, plan_took,
                                               self, NULL));
}

static bool call_add(plan *self) {
  return first_time(self) && call(self, "add_numbers", "{\"a\":5,\"b\":3}");
}
static bool call_defaults(plan *self) {
  return first_time(self) && call(self, "test_client_elicitation_defaults", "{}");
}
static bool call_reconnection(plan *self) {
  return first_time(self) && call(self, "test_reconnection", "{}");
}
static bool call_test_tool(plan *self) { return first_time(self) && call(self, "test-tool", "{}"); }
static bool call_valid(plan *self) { return first_time(self) && call(self, "valid_tool", "{}"); }

static bool call_rounds(plan *self) {
  static const char *const names[] = {"test_mrtr_echo_state", "test_mrtr_no_state",
                                      "test_mrtr_unrelated", "test_mrtr_no_result_type"};
  if (self->at == sizeof names / sizeof *names) return false;
  return call(self, names[self->at++], "{}");
}

/* Every tool that may be called, with nothing. */
static bool call_first(plan *self) {
  yyjson_val *tool = yyjson_arr_get(yyjson_doc_get_root(self->tools), 0);
  const char *name = yyjson_get_str(yyjson_obj_get(tool, "name"));
  return first_time(self) && name && call(self, name, "{}");
}

static bool read_first(plan *self) {
  yyjson_val *resource = yyjson_arr_get(yyjson_doc_get_root(self->resources), 0);
  const char *uri = yyjson_get_str(yyjson_obj_get(resource, "uri"));
  return first_time(self) && uri &&
         started(self, idem_mcp_read(self->client, uri, NULL, plan_took, self, NULL));
}

static bool get_first(plan *self) {
  yyjson_val *prompt = yyjson_arr_get(yyjson_doc_get_root(self->prompts), 0);
  const char *name = yyjson_get_str(yyjson_obj_get(prompt, "name"));
  return first_time(self) && name &&
         started(self, idem_mcp_get_prompt(self->client, name, NULL, NULL, plan_took, self, NULL));
}

/* What the context says, call by call. */
static bool call_context(plan *self) {
  yyjson_val *calls = yyjson_obj_get(yyjson_doc_get_root(self->context), "toolCalls");
  yyjson_val *one = yyjson_arr_get(calls, self->at++);
  const char *name = yyjson_get_str(yyjson_obj_get(one, "name"));
  char *arguments = name ? yyjson_val_write(yyjson_obj_get(one, "arguments"), 0, NULL) : NULL;
  bool running = name && call(self, name, arguments);
  free(arguments);
  return running;
}

static yyjson_val *tool_named(const plan *self, const char *name) {
  yyjson_val *list = yyjson_doc_get_root(self->tools), *tool;
  size_t index, max;
  yyjson_arr_foreach(list, index, max, tool) {
    if (yyjson_equals_str(yyjson_obj_get(tool, "name"), name)) return tool;
  }
  return NULL;
}

/* The schema goes back as it came. */
static bool call_echo(plan *self) {
  yyjson_val *schema = yyjson_obj_get(tool_named(self, "json_schema_2020_12_tool"), "inputSchema");
  if (!first_time(self) || !schema) return false;
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *arguments = yyjson_mut_obj(doc);
  yyjson_mut_obj_add_val(doc, arguments, "schema", yyjson_val_mut_copy(doc, schema));
  bool running = started(self, idem_mcp_call_tool(self->client, "json_schema_echo", arguments, NULL,
                                                  plan_took, self, NULL));
  yyjson_mut_doc_free(doc);
  return running;
}

/* ---------------------------------------------------------------------- skills */

static void took_skills(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  (void)client;
  keep_list(user, result, &((plan *)user)->skills);
}

static bool list_skills(plan *self) {
  return first_time(self) &&
         started(self, idem_mcp_list_skills(self->client, NULL, took_skills, self, NULL));
}

/* A skill that is not what it was said to be is left alone from then on. */
static void took_skill(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  plan *self = user;
  (void)client;
  if (result->status == IDEM_E_PROTO) {
    fprintf(stderr, "the skill is refused: %.*s\n", (int)result->message_len, result->message);
    self->at = SIZE_MAX;
  } else if (result->status != IDEM_OK) {
    fail(self, "a skill", result);
  }
  plan_go_on(self);
}

static bool load_skill(plan *self) {
  if (self->at == SIZE_MAX) return false;
  yyjson_val *entry = yyjson_arr_get(yyjson_doc_get_root(self->skills), 0);
  yyjson_val *file = yyjson_arr_get(yyjson_obj_get(entry, "resources"), self->at++);
  const char *uri = yyjson_get_str(yyjson_obj_get(file, "uri"));
  return uri &&
         started(self, idem_mcp_load_skill(self->client, entry, uri, NULL, took_skill, self, NULL));
}

/* ----------------------------------------------------------------------- answers */

/* Whatever is asked of a model is answered alike. */
void plan_on_sampling(idem_mcp_client *client, idem_mcp_question *question, void *user) {
  (void)client, (void)user;
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *said = yyjson_mut_obj(doc);
  yyjson_mut_obj_add_str(doc, said, "role", "assistant");
  yyjson_mut_obj_add_str(doc, said, "model", "none");
  yyjson_mut_val *content = yyjson_mut_obj_add_obj(doc, said, "content");
  yyjson_mut_obj_add_str(doc, content, "type", "text");
  yyjson_mut_obj_add_str(doc, content, "text", "yes");
  idem_mcp_sampled(question, said);
  yyjson_mut_doc_free(doc);
}

/* The defaults where there are some; else yes to everything that can be said yes to. */
void plan_on_form(idem_mcp_client *client, idem_mcp_question *question, void *user) {
  (void)client, (void)user;
  yyjson_val *schema = yyjson_obj_get(idem_mcp_question_params(question), "requestedSchema");
  yyjson_val *properties = yyjson_obj_get(schema, "properties"), *key;
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *content = yyjson_mut_obj(doc);
  yyjson_obj_iter each = yyjson_obj_iter_with(properties);
  while ((key = yyjson_obj_iter_next(&each))) {
    yyjson_val *property = yyjson_obj_iter_get_val(key);
    bool yes = yyjson_equals_str(yyjson_obj_get(property, "type"), "boolean");
    if (yes && !yyjson_obj_get(property, "default"))
      yyjson_mut_obj_add_bool(doc, content, yyjson_get_str(key), true);
  }
  char why[256];
  if (idem_mcp_accept(question, content, why, sizeof why) == IDEM_E_INVAL) {
    fprintf(stderr, "a form cannot be filled in: %s\n", why);
    idem_mcp_decline(question);
  }
  yyjson_mut_doc_free(doc);
}

/* ---------------------------------------------------------------------- the table */

#define STEPS(...)                                                                                 \
  (const step_fn[]) { __VA_ARGS__, NULL }

static const struct {
  const char *name;
  const step_fn *steps;
} scenarios[] = {
    {"initialize", STEPS(list_tools)},
    {"tools_call", STEPS(list_tools, call_add)},
    {"elicitation-sep1034-client-defaults", STEPS(list_tools, call_defaults)},
    {"sse-retry", STEPS(list_tools, call_reconnection)},
    {"request-metadata", STEPS(list_tools)},
    {"sep-2322-client-request-state", STEPS(list_tools, call_rounds)},
    {"http-standard-headers",
     STEPS(list_tools, call_first, list_resources, read_first, list_prompts, get_first)},
    {"http-custom-headers", STEPS(list_tools, call_context)},
    {"http-invalid-tool-headers", STEPS(list_tools, call_valid)},
    {"json-schema-ref-no-deref", STEPS(list_tools)},
    {"json-schema-2020-12-preservation", STEPS(list_tools, call_echo)},
    {"auth/", STEPS(list_tools, call_test_tool)},
    {"sep-2640-client-no-prefetch", STEPS(list_skills)},
    {"sep-2640-client-verify-digest", STEPS(list_skills, load_skill)},
    {"sep-2640-client-verify-size", STEPS(list_skills, load_skill)},
    {"sep-2640-client-verify-frontmatter", STEPS(list_skills, load_skill)},
};

const step_fn *plan_steps(const char *scenario) {
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
    size_t len = strlen(scenarios[i].name); /* with "/" at its end it is a family */
    bool family = scenarios[i].name[len - 1] == '/';
    if (strncmp(scenarios[i].name, scenario, len) == 0 && (family || !scenario[len]))
      return scenarios[i].steps;
  }
  return NULL;
}

void plan_free(plan *self) {
  yyjson_doc_free(self->context);
  yyjson_doc_free(self->tools);
  yyjson_doc_free(self->resources);
  yyjson_doc_free(self->prompts);
  yyjson_doc_free(self->skills);
}
