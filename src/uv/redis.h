/* redis.h - the carrier of a Redis store: where it is, and a thread that moves its bytes. */
#ifndef IDEM_UV_REDIS_H
#define IDEM_UV_REDIS_H

#include "modules/redis/redis.h"
#include "uv/runtime.h"

/* What a URL says:
 *   redis://[USER@]HOST[:PORT][/DATABASE][?OPTIONS]      rediss:// the same behind TLS
 *   redis+unix:/PATH[?OPTIONS]                           redis+unix:USER@/PATH
 * OPTIONS: prefix=, db=, replicas=, parts=, password_file=, password_env=, ca=, max_bytes=, joined by "&". */
typedef struct idem__redis_url {
  bool tls;
  char path[108]; /* of a socket; "": host and port count */
  char host[256];
  char port[8];
  char user[128];
  char prefix[64];
  char ca_file[512];
  char password[1024]; /* read from where the URL says: to be wiped */
  char password_file
      [512];         /* where it was read, and is again for every connection; "": not from a file */
  bool has_database; /* it was named */
  unsigned database, replicas;
  unsigned parts; /* 0: as many as the store has */
  size_t max_bytes;
} idem__redis_url;

/* INVAL: `why` says what is wrong with it. SYS: the password cannot be read. */
idem_status idem__redis_url_parse(const char *text, idem__redis_url *url, char *why, size_t size);

/* Reads password_file once more. False: `why` says why not. */
bool idem__redis_url_password(idem__redis_url *url, char *why, size_t size);

/* Zero means the default. */
typedef struct idem__redis_times {
  uint64_t wait_ms, grace_ms; /* as in idem__redis_opts */
  uint64_t connect_ms;        /* for one address; 5,000 */
  bool
      first_alone; /* only part 0, to ask how many there are: idem__redis_complete has the others */
} idem__redis_times;

typedef struct idem__redis_carrier idem__redis_carrier; /* lives as long as its store */

/* What can be known of it without a connection: that its prefix is one, and its certificates can be read. As below. */
idem_status idem__redis_check(const idem__redis_module *module, const idem__redis_url *url,
                              char *why, size_t size);
/* Opens the store, all of its parts (where none are named, one), and starts its thread, which goes with the store. Does not wait
 * for Redis. INVAL: `why` says what is wrong
 * with the options; SYS: no module for TLS, no thread. `made` may be NULL. */
idem_status idem__redis_open(const idem__redis_module *module, const idem__redis_url *url,
                             const idem__redis_times *times, idem_log *log, idem__store **out,
                             idem__redis_carrier **made, char *why, size_t size);
/* How many parts the store says it has; 0: it has not been asked yet. */
unsigned idem__redis_parts(idem__redis_carrier *self);
/* *store, which was opened with first_alone, becomes the whole of so many parts. Where that fails it is gone. */
idem_status idem__redis_complete(idem__redis_carrier *self, const idem__redis_url *url,
                                 const idem__redis_times *times, unsigned parts,
                                 idem__store **store);
/* Why there is no connection, as far as is known. */
void idem__redis_why(idem__redis_carrier *self, char *why, size_t size);

#endif
