/* request.c - one question that is owed exactly one answer.
 * Two things end separately: the wire is done with a request (settled) and its handler is (ended).
 * A request is freed when both are true and its handler is not on the stack. */
#include "inside.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static void release_if_over(idem_request *request) {
  if (request->settled && request->ended && !request->in_handler) idem__request_release(request);
}

IDEM__HOT void idem__request_end(idem_request *request) {
  request->ended = true;
  release_if_over(request);
}

void idem__request_unhold(idem_request *request) {
  if (IDEM__LIKELY(!request->held)) return;
  request->held = false;
  if (--request->block->held == 0) request->conn->held_bytes -= request->block->arena.cap;
}

/* Takes it off the conn's books. The handler may go on holding it. */
static IDEM__INLINE void leave_books(idem_request *request) {
  idem_conn *conn = request->conn;
  assert(conn); /* only a settled request outlives its conn */
  request->settled = true;
  if (IDEM__UNLIKELY(request->timer.index))
    idem__heap_remove(&conn->request_timers, &request->timer);
  if (IDEM__UNLIKELY(request->owed.key != NULL)) idem__owed_remove(conn, &request->owed);
  if (IDEM__LIKELY(request->id.kind != IDEM__ID_ABSENT)) {
    conn->in_flight--;
    idem__metrics_add(conn->opts.metrics, IDEM__M_REQUESTS_ENDED, 1);
  }
  if (IDEM__LIKELY(request->running)) conn->running--;
  request->running = false;
  idem__request_unhold(request);
  idem_list_leave(&request->link);
  if (IDEM__UNLIKELY(!request->ended)) idem_list_append(&conn->settled, &request->link);
}

IDEM__COLD static idem__outcome outcome_of_error(const idem__answer *answer) {
  if (answer->timed_out) return IDEM__OUTCOME_TIMEOUT;
  return answer->code == IDEM_RPC_REQUEST_CANCELLED ? IDEM__OUTCOME_CANCELLED : IDEM__OUTCOME_ERROR;
}

static void count(idem_request *request, const idem__answer *answer) {
  idem_conn *conn = request->conn;
  if (!conn->opts.metrics) return;
  request->took_ns = idem__conn_now_ns(conn) - request->started_ns;
  request->measured = true;
  idem__outcome outcome =
      IDEM__UNLIKELY(answer->is_error) ? outcome_of_error(answer) : IDEM__OUTCOME_OK;
  request->outcome = (unsigned char)outcome;
  idem__metrics_request(conn->opts.metrics, request->method ? request->method->label : 0, outcome,
                        answer->is_error ? (int)answer->code : 0, request->took_ns);
}

/* What waited for this one to finish may run now; a conn that was ending may have ended. */
static void wake_held(idem_conn *conn) {
  if (IDEM__UNLIKELY(!idem_list_empty(&conn->held) || conn->closed || conn->eof))
    idem__conn_wake(conn);
}

/* Who asked gets "Internal error" instead. A conn that has failed has had its own line. */
IDEM__COLD static void tell_unsent(idem_request *request, idem_status status) {
  if (status == request->conn->failure) return;
  idem_request_log(request, NULL, IDEM_LOG_ERROR, "an answer could not be sent",
                   idem_status_text(status));
}

IDEM__HOT idem_status idem__request_settle(idem_request *request, const idem__answer *answer) {
  idem_conn *conn = request->conn;
  idem__batch *batch = request->batch;
  idem_status status = IDEM_OK;
  assert(conn); /* as in leave_books */
  leave_books(request);
  if (IDEM__UNLIKELY(answer->is_error)) idem__request_tell_error(request, answer);
  if (IDEM__LIKELY(request->id.kind != IDEM__ID_ABSENT)) {
    count(request, answer);
    request->batch = NULL;
    status = IDEM__UNLIKELY(batch != NULL)
                 ? idem__batch_answer(batch, request->batch_index, &request->id, answer)
                 : idem__output_answer(conn, &request->id, answer);
    if (IDEM__UNLIKELY(status != IDEM_OK)) tell_unsent(request, status);
  }
  wake_held(conn);
  return status;
}

void idem__request_forget(idem_request *request) {
  idem_conn *conn = request->conn;
  idem__batch *batch = request->batch;
  leave_books(request);
  if (request->id.kind != IDEM__ID_ABSENT)
    idem__metrics_cancelled(conn->opts.metrics, request->method ? request->method->label : 0);
  request->batch = NULL;
  if (batch) idem__batch_skip(batch, request->batch_index);
  wake_held(conn);
}

void idem__request_detach(idem_request *request) {
  idem_list_remove(&request->link);
  request->conn = NULL;
}

void idem__request_cancel(idem_request *request, idem_cancel_reason reason) {
  idem_cancel_fn fn = request->on_cancel;
  if (request->guard && request->guard->cancel(request, reason)) return;
  request->cancelled = true;
  request->on_cancel = NULL;
  if (fn) fn(request, reason, request->cancel_user);
}

/* ------------------------------------------------------------------ replying */

/* STATE for a handle that was ended before; logged, since it is a mistake in a handler. */
static bool already_ended(idem_request *request) {
  if (IDEM__LIKELY(request->live && !request->ended)) return false;
  if (request->conn) {
    idem_request_log(request, NULL, IDEM_LOG_ERROR,
                     "a handler replied twice; the second is dropped", NULL);
  }
  return true;
}

