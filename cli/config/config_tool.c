/* config_tool.c - what every kind of tool has: its arguments, schemas and limits. */
#include "config.h"

#include "regular_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SCRIPT_MAX ((size_t)1 << 20)

/* ------------------------------------------------------------- arguments in short */

static const struct short_type {
  const char *name;
  const char *schema;
} short_types[] = {
    {"string", "{\"type\":\"string\"}"},
    {"integer", "{\"type\":\"integer\"}"},
    {"number", "{\"type\":\"number\"}"},
    {"boolean", "{\"type\":\"boolean\"}"},
    {"string[]", "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}"},
};
#define SHORT_TYPES (sizeof short_types / sizeof *short_types)

/* NULL: there is no such type. */
static const char *short_schema(yyjson_val *value) {
  for (size_t i = 0; i < SHORT_TYPES; i++)
    if (yyjson_equals_str(value, short_types[i].name)) return short_types[i].schema;
  return NULL;
}

/* What other languages call them. */
static const char *meant_by(const char *name) {
  static const char *const rows[][2] = {
      {"int", "integer"},      {"int32", "integer"},  {"int64", "integer"}, {"long", "integer"},
      {"str", "string"},       {"text", "string"},    {"bool", "boolean"},  {"float", "number"},
      {"double", "number"},    {"decimal", "number"}, {"list", "string[]"}, {"array", "string[]"},
      {"strings", "string[]"}, {"str[]", "string[]"},
  };
  const char *names[SHORT_TYPES];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcasecmp(rows[i][0], name) == 0) return rows[i][1];
  for (size_t i = 0; i < SHORT_TYPES; i++) names[i] = short_types[i].name;
  return idem_schema_suggest(name, strlen(name), names, SHORT_TYPES);
}

static void check_types(serve_config *self, yyjson_val *args) {
  yyjson_val *key, *value;
  size_t i, max;
  idem_each_member(args, i, max, key, value) {
    if (yyjson_is_obj(value) || short_schema(value)) continue;
    const char *meant = meant_by(yyjson_get_str(value));
    source_fault(&self->source, value,
                 "\"%s\" is no type: write string, integer, number, boolean, string[] or a "
                 "schema%s%s%s",
                 yyjson_get_str(value), meant ? "; did you mean \"" : "", meant ? meant : "",
                 meant ? "\"?" : "");
  }
}

static void put_text(idem_buf *out, const char *text) { idem_buf_put(out, text, strlen(text)); }

/* The length of an argument's name: one that ends with ? may be left out, as may one with a default. */
static size_t name_length(yyjson_val *key) {
  size_t len = yyjson_get_len(key);
  return len && yyjson_get_str(key)[len - 1] == '?' ? len - 1 : len;
}

static void put_properties(yyjson_val *args, idem_buf *out) {
  yyjson_val *key, *value;
  size_t i, max;
  idem_each_member(args, i, max, key, value) {
    const char *schema = yyjson_is_str(value) ? short_schema(value) : NULL;
    put_text(out, i ? "," : "");
    idem_text_json_string(out, yyjson_get_str(key), name_length(key));
    put_text(out, ":");
    if (yyjson_is_obj(value))
      idem_json_put(out, value);
    else
      put_text(out, schema ? schema : "true");
  }
}

static void put_required(yyjson_val *args, idem_buf *out) {
  yyjson_val *key, *value;
  size_t i, max, count = 0;
  idem_each_member(args, i, max, key, value) {
    size_t len = name_length(key);
    if (len < yyjson_get_len(key) || yyjson_obj_get(value, "default")) continue;
    put_text(out, count++ ? "," : "");
    idem_text_json_string(out, yyjson_get_str(key), len);
  }
}

/* {"name?": "string"} becomes a schema of type object. */
static void put_schema(yyjson_val *args, idem_buf *out) {
  put_text(out, "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{");
  put_properties(args, out);
  put_text(out, "},\"required\":[");
  put_required(args, out);
  put_text(out, "]}");
}

