/* task_table.c - images of the tasks that concern this server, shared by its threads; what others may
 * know of them is in the store (task_record.c). Ids are unguessable and bound to a principal. A
 * finished task is kept for its time to live; the table is bounded. Changes are told to every worker,
 * whose own thread acts on them. */
#include "context.h"
#include "notify.h"
#include "server.h"
#include "session.h"
#include "task.h"

#include <stdio.h>
#include <string.h>

#define PURGED 64 /* tasks that are looked at for each that comes */

typedef struct idem__task_table {
  idem__lock lock;
  idem_map by_id;
  idem_list all;
  idem_list *purge_at;  /* in `all`: where the next purge goes on */
  idem_list *doubt_at;  /* ... and which is to be looked for in the store next; NULL: none */
  size_t doubted;       /* that the store was asked for */
  idem__task *dirty;    /* changed, and not yet in the store; each counted */
  _Atomic size_t bytes; /* of outcomes and answers */
} idem__task_table;

/* News of a task that waits for a worker's thread. */
typedef struct idem__task_event {
  struct idem__task_event *next;
  idem__task *task;
} idem__task_event;

idem_list *idem__tasks_all(idem_server *server) { return &server->tasks->all; }

void idem__tasks_lock(idem_server *server) { idem__lock_take(&server->tasks->lock); }
void idem__tasks_unlock(idem_server *server) { idem__lock_give(&server->tasks->lock); }

idem_status idem__tasks_new(idem_server *server) {
  server->tasks = idem__calloc(&server->alloc, sizeof *server->tasks);
  if (!server->tasks) return IDEM_E_NOMEM;
  idem__lock_init(&server->tasks->lock);
  idem_map_init(&server->tasks->by_id, &server->alloc, idem__router_seed(server->router));
  idem_list_init(&server->tasks->all);
  server->tasks->purge_at = &server->tasks->all;
  return IDEM_OK;
}

/* ----------------------------------------------------------------- lifetime */

bool idem__tasks_charge(idem_server *server, size_t bytes) {
  size_t used = atomic_fetch_add_explicit(&server->tasks->bytes, bytes, memory_order_relaxed);
  if (used + bytes <= server->opts.max_task_bytes) return true;
  idem__tasks_release_bytes(server, bytes);
  return false;
}

void idem__tasks_release_bytes(idem_server *server, size_t bytes) {
  atomic_fetch_sub_explicit(&server->tasks->bytes, bytes, memory_order_relaxed);
}

void idem__task_free_entries(idem_server *server, idem__task_ask_entry *entries, size_t count) {
  for (size_t i = 0; i < count; i++) {
    idem__task_text_unref(server, entries[i].key);
    idem__task_text_unref(server, entries[i].name);
    idem__task_text_unref(server, entries[i].json);
    idem__task_text_unref(server, entries[i].answer);
  }
  idem__free(&server->alloc, entries);
}

void idem__task_free_asks(idem__task *task) {
  idem__task_free_entries(task->server, task->asks, task->ask_count);
  task->asks = NULL;
  task->ask_count = 0;
}

void idem__task_release(idem__task *task) {
  if (--task->refs) return;
  const idem_alloc *alloc = &task->server->alloc;
  idem__task_free_asks(task);
  idem__task_text_unref(task->server, task->message);
  idem__task_text_unref(task->server, task->outcome);
  idem__free(alloc, task->principal);
  idem__free(alloc, task->session);
  idem__free(alloc, task);
}

void idem__task_unref(idem__task *task) {
  idem_server *server = task->server;
  idem__tasks_lock(server);
  idem__task_release(task);
  idem__tasks_unlock(server);
}

static void remove_task(idem__task *task) {
  idem__task_table *table = task->server->tasks;
  if (table->purge_at == &task->link) table->purge_at = task->link.next;
  if (table->doubt_at == &task->link) table->doubt_at = task->link.next;
  idem_map_remove(&table->by_id, task->id, IDEM__TASK_ID);
  idem_list_remove(&task->link);
  idem__task_release(task);
}

void idem__tasks_free(idem_server *server) {
  if (!server->tasks) return;
  idem__tasks_free_news(server);
  while (server->tasks->dirty) { /* there is nobody left to save them for */
    idem__task *task = server->tasks->dirty;
    server->tasks->dirty = task->next_dirty;
    idem__task_release(task);
  }
  while (!idem_list_empty(&server->tasks->all)) {
    remove_task(IDEM_CONTAINER(server->tasks->all.next, idem__task, link));
  }
  idem_map_deinit(&server->tasks->by_id);
  idem__free(&server->alloc, server->tasks);
  server->tasks = NULL;
}

