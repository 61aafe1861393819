/* scope.c - what a caller's token reaches: scopes of methods, tools, resources and prompts; lists show what may be used, and
 * the rest is refused with all that is needed. Callers without such a token (stdio, a listener's own tokens) may do everything. */
#include "scope.h"
#include "result.h"
#include "server.h"
#include "session.h"

#include <stdio.h>
#include <string.h>

/* -------------------------------------------------------------- definitions */

idem_status idem__entry_set_scopes(idem_server *server, idem__entry *entry, const char *scopes,
                                   char *why, size_t why_len) {
  idem_status status = IDEM_OK;
  if (!scopes || !scopes[strspn(scopes, " ")]) return IDEM_OK;
  if (!idem__scope_is_good(scopes) || strlen(scopes) > IDEM__SCOPE_BYTES / 2)
    return idem__definition_refuse(why, why_len,
                                   "scopes are words of visible characters, without \" and \\");
  entry->scopes = idem__server_copy(server, scopes, &status);
  return status;
}

/* A method that needs scopes, by its name. */
typedef struct method_scopes {
  char *scopes;
  char name[];
} method_scopes;

static void free_method(idem_server *server, method_scopes *method) {
  idem__free(&server->alloc, method->scopes);
  idem__free(&server->alloc, method);
}

void idem__scopes_free(idem_server *server) {
  size_t position = 0;
  for (method_scopes *each; (each = idem_map_next(&server->method_scopes, &position));)
    free_method(server, each);
  idem_map_deinit(&server->method_scopes);
}

idem_status idem_server_require_scopes(idem_server *server, const char *method,
                                       const char *scopes) {
  size_t len = strlen(method);
  idem_status status = IDEM_OK;
  if (!len || !idem__scope_is_good(scopes) || strlen(scopes) > IDEM__SCOPE_BYTES / 2)
    return IDEM_E_INVAL;
  method_scopes *entry = idem__calloc(&server->alloc, sizeof *entry + len + 1);
  if (!entry) return IDEM_E_NOMEM;
  memcpy(entry->name, method, len + 1);
  entry->scopes = idem__server_copy(server, scopes, &status);
  if (status == IDEM_OK) status = idem_map_put(&server->method_scopes, entry->name, len, entry);
  if (status != IDEM_OK) free_method(server, entry);
  return status;
}

/* ------------------------------------------------------------------ refusals */

/* All that the token has and all that is needed: who asks for that loses nothing. */
static idem_status put_union(const idem__context *context, const char *needed, idem_buf *out) {
  idem_status status = idem__scope_add(out, context->grant->scope, strlen(context->grant->scope));
  return status == IDEM_OK ? idem__scope_add(out, needed, strlen(needed)) : status;
}

#define TOLD_MAX (96 + 2 * IDEM__SCOPE_BYTES + 4096)

/* Whoever looks why somebody was refused wants to know who that was. */
static void tell(const idem__context *context, const char *needed, const char *what) {
  const char *who = context->principal, *claims = idem_logged_claims(context->request);
  idem_buf line;
  idem_buf_init(&line, &context->worker->alloc, TOLD_MAX);
  idem_buf_puts(&line, "insufficient-scope: ");
  idem_text_word(&line, what, strlen(what), IDEM__CAUSE / 2);
  idem_buf_printf(&line, " needs %s, %zu bytes", needed, idem_request_bytes(context->request));
  if (*who) idem_buf_puts(&line, ", for ");
  idem_text_word(&line, who, strlen(who), SIZE_MAX);
  idem_status status = idem_buf_put(&line, claims, strlen(claims) + 1);
  idem_request_log(context->request, NULL, IDEM_LOG_WARN, "a request was refused",
                   status == IDEM_OK ? line.data : "insufficient-scope");
  idem_buf_deinit(&line);
}

static void refuse(idem__context *context, const char *needed, const char *what) {
  idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(context->request));
  idem_buf scopes, data;
  char text[IDEM__CAUSE];
  idem_buf_init(&scopes, &context->worker->alloc, 2 * IDEM__SCOPE_BYTES);
  idem_buf_init(&data, &context->worker->alloc, 4 * IDEM__SCOPE_BYTES);
  idem__writer writer = idem__writer_on(&data);
  bool known = put_union(context, needed, &scopes) == IDEM_OK;
  idem__write_object(&writer);
  idem__write_member_text(&writer, "reason", "insufficient-scope");
  idem__write_member_text(&writer, "scope", needed);
  idem__write_object_end(&writer);
  if (peer && peer->edge && peer->edge->need_scopes)
    peer->edge->need_scopes(peer->edge_ctx, known ? scopes.data : needed);
  tell(context, needed, what);
  const char *cause = idem__cause(context, text, "Insufficient scope: %s needs %s", what, needed);
  idem__refuse_for(context, 403, IDEM_RPC_INVALID_REQUEST, cause,
                   writer.status == IDEM_OK ? data.data : NULL, data.len);
  idem_buf_deinit(&scopes);
  idem_buf_deinit(&data);
}

bool idem__scope_may_use(const idem__context *context, const idem__entry *entry) {
  return !context->grant || !entry->scopes ||
         idem__scope_covers(context->grant->scope, entry->scopes);
}