const char *config_input_schema(serve_config *self, const tool_config *tool) {
  if (tool->hidden) return tool->input_schema;
  yyjson_val *value = yyjson_obj_iter_get_val(tool->key), *input = yyjson_obj_get(value, "input");
  idem_buf *out = &self->scratch;
  out->len = 0;
  if (input)
    idem_json_put(out, input);
  else
    put_schema(yyjson_obj_get(value, "args"), out);
  return idem_buf_put(out, "", 1) == IDEM_OK ? out->data : ""; /* no schema: a fault, told */
}

bool config_input(serve_config *self, tool_config *tool) {
  yyjson_val *value = yyjson_obj_iter_get_val(tool->key);
  idem_schema_fault fault;
  if (tool->input || tool->input_faulty) return tool->input;
  const char *text = config_input_schema(self, tool);
  if (idem_schema_compile(NULL, text, strlen(text), &tool->input, &fault) == IDEM_OK) return true;
  config_schema_fault(self, tool, yyjson_obj_get(value, "input") ? "input" : "args", &fault);
  tool->input_faulty = true;
  return false;
}

static void check_input(serve_config *self, yyjson_val *value, const tool_config *tool) {
  yyjson_val *args = yyjson_obj_get(value, "args"), *input = yyjson_obj_get(value, "input");
  if (args && input)
    source_fault(&self->source, tool->key, "tool %s: give args or input, not both", tool->name);
  check_types(self, args);
}

/* Rows of a query are checked, too; text is not. */
static void take_output(serve_config *self, yyjson_val *value, tool_config *tool) {
  yyjson_val *schema = yyjson_obj_get(value, "output_schema");
  const char *output = config_text(value, "output");
  idem_schema_fault fault;
  if (!schema) return;
  if (!yyjson_obj_get(value, "query") && (!output || strcmp(output, "json") != 0))
    source_fault(&self->source, schema, "tool %s: output_schema needs \"output\": \"json\"",
                 tool->name);
  if (idem_schema_compile(NULL, tool->output_schema, strlen(tool->output_schema), &tool->output,
                          &fault) != IDEM_OK)
    config_schema_fault(self, tool, "output_schema", &fault);
}

/* ------------------------------------------------------------------- which kind */

/* The statements that make a database in memory. */
static const char *read_script(serve_config *self, tool_config *tool, yyjson_val *at) {
  const char *path = config_file(self, (config_owner){"tool", tool->name}, at, "script");
  const char *why;
  FILE *file = path ? regular_file_open(path, &why) : NULL;
  tool->script_path = path;
  if (!file) {
    if (path)
      source_fault(&self->source, at, "tool %s: script %s: %s", tool->name, yyjson_get_str(at),
                   why);
    return NULL;
  }
  char *text = memory_zeroed(&self->memory, SCRIPT_MAX + 1, 1);
  size_t len = fread(text, 1, SCRIPT_MAX + 1, file);
  fclose(file);
  if (len <= SCRIPT_MAX && !memchr(text, 0, len)) return text;
  source_fault(&self->source, at, "tool %s: script %s: is longer than 1 MiB or no text", tool->name,
               yyjson_get_str(at));
  return NULL;
}

static void take_query(serve_config *self, yyjson_val *value, tool_config *tool) {
  yyjson_val *database = yyjson_obj_get(value, "database");
  yyjson_val *script = yyjson_obj_get(value, "script");
  tool->may_write = config_true(value, "write");
  tool->max_rows = config_number(value, "max_rows", CONFIG_MAX_ROWS);
  if (!database == !script)
    source_fault(&self->source, tool->key, "tool %s: a query needs either a database or a script",
                 tool->name);
  if (script && tool->may_write)
    source_fault(&self->source, tool->key, "tool %s: what is written after a script is lost",
                 tool->name);
  if (database)
    tool->database = config_path(self, (config_owner){"tool", tool->name}, database, "database");
  if (script) tool->script = read_script(self, tool, script);
}

