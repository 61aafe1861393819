/* method.c - what runs each method of the table, and the gate that each request passes: which era, which
 * revision, is the method in it, is the peer ready for it. The order of the checks decides which
 * error a peer sees; docs/internals/mcp_server.md names it. */
#include "header_check.h"
#include "input.h"
#include "once.h"
#include "result.h"
#include "scope.h"
#include "server.h"
#include "session.h"
#include "task.h"

#include <stdio.h>
#include <string.h>

#define META_VERSION "io.modelcontextprotocol/protocolVersion"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define META_CLIENT_INFO "io.modelcontextprotocol/clientInfo"
#define META_LOG_LEVEL "io.modelcontextprotocol/logLevel"

static const idem__method_run runs[IDEM__METHODS] = {
    [IDEM__METHOD_INITIALIZE] = idem__run_initialize,
    [IDEM__METHOD_PING] = idem__run_ping,
    [IDEM__METHOD_DISCOVER] = idem__run_discover,
    [IDEM__METHOD_TOOLS_LIST] = idem__run_tools_list,
    [IDEM__METHOD_TOOLS_CALL] = idem__run_tools_call,
    [IDEM__METHOD_RESOURCES_LIST] = idem__run_resources_list,
    [IDEM__METHOD_TEMPLATES_LIST] = idem__run_templates_list,
    [IDEM__METHOD_RESOURCES_READ] = idem__run_resources_read,
    [IDEM__METHOD_SUBSCRIBE] = idem__run_subscribe,
    [IDEM__METHOD_UNSUBSCRIBE] = idem__run_unsubscribe,
    [IDEM__METHOD_LISTEN] = idem__run_listen,
    [IDEM__METHOD_PROMPTS_LIST] = idem__run_prompts_list,
    [IDEM__METHOD_PROMPTS_GET] = idem__run_prompts_get,
    [IDEM__METHOD_COMPLETE] = idem__run_complete,
    [IDEM__METHOD_SET_LEVEL] = idem__run_set_level,
    [IDEM__METHOD_TASKS_GET] = idem__run_tasks_get,
    [IDEM__METHOD_TASKS_CANCEL] = idem__run_tasks_cancel,
    [IDEM__METHOD_TASKS_UPDATE] = idem__run_tasks_update,
    [IDEM__METHOD_TASKS_RESULT] = idem__run_tasks_result,
    [IDEM__METHOD_TASKS_LIST] = idem__run_tasks_list,
};

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
  if (context->once) idem__once_abandon(context);
  if (context->task) idem__task_abandon(context);
  if (context->metrics) idem__tool_count_end(context);
  if (context->round) idem__input_cancel(context); /* answered although it had asked */
  if (context->hello_counted) idem__hello_unref(context->hello);
  idem__worker_lists_unref(context->lists);
  idem__grant_unref(context->grant);
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
  context->error_detail = (uint8_t)idem_conn_policy(idem_request_conn(request))->error_detail;
  context->log_level = -1;
  context->last_progress = -1;
  context->outcome = -1;
  context->principal = copy_principal(request, peer->principal);
  context->principal_claimed = peer->principal_claimed;
  context->lists = context->principal ? idem__worker_snapshot(peer->worker) : NULL;
  if (!context->lists) return NULL;
  context->grant = idem__grant_ref(peer->grant);
  context->worker->contexts++;
  idem__request_attach(request, context, free_context, keep_context);
  return context;
}

static yyjson_val *member(yyjson_val *object, const char *key) {
  return object && yyjson_is_obj(object) ? yyjson_obj_get(object, key) : NULL;
}

/* False: refused. Without memory for it the request goes on untold. */
static bool read_progress_token(idem__context *context) {
  int64_t number;
  yyjson_val *token = member(context->meta, "progressToken");
  if (!token) return true;
  if (!yyjson_is_str(token) && !idem__json_get_int(token, &number)) {
    idem__reply_bad_param(context, "_meta.progressToken", "string or integer", token);
    return false;
  }
  /* The token goes back as it came; its text is gone, so it is written anew from its value. */
  idem_buf *scratch = &context->worker->scratch;
  scratch->len = 0;
  if (idem__json_put(scratch, token) != IDEM_OK) return true;
  char *copy = idem__arena_malloc(idem__request_memory(context->request), scratch->len);
  if (!copy) return true;
  memcpy(copy, scratch->data, scratch->len);
  context->progress_token = copy;
  context->progress_token_len = scratch->len;
  return true;
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
  idem_buf *data = &context->worker->scratch;
  data->len = 0;
  idem__writer writer = idem__writer_on(data);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "param", param);
  idem__write_member_text(&writer, "expected", expected);
  idem__write_member_text(&writer, "received", idem__json_type_name(received));
  idem__write_object_end(&writer);
  char text[IDEM__CAUSE];
  const char *cause = idem__cause(context, text, "Invalid params: %s: expected %s, received %s",
                                  param, expected, idem__json_type_name(received));
  idem__refuse_for(context, 400, IDEM_RPC_INVALID_PARAMS, cause, data->data, data->len);
  return false;
}

