/* session.c - legacy sessions over HTTP: unguessable, bound to a principal, capped, gone when
 * idle. The truth is a record in the store; what is used often is an image of it, good as long as
 * the versions agree. See docs/internals/store.md. */
#include "mcp_http.h"

#include <stdio.h>
#include <string.h>

/* A session in use does not expire, unless whoever used it died without a word. */
#define BUSY_MS ((uint64_t)24 * 60 * 60 * 1000)
#define CHANGE_TRIES 16

void idem__session_table_lock(idem__session_table *table) { idem__lock_take(&table->lock); }
void idem__session_table_unlock(idem__session_table *table) { idem__lock_give(&table->lock); }

idem_server *idem__session_table_server(const idem__session_table *table) {
  return table->opts.server;
}
bool idem__session_table_stateless(const idem__session_table *table) {
  return table->opts.stateless_legacy;
}

void idem__session_table_join(idem__session_table *table, idem__mcp_endpoint *endpoint) {
  idem__session_table_lock(table);
  idem__list_append(&table->endpoints, &endpoint->link);
  idem__session_table_unlock(table);
}

void idem__session_table_leave(idem__session_table *table, idem__mcp_endpoint *endpoint) {
  idem__session_table_lock(table);
  idem__list_remove(&endpoint->link);
  idem__session_table_unlock(table);
}

static void see_time(idem__session_table *table, uint64_t now_ms) {
  if (now_ms > atomic_load_explicit(&table->now_ms, memory_order_relaxed))
    atomic_store_explicit(&table->now_ms, now_ms, memory_order_relaxed);
}

static idem__store_op op_for(idem__session_table *table, const char *id, size_t len,
                             idem__store_verb verb) {
  return (idem__store_op){.verb = verb,
                          .space = IDEM__STORE_SESSIONS,
                          .name = id,
                          .name_len = len,
                          .now_ms = atomic_load_explicit(&table->now_ms, memory_order_relaxed)};
}

idem__store_op idem__http_session_op(const idem__http_session *session, idem__store_verb verb) {
  return op_for(session->table, session->id, IDEM__SESSION_ID, verb);
}

/* ----------------------------------------------------------------- lifetime */

/* With the lock held. */
void idem__http_session_hold(idem__http_session *session) {
  session->refs++;
  idem__list_leave(&session->idle);
}

/* With the lock held: nobody but the table and those without a peer hold it. */
static bool is_unused(const idem__http_session *session) {
  return session->refs == 1 + session->detached;
}

/* With the lock held, after its users have changed. True: nobody uses it any more. */
static bool look_whether_idle(idem__http_session *session) {
  bool idle = is_unused(session) && !session->ended;
  idem__list_leave(&session->idle);
  if (idle) idem__list_append(&session->table->idle, &session->idle);
  return idle;
}

/* With the lock held. True: nobody uses it any more. */
static bool release(idem__http_session *session) {
  if (--session->refs) return look_whether_idle(session);
  idem__http_session_destroy(session);
  return false;
}

/* With the lock held: the image goes; its record is gone or will be found again. */
static void forget(idem__http_session *session) {
  if (session->ended) return;
  session->ended = true;
  if (atomic_load(&session->visits)) atomic_fetch_add(&session->table->orphans, 1);
  idem__map_remove(&session->table->by_id, session->id, IDEM__SESSION_ID);
  idem__list_remove(&session->link);
  idem__list_leave(&session->idle);
  idem__metrics_add(session->table->opts.metrics, IDEM__M_SESSIONS_CLOSED, 1);
  release(session);
}

static void touch(idem__session_table *table, const char *id, uint64_t ttl_ms) {
  idem__store_op op = op_for(table, id, IDEM__SESSION_ID, IDEM__STORE_TOUCH);
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
  char id[IDEM__SESSION_ID + 1];
  memcpy(id, session->id, sizeof id);
  idem__session_table_lock(table);
  bool idle = release(session);
  idem__session_table_unlock(table);
  if (idle) touch(table, id, table->opts.session_idle_ms);
}

