/* socket.c - the wire of TCP and Unix sockets, plain or with TLS: a descriptor and a poll handle.
 * A poll handle and our own reads and writes serve better than a stream handle: one shared read
 * buffer, gathered writes of chunks we own, and no surprise about what was written. */
#include "uv/secure.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

static idem__socket_peer *socket_of(idem__peer *peer) {
  return IDEM__CONTAINER(peer, idem__socket_peer, peer);
}

static ssize_t socket_read(idem__peer *peer, char *into, size_t size) {
  const idem__socket_peer *self = socket_of(peer);
  if (self->secure) return idem__secure_read(self->secure, self->fd, into, size);
  ssize_t n = recv(self->fd, into, size, MSG_DONTWAIT);
  return n < 0 ? -errno : n;
}

static ssize_t socket_write(idem__peer *peer, const struct iovec *pieces, int count) {
  const idem__socket_peer *self = socket_of(peer);
  if (self->secure) return idem__secure_write(self->secure, self->fd, pieces, count);
  struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)pieces,
                           .msg_iovlen = (size_t)count};
  ssize_t n = sendmsg(self->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  return n < 0 ? -errno : n;
}

/* After end of input only a reset or a full close can come; level-triggered readiness would report
 * the end for ever, so priority data stands in for "errors only". */
static void look_for_reset(idem__socket_peer *self) {
  struct pollfd state = {.fd = self->fd, .events = POLLPRI};
  if (poll(&state, 1, 0) > 0 && (state.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) {
    idem__peer_take(&self->peer, -ECONNRESET);
  } else {
    uv_poll_stop(&self->poll); /* urgent data, which nobody asked for */
  }
}

static idem_status watch(idem__socket_peer *self);

/* What TLS has left over goes first; a lingering peer has nothing else. */
static bool flush_secure(idem__socket_peer *self) {
  if (!idem__secure_flush(self->secure, self->fd)) {
    idem__peer_take(&self->peer, -ECONNRESET);
    return false;
  }
  return watch(self) == IDEM_OK;
}

static void on_poll(uv_poll_t *poll, int status, int events) {
  idem__socket_peer *self = poll->data;
  if (status < 0) {
    idem__peer_take(&self->peer, status == UV_EBADF ? -ECONNRESET : status);
    return;
  }
  if (events & UV_PRIORITIZED) {
    look_for_reset(self);
    return;
  }
  if (self->secure && (events & UV_WRITABLE) && !flush_secure(self)) return;
  if (events & UV_READABLE) idem__peer_readable(&self->peer);
  if ((events & UV_WRITABLE) && !self->peer.closed) idem__peer_writable(&self->peer);
}

/* A handshake wants to read, whatever the peer wants, and has its own things to write. */
static idem_status watch(idem__socket_peer *self) {
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
  return uv_poll_start(&self->poll, events, on_poll) == 0 ? IDEM_OK : IDEM_E_SYS;
}

static idem_status socket_interest(idem__peer *peer, bool read, bool write) {
  idem__socket_peer *self = socket_of(peer);
  self->wants_read = read;
  self->wants_write = write;
  return watch(self);
}

static bool socket_end_output(idem__peer *peer) {
  const idem__socket_peer *self = socket_of(peer);
  if (self->secure) return idem__secure_end(self->secure, self->fd);
  return shutdown(self->fd, SHUT_WR) == 0;
}

static bool socket_open(const idem__peer *peer) {
  const idem__socket_peer *self = IDEM__CONTAINER(peer, idem__socket_peer, peer);
  return !self->secure || idem__secure_ready(self->secure);
}

static const char *socket_fault(const idem__peer *peer) {
  const idem__socket_peer *self = IDEM__CONTAINER(peer, idem__socket_peer, peer);
  return self->secure ? idem__secure_fault(self->secure) : "";
}

static void on_closed(uv_handle_t *handle) {
  idem__socket_peer *self = handle->data;
  idem__peer_gone(&self->peer);
}

static void socket_close(idem__peer *peer) {
  idem__socket_peer *self = socket_of(peer);
  uv_close((uv_handle_t *)&self->poll, on_closed);
  close(self->fd);
  self->fd = -1;
}

static const idem__wire socket_wire = {.read = socket_read,
                                       .write = socket_write,
                                       .interest = socket_interest,
                                       .end_output = socket_end_output,
                                       .close = socket_close,
                                       .reads_until_empty = true,
                                       .open = socket_open,
                                       .fault = socket_fault};

static void socket_freed(idem__peer *peer) {
  idem_alloc alloc = peer->runtime->alloc;
  idem__secure_free(socket_of(peer)->secure);
  idem__free(&alloc, socket_of(peer));
}

/* The poll handle exists but the conn does not: only the handle needs closing. */
static void on_stillborn_closed(uv_handle_t *handle) {
  idem__socket_peer *self = handle->data;
  idem__runtime *runtime = self->peer.runtime;
  socket_freed(&self->peer);
  idem__runtime_release(runtime);
}

static idem_status give_up(idem__socket_peer *self, idem_status status) {
  uv_close((uv_handle_t *)&self->poll, on_stillborn_closed);
  close(self->fd);
  return status;
}

idem_status idem__socket_open(idem__runtime *runtime, idem_listener *listener,
                              const idem_serve_opts *opts, const idem_policy *policy, int fd,
                              const char *name, idem__peer **out) {
  size_t size = sizeof(idem__socket_peer) + (listener ? 0 : sizeof *opts);
  idem__socket_peer *self = idem__calloc(&runtime->alloc, size);
  idem_status status = self ? IDEM_OK : IDEM_E_NOMEM;
  if (self && uv_poll_init(runtime->loop, &self->poll, fd) != 0) status = IDEM_E_SYS;
  if (status != IDEM_OK) {
    idem__free(&runtime->alloc, self);
    close(fd);
    return status;
  }
  self->fd = fd;
  self->poll.data = self;
  if (!listener) self->own_opts[0] = *opts;
  self->peer.wire = &socket_wire;
  self->peer.runtime = runtime;
  self->peer.listener = listener;
  self->peer.opts = listener ? &listener->opts : self->own_opts;
  self->peer.on_freed = socket_freed;
  runtime->references++;
  status = idem__peer_open(&self->peer, policy, name);
  if (status != IDEM_OK) return give_up(self, status);
  *out = &self->peer;
  return IDEM_OK;
}

idem_status idem__socket_secure(idem__peer *peer, const struct idem__tls_module *module,
                                struct idem__tls_session *session, uint64_t open_by_ms) {
  idem__socket_peer *self = socket_of(peer);
  peer->open_by_ms = open_by_ms;
  idem_status status = idem__secure_new(&peer->runtime->alloc, module, session, &self->secure);
  if (status == IDEM_OK) idem__secure_begin(self->secure, self->fd);
  return status;
}
