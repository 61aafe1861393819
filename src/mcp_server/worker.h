/* worker.h - what the peers of one thread share: the snapshot in use, a schema context, who listens.
 * News from other threads waits in a worker until its own thread delivers it. */
#ifndef IDEM_MCP_WORKER_H
#define IDEM_MCP_WORKER_H

#include "../store/store.h"
#include "ask.h"
#include "news.h"
#include "registry.h"

/* A registry as one thread uses it: counted without atomics, with its prepared lists. */
typedef struct idem__worker_lists {
  idem__registry *registry;
  unsigned refs;
  struct idem__page *pages[IDEM__LIST_KINDS][IDEM__REVISIONS]; /* prepared answers: see page.c */
  const idem_alloc *alloc;
} idem__worker_lists;

/* News of a resource that waits to be told. */
typedef struct idem__updated_uri {
  struct idem__updated_uri *next;
  char uri[];
} idem__updated_uri;
#define IDEM__UPDATES_MAX 10000u

/* A function to be called on a worker's thread. */
typedef struct idem__posted {
  struct idem__posted *next;
  void (*fn)(void *arg);
  void *arg;
  bool lent; /* whoever posted it keeps it until it is called */
} idem__posted;

/* Told as well: an endpoint of the HTTP folder, for its legacy streams. Several may serve one worker. */
typedef struct idem__mcp_subscriber {
  idem_list link; /* in worker->subscribers */
  void (*on_news)(struct idem__mcp_subscriber *subscriber, const idem__mcp_news *news);
  void (*on_delivered)(struct idem__mcp_subscriber *subscriber); /* after each delivery */
  /* When it wants to be called without news; UINT64_MAX: not. In the time of its conns. */
  uint64_t (*deadline)(struct idem__mcp_subscriber *subscriber);
  void (*on_time)(struct idem__mcp_subscriber *subscriber, uint64_t now_ms);
} idem__mcp_subscriber;

/* What one thread's peers share. */
struct idem__mcp_worker {
  idem_list link; /* in server->workers */
  idem_server *server;
  idem_alloc alloc;
  size_t contexts; /* requests not yet ended */
  idem__worker_lists *lists;
  idem_schema_ctx *schema;
  idem_schema *ask_rules[IDEM__ASK_RULES]; /* NULL: not compiled yet; see ask_rules.c */
  idem_list peers;     /* line peers with a session, for unsolicited legacy notifications */
  idem_list listeners; /* subscriptions/listen requests: see subscribe.c */
  /* Changes waiting to be told; set from any thread. */
  _Atomic uint32_t changed;   /* bit per idem__list_kind */
  idem__updated_uri *updated; /* guarded by the server's lock */
  size_t updated_count;
  idem__posted *posted, **posted_end;          /* guarded by the server's lock */
  struct idem__waiting_news *news, **news_end; /* so are these: see news.c */
  size_t waiting_news, waiting_bytes;
  idem_list waiters; /* tasks/result of 2025-11-25: see task_result.c */
  unsigned looks;    /* of its node, after which it has looked after them */
  unsigned aways;    /* of its node's store, after which it has reminded its peers */
  idem_list unsaved; /* who is told once it is kept: see task_method.c */
  struct idem__task_event *task_events; /* guarded by the tasks' lock */
  bool task_missed;                     /* so is this: there was no memory for an event */
  bool delivering, again;               /* what happens meanwhile is delivered by the same loop */
  bool handing_on;                      /* a key from one who lacks something to the next */
  idem_buf scratch;                     /* a result under construction; one at a time */
  idem_pool *pool; /* whose turns it keeps, where there are any; NULL: nobody's */
  struct idem__once_marked {
    struct idem__once_text *of; /* NULL: none */
    bool modern;
    idem_buf text;
  } marked; /* the answer that those who wait for a key are being given */
  /* Called from any thread: make this worker's thread call idem__worker_deliver soon. NULL: it is called
   * at once (one thread, a loop of somebody's own). */
  void (*wake)(idem__mcp_worker *worker, void *user);
  void (*left)(idem__mcp_worker *worker,
               void *user); /* its server goes first; NULL: it never does */
  void *wake_user;
  _Atomic bool rest_awaited; /* it is to be woken when work ends whose client has gone */
  idem_list subscribers;
  uint64_t ticked_ms;             /* when its node and its keys were last looked at; 0: never */
  idem__store_queue *store_queue; /* what its requests ask of the store; NULL once it has ended */
  /* Counters of tools: of its own where a runtime shows them (told once they are there), since calls may
   * outlive the metrics of their conns; else those of each conn. */
  idem_metrics *metrics;
  idem_status (*show_metrics)(idem_metrics *metrics);
  struct idem__tool_label {
    const void *tool, *metrics;
    uint64_t generation;
    idem__method_label label;
  } tool_labels[8]; /* found lately */
};
idem_status idem__worker_new(idem_server *server,
                             void (*wake)(idem__mcp_worker *worker, void *user), void *wake_user,
                             idem__mcp_worker **out);
/* Cancels the tasks whose handlers still run on it. */
void idem__worker_free(idem__mcp_worker *worker);
/* With the server: what workers left that ended before their requests. */
void idem__workers_destroy_ended(idem_server *server);
/* Has `fn` called on the worker's thread, soon. From any thread. NOMEM: it will not be. */
idem_status idem__worker_post(idem__mcp_worker *worker, void (*fn)(void *arg), void *arg);
/* ... with memory of the caller's. */
void idem__worker_post_lent(idem__mcp_worker *worker, idem__posted *posted);
/* What is to be done for many is to go on in another turn: as something posted. On the worker's thread. */
bool idem__worker_turn_over(const idem__mcp_worker *worker);
/* Calls them now, before what they use goes. On the worker's thread. */
void idem__worker_run_posted(idem__mcp_worker *worker);
/* A conn for one line peer of this worker; `principal` is copied and may be NULL. */
idem_status idem__worker_accept(idem__mcp_worker *worker, const idem_conn_opts *opts,
                                const char *principal, idem_conn **out);
/* Tells peers what changed since the last time; coalesced. On the worker's thread. */
void idem__worker_deliver(idem__mcp_worker *worker);
/* What no conn looks after any more has its time here: the driver calls expire when it is over, and looks
 * at the deadline after each delivery. */
uint64_t idem__worker_deadline(idem__mcp_worker *worker);
void idem__worker_expire(idem__mcp_worker *worker, uint64_t now_ms);
/* Its own counters, where a runtime shows them; else NULL. On the worker's thread. */
idem_metrics *idem__worker_metrics(idem__mcp_worker *worker);
/* Has the driver look. On the worker's thread. */
void idem__worker_wake(idem__mcp_worker *worker);
/* The current snapshot, counted. */
idem__worker_lists *idem__worker_snapshot(idem__mcp_worker *worker);
void idem__worker_lists_unref(idem__worker_lists *lists);

/* Work that goes on without a connection has ended: somebody may wait for that. */
static inline void idem__worker_rested(idem__mcp_worker *worker) {
  if (atomic_load_explicit(&worker->rest_awaited, memory_order_relaxed) && worker->wake)
    worker->wake(worker, worker->wake_user);
}

#endif
