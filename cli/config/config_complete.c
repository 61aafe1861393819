/* config_complete.c - "complete": a program that prints what an argument could be, one value a line.
 * It becomes a hidden tool, so that limits, turns and confinement are those of every program. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#define COMPLETE_BYTES ((size_t)64 << 10)

static void put_text(idem_buf *out, const char *text) { idem_buf_put(out, text, strlen(text)); }

/* What was typed, and the other arguments as far as they are known. */
static const char *schema_of(serve_config *self, const char *const *names, size_t count) {
  idem_buf text;
  idem_buf_init(&text, NULL, (size_t)1 << 20);
  put_text(&text, "{\"type\":\"object\",\"properties\":{\"value\":{\"type\":\"string\"}");
  for (size_t i = 0; i < count; i++) {
    if (strcmp(names[i], "value") == 0) continue;
    put_text(&text, ",");
    idem_text_json_string(&text, names[i], strlen(names[i]));
    put_text(&text, ":{\"type\":\"string\"}");
  }
  put_text(&text, "}}");
  const char *copy = memory_text(&self->memory, text.data, text.len);
  idem_buf_deinit(&text);
  return copy;
}

static bool is_value(void *user, const char *name, size_t len) {
  bool *found = user;
  if (len == 5 && memcmp(name, "value", 5) == 0) *found = true;
  return true;
}

static const char *name_of(serve_config *self, const char *owner) {
  size_t size = strlen(owner) + sizeof "completion of ";
  char *name = memory_zeroed(&self->memory, size, 1);
  snprintf(name, size, "completion of %s", owner);
  return name;
}

void config_completion(serve_config *self, yyjson_val *value, const char *owner,
                       const char *const *names, size_t count, completion_config *completion) {
  tool_config *tool = &self->tools[self->tool_count];
  *completion = (completion_config){.tool = NO_TOOL};
  if (!value) return;
  completion->tool = self->tool_count++;
  *tool = (tool_config){.hidden = true,
                        .is_program = true,
                        .key = yyjson_obj_get(value, "run"),
                        .definition = value,
                        .name = name_of(self, owner),
                        .input_schema = schema_of(self, names, count),
                        .idle_ms = CONFIG_COMPLETE_MS,
                        .deadline_ms = config_number(value, "deadline_ms", CONFIG_COMPLETE_MS),
                        .output_bytes = COMPLETE_BYTES};
  config_program(self, value, tool);
  template_names(&tool->run, is_value, &completion->uses_value);
  if (tool->has_stdin) word_names(&tool->stdin_text, is_value, &completion->uses_value);
}
