/* idem/rpc.h - JSON-RPC 2.0: routers, conns and requests. Sans-I/O: you feed bytes and take bytes.
 *
 * Ownership, in five sentences:
 * 1. What you pass in is borrowed for the call: idem copies or serialises before it returns. The
 *    exceptions are `user` pointers, and the router, log and metrics of a conn, which must outlive
 *    it; router and metrics must outlive the requests kept from it, too.
 * 2. What idem passes to a callback is borrowed until the callback returns, except an idem_request,
 *    which is yours until you reply.
 * 3. Every request is answered exactly once; the reply call ends it even if it returns an error. A
 *    request that is dropped (its handler returned without replying or keeping it, its deadline
 *    passed, the conn is shutting down) is answered by idem with an error carrying its id.
 * 4. Every call's response function runs exactly once: result, remote error, time-out, cancelled or
 *    closed; never from inside idem_call itself.
 * 5. What you get from ..._new or next_chunk you free with its ..._free; free takes NULL.
 *
 * A conn and everything that came from it belong to one thread at a time. */
#ifndef IDEM_RPC_H
#define IDEM_RPC_H

#include <idem/base.h>
#include <yyjson.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct idem_router idem_router;
typedef struct idem_conn idem_conn;
typedef struct idem_request idem_request;
typedef struct idem_pool idem_pool;

/* ---------------------------------------------------------------- wire codes */

typedef enum idem_rpc_code {
  IDEM_RPC_PARSE_ERROR = -32700,
  IDEM_RPC_INVALID_REQUEST = -32600,
  IDEM_RPC_METHOD_NOT_FOUND = -32601,
  IDEM_RPC_INVALID_PARAMS = -32602,
  IDEM_RPC_INTERNAL_ERROR = -32603,
  IDEM_RPC_SERVER_ERROR = -32000,     /* the first of the codes left to implementations */
  IDEM_RPC_REQUEST_CANCELLED = -32800 /* lsp */
} idem_rpc_code;

/* ------------------------------------------------------------------- policy */

typedef enum idem_profile {
  IDEM_PROFILE_JSONRPC = 0, /* plain JSON-RPC 2.0 */
  IDEM_PROFILE_LSP = 1,     /* editor daemons: Content-Length framing, no batches, in order */
  IDEM_PROFILE_MCP = 2      /* Model Context Protocol */
} idem_profile;

typedef enum idem_framing {
  IDEM_FRAMING_LINE = 0,           /* one message a line */
  IDEM_FRAMING_CONTENT_LENGTH = 1, /* header section, then that many bytes */
  IDEM_FRAMING_WHOLE = 2           /* all input is one message; each output chunk is one message */
} idem_framing;

typedef enum idem_unknown_id {
  IDEM_UNKNOWN_ID_NULL = 0, /* an error whose id could not be read carries "id":null */
  IDEM_UNKNOWN_ID_OMIT = 1  /* ... carries no id member */
} idem_unknown_id;

typedef enum idem_null_id_error {
  IDEM_NULL_ID_ERROR_REPORT = 0,    /* on_protocol_error is told; no call ends */
  IDEM_NULL_ID_ERROR_FAIL_ONLY = 1, /* if exactly one call is pending, it fails with the error */
  IDEM_NULL_ID_ERROR_FAIL_ALL = 2   /* every pending call fails with the error */
} idem_null_id_error;

typedef enum idem_code_set {
  IDEM_CODES_STANDARD = 0, /* the codes of JSON-RPC, and of MCP's older revisions */
  IDEM_CODES_MODERN = 1,   /* the codes of MCP's newer revisions */
  IDEM_CODES_ERLMCP = 2    /* the numbers erlmcp uses, -32001 to -32012 */
} idem_code_set;