static bool header_value(const idem__mcp_peer *peer, const char *name, const char **value,
                         size_t *len) {
  return peer->edge && peer->edge->header(peer->edge_ctx, name, value, len);
}

static bool refuse_header(idem__context *context, const char *header, const char *why) {
  idem_buf *data = &context->worker->scratch;
  data->len = 0;
  idem__writer writer = idem__writer_on(data);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "header", header);
  idem__write_member_text(&writer, "details", why);
  idem__write_object_end(&writer);
  char text[IDEM__CAUSE];
  const char *cause = idem__cause(context, text, "Header mismatch: %s: %s", header, why);
  idem__refuse_for(context, 400, -32020, cause, data->data, data->len);
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
  idem_buf *data = &context->worker->scratch;
  data->len = 0;
  idem__writer writer = idem__writer_on(data);
  idem__write_object(&writer);
  idem__write_key(&writer, "supported");
  idem__write_supported_versions(context->server, &writer);
  idem__write_member_value(&writer, "requested", requested);
  idem__write_object_end(&writer);
  char text[IDEM__CAUSE], supported[IDEM__VERSIONS];
  const char *cause =
      idem__cause(context, text, "Unsupported protocol version: %.64s (supported: %s)",
                  yyjson_get_str(requested), idem__supported_versions(context->server, supported));
  idem__refuse_for(context, 400, -32022, cause, data->data, data->len);
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
  if (!yyjson_get_len(version)) {
    return refuse_meta(context, "_meta." META_VERSION, "a revision", version);
  }
  if (!yyjson_is_obj(capabilities)) {
    return refuse_meta(context, "_meta." META_CAPABILITIES, "object", capabilities);
  }
  if (!version_header_matches(context, peer, version)) return false;
  if (peer->edge && !idem__headers_check_method(context)) return false;
  if (!modern_revision(context, version)) return false;
  context->capabilities = capabilities;
  context->client_info = member(context->meta, META_CLIENT_INFO);
  if (context->client_info && !yyjson_is_obj(context->client_info)) {
    return refuse_meta(context, "_meta." META_CLIENT_INFO, "object", context->client_info);
  }
  yyjson_val *received = NULL;
  const char *fault = idem__info_fault(context->client_info, &received);
  if (fault) {
    char path[sizeof "_meta." META_CLIENT_INFO ".version"];
    snprintf(path, sizeof path, "_meta." META_CLIENT_INFO ".%s", fault);
    return refuse_meta(context, path, "string", received);
  }
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

/* What was said belongs to the newer era, and does not say in which revision. */
static bool refuse_claimless(idem__context *context) {
  context->revision = &idem__revisions[0];
  idem__request_set_codes(context->request, IDEM_CODES_MODERN);
  return refuse_meta(context, "_meta." META_VERSION, "string", NULL);
}

static bool refuse_old_handshake(idem__context *context) {
  context->revision = &idem__revisions[0];
  idem__request_set_codes(context->request, IDEM_CODES_MODERN);
  return refuse_header(context, "MCP-Protocol-Version", "initialize belongs to older revisions");
}

static void adopt_session(idem__context *context, const idem__mcp_session *session) {
  context->revision = session->revision;
  context->hello = session->hello;
  context->client_info = member(session->hello->root, "clientInfo");
  context->capabilities = member(session->hello->root, "capabilities");
  context->log_level = atomic_load_explicit(&session->log_level, memory_order_relaxed);
}

static idem_code_set legacy_codes(const idem__context *context) {
  bool own = context->server->opts.codes == IDEM_CODES_ERLMCP;
  return own ? IDEM_CODES_ERLMCP : context->revision->codes;
}

