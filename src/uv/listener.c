/* listener.c - serving an address: from idem_serve to the end of the last peer.
 * Stopping has three steps: what runs may finish, then it is answered with an error, then whoever
 * does not read that is cut off. */
#include "mcp_server/server.h"
#include "uv/clients.h"
#include "uv/tls_files.h"

#include <string.h>
#include <unistd.h>

#define DEFAULT_MAX_CONNECTIONS 1000
#define LAST_FLUSH_MS 200
#define LEAST_SHARE 8
#define PROBE_MS 15000
#define HOLD_MS (UINT64_C(24) * 60 * 60 * 1000) /* longer than any grace */

static bool is_web(idem__scheme scheme) {
  return scheme == IDEM__SCHEME_HTTP || scheme == IDEM__SCHEME_WS || scheme == IDEM__SCHEME_ADMIN;
}

bool idem__url_is_web(const char *text) {
  idem__url url;
  return idem__url_parse(text, &url) == IDEM_OK && is_web(url.scheme);
}

IDEM__EARLY bool idem__url_counts(const char *text, const idem_serve_opts *opts) {
  idem__url url;
  if (idem__url_parse(text, &url) != IDEM_OK || !is_web(url.scheme)) return false;
  return url.scheme == IDEM__SCHEME_ADMIN || !opts->http || !opts->http->no_admin;
}

/* ------------------------------------------------------------------------ freeing */

static void free_listener(idem_listener *listener) {
  idem__runtime *runtime = listener->runtime;
  idem__web_free(listener->web);
  idem__tls_files_free(listener->tls);
  idem__clients_free(listener->clients);
  if (listener->counted) idem__web_metrics_remove(listener->opts.metrics);
  idem_alloc alloc = runtime->alloc;
  idem__free(&alloc, listener->url);
  idem__free(&alloc, listener);
  idem__runtime_release(runtime);
}

static void on_handle_closed(uv_handle_t *handle) {
  idem_listener *listener = handle->data;
  if (--listener->open_handles > 0) return;
  void (*stopped)(void *user) = listener->stopped;
  void *user = listener->stopped_user;
  free_listener(listener);
  if (stopped) stopped(user);
}

static void on_point_closed(uv_handle_t *handle) {
  idem__accept_point *point = handle->data;
  handle->data = point->listener;
  on_handle_closed(handle);
}

static void stop_accepting(idem_listener *listener) {
  for (size_t i = 0; i < listener->point_count; i++) {
    uv_close((uv_handle_t *)&listener->points[i].poll, on_point_closed);
    close(listener->points[i].fd);
  }
  listener->point_count = 0;
  uv_timer_stop(&listener->retry);
  idem__listener_unlink(listener);
}

/* Calls whose connection is gone, and which go on since their clients may come back, have the grace, too. */
static bool works_on(const idem_listener *listener) {
  if (!listener->web || listener->grace_step > 0) return false;
  const idem_server *server = listener->opts.server;
  return idem__web_works_on(listener->web) ||
         (server && idem__runtime_works(listener->runtime, server));
}

static void close_when_idle(idem_listener *listener);
static void on_held(uv_timer_t *timer) { close_when_idle(timer->data); }

/* The worker has a word for it when some of that has ended. Its handle does not keep the loop alive; the timer, which nobody needs for
 * accepting any more, does. */
static void await_rest(idem_listener *listener) {
  idem__runtime_await_rest(listener->runtime, listener->opts.server, listener);
  uv_timer_start(&listener->retry, on_held, HOLD_MS, 0);
}

static void close_when_idle(idem_listener *listener) {
  if (!listener->stopping || listener->closing || !idem_list_empty(&listener->peers)) return;
  if (listener->web && !idem__web_idle(listener->web)) return;
  if (works_on(listener)) {
    await_rest(listener);
    return;
  }
  listener->closing = true;
  idem_list_leave(&listener->resting);
  if (listener->web) idem__web_close(listener->web, on_handle_closed);
  uv_close((uv_handle_t *)&listener->retry, on_handle_closed);
  uv_close((uv_handle_t *)&listener->grace, on_handle_closed);
}

void idem__listener_look(idem_listener *listener) { close_when_idle(listener); }

void idem__listener_peer_gone(idem_listener *listener) {
  listener->peer_count--;
  if (idem_list_empty(&listener->peers)) uv_timer_stop(&listener->grace);
  close_when_idle(listener);
}

/* -------------------------------------------------------------------------- grace */

