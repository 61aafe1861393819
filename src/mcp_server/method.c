/* method.c - what runs each method of the table, and the gate that each request passes: its era (era.c), is the method
 * in its revision, may the peer ask it. The order of the checks decides which error a peer sees;
 * docs/internals/mcp_server.md names it. */
#include "era.h"
#include "input.h"
#include "once.h"
#include "result.h"
#include "scope.h"
#include "server.h"
#include "session.h"
#include "task.h"

#include <string.h>

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

/* False: refused. Without memory for it the request goes on untold. */
static bool read_progress_token(idem__context *context) {
  static const char name[] = "progressToken";
  yyjson_val *token = yyjson_obj_get(context->meta, name);
  idem_buf *scratch = &context->worker->scratch;
  if (!token) return true;
  scratch->len = 0;
  idem_status status = idem__request_raw_member(context->request, context->meta, name, scratch);
  if (status == IDEM_OK && !idem__id_fits(token, scratch->data, scratch->len)) {
    idem__reply_bad_param(context, "_meta.progressToken", "string or integer", token);
    return false;
  }
  char *copy = status == IDEM_OK
                   ? idem__arena_malloc(idem__request_memory(context->request), scratch->len)
                   : NULL;
  if (!copy) return true;
  memcpy(copy, scratch->data, scratch->len);
  context->progress_token = copy;
  context->progress_token_len = scratch->len;
  return true;
}

/* Of 2026-07-28: how much of what happens the request wants to hear. */
static bool read_log_level(idem__context *context) {
  if (!idem__revision_has(context->revision, IDEM__R_MODERN)) return true;
  yyjson_val *level = yyjson_obj_get(context->meta, IDEM__META_LOG_LEVEL);
  if (!level) return true;
  context->log_level = idem__level_parse(level);
  if (context->log_level >= 0) return true;
  idem__reply_bad_level(context, "_meta." IDEM__META_LOG_LEVEL, level);
  return false;
}

/* ------------------------------------------------------------------ the gate */

bool idem__refuse_unknown_method(idem__context *context) {
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
  if (!method)
    return idem__request_has_method(context->request) || idem__refuse_unknown_method(context);
  if (!(method->revisions & context->revision->bit)) return idem__refuse_unknown_method(context);
  if (!idem__server_offers(context->server, context->lists->registry, method->capability)) {
    return idem__refuse_unknown_method(context);
  }
  return true;
}

/* Which row a registered method is; NULL for a method of the application's own. */
static const idem__mcp_method *row_of(const idem_request *request);

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
  if (key.text && !idem__once_pass_repeat(context, &key, true)) return false;
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
  yyjson_val *meta = yyjson_obj_get(params, "_meta");
  context->meta = yyjson_is_obj(meta) ? meta : NULL;
  if (!idem__era_pass(context, peer)) return false;
  if (!idem__once_pass_batch(context)) return false;
  if (!pass_method(context) || !idem__scope_pass(context, peer)) return false;
  if (meta && !context->meta) {
    idem__reply_bad_param(context, "_meta", "object", meta);
    return false;
  }
  return read_log_level(context) && read_progress_token(context) &&
         (context->method || pass_key(context));
}

/* Who claims a revision of 2026-07-28 or later knows no batches: one such message spoils the array. */
static bool batch_gate(yyjson_val *batch) {
  yyjson_val *message;
  yyjson_arr_iter each;
  yyjson_arr_iter_init(batch, &each);
  while ((message = yyjson_arr_iter_next(&each))) {
    yyjson_val *meta = yyjson_obj_get(yyjson_obj_get(message, "params"), "_meta");
    if (yyjson_obj_get(meta, IDEM__META_VERSION)) return false;
  }
  return true;
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
  yyjson_val *tool = yyjson_obj_get(params, "name");
  yyjson_val *key = yyjson_obj_get(yyjson_obj_get(params, "_meta"), IDEM__ONCE_META);
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
  /* Conns act on it themselves; here it has its name in the metrics. */
  if (status == IDEM_OK) {
    status = idem_router_notification(server->router, "notifications/cancelled", on_ignored, NULL);
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
  idem__router_set_batch_gate(server->router, batch_gate);
  return register_notifications(server);
}
