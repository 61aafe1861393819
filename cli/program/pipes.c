/* pipes.c - see pipes.h. A program's own ends are as it expects them: they block. */
#include "pipes.h"

#include <idem/program.h>

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

bool pipes_open(pipes *self, pipes *spare, bool with_input) {
  *self = *spare;
  *spare = PIPES_NONE;
  return (self->output[0] >= 0 || idem_pipe_open(self->output, 0)) &&
         (self->errors[0] >= 0 || idem_pipe_open(self->errors, 0)) &&
         (!with_input || idem_pipe_open(self->input, 1));
}

void pipes_refill(pipes *spare) {
  if (spare->output[0] >= 0) return;
  if (!idem_pipe_open(spare->output, 0) || !idem_pipe_open(spare->errors, 0)) pipes_close(spare);
}
