/* answer.c - writing one answer: the envelope by hand around the raw id, the result through the
 * writer. Members in this order: jsonrpc, id, then result or error; in error: code, message, data. */
#include "rpc.h"

#include <string.h>

#define TRY(expression)                                                                            \
  do {                                                                                             \
    idem_status try_status = (expression);                                                         \
    if (try_status != IDEM_OK) return try_status;                                                  \
  } while (0)

static idem_status put_head(idem__buf *out, const idem_policy *policy, const idem__id *id) {
  static const char head[] = "{\"jsonrpc\":\"2.0\",\"id\":";
  TRY(idem__buf_reserve(out, sizeof head + id->raw_len + 16));
  if (id->raw) {
    TRY(idem__buf_put(out, head, sizeof head - 1));
    return idem__buf_put(out, id->raw, id->raw_len);
  }
  if (policy->unknown_id == IDEM_UNKNOWN_ID_OMIT)
    return idem__buf_puts(out, "{\"jsonrpc\":\"2.0\"");
  return idem__buf_puts(out, "{\"jsonrpc\":\"2.0\",\"id\":null");
}

static idem_status put_result(idem__buf *out, const idem_policy *policy,
                              const idem__answer *answer) {
  TRY(idem__buf_puts(out, ",\"result\":"));
  if (answer->result) return idem__json_put(out, answer->result);
  if (answer->result_mut) return idem__json_put_mut(out, answer->result_mut);
  if (!answer->result_text) return idem__buf_puts(out, "null");
  return idem__json_put_text(out, answer->result_text, answer->result_len, policy->limits.depth);
}

static idem_status put_key_data(idem__buf *out, const idem__answer *answer) {
  TRY(idem__buf_puts(out, ",\"data\":{"));
  TRY(idem__text_json_string(out, answer->data_key, strlen(answer->data_key)));
  TRY(idem__buf_puts(out, ":"));
  TRY(idem__text_json_string(out, answer->data_string, answer->data_string_len));
  return idem__buf_puts(out, "}");
}

/* Foreign text that turns out to be null means no data member. */
static idem_status put_text_data(idem__buf *out, const idem_policy *policy,
                                 const idem__answer *answer) {
  size_t before = out->len;
  TRY(idem__buf_puts(out, ",\"data\":"));
  size_t start = out->len;
  TRY(idem__json_put_text(out, answer->data_text, answer->data_len, policy->limits.depth));
  if (out->len - start == 4 && memcmp(out->data + start, "null", 4) == 0) out->len = before;
  return IDEM_OK;
}

static idem_status put_data(idem__buf *out, const idem_policy *policy, const idem__answer *answer) {
  if (answer->data_key && answer->data_string) return put_key_data(out, answer);
  if (answer->data_text) return put_text_data(out, policy, answer);
  if (answer->data_own) {
    TRY(idem__buf_puts(out, ",\"data\":"));
    return idem__buf_put(out, answer->data_own, answer->data_own_len);
  }
  /* yyjson's type macros take a non-const value; the tag is all that is read. */
  if (!answer->data || (answer->data->tag & YYJSON_TYPE_MASK) == YYJSON_TYPE_NULL) return IDEM_OK;
  TRY(idem__buf_puts(out, ",\"data\":"));
  return idem__json_put_mut(out, answer->data);
}

static idem_status put_error(idem__buf *out, const idem_policy *policy,
                             const idem__answer *answer) {
  const char *message = answer->message ? answer->message : idem__code_text(answer->code);
  if (!message) message = "Server error";
  TRY(idem__buf_printf(out, ",\"error\":{\"code\":%lld,\"message\":", (long long)answer->code));
  TRY(idem__text_json_string(out, message, strlen(message)));
  TRY(put_data(out, policy, answer));
  return idem__buf_puts(out, "}");
}

idem_status idem__answer_put(idem__buf *out, const idem_policy *policy, const idem__id *id,
                             const idem__answer *answer) {
  size_t before = out->len;
  idem_status status = put_head(out, policy, id);
  if (status == IDEM_OK) {
    status = answer->is_error ? put_error(out, policy, answer) : put_result(out, policy, answer);
  }
  if (status == IDEM_OK) status = idem__buf_puts(out, "}");
  if (status != IDEM_OK) out->len = before;
  return status;
}
