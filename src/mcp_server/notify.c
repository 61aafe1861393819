/* notify.c - what a handler tells while it works: progress and log lines, where they were asked
 * for; and the level a legacy peer sets for the latter. */
#include "notify.h"
#include "era.h"
#include "result.h"
#include "server.h"
#include "session.h"
#include "task.h"
#include "wait.h"

#include <string.h>

static const char *const level_names[] = {"debug",    "info",  "notice",    "warning", "error",
                                          "critical", "alert", "emergency", NULL};

int idem__level_parse(yyjson_val *val) {
  for (int i = 0; level_names[i]; i++) {
    if (yyjson_equals_str(val, level_names[i])) return i;
  }
  return -1;
}

void idem__reply_bad_level(idem__context *context, const char *param, yyjson_val *received) {
  idem_reply_invalid_params(context->request, &(idem_param_fault){.param = param,
                                                                  .expected = "a log level",
                                                                  .received = received,
                                                                  .accepted = level_names});
}

idem_status idem__notify_text(idem_conn *conn, const char *method, idem_buf *params) {
  return idem__notify_own(conn, method, params->data, params->len);
}

/* The conn that a request's notifications go to; NULL: nobody listens any more. */
static idem_conn *stream_of(const idem__context *context) {
  if (!context || context->task || idem__request_settled(context->request)) return NULL;
  return idem_request_conn(context->request);
}

static void send(idem_conn *conn, const char *method, idem_buf *params,
                 const idem__writer *writer) {
  if (writer->status == IDEM_OK) idem__notify_text(conn, method, params);
  idem_buf_deinit(params);
}

static void write_progress(const idem__context *context, double total, const char *message,
                           idem__writer *writer) {
  idem__write_object(writer);
  idem__write_key(writer, "progressToken");
  idem__write_raw(writer, context->progress_token, context->progress_token_len);
  idem__write_key(writer, "progress");
  idem__write_double(writer, context->last_progress);
  if (total > 0) {
    idem__write_key(writer, "total");
    idem__write_double(writer, total);
  }
  if (idem__revision_has(context->revision, IDEM__R_PROGRESS_MESSAGE)) {
    idem__write_member_text(writer, "message", message);
  }
  if (context->task) idem__task_write_related(context->task->id, writer);
  idem__write_object_end(writer);
}

/* The session that began it goes on hearing of it under the same token, until it is over. */
static bool hears_of_task(const idem__context *context) {
  if (!context || !context->task || !context->task->session) return false;
  idem__tasks_lock(context->server);
  bool over = idem__task_terminal(context->task);
  idem__tasks_unlock(context->server);
  return !over;
}

void idem_progress(idem_request *request, double progress, double total, const char *message) {
  idem__context *context = idem__context_of(request);
  idem_conn *conn = stream_of(context);
  bool of_task = !conn && hears_of_task(context);
  if ((!conn && !of_task) || !context->progress_token || progress <= context->last_progress) return;
  context->last_progress = progress;
  idem_buf params;
  idem_buf_init(&params, &context->worker->alloc, (size_t)1 << 20);
  idem__writer writer = idem__writer_on(&params);
  write_progress(context, total, message, &writer);
  idem__mcp_news news = {.method = "notifications/progress",
                         .params = params.data,
                         .len = params.len,
                         .session = of_task ? context->task->session : NULL,
                         .level = -1};
  if (of_task && writer.status == IDEM_OK) idem__server_tell(context->server, &news);
  if (of_task)
    idem_buf_deinit(&params);
  else
    send(conn, "notifications/progress", &params, &writer);
}

#define DATA_DEPTH 512

idem_status idem__log_params(idem_buf *out, idem_mcp_level level, const char *logger,
                             const char *json, size_t len) {
  idem__writer writer = idem__writer_on(out);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "level", level_names[level]);
  idem__write_member_text(&writer, "logger", logger);
  idem__write_key(&writer, "data");
  if (writer.status == IDEM_OK) writer.status = idem__json_put_text(out, json, len, DATA_DEPTH);
  idem__write_object_end(&writer);
  return writer.status;
}

/* A legacy peer that set no level gets info and above; a modern one asks for each request. */
static bool wants(const idem__context *context, idem_mcp_level level) {
  if (context->server->opts.no_logging) return false;
  if (context->log_level >= 0) return (int)level >= context->log_level;
  return !idem__revision_has(context->revision, IDEM__R_MODERN) && level >= IDEM_MCP_INFO;
}

void idem_mcp_log(idem_request *request, idem_mcp_level level, const char *logger,
                  const char *text) {
  idem__context *context = idem__context_of(request);
  idem_conn *conn = stream_of(context);
  if (!conn || !wants(context, level)) return;
  idem_buf params;
  idem_buf_init(&params, &context->worker->alloc, (size_t)1 << 20);
  idem__writer writer = idem__writer_on(&params);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "level", level_names[level]);
  idem__write_member_text(&writer, "logger", logger);
  idem__write_member_text(&writer, "data", text);
  idem__write_object_end(&writer);
  send(conn, "notifications/message", &params, &writer);
}

idem_status idem_mcp_log_json(idem_request *request, idem_mcp_level level, const char *logger,
                              const char *json, size_t len) {
  idem__context *context = idem__context_of(request);
  idem_conn *conn = stream_of(context);
  if (!conn || !wants(context, level)) return IDEM_OK;
  idem_buf params;
  idem_buf_init(&params, &context->worker->alloc, idem__answer_bytes(context->server));
  idem_status status = idem__log_params(&params, level, logger, json, len);
  if (status == IDEM_OK) status = idem__notify_text(conn, "notifications/message", &params);
  idem_buf_deinit(&params);
  return status;
}

static void on_level_set(idem__context *context, idem_status status, void *user) {
  (void)user;
  if (idem__is_unknown(status))
    idem__refuse_unavailable(context);
  else
    idem__reply_text(context, "{}", 2);
}

void idem__run_set_level(idem__context *context, yyjson_val *params) {
  yyjson_val *level = params ? yyjson_obj_get(params, "level") : NULL;
  int parsed = idem__level_parse(level);
  if (parsed < 0) {
    idem__reply_bad_level(context, "level", level);
    return;
  }
  idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(context->request));
  idem__session_change change = {.kind = IDEM__SESSION_LEVEL, .level = parsed};
  if (!peer->session) {
    on_level_set(context, IDEM_OK, NULL);
    return;
  }
  idem__wait *wait = idem__wait_begin(context, on_level_set, NULL);
  if (!wait) return;
  idem__session_change_for(peer, &change, idem__wait_end, wait);
  idem__wait_keep(wait);
}