static void on_grace(uv_timer_t *timer) {
  idem_listener *listener = timer->data;
  if (++listener->grace_step == 1) {
    idem__drivers_stop(&listener->peers, 1);
    if (listener->web) idem__web_stop(listener->web, 1);
    uv_timer_start(timer, on_grace, LAST_FLUSH_MS, 0);
  } else {
    idem__drivers_stop(&listener->peers, 2);
    if (listener->web) idem__web_stop(listener->web, 2);
  }
  close_when_idle(listener); /* what works on without a connection has had its time */
}

void idem__listener_begin_grace(idem_listener *listener) {
  if (uv_is_active((uv_handle_t *)&listener->grace) || listener->grace_step > 0) return;
  uv_update_time(listener->runtime->loop);
  uv_timer_start(&listener->grace, on_grace, listener->opts.grace_ms, 0);
}

void idem_listener_stop(idem_listener *listener, void (*stopped)(void *user), void *user) {
  if (listener->stopping) return;
  if (listener->web) idem__listener_accept_last(listener);
  listener->stopping = true;
  listener->stopped = stopped;
  listener->stopped_user = user;
  stop_accepting(listener);
  if (listener->opts.server) {
    idem__runtime_end_subscriptions(listener->runtime, listener->opts.server);
  }
  if (!idem_list_empty(&listener->peers) || listener->web) idem__listener_begin_grace(listener);
  idem__drivers_stop(&listener->peers, 0);
  if (listener->web) idem__web_stop(listener->web, 0);
  close_when_idle(listener);
}

void idem__listener_input_ended(idem_listener *listener) {
  if (listener->scheme != IDEM__SCHEME_STDIO) return;
  idem_log_write(listener->opts.log,
                 &(idem_log_record){.level = IDEM_LOG_INFO,
                                    .message = "stdin closed, shutting down gracefully"});
  idem__listener_begin_grace(listener);
  if (listener->on_finish) listener->on_finish(listener->finish_user);
}

void idem__listener_end_failed(idem_listener *listener) {
  bool alone = listener->scheme == IDEM__SCHEME_STDIO;
  if (alone && listener->on_failure) listener->on_failure(listener->finish_user);
}

void idem__listener_shutdown_asked(idem_listener *listener) {
  bool ends = listener->scheme == IDEM__SCHEME_STDIO || listener->opts.shutdown_ends_server;
  if (ends && listener->on_finish) listener->on_finish(listener->finish_user);
}

/* -------------------------------------------------------------------------- serving */

/* Who has ended its input and is owed an answer is asked for as often as event streams get their comments. */
static uint64_t choose_probe(const idem_http_opts *http) {
  uint64_t ms = http && http->stream_ms ? http->stream_ms : PROBE_MS;
  return ms > 1000000 ? 0 : ms;
}

static void settle_options(idem_listener *listener, const idem__url *url,
                           const idem_serve_opts *opts) {
  listener->opts = *opts;
  if (!listener->opts.grace_ms) listener->opts.grace_ms = IDEM__GRACE_MS;
  if (!listener->opts.max_connections) listener->opts.max_connections = DEFAULT_MAX_CONNECTIONS;
  size_t quarter = listener->opts.max_connections / 4;
  if (!listener->opts.client_connections)
    listener->opts.client_connections = quarter > LEAST_SHARE ? quarter : LEAST_SHARE;
  size_t unfinished = opts->http ? opts->http->unfinished_bytes : 0;
  listener->unfinished_bytes = unfinished ? unfinished : IDEM__UNFINISHED_BYTES;
  listener->probe_ms = choose_probe(opts->http);
  listener->policy =
      opts->policy ? *opts->policy
                   : idem_policy_preset(opts->server ? IDEM_PROFILE_MCP : IDEM_PROFILE_JSONRPC);
  if (opts->server && !opts->policy) listener->policy.codes = idem__server_codes(opts->server);
  listener->opts.policy = &listener->policy;
  if (url->content_length) listener->policy.framing = IDEM_FRAMING_CONTENT_LENGTH;
  if (url->scheme == IDEM__SCHEME_STDIO) {
    listener->policy.limits.idle_ms = 0; /* a host may well say nothing for an hour */
  } else {
    listener->policy.guard_http = true;
  }
}

static idem_status new_listener(idem__runtime *runtime, const char *text, const idem__url *url,
                                const idem_serve_opts *opts, idem_listener **out) {
  idem_listener *listener = idem__calloc(&runtime->alloc, sizeof *listener);
  if (!listener) return IDEM_E_NOMEM;
  listener->url = idem__strndup(&runtime->alloc, text, strlen(text));
  if (!listener->url) {
    idem__free(&runtime->alloc, listener);
    return IDEM_E_NOMEM;
  }
  listener->runtime = runtime;
  listener->scheme = url->scheme;
  idem_list_init(&listener->peers);
  settle_options(listener, url, opts);
  uv_timer_init(runtime->loop, &listener->retry);
  uv_timer_init(runtime->loop, &listener->grace);
  listener->retry.data = listener->grace.data = listener;
  listener->open_handles = 2;
  idem_list_init(&listener->resting);
  *out = listener;
  return IDEM_OK;
}

