/* token_store.h - tokens that outlive a call: a file for each server and client, for the user alone.
 * One process at a time refreshes: it holds the lock beside the file, and reads the file again once it has it. */
#ifndef IDEM_CLI_CALL_TOKEN_STORE_H
#define IDEM_CLI_CALL_TOKEN_STORE_H

#include "text.h"

typedef struct token_store {
  int folder;      /* a descriptor; -1: there is none yet */
  int lock;        /* a descriptor while it is held; -1 */
  char path[2048]; /* of the folder */
  char stem[192];  /* of the file's name, without ".json" */
  char why[320];   /* what is wrong with it, a sentence */
} token_store;

/* The file of a server and client; the client NULL: the one that registers itself (see token_clients.h for the others).
 * False: `why` says why nothing can be kept. No file is none of that. Close it either way. */
bool token_store_open(token_store *self, const char *url, const char *client);
void token_store_close(token_store *self);

typedef enum token_file { TOKEN_FILE_NONE, TOKEN_FILE_READ, TOKEN_FILE_REFUSED } token_file;
/* What it holds is put behind `out`. REFUSED: a link, somebody else's, or open to others; `why` says it. */
token_file token_store_read(token_store *self, text *out);
/* Whole or not at all; false: `why`. */
bool token_store_write(token_store *self, const char *data, size_t len);
bool token_store_remove(token_store *self);
/* Tries to take the lock. Where there can be none (`why`), it is not held and nobody waits for it. */
typedef enum token_lock { TOKEN_LOCK_HELD, TOKEN_LOCK_BUSY, TOKEN_LOCK_REFUSED } token_lock;
token_lock token_store_lock(token_store *self);
void token_store_unlock(token_store *self);
/* The file's whole name, for people. */
void token_store_name(const token_store *self, char *out, size_t size);

#endif
