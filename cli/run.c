/* run.c - one program from its start to its end: read while it writes, stopped when it must.
 * A call ends when its process is gone and its pipes are read out; whoever still holds them then
 * has a moment, and is not waited for. */
#include "program.h"

#include "spawn.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define TERM_MS 2000u /* between asking a program to end and ending it */
#define DRAIN_MS 250u /* for what is left in the pipes of a program that has ended */
#define READ_BYTES 65536u

static void schedule(call *self);

/* ------------------------------------------------------------------------- freeing */

void call_free(call *self) {
  word_list_free(&self->words);
  idem__buf_deinit(&self->input);
  idem__buf_deinit(&self->output);
  idem__buf_deinit(&self->errors);
  edition *held = self->tool->edition;
  free(self);
  edition_release(held);
}

static void on_closed(uv_handle_t *handle) {
  call *self = handle->data;
  if (--self->handles == 0) call_free(self);
}

static void close_handle(uv_handle_t *handle) {
  if (handle->data && !uv_is_closing(handle)) uv_close(handle, on_closed);
}

static void finish(call *self) {
  if (self->finished) return;
  self->finished = true;
  call_answer(self);
  program_call_ended(self);
  close_handle((uv_handle_t *)&self->in);
  close_handle((uv_handle_t *)&self->out);
  close_handle((uv_handle_t *)&self->err);
  close_handle((uv_handle_t *)&self->timer);
}

static void finish_if_done(call *self) {
  if (self->exited && self->output_ended && self->errors_ended) finish(self);
}

/* ------------------------------------------------------------------------ stopping */

static uint64_t now_ms(const call *self) { return uv_now(self->tool->host->loop); }

void call_stop(call *self, stop_reason reason) {
  if (self->stopped == STOP_NOT) self->stopped = reason;
  if (self->exited || self->kill_ms || self->finished) return;
  kill(-self->pid, SIGTERM);
  self->kill_ms = now_ms(self) + TERM_MS;
  schedule(self);
}

static void on_time(uv_timer_t *timer) {
  call *self = timer->data;
  const tool_config *config = self->tool->config;
  uint64_t now = now_ms(self);
  if (self->exited) {
    finish(self);
    return;
  }
  if (self->kill_ms) {
    if (now >= self->kill_ms) kill(-self->pid, SIGKILL);
  } else if (now >= self->began_ms + config->deadline_ms) {
    call_stop(self, STOP_DEADLINE);
  } else if (now >= self->heard_ms + config->idle_ms) {
    call_stop(self, STOP_IDLE);
  }
  schedule(self);
}

static uint64_t next_time(const call *self) {
  const tool_config *config = self->tool->config;
  if (self->exited) return self->drain_ms;
  if (self->kill_ms) return now_ms(self) >= self->kill_ms ? now_ms(self) + 100 : self->kill_ms;
  uint64_t deadline = self->began_ms + config->deadline_ms;
  uint64_t idle = self->heard_ms + config->idle_ms;
  return deadline < idle ? deadline : idle;
}

static void schedule(call *self) {
  uint64_t now = now_ms(self), at = next_time(self);
  if (!self->finished) uv_timer_start(&self->timer, on_time, at > now ? at - now : 0, 0);
}

/* ------------------------------------------------------------------------- reading */

static void give_memory(uv_handle_t *handle, size_t wanted, uv_buf_t *buf) {
  static char bytes[READ_BYTES]; /* one thread, and each read is used before the next */
  (void)handle, (void)wanted;
  *buf = uv_buf_init(bytes, sizeof bytes);
}

static void take_output(call *self, const char *bytes, size_t len) {
  size_t room = self->output.max - self->output.len;
  if (idem__buf_put(&self->output, bytes, len < room ? len : room) == IDEM_OK && len <= room)
    return;
  uv_read_stop((uv_stream_t *)&self->out);
  self->output_ended = true;
  call_stop(self, STOP_FLOOD);
}

static void on_output(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf) {
  call *self = stream->data;
  self->heard_ms = now_ms(self);
  if (got > 0) take_output(self, buf->base, (size_t)got);
  if (got < 0) {
    uv_read_stop(stream);
    self->output_ended = true;
  }
  finish_if_done(self);
}

static void on_errors(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf) {
  call *self = stream->data;
  self->heard_ms = now_ms(self);
  if (got > 0) call_heard_errors(self, buf->base, (size_t)got);
  if (got < 0) {
    uv_read_stop(stream);
    self->errors_ended = true;
  }
  finish_if_done(self);
}

