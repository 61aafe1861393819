/* mcp_session.c - legacy sessions over HTTP: unguessable, bound to a principal, capped, reaped when
 * idle, with a bounded log of events for clients that come back with Last-Event-ID. */
#include "mcp_http.h"

#include <stdio.h>
#include <string.h>

#define EVENT_OVERHEAD sizeof(idem__kept_event)

struct idem__mcp_shop {
  idem_alloc alloc;
  idem__mcp_shop_opts opts;
  idem__lock lock;
  idem__map by_id;
  idem__list sessions; /* least recently used first */
};

void idem__shop_lock(idem__mcp_shop *shop) { idem__lock_take(&shop->lock); }
void idem__shop_unlock(idem__mcp_shop *shop) { idem__lock_give(&shop->lock); }

idem_server *idem__shop_server(const idem__mcp_shop *shop) { return shop->opts.server; }
bool idem__shop_stateless(const idem__mcp_shop *shop) { return shop->opts.stateless_legacy; }

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
  idem__map_init(&shop->by_id, &shop->alloc, opts->server->router->methods.seed);
  idem__list_init(&shop->sessions);
  *out = shop;
  return IDEM_OK;
}

/* ----------------------------------------------------------------- lifetime */

static void free_events(idem__kept_session *session) {
  while (session->events) {
    idem__kept_event *next = session->events->next;
    idem__free(&session->shop->alloc, session->events);
    session->events = next;
  }
  session->events_end = &session->events;
  session->event_bytes = 0;
}

/* With the lock held. */
static void release(idem__kept_session *session) {
  if (--session->refs) return;
  idem_alloc alloc = session->shop->alloc;
  free_events(session);
  idem__session_deinit(&session->legacy);
  idem__free(&alloc, session->principal);
  idem__free(&alloc, session);
}

static void end_locked(idem__kept_session *session) {
  if (session->ended) return;
  session->ended = true;
  idem__map_remove(&session->shop->by_id, session->id, IDEM__SESSION_ID);
  idem__list_remove(&session->link);
  release(session);
}

void idem__kept_end(idem__kept_session *session) {
  idem__mcp_shop *shop = session->shop;
  idem__shop_lock(shop);
  end_locked(session);
  idem__shop_unlock(shop);
}

void idem__kept_unref(idem__kept_session *session) {
  idem__mcp_shop *shop = session->shop;
  idem__shop_lock(shop);
  release(session);
  idem__shop_unlock(shop);
}

void idem__mcp_shop_free(idem__mcp_shop *shop) {
  if (!shop) return;
  while (!idem__list_empty(&shop->sessions)) {
    end_locked(IDEM__CONTAINER(shop->sessions.next, idem__kept_session, link));
  }
  idem__map_deinit(&shop->by_id);
  idem_alloc alloc = shop->alloc;
  idem__free(&alloc, shop);
}

size_t idem__mcp_shop_sessions(idem__mcp_shop *shop) {
  idem__shop_lock(shop);
  size_t count = shop->by_id.count;
  idem__shop_unlock(shop);
  return count;
}

/* ------------------------------------------------------------------ opening */

static bool in_use(const idem__kept_session *session) { return session->refs > 1; }

/* Ends what has been idle too long; `room`: and, if need be, the one least recently used. */
static void reap(idem__mcp_shop *shop, uint64_t now_ms, bool room) {
  for (idem__list *at = shop->sessions.next; at != &shop->sessions;) {
    idem__kept_session *session = IDEM__CONTAINER(at, idem__kept_session, link);
    at = at->next;
    bool full = room && shop->by_id.count >= shop->opts.max_sessions;
    bool stale = now_ms > session->used_ms + shop->opts.session_idle_ms;
    if (!stale && !full) return;
    if (!in_use(session)) end_locked(session);
  }
}

static void make_id(idem__mcp_shop *shop, char id[IDEM__SESSION_ID + 1]) {
  uint8_t bytes[IDEM__SESSION_ID / 2];
  idem__server_random(shop->opts.server, bytes, sizeof bytes);
  for (size_t i = 0; i < sizeof bytes; i++) snprintf(id + i * 2, 3, "%02x", bytes[i]);
}

static idem__kept_session *new_session(idem__mcp_shop *shop, const char *principal,
                                       const idem__revision *revision, yyjson_val *params) {
  idem__kept_session *session = idem__calloc(&shop->alloc, sizeof *session);
  if (!session) return NULL;
  session->shop = shop;
  session->events_end = &session->events;
  session->next_stream = 1;
  session->next_call = 1;
  idem__list_init(&session->link);
  idem__list_init(&session->askers);
  session->principal = idem__strndup(&shop->alloc, principal, strlen(principal));
  idem_status status =
      idem__session_init(&session->legacy, &shop->alloc, shop->by_id.seed, revision, params);
  if (session->principal && status == IDEM_OK) return session;
  idem__session_deinit(&session->legacy);
  idem__free(&shop->alloc, session->principal);
  idem__free(&shop->alloc, session);
  return NULL;
}

