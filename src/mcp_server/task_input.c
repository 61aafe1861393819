/* task_input.c - a task whose handler needs more. The questions wait in the task; answers come by
 * tasks/update (2026-07-28) or as responses to requests sent to whoever waits in tasks/result
 * (2025-11-25). When none is missing the handler runs again on its own thread. */
#include "ask.h"
#include "input.h"
#include "result.h"
#include "server.h"
#include "session.h"
#include "task.h"

#include <string.h>

/* ----------------------------------------------------------------- asking */

static idem__task_text *ask_text(idem__context *context, const idem_ask *ask) {
  idem_buf json;
  idem__task_text *copy = NULL;
  idem_buf_init(&json, &context->worker->alloc, (size_t)16 << 20);
  idem__writer writer = idem__writer_on(&json);
  idem__ask_write(context, ask, &writer);
  if (writer.status == IDEM_OK) {
    copy = idem__task_text_new(context->server, json.data, json.len);
  }
  idem_buf_deinit(&json);
  return copy;
}

/* What the peer is asked under. A client shows each name once, and its answer may be late, so no round
 * has the names of another: from the second on they end in '#' and its number, and what has a '#' in
 * the first ends in "#1". */
static idem__task_text *make_name(idem__context *context, const char *key, uint64_t round) {
  idem_buf name;
  idem_buf_init(&name, &context->worker->alloc, (size_t)16 << 20);
  bool plain = round == 1 && !strchr(key, '#');
  idem_status written = plain ? idem_buf_printf(&name, "%s", key)
                              : idem_buf_printf(&name, "%s#%llu", key, (unsigned long long)round);
  idem__task_text *copy =
      written == IDEM_OK ? idem__task_text_new(context->server, name.data, name.len) : NULL;
  idem_buf_deinit(&name);
  return copy;
}

static idem__task_ask_entry *copy_asks(idem__context *context, const idem_ask *asks, size_t count) {
  idem_server *server = context->server;
  idem__task_ask_entry *entries = idem__calloc(&server->alloc, (count + 1) * sizeof *entries);
  idem_status status = entries ? IDEM_OK : IDEM_E_NOMEM;
  for (size_t i = 0; i < count && status == IDEM_OK; i++) {
    entries[i].key = idem__task_text_new(server, asks[i].key, strlen(asks[i].key));
    entries[i].name = make_name(context, asks[i].key, context->task->round + 1);
    entries[i].json = ask_text(context, &asks[i]);
    if (!entries[i].key || !entries[i].name || !entries[i].json) status = IDEM_E_NOMEM;
  }
  if (status == IDEM_OK) return entries;
  if (entries) idem__task_free_entries(server, entries, count);
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
    task->round++;
    idem__task_set_state(task, IDEM__TASK_INPUT);
  }
  idem__tasks_unlock(server);
  if (old) idem__task_free_entries(server, old, old_count);
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

/* With the lock held: an answer that is text already. */
static idem_status keep_answer(idem__task *task, idem__task_ask_entry *entry,
                               idem__task_text *answer) {
  if (!idem__task_text_charge(task->server, answer)) return IDEM_E_LIMIT;
  entry->answer = idem__task_text_ref(answer);
  return IDEM_OK;
}

static bool fits(idem__context *context, const idem__task_text *contract, yyjson_val *answer) {
  char why[256] = "no memory";
  yyjson_alc alc = idem__json_alc(&context->server->alloc);
  yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)contract->bytes, contract->len,
                                     YYJSON_READ_BIGNUM_AS_RAW, &alc, NULL);
  bool fine = doc && idem__answer_fits(context->worker, context->revision, yyjson_doc_get_root(doc),
                                       answer, why, sizeof why);
  if (!fine) idem_request_log(context->request, NULL, IDEM_LOG_WARN, "an answer does not fit", why);
  yyjson_doc_free(doc);
  return fine;
}

static idem_status write_answer(idem__context *context, yyjson_val *answer, idem__task_text **out) {
  idem_buf json;
  idem_buf_init(&json, &context->worker->alloc, idem__answer_bytes(context->server));
  idem_status status = idem__json_put(&json, answer);
  if (status == IDEM_OK) {
    *out = idem__task_text_new(context->server, json.data, json.len);
    if (!*out) status = IDEM_E_NOMEM;
  }
  idem_buf_deinit(&json);
  return status;
}

/* Puts into a view of the task, whose questions are open, the answers that fit: the text is made while
 * nobody waits for it. An answer that was there is not the view's any more. */
