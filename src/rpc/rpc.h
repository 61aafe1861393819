/* rpc.h - what src/rpc offers the folders above it, and what its own files share.
 * The nouns: an id is a raw token with a comparable value; a message is what a piece of JSON turned
 * out to be; a block is the memory of one message; an owed entry is an id we must answer.
 * See docs/internals/rpc.md. */
#ifndef IDEM_RPC_PRIVATE_H
#define IDEM_RPC_PRIVATE_H

#include "../frame/frame.h"
#include "../json/json.h"
#include <idem/rpc.h>
#include <stdatomic.h>

/* ------------------------------------------------------------------- ids */

typedef enum idem__id_kind {
  IDEM__ID_ABSENT,
  IDEM__ID_NULL,
  IDEM__ID_INTEGER, /* a number whose value is an integer within int64 */
  IDEM__ID_NUMBER,  /* any other number */
  IDEM__ID_STRING,
  IDEM__ID_INVALID /* a boolean, array or object; or the member was repeated */
} idem__id_kind;

typedef struct idem__id {
  idem__id_kind kind;
  bool fraction;   /* NUMBER: not an integer */
  const char *raw; /* the token as it stood in the message */
  size_t raw_len;
  int64_t integer;
  const char *text; /* STRING: decoded */
  size_t text_len;
} idem__id;

/* Reads the value of an "id" member, or of any member that names an id. */
void idem__id_read(yyjson_val *val, const char *raw, size_t raw_len, idem__id *id);
/* The most bytes idem__id_key writes. */
size_t idem__id_key_max(const idem__id *id);
/* Writes the form in which equal ids are equal bytes; returns its length. Not for NULL, ABSENT or
 * INVALID. */
size_t idem__id_key(const idem__id *id, char *out);

/* -------------------------------------------------------------- messages */

/* The reasons of -32600; the texts are idem__reason_text. */
typedef enum idem__reason {
  IDEM__REASON_NONE,
  IDEM__NOT_AN_OBJECT,
  IDEM__DUPLICATE_MEMBER,
  IDEM__BAD_VERSION,
  IDEM__INVALID_ID_TYPE,
  IDEM__MISSING_METHOD,
  IDEM__INVALID_METHOD_TYPE,
  IDEM__INVALID_PARAMS_TYPE,
  IDEM__DUPLICATE_ID,
  IDEM__TOO_MANY_IN_FLIGHT,
  IDEM__OVERSIZE,
  IDEM__BATCH_NOT_SUPPORTED,
  IDEM__BATCH_TOO_LARGE,
  IDEM__EMPTY_BATCH,
  IDEM__UNSUPPORTED_CONTENT_TYPE,
  IDEM__BAD_CHARSET,
  IDEM__HEADER_TOO_LARGE,
  IDEM__MISSING_CONTENT_LENGTH,
  IDEM__BAD_CONTENT_LENGTH,
  IDEM__NOT_INITIALIZED,
  IDEM__ALREADY_INITIALIZED,
  IDEM__UNAUTHORIZED,
  IDEM__FORBIDDEN_ORIGIN,
  IDEM__FORBIDDEN_HOST,
  IDEM__METHOD_NOT_ALLOWED,
  IDEM__RATE_LIMITED,
  IDEM__UNAVAILABLE
} idem__reason;
const char *idem__reason_text(idem__reason reason);

typedef enum idem__message_kind {
  IDEM__REQUEST,
  IDEM__NOTIFICATION,
  IDEM__RESPONSE, /* no method, but result or error; never answered, however malformed */
  IDEM__INVALID   /* `reason` says why; answered with `id`, null where it could not be read */
} idem__message_kind;

typedef struct idem__message {
  idem__message_kind kind;
  idem__reason reason;
  const char *params_refused; /* the type of params that the policy does not want: -32602 */
  bool version_ok;
  bool repeated; /* RESPONSE: a member appears twice */
  idem__id id;
  const char *method;
  size_t method_len;
  yyjson_val *params;
  yyjson_val *result;
  yyjson_val *error;
} idem__message;

/* Decides what one JSON value is. `text` is what `doc` was read from. */
void idem__message_classify(const idem_policy *policy, const yyjson_doc *doc, const char *text,
                            size_t text_len, yyjson_val *val, idem__message *message);

/* --------------------------------------------------------------- answers */

