/* web.c - HTTP and WebSocket on one loop: the server, the endpoint, timers, and an orderly end.
 * Several loops may serve one port, each with a server like this one; they share the router and the
 * rate limiter. See docs/internals/uv.md. */
#include "uv/web.h"
#include "uv/guard.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define OWN_HOST (sizeof((idem__url *)0)->host + 2)

/* -------------------------------------------------------------------- clock */

uint64_t idem__web_now(idem__web *web) {
  web->now_ns = idem__clock_ns(NULL);
  uint64_t now = web->now_ns / 1000000u;
  if (now / 1000 != web->date_s) {
    web->date_s = now / 1000;
    idem__http_server_set_date(web->server, (uint64_t)time(NULL));
  }
  web->now_ms = now;
  return now;
}

static void trim_server(idem__trim *trim) {
  const idem__web *web = IDEM_CONTAINER(trim, idem__web, trim);
  if (web->count == 0 && web->server) idem__http_server_trim(web->server);
}

/* ------------------------------------------------------------------- stopping */

static void on_news(uv_async_t *async) {
  idem__web *web = async->data;
  idem__crowd_give_way(web);
  idem__workers_reap(web);
  if (web->workers_running == 0) uv_unref((uv_handle_t *)async);
  if (web->stopping) idem__listener_look(web->listener);
}

void idem__web_stop(idem__web *web, int step) {
  web->stopping = true;
  if (step == 0 && web->workers_running > 0) {
    /* The loop must stay alive for the news that the last of them has ended. */
    uv_ref((uv_handle_t *)&web->news);
    idem__workers_stop(web);
  }
  idem__drivers_stop(&web->peers, step);
}

size_t idem__web_count(const idem__web *web) {
  return atomic_load_explicit(&web->first->crowd, memory_order_relaxed);
}
bool idem__web_idle(const idem__web *web) { return web->count == 0 && web->workers_running == 0; }

bool idem__web_works_on(const idem__web *web) {
  const idem__http_rpc *rpc = web->endpoint ? web->endpoint->rpc : web->rpc;
  return rpc && idem__http_rpc_works_on(rpc);
}

static void close_handle(void *user) {
  idem__web *web = user;
  web->guard = NULL;
  web->news.data = web->listener;
  uv_close((uv_handle_t *)&web->news, web->closed);
}

void idem__web_close(idem__web *web, uv_close_cb closed) {
  idem__crowd_leave(web);
  web->closed = closed;
  if (web->guard)
    idem__guard_close(web->guard, close_handle, web);
  else
    close_handle(web);
}

/* Without its handles: they are closed, or never were opened. */
void idem__web_free(idem__web *web) {
  if (!web) return;
  const idem_alloc *alloc = &web->listener->runtime->alloc;
  idem__workers_free(web);
  idem_list_remove(&web->trim.node);
  idem__http_server_free(web->server);
  idem__http_rpc_free(web->rpc);
  idem__mcp_endpoint_free(web->endpoint);
  if (web->holds_sessions)
    idem__runtime_release_sessions(web->listener->runtime, web->listener->opts.server);
  if (web->metrics) idem__web_metrics_remove(web->metrics);
  if (web->own_metrics) idem_metrics_free(web->metrics);
  idem__rates_end(web->rates);
  if (web->own_limiter) idem__limiter_free(web->limiter);
  if (web->own_shares) idem__shares_free(web->shares);
  idem__free(alloc, web->sse_path);
  idem__free(alloc, web->message_path);
  idem__free(alloc, web);
}

/* ------------------------------------------------------------------ /metrics */

