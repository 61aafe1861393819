/* sqlite_file.c - the file of a store: how it is opened, what tables it has, the statements that are prepared once.
 * The file is for its owner alone, in WAL mode; a file of somebody else's is not touched. */
#include "sqlite_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define APPLICATION 0x1de3 /* application_id of our files */
#define UNLISTED "4"       /* IDEM__STORE_ONCE */
_Static_assert(IDEM__STORE_ONCE == 4, "keys are what is not listed");
#define FORMAT "5"      /* user_version */
#define LEAVING_MS 100u /* that a store which is about to go waits for who holds the file */

/* `room` is left in a row for a value that is to grow, so that the rows behind it stay where they are. `groups` has how many records each group has that has a name. Keys are made by the thousand and never listed by group, so
 * by_birth leaves them out, and so does by_expiry: a row of `due` says when those expire that a transaction made. `hash` is NULL where another name has it. A row of `news` has all changes of one transaction; its id is a tick of the file's clock. */
static const char *const schema =
    "CREATE TABLE totals(id INTEGER PRIMARY KEY CHECK(id = 1), clock INTEGER, bytes INTEGER,"
    " count0 INTEGER, count1 INTEGER, count2 INTEGER, count3 INTEGER, count4 INTEGER, count5 "
    "INTEGER,"
    " count6 INTEGER, count7 INTEGER, clashes INTEGER, secret0 INTEGER, secret1 INTEGER);"
    "INSERT INTO totals VALUES(1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, random(), random());"
    "CREATE TABLE records(id INTEGER PRIMARY KEY, space INTEGER, name BLOB, members TEXT, value "
    "BLOB,"
    " version INTEGER, birth INTEGER, expires INTEGER, counter INTEGER, last_entry INTEGER,"
    " log_bytes INTEGER, room BLOB, hash INTEGER UNIQUE);"
    "CREATE INDEX by_birth ON records(space, members, birth) WHERE space <> " UNLISTED ";"
    "CREATE INDEX by_expiry ON records(expires) WHERE expires > 0 AND space <> " UNLISTED ";"
    "CREATE TABLE due(expires INTEGER PRIMARY KEY, first INTEGER, last INTEGER)"
    " WITHOUT ROWID;"
    "CREATE TABLE groups(space INTEGER, members TEXT, count INTEGER, PRIMARY KEY(space, members))"
    " WITHOUT ROWID;"
    "CREATE TABLE entries(record INTEGER, number INTEGER, bytes BLOB,"
    " PRIMARY KEY(record, number)) WITHOUT ROWID;"
    "CREATE TABLE news(id INTEGER PRIMARY KEY, at INTEGER, writer INTEGER, changes BLOB);"
    "PRAGMA user_version = " FORMAT ";"
    "PRAGMA application_id = 7651;";

#define TAKEN "length(value) + length(room)"
#define OVER "SELECT id, space, name, version, log_bytes, " TAKEN ", members FROM records"
#define FOUND                                                                                      \
  "SELECT id, version, expires, counter, last_entry, log_bytes, " TAKEN ", members FROM records"
#define LISTED                                                                                     \
  "SELECT birth, version, name, value FROM records WHERE space = ? AND members = ?"                \
  " AND birth > ? AND (expires = 0 OR expires > ?)"

