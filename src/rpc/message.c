/* message.c - deciding what a piece of JSON is: request, notification, response or a mistake.
 * One walk over the top-level members, then the checks in the order the rules name them: the first
 * fault decides. */
#include "inside.h"

#include <string.h>

/* The members that matter; `twice` has a bit for each. */
enum { JSONRPC, ID, METHOD, PARAMS, RESULT, ERROR, MEMBERS };
#define BIT(member) (1u << (member))
typedef struct members {
  yyjson_val *val[MEMBERS]; /* the last one of that name, or NULL */
  yyjson_val *id_key;
  unsigned twice;
} members;

#define KEY_IS(key, literal)                                                                       \
  IDEM__LIKELY(memcmp((key)->uni.str, "" literal, sizeof(literal) - 1) == 0)

static IDEM__INLINE int which_member(yyjson_val *key) {
  switch (unsafe_yyjson_get_len(key)) {
  case 2: return KEY_IS(key, "id") ? ID : MEMBERS;
  case 5: return KEY_IS(key, "error") ? ERROR : MEMBERS;
  case 6:
    if (KEY_IS(key, "method")) return METHOD;
    if (KEY_IS(key, "params")) return PARAMS;
    return KEY_IS(key, "result") ? RESULT : MEMBERS;
  case 7: return KEY_IS(key, "jsonrpc") ? JSONRPC : MEMBERS;
  default: break;
  }
  return MEMBERS;
}

static IDEM__INLINE void find_members(yyjson_val *object, members *found) {
  unsigned twice = 0; /* in a register: each waits for the one before */
  yyjson_val *key = unsafe_yyjson_get_first(object);
  for (size_t left = unsafe_yyjson_get_len(object); left; left--) {
    int which = which_member(key);
    if (IDEM__LIKELY(which != MEMBERS)) {
      if (IDEM__UNLIKELY(found->val[which] != NULL)) twice |= BIT(which);
      found->val[which] = key + 1;
      if (which == ID) found->id_key = key;
    }
    key = unsafe_yyjson_get_next(key + 1);
  }
  found->twice = twice;
}

static bool version_ok(yyjson_val *val) {
  return IDEM__LIKELY(val && unsafe_yyjson_is_str(val) && unsafe_yyjson_get_len(val) == 3 &&
                      memcmp(val->uni.str, "2.0", 3) == 0);
}

static IDEM__INLINE bool id_accepted(const idem_policy *policy, const idem__id *id) {
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

static bool params_fine(const idem_policy *policy, yyjson_val *params) {
  return !params || unsafe_yyjson_is_ctn(params) || unsafe_yyjson_is_null(params) ||
         policy->scalar_params;
}

#define STRICT_METHOD_MAX 256u

IDEM__APART static bool is_plain_method(const char *name, size_t len) {
  for (size_t i = 0; i < len; i++) {
    char c = name[i];
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && !(c >= '0' && c <= '9') && (!c || !strchr("_./$-", c))) return false;
  }
  return len > 0 && len <= STRICT_METHOD_MAX;
}

static bool method_fine(const idem_policy *policy, const idem__message *message) {
  return message->method && (IDEM__LIKELY(!policy->strict_methods) ||
                             is_plain_method(message->method, message->method_len));
}

static IDEM__INLINE idem__reason first_fault(const idem_policy *policy, const members *found,
                                             const idem__message *message, bool id_fine) {
  if (IDEM__UNLIKELY(found->twice & (BIT(JSONRPC) | BIT(ID) | BIT(METHOD) | BIT(PARAMS))) &&
      !policy->duplicate_members)
    return IDEM__DUPLICATE_MEMBER;
  if (IDEM__UNLIKELY(!message->version_ok)) return IDEM__BAD_VERSION;
  if (IDEM__UNLIKELY(!id_fine)) return IDEM__INVALID_ID_TYPE;
  if (IDEM__UNLIKELY(!found->val[METHOD])) return IDEM__MISSING_METHOD;
  if (IDEM__UNLIKELY(!method_fine(policy, message))) return IDEM__INVALID_METHOD_TYPE;
  if (IDEM__UNLIKELY(!params_fine(policy, found->val[PARAMS]))) return IDEM__INVALID_PARAMS_TYPE;
  return IDEM__REASON_NONE;
}

static IDEM__INLINE void accept_params(const idem_policy *policy, yyjson_val *params,
                                       idem__message *message) {
  if (!params) return;
  if (IDEM__UNLIKELY(unsafe_yyjson_is_null(params))) {
    message->params_refused = policy->null_params ? NULL : "null";
  } else if (IDEM__UNLIKELY(unsafe_yyjson_is_arr(params) && !policy->array_params)) {
    message->params_refused = "array";
  } else {
    message->params = params;
  }
}

static IDEM__INLINE void read_id(const idem_policy *policy, const yyjson_doc *doc, const char *text,
                                 size_t text_len, const members *found, idem__message *message) {
  if (IDEM__UNLIKELY(!found->val[ID])) return;
  if (IDEM__UNLIKELY(found->twice & BIT(ID)) && !policy->duplicate_members) {
    message->id.kind = IDEM__ID_INVALID;
    return;
  }
  const char *raw;
  size_t raw_len;
  idem__json_raw_after(doc, text, text_len, found->id_key, &raw, &raw_len);
  idem__id_read(found->val[ID], raw, raw_len, &message->id);
}

