/* sampler.c - the program of --sampling: the params of sampling/createMessage on its stdin, the answer on its stdout.
 * Its words are split at blanks; no shell reads them. */
#include "questions.h"
#include "text.h"

#include "config/memory.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define OUTPUT_BYTES ((size_t)16 << 20)
#define MOST_WORDS 64u

typedef struct sampler {
  uv_process_t process;
  uv_pipe_t in, out;
  uv_write_t write;
  char *input;
  text output;
  int64_t status;
  int signal;
  bool too_long;
  unsigned open; /* handles */
  const char *command;
  sampler_fn done;
  void *user;
} sampler;

static void tell(const sampler *self, bool fine) {
  if (self->too_long)
    call_say("--sampling %s: it printed more than 16 MiB", self->command);
  else if (self->signal)
    call_say("--sampling %s: ended by signal %d", self->command, self->signal);
  else if (!fine)
    call_say("--sampling %s: %s %lld", self->command,
             self->status ? "exit status" : "it printed nothing; exit status",
             (long long)self->status);
}

/* `done` is NULL where it was never started, and its user was told. */
static void finish(sampler *self) {
  bool fine = !self->status && !self->signal && !self->too_long && self->output.data;
  if (self->done) {
    tell(self, fine);
    self->done(fine ? self->output.data : NULL, self->output.len, self->user);
  }
  text_free(&self->output);
  free(self->input);
  free(self);
}

static void on_closed(uv_handle_t *handle) {
  sampler *self = handle->data;
  if (--self->open == 0) finish(self);
}

static void on_exit_of(uv_process_t *process, int64_t status, int number) {
  sampler *self = process->data;
  self->status = status;
  self->signal = number;
  uv_close((uv_handle_t *)process, on_closed);
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buffer) {
  (void)handle, (void)size;
  static char piece[65536];
  *buffer = uv_buf_init(piece, sizeof piece);
}

static void on_output(uv_stream_t *stream, ssize_t len, const uv_buf_t *buffer) {
  sampler *self = stream->data;
  if (len > 0 && self->output.len + (size_t)len <= OUTPUT_BYTES) {
    text_put(&self->output, buffer->base, (size_t)len);
    return;
  }
  if (len == 0) return;
  self->too_long = len > 0;
  if (self->too_long) uv_process_kill(&self->process, SIGKILL);
  uv_close((uv_handle_t *)stream, on_closed);
}

static void on_written(uv_write_t *write, int status) {
  sampler *self = write->data;
  (void)status; /* one that does not read its input may answer all the same */
  uv_close((uv_handle_t *)&self->in, on_closed);
}

static void split(char *words, char **argv) {
  size_t count = 0;
  char *rest;
  for (char *word = strtok_r(words, " \t", &rest); word && count + 1 < MOST_WORDS;
       word = strtok_r(NULL, " \t", &rest))
    argv[count++] = word;
  argv[count] = NULL;
}

static void prepare(sampler *self, uv_loop_t *loop, uv_stdio_container_t *stdio) {
  uv_pipe_init(loop, &self->in, 0);
  uv_pipe_init(loop, &self->out, 0);
  self->in.data = self->out.data = self->process.data = self->write.data = self;
  self->open = 3;
  stdio[0].flags = UV_CREATE_PIPE | UV_READABLE_PIPE;
  stdio[0].data.stream = (uv_stream_t *)&self->in;
  stdio[1].flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE;
  stdio[1].data.stream = (uv_stream_t *)&self->out;
  stdio[2].flags = UV_INHERIT_FD;
  stdio[2].data.fd = 2;
}

/* It could not be started: nothing is told later. */
static bool give_up(sampler *self, int status, bool tried) {
  call_say("--sampling %s: %s", self->command, uv_strerror(status));
  self->done = NULL;
  uv_close((uv_handle_t *)&self->in, on_closed);
  uv_close((uv_handle_t *)&self->out, on_closed);
  if (tried)
    uv_close((uv_handle_t *)&self->process, on_closed);
  else
    self->open--;
  return false;
}

bool sampler_start(uv_loop_t *loop, const char *command, const char *input, size_t len,
                   sampler_fn done, void *user, uv_process_t **process) {
  char *words = strdup(command), *argv[MOST_WORDS];
  sampler *self = calloc(1, sizeof *self);
  uv_stdio_container_t stdio[3];
  if (!words || !self) memory_exhausted();
  split(words, argv);
  *self = (sampler){.command = command, .done = done, .user = user};
  text copy = {.data = NULL};
  text_put(&copy, input, len);
  self->input = copy.data;
  prepare(self, loop, stdio);
  uv_process_options_t options = {
      .exit_cb = on_exit_of, .file = argv[0], .args = argv, .stdio = stdio, .stdio_count = 3};
  bool tried = argv[0] != NULL;
  int status = tried ? uv_spawn(loop, &self->process, &options) : UV_ENOENT;
  free(words);
  if (status != 0) return give_up(self, status, tried);
  *process = &self->process;
  uv_buf_t all = uv_buf_init(self->input, (unsigned)len);
  if (uv_write(&self->write, (uv_stream_t *)&self->in, &all, 1, on_written) != 0)
    uv_close((uv_handle_t *)&self->in, on_closed);
  uv_read_start((uv_stream_t *)&self->out, on_alloc, on_output);
  return true;
}
