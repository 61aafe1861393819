/* session.c - legacy sessions over HTTP: unguessable, bound to a principal, capped, gone when
 * idle. The truth is a record in the store; what is used often is an image of it, good as long as
 * the versions agree. See docs/internals/store.md. */
#include "mcp_http.h"

#include <stdio.h>
#include <string.h>

/* A session in use does not expire, unless whoever used it died without a word. */
#define BUSY_MS ((uint64_t)24 * 60 * 60 * 1000)
#define CHANGE_TRIES 16

void idem__shop_lock(idem__mcp_shop *shop) { idem__lock_take(&shop->lock); }
void idem__shop_unlock(idem__mcp_shop *shop) { idem__lock_give(&shop->lock); }

idem_server *idem__shop_server(const idem__mcp_shop *shop) { return shop->opts.server; }
bool idem__shop_stateless(const idem__mcp_shop *shop) { return shop->opts.stateless_legacy; }

void idem__shop_join(idem__mcp_shop *shop, idem__mcp_desk *desk) {
  idem__shop_lock(shop);
  idem__list_append(&shop->desks, &desk->link);
  idem__shop_unlock(shop);
}

void idem__shop_leave(idem__mcp_shop *shop, idem__mcp_desk *desk) {
  idem__shop_lock(shop);
  idem__list_remove(&desk->link);
  idem__shop_unlock(shop);
}

static void see_time(idem__mcp_shop *shop, uint64_t now_ms) {
  if (now_ms > atomic_load_explicit(&shop->now_ms, memory_order_relaxed))
    atomic_store_explicit(&shop->now_ms, now_ms, memory_order_relaxed);
}

static idem__store_op op_for(idem__mcp_shop *shop, const char *id, size_t len,
                             idem__store_verb verb) {
  return (idem__store_op){.verb = verb,
                          .space = IDEM__STORE_SESSIONS,
                          .name = id,
                          .name_len = len,
                          .now_ms = atomic_load_explicit(&shop->now_ms, memory_order_relaxed)};
}

idem__store_op idem__kept_op(const idem__kept_session *session, idem__store_verb verb) {
  return op_for(session->shop, session->id, IDEM__SESSION_ID, verb);
}

/* ----------------------------------------------------------------- lifetime */

/* With the lock held. */
void idem__kept_hold(idem__kept_session *session) {
  session->refs++;
  idem__list_leave(&session->idle);
}

/* With the lock held: nobody but the shop and those without a peer hold it. */
static bool is_unused(const idem__kept_session *session) {
  return session->refs == 1 + session->detached;
}

/* With the lock held, after its users have changed. True: nobody uses it any more. */
static bool look_whether_idle(idem__kept_session *session) {
  bool idle = is_unused(session) && !session->ended;
  idem__list_leave(&session->idle);
  if (idle) idem__list_append(&session->shop->idle, &session->idle);
  return idle;
}

/* With the lock held. True: nobody uses it any more. */
static bool release(idem__kept_session *session) {
  if (--session->refs) return look_whether_idle(session);
  idem__kept_destroy(session);
  return false;
}

/* With the lock held: the image goes; its record is gone or will be found again. */
static void forget(idem__kept_session *session) {
  if (session->ended) return;
  session->ended = true;
  if (atomic_load(&session->visits)) atomic_fetch_add(&session->shop->orphans, 1);
  idem__map_remove(&session->shop->by_id, session->id, IDEM__SESSION_ID);
  idem__list_remove(&session->link);
  idem__list_leave(&session->idle);
  idem__metrics_add(session->shop->opts.metrics, IDEM__M_SESSIONS_CLOSED, 1);
  release(session);
}

static void touch(idem__mcp_shop *shop, const char *id, uint64_t ttl_ms) {
  idem__store_op op = op_for(shop, id, IDEM__SESSION_ID, IDEM__STORE_TOUCH);
  op.ttl_ms = ttl_ms;
  idem__store_run(shop->store, &op);
}

void idem__kept_ref(idem__kept_session *session) {
  idem__shop_lock(session->shop);
  idem__kept_hold(session);
  idem__shop_unlock(session->shop);
}

void idem__kept_unref(idem__kept_session *session) {
  idem__mcp_shop *shop = session->shop;
  char id[IDEM__SESSION_ID + 1];
  memcpy(id, session->id, sizeof id);
  idem__shop_lock(shop);
  bool idle = release(session);
  idem__shop_unlock(shop);
  if (idle) touch(shop, id, shop->opts.session_idle_ms);
}

