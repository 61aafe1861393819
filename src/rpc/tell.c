/* tell.c - what the log is told of messages, requests and conns.
 * Every error answer has one line: at error where the fault is ours, at warn where it is the peer's,
 * at debug where it is the application's own. What a peer can cause at will is limited in rate, a
 * bucket for each kind, so that no kind hides another. See docs/internals/rpc.md. */
#include "inside.h"

#include <stdio.h>
#include <string.h>

static idem_log_record record_of(const idem_conn *conn, idem_log_level level, const char *message,
                                 const idem__id *id) {
  return (idem_log_record){.level = level,
                           .message = message,
                           .id = id ? id->raw : NULL,
                           .id_len = id && id->raw ? id->raw_len : 0,
                           .peer = idem_conn_peer(conn)[0] ? idem_conn_peer(conn) : NULL};
}

static void add_detail(idem_log_record *record, const char *detail) {
  record->detail = detail;
  record->detail_len = detail ? strlen(detail) : 0;
}

static bool logs(const idem_conn *conn, idem_log_level level) {
  return idem_log_enabled(conn->opts.log, level);
}

static idem_log_bucket *bucket_of(idem_conn *conn, idem_log_level level) {
  if (level == IDEM_LOG_ERROR) return &conn->faults;
  return level == IDEM_LOG_INFO ? &conn->endings : &conn->warnings;
}

/* Debug is for who looks closely: nothing is left out. */
static void write_limited(idem_conn *conn, const idem_log_record *record) {
  if (record->level == IDEM_LOG_DEBUG)
    idem_log_write(conn->opts.log, record);
  else
    idem__log_limited(conn->opts.log, record, bucket_of(conn, record->level),
                      idem__conn_clock_ms(conn));
}

void idem__conn_tell_end(idem_conn *conn) {
  idem_log_bucket_end(conn->opts.log, &conn->warnings);
  idem_log_bucket_end(conn->opts.log, &conn->faults);
  idem_log_bucket_end(conn->opts.log, &conn->endings);
}

/* --------------------------------------------------------------------- conns */

void idem__conn_warn(idem_conn *conn, const char *message, const char *method, size_t method_len,
                     const idem__id *id) {
  if (!logs(conn, IDEM_LOG_WARN)) return;
  idem_log_record record = record_of(conn, IDEM_LOG_WARN, message, id);
  record.method = method;
  record.method_len = method_len;
  write_limited(conn, &record);
}

void idem__conn_note(idem_conn *conn, idem_log_level level, const char *message, const char *detail,
                     const idem__id *id) {
  if (!logs(conn, level)) return;
  idem_log_record record = record_of(conn, level, message, id);
  add_detail(&record, detail);
  idem_log_write(conn->opts.log, &record);
}

void idem__conn_debug(idem_conn *conn, const char *message, const char *method, size_t method_len,
                      const idem__id *id) {
  if (!logs(conn, IDEM_LOG_DEBUG)) return;
  idem_log_record record = record_of(conn, IDEM_LOG_DEBUG, message, id);
  record.method = method;
  record.method_len = method_len;
  idem_log_write(conn->opts.log, &record);
}

void idem__conn_tell_fault(idem_conn *conn, const idem_protocol_error *error) {
  if (conn->layer && conn->layer->protocol_error) conn->layer->protocol_error(conn, error);
  if (conn->opts.on_protocol_error) conn->opts.on_protocol_error(conn, error, conn->opts.user);
}

/* ------------------------------------------------------------------ refusals */

/* Of an error answer: whose fault it was. Codes outside the reserved range are the application's. */
idem_log_level idem_code_severity(int64_t code) {
  if (code == IDEM_RPC_INTERNAL_ERROR) return IDEM_LOG_ERROR;
  return code >= -32768 && code <= -32000 ? IDEM_LOG_WARN : IDEM_LOG_DEBUG;
}

#define CAUSE 320u
#define CAUSE_SHOWN 240

/* The reason in data of ours; NULL: there is none. */
static const char *reason_in(const idem__value *value, size_t *len) {
  static const char start[] = "{\"reason\":\"";
  const char *text = value->at;
  if (value->kind == IDEM__VALUE_MEMBER && strcmp(value->key, "reason") == 0) {
    *len = value->len;
    return text;
  }
  if (value->kind != IDEM__VALUE_OWN || value->len < sizeof start ||
      memcmp(text, start, sizeof start - 1) != 0)
    return NULL;
  const char *end = memchr(text + sizeof start - 1, '"', value->len - sizeof start + 1);
  if (!end) return NULL;
  *len = (size_t)(end - text) - (sizeof start - 1);
  return text + sizeof start - 1;
}

