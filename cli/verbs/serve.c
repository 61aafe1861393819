/* serve.c - the verb `serve`: a configuration in, a complete MCP server out. */
#include "serve.h"

#include "cli.h"
#include "service/service.h"
#include "welcome.h"
#include <idem/uv.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------- serving */

/* A person looks on who has not asked for less. */
static bool welcomes(const serve_options *options) {
  return idem_log_is_watched() && options->log.format == IDEM_LOG_TEXT &&
         options->log.level <= IDEM_LOG_INFO;
}

static void announce(const serve_options *options, const service *self) {
  char counts[CONFIG_COUNTS];
  bool welcomed = welcomes(options);
  if (!welcomed)
    idem_logf(self->log, IDEM_LOG_INFO, "configuration read", "%s",
              config_counts(&self->current->config, counts));
  if (options->ignores_input)
    idem_logf(self->log, IDEM_LOG_WARN, "stdin is not read",
              "it is no pipe; --stdio serves what is in it");
  serve_auth_warn(options, self->log);
  confinement_say(&self->current->bounds, self->log, welcomed);
}

/* Where it really listens; the ports are known by then. */
static struct {
  char *urls[SERVE_URLS];
  size_t count;
} listening;

/* Who is welcomed finds somebody at home: every address is taken by then. */
static void on_listening(const char *url, void *user) {
  const service *self = user;
  serve_options shown = *self->options;
  service_on_listening(url, user);
  if (!welcomes(self->options) || !(listening.urls[listening.count] = strdup(url))) return;
  if (++listening.count < shown.url_count) return;
  memcpy(shown.urls, listening.urls, sizeof shown.urls);
  welcome(stderr, self->current, shown.path, &shown);
  while (listening.count) free(listening.urls[--listening.count]);
}

static idem_http_opts http_of(const serve_options *options, const service *self) {
  idem_http_opts http = options->http;
  if (self->current->config.auth) http.auth = &self->current->config.auth->http;
  if (options->page) {
    http.routes = self->page.routes;
    http.route_count = self->page.route_count;
  }
  return http;
}

static int serve(const serve_options *options, service *self) {
  signal(SIGXFSZ, SIG_IGN); /* a write past ulimit -f is one that fails, as on a full disk */
  announce(options, self);
  idem_policy policy = idem_policy_preset(options->profile);
  policy.codes = service_codes(&self->current->config, options);
  bool mcp = options->profile == IDEM_PROFILE_MCP;
  idem_http_opts http = http_of(options, self);
  idem_serve_opts opts = {.server = mcp ? self->server : NULL,
                          .router = self->plain.router,
                          .policy = mcp ? NULL : &policy,
                          .log = self->log,
                          .http = &http,
                          .store = options->store,
                          .drain_ms = options->drain_ms,
                          .grace_ms = options->grace_ms,
                          .max_connections = options->max_connections,
                          .client_connections = options->client_connections,
                          .on_loop = service_on_loop,
                          .on_listening = on_listening,
                          .on_hangup = service_on_hangup,
                          .user = self};
  return idem_run((const char *const *)options->urls, options->url_count, &opts);
}

static int with_service(const serve_options *options, edition *first, source_files *files) {
  static service self; /* handles of the loop are in it, which may outlast us */
  idem_log *log = NULL;
  idem_log_open(&options->log, &log);
  int code = service_init(&self, options, first, files, log) ? serve(options, &self) : 1;
  service_deinit(&self);
  idem_log_free(log);
  uv_library_shutdown(); /* its threads end before what they used does */
  return code;
}

static int say_fine(const char *path, const serve_config *config) {
  char counts[CONFIG_COUNTS];
  return printf("%s: %s: fine\n", path, config_counts(config, counts)) < 0;
}

static bool store_fits(const serve_options *options) {
  char why[5000];
  if (!options->store || idem_check_store(options->store, why, sizeof why) == IDEM_OK) return true;
  fprintf(stderr, "idem serve: the store cannot be used: %s\n", why);
  return false;
}

/* What only shows when a server is filled with it. */
static bool can_be_served(edition *self, const serve_options *options) {
  program_host programs;
  program_host_init(&programs, NULL, options->own_files);
  idem_server *scratch = service_new_server(&self->config, options, NULL);
  bool fine = scratch && edition_open(self, &programs) && edition_fill(self, scratch);
  idem_server_free(scratch);
  program_host_end(&programs);
  return fine;
}

static int with_config(const serve_options *options) {
  source_files files = {.count = 0};
  bool plain = options->profile != IDEM_PROFILE_MCP;
  edition_use use = {.inputs = options->check || options->dry_run || plain, .plain = plain};
  int code = 1;
  if (!options->check && !options->dry_run)
    idem_stdio_fill_holes(); /* no file of ours becomes the stdout that is missing */
  edition *first = edition_read(options->path, NULL, &files, use);
  if (!first) {
    source_files_clear(&files);
    return serve_auth_may_open(options) ? code : 2;
  }
  const serve_config *config = &first->config;
  bool fits = serve_auth_fits(options, config);
  if (fits && options->check) serve_auth_explain(options, config);
  if (!fits)
    code = 2;
  else if (options->check)
    code =
        can_be_served(first, options) && store_fits(options) ? say_fine(options->path, config) : 1;
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
