/* session.c - legacy sessions over HTTP: unguessable, bound to a principal, capped, gone when
 * idle. The truth is a record in the store; what is used often is an image of it, good as long as
 * the versions agree. See docs/internals/store.md. */
#include "mcp_http.h"

#include <stdio.h>
#include <string.h>

#define LINGER_MS 1000u        /* nobody uses a session for so long before its record is told */
#define LINGER_FROM_MS 300000u /* idle times below are told at once */

void idem__session_table_lock(idem__session_table *table) { idem__lock_take(&table->lock); }
void idem__session_table_unlock(idem__session_table *table) { idem__lock_give(&table->lock); }
bool idem__session_table_stateless(const idem__session_table *table) {
  return table->opts.stateless_legacy;
}

void idem__session_table_join(idem__session_table *table, idem__mcp_endpoint *endpoint) {
  idem__session_table_lock(table);
  idem_list_append(&table->endpoints, &endpoint->link);
  idem__session_table_unlock(table);
}

void idem__session_table_leave(idem__session_table *table, idem__mcp_endpoint *endpoint) {
  idem__session_table_lock(table);
  idem_list_remove(&endpoint->link);
  idem__session_table_unlock(table);
}

void idem__session_table_see_time(idem__session_table *table, uint64_t now_ms) {
  if (now_ms > atomic_load_explicit(&table->now_ms, memory_order_relaxed))
    atomic_store_explicit(&table->now_ms, now_ms, memory_order_relaxed);
}

idem__store_op idem__session_table_op(idem__session_table *table, const char *id, size_t len,
                                      idem__store_verb verb) {
  return (idem__store_op){.verb = verb,
                          .space = IDEM__STORE_SESSIONS,
                          .name = id,
                          .name_len = len,
                          .now_ms = atomic_load_explicit(&table->now_ms, memory_order_relaxed)};
}

idem__store_op idem__http_session_op(const idem__http_session *session, idem__store_verb verb) {
  return idem__session_table_op(session->table, session->id, IDEM__SESSION_ID, verb);
}

/* ----------------------------------------------------------------- lifetime */

/* With the lock held. */
void idem__http_session_hold(idem__http_session *session) {
  session->refs++;
  idem_list_leave(&session->idle);
  idem__session_share_set_idle(session, false);
  session->lingers = false;
}

/* With the lock held: nobody but the table and those without a peer hold it. */
static bool is_unused(const idem__http_session *session) {
  return session->refs == 1 + session->detached;
}

/* With the lock held. What only this process knows: a change on its way, somebody without a peer, that a stream was open once. */
static bool can_be_found_again(const idem__http_session *session) {
  return session->refs == 1 && !session->busy && !session->had_stream;
}

idem__http_session *idem__session_table_oldest(const idem__session_table *table) {
  const idem_list *among = idem_list_empty(&table->idle) ? &table->lingering : &table->idle;
  if (idem_list_empty(among)) return NULL;
  return IDEM_CONTAINER(among->next, idem__http_session, idle);
}

/* With the lock held: a node need not remember every session of a store that has them all. One that must stay goes to the end, so that it is
 * not in the way. `spared` is one whose record is to be told. */
static void spare_images(idem__session_table *table, const idem__http_session *but,
                         char spared[IDEM__SESSION_ID + 1]) {
  if (table->store->kind->immediate || table->by_id.count <= table->opts.max_images) return;
  idem__http_session *oldest = idem__session_table_oldest(table);
  if (!oldest || oldest == but) return;
  if (can_be_found_again(oldest)) {
    if (oldest->lingers) memcpy(spared, oldest->id, IDEM__SESSION_ID + 1);
    idem__http_session_forget(oldest);
    return;
  }
  idem_list *among = oldest->lingers ? &table->lingering : &table->idle;
  idem_list_remove(&oldest->idle);
  idem_list_append(among, &oldest->idle);
  idem__session_share_set_idle(oldest, true);
}

/* With the lock held. In memory it costs nothing to tell the record at once, and a short time is to be exact. */
static bool linger(idem__http_session *session) {
  idem__session_table *table = session->table;
  if (table->store->kind->immediate || table->opts.session_idle_ms < LINGER_FROM_MS) return false;
  session->left_ms = atomic_load(&table->now_ms);
  if (idem_list_empty(&table->lingering)) table->settle_ms = session->left_ms + LINGER_MS;
  session->lingers = true;
  idem_list_append(&table->lingering, &session->idle);
  return true;
}

/* With the lock held, after its users have changed. True: nobody uses it any more, and its record is to be told. */
static bool look_whether_idle(idem__http_session *session, char spared[IDEM__SESSION_ID + 1]) {
  bool idle = is_unused(session) && !session->ended;
  idem_list_leave(&session->idle);
  session->lingers = false;
  idem__session_share_set_idle(session, idle);
  if (idle && !linger(session)) idem_list_append(&session->table->idle, &session->idle);
  if (idle) spare_images(session->table, session, spared);
  return idle && !session->lingers;
}

