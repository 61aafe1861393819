/* config_env.c - the environment a program gets: a few harmless variables, those allowed by name,
 * and those the file gives, secrets by reference. Nothing else of the server's own. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECRET_MAX 65536
#define SECRETS_MAX 256

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

/* --------------------------------------------------------------------- references */

static const char *read_secret(serve_config *self, yyjson_val *at, const char *path) {
  const char *real = config_file(self, at, path, "secret file");
  FILE *file = real ? fopen(real, "r") : NULL;
  if (real && !file) source_fault(&self->source, at, "secret file %s: %s", path, strerror(errno));
  if (!file) return NULL;
  char *text = memory_zeroed(&self->memory, SECRET_MAX + 1, 1);
  size_t len = fread(text, 1, SECRET_MAX, file);
  fclose(file);
  while (len && (text[len - 1] == '\n' || text[len - 1] == '\r')) text[--len] = 0;
  if (len && len < SECRET_MAX && !memchr(text, 0, len)) return text;
  source_fault(&self->source, at, "secret file %s: is empty, too long or no text", path);
  return NULL;
}

static void remember_secret(serve_config *self, const char *text) {
  if (!self->secrets)
    self->secrets = memory_zeroed(&self->memory, SECRETS_MAX, sizeof *self->secrets);
  size_t len = strlen(text);
  if (self->secret_count < SECRETS_MAX && len >= 4)
    self->secrets[self->secret_count++] =
        (idem__secret){memory_text(&self->memory, text, len), len};
}

static const char *look_up(serve_config *self, tool_config *tool, yyjson_val *reference) {
  yyjson_val *file = yyjson_obj_get(reference, "file"), *env = yyjson_obj_get(reference, "env");
  if (file) return read_secret(self, file, yyjson_get_str(file));
  const char *value = getenv(yyjson_get_str(env));
  if (!value || !*value) {
    source_fault(&self->source, env, "tool %s: the environment has no %s: set it and start again",
                 tool->name, yyjson_get_str(env));
    return NULL;
  }
  return value;
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
    const char *text = secret ? look_up(self, tool, item) : yyjson_get_str(item);
    if (!text) continue;
    if (secret) remember_secret(self, text);
    set(self, tool, yyjson_get_str(key), text, secret);
  }
  return true;
}
