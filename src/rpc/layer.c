/* layer.c - what layers above ask of a router, a request and a conn, whose insides are ours. */
#include "inside.h"

uint64_t idem__router_seed(const idem_router *router) { return router->methods.seed; }

/* --------------------------------------------------------------- request */

idem__arena *idem__request_memory(idem_request *request) { return &request->block->arena; }

const idem__id *idem__request_id(const idem_request *request) { return &request->id; }

const char *idem__request_name(const idem_request *request, size_t *len) {
  *len = request->name_len;
  return request->name;
}

idem_status idem__request_raw_member(const idem_request *request, yyjson_val *object,
                                     const char *name, idem_buf *out) {
  const idem__block *block = request->block;
  yyjson_val *key = unsafe_yyjson_get_first(object);
  while (!yyjson_equals_str(key, name)) key = unsafe_yyjson_get_next(key + 1);
  if (!block->text) return idem__json_put(out, key + 1);
  const char *raw;
  size_t len;
  idem__json_raw_after(block->doc, block->text, block->text_len, key, &raw, &len);
  return idem_buf_put(out, raw, len);
}

bool idem__id_fits(yyjson_val *val, const char *raw, size_t raw_len) {
  idem__id id = {.kind = IDEM__ID_ABSENT};
  idem__id_read(val, raw, raw_len, &id);
  return id.kind == IDEM__ID_STRING || id.kind == IDEM__ID_INTEGER ||
         (id.kind == IDEM__ID_NUMBER && !id.fraction);
}

void *idem__request_user_of(const idem_request *request, idem_method_fn fn) {
  return request->method && request->method->fn == fn ? request->method->user : NULL;
}

bool idem__request_has_method(const idem_request *request) {
  return request->method && request->method->fn;
}

bool idem__conn_params_refused(const idem_conn *conn) { return conn->params_refused; }

size_t idem_request_bytes(const idem_request *request) { return request->block->text_len; }

bool idem__request_batched(const idem_request *request) { return request->batch != NULL; }

const char *idem__request_note(const idem_request *request) { return request->block->note; }

void idem__conn_set_note(idem_conn *conn, const char *note, uint32_t len) {
  conn->note = note;
  conn->note_len = len;
}
bool idem__request_settled(const idem_request *request) { return request->settled; }
bool idem__request_in_use(const idem_request *request) { return request->live && !request->ended; }

idem_code_set idem_request_codes(const idem_request *request) { return request->codes; }

bool idem__request_measured(const idem_request *request, idem__outcome *outcome,
                            uint64_t *took_ns) {
  if (!request->measured) return false;
  *outcome = (idem__outcome)request->outcome;
  *took_ns = request->took_ns;
  return true;
}

void idem__request_set_codes(idem_request *request, idem_code_set codes) { request->codes = codes; }

void idem__request_attach(idem_request *request, void *attachment,
                          void (*free_fn)(void *attachment), void (*keep_fn)(void *attachment)) {
  request->attachment = attachment;
  request->attachment_free = free_fn;
  request->attachment_keep = keep_fn;
}

void *idem__request_attachment(const idem_request *request) { return request->attachment; }

void idem__request_discard(idem_request *request) {
  idem__request_forget(request);
  idem__request_end(request);
}

void idem__request_on_late_answer(idem_request *request, idem__late_answer_fn fn) {
  request->late_answer = fn;
}

void idem__request_set_guard(idem_request *request, const idem__request_guard *guard) {
  request->guard = guard;
}

void idem__request_on_cut_off(idem_request *request, idem__cut_off_fn fn) { request->cut_off = fn; }

void idem__request_run_method(idem_request *request) {
  request->method->fn(request, request->params, request->method->user);
}

/* ------------------------------------------------------------------ conn */

bool idem__conn_owes(idem_conn *conn, const idem__id *id) {
  return idem__owed_find(conn, id) != NULL;
}

const idem__id *idem__conn_owed_id(const idem_conn *conn, const char *key, size_t len) {
  const idem__owed *owed = idem_map_get(&conn->owed, key, len);
  return owed && owed->request ? &owed->request->id : NULL;
}

bool idem__conn_gathers(const idem_conn *conn) { return !idem_list_empty(&conn->batches); }

uint64_t idem__conn_now_ms(const idem_conn *conn) { return idem__conn_clock_ms(conn); }

void idem__conn_tell_output(idem_conn *conn) { conn->opts.on_output(conn, conn->opts.user); }

bool idem__conn_closed(const idem_conn *conn) { return conn->closed; }

bool idem__conn_aborted(const idem_conn *conn) { return conn->aborted; }

bool idem__conn_orphaned(const idem_conn *conn) { return conn->orphaned; }

void idem__conn_on_abort(idem_conn *conn, bool (*fn)(idem_request *request)) {
  conn->on_abort = fn;
}

void idem__conn_set_whose(idem_conn *conn, void (*fn)(const idem_conn *conn, idem__whose *out)) {
  conn->whose = fn;
}

bool idem__conn_going(const idem_conn *conn) { return conn->free_later; }

idem_metrics *idem__conn_metrics(const idem_conn *conn) { return conn->opts.metrics; }

void idem__conn_attach(idem_conn *conn, const idem__attachment_kind *kind, void *attachment) {
  conn->attachment = attachment;
  conn->attachment_kind = kind;
}

void *idem__conn_attachment(const idem_conn *conn, const idem__attachment_kind *kind) {
  return conn->attachment_kind == kind ? conn->attachment : NULL;
}

void idem__conn_set_layer(idem_conn *conn, const idem__conn_layer *layer) { conn->layer = layer; }

void idem__conn_look(idem_conn *conn) { idem__conn_wake(conn); }

uint64_t idem__conn_read_clock(idem_conn *conn) { return idem__conn_now_ns(conn) / 1000000u; }

void idem__conn_set_cancel(idem_conn *conn, idem_cancel_form form) { conn->policy.cancel = form; }

void idem__conn_allow_batches(idem_conn *conn, bool allowed) { conn->policy.batches = allowed; }

void idem__conn_count_calls_from(idem_conn *conn, uint64_t id) { conn->next_call_id = id; }

void idem__conn_set_siblings(idem_conn *conn, const idem__conn_siblings *siblings) {
  conn->siblings = *siblings;
}

void idem__conn_set_heard(idem_conn *conn,
                          void (*fn)(idem_conn *conn, const idem__message *message)) {
  conn->heard = fn;
}

void idem__conn_drop_notifications(idem_conn *conn, const char *reason) { conn->drops = reason; }

bool idem__conn_drops_notifications(const idem_conn *conn) { return conn->drops != NULL; }

void idem__conn_take_response(idem_conn *conn, const idem__message *message) {
  idem__conn_enter(conn);
  idem__call_response(conn, message);
  idem__conn_leave_waking(conn);
}
