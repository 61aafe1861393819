/* redis_wire.c - the connections of a Redis store: made, encrypted, sent to and received from, lost. One that is lost is made
 * anew with growing pauses, a random part of each. See docs/internals/uv.md. */
#include "uv/redis_carrier.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_PAUSE_MS 50u
#define PAUSE_MS 5000u
#define TURN_READS 16 /* of one connection, before the other has its turn */

typedef struct idem__redis_carrier carrier;
typedef idem__redis_part part;
typedef idem__redis_connection line;

/* ------------------------------------------------------------------ saying */

static const char *place(const part *self, char *text, size_t size) {
  const line *which = &self->lines[IDEM__REDIS_COMMANDS];
  const idem__redis_url *where = &self->carrier->where;
  if (where->path[0])
    snprintf(text, size, "redis+unix:%s", where->path);
  else
    snprintf(text, size, "%s://%s:%s", where->tls ? "rediss" : "redis", which->host, which->port);
  return text;
}

static void note_why(carrier *self, const char *what, const char *detail) {
  pthread_mutex_lock(&self->lock);
  snprintf(self->why, sizeof self->why, "%s%s%s", what, detail ? ": " : "", detail ? detail : "");
  pthread_mutex_unlock(&self->lock);
}

void idem__redis_count(part *self) {
  idem__redis_counts now;
  idem_metrics *metrics = self->carrier->metrics;
  self->carrier->module->counts(self->store, &now);
  idem__metrics_add(metrics, IDEM__M_STORE_UNKNOWN, now.unknown - self->unknown);
  idem__metrics_add(metrics, IDEM__M_STORE_REFUSED, now.refused - self->refused);
  self->unknown = now.unknown;
  self->refused = now.refused;
}

/* *lost: one that is not connected, or the first. */
static idem__redis_reach reach_of(const carrier *self, const part **lost) {
  unsigned ready = 0, count = atomic_load(&self->count);
  *lost = self->parts[0];
  for (unsigned i = 0; i < count; i++) {
    if (self->module->ready(self->parts[i]->store))
      ready++;
    else
      *lost = self->parts[i];
  }
  return ready == count ? IDEM__REDIS_WHOLE : ready ? IDEM__REDIS_PARTLY : IDEM__REDIS_GONE;
}

/* Whether the log does not know this reason yet, since it was last connected; it does from now on. */
static bool is_new_reason(carrier *self, const char *why) {
  uint64_t hash = idem__hash(why, strlen(why), 0) | 1;
  for (int i = 0; i < IDEM__REDIS_REASONS; i++) {
    if (self->reasons[i] == hash) return false;
    if (self->reasons[i]) continue;
    self->reasons[i] = hash;
    return true;
  }
  return false;
}

static void say_lost(carrier *self, const part *lost, idem__redis_reach reach) {
  char where[400];
  is_new_reason(self, self->why);
  idem_logf(self->log, IDEM_LOG_WARN,
            reach == IDEM__REDIS_GONE ? "the store is lost" : "a part of the store is lost",
            "%s: %s", place(lost, where, sizeof where), *self->why ? self->why : "Redis closed it");
}

/* While it comes, part by part, nothing is said before all of it is there. */
void idem__redis_tell_state(carrier *self) {
  char where[400];
  const part *lost;
  idem__redis_reach reach = reach_of(self, &lost), told = self->told;
  if (!atomic_load(&self->settled) || reach == told) return;
  if (reach == IDEM__REDIS_PARTLY && told == IDEM__REDIS_GONE) return;
  self->told = reach;
  if (reach == IDEM__REDIS_WHOLE) {
    memset(self->reasons, 0, sizeof self->reasons);
    idem__metrics_add(self->metrics, IDEM__M_STORE_CONNECTED, 1);
    idem_logf(self->log, IDEM_LOG_INFO, "the store is connected", "%s",
              place(lost, where, sizeof where));
  } else {
    if (told == IDEM__REDIS_WHOLE) idem__metrics_add(self->metrics, IDEM__M_STORE_LOST, 1);
    say_lost(self, lost, reach);
  }
}

/* Each reason once until it is connected again: what was first said of it may be over, and another thing in the way. */
static void say_why(const part *self) {
  carrier *whole = self->carrier;
  char where[400];
  if (!atomic_load(&whole->settled) || whole->told == IDEM__REDIS_WHOLE) return;
  bool elsewhere = strncmp(whole->why, IDEM__REDIS_ELSEWHERE, strlen(IDEM__REDIS_ELSEWHERE)) == 0;
  if (is_new_reason(whole, whole->why))
    idem_logf(whole->log, elsewhere ? IDEM_LOG_INFO : IDEM_LOG_WARN,
              elsewhere ? "a part of the store is elsewhere" : "the store cannot be reached",
              "%s: %s", place(self, where, sizeof where), whole->why);
}

