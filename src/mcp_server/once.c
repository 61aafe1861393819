/* once.c - how a call with a key finds out what it is: the first, which runs; one that joins another; one whose
 * answer is there. The store is asked by whoever comes first on this server, for all who come meanwhile. */
#include "once.h"
#include "context.h"
#include "server.h"
#include "task.h"

#include <string.h>

#define TRIES_MAX 64u

void idem__once_lock(idem_server *server) { idem__lock_take(&server->onces->lock); }
void idem__once_unlock(idem_server *server) { idem__lock_give(&server->onces->lock); }

idem_status idem__onces_new(idem_server *server) {
  idem__once_table *table = idem__calloc(&server->alloc, sizeof *table);
  if (!table) return IDEM_E_NOMEM;
  idem__lock_init(&table->lock);
  idem__map_init(&table->by_name, &server->alloc, idem__router_seed(server->router));
  idem__list_init(&table->flagged);
  server->onces = table;
  return IDEM_OK;
}

static void free_once(idem__once *once) {
  idem_alloc alloc = once->server->alloc;
  idem__once_text_unref(once->outcome);
  idem__free(&alloc, once);
}

/* What is left ran, and no store took it. */
void idem__onces_free(idem_server *server) {
  idem__once_table *table = server->onces;
  size_t at = 0;
  if (!table) return;
  for (idem__once *once; (once = idem__map_next(&table->by_name, &at));) free_once(once);
  idem__map_deinit(&table->by_name);
  idem__free(&server->alloc, table);
  server->onces = NULL;
}

/* ------------------------------------------------------------------- stages */

static bool is_waiting(idem__once_stage stage) {
  return stage == IDEM__ONCE_ELSEWHERE || stage == IDEM__ONCE_UNSAVED;
}

void idem__once_set_stage(idem__once *once, idem__once_stage stage) {
  idem__once_table *table = once->server->onces;
  if (is_waiting(once->stage)) atomic_fetch_sub(&table->waiting, 1);
  if (is_waiting(stage)) atomic_fetch_add(&table->waiting, 1);
  once->stage = stage;
}

void idem__once_flag(idem__once *once) {
  if (idem__list_empty(&once->flagged_link))
    idem__list_append(&once->server->onces->flagged, &once->flagged_link);
}

bool idem__once_waits(const idem__mcp_worker *worker) {
  return atomic_load_explicit(&worker->server->onces->waiting, memory_order_relaxed) > 0;
}

/* Out of the table, with the lock held: nobody finds it any more. */
static void leave_table(idem__once *once) {
  idem__map_remove(&once->server->onces->by_name, (const char *)once->name, sizeof once->name);
  idem__list_remove(&once->flagged_link);
  idem__once_set_stage(once, IDEM__ONCE_ASKING);
}

/* ------------------------------------------------------------------ telling */

static void free_caller(idem__once_caller *caller) {
  idem_alloc alloc = caller->worker->server->alloc;
  idem__once_text_unref(caller->text);
  idem__free(&alloc, caller);
}

static void begin(idem__once_caller *caller);

static void run_now(void *ctx) {
  idem__context *context = ctx;
  context->go_on(context);
}

/* The context's request is its handler's from now on. */
static void let_run(idem__once_caller *caller) {
  idem__context *context = caller->context;
  caller->run = true;
  if (caller->inside) return;
  context->go_on = caller->go_on;
  free_caller(caller);
  idem__request_rerun(context->request, run_now, context);
}

static void answer_caller(idem__once_caller *caller) {
  idem__context *context = caller->context;
  bool inside = caller->inside; /* then whoever is inside frees it */
  if (caller->verdict == IDEM__ONCE_REPLAY)
    idem__once_reply(context, caller->text, true);
  else
    idem__once_refuse(context, caller->refusal);
  if (!inside) free_caller(caller);
}

/* On the caller's own thread. */
static void act(void *arg) {
  idem__once_caller *caller = arg;
  caller->once = NULL;
  if (!caller->context) {
    free_caller(caller);
    return;
  }
  if (!caller->inside) idem_request_on_cancel(caller->context->request, NULL, NULL);
  if (caller->verdict == IDEM__ONCE_AGAIN)
    begin(caller);
  else if (caller->verdict == IDEM__ONCE_RUN)
    let_run(caller);
  else
    answer_caller(caller);
}

