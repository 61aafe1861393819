/* source_check.c - a configuration against its schema, as far as a schema goes: what is wrong, where,
 * and what people who write that usually mean. */
#include "source.h"

#include <idem/schema.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 200u  /* of values; whoever reads them later may recurse */
#define ERRORS_MAX 100u /* of the schema; with more, nothing else is looked at */

/* True: it was there before. Out of memory, it is not noticed. */
static bool is_again(idem_map *seen, yyjson_val *key) {
  const char *name = yyjson_get_str(key);
  if (idem_map_get(seen, name, yyjson_get_len(key))) return true;
  idem_map_put(seen, name, yyjson_get_len(key), key);
  return false;
}

/* The same for an object of few members, whose first one is `first`. */
static bool is_among(yyjson_val *first, yyjson_val *key) {
  size_t len = yyjson_get_len(key);
  for (yyjson_val *at = first; at < key; at = unsafe_yyjson_get_next(at + 1))
    if (yyjson_get_len(at) == len && memcmp(yyjson_get_str(at), yyjson_get_str(key), len) == 0)
      return true;
  return false;
}

static bool check_twice(config_source *self, yyjson_val *value, unsigned depth);

/* A name given twice is a mistake that JSON readers settle in silence, each in its own way. */
static bool check_members(config_source *self, yyjson_val *object, unsigned depth) {
  yyjson_val *first = unsafe_yyjson_get_first(object), *key, *member;
  size_t i, count;
  bool flat = true;
  idem_map seen;
  idem_map_init(&seen, NULL, 0);
  idem_each_member(object, i, count, key, member) {
    if (count > 16 ? is_again(&seen, key) : is_among(first, key))
      source_fault(self, key, "\"%s\" is given twice: remove one", yyjson_get_str(key));
    if (yyjson_is_ctn(member)) flat = check_twice(self, member, depth + 1) && flat;
  }
  idem_map_deinit(&seen);
  return flat;
}

/* False: it is too deep for whoever recurses. */
static bool check_twice(config_source *self, yyjson_val *value, unsigned depth) {
  yyjson_val *item;
  size_t i, count;
  bool flat = true;
  if (depth == DEPTH_MAX) {
    source_fault(self, value, "more than %u values stand one inside the other here", DEPTH_MAX);
    return false;
  }
  if (yyjson_is_obj(value)) return check_members(self, value, depth);
  yyjson_arr_foreach(value, i, count, item) {
    if (yyjson_is_ctn(item)) flat = check_twice(self, item, depth + 1) && flat;
  }
  return flat;
}

/* Names that other programs have for it, and what people write at first. */
static const char *advice(const idem_schema_error *error) {
  static const struct {
    const char *name, *words;
  } known[] = {
      {"run", "; write each word by itself: [\"grep\", \"-n\", \"{text}\"]"},
      {"command", "; a tool's program and its arguments are \"run\": [\"grep\", \"{text}\"]"},
      {"cmd", "; a tool's program and its arguments are \"run\": [\"grep\", \"{text}\"]"},
      {"timeout", "; here it is \"deadline_ms\", in milliseconds"},
      {"deadline", "; here it is \"deadline_ms\", in milliseconds"},
      {"timeout_ms", "; here it is \"deadline_ms\""},
      {"parameters", "; here it is \"args\""},
      {"arguments", "; a tool's are \"args\""},
      {"inputSchema", "; here it is \"input\""},
      {"outputSchema", "; here it is \"output_schema\""},
      {"sql", "; here it is \"query\""},
      {"url", "; a web service is \"http\": {\"url\": ...}"},
      {"shell", "; no shell is used: name the program in \"run\""},
  };
  const char *slash = strrchr(error->instance_path, '/');
  bool of_tool = strncmp(error->instance_path, "/tools/", strlen("/tools/")) == 0;
  if (!slash || !of_tool || strstr(error->sentence, "did you mean")) return "";
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].name, slash + 1) == 0)
      return i == 0 || strstr(error->sentence, "unknown property") ? known[i].words : "";
  return "";
}

/* How a list of things is written, where somebody has written an array. */
static const char *shape(const idem_schema_error *error) {
  static const struct {
    const char *path, *words;
  } known[] = {
      {"/tools", "; write {\"NAME\": {\"run\": [\"grep\", \"{text}\"], ...}}"},
      {"/resources", "; write {\"NAME\": {\"file\": \"notes.txt\"}}"},
      {"/prompts", "; write {\"NAME\": {\"text\": \"...\"}}"},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].path, error->instance_path) == 0 && strcmp(error->keyword, "type") == 0)
      return known[i].words;
  return "";
}