/* With the lock held: a finished task whose time is over goes; one that nobody gave its input is
 * cancelled. True: workers are to be woken. */
static bool purge_one(idem__task *task, uint64_t now_ms) {
  if (!task->worker) {
    if (task->refs == 1)
      remove_task(task); /* somebody else's, and nobody here looks at it any more */
    return false;
  }
  if (now_ms <= task->updated_ms + task->server->opts.task_ttl_ms) return false;
  if (idem__task_terminal(task)) {
    if (!task->cancel_asked) remove_task(task); /* else its handler is still to hear of it */
    return false;
  }
  if (task->state != IDEM__TASK_INPUT) return false;
  task->cancel_asked = true;
  idem__task_set_state(task, IDEM__TASK_CANCELLED);
  return true;
}

/* With the lock held, which every thread waits for: a few of them each time, going round. */
static bool purge(idem_server *server, uint64_t now_ms) {
  idem__task_table *table = server->tasks;
  size_t left = table->by_id.count < PURGED ? table->by_id.count : PURGED;
  bool cancelled = false;
  for (; left; left--) {
    if (table->purge_at == &table->all) table->purge_at = table->all.next;
    idem__task *task = IDEM_CONTAINER(table->purge_at, idem__task, link);
    table->purge_at = task->link.next;
    if (purge_one(task, now_ms)) cancelled = true;
  }
  return cancelled;
}

static void make_id(idem_server *server, char id[IDEM__TASK_ID + 1]) {
  uint8_t bytes[IDEM__TASK_ID / 2];
  idem__server_random(server, bytes, sizeof bytes);
  idem__text_hex(id, bytes, sizeof bytes);
}

idem_status idem__task_enter(idem_server *server, idem__task *task) {
  idem_status status = idem_map_put(&server->tasks->by_id, task->id, IDEM__TASK_ID, task);
  if (status == IDEM_OK) idem_list_append(&server->tasks->all, &task->link);
  return status;
}

idem__task *idem__task_known(idem_server *server, const char *id) {
  return idem_map_get(&server->tasks->by_id, id, IDEM__TASK_ID);
}

/* Whose status is told of in 2025-11-25; false: no memory. */
static bool keep_session(const idem__context *context, idem__task *task) {
  const idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(context->request));
  const char *name = peer && peer->session ? peer->session->name : NULL;
  if (!name || !idem__revision_has(context->revision, IDEM__R_TASKS)) return true;
  task->revision = context->revision;
  task->session = idem__strndup(&context->server->alloc, name, strlen(name));
  return task->session != NULL;
}

static idem__task *new_task(const idem__context *context) {
  idem_server *server = context->server;
  idem__task *task = idem__calloc(&server->alloc, sizeof *task);
  if (!task) return NULL;
  idem_list_init(&task->link);
  task->server = server;
  task->refs = 2; /* the table's and the context's */
  task->worker = context->worker;
  memcpy(task->node, server->node.id, sizeof task->node);
  task->created_ms = task->updated_ms = idem__server_wall_ms(server);
  task->principal = idem__strndup(&server->alloc, context->principal, strlen(context->principal));
  make_id(server, task->id);
  if (task->principal && keep_session(context, task)) return task;
  idem__free(&server->alloc, task->principal);
  idem__free(&server->alloc, task);
  return NULL;
}

void idem__tasks_purge(idem_server *server) {
  idem__tasks_lock(server);
  bool wake = purge(server, idem__server_wall_ms(server));
  idem__tasks_unlock(server);
  if (wake) idem__tasks_wake(server);
}

/* Where the store answers later the bound must hold before it does. */
static bool is_full(const idem_server *server) {
  return !server->store->kind->immediate && server->tasks->by_id.count >= server->opts.max_tasks;
}

idem_status idem__task_create(const idem__context *context, idem__task **out) {
  idem_server *server = context->server;
  idem__tasks_purge(server);
  idem__task *task = new_task(context);
  if (!task) return IDEM_E_NOMEM;
  idem__tasks_lock(server);
  idem_status status = is_full(server) ? IDEM_E_LIMIT : idem__task_enter(server, task);
  if (status != IDEM_OK) {
    task->refs = 1;
    idem__task_release(task);
  }
  idem__tasks_unlock(server);
  *out = task;
  return status;
}

/* What changes meanwhile waits for it. */
void idem__task_write_first(idem__task *task, idem__store_queue *queue, idem__task_done written,
                            void *user) {
  task->saving = true;
  idem__task_put(task, queue, true, task->server->opts.max_tasks, written, user);
}

void idem__task_discard(idem__task *task) {
  idem_server *server = task->server;
  idem__task_remove_record(task);
  idem__tasks_lock(server);
  task->context = NULL;
  remove_task(task);
  idem__task_release(task);
  idem__tasks_unlock(server);
}

