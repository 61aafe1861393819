/* method.c - every MCP method as a row, and the gate that each request passes: which era, which
 * revision, is the method in it, is the peer ready for it. The order of the checks decides which
 * error a peer sees; docs/internals/mcp_server.md names it. */
#include "header.h"
#include "input.h"
#include "result.h"
#include "server.h"
#include "session.h"
#include "task.h"

#include <string.h>

#define LEGACY                                                                                     \
  (IDEM_MCP_2024_11_05 | IDEM_MCP_2025_03_26 | IDEM_MCP_2025_06_18 | IDEM_MCP_2025_11_25)
#define MODERN IDEM_MCP_2026_07_28
#define ALL (LEGACY | MODERN)

#define META_VERSION "io.modelcontextprotocol/protocolVersion"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define META_CLIENT_INFO "io.modelcontextprotocol/clientInfo"
#define META_LOG_LEVEL "io.modelcontextprotocol/logLevel"

static const idem__mcp_method methods[] = {
    {"initialize", LEGACY, IDEM__CAP_NONE, IDEM__NAME_NONE, true, idem__run_initialize},
    {"ping", LEGACY, IDEM__CAP_NONE, IDEM__NAME_NONE, true, idem__run_ping},
    {"server/discover", MODERN, IDEM__CAP_NONE, IDEM__NAME_NONE, false, idem__run_discover},
    {"tools/list", ALL, IDEM__CAP_TOOLS, IDEM__NAME_NONE, false, idem__run_tools_list},
    {"tools/call", ALL, IDEM__CAP_TOOLS, IDEM__NAME_NAME, false, idem__run_tools_call},
    {"resources/list", ALL, IDEM__CAP_RESOURCES, IDEM__NAME_NONE, false, idem__run_resources_list},
    {"resources/templates/list", ALL, IDEM__CAP_RESOURCES, IDEM__NAME_NONE, false,
     idem__run_templates_list},
    {"resources/read", ALL, IDEM__CAP_RESOURCES, IDEM__NAME_URI, false, idem__run_resources_read},
    {"resources/subscribe", LEGACY, IDEM__CAP_RESOURCES, IDEM__NAME_NONE, false,
     idem__run_subscribe},
    {"resources/unsubscribe", LEGACY, IDEM__CAP_RESOURCES, IDEM__NAME_NONE, false,
     idem__run_unsubscribe},
    {"subscriptions/listen", MODERN, IDEM__CAP_NONE, IDEM__NAME_NONE, false, idem__run_listen},
    {"prompts/list", ALL, IDEM__CAP_PROMPTS, IDEM__NAME_NONE, false, idem__run_prompts_list},
    {"prompts/get", ALL, IDEM__CAP_PROMPTS, IDEM__NAME_NAME, false, idem__run_prompts_get},
    {"completion/complete", ALL, IDEM__CAP_COMPLETIONS, IDEM__NAME_NONE, false, idem__run_complete},
    {"logging/setLevel", LEGACY, IDEM__CAP_LOGGING, IDEM__NAME_NONE, false, idem__run_set_level},
    {"tasks/get", IDEM_MCP_2025_11_25 | MODERN, IDEM__CAP_TASKS, IDEM__NAME_TASK, false,
     idem__run_tasks_get},
    {"tasks/cancel", IDEM_MCP_2025_11_25 | MODERN, IDEM__CAP_TASKS, IDEM__NAME_TASK, false,
     idem__run_tasks_cancel},
    {"tasks/update", MODERN, IDEM__CAP_TASKS, IDEM__NAME_TASK, false, idem__run_tasks_update},
    {"tasks/result", IDEM_MCP_2025_11_25, IDEM__CAP_TASKS, IDEM__NAME_NONE, false,
     idem__run_tasks_result},
    {"tasks/list", IDEM_MCP_2025_11_25, IDEM__CAP_TASKS, IDEM__NAME_NONE, false,
     idem__run_tasks_list},
};
#define METHOD_COUNT (sizeof methods / sizeof methods[0])

/* ----------------------------------------------------------------- context */

/* The request outlives its message, and perhaps the session. */
static void keep_context(void *attachment) {
  idem__context *context = attachment;
  if (!context->hello || context->hello_counted) return;
  idem__hello_ref(context->hello);
  context->hello_counted = true;
}

