/* param.c - reading params, and saying what was wrong with them.
 * The getters name the path on failure, so that a client can mend its call. */
#include "inside.h"

#include <stdio.h>
#include <string.h>

static yyjson_val *find(yyjson_val *params, const char *name, size_t position) {
  if (!params) return NULL;
  if (unsafe_yyjson_is_arr(params)) return yyjson_arr_get(params, position);
  /* Inside params the last one of a repeated member wins. */
  yyjson_val *found = NULL, *key = unsafe_yyjson_get_first(params);
  size_t len = strlen(name);
  for (size_t left = yyjson_obj_size(params); left; left--) {
    if (unsafe_yyjson_equals_strn(key, name, len)) found = key + 1;
    key = unsafe_yyjson_get_next(key + 1);
  }
  return found;
}

/* Positions are spelled as paths; the first few are all anyone uses. */
static const char *path_of(yyjson_val *params, const char *name, size_t position) {
  static const char *const positions[] = {"[0]", "[1]", "[2]", "[3]", "[4]",
                                          "[5]", "[6]", "[7]", "[8]", "[9]"};
  if (!params || !unsafe_yyjson_is_arr(params)) return name;
  return position < 10 ? positions[position] : name;
}

static idem_status fault_at(yyjson_val *params, const char *name, size_t position,
                            const char *expected, idem_param_fault *fault) {
  *fault = (idem_param_fault){.param = path_of(params, name, position),
                              .expected = expected,
                              .received = find(params, name, position)};
  return IDEM_E_INVAL;
}

idem_status idem_param_double(yyjson_val *params, const char *name, size_t position, double *value,
                              idem_param_fault *fault) {
  if (idem__json_get_double(find(params, name, position), value)) return IDEM_OK;
  return fault_at(params, name, position, "number", fault);
}

idem_status idem_param_int(yyjson_val *params, const char *name, size_t position, int64_t *value,
                           idem_param_fault *fault) {
  if (idem__json_get_int(find(params, name, position), value)) return IDEM_OK;
  return fault_at(params, name, position, "integer", fault);
}

idem_status idem_param_string(yyjson_val *params, const char *name, size_t position,
                              const char **value, size_t *len, idem_param_fault *fault) {
  yyjson_val *val = find(params, name, position);
  if (!yyjson_is_str(val)) return fault_at(params, name, position, "string", fault);
  *value = val->uni.str;
  if (len) *len = unsafe_yyjson_get_len(val);
  return IDEM_OK;
}

idem_status idem_param_bool(yyjson_val *params, const char *name, size_t position, bool *value,
                            idem_param_fault *fault) {
  yyjson_val *val = find(params, name, position);
  if (!yyjson_is_bool(val)) return fault_at(params, name, position, "boolean", fault);
  *value = unsafe_yyjson_get_bool(val);
  return IDEM_OK;
}

/* ------------------------------------------------------------------ the error */

#define RECEIVED_MAX 64u

static idem_status put_string_member(idem_buf *out, const char *key, const char *text) {
  idem_status status = idem_text_json_string(out, key, strlen(key));
  if (status == IDEM_OK) status = idem_buf_puts(out, ":");
  return status == IDEM_OK ? idem_text_json_string(out, text, strlen(text)) : status;
}

/* A closed choice shows the value itself if it is a short string; else only the type is told. */
static idem_status put_received(idem_buf *out, const idem_param_fault *fault) {
  yyjson_val *received = fault->received;
  if (!fault->accepted || !received || !unsafe_yyjson_is_str(received)) {
    return put_string_member(out, "received", idem__json_type_name(received));
  }
  size_t len = unsafe_yyjson_get_len(received);
  idem_status status = idem_buf_puts(out, "\"received\":");
  if (status != IDEM_OK) return status;
  return idem_text_json_string(out, received->uni.str,
                               idem_utf8_cut(received->uni.str, len, RECEIVED_MAX));
}

static idem_status put_accepted(idem_buf *out, const char *const *accepted) {
  idem_status status = idem_buf_puts(out, ",\"accepted\":[");
  for (size_t i = 0; accepted[i] && status == IDEM_OK; i++) {
    if (i) status = idem_buf_puts(out, ",");
    if (status == IDEM_OK) status = idem_text_json_string(out, accepted[i], strlen(accepted[i]));
  }
  return status == IDEM_OK ? idem_buf_puts(out, "]") : status;
}

