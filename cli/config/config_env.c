/* config_env.c - the environment a program gets: a few harmless variables, those allowed by name,
 * and those the file gives, secrets by reference. Nothing else of the server's own. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const always[] = {"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ"};

static const char *assign(serve_config *self, const char *name, const char *value) {
  size_t size = strlen(name) + strlen(value) + 2;
  char *assignment = memory_zeroed(&self->memory, size, 1);
  snprintf(assignment, size, "%s=%s", name, value);
  return assignment;
}

/* A later one takes the place of an earlier one of the same name. */
static tool_env *set(tool_config *tool, size_t name_len, const char *assignment, bool secret) {
  size_t i = 0;
  while (i < tool->env_count && (tool->env[i].name_len != name_len ||
                                 strncmp(tool->env[i].assignment, assignment, name_len) != 0))
    i++;
  tool->env[i] = (tool_env){.assignment = assignment, .name_len = name_len, .secret = secret};
  if (i == tool->env_count) tool->env_count++;
  return &tool->env[i];
}

/* Most tools are given the same few, and PATH is long. NULL: the server itself has none. */
static const char *own(serve_config *self, const char *name) {
  for (const own_variable *one = self->variables; one; one = one->next)
    if (strcmp(one->name, name) == 0) return one->assignment;
  const char *value = getenv(name);
  own_variable *made = memory_zeroed(&self->memory, 1, sizeof *made);
  *made = (own_variable){self->variables, name, value ? assign(self, name, value) : NULL};
  self->variables = made;
  return made->assignment;
}

static void pass(serve_config *self, tool_config *tool, const char *name) {
  const char *assignment = own(self, name);
  if (assignment) set(tool, strlen(name), assignment, false);
}

/* {name} stands for an argument, as in a word of "run"; a program that reads a text, as a shell does,
 * can so be given a value that is no part of the text. */
static void take_value(serve_config *self, tool_config *tool, yyjson_val *at, tool_env *variable) {
  word_template *made = memory_zeroed(&self->memory, 1, sizeof *made);
  name_check check;
  const char *why =
      word_compile(made, variable->assignment, strlen(variable->assignment), &self->memory);
  if (why) {
    source_fault(&self->source, at, "tool %s: \"%s\" %s", tool->name, yyjson_get_str(at), why);
    return;
  }
  name_check_init(&check, self, tool);
  name_check_word(&check, at, made);
  name_check_deinit(&check);
  variable->value = made;
}

/* Most tools have nothing else, and one list serves them all. */
static void pass_usual(serve_config *self, tool_config *tool) {
  size_t count = sizeof always / sizeof *always;
  if (self->usual_env) {
    tool->env = self->usual_env;
    tool->env_count = self->usual_env_count;
    return;
  }
  tool->env = memory_zeroed(&self->memory, count, sizeof *tool->env);
  for (size_t i = 0; i < count; i++) pass(self, tool, always[i]);
  self->usual_env = tool->env;
  self->usual_env_count = tool->env_count;
}

/* What the caller's token says; a program that stays has no caller of its own. */
static bool take_claim(serve_config *self, tool_config *tool, yyjson_val *key, yyjson_val *item) {
  yyjson_val *claim = yyjson_obj_get(item, "claim"), *who = yyjson_obj_get(item, "principal");
  if (!claim && !who) return false;
  if (!self->auth)
    source_fault(&self->source, item, "tool %s: claims need \"auth\": there are no tokens",
                 tool->name);
  if (yyjson_is_true(yyjson_obj_get(tool->definition, "keep")))
    source_fault(&self->source, item,
                 "tool %s: a program that stays is started once, and not for a caller", tool->name);
  tool_env *variable = set(tool, yyjson_get_len(key), assign(self, yyjson_get_str(key), ""), false);
  variable->claim = who ? "" : yyjson_get_str(claim);
  return true;
}

bool config_environment(serve_config *self, yyjson_val *value, tool_config *tool) {
  yyjson_val *passed = yyjson_obj_get(value, "pass_env"), *given = yyjson_obj_get(value, "env");
  yyjson_val *key, *item;
  size_t i, max, count = sizeof always / sizeof *always;
  if (!passed && !given) {
    pass_usual(self, tool);
    return true;
  }
  tool->env = memory_zeroed(&self->memory, count + yyjson_arr_size(passed) + yyjson_obj_size(given),
                            sizeof *tool->env);
  for (i = 0; i < count; i++) pass(self, tool, always[i]);
  yyjson_arr_foreach(passed, i, max, item) pass(self, tool, yyjson_get_str(item));
  idem_each_member(given, i, max, key, item) {
    if (take_claim(self, tool, key, item)) continue;
    bool secret = yyjson_is_obj(item);
    const char *text = secret ? config_secret(self, tool, item) : yyjson_get_str(item);
    if (!text) continue;
    tool_env *variable =
        set(tool, yyjson_get_len(key), assign(self, yyjson_get_str(key), text), secret);
    if (!secret && strpbrk(text, "{}")) take_value(self, tool, item, variable);
  }
  return true;
}
