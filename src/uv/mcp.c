/* mcp.c - an MCP server on a loop: one hub for each server and loop, woken from any thread.
 * Its handle never keeps the loop alive. */
#include "uv/runtime.h"

#include "mcp/mcp.h"

#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

struct idem__loop_hub {
  idem__loop_hub *next;
  idem__runtime *runtime;
  idem_server *server;
  idem__mcp_hub *hub;
  uv_async_t async;
};

static void on_async(uv_async_t *async) {
  idem__loop_hub *entry = async->data;
  if (entry->hub) idem__hub_deliver(entry->hub);
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

idem_status idem__runtime_hub(idem__runtime *runtime, idem_server *server, idem__mcp_hub **out) {
  idem__loop_hub *entry = find(runtime, server);
  if (entry) {
    *out = entry->hub;
    return IDEM_OK;
  }
  entry = idem__calloc(&runtime->alloc, sizeof *entry);
  if (!entry) return IDEM_E_NOMEM;
  entry->runtime = runtime;
  entry->server = server;
  entry->async.data = entry;
  idem_status status =
      uv_async_init(runtime->loop, &entry->async, on_async) == 0 ? IDEM_OK : IDEM_E_SYS;
  if (status != IDEM_OK) {
    idem__free(&runtime->alloc, entry);
    return status;
  }
  uv_unref((uv_handle_t *)&entry->async);
  runtime->open_handles++;
  entry->next = runtime->hubs;
  runtime->hubs = entry;
  status = idem__hub_new(server, wake, entry, &entry->hub);
  *out = entry->hub;
  return status;
}

static void on_closed(uv_handle_t *handle) {
  idem__loop_hub *entry = handle->data;
  idem__runtime *runtime = entry->runtime;
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
