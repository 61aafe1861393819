/* prompts.c - prompts: a text with its arguments filled in. */
#include "content.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROMPT_MAX ((size_t)8 << 20)

static bool is_known(const char *const *known, const char *value) {
  for (size_t i = 0; known[i]; i++)
    if (strcmp(known[i], value) == 0) return true;
  return false;
}

static void refuse_value(idem_request *request, const char *name, yyjson_val *received,
                         const char *expected, const char *const *known) {
  char path[160];
  snprintf(path, sizeof path, "arguments.%.140s", name);
  idem_reply_invalid_params(
      request, &(idem_param_fault){
                   .param = path, .expected = expected, .received = received, .accepted = known});
}

/* Whether each argument is a text that can be filled in, and where it has an enum, one of it. */
static bool check(const prompt_config *prompt, yyjson_val *arguments, idem_request *request) {
  for (size_t i = 0; i < prompt->argument_count; i++) {
    const char *name = prompt->argument_names[i];
    yyjson_val *given = yyjson_obj_get(arguments, name);
    const char *value = yyjson_get_str(given);
    const char *const *known = prompt->completions[i].values;
    bool whole = !value || strlen(value) == yyjson_get_len(given);
    if (!value || (whole && (!known || is_known(known, value)))) continue;
    if (known)
      refuse_value(request, name, given, "one of the accepted values", known);
    else
      refuse_value(request, name, given, "string without NUL", NULL);
    return false;
  }
  return true;
}

static void answer(idem_request *request, yyjson_val *arguments, void *user) {
  const prompt_config *prompt = user;
  values from = {.arguments = arguments};
  template_fault fault;
  idem_buf text;
  if (!check(prompt, arguments, request)) return;
  idem_buf_init(&text, NULL, PROMPT_MAX);
  if (word_render(&prompt->text, &from, &text, &fault))
    idem_prompt_text(request, text.len ? text.data : "", text.len);
  else
    idem_reply_fault(request, IDEM_FAULT_VALIDATION, fault.sentence);
  idem_buf_deinit(&text);
}

static bool add(serve_config *file, const prompt_config *config, idem_server *server) {
  char why[256] = "no memory";
  idem_prompt_argument *arguments = calloc(config->argument_count + 1, sizeof *arguments);
  for (size_t i = 0; arguments && i < config->argument_count; i++)
    arguments[i] = (idem_prompt_argument){.name = config->argument_names[i],
                                          .description = config->argument_descriptions[i],
                                          .required = config->argument_required[i]};
  idem_prompt prompt = {.name = config->name,
                        .title = config->title,
                        .description = config->description,
                        .arguments = arguments,
                        .scopes = config->scopes,
                        .fn = answer,
                        .user = (void *)(uintptr_t)config};
  bool added = arguments && idem_server_add_prompt(server, &prompt, why, sizeof why) == IDEM_OK;
  if (!added) source_fault(&file->source, config->key, "prompt %s: %s", config->name, why);
  free(arguments);
  return added;
}

bool prompts_fill(serve_config *config, idem_server *server) {
  bool fine = true;
  for (size_t i = 0; i < config->prompt_count; i++)
    fine = add(config, &config->prompts[i], server) && fine;
  return fine;
}
