/* dispatch.c - from a message's text to the handler it is for.
 * Responses and cancellations are acted on at once; requests and notifications run now or wait
 * their turn (policy.concurrency, or a peer that does not read its answers). */
#include "../base/short.h"
#include "inside.h"

#include <stdio.h>
#include <string.h>

#define METHOD_SHOWN_MAX 256u

/* ----------------------------------------------------------------- running */

/* A notification makes no answer, so it need not wait for the peer to read. */
static bool may_run(const idem_conn *conn, bool answered) {
  if (conn->policy.concurrency && conn->running >= conn->policy.concurrency) return false;
  return !answered || idem__output_has_room(conn);
}

bool idem__dispatch_must_hold(const idem_conn *conn, bool answered) {
  return !idem_list_empty(&conn->held) || !may_run(conn, answered);
}

/* What waits for a turn has it before what came later, and out of turn only as what ends. */
static bool has_turn(const idem_conn *conn) {
  return conn->going_on || conn->closed || !idem__turn_waits(conn);
}

bool idem__dispatch_ready(const idem_conn *conn) {
  if (idem_list_empty(&conn->held) || !has_turn(conn)) return false;
  const idem_request *first = IDEM_CONTAINER(conn->held.next, idem_request, link);
  return may_run(conn, first->refusal || first->id.kind != IDEM__ID_ABSENT);
}

IDEM__COLD static void answer_not_found(idem_request *request) {
  idem__answer answer = idem__answer_code(IDEM_RPC_METHOD_NOT_FOUND);
  if (request->name_len <= METHOD_SHOWN_MAX) {
    answer.value = (idem__value){IDEM__VALUE_MEMBER, request->name, request->name_len, "method"};
  }
  char size[32];
  snprintf(size, sizeof size, "%zu bytes", request->block->text_len);
  idem_request_log(request, NULL, IDEM_LOG_WARN, "an unknown method was called", size);
  idem__request_settle(request, &answer);
  idem__request_end(request);
}

static IDEM__INLINE void after_handler(idem_request *request) {
  request->in_handler = false;
  if (IDEM__LIKELY(request->ended)) {
    idem__request_end(request);
    return;
  }
  if (!request->kept) {
    idem_request_log(request, NULL, IDEM_LOG_ERROR, "a handler forgot to answer", NULL);
    idem_request_drop(request);
    return;
  }
  if (!request->parked) idem__park_kept(request);
}

void idem__request_rerun(idem_request *request, void (*run)(void *ctx), void *ctx) {
  bool nested = request->in_handler; /* its first run is still on the stack and ends it */
  request->in_handler = true;
  request->kept = false; /* to be kept or answered anew */
  run(ctx);
  if (nested) return;
  bool ended = request->ended;
  if (ended) request->kept = true; /* it was out of our hands: reuse its memory late */
  after_handler(request);
}

static bool passes_gate(idem_request *request, const idem_router *router) {
  request->in_handler = true;
  bool passed = router->gate(request, request->params, router->gate_user);
  if (passed)
    request->in_handler = false;
  else
    after_handler(request);
  return passed;
}

IDEM__HOT static void run_method(idem_request *request) {
  const idem_router *router = request->conn->opts.router;
  request->running = true;
  request->conn->running++;
  if (router && router->gate && !passes_gate(request, router)) return;
  if (IDEM__UNLIKELY(!request->method || !request->method->fn)) {
    answer_not_found(request);
    return;
  }
  request->in_handler = true;
  request->method->fn(request, request->params, request->method->user);
  after_handler(request);
}

static void run_notification(idem_conn *conn, const idem__method *method, yyjson_val *params) {
  idem__metrics_notification(conn->opts.metrics, method->label);
  method->notification_fn(conn, params, method->notification_user);
}

static bool runs_as_method(const idem_conn *conn, const idem__method *method) {
  return method->fn && conn->policy.notifications_run_methods;
}

