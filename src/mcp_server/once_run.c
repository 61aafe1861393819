/* once_run.c - the run of a call with a key: its handler's answer is kept before anybody hears it, and who goes away does
 * not take it along. See once.h. */
#include "context.h"
#include "once.h"
#include "result.h"
#include "server.h"

#include <string.h>

/* ------------------------------------------------------------------ storing */

static void leave_runner(idem__once *once) {
  idem__request_set_guard(once->runner->request, NULL);
  once->runner->once = NULL;
  once->runner = NULL;
}

/* Nothing was done, or it may be done again: the key is given back. */
static bool may_run_again(const idem__once *once) {
  return once->not_run || (once->broken && once->may_repeat);
}

/* It was taken from us: our lease had ended, and others are told what the record says. */
static bool is_fenced(const idem__once *once) {
  return once->saved == IDEM_E_STATE || once->saved == IDEM_E_EXISTS;
}

/* The store has it, or never will; else nobody knows. */
static bool is_over(const idem__once *once) {
  return once->saved == IDEM_OK || once->saved == IDEM_E_NOTFOUND || is_fenced(once);
}

/* An answer that would go with this process, or that others are not told, is no answer: who asks again with its key hears what the store has. */
static bool must_not_be_told(const idem__once *once) {
  return once->outcome && !may_run_again(once) && (!is_over(once) || is_fenced(once));
}

/* Who runs it hears what those hear who ask for it later; one that has cancelled it hears nothing. */
static bool is_to_be_refused(const idem__once *once) {
  bool ended = once->broken || (once->unmet && !once->outcome);
  return must_not_be_told(once) || (ended && !once->left);
}

/* It may have lost its purpose meanwhile. */
static void tell_runner(idem__once *once) {
  idem__context *context = once->runner;
  if (!context) return;
  leave_runner(once);
  if (is_to_be_refused(once))
    idem__once_refuse(context, idem__once_why_none(once));
  else if (once->outcome)
    idem__once_reply(context, once->outcome, false);
  else
    idem_request_drop(context->request);
}

/* What it came to is for its client alone: another may have what that lacks, or is asked itself. */
static bool is_for_one(const idem__once *once) { return once->unmet || once->asked; }

/* It may be made again, and is not made here. */
static idem__once_refusal why_again(const idem__once *once) {
  if (!is_over(once)) return IDEM__ONCE_UNAVAILABLE;
  return once->ending ? IDEM__ONCE_GOING : IDEM__ONCE_BROKEN;
}

idem__once_refusal idem__once_why_none(const idem__once *once) {
  if (must_not_be_told(once) && is_fenced(once)) return IDEM__ONCE_TAKEN;
  if (once->doubtful || (once->outcome && !is_over(once)) || must_not_be_told(once))
    return IDEM__ONCE_UNAVAILABLE;
  if (is_for_one(once)) return why_again(once);
  if (!once->broken) return IDEM__ONCE_TOO_LARGE;
  return may_run_again(once) ? why_again(once) : IDEM__ONCE_LOST;
}

/* Who waited for what was broken off begins anew where that may be, unless this worker goes; so does who waited with one that lacked something
 * or was asked. */
static idem__once_verdict verdict_of(const idem__once *once) {
  if (is_for_one(once))
    return is_over(once) && !once->ending ? IDEM__ONCE_AGAIN : IDEM__ONCE_REFUSED;
  if (must_not_be_told(once))
    return is_fenced(once) && !once->ending ? IDEM__ONCE_AGAIN : IDEM__ONCE_REFUSED;
  if (once->outcome) return IDEM__ONCE_REPLAY;
  bool again = once->broken && may_run_again(once) && is_over(once) && !once->ending;
  return again ? IDEM__ONCE_AGAIN : IDEM__ONCE_REFUSED;
}

/* With the lock held: who could run it, of those who wait; NULL: nobody, or on other threads alone. */
static idem__once_caller *find_runner(const idem__once *once) {
  for (idem_list *at = once->callers.next; at != &once->callers; at = at->next) {
    idem__once_caller *caller = IDEM_CONTAINER(at, idem__once_caller, link);
    if (caller->worker == once->worker &&
        memcmp(caller->digest, once->digest, sizeof once->digest) == 0)
      return caller;
  }
  return NULL;
}

