/* task.c - work that goes on after its request is answered: the core form of 2025-11-25 and the
 * io.modelcontextprotocol/tasks extension of 2026-07-28. A handler need not know: its request turns
 * into a task, and its answer becomes the task's. */
#include "task.h"
#include "page.h"
#include "result.h"
#include "server.h"

#include <stdlib.h>
#include <string.h>

#define EXTENSION "io.modelcontextprotocol/tasks"
#define TASK_CANCELLED (-32000)
#define REQUIRED "{\"extensions\":{\"" EXTENSION "\":{}}}"

static bool modern(const idem__context *context) {
  return idem__revision_has(context->revision, IDEM__R_MODERN);
}

static bool declares_extension(const idem__context *context) {
  yyjson_val *extensions =
      context->capabilities ? yyjson_obj_get(context->capabilities, "extensions") : NULL;
  return yyjson_is_obj(extensions) && yyjson_is_obj(yyjson_obj_get(extensions, EXTENSION));
}

static bool asks_for_task(const idem__context *context) {
  return yyjson_is_obj(yyjson_obj_get(context->params, "task"));
}

bool idem__task_possible(const idem__context *context) {
  if (modern(context)) return declares_extension(context);
  return idem__revision_has(context->revision, IDEM__R_TASKS) && asks_for_task(context);
}

bool idem_can_task(const idem_request *request) {
  const idem__context *context = idem__context_of(request);
  return !context->task && idem__task_possible(context);
}

void idem__tasks_write_capability(const idem__context *context, idem__writer *writer) {
  if (modern(context)) {
    idem__write_member_raw(writer, "extensions", "{\"" EXTENSION "\":{}}");
  } else if (idem__revision_has(context->revision, IDEM__R_TASKS)) {
    /* Without a principal ids are all that keeps tasks apart: they are not listed then. */
    bool list = context->principal[0] != '\0';
    idem__write_member_raw(
        writer, "tasks",
        list ? "{\"list\":{},\"cancel\":{},\"requests\":{\"tools\":{\"call\":{}}}}"
             : "{\"cancel\":{},\"requests\":{\"tools\":{\"call\":{}}}}");
  }
}

/* ------------------------------------------------------------------ beginning */

/* The peer gets the task's id; the handler keeps the request. */
static idem_status answer_created(idem__context *context, idem__task *task) {
  idem__result result;
  idem__result_begin(&result, context, "task");
  idem__tasks_lock(context->server);
  if (modern(context)) {
    idem__task_write(task, context->revision, false, &result.writer);
  } else {
    idem__write_key(&result.writer, "task");
    idem__write_object(&result.writer);
    idem__task_write(task, context->revision, false, &result.writer);
    idem__write_object_end(&result.writer);
  }
  idem__tasks_unlock(context->server);
  idem_status status = idem__result_close(&result, NULL);
  if (status == IDEM_OK) {
    idem__answer answer = {.value = {IDEM__VALUE_OWN, result.buf.data, result.buf.len, NULL}};
    idem__request_settle(context->request, &answer);
    idem__request_detach(context->request);
  }
  idem__result_abandon(&result);
  return status;
}

/* The result or the error of an answer, as text. */
static idem_status write_answer(const idem__context *context, const idem__answer *answer,
                                idem__buf *out) {
  idem__buf whole;
  idem__buf_init(&whole, &context->worker->alloc, SIZE_MAX / 4);
  idem_status status = idem__answer_put(&whole, &context->server->policy,
                                        idem__request_id(context->request), answer);
  yyjson_doc *doc =
      status == IDEM_OK ? yyjson_read(whole.data, whole.len, YYJSON_READ_NUMBER_AS_RAW) : NULL;
  if (status == IDEM_OK && !doc) status = IDEM_E_NOMEM;
  if (doc) {
    yyjson_val *root = yyjson_doc_get_root(doc);
    status = idem__json_put(out, yyjson_obj_get(root, answer->is_error ? "error" : "result"));
  }
  yyjson_doc_free(doc);
  idem__buf_deinit(&whole);
  return status;
}