/* What waited behind `shutdown` is not begun any more. */
static void refuse_held(idem_request *request) {
  idem__answer answer = idem__answer_invalid_request(&request->conn->policy, IDEM__UNAVAILABLE);
  idem__request_settle(request, &answer);
  idem__request_end(request);
}

/* A request, notification or refusal that waited: for its turn, or for that of an end in order. */
IDEM__APART static void run_held(idem_request *request) {
  idem_conn *conn = request->conn;
  if (request->refusal) {
    idem__refusal_send(request);
    return;
  }
  if (conn->closed) {
    idem__conn_settle_held(request);
    return;
  }
  if (conn->leaving && request->id.kind != IDEM__ID_ABSENT) {
    refuse_held(request);
    return;
  }
  idem_list_remove(&request->link);
  idem__request_unhold(request);
  request->parked = false; /* to be linked anew if it is kept */
  if (request->id.kind != IDEM__ID_ABSENT || !request->method->notification_fn) {
    run_method(request);
    return;
  }
  run_notification(conn, request->method, request->params);
  idem__request_forget(request);
  idem__request_end(request);
}

IDEM__EARLY void idem__dispatch_held(idem_conn *conn) {
  bool progress = false;
  while (idem__dispatch_ready(conn) && conn->failure == IDEM_OK && !conn->free_later) {
    if (conn->pool->turn_ns && idem__turn_leave_held(conn, progress)) return;
    run_held(IDEM_CONTAINER(conn->held.next, idem_request, link));
    progress = true;
  }
}

/* --------------------------------------------------------------- accepting */

IDEM__APART static const idem__method *look_up_method(idem_conn *conn,
                                                      const idem__message *message) {
  const idem__method *found =
      idem__router_find(conn->opts.router, message->method, message->method_len);
  if (found) conn->last_method = found;
  return found;
}

static IDEM__INLINE const idem__method *find_method(idem_conn *conn, const idem__message *message) {
  const idem__method *last = conn->last_method;
  if (IDEM__LIKELY(last && last->name_len == message->method_len &&
                   idem__same(last->name, message->method, message->method_len))) {
    return last;
  }
  return look_up_method(conn, message);
}

static IDEM__INLINE idem_request *make_request(idem_conn *conn, idem__block *block,
                                               const idem__message *message,
                                               const idem__method *method) {
  idem_request *request = idem__request_new(conn->pool);
  if (IDEM__UNLIKELY(!request)) return NULL;
  request->block = block;
  block->refs++;
  request->conn = conn;
  request->method = method;
  request->name = message->method;
  request->name_len = message->method_len;
  request->params = message->params;
  request->started_ns = conn->now_ns;
  request->codes = conn->policy.codes;
  request->id = message->id; /* its raw token lies in the message's text: see park.c */
  return request;
}

/* Nobody is near a bound as long as all together are not past that of a session. */
static inline bool work_is_full(const idem_conn *conn) {
  const idem_router *router = conn->opts.router;
  if (!router) return false;
  size_t kept = atomic_load_explicit(&router->workload.requests, memory_order_relaxed);
  size_t least = atomic_load_explicit(&router->workload.max_session, memory_order_relaxed);
  return IDEM__UNLIKELY(kept >= least) && idem__work_full(conn);
}

IDEM__COLD static idem__reason refusal_of(const idem_conn *conn) {
  if (conn->refuses) return (idem__reason)conn->refuses;
  return conn->leaving ? IDEM__UNAVAILABLE : IDEM__TOO_MANY_IN_FLIGHT;
}

/* Why a request cannot be taken in, if it cannot. Ids of a batch enter the table at once. */
static IDEM__INLINE idem__reason admission_fault(idem_conn *conn, const idem__message *message) {
  if (IDEM__UNLIKELY(conn->owed.count) && idem__owed_find(conn, &message->id))
    return IDEM__DUPLICATE_ID;
  if (IDEM__UNLIKELY(conn->siblings.in_flight_elsewhere != NULL) &&
      conn->siblings.in_flight_elsewhere(conn, &message->id, false)) {
    return IDEM__DUPLICATE_ID;
  }
  if (IDEM__UNLIKELY(conn->in_flight >= conn->in_flight_max)) return refusal_of(conn);
  if (IDEM__UNLIKELY(message->id.raw_len >
                     conn->policy.limits.in_flight_id_bytes - conn->id_bytes)) {
    return IDEM__TOO_MANY_IN_FLIGHT; /* before a handler has done something */
  }
  return work_is_full(conn) ? IDEM__TOO_MANY_IN_FLIGHT : IDEM__REASON_NONE;
}