static idem_status write_fitting(idem__context *context, yyjson_val *answers,
                                 idem__task_view *view) {
  idem_status status = view->status;
  for (size_t i = 0; i < view->ask_count && status == IDEM_OK; i++) {
    idem__task_ask_entry *entry = &view->asks[i];
    yyjson_val *answer = yyjson_obj_get(answers, idem__task_text_bytes(entry->name));
    idem__task_text_unref(context->server, entry->answer);
    entry->answer = NULL;
    if (answer && entry->json && fits(context, entry->json, answer) && yyjson_is_obj(answer))
      status = write_answer(context, answer, &entry->answer);
  }
  return status;
}

/* With the lock held. STATE: some are missing still. */
static idem_status take_written(idem__task *task, const idem__task_view *written) {
  idem_status all = IDEM_OK;
  for (size_t i = 0; i < task->ask_count; i++) {
    idem__task_ask_entry *entry = &task->asks[i];
    idem__task_text *answer = i < written->ask_count ? written->asks[i].answer : NULL;
    if (entry->answer) continue;
    idem_status status = answer ? keep_answer(task, entry, answer) : IDEM_E_STATE;
    if (status == IDEM_E_LIMIT) return status;
    if (status != IDEM_OK) all = status;
  }
  return all;
}

/* With the lock held: every question has its answer. */
static void go_on(idem__task *task) {
  task->resume = true;
  idem__task_set_state(task, IDEM__TASK_WORKING);
}

/* Answers to questions that nobody asks any more are acknowledged like others. */
idem_status idem__task_take_answers(idem__task *task, idem__context *context, yyjson_val *answers) {
  idem__task_view view = idem__task_view_of(task);
  idem_status status = write_fitting(context, answers, &view);
  idem__tasks_lock(task->server);
  bool open = task->state == IDEM__TASK_INPUT && task->round == view.round;
  if (status == IDEM_OK && open) {
    status = take_written(task, &view);
    if (status == IDEM_OK) go_on(task);
  }
  idem__tasks_unlock(task->server);
  idem__task_view_end(&view);
  return status == IDEM_E_STATE ? IDEM_OK : status;
}

static yyjson_val *collect(idem__task *task) {
  idem__context *context = task->context;
  idem_buf json;
  idem_status status;
  yyjson_doc *doc = NULL;
  idem_buf_init(&json, &context->worker->alloc, idem__answer_bytes(context->server));
  idem__writer writer = idem__writer_on(&json);
  idem__task_view view = idem__task_view_of(task);
  idem__write_object(&writer);
  for (size_t i = 0; i < view.ask_count; i++) {
    idem__write_member_raw(&writer, idem__task_text_bytes(view.asks[i].key),
                           idem__task_text_bytes(view.asks[i].answer));
  }
  idem__write_object_end(&writer);
  if (writer.status == IDEM_OK && view.status == IDEM_OK) {
    doc = idem__json_read(json.data, json.len, idem__request_memory(context->request), &status);
  }
  idem__task_view_end(&view);
  idem_buf_deinit(&json);
  return doc ? doc->root : NULL;
}

void idem__task_resume(idem__task *task) {
  idem__context *context = task->context;
  context->answers = collect(task);
  if (context->answers && !idem__work_grow(context->request, 0))
    idem__refuse_for_room(context, IDEM_E_LIMIT);
  else if (context->answers)
    idem__context_rerun(context);
  else
    idem__reply_failure(context, IDEM_RPC_INTERNAL_ERROR, NULL, NULL, 0);
}

/* ---------------------------------------------- 2025-11-25: real requests */

/* One question on its way; outlives the waiter's request. */
typedef struct asked {
  idem__task *task;
  uint64_t round;
  size_t index;
} asked;

/* With the lock held: the question it is about, which is open; NULL: its round is over. */
static idem__task_ask_entry *open_question(const asked *question) {
  const idem__task *task = question->task;
  if (task->state != IDEM__TASK_INPUT || task->round != question->round) return NULL;
  return question->index < task->ask_count ? &task->asks[question->index] : NULL;
}

/* Counted. */
static idem__task_text *contract_of(const asked *question) {
  idem__tasks_lock(question->task->server);
  const idem__task_ask_entry *entry = open_question(question);
  idem__task_text *contract = entry ? idem__task_text_ref(entry->json) : NULL;
  idem__tasks_unlock(question->task->server);
  return contract;
}

