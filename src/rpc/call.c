/* call.c - questions we ask the peer.
 * Ids are a counter, never reused on a conn. Every call ends exactly once: by its answer, a
 * time-out, a cancellation or the end of the conn. */
#include "inside.h"

#include <string.h>

/* ------------------------------------------------------------------- ending */

static void unlink_call(idem_conn *conn, idem__call *call) {
  idem_map_remove(&conn->calls_by_id, (const char *)&call->id, sizeof call->id);
  idem__heap_remove(&conn->call_timers, &call->timer);
  idem_list_remove(&call->link);
  conn->call_count--;
}

static void end_call(idem_conn *conn, idem__call *call, idem_response *response) {
  unlink_call(conn, call);
  response->id = call->id;
  response->not_sent |= response->status != IDEM_OK && response->status != IDEM_E_REMOTE &&
                        call->put_at >= conn->taken_out;
  if (call->fn) call->fn(conn, response, call->user);
  idem__free(&conn->alloc, call);
}

static void end_with(idem_conn *conn, idem__call *call, idem_status status) {
  end_call(conn, call, &(idem_response){.status = status});
}

/* Want of memory is ours: whoever took the peer for gone would look for it elsewhere. */
void idem__call_close_all(idem_conn *conn) {
  idem_status status = conn->failure == IDEM_E_NOMEM ? IDEM_E_NOMEM : IDEM_E_CLOSED;
  while (!idem_list_empty(&conn->calls)) {
    end_with(conn, IDEM_CONTAINER(conn->calls.next, idem__call, link), status);
  }
}

/* ---------------------------------------------------------------- answering */

static bool read_error(yyjson_val *error, idem_response *response) {
  yyjson_val *message = yyjson_obj_get(error, "message");
  if (!idem__json_get_int(yyjson_obj_get(error, "code"), &response->code)) return false;
  if (!yyjson_is_str(message)) return false;
  response->status = IDEM_E_REMOTE;
  response->message = message->uni.str;
  response->message_len = unsafe_yyjson_get_len(message);
  response->data = yyjson_obj_get(error, "data");
  return true;
}

/* `error: null` beside a result is a result; anything else that is not exactly one is malformed. */
idem_response idem__response_read(const idem__message *message) {
  idem_response response = {.status = IDEM_E_PROTO};
  bool has_error = message->error && !unsafe_yyjson_is_null(message->error);
  if (!message->version_ok || message->repeated) return response;
  if (message->result && !has_error) {
    response.status = IDEM_OK;
    response.result = message->result;
  } else if (has_error && !message->result) {
    read_error(message->error, &response);
  }
  return response;
}

/* An id that we gave out: its call was cancelled or took too long, and the peer answers all the same. */
static bool is_late(const idem_conn *conn, const idem__id *id) {
  return id->kind == IDEM__ID_INTEGER && id->integer >= 0 &&
         (uint64_t)id->integer < conn->next_call_id;
}

static void report(idem_conn *conn, const char *what, const idem__id *id,
                   const idem_response *response) {
  if (is_late(conn, id))
    idem__conn_debug(conn, what, NULL, 0, id);
  else
    idem__conn_warn(conn, what, NULL, 0, id);
  idem_protocol_error error = {.what = what,
                               .code = response->code,
                               .message = response->message,
                               .message_len = response->message_len};
  idem__conn_tell_fault(conn, &error);
}

/* An error that names no call. */
static void unclaimed_error(idem_conn *conn, const idem__id *id, idem_response response) {
  idem_null_id_error rule = conn->policy.null_id_error;
  bool fail = rule == IDEM_NULL_ID_ERROR_FAIL_ALL ||
              (rule == IDEM_NULL_ID_ERROR_FAIL_ONLY && conn->call_count == 1);
  report(conn, "an error answer with id null", id, &response);
  /* Calls made by the callbacks that run here are not the peer's target. */
  uint64_t before = conn->next_call_id;
  while (fail && !idem_list_empty(&conn->calls)) {
    idem__call *call = IDEM_CONTAINER(conn->calls.next, idem__call, link);
    if (call->id >= before) break;
    idem_response copy = response;
    end_call(conn, call, &copy);
  }
}

static idem__call *find_call(const idem_conn *conn, const idem__id *id) {
  if (id->kind != IDEM__ID_INTEGER || id->integer < 0) return NULL;
  uint64_t key = (uint64_t)id->integer;
  return idem_map_get(&conn->calls_by_id, (const char *)&key, sizeof key);
}

void idem__call_response(idem_conn *conn, const idem__message *message) {
  idem_response response = idem__response_read(message);
  idem__call *call = find_call(conn, &message->id);
  if (call) {
    end_call(conn, call, &response);
  } else if (response.status == IDEM_E_REMOTE &&
             (message->id.kind == IDEM__ID_NULL || message->id.kind == IDEM__ID_ABSENT)) {
    unclaimed_error(conn, &message->id, response);
  } else if (!conn->siblings.stray_response || !conn->siblings.stray_response(conn, message)) {
    response.message = NULL;
    response.message_len = 0;
    report(conn, "a response with an unknown id", &message->id, &response);
  }
}

