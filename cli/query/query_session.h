/* query_session.h - a database opened for one query, which is prepared. Sessions are kept between calls,
 * used by one thread at a time, and given up when the file is another one by now. */
#ifndef IDEM_CLI_QUERY_SESSION_H
#define IDEM_CLI_QUERY_SESSION_H

#include "query.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <uv.h>

#define SESSION_BUSY_US 1000000u /* how long a locked database is waited for */

/* How long a query may take. It is asked on the thread that runs the query. */
typedef struct query_limit {
  uint64_t until_us;
  bool impatient;       /* a locked database is not waited for */
  bool out_of_time;     /* the time was over when it was asked */
  atomic_bool unwanted; /* set by any thread: nobody waits for the answer */
} query_limit;

typedef struct query_session {
  idem_list link; /* among its tool's idle ones */
  sqlite3 *database;
  sqlite3_stmt *statement;
  sqlite3 *helper;    /* see query_functions.c; NULL: not needed yet */
  query_limit *limit; /* of the call that uses it; NULL: it is idle */
  uint64_t busy_us;   /* since when it waits for a lock */
  dev_t device;       /* the file that was opened */
  ino_t inode;
  bool may_hold; /* changes by others cannot be missed while it holds: see session_hold */
  bool holds;
  idem_list held; /* among those that hold */
} query_session;

uint64_t session_now_us(void);

/* On any thread, within `limit`, which becomes the session's. NULL: `why` says what SQLite said. */
query_session *session_open(const tool_config *tool, query_limit *limit, char *why, size_t size);
/* Whether what the session does has to end. */
bool session_ended(query_session *self);
void session_close(query_session *self);

/* On the loop. NULL: there is none. It may hold: let it go before it is used on another thread. */
query_session *session_take(query_tool *tool);
/* Keeps it for the next call, or closes it. */
void session_keep(query_tool *tool, query_session *session);

/* Taking and giving back SQLite's lock costs ten times what a quick query does. Between queries that
 * come one upon the other it is therefore held, for a millisecond at most. Nobody can commit
 * meanwhile, so nothing is missed; in WAL mode others could, and nothing is held. */
void session_hold(query_session *self, uv_loop_t *loop);
void session_let_go(query_session *self);
void session_let_all_go(void);

#endif
