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

static void write_asks(const idem__task *task, idem__writer *writer) {
  idem__write_key(writer, "asks");
  idem__write_array(writer);
  for (size_t i = 0; i < task->ask_count; i++) {
    idem__write_object(writer);
    idem__write_member_text(writer, "key", task->asks[i].key);
    idem__write_member_raw(writer, "ask", task->asks[i].json);
    idem__write_member_raw(writer, "answer", task->asks[i].answer);
    idem__write_object_end(writer);
  }
  idem__write_array_end(writer);
}

/* With the lock held. */
static idem_status write_record(const idem__task *task, idem__buf *out) {
  idem__writer writer = idem__writer_on(out);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "principal", task->principal);
  idem__write_member_text(&writer, "state", state_words[task->state]);
  idem__write_member_text(&writer, "message", task->message);
  idem__write_member_int(&writer, "created", (int64_t)task->created_ms);
  idem__write_member_int(&writer, "updated", (int64_t)task->updated_ms);
  idem__write_member_bool(&writer, "isError", task->is_error);
  if (task->ask_count) write_asks(task, &writer);
  idem__write_member_raw(&writer, "outcome", task->outcome);
  idem__write_object_end(&writer);
  return writer.status;
}

/* ----------------------------------------------------------------- reading */

static char *copy_value(idem_server *server, yyjson_val *val) {
  idem__buf json;
  char *copy = NULL;
  if (!val) return NULL;
  idem__buf_init(&json, &server->alloc, SIZE_MAX / 4);
  if (idem__json_put(&json, val) == IDEM_OK)
    copy = idem__strndup(&server->alloc, json.data, json.len);
  idem__buf_deinit(&json);
  return copy;
}

static char *copy_text(idem_server *server, yyjson_val *val) {
  return yyjson_is_str(val)
             ? idem__strndup(&server->alloc, yyjson_get_str(val), yyjson_get_len(val))
             : NULL;
}

static idem__task_state read_state(yyjson_val *root) {
  yyjson_val *word = yyjson_obj_get(root, "state");
  for (int i = 0; i < STATES; i++) {
    if (yyjson_equals_str(word, state_words[i])) return (idem__task_state)i;
  }
  return IDEM__TASK_FAILED;
}

static uint64_t read_time(yyjson_val *root, const char *key) {
  yyjson_val *raw = yyjson_obj_get(root, key);
  return yyjson_is_raw(raw) ? strtoull(yyjson_get_raw(raw), NULL, 10) : 0;
}

static void take_outcome(idem__task *task, yyjson_val *root) {
  idem__free(&task->server->alloc, task->outcome);
  task->outcome = copy_value(task->server, yyjson_obj_get(root, "outcome"));
  task->outcome_len = task->outcome ? strlen(task->outcome) : 0;
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
    entry->key = copy_text(server, yyjson_obj_get(ask, "key"));
    entry->json = copy_value(server, yyjson_obj_get(ask, "ask"));
    entry->answer = copy_value(server, yyjson_obj_get(ask, "answer"));
    task->ask_count++;
    if (!entry->key || !entry->json) break;
  }
  idem__free(&server->alloc, task->message);
  task->message = copy_text(server, yyjson_obj_get(root, "message"));
  task->created_ms = read_time(root, "created");
  task->updated_ms = read_time(root, "updated");
  task->state = read_state(root);
  take_outcome(task, root);
}

/* Others answer questions of the owner's. */
static void take_answers(idem__task *task, yyjson_val *root) {
  yyjson_arr_iter iter = yyjson_arr_iter_with(yyjson_obj_get(root, "asks"));
  for (yyjson_val *ask; (ask = yyjson_arr_iter_next(&iter));) {
    for (size_t i = 0; i < task->ask_count; i++) {
      idem__task_ask_entry *entry = &task->asks[i];
      if (entry->answer || !yyjson_equals_str(yyjson_obj_get(ask, "key"), entry->key)) continue;
      entry->answer = copy_value(task->server, yyjson_obj_get(ask, "answer"));
    }
  }
}

