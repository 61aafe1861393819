/* test_proof.c - tokens that are bound to a key (RFC 9449): when they are asked for, what a proof says, nonces of both servers, and
 * that neither server can make the flow go round for ever. The key is a text, a proof its claims. */
#include "auth/auth.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <stdio.h>

#define URL "https://mcp.example/mcp"
#define AS "https://as.example"

static unsigned dice;
static char key[64];
static bool no_module;

static void roll(void *bytes, size_t len, void *user) {
  (void)user;
  memset(bytes, (int)++dice, len);
}
static uint64_t clock_s(void *user) {
  (void)user;
  return 1000;
}
static idem_status prove(const char *claims, size_t len, idem_buf *out, void *user) {
  (void)user;
  if (no_module) return IDEM_E_SYS;
  if (!*key) snprintf(key, sizeof key, "a new key");
  return idem_buf_printf(out, "proof.%.*s", (int)len, claims);
}
static idem_status put_key(idem_buf *out, void *user) {
  (void)user;
  return idem_buf_put(out, key, strlen(key));
}
static idem_status take_key(const char *pem, size_t len, void *user) {
  (void)user;
  if (len < 3 || len >= sizeof key) return IDEM_E_INVAL;
  snprintf(key, sizeof key, "%.*s", (int)len, pem);
  return IDEM_OK;
}

static idem__auth_flow *start(const idem_alloc *alloc) {
  idem__auth_opts opts = {.url = URL,
                          .grant = IDEM__AUTH_CLIENT_CREDENTIALS,
                          .client_id = "me",
                          .client_secret = "s",
                          .refresh = true,
                          .random = roll,
                          .now_s = clock_s,
                          .prove = prove,
                          .put_key = put_key,
                          .take_key = take_key,
                          .alloc = alloc};
  idem__auth_flow *flow = NULL;
  dice = 0;
  key[0] = 0;
  no_module = false;
  (void)idem__auth_flow_new(&opts, &flow);
  return flow;
}

static void refuse(idem__auth_flow *flow, const char *header) {
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__auth_challenge challenge = {.bearer = false};
  (void)idem__auth_challenge_read(&alloc, header, strlen(header), &challenge);
  idem__auth_refused(flow, 401, &challenge, true);
  idem__auth_challenge_deinit(&alloc, &challenge);
}

static void answer(idem__auth_flow *flow, int status, const char *body) {
  assert_int_equal(idem__auth_step_of(flow)->want, IDEM__AUTH_FETCH);
  idem__auth_fetched(flow, status, body, strlen(body));
}

static const char resource_document[] =
    "{\"resource\":\"" URL "\",\"authorization_servers\":[\"" AS "\"]}";
static const char strict_document[] = "{\"resource\":\"" URL "\",\"authorization_servers\":[\"" AS
                                      "\"],\"dpop_bound_access_tokens_required\":true}";
#define SERVER "{\"issuer\":\"" AS "\",\"token_endpoint\":\"" AS "/token?at=1\""
static const char binding_document[] =
    SERVER ",\"dpop_signing_alg_values_supported\":[\"RS256\",\"ES256\"]}";
static const char other_document[] = SERVER ",\"dpop_signing_alg_values_supported\":[\"EdDSA\"]}";
static const char bound_token[] =
    "{\"access_token\":\"T1\",\"token_type\":\"DPoP\",\"refresh_token\":\"R1\"}";
static const char free_token[] = "{\"access_token\":\"T1\",\"token_type\":\"Bearer\"}";
static const char wants_nonce[] = "{\"error\":\"use_dpop_nonce\"}";

/* To where the token endpoint is asked. */
static idem__auth_flow *to_token(const char *header, const char *resource, const char *server) {
  idem__auth_flow *flow = start(NULL);
  refuse(flow, header);
  answer(flow, 200, resource);
  answer(flow, 200, server);
  return flow;
}

static void expect_proof(const idem__auth_flow *flow, const char *part) {
  const char *proof = idem__auth_step_of(flow)->proof;
  if (!proof || !strstr(proof, part)) fail_msg("\"%s\" is not in \"%s\"", part, proof ? proof : "");
}

static void expect_failed(idem__auth_flow *flow, const char *part) {
  const idem__auth_step *step = idem__auth_step_of(flow);
  assert_int_equal(step->want, IDEM__AUTH_FAILED);
  if (!strstr(step->why, part)) fail_msg("\"%s\" is not in \"%s\"", part, step->why);
  idem__auth_flow_free(flow);
}

