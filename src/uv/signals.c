/* signals.c - signal handlers of our own rather than libuv's: they must reach a read that blocks
 * outside the loop as well, without a moment in which a signal is noticed too late.
 * All they do is async-signal-safe. */
#include "uv/signals.h"

#include "uv/runtime.h"

#include <errno.h>
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
static volatile sig_atomic_t stop_signal;
static volatile sig_atomic_t reload_asked;

static void note_stop(int number) {
  if (stop_signal && number != SIGHUP) {
    idem__stdio_restore_flags();
    _exit(128 + number);
  }
  stop_signal = number;
  idem__stdio_interrupt();
}

/* A worker thread may be the one that is interrupted; the read that must return is another's. */
static void on_signal(int number) {
  int saved = errno;
  if (!pthread_equal(pthread_self(), loop_thread)) {
    pthread_kill(loop_thread, number);
  } else {
    if (number == SIGHUP && reloads) {
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
  stop_signal = reload_asked = 0;
  for (size_t i = 0; i < WATCHED; i++) {
    struct sigaction action = {.sa_handler = watched[i] == SIGPIPE ? SIG_IGN : on_signal};
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
