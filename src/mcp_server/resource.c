/* resource.c - resources/list, resources/templates/list, resources/read, and what a reader answers.
 * A missing resource is an error that names the URI, never an empty list of contents. */
#include "input.h"
#include "mcp/uritemplate.h"
#include "page.h"
#include "result.h"
#include "scope.h"
#include "server.h"

#include <string.h>

/* ------------------------------------------------------------------ lists */

void idem__run_resources_list(idem__context *context, yyjson_val *params) {
  idem__page_reply(context, IDEM__RESOURCES, params);
}

void idem__run_templates_list(idem__context *context, yyjson_val *params) {
  idem__page_reply(context, IDEM__TEMPLATES, params);
}

/* The members of an annotations object but lastModified, which older peers do not know. */
static void write_old_annotations(yyjson_val *annotations, idem__writer *writer) {
  idem__write_key(writer, "annotations");
  idem__write_object(writer);
  idem__write_member_value(writer, "audience", yyjson_obj_get(annotations, "audience"));
  idem__write_member_value(writer, "priority", yyjson_obj_get(annotations, "priority"));
  idem__write_object_end(writer);
}

static void write_annotations(const char *json, const idem__revision *revision,
                              idem__writer *writer) {
  if (!json || idem__revision_has(revision, IDEM__F_LAST_MODIFIED)) {
    idem__write_member_raw(writer, "annotations", json);
    return;
  }
  idem__arena arena;
  idem_status status = IDEM_OK;
  idem__arena_init(&arena, writer->out->alloc, NULL, 0, idem__json_read_bound(strlen(json)));
  yyjson_doc *doc = idem__json_read(json, strlen(json), &arena, &status);
  if (doc)
    write_old_annotations(yyjson_doc_get_root(doc), writer);
  else if (writer->status == IDEM_OK)
    writer->status = IDEM_E_NOMEM; /* it was checked before: nothing else can be wrong */
  idem__arena_deinit(&arena);
}

void idem__resource_write(const idem__resource_entry *resource, const idem__revision *revision,
                          idem__writer *writer) {
  bool is_template = resource->pattern != NULL;
  idem__write_object(writer);
  idem__write_member_text(writer, is_template ? "uriTemplate" : "uri", resource->uri);
  idem__write_member_text(writer, "name", resource->name);
  if (idem__revision_has(revision, IDEM__F_TITLE)) {
    idem__write_member_text(writer, "title", resource->title);
  }
  idem__write_member_text(writer, "description", resource->description);
  idem__write_member_text(writer, "mimeType", resource->mime_type);
  write_annotations(resource->annotations, revision, writer);
  if (!is_template && resource->size) idem__write_member_int(writer, "size", resource->size);
  if (idem__revision_has(revision, IDEM__F_ICONS)) {
    idem__write_member_raw(writer, "icons", resource->icons);
  }
  if (idem__revision_has(revision, IDEM__F_META)) {
    idem__write_member_raw(writer, "_meta", resource->meta);
  }
  idem__write_object_end(writer);
}

/* ---------------------------------------------------------------- finding */

/* With an arena the values of a template's variables too. OK, NOTFOUND, NOMEM. */
static idem_status find_resource(const idem__registry *registry, const char *uri, size_t len,
                                 idem__arena *arena, const idem__resource_entry **found,
                                 idem__uri_variable **variables, size_t *count) {
  const idem__registry_list *templates = &registry->lists[IDEM__TEMPLATES];
  idem_status status = IDEM_E_NOTFOUND;
  *found = idem_map_get(&registry->lists[IDEM__RESOURCES].by_name, uri, len);
  if (*found) return IDEM_OK;
  for (size_t i = 0; i < templates->count && status == IDEM_E_NOTFOUND; i++) {
    const idem__resource_entry *entry = (const void *)templates->entries[i];
    status = idem__uri_template_match(entry->pattern, uri, len, arena, variables, count);
    if (status == IDEM_OK) *found = entry;
  }
  return status;
}

const idem__resource_entry *idem__registry_resource(const idem__registry *registry, const char *uri,
                                                    size_t len) {
  const idem__resource_entry *found;
  find_resource(registry, uri, len, NULL, &found, NULL, NULL);
  return found;
}

/* ---------------------------------------------------------------- reading */

static idem_status reply_missing(idem__context *context, const char *uri, size_t len) {
  idem__answer fault =
      idem__answer_fault(idem_request_codes(context->request), IDEM_FAULT_RESOURCE_NOT_FOUND, NULL);
  char text[IDEM__CAUSE];
  const char *cause = idem__cause(context, text, "Resource not found: %.*s",
                                  (int)idem_utf8_cut(uri, len, IDEM__CAUSE), uri);
  return idem__reply_missing(context, fault.code, cause ? cause : fault.message, "uri", uri, len);
}

void idem__run_resources_read(idem__context *context, yyjson_val *params) {
  yyjson_val *uri = yyjson_obj_get(params, "uri");
  if (!yyjson_is_str(uri)) {
    idem__reply_bad_param(context, "uri", "string", uri);
    return;
  }
  const char *text = yyjson_get_str(uri);
  size_t len = yyjson_get_len(uri);
  idem_status status =
      find_resource(context->lists->registry, text, len, idem__request_memory(context->request),
                    &context->resource, &context->variables, &context->variable_count);
  context->uri = text;
  if (status == IDEM_E_NOTFOUND)
    reply_missing(context, text, len);
  else if (status != IDEM_OK)
    idem__reply_failure(context, IDEM_RPC_INTERNAL_ERROR, NULL, NULL, 0);
  else if (idem__scope_admit(context, &context->resource->head) &&
           idem__input_read(context, params))
    idem__context_run(context);
}

