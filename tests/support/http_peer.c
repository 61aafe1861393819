/* http_peer.c - see http_peer.h. */
#include "http_peer.h"

#include <stdlib.h>
#include <string.h>

static void echo(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  idem_reply(request, params);
}

static void fail(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_reply_error(request, IDEM_RPC_INTERNAL_ERROR, NULL, NULL);
}

static void forget_slow(idem_request *request, idem_cancel_reason reason, void *user) {
  http_peer *peer = user;
  (void)reason;
  peer->cancelled++;
  for (size_t i = 0; i < peer->slow_count; i++) {
    if (peer->slow[i] != request) continue;
    memmove(peer->slow + i, peer->slow + i + 1, (peer->slow_count - i - 1) * sizeof peer->slow[0]);
    peer->slow_count--;
    break;
  }
  idem_request_drop(request);
}

static void slow(idem_request *request, yyjson_val *params, void *user) {
  http_peer *peer = user;
  (void)params;
  if (peer->slow_count == HTTP_PEER_SLOW) return;
  idem_request_keep(request);
  idem_request_on_cancel(request, forget_slow, peer);
  peer->slow[peer->slow_count++] = request;
}

static void chatty(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  static const char text[] = "{\"n\":1}";
  idem_notify_json(idem_request_conn(request), "note", text, sizeof text - 1);
  idem_reply_json(request, "\"told\"", 6);
}

static void hello(idem_conn *conn, yyjson_val *params, void *user) {
  http_peer *peer = user;
  (void)conn;
  (void)params;
  peer->hellos++;
}

static uint64_t now_ns(void *ctx) { return ((http_peer *)ctx)->now_ms * 1000000u; }

static void on_output(idem_http_conn *conn, void *user) {
  (void)conn;
  ((http_peer *)user)->wakes++;
}

static idem_status make_router(http_peer *peer) {
  idem_status status = idem_router_new(&(idem_router_opts){.alloc = &peer->alloc}, &peer->router);
  if (status == IDEM_OK) status = idem_router_method(peer->router, "echo", echo, peer);
  if (status == IDEM_OK) status = idem_router_method(peer->router, "fail", fail, peer);
  if (status == IDEM_OK) status = idem_router_method(peer->router, "slow", slow, peer);
  if (status == IDEM_OK) status = idem_router_method(peer->router, "chatty", chatty, peer);
  if (status == IDEM_OK) status = idem_router_notification(peer->router, "hello", hello, peer);
  return status;
}

static idem_status make_endpoint(http_peer *peer, const http_peer_opts *opts) {
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.limits.request_ms = opts->request_ms;
  policy.concurrency = opts->concurrency;
  policy.notification_status = opts->notification_status;
  return idem__http_rpc_new(&(idem__http_rpc_opts){.router = peer->router,
                                                   .policy = &policy,
                                                   .rules = opts->rules,
                                                   .limiter = peer->limiter,
                                                   .now_ns = now_ns,
                                                   .clock_ctx = peer,
                                                   .log = opts->log,
                                                   .metrics = peer->metrics,
                                                   .alloc = &peer->alloc},
                            &peer->rpc);
}

static void serve_metrics(idem_http_exchange *exchange, const idem_http_request *request,
                          void *user) {
  const http_peer *peer = user;
  char *text = NULL;
  size_t len = 0;
  (void)request;
  idem_metrics_render(&peer->metrics, 1, &text, &len);
  idem__http_respond_metrics(exchange, text, len);
  idem_metrics_text_free(peer->metrics, text);
}

static idem_status add_routes(http_peer *peer, const http_peer_opts *opts) {
  static const idem__http_binding plain = {0};
  idem__http_binding rpc = {
      .told = !opts->secret_path, .upgrade = idem__http_rpc_upgrade, .rules = opts->rules};
  idem_http_route routes[] = {
      {.path = "/",
       .methods = IDEM_HTTP_POST,
       .serve = idem__http_rpc_serve,
       .user = peer->rpc,
       .allow_headers = opts->allow_headers,
       .allow_prefix = opts->allow_prefix,
       .expose_headers = opts->expose_headers},
      {.path = "/healthz",
       .methods = IDEM_HTTP_GET,
       .serve = idem__http_serve_health,
       .user = &peer->admin,
       .no_token = true},
      {.path = "/metrics", .methods = IDEM_HTTP_GET, .serve = serve_metrics, .user = peer}};
  idem_status status = IDEM_OK;
  for (size_t i = 0; i < 3 && status == IDEM_OK; i++)
    status = idem__http_server_add(peer->server, &routes[i], i == 0 ? &rpc : &plain);
  for (size_t i = 0; opts->http && i < opts->http->route_count && status == IDEM_OK; i++)
    status = idem__http_server_add(peer->server, &opts->http->routes[i], NULL);
  return status;
}

static idem_status make_server(http_peer *peer, const http_peer_opts *opts) {
  idem_status status =
      idem__http_server_new(&(idem__http_server_opts){.http = opts->http,
                                                      .body_bytes = opts->body_bytes,
                                                      .codes = opts->codes,
                                                      .port = 8420,
                                                      .loopback = !opts->not_loopback,
                                                      .host = opts->host,
                                                      .shares = opts->shares,
                                                      .limiter = peer->limiter,
                                                      .now_ns = now_ns,
                                                      .clock_ctx = peer,
                                                      .log = opts->log,
                                                      .metrics = peer->metrics,
                                                      .alloc = &peer->alloc},
                            &peer->server);
  return status == IDEM_OK ? add_routes(peer, opts) : status;
}

