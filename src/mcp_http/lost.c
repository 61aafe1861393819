/* lost.c - sessions of a store that has lost what it held (identity.h of src/mcp_server), or was away: nobody was told of records that went
 * or changed so. Each image is looked for, one after another, where the store was only away those that somebody uses; whose record is gone ends
 * as by a DELETE, the others are what their records say, and hear of what they may have missed. */
#include "mcp_http.h"

#include <string.h>

/* The mark stands in the list of sessions as one that nobody finds, behind the one that is looked for. */
typedef struct looking {
  idem__mcp_endpoint *endpoint;
  unsigned losses, aways; /* that it is for */
  bool all;               /* else those that somebody uses */
  bool reminds;
  idem__http_session mark;
  idem__session_finding finding;
} looking;

static void end(looking *self, bool done) {
  idem__mcp_endpoint *endpoint = self->endpoint;
  idem__session_table_lock(endpoint->table);
  idem_list_leave(&self->mark.link);
  idem__session_table_unlock(endpoint->table);
  endpoint->looks_for_lost = false;
  if (done) { /* else it is tried again with the next look */
    endpoint->losses = self->losses;
    endpoint->aways = self->aways;
  }
  idem__free(&endpoint->alloc, self);
}

/* With the lock held. Whoever asks for another one hears of its record. */
static bool is_used(const idem__http_session *session) {
  return session->get_streams || session->resumed || session->had_stream ||
         atomic_load(&session->under_way);
}

/* The next one's id; false: that was the last. */
static bool go_on(looking *self) {
  idem__session_table *table = self->endpoint->table;
  idem__session_table_lock(table);
  idem_list *at = self->mark.link.next;
  const idem__http_session *next = NULL;
  idem_list_leave(&self->mark.link);
  for (; at != &table->sessions && !next; at = at->next) {
    next = IDEM_CONTAINER(at, idem__http_session, link);
    bool mark = !next->id[0]; /* somebody else's */
    if (mark || (!self->all && !is_used(next))) next = NULL;
  }
  if (next) memcpy(self->finding.id, next->id, sizeof self->finding.id);
  if (next) idem_list_append(at, &self->mark.link);
  idem__session_table_unlock(table);
  return next != NULL;
}

static void forget(idem__session_table *table, const char *id) {
  idem__session_table_lock(table);
  idem__http_session *session = idem_map_get(&table->by_id, id, IDEM__SESSION_ID);
  if (session) idem__http_session_forget(session);
  idem__session_table_unlock(table);
}

static void on_found(idem__http_session *session, idem_status status, void *user) {
  looking *self = user;
  if (session) atomic_fetch_add(&session->news, 1); /* its log may have grown */
  if (session && self->reminds) idem__http_session_remind_of_resources(session);
  if (session) idem__http_session_unref(session);
  if (status == IDEM_E_NOTFOUND) forget(self->endpoint->table, self->finding.id);
  bool answered = status == IDEM_OK || status == IDEM_E_NOTFOUND;
  if (answered && go_on(self)) {
    idem__http_session_load(&self->finding);
    return;
  }
  idem_server *server = self->endpoint->table->opts.server;
  end(self, answered);
  idem__server_wake(server); /* streams and calls of those that ended hear of it */
}

static void begin(idem__mcp_endpoint *endpoint, unsigned losses, unsigned aways) {
  idem__session_table *table = endpoint->table;
  looking *self = idem__calloc(&endpoint->alloc, sizeof *self);
  if (!self) return;
  self->endpoint = endpoint;
  self->losses = losses;
  self->aways = aways;
  self->all = endpoint->losses != losses;
  self->reminds = endpoint->aways != aways;
  self->mark.table = table;
  self->finding = (idem__session_finding){
      .table = table, .queue = endpoint->queue, .found = on_found, .user = self};
  endpoint->looks_for_lost = true;
  idem__session_table_lock(table);
  idem_list_append(table->sessions.next, &self->mark.link);
  idem__session_table_unlock(table);
  if (go_on(self))
    idem__http_session_load(&self->finding);
  else
    end(self, true);
}

void idem__sessions_look_for_lost(idem__mcp_endpoint *endpoint) {
  idem__session_table *table = endpoint->table;
  unsigned losses = atomic_load(&table->opts.server->identity.losses);
  unsigned aways = atomic_load(&table->opts.server->node.aways);
  bool due = endpoint->losses != losses || endpoint->aways != aways;
  if (due && !endpoint->looks_for_lost && !table->store->kind->immediate)
    begin(endpoint, losses, aways);
}
