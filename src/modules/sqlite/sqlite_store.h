/* sqlite_store.h - the store in a SQLite file: what its files share. See docs/internals/modules.md. */
#ifndef IDEM_MODULES_SQLITE_STORE_H
#define IDEM_MODULES_SQLITE_STORE_H

#include "../watchers.h"
#include "sqlite.h"

#include <pthread.h>
#include <sqlite3.h>

/* An operation on its way to the writer, with all that it points to behind it. */
typedef struct sqlite_job {
  idem_list link;
  idem__store_op op;
  size_t size;
  idem__store_answer answer;
  char *value; /* of a GET: the answer's bytes; from malloc */
} sqlite_job;

/* Spaces that a file can count: more than there are, for those to come. */
#define SQLITE_SPACES 8
_Static_assert(IDEM__STORE_SPACES <= SQLITE_SPACES, "the file counts no more spaces");

/* What the file says of itself, read when a transaction begins and written when it ends. */
typedef struct sqlite_totals {
  uint64_t clock; /* counts changes: versions and births, never twice the same */
  uint64_t bytes;
  uint64_t counts[SQLITE_SPACES];
  uint64_t
      clashes; /* names that had another's hash: since the first of them, names are looked for before they are made */
  uint64_t secret[2]; /* of hashes; it never changes */
} sqlite_totals;

/* How many records a group has: read when a transaction first needs it, written when it ends. */
typedef struct sqlite_group {
  idem__store_space space;
  char members[IDEM__STORE_GROUP_MAX + 1];
  uint64_t count;
  bool changed;
} sqlite_group;
#define SQLITE_GROUPS 32

/* A record as we wrote it last, by its version: who changes that one needs not look for it. */
typedef struct sqlite_seen {
  uint64_t version, expires;
  uint64_t len, taken; /* by its value, and by that with the room behind it */
  int64_t id;
} sqlite_seen;
#define SQLITE_SEEN 1024

/* Keys that were made one after another and expire at once. */
typedef struct sqlite_due {
  uint64_t expires; /* 0: none */
  int64_t first, last;
} sqlite_due;

/* Changes of a transaction, for who watches: heads and names. */
typedef struct sqlite_news {
  char *bytes; /* from malloc */
  size_t len, room;
} sqlite_news;

typedef enum sqlite_statement {
  SQL_BEGIN_READ,
  SQL_BEGIN_WRITE,
  SQL_COMMIT,
  SQL_ROLLBACK,
  SQL_GET_TOTALS,
  SQL_SET_TOTALS,
  SQL_FIND,
  SQL_FIND_UNHASHED,
  SQL_GET_VALUE,
  SQL_GET_GROUP,
  SQL_SET_GROUP,
  SQL_DELETE_GROUP,
  SQL_MAKE,
  SQL_CHANGE_SEEN,
  SQL_CHANGE,
  SQL_SET_EXPIRY,
  SQL_SET_COUNTER,
  SQL_SET_LOG,
  SQL_DELETE,
  SQL_DELETE_LOG,
  SQL_ADD_ENTRY,
  SQL_OLDEST_ENTRY,
  SQL_DELETE_ENTRY,
  SQL_READ_LOG,
  SQL_LIST,
  SQL_LIST_UNLISTED,
  SQL_EXPIRED,
  SQL_EXPIRED_KEY,
  SQL_ADD_DUE,
  SQL_DUE,
  SQL_FORGET_DUE,
  SQL_ADVANCE_DUE,
  SQL_ADD_NEWS,
  SQL_READ_NEWS,
  SQL_LAST_NEWS,
  SQL_FORGET_NEWS,
  SQL_DATA_VERSION,
  SQL_STATEMENTS
} sqlite_statement;