/* A handler answered with a function of rpc.h: that is the task's outcome as well. */
static void take_late_answer(idem_request *request, const idem__answer *answer) {
  idem__context *context = idem__context_of(request);
  idem__buf text;
  if (!context->task) return;
  idem__buf_init(&text, &context->worker->alloc, SIZE_MAX / 4);
  /* What cannot be written counts as abandoned. */
  if (write_answer(context, answer, &text) == IDEM_OK) {
    idem__task_finish(context, answer->is_error, false, text.data, text.len);
  }
  idem__buf_deinit(&text);
}

idem_status idem_task_start(idem_request *request) {
  idem__context *context = idem__context_of(request);
  idem__task *task;
  if (!idem_can_task(request) || idem__request_settled(request)) return IDEM_E_STATE;
  idem_status status = idem__work_begin(request); /* it leaves its conn, not whose work it is */
  if (status == IDEM_OK) status = idem__task_create(context, &task);
  if (status != IDEM_OK) return status;
  status = answer_created(context, task);
  context->task = task;
  idem__request_on_late_answer(request, take_late_answer);
  return status;
}

void idem_task_status(idem_request *request, const char *message) {
  idem__context *context = idem__context_of(request);
  idem__task *task = context->task;
  if (!task) return;
  idem_status status = IDEM_OK;
  char *copy = idem__server_copy(context->server, message, &status);
  idem__tasks_lock(context->server);
  idem__free(&context->server->alloc, task->message);
  task->message = copy;
  if (!idem__task_terminal(task)) idem__task_set_state(task, task->state);
  idem__tasks_unlock(context->server);
  idem__tasks_wake(context->server);
}

static bool refuse_core(idem__context *context) {
  idem__reply_failure(context, IDEM_RPC_METHOD_NOT_FOUND, NULL, NULL, 0);
  return false;
}

static bool refuse_required(idem__context *context) {
  if (modern(context)) {
    idem__refuse_capability(context, REQUIRED);
    return false;
  }
  if (idem__revision_has(context->revision, IDEM__R_TASKS)) return refuse_core(context);
  idem_tool_failed(context->request, "This tool runs as a task, which this client cannot follow.");
  return false;
}

bool idem__task_admit(idem__context *context, yyjson_val *params) {
  (void)params;
  idem_task_support support = context->tool->task;
  bool possible = idem__task_possible(context);
  bool core = idem__revision_has(context->revision, IDEM__R_TASKS);
  if (support == IDEM_TASK_NEVER) {
    return core && asks_for_task(context) ? refuse_core(context) : true;
  }
  if (support == IDEM_TASK_REQUIRED && !possible) return refuse_required(context);
  /* A core peer that asked for a task must get one, also where the handler would choose. */
  bool start = possible && (support != IDEM_TASK_BY_HAND || core);
  if (!start) return true;
  if (idem_task_start(context->request) == IDEM_OK) return true;
  idem__reply_failure(context, IDEM_RPC_INTERNAL_ERROR, NULL, NULL, 0);
  return false;
}

/* --------------------------------------------------------------------- ending */

/* Lets go of the handler's side. */
static void leave(idem__context *context) {
  idem__task *task = context->task;
  task->context = NULL;
  context->task = NULL;
  idem__task_unref(task);
}

/* A core task whose tool said isError has failed; in the extension it is completed all the same. */
static idem__task_state outcome_state(const idem__context *context, bool is_error,
                                      bool tool_failed) {
  if (is_error) return IDEM__TASK_FAILED;
  return tool_failed && !modern(context) ? IDEM__TASK_FAILED : IDEM__TASK_COMPLETED;
}

