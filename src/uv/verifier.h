/* verifier.h - the threads of the process that look at signatures: a few of their own, so that neither a loop nor anybody's blocking work is in
 * the way of a token. See docs/internals/auth.md. */
#ifndef IDEM_UV_VERIFIER_H
#define IDEM_UV_VERIFIER_H

#include "uv/runtime.h"

/* Where a loop hears of what has been done for it. */
typedef struct idem__verified {
  uv_async_t async;
  idem__lock lock;
  idem_list done;
} idem__verified;

typedef struct idem__verifying {
  idem_list link;
  idem__verified *to;
  void (*run)(struct idem__verifying *self);  /* on one of the threads */
  void (*told)(struct idem__verifying *self); /* for the loop, which calls it when it hears */
  bool waits;                                 /* no thread has begun */
  bool cancelled;                             /* ... and none will */
} idem__verifying;

/* Before the first of a loop's, and after its last. SYS: no thread can be had. Who leaves last waits for the threads to end. */
idem_status idem__verifier_join(void);
void idem__verifier_leave(void);
/* Heard of once, whatever comes. */
void idem__verifier_queue(idem__verifying *one);
/* Nobody wants it any more: heard of as cancelled, unless a thread has begun. True: it is. */
bool idem__verifier_cancel(idem__verifying *one);
/* For the loop: the next that is done; NULL: none. */
idem__verifying *idem__verified_next(idem__verified *to);

#endif