static const char *const texts[SQL_STATEMENTS] = {
    [SQL_BEGIN_READ] = "BEGIN",
    [SQL_BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_GET_TOTALS] = "SELECT * FROM totals",
    [SQL_SET_TOTALS] =
        ("UPDATE totals SET clock = ?, bytes = ?, count0 = ?, count1 = ?, count2 = ?,"
         " count3 = ?, count4 = ?, count5 = ?, count6 = ?, count7 = ?,"
         " clashes = ?"),
    [SQL_FIND] = (FOUND " WHERE hash = ?3 AND space = ?1 AND name = ?2"),
    [SQL_FIND_UNHASHED] = (FOUND " WHERE hash IS NULL AND space = ?1 AND name = ?2"),
    [SQL_GET_VALUE] = "SELECT value FROM records WHERE id = ?",
    [SQL_GET_GROUP] = "SELECT count FROM groups WHERE space = ? AND members = ?",
    [SQL_SET_GROUP] = "INSERT OR REPLACE INTO groups(space, members, count) VALUES(?, ?, ?)",
    [SQL_DELETE_GROUP] = "DELETE FROM groups WHERE space = ? AND members = ?",
    [SQL_MAKE] =
        ("INSERT INTO records(space, name, members, value, version, birth, expires, counter,"
         " last_entry, log_bytes, room, hash) VALUES(?, ?, ?, ?, ?, ?, ?, 0, 0, 0, ?, ?)"
         " ON CONFLICT DO NOTHING"),
    [SQL_CHANGE_SEEN] =
        ("UPDATE records SET value = ?, version = ?, room = ?"
         " WHERE id = ? AND version = ? AND expires = ? AND space = ? AND name = ?"),
    [SQL_CHANGE] = "UPDATE records SET value = ?, version = ?, room = ?, expires = ? WHERE id = ?",
    [SQL_SET_EXPIRY] = "UPDATE records SET expires = ? WHERE id = ?",
    [SQL_SET_COUNTER] = "UPDATE records SET counter = ? WHERE id = ?",
    [SQL_SET_LOG] = "UPDATE records SET last_entry = ?, log_bytes = ? WHERE id = ?",
    [SQL_DELETE] = "DELETE FROM records WHERE id = ?",
    [SQL_DELETE_LOG] = "DELETE FROM entries WHERE record = ?",
    [SQL_ADD_ENTRY] = "INSERT INTO entries(record, number, bytes) VALUES(?, ?, ?)",
    [SQL_OLDEST_ENTRY] =
        "SELECT number, length(bytes) FROM entries WHERE record = ? ORDER BY number LIMIT 1",
    [SQL_DELETE_ENTRY] = "DELETE FROM entries WHERE record = ? AND number = ?",
    [SQL_READ_LOG] =
        "SELECT number, bytes FROM entries WHERE record = ? AND number > ? ORDER BY number",
    [SQL_LIST] = (LISTED " AND space <> " UNLISTED " ORDER BY birth LIMIT ?"),
    [SQL_LIST_UNLISTED] = (LISTED " ORDER BY birth LIMIT ?"),
    [SQL_EXPIRED] = (OVER " WHERE expires > 0 AND space <> " UNLISTED " AND expires <= ? LIMIT 1"),
    [SQL_EXPIRED_KEY] = (OVER " WHERE id BETWEEN ? AND ? AND space = " UNLISTED
                              " AND expires > 0 AND expires <= ? LIMIT 1"),
    [SQL_ADD_DUE] = ("INSERT INTO due(expires, first, last) VALUES(?, ?, ?)"
                     " ON CONFLICT(expires) DO UPDATE SET first = min(first, excluded.first),"
                     " last = max(last, excluded.last)"),
    [SQL_ADVANCE_DUE] = "UPDATE due SET first = ? WHERE expires = ?",
    [SQL_DUE] = "SELECT expires, first, last FROM due WHERE expires <= ? ORDER BY expires LIMIT 1",
    [SQL_FORGET_DUE] = "DELETE FROM due WHERE expires = ?",
    [SQL_ADD_NEWS] = "INSERT INTO news(id, at, writer, changes) VALUES(?, ?, ?, ?)",
    [SQL_READ_NEWS] = "SELECT id, changes FROM news WHERE id > ? AND writer <> ? ORDER BY id",
    [SQL_LAST_NEWS] = "SELECT max(id) FROM news",
    /* Up to the first that is young enough: those behind it are not looked at. */
    [SQL_FORGET_NEWS] =
        ("DELETE FROM news WHERE id < coalesce((SELECT id FROM news WHERE at >= ? ORDER BY id"
         " LIMIT 1), 9223372036854775807)"),
    [SQL_DATA_VERSION] = "PRAGMA data_version",
};

/* ------------------------------------------------------------- statements */

sqlite3_stmt *sqlite_use(sqlite_store *store, sqlite_statement which) {
  return store->statements[which];
}

/* SQLite has a code for a full disk, and takes a quota and a limit of a file's length for a fault of the disk. What the system said is
 * in errno then: SQLite notes it for some statements, and not for COMMIT. */
