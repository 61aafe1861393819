/* exec.c - the wire of a child process: its input and output are the conn's bytes, the end of its
 * stderr is kept. It leads a group of its own, and nothing of that group outlives it.
 * A peer that is over ends its program before it goes: end of input, SIGTERM, SIGKILL, a while apart.
 * See docs/internals/uv.md. */
#include "uv/exec.h"

#include "rpc/rpc.h"
#include "uv/program.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define END_FOLLOWS_MS 100u /* the end of a program's output, in the usual case */
#define READS_AT_THE_END 64 /* of stderr: a process that has left the group may write for ever */

static idem__exec *exec_of(const idem__driver *driver) { return driver->io; }

/* ---------------------------------------------------------------- reading and writing */

/* Who has left the group may hold the pipe open; what the program has written is there all the same. */
static ssize_t exec_read(idem__driver *driver, char *into, size_t size) {
  const idem__exec *self = exec_of(driver);
  ssize_t n = read(self->out.fd, into, size);
  if (n >= 0) return n;
  return errno == EAGAIN && self->ended ? 0 : -errno;
}

static bool has_more_to_say(const idem__exec *self) {
  struct pollfd out = {.fd = self->out.fd, .events = POLLIN};
  return poll(&out, 1, 0) > 0 && (out.revents & POLLIN);
}

/* A program that no longer listens may have said why: that is read before it is given up. */
static ssize_t exec_write(idem__driver *driver, const struct iovec *pieces, int count) {
  const idem__exec *self = exec_of(driver);
  ssize_t written = -EPIPE;
  if (self->in.fd >= 0) written = idem__pipe_write(self->in.fd, pieces, count, self->mask_sigpipe);
  if (written != -EPIPE || !has_more_to_say(self)) return written;
  written = 0;
  for (int i = 0; i < count; i++) written += (ssize_t)pieces[i].iov_len;
  return written;
}

/* Keeps the last IDEM__EXEC_ERRORS_BYTES. */
static void keep_errors(idem__exec *self, const char *data, size_t len) {
  if (len > IDEM__EXEC_ERRORS_BYTES) {
    data += len - IDEM__EXEC_ERRORS_BYTES;
    len = IDEM__EXEC_ERRORS_BYTES;
  }
  size_t room = IDEM__EXEC_ERRORS_BYTES - self->errors_len, over = len > room ? len - room : 0;
  memmove(self->errors_text, self->errors_text + over, self->errors_len - over);
  memcpy(self->errors_text + self->errors_len - over, data, len);
  self->errors_len += len - over;
}

/* False: there is no more for now. */
static bool read_errors(idem__exec *self) {
  char *buffer = self->peer.driver.runtime->read_buffer;
  ssize_t n = self->errors.fd < 0 ? 0 : read(self->errors.fd, buffer, IDEM__READ_BYTES);
  if (n > 0) {
    keep_errors(self, buffer, (size_t)n);
    if (self->on_stderr && self->peer.conn)
      self->on_stderr(self->peer.conn, buffer, (size_t)n, self->opts.user);
    return true;
  }
  if (n == 0 || (errno != EAGAIN && errno != EINTR)) uv_poll_stop(&self->errors.poll);
  return false;
}

/* ------------------------------------------------------------------------ in the loop */

/* A program that is gone wants no answers, even those that are still to come. */
static void close_if_over(idem__exec *self) {
  if (self->ended && self->peer.driver.eof) idem__driver_close(&self->peer.driver);
}

static void take_output(idem__exec *self) {
  idem__runtime *runtime = self->peer.driver.runtime;
  if (!self->peer.driver.leaving) {
    idem__driver_readable(&self->peer.driver);
    close_if_over(self);
  } else if (exec_read(&self->peer.driver, runtime->read_buffer, IDEM__READ_BYTES) == 0) {
    uv_poll_stop(&self->out.poll); /* nobody listens any more, but it may have to finish a word */
  }
}

static void on_out(uv_poll_t *poll, int status, int events) {
  (void)status, (void)events;
  take_output(poll->data);
}

/* First it tells that the conn is there; a turn of the loop ends after that. */
void idem__exec_idle(uv_idle_t *idle) {
  idem__exec *self = idle->data;
  if (!self->told) {
    self->told = true;
    idem__driver_settle(&self->peer.driver);
    if (!self->peer.driver.closed) uv_idle_start(idle, idem__exec_idle);
  } else if (self->ended && !self->peer.driver.leaving) {
    take_output(self);
  } else {
    uv_idle_stop(idle);
  }
}

