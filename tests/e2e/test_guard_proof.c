/* test_guard_proof.c - tokens that are bound to a key (RFC 9449) at a server: what opens, every attack of the table, nonces, metadata,
 * and that whoever waits may end. Proofs are made by OpenSSL alone. */
#include "dpop.h"
#include "guard_world.h"

#include "mcp_server/identity.h"

#include "support/fault_alloc.h"

#include <openssl/x509.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

/* ----------------------------------------------------------------- proofs */

typedef dpop_saying saying;

static const char *claims_for(const world *in, const char *token, const saying *says) {
  static char claims[4096];
  dpop_put_claims(claims, sizeof claims, in->url, token, says);
  return claims;
}

static const char *prove(const world *in, const jwt_key *key, const char *token,
                         const saying *says) {
  static char proof[TOKEN];
  dpop_make(proof, sizeof proof, key, in->url, token, says);
  return proof;
}

static const char *thumbprint_of(const jwt_key *key) {
  static char thumbprint[64];
  dpop_put_thumbprint(thumbprint, sizeof thumbprint, key);
  return thumbprint;
}

/* A token that is bound to the key, in a buffer that the next call reuses. */
static const char *bound_token(const world *in, const jwt_key *key, const char *more) {
  char claims[512];
  snprintf(claims, sizeof claims, ",\"cnf\":{\"jkt\":\"%s\"}%s", thumbprint_of(key), more);
  return token_of(in, &in->keys[0], claims);
}

/* ---------------------------------------------------------------- calling */

static void call_as(world *in, const char *scheme, const char *token, const char *proof,
                    outcome *out) {
  static char value[TOKEN + 16];
  snprintf(value, sizeof value, "%s %s", scheme, token);
  in->proofs[0] = proof;
  send_call(in, value, out);
  in->proofs[0] = NULL;
  wait_for(in, out);
}

static void expect_refusal(const outcome *out, const char *what, const char *error,
                           const char *words) {
  char said[64];
  snprintf(said, sizeof said, "error=\"%s\"", error);
  if (out->status != 401 || strncmp(out->challenge, "DPoP ", 5) != 0 ||
      !strstr(out->challenge, said) || !strstr(out->challenge, words) ||
      !strstr(out->challenge, "algs=\"ES256 ES384 "))
    fail_msg("%s: %d %s", what, out->status, out->challenge);
}

static void open_bound(world *in, idem_http_auth auth, idem_http_opts http) {
  open_issuer(in);
  add_key(in, "k1", "ES256");
  idem_http_issuer issuer = {.issuer = in->issuer_url};
  auth.issuers = &issuer;
  auth.issuer_count = 1;
  open_server(in, &auth, http);
}

static void open_usual(world *in) { open_bound(in, (idem_http_auth){0}, (idem_http_opts){0}); }

/* -------------------------------------------------------------------- fine */

static void who_proves_that_the_key_is_theirs_is_let_in(void **state) {
  (void)state;
  static const char *const ways[] = {"ES256", "ES384", "ES512", "RS256", "PS512", "EdDSA"};
  world w;
  open_usual(&w);
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    jwt_key key = jwt_key_new("mine", ways[i]);
    outcome out;
    char token[TOKEN];
    snprintf(token, sizeof token, "%s", bound_token(&w, &key, ""));
    for (int turn = 0; turn < 3; turn++) { /* at first the token is not known */
      call_as(&w, turn == 1 ? "dpop" : "DPoP", token, prove(&w, &key, token, NULL), &out);
      if (out.status != 200) fail_msg("%s: %d %s", ways[i], out.status, out.challenge);
      assert_non_null(strstr(out.body, "\"text\":\"alice\""));
    }
    jwt_key_free(&key);
  }
  close_world(&w);
}

