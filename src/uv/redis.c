/* redis.c - the carrier of a Redis store: a thread that connects, encrypts, sends and receives for the module, which does no
 * I/O. Not a loop of the server's: those come and go while the store stays, and an answer must not wait for a handler.
 * A connection that is lost is made anew with growing pauses, a random part of each. See docs/internals/uv.md. */
#include "uv/redis.h"

#include "uv/secure.h"
#include "uv/tls_files.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_PAUSE_MS 50u
#define PAUSE_MS 5000u
#define CONNECT_MS 5000u
#define READ_BYTES ((size_t)64 * 1024)
#define TURN_READS 16 /* of one connection, before the other has its turn */

typedef enum state { CLOSED, CONNECTING, SHAKING, OPEN } state;

typedef struct line {
  state state;
  int fd;
  struct addrinfo *addresses, *next; /* of the attempt under way */
  idem__secure *secure;
  char host[256], port[8]; /* where it is, or was last tried */
  uint64_t until_ms;       /* CLOSED: of the pause; CONNECTING, SHAKING: of the attempt */
  unsigned failures;
  uint64_t answered; /* when they were last none */
} line;

typedef struct idem__redis_carrier carrier;
struct idem__redis_carrier {
  const idem__redis_module *module;
  idem__store *store;
  idem__redis_url where;
  uint64_t connect_ms;
  const idem__tls_module *tls;
  idem__tls_context *context;
  idem_alloc alloc;
  idem_log *log;
  idem_metrics *metrics;     /* this thread's; NULL: none */
  uint64_t unknown, refused; /* counted so far */
  int wake;
  _Atomic bool ending;
  bool was_ready;
  char said[256]; /* the last fault in the log */
  line lines[IDEM__REDIS_LINES];
  pthread_t thread;
  bool unstarted;
  pthread_mutex_t lock;
  char why[256]; /* under the lock */
};

/* ------------------------------------------------------------------ saying */

static const char *place(const carrier *self, char *text, size_t size) {
  const line *which = &self->lines[IDEM__REDIS_COMMANDS];
  if (self->where.path[0])
    snprintf(text, size, "redis+unix:%s", self->where.path);
  else
    snprintf(text, size, "%s://%s:%s", self->where.tls ? "rediss" : "redis", which->host,
             which->port);
  return text;
}

static void note_why(carrier *self, const char *what, const char *detail) {
  pthread_mutex_lock(&self->lock);
  snprintf(self->why, sizeof self->why, "%s%s%s", what, detail ? ": " : "", detail ? detail : "");
  pthread_mutex_unlock(&self->lock);
}

/* For /metrics: what has come since the last time. */
static void count(carrier *self) {
  idem__redis_counts now;
  self->module->counts(self->store, &now);
  idem__metrics_add(self->metrics, IDEM__M_STORE_UNKNOWN, now.unknown - self->unknown);
  idem__metrics_add(self->metrics, IDEM__M_STORE_REFUSED, now.refused - self->refused);
  self->unknown = now.unknown;
  self->refused = now.refused;
}

/* One line for each change, however often it is tried. */
static void say_state(carrier *self) {
  char where[400];
  bool ready = self->module->ready(self->store);
  if (ready == self->was_ready) return;
  self->was_ready = ready;
  idem__metrics_add(self->metrics, ready ? IDEM__M_STORE_CONNECTED : IDEM__M_STORE_LOST, 1);
  self->said[0] = 0;
  if (ready)
    idem_logf(self->log, IDEM_LOG_INFO, "the store is connected", "%s",
              place(self, where, sizeof where));
  else
    idem_logf(self->log, IDEM_LOG_WARN, "the store is lost", "%s: %s",
              place(self, where, sizeof where), self->why);
}

/* Operations that Redis refused, each reason once in a row. */
static void say_fault(carrier *self) {
  const char *fault = self->module->fault(self->store);
  if (!*fault || strncmp(self->said, fault, sizeof self->said - 1) == 0) return;
  snprintf(self->said, sizeof self->said, "%s", fault);
  note_why(self, fault, NULL);
  idem_logf(self->log, IDEM_LOG_WARN, "the store has a problem", "%s", fault);
}

/* ----------------------------------------------------------------- closing */

static uint64_t pause_after(unsigned failures) {
  uint64_t most = failures > 7 ? PAUSE_MS : (uint64_t)FIRST_PAUSE_MS << failures;
  if (most > PAUSE_MS) most = PAUSE_MS;
  return most / 2 + idem_random_seed() % (most / 2 + 1);
}