/* Whose a code is. */
typedef enum idem_code_class {
  IDEM_CODE_PROTOCOL = 0,   /* of JSON-RPC or of the set in hand */
  IDEM_CODE_SERVER = 1,     /* -32000 to -32099, left to implementations */
  IDEM_CODE_RESERVED = 2,   /* -32768 to -32000 otherwise: nobody's yet */
  IDEM_CODE_APPLICATION = 3 /* any other */
} idem_code_class;
/* Whether an application may raise it (idem_reply_error sends "Internal error" instead of others). */
IDEM_API bool idem_code_allowed(idem_code_set codes, int64_t code);
/* "Parse error", "Tool not found", ...: what it is called in that set; NULL: it has no name. */
IDEM_API const char *idem_code_name(idem_code_set codes, int64_t code);
IDEM_API idem_code_class idem_code_class_of(idem_code_set codes, int64_t code);
/* At which level an answer with it is logged: error for our own faults, warn for the peer's, debug for
 * the application's. */
IDEM_API idem_log_level idem_code_severity(int64_t code);

typedef enum idem_error_detail {
  IDEM_ERROR_DETAIL_FULL = 0,   /* data as the errors are described */
  IDEM_ERROR_DETAIL_REASON = 1, /* of what idem itself says only "reason" and "hint" */
  IDEM_ERROR_DETAIL_NONE = 2    /* no data of idem's own; an application's errors keep theirs */
} idem_error_detail;

typedef enum idem_shutdown_answer {
  IDEM_SHUTDOWN_BY_CLIENT = 0, /* null for a client whose `initialize` had `capabilities` */
  IDEM_SHUTDOWN_TEXT = 1,      /* {"message":"Shutting down gracefully"} for everyone */
  IDEM_SHUTDOWN_NULL = 2       /* null for everyone, as LSP has it */
} idem_shutdown_answer;

typedef enum idem_error_message {
  IDEM_MESSAGE_CANONICAL = 0, /* "Invalid params": the cause stands in data alone */
  IDEM_MESSAGE_CAUSE = 1 /* "Unknown tool: nosuch": in the message, too; what an MCP server says */
} idem_error_message;

/* Zero means "no limit" only where a comment says so. */
typedef struct idem_limits {
  size_t message_bytes;       /* one message, on every framing; 10,485,760 */
  size_t depth;               /* nesting of arrays and objects; 512 */
  size_t parse_bytes;         /* memory one message may take as values; 128 MiB */
  size_t in_flight;           /* requests a conn owes an answer; 1,024 */
  size_t in_flight_id_bytes;  /* the sum of their ids' lengths; 1 MiB */
  size_t queued_output_bytes; /* then reading pauses; at twice this the conn fails; 16 MiB */
  size_t queued_input_bytes;  /* messages that wait for their turn, as values; 16 MiB */
  size_t batch;               /* elements of a batch; 1,000 */
  size_t header_bytes;        /* header section of a Content-Length frame; 8,192 */
  uint64_t frame_ms;          /* for a frame to arrive once begun; 30,000; 0: no limit */
  uint64_t idle_ms;           /* without traffic and without work; 300,000; 0: no limit */
  uint64_t request_ms;        /* for a handler to answer; 0 (default): no limit */
  uint64_t call_ms;           /* for a peer to answer a call; 0 (default): no limit */
  uint64_t exit_ms;           /* for `exit` to come after `shutdown` (lsp); 2,000; 0: no limit */
} idem_limits;

/* How the peer cancels a request, as a notification; method NULL: it cannot. */
typedef struct idem_cancel_form {
  const char *method;    /* "$/cancelRequest", "notifications/cancelled" */
  const char *id_member; /* "id", "requestId" */
  int answer_code;       /* the error the cancelled request is answered with; 0: no answer */
} idem_cancel_form;

/* Every rule of the wire that is a choice. Start from idem_policy_preset and change fields;
 * strings are borrowed and must outlive the conns. */