IDEM__HOT static idem_status reply(idem_request *request, const idem__answer *answer) {
  if (IDEM__UNLIKELY(already_ended(request))) return IDEM_E_STATE;
  if (IDEM__UNLIKELY(request->guard != NULL)) return request->guard->answer(request, answer);
  idem_status status;
  request->ended = true;
  if (IDEM__UNLIKELY(request->settled)) {
    status = request->conn ? IDEM_E_STATE : IDEM_E_CLOSED;
    if (request->late_answer) request->late_answer(request, answer);
  } else {
    status = idem__request_settle(request, answer);
  }
  release_if_over(request);
  return status;
}

idem_status idem__reply_answer(idem_request *request, const idem__answer *answer) {
  return reply(request, answer);
}

/* A NULL value is the result null. */
static idem_status reply_value(idem_request *request, idem__value value) {
  if (IDEM__UNLIKELY(!value.at) && value.kind != IDEM__VALUE_FOREIGN) value.kind = IDEM__VALUE_NONE;
  return reply(request, &(idem__answer){.value = value});
}

IDEM__HOT idem_status idem_reply(idem_request *request, const yyjson_val *result) {
  return reply_value(request, (idem__value){IDEM__VALUE_PARSED, result, 0, NULL});
}

/* A value that could not be built is no null: the peer must not take it for the answer. */
idem_status idem_reply_mut(idem_request *request, const yyjson_mut_val *result) {
  if (!result) {
    idem__answer answer = idem__answer_code(IDEM_RPC_INTERNAL_ERROR);
    answer.dropped = true;
    idem_status status = reply(request, &answer);
    return status == IDEM_OK ? IDEM_E_NOMEM : status;
  }
  return reply_value(request, (idem__value){IDEM__VALUE_MUTABLE, result, 0, NULL});
}

idem_status idem_reply_json(idem_request *request, const char *json, size_t len) {
  return reply_value(request, (idem__value){IDEM__VALUE_FOREIGN, json, json ? len : 0, NULL});
}

idem_status idem__reply_own(idem_request *request, const char *json, size_t len) {
  return reply(request, &(idem__answer){.value = {IDEM__VALUE_OWN, json, len, NULL}});
}

idem_status idem__reply_error_own(idem_request *request, int64_t code, const char *message,
                                  const char *data_json, size_t len) {
  idem__answer answer = {.is_error = true, .code = code, .message = message};
  if (data_json) answer.value = (idem__value){IDEM__VALUE_OWN, data_json, len, NULL};
  return reply(request, &answer);
}

/* Codes that are not the application's are an internal fault, told to the log only. */
static idem_status reply_error(idem_request *request, int64_t code, const char *message,
                               idem__value data) {
  idem__answer answer = {
      .is_error = true, .code = code, .message = message, .value = data, .raised = true};
  if (request->live && !idem__code_allowed(request->codes, code)) {
    char detail[32];
    snprintf(detail, sizeof detail, "code %lld", (long long)code);
    idem_request_log(request, NULL, IDEM_LOG_ERROR, "a handler raised a reserved error code",
                     detail);
    answer = idem__answer_code(IDEM_RPC_INTERNAL_ERROR);
  }
  if (!answer.value.at) answer.value.kind = IDEM__VALUE_NONE;
  return reply(request, &answer);
}

idem_status idem_reply_error(idem_request *request, int64_t code, const char *message,
                             const yyjson_mut_val *data) {
  return reply_error(request, code, message, (idem__value){IDEM__VALUE_MUTABLE, data, 0, NULL});
}

idem_status idem_reply_error_json(idem_request *request, int64_t code, const char *message,
                                  const char *data_json, size_t len) {
  return reply_error(request, code, message,
                     (idem__value){IDEM__VALUE_FOREIGN, data_json, len, NULL});
}

idem_status idem_reply_error_text(idem_request *request, int64_t code, const char *message,
                                  const char *details) {
  size_t len = details ? strlen(details) : 0;
  return reply_error(request, code, message,
                     (idem__value){IDEM__VALUE_MEMBER, details, len, "details"});
}

void idem_request_drop(idem_request *request) {
  idem__answer answer = idem__answer_code(IDEM_RPC_INTERNAL_ERROR);
  answer.dropped = true;
  reply(request, &answer);
}

/* ------------------------------------------------------------------ looking */

const char *idem_request_method(const idem_request *request, size_t *len) {
  if (len) *len = request->name_len;
  return request->name;
}

yyjson_val *idem_request_params(const idem_request *request) { return request->params; }

const char *idem_request_id(const idem_request *request, size_t *len) {
  if (len) *len = request->id.raw_len;
  return request->id.raw;
}

idem_conn *idem_request_conn(const idem_request *request) { return request->conn; }

bool idem_request_has_room(const idem_request *request) {
  return !request->conn || idem__output_has_room(request->conn);
}

yyjson_mut_doc *idem_request_doc(idem_request *request) {
  if (!request->doc) {
    yyjson_alc alc = idem__arena_alc(&request->block->arena);
    request->doc = yyjson_mut_doc_new(&alc);
  }
  return request->doc;
}

void idem_request_keep(idem_request *request) { request->kept = true; }

void idem_request_on_cancel(idem_request *request, idem_cancel_fn fn, void *user) {
  request->on_cancel = fn;
  request->cancel_user = user;
}

bool idem_request_cancelled(const idem_request *request) { return request->cancelled; }