static void free_context(void *attachment) {
  idem__context *context = attachment;
  if (context->task) idem__task_abandon(context);
  if (context->round) idem__input_cancel(context); /* answered although it had asked */
  if (context->hello_counted) idem__hello_unref(context->hello);
  idem__worker_lists_unref(context->lists);
  context->worker->contexts--;
}

static const char *copy_principal(idem_request *request, const char *principal) {
  size_t len = strlen(principal);
  if (!len) return "";
  char *copy = idem__arena_malloc(idem__request_memory(request), len + 1);
  if (copy) memcpy(copy, principal, len + 1);
  return copy;
}

static idem__context *new_context(idem_request *request, yyjson_val *params) {
  idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(request));
  idem__context *context = idem__arena_malloc(idem__request_memory(request), sizeof *context);
  if (!context) return NULL;
  memset(context, 0, sizeof *context);
  context->request = request;
  context->server = peer->worker->server;
  context->worker = peer->worker;
  context->params = params;
  context->log_level = -1;
  context->last_progress = -1;
  context->principal = copy_principal(request, peer->principal);
  context->lists = context->principal ? idem__worker_snapshot(peer->worker) : NULL;
  if (!context->lists) return NULL;
  context->worker->contexts++;
  idem__request_attach(request, context, free_context, keep_context);
  return context;
}

static yyjson_val *member(yyjson_val *object, const char *key) {
  return object && yyjson_is_obj(object) ? yyjson_obj_get(object, key) : NULL;
}

static void read_progress_token(idem__context *context) {
  yyjson_val *token = member(context->meta, "progressToken");
  int64_t number;
  if (!token) return;
  if (!yyjson_is_str(token) && !idem__json_get_int(token, &number)) return;
  /* The token goes back as it came; its text is gone, so it is written anew from its value. */
  idem__buf *scratch = &context->worker->scratch;
  scratch->len = 0;
  if (idem__json_put(scratch, token) != IDEM_OK) return;
  char *copy = idem__arena_malloc(idem__request_memory(context->request), scratch->len);
  if (!copy) return;
  memcpy(copy, scratch->data, scratch->len);
  context->progress_token = copy;
  context->progress_token_len = scratch->len;
}

int idem__level_parse(yyjson_val *val) {
  static const char *const names[] = {"debug", "info",     "notice", "warning",
                                      "error", "critical", "alert",  "emergency"};
  for (int i = 0; i < 8; i++) {
    if (yyjson_equals_str(val, names[i])) return i;
  }
  return -1;
}

/* ------------------------------------------------------------- the modern gate */

static bool refuse_meta(idem__context *context, const char *param, const char *expected,
                        yyjson_val *received) {
  idem__buf *data = &context->worker->scratch;
  data->len = 0;
  idem__writer writer = idem__writer_on(data);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "param", param);
  idem__write_member_text(&writer, "expected", expected);
  idem__write_member_text(&writer, "received", idem__json_type_name(received));
  idem__write_object_end(&writer);
  idem__refuse(context, 400, IDEM_RPC_INVALID_PARAMS, data->data, data->len);
  return false;
}

static bool header_value(const idem__mcp_peer *peer, const char *name, const char **value,
                         size_t *len) {
  return peer->edge && peer->edge->header(peer->edge_ctx, name, value, len);
}

static bool refuse_header(idem__context *context, const char *header, const char *why) {
  idem__buf *data = &context->worker->scratch;
  data->len = 0;
  idem__writer writer = idem__writer_on(data);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "header", header);
  idem__write_member_text(&writer, "details", why);
  idem__write_object_end(&writer);
  idem__refuse(context, 400, -32020, data->data, data->len);
  return false;
}

static bool version_header_matches(idem__context *context, const idem__mcp_peer *peer,
                                   yyjson_val *version) {
  const char *value;
  size_t len;
  if (!peer->edge) return true;
  if (!header_value(peer, "mcp-protocol-version", &value, &len)) {
    return refuse_header(context, "MCP-Protocol-Version", "the header is missing");
  }
  if (yyjson_equals_strn(version, value, len)) return true;
  return refuse_header(context, "MCP-Protocol-Version", "the header differs from _meta");
}

