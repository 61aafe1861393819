/* cancel.c - the peer no longer wants an answer: it says so by a notification, or whoever knows it says so for it. */
#include "inside.h"

#include <string.h>

IDEM__COLD static void cancel_request(idem_conn *conn, idem_request *request) {
  bool was_held = request->held;
  idem_request_log(request, NULL, IDEM_LOG_INFO, "a request was cancelled", NULL);
  if (conn->policy.cancel.answer_code) {
    idem__answer answer = idem__answer_code(conn->policy.cancel.answer_code);
    idem__request_settle(request, &answer);
  } else {
    idem__request_forget(request);
  }
  idem__request_cancel(request, IDEM_CANCEL_PEER);
  if (was_held) idem__request_end(request); /* no handler has seen it */
}

static yyjson_val *last_member(yyjson_val *object, const char *name, yyjson_val **key_out) {
  yyjson_val *found = NULL, *key = yyjson_is_obj(object) ? unsafe_yyjson_get_first(object) : NULL;
  size_t len = strlen(name);
  for (size_t left = yyjson_obj_size(object); left; left--) {
    if (unsafe_yyjson_equals_strn(key, name, len)) {
      found = key + 1;
      *key_out = key;
    }
    key = unsafe_yyjson_get_next(key + 1);
  }
  return found;
}

void idem__cancel_by(idem_conn *conn, idem__block *block, const char *text, size_t text_len,
                     const idem__message *message) {
  yyjson_val *key = NULL, *val = last_member(message->params, conn->policy.cancel.id_member, &key);
  if (!val) {
    idem__conn_warn(conn, "a cancellation names no request", message->method, message->method_len,
                    NULL);
    return;
  }
  const char *raw;
  size_t raw_len;
  idem__json_raw_after(block->doc, text, text_len, key, &raw, &raw_len);
  idem__id id;
  idem__id_read(val, raw, raw_len, &id);
  idem__owed *owed = idem__owed_find(conn, &id);
  if (owed && owed->request)
    cancel_request(conn, owed->request);
  else if (!owed && conn->siblings.in_flight_elsewhere)
    conn->siblings.in_flight_elsewhere(conn, &id, true);
}

bool idem__conn_cancel_id(idem_conn *conn, const idem__id *id) {
  idem__owed *owed = idem__owed_find(conn, id);
  if (!owed || !owed->request) return false;
  idem__conn_enter(conn);
  cancel_request(conn, owed->request);
  idem__conn_leave_waking(conn);
  return true;
}

bool idem__is_cancel(const idem_conn *conn, const idem__message *message) {
  const char *name = conn->policy.cancel.method;
  return name && strlen(name) == message->method_len &&
         memcmp(name, message->method, message->method_len) == 0;
}
