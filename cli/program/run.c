/* run.c - one program from its start to its end: read while it writes, stopped when it must.
 * A call ends when its process is gone and its pipes are read out; whoever still holds them then
 * has a moment, and is not waited for. */
#include "keep.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TERM_MS 2000u  /* between asking a program to end and ending it */
#define DROP_MS 5000u  /* between ending it and giving up who should have reported that */
#define TIDY_MS 60000u /* for its own folder to be removed, before its runner is given up */
#define DRAIN_MS 250u  /* for what is left in the pipes of a program that has ended */
#define LISTEN_MS 2u   /* a program that has ended by then is read once, at its end */
#define READ_BYTES 65536u
#define READ_AT_ONCE 16u /* reads; what a pipe may hold. The loop does the rest */
#define DEAD_HANDS 32u   /* met by one call, before it is told; as many as may be idle */

static void schedule(call *self);
static void begin_listening(call *self);

/* ------------------------------------------------------------------------- freeing */

void call_free(call *self) {
  word_list_free(&self->words);
  word_list_free(&self->variables);
  pipes_close(&self->unread);
  idem_buf_deinit(&self->input);
  idem_buf_deinit(&self->output);
  idem_buf_deinit(&self->errors);
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

static void stop(call *self, stop_reason reason) {
  if (self->stopped == STOP_NOT) self->stopped = reason;
  if (self->exited || self->tidying || self->kill_ms || self->finished) return;
  runner_tell(self->user.runner, ORDER_TERM);
  self->kill_ms = now_ms(self) + TERM_MS;
  schedule(self);
}

void call_cancel(call *self) {
  if (self->tool->kept) {
    kept_cancel(self);
    return;
  }
  if (self->started) {
    stop(self, STOP_CANCELLED);
    return;
  }
  /* It has its slot, and waits for a runner. */
  runners_want_not(&self->tool->host->runners, &self->user);
  self->finished = true;
  program_call_ended(self);
  call_free(self);
}

/* First killed, then given up. */
static void insist(call *self, uint64_t now) {
  if (self->drop_ms && now >= self->drop_ms) {
    runner_drop(self->user.runner);
    return;
  }
  if (self->drop_ms || now < self->kill_ms) return;
  runner_tell(self->user.runner, ORDER_KILL);
  self->drop_ms = now + DROP_MS;
}

static void keep_to_time(call *self, uint64_t now) {
  const tool_config *config = self->tool->config;
  if (self->tidying) {
    if (now >= self->tidy_ms) runner_drop(self->user.runner);
  } else if (self->kill_ms) {
    insist(self, now);
  } else if (now >= self->began_ms + config->deadline_ms) {
    stop(self, STOP_DEADLINE);
  } else if (now >= self->heard_ms + config->idle_ms) {
    stop(self, STOP_IDLE);
  }
}

static void on_time(uv_timer_t *timer) {
  call *self = timer->data;
  if (self->exited) {
    finish(self);
    return;
  }
  if (!self->listening) begin_listening(self);
  keep_to_time(self, now_ms(self));
  schedule(self);
}

static uint64_t next_time(const call *self) {
  const tool_config *config = self->tool->config;
  if (self->exited) return self->drain_ms;
  if (!self->listening) return self->began_ms + LISTEN_MS;
  if (self->tidying) return self->tidy_ms;
  if (self->kill_ms) return self->drop_ms ? self->drop_ms : self->kill_ms;
  uint64_t deadline = self->began_ms + config->deadline_ms;
  uint64_t idle = self->heard_ms + config->idle_ms;
  return deadline < idle ? deadline : idle;
}

static void schedule(call *self) {
  uint64_t now = now_ms(self), at = next_time(self);
  if (!self->finished) uv_timer_start(&self->timer, on_time, idem_timer_ms(at, now), 0);
}

/* ------------------------------------------------------------------------- reading */

static void give_memory(uv_handle_t *handle, size_t wanted, uv_buf_t *buf) {
  static char bytes[READ_BYTES]; /* one thread, and each read is used before the next */
  (void)handle, (void)wanted;
  *buf = uv_buf_init(bytes, sizeof bytes);
}

static void take_output(call *self, const char *bytes, size_t len) {
  size_t room = self->output.max - self->output.len;
  idem_status status = idem_buf_put(&self->output, bytes, len < room ? len : room);
  if (status == IDEM_OK && len <= room) return;
  self->output_ended = true;
  stop(self, status == IDEM_OK ? STOP_FLOOD : STOP_NO_MEMORY);
}

static void hear_output(call *self, ssize_t got, const char *bytes) {
  self->heard_ms = now_ms(self);
  if (got > 0) take_output(self, bytes, (size_t)got);
  if (got < 0) self->output_ended = true;
}

static void hear_errors(call *self, ssize_t got, const char *bytes) {
  self->heard_ms = now_ms(self);
  if (got > 0) call_heard_errors(self, bytes, (size_t)got);
  if (got < 0) self->errors_ended = true;
}

static void on_output(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf) {
  call *self = stream->data;
  hear_output(self, got, buf->base);
  if (self->output_ended) uv_read_stop(stream);
  finish_if_done(self);
}

static void on_errors(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf) {
  call *self = stream->data;
  hear_errors(self, got, buf->base);
  if (self->errors_ended) uv_read_stop(stream);
  finish_if_done(self);
}

static bool open_stream(call *self, uv_pipe_t *stream, int *end) {
  if (uv_pipe_init(self->tool->host->loop, stream, 0) != 0) return false;
  stream->data = self;
  self->handles++;
  int fd = pipe_take(end);
  if (uv_pipe_open(stream, fd) == 0) return true;
  close(fd);
  return false;
}

static bool listen_to(call *self, uv_pipe_t *stream, int *end, uv_read_cb heard, bool ended) {
  return ended || (open_stream(self, stream, end) &&
                   uv_read_start((uv_stream_t *)stream, give_memory, heard) == 0);
}

static void begin_listening(call *self) {
  self->listening = true;
  if (!listen_to(self, &self->out, &self->unread.output[0], on_output, self->output_ended) ||
      !listen_to(self, &self->err, &self->unread.errors[0], on_errors, self->errors_ended))
    stop(self, STOP_CANCELLED);
}

/* What is there. Someone outside may still write, and as fast as we read: that is for the loop, which
 * has others to serve. */
static void read_now(call *self, int fd, void (*hear)(call *self, ssize_t got, const char *bytes),
                     const bool *ended) {
  uv_buf_t buf;
  give_memory(NULL, 0, &buf);
  for (unsigned i = 0; i < READ_AT_ONCE && !*ended; i++) {
    ssize_t got = read(fd, buf.base, buf.len);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    hear(self, got > 0 ? got : UV_EOF, buf.base);
  }
}

static void on_fed(uv_write_t *write, int status) {
  call *self = write->data;
  (void)status; /* a program need not read its input */
  close_handle((uv_handle_t *)&self->in);
}

/* ------------------------------------------------------------------------- ending */

/* The runner is not ours any more: from here on nobody can be stopped. */
static void note_exit(call *self) {
  self->exited = true;
  self->drain_ms = now_ms(self) + DRAIN_MS;
  if (!self->listening) {
    read_now(self, self->unread.output[0], hear_output, &self->output_ended);
    read_now(self, self->unread.errors[0], hear_errors, &self->errors_ended);
  }
  finish_if_done(self);
  if (self->finished) return;
  if (!self->listening) begin_listening(self);
  schedule(self);
}

static void could_not_start(call *self, int why) {
  idem_request *request = self->request;
  const tool_config *config = self->tool->config;
  const char *cause = why == ETIME ? "the spawner did not answer in time" : strerror(why);
  const char *hint = why == ENOEXEC ? "; a script needs a first line such as #!/bin/sh" : "";
  self->request = NULL;
  if (request) {
    failure_tell_ours(request, config, "could not be started, %s%s", cause, hint);
    reply_failed_because(request, "%s could not be started: %s%s", config->name, cause, hint);
  }
  finish(self);
}

/* How long that takes is no part of its program's time. */
static void on_tidying(runner_user *user) {
  call *self = IDEM_CONTAINER(user, call, user);
  self->tidying = true;
  self->tidy_ms = now_ms(self) + TIDY_MS;
  schedule(self);
}

static void on_reported(runner_user *user, order_note note) {
  call *self = IDEM_CONTAINER(user, call, user);
  if (note.kind == REPORT_FAILED) {
    could_not_start(self, note.value);
    return;
  }
  if (note.kind == REPORT_CROWDED && self->stopped == STOP_NOT) self->stopped = STOP_CROWDED;
  self->lost = note.kind == 0;
  self->status = note.value;
  note_exit(self);
}

/* ------------------------------------------------------------------------ starting */

/* What fits into the pipe is written at once; the rest as the program reads. */
static bool feed(call *self, int *end) {
  ssize_t written = self->input.len ? write(*end, self->input.data, self->input.len) : 0;
  size_t done = written > 0 ? (size_t)written : 0;
  if (done == self->input.len) {
    pipe_close(end);
    return true;
  }
  uv_buf_t rest = uv_buf_init(self->input.data + done, (unsigned)(self->input.len - done));
  self->write.data = self;
  return open_stream(self, &self->in, end) &&
         uv_write(&self->write, (uv_stream_t *)&self->in, &rest, 1, on_fed) == 0;
}

/* What the configuration gives, and where it may write. */
static char **make_environment(const tool_config *config, const word_list *variables,
                               const char *folder, char *temporary, size_t size) {
  char **environment = calloc(config->env_count + 2, sizeof *environment);
  size_t count = 0;
  if (!environment) return NULL;
  snprintf(temporary, size, "TMPDIR=%s", folder);
  bool given = !folder[0];
  for (size_t i = 0; i < config->env_count; i++) {
    const tool_env *one = &config->env[i];
    given = given || strncmp(one->assignment, "TMPDIR=", 7) == 0;
    if (!one->value && !one->claim) environment[count++] = (char *)(uintptr_t)one->assignment;
  }
  for (size_t i = 0; i < variables->count; i++) environment[count++] = variables->items[i];
  if (!given) environment[count] = temporary;
  return environment;
}

int program_order(const program_tool *tool, runner *by, const word_list *words,
                  const word_list *variables, program_files files) {
  const tool_config *config = tool->config;
  call_bounds own;
  char temporary[CONFINE_PATH + 8];
  int why = confinement_begin(tool->bounds, config, &own);
  if (why) return why;
  char **environment = make_environment(config, variables, own.folder, temporary, sizeof temporary);
  spawn_order order = {.program = config->program,
                       .argv = words->items,
                       .environment = environment,
                       .cwd = config->cwd,
                       .scratch = own.own ? own.folder : "",
                       .rules = own.rules,
                       .seal = confinement_seal(tool->bounds, config),
                       .processes = (uint32_t)config->processes,
                       .input = files.input,
                       .output = files.output,
                       .errors = files.errors};
  why = environment ? runner_run(by, &order) : ENOMEM;
  confinement_ordered(&own, !why);
  free(environment);
  return why;
}

static int order_program(call *self, const pipes *ends) {
  bool merged = self->tool->config->errors == ERRORS_MERGE;
  program_files files = {ends->input[0], ends->output[1],
                         merged ? ends->output[1] : ends->errors[1]};
  return program_order(self->tool, self->user.runner, &self->words, &self->variables, files);
}

/* The program runs already; if it cannot be fed, it is ended. */
static void attach(call *self, pipes *ends) {
  self->unread.output[0] = pipe_take(&ends->output[0]);
  self->unread.errors[0] = pipe_take(&ends->errors[0]);
  if (self->tool->config->has_stdin && !feed(self, &ends->input[1])) stop(self, STOP_CANCELLED);
}

static void begin_time(call *self) {
  uv_loop_t *loop = self->tool->host->loop;
  uv_update_time(loop);
  uv_timer_init(loop, &self->timer);
  self->timer.data = self;
  self->handles++;
  self->began_ms = self->heard_ms = now_ms(self);
}

static void on_ready(runner_user *user, int why) {
  call *self = IDEM_CONTAINER(user, call, user);
  pipes ends = PIPES_NONE, *spare = &self->tool->host->spare;
  if (!why && !pipes_open(&ends, spare, self->tool->config->has_stdin)) why = errno;
  if (!why) why = order_program(self, &ends);
  bool dead = why == EPIPE && self->user.runner;
  if (dead) runner_forget(self->user.runner);
  if (dead && self->dead_runners++ < DEAD_HANDS) {
    pipes_close(&ends);
    call_start(self);
    return;
  }
  begin_time(self);
  if (why) {
    if (self->user.runner) runner_return(self->user.runner);
    could_not_start(self, why);
  } else {
    self->started = true;
    attach(self, &ends);
    schedule(self);
  }
  pipes_close(&ends);
  pipes_refill(spare);
}

void call_start(call *self) {
  if (self->tool->kept) {
    kept_call(self);
    return;
  }
  program_host *host = self->tool->host;
  self->user.ready = on_ready;
  self->user.reported = on_reported;
  self->user.tidying = on_tidying;
  self->user.seal = confinement_seal(self->tool->bounds, self->tool->config);
  runners_want(&host->runners, host->loop, &self->user);
}
