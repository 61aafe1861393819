/* task.c - a call that became a task, in the form of 2025-11-25 (nested, with tasks/result) and in that of the
 * extension of 2026-07-28 (flat, the result inside): asked for at the server's pace until it has ended, its
 * questions answered on the way. See docs/internals/mcp_client.md. */
#include "mcp_client.h"

#include <string.h>

#define POLL_MS 1000
#define POLL_LEAST_MS 50
#define POLL_MOST_MS 60000
#define KEYS_MAX 256 /* questions of one task */

struct idem__mcp_task {
  char *id;
  size_t id_len;
  uint64_t poll_ms;
  char **keys; /* answered: a server may show them until it has taken the answers */
  size_t key_count;
  bool updating;
};

static bool modern(const idem__mcp_call *call) { return idem__mcp_modern(call->client); }

/* Nested in the older form's first answer, else flat. */
yyjson_val *idem__mcp_task_of(yyjson_val *result) {
  yyjson_val *nested = yyjson_obj_get(result, "task");
  if (yyjson_is_str(yyjson_obj_get(nested, "taskId"))) return nested;
  return yyjson_is_str(yyjson_obj_get(result, "taskId")) ? result : NULL;
}

void idem__mcp_task_free(idem__mcp_call *call) {
  idem__mcp_task *task = call->task;
  const idem_alloc *alloc = &call->client->alloc;
  for (size_t i = 0; i < task->key_count; i++) idem__free(alloc, task->keys[i]);
  idem__free(alloc, task->keys);
  idem__free(alloc, task->id);
  idem__free(alloc, task);
  call->task = NULL;
}

static idem_status new_task(idem__mcp_call *call, const char *id, size_t len) {
  const idem_alloc *alloc = &call->client->alloc;
  idem__mcp_task *task = idem__calloc(alloc, sizeof *task);
  if (!task) return IDEM_E_NOMEM;
  task->id = idem__strndup(alloc, id, len);
  task->id_len = len;
  task->poll_ms = POLL_MS;
  call->task = task;
  return task->id ? IDEM_OK : IDEM_E_NOMEM;
}

idem_status idem__mcp_task_header(const idem__mcp_call *call, idem_buf *out) {
  idem_status status = idem_buf_puts(out, "Mcp-Name: ");
  if (status == IDEM_OK) status = idem__header_encode(out, call->task->id, call->task->id_len);
  return status == IDEM_OK ? idem_buf_put(out, "", 1) : status;
}

/* ---------------------------------------------------------------------- asking */

static idem_status put_id(const idem__mcp_task *task, idem_buf *out) {
  idem_status status = idem_buf_puts(out, "\"taskId\":");
  return status == IDEM_OK ? idem_text_json_string(out, task->id, task->id_len) : status;
}

static idem_status ask(idem__mcp_call *call, idem__method_row row) {
  idem_buf params;
  idem_buf_init(&params, &call->client->alloc, (size_t)128 << 20);
  idem_status status = put_id(call->task, &params);
  if (status == IDEM_OK && call->task->updating) {
    status = idem_buf_puts(&params, ",\"inputResponses\":");
    if (status == IDEM_OK) status = idem__mcp_round_put(call->round, &params);
  }
  if (status == IDEM_OK)
    status = idem__mcp_call_send_other(call, &idem__mcp_methods[row], params.data, params.len);
  idem_buf_deinit(&params);
  return status;
}

static void ask_or_fail(idem__mcp_call *call, idem__method_row row) {
  idem_status status = ask(call, row);
  if (status != IDEM_OK) idem__mcp_call_fail(call, status, "the task could not be asked for");
}

static void poll(idem__mcp_call *call) { ask_or_fail(call, IDEM__METHOD_TASKS_GET); }

static void update(idem__mcp_call *call) {
  call->task->updating = true;
  ask_or_fail(call, IDEM__METHOD_TASKS_UPDATE);
}

static void note_pace(idem__mcp_task *task, yyjson_val *object) {
  int64_t ms;
  yyjson_val *pace = yyjson_obj_get(object, "pollIntervalMs");
  if (!pace) pace = yyjson_obj_get(object, "pollInterval");
  if (!idem__json_get_int(pace, &ms)) return;
  if (ms < POLL_LEAST_MS) ms = POLL_LEAST_MS;
  task->poll_ms = ms > POLL_MOST_MS ? POLL_MOST_MS : (uint64_t)ms;
}

