/* own_loop.c - MCP on an HTTP server that runs in somebody's own loop: worker, sessions and endpoint for one thread.
 * See docs/internals/mcp_http.md. */
#include "mcp_http.h"

#include <idem/mcp_http.h>

#include <stdatomic.h>
#include <string.h>

typedef struct mcp_tenant {
  idem_alloc alloc;
  idem_http_server *http;
  idem__mcp_worker *worker;
  idem__session_table *table;
  idem__mcp_endpoint *endpoint;
  char *message_path;
  atomic_bool woken; /* there is news to deliver */
} mcp_tenant;

static uint64_t tenant_deadline(void *user) {
  mcp_tenant *tenant = user;
  return atomic_load(&tenant->woken) ? 0 : idem__worker_deadline(tenant->worker);
}

static void tenant_expire(void *user, uint64_t now_ms) {
  mcp_tenant *tenant = user;
  if (atomic_exchange(&tenant->woken, false)) idem__worker_deliver(tenant->worker);
  if (idem__worker_deadline(tenant->worker) <= now_ms) idem__worker_expire(tenant->worker, now_ms);
}

static void tenant_free(void *user) {
  mcp_tenant *tenant = user;
  idem_alloc alloc = tenant->alloc;
  idem__mcp_endpoint_free(tenant->endpoint);
  idem__session_table_free(tenant->table);
  idem__worker_free(tenant->worker);
  idem__free(&alloc, tenant->message_path);
  idem__free(&alloc, tenant);
}

static void on_wake(idem__mcp_worker *worker, void *user) {
  mcp_tenant *tenant = user;
  (void)worker;
  if (!atomic_exchange(&tenant->woken, true)) idem__http_server_wake(tenant->http);
}

static idem_status make_endpoint(mcp_tenant *tenant, idem_server *server,
                                 const idem_http_opts *http) {
  idem__session_table_opts table = {.server = server,
                                    .max_sessions = http->max_sessions,
                                    .max_sessions_each = http->max_sessions_each,
                                    .session_idle_ms = http->session_idle_ms,
                                    .stateless_legacy = http->stateless_legacy};
  idem__mcp_endpoint_opts endpoint = {.rpc = idem__http_server_rpc_opts(tenant->http)};
  const char *message = http->message_path && *http->message_path ? http->message_path : "/message";
  tenant->message_path = idem__strndup(&tenant->alloc, message, strlen(message));
  if (!tenant->message_path) return IDEM_E_NOMEM;
  table.metrics = endpoint.rpc.metrics;
  idem_status status = idem__worker_new(server, on_wake, tenant, &tenant->worker);
  if (status == IDEM_OK) status = idem__session_table_new(&table, &tenant->table);
  if (status != IDEM_OK) return status;
  endpoint.table = tenant->table;
  endpoint.worker = tenant->worker;
  endpoint.message_path = tenant->message_path;
  return idem__mcp_endpoint_new(&endpoint, &tenant->endpoint);
}

static idem_status add_routes(const mcp_tenant *tenant, const char *path, idem_server *server,
                              const idem_http_opts *http) {
  const char *sse = http->sse_path ? http->sse_path : "/sse";
  idem_status status = idem__mcp_endpoint_add(tenant->endpoint, tenant->http, path, false, false);
  if (status != IDEM_OK || !*sse || !idem__server_speaks(server, IDEM_MCP_2024_11_05))
    return status;
  return idem__mcp_endpoint_add_sse(tenant->endpoint, tenant->http, sse);
}

/* Once it is the server's it goes with it, whatever comes after. */
idem_status idem_http_server_add_mcp(idem_http_server *http, const char *path, idem_server *server,
                                     const idem_http_opts *opts) {
  static const idem_http_opts defaults = {0};
  idem__http_rpc_opts rpc = idem__http_server_rpc_opts(http);
  mcp_tenant *tenant = idem__calloc(rpc.alloc, sizeof *tenant);
  if (!tenant) return IDEM_E_NOMEM;
  if (!opts) opts = &defaults;
  tenant->alloc = *rpc.alloc;
  tenant->http = http;
  idem_status status = make_endpoint(tenant, server, opts);
  if (status == IDEM_OK)
    status = idem__http_server_own(http, &(idem__http_tenant){.deadline = tenant_deadline,
                                                              .expire = tenant_expire,
                                                              .free = tenant_free,
                                                              .user = tenant});
  if (status != IDEM_OK) {
    tenant_free(tenant);
    return status;
  }
  idem__http_server_limit_work(http, idem_server_router(server));
  return add_routes(tenant, path, server, opts);
}