/* With the lock held. True: the same. */
static bool release(idem__http_session *session, char spared[IDEM__SESSION_ID + 1]) {
  if (--session->refs) return look_whether_idle(session, spared);
  idem__http_session_destroy(session);
  return false;
}

/* With the lock held: the image goes; its record is gone or will be found again. */
void idem__http_session_forget(idem__http_session *session) {
  if (session->ended) return;
  session->ended = true;
  if (atomic_load(&session->under_way)) atomic_fetch_add(&session->table->orphans, 1);
  idem_map_remove(&session->table->by_id, session->id, IDEM__SESSION_ID);
  idem_list_remove(&session->link);
  idem_list_leave(&session->idle);
  idem__http_session_trust(session);
  idem__session_share_leave(session);
  idem__metrics_add(session->table->opts.metrics, IDEM__M_SESSIONS_CLOSED, 1);
  release(session, (char[IDEM__SESSION_ID + 1]){0}); /* what has ended makes no room for others */
}

static void touch(idem__session_table *table, const char *id, uint64_t ttl_ms) {
  idem__store_op op = idem__session_table_op(table, id, IDEM__SESSION_ID, IDEM__STORE_TOUCH);
  op.ttl_ms = ttl_ms;
  idem__store_run(table->store, &op);
}

void idem__http_session_ref(idem__http_session *session) {
  idem__session_table_lock(session->table);
  idem__http_session_hold(session);
  idem__session_table_unlock(session->table);
}

void idem__http_session_unref(idem__http_session *session) {
  idem__session_table *table = session->table;
  char id[IDEM__SESSION_ID + 1], spared[IDEM__SESSION_ID + 1] = "";
  memcpy(id, session->id, sizeof id);
  idem__session_table_lock(table);
  bool idle = release(session, spared);
  idem__session_table_unlock(table);
  if (idle) touch(table, id, table->opts.session_idle_ms);
  if (*spared) touch(table, spared, table->opts.session_idle_ms);
}

void idem__http_session_detached(idem__http_session *session, bool detached) {
  idem__session_table *table = session->table;
  char spared[IDEM__SESSION_ID + 1] = "";
  idem__session_table_lock(table);
  session->detached += detached ? 1 : -1u;
  bool idle = look_whether_idle(session, spared) && detached;
  idem__session_table_unlock(table);
  if (idle) touch(table, session->id, table->opts.session_idle_ms);
  if (*spared) touch(table, spared, table->opts.session_idle_ms);
}

/* The first that was left before this time; false: none. What is left of its time. */
static bool next_lingering(idem__session_table *table, uint64_t before_ms,
                           char id[IDEM__SESSION_ID + 1], uint64_t *ttl_ms) {
  idem__session_table_lock(table);
  bool some = !idem_list_empty(&table->lingering);
  idem__http_session *first = IDEM_CONTAINER(table->lingering.next, idem__http_session, idle);
  bool due = some && first->left_ms <= before_ms;
  if (due) {
    memcpy(id, first->id, IDEM__SESSION_ID + 1);
    uint64_t passed = atomic_load(&table->now_ms) - first->left_ms;
    uint64_t idle_ms = table->opts.session_idle_ms;
    *ttl_ms = passed < idle_ms ? idle_ms - passed : 1;
    first->lingers = false;
    if (can_be_found_again(first)) idem__in_flight_rest(first);
    idem_list_remove(&first->idle);
    idem_list_append(&table->idle, &first->idle);
  } else {
    table->settle_ms = some ? first->left_ms + LINGER_MS : UINT64_MAX;
  }
  idem__session_table_unlock(table);
  return due;
}

static void settle(idem__session_table *table, uint64_t before_ms) {
  char id[IDEM__SESSION_ID + 1];
  uint64_t ttl_ms;
  while (next_lingering(table, before_ms, id, &ttl_ms)) touch(table, id, ttl_ms);
}

uint64_t idem__session_table_deadline(const idem__session_table *table) {
  return atomic_load_explicit(&table->settle_ms, memory_order_relaxed);
}

void idem__session_table_settle(idem__session_table *table, uint64_t now_ms) {
  if (idem__session_table_deadline(table) > now_ms) return;
  idem__session_table_see_time(table, now_ms);
  settle(table, now_ms - LINGER_MS);
}

/* Any operation makes the store look at its clock. */
void idem__session_table_tend(idem__session_table *table, uint64_t now_ms) {
  static const char nobody[IDEM__SESSION_ID];
  idem__session_table_see_time(table, now_ms);
  idem__store_op op = idem__session_table_op(table, nobody, sizeof nobody, IDEM__STORE_TOUCH);
  idem__store_run(table->store, &op);
}

