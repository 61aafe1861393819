/* spawn.c - from an order to a running program, and to its end. The child shares our memory until it
 * becomes the program, and we stand still so long: nothing is copied, and an errno needs no pipe.
 * Only system calls are made there. */
#include "spawn.h"

#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILES_SOFT 4096u
#define STACK_BYTES 65536u

/* ------------------------------------------------------------------ for all programs */

static void set_limits(void) {
  struct rlimit files;
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur <= FILES_SOFT) return;
  files.rlim_cur = FILES_SOFT;
  setrlimit(RLIMIT_NOFILE, &files);
}

bool spawn_prepare(void) {
  set_limits();
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

bool spawn_adopt_orphans(void) { return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0; }

/* --------------------------------------------------------------------- in the child */

typedef struct birth {
  const spawn_order *order;
  int why; /* errno of a failed start */
} birth;

/* Our own input is empty. */
static bool plug_in(const spawn_order *order) {
  return (order->input < 0 || dup2(order->input, STDIN_FILENO) >= 0) &&
         dup2(order->output, STDOUT_FILENO) >= 0 && dup2(order->errors, STDERR_FILENO) >= 0;
}

static bool confine(const spawn_order *order) {
  errno = confine_files(order->rules);
  return errno == 0;
}

/* Handlers go with exec, and nothing is ignored here; the mask would stay. */
static int become(void *user) {
  birth *self = user;
  sigset_t none;
  sigemptyset(&none);
  if (setpgid(0, 0) == 0 && plug_in(self->order) && chdir(self->order->cwd) == 0 &&
      sigprocmask(SIG_SETMASK, &none, NULL) == 0 && confine(self->order))
    execve(self->order->program, self->order->argv, self->order->environment);
  self->why = errno;
  _exit(127);
}

/* -------------------------------------------------------------------- in the parent */

/* The filter is put on once and inherited: to make it costs as much as to start a small program. */
static int seal(const spawn_order *order) {
  static seal_level sealed;
  if (sealed == order->seal) return 0;
  if (sealed > order->seal) return EPERM; /* there is no way back; the server asks another runner */
  int why = confine_privileges();
  if (!why) why = confine_calls(order->seal);
  if (!why) sealed = order->seal;
  return why;
}

int spawn_program(const spawn_order *order, pid_t *pid) {
  static _Alignas(16) char stack[STACK_BYTES];
  birth made = {.order = order};
  int why = seal(order);
  if (why) return why;
  *pid = clone(become, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &made);
  if (*pid < 0) return errno;
  if (made.why) waitpid(*pid, NULL, 0);
  return made.why;
}

/* --------------------------------------------------------------------------- the end */

/* A group dies in one go, whatever its members are about to start. It is only taken from a child
 * that is not reaped yet, so that its number cannot be anyone else's. */
static void kill_with_group(pid_t pid) {
  kill(pid, SIGKILL); /* at once: it may be about to start the next one and leave */
  pid_t group = getpgid(pid);
  if (group > 1 && group != getpgrp()) kill(-group, SIGKILL);
}

static void kill_listed(char *list, spawn_spared_fn spared) {
  char *end;
  for (char *at = list; *at; at = end + (*end == ' ')) {
    long pid = strtol(at, &end, 10);
    if (end == at) return;
    if (*end && pid > 1 && !(spared && spared((pid_t)pid))) kill_with_group((pid_t)pid);
  }
}

bool spawn_kill_children(spawn_spared_fn spared) {
  static char
      list[32768]; /* more than there are runners; what does not fit is there the next time */
  int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t got = read(fd, list, sizeof list - 1);
  close(fd);
  if (got < 0) return false;
  list[got] = 0;
  kill_listed(list, spared);
  return true;
}
