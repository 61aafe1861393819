/* exec_open.c - a program started as the other end of a conn: its pipes, the handles that watch them, and who starts it,
 * we or somebody who keeps it. What then goes on is exec.c's. */
#include "uv/exec.h"

#include "rpc/rpc.h"
#include "uv/program.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STEP_MS 2000
#define OPEN_MS 30000

static void exec_freed(idem__peer *peer) {
  idem_alloc alloc = peer->driver.runtime->alloc;
  idem__free(&alloc, peer->driver.io);
}

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

static bool open_end(idem__exec *self, idem__exec_end *end, int *fd) {
  if (uv_poll_init(self->peer.driver.runtime->loop, &end->poll, *fd) != 0) return false;
  end->poll.data = self;
  end->fd = *fd;
  end->made = true;
  *fd = -1;
  self->open_handles++;
  return true;
}

/* All the handles there can be; false: some may be open. */
static bool open_handles(idem__exec *self, exec_pipes *pipes) {
  uv_loop_t *loop = self->peer.driver.runtime->loop;
  uv_idle_init(loop, &self->idle);
  self->open_handles = 1;
  self->watches_children = !self->keeper && uv_signal_init(loop, &self->child_ended) == 0;
  if (self->watches_children) self->open_handles++;
  self->idle.data = self->child_ended.data = self;
  return (self->keeper || self->watches_children) && open_end(self, &self->in, &pipes->in[1]) &&
         open_end(self, &self->out, &pipes->out[0]) &&
         open_end(self, &self->errors, &pipes->errors[0]) &&
         (self->keeper ||
          uv_signal_start(&self->child_ended, idem__exec_child_ended, SIGCHLD) == 0) &&
         uv_poll_start(&self->errors.poll, UV_READABLE, idem__exec_errors) == 0;
}

/* The conn is there before the program, so that no failure has to end one. */
static idem_status start(idem__exec *self, const char *name, exec_pipes *pipes) {
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

static idem_status open_peer(idem__exec *self, const idem_policy *policy, const char *program,
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

static idem__exec *new_peer(idem__runtime *runtime, const idem_connect_opts *opts) {
  idem__exec *self = idem__calloc(&runtime->alloc, sizeof *self);
  if (!self) return NULL;
  self->opts = idem__peer_opts_of(opts);
  self->peer.on_trace = opts->on_trace;
  self->client = opts->client;
  self->on_stderr = opts->on_stderr;
  self->in.fd = self->out.fd = self->errors.fd = -1;
  self->mask_sigpipe = idem__sigpipe_kills();
  self->step_ms = opts->client && opts->client->exit_ms ? opts->client->exit_ms : STEP_MS;
  self->peer.driver.wire = &idem__exec_wire;
  self->peer.driver.io = self;
  self->peer.opts = &self->opts;
  self->peer.on_freed = exec_freed;
  idem__peer_init(&self->peer, runtime);
  return self;
}

/* What the options point to is used here for the last time. */
static idem_status open_program(idem__exec *self, idem_policy *policy, const char *program) {
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
  idem_list_append(&runtime->programs, &self->peer.driver.node);
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
  idem__exec *self = new_peer(runtime, opts);
  idem_status status = self ? open_program(self, &policy, opts->client->argv[0]) : IDEM_E_NOMEM;
  if (status != IDEM_OK) return status;
  self->peer.on_ready = on_ready;
  self->peer.ready_user = user;
  self->peer.driver.open_by_ms = idem__clock_ms() + OPEN_MS;
  uv_idle_start(&self->idle, idem__exec_idle);
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
  idem__exec *self = new_peer(runtime, opts);
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
