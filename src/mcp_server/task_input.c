/* task_input.c - a task whose handler needs more. The questions wait in the task; answers come by
 * tasks/update (2026-07-28) or as responses to requests sent to whoever waits in tasks/result
 * (2025-11-25). When none is missing the handler runs again on its own thread. */
#include "input.h"
#include "result.h"
#include "server.h"
#include "session.h"
#include "task.h"

#include <string.h>

/* ----------------------------------------------------------------- asking */

static char *ask_text(idem__context *context, const idem_ask *ask) {
  idem__buf json;
  char *copy = NULL;
  idem__buf_init(&json, &context->worker->alloc, (size_t)16 << 20);
  idem__writer writer = idem__writer_on(&json);
  idem__input_write_ask(ask, context->revision, &writer);
  if (writer.status == IDEM_OK) {
    copy = idem__strndup(&context->server->alloc, json.data, json.len);
  }
  idem__buf_deinit(&json);
  return copy;
}

static void free_entries(idem_server *server, idem__task_ask_entry *entries, size_t count) {
  for (size_t i = 0; i < count; i++) {
    idem__free(&server->alloc, entries[i].key);
    idem__free(&server->alloc, entries[i].json);
    idem__free(&server->alloc, entries[i].answer);
  }
  idem__free(&server->alloc, entries);
}

static idem__task_ask_entry *copy_asks(idem__context *context, const idem_ask *asks, size_t count) {
  idem_server *server = context->server;
  idem__task_ask_entry *entries = idem__calloc(&server->alloc, (count + 1) * sizeof *entries);
  idem_status status = entries ? IDEM_OK : IDEM_E_NOMEM;
  for (size_t i = 0; i < count && status == IDEM_OK; i++) {
    entries[i].key = idem__server_copy(server, asks[i].key, &status);
    entries[i].json = ask_text(context, &asks[i]);
    if (!entries[i].json) status = IDEM_E_NOMEM;
  }
  if (status == IDEM_OK) return entries;
  if (entries) free_entries(server, entries, count);
  return NULL;
}

/* Nobody will answer any more, and the handler is not running. */
static void on_asker_cancelled(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason, (void)user;
  idem_request_drop(request);
}

idem_status idem__task_ask(idem__context *context, const idem_ask *asks, size_t count,
                           const void *state, size_t state_len) {
  idem_server *server = context->server;
  idem__task *task = context->task;
  idem_status status = idem__input_keep_state(context, state, state_len);
  idem__task_ask_entry *entries = status == IDEM_OK ? copy_asks(context, asks, count) : NULL;
  if (!entries) {
    idem__reply_failure(context, IDEM_RPC_INTERNAL_ERROR, NULL, NULL, 0);
    return IDEM_E_NOMEM;
  }
  idem__tasks_lock(server);
  bool over = idem__task_terminal(task);
  idem__task_ask_entry *old = over ? entries : task->asks;
  size_t old_count = over ? count : task->ask_count;
  if (!over) {
    task->asks = entries;
    task->ask_count = count;
    idem__task_set_state(task, IDEM__TASK_INPUT);
  }
  idem__tasks_unlock(server);
  if (old) free_entries(server, old, old_count);
  if (over) { /* cancelled meanwhile: there is nothing to wait for */
    idem_request_drop(context->request);
    return IDEM_E_STATE;
  }
  idem_request_keep(context->request);
  idem_request_on_cancel(context->request, on_asker_cancelled, context);
  idem__tasks_wake(server);
  return IDEM_OK;
}

/* --------------------------------------------------------------- answering */

static bool take_answer(idem__task *task, idem__task_ask_entry *entry, yyjson_val *answer) {
  idem__buf json;
  if (entry->answer || !yyjson_is_obj(answer)) return false;
  idem__buf_init(&json, &task->server->alloc, (size_t)16 << 20);
  if (idem__json_put(&json, answer) == IDEM_OK) {
    entry->answer = idem__strndup(&task->server->alloc, json.data, json.len);
  }
  idem__buf_deinit(&json);
  return entry->answer != NULL;
}

bool idem__task_take_answers(idem__task *task, yyjson_val *answers) {
  size_t missing = 0;
  for (size_t i = 0; i < task->ask_count; i++) {
    idem__task_ask_entry *entry = &task->asks[i];
    take_answer(task, entry, yyjson_obj_get(answers, entry->key));
    missing += entry->answer == NULL;
  }
  return missing == 0;
}

static yyjson_val *collect(idem__task *task) {
  idem__context *context = task->context;
  idem__buf json;
  idem_status status;
  yyjson_doc *doc = NULL;
  idem__buf_init(&json, &context->worker->alloc, SIZE_MAX / 4);
  idem__writer writer = idem__writer_on(&json);
  idem__tasks_lock(task->server);
  idem__write_object(&writer);
  for (size_t i = 0; i < task->ask_count; i++) {
    idem__write_member_raw(&writer, task->asks[i].key, task->asks[i].answer);
  }
  idem__write_object_end(&writer);
  idem__tasks_unlock(task->server);
  if (writer.status == IDEM_OK) {
    doc = idem__json_read(json.data, json.len, idem__request_memory(context->request), &status);
  }
  idem__buf_deinit(&json);
  return doc ? doc->root : NULL;
}

