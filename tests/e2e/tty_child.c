/* tty_child.c - see tty_child.h. */
#include "tty_child.h"

#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEADLINE_MS 60000

void tty_child_start(tty_child *self, const char *const *argv) {
  struct winsize size = {.ws_row = 24, .ws_col = 100};
  memset(self, 0, sizeof *self);
  self->pid = forkpty(&self->fd, NULL, NULL, &size);
  assert_true(self->pid >= 0);
  if (self->pid) return;
  setenv("TERM", "xterm", 1);
  signal(SIGHUP, SIG_DFL); /* whoever runs the tests may ignore it, as nohup does */
  execv(argv[0], (char *const *)argv);
  _exit(127);
}

/* False: it has ended. */
static bool read_more(tty_child *self) {
  struct pollfd one = {.fd = self->fd, .events = POLLIN};
  if (poll(&one, 1, DEADLINE_MS) <= 0) {
    kill(self->pid, SIGKILL);
    fail_msg("nothing more was shown after: %.2000s",
             self->shown + (self->len > 2000 ? self->len - 2000 : 0));
  }
  if (self->len > sizeof self->shown / 2 + 65536) { /* only the end of very much is kept */
    memmove(self->shown, self->shown + 65536, self->len - 65536);
    self->len -= 65536;
    self->seen = self->seen > 65536 ? self->seen - 65536 : 0;
  }
  ssize_t len = read(self->fd, self->shown + self->len, 32768);
  if (len <= 0) return false;
  self->len += (size_t)len;
  self->shown[self->len] = 0;
  return true;
}

void tty_child_until(tty_child *self, const char *wanted) {
  for (;;) {
    char *found = memmem(self->shown + self->seen, self->len - self->seen, wanted, strlen(wanted));
    if (found) {
      self->seen = (size_t)(found - self->shown) + strlen(wanted);
      return;
    }
    if (!read_more(self)) fail_msg("it ended without \"%s\": %s", wanted, self->shown);
  }
}

void tty_child_type(const tty_child *self, const char *keys) {
  assert_int_equal(write(self->fd, keys, strlen(keys)), strlen(keys));
}

int tty_child_end(tty_child *self) {
  int status;
  struct rusage used;
  while (read_more(self)) continue;
  assert_int_equal(wait4(self->pid, &status, 0, &used), self->pid);
  close(self->fd);
  self->rss_kb = used.ru_maxrss;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

bool tty_child_has_shown(const tty_child *self, const char *text) {
  return memmem(self->shown, self->len, text, strlen(text)) != NULL;
}