void idem__once_act(idem__once_caller *caller) { act(caller); }

static bool same_digest(const idem__once *once, const idem__once_caller *caller) {
  return memcmp(caller->digest, once->digest, sizeof once->digest) == 0;
}

/* With the lock held, which says that whoever waits is still there: out of the list, and to its own thread. That of
 * this thread is given back, to be told without the lock. */
static idem__once_caller *hand_over(idem__once *once, idem__once_caller *caller,
                                    idem__once_verdict verdict, idem__once_refusal refusal) {
  bool other = once->judged && verdict != IDEM__ONCE_AGAIN && !same_digest(once, caller);
  idem__list_remove(&caller->link);
  caller->verdict = other ? IDEM__ONCE_REFUSED : verdict;
  caller->refusal = other ? IDEM__ONCE_OTHER : refusal;
  if (caller->verdict == IDEM__ONCE_REPLAY) caller->text = idem__once_text_ref(once->outcome);
  if (caller->worker == once->worker) return caller;
  caller->sent = true;
  caller->posted = (idem__posted){.fn = act, .arg = caller};
  idem__worker_post_lent(caller->worker, &caller->posted);
  return NULL;
}

/* The first who waits, or the first with other arguments; NULL: none. With the lock held. */
static idem__once_caller *first_caller(const idem__once *once, bool others_alone) {
  for (idem__list *at = once->callers.next; at != &once->callers; at = at->next) {
    idem__once_caller *caller = IDEM__CONTAINER(at, idem__once_caller, link);
    if (!others_alone || !same_digest(once, caller)) return caller;
  }
  return NULL;
}

/* The lock is held when it returns: nobody waits then. */
static void tell(idem__once *once, bool others_alone, idem__once_verdict verdict,
                 idem__once_refusal refusal) {
  idem__once_lock(once->server);
  for (idem__once_caller *caller; (caller = first_caller(once, others_alone));) {
    idem__once_caller *here = hand_over(once, caller, verdict, refusal);
    idem__once_unlock(once->server);
    if (here) act(here);
    idem__once_lock(once->server);
  }
}

void idem__once_refuse_others(idem__once *once) {
  tell(once, true, IDEM__ONCE_REFUSED, IDEM__ONCE_OTHER);
  idem__once_unlock(once->server);
}

void idem__once_tell(idem__once *once, idem__once_verdict verdict, idem__once_refusal refusal) {
  tell(once, false, verdict, refusal);
  idem__once_unlock(once->server);
}

void idem__once_settle(idem__once *once, idem__once_verdict verdict, idem__once_refusal refusal) {
  idem_server *server = once->server;
  idem__once_lock(server);
  leave_table(once); /* first: who begins anew must not find it */
  idem__once_unlock(server);
  tell(once, false, verdict, refusal);
  idem__once_unlock(server);
  free_once(once);
}

/* ---------------------------------------------------------------- the store */

idem__store_op idem__once_op(const idem__once *once, idem__store_verb verb) {
  return (idem__store_op){.verb = verb,
                          .space = IDEM__STORE_ONCE,
                          .name = (const char *)once->name,
                          .name_len = sizeof once->name,
                          .ttl_ms = once->server->opts.key_ms,
                          .limit = once->server->opts.max_keys,
                          .now_ms = idem__server_wall_ms(once->server),
                          .user = (void *)(uintptr_t)once};
}

#define HEAD_ROOM 256u

void idem__once_put(idem__once *once, const idem__once_record *record, uint64_t expect,
                    idem__store_done done) {
  idem_server *server = once->server;
  idem__store_op op = idem__once_op(once, IDEM__STORE_PUT);
  idem__buf bytes;
  idem__buf_init(&bytes, &server->alloc, record->len + HEAD_ROOM);
  idem_status status = idem__once_record_write(record, &bytes);
  op.bytes = bytes.data;
  op.len = bytes.len;
  op.expect = expect;
  op.done = done;
  if (status == IDEM_OK)
    idem__store_submit(server->store, once->worker->store_queue, &op, NULL);
  else
    done(&(idem__store_answer){.status = status}, once);
  idem__buf_deinit(&bytes);
}