/* ------------------------------------------------------------------ sending */

/* What goes out: a method and its params in one of two forms. */
typedef struct outgoing {
  const char *method;
  const yyjson_mut_val *params;
  const char *params_text;
  size_t params_len;
  bool own;           /* the text is idem's: good JSON already */
  const uint64_t *id; /* NULL: a notification */
} outgoing;

static idem_status put_params(idem_conn *conn, idem_buf *out, const outgoing *message) {
  if (!message->params && !message->params_text) return IDEM_OK;
  idem_status status = idem_buf_puts(out, ",\"params\":");
  if (status != IDEM_OK) return status;
  if (message->own) return idem_buf_put(out, message->params_text, message->params_len);
  size_t start = out->len;
  status = message->params ? idem__json_put_mut(out, message->params)
                           : idem__json_put_text(out, message->params_text, message->params_len,
                                                 conn->policy.limits.depth);
  if (status == IDEM_OK && out->data[start] != '{' && out->data[start] != '[') return IDEM_E_INVAL;
  return status;
}

static idem_status put_message(idem_conn *conn, idem_buf *out, const outgoing *message) {
  idem_status status = idem_buf_puts(out, "{\"jsonrpc\":\"2.0\",");
  if (status == IDEM_OK && message->id) {
    status = idem_buf_printf(out, "\"id\":%llu,", (unsigned long long)*message->id);
  }
  if (status == IDEM_OK) status = idem_buf_puts(out, "\"method\":");
  if (status == IDEM_OK) {
    status = idem_text_json_string(out, message->method, strlen(message->method));
  }
  if (status == IDEM_OK) status = put_params(conn, out, message);
  return status == IDEM_OK ? idem_buf_puts(out, "}") : status;
}

static idem_status may_send(const idem_conn *conn) {
  if (conn->failure != IDEM_OK || conn->closed || conn->free_later) return IDEM_E_CLOSED;
  return idem__output_has_room(conn) ? IDEM_OK : IDEM_E_LIMIT;
}

/* While a closing conn still owes answers, what is told on the way to them (progress) goes out, too. */
static bool may_tell_still(const idem_conn *conn, const outgoing *message) {
  return message->own && conn->failure == IDEM_OK && conn->closed && !conn->aborted &&
         !conn->free_later && conn->in_flight > 0 && idem__output_has_room(conn);
}

static idem_outgoing what_is(const outgoing *message) {
  if (!message->id) return (idem_outgoing){IDEM_OUTGOING_NOTIFICATION, {0}};
  return (idem_outgoing){IDEM_OUTGOING_CALL, {.call = *message->id}};
}

static idem_status send_message(idem_conn *conn, const outgoing *message) {
  idem__chunk *chunk;
  size_t start;
  idem_status status = may_tell_still(conn, message) ? IDEM_OK : may_send(conn);
  if (status == IDEM_OK) status = idem__output_begin(conn, &chunk, &start);
  if (status != IDEM_OK) return status;
  status = put_message(conn, &chunk->buf, message);
  if (status != IDEM_OK) {
    idem__output_undo(conn, chunk, start);
    return status;
  }
  return idem__output_end(conn, chunk, start, what_is(message));
}

static idem_status link_call(idem_conn *conn, idem__call *call, uint64_t timeout_ms) {
  idem_status status =
      idem_map_put(&conn->calls_by_id, (const char *)&call->id, sizeof call->id, call);
  if (status != IDEM_OK) return status;
  if (timeout_ms) {
    idem__conn_now_ns(conn);
    status =
        idem__heap_put(&conn->call_timers, &call->timer, idem__conn_clock_ms(conn) + timeout_ms);
  }
  if (status != IDEM_OK) {
    idem_map_remove(&conn->calls_by_id, (const char *)&call->id, sizeof call->id);
    return status;
  }
  idem_list_append(&conn->calls, &call->link);
  conn->call_count++;
  return IDEM_OK;
}

static idem_status start_call(idem_conn *conn, const outgoing *what, const idem_call_opts *opts,
                              idem_response_fn fn, void *user, uint64_t *id) {
  if (conn->eof) return IDEM_E_CLOSED;
  idem__call *call = idem__calloc(&conn->alloc, sizeof *call);
  if (!call) return IDEM_E_NOMEM;
  call->id = conn->next_call_id++;
  call->fn = fn;
  call->user = user;
  idem_list_init(&call->link);
  call->put_at = conn->put;
  uint64_t call_id = call->id;
  outgoing message = *what;
  message.id = &call_id;
  uint64_t timeout = opts && opts->timeout_ms ? opts->timeout_ms : conn->policy.limits.call_ms;
  idem_status status = link_call(conn, call, timeout);
  if (status == IDEM_OK) {
    /* Sending may wake the driver, which must find the call in place, and may end it. */
    status = send_message(conn, &message);
    if (status != IDEM_OK) unlink_call(conn, call);
  }
  if (status != IDEM_OK) {
    idem__free(&conn->alloc, call);
    return status;
  }
  if (id) *id = call_id;
  return IDEM_OK;
}