typedef struct idem_policy {
  idem_framing framing;
  bool null_id;           /* accept "id":null as a request with that id (else invalid-id-type) */
  bool fractional_id;     /* accept numbers that are not integers as ids */
  bool null_params;       /* "params":null counts as absent (else -32602) */
  bool array_params;      /* accept params by position (else -32602) */
  bool scalar_params;     /* accept texts, numbers and booleans as params (else -32600) */
  bool duplicate_members; /* of members that appear twice the last wins (else -32600) */
  bool strict_methods;    /* a method is 1 to 256 of letters, digits and _ . / $ - (else -32600) */
  bool byte_order_mark;   /* skip one in front of a message (else it is no JSON) */
  bool batches;           /* accept arrays */
  const char *batch_refusal;      /* the message that answers an array where batches are refused */
  bool notifications_run_methods; /* a notification naming a method runs it, its reply swallowed */
  bool guard_http;  /* close the conn when its bytes look like HTTP; uv.h sets it on sockets */
  bool answer_junk; /* answer what is no message; false for a client reading a server's output */
  idem_unknown_id unknown_id;
  idem_null_id_error null_id_error;
  idem_code_set codes;
  idem_error_message error_message;
  idem_cancel_form cancel;
  idem_shutdown_answer shutdown_answer;
  idem_error_detail error_detail;
  unsigned notification_status;   /* HTTP: of an accepted notification; 0: 204, MCP: 202 */
  const char *quiet_notification; /* no reason for a warning where nobody listens (NULL: none) */
  size_t concurrency; /* requests handled at once; 0: no bound but in_flight. 1: in order */
  idem_limits limits;
} idem_policy;

/* The defaults of a profile. Never fails; an unknown profile gives jsonrpc. */
IDEM_API idem_policy idem_policy_preset(idem_profile profile);

/* ------------------------------------------------------------------- router */

/* Answers, keeps or forgets the request (see rule 3). `params` is NULL, an object or an array; where the
 * policy has scalar_params anything. */
typedef void (*idem_method_fn)(idem_request *request, yyjson_val *params, void *user);
typedef void (*idem_notification_fn)(idem_conn *conn, yyjson_val *params, void *user);

/* For listMethods, describeMethods and rpc.discover. All may be NULL; strings are copied. */
typedef struct idem_method_info {
  const char *description;
  const char *const *params; /* NULL-terminated list of "name: type" */
  const char *returns;
  /* For rpc.discover, JSON Schemas as text: of the params as an object, whose properties are the params,
   * in their order and instead of `params`; and of the result, instead of `returns`. */
  const char *params_schema;
  const char *result_schema;
} idem_method_info;

typedef struct idem_router_opts {
  const idem_alloc *alloc;
  uint64_t seed;            /* mixed into the secret that keys hash tables; may be 0 */
  size_t parse_bytes_total; /* memory all conns' messages may take as values; 0: 512 MiB */
} idem_router_opts;

/* opts may be NULL. NOMEM. */
IDEM_API idem_status idem_router_new(const idem_router_opts *opts, idem_router **out);
IDEM_API void idem_router_free(idem_router *router);
/* Registers before serving begins, not from a handler. EXISTS: the name is taken. INVAL: the name
 * begins with "rpc.", or fn is NULL. NOMEM, LIMIT (millions of names). A name may have one method
 * and one notification handler. The name is copied; any string is one. */
IDEM_API idem_status idem_router_method(idem_router *router, const char *name, idem_method_fn fn,
                                        void *user);
IDEM_API idem_status idem_router_notification(idem_router *router, const char *name,
                                              idem_notification_fn fn, void *user);
/* A method for all names of a form: text, and values in braces, "list.{action}", "doc.{id}.get". A value is one
 * byte or more up to the next '.', '/' or the byte that follows it in the pattern. A name that is registered as such
 * wins; of several patterns the one registered first does. In metrics, listMethods and rpc.discover it stands as
 * written. Names over 1,024 bytes fit no pattern. INVAL: no value in it, more than 8, one twice, two side by side, a value's
 * name that is not of letters, digits and _ or holds the byte that follows the value, a stray brace, over 256 bytes,
 * "rpc."; LIMIT: more than 256 patterns; else as idem_router_method. Where notifications run methods, they run these, too. */
IDEM_API idem_status idem_router_pattern(idem_router *router, const char *pattern,
                                         idem_method_fn fn, void *user);
/* NOTFOUND when no such name or pattern is registered; INVAL: a schema is no JSON object; NOMEM. After the last two it
 * has no description. */
IDEM_API idem_status idem_router_describe(idem_router *router, const char *name,
                                          const idem_method_info *info);