static void look(idem__once *once);

static void on_taken(const idem__store_answer *answer, void *user);

/* The first of those who wait says what the record says: it is the one that runs, if it is still there. */
static void take(idem__once *once, uint64_t expect) {
  idem__once_record record = {.state = IDEM__ONCE_RUNNING};
  memcpy(record.node, once->server->node.id, sizeof record.node);
  memcpy(record.digest, once->digest, sizeof record.digest);
  idem__once_put(once, &record, expect, on_taken);
}

static void on_taken(const idem__store_answer *answer, void *user) {
  idem__once *once = user;
  switch (answer->status) {
  case IDEM_OK:
    once->version = answer->version;
    idem__once_start(once);
    return;
  case IDEM_E_EXISTS:
  case IDEM_E_STATE: look(once); return;
  case IDEM_E_NOTFOUND: take(once, IDEM__STORE_ABSENT); return;
  case IDEM_E_LIMIT: idem__once_settle(once, IDEM__ONCE_REFUSED, IDEM__ONCE_FULL); return;
  default: idem__once_settle(once, IDEM__ONCE_REFUSED, IDEM__ONCE_UNAVAILABLE);
  }
}

/* ------------------------------------------------------------------ judging */

static void replay(idem__once *once, const idem__once_record *record) {
  once->outcome =
      idem__once_text_new(&once->server->alloc, record->is_error, record->text, record->len);
  if (once->outcome)
    idem__once_settle(once, IDEM__ONCE_REPLAY, 0);
  else
    idem__once_settle(once, IDEM__ONCE_REFUSED, IDEM__ONCE_UNAVAILABLE);
}

static void on_marked(const idem__store_answer *answer, void *user) {
  if (answer->status == IDEM_OK)
    idem__once_settle(user, IDEM__ONCE_REFUSED, IDEM__ONCE_LOST);
  else
    look(user);
}

/* From now on whoever ran it can write nothing: the version is another. */
static void mark_unknown(idem__once *once) {
  idem__once_record record = {.state = IDEM__ONCE_UNKNOWN};
  memcpy(record.digest, once->digest, sizeof record.digest);
  idem__once_put(once, &record, once->version, on_marked);
}

/* False: nobody waits for it. */
static bool wait_elsewhere(idem__once *once) {
  idem__once_lock(once->server);
  bool wanted = !idem__list_empty(&once->callers);
  if (wanted) idem__once_set_stage(once, IDEM__ONCE_ELSEWHERE);
  idem__once_unlock(once->server);
  if (wanted) idem__worker_wake(once->worker);
  return wanted;
}

static void on_node(const idem__store_answer *answer, void *user) {
  idem__once *once = user;
  if (answer->status == IDEM_OK) {
    if (!wait_elsewhere(once)) idem__once_settle(once, IDEM__ONCE_AGAIN, 0);
  } else if (answer->status != IDEM_E_NOTFOUND) {
    idem__once_settle(once, IDEM__ONCE_REFUSED, IDEM__ONCE_UNAVAILABLE);
  } else if (once->may_repeat) {
    take(once, once->version);
  } else {
    mark_unknown(once);
  }
}

/* What the record says of those who wait with its arguments. */
static void judge_same(idem__once *once, const idem__once_record *record) {
  idem_server *server = once->server;
  switch (record->state) {
  case IDEM__ONCE_DONE: replay(once, record); return;
  case IDEM__ONCE_UNKEPT: idem__once_settle(once, IDEM__ONCE_REFUSED, IDEM__ONCE_TOO_LARGE); return;
  case IDEM__ONCE_UNKNOWN: idem__once_settle(once, IDEM__ONCE_REFUSED, IDEM__ONCE_LOST); return;
  case IDEM__ONCE_ASKED: take(once, once->version); return;
  case IDEM__ONCE_RUNNING: break;
  }
  /* Ours, and nobody here has it: it was written when nobody waited any more, and never ran. */
  if (idem__node_is_own(server, record->node))
    take(once, once->version);
  else
    idem__node_find(server, once->worker->store_queue, record->node, on_node, once);
}