static void on_fed(uv_write_t *write, int status) {
  call *self = write->data;
  (void)status; /* a program need not read its input */
  close_handle((uv_handle_t *)&self->in);
}

/* ------------------------------------------------------------------------ starting */

static bool open_pipe(call *self, uv_pipe_t *pipe, int fd) {
  if (uv_pipe_init(self->tool->host->loop, pipe, 0) != 0) return false;
  pipe->data = self;
  self->handles++;
  return uv_pipe_open(pipe, fd) == 0;
}

static bool attach(call *self, const spawned *child) {
  uv_buf_t input = uv_buf_init(self->input.data, (unsigned)self->input.len);
  if (!open_pipe(self, &self->out, child->output) || !open_pipe(self, &self->err, child->errors))
    return false;
  if (uv_read_start((uv_stream_t *)&self->out, give_memory, on_output) != 0 ||
      uv_read_start((uv_stream_t *)&self->err, give_memory, on_errors) != 0)
    return false;
  if (child->input < 0) return true;
  self->write.data = self;
  return open_pipe(self, &self->in, child->input) &&
         uv_write(&self->write, (uv_stream_t *)&self->in, &input, 1, on_fed) == 0;
}

/* What the configuration gives, and where it may write. */
static char **make_environment(const tool_config *config, const confinement *bounds,
                               char *temporary, size_t size) {
  char **environment = calloc(config->env_count + 2, sizeof *environment);
  if (!environment) return NULL;
  snprintf(temporary, size, "TMPDIR=%s", bounds->temporary);
  bool given = !bounds->temporary[0];
  for (size_t i = 0; i < config->env_count; i++) {
    environment[i] = (char *)(uintptr_t)config->env[i].assignment;
    given = given || strncmp(environment[i], "TMPDIR=", 7) == 0;
  }
  if (!given) environment[config->env_count] = temporary;
  return environment;
}

static int start_program(call *self, spawned *child) {
  const confinement *bounds = self->tool->bounds;
  const tool_config *config = self->tool->config;
  char temporary[96];
  char **environment = make_environment(config, bounds, temporary, sizeof temporary);
  if (!environment) return ENOMEM;
  int why = spawn_program(&(spawn_order){.program = config->program,
                                         .argv = self->words.items,
                                         .environment = environment,
                                         .cwd = config->cwd,
                                         .rules = bounds->rules[self->tool->index],
                                         .feeds_input = config->has_stdin},
                          child);
  free(environment);
  return why;
}

static void could_not_start(call *self, int why) {
  char sentence[256];
  snprintf(sentence, sizeof sentence, "%s could not be started: %s", self->tool->config->name,
           strerror(why));
  idem_request *request = self->request;
  self->request = NULL;
  reply_failed(request, sentence);
  self->finished = true;
  program_call_ended(self);
  call_free(self);
}

void call_start(call *self) {
  spawned child;
  int why = start_program(self, &child);
  if (why) {
    could_not_start(self, why);
    return;
  }
  uv_loop_t *loop = self->tool->host->loop;
  uv_update_time(loop);
  uv_timer_init(loop, &self->timer);
  self->timer.data = self;
  self->handles++;
  self->pid = child.pid;
  self->started = true;
  self->began_ms = self->heard_ms = now_ms(self);
  if (!attach(self, &child)) call_stop(self, STOP_CANCELLED);
  schedule(self);
}

/* ------------------------------------------------------------------------- ending */

static call *find_call(const program_host *host, pid_t pid) {
  for (idem__list *at = host->running.next; at != &host->running; at = at->next) {
    call *running = IDEM__CONTAINER(at, call, link);
    if (running->started && !running->exited && running->pid == pid) return running;
  }
  return NULL;
}

static void note_exit(call *self, int status) {
  self->exited = true;
  self->status = status;
  self->drain_ms = now_ms(self) + DRAIN_MS;
  schedule(self);
  finish_if_done(self);
}

/* Members of a group are ended while its number cannot yet be anyone else's. Adopted orphans are
 * reaped on the way. */
void program_reap(program_host *host) {
  siginfo_t info = {.si_pid = 0};
  while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid) {
    pid_t pid = info.si_pid;
    int status = 0;
    call *ended = find_call(host, pid);
    if (ended) kill(-pid, SIGKILL);
    waitpid(pid, &status, 0);
    if (ended) note_exit(ended, status);
    info.si_pid = 0;
  }
}
