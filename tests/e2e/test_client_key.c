/* test_client_key.c - the jose module: what it signs OpenSSL verifies, and which keys it takes. */
#include "support/unit.h"

#include "modules/jose/jose.h"
#include "uv/runtime.h"

#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

static const idem__jose_module *jose;

static int load_module(void **state) {
  char why[256];
  (void)state;
  jose = idem__module_load("jose", IDEM__JOSE_SYMBOL, why, sizeof why);
  if (!jose) fail_msg("%s", why);
  return 0;
}

/* In a buffer of the caller's; how long it is. */
static size_t write_pem(EVP_PKEY *key, const char *password, char *out, size_t size) {
  BIO *bio = BIO_new(BIO_s_mem());
  const EVP_CIPHER *cipher = password ? EVP_aes_256_cbc() : NULL;
  int len = password ? (int)strlen(password) : 0;
  assert_int_equal(PEM_write_bio_PKCS8PrivateKey(bio, key, cipher, password, len, NULL, NULL), 1);
  int read = BIO_read(bio, out, (int)size);
  assert_in_range(read, 1, size - 1);
  BIO_free(bio);
  return (size_t)read;
}

static size_t decode(const char *text, size_t len, char *out, size_t size) {
  idem_buf buf;
  idem_buf_fixed(&buf, out, size);
  assert_int_equal(idem_base64_decode(&buf, text, len, IDEM_BASE64_URL), IDEM_OK);
  return buf.len;
}

/* ES256 is two numbers side by side; OpenSSL has them in DER. */
static size_t to_der(const char *raw, size_t len, unsigned char *der) {
  assert_int_equal(len, 64);
  ECDSA_SIG *signature = ECDSA_SIG_new();
  ECDSA_SIG_set0(signature, BN_bin2bn((const unsigned char *)raw, 32, NULL),
                 BN_bin2bn((const unsigned char *)raw + 32, 32, NULL));
  int written = i2d_ECDSA_SIG(signature, &der);
  ECDSA_SIG_free(signature);
  return (size_t)written;
}

static void check_jws(EVP_PKEY *key, bool ec, const char *jws, const char *claims) {
  char head[256], body[256], raw[1024];
  unsigned char der[256];
  const char *dot = strchr(jws, '.'), *last = strrchr(jws, '.');
  head[decode(jws, (size_t)(dot - jws), head, sizeof head - 1)] = 0;
  body[decode(dot + 1, (size_t)(last - dot - 1), body, sizeof body - 1)] = 0;
  assert_non_null(strstr(head, ec ? "\"ES256\"" : "\"RS256\""));
  assert_string_equal(body, claims);
  size_t len = decode(last + 1, strlen(last + 1), raw, sizeof raw);
  const unsigned char *signature = (const unsigned char *)raw;
  if (ec) {
    len = to_der(raw, len, der);
    signature = der;
  }
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  assert_int_equal(EVP_DigestVerifyInit(context, NULL, EVP_sha256(), NULL, key), 1);
  assert_int_equal(
      EVP_DigestVerify(context, signature, len, (const unsigned char *)jws, (size_t)(last - jws)),
      1);
  EVP_MD_CTX_free(context);
}

static void sign_and_verify(EVP_PKEY *key, bool ec) {
  static const char claims[] = "{\"iss\":\"me\",\"aud\":\"https://as.example\"}";
  char pem[8192], *jws;
  idem__jose_key *loaded;
  size_t len = write_pem(key, NULL, pem, sizeof pem);
  assert_int_equal(jose->key_new(pem, len, &loaded), IDEM_OK);
  assert_int_equal(jose->sign(loaded, claims, strlen(claims), &jws), IDEM_OK);
  check_jws(key, ec, jws, claims);
  jose->free_text(jws);
  jose->key_free(loaded);
  EVP_PKEY_free(key);
}

static void what_a_key_of_p256_or_rsa_signs_can_be_verified(void **state) {
  (void)state;
  for (int i = 0; i < 20; i++)
    sign_and_verify(EVP_EC_gen("P-256"), true); /* numbers of any length */
  sign_and_verify(EVP_RSA_gen(2048), false);
}

static void refuse(EVP_PKEY *key, const char *password) {
  char pem[8192];
  idem__jose_key *loaded;
  size_t len = write_pem(key, password, pem, sizeof pem);
  assert_int_equal(jose->key_new(pem, len, &loaded), IDEM_E_INVAL);
  assert_null(loaded);
  EVP_PKEY_free(key);
}

static void other_keys_and_other_texts_are_refused(void **state) {
  (void)state;
  idem__jose_key *loaded;
  refuse(EVP_RSA_gen(1024), NULL);
  refuse(EVP_EC_gen("P-384"), NULL);
  refuse(EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"), NULL);
  refuse(EVP_EC_gen("P-256"), "secret"); /* and nobody is asked for it */
  static const char *const texts[] = {
      "", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
      "{\"kty\":\"oct\",\"k\":\"AAAA\"}"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    assert_int_equal(jose->key_new(texts[i], strlen(texts[i]), &loaded), IDEM_E_INVAL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_a_key_of_p256_or_rsa_signs_can_be_verified),
      cmocka_unit_test(other_keys_and_other_texts_are_refused),
  };
  return cmocka_run_group_tests(tests, load_module, NULL);
}
