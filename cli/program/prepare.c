/* prepare.c - from the arguments of a call to the words and the input of its program. */
#include "program.h"

#include <idem/mcp.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX ((size_t)10 << 20)

/* The real files that arguments with an `inside` rule name. */
typedef struct real_files {
  const tool_config *tool;
  char **paths; /* one a rule; NULL: the argument was not given */
} real_files;

static const char *replace(void *user, const char *name, size_t len) {
  const real_files *self = user;
  for (size_t i = 0; i < self->tool->inside_count; i++) {
    const char *argument = self->tool->inside[i].argument;
    if (strlen(argument) == len && memcmp(argument, name, len) == 0) return self->paths[i];
  }
  return NULL;
}

/* The folder itself is not in the folder: a program that was meant for a file would take all of it. */
static bool is_within(const char *path, const char *folder) {
  size_t len = folder[1] ? strlen(folder) : 0; /* the root has no name before its slash */
  return strncmp(path, folder, len) == 0 && path[len] == '/' && path[len + 1];
}

/* The real path, every link followed, if that is in the folder. */
static char *resolve(const inside_rule *rule, yyjson_val *value) {
  char joined[PATH_MAX];
  const char *text = yyjson_get_str(value);
  if (!text || strlen(text) != yyjson_get_len(value)) return NULL;
  int len = *text == '/' ? snprintf(joined, sizeof joined, "%s", text)
                         : snprintf(joined, sizeof joined, "%s/%s", rule->folder, text);
  char *real = len < (int)sizeof joined ? realpath(joined, NULL) : NULL;
  if (real && is_within(real, rule->folder)) return real;
  free(real);
  return NULL;
}

static bool resolve_all(real_files *self, yyjson_val *arguments, template_fault *fault) {
  for (size_t i = 0; i < self->tool->inside_count; i++) {
    const inside_rule *rule = &self->tool->inside[i];
    yyjson_val *value = yyjson_obj_get(arguments, rule->argument);
    if (!value || yyjson_is_null(value)) continue;
    self->paths[i] = resolve(rule, value);
    if (self->paths[i]) continue;
    snprintf(fault->sentence, sizeof fault->sentence,
             "arguments.%s: no such file in the folder it must be in", rule->argument);
    return false;
  }
  return true;
}

static bool is_given(void *user, const char *name, size_t len) {
  yyjson_val *value = yyjson_obj_getn(user, name, len);
  return value && !yyjson_is_null(value);
}

static bool set_variable(const word_template *value, const values *from, word_list *out,
                         template_fault *fault) {
  idem_buf text;
  idem_buf_init(&text, NULL, WORD_MAX);
  bool fine =
      word_render(value, from, &text, fault) && word_list_add(out, text.data, text.len, fault);
  idem_buf_deinit(&text);
  return fine;
}

/* Those that hold arguments; one whose argument is absent is not set. What a program can be given is
 * words and variables together. */
static bool set_variables(const tool_config *tool, const values *from, size_t bytes, word_list *out,
                          template_fault *fault) {
  *out = (word_list){.bytes = bytes};
  for (size_t i = 0; i < tool->env_count; i++) {
    const word_template *value = tool->env[i].value;
    if (!value || !word_names(value, is_given, from->arguments)) continue;
    if (!set_variable(value, from, out, fault)) return false;
  }
  return true;
}

/* "NAME=" and the text of a claim, or its JSON. What is no text for a variable is not set. */
static bool set_claim(const tool_env *one, yyjson_val *value, word_list *out,
                      template_fault *fault) {
  idem_buf text;
  size_t len = yyjson_get_len(value);
  idem_buf_init(&text, NULL, WORD_MAX);
  idem_status status = idem_buf_put(&text, one->assignment, strlen(one->assignment));
  if (status == IDEM_OK)
    status = yyjson_is_str(value) ? idem_buf_put(&text, yyjson_get_str(value), len)
                                  : idem_json_put(&text, value);
  bool fine = status != IDEM_OK || memchr(text.data, 0, text.len) ||
              word_list_add(out, text.data, text.len, fault);
  idem_buf_deinit(&text);
  return fine;
}

static bool set_principal(const tool_env *one, const char *who, word_list *out,
                          template_fault *fault) {
  char text[IDEM_PRINCIPAL_MAX + 256];
  int len = snprintf(text, sizeof text, "%s%s", one->assignment, who);
  if (!*who || len < 0 || (size_t)len >= sizeof text) return true;
  return word_list_add(out, text, (size_t)len, fault);
}

/* What the caller's token says, for a program that asks for it by name. */
static bool set_claims(const tool_config *tool, const idem_request *request, word_list *out,
                       template_fault *fault) {
  for (size_t i = 0; request && i < tool->env_count; i++) {
    const tool_env *one = &tool->env[i];
    yyjson_val *value = one->claim && *one->claim ? idem_claim(request, one->claim) : NULL;
    if (value && !yyjson_is_null(value) && !set_claim(one, value, out, fault)) return false;
    if (one->claim && !*one->claim && !set_principal(one, idem_principal(request), out, fault))
      return false;
  }
  return true;
}

/* The arguments as they are, but for those that name files. */
static bool put_arguments(const tool_config *tool, yyjson_val *arguments, const real_files *files,
                          idem_buf *out, template_fault *fault) {
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *copy =
      doc && arguments ? yyjson_val_mut_copy(doc, arguments) : yyjson_mut_obj(doc);
  size_t len = 0;
  bool fine = copy;
  for (size_t i = 0; fine && i < tool->inside_count; i++)
    if (files->paths[i])
      fine = yyjson_mut_obj_put(copy, yyjson_mut_str(doc, tool->inside[i].argument),
                                yyjson_mut_str(doc, files->paths[i]));
  char *text = fine ? yyjson_mut_val_write(copy, 0, &len) : NULL;
  fine = text && idem_buf_put(out, text, len) == IDEM_OK;
  if (!fine) snprintf(fault->sentence, sizeof fault->sentence, "the arguments are too large");
  free(text);
  yyjson_mut_doc_free(doc);
  return fine;
}

bool program_prepare(const tool_config *tool, const idem_request *request, yyjson_val *arguments,
                     word_list *words, word_list *variables, idem_buf *input,
                     template_fault *fault) {
  real_files files = {tool, calloc(tool->inside_count + 1, sizeof(char *))};
  values from = {.arguments = arguments, .replace = replace, .user = &files};
  *words = *variables = (word_list){.items = NULL};
  idem_buf_init(input, NULL, INPUT_MAX);
  bool fine = files.paths && resolve_all(&files, arguments, fault) &&
              template_expand(&tool->run, &from, words, fault) &&
              set_variables(tool, &from, words->bytes, variables, fault) &&
              set_claims(tool, request, variables, fault) &&
              (!tool->has_stdin || word_render(&tool->stdin_text, &from, input, fault)) &&
              (!tool->keep || put_arguments(tool, arguments, &files, input, fault));
  for (size_t i = 0; files.paths && i < tool->inside_count; i++) free(files.paths[i]);
  free(files.paths);
  return fine;
}