/* A JSON value in one of the forms it may come in, borrowed until it is written. */
typedef enum idem__value_kind {
  IDEM__VALUE_NONE,
  IDEM__VALUE_PARSED,  /* yyjson_val */
  IDEM__VALUE_MUTABLE, /* yyjson_mut_val */
  IDEM__VALUE_FOREIGN, /* JSON text of the application's: checked while written */
  IDEM__VALUE_OWN,     /* JSON text that idem wrote */
  IDEM__VALUE_MEMBER   /* {"key": text} */
} idem__value_kind;
typedef struct idem__value {
  idem__value_kind kind;
  const void *at;
  size_t len;
  const char *key;
} idem__value;

/* What goes into an answer. */
typedef struct idem__answer {
  bool is_error;
  int64_t code;
  const char *message; /* NULL: the canonical text of the code */
  idem__value value;   /* the result, or the error's data */
} idem__answer;

const char *idem__code_text(int64_t code); /* "Parse error", ...; NULL for other codes */
bool idem__code_allowed(idem_code_set codes, int64_t code);
IDEM__COLD idem__answer idem__answer_invalid_request(idem__reason reason);
IDEM__COLD idem__answer idem__answer_code(int64_t code);
/* The code, message and data of a named fault in a code set. */
IDEM__COLD idem__answer idem__answer_fault(idem_code_set codes, idem_fault fault,
                                           const char *subject);
/* Appends {"jsonrpc":"2.0","id":ID,"result"|"error":...}; the buffer is as before on failure. An id
 * without raw token is written as the policy's unknown id. */
idem_status idem__answer_put(idem__buf *out, const idem_policy *policy, const idem__id *id,
                             const idem__answer *answer);

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
  size_t cap;
  size_t text_len;
  unsigned refs;
  unsigned held;        /* requests that wait in conn->held: counted once, however many */
  size_t charged_bytes; /* counted against the router's parse_bytes_total */
  const idem_router *router;
  idem__arena arena;
  yyjson_doc *doc;
  _Alignas(16) char data[];
} idem__block;

/* NULL: no memory, or (*over) past the limits. */
idem__block *idem__block_new(idem_pool *pool, const idem_router *router, size_t text_len,
                             size_t limit, bool *over);
/* The text has been read into it: the pool remembers how much that took. */
void idem__block_parsed(idem__block *block);
void idem__block_release(idem__block *block);
/* Its message has been handled, but not all that came from it: it is cut to what it uses. */
void idem__block_keep(idem__block *block);
/* Counts the block's memory, as it is now, against the router's total; false: there is no room. */
bool idem__block_charge(idem__block *block);

/* A piece of output under construction or on its way. */
typedef struct idem__chunk {
  idem__list link;
  idem_pool *pool;
  idem_conn *conn; /* NULL once the conn is gone */
  size_t counted;  /* bytes this chunk adds to conn->queued */
  size_t own;      /* of these, our own calls and notifications: no answers */
  idem_outgoing what;
  idem__buf buf;
} idem__chunk;

struct idem_pool {
  idem_alloc alloc;
  unsigned refs;
  idem__slab *spare; /* with one block, open and unused: what most messages take; may be NULL */
  idem__slab *slabs; /* with room */
  size_t slab_count;
  idem__block *large_block;
  idem__list *chunks; /* spare */
  size_t chunk_count;
  idem__chunk *large_chunk;
  unsigned large_credit; /* small messages until the large ones are given back */
  size_t appetite;       /* sixteenths of a byte that a byte of text took lately; 0: not known */
  idem__list *fresh;     /* requests never kept */
  idem__list ended;      /* requests that were kept: reused late, to notice a second reply */
  size_t ended_count;
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
  char *description;
  char *returns;
  char **params; /* NULL-terminated */
} idem__method;

typedef bool (*idem__gate_fn)(idem_request *request, yyjson_val *params, void *user);

struct idem_router {
  idem_alloc alloc;
  idem__map methods;
  idem__method **order; /* by registration */
  size_t order_cap;
  size_t parse_bytes_total;
  _Atomic size_t parse_bytes_used;
  void *lsp; /* what idem_router_lsp keeps */
  idem__gate_fn gate;
  void *gate_user;
};

/* Asked before every request's handler, also for names nobody registered (request->method is then
 * NULL). False: the gate has answered. For protocols with opinions of their own. */
void idem__router_set_gate(idem_router *router, idem__gate_fn gate, void *user);

const idem__method *idem__router_find(const idem_router *router, const char *name, size_t len);
void idem__lsp_free(idem_router *router);

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
  idem__list link; /* in conn->batches */
  idem_conn *conn;
  idem__block *block;
  size_t count;   /* answers the array will have */
  size_t waiting; /* answers still missing */
  bool open;      /* elements are still being dispatched */
  idem__buf answers;
  struct idem__batch_part {
    size_t offset, len;
    idem__owed owed;
  } parts[];
} idem__batch;

