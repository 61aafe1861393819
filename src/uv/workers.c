/* workers.c - the other loops that serve a port, each on a thread of its own.
 * The kernel spreads connections over them (SO_REUSEPORT); a request is answered on the loop it came
 * to. They end when the first one is stopped. See docs/internals/uv.md. */
#include "uv/web.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

/* Woken by a client on its own CPU, a thread would push it aside and find the one request that has
 * just been sent; a batch thread waits its turn and finds more of them. What it starts is scheduled
 * as ever, and a policy that somebody chose is kept. Where this is forbidden nothing is lost. */
void idem__workers_schedule_as_batch(void) {
  struct sched_param none = {0};
  if (sched_getscheduler(0) == SCHED_OTHER)
    sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &none);
}

struct idem__worker {
  idem__web *web; /* the first one's */
  uv_thread_t thread;
  uv_loop_t loop;
  uv_async_t stop;
  uv_sem_t started;
  idem_serve_opts opts;
  char *url;
  idem_listener *listener;
  idem_status status;
  bool stopped;      /* the listener has */
  atomic_bool ended; /* the thread is about to */
  bool running;      /* to be joined */
};

/* ----------------------------------------------------------- on its own thread */

static void on_stopped(void *user) {
  idem__worker *worker = user;
  worker->stopped = true;
}

static void on_stop(uv_async_t *async) {
  idem__worker *worker = async->data;
  if (worker->listener) idem_listener_stop(worker->listener, on_stopped, worker);
  worker->listener = NULL;
}

static void serve(idem__worker *worker) {
  worker->status =
      idem__serve_worker(&worker->loop, worker->url, &worker->opts, worker->web, &worker->listener);
  worker->stopped = worker->status != IDEM_OK;
  uv_sem_post(&worker->started);
  while (!worker->stopped) uv_run(&worker->loop, UV_RUN_ONCE);
}

/* Handles that handlers made and never closed keep a loop from closing. */
static void close_loop(idem__worker *worker) {
  uv_close((uv_handle_t *)&worker->stop, NULL);
  for (int i = 0; i < 8 && uv_loop_close(&worker->loop) == UV_EBUSY; i++)
    uv_run(&worker->loop, UV_RUN_NOWAIT);
}

static void run(void *user) {
  idem__worker *worker = user;
  sigset_t all;
  sigfillset(&all); /* signals are the first thread's */
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  idem__workers_schedule_as_batch();
  serve(worker);
  close_loop(worker);
  atomic_store(&worker->ended, true);
  uv_async_send(&worker->web->news);
}

/* ---------------------------------------------------------- on the first thread */

static void join(idem__worker *worker) {
  uv_thread_join(&worker->thread);
  uv_sem_destroy(&worker->started);
  worker->running = false;
  worker->web->workers_running--;
}

static idem_status start(idem__worker *worker) {
  if (uv_loop_init(&worker->loop) != 0) return IDEM_E_SYS;
  uv_async_init(&worker->loop, &worker->stop, on_stop);
  worker->stop.data = worker;
  if (uv_sem_init(&worker->started, 0) != 0) return IDEM_E_SYS;
  if (uv_thread_create(&worker->thread, run, worker) != 0) {
    uv_sem_destroy(&worker->started);
    close_loop(worker);
    return IDEM_E_SYS;
  }
  worker->running = true;
  worker->web->workers_running++;
  uv_sem_wait(&worker->started);
  if (worker->status != IDEM_OK) join(worker);
  return worker->status;
}

static idem_status prepare(idem__worker *worker, idem__web *web) {
  const idem_listener *listener = web->listener;
  worker->web = web;
  worker->opts = listener->opts;
  worker->opts.metrics = NULL; /* one a thread */
  worker->opts.on_open = worker->opts.on_close = NULL;
  worker->url = idem__strndup(&listener->runtime->alloc, listener->url, strlen(listener->url));
  return worker->url ? start(worker) : IDEM_E_NOMEM;
}

idem_status idem__workers_start(idem__web *web, const idem__url *url, size_t count) {
  (void)url;
  web->workers = idem__calloc(&web->listener->runtime->alloc, count * sizeof *web->workers);
  if (!web->workers) return IDEM_E_NOMEM;
  for (size_t i = 0; i < count; i++) {
    web->worker_count++;
    idem_status status = prepare(&web->workers[i], web);
    if (status != IDEM_OK) return status; /* the listener is stopped, and with it the others */
  }
  return IDEM_OK;
}

void idem__workers_stop(idem__web *web) {
  for (size_t i = 0; i < web->worker_count; i++) {
    if (web->workers[i].running) uv_async_send(&web->workers[i].stop);
  }
}

void idem__workers_reap(idem__web *web) {
  for (size_t i = 0; i < web->worker_count; i++) {
    idem__worker *worker = &web->workers[i];
    if (worker->running && atomic_load(&worker->ended)) join(worker);
  }
}

void idem__workers_free(idem__web *web) {
  const idem_alloc *alloc = &web->listener->runtime->alloc;
  for (size_t i = 0; i < web->worker_count; i++) idem__free(alloc, web->workers[i].url);
  idem__free(alloc, web->workers);
}