/* What the response comes to, as text. Without the lock. NULL: nobody asks, or it cannot be told. */
static idem__task_text *read_response(idem_conn *conn, const asked *question,
                                      const idem_response *response) {
  const idem__mcp_peer *peer = idem__mcp_peer_of(conn);
  idem_server *server = question->task->server;
  idem__task_text *contract = contract_of(question), *answer = NULL;
  idem_buf text;
  idem_buf_init(&text, &server->alloc, (size_t)16 << 20);
  idem__writer writer = idem__writer_on(&text);
  if (contract && peer && peer->session) {
    idem__answer_write(peer->worker, peer->session->revision, contract->bytes, contract->len,
                       response, &writer);
    if (writer.status == IDEM_OK && text.len)
      answer = idem__task_text_new(server, text.data, text.len);
  }
  idem_buf_deinit(&text);
  idem__task_text_unref(server, contract);
  return answer;
}

/* With the lock held. */
static void take_response(idem__task *task, idem__task_ask_entry *entry, idem__task_text *answer) {
  static const char cancelled[] = "{\"action\":\"cancel\"}";
  if (entry->answer) return; /* by tasks/update, which was first */
  if (answer && keep_answer(task, entry, answer) == IDEM_OK) return;
  entry->answer = idem__task_text_new(task->server, cancelled, sizeof cancelled - 1);
}

static bool all_answered(const idem__task *task) {
  for (size_t i = 0; i < task->ask_count; i++) {
    if (!task->asks[i].answer) return false;
  }
  return true;
}

static void on_response(idem_conn *conn, const idem_response *response, void *user) {
  asked *question = user;
  idem__task *task = question->task;
  idem_server *server = task->server;
  bool gone = response->status == IDEM_E_CLOSED;
  idem__task_text *answer = gone ? NULL : read_response(conn, question, response);
  idem__tasks_lock(server);
  idem__task_ask_entry *entry = open_question(question);
  if (entry && gone) entry->sent = false; /* the waiter went away: somebody else may be asked */
  if (entry && !gone) take_response(task, entry, answer);
  if (entry && all_answered(task)) go_on(task);
  idem__tasks_unlock(server);
  idem__task_text_unref(server, answer);
  idem__task_unref(task);
  idem__free(&server->alloc, question);
  idem__tasks_wake(server);
}

/* {"method","params"} plus which task it is for. */
static idem_status send_one(idem__task *task, idem__context *waiter, const idem__task_text *json,
                            asked *question) {
  yyjson_alc alc = idem__json_alc(&task->server->alloc);
  yyjson_doc *parsed = yyjson_read_opts((char *)(uintptr_t)json->bytes, json->len,
                                        YYJSON_READ_NUMBER_AS_RAW, &alc, NULL);
  yyjson_mut_doc *doc = parsed ? yyjson_doc_mut_copy(parsed, &alc) : NULL;
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

/* The text of the next question nobody was asked; counted. NULL: none. */
static idem__task_text *next_unsent(idem__task *task, asked *question) {
  idem__task_text *json = NULL;
  idem__tasks_lock(task->server);
  for (size_t i = 0; i < task->ask_count && !json; i++) {
    if (task->asks[i].sent || task->asks[i].answer) continue;
    json = idem__task_text_ref(task->asks[i].json);
    task->asks[i].sent = json != NULL;
    *question = (asked){task, task->round, i};
  }
  if (json) task->refs++;
  idem__tasks_unlock(task->server);
  return json;
}

static void take_back(const asked *question) {
  idem__task *task = question->task;
  idem__tasks_lock(task->server);
  idem__task_ask_entry *entry = open_question(question);
  if (entry) entry->sent = false;
  idem__tasks_unlock(task->server);
  idem__task_unref(task);
}

bool idem__task_send_asks(idem__task *task, idem__context *waiter) {
  const idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(waiter->request));
  if (!peer || (peer->edge && !peer->edge->can_reach(peer->edge_ctx))) return false;
  idem_server *server = task->server;
  asked next;
  for (idem__task_text *json; (json = next_unsent(task, &next));) {
    asked *question = idem__malloc(&server->alloc, sizeof *question);
    idem_status status = IDEM_E_NOMEM;
    if (question) {
      *question = next;
      status = send_one(task, waiter, json, question);
    }
    idem__task_text_unref(server, json);
    if (status == IDEM_OK) continue;
    idem__free(&server->alloc, question);
    take_back(&next);
    return false;
  }
  return true;
}
