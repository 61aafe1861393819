/* recorder.c - see recorder.h. */
#include "recorder.h"
#include "call.h"

#include "config/memory.h"
#include "page/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES ((uint64_t)256 << 20)
#define LINE_BYTES ((size_t)1 << 20)

struct call_recorder {
  const char *path;
  const char *peer;
  const idem_log *log;
  int file;
  uint64_t bytes;
  bool failed; /* stderr has said why */
  idem_buf line, scratch;
};

static uint64_t wall_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000;
}

static void fail(call_recorder *self, const char *why) {
  if (!self->failed) call_say("%s: %s; the recording ends here", self->path, why);
  self->failed = true;
}

/* A line is one write, so that two calls may share a file. */
static void put_line(call_recorder *self, idem_status status) {
  if (self->failed) return;
  if (status != IDEM_OK)
    fail(self, idem_status_text(status));
  else if (self->bytes + self->line.len > FILE_BYTES)
    fail(self, "it has 256 MiB");
  else if (write(self->file, self->line.data, self->line.len) != (ssize_t)self->line.len)
    fail(self, errno ? strerror(errno) : "it is full");
  self->bytes += self->line.len;
}

call_recorder *recorder_new(const char *path, const char *peer, const idem_log *log) {
  call_recorder *self = calloc(1, sizeof *self);
  if (!self) memory_exhausted();
  *self = (call_recorder){.path = path, .peer = peer, .log = log};
  idem_buf_init(&self->line, NULL, LINE_BYTES);
  idem_buf_init(&self->scratch, NULL, LINE_BYTES);
  self->file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (self->file < 0) {
    call_say("%s: %s", path, strerror(errno));
    free(self);
    return NULL;
  }
  off_t there = lseek(self->file, 0, SEEK_END);
  self->bytes = there > 0 ? (uint64_t)there : 0;
  put_line(self, record_put_header(&self->line, wall_us()));
  return self;
}

void recorder_message(call_recorder *self, idem_direction direction, const char *data, size_t len) {
  if (!self || self->failed) return;
  idem_traced message = {
      .direction = direction, .text = data, .len = len, .conn = 1, .peer = self->peer};
  self->line.len = 0;
  put_line(self, record_put_message(&self->line, wall_us(), &message, self->log, &self->scratch));
}

bool recorder_free(call_recorder *self) {
  if (!self) return true;
  if (close(self->file) != 0) fail(self, strerror(errno));
  bool whole = !self->failed;
  idem_buf_deinit(&self->line);
  idem_buf_deinit(&self->scratch);
  free(self);
  return whole;
}