/* The batch's own entry for the id: it stays until the array is sent. */
IDEM__APART static idem_status join_batch(idem_request *request, idem__batch *batch) {
  size_t index = idem__batch_expect(batch);
  request->batch = batch;
  request->batch_index = index;
  batch->parts[index].owed.request = request;
  return idem__owed_add(request->conn, &batch->parts[index].owed, &request->id, batch->block);
}

static IDEM__INLINE void start_request(idem_request *request) {
  if (IDEM__UNLIKELY(idem__dispatch_must_hold(request->conn, true)))
    idem__park_until_turn(request);
  else
    run_method(request);
}

IDEM__COLD static void refuse_params(idem_conn *conn, idem__batch *batch,
                                     const idem__message *message, size_t size) {
  char storage[96];
  idem_buf data;
  conn->params_refused = true;
  idem_buf_fixed(&data, storage, sizeof storage);
  idem_buf_printf(&data, "{\"param\":\"params\",\"expected\":\"object\",\"received\":\"%s\"}",
                  message->params_refused);
  bool named = idem__policy_names_causes(&conn->policy);
  /* Constants: the answer may have to wait. */
  const char *cause = strcmp(message->params_refused, "null") == 0
                          ? "Invalid params: params: expected object, received null"
                          : "Invalid params: params: expected object, received array";
  idem__answer answer = {.is_error = true,
                         .code = IDEM_RPC_INVALID_PARAMS,
                         .message = named ? cause : NULL,
                         .value = {IDEM__VALUE_OWN, data.data, data.len, NULL}};
  idem__refuse_message(conn, batch, message, &answer, size);
}

static IDEM__INLINE void accept_request(idem_conn *conn, idem__block *block, idem__batch *batch,
                                        const idem__message *message) {
  if (IDEM__UNLIKELY(idem__log_is_debug(conn->opts.log)))
    idem__conn_debug(conn, "request", message->method, message->method_len, &message->id);
  idem__reason reason = admission_fault(conn, message);
  if (IDEM__UNLIKELY(reason != IDEM__REASON_NONE)) {
    idem__refuse_reason(conn, batch, message, reason, block->text_len);
    return;
  }
  if (IDEM__UNLIKELY(message->params_refused != NULL)) {
    refuse_params(conn, batch, message, block->text_len);
    return;
  }
  const idem__method *method = find_method(conn, message);
  idem_request *request = make_request(conn, block, message, method);
  if (IDEM__UNLIKELY(!request)) {
    idem__answer answer = idem__answer_code(IDEM_RPC_INTERNAL_ERROR);
    idem__refuse_message(conn, batch, message, &answer, block->text_len);
    return;
  }
  conn->in_flight++;
  idem__metrics_add(conn->opts.metrics, IDEM__M_REQUESTS_STARTED, 1);
  idem_status status = IDEM__UNLIKELY(batch != NULL) ? join_batch(request, batch) : IDEM_OK;
  if (IDEM__LIKELY(status == IDEM_OK)) {
    start_request(request);
    return;
  }
  idem__park_failed(request, status);
  idem__request_end(request);
}

/* ----------------------------------------------------------- notifications */