idem_status idem__task_finish(idem__context *context, bool is_error, bool tool_failed,
                              const char *json, size_t len) {
  idem_server *server = context->server;
  idem__task *task = context->task;
  char *copy = idem__strndup(&server->alloc, json, len);
  idem__tasks_lock(server);
  if (!idem__task_terminal(task)) {
    task->outcome = copy;
    task->outcome_len = copy ? len : 0;
    task->is_error = is_error;
    copy = NULL;
    idem__task_set_state(task, outcome_state(context, is_error, tool_failed));
  }
  idem__tasks_unlock(server);
  idem__free(&server->alloc, copy);
  leave(context);
  idem_request_drop(context->request); /* settled long ago: this only ends it */
  idem__tasks_wake(server);
  return IDEM_OK;
}

void idem__task_abandon(idem__context *context) {
  static const char error[] = "{\"code\":-32603,\"message\":\"Internal error\"}";
  idem_server *server = context->server;
  idem__task *task = context->task;
  char *copy = idem__strndup(&server->alloc, error, sizeof error - 1);
  idem__tasks_lock(server);
  if (!idem__task_terminal(task)) {
    task->outcome = copy;
    task->outcome_len = copy ? sizeof error - 1 : 0;
    task->is_error = true;
    copy = NULL;
    idem__task_set_state(task, IDEM__TASK_FAILED);
  }
  idem__tasks_unlock(server);
  idem__free(&server->alloc, copy);
  leave(context);
  idem__tasks_wake(server);
}

/* The owner's thread looks at what others asked of the task. */
void idem__task_act(idem__task *task) {
  idem_server *server = task->server;
  idem__tasks_lock(server);
  bool cancel = task->cancel_asked, resume = task->resume;
  task->cancel_asked = task->resume = false;
  idem__tasks_unlock(server);
  if (!task->context) return;
  if (cancel)
    idem__request_cancel(task->context->request, IDEM_CANCEL_PEER);
  else if (resume)
    idem__task_resume(task);
}

/* -------------------------------------------------------------------- methods */

static idem__task *find(idem__context *context, yyjson_val *params) {
  yyjson_val *id = params ? yyjson_obj_get(params, "taskId") : NULL;
  if (modern(context) && !declares_extension(context)) {
    idem__refuse_capability(context, REQUIRED);
    return NULL;
  }
  if (!yyjson_is_str(id)) {
    idem__reply_bad_param(context, "taskId", "string", id);
    return NULL;
  }
  idem__task *task =
      idem__task_find(context->server, context->principal, yyjson_get_str(id), yyjson_get_len(id));
  if (!task) idem__reply_bad_param(context, "taskId", "the id of a task", id);
  return task;
}

static void answer_task(idem__context *context, const idem__task *task) {
  idem__result result;
  idem__result_begin(&result, context, "complete");
  idem__tasks_lock(context->server);
  idem__task_write(task, context->revision, true, &result.writer);
  idem__tasks_unlock(context->server);
  idem__result_end(&result, NULL);
}

static void answer_acknowledged(idem__context *context) {
  idem__result result;
  idem__result_begin(&result, context, "complete");
  idem__result_end(&result, NULL);
}

void idem__run_tasks_get(idem__context *context, yyjson_val *params) {
  idem__task *task = find(context, params);
  if (!task) return;
  answer_task(context, task);
  idem__task_unref(task);
}

void idem__run_tasks_cancel(idem__context *context, yyjson_val *params) {
  idem_server *server = context->server;
  idem__task *task = find(context, params);
  if (!task) return;
  idem__tasks_lock(server);
  bool was_over = idem__task_terminal(task);
  if (!was_over) {
    task->cancel_asked = true;
    idem__task_set_state(task, IDEM__TASK_CANCELLED);
  }
  idem__tasks_unlock(server);
  if (modern(context))
    answer_acknowledged(context);
  else if (was_over)
    idem__reply_bad_param(context, "taskId", "a task that is not over", NULL);
  else
    answer_task(context, task);
  idem__tasks_wake(server);
  idem__task_unref(task);
}