idem_status idem_call(idem_conn *conn, const char *method, const yyjson_mut_val *params,
                      const idem_call_opts *opts, idem_response_fn fn, void *user, uint64_t *id) {
  outgoing message = {.method = method, .params = params};
  return start_call(conn, &message, opts, fn, user, id);
}

idem_status idem_call_json(idem_conn *conn, const char *method, const char *params_json, size_t len,
                           const idem_call_opts *opts, idem_response_fn fn, void *user,
                           uint64_t *id) {
  outgoing message = {.method = method, .params_text = params_json, .params_len = len};
  return start_call(conn, &message, opts, fn, user, id);
}

idem_status idem__call_own(idem_conn *conn, const char *method, const char *params_json, size_t len,
                           idem_response_fn fn, void *user, uint64_t *id) {
  outgoing message = {.method = method, .params_text = params_json, .params_len = len, .own = true};
  return start_call(conn, &message, NULL, fn, user, id);
}

idem_status idem_notify(idem_conn *conn, const char *method, const yyjson_mut_val *params) {
  outgoing message = {.method = method, .params = params};
  return send_message(conn, &message);
}

idem_status idem_notify_json(idem_conn *conn, const char *method, const char *params_json,
                             size_t len) {
  outgoing message = {.method = method, .params_text = params_json, .params_len = len};
  return send_message(conn, &message);
}

idem_status idem__notify_own(idem_conn *conn, const char *method, const char *params_json,
                             size_t len) {
  outgoing message = {.method = method, .params_text = params_json, .params_len = len, .own = true};
  return send_message(conn, &message);
}

/* --------------------------------------------------------------- cancelling */

/* Tells the peer in the profile's own form, if it has one and can still be told. */
static void tell_cancelled(idem_conn *conn, uint64_t id) {
  char storage[128];
  idem_buf params;
  if (!conn->policy.cancel.method || conn->eof || conn->closed) return;
  idem_buf_fixed(&params, storage, sizeof storage);
  idem_status status = idem_buf_printf(&params, "{\"%s\":%llu}", conn->policy.cancel.id_member,
                                       (unsigned long long)id);
  if (status == IDEM_OK) {
    status = idem_notify_json(conn, conn->policy.cancel.method, params.data, params.len);
  }
  if (status != IDEM_OK) {
    idem__conn_note(conn, IDEM_LOG_WARN, "a cancellation could not be sent",
                    idem_status_text(status), NULL);
  }
}

static void give_up(idem_conn *conn, idem__call *call, idem_status status) {
  tell_cancelled(conn, call->id);
  end_with(conn, call, status);
}

idem_status idem_cancel(idem_conn *conn, uint64_t id) {
  idem__call *call = idem_map_get(&conn->calls_by_id, (const char *)&id, sizeof id);
  if (!call) return IDEM_E_NOTFOUND;
  idem__conn_enter(conn);
  give_up(conn, call, IDEM_E_CANCELLED);
  idem__conn_leave_waking(conn);
  return IDEM_OK;
}

bool idem__call_pending(const idem_conn *conn, uint64_t id) {
  return idem_map_get(&conn->calls_by_id, (const char *)&id, sizeof id) != NULL;
}

void *idem__call_user(const idem_conn *conn, uint64_t id, idem_response_fn fn) {
  const idem__call *call = idem_map_get(&conn->calls_by_id, (const char *)&id, sizeof id);
  return call && call->fn == fn ? call->user : NULL;
}

bool idem__call_fail(idem_conn *conn, uint64_t id, idem_status status, const char *why) {
  idem__call *call = idem_map_get(&conn->calls_by_id, (const char *)&id, sizeof id);
  if (!call) return false;
  idem__conn_enter(conn);
  end_call(conn, call,
           &(idem_response){.status = status,
                            .message = why,
                            .message_len = strlen(why),
                            .not_sent = status == IDEM_E_SYS});
  idem__conn_leave_waking(conn);
  return true;
}

void idem__call_expire(idem_conn *conn, uint64_t now_ms) {
  for (;;) {
    idem__timer *timer = idem__heap_first(&conn->call_timers);
    if (!timer || timer->at_ms > now_ms) return;
    give_up(conn, IDEM_CONTAINER(timer, idem__call, timer), IDEM_E_TIMEOUT);
  }
}