static void a_server_that_wants_proofs_gets_them(void **state) {
  (void)state;
  char text[1024], first[1024];
  idem_buf proof;
  idem__auth_flow *flow = to_token("DPoP algs=\"ES256\"", resource_document, binding_document);
  expect_proof(flow, "\"htm\":\"POST\",\"htu\":\"" AS "/token\",\"iat\":1000}");
  answer(flow, 200, bound_token);
  assert_string_equal(idem__auth_authorization(flow), "DPoP T1");
  for (int i = 0; i < 2; i++) {
    idem_buf_fixed(&proof, text, sizeof text - 1);
    assert_int_equal(idem__auth_proof(flow, "GET", URL "?a=b#c", &proof), IDEM_OK);
    text[proof.len] = 0;
    assert_non_null(strstr(text, "\"htm\":\"GET\",\"htu\":\"" URL "\",\"iat\":1000"));
    /* BASE64URL(SHA-256("T1")) */
    assert_non_null(strstr(text, "\"ath\":\"H5NgPbU7-tXJI5D3NdDLuGF7SrghSukcVmSj0emwCcg\""));
    if (i == 0) snprintf(first, sizeof first, "%s", text);
  }
  assert_string_not_equal(first, text); /* each is another */
  idem__auth_flow_free(flow);
}

static void nobody_else_gets_a_proof(void **state) {
  char text[256];
  idem_buf proof;
  (void)state;
  idem__auth_flow *flow = to_token("Bearer", resource_document, binding_document);
  assert_null(idem__auth_step_of(flow)->proof);
  answer(flow, 200, free_token);
  assert_string_equal(idem__auth_authorization(flow), "Bearer T1");
  idem_buf_fixed(&proof, text, sizeof text);
  assert_int_equal(idem__auth_proof(flow, "GET", URL, &proof), IDEM_E_STATE);
  idem__auth_flow_free(flow);
  flow = to_token("Bearer", resource_document, binding_document);
  answer(flow, 200, bound_token); /* nor is one bound that nobody asked to bind */
  expect_failed(flow, "of a kind that was asked for");
}

static void what_the_resource_takes_alone_is_what_is_asked_for(void **state) {
  (void)state;
  idem__auth_flow *flow = to_token("DPoP", resource_document, binding_document);
  answer(flow, 200, free_token);
  expect_failed(flow, "of a kind that was asked for");
  flow = to_token("Bearer", strict_document, binding_document);
  expect_proof(flow, "\"htm\"");
  answer(flow, 200, free_token);
  expect_failed(flow, "of a kind that was asked for");
  flow = to_token("Bearer", strict_document, other_document);
  expect_failed(flow, "does not say that it binds them by ES256");
  flow = to_token("Bearer, DPoP", resource_document, other_document); /* it takes both */
  assert_null(idem__auth_step_of(flow)->proof);
  idem__auth_flow_free(flow);
  flow = start(NULL);
  no_module = true;
  refuse(flow, "DPoP");
  answer(flow, 200, resource_document);
  answer(flow, 200, binding_document);
  expect_failed(flow, "cannot be made here");
}

static void the_servers_nonce_is_used_once_it_is_known(void **state) {
  (void)state;
  idem__auth_flow *flow = to_token("DPoP", resource_document, binding_document);
  idem__auth_server_nonce(flow, "n1");
  answer(flow, 400, wants_nonce);
  expect_proof(flow, "\"nonce\":\"n1\"");
  answer(flow, 200, bound_token);
  refuse(flow, "DPoP");
  expect_proof(flow, "\"nonce\":\"n1\""); /* and for the refresh, until there is another */
  idem__auth_server_nonce(flow, "n2");
  answer(flow, 400, wants_nonce);
  expect_proof(flow, "\"nonce\":\"n2\"");
  answer(flow, 400, wants_nonce); /* a server that is never content */
  expect_failed(flow, "use_dpop_nonce");
}

