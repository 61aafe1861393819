/* once_wait.c - who waits for what becomes of a key: joining it, being told on one's own thread, going away before. See once.h. */
#include "context.h"
#include "once.h"
#include "result.h"
#include "server.h"

#include <string.h>

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
  if (caller->verdict == IDEM__ONCE_REPLAY && !inside)
    idem__once_reply_next(context, caller->text);
  else if (caller->verdict == IDEM__ONCE_REPLAY)
    idem__once_reply(context, caller->text, true);
  else
    idem__once_refuse(context, caller->refusal);
  if (!inside) free_caller(caller);
}

static void stop_waiting(const idem__context *context) {
  idem_request_on_cancel(context->request, NULL, NULL);
  idem__request_on_cut_off(context->request, NULL);
}

/* On the caller's own thread. */
static void act(void *arg) {
  idem__once_caller *caller = arg;
  caller->once = NULL;
  if (!caller->context) {
    free_caller(caller);
    return;
  }
  if (!caller->inside) stop_waiting(caller->context);
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
 * this thread is given back, to be told without the lock, unless the turn is over. */
static idem__once_caller *hand_over(idem__once *once, idem__once_caller *caller,
                                    idem__once_verdict verdict, idem__once_refusal refusal) {
  bool other = once->judged && verdict != IDEM__ONCE_AGAIN && !same_digest(once, caller);
  idem_list_remove(&caller->link);
  caller->verdict = other ? IDEM__ONCE_REFUSED : verdict;
  caller->refusal = other ? IDEM__ONCE_OTHER : refusal;
  if (caller->verdict == IDEM__ONCE_REPLAY) caller->text = idem__once_text_ref(once->outcome);
  if (caller->worker == once->worker && !idem__worker_turn_over(once->worker)) return caller;
  caller->sent = true;
  caller->posted = (idem__posted){.fn = act, .arg = caller};
  idem__worker_post_lent(caller->worker, &caller->posted);
  return NULL;
}

/* The first who waits, or the first with other arguments; NULL: none. With the lock held. */
static idem__once_caller *first_caller(const idem__once *once, bool others_alone) {
  for (idem_list *at = once->callers.next; at != &once->callers; at = at->next) {
    idem__once_caller *caller = IDEM_CONTAINER(at, idem__once_caller, link);
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
  idem__once_forget_marked(once->worker);
}

void idem__once_settle(idem__once *once, idem__once_verdict verdict, idem__once_refusal refusal) {
  idem_server *server = once->server;
  idem__once_lock(server);
  idem__once_leave_table(once); /* first: who begins anew must not find it */
  idem__once_unlock(server);
  tell(once, false, verdict, refusal);
  idem__once_unlock(server);
  idem__once_forget_marked(once->worker);
  idem__once_free(once);
}

/* ------------------------------------------------------------------ joining */

static idem__once *new_once(const idem__once_caller *caller) {
  const idem__context *context = caller->context;
  idem_server *server = context->server;
  idem__once *once = idem__calloc(&server->alloc, sizeof *once);
  if (!once) return NULL;
  once->server = server;
  once->worker = caller->worker;
  once->ttl_ms = idem__once_ttl(context);
  once->may_repeat = context->tool && context->tool->may_repeat;
  memcpy(once->name, caller->name, sizeof once->name);
  /* A header that nobody checks makes no caller of its own: who sends another one each time would have all. */
  idem__once_group(context->principal_claimed ? "" : context->principal, once->group);
  memcpy(once->digest, caller->digest, sizeof once->digest);
  idem__server_keys_name(server, once->store_name);
  idem_list_init(&once->callers);
  idem_list_init(&once->flagged_link);
  if (idem_map_put(&server->onces->by_name, (const char *)once->name, sizeof once->name, once) ==
      IDEM_OK)
    return once;
  idem__free(&server->alloc, once);
  return NULL;
}

/* With the lock held. What is known already is its verdict; true: it waits for the rest, and (*first) is to ask. */
static bool join(idem__once_caller *caller, bool *first) {
  idem__once_table *table = caller->worker->server->onces;
  idem__once *once = idem_map_get(&table->by_name, (const char *)caller->name, sizeof caller->name);
  *first = once == NULL;
  if (!once) once = new_once(caller);
  caller->verdict = IDEM__ONCE_REFUSED;
  caller->refusal = IDEM__ONCE_MEMORY;
  if (!once) return false;
  if (once->judged && !same_digest(once, caller)) {
    caller->refusal = IDEM__ONCE_OTHER;
    return false;
  }
  if (once->stage == IDEM__ONCE_UNSAVED) {
    caller->refusal = idem__once_why_none(once);
    return false;
  }
  caller->once = once;
  once->unwanted = false;
  yyjson_val *repeat = yyjson_obj_get(caller->context->meta, IDEM__ONCE_REPEAT);
  if (repeat) once->asked_before = true;
  if (yyjson_is_str(repeat) && yyjson_get_len(repeat) == IDEM__ONCE_STORE_ID)
    memcpy(once->store_name, yyjson_get_str(repeat), IDEM__ONCE_STORE_ID);
  uint64_t ttl_ms = idem__once_ttl(caller->context);
  if (ttl_ms > once->ttl_ms) once->ttl_ms = ttl_ms; /* who needs it longest decides */
  idem_list_append(&once->callers, &caller->link);
  if (once->stage == IDEM__ONCE_ELSEWHERE && !once->announced) {
    idem__once_flag(once); /* its record is looked at, and says so */
    idem__worker_wake(once->worker);
  }
  return true;
}

/* With the lock held: one of those who waited has gone. True: it was the last of those who wait for another node. */
static bool leave(idem__once *once, idem__once_gone *gone) {
  if (!idem_list_empty(&once->callers)) return false;
  bool last = once->left && once->stage == IDEM__ONCE_AT_WORK && gone->for_good && !once->ending;
  if (last) idem__once_cancel_soon(once);
  gone->for_good |= once->unwanted;
  return idem__once_withdraw(once, gone);
}

/* Explicitly, by its client, or with it. */
static void on_gone(idem_request *request, idem_cancel_reason reason, void *user) {
  idem__once_caller *caller = user;
  idem_server *server = caller->worker->server;
  idem__once_lock(server);
  bool sent = caller->sent, withdrawn = false;
  idem__once_gone gone = {.server = server, .for_good = reason == IDEM_CANCEL_PEER};
  caller->context = NULL;
  if (!sent) {
    idem_list_remove(&caller->link);
    withdrawn = caller->once && leave(caller->once, &gone);
  }
  idem__once_unlock(server);
  if (withdrawn) idem__once_went(&gone);
  if (!sent) free_caller(caller);
  idem_request_drop(request);
}

static void keep_waiting(idem__once_caller *caller) {
  idem_request *request = caller->context->request;
  idem_request_on_cancel(request, on_gone, caller);
  idem__request_on_cut_off(request, idem__cut_off_unavailable);
  idem_request_keep(request);
}

static void begin(idem__once_caller *caller) {
  idem_server *server = caller->worker->server;
  bool first;
  idem_list_init(&caller->link);
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
    keep_waiting(caller);
  }
  if (first) idem__once_take(once, IDEM__STORE_ABSENT);
}

bool idem__once_admit(idem__context *context, const uint8_t name[IDEM_SHA256_BYTES],
                      yyjson_val *arguments, idem__once_fn go_on) {
  const idem_alloc *alloc = &context->server->alloc;
  idem__once_caller *caller = idem__calloc(alloc, sizeof *caller);
  idem_status status = caller ? idem__digest_value(alloc, arguments, caller->digest) : IDEM_E_NOMEM;
  if (status != IDEM_OK) {
    idem__free(alloc, caller);
    idem_request_drop(context->request);
    return false;
  }
  context->keyed = true;
  caller->context = context;
  caller->worker = context->worker;
  caller->go_on = go_on;
  caller->inside = true;
  memcpy(caller->name, name, sizeof caller->name);
  begin(caller);
  caller->inside = false;
  bool run = caller->run, waits = caller->once != NULL;
  if (waits) {
    keep_waiting(caller);
  } else {
    free_caller(caller);
  }
  return run;
}
