/* worker.c - what one thread's peers share: the snapshot in use, a schema context, and who is told of
 * changes. Changes may come from any thread; they wait in the worker until its own thread delivers. */
#include "notify.h"
#include "once.h"
#include "page.h"
#include "server.h"
#include "session.h"
#include "task.h"

#include <string.h>

/* ------------------------------------------------------------------- views */

static idem__worker_lists *new_lists(idem__mcp_worker *worker) {
  idem__worker_lists *lists = idem__calloc(&worker->alloc, sizeof *lists);
  if (!lists) return NULL;
  idem__server_lock(worker->server);
  lists->registry = worker->server->registry;
  atomic_fetch_add_explicit(&lists->registry->refs, 1, memory_order_relaxed);
  idem__server_unlock(worker->server);
  lists->refs = 1;
  lists->alloc = &worker->alloc;
  return lists;
}

void idem__worker_lists_unref(idem__worker_lists *lists) {
  if (--lists->refs) return;
  idem__pages_free(lists);
  idem__registry_unref(lists->registry);
  idem__free(lists->alloc, lists);
}

/* Looks for a newer snapshot without taking the lock. */
static void refresh(idem__mcp_worker *worker) {
  uint64_t newest = atomic_load_explicit(&worker->server->generation, memory_order_acquire);
  if (worker->lists && worker->lists->registry->generation == newest) return;
  idem__worker_lists *fresh = new_lists(worker);
  if (!fresh) return; /* the old one still serves */
  if (worker->lists) idem__worker_lists_unref(worker->lists);
  worker->lists = fresh;
}

idem__worker_lists *idem__worker_snapshot(idem__mcp_worker *worker) {
  refresh(worker);
  if (worker->lists) worker->lists->refs++;
  return worker->lists;
}

/* ------------------------------------------------------------------ posting */

static void add_posted(idem__mcp_worker *worker, idem__posted *posted) {
  idem__server_lock(worker->server);
  *worker->posted_end = posted;
  worker->posted_end = &posted->next;
  idem__server_unlock(worker->server);
  if (worker->wake)
    worker->wake(worker, worker->wake_user);
  else
    idem__worker_deliver(worker);
}

idem_status idem__worker_post(idem__mcp_worker *worker, void (*fn)(void *arg), void *arg) {
  idem__posted *posted = idem__malloc(&worker->alloc, sizeof *posted);
  if (!posted) return IDEM_E_NOMEM;
  *posted = (idem__posted){.fn = fn, .arg = arg};
  add_posted(worker, posted);
  return IDEM_OK;
}

void idem__worker_post_lent(idem__mcp_worker *worker, idem__posted *posted) {
  posted->lent = true;
  posted->next = NULL;
  add_posted(worker, posted);
}

bool idem__worker_turn_over(const idem__mcp_worker *worker) {
  return worker->pool && idem__pool_turn_over_now(worker->pool);
}

/* Before whatever was posted since. */
static void put_back(idem__mcp_worker *worker, idem__posted *rest) {
  idem__posted **end = &rest->next;
  while (*end) end = &(*end)->next;
  idem__server_lock(worker->server);
  *end = worker->posted;
  if (!worker->posted) worker->posted_end = end;
  worker->posted = rest;
  idem__server_unlock(worker->server);
  worker->wake(worker, worker->wake_user);
}

static void run_posted(idem__mcp_worker *worker, bool all) {
  idem__server_lock(worker->server);
  idem__posted *posted = worker->posted;
  worker->posted = NULL;
  worker->posted_end = &worker->posted;
  idem__server_unlock(worker->server);
  while (posted) {
    idem__posted *next = posted->next;
    bool lent = posted->lent;
    posted->fn(posted->arg);
    if (!lent) idem__free(&worker->alloc, posted);
    posted = next;
    if (posted && !all && idem__worker_turn_over(worker)) {
      put_back(worker, posted);
      return;
    }
  }
  idem__once_forget_marked(worker);
}

void idem__worker_run_posted(idem__mcp_worker *worker) { run_posted(worker, true); }

/* -------------------------------------------------------------------- workers */

static void link_hub(idem__mcp_worker *worker) {
  idem__server_lock(worker->server);
  idem_list_append(&worker->server->workers, &worker->link);
  idem__server_unlock(worker->server);
}

