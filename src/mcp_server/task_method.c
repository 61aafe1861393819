/* task_method.c - what peers ask of tasks by name: tasks/get, tasks/cancel, tasks/update, tasks/list. A task
 * is looked for in the store first, so that its request may wait. */
#include "page.h"
#include "result.h"
#include "server.h"
#include "task.h"
#include "wait.h"

#include <string.h>

#define CHANGES_MAX 8 /* tries, when others change the same task */

/* A task that a method names, looked for in the store. */
typedef struct finding {
  idem__task_loading loading;
  idem__wait *wait;
  idem__task_fn fn;
  idem__task *task; /* counted */
} finding;

static void on_found(idem__context *context, idem_status status, void *user) {
  const finding *found = user;
  bool theirs = found->task && strcmp(found->task->principal, context->principal) == 0;
  if (theirs)
    found->fn(context, found->task);
  else if (found->task || status == IDEM_OK || status == IDEM_E_NOTFOUND)
    idem__reply_bad_param(context, "taskId", "the id of a task",
                          yyjson_obj_get(context->params, "taskId"));
  else
    idem__refuse_unavailable(context);
}

static void on_checked(idem__task *task, idem_status status, void *user) {
  finding *found = user;
  idem_alloc alloc = found->loading.server->alloc;
  found->task = task;
  idem__wait_end(status, found->wait);
  if (task) idem__task_unref(task);
  idem__free(&alloc, found);
}

static void on_loaded(idem__task *task, idem_status status, void *user) {
  finding *found = user;
  idem__task_check(task, found->loading.queue, status, on_checked, found);
}

static void look_for(idem__context *context, const char *id, idem__task_fn fn) {
  idem_server *server = context->server;
  finding *found = idem__calloc(&server->alloc, sizeof *found);
  idem__wait *wait = found ? idem__wait_begin(context, on_found, found) : NULL;
  if (!wait) {
    if (!found) idem_request_drop(context->request);
    idem__free(&server->alloc, found);
    return;
  }
  found->fn = fn;
  found->wait = wait;
  found->loading = (idem__task_loading){
      .server = server, .queue = context->worker->store_queue, .loaded = on_loaded, .user = found};
  memcpy(found->loading.id, id, IDEM__TASK_ID);
  idem__task_load(&found->loading);
  idem__wait_keep(wait);
}

void idem__with_task(idem__context *context, yyjson_val *params, idem__task_fn fn) {
  yyjson_val *id = params ? yyjson_obj_get(params, "taskId") : NULL;
  if (idem__revision_has(context->revision, IDEM__R_MODERN) && !idem__task_declared(context)) {
    idem__refuse_capability(context, IDEM__TASKS_REQUIRED);
  } else if (!yyjson_is_str(id)) {
    idem__reply_bad_param(context, "taskId", "string", id);
  } else if (yyjson_get_len(id) != IDEM__TASK_ID) {
    idem__reply_bad_param(context, "taskId", "the id of a task", id);
  } else {
    idem__tasks_purge(context->server);
    look_for(context, yyjson_get_str(id), fn);
  }
}

static void answer_task(idem__context *context, idem__task *task) {
  idem__result result;
  idem__result_begin(&result, context, "complete");
  idem__task_view view = idem__task_view_of(task);
  idem__task_view_write(&view, context->revision, true, &result.writer);
  idem__task_view_end(&view);
  idem__result_end(&result, NULL);
}

static void answer_acknowledged(idem__context *context) {
  idem__result result;
  idem__result_begin(&result, context, "complete");
  idem__result_end(&result, NULL);
}

void idem__run_tasks_get(idem__context *context, yyjson_val *params) {
  idem__with_task(context, params, answer_task);
}

/* ----------------------------------------------------- tasks/cancel, tasks/update */

/* Somebody changed a task whose handler runs elsewhere, and is told when the store has it: whoever runs the
 * handler hears of it from there alone. Lives in its request's memory. */
typedef struct unsaved {
  idem_list link; /* in worker->unsaved */
  idem__context *context;
  idem__task *task;
  idem__task_fn change, answer;
} unsaved;

