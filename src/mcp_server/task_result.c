/* task_result.c - tasks/result of 2025-11-25: who asks for it waits on its worker until the task is over, and
 * is asked meanwhile what the task asks. */
#include "result.h"
#include "server.h"
#include "task.h"

#define TASK_CANCELLED (-32000)

/* Somebody waits for a task's result. Lives in its request's memory. */
typedef struct waiter {
  idem_list link; /* in worker->waiters */
  idem__context *context;
  idem__task *task;
} waiter;

/* Out of the list; the task stays counted. */
static void leave(waiter *who) {
  idem_list_remove(&who->link);
  atomic_fetch_sub(&who->context->server->node.awaited, 1);
}

static void stop_waiting(waiter *who) {
  leave(who);
  idem__task_unref(who->task);
}

static void on_waiter_gone(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason;
  stop_waiting(user);
  idem_request_drop(request);
}

/* The original result, with a word about which task it belongs to. */
static idem_status write_with_relation(idem_buf *out, const idem__task *task,
                                       const idem__task_text *outcome) {
  yyjson_alc alc = idem__json_alc(&task->server->alloc);
  yyjson_doc *parsed = idem__task_read(task->server, outcome->bytes, outcome->len);
  yyjson_mut_doc *doc = parsed ? yyjson_doc_mut_copy(parsed, &alc) : NULL;
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

/* How much is said of it was decided when the task ended. */
static void reply_error_object(idem__context *context, const idem__task_text *outcome) {
  yyjson_doc *doc = idem__task_read(context->server, outcome->bytes, outcome->len);
  yyjson_val *error = yyjson_doc_get_root(doc), *data = yyjson_obj_get(error, "data");
  idem__answer answer = {.is_error = true,
                         .code = IDEM_RPC_INTERNAL_ERROR,
                         .message = yyjson_get_str(yyjson_obj_get(error, "message"))};
  idem__json_get_int(yyjson_obj_get(error, "code"), &answer.code);
  if (data) answer.value = (idem__value){IDEM__VALUE_PARSED, data, 0, NULL};
  if (doc)
    idem__reply_answer(context->request, &answer);
  else
    idem__reply_failure(context, IDEM_RPC_INTERNAL_ERROR, NULL, NULL, 0);
  yyjson_doc_free(doc);
}

/* A cancelled request would have had no answer; whoever asks for it must get one, and nothing broke. */
static void answer_cancelled(idem__context *context, const idem__task *task) {
  char data[64];
  idem_buf text;
  idem_buf_fixed(&text, data, sizeof data);
  idem_buf_printf(&text, "{\"taskId\":\"%s\"}", task->id);
  idem__reply_failure(context, TASK_CANCELLED, "Task cancelled", text.data, text.len);
}

/* What is written for the first serves all who wait. */
static void reply_result_object(idem__context *context, const idem__task *task,
                                const idem__task_text *outcome, idem_buf *text) {
  if (text->len || write_with_relation(text, task, outcome) == IDEM_OK) {
    idem__reply_text(context, text->data, text->len);
    return;
  }
  text->len = 0;
  idem__reply_failure(context, IDEM_RPC_INTERNAL_ERROR, NULL, NULL, 0);
}

static void answer_result(idem__context *context, idem__task *task, idem_buf *text) {
  idem_server *server = context->server;
  idem__tasks_lock(server);
  idem__task_text *outcome = idem__task_text_ref(task->outcome);
  bool is_error = task->is_error, cancelled = task->state == IDEM__TASK_CANCELLED;
  idem__tasks_unlock(server);
  if (cancelled)
    answer_cancelled(context, task);
  else if (!outcome)
    idem__reply_failure(context, IDEM_RPC_INTERNAL_ERROR, NULL, NULL, 0);
  else if (is_error)
    reply_error_object(context, outcome);
  else
    reply_result_object(context, task, outcome, text);
  idem__task_text_unref(server, outcome);
}

static idem_buf result_buffer(idem__mcp_worker *worker) {
  idem_buf text;
  idem_buf_init(&text, &worker->alloc, idem__answer_bytes(worker->server));
  return text;
}

static waiter *next_waiter(const idem__mcp_worker *worker, const idem__task *task) {
  for (idem_list *at = worker->waiters.next; at != &worker->waiters; at = at->next) {
    waiter *who = IDEM_CONTAINER(at, waiter, link);
    if (who->task == task) return who;
  }
  return NULL;
}

/* The rest of those who wait for a task that is over. */
typedef struct rest {
  idem__mcp_worker *worker;
  idem__task *task;
} rest;

static void answer_all(idem__mcp_worker *worker, idem__task *task);

static void answer_rest(void *arg) {
  rest left = *(rest *)arg;
  idem__free(&left.worker->alloc, arg);
  answer_all(left.worker, left.task);
  idem__task_unref(left.task);
}

/* False: not without memory. */
static bool put_off(idem__mcp_worker *worker, idem__task *task) {
  rest *left = idem__malloc(&worker->alloc, sizeof *left);
  if (!left) return false;
  *left = (rest){worker, task};
  idem__tasks_lock(worker->server);
  task->refs++;
  idem__tasks_unlock(worker->server);
  if (idem__worker_post(worker, answer_rest, left) == IDEM_OK) return true;
  idem__task_unref(task);
  idem__free(&worker->alloc, left);
  return false;
}

static void answer_all(idem__mcp_worker *worker, idem__task *task) {
  idem_buf text = result_buffer(worker);
  for (waiter *who; (who = next_waiter(worker, task));) {
    idem__context *context = who->context;
    leave(who);
    answer_result(context, task, &text);
    idem__task_unref(task); /* the waiter's: somebody else has it, too */
    if (idem__worker_turn_over(worker) && put_off(worker, task)) break;
  }
  idem_buf_deinit(&text);
}

static void ask_waiters(const idem__mcp_worker *worker, idem__task *task) {
  for (idem_list *at = worker->waiters.next; at != &worker->waiters;) {
    const waiter *who = IDEM_CONTAINER(at, waiter, link);
    at = at->next;
    if (who->task == task && idem__task_send_asks(task, who->context)) return;
  }
}

void idem__task_answer_waiters(idem__mcp_worker *worker, idem__task *task) {
  idem__tasks_lock(worker->server);
  bool over = idem__task_terminal(task);
  bool asking = task->state == IDEM__TASK_INPUT;
  idem__tasks_unlock(worker->server);
  if (asking)
    ask_waiters(worker, task);
  else if (over)
    answer_all(worker, task);
}

static bool wait_for(idem__context *context, idem__task *task) {
  waiter *who = idem__arena_malloc(idem__request_memory(context->request), sizeof *who);
  if (!who) return false;
  who->context = context;
  who->task = task;
  idem__tasks_lock(context->server);
  task->refs++;
  idem__tasks_unlock(context->server);
  idem_request_keep(context->request);
  idem_request_on_cancel(context->request, on_waiter_gone, who);
  idem_list_append(&context->worker->waiters, &who->link);
  atomic_fetch_add(&context->server->node.awaited, 1); /* it may run at another */
  return true;
}

static void on_checked(idem__task *task, idem_status status, void *user) {
  (void)status, (void)user;
  idem__task_unref(task);
}

/* Of the end of the node that runs it nobody may have been told: where it is not among those that live its record is asked for. */
void idem__task_look_for_waiters(idem__mcp_worker *worker) {
  idem_server *server = worker->server;
  unsigned looks = atomic_load(&server->node.looks);
  if (worker->looks == looks) return;
  worker->looks = looks;
  for (idem_list *at = worker->waiters.next; at != &worker->waiters; at = at->next) {
    idem__task *task = IDEM_CONTAINER(at, waiter, link)->task;
    if (!task->node[0] || idem__node_lives(server, idem__node_number_of(task->node))) continue;
    idem__tasks_lock(server);
    task->refs++;
    idem__tasks_unlock(server);
    idem__task_check(task, worker->store_queue, IDEM_OK, on_checked, NULL);
  }
}

static void answer_now(idem__context *context, idem__task *task) {
  idem_buf text = result_buffer(context->worker);
  answer_result(context, task, &text);
  idem_buf_deinit(&text);
}

static void await_result(idem__context *context, idem__task *task) {
  idem__tasks_lock(context->server);
  bool over = idem__task_terminal(task);
  idem__tasks_unlock(context->server);
  if (over)
    answer_now(context, task);
  else if (wait_for(context, task))
    idem__task_answer_waiters(context->worker, task);
  else
    idem_request_drop(context->request);
}

void idem__run_tasks_result(idem__context *context, yyjson_val *params) {
  idem__with_task(context, params, await_result);
}
