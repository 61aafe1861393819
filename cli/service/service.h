/* service.h - a server while it runs: what it serves, and how that is exchanged for what a changed
 * configuration says. See docs/internals/cli.md, "Reloading". */
#ifndef IDEM_CLI_SERVICE_H
#define IDEM_CLI_SERVICE_H

#include "page/page.h"
#include "plain.h"
#include "verbs/serve.h"

typedef struct service {
  const serve_options *options;
  idem_log *log;
  idem_server *server;
  program_host programs;
  plain_host plain; /* the profiles jsonrpc and lsp */
  edition *current;
  edition *started; /* the first one: what a later one may go back to */
  watcher watcher;
  source_files files; /* what the last reading looked at, good or not */
  bool files_dirty;
  uv_loop_t *loop;
  uv_async_t awake; /* keeps stdio on the loop, where signals and changes are noticed at once */
  uv_work_t work;
  bool reloading;
  bool again;    /* asked for while one was under way */
  edition *next; /* made by the work; NULL: it has faults */
  idem_server *scratch;
  page page; /* of the options' say: see serve_options.page */
} service;

/* False: told. service_deinit either way. `first` and what `files`
 * holds become the service's. */
bool service_init(service *self, const serve_options *options, edition *first,
                  const source_files *files, idem_log *log);
void service_deinit(service *self);
void service_keep_secrets(const service *self); /* out of the log */
idem_server *service_new_server(const serve_config *config, const serve_options *options,
                                idem_log *log);
/* Which codes errors have: the flag's, or else the file's. */
idem_code_set service_codes(const serve_config *config, const serve_options *options);

/* complete.c: completion/complete. Declared once an edition has something to complete. */
void service_complete(service *self);

/* reload.c: hooks of idem_run; `user` is the service. */
void service_on_loop(uv_loop_t *loop, void *user);
void service_on_hangup(void *user);
void service_on_listening(const char *url, void *user);
/* Watches the configuration and all that it refers to. */
void service_watch(service *self);

#endif
