/* config_names.c - placeholders that name no argument are told of, each at the word it stands in.
 * What stands in the file is walked beside what it was compiled to. */
#include "config.h"

#include <string.h>

/* As they are, or without the ? of one that may be left out. */
static void add_names(name_check *self, yyjson_val *arguments, bool marked) {
  yyjson_val *key, *value;
  size_t i, max;
  idem_each_member(arguments, i, max, key, value) {
    const char *text = yyjson_get_str(key);
    size_t len = yyjson_get_len(key);
    if (marked && len && text[len - 1] == '?') len--;
    if (idem_map_put(&self->names, text, len, value) == IDEM_E_NOMEM) memory_exhausted();
  }
}

/* A tool of the file has its arguments there; those of a completion are made. */
void name_check_init(name_check *self, serve_config *config, tool_config *tool) {
  yyjson_val *value = tool->hidden ? NULL : yyjson_obj_iter_get_val(tool->key);
  yyjson_val *input = yyjson_obj_get(value, "input");
  yyjson_val *args = input ? NULL : yyjson_obj_get(value, "args");
  *self = (name_check){.config = config, .tool = tool, .at = tool->key};
  idem_map_init(&self->names, NULL, 0);
  if (args) {
    add_names(self, args, true);
    return;
  }
  if (tool->hidden) self->schema = yyjson_read(tool->input_schema, strlen(tool->input_schema), 0);
  if (!input) input = yyjson_doc_get_root(self->schema);
  add_names(self, yyjson_obj_get(input, "properties"), false);
}

void name_check_deinit(name_check *self) {
  idem_map_deinit(&self->names);
  yyjson_doc_free(self->schema);
}

bool name_check_see(void *user, const char *name, size_t len) {
  name_check *self = user;
  if (idem_map_get(&self->names, name, len)) return true;
  const char *near = config_input(self->config, self->tool)
                         ? idem_schema_suggest_property(self->tool->input, name, len)
                         : NULL;
  source_fault(&self->config->source, self->at, "tool %s: there is no argument {%.*s}%s%s%s",
               self->tool->name, (int)len, name, near ? "; did you mean {" : ": add it to args",
               near ? near : "", near ? "}?" : "");
  return true;
}

void name_check_word(name_check *self, yyjson_val *at, const word_template *word) {
  self->at = at;
  word_names(word, name_check_see, self);
}

/* One word, or a list of them. */
static void check_words(name_check *self, yyjson_val *value, const word_template *words) {
  yyjson_val *item;
  size_t i, max;
  if (yyjson_is_str(value)) name_check_word(self, value, words);
  yyjson_arr_foreach(value, i, max, item) { name_check_word(self, item, &words[i]); }
}

void name_check_run(name_check *self, yyjson_val *run, const arguments_template *words) {
  yyjson_val *item;
  size_t i, max;
  yyjson_arr_foreach(run, i, max, item) {
    const slot *at = &words->slots[i];
    if (!at->condition) {
      check_words(self, item, at->words);
      continue;
    }
    self->at = yyjson_obj_get(item, "if");
    name_check_see(self, at->condition, strlen(at->condition));
    check_words(self, yyjson_obj_get(item, "then"), at->words);
    check_words(self, yyjson_obj_get(item, "else"), at->otherwise);
  }
}