static idem_status add_session(idem__mcp_shop *shop, idem__kept_session *session, uint64_t now_ms) {
  reap(shop, now_ms, true);
  if (shop->by_id.count >= shop->opts.max_sessions) return IDEM_E_LIMIT;
  idem_status status = idem__map_put(&shop->by_id, session->id, IDEM__SESSION_ID, session);
  if (status == IDEM_OK) idem__list_append(&shop->sessions, &session->link);
  return status;
}

idem_status idem__kept_open(idem__mcp_shop *shop, const char *principal, uint64_t now_ms,
                            const idem__revision *revision, yyjson_val *params,
                            idem__kept_session **out) {
  idem__kept_session *session = new_session(shop, principal, revision, params);
  if (!session) return IDEM_E_NOMEM;
  make_id(shop, session->id);
  session->used_ms = now_ms;
  session->refs = 2; /* the shop's and the caller's */
  idem__shop_lock(shop);
  idem_status status = add_session(shop, session, now_ms);
  if (status != IDEM_OK) {
    session->refs = 1;
    release(session);
  }
  idem__shop_unlock(shop);
  *out = session;
  return status;
}

idem__kept_session *idem__kept_find(idem__mcp_shop *shop, idem__view id, const char *principal,
                                    uint64_t now_ms) {
  idem__shop_lock(shop);
  reap(shop, now_ms, false);
  idem__kept_session *session = idem__map_get(&shop->by_id, id.at, id.len);
  if (session && strcmp(session->principal, principal) != 0) session = NULL;
  if (session) {
    session->refs++;
    session->used_ms = now_ms;
    idem__list_remove(&session->link);
    idem__list_append(&shop->sessions, &session->link);
  }
  idem__shop_unlock(shop);
  return session;
}

/* ------------------------------------------------------------------- events */

static idem_status write_event(idem__buf *out, uint32_t stream, uint32_t sequence, const char *text,
                               size_t len) {
  char id[32];
  snprintf(id, sizeof id, "%x-%x", (unsigned)stream, (unsigned)sequence);
  return idem__sse_put_event(out, "message", id, text, len);
}

static void forget_oldest(idem__kept_session *session) {
  idem__kept_event *event = session->events;
  session->events = event->next;
  if (!session->events) session->events_end = &session->events;
  session->event_bytes -= event->len + EVENT_OVERHEAD;
  idem__free(&session->shop->alloc, event);
}

/* With the lock held. Events larger than the log are sent but not kept. */
static void keep_event(idem__kept_session *session, uint32_t stream, uint32_t sequence,
                       const char *text, size_t len, bool last) {
  size_t size = len + EVENT_OVERHEAD, most = session->shop->opts.log_bytes;
  if (size > most) return;
  while (session->events && session->event_bytes + size > most) forget_oldest(session);
  idem__kept_event *event = idem__malloc(&session->shop->alloc, size);
  if (!event) return;
  event->next = NULL;
  event->stream = stream;
  event->sequence = sequence;
  event->last = last;
  event->len = len;
  memcpy(event->text, text, len);
  *session->events_end = event;
  session->events_end = &event->next;
  session->event_bytes += size;
}

idem_status idem__kept_event_add(idem__kept_session *session, uint32_t stream, const char *text,
                                 size_t len, bool last, idem__buf *out) {
  idem__shop_lock(session->shop);
  uint32_t sequence = ++session->sequence;
  keep_event(session, stream, sequence, text, len, last);
  idem__shop_unlock(session->shop);
  return out ? write_event(out, stream, sequence, text, len) : IDEM_OK;
}

bool idem__kept_events_after(idem__kept_session *session, uint32_t stream, uint32_t *after,
                             idem__buf *out) {
  bool last = false;
  idem__shop_lock(session->shop);
  for (const idem__kept_event *event = session->events; event && !last; event = event->next) {
    if (event->stream != stream || event->sequence <= *after) continue;
    if (write_event(out, stream, event->sequence, event->text, event->len) != IDEM_OK) break;
    *after = event->sequence;
    last = event->last;
  }
  idem__shop_unlock(session->shop);
  return last;
}

void idem__shop_keep_notification(idem__mcp_shop *shop, const char *method, const char *uri,
                                  const char *text, size_t len) {
  (void)method;
  idem__shop_lock(shop);
  for (idem__list *at = shop->sessions.next; at != &shop->sessions; at = at->next) {
    idem__kept_session *session = IDEM__CONTAINER(at, idem__kept_session, link);
    if (!session->had_stream || session->get_streams) continue;
    if (uri && !idem__session_subscribed(&session->legacy, uri)) continue;
    keep_event(session, 0, ++session->sequence, text, len, false);
  }
  idem__shop_unlock(shop);
}
