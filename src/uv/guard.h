/* guard.h - who may ask a listener whose callers show an authorization server's tokens: one guard for each loop. Its files:
 * guard.c (requests that wait for a verdict), guard_keys.c (keys of issuers), guard_ask.c (opaque tokens), guard_opts.c (what it
 * was told, and what it says of itself). See docs/internals/auth.md. */
#ifndef IDEM_UV_GUARD_H
#define IDEM_UV_GUARD_H

#include "auth/bearer.h"
#include "uv/runtime.h"

#include <idem/fetch.h>

/* Between two fetches of the same keys: ten seconds; tests have less time. */
extern uint64_t idem__guard_pause_ms;
#define IDEM__GUARD_KEYS_S 600u       /* then keys are looked for again, whoever asks */
#define IDEM__GUARD_WAITING_MS 25000u /* for requests: longer than a pause and a fetch */

/* The keys of one issuer, and where they come from. */
typedef struct idem__key_source {
  struct idem__guard *guard;
  char *issuer, *jwks_file, *jwks_url; /* NULL: not that */
  char *found_url;                     /* by its metadata; NULL: not yet */
  unsigned place;                      /* of its metadata, that is asked */
  idem__key_set keys;
  idem_fetch *fetch; /* under way, or NULL */
  bool asked;        /* a fetch has begun, ... */
  uint64_t began_ms; /* ... the last one then */
  unsigned failures; /* in a row */
  bool over;         /* it has ended, and those who wait for it have not heard of it yet */
  bool refused_address;
} idem__key_source;

typedef enum idem__asking_step {
  IDEM__ASKING_KEYS,      /* its key is not known yet */
  IDEM__ASKING_SIGNATURE, /* a thread looks at it */
  IDEM__ASKING_TURN,      /* it waits until a server can be asked about it */
  IDEM__ASKING_SERVER,    /* a server is asked */
  IDEM__ASKING_FAILED     /* it cannot go on: whoever waits hears of it when the timer runs */
} idem__asking_step;

/* A token of which nobody knows yet whether it is good, with those who brought it. */
typedef struct idem__asking {
  idem__list link; /* in the guard's, oldest first */
  struct idem__guard *guard;
  idem__list waiters;
  idem__token_digest digest;
  idem__asking_step step;
  uint64_t since_ms;
  size_t issuer;
  idem__key *key;
  idem__token token;
  uv_work_t work;
  idem_status verified;
  idem_fetch *fetch;
  size_t len;
  char text[];
} idem__asking;

typedef struct idem__guard {
  idem__runtime *runtime;
  idem_alloc alloc;
  idem_log *log;
  const idem__crypto *crypto;
  /* what it was told */
  char **issuers;
  size_t issuer_count;
  idem__key_source *sources; /* one for each issuer */
  char *resource, *audience, *principal_claim, *required_scope, *scopes, *name, *ca_file, *proxy;
  char *introspection_url, *introspection_authorization;
  uint64_t introspection_s;
  bool anywhere; /* what metadata name may be in a private network */
  idem__token_rules rules;
  idem__protected protected_;
  /* what it says */
  char *document, *paths[2], *challenge, *stem;
  idem_http_file file;
  idem__buf line; /* the last challenge */
  /* what it does */
  idem__remembered remembered;
  idem__map by_digest;
  idem__list askings;
  size_t waiting;
  size_t servers_asked;
  uint64_t refresh_s;
  uv_timer_t timer; /* the next fetch is allowed */
  size_t jobs;      /* on other threads */
  bool closing, timer_closed;
  void (*closed)(void *user);
  void *closed_user;
} idem__guard;

/* INVAL (logged): options that make no sense, or a file without keys; SYS: no module for signatures; NOMEM. `url` is the listener's. */
idem_status idem__guard_new(idem__runtime *runtime, const idem_http_auth *opts, const char *url,
                            idem_log *log, idem__guard **out);
/* After the last connection. `closed` runs later; the guard is gone then. */
void idem__guard_close(idem__guard *guard, void (*closed)(void *user), void *user);
/* The judge of its requests. */
void idem__guard_judge(const idem_http_caller *caller, idem__http_judgment *verdict, void *user);
/* WWW-Authenticate for who shows nothing; and what others begin with. Lent as long as the guard. */
const char *idem__guard_challenge(const idem__guard *guard);
const char *idem__guard_stem(const idem__guard *guard);
/* Its metadata, at their paths. */
idem_status idem__guard_add_routes(idem__guard *guard, idem_http_server *server);

/* guard.c, for the others. */
uint64_t idem__guard_now_s(void);
/* Ends an asking, and tells whoever waits. `why` lasts. */
void idem__asking_accept(idem__asking *asking, idem__grant *grant);
void idem__asking_refuse(idem__asking *asking, int status, const char *why);
/* The same when the timer runs, for who may be on the stack. */
void idem__asking_fail(idem__asking *asking);
/* Has a thread look at its signature. */
void idem__asking_verify(idem__asking *asking, idem__key *key);

/* guard_keys.c */
/* Has the keys fetched as soon as that is allowed. */
void idem__source_want(idem__key_source *source);
/* ... now, if it is: a file is read on the spot. */
void idem__source_look(idem__key_source *source);
void idem__source_close(idem__key_source *source);
void idem__guard_arm(idem__guard *guard);
void idem__guard_hurry(idem__guard *guard); /* has the timer run now */
void idem__guard_on_timer(uv_timer_t *timer);

/* guard_ask.c */
/* Begins, or waits for its turn. */
void idem__asking_introspect(idem__asking *asking);
void idem__guard_next_turn(idem__guard *guard);

/* guard_opts.c */
idem_status idem__guard_take(idem__guard *guard, const idem_http_auth *opts, const char *url);
void idem__guard_free_options(idem__guard *guard);

#endif