/* With the lock held: the owner's image learns what others did: they cancel, or answer. Whoever
 * brought a task to its end first is right. */
static void merge_into_own(idem__task *task, yyjson_val *root) {
  idem__task_state theirs = read_state(root);
  if (theirs >= IDEM__TASK_COMPLETED) {
    bool running = !idem__task_terminal(task);
    take_outcome(task, root);
    task->cancel_asked |= running && theirs == IDEM__TASK_CANCELLED;
    task->state = theirs;
    task->updated_ms = read_time(root, "updated");
    return;
  }
  if (idem__task_terminal(task)) return;
  take_answers(task, root);
  if (task->state == IDEM__TASK_INPUT && theirs == IDEM__TASK_WORKING) {
    task->resume = true;
    task->state = IDEM__TASK_WORKING;
  }
}

/* With the lock held: a record whose version is newer than the image's. */
static void take_record(idem__task *task, uint64_t version, const char *text, size_t len) {
  yyjson_doc *doc =
      yyjson_read(text, len, YYJSON_READ_NUMBER_AS_RAW); /* results keep their digits */
  if (!doc) return;
  if (task->worker)
    merge_into_own(task, yyjson_doc_get_root(doc));
  else
    take_all(task, yyjson_doc_get_root(doc));
  task->version = version;
  yyjson_doc_free(doc);
}

static idem__task *new_image(idem_server *server, const char *id, const char *text, size_t len) {
  yyjson_doc *doc = yyjson_read(text, len, 0);
  idem__task *task = idem__calloc(&server->alloc, sizeof *task);
  if (task) {
    idem__list_init(&task->link);
    task->server = server;
    task->refs = 1; /* the table's */
    memcpy(task->id, id, IDEM__TASK_ID);
    task->principal = copy_text(server, yyjson_obj_get(yyjson_doc_get_root(doc), "principal"));
  }
  yyjson_doc_free(doc);
  if (task && task->principal) return task;
  idem__free(&server->alloc, task);
  return NULL;
}

/* ----------------------------------------------------------------- loading */

typedef struct loading {
  idem_server *server;
  const char *id;
  bool only_known; /* no image is made for a task that has none */
  bool changed;
  idem__task *task; /* counted */
} loading;

static void on_loaded(const idem__store_answer *answer, void *user) {
  loading *load = user;
  idem_server *server = load->server;
  idem__tasks_lock(server);
  idem__task *task = idem__task_known(server, load->id);
  if (!task && answer->status == IDEM_OK && !load->only_known) {
    task = new_image(server, load->id, answer->bytes, answer->len);
    if (task && idem__task_enter(server, task) != IDEM_OK) {
      idem__task_release(task);
      task = NULL;
    }
  }
  if (task && answer->status == IDEM_OK && answer->version > task->version && !task->busy) {
    take_record(task, answer->version, answer->bytes, answer->len);
    load->changed = true;
  }
  if (task) task->refs++;
  load->task = task;
  idem__tasks_unlock(server);
}

idem__task *idem__task_load(idem_server *server, const char *id, bool only_known, bool *changed) {
  loading load = {.server = server, .id = id, .only_known = only_known};
  idem__store_op op = op_for(server, id, IDEM__STORE_GET);
  op.done = on_loaded;
  op.user = &load;
  idem__store_ask(server->store, &op, NULL);
  if (changed) *changed = load.changed;
  return load.task;
}

/* Somebody else changed a task: whoever waits for it here must hear. */
void idem__task_on_change(const idem__store_change *change, void *user) {
  idem_server *server = user;
  char id[IDEM__TASK_ID + 1] = {0};
  bool changed = false;
  if (change->event != IDEM__STORE_WAS_PUT || change->name_len != IDEM__TASK_ID) return;
  memcpy(id, change->name, IDEM__TASK_ID);
  idem__tasks_lock(server);
  const idem__task *known = idem__task_known(server, id);
  bool news = known ? !known->busy && change->version > known->version
                    : atomic_load(&server->listening) > 0;
  idem__tasks_unlock(server);
  if (!news) return;
  idem__task *task = idem__task_load(server, id, false, &changed);
  if (!task) return;
  idem__tasks_lock(server);
  if (changed) idem__task_tell(task);
  idem__tasks_unlock(server);
  idem__task_unref(task);
  if (changed) idem__server_wake(server);
}

