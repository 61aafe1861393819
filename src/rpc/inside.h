/* inside.h - what the files of src/rpc share: the insides of pools, routers, requests and conns.
 * Other folders ask by the functions of rpc.h. A block is the memory of one message; an owed entry is
 * an id we must answer. See docs/internals/rpc.md. */
#ifndef IDEM_RPC_INSIDE_H
#define IDEM_RPC_INSIDE_H

#include "rpc.h"

#include <stdatomic.h>

/* ------------------------------------------------------------------ pool */

/* Room for small messages, one after the other: each uses what is left, and gives back all of it
 * unless a request outlives the message. Then it keeps what it has used, and the next begins
 * behind it. */
typedef struct idem__slab {
  struct idem__slab *next;
  struct idem__block *open; /* has all that is left of it; NULL: nobody */
  size_t used;              /* by blocks that are kept */
  unsigned blocks;          /* in it */
  bool listed;              /* in pool->slabs */
  _Alignas(16) char data[];
} idem__slab;

/* The memory of one message and of what came from it; shared by the requests of a batch. */
typedef struct idem__block {
  idem_pool *pool;
  idem__slab *slab; /* NULL: large, an allocation of its own */
  size_t text_len;
  unsigned refs;
  unsigned held : 31;     /* requests that wait in conn->held: counted once, however many */
  unsigned text_kept : 1; /* `text` is the block's own */
  size_t charged_bytes;   /* counted against the router's parse_bytes_total */
  const idem_router *router;
  idem__arena arena;
  yyjson_doc *doc;
  const char *text; /* that `doc` was read from, or a copy of it; NULL: gone */
  const char *note; /* what its transport says of the message, in the arena; NULL: nothing */
  _Alignas(16) char data[];
} idem__block;

/* NULL: no memory, or (*over) past the limits. */
idem__block *idem__block_new(idem_pool *pool, const idem_router *router, size_t text_len,
                             size_t limit, bool *over);
/* The text has been read into it: the pool remembers how much that took. */
void idem__block_parsed(idem__block *block);
void idem__block_release(idem__block *block);
/* Its message has been handled, but not all that came from it: it is cut to what it uses. `text` goes. */
void idem__block_keep(idem__block *block, const char *text);
/* Its text is the caller's, and goes with the call: copies it, once. */
bool idem__block_keep_text(idem__block *block);
/* Counts the block's memory, as it is now, against the router's total; false: there is no room. */
bool idem__block_charge(idem__block *block);

/* A piece of output under construction or on its way. */
typedef struct idem__chunk {
  idem_list link;
  idem_pool *pool;
  idem_conn *conn; /* NULL once the conn is gone */
  size_t counted;  /* bytes this chunk adds to conn->queued */
  size_t own;      /* of these, our own calls and notifications: no answers */
  idem_outgoing what;
  idem_buf buf;
} idem__chunk;

struct idem_pool {
  idem_alloc alloc;
  unsigned refs;
  idem__slab *spare; /* with one block, open and unused: what most messages take; may be NULL */
  idem__slab *slabs; /* with room */
  size_t slab_count;
  idem__block *large_block;
  idem_list *chunks; /* spare */
  size_t chunk_count;
  idem__chunk *large_chunk;
  unsigned large_credit; /* small messages until the large ones are given back */
  size_t parse_ratio;    /* sixteenths of a byte that a byte of text took lately; 0: not known */
  idem_list *fresh;      /* requests never kept */
  idem_list ended;       /* requests that were kept: reused late, to notice a second reply */
  size_t ended_count;
  idem_trace_fn trace; /* of every conn; NULL: nobody looks */
  void *trace_user;
  uint64_t conns; /* made so far */
  /* A request that is being told that its conn goes, and that conn, whose log it may still write to. */
  const idem_request *parting;
  idem_conn *parting_conn;
  idem_log_bucket gone;  /* of requests whose peers have gone, and their conns with them */
  uint64_t turn_ns;      /* how long a turn is; 0: there are none */
  uint64_t turn_ends_ns; /* 0: it has not begun */
  idem_list late;        /* who waits for another turn */
  uint64_t (*turn_now_ns)(void *ctx);
  uint64_t (*tick_ns)(void *ctx); /* the same, or a coarse one that is never ahead of it */
  void (*on_late)(void *user);
  void *on_late_user;
};

