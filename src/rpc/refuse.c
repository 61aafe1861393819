/* refuse.c - answers to what never becomes a request: no JSON, no message, one too many.
 * Where requests run one after the other a refusal waits in the same line as they do, so that answers
 * leave in the order of their messages. See docs/internals/rpc.md. */
#include "inside.h"

#include <string.h>

#define MESSAGE_TOO_LARGE (-32012) /* of IDEM_CODES_ERLMCP */

/* A refusal that waits: its answer, with texts of its own. */
struct idem__refusal {
  idem__answer answer;
  size_t bytes; /* counted in conn->held_bytes */
  char texts[]; /* of the id and of the data */
};

static void send_alone(idem_conn *conn, const idem__id *id, const idem__answer *answer) {
  idem__metrics_error(conn->opts.metrics, (int)answer->code);
  if (conn->policy.answer_junk) {
    idem__output_answer(conn, id, answer);
  } else {
    /* Nobody hears of it on the wire, so our own side does. */
    const idem__value *value = &answer->value;
    bool known = value->kind == IDEM__VALUE_MEMBER && strcmp(value->key, "reason") == 0;
    idem_protocol_error error = {.what = "something that is no message",
                                 .message = known ? value->at : NULL,
                                 .message_len = known ? value->len : 0};
    idem__conn_tell_fault(conn, &error);
  }
}

static void send_in_batch(idem_conn *conn, idem__batch *batch, size_t index, const idem__id *id,
                          const idem__answer *answer) {
  idem__metrics_error(conn->opts.metrics, (int)answer->code);
  idem__batch_answer(batch, index, id, answer);
}

/* ----------------------------------------------------------------- waiting */

/* Order is promised only where one request runs at a time. */
static bool must_wait(const idem_conn *conn) {
  return conn->policy.concurrency == 1 && conn->policy.answer_junk &&
         idem__dispatch_must_hold(conn, true);
}

static bool has_room(const idem_conn *conn, size_t bytes) {
  return conn->held_refusals < conn->policy.limits.in_flight &&
         conn->held_bytes + bytes <= conn->policy.limits.queued_input_bytes;
}

static idem__refusal *copy_refusal(idem_conn *conn, const idem__id *id, const idem__answer *answer,
                                   size_t bytes) {
  idem__refusal *refusal = idem__malloc(&conn->alloc, bytes);
  if (!refusal) return NULL;
  *refusal = (idem__refusal){.answer = *answer, .bytes = bytes};
  if (id->raw_len) memcpy(refusal->texts, id->raw, id->raw_len);
  if (answer->value.len) {
    memcpy(refusal->texts + id->raw_len, answer->value.at, answer->value.len);
    refusal->answer.value.at = refusal->texts + id->raw_len;
  }
  return refusal;
}

/* False: there is no room for it, and it leaves at once. */
static bool hold_refusal(idem_conn *conn, idem__batch *batch, size_t index, const idem__id *id,
                         const idem__answer *answer) {
  size_t bytes = sizeof(idem__refusal) + sizeof(idem_request) + id->raw_len + answer->value.len;
  if (!has_room(conn, bytes)) return false;
  idem__refusal *refusal = copy_refusal(conn, id, answer, bytes);
  idem_request *request = refusal ? idem__request_new(conn->pool) : NULL;
  if (!request) {
    idem__free(&conn->alloc, refusal);
    return false;
  }
  request->conn = conn;
  request->refusal = refusal;
  request->batch = batch;
  request->batch_index = index;
  request->held = true;
  request->id =
      (idem__id){.kind = id->kind, .raw = id->raw ? refusal->texts : NULL, .raw_len = id->raw_len};
  idem_list_append(&conn->held, &request->link);
  conn->held_bytes += bytes;
  conn->held_refusals++;
  return true;
}

static void leave_line(idem_request *request) {
  idem_list_leave(&request->link);
  request->held = false;
  request->settled = true;
  request->conn->held_bytes -= request->refusal->bytes;
  request->conn->held_refusals--;
}

static void end(idem_conn *conn, idem_request *request) {
  idem__free(&conn->alloc, request->refusal);
  request->refusal = NULL;
  idem__request_end(request);
}

void idem__refusal_send(idem_request *request) {
  idem_conn *conn = request->conn;
  leave_line(request);
  if (request->batch)
    send_in_batch(conn, request->batch, request->batch_index, &request->id,
                  &request->refusal->answer);
  else
    send_alone(conn, &request->id, &request->refusal->answer);
  end(conn, request);
}

void idem__refusal_forget(idem_request *request) {
  idem_conn *conn = request->conn;
  leave_line(request);
  if (request->batch) idem__batch_skip(request->batch, request->batch_index);
  end(conn, request);
}

/* ---------------------------------------------------------------- refusing */

static void refuse(idem_conn *conn, idem__batch *batch, const idem__id *id,
                   const idem__answer *answer) {
  if (batch && !conn->policy.answer_junk) return;
  size_t index = batch ? idem__batch_expect(batch) : 0;
  if (must_wait(conn) && hold_refusal(conn, batch, index, id, answer)) return;
  if (batch)
    send_in_batch(conn, batch, index, id, answer);
  else
    send_alone(conn, id, answer);
}

/* What cannot be read as a message counts as one: it was as much work. */
void idem__refuse_unknown(idem_conn *conn, const idem__answer *answer, const char *what,
                          size_t size) {
  static const idem__id unknown;
  idem__answer too_fast = idem__answer_rate_limited(conn->policy.codes);
  bool admitted = !conn->opts.admit || conn->opts.admit(conn, conn->opts.user);
  if (!admitted) idem__metrics_add(conn->opts.metrics, IDEM__M_RATE_LIMITED, 1);
  if (!admitted) answer = &too_fast;
  idem__conn_tell_refusal(conn, what, NULL, answer, size);
  refuse(conn, NULL, &unknown, answer);
}