static void judge(idem__once *once, const idem__once_record *record) {
  idem__once_lock(once->server);
  memcpy(once->digest, record->digest, sizeof once->digest);
  once->judged = true;
  idem__once_unlock(once->server);
  idem__once_refuse_others(once);
  judge_same(once, record);
}

static void on_looked(const idem__store_answer *answer, void *user) {
  idem__once *once = user;
  idem__once_record record;
  once->version = answer->version;
  if (answer->status == IDEM_E_NOTFOUND)
    take(once, IDEM__STORE_ABSENT);
  else if (answer->status == IDEM_OK && idem__once_record_read(answer->bytes, answer->len, &record))
    judge(once, &record);
  else
    idem__once_settle(once, IDEM__ONCE_REFUSED, IDEM__ONCE_UNAVAILABLE);
}

static void look(idem__once *once) {
  idem__store_op op = idem__once_op(once, IDEM__STORE_GET);
  op.done = on_looked;
  if (once->tries++ < TRIES_MAX)
    idem__store_submit(once->server->store, once->worker->store_queue, &op, NULL);
  else
    idem__once_settle(once, IDEM__ONCE_REFUSED, IDEM__ONCE_UNAVAILABLE);
}

/* ------------------------------------------------------------------ joining */

static idem__once *new_once(const idem__once_caller *caller) {
  const idem__context *context = caller->context;
  idem_server *server = context->server;
  idem__once *once = idem__calloc(&server->alloc, sizeof *once);
  if (!once) return NULL;
  once->server = server;
  once->worker = caller->worker;
  once->may_repeat = context->tool && context->tool->may_repeat;
  memcpy(once->name, caller->name, sizeof once->name);
  memcpy(once->digest, caller->digest, sizeof once->digest);
  idem__list_init(&once->callers);
  idem__list_init(&once->flagged_link);
  if (idem__map_put(&server->onces->by_name, (const char *)once->name, sizeof once->name, once) ==
      IDEM_OK)
    return once;
  idem__free(&server->alloc, once);
  return NULL;
}

/* With the lock held. What is known already is its verdict; true: it waits for the rest, and (*first) is to ask. */
static bool join(idem__once_caller *caller, bool *first) {
  idem__once_table *table = caller->worker->server->onces;
  idem__once *once =
      idem__map_get(&table->by_name, (const char *)caller->name, sizeof caller->name);
  *first = once == NULL;
  if (!once) once = new_once(caller);
  caller->verdict = IDEM__ONCE_REFUSED;
  caller->refusal = IDEM__ONCE_UNAVAILABLE;
  if (!once) return false;
  if (once->judged && !same_digest(once, caller)) {
    caller->refusal = IDEM__ONCE_OTHER;
    return false;
  }
  if (once->stage == IDEM__ONCE_UNSAVED) {
    caller->refusal = idem__once_why_none(once);
    if (once->outcome) caller->verdict = IDEM__ONCE_REPLAY;
    caller->text = idem__once_text_ref(once->outcome);
    return false;
  }
  caller->once = once;
  idem__list_append(&once->callers, &caller->link);
  return true;
}

/* Explicitly, by its client, or with it. */
static void on_gone(idem_request *request, idem_cancel_reason reason, void *user) {
  idem__once_caller *caller = user;
  idem_server *server = caller->worker->server;
  idem__once_lock(server);
  bool sent = caller->sent;
  idem__once *once = caller->once;
  caller->context = NULL;
  if (!sent) {
    idem__list_remove(&caller->link);
    bool last = once && idem__list_empty(&once->callers) && once->left &&
                once->stage == IDEM__ONCE_AT_WORK && reason == IDEM_CANCEL_PEER && !once->ending;
    if (last) {
      once->cancel = true;
      idem__once_flag(once);
      if (once->worker->wake) once->worker->wake(once->worker, once->worker->wake_user);
    }
  }
  idem__once_unlock(server);
  if (!sent) free_caller(caller);
  idem_request_drop(request);
}

