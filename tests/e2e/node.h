/* node.h - processes that share a store, as an HTTP client sees them: started, asked one request a connection, ended. */
#ifndef IDEM_TESTS_NODE_H
#define IDEM_TESTS_NODE_H

#include "child.h"

typedef struct node {
  child server;
  char host[64]; /* 127.0.0.1:PORT */
} node;

/* A program that was started and says where it listens. */
node node_of(child server);
/* `idem serve FILE --http 127.0.0.1:0 --store STORE ...`; the further arguments end with NULL. Without a store: NULL. */
node node_serve(const char *file, const char *store, ...);
/* Ends it: exit status 0, or by SIGKILL. */
void node_stop(node *self, int signal);

/* One request on a connection of its own, which is the caller's. Headers are whole lines. */
int node_send(const node *self, const char *verb, const char *headers, const char *body);
/* What comes until its end, which closes it; in a buffer that the next call reuses. */
const char *node_rest(int fd);
/* Calls a tool in 2026-07-28, with these header lines and members of _meta (each with a comma before it). */
int node_call(const node *self, const char *tool, const char *headers, const char *meta);
/* POST /mcp; `session` may be NULL. */
const char *node_post(const node *self, const char *session, const char *body);
/* initialize and initialized; `capabilities` is an object's text. */
void node_open_session(const node *self, const char *revision, const char *capabilities,
                       char session[80]);
/* Its GET stream, of which the head was read; `last_event` may be NULL. */
int node_listen(const node *self, const char *session, const char *last_event);

#endif