/* Keys that have an effect for one kind alone; "output" is for two. */
static const struct kind_key {
  const char *key;
  bool run, query, http;
} kind_keys[] = {
    {"stdin", true, false, false},     {"cwd", true, false, false},
    {"inside", true, false, false},    {"env", true, false, false},
    {"pass_env", true, false, false},  {"output", true, false, true},
    {"stderr", true, false, false},    {"progress", true, false, false},
    {"idle_ms", true, false, true},    {"exit_ok", true, false, false},
    {"confine", true, false, false},   {"allow", true, false, false},
    {"processes", true, false, false}, {"tmpdir", true, false, false},
    {"database", false, true, false},  {"script", false, true, false},
    {"write", false, true, false},     {"max_rows", false, true, false},
    {"unsafe", true, false, false},    {"keep", true, false, false},
};

/* A key that would have no effect is a mistake. */
static void refuse_keys(serve_config *self, yyjson_val *value, const tool_config *tool) {
  yyjson_val *key, *item;
  size_t i, max;
  idem_each_member(value, i, max, key, item) {
    (void)item;
    for (size_t j = 0; j < sizeof kind_keys / sizeof *kind_keys; j++) {
      const struct kind_key *row = &kind_keys[j];
      bool fits = tool->is_program ? row->run : tool->query ? row->query : row->http;
      if (!fits && yyjson_equals_str(key, row->key))
        source_fault(&self->source, key, "\"%s\" is for tools with \"%s\"", row->key,
                     row->run ? "run" : "query");
    }
  }
}

static bool take_kind(serve_config *self, yyjson_val *value, tool_config *tool) {
  bool run = yyjson_obj_get(value, "run"), query = yyjson_obj_get(value, "query");
  bool http = yyjson_obj_get(value, "http");
  tool->is_program = run;
  tool->query = config_text(value, "query");
  bool any = run || query || http;
  if (run + query + http != 1) {
    source_fault(&self->source, tool->key, "tool %s: %s \"run\", \"query\" and \"http\"%s",
                 tool->name, any ? "has more than one of" : "needs one of",
                 any ? ": make two tools of it" : "");
    return false;
  }
  refuse_keys(self, value, tool);
  if (run) return config_program(self, value, tool);
  if (http) return config_http(self, value, tool);
  take_query(self, value, tool);
  return true;
}

uint64_t config_usual_deadline(const tool_config *tool) {
  if (tool->hidden) return CONFIG_COMPLETE_MS;
  yyjson_val *value = tool->definition;
  return yyjson_obj_get(value, "query") ? 10000 : yyjson_obj_get(value, "http") ? 30000 : 600000;
}

/* The schema of the file has no other words. */
static idem_once once_of(const char *word) {
  if (!word || strcmp(word, "key") == 0) return IDEM_ONCE_KEY;
  return strcmp(word, "always") == 0 ? IDEM_ONCE_ALWAYS : IDEM_ONCE_NEVER;
}

bool config_tool(serve_config *self, yyjson_val *key, tool_config *tool) {
  yyjson_val *value = yyjson_obj_iter_get_val(key);
  tool->key = key;
  tool->definition = value;
  tool->name = yyjson_get_str(key);
  tool->title = config_text(value, "title");
  tool->description = config_text(value, "description");
  tool->annotations = config_json(self, yyjson_obj_get(value, "annotations"));
  tool->output_schema = config_json(self, yyjson_obj_get(value, "output_schema"));
  tool->once = once_of(config_text(value, "once"));
  tool->idle_ms = config_number(value, "idle_ms", CONFIG_IDLE_MS);
  tool->output_bytes = config_number(value, "output_bytes", CONFIG_OUTPUT_BYTES);
  tool->deadline_ms = config_number(value, "deadline_ms", config_usual_deadline(tool));
  tool->scopes = config_scopes(self, value);
  take_output(self, value, tool);
  check_input(self, value, tool);
  config_defaults(self, tool);
  return take_kind(self, value, tool);
}
