/* paste.c - see paste.h. */
#include "paste.h"
#include "terminal.h"

#include "config/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct paste {
  uv_loop_t *loop;
  uv_work_t work;
  bool (*took)(const char *line, size_t len, void *user);
  void *user;
  char *prompt;
  int stop[2];
  text line;
  line_end end;
  bool reading, stopping;
};

static void free_paste(paste *self) {
  close(self->stop[0]);
  close(self->stop[1]);
  text_free(&self->line);
  free(self->prompt);
  free(self);
}

static void read_line(uv_work_t *work) {
  paste *self = work->data;
  terminal at;
  line_kind kind = {.secret = true};
  self->line.len = 0;
  self->end = LINE_GONE;
  if (!terminal_open(&at, self->stop[0])) return;
  self->end = terminal_line(&at, self->prompt, &kind, &self->line);
  terminal_close(&at);
}

bool paste_possible(void) {
  int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
  if (fd >= 0) close(fd);
  return fd >= 0 || (isatty(0) && isatty(2));
}

static bool read_on(paste *self);

static void on_line(uv_work_t *work, int status) {
  paste *self = work->data;
  self->reading = false;
  if (self->stopping || status != 0) {
    if (self->stopping) free_paste(self);
    return;
  }
  if (self->end == LINE_LEFT) kill(getpid(), SIGINT);
  if (self->end != LINE_TAKEN) return;
  self->reading = true; /* who is told may stop it */
  bool right = self->took(self->line.data ? self->line.data : "", self->line.len, self->user);
  self->reading = false;
  if (self->stopping)
    free_paste(self);
  else if (!right)
    read_on(self);
}

static bool read_on(paste *self) {
  self->reading = uv_queue_work(self->loop, &self->work, read_line, on_line) == 0;
  return self->reading;
}

paste *paste_start(uv_loop_t *loop, const char *prompt,
                   bool (*took)(const char *line, size_t len, void *user), void *user) {
  paste *self = calloc(1, sizeof *self);
  if (!self) memory_exhausted();
  *self = (paste){.loop = loop, .took = took, .user = user, .prompt = strdup(prompt)};
  if (!self->prompt || pipe2(self->stop, O_CLOEXEC) != 0) memory_exhausted();
  self->work.data = self;
  if (read_on(self)) return self;
  free_paste(self);
  return NULL;
}

void paste_stop(paste *self) {
  if (!self || self->stopping) return;
  self->stopping = true;
  if (!self->reading) {
    free_paste(self);
    return;
  }
  while (write(self->stop[1], "", 1) < 0 && errno == EINTR) continue;
}
