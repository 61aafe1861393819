/* socket.c - the wire of TCP and Unix sockets, plain or with TLS: a descriptor and a poll handle.
 * A poll handle and our own reads and writes serve better than a stream handle: one shared read
 * buffer, gathered writes of chunks we own, and no surprise about what was written. */
#include "uv/secure.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

static idem__socket *socket_of(const idem__driver *driver) { return driver->io; }

static ssize_t socket_read(idem__driver *driver, char *into, size_t size) {
  const idem__socket *self = socket_of(driver);
  if (self->secure) return idem__secure_read(self->secure, self->fd, into, size);
  ssize_t n = recv(self->fd, into, size, MSG_DONTWAIT);
  return n < 0 ? -errno : n;
}

IDEM__APART static ssize_t send_pieces(int fd, const struct iovec *pieces, int count) {
  struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)pieces,
                           .msg_iovlen = (size_t)count};
  return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static ssize_t socket_write(idem__driver *driver, const struct iovec *pieces, int count) {
  const idem__socket *self = socket_of(driver);
  if (self->secure) return idem__secure_write(self->secure, self->fd, pieces, count);
  ssize_t n = count == 1
                  ? send(self->fd, pieces->iov_base, pieces->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL)
                  : send_pieces(self->fd, pieces, count);
  return n < 0 ? -errno : n;
}

/* ------------------------------------------------------------------- readiness */

/* After end of input only a reset or a full close can come; level-triggered readiness would report
 * the end for ever, so priority data stands in for "errors only". While what was read waits for its turn, the end is no
 * news: there may be more to read before it, as from who has written to a Unix socket and closed it. */
