/* task_record.c - tasks as records in the store, so that any process that shares it can look at them,
 * cancel them and answer their questions. The process whose handler runs has the image that counts;
 * what others changed is merged into it. See docs/internals/store.md. */
#include "server.h"
#include "task.h"
#include "worker.h"

#include <stdlib.h>
#include <string.h>

/* A task at work is given a day and put again if it takes longer; whoever died holding it is not
 * waited for longer than that. */
#define WORKING_MS ((uint64_t)24 * 60 * 60 * 1000)
#define SAVE_TRIES 16

static const char *const state_words[] = {
    [IDEM__TASK_WORKING] = "working",     [IDEM__TASK_INPUT] = "input_required",
    [IDEM__TASK_COMPLETED] = "completed", [IDEM__TASK_FAILED] = "failed",
    [IDEM__TASK_CANCELLED] = "cancelled",
};
enum { STATES = sizeof state_words / sizeof state_words[0] };

const char *idem__task_state_word(idem__task_state state) { return state_words[state]; }

static idem__store_op op_for(const idem_server *server, const char *id, idem__store_verb verb) {
  return (idem__store_op){.verb = verb,
                          .space = IDEM__STORE_TASKS,
                          .name = id,
                          .name_len = IDEM__TASK_ID,
                          .now_ms = idem__server_wall_ms(server)};
}

/* ----------------------------------------------------------------- writing */

static void write_asks(const idem__task_view *view, idem__writer *writer) {
  idem__write_key(writer, "asks");
  idem__write_array(writer);
  for (size_t i = 0; i < view->ask_count; i++) {
    idem__write_object(writer);
    idem__write_member_text(writer, "key", idem__task_text_bytes(view->asks[i].name));
    idem__write_member_raw(writer, "ask", idem__task_text_bytes(view->asks[i].json));
    idem__write_member_raw(writer, "answer", idem__task_text_bytes(view->asks[i].answer));
    idem__write_object_end(writer);
  }
  idem__write_array_end(writer);
}

static idem_status write_record(const idem__task_view *view, idem_buf *out) {
  idem__writer writer = idem__writer_on(out);
  if (view->status != IDEM_OK) return view->status;
  idem__write_object(&writer);
  idem__write_member_text(&writer, "principal", view->task->principal);
  if (view->task->node[0]) idem__write_member_text(&writer, "node", view->task->node);
  idem__write_member_text(&writer, "state", state_words[view->state]);
  idem__write_member_text(&writer, "message", idem__task_text_bytes(view->message));
  idem__write_member_int(&writer, "created", (int64_t)view->created_ms);
  idem__write_member_int(&writer, "updated", (int64_t)view->updated_ms);
  idem__write_member_bool(&writer, "isError", view->is_error);
  idem__write_member_int(&writer, "round", (int64_t)view->round);
  if (view->ask_count) write_asks(view, &writer);
  idem__write_member_raw(&writer, "outcome", idem__task_text_bytes(view->outcome));
  idem__write_object_end(&writer);
  return writer.status;
}

/* ----------------------------------------------------------------- reading */

static idem__task_text *copy_value(idem_server *server, yyjson_val *val) {
  idem_buf json;
  idem__task_text *copy = NULL;
  if (!val) return NULL;
  idem_buf_init(&json, &server->alloc, idem__answer_bytes(server));
  if (idem__json_put(&json, val) == IDEM_OK)
    copy = idem__task_text_new(server, json.data, json.len);
  idem_buf_deinit(&json);
  return copy;
}

static idem__task_text *copy_text(idem_server *server, yyjson_val *val) {
  return yyjson_is_str(val) ? idem__task_text_new(server, yyjson_get_str(val), yyjson_get_len(val))
                            : NULL;
}

static idem__task_state read_state(yyjson_val *root) {
  yyjson_val *word = yyjson_obj_get(root, "state");
  for (int i = 0; i < STATES; i++) {
    if (yyjson_equals_str(word, state_words[i])) return (idem__task_state)i;
  }
  return IDEM__TASK_FAILED;
}