static void tell(idem__mcp_call *call, yyjson_val *object) {
  yyjson_val *text = yyjson_obj_get(object, "statusMessage");
  if (!call->on_progress) return;
  idem_mcp_progress progress = {.call = call->handle,
                                .message = yyjson_get_str(text),
                                .message_len = yyjson_get_len(text),
                                .task_status = yyjson_get_str(yyjson_obj_get(object, "status"))};
  call->on_progress(call->client, &progress, call->user);
}

/* ------------------------------------------------------------------- questions */

static bool is_known(const idem__mcp_task *task, yyjson_val *key) {
  for (size_t i = 0; i < task->key_count; i++) {
    if (yyjson_equals_str(key, task->keys[i])) return true;
  }
  return false;
}

static idem_status remember(idem__mcp_call *call, yyjson_val *key) {
  idem__mcp_task *task = call->task;
  const idem_alloc *alloc = &call->client->alloc;
  if (task->key_count >= KEYS_MAX) return IDEM_E_LIMIT;
  char **keys = idem__realloc(alloc, task->keys, task->key_count * sizeof *keys,
                              (task->key_count + 1) * sizeof *keys);
  if (!keys) return IDEM_E_NOMEM;
  task->keys = keys;
  keys[task->key_count] = idem__strndup(alloc, yyjson_get_str(key), yyjson_get_len(key));
  if (!keys[task->key_count]) return IDEM_E_NOMEM;
  task->key_count++;
  return IDEM_OK;
}

/* The questions that were not asked before, as an object of their own. */
static idem_status new_questions(idem__mcp_call *call, yyjson_val *requests, idem_buf *out) {
  idem__writer writer = idem__writer_on(out);
  yyjson_val *key, *val;
  size_t index, max;
  idem_status status = IDEM_OK;
  idem__write_object(&writer);
  idem_each_member(requests, index, max, key, val) {
    if (is_known(call->task, key)) continue;
    status = remember(call, key);
    if (status != IDEM_OK) return status;
    idem__write_name(&writer, key);
    idem__write_value(&writer, val);
  }
  idem__write_object_end(&writer);
  return writer.status;
}

static void ask_user(idem__mcp_call *call, yyjson_val *requests) {
  idem_mcp_client *client = call->client;
  yyjson_alc alc = idem__json_alc(&client->alloc);
  idem_buf text;
  idem_buf_init(&text, &client->alloc, client->opts.message_bytes);
  idem_status status = new_questions(call, requests, &text);
  yyjson_doc *doc = status == IDEM_OK ? yyjson_read_opts(text.data, text.len,
                                                         YYJSON_READ_BIGNUM_AS_RAW, &alc, NULL)
                                      : NULL;
  idem_buf_deinit(&text);
  if (!doc)
    idem__mcp_call_fail(call, status == IDEM_OK ? IDEM_E_NOMEM : status, "the task's questions");
  else if (!yyjson_obj_size(yyjson_doc_get_root(doc)))
    idem__mcp_call_pause(call, call->task->poll_ms, poll);
  else
    (void)idem__mcp_round_begin(call, yyjson_doc_get_root(doc), NULL, update);
  yyjson_doc_free(doc);
}

/* --------------------------------------------------------------------- the end */

static void end_failed(idem__mcp_call *call, yyjson_val *error) {
  yyjson_val *message = yyjson_obj_get(error, "message");
  idem_response response = {.status = IDEM_E_REMOTE,
                            .message = yyjson_get_str(message),
                            .message_len = yyjson_get_len(message),
                            .data = yyjson_obj_get(error, "data")};
  if (!idem__json_get_int(yyjson_obj_get(error, "code"), &response.code) || !message)
    idem__mcp_call_fail(call, IDEM_E_PROTO, "the task failed without an error");
  else
    idem__mcp_call_end_remote(call, &response);
}

static void end_task(idem__mcp_call *call, yyjson_val *object, yyjson_val *status) {
  yyjson_val *result = yyjson_obj_get(object, "result");
  call->answered = true;
  if (yyjson_equals_str(status, "cancelled"))
    idem__mcp_call_fail(call, IDEM_E_CANCELLED, "the task was cancelled");
  else if (yyjson_equals_str(status, "failed"))
    end_failed(call, yyjson_obj_get(object, "error"));
  else if (yyjson_is_obj(result))
    idem__mcp_call_end_tool(call, result);
  else
    idem__mcp_call_fail(call, IDEM_E_PROTO, "the task ended without a result");
}