static bool refuse_version(idem__context *context, yyjson_val *requested) {
  idem__buf *data = &context->worker->scratch;
  data->len = 0;
  idem__writer writer = idem__writer_on(data);
  idem__write_object(&writer);
  idem__write_key(&writer, "supported");
  idem__write_supported_versions(context->server, &writer);
  idem__write_key(&writer, "requested"); /* always a string, also where none was named */
  idem__write_string(&writer, yyjson_is_str(requested) ? yyjson_get_str(requested) : "",
                     yyjson_get_len(requested));
  idem__write_object_end(&writer);
  idem__refuse(context, 400, -32022, data->data, data->len);
  return false;
}

static bool modern_revision(idem__context *context, yyjson_val *version) {
  const idem__revision *revision =
      idem__revision_find(yyjson_get_str(version), yyjson_get_len(version));
  bool served = revision && idem__revision_has(revision, IDEM__R_MODERN) &&
                (context->server->opts.revisions & revision->bit);
  if (!served) return refuse_version(context, version);
  context->revision = revision;
  return true;
}

static bool modern_log_level(idem__context *context) {
  yyjson_val *level = member(context->meta, META_LOG_LEVEL);
  if (!level) return true;
  context->log_level = idem__level_parse(level);
  if (context->log_level >= 0) return true;
  return refuse_meta(context, "_meta." META_LOG_LEVEL, "a log level", level);
}

/* Batches belong to one legacy revision; a claim inside one does not bring them back. */
static bool refuse_batched(idem__context *context) {
  static const char data[] = "{\"reason\":\"batch-not-supported\"}";
  idem__refuse(context, 400, IDEM_RPC_INVALID_REQUEST, data, sizeof data - 1);
  return false;
}

static bool pass_modern(idem__context *context, const idem__mcp_peer *peer) {
  yyjson_val *version = member(context->meta, META_VERSION);
  yyjson_val *capabilities = member(context->meta, META_CAPABILITIES);
  /* Until the revision is known errors take the modern form: that is what was claimed. */
  context->revision = &idem__revisions[0];
  idem__request_set_codes(context->request, IDEM_CODES_MODERN);
  if (idem__request_batched(context->request)) return refuse_batched(context);
  if (!yyjson_is_str(version)) {
    return refuse_meta(context, "_meta." META_VERSION, "string", version);
  }
  if (!yyjson_is_obj(capabilities)) {
    return refuse_meta(context, "_meta." META_CAPABILITIES, "object", capabilities);
  }
  if (!version_header_matches(context, peer, version)) return false;
  if (peer->edge && !idem__headers_check_method(context)) return false;
  if (!modern_revision(context, version)) return false;
  context->capabilities = capabilities;
  context->client_info = member(context->meta, META_CLIENT_INFO);
  if (peer->edge && !idem__headers_check(context, context->params)) return false;
  return modern_log_level(context);
}

/* ------------------------------------------------------------- the legacy gate */

static bool has_modern_header(const idem__mcp_peer *peer) {
  const char *value;
  size_t len;
  if (!header_value(peer, "mcp-protocol-version", &value, &len)) return false;
  const idem__revision *revision = idem__revision_find(value, len);
  return revision && idem__revision_has(revision, IDEM__R_MODERN);
}

static bool refuse_claimless(idem__context *context) {
  context->revision = &idem__revisions[0];
  idem__request_set_codes(context->request, IDEM_CODES_MODERN);
  if (context->method && context->method->run == idem__run_initialize) {
    return refuse_header(context, "MCP-Protocol-Version", "initialize belongs to older revisions");
  }
  return refuse_meta(context, "_meta." META_VERSION, "string", NULL);
}

static void adopt_session(idem__context *context, const idem__mcp_session *session) {
  context->revision = session->revision;
  context->hello = session->hello;
  context->client_info = member(session->hello->doc->root, "clientInfo");
  context->capabilities = member(session->hello->doc->root, "capabilities");
  context->log_level = atomic_load_explicit(&session->log_level, memory_order_relaxed);
}

static bool refuse_uninitialized(idem__context *context) {
  static const char data[] = "{\"reason\":\"not-initialized\"}";
  idem__refuse(context, 400, IDEM_RPC_INVALID_REQUEST, data, sizeof data - 1);
  return false;
}

/* A server that speaks no legacy revision names what it speaks. */
static bool refuse_legacy(idem__context *context) {
  context->revision = &idem__revisions[0];
  idem__request_set_codes(context->request, IDEM_CODES_MODERN);
  return refuse_version(context, member(context->params, "protocolVersion"));
}

