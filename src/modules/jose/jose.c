/* jose.c - keys by OpenSSL, signatures by cjose. What a key is decides how it signs, so that nobody can talk it into
 * another algorithm. See docs/internals/modules.md. */
#include "jose.h"
#include "verify.h"

#include <cjose/cjose.h>
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

#define RSA_BITS_MIN 2048
#define RSA_BITS_MAX 8192
#define P256_BYTES 32

struct idem__jose_key {
  cjose_jwk_t *jwk;
  const char *algorithm;
};

/* ---------------------------------------------------------------------- numbers */

typedef struct number {
  uint8_t bytes[RSA_BITS_MAX / 8];
  size_t len;
} number;

/* With `len` at its left end filled with zeros; 0: as long as it is. */
static bool get_number(const EVP_PKEY *key, const char *name, size_t len, number *out) {
  BIGNUM *value = NULL;
  if (!EVP_PKEY_get_bn_param(key, name, &value)) return false;
  out->len = len ? len : (size_t)BN_num_bytes(value);
  bool fits = out->len <= sizeof out->bytes &&
              BN_bn2binpad(value, out->bytes, (int)out->len) == (int)out->len;
  BN_clear_free(value);
  return fits;
}

static cjose_jwk_t *import_ec(const EVP_PKEY *key) {
  char curve[64];
  number d = {.len = 0}, x = {.len = 0}, y = {.len = 0};
  cjose_jwk_t *jwk = NULL;
  if (!EVP_PKEY_get_group_name(key, curve, sizeof curve, NULL) || strcmp(curve, "prime256v1") != 0)
    return NULL;
  if (get_number(key, OSSL_PKEY_PARAM_PRIV_KEY, P256_BYTES, &d) &&
      get_number(key, OSSL_PKEY_PARAM_EC_PUB_X, P256_BYTES, &x) &&
      get_number(key, OSSL_PKEY_PARAM_EC_PUB_Y, P256_BYTES, &y)) {
    cjose_jwk_ec_keyspec spec = {.crv = CJOSE_JWK_EC_P_256,
                                 .d = d.bytes,
                                 .dlen = d.len,
                                 .x = x.bytes,
                                 .xlen = x.len,
                                 .y = y.bytes,
                                 .ylen = y.len};
    jwk = cjose_jwk_create_EC_spec(&spec, NULL);
  }
  OPENSSL_cleanse(&d, sizeof d);
  return jwk;
}

static const char *const rsa_names[] = {
    OSSL_PKEY_PARAM_RSA_E,         OSSL_PKEY_PARAM_RSA_N,           OSSL_PKEY_PARAM_RSA_D,
    OSSL_PKEY_PARAM_RSA_FACTOR1,   OSSL_PKEY_PARAM_RSA_FACTOR2,     OSSL_PKEY_PARAM_RSA_EXPONENT1,
    OSSL_PKEY_PARAM_RSA_EXPONENT2, OSSL_PKEY_PARAM_RSA_COEFFICIENT1};
#define RSA_NUMBERS (sizeof rsa_names / sizeof *rsa_names)

static cjose_jwk_t *create_rsa(number *n) {
  cjose_jwk_rsa_keyspec spec = {.e = n[0].bytes,
                                .elen = n[0].len,
                                .n = n[1].bytes,
                                .nlen = n[1].len,
                                .d = n[2].bytes,
                                .dlen = n[2].len,
                                .p = n[3].bytes,
                                .plen = n[3].len,
                                .q = n[4].bytes,
                                .qlen = n[4].len,
                                .dp = n[5].bytes,
                                .dplen = n[5].len,
                                .dq = n[6].bytes,
                                .dqlen = n[6].len,
                                .qi = n[7].bytes,
                                .qilen = n[7].len};
  return cjose_jwk_create_RSA_spec(&spec, NULL);
}

static cjose_jwk_t *import_rsa(const EVP_PKEY *key) {
  int bits = EVP_PKEY_get_bits(key);
  if (bits < RSA_BITS_MIN || bits > RSA_BITS_MAX) return NULL;
  number *numbers = calloc(RSA_NUMBERS, sizeof *numbers);
  bool fine = numbers != NULL;
  for (size_t i = 0; fine && i < RSA_NUMBERS; i++)
    fine = get_number(key, rsa_names[i], 0, &numbers[i]);
  cjose_jwk_t *jwk = fine ? create_rsa(numbers) : NULL;
  if (numbers) OPENSSL_cleanse(numbers, RSA_NUMBERS * sizeof *numbers);
  free(numbers);
  return jwk;
}

/* ------------------------------------------------------------------------- keys */

