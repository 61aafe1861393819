/* test_proof_check.c - proofs that a key is the caller's (RFC 9449), as a server sees them: a row for each rule, with a clock of the
 * test's. Keys and digests are those of the RFCs; signatures are a function of the test's. */
#include "auth/proof.h"
#include "jwt_text.h"

#include <stdio.h>
#include <stdlib.h>

#define NOW 1000000u
#define TOKEN "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"
#define ATH "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo" /* of TOKEN: RFC 9449, 7.1 */
#define OURS "https://mcp.example/mcp"
#define X "l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs"
#define Y "9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA"
#define EC "{\"kty\":\"EC\",\"x\":\"" X "\",\"y\":\"" Y "\",\"crv\":\"P-256\"}"
#define EC_THUMBPRINT "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I" /* RFC 9449, 6.1 */
#define RSA_N                                                                                      \
  "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_"        \
  "BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-"                \
  "65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-"     \
  "bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"
#define RSA "{\"kty\":\"RSA\",\"n\":\"" RSA_N "\",\"e\":\"AQAB\",\"alg\":\"RS256\",\"kid\":\"1\"}"
#define OKP                                                                                        \
  "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}"
#define HEADER(alg, jwk) "{\"typ\":\"dpop+jwt\",\"alg\":\"" alg "\",\"jwk\":" jwk "}"
#define USUAL_HEADER HEADER("ES256", EC)
#define CLAIMS(jti, htm, htu, iat, more)                                                           \
  "{\"jti\":" jti ",\"htm\":\"" htm "\",\"htu\":\"" htu "\",\"iat\":" iat more "}"
#define WITH_ATH ",\"ath\":\"" ATH "\""
#define USUAL_CLAIMS CLAIMS("\"a\"", "POST", OURS, "1000000", WITH_ATH)

static const idem__proof_rules usual_rules = {.skew_s = 30};

static idem_status try_it(const char *header, const char *claims, const idem__proof_rules *rules,
                          uint64_t now_s, const char **why, idem__nonce_age *nonce) {
  static const idem__proof_request request = {
      .method = "POST", .target = OURS, .token = TOKEN, .token_len = sizeof TOKEN - 1};
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__proof proof;
  idem_buf text;
  *why = NULL;
  idem_buf_init(&text, &alloc, 1 << 20);
  write_jwt(&text, header, claims);
  idem_status status = idem__proof_read(&alloc, text.data, text.len, &proof, why);
  if (status == IDEM_OK) status = idem__proof_check(rules, &proof, &request, now_s, why);
  if (nonce) *nonce = proof.nonce;
  assert_true(status == IDEM_OK || (*why && !strchr(*why, '"')));
  idem__proof_deinit(&proof);
  idem_buf_deinit(&text);
  return status;
}

static void expect_fault(const char *header, const char *claims, const char *words) {
  const char *why;
  idem_status status = try_it(header, claims, &usual_rules, NOW, &why, NULL);
  if (status != IDEM_E_INVAL || !strstr(why, words))
    fail_msg("%s %s: expected \"%s\", got \"%s\"", header, claims, words, why ? why : "nothing");
}

static void expect_fine_at(const char *header, const char *claims, uint64_t now_s) {
  const char *why;
  if (try_it(header, claims, &usual_rules, now_s, &why, NULL) != IDEM_OK)
    fail_msg("%s %s: %s", header, claims, why);
}

static void expect_fine(const char *header, const char *claims) {
  expect_fine_at(header, claims, NOW);
}

/* ------------------------------------------------------------------- tests */

static void a_proof_for_this_request_is_fine(void **state) {
  (void)state;
  expect_fine(USUAL_HEADER, USUAL_CLAIMS);
  expect_fine(HEADER("RS256", RSA), USUAL_CLAIMS);
  expect_fine(HEADER("PS512", RSA), USUAL_CLAIMS);
  expect_fine(HEADER("EdDSA", OKP), USUAL_CLAIMS);
  expect_fine("{\"typ\":\"DPOP+JWT\",\"alg\":\"ES256\",\"kid\":7,\"jwk\":" EC "}", USUAL_CLAIMS);
}

