/* serve.c - the verb `serve`: a configuration in, a complete MCP server out. */
#include "serve.h"

#include "cli.h"
#include "edition.h"

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

static idem_server *new_server(const serve_config *config, idem_log *log) {
  idem_server *server = NULL;
  idem_server_opts opts = {.name = config->name,
                           .version = config->version,
                           .title = config->title,
                           .description = config->description,
                           .instructions = config->instructions,
                           .log = log};
  idem_server_os(&opts);
  return idem_server_new(&opts, &server) == IDEM_OK ? server : NULL;
}

static void keep_secrets(const serve_config *config, idem_log *log) {
  for (size_t i = 0; i < config->secret_count; i++)
    idem_log_add_secret(log, config->secrets[i].text, config->secrets[i].len);
}

static int serve(const serve_options *options, edition *first) {
  idem_log *log = NULL;
  program_host programs;
  int code = 1;
  idem_log_open(&options->log, &log);
  keep_secrets(&first->config, log);
  program_host_init(&programs);
  idem_server *server = new_server(&first->config, log);
  if (server && edition_open(first, &programs) && edition_fill(first, server)) {
    program_host_limits(&programs, &first->config);
    say_confinement(first, log);
    idem_serve_opts opts = {.server = server, .log = log, .http = &options->http};
    code = idem_run((const char *const *)options->urls, options->url_count, &opts);
    program_host_end(&programs);
  }
  idem_server_free(server);
  idem_log_free(log);
  return code;
}

static int with_config(const serve_options *options) {
  edition *first = edition_read(options->path, NULL);
  int code = 1;
  if (!first) return code;
  const serve_config *config = &first->config;
  if (options->check)
    code = printf("%s: %zu tools, %zu resources, %zu prompts: fine\n", options->path,
                  config->tool_count, config->resource_count, config->prompt_count) < 0;
  else if (options->dry_run)
    code = serve_dry_run(config, options->dry_run, options->dry_run_values, options->dry_run_count);
  else
    code = serve(options, first);
  edition_free(first);
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