/* RFC 9449, 8.2: with a token as well as with a refusal. */
static void a_good_answer_may_bring_the_next_nonce(void **state) {
  char text[1024];
  idem_buf proof;
  (void)state;
  idem__auth_flow *flow = to_token("DPoP", resource_document, binding_document);
  idem__auth_server_nonce(flow, "n1");
  answer(flow, 200, bound_token);
  for (char nonce[] = "r1"; nonce[1] < '4'; nonce[1]++) { /* each in its turn */
    assert_true(idem__auth_resource_nonce(flow, nonce));
    assert_true(idem__auth_resource_nonce(flow, NULL)); /* an answer without one changes nothing */
    idem_buf_fixed(&proof, text, sizeof text - 1);
    assert_int_equal(idem__auth_proof(flow, "POST", URL, &proof), IDEM_OK);
    text[proof.len] = 0;
    assert_non_null(strstr(text, nonce));
    assert_null(strstr(text, "n1")); /* which is the other server's */
  }
  refuse(flow, "DPoP error=\"invalid_token\"");
  expect_proof(flow, "\"nonce\":\"n1\"");
  idem__auth_flow_free(flow);
}

static void a_nonce_that_is_none_is_passed_over(void **state) {
  static const char *const wrong[] = {"", "two words", "line\r\nX: y", "n\xc3\xa9"};
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    idem__auth_flow *flow = to_token("DPoP", resource_document, binding_document);
    idem__auth_server_nonce(flow, wrong[i]);
    answer(flow, 400, wants_nonce);
    expect_failed(flow, "use_dpop_nonce");
  }
  char text[1024];
  idem_buf proof;
  idem__auth_flow *flow = to_token("DPoP", resource_document, binding_document);
  answer(flow, 200, bound_token);
  assert_false(idem__auth_resource_nonce(flow, NULL));
  assert_true(idem__auth_resource_nonce(flow, "r\"1"));
  idem_buf_fixed(&proof, text, sizeof text - 1);
  assert_int_equal(idem__auth_proof(flow, "POST", URL, &proof), IDEM_OK);
  text[proof.len] = 0;
  assert_non_null(strstr(text, "\"nonce\":\"r\\\"1\""));
  idem__auth_flow_free(flow);
}

static void the_key_is_kept_with_the_token(void **state) {
  char text[1024];
  idem_buf kept;
  (void)state;
  idem__auth_flow *flow = to_token("DPoP", resource_document, binding_document);
  answer(flow, 200, bound_token);
  idem_buf_fixed(&kept, text, sizeof text);
  assert_int_equal(idem__auth_flow_save(flow, &kept), IDEM_OK);
  assert_non_null(memmem(kept.data, kept.len, "\"proof_key\":\"a new key\"", 23));
  idem__auth_flow_free(flow);
  flow = start(NULL);
  assert_int_equal(idem__auth_flow_take(flow, kept.data, kept.len), IDEM_OK);
  assert_string_equal(key, "a new key");
  assert_string_equal(idem__auth_authorization(flow), "DPoP T1");
  static const char bad[] = "{\"url\":\"" URL "\",\"access_token\":\"T\",\"proof_key\":\"?\"}";
  assert_int_equal(idem__auth_flow_take(flow, bad, sizeof bad - 1), IDEM_E_INVAL);
  kept.len = 0;
  assert_int_equal(idem__auth_proof(flow, "POST", URL, &kept), IDEM_OK); /* nothing has changed */
  refuse(flow, "DPoP");
  expect_proof(flow, "\"htu\":\"" AS "/token\""); /* a refresh proves it, too */
  idem__auth_flow_free(flow);
}

static void play(fault_alloc *fault, void *user) {
  const char *const bodies[] = {resource_document, binding_document, bound_token};
  idem_buf proof;
  (void)user;
  idem__auth_flow *flow = start(&fault->alloc);
  if (!flow) return;
  refuse(flow, "DPoP");
  for (int i = 0; i < 3; i++) {
    idem__auth_server_nonce(flow, "n");
    idem__auth_fetched(flow, 200, bodies[i], strlen(bodies[i]));
  }
  idem_buf_init(&proof, &fault->alloc, 4096);
  if (idem__auth_step_of(flow)->want == IDEM__AUTH_DONE &&
      idem__auth_proof(flow, "POST", URL, &proof) == IDEM_OK)
    (void)idem__auth_flow_save(flow, &proof);
  idem_buf_deinit(&proof);
  idem__auth_flow_free(flow);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(play, NULL, 500) > 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_server_that_wants_proofs_gets_them),
      cmocka_unit_test(nobody_else_gets_a_proof),
      cmocka_unit_test(what_the_resource_takes_alone_is_what_is_asked_for),
      cmocka_unit_test(the_servers_nonce_is_used_once_it_is_known),
      cmocka_unit_test(a_good_answer_may_bring_the_next_nonce),
      cmocka_unit_test(a_nonce_that_is_none_is_passed_over),
      cmocka_unit_test(the_key_is_kept_with_the_token),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