/* The names that an object may have where an unknown one was met: "; there are: a, b". */
static void known_names(yyjson_val *schema, const idem_schema_error *error, char *out,
                        size_t size) {
  char pointer[512];
  yyjson_val *known, *key, *value;
  size_t i, max, len = 0;
  const char *end = strrchr(error->schema_path, '/');
  *out = 0;
  if (strcmp(error->keyword, "additionalProperties") != 0 || *error->schema_path != '#' || !end)
    return;
  snprintf(pointer, sizeof pointer, "%.*s/properties", (int)(end - error->schema_path - 1),
           error->schema_path + 1);
  known = yyjson_ptr_get(schema, pointer);
  idem_each_member(known, i, max, key, value) {
    (void)value;
    if (len >= size) return;
    len += (size_t)snprintf(out + len, size - len, "%s%s",
                            i ? ", " : "; there are: ", yyjson_get_str(key));
  }
}

static void tell_error(config_source *self, yyjson_val *schema, const idem_schema_error *error) {
  char names[512] = "";
  const char *words = *shape(error) ? shape(error) : advice(error);
  if (strncmp(error->schema_path, "#/properties/", 13) == 0 &&
      strstr(error->schema_path, "/propertyNames/"))
    words = "; a name here has letters, digits, _, - and ., 128 at most";
  else if (!*words && !strstr(error->sentence, "did you mean"))
    known_names(schema, error, names, sizeof names);
  source_fault(self, source_find(self, error->instance_path), "%s%s%s", error->sentence, words,
               names);
}

/* ------------------------------------------------------------------ what is broken */

/* "/tools/t/run/0" is of the tool t, and "/tools" of all tools. NULL: of the document. */
static yyjson_val *part_of(const config_source *self, const char *path) {
  const char *second = *path ? strchr(path + 1, '/') : NULL;
  const char *third = second ? strchr(second + 1, '/') : NULL;
  size_t len = third ? (size_t)(third - path) : strlen(path);
  return len ? yyjson_doc_ptr_getn(self->doc, path, len) : NULL;
}

/* Members of a part ("/tools/t/title") that are read as nothing where they are of another type. */
static bool is_read_alone(const char *path) {
  static const char *const names[] = {"title", "description", "unsafe"};
  const char *second = *path ? strchr(path + 1, '/') : NULL;
  const char *third = second ? strchr(second + 1, '/') : NULL;
  for (size_t i = 0; third && i < sizeof names / sizeof *names; i++)
    if (strcmp(third + 1, names[i]) == 0) return true;
  return false;
}

/* Nobody reads a property that nobody knows; what stands beside it can be looked at. */
static bool is_harmless(const idem_schema_error *error) {
  return strcmp(error->keyword, "additionalProperties") == 0 || is_read_alone(error->instance_path);
}

/* False: the document itself is, or it cannot be said what is. */
static bool find_broken(config_source *self, const idem_schema_result *result) {
  self->broken = calloc(result->error_count + 1, sizeof(yyjson_val *));
  if (!self->broken || result->limit || result->error_count >= ERRORS_MAX) return false;
  for (size_t i = 0; i < result->error_count; i++) {
    const idem_schema_error *error = &result->errors[i];
    if (is_harmless(error)) continue;
    yyjson_val *part = part_of(self, error->instance_path);
    if (!part) return false;
    self->broken[self->broken_count++] = part;
  }
  return true;
}

bool source_is_broken(const config_source *self, yyjson_val *value) {
  for (size_t i = 0; i < self->broken_count; i++)
    if (self->broken[i] == value) return true;
  return false;
}

static void tell_errors(config_source *self, const char *schema_text,
                        const idem_schema_result *result) {
  yyjson_doc *schema = yyjson_read(schema_text, strlen(schema_text), 0);
  for (size_t i = 0; i < result->error_count; i++)
    tell_error(self, yyjson_doc_get_root(schema), &result->errors[i]);
  if (result->limit) source_fault(self, NULL, "too much to check: %s", result->limit);
  yyjson_doc_free(schema);
}

bool source_check(config_source *self, const char *schema_text) {
  static const idem_schema_check check = {
      .all_errors = true, .show_values = true, .root_name = "config", .max_errors = ERRORS_MAX};
  idem_schema *schema = NULL;
  idem_schema_ctx *ctx = NULL;
  idem_schema_fault fault = {.sentence = "no memory"};
  idem_schema_result result = {.valid = false};
  if (idem_schema_compile(NULL, schema_text, strlen(schema_text), &schema, &fault) == IDEM_OK &&
      idem_schema_ctx_new(NULL, &ctx) == IDEM_OK)
    idem_schema_validate(schema, ctx, yyjson_doc_get_root(self->doc), &check, &result);
  else
    source_fault(self, NULL, "%s", fault.sentence);
  bool readable = result.valid;
  if (!result.valid) {
    tell_errors(self, schema_text, &result);
    readable = result.error_count && find_broken(self, &result);
  }
  idem_schema_ctx_free(ctx);
  idem_schema_free(schema);
  return check_twice(self, yyjson_doc_get_root(self->doc), 0) && readable;
}
