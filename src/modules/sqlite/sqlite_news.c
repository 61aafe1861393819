/* sqlite_news.c - who is told of changes in a SQLite store, whichever process made them.
 * Every change leaves a row in the table `news`, in the transaction that makes it; the writer of each process reads
 * on from the last row it saw, after its own commits at once, for those of others when the file's data_version moves. */
#include "sqlite_store.h"

#include <stdlib.h>
#include <string.h>

#define NEWS_KEPT_MS 60000u /* a process that was away for longer learns by versions */

void sqlite_note(sqlite_store *store, idem__store_event event, idem__store_space space,
                 const void *name, size_t name_len, uint64_t version) {
  sqlite3_stmt *statement = sqlite_use(store, SQL_ADD_NEWS);
  sqlite3_bind_int64(statement, 1, (sqlite3_int64)sqlite_now_ms(store));
  sqlite3_bind_int64(statement, 2, event);
  sqlite3_bind_int64(statement, 3, space);
  sqlite3_bind_blob64(statement, 4, name, name_len, SQLITE_STATIC);
  sqlite3_bind_int64(statement, 5, (sqlite3_int64)version);
  sqlite_execute(store, statement);
  store->noted = true;
}

/* ----------------------------------------------------------------- telling */

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
  if (there && known) idem__watchers_tell(&store->watchers, &change);
  return there;
}

static int64_t data_version(sqlite_store *store) {
  sqlite3_stmt *row = sqlite_use(store, SQL_DATA_VERSION);
  int64_t version = sqlite_step(store, row) ? sqlite3_column_int64(row, 0) : 0;
  sqlite_done(row);
  return version;
}

/* Own commits do not move data_version: `noted` says that there was something to tell. One transaction for all, since to begin
 * one costs more than to read a row. */
void sqlite_tell_news(sqlite_store *store) {
  bool reading = sqlite_execute(store, sqlite_use(store, SQL_BEGIN_READ));
  int64_t version = data_version(store);
  if (version != store->data_version || store->noted) {
    store->data_version = version;
    store->noted = false;
    while (tell_next(store)) continue;
  }
  if (reading) sqlite_execute(store, sqlite_use(store, SQL_COMMIT));
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
  sqlite_store *store = IDEM_CONTAINER(head, sqlite_store, head);
  idem_status status = idem__watchers_add(&store->watchers, space, fn, user, out);
  pthread_mutex_lock(&store->lock);
  store->watched = true;
  pthread_cond_signal(&store->work); /* it looks for news of others from now on */
  pthread_mutex_unlock(&store->lock);
  return status;
}

void sqlite_unwatch(idem__store *head, idem__store_watcher *watcher) {
  idem__watchers_remove(&IDEM_CONTAINER(head, sqlite_store, head)->watchers, watcher);
}