static void close_line(line *which) {
  idem__secure_free(which->secure);
  which->secure = NULL;
  if (which->fd >= 0) close(which->fd);
  which->fd = -1;
  if (which->addresses) freeaddrinfo(which->addresses);
  which->addresses = which->next = NULL;
  which->state = CLOSED;
}

static idem__redis_line number_of(const carrier *self, const line *which) {
  return (idem__redis_line)(which - self->lines);
}

static void lose(carrier *self, line *which, const char *what, const char *detail) {
  uint64_t now = idem__clock_ms();
  note_why(self, what, detail);
  close_line(which);
  which->until_ms = now + pause_after(which->failures++);
  self->module->end(self->store, number_of(self, which), now);
  say_state(self);
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

static void opened(carrier *self, line *which) {
  which->state = OPEN;
  if (which->addresses) freeaddrinfo(which->addresses);
  which->addresses = which->next = NULL;
  self->module->begin(self->store, number_of(self, which), idem__clock_ms());
}

static void connected(carrier *self, line *which) {
  idem__tls_session *session;
  if (!self->context) {
    opened(self, which);
    return;
  }
  which->state = SHAKING;
  if (self->tls->connect(self->context, which->host, &session) != IDEM_OK ||
      idem__secure_new(&self->alloc, self->tls, session, &which->secure) != IDEM_OK)
    lose(self, which, "there is no memory", NULL);
  else
    idem__secure_begin(which->secure, which->fd);
}

/* The next address that can be tried; the last one's fault is told. */
static void try_next(carrier *self, line *which, int error) {
  while (which->next) {
    const struct addrinfo *at = which->next;
    which->next = at->ai_next;
    if (which->fd >= 0) close(which->fd);
    which->fd = new_socket(at->ai_family);
    which->until_ms = idem__clock_ms() + self->connect_ms;
    which->state = CONNECTING;
    if (which->fd >= 0 && connect(which->fd, at->ai_addr, at->ai_addrlen) == 0) {
      connected(self, which);
      return;
    }
    error = errno;
    if (which->fd >= 0 && error == EINPROGRESS) return;
  }
  lose(self, which, "it cannot be reached", strerror(error));
}

static void connect_unix(carrier *self, line *which) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path, self->where.path, sizeof address.sun_path);
  which->fd = new_socket(AF_UNIX);
  if (which->fd < 0 || connect(which->fd, (struct sockaddr *)&address, sizeof address) != 0)
    lose(self, which, "it cannot be reached", strerror(errno));
  else
    connected(self, which);
}

static void begin(carrier *self, line *which) {
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  if (self->where.path[0]) {
    connect_unix(self, which);
    return;
  }
  if (!self->module->place(self->store, number_of(self, which), which->failures, which->host,
                           sizeof which->host, which->port, sizeof which->port)) {
    memcpy(which->host, self->where.host, sizeof which->host);
    memcpy(which->port, self->where.port, sizeof which->port);
  }
  int found = getaddrinfo(which->host, which->port, &hints, &which->addresses);
  if (found != 0) which->addresses = NULL;
  which->next = which->addresses;
  if (which->next)
    try_next(self, which, ECONNREFUSED);
  else
    lose(self, which, "its address is not known", gai_strerror(found));
}

