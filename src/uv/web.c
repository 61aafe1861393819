/* web.c - HTTP and WebSocket on one loop: the server, the endpoint, timers, and an orderly end.
 * Several loops may serve one port, each with a server like this one; they share the router and the
 * rate limiter. See docs/internals/uv.md. */
#include "uv/web.h"

#include <string.h>
#include <time.h>

/* -------------------------------------------------------------------- clock */

uint64_t idem__web_now(idem__web *web) {
  uint64_t now = idem__clock_ms();
  if (now / 1000 != web->date_s) {
    web->date_s = now / 1000;
    idem__http_server_set_date(web->server, (uint64_t)time(NULL));
  }
  return now;
}

/* ------------------------------------------------------------ flush, deadlines */

static void on_prepare(uv_prepare_t *prepare) {
  idem__web *web = prepare->data;
  uv_prepare_stop(prepare);
  while (!idem__list_empty(&web->dirty)) {
    idem__web_peer *peer = IDEM__CONTAINER(web->dirty.next, idem__web_peer, dirty);
    idem__list_remove(&peer->dirty);
    idem__web_peer_settle(peer);
  }
}

void idem__web_mark(idem__web *web, idem__web_peer *peer) {
  if (!idem__list_empty(&peer->dirty)) return;
  idem__list_append(&web->dirty, &peer->dirty);
  uv_prepare_start(&web->flusher, on_prepare);
}

static void on_timer(uv_timer_t *timer) {
  idem__web *web = timer->data;
  uint64_t now = idem__web_now(web);
  idem__timer *first;
  web->armed_ms = UINT64_MAX;
  while ((first = idem__heap_first(&web->deadlines)) && first->at_ms <= now) {
    idem__heap_remove(&web->deadlines, first);
    idem__web_peer_expire(IDEM__CONTAINER(first, idem__web_peer, deadline));
  }
  if (web->count == 0) idem__http_server_trim(web->server);
  idem__web_arm(web);
}

/* Only ever moved forward; a timer that fires too early costs one look. */
void idem__web_arm(idem__web *web) {
  const idem__timer *first = idem__heap_first(&web->deadlines);
  if (!first || first->at_ms >= web->armed_ms) return;
  uint64_t now = idem__clock_ms();
  uv_update_time(web->listener->runtime->loop);
  uv_timer_start(&web->timer, on_timer, first->at_ms > now ? first->at_ms - now : 0, 0);
  web->armed_ms = first->at_ms;
}

/* ------------------------------------------------------------------- stopping */

static void on_worker_ended(uv_async_t *async) {
  idem__web *web = async->data;
  idem__workers_reap(web);
  if (web->workers_running == 0) uv_unref((uv_handle_t *)async);
  if (web->stopping) idem__listener_look(web->listener);
}

static void stop_peer(idem__web_peer *peer, int step) {
  uint64_t now = idem__web_now(peer->web);
  if (step == 2) {
    idem__web_peer_close(peer);
    return;
  }
  peer->busy = true;
  if (step == 0)
    idem__http_conn_close(peer->conn, now);
  else
    idem__http_conn_abort(peer->conn, now);
  peer->busy = false;
  idem__web_peer_settle(peer);
}

void idem__web_stop(idem__web *web, int step) {
  web->stopping = true;
  if (step == 0 && web->workers_running > 0) {
    /* The loop must stay alive for the news that the last of them has ended. */
    uv_ref((uv_handle_t *)&web->worker_ended);
    idem__workers_stop(web);
  }
  for (idem__list *node = web->peers.next, *next; node != &web->peers; node = next) {
    next = node->next;
    stop_peer(IDEM__CONTAINER(node, idem__web_peer, node), step);
  }
}

size_t idem__web_count(const idem__web *web) {
  return atomic_load_explicit(&web->first->crowd, memory_order_relaxed);
}
bool idem__web_idle(const idem__web *web) { return web->count == 0 && web->workers_running == 0; }

void idem__web_close(idem__web *web, uv_close_cb closed) {
  web->flusher.data = web->timer.data = web->worker_ended.data = web->listener;
  uv_close((uv_handle_t *)&web->flusher, closed);
  uv_close((uv_handle_t *)&web->timer, closed);
  uv_close((uv_handle_t *)&web->worker_ended, closed);
}