void idem__pool_ref(idem_pool *pool);
void idem__pool_unref(idem_pool *pool);
idem__chunk *idem__chunk_new(idem_pool *pool);
void idem__chunk_release(idem__chunk *chunk);
idem_request *idem__request_new(idem_pool *pool);
void idem__request_release(idem_request *request);

/* ---------------------------------------------------------------- router */

typedef struct idem__method {
  char *name;
  size_t name_len;
  idem_method_fn fn;
  void *user;
  idem_notification_fn notification_fn;
  void *notification_user;
  idem__method_label label;
  bool is_pattern; /* the name has values in braces */
  char *description;
  char *returns;
  char **params; /* NULL-terminated */
  yyjson_doc *params_schema;
  yyjson_doc *result_schema;
} idem__method;

/* work.c: requests that handlers have kept, by whose they are. */
#define IDEM__IN_FLIGHT_TOTAL 65536u
#define IDEM__IN_FLIGHT_CLIENT 16384u
#define IDEM__IN_FLIGHT_SESSION 1024u
typedef struct idem__work idem__work;
typedef struct idem__workload {
  idem__lock lock;
  idem_map by_key; /* guarded by lock */
  _Atomic size_t requests;
  _Atomic size_t max_requests, max_client, max_session;
  size_t max_client_bytes;
} idem__workload;
void idem__workload_init(idem__workload *workload, const idem_alloc *alloc, uint64_t seed,
                         size_t parse_bytes_total);
void idem__workload_deinit(idem__workload *workload);
void idem__work_end(idem_request *request);
/* Whoever asks has all it may have. */
bool idem__work_full(const idem_conn *conn);

struct idem_router {
  idem_alloc alloc;
  idem_map methods;
  idem__method **order; /* by registration */
  size_t order_cap;
  idem__method **patterns; /* of them, by registration; pattern.c */
  size_t pattern_count;
  size_t parse_bytes_total;
  _Atomic size_t parse_bytes_used;
  idem__workload workload;
  void *lsp;       /* what idem_router_lsp keeps */
  void *discovery; /* what idem_router_discover keeps */
  idem__gate_fn gate;
  void *gate_user;
  idem__batch_gate_fn batch_gate; /* NULL: none */
};

const idem__method *idem__router_find(const idem_router *router, const char *name, size_t len);
/* Where no name fits: the first pattern that does; NULL: none. */
IDEM__COLD const idem__method *idem__pattern_find(const idem_router *router, const char *name,
                                                  size_t len);
void idem__lsp_free(idem_router *router);
void idem__discovery_free(idem_router *router);
/* As idem_router_method, for names that applications may not have. */
idem_status idem__router_own(idem_router *router, const char *name, idem_method_fn fn, void *user);

/* --------------------------------------------------------------- request */

/* An id that will be answered: embedded in a request, or in a batch until its array is sent. */
typedef struct idem__owed {
  idem_request *request; /* NULL: answered, waiting for the rest of its batch */
  const char *key;       /* NULL: not in the table */
  size_t key_len;
  size_t id_bytes;
  char inline_key[16];
} idem__owed;

typedef struct idem__batch {
  idem_list link; /* in conn->batches */
  idem_conn *conn;
  idem__block *block;
  size_t count;   /* answers the array will have */
  size_t waiting; /* answers still missing */
  bool open;      /* elements are still being dispatched */
  idem_buf answers;
  struct idem__batch_part {
    size_t offset, len;
    idem__owed owed;
  } parts[];
} idem__batch;

typedef struct idem__refusal idem__refusal;

