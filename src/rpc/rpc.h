/* rpc.h - what src/rpc offers the folders above it.
 * The nouns: an id is a raw token with a comparable value; a message is what a piece of JSON turned
 * out to be; an answer is what goes back. Requests and conns are asked by functions: what they hold is
 * nobody else's (inside.h). See docs/internals/rpc.md. */
#ifndef IDEM_RPC_PRIVATE_H
#define IDEM_RPC_PRIVATE_H

#include "../frame/frame.h"
#include "../json/json.h"
#include <idem/rpc.h>

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
/* An id that has this key, as JSON: its value, though perhaps not its spelling. */
struct idem__writer;
void idem__id_key_write(struct idem__writer *writer, const char *key, size_t len);

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
const char *idem__reason_cause(idem__reason reason); /* "Invalid Request: the id is in use" */

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
/* The same, and what the message brings holds no member twice: of those with one name the last one has stayed. Values of
 * `doc` behind it may have moved. NOMEM: no memory to look, or (the arena says it) more than allowed. */
idem_status idem__message_read(const idem_policy *policy, yyjson_doc *doc, const char *text,
                               size_t text_len, yyjson_val *val, idem__message *message);
/* A batch, all of it, before its messages are read. */
idem_status idem__message_keep_last(yyjson_doc *batch);

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
  bool timed_out; /* an error, since its time was up: counted as such */
  bool dropped;   /* an error, since there is no answer: nobody has said this */
  bool raised;    /* an error of the application's, with its data */
  int64_t code;
  const char *message; /* NULL: the canonical text of the code */
  idem__value value;   /* the result, or the error's data */
} idem__answer;

const char *idem__code_text(int64_t code); /* "Parse error", ...; NULL for other codes */
bool idem__code_allowed(idem_code_set codes, int64_t code);
/* Messages of errors name their cause; else it stands in the data alone. */
bool idem__policy_names_causes(const idem_policy *policy);
/* `policy` NULL: with the canonical text. */
IDEM__COLD idem__answer idem__answer_invalid_request(const idem_policy *policy,
                                                     idem__reason reason);
IDEM__COLD idem__answer idem__answer_code(int64_t code);
/* What a code set says of a peer that asks too often, and of a handler that took too long. */
IDEM__COLD idem__answer idem__answer_rate_limited(idem_code_set codes);
IDEM__COLD idem__answer idem__answer_timed_out(idem_code_set codes);
/* Appends {"jsonrpc":"2.0","id":ID,"result"|"error":...}; the buffer is as before on failure. An id
 * without raw token is written as the policy's unknown id. */
idem_status idem__answer_put(idem_buf *out, const idem_policy *policy, const idem__id *id,
                             const idem__answer *answer);
/* ... what it says alone: the result, or the error object. */
idem_status idem__answer_put_value(idem_buf *out, const idem_policy *policy,
                                   const idem__answer *answer);

/* ---------------------------------------------------------------- router */

typedef bool (*idem__gate_fn)(idem_request *request, yyjson_val *params, void *user);

/* Asked before every request's handler, also for names nobody registered. False: the gate has answered. For protocols with opinions of their own. */
void idem__router_set_gate(idem_router *router, idem__gate_fn gate, void *user);

/* Asked before a batch's messages are taken in, with the array. False: all of it is refused, as where there are no batches. */
typedef bool (*idem__batch_gate_fn)(yyjson_val *batch);
void idem__router_set_batch_gate(idem_router *router, idem__batch_gate_fn gate);

/* What its maps are hashed with: for tables that live beside it. */
uint64_t idem__router_seed(const idem_router *router);

/* --------------------------------------------------------------- request */

/* Memory that lives as long as the request. */
idem__arena *idem__request_memory(idem_request *request);
const idem__id *idem__request_id(const idem_request *request);
/* Appends a member's value as it stood in the message, byte for byte; `object` is part of its params and has it. A request that
 * waited and found no memory for its text says the value in our own spelling. */
idem_status idem__request_raw_member(const idem_request *request, yyjson_val *object,
                                     const char *name, idem_buf *out);