/* The task is still counted. */
static void stop_awaiting(unsaved *one) {
  idem_list_remove(&one->link);
  idem__tasks_lock(one->task->server);
  one->task->awaited--;
  idem__tasks_unlock(one->task->server);
}

static void on_unsaved_gone(idem_request *request, idem_cancel_reason reason, void *user) {
  idem__task *task = ((unsaved *)user)->task;
  (void)reason;
  stop_awaiting(user);
  idem__task_unref(task);
  idem_request_drop(request);
}

/* True: it is known what became of it. */
static bool is_settled(idem__task *task, idem_status *status) {
  idem__tasks_lock(task->server);
  bool settled = !task->dirty && !task->saving;
  *status = task->saved;
  idem__tasks_unlock(task->server);
  return settled;
}

static unsaved *first_settled(const idem__mcp_worker *worker, idem_status *status) {
  for (idem_list *at = worker->unsaved.next; at != &worker->unsaved; at = at->next) {
    unsaved *one = IDEM_CONTAINER(at, unsaved, link);
    if (is_settled(one->task, status)) return one;
  }
  return NULL;
}

static void answer_settled(const unsaved *it, idem_status status) {
  idem__context *context = it->context;
  if (status == IDEM_OK)
    it->answer(context, it->task);
  else if (status == IDEM_E_LIMIT)
    idem__refuse_for_room(context, status);
  else if (idem__is_unknown(status) || context->changes++ == CHANGES_MAX)
    idem__refuse_unavailable(context);
  else
    look_for(context, it->task->id, it->change); /* somebody was faster */
}

/* Each answer may end others, so the search begins anew. */
void idem__tasks_answer_saved(idem__mcp_worker *worker) {
  idem_status status;
  for (unsaved *one; (one = first_settled(worker, &status));) {
    unsaved it = *one; /* goes with its request */
    stop_awaiting(one);
    idem_request_on_cancel(it.context->request, NULL, NULL);
    answer_settled(&it, status);
    idem__task_unref(it.task);
  }
}

/* Answers when the change is kept: at once where the handler is one of ours. */
static void answer_saved(idem__context *context, idem__task *task, idem__task_fn change,
                         idem__task_fn answer) {
  idem_server *server = context->server;
  unsaved *one =
      task->worker ? NULL : idem__arena_malloc(idem__request_memory(context->request), sizeof *one);
  if (!one) {
    answer(context, task);
    idem__tasks_wake(server);
    return;
  }
  *one = (unsaved){.context = context, .task = task, .change = change, .answer = answer};
  idem__tasks_lock(server);
  task->refs++;
  task->awaited++;
  task->saved = IDEM_OK;
  idem__tasks_unlock(server);
  idem_request_keep(context->request);
  idem_request_on_cancel(context->request, on_unsaved_gone, one);
  idem_list_append(&context->worker->unsaved, &one->link);
  idem__mcp_worker *worker = context->worker;
  idem__tasks_wake(server);
  idem__tasks_answer_saved(worker);
}

static void acknowledge(idem__context *context, idem__task *task) {
  (void)task;
  answer_acknowledged(context);
}

static void cancel_task(idem__context *context, idem__task *task) {
  idem_server *server = context->server;
  bool modern = idem__revision_has(context->revision, IDEM__R_MODERN);
  idem__tasks_lock(server);
  bool was_over = idem__task_terminal(task);
  if (!was_over) {
    task->cancel_asked = true;
    idem__task_set_words(task, NULL);
    idem__task_set_state(task, IDEM__TASK_CANCELLED);
  }
  idem__tasks_unlock(server);
  if (was_over && !modern)
    idem__reply_bad_param(context, "taskId", "a task that is not over", NULL);
  else
    answer_saved(context, task, cancel_task, modern ? acknowledge : answer_task);
}

void idem__run_tasks_cancel(idem__context *context, yyjson_val *params) {
  idem__with_task(context, params, cancel_task);
}

static void update_task(idem__context *context, idem__task *task) {
  yyjson_val *answers = yyjson_obj_get(context->params, "inputResponses");
  if (!yyjson_is_obj(answers)) {
    idem__reply_bad_param(context, "inputResponses", "object", answers);
    return;
  }
  idem_status status = idem__task_take_answers(task, context, answers);
  if (status == IDEM_OK)
    answer_saved(context, task, update_task, acknowledge);
  else
    idem__refuse_for_room(context, status);
}