static void opaque_tokens_can_be_bound_as_well(void **state) {
  (void)state;
  world w;
  outcome out;
  char said[1024], introspect[128];
  jwt_key key = jwt_key_new("mine", "ES256"), other = jwt_key_new("other", "ES256");
  open_issuer(&w);
  snprintf(introspect, sizeof introspect, "%s/introspect", w.issuer_url);
  open_server(&w, &(idem_http_auth){.introspection_url = introspect}, (idem_http_opts){0});
  snprintf(
      said, sizeof said,
      "{\"active\":true,\"aud\":\"%s\",\"sub\":\"bob\",\"token_type\":\"DPoP\",\"cnf\":{\"jkt\":"
      "\"%s\"}}",
      w.url, thumbprint_of(&key));
  w.introspection = said;
  call_as(&w, "DPoP", "opaque", prove(&w, &key, "opaque", NULL), &out);
  assert_int_equal(out.status, 200);
  assert_non_null(strstr(out.body, "\"text\":\"bob\""));
  call_as(&w, "DPoP", "opaque", prove(&w, &other, "opaque", NULL), &out);
  expect_refusal(&out, "another key", "invalid_token", "another key");
  call_as(&w, "Bearer", "opaque", NULL, &out);
  assert_int_equal(out.status, 401);
  snprintf(said, sizeof said,
           "{\"active\":true,\"aud\":\"%s\",\"sub\":\"bob\",\"token_type\":\"DPoP\"}", w.url);
  call_as(&w, "DPoP", "opaque2", prove(&w, &key, "opaque2", NULL), &out);
  expect_refusal(&out, "bound to nobody knows what", "invalid_token", "nobody says to which");
  jwt_key_free(&key);
  jwt_key_free(&other);
  close_world(&w);
}

/* ----------------------------------------------------------------- attacks */

static void a_bound_token_opens_nothing_without_its_proof(void **state) {
  (void)state;
  world w;
  outcome out;
  char token[TOKEN], plain[TOKEN];
  jwt_key key = jwt_key_new("mine", "ES256");
  open_usual(&w);
  snprintf(token, sizeof token, "%s", bound_token(&w, &key, ""));
  for (int turn = 0; turn < 2; turn++) { /* known, and not */
    call_as(&w, "Bearer", token, NULL, &out);
    assert_int_equal(out.status, 401);
    assert_non_null(strstr(out.challenge, "Bearer "));
    assert_non_null(strstr(out.challenge, "error=\"invalid_token\""));
    assert_non_null(strstr(out.challenge, "bound to a key"));
    call_as(&w, "Bearer", token, prove(&w, &key, token, NULL), &out);
    assert_int_equal(out.status, 401);
    call_as(&w, "DPoP", token, NULL, &out);
    expect_refusal(&out, "no proof", "invalid_dpop_proof", "there is no proof");
    call_as(&w, "DPoP", token, prove(&w, &key, token, NULL), &out);
    assert_int_equal(out.status, 200);
  }
  snprintf(plain, sizeof plain, "%s", token_of(&w, &w.keys[0], ""));
  for (int turn = 0; turn < 2; turn++) {
    call_as(&w, "DPoP", plain, prove(&w, &key, plain, NULL), &out);
    expect_refusal(&out, "not bound", "invalid_token", "bound to no key");
  }
  snprintf(plain, sizeof plain, "%s",
           token_of(&w, &w.keys[0],
                    ",\"cnf\":{\"x5t#S256\":\"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I\"}"));
  call_as(&w, "DPoP", plain, prove(&w, &key, plain, NULL), &out);
  expect_refusal(&out, "bound to a certificate", "invalid_token", "not understood here (cnf)");
  call_as(&w, "Bearer", plain, NULL, &out);
  assert_int_equal(out.status, 401);
  jwt_key_free(&key);
  close_world(&w);
}

