/* runner.c - a process that runs one program at a time. It is the reaper of everything the program
 * starts, so whoever forks, detaches or starts a session of its own still becomes its child in the
 * end, and no other call's. A program's end is reported when nothing of it is left. */
#include "spawner.h"

#include "confine.h"
#include "crowd.h"
#include "scratch.h"
#include "spawn.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOK_AGAIN_MS 20 /* while something does not die: who forks quickly is met again */
#define COUNT_MS 100     /* between two looks at how much came of a program */

/* ------------------------------------------------------------------------- sleeping */

static void on_child(int number) { (void)number; }

void sleep_prepare(void) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  sigaction(SIGCHLD, &(struct sigaction){.sa_handler = on_child}, NULL);
}

int sleep_on(int socket, int timeout_ms) {
  struct pollfd heard = {.fd = socket, .events = POLLIN};
  struct timespec limit = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
  sigset_t mask;
  sigfillset(&mask);
  sigdelset(&mask, SIGCHLD);
  return ppoll(&heard, 1, timeout_ms < 0 ? NULL : &limit, &mask) > 0;
}

/* -------------------------------------------------------------------------- running */

typedef struct runner {
  int socket;
  order_packet packet;
  order_reader reader;
  pid_t pid;
  int status;
  uint32_t processes;         /* that may come of it; 0: any number */
  bool crowded;               /* more did, and it was ended */
  char scratch[CONFINE_PATH]; /* the program's own folder; empty: none */
  bool alone;                 /* the server is gone */
} runner;

/* Reaps what there is to reap. True: the program itself has ended. */
static bool reap(runner *self) {
  int status;
  pid_t ended;
  while ((ended = waitpid(-1, &status, WNOHANG)) > 0) {
    if (ended != self->pid) continue;
    self->status = status;
    return true;
  }
  return false;
}

/* The program is not reaped yet, so its group is still its own. */
static void obey(runner *self) {
  order_receive(self->socket, &self->packet, false);
  if (self->packet.len < 0) return;
  self->alone = self->packet.len == 0;
  order_close_fds(&self->packet);
  kill(-self->pid,
       self->alone || order_note_of(&self->packet).kind != ORDER_TERM ? SIGKILL : SIGTERM);
}

/* What stays in its group dies in one go; who left is ended with the rest. */
static void end_crowd(runner *self) {
  self->crowded = true;
  kill(self->pid, SIGKILL);
  kill(-self->pid, SIGKILL);
}

/* If it has ended by now, the sleep is a short one. A program that ends soon is not counted. */
static void wait_for_program(runner *self) {
  for (;;) {
    bool counts = self->processes && !self->crowded;
    bool heard = sleep_on(self->alone ? -1 : self->socket, counts ? COUNT_MS : -1);
    if (heard) obey(self);
    if (reap(self)) return;
    if (!heard && counts && crowd_is_past(self->processes)) end_crowd(self);
  }
}

/* Killing a parent makes its children ours, so we look again until there are none. */
static void end_the_rest(void) {
  for (;;) {
    pid_t ended = waitpid(-1, NULL, WNOHANG);
    if (ended < 0) return;
    if (ended > 0) continue;
    if (!spawn_kill_children(NULL)) return;
    sleep_on(-1, LOOK_AGAIN_MS);
  }
}

/* The order is gone when the program has ended. */
static int take_order(runner *self) {
  self->scratch[0] = 0;
  int why = order_read(&self->reader, &self->packet);
  self->crowded = false;
  self->processes = why ? 0 : self->reader.order.processes;
  if (!why) snprintf(self->scratch, sizeof self->scratch, "%s", self->reader.order.scratch);
  return why;
}

static void run(runner *self) {
  int why = take_order(self);
  if (!why) why = spawn_program(&self->reader.order, &self->pid);
  order_read_end(&self->reader);
  order_close_fds(&self->packet);
  if (!why) {
    wait_for_program(self);
    end_the_rest();
  }
  if (self->scratch[0]) {
    if (!self->alone) order_note_send(self->socket, REPORT_TIDYING, 0, -1);
    scratch_remove(self->scratch);
  }
  order_kind kind = why ? REPORT_FAILED : self->crowded ? REPORT_CROWDED : REPORT_EXITED;
  if (!self->alone) order_note_send(self->socket, kind, why ? why : self->status, -1);
}

noreturn void runner_main(int socket) {
  static runner self;
  self.socket = socket;
  prctl(PR_SET_NAME, "idem-runner", 0, 0, 0);
  if (setsid() < 0 || !spawn_adopt_orphans()) _exit(1);
  for (;;) {
    order_receive(socket, &self.packet, true);
    if (self.packet.len <= 0) _exit(0);
    if (order_note_of(&self.packet).kind == ORDER_RUN)
      run(&self);
    else
      order_close_fds(&self.packet); /* it came too late */
    if (self.alone) _exit(0);
  }
}