struct idem_request {
  idem_list link; /* conn->requests, conn->held, or a list of the pool */
  idem_pool *pool;
  idem_conn *conn; /* NULL once the conn is gone */
  idem__block *block;
  const idem__method *method;
  const char *name;
  size_t name_len;
  yyjson_val *params;
  idem__id id; /* kind ABSENT: a notification */
  char inline_id[40];
  idem__owed owed;
  idem__batch *batch;
  size_t batch_index;
  idem__refusal *refusal; /* it never became a request and only waits for its turn; else NULL */
  yyjson_mut_doc *doc;
  idem__timer timer;
  uint64_t started_ns;
  idem_cancel_fn on_cancel;
  void *cancel_user;
  void *attachment; /* what a layer above keeps of it; freed with it */
  void (*attachment_free)(void *attachment);
  void (*attachment_keep)(void *attachment); /* the handler keeps it; may be called again */
  idem__late_answer_fn late_answer;          /* NULL: nobody */
  const idem__request_guard *guard;          /* NULL: none */
  idem__cut_off_fn cut_off;                  /* NULL: nothing of its own */
  idem__work *works[2]; /* counted: of the client and the session it counts for */
  size_t work_bytes;
  bool counted;
  bool id_kept;    /* id.raw is ours; false: it lies in the text being dispatched */
  bool live;       /* belongs to a handler; false: in a list of the pool */
  bool kept;       /* the handler will answer later */
  bool in_handler; /* the handler is on the stack */
  bool held;       /* waits in conn->held */
  bool running;    /* counted in conn->running */
  bool parked;     /* written into the conn's books */
  bool settled;    /* the wire is done with it: answered, cancelled or conn gone */
  bool ended;      /* the handler is done with it */
  bool cancelled;
  bool aborted;  /* its conn was, and the layer above knows */
  bool told;     /* the log has its line already: an error answer needs no other */
  bool measured; /* answered on a conn with metrics: took_ns and outcome hold */
  idem_code_set
      codes : 8;         /* whose codes its errors take: the policy's, unless a layer above knows */
  unsigned char outcome; /* an idem__outcome */
  uint64_t took_ns;
};

/* The handler is done with it. */
void idem__request_end(idem_request *request);
/* It no longer waits in conn->held; no-op where it did not. */
void idem__request_unhold(idem_request *request);
/* Takes a request out of its conn without an answer (conn gone, cancelled without answer). */
void idem__request_forget(idem_request *request);

/* -------------------------------------------------------------- in flight */

/* OK; EXISTS: an equal id is in flight; LIMIT: too many, or too many bytes of ids; NOMEM. */
idem_status idem__owed_add(idem_conn *conn, idem__owed *owed, const idem__id *id,
                           idem__block *block);
void idem__owed_remove(idem_conn *conn, idem__owed *owed);

idem__owed *idem__owed_find(idem_conn *conn, const idem__id *id);

/* ------------------------------------------------------------------ batch */

idem_status idem__batch_new(idem_conn *conn, idem__block *block, size_t max_answers,
                            idem__batch **out);
/* Adds room for one more answer; its index. */
size_t idem__batch_expect(idem__batch *batch);
idem_status idem__batch_answer(idem__batch *batch, size_t index, const idem__id *id,
                               const idem__answer *answer);
/* An answer will not come (cancelled without answer). */
void idem__batch_skip(idem__batch *batch, size_t index);
/* All elements have been dispatched; sends the array if nothing is missing. */
void idem__batch_close(idem__batch *batch);
void idem__batch_free(idem__batch *batch);

/* ------------------------------------------------------------------- conn */

/* Appends a value in whichever form it comes. */
idem_status idem__value_put(idem_buf *out, const idem_policy *policy, const idem__value *value);
/* What a response says: its status is PROTO where that is not exactly one thing. */
idem_response idem__response_read(const idem__message *message);

typedef struct idem__call {
  idem_list link;
  idem__timer timer;
  uint64_t id;
  idem_response_fn fn;
  void *user;
  uint64_t put_at; /* bytes put out before it: it has left when so many were taken */
} idem__call;

struct idem_conn {
  uint64_t number; /* of its pool's */
  idem_alloc alloc;
  idem_conn_opts opts;
  idem_policy policy;
  idem_pool *pool;
  idem__framer framer;
  char *peer;
  void *host;            /* the runtime's: the loop it runs on */
  void *driver;          /* the runtime's: what moves its bytes; NULL: nothing of its own */
  void *host_data;       /* the embedder's, kept by the runtime */
  const char *peer_lent; /* instead of `peer`, for a conn that serves one peer after the other */
  const void *client_lent;
  unsigned char client_address[16]; /* of a conn that has one client for life, where it is known */
  void (*whose)(const idem_conn *conn, idem__whose *out);
  bool (*on_abort)(idem_request *request); /* NULL: nobody wants to know */
  idem__message_kind last_kind;
  uint32_t note_len;
  const char *drops;               /* why notifications have no effect; NULL: they have */
  const char *note;                /* beside the messages taken now, borrowed; NULL: nothing */
  const idem__method *last_method; /* what was asked last is often asked again */
  uint64_t now_ns;
  uint64_t active_ns;   /* the last time bytes came or went */
  uint64_t frame_at_ms; /* when the partial frame is given up; UINT64_MAX: none under way */
  idem_status failure;  /* final; returned by feed */
  bool eof;
  bool lsp_client;      /* its `initialize` had capabilities */
  bool leaving;         /* it asked for shutdown: no more requests */
  bool left;            /* ... and has gone, or time was up */
  uint64_t leave_at_ms; /* when that will be; UINT64_MAX: not by itself */
  bool closed;
  bool aborted;    /* closed, and nothing more may be owed */
  bool orphaned;   /* ... since what it belonged to has ended */
  bool free_later; /* it is going, at the latest when the outermost entry point returns */
  bool woken;      /* on_output was called and nothing was taken since */
  uint8_t refuses; /* what comes from now on is not begun any more: an idem__reason; 0: it is */
  bool whole;      /* batches are worked on in one turn: answers to our calls are in them */
  bool going_on;   /* with `rest` */
  bool eof_waits;  /* input ended behind it */
  bool has_client_address;
  bool params_refused; /* its last message was, since its params are no object */
  uint8_t
      last_head;  /* length of the last Content-Length header: the next one's is guessed from it */
  unsigned depth; /* how many of our entry points are on the stack */
  /* What a peer can cause cannot flood the log; no kind of line hides another. */
  idem_log_bucket warnings, faults, endings;

