/* lost.c - sessions of a store that has lost what it held (identity.h of src/mcp_server). Nobody is told of records that go so: each image is
 * looked for, one after another, and those that are gone end as by a DELETE. */
#include "mcp_http.h"

#include <string.h>

/* The mark stands in the list of sessions as one that nobody finds, behind the one that is looked for. */
typedef struct looking {
  idem__mcp_endpoint *endpoint;
  unsigned losses; /* that it is for */
  idem__http_session mark;
  idem__session_finding finding;
} looking;

static void end(looking *self, bool all) {
  idem__mcp_endpoint *endpoint = self->endpoint;
  idem__session_table_lock(endpoint->table);
  idem_list_leave(&self->mark.link);
  idem__session_table_unlock(endpoint->table);
  endpoint->looks_for_lost = false;
  if (all) endpoint->losses = self->losses; /* else it is tried again with the next look */
  idem__free(&endpoint->alloc, self);
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
    if (!next->id[0]) next = NULL; /* somebody else's mark */
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

static void begin(idem__mcp_endpoint *endpoint, unsigned losses) {
  idem__session_table *table = endpoint->table;
  looking *self = idem__calloc(&endpoint->alloc, sizeof *self);
  if (!self) return;
  self->endpoint = endpoint;
  self->losses = losses;
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
  bool due =
      endpoint->losses != losses && !endpoint->looks_for_lost && !table->store->kind->immediate;
  if (due) begin(endpoint, losses);
}