static void only_what_says_that_it_is_one_is_a_proof(void **state) {
  (void)state;
  static const char *const types[] = {"\"typ\":\"JWT\",",
                                      "\"typ\":\"at+jwt\",",
                                      "\"typ\":\"dpop\",",
                                      "\"typ\":\"dpop+jwt \",",
                                      "\"typ\":7,",
                                      "\"typ\":null,",
                                      ""};
  char header[1024];
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    snprintf(header, sizeof header, "{%s\"alg\":\"ES256\",\"jwk\":" EC "}", types[i]);
    expect_fault(header, USUAL_CLAIMS, "another kind");
  }
  expect_fault("{\"typ\":\"dpop+jwt\",\"typ\":\"JWT\",\"alg\":\"ES256\",\"jwk\":" EC "}",
               USUAL_CLAIMS, "twice");
  expect_fault("{\"typ\":\"dpop+jwt\",\"alg\":\"ES256\",\"crit\":[\"x\"],\"jwk\":" EC "}",
               USUAL_CLAIMS, "crit");
}

static void what_anybody_could_sign_is_no_proof(void **state) {
  (void)state;
  static const char *const names[] = {"none",  "None", "HS256", "HS384",
                                      "HS512", "",     "es256", "dir"};
  char header[1024];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(header, sizeof header, "{\"typ\":\"dpop+jwt\",\"alg\":\"%s\",\"jwk\":" EC "}",
             names[i]);
    expect_fault(header, USUAL_CLAIMS, "in a way that is not taken");
  }
  expect_fault("{\"typ\":\"dpop+jwt\",\"jwk\":" EC "}", USUAL_CLAIMS, "how it is signed");
  expect_fault("{\"typ\":\"dpop+jwt\",\"alg\":\"ES256\",\"alg\":\"HS256\",\"jwk\":" EC "}",
               USUAL_CLAIMS, "twice");
  expect_fault(HEADER("RS256", EC), USUAL_CLAIMS, "does not go with its key");
  expect_fault(HEADER("ES384", EC), USUAL_CLAIMS, "does not go with its key");
  expect_fault(HEADER("ES256", RSA), USUAL_CLAIMS, "does not go with its key");
  expect_fault(HEADER("ES256", "{\"kty\":\"oct\",\"k\":\"AAAA\"}"), USUAL_CLAIMS, "jwk");
}

static void only_ways_that_are_allowed_are_taken(void **state) {
  (void)state;
  idem__proof_rules rules = {.skew_s = 30, .algorithms = 1u << IDEM__PS256 | 1u << IDEM__EDDSA};
  const char *why;
  assert_int_equal(try_it(USUAL_HEADER, USUAL_CLAIMS, &rules, NOW, &why, NULL), IDEM_E_INVAL);
  assert_int_equal(try_it(HEADER("PS256", RSA), USUAL_CLAIMS, &rules, NOW, &why, NULL), IDEM_OK);
  assert_int_equal(try_it(HEADER("EdDSA", OKP), USUAL_CLAIMS, &rules, NOW, &why, NULL), IDEM_OK);
}

static void a_key_is_public_or_it_is_refused(void **state) {
  (void)state;
  static const char *const parts[] = {"d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"};
  char header[2048];
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    snprintf(header, sizeof header,
             "{\"typ\":\"dpop+jwt\",\"alg\":\"ES256\",\"jwk\":{\"kty\":\"EC\",\"x\":\"" X
             "\",\"y\":\"" Y "\",\"crv\":\"P-256\",\"%s\":\"AAAA\"}}",
             parts[i]);
    expect_fault(header, USUAL_CLAIMS, "no public key");
  }
}