static void take_next(void *arg) {
  idem__once *once = arg;
  idem__once_lock(once->server);
  bool waits = find_runner(once) != NULL;
  idem__once_unlock(once->server);
  if (waits)
    idem__once_take(once, once->version);
  else
    idem__once_settle(once, IDEM__ONCE_AGAIN, 0);
}

/* As it was before anybody ran it. */
static void forget_run(idem__once *once) {
  idem__once_text_unref(once->outcome);
  once->outcome = NULL;
  once->tries = 0;
  once->asked = once->not_run = once->unmet = once->bare = once->broken = false;
  once->anew = once->stored = false;
  idem__once_lock(once->server);
  once->left = once->away = once->unwanted = once->cancel = once->decided = false;
  idem__once_end_call(once);
  idem__once_set_stage(once, IDEM__ONCE_ASKING);
  idem__once_unlock(once->server);
}

/* Its runner lacked something, which the next may have, or was asked, as the next will be. All the others wait on where they are: were each to begin anew each time, many
 * who lack it would join as often as they are many. A store that answers at once would run them inside each other: the next but one waits
 * in the worker's line. */
static bool hand_on(idem__once *once) {
  idem__mcp_worker *worker = once->worker;
  idem__once_lock(once->server);
  bool waits = is_for_one(once) && once->saved == IDEM_OK && !once->ending && find_runner(once);
  idem__once_unlock(once->server);
  if (!waits) return false;
  forget_run(once);
  once->posted = (idem__posted){.fn = take_next, .arg = once};
  if (worker->handing_on) {
    idem__worker_post_lent(worker, &once->posted);
    return true;
  }
  worker->handing_on = true;
  take_next(once);
  worker->handing_on = false;
  return true;
}

/* Who waits for what was taken from us looks at the record. Where nobody knows whether the store has it, it stays and is tried
 * again. */
static void conclude(idem__once *once) {
  idem__once_verdict verdict = verdict_of(once);
  if (hand_on(once)) return;
  if (is_over(once)) {
    idem__once_settle(once, verdict, idem__once_why_none(once));
    return;
  }
  idem__once_tell(once, verdict, idem__once_why_none(once));
  idem__once_lock(once->server);
  idem__once_set_stage(once, IDEM__ONCE_UNSAVED);
  idem__once_unlock(once->server);
  idem__worker_wake(once->worker);
}

static bool is_too_large(const idem__once *once) {
  return once->outcome && !once->asked && !once->broken &&
         once->outcome->len > once->server->opts.max_key_bytes;
}

/* It is tried again each second, and there may be many: one line an outage. */
static void tell_wait(idem__once *once) {
  bool away = once->saved == IDEM_E_SYS || once->saved == IDEM_E_TIMEOUT;
  if (once->waits || atomic_exchange(&once->server->onces->told, true)) return;
  idem_logf(once->server->opts.log, IDEM_LOG_WARN, "answers of calls with a key wait for the store",
            "%s; who asks with such a key is told to ask again until then",
            away ? "it is away, or did not answer in time" : idem_status_text(once->saved));
}

static const char *why_not_kept(const idem__once *once) {
  if (once->saved != IDEM_OK) return "the lease of this process had ended";
  if (once->bare) return "the store has no room for it";
  return is_too_large(once) ? "it is larger than max_key_bytes" : NULL;
}

static void tell_trouble(idem__once *once) {
  if (!is_over(once)) {
    tell_wait(once);
    once->waits = true;
    return;
  }
  const char *why = why_not_kept(once);
  if (once->waits) atomic_store(&once->server->onces->told, false);
  once->waits = false;
  if (why)
    idem_logf(once->server->opts.log, IDEM_LOG_WARN, "the answer of a call with a key is not kept",
              "%s", why);
}

static void on_stored(const idem__store_answer *answer, void *user) {
  idem__once *once = user;
  once->saved = answer->status;
  if (answer->status == IDEM_OK)
    once->version = may_run_again(once) ? IDEM__STORE_ABSENT : answer->version;
  bool too_large = answer->status == IDEM_E_LIMIT && answer->number < IDEM__STORE_FULL_ELSE;
  if (too_large && !once->bare) {
    once->bare = true; /* that it ran fits */
    idem__once_store(once);
    return;
  }
  if (answer->status == IDEM_E_NOTFOUND && !once->anew && !may_run_again(once)) {
    once->anew =
        true; /* lost with its store, or it ran for longer than its record lives: who comes again is to find it */
    idem__once_store(once);
    return;
  }
  tell_trouble(once);
  once->stored = true;
  if (once->answering) return; /* goes on there */
  tell_runner(once);
  conclude(once);
}

