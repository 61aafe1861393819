/* task.c - work that goes on after its request is answered: the core form of 2025-11-25 and the
 * io.modelcontextprotocol/tasks extension of 2026-07-28. A handler need not know: its request turns
 * into a task, and its answer becomes the task's. */
#include "task.h"
#include "once.h"
#include "page.h"
#include "result.h"
#include "server.h"
#include "wait.h"

#include <string.h>

static bool modern(const idem__context *context) {
  return idem__revision_has(context->revision, IDEM__R_MODERN);
}

bool idem__task_declared(const idem__context *context) {
  yyjson_val *extensions =
      context->capabilities ? yyjson_obj_get(context->capabilities, "extensions") : NULL;
  return yyjson_is_obj(extensions) &&
         yyjson_is_obj(yyjson_obj_get(extensions, IDEM__TASKS_EXTENSION));
}

static bool asks_for_task(const idem__context *context) {
  return yyjson_is_obj(yyjson_obj_get(context->params, "task"));
}

bool idem__task_possible(const idem__context *context) {
  if (modern(context)) return idem__task_declared(context);
  return idem__revision_has(context->revision, IDEM__R_TASKS) && asks_for_task(context);
}

bool idem_can_task(const idem_request *request) {
  const idem__context *context = idem__context_of(request);
  return context && !context->task && idem__task_possible(context);
}

void idem__tasks_write_capability(const idem__context *context, idem__writer *writer) {
  if (context->server->ever_tasks && idem__revision_has(context->revision, IDEM__R_TASKS)) {
    /* Without a principal ids are all that keeps tasks apart: they are not listed then. */
    bool list = context->principal[0] != '\0';
    idem__write_member_raw(
        writer, "tasks",
        list ? "{\"list\":{},\"cancel\":{},\"requests\":{\"tools\":{\"call\":{}}}}"
             : "{\"cancel\":{},\"requests\":{\"tools\":{\"call\":{}}}}");
  }
}

/* ------------------------------------------------------------------ beginning */

/* The peer gets the task's id, unless it has gone and a key keeps its call; the handler keeps the request. Where that fails the
 * request is as before, or settled if it failed so late that the peer was told "Internal error". */
static idem_status answer_created(idem__context *context, idem__task *task) {
  idem__result result;
  idem__result_begin(&result, context, "task");
  idem__task_view view = idem__task_view_of(task);
  if (modern(context)) {
    idem__task_view_write(&view, context->revision, false, &result.writer);
  } else {
    idem__write_key(&result.writer, "task");
    idem__write_object(&result.writer);
    idem__task_view_write(&view, context->revision, false, &result.writer);
    idem__write_object_end(&result.writer);
  }
  idem__task_view_end(&view);
  idem_status status = idem__result_close(&result, NULL);
  if (status == IDEM_OK) {
    idem__answer answer = {.value = {IDEM__VALUE_OWN, result.buf.data, result.buf.len, NULL}};
    if (!idem__request_settled(context->request))
      status = idem__request_settle(context->request, &answer);
    if (status == IDEM_OK) idem__once_became_task(context, result.buf.data, result.buf.len);
  }
  idem__result_abandon(&result);
  return status;
}

/* What a handler said, with every digit it said. */
yyjson_doc *idem__task_read(const idem_server *server, const char *json, size_t len) {
  yyjson_alc alc = idem__json_alc(&server->alloc);
  return yyjson_read_opts((char *)(uintptr_t)json, len, YYJSON_READ_NUMBER_AS_RAW, &alc, NULL);
}

/* The result or the error of an answer, as text. */
static idem_status write_answer(const idem__context *context, const idem__answer *answer,
                                idem_buf *out) {
  idem_buf whole;
  idem_buf_init(&whole, &context->worker->alloc, idem__answer_bytes(context->server));
  idem_policy policy = idem__context_policy(context);
  idem_status status =
      idem__answer_put(&whole, &policy, idem__request_id(context->request), answer);
  yyjson_doc *doc =
      status == IDEM_OK ? idem__task_read(context->server, whole.data, whole.len) : NULL;
  if (status == IDEM_OK && !doc) status = IDEM_E_NOMEM;
  if (doc) {
    yyjson_val *root = yyjson_doc_get_root(doc);
    status = idem__json_put(out, yyjson_obj_get(root, answer->is_error ? "error" : "result"));
  }
  yyjson_doc_free(doc);
  idem_buf_deinit(&whole);
  return status;
}