void idem__run_tasks_update(idem__context *context, yyjson_val *params) {
  idem_server *server = context->server;
  yyjson_val *answers = params ? yyjson_obj_get(params, "inputResponses") : NULL;
  idem__task *task = find(context, params);
  if (!task) return;
  if (!yyjson_is_obj(answers)) {
    idem__reply_bad_param(context, "inputResponses", "object", answers);
  } else {
    idem__tasks_lock(server);
    if (task->state == IDEM__TASK_INPUT && idem__task_take_answers(task, answers)) {
      task->resume = true;
      idem__task_set_state(task, IDEM__TASK_WORKING);
    }
    idem__tasks_unlock(server);
    answer_acknowledged(context);
    idem__tasks_wake(server);
  }
  idem__task_unref(task);
}

/* ------------------------------------------------------- tasks/list, tasks/result */

typedef struct task_page {
  idem__context *context;
  idem__writer *writer;
  size_t count;
  uint64_t last; /* shown */
  bool more;
} task_page;

static bool write_listed(const idem__task *task, uint64_t number, void *user) {
  task_page *page = user;
  page->more = page->count == page->context->server->opts.page_size;
  if (page->more) return false;
  idem__write_object(page->writer);
  idem__task_write(task, page->context->revision, false, page->writer);
  idem__write_object_end(page->writer);
  page->count++;
  page->last = number;
  return true;
}

void idem__run_tasks_list(idem__context *context, yyjson_val *params) {
  yyjson_val *cursor = params ? yyjson_obj_get(params, "cursor") : NULL;
  int64_t from = 0;
  if (context->principal[0] == '\0') {
    idem__reply_failure(context, IDEM_RPC_METHOD_NOT_FOUND, NULL, NULL, 0);
    return;
  }
  if (cursor && (!yyjson_is_str(cursor) || !idem__parse_position(cursor, &from))) {
    idem__reply_bad_param(context, "cursor", "a cursor of this list", cursor);
    return;
  }
  idem__result result;
  idem__result_begin(&result, context, NULL);
  idem__write_key(&result.writer, "tasks");
  idem__write_array(&result.writer);
  task_page page = {.context = context, .writer = &result.writer};
  idem__tasks_list(context->server, context->principal, (uint64_t)from, write_listed, &page);
  idem__write_array_end(&result.writer);
  if (page.more) idem__write_position(&result.writer, "nextCursor", (size_t)page.last);
  idem__result_end(&result, NULL);
}

/* Somebody waits for a task's result. Lives in its request's memory. */
typedef struct waiter {
  idem__list link; /* in worker->waiters */
  idem__context *context;
  idem__task *task;
} waiter;

static void stop_waiting(waiter *who) {
  idem__list_remove(&who->link);
  idem__task_unref(who->task);
}

static void on_waiter_gone(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason;
  stop_waiting(user);
  idem_request_drop(request);
}

/* The original result, with a word about which task it belongs to. */
static idem_status write_with_relation(idem__buf *out, const idem__task *task) {
  yyjson_doc *parsed = yyjson_read(task->outcome, task->outcome_len, YYJSON_READ_NUMBER_AS_RAW);
  yyjson_mut_doc *doc = parsed ? yyjson_doc_mut_copy(parsed, NULL) : NULL;
  yyjson_mut_val *root = yyjson_mut_doc_get_root(doc);
  yyjson_mut_val *meta = yyjson_mut_obj_get(root, "_meta");
  if (!meta) meta = yyjson_mut_obj_add_obj(doc, root, "_meta");
  yyjson_mut_val *related =
      yyjson_mut_obj_add_obj(doc, meta, "io.modelcontextprotocol/related-task");
  idem_status status = IDEM_E_NOMEM;
  if (yyjson_mut_obj_add_strcpy(doc, related, "taskId", task->id)) {
    status = idem__json_put_mut(out, root);
  }
  yyjson_mut_doc_free(doc);
  yyjson_doc_free(parsed);
  return status;
}

