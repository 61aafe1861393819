/* guard.h - who may ask a listener whose callers show an authorization server's tokens: one guard for each loop. Its files:
 * guard.c (requests that wait for a verdict), guard_keys.c (keys of issuers), guard_ask.c (opaque tokens), guard_proof.c (tokens
 * that are bound to a key), guard_stay.c (streams that end with their tokens), guard_opts.c (what it was told, and what it says of
 * itself). See docs/internals/auth.md. */
#ifndef IDEM_UV_GUARD_H
#define IDEM_UV_GUARD_H

#include "auth/bearer.h"
#include "uv/proofs.h"
#include "uv/runtime.h"
#include "uv/verifier.h"

#include <idem/fetch.h>

/* Between two fetches of the same keys: ten seconds; tests have less time. */
extern uint64_t idem__guard_pause_ms;
#define IDEM__GUARD_KEYS_S 600u       /* then keys are looked for again, whoever asks */
#define IDEM__GUARD_WAITING_MS 25000u /* for requests: longer than a pause and a fetch */

/* The keys of one issuer as this loop knows them, and where they come from. */
typedef struct idem__key_source {
  struct idem__guard *guard;
  char *issuer, *jwks_file, *jwks_url; /* NULL: not that */
  char *found_url;                     /* by its metadata; NULL: not yet */
  unsigned place;                      /* of its metadata, that is asked */
  const char *trouble;                 /* with metadata that came; NULL: none did */
  char said[IDEM__ISSUER_SAID];        /* whose they are, where they are another's; else "" */
  bool told_cut;                       /* that it has too many keys */
  idem__key_set keys;
  struct idem__shared_keys *shared;
  idem_list member;    /* in that one's */
  uint64_t version;    /* of what is shared, that is known here */
  uint64_t settled_ms; /* the last fetch that ended had begun then; 0: none has */
  unsigned failures;   /* in a row, up to then */
  idem_fetch *fetch;   /* under way on this loop, or NULL */
  bool over;           /* one has ended, and those who wait for it have not heard of it yet */
  bool refused_address;
} idem__key_source;

typedef enum idem__asking_step {
  IDEM__ASKING_KEYS,      /* its key is not known yet */
  IDEM__ASKING_SIGNATURE, /* a thread looks at it */
  IDEM__ASKING_TURN,      /* it waits until a server can be asked about it */
  IDEM__ASKING_SERVER,    /* a server is asked */
  IDEM__ASKING_FAILED,    /* it cannot go on: whoever waits hears of it when the timer runs */
  IDEM__ASKING_TOLD       /* whoever waits is being told */
} idem__asking_step;

/* A token of which nobody knows yet whether it is good, with those who brought it. */
typedef struct idem__asking {
  idem_list link; /* in the guard's, oldest first */
  struct idem__guard *guard;
  idem_list waiters;
  idem__token_digest digest;
  idem__asking_step step;
  uint64_t since_ms;
  size_t issuer;
  idem__key *key;
  idem__token token;
  idem__verifying verifying;
  idem_status verified;
  idem_fetch *fetch;
  size_t len;
  char text[];
} idem__asking;

/* A request that waits for a verdict. */
typedef struct idem__waiter {
  idem_list link; /* in its asking's; or in the guard's, while its proof is looked at */
  struct idem__guard *guard;
  idem__asking *asking;  /* NULL: its token is known */
  idem_http_wait *wait;  /* a request; or ... */
  idem__http_stay *stay; /* ... something that was let in before */
  idem__ip client;
  struct idem__proving *proving; /* NULL: it came with a token alone */
} idem__waiter;

typedef void (*idem__nonce_key_fn)(const void *user, uint8_t key[IDEM__NONCE_KEY_BYTES]);