/* What we say of an error beyond its code. What an application says is between it and its peer. */
static const char *cause_in(const idem__answer *answer, size_t *len) {
  const idem__value *value = &answer->value;
  const char *text = idem__code_text(answer->code);
  const char *reason = reason_in(value, len);
  if (reason) return reason;
  if (value->kind != IDEM__VALUE_OWN && value->kind != IDEM__VALUE_MEMBER) return NULL;
  if (!answer->message || (text && strcmp(answer->message, text) == 0)) {
    *len = value->len;
    return value->kind == IDEM__VALUE_OWN && value->len <= CAUSE_SHOWN ? value->at : NULL;
  }
  *len = idem_utf8_cut(answer->message, strlen(answer->message), CAUSE_SHOWN);
  return answer->message;
}

/* The reason, or what the code means, and how much there was; never bytes of what did not parse. */
static void put_cause(char out[CAUSE], const idem__answer *answer, size_t size) {
  size_t len;
  const char *cause = cause_in(answer, &len), *text = idem__code_text(answer->code);
  if (cause)
    snprintf(out, CAUSE, "%.*s, %zu bytes", (int)len, cause, size);
  else if (text)
    snprintf(out, CAUSE, "%s, %zu bytes", text, size);
  else
    snprintf(out, CAUSE, "code %lld, %zu bytes", (long long)answer->code, size);
}

void idem__conn_tell_refusal(idem_conn *conn, const char *what, const idem__message *message,
                             const idem__answer *answer, size_t size) {
  idem_log_level level = idem_code_severity(answer->code);
  if (!logs(conn, level)) return;
  char cause[CAUSE];
  put_cause(cause, answer, size);
  idem_log_record record = record_of(conn, level, what, message ? &message->id : NULL);
  record.method = message ? message->method : NULL;
  record.method_len = message && message->method ? message->method_len : 0;
  add_detail(&record, cause);
  write_limited(conn, &record);
}

void idem__conn_tell_dropped(idem_conn *conn, const char *what, const idem__message *message,
                             const char *reason, size_t size) {
  if (!logs(conn, IDEM_LOG_WARN)) return;
  char cause[128];
  snprintf(cause, sizeof cause, "%s, %zu bytes", reason, size);
  idem_log_record record = record_of(conn, IDEM_LOG_WARN, what, NULL);
  record.method = message->method;
  record.method_len = message->method_len;
  add_detail(&record, cause);
  write_limited(conn, &record);
}

/* ------------------------------------------------------------------ requests */

/* Whose log it writes to: its conn's, also while that goes. */
static idem_conn *conn_of(const idem_request *request) {
  const idem_pool *pool = request->pool;
  if (request->conn) return request->conn;
  return pool->parting == request ? pool->parting_conn : NULL;
}

uint64_t idem_request_age_ms(const idem_request *request) {
  idem_conn *conn = conn_of(request);
  return conn ? (idem__conn_now_ns(conn) - request->started_ns) / 1000000u : 0;
}

bool idem_request_is_logged(const idem_request *request) { return request->told; }

IDEM__COLD void idem_request_log(idem_request *request, idem_log_bucket *bucket,
                                 idem_log_level level, const char *message, const char *detail) {
  idem_conn *conn = conn_of(request);
  if (level != IDEM_LOG_DEBUG) request->told = true;
  if (!conn || !logs(conn, level)) return;
  idem_log_record record = record_of(conn, level, message, &request->id);
  record.method = request->name;
  record.method_len = request->name_len;
  add_detail(&record, detail);
  idem__conn_now_ns(conn);
  if (bucket)
    idem__log_limited(conn->opts.log, &record, bucket, idem__conn_clock_ms(conn));
  else
    write_limited(conn, &record);
}

static const char *words_for(const idem_request *request, idem_log_level level) {
  bool notification = request->id.kind == IDEM__ID_ABSENT;
  if (level == IDEM_LOG_ERROR) return notification ? "a notification failed" : "a request failed";
  if (level == IDEM_LOG_DEBUG) return "a request was answered with an error";
  return notification ? "a notification was refused" : "a request was refused";
}

void idem__request_tell_error(idem_request *request, const idem__answer *answer) {
  idem_log_level level = idem_code_severity(answer->code);
  bool told = request->told;
  request->told = false;
  if (told || answer->code == IDEM_RPC_REQUEST_CANCELLED || !logs(request->conn, level)) return;
  char cause[CAUSE];
  put_cause(cause, answer, request->block->text_len);
  idem_request_log(request, NULL, level, words_for(request, level), cause);
}