void idem__task_resume(idem__task *task) {
  idem__context *context = task->context;
  context->answers = collect(task);
  if (context->answers)
    idem__context_rerun(context);
  else
    idem__reply_failure(context, IDEM_RPC_INTERNAL_ERROR, NULL, NULL, 0);
}

/* ---------------------------------------------- 2025-11-25: real requests */

/* One question on its way; outlives the waiter's request. */
typedef struct asked {
  idem__task *task;
  size_t index;
} asked;

static void take_response(const asked *question, const idem_response *response) {
  idem__task *task = question->task;
  static const char cancelled[] = "{\"action\":\"cancel\"}";
  idem__task_ask_entry *entry = &task->asks[question->index];
  bool good = response->status == IDEM_OK && yyjson_is_obj(response->result);
  if (good && take_answer(task, entry, response->result)) return;
  entry->answer = idem__strndup(&task->server->alloc, cancelled, sizeof cancelled - 1);
}

static void on_response(idem_conn *conn, const idem_response *response, void *user) {
  (void)conn;
  asked *question = user;
  idem__task *task = question->task;
  idem_server *server = task->server;
  idem__tasks_lock(server);
  if (task->state == IDEM__TASK_INPUT && question->index < task->ask_count) {
    /* The waiter went away: somebody else may be asked. */
    if (response->status == IDEM_E_CLOSED)
      task->asks[question->index].sent = false;
    else
      take_response(question, response);
    size_t missing = 0;
    for (size_t i = 0; i < task->ask_count; i++) missing += task->asks[i].answer == NULL;
    if (!missing) {
      task->resume = true;
      idem__task_set_state(task, IDEM__TASK_WORKING);
    }
  }
  idem__tasks_unlock(server);
  idem__task_unref(task);
  idem__free(&server->alloc, question);
  idem__tasks_wake(server);
}

/* {"method","params"} plus which task it is for. */
static idem_status send_one(idem__task *task, idem__context *waiter, const char *json,
                            asked *question) {
  yyjson_doc *parsed = yyjson_read(json, strlen(json), YYJSON_READ_NUMBER_AS_RAW);
  yyjson_mut_doc *doc = parsed ? yyjson_doc_mut_copy(parsed, NULL) : NULL;
  yyjson_mut_val *root = yyjson_mut_doc_get_root(doc);
  yyjson_mut_val *params = yyjson_mut_obj_get(root, "params");
  yyjson_mut_val *meta = yyjson_mut_obj_add_obj(doc, params, "_meta");
  yyjson_mut_val *related =
      yyjson_mut_obj_add_obj(doc, meta, "io.modelcontextprotocol/related-task");
  idem_status status = IDEM_E_NOMEM;
  if (yyjson_mut_obj_add_strcpy(doc, related, "taskId", task->id)) {
    status = idem_call(idem_request_conn(waiter->request),
                       yyjson_mut_get_str(yyjson_mut_obj_get(root, "method")), params,
                       &(idem_call_opts){.timeout_ms = task->server->opts.input_ms}, on_response,
                       question, NULL);
  }
  yyjson_mut_doc_free(doc);
  yyjson_doc_free(parsed);
  return status;
}

/* The text of the next question nobody was asked; owned. NULL: none. */
static char *next_unsent(idem__task *task, size_t *index) {
  char *copy = NULL;
  idem__tasks_lock(task->server);
  for (size_t i = 0; i < task->ask_count && !copy; i++) {
    if (task->asks[i].sent || task->asks[i].answer) continue;
    copy = idem__strndup(&task->server->alloc, task->asks[i].json, strlen(task->asks[i].json));
    task->asks[i].sent = copy != NULL;
    *index = i;
  }
  if (copy) task->refs++;
  idem__tasks_unlock(task->server);
  return copy;
}

static void take_back(idem__task *task, size_t index) {
  idem__tasks_lock(task->server);
  if (index < task->ask_count) task->asks[index].sent = false;
  idem__tasks_unlock(task->server);
  idem__task_unref(task);
}

bool idem__task_send_asks(idem__task *task, idem__context *waiter) {
  const idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(waiter->request));
  if (!peer || (peer->edge && !peer->edge->can_reach(peer->edge_ctx))) return false;
  idem_server *server = task->server;
  size_t index;
  for (char *json; (json = next_unsent(task, &index));) {
    asked *question = idem__malloc(&server->alloc, sizeof *question);
    idem_status status = IDEM_E_NOMEM;
    if (question) {
      *question = (asked){task, index};
      status = send_one(task, waiter, json, question);
    }
    idem__free(&server->alloc, json);
    if (status == IDEM_OK) continue;
    idem__free(&server->alloc, question);
    take_back(task, index);
    return false;
  }
  return true;
}
