/* query_job.h - one call of a query, while it is asked and answered. */
#ifndef IDEM_CLI_QUERY_JOB_H
#define IDEM_CLI_QUERY_JOB_H

#include "query_session.h"
#include "service/edition.h"

typedef struct query_job {
  turns_call turn;
  idem_list link; /* among those that run */
  slots *slots;   /* where it waits or has its slot */
  idem_request *request;
  query_tool *asked;
  const tool_config *tool;
  query_session *session; /* NULL: one is opened */
  yyjson_doc *copied;     /* the arguments of a job that outlives its call */
  yyjson_val *arguments;
  char *principal;        /* who asks, of a query that wants to know; else NULL */
  yyjson_mut_doc *result; /* {"rows": [...], "row_count": n, "truncated": false}, "rows_changed" */
  yyjson_mut_val *root;
  yyjson_mut_val *rows;
  idem_buf table;
  query_limit limit;
  _Atomic(sqlite3 *) database; /* what can be interrupted; NULL: nothing yet */
  uint64_t began_us;
  uint64_t took_us;
  _Atomic uint64_t started_us; /* when it got its thread; 0: not yet */
  uint64_t worked_us;          /* of the thread's own time */
  bool on_loop;
  bool locked;
  bool truncated;
  int code; /* what SQLite said last */
  size_t row_count;
  size_t rows_changed; /* of a tool that may write */
  size_t bytes;
  char fault[256]; /* empty: it went well */
} query_job;

/* query_rows.c */
/* Arguments to parameters, by their names. False: one is too long. */
bool query_bind(const query_job *self, sqlite3_stmt *statement);
/* Steps through the answer; `fault` says what went wrong. */
void query_take_rows(query_job *self, const query_session *session);

#endif
