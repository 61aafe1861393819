/* secret.h - secrets of the command line, which has references to them and never themselves: others can read it. */
#ifndef IDEM_CLI_CALL_SECRET_H
#define IDEM_CLI_CALL_SECRET_H

#include "config/memory.h"

#include <stdbool.h>

/* The first line of what a command prints; its words are split at blanks, no shell reads them. NULL: stderr has said why. */
const char *secret_of_command(config_memory *memory, const char *flag, const char *words);

/* --client ID[:REFERENCE]. */
typedef struct call_client {
  const char *id;     /* NULL: none was given */
  const char *secret; /* NULL: none */
  const char *key;    /* PEM; NULL: none */
} call_client;
/* False: stderr has said why. */
bool secret_client(config_memory *memory, const char *given, call_client *out);
/* Its id is the URL of a document about it. */
bool secret_client_is_document(const call_client *client);
/* Its id without what a reference leads to. */
const char *secret_client_id(config_memory *memory, const char *given);

#endif
