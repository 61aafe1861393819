/* service.c - see service.h: from a first edition to a server that can be run, and its end. */
#include "service.h"

#include "caller.h"

#include <idem/uv.h>

idem_code_set service_codes(const serve_config *config, const serve_options *options) {
  return options->codes_given ? options->codes : config->codes;
}

static bool require_scopes(idem_server *server, const serve_config *config) {
  idem_status status = IDEM_OK;
  for (size_t i = 0; config->auth && i < config->auth->method_count && status == IDEM_OK; i++)
    status = idem_server_require_scopes(server, config->auth->methods[i].method,
                                        config->auth->methods[i].scopes);
  return status == IDEM_OK;
}

idem_server *service_new_server(const serve_config *config, const serve_options *options,
                                idem_log *log) {
  idem_server *server = NULL;
  idem_server_opts opts = {.name = config->name,
                           .version = config->version,
                           .title = config->title,
                           .description = config->description,
                           .instructions = config->instructions,
                           .codes = service_codes(config, options),
                           .key_ms = options->key_ms,
                           .lease_ms = options->lease_ms,
                           .log = log};
  idem_server_os(&opts);
  if (idem_server_new(&opts, &server) != IDEM_OK) return NULL;
  if (require_scopes(server, config)) return server;
  idem_server_free(server);
  return NULL;
}

void service_keep_secrets(const service *self) {
  const serve_config *config = &self->current->config;
  bool whole = true;
  for (size_t i = 0; i < config->secret_count; i++)
    whole = idem_log_add_secret(self->log, config->secrets[i].text, config->secrets[i].len) ==
                IDEM_OK &&
            whole;
  if (!whole)
    idem_logf(self->log, IDEM_LOG_WARN, "some secrets are not taken out of this log",
              "there have been too many, or one is too long");
}

bool service_init(service *self, const serve_options *options, edition *first,
                  const source_files *files, idem_log *log) {
  *self = (service){
      .options = options, .log = log, .current = first, .started = first, .files = *files};
  edition_hold(first);
  service_keep_secrets(self);
  outcome_begin(log, idem_log_is_watched());
  caller_begin(first->config.auth != NULL);
  program_host_init(&self->programs, log, options->own_files);
  self->server = service_new_server(&first->config, options, log);
  if (!self->server || !edition_open(first, &self->programs) || !edition_fill(first, self->server))
    return false;
  program_host_limits(&self->programs, &first->config);
  service_complete(self);
  if (options->page && !page_init(&self->page, self)) return false;
  return plain_init(&self->plain, options->profile, &first->config, log) &&
         plain_serve(&self->plain, first);
}

/* No loop runs any more: what calls of older editions held is given back with the process. */
void service_deinit(service *self) {
  if (self->page.service) page_deinit(&self->page);
  program_host_end(&self->programs);
  failure_end(self->log);
  outcome_end();
  idem_server_free(self->scratch);
  idem_server_free(self->server);
  plain_deinit(&self->plain);
  if (self->next) edition_free(self->next);
  if (self->started != self->current) edition_release(self->started);
  edition_free(self->current);
  source_files_clear(&self->files);
}
