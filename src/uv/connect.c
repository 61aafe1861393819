/* connect.c - the way out: a name becomes addresses, the addresses are tried in turn, the first that
 * answers becomes a peer, whose handshakes (TLS, WebSocket) are its own. on_ready runs once and never
 * from inside idem_connect. */
#include "http/ws_client.h"
#include "uv/client.h"
#include "uv/tls_files.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CONNECT_MS 30000

typedef struct attempt {
  idem_list node; /* in the runtime's, until it is finished */
  idem__runtime *runtime;
  idem_serve_opts opts;
  void (*on_trace)(idem_conn *conn, idem_direction direction, const char *message, size_t len,
                   void *user);
  idem_policy policy;
  idem__url url;
  idem__address list[IDEM__ADDRESSES];
  size_t count;
  size_t next;
  uv_getaddrinfo_t lookup;
  uv_timer_t timer; /* the time allowed; also how a failure waits for the next turn */
  uv_poll_t poll;
  int fd;
  bool polled;
  bool looking_up;
  bool finished;
  int error;
  unsigned open_handles;
  uint64_t open_by_ms;
  idem__client_opts client;
  char *target; /* of a WebSocket: path and query */
  const idem__tls_module *module;
  idem__tls_context *context;
  idem_ready_fn on_ready;
  void *user;
} attempt;

static void try_next(attempt *self);

/* ------------------------------------------------------------------------ the end */

static void free_attempt(attempt *self) {
  idem__runtime *runtime = self->runtime;
  if (self->context) self->module->context_free(self->context);
  idem__client_opts_deinit(&self->client, &runtime->alloc);
  idem__free(&runtime->alloc, self->target);
  idem__free(&runtime->alloc, self);
  idem__runtime_release(runtime);
}

static void free_when_unused(attempt *self) {
  if (self->open_handles > 0 || self->looking_up) return;
  free_attempt(self);
}

static void on_closed(uv_handle_t *handle) {
  attempt *self = handle->data;
  self->open_handles--;
  free_when_unused(self);
}

static void finish(attempt *self) {
  self->finished = true;
  idem_list_remove(&self->node);
  uv_close((uv_handle_t *)&self->timer, on_closed);
  if (self->looking_up) uv_cancel((uv_req_t *)&self->lookup);
}

static void fail(attempt *self, idem_status status) {
  idem_logf(self->opts.log, IDEM_LOG_WARN, "cannot connect", "%s: %s",
            self->url.scheme == IDEM__SCHEME_UNIX ? "unix socket" : self->url.host,
            self->error ? uv_strerror(-self->error) : idem_status_text(status));
  finish(self);
  self->on_ready(NULL, status, self->user);
}

static void name_peer(const attempt *self, char *name, size_t size) {
  const idem__url *url = &self->url;
  const char *plain = url->scheme == IDEM__SCHEME_WS ? "ws" : "tcp";
  const char *secret = url->scheme == IDEM__SCHEME_WS ? "wss" : "tls";
  if (url->scheme == IDEM__SCHEME_UNIX)
    snprintf(name, size, "unix");
  else
    snprintf(name, size, "%s %s:%u", url->tls ? secret : plain, url->host, url->port);
}

/* What the bytes go through on their way to the conn. */
static idem_status add_layers(attempt *self, idem__peer *peer) {
  idem__tls_session *session;
  idem_status status = IDEM_OK;
  if (self->url.scheme == IDEM__SCHEME_WS)
    status = idem__peer_websocket(peer, &self->url, self->target, self->client.headers);
  if (status == IDEM_OK && self->context)
    status = self->module->connect(self->context, self->url.host, &session);
  if (status == IDEM_OK && self->context)
    status = idem__socket_secure(peer->driver.io, self->module, session, self->open_by_ms);
  return status;
}

/* The peer tells when its handshakes have succeeded or failed. */
static void open_layers(attempt *self, idem__peer *peer) {
  peer->on_ready = self->on_ready;
  peer->ready_user = self->user;
  peer->driver.open_by_ms = self->open_by_ms;
  idem_list_append(&self->runtime->openings, &peer->driver.node);
  peer->open_failure = add_layers(self, peer);
  finish(self);
  if (peer->open_failure != IDEM_OK) idem__driver_close(&peer->driver);
}

static void succeed(attempt *self, int fd) {
  char name[sizeof self->url.host + 32];
  int on = 1;
  if (self->url.scheme != IDEM__SCHEME_UNIX)
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  name_peer(self, name, sizeof name);
  idem__peer *peer;
  idem_status status =
      idem__socket_open(self->runtime, NULL, &self->opts, &self->policy, fd, name, &peer);
  if (status != IDEM_OK) {
    fail(self, status);
    return;
  }
  peer->on_trace = self->on_trace;
  if (peer->on_trace) idem__peer_trace(peer);
  if (self->context || self->url.scheme == IDEM__SCHEME_WS) {
    open_layers(self, peer);
    return;
  }
  finish(self);
  if (self->opts.on_open) self->opts.on_open(peer->conn, self->opts.user);
  self->on_ready(peer->conn, IDEM_OK, self->user);
}