  void *attachment; /* what a layer above keeps of this conn; freed with it */
  const idem__attachment_kind *attachment_kind;
  idem__conn_siblings siblings; /* of a peer that has several conns */
  void (*heard)(idem_conn *conn, const idem__message *message); /* each message; NULL: nobody */
  const idem__conn_layer *layer;                                /* NULL: none */

  idem_list requests; /* being handled, not yet settled */
  idem_list settled;  /* answered or cancelled, but their handlers still hold them */
  idem_list held;     /* waiting for their turn */
  size_t held_bytes;
  size_t held_refusals;
  size_t in_flight; /* requests owed an answer, batch elements included */
  size_t in_flight_max;
  size_t id_bytes;
  size_t running;
  idem_map owed;
  idem__heap request_timers;
  idem_list batches;

  idem_list calls;
  size_t call_count;
  idem_map calls_by_id;
  idem__heap call_timers;
  uint64_t next_call_id;

  idem_list output;        /* chunks ready to be taken; the last one grows */
  idem_list taken;         /* chunks taken and not yet freed */
  size_t queued;           /* bytes in both and in batches */
  uint64_t put;            /* bytes put out since the beginning, */
  uint64_t taken_out;      /* and those of them that were taken */
  size_t own;              /* the part of it that is calls and notifications of ours */
  size_t gathered;         /* the part of it in batches: no peer can read that yet */
  struct idem__rest *rest; /* NULL: nothing waits for a turn */
};

#define IDEM__REST_ROOM ((size_t)1 << 20) /* for what is read at once, beside the longest message */
/* What came when its turn was over. */
typedef struct idem__rest {
  idem__late late;
  idem_conn *conn;
  idem_buf bytes;
  size_t at;                /* so many of them are looked at */
  struct idem__batch_rest { /* of a batch before them */
    idem__batch *batch;     /* NULL: none; else it counts as one more request in flight */
    yyjson_val *next;
    size_t left; /* elements from there on */
  } batch;
} idem__rest;
static inline bool idem__turn_waits(const idem_conn *conn) { return conn->rest != NULL; }
static inline bool idem__turn_waits_in_batch(const idem_conn *conn) {
  return conn->rest && conn->rest->batch.batch;
}
/* The turn is over, and these elements wait for another; false: they are to be worked on. */
bool idem__turn_leave_batch(idem_conn *conn, const struct idem__batch_rest *at);
void idem__dispatch_rest_of_batch(idem_conn *conn);
/* The same of what was held: for its number, or for output that was not read. */
bool idem__turn_leave_held(idem_conn *conn, bool progress);
void idem__conn_refuse_rest(idem_conn *conn, idem__reason reason);
void idem__conn_set_refuses(idem_conn *conn, idem__reason reason); /* of what begins from now on */
void idem__turn_deinit(idem_conn *conn);
bool idem__turn_is_over(idem_conn *conn, bool progress);
/* Where it waits, with room for so many bytes more. NULL: no memory. */
idem_buf *idem__turn_room(idem_conn *conn, size_t len);
/* Keeps what has come until another turn. False: no memory. */
bool idem__turn_keep(idem_conn *conn, const char *data, size_t len);
/* The turn is over, and the framer's input waits for another; false: it is to be worked on. */
IDEM__APART bool idem__turn_put_off(idem_conn *conn, bool progress);
/* Nothing is to be put off, as after most messages: nobody has waited, and the coarse clock has not moved on since the
 * conn's was read. False: it may be. */
