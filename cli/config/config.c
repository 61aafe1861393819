/* config.c - reads idem.json: the schema first, then what a schema cannot say.
 * All faults of a file are told at once, so that it is mended in one go. */
#include "config.h"

#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCRATCH_MAX ((size_t)32 << 20) /* "string" of a file of 4 MiB becomes {"type":"string"} */

/* ------------------------------------------------------------------------ helpers */

const char *config_text(yyjson_val *object, const char *name) {
  return yyjson_get_str(yyjson_obj_get(object, name));
}

uint64_t config_number(yyjson_val *object, const char *name, uint64_t otherwise) {
  const char *text = yyjson_get_raw(yyjson_obj_get(object, name));
  return text ? (uint64_t)strtod(text, NULL) : otherwise; /* 1e3 is an integer, too */
}

bool config_true(yyjson_val *object, const char *name) {
  return yyjson_is_true(yyjson_obj_get(object, name));
}

const char *config_json(serve_config *self, yyjson_val *value) {
  self->scratch.len = 0;
  if (!value || idem_json_put(&self->scratch, value) != IDEM_OK) return NULL;
  return memory_text(&self->memory, self->scratch.data, self->scratch.len);
}

const char *config_join(serve_config *self, const char *path) {
  size_t size = strlen(self->source.folder) + strlen(path) + 2;
  char *joined = memory_zeroed(&self->memory, size, 1);
  snprintf(joined, size, "%s/%s", *path == '/' ? "" : self->source.folder, path);
  return joined;
}

const char *config_path(serve_config *self, config_owner owner, yyjson_val *at, const char *what) {
  const char *path = yyjson_get_str(at);
  char *real = realpath(config_join(self, path), NULL);
  if (!real) {
    source_fault(&self->source, at, "%s %s: %s %s: %s%s", owner.kind, owner.name, what, path,
                 strerror(errno),
                 config_is_home(path) ? "; no shell reads ~: write the whole path" : "");
    return NULL;
  }
  const char *copy = memory_text(&self->memory, real, strlen(real));
  free(real);
  return copy;
}

const char *config_file(serve_config *self, config_owner owner, yyjson_val *at, const char *what) {
  source_note_file(&self->source, config_join(self, yyjson_get_str(at)));
  return config_path(self, owner, at, what);
}

/* -------------------------------------------------------------------------- parts */

static void take_head(serve_config *self, yyjson_val *root) {
  const char *name = config_text(root, "name"), *version = config_text(root, "version");
  self->name = name ? name : "idem";
  self->version = version ? version : "0.0.0";
  self->title = config_text(root, "title");
  self->description = config_text(root, "description");
  self->instructions = config_text(root, "instructions");
  self->codes = yyjson_equals_str(yyjson_obj_get(root, "codes"), "erlmcp") ? IDEM_CODES_ERLMCP
                                                                           : IDEM_CODES_STANDARD;
  self->concurrency = config_number(root, "concurrency", 8);
  self->queue = config_number(root, "queue", 1000);
}

/* NULL: absent, or nothing that can be read. */
static yyjson_val *part(const serve_config *self, yyjson_val *root, const char *name) {
  yyjson_val *found = yyjson_obj_get(root, name);
  return source_is_broken(&self->source, found) ? NULL : found;
}

/* At most one for each argument of a prompt and each resource. */
static size_t count_hidden(yyjson_val *root) {
  yyjson_val *prompts = yyjson_obj_get(root, "prompts"), *key, *value;
  size_t i, max, count = yyjson_obj_size(yyjson_obj_get(root, "resources"));
  idem_each_member(prompts, i, max, key, value) {
    count += yyjson_obj_size(yyjson_obj_get(value, "arguments"));
  }
  return count;
}