static uint64_t read_number(yyjson_val *root, const char *key) {
  yyjson_val *raw = yyjson_obj_get(root, key);
  return yyjson_is_raw(raw) ? strtoull(yyjson_get_raw(raw), NULL, 10) : 0;
}

static void take_outcome(idem__task *task, yyjson_val *root) {
  idem__task_text_unref(task->server, task->outcome);
  task->outcome = copy_value(task->server, yyjson_obj_get(root, "outcome"));
  task->is_error = yyjson_is_true(yyjson_obj_get(root, "isError"));
}

/* What the owner alone decides, for the image of somebody else's task. */
static void take_all(idem__task *task, yyjson_val *root) {
  idem_server *server = task->server;
  yyjson_val *asks = yyjson_obj_get(root, "asks"), *ask;
  yyjson_arr_iter iter = yyjson_arr_iter_with(asks);
  idem__task_free_asks(task);
  task->asks = idem__calloc(&server->alloc, (yyjson_arr_size(asks) + 1) * sizeof *task->asks);
  while (task->asks && (ask = yyjson_arr_iter_next(&iter))) {
    idem__task_ask_entry *entry = &task->asks[task->ask_count];
    entry->name = copy_text(server, yyjson_obj_get(ask, "key"));
    entry->json = copy_value(server, yyjson_obj_get(ask, "ask"));
    entry->answer = copy_value(server, yyjson_obj_get(ask, "answer"));
    task->ask_count++;
    if (!entry->name || !entry->json) break;
  }
  idem__task_text_unref(server, task->message);
  task->message = copy_text(server, yyjson_obj_get(root, "message"));
  task->created_ms = read_number(root, "created");
  task->updated_ms = read_number(root, "updated");
  task->round = read_number(root, "round");
  task->state = read_state(root);
  take_outcome(task, root);
}

/* Others answer questions of the owner's. */
static void take_answers(idem__task *task, yyjson_val *root) {
  yyjson_arr_iter iter = yyjson_arr_iter_with(yyjson_obj_get(root, "asks"));
  for (yyjson_val *ask; (ask = yyjson_arr_iter_next(&iter));) {
    for (size_t i = 0; i < task->ask_count; i++) {
      idem__task_ask_entry *entry = &task->asks[i];
      if (entry->answer || !entry->name ||
          !yyjson_equals_str(yyjson_obj_get(ask, "key"), entry->name->bytes))
        continue;
      entry->answer = copy_value(task->server, yyjson_obj_get(ask, "answer"));
    }
  }
}

/* With the lock held: the owner's image learns what others did: they cancel, or answer. Whoever
 * brought a task to its end first is right; who answers a round that is over is too late. */
static void merge_into_own(idem__task *task, yyjson_val *root) {
  idem__task_state theirs = read_state(root);
  if (theirs >= IDEM__TASK_COMPLETED) {
    bool running = !idem__task_terminal(task);
    take_outcome(task, root);
    task->cancel_asked |= running && theirs == IDEM__TASK_CANCELLED;
    task->state = theirs;
    task->updated_ms = read_number(root, "updated");
    return;
  }
  if (idem__task_terminal(task) || read_number(root, "round") != task->round) return;
  take_answers(task, root);
  if (task->state == IDEM__TASK_INPUT && theirs == IDEM__TASK_WORKING) {
    task->resume = true;
    task->state = IDEM__TASK_WORKING;
  }
}

/* Numbers stay as they are spelled: results keep their digits. */
static yyjson_doc *read_record(const idem_server *server, const char *text, size_t len) {
  yyjson_alc alc = idem__json_alc(&server->alloc);
  return yyjson_read_opts((char *)(uintptr_t)text, len, YYJSON_READ_NUMBER_AS_RAW, &alc, NULL);
}

/* With the lock held: a record whose version is newer than the image's. */
static void take_record(idem__task *task, uint64_t version, const char *text, size_t len) {
  yyjson_doc *doc = read_record(task->server, text, len);
  if (!doc) return;
  if (task->worker)
    merge_into_own(task, yyjson_doc_get_root(doc));
  else
    take_all(task, yyjson_doc_get_root(doc));
  task->version = version;
  yyjson_doc_free(doc);
}

