/* token_clients.h - whose tokens are kept for one server: of the client that registered itself, and of those that --client named.
 * A call without --client has the first, or else the only other one; which of several would be a guess. */
#ifndef IDEM_CLI_CALL_TOKEN_CLIENTS_H
#define IDEM_CLI_CALL_TOKEN_CLIENTS_H

#include "token_store.h"

#define TOKEN_CLIENTS_MAX 64u

typedef struct token_client {
  char stem[192]; /* of its file's name */
  char id[256];   /* what --client named, or how the server knows it; "": its file cannot be read */
  bool own;       /* it registered itself: no --client */
  bool in;        /* there are tokens, or it cannot be read whether there are */
} token_client;

typedef struct token_clients {
  token_client items[TOKEN_CLIENTS_MAX]; /* by id, the own one first */
  size_t count, in;
  bool more; /* than are looked at */
} token_clients;

/* All there are for the server of a store that was opened without a client. False: `why` of the store. */
bool token_clients_find(token_store *store, token_clients *out);
/* The store becomes that of the client whose tokens a call without --client shows. False: there are several, and `why` lists them, or
 * the folder cannot be read. */
bool token_clients_choose(token_store *store, token_clients *all);
/* Ids of those that are logged in, but for the client of this file (NULL: all), for people: "ci, robot". */
void token_clients_list(const token_clients *all, const char *but, text *out);

#endif