/* Without its handles: they are closed, or never were opened. */
void idem__web_free(idem__web *web) {
  if (!web) return;
  const idem_alloc *alloc = &web->listener->runtime->alloc;
  idem__workers_free(web);
  idem__web_tls_free(web);
  idem__http_server_free(web->server);
  idem__http_rpc_free(web->rpc);
  idem__mcp_endpoint_free(web->endpoint);
  if (web->holds_sessions)
    idem__runtime_release_sessions(web->listener->runtime, web->listener->opts.server);
  if (web->metrics) idem__web_metrics_remove(web->metrics);
  if (web->own_metrics) idem_metrics_free(web->metrics);
  if (web->own_limiter) idem__limiter_free(web->limiter);
  if (web->own_shares) idem__shares_free(web->shares);
  idem__heap_deinit(&web->deadlines);
  idem__free(alloc, web->path);
  idem__free(alloc, web->sse_path);
  idem__free(alloc, web->message_path);
  idem__free(alloc, web);
}

/* ------------------------------------------------------------------ /metrics */

static void serve_metrics(idem__http_exchange *exchange, const idem__http_request *request,
                          void *user) {
  char *text;
  size_t len;
  idem_metrics *owner;
  (void)request;
  (void)user;
  if (idem__web_metrics_render(&text, &len, &owner) != IDEM_OK) {
    idem__http_respond_metrics(exchange, NULL, 0);
    return;
  }
  idem__http_respond_metrics(exchange, text, len);
  idem_metrics_text_free(owner, text);
  idem__web_metrics_done();
}

static const char *health(void *ctx) {
  const idem__web *web = ctx;
  return web->stopping ? "stopping" : NULL;
}

/* ------------------------------------------------------------------- opening */

/* GET and DELETE are for the sessions of older revisions. */
static idem__http_route mcp_route(idem__web *web, const idem__url *url, const char *path) {
  unsigned methods = IDEM__HTTP_POST | IDEM__HTTP_GET | IDEM__HTTP_DELETE;
  return (idem__http_route){.path = path,
                            .methods = url->scheme == IDEM__SCHEME_WS ? 0 : methods,
                            .token = true,
                            .serve = idem__mcp_serve,
                            .upgrade = idem__mcp_upgrade,
                            .user = web->endpoint,
                            .rules = &idem__mcp_rules};
}

/* The transport of 2024-11-05 has two paths of its own, unless somebody else has them. */
static size_t add_sse_routes(idem__web *web, const idem__url *url, const char *path, size_t count) {
  if (!web->sse_path || url->scheme == IDEM__SCHEME_WS) return count;
  if (strcmp(web->sse_path, path) == 0 || strcmp(web->message_path, path) == 0) return count;
  idem__http_route route = {.token = true, .user = web->endpoint, .rules = &idem__mcp_rules};
  route.path = web->sse_path;
  route.methods = IDEM__HTTP_GET;
  route.serve = idem__mcp_serve_sse;
  web->routes[count++] = route;
  route.path = web->message_path;
  route.methods = IDEM__HTTP_POST;
  route.serve = idem__mcp_serve_message;
  web->routes[count++] = route;
  return count;
}

/* A path that everybody uses may be told; one of the embedder's own may be a secret. */
static bool is_usual(const char *path) {
  return strcmp(path, "/") == 0 || strcmp(path, "/mcp") == 0 || strcmp(path, "/rpc") == 0;
}

static size_t make_routes(idem__web *web, const idem__url *url, const char *path) {
  const idem_http_opts *http = web->listener->opts.http;
  size_t count = 0;
  if (url->scheme != IDEM__SCHEME_ADMIN && web->endpoint) {
    web->routes[count++] = mcp_route(web, url, path);
    count = add_sse_routes(web, url, path, count);
  } else if (url->scheme != IDEM__SCHEME_ADMIN) {
    web->routes[count++] =
        (idem__http_route){.path = path,
                           .methods = url->scheme == IDEM__SCHEME_WS ? 0 : IDEM__HTTP_POST,
                           .token = true,
                           .serve = idem__http_rpc_serve,
                           .upgrade = idem__http_rpc_upgrade,
                           .user = web->rpc};
  }
  if (count) web->routes[0].told = is_usual(path);
  if (url->scheme != IDEM__SCHEME_ADMIN && http && http->no_admin) return count;
  web->admin = (idem__http_admin){.health = health, .health_ctx = web};
  web->routes[count++] = (idem__http_route){.path = "/healthz",
                                            .methods = IDEM__HTTP_GET,
                                            .serve = idem__http_serve_health,
                                            .user = &web->admin};
  web->routes[count++] = (idem__http_route){
      .path = "/metrics", .methods = IDEM__HTTP_GET, .token = true, .serve = serve_metrics};
  return count;
}