static bool refuse_uninitialized(idem__context *context) {
  if (context->server->opts.codes == IDEM_CODES_ERLMCP) {
    idem__answer fault = idem__answer_fault(IDEM_CODES_ERLMCP, IDEM_FAULT_NOT_INITIALIZED, NULL);
    idem__refuse_for(context, 400, fault.code, fault.message, NULL, 0);
    return false;
  }
  static const char data[] = "{\"reason\":\"not-initialized\"}";
  char text[IDEM__CAUSE];
  const char *cause = idem__cause(
      context, text, "Invalid Request: not initialized; send initialize first, or %s in _meta",
      META_VERSION);
  idem__refuse_for(context, 400, IDEM_RPC_INVALID_REQUEST, cause, data, sizeof data - 1);
  return false;
}

/* Told apart from who never said hello: this one has to say it again. */
static bool refuse_session(idem__context *context) {
  static const char data[] = "{\"reason\":\"unknown-session\",\"hint\":\"initialize again\"}";
  bool own = context->server->opts.codes == IDEM_CODES_ERLMCP;
  idem__answer fault = idem__answer_fault(IDEM_CODES_ERLMCP, IDEM_FAULT_NOT_INITIALIZED, NULL);
  char text[IDEM__CAUSE];
  const char *cause = idem__cause(
      context, text, "Invalid Request: the session is unknown or has ended; initialize again");
  idem__refuse_for(context, 404, own ? fault.code : IDEM_RPC_INVALID_REQUEST,
                   own ? fault.message : cause, data, sizeof data - 1);
  return false;
}

/* A server that speaks no legacy revision names what it speaks. */
static bool refuse_legacy(idem__context *context) {
  yyjson_val *requested = member(context->params, "protocolVersion");
  if (!yyjson_is_str(requested)) return refuse_claimless(context);
  context->revision = &idem__revisions[0];
  idem__request_set_codes(context->request, IDEM_CODES_MODERN);
  return refuse_version(context, requested);
}

/* A header that names no revision served here: told with those that are. */
static bool version_header_served(idem__context *context, const idem__mcp_peer *peer) {
  const char *value;
  size_t len;
  if (!header_value(peer, "mcp-protocol-version", &value, &len)) return true;
  const idem__revision *revision = idem__revision_find(value, len);
  if (revision && (context->server->opts.revisions & revision->bit)) return true;
  char text[IDEM__CAUSE], supported[IDEM__VERSIONS];
  idem__supported_versions(context->server, supported);
  idem_buf *data = &context->worker->scratch;
  data->len = 0;
  idem__writer writer = idem__writer_on(data);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "reason", "bad-version");
  idem__write_key(&writer, "supported");
  idem__write_supported_versions(context->server, &writer);
  idem__write_object_end(&writer);
  const char *cause = idem__cause(
      context, text, "Invalid Request: unsupported MCP-Protocol-Version: %.*s (supported: %s)",
      (int)idem_utf8_cut(value, len, 64), value, supported);
  idem__refuse_for(context, 400, IDEM_RPC_INVALID_REQUEST, cause, data->data, data->len);
  return false;
}

/* Over HTTP everything but initialize belongs to a session. */
static bool may_come_first(const idem__context *context, const idem__mcp_peer *peer) {
  if (!context->method || !context->method->before_initialize) return false;
  return !peer->edge || context->method == &idem__mcp_methods[IDEM__METHOD_INITIALIZE];
}

static bool pass_legacy(idem__context *context, const idem__mcp_peer *peer) {
  const idem__revision *newest = idem__revision_legacy(context->server->opts.revisions);
  bool hello = context->method == &idem__mcp_methods[IDEM__METHOD_INITIALIZE];
  if (has_modern_header(peer)) {
    return hello ? refuse_old_handshake(context) : refuse_claimless(context);
  }
  if (peer->unavailable) {
    idem__refuse_unavailable(context);
    return false;
  }
  if (!newest) return refuse_legacy(context);
  context->revision = newest;
  if (peer->unknown_session) return refuse_session(context);
  if (!version_header_served(context, peer)) return false;
  if (peer->session) {
    adopt_session(context, peer->session);
  } else if (peer->assumed) {
    context->revision = peer->assumed;
  } else if (!may_come_first(context, peer)) {
    return refuse_uninitialized(context);
  }
  idem__request_set_codes(context->request, legacy_codes(context));
  return true;
}