void idem__kept_detached(idem__kept_session *session, bool detached) {
  idem__mcp_shop *shop = session->shop;
  idem__shop_lock(shop);
  session->detached += detached ? 1 : -1u;
  bool idle = look_whether_idle(session) && detached;
  idem__shop_unlock(shop);
  if (idle) touch(shop, session->id, shop->opts.session_idle_ms);
}

/* Any operation makes the store look at its clock. */
void idem__shop_tend(idem__mcp_shop *shop, uint64_t now_ms) {
  static const char nobody[IDEM__SESSION_ID];
  see_time(shop, now_ms);
  idem__store_op op = op_for(shop, nobody, sizeof nobody, IDEM__STORE_TOUCH);
  idem__store_run(shop->store, &op);
}

void idem__kept_alive(idem__kept_session *session, uint64_t now_ms) {
  see_time(session->shop, now_ms);
  touch(session->shop, session->id, session->shop->opts.session_idle_ms + BUSY_MS);
}

void idem__kept_end(idem__kept_session *session) {
  idem__store_op op = idem__kept_op(session, IDEM__STORE_REMOVE);
  op.expect = IDEM__STORE_ANY;
  idem__store_run(session->shop->store, &op); /* its watchers, us included, forget it */
}

/* ----------------------------------------------------------------- watching */

/* Makes the image what the record is now, or an image where there was none; counted. */
static idem__kept_session *load(idem__mcp_shop *shop, idem__view id);

/* With the lock held: what somebody else's change means for the image, if there is one. True: its open
 * streams must hear of it. Of our own we know. */
static bool note_change(idem__mcp_shop *shop, const idem__store_change *change, bool *behind) {
  idem__kept_session *session = idem__map_get(&shop->by_id, change->name, change->name_len);
  if (!session) return false;
  bool wake = session->get_streams && !session->busy;
  bool asking = atomic_load(&session->visits) > 0;
  *behind = change->event == IDEM__STORE_WAS_PUT && wake && change->version > session->version;
  if (change->event == IDEM__STORE_WAS_REMOVED || change->event == IDEM__STORE_WAS_EXPIRED)
    forget(session); /* may be the last to hold it */
  return wake || asking;
}

static void on_change(const idem__store_change *change, void *user) {
  idem__mcp_shop *shop = user;
  bool behind = false;
  idem__shop_lock(shop);
  bool wake = note_change(shop, change, &behind);
  idem__shop_unlock(shop);
  if (behind) {
    idem__kept_session *session = load(shop, (idem__view){change->name, change->name_len});
    if (session) idem__kept_unref(session);
  }
  if (wake) idem__server_wake(shop->opts.server);
}

idem_status idem__mcp_shop_new(const idem__mcp_shop_opts *opts, idem__mcp_shop **out) {
  idem_alloc alloc = opts->server->alloc;
  idem__mcp_shop *shop = idem__calloc(&alloc, sizeof *shop);
  if (!shop) return IDEM_E_NOMEM;
  shop->alloc = alloc;
  shop->opts = *opts;
  if (!shop->opts.max_sessions) shop->opts.max_sessions = 10000;
  if (!shop->opts.session_idle_ms) shop->opts.session_idle_ms = 1800000;
  if (!shop->opts.log_bytes) shop->opts.log_bytes = (size_t)256 << 10;
  idem__lock_init(&shop->lock);
  idem__map_init(&shop->by_id, &shop->alloc, idem__router_seed(opts->server->router));
  idem__map_init(&shop->sse_lines, &shop->alloc, shop->by_id.seed);
  idem__list_init(&shop->sessions);
  idem__list_init(&shop->idle);
  idem__list_init(&shop->desks);
  shop->store = idem__store_ref(opts->server->store);
  idem_status status =
      idem__store_watch(shop->store, IDEM__STORE_SESSIONS, on_change, shop, &shop->watcher);
  if (status != IDEM_OK) {
    idem__mcp_shop_free(shop);
    return status;
  }
  *out = shop;
  return IDEM_OK;
}

/* The records stay: who serves them next may be another shop. */
void idem__mcp_shop_free(idem__mcp_shop *shop) {
  if (!shop) return;
  idem__store_unwatch(shop->store, shop->watcher);
  while (!idem__list_empty(&shop->sessions)) {
    forget(IDEM__CONTAINER(shop->sessions.next, idem__kept_session, link));
  }
  idem__map_deinit(&shop->by_id);
  idem__map_deinit(&shop->sse_lines);
  idem__store_unref(shop->store);
  idem_alloc alloc = shop->alloc;
  idem__free(&alloc, shop);
}

