/* listener.c - serving an address: from idem_serve to the end of the last peer.
 * Stopping has three steps: what runs may finish, then it is answered with an error, then whoever
 * does not read that is cut off. */
#include "uv/clients.h"
#include "uv/tls_files.h"

#include <string.h>
#include <unistd.h>

#define DEFAULT_MAX_CONNECTIONS 1000
#define LAST_FLUSH_MS 200
#define LEAST_SHARE 8

/* ------------------------------------------------------------------------ freeing */

static void free_listener(idem_listener *listener) {
  idem__runtime *runtime = listener->runtime;
  idem__web_free(listener->web);
  idem__tls_files_free(listener->tls);
  idem__clients_free(listener->clients);
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

static void close_when_idle(idem_listener *listener) {
  if (!listener->stopping || listener->closing || !idem__list_empty(&listener->peers)) return;
  if (listener->web && !idem__web_idle(listener->web)) return;
  listener->closing = true;
  if (listener->web) idem__web_close(listener->web, on_handle_closed);
  uv_close((uv_handle_t *)&listener->retry, on_handle_closed);
  uv_close((uv_handle_t *)&listener->grace, on_handle_closed);
}

void idem__listener_look(idem_listener *listener) { close_when_idle(listener); }

void idem__listener_peer_gone(idem_listener *listener) {
  listener->peer_count--;
  if (idem__list_empty(&listener->peers)) uv_timer_stop(&listener->grace);
  close_when_idle(listener);
}

/* -------------------------------------------------------------------------- grace */

/* The steps of stopping: finish, answer with an error, cut off. */
static void stop_peers(idem_listener *listener, int step) {
  for (idem__list *node = listener->peers.next; node != &listener->peers; node = node->next) {
    idem__driver *driver = IDEM__CONTAINER(node, idem__driver, node);
    if (step < 2)
      idem__driver_stop(driver, step == 1);
    else
      idem__driver_close(driver);
  }
}

static void on_grace(uv_timer_t *timer) {
  idem_listener *listener = timer->data;
  if (++listener->grace_step == 1) {
    stop_peers(listener, 1);
    if (listener->web) idem__web_stop(listener->web, 1);
    uv_timer_start(timer, on_grace, LAST_FLUSH_MS, 0);
  } else {
    stop_peers(listener, 2);
    if (listener->web) idem__web_stop(listener->web, 2);
  }
}

void idem__listener_begin_grace(idem_listener *listener) {
  if (uv_is_active((uv_handle_t *)&listener->grace) || listener->grace_step > 0) return;
  uv_update_time(listener->runtime->loop);
  uv_timer_start(&listener->grace, on_grace, listener->opts.grace_ms, 0);
}

void idem_listener_stop(idem_listener *listener, void (*stopped)(void *user), void *user) {
  if (listener->stopping) return;
  listener->stopping = true;
  listener->stopped = stopped;
  listener->stopped_user = user;
  stop_accepting(listener);
  if (listener->opts.server) {
    idem__runtime_end_subscriptions(listener->runtime, listener->opts.server);
  }
  if (!idem__list_empty(&listener->peers) || listener->web) idem__listener_begin_grace(listener);
  stop_peers(listener, 0);
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

static void settle_options(idem_listener *listener, const idem__url *url,
                           const idem_serve_opts *opts) {
  listener->opts = *opts;
  if (!listener->opts.grace_ms) listener->opts.grace_ms = IDEM__GRACE_MS;
  if (!listener->opts.max_connections) listener->opts.max_connections = DEFAULT_MAX_CONNECTIONS;
  size_t quarter = listener->opts.max_connections / 4;
  if (!listener->opts.client_connections)
    listener->opts.client_connections = quarter > LEAST_SHARE ? quarter : LEAST_SHARE;
  listener->policy =
      opts->policy ? *opts->policy
                   : idem_policy_preset(opts->server ? IDEM_PROFILE_MCP : IDEM_PROFILE_JSONRPC);
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
  idem__list_init(&listener->peers);
  settle_options(listener, url, opts);
  uv_timer_init(runtime->loop, &listener->retry);
  uv_timer_init(runtime->loop, &listener->grace);
  listener->retry.data = listener->grace.data = listener;
  listener->open_handles = 2;
  *out = listener;
  return IDEM_OK;
}

static bool is_web(idem__scheme scheme) {
  return scheme == IDEM__SCHEME_HTTP || scheme == IDEM__SCHEME_WS || scheme == IDEM__SCHEME_ADMIN;
}

static idem_status open_clients(idem_listener *listener) {
  idem_status status = idem__clients_new(listener, &listener->clients);
  if (status == IDEM_E_INVAL)
    idem__listener_tell(listener, IDEM_LOG_ERROR, "cannot serve ",
                        "a trusted proxy is no address of one");
  return status;
}

static idem_status open_listener(idem_listener *listener, const idem__url *url) {
  if (url->scheme == IDEM__SCHEME_STDIO) return idem__stdio_open(listener);
  if (is_web(url->scheme)) {
    idem_status status = idem__web_open(listener, url, &listener->web);
    if (status != IDEM_OK) return status;
    listener->open_handles += IDEM__WEB_HANDLES;
  } else {
    idem_status status = open_clients(listener);
    if (status == IDEM_OK && url->tls) status = idem__tls_files_open(listener, &listener->tls);
    if (status != IDEM_OK) return status;
  }
  return idem__listener_bind(listener, url);
}

void idem__listener_tell(const idem_listener *listener, idem_log_level level, const char *what,
                         const char *detail) {
  char line[512];
  idem__buf text;
  idem__buf_fixed(&text, line, sizeof line - 1);
  if (idem__buf_put(&text, what, strlen(what)) != IDEM_OK ||
      idem__text_escape(&text, listener->url, strlen(listener->url), 400) != IDEM_OK) {
    return;
  }
  line[text.len] = 0;
  idem_log_write(listener->opts.log, &(idem_log_record){.level = level,
                                                        .message = line,
                                                        .detail = detail,
                                                        .detail_len = detail ? strlen(detail) : 0});
}

static idem_status serve(uv_loop_t *loop, const char *text, const idem_serve_opts *opts,
                         idem__web *first, idem_listener **out) {
  idem__url url;
  *out = NULL;
  if (idem__url_parse(text, &url) != IDEM_OK || url.scheme == IDEM__SCHEME_EXEC)
    return IDEM_E_INVAL;
  idem__runtime *runtime;
  idem_status status = idem__runtime_get(loop, opts->alloc, &runtime);
  if (status != IDEM_OK) return status;
  idem_listener *listener;
  status = new_listener(runtime, text, &url, opts, &listener);
  if (status != IDEM_OK) {
    idem__runtime_release(runtime);
    return status;
  }
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