/* Gives the router's method names to a metrics object; do it for each before serving, or its
 * requests are counted as `other`. STATE: the object had other names before. NOMEM, LIMIT; INVAL: a
 * name that is no label (over 256 bytes, bad UTF-8). */
IDEM_API idem_status idem_router_label(const idem_router *router, idem_metrics *metrics);

/* The built-in methods of the lsp profile: initialize, listMethods, describeMethods, version,
 * setLogLevel, shutdown, and the notification exit. `log` (may be NULL) is what setLogLevel sets. */
typedef struct idem_lsp_opts {
  const char *server_name;    /* copied */
  const char *server_version; /* strict SemVer; copied */
  idem_log *log;
} idem_lsp_opts;
/* EXISTS: a name is taken, or it was called before. NOMEM. After a failure free the router. */
IDEM_API idem_status idem_router_lsp(idem_router *router, const idem_lsp_opts *opts);

/* The built-in method rpc.discover: what can be asked, as an OpenRPC document of this title and version (copied), made of what
 * idem_router_describe was told by then. No name of an application begins so. EXISTS: called before. NOMEM. */
IDEM_API idem_status idem_router_discover(idem_router *router, const char *title,
                                          const char *version);

/* --------------------------------------------------------------------- pool */

/* Memory that conns of one thread reuse: message arenas, output buffers, requests. Optional: a conn
 * without one makes its own. */
IDEM_API idem_status idem_pool_new(const idem_alloc *alloc, idem_pool **out);
/* Safe before its conns, chunks and requests are gone: the last of them frees it. */
IDEM_API void idem_pool_free(idem_pool *pool);
/* Gives memory kept for large messages back; call when the loop has been quiet for a while. */
IDEM_API void idem_pool_trim(idem_pool *pool);

typedef enum idem_direction { IDEM_IN = 0, IDEM_OUT = 1 } idem_direction;

/* A message of any conn of a pool as it comes and goes, whole and unframed. Lent for the call. */
typedef struct idem_traced {
  idem_direction direction;
  const char *text;
  size_t len;
  uint64_t conn;    /* a number that no other conn of the pool has had */
  const char *peer; /* as idem_conn_peer says */
  bool serves;      /* the conn has a router: it is the other side that asks */
} idem_traced;
/* Shows every message of every conn of the pool to `fn`, from now on; NULL: to nobody. It runs inside the engine:
 * it copies what it wants, and calls nothing of conns. */
typedef void (*idem_trace_fn)(const idem_traced *message, void *user);
IDEM_API void idem_pool_trace(idem_pool *pool, idem_trace_fn fn, void *user);

/* --------------------------------------------------------------------- conn */

/* What a peer did wrong, for on_protocol_error. */
typedef struct idem_protocol_error {
  const char *what; /* "response with an unknown id", ... a constant */
  int64_t code;     /* the code of an error answer with id null; else 0 */
  const char
      *message; /* its message, not yet escaped; of what is no message, why ("oversize"); or NULL */
  size_t message_len;
} idem_protocol_error;

typedef struct idem_conn_opts {
  const idem_router *router; /* NULL: every request is answered "Method not found" */
  const idem_policy *policy; /* NULL: the jsonrpc preset. Copied. */
  const idem_alloc *alloc;
  idem_pool *pool; /* NULL: the conn's own */
  /* Monotonic nanoseconds. NULL: time stands still and no deadline ever passes. */
  uint64_t (*now_ns)(void *ctx);
  void *clock_ctx;
  /* There is output where there was none, or the conn has come to its end: look at chunks, deadline
   * and done. Not called from inside feed, feed_eof or expire: look after those anyway. Take chunks
   * later or now; do not free, close or abort the conn in it, nor feed it. */
  void (*on_output)(idem_conn *conn, void *user);
  void (*on_protocol_error)(idem_conn *conn, const idem_protocol_error *error, void *user);
  /* Asked before each request and notification, batch elements too, and for what is no message;
   * false: it comes too fast. The request is answered as rate limited, the notification dropped.
   * NULL: everything may come. */
  bool (*admit)(idem_conn *conn, void *user);
  /* Every message, whole and unframed, as it comes and goes. */
  void (*on_trace)(idem_conn *conn, idem_direction direction, const char *message, size_t len,
                   void *user);
  /* The peer has gone after `shutdown` (lsp built-in): it said `exit`, ended its input or let
   * limits.exit_ms pass. The conn is closing already. */
  void (*on_shutdown)(idem_conn *conn, void *user);
  void *user;
  idem_log *log;
  idem_metrics *metrics;
  const char *peer; /* for the log; copied */
  uint64_t seed;    /* as in idem_router_opts */
} idem_conn_opts;

