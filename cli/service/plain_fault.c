/* plain_fault.c - see plain_fault.h. The validator names places by JSON Pointers; people and programs that
 * call methods know them as paths: address.zip, list[1], [0]. */
#include "plain_fault.h"

#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 512u
#define NAME_BYTES 256u
#define ACCEPTED 64u

typedef struct place {
  char path[PATH_BYTES];
  idem_buf out;
  yyjson_val *at;     /* NULL: nothing is there */
  yyjson_val *schema; /* the method's */
  bool by_position;
} place;

/* ------------------------------------------------------------------------ places */

/* One part of a pointer, ~0 and ~1 undone; what follows it. */
static const char *read_part(const char *pointer, char *name) {
  size_t len = 0;
  for (; *pointer && *pointer != '/'; pointer++) {
    char c = *pointer;
    if (c == '~' && (pointer[1] == '0' || pointer[1] == '1')) c = *++pointer == '1' ? '/' : '~';
    if (len < NAME_BYTES - 1) name[len++] = c;
  }
  name[len] = '\0';
  return pointer;
}

/* Where the schema has an argument among its properties; false: nowhere. */
static bool position_of(yyjson_val *schema, const char *name, size_t *position) {
  yyjson_val *properties = yyjson_obj_get(schema, "properties"), *key, *value;
  size_t i, max;
  idem_each_member(properties, i, max, key, value) {
    (void)value;
    if (!yyjson_equals_str(key, name)) continue;
    *position = i;
    return true;
  }
  return false;
}

static void step(place *self, const char *name) {
  size_t position;
  if (yyjson_is_arr(self->at)) {
    idem_buf_printf(&self->out, "[%s]", name);
    self->at = yyjson_arr_get(self->at, (size_t)strtoull(name, NULL, 10));
    return;
  }
  if (!self->out.len && self->by_position && position_of(self->schema, name, &position))
    idem_buf_printf(&self->out, "[%zu]", position);
  else
    idem_buf_printf(&self->out, "%s%s", self->out.len ? "." : "", name);
  self->at = yyjson_obj_get(self->at, name);
}

static void walk(place *self, const char *pointer) {
  char name[NAME_BYTES];
  while (*pointer == '/') {
    pointer = read_part(pointer + 1, name);
    step(self, name);
  }
}

/* What the rule that was broken says; NULL: it stands elsewhere (a reference). */
static yyjson_val *rule_of(yyjson_val *schema, const char *path) {
  char name[NAME_BYTES];
  if (*path != '#') return NULL;
  for (path++; schema && *path == '/';) {
    path = read_part(path + 1, name);
    schema = yyjson_is_arr(schema) ? yyjson_arr_get(schema, (size_t)strtoull(name, NULL, 10))
                                   : yyjson_obj_get(schema, name);
  }
  return schema;
}

/* ------------------------------------------------------------------------- rules */

static const char *missing_name(yyjson_val *required, yyjson_val *object) {
  yyjson_val *item;
  size_t i, max;
  yyjson_arr_foreach(required, i, max, item) {
    const char *name = yyjson_get_str(item);
    if (name && !yyjson_obj_get(object, name)) return name;
  }
  return NULL;
}

/* `property "a" (integer >= 1)` is what is expected of a: integer >= 1. */
static const char *inner_expectation(const char *expected, char *out, size_t room) {
  const char *open = strstr(expected, "\" (");
  size_t len = open ? strlen(open) : 0;
  if (!open || open[len - 1] != ')') return "a value";
  snprintf(out, room, "%.*s", (int)(len - 4), open + 3);
  return out;
}

/* Only texts can be listed; NULL: there are others, or too many. */
static const char *const *accepted_of(yyjson_val *rule, const char **list) {
  yyjson_val *item;
  size_t i, max;
  if (yyjson_is_str(rule)) {
    list[0] = yyjson_get_str(rule);
    return list;
  }
  if (!yyjson_is_arr(rule) || yyjson_arr_size(rule) > ACCEPTED) return NULL;
  yyjson_arr_foreach(rule, i, max, item) {
    if (!yyjson_is_str(item)) return NULL;
    list[i] = yyjson_get_str(item);
  }
  return list;
}

/* The choices of what should be at the place, whichever of its rules was broken; NULL: they are not closed. */
static yyjson_val *choices_of(yyjson_val *schema, const char *path, const char *missing) {
  char parent[PATH_BYTES];
  const char *last = strrchr(path, '/');
  if (!last || (size_t)(last - path) >= sizeof parent) return NULL;
  snprintf(parent, sizeof parent, "%.*s", (int)(last - path), path);
  yyjson_val *at = rule_of(schema, parent);
  if (missing) at = yyjson_obj_get(yyjson_obj_get(at, "properties"), missing);
  yyjson_val *list = yyjson_obj_get(at, "enum");
  return list ? list : yyjson_obj_get(at, "const");
}

static bool is(const idem_schema_error *error, const char *keyword) {
  return strcmp(error->keyword, keyword) == 0;
}

/* --------------------------------------------------------------------- answering */

static void reply(idem_request *request, place *self, const idem_schema_error *error) {
  char inner[PATH_BYTES];
  const char *accepted[ACCEPTED + 1] = {NULL};
  yyjson_val *rule = rule_of(self->schema, error->schema_path);
  idem_param_fault fault = {.param = self->path, .expected = error->expected};
  const char *missing = is(error, "required") ? missing_name(rule, self->at) : NULL;
  if (missing) {
    step(self, missing);
    fault.expected = inner_expectation(error->expected, inner, sizeof inner);
  }
  fault.accepted = accepted_of(choices_of(self->schema, error->schema_path, missing), accepted);
  if (fault.accepted) fault.expected = "one of the accepted values";
  self->path[self->out.len] = '\0';
  fault.received = self->at;
  idem_reply_invalid_params(request, &fault);
}

void plain_fault_reply(idem_request *request, yyjson_val *schema, yyjson_val *arguments,
                       const idem_schema_error *error, bool by_position) {
  place self = {.at = arguments, .schema = schema, .by_position = by_position};
  idem_buf_fixed(&self.out, self.path, sizeof self.path - 1);
  walk(&self, error->instance_path);
  reply(request, &self, error);
}

void plain_fault_reply_more(idem_request *request, yyjson_val *params, size_t count) {
  char path[32];
  snprintf(path, sizeof path, "[%zu]", count);
  idem_reply_invalid_params(request,
                            &(idem_param_fault){.param = path,
                                                .expected = "nothing",
                                                .received = yyjson_arr_get(params, count)});
}
