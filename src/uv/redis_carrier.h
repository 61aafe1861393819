/* redis_carrier.h - what carries a Redis store's bytes: what redis.c (its thread and its life) and redis_wire.c (its
 * connections) share. A carrier has one thread for all parts of a store, each of which has connections of its own. */
#ifndef IDEM_UV_REDIS_CARRIER_H
#define IDEM_UV_REDIS_CARRIER_H

#include "uv/redis.h"
#include "uv/secure.h"

#include <netdb.h>
#include <pthread.h>

typedef enum idem__redis_state {
  IDEM__REDIS_CLOSED,
  IDEM__REDIS_CONNECTING,
  IDEM__REDIS_SHAKING, /* TLS hands */
  IDEM__REDIS_OPEN
} idem__redis_state;

typedef struct idem__redis_connection {
  idem__redis_state state;
  int fd;
  struct addrinfo *addresses, *next; /* of the attempt under way */
  idem__secure *secure;
  char host[256], port[8]; /* where it is, or was last tried */
  uint64_t until_ms;       /* CLOSED: of the pause; else, before it is open, of the attempt */
  unsigned failures;
  uint64_t answered; /* when they were last none */
} idem__redis_connection;

#define IDEM__REDIS_REASONS 8 /* that are told each time it is away */
#define IDEM__REDIS_READ_BYTES ((size_t)64 * 1024)

/* One of a store's, with its two connections. All of it is the thread's. */
typedef struct idem__redis_part {
  idem__redis_carrier *carrier;
  idem__store *store;
  idem__redis_connection lines[IDEM__REDIS_LINES];
  uint64_t unknown, refused; /* counted so far */
  char said[256];            /* the last fault in the log */
} idem__redis_part;

/* How much of it is connected. */
typedef enum idem__redis_reach {
  IDEM__REDIS_GONE,
  IDEM__REDIS_PARTLY,
  IDEM__REDIS_WHOLE
} idem__redis_reach;

struct idem__redis_carrier {
  const idem__redis_module *module;
  idem__redis_part *parts[IDEM__STORE_PARTS_MAX];
  _Atomic unsigned count; /* those that the thread may look at */
  unsigned held;          /* those whose store is there */
  _Atomic bool settled;   /* no more will come: its state may be told */
  idem__redis_url where;
  uint64_t connect_ms;
  const idem__tls_module *tls;
  idem__tls_context *context;
  idem_alloc alloc;
  idem_log *log;
  idem_metrics *metrics; /* this thread's; NULL: none */
  int wake;
  _Atomic bool ending;
  idem__redis_reach told; /* of which the log knows */
  uint64_t
      reasons[IDEM__REDIS_REASONS]; /* why it is away, of which the log knows: hashes; 0: none */
  pthread_t thread;
  bool started;
  pthread_mutex_t lock;
  char why[256];                            /* under the lock */
  char read_buffer[IDEM__REDIS_READ_BYTES]; /* the thread's */
};

static inline idem__redis_line idem__redis_line_of(const idem__redis_part *self,
                                                   const idem__redis_connection *which) {
  return (idem__redis_line)(which - self->lines);
}

/* Begins an attempt; what is due is in until_ms. */
void idem__redis_begin(idem__redis_part *self, idem__redis_connection *which);
/* Ends it, tells the store, and sets the pause before the next attempt. */
void idem__redis_lose(idem__redis_part *self, idem__redis_connection *which, const char *what,
                      const char *detail);
void idem__redis_close(idem__redis_connection *which); /* without a word */
/* What to poll it for, and what came of that. */
short idem__redis_wanted(idem__redis_part *self, idem__redis_connection *which);
void idem__redis_serve(idem__redis_part *self, idem__redis_connection *which, short events);
/* For /metrics: what has come since the last time. */
void idem__redis_count(idem__redis_part *self);
/* For the log: a line for each change of how much is connected. */
void idem__redis_tell_state(idem__redis_carrier *self);

#endif