bool idem__scope_may_hear(idem__mcp_worker *worker, const idem__grant *grant, const char *uri) {
  idem__worker_lists *lists = grant ? idem__worker_snapshot(worker) : NULL;
  if (!lists) return !grant;
  const idem__resource_entry *resource = idem__registry_resource(lists->registry, uri, strlen(uri));
  bool may = !resource || !resource->head.scopes ||
             idem__scope_covers(grant->scope, resource->head.scopes);
  idem__worker_lists_unref(lists);
  return may;
}

bool idem__scope_admit(idem__context *context, const idem__entry *entry) {
  if (idem__scope_may_use(context, entry)) return true;
  refuse(context, entry->scopes, entry->name);
  return false;
}

static bool refuse_ended(idem__context *context) {
  static const char data[] = "{\"reason\":\"unauthorized\"}";
  idem__refuse(context, 401, IDEM_RPC_INVALID_REQUEST, data, sizeof data - 1);
  return false;
}

/* A connection that stays may outlive its token. */
static bool has_ended(const idem__context *context) {
  uint64_t now_ms = idem__server_wall_ms(context->server);
  return now_ms && now_ms / 1000 >= context->grant->ends_s;
}

/* What a request names, which may need scopes, too; NULL: nothing that is served. */
static const idem__entry *named_entry(const idem__context *context, const char *method) {
  const idem__registry *registry = context->lists->registry;
  bool resource = strncmp(method, "resources/", 10) == 0;
  yyjson_val *value = yyjson_obj_get(context->params, resource ? "uri" : "name");
  const char *name = yyjson_get_str(value);
  size_t len = yyjson_get_len(value);
  if (!name) return NULL;
  if (resource) {
    const idem__resource_entry *entry = idem__registry_resource(registry, name, len);
    return entry ? &entry->head : NULL;
  }
  if (strcmp(method, "prompts/get") == 0) {
    const idem__prompt_entry *entry = idem__registry_prompt(registry, name, len);
    return entry ? &entry->head : NULL;
  }
  const idem__tool_entry *entry =
      strcmp(method, "tools/call") == 0 ? idem__registry_tool(registry, name, len) : NULL;
  return entry ? &entry->head : NULL;
}

static const char *scopes_of(const idem__context *context, const char *method) {
  const method_scopes *found =
      idem_map_get(&context->server->method_scopes, method, strlen(method));
  return found ? found->scopes : "";
}

static idem_status join(idem_buf *all, const char *const scopes[3]) {
  idem_status status = IDEM_OK;
  for (size_t i = 0; i < 3 && status == IDEM_OK; i++)
    status = idem__scope_add(all, scopes[i] ? scopes[i] : "", scopes[i] ? strlen(scopes[i]) : 0);
  return status;
}

/* Of the method and of what it is to do it with, in one: who had to ask for the one and then for the other would be asked twice. */
static void refuse_method(idem__context *context, const method_scopes *method) {
  const char *use = method->name;
  const idem__entry *entry =
      strcmp(use, "completion/complete") == 0
          ? idem__completion_entry(context, yyjson_obj_get(context->params, "ref"), &use)
          : named_entry(context, use);
  const char *const scopes[3] = {method->scopes, entry ? scopes_of(context, use) : "",
                                 entry ? entry->scopes : ""};
  idem_buf all;
  idem_buf_init(&all, &context->worker->alloc, 3 * IDEM__SCOPE_BYTES);
  idem_status status = join(&all, scopes);
  refuse(context, status == IDEM_OK ? all.data : method->scopes, method->name);
  idem_buf_deinit(&all);
}

bool idem__scope_admit_use(idem__context *context, const idem__entry *entry, const char *method) {
  if (!context->grant) return true;
  const char *const scopes[3] = {scopes_of(context, method), entry->scopes, ""};
  idem_buf all;
  idem_buf_init(&all, &context->worker->alloc, 2 * IDEM__SCOPE_BYTES);
  idem_status status = join(&all, scopes);
  bool covered =
      idem__scope_may_use(context, entry) && idem__scope_covers(context->grant->scope, scopes[0]);
  if (!covered) refuse(context, status == IDEM_OK ? all.data : scopes[0], entry->name);
  idem_buf_deinit(&all);
  return covered;
}

static const method_scopes *scopes_of_method(const idem__context *context) {
  size_t len;
  if (!context->server->method_scopes.count) return NULL;
  const char *name = idem__request_name(context->request, &len);
  return idem_map_get(&context->server->method_scopes, name, len);
}

bool idem__scope_pass(idem__context *context, const idem__mcp_peer *peer) {
  if (!context->grant) return true;
  if (!peer->edge && has_ended(context)) return refuse_ended(context);
  const method_scopes *method = scopes_of_method(context);
  if (!method || idem__scope_covers(context->grant->scope, method->scopes)) return true;
  refuse_method(context, method);
  return false;
}

bool idem__scope_keeps(const idem__context *context, const idem__entry *entry) {
  return entry->scopes || scopes_of_method(context);
}

/* -------------------------------------------------------------- who is asking */

yyjson_val *idem_claim(const idem_request *request, const char *name) {
  const idem__context *context = idem__context_of(request);
  return context && context->grant ? idem__grant_claim(context->grant, name) : NULL;
}

const char *idem_logged_claims(const idem_request *request) {
  const idem__context *context = idem__context_of(request);
  return context && context->grant && context->grant->logged ? context->grant->logged : "";
}

bool idem_has_scopes(const idem_request *request, const char *scopes) {
  const idem__context *context = idem__context_of(request);
  if (!context) return false;
  return !context->grant || idem__scope_covers(context->grant->scope, scopes);
}
