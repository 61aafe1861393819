/* node.h - a server among those that share a store: it has a name, and a record that lives as long as the server says so
 * now and then. What belongs to a node whose record is gone belongs to nobody any more. See
 * docs/internals/mcp_server.md. */
#ifndef IDEM_MCP_NODE_H
#define IDEM_MCP_NODE_H

#include "../store/store.h"
#include "nouns.h"

#define IDEM__NODE_ID 32
#define IDEM__NODES_KNOWN 256 /* beyond them all are taken to live */

typedef struct idem__node {
  char id[IDEM__NODE_ID + 1];         /* "": it has no store yet */
  _Atomic bool renewing;              /* the store was asked, and has not answered */
  _Atomic uint64_t renewed_ms;        /* in the time of the workers' driver */
  idem__lock lock;                    /* the two below */
  uint32_t others[IDEM__NODES_KNOWN]; /* numbers of those that live, this one among them */
  size_t other_count;
  _Atomic bool store_gone; /* its store did not answer when it was last asked to renew the record */
} idem__node;

/* With its store; before serving. */
void idem__node_join(idem_server *server);
void idem__node_leave(idem_server *server);
/* Its record lives on. On a worker's thread, often enough: when it is time it asks the store. */
void idem__node_renew(idem__mcp_worker *worker, uint64_t now_ms);
uint64_t idem__node_interval_ms(const idem_server *server); /* UINT64_MAX: not needed */
/* A number of this node's own, by which others find it, where its store has a name; 0: nobody shares it. */
uint32_t idem__node_number(const idem_server *server);
bool idem__node_lives(const idem_server *server, uint32_t number);
/* A watcher heard of one. */
void idem__node_seen(idem_server *server, const char *id, size_t len, bool lives);
/* This server's own name. */
bool idem__node_is_own(const idem_server *server, const char *id);
/* Is it there? `done` is told OK, NOTFOUND (it is dead), or that nobody knows. */
void idem__node_find(idem_server *server, idem__store_queue *queue, const char *id,
                     idem__store_done done, void *user);

#endif
