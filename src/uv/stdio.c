/* stdio.c - the wire of standard input and output, whatever they are: pipe, socket, terminal, file,
 * /dev/null or closed. Handles of libuv would change shared flags or abort on some of these, so
 * readiness comes through an epoll set of our own that libuv polls, made when first needed.
 * While nothing but input can make progress, idem__stdio_turn reads without any loop. */
#include "uv/program.h"
#include "uv/runtime.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

/* One direction, as the loop sees it. */
typedef struct stdio_end {
  int fd;
  int set;           /* the epoll set, or -1 */
  bool always_ready; /* a file: epoll does not take it */
  bool made;
  bool started;
  bool wanted;
  union {
    uv_poll_t poll;
    uv_idle_t idle;
  } handle;
} stdio_end;

typedef struct stdio_peer {
  idem__peer peer;
  stdio_end in, out;
  idem__output_kind kind;
  bool mask_sigpipe;
  bool direct;       /* turns happen without the loop; interest is only noted */
  bool in_must_wait; /* input was inherited as non-blocking */
  unsigned open_handles;
} stdio_peer;

static stdio_peer *stdio_of(const idem__driver *driver) { return driver->io; }

/* ------------------------------------------------------------- reading and writing */

static IDEM__EARLY ssize_t stdio_read(idem__driver *driver, char *into, size_t size) {
  const stdio_peer *self = stdio_of(driver);
  if (self->in.fd < 0) return 0;
  ssize_t n = read(self->in.fd, into, size);
  int error = errno;
  if (idem__stdio_interrupted()) return -EAGAIN; /* what was read is /dev/null */
  if (n >= 0) return n;
  return error == EIO ? 0 : -error; /* EIO: the terminal is gone */
}

static IDEM__EARLY ssize_t stdio_write(idem__driver *driver, const struct iovec *pieces,
                                       int count) {
  const stdio_peer *self = stdio_of(driver);
  if (self->kind == IDEM__OUTPUT_NONE) return -EPIPE;
  if (self->kind == IDEM__OUTPUT_SOCKET) {
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)pieces,
                             .msg_iovlen = (size_t)count};
    ssize_t n = sendmsg(self->out.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    return n < 0 ? -errno : n;
  }
  return idem__pipe_write(self->out.fd, pieces, count, self->mask_sigpipe);
}

/* ------------------------------------------------------------------ in the loop */

static void ready(stdio_peer *self, const stdio_end *end) {
  if (end == &self->in) {
    idem__driver_readable(&self->peer.driver);
  } else {
    idem__driver_writable(&self->peer.driver);
  }
}

static void on_in_poll(uv_poll_t *poll, int status, int events) {
  (void)status, (void)events;
  stdio_peer *self = poll->data;
  ready(self, &self->in);
}
static void on_out_poll(uv_poll_t *poll, int status, int events) {
  (void)status, (void)events;
  stdio_peer *self = poll->data;
  ready(self, &self->out);
}
static void on_in_idle(uv_idle_t *idle) {
  stdio_peer *self = idle->data;
  ready(self, &self->in);
}
static void on_out_idle(uv_idle_t *idle) {
  stdio_peer *self = idle->data;
  ready(self, &self->out);
}

/* An epoll set with one descriptor in it can itself be polled, and has flags of its own. */
static idem_status make_set(stdio_end *end, uint32_t events) {
  end->set = epoll_create1(EPOLL_CLOEXEC);
  if (end->set < 0) return IDEM_E_SYS;
  struct epoll_event event = {.events = events};
  if (epoll_ctl(end->set, EPOLL_CTL_ADD, end->fd, &event) == 0) return IDEM_OK;
  close(end->set);
  end->set = -1;
  end->always_ready = true; /* EPERM for files; anything else will show when it is read */
  return IDEM_OK;
}

static idem_status make_end(stdio_peer *self, stdio_end *end) {
  if (end->fd < 0) {
    end->always_ready = true;
  } else if (make_set(end, end == &self->in ? EPOLLIN : EPOLLOUT) != IDEM_OK) {
    return IDEM_E_SYS;
  }
  uv_loop_t *loop = self->peer.driver.runtime->loop;
  if (end->always_ready) {
    uv_idle_init(loop, &end->handle.idle);
  } else if (uv_poll_init(loop, &end->handle.poll, end->set) != 0) {
    close(end->set);
    end->set = -1;
    return IDEM_E_SYS;
  }
  end->handle.poll.data = self; /* `data` comes first in every handle */
  end->made = true;
  self->open_handles++;
  return IDEM_OK;
}

