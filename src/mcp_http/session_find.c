/* session_find.c - finding a session: the store says whether the image is still good, and otherwise gives the
 * record. It answers now or later; the finding is the finder's, who may forget it meanwhile. */
#include "mcp_http.h"

#include <string.h>

/* ------------------------------------------------------------------ images */

/* With the lock held. Two threads may have loaded the same: the first image is the one. */
idem__http_session *idem__session_table_take_in(idem__session_table *table,
                                                idem__http_session *fresh) {
  idem__http_session *known = idem_map_get(&table->by_id, fresh->id, IDEM__SESSION_ID);
  if (known) return known;
  fresh->refs = 1;
  if (idem__session_share_join(fresh) != IDEM_OK) return NULL;
  if (idem_map_put(&table->by_id, fresh->id, IDEM__SESSION_ID, fresh) != IDEM_OK) {
    idem__session_share_leave(fresh);
    return NULL;
  }
  idem_list_append(&table->sessions, &fresh->link);
  idem__metrics_add(table->opts.metrics, IDEM__M_SESSIONS_OPENED, 1);
  return fresh;
}

/* With the lock held: an image where there was none. */
static idem_status make_image(idem__session_table *table, const char *id,
                              const idem__store_answer *record, idem__http_session **out) {
  idem__http_session *fresh;
  idem_status status = idem__record_read(table, record->bytes, record->len, NULL, &fresh);
  if (status != IDEM_OK) return status == IDEM_E_INVAL ? IDEM_E_NOTFOUND : status;
  memcpy(fresh->id, id, IDEM__SESSION_ID);
  fresh->version = record->version;
  *out = idem__session_table_take_in(table, fresh);
  if (*out != fresh) idem__http_session_destroy(fresh);
  return *out ? IDEM_OK : IDEM_E_NOMEM;
}

/* With the lock held: the image is as the record. True: there was news before that was known, which is ours to tell. */
static bool settle(idem__http_session *session, uint64_t version) {
  if (session->version > version) return false; /* read before somebody's last change */
  bool missed = session->missed && idem__http_session_is_told_here(session);
  session->unsure = session->missed = false;
  return missed;
}

/* Makes the image what the record is now, or an image where there was none; counted. */
static idem_status show_record(idem__session_table *table, const char *id,
                               const idem__store_answer *record, idem__http_session **out) {
  idem_status status = IDEM_OK;
  idem__session_table_lock(table);
  idem__http_session *session = idem_map_get(&table->by_id, id, IDEM__SESSION_ID);
  if (!session) {
    status = make_image(table, id, record, &session);
  } else if (session->version < record->version &&
             idem__record_read(table, record->bytes, record->len, session, NULL) == IDEM_OK) {
    session->version = record->version;
  }
  if (status == IDEM_OK) idem__http_session_hold(session);
  bool missed = status == IDEM_OK && settle(session, record->version);
  idem__session_table_unlock(table);
  if (missed) idem__http_session_remind(session);
  *out = session;
  return status;
}

/* The image, if it shows this version; counted. */
static idem__http_session *current(idem__session_table *table, const char *id, uint64_t version) {
  idem__session_table_lock(table);
  idem__http_session *session = idem_map_get(&table->by_id, id, IDEM__SESSION_ID);
  if (session && session->version < version && !session->busy) session = NULL;
  if (session && session->unsure && !session->busy)
    session = NULL; /* it is read, so that it is no longer */
  if (session) idem__http_session_hold(session);
  idem__session_table_unlock(table);
  return session;
}

/* ----------------------------------------------------------------- finding */

static void tell(idem__session_finding *finding, idem__http_session *session, idem_status status) {
  if (session && finding->principal && strcmp(session->principal, finding->principal) != 0) {
    idem__http_session_unref(session); /* somebody else's */
    session = NULL;
    status = IDEM_E_NOTFOUND;
  }
  finding->found(session, status, finding->user);
}

static void on_loaded(const idem__store_answer *answer, void *user) {
  idem__session_finding *finding = user;
  idem__http_session *session = NULL;
  idem_status status = answer->status;
  if (status == IDEM_OK) status = show_record(finding->table, finding->id, answer, &session);
  tell(finding, status == IDEM_OK ? session : NULL, status);
}

void idem__http_session_load(idem__session_finding *finding) {
  idem__store_op op =
      idem__session_table_op(finding->table, finding->id, IDEM__SESSION_ID, IDEM__STORE_GET);
  op.done = on_loaded;
  op.user = finding;
  idem__store_submit(finding->table->store, finding->queue, &op, &finding->pending);
}

static void on_touched(const idem__store_answer *answer, void *user) {
  idem__session_finding *finding = user;
  idem__http_session *session = NULL;
  if (answer->status == IDEM_OK) session = current(finding->table, finding->id, answer->version);
  if (session || answer->status != IDEM_OK)
    tell(finding, session, answer->status);
  else
    idem__http_session_load(finding);
}

static void ask_for_version(idem__session_finding *finding, idem__store_verb verb,
                            idem__store_done done) {
  idem__session_table *table = finding->table;
  idem__store_op op = idem__session_table_op(table, finding->id, IDEM__SESSION_ID, verb);
  op.ttl_ms = table->opts.session_idle_ms + IDEM__SESSION_BUSY_MS;
  op.done = done;
  op.user = finding;
  idem__store_submit(table->store, finding->queue, &op, &finding->pending);
}

static void on_peeked(const idem__store_answer *answer, void *user) {
  if (answer->status == IDEM_OK && !answer->number)
    ask_for_version(user, IDEM__STORE_TOUCH, on_touched);
  else
    on_touched(answer, user);
}

/* Whether its record has the time of one in use, as far as this process knows: somebody holds it, or did a moment ago. A store elsewhere reads
 * faster than it changes. */
static bool has_time(idem__session_table *table, const char *id) {
  if (table->store->kind->immediate) return false;
  idem__session_table_lock(table);
  const idem__http_session *session = idem_map_get(&table->by_id, id, IDEM__SESSION_ID);
  bool has = session && (session->lingers || idem_list_empty(&session->idle));
  idem__session_table_unlock(table);
  return has;
}

void idem__http_session_find(idem__session_finding *finding, idem__view id, uint64_t now_ms) {
  idem__session_table *table = finding->table;
  if (id.len != IDEM__SESSION_ID) {
    finding->found(NULL, IDEM_E_NOTFOUND, finding->user);
    return;
  }
  idem__session_table_see_time(table, now_ms);
  memcpy(finding->id, id.at, IDEM__SESSION_ID);
  if (has_time(table, finding->id))
    ask_for_version(finding, IDEM__STORE_PEEK, on_peeked);
  else
    ask_for_version(finding, IDEM__STORE_TOUCH, on_touched);
}