static inline bool idem__turn_goes_on(const idem_conn *conn) {
  const idem_pool *pool = conn->pool;
  return !pool->turn_ns ||
         (!conn->rest && conn->now_ns < pool->turn_ends_ns && pool->tick_ns(NULL) <= conn->now_ns);
}
void idem__turn_rest_taken(idem_conn *conn);
void idem__conn_go_on(idem__late *late);

#define IDEM__NEVER UINT64_MAX
uint64_t idem__conn_now_ns(idem_conn *conn); /* reads the clock */
static inline uint64_t idem__conn_clock_ms(const idem_conn *conn) {
  return conn->now_ns / 1000000u;
}
/* Entry points that run callbacks stand between these; leave may free the conn. */
void idem__conn_enter(idem_conn *conn);
idem_status idem__conn_leave(idem_conn *conn);
/* Nobody waits for anything: it may be closed for being idle. */
static inline bool idem__conn_idle(const idem_conn *conn) {
  return !conn->in_flight && !conn->call_count && !conn->queued && idem_list_empty(&conn->held) &&
         !idem__turn_waits(conn);
}
/* For entry points that the application calls, not the driver: on_output tells of new output. */
void idem__conn_leave_waking(idem_conn *conn);
/* Its calls end when it is left, or, where nobody is inside, with the driver's next expire or close: not within a reply. */
IDEM__COLD void idem__conn_fail(idem_conn *conn, idem_status status);
/* Answers a request, or sends a refusal, that waited on a conn that has been closed. */
void idem__conn_settle_held(idem_request *request);
/* Something is to be taken or run: calls on_output unless an entry point is on the stack. */
void idem__conn_wake(idem_conn *conn);
/* Whether the first of what waits may run now. */
bool idem__dispatch_ready(const idem_conn *conn);
/* tell.c: lines of the log. A warning about what the peer did, limited in rate. */
IDEM__COLD void idem__conn_warn(idem_conn *conn, const char *message, const char *method,
                                size_t method_len, const idem__id *id);
/* What is only worth a line when someone is looking closely. */
IDEM__COLD void idem__conn_debug(idem_conn *conn, const char *message, const char *method,
                                 size_t method_len, const idem__id *id);
/* A line of any level; `detail` is ours, a constant or NULL. */
IDEM__COLD void idem__conn_note(idem_conn *conn, idem_log_level level, const char *message,
                                const char *detail, const idem__id *id);
/* Something never became a request: why, and how many bytes it had. `message` may be NULL. */
IDEM__COLD void idem__conn_tell_refusal(idem_conn *conn, const char *what,
                                        const idem__message *message, const idem__answer *answer,
                                        size_t size);
/* A notification that will have no effect. */
IDEM__COLD void idem__conn_tell_dropped(idem_conn *conn, const char *what,
                                        const idem__message *message, const char *reason,
                                        size_t size);
/* Whoever watches this conn is told what the peer did wrong. */
IDEM__COLD void idem__conn_tell_fault(idem_conn *conn, const idem_protocol_error *error);
/* The line of an error answer, unless the request had one. */
IDEM__COLD void idem__request_tell_error(idem_request *request, const idem__answer *answer);
/* The conn goes: how many lines were left out. */
void idem__conn_tell_end(idem_conn *conn);

/* Whether somebody looks at its messages; and shows one to them. */
static inline bool idem__conn_traced(const idem_conn *conn) {
  return conn->opts.on_trace || conn->pool->trace;
}
IDEM__COLD void idem__conn_trace(idem_conn *conn, idem_direction direction, const char *text,
                                 size_t len);

/* dispatch.c: one message, text and all. */
void idem__dispatch_text(idem_conn *conn, const char *text, size_t len);
/* Runs held messages while there is room. */
void idem__dispatch_held(idem_conn *conn);
/* A message must wait for its turn; `answered`: it makes an answer. */
bool idem__dispatch_must_hold(const idem_conn *conn, bool answered);