static void a_key_is_whole_and_says_each_thing_once(void **state) {
  (void)state;
  static const char *const keys[] = {
      "null",
      "7",
      "\"" X "\"",
      "[" EC "]",
      "{}",
      "{\"kty\":\"EC\",\"x\":\"" X "\",\"crv\":\"P-256\"}",
      "{\"kty\":\"EC\",\"x\":\"" X "\",\"y\":\"" Y "\",\"crv\":\"secp256k1\"}",
      "{\"kty\":\"EC\",\"x\":\"" X "\",\"y\":\"" Y "\",\"crv\":\"P-256\",\"x\":\"" Y "\"}",
      "{\"kty\":\"EC\",\"x\":\"" X "A\",\"y\":\"" Y "\",\"crv\":\"P-256\"}",
      "{\"kty\":\"EC\",\"x\":\"" X "=\",\"y\":\"" Y "\",\"crv\":\"P-256\"}",
      "{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}"};
  char header[1024];
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    snprintf(header, sizeof header, "{\"typ\":\"dpop+jwt\",\"alg\":\"ES256\",\"jwk\":%s}", keys[i]);
    expect_fault(header, USUAL_CLAIMS, "no public key");
  }
  expect_fault("{\"typ\":\"dpop+jwt\",\"alg\":\"ES256\"}", USUAL_CLAIMS, "no public key");
  expect_fault("{\"typ\":\"dpop+jwt\",\"alg\":\"ES256\",\"jwk\":" EC ",\"jwk\":" OKP "}",
               USUAL_CLAIMS, "twice");
}

static void keys_are_known_by_the_thumbprints_of_the_rfcs(void **state) {
  (void)state;
  static const struct {
    const char *jwk, *thumbprint;
    idem__key_kind kind;
  } rows[] = {{EC, EC_THUMBPRINT, IDEM__KEY_P256},
              {RSA, "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs", IDEM__KEY_RSA},
              {OKP, "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k", IDEM__KEY_ED25519}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char room[2048], text[64];
    uint8_t thumbprint[IDEM__THUMBPRINT_BYTES];
    idem__key_kind kind;
    idem_buf out, encoded;
    yyjson_doc *doc = yyjson_read(rows[i].jwk, strlen(rows[i].jwk), 0);
    idem_buf_fixed(&out, room, sizeof room);
    idem_buf_fixed(&encoded, text, sizeof text - 1);
    assert_true(idem__proof_key(yyjson_doc_get_root(doc), &out, &kind, thumbprint));
    assert_int_equal(kind, rows[i].kind);
    assert_int_equal(idem_base64_encode(&encoded, thumbprint, sizeof thumbprint, IDEM_BASE64_URL),
                     IDEM_OK);
    text[encoded.len] = 0;
    assert_string_equal(text, rows[i].thumbprint);
    yyjson_doc_free(doc);
  }
}

static void a_proof_is_for_one_method_one_url_and_one_token(void **state) {
  (void)state;
#define FOR(htm, htu) CLAIMS("\"a\"", htm, htu, "1000000", WITH_ATH)
  expect_fault(USUAL_HEADER, FOR("GET", OURS), "htm");
  expect_fault(USUAL_HEADER, FOR("post", OURS), "htm");
  expect_fault(USUAL_HEADER, FOR("", OURS), "htm");
  expect_fault(USUAL_HEADER, "{\"jti\":\"a\",\"htu\":\"" OURS "\",\"iat\":1000000" WITH_ATH "}",
               "htm");
  expect_fault(USUAL_HEADER, FOR("POST", "https://mcp.example/mcp2"), "htu");
  expect_fault(USUAL_HEADER, FOR("POST", "https://mcp.example/mcp/"), "htu");
  expect_fault(USUAL_HEADER, FOR("POST", "http://mcp.example/mcp"), "htu");
  expect_fault(USUAL_HEADER, FOR("POST", "https://evil.example/mcp"), "htu");
  expect_fault(USUAL_HEADER, FOR("POST", "https://mcp.example:444/mcp"), "htu");
  expect_fault(USUAL_HEADER, FOR("POST", "https://a@mcp.example/mcp"), "htu");
  expect_fault(USUAL_HEADER, FOR("POST", "/mcp"), "htu");
  expect_fault(USUAL_HEADER, FOR("POST", ""), "htu");
  expect_fault(USUAL_HEADER, FOR("POST", "https://mcp.example/mcp\\u0000x"), "htu");
  expect_fault(
      USUAL_HEADER,
      "{\"jti\":\"a\",\"htm\":\"POST\",\"htu\":[\"" OURS "\"],\"iat\":1000000" WITH_ATH "}", "htu");
  expect_fine(USUAL_HEADER, FOR("POST", "HTTPS://MCP.example:443/./x/../%6dcp?a=b#c"));
  expect_fault(USUAL_HEADER, CLAIMS("\"a\"", "POST", OURS, "1000000", ""), "ath");
  expect_fault(USUAL_HEADER, CLAIMS("\"a\"", "POST", OURS, "1000000", ",\"ath\":\"" X "\""), "ath");
  expect_fault(USUAL_HEADER, CLAIMS("\"a\"", "POST", OURS, "1000000", ",\"ath\":\"" ATH "=\""),
               "ath");
  expect_fault(USUAL_HEADER, CLAIMS("\"a\"", "POST", OURS, "1000000", WITH_ATH WITH_ATH), "twice");
}

