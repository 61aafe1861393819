/* complete.c - completion/complete: what an argument of a prompt or the path of a directory could be.
 * From a list in the file, from the files there are, or from a program that prints values. */
#include "service/service.h"

#include <stdlib.h>
#include <string.h>

#define VALUES_MAX 100u /* the protocol's */

/* ------------------------------------------------------------------------- values */

typedef struct suggestions {
  const char *values[VALUES_MAX];
  size_t count;
  bool more;
} suggestions;

static void suggest(suggestions *self, const char *value) {
  if (self->count == VALUES_MAX)
    self->more = true;
  else
    self->values[self->count++] = value;
}

static bool begins_with(const char *value, const char *typed) {
  return strncasecmp(value, typed, strlen(typed)) == 0;
}

static void reply_with(idem_request *request, const suggestions *found) {
  idem_completion_reply(request, found->values, found->count, found->more);
}

static void complete_from_list(idem_request *request, const char *const *known, const char *typed) {
  suggestions found = {.count = 0};
  for (size_t i = 0; known && known[i]; i++)
    if (begins_with(known[i], typed)) suggest(&found, known[i]);
  reply_with(request, &found);
}

static void complete_from_files(idem_request *request, const open_resource *resource,
                                const char *typed) {
  suggestions found = {.count = 0};
  for (size_t i = 0; i < resource->files.count; i++)
    if (begins_with(resource->files.files[i].path, typed))
      suggest(&found, resource->files.files[i].path);
  reply_with(request, &found);
}

/* ----------------------------------------------------------------------- programs */

/* {value}, and the arguments that are known already. */
static yyjson_doc *arguments_of(const idem_completion_query *query) {
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *object =
      query->context && doc ? yyjson_val_mut_copy(doc, query->context) : yyjson_mut_obj(doc);
  yyjson_mut_val *key = yyjson_mut_str(doc, "value");
  yyjson_mut_val *value = yyjson_mut_strcpy(doc, query->value);
  if (object) yyjson_mut_doc_set_root(doc, object);
  bool built = object && yyjson_mut_obj_put(object, key, value);
  yyjson_doc *made = built ? yyjson_mut_doc_imut_copy(doc, NULL) : NULL;
  yyjson_mut_doc_free(doc);
  return made;
}

static void complete_by_program(idem_request *request, edition *current, size_t tool,
                                const idem_completion_query *query) {
  yyjson_doc *arguments = arguments_of(query);
  if (arguments)
    program_tool_call(request, yyjson_doc_get_root(arguments), &current->program_tools[tool]);
  yyjson_doc_free(arguments); /* without it the request is answered as an internal error */
}

static const completion_config *find_by_tool(const serve_config *config, const tool_config *tool) {
  size_t index = (size_t)(tool - config->tools);
  for (size_t i = 0; i < config->prompt_count; i++)
    for (size_t j = 0; j < config->prompts[i].argument_count; j++)
      if (config->prompts[i].completions[j].tool == index)
        return &config->prompts[i].completions[j];
  for (size_t i = 0; i < config->resource_count; i++)
    if (config->resources[i].completion.tool == index) return &config->resources[i].completion;
  return NULL;
}

static const char *typed_value(const idem_request *request) {
  yyjson_val *argument = yyjson_obj_get(idem_request_params(request), "argument");
  const char *typed = yyjson_get_str(yyjson_obj_get(argument, "value"));
  return typed ? typed : "";
}

/* A line is a value; a last one without its end was cut. */
static void take_lines(call *self, suggestions *found) {
  const completion_config *asked = find_by_tool(self->tool->file, self->tool->config);
  const char *typed = typed_value(self->request);
  char *at = self->output.data, *end = at + self->output.len;
  for (char *newline; at < end && (newline = memchr(at, '\n', (size_t)(end - at)));
       at = newline + 1) {
    size_t len = (size_t)(newline - at);
    *newline = 0;
    if (len && idem_utf8_valid(at, len) && !memchr(at, 0, len) &&
        (!asked || asked->uses_value || begins_with(at, typed)))
      suggest(found, at);
  }
  if (self->stopped == STOP_FLOOD) found->more = true;
}

void completion_answer(call *self) {
  suggestions found = {.count = 0};
  char how[160];
  if (!call_failed(self, how, sizeof how) && self->output.len) take_lines(self, &found);
  reply_with(self->request, &found);
  self->request = NULL;
}

/* ------------------------------------------------------------------------- asking */

static void complete_one(idem_request *request, edition *current, const completion_config *how,
                         const idem_completion_query *query) {
  if (how->tool != NO_TOOL)
    complete_by_program(request, current, how->tool, query);
  else
    complete_from_list(request, how->values, query->value);
}

static void complete_prompt(idem_request *request, edition *current,
                            const idem_completion_query *query) {
  const serve_config *config = &current->config;
  for (size_t i = 0; i < config->prompt_count; i++) {
    const prompt_config *prompt = &config->prompts[i];
    if (strcmp(prompt->name, query->prompt) != 0) continue;
    for (size_t j = 0; j < prompt->argument_count; j++) {
      if (strcmp(prompt->argument_names[j], query->argument) != 0) continue;
      complete_one(request, current, &prompt->completions[j], query);
      return;
    }
  }
  idem_completion_reply(request, NULL, 0, false);
}

static void complete_template(idem_request *request, edition *current,
                              const idem_completion_query *query) {
  for (size_t i = 0; i < current->config.resource_count; i++) {
    const open_resource *resource = &current->content.resources[i];
    size_t len = strlen(resource->uri);
    if (!resource->config->is_directory || strncmp(resource->uri, query->uri_template, len) != 0 ||
        strcmp(query->uri_template + len, "{+path}") != 0 || strcmp(query->argument, "path") != 0)
      continue;
    if (resource->config->completion.tool != NO_TOOL)
      complete_one(request, current, &resource->config->completion, query);
    else
      complete_from_files(request, resource, query->value);
    return;
  }
  idem_completion_reply(request, NULL, 0, false);
}

static void on_complete(idem_request *request, const idem_completion_query *query, void *user) {
  const service *self = user;
  if (query->prompt)
    complete_prompt(request, self->current, query);
  else
    complete_template(request, self->current, query);
}

static bool can_complete(const serve_config *config) {
  for (size_t i = 0; i < config->resource_count; i++)
    if (config->resources[i].is_directory) return true;
  for (size_t i = 0; i < config->prompt_count; i++)
    for (size_t j = 0; j < config->prompts[i].argument_count; j++)
      if (config->prompts[i].completions[j].values ||
          config->prompts[i].completions[j].tool != NO_TOOL)
        return true;
  return false;
}

void service_complete(service *self) {
  if (can_complete(&self->current->config))
    idem_server_on_complete(self->server, on_complete, self);
}