static void on_connecting(carrier *self, line *which) {
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

static void lose_for(carrier *self, line *which, ssize_t n) {
  const char *fault = which->secure ? idem__secure_fault(which->secure) : "";
  if (*fault) {
    char text[200];
    snprintf(text, sizeof text, "%s", fault);
    lose(self, which, "its certificate is refused", text);
  } else {
    lose(self, which, "the connection broke", n ? strerror((int)-n) : "Redis closed it");
  }
}

/* TLS has its handshake first, of which reading is a part. */
static void shake(carrier *self, line *which) {
  char unasked;
  ssize_t n = idem__secure_read(which->secure, which->fd, &unasked, 1);
  if (n > 0)
    lose(self, which, "Redis answers what it was not asked", NULL);
  else if (!is_for_later(n))
    lose_for(self, which, n);
  else if (idem__secure_ready(which->secure))
    opened(self, which);
}

/* A connection that only says where else to go is no success yet. */
static void forgive(carrier *self, line *which) {
  idem__redis_counts counts;
  if (!which->failures || !self->module->ready(self->store)) return;
  self->module->counts(self->store, &counts);
  if (which == &self->lines[IDEM__REDIS_NEWS] || counts.answered != which->answered)
    which->failures = 0;
  which->answered = counts.answered;
}

static void receive(carrier *self, line *which) {
  static _Thread_local char bytes[READ_BYTES];
  for (int i = 0; i < TURN_READS && which->state == OPEN; i++) {
    ssize_t n = read_some(which, bytes, sizeof bytes);
    if (is_for_later(n)) return;
    if (n <= 0) {
      lose_for(self, which, n);
    } else if (!self->module->feed(self->store, number_of(self, which), bytes, (size_t)n,
                                   idem__clock_ms())) {
      lose(self, which, self->module->fault(self->store), NULL);
    } else {
      say_fault(self);
      forgive(self, which);
      say_state(self);
      if ((size_t)n < sizeof bytes && !which->secure) return; /* that was all */
    }
  }
}

static void transmit(carrier *self, line *which) {
  const char *bytes;
  size_t len;
  if (which->secure && !idem__secure_flush(which->secure, which->fd))
    lose_for(self, which, -ECONNRESET);
  while (which->state == OPEN && (len = self->module->output(self->store, number_of(self, which),
                                                             idem__clock_ms(), &bytes))) {
    ssize_t n = write_some(which, bytes, len);
    if (is_for_later(n)) return;
    if (n < 0)
      lose_for(self, which, n);
    else
      self->module->sent(self->store, number_of(self, which), (size_t)n);
  }
}

/* --------------------------------------------------------------- the thread */

static short wanted(carrier *self, line *which) {
  const char *bytes;
  if (which->state == CONNECTING) return POLLOUT;
  bool unsent = which->secure && idem__secure_unsent(which->secure);
  if (which->state == OPEN && !unsent)
    unsent = self->module->output(self->store, number_of(self, which), idem__clock_ms(), &bytes);
  return (short)(POLLIN | (unsent ? POLLOUT : 0));
}

/* What is due on one connection; *next is when to look again. */
static void keep_time(carrier *self, line *which, uint64_t *next) {
  uint64_t now = idem__clock_ms(), due = UINT64_MAX;
  if (!self->module->tick(self->store, number_of(self, which), now, &due))
    lose(self, which, self->module->fault(self->store), NULL);
  if (which->state == CLOSED && now >= which->until_ms) begin(self, which);
  if (which->state != OPEN && which->state != CLOSED && now >= which->until_ms)
    lose(self, which, "it cannot be reached", strerror(ETIMEDOUT));
  if (which->state != OPEN && which->until_ms < due) due = which->until_ms;
  if (due < *next) *next = due;
}

static int time_until(uint64_t next) {
  uint64_t now = idem__clock_ms();
  if (next <= now) return 0;
  return next - now > 10000 ? 10000 : (int)(next - now);
}

static void serve(carrier *self, line *which, short events) {
  if (which->state == CONNECTING && events) on_connecting(self, which);
  if (which->state == SHAKING && events) shake(self, which);
  if (which->state == OPEN && (events & (POLLIN | POLLHUP | POLLERR))) receive(self, which);
  if (which->state == OPEN) transmit(self, which);
}

static void take_wakes(const carrier *self) {
  uint64_t times;
  ssize_t n = read(self->wake, &times, sizeof times);
  (void)n; /* nobody woke us */
}

static void turn(carrier *self) {
  struct pollfd ready[IDEM__REDIS_LINES + 1] = {{.fd = self->wake, .events = POLLIN}};
  uint64_t next = UINT64_MAX;
  for (int i = 0; i < IDEM__REDIS_LINES; i++) keep_time(self, &self->lines[i], &next);
  for (int i = 0; i < IDEM__REDIS_LINES; i++) {
    line *which = &self->lines[i];
    ready[i + 1] = (struct pollfd){.fd = which->fd};
    if (which->state != CLOSED) ready[i + 1].events = wanted(self, which);
  }
  if (poll(ready, IDEM__REDIS_LINES + 1, time_until(next)) < 0) return;
  count(self);
  if (ready[0].revents) take_wakes(self);
  for (int i = 0; i < IDEM__REDIS_LINES; i++)
    if (self->lines[i].fd == ready[i + 1].fd) serve(self, &self->lines[i], ready[i + 1].revents);
}

static void *carry_until_end(void *user) {
  carrier *self = user;
  while (!atomic_load(&self->ending)) turn(self);
  return NULL;
}

/* ---------------------------------------------------------------- lifetime */

static void wake(void *user) {
  const carrier *self = user;
  uint64_t one = 1;
  ssize_t n = write(self->wake, &one, sizeof one);
  (void)n; /* full: it is awake */
}

static void dispose(carrier *self) {
  idem_alloc alloc = self->alloc;
  if (self->context) self->tls->context_free(self->context);
  if (self->wake >= 0) close(self->wake);
  if (self->metrics) idem__web_metrics_remove(self->metrics);
  idem_metrics_free(self->metrics);
  pthread_mutex_destroy(&self->lock);
  idem__free(&alloc, self);
}

static void stop(void *user) {
  carrier *self = user;
  atomic_store(&self->ending, true);
  wake(self);
  if (!self->unstarted) pthread_join(self->thread, NULL);
  for (int i = 0; i < IDEM__REDIS_LINES; i++) close_line(&self->lines[i]);
  dispose(self);
}

static idem_status load_tls(carrier *self, char *why, size_t size) {
  const char *ca = self->where.ca_file;
  idem__tls_opts opts = {.ca_file = *ca ? ca : NULL};
  if (!self->where.tls) return IDEM_OK;
  self->tls = idem__tls_module_get(why, size);
  return self->tls && self->tls->client_new(&opts, &self->context, why, size) == IDEM_OK
             ? IDEM_OK
             : IDEM_E_SYS;
}

static idem_status open_store(carrier *self, const idem__redis_url *url,
                              const idem__redis_times *times, char *why, size_t size) {
  idem__redis_opts opts = {.prefix = *url->prefix ? url->prefix : NULL,
                           .user = *url->user ? url->user : NULL,
                           .password = *url->password ? url->password : NULL,
                           .database = url->database,
                           .replicas = url->replicas,
                           .max_bytes = url->max_bytes,
                           .wait_ms = times ? times->wait_ms : 0,
                           .grace_ms = times ? times->grace_ms : 0,
                           .wake = wake,
                           .stop = stop,
                           .carrier = self};
  idem_status status = self->module->open(&opts, &self->store);
  snprintf(why, size, "%s",
           status == IDEM_E_INVAL
               ? "a prefix has up to 48 letters, digits, dots, dashes and underscores"
               : "there is no memory");
  return status;
}

static carrier *new_carrier(const idem__redis_module *module, const idem__redis_url *url,
                            const idem__redis_times *times, idem_log *log) {
  idem_alloc alloc = idem__alloc_or_default(NULL); /* of any thread */
  carrier *self = idem__calloc(&alloc, sizeof *self);
  if (!self) return NULL;
  self->alloc = alloc;
  self->module = module;
  self->where = *url;
  explicit_bzero(self->where.password, sizeof self->where.password);
  self->connect_ms = times && times->connect_ms ? times->connect_ms : CONNECT_MS;
  self->log = log;
  for (int i = 0; i < IDEM__REDIS_LINES; i++) self->lines[i].fd = -1;
  pthread_mutex_init(&self->lock, NULL);
  self->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  return self;
}

/* Without them it works as well. */
static void make_metrics(carrier *self) {
  if (idem_metrics_new(&self->alloc, &self->metrics) != IDEM_OK) return;
  if (idem__web_metrics_add(self->metrics) == IDEM_OK) return;
  idem_metrics_free(self->metrics);
  self->metrics = NULL;
}

/* No signal of the program's is handled there. */
static bool start(carrier *self) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = pthread_create(&self->thread, NULL, carry_until_end, self) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

idem_status idem__redis_open(const idem__redis_module *module, const idem__redis_url *url,
                             const idem__redis_times *times, idem_log *log, idem__store **out,
                             idem__redis_carrier **made, char *why, size_t size) {
  carrier *self = new_carrier(module, url, times, log);
  *out = NULL;
  snprintf(why, size, "there is no memory");
  if (!self) return IDEM_E_NOMEM;
  idem_status status = self->wake < 0 ? IDEM_E_SYS : load_tls(self, why, size);
  if (status == IDEM_OK) status = open_store(self, url, times, why, size);
  if (status != IDEM_OK) {
    dispose(self);
    return status;
  }
  make_metrics(self);
  if (!start(self)) {
    snprintf(why, size, "no thread can be started");
    self->unstarted = true;
    idem__store_unref(self->store); /* and with it the carrier */
    return IDEM_E_SYS;
  }
  *out = self->store;
  if (made) *made = self;
  return IDEM_OK;
}

void idem__redis_why(idem__redis_carrier *self, char *why, size_t size) {
  pthread_mutex_lock(&self->lock);
  snprintf(why, size, "%s", *self->why ? self->why : "it does not answer");
  pthread_mutex_unlock(&self->lock);
}
