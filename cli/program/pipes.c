/* pipes.c - see pipes.h. A program's own ends are as it expects them: they block. */
#include "pipes.h"

#include <fcntl.h>
#include <unistd.h>

int pipe_take(int *end) {
  int fd = *end;
  *end = -1;
  return fd;
}

void pipe_close(int *end) {
  if (*end >= 0) close(*end);
  *end = -1;
}

void pipes_close(pipes *self) {
  for (int i = 0; i < 2; i++) {
    pipe_close(&self->input[i]);
    pipe_close(&self->output[i]);
    pipe_close(&self->errors[i]);
  }
}

static bool open_one(int ends[2], int ours) {
  return pipe2(ends, O_CLOEXEC) == 0 &&
         fcntl(ends[ours], F_SETFL, (ours ? O_WRONLY : O_RDONLY) | O_NONBLOCK) == 0;
}

bool pipes_open(pipes *self, pipes *spare, bool with_input) {
  *self = *spare;
  *spare = PIPES_NONE;
  return (self->output[0] >= 0 || open_one(self->output, 0)) &&
         (self->errors[0] >= 0 || open_one(self->errors, 0)) &&
         (!with_input || open_one(self->input, 1));
}

void pipes_refill(pipes *spare) {
  if (spare->output[0] >= 0) return;
  if (!open_one(spare->output, 0) || !open_one(spare->errors, 0)) pipes_close(spare);
}
