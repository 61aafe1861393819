/* mcp.c - an MCP server on a loop: one worker for each server and loop, woken from any thread.
 * Its handle never keeps the loop alive. */
#include "uv/runtime.h"

#include "mcp_http/mcp_http.h"
#include "mcp_server/once.h"
#include "mcp_server/task.h"

#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

struct idem__loop_worker {
  idem__loop_worker *next;
  idem__runtime *runtime;
  idem_server *server;
  idem__mcp_worker *worker;
  uv_async_t async;
  uv_timer_t timer;           /* for what no connection looks after */
  unsigned handles;           /* of the two, not closed */
  idem__session_table *table; /* its sessions, for every HTTP listener of the loop; NULL: none */
  size_t session_users;
  idem_metrics *counters; /* the table's own; NULL: somebody else's are used */
  idem_list resting;      /* listeners that wait for the end of its work */
};

static void on_timer(uv_timer_t *timer);

/* After each delivery and each turn: POSTs without a connection come and go with these. */
static void arm(idem__loop_worker *entry) {
  uint64_t at = idem__worker_deadline(entry->worker), now = idem__clock_ns(NULL) / 1000000u;
  if (at == UINT64_MAX)
    uv_timer_stop(&entry->timer);
  else
    uv_timer_start(&entry->timer, on_timer, idem_timer_ms(at, now), 0);
}

static void on_timer(uv_timer_t *timer) {
  idem__loop_worker *entry = timer->data;
  if (!entry->worker) return;
  idem__worker_expire(entry->worker, idem__clock_ns(NULL) / 1000000u);
  arm(entry);
}

/* Whose work goes on waits again. */
static void tell_resting(idem__loop_worker *entry) {
  idem_list waiting;
  idem_list_init(&waiting);
  atomic_store(&entry->worker->rest_awaited, false);
  for (idem_list *at; (at = entry->resting.next) != &entry->resting;) {
    idem_list_remove(at);
    idem_list_append(&waiting, at);
  }
  while (!idem_list_empty(&waiting)) {
    idem_listener *listener = IDEM_CONTAINER(waiting.next, idem_listener, resting);
    idem_list_leave(&listener->resting);
    idem__listener_look(listener);
  }
}

static void on_async(uv_async_t *async) {
  idem__loop_worker *entry = async->data;
  if (!entry->worker) return;
  idem__worker_deliver(entry->worker);
  arm(entry);
  if (!idem_list_empty(&entry->resting)) tell_resting(entry);
}

static void wake(idem__mcp_worker *worker, void *user) {
  (void)worker;
  idem__loop_worker *entry = user;
  uv_async_send(&entry->async);
}

/* The entry stays until its loop goes, and is nobody's. */
static void left(idem__mcp_worker *worker, void *user) {
  idem__loop_worker *entry = user;
  if (worker->metrics) idem__web_metrics_remove(worker->metrics);
  entry->worker = NULL;
  entry->server = NULL;
}

static idem__loop_worker *find(const idem__runtime *runtime, const idem_server *server) {
  idem__loop_worker *entry = runtime->mcp_workers;
  while (entry && entry->server != server) entry = entry->next;
  return entry;
}

static idem_status new_entry(idem__runtime *runtime, idem_server *server, idem__loop_worker **out) {
  idem__loop_worker *entry = idem__calloc(&runtime->alloc, sizeof *entry);
  if (!entry) return IDEM_E_NOMEM;
  entry->runtime = runtime;
  entry->server = server;
  entry->async.data = entry->timer.data = entry;
  idem_list_init(&entry->resting);
  if (uv_async_init(runtime->loop, &entry->async, on_async) != 0) {
    idem__free(&runtime->alloc, entry);
    return IDEM_E_SYS;
  }
  uv_timer_init(runtime->loop, &entry->timer);
  uv_unref((uv_handle_t *)&entry->async);
  uv_unref((uv_handle_t *)&entry->timer);
  entry->handles = 2;
  runtime->open_handles++;
  entry->next = runtime->mcp_workers;
  runtime->mcp_workers = entry;
  *out = entry;
  return IDEM_OK;
}

static idem_status new_worker(idem__loop_worker *entry) {
  idem_status status = idem__worker_new(entry->server, wake, entry, &entry->worker);
  if (status != IDEM_OK) return status;
  entry->worker->show_metrics = idem__web_metrics_add;
  entry->worker->left = left;
  entry->worker->pool = entry->runtime->pool;
  arm(entry); /* its node's lease runs from the start */
  return IDEM_OK;
}

/* An entry whose worker could not be made stays, and the next to come tries again. */
idem_status idem__runtime_worker(idem__runtime *runtime, idem_server *server,
                                 idem__mcp_worker **out) {
  idem__loop_worker *entry = find(runtime, server);
  idem_status status = entry ? IDEM_OK : new_entry(runtime, server, &entry);
  if (status == IDEM_OK && !entry->worker) status = new_worker(entry);
  *out = status == IDEM_OK ? entry->worker : NULL;
  return status;
}