/* Operations that Redis refused, each reason once in a row. */
static void say_fault(part *self) {
  const char *fault = self->carrier->module->fault(self->store);
  if (!*fault || strncmp(self->said, fault, sizeof self->said - 1) == 0) return;
  snprintf(self->said, sizeof self->said, "%s", fault);
  note_why(self->carrier, fault, NULL);
  idem_logf(self->carrier->log, IDEM_LOG_WARN, "the store has a problem", "%s", fault);
}

/* ----------------------------------------------------------------- closing */

static uint64_t pause_after(unsigned failures) {
  uint64_t most = failures > 7 ? PAUSE_MS : (uint64_t)FIRST_PAUSE_MS << failures;
  if (most > PAUSE_MS) most = PAUSE_MS;
  return most / 2 + idem_random_seed() % (most / 2 + 1);
}

void idem__redis_close(line *which) {
  idem__secure_free(which->secure);
  which->secure = NULL;
  if (which->fd >= 0) close(which->fd);
  which->fd = -1;
  if (which->addresses) freeaddrinfo(which->addresses);
  which->addresses = which->next = NULL;
  which->state = IDEM__REDIS_CLOSED;
}

void idem__redis_lose(part *self, line *which, const char *what, const char *detail) {
  uint64_t now = idem__clock_ms();
  note_why(self->carrier, what, detail);
  idem__redis_close(which);
  which->until_ms = now + pause_after(which->failures++);
  self->carrier->module->end(self->store, idem__redis_line_of(self, which), now);
  idem__redis_tell_state(self->carrier);
  say_why(self);
}

/* -------------------------------------------------------------- connecting */

static int new_socket(int family) {
  int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  int yes = 1;
  if (fd >= 0 && family != AF_UNIX) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  }
  return fd;
}

static void opened(part *self, line *which) {
  which->state = IDEM__REDIS_OPEN;
  if (which->addresses) freeaddrinfo(which->addresses);
  which->addresses = which->next = NULL;
  self->carrier->module->begin(self->store, idem__redis_line_of(self, which), idem__clock_ms());
}

static void connected(part *self, line *which) {
  idem__tls_session *session;
  if (!self->carrier->context) {
    opened(self, which);
    return;
  }
  which->state = IDEM__REDIS_SHAKING;
  if (self->carrier->tls->connect(self->carrier->context, which->host, &session) != IDEM_OK ||
      idem__secure_new(&self->carrier->alloc, self->carrier->tls, session, &which->secure) !=
          IDEM_OK)
    idem__redis_lose(self, which, "there is no memory", NULL);
  else
    idem__secure_begin(which->secure, which->fd);
}

/* The next address that can be tried; the last one's fault is told. */
static void try_next(part *self, line *which, int error) {
  while (which->next) {
    const struct addrinfo *at = which->next;
    which->next = at->ai_next;
    if (which->fd >= 0) close(which->fd);
    which->fd = new_socket(at->ai_family);
    which->until_ms = idem__clock_ms() + self->carrier->connect_ms;
    which->state = IDEM__REDIS_CONNECTING;
    if (which->fd >= 0 && connect(which->fd, at->ai_addr, at->ai_addrlen) == 0) {
      connected(self, which);
      return;
    }
    error = errno;
    if (which->fd >= 0 && error == EINPROGRESS) return;
  }
  idem__redis_lose(self, which, "it cannot be reached", strerror(error));
}

static void connect_unix(part *self, line *which) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path, self->carrier->where.path, sizeof address.sun_path);
  which->fd = new_socket(AF_UNIX);
  if (which->fd < 0 || connect(which->fd, (struct sockaddr *)&address, sizeof address) != 0)
    idem__redis_lose(self, which, "it cannot be reached", strerror(errno));
  else
    connected(self, which);
}

/* It may have been changed, which is why there is no connection. The one before is shown as long as there is no other. */
static void read_password(part *self) {
  carrier *whole = self->carrier;
  idem__redis_url *where = &whole->where;
  char why[200];
  if (!where->password_file[0]) return;
  if (idem__redis_url_password(where, why, sizeof why)) {
    idem_log_add_secret(whole->log, where->password, strlen(where->password));
    (void)whole->module->password(self->store, where->password);
  } else if (is_new_reason(whole, why)) {
    idem_logf(whole->log, IDEM_LOG_WARN, "the store's password cannot be read again", "%s", why);
  }
  explicit_bzero(where->password, sizeof where->password);
}

void idem__redis_begin(part *self, line *which) {
  if (which->failures) read_password(self);
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  if (self->carrier->where.path[0]) {
    connect_unix(self, which);
    return;
  }
  if (which == &self->lines[IDEM__REDIS_NEWS] &&
      !which->failures) { /* not all to the node that was named */
    memcpy(which->host, self->lines[IDEM__REDIS_COMMANDS].host, sizeof which->host);
    memcpy(which->port, self->lines[IDEM__REDIS_COMMANDS].port, sizeof which->port);
  } else if (!self->carrier->module->place(self->store, idem__redis_line_of(self, which),
                                           which->failures, which->host, sizeof which->host,
                                           which->port, sizeof which->port)) {
    memcpy(which->host, self->carrier->where.host, sizeof which->host);
    memcpy(which->port, self->carrier->where.port, sizeof which->port);
  }
  int found = getaddrinfo(which->host, which->port, &hints, &which->addresses);
  if (found != 0) which->addresses = NULL;
  which->next = which->addresses;
  if (which->next)
    try_next(self, which, ECONNREFUSED);
  else
    idem__redis_lose(self, which, "its address is not known", gai_strerror(found));
}

