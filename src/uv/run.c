/* run.c - a whole server in one call: a loop, its listeners, signals, and an orderly end.
 * A process that only serves stdio spends its life in idem__stdio_turn; the loop runs when there is
 * something in it. */
#include "uv/runtime.h"
#include "uv/signals.h"
#include "uv/web.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#define LAST_MS 50   /* workers have the grace and this */
#define KILL_MS 500  /* for what was killed to be gone */
#define CROWD_MIN 64 /* connections whose memory is worth giving back */
#define SINK_DETAIL 2048
#define CROWD_ENDS 8 /* times that it is given back while one crowd goes: 4^8 clients in quarters */

typedef struct server {
  uv_loop_t loop;
  uv_async_t wake;
  uv_timer_t last_call;
  idem_serve_opts opts;
  idem_log *log;
  idem_metrics *metrics; /* of what is served without HTTP, where /metrics is; else NULL */
  idem_listener **listeners;
  size_t count;
  size_t live;
  size_t crowd;       /* the most connections since memory was given back */
  unsigned crowd_end; /* times that it may still be, though few are left of a crowd */
  bool finish_asked;
  bool draining, drained; /* who shares out requests is told; it has had the time to hear it */
  bool stopping;
  bool failed; /* stdin or stdout did: the exit status says so */
  bool out_of_time;
} server;

/* ------------------------------------------------------------------------ stopping */

static void on_finish(void *user) {
  server *self = user;
  self->finish_asked = true;
}

static void on_failure(void *user) {
  server *self = user;
  self->failed = true;
}

static void on_stopped(void *user) {
  server *self = user;
  self->live--;
}

static void on_last_call(uv_timer_t *timer) {
  server *self = timer->data;
  self->out_of_time = true;
}

static void on_drained(uv_timer_t *timer) {
  server *self = timer->data;
  self->drained = true;
}

/* Requests still come and are served; health checks say that no more should be sent. */
static void begin_drain(server *self) {
  self->draining = true;
  idem__web_set_draining(true);
  idem_logf(self->log, IDEM_LOG_INFO, "not ready any more",
            "signal %s; /healthz says 503, and requests are served for another %llu ms (drain_ms)",
            strsignal(idem__signals_stop_asked()), (unsigned long long)self->opts.drain_ms);
  uv_update_time(&self->loop);
  uv_timer_start(&self->last_call, on_drained, self->opts.drain_ms, 0);
}

static size_t connections(const server *self) {
  size_t count = 0;
  for (size_t i = 0; i < self->count; i++) {
    const idem_listener *listener = self->listeners[i];
    count += listener->web ? idem__web_count(listener->web) : listener->peer_count;
  }
  return count;
}

/* Who stops a server wants to know what it is still at, and for how long. */
static void log_stop(const server *self) {
  int number = idem__signals_stop_asked();
  if (number == 0) return;
  size_t count = connections(self);
  idem_logf(self->log, IDEM_LOG_INFO, "shutting down gracefully",
            "signal %s; %zu connection%s; calls that run have %llu ms to finish (grace_ms)",
            strsignal(number), count, count == 1 ? "" : "s",
            (unsigned long long)self->opts.grace_ms);
}

static void begin_stop(server *self) {
  self->stopping = true;
  log_stop(self);
  uv_update_time(&self->loop);
  uv_timer_start(&self->last_call, on_last_call, self->opts.grace_ms + LAST_MS, 0);
  for (size_t i = 0; i < self->count; i++) {
    idem__stdio_join_loop(self->listeners[i]);
    idem_listener_stop(self->listeners[i], on_stopped, self);
  }
}

static bool must_stop(const server *self) {
  return !self->stopping && (self->finish_asked || idem__signals_stop_asked() != 0);
}

/* ------------------------------------------------------------------------- running */

/* Where the log goes is the operator's own choice: its path stands whole. */
static void tell_plainly(const server *self, const char *message, const char *detail) {
  idem_log_write(self->log, &(idem_log_record){.level = IDEM_LOG_INFO,
                                               .message = message,
                                               .detail = detail,
                                               .detail_len = strlen(detail),
                                               .plain = true});
}