/* ------------------------------------------------------------------ the gate */

static bool refuse_unknown(idem__context *context) {
  size_t name_len;
  const char *name = idem__request_name(context->request, &name_len);
  idem_buf *data = &context->worker->scratch;
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

/* Whoever says a part of what the newer era says means it: what is missing is named. */
static bool is_modern(const idem__context *context) {
  static const char *const parts[] = {META_CAPABILITIES, META_CLIENT_INFO, META_LOG_LEVEL};
  if (member(context->meta, META_VERSION)) return true;
  if (!idem__server_speaks(context->server, IDEM_MCP_2026_07_28)) return false;
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    if (member(context->meta, parts[i])) return true;
  }
  return context->method && context->method->revisions == IDEM_MCP_2026_07_28;
}

static void run_plain(idem__context *context) {
  context->begun = true;
  idem__request_run_method(context->request);
}

/* A method of the application's own happens once where its request has a key. */
static bool pass_key(idem__context *context) {
  uint8_t name[IDEM_SHA256_BYTES];
  idem__once_key key;
  size_t len;
  const char *called = idem__request_name(context->request, &len);
  if (!idem__once_read_key(context, true, &key)) return false;
  if (key.text) idem__once_name(context, called, len, &key, name);
  if (key.text && !idem__once_admit(context, name, context->params, run_plain)) return false;
  return context->begun = true;
}

static bool gate(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(request));
  idem__context *context = peer ? new_context(request, params) : NULL;
  if (!context) {
    idem_request_drop(request);
    return false;
  }
  context->method = row_of(request);
  yyjson_val *meta = member(params, "_meta");
  context->meta = yyjson_is_obj(meta) ? meta : NULL;
  if (!(is_modern(context) ? pass_modern(context, peer) : pass_legacy(context, peer))) return false;
  if (!idem__once_pass_batch(context)) return false;
  if (!pass_method(context) || !idem__scope_pass(context, peer)) return false;
  if (meta && !context->meta) {
    idem__reply_bad_param(context, "_meta", "object", meta);
    return false;
  }
  return read_progress_token(context) && (context->method || pass_key(context));
}

/* ----------------------------------------------------------------- registering */

typedef struct idem__method_user {
  const idem__mcp_method *row;
  idem__method_run run;
} idem__method_user;

static void run_row(idem_request *request, yyjson_val *params, void *user) {
  const idem__method_user *method = user;
  method->run(idem__context_of(request), params);
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
  if (peer && peer->session) idem__session_change_for(peer, &change, NULL, NULL);
}

/* Known, and of no consequence here. */
static void on_ignored(idem_conn *conn, yyjson_val *params, void *user) {
  (void)conn;
  (void)params;
  (void)user;
}

/* A client over HTTP goes away without a word: with a key that is no cancellation, so it says so. */
static void on_given_up(idem_conn *conn, yyjson_val *params, void *user) {
  static const char method[] = "tools/call";
  uint8_t name[IDEM_SHA256_BYTES];
  const idem__mcp_peer *peer = idem__mcp_peer_of(conn);
  yyjson_val *tool = member(params, "name");
  yyjson_val *key = member(member(params, "_meta"), IDEM__ONCE_META);
  (void)user;
  if (!peer || !yyjson_is_str(tool) || !yyjson_is_str(key)) return;
  idem__once_key text = {yyjson_get_str(key), yyjson_get_len(key)};
  idem__once_name_of(peer->principal, method, yyjson_get_str(tool), yyjson_get_len(tool), &text,
                     name);
  idem__once_give_up(peer->worker->server, name);
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
  if (status == IDEM_OK) {
    status = idem_router_notification(server->router, IDEM__ONCE_CANCELLED, on_given_up, NULL);
  }
  return status;
}

idem_status idem__methods_register(idem_server *server) {
  server->method_users = idem__calloc(&server->alloc, IDEM__METHODS * sizeof *server->method_users);
  if (!server->method_users) return IDEM_E_NOMEM;
  for (size_t i = 0; i < IDEM__METHODS; i++) {
    server->method_users[i] = (idem__method_user){&idem__mcp_methods[i], runs[i]};
    idem_status status = idem_router_method(server->router, idem__mcp_methods[i].name, run_row,
                                            &server->method_users[i]);
    if (status != IDEM_OK) return status;
  }
  idem__router_set_gate(server->router, gate, server);
  return register_notifications(server);
}
