/* own_loop.c - the HTTP server as people with a loop of their own have it: the clock is a hook, and what is served on
 * top has its time with the server. See docs/internals/http.md. */
#include "conn.h"
#include "rpc_endpoint.h"

#include <string.h>

static uint64_t now_ms(const idem_http_server *server) {
  return server->now_ns(server->clock_ctx) / 1000000u;
}

/* ------------------------------------------------------------------ server */

static idem_status make_limiter(const idem_http_server_opts *opts, idem__limiter **out) {
  const idem_http_opts *http = opts->http;
  *out = NULL;
  if (!http || !http->rate_count) return IDEM_OK;
  return idem__limiter_new(opts->alloc, http->rate_count,
                           http->rate_seconds ? http->rate_seconds : 1, http->rate_clients,
                           opts->seed, out);
}

static idem_status add_routes(idem_http_server *server, const idem_http_opts *http) {
  idem_status status = IDEM_OK;
  for (size_t i = 0; http && i < http->route_count && status == IDEM_OK; i++)
    status = idem__http_server_add(server, &http->routes[i], NULL);
  return status;
}

static void keep_for_tenants(idem_http_server *server, const idem_http_server_opts *opts) {
  server->seed = opts->seed;
  server->wake = opts->wake;
  server->wake_user = opts->wake_user;
  if (!opts->http) return;
  server->in_flight[0] = opts->http->max_in_flight;
  server->in_flight[1] = opts->http->max_in_flight_client;
  server->in_flight[2] = opts->http->max_in_flight_session;
}

idem_status idem_http_server_new(const idem_http_server_opts *opts, idem_http_server **out) {
  idem__limiter *limiter;
  *out = NULL;
  if (!opts->now_ns) return IDEM_E_INVAL;
  idem_status status = make_limiter(opts, &limiter);
  if (status != IDEM_OK) return status;
  status = idem__http_server_new(&(idem__http_server_opts){.http = opts->http,
                                                           .body_bytes = opts->body_bytes,
                                                           .port = opts->port,
                                                           .loopback = opts->loopback,
                                                           .limiter = limiter,
                                                           .now_ns = opts->now_ns,
                                                           .clock_ctx = opts->clock_ctx,
                                                           .log = opts->log,
                                                           .metrics = opts->metrics,
                                                           .alloc = opts->alloc},
                                 out);
  if (status != IDEM_OK) {
    idem__limiter_free(limiter);
    return status;
  }
  (*out)->own_limiter = limiter;
  keep_for_tenants(*out, opts);
  status = add_routes(*out, opts->http);
  if (status == IDEM_OK) return IDEM_OK;
  idem_http_server_free(*out);
  *out = NULL;
  return status;
}

void idem_http_server_free(idem_http_server *server) { idem__http_server_free(server); }

idem_status idem_http_server_add_route(idem_http_server *server, const idem_http_route *route) {
  return idem__http_server_add(server, route, NULL);
}

void idem_http_server_set_date(idem_http_server *server, uint64_t unix_seconds) {
  idem__http_server_set_date(server, unix_seconds);
}

/* ------------------------------------------------------------------ tenants */

idem_status idem__http_server_own(idem_http_server *server, const idem__http_tenant *tenant) {
  idem__http_tenant *one = idem__malloc(&server->alloc, sizeof *one);
  if (!one) return IDEM_E_NOMEM;
  *one = *tenant;
  one->next = server->tenants;
  server->tenants = one;
  return IDEM_OK;
}

void idem__http_tenants_free(idem_http_server *server) {
  while (server->tenants) {
    idem__http_tenant *one = server->tenants;
    server->tenants = one->next;
    one->free(one->user);
    idem__free(&server->alloc, one);
  }
  idem__limiter_free(server->own_limiter);
  server->own_limiter = NULL;
}

uint64_t idem_http_server_deadline(const idem_http_server *server) {
  uint64_t at = UINT64_MAX;
  for (const idem__http_tenant *one = server->tenants; one; one = one->next) {
    uint64_t its = one->deadline(one->user);
    if (its < at) at = its;
  }
  return at;
}

void idem_http_server_expire(idem_http_server *server) {
  uint64_t now = now_ms(server);
  for (const idem__http_tenant *one = server->tenants; one; one = one->next)
    one->expire(one->user, now);
}

