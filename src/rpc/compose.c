/* compose.c - a message written without a conn, with an id of the caller's choice.
 * The forms are those of answer.c and call.c; the id's bytes are checked, then kept. */
#include "inside.h"

#include <string.h>

#define TRY(expression)                                                                            \
  do {                                                                                             \
    idem_status try_status = (expression);                                                         \
    if (try_status != IDEM_OK) return try_status;                                                  \
  } while (0)

static bool is_answer(const idem_message *message) {
  return message->kind == IDEM_MESSAGE_RESULT || message->kind == IDEM_MESSAGE_ERROR;
}

/* A string, number or null, and nothing around it. */
static idem_status check_id(const idem_message *message, const idem_alloc *alloc) {
  idem_status status = IDEM_OK;
  if (!message->id_len || !strchr("\"-0123456789n", message->id[0])) return IDEM_E_INVAL;
  char last = message->id[message->id_len - 1];
  if (last == ' ' || last == '\t' || last == '\r' || last == '\n') return IDEM_E_INVAL;
  yyjson_alc alc = idem__json_alc(alloc);
  yyjson_doc *doc = idem__json_read_text(message->id, message->id_len, 1, &alc, &status);
  yyjson_doc_free(doc);
  if (doc) return IDEM_OK;
  return status == IDEM_E_NOMEM ? status : IDEM_E_INVAL;
}

static idem_status check(const idem_message *message, const idem_alloc *alloc) {
  bool may_lack = message->kind == IDEM_MESSAGE_NOTIFICATION || message->kind == IDEM_MESSAGE_ERROR;
  if (message->kind > IDEM_MESSAGE_ERROR) return IDEM_E_INVAL;
  if (!is_answer(message) && !message->method) return IDEM_E_INVAL;
  if (!message->id) return may_lack ? IDEM_OK : IDEM_E_INVAL;
  return message->kind == IDEM_MESSAGE_NOTIFICATION ? IDEM_E_INVAL : check_id(message, alloc);
}

static idem__value value_of(const idem_message *message) {
  if (message->value_json)
    return (idem__value){IDEM__VALUE_FOREIGN, message->value_json, message->value_json_len, NULL};
  if (message->value_mut)
    return (idem__value){.kind = IDEM__VALUE_MUTABLE, .at = message->value_mut};
  if (message->value) return (idem__value){.kind = IDEM__VALUE_PARSED, .at = message->value};
  return (idem__value){.kind = IDEM__VALUE_NONE};
}

/* ---------------------------------------------------------------- questions */

static idem_status put_params(idem_buf *out, const idem_policy *policy,
                              const idem_message *message) {
  idem__value value = value_of(message);
  if (value.kind == IDEM__VALUE_NONE) return IDEM_OK;
  TRY(idem_buf_puts(out, ",\"params\":"));
  size_t start = out->len;
  TRY(idem__value_put(out, policy, &value));
  char first = out->data[start];
  return first == '{' || first == '[' || policy->scalar_params ? IDEM_OK : IDEM_E_INVAL;
}

static idem_status put_question(idem_buf *out, const idem_policy *policy,
                                const idem_message *message) {
  TRY(idem_buf_puts(out, "{\"jsonrpc\":\"2.0\","));
  if (message->id) {
    TRY(idem_buf_puts(out, "\"id\":"));
    TRY(idem_buf_put(out, message->id, message->id_len));
    TRY(idem_buf_puts(out, ","));
  }
  TRY(idem_buf_puts(out, "\"method\":"));
  if (!idem_utf8_valid(message->method, message->method_len)) return IDEM_E_INVAL;
  TRY(idem_text_json_string(out, message->method, message->method_len));
  TRY(put_params(out, policy, message));
  return idem_buf_puts(out, "}");
}

/* ------------------------------------------------------------------ answers */

static idem_status put_answer(idem_buf *out, const idem_policy *policy, const idem_message *message,
                              const char *text) {
  idem__id id = {.raw = message->id, .raw_len = message->id ? message->id_len : 0};
  idem__answer answer = {.is_error = message->kind == IDEM_MESSAGE_ERROR,
                         .code = message->code,
                         .message = text,
                         .value = value_of(message)};
  return idem__answer_put(out, policy, &id, &answer);
}

/* The message of an error as a C string, as answers have it. */
static idem_status put_error(idem_buf *out, const idem_policy *policy,
                             const idem_message *message) {
  if (!message->text)
    return put_answer(out, policy, message, idem_code_name(policy->codes, message->code));
  if (memchr(message->text, 0, message->text_len)) return IDEM_E_INVAL;
  if (!idem_utf8_valid(message->text, message->text_len)) return IDEM_E_INVAL;
  char *text = idem__strndup(out->alloc, message->text, message->text_len);
  if (!text) return IDEM_E_NOMEM;
  idem_status status = put_answer(out, policy, message, text);
  idem__free(out->alloc, text);
  return status;
}

static idem_status put_message(idem_buf *out, const idem_policy *policy,
                               const idem_message *message) {
  if (message->kind == IDEM_MESSAGE_RESULT) return put_answer(out, policy, message, NULL);
  if (message->kind == IDEM_MESSAGE_ERROR) return put_error(out, policy, message);
  return put_question(out, policy, message);
}

idem_status idem_message_compose(const idem_message *message, const idem_policy *policy,
                                 const idem_alloc *alloc, char **text, size_t *len) {
  idem_policy preset = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  idem_alloc own = idem__alloc_or_default(alloc);
  idem_buf out;
  if (!policy) policy = &preset;
  *text = NULL;
  *len = 0;
  TRY(check(message, &own));
  idem_buf_init(&out, &own, policy->limits.message_bytes + 1); /* the NUL */
  idem_status status = put_message(&out, policy, message);
  if (status == IDEM_OK) status = idem_buf_put(&out, "", 1);
  if (status != IDEM_OK) {
    idem_buf_deinit(&out);
    return status;
  }
  *text = out.data;
  *len = out.len - 1;
  return IDEM_OK;
}

void idem_message_text_free(const idem_alloc *alloc, char *text) { idem__free(alloc, text); }