static void on_wake(uv_async_t *async) { (void)async; }

static void hang_up(const server *self) {
  idem_log_reopen(self->log);
  tell_plainly(self, "log reopened", idem__log_sink_name());
  if (self->opts.on_hangup && !self->stopping) self->opts.on_hangup(self->opts.user);
}

static bool served_out(const server *self) {
  for (size_t i = 0; i < self->count; i++) {
    const idem_listener *listener = self->listeners[i];
    if (listener->point_count > 0 || listener->peer_count > 0) return false;
  }
  return true;
}

/* A signal is heard of beforehand; who has asked itself to end knows. */
static bool must_drain(const server *self) {
  return self->opts.drain_ms && !self->drained && !self->finish_asked && must_stop(self);
}

static void look_whether_to_stop(server *self) {
  if (must_drain(self)) {
    if (!self->draining) begin_drain(self);
  } else if (must_stop(self) || (!self->stopping && served_out(self))) {
    begin_stop(self);
  }
}

static void one_turn(server *self) {
  if (!self->stopping && self->count == 1 && self->listeners[0]->scheme == IDEM__SCHEME_STDIO &&
      idem__stdio_turn(self->listeners[0], &self->wake)) {
    return;
  }
  uv_run(&self->loop, UV_RUN_ONCE);
}

/* What a crowd of clients has left lies between what others still use, where the C library keeps it
 * for ever unless it is asked. The process is ours here, so we ask, when three of four have gone, and
 * again as the rest of them go: the last few of a crowd would leave theirs behind. */
static void give_memory_back(server *self) {
  if (self->stopping) return; /* listeners go one by one */
  size_t count = connections(self);
  bool crowded = self->crowd >= CROWD_MIN;
  if (count >= self->crowd) {
    self->crowd = count;
  } else if (count <= self->crowd / 4 && (crowded || self->crowd_end)) {
    self->crowd_end = crowded ? CROWD_ENDS : self->crowd_end - 1;
    self->crowd = count;
#ifdef __GLIBC__
    malloc_trim(0);
#endif
  }
}

static void serve_until_done(server *self) {
  while (self->live > 0) {
    if (idem__signals_take_reload()) hang_up(self);
    look_whether_to_stop(self);
    if (self->stopping) idem__exec_stop_idle(&self->loop); /* the others answer within the grace */
    one_turn(self);
    give_memory_back(self);
  }
}

/* ------------------------------------------------------------------- beginning and end */

/* Those that were connected to on this loop and have not ended in time. */
static void end_programs(server *self) {
  uint64_t until = idem__clock_ms() + KILL_MS;
  uv_timer_start(&self->last_call, on_last_call, KILL_MS, 0);
  while (idem__exec_stop(&self->loop, true) && idem__clock_ms() < until)
    uv_run(&self->loop, UV_RUN_ONCE);
}

/* Work given to other threads may outlast the peers: it has the rest of the grace. */
static void wait_for_workers(server *self) {
  while (!self->out_of_time &&
         (self->loop.active_reqs.count > 0 || idem__exec_stop(&self->loop, false))) {
    uv_run(&self->loop, UV_RUN_ONCE);
  }
  end_programs(self);
  if (self->loop.active_reqs.count == 0) return;
  /* libuv would wait for its threads at exit, for as long as they like. */
  idem_logf(self->log, IDEM_LOG_WARN, "leaving while offloaded work still runs", "%u jobs",
            self->loop.active_reqs.count);
  fflush(NULL);
  _exit(self->failed ? 1 : 0);
}

/* Handles that handlers made and never closed keep a loop from closing; the server is static, so
 * that they stay where they are. */
static void close_loop(server *self) {
  uv_close((uv_handle_t *)&self->wake, NULL);
  uv_close((uv_handle_t *)&self->last_call, NULL);
  for (int i = 0; i < 8 && uv_loop_close(&self->loop) == UV_EBUSY; i++) {
    uv_run(&self->loop, UV_RUN_NOWAIT);
  }
}