void idem__http_session_detached(idem__http_session *session, bool detached) {
  idem__session_table *table = session->table;
  idem__session_table_lock(table);
  session->detached += detached ? 1 : -1u;
  bool idle = look_whether_idle(session) && detached;
  idem__session_table_unlock(table);
  if (idle) touch(table, session->id, table->opts.session_idle_ms);
}

/* Any operation makes the store look at its clock. */
void idem__session_table_tend(idem__session_table *table, uint64_t now_ms) {
  static const char nobody[IDEM__SESSION_ID];
  see_time(table, now_ms);
  idem__store_op op = op_for(table, nobody, sizeof nobody, IDEM__STORE_TOUCH);
  idem__store_run(table->store, &op);
}

void idem__http_session_alive(idem__http_session *session, uint64_t now_ms) {
  see_time(session->table, now_ms);
  touch(session->table, session->id, session->table->opts.session_idle_ms + BUSY_MS);
}

void idem__http_session_end(idem__http_session *session) {
  idem__store_op op = idem__http_session_op(session, IDEM__STORE_REMOVE);
  op.expect = IDEM__STORE_ANY;
  idem__store_run(session->table->store, &op); /* its watchers, us included, forget it */
}

/* ----------------------------------------------------------------- watching */

/* Makes the image what the record is now, or an image where there was none; counted. */
static idem__http_session *load(idem__session_table *table, idem__view id);

/* With the lock held: what somebody else's change means for the image, if there is one. True: its open
 * streams must hear of it. Of our own we know. */
static bool note_change(idem__session_table *table, const idem__store_change *change,
                        bool *behind) {
  idem__http_session *session = idem__map_get(&table->by_id, change->name, change->name_len);
  if (!session) return false;
  bool wake = session->get_streams && !session->busy;
  bool asking = atomic_load(&session->visits) > 0;
  *behind = change->event == IDEM__STORE_WAS_PUT && wake && change->version > session->version;
  if (change->event == IDEM__STORE_WAS_REMOVED || change->event == IDEM__STORE_WAS_EXPIRED)
    forget(session); /* may be the last to hold it */
  return wake || asking;
}

static void on_change(const idem__store_change *change, void *user) {
  idem__session_table *table = user;
  bool behind = false;
  idem__session_table_lock(table);
  bool wake = note_change(table, change, &behind);
  idem__session_table_unlock(table);
  if (behind) {
    idem__http_session *session = load(table, (idem__view){change->name, change->name_len});
    if (session) idem__http_session_unref(session);
  }
  if (wake) idem__server_wake(table->opts.server);
}

