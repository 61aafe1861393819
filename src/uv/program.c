/* program.c - see program.h. posix_spawn tells an errno of exec without a pipe, copies no memory, and
 * is safe in a process with threads. */
#include "uv/program.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FIRST_FREE 4 /* below are those that a program's may become */

/* ------------------------------------------------------------------------ starting */

static int plug(posix_spawn_file_actions_t *actions, const idem_program *program) {
  int why = 0;
  for (int fd = 0; fd < IDEM_PROGRAM_FILES && !why; fd++) {
    int from = program->files[fd];
    if (from == IDEM_FILE_NULL)
      why = posix_spawn_file_actions_addopen(actions, fd, "/dev/null", O_RDWR, 0);
    else if (from != IDEM_FILE_SAME)
      why = posix_spawn_file_actions_adddup2(actions, from, fd);
  }
  if (!why && program->folder) why = posix_spawn_file_actions_addchdir_np(actions, program->folder);
  return why;
}

static void set_attributes(posix_spawnattr_t *attributes, const idem_program *program) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  int group = program->session ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP;
  posix_spawnattr_setflags(attributes,
                           (short)(group | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  posix_spawnattr_setsigmask(attributes, &none);
  posix_spawnattr_setsigdefault(attributes, &all);
}

int idem_program_start(const idem_program *program, pid_t *pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  char *const *argv = (char *const *)(uintptr_t)program->argv;
  char *const *environment =
      program->environment ? (char *const *)(uintptr_t)program->environment : environ;
  int why = posix_spawn_file_actions_init(&actions);
  if (why) return why;
  posix_spawnattr_init(&attributes);
  set_attributes(&attributes, program);
  why = plug(&actions, program);
  if (!why && program->path)
    why = posix_spawn(pid, program->path, &actions, &attributes, argv, environment);
  else if (!why)
    why = posix_spawnp(pid, argv[0], &actions, &attributes, argv, environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return why;
}

void idem_program_end_text(int status, char *text, size_t size) {
  if (WIFEXITED(status))
    snprintf(text, size, "exit status %d", WEXITSTATUS(status));
  else
    snprintf(text, size, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
}

/* --------------------------------------------------------------------------- pipes */

static bool raise_end(int *end) {
  if (*end >= FIRST_FREE) return true;
  int high = fcntl(*end, F_DUPFD_CLOEXEC, FIRST_FREE), error = errno;
  if (high < 0) return false;
  close(*end);
  errno = error;
  *end = high;
  return true;
}

bool idem_pipe_open(int ends[2], int ours) {
  if (pipe2(ends, O_CLOEXEC) == 0) {
    if (raise_end(&ends[0]) && raise_end(&ends[1]) &&
        fcntl(ends[ours], F_SETFL, (ours ? O_WRONLY : O_RDONLY) | O_NONBLOCK) == 0)
      return true;
    int error = errno;
    close(ends[0]);
    close(ends[1]);
    errno = error;
  }
  ends[0] = ends[1] = -1;
  return false;
}

static ssize_t plain_write(int fd, const struct iovec *pieces, int count) {
  ssize_t n = count == 1 ? write(fd, pieces->iov_base, pieces->iov_len) : writev(fd, pieces, count);
  return n < 0 ? -errno : n;
}

/* SIGPIPE is held back for the length of the call, and taken off again. */
static ssize_t masked_write(int fd, const struct iovec *pieces, int count) {
  sigset_t broken, before;
  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken, &before);
  ssize_t n = plain_write(fd, pieces, count);
  if (n == -EPIPE && !sigismember(&before, SIGPIPE)) {
    sigtimedwait(&broken, NULL, &(struct timespec){0});
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return n;
}

ssize_t idem__pipe_write(int fd, const struct iovec *pieces, int count, bool mask_sigpipe) {
  return mask_sigpipe ? masked_write(fd, pieces, count) : plain_write(fd, pieces, count);
}

bool idem__sigpipe_kills(void) {
  struct sigaction now;
  return sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL;
}
