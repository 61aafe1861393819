/* verifier.h - the threads of the process that look at signatures: a few of their own, so that neither a loop nor anybody's blocking work is in
 * the way of a token. See docs/internals/auth.md. */
#ifndef IDEM_UV_VERIFIER_H
#define IDEM_UV_VERIFIER_H

#include "uv/runtime.h"

/* Where a loop hears of what has been done for it. Not by uv_async_send: a loop that wakes before that has returned spins until it has. */
typedef struct idem__verified {
  uv_poll_t told;
  int wake;
  void (*heard)(void *user); /* takes what is done by idem__verified_next */
  void *user;
  idem__lock lock;
  idem_list done;
  _Atomic unsigned telling; /* threads that are about to write to `wake`, or do */
} idem__verified;
/* It keeps no loop running. SYS: it is not there, and need not be closed. */
idem_status idem__verified_init(idem__verified *self, uv_loop_t *loop, void (*heard)(void *user),
                                void *user);
/* After the last one was heard of. `closed` has `told`. */
void idem__verified_close(idem__verified *self, uv_close_cb closed);

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
