/* runners.h - the server's side of the spawner: runners that are free, busy or on their way, and a new
 * spawner where one has ended. On the server's loop. */
#ifndef IDEM_CLI_RUNNERS_H
#define IDEM_CLI_RUNNERS_H

#include "order.h"
#include "scratch.h"

#include <idem/containers.h>
#include <uv.h>

typedef struct runners runners;
typedef struct runner runner;

/* Somebody who waits for a runner, then for what it reports. Lives where it wants to. */
typedef struct runner_user {
  idem_list link;  /* among those who wait */
  runner *runner;  /* NULL: none yet, or no longer */
  uint64_t since;  /* ms; when it began to wait */
  seal_level seal; /* of what it is to run; set before it is wanted */
  /* A runner is there and is theirs until it has reported. 0, or errno: no runner can be had;
   * ETIME: in time. */
  void (*ready)(struct runner_user *self, int why);
  /* REPORT_EXITED, REPORT_CROWDED or REPORT_FAILED and its value; the runner is given back already. Kind 0: the runner
   * was lost, and with it what it ran. */
  void (*reported)(struct runner_user *self, order_note note);
  /* The program has ended, and its own folder is being removed; NULL: never mind. */
  void (*tidying)(struct runner_user *self);
} runner_user;

struct runners {
  idem_log *log;
  uv_loop_t *loop;      /* known from the first call on */
  uv_poll_t *poll;      /* of the spawner's socket */
  uv_timer_t *patience; /* with it, while somebody waits */
  int socket;           /* -1: there is no spawner */
  pid_t pid;
  idem_list idle;
  idem_list busy;
  idem_list waiting;
  size_t idle_count;
  size_t waiting_count;
  size_t coming;         /* runners that were asked for */
  unsigned failures;     /* spawners that ended before they made a runner, in a row */
  scratch_folder folder; /* that programs may write to */
  unsigned told;         /* which of its moves the spawner knows of */
};

/* Makes the folder. */
void runners_init(runners *self, idem_log *log);
/* Starts a spawner if there is none. False: errno. */
bool runners_start(runners *self);
/* `ready` is called, now or later. */
void runners_want(runners *self, uv_loop_t *loop, runner_user *user);
/* No longer wanted; before `ready`. */
void runners_want_not(runners *self, runner_user *user);
/* After the loop: ends the spawner and everything it started; waits for that. */
void runners_end(runners *self);

/* 0 or errno. */
int runner_run(runner *self, const spawn_order *order);
/* Unused, after `ready`. */
void runner_return(runner *self);
/* It died while it was idle: runner_run said EPIPE. */
void runner_forget(runner *self);
void runner_tell(runner *self, order_kind kind);
/* Ends a runner that does not report. `reported` is called with kind 0. */
void runner_drop(runner *self);

#endif
