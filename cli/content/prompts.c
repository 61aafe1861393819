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

static void say_known(template_fault *fault, const char *name, const char *const *known) {
  size_t size = sizeof fault->sentence;
  size_t len = (size_t)snprintf(fault->sentence, size, "arguments.%s: expected one of", name);
  for (size_t i = 0; known[i] && len < size; i++)
    len += (size_t)snprintf(fault->sentence + len, size - len, "%s \"%s\"", i ? "," : "", known[i]);
}

/* Whether each argument that has an enum is one of it. */
static bool all_known(const prompt_config *prompt, yyjson_val *arguments, template_fault *fault) {
  for (size_t i = 0; i < prompt->argument_count; i++) {
    const char *value = yyjson_get_str(yyjson_obj_get(arguments, prompt->argument_names[i]));
    const char *const *known = prompt->completions[i].values;
    if (!value || !known || is_known(known, value)) continue;
    say_known(fault, prompt->argument_names[i], known);
    return false;
  }
  return true;
}

static void answer(idem_request *request, yyjson_val *arguments, void *user) {
  const prompt_config *prompt = user;
  values from = {.arguments = arguments};
  template_fault fault;
  idem_buf text;
  if (!all_known(prompt, arguments, &fault)) {
    idem_reply_error_text(request, IDEM_RPC_INVALID_PARAMS, "Invalid params", fault.sentence);
    return;
  }
  idem_buf_init(&text, NULL, PROMPT_MAX);
  if (word_render(&prompt->text, &from, &text, &fault))
    idem_prompt_text(request, text.len ? text.data : "", text.len);
  else
    idem_reply_error_text(request, IDEM_RPC_INVALID_PARAMS, "Invalid params", fault.sentence);
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