void idem__http_session_alive(idem__http_session *session, uint64_t now_ms) {
  idem__session_table_see_time(session->table, now_ms);
  touch(session->table, session->id, session->table->opts.session_idle_ms + IDEM__SESSION_BUSY_MS);
}

void idem__http_session_end(idem__http_session *session) {
  idem__store_op op = idem__http_session_op(session, IDEM__STORE_REMOVE);
  op.expect = IDEM__STORE_ANY;
  idem__store_run(session->table->store, &op); /* its watchers, us included, forget it */
}

static void on_removed(const idem__store_answer *answer, void *user) {
  idem__session_removing *removing = user;
  idem__session_table *table = removing->session->table;
  bool gone = answer->status == IDEM_OK || answer->status == IDEM_E_NOTFOUND;
  idem__session_table_lock(table);
  if (gone) idem__http_session_forget(removing->session); /* also where news of it comes late */
  idem__session_table_unlock(table);
  removing->removed(gone ? IDEM_OK : answer->status, removing->user);
}

void idem__http_session_remove(idem__store_queue *queue, idem__session_removing *removing) {
  idem__store_op op = idem__http_session_op(removing->session, IDEM__STORE_REMOVE);
  op.expect = IDEM__STORE_ANY;
  op.done = on_removed;
  op.user = removing;
  idem__store_submit(removing->session->table->store, queue, &op, &removing->pending);
}

void idem__http_session_busy(idem__http_session *session, bool begin) {
  idem__session_table_lock(session->table);
  session->busy += begin ? 1 : -1u;
  idem__session_table_unlock(session->table);
}

/* ----------------------------------------------------------------- watching */

/* With the lock held: what somebody else's change means for the image, if there is one. True: its open
 * streams must hear of it. Of our own we know. */
static bool note_change(idem__session_table *table, const idem__store_change *change, bool *behind,
                        bool *away) {
  idem__http_session *session = idem_map_get(&table->by_id, change->name, change->name_len);
  if (!session) return false;
  bool ours = session->busy && table->store->kind->immediate; /* else it may be anybody's */
  bool wake = (session->get_streams || session->resumed) && !ours;
  bool asking = atomic_load(&session->under_way) > 0;
  bool newer = change->event == IDEM__STORE_WAS_PUT && change->version > session->version;
  *behind = newer && wake;
  *away = newer && !ours && session->had_stream && !session->get_streams;
  if (*behind) session->behind = true;
  if (*behind || *away) session->unsure = true;
  if (change->event == IDEM__STORE_WAS_APPENDED) atomic_fetch_add(&session->news, 1);
  if (change->event == IDEM__STORE_WAS_REMOVED || change->event == IDEM__STORE_WAS_EXPIRED)
    idem__http_session_forget(session); /* may be the last to hold it */
  return wake || asking;
}

static void on_reloaded(idem__http_session *session, idem_status status, void *user) {
  (void)status, (void)user;
  if (session) idem__http_session_unref(session);
}

/* On whichever thread this is an immediate store answers; another is asked by who tells the streams. */
static void reload(idem__session_table *table, const char *id) {
  idem__session_finding finding = {.table = table, .found = on_reloaded};
  memcpy(finding.id, id, IDEM__SESSION_ID);
  idem__http_session_load(&finding);
}

/* One without a stream has nobody who would ask: whose notifications we keep must be known all the same. */
typedef struct reloading {
  idem_alloc alloc;
  idem__session_finding finding;
} reloading;

static void on_reloaded_there(idem__http_session *session, idem_status status, void *user) {
  reloading *self = user;
  idem_alloc alloc = self->alloc;
  on_reloaded(session, status, NULL);
  idem__free(&alloc, self);
}

static void reload_there(idem__mcp_endpoint *endpoint, void *arg) {
  reloading *self = arg;
  if (endpoint) {
    self->finding.queue = endpoint->queue;
    idem__http_session_load(&self->finding);
  } else {
    on_reloaded_there(NULL, IDEM_E_CLOSED, self);
  }
}

static void reload_later(idem__session_table *table, const char *id) {
  reloading *self = idem__calloc(&table->alloc, sizeof *self);
  if (!self) return; /* what it misses or hears twice is a hint */
  self->alloc = table->alloc;
  self->finding = (idem__session_finding){.table = table, .found = on_reloaded_there, .user = self};
  memcpy(self->finding.id, id, IDEM__SESSION_ID);
  if (idem__session_table_post(table, reload_there, self) != IDEM_OK)
    idem__free(&table->alloc, self);
}

