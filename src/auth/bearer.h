/* bearer.h - the server's side of authorization, without I/O: tokens that callers bring, the keys that their issuers publish,
 * what of both is believed, and what is remembered of them. Signatures come through a table of functions; whoever has a
 * loop fetches and waits. See docs/internals/auth.md. */
#ifndef IDEM_AUTH_BEARER_H
#define IDEM_AUTH_BEARER_H

#include "../json/grant.h"
#include "crypto.h"

/* ------------------------------------------------------------- algorithms (keys.c) */

/* IDEM__ALGORITHMS: it is none of them. */
idem__algorithm idem__algorithm_find(const char *name, size_t len);
const char *idem__algorithm_name(idem__algorithm algorithm);
/* The one kind of key that it goes with: what a key is decides what it can verify. */
idem__key_kind idem__algorithm_key(idem__algorithm algorithm);

/* ------------------------------------------------------------------ tokens (token.c) */

#define IDEM__TOKEN_BYTES ((size_t)16384) /* the longest that is looked at */

/* A JWT as it was brought: nothing of it is believed yet. */
typedef struct idem__token {
  const char *text; /* lent */
  size_t len;
  size_t signed_len; /* of the part that is signed: all before the last dot */
  idem__algorithm algorithm;
  yyjson_doc *header; /* of its members only alg, typ, kid and crit are ever looked at */
  yyjson_doc *claims;
  const char *key_id; /* NULL: it names none */
  size_t key_id_len;
  idem_buf signature;
} idem__token;
/* INVAL: it is none that could be checked here; *why is a sentence. NOMEM. Deinit in any case. */
idem_status idem__token_read(const idem_alloc *alloc, const char *text, size_t len,
                             idem__token *token, const char **why);
void idem__token_deinit(idem__token *token);
/* What a key is asked about; lent as the token is. */
idem__signed idem__token_signed(const idem__token *token);
/* Three parts with dots between them, which is what a JWT looks like; all else is opaque. */
bool idem__token_is_jwt(const char *text, size_t len);
/* Of the characters that bearer tokens are made of (RFC 6750, 2.1), and not too long. */
bool idem__token_is_text(const char *text, size_t len);

/* -------------------------------------------------------------------- keys (keys.c) */

#define IDEM__KEYS_MAX 64u
#define IDEM__JWKS_BYTES ((size_t)262144)
#define IDEM__KEY_ID_BYTES 256u

/* What a key is made of, as a JWK of our own with a NUL at its end that is counted; false: it is none that can verify anything
 * here. */
bool idem__jwk_put(idem_buf *out, yyjson_val *jwk, idem__key_kind *kind);

/* It has a part that is nobody's but its owner's. */
bool idem__jwk_is_private(yyjson_val *jwk);

/* A public key of an issuer, counted. */
typedef struct idem__key {
  _Atomic unsigned refs;
  _Atomic bool retired; /* its issuer does not publish it any more: nothing it has signed holds */
  idem_alloc alloc;
  const idem__crypto *crypto;
  void *handle;
  idem__key_kind kind;
  idem__algorithm only; /* the one it is for; IDEM__ALGORITHMS: whatever its kind can do */
  char *id;             /* NULL: it has none */
  char *jwk;
} idem__key;
idem__key *idem__key_ref(idem__key *key);
void idem__key_unref(idem__key *key); /* takes NULL */

typedef struct idem__key_set {
  idem__key *keys[IDEM__KEYS_MAX];
  size_t count;
  bool cut; /* there are more, which nobody looks at */
} idem__key_set;
/* Takes the place of what the set held with the keys of a JWKS (RFC 7517) that can verify something here; those that are
 * in both stay the same. INVAL: no such document, or no such key in it; NOMEM. The set is then as it was. */
idem_status idem__key_set_read(idem__key_set *set, const idem_alloc *alloc,
                               const idem__crypto *crypto, const char *body, size_t len,
                               const char **why);
void idem__key_set_deinit(idem__key_set *set);
/* Whether any of its keys goes with any of these: bits of idem__algorithm, 0: all. */
bool idem__key_set_serves(const idem__key_set *set, unsigned taken);
/* The key that a token says it was signed with, of the right kind; without a name the only one that it can be. NULL:
 * there is none. Lent. */
idem__key *idem__key_set_find(const idem__key_set *set, const idem__token *token);

/* ------------------------------------------------------------------- rules (claims.c) */

/* What a token must say. Texts are lent. */
typedef struct idem__token_rules {
  const char *const *issuers;
  size_t issuer_count;
  const char *audience; /* exactly, or one of a list */
  unsigned algorithms;  /* bits of idem__algorithm; 0: all */
  uint64_t skew_s;
  const char *principal_claim;
  bool access_tokens_alone; /* typ must be at+jwt (RFC 9068) */
  char *const
      *implies; /* pairs: a scope, and the words that it implies; ends with NULL; may be NULL */
  char *const *log_claims; /* names: see idem__grant_log_claims; ends with NULL; may be NULL */
} idem__token_rules;
/* A NumericDate among the claims; false: it is none. Absent: `otherwise`. */
bool idem__claim_time(yyjson_val *claims, const char *name, uint64_t otherwise, uint64_t *out);
/* Everything but the signature; *issuer says whose key it takes. INVAL: *why is a sentence. */
idem_status idem__token_check(const idem__token_rules *rules, const idem__token *token,
                              uint64_t now_s, size_t *issuer, const char **why);
