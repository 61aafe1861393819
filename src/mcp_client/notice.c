/* notice.c - what a server says unasked: notifications for the observers, and requests for the handlers, by the
 * router of the client. A server of 2026-07-28 asks nothing this way; what it asks is not answered.
 * See docs/internals/mcp_client.md. */
#include "mcp_client.h"

#include <string.h>

/* --------------------------------------------------------------- notifications */

static void on_progress(idem_conn *conn, yyjson_val *params, void *user) {
  idem_mcp_client *client = user;
  (void)conn;
  int64_t token;
  idem_mcp_progress progress = {0};
  idem__mcp_call *call =
      idem__json_get_int(yyjson_obj_get(params, "progressToken"), &token) && token > 0
          ? idem__mcp_call_find(client, (uint64_t)token)
          : NULL;
  if (!call || !idem__json_get_double(yyjson_obj_get(params, "progress"), &progress.progress)) {
    idem__mcp_client_problem(client, "progress of no call under way", NULL);
    return;
  }
  idem__mcp_call_touch(call);
  if (!call->on_progress) return;
  yyjson_val *message = yyjson_obj_get(params, "message");
  (void)idem__json_get_double(yyjson_obj_get(params, "total"), &progress.total);
  progress.call = call->handle;
  progress.message = yyjson_get_str(message);
  progress.message_len = yyjson_get_len(message);
  call->on_progress(client, &progress, call->user);
}

static bool read_level(yyjson_val *value, idem_mcp_level *level) {
  static const char *const names[] = {"debug", "info",     "notice", "warning",
                                      "error", "critical", "alert",  "emergency"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!yyjson_equals_str(value, names[i])) continue;
    *level = (idem_mcp_level)i;
    return true;
  }
  return false;
}

static void on_message(idem_conn *conn, yyjson_val *params, void *user) {
  idem_mcp_client *client = user;
  (void)conn;
  yyjson_val *logger = yyjson_obj_get(params, "logger");
  idem_mcp_log_line line = {.logger = yyjson_get_str(logger),
                            .logger_len = yyjson_get_len(logger),
                            .data = yyjson_obj_get(params, "data")};
  if (!read_level(yyjson_obj_get(params, "level"), &line.level))
    idem__mcp_client_problem(client, "a log line without a level", NULL);
  else if (client->opts.on_log)
    client->opts.on_log(client, &line, client->opts.user);
}

static void list_changed(idem_mcp_client *client, idem_mcp_list_kind kind) {
  idem__mcp_list_changed(client, kind);
  if (client->opts.on_list_changed) client->opts.on_list_changed(client, kind, client->opts.user);
}

static void on_tools(idem_conn *conn, yyjson_val *params, void *user) {
  (void)conn, (void)params;
  list_changed(user, IDEM_MCP_TOOLS);
}
static void on_prompts(idem_conn *conn, yyjson_val *params, void *user) {
  (void)conn, (void)params;
  list_changed(user, IDEM_MCP_PROMPTS);
}
static void on_resources(idem_conn *conn, yyjson_val *params, void *user) {
  (void)conn, (void)params;
  list_changed(user, IDEM_MCP_RESOURCES);
}

static void on_updated(idem_conn *conn, yyjson_val *params, void *user) {
  idem_mcp_client *client = user;
  (void)conn;
  yyjson_val *uri = yyjson_obj_get(params, "uri");
  if (!yyjson_is_str(uri))
    idem__mcp_client_problem(client, "an update of no resource", NULL);
  else
    idem__mcp_read_updated(client, yyjson_get_str(uri), yyjson_get_len(uri));
  if (yyjson_is_str(uri) && client->opts.on_resource_updated)
    client->opts.on_resource_updated(client, yyjson_get_str(uri), yyjson_get_len(uri),
                                     client->opts.user);
}

static void on_url_done(idem_conn *conn, yyjson_val *params, void *user) {
  idem_mcp_client *client = user;
  (void)conn;
  yyjson_val *id = yyjson_obj_get(params, "elicitationId");
  if (!yyjson_is_str(id)) return;
  if (client->opts.on_url_done)
    client->opts.on_url_done(client, yyjson_get_str(id), yyjson_get_len(id), client->opts.user);
  idem__mcp_address_over(client, yyjson_get_str(id), yyjson_get_len(id));
}

