/* jws.h - what the fuzzers of tokens and of proofs share: a library for signatures that sees whether a key came in the form that we
 * write, without a private part, and believes nothing; and a JWS made of its parts, so that a fuzzer need not know base64. */
#ifndef IDEM_FUZZ_JWS_H
#define IDEM_FUZZ_JWS_H

#include "auth/crypto.h"

#include <stdlib.h>
#include <string.h>

#define MUST(condition)                                                                            \
  do {                                                                                             \
    if (!(condition)) abort();                                                                     \
  } while (0)

static inline idem_status jws_new_key(idem__key_kind kind, const char *jwk, size_t len,
                                      void **out) {
  static const char *const forms[] = {
      "{\"kty\":\"RSA\",\"n\":\"", "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"",
      "{\"kty\":\"EC\",\"crv\":\"P-384\",\"x\":\"", "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"",
      "{\"kty\":\"EC\",\"crv\":\"P-521\",\"x\":\""};
  MUST(strlen(jwk) == len && strncmp(jwk, forms[kind], strlen(forms[kind])) == 0);
  MUST(!strstr(jwk, "\"d\"") && !strstr(jwk, "\"k\"") && jwk[len - 1] == '}');
  *out = malloc(1);
  return *out ? IDEM_OK : IDEM_E_NOMEM;
}

static inline idem_status jws_verify(const void *key, const idem__signed *token) {
  (void)key;
  MUST(token->algorithm < IDEM__ALGORITHMS && token->signature_len &&
       token->signed_len < token->len);
  return IDEM_E_INVAL;
}

static const idem__crypto jws_crypto = {
    .key_new = jws_new_key, .key_free = free, .verify = jws_verify};

/* Header and claims on two lines, and some signature. False: it is too long. */
static inline bool jws_of_lines(idem_buf *out, const char *text, size_t len) {
  const char *line = memchr(text, '\n', len);
  size_t head = line ? (size_t)(line - text) : len, rest = line ? len - head - 1 : 0;
  return idem_base64_encode(out, text, head, IDEM_BASE64_URL) == IDEM_OK &&
         idem_buf_puts(out, ".") == IDEM_OK &&
         idem_base64_encode(out, line ? line + 1 : "", rest, IDEM_BASE64_URL) == IDEM_OK &&
         idem_buf_puts(out, ".AAAA") == IDEM_OK;
}

#endif