static idem_status make_metrics(idem__web *web) {
  const idem_serve_opts *opts = &web->listener->opts;
  idem_metrics *metrics = opts->metrics;
  idem_status status = IDEM_OK;
  if (!metrics) {
    status = idem_metrics_new(&web->listener->runtime->alloc, &metrics);
    web->own_metrics = status == IDEM_OK;
    const idem_router *router = opts->server ? idem_server_router(opts->server) : opts->router;
    if (status == IDEM_OK && router) status = idem_router_label(router, metrics);
  }
  web->metrics = metrics;
  return status == IDEM_OK ? idem__web_metrics_add(metrics) : status;
}

static idem_status make_limiter(idem__web *web) {
  const idem_http_opts *http = web->listener->opts.http;
  if (web->first != web) {
    web->limiter = web->first->limiter;
    return IDEM_OK;
  }
  if (!http || !http->rate_count) return IDEM_OK;
  web->own_limiter = true;
  return idem__limiter_new(&web->listener->runtime->alloc, http->rate_count,
                           http->rate_seconds ? http->rate_seconds : 1, http->rate_clients,
                           idem_random_seed(), &web->limiter);
}

static idem_status make_shares(idem__web *web) {
  const idem_serve_opts *opts = &web->listener->opts;
  if (web->first != web) {
    web->shares = web->first->shares;
    return IDEM_OK;
  }
  web->own_shares = true;
  return idem__shares_new(&web->listener->runtime->alloc, opts->client_connections,
                          idem_random_seed(), &web->shares);
}

static idem_status make_sessions(idem__web *web) {
  const idem_serve_opts *opts = &web->listener->opts;
  if (web->first != web) {
    web->table = web->first->table;
    return IDEM_OK;
  }
  idem__session_table_opts table = {.server = opts->server, .metrics = opts->metrics};
  if (opts->http) {
    table.max_sessions = opts->http->max_sessions;
    table.session_idle_ms = opts->http->session_idle_ms;
    table.stateless_legacy = opts->http->stateless_legacy;
  }
  idem_status status = idem__runtime_sessions(web->listener->runtime, &table, &web->table);
  web->holds_sessions = status == IDEM_OK;
  return status;
}

/* Without 2024-11-05 its transport is not served. */
static idem_status set_sse_paths(idem__web *web) {
  const idem_serve_opts *opts = &web->listener->opts;
  const idem_alloc *alloc = &web->listener->runtime->alloc;
  const char *sse = opts->http ? opts->http->sse_path : NULL;
  const char *message = opts->http ? opts->http->message_path : NULL;
  if (sse && !*sse) return IDEM_OK;
  if (!idem__server_speaks(opts->server, IDEM_MCP_2024_11_05)) return IDEM_OK;
  if (!sse) sse = "/sse";
  if (!message || !*message) message = "/message";
  if (*sse != '/' || *message != '/' || strcmp(sse, message) == 0) return IDEM_E_INVAL;
  web->sse_path = idem__strndup(alloc, sse, strlen(sse));
  web->message_path = idem__strndup(alloc, message, strlen(message));
  return web->sse_path && web->message_path ? IDEM_OK : IDEM_E_NOMEM;
}

static idem_status make_mcp_endpoint(idem__web *web, const idem__http_rpc_opts *rpc) {
  idem__mcp_endpoint_opts endpoint = {.rpc = *rpc};
  idem_status status =
      idem__runtime_worker(web->listener->runtime, web->listener->opts.server, &endpoint.worker);
  if (status == IDEM_OK) status = make_sessions(web);
  if (status == IDEM_OK) status = set_sse_paths(web);
  endpoint.message_path = web->message_path;
  endpoint.table = web->table;
  return status == IDEM_OK ? idem__mcp_endpoint_new(&endpoint, &web->endpoint) : status;
}