static void a_stolen_proof_opens_nothing(void **state) {
  (void)state;
  world w;
  outcome out;
  char token[TOKEN], other[TOKEN], proof[TOKEN];
  jwt_key key = jwt_key_new("mine", "ES256"), thief = jwt_key_new("thief", "ES256");
  open_usual(&w);
  snprintf(token, sizeof token, "%s", bound_token(&w, &key, ""));
  snprintf(proof, sizeof proof, "%s", prove(&w, &key, token, NULL));
  call_as(&w, "DPoP", token, proof, &out);
  assert_int_equal(out.status, 200);
  call_as(&w, "DPoP", token, proof, &out);
  expect_refusal(&out, "shown twice", "invalid_dpop_proof", "shown before");
  /* The same number in another proof of the same key is no new one. */
  call_as(&w, "DPoP", token, prove(&w, &key, token, &(saying){.jti = "again"}), &out);
  assert_int_equal(out.status, 200);
  call_as(&w, "DPoP", token,
          prove(&w, &key, token, &(saying){.jti = "again", .iat = time(NULL) - 2}), &out);
  expect_refusal(&out, "the number again", "invalid_dpop_proof", "shown before");
  /* Another key may use it. */
  snprintf(other, sizeof other, "%s", bound_token(&w, &thief, ""));
  call_as(&w, "DPoP", other, prove(&w, &thief, other, &(saying){.jti = "again"}), &out);
  assert_int_equal(out.status, 200);

  snprintf(other, sizeof other, "%s", bound_token(&w, &key, ",\"jti\":\"2\""));
  call_as(&w, "DPoP", other, prove(&w, &key, token, NULL), &out);
  expect_refusal(&out, "of another token", "invalid_dpop_proof", "ath");
  call_as(&w, "DPoP", token, prove(&w, &thief, token, NULL), &out);
  expect_refusal(&out, "by another key", "invalid_token", "another key");
  static const struct {
    const char *what;
    saying says;
    const char *words;
  } rows[] = {{"another method", {.htm = "GET"}, "htm"},
              {"another URL", {.htu = "https://elsewhere.example/mcp"}, "htu"},
              {"another path", {.htu = "http://127.0.0.1/mcp/other"}, "htu"},
              {"another token", {.token = "another"}, "ath"},
              {"of the past", {.iat = 1000}, "too old"},
              {"of the future", {.iat = 99999999999}, "in the future"},
              {"no number", {.jti = ""}, "no number"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    call_as(&w, "DPoP", token, prove(&w, &key, token, &rows[i].says), &out);
    expect_refusal(&out, rows[i].what, "invalid_dpop_proof", rows[i].words);
  }
  jwt_key_free(&key);
  jwt_key_free(&thief);
  close_world(&w);
}

static void forged_proofs_are_refused(void **state) {
  (void)state;
  world w;
  outcome out;
  char token[TOKEN], proof[TOKEN], header[4096], claims[4096];
  jwt_key key = jwt_key_new("mine", "ES256"), thief = jwt_key_new("thief", "ES256");
  open_usual(&w);
  snprintf(token, sizeof token, "%s", bound_token(&w, &key, ""));
  dpop_put_header(header, sizeof header, &key);

  jwt_make_with(proof, sizeof proof, &thief, header, claims_for(&w, token, &(saying){0}));
  call_as(&w, "DPoP", token, proof, &out);
  expect_refusal(&out, "the key of the token, signed by another", "invalid_dpop_proof",
                 "signature of the proof");

  jwt_make_with(proof, sizeof proof, &key, "{\"typ\":\"JWT\",\"alg\":\"ES256\"}",
                claims_for(&w, token, &(saying){0}));
  call_as(&w, "DPoP", token, proof, &out);
  expect_refusal(&out, "no proof's type", "invalid_dpop_proof", "typ");

  /* A public key taken for a shared secret. */
  unsigned char *der = NULL;
  int der_len = i2d_PUBKEY(key.key, &der);
  snprintf(claims, sizeof claims, "%s", claims_for(&w, token, &(saying){0}));
  char *alg = strstr(header, "ES256");
  memcpy(alg, "HS256", 5);
  jwt_make_hmac(proof, sizeof proof, header, claims, der, (size_t)der_len);
  call_as(&w, "DPoP", token, proof, &out);
  expect_refusal(&out, "HS256 with the public key", "invalid_dpop_proof", "not taken");
  memcpy(alg, "ES256", 5);
  jwt_make_hmac(proof, sizeof proof, header, claims, der, (size_t)der_len);
  call_as(&w, "DPoP", token, proof, &out);
  expect_refusal(&out, "HMAC under the name of ES256", "invalid_dpop_proof", "signature");
  OPENSSL_free(der);
  memcpy(alg, "none\"", 5);
  alg[5] = ' ';
  jwt_begin(proof, sizeof proof, header, claims);
  strcat(proof, ".AAAA");
  call_as(&w, "DPoP", token, proof, &out);
  expect_refusal(&out, "none", "invalid_dpop_proof", "not taken");

  /* Its private part goes with the key. */
  char whole[4096];
  dpop_put_header(header, sizeof header, &key);
  snprintf(whole, sizeof whole, "%.*s,\"d\":\"", (int)(strlen(header) - 2), header);
  jwt_put_number(whole, sizeof whole, &key, OSSL_PKEY_PARAM_PRIV_KEY, 32);
  strcat(whole, "\"}}");
  jwt_make_with(proof, sizeof proof, &key, whole, claims);
  call_as(&w, "DPoP", token, proof, &out);
  expect_refusal(&out, "a private key", "invalid_dpop_proof", "no public key");

  w.proofs[1] = prove(&w, &key, token, NULL);
  call_as(&w, "DPoP", token, w.proofs[1], &out);
  w.proofs[1] = NULL;
  expect_refusal(&out, "two proofs", "invalid_dpop_proof", "more than one proof");

  static char huge[20000];
  memset(huge, 'A', sizeof huge - 1);
  call_as(&w, "DPoP", token, huge, &out);
  expect_refusal(&out, "huge", "invalid_dpop_proof", "longer");
  call_as(&w, "DPoP", token, "not a proof", &out);
  expect_refusal(&out, "no JWT", "invalid_dpop_proof", "no JWT");
  call_as(&w, "DPoP", "not.a.token", prove(&w, &key, "not.a.token", NULL), &out);
  expect_refusal(&out, "no token", "invalid_token", "the token");
  call_as(&w, "DPoP", token, prove(&w, &key, token, NULL), &out);
  assert_int_equal(out.status, 200); /* after all that */
  jwt_key_free(&key);
  jwt_key_free(&thief);
  close_world(&w);
}

/* A signature that is right, and a part of the JWS in another spelling. */
static void every_jws_has_one_spelling(void **state) {
  (void)state;
  static const char *const more[] = {"A", "=", "AA", "==", "-", "."};
  static const char *const ways[] = {"ES256", "ES384", "ES512", "RS256", "PS256", "EdDSA"};
  world w;
  outcome out;
  open_usual(&w);
  for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
    jwt_key key = jwt_key_new("k2", ways[way]);
    char token[TOKEN], proof[TOKEN], spelt[TOKEN + 8];
    snprintf(token, sizeof token, "%s", bound_token(&w, &key, ""));
    for (int part = 0; part < 3; part++) {
      for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        snprintf(proof, sizeof proof, "%s", prove(&w, &key, token, NULL));
        const char *at = proof;
        for (int skipped = 0; skipped < part; skipped++) at = strchr(at, '.') + 1;
        size_t head = (size_t)(at - proof) + strcspn(at, ".");
        snprintf(spelt, sizeof spelt, "%.*s%s%s", (int)head, proof, more[i], proof + head);
        call_as(&w, "DPoP", token, spelt, &out);
        if (out.status != 401) fail_msg("%s part %d: %s: %d", ways[way], part, more[i], out.status);
        /* The same of an access token, as who has none of its own would show it. */
        snprintf(proof, sizeof proof, "%s", token_of(&w, &w.keys[0], ""));
        at = proof;
        for (int skipped = 0; way == 0 && skipped < part; skipped++) at = strchr(at, '.') + 1;
        head = (size_t)(at - proof) + strcspn(at, ".");
        snprintf(spelt, sizeof spelt, "%.*s%s%s", (int)head, proof, more[i], proof + head);
        if (way == 0 && status_of(&w, spelt) != 401) fail_msg("token part %d: %s", part, more[i]);
      }
    }
    jwt_key_free(&key);
  }
  close_world(&w);
}

