/* rates.c - rate limits that all processes of a store share: what a client took is added to the counter of a record, a
 * block at a time, and what the others added comes back with the answer. While the store is away each process goes on
 * with its share. See docs/internals/mcp_http.md. */
#include "mcp_http.h"

#include <stdio.h>
#include <string.h>

#define NAME_ROOM 96
#define OPEN_MAX 256u       /* reports on their way; beyond them a process goes on with its share */
#define CLIENTS_MAX 100000u /* whose counters are kept */
#define KEPT_MS 60000u      /* at least, and for two of the limit's times */

struct idem__rates {
  idem_alloc alloc;
  _Atomic unsigned refs; /* its owner, and each report on its way */
  _Atomic unsigned open;
  idem_server *server;
  char label[48];
  uint64_t kept_ms;
  idem__lock lock;
  idem__limiter *limiter; /* NULL: it has gone; under the lock */
};

typedef struct report {
  idem__rates *rates; /* counted */
  idem__ip who;
  uint32_t taken;
  bool made; /* its record was to be made */
} report;

static void release(idem__rates *rates) {
  if (atomic_fetch_sub_explicit(&rates->refs, 1, memory_order_acq_rel) != 1) return;
  idem_alloc alloc = rates->alloc;
  idem__free(&alloc, rates);
}

/* ----------------------------------------------------------------- reporting */

static void end_report(report *self, const idem__store_answer *answer) {
  idem__rates *rates = self->rates;
  idem__lock_take(&rates->lock);
  if (rates->limiter && answer->status == IDEM_OK)
    idem__limiter_heard(rates->limiter, &self->who, answer->number, self->taken);
  else if (rates->limiter)
    idem__limiter_unheard(rates->limiter, &self->who, self->taken,
                          idem__node_others(rates->server));
  idem__lock_give(&rates->lock);
  atomic_fetch_sub(&rates->open, 1);
  idem__free(&rates->alloc, self);
  release(rates);
}

static void on_counted(const idem__store_answer *answer, void *user);
static void on_made(const idem__store_answer *answer, void *user);

/* Its owner, who holds the store, is there, or we are on the store's own thread. */
static void ask(report *self, idem__store_verb verb, idem__store_done done) {
  const idem__rates *rates = self->rates;
  char name[NAME_ROOM];
  int len = snprintf(name, sizeof name, "%s/", rates->label);
  idem__text_hex(name + len, self->who.bytes, sizeof self->who.bytes);
  idem__store_op op = {.verb = verb,
                       .space = IDEM__STORE_RATES,
                       .name = name,
                       .name_len = (size_t)len + 2 * sizeof self->who.bytes,
                       .expect = IDEM__STORE_ABSENT,
                       .ttl_ms = rates->kept_ms,
                       .limit = CLIENTS_MAX,
                       .after = self->taken,
                       .now_ms = idem__server_wall_ms(rates->server),
                       .done = done,
                       .user = self};
  idem__store_run(rates->server->store, &op);
}

static bool has_ended(idem__rates *rates) {
  idem__lock_take(&rates->lock);
  bool ended = !rates->limiter;
  idem__lock_give(&rates->lock);
  return ended;
}

static void on_made(const idem__store_answer *answer, void *user) {
  report *self = user;
  bool there = answer->status == IDEM_OK || answer->status == IDEM_E_EXISTS;
  if (there && !has_ended(self->rates))
    ask(self, IDEM__STORE_COUNT, on_counted);
  else
    end_report(self, &(idem__store_answer){.status = there ? IDEM_E_CLOSED : answer->status});
}

static void on_counted(const idem__store_answer *answer, void *user) {
  report *self = user;
  bool make = answer->status == IDEM_E_NOTFOUND && !self->made && !has_ended(self->rates);
  self->made = true;
  if (make)
    ask(self, IDEM__STORE_PUT, on_made);
  else
    end_report(self, answer);
}

static void on_taken(void *user, const idem__ip *who, uint32_t taken) {
  idem__rates *rates = user;
  bool room = atomic_fetch_add(&rates->open, 1) < OPEN_MAX;
  report *self = room ? idem__malloc(&rates->alloc, sizeof *self) : NULL;
  if (!self) {
    atomic_fetch_sub(&rates->open, 1);
    idem__limiter_unheard(rates->limiter, who, taken, idem__node_others(rates->server));
    return;
  }
  atomic_fetch_add_explicit(&rates->refs, 1, memory_order_relaxed);
  *self = (report){.rates = rates, .who = *who, .taken = taken};
  ask(self, IDEM__STORE_COUNT, on_counted);
}

static size_t count_others(void *user) {
  return idem__node_others(((const idem__rates *)user)->server);
}

/* ------------------------------------------------------------------ lifetime */

idem_status idem__rates_share(idem_server *server, const idem__rate *rate, idem__limiter *limiter,
                              idem__rates **out) {
  *out = NULL;
  if (!idem__node_number(server)) return IDEM_OK;
  idem__rates *rates = idem__calloc(&server->alloc, sizeof *rates);
  if (!rates) return IDEM_E_NOMEM;
  rates->alloc = server->alloc;
  rates->server = server;
  rates->limiter = limiter;
  atomic_init(&rates->refs, 1);
  idem__lock_init(&rates->lock);
  snprintf(rates->label, sizeof rates->label, "%s/%u/%u", rate->kind, (unsigned)rate->count,
           (unsigned)rate->seconds);
  rates->kept_ms = (uint64_t)rate->seconds * 2000;
  if (rates->kept_ms < KEPT_MS) rates->kept_ms = KEPT_MS;
  idem__limiter_share(limiter, on_taken, count_others, rates);
  *out = rates;
  return IDEM_OK;
}

void idem__rates_end(idem__rates *rates) {
  if (!rates) return;
  idem__lock_take(&rates->lock);
  rates->limiter = NULL;
  idem__lock_give(&rates->lock);
  release(rates);
}