static void a_proof_is_of_now(void **state) {
  (void)state;
#define AT(iat) CLAIMS("\"a\"", "POST", OURS, iat, WITH_ATH)
  expect_fine_at(USUAL_HEADER, USUAL_CLAIMS, NOW + 60);
  expect_fault(USUAL_HEADER, AT("999939"), "too old");
  expect_fine(USUAL_HEADER, AT("999940"));
  expect_fine(USUAL_HEADER, AT("1000030"));
  expect_fine(USUAL_HEADER, AT("1000030.9"));
  expect_fault(USUAL_HEADER, AT("1000031"), "in the future");
  expect_fault(USUAL_HEADER, AT("1e300"), "in the future");
  expect_fault(USUAL_HEADER, AT("0"), "too old");
  expect_fault(USUAL_HEADER, AT("-1"), "iat");
  expect_fault(USUAL_HEADER, AT("\"1000000\""), "iat");
  expect_fault(USUAL_HEADER, AT("null"), "iat");
  expect_fault(USUAL_HEADER, "{\"jti\":\"a\",\"htm\":\"POST\",\"htu\":\"" OURS "\"" WITH_ATH "}",
               "iat");
  expect_fault(USUAL_HEADER, CLAIMS("\"a\"", "POST", OURS, "1000000,\"iat\":1000001", WITH_ATH),
               "twice");
}

static void a_proof_has_a_number_that_is_not_too_long(void **state) {
  (void)state;
  char claims[1024], number[IDEM__PROOF_NUMBER_MAX + 2];
  memset(number, 'n', sizeof number);
  number[IDEM__PROOF_NUMBER_MAX] = 0;
  snprintf(claims, sizeof claims,
           "{\"jti\":\"%s\",\"htm\":\"POST\",\"htu\":\"" OURS "\",\"iat\":1000000" WITH_ATH "}",
           number);
  expect_fine(USUAL_HEADER, claims);
  number[IDEM__PROOF_NUMBER_MAX] = 'n';
  number[IDEM__PROOF_NUMBER_MAX + 1] = 0;
  snprintf(claims, sizeof claims,
           "{\"jti\":\"%s\",\"htm\":\"POST\",\"htu\":\"" OURS "\",\"iat\":1000000" WITH_ATH "}",
           number);
  expect_fault(USUAL_HEADER, claims, "too long");
  expect_fault(USUAL_HEADER, CLAIMS("\"\"", "POST", OURS, "1000000", WITH_ATH), "no number");
  expect_fault(USUAL_HEADER, CLAIMS("7", "POST", OURS, "1000000", WITH_ATH), "no number");
  expect_fault(USUAL_HEADER, CLAIMS("null", "POST", OURS, "1000000", WITH_ATH), "no number");
}

static void what_is_no_jwt_is_no_proof(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  static const char *const texts[] = {"", "a", "..", "a.b.c", "e30.e30.AAAA", "a, b", "e30.e30.=="};
  idem__proof proof;
  const char *why;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    assert_int_equal(idem__proof_read(&alloc, texts[i], strlen(texts[i]), &proof, &why),
                     IDEM_E_INVAL);
    idem__proof_deinit(&proof);
  }
  size_t len = IDEM__PROOF_BYTES + 1;
  char *huge = malloc(len);
  memset(huge, 'A', len);
  assert_int_equal(idem__proof_read(&alloc, huge, len, &proof, &why), IDEM_E_INVAL);
  assert_non_null(strstr(why, "longer"));
  idem__proof_deinit(&proof);
  memset(huge, 'A', 5600);             /* a header of more than 4 KiB */
  memcpy(huge + 5600, ".e30.AAAA", 9); /* NOLINT: its length is given */
  assert_int_equal(idem__proof_read(&alloc, huge, 5609, &proof, &why), IDEM_E_INVAL);
  idem__proof_deinit(&proof);
  free(huge);
}

