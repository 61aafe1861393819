/* stdio_take.c - owning descriptors 0 and 1: the real ones move aside, close-on-exec, and a stray
 * printf then lands on stderr while a handler's child finds an empty input.
 * Flags of what we inherited belong to other processes too: they are left alone wherever the system
 * offers another way, and put back where it does not. */
#include "uv/program.h"
#include "uv/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define HIGH 10 /* above what programs address by number */

static struct {
  volatile sig_atomic_t taken;
  volatile sig_atomic_t interrupted;
  volatile sig_atomic_t flags_changed;
  int null;
  int in;
  int in_saved;
  int out;
  int out_saved;
  int out_flags;
} held = {.null = -1, .in = -1, .in_saved = -1, .out = -1, .out_saved = -1};

static bool hole[3];

void idem_stdio_fill_holes(void) {
  for (int fd = 0; fd <= 2; fd++) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    hole[fd] = true;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC); /* lands on fd: the lowest one free */
    if (null > fd) close(null);
  }
}

static int copy_high(int fd) { return hole[fd] ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, HIGH); }

static int open_null(void) {
  int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (fd < 0 || fd >= HIGH) return fd;
  int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH);
  close(fd);
  return high;
}

/* ----------------------------------------------------------------------- output */

/* The same pipe or terminal through a description of our own, whose flags nobody shares. */
static int open_again(int fd) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void idem__stdio_restore_flags(void) {
  if (!held.flags_changed) return;
  fcntl(held.out_saved, F_SETFL, held.out_flags);
  held.flags_changed = 0;
}

static void change_flags(int fd) {
  static bool registered;
  held.out_flags = fcntl(fd, F_GETFL);
  if (held.out_flags < 0 || (held.out_flags & O_NONBLOCK)) return;
  if (!registered) registered = atexit(idem__stdio_restore_flags) == 0;
  held.flags_changed = 1;
  fcntl(fd, F_SETFL, held.out_flags | O_NONBLOCK);
}

static idem__output_kind prepare_output(void) {
  struct stat what;
  held.out = held.out_saved;
  if (held.out_saved < 0 || fstat(held.out_saved, &what) != 0) return IDEM__OUTPUT_NONE;
  if (S_ISSOCK(what.st_mode)) return IDEM__OUTPUT_SOCKET;
  if (!S_ISFIFO(what.st_mode) && !(S_ISCHR(what.st_mode) && isatty(held.out_saved))) {
    return IDEM__OUTPUT_PLAIN;
  }
  int again = open_again(held.out_saved);
  if (again >= 0) {
    held.out = again;
  } else {
    change_flags(held.out_saved);
  }
  return IDEM__OUTPUT_POLLED;
}

/* ---------------------------------------------------------------- taking and giving back */

static void close_held(void) {
  if (held.out >= 0 && held.out != held.out_saved) close(held.out);
  if (held.out_saved >= 0) close(held.out_saved);
  if (held.in >= 0) close(held.in);
  if (held.in_saved >= 0) close(held.in_saved);
  if (held.null >= 0) close(held.null);
  held.null = held.in = held.in_saved = held.out = held.out_saved = -1;
}

static bool replace_standard(void) {
  if (fcntl(STDERR_FILENO, F_GETFD) < 0 && dup2(held.null, STDERR_FILENO) < 0) return false;
  return dup2(held.null, STDIN_FILENO) >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0;
}

idem_status idem__stdio_take(idem__stdio_ends *ends) {
  if (held.taken) return IDEM_E_STATE;
  held.null = open_null();
  held.in_saved = copy_high(STDIN_FILENO);
  held.in = held.in_saved < 0 ? -1 : copy_high(STDIN_FILENO);
  held.out_saved = copy_high(STDOUT_FILENO);
  ends->kind = prepare_output();
  if (held.null < 0 || !replace_standard()) {
    close_held();
    return IDEM_E_SYS;
  }
  ends->in = held.in;
  ends->out = held.out;
  ends->mask_sigpipe = ends->kind == IDEM__OUTPUT_POLLED && idem__sigpipe_kills();
  setvbuf(stdout, NULL, _IOLBF, 0); /* it is stderr now: what is printed should be seen */
  fflush(stdout);                   /* also what was printed before, and was no message either */
  held.taken = 1;
  return IDEM_OK;
}

static void put_back(int saved, int fd) {
  if (saved >= 0) {
    dup2(saved, fd);
  } else {
    close(fd);
  }
}

void idem__stdio_give_back(void) {
  if (!held.taken) return;
  held.taken = held.interrupted = 0;
  fflush(stdout); /* what was printed by mistake must not follow the messages out */
  idem__stdio_restore_flags();
  put_back(held.in_saved, STDIN_FILENO);
  put_back(held.out_saved, STDOUT_FILENO);
  close_held();
}

/* A read that is about to block finds /dev/null where input was and returns; one that blocks already
 * is interrupted by the signal itself. */
void idem__stdio_interrupt(void) {
  held.interrupted = 1;
  if (held.taken && held.in >= 0) dup3(held.null, held.in, O_CLOEXEC);
}

bool idem__stdio_interrupted(void) { return held.interrupted != 0; }