/* NOMEM. STATE: this yyjson does not keep strings where ids can be found by them. */
IDEM_API idem_status idem_conn_new(const idem_conn_opts *opts, idem_conn **out);
/* Ends the conn at once. Pending calls end with CLOSED, on_cancel functions run; requests still
 * being handled stay valid handles whose replies do nothing and return CLOSED. From inside a
 * callback of this conn it takes effect when the outermost call returns; that call then returns
 * CLOSED and the conn must not be touched again. */
IDEM_API void idem_conn_free(idem_conn *conn);
IDEM_API void *idem_conn_user(const idem_conn *conn);
IDEM_API const idem_policy *idem_conn_policy(const idem_conn *conn);
IDEM_API const char *idem_conn_peer(const idem_conn *conn);

/* Takes input; handlers run inside. Bad input is answered and the conn lives; a failure (LIMIT: the
 * peer does not read its answers, NOMEM, CLOSED, PROTO: not a JSON-RPC peer) is final and is
 * returned again by every later call. STATE: called from inside a callback. */
IDEM_API idem_status idem_conn_feed(idem_conn *conn, const char *data, size_t len);
/* No more input. What was asked is still answered; calls end with CLOSED. Same statuses as feed. */
IDEM_API idem_status idem_conn_feed_eof(idem_conn *conn);
/* False while the peer must first read what is queued for it, and when no more input is taken. A
 * hint: what is fed all the same is held back within limits.queued_input_bytes, then refused. */
IDEM_API bool idem_conn_want_read(const idem_conn *conn);

/* What a message on its way out is, so that nobody need read its text again. */
typedef enum idem_outgoing_kind {
  IDEM_OUTGOING_SEVERAL, /* messages one behind the other; never with IDEM_FRAMING_WHOLE */
  IDEM_OUTGOING_RESULT,
  IDEM_OUTGOING_ERROR,
  IDEM_OUTGOING_BATCH, /* an array of answers */
  IDEM_OUTGOING_CALL,
  IDEM_OUTGOING_NOTIFICATION
} idem_outgoing_kind;
typedef struct idem_outgoing {
  idem_outgoing_kind kind;
  union {
    int64_t code;  /* ERROR */
    uint64_t call; /* CALL: its id */
  };
} idem_outgoing;

/* Bytes to send. Owned: survives asynchronous writes and even the conn; counts as queued output
 * until freed. With IDEM_FRAMING_WHOLE a chunk is one message. */
typedef struct idem_chunk {
  const char *data;
  size_t len;
  idem_outgoing what;
  void *owner; /* private */
} idem_chunk;
/* True and a chunk, or false when there is nothing to send. */
IDEM_API bool idem_conn_next_chunk(idem_conn *conn, idem_chunk *chunk);
IDEM_API void idem_chunk_free(idem_chunk *chunk);
/* Bytes queued for the peer: in the conn and in chunks not yet freed. */
IDEM_API size_t idem_conn_queued(const idem_conn *conn);

/* When expire must be called next, in milliseconds of the conn's clock; UINT64_MAX: never; a time
 * already past means now. Look again after every call that may have changed it: feed, expire, a
 * reply, idem_chunk_free (requests that waited for room can run). */
IDEM_API uint64_t idem_conn_deadline(const idem_conn *conn);
/* Ends what is overdue and runs what was waiting for room. Same statuses as feed, but OK for a conn
 * that was closed. */
IDEM_API idem_status idem_conn_expire(idem_conn *conn);

/* Accepts no more messages; requests being handled may still be answered, those that no handler has
 * seen are answered with an error now. Calls end with CLOSED, inside. Allowed in handlers. */
