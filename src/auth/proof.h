/* proof.h - tokens that are bound to a key (RFC 9449, DPoP), the server's side without I/O: what a proof must say, for which
 * request it was made, that it is shown once, and nonces. Signatures come through crypto.h; whoever has a loop waits.
 * See docs/internals/auth.md. */
#ifndef IDEM_AUTH_PROOF_H
#define IDEM_AUTH_PROOF_H

#include "bearer.h"

#define IDEM__PROOF_BYTES ((size_t)8192)  /* the longest that is looked at */
#define IDEM__PROOF_NUMBER_MAX 256u       /* bytes of its jti */
#define IDEM__PROOF_AGE_S 30u             /* how old it may be, beside what clocks differ by */
#define IDEM__THUMBPRINT_BYTES 32u        /* RFC 7638, by SHA-256 */
#define IDEM__TARGET_BYTES ((size_t)4096) /* of a URL that a proof is for */

/* ------------------------------------------------------------------ parts (token.c) */

/* As idem__token_read, of a proof: its sentences speak of one, and a name of its key is not looked at. */
idem_status idem__token_read_proof(const idem_alloc *alloc, const char *text, size_t len,
                                   idem__token *token, const char **why);
/* Two members of one name are read differently by different readers: whether none of these is there twice. At most 32 names, then
 * NULL. */
bool idem__token_says_once(yyjson_val *object, const char *const *names);

/* ------------------------------------------------------------ the key (proof_key.c) */

/* A public JWK, written anew of its numbers with a NUL at its end that is counted, and what it is known by. False: it is none that
 * can verify anything here, or it has a private part, which nobody may show. */
bool idem__proof_key(yyjson_val *jwk, idem_buf *out, idem__key_kind *kind,
                     uint8_t thumbprint[IDEM__THUMBPRINT_BYTES]);
/* What `cnf` among the claims says (RFC 7800): *bound, and to which key. False: something that is not understood here, *why. */
bool idem__confirmation_read(yyjson_val *claims, bool *bound,
                             uint8_t thumbprint[IDEM__THUMBPRINT_BYTES], const char **why);

/* ------------------------------------------------------------- targets (target.c) */

/* An http or https URL as RFC 3986, 6.2.2 and 6.2.3 write it, without query and fragment, a NUL behind it that is not counted.
 * INVAL: it is no such URL; LIMIT: too long for `out`. */
idem_status idem__target_put(idem_buf *out, const char *url, size_t len);

/* Where the world finds what a listener serves: a resource's URL, and under it the listener's own paths. */
typedef struct idem__targets {
  char *resource; /* as idem__target_put has it */
  char *base;     /* what stands before any other path of the listener's */
  char *path;     /* of the listener, where the resource is */
} idem__targets;
/* INVAL: the resource is no URL. Deinit in any case. */
idem_status idem__targets_init(idem__targets *self, const idem_alloc *alloc, const char *resource,
                               const char *path);
void idem__targets_deinit(idem__targets *self, const idem_alloc *alloc);
/* The URL of a request, by its path as it was sent; written as idem__target_put does, but for dots: no client sends them. */
idem_status idem__targets_put(const idem__targets *self, idem_buf *out, const char *path,
                              size_t len);

/* --------------------------------------------------------------- nonces (nonce.c) */

/* What a proof must hold so that it was not made long before: the time, sealed. Nothing is kept of it. */
#define IDEM__NONCE_PERIOD_S 60u /* one is given out for so long, and taken for as long again */
#define IDEM__NONCE_KEY_BYTES 32u
#define IDEM__NONCE_TEXT 28u /* with its NUL */
typedef enum idem__nonce_age {
  IDEM__NONCE_NONE, /* it is none of ours, or too old */
  IDEM__NONCE_AGED, /* good, and there is a newer one */
  IDEM__NONCE_FRESH
} idem__nonce_age;
void idem__nonce_write(const uint8_t key[IDEM__NONCE_KEY_BYTES], uint64_t now_s,
                       char out[IDEM__NONCE_TEXT]);
idem__nonce_age idem__nonce_read(const uint8_t key[IDEM__NONCE_KEY_BYTES], const char *text,
                                 size_t len, uint64_t now_s);

/* ---------------------------------------------------------------- proofs (proof.c) */

/* A proof as it was brought: its key is its own, so that a signature says only that who made it has that key. */
typedef struct idem__proof {
  idem__token token; /* lent as its text is */
  idem__key_kind kind;
  idem_buf jwk; /* a NUL at its end, counted */
  uint8_t thumbprint[IDEM__THUMBPRINT_BYTES];
  uint8_t number[IDEM_SHA256_BYTES]; /* which one it is: of its key and its jti */
  uint64_t made_s;
  idem__nonce_age nonce; /* once it was checked */
} idem__proof;
/* INVAL: it is none that could be checked here; *why is a sentence. NOMEM. Deinit in any case. */
idem_status idem__proof_read(const idem_alloc *alloc, const char *text, size_t len,
                             idem__proof *proof, const char **why);
void idem__proof_deinit(idem__proof *proof);

typedef struct idem__proof_rules {
  unsigned algorithms; /* bits of idem__algorithm; 0: all */
  uint64_t skew_s;
  const uint8_t *nonce_key; /* NULL: nonces are not asked for */
} idem__proof_rules;
/* The request that it came with. Texts are lent. */
typedef struct idem__proof_request {
  const char *method;
  const char *target; /* as idem__targets_put has it */
  const char *token;
  size_t token_len;
} idem__proof_request;
/* Everything but the signature, the token's key, and whether it was shown before. INVAL: *why is a sentence; STATE: all is well but
 * the nonce. */
idem_status idem__proof_check(const idem__proof_rules *rules, idem__proof *proof,
                              const idem__proof_request *request, uint64_t now_s, const char **why);
/* Until when it would be taken again, if it were not remembered. */
uint64_t idem__proof_ends_s(const idem__proof_rules *rules, const idem__proof *proof);
/* OK: the key that it brings has signed it. INVAL: it has not; NOMEM. From any thread. */
idem_status idem__proof_verify(const idem__proof *proof, const idem__crypto *crypto);

/* -------------------------------------------------------------- replays (replay.c) */

/* Proofs that were good, until they would not be taken any more. Nothing is forgotten before: where there is no room, the next one is
 * refused. Of that room nobody has more than is left for all others, so that a flood of one caller's leaves room for each other. */
#define IDEM__REPLAY_BYTES ((size_t)67108864)
typedef struct idem__replays idem__replays;
typedef enum idem__replay {
  IDEM__REPLAY_NEW,   /* and remembered now */
  IDEM__REPLAY_SEEN,  /* it was shown before */
  IDEM__REPLAY_SHARE, /* its caller has shown too many */
  IDEM__REPLAY_FULL   /* all have, or there is no memory */
} idem__replay;
/* `longest_s`: no proof lasts longer from when it is shown. `most`: bytes. NULL: no memory. */
idem__replays *idem__replays_new(const idem_alloc *alloc, uint64_t longest_s, size_t most,
                                 uint64_t seed);
void idem__replays_free(idem__replays *self); /* takes NULL */
/* `which` is a proof's number; `whose` share it takes. */
idem__replay idem__replays_add(idem__replays *self, const uint8_t which[IDEM_SHA256_BYTES],
                               const char *whose, uint64_t now_s, uint64_t ends_s);
size_t idem__replays_count(const idem__replays *self);
size_t idem__replays_bytes(const idem__replays *self); /* that it counts */

#endif
