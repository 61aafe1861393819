/* once_table.c - the keys that this server has to do with at the moment: by name, with what others left for their workers to look at: a
 * record that changed, a node that died, time that passed. See once.h. */
#include "once.h"
#include "server.h"
#include "task.h"

#include <string.h>

void idem__once_lock(idem_server *server) { idem__lock_take(&server->onces->lock); }
void idem__once_unlock(idem_server *server) { idem__lock_give(&server->onces->lock); }

idem_status idem__onces_new(idem_server *server) {
  idem__once_table *table = idem__calloc(&server->alloc, sizeof *table);
  if (!table) return IDEM_E_NOMEM;
  idem__lock_init(&table->lock);
  idem_map_init(&table->by_name, &server->alloc, idem__router_seed(server->router));
  idem_list_init(&table->flagged);
  server->onces = table;
  return IDEM_OK;
}

void idem__once_free(idem__once *once) {
  idem_alloc alloc = once->server->alloc;
  if (once->doubtful) atomic_fetch_sub(&once->server->onces->doubts, 1);
  idem__once_end_call(once);
  idem__once_text_unref(once->outcome);
  idem__free(&alloc, once);
}

/* What is left ran, and no store took it. */
void idem__onces_free(idem_server *server) {
  idem__once_table *table = server->onces;
  size_t at = 0;
  if (!table) return;
  for (idem__once *once; (once = idem_map_next(&table->by_name, &at));) idem__once_free(once);
  idem_map_deinit(&table->by_name);
  idem__free(&server->alloc, table);
  server->onces = NULL;
}

/* ------------------------------------------------------------------- stages */

static bool is_waiting(idem__once_stage stage) {
  return stage == IDEM__ONCE_ELSEWHERE || stage == IDEM__ONCE_UNSAVED;
}

static bool is_work(idem__once_stage stage) {
  return stage == IDEM__ONCE_AT_WORK || stage == IDEM__ONCE_STORING;
}

void idem__once_set_stage(idem__once *once, idem__once_stage stage) {
  idem__once_table *table = once->server->onces;
  if (is_waiting(once->stage)) atomic_fetch_sub(&table->waiting, 1);
  if (is_waiting(stage)) atomic_fetch_add(&table->waiting, 1);
  bool rests = is_work(once->stage) && !is_work(stage);
  once->stage = stage;
  if (rests) idem__worker_rested(once->worker);
}

void idem__once_flag(idem__once *once) {
  if (idem_list_empty(&once->flagged_link))
    idem_list_append(&once->server->onces->flagged, &once->flagged_link);
}

bool idem__once_waits(const idem__mcp_worker *worker) {
  return atomic_load_explicit(&worker->server->onces->waiting, memory_order_relaxed) > 0;
}

bool idem__once_works(const idem__mcp_worker *worker) {
  idem_server *server = worker->server;
  size_t at = 0;
  bool works = false;
  if (!server->onces) return false;
  idem__once_lock(server);
  for (const idem__once *once; !works && (once = idem_map_next(&server->onces->by_name, &at));)
    works = once->worker == worker && is_work(once->stage);
  idem__once_unlock(server);
  return works;
}

/* Out of the table, with the lock held: nobody finds it any more. */
void idem__once_leave_table(idem__once *once) {
  idem_map_remove(&once->server->onces->by_name, (const char *)once->name, sizeof once->name);
  idem_list_remove(&once->flagged_link);
  idem__once_set_stage(once, IDEM__ONCE_ASKING);
}

/* --------------------------------------------------------------------- news */

void idem__once_on_change(const idem__store_change *change, void *user) {
  idem_server *server = user;
  idem__once_table *table = server->onces;
  if (change->event == IDEM__STORE_WAS_TOLD) {
    idem__once_on_news(server, change->name, change->name_len);
    return;
  }
  if (!table || !atomic_load(&table->waiting)) return;
  idem__once_lock(server);
  idem__once *once = idem_map_get(&table->by_name, change->name, change->name_len);
  bool ours = once && once->stage == IDEM__ONCE_ELSEWHERE;
  if (ours) idem__once_flag(once);
  idem__once_unlock(server);
  if (ours) idem__server_wake(server);
}