static idem_status put_fault(idem_buf *out, const idem_param_fault *fault) {
  idem_status status = idem_buf_puts(out, "{");
  if (status == IDEM_OK) status = put_string_member(out, "param", fault->param);
  if (status == IDEM_OK) status = idem_buf_puts(out, ",");
  if (status == IDEM_OK) status = put_string_member(out, "expected", fault->expected);
  if (status == IDEM_OK) status = idem_buf_puts(out, ",");
  if (status == IDEM_OK) status = put_received(out, fault);
  if (status == IDEM_OK && fault->accepted) status = put_accepted(out, fault->accepted);
  return status == IDEM_OK ? idem_buf_puts(out, "}") : status;
}

/* What was expected, as a sentence has it: a closed choice by its values. */
static idem_status put_expected(idem_buf *out, const idem_param_fault *fault) {
  if (!fault->accepted) return idem_buf_printf(out, "%s", fault->expected);
  idem_status status = idem_buf_puts(out, "one of");
  for (size_t i = 0; fault->accepted[i] && status == IDEM_OK; i++) {
    status = idem_buf_printf(out, "%s ", i ? "," : "");
    if (status == IDEM_OK)
      status = idem_text_json_string(out, fault->accepted[i], strlen(fault->accepted[i]));
  }
  return status;
}

/* A closed choice shows the value as data does. */
static idem_status put_shown(idem_buf *out, const idem_param_fault *fault) {
  yyjson_val *received = fault->received;
  if (!fault->accepted || !received || !unsafe_yyjson_is_str(received))
    return idem_buf_printf(out, "%s", idem__json_type_name(received));
  size_t len = unsafe_yyjson_get_len(received);
  return idem_text_json_string(out, received->uni.str,
                               idem_utf8_cut(received->uni.str, len, RECEIVED_MAX));
}

/* What is wrong in one line, where the policy wants that in the message; else NULL. */
#define CAUSE_BYTES 257
static const char *cause_of(const idem_request *request, const idem_param_fault *fault,
                            char out[CAUSE_BYTES]) {
  char plain[1024], escaped[4 * sizeof plain];
  idem_buf sentence, line;
  if (!request->conn || request->codes == IDEM_CODES_ERLMCP) return NULL;
  if (request->conn->policy.error_message != IDEM_MESSAGE_CAUSE) return NULL;
  idem_buf_fixed(&sentence, plain, sizeof plain);
  /* What does not fit any more is past the bound. */
  idem_status status = idem_buf_printf(&sentence, "Invalid params: %.200s%sexpected ", fault->param,
                                       *fault->param ? ": " : "");
  if (status == IDEM_OK) status = put_expected(&sentence, fault);
  if (status == IDEM_OK) status = idem_buf_puts(&sentence, ", received ");
  if (status == IDEM_OK) put_shown(&sentence, fault);
  idem_buf_fixed(&line, escaped, sizeof escaped);
  if (idem_text_escape(&line, sentence.data, sentence.len, SIZE_MAX) != IDEM_OK) return NULL;
  size_t len = idem_utf8_cut(line.data, line.len, CAUSE_BYTES - 1);
  memcpy(out, line.data, len);
  out[len] = '\0';
  return out;
}

/* The log hears which param it was, not what stood there. */
static void tell(idem_request *request, const idem_param_fault *fault) {
  char detail[256];
  if (!request->live || request->settled || request->told) return;
  snprintf(detail, sizeof detail, "%.96s: expected %.96s, received %s, %zu bytes", fault->param,
           fault->expected, idem__json_type_name(fault->received), request->block->text_len);
  idem_request_log(request, NULL, IDEM_LOG_WARN, "params were refused", detail);
}

idem_status idem_reply_invalid_params(idem_request *request, const idem_param_fault *fault) {
  idem_buf data;
  idem_pool *pool = request->pool;
  idem__pool_ref(pool); /* replying may free the request, and its pool with it */
  idem_buf_init(&data, &pool->alloc, (size_t)1 << 20);
  idem_status status = put_fault(&data, fault);
  tell(request, fault);
  char text[CAUSE_BYTES];
  const char *cause = cause_of(request, fault, text);
  status = idem__reply_error_own(request, IDEM_RPC_INVALID_PARAMS, cause,
                                 status == IDEM_OK ? data.data : NULL, data.len);
  idem_buf_deinit(&data);
  idem__pool_unref(pool);
  return status;
}
