/* message.c - deciding what a piece of JSON is: request, notification, response or a mistake.
 * One walk over the top-level members, then the checks in the order the rules name them: the first
 * fault decides. */
#include "rpc.h"

#include <string.h>

/* The members that matter, and how often each came. */
typedef struct members {
  yyjson_val *jsonrpc, *id_key, *id, *method, *params, *result, *error;
  unsigned jsonrpc_count, id_count, method_count, params_count, result_count, error_count;
} members;

#define KEY_IS(key, literal) (memcmp((key)->uni.str, "" literal, sizeof(literal) - 1) == 0)

static void note_member(members *found, yyjson_val *key, yyjson_val *val) {
  switch (unsafe_yyjson_get_len(key)) {
  case 2:
    if (KEY_IS(key, "id")) found->id_key = key, found->id = val, found->id_count++;
    break;
  case 5:
    if (KEY_IS(key, "error")) found->error = val, found->error_count++;
    break;
  case 6:
    if (KEY_IS(key, "method"))
      found->method = val, found->method_count++;
    else if (KEY_IS(key, "params"))
      found->params = val, found->params_count++;
    else if (KEY_IS(key, "result"))
      found->result = val, found->result_count++;
    break;
  case 7:
    if (KEY_IS(key, "jsonrpc")) found->jsonrpc = val, found->jsonrpc_count++;
    break;
  default: break;
  }
}

static members find_members(yyjson_val *object) {
  members found = {0};
  yyjson_val *key = unsafe_yyjson_get_first(object);
  for (size_t left = unsafe_yyjson_get_len(object); left; left--) {
    note_member(&found, key, key + 1);
    key = unsafe_yyjson_get_next(key + 1);
  }
  return found;
}

static bool version_ok(yyjson_val *val) {
  return val && unsafe_yyjson_is_str(val) && unsafe_yyjson_get_len(val) == 3 &&
         memcmp(val->uni.str, "2.0", 3) == 0;
}

static bool id_accepted(const idem_policy *policy, const idem__id *id) {
  switch (id->kind) {
  case IDEM__ID_NULL: return policy->null_id;
  case IDEM__ID_NUMBER: return policy->fractional_id || !id->fraction;
  case IDEM__ID_INVALID: return false;
  case IDEM__ID_ABSENT:
  case IDEM__ID_INTEGER:
  case IDEM__ID_STRING: break;
  }
  return true;
}

static bool params_fine(yyjson_val *params) {
  return !params || unsafe_yyjson_is_ctn(params) || unsafe_yyjson_is_null(params);
}

static idem__reason first_fault(const members *found, const idem__message *message, bool id_fine) {
  if (found->jsonrpc_count > 1 || found->id_count > 1 || found->method_count > 1 ||
      found->params_count > 1) {
    return IDEM__DUPLICATE_MEMBER;
  }
  if (!message->version_ok) return IDEM__BAD_VERSION;
  if (!id_fine) return IDEM__INVALID_ID_TYPE;
  if (!found->method) return IDEM__MISSING_METHOD;
  if (!unsafe_yyjson_is_str(found->method)) return IDEM__INVALID_METHOD_TYPE;
  if (!params_fine(found->params)) return IDEM__INVALID_PARAMS_TYPE;
  return IDEM__REASON_NONE;
}

static void accept_params(const idem_policy *policy, yyjson_val *params, idem__message *message) {
  if (!params) return;
  if (unsafe_yyjson_is_null(params)) {
    message->params_refused = policy->null_params ? NULL : "null";
  } else if (unsafe_yyjson_is_arr(params) && !policy->array_params) {
    message->params_refused = "array";
  } else {
    message->params = params;
  }
}

static void read_id(const yyjson_doc *doc, const char *text, size_t text_len, const members *found,
                    idem__message *message) {
  if (found->id_count == 0) return;
  if (found->id_count > 1) {
    message->id.kind = IDEM__ID_INVALID;
    return;
  }
  const char *raw;
  size_t raw_len;
  idem__json_raw_after(doc, text, text_len, found->id_key, &raw, &raw_len);
  idem__id_read(found->id, raw, raw_len, &message->id);
}

static void refuse(idem__message *message, idem__reason reason, bool id_fine) {
  message->kind = IDEM__INVALID;
  message->reason = reason;
  if (!id_fine || message->id.kind == IDEM__ID_INVALID) message->id = (idem__id){.raw = NULL};
}

void idem__message_classify(const idem_policy *policy, const yyjson_doc *doc, const char *text,
                            size_t text_len, yyjson_val *val, idem__message *message) {
  message->params_refused = NULL;
  message->reason = IDEM__REASON_NONE;
  message->id.kind = IDEM__ID_ABSENT;
  message->id.raw = NULL;
  message->id.raw_len = 0;
  message->method = NULL;
  message->method_len = 0;
  message->params = NULL;
  if (!unsafe_yyjson_is_obj(val)) {
    refuse(message, IDEM__NOT_AN_OBJECT, false);
    return;
  }
  members found = find_members(val);
  read_id(doc, text, text_len, &found, message);
  message->version_ok = version_ok(found.jsonrpc);
  if (!found.method && (found.result || found.error)) {
    message->kind = IDEM__RESPONSE;
    message->result = found.result;
    message->error = found.error;
    message->repeated = found.jsonrpc_count > 1 || found.id_count > 1 || found.result_count > 1 ||
                        found.error_count > 1;
    return;
  }
  bool id_fine = id_accepted(policy, &message->id);
  idem__reason reason = first_fault(&found, message, id_fine);
  if (found.method && unsafe_yyjson_is_str(found.method)) {
    message->method = found.method->uni.str;
    message->method_len = unsafe_yyjson_get_len(found.method);
  }
  if (reason != IDEM__REASON_NONE) {
    refuse(message, reason, id_fine);
    return;
  }
  message->kind = message->id.kind == IDEM__ID_ABSENT ? IDEM__NOTIFICATION : IDEM__REQUEST;
  accept_params(policy, found.params, message);
}
