/* sqlite_news.c - who is told of changes in a SQLite store, whichever process made them.
 * What a transaction changes is one row in the table `news`, written with it. The writer of each process tells its own watchers when
 * the transaction is committed, and reads what others wrote when the file's data_version moves. */
#include "sqlite_store.h"

#include <stdlib.h>
#include <string.h>

#define NEWS_KEPT_MS 60000u            /* a process that was away for longer learns by versions */
#define NEWS_BYTES ((size_t)256 << 10) /* of one row; what is more goes into the next */
#define NOBODY 0

typedef struct change_head {
  uint64_t version;
  uint32_t name_len;
  uint8_t event, space, unused[2];
} change_head;

/* ------------------------------------------------------------------- writing */

/* Returns the row's id. */
static uint64_t write_row(sqlite_store *store, int64_t writer) {
  sqlite3_stmt *statement = sqlite_use(store, SQL_ADD_NEWS);
  uint64_t id = ++store->totals.clock;
  sqlite3_bind_int64(statement, 1, (sqlite3_int64)id);
  sqlite3_bind_int64(statement, 2, (sqlite3_int64)sqlite_now_ms(store));
  sqlite3_bind_int64(statement, 3, writer);
  sqlite3_bind_blob64(statement, 4, store->news.bytes, store->news.len, SQLITE_STATIC);
  sqlite_execute(store, statement);
  return id;
}

void sqlite_write_news(sqlite_store *store) {
  store->news_row = store->news.len ? write_row(store, store->writer_id) : 0;
}

/* More than is to be kept in memory goes into a row of nobody's, which we read like the others. */
static void spill(sqlite_store *store) {
  write_row(store, NOBODY);
  store->news.len = 0;
  store->spilled = true;
}

/* ------------------------------------------------------------------- noting */

static bool make_room(sqlite_news *news, size_t len) {
  if (len <= news->room - news->len) return true;
  size_t room = news->room ? news->room * 2 : 4096;
  while (room - news->len < len) room *= 2;
  char *bytes = realloc(news->bytes, room);
  if (!bytes) return false;
  news->bytes = bytes;
  news->room = room;
  return true;
}

void sqlite_note(sqlite_store *store, idem__store_event event, idem__store_space space,
                 const void *name, size_t name_len, uint64_t version) {
  sqlite_news *news = &store->news;
  change_head head = {.version = version,
                      .name_len = (uint32_t)name_len,
                      .event = (uint8_t)event,
                      .space = (uint8_t)space};
  if (!make_room(news, sizeof head + name_len)) {
    store->broken = true;
    return;
  }
  memcpy(news->bytes + news->len, &head, sizeof head);
  if (name_len) memcpy(news->bytes + news->len + sizeof head, name, name_len);
  news->len += sizeof head + name_len;
  if (news->len > NEWS_BYTES) spill(store);
}

/* ------------------------------------------------------------------- telling */

static void tell_all(sqlite_store *store, const char *bytes, size_t len) {
  change_head head;
  for (size_t at = 0; len - at >= sizeof head;) {
    memcpy(&head, bytes + at, sizeof head);
    at += sizeof head;
    if (head.name_len > len - at) return;
    idem__store_change change = {.event = (idem__store_event)head.event,
                                 .space = (idem__store_space)head.space,
                                 .name = bytes + at,
                                 .name_len = head.name_len,
                                 .version = head.version};
    at += head.name_len;
    bool known = head.event <= IDEM__STORE_WAS_TOLD && head.space < IDEM__STORE_SPACES;
    if (known) idem__watchers_tell(&store->watchers, &change);
  }
}

/* Who has seen everything that others wrote need not look at what is before our own. */
void sqlite_tell_own_news(sqlite_store *store, bool committed) {
  if (committed && store->news_row && store->alone && !store->spilled)
    store->news_seen = store->news_row;
  if (committed) tell_all(store, store->news.bytes, store->news.len);
  store->news.len = 0;
}

int64_t sqlite_data_version(sqlite_store *store) {
  sqlite3_stmt *row = sqlite_use(store, SQL_DATA_VERSION);
  int64_t version = sqlite_step(store, row) ? sqlite3_column_int64(row, 0) : 0;
  sqlite_done(row);
  return version;
}

/* Functions of others run while the row is open: they leave the connection, which is the writer's, alone. */
static void read_news(sqlite_store *store) {
  sqlite3_stmt *row = sqlite_use(store, SQL_READ_NEWS);
  sqlite3_bind_int64(row, 1, (sqlite3_int64)store->news_seen);
  sqlite3_bind_int64(row, 2, store->writer_id);
  while (sqlite_step(store, row)) {
    store->news_seen = (uint64_t)sqlite3_column_int64(row, 0);
    const char *bytes = sqlite3_column_blob(row, 1);
    tell_all(store, bytes, (size_t)sqlite3_column_bytes(row, 1));
  }
  sqlite_done(row);
}

/* One transaction for both, so that what is read is what the version says. */
void sqlite_tell_news(sqlite_store *store) {
  bool reading = sqlite_execute(store, sqlite_use(store, SQL_BEGIN_READ));
  int64_t version = sqlite_data_version(store);
  if (version != store->data_version || store->spilled) {
    store->data_version = version;
    store->spilled = false;
    store->current = false;
    read_news(store);
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
