/* store.c - memories in SQLite, found again by its full-text index.
 * Statements are prepared once and values are bound, so that no text is ever taken for SQL; the words
 * of a search are quoted one by one, so that none is taken for the index's own query language. */
#include "memory.h"

#include <ctype.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BUSY_MS 2000 /* another assistant may use the same file */
#define DEADLINE_MS 2000
#define STEPS_BETWEEN_LOOKS 1000
#define PREFIX_LEAST 3 /* bytes; the index reads all that begins with a letter before it looks up */

static const char schema[] =
    "PRAGMA journal_mode=WAL;"
    "CREATE TABLE IF NOT EXISTS memory(id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL,"
    " created TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ','now')));"
    "CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(text, content='memory',"
    " content_rowid='id', tokenize='porter unicode61');"
    "CREATE TRIGGER IF NOT EXISTS memory_added AFTER INSERT ON memory BEGIN"
    " INSERT INTO words(rowid, text) VALUES (new.id, new.text); END;"
    "CREATE TRIGGER IF NOT EXISTS memory_removed AFTER DELETE ON memory BEGIN"
    " INSERT INTO words(words, rowid, text) VALUES ('delete', old.id, old.text); END;";

enum { REMEMBER, FORGET, READ, LATEST, RECALL, STATEMENTS };

static const char recall_text[] = "SELECT memory.id, memory.text, memory.created FROM words"
                                  " JOIN memory ON memory.id = words.rowid WHERE words MATCH ?1"
                                  " ORDER BY bm25(words), memory.id DESC LIMIT ?2";

static const char *const texts[STATEMENTS] = {
    [REMEMBER] = "INSERT INTO memory(text) SELECT ?1 WHERE (SELECT count(*) FROM memory) < ?2",
    [FORGET] = "DELETE FROM memory WHERE id = ?1",
    [READ] = "SELECT id, text, created FROM memory WHERE id = ?1",
    [LATEST] = "SELECT id, text, created FROM memory WHERE id < ?1 ORDER BY id DESC LIMIT ?2",
    [RECALL] = recall_text,
};

struct store {
  sqlite3 *db;
  pthread_mutex_t lock;
  sqlite3_stmt *statements[STATEMENTS];
  uint64_t until_ms; /* of the statement that runs */
};

static uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static int look(void *user) { return now_ms() >= ((store *)user)->until_ms; }

/* ------------------------------------------------------------- opening and closing */

static bool prepare(store *self) {
  for (int i = 0; i < STATEMENTS; i++) {
    if (sqlite3_prepare_v3(self->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &self->statements[i],
                           NULL) != SQLITE_OK) {
      return false;
    }
  }
  return true;
}

idem_status store_open(const char *path, store **out, char *why, size_t why_len) {
  store *self = calloc(1, sizeof *self);
  *out = self;
  if (!self) return IDEM_E_NOMEM;
  pthread_mutex_init(&self->lock, NULL);
  self->until_ms = UINT64_MAX; /* to open has all its time */
  if (sqlite3_open_v2(path, &self->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) ==
          SQLITE_OK &&
      sqlite3_busy_timeout(self->db, BUSY_MS) == SQLITE_OK &&
      sqlite3_exec(self->db, schema, NULL, NULL, NULL) == SQLITE_OK && prepare(self)) {
    sqlite3_progress_handler(self->db, STEPS_BETWEEN_LOOKS, look, self);
    return IDEM_OK;
  }
  snprintf(why, why_len, "%s", self->db ? sqlite3_errmsg(self->db) : "no memory");
  store_close(self);
  *out = NULL;
  return IDEM_E_SYS;
}

void store_close(store *self) {
  if (!self) return;
  for (int i = 0; i < STATEMENTS; i++) sqlite3_finalize(self->statements[i]);
  sqlite3_close(self->db);
  pthread_mutex_destroy(&self->lock);
  free(self);
}

/* ------------------------------------------------------------------------ statements */

static sqlite3_stmt *begin(store *self, int which) {
  pthread_mutex_lock(&self->lock);
  self->until_ms = now_ms() + DEADLINE_MS;
  return self->statements[which];
}

static idem_status end(store *self, sqlite3_stmt *statement, idem_status status) {
  if (status == IDEM_E_SYS && sqlite3_errcode(self->db) == SQLITE_INTERRUPT)
    status = IDEM_E_TIMEOUT;
  if (status == IDEM_E_SYS) fprintf(stderr, "idem-memory: %s\n", sqlite3_errmsg(self->db));
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  pthread_mutex_unlock(&self->lock);
  return status;
}

