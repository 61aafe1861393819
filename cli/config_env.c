/* config_env.c - the environment a program gets: a few harmless variables, those allowed by name,
 * and those the file gives, secrets by reference. Nothing else of the server's own. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const always[] = {"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ"};

/* A later one takes the place of an earlier one of the same name. */
static void set(serve_config *self, tool_config *tool, const char *name, const char *value,
                bool secret) {
  size_t name_len = strlen(name), size = name_len + strlen(value) + 2, i = 0;
  char *assignment = memory_zeroed(&self->memory, size, 1);
  snprintf(assignment, size, "%s=%s", name, value);
  while (i < tool->env_count && (tool->env[i].name_len != name_len ||
                                 strncmp(tool->env[i].assignment, name, name_len) != 0))
    i++;
  tool->env[i] = (tool_env){assignment, name_len, secret};
  if (i == tool->env_count) tool->env_count++;
}

static void pass(serve_config *self, tool_config *tool, const char *name) {
  const char *value = getenv(name);
  if (value) set(self, tool, name, value, false);
}

bool config_environment(serve_config *self, yyjson_val *value, tool_config *tool) {
  yyjson_val *passed = yyjson_obj_get(value, "pass_env"), *given = yyjson_obj_get(value, "env");
  yyjson_val *key, *item;
  size_t i, max, count = sizeof always / sizeof *always;
  tool->env = memory_zeroed(&self->memory, count + yyjson_arr_size(passed) + yyjson_obj_size(given),
                            sizeof *tool->env);
  for (i = 0; i < count; i++) pass(self, tool, always[i]);
  yyjson_arr_foreach(passed, i, max, item) pass(self, tool, yyjson_get_str(item));
  yyjson_obj_foreach(given, i, max, key, item) {
    bool secret = yyjson_is_obj(item);
    const char *text = secret ? config_secret(self, tool, item) : yyjson_get_str(item);
    if (!text) continue;
    set(self, tool, yyjson_get_str(key), text, secret);
  }
  return true;
}