static bool is_full(int code) {
  if ((code & 0xff) == SQLITE_FULL) return true;
  return (code & 0xff) == SQLITE_IOERR && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG);
}

bool sqlite_step(sqlite_store *store, sqlite3_stmt *statement) {
  errno = 0;
  int code = sqlite3_step(statement);
  bool good = code == SQLITE_ROW || code == SQLITE_DONE;
  if (!good) store->broken = true;
  if (!good) store->full |= is_full(code);
  return code == SQLITE_ROW;
}

void sqlite_done(sqlite3_stmt *statement) {
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
}

bool sqlite_execute(sqlite_store *store, sqlite3_stmt *statement) {
  bool was_broken = store->broken;
  store->broken = false;
  while (sqlite_step(store, statement)) continue;
  bool good = !store->broken;
  store->broken = store->broken || was_broken;
  sqlite_done(statement);
  return good;
}

/* ---------------------------------------------------------------- opening */

static bool fail(const sqlite_store *store, const char *what, char *why, size_t size) {
  bool full = is_full(sqlite3_errcode(store->database));
  snprintf(why, size, "%s: %s", what, full ? "its disk is full" : sqlite3_errmsg(store->database));
  return false;
}

static int64_t ask_number(sqlite3 *database, const char *sql) {
  sqlite3_stmt *statement = NULL;
  int64_t number = -1;
  if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL) == SQLITE_OK &&
      sqlite3_step(statement) == SQLITE_ROW)
    number = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  return number;
}

static bool run_sql(const sqlite_store *store, const char *sql, char *why, size_t size) {
  errno = 0;
  if (sqlite3_exec(store->database, sql, NULL, NULL, NULL) == SQLITE_OK) return true;
  return fail(store, "the store's file cannot be used", why, size);
}

static const char not_ours[] = "the file is not a store of idem";
static const char another_version[] =
    "the file is not a store of this version of idem: move it away, and a new one is made; the "
    "keys in it are forgotten then, and what is asked again with one of them runs again";

/* Two processes may open a new file at once: who comes second finds the tables there. */
static bool make_tables(const sqlite_store *store, char *why, size_t size) {
  if (!run_sql(store, "BEGIN IMMEDIATE", why, size)) return false;
  int64_t tables = ask_number(store->database, "SELECT count(*) FROM sqlite_master");
  int64_t whose = ask_number(store->database, "PRAGMA application_id");
  int64_t format = ask_number(store->database, "PRAGMA user_version");
  if (tables != 0 && (whose != APPLICATION || format != FORMAT[0] - '0')) {
    run_sql(store, "ROLLBACK", why, size);
    snprintf(why, size, "%s", whose == APPLICATION ? another_version : not_ours);
    return false;
  }
  if (tables == 0 && !run_sql(store, schema, why, size)) return false;
  return run_sql(store, "COMMIT", why, size);
}

static uint64_t monotonic_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Another process holds the file. It is waited for, in steps that grow; by a store that is about to go only for a moment. */
static int on_busy(void *user, int tries) {
  static const int steps_ms[] = {1, 2, 5, 10, 20, 50};
  enum { STEPS = sizeof steps_ms / sizeof steps_ms[0] };
  sqlite_store *store = user;
  uint64_t now = monotonic_ms(), leaves_ms = atomic_load(&store->leaves_ms);
  if (tries == 0) store->busy_since_ms = now;
  if (now - store->busy_since_ms >= store->busy_ms || (leaves_ms && now >= leaves_ms)) return 0;
  struct timespec step = {.tv_nsec = steps_ms[tries < STEPS ? tries : STEPS - 1] * 1000000L};
  nanosleep(&step, NULL);
  return 1;
}

void sqlite_file_leave(sqlite_store *store) {
  atomic_store(&store->leaves_ms, monotonic_ms() + LEAVING_MS);
}

