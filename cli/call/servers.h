/* servers.h - servers that assistants were told of: mcpServers files in their usual places.
 * Only read: nothing in a file is run until its server is called by name. */
#ifndef IDEM_CLI_CALL_SERVERS_H
#define IDEM_CLI_CALL_SERVERS_H

#include "config/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <yyjson.h>

/* One server as its file has it, not yet expanded. */
typedef struct known_server {
  const char *name;
  const char *path;  /* of the file */
  const char *owner; /* "Claude Desktop", "Cursor", ... */
  yyjson_val *entry;
} known_server;

#define SERVERS_FILES 64
typedef struct known_servers {
  config_memory memory;
  known_server *items;
  size_t count;
  size_t room;
  yyjson_doc *docs[SERVERS_FILES];
  size_t doc_count;
} known_servers;

/* Looks through the usual places, those of the folder in hand first; `config` (not NULL) is the one
 * file to look at instead. False: that file cannot be read, and stderr says why. Free either way. */
bool servers_find(known_servers *self, const char *config);
void servers_free(known_servers *self);
/* The first of that name; says on stderr if a later file means another by it. NULL: there is none. */
const known_server *servers_named(const known_servers *self, const char *name);
/* Says which there are, on `out`, at most `most` of them. */
void servers_list(const known_servers *self, FILE *out, size_t most);
/* Whether a document's root looks like such a file; then the object of servers. */
yyjson_val *servers_of(yyjson_val *root);

#endif