static void on_store(void *user) {
  idem__mcp_worker *worker = user;
  worker->wake(worker, worker->wake_user);
}

static idem_status make_parts(idem__mcp_worker *worker) {
  idem__store_queue_opts queue = {.user = worker, .alloc = &worker->alloc};
  if (worker->wake) queue.wake = on_store;
  idem_status status = idem__store_queue_new(&queue, &worker->store_queue);
  if (status == IDEM_OK) status = idem_schema_ctx_new(&worker->alloc, &worker->schema);
  if (status != IDEM_OK) return status;
  worker->lists = new_lists(worker);
  return worker->lists ? IDEM_OK : IDEM_E_NOMEM;
}

idem_status idem__worker_new(idem_server *server,
                             void (*wake)(idem__mcp_worker *worker, void *user), void *wake_user,
                             idem__mcp_worker **out) {
  idem__mcp_worker *worker = idem__calloc(&server->alloc, sizeof *worker);
  if (!worker) return IDEM_E_NOMEM;
  worker->server = server;
  worker->alloc = server->alloc;
  worker->wake = wake;
  worker->wake_user = wake_user;
  worker->posted_end = &worker->posted;
  worker->news_end = &worker->news;
  idem_list_init(&worker->peers);
  idem_list_init(&worker->listeners);
  idem_list_init(&worker->waiters);
  idem_list_init(&worker->unsaved);
  idem_list_init(&worker->subscribers);
  idem_buf_init(&worker->scratch, &worker->alloc, idem__answer_bytes(server));
  idem_status status = make_parts(worker);
  if (status != IDEM_OK) {
    idem_schema_ctx_free(worker->schema);
    idem__store_queue_free(worker->store_queue);
    idem__free(&server->alloc, worker);
    return status;
  }
  link_hub(worker);
  *out = worker;
  return IDEM_OK;
}

static void free_updates(idem__mcp_worker *worker) {
  while (worker->updated) {
    idem__updated_uri *next = worker->updated->next;
    idem__free(&worker->alloc, worker->updated);
    worker->updated = next;
  }
}

static void destroy(idem__mcp_worker *worker) {
  idem__worker_lists_unref(worker->lists);
  idem__ask_rules_free(worker);
  idem_schema_ctx_free(worker->schema);
  idem_metrics_free(worker->metrics);
  idem_buf_deinit(&worker->scratch);
  idem_alloc alloc = worker->alloc;
  idem__free(&alloc, worker);
}

/* Requests that handlers still hold need the worker's memory: then the server keeps it to its end. */
void idem__worker_free(idem__mcp_worker *worker) {
  if (!worker) return;
  idem__server_lock(worker->server);
  idem_list_remove(&worker->link);
  idem__server_unlock(worker->server);
  worker->pool = NULL;
  idem__worker_run_posted(worker); /* so that what it holds is let go of */
  idem__once_forget_worker(worker);
  idem__tasks_forget_hub(worker);
  idem__store_queue_free(worker->store_queue);
  worker->store_queue = NULL;
  worker->wake = NULL;
  free_updates(worker);
  idem__worker_forget_news(worker);
  if (!worker->contexts) {
    destroy(worker);
    return;
  }
  idem__server_lock(worker->server);
  idem_list_append(&worker->server->ended_workers, &worker->link);
  idem__server_unlock(worker->server);
}

void idem__workers_destroy_ended(idem_server *server) {
  while (!idem_list_empty(&server->ended_workers)) {
    idem__mcp_worker *worker = IDEM_CONTAINER(server->ended_workers.next, idem__mcp_worker, link);
    idem_list_remove(&worker->link);
    destroy(worker);
  }
}

/* ------------------------------------------------------------------ telling */

/* Wakes every worker; those without a hook are told at once, outside the lock. */
void idem__server_wake(idem_server *server) {
  bool direct = false;
  idem__server_lock(server);
  for (idem_list *at = server->workers.next; at != &server->workers; at = at->next) {
    idem__mcp_worker *worker = IDEM_CONTAINER(at, idem__mcp_worker, link);
    if (worker->wake)
      worker->wake(worker, worker->wake_user);
    else
      direct = true;
  }
  idem__server_unlock(server);
  if (direct) idem__worker_deliver(server->own_worker);
}

