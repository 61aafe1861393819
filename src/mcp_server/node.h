/* node.h - a server among those that share a store: it has a name, and a record that lives as long as the server says so
 * now and then. What belongs to a node whose record is gone belongs to nobody any more. See
 * docs/internals/mcp_server.md. */
#ifndef IDEM_MCP_NODE_H
#define IDEM_MCP_NODE_H

#include "../store/store.h"
#include "nouns.h"
#include "registry.h"

#define IDEM__NODE_ID 32
#define IDEM__NODES_KNOWN 4096 /* of others the store is asked, each time */

/* What a node's lists say: a digest of each. */
typedef struct idem__node_lists {
  uint64_t digests[IDEM__LIST_KINDS];
} idem__node_lists;
#define IDEM__NODE_VALUE (IDEM__LIST_KINDS * 17) /* as text in its record, with its end */

typedef struct idem__other_node {
  uint32_t number;
  bool told; /* its lists are known */
  char id[IDEM__NODE_ID];
  uint64_t seen_ms; /* its record was there */
  idem__node_lists lists;
} idem__other_node;

/* Ordered by number. */
typedef struct idem__other_nodes {
  idem__other_node *list;
  size_t count, room;
} idem__other_nodes;

/* Whose records are read by their names; were there more at once all are listed. */
#define IDEM__NODE_COMERS 8u

typedef struct idem__node {
  char id[IDEM__NODE_ID + 1];  /* "": it has no store yet */
  bool shares;                 /* its store is not its own alone */
  _Atomic bool renewing;       /* the store was asked, and has not answered */
  _Atomic uint64_t renewed_ms; /* in the time of the workers' driver */
  _Atomic unsigned renewals;
  _Atomic bool renew_soon; /* whenever it is time: its store is there again */
  idem__lock lock;         /* the lists and the others */
  idem__node_lists lists;  /* as its record says */
  char value[IDEM__NODE_VALUE];
  idem__other_nodes others; /* those that live, this one among them */
  char comers[IDEM__NODE_COMERS]
             [IDEM__NODE_ID]; /* who came or changed, and was not looked at yet */
  size_t comer_count;
  _Atomic bool comes;         /* there are some */
  _Atomic bool lists_changed; /* the record does not say so yet */
  _Atomic bool look;          /* at the others' records */
  _Atomic unsigned awaited;   /* so many wait for one of them: it is looked at them more often */
  _Atomic bool looking;       /* the store was asked for them */
  _Atomic unsigned looks;     /* how often it has answered */
  _Atomic unsigned aways;     /* how often its store was away and is there again */
  _Atomic bool store_gone; /* its store did not answer when it was last asked to renew the record */
  _Atomic bool store_full; /* ... or had no room left for that */
} idem__node;

/* With its store; before serving. */
void idem__node_join(idem_server *server);
void idem__node_leave(idem_server *server);
/* The operation that takes its record away, for who wants to know when it has; false: it has none. */
bool idem__node_leave_op(const idem_server *server, idem__store_op *op);
/* Its record lives on. On a worker's thread, often enough: when it is time it asks the store. */
void idem__node_renew(idem__mcp_worker *worker, uint64_t now_ms);
/* ... at once, where its store was away and is there again. From any thread; with the next delivery. */
void idem__node_renew_soon(idem_server *server);
void idem__node_renew_now(idem__mcp_worker *worker);
uint64_t idem__node_interval_ms(const idem_server *server); /* UINT64_MAX: not needed */
/* A number of this node's own, by which others find it, where its store has a name; 0: nobody shares it. */
uint32_t idem__node_number(const idem_server *server);
uint32_t idem__node_number_of(const char *id);
/* It is known to live. Where it is not, the store may know better: somebody who came a moment ago, or one of too many. */
bool idem__node_lives(const idem_server *server, uint32_t number);
/* ... and when that was seen: where it is longer ago than a 64th of a lease, which may be over since, whoever must know asks for the record by
 * its name. */
typedef enum idem__node_glance {
  IDEM__NODE_UNKNOWN,
  IDEM__NODE_SEEN, /* a while ago; `id` is its name */
  IDEM__NODE_LIVES
} idem__node_glance;
idem__node_glance idem__node_look_up(const idem_server *server, uint32_t number,
                                     char id[IDEM__NODE_ID + 1]);
/* How many share its store beside it, as far as is known. */
size_t idem__node_others(const idem_server *server);
/* node_lists.c: what the nodes list. As its record is to say; before it is written first. */
void idem__node_lists_take(idem_server *server);
/* Its lists may be others now. From any thread; the next delivery of a worker's writes it down. */
void idem__node_lists_changed(idem_server *server);
/* Writes down and looks around, where there is reason to. On a worker's thread. */
void idem__node_deliver(idem__mcp_worker *worker);
/* A node is gone: the lists (bits of idem__list_kind) in which it differed from this one. With the lock held. */
uint32_t idem__node_missed(const idem__node *node, const idem__other_node *gone);
/* Writes its record. */
void idem__node_put(idem_server *server);
/* A watcher heard of one. */
void idem__node_seen(idem_server *server, const char *id, size_t len, bool lives);
/* Its record was seen; nobody may have told us of it. */
void idem__node_meet(idem_server *server, const char *id);
/* The place of a number, or where it would stand: `count` of those below it. */
size_t idem__other_nodes_place(const idem__other_nodes *others, uint32_t number);
/* NULL: it is not among them. */
idem__other_node *idem__other_nodes_find(const idem__other_nodes *others, uint32_t number);
/* Room for one more; false: there are too many, or there is no memory. */
bool idem__other_nodes_reserve(idem__other_nodes *others, const idem_alloc *alloc);
/* With the server. */
void idem__node_deinit(idem_server *server);
/* This server's own name. */
bool idem__node_is_own(const idem_server *server, const char *id);
/* Is it there? `done` is told OK, NOTFOUND (it is dead), or that nobody knows. */
void idem__node_find(idem_server *server, idem__store_queue *queue, const char *id,
                     idem__store_done done, void *user);

#endif
