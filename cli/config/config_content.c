/* config_content.c - resources and prompts of the configuration. */
#include "config.h"

#include <string.h>
#include <sys/stat.h>

static const char *const *take_include(serve_config *self, yyjson_val *list) {
  yyjson_val *item;
  size_t i, max;
  if (!yyjson_arr_size(list)) return NULL;
  const char **names = memory_zeroed(&self->memory, yyjson_arr_size(list) + 1, sizeof *names);
  yyjson_arr_foreach(list, i, max, item) names[i] = yyjson_get_str(item);
  return names;
}

static void check_kind(serve_config *self, const resource_config *resource, yyjson_val *at) {
  struct stat about;
  if (!resource->path || stat(resource->path, &about) != 0) return;
  if (resource->is_directory ? !S_ISDIR(about.st_mode) : !S_ISREG(about.st_mode))
    source_fault(&self->source, at, "resource %s: %s is no %s: give \"%s\"", resource->name,
                 yyjson_get_str(at), resource->is_directory ? "directory" : "file",
                 resource->is_directory ? "file" : "directory");
}

bool config_resource(serve_config *self, yyjson_val *key, resource_config *resource) {
  yyjson_val *value = yyjson_obj_iter_get_val(key);
  yyjson_val *file = yyjson_obj_get(value, "file"), *folder = yyjson_obj_get(value, "directory");
  *resource = (resource_config){.key = key,
                                .scopes = config_scopes(self, value),
                                .name = yyjson_get_str(key),
                                .title = config_text(value, "title"),
                                .description = config_text(value, "description"),
                                .mime_type = config_text(value, "mime_type"),
                                .is_directory = folder,
                                .include = take_include(self, yyjson_obj_get(value, "include")),
                                .max_bytes = config_number(value, "max_bytes", CONFIG_MAX_BYTES)};
  if (!file == !folder) {
    source_fault(&self->source, key, "resource %s: needs either \"file\" or \"directory\"",
                 resource->name);
    return false;
  }
  yyjson_val *at = file ? file : folder;
  resource->path = config_path(self, (config_owner){"resource", resource->name}, at,
                               file ? "file" : "directory");
  check_kind(self, resource, at);
  config_completion(self, yyjson_obj_get(value, "complete"), resource->name, NULL, 0,
                    &resource->completion);
  if (file && yyjson_obj_get(value, "complete"))
    source_fault(&self->source, key, "resource %s: \"complete\" is for a directory",
                 resource->name);
  return resource->path;
}

/* ------------------------------------------------------------------------ prompts */

typedef struct prompt_check {
  serve_config *config;
  const prompt_config *prompt;
  yyjson_val *at;
} prompt_check;

static bool check_name(void *user, const char *name, size_t len) {
  prompt_check *self = user;
  const prompt_config *prompt = self->prompt;
  for (size_t i = 0; i < prompt->argument_count; i++)
    if (strlen(prompt->argument_names[i]) == len &&
        memcmp(prompt->argument_names[i], name, len) == 0)
      return true;
  const char *near = idem_schema_suggest(name, len, prompt->argument_names, prompt->argument_count);
  source_fault(&self->config->source, self->at, "prompt %s: there is no argument {%.*s}%s%s%s",
               prompt->name, (int)len, name, near ? "; did you mean {" : ": add it to arguments",
               near ? near : "", near ? "}?" : "");
  return true;
}

static const char *const *take_values(serve_config *self, yyjson_val *list) {
  yyjson_val *item;
  size_t i, max;
  if (!list) return NULL;
  const char **texts = memory_zeroed(&self->memory, yyjson_arr_size(list) + 1, sizeof *texts);
  yyjson_arr_foreach(list, i, max, item) texts[i] = yyjson_get_str(item);
  return texts;
}

/* When all names are known: a completion may use the other arguments. */
static void take_completions(serve_config *self, yyjson_val *given, prompt_config *prompt) {
  yyjson_val *key, *about;
  size_t i, max;
  prompt->completions =
      memory_zeroed(&self->memory, prompt->argument_count + 1, sizeof *prompt->completions);
  idem_each_member(given, i, max, key, about) {
    yyjson_val *command = yyjson_obj_get(about, "complete"), *list = yyjson_obj_get(about, "enum");
    if (command && list)
      source_fault(&self->source, key, "prompt %s: give enum or complete, not both", prompt->name);
    config_completion(self, command, prompt->argument_names[i], prompt->argument_names,
                      prompt->argument_count, &prompt->completions[i]);
    prompt->completions[i].values = take_values(self, list);
  }
}

static void take_arguments(serve_config *self, yyjson_val *given, prompt_config *prompt) {
  yyjson_val *key, *about;
  size_t i, max, count = yyjson_obj_size(given);
  const char **names = memory_zeroed(&self->memory, count + 1, sizeof *names);
  const char **abouts = memory_zeroed(&self->memory, count + 1, sizeof *abouts);
  bool *required = memory_zeroed(&self->memory, count + 1, sizeof *required);
  idem_each_member(given, i, max, key, about) {
    size_t len = yyjson_get_len(key);
    required[i] = yyjson_get_str(key)[len - 1] != '?';
    names[i] = memory_text(&self->memory, yyjson_get_str(key), required[i] ? len : len - 1);
    abouts[i] = yyjson_is_obj(about) ? config_text(about, "description") : yyjson_get_str(about);
  }
  prompt->argument_names = names;
  prompt->argument_descriptions = abouts;
  prompt->argument_required = required;
  prompt->argument_count = count;
  take_completions(self, given, prompt);
}

static bool is_other(void *user, const char *name, size_t len) {
  const char *wanted = user;
  return strlen(wanted) != len || memcmp(wanted, name, len) != 0;
}

static void note_unused(serve_config *self, yyjson_val *given, const prompt_config *prompt) {
  yyjson_val *key, *about;
  size_t i, max;
  idem_each_member(given, i, max, key, about) {
    (void)about;
    if (word_names(&prompt->text, is_other, (void *)(uintptr_t)prompt->argument_names[i]))
      source_note(&self->source, key,
                  "prompt %s: nothing uses the argument %s: write {%s} in its text, or remove it",
                  prompt->name, prompt->argument_names[i], prompt->argument_names[i]);
  }
}

bool config_prompt(serve_config *self, yyjson_val *key, prompt_config *prompt) {
  yyjson_val *value = yyjson_obj_iter_get_val(key), *text = yyjson_obj_get(value, "text");
  prompt->key = key;
  prompt->name = yyjson_get_str(key);
  prompt->title = config_text(value, "title");
  prompt->scopes = config_scopes(self, value);
  prompt->description = config_text(value, "description");
  take_arguments(self, yyjson_obj_get(value, "arguments"), prompt);
  const char *why =
      word_compile(&prompt->text, yyjson_get_str(text), yyjson_get_len(text), &self->memory);
  if (why) source_fault(&self->source, text, "prompt %s: the text %s", prompt->name, why);
  prompt_check check = {.config = self, .prompt = prompt, .at = text};
  if (!why) word_names(&prompt->text, check_name, &check);
  if (!why) note_unused(self, yyjson_obj_get(value, "arguments"), prompt);
  return !why;
}
