/* edition.c - see edition.h. */
#include "edition.h"

#include "program/bounds.h"
#include "program/keep.h"

#include <stdlib.h>

/* ------------------------------------------------------------------------- making */

edition *edition_read(const char *path, idem_log *log, source_files *files, edition_use use) {
  edition *self = calloc(1, sizeof *self);
  if (!self) return NULL;
  bool fine = config_load(&self->config, path, log, files, use.cautious);
  if (self->config.readable) { /* all faults at once */
    fine = bounds_check(&self->config) && fine;
    fine = query_check(&self->config) && fine;
    if (use.plain) fine = config_suits_plain(&self->config) && fine;
    if (use.inputs || !fine) fine = config_inputs(&self->config) && fine;
  }
  if (fine) return self;
  config_free(&self->config);
  free(self);
  return NULL;
}

/* Tools that name the same program that stays share it. */
static bool open_program(edition *self, program_host *programs, size_t index) {
  program_tool *tool = &self->program_tools[index];
  program_tool_init(tool, programs, self, index);
  if (!tool->config->keep) return true;
  for (size_t i = 0; i < index && !tool->kept; i++)
    if (kept_is_shared(tool->config, &self->config.tools[i]))
      tool->kept = self->program_tools[i].kept;
  if (!tool->kept) tool->kept = kept_new(tool);
  if (tool->kept) kept_join(tool->kept, tool->config);
  return tool->kept;
}

/* The first tool that names it is its owner, unless it was passed on. */
static void each_kept(edition *self, void (*each)(kept_program *one)) {
  for (size_t i = self->program_tools ? self->config.tool_count : 0; i-- > 0;) {
    kept_program *one = self->program_tools[i].kept;
    bool shared = false;
    for (size_t j = 0; j < i; j++) shared = shared || self->program_tools[j].kept == one;
    if (one && !shared && kept_is_of(one, self)) each(one);
  }
}

/* Queries run on threads; without them the first call would be the last thing that happens. */
static bool has_threads(const serve_config *config, idem_log *log) {
  bool needed = false;
  for (size_t i = 0; i < config->tool_count; i++)
    needed |= !config->tools[i].is_program && !config->tools[i].http;
  if (!needed || idem_offload_ready() == IDEM_OK) return true;
  idem_logf(log, IDEM_LOG_ERROR, "cannot serve",
            "the threads that queries run on cannot be had: memory or processes are limited");
  return false;
}

bool edition_open(edition *self, program_host *programs) {
  serve_config *config = &self->config;
  self->program_tools = calloc(config->tool_count + 1, sizeof *self->program_tools);
  self->query_tools = calloc(config->tool_count + 1, sizeof *self->query_tools);
  self->http_tools = calloc(config->tool_count + 1, sizeof *self->http_tools);
  self->entries = calloc(config->tool_count + 1, sizeof *self->entries);
  if (!self->program_tools || !self->query_tools || !self->http_tools || !self->entries)
    return false;
  if (!confinement_init(&self->bounds, config, &programs->runners.folder, programs->own_files))
    return false;
  for (size_t i = 0; i < config->tool_count; i++) {
    tool_config *tool = &config->tools[i];
    self->entries[i] = (tool_entry){self, i};
    if (tool->is_program && !open_program(self, programs, i)) return false;
    if (tool->is_program) continue;
    if (!tool->http)
      query_tool_init(&self->query_tools[i], self, tool);
    else
      http_tool_init(&self->http_tools[i], self, tool, programs->runners.log);
  }
  content_init(&self->content, config, self->bounds.hidden);
  return has_threads(config, programs->runners.log);
}

/* A server knows a tool as long as a call of it may be begun, perhaps when its store has answered. */
static void let_go(void *user) { edition_release(((tool_entry *)user)->edition); }