static void serve_metrics(idem_http_exchange *exchange, const idem_http_request *request,
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

static _Atomic bool draining; /* of the process */

void idem__web_set_draining(bool now) { atomic_store(&draining, now); }

/* Ready: more may be sent here. */
static const char *health(void *ctx) {
  const idem__web *web = ctx;
  const idem_server *server = web->listener->opts.server;
  if (web->stopping || atomic_load(&draining)) return "stopping";
  return server && idem__server_store_gone(server) ? "store" : NULL;
}

/* ------------------------------------------------------------------- opening */

/* A path that everybody uses may be told; one of the embedder's own may be a secret. */
static bool is_usual(const char *path) {
  return strcmp(path, "/") == 0 || strcmp(path, "/mcp") == 0 || strcmp(path, "/rpc") == 0;
}

/* The transport of 2024-11-05 has two paths of its own, unless somebody else has them. */
static idem_status add_sse(const idem__web *web, const idem__url *url) {
  if (!web->sse_path || url->scheme == IDEM__SCHEME_WS) return IDEM_OK;
  if (strcmp(web->sse_path, url->path) == 0 || strcmp(web->message_path, url->path) == 0)
    return IDEM_OK;
  return idem__mcp_endpoint_add_sse(web->endpoint, web->server, web->sse_path);
}

static idem_status add_protocol(const idem__web *web, const idem__url *url) {
  bool websocket_alone = url->scheme == IDEM__SCHEME_WS, told = is_usual(url->path);
  if (!web->endpoint)
    return idem__http_rpc_add(web->rpc, web->server, url->path, websocket_alone, told);
  idem_status status =
      idem__mcp_endpoint_add(web->endpoint, web->server, url->path, websocket_alone, told);
  return status == IDEM_OK ? add_sse(web, url) : status;
}

static idem_status add_admin(idem__web *web) {
  static const idem__http_binding plain = {0};
  web->admin = (idem__http_admin){.health = health, .health_ctx = web};
  idem_http_route healthz = {.path = "/healthz",
                             .methods = IDEM_HTTP_GET,
                             .serve = idem__http_serve_health,
                             .user = &web->admin,
                             .no_token = true};
  idem_http_route live = healthz;
  live.path = "/healthz/live"; /* whoever answers is */
  live.user = &web->live;
  idem_http_route metrics = {.path = "/metrics", .methods = IDEM_HTTP_GET, .serve = serve_metrics};
  idem_status status = idem__http_server_add(web->server, &healthz, &plain);
  if (status == IDEM_OK) status = idem__http_server_add(web->server, &live, &plain);
  return status == IDEM_OK ? idem__http_server_add(web->server, &metrics, &plain) : status;
}

static idem_status add_routes(idem__web *web, const idem__url *url) {
  static const idem_http_opts defaults = {0};
  const idem_http_opts *http = web->listener->opts.http ? web->listener->opts.http : &defaults;
  bool admin_alone = url->scheme == IDEM__SCHEME_ADMIN;
  idem_status status = admin_alone ? IDEM_OK : add_protocol(web, url);
  if (status == IDEM_OK && (admin_alone || !http->no_admin)) status = add_admin(web);
  for (size_t i = 0; i < http->route_count && !admin_alone && status == IDEM_OK; i++)
    status = idem__http_server_add(web->server, &http->routes[i], NULL);
  if (status == IDEM_OK && web->guard) status = idem__guard_add_routes(web->guard, web->server);
  return status;
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
  idem__rate rate = {"http", http->rate_count, http->rate_seconds ? http->rate_seconds : 1};
  idem_status status = idem__limiter_new(&web->listener->runtime->alloc, rate.count, rate.seconds,
                                         http->rate_clients, idem_random_seed(), &web->limiter);
  idem_server *server = web->listener->opts.server;
  if (status != IDEM_OK || !server) return status;
  return idem__rates_share(server, &rate, web->limiter, &web->rates);
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
    table.max_sessions_each = opts->http->max_sessions_each;
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

static idem_status make_endpoint(idem__web *web) {
  const idem_serve_opts *opts = &web->listener->opts;
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

/* The listener's options, where they say who judges tokens: who is refused by them waits for keys at times. */
static idem_http_opts http_options(const idem__web *web) {
  const idem_http_opts *http = web->listener->opts.http;
  idem_http_opts opts = http ? *http : (idem_http_opts){0};
  if (web->guard && !opts.waiting_ms) opts.waiting_ms = IDEM__GUARD_WAITING_MS;
  return opts;
}

/* As the store says which all nodes share: where that has lost what it held, they agree on another. */
static void key_of_nonces(const void *user, uint8_t key[IDEM__NONCE_KEY_BYTES]) {
  idem__server_derive_key(user, "nonces of proofs", key);
}

static idem_status make_guard(idem__web *web) {
  const idem_listener *listener = web->listener;
  const idem_http_opts *http = listener->opts.http;
  if (!http || !http->auth) return IDEM_OK;
  if (http->principal) return IDEM_E_INVAL;
  idem_status status = idem__guard_new(listener->runtime, http->auth, listener->url,
                                       listener->opts.log, &web->guard);
  if (status != IDEM_OK || !listener->opts.server) return status;
  idem__guard_share_nonces(web->guard, key_of_nonces, listener->opts.server);
  return IDEM_OK;
}

/* What is listened on as a Host header has it; NULL where that is no one address. */
static const char *own_host(const idem__url *url, char text[OWN_HOST]) {
  bool v6 = strchr(url->host, ':') != NULL;
  bool any = strcmp(url->host, "0.0.0.0") == 0 || strcmp(url->host, "::") == 0;
  if (any || !*url->host || strchr(url->host, '%')) return NULL;
  snprintf(text, OWN_HOST, "%s%s%s", v6 ? "[" : "", url->host, v6 ? "]" : "");
  return text;
}

static idem_status make_server(idem__web *web, const idem__url *url, bool loopback, int port) {
  const idem_listener *listener = web->listener;
  idem_http_opts http = http_options(web);
  char host[OWN_HOST];
  idem_status status = idem__http_server_new(
      &(idem__http_server_opts){
          .http = &http,
          .body_bytes = listener->policy.limits.message_bytes,
          .port = port,
          .loopback = loopback,
          .host = own_host(url, host),
          .unknown_id = listener->policy.unknown_id,
          .codes = listener->policy.codes,
          .detail = listener->policy.error_detail,
          .canonical = listener->policy.error_message == IDEM_MESSAGE_CANONICAL,
          .judge = web->guard ? idem__guard_judge : NULL,
          .stays = web->guard ? idem__guard_stays : NULL,
          .judge_user = web->guard,
          .judge_reads = web->guard ? "DPoP" : NULL,
          .judge_says = web->guard ? "DPoP-Nonce" : NULL,
          .challenge = web->guard ? idem__guard_challenge(web->guard) : NULL,
          .challenge_stem = web->guard ? idem__guard_stem(web->guard) : NULL,
          .bound_stem = web->guard ? idem__guard_bound_stem(web->guard) : NULL,
          .shares = web->shares,
          .limiter = web->limiter,
          .unfinished = &listener->runtime->unfinished,
          .now_ns = idem__clock_ns,
          .log = listener->opts.log,
          .metrics = web->metrics,
          .alloc = &listener->runtime->alloc},
      &web->server);
  return status == IDEM_OK ? add_routes(web, url) : status;
}

static void make_handle(idem__web *web) {
  uv_async_init(web->listener->runtime->loop, &web->news, on_news);
  uv_unref((uv_handle_t *)&web->news);
  web->news.data = web;
  idem__crowd_join(web);
}

idem_status idem__web_open(idem_listener *listener, idem__web **out) {
  idem__web *web = idem__calloc(&listener->runtime->alloc, sizeof *web);
  if (!web) return IDEM_E_NOMEM;
  web->listener = listener;
  web->first = listener->first ? listener->first : web;
  idem_list_init(&web->peers);
  web->trim.run = trim_server;
  idem_list_append(&listener->runtime->trims, &web->trim.node);
  idem_list_init(&web->silent.peers);
  idem_list_init(&web->waiting.peers);
  idem__lock_init(&web->loops_lock);
  idem_list_init(&web->loops);
  idem_list_init(&web->loop);
  idem_status status = make_metrics(web);
  if (status == IDEM_OK) status = make_limiter(web);
  if (status == IDEM_OK) status = make_shares(web);
  if (status == IDEM_OK) status = make_endpoint(web);
  if (status != IDEM_OK) {
    idem__web_free(web);
    return status;
  }
  make_handle(web);
  *out = web;
  return IDEM_OK;
}

/* Zeroes are strict on loopback alone: elsewhere they ask nobody who they are, and take any Host. */
static void warn_of_openness(const idem__web *web, bool loopback) {
  const idem_listener *listener = web->listener;
  const idem_http_opts *http = listener->opts.http;
  bool asks = http && (http->tokens || http->auth || http->principal || http->tls_client_ca);
  if (loopback || asks || listener->reuse_port) return;
  idem_logf(listener->opts.log, IDEM_LOG_WARN, "everybody who reaches this may use it",
            "%s: neither tokens nor auth are set%s", listener->url,
            http && http->allow_hosts ? "" : ", nor allow_hosts: pages of any name may ask");
}

idem_status idem__web_started(idem__web *web, const idem__url *url, bool loopback, int port) {
  const idem_listener *listener = web->listener;
  idem_status status = make_guard(web);
  if (status == IDEM_OK) status = make_server(web, url, loopback, port);
  if (status == IDEM_E_INVAL)
    idem_logf(listener->opts.log, IDEM_LOG_ERROR, "cannot serve",
              "%s: a list of hosts, origins, tokens, proxies or routes holds what is none",
              listener->url);
  unsigned workers = listener->opts.http ? listener->opts.http->workers : 1;
  if (status == IDEM_OK) warn_of_openness(web, loopback);
  if (status != IDEM_OK || listener->reuse_port || workers < 2) return status;
  return idem__workers_start(web, url, workers - 1);
}
