/* jwt.h - keys and tokens for tests, by OpenSSL alone: what is signed here owes nothing to the code that verifies it. */
#ifndef IDEM_TESTS_JWT_H
#define IDEM_TESTS_JWT_H

#include "base/base.h"
#include "support/unit.h"

#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rsa.h>
#include <stdio.h>

typedef struct jwt_key {
  const char *id;
  const char *algorithm;
  EVP_PKEY *key;
} jwt_key;

/* One of two in turn: a key of this kind takes half a second to make. */
static inline EVP_PKEY *jwt_rsa_key(void) {
  static EVP_PKEY *two[2];
  static unsigned turn;
  EVP_PKEY **one = &two[turn++ % 2];
  if (!*one) *one = EVP_RSA_gen(2048);
  assert_non_null(*one);
  assert_int_equal(EVP_PKEY_up_ref(*one), 1);
  return *one;
}

static inline jwt_key jwt_key_new(const char *id, const char *algorithm) {
  EVP_PKEY *key = strcmp(algorithm, "EdDSA") == 0   ? EVP_PKEY_Q_keygen(NULL, NULL, "ED25519")
                  : strcmp(algorithm, "ES256") == 0 ? EVP_EC_gen("P-256")
                  : strcmp(algorithm, "ES384") == 0 ? EVP_EC_gen("P-384")
                  : strcmp(algorithm, "ES512") == 0 ? EVP_EC_gen("P-521")
                                                    : jwt_rsa_key();
  assert_non_null(key);
  return (jwt_key){.id = id, .algorithm = algorithm, .key = key};
}

static inline void jwt_key_free(jwt_key *key) {
  EVP_PKEY_free(key->key);
  key->key = NULL;
}

static inline void jwt_put_base64(char *out, size_t size, const void *bytes, size_t len) {
  idem_buf text;
  size_t at = strlen(out);
  idem_buf_fixed(&text, out + at, size - at - 1);
  assert_int_equal(idem_base64_encode(&text, bytes, len, IDEM_BASE64_URL), IDEM_OK);
  out[at + text.len] = '\0';
}

static inline void jwt_put_number(char *out, size_t size, const jwt_key *key, const char *name,
                                  int len) {
  unsigned char bytes[512];
  BIGNUM *number = NULL;
  assert_int_equal(EVP_PKEY_get_bn_param(key->key, name, &number), 1);
  if (!len) len = BN_num_bytes(number);
  assert_int_equal(BN_bn2binpad(number, bytes, len), len);
  BN_free(number);
  jwt_put_base64(out, size, bytes, (size_t)len);
}

/* Appends its public part as a JWK. */
static inline void jwt_put_jwk(char *out, size_t size, const jwt_key *key) {
  size_t at = strlen(out);
  if (EVP_PKEY_is_a(key->key, "RSA")) {
    snprintf(out + at, size - at, "{\"kty\":\"RSA\",\"kid\":\"%s\",\"n\":\"", key->id);
    jwt_put_number(out, size, key, OSSL_PKEY_PARAM_RSA_N, 0);
    strcat(out, "\",\"e\":\"");
    jwt_put_number(out, size, key, OSSL_PKEY_PARAM_RSA_E, 0);
  } else if (EVP_PKEY_is_a(key->key, "EC")) {
    int bytes = (EVP_PKEY_get_bits(key->key) + 7) / 8;
    snprintf(out + at, size - at, "{\"kty\":\"EC\",\"crv\":\"P-%d\",\"kid\":\"%s\",\"x\":\"",
             EVP_PKEY_get_bits(key->key), key->id);
    jwt_put_number(out, size, key, OSSL_PKEY_PARAM_EC_PUB_X, bytes);
    strcat(out, "\",\"y\":\"");
    jwt_put_number(out, size, key, OSSL_PKEY_PARAM_EC_PUB_Y, bytes);
  } else {
    unsigned char bytes[32];
    size_t len = sizeof bytes;
    assert_int_equal(EVP_PKEY_get_raw_public_key(key->key, bytes, &len), 1);
    snprintf(out + at, size - at, "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"%s\",\"x\":\"",
             key->id);
    jwt_put_base64(out, size, bytes, len);
  }
  strcat(out, "\"}");
}