static char *copy_principal(const idem_server *server, yyjson_val *root) {
  yyjson_val *who = yyjson_obj_get(root, "principal");
  return yyjson_is_str(who)
             ? idem__strndup(&server->alloc, yyjson_get_str(who), yyjson_get_len(who))
             : NULL;
}

static void copy_node(idem__task *task, yyjson_val *root) {
  yyjson_val *node = yyjson_obj_get(root, "node");
  if (yyjson_get_len(node) == IDEM__NODE_ID && yyjson_is_str(node))
    memcpy(task->node, yyjson_get_str(node), IDEM__NODE_ID);
}

static idem__task *new_image(idem_server *server, const char *id, const char *text, size_t len) {
  yyjson_doc *doc = read_record(server, text, len);
  idem__task *task = idem__calloc(&server->alloc, sizeof *task);
  if (task) {
    idem_list_init(&task->link);
    task->server = server;
    task->refs = 1; /* the table's */
    memcpy(task->id, id, IDEM__TASK_ID);
    task->principal = copy_principal(server, yyjson_doc_get_root(doc));
    copy_node(task, yyjson_doc_get_root(doc));
  }
  yyjson_doc_free(doc);
  if (task && task->principal) return task;
  idem__free(&server->alloc, task);
  return NULL;
}

/* ----------------------------------------------------------------- loading */

/* With the lock held: an image where there was none; NULL: no memory. */
static idem__task *enter_image(idem_server *server, const char *id,
                               const idem__store_answer *record) {
  idem__task *task = new_image(server, id, record->bytes, record->len);
  if (!task || idem__task_enter(server, task) == IDEM_OK) return task;
  idem__task_release(task);
  return NULL;
}

/* With the lock held: an answer that was long on its way shows an older record than the image has seen. Not to who saves: the store refused the
 * image's version, so it has another, older if it came back without its last writes. */
static bool is_another(const idem__task *task, const idem__task_loading *loading,
                       uint64_t version) {
  if (loading == &task->save.loading) return version != task->version;
  return version > task->version && !task->busy;
}

static void on_loaded(const idem__store_answer *answer, void *user) {
  idem__task_loading *loading = user;
  idem_server *server = loading->server;
  bool there = answer->status == IDEM_OK;
  idem__tasks_lock(server);
  idem__task *task = idem__task_known(server, loading->id);
  if (!task && there && !loading->only_known) task = enter_image(server, loading->id, answer);
  if (task && there && is_another(task, loading, answer->version)) {
    take_record(task, answer->version, answer->bytes, answer->len);
    loading->changed = true;
  }
  if (task) task->refs++;
  idem__tasks_unlock(server);
  loading->loaded(task, answer->status, loading->user);
}

void idem__task_load(idem__task_loading *loading) {
  idem__store_op op = op_for(loading->server, loading->id, IDEM__STORE_GET);
  op.done = on_loaded;
  op.user = loading;
  loading->changed = false;
  idem__store_submit(loading->server->store, loading->queue, &op, &loading->pending);
}

/* ------------------------------------------------------------------ saving */

static uint64_t time_to_live(const idem__task *task) {
  uint64_t ttl_ms = task->server->opts.task_ttl_ms;
  if (idem__task_terminal(task)) return ttl_ms;
  /* The owner cancels one that waits too long; the record stays a little longer than that. */
  return task->state == IDEM__TASK_INPUT ? 2 * ttl_ms : WORKING_MS;
}

/* It has nothing to do with how much tasks there are: without its outcome this one would not fit any better. */
static bool is_outside(const idem__store_answer *answer) {
  return answer->status == IDEM_E_LIMIT && answer->number >= IDEM__STORE_FULL_ELSE;
}

static void on_put(const idem__store_answer *answer, void *user) {
  idem__task *task = user;
  idem_server *server = task->server;
  idem__tasks_lock(server);
  task->busy--;
  if (answer->status == IDEM_OK && answer->version > task->version) task->version = answer->version;
  idem__tasks_unlock(server);
  task->put_done(task, is_outside(answer) ? IDEM_E_SYS : answer->status, task->put_user);
  idem__task_unref(task);
}