/* A string, or a number that is an integer of whatever size. */
bool idem__id_fits(yyjson_val *val, const char *raw, size_t raw_len);
/* The conn's last message was refused since its params are no object. */
bool idem__conn_params_refused(const idem_conn *conn);
/* The method's name as it was asked for. */
const char *idem__request_name(const idem_request *request, size_t *len);
/* What `fn` was registered with, where it is what runs for this request; else NULL. */
void *idem__request_user_of(const idem_request *request, idem_method_fn fn);
/* Somebody registered the method. */
bool idem__request_has_method(const idem_request *request);
/* It came in an array. */
bool idem__request_batched(const idem_request *request);
/* What its message came with (idem__conn_set_note); NULL: nothing. */
const char *idem__request_note(const idem_request *request);
/* The wire is done with it: answered, cancelled, or the conn is gone. */
bool idem__request_settled(const idem_request *request);
/* Answered on a conn with metrics: how (OK, ERROR or TIMEOUT), and after how long. */
bool idem__request_measured(const idem_request *request, idem__outcome *outcome, uint64_t *took_ns);
/* Its handler may still use it. */
bool idem__request_in_use(const idem_request *request);
/* Whose codes its errors take from now on. */
void idem__request_set_codes(idem_request *request, idem_code_set codes);
/* What the layer above keeps of it: one, freed with the request. `keep_fn` (may be NULL) is told that the
 * handler keeps the request, perhaps again. */
void idem__request_attach(idem_request *request, void *attachment,
                          void (*free_fn)(void *attachment), void (*keep_fn)(void *attachment));
void *idem__request_attachment(const idem_request *request);
/* Settled before its handler answered: who takes the answer all the same. */
typedef void (*idem__late_answer_fn)(idem_request *request, const idem__answer *answer);
void idem__request_on_late_answer(idem_request *request, idem__late_answer_fn fn);
/* Stands between a handler and what becomes of its request. */
typedef struct idem__request_guard {
  /* Instead of the answer's going out: to be given later, or at once, by idem__reply_answer once the guard
   * is gone. The request is not ended meanwhile. What the answer points to is lent for the call. */
  idem_status (*answer)(idem_request *request, const idem__answer *answer);
  /* True: the handler is not told that its answer has lost its purpose. */
  bool (*cancel)(idem_request *request, idem_cancel_reason reason);
} idem__request_guard;
void idem__request_set_guard(idem_request *request, const idem__request_guard *guard); /* NULL */
/* What is said where its conn is aborted before it has an answer, instead of "Internal error"; NULL: that. What is given outlives the call. */
typedef const idem__answer *(*idem__cut_off_fn)(const idem_request *request);
void idem__request_on_cut_off(idem_request *request, idem__cut_off_fn fn);
/* Any answer, for layers with forms of their own. Ends the request. */
idem_status idem__reply_answer(idem_request *request, const idem__answer *answer);
/* A result that idem wrote: not checked again. */
idem_status idem__reply_own(idem_request *request, const char *json, size_t len);
idem_status idem__reply_error_own(idem_request *request, int64_t code, const char *message,
                                  const char *data_json, size_t len);
/* Answers and, unless a handler still owns it, frees. */
idem_status idem__request_settle(idem_request *request, const idem__answer *answer);
/* Tells the handler that its answer has lost its purpose. */
IDEM__COLD void idem__request_cancel(idem_request *request, idem_cancel_reason reason);
/* Calls the handler that its method was registered with. */
void idem__request_run_method(idem_request *request);
/* Calls a handler again for a request that was kept: the same rules apply to its return. */
void idem__request_rerun(idem_request *request, void (*run)(void *ctx), void *ctx);
/* A settled request leaves its conn: the end of the conn no longer cancels it. */
void idem__request_detach(idem_request *request);

/* ------------------------------------------------------------------ turns */

/* Something that goes on in another turn. */
typedef struct idem__late {
  idem_list link; /* in its pool's line */
  void (*run)(struct idem__late *late);
} idem__late;

/* Turns of so many ns, for a loop that calls idem__pool_new_turn each time round, and idem__pool_run_late soon after
 * on_late. Without them, everything is worked on as it comes. */
void idem__pool_set_turns(idem_pool *pool, uint64_t ns, uint64_t (*now_ns)(void *ctx),
                          void (*on_late)(void *user), void *user);
/* A clock that costs little, as the fine one was a moment ago: between short messages it is enough. */
void idem__pool_set_tick(idem_pool *pool, uint64_t (*coarse_ns)(void *ctx));
void idem__pool_new_turn(idem_pool *pool);
bool idem__pool_turn_over(idem_pool *pool, uint64_t now_ns);
bool idem__pool_turn_over_now(idem_pool *pool); /* looks at the clock */
void idem__pool_put_off(idem_pool *pool, idem__late *late);
bool idem__pool_has_late(const idem_pool *pool); /* somebody is in line */
/* A new turn, for those in line; true: some still are. */
bool idem__pool_run_late(idem_pool *pool);

/* ------------------------------------------------------------------- conn */

/* For transports that bring whole messages (HTTP, WebSocket), on a conn with whole framing: takes
 * one, as feed does. *kind (may be NULL): what it was; of a batch its last element, INVALID for
 * what is no message. */