static void reply_error_object(idem_request *request, const char *json, size_t len) {
  yyjson_doc *doc = yyjson_read(json, len, 0);
  yyjson_val *data = yyjson_obj_get(yyjson_doc_get_root(doc), "data");
  char *text = data ? yyjson_val_write(data, 0, NULL) : NULL;
  idem__reply_error_own(request, yyjson_get_sint(yyjson_obj_get(yyjson_doc_get_root(doc), "code")),
                        yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(doc), "message")), text,
                        text ? strlen(text) : 0);
  free(text);
  yyjson_doc_free(doc);
}

/* A cancelled request would have had no answer; whoever asks for it must get one, and nothing broke. */
static void answer_cancelled(idem__context *context, const idem__task *task) {
  char data[64];
  idem__buf text;
  idem__buf_fixed(&text, data, sizeof data);
  idem__buf_printf(&text, "{\"taskId\":\"%s\"}", task->id);
  idem__reply_failure(context, TASK_CANCELLED, "Task cancelled", text.data, text.len);
}

static void answer_result(idem__context *context, idem__task *task) {
  idem__buf text;
  idem__buf_init(&text, &context->worker->alloc, SIZE_MAX / 4);
  idem__tasks_lock(context->server);
  bool has = task->outcome != NULL && task->state != IDEM__TASK_CANCELLED;
  bool is_error = task->is_error, cancelled = task->state == IDEM__TASK_CANCELLED;
  idem_status status = IDEM_E_NOTFOUND;
  if (has) {
    status = is_error ? idem__buf_put(&text, task->outcome, task->outcome_len)
                      : write_with_relation(&text, task);
  }
  idem__tasks_unlock(context->server);
  if (cancelled) {
    answer_cancelled(context, task);
  } else if (status != IDEM_OK) {
    idem__reply_failure(context, IDEM_RPC_INTERNAL_ERROR, NULL, NULL, 0);
  } else if (is_error) {
    reply_error_object(context->request, text.data, text.len);
  } else {
    idem__reply_text(context, text.data, text.len);
  }
  idem__buf_deinit(&text);
}

void idem__task_answer_waiters(idem__mcp_worker *worker, idem__task *task) {
  idem__tasks_lock(worker->server);
  bool over = idem__task_terminal(task);
  bool asking = task->state == IDEM__TASK_INPUT;
  idem__tasks_unlock(worker->server);
  for (idem__list *at = worker->waiters.next; at != &worker->waiters && (over || asking);) {
    waiter *who = IDEM__CONTAINER(at, waiter, link);
    at = at->next;
    if (who->task != task) continue;
    if (asking) {
      if (idem__task_send_asks(task, who->context)) return;
      continue;
    }
    idem__context *context = who->context;
    idem__list_remove(&who->link);
    answer_result(context, task);
    idem__task_unref(task);
  }
}

static bool wait_for(idem__context *context, idem__task *task) {
  waiter *who = idem__arena_malloc(idem__request_memory(context->request), sizeof *who);
  if (!who) return false;
  who->context = context;
  who->task = task;
  idem_request_keep(context->request);
  idem_request_on_cancel(context->request, on_waiter_gone, who);
  idem__list_append(&context->worker->waiters, &who->link);
  return true;
}

void idem__run_tasks_result(idem__context *context, yyjson_val *params) {
  idem__task *task = find(context, params);
  if (!task) return;
  idem__tasks_lock(context->server);
  bool over = idem__task_terminal(task);
  idem__tasks_unlock(context->server);
  if (over) {
    answer_result(context, task);
    idem__task_unref(task);
  } else if (!wait_for(context, task)) {
    idem_request_drop(context->request);
    idem__task_unref(task);
  } else {
    idem__task_answer_waiters(context->worker, task);
  }
}