/* Two numbers side by side, as JOSE has them; OpenSSL has DER. */
static inline size_t jwt_from_der(unsigned char *signature, size_t len, int bytes) {
  const unsigned char *at = signature;
  ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &at, (long)len);
  assert_non_null(pair);
  unsigned char raw[132];
  BN_bn2binpad(ECDSA_SIG_get0_r(pair), raw, bytes);
  BN_bn2binpad(ECDSA_SIG_get0_s(pair), raw + bytes, bytes);
  ECDSA_SIG_free(pair);
  memcpy(signature, raw, (size_t)bytes * 2);
  return (size_t)bytes * 2;
}

static inline void jwt_sign(char *token, size_t size, const jwt_key *key, const char *algorithm) {
  unsigned char signature[1024];
  size_t len = sizeof signature;
  const char *digits = algorithm + strlen(algorithm) - 3;
  const EVP_MD *digest = strcmp(algorithm, "EdDSA") == 0 ? NULL
                         : strcmp(digits, "384") == 0    ? EVP_sha384()
                         : strcmp(digits, "512") == 0    ? EVP_sha512()
                                                         : EVP_sha256();
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  EVP_PKEY_CTX *more;
  assert_int_equal(EVP_DigestSignInit(context, &more, digest, NULL, key->key), 1);
  if (algorithm[0] == 'P') {
    EVP_PKEY_CTX_set_rsa_padding(more, RSA_PKCS1_PSS_PADDING);
    EVP_PKEY_CTX_set_rsa_pss_saltlen(more, RSA_PSS_SALTLEN_DIGEST);
  }
  assert_int_equal(
      EVP_DigestSign(context, signature, &len, (const unsigned char *)token, strlen(token)), 1);
  EVP_MD_CTX_free(context);
  if (algorithm[0] == 'E' && algorithm[1] == 'S')
    len = jwt_from_der(signature, len, (EVP_PKEY_get_bits(key->key) + 7) / 8);
  strcat(token, ".");
  jwt_put_base64(token, size, signature, len);
}

static inline void jwt_begin(char *token, size_t size, const char *header, const char *claims) {
  token[0] = '\0';
  jwt_put_base64(token, size, header, strlen(header));
  strcat(token, ".");
  jwt_put_base64(token, size, claims, strlen(claims));
}

/* A token with these claims, by a key and its algorithm. */
static inline void jwt_make(char *token, size_t size, const jwt_key *key, const char *claims) {
  char header[512];
  snprintf(header, sizeof header, "{\"alg\":\"%s\",\"typ\":\"at+jwt\",\"kid\":\"%s\"}",
           key->algorithm, key->id);
  jwt_begin(token, size, header, claims);
  jwt_sign(token, size, key, key->algorithm);
}

/* ... with a header of the test's own. */
static inline void jwt_make_with(char *token, size_t size, const jwt_key *key, const char *header,
                                 const char *claims) {
  jwt_begin(token, size, header, claims);
  jwt_sign(token, size, key, key->algorithm);
}

/* ... signed by HMAC, with any bytes as the secret. */
static inline void jwt_make_hmac(char *token, size_t size, const char *header, const char *claims,
                                 const void *secret, size_t secret_len) {
  unsigned char signature[32];
  unsigned len = sizeof signature;
  jwt_begin(token, size, header, claims);
  HMAC(EVP_sha256(), secret, (int)secret_len, (const unsigned char *)token, strlen(token),
       signature, &len);
  strcat(token, ".");
  jwt_put_base64(token, size, signature, len);
}

#endif