size_t idem__mcp_shop_sessions(idem__mcp_shop *shop) {
  idem__shop_lock(shop);
  size_t count = shop->by_id.count;
  idem__shop_unlock(shop);
  return count;
}

/* ------------------------------------------------------------------ changing */

void idem__kept_busy(idem__kept_session *session, bool begin) {
  idem__shop_lock(session->shop);
  session->busy += begin ? 1 : -1u;
  idem__shop_unlock(session->shop);
}

/* Applies the change and writes the record anew. STATE: another process was faster. */
static idem_status try_change(idem__kept_session *session, const idem__session_change *change) {
  idem__mcp_shop *shop = session->shop;
  idem__buf text;
  idem__store_op op = idem__kept_op(session, IDEM__STORE_PUT);
  idem__buf_init(&text, &shop->alloc, SIZE_MAX / 4);
  idem__shop_lock(shop);
  idem_status status =
      idem__session_apply(&session->legacy, change, shop->opts.server->opts.max_subscriptions);
  if (status == IDEM_OK) status = idem__record_write(session, &text);
  op.expect = session->version;
  session->busy++;
  idem__shop_unlock(shop);
  op.bytes = text.data;
  op.len = text.len;
  op.ttl_ms = shop->opts.session_idle_ms + BUSY_MS; /* whoever changes it is using it */
  idem__store_answer answer = {.status = status};
  if (status == IDEM_OK) answer = idem__store_ask(shop->store, &op, NULL);
  idem__shop_lock(shop);
  session->busy--;
  if (answer.status == IDEM_OK && answer.version > session->version)
    session->version = answer.version;
  idem__shop_unlock(shop);
  idem__buf_deinit(&text);
  return answer.status;
}

idem_status idem__kept_change(idem__kept_session *session, const idem__session_change *change) {
  idem_status status = IDEM_E_STATE;
  for (unsigned i = 0; i < CHANGE_TRIES && status == IDEM_E_STATE; i++) {
    status = try_change(session, change);
    if (status != IDEM_E_STATE) break;
    idem__kept_session *same = load(session->shop, (idem__view){session->id, IDEM__SESSION_ID});
    if (same) idem__kept_unref(same);
  }
  /* A session that ended meanwhile needs no change any more. */
  return status == IDEM_E_NOTFOUND ? IDEM_OK : status;
}

/* ------------------------------------------------------------------- loading */

/* With the lock held. Two threads may have loaded the same: the first image is the one. */
static idem__kept_session *take_in(idem__mcp_shop *shop, idem__kept_session *fresh) {
  idem__kept_session *known = idem__map_get(&shop->by_id, fresh->id, IDEM__SESSION_ID);
  if (known) return known;
  fresh->refs = 1;
  if (idem__map_put(&shop->by_id, fresh->id, IDEM__SESSION_ID, fresh) != IDEM_OK) return NULL;
  idem__list_append(&shop->sessions, &fresh->link);
  idem__metrics_add(shop->opts.metrics, IDEM__M_SESSIONS_OPENED, 1);
  return fresh;
}

static idem__kept_session *image_of(idem__mcp_shop *shop, idem__view id, uint64_t version,
                                    const idem__buf *text) {
  idem__kept_session *fresh = NULL, *session;
  idem__shop_lock(shop);
  session = idem__map_get(&shop->by_id, id.at, id.len);
  if (session && session->version < version) {
    if (idem__record_read(shop, text->data, text->len, session, NULL) == IDEM_OK)
      session->version = version;
  } else if (!session && idem__record_read(shop, text->data, text->len, NULL, &fresh) == IDEM_OK) {
    memcpy(fresh->id, id.at, IDEM__SESSION_ID);
    fresh->version = version;
    session = take_in(shop, fresh);
    if (session != fresh) idem__kept_destroy(fresh);
  }
  if (session) idem__kept_hold(session);
  idem__shop_unlock(shop);
  return session;
}

