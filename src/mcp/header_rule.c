/* header_rule.c - which arguments of a tool travel as Mcp-Param-* headers: those that its schema marks with
 * x-mcp-header. A server checks by these rules, a client writes by them. */
#include "header.h"

#include <string.h>

#define RULES_MAX 64u
#define PATH_MAX_NAMES 32u

/* The walk over a schema: where it is, and what it has found. */
typedef struct finder {
  const idem_alloc *alloc;
  idem__header_rules *found;
  const char *names[PATH_MAX_NAMES];
  size_t depth;
  const char *why;
} finder;

static idem_status fault(finder *walk, const char *sentence) {
  walk->why = sentence;
  return IDEM_E_INVAL;
}

static bool is_token(const char *text, size_t len) {
  static const char others[] = "!#$%&'*+-.^_`|~";
  for (size_t i = 0; i < len; i++) {
    char c = text[i];
    bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (!alnum && (c == '\0' || !strchr(others, c))) return false;
  }
  return len > 0;
}

static char type_of(yyjson_val *schema) {
  yyjson_val *type = yyjson_obj_get(schema, "type");
  if (yyjson_equals_str(type, "string")) return 's';
  if (yyjson_equals_str(type, "integer")) return 'i';
  return yyjson_equals_str(type, "boolean") ? 'b' : '\0';
}

static char *header_name(finder *walk, const char *text, size_t len) {
  static const char prefix[] = "mcp-param-";
  size_t lead = sizeof prefix - 1;
  char *name = idem__malloc(walk->alloc, lead + len + 1);
  if (!name) return NULL;
  memcpy(name, prefix, lead);
  for (size_t i = 0; i < len; i++) name[lead + i] = idem__ascii_lower(text[i]);
  name[lead + len] = '\0';
  return name;
}

static idem_status copy_path(finder *walk, idem__header_rule *rule) {
  rule->path = idem__calloc(walk->alloc, (walk->depth + 1) * sizeof *rule->path);
  if (!rule->path) return IDEM_E_NOMEM;
  idem_status status = IDEM_OK;
  for (size_t i = 0; i < walk->depth && status == IDEM_OK; i++) {
    rule->path[i] = idem__strndup(walk->alloc, walk->names[i], strlen(walk->names[i]));
    if (!rule->path[i]) status = IDEM_E_NOMEM;
  }
  return status;
}

static bool taken(const idem__header_rules *found, const char *header) {
  for (size_t i = 0; i < found->count; i++) {
    if (strcmp(found->rules[i].header, header) == 0) return true;
  }
  return false;
}

static idem_status grow_rules(finder *walk) {
  idem__header_rules *found = walk->found;
  size_t size = sizeof *found->rules;
  idem__header_rule *grown =
      idem__realloc(walk->alloc, found->rules, found->count * size, (found->count + 1) * size);
  if (!grown) return IDEM_E_NOMEM;
  found->rules = grown;
  return IDEM_OK;
}

static idem_status add_rule(finder *walk, yyjson_val *schema, yyjson_val *mark) {
  idem__header_rules *found = walk->found;
  char type = type_of(schema);
  if (!yyjson_is_str(mark) || !is_token(yyjson_get_str(mark), yyjson_get_len(mark))) {
    return fault(walk, "must be a header name");
  }
  if (!type) return fault(walk, "stands on a property that is no string, integer or boolean");
  if (found->count == RULES_MAX) return fault(walk, "is used too often");
  if (grow_rules(walk) != IDEM_OK) return IDEM_E_NOMEM;
  char *name = header_name(walk, yyjson_get_str(mark), yyjson_get_len(mark));
  if (!name) return IDEM_E_NOMEM;
  if (taken(found, name)) {
    idem__free(walk->alloc, name);
    return fault(walk, "names the same header twice");
  }
  idem__header_rule *rule = &found->rules[found->count++];
  *rule = (idem__header_rule){.header = name, .type = type};
  return copy_path(walk, rule);
}

static idem_status find_rules(finder *walk, yyjson_val *schema);

static idem_status find_in_properties(finder *walk, yyjson_val *properties) {
  idem_status status = IDEM_OK;
  yyjson_obj_iter iter;
  if (!yyjson_obj_iter_init(properties, &iter)) return IDEM_OK;
  if (walk->depth == PATH_MAX_NAMES) return IDEM_OK;
  for (yyjson_val *key; status == IDEM_OK && (key = yyjson_obj_iter_next(&iter));) {
    walk->names[walk->depth++] = yyjson_get_str(key);
    status = find_rules(walk, yyjson_obj_iter_get_val(key));
    walk->depth--;
  }
  return status;
}

/* Anywhere but on a chain of `properties` the mark is a mistake. Every value here is within the
 * depth that definitions are read with. */
static bool marked_anywhere(yyjson_val *val) {
  size_t index, max;
  yyjson_val *key, *each;
  if (yyjson_is_arr(val)) {
    yyjson_arr_foreach(val, index, max, each) {
      if (marked_anywhere(each)) return true;
    }
  } else if (yyjson_is_obj(val)) {
    idem_each_member(val, index, max, key, each) {
      if (yyjson_equals_str(key, "x-mcp-header") || marked_anywhere(each)) return true;
    }
  }
  return false;
}

/* Keywords whose values are data, not schemas. */
static bool holds_data(yyjson_val *key) {
  static const char *const names[] = {"default", "const", "enum", "examples"};
  for (size_t i = 0; i < 4; i++) {
    if (yyjson_equals_str(key, names[i])) return true;
  }
  return false;
}

static idem_status find_rules(finder *walk, yyjson_val *schema) {
  idem_status status = IDEM_OK;
  yyjson_obj_iter iter;
  if (!yyjson_obj_iter_init(schema, &iter)) return IDEM_OK;
  for (yyjson_val *key; status == IDEM_OK && (key = yyjson_obj_iter_next(&iter));) {
    yyjson_val *val = yyjson_obj_iter_get_val(key);
    if (yyjson_equals_str(key, "x-mcp-header"))
      status = add_rule(walk, schema, val);
    else if (yyjson_equals_str(key, "properties"))
      status = find_in_properties(walk, val);
    else if (!holds_data(key) && marked_anywhere(val))
      status = fault(walk, "stands where no argument can be told apart");
  }
  return status;
}

idem_status idem__header_rules_find(const idem_alloc *alloc, yyjson_val *schema,
                                    idem__header_rules *out, const char **why) {
  finder walk = {.alloc = alloc, .found = out};
  idem_status status = find_rules(&walk, schema);
  if (why) *why = walk.why;
  return status;
}

void idem__header_rules_free(idem__header_rules *rules, const idem_alloc *alloc) {
  for (size_t i = 0; i < rules->count; i++) {
    idem__header_rule *rule = &rules->rules[i];
    for (size_t k = 0; rule->path && rule->path[k]; k++) idem__free(alloc, rule->path[k]);
    idem__free(alloc, rule->path);
    idem__free(alloc, rule->header);
  }
  idem__free(alloc, rules->rules);
  *rules = (idem__header_rules){0};
}