struct idem_request {
  idem__list link; /* conn->requests, conn->held, or a list of the pool */
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
  yyjson_mut_doc *doc;
  idem__timer timer;
  uint64_t started_ns;
  idem_cancel_fn on_cancel;
  void *cancel_user;
  void *attachment; /* what a layer above keeps of it; freed with it */
  void (*attachment_free)(void *attachment);
  void (*attachment_keep)(void *attachment); /* the handler keeps it; may be called again */
  /* Settled before its handler answered: who takes the answer all the same. NULL: nobody. */
  void (*late_answer)(idem_request *request, const idem__answer *answer);
  idem_code_set codes; /* whose codes its errors take: the policy's, unless a layer above knows */
  bool id_kept;        /* id.raw is ours; false: it lies in the text being dispatched */
  bool live;           /* belongs to a handler; false: in a list of the pool */
  bool kept;           /* the handler will answer later */
  bool in_handler;     /* the handler is on the stack */
  bool held;           /* waits in conn->held */
  bool running;        /* counted in conn->running */
  bool parked;         /* written into the conn's books */
  bool settled;        /* the wire is done with it: answered, cancelled or conn gone */
  bool ended;          /* the handler is done with it */
  bool cancelled;
};

/* A result that idem wrote: not checked again. */
idem_status idem__reply_own(idem_request *request, const char *json, size_t len);
idem_status idem__reply_error_own(idem_request *request, int64_t code, const char *message,
                                  const char *data_json, size_t len);
/* Calls a handler again for a request that was kept: the same rules apply to its return. */
void idem__request_rerun(idem_request *request, void (*run)(void *ctx), void *ctx);
/* A settled request leaves its conn: the end of the conn no longer cancels it. */
void idem__request_detach(idem_request *request);
/* Answers and, unless a handler still owns it, frees. */
idem_status idem__request_settle(idem_request *request, const idem__answer *answer);
/* Tells the handler that its answer has lost its purpose. */
IDEM__COLD void idem__request_cancel(idem_request *request, idem_cancel_reason reason);
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
/* As if the peer had sent a cancellation on this conn; false: it owes no such id. */
bool idem__conn_cancel_id(idem_conn *conn, const idem__id *id);

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

typedef struct idem__call {
  idem__list link;
  idem__timer timer;
  uint64_t id;
  idem_response_fn fn;
  void *user;
} idem__call;

struct idem_conn {
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
  idem__message_kind last_kind;
  const idem__method *last_method; /* what was asked last is often asked again */
  uint64_t now_ns;
  uint64_t active_ms;   /* the last time bytes came or went */
  uint64_t frame_at_ms; /* when the partial frame is given up; UINT64_MAX: none under way */
  idem_status failure;  /* final; returned by feed */
  bool eof;
  bool closed;
  bool aborted;              /* closed, and nothing more may be owed */
  bool free_later;           /* it is going, at the latest when the outermost entry point returns */
  bool woken;                /* on_output was called and nothing was taken since */
  unsigned depth;            /* how many of our entry points are on the stack */
  idem__log_bucket warnings; /* what a peer does wrong cannot flood the log */

  void *attachment; /* what a layer above keeps of this conn; freed with it */
  void (*attachment_free)(void *attachment);
  /* A response to no call of this conn's: true if a layer above knows whose it is. */
  bool (*stray_response)(idem_conn *conn, const idem__message *message);
  /* For a peer that has several conns: is this id in flight on another one? With `cancel`, cancels
   * it there. NULL: one conn, one peer. */
  bool (*in_flight_elsewhere)(idem_conn *conn, const idem__id *id, bool cancel);

  idem__list requests; /* being handled, not yet settled */
  idem__list settled;  /* answered or cancelled, but their handlers still hold them */
  idem__list held;     /* waiting for their turn */
  size_t held_bytes;
  size_t in_flight; /* requests owed an answer, batch elements included */
  size_t id_bytes;
  size_t running;
  idem__map owed;
  idem__heap request_timers;
  idem__list batches;

  idem__list calls;
  size_t call_count;
  idem__map calls_by_id;
  idem__heap call_timers;
  uint64_t next_call_id;

  idem__list output; /* chunks ready to be taken; the last one grows */
  idem__list taken;  /* chunks taken and not yet freed */
  size_t queued;     /* bytes in both and in batches */
  size_t own;        /* the part of it that is calls and notifications of ours */
  size_t gathered;   /* the part of it in batches: no peer can read that yet */
  size_t
      last_head; /* length of the last Content-Length header: the next one's is guessed from it */
};