typedef struct sqlite_store {
  idem__store head;
  size_t max_bytes, queued_count, queued_bytes;
  /* The writer's alone. */
  sqlite3 *database;
  sqlite3_stmt *statements[SQL_STATEMENTS];
  uint64_t busy_ms;       /* that another process may hold the file, */
  uint64_t busy_since_ms; /* since then */
  sqlite_totals totals;
  bool current; /* the totals are the file's, if nobody else has written */
  bool alone;   /* nobody else has, when this transaction began, since news were last looked for */
  bool broken;  /* a statement failed: the transaction cannot be kept */
  bool full;    /* ... since the disk has no room for it */
  bool swept;   /* in this transaction there is nothing whose time is over */
  sqlite_group groups[SQLITE_GROUPS];
  size_t group_count, group_next;
  sqlite_due due; /* of this transaction, not written yet */
  sqlite_seen seen[SQLITE_SEEN];
  size_t growth; /* that keys' values had lately, when their answers came */
  char members[IDEM__STORE_GROUP_MAX + 1]; /* the group of the record found last */
  size_t last_batch;                       /* operations of the last transaction */
  sqlite_news news;
  uint64_t news_row;       /* of this transaction; 0: it has none */
  bool spilled;            /* some of our own are to be read from the file */
  int64_t writer_id;       /* ours, in rows of news */
  uint64_t news_seen;      /* the last that watchers were told */
  int64_t data_version;    /* of the file, when news were last looked for */
  uint64_t forget_ms;      /* when old news go next */
  idem__watchers watchers; /* has a lock of its own: telling must not meet those who ask */
  /* Shared, under the lock. */
  pthread_mutex_t lock;
  pthread_cond_t work; /* there is enough to do, or time to end */
  idem_list queue;
  size_t count, bytes;
  size_t wanted; /* so many wake the writer */
  bool ending;
  bool watched;                /* somebody wants to hear of others' changes */
  _Atomic uint64_t stopped_ms; /* tests stop the clock and move it; 0: it runs */
  _Atomic uint64_t leaves_ms;  /* when nobody is waited for any more; 0: it is not about to go */
  pthread_t writer;
} sqlite_store;

uint64_t sqlite_now_ms(sqlite_store *store);

/* sqlite_file.c: the file and its statements. */
bool sqlite_file_check(const char *path, char *why, size_t size);
bool sqlite_file_open(sqlite_store *store, const idem__sqlite_opts *opts, char *why, size_t size);
void sqlite_file_close(sqlite_store *store);
/* From any thread: it is about to go, and waits only for a moment more for who holds the file. */
void sqlite_file_leave(sqlite_store *store);
/* Ready to bind; it is reset by sqlite_done. */
sqlite3_stmt *sqlite_use(sqlite_store *store, sqlite_statement which);
/* One step: true, there is a row. A failure marks the store as broken. */
bool sqlite_step(sqlite_store *store, sqlite3_stmt *statement);
void sqlite_done(sqlite3_stmt *statement);
/* For statements that give no rows. */
bool sqlite_execute(sqlite_store *store, sqlite3_stmt *statement);

/* sqlite_records.c: an operation inside a transaction; fills job->answer. */
void sqlite_perform(sqlite_store *store, sqlite_job *job);
/* What was done in this transaction will not be. */
void sqlite_forget_seen(sqlite_store *store);
bool sqlite_changes(const idem__store_op *op);

/* sqlite_expiry.c: records whose time is over go, some at a time; true: there are more. */
bool sqlite_expire(sqlite_store *store, uint64_t now_ms);
bool sqlite_something_expired(sqlite_store *store, uint64_t now_ms);
/* A transaction ends: when its keys are due. */
void sqlite_write_due(sqlite_store *store);

/* sqlite_groups.c: how many records groups have, inside a transaction. */
uint64_t sqlite_group_count(sqlite_store *store, idem__store_space space, const char *members);
/* One more (1) or less (-1). */
void sqlite_group_add(sqlite_store *store, idem__store_space space, const char *members, int step);
void sqlite_groups_forget(sqlite_store *store); /* a transaction begins */
void sqlite_groups_write(sqlite_store *store);  /* ... and ends */

/* sqlite_news.c: who is told of changes, in this process and others. */
void sqlite_note(sqlite_store *store, idem__store_event event, idem__store_space space,
                 const void *name, size_t name_len, uint64_t version);
/* What was noted goes into the file, with the transaction. */
void sqlite_write_news(sqlite_store *store);
/* ... and, when that has been committed, to our own watchers; else it is forgotten. */
void sqlite_tell_own_news(sqlite_store *store, bool committed);
/* Tells what others did. */
void sqlite_tell_news(sqlite_store *store);
int64_t sqlite_data_version(sqlite_store *store);
void sqlite_forget_news(sqlite_store *store, uint64_t now_ms);
idem_status sqlite_watch(idem__store *head, idem__store_space space, idem__store_watch_fn fn,
                         void *user, idem__store_watcher **out);
void sqlite_unwatch(idem__store *head, idem__store_watcher *watcher);

#endif