void idem__task_put(idem__task *task, idem__store_queue *queue, bool fresh, size_t limit,
                    idem__task_done done, void *user) {
  idem_server *server = task->server;
  idem_buf text;
  idem__store_op op = op_for(server, task->id, IDEM__STORE_PUT);
  idem_buf_init(&text, &server->alloc, idem__answer_bytes(server));
  idem__tasks_lock(server);
  idem__task_view view = idem__task_view_take(task);
  op.ttl_ms = time_to_live(task);
  op.expect = fresh ? IDEM__STORE_ABSENT : task->version;
  task->busy++;
  task->refs++;
  idem__tasks_unlock(server);
  idem_status status = write_record(&view, &text);
  idem__task_view_end(&view);
  op.bytes = text.data;
  op.len = text.len;
  op.group = task->principal;
  op.limit = limit;
  op.done = on_put;
  op.user = task;
  task->put_done = done;
  task->put_user = user;
  if (status == IDEM_OK)
    idem__store_submit(server->store, queue, &op, NULL);
  else
    on_put(&(idem__store_answer){.status = status}, task);
  idem_buf_deinit(&text);
}

void idem__task_remove_record(const idem__task *task) {
  idem__store_op op = op_for(task->server, task->id, IDEM__STORE_REMOVE);
  op.expect = IDEM__STORE_ANY;
  idem__store_run(task->server->store, &op);
}

/* True: the task is over, and without its outcome it may fit. */
static bool lose_outcome(idem__task *task) {
  idem__tasks_lock(task->server);
  bool over = idem__task_terminal(task);
  if (over) idem__task_lose_outcome(task);
  idem__tasks_unlock(task->server);
  return over;
}

static bool end_saving(idem__task *task) {
  idem__tasks_lock(task->server);
  bool end = !task->save_again;
  task->save_again = false;
  task->saving = !end;
  idem__tasks_unlock(task->server);
  return end;
}

static void on_saved(idem__task *task, idem_status status, void *user);

static void put_again(idem__task *task) {
  idem__task_put(task, task->save.queue, task->save.fresh, 0, on_saved, NULL);
}

static void on_reloaded(idem__task *same, idem_status status, void *user) {
  (void)status;
  if (same) idem__task_unref(same);
  put_again(user);
}

static void save_now(idem__task *task) {
  idem__task_saving *save = &task->save;
  save->tries = 0;
  save->fresh = save->bare = false;
  put_again(task);
}

/* Whether to read the record and try once more: somebody was faster, or nobody knows what happened. */
static bool may_retry(idem__task_saving *save, idem_status status) {
  bool again = status == IDEM_E_STATE || status == IDEM_E_TIMEOUT || status == IDEM_E_SYS;
  return again && save->tries++ < SAVE_TRIES;
}

/* What else may be done; false: nothing. */
static bool try_otherwise(idem__task *task, idem_status status) {
  idem__task_saving *save = &task->save;
  if (may_retry(save, status)) {
    idem__task_load(&save->loading);
  } else if (status == IDEM_E_LIMIT && task->worker && !save->bare && lose_outcome(task)) {
    save->bare = true;
    put_again(task);
  } else if (status == IDEM_E_NOTFOUND && task->worker && !save->fresh) {
    save->fresh = true; /* it took longer than its record lived */
    put_again(task);
  } else {
    return false;
  }
  return true;
}

/* What became of it; true: somebody waits for that. A change of somebody else's task that the store did not
 * take is forgotten: the next load shows the task as it is. */
static bool note_saved(idem__task *task, idem_status status) {
  idem__tasks_lock(task->server);
  task->saved = status;
  if (status != IDEM_OK && !task->worker) task->version = 0;
  bool awaited = task->awaited > 0;
  idem__tasks_unlock(task->server);
  return awaited;
}

/* What its owner says of a task is said until it is kept. Who changes another's begins anew instead: read
 * anew, the task may be over, or ask something else. */
