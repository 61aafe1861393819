/* session_share.c - whose sessions there are. Where the table is full, who has more than a share of it loses its own oldest idle
 * session before anybody else loses one, so that nobody who opens many ends those of others.
 * See docs/internals/mcp_http.md. */
#include "mcp_http.h"

#include <string.h>

/* A principal with sessions; one without a name is all whom nobody has checked. */
typedef struct idem__session_holder {
  size_t sessions;
  idem_list idle;   /* those that nobody uses, least recently used first */
  idem__timer rank; /* in the table's ranks since it had an idle one; it may have none now */
  char name[];
} idem__session_holder;

/* A header that nobody checks makes no principal: who sends another one each time would be a crowd. */
static const char *name_of(const idem__http_session *session) {
  return session->claimed ? "" : session->principal;
}

static idem__session_holder *find(const idem__http_session *session) {
  const char *name = name_of(session);
  return idem_map_get(&session->table->holders, name, strlen(name));
}

static idem__session_holder *find_or_make(const idem__http_session *session) {
  idem__session_table *table = session->table;
  const char *name = name_of(session);
  size_t len = strlen(name);
  idem__session_holder *holder = idem_map_get(&table->holders, name, len);
  if (holder) return holder;
  holder = idem__calloc(&table->alloc, sizeof *holder + len + 1);
  if (!holder) return NULL;
  memcpy(holder->name, name, len);
  idem_list_init(&holder->idle);
  if (idem_map_put(&table->holders, holder->name, len, holder) == IDEM_OK) return holder;
  idem__free(&table->alloc, holder);
  return NULL;
}

/* Without memory for it there nobody is asked to make room before others. */
static void rank(idem__session_table *table, idem__session_holder *holder) {
  idem__heap_put(&table->ranks, &holder->rank, UINT64_MAX - holder->sessions);
}

idem_status idem__session_share_join(idem__http_session *session) {
  idem__session_holder *holder = find_or_make(session);
  if (!holder) return IDEM_E_NOMEM;
  session->holder = holder;
  holder->sessions++;
  if (holder->rank.index) rank(session->table, holder);
  return IDEM_OK;
}

void idem__session_share_leave(idem__http_session *session) {
  idem__session_table *table = session->table;
  idem__session_holder *holder = session->holder;
  if (!holder) return;
  session->holder = NULL;
  idem_list_leave(&session->own_idle);
  if (--holder->sessions) {
    if (holder->rank.index) rank(table, holder);
    return;
  }
  idem__heap_remove(&table->ranks, &holder->rank);
  idem_map_remove(&table->holders, holder->name, strlen(holder->name));
  idem__free(&table->alloc, holder);
}

void idem__session_share_set_idle(idem__http_session *session, bool idle) {
  idem__session_holder *holder = session->holder;
  if (!holder) return;
  idem_list_leave(&session->own_idle);
  if (!idle) return;
  idem_list_append(&holder->idle, &session->own_idle);
  if (!holder->rank.index) rank(session->table, holder);
}

/* ------------------------------------------------------------- making room */

/* Where the store is elsewhere a process knows some of its sessions: what they show of all is taken for the whole. */
static bool is_over(const idem__session_table *table, size_t sessions, size_t all) {
  return (double)sessions * (double)table->opts.max_sessions >
         (double)table->opts.max_sessions_each * (double)all;
}

static idem__http_session *oldest_of(const idem__session_holder *holder) {
  return IDEM_CONTAINER(holder->idle.next, idem__http_session, own_idle);
}

/* Of those with an idle session the one that has most. */
static idem__session_holder *richest(idem__session_table *table) {
  for (idem__timer *first; (first = idem__heap_first(&table->ranks));) {
    idem__session_holder *holder = IDEM_CONTAINER(first, idem__session_holder, rank);
    if (!idem_list_empty(&holder->idle)) return holder;
    idem__heap_remove(&table->ranks, first);
  }
  return NULL;
}

idem__http_session *idem__session_share_victim(const idem__http_session *comer) {
  idem__session_table *table = comer->table;
  size_t all = table->by_id.count;
  const idem__session_holder *own = find(comer);
  if (own && !idem_list_empty(&own->idle) && is_over(table, own->sessions + 1, all + 1))
    return oldest_of(own);
  const idem__session_holder *most = richest(table);
  if (most && is_over(table, most->sessions, all)) return oldest_of(most);
  return idem__session_table_oldest(table);
}
