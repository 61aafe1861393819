/* redis.c - the carrier of a Redis store: a thread that connects, encrypts, sends and receives for the module, which does no
 * I/O. Not a loop of the server's: those come and go while the store stays, and an answer must not wait for a handler.
 * See docs/internals/uv.md. */
#include "uv/redis.h"

#include "uv/redis_carrier.h"
#include "uv/tls_files.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define CONNECT_MS 5000u

typedef struct idem__redis_carrier carrier;
typedef idem__redis_connection line;

/* --------------------------------------------------------------- the thread */

/* What is due on one connection; *next is when to look again. */
static void keep_time(carrier *self, line *which, uint64_t *next) {
  uint64_t now = idem__clock_ms(), due = UINT64_MAX;
  if (!self->module->tick(self->store, idem__redis_line_of(self, which), now, &due))
    idem__redis_lose(self, which, self->module->fault(self->store), NULL);
  if (which->state == IDEM__REDIS_CLOSED && now >= which->until_ms) idem__redis_begin(self, which);
  if (which->state != IDEM__REDIS_OPEN && which->state != IDEM__REDIS_CLOSED &&
      now >= which->until_ms)
    idem__redis_lose(self, which, "it cannot be reached", strerror(ETIMEDOUT));
  if (which->state != IDEM__REDIS_OPEN && which->until_ms < due) due = which->until_ms;
  if (due < *next) *next = due;
}

static int time_until(uint64_t next) {
  uint64_t now = idem__clock_ms();
  if (next <= now) return 0;
  return next - now > 10000 ? 10000 : (int)(next - now);
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
    if (which->state != IDEM__REDIS_CLOSED) ready[i + 1].events = idem__redis_wanted(self, which);
  }
  if (poll(ready, IDEM__REDIS_LINES + 1, time_until(next)) < 0) return;
  idem__redis_count(self);
  if (ready[0].revents) take_wakes(self);
  for (int i = 0; i < IDEM__REDIS_LINES; i++)
    if (self->lines[i].fd == ready[i + 1].fd)
      idem__redis_serve(self, &self->lines[i], ready[i + 1].revents);
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
  for (int i = 0; i < IDEM__REDIS_LINES; i++) idem__redis_close(&self->lines[i]);
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