/* Nobody is asked for a password. */
static int no_password(char *text, int size, int writing, void *user) {
  (void)text, (void)size, (void)writing, (void)user;
  return -1;
}

static EVP_PKEY *read_pem(const char *pem, size_t len) {
  BIO *bio = len <= 65536 ? BIO_new_mem_buf(pem, (int)len) : NULL;
  EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
  BIO_free(bio);
  return key;
}

static void key_free(idem__jose_key *key) {
  if (key && key->jwk) cjose_jwk_release(key->jwk);
  free(key);
}

static idem_status key_new(const char *pem, size_t len, idem__jose_key **out) {
  EVP_PKEY *parsed = read_pem(pem, len);
  *out = NULL;
  if (!parsed) return IDEM_E_INVAL;
  bool ec = EVP_PKEY_is_a(parsed, "EC"), rsa = EVP_PKEY_is_a(parsed, "RSA");
  idem__jose_key *key = calloc(1, sizeof *key);
  if (key && (ec || rsa)) {
    key->jwk = ec ? import_ec(parsed) : import_rsa(parsed);
    key->algorithm = ec ? CJOSE_HDR_ALG_ES256 : CJOSE_HDR_ALG_RS256;
  }
  EVP_PKEY_free(parsed);
  if (key && key->jwk) {
    *out = key;
    return IDEM_OK;
  }
  idem_status status = key ? IDEM_E_INVAL : IDEM_E_NOMEM;
  key_free(key);
  return status;
}

/* ---------------------------------------------------------------------- signing */

static bool add_public_key(cjose_header_t *header, const idem__jose_key *key) {
  char *jwk = cjose_jwk_to_json(key->jwk, false, NULL);
  bool added = jwk && cjose_header_set_raw(header, "jwk", jwk, NULL);
  if (jwk) cjose_get_dealloc()(jwk);
  return added;
}

static cjose_header_t *make_header(const idem__jose_key *key, bool proof) {
  cjose_header_t *header = cjose_header_new(NULL);
  if (header && cjose_header_set(header, CJOSE_HDR_ALG, key->algorithm, NULL) &&
      cjose_header_set(header, "typ", proof ? "dpop+jwt" : "JWT", NULL) &&
      (!proof || add_public_key(header, key)))
    return header;
  if (header) cjose_header_release(header);
  return NULL;
}

static idem_status make(const idem__jose_key *key, bool proof, const char *claims, size_t len,
                        char **out) {
  const char *text = NULL;
  *out = NULL;
  cjose_header_t *header = make_header(key, proof);
  if (!header) return IDEM_E_NOMEM;
  cjose_jws_t *jws = cjose_jws_sign(key->jwk, header, (const uint8_t *)claims, len, NULL);
  idem_status status = jws && cjose_jws_export(jws, &text, NULL) ? IDEM_OK : IDEM_E_INVAL;
  if (status == IDEM_OK && !(*out = strdup(text))) status = IDEM_E_NOMEM;
  if (jws) cjose_jws_release(jws);
  cjose_header_release(header);
  return status;
}

static idem_status sign(const idem__jose_key *key, const char *claims, size_t len, char **out) {
  return make(key, false, claims, len, out);
}

static idem_status prove(const idem__jose_key *key, const char *claims, size_t len, char **out) {
  return make(key, true, claims, len, out);
}

/* ------------------------------------------------------------------------ new keys */

static char *write_pem(EVP_PKEY *key) {
  char *data = NULL, *pem = NULL;
  BIO *bio = BIO_new(BIO_s_secmem());
  long len = bio && PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL)
                 ? BIO_get_mem_data(bio, &data)
                 : 0;
  if (len > 0 && (pem = malloc((size_t)len + 1))) {
    memcpy(pem, data, (size_t)len);
    pem[len] = 0;
  }
  BIO_free(bio);
  return pem;
}

static idem_status generate(char **pem) {
  EVP_PKEY *key = EVP_EC_gen("P-256");
  *pem = key ? write_pem(key) : NULL;
  idem_status status = *pem ? IDEM_OK : key ? IDEM_E_NOMEM : IDEM_E_SYS;
  EVP_PKEY_free(key);
  return status;
}

static void free_text(char *text) {
  if (text) OPENSSL_cleanse(text, strlen(text));
  free(text);
}

extern const idem__jose_module idem__jose_module_table;
__attribute__((visibility("default"))) const idem__jose_module idem__jose_module_table = {
    .key_new = key_new,
    .key_free = key_free,
    .sign = sign,
    .prove = prove,
    .generate = generate,
    .free_text = free_text,
    .crypto = &idem__jose_crypto,
};