/* A handler answered with a function of rpc.h: that is the task's outcome as well. */
static void take_late_answer(idem_request *request, const idem__answer *answer) {
  idem__context *context = idem__context_of(request);
  idem_buf text;
  if (!context->task) return;
  if (answer->dropped) {
    idem__task_abandon(context);
    return;
  }
  idem_buf_init(&text, &context->worker->alloc, idem__answer_bytes(context->server));
  /* What cannot be written counts as abandoned. */
  if (write_answer(context, answer, &text) == IDEM_OK) {
    idem__task_finish(context, answer->is_error, false, text.data, text.len);
  }
  idem_buf_deinit(&text);
}

/* Its record is written: the peer is told, and the handler's answer will be the task's. */
static idem_status announce(idem__context *context, idem__task *task) {
  idem_status status = answer_created(context, task);
  if (status != IDEM_OK) {
    idem__task_discard(task);
    return status;
  }
  idem__request_detach(context->request);
  idem__tasks_lock(context->server);
  task->context = context;
  idem__tasks_unlock(context->server);
  context->task = task;
  idem__request_on_late_answer(context->request, take_late_answer);
  return IDEM_OK;
}

static void note_status(idem__task *task, idem_status status, void *user) {
  (void)task;
  *(idem_status *)user = status;
}

/* The store refused the record of a task that its peer was told of, or does not say: it has failed. */
static void on_written_late(idem__task *task, idem_status status, void *user) {
  idem_server *server = task->server;
  (void)user;
  if (status == IDEM_OK || status == IDEM_E_CLOSED) {
    idem__task_first_saved(task, status == IDEM_OK ? task->worker->store_queue : NULL);
    return;
  }
  idem__tasks_lock(server);
  task->saving = task->save_again = false;
  if (!idem__task_terminal(task)) {
    task->cancel_asked = true;
    idem__task_lose_outcome(task);
  }
  idem__tasks_unlock(server);
  idem__tasks_wake(server);
}

/* A handler is told on the spot. A store that answers later may refuse when the peer knows already. */
idem_status idem_task_start(idem_request *request) {
  idem__context *context = idem__context_of(request);
  idem__task *task;
  if (!idem_can_task(request) || idem__request_settled(request)) return IDEM_E_STATE;
  idem_status status = idem__work_begin(request); /* it leaves its conn, not whose work it is */
  if (status == IDEM_OK) status = idem__task_create(context, &task);
  if (status != IDEM_OK) return status;
  bool immediate = context->server->store->kind->immediate;
  if (immediate) idem__task_write_first(task, NULL, note_status, &status);
  if (status != IDEM_OK) {
    idem__task_discard(task);
    return status;
  }
  if (immediate) idem__task_first_saved(task, NULL);
  status = announce(context, task);
  if (status == IDEM_OK && !immediate)
    idem__task_write_first(task, context->worker->store_queue, on_written_late, NULL);
  return status;
}

void idem_task_status(idem_request *request, const char *message) {
  idem__context *context = idem__context_of(request);
  idem__task *task = context ? context->task : NULL;
  if (!task) return;
  idem_server *server = context->server;
  idem__task_text *copy = message ? idem__task_text_new(server, message, strlen(message)) : NULL;
  idem__tasks_lock(context->server);
  idem__task_text_unref(server, task->message);
  task->message = copy;
  if (!idem__task_terminal(task)) idem__task_set_state(task, task->state);
  idem__tasks_unlock(context->server);
  idem__tasks_wake(context->server);
}

/* 2025-11-25 wants this code; the message and the data say what it is about. */
static bool refuse_core(idem__context *context, const char *why) {
  const idem__tool_entry *tool = context->tool;
  char text[IDEM__CAUSE];
  const char *cause = idem__cause(context, text, "Tool %s %s", tool->name, why);
  idem_buf data;
  idem_buf_init(&data, &context->worker->alloc, idem__answer_bytes(context->server));
  idem__writer writer = idem__writer_on(&data);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "method", "tools/call");
  idem__write_member_text(&writer, "tool", tool->name);
  idem__write_member_text(&writer, "taskSupport", idem__task_support_word(tool->task));
  idem__write_object_end(&writer);
  idem__reply_failure(context, IDEM_RPC_METHOD_NOT_FOUND, cause,
                      writer.status == IDEM_OK ? data.data : NULL, data.len);
  idem_buf_deinit(&data);
  return false;
}