static void begin(idem__once_caller *caller) {
  idem_server *server = caller->worker->server;
  bool first;
  idem__list_init(&caller->link);
  caller->sent = false;
  idem__once_lock(server);
  bool waits = join(caller, &first);
  idem__once *once = caller->once;
  idem__once_unlock(server);
  if (!waits) {
    act(caller);
    return;
  }
  if (!caller->inside) {
    idem_request_on_cancel(caller->context->request, on_gone, caller);
    idem_request_keep(caller->context->request);
  }
  if (first) take(once, IDEM__STORE_ABSENT);
}

bool idem__once_admit(idem__context *context, const uint8_t name[IDEM__SHA256_BYTES],
                      yyjson_val *arguments, idem__once_fn go_on) {
  const idem_alloc *alloc = &context->server->alloc;
  idem__once_caller *caller = idem__calloc(alloc, sizeof *caller);
  idem_status status = caller ? idem__digest_value(alloc, arguments, caller->digest) : IDEM_E_NOMEM;
  if (status != IDEM_OK) {
    idem__free(alloc, caller);
    idem_request_drop(context->request);
    return false;
  }
  caller->context = context;
  caller->worker = context->worker;
  caller->go_on = go_on;
  caller->inside = true;
  memcpy(caller->name, name, sizeof caller->name);
  begin(caller);
  caller->inside = false;
  bool run = caller->run, waits = caller->once != NULL;
  if (waits) {
    idem_request_on_cancel(context->request, on_gone, caller);
    idem_request_keep(context->request);
  } else {
    free_caller(caller);
  }
  return run;
}

/* --------------------------------------------------------------------- news */

void idem__once_on_change(const idem__store_change *change, void *user) {
  idem_server *server = user;
  idem__once_table *table = server->onces;
  if (!table || !atomic_load(&table->waiting)) return;
  idem__once_lock(server);
  idem__once *once = idem__map_get(&table->by_name, change->name, change->name_len);
  bool ours = once && once->stage == IDEM__ONCE_ELSEWHERE;
  if (ours) idem__once_flag(once);
  idem__once_unlock(server);
  if (ours) idem__server_wake(server);
}

static void flag_all(idem_server *server, const idem__mcp_worker *worker) {
  idem__once_table *table = server->onces;
  size_t at = 0;
  idem__once_lock(server);
  for (idem__once *once; (once = idem__map_next(&table->by_name, &at));) {
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
  if (!idem__once_waits(worker)) return;
  flag_all(worker->server, worker);
  idem__once_deliver(worker);
}

/* One of this worker's that somebody wants looked at; a copy of what it was. */
static idem__once *next_flagged(idem__mcp_worker *worker, idem__once_stage *stage, bool *cancel) {
  idem__once_table *table = worker->server->onces;
  idem__once *found = NULL;
  idem__once_lock(worker->server);
  for (idem__list *at = table->flagged.next; at != &table->flagged && !found; at = at->next) {
    idem__once *once = IDEM__CONTAINER(at, idem__once, flagged_link);
    if (once->worker == worker) found = once;
  }
  if (found) {
    idem__list_remove(&found->flagged_link);
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
      look(once);
    } else if (stage == IDEM__ONCE_UNSAVED) {
      idem__once_store(once);
    } else if (cancel) {
      idem__once_cancel_runner(once);
    }
  }
}

/* One of the worker's that runs, or waits for another node; each once. */
static idem__once *next_of(idem__mcp_worker *worker) {
  size_t at = 0;
  idem__once *found = NULL, *once;
  idem__once_lock(worker->server);
  while (!found && (once = idem__map_next(&worker->server->onces->by_name, &at))) {
    if (once->worker != worker || once->ending) continue;
    if (once->stage == IDEM__ONCE_AT_WORK || once->stage == IDEM__ONCE_ELSEWHERE) found = once;
  }
  if (found) found->ending = true;
  idem__once_unlock(worker->server);
  return found;
}

void idem__once_forget_worker(idem__mcp_worker *worker) {
  if (!worker->server->onces) return;
  for (idem__once *once; (once = next_of(worker));) {
    if (once->stage == IDEM__ONCE_ELSEWHERE)
      idem__once_settle(once, IDEM__ONCE_REFUSED, IDEM__ONCE_UNAVAILABLE);
    else
      idem__once_cancel_runner(once);
  }
}