/* Every JWS has one spelling: in each part a character more, padding, and bits behind the last byte. */
static void each_part_has_one_spelling(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  /* {"alg":"ES256"} ends in a full group, so a character more is one too many; e30 is {}: its last character has two bits over. */
  static const char *const texts[] = {
      "eyJhbGciOiJFUzI1NiJ9A.e30.AAAA",  "eyJhbGciOiJFUzI1NiJ9=.e30.AAAA",
      "eyJhbGciOiJFUzI1NiJ9.e30A.AAAA",  "eyJhbGciOiJFUzI1NiJ9.e30=.AAAA",
      "eyJhbGciOiJFUzI1NiJ9.e31.AAAA",   "eyJhbGciOiJFUzI1NiJ9.e30.AAAAA",
      "eyJhbGciOiJFUzI1NiJ9.e30.AAA=",   "eyJhbGciOiJFUzI1NiJ9.e30.AAAA=",
      "eyJhbGciOiJFUzI1NiJ9.e30.AAB",    "eyJhbGciOiJFUzI1NiJ9.e30.AB",
      "eyJhbGciOiJFUzI1NiJ9.e30.AA+A",   "eyJhbGciOiJFUzI1NiJ9.e30.AA A",
      "eyJhbGciOiJFUzI1NiIgfR.e30.AAAA", "eyJhbGciOiJFUzI1NiIgfQ=.e30.AAAA"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    idem__token token;
    const char *why = NULL;
    if (idem__token_read(&alloc, texts[i], strlen(texts[i]), &token, &why) != IDEM_E_INVAL)
      fail_msg("%s", texts[i]);
    idem__token_deinit(&token);
    if (idem__token_read_proof(&alloc, texts[i], strlen(texts[i]), &token, &why) != IDEM_E_INVAL)
      fail_msg("%s", texts[i]);
    idem__token_deinit(&token);
  }
  static const char fine[] = "eyJhbGciOiJFUzI1NiIgfQ.e30.AAA";
  idem__token token;
  const char *why;
  assert_int_equal(idem__token_read(&alloc, fine, sizeof fine - 1, &token, &why), IDEM_OK);
  idem__token_deinit(&token);
}

/* ------------------------------------------------------------------ nonces */

static const uint8_t nonce_key[IDEM__NONCE_KEY_BYTES] = {1, 2, 3};

static void nonces_are_good_for_two_periods(void **state) {
  (void)state;
  static const uint8_t other_key[IDEM__NONCE_KEY_BYTES] = {1, 2, 4};
  char nonce[IDEM__NONCE_TEXT], next[IDEM__NONCE_TEXT];
  uint64_t begin = NOW / IDEM__NONCE_PERIOD_S * IDEM__NONCE_PERIOD_S;
  size_t len = IDEM__NONCE_TEXT - 1;
  idem__nonce_write(nonce_key, begin, nonce);
  assert_int_equal(strlen(nonce), len);
  idem__nonce_write(nonce_key, begin + IDEM__NONCE_PERIOD_S - 1, next);
  assert_string_equal(nonce, next);
  idem__nonce_write(nonce_key, begin + IDEM__NONCE_PERIOD_S, next);
  assert_string_not_equal(nonce, next);
  assert_int_equal(idem__nonce_read(nonce_key, nonce, len, begin), IDEM__NONCE_FRESH);
  assert_int_equal(idem__nonce_read(nonce_key, nonce, len, begin + 60), IDEM__NONCE_AGED);
  assert_int_equal(idem__nonce_read(nonce_key, nonce, len, begin + 119), IDEM__NONCE_AGED);
  assert_int_equal(idem__nonce_read(nonce_key, nonce, len, begin + 120), IDEM__NONCE_NONE);
  assert_int_equal(idem__nonce_read(nonce_key, nonce, len, begin - 1), IDEM__NONCE_FRESH);
  assert_int_equal(idem__nonce_read(nonce_key, nonce, len, begin - 61), IDEM__NONCE_NONE);
  assert_int_equal(idem__nonce_read(other_key, nonce, len, begin), IDEM__NONCE_NONE);
  for (size_t i = 0; i < len; i++) { /* not one character of it can be another */
    char forged[IDEM__NONCE_TEXT];
    memcpy(forged, nonce, sizeof forged);
    forged[i] = forged[i] == 'A' ? 'B' : 'A';
    assert_int_equal(idem__nonce_read(nonce_key, forged, len, begin), IDEM__NONCE_NONE);
    assert_int_equal(idem__nonce_read(nonce_key, nonce, i, begin), IDEM__NONCE_NONE);
  }
}

