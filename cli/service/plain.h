/* plain.h - the profiles jsonrpc and lsp: each tool is a method of its name.
 * Object params are its arguments, array params its properties in the order of the schema. */
#ifndef IDEM_CLI_PLAIN_H
#define IDEM_CLI_PLAIN_H

#include "edition.h"

typedef struct plain_method plain_method;

typedef struct plain_host {
  idem_router *router; /* NULL: MCP is served, and nothing here is used */
  idem_schema_ctx *checker;
  plain_method *methods; /* of every edition so far: a router forgets no name */
  edition *current;
  idem_log *log;
} plain_host;

/* False: told. plain_deinit either way. */
bool plain_init(plain_host *self, idem_profile profile, const serve_config *config, idem_log *log);
void plain_deinit(plain_host *self);
/* Serves the tools of this edition, and no longer those that only an older one had. Before serving,
 * or on the loop outside of any handler. False: told. */
bool plain_serve(plain_host *self, edition *current);

#endif