/* ------------------------------------------------------- nonces and offers */

/* Its nodes agree on a new key then; nonces of the old one are nobody's. */
static void nonces_follow_a_store_that_has_lost_what_it_held(void **state) {
  static const uint8_t other[IDEM__STATE_KEY_BYTES] = "what the new store holds";
  (void)state;
  world w;
  outcome out;
  char token[TOKEN], nonce[64];
  jwt_key key = jwt_key_new("mine", "ES256");
  open_bound(&w, (idem_http_auth){.proof_nonces = true}, (idem_http_opts){0});
  snprintf(token, sizeof token, "%s", bound_token(&w, &key, ""));
  call_as(&w, "DPoP", token, prove(&w, &key, token, NULL), &out);
  snprintf(nonce, sizeof nonce, "%s", out.nonce);
  call_as(&w, "DPoP", token, prove(&w, &key, token, &(saying){.nonce = nonce}), &out);
  assert_int_equal(out.status, 200);
  idem__identity_share(w.server, other);
  call_as(&w, "DPoP", token, prove(&w, &key, token, &(saying){.nonce = nonce}), &out);
  expect_refusal(&out, "a nonce of the old store", "use_dpop_nonce", "nonce");
  assert_string_not_equal(out.nonce, nonce);
  snprintf(nonce, sizeof nonce, "%s", out.nonce);
  call_as(&w, "DPoP", token, prove(&w, &key, token, &(saying){.nonce = nonce}), &out);
  assert_int_equal(out.status, 200);
  jwt_key_free(&key);
  close_world(&w);
}