static void look_for_reset(idem__socket *self) {
  if (self->driver->machine->waits(self->driver)) {
    uv_poll_stop(&self->poll);
    self->events = 0;
    return;
  }
  struct pollfd state = {.fd = self->fd, .events = POLLPRI};
  if (poll(&state, 1, 0) > 0 && (state.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) {
    idem__driver_take(self->driver, -ECONNRESET);
  } else {
    uv_poll_stop(&self->poll); /* urgent data, which nobody asked for */
  }
}

/* Who has ended its input and is owed an answer may be gone: nothing is sent that would tell, so the
 * kernel asks. One that is there acknowledges. */
static void ask_for_life(const idem__socket *self) {
  uint64_t ms = self->probe_ms;
  int on = 1, tries = 3, first_s = ms > 1000 ? (int)(ms / 1000) : 1, again_s = (first_s + 2) / 3;
  setsockopt(self->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(self->fd, IPPROTO_TCP, TCP_KEEPIDLE, &first_s, sizeof first_s);
  setsockopt(self->fd, IPPROTO_TCP, TCP_KEEPINTVL, &again_s, sizeof again_s);
  setsockopt(self->fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
}

static idem_status watch(idem__socket *self);

/* What TLS has left over goes first; a lingering driver has nothing else. */
static bool flush_secure(idem__socket *self) {
  if (!idem__secure_flush(self->secure, self->fd)) {
    idem__driver_take(self->driver, -ECONNRESET);
    return false;
  }
  return watch(self) == IDEM_OK;
}

static void on_poll(uv_poll_t *poll, int status, int events) {
  idem__socket *self = poll->data;
  idem__driver *driver = self->driver;
  if (status < 0) {
    idem__driver_take(driver, status == UV_EBADF ? -ECONNRESET : status);
    return;
  }
  if (events & UV_PRIORITIZED) {
    look_for_reset(self);
    return;
  }
  if (self->secure && (events & UV_WRITABLE) && !flush_secure(self)) return;
  if (events & UV_READABLE) idem__driver_readable(driver);
  if ((events & UV_WRITABLE) && !driver->closed) idem__driver_writable(driver);
}

/* A handshake wants to read, whatever the driver wants, and has its own things to write. */
static idem_status watch(idem__socket *self) {
  bool read = self->wants_read, write = self->wants_write;
  if (self->secure) {
    bool ready = idem__secure_ready(self->secure);
    read |= !ready;
    write = (write && ready) || idem__secure_unsent(self->secure);
  }
  int events = (read ? UV_READABLE : 0) | (write ? UV_WRITABLE : 0);
  if (events == 0) events = UV_PRIORITIZED;
  if (events == self->events) return IDEM_OK;
  self->events = events;
  if (events == UV_PRIORITIZED && self->probe_ms) ask_for_life(self);
  return uv_poll_start(&self->poll, events, on_poll) == 0 ? IDEM_OK : IDEM_E_SYS;
}

static idem_status socket_interest(idem__driver *driver, bool read, bool write) {
  idem__socket *self = socket_of(driver);
  if (read == self->wants_read && write == self->wants_write && self->events && !self->secure)
    return IDEM_OK;
  self->wants_read = read;
  self->wants_write = write;
  return watch(self);
}

static bool socket_end_output(idem__driver *driver) {
  const idem__socket *self = socket_of(driver);
  if (self->secure) return idem__secure_end(self->secure, self->fd);
  return shutdown(self->fd, SHUT_WR) == 0;
}

static bool socket_is_open(const idem__driver *driver) {
  const idem__socket *self = socket_of(driver);
  return !self->secure || idem__secure_ready(self->secure);
}

static const char *socket_fault(const idem__driver *driver) {
  const idem__socket *self = socket_of(driver);
  return self->secure ? idem__secure_fault(self->secure) : "";
}

bool idem__socket_holds(const idem__socket *self) {
  return self->secure && idem__secure_unsent(self->secure);
}
static bool socket_holds(const idem__driver *driver) {
  return idem__socket_holds(socket_of(driver));
}

static void on_closed(uv_handle_t *handle) {
  idem__socket *self = handle->data;
  idem__driver_gone(self->driver);
}

static void socket_close(idem__driver *driver) {
  idem__socket *self = socket_of(driver);
  uv_close((uv_handle_t *)&self->poll, on_closed);
  close(self->fd);
  self->fd = -1;
}

const idem__wire idem__socket_wire = {.read = socket_read,
                                      .write = socket_write,
                                      .interest = socket_interest,
                                      .end_output = socket_end_output,
                                      .close = socket_close,
                                      .reads_until_empty = true,
                                      .open = socket_is_open,
                                      .fault = socket_fault,
                                      .holds = socket_holds};

/* --------------------------------------------------------------------- opening */

idem_status idem__socket_init(idem__socket *self, idem__driver *driver, uv_loop_t *loop, int fd) {
  if (uv_poll_init(loop, &self->poll, fd) != 0) return IDEM_E_SYS;
  self->driver = driver;
  self->fd = fd;
  self->poll.data = self;
  driver->wire = &idem__socket_wire;
  driver->io = self;
  return IDEM_OK;
}

void idem__socket_deinit(idem__socket *self) { idem__secure_free(self->secure); }

idem_status idem__socket_secure(idem__socket *self, const struct idem__tls_module *module,
                                struct idem__tls_session *session, uint64_t open_by_ms) {
  self->driver->open_by_ms = open_by_ms;
  idem_status status =
      idem__secure_new(&self->driver->runtime->alloc, module, session, &self->secure);
  if (status == IDEM_OK) idem__secure_begin(self->secure, self->fd);
  return status;
}

static void socket_freed(idem__peer *peer) {
  idem_alloc alloc = peer->driver.runtime->alloc;
  idem__socket_deinit(peer->driver.io);
  idem__free(&alloc, IDEM_CONTAINER(peer, idem__socket_peer, peer));
}

idem_status idem__socket_open(idem__runtime *runtime, idem_listener *listener,
                              const idem_serve_opts *opts, const idem_policy *policy, int fd,
                              const char *name, idem__peer **out) {
  size_t size = sizeof(idem__socket_peer) + (listener ? 0 : sizeof *opts);
  idem__socket_peer *self = idem__calloc(&runtime->alloc, size);
  idem_status status = IDEM_E_NOMEM;
  if (self) status = idem__socket_init(&self->socket, &self->peer.driver, runtime->loop, fd);
  if (status != IDEM_OK) {
    idem__free(&runtime->alloc, self);
    close(fd);
    return status;
  }
  if (!listener) self->own_opts[0] = *opts;
  self->socket.probe_ms = listener ? listener->probe_ms : 0;
  self->peer.listener = listener;
  self->peer.opts = listener ? &listener->opts : self->own_opts;
  self->peer.on_freed = socket_freed;
  idem__peer_init(&self->peer, runtime);
  status = idem__peer_open(&self->peer, policy, name);
  if (status != IDEM_OK)
    idem__peer_discard(&self->peer);
  else
    *out = &self->peer;
  return status;
}
