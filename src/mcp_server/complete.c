/* complete.c - completion/complete: what could be typed next in an argument of a prompt or in a
 * variable of a template. One function of the application's answers for all of them. */
#include "result.h"
#include "scope.h"
#include "server.h"

#include <string.h>

#define VALUES_MAX 100u /* the schema's */

void idem_server_on_complete(idem_server *server, idem_completion_fn fn, void *user) {
  idem__server_lock(server);
  server->complete = fn;
  server->complete_user = user;
  idem__server_unlock(server);
}

/* --------------------------------------------------------------- checking */

/* A string that can be handed on as a C string; false: refused. */
static bool read_text(idem__context *context, yyjson_val *from, const char *key, const char *path,
                      const char **out) {
  yyjson_val *val = yyjson_obj_get(from, key);
  const char *text = yyjson_get_str(val);
  if (!text || strlen(text) != yyjson_get_len(val)) {
    idem__reply_bad_param(context, path, text ? "string without NUL" : "string", val);
    return false;
  }
  *out = text;
  return true;
}

/* Something that is not served: its name goes into the data. */
static bool refuse_unknown(idem__context *context, const char *key, const char *name) {
  idem__reply_missing(context, IDEM_RPC_INVALID_PARAMS, NULL, key, name, strlen(name));
  return false;
}

/* A prompt; a template as it is listed, or the URI of a resource that is. */
const idem__entry *idem__completion_entry(const idem__context *context, yyjson_val *ref,
                                          const char **use) {
  const idem__registry_list *lists = context->lists->registry->lists;
  bool prompt = yyjson_equals_str(yyjson_obj_get(ref, "type"), "ref/prompt");
  yyjson_val *named = yyjson_obj_get(ref, prompt ? "name" : "uri");
  const char *name = yyjson_get_str(named);
  size_t len = yyjson_get_len(named);
  *use = prompt ? "prompts/get" : "resources/read";
  if (!name) return NULL;
  if (prompt) return idem_map_get(&lists[IDEM__PROMPTS].by_name, name, len);
  const idem__entry *entry = idem_map_get(&lists[IDEM__TEMPLATES].by_name, name, len);
  return entry ? entry : idem_map_get(&lists[IDEM__RESOURCES].by_name, name, len);
}

static bool read_named(idem__context *context, yyjson_val *ref, bool prompt,
                       idem_completion_query *query) {
  const char *use, **out = prompt ? &query->prompt : &query->uri_template;
  if (!read_text(context, ref, prompt ? "name" : "uri", prompt ? "ref.name" : "ref.uri", out))
    return false;
  const idem__entry *entry = idem__completion_entry(context, ref, &use);
  if (entry) return idem__scope_admit_use(context, entry, use);
  return refuse_unknown(context, prompt ? "prompt" : "uri", *out);
}

static bool read_ref(idem__context *context, yyjson_val *ref, idem_completion_query *query) {
  static const char *const kinds[] = {"ref/prompt", "ref/resource", NULL};
  yyjson_val *type = yyjson_obj_get(ref, "type");
  if (!yyjson_is_obj(ref)) {
    idem__reply_bad_param(context, "ref", "object", ref);
    return false;
  }
  if (yyjson_equals_str(type, "ref/prompt")) return read_named(context, ref, true, query);
  if (yyjson_equals_str(type, "ref/resource")) return read_named(context, ref, false, query);
  idem_reply_invalid_params(context->request,
                            &(idem_param_fault){.param = "ref.type",
                                                .expected = "ref/prompt or ref/resource",
                                                .received = type,
                                                .accepted = kinds});
  return false;
}

static bool read_argument(idem__context *context, yyjson_val *argument,
                          idem_completion_query *query) {
  if (!yyjson_is_obj(argument)) {
    idem__reply_bad_param(context, "argument", "object", argument);
    return false;
  }
  return read_text(context, argument, "name", "argument.name", &query->argument) &&
         read_text(context, argument, "value", "argument.value", &query->value);
}

/* False at the first value that is no string. */
static bool all_strings(yyjson_val *arguments) {
  yyjson_obj_iter each;
  yyjson_val *key;
  yyjson_obj_iter_init(arguments, &each);
  while ((key = yyjson_obj_iter_next(&each))) {
    if (!yyjson_is_str(yyjson_obj_iter_get_val(key))) return false;
  }
  return true;
}

/* Revisions that do not know `context` leave unknown members alone. */
static bool read_context(idem__context *context, yyjson_val *given, idem_completion_query *query) {
  if (!given || !idem__revision_has(context->revision, IDEM__F_COMPLETE_CONTEXT)) return true;
  yyjson_val *arguments = yyjson_obj_get(given, "arguments");
  if (!yyjson_is_obj(given)) {
    idem__reply_bad_param(context, "context", "object", given);
    return false;
  }
  if (arguments && (!yyjson_is_obj(arguments) || !all_strings(arguments))) {
    idem__reply_bad_param(context, "context.arguments", "object of strings", arguments);
    return false;
  }
  query->context = arguments;
  return true;
}

void idem__run_complete(idem__context *context, yyjson_val *params) {
  idem_completion_query query = {0};
  idem_server *server = context->server;
  if (!server->complete)
    idem__reply_failure(context, IDEM_RPC_METHOD_NOT_FOUND, NULL, NULL, 0);
  else if (read_ref(context, yyjson_obj_get(params, "ref"), &query) &&
           read_argument(context, yyjson_obj_get(params, "argument"), &query) &&
           read_context(context, yyjson_obj_get(params, "context"), &query))
    server->complete(context->request, &query, server->complete_user);
}

/* -------------------------------------------------------------- answering */

/* The total is known only when the application has given all there is. */
static void write_completion(idem__writer *writer, const char *const *values, size_t count,
                             bool has_more) {
  size_t sent = count < VALUES_MAX ? count : VALUES_MAX;
  idem__write_key(writer, "completion");
  idem__write_object(writer);
  idem__write_key(writer, "values");
  idem__write_array(writer);
  for (size_t i = 0; i < sent; i++) idem__write_text(writer, values[i]);
  idem__write_array_end(writer);
  if (!has_more) idem__write_member_int(writer, "total", (int64_t)count);
  idem__write_member_bool(writer, "hasMore", has_more || sent < count);
  idem__write_object_end(writer);
}

idem_status idem_completion_reply(idem_request *request, const char *const *values, size_t count,
                                  bool has_more) {
  idem__result result;
  idem__context *context = idem__context_open(request);
  if (!context || context->method != &idem__mcp_methods[IDEM__METHOD_COMPLETE])
    return idem__reply_misplaced(request);
  idem__result_begin(&result, context, "complete");
  write_completion(&result.writer, values, count, has_more);
  return idem__result_end(&result, NULL);
}