IDEM__COLD static void refuse(idem__message *message, idem__reason reason, bool id_fine) {
  message->kind = IDEM__INVALID;
  message->reason = reason;
  if (!id_fine || message->id.kind == IDEM__ID_INVALID) message->id = (idem__id){.raw = NULL};
}

IDEM__APART static void note_response(const members *found, idem__message *message) {
  message->kind = IDEM__RESPONSE;
  message->result = found->val[RESULT];
  message->error = found->val[ERROR];
  message->repeated =
      found->twice & (BIT(JSONRPC) | BIT(ID) | BIT(RESULT) | BIT(ERROR)) ? true : false;
}

static IDEM__INLINE void classify(const idem_policy *policy, const yyjson_doc *doc,
                                  const char *text, size_t text_len, yyjson_val *val,
                                  idem__message *message) {
  message->params_refused = NULL;
  message->reason = IDEM__REASON_NONE;
  message->id.kind = IDEM__ID_ABSENT;
  message->id.raw = NULL;
  message->id.raw_len = 0;
  message->method = NULL;
  message->method_len = 0;
  message->params = NULL;
  if (IDEM__UNLIKELY(!unsafe_yyjson_is_obj(val))) {
    refuse(message, IDEM__NOT_AN_OBJECT, false);
    return;
  }
  members found = {.twice = 0};
  find_members(val, &found);
  read_id(policy, doc, text, text_len, &found, message);
  message->version_ok = version_ok(found.val[JSONRPC]);
  yyjson_val *method = found.val[METHOD];
  if (IDEM__UNLIKELY(!method) && (found.val[RESULT] || found.val[ERROR])) {
    note_response(&found, message);
    return;
  }
  if (IDEM__LIKELY(method && unsafe_yyjson_is_str(method))) {
    message->method = method->uni.str;
    message->method_len = unsafe_yyjson_get_len(method);
  }
  bool id_fine = id_accepted(policy, &message->id);
  idem__reason reason = first_fault(policy, &found, message, id_fine);
  if (IDEM__UNLIKELY(reason != IDEM__REASON_NONE)) {
    refuse(message, reason, id_fine);
    return;
  }
  message->kind = message->id.kind == IDEM__ID_ABSENT ? IDEM__NOTIFICATION : IDEM__REQUEST;
  accept_params(policy, found.val[PARAMS], message);
}

IDEM__APART void idem__message_classify(const idem_policy *policy, const yyjson_doc *doc,
                                        const char *text, size_t text_len, yyjson_val *val,
                                        idem__message *message) {
  classify(policy, doc, text, text_len, val, message);
}

/* ------------------------------------------------------------- repeated members */

/* Inside params, results and errors the last one of a name counts. Embedders read them as they like, so nobody behind
 * this gets to see the others. */
static IDEM__INLINE idem_status mark_repeated(const yyjson_doc *doc, const idem__message *message) {
  if (IDEM__LIKELY(message->params != NULL)) return idem__json_mark_repeated(doc, message->params);
  if (message->kind != IDEM__RESPONSE) return IDEM_OK;
  yyjson_val *const parts[] = {message->result, message->error};
  idem_status found = IDEM_OK;
  for (size_t i = 0; i < 2 && found != IDEM_E_NOMEM; i++) {
    idem_status status = parts[i] ? idem__json_mark_repeated(doc, parts[i]) : IDEM_OK;
    if (status != IDEM_OK) found = status;
  }
  return found;
}

IDEM__HOT idem_status idem__message_read(const idem_policy *policy, yyjson_doc *doc,
                                         const char *text, size_t text_len, yyjson_val *val,
                                         idem__message *message) {
  classify(policy, doc, text, text_len, val, message);
  idem_status status = mark_repeated(doc, message);
  if (IDEM__LIKELY(status != IDEM_E_EXISTS)) return status;
  idem__json_drop_marked(doc);
  idem__message_classify(policy, doc, text, text_len, val, message);
  return IDEM_OK;
}

/* The members of the message itself stay: a request is refused for them. */
static idem_status mark_inside(const yyjson_doc *doc, yyjson_val *object) {
  idem_status found = IDEM_OK;
  yyjson_val *key = yyjson_is_obj(object) ? unsafe_yyjson_get_first(object) : NULL;
  for (size_t left = yyjson_obj_size(object); left; left--) {
    idem_status status = idem__json_mark_repeated(doc, key + 1);
    if (status == IDEM_E_NOMEM) return status;
    if (status != IDEM_OK) found = status;
    key = unsafe_yyjson_get_next(key + 1);
  }
  return found;
}

/* Once for all of them: each drop moves what is behind it. */
idem_status idem__message_keep_last(yyjson_doc *batch) {
  bool found = false;
  yyjson_val *element = unsafe_yyjson_get_first(batch->root);
  for (size_t left = yyjson_arr_size(batch->root); left; left--) {
    idem_status status = mark_inside(batch, element);
    if (status == IDEM_E_NOMEM) return status;
    found |= status == IDEM_E_EXISTS;
    element = unsafe_yyjson_get_next(element);
  }
  if (found) idem__json_drop_marked(batch);
  return IDEM_OK;
}