static void nonces_are_asked_for_and_given(void **state) {
  (void)state;
  world w;
  outcome out;
  char token[TOKEN], nonce[64];
  jwt_key key = jwt_key_new("mine", "ES256");
  open_bound(&w, (idem_http_auth){.proof_nonces = true}, (idem_http_opts){0});
  snprintf(token, sizeof token, "%s", bound_token(&w, &key, ""));
  call_as(&w, "DPoP", token, prove(&w, &key, token, NULL), &out);
  expect_refusal(&out, "no nonce", "use_dpop_nonce", "nonce");
  assert_int_equal(strlen(out.nonce), IDEM__NONCE_TEXT - 1);
  snprintf(nonce, sizeof nonce, "%s", out.nonce);
  call_as(&w, "DPoP", token, prove(&w, &key, token, &(saying){.nonce = "made up"}), &out);
  expect_refusal(&out, "another nonce", "use_dpop_nonce", "nonce");
  for (int i = 0; i < 3; i++) { /* one serves many proofs */
    call_as(&w, "DPoP", token, prove(&w, &key, token, &(saying){.nonce = nonce}), &out);
    assert_int_equal(out.status, 200);
  }
  call_as(&w, "DPoP", token, prove(&w, &key, token, &(saying){.htm = "GET", .nonce = nonce}), &out);
  expect_refusal(&out, "a nonce, and another method", "invalid_dpop_proof", "htm");
  assert_string_not_equal(out.nonce, "");
  jwt_key_free(&key);
  close_world(&w);
}

/* --------------------------------------------------------------- too many */

#define FEW ((size_t)24576)
#define MOST_CALLS (FEW / 48)

/* As the guards of the server know them. */
static size_t bytes_of_proofs(const world *in) {
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__proofs *proofs;
  assert_int_equal(idem__proofs_get(&alloc, in->url, IDEM__PROOF_AGE_S + 2 * 30 + 1, &proofs),
                   IDEM_OK);
  size_t bytes = idem__proofs_bytes(proofs);
  idem__proofs_release(proofs);
  return bytes;
}