/* ------------------------------------------------------------------ telling */

/* Without memory for the news the worker looks at every task instead. */
static void leave_event(idem__mcp_worker *worker, idem__task *task) {
  for (idem__task_event *at = worker->task_events; at; at = at->next) {
    if (at->task == task) return;
  }
  idem__task_event *event = idem__malloc(&worker->alloc, sizeof *event);
  if (!event) {
    worker->task_missed = true;
    return;
  }
  event->task = task;
  task->refs++;
  event->next = worker->task_events;
  worker->task_events = event;
}

/* Until idem__tasks_wake, which runs without the lock. */
static void mark_dirty(idem__task *task) {
  idem__task_table *table = task->server->tasks;
  if (task->dirty) return;
  task->dirty = true;
  task->refs++;
  task->next_dirty = table->dirty;
  table->dirty = task;
}

void idem__task_set_state(idem__task *task, idem__task_state state) {
  task->state = state;
  task->updated_ms = idem__server_wall_ms(task->server);
  if (idem__task_terminal(task)) idem__task_free_asks(task);
  mark_dirty(task);
  idem__task_tell(task);
}

void idem__task_tell(idem__task *task) {
  idem_server *server = task->server;
  idem__server_lock(server); /* the tasks' lock is always taken first */
  for (idem_list *at = server->workers.next; at != &server->workers; at = at->next) {
    leave_event(IDEM_CONTAINER(at, idem__mcp_worker, link), task);
  }
  idem__server_unlock(server);
}

static idem__task *next_dirty(idem_server *server) {
  idem__tasks_lock(server);
  idem__task *task = server->tasks->dirty;
  if (task) {
    server->tasks->dirty = task->next_dirty;
    task->dirty = false;
  }
  idem__tasks_unlock(server);
  return task;
}

static void save_dirty(idem_server *server, idem__store_queue *queue) {
  for (idem__task *task; (task = next_dirty(server));) {
    idem__task_save(task, queue);
    idem__task_unref(task);
  }
}

/* An immediate store is told on whichever thread this is, another by a worker. */
void idem__tasks_wake(idem_server *server) {
  if (server->store->kind->immediate) save_dirty(server, NULL);
  idem__server_wake(server);
}

void idem__tasks_doubt(idem_server *server) {
  idem__tasks_lock(server);
  server->tasks->doubt_at = server->tasks->all.next;
  idem__tasks_unlock(server);
  idem__server_wake(server);
}

/* With the lock held: ours, and the store has had it. */
static bool is_kept(const idem__task *task, uint64_t now_ms) {
  bool over =
      idem__task_terminal(task) && now_ms > task->updated_ms + task->server->opts.task_ttl_ms;
  return task->worker && task->version && !over;
}

/* With the lock held: those of the next few that are ours, counted. */
static size_t take_doubted(idem_server *server, idem__task *some[IDEM__TASKS_DOUBTED]) {
  idem__task_table *table = server->tasks;
  uint64_t now_ms = idem__server_wall_ms(server);
  size_t count = 0;
  for (int i = 0; i < IDEM__TASKS_DOUBTED && table->doubt_at != &table->all; i++) {
    idem__task *task = IDEM_CONTAINER(table->doubt_at, idem__task, link);
    table->doubt_at = task->link.next;
    if (!is_kept(task, now_ms)) continue;
    task->refs++;
    some[count++] = task;
  }
  if (table->doubt_at == &table->all) table->doubt_at = NULL;
  table->doubted = count;
  return count;
}

size_t idem__tasks_take_doubted(idem_server *server, idem__task *some[IDEM__TASKS_DOUBTED]) {
  idem__task_table *table = server->tasks;
  idem__tasks_lock(server);
  bool due = table->doubt_at && !table->doubted;
  size_t count = due ? take_doubted(server, some) : 0;
  bool more = due && !count && table->doubt_at; /* none of these was ours */
  idem__tasks_unlock(server);
  if (more) idem__server_wake(server);
  return count;
}

void idem__task_settle_doubt(idem__task *task, bool other) {
  idem_server *server = task->server;
  idem__tasks_lock(server);
  bool last = --server->tasks->doubted == 0;
  if (other && idem__task_known(server, task->id) == task) mark_dirty(task);
  idem__task_release(task);
  idem__tasks_unlock(server);
  if (last) idem__tasks_wake(server);
}