typedef struct idem__guard {
  idem__runtime *runtime;
  idem_alloc alloc;
  idem_log *log;
  const idem__crypto *crypto;
  /* what it was told */
  char **issuers;
  char **implies;    /* pairs; ends with NULL */
  char **log_claims; /* ends with NULL */
  size_t issuer_count;
  idem__key_source *sources; /* one for each issuer */
  char *resource, *audience, *principal_claim, *required_scope, *scopes, *name, *ca_file, *proxy;
  char *introspection_url, *introspection_authorization;
  uint64_t introspection_s;
  bool anywhere; /* what metadata name may be in a private network */
  idem__token_rules rules;
  idem__proof_rules proof_rules;
  idem__targets targets;
  idem__protected protected_;
  /* what it says */
  char *document, *paths[2], *challenge, *stem, *bound_stem;
  idem_http_file file;
  idem_buf line;       /* the last challenge */
  char nonce_line[64]; /* the last nonce, as a header */
  uint8_t nonce_key[IDEM__NONCE_KEY_BYTES];
  idem__nonce_key_fn key_of_nonces; /* NULL: they have one of this process */
  const void *key_user;
  /* what it does */
  idem__remembered remembered;
  idem_map by_digest;
  idem_list askings;
  idem_list
      *next_asking; /* of whoever goes through them and tells: what ends meanwhile is passed over */
  idem_list stays;  /* streams and WebSockets that last by a token */
  uint64_t stays_due_s; /* when the first of them is looked at */
  idem_list provers;    /* whose proof is looked at */
  idem__proofs *proofs;
  size_t waiting;
  size_t servers_asked;
  uint64_t refresh_s;
  uv_timer_t timer; /* the next fetch is allowed, or a stream is to be looked at */
  uv_async_t news;  /* another loop has fetched keys */
  idem__verified verified;
  unsigned handles; /* of these three, that must be closed */
  size_t jobs;      /* on other threads */
  bool closing;
  bool verifies;      /* it has joined those who verify */
  bool cannot_verify; /* it could not */
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
/* Hears of what lasts by a token. */
void idem__guard_stays(idem__http_stay *stay, bool begins, void *user);
/* WWW-Authenticate for who shows nothing; and what others begin with. Lent as long as the guard. */
const char *idem__guard_challenge(const idem__guard *guard);
const char *idem__guard_stem(const idem__guard *guard);
const char *idem__guard_bound_stem(const idem__guard *guard);
/* Seals its nonces with a key that others have as well, who then take each other's; it is asked for each time, since it may become another while
 * serving. Before it serves. */
void idem__guard_share_nonces(idem__guard *guard, idem__nonce_key_fn fn, const void *user);
/* Its metadata, at their paths. */
idem_status idem__guard_add_routes(idem__guard *guard, idem_http_server *server);

/* guard.c, for the others. */
uint64_t idem__guard_now_s(void);
/* Refuses: with a challenge where that is the caller's to answer. Texts of the verdict last until the next one. */
void idem__guard_refuse(idem__guard *guard, idem__http_judgment *verdict, int status,
                        const idem__bearer_challenge *challenge);
/* What the token grants is enough, or is not. `proven`: with a proof. */
void idem__guard_let_in(idem__guard *guard, idem__http_judgment *verdict, idem__grant *grant,
                        bool proven);
/* It has heard, and is gone. */
void idem__waiter_end(idem__waiter *waiter, const idem__http_judgment *verdict);
/* The library for signatures; NULL: there is none, which is logged. */
const idem__crypto *idem__guard_crypto(idem_log *log);
/* There is a library for signatures, and threads for it; else that was logged. */
bool idem__guard_can_verify(idem__guard *guard);
/* Ends an asking, and tells whoever waits. `why` lasts. */
void idem__asking_accept(idem__asking *asking, idem__grant *grant);
void idem__asking_refuse(idem__asking *asking, int status, const char *why);
/* The same when the timer runs, for who may be on the stack. */
void idem__asking_fail(idem__asking *asking);
/* Has a thread look at its signature. */
void idem__asking_verify(idem__asking *asking, idem__key *key);

/* Keys that were taken back must be missed some day, by those who only bring known ones, too. */
void idem__guard_refresh(idem__guard *guard, uint64_t now_s);
/* A server is asked once more about the token of something that lasts, which hears of it. False: not now. */
bool idem__guard_ask_again(idem__guard *guard, idem__http_stay *stay);
/* It need not hear of it any more. */
void idem__guard_ask_no_more(idem__http_stay *stay);

/* guard_stay.c */
/* What was said of its token when it was asked about again. */
void idem__stay_told(idem__guard *guard, idem__http_stay *stay, const char *token,
                     const idem__http_judgment *verdict);
/* When the first must be looked at: milliseconds from now. UINT64_MAX: none. */
uint64_t idem__stays_due(idem__guard *guard);
void idem__stays_look(idem__guard *guard);

/* guard_keys.c */
/* Has the keys fetched as soon as that is allowed. */
void idem__source_want(idem__key_source *source);
/* ... now, if it is: a file is read on the spot. */
void idem__source_look(idem__key_source *source);
/* ... if they are older than a while. */
void idem__source_refresh(idem__key_source *source);
void idem__source_close(idem__key_source *source);
void idem__guard_arm(idem__guard *guard);
void idem__guard_hurry(idem__guard *guard); /* has the timer run now */
void idem__guard_on_timer(uv_timer_t *timer);
void idem__guard_on_news(uv_async_t *news);

/* guard_shared.c: what the loops of a process that ask the same place know together. */
/* With what is known already. NOMEM. */
idem_status idem__shared_keys_join(idem__key_source *source);
/* Another may take up what it had begun. Takes one that never joined. */
void idem__shared_keys_leave(idem__key_source *source);
/* When a fetch may begin; UINT64_MAX: one is under way, of which all will hear. */
uint64_t idem__shared_keys_next_ms(const idem__key_source *source);
/* True: it is this one's to fetch. Not before `age_ms` after the last one, unless that failed. */
bool idem__shared_keys_begin(idem__key_source *source, uint64_t now_ms, uint64_t age_ms);
/* It has ended: all hear of its keys, which are new where it was good. */
void idem__shared_keys_end(idem__key_source *source, bool good);
/* Takes over what others have fetched. False: nothing that is not known. */
bool idem__shared_keys_news(idem__key_source *source);

/* guard_ask.c */
/* Begins, or waits for its turn. */
void idem__asking_introspect(idem__asking *asking);
void idem__guard_next_turn(idem__guard *guard);

/* guard_proof.c */
typedef struct idem__proving idem__proving; /* a proof that came with a request */
/* The proof that goes with a token; NULL: *verdict says what is wrong. */
idem__proving *idem__proving_new(idem__guard *guard, const idem_http_caller *caller,
                                 const char *token, size_t len, idem__http_judgment *verdict);
/* The token is bound to the key of its proof; false: *verdict refuses it. */
bool idem__proving_fits(idem__proving *proving, const idem__grant *grant,
                        idem__http_judgment *verdict);
/* Has a thread look at its signature. The waiter is the guard's, and ends when that is done. */
void idem__proving_begin(idem__waiter *waiter, idem__grant *grant);
/* Nobody waits for it any more. Takes NULL. */
void idem__proving_leave(idem__proving *proving);

/* guard_opts.c */
idem_status idem__guard_take(idem__guard *guard, const idem_http_auth *opts, const char *url);
void idem__guard_free_options(idem__guard *guard);

#endif