/* `task` is an object, its `ttl` a number of milliseconds; false: refused. */
static bool task_param_fine(idem__context *context) {
  yyjson_val *task = yyjson_obj_get(context->params, "task");
  yyjson_val *ttl = yyjson_is_obj(task) ? yyjson_obj_get(task, "ttl") : NULL;
  int64_t ms;
  if (task && !yyjson_is_obj(task)) {
    idem__reply_bad_param(context, "task", "object", task);
  } else if (ttl && (!idem__json_get_int(ttl, &ms) || ms < 0)) {
    idem__reply_bad_param(context, "task.ttl", "a number of milliseconds", ttl);
  } else {
    return true;
  }
  return false;
}

static bool refuse_required(idem__context *context) {
  if (modern(context)) {
    idem__refuse_capability(context, IDEM__TASKS_REQUIRED);
    return false;
  }
  if (idem__revision_has(context->revision, IDEM__R_TASKS))
    return refuse_core(context, "runs as a task: send task");
  idem_tool_failed(context->request, "This tool runs as a task, which this client cannot follow.");
  return false;
}

/* A task that is to begin when its record is there. */
typedef struct starting {
  idem__wait *wait;
  idem__task *task;
  bool written; /* the store has said something */
  bool later;   /* after the call that asked it */
  bool begun;
} starting;

static void on_started(idem__context *context, idem_status status, void *user) {
  starting *start = user;
  if (status == IDEM_OK)
    status = announce(context, start->task);
  else
    idem__task_discard(start->task);
  start->task = NULL;
  start->begun = status == IDEM_OK;
  if (idem__is_unknown(status))
    idem__refuse_unavailable(context);
  else if (status != IDEM_OK)
    idem__refuse_for_room(context, status);
  else if (start->later)
    idem__context_rerun(context);
}

static void on_written(idem__task *task, idem_status status, void *user) {
  starting *start = user;
  idem_alloc alloc = task->server->alloc;
  bool later = start->later;
  start->written = true;
  idem__task_first_saved(task, NULL);
  idem__wait_end(status, start->wait);
  if (start->task) idem__task_discard(start->task); /* nobody waited for it */
  if (later) idem__free(&alloc, start);
}

/* True: the handler may run. */
static bool start_first(idem__context *context) {
  idem_server *server = context->server;
  idem__task *task = NULL;
  idem_status status = idem__work_begin(context->request);
  if (status == IDEM_OK) status = idem__task_create(context, &task);
  starting *start = status == IDEM_OK ? idem__calloc(&server->alloc, sizeof *start) : NULL;
  if (!start) {
    if (task && status == IDEM_OK) idem__task_discard(task);
    idem__refuse_for_room(context, status == IDEM_OK ? IDEM_E_NOMEM : status);
    return false;
  }
  start->task = task;
  start->wait = idem__wait_begin(context, on_started, start);
  if (!start->wait) {
    idem__task_discard(task);
    idem__free(&server->alloc, start);
    return false;
  }
  idem__wait *wait = start->wait;
  idem__task_write_first(task, context->worker->store_queue, on_written, start);
  bool begun = start->begun;
  start->later = !start->written;
  if (start->written) idem__free(&server->alloc, start);
  idem__wait_keep(wait);
  return begun;
}