static idem_status start_end(stdio_peer *self, stdio_end *end) {
  if (!end->made && make_end(self, end) != IDEM_OK) return IDEM_E_SYS;
  bool input = end == &self->in;
  end->started = true;
  int error = end->always_ready
                  ? uv_idle_start(&end->handle.idle, input ? on_in_idle : on_out_idle)
                  : uv_poll_start(&end->handle.poll, UV_READABLE, input ? on_in_poll : on_out_poll);
  return error == 0 ? IDEM_OK : IDEM_E_SYS;
}

static idem_status apply_end(stdio_peer *self, stdio_end *end) {
  if (end->wanted == end->started) return IDEM_OK;
  if (end->wanted) return start_end(self, end);
  end->started = false;
  if (end->always_ready) {
    uv_idle_stop(&end->handle.idle);
  } else {
    uv_poll_stop(&end->handle.poll);
  }
  return IDEM_OK;
}

static idem_status apply(stdio_peer *self) {
  idem_status status = apply_end(self, &self->in);
  return status == IDEM_OK ? apply_end(self, &self->out) : status;
}

static IDEM__EARLY idem_status stdio_interest(idem__driver *driver, bool read, bool write) {
  stdio_peer *self = stdio_of(driver);
  self->in.wanted = read;
  self->out.wanted = write;
  return self->direct ? IDEM_OK : apply(self);
}

static bool stdio_end_output(idem__driver *driver) {
  (void)driver;
  return false;
}

/* --------------------------------------------------------------------- closing */

static void on_closed(uv_handle_t *handle) {
  stdio_peer *self = handle->data;
  if (--self->open_handles == 0) idem__driver_gone(&self->peer.driver);
}

static void close_end(stdio_end *end) {
  if (end->made) uv_close((uv_handle_t *)&end->handle, on_closed);
  if (end->set >= 0) close(end->set);
  end->set = -1;
}

static void stdio_close(idem__driver *driver) {
  stdio_peer *self = stdio_of(driver);
  if (self->open_handles == 0) { /* the loop has not seen us yet, and must, to end us */
    self->in.always_ready = true;
    uv_idle_init(driver->runtime->loop, &self->in.handle.idle);
    self->in.handle.idle.data = self;
    self->in.made = true;
    self->open_handles = 1;
  }
  close_end(&self->in);
  close_end(&self->out);
  idem__stdio_give_back();
}

static const idem__wire stdio_wire = {.read = stdio_read,
                                      .write = stdio_write,
                                      .interest = stdio_interest,
                                      .end_output = stdio_end_output,
                                      .close = stdio_close,
                                      .reads_until_empty = false};

static void stdio_freed(idem__peer *peer) {
  idem_alloc alloc = peer->driver.runtime->alloc;
  idem__free(&alloc, peer->driver.io);
}

/* --------------------------------------------------------------------- opening */

/* A server that nobody could ever hear does not begin. */
static idem_status take_open_ends(idem__stdio_ends *ends) {
  idem_status status = idem__stdio_take(ends);
  if (status != IDEM_OK || ends->kind != IDEM__OUTPUT_NONE) return status;
  idem__stdio_give_back();
  return IDEM_E_CLOSED;
}

static idem_status take_ends(stdio_peer *self, const idem_listener *listener) {
  idem__stdio_ends ends;
  idem_status status = take_open_ends(&ends);
  if (status != IDEM_OK) {
    idem_logf(listener->opts.log, IDEM_LOG_ERROR, "cannot serve stdio", "%s",
              status == IDEM_E_STATE    ? "it is served already"
              : status == IDEM_E_CLOSED ? "stdout is closed: there is nowhere to answer"
                                        : "the descriptors cannot be moved");
    return status;
  }
  self->in = (stdio_end){.fd = ends.in, .set = -1};
  self->out = (stdio_end){.fd = ends.out, .set = -1};
  self->kind = ends.kind;
  self->mask_sigpipe = ends.mask_sigpipe;
  return IDEM_OK;
}

static idem_status open_peer(stdio_peer *self, idem_listener *listener) {
  self->peer.driver.wire = &stdio_wire;
  self->peer.driver.io = self;
  self->peer.listener = listener;
  self->peer.opts = &listener->opts;
  self->peer.on_freed = stdio_freed;
  idem__peer_init(&self->peer, listener->runtime);
  idem_status status = idem__peer_open(&self->peer, &listener->policy, "stdio");
  if (status != IDEM_OK) idem__peer_discard(&self->peer);
  return status;
}

IDEM__EARLY idem_status idem__stdio_open(idem_listener *listener) {
  const idem_alloc *alloc = &listener->runtime->alloc;
  stdio_peer *self = idem__calloc(alloc, sizeof *self);
  if (!self) return IDEM_E_NOMEM;
  idem_status status = take_ends(self, listener);
  if (status != IDEM_OK) {
    idem__free(alloc, self);
    return status;
  }
  status = open_peer(self, listener);
  if (status != IDEM_OK) return status;
  idem_list_append(&listener->peers, &self->peer.driver.node);
  listener->peer_count++;
  if (listener->opts.on_loop) listener->runtime->lent = true;
  if (listener->opts.on_open) listener->opts.on_open(self->peer.conn, listener->opts.user);
  return IDEM_OK;
}