static const char *from_address = "127.0.0.1";

idem_status http_peer_reconnect(http_peer *peer) {
  idem__http_conn_free(peer->conn);
  peer->conn = NULL;
  http_peer_forget_output(peer);
  idem__http_conn_opts opts = {.server = peer->server,
                               .peer = "http 127.0.0.1:4242",
                               .on_output = on_output,
                               .user = peer,
                               .now_ms = peer->now_ms};
  idem__view from = {from_address, strlen(from_address)};
  if (!idem__ip_parse(from, &opts.from)) return IDEM_E_INVAL;
  return idem__http_conn_new(&opts, &peer->conn);
}

idem_status http_peer_init(http_peer *peer, const http_peer_opts *opts) {
  static const http_peer_opts defaults = {0};
  if (!opts) opts = &defaults;
  *peer = (http_peer){.now_ms = 1000000};
  peer->alloc = idem__alloc_or_default(opts->alloc);
  from_address = opts->from ? opts->from : "127.0.0.1";
  idem_status status = idem_metrics_new(&peer->alloc, &peer->metrics);
  if (status == IDEM_OK && opts->http && opts->http->rate_count)
    status = idem__limiter_new(&peer->alloc, opts->http->rate_count, opts->http->rate_seconds,
                               opts->http->rate_clients, 7, &peer->limiter);
  if (status == IDEM_OK) status = make_router(peer);
  if (status == IDEM_OK) status = make_endpoint(peer, opts);
  if (status == IDEM_OK) status = make_server(peer, opts);
  return status == IDEM_OK ? http_peer_reconnect(peer) : status;
}

void http_peer_deinit(http_peer *peer) {
  idem__http_conn_free(peer->conn);
  idem__http_server_free(peer->server);
  while (peer->slow_count) idem_request_drop(peer->slow[--peer->slow_count]);
  idem__http_rpc_free(peer->rpc);
  idem_router_free(peer->router);
  idem__limiter_free(peer->limiter);
  idem_metrics_free(peer->metrics);
  free(peer->output);
  peer->output = NULL;
}

static void note(http_peer *peer, idem_status status) {
  if (peer->status == IDEM_OK) peer->status = status;
}

static void collect(http_peer *peer) {
  idem_http_chunk chunk;
  while (peer->conn && idem__http_conn_next_chunk(peer->conn, &chunk)) {
    if (peer->output_cap < peer->output_len + chunk.len + 1) {
      peer->output_cap = 2 * (peer->output_len + chunk.len + 1);
      peer->output = realloc(peer->output, peer->output_cap);
      if (!peer->output) abort();
    }
    memcpy(peer->output + peer->output_len, chunk.data, chunk.len);
    peer->output_len += chunk.len;
    peer->output[peer->output_len] = 0;
    idem__http_chunk_free(peer->conn, &chunk, peer->now_ms);
  }
}

void http_peer_settle(http_peer *peer) {
  collect(peer);
  while (peer->conn && peer->status == IDEM_OK &&
         idem__http_conn_deadline(peer->conn) <= peer->now_ms) {
    note(peer, idem__http_conn_expire(peer->conn, peer->now_ms));
    collect(peer);
  }
}

void http_peer_feed(http_peer *peer, const char *data, size_t len, size_t piece) {
  if (!piece) piece = len;
  while (len && peer->conn && peer->status == IDEM_OK) {
    size_t take = piece < len ? piece : len;
    char *lent = malloc(take); /* so that a sanitizer sees what is kept too long */
    if (!lent) abort();
    memcpy(lent, data, take);
    note(peer, idem__http_conn_feed(peer->conn, lent, take, peer->now_ms));
    free(lent);
    data += take;
    len -= take;
    http_peer_settle(peer);
  }
}

void http_peer_eof(http_peer *peer) {
  note(peer, idem__http_conn_feed_eof(peer->conn, peer->now_ms));
  http_peer_settle(peer);
}

void http_peer_wait(http_peer *peer, uint64_t ms) {
  peer->now_ms += ms;
  http_peer_settle(peer);
}

void http_peer_answer_slow(http_peer *peer) {
  if (!peer->slow_count) return;
  idem_request *request = peer->slow[0];
  memmove(peer->slow, peer->slow + 1, --peer->slow_count * sizeof peer->slow[0]);
  idem_reply_json(request, "\"done\"", 6);
  http_peer_settle(peer);
}

void http_peer_forget_output(http_peer *peer) {
  free(peer->output);
  peer->output = calloc(1, 1);
  if (!peer->output) abort();
  peer->output_len = 0;
  peer->output_cap = 1;
}

/* Not with strstr, which a sanitizer makes read to the end each time. */
size_t http_peer_count(const http_peer *peer, const char *text) {
  size_t count = 0, len = strlen(text);
  const char *at = peer->output, *end = peer->output + peer->output_len;
  while ((at = memmem(at, (size_t)(end - at), text, len))) {
    count++;
    at += len;
  }
  return count;
}