static void where_nonces_are_asked_for_a_proof_has_one(void **state) {
  (void)state;
  idem__proof_rules rules = {.skew_s = 30, .nonce_key = nonce_key};
  char nonce[IDEM__NONCE_TEXT], claims[1024];
  const char *why;
  idem__nonce_age age;
  assert_int_equal(try_it(USUAL_HEADER, USUAL_CLAIMS, &rules, NOW, &why, NULL), IDEM_E_STATE);
  assert_int_equal(try_it(USUAL_HEADER,
                          CLAIMS("\"a\"", "POST", OURS, "1000000", WITH_ATH ",\"nonce\":7"), &rules,
                          NOW, &why, NULL),
                   IDEM_E_STATE);
  /* What else is wrong is said first: a nonce would not mend it. */
  assert_int_equal(try_it(USUAL_HEADER, FOR("GET", OURS), &rules, NOW, &why, NULL), IDEM_E_INVAL);
  idem__nonce_write(nonce_key, NOW, nonce);
  snprintf(claims, sizeof claims,
           "{\"jti\":\"a\",\"htm\":\"POST\",\"htu\":\"" OURS "\",\"iat\":1000030" WITH_ATH
           ",\"nonce\":\"%s\"}",
           nonce);
  assert_int_equal(try_it(USUAL_HEADER, claims, &rules, NOW, &why, &age), IDEM_OK);
  assert_int_equal(age, IDEM__NONCE_FRESH);
  assert_int_equal(try_it(USUAL_HEADER, claims, &rules, NOW + 60, &why, &age), IDEM_OK);
  assert_int_equal(age, IDEM__NONCE_AGED);
  /* Where none are asked for, one that somebody else gave is no matter. */
  expect_fine(USUAL_HEADER, CLAIMS("\"a\"", "POST", OURS, "1000000", WITH_ATH ",\"nonce\":\"x\""));
}

/* ------------------------------------------------------------ confirmations */

static void expect_binding(const char *claims, bool understood, bool bound) {
  uint8_t thumbprint[IDEM__THUMBPRINT_BYTES];
  bool is_bound;
  const char *why;
  yyjson_doc *doc = yyjson_read(claims, strlen(claims), 0);
  bool fine = idem__confirmation_read(yyjson_doc_get_root(doc), &is_bound, thumbprint, &why);
  if (fine != understood || (fine && is_bound != bound)) fail_msg("%s", claims);
  yyjson_doc_free(doc);
}

