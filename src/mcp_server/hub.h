/* hub.h - what the peers of one thread share: the snapshot in use, a schema context, who listens.
 * News from other threads waits in a hub until its own thread delivers it. */
#ifndef IDEM_MCP_HUB_H
#define IDEM_MCP_HUB_H

#include "registry.h"

/* A registry as one thread uses it: counted without atomics, with its prepared lists. */
typedef struct idem__view_of_registry {
  idem__registry *registry;
  unsigned refs;
  struct idem__page *pages[IDEM__LIST_KINDS][IDEM__REVISIONS]; /* prepared answers: see page.c */
  const idem_alloc *alloc;
} idem__view_of_registry;

/* News of a resource that waits to be told. */
typedef struct idem__updated_uri {
  struct idem__updated_uri *next;
  char uri[];
} idem__updated_uri;
#define IDEM__UPDATES_MAX 10000u

/* Told as well: an endpoint of the HTTP folder, for its legacy streams. Several may serve one hub. */
typedef struct idem__mcp_hearer {
  idem__list link; /* in hub->hearers */
  void (*on_notification)(struct idem__mcp_hearer *hearer, const char *method, const char *uri);
  void (*on_delivered)(struct idem__mcp_hearer *hearer); /* after each delivery */
  /* When it wants to be called without news; UINT64_MAX: not. In the time of its conns. */
  uint64_t (*deadline)(struct idem__mcp_hearer *hearer);
  void (*on_time)(struct idem__mcp_hearer *hearer, uint64_t now_ms);
} idem__mcp_hearer;

/* What one thread's peers share. */
struct idem__mcp_hub {
  idem__list link; /* in server->hubs */
  idem_server *server;
  idem_alloc alloc;
  size_t contexts; /* requests not yet ended */
  idem__view_of_registry *view;
  idem_schema_ctx *schema;
  idem__list peers;     /* line peers with a session, for unsolicited legacy notifications */
  idem__list listeners; /* subscriptions/listen requests: see subscribe.c */
  /* Changes waiting to be told; set from any thread. */
  _Atomic uint32_t changed;   /* bit per idem__list_kind */
  idem__updated_uri *updated; /* guarded by the server's lock */
  size_t updated_count;
  struct idem__posted *posted, **posted_end; /* guarded by the server's lock */
  idem__list waiters;                        /* tasks/result of 2025-11-25: see task.c */
  struct idem__task_event *task_events;      /* guarded by the tasks' lock */
  bool task_missed;                          /* so is this: there was no memory for an event */
  bool delivering, again; /* what happens meanwhile is delivered by the same loop */
  idem__buf scratch;      /* a result under construction; one at a time */
  /* Called from any thread: make this hub's thread call idem__hub_deliver soon. NULL: it is called
   * at once (one thread, a loop of somebody's own). */
  void (*wake)(idem__mcp_hub *hub, void *user);
  void *wake_user;
  idem__list hearers;
};
idem_status idem__hub_new(idem_server *server, void (*wake)(idem__mcp_hub *hub, void *user),
                          void *wake_user, idem__mcp_hub **out);
/* Cancels the tasks whose handlers still run on it. */
void idem__hub_free(idem__mcp_hub *hub);
/* With the server: what hubs left that ended before their requests. */
void idem__hubs_destroy_ended(idem_server *server);
/* Has `fn` called on the hub's thread, soon. From any thread. NOMEM: it will not be. */
idem_status idem__hub_post(idem__mcp_hub *hub, void (*fn)(void *arg), void *arg);
/* Calls them now, before what they use goes. On the hub's thread. */
void idem__hub_run_posted(idem__mcp_hub *hub);
/* A conn for one line peer of this hub; `principal` is copied and may be NULL. */
idem_status idem__hub_accept(idem__mcp_hub *hub, const idem_conn_opts *opts, const char *principal,
                             idem_conn **out);
/* Tells peers what changed since the last time; coalesced. On the hub's thread. */
void idem__hub_deliver(idem__mcp_hub *hub);
/* What no conn looks after any more has its time here: the driver calls expire when it is over, and looks
 * at the deadline after each delivery. */
uint64_t idem__hub_deadline(idem__mcp_hub *hub);
void idem__hub_expire(idem__mcp_hub *hub, uint64_t now_ms);
/* Has the driver look. On the hub's thread. */
void idem__hub_wake(idem__mcp_hub *hub);
/* The current snapshot, counted. */
idem__view_of_registry *idem__hub_view(idem__mcp_hub *hub);
void idem__view_unref(idem__view_of_registry *view);

#endif