IDEM_API void idem_conn_close(idem_conn *conn);
/* Like close, and answers every request still owed with an error now; their handlers are told. */
IDEM_API void idem_conn_abort(idem_conn *conn);
/* True when nothing more will come out: input has ended or the conn is closed, every request is
 * answered and all output was taken; or the conn has failed. Chunks may still be on their way. */
IDEM_API bool idem_conn_done(const idem_conn *conn);
IDEM_API size_t idem_conn_in_flight(const idem_conn *conn);
IDEM_API size_t idem_conn_pending_calls(const idem_conn *conn);

/* ------------------------------------------------------------------ request */

/* All of these are valid until you end the request, even if it was cancelled or the conn is gone. */
IDEM_API const char *idem_request_method(const idem_request *request, size_t *len);
IDEM_API yyjson_val *idem_request_params(const idem_request *request);
/* What a value of the pattern that this method was found by stands for: {action} of "list.{action}" in
 * "list.open" is "open". Not NUL-terminated; any bytes that a name may have. NULL: the pattern has no such value, or a name was
 * found. */
IDEM_API const char *idem_request_value(const idem_request *request, const char *name, size_t *len);
/* The id as it stood in the message: the raw JSON token. NULL for a notification. */
IDEM_API const char *idem_request_id(const idem_request *request, size_t *len);
/* NULL once the conn is gone. */
IDEM_API idem_conn *idem_request_conn(const idem_request *request);
/* Whether who asked keeps up: fewer bytes than limits.queued_output_bytes wait for it. Who answers later and at length
 * waits while they do not: at twice that an answer does not fit and becomes an error. True once the conn is gone. */
IDEM_API bool idem_request_has_room(const idem_request *request);
/* A document to build the result in; freed with the request. NULL: no memory. */
IDEM_API yyjson_mut_doc *idem_request_doc(idem_request *request);

/* Call before the handler returns to answer later. Then reply or drop it, from the conn's thread. */
IDEM_API void idem_request_keep(idem_request *request);
/* Ends a request you have no answer for: "Internal error", unless it was cancelled. */
IDEM_API void idem_request_drop(idem_request *request);

typedef enum idem_cancel_reason {
  IDEM_CANCEL_PEER = 0,     /* the peer no longer wants the answer */
  IDEM_CANCEL_DEADLINE = 1, /* limits.request_ms passed; idem has answered */
  IDEM_CANCEL_CLOSED = 2    /* the conn is gone or was aborted, or could not keep the request */
} idem_cancel_reason;
/* `fn` runs at most once, when an answer has lost its purpose. The request is still yours: reply
 * or drop it to end it, in fn or later (nothing is sent). Not called once the request was answered.
 * Set it before the handler returns; a second one replaces the first. */
typedef void (*idem_cancel_fn)(idem_request *request, idem_cancel_reason reason, void *user);
IDEM_API void idem_request_on_cancel(idem_request *request, idem_cancel_fn fn, void *user);
IDEM_API bool idem_request_cancelled(const idem_request *request);

/* Each of these ends the request, whatever it returns. STATE: it was answered already (also by a
 * deadline or a cancellation), nothing was sent. CLOSED: the peer is gone. INVAL: the value could
 * not be serialised (bad UTF-8, NaN, not JSON); the peer gets "Internal error". LIMIT: the answer
 * is larger than the output queue allows; NOMEM; likewise. A conn that has failed returns its
 * failure. For a notification that runs a method: OK, and nothing is sent. */
/* NULL: the result null. */
IDEM_API idem_status idem_reply(idem_request *request, const yyjson_val *result);
/* NULL: the result could not be built; the peer gets "Internal error", the caller NOMEM. */
IDEM_API idem_status idem_reply_mut(idem_request *request, const yyjson_mut_val *result);
/* Foreign JSON text: checked and made compact. */
IDEM_API idem_status idem_reply_json(idem_request *request, const char *json, size_t len);
/* `data` NULL or JSON null: no data member. A code that is not the application's to raise is
 * logged and sent as "Internal error". */