static int call_once_more(world *in, const jwt_key *key, const char *token, outcome *out) {
  call_as(in, "DPoP", token, prove(in, key, token, NULL), out);
  return out->status;
}

/* Whoever shows very many good proofs has as many remembered as are left for all others, and is refused then; nobody else is. */
static void a_flood_of_proofs_is_the_callers_own_trouble(void **state) {
  (void)state;
  world w;
  outcome out;
  size_t shown = 0;
  char alice[TOKEN], anew[TOKEN], bob[TOKEN];
  jwt_key key = jwt_key_new("mine", "ES256"), other = jwt_key_new("other", "ES256");
  idem__proofs_most = FEW;
  open_bound(&w, (idem_http_auth){.principal_claim = "who"}, (idem_http_opts){0});
  idem__proofs_most = IDEM__REPLAY_BYTES;
  snprintf(alice, sizeof alice, "%s", bound_token(&w, &key, ",\"who\":\"alice\""));
  snprintf(anew, sizeof anew, "%s", bound_token(&w, &other, ",\"who\":\"alice\",\"n\":1"));
  snprintf(bob, sizeof bob, "%s", bound_token(&w, &other, ",\"who\":\"bob\""));
  while (call_once_more(&w, &key, alice, &out) == 200 && shown <= MOST_CALLS) shown++;
  assert_int_equal(out.status, 429);
  assert_non_null(strstr(out.body, "more proofs were shown for this caller than are remembered"));
  assert_in_range(shown, MOST_CALLS / 2 - 10, MOST_CALLS / 2);
  size_t bytes = bytes_of_proofs(&w);
  assert_in_range(bytes, 1, FEW / 2 + 300);
  for (int i = 0; i < 20; i++) assert_int_equal(call_once_more(&w, &key, alice, &out), 429);
  assert_int_equal(call_once_more(&w, &other, anew, &out),
                   429); /* another token is no other caller */
  assert_int_equal(bytes_of_proofs(&w), bytes);
  for (int i = 0; i < 20; i++) assert_int_equal(call_once_more(&w, &other, bob, &out), 200);
  assert_int_equal(status_of(&w, token_of(&w, &w.keys[0], ",\"who\":\"carol\"")), 200);
  jwt_key_free(&key);
  jwt_key_free(&other);
  close_world(&w);
}

static void offers_are_told(void **state) {
  (void)state;
  world w;
  outcome out;
  char url[256];
  jwt_key key = jwt_key_new("mine", "ES256");
  for (int required = 0; required < 2; required++) {
    open_bound(
        &w,
        (idem_http_auth){.proofs = required ? IDEM_HTTP_PROOFS_REQUIRED : IDEM_HTTP_PROOFS_OFFERED,
                         .proof_algorithms = IDEM_HTTP_ES256 | IDEM_HTTP_EDDSA,
                         .required_scope = "use"},
        (idem_http_opts){0});
    send_call(&w, NULL, &out);
    wait_for(&w, &out);
    assert_int_equal(out.status, 401);
    assert_non_null(
        strstr(out.challenge, required ? "DPoP resource_metadata=" : "Bearer resource_metadata="));
    assert_non_null(strstr(out.challenge, required ? ", scope=\"use\", algs=\"ES256 EdDSA\""
                                                   : ", scope=\"use\", DPoP algs=\"ES256 EdDSA\""));
    snprintf(url, sizeof url, "%.*s/.well-known/oauth-protected-resource", (int)(strlen(w.url) - 4),
             w.url);
    out = (outcome){.in = &w, .status = -1};
    idem_fetch_start(&w.loop, &(idem_fetch_opts){.url = url, .proxy = ""}, on_answer, &out, NULL);
    wait_for(&w, &out);
    assert_non_null(
        strstr(out.body, "\"dpop_signing_alg_values_supported\":[\"ES256\",\"EdDSA\"]"));
    assert_int_equal(strstr(out.body, "\"dpop_bound_access_tokens_required\":true") != NULL,
                     required);
    call_as(&w, "Bearer", token_of(&w, &w.keys[0], ",\"scope\":\"use\""), NULL, &out);
    assert_int_equal(out.status, required ? 401 : 200);
    if (required) assert_non_null(strstr(out.challenge, "must be bound to a key"));
    char token[TOKEN];
    snprintf(token, sizeof token, "%s", bound_token(&w, &key, ",\"scope\":\"other\""));
    call_as(&w, "DPoP", token, prove(&w, &key, token, NULL), &out);
    assert_int_equal(out.status, 403);
    assert_non_null(strstr(out.challenge, "DPoP "));
    assert_non_null(strstr(out.challenge, "error=\"insufficient_scope\""));
    close_world(&w);
  }
  jwt_key_free(&key);
}