/* ------------------------------------------------------------------ sessions */

static idem_status open_sessions(idem__loop_worker *entry, idem__session_table_opts *opts) {
  idem_status status = IDEM_OK;
  if (!opts->metrics) {
    status = idem_metrics_new(&entry->runtime->alloc, &entry->counters);
    if (status == IDEM_OK) status = idem__web_metrics_add(entry->counters);
    opts->metrics = entry->counters;
  }
  if (status == IDEM_OK) status = idem__session_table_new(opts, &entry->table);
  return status;
}

static void close_sessions(idem__loop_worker *entry) {
  idem__session_table_free(entry->table);
  if (entry->counters) idem__web_metrics_remove(entry->counters);
  idem_metrics_free(entry->counters);
  entry->counters = NULL;
  entry->table = NULL;
}

idem_status idem__runtime_sessions(idem__runtime *runtime, const idem__session_table_opts *opts,
                                   idem__session_table **out) {
  idem__loop_worker *entry = find(runtime, opts->server);
  idem__session_table_opts own = *opts;
  idem_status status = entry->table ? IDEM_OK : open_sessions(entry, &own);
  if (status == IDEM_OK)
    entry->session_users++;
  else
    close_sessions(entry);
  *out = entry->table;
  return status;
}

void idem__runtime_release_sessions(idem__runtime *runtime, const idem_server *server) {
  idem__loop_worker *entry = find(runtime, server);
  if (--entry->session_users == 0) close_sessions(entry);
}

/* --------------------------------------------------------------------- ending */

static void on_closed(uv_handle_t *handle) {
  idem__loop_worker *entry = handle->data;
  idem__runtime *runtime = entry->runtime;
  if (--entry->handles) return;
  idem__free(&runtime->alloc, entry);
  idem__runtime_handle_closed(runtime);
}

void idem__runtime_close_workers(idem__runtime *runtime) {
  while (runtime->mcp_workers) {
    idem__loop_worker *entry = runtime->mcp_workers;
    runtime->mcp_workers = entry->next;
    if (entry->worker && entry->worker->metrics) idem__web_metrics_remove(entry->worker->metrics);
    idem__worker_free(entry->worker);
    entry->worker = NULL;
    uv_close((uv_handle_t *)&entry->async, on_closed);
    uv_close((uv_handle_t *)&entry->timer, on_closed);
  }
}

void idem__runtime_end_subscriptions(idem__runtime *runtime, const idem_server *server) {
  const idem__loop_worker *entry = find(runtime, server);
  if (entry && entry->worker) idem__listeners_close(entry->worker);
}

bool idem__runtime_works(const idem__runtime *runtime, const idem_server *server) {
  const idem__loop_worker *entry = find(runtime, server);
  return entry && entry->worker &&
         (idem__once_works(entry->worker) || idem__tasks_work(entry->worker));
}

void idem__runtime_await_rest(const idem__runtime *runtime, const idem_server *server,
                              idem_listener *listener) {
  idem__loop_worker *entry = find(runtime, server);
  if (!entry || !entry->worker) return;
  idem_list_leave(&listener->resting);
  idem_list_append(&entry->resting, &listener->resting);
  atomic_store(&entry->worker->rest_awaited, true);
}

idem_status idem__runtime_accept(idem__runtime *runtime, idem_server *server,
                                 const idem_conn_opts *opts, idem_conn **out) {
  idem__mcp_worker *worker;
  idem_status status = idem__runtime_worker(runtime, server, &worker);
  return status == IDEM_OK ? idem__worker_accept(worker, opts, NULL, out) : status;
}

/* ----------------------------------------------------------- for handlers */

uv_loop_t *idem_request_loop(const idem_request *request) {
  const idem__context *context = idem__context_of(request);
  if (context && context->worker->wake == wake) {
    const idem__loop_worker *entry = context->worker->wake_user;
    return entry->runtime->loop;
  }
  const idem_conn *conn = idem_request_conn(request);
  return conn ? idem_conn_loop(conn) : NULL;
}

/* ------------------------------------------------------------- for the core */

void idem__os_random(void *ctx, void *bytes, size_t len) {
  (void)ctx;
  unsigned char *at = bytes;
  while (len) {
    ssize_t got = getrandom(at, len < 256 ? len : 256, 0);
    /* Ids and keys must be unguessable: without randomness there is no going on. */
    if (got <= 0) abort();
    at += got;
    len -= (size_t)got;
  }
}

static uint64_t os_wall_ms(void *ctx) {
  (void)ctx;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

void idem_server_os(idem_server_opts *opts) {
  opts->random = idem__os_random;
  opts->wall_ms = os_wall_ms;
}
