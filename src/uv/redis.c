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
typedef idem__redis_part part;
typedef idem__redis_connection line;

/* --------------------------------------------------------------- the thread */

/* The second connection goes where the first found the store. */
static bool may_begin(const part *self, const line *which) {
  return idem__redis_line_of(self, which) == IDEM__REDIS_COMMANDS ||
         self->carrier->module->joined(self->store);
}

/* What is due on one connection; *next is when to look again. */
static void keep_time(part *self, line *which, uint64_t *next) {
  const idem__redis_module *module = self->carrier->module;
  uint64_t now = idem__clock_ms(), due = UINT64_MAX;
  if (!module->tick(self->store, idem__redis_line_of(self, which), now, &due))
    idem__redis_lose(self, which, module->fault(self->store), NULL);
  bool closed = which->state == IDEM__REDIS_CLOSED, wanted = may_begin(self, which);
  if (closed && wanted && now >= which->until_ms) idem__redis_begin(self, which);
  if (which->state != IDEM__REDIS_OPEN && which->state != IDEM__REDIS_CLOSED &&
      now >= which->until_ms)
    idem__redis_lose(self, which, "it cannot be reached", strerror(ETIMEDOUT));
  if (which->state != IDEM__REDIS_OPEN && wanted && which->until_ms < due) due = which->until_ms;
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

static struct pollfd interest(part *self, line *which) {
  struct pollfd wanted = {.fd = which->fd};
  if (which->state != IDEM__REDIS_CLOSED) wanted.events = idem__redis_wanted(self, which);
  return wanted;
}

static void serve(part *self, const struct pollfd *ready) {
  idem__redis_count(self);
  for (int i = 0; i < IDEM__REDIS_LINES; i++)
    if (self->lines[i].fd == ready[i].fd)
      idem__redis_serve(self, &self->lines[i], ready[i].revents);
}

static void turn(carrier *self) {
  struct pollfd ready[IDEM__REDIS_LINES * IDEM__STORE_PARTS_MAX + 1];
  unsigned count = atomic_load(&self->count);
  uint64_t next = UINT64_MAX;
  ready[0] = (struct pollfd){.fd = self->wake, .events = POLLIN};
  for (unsigned i = 0; i < count * IDEM__REDIS_LINES; i++) {
    part *one = self->parts[i / IDEM__REDIS_LINES];
    keep_time(one, &one->lines[i % IDEM__REDIS_LINES], &next);
  }
  for (unsigned i = 0; i < count * IDEM__REDIS_LINES; i++) {
    part *one = self->parts[i / IDEM__REDIS_LINES];
    ready[i + 1] = interest(one, &one->lines[i % IDEM__REDIS_LINES]);
  }
  if (poll(ready, count * IDEM__REDIS_LINES + 1, time_until(next)) < 0) return;
  if (ready[0].revents) take_wakes(self);
  for (unsigned i = 0; i < count; i++)
    serve(self->parts[i], &ready[(size_t)i * IDEM__REDIS_LINES + 1]);
  idem__redis_tell_state(self);
}

static void *carry_until_end(void *user) {
  carrier *self = user;
  while (!atomic_load(&self->ending)) turn(self);
  return NULL;
}

/* ---------------------------------------------------------------- lifetime */

static void wake_up(const carrier *self) {
  uint64_t one = 1;
  ssize_t n = write(self->wake, &one, sizeof one);
  (void)n; /* full: it is awake */
}

static void wake(void *user) { wake_up(((const part *)user)->carrier); }

static void dispose(carrier *self) {
  idem_alloc alloc = self->alloc;
  for (unsigned i = 0; i < IDEM__STORE_PARTS_MAX; i++) idem__free(&alloc, self->parts[i]);
  if (self->context) self->tls->context_free(self->context);
  if (self->wake >= 0) close(self->wake);
  if (self->metrics) idem__web_metrics_remove(self->metrics);
  idem_metrics_free(self->metrics);
  pthread_mutex_destroy(&self->lock);
  idem__free(&alloc, self);
}

/* The thread ends with the first part that goes, the carrier with the last. */
static void stop(void *user) {
  part *one = user;
  carrier *self = one->carrier;
  atomic_store(&self->ending, true);
  wake_up(self);
  if (self->started) pthread_join(self->thread, NULL);
  self->started = false;
  for (int i = 0; i < IDEM__REDIS_LINES; i++) idem__redis_close(&one->lines[i]);
  if (--self->held == 0) dispose(self);
}

static idem_status load_tls(const idem__redis_url *where, const idem__tls_module **tls,
                            idem__tls_context **context, char *why, size_t size) {
  idem__tls_opts opts = {.ca_file = *where->ca_file ? where->ca_file : NULL};
  if (!where->tls) return IDEM_OK;
  *tls = idem__tls_module_get(why, size);
  return *tls && (*tls)->client_new(&opts, context, why, size) == IDEM_OK ? IDEM_OK : IDEM_E_SYS;
}

static idem_status open_part(carrier *self, const idem__redis_url *url,
                             const idem__redis_times *times, unsigned number, unsigned parts) {
  part *one = self->parts[number] = idem__calloc(&self->alloc, sizeof *one);
  if (!one) return IDEM_E_NOMEM;
  one->carrier = self;
  for (int i = 0; i < IDEM__REDIS_LINES; i++) one->lines[i].fd = -1;
  idem__redis_opts opts = {.prefix = *url->prefix ? url->prefix : NULL,
                           .user = *url->user ? url->user : NULL,
                           .password = *url->password ? url->password : NULL,
                           .database = url->database,
                           .part = number,
                           .parts = parts,
                           .replicas = url->replicas,
                           .max_bytes = url->max_bytes,
                           .wait_ms = times ? times->wait_ms : 0,
                           .grace_ms = times ? times->grace_ms : 0,
                           .wake = wake,
                           .stop = stop,
                           .carrier = one};
  idem_status status = self->module->open(&opts, &one->store);
  if (status == IDEM_OK) self->held++;
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
  self->started = pthread_create(&self->thread, NULL, carry_until_end, self) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return self->started;
}

static void settle(carrier *self, unsigned count) {
  atomic_store(&self->count, count);
  atomic_store(&self->settled, true);
  wake_up(self);
}

/* ------------------------------------------------------------------ parts */

static bool is_ready(void *user, unsigned number) {
  const carrier *self = user;
  idem__redis_counts counts;
  self->module->counts(self->parts[number]->store, &counts);
  return counts.ready;
}

/* Before its thread sees them. */
static idem_status open_parts(carrier *self, const idem__redis_url *url,
                              const idem__redis_times *times, unsigned count) {
  idem_status status = IDEM_OK;
  for (unsigned i = 1; i < count && status == IDEM_OK; i++)
    status = open_part(self, url, times, i, count);
  return status;
}

static idem_status make_whole(carrier *self, unsigned count, idem__store **store) {
  idem__store *parts[IDEM__STORE_PARTS_MAX];
  for (unsigned i = 0; i < count; i++) parts[i] = self->parts[i]->store;
  idem__store_spread_opts opts = {
      .parts = parts, .count = count, .ready = is_ready, .user = self, .alloc = &self->alloc};
  return idem__store_spread_new(&opts, store);
}

/* The last one takes the carrier with it. */
static void give_up(carrier *self) {
  for (unsigned i = 0, left = self->held; left; i++) {
    if (!self->parts[i]->store) continue;
    left--;
    idem__store_unref(self->parts[i]->store);
  }
}

idem_status idem__redis_complete(carrier *self, const idem__redis_url *url,
                                 const idem__redis_times *times, unsigned parts,
                                 idem__store **store) {
  if (parts > 1) {
    idem_status status = open_parts(self, url, times, parts);
    if (status == IDEM_OK) status = make_whole(self, parts, store);
    if (status != IDEM_OK) {
      give_up(self);
      *store = NULL;
      return status;
    }
  }
  settle(self, parts);
  return IDEM_OK;
}

unsigned idem__redis_parts(carrier *self) {
  idem__redis_counts counts;
  self->module->counts(self->parts[0]->store, &counts);
  return counts.parts;
}

/* ---------------------------------------------------------------- opening */

static const char *fault_of(idem_status status) {
  return status == IDEM_E_INVAL
             ? "a prefix has up to 48 letters, digits, dots, dashes and underscores"
             : "there is no memory";
}

static idem_status open_first(carrier *self, const idem__redis_url *url,
                              const idem__redis_times *times, char *why, size_t size) {
  idem_status status =
      self->wake < 0 ? IDEM_E_SYS : load_tls(&self->where, &self->tls, &self->context, why, size);
  if (status != IDEM_OK) return status;
  bool any = times && times->first_alone;
  status = open_part(self, url, times, 0, any || url->parts ? url->parts : 1);
  if (status != IDEM_OK) snprintf(why, size, "%s", fault_of(status));
  return status;
}

idem_status idem__redis_open(const idem__redis_module *module, const idem__redis_url *url,
                             const idem__redis_times *times, idem_log *log, idem__store **out,
                             idem__redis_carrier **made, char *why, size_t size) {
  carrier *self = new_carrier(module, url, times, log);
  *out = NULL;
  snprintf(why, size, "there is no memory");
  if (!self) return IDEM_E_NOMEM;
  idem_status status = open_first(self, url, times, why, size);
  if (status != IDEM_OK) {
    dispose(self);
    return status;
  }
  make_metrics(self);
  atomic_store(&self->count, 1);
  if (!start(self)) {
    snprintf(why, size, "no thread can be started");
    idem__store_unref(self->parts[0]->store); /* and with it the carrier */
    return IDEM_E_SYS;
  }
  *out = self->parts[0]->store;
  if (made) *made = self;
  if (times && times->first_alone) return IDEM_OK;
  return idem__redis_complete(self, url, times, url->parts ? url->parts : 1, out);
}

static void ignore(void *user) { (void)user; }

idem_status idem__redis_check(const idem__redis_module *module, const idem__redis_url *url,
                              char *why, size_t size) {
  const idem__tls_module *tls = NULL;
  idem__tls_context *context = NULL;
  idem__store *store = NULL;
  idem__redis_opts opts = {
      .prefix = *url->prefix ? url->prefix : NULL, .wake = ignore, .stop = ignore};
  idem_status status = module->open(&opts, &store);
  if (status != IDEM_OK) snprintf(why, size, "%s", fault_of(status));
  if (store) idem__store_unref(store);
  if (status == IDEM_OK) status = load_tls(url, &tls, &context, why, size);
  if (context) tls->context_free(context);
  return status;
}

void idem__redis_why(idem__redis_carrier *self, char *why, size_t size) {
  pthread_mutex_lock(&self->lock);
  snprintf(why, size, "%s", *self->why ? self->why : "it does not answer");
  pthread_mutex_unlock(&self->lock);
}