/* HTTP listeners count for themselves, a thread each. */
static bool listen_to(server *self, const char *url) {
  idem_serve_opts opts = self->opts;
  if (self->metrics && !idem__url_is_web(url)) opts.metrics = self->metrics;
  idem_status status = idem_serve(&self->loop, url, &opts, &self->listeners[self->count]);
  if (status == IDEM_E_INVAL) {
    idem_logf(self->log, IDEM_LOG_ERROR, "not an address to serve", "%s", url);
  }
  if (status != IDEM_OK) return false;
  self->listeners[self->count]->on_finish = on_finish;
  self->listeners[self->count]->on_failure = on_failure;
  self->listeners[self->count]->finish_user = self;
  if (self->opts.on_listening)
    self->opts.on_listening(idem_listener_url(self->listeners[self->count]), self->opts.user);
  self->count++;
  self->live++;
  return true;
}

static bool serves_sockets(const char *const *urls, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (strncmp(urls[i], "stdio", 5) != 0) return true;
  }
  return false;
}

static IDEM__EARLY void tell_start(const server *self) {
  char detail[SINK_DETAIL];
  snprintf(detail, sizeof detail, "version %s, pid %ld, level %s, sink %s", idem_version(),
           (long)getpid(), idem_log_level_text(idem_log_get_level(self->log)),
           idem__log_sink_name());
  tell_plainly(self, "idem started", detail);
}

static IDEM__EARLY int serve_urls(server *self, const char *const *urls, size_t count) {
  tell_start(self);
  idem__signals_start(&self->wake, self->opts.on_hangup || serves_sockets(urls, count));
  if (self->opts.on_loop) self->opts.on_loop(&self->loop, self->opts.user);
  bool started = true;
  for (size_t i = 0; i < count && started; i++) started = listen_to(self, urls[i]);
  if (self->opts.http && self->opts.http->workers > 1) idem__workers_schedule_as_batch();
  self->failed |= !started;
  if (!started) begin_stop(self);
  serve_until_done(self);
  wait_for_workers(self);
  idem__signals_stop();
  return self->failed ? 1 : 0;
}

/* Counting costs a little with each message: it is done where somebody can look. */
static void start_counting(server *self, const char *const *urls, size_t count) {
  const idem_serve_opts *opts = &self->opts;
  const idem_router *router = opts->server ? idem_server_router(opts->server) : opts->router;
  bool seen = false;
  for (size_t i = 0; i < count; i++) seen |= idem__url_counts(urls[i], opts);
  if (!seen || opts->metrics) return;
  if (idem_metrics_new(opts->alloc, &self->metrics) == IDEM_OK && router)
    (void)idem_router_label(router, self->metrics); /* without memory all is `other` */
}

static int run_server(server *self, const char *const *urls, size_t count) {
  if (uv_loop_init(&self->loop) != 0) {
    idem_logf(self->log, IDEM_LOG_ERROR, "cannot make an event loop", "%s", urls[0]);
    return 1;
  }
  uv_async_init(&self->loop, &self->wake, on_wake);
  uv_timer_init(&self->loop, &self->last_call);
  uv_unref((uv_handle_t *)&self->wake);
  self->last_call.data = self;
  start_counting(self, urls, count);
  int code = idem__store_join(&self->opts) == IDEM_OK ? serve_urls(self, urls, count) : 1;
  if (code == 0) idem__store_leave(&self->opts);
  close_loop(self);
  idem_metrics_free(self->metrics);
  return code;
}

int idem_run(const char *const *urls, size_t count, const idem_serve_opts *opts) {
  static server self;
  if (count == 0 || self.listeners) return 1; /* one at a time: signals belong to the process */
  idem_stdio_fill_holes();
  idem_log *own_log = NULL;
  if (!opts->log) idem_log_open(&(idem_log_setup){.level = IDEM_LOG_INFO}, &own_log);
  self = (server){.opts = *opts, .log = opts->log ? opts->log : own_log};
  self.opts.log = self.log;
  if (!self.opts.grace_ms) self.opts.grace_ms = IDEM__GRACE_MS;
  self.listeners = idem__calloc(opts->alloc, count * sizeof(idem_listener *));
  int code = self.listeners ? run_server(&self, urls, count) : 1;
  idem__free(opts->alloc, self.listeners);
  self.listeners = NULL;
  idem_log_free(own_log);
  return code;
}