/* What a token grants that was verified: its claims are taken. INVAL: it does not say who; NOMEM. */
idem_status idem__token_grant(const idem__token_rules *rules, const idem_alloc *alloc,
                              idem__token *token, idem__grant **out, const char **why);
/* The same of the answer to an introspection (RFC 7662). INVAL: it is no longer, or never was, a token for us. */
idem_status idem__introspected(const idem__token_rules *rules, const idem_alloc *alloc,
                               const char *body, size_t len, uint64_t now_s, idem__grant **out,
                               const char **why);

/* ------------------------------------------------------------- for logs (logged.c) */

#define IDEM__LOGGED_MAX 6u
#define IDEM__LOGGED_NAME ((size_t)64)
/* Why no log could show such a claim; NULL: it can. */
const char *idem__logged_fault(const char *name);
/* Writes down what log lines say of it: those of these claims that are scalars. NOMEM. */
idem_status idem__grant_log_claims(idem__grant *grant, char *const *names);

/* ------------------------------------------------------------ what is known (remember.c) */

/* Tokens that were good, by a keyed digest of their text, until they end. */
#define IDEM__REMEMBERED_MAX ((size_t)10000)
#define IDEM__REMEMBERED_BYTES ((size_t)33554432)
typedef struct idem__token_digest {
  uint64_t words[2];
} idem__token_digest;
typedef struct idem__remembered {
  idem_alloc alloc;
  uint64_t secret[2];
  idem_map map;
  idem_list oldest; /* in front */
  size_t bytes;
} idem__remembered;
void idem__remembered_init(idem__remembered *self, const idem_alloc *alloc,
                           const uint64_t secret[2]);
void idem__remembered_deinit(idem__remembered *self);
idem__token_digest idem__remembered_digest(const idem__remembered *self, const char *token,
                                           size_t len);
/* NULL: not known, or it has ended, or its key is not its issuer's any more. Lent. */
idem__grant *idem__remembered_find(idem__remembered *self, idem__token_digest digest,
                                   uint64_t now_s);
/* `key` NULL: another than a key said so. Holds until the grant ends, or `until_s`. Without memory nothing is remembered. */
void idem__remembered_add(idem__remembered *self, idem__token_digest digest, idem__grant *grant,
                          idem__key *key, uint64_t until_s);

/* ----------------------------------------------------------- what a server says (protect.c) */

/* Texts are lent. */
typedef struct idem__protected {
  const char *resource;
  const char *const *issuers;
  size_t issuer_count;
  const char *scopes; /* that there are; NULL: it does not say */
  const char *name;   /* for people; NULL: none */
  /* Tokens that are bound to a key (RFC 9449). */
  bool offers_proofs, wants_proofs; /* the second: of everybody */
  unsigned proof_algorithms;        /* bits of idem__algorithm; 0: all */
} idem__protected;
/* The document of RFC 9728. */
idem_status idem__protected_document(const idem__protected *self, idem_buf *out);
/* "/.well-known/oauth-protected-resource", and with the resource's path behind it: the paths of the document. The second
 * is NULL where it is the first. */
idem_status idem__protected_paths(const idem__protected *self, const idem_alloc *alloc,
                                  char *paths[2]);
/* What WWW-Authenticate says (RFC 6750, RFC 9728, RFC 9449), with a NUL at its end that is not counted. Each part may be NULL; `why`
 * must be without quotes. Who showed a token is told of the way it was shown, and of the other one where that is offered. */
typedef struct idem__bearer_challenge {
  bool proof; /* the scheme is DPoP, not Bearer; also where nothing else is taken */
  bool alone; /* of one scheme alone, for others to go on from */
  const char *error;
  const char *why;
  const char *scope;
} idem__bearer_challenge;
idem_status idem__protected_challenge(const idem__protected *self, idem_buf *out,
                                      const idem__bearer_challenge *challenge);

/* Whether a place that an issuer's metadata name may be asked at an address of a private network: one of its own origin, which
 * the operator named; any, where that is loopback. Else a stranger's document would have us ask our neighbours. */
bool idem__issuer_may_be_private(const char *issuer, const char *url);
#define IDEM__ISSUER_SAID 200

/* What an issuer says of itself (RFC 8414, OpenID Connect Discovery): where its keys are. Owned. INVAL: no such document, one
 * of somebody else, whose name is then in `said` (else ""), or a place that may not be asked. */
idem_status idem__issuer_read(const idem_alloc *alloc, const char *issuer, const char *body,
                              size_t len, char **jwks_url, char said[IDEM__ISSUER_SAID],
                              const char **why);

#endif
