/* spawn.c - fork and exec. Between the two only calls that are safe there are made: the limits that
 * a program must not shed are set by the process that becomes it. */
#include "spawn.h"

#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILES_SOFT 4096u

/* What the two processes share: [0] is read, [1] written. */
typedef struct wires {
  int input[2];
  int output[2];
  int errors[2];
  int failure[2]; /* errno of a failed start; closed by a successful exec */
} wires;

/* ----------------------------------------------------------------- in the child */

static void forget_signals(void) {
  sigset_t none;
  for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

static void set_limits(void) {
  struct rlimit files;
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur <= FILES_SOFT) return;
  files.rlim_cur = FILES_SOFT;
  setrlimit(RLIMIT_NOFILE, &files);
}

static bool confine(pid_t server) {
  if (setpgid(0, 0) != 0) return false;
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return false;
  if (getppid() != server) raise(SIGKILL); /* the server died before it could be noticed */
  set_limits();
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

static bool plug_in(const wires *shared, bool feeds_input) {
  int input = feeds_input ? shared->input[0] : open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (input < 0 || dup2(input, STDIN_FILENO) < 0) return false;
  if (dup2(shared->output[1], STDOUT_FILENO) < 0) return false;
  if (dup2(shared->errors[1], STDERR_FILENO) < 0) return false;
#if defined(SYS_close_range)
  syscall(SYS_close_range, 3u, ~0u, 4u); /* CLOSE_RANGE_CLOEXEC: all others end with exec */
#endif
  return true;
}

static void become(const spawn_order *order, const wires *shared, pid_t server) {
  forget_signals();
  if (confine(server) && plug_in(shared, order->feeds_input) && chdir(order->cwd) == 0 &&
      confine_self(order->rules) == 0)
    execve(order->program, order->argv, order->environment);
  int why = errno;
  ssize_t written = write(shared->failure[1], &why, sizeof why);
  _exit(written == (ssize_t)sizeof why ? 127 : 126);
}

/* ---------------------------------------------------------------- in the server */

static void close_pair(int pair[2]) {
  if (pair[0] >= 0) close(pair[0]);
  if (pair[1] >= 0) close(pair[1]);
  pair[0] = pair[1] = -1;
}

static void close_wires(wires *shared) {
  close_pair(shared->input);
  close_pair(shared->output);
  close_pair(shared->errors);
  close_pair(shared->failure);
}

/* Numbers below 3 would be lost when the child arranges its own. idem_run leaves none free. */
static bool open_wires(wires *shared, bool feeds_input) {
  return (!feeds_input || pipe2(shared->input, O_CLOEXEC) == 0) &&
         pipe2(shared->output, O_CLOEXEC) == 0 && pipe2(shared->errors, O_CLOEXEC) == 0 &&
         pipe2(shared->failure, O_CLOEXEC) == 0;
}

static pid_t fork_quietly(const spawn_order *order, const wires *shared) {
  sigset_t all, before;
  pid_t server = getpid();
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t pid = fork();
  if (pid == 0) become(order, shared, server);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return pid;
}

/* 0 once the program runs; the errno it failed with otherwise. */
static int hear_of_start(int fd) {
  int why = 0;
  ssize_t got;
  do got = read(fd, &why, sizeof why);
  while (got < 0 && errno == EINTR);
  return got == (ssize_t)sizeof why ? why : 0;
}

static int take_end(int pair[2], int index) {
  int fd = pair[index];
  pair[index] = -1;
  if (fd >= 0) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  return fd;
}

int spawn_program(const spawn_order *order, spawned *out) {
  wires shared = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
  int why = 0;
  pid_t pid = open_wires(&shared, order->feeds_input) ? fork_quietly(order, &shared) : -1;
  if (pid < 0) why = errno;
  if (pid > 0) {
    setpgid(pid, pid); /* whoever comes first; a signal to the group must find it */
    close(shared.failure[1]);
    shared.failure[1] = -1;
    why = hear_of_start(shared.failure[0]);
    if (why) waitpid(pid, NULL, 0);
  }
  if (!why)
    *out = (spawned){.pid = pid,
                     .input = take_end(shared.input, 1),
                     .output = take_end(shared.output, 0),
                     .errors = take_end(shared.errors, 0)};
  close_wires(&shared);
  return why;
}

/* ------------------------------------------------------------------------ the end */

void spawn_adopt_orphans(void) { prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

/* The children of this process as the kernel lists them; false: there are none or no list. */
static bool kill_listed(void) {
  char path[64], line[4096] = "", *at = line;
  bool any = false;
  snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
  FILE *list = fopen(path, "r");
  if (list && !fgets(line, sizeof line, list)) line[0] = 0; /* the rest is there the next time */
  if (list) fclose(list);
  for (char *end; (end = strchr(at, ' ')); at = end + 1) {
    long pid = strtol(at, NULL, 10);
    if (pid > 1) any = kill((pid_t)pid, SIGKILL) == 0 || any;
  }
  return any;
}

/* Killing a parent makes its children ours, so we look again until there are none. */
void spawn_end_all(void) {
  for (int turn = 0; turn < 1000; turn++) {
    bool any = kill_listed();
    pid_t reaped = waitpid(-1, NULL, any ? 0 : WNOHANG);
    if (reaped <= 0 && !any) return;
  }
}