uint64_t idem__conn_now_ns(idem_conn *conn); /* reads the clock */
static inline uint64_t idem__conn_now_ms(const idem_conn *conn) { return conn->now_ns / 1000000u; }
/* For transports that bring whole messages (HTTP, WebSocket), on a conn with whole framing: takes
 * one, as feed does. *kind (may be NULL): what it was; of a batch its last element, INVALID for
 * what is no message. */
idem_status idem__conn_message(idem_conn *conn, const char *text, size_t len,
                               idem__message_kind *kind);
/* What a runtime keeps with a conn, whoever its user is. */
void idem__conn_set_host(idem_conn *conn, void *host);
void *idem__conn_host(const idem_conn *conn);
void idem__conn_set_driver(idem_conn *conn, void *driver);
void *idem__conn_driver(const idem_conn *conn);
void idem__conn_set_host_data(idem_conn *conn, void *data);
void *idem__conn_host_data(const idem_conn *conn);
/* Who the next messages come from, and the IDEM__CLIENT_BYTES by which such clients are told apart, an
 * address; both borrowed until changed. */
#define IDEM__CLIENT_BYTES 16
void idem__conn_lend_peer(idem_conn *conn, const char *peer, const void *client);
/* NULL: the conn has one client for life, or none at the moment. */
const void *idem__conn_client(const idem_conn *conn);
/* May serve another peer: nothing is owed, queued or pending, and it never failed. */
bool idem__conn_reusable(const idem_conn *conn);
/* Entry points that run callbacks stand between these; leave may free the conn. */
void idem__conn_enter(idem_conn *conn);
idem_status idem__conn_leave(idem_conn *conn);
/* For entry points that the application calls, not the driver: on_output tells of new output. */
void idem__conn_leave_waking(idem_conn *conn);
IDEM__COLD void idem__conn_fail(idem_conn *conn, idem_status status);
/* Something is to be taken or run: calls on_output unless an entry point is on the stack. */
void idem__conn_wake(idem_conn *conn);
/* Whether the first of what waits may run now. */
bool idem__dispatch_ready(const idem_conn *conn);
/* A warning about what the peer did, limited in rate. */
IDEM__COLD void idem__conn_warn(idem_conn *conn, const char *message, const char *method,
                                size_t method_len, const idem__id *id);
/* What is only worth a line when someone is looking closely. */
IDEM__COLD void idem__conn_debug(idem_conn *conn, const char *message, const char *method,
                                 size_t method_len);
/* A line of any level; `detail` is ours, a constant or NULL. */
IDEM__COLD void idem__conn_note(idem_conn *conn, idem_log_level level, const char *message,
                                const char *detail, const idem__id *id);

/* A line about a request and what came of it, with its method, id and peer; `detail` is redacted. The
 * bucket limits the rate; NULL: that of the conn's warnings. None once the conn is gone. */
IDEM__COLD void idem__request_tell(const idem_request *request, idem__log_bucket *bucket,
                                   idem_log_level level, const char *message, const char *detail);
/* Since it came; 0 once the conn is gone. */
uint64_t idem__request_age_ms(const idem_request *request);

/* dispatch.c: one message, text and all. */
void idem__dispatch_text(idem_conn *conn, const char *text, size_t len);
IDEM__COLD void idem__dispatch_frame_fault(idem_conn *conn, idem__frame_event event);
/* Runs held messages while there is room. */
void idem__dispatch_held(idem_conn *conn);
/* Answers something that never became a request. Unless the policy leaves junk unanswered. */
IDEM__COLD void idem__dispatch_refuse(idem_conn *conn, const idem__id *id,
                                      const idem__answer *answer);

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

/* call.c */
/* A notification whose params idem wrote: not checked again. */
idem_status idem__notify_own(idem_conn *conn, const char *method, const char *params_json,
                             size_t len);
IDEM__APART void idem__call_response(idem_conn *conn, const idem__message *message);
void idem__call_expire(idem_conn *conn, uint64_t now_ms);
void idem__call_close_all(idem_conn *conn);
/* For transports that carry each call by itself: ends one whose answer will not come, with a
 * sentence for people. False: it is not pending. */
bool idem__call_fail(idem_conn *conn, uint64_t id, idem_status status, const char *why);
bool idem__call_pending(const idem_conn *conn, uint64_t id);

/* lsp.c: the built-in `shutdown` ends the conn after its answer. */
void idem__conn_shutdown_asked(idem_conn *conn);

#endif