void idem__once_give_back(idem__once *once, idem__store_done done) {
  idem__store_op op = idem__once_op(once, IDEM__STORE_REMOVE);
  op.expect = once->version;
  op.done = done;
  idem__store_submit(once->server->store, once->worker->store_queue, &op, NULL);
}

void idem__once_store(idem__once *once) {
  idem__once_record record = {.state = IDEM__ONCE_UNKEPT};
  const idem__once_text *text = once->outcome;
  if (may_run_again(once)) {
    idem__once_give_back(once, on_stored);
    return;
  }
  memcpy(record.digest, once->digest, sizeof record.digest);
  if (once->asked || once->unmet) {
    record.state = IDEM__ONCE_ASKED;
  } else if (once->broken) {
    record.state = IDEM__ONCE_UNKNOWN;
  } else if (text && !once->bare && text->len <= once->server->opts.max_key_bytes) {
    record.state = IDEM__ONCE_DONE;
    record.is_error = text->is_error;
    record.text = text->bytes;
    record.len = text->len;
  }
  idem__once_put(once, &record, once->anew ? IDEM__STORE_ABSENT : once->version, on_stored);
}

/* ---------------------------------------------------------------- answering */

/* NULL: no memory for it. */
static idem__once_text *text_of(const idem__context *context, const idem__answer *answer) {
  const idem_alloc *alloc = &context->server->alloc;
  if (!answer->is_error && answer->value.kind == IDEM__VALUE_OWN)
    return idem__once_text_new(alloc, false, answer->value.at, answer->value.len);
  idem_buf text;
  idem_buf_init(&text, alloc, idem__answer_bytes(context->server));
  idem_policy policy = idem__context_policy(context);
  idem_status status = idem__answer_put_value(&text, &policy, answer);
  idem__once_text *made =
      status == IDEM_OK ? idem__once_text_new(alloc, answer->is_error, text.data, text.len) : NULL;
  idem_buf_deinit(&text);
  return made;
}

/* The handler is done; those who come now wait for the store. */
static void begin_storing(idem__once *once, bool begun, idem__once_text *outcome) {
  once->outcome = outcome;
  once->not_run = !begun;
  idem__once_lock(once->server);
  idem__once_set_stage(once, IDEM__ONCE_STORING);
  idem__once_unlock(once->server);
}

bool idem__once_is_broken_off(const idem__once *once) {
  return once->broken || (once->decided && once->stage == IDEM__ONCE_AT_WORK);
}

static idem_status on_answer(idem_request *request, const idem__answer *answer) {
  idem__context *context = idem__context_of(request);
  idem__once *once = context->once;
  if (once->stage != IDEM__ONCE_AT_WORK) {
    idem_request_log(request, NULL, IDEM_LOG_ERROR,
                     "a handler replied twice; the second is dropped", NULL);
    return IDEM_E_STATE;
  }
  idem_request_on_cancel(request, NULL, NULL); /* whom it would tell is done */
  once->asked = !answer->is_error && context->outcome == IDEM__OUTCOME_ASKED;
  once->unmet = context->unmet;
  /* A handler may let go, and that is its outcome; one that was told to has none. */
  bool told = answer->dropped && idem_request_cancelled(request);
  once->broken = told && !once->unmet;
  begin_storing(once, context->begun, told ? NULL : text_of(context, answer));
  once->answering = true;
  idem__once_store(once);
  once->answering = false;
  if (!once->stored) {
    idem__request_on_cut_off(request, idem__context_cut_off); /* it is none without the store */
    idem_request_keep(request);
    return IDEM_OK;
  }
  leave_runner(once);
  idem_status status = IDEM_OK;
  if (is_to_be_refused(once))
    idem__once_refuse(context, idem__once_why_none(once));
  else
    status = idem__reply_answer(request, answer);
  conclude(once);
  return status;
}

/* ---------------------------------------------------------------- cancelling */