/* ------------------------------------------------------------------ saving */

static uint64_t time_to_live(const idem__task *task) {
  uint64_t ttl_ms = task->server->opts.task_ttl_ms;
  if (idem__task_terminal(task)) return ttl_ms;
  /* The owner cancels one that waits too long; the record stays a little longer than that. */
  return task->state == IDEM__TASK_INPUT ? 2 * ttl_ms : WORKING_MS;
}

idem_status idem__task_put(idem__task *task, bool fresh, size_t limit) {
  idem_server *server = task->server;
  idem__buf text;
  idem__store_op op = op_for(server, task->id, IDEM__STORE_PUT);
  idem__buf_init(&text, &server->alloc, SIZE_MAX / 4);
  idem__tasks_lock(server);
  idem_status status = write_record(task, &text);
  op.ttl_ms = time_to_live(task);
  op.expect = fresh ? IDEM__STORE_ABSENT : task->version;
  task->busy++;
  idem__tasks_unlock(server);
  op.bytes = text.data;
  op.len = text.len;
  op.group = task->principal;
  op.limit = limit;
  idem__store_answer answer = {.status = status};
  if (status == IDEM_OK) answer = idem__store_ask(server->store, &op, NULL);
  idem__tasks_lock(server);
  task->busy--;
  if (answer.status == IDEM_OK && answer.version > task->version) task->version = answer.version;
  idem__tasks_unlock(server);
  idem__buf_deinit(&text);
  return answer.status;
}

static void save_once(idem__task *task) {
  idem_status status = idem__task_put(task, false, 0);
  for (unsigned i = 0; i < SAVE_TRIES && status == IDEM_E_STATE; i++) {
    idem__task *same = idem__task_load(task->server, task->id, true, NULL);
    if (same) idem__task_unref(same);
    status = idem__task_put(task, false, 0);
  }
  /* It took longer than its record lived. */
  if (status == IDEM_E_NOTFOUND && task->worker) idem__task_put(task, true, 0);
}

/* Whether this thread is to save, or to save again: one at a time, for all that changed meanwhile. */
static bool begin_saving(idem__task *task) {
  idem__tasks_lock(task->server);
  bool begin = !task->saving;
  task->save_again = !begin;
  task->saving = true;
  idem__tasks_unlock(task->server);
  return begin;
}

static bool end_saving(idem__task *task) {
  idem__tasks_lock(task->server);
  bool end = !task->save_again;
  task->save_again = false;
  task->saving = !end;
  idem__tasks_unlock(task->server);
  return end;
}

void idem__task_save(idem__task *task) {
  if (!begin_saving(task)) return;
  do save_once(task);
  while (!end_saving(task));
}

/* ----------------------------------------------------------------- listing */

typedef struct lister {
  idem_server *server;
  idem__task_each each;
  void *user;
} lister;

static bool show_record(const idem__store_item *item, void *user) {
  const lister *list = user;
  char id[IDEM__TASK_ID + 1] = {0};
  if (item->name_len != IDEM__TASK_ID) return true;
  memcpy(id, item->name, IDEM__TASK_ID);
  idem__task *image = new_image(list->server, id, item->bytes, item->len);
  if (!image) return true;
  take_record(image, item->version, item->bytes, item->len);
  bool more = list->each(image, item->number, list->user);
  idem__task_release(image);
  return more;
}

void idem__tasks_list(idem_server *server, const char *principal, uint64_t after,
                      idem__task_each each, void *user) {
  lister list = {.server = server, .each = each, .user = user};
  idem__store_op op = op_for(server, "", IDEM__STORE_LIST);
  op.name = NULL;
  op.name_len = 0;
  op.group = principal;
  op.after = after;
  op.each = show_record;
  op.user = &list;
  idem__store_ask(server->store, &op, NULL);
}