static void behind_a_proxy_the_url_of_the_resource_counts(void **state) {
  (void)state;
  world w;
  outcome out;
  char claims[512], token[TOKEN];
  jwt_key key = jwt_key_new("mine", "ES256");
  open_bound(&w, (idem_http_auth){.resource = "https://mcp.example/api/mcp"}, (idem_http_opts){0});
  snprintf(claims, sizeof claims,
           "{\"iss\":\"%s\",\"aud\":\"https://mcp.example/api/mcp\",\"sub\":\"a\",\"exp\":%lld,"
           "\"cnf\":{\"jkt\":\"%s\"}}",
           w.issuer_url, (long long)time(NULL) + 600, thumbprint_of(&key));
  jwt_make(token, sizeof token, &w.keys[0], claims);
  call_as(&w, "DPoP", token, prove(&w, &key, token, NULL), &out); /* for what Host says */
  expect_refusal(&out, "for the address behind", "invalid_dpop_proof", "htu");
  call_as(&w, "DPoP", token,
          prove(&w, &key, token, &(saying){.htu = "https://MCP.example:443/api/mcp"}), &out);
  assert_int_equal(out.status, 200);
  jwt_key_free(&key);
  close_world(&w);
}

static void on_preflight(const idem_fetch_answer *answer, void *user) {
  outcome *out = user;
  const char *allowed = idem_fetch_header(answer, "Access-Control-Allow-Headers");
  const char *exposed = idem_fetch_header(answer, "Access-Control-Expose-Headers");
  snprintf(out->challenge, sizeof out->challenge, "%s", allowed ? allowed : "");
  snprintf(out->body, sizeof out->body, "%s", exposed ? exposed : "");
  out->status = answer->http_status;
}

static void pages_may_send_proofs_and_read_nonces(void **state) {
  (void)state;
  world w;
  open_bound(&w, (idem_http_auth){.proof_nonces = true}, (idem_http_opts){0});
  static const char *const headers[] = {"Origin: http://localhost",
                                        "Access-Control-Request-Method: POST", NULL};
  outcome out = {.in = &w, .status = -1};
  idem_fetch_opts opts = {.method = "OPTIONS", .url = w.url, .headers = headers, .proxy = ""};
  idem_fetch_start(&w.loop, &opts, on_preflight, &out, NULL);
  wait_for(&w, &out);
  assert_int_equal(out.status, 204);
  assert_non_null(strstr(out.challenge, ", DPoP"));
  assert_non_null(strstr(out.body, ", DPoP-Nonce"));
  close_world(&w);
}

/* ------------------------------------------------------------------ the end */

