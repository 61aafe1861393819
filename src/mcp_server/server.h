/* server.h - what is served and how: options, the current snapshot, the workers that serve it.
 * Shared by threads; what changes while serving is atomic or guarded by a lock. */
#ifndef IDEM_MCP_SERVER_H
#define IDEM_MCP_SERVER_H

#include "../mcp/once_key.h"
#include "../store/store.h"
#include "identity.h"
#include "method.h"
#include "node.h"
#include "registry.h"

struct idem_server {
  idem_alloc alloc;
  idem_server_opts opts; /* strings replaced by owned copies */
  idem__store *store;    /* what is shared with other loops, and may be with other servers */
  idem__store_watcher *news, *task_changes, *once_changes, *node_changes, *key_changes;
  idem__node node;                   /* this one among those that share the store */
  struct idem__once_table *onces;    /* see once.h */
  struct idem__task_news *task_news; /* others' changes to tasks, to be loaded; the tasks' lock */
  size_t task_news_count;
  _Atomic unsigned listening; /* open subscriptions/listen that name tasks */
  idem_router *router;
  idem_policy policy;
  _Atomic size_t
      answer_bytes;         /* the maximum of what is written for a peer: see idem__answer_bytes */
  idem__registry *registry; /* guarded by lock */
  _Atomic uint64_t generation;
  idem__lock lock;
  idem_list workers;       /* guarded by lock */
  idem_list ended_workers; /* freed while requests were with handlers; guarded by lock */
  idem_completion_fn complete;
  void *complete_user;
  struct idem__task_table *tasks; /* see task.c */
  char *store_name;               /* NULL: its own store, in memory */
  idem__identity identity;        /* which store that is */
  uint8_t state_key_old[32];      /* see state.c */
  bool has_old_key;
  struct idem__method_user *method_users; /* one for each method row */
  idem_map method_scopes;                 /* by name; see scope.c */
  idem__mcp_worker *own_worker;           /* for loops of somebody's own; NULL until needed */
  _Atomic bool ever[IDEM__LIST_KINDS];    /* a list once filled stays offered, even empty */
  _Atomic bool ever_tasks;                /* so do tasks, once a tool may become one */
  _Atomic uint64_t session_tables;        /* a bit for each that there is: see src/mcp_http */
  _Atomic uint64_t line_sessions;         /* so many there have been: their names */
  idem_map elicitations;                  /* by id, guarded by lock: see elicitation.c */
  idem_list expected;                     /* ... by age */
  idem_buf info[IDEM__REVISIONS];         /* serverInfo, as each revision knows it */
};
static inline bool idem__server_speaks(const idem_server *server, idem_revision revision) {
  return (server->opts.revisions & (uint32_t)revision) != 0;
}
/* The maximum of a buffer that holds an answer, or what one is made of: what the most patient conn there was
 * could have taken. */
static inline size_t idem__answer_bytes(const idem_server *server) {
  return atomic_load_explicit(&server->answer_bytes, memory_order_relaxed);
}
/* A conn with these limits is served, too. */
void idem__server_admit_limits(idem_server *server, const idem_limits *limits);
/* Shares a store with others; before serving. */
idem_status idem__server_use_store(idem_server *server, idem__store *store);
/* What seals requestState: for all who share a store, where nobody chose a key. A copy, since it may change. */
void idem__server_state_key(const idem_server *server, uint8_t key[IDEM__STATE_KEY_BYTES]);
/* The keys of calls that happen once are kept where this is; the same for all who share it, and no other place has it. */
void idem__server_keys_name(const idem_server *server, char name[IDEM__ONCE_STORE_ID + 1]);
/* A key for another purpose, which whoever has the same one for requestState makes as well; nothing of that shows in it. */
void idem__server_derive_key(const idem_server *server, const char *purpose,
                             uint8_t key[IDEM__STATE_KEY_BYTES]);
/* The name under which the driver opened its store; NULL: it has one of its own. A copy is kept. */
const char *idem__server_store_name(const idem_server *server);
idem_status idem__server_name_store(idem_server *server, const char *name);
/* What it shares with others cannot be reached at the moment. From any thread. */
bool idem__server_store_gone(const idem_server *server);
void idem__server_lock(idem_server *server); /* short sections only */
void idem__server_unlock(idem_server *server);
/* Copies a text; NULL stays NULL. */
char *idem__server_copy(idem_server *server, const char *text, idem_status *status);
/* Somebody who shares the store has news for our peers. */
void idem__server_on_news(const idem__store_change *change, void *user);
/* Makes every worker deliver what waits for it. From any thread. */
void idem__server_wake(idem_server *server);
/* Work that goes on without a connection has ended, of whichever worker. From any thread. */
void idem__server_rested(idem_server *server);
/* Something in these lists changed (bits of idem__list_kind): tells every worker, and who shares the store.
 * From any thread. */
void idem__server_changed(idem_server *server, uint32_t kinds);
/* Peers should look at these lists again: here, or at a node that shares the store, they are others now. */
void idem__server_tell_lists(idem_server *server, uint32_t kinds);
/* The server's capabilities, {"tools":{...},...}, as a revision names them. */
void idem__server_write_capabilities(idem__context *context, idem__writer *writer);
/* {"name","version","title"?,...} as a revision knows them. */
void idem__server_write_info(const idem_server *server, const idem__revision *revision,
                             idem__writer *writer);
bool idem__server_offers(const idem_server *server, const idem__registry *registry,
                         idem__capability capability);
uint64_t idem__server_wall_ms(const idem_server *server);
void idem__server_random(const idem_server *server, void *bytes, size_t len);

/* "2026-07-28, ...": the same for people. */
#define IDEM__VERSIONS 72
/* The member that an Implementation must have as a string and has not, with what stands there; NULL: both are fine. */
const char *idem__info_fault(yyjson_val *info, yyjson_val **received);
const char *idem__supported_versions(const idem_server *server, char out[IDEM__VERSIONS]);
/* ["2026-07-28", ...]: every revision served, newest first. */
void idem__write_supported_versions(const idem_server *server, idem__writer *writer);

/* Whose codes its errors have where no revision says otherwise. */
idem_code_set idem__server_codes(const idem_server *server);

#endif