static void take_tools(serve_config *self, yyjson_val *root) {
  yyjson_val *tools = part(self, root, "tools"), *key, *value;
  size_t i, max, most = yyjson_obj_size(tools) + count_hidden(root);
  self->tools = memory_zeroed(&self->memory, most + 1, sizeof *self->tools);
  idem_each_member(tools, i, max, key, value) {
    if (source_is_broken(&self->source, value)) continue;
    tool_config *tool = &self->tools[self->tool_count++]; /* a half-read one is freed, too */
    unsigned faults = self->source.faults;
    config_tool(self, key, tool);
    if (self->source.faults == faults) config_notes(self, tool); /* a fault often explains it */
  }
  self->shown_count = self->tool_count;
}

/* People paste what their assistant's settings have. It is better told than refused, or not told. */
static void take_servers(serve_config *self, yyjson_val *servers) {
  yyjson_val *key, *value;
  size_t i, max;
  idem_each_member(servers, i, max, key, value) {
    (void)value;
    source_note(&self->source, key,
                "the MCP server %s is not served: idem cannot stand before other servers yet; its "
                "programs can be tools here (\"run\"), and an assistant can use it directly",
                yyjson_get_str(key));
  }
}

static void take_resources(serve_config *self, yyjson_val *resources) {
  yyjson_val *key, *value;
  size_t i, max;
  self->resource_count = yyjson_obj_size(resources);
  self->resources = memory_zeroed(&self->memory, self->resource_count + 1, sizeof *self->resources);
  idem_each_member(resources, i, max, key, value) {
    if (!source_is_broken(&self->source, value)) config_resource(self, key, &self->resources[i]);
  }
}

static void take_prompts(serve_config *self, yyjson_val *prompts) {
  yyjson_val *key, *value;
  size_t i, max;
  self->prompt_count = yyjson_obj_size(prompts);
  self->prompts = memory_zeroed(&self->memory, self->prompt_count + 1, sizeof *self->prompts);
  idem_each_member(prompts, i, max, key, value) {
    if (!source_is_broken(&self->source, value)) config_prompt(self, key, &self->prompts[i]);
  }
}

bool config_inputs(serve_config *self) {
  for (size_t i = 0; i < self->tool_count; i++)
    if (!self->tools[i].hidden) config_input(self, &self->tools[i]);
  return self->source.faults == 0;
}

/* With a fault, all are told. */
bool config_load(serve_config *self, const char *path, idem_log *log, source_files *files,
                 bool cautious) {
  *self = (serve_config){.cautious = cautious};
  idem_buf_init(&self->scratch, NULL, SCRATCH_MAX);
  if (!source_read(&self->source, path, log, files)) return false;
  if (!source_check(&self->source, embedded_idem_schema_json)) return false;
  yyjson_val *root = yyjson_doc_get_root(self->source.doc);
  take_head(self, root);
  config_auth(self, part(self, root, "auth"));
  take_tools(self, root);
  take_servers(self, part(self, root, "mcpServers"));
  take_resources(self, part(self, root, "resources"));
  take_prompts(self, part(self, root, "prompts"));
  config_auth_offer(self);
  config_note_implied(self);
  self->readable = true;
  return self->source.faults == 0 || config_inputs(self);
}

static const char *ending(size_t count) { return count == 1 ? "" : "s"; }

const char *config_counts(const serve_config *self, char text[CONFIG_COUNTS]) {
  size_t tools = self->shown_count, resources = self->resource_count, prompts = self->prompt_count;
  snprintf(text, CONFIG_COUNTS, "%zu tool%s, %zu resource%s, %zu prompt%s", tools, ending(tools),
           resources, ending(resources), prompts, ending(prompts));
  return text;
}

void config_free(serve_config *self) {
  for (size_t i = 0; i < self->tool_count; i++) {
    idem_schema_free(self->tools[i].input);
    idem_schema_free(self->tools[i].output);
  }
  idem_buf_deinit(&self->scratch);
  memory_free(&self->memory);
  source_free(&self->source);
}
