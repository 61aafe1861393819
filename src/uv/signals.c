/* signals.c - signal handlers of our own rather than libuv's: they must reach a read that blocks
 * outside the loop as well, without a moment in which a signal is noticed too late.
 * All they do is async-signal-safe. */
#include "uv/signals.h"

#include "uv/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
#define WATCHED (sizeof watched / sizeof *watched)

static struct sigaction before[WATCHED];
static uv_async_t *wake;
static pthread_t loop_thread;
static bool reloads;
static bool had_terminal;
static pid_t session;
static volatile sig_atomic_t stop_signal;
static volatile sig_atomic_t reload_asked;
static volatile sig_atomic_t terminal_went;

static void note_stop(int number) {
  if (stop_signal && number != SIGHUP) {
    idem__stdio_restore_flags();
    _exit(128 + number);
  }
  stop_signal = number;
  idem__stdio_interrupt();
}

static bool has_terminal(void) {
  int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return false;
  bool there = tcgetpgrp(fd) >= 0;
  close(fd);
  return there;
}

/* Whether SIGHUP says what its name does: the kernel sends it then, or the shell to its jobs. An operator's
 * asks for a reload, also of a server that outlived the terminal it was started on. */
static bool hung_up(const siginfo_t *info) {
  if (!had_terminal) return false;
  if (info->si_code != SI_USER) return info->si_pid == 0;
  return info->si_pid == session && !has_terminal();
}

/* A worker thread may be the one that is interrupted; the read that must return is another's. */
static void on_signal(int number, siginfo_t *info, void *context) {
  (void)context;
  int saved = errno;
  if (number == SIGHUP && hung_up(info)) terminal_went = 1;
  if (!pthread_equal(pthread_self(), loop_thread)) {
    pthread_kill(loop_thread, number);
  } else {
    if (number == SIGHUP && reloads && !terminal_went) {
      reload_asked = 1;
    } else {
      note_stop(number);
    }
    uv_async_send(wake);
  }
  errno = saved;
}

void idem__signals_start(uv_async_t *to_wake, bool hangup_reloads) {
  wake = to_wake;
  loop_thread = pthread_self();
  reloads = hangup_reloads;
  stop_signal = reload_asked = terminal_went = 0;
  had_terminal = has_terminal();
  session = getsid(0);
  for (size_t i = 0; i < WATCHED; i++) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    if (watched[i] == SIGPIPE) action = (struct sigaction){.sa_handler = SIG_IGN};
    sigemptyset(&action.sa_mask);
    sigaction(watched[i], &action, &before[i]);
    /* nohup means it */
    if (watched[i] == SIGHUP && before[i].sa_handler == SIG_IGN) {
      sigaction(SIGHUP, &before[i], NULL);
    }
  }
}

void idem__signals_stop(void) {
  for (size_t i = 0; i < WATCHED; i++) sigaction(watched[i], &before[i], NULL);
}

int idem__signals_stop_asked(void) { return stop_signal; }

bool idem__signals_take_reload(void) {
  bool asked = reload_asked != 0;
  reload_asked = 0;
  return asked;
}
