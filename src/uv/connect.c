/* connect.c - the way out: a name becomes addresses, the addresses are tried in turn, the first that
 * answers becomes a peer. on_ready runs once and never from inside idem_connect. */
#include "uv/client.h"
#include "uv/runtime.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CONNECT_MS 30000

typedef struct attempt {
  idem__runtime *runtime;
  idem_serve_opts opts;
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
  idem_ready_fn on_ready;
  void *user;
} attempt;

static void try_next(attempt *self);

/* ------------------------------------------------------------------------ the end */

static void free_when_unused(attempt *self) {
  if (self->open_handles > 0 || self->looking_up) return;
  idem__runtime *runtime = self->runtime;
  idem__free(&runtime->alloc, self);
  idem__runtime_release(runtime);
}

static void on_closed(uv_handle_t *handle) {
  attempt *self = handle->data;
  self->open_handles--;
  free_when_unused(self);
}

static void finish(attempt *self) {
  self->finished = true;
  uv_close((uv_handle_t *)&self->timer, on_closed);
  if (self->looking_up) uv_cancel((uv_req_t *)&self->lookup);
}

static void fail(attempt *self, idem_status status) {
  idem_logf(self->opts.log, IDEM_LOG_WARN, "cannot connect", "%s: %s",
            self->url.scheme == IDEM__SCHEME_TCP ? self->url.host : "unix socket",
            self->error ? uv_strerror(-self->error) : idem_status_text(status));
  finish(self);
  self->on_ready(NULL, status, self->user);
}

static void succeed(attempt *self, int fd) {
  char name[sizeof self->url.host + 32];
  if (self->url.scheme == IDEM__SCHEME_TCP) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    snprintf(name, sizeof name, "tcp %s:%u", self->url.host, self->url.port);
  } else {
    snprintf(name, sizeof name, "unix");
  }
  idem__peer *peer;
  idem_status status =
      idem__socket_open(self->runtime, NULL, &self->opts, &self->policy, fd, name, &peer);
  if (status != IDEM_OK) {
    fail(self, status);
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

static void on_time_up(uv_timer_t *timer) {
  attempt *self = timer->data;
  self->error = 0;
  fail(self, IDEM_E_TIMEOUT);
  if (self->polled) {
    close(self->fd);
    uv_close((uv_handle_t *)&self->poll, on_poll_closed);
  }
}

static void begin(attempt *self) {
  uv_timer_start(&self->timer, on_time_up, CONNECT_MS, 0);
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
  if (error == 0) uv_timer_start(&self->timer, on_time_up, CONNECT_MS, 0);
  self->looking_up = error == 0;
  return error == 0 ? IDEM_OK : IDEM_E_SYS;
}

static idem_status launch(attempt *self) {
  uv_timer_init(self->runtime->loop, &self->timer);
  self->timer.data = self;
  self->open_handles = 1;
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

/* Where they lead is the business of their modules, whose URLs may hold more than ours. */
static idem_status connect_web(uv_loop_t *loop, const char *text, const idem_serve_opts *opts,
                               idem_ready_fn on_ready, void *user) {
  idem__runtime *runtime;
  idem_status status = idem__runtime_get(loop, opts->alloc, &runtime);
  if (status != IDEM_OK) return status;
  status = idem__connect_http(runtime, text, opts, on_ready, user);
  idem__runtime_release(runtime);
  return status;
}

static bool is_web(const char *text) {
  return text && (strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0);
}

idem_status idem_connect(uv_loop_t *loop, const char *text, const idem_serve_opts *opts,
                         idem_ready_fn on_ready, void *user) {
  idem__url url;
  if (on_ready && is_web(text)) return connect_web(loop, text, opts, on_ready, user);
  bool known = idem__url_parse(text, &url) == IDEM_OK;
  if (!known || !on_ready || (url.scheme != IDEM__SCHEME_TCP && url.scheme != IDEM__SCHEME_UNIX)) {
    return IDEM_E_INVAL;
  }
  idem__runtime *runtime;
  idem_status status = idem__runtime_get(loop, opts->alloc, &runtime);
  if (status != IDEM_OK) return status;
  attempt *self = idem__calloc(&runtime->alloc, sizeof *self);
  if (!self) {
    idem__runtime_release(runtime);
    return IDEM_E_NOMEM;
  }
  self->runtime = runtime;
  self->opts = *opts;
  self->policy = opts->policy ? *opts->policy : idem_policy_preset(IDEM_PROFILE_JSONRPC);
  if (url.content_length) self->policy.framing = IDEM_FRAMING_CONTENT_LENGTH;
  self->url = url;
  self->on_ready = on_ready;
  self->user = user;
  status = launch(self);
  if (status != IDEM_OK) finish(self);
  return status;
}
