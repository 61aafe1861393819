/* mcp.c - an MCP server on a loop: one hub for each server and loop, woken from any thread.
 * Its handle never keeps the loop alive. */
#include "uv/runtime.h"

#include "mcp_http/mcp_http.h"

#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

struct idem__loop_hub {
  idem__loop_hub *next;
  idem__runtime *runtime;
  idem_server *server;
  idem__mcp_hub *hub;
  uv_async_t async;
  uv_timer_t timer;     /* for what no connection looks after */
  unsigned handles;     /* of the two, not closed */
  idem__mcp_shop *shop; /* its sessions, for every HTTP listener of the loop; NULL: none */
  size_t shop_users;
  idem_metrics *counters; /* the shop's own; NULL: somebody else's are used */
};

static void on_timer(uv_timer_t *timer);

/* After each delivery and each turn: visits without a connection come and go with these. */
static void arm(idem__loop_hub *entry) {
  uint64_t at = idem__hub_deadline(entry->hub), now = idem__clock_ns(NULL) / 1000000u;
  if (at == UINT64_MAX)
    uv_timer_stop(&entry->timer);
  else
    uv_timer_start(&entry->timer, on_timer, at > now ? at - now : 0, 0);
}

static void on_timer(uv_timer_t *timer) {
  idem__loop_hub *entry = timer->data;
  if (!entry->hub) return;
  idem__hub_expire(entry->hub, idem__clock_ns(NULL) / 1000000u);
  arm(entry);
}

static void on_async(uv_async_t *async) {
  idem__loop_hub *entry = async->data;
  if (!entry->hub) return;
  idem__hub_deliver(entry->hub);
  arm(entry);
}

static void wake(idem__mcp_hub *hub, void *user) {
  (void)hub;
  idem__loop_hub *entry = user;
  uv_async_send(&entry->async);
}

static idem__loop_hub *find(const idem__runtime *runtime, const idem_server *server) {
  idem__loop_hub *entry = runtime->hubs;
  while (entry && entry->server != server) entry = entry->next;
  return entry;
}

static idem_status new_entry(idem__runtime *runtime, idem_server *server, idem__loop_hub **out) {
  idem__loop_hub *entry = idem__calloc(&runtime->alloc, sizeof *entry);
  if (!entry) return IDEM_E_NOMEM;
  entry->runtime = runtime;
  entry->server = server;
  entry->async.data = entry->timer.data = entry;
  if (uv_async_init(runtime->loop, &entry->async, on_async) != 0) {
    idem__free(&runtime->alloc, entry);
    return IDEM_E_SYS;
  }
  uv_timer_init(runtime->loop, &entry->timer);
  uv_unref((uv_handle_t *)&entry->async);
  uv_unref((uv_handle_t *)&entry->timer);
  entry->handles = 2;
  runtime->open_handles++;
  entry->next = runtime->hubs;
  runtime->hubs = entry;
  *out = entry;
  return IDEM_OK;
}

/* An entry whose hub could not be made stays, and the next to come tries again. */
idem_status idem__runtime_hub(idem__runtime *runtime, idem_server *server, idem__mcp_hub **out) {
  idem__loop_hub *entry = find(runtime, server);
  idem_status status = entry ? IDEM_OK : new_entry(runtime, server, &entry);
  if (status == IDEM_OK && !entry->hub) status = idem__hub_new(server, wake, entry, &entry->hub);
  *out = status == IDEM_OK ? entry->hub : NULL;
  return status;
}

/* ------------------------------------------------------------------ sessions */

static idem_status open_shop(idem__loop_hub *entry, idem__mcp_shop_opts *opts) {
  idem_status status = IDEM_OK;
  if (!opts->metrics) {
    status = idem_metrics_new(&entry->runtime->alloc, &entry->counters);
    if (status == IDEM_OK) status = idem__web_metrics_add(entry->counters);
    opts->metrics = entry->counters;
  }
  if (status == IDEM_OK) status = idem__mcp_shop_new(opts, &entry->shop);
  return status;
}

static void close_shop(idem__loop_hub *entry) {
  idem__mcp_shop_free(entry->shop);
  if (entry->counters) idem__web_metrics_remove(entry->counters);
  idem_metrics_free(entry->counters);
  entry->counters = NULL;
  entry->shop = NULL;
}

idem_status idem__runtime_shop(idem__runtime *runtime, const idem__mcp_shop_opts *opts,
                               idem__mcp_shop **out) {
  idem__loop_hub *entry = find(runtime, opts->server);
  idem__mcp_shop_opts own = *opts;
  idem_status status = entry->shop ? IDEM_OK : open_shop(entry, &own);
  if (status == IDEM_OK)
    entry->shop_users++;
  else
    close_shop(entry);
  *out = entry->shop;
  return status;
}

void idem__runtime_release_shop(idem__runtime *runtime, const idem_server *server) {
  idem__loop_hub *entry = find(runtime, server);
  if (--entry->shop_users == 0) close_shop(entry);
}

/* --------------------------------------------------------------------- ending */

static void on_closed(uv_handle_t *handle) {
  idem__loop_hub *entry = handle->data;
  idem__runtime *runtime = entry->runtime;
  if (--entry->handles) return;
  idem__free(&runtime->alloc, entry);
  idem__runtime_handle_closed(runtime);
}

void idem__runtime_close_hubs(idem__runtime *runtime) {
  while (runtime->hubs) {
    idem__loop_hub *entry = runtime->hubs;
    runtime->hubs = entry->next;
    idem__hub_free(entry->hub);
    entry->hub = NULL;
    uv_close((uv_handle_t *)&entry->async, on_closed);
    uv_close((uv_handle_t *)&entry->timer, on_closed);
  }
}

void idem__runtime_end_subscriptions(idem__runtime *runtime, const idem_server *server) {
  const idem__loop_hub *entry = find(runtime, server);
  if (entry && entry->hub) idem__listeners_close(entry->hub);
}

idem_status idem__runtime_accept(idem__runtime *runtime, idem_server *server,
                                 const idem_conn_opts *opts, idem_conn **out) {
  idem__mcp_hub *hub;
  idem_status status = idem__runtime_hub(runtime, server, &hub);
  return status == IDEM_OK ? idem__hub_accept(hub, opts, NULL, out) : status;
}

/* ----------------------------------------------------------- for handlers */

uv_loop_t *idem_request_loop(const idem_request *request) {
  const idem__context *context = idem__context_of(request);
  if (context && context->hub->wake == wake) {
    const idem__loop_hub *entry = context->hub->wake_user;
    return entry->runtime->loop;
  }
  const idem_conn *conn = idem_request_conn(request);
  return conn ? idem_conn_loop(conn) : NULL;
}

/* ------------------------------------------------------------- for the core */

static void os_random(void *ctx, void *bytes, size_t len) {
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
  opts->random = os_random;
  opts->wall_ms = os_wall_ms;
}