/* Something for the effects only: a method run for a notification, or one that must wait. */
IDEM__COLD static void start_silent(idem_conn *conn, idem__block *block,
                                    const idem__message *message, const idem__method *method,
                                    bool waits) {
  if (waits && !idem__park_has_room(conn, block)) {
    idem__conn_tell_dropped(conn, "a notification was dropped", message, "too much is waiting",
                            block->text_len);
    return;
  }
  idem_request *request = make_request(conn, block, message, method);
  if (!request) {
    idem__conn_fail(conn, IDEM_E_NOMEM);
    return;
  }
  if (!waits) {
    idem__metrics_notification(conn->opts.metrics, method->label);
    run_method(request);
    return;
  }
  if (idem__park_silent(request) == IDEM_OK) return;
  idem__conn_note(conn, IDEM_LOG_ERROR, "a notification could not be kept", NULL, NULL);
  idem__request_forget(request);
  idem__request_end(request);
}

IDEM__APART static void accept_notification(idem_conn *conn, idem__block *block, const char *text,
                                            size_t text_len, const idem__message *message) {
  const idem__method *method =
      idem__router_find(conn->opts.router, message->method, message->method_len);
  if (idem__is_cancel(conn, message)) {
    idem__conn_debug(conn, "notification", message->method, message->method_len, NULL);
    idem__metrics_notification(conn->opts.metrics, method ? method->label : 0);
    idem__cancel_by(conn, block, text, text_len, message);
    return;
  }
  if (conn->refuses) {
    idem__conn_tell_dropped(conn, "a notification was dropped", message,
                            idem__reason_text((idem__reason)conn->refuses), block->text_len);
    return;
  }
  bool known = method && (method->notification_fn || runs_as_method(conn, method));
  if (!known || message->params_refused) {
    idem__ignore_notification(conn, message, method, known, block->text_len);
    return;
  }
  idem__conn_debug(conn, "notification", message->method, message->method_len, NULL);
  bool waits = idem__dispatch_must_hold(conn, false);
  if (method->notification_fn && !waits)
    run_notification(conn, method, message->params);
  else
    start_silent(conn, block, message, method, waits);
}

/* ---------------------------------------------------------------- messages */

/* Responses are answers to us, and cancellations lighten the load: neither is counted. */
static IDEM__INLINE bool admitted(idem_conn *conn, const idem__message *message) {
  if (!conn->opts.admit || message->kind == IDEM__RESPONSE) return true;
  if (message->kind == IDEM__NOTIFICATION && idem__is_cancel(conn, message)) return true;
  return conn->opts.admit(conn, conn->opts.user);
}

IDEM__COLD static void refuse_rate(idem_conn *conn, idem__batch *batch,
                                   const idem__message *message, size_t size) {
  idem__metrics_add(conn->opts.metrics, IDEM__M_RATE_LIMITED, 1);
  if (message->kind == IDEM__NOTIFICATION) {
    idem__conn_tell_dropped(conn, "a notification was dropped", message,
                            idem__reason_text(IDEM__RATE_LIMITED), size);
    return;
  }
  idem__answer answer = idem__answer_rate_limited(conn->policy.codes);
  idem__refuse_message(conn, batch, message, &answer, size);
}

/* What could not be read is ours to say, or takes more than a message may have. */
IDEM__COLD static void refuse_unread(idem_conn *conn, const idem__block *block, size_t text_len,
                                     idem_status status) {
  if (block->arena.over_limit)
    idem__refuse_whole(conn, IDEM__OVERSIZE, text_len);
  else if (status == IDEM_E_NOMEM)
    idem__conn_fail(conn, status);
  else
    idem__refuse_parse(conn, text_len);
}

static IDEM__INLINE void dispatch_message(idem_conn *conn, idem__block *block, const char *text,
                                          size_t text_len, const idem__message *message,
                                          idem__batch *batch) {
  conn->last_kind = message->kind;
  if (IDEM__UNLIKELY(conn->heard != NULL)) conn->heard(conn, message);
  if (IDEM__UNLIKELY(!admitted(conn, message))) {
    refuse_rate(conn, batch, message, block->text_len);
    return;
  }
  if (IDEM__LIKELY(message->kind == IDEM__REQUEST)) {
    accept_request(conn, block, batch, message);
    return;
  }
  switch (message->kind) {
  case IDEM__REQUEST: break;
  case IDEM__NOTIFICATION: accept_notification(conn, block, text, text_len, message); break;
  case IDEM__RESPONSE: idem__call_response(conn, message); break;
  case IDEM__INVALID:
    idem__refuse_reason(conn, batch, message, message->reason, block->text_len);
    break;
  }
}

