/* exec.c - the wire of a child process: its input and output are the conn's bytes, the end of its
 * stderr is kept. It leads a group of its own, and nothing of that group outlives it.
 * A peer that is over ends its program before it goes: end of input, SIGTERM, SIGKILL, a while apart.
 * See docs/internals/uv.md. */
#include "rpc/rpc.h"
#include "uv/client.h"
#include "uv/program.h"
#include <idem/program.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEP_MS 2000
#define OPEN_MS 30000
#define ERRORS_BYTES 4096
#define READS_AT_THE_END 64 /* of stderr: a process that has left the group may write for ever */

/* Our end of a pipe. */
typedef struct exec_end {
  int fd; /* -1: closed */
  uv_poll_t poll;
  bool made;
  bool watched;
} exec_end;

typedef enum exec_step { RUNNING, INPUT_ENDED, TERM_SENT, KILL_SENT } exec_step;

typedef struct exec_peer {
  idem__peer peer;
  idem_serve_opts opts;
  const idem_client_opts *client; /* until the program was started */
  void (*on_stderr)(idem_conn *conn, const char *data, size_t len, void *user);
  exec_end in, out, errors; /* as the program calls them */
  uv_idle_t idle;           /* the first turn; instead of out.poll, once the program has ended */
  uv_signal_t child_ended;
  bool watches_children;
  unsigned open_handles;
  const idem_program_keeper *keeper; /* NULL: the program is our own child */
  void *keeper_user;
  pid_t pid; /* of our child, until it is reaped */
  bool runs; /* it was started, and its end is not known */
  bool ended;
  bool told; /* the conn is there */
  bool wants_read;
  bool mask_sigpipe;
  exec_step step;
  uint64_t step_ms;
  char how[96];
  size_t errors_len;
  char errors_text[ERRORS_BYTES];
} exec_peer;

static exec_peer *exec_of(const idem__driver *driver) { return driver->io; }

/* ---------------------------------------------------------------- reading and writing */

/* Who has left the group may hold the pipe open; what the program has written is there all the same. */
static ssize_t exec_read(idem__driver *driver, char *into, size_t size) {
  const exec_peer *self = exec_of(driver);
  ssize_t n = read(self->out.fd, into, size);
  if (n >= 0) return n;
  return errno == EAGAIN && self->ended ? 0 : -errno;
}

static bool has_more_to_say(const exec_peer *self) {
  struct pollfd out = {.fd = self->out.fd, .events = POLLIN};
  return poll(&out, 1, 0) > 0 && (out.revents & POLLIN);
}

/* A program that no longer listens may have said why: that is read before it is given up. */
static ssize_t exec_write(idem__driver *driver, const struct iovec *pieces, int count) {
  const exec_peer *self = exec_of(driver);
  ssize_t written = -EPIPE;
  if (self->in.fd >= 0) written = idem__pipe_write(self->in.fd, pieces, count, self->mask_sigpipe);
  if (written != -EPIPE || !has_more_to_say(self)) return written;
  written = 0;
  for (int i = 0; i < count; i++) written += (ssize_t)pieces[i].iov_len;
  return written;
}

/* Keeps the last ERRORS_BYTES. */
static void keep_errors(exec_peer *self, const char *data, size_t len) {
  if (len > ERRORS_BYTES) {
    data += len - ERRORS_BYTES;
    len = ERRORS_BYTES;
  }
  size_t room = ERRORS_BYTES - self->errors_len, over = len > room ? len - room : 0;
  memmove(self->errors_text, self->errors_text + over, self->errors_len - over);
  memcpy(self->errors_text + self->errors_len - over, data, len);
  self->errors_len += len - over;
}