/* ------------------------------------------------------------- without the loop */

static void count_live(uv_handle_t *handle, void *count) {
  if (uv_is_active(handle) || uv_is_closing(handle)) ++*(unsigned *)count;
}

static unsigned live(const void *handle) { return uv_is_active(handle) ? 1 : 0; }

/* Whether a handle of somebody else's is alive, one that does not keep the loop alive included: of
 * those libuv keeps no count. */
static bool others_are_alive(const stdio_peer *self, const uv_async_t *ignored) {
  const idem__runtime *runtime = self->peer.driver.runtime;
  const idem_listener *listener = self->peer.listener;
  unsigned ours = live(&runtime->flusher) + live(&runtime->timer) + live(&runtime->turns) +
                  live(&runtime->late) + live(&listener->grace) + live(&listener->retry) +
                  live(ignored);
  if (self->in.made) ours += live(&self->in.handle);
  if (self->out.made) ours += live(&self->out.handle);
  unsigned all = 0;
  uv_walk(runtime->loop, count_live, &all);
  return all > ours;
}

/* Whether anything but us could make progress on the loop: a timer, a worker, another peer. Without
 * its loop nobody can have put anything there, and our own we know. */
static bool loop_is_needed(const stdio_peer *self, const uv_async_t *ignored) {
  const idem__runtime *runtime = self->peer.driver.runtime;
  if (runtime->mcp_workers || runtime->loop->active_reqs.count > 0) return true;
  return runtime->lent && others_are_alive(self, ignored);
}

static int poll_timeout(uint64_t deadline) {
  if (deadline == UINT64_MAX) return -1;
  uint64_t now = idem__clock_ms();
  uint64_t wait = deadline > now ? deadline - now : 0;
  return wait > INT32_MAX ? INT32_MAX : (int)wait;
}

/* Waits for what the peer needs next. True: input is there. */
static bool wait_directly(stdio_peer *self, int timeout) {
  struct pollfd ends[2] = {
      {.fd = self->in.fd, .events = POLLIN},
      {.fd = self->peer.driver.blocked ? self->out.fd : -1, .events = POLLOUT}};
  int found = poll(ends, 2, timeout);
  uv_update_time(self->peer.driver.runtime->loop);
  if (found <= 0) return false;
  if (ends[1].revents) idem__driver_writable(&self->peer.driver);
  return ends[0].revents != 0 && !self->peer.driver.closed && self->in.wanted;
}

static void read_directly(stdio_peer *self) {
  idem__runtime *runtime = self->peer.driver.runtime;
  ssize_t n = stdio_read(&self->peer.driver, runtime->read_buffer, IDEM__READ_BYTES);
  if (n == -EAGAIN) self->in_must_wait = true;
  uv_update_time(runtime->loop);
  idem__pool_new_turn(runtime->pool);
  idem__driver_take(&self->peer.driver, n);
}

static bool turn_directly(stdio_peer *self, const uv_async_t *ignored) {
  idem__runtime_flush(self->peer.driver.runtime);
  if (self->peer.driver.closed || !self->in.wanted || self->in.fd < 0) return false;
  if (loop_is_needed(self, ignored)) return false;
  int timeout = poll_timeout(idem__runtime_deadline(self->peer.driver.runtime));
  if (timeout == 0) {
    idem__runtime_expire(self->peer.driver.runtime);
    return true;
  }
  bool wait = self->peer.driver.blocked || timeout > 0 || self->in_must_wait;
  if (!wait || wait_directly(self, timeout)) read_directly(self);
  return true;
}

IDEM__EARLY void idem__stdio_join_loop(idem_listener *listener) {
  if (listener->scheme != IDEM__SCHEME_STDIO || idem_list_empty(&listener->peers)) return;
  stdio_peer *self = stdio_of(IDEM_CONTAINER(listener->peers.next, idem__driver, node));
  self->direct = false;
  if (!self->peer.driver.closed && apply(self) != IDEM_OK) idem__driver_close(&self->peer.driver);
}

bool idem__stdio_turn(idem_listener *listener, const uv_async_t *ignored) {
  if (idem_list_empty(&listener->peers)) return false;
  stdio_peer *self = stdio_of(IDEM_CONTAINER(listener->peers.next, idem__driver, node));
  if (self->peer.driver.closed) return false;
  self->direct = true;
  if (turn_directly(self, ignored)) return true;
  idem__stdio_join_loop(listener);
  return false;
}