static IDEM__INLINE void dispatch_single(idem_conn *conn, idem__block *block, const char *text,
                                         size_t text_len) {
  idem__message message;
  idem_status status =
      idem__message_read(&conn->policy, block->doc, text, text_len, block->doc->root, &message);
  if (IDEM__LIKELY(status == IDEM_OK))
    dispatch_message(conn, block, text, text_len, &message, NULL);
  else
    refuse_unread(conn, block, text_len, status);
}

IDEM__APART static void dispatch_element(idem_conn *conn, idem__block *block, const char *text,
                                         size_t text_len, yyjson_val *val, idem__batch *batch) {
  idem__message message;
  idem__message_classify(&conn->policy, block->doc, text, text_len, val, &message);
  dispatch_message(conn, block, text, text_len, &message, batch);
}

IDEM__COLD static void refuse_batches(idem_conn *conn, size_t size) {
  idem__answer answer = idem__answer_invalid_request(&conn->policy, IDEM__BATCH_NOT_SUPPORTED);
  const char *said = conn->policy.batch_refusal;
  if (said && strcmp(said, idem__code_text(answer.code)) != 0) answer.message = said;
  idem__refuse_unknown(conn, &answer, "a batch was refused", size);
}

/* One may end the conn; its array is sent when all are answered. */
static void dispatch_elements(idem_conn *conn, struct idem__batch_rest *at) {
  idem__block *block = at->batch->block;
  bool progress = false;
  while (at->left && !conn->free_later) {
    if (conn->pool->turn_ns && progress && idem__turn_leave_batch(conn, at)) return;
    yyjson_val *val = at->next;
    at->next = unsafe_yyjson_get_next(val);
    at->left--;
    dispatch_element(conn, block, block->text, block->text_len, val, at->batch);
    progress = true;
  }
  idem__batch_close(at->batch);
}

IDEM__COLD void idem__dispatch_rest_of_batch(idem_conn *conn) {
  struct idem__batch_rest at = conn->rest->batch;
  conn->rest->batch.batch = NULL;
  conn->in_flight--;
  dispatch_elements(conn, &at);
}

/* The layer above may know of messages that never come in one. */
static bool may_be_batched(const idem_conn *conn, yyjson_val *batch) {
  const idem_router *router = conn->opts.router;
  return !router || !router->batch_gate || router->batch_gate(batch);
}

static void dispatch_whole(idem_conn *conn, idem__block *block, size_t text_len) {
  yyjson_val *root = block->doc->root;
  idem__batch *batch;
  if (!may_be_batched(conn, root))
    refuse_batches(conn, text_len);
  else if (idem__batch_new(conn, block, yyjson_arr_size(root), &batch) != IDEM_OK)
    idem__conn_fail(conn, IDEM_E_NOMEM);
  else
    dispatch_elements(conn, &(struct idem__batch_rest){batch, unsafe_yyjson_get_first(root),
                                                       yyjson_arr_size(root)});
}

/* Each level costs two bytes, so short messages need no look at their depth. */
static IDEM__INLINE bool is_short(const idem_conn *conn, size_t text_len) {
  size_t limit = conn->policy.limits.depth;
  return text_len / 2 <= limit && limit <= IDEM__JSON_DEPTH_MAX;
}

IDEM__APART static void dispatch_batch(idem_conn *conn, idem__block *block, size_t text_len) {
  size_t count = yyjson_arr_size(block->doc->root);
  if (!conn->policy.batches) {
    refuse_batches(conn, text_len);
  } else if (count == 0) {
    idem__refuse_whole(conn, IDEM__EMPTY_BATCH, text_len);
  } else if (count > conn->policy.limits.batch) {
    idem__refuse_whole(conn, IDEM__BATCH_TOO_LARGE, text_len);
  } else if (is_short(conn, text_len) && idem__message_keep_last(block->doc) != IDEM_OK) {
    refuse_unread(conn, block, text_len, IDEM_E_NOMEM);
  } else {
    dispatch_whole(conn, block, text_len);
  }
}