static void on_connecting(part *self, line *which) {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(which->fd, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error)
    try_next(self, which, error);
  else
    connected(self, which);
}

/* ------------------------------------------------------------------- bytes */

static ssize_t read_some(line *which, char *into, size_t size) {
  if (which->secure) return idem__secure_read(which->secure, which->fd, into, size);
  ssize_t n = recv(which->fd, into, size, MSG_DONTWAIT);
  return n < 0 ? -errno : n;
}

static ssize_t write_some(line *which, const char *bytes, size_t len) {
  if (which->secure)
    return idem__secure_write(which->secure, which->fd,
                              &(struct iovec){.iov_base = (void *)bytes, .iov_len = len}, 1);
  ssize_t n = send(which->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
  return n < 0 ? -errno : n;
}

static bool is_for_later(ssize_t n) { return n == -EAGAIN || n == -EINTR; }

static void lose_for(part *self, line *which, ssize_t n) {
  const char *fault = which->secure ? idem__secure_fault(which->secure) : "";
  if (*fault) {
    char text[200];
    snprintf(text, sizeof text, "%s", fault);
    idem__redis_lose(self, which, "its certificate is refused", text);
  } else {
    idem__redis_lose(self, which, "the connection broke",
                     n ? strerror((int)-n) : "Redis closed it");
  }
}

/* TLS has its handshake first, of which reading is a part. */
static void shake(part *self, line *which) {
  char unasked;
  ssize_t n = idem__secure_read(which->secure, which->fd, &unasked, 1);
  if (n > 0)
    idem__redis_lose(self, which, "Redis answers what it was not asked", NULL);
  else if (!is_for_later(n))
    lose_for(self, which, n);
  else if (idem__secure_ready(which->secure))
    opened(self, which);
}

/* A connection that only says where else to go is no success yet. */
static void forgive(part *self, line *which) {
  idem__redis_counts counts;
  if (!which->failures || !self->carrier->module->ready(self->store)) return;
  self->carrier->module->counts(self->store, &counts);
  if (which == &self->lines[IDEM__REDIS_NEWS] || counts.answered != which->answered)
    which->failures = 0;
  which->answered = counts.answered;
}

static void receive(part *self, line *which) {
  char *bytes = self->carrier->read_buffer;
  for (int i = 0; i < TURN_READS && which->state == IDEM__REDIS_OPEN; i++) {
    ssize_t n = read_some(which, bytes, IDEM__REDIS_READ_BYTES);
    if (is_for_later(n)) return;
    if (n <= 0) {
      lose_for(self, which, n);
    } else if (!self->carrier->module->feed(self->store, idem__redis_line_of(self, which), bytes,
                                            (size_t)n, idem__clock_ms())) {
      idem__redis_lose(self, which, self->carrier->module->fault(self->store), NULL);
    } else {
      say_fault(self);
      forgive(self, which);
      idem__redis_tell_state(self->carrier);
      if ((size_t)n < IDEM__REDIS_READ_BYTES && !which->secure) return; /* that was all */
    }
  }
}

static void transmit(part *self, line *which) {
  const char *bytes;
  size_t len;
  if (which->secure && !idem__secure_flush(which->secure, which->fd))
    lose_for(self, which, -ECONNRESET);
  while (which->state == IDEM__REDIS_OPEN &&
         (len = self->carrier->module->output(self->store, idem__redis_line_of(self, which),
                                              idem__clock_ms(), &bytes))) {
    ssize_t n = write_some(which, bytes, len);
    if (is_for_later(n)) return;
    if (n < 0)
      lose_for(self, which, n);
    else
      self->carrier->module->sent(self->store, idem__redis_line_of(self, which), (size_t)n);
  }
}

/* ----------------------------------------------------------------- turns */

short idem__redis_wanted(part *self, line *which) {
  const char *bytes;
  if (which->state == IDEM__REDIS_CONNECTING) return POLLOUT;
  bool unsent = which->secure && idem__secure_unsent(which->secure);
  if (which->state == IDEM__REDIS_OPEN && !unsent)
    unsent = self->carrier->module->output(self->store, idem__redis_line_of(self, which),
                                           idem__clock_ms(), &bytes);
  return (short)(POLLIN | (unsent ? POLLOUT : 0));
}

void idem__redis_serve(part *self, line *which, short events) {
  if (which->state == IDEM__REDIS_CONNECTING && events) on_connecting(self, which);
  if (which->state == IDEM__REDIS_SHAKING && events) shake(self, which);
  if (which->state == IDEM__REDIS_OPEN && (events & (POLLIN | POLLHUP | POLLERR)))
    receive(self, which);
  if (which->state == IDEM__REDIS_OPEN) transmit(self, which);
}
