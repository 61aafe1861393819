/* sqlite_news.c - who is told of changes in a SQLite store, whichever process made them.
 * Every change leaves a row in the table `news`, in the transaction that makes it; the writer of each process reads
 * on from the last row it saw, after its own commits at once, for those of others when the file's data_version moves. */
#include "sqlite_store.h"

#include <stdlib.h>
#include <string.h>

#define NEWS_KEPT_MS 60000u /* a process that was away for longer learns by versions */

struct idem__store_watcher {
  idem__list link;
  idem__store_space space;
  idem__store_watch_fn fn;
  void *user;
};

void sqlite_note(sqlite_store *store, idem__store_event event, idem__store_space space,
                 const void *name, size_t name_len, uint64_t version) {
  sqlite3_stmt *statement = sqlite_use(store, SQL_ADD_NEWS);
  sqlite3_bind_int64(statement, 1, (sqlite3_int64)sqlite_now_ms(store));
  sqlite3_bind_int64(statement, 2, event);
  sqlite3_bind_int64(statement, 3, space);
  sqlite3_bind_blob64(statement, 4, name, name_len, SQLITE_STATIC);
  sqlite3_bind_int64(statement, 5, (sqlite3_int64)version);
  sqlite_execute(store, statement);
}

/* ----------------------------------------------------------------- telling */

/* The first watcher of the space behind `before` (NULL: of all), marked as being told. */
static idem__store_watcher *next_watcher(sqlite_store *store, idem__store_space space,
                                         const idem__store_watcher *before) {
  pthread_mutex_lock(&store->lock);
  const idem__list *at = before ? before->link.next : store->watchers.next;
  store->told = NULL;
  for (; at != &store->watchers && !store->told; at = at->next) {
    idem__store_watcher *candidate = IDEM__CONTAINER(at, idem__store_watcher, link);
    if (candidate->space == space) store->told = candidate;
  }
  pthread_cond_broadcast(&store->quiet);
  idem__store_watcher *next = store->told;
  pthread_mutex_unlock(&store->lock);
  return next;
}

static void tell(sqlite_store *store, const idem__store_change *change) {
  idem__store_watcher *watcher = NULL;
  while ((watcher = next_watcher(store, change->space, watcher)))
    watcher->fn(change, watcher->user);
}

/* Copied out of its row, so that no statement is open while functions of others run. */
static bool tell_next(sqlite_store *store) {
  sqlite3_stmt *row = sqlite_use(store, SQL_READ_NEWS);
  sqlite3_bind_int64(row, 1, (sqlite3_int64)store->news_seen);
  bool there = sqlite_step(store, row);
  char name[IDEM__STORE_NAME_MAX];
  idem__store_change change = {.name = name};
  if (there) {
    store->news_seen = (uint64_t)sqlite3_column_int64(row, 0);
    change.event = (idem__store_event)sqlite3_column_int(row, 1);
    change.space = (idem__store_space)sqlite3_column_int(row, 2);
    change.version = (uint64_t)sqlite3_column_int64(row, 4);
    const void *bytes = sqlite3_column_blob(row, 3);
    size_t len = (size_t)sqlite3_column_bytes(row, 3);
    change.name_len = len < sizeof name ? len : sizeof name;
    if (change.name_len) memcpy(name, bytes, change.name_len);
  }
  sqlite_done(row);
  bool known = change.event <= IDEM__STORE_WAS_TOLD && change.space < IDEM__STORE_SPACES;
  if (there && known) tell(store, &change);
  return there;
}

static int64_t data_version(sqlite_store *store) {
  sqlite3_stmt *row = sqlite_use(store, SQL_DATA_VERSION);
  int64_t version = sqlite_step(store, row) ? sqlite3_column_int64(row, 0) : 0;
  sqlite_done(row);
  return version;
}

/* Own commits do not move data_version: `own_changes` says that there were some. */
void sqlite_tell_news(sqlite_store *store, bool own_changes) {
  int64_t version = data_version(store);
  if (version == store->data_version && !own_changes) return;
  store->data_version = version;
  while (tell_next(store)) continue;
}

void sqlite_forget_news(sqlite_store *store, uint64_t now_ms) {
  if (now_ms < store->forget_ms) return;
  store->forget_ms = now_ms + NEWS_KEPT_MS / 4;
  sqlite3_stmt *statement = sqlite_use(store, SQL_FORGET_NEWS);
  uint64_t oldest = now_ms > NEWS_KEPT_MS ? now_ms - NEWS_KEPT_MS : 0;
  sqlite3_bind_int64(statement, 1, (sqlite3_int64)oldest);
  sqlite_execute(store, statement);
}

/* ---------------------------------------------------------------- watching */

idem_status sqlite_watch(idem__store *head, idem__store_space space, idem__store_watch_fn fn,
                         void *user, idem__store_watcher **out) {
  sqlite_store *store = IDEM__CONTAINER(head, sqlite_store, head);
  idem__store_watcher *watcher = calloc(1, sizeof *watcher);
  *out = watcher;
  if (!watcher) return IDEM_E_NOMEM;
  watcher->space = space;
  watcher->fn = fn;
  watcher->user = user;
  pthread_mutex_lock(&store->lock);
  idem__list_append(&store->watchers, &watcher->link);
  pthread_cond_signal(&store->work); /* it looks for news of others from now on */
  pthread_mutex_unlock(&store->lock);
  return IDEM_OK;
}

void sqlite_unwatch(idem__store *head, idem__store_watcher *watcher) {
  sqlite_store *store = IDEM__CONTAINER(head, sqlite_store, head);
  pthread_mutex_lock(&store->lock);
  while (store->told == watcher) pthread_cond_wait(&store->quiet, &store->lock);
  idem__list_remove(&watcher->link);
  pthread_mutex_unlock(&store->lock);
  free(watcher);
}