static void flag_all(idem_server *server, const idem__mcp_worker *worker) {
  idem__once_table *table = server->onces;
  size_t at = 0;
  idem__once_lock(server);
  for (idem__once *once; (once = idem_map_next(&table->by_name, &at));) {
    if (is_waiting(once->stage) && (!worker || once->worker == worker)) idem__once_flag(once);
  }
  idem__once_unlock(server);
}

/* A node has gone: what waited for it is looked at. */
void idem__once_on_node(const idem__store_change *change, void *user) {
  idem_server *server = user;
  bool gone = change->event == IDEM__STORE_WAS_EXPIRED || change->event == IDEM__STORE_WAS_REMOVED;
  if (gone || change->event == IDEM__STORE_WAS_PUT)
    idem__node_seen(server, change->name, change->name_len, !gone);
  if (!gone || !server->onces) return;
  idem__tasks_node_gone(server, change->name, change->name_len);
  if (atomic_load(&server->onces->waiting)) flag_all(server, NULL);
  idem__server_wake(server);
}

void idem__once_tick(idem__mcp_worker *worker) {
  bool waits = idem__once_waits(worker), called = atomic_load(&worker->server->onces->called) > 0;
  if (waits) flag_all(worker->server, worker);
  if (called) idem__once_flag_called(worker);
  if (waits || called) idem__once_deliver(worker);
}

/* One of this worker's that somebody wants looked at; a copy of what it was. */
static idem__once *next_flagged(idem__mcp_worker *worker, idem__once_stage *stage, bool *cancel) {
  idem__once_table *table = worker->server->onces;
  idem__once *found = NULL;
  idem__once_lock(worker->server);
  for (idem_list *at = table->flagged.next; at != &table->flagged && !found; at = at->next) {
    idem__once *once = IDEM_CONTAINER(at, idem__once, flagged_link);
    if (once->worker == worker) found = once;
  }
  if (found) {
    idem_list_remove(&found->flagged_link);
    *stage = found->stage;
    *cancel = found->cancel;
    found->cancel = false;
    if (is_waiting(found->stage))
      idem__once_set_stage(found, found->stage == IDEM__ONCE_ELSEWHERE ? IDEM__ONCE_ASKING
                                                                       : IDEM__ONCE_STORING);
  }
  idem__once_unlock(worker->server);
  return found;
}

void idem__once_deliver(idem__mcp_worker *worker) {
  idem__once_stage stage;
  bool cancel;
  for (idem__once *once; (once = next_flagged(worker, &stage, &cancel));) {
    if (stage == IDEM__ONCE_ELSEWHERE) {
      once->tries = 0;
      idem__once_look(once);
    } else if (stage == IDEM__ONCE_UNSAVED && once->doubtful) {
      idem__once_look_in_doubt(once);
    } else if (stage == IDEM__ONCE_UNSAVED) {
      idem__once_store(once);
    } else if (cancel) {
      idem__once_ask_others(once);
    }
  }
}

/* One of the worker's that runs, or waits for another node; each once. */
static idem__once *next_of(idem__mcp_worker *worker) {
  size_t at = 0;
  idem__once *found = NULL, *once;
  idem__once_lock(worker->server);
  while (!found && (once = idem_map_next(&worker->server->onces->by_name, &at))) {
    if (once->worker != worker || once->ending) continue;
    if (once->stage == IDEM__ONCE_AT_WORK || once->stage == IDEM__ONCE_ELSEWHERE) found = once;
  }
  if (found) found->ending = true;
  idem__once_unlock(worker->server);
  return found;
}

/* Who waits here is told, and comes back elsewhere. */
static void leave_elsewhere(idem__once *once) {
  idem__once_gone gone = {.server = once->server};
  idem__once_lock(once->server);
  bool withdrawn = idem__once_withdraw(once, &gone);
  idem__once_unlock(once->server);
  idem__once_settle(once, IDEM__ONCE_REFUSED, IDEM__ONCE_GOING);
  if (withdrawn) idem__once_went(&gone);
}

void idem__once_forget_worker(idem__mcp_worker *worker) {
  if (!worker->server->onces) return;
  for (idem__once *once; (once = next_of(worker));) {
    if (once->stage == IDEM__ONCE_ELSEWHERE)
      leave_elsewhere(once);
    else
      idem__once_cancel_runner(once);
  }
}