idem_status idem__conn_message(idem_conn *conn, const char *text, size_t len,
                               idem__message_kind *kind);
uint64_t idem__conn_clock(idem_conn *conn); /* ns, read now */
/* For who must know when idem__conn_message returns which of its calls it has answered. */
void idem__conn_keep_batches_whole(idem_conn *conn);
/* Something that has come is not looked at yet: nothing more is to be read until on_output. */
bool idem__conn_waits(const idem_conn *conn);
/* What the messages that are taken from now on come with, borrowed until it is another; NULL: nothing. A text without NUL. */
void idem__conn_set_note(idem_conn *conn, const char *note, uint32_t len);

/* What a runtime keeps with a conn, whoever its user is. */
void idem__conn_set_host(idem_conn *conn, void *host);
void *idem__conn_host(const idem_conn *conn);
void idem__conn_set_driver(idem_conn *conn, void *driver);
void *idem__conn_driver(const idem_conn *conn);
void idem__conn_set_host_data(idem_conn *conn, void *data);
void *idem__conn_host_data(const idem_conn *conn);
/* As idem_conn_opts.on_trace, for a conn that is made already. */
void idem__conn_set_trace(idem_conn *conn,
                          void (*on_trace)(idem_conn *conn, idem_direction direction,
                                           const char *message, size_t len, void *user));

/* Who the next messages come from, and the IDEM__CLIENT_BYTES by which such clients are told apart, an
 * address; both borrowed until changed. */
#define IDEM__CLIENT_BYTES 16
void idem__conn_lend_peer(idem_conn *conn, const char *peer, const void *client);
/* The address of a conn's only client, IDEM__CLIENT_BYTES; copied. */
void idem__conn_set_client(idem_conn *conn, const void *address);
/* NULL: the conn has one client for life, or none at the moment. */
const void *idem__conn_client(const idem_conn *conn);
/* Of whoever it is; NULL: there is none. */
const void *idem__conn_address(const idem_conn *conn);
/* May serve another peer: nothing is owed, queued or pending, and it never failed. */
bool idem__conn_reusable(const idem_conn *conn);

/* A notification whose params idem wrote: not checked again. */
idem_status idem__notify_own(idem_conn *conn, const char *method, const char *params_json,
                             size_t len);

/* A call whose params idem wrote: not checked again. */
idem_status idem__call_own(idem_conn *conn, const char *method, const char *params_json, size_t len,
                           idem_response_fn fn, void *user, uint64_t *id);
/* The user of a pending call whose function this is; NULL: there is none. */
void *idem__call_user(const idem_conn *conn, uint64_t id, idem_response_fn fn);

/* For transports that carry each call by itself: ends one whose answer will not come, with a
 * sentence for people. False: it is not pending. */
bool idem__call_fail(idem_conn *conn, uint64_t id, idem_status status, const char *why);
bool idem__call_pending(const idem_conn *conn, uint64_t id);

/* The peer's answer owed under this id is still missing. */
bool idem__conn_owes(idem_conn *conn, const idem__id *id);
/* ... by the key of an id, as it was spelled; NULL: it is not, or only with its array. */
const idem__id *idem__conn_owed_id(const idem_conn *conn, const char *key, size_t len);
/* What it owes is an array of answers. */
bool idem__conn_gathers(const idem_conn *conn);
/* As if the peer had sent a cancellation on this conn; false: it owes no such id. */
bool idem__conn_cancel_id(idem_conn *conn, const idem__id *id);
/* Has whoever drives it take the output that is there. */
void idem__conn_tell_output(idem_conn *conn);
/* It is being freed: its last callbacks run. */
bool idem__conn_going(const idem_conn *conn);
idem_metrics *idem__conn_metrics(const idem_conn *conn); /* NULL: nothing is counted */
uint64_t idem__conn_now_ms(const idem_conn *conn);       /* as of the last entry point */
/* What a layer above keeps of it: one, of a kind that is told by its address. */
typedef struct idem__attachment_kind {
  void (*free)(void *attachment); /* called as the conn goes; NULL: nobody is */
} idem__attachment_kind;
/* `kind` NULL: it has none any more. */
void idem__conn_attach(idem_conn *conn, const idem__attachment_kind *kind, void *attachment);
/* NULL: there is none of this kind. */
void *idem__conn_attachment(const idem_conn *conn, const idem__attachment_kind *kind);
/* A protocol above that watches and waits on a conn of its own; its functions find it as the attachment. All may
 * be NULL. */