static void on_task(idem_conn *conn, yyjson_val *params, void *user) {
  idem_mcp_client *client = user;
  (void)conn;
  yyjson_val *task = idem__mcp_task_of(params);
  if (task && client->opts.on_task) client->opts.on_task(client, task, client->opts.user);
}

static void on_listening(idem_conn *conn, yyjson_val *params, void *user) {
  (void)conn;
  idem__mcp_listen_begun(user, params);
}

static const struct {
  const char *name;
  idem_notification_fn fn;
} notices[] = {
    {"notifications/progress", on_progress},
    {"notifications/message", on_message},
    {"notifications/tools/list_changed", on_tools},
    {"notifications/prompts/list_changed", on_prompts},
    {"notifications/resources/list_changed", on_resources},
    {"notifications/resources/updated", on_updated},
    {"notifications/elicitation/complete", on_url_done},
    {"notifications/tasks/status", on_task},
    {"notifications/tasks", on_task},
    {"notifications/subscriptions/acknowledged", on_listening},
};
#define NOTICES (sizeof notices / sizeof *notices)

/* -------------------------------------------------------------------- requests */

static void on_ping(idem_request *request, yyjson_val *params, void *user) {
  (void)params, (void)user;
  idem__reply_own(request, "{}", 2);
}

static void on_roots(idem_request *request, yyjson_val *params, void *user) {
  idem_mcp_client *client = user;
  (void)params;
  if (!client->opts.roots) {
    idem_reply_error(request, IDEM_RPC_METHOD_NOT_FOUND, "Method not found", NULL);
    return;
  }
  idem_buf text;
  idem_buf_init(&text, &client->alloc, client->roots.len + 16);
  idem_status status = idem_buf_puts(&text, "{\"roots\":");
  if (status == IDEM_OK) status = idem_buf_put(&text, client->roots.data, client->roots.len);
  if (status == IDEM_OK) status = idem_buf_puts(&text, "}");
  if (status == IDEM_OK)
    idem__reply_own(request, text.data, text.len);
  else
    idem_request_drop(request);
  idem_buf_deinit(&text);
}

static void on_sampling(idem_request *request, yyjson_val *params, void *user) {
  idem__mcp_question_request(user, request, params, true);
}

static void on_elicitation(idem_request *request, yyjson_val *params, void *user) {
  idem__mcp_question_request(user, request, params, false);
}

static const struct {
  const char *name;
  idem_method_fn fn;
} requests[] = {{"ping", on_ping},
                {"roots/list", on_roots},
                {"sampling/createMessage", on_sampling},
                {"elicitation/create", on_elicitation}};

static bool gate(idem_request *request, yyjson_val *params, void *user) {
  idem_mcp_client *client = user;
  (void)params;
  if (!idem__mcp_modern(client)) return true;
  idem__mcp_client_problem(client, "a request of a server that may send none", NULL);
  idem__request_discard(request);
  return false;
}

/* Whatever else is told: the observers see it before the conn drops it. What is cancelled is the conn's own business. */
static bool is_notice(const idem__message *message) {
  static const char cancelled[] = "notifications/cancelled";
  if (message->method_len == sizeof cancelled - 1 &&
      memcmp(message->method, cancelled, sizeof cancelled - 1) == 0)
    return true;
  for (size_t i = 0; i < NOTICES; i++) {
    if (strlen(notices[i].name) == message->method_len &&
        memcmp(notices[i].name, message->method, message->method_len) == 0)
      return true;
  }
  return false;
}

void idem__mcp_heard(idem_conn *conn, const idem__message *message) {
  idem_mcp_client *client = idem__mcp_client_of(conn);
  if (!client || message->kind != IDEM__NOTIFICATION || is_notice(message)) return;
  client->opts.on_notification(client, message->method, message->method_len, message->params,
                               client->opts.user);
}

idem_status idem__mcp_notices_register(idem_mcp_client *client) {
  idem_status status = IDEM_OK;
  for (size_t i = 0; status == IDEM_OK && i < NOTICES; i++)
    status = idem_router_notification(client->router, notices[i].name, notices[i].fn, client);
  for (size_t i = 0; status == IDEM_OK && i < sizeof requests / sizeof *requests; i++)
    status = idem_router_method(client->router, requests[i].name, requests[i].fn, client);
  idem__router_set_gate(client->router, gate, client);
  return status;
}
