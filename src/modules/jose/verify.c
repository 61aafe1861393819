/* verify.c - whether a key has signed a token: by cjose, and by OpenSSL itself where cjose knows no such keys (Ed25519).
 * How it is to be signed was decided before: what the token's own header says is compared with that, never followed. */
#include "verify.h"

#include <cjose/cjose.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define ED25519_BYTES 32
#define ED25519_SIGNATURE_BYTES 64

typedef struct public_key {
  cjose_jwk_t *jwk; /* one of the two */
  EVP_PKEY *ed25519;
} public_key;

static void key_free(void *at) {
  public_key *key = at;
  if (key->jwk) cjose_jwk_release(key->jwk);
  EVP_PKEY_free(key->ed25519);
  free(key);
}

/* The one long word of a JWK that our own code has written: its x. */
static EVP_PKEY *read_ed25519(const char *jwk, size_t len) {
  static const char name[] = "\"x\":\"";
  uint8_t *bytes = NULL;
  size_t count = 0;
  const char *at = strstr(jwk, name), *end = at ? strchr(at + sizeof name - 1, '"') : NULL;
  if (!end || (size_t)(end - jwk) >= len) return NULL;
  at += sizeof name - 1;
  if (!cjose_base64url_decode(at, (size_t)(end - at), &bytes, &count, NULL)) return NULL;
  EVP_PKEY *key = count == ED25519_BYTES
                      ? EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, bytes, count)
                      : NULL;
  cjose_get_dealloc()(bytes);
  return key;
}

static idem_status key_new(idem__key_kind kind, const char *jwk, size_t len, void **out) {
  public_key *key = calloc(1, sizeof *key);
  *out = NULL;
  if (!key) return IDEM_E_NOMEM;
  if (kind == IDEM__KEY_ED25519)
    key->ed25519 = read_ed25519(jwk, len);
  else
    key->jwk = cjose_jwk_import(jwk, len, NULL);
  ERR_clear_error();
  if (key->jwk || key->ed25519) {
    *out = key;
    return IDEM_OK;
  }
  key_free(key);
  return IDEM_E_INVAL;
}

static bool verify_ed25519(EVP_PKEY *key, const idem__signed *token) {
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  bool good = context && token->signature_len == ED25519_SIGNATURE_BYTES &&
              EVP_DigestVerifyInit(context, NULL, NULL, NULL, key) == 1 &&
              EVP_DigestVerify(context, token->signature, token->signature_len,
                               (const uint8_t *)token->text, token->signed_len) == 1;
  EVP_MD_CTX_free(context);
  return good;
}

/* cjose reads the header once more, with another reader of JSON: both must have seen the same. */
static bool says_the_same(cjose_jws_t *jws, const idem__signed *token) {
  cjose_header_t *header = cjose_jws_get_protected(jws);
  const char *algorithm = header ? cjose_header_get(header, CJOSE_HDR_ALG, NULL) : NULL;
  return algorithm && strcmp(algorithm, token->algorithm_name) == 0;
}

/* A signature has one length for its key; cjose takes some that have a byte more, so a token would have two spellings. */
static bool has_its_length(const cjose_jwk_t *key, const idem__signed *token) {
  size_t bytes = (cjose_jwk_get_keysize(key, NULL) + 7) / 8;
  bool pair = cjose_jwk_get_kty(key, NULL) == CJOSE_JWK_KTY_EC;
  return bytes && token->signature_len == (pair ? 2 * bytes : bytes);
}

static bool verify_jws(const cjose_jwk_t *key, const idem__signed *token) {
  if (!has_its_length(key, token)) return false;
  cjose_jws_t *jws = cjose_jws_import(token->text, token->len, NULL);
  bool good = jws && says_the_same(jws, token) && cjose_jws_verify(jws, key, NULL);
  if (jws) cjose_jws_release(jws);
  return good;
}

static idem_status verify(const void *at, const idem__signed *token) {
  const public_key *key = at;
  bool ed25519 = token->algorithm == IDEM__EDDSA;
  if (ed25519 != (key->ed25519 != NULL)) return IDEM_E_INVAL;
  bool good = ed25519 ? verify_ed25519(key->ed25519, token) : verify_jws(key->jwk, token);
  ERR_clear_error(); /* the thread is lent */
  return good ? IDEM_OK : IDEM_E_INVAL;
}

const idem__crypto idem__jose_crypto = {.key_new = key_new, .key_free = key_free, .verify = verify};