void idem__server_rested(idem_server *server) {
  idem__server_lock(server);
  for (idem_list *at = server->workers.next; at != &server->workers; at = at->next)
    idem__worker_rested(IDEM_CONTAINER(at, idem__mcp_worker, link));
  idem__server_unlock(server);
}

void idem__server_tell_lists(idem_server *server, uint32_t kinds) {
  idem__server_lock(server);
  for (idem_list *at = server->workers.next; at != &server->workers; at = at->next) {
    idem__mcp_worker *worker = IDEM_CONTAINER(at, idem__mcp_worker, link);
    atomic_fetch_or_explicit(&worker->changed, kinds, memory_order_release);
  }
  idem__server_unlock(server);
  idem__server_wake(server);
}

void idem__server_changed(idem_server *server, uint32_t kinds) {
  idem__node_lists_changed(server);
  idem__server_tell_lists(server, kinds);
}

static bool already_waiting(const idem__mcp_worker *worker, const char *uri, size_t len) {
  for (const idem__updated_uri *at = worker->updated; at; at = at->next) {
    if (strncmp(at->uri, uri, len) == 0 && at->uri[len] == '\0') return true;
  }
  return false;
}

/* With the lock held. Without memory the news is lost: it is a hint. */
static void add_update(idem__mcp_worker *worker, const char *uri, size_t len) {
  if (already_waiting(worker, uri, len) || worker->updated_count >= IDEM__UPDATES_MAX) return;
  idem__updated_uri *update = idem__malloc(&worker->alloc, sizeof *update + len + 1);
  if (!update) return;
  memcpy(update->uri, uri, len);
  update->uri[len] = '\0';
  update->next = worker->updated;
  worker->updated = update;
  worker->updated_count++;
}

static void tell_hubs(idem_server *server, const char *uri, size_t len) {
  idem__server_lock(server);
  for (idem_list *at = server->workers.next; at != &server->workers; at = at->next) {
    add_update(IDEM_CONTAINER(at, idem__mcp_worker, link), uri, len);
  }
  idem__server_unlock(server);
  idem__server_wake(server);
}

void idem__server_on_news(const idem__store_change *change, void *user) {
  if (change->event != IDEM__STORE_WAS_TOLD) return;
  if (change->name_len && change->name[0] == IDEM__NEWS_CARRIED) return;
  if (change->name_len && change->name[0] == IDEM__NEWS_ELICITATION)
    idem__elicitation_complete(user, change->name + 1, change->name_len - 1);
  else
    tell_hubs(user, change->name, change->name_len);
}

/* By way of the store, so that the peers of other servers hear of it, too. Whether one that answers later
 * tells it nobody waits for: news is a hint. */
void idem_server_resource_updated(idem_server *server, const char *uri) {
  idem__store_op op = {.verb = IDEM__STORE_TELL, .space = IDEM__STORE_NEWS, .name = uri};
  op.name_len = strlen(uri);
  if (!server->store->kind->immediate)
    idem__store_run(server->store, &op);
  else if (idem__store_ask(server->store, &op, NULL).status != IDEM_OK)
    tell_hubs(server, uri, op.name_len);
}

static const char *const changed_methods[IDEM__LIST_KINDS] = {
    [IDEM__TOOLS] = "notifications/tools/list_changed",
    [IDEM__RESOURCES] = "notifications/resources/list_changed",
    [IDEM__TEMPLATES] = "notifications/resources/list_changed",
    [IDEM__PROMPTS] = "notifications/prompts/list_changed",
};

static void tell_changed(idem__mcp_worker *worker, const char *method, uint32_t kind) {
  idem__worker_tell(worker, &(idem__mcp_news){.method = method, .level = -1});
  idem__listeners_tell(worker, kind, NULL);
}

static void tell_subscribed(idem__mcp_worker *worker, const char *uri) {
  idem_buf params;
  idem_buf_init(&params, &worker->alloc, (size_t)1 << 20);
  bool written = idem__updated_params(&params, uri) == IDEM_OK;
  idem__mcp_news news = {.method = "notifications/resources/updated",
                         .params = params.data,
                         .len = params.len,
                         .uri = uri,
                         .level = -1};
  if (written) idem__worker_tell(worker, &news);
  idem_buf_deinit(&params);
}

static void tell_updated(idem__mcp_worker *worker, const char *uri) {
  tell_subscribed(worker, uri);
  idem__listeners_tell(worker, 0, uri);
}