IDEM_API idem_status idem_reply_error(idem_request *request, int64_t code, const char *message,
                                      const yyjson_mut_val *data);
IDEM_API idem_status idem_reply_error_json(idem_request *request, int64_t code, const char *message,
                                           const char *data_json, size_t len);
/* data is {"details": text}. */
IDEM_API idem_status idem_reply_error_text(idem_request *request, int64_t code, const char *message,
                                           const char *details);

/* "Invalid params" with what was wrong. All members but `param` and `expected` may be NULL. */
typedef struct idem_param_fault {
  const char *param;           /* a path: "address.zip", "[0]"; "" for the params themselves */
  const char *expected;        /* "integer", "one of the accepted values" */
  yyjson_val *received;        /* named by its JSON type; NULL: "nothing" */
  const char *const *accepted; /* NULL-terminated closed list; then the value itself is shown,
                                  at most 64 bytes of it */
} idem_param_fault;
IDEM_API idem_status idem_reply_invalid_params(idem_request *request,
                                               const idem_param_fault *fault);

/* ----------------------------------------------------------- reading params */

/* Typed getters that name the path on failure: each fills *fault (its strings live as long as
 * `params` and `name`) and returns INVAL when the member is missing or of another type. `params`
 * may be an object (looked up by name), an array (by position) or NULL. Positions from 10 on are
 * called by `name` in a fault. Numbers count in any spelling: 7.0 is an int. */
IDEM_API idem_status idem_param_double(yyjson_val *params, const char *name, size_t position,
                                       double *value, idem_param_fault *fault);
IDEM_API idem_status idem_param_int(yyjson_val *params, const char *name, size_t position,
                                    int64_t *value, idem_param_fault *fault);
IDEM_API idem_status idem_param_string(yyjson_val *params, const char *name, size_t position,
                                       const char **value, size_t *len, idem_param_fault *fault);
IDEM_API idem_status idem_param_bool(yyjson_val *params, const char *name, size_t position,
                                     bool *value, idem_param_fault *fault);

/* -------------------------------------------------------------------- calls */

/* How a call ended. Borrowed for the callback. */
typedef struct idem_response {
  idem_status status; /* OK; REMOTE: `code`, `message`, `data`; TIMEOUT, CANCELLED, CLOSED;
                         PROTO: the peer's answer was malformed. Over HTTP also SYS: the server
                         cannot be reached; LIMIT: its answer is too large; NOMEM */
  uint64_t id;
  yyjson_val *result;  /* OK only */
  int64_t code;        /* REMOTE only */
  const char *message; /* REMOTE; else NULL, or a sentence for people that says what happened */
  size_t message_len;
  yyjson_val *data; /* REMOTE, may be NULL */
  bool
      not_sent; /* the question certainly never left: it was still queued, or nobody could be reached */
} idem_response;
typedef void (*idem_response_fn)(idem_conn *conn, const idem_response *response, void *user);

typedef struct idem_call_opts {
  uint64_t timeout_ms; /* 0: the policy's call_ms. On expiry the peer is told, as for idem_cancel */
} idem_call_opts;

/* Asks the peer. `params` NULL or an object or array; opts and id may be NULL. On failure (NOMEM,
 * INVAL, LIMIT: too much queued for the peer, CLOSED) fn will not run. fn may be NULL. Allowed in
 * handlers. */
IDEM_API idem_status idem_call(idem_conn *conn, const char *method, const yyjson_mut_val *params,
                               const idem_call_opts *opts, idem_response_fn fn, void *user,
                               uint64_t *id);
IDEM_API idem_status idem_call_json(idem_conn *conn, const char *method, const char *params_json,
                                    size_t len, const idem_call_opts *opts, idem_response_fn fn,
                                    void *user, uint64_t *id);
/* Ends the call with CANCELLED (fn runs inside) and tells the peer in the profile's own form, if it
 * has one. NOTFOUND: no such call is pending. */
IDEM_API idem_status idem_cancel(idem_conn *conn, uint64_t id);
/* Statuses as for idem_call. Allowed in handlers. */
IDEM_API idem_status idem_notify(idem_conn *conn, const char *method, const yyjson_mut_val *params);
IDEM_API idem_status idem_notify_json(idem_conn *conn, const char *method, const char *params_json,
                                      size_t len);

