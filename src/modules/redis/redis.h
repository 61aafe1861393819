/* redis.h - what the Redis module offers: a store of src/store in a Redis (or Valkey) server, shared by every process and
 * machine that names it. The module writes commands and reads answers and does no I/O: whoever opened the store, the
 * *carrier*, moves the bytes of two connections on one thread of its own. The runtime loads the module when a server names
 * "redis://...". See docs/internals/modules.md and decision 16. */
#ifndef IDEM_MODULES_REDIS_H
#define IDEM_MODULES_REDIS_H

#include "../../store/store.h"

#define IDEM__REDIS_SYMBOL "idem__redis_module_table"
/* How a fault begins that is none: a node of a cluster says which other has what was asked for. */
#define IDEM__REDIS_ELSEWHERE "the cluster has the store at"

/* Operations and their answers, and what others say has changed: a connection that listens can ask nothing. */
typedef enum idem__redis_line {
  IDEM__REDIS_COMMANDS,
  IDEM__REDIS_NEWS,
  IDEM__REDIS_LINES
} idem__redis_line;

/* Zero means the default. All of it is copied. */
typedef struct idem__redis_opts {
  const char *prefix; /* of all keys: letters, digits, ".", "-", "_"; NULL: "idem" */
  const char *user;   /* of an ACL; NULL: Redis's default user */
  const char *password;
  unsigned database;
  unsigned part;       /* which one of a store's parts this is, from 0 */
  unsigned parts;      /* how many there are; 0 (with part 0): as many as the store says */
  size_t max_bytes;    /* of values, names and log entries of all parts together; 512 MiB */
  size_t queued_count; /* operations that are not answered; 65,536 */
  size_t queued_bytes; /* of them; 64 MiB */
  unsigned replicas;   /* that must have a change before it is acknowledged; else it is unknown */
  uint64_t wait_ms;    /* for an answer, then the connection is given up; 5,000 */
  uint64_t grace_ms;   /* how long operations wait for a lost connection to come back; 1,000 */
  /* On any thread, with a lock held: there is something to send. */
  void (*wake)(void *carrier);
  /* The store goes: no function of the table runs or will be called once it has returned. */
  void (*stop)(void *carrier);
  void *carrier;
} idem__redis_opts;

/* What the store has come to: for metrics. */
typedef struct idem__redis_counts {
  uint64_t asked, answered;
  uint64_t unknown; /* sent, and nobody knows what came of them */
  uint64_t refused; /* not sent: the queue was full, or Redis away for longer than the grace */
  uint64_t waiting; /* now */
  unsigned parts;   /* as the store says; 0: it has not been asked yet */
  bool ready;
} idem__redis_counts; /* `answered` only goes up while Redis does what it is asked */

typedef struct idem__redis_module {
  idem_status (*open)(const idem__redis_opts *opts, idem__store **out);
  void (*counts)(idem__store *store, idem__redis_counts *counts); /* on any thread */
  /* For tests: from the first call on this store's time stands still, but for the time that passes so. */
  void (*pass)(idem__store *store, uint64_t ms);

  /* For the carrier's thread alone. Another password for the connections to come, of a store that was opened with one; copied. NOMEM: it
   * has the one before. */
  idem_status (*password)(idem__store *store, const char *password);
  /* A connection stands: its first words are ready to be sent. */
  void (*begin)(idem__store *store, idem__redis_line line, uint64_t now_ms);
  /* What is to be sent, until `sent`; 0: nothing for now. */
  size_t (*output)(idem__store *store, idem__redis_line line, uint64_t now_ms, const char **bytes);
  void (*sent)(idem__store *store, idem__redis_line line, size_t len);
  /* Bytes from Redis. False: the connection cannot go on, `fault` says why. */
  bool (*feed)(idem__store *store, idem__redis_line line, const char *data, size_t len,
               uint64_t now_ms);
  /* Looks at what is overdue. False as above; else when to call it again. */
  bool (*tick)(idem__store *store, idem__redis_line line, uint64_t now_ms, uint64_t *next_ms);
  /* There is no connection (any more), or an attempt to have one failed. What was sent ends with SYS; the rest waits for the
   * next one, for as long as the grace lasts. */
  void (*end)(idem__store *store, idem__redis_line line, uint64_t now_ms);
  /* Where to connect: to a node of a cluster. False: where the store was opened. */
  bool (*place)(idem__store *store, idem__redis_line line, unsigned attempt, char *host,
                size_t host_size, char *port, size_t port_size);
  /* The first connection is where the store is, and the store is ours: the second one is wanted. */
  bool (*joined)(idem__store *store);
  bool (*ready)(idem__store *store); /* ... and has passed its first words, too */
  /* Text that Redis chose in part: printable, bounded. */
  const char *(*fault)(idem__store *store);
} idem__redis_module;

#endif
