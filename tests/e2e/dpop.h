/* dpop.h - proofs that a key is the caller's (RFC 9449) for tests, by OpenSSL alone. */
#ifndef IDEM_TESTS_DPOP_H
#define IDEM_TESTS_DPOP_H

#include "jwt.h"

#include <time.h>

static inline void dpop_put_digest(char *out, size_t size, const void *bytes, size_t len) {
  uint8_t digest[IDEM_SHA256_BYTES];
  idem_sha256 sha;
  idem_sha256_init(&sha);
  idem_sha256_add(&sha, bytes, len);
  idem_sha256_end(&sha, digest);
  out[0] = '\0';
  jwt_put_base64(out, size, digest, sizeof digest);
}

/* Appends a member of a JWK as RFC 7638 wants it. */
static inline void dpop_put_member(char *out, size_t size, const char *jwk, const char *name) {
  char mark[16];
  snprintf(mark, sizeof mark, "\"%s\":\"", name);
  const char *at = strstr(jwk, mark);
  if (!at) return;
  size_t len = strlen(mark) + strcspn(at + strlen(mark), "\"") + 1, used = strlen(out);
  snprintf(out + used, size - used, "%s%.*s", used > 1 ? "," : "", (int)len, at);
}

static inline void dpop_put_thumbprint(char *out, size_t size, const jwt_key *key) {
  static const char *const names[] = {"crv", "e", "kty", "n", "x", "y"};
  char jwk[4096] = "", canonical[4096] = "{";
  jwt_put_jwk(jwk, sizeof jwk, key);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    dpop_put_member(canonical, sizeof canonical, jwk, names[i]);
  strcat(canonical, "}");
  dpop_put_digest(out, size, canonical, strlen(canonical));
}

/* What a proof says; NULL and 0: what is right. */
typedef struct dpop_saying {
  const char *jti, *htm, *htu, *nonce, *token, *header;
  long long iat;
} dpop_saying;

static inline void dpop_put_claims(char *out, size_t size, const char *url, const char *token,
                                   const dpop_saying *says) {
  static unsigned made;
  char number[32], digest[64], nonce[128] = "";
  const char *of = says->token ? says->token : token;
  snprintf(number, sizeof number, "n%u", ++made);
  dpop_put_digest(digest, sizeof digest, of, strlen(of));
  if (says->nonce) snprintf(nonce, sizeof nonce, ",\"nonce\":\"%s\"", says->nonce);
  snprintf(
      out, size, "{\"jti\":\"%s\",\"htm\":\"%s\",\"htu\":\"%s\",\"iat\":%lld,\"ath\":\"%s\"%s}",
      says->jti ? says->jti : number, says->htm ? says->htm : "POST", says->htu ? says->htu : url,
      says->iat ? says->iat : (long long)time(NULL), digest, nonce);
}

static inline void dpop_put_header(char *out, size_t size, const jwt_key *key) {
  snprintf(out, size, "{\"typ\":\"dpop+jwt\",\"alg\":\"%s\",\"jwk\":", key->algorithm);
  jwt_put_jwk(out, size, key);
  strcat(out, "}");
}

/* A proof for a POST to the URL with this token. */
static inline void dpop_make(char *out, size_t size, const jwt_key *key, const char *url,
                             const char *token, const dpop_saying *says) {
  static const dpop_saying nothing;
  char header[4096], claims[4096];
  if (!says) says = &nothing;
  dpop_put_header(header, sizeof header, key);
  dpop_put_claims(claims, sizeof claims, url, token, says);
  jwt_make_with(out, size, key, says->header ? says->header : header, claims);
}

#endif