static void on_in(uv_poll_t *poll, int status, int events) {
  (void)status, (void)events;
  idem__exec *self = poll->data;
  if (!self->peer.driver.leaving) idem__driver_writable(&self->peer.driver);
}
void idem__exec_errors(uv_poll_t *poll, int status, int events) {
  (void)status, (void)events;
  read_errors(poll->data);
}

static bool watch(idem__exec_end *end, bool wanted, int events, uv_poll_cb ready) {
  if (end->watched == wanted) return true;
  end->watched = wanted;
  return (wanted ? uv_poll_start(&end->poll, events, ready) : uv_poll_stop(&end->poll)) == 0;
}

static idem_status exec_interest(idem__driver *driver, bool read, bool write) {
  idem__exec *self = exec_of(driver);
  self->wants_read = read;
  if (read && self->ended)
    uv_idle_start(&self->idle, idem__exec_idle);
  else
    uv_idle_stop(&self->idle);
  bool watched = watch(&self->out, read && !self->ended, UV_READABLE, on_out) &&
                 watch(&self->in, write, UV_WRITABLE, on_in);
  return watched ? IDEM_OK : IDEM_E_SYS;
}

static bool exec_open(const idem__driver *driver) { return exec_of(driver)->told; }

static bool exec_end_output(idem__driver *driver) {
  (void)driver;
  return false; /* depart does */
}

/* ---------------------------------------------------------------------- the program's end */

static void note_end(idem__exec *self, int status) {
  idem_close_reason *reason = &self->peer.reason;
  char how[sizeof self->how / 2];
  idem_program_end_text(status, how, sizeof how);
  snprintf(self->how, sizeof self->how, "%s%s",
           self->mute ? "it closed its output and lived on; " : "", how);
  if (WIFEXITED(status)) reason->exit_status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) reason->signal = WTERMSIG(status);
  bool ours = (reason->signal == SIGTERM && self->step >= IDEM__EXEC_TERM_SENT) ||
              (reason->signal == SIGKILL && self->step == IDEM__EXEC_KILL_SENT);
  if (ours) strncat(self->how, ", sent by us", sizeof self->how - strlen(self->how) - 1);
  reason->text = self->how;
  reason->asked = self->asked;
  reason->errors = self->errors_text;
}