static void what_a_token_is_bound_to_is_understood_or_refused(void **state) {
  (void)state;
  expect_binding("{}", true, false);
  expect_binding("{\"cnf\":{\"jkt\":\"" EC_THUMBPRINT "\"}}", true, true);
  static const char *const refused[] = {
      "{\"cnf\":null}",
      "{\"cnf\":{}}",
      "{\"cnf\":\"" EC_THUMBPRINT "\"}",
      "{\"cnf\":[{\"jkt\":\"" EC_THUMBPRINT "\"}]}",
      "{\"cnf\":{\"x5t#S256\":\"" EC_THUMBPRINT "\"}}",
      "{\"cnf\":{\"jwk\":" EC "}}",
      "{\"cnf\":{\"kid\":\"x\"}}",
      "{\"cnf\":{\"jkt\":\"" EC_THUMBPRINT "\",\"x5t#S256\":\"" EC_THUMBPRINT "\"}}",
      "{\"cnf\":{\"jkt\":\"" EC_THUMBPRINT "\",\"jkt\":\"" X "\"}}",
      "{\"cnf\":{\"jkt\":\"" EC_THUMBPRINT "\"},\"cnf\":{\"jkt\":\"" X "\"}}",
      "{\"cnf\":{\"jkt\":7}}",
      "{\"cnf\":{\"jkt\":\"\"}}",
      "{\"cnf\":{\"jkt\":\"AAAA\"}}",
      "{\"cnf\":{\"jkt\":\"" EC_THUMBPRINT "A\"}}",
      "{\"cnf\":{\"jkt\":\"" EC_THUMBPRINT "=\"}}"};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    expect_binding(refused[i], false, false);
}

/* --------------------------------------------------------------- signatures */

static const char *seen_jwk;
static idem_status new_key(idem__key_kind kind, const char *jwk, size_t len, void **out) {
  static int handle;
  (void)kind;
  assert_int_equal(strlen(jwk), len);
  assert_string_equal(jwk, seen_jwk);
  *out = &handle;
  return IDEM_OK;
}
static void free_key(void *key) { (void)key; }
static idem_status verify(const void *key, const idem__signed *text) {
  (void)key;
  assert_int_equal(text->algorithm, IDEM__ES256);
  return text->signature_len == 3 ? IDEM_OK : IDEM_E_INVAL;
}

static void a_proof_is_verified_by_its_own_key_as_we_write_it(void **state) {
  (void)state;
  static const idem__crypto crypto = {.key_new = new_key, .key_free = free_key, .verify = verify};
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__proof proof;
  idem_buf text;
  const char *why;
  idem_buf_init(&text, &alloc, 1 << 20);
  write_jwt(&text,
            HEADER("ES256", "{\"crv\":\"P-256\",\"kid\":\"k\",\"y\":\"" Y "\",\"x\":\"" X
                            "\",\"kty\":\"EC\",\"use\":\"sig\"}"),
            USUAL_CLAIMS);
  seen_jwk = "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" X "\",\"y\":\"" Y "\"}";
  assert_int_equal(idem__proof_read(&alloc, text.data, text.len, &proof, &why), IDEM_OK);
  assert_int_equal(idem__proof_verify(&proof, &crypto), IDEM_OK);
  idem__proof_deinit(&proof);
  idem_buf_deinit(&text);
}

/* --------------------------------------------------------------- no memory */

static idem_status read_proof(const idem_alloc *alloc, const char *text, size_t len) {
  idem__proof proof;
  const char *why;
  idem_status status = idem__proof_read(alloc, text, len, &proof, &why);
  idem__proof_deinit(&proof);
  return status;
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  jwt_sweep(read_proof, USUAL_HEADER, USUAL_CLAIMS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_proof_for_this_request_is_fine),
      cmocka_unit_test(only_what_says_that_it_is_one_is_a_proof),
      cmocka_unit_test(what_anybody_could_sign_is_no_proof),
      cmocka_unit_test(only_ways_that_are_allowed_are_taken),
      cmocka_unit_test(a_key_is_public_or_it_is_refused),
      cmocka_unit_test(a_key_is_whole_and_says_each_thing_once),
      cmocka_unit_test(keys_are_known_by_the_thumbprints_of_the_rfcs),
      cmocka_unit_test(a_proof_is_for_one_method_one_url_and_one_token),
      cmocka_unit_test(a_proof_is_of_now),
      cmocka_unit_test(a_proof_has_a_number_that_is_not_too_long),
      cmocka_unit_test(what_is_no_jwt_is_no_proof),
      cmocka_unit_test(each_part_has_one_spelling),
      cmocka_unit_test(nonces_are_good_for_two_periods),
      cmocka_unit_test(where_nonces_are_asked_for_a_proof_has_one),
      cmocka_unit_test(what_a_token_is_bound_to_is_understood_or_refused),
      cmocka_unit_test(a_proof_is_verified_by_its_own_key_as_we_write_it),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
