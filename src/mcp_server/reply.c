/* reply.c - results of methods that are not MCP's own, registered beside them on the server's router.
 * MCP wants every result to be an object, and 2026-07-28 wants members of its own in it: any value
 * becomes such an object here. */
#include "result.h"

/* Members that only the engine may say in 2026-07-28. */
static bool is_ours(const idem__context *context, yyjson_val *key) {
  if (yyjson_equals_str(key, "_meta")) return true;
  return idem__revision_has(context->revision, IDEM__R_MODERN) &&
         yyjson_equals_str(key, "resultType");
}

/* A key may hold anything: it is written as the string it is. */
static void write_key(idem__writer *writer, yyjson_val *key) {
  idem__write_value(writer, key);
  if (writer->status == IDEM_OK) writer->status = idem_buf_put(writer->out, ":", 1);
  writer->comma = false;
}

static void write_members(idem__result *result, yyjson_val *object) {
  size_t index, count;
  yyjson_val *key, *val;
  idem_each_member(object, index, count, key, val) {
    if (is_ours(result->context, key)) continue;
    write_key(&result->writer, key);
    idem__write_value(&result->writer, val);
  }
}

/* The _meta an object brought, for the result's own to be added to; NULL: it had none. */
static yyjson_mut_val *own_meta(idem_request *request, yyjson_val *value) {
  yyjson_val *meta = yyjson_is_obj(value) ? yyjson_obj_get(value, "_meta") : NULL;
  if (!yyjson_is_obj(meta)) return NULL;
  yyjson_mut_val *copy = yyjson_val_mut_copy(idem_request_doc(request), meta);
  if (copy) yyjson_mut_obj_remove_key(copy, IDEM__META_SERVER_INFO); /* the engine says that */
  return copy;
}

idem_status idem_mcp_reply(idem_request *request, const yyjson_val *result) {
  idem__context *context = idem__context_open(request);
  if (!context) return idem_reply(request, result);
  yyjson_val *value = (yyjson_val *)(uintptr_t)result; /* yyjson reads through plain pointers */
  yyjson_mut_val *meta = own_meta(request, value);
  idem__result answer;
  idem__result_begin(&answer, context, "complete");
  if (yyjson_is_obj(value))
    write_members(&answer, value);
  else if (value)
    idem__write_member_value(&answer.writer, "value", value);
  else
    idem__write_member_raw(&answer.writer, "value", "null");
  return idem__result_end(&answer, meta);
}

idem_status idem_mcp_reply_mut(idem_request *request, const yyjson_mut_val *result) {
  if (!result || !idem__context_open(request)) return idem_reply_mut(request, result);
  yyjson_alc alc = idem__arena_alc(idem__request_memory(request));
  yyjson_doc *copy = yyjson_mut_val_imut_copy((yyjson_mut_val *)(uintptr_t)result, &alc);
  return copy ? idem_mcp_reply(request, copy->root) : idem_reply_mut(request, NULL);
}

idem_status idem_mcp_reply_json(idem_request *request, const char *json, size_t len) {
  if (!json || !idem__context_open(request)) return idem_reply_json(request, json, len);
  yyjson_alc alc = idem__arena_alc(idem__request_memory(request));
  yyjson_read_err why = {0};
  yyjson_doc *copy =
      yyjson_read_opts((char *)(uintptr_t)json, len, YYJSON_READ_BIGNUM_AS_RAW, &alc, &why);
  if (copy) return idem_mcp_reply(request, copy->root);
  if (why.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION) return idem_reply_mut(request, NULL);
  return idem_reply_json(request, json, len); /* which says what is wrong with it */
}