/* Not reaped yet, its number cannot be anyone else's: so its group is ended now. */
static bool reap(idem__exec *self) {
  siginfo_t info = {0};
  int status = 0;
  if (waitid(P_PID, (id_t)self->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
    if (info.si_pid == 0) return false;
    kill(-self->pid, SIGKILL);
  }
  if (waitpid(self->pid, &status, 0) == self->pid)
    note_end(self, status);
  else
    self->peer.reason.text = "somebody else waited for the program";
  self->pid = 0;
  return true;
}

static void tell_end(const idem__exec *self) {
  const idem_close_reason *reason = &self->peer.reason;
  bool quiet = reason->exit_status == 0 || self->step >= IDEM__EXEC_TERM_SENT ||
               self->keeper; /* who tells it */
  size_t shown = self->errors_len < 400 ? self->errors_len : 400;
  idem_logf(self->opts.log, quiet ? IDEM_LOG_DEBUG : IDEM_LOG_WARN, "program ended", "%s: %s%s%.*s",
            idem_conn_peer(self->peer.conn), reason->text, shown ? "; stderr: " : "", (int)shown,
            self->errors_text + self->errors_len - shown);
}

/* Its end is known. */
static void end_program(idem__exec *self) {
  self->runs = false;
  self->ended = true;
  for (int i = 0; i < READS_AT_THE_END && read_errors(self); i++) continue;
  self->peer.reason.errors_len = self->errors_len;
  tell_end(self);
  idem__driver *driver = &self->peer.driver;
  if (driver->leaving)
    idem__driver_departed(driver);
  else if (driver->eof || exec_interest(driver, self->wants_read, self->in.watched) != IDEM_OK)
    idem__driver_close(driver);
}

void idem__exec_child_ended(uv_signal_t *handle, int number) {
  (void)number;
  idem__exec *self = handle->data;
  if (self->pid != 0 && !self->peer.driver.closed && reap(self)) end_program(self);
}

void idem_program_ended(idem_conn *conn, int status) {
  idem__peer *peer = idem__conn_driver(conn);
  idem__exec *self = exec_of(&peer->driver);
  if (!self->runs || peer->driver.closed) return;
  note_end(self, status);
  end_program(self);
}

static void on_closed(uv_handle_t *handle) {
  idem__exec *self = handle->data;
  if (--self->open_handles == 0) idem__driver_gone(&self->peer.driver);
}

/* The handle first, and for good: libuv would look at the number again when it is another's. */
static void close_end(idem__exec_end *end) {
  if (end->made) uv_close((uv_handle_t *)&end->poll, on_closed);
  if (end->fd >= 0) close(end->fd);
  end->made = false;
  end->fd = -1;
}

static void send_signal(const idem__exec *self, int number) {
  if (self->keeper) {
    self->keeper->signal(self->keeper_user, number);
    return;
  }
  kill(-self->pid, number);
  if (number == SIGTERM) kill(-self->pid, SIGCONT); /* who is stopped hears it, too */
}

/* Who has no output any more has mostly ended, and of that we hear next. Who has not says nothing any more, whatever it is asked. */
static bool awaits_end(idem__exec *self) {
  idem__driver *driver = &self->peer.driver;
  bool first = self->step < IDEM__EXEC_INPUT_ENDED && driver->eof && !self->waited;
  if (first) self->waited = true;
  if (first && idem__driver_depart_in(driver, END_FOLLOWS_MS)) return true;
  self->mute |= self->waited;
  return false;
}

/* The next rung; after the last the program is left to the kernel, which cannot end it either. */
static void exec_depart(idem__driver *driver) {
  idem__exec *self = exec_of(driver);
  if (!self->runs || self->step == IDEM__EXEC_KILL_SENT) {
    if (self->runs) self->peer.reason.text = "it could not be ended";
    idem__driver_departed(driver);
    return;
  }
  if (awaits_end(self)) return;
  self->step++;
  if (self->step == IDEM__EXEC_INPUT_ENDED) {
    self->asked = !driver->eof; /* else it has ended its output by itself */
    close_end(&self->in);
    watch(&self->out, !driver->eof, UV_READABLE, on_out);
  } else {
    send_signal(self, self->step == IDEM__EXEC_TERM_SENT ? SIGTERM : SIGKILL);
  }
  if (!idem__driver_depart_in(driver, self->step_ms)) {
    self->step = IDEM__EXEC_KILL_SENT; /* no memory to be patient with */
    send_signal(self, SIGKILL);
  }
}

static void exec_close(idem__driver *driver) {
  idem__exec *self = exec_of(driver);
  idem__exec_end *ends[] = {&self->in, &self->out, &self->errors};
  for (size_t i = 0; i < 3; i++) close_end(ends[i]);
  uv_close((uv_handle_t *)&self->idle, on_closed);
  if (self->watches_children) uv_close((uv_handle_t *)&self->child_ended, on_closed);
}

const idem__wire idem__exec_wire = {.read = exec_read,
                                    .write = exec_write,
                                    .interest = exec_interest,
                                    .end_output = exec_end_output,
                                    .close = exec_close,
                                    .reads_until_empty = true,
                                    .open = exec_open,
                                    .depart = exec_depart};

/* ------------------------------------------------------------------- the end of the loop */

void idem__exec_stop_idle(const uv_loop_t *loop) {
  idem__runtime *runtime = idem__runtime_find(loop);
  if (!runtime) return;
  for (idem_list *node = runtime->programs.next; node != &runtime->programs; node = node->next) {
    idem__exec *self = exec_of(IDEM_CONTAINER(node, idem__driver, node));
    if (self->peer.conn && idem_conn_pending_calls(self->peer.conn) == 0)
      idem__driver_stop(&self->peer.driver, false);
  }
}

bool idem__exec_stop(const uv_loop_t *loop, bool at_once) {
  idem__runtime *runtime = idem__runtime_find(loop);
  if (!runtime) return false;
  for (idem_list *node = runtime->programs.next; node != &runtime->programs; node = node->next) {
    idem__exec *self = exec_of(IDEM_CONTAINER(node, idem__driver, node));
    if (self->runs) self->peer.reason.server_stops = true;
    if (!at_once) {
      idem__driver_stop(&self->peer.driver, false);
    } else if (self->runs) {
      self->step = IDEM__EXEC_KILL_SENT;
      send_signal(self, SIGKILL);
    }
  }
  return !idem_list_empty(&runtime->programs);
}