/* park.c: what outlives its message. A request that its handler keeps, linked to its conn's. */
IDEM__APART void idem__park_kept(idem_request *request);
/* It could not be kept: the peer gets its answer now, the handler's reply will find it settled. */
IDEM__COLD void idem__park_failed(idem_request *request, idem_status status);
/* It runs when its turn comes; where that cannot be, it is answered and ended. */
IDEM__COLD void idem__park_until_turn(idem_request *request);
/* The same for what gets no answer, if there is room: else whoever asked ends it. */
bool idem__park_has_room(const idem_conn *conn, const idem__block *block);
idem_status idem__park_silent(idem_request *request);

/* cancel.c */
bool idem__is_cancel(const idem_conn *conn, const idem__message *message);
/* Acts on such a notification. */
IDEM__COLD void idem__cancel_by(idem_conn *conn, idem__block *block, const char *text,
                                size_t text_len, const idem__message *message);

/* refuse.c: answers to what never becomes a request, unless the policy leaves junk unanswered. They
 * wait for their turn where requests do. `size` is the message's, for the log. */
IDEM__COLD void idem__refuse_unknown(idem_conn *conn, const idem__answer *answer, const char *what,
                                     size_t size);
IDEM__COLD void idem__refuse_parse(idem_conn *conn, size_t size);
IDEM__COLD void idem__refuse_whole(idem_conn *conn, idem__reason reason, size_t size);
/* A notification that nobody here wants, or (known) whose params are none. */
IDEM__COLD void idem__ignore_notification(idem_conn *conn, const idem__message *message,
                                          const idem__method *method, bool known, size_t size);
/* One that comes where notifications have no effect. */
IDEM__COLD void idem__refuse_notification(idem_conn *conn, const idem__message *message,
                                          const idem__method *method, size_t size);
IDEM__COLD void idem__refuse_frame(idem_conn *conn, idem__frame_event event, size_t size);
/* A message that has an id, or might have had one; inside a batch (else NULL) or alone. */
IDEM__COLD void idem__refuse_message(idem_conn *conn, idem__batch *batch,
                                     const idem__message *message, const idem__answer *answer,
                                     size_t size);
IDEM__COLD void idem__refuse_reason(idem_conn *conn, idem__batch *batch,
                                    const idem__message *message, idem__reason reason, size_t size);
/* One that waited: its turn has come, or nobody is there any more. */
IDEM__COLD void idem__refusal_send(idem_request *request);
IDEM__COLD void idem__refusal_forget(idem_request *request);

/* output.c: messages on their way out. put appends one message: begin, write into the buffer, end. */
idem_status idem__output_begin(idem_conn *conn, idem__chunk **chunk, size_t *start);
/* Frames what was written since begin and counts it, as an answer or as a message of our own. LIMIT:
 * it does not fit and was taken back. */
idem_status idem__output_end(idem_conn *conn, idem__chunk *chunk, size_t start, idem_outgoing what);
IDEM__COLD void idem__output_undo(idem_conn *conn, idem__chunk *chunk, size_t start);
/* One answer; on failure an "Internal error" with the same id; failing that the conn fails. */
idem_status idem__output_answer(idem_conn *conn, const idem__id *id, const idem__answer *answer);
void idem__output_free(idem_conn *conn);
/* Past the limit the peer must read first. What batches gather does not count here: it is sent when
 * their last request has run, so to hold requests back for it would be to wait for ever. */
static inline bool idem__output_has_room(const idem_conn *conn) {
  return conn->queued - conn->gathered < conn->policy.limits.queued_output_bytes;
}
static inline size_t idem__output_hard_limit(const idem_conn *conn) {
  return conn->policy.limits.queued_output_bytes * 2;
}
/* The maximum of a buffer for output: what is larger could not be queued. */
static inline size_t idem__output_bound(const idem_conn *conn) {
  size_t limit = idem__output_hard_limit(conn);
  return limit > SIZE_MAX / 2 ? limit : limit + 65536; /* frames, and commas of batches */
}

/* call.c */
IDEM__APART void idem__call_response(idem_conn *conn, const idem__message *message);
void idem__call_expire(idem_conn *conn, uint64_t now_ms);
void idem__call_close_all(idem_conn *conn);
/* A conn that failed has its calls ended as it is left: whoever hears of that may free it. */
static inline void idem__conn_end_failed(idem_conn *conn) {
  if (IDEM__UNLIKELY(conn->failure != IDEM_OK) && conn->depth == 1) idem__call_close_all(conn);
}

/* The peer will go (`shutdown`): it may ask no more. And it goes (`exit`). */
void idem__conn_shutdown_asked(idem_conn *conn);
void idem__conn_exit(idem_conn *conn);

#endif