/* ------------------------------------------------------------------------- one address */

/* The poll handle is closed before the descriptor moves on; the rest waits for that. */
static void on_poll_closed(uv_handle_t *handle) {
  attempt *self = handle->data;
  self->open_handles--;
  self->polled = false;
  if (self->finished) {
    free_when_unused(self);
  } else if (self->error == 0) {
    succeed(self, self->fd);
  } else {
    try_next(self);
  }
}

static void stop_polling(attempt *self, int error) {
  self->error = error;
  if (error != 0) close(self->fd);
  uv_close((uv_handle_t *)&self->poll, on_poll_closed);
}

static void on_writable(uv_poll_t *poll, int status, int events) {
  (void)status, (void)events;
  attempt *self = poll->data;
  int error = 0;
  socklen_t len = sizeof error;
  if (getsockopt(self->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) error = errno;
  stop_polling(self, error);
}

static int start(attempt *self, const idem__address *to) {
  self->fd = socket(to->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (self->fd < 0) return errno;
  int error = 0;
  if (connect(self->fd, (const struct sockaddr *)&to->storage, to->len) != 0 &&
      errno != EINPROGRESS) {
    error = errno;
  } else if (uv_poll_init(self->runtime->loop, &self->poll, self->fd) != 0) {
    error = ENOMEM;
  }
  if (error != 0) {
    close(self->fd);
    return error;
  }
  self->poll.data = self;
  self->polled = true;
  self->open_handles++;
  uv_poll_start(&self->poll, UV_WRITABLE, on_writable);
  return 0;
}

static void try_next(attempt *self) {
  while (self->next < self->count) {
    int error = start(self, &self->list[self->next++]);
    if (error == 0) return;
    self->error = error;
  }
  fail(self, IDEM_E_SYS);
}

/* --------------------------------------------------------------------------- the story */

static void give_up(attempt *self, idem_status status) {
  self->error = 0;
  fail(self, status);
  if (self->polled) {
    close(self->fd);
    uv_close((uv_handle_t *)&self->poll, on_poll_closed);
  }
}

static void on_time_up(uv_timer_t *timer) { give_up(timer->data, IDEM_E_TIMEOUT); }

static void start_timer(attempt *self) {
  uint64_t now = idem__clock_ms();
  uint64_t left = self->open_by_ms > now ? self->open_by_ms - now : 0;
  uv_timer_start(&self->timer, on_time_up, left, 0);
}

static void begin(attempt *self) {
  start_timer(self);
  try_next(self);
}

static void on_first_turn(uv_timer_t *timer) { begin(timer->data); }

static void on_looked_up(uv_getaddrinfo_t *lookup, int status, struct addrinfo *found) {
  attempt *self = lookup->data;
  self->looking_up = false;
  for (const struct addrinfo *one = found; one && self->count < IDEM__ADDRESSES;
       one = one->ai_next) {
    idem__address *address = &self->list[self->count++];
    memcpy(&address->storage, one->ai_addr, one->ai_addrlen);
    address->len = one->ai_addrlen;
    idem__address_set_port(address, self->url.port);
  }
  uv_freeaddrinfo(found);
  if (self->finished) {
    free_when_unused(self);
  } else if (status != 0) {
    self->error = -status;
    fail(self, IDEM_E_SYS);
  } else {
    begin(self);
  }
}

static idem_status look_up(attempt *self) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
  self->lookup.data = self;
  self->looking_up = true;
  int error = uv_getaddrinfo(self->runtime->loop, &self->lookup, on_looked_up, self->url.host, NULL,
                             &hints);
  if (error == 0) start_timer(self);
  self->looking_up = error == 0;
  return error == 0 ? IDEM_OK : IDEM_E_SYS;
}

static idem_status launch(attempt *self) {
  uv_timer_init(self->runtime->loop, &self->timer);
  self->timer.data = self;
  self->open_handles = 1;
  idem_list_append(&self->runtime->attempts, &self->node);
  if (self->url.scheme == IDEM__SCHEME_UNIX) {
    self->list[0] = idem__address_of_path(self->url.path);
    self->count = 1;
  } else if (idem__address_literal(&self->url, self->list, &self->count) != IDEM_OK) {
    self->count = 0;
    return look_up(self);
  }
  uv_timer_start(&self->timer, on_first_turn, 0, 0);
  return IDEM_OK;
}

/* ------------------------------------------------------------------- nobody wants it any more */

static bool cancel_opening(idem__runtime *runtime, idem_ready_fn on_ready, const void *user) {
  for (idem_list *node = runtime->openings.next; node != &runtime->openings; node = node->next) {
    idem__peer *peer = idem__peer_of(IDEM_CONTAINER(node, idem__driver, node));
    if (peer->on_ready != on_ready || peer->ready_user != user) continue;
    peer->open_failure = IDEM_E_CANCELLED;
    idem__driver_close(&peer->driver);
    return true;
  }
  return false;
}

void idem__connect_cancel(idem__runtime *runtime, idem_ready_fn on_ready, const void *user) {
  if (cancel_opening(runtime, on_ready, user)) return;
  for (idem_list *node = runtime->attempts.next; node != &runtime->attempts; node = node->next) {
    attempt *self = IDEM_CONTAINER(node, attempt, node);
    if (self->on_ready != on_ready || self->user != user) continue;
    give_up(self, IDEM_E_CANCELLED);
    return;
  }
}

/* ----------------------------------------------------------------------- what is asked for */

static idem_status load_tls(attempt *self) {
  const idem_client_opts *client = &self->client.opts;
  idem__tls_opts opts = {.cert_file = client->cert_file,
                         .key_file = client->key_file,
                         .ca_file = client->ca_file,
                         .no_verify = client->no_verify,
                         .http = self->url.scheme == IDEM__SCHEME_WS};
  char why[256] = "";
  self->module = idem__tls_module_get(why, sizeof why);
  if (self->module && self->module->client_new(&opts, &self->context, why, sizeof why) == IDEM_OK)
    return IDEM_OK;
  idem_logf(self->opts.log, IDEM_LOG_ERROR, "cannot connect", "%s: %s", self->url.host, why);
  return IDEM_E_SYS;
}

static idem_status prepare(attempt *self, const idem_client_opts *client, const char *target) {
  const idem_alloc *alloc = &self->runtime->alloc;
  idem_status status = idem__client_opts_init(&self->client, alloc, client);
  if (status != IDEM_OK) return status;
  uint64_t allowed = self->client.opts.connect_ms ? self->client.opts.connect_ms : CONNECT_MS;
  self->open_by_ms = idem__clock_ms() + allowed;
  if (target) {
    if (!idem__ws_client_may_send(self->client.headers)) return IDEM_E_INVAL;
    self->target = idem__strndup(alloc, target, strlen(target));
    if (!self->target) return IDEM_E_NOMEM;
    self->policy.framing = IDEM_FRAMING_WHOLE;
    idem__client_hide_token(&self->client, self->opts.log);
  }
  return self->url.tls ? load_tls(self) : IDEM_OK;
}

static idem_status connect_socket(idem__runtime *runtime, const idem__url *url, const char *target,
                                  const idem_connect_opts *opts, idem_ready_fn on_ready,
                                  void *user) {
  attempt *self = idem__calloc(&runtime->alloc, sizeof *self);
  if (!self) return IDEM_E_NOMEM;
  runtime->references++;
  self->runtime = runtime;
  self->opts = idem__peer_opts_of(opts);
  self->on_trace = opts->on_trace;
  self->policy = opts->policy ? *opts->policy : idem_policy_preset(IDEM_PROFILE_JSONRPC);
  if (url->content_length) self->policy.framing = IDEM_FRAMING_CONTENT_LENGTH;
  self->url = *url;
  self->on_ready = on_ready;
  self->user = user;
  idem_status status = prepare(self, opts->client, target);
  if (status != IDEM_OK) {
    free_attempt(self);
    return status;
  }
  status = launch(self);
  if (status != IDEM_OK) finish(self);
  return status;
}

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

idem_status idem_connect(uv_loop_t *loop, const char *text, const idem_connect_opts *opts,
                         idem_ready_fn on_ready, void *user) {
  idem__url url = {0};
  const char *target = NULL;
  if (!text || !on_ready) return IDEM_E_INVAL;
  bool http = begins(text, "http://") || begins(text, "https://");
  bool ws = begins(text, "ws://") || begins(text, "wss://");
  idem_status status = IDEM_OK;
  if (ws)
    status = idem__url_parse_remote(text, &url, &target);
  else if (!http) /* whose URLs may hold more than ours */
    status = idem__url_parse(text, &url);
  bool exec = url.scheme == IDEM__SCHEME_EXEC;
  bool ours = ws || exec || url.scheme == IDEM__SCHEME_TCP || url.scheme == IDEM__SCHEME_UNIX;
  if (status != IDEM_OK || (!http && !ours)) return IDEM_E_INVAL;
  idem__runtime *runtime;
  status = idem__runtime_get(loop, opts->alloc, &runtime);
  if (status != IDEM_OK) return status;
  if (http)
    status = idem__connect_http(runtime, text, opts, NULL, NULL, on_ready, user);
  else if (exec)
    status = idem__connect_exec(runtime, &url, opts, on_ready, user);
  else
    status = connect_socket(runtime, &url, target, opts, on_ready, user);
  idem__runtime_release(runtime);
  return status;
}