static bool is_over(yyjson_val *status) {
  return yyjson_equals_str(status, "completed") || yyjson_equals_str(status, "failed") ||
         yyjson_equals_str(status, "cancelled");
}

/* In the older form the result, and the questions, come by tasks/result. */
static void look(idem__mcp_call *call, yyjson_val *object) {
  yyjson_val *status = yyjson_obj_get(object, "status");
  bool input = yyjson_equals_str(status, "input_required");
  note_pace(call->task, object);
  uint64_t handle = call->handle;
  idem_mcp_client *client = call->client;
  if (!is_over(status)) tell(call, object);
  if (idem__mcp_call_find(client, handle) != call) return;
  if (!modern(call) && (input || is_over(status)))
    ask_or_fail(call, IDEM__METHOD_TASKS_RESULT);
  else if (is_over(status))
    end_task(call, object, status);
  else if (input)
    ask_user(call, yyjson_obj_get(object, "inputRequests"));
  else if (yyjson_equals_str(status, "working"))
    idem__mcp_call_pause(call, call->task->poll_ms, poll);
  else
    idem__mcp_call_fail(call, IDEM_E_PROTO, "the task has a status that is not known");
}

bool idem__mcp_task_answered(idem__mcp_call *call, const idem_response *response) {
  bool was_result = strcmp(call->method, "tasks/result") == 0;
  if (response->status == IDEM_E_REMOTE) {
    idem__mcp_call_end_remote(call, response);
    return true;
  }
  if (response->status != IDEM_OK) return false;
  call->was_sent = true;
  if (!yyjson_is_obj(response->result)) {
    idem__mcp_call_fail(call, IDEM_E_PROTO, "the task is no object");
  } else if (was_result) {
    call->answered = true;
    idem__mcp_call_end_tool(call, response->result);
  } else if (call->task->updating) {
    call->task->updating = false;
    idem__mcp_round_free(call);
    poll(call);
  } else {
    look(call, response->result);
  }
  return true;
}

/* ------------------------------------------------------------------- the start */

bool idem__mcp_task_begin(idem__mcp_call *call, yyjson_val *result) {
  idem_mcp_client *client = call->client;
  yyjson_val *object = idem__mcp_task_of(result);
  yyjson_val *id = yyjson_obj_get(object, "taskId");
  if (!object || (modern(call) && !client->opts.tasks)) {
    idem__mcp_call_fail(call, IDEM_E_PROTO, "the server made a task of what was no offer of one");
  } else if (call->detach) {
    idem_mcp_result end = {.result = result, .task = object};
    idem__mcp_call_end(call, &end);
  } else if (new_task(call, yyjson_get_str(id), yyjson_get_len(id)) != IDEM_OK) {
    idem__mcp_call_fail(call, IDEM_E_NOMEM, "no memory for the task");
  } else {
    call->answered = false;
    if (call->round) idem__mcp_round_free(call);
    look(call, object);
  }
  return true;
}

idem_status idem__mcp_task_wait_for(idem__mcp_call *call, const char *task) {
  idem_status status = new_task(call, task, strlen(task));
  return status == IDEM_OK ? ask(call, IDEM__METHOD_TASKS_GET) : status;
}

idem_status idem__mcp_task_again(idem__mcp_call *call) {
  bool result = strcmp(call->method, idem__mcp_methods[IDEM__METHOD_TASKS_RESULT].name) == 0;
  if (call->task->updating) return ask(call, IDEM__METHOD_TASKS_UPDATE);
  return ask(call, result ? IDEM__METHOD_TASKS_RESULT : IDEM__METHOD_TASKS_GET);
}

void idem__mcp_task_tell_cancel(idem__mcp_call *call) {
  idem_mcp_client *client = call->client;
  idem_buf params;
  if (!idem__mcp_usable(client) || call->kind == IDEM__MCP_TASK_WAIT) return;
  idem_buf_init(&params, &client->alloc, (size_t)1 << 20);
  idem_status status = put_id(call->task, &params);
  size_t at = sizeof "\"taskId\":" - 1;
  idem__mcp_ask what = {.row = &idem__mcp_methods[IDEM__METHOD_TASKS_CANCEL],
                        .params = params.data,
                        .params_len = params.len,
                        .subject_at = at,
                        .subject_len = params.len - at};
  if (status == IDEM_OK) (void)idem__mcp_call_start(client, &what, NULL);
  idem_buf_deinit(&params);
}
