/* query_session.h - a database opened for one query, which is prepared. Sessions are kept between calls,
 * used by one thread at a time, and given up when the file is another one by now. */
#ifndef IDEM_CLI_QUERY_SESSION_H
#define IDEM_CLI_QUERY_SESSION_H

#include "query.h"

#include <sqlite3.h>
#include <sys/types.h>
#include <uv.h>

#define SESSION_BUSY_MS 1000 /* how long a locked database is waited for */

typedef struct query_session {
  idem__list link; /* among its tool's idle ones */
  sqlite3 *database;
  sqlite3_stmt *statement;
  dev_t device; /* the file that was opened */
  ino_t inode;
  bool may_hold; /* changes by others cannot be missed while it holds: see session_hold */
  bool holds;
  idem__list held; /* among those that hold */
} query_session;

/* On any thread. NULL: `why` says what SQLite said. */
query_session *session_open(const tool_config *tool, char *why, size_t size);
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