/* ---------------------------------------------------- messages without a conn */

/* For who keeps the books of ids and calls elsewhere: queues, proxies, tests. Nothing here answers, matches or
 * remembers anything. */
typedef enum idem_message_kind {
  IDEM_MESSAGE_REQUEST = 0,
  IDEM_MESSAGE_NOTIFICATION = 1,
  IDEM_MESSAGE_RESULT = 2,
  IDEM_MESSAGE_ERROR = 3,
  IDEM_MESSAGE_INVALID = 4 /* is none of these */
} idem_message_kind;

/* What a message says; what its kind does not have is zero. */
typedef struct idem_message {
  idem_message_kind kind;
  const char
      *id; /* its JSON, byte for byte: 7, "seven", null; NULL: it has none that can be read */
  size_t id_len;
  const char *method; /* REQUEST, NOTIFICATION; INVALID where it could be read */
  size_t method_len;
  int64_t code; /* ERROR; INVALID: what a conn would answer; 0: nothing, it is a response */
  /* ERROR: its message (NULL when it is composed: what the code is called); INVALID: the reason that a
   * conn would give ("bad-version"), or NULL. */
  const char *text;
  size_t text_len;
  yyjson_val *value; /* params, result or data; NULL: there are none */
  /* Only where it is composed, instead of `value`: */
  const yyjson_mut_val *value_mut;
  const char *value_json; /* checked and made compact */
  size_t value_json_len;
} idem_message;

typedef struct idem_messages idem_messages;
/* Reads one unframed message, or a batch, by the rules of a conn with this policy (NULL: the jsonrpc preset) and within its
 * limits. What is no JSON, too large, or a batch that is refused is one INVALID message. The text is not needed
 * afterwards. NOMEM; STATE as idem_conn_new. */
IDEM_API idem_status idem_messages_read(const char *text, size_t len, const idem_policy *policy,
                                        const idem_alloc *alloc, idem_messages **out);
IDEM_API void idem_messages_free(idem_messages *messages);
/* At least one. */
IDEM_API size_t idem_messages_count(const idem_messages *messages);
/* It was an array: the answers belong into one, too. */
IDEM_API bool idem_messages_is_batch(const idem_messages *messages);
/* Lives as long as `messages`; NULL past the last. */
IDEM_API const idem_message *idem_messages_at(const idem_messages *messages, size_t index);

/* Writes a message as a conn would, unframed and compact, with the id of your choice: its JSON, kept byte for byte. An
 * ERROR without id is written with the policy's unknown id. *text is NUL-terminated and freed with
 * idem_message_text_free and the same allocator. INVAL: kind INVALID; a request or result without an id, a notification with one; an
 * id that is no string, number or null; no method; params that are no object or array; what is not JSON, not UTF-8 or not
 * finite; a text with a NUL. LIMIT: more than limits.message_bytes. NOMEM. */
IDEM_API idem_status idem_message_compose(const idem_message *message, const idem_policy *policy,
                                          const idem_alloc *alloc, char **text, size_t *len);
IDEM_API void idem_message_text_free(const idem_alloc *alloc, char *text);

/* ----------------------------------------------------------- lines of a request */

/* A line about a request and what came of it, with its method, id and peer; `detail` (may be NULL) is
 * redacted. Above debug it stands for the line that an error answer would have. The bucket limits the
 * rate; NULL: the conn's own for this level. None once the conn is gone. */
IDEM_API void idem_request_log(idem_request *request, idem_log_bucket *bucket, idem_log_level level,
                               const char *message, const char *detail);

/* Whether it has such a line above debug. */
IDEM_API bool idem_request_is_logged(const idem_request *request);
/* Since it came; 0 once the conn is gone. */
IDEM_API uint64_t idem_request_age_ms(const idem_request *request);
/* Of the message that it came in. */
IDEM_API size_t idem_request_bytes(const idem_request *request);
/* The codes its faults have. */
IDEM_API idem_code_set idem_request_codes(const idem_request *request);

#ifdef __cplusplus
}
#endif
#endif