void idem__refuse_parse(idem_conn *conn, size_t size) {
  idem__answer answer = idem__answer_code(IDEM_RPC_PARSE_ERROR);
  idem__refuse_unknown(conn, &answer, "a message is not JSON", size);
}

/* A set of codes of its own has a number for it, and says how large a message may be. */
IDEM__COLD static void refuse_too_large(idem_conn *conn, size_t size) {
  char storage[64];
  idem_buf data;
  idem_buf_fixed(&data, storage, sizeof storage);
  idem_buf_printf(&data, "{\"maxSize\":%zu,\"unit\":\"bytes\"}", conn->policy.limits.message_bytes);
  idem__answer answer = {.is_error = true,
                         .code = MESSAGE_TOO_LARGE,
                         .message = "Message too large",
                         .value = {IDEM__VALUE_OWN, data.data, data.len, NULL}};
  idem__refuse_unknown(conn, &answer, "a message was refused", size);
}

void idem__refuse_whole(idem_conn *conn, idem__reason reason, size_t size) {
  if (reason == IDEM__OVERSIZE && conn->policy.codes == IDEM_CODES_ERLMCP) {
    refuse_too_large(conn, size);
    return;
  }
  idem__answer answer = idem__answer_invalid_request(&conn->policy, reason);
  idem__refuse_unknown(conn, &answer, "a message was refused", size);
}

void idem__refuse_message(idem_conn *conn, idem__batch *batch, const idem__message *message,
                          const idem__answer *answer, size_t size) {
  idem__conn_tell_refusal(conn, "a request was refused", message, answer, size);
  refuse(conn, batch, &message->id, answer);
}

void idem__refuse_reason(idem_conn *conn, idem__batch *batch, const idem__message *message,
                         idem__reason reason, size_t size) {
  idem__answer answer = idem__answer_invalid_request(&conn->policy, reason);
  idem__refuse_message(conn, batch, message, &answer, size);
}

void idem__refuse_frame(idem_conn *conn, idem__frame_event event, size_t size) {
  switch (event) {
  case IDEM__FRAME_OVERSIZE: idem__refuse_whole(conn, IDEM__OVERSIZE, size); break;
  case IDEM__FRAME_HEADER_TOO_LARGE: idem__refuse_whole(conn, IDEM__HEADER_TOO_LARGE, size); break;
  case IDEM__FRAME_MISSING_LENGTH:
    idem__refuse_whole(conn, IDEM__MISSING_CONTENT_LENGTH, size);
    break;
  case IDEM__FRAME_BAD_LENGTH: idem__refuse_whole(conn, IDEM__BAD_CONTENT_LENGTH, size); break;
  case IDEM__FRAME_BAD_TYPE: idem__refuse_whole(conn, IDEM__UNSUPPORTED_CONTENT_TYPE, size); break;
  case IDEM__FRAME_BAD_CHARSET: idem__refuse_whole(conn, IDEM__BAD_CHARSET, size); break;
  case IDEM__FRAME_TRUNCATED: idem__refuse_parse(conn, size); break;
  case IDEM__FRAME_HTTP:
    idem__conn_warn(conn, "an HTTP request on a port that speaks none; closing", NULL, 0, NULL);
    idem__conn_fail(conn, IDEM_E_PROTO);
    break;
  case IDEM__FRAME_NOMEM: idem__conn_fail(conn, IDEM_E_NOMEM); break;
  case IDEM__FRAME_MORE:
  case IDEM__FRAME_MESSAGE: break;
  }
}

/* ------------------------------------------------------------ halves */

size_t idem__conn_unfinished(const idem_conn *conn) { return conn->framer.partial.cap; }

/* The rest of a message whose beginning is gone would be none: nothing more is read. */
static void refuse_half(idem_conn *conn) {
  static const idem__id unknown;
  idem__answer answer = idem__answer_invalid_request(&conn->policy, IDEM__UNAVAILABLE);
  idem__metrics_add(conn->opts.metrics, IDEM__M_UNFINISHED_REFUSED, 1);
  idem__conn_tell_refusal(conn, "too much is unfinished; closing who began first", NULL, &answer,
                          conn->framer.partial.len);
  refuse(conn, NULL, &unknown, &answer);
  conn->frame_at_ms = UINT64_MAX;
  idem_conn_close(conn);
}

bool idem__conn_give_way(idem_conn *conn) {
  if (conn->depth) return false; /* and is counted again afterwards */
  bool half = !conn->closed && idem__framer_inside(&conn->framer);
  idem__conn_enter(conn);
  if (half) refuse_half(conn);
  if (conn->closed) idem__framer_reset(&conn->framer);
  idem__framer_trim(&conn->framer);
  idem__conn_leave_waking(conn);
  return half;
}

/* ----------------------------------------------------------- notifications */

/* Some clients send one of a protocol that is not spoken here, to whoever it is. */
static bool is_expected(const idem_conn *conn, const idem__message *message) {
  const char *name = conn->policy.quiet_notification;
  return name && strlen(name) == message->method_len &&
         memcmp(name, message->method, message->method_len) == 0;
}

void idem__ignore_notification(idem_conn *conn, const idem__message *message,
                               const idem__method *method, bool known, size_t size) {
  idem__metrics_notification(conn->opts.metrics, method ? method->label : 0);
  if (is_expected(conn, message))
    idem__conn_debug(conn, "notification", message->method, message->method_len, NULL);
  else
    idem__conn_tell_dropped(conn, "a notification was ignored", message,
                            known ? "Invalid params" : "Method not found", size);
}