static void deliver_changes(idem__mcp_worker *worker) {
  uint32_t changed = atomic_exchange_explicit(&worker->changed, 0, memory_order_acquire);
  refresh(worker);
  /* A template changed is a resource list changed: one notification for both. */
  if (changed & (1u << IDEM__TEMPLATES)) changed |= 1u << IDEM__RESOURCES;
  changed &= ~(1u << IDEM__TEMPLATES);
  for (uint32_t kind = 0; kind < IDEM__LIST_KINDS; kind++) {
    if (changed & (1u << kind)) tell_changed(worker, changed_methods[kind], 1u << kind);
  }
}

static void deliver_updates(idem__mcp_worker *worker) {
  idem__server_lock(worker->server);
  idem__updated_uri *updates = worker->updated;
  worker->updated = NULL;
  worker->updated_count = 0;
  idem__server_unlock(worker->server);
  while (updates) {
    idem__updated_uri *next = updates->next;
    tell_updated(worker, updates->uri);
    idem__free(&worker->alloc, updates);
    updates = next;
  }
}

void idem__worker_deliver(idem__mcp_worker *worker) {
  worker->again = true;
  if (worker->delivering) return;
  worker->delivering = true;
  while (worker->again) {
    worker->again = false;
    run_posted(worker, false);
    idem__store_queue_run(worker->store_queue);
    deliver_changes(worker);
    idem__node_renew_now(worker);
    idem__identity_deliver(worker);
    idem__node_deliver(worker);
    deliver_updates(worker);
    idem__worker_remind(worker);
    idem__worker_tell_waiting(worker);
    idem__tasks_deliver(worker);
    idem__once_deliver(worker);
    for (idem_list *at = worker->subscribers.next; at != &worker->subscribers; at = at->next) {
      idem__mcp_subscriber *subscriber = IDEM_CONTAINER(at, idem__mcp_subscriber, link);
      subscriber->on_delivered(subscriber);
    }
  }
  worker->delivering = false;
}

/* --------------------------------------------------------------------- time */

#define ONCE_TICK_MS 1000u

/* How often its node's record and its keys want to be looked at; UINT64_MAX: they do not. */
static uint64_t tick_interval(const idem__mcp_worker *worker) {
  uint64_t interval = idem__node_interval_ms(worker->server);
  bool waits = idem__once_waits(worker);
  return waits && interval > ONCE_TICK_MS ? ONCE_TICK_MS : interval;
}

static void tick(idem__mcp_worker *worker, uint64_t now_ms) {
  idem__node_renew(worker, now_ms);
  idem__once_tick(worker);
  worker->ticked_ms = now_ms;
}

/* Who begins to wait for a key does not wait for the node's next renewal. */
static uint64_t tick_deadline(const idem__mcp_worker *worker) {
  uint64_t interval = tick_interval(worker);
  if (interval == UINT64_MAX || !worker->ticked_ms) return interval == UINT64_MAX ? interval : 0;
  return worker->ticked_ms + interval;
}

uint64_t idem__worker_deadline(idem__mcp_worker *worker) {
  uint64_t at = idem__store_queue_deadline(worker->store_queue);
  uint64_t tick_at = tick_deadline(worker);
  if (tick_at < at) at = tick_at;
  for (idem_list *link = worker->subscribers.next; link != &worker->subscribers;
       link = link->next) {
    idem__mcp_subscriber *subscriber = IDEM_CONTAINER(link, idem__mcp_subscriber, link);
    uint64_t its = subscriber->deadline(subscriber);
    if (its < at) at = its;
  }
  return at;
}

void idem__worker_expire(idem__mcp_worker *worker, uint64_t now_ms) {
  if (idem__store_queue_deadline(worker->store_queue) <= now_ms)
    idem__store_queue_expire(worker->store_queue, now_ms);
  if (tick_deadline(worker) <= now_ms) tick(worker, now_ms);
  for (idem_list *at = worker->subscribers.next; at != &worker->subscribers; at = at->next) {
    idem__mcp_subscriber *subscriber = IDEM_CONTAINER(at, idem__mcp_subscriber, link);
    if (subscriber->deadline(subscriber) <= now_ms) subscriber->on_time(subscriber, now_ms);
  }
}

void idem__worker_wake(idem__mcp_worker *worker) {
  if (worker->wake) worker->wake(worker, worker->wake_user);
}