static bool pass_legacy(idem__context *context, const idem__mcp_peer *peer) {
  const idem__revision *newest = idem__revision_legacy(context->server->opts.revisions);
  if (has_modern_header(peer)) return refuse_claimless(context);
  if (!newest) return refuse_legacy(context);
  context->revision = newest;
  if (peer->session) {
    adopt_session(context, peer->session);
  } else if (peer->assumed) {
    context->revision = peer->assumed;
  } else if (!context->method || !context->method->before_initialize) {
    return refuse_uninitialized(context);
  }
  idem__request_set_codes(context->request, context->revision->codes);
  return true;
}

/* ------------------------------------------------------------------ the gate */

static bool refuse_unknown(idem__context *context) {
  size_t name_len;
  const char *name = idem__request_name(context->request, &name_len);
  idem__buf *data = &context->worker->scratch;
  data->len = 0;
  idem__writer writer = idem__writer_on(data);
  idem__write_object(&writer);
  idem__write_key(&writer, "method");
  idem__write_string(&writer, name, name_len);
  idem__write_object_end(&writer);
  bool modern = idem__revision_has(context->revision, IDEM__R_MODERN);
  bool shown = name_len <= 256 && writer.status == IDEM_OK;
  idem__refuse(context, modern ? 404 : 0, IDEM_RPC_METHOD_NOT_FOUND, shown ? data->data : NULL,
               data->len);
  return false;
}

static bool pass_method(idem__context *context) {
  const idem__mcp_method *method = context->method;
  if (!method) return idem__request_has_method(context->request) || refuse_unknown(context);
  if (!(method->revisions & context->revision->bit)) return refuse_unknown(context);
  if (!idem__server_offers(context->server, context->lists->registry, method->capability)) {
    return refuse_unknown(context);
  }
  return true;
}

/* Which row a registered method is; NULL for a method of the application's own. */
static const idem__mcp_method *row_of(const idem_request *request);

static bool gate(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(request));
  idem__context *context = peer ? new_context(request, params) : NULL;
  if (!context) {
    idem_request_drop(request);
    return false;
  }
  context->method = row_of(request);
  context->meta = member(params, "_meta");
  if (!yyjson_is_obj(context->meta)) context->meta = NULL;
  bool claim = member(context->meta, META_VERSION) != NULL;
  if (!(claim ? pass_modern(context, peer) : pass_legacy(context, peer))) return false;
  if (!pass_method(context)) return false;
  read_progress_token(context);
  return true;
}

/* ----------------------------------------------------------------- registering */

typedef struct idem__method_user {
  const idem__mcp_method *row;
} idem__method_user;

static void run_row(idem_request *request, yyjson_val *params, void *user) {
  const idem__method_user *method = user;
  method->row->run(idem__context_of(request), params);
}

static const idem__mcp_method *row_of(const idem_request *request) {
  const idem__method_user *method = idem__request_user_of(request, run_row);
  return method ? method->row : NULL;
}

static void on_initialized(idem_conn *conn, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem__mcp_peer *peer = idem__mcp_peer_of(conn);
  idem__session_change change = {.kind = IDEM__SESSION_INITIALIZED};
  if (peer && peer->session) idem__session_change_for(peer, &change);
}

/* Known, and of no consequence here. */
static void on_ignored(idem_conn *conn, yyjson_val *params, void *user) {
  (void)conn;
  (void)params;
  (void)user;
}

static idem_status register_notifications(idem_server *server) {
  idem_status status =
      idem_router_notification(server->router, "notifications/initialized", on_initialized, server);
  if (status == IDEM_OK) {
    status = idem_router_notification(server->router, "notifications/roots/list_changed",
                                      on_ignored, NULL);
  }
  if (status == IDEM_OK) {
    status = idem_router_notification(server->router, "notifications/progress", on_ignored, NULL);
  }
  return status;
}

idem_status idem__methods_register(idem_server *server) {
  server->method_users = idem__calloc(&server->alloc, METHOD_COUNT * sizeof *server->method_users);
  if (!server->method_users) return IDEM_E_NOMEM;
  for (size_t i = 0; i < METHOD_COUNT; i++) {
    server->method_users[i].row = &methods[i];
    idem_status status =
        idem_router_method(server->router, methods[i].name, run_row, &server->method_users[i]);
    if (status != IDEM_OK) return status;
  }
  idem__router_set_gate(server->router, gate, server);
  return register_notifications(server);
}