static bool set_up(sqlite_store *store, const idem__sqlite_opts *opts, char *why, size_t size) {
  static const char *const sync[] = {[IDEM__SQLITE_NORMAL] = "PRAGMA synchronous = NORMAL",
                                     [IDEM__SQLITE_FULL] = "PRAGMA synchronous = FULL",
                                     [IDEM__SQLITE_OFF] = "PRAGMA synchronous = OFF"};
  store->busy_ms = opts->busy_ms ? opts->busy_ms : 5000;
  sqlite3_busy_handler(store->database, on_busy, store);
  sqlite3_db_config(store->database, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
  /* Names are digests: each new one is a page of the index that was not looked at lately, so some of it is kept in memory, and pages are
   * written back to the file (which waits for the disk) when many have changed, 16 MiB of them. */
  return run_sql(store, "PRAGMA journal_mode = WAL; PRAGMA trusted_schema = OFF", why, size) &&
         run_sql(store, "PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 4000", why,
                 size) &&
         run_sql(store, sync[opts->sync], why, size) && make_tables(store, why, size);
}

static bool prepare(sqlite_store *store, char *why, size_t size) {
  for (int i = 0; i < SQL_STATEMENTS; i++)
    if (sqlite3_prepare_v3(store->database, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                           &store->statements[i], NULL) != SQLITE_OK)
      return fail(store, "the store's file is damaged", why, size);
  return true;
}

/* News from before are nobody's, and none of what comes is taken for our own. */
static void begin_news(sqlite_store *store) {
  sqlite3_stmt *last = sqlite_use(store, SQL_LAST_NEWS);
  if (sqlite_step(store, last)) store->news_seen = (uint64_t)sqlite3_column_int64(last, 0);
  sqlite_done(last);
  sqlite3_randomness(sizeof store->writer_id, &store->writer_id);
  store->data_version = -1;
}

/* Who reads it takes over sessions, who writes it makes some. NULL: nobody else does. */
static const char *fault_of(int file) {
  struct stat found;
  if (fstat(file, &found) != 0) return strerror(errno);
  if (!S_ISREG(found.st_mode)) return "it is not a regular file";
  if (found.st_uid != geteuid()) return "it belongs to another user";
  if (found.st_mode & (S_IRWXG | S_IRWXO)) return "others may read or write it: chmod 600";
  return found.st_nlink > 1 ? "it has another name, a hard link" : NULL;
}

/* One that is not there is made. */
static const char *fault_of_folder(const char *path) {
  char folder[4096];
  const char *slash = strrchr(path, '/');
  size_t len = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
  if (len >= sizeof folder) return strerror(ENAMETOOLONG);
  memcpy(folder, path, len);
  folder[len] = 0;
  return access(slash ? folder : ".", W_OK | X_OK) == 0 ? NULL : strerror(errno);
}

bool sqlite_file_check(const char *path, char *why, size_t size) {
  int file = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  const char *fault = file >= 0         ? fault_of(file)
                      : errno == ENOENT ? fault_of_folder(path)
                      : errno == ELOOP  ? "it is a symbolic link"
                                        : strerror(errno);
  if (file >= 0) close(file);
  if (fault) snprintf(why, size, "the store's file cannot be opened: %s", fault);
  return !fault;
}

/* For its owner alone; SQLite gives the files beside it the same mode, and puts them beside what a link leads to. */
static bool make_file(const char *path, char *why, size_t size) {
  int made = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0600);
  const char *fault = made >= 0        ? fault_of(made)
                      : errno == ELOOP ? "it is a symbolic link"
                                       : strerror(errno);
  if (made >= 0) close(made);
  if (fault) snprintf(why, size, "the store's file cannot be opened: %s", fault);
  return !fault;
}

bool sqlite_file_open(sqlite_store *store, const idem__sqlite_opts *opts, char *why, size_t size) {
  if (!make_file(opts->path, why, size)) return false;
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
  if (sqlite3_open_v2(opts->path, &store->database, flags, NULL) != SQLITE_OK)
    return fail(store, "the store's file cannot be opened", why, size);
  if (!set_up(store, opts, why, size) || !prepare(store, why, size)) return false;
  begin_news(store);
  return !store->broken || fail(store, "the store's file cannot be read", why, size);
}

void sqlite_file_close(sqlite_store *store) {
  for (int i = 0; i < SQL_STATEMENTS; i++) sqlite3_finalize(store->statements[i]);
  sqlite3_close(store->database);
  free(store->news.bytes);
}