static idem_status open_clients(idem_listener *listener) {
  idem_status status = idem__clients_new(listener, &listener->clients);
  if (status == IDEM_E_INVAL)
    idem__listener_tell(listener, IDEM_LOG_ERROR, "cannot serve ",
                        "a trusted proxy is no address of one");
  return status;
}

/* What is counted for a listener without HTTP is seen at /metrics, too. */
static void show_metrics(idem_listener *listener) {
  idem_metrics *metrics = listener->opts.metrics;
  listener->counted = metrics && idem__web_metrics_add(metrics) == IDEM_OK;
}

/* A rate limit holds for whoever is on stdin, too. */
static idem_status open_stdio(idem_listener *listener) {
  const idem_http_opts *http = listener->opts.http;
  idem_status status = http && http->rate_count ? open_clients(listener) : IDEM_OK;
  return status == IDEM_OK ? idem__stdio_open(listener) : status;
}

static idem_status open_listener(idem_listener *listener, const idem__url *url) {
  if (!is_web(url->scheme)) show_metrics(listener);
  if (url->scheme == IDEM__SCHEME_STDIO) return open_stdio(listener);
  idem_status status = IDEM_OK;
  if (url->tls) status = idem__tls_files_open(listener, &listener->tls);
  if (status == IDEM_OK && is_web(url->scheme)) {
    status = idem__web_open(listener, &listener->web);
    listener->open_handles += status == IDEM_OK; /* for its handle */
  } else if (status == IDEM_OK) {
    status = open_clients(listener);
  }
  if (status != IDEM_OK) return status;
  return idem__listener_bind(listener, url);
}

IDEM__EARLY void idem__listener_tell(const idem_listener *listener, idem_log_level level,
                                     const char *what, const char *detail) {
  char line[512];
  idem_buf text;
  idem_buf_fixed(&text, line, sizeof line - 1);
  if (idem_buf_put(&text, what, strlen(what)) != IDEM_OK ||
      idem_text_escape(&text, listener->url, strlen(listener->url), 400) != IDEM_OK) {
    return;
  }
  line[text.len] = 0;
  idem_log_write(listener->opts.log, &(idem_log_record){.level = level,
                                                        .message = line,
                                                        .detail = detail,
                                                        .detail_len = detail ? strlen(detail) : 0});
}

/* They hold wherever the requests come from. */
static void limit_work(const idem_serve_opts *opts) {
  idem_router *router =
      opts->server ? idem_server_router(opts->server) : (idem_router *)(uintptr_t)opts->router;
  if (router && opts->http)
    idem__router_limit_work(router, opts->http->max_in_flight, opts->http->max_in_flight_client,
                            opts->http->max_in_flight_session);
}

static IDEM__EARLY idem_status serve(uv_loop_t *loop, const char *text, const idem_serve_opts *opts,
                                     idem__web *first, idem_listener **out) {
  idem__url url;
  *out = NULL;
  if (idem__url_parse(text, &url) != IDEM_OK || url.scheme == IDEM__SCHEME_EXEC)
    return IDEM_E_INVAL;
  idem__runtime *runtime;
  idem_status status = idem__store_join(opts);
  if (status == IDEM_OK) status = idem__runtime_get(loop, opts->alloc, &runtime);
  if (status != IDEM_OK) return status;
  idem_listener *listener;
  status = new_listener(runtime, text, &url, opts, &listener);
  if (status != IDEM_OK) {
    idem__runtime_release(runtime);
    return status;
  }
  if (!first) limit_work(opts);
  listener->reuse_port = first != NULL;
  listener->first = first;
  status = open_listener(listener, &url);
  if (status != IDEM_OK) {
    idem_listener_stop(listener, NULL, NULL);
    return status;
  }
  if (!first) idem__listener_tell(listener, IDEM_LOG_INFO, "listening on ", NULL);
  *out = listener;
  return IDEM_OK;
}

idem_status idem_serve(uv_loop_t *loop, const char *url, const idem_serve_opts *opts,
                       idem_listener **out) {
  return serve(loop, url, opts, NULL, out);
}

idem_status idem__serve_worker(uv_loop_t *loop, const char *url, const idem_serve_opts *opts,
                               idem__web *first, idem_listener **out) {
  return serve(loop, url, opts, first, out);
}

const char *idem_listener_url(const idem_listener *listener) { return listener->url; }