static idem_status take_row(sqlite3_stmt *statement, memory *into) {
  const char *text = (const char *)sqlite3_column_text(statement, 1);
  size_t len = (size_t)sqlite3_column_bytes(statement, 1);
  const char *created = (const char *)sqlite3_column_text(statement, 2);
  into->text = text ? malloc(len + 1) : NULL;
  if (!into->text) return IDEM_E_NOMEM;
  memcpy(into->text, text, len);
  into->text[len] = '\0';
  into->len = len;
  into->id = sqlite3_column_int64(statement, 0);
  snprintf(into->created, sizeof into->created, "%s", created ? created : "");
  return IDEM_OK;
}

void memories_free(memories *list) {
  for (size_t i = 0; i < list->count; i++) free(list->items[i].text);
  list->count = 0;
}

static idem_status take_rows(store *self, sqlite3_stmt *statement, memories *found) {
  idem_status status = IDEM_OK;
  int step = SQLITE_DONE;
  found->count = 0;
  while (status == IDEM_OK && found->count < ROWS_MAX &&
         (step = sqlite3_step(statement)) == SQLITE_ROW) {
    status = take_row(statement, &found->items[found->count]);
    if (status == IDEM_OK) found->count++;
  }
  if (status == IDEM_OK && step != SQLITE_DONE && step != SQLITE_ROW) status = IDEM_E_SYS;
  status = end(self, statement, status);
  if (status != IDEM_OK) memories_free(found);
  return status;
}

static int64_t within(int64_t limit) { return limit < 1 ? 1 : limit > ROWS_MAX ? ROWS_MAX : limit; }

/* -------------------------------------------------------------------------- the store */

idem_status store_remember(store *self, const char *text, size_t len, int64_t *id) {
  sqlite3_stmt *statement = begin(self, REMEMBER);
  sqlite3_bind_text64(statement, 1, text, len, SQLITE_STATIC, SQLITE_UTF8);
  sqlite3_bind_int64(statement, 2, MEMORIES_MAX);
  if (sqlite3_step(statement) != SQLITE_DONE) return end(self, statement, IDEM_E_SYS);
  *id = sqlite3_last_insert_rowid(self->db);
  return end(self, statement, sqlite3_changes(self->db) ? IDEM_OK : IDEM_E_LIMIT);
}

idem_status store_forget(store *self, int64_t id) {
  sqlite3_stmt *statement = begin(self, FORGET);
  sqlite3_bind_int64(statement, 1, id);
  if (sqlite3_step(statement) != SQLITE_DONE) return end(self, statement, IDEM_E_SYS);
  return end(self, statement, sqlite3_changes(self->db) ? IDEM_OK : IDEM_E_NOTFOUND);
}

idem_status store_read(store *self, int64_t id, memories *found) {
  sqlite3_stmt *statement = begin(self, READ);
  sqlite3_bind_int64(statement, 1, id);
  idem_status status = take_rows(self, statement, found);
  return status == IDEM_OK && !found->count ? IDEM_E_NOTFOUND : status;
}

idem_status store_latest(store *self, int64_t before, int64_t limit, memories *found) {
  sqlite3_stmt *statement = begin(self, LATEST);
  sqlite3_bind_int64(statement, 1, before);
  sqlite3_bind_int64(statement, 2, within(limit));
  return take_rows(self, statement, found);
}

/* ------------------------------------------------------------------------- searching */

static bool in_word(char c) { return isalnum((unsigned char)c) || (unsigned char)c >= 0x80; }

/* Each word as "word" *, short ones as "word", joined by OR: at most WORDS_MAX of them, in room for all. */
static size_t write_match(const char *query, size_t len, char *match) {
  size_t words = 0, at = 0;
  for (size_t i = 0; i < len && words < WORDS_MAX;) {
    size_t start = i;
    while (i < len && in_word(query[i])) i++;
    if (i == start) {
      i++;
      continue;
    }
    if (words++) {
      memcpy(match + at, " OR ", 4);
      at += 4;
    }
    match[at++] = '"';
    memcpy(match + at, query + start, i - start);
    at += i - start;
    match[at++] = '"';
    if (i - start >= PREFIX_LEAST) {
      memcpy(match + at, " *", 2);
      at += 2;
    }
  }
  match[at] = '\0';
  return words;
}

idem_status store_recall(store *self, const char *query, size_t len, int64_t limit,
                         memories *found) {
  found->count = 0;
  char *match = malloc(len + WORDS_MAX * sizeof " OR \"\" *" + 1);
  if (!match) return IDEM_E_NOMEM;
  if (!write_match(query, len, match)) {
    free(match);
    return IDEM_E_INVAL;
  }
  sqlite3_stmt *statement = begin(self, RECALL);
  sqlite3_bind_text(statement, 1, match, -1, SQLITE_STATIC);
  sqlite3_bind_int64(statement, 2, within(limit));
  idem_status status = take_rows(self, statement, found);
  free(match);
  return status;
}