/* False: there is no more for now. */
static bool read_errors(exec_peer *self) {
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
static void close_if_over(exec_peer *self) {
  if (self->ended && self->peer.driver.eof) idem__driver_close(&self->peer.driver);
}

static void take_output(exec_peer *self) {
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
static void on_idle(uv_idle_t *idle) {
  exec_peer *self = idle->data;
  if (!self->told) {
    self->told = true;
    idem__driver_settle(&self->peer.driver);
    if (!self->peer.driver.closed) uv_idle_start(idle, on_idle);
  } else if (self->ended && !self->peer.driver.leaving) {
    take_output(self);
  } else {
    uv_idle_stop(idle);
  }
}

static void on_in(uv_poll_t *poll, int status, int events) {
  (void)status, (void)events;
  exec_peer *self = poll->data;
  if (!self->peer.driver.leaving) idem__driver_writable(&self->peer.driver);
}
static void on_errors(uv_poll_t *poll, int status, int events) {
  (void)status, (void)events;
  read_errors(poll->data);
}

static bool watch(exec_end *end, bool wanted, int events, uv_poll_cb ready) {
  if (end->watched == wanted) return true;
  end->watched = wanted;
  return (wanted ? uv_poll_start(&end->poll, events, ready) : uv_poll_stop(&end->poll)) == 0;
}

static idem_status exec_interest(idem__driver *driver, bool read, bool write) {
  exec_peer *self = exec_of(driver);
  self->wants_read = read;
  if (read && self->ended)
    uv_idle_start(&self->idle, on_idle);
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

static void note_end(exec_peer *self, int status) {
  idem_close_reason *reason = &self->peer.reason;
  idem_program_end_text(status, self->how, sizeof self->how);
  if (WIFEXITED(status)) reason->exit_status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) reason->signal = WTERMSIG(status);
  bool ours = (reason->signal == SIGTERM && self->step >= TERM_SENT) ||
              (reason->signal == SIGKILL && self->step == KILL_SENT);
  if (ours) strncat(self->how, ", sent by us", sizeof self->how - strlen(self->how) - 1);
  reason->text = self->how;
  reason->errors = self->errors_text;
}

/* Not reaped yet, its number cannot be anyone else's: so its group is ended now. */
static bool reap(exec_peer *self) {
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

static void tell_end(const exec_peer *self) {
  const idem_close_reason *reason = &self->peer.reason;
  bool quiet =
      reason->exit_status == 0 || self->step >= TERM_SENT || self->keeper; /* who tells it */
  size_t shown = self->errors_len < 400 ? self->errors_len : 400;
  idem_logf(self->opts.log, quiet ? IDEM_LOG_DEBUG : IDEM_LOG_WARN, "program ended", "%s: %s%s%.*s",
            idem_conn_peer(self->peer.conn), reason->text, shown ? "; stderr: " : "", (int)shown,
            self->errors_text + self->errors_len - shown);
}

/* Its end is known. */
static void end_program(exec_peer *self) {
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

static void on_child_ended(uv_signal_t *handle, int number) {
  (void)number;
  exec_peer *self = handle->data;
  if (self->pid != 0 && !self->peer.driver.closed && reap(self)) end_program(self);
}

void idem_program_ended(idem_conn *conn, int status) {
  idem__peer *peer = idem__conn_driver(conn);
  exec_peer *self = exec_of(&peer->driver);
  if (!self->runs || peer->driver.closed) return;
  note_end(self, status);
  end_program(self);
}

static void on_closed(uv_handle_t *handle) {
  exec_peer *self = handle->data;
  if (--self->open_handles == 0) idem__driver_gone(&self->peer.driver);
}

/* The handle first, and for good: libuv would look at the number again when it is another's. */
static void close_end(exec_end *end) {
  if (end->made) uv_close((uv_handle_t *)&end->poll, on_closed);
  if (end->fd >= 0) close(end->fd);
  end->made = false;
  end->fd = -1;
}

static void send_signal(const exec_peer *self, int number) {
  if (self->keeper) {
    self->keeper->signal(self->keeper_user, number);
    return;
  }
  kill(-self->pid, number);
  if (number == SIGTERM) kill(-self->pid, SIGCONT); /* who is stopped hears it, too */
}

/* The next rung; after the last the program is left to the kernel, which cannot end it either. */
static void exec_depart(idem__driver *driver) {
  exec_peer *self = exec_of(driver);
  if (!self->runs || self->step == KILL_SENT) {
    if (self->runs) self->peer.reason.text = "it could not be ended";
    idem__driver_departed(driver);
    return;
  }
  self->step++;
  if (self->step == INPUT_ENDED) {
    close_end(&self->in);
    watch(&self->out, !driver->eof, UV_READABLE, on_out);
  } else {
    send_signal(self, self->step == TERM_SENT ? SIGTERM : SIGKILL);
  }
  if (!idem__driver_depart_in(driver, self->step_ms)) {
    self->step = KILL_SENT; /* no memory to be patient with */
    send_signal(self, SIGKILL);
  }
}

static void exec_close(idem__driver *driver) {
  exec_peer *self = exec_of(driver);
  exec_end *ends[] = {&self->in, &self->out, &self->errors};
  for (size_t i = 0; i < 3; i++) close_end(ends[i]);
  uv_close((uv_handle_t *)&self->idle, on_closed);
  if (self->watches_children) uv_close((uv_handle_t *)&self->child_ended, on_closed);
}

static const idem__wire exec_wire = {.read = exec_read,
                                     .write = exec_write,
                                     .interest = exec_interest,
                                     .end_output = exec_end_output,
                                     .close = exec_close,
                                     .reads_until_empty = true,
                                     .open = exec_open,
                                     .depart = exec_depart};

static void exec_freed(idem__peer *peer) {
  idem_alloc alloc = peer->driver.runtime->alloc;
  idem__free(&alloc, peer->driver.io);
}

/* ---------------------------------------------------------------------------- opening */

/* The program's ends, while it is being started. */
typedef struct exec_pipes {
  int in[2], out[2], errors[2];
} exec_pipes;

static void close_pipe(int ends[2]) {
  for (int i = 0; i < 2; i++)
    if (ends[i] >= 0) close(ends[i]);
}

static void close_pipes(exec_pipes *pipes) {
  close_pipe(pipes->in);
  close_pipe(pipes->out);
  close_pipe(pipes->errors);
}

static bool open_pipes(exec_pipes *pipes) {
  *pipes = (exec_pipes){{-1, -1}, {-1, -1}, {-1, -1}};
  if (idem_pipe_open(pipes->in, 1) && idem_pipe_open(pipes->out, 0) &&
      idem_pipe_open(pipes->errors, 0))
    return true;
  close_pipes(pipes);
  return false;
}

static bool open_end(exec_peer *self, exec_end *end, int *fd) {
  if (uv_poll_init(self->peer.driver.runtime->loop, &end->poll, *fd) != 0) return false;
  end->poll.data = self;
  end->fd = *fd;
  end->made = true;
  *fd = -1;
  self->open_handles++;
  return true;
}

/* All the handles there can be; false: some may be open. */
static bool open_handles(exec_peer *self, exec_pipes *pipes) {
  uv_loop_t *loop = self->peer.driver.runtime->loop;
  uv_idle_init(loop, &self->idle);
  self->open_handles = 1;
  self->watches_children = !self->keeper && uv_signal_init(loop, &self->child_ended) == 0;
  if (self->watches_children) self->open_handles++;
  self->idle.data = self->child_ended.data = self;
  return (self->keeper || self->watches_children) && open_end(self, &self->in, &pipes->in[1]) &&
         open_end(self, &self->out, &pipes->out[0]) &&
         open_end(self, &self->errors, &pipes->errors[0]) &&
         (self->keeper || uv_signal_start(&self->child_ended, on_child_ended, SIGCHLD) == 0) &&
         uv_poll_start(&self->errors.poll, UV_READABLE, on_errors) == 0;
}

/* The conn is there before the program, so that no failure has to end one. */
static idem_status start(exec_peer *self, const char *name, exec_pipes *pipes) {
  const idem_client_opts *client = self->client;
  if (self->keeper) {
    int failed =
        self->keeper->start(self->keeper_user, pipes->in[0], pipes->out[1], pipes->errors[1]);
    self->runs = !failed;
    return failed ? IDEM_E_SYS : IDEM_OK;
  }
  idem_program program = {.argv = client->argv,
                          .environment = client->environment,
                          .folder = client->folder,
                          .files = {pipes->in[0], pipes->out[1], pipes->errors[1], IDEM_FILE_SAME}};
  int why = idem_program_start(&program, &self->pid);
  self->runs = why == 0;
  if (why == 0) return IDEM_OK;
  self->pid = 0;
  idem_logf(self->opts.log, IDEM_LOG_WARN, "cannot start the program", "%s: %s", name,
            strerror(why));
  return why == ENOMEM ? IDEM_E_NOMEM : IDEM_E_SYS;
}

static idem_status open_peer(exec_peer *self, const idem_policy *policy, const char *program,
                             exec_pipes *pipes) {
  char name[128];
  snprintf(name, sizeof name, "exec %s", program);
  if (!open_handles(self, pipes)) {
    idem__peer_discard(&self->peer);
    return IDEM_E_SYS;
  }
  idem_status status = idem__peer_open(&self->peer, policy, name);
  if (status != IDEM_OK) {
    idem__peer_discard(&self->peer);
    return status;
  }
  status = start(self, program, pipes);
  if (status == IDEM_OK) return IDEM_OK;
  self->opts.on_close = NULL; /* it never was open */
  idem__driver_close(&self->peer.driver);
  return status;
}

static exec_peer *new_peer(idem__runtime *runtime, const idem_connect_opts *opts) {
  exec_peer *self = idem__calloc(&runtime->alloc, sizeof *self);
  if (!self) return NULL;
  self->opts = idem__peer_opts_of(opts);
  self->peer.on_trace = opts->on_trace;
  self->client = opts->client;
  self->on_stderr = opts->on_stderr;
  self->in.fd = self->out.fd = self->errors.fd = -1;
  self->mask_sigpipe = idem__sigpipe_kills();
  self->step_ms = opts->client && opts->client->exit_ms ? opts->client->exit_ms : STEP_MS;
  self->peer.driver.wire = &exec_wire;
  self->peer.driver.io = self;
  self->peer.opts = &self->opts;
  self->peer.on_freed = exec_freed;
  idem__peer_init(&self->peer, runtime);
  return self;
}

/* What the options point to is used here for the last time. */
static idem_status open_program(exec_peer *self, idem_policy *policy, const char *program) {
  exec_pipes pipes;
  idem__runtime *runtime = self->peer.driver.runtime;
  policy->limits.idle_ms = 0; /* it may well say nothing for an hour */
  if (!open_pipes(&pipes)) {
    idem__driver_gone(&self->peer.driver);
    return IDEM_E_SYS;
  }
  idem_status status = open_peer(self, policy, program, &pipes);
  close_pipes(&pipes);
  if (status != IDEM_OK) return status;
  self->client = NULL;
  self->opts.policy = NULL;
  idem__list_append(&runtime->programs, &self->peer.driver.node);
  return IDEM_OK;
}

static idem_policy policy_of(const idem_connect_opts *opts) {
  return opts->policy ? *opts->policy : idem_policy_preset(IDEM_PROFILE_JSONRPC);
}

idem_status idem__connect_exec(idem__runtime *runtime, const idem__url *url,
                               const idem_connect_opts *opts, idem_ready_fn on_ready, void *user) {
  if (!opts->client || !opts->client->argv || !opts->client->argv[0]) return IDEM_E_INVAL;
  idem_policy policy = policy_of(opts);
  if (url->content_length) policy.framing = IDEM_FRAMING_CONTENT_LENGTH;
  exec_peer *self = new_peer(runtime, opts);
  idem_status status = self ? open_program(self, &policy, opts->client->argv[0]) : IDEM_E_NOMEM;
  if (status != IDEM_OK) return status;
  self->peer.on_ready = on_ready;
  self->peer.ready_user = user;
  self->peer.driver.open_by_ms = idem__clock_ms() + OPEN_MS;
  uv_idle_start(&self->idle, on_idle);
  return IDEM_OK;
}

/* Nobody waits for the conn: it is handed out here. */
idem_status idem_connect_kept(uv_loop_t *loop, const idem_connect_opts *opts, const char *program,
                              const idem_program_keeper *keeper, void *keeper_user,
                              idem_conn **conn) {
  idem__runtime *runtime = NULL;
  idem_policy policy = policy_of(opts);
  idem_status status = idem__runtime_get(loop, opts->alloc, &runtime);
  if (status != IDEM_OK) return status;
  exec_peer *self = new_peer(runtime, opts);
  if (!self) status = IDEM_E_NOMEM;
  if (self) {
    self->keeper = keeper;
    self->keeper_user = keeper_user;
    self->told = true;
    status = open_program(self, &policy, program);
  }
  if (status == IDEM_OK) *conn = self->peer.conn;
  idem__runtime_release(runtime);
  return status;
}

/* ------------------------------------------------------------------- the end of the loop */

bool idem__exec_stop(const uv_loop_t *loop, bool at_once) {
  idem__runtime *runtime = idem__runtime_find(loop);
  if (!runtime) return false;
  for (idem__list *node = runtime->programs.next; node != &runtime->programs; node = node->next) {
    exec_peer *self = exec_of(IDEM__CONTAINER(node, idem__driver, node));
    if (!at_once) {
      idem__driver_stop(&self->peer.driver, false);
    } else if (self->runs) {
      self->step = KILL_SENT;
      send_signal(self, SIGKILL);
    }
  }
  return !idem__list_empty(&runtime->programs);
}
