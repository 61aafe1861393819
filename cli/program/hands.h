/* hands.h - the server's side of the spawner: hands that are free, busy or on their way, and a new
 * spawner where one has ended. On the server's loop. */
#ifndef IDEM_CLI_HANDS_H
#define IDEM_CLI_HANDS_H

#include "base/base.h"
#include "order.h"
#include "scratch.h"

#include <idem/base.h>
#include <uv.h>

typedef struct hands hands;
typedef struct hand hand;

/* Somebody who waits for a hand, then for what it reports. Lives where it wants to. */
typedef struct hand_user {
  idem__list link; /* among those who wait */
  hand *hand;      /* NULL: none yet, or no longer */
  uint64_t since;  /* ms; when it began to wait */
  seal_level seal; /* of what it is to run; set before it is wanted */
  /* A hand is there and is theirs until it has reported. 0, or errno: no hand can be had;
   * ETIME: in time. */
  void (*ready)(struct hand_user *self, int why);
  /* REPORT_EXITED or REPORT_FAILED and its value; the hand is given back already. Kind 0: the hand
   * was lost, and with it what it ran. */
  void (*reported)(struct hand_user *self, order_note note);
} hand_user;

struct hands {
  idem_log *log;
  uv_loop_t *loop;      /* known from the first call on */
  uv_poll_t *poll;      /* of the spawner's socket */
  uv_timer_t *patience; /* with it, while somebody waits */
  int socket;           /* -1: there is no spawner */
  pid_t pid;
  idem__list idle;
  idem__list busy;
  idem__list waiting;
  size_t idle_count;
  size_t waiting_count;
  size_t coming;         /* hands that were asked for */
  unsigned failures;     /* spawners that ended before they made a hand, in a row */
  scratch_folder folder; /* that programs may write to */
  unsigned told;         /* which of its moves the spawner knows of */
};

/* Makes the folder. */
void hands_init(hands *self, idem_log *log);
/* Starts a spawner if there is none. False: errno. */
bool hands_start(hands *self);
/* `ready` is called, now or later. */
void hands_want(hands *self, uv_loop_t *loop, hand_user *user);
/* No longer wanted; before `ready`. */
void hands_want_not(hands *self, hand_user *user);
/* After the loop: ends the spawner and everything it started; waits for that. */
void hands_end(hands *self);

/* 0 or errno. */
int hand_run(hand *self, const spawn_order *order);
/* Unused, after `ready`. */
void hand_return(hand *self);
/* It died while it was idle: hand_run said EPIPE. */
void hand_forget(hand *self);
void hand_tell(hand *self, order_kind kind);
/* Ends a hand that does not report. `reported` is called with kind 0. */
void hand_drop(hand *self);

#endif