/* What its client wants; not what nobody can go on with. */
static bool may_be_wanted(const idem__once *once, idem_cancel_reason reason,
                          const idem__context *context) {
  if (once->ending || once->decided) return false;
  return reason == IDEM_CANCEL_PEER || (reason == IDEM_CANCEL_CLOSED && !context->round);
}

/* A lost connection does not stop what has a key, for its client comes back; nor does one of several who wait. A question
 * that nobody can answer any more ends it. */
static bool on_cancel(idem_request *request, idem_cancel_reason reason) {
  const idem__context *context = idem__context_of(request);
  idem__once *once = context->once;
  idem__once_lock(once->server);
  bool runs = once->stage == IDEM__ONCE_AT_WORK;
  bool others = !idem_list_empty(&once->callers);
  bool stays =
      reason == IDEM_CANCEL_PEER ? others : reason == IDEM_CANCEL_CLOSED && !context->round;
  if (reason == IDEM_CANCEL_PEER) once->left = true;
  if (reason == IDEM_CANCEL_CLOSED) once->away = true;
  if (reason == IDEM_CANCEL_CLOSED && once->unwanted && !others) stays = false;
  /* Somebody may wait at another node. */
  bool asks = !stays && runs && once->server->node.shares && may_be_wanted(once, reason, context);
  if (asks) idem__once_cancel_soon(once);
  if (asks) stays = true;
  if (once->ending || once->decided) stays = false;
  idem__once_unlock(once->server);
  return !runs || stays;
}

static const idem__request_guard guard = {.answer = on_answer, .cancel = on_cancel};

void idem__once_end(idem__once *once) {
  idem__once_lock(once->server);
  bool ends = once->stage == IDEM__ONCE_AT_WORK && idem_list_empty(&once->callers);
  if (ends) once->decided = true;
  idem__once_unlock(once->server);
  if (ends) idem__request_cancel(once->runner->request, IDEM_CANCEL_CLOSED);
}

void idem__once_cancel_runner(idem__once *once) {
  if (!once->runner) return;
  idem__once_lock(once->server);
  once->decided = true;
  idem__once_unlock(once->server);
  idem__request_cancel(once->runner->request, once->ending ? IDEM_CANCEL_CLOSED : IDEM_CANCEL_PEER);
}

/* ------------------------------------------------------------------ running */

static idem__once_caller *take_runner(idem__once *once) {
  idem__once_lock(once->server);
  idem__once_caller *found = find_runner(once);
  if (found) {
    idem_list_remove(&found->link);
    once->judged = true;
    idem__once_set_stage(once, IDEM__ONCE_AT_WORK);
  }
  idem__once_unlock(once->server);
  return found;
}

static void on_given_back(const idem__store_answer *answer, void *user) {
  idem__once_gave_back(user, answer, IDEM__ONCE_AGAIN);
}

static void start(void *arg) {
  idem__once *once = arg;
  idem__once_caller *caller = take_runner(once);
  if (!caller) { /* whoever came first has gone; others, on other threads, begin anew */
    idem__once_give_back(once, on_given_back);
    return;
  }
  idem__context *context = once->runner = caller->context;
  context->once = once;
  context->begun = false; /* it may have had its turn before */
  idem__request_set_guard(context->request, &guard);
  idem__once_refuse_others(once);
  caller->verdict = IDEM__ONCE_RUN;
  idem__once_act(caller);
}

/* A store may say so of many keys at once. Until its turn comes nobody is chosen to run it: who goes meanwhile only waited. */
void idem__once_start(idem__once *once) {
  if (!idem__worker_turn_over(once->worker)) {
    start(once);
    return;
  }
  once->posted = (idem__posted){.fn = start, .arg = once};
  idem__worker_post_lent(once->worker, &once->posted);
}

void idem__once_became_task(idem__context *context, const char *json, size_t len) {
  idem__once *once = context->once;
  if (!once) return;
  leave_runner(once);
  begin_storing(once, true, idem__once_text_new(&once->server->alloc, false, json, len));
  idem__once_store(once);
}

void idem__once_abandon(idem__context *context) {
  idem__once *once = context->once;
  leave_runner(once);
  if (once->stage != IDEM__ONCE_AT_WORK) return;
  once->broken = true;
  begin_storing(once, context->begun, NULL);
  idem__once_store(once);
}