static void limit_work(const idem_serve_opts *opts) {
  idem_router *router =
      opts->server ? idem_server_router(opts->server) : (idem_router *)(uintptr_t)opts->router;
  if (router && opts->http)
    idem__router_limit_work(router, opts->http->max_in_flight, opts->http->max_in_flight_client,
                            opts->http->max_in_flight_session);
}

static idem_status make_endpoint(idem__web *web) {
  const idem_serve_opts *opts = &web->listener->opts;
  limit_work(opts);
  idem__runtime *runtime = web->listener->runtime;
  idem__http_rpc_opts rpc = {.router = opts->router,
                             .policy = &web->listener->policy,
                             .pool = runtime->pool,
                             .limiter = web->limiter,
                             .stream_ms = opts->http ? opts->http->stream_ms : 0,
                             .now_ns = idem__clock_ns,
                             .host = runtime->loop,
                             .log = opts->log,
                             .metrics = web->metrics,
                             .alloc = &runtime->alloc,
                             .seed = idem_random_seed()};
  return opts->server ? make_mcp_endpoint(web, &rpc) : idem__http_rpc_new(&rpc, &web->rpc);
}

static idem_status make_hub(idem__web *web, const idem__url *url, bool loopback, int port) {
  const idem_listener *listener = web->listener;
  web->path = idem__strndup(&listener->runtime->alloc, url->path, strlen(url->path));
  if (!web->path) return IDEM_E_NOMEM;
  size_t count = make_routes(web, url, web->path);
  return idem__http_server_new(
      &(idem__http_server_opts){.http = listener->opts.http,
                                .routes = web->routes,
                                .route_count = count,
                                .body_bytes = listener->policy.limits.message_bytes,
                                .port = port,
                                .loopback = loopback,
                                .unknown_id = listener->policy.unknown_id,
                                .shares = web->shares,
                                .now_ns = idem__clock_ns,
                                .log = listener->opts.log,
                                .metrics = web->metrics,
                                .alloc = &listener->runtime->alloc},
      &web->server);
}

static void make_handles(idem__web *web) {
  uv_loop_t *loop = web->listener->runtime->loop;
  uv_prepare_init(loop, &web->flusher);
  uv_timer_init(loop, &web->timer);
  uv_async_init(loop, &web->worker_ended, on_worker_ended);
  uv_unref((uv_handle_t *)&web->timer);
  uv_unref((uv_handle_t *)&web->worker_ended);
  web->flusher.data = web->timer.data = web->worker_ended.data = web;
}

idem_status idem__web_open(idem_listener *listener, const idem__url *url, idem__web **out) {
  idem__web *web = idem__calloc(&listener->runtime->alloc, sizeof *web);
  if (!web) return IDEM_E_NOMEM;
  web->listener = listener;
  web->first = listener->first ? listener->first : web;
  web->armed_ms = UINT64_MAX;
  idem__list_init(&web->peers);
  idem__list_init(&web->dirty);
  idem__list_init(&web->silent);
  idem__list_init(&web->waiting);
  idem__heap_init(&web->deadlines, &listener->runtime->alloc);
  idem_status status = make_metrics(web);
  if (status == IDEM_OK) status = make_limiter(web);
  if (status == IDEM_OK) status = make_shares(web);
  if (status == IDEM_OK) status = make_endpoint(web);
  if (status != IDEM_OK) {
    idem__web_free(web);
    return status;
  }
  if (url->tls) status = idem__web_tls_open(web);
  if (status != IDEM_OK) {
    idem__web_free(web);
    return status;
  }
  make_handles(web);
  *out = web;
  return IDEM_OK;
}

idem_status idem__web_started(idem__web *web, const idem__url *url, bool loopback, int port) {
  const idem_listener *listener = web->listener;
  idem_status status = make_hub(web, url, loopback, port);
  if (status == IDEM_E_INVAL)
    idem_logf(listener->opts.log, IDEM_LOG_ERROR, "cannot serve",
              "%s: a list of hosts, origins, tokens or proxies holds what is none", listener->url);
  unsigned workers = listener->opts.http ? listener->opts.http->workers : 1;
  if (status != IDEM_OK || listener->reuse_port || workers < 2) return status;
  return idem__workers_start(web, url, workers - 1);
}