void idem__http_server_wake(const idem_http_server *server) {
  if (server->wake) server->wake(server->wake_user);
}

void idem__http_server_limit_work(const idem_http_server *server, idem_router *router) {
  idem__router_limit_work(router, server->in_flight[0], server->in_flight[1], server->in_flight[2]);
}

/* ---------------------------------------------------------------- JSON-RPC */

static uint64_t rpc_deadline(void *user) { return idem__http_rpc_deadline(user); }
static void rpc_expire(void *user, uint64_t at_ms) {
  if (idem__http_rpc_deadline(user) <= at_ms) idem__http_rpc_tend(user, at_ms);
}
static void rpc_free(void *user) { idem__http_rpc_free(user); }

idem__http_rpc_opts idem__http_server_rpc_opts(const idem_http_server *server) {
  return (idem__http_rpc_opts){.limiter = server->limiter,
                               .stream_ms = server->stream_ms,
                               .now_ns = server->now_ns,
                               .clock_ctx = server->clock_ctx,
                               .log = server->log,
                               .metrics = server->metrics,
                               .alloc = &server->alloc,
                               .seed = server->seed};
}

idem_status idem_http_server_add_router(idem_http_server *server, const char *path,
                                        const idem_router *router, const idem_policy *policy) {
  idem__http_rpc_opts opts = idem__http_server_rpc_opts(server);
  idem__http_rpc *rpc;
  opts.router = router;
  opts.policy = policy;
  idem_status status = idem__http_rpc_new(&opts, &rpc);
  if (status != IDEM_OK) return status;
  idem__http_tenant tenant = {
      .deadline = rpc_deadline, .expire = rpc_expire, .free = rpc_free, .user = rpc};
  status = idem__http_server_own(server, &tenant);
  if (status != IDEM_OK) {
    idem__http_rpc_free(rpc);
    return status;
  }
  idem__http_server_limit_work(server, (idem_router *)(uintptr_t)router);
  return idem__http_rpc_add(rpc, server, path, false, false);
}

/* -------------------------------------------------------------------- conns */

idem_status idem_http_conn_new(idem_http_server *server, const idem_http_conn_opts *opts,
                               idem_http_conn **out) {
  idem__http_conn_opts own = {.server = server, .now_ms = now_ms(server)};
  *out = NULL;
  own.peer = opts->peer ? opts->peer : opts->address;
  own.on_output = opts->on_output;
  own.user = opts->user;
  if (opts->address &&
      !idem__ip_parse((idem__view){opts->address, strlen(opts->address)}, &own.from))
    return IDEM_E_INVAL;
  return idem__http_conn_new(&own, out);
}

void idem_http_conn_free(idem_http_conn *conn) { idem__http_conn_free(conn); }
void *idem_http_conn_user(const idem_http_conn *conn) { return idem__http_conn_user(conn); }

idem_status idem_http_conn_feed(idem_http_conn *conn, const char *data, size_t len) {
  return idem__http_conn_feed(conn, data, len, now_ms(conn->server));
}
idem_status idem_http_conn_feed_eof(idem_http_conn *conn) {
  return idem__http_conn_feed_eof(conn, now_ms(conn->server));
}
bool idem_http_conn_want_read(const idem_http_conn *conn) {
  return idem__http_conn_want_read(conn);
}

bool idem_http_conn_next_chunk(idem_http_conn *conn, idem_http_chunk *chunk) {
  return idem__http_conn_next_chunk(conn, chunk);
}
void idem_http_chunk_free(idem_http_conn *conn, idem_http_chunk *chunk) {
  idem__http_chunk_free(conn, chunk, conn ? now_ms(conn->server) : 0);
}

uint64_t idem_http_conn_deadline(const idem_http_conn *conn) {
  return idem__http_conn_deadline(conn);
}
idem_status idem_http_conn_expire(idem_http_conn *conn) {
  return idem__http_conn_expire(conn, now_ms(conn->server));
}
void idem_http_conn_close(idem_http_conn *conn) {
  idem__http_conn_close(conn, now_ms(conn->server));
}
void idem_http_conn_abort(idem_http_conn *conn) {
  idem__http_conn_abort(conn, now_ms(conn->server));
}
bool idem_http_conn_closing(const idem_http_conn *conn) { return idem__http_conn_closing(conn); }
bool idem_http_conn_finished(const idem_http_conn *conn) { return idem__http_conn_finished(conn); }
