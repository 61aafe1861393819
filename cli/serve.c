/* serve.c - the verb `serve`: a configuration in, a complete MCP server out. */
#include "serve.h"

#include "cli.h"
#include "service.h"

#include <stdio.h>

/* ------------------------------------------------------------------------- serving */

/* What protects the machine from the programs, and what does not. */
static void say_confinement(const edition *self, idem_log *log) {
  const confinement *bounds = &self->bounds;
  size_t programs = 0, free_ones = 0;
  for (size_t i = 0; i < self->config.tool_count; i++) {
    programs += self->config.tools[i].is_program;
    free_ones += self->config.tools[i].is_program && bounds->rules[i] < 0;
  }
  if (!programs) return;
  idem_logf(log, IDEM_LOG_INFO, "programs are kept in bounds",
            "in force: process groups, clean environment, no new privileges, no core files, time "
            "and output limits%s%s",
            bounds->abi ? ", files by Landlock" : "", bounds->abi >= 4 ? ", no TCP" : "");
  if (!bounds->abi)
    idem_logf(log, IDEM_LOG_WARN, "programs are not confined",
              "this kernel has no Landlock: they read and write files and use the network as this "
              "user can");
  else
    idem_logf(log, IDEM_LOG_INFO, "programs are not confined in everything",
              "not in force: UDP%s is open; %zu of %zu tools are not confined (confine: false)",
              bounds->abi >= 4 ? "" : " and TCP", free_ones, programs);
}

static int serve(const serve_options *options, service *self) {
  say_confinement(self->current, self->log);
  idem_policy policy = idem_policy_preset(options->profile);
  bool mcp = options->profile == IDEM_PROFILE_MCP;
  idem_serve_opts opts = {.server = mcp ? self->server : NULL,
                          .router = self->plain.router,
                          .policy = mcp ? NULL : &policy,
                          .log = self->log,
                          .http = &options->http,
                          .on_loop = service_on_loop,
                          .on_hangup = service_on_hangup,
                          .user = self};
  int code = idem_run((const char *const *)options->urls, options->url_count, &opts);
  program_host_end(&self->programs);
  return code;
}

static int with_service(const serve_options *options, edition *first, source_files *files) {
  static service self; /* handles of the loop are in it, which may outlast us */
  idem_log *log = NULL;
  idem_log_open(&options->log, &log);
  int code = service_init(&self, options, first, files, log) ? serve(options, &self) : 1;
  service_deinit(&self);
  idem_log_free(log);
  return code;
}

static int with_config(const serve_options *options) {
  source_files files = {.count = 0};
  edition *first = edition_read(options->path, NULL, &files);
  int code = 1;
  if (!first) {
    source_files_clear(&files);
    return code;
  }
  const serve_config *config = &first->config;
  if (options->check)
    code = printf("%s: %zu tools, %zu resources, %zu prompts: fine\n", options->path,
                  config->tool_count, config->resource_count, config->prompt_count) < 0;
  else if (options->dry_run)
    code = serve_dry_run(config, options->dry_run, options->dry_run_values, options->dry_run_count);
  else
    return with_service(options, first, &files);
  edition_free(first);
  source_files_clear(&files);
  return code;
}

static int run(int argc, char **argv) {
  serve_options options;
  int code;
  if (serve_options_parse(&options, argc, argv, &code))
    code = options.print_schema ? fputs(embedded_idem_schema_json, stdout) == EOF
                                : with_config(&options);
  serve_options_free(&options);
  return code;
}

const verb serve_verb = {"serve", "serve what idem.json describes", serve_help, run};