static idem__kept_session *load(idem__mcp_shop *shop, idem__view id) {
  idem__buf text;
  idem__kept_session *session = NULL;
  idem__store_op op = op_for(shop, id.at, id.len, IDEM__STORE_GET);
  idem__buf_init(&text, &shop->alloc, SIZE_MAX / 4);
  idem__store_answer answer = idem__store_ask(shop->store, &op, &text);
  if (answer.status == IDEM_OK) session = image_of(shop, id, answer.version, &text);
  idem__buf_deinit(&text);
  return session;
}

/* The image, if it shows this version; counted. */
static idem__kept_session *current(idem__mcp_shop *shop, idem__view id, uint64_t version) {
  idem__shop_lock(shop);
  idem__kept_session *session = idem__map_get(&shop->by_id, id.at, id.len);
  if (session && session->version < version && !session->busy) session = NULL;
  if (session) idem__kept_hold(session);
  idem__shop_unlock(shop);
  return session;
}

idem__kept_session *idem__kept_find(idem__mcp_shop *shop, idem__view id, const char *principal,
                                    uint64_t now_ms) {
  if (id.len != IDEM__SESSION_ID) return NULL;
  see_time(shop, now_ms);
  idem__store_op op = op_for(shop, id.at, id.len, IDEM__STORE_TOUCH);
  op.ttl_ms = shop->opts.session_idle_ms + BUSY_MS;
  idem__store_answer answer = idem__store_ask(shop->store, &op, NULL);
  if (answer.status != IDEM_OK) return NULL;
  idem__kept_session *session = current(shop, id, answer.version);
  if (!session) session = load(shop, id);
  if (!session || strcmp(session->principal, principal) == 0) return session;
  idem__kept_unref(session); /* somebody else's */
  return NULL;
}

/* ------------------------------------------------------------------- opening */

void idem__shop_make_id(const idem__mcp_shop *shop, char id[IDEM__SESSION_ID + 1]) {
  uint8_t bytes[IDEM__SESSION_ID / 2];
  idem__server_random(shop->opts.server, bytes, sizeof bytes);
  for (size_t i = 0; i < sizeof bytes; i++) snprintf(id + i * 2, 3, "%02x", bytes[i]);
}

/* Ends the session that nobody has used for longest; false: all are in use. */
static bool evict(idem__mcp_shop *shop) {
  idem__kept_session *oldest = NULL;
  idem__shop_lock(shop);
  if (!idem__list_empty(&shop->idle)) {
    oldest = IDEM__CONTAINER(shop->idle.next, idem__kept_session, idle);
    idem__kept_hold(oldest);
  }
  idem__shop_unlock(shop);
  if (!oldest) return false;
  idem__kept_end(oldest);
  idem__kept_unref(oldest);
  return true;
}

static idem_status put_record(idem__kept_session *session) {
  idem__mcp_shop *shop = session->shop;
  idem__buf text;
  idem__store_op op = idem__kept_op(session, IDEM__STORE_PUT);
  idem__buf_init(&text, &shop->alloc, SIZE_MAX / 4);
  idem_status status = idem__record_write(session, &text);
  op.bytes = text.data;
  op.len = text.len;
  op.expect = IDEM__STORE_ABSENT;
  op.limit = shop->opts.max_sessions;
  op.ttl_ms = shop->opts.session_idle_ms + BUSY_MS;
  idem__store_answer answer = {.status = status};
  if (status == IDEM_OK) answer = idem__store_ask(shop->store, &op, NULL);
  while (answer.status == IDEM_E_LIMIT && evict(shop))
    answer = idem__store_ask(shop->store, &op, NULL);
  session->version = answer.version;
  idem__buf_deinit(&text);
  return answer.status;
}

idem_status idem__kept_open(idem__mcp_shop *shop, const char *principal, uint64_t now_ms,
                            const idem__revision *revision, yyjson_val *params,
                            idem__kept_session **out) {
  see_time(shop, now_ms);
  idem__kept_session *session = idem__kept_new(shop, principal, revision, params);
  if (!session) return IDEM_E_NOMEM;
  idem__shop_make_id(shop, session->id);
  idem_status status = put_record(session);
  if (status != IDEM_OK) {
    idem__kept_destroy(session);
    return status;
  }
  idem__shop_lock(shop);
  bool taken = take_in(shop, session) == session;
  if (taken) idem__kept_hold(session); /* the caller's */
  idem__shop_unlock(shop);
  if (!taken) {
    idem__kept_end(session);
    idem__kept_destroy(session);
    return IDEM_E_NOMEM;
  }
  *out = session;
  return IDEM_OK;
}