static void tell_listeners(idem__mcp_worker *worker, idem__task *task) {
  idem_buf json;
  if (idem_list_empty(&worker->listeners)) return;
  idem_buf_init(&json, &worker->alloc, (size_t)16 << 20);
  idem__writer writer = idem__writer_on(&json);
  idem__task_view view = idem__task_view_of(task);
  idem__write_object(&writer);
  idem__task_view_write(&view, &idem__revisions[0], true, &writer);
  idem__write_object_end(&writer);
  idem__task_view_end(&view);
  if (writer.status == IDEM_OK) idem__listeners_task(worker, task, json.data, json.len);
  idem_buf_deinit(&json);
}

/* notifications/tasks/status, for the session that began it. */
static void tell_session(idem__mcp_worker *worker, const idem__task *task) {
  idem_buf params;
  if (!task->session || worker->server->opts.no_task_status) return;
  idem_buf_init(&params, &worker->alloc, (size_t)1 << 20);
  idem__writer writer = idem__writer_on(&params);
  idem__task_view view = idem__task_view_of(task);
  idem__write_object(&writer);
  idem__task_view_write(&view, task->revision, false, &writer);
  idem__write_object_end(&writer);
  idem__task_view_end(&view);
  idem__mcp_news news = {.method = "notifications/tasks/status",
                         .params = params.data,
                         .len = params.len,
                         .session = task->session,
                         .level = -1};
  if (writer.status == IDEM_OK) idem__worker_tell(worker, &news);
  idem_buf_deinit(&params);
}

/* A task of this worker whose handler was not told yet that nobody will hear its answer. */
static idem__context *next_running(const idem__mcp_worker *worker) {
  idem_list *all = &worker->server->tasks->all;
  idem__context *found = NULL;
  idem__tasks_lock(worker->server);
  for (idem_list *at = all->next; at != all && !found; at = at->next) {
    const idem__task *task = IDEM_CONTAINER(at, idem__task, link);
    if (task->worker == worker && task->context && !idem_request_cancelled(task->context->request))
      found = task->context;
  }
  idem__tasks_unlock(worker->server);
  return found;
}

/* A store of one process ends with it, and whatever a task comes to. */
bool idem__tasks_work(const idem__mcp_worker *worker) {
  idem_server *server = worker->server;
  idem_list *all = &server->tasks->all;
  bool works = false;
  if (!server->node.shares) return false;
  idem__tasks_lock(server);
  for (idem_list *at = all->next; at != all && !works; at = at->next) {
    const idem__task *task = IDEM_CONTAINER(at, idem__task, link);
    works = task->worker == worker && (task->context || task->dirty || task->saving);
  }
  idem__tasks_unlock(server);
  return works;
}

void idem__tasks_forget_hub(idem__mcp_worker *worker) {
  for (idem__context *context; (context = next_running(worker));) {
    idem__request_cancel(context->request, IDEM_CANCEL_CLOSED);
  }
  save_dirty(worker->server, worker->store_queue);
  idem__tasks_lock(worker->server);
  while (worker->task_events) {
    idem__task_event *next = worker->task_events->next;
    idem__task_release(worker->task_events->task);
    idem__free(&worker->alloc, worker->task_events);
    worker->task_events = next;
  }
  idem__tasks_unlock(worker->server);
}

static void deliver_one(idem__mcp_worker *worker, idem__task *task) {
  tell_listeners(worker, task);
  tell_session(worker, task);
  if (task->worker == worker) idem__task_act(task);
  idem__task_answer_waiters(worker, task);
  idem__task_unref(task);
}

/* The task at a position, counted; NULL: there are no more. */
static idem__task *task_at(idem_server *server, size_t position) {
  idem__task *found = NULL;
  idem__tasks_lock(server);
  idem_list *all = &server->tasks->all, *at = all->next;
  while (position-- && at != all) at = at->next;
  if (at != all) {
    found = IDEM_CONTAINER(at, idem__task, link);
    found->refs++;
  }
  idem__tasks_unlock(server);
  return found;
}

void idem__tasks_deliver(idem__mcp_worker *worker) {
  if (!worker->server->store->kind->immediate) {
    save_dirty(worker->server, worker->store_queue);
    idem__tasks_load_news(worker);
  }
  idem__tasks_look_for_doubted(worker);
  idem__tasks_lock(worker->server);
  idem__task_event *events = worker->task_events;
  bool missed = worker->task_missed;
  worker->task_events = NULL;
  worker->task_missed = false;
  idem__tasks_unlock(worker->server);
  while (events) {
    idem__task_event *next = events->next;
    idem__task *task = events->task;
    idem__free(&worker->alloc, events);
    deliver_one(worker, task);
    events = next;
  }
  idem__task *task;
  for (size_t i = 0; missed && (task = task_at(worker->server, i)); i++) deliver_one(worker, task);
  idem__tasks_answer_saved(worker);
  idem__task_look_for_waiters(worker);
}