/* The caller goes, or the server, at each step while a proof is looked at. */
static void who_waits_for_a_proof_may_end(void **state) {
  (void)state;
  static outcome all[40];
  jwt_key key = jwt_key_new("mine", "RS256");
  for (int turns = 0; turns < 40; turns += 1 + turns / 6) {
    world w;
    char token[TOKEN], value[TOKEN + 16];
    idem_fetch *fetches[40];
    open_usual(&w);
    for (int i = 0; i < 40; i++) {
      char more[32];
      snprintf(more, sizeof more, ",\"jti\":\"%d\"", i % 5);
      snprintf(token, sizeof token, "%s", bound_token(&w, &key, more));
      snprintf(value, sizeof value, "DPoP %s", token);
      w.proofs[0] = prove(&w, &key, token, NULL);
      fetches[i] = send_call(&w, value, &all[i]);
    }
    for (int i = 0; i < turns && all[39].status == -1; i++) uv_run(&w.loop, UV_RUN_ONCE);
    for (int i = 0; i < 40 && turns % 2; i++)
      if (all[i].status == -1) idem_fetch_cancel(fetches[i]);
    close_world(&w);
  }
  jwt_key_free(&key);
}

/* One allocation after the other fails while a request with a proof is judged: it is let in or it is not, and the next one is. */
static void without_memory_a_proof_is_not_judged_and_the_next_one_is(void **state) {
  (void)state;
  static fault_alloc fault;
  world w;
  outcome out;
  char token[TOKEN];
  jwt_key key = jwt_key_new("mine", "ES256");
  size_t failed = 0;
  fault_alloc_init(&fault);
  open_issuer(&w);
  add_key(&w, "k1", "ES256");
  w.alloc = &fault.alloc;
  idem_http_issuer issuer = {.issuer = w.issuer_url};
  open_server(&w, &(idem_http_auth){.issuers = &issuer, .issuer_count = 1, .proof_nonces = true},
              (idem_http_opts){0});
  snprintf(token, sizeof token, "%s", bound_token(&w, &key, ""));
  call_as(&w, "DPoP", token, prove(&w, &key, token, NULL), &out);
  char nonce[64];
  snprintf(nonce, sizeof nonce, "%s", out.nonce);
  for (size_t n = 1, before; n < 400; n++) {
    before = fault.failures;
    fault_alloc_fail_in(&fault, n);
    call_as(&w, "DPoP", token, prove(&w, &key, token, &(saying){.nonce = nonce}), &out);
    fault_alloc_fail_in(&fault, 0);
    if (fault.failures == before) break;
    failed++;
    /* libcurl sends a request again whose kept connection broke, and the proof with it. */
    bool again = out.status == 401 && strstr(out.body, "shown before");
    if (out.status != 200 && out.status != 503 && out.status != 500 && out.status != 0 && !again)
      fail_msg("%zu: %d %s", n, out.status, out.body);
    call_as(&w, "DPoP", token, prove(&w, &key, token, &(saying){.nonce = nonce}), &out);
    if (out.status != 200) fail_msg("after %zu: %d %s", n, out.status, out.body);
  }
  assert_in_range(failed, 10, 399);
  jwt_key_free(&key);
  close_world(&w);
  fault_alloc_assert_clean(&fault);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_proves_that_the_key_is_theirs_is_let_in),
      cmocka_unit_test(opaque_tokens_can_be_bound_as_well),
      cmocka_unit_test(a_bound_token_opens_nothing_without_its_proof),
      cmocka_unit_test(a_stolen_proof_opens_nothing),
      cmocka_unit_test(forged_proofs_are_refused),
      cmocka_unit_test(every_jws_has_one_spelling),
      cmocka_unit_test(nonces_are_asked_for_and_given),
      cmocka_unit_test(nonces_follow_a_store_that_has_lost_what_it_held),
      cmocka_unit_test(a_flood_of_proofs_is_the_callers_own_trouble),
      cmocka_unit_test(offers_are_told),
      cmocka_unit_test(behind_a_proxy_the_url_of_the_resource_counts),
      cmocka_unit_test(pages_may_send_proofs_and_read_nonces),
      cmocka_unit_test(who_waits_for_a_proof_may_end),
      cmocka_unit_test(without_memory_a_proof_is_not_judged_and_the_next_one_is),
  };
  signal(SIGPIPE, SIG_IGN); /* libcurl writes where nobody reads any more */
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  uv_library_shutdown(); /* its threads give back what OpenSSL has kept for them */
  return failed;
}