idem_status idem__session_table_new(const idem__session_table_opts *opts,
                                    idem__session_table **out) {
  idem_alloc alloc = opts->server->alloc;
  idem__session_table *table = idem__calloc(&alloc, sizeof *table);
  if (!table) return IDEM_E_NOMEM;
  table->alloc = alloc;
  table->opts = *opts;
  if (!table->opts.max_sessions) table->opts.max_sessions = 10000;
  if (!table->opts.session_idle_ms) table->opts.session_idle_ms = 1800000;
  if (!table->opts.log_bytes) table->opts.log_bytes = (size_t)256 << 10;
  idem__lock_init(&table->lock);
  idem__map_init(&table->by_id, &table->alloc, idem__router_seed(opts->server->router));
  idem__map_init(&table->sse_lines, &table->alloc, table->by_id.seed);
  idem__list_init(&table->sessions);
  idem__list_init(&table->idle);
  idem__list_init(&table->endpoints);
  table->store = idem__store_ref(opts->server->store);
  idem_status status =
      idem__store_watch(table->store, IDEM__STORE_SESSIONS, on_change, table, &table->watcher);
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
  while (!idem__list_empty(&table->sessions)) {
    forget(IDEM__CONTAINER(table->sessions.next, idem__http_session, link));
  }
  idem__map_deinit(&table->by_id);
  idem__map_deinit(&table->sse_lines);
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

/* ------------------------------------------------------------------ changing */

void idem__http_session_busy(idem__http_session *session, bool begin) {
  idem__session_table_lock(session->table);
  session->busy += begin ? 1 : -1u;
  idem__session_table_unlock(session->table);
}

/* Applies the change and writes the record anew. STATE: another process was faster. */
static idem_status try_change(idem__http_session *session, const idem__session_change *change) {
  idem__session_table *table = session->table;
  idem__buf text;
  idem__store_op op = idem__http_session_op(session, IDEM__STORE_PUT);
  idem__buf_init(&text, &table->alloc, SIZE_MAX / 4);
  idem__session_table_lock(table);
  idem_status status =
      idem__session_apply(&session->legacy, change, table->opts.server->opts.max_subscriptions);
  if (status == IDEM_OK) status = idem__record_write(session, &text);
  op.expect = session->version;
  session->busy++;
  idem__session_table_unlock(table);
  op.bytes = text.data;
  op.len = text.len;
  op.ttl_ms = table->opts.session_idle_ms + BUSY_MS; /* whoever changes it is using it */
  idem__store_answer answer = {.status = status};
  if (status == IDEM_OK) answer = idem__store_ask(table->store, &op, NULL);
  idem__session_table_lock(table);
  session->busy--;
  if (answer.status == IDEM_OK && answer.version > session->version)
    session->version = answer.version;
  idem__session_table_unlock(table);
  idem__buf_deinit(&text);
  return answer.status;
}

idem_status idem__http_session_change(idem__http_session *session,
                                      const idem__session_change *change) {
  idem_status status = IDEM_E_STATE;
  for (unsigned i = 0; i < CHANGE_TRIES && status == IDEM_E_STATE; i++) {
    status = try_change(session, change);
    if (status != IDEM_E_STATE) break;
    idem__http_session *same = load(session->table, (idem__view){session->id, IDEM__SESSION_ID});
    if (same) idem__http_session_unref(same);
  }
  /* A session that ended meanwhile needs no change any more. */
  return status == IDEM_E_NOTFOUND ? IDEM_OK : status;
}

/* ------------------------------------------------------------------- loading */

/* With the lock held. Two threads may have loaded the same: the first image is the one. */
static idem__http_session *take_in(idem__session_table *table, idem__http_session *fresh) {
  idem__http_session *known = idem__map_get(&table->by_id, fresh->id, IDEM__SESSION_ID);
  if (known) return known;
  fresh->refs = 1;
  if (idem__map_put(&table->by_id, fresh->id, IDEM__SESSION_ID, fresh) != IDEM_OK) return NULL;
  idem__list_append(&table->sessions, &fresh->link);
  idem__metrics_add(table->opts.metrics, IDEM__M_SESSIONS_OPENED, 1);
  return fresh;
}

static idem__http_session *image_of(idem__session_table *table, idem__view id, uint64_t version,
                                    const idem__buf *text) {
  idem__http_session *fresh = NULL, *session;
  idem__session_table_lock(table);
  session = idem__map_get(&table->by_id, id.at, id.len);
  if (session && session->version < version) {
    if (idem__record_read(table, text->data, text->len, session, NULL) == IDEM_OK)
      session->version = version;
  } else if (!session && idem__record_read(table, text->data, text->len, NULL, &fresh) == IDEM_OK) {
    memcpy(fresh->id, id.at, IDEM__SESSION_ID);
    fresh->version = version;
    session = take_in(table, fresh);
    if (session != fresh) idem__http_session_destroy(fresh);
  }
  if (session) idem__http_session_hold(session);
  idem__session_table_unlock(table);
  return session;
}

static idem__http_session *load(idem__session_table *table, idem__view id) {
  idem__buf text;
  idem__http_session *session = NULL;
  idem__store_op op = op_for(table, id.at, id.len, IDEM__STORE_GET);
  idem__buf_init(&text, &table->alloc, SIZE_MAX / 4);
  idem__store_answer answer = idem__store_ask(table->store, &op, &text);
  if (answer.status == IDEM_OK) session = image_of(table, id, answer.version, &text);
  idem__buf_deinit(&text);
  return session;
}

/* The image, if it shows this version; counted. */
static idem__http_session *current(idem__session_table *table, idem__view id, uint64_t version) {
  idem__session_table_lock(table);
  idem__http_session *session = idem__map_get(&table->by_id, id.at, id.len);
  if (session && session->version < version && !session->busy) session = NULL;
  if (session) idem__http_session_hold(session);
  idem__session_table_unlock(table);
  return session;
}

idem__http_session *idem__http_session_find(idem__session_table *table, idem__view id,
                                            const char *principal, uint64_t now_ms) {
  if (id.len != IDEM__SESSION_ID) return NULL;
  see_time(table, now_ms);
  idem__store_op op = op_for(table, id.at, id.len, IDEM__STORE_TOUCH);
  op.ttl_ms = table->opts.session_idle_ms + BUSY_MS;
  idem__store_answer answer = idem__store_ask(table->store, &op, NULL);
  if (answer.status != IDEM_OK) return NULL;
  idem__http_session *session = current(table, id, answer.version);
  if (!session) session = load(table, id);
  if (!session || strcmp(session->principal, principal) == 0) return session;
  idem__http_session_unref(session); /* somebody else's */
  return NULL;
}

/* ------------------------------------------------------------------- opening */

void idem__session_table_make_id(const idem__session_table *table, char id[IDEM__SESSION_ID + 1]) {
  uint8_t bytes[IDEM__SESSION_ID / 2];
  idem__server_random(table->opts.server, bytes, sizeof bytes);
  for (size_t i = 0; i < sizeof bytes; i++) snprintf(id + i * 2, 3, "%02x", bytes[i]);
}

/* Ends the session that nobody has used for longest; false: all are in use. */
static bool evict(idem__session_table *table) {
  idem__http_session *oldest = NULL;
  idem__session_table_lock(table);
  if (!idem__list_empty(&table->idle)) {
    oldest = IDEM__CONTAINER(table->idle.next, idem__http_session, idle);
    idem__http_session_hold(oldest);
  }
  idem__session_table_unlock(table);
  if (!oldest) return false;
  idem__http_session_end(oldest);
  idem__http_session_unref(oldest);
  return true;
}

static idem_status put_record(idem__http_session *session) {
  idem__session_table *table = session->table;
  idem__buf text;
  idem__store_op op = idem__http_session_op(session, IDEM__STORE_PUT);
  idem__buf_init(&text, &table->alloc, SIZE_MAX / 4);
  idem_status status = idem__record_write(session, &text);
  op.bytes = text.data;
  op.len = text.len;
  op.expect = IDEM__STORE_ABSENT;
  op.limit = table->opts.max_sessions;
  op.ttl_ms = table->opts.session_idle_ms + BUSY_MS;
  idem__store_answer answer = {.status = status};
  if (status == IDEM_OK) answer = idem__store_ask(table->store, &op, NULL);
  while (answer.status == IDEM_E_LIMIT && evict(table))
    answer = idem__store_ask(table->store, &op, NULL);
  session->version = answer.version;
  idem__buf_deinit(&text);
  return answer.status;
}

idem_status idem__http_session_open(idem__session_table *table, const char *principal,
                                    uint64_t now_ms, const idem__revision *revision,
                                    yyjson_val *params, idem__http_session **out) {
  see_time(table, now_ms);
  idem__http_session *session = idem__http_session_new(table, principal, revision, params);
  if (!session) return IDEM_E_NOMEM;
  idem__session_table_make_id(table, session->id);
  idem_status status = put_record(session);
  if (status != IDEM_OK) {
    idem__http_session_destroy(session);
    return status;
  }
  idem__session_table_lock(table);
  bool taken = take_in(table, session) == session;
  if (taken) idem__http_session_hold(session); /* the caller's */
  idem__session_table_unlock(table);
  if (!taken) {
    idem__http_session_end(session);
    idem__http_session_destroy(session);
    return IDEM_E_NOMEM;
  }
  *out = session;
  return IDEM_OK;
}
