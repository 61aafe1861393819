/* jose.h - what the jose module offers: signatures over JSON (RFC 7515) by cjose and OpenSSL.
 * Loaded with the first key that a program gives; nobody else pays for the two. Functions may be called from any
 * thread. See docs/internals/modules.md. */
#ifndef IDEM_MODULES_JOSE_H
#define IDEM_MODULES_JOSE_H

#include "../../auth/crypto.h"
#include "../../base/base.h"

#define IDEM__JOSE_SYMBOL "idem__jose_module_table"

/* A private key that signs: by ES256 with P-256, by RS256 with RSA of 2,048 bits or more. The key alone decides; there is
 * no algorithm to choose. */
typedef struct idem__jose_key idem__jose_key;

typedef struct idem__jose_module {
  /* PEM, not encrypted. INVAL: it is no such key; NOMEM. */
  idem_status (*key_new)(const char *pem, size_t len, idem__jose_key **out);
  void (*key_free)(idem__jose_key *key); /* takes NULL */
  /* A compact JWS over the claims (JSON), with `typ` JWT; freed with free_text. NOMEM; INVAL: it cannot sign. */
  idem_status (*sign)(const idem__jose_key *key, const char *claims, size_t len, char **out);
  /* The same with `typ` dpop+jwt and the public part of the key in the header (RFC 9449). */
  idem_status (*prove)(const idem__jose_key *key, const char *claims, size_t len, char **out);
  /* A new key of P-256, as PEM for key_new; freed with free_text. NOMEM; SYS: there are no random numbers. */
  idem_status (*generate)(char **pem);
  void (*free_text)(char *text); /* wipes it; takes NULL */
  const idem__crypto *crypto;    /* public keys of others, and what they have signed */
} idem__jose_module;

#endif