typedef struct idem__conn_layer {
  /* As the functions of idem_conn_opts, and before them. */
  void (*trace)(idem_conn *conn, idem_direction direction, const char *message, size_t len);
  void (*protocol_error)(idem_conn *conn, const idem_protocol_error *error);
  /* When `expire` wants to be called; UINT64_MAX: not. It runs inside idem_conn_expire. */
  uint64_t (*deadline)(const idem_conn *conn);
  void (*expire)(idem_conn *conn, uint64_t now_ms);
} idem__conn_layer;
void idem__conn_set_layer(idem_conn *conn, const idem__conn_layer *layer);
/* Has whoever drives it look at chunks and deadline again; inside an entry point it does so anyway. */
void idem__conn_look(idem_conn *conn);
/* Reads the clock: milliseconds. */
uint64_t idem__conn_read_clock(idem_conn *conn);
/* Calls that follow are cancelled in this form; a NULL method: the peer is not told. */
void idem__conn_set_cancel(idem_conn *conn, idem_cancel_form form);
/* Ends a request that nobody is to answer, by the rules of a protocol above. */
void idem__request_discard(idem_request *request);

/* It was closed: what runs may finish. */
bool idem__conn_closed(const idem_conn *conn);
/* Memory that is taken by half a message, or kept since the last one that came in pieces. */
size_t idem__conn_unfinished(const idem_conn *conn);
/* Others need it: what is kept is given back, half a message is refused with an unknown id, and the conn closes (true). Not
 * while it is being fed. */
IDEM__COLD bool idem__conn_give_way(idem_conn *conn);
/* As idem_conn_abort; what runs is answered with `unauthorized`: its peer may no longer ask. */
void idem__conn_revoke(idem_conn *conn);
/* As idem_conn_abort, where the server lives and what the conn belonged to has ended: what a layer above calls its session. */
void idem__conn_orphan(idem_conn *conn);
bool idem__conn_orphaned(const idem_conn *conn);
/* Messages are taken in as ever, but begin nothing any more: requests are refused for this reason, notifications dropped.
 * First what waits for a turn already. */
void idem__conn_refuse_new(idem_conn *conn, idem__reason reason);
bool idem__conn_refuses(const idem_conn *conn);
/* It was aborted: nothing more is owed. */
bool idem__conn_aborted(const idem_conn *conn);
/* Whose a conn's requests are, where a layer above knows more than an address; lent. */
typedef struct idem__whose {
  const char *client;  /* a name; NULL or "": the address is all there is */
  const char *session; /* NULL: none */
} idem__whose;
/* Told of each request that is under way when the conn is aborted (not revoked), once. True: it has answered it, or
 * has told its handler; where that left it open it is cut off as others are. */
void idem__conn_on_abort(idem_conn *conn, bool (*fn)(idem_request *request));
void idem__conn_set_whose(idem_conn *conn, void (*fn)(const idem_conn *conn, idem__whose *out));
/* work.c: bounds of what handlers may have kept, of all, of a client, of a session; 0 leaves one as it is.
 * At any time. */
void idem__router_limit_work(idem_router *router, size_t total, size_t client, size_t session);
/* ... of the bytes of a client's messages among it. Before serving. */
void idem__router_limit_work_bytes(idem_router *router, size_t client);
size_t idem__router_work(const idem_router *router); /* how many there are */
/* The handler keeps a request: LIMIT: that is one too many. No-op where it counts already. */
idem_status idem__work_begin(idem_request *request);
/* A request's memory has grown since its message came, or is about to by `more` bytes: counted for all and
 * for its client. False: there is no room, and nothing was counted. */
bool idem__work_grow(idem_request *request, size_t more);
void idem__conn_allow_batches(idem_conn *conn, bool allowed);
/* The ids of calls go up from here. */
void idem__conn_count_calls_from(idem_conn *conn, uint64_t id);
/* For a peer that has several conns. */
typedef struct idem__conn_siblings {
  /* A response to no call of this conn's: true if the layer above knows whose it is. */
  bool (*stray_response)(idem_conn *conn, const idem__message *message);
  /* Is this id in flight on another one? With `cancel`, cancels it there. */
  bool (*in_flight_elsewhere)(idem_conn *conn, const idem__id *id, bool cancel);
} idem__conn_siblings;
void idem__conn_set_siblings(idem_conn *conn, const idem__conn_siblings *siblings);
/* Notifications that come from now on have no effect, for this reason, which is static and goes to the log; NULL: they have. */
void idem__conn_drop_notifications(idem_conn *conn, const char *reason);
bool idem__conn_drops_notifications(const idem_conn *conn);
/* Called with each message before it is dispatched, for a transport that logs; only for looking. */
void idem__conn_set_heard(idem_conn *conn,
                          void (*fn)(idem_conn *conn, const idem__message *message));
/* A response that another conn of the same peer received, as if it had come here. */
void idem__conn_take_response(idem_conn *conn, const idem__message *message);

#endif