/* -------------------------------------------------------------- answering */

/* The context of a request that reads a resource and can be answered; NULL: it is not one. */
static idem__context *reader(const idem_request *request) {
  idem__context *context = idem__context_open(request);
  return context && context->resource ? context : NULL;
}

static void begin_contents(idem__result *result, idem__context *context) {
  idem__result_begin(result, context, "complete");
  idem__write_key(&result->writer, "contents");
  idem__write_array(&result->writer);
}

static idem_status end_contents(idem__result *result) {
  idem__write_array_end(&result->writer);
  const idem__context *context = result->context;
  const idem__resource_entry *resource = context->resource;
  uint64_t ttl_ms = resource->ttl_ms ? resource->ttl_ms : context->server->opts.read_ttl_ms;
  idem__result_cacheable(result, ttl_ms,
                         resource->cache_private || idem__scope_keeps(context, &resource->head));
  return idem__result_end(result, NULL);
}

static void write_characters(idem__writer *writer, const void *text, size_t len) {
  idem__write_string(writer, text, len);
}

/* Straight into the buffer: blobs are large. */
static void write_base64(idem__writer *writer, const void *data, size_t len) {
  idem_status status = writer->status;
  if (status == IDEM_OK) status = idem_buf_puts(writer->out, "\"");
  if (status == IDEM_OK) {
    status = idem_base64_encode(writer->out, data, len, IDEM_BASE64_STANDARD);
  }
  if (status == IDEM_OK) status = idem_buf_puts(writer->out, "\"");
  writer->status = status;
  writer->comma = true;
}

/* The contents of one resource: what `key` says is written by `put`. */
static idem_status reply_content(idem_request *request, const char *mime_type, const char *key,
                                 void (*put)(idem__writer *writer, const void *data, size_t len),
                                 const void *data, size_t len) {
  idem__result result;
  idem__context *context = reader(request);
  if (!context) return idem__reply_misplaced(request);
  begin_contents(&result, context);
  idem__write_object(&result.writer);
  idem__write_member_text(&result.writer, "uri", context->uri);
  idem__write_member_text(&result.writer, "mimeType",
                          mime_type ? mime_type : context->resource->mime_type);
  idem__write_key(&result.writer, key);
  put(&result.writer, data, len);
  idem__write_object_end(&result.writer);
  return end_contents(&result);
}

idem_status idem_resource_text(idem_request *request, const char *mime_type, const char *text,
                               size_t len) {
  return reply_content(request, mime_type, "text", write_characters, text, len);
}

idem_status idem_resource_blob(idem_request *request, const char *mime_type, const void *data,
                               size_t len) {
  return reply_content(request, mime_type, "blob", write_base64, data, len);
}

static void write_member(idem__writer *writer, const char *key, yyjson_mut_val *val) {
  if (!val) return;
  idem__write_key(writer, key);
  idem__write_mutable(writer, val);
}

/* Only what the schema knows, and only whole contents: anything else is the handler's mistake. */
static void write_content(idem__writer *writer, yyjson_mut_val *content,
                          const idem__revision *revision) {
  yyjson_mut_val *uri = yyjson_mut_obj_get(content, "uri");
  yyjson_mut_val *mime_type = yyjson_mut_obj_get(content, "mimeType");
  yyjson_mut_val *text = yyjson_mut_obj_get(content, "text");
  yyjson_mut_val *blob = yyjson_mut_obj_get(content, "blob");
  yyjson_mut_val *meta = yyjson_mut_obj_get(content, "_meta");
  bool whole = yyjson_mut_is_str(uri) && yyjson_mut_is_str(text ? text : blob) && !(text && blob) &&
               (!mime_type || yyjson_mut_is_str(mime_type)) && (!meta || yyjson_mut_is_obj(meta));
  if (!whole && writer->status == IDEM_OK) writer->status = IDEM_E_INVAL;
  idem__write_object(writer);
  write_member(writer, "uri", uri);
  write_member(writer, "mimeType", mime_type);
  write_member(writer, "text", text);
  write_member(writer, "blob", blob);
  if (idem__revision_has(revision, IDEM__F_META)) write_member(writer, "_meta", meta);
  idem__write_object_end(writer);
}

idem_status idem_resource_reply(idem_request *request, yyjson_mut_val *contents) {
  idem__result result;
  idem__context *context = reader(request);
  if (!context) return idem__reply_misplaced(request);
  begin_contents(&result, context);
  if (!yyjson_mut_is_arr(contents)) result.writer.status = IDEM_E_INVAL;
  yyjson_mut_val *content;
  yyjson_mut_arr_iter each;
  yyjson_mut_arr_iter_init(contents, &each);
  while ((content = yyjson_mut_arr_iter_next(&each))) {
    write_content(&result.writer, content, context->revision);
  }
  return end_contents(&result);
}

idem_status idem_resource_missing(idem_request *request) {
  idem__context *context = reader(request);
  if (!context) return idem__reply_misplaced(request);
  return reply_missing(context, context->uri, strlen(context->uri));
}

const char *idem_uri_variable(idem_request *request, const char *name) {
  const idem__context *context = idem__context_of(request);
  size_t len = strlen(name);
  for (size_t i = 0; context && i < context->variable_count; i++) {
    const idem__uri_variable *variable = &context->variables[i];
    if (variable->name_len == len && memcmp(variable->name, name, len) == 0) return variable->value;
  }
  return NULL;
}