static void on_saved(idem__task *task, idem_status status, void *user) {
  (void)user;
  idem_server *server = task->server;
  if (status != IDEM_OK && task->worker && try_otherwise(task, status)) return;
  bool awaited = note_saved(task, status), over = end_saving(task);
  if (over)
    idem__task_unref(task);
  else
    save_now(task); /* it has changed meanwhile */
  if (awaited) idem__server_wake(server);
  if (over) idem__server_rested(server);
}

/* Counted while it is being saved. */
static void begin_saving(idem__task *task, idem__store_queue *queue) {
  task->save.queue = queue;
  task->save.loading = (idem__task_loading){.server = task->server,
                                            .queue = queue,
                                            .only_known = true,
                                            .loaded = on_reloaded,
                                            .user = task};
  memcpy(task->save.loading.id, task->id, sizeof task->id);
  save_now(task);
}

/* One thread saves, for all that changed meanwhile. */
void idem__task_save(idem__task *task, idem__store_queue *queue) {
  idem__tasks_lock(task->server);
  bool begin = !task->saving;
  if (begin) task->refs++;
  task->save_again = !begin;
  task->saving = true;
  idem__tasks_unlock(task->server);
  if (begin) begin_saving(task, queue);
}

void idem__task_first_saved(idem__task *task, idem__store_queue *queue) {
  if (end_saving(task)) return;
  idem__tasks_lock(task->server);
  task->refs++;
  idem__tasks_unlock(task->server);
  begin_saving(task, queue);
}

/* ---------------------------------------------------------------- doubting */

/* A store that is away again says so when it is back, and all are looked for anew. */
static void on_doubted_seen(const idem__store_answer *answer, void *user) {
  idem__task *task = user;
  bool there = answer->status == IDEM_OK;
  idem__tasks_lock(task->server);
  bool other = there && answer->version != task->version;
  idem__tasks_unlock(task->server);
  bool unseen = answer->status == IDEM_E_NOTFOUND || answer->status == IDEM_E_LIMIT;
  idem__task_settle_doubt(task, other || unseen);
}

void idem__tasks_look_for_doubted(idem__mcp_worker *worker) {
  idem__task *some[IDEM__TASKS_DOUBTED];
  size_t count = idem__tasks_take_doubted(worker->server, some);
  for (size_t i = 0; i < count; i++) {
    idem__store_op op = op_for(worker->server, some[i]->id, IDEM__STORE_PEEK);
    op.done = on_doubted_seen;
    op.user = some[i];
    idem__store_submit(worker->server->store, worker->store_queue, &op, NULL);
  }
}

/* ----------------------------------------------------------------- listing */

static bool show_record(const idem__store_item *item, void *user) {
  const idem__task_listing *listing = user;
  char id[IDEM__TASK_ID + 1] = {0};
  if (item->name_len != IDEM__TASK_ID) return true;
  memcpy(id, item->name, IDEM__TASK_ID);
  idem__task *image = new_image(listing->server, id, item->bytes, item->len);
  if (!image) return true;
  take_record(image, item->version, item->bytes, item->len);
  idem__task_show_lost(image, listing);
  bool more = listing->each(image, item->number, listing->user);
  idem__task_release(image);
  return more;
}

static void on_listed(const idem__store_answer *answer, void *user) {
  idem__task_listing *listing = user;
  idem_buf_deinit(&listing->nodes);
  listing->listed(answer->status, listing->user);
}

static void on_nodes(const idem__store_answer *answer, void *user) {
  idem__task_listing *listing = user;
  if (answer->status != IDEM_OK) { /* what does not say who lives does not list tasks either */
    on_listed(answer, listing);
    return;
  }
  idem__store_op op = op_for(listing->server, "", IDEM__STORE_LIST);
  op.name = NULL;
  op.name_len = 0;
  op.group = listing->principal;
  op.after = listing->after;
  op.limit = listing->limit;
  op.each = show_record;
  op.done = on_listed;
  op.user = listing;
  idem__store_submit(listing->server->store, listing->queue, &op, NULL);
}

/* Who lives is asked first: a task that runs on no node that does has failed. */
void idem__tasks_list(idem__task_listing *listing) { idem__task_listing_nodes(listing, on_nodes); }
