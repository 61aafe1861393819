/* answer.c - writing one answer: the envelope by hand around the raw id, the result through the
 * writer. Members in this order: jsonrpc, id, then result or error; in error: code, message, data. */
#include "../base/short.h"
#include "inside.h"

#include <string.h>

#define TRY(expression)                                                                            \
  do {                                                                                             \
    idem_status try_status = (expression);                                                         \
    if (try_status != IDEM_OK) return try_status;                                                  \
  } while (0)

/* Everything up to the value of the result or the error; the room for it was reserved. */
static IDEM__INLINE void put_head(idem_buf *out, const idem_policy *policy, const idem__id *id,
                                  bool is_error) {
  static const char start[] = "{\"jsonrpc\":\"2.0\"";
  static const char member[] = ",\"id\":";
  static const char result[] = ",\"result\":", error[] = ",\"error\":";
  char *at = out->data + out->len;
  memcpy(at, start, sizeof start - 1);
  at += sizeof start - 1;
  if (id->raw != NULL || policy->unknown_id == IDEM_UNKNOWN_ID_NULL) {
    memcpy(at, member, sizeof member - 1);
    at += sizeof member - 1;
    size_t len = id->raw ? id->raw_len : 4;
    idem__copy(at, id->raw ? id->raw : "null", len);
    at += len;
  }
  memcpy(at, is_error ? error : result, sizeof error - 1);
  at += sizeof error - 1;
  if (!is_error) *at++ = ':';
  out->len = (size_t)(at - out->data);
}

IDEM__APART static idem_status put_member(idem_buf *out, const idem__value *value) {
  TRY(idem_buf_puts(out, "{"));
  TRY(idem_text_json_string(out, value->key, strlen(value->key)));
  TRY(idem_buf_puts(out, ":"));
  TRY(idem_text_json_string(out, value->at, value->len));
  return idem_buf_puts(out, "}");
}

IDEM__APART idem_status idem__value_put(idem_buf *out, const idem_policy *policy,
                                        const idem__value *value) {
  switch (value->kind) {
  case IDEM__VALUE_PARSED: return idem__json_put(out, value->at);
  case IDEM__VALUE_MUTABLE: return idem__json_put_mut(out, value->at);
  case IDEM__VALUE_FOREIGN:
    return idem__json_put_text(out, value->at, value->len, policy->limits.depth);
  case IDEM__VALUE_OWN: return idem_buf_put(out, value->at, value->len);
  case IDEM__VALUE_MEMBER: return put_member(out, value);
  case IDEM__VALUE_NONE: break;
  }
  return idem_buf_puts(out, "null");
}

/* What idem itself says of an error may be too much for some; what an application says is its own. */
static idem_error_detail detail_of(const idem_policy *policy, const idem__answer *answer) {
  idem__value_kind kind = answer->value.kind;
  bool ours = kind == IDEM__VALUE_OWN || kind == IDEM__VALUE_MEMBER;
  return ours && !answer->raised ? policy->error_detail : IDEM_ERROR_DETAIL_FULL;
}

/* Of an object these members, if it has any. */
static idem_status put_named(idem_buf *out, yyjson_val *object, const char *const *names) {
  const char *before = ",\"data\":{";
  bool any = false;
  for (; *names; names++) {
    yyjson_val *text = yyjson_obj_get(object, *names);
    if (!yyjson_is_str(text)) continue;
    TRY(idem_buf_printf(out, "%s\"%s\":", before, *names));
    TRY(idem_text_json_string(out, yyjson_get_str(text), yyjson_get_len(text)));
    before = ",";
    any = true;
  }
  return any ? idem_buf_puts(out, "}") : IDEM_OK;
}

/* Why it is an error, and what to do about it. */
IDEM__COLD static idem_status put_reason(idem_buf *out, const idem__value *value) {
  static const char *const names[] = {"reason", "hint", NULL};
  if (value->kind == IDEM__VALUE_MEMBER) {
    if (strcmp(value->key, "reason") != 0) return IDEM_OK;
    TRY(idem_buf_puts(out, ",\"data\":"));
    return put_member(out, value);
  }
  idem_alloc alloc = idem__alloc_or_default(out->alloc);
  yyjson_alc alc = idem__json_alc(&alloc);
  yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)value->at, value->len,
                                     YYJSON_READ_BIGNUM_AS_RAW, &alc, NULL);
  if (!doc) return IDEM_E_NOMEM;
  idem_status status = put_named(out, yyjson_doc_get_root(doc), names);
  yyjson_doc_free(doc);
  return status;
}

/* Data that turns out to be null means no data member. */
static idem_status put_data(idem_buf *out, const idem_policy *policy, const idem__answer *answer) {
  static const char member[] = ",\"data\":";
  idem_error_detail detail = detail_of(policy, answer);
  if (detail == IDEM_ERROR_DETAIL_NONE) return IDEM_OK;
  if (detail == IDEM_ERROR_DETAIL_REASON) return put_reason(out, &answer->value);
  size_t before = out->len, start = before + sizeof member - 1;
  TRY(idem_buf_put(out, member, sizeof member - 1));
  TRY(idem__value_put(out, policy, &answer->value));
  if (out->len - start == 4 && memcmp(out->data + start, "null", 4) == 0) out->len = before;
  return IDEM_OK;
}

IDEM__APART static idem_status put_error(idem_buf *out, const idem_policy *policy,
                                         const idem__answer *answer) {
  const char *message = answer->message ? answer->message : idem__code_text(answer->code);
  if (!message) message = "Server error";
  TRY(idem_buf_printf(out, "{\"code\":%lld,\"message\":", (long long)answer->code));
  TRY(idem_text_json_string(out, message, strlen(message)));
  TRY(put_data(out, policy, answer));
  return idem_buf_puts(out, "}");
}

idem_status idem__answer_put_value(idem_buf *out, const idem_policy *policy,
                                   const idem__answer *answer) {
  return answer->is_error ? put_error(out, policy, answer)
                          : idem__value_put(out, policy, &answer->value);
}

/* More than the head and the name of the result take. */
#define ENVELOPE 64u

IDEM__HOT idem_status idem__answer_put(idem_buf *out, const idem_policy *policy, const idem__id *id,
                                       const idem__answer *answer) {
  size_t before = out->len;
  idem_status status = idem_buf_reserve(out, ENVELOPE + id->raw_len);
  if (status != IDEM_OK) return status;
  put_head(out, policy, id, answer->is_error);
  if (IDEM__LIKELY(!answer->is_error && answer->value.kind == IDEM__VALUE_PARSED))
    status = idem__json_put(out, answer->value.at);
  else
    status = idem__answer_put_value(out, policy, answer);
  if (status == IDEM_OK) status = idem_buf_puts(out, "}");
  if (status != IDEM_OK) out->len = before;
  return status;
}