static void on_change(const idem__store_change *change, void *user) {
  idem__session_table *table = user;
  bool behind = false, away = false, immediate = table->store->kind->immediate;
  idem__session_table_lock(table);
  bool wake = note_change(table, change, &behind, &away);
  idem__session_table_unlock(table);
  if ((behind || away) && immediate) reload(table, change->name);
  if (away && !immediate) reload_later(table, change->name);
  if (wake) idem__server_wake(table->opts.server);
}

/* The lowest that is free, so that who comes after one that went knows that what it answered is nobody's. */
static void take_place(idem__session_table *table) {
  _Atomic uint64_t *taken = &table->opts.server->session_tables;
  uint64_t seen = atomic_load(taken);
  do {
    for (table->place = 0; table->place < IDEM__TABLE_PLACES; table->place++)
      if (!(seen >> table->place & 1)) break;
    if (table->place == IDEM__TABLE_PLACES) return;
  } while (!atomic_compare_exchange_weak(taken, &seen, seen | (uint64_t)1 << table->place));
}

static void leave_place(const idem__session_table *table) {
  if (table->place < IDEM__TABLE_PLACES)
    atomic_fetch_and(&table->opts.server->session_tables, ~((uint64_t)1 << table->place));
}

idem_status idem__session_table_new(const idem__session_table_opts *opts,
                                    idem__session_table **out) {
  idem_alloc alloc = opts->server->alloc;
  idem__session_table *table = idem__calloc(&alloc, sizeof *table);
  if (!table) return IDEM_E_NOMEM;
  table->alloc = alloc;
  table->opts = *opts;
  if (!table->opts.max_sessions) table->opts.max_sessions = 10000;
  size_t most = table->opts.max_sessions;
  if (!table->opts.max_sessions_each) table->opts.max_sessions_each = most / 2 + most % 2;
  if (!table->opts.session_idle_ms) table->opts.session_idle_ms = 1800000;
  if (!table->opts.max_images) table->opts.max_images = 8192;
  if (!table->opts.log_bytes) table->opts.log_bytes = (size_t)256 << 10;
  take_place(table);
  idem__lock_init(&table->lock);
  idem_map_init(&table->by_id, &table->alloc, idem__router_seed(opts->server->router));
  idem_map_init(&table->sse_lines, &table->alloc, table->by_id.seed);
  idem_map_init(&table->letters_taken, &table->alloc, table->by_id.seed);
  idem_map_init(&table->holders, &table->alloc, table->by_id.seed);
  idem__heap_init(&table->ranks, &table->alloc);
  idem_list_init(&table->sessions);
  idem_list_init(&table->idle);
  idem_list_init(&table->lingering);
  idem_list_init(&table->doubts);
  idem_list_init(&table->letters_back);
  atomic_init(&table->settle_ms, UINT64_MAX);
  idem_list_init(&table->endpoints);
  table->store = idem__store_ref(opts->server->store);
  idem_status status =
      idem__store_watch(table->store, IDEM__STORE_SESSIONS, on_change, table, &table->watcher);
  if (status == IDEM_OK)
    status = idem__store_watch(table->store, IDEM__STORE_NEWS, idem__carry_on_news, table,
                               &table->carried);
  if (status == IDEM_OK)
    status = idem__store_watch(table->store, IDEM__STORE_LETTERS, idem__letters_on_change, table,
                               &table->letters);
  if (status == IDEM_OK)
    status = idem__store_watch(table->store, IDEM__STORE_NODES, idem__remind_on_node, table,
                               &table->nodes);
  if (status != IDEM_OK) {
    idem__session_table_free(table);
    return status;
  }
  *out = table;
  return IDEM_OK;
}

/* The records stay: who serves them next may be another table. */
void idem__session_table_free(idem__session_table *table) {
  if (!table) return;
  idem__store_unwatch(table->store, table->watcher);
  idem__store_unwatch(table->store, table->carried);
  idem__store_unwatch(table->store, table->letters);
  idem__store_unwatch(table->store, table->nodes);
  settle(table, UINT64_MAX);
  while (!idem_list_empty(&table->sessions)) {
    idem__http_session_forget(IDEM_CONTAINER(table->sessions.next, idem__http_session, link));
  }
  idem__letters_forget(table);
  idem_map_deinit(&table->by_id);
  idem_map_deinit(&table->sse_lines);
  idem_map_deinit(&table->letters_taken);
  idem_map_deinit(&table->holders);
  idem__heap_deinit(&table->ranks);
  leave_place(table);
  idem__store_unref(table->store);
  idem_alloc alloc = table->alloc;
  idem__free(&alloc, table);
}

size_t idem__session_table_sessions(idem__session_table *table) {
  idem__session_table_lock(table);
  size_t count = table->by_id.count;
  idem__session_table_unlock(table);
  return count;
}
