/* serve.h - the verb `serve`: its options, and what it serves from a configuration. */
#ifndef IDEM_CLI_SERVE_H
#define IDEM_CLI_SERVE_H

#include "config/config.h"

#include <idem/uv.h>

#define SERVE_URLS 16
#define SERVE_LIST 64

typedef struct serve_list {
  const char *items[SERVE_LIST + 1]; /* ends with NULL */
  size_t count;
} serve_list;

typedef struct serve_options {
  const char *path;
  idem_profile profile;
  idem_code_set codes;
  bool codes_given; /* by a flag: else the file says which */
  char *urls[SERVE_URLS];
  size_t url_count;
  bool exposed; /* an address that others than this machine reach */
  bool open;    /* an address that asks for no token */
  bool no_auth;
  bool needs_auth; /* an address that others reach: without tokens, unless the file has "auth" */
  bool page, no_page, page_anywhere;
  char *page_key;     /* of the environment; NULL: none */
  bool ignores_input; /* stdin is a file or device that nobody reads */
  bool may_loosen;    /* a reload may give tools more */
  bool check;
  bool print_schema;
  const char *dry_run; /* a tool's name */
  char **dry_run_values;
  int dry_run_count;
  serve_list tokens;
  serve_list allow_hosts;
  serve_list allow_origins;
  serve_list trusted_proxies;
  const char *token_file;
  unsigned token_mode;   /* of that file */
  size_t shortest_token; /* in bytes */
  char *token_text;
  const char *store;    /* a URL; NULL: in memory */
  char *store_files[4]; /* of a store: its file and what SQLite puts beside it, or its password's */
  uint64_t key_ms, lease_ms, drain_ms, grace_ms;
  const char *own_files[6]; /* what no program may read: the token file and these; ends with NULL */
  const char *why;          /* a flag's value was refused, if it is not only its form */
  idem_http_opts http;
  size_t max_connections, client_connections;
  idem_log_setup log;
} serve_options;

/* True: go on; false: *code is the exit status. serve_options_free either way. */
bool serve_options_parse(serve_options *self, int argc, char **argv, int *code);
void serve_options_free(serve_options *self);
/* Fills own_files and store_files (serve_files.c). False: no memory. */
bool serve_options_name_files(serve_options *self);
/* For completion: the file and the tool that a line names whose last word is still being written; nothing is
 * opened or judged. *tool is NULL where the tool is what is being written; false: no --dry-run. */
bool serve_options_glance(int argc, char **argv, const char **path, const char **tool);
/* The flags, each with its meaning, to stdout. */
void serve_options_help(void);
void serve_help(void);

/* Whether the two go together; false: told. And what is allowed and hardly meant, for --check. */
bool serve_auth_fits(const serve_options *self, const serve_config *config);
bool serve_auth_may_open(const serve_options *self); /* ... of a file without "auth" */
void serve_auth_explain(const serve_options *self, const serve_config *config);
/* Of tokens that are easily had: to the log, or where that is NULL to stderr. */
void serve_auth_warn(const serve_options *self, idem_log *log);

/* Shows what a call would run; the exit status. */
int serve_dry_run(const serve_config *config, const char *name, char **given, int count);

#endif
