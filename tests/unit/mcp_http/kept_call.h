/* kept_call.h - a call that the fixture's tool keeps, and what becomes of it: for tests in which somebody goes meanwhile. */
#ifndef IDEM_TEST_KEPT_CALL_H
#define IDEM_TEST_KEPT_CALL_H

#include "support/mcp_web.h"

typedef struct kept_call {
  idem_request *request; /* the last; NULL: none, or it was cancelled and dropped */
  unsigned runs, cancelled;
  bool goes_on; /* although it was cancelled */
} kept_call;

static inline void kept_call_cancelled(idem_request *request, idem_cancel_reason reason,
                                       void *user) {
  kept_call *call = user;
  (void)reason;
  call->cancelled++;
  if (call->goes_on) return;
  call->request = NULL;
  idem_request_drop(request);
}

static inline void kept_call_begin(idem_request *request, void *user) {
  kept_call *call = user;
  call->runs++;
  call->request = request;
  idem_request_keep(request);
  idem_request_on_cancel(request, kept_call_cancelled, call);
}

/* What this server's tools keep from now on is noted in `call`. */
static inline void kept_call_at(mcp_web *web, kept_call *call) {
  web->fixture->keep = kept_call_begin;
  web->fixture->user = call;
}

#endif