/* What was read takes more than its first block: all messages together have a bound. */
static IDEM__INLINE bool charged(idem_conn *conn, idem__block *block, size_t text_len) {
  if (IDEM__LIKELY(!block->arena.pieces) || idem__block_charge(block)) return true;
  idem__refuse_whole(conn, IDEM__OVERSIZE, text_len);
  return false;
}

/* One that may be too deep is looked through once, for that and for members that are there twice. */
IDEM__APART static void dispatch_long(idem_conn *conn, idem__block *block, const char *text,
                                      size_t text_len) {
  bool is_batch = unsafe_yyjson_is_arr(block->doc->root);
  idem_status status =
      idem__json_look_through(block->doc, is_batch ? 2 : 1, conn->policy.limits.depth);
  if (status == IDEM_E_EXISTS) idem__json_drop_marked(block->doc);
  if (status == IDEM_E_LIMIT)
    idem__refuse_parse(conn, text_len);
  else if (status == IDEM_E_NOMEM)
    refuse_unread(conn, block, text_len, status);
  else if (!charged(conn, block, text_len))
    return;
  else if (is_batch)
    dispatch_batch(conn, block, text_len);
  else
    dispatch_element(conn, block, text, text_len, block->doc->root, NULL);
}

static IDEM__INLINE void dispatch_block(idem_conn *conn, idem__block *block, const char *text,
                                        size_t text_len) {
  idem_status status;
  block->text = text;
  block->doc = idem__json_read(text, text_len, &block->arena, &status);
  idem__block_parsed(block);
  if (IDEM__UNLIKELY(!block->doc))
    refuse_unread(conn, block, text_len, status);
  else if (IDEM__UNLIKELY(!is_short(conn, text_len)))
    dispatch_long(conn, block, text, text_len);
  else if (IDEM__UNLIKELY(!charged(conn, block, text_len)))
    return;
  else if (IDEM__UNLIKELY(unsafe_yyjson_is_arr(block->doc->root)))
    dispatch_batch(conn, block, text_len);
  else
    dispatch_single(conn, block, text, text_len);
}

/* Requests may wait for their turn, and have it then. */
IDEM__COLD static bool keep_note(const idem_conn *conn, idem__block *block) {
  char *copy = idem__arena_malloc(&block->arena, conn->note_len + 1);
  if (!copy) return false;
  memcpy(copy, conn->note, conn->note_len);
  copy[conn->note_len] = '\0';
  block->note = copy;
  return true;
}

IDEM__HOT void idem__dispatch_text(idem_conn *conn, const char *text, size_t len) {
  bool over;
  if (IDEM__UNLIKELY(conn->policy.byte_order_mark) && len >= 3 &&
      memcmp(text, "\xef\xbb\xbf", 3) == 0) {
    text += 3;
    len -= 3;
  }
  if (IDEM__UNLIKELY(idem__conn_traced(conn))) idem__conn_trace(conn, IDEM_IN, text, len);
  if (IDEM__UNLIKELY(conn->layer != NULL) && conn->layer->trace)
    conn->layer->trace(conn, IDEM_IN, text, len);
  idem__block *block =
      idem__block_new(conn->pool, conn->opts.router, len, conn->policy.limits.parse_bytes, &over);
  if (IDEM__LIKELY(block != NULL)) {
    if (IDEM__LIKELY(!conn->note) || keep_note(conn, block))
      dispatch_block(conn, block, text, len);
    else
      idem__refuse_whole(conn, IDEM__OVERSIZE, len);
    if (block->refs > 1) idem__block_keep(block, text);
    idem__block_release(block);
  } else if (over) {
    idem__refuse_whole(conn, IDEM__OVERSIZE, len);
  } else {
    idem__conn_fail(conn, IDEM_E_NOMEM);
  }
}