bool idem__task_admit(idem__context *context, yyjson_val *params) {
  (void)params;
  idem_task_support support = context->tool->task;
  bool possible = idem__task_possible(context);
  bool core = idem__revision_has(context->revision, IDEM__R_TASKS);
  if (!context->server->ever_tasks) return true; /* not declared: `task` means nothing */
  if (core && !task_param_fine(context)) return false;
  if (support == IDEM_TASK_NEVER) {
    if (!core || !asks_for_task(context)) return true;
    return refuse_core(context, "does not run as a task: leave task out");
  }
  if (support == IDEM_TASK_REQUIRED && !possible) return refuse_required(context);
  /* A core peer that asked for a task must get one, also where the handler would choose. */
  bool start = possible && (support != IDEM_TASK_BY_HAND || core);
  if (!start) return true;
  return start_first(context);
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

static const char no_room[] =
    "{\"code\":-32603,\"message\":\"Internal error\",\"data\":{\"reason\":"
    "\"no-room-for-the-result\"}}";

#define WHY_MAX 256u

/* What a failure says of itself: an error's message, the first text of a failed tool. Counted; NULL: it says
 * nothing. */
static idem__task_text *why_failed(idem_server *server, bool is_error, const char *json,
                                   size_t len) {
  yyjson_alc alc = idem__json_alc(&server->alloc);
  yyjson_doc *doc =
      yyjson_read_opts((char *)(uintptr_t)json, len, YYJSON_READ_NUMBER_AS_RAW, &alc, NULL);
  yyjson_val *root = yyjson_doc_get_root(doc);
  yyjson_val *text =
      is_error ? yyjson_obj_get(root, "message")
               : yyjson_obj_get(yyjson_arr_get_first(yyjson_obj_get(root, "content")), "text");
  const char *says = yyjson_get_str(text);
  size_t said = says ? idem_utf8_cut(says, yyjson_get_len(text), WHY_MAX) : 0;
  idem__task_text *copy = says ? idem__task_text_new(server, says, said) : NULL;
  yyjson_doc_free(doc);
  return copy;
}

/* With the lock held: a task that is over says how it failed, or nothing: what it did last is past. */
void idem__task_set_words(idem__task *task, idem__task_text *words) {
  idem__task_text_unref(task->server, task->message);
  task->message = words;
}

/* Charged. False: there is no room for it; where there is but no memory it is NULL. */
static bool keep_outcome(idem_server *server, const char *json, size_t len,
                         idem__task_text **outcome) {
  *outcome = NULL;
  if (!idem__tasks_charge(server, len)) return false;
  *outcome = idem__task_text_new(server, json, len);
  if (*outcome)
    (*outcome)->charged = len;
  else
    idem__tasks_release_bytes(server, len);
  return true;
}

/* Sets the outcome of one that has none yet. One that there is no room for is a failure. */
static void end_task(idem__task *task, idem__task_state state, bool is_error, const char *json,
                     size_t len) {
  idem_server *server = task->server;
  idem__task_text *outcome;
  bool fits = keep_outcome(server, json, len, &outcome);
  idem__task_text *why =
      state == IDEM__TASK_FAILED ? why_failed(server, is_error, json, len) : NULL;
  idem__tasks_lock(server);
  bool ends = !idem__task_terminal(task);
  if (ends) {
    idem__task_set_words(task, why);
    idem__task_text_unref(server, task->outcome);
    task->outcome = outcome;
    task->is_error = is_error;
    idem__task_set_state(task, state);
    if (!fits) idem__task_lose_outcome(task);
  }
  idem__tasks_unlock(server);
  if (ends) return;
  idem__task_text_unref(server, outcome);
  idem__task_text_unref(server, why);
}

void idem__task_lose_outcome(idem__task *task) {
  idem_server *server = task->server;
  idem__task_text_unref(server, task->outcome);
  task->outcome = idem__task_text_new(server, no_room, sizeof no_room - 1);
  task->is_error = true;
  idem__task_set_state(task, IDEM__TASK_FAILED);
}

idem_status idem__task_finish(idem__context *context, bool is_error, bool tool_failed,
                              const char *json, size_t len) {
  idem_server *server = context->server;
  idem__task_state state = outcome_state(context, is_error, tool_failed);
  idem__tool_count_task(context, is_error      ? IDEM__OUTCOME_ERROR
                                 : tool_failed ? IDEM__OUTCOME_FAILED
                                               : IDEM__OUTCOME_OK);
  end_task(context->task, state, is_error, json, len);
  leave(context);
  idem_request_drop(context->request); /* settled long ago: this only ends it */
  idem__tasks_wake(server);
  return IDEM_OK;
}

void idem__task_abandon(idem__context *context) {
  static const char gave_up[] = "{\"code\":-32603,\"message\":\"Internal error\"}";
  idem_server *server = context->server;
  bool cancelled = idem_request_cancelled(context->request);
  /* One whose client took it back has an outcome: what is said here is for those that ended with their server. */
  const char *error = cancelled ? IDEM__TASK_DIED : gave_up;
  idem__tool_count_task(context, cancelled ? IDEM__OUTCOME_CANCELLED : IDEM__OUTCOME_ERROR);
  end_task(context->task, IDEM__TASK_FAILED, true, error, strlen(error));
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