void idem__run_tasks_update(idem__context *context, yyjson_val *params) {
  idem__with_task(context, params, update_task);
}

/* ----------------------------------------------------------------- tasks/list */

/* A page of tasks/list, gathered while its request waits. */
typedef struct task_page {
  idem__task_listing listing;
  idem__wait *wait;
  char *principal; /* the request may go before the list is there */
  idem_buf tasks;
  idem__writer writer;
  size_t count;
  uint64_t last; /* shown */
  bool more;
} task_page;

static bool write_listed(const idem__task *task, uint64_t number, void *user) {
  task_page *page = user;
  const idem__context *context = idem__wait_context(page->wait);
  page->more = context && page->count == context->server->opts.page_size;
  if (!context || page->more) return false;
  idem__task_view view = idem__task_view_take(task); /* its image is nobody else's */
  idem__write_object(&page->writer);
  idem__task_view_write(&view, context->revision, false, &page->writer);
  idem__write_object_end(&page->writer);
  idem__task_view_end(&view);
  page->count++;
  page->last = number;
  return true;
}

static void answer_page(idem__context *context, idem_status status, void *user) {
  task_page *page = user;
  idem__write_array_end(&page->writer);
  bool refused = status != IDEM_OK && page->writer.status == IDEM_OK; /* by the store */
  if (status == IDEM_OK) status = page->writer.status;
  if (refused) {
    idem__refuse_unavailable(context);
    return;
  }
  idem__result result;
  idem__result_begin(&result, context, NULL);
  idem__write_key(&result.writer, "tasks");
  idem__write_raw(&result.writer, page->tasks.data, page->tasks.len);
  if (page->more) idem__write_position(&result.writer, "nextCursor", (size_t)page->last);
  if (status != IDEM_OK) result.writer.status = status;
  idem__result_end(&result, NULL);
}

static void on_listed(idem_status status, void *user) {
  task_page *page = user;
  idem_alloc alloc = page->listing.server->alloc;
  idem__wait_end(status, page->wait);
  idem_buf_deinit(&page->tasks);
  idem__free(&alloc, page->principal);
  idem__free(&alloc, page);
}

static task_page *new_page(const idem__context *context) {
  const idem_alloc *alloc = &context->server->alloc;
  task_page *page = idem__calloc(alloc, sizeof *page);
  if (!page) return NULL;
  page->principal = idem__strndup(alloc, context->principal, strlen(context->principal));
  if (page->principal) return page;
  idem__free(alloc, page);
  return NULL;
}

static void list_tasks(idem__context *context, uint64_t after) {
  idem_server *server = context->server;
  task_page *page = new_page(context);
  idem__wait *wait = page ? idem__wait_begin(context, answer_page, page) : NULL;
  if (!wait) {
    if (!page) idem_request_drop(context->request);
    if (page) idem__free(&server->alloc, page->principal);
    idem__free(&server->alloc, page);
    return;
  }
  page->wait = wait;
  idem_buf_init(&page->tasks, &server->alloc, idem__answer_bytes(server));
  page->writer = idem__writer_on(&page->tasks);
  idem__write_array(&page->writer);
  page->listing = (idem__task_listing){.server = server,
                                       .queue = context->worker->store_queue,
                                       .principal = page->principal,
                                       .after = after,
                                       .limit = server->opts.page_size + 1,
                                       .each = write_listed,
                                       .listed = on_listed,
                                       .user = page};
  idem__tasks_list(&page->listing);
  idem__wait_keep(wait);
}

void idem__run_tasks_list(idem__context *context, yyjson_val *params) {
  yyjson_val *cursor = params ? yyjson_obj_get(params, "cursor") : NULL;
  int64_t from = 0;
  if (context->principal[0] == '\0')
    idem__refuse_unknown_method(context);
  else if (cursor && !yyjson_equals_str(cursor, "") &&
           (!yyjson_is_str(cursor) || !idem__parse_position(cursor, &from)))
    idem__reply_bad_param(context, "cursor", "a cursor of this list", cursor);
  else
    list_tasks(context, (uint64_t)from);
}
