/* grant.h - who asks and what for, as a token says that was checked: a principal, scopes, claims.
 * Made once, read by any thread, counted: requests that are kept look at it long after their connection.
 * See docs/internals/auth.md. */
#ifndef IDEM_JSON_GRANT_H
#define IDEM_JSON_GRANT_H

#include "json.h"

typedef struct idem__grant {
  _Atomic unsigned refs;
  idem_alloc alloc;
  const char *principal;
  const char *scope;  /* words with one blank between them; "": none */
  yyjson_doc *claims; /* an object, its numbers raw */
  uint64_t ends_s;    /* since 1970: it holds before that second alone */
  /* What whoever judged it looks at again while something lasts by it. */
  void *voucher; /* NULL: none */
  void (*voucher_unref)(void *voucher);
  char *token;      /* its text, where a server was asked about it; NULL: none was */
  uint64_t asked_s; /* then: when */
  char *logged;     /* what log lines say of its claims, " name=word" for each; NULL: nothing */
  size_t bytes;     /* about what it takes */
  bool bound;       /* who shows it must prove that a key is theirs, ... */
  uint8_t key[32];  /* ... which is known by this digest (RFC 7638) */
  char texts[];
} idem__grant;

#define IDEM__SCOPE_BYTES ((size_t)4096) /* of all that a token grants */

/* Takes `claims`, also when it fails: NULL, no memory. The texts are copied. */
idem__grant *idem__grant_new(const idem_alloc *alloc, const char *principal, const char *scope,
                             yyjson_doc *claims, uint64_t ends_s);
/* Before anybody else has it. Takes `voucher`. */
void idem__grant_vouch(idem__grant *grant, void *voucher, void (*unref)(void *voucher));
/* NOMEM: it has none. */
idem_status idem__grant_keep_token(idem__grant *grant, const char *token, size_t len,
                                   uint64_t asked_s);
/* The same. */
idem_status idem__grant_keep_logged(idem__grant *grant, const char *text, size_t len);
static inline idem__grant *idem__grant_ref(idem__grant *grant) {
  if (grant) atomic_fetch_add_explicit(&grant->refs, 1, memory_order_relaxed);
  return grant;
}
void idem__grant_unref(idem__grant *grant);                                /* takes NULL */
yyjson_val *idem__grant_claim(const idem__grant *grant, const char *name); /* NULL: not there */

/* Scopes are words of RFC 6749, 3.3: visible characters but for the quote and the backslash. */
bool idem__scope_is_good(const char *scope);
/* Whether each word of `needed` (NULL: none) is in `scope`. */
bool idem__scope_covers(const char *scope, const char *needed);
/* Appends the words of `scope` that are not in `out` yet, which ends with a NUL that is not counted. LIMIT, NOMEM. */
idem_status idem__scope_add(idem_buf *out, const char *scope, size_t len);

#endif
