/* ending.c - a server or a session that ends while it is asked: who asked is told whether its call was begun. Only the handler knows,
 * so it is told first. Calls with a key have one more who wants to know, their record: see once_run.c. */
#include "context.h"
#include "once.h"
#include "result.h"

/* Reading can be done again, and so can what says that it may. */
static bool may_be_asked_again(const idem__context *context) {
  if (!context->begun || context->resource || context->prompt) return true;
  return context->tool && context->tool->may_repeat;
}

/* Where a call with a key is broken off for good that is so for all who ask, whatever the store says; else it is asked for again. Who
 * asks without a key, in a session that has ended, needs another one for that. */
const idem__answer *idem__context_cut_off(const idem_request *request) {
  const idem__context *context = idem__context_of(request);
  bool unfinished = !context->once || idem__once_is_broken_off(context->once);
  bool sessionless = !context->keyed && idem__conn_orphaned(idem_request_conn(request));
  if (unfinished && !may_be_asked_again(context)) return idem__cut_off_lost(request);
  return sessionless ? idem__cut_off_session(request) : idem__cut_off_unavailable(request);
}

/* What it says of its own is its answer; that it lets go, since it was told to, is none. */
static idem_status on_answer(idem_request *request, const idem__answer *answer) {
  idem__request_set_guard(request, NULL);
  bool is_none = answer->dropped && !idem__request_settled(request);
  return idem__reply_answer(request, is_none ? idem__context_cut_off(request) : answer);
}

static bool on_cancel(idem_request *request, idem_cancel_reason reason) {
  (void)request, (void)reason;
  return false;
}

/* What has a key goes on where a session alone has ended: its answer is for who comes with the key. */
bool idem__context_abort(idem_request *request) {
  static const idem__request_guard guard = {.answer = on_answer, .cancel = on_cancel};
  const idem__context *context = idem__context_of(request);
  if (!context) return false;
  idem__request_on_cut_off(request, idem__context_cut_off);
  if (context->once) {
    if (!idem__conn_orphaned(idem_request_conn(request))) idem__once_end(context->once);
    return true;
  }
  if (!context->begun) return false;
  idem__request_set_guard(request, &guard);
  idem__request_cancel(request, IDEM_CANCEL_CLOSED);
  return true;
}

void idem_not_run(idem_request *request) {
  idem__context *context = idem__context_open(request);
  if (context) context->begun = false;
}
