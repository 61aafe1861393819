/* wait.c - a request that waits for something to be known. Who waits and who knows hold one end each; the one
 * that lets go last frees it. See wait.h. */
#include "wait.h"
#include "context.h"
#include "result.h"

struct idem__wait {
  idem_alloc alloc;
  idem__context *context; /* NULL: told, or gone */
  idem__wait_fn go_on;
  void *user;
  unsigned ends; /* not let go of */
  bool kept;
};

idem__wait *idem__wait_begin(idem__context *context, idem__wait_fn go_on, void *user) {
  idem_alloc alloc = context->worker->alloc;
  idem__wait *wait = idem__malloc(&alloc, sizeof *wait);
  if (!wait) {
    idem_request_drop(context->request);
    return NULL;
  }
  *wait = (idem__wait){.alloc = alloc, .context = context, .go_on = go_on, .user = user, .ends = 2};
  return wait;
}

static void let_go(idem__wait *wait) {
  if (--wait->ends) return;
  idem_alloc alloc = wait->alloc;
  idem__free(&alloc, wait);
}

static void on_gone(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason;
  ((idem__wait *)user)->context = NULL;
  idem_request_drop(request);
}

void idem__wait_keep(idem__wait *wait) {
  if (wait->context) {
    wait->kept = true;
    idem_request_on_cancel(wait->context->request, on_gone, wait);
    idem__request_on_cut_off(wait->context->request, idem__cut_off_unavailable);
    idem_request_keep(wait->context->request);
  }
  let_go(wait);
}

void idem__wait_end(idem_status status, void *user) {
  idem__wait *wait = user;
  idem__context *context = wait->context;
  wait->context = NULL;
  if (context) {
    if (wait->kept) idem_request_on_cancel(context->request, NULL, NULL);
    if (wait->kept) idem__request_on_cut_off(context->request, NULL);
    wait->go_on(context, status, wait->user);
  }
  let_go(wait);
}

idem__context *idem__wait_context(const idem__wait *wait) { return wait->context; }
