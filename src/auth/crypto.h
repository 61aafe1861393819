/* crypto.h - what needs a library for signatures, as a table of functions: modules/jose fills it, nobody else names one. */
#ifndef IDEM_AUTH_CRYPTO_H
#define IDEM_AUTH_CRYPTO_H

#include "../base/base.h"

/* All that can be asked for: neither "none" nor one that signs with a shared secret has a name here. */
typedef enum idem__algorithm {
  IDEM__ES256,
  IDEM__ES384,
  IDEM__RS256,
  IDEM__RS384,
  IDEM__RS512,
  IDEM__PS256,
  IDEM__PS384,
  IDEM__PS512,
  IDEM__EDDSA,
  IDEM__ES512,
  IDEM__ALGORITHMS
} idem__algorithm;

typedef enum idem__key_kind {
  IDEM__KEY_RSA,
  IDEM__KEY_P256,
  IDEM__KEY_P384,
  IDEM__KEY_ED25519,
  IDEM__KEY_P521
} idem__key_kind;

/* A compact JWS: whole, and taken apart. */
typedef struct idem__signed {
  const char *text;
  size_t len;
  size_t signed_len; /* of the part that is signed: all before the last dot */
  const void *signature;
  size_t signature_len;
  idem__algorithm algorithm;
  const char *algorithm_name;
} idem__signed;

/* From any thread. */
typedef struct idem__crypto {
  /* A public key from a JWK that holds what its kind is made of and nothing else. INVAL, NOMEM. */
  idem_status (*key_new)(idem__key_kind kind, const char *jwk, size_t len, void **out);
  void (*key_free)(void *key);
  /* OK: the key has signed it, by that algorithm. INVAL: it has not. */
  idem_status (*verify)(const void *key, const idem__signed *token);
} idem__crypto;

#endif
