/* edition.c - see edition.h. */
#include "edition.h"

#include "program/bounds.h"

#include <stdlib.h>

/* ------------------------------------------------------------------------- making */

edition *edition_read(const char *path, idem_log *log, source_files *files, bool inputs,
                      bool cautious) {
  edition *self = calloc(1, sizeof *self);
  if (!self) return NULL;
  if (config_load(&self->config, path, log, files, cautious) && bounds_check(&self->config) &&
      query_check(&self->config) && (!inputs || config_inputs(&self->config)))
    return self;
  config_free(&self->config);
  free(self);
  return NULL;
}

bool edition_open(edition *self, program_host *programs) {
  serve_config *config = &self->config;
  self->program_tools = calloc(config->tool_count + 1, sizeof *self->program_tools);
  self->query_tools = calloc(config->tool_count + 1, sizeof *self->query_tools);
  self->http_tools = calloc(config->tool_count + 1, sizeof *self->http_tools);
  if (!self->program_tools || !self->query_tools || !self->http_tools) return false;
  if (!confinement_init(&self->bounds, config, &programs->hands.folder, programs->token_file))
    return false;
  for (size_t i = 0; i < config->tool_count; i++) {
    tool_config *tool = &config->tools[i];
    if (tool->is_program)
      program_tool_init(&self->program_tools[i], programs, self, i);
    else if (!tool->http)
      query_tool_init(&self->query_tools[i], self, tool);
    else
      http_tool_init(&self->http_tools[i], self, tool, programs->hands.log);
  }
  content_init(&self->content, config);
  return true;
}

/* What is wrong with a schema is told at its place, the rest at the tool's. */
static bool add_tool(edition *self, idem_server *server, size_t index) {
  tool_config *config = &self->config.tools[index];
  char why[512] = "no memory";
  idem_tool tool = {.name = config->name,
                    .title = config->title,
                    .description = config->description,
                    .input_schema = config_input_schema(&self->config, config),
                    .output_schema = config->output_schema,
                    .annotations = config->annotations};
  edition_tool_handler(self, index, &tool.fn, &tool.user);
  if (idem_server_add_tool(server, &tool, why, sizeof why) == IDEM_OK) return true;
  yyjson_val *input = yyjson_obj_get(yyjson_obj_iter_get_val(config->key), "input");
  if (config_input(&self->config, config))
    source_fault(&self->config.source, input ? input : config->key, "%s", why);
  return false;
}

void edition_tool_handler(edition *self, size_t index, idem_tool_fn *fn, void **user) {
  const tool_config *config = &self->config.tools[index];
  *fn = config->is_program ? program_tool_call : config->http ? http_tool_call : query_tool_call;
  *user = config->is_program ? (void *)&self->program_tools[index]
          : config->http     ? (void *)&self->http_tools[index]
                             : (void *)&self->query_tools[index];
}

bool edition_fill(edition *self, idem_server *server) {
  bool fine = true;
  for (size_t i = 0; i < self->config.shown_count; i++) fine = add_tool(self, server, i) && fine;
  return content_fill(&self->content, server) && fine;
}

/* ------------------------------------------------------------------------- ending */

void edition_free(edition *self) {
  if (self->content.config) content_deinit(&self->content);
  confinement_deinit(&self->bounds);
  free(self->program_tools);
  for (size_t i = 0; self->query_tools && i < self->config.tool_count; i++)
    query_tool_deinit(&self->query_tools[i]);
  free(self->query_tools);
  free(self->http_tools);
  config_free(&self->config);
  free(self);
}

void edition_retire(edition *self) {
  self->retired = true;
  if (!self->calls) edition_free(self);
}

void edition_hold(edition *self) { self->calls++; }

void edition_release(edition *self) {
  if (--self->calls == 0 && self->retired) edition_free(self);
}