/* What is wrong with a schema is told at its place, the rest at the tool's. */
static bool add_tool(edition *self, idem_server *server, size_t index) {
  tool_config *config = &self->config.tools[index];
  char why[512] = "no memory";
  idem_tool tool = {.name = config->name,
                    .title = config->title,
                    .description = config->description,
                    .input_schema = config_input_schema(&self->config, config),
                    .output_schema = config->output_schema,
                    .annotations = config->annotations,
                    .once = config->once,
                    .release = let_go,
                    .scopes = config->scopes};
  edition_tool_handler(self, index, &tool.fn, &tool.user);
  edition_hold(self);
  if (idem_server_add_tool(server, &tool, why, sizeof why) == IDEM_OK) return true;
  edition_release(self);
  yyjson_val *input = yyjson_obj_get(yyjson_obj_iter_get_val(config->key), "input");
  if (config_input(&self->config, config))
    source_fault(&self->config.source, input ? input : config->key, "%s", why);
  return false;
}

bool edition_fill(edition *self, idem_server *server) {
  bool fine = true;
  for (size_t i = 0; i < self->config.shown_count; i++) fine = add_tool(self, server, i) && fine;
  return content_fill(&self->content, server) && fine;
}

/* ------------------------------------------------------------------------ calling */

static void call_kind(tool_entry *self, idem_request *request, yyjson_val *arguments) {
  edition *owner = self->edition;
  const tool_config *config = &owner->config.tools[self->index];
  if (config->is_program)
    program_tool_call(request, arguments, &owner->program_tools[self->index]);
  else if (config->http)
    http_tool_call(request, arguments, &owner->http_tools[self->index]);
  else
    query_tool_call(request, arguments, &owner->query_tools[self->index]);
}

/* A handler copies what it needs of the arguments before it returns. */
static void call_tool(idem_request *request, yyjson_val *arguments, void *user) {
  tool_entry *self = user;
  const tool_config *config = &self->edition->config.tools[self->index];
  if (!config->has_defaults) {
    call_kind(self, request, arguments);
    return;
  }
  yyjson_doc *filled = config_fill(config, arguments, false);
  if (filled)
    call_kind(self, request, yyjson_doc_get_root(filled));
  else
    reply_no_memory(request, config);
  yyjson_doc_free(filled);
}

void edition_tool_handler(edition *self, size_t index, idem_tool_fn *fn, void **user) {
  *fn = call_tool;
  *user = &self->entries[index];
}

/* ---------------------------------------------------------------------- passing on */

static kept_program *find_running(const edition *self, const kept_program *next) {
  for (size_t i = 0; i < self->config.tool_count; i++) {
    kept_program *one = self->program_tools[i].kept;
    if (one && kept_is_of(one, self) && kept_stays(one, next)) return one;
  }
  return NULL;
}

static void replace_kept(edition *self, const kept_program *old, kept_program *by) {
  for (size_t i = 0; i < self->config.tool_count; i++)
    if (self->program_tools[i].kept == old) self->program_tools[i].kept = by;
}

/* Calls of this edition may still be asked of what is the next one's: so that one outlives this. */
void edition_pass_on(edition *self, edition *next) {
  for (size_t i = 0; i < next->config.tool_count; i++) {
    kept_program *fresh = next->program_tools[i].kept;
    kept_program *running = fresh ? find_running(self, fresh) : NULL;
    if (!running) continue;
    replace_kept(next, fresh, running);
    kept_pass_on(running, fresh);
    kept_free(fresh);
    if (!self->next) edition_hold(next);
    self->next = next;
  }
}

/* ------------------------------------------------------------------------- ending */

void edition_free(edition *self) {
  if (self->content.config) content_deinit(&self->content);
  confinement_deinit(&self->bounds);
  each_kept(self, kept_free);
  free(self->program_tools);
  for (size_t i = 0; self->query_tools && i < self->config.tool_count; i++)
    query_tool_deinit(&self->query_tools[i]);
  free(self->query_tools);
  free(self->http_tools);
  free(self->entries);
  config_free(&self->config);
  edition *next = self->next;
  free(self);
  if (next) edition_release(next);
}

void edition_retire(edition *self) {
  self->retired = true;
  self->calls++; /* while its programs are told */
  each_kept(self, kept_retire);
  edition_release(self);
}

void edition_hold(edition *self) { self->calls++; }

void edition_release(edition *self) {
  if (--self->calls == 0 && self->retired) edition_free(self);
}
