/* test_guard.c - a server whose callers show tokens of an authorization server: the ways to sign, the attacks, tokens
 * that are asked about. The issuer is a script; tokens are made by OpenSSL alone. */
#include "guard_world.h"

#include "support/fault_alloc.h"

#include <openssl/x509.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ------------------------------------------------------------------- tests */

static void who_has_a_token_is_let_in_under_its_name(void **state) {
  (void)state;
  world w;
  outcome out;
  open_world(&w);
  call_with(&w, token_of(&w, &w.keys[0], ""), &out);
  assert_int_equal(out.status, 200);
  assert_non_null(strstr(out.body, "\"text\":\"alice\""));
  assert_int_equal(w.jwks, 1);
  assert_int_equal(w.metadata, 1);
  close_world(&w);
}

static void every_way_to_sign_is_verified(void **state) {
  (void)state;
  static const char *const ways[] = {"ES256", "ES384", "ES512", "RS256", "RS384",
                                     "RS512", "PS256", "PS384", "PS512", "EdDSA"};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    world w;
    char token[TOKEN];
    open_issuer(&w);
    add_key(&w, "k1", ways[i]);
    trust_issuer(&w, (idem_http_opts){0});
    snprintf(token, sizeof token, "%s", token_of(&w, &w.keys[0], ""));
    if (status_of(&w, token) != 200) fail_msg("%s", ways[i]);
    /* One bit of what is signed, then one of the signature. */
    char *dot = strchr(token, '.'), *last = strrchr(token, '.');
    dot[10] = dot[10] == 'A' ? 'B' : 'A';
    assert_int_equal(status_of(&w, token), 401);
    snprintf(token, sizeof token, "%s", token_of(&w, &w.keys[0], ",\"jti\":\"2\""));
    last = strrchr(token, '.');
    last[10] = last[10] == 'A' ? 'B' : 'A';
    assert_int_equal(status_of(&w, token), 401);
    close_world(&w);
  }
}

static void who_has_none_is_told_where_to_get_one(void **state) {
  (void)state;
  world w;
  outcome out;
  char expected[256];
  open_world(&w);
  send_call(&w, NULL, &out);
  wait_for(&w, &out);
  assert_int_equal(out.status, 401);
  snprintf(expected, sizeof expected,
           "Bearer resource_metadata=\"%.*s/.well-known/oauth-protected-resource/mcp\"",
           (int)(strlen(w.url) - 4), w.url);
  assert_string_equal(out.challenge, expected);
  send_call(&w, "Basic YTpi", &out);
  wait_for(&w, &out);
  assert_int_equal(out.status, 401);
  assert_null(strstr(out.challenge, "error="));
  call_with(&w, "no.jwt", &out);
  assert_int_equal(out.status, 401);
  assert_non_null(strstr(out.challenge, "error=\"invalid_token\""));
  close_world(&w);
}

static void metadata_are_at_both_places_for_everybody(void **state) {
  (void)state;
  static const char *const paths[] = {"/.well-known/oauth-protected-resource",
                                      "/.well-known/oauth-protected-resource/mcp"};
  world w;
  outcome out;
  open_world(&w);
  for (size_t i = 0; i < 2; i++) {
    char url[256], expected[512];
    static const char *const headers[] = {"Origin: https://anywhere.example", NULL};
    snprintf(url, sizeof url, "%.*s%s", (int)(strlen(w.url) - 4), w.url, paths[i]);
    out = (outcome){.in = &w, .status = -1};
    idem_fetch_start(&w.loop, &(idem_fetch_opts){.url = url, .headers = headers, .proxy = ""},
                     on_answer, &out, NULL);
    wait_for(&w, &out);
    assert_int_equal(out.status, 200);
    snprintf(expected, sizeof expected,
             "{\"resource\":\"%s\",\"authorization_servers\":[\"%s\"],\"bearer_methods_supported\":"
             "[\"header\"]}",
             w.url, w.issuer_url);
    assert_string_equal(out.body, expected);
  }
  close_world(&w);
}

static void tokens_of_the_operator_open_as_ever(void **state) {
  (void)state;
  static const char *const tokens[] = {"operator-token", NULL};
  world w;
  open_issuer(&w);
  add_key(&w, "k1", "ES256");
  trust_issuer(&w, (idem_http_opts){.tokens = tokens});
  assert_int_equal(status_of(&w, "operator-token"), 200);
  assert_int_equal(status_of(&w, "operator-tokem"), 401);
  assert_int_equal(status_of(&w, token_of(&w, &w.keys[0], "")), 200);
  close_world(&w);
}

/* RFC 6750, 3.1: it is the request that is wrong, and not a token. */
static void two_tokens_are_a_malformed_request(void **state) {
  (void)state;
  static const char *const tokens[] = {"operator-token", NULL};
  world w;
  outcome out;
  open_issuer(&w);
  add_key(&w, "k1", "ES256");
  trust_issuer(&w, (idem_http_opts){.tokens = tokens});
  w.again = "Bearer operator-token";
  for (int i = 0; i < 2; i++) {
    call_with(&w, i ? "operator-token" : token_of(&w, &w.keys[0], ""), &out);
    assert_int_equal(out.status, 400);
    assert_non_null(strstr(out.challenge, "error=\"invalid_request\""));
    assert_non_null(strstr(out.challenge, "resource_metadata="));
    assert_non_null(strstr(out.body, "\"reason\":\"two-credentials\""));
  }
  w.again = NULL;
  assert_int_equal(status_of(&w, "operator-token"), 200);
  close_world(&w);
}

/* Of opaque tokens no issuer says where they are had. */
static void metadata_name_who_gives_opaque_tokens(void **state) {
  (void)state;
  static const char *const servers[] = {"https://login.example", "https://login.example", NULL};
  world w;
  char url[256];
  open_issuer(&w);
  idem_http_auth auth = {.introspection_url = "https://as.example/i",
                         .authorization_servers = servers};
  open_server(&w, &auth, (idem_http_opts){0});
  snprintf(url, sizeof url, "%.*s/.well-known/oauth-protected-resource", (int)(strlen(w.url) - 4),
           w.url);
  outcome out = {.in = &w, .status = -1};
  idem_fetch_start(&w.loop, &(idem_fetch_opts){.url = url, .proxy = ""}, on_answer, &out, NULL);
  wait_for(&w, &out);
  if (!strstr(out.body, "\"authorization_servers\":[\"https://login.example\"],"))
    fail_msg("%s", out.body);
  close_world(&w);
}

/* ---------------------------------------------------------------- attacks */

static void forged_tokens_are_refused_and_nothing_they_name_is_asked(void **state) {
  (void)state;
  world w;
  char token[TOKEN], header[4096], jwk[2048] = "", claims[1024];
  open_issuer(&w);
  add_key(&w, "rsa", "RS256");
  trust_issuer(&w, (idem_http_opts){0});
  jwt_key own = jwt_key_new("rsa", "RS256"); /* the forger's */
  snprintf(claims, sizeof claims, "%s", claims_of(&w, ""));

  jwt_begin(token, sizeof token, "{\"alg\":\"none\",\"kid\":\"rsa\"}", claims);
  strcat(token, ".");
  expect_bad_token(&w, "none, unsigned", token);
  strcat(token, "AAAA");
  expect_bad_token(&w, "none, signed with something", token);

  /* The public key as a shared secret, in the forms that libraries were fooled with. */
  unsigned char *der = NULL;
  int der_len = i2d_PUBKEY(w.keys[0].key, &der);
  jwt_make_hmac(token, sizeof token, "{\"alg\":\"HS256\",\"kid\":\"rsa\"}", claims, der,
                (size_t)der_len);
  expect_bad_token(&w, "HS256 with the RSA key", token);
  jwt_make_hmac(token, sizeof token, "{\"alg\":\"RS256\",\"kid\":\"rsa\"}", claims, der,
                (size_t)der_len);
  expect_bad_token(&w, "HMAC under the name of RS256", token);
  jwt_make_hmac(token, sizeof token, "{\"alg\":\"RS256\",\"kid\":\"rsa\",\"alg\":\"HS256\"}",
                claims, der, (size_t)der_len);
  expect_bad_token(&w, "two algorithms", token);
  OPENSSL_free(der);

  jwt_make(token, sizeof token, &own, claims);
  expect_bad_token(&w, "another key under the same name", token);

  jwt_put_jwk(jwk, sizeof jwk, &own);
  static const char *const ways[] = {"jwk", "jku", "x5u", "x5c"};
  for (size_t i = 0; i < 4; i++) {
    char place[128];
    snprintf(place, sizeof place, i < 3 ? "\"%s/forged\"" : "[\"%s\"]", w.issuer_url);
    snprintf(header, sizeof header, "{\"alg\":\"RS256\",\"kid\":\"rsa\",\"%s\":%s}", ways[i],
             i == 0 ? jwk : place);
    jwt_make_with(token, sizeof token, &own, header, claims);
    expect_bad_token(&w, ways[i], token);
  }
  static const char *const names[] = {"../../../../etc/passwd", "rsa' OR '1'='1", "/dev/null",
                                      "http://127.0.0.1/forged", "rsa\\u0000"};
  idem__guard_pause_ms = 1;
  for (size_t i = 0; i < 5; i++) {
    snprintf(header, sizeof header, "{\"alg\":\"RS256\",\"kid\":\"%s\"}", names[i]);
    jwt_make_with(token, sizeof token, &own, header, claims);
    expect_bad_token(&w, names[i], token);
  }
  assert_int_equal(w.strangers, 0); /* nobody was asked for what they named */
  jwt_key_free(&own);
  close_world(&w);
}

/* By the name of an algorithm of another curve, its digest included; and of another key under the right one. */
static void a_curve_signs_for_no_other(void **state) {
  (void)state;
  static const char *const ways[] = {"ES256", "ES384", "ES512"};
  world w;
  char token[TOKEN], header[256];
  open_issuer(&w);
  for (size_t i = 0; i < 3; i++) add_key(&w, ways[i], ways[i]);
  trust_issuer(&w, (idem_http_opts){0});
  idem__guard_pause_ms = 1; /* the key may have changed its kind, so they are fetched again */
  for (size_t i = 0; i < 9; i++) {
    const char *claims = claims_of(&w, "");
    snprintf(header, sizeof header, "{\"alg\":\"%s\",\"kid\":\"%s\"}", ways[i % 3], ways[i / 3]);
    jwt_begin(token, sizeof token, header, claims);
    jwt_sign(token, sizeof token, &w.keys[i / 3], ways[i % 3]);
    if (i % 3 == i / 3)
      assert_int_equal(status_of(&w, token), 200);
    else
      expect_bad_token(&w, header, token);
    jwt_begin(token, sizeof token, header, claims);
    jwt_sign(token, sizeof token, &w.keys[i % 3], ways[i % 3]);
    if (i % 3 != i / 3) expect_bad_token(&w, header, token);
  }
  close_world(&w);
}

/* Another text would be another token of the same meaning: remembered apart, and in logs of others not the same. */
static void a_token_has_one_form(void **state) {
  (void)state;
  static const char *const algorithms[] = {"ES256", "ES384", "ES512", "RS256", "PS512", "EdDSA"};
  for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
    world w;
    char token[TOKEN];
    open_issuer(&w);
    add_key(&w, "k", algorithms[i]);
    trust_issuer(&w, (idem_http_opts){0});
    snprintf(token, sizeof token, "%s", token_of(&w, &w.keys[0], ""));
    assert_int_equal(status_of(&w, token), 200);
    size_t len = strlen(token);
    for (size_t more = 1; more < 4; more++) {
      memcpy(token + len, "AAAA", more);
      token[len + more] = '\0';
      expect_bad_token(&w, "something behind its signature", token);
    }
    token[len - 1] = '\0';
    expect_bad_token(&w, "its last character missing", token);
    close_world(&w);
  }
}

static void tokens_for_others_or_for_another_time_are_refused(void **state) {
  (void)state;
  world w;
  char token[TOKEN], claims[1024];
  long long now = (long long)time(NULL);
  open_world(&w);
  const struct {
    const char *what, *iss, *aud;
    long long exp, nbf;
  } rows[] = {
      {"another audience", w.issuer_url, "\"https://other.example/mcp\"", now + 600, 0},
      {"another issuer", "https://evil.example", NULL, now + 600, 0},
      {"expired", w.issuer_url, NULL, now - 60, 0},
      {"not yet valid", w.issuer_url, NULL, now + 600, now + 120},
      {"two audiences, neither ours", w.issuer_url, "[\"https://a\",\"https://b\"]", now + 600, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char ours[128];
    snprintf(ours, sizeof ours, "\"%s\"", w.url);
    snprintf(claims, sizeof claims,
             "{\"iss\":\"%s\",\"aud\":%s,\"sub\":\"a\",\"exp\":%lld,\"nbf\":%lld}", rows[i].iss,
             rows[i].aud ? rows[i].aud : ours, rows[i].exp, rows[i].nbf);
    jwt_make(token, sizeof token, &w.keys[0], claims);
    expect_bad_token(&w, rows[i].what, token);
  }
  snprintf(claims, sizeof claims,
           "{\"iss\":\"%s\",\"aud\":[\"https://a\",\"%s\"],\"sub\":\"a\",\"exp\":%lld}",
           w.issuer_url, w.url, now + 600);
  jwt_make(token, sizeof token, &w.keys[0], claims);
  assert_int_equal(status_of(&w, token), 200);
  static char huge[TOKEN - 64];
  memset(huge, 'A', sizeof huge - 1);
  expect_bad_token(&w, "huge", huge);
  close_world(&w);
}

/* ------------------------------------------------------------------ memory */

/* A guard that is made and goes, without a request. */
static void guard_closed(void *user) { *(bool *)user = true; }

static void make_guard(fault_alloc *fault, void *user) {
  uv_loop_t loop;
  idem__runtime *runtime;
  idem__guard *guard = NULL;
  bool closed = false;
  idem_http_issuer issuer = {.issuer = "https://far.example", .jwks_file = user};
  idem_http_auth auth = {.issuers = &issuer,
                         .issuer_count = 1,
                         .required_scope = "a",
                         .introspection_url = "https://far.example/i",
                         .introspection_id = "me",
                         .introspection_secret = "hush"};
  uv_loop_init(&loop);
  if (idem__runtime_get(&loop, &fault->alloc, &runtime) == IDEM_OK) {
    idem_status status = idem__guard_new(runtime, &auth, "http://127.0.0.1:1/mcp", NULL, &guard);
    assert_true(status == IDEM_OK || status == IDEM_E_NOMEM || status == IDEM_E_INVAL);
    if (guard) idem__guard_close(guard, guard_closed, &closed);
    while (guard && !closed) uv_run(&loop, UV_RUN_ONCE);
    idem__runtime_release(runtime);
  }
  uv_run(&loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&loop), 0);
}

static void every_allocation_of_a_guard_may_fail(void **state) {
  (void)state;
  char path[] = "/tmp/idem.jwks.XXXXXX", text[4096] = "{\"keys\":[";
  int file = mkstemp(path);
  jwt_key key = jwt_key_new("k1", "ES256");
  jwt_put_jwk(text, sizeof text, &key);
  strcat(text, "]}");
  assert_int_equal(write(file, text, strlen(text)), strlen(text));
  assert_true(fault_alloc_sweep(make_guard, path, 400) > 20);
  jwt_key_free(&key);
  close(file);
  unlink(path);
}

/* ---------------------------------------------------------- introspection */

static void opaque_tokens_are_asked_about_once_in_a_while(void **state) {
  (void)state;
  world w;
  outcome out;
  char said[512], url[96];
  open_issuer(&w);
  snprintf(url, sizeof url, "%s/introspect", w.issuer_url);
  open_server(&w,
              &(idem_http_auth){.introspection_url = url,
                                .introspection_id = "server:1",
                                .introspection_secret = "s e"},
              (idem_http_opts){0});
  snprintf(said, sizeof said, "{\"active\":true,\"aud\":\"%s\",\"sub\":\"bob\",\"scope\":\"x\"}",
           w.url);
  w.introspection = said;
  for (int i = 0; i < 3; i++) {
    call_with(&w, "opaque-1", &out);
    assert_int_equal(out.status, 200);
    assert_non_null(strstr(out.body, "\"text\":\"bob\""));
  }
  assert_int_equal(w.introspections, 1);
  assert_string_equal(w.last_form, "token=opaque-1&token_type_hint=access_token");
  assert_string_equal(w.last_authorization, "Basic c2VydmVyJTNBMTpzJTIwZQ==");
  w.introspection = "{\"active\":false}";
  expect_bad_token(&w, "not active", "opaque-2");
  w.introspection = "nonsense";
  expect_bad_token(&w, "nonsense", "opaque-3");
  close_world(&w);
}

/* ------------------------------------------------------------------ scopes */

static void who_lacks_a_scope_is_told_all_that_it_needs(void **state) {
  (void)state;
  world w;
  outcome out;
  open_issuer(&w);
  add_key(&w, "k1", "ES256");
  idem_http_issuer issuer = {.issuer = w.issuer_url};
  open_server(&w,
              &(idem_http_auth){.issuers = &issuer, .issuer_count = 1, .required_scope = "mcp:use"},
              (idem_http_opts){0});
  call_with(&w, token_of(&w, &w.keys[0], ",\"scope\":\"profile\""), &out);
  assert_int_equal(out.status, 403);
  assert_non_null(strstr(out.challenge, "error=\"insufficient_scope\""));
  assert_non_null(strstr(out.challenge, "scope=\"profile mcp:use\""));
  assert_non_null(strstr(out.body, "\"reason\":\"insufficient-scope\""));
  assert_non_null(strstr(out.challenge, "resource_metadata="));
  assert_int_equal(status_of(&w, token_of(&w, &w.keys[0], ",\"scope\":\"mcp:use profile\"")), 200);
  close_world(&w);
}

/* The last place is empty; what the first one said is the reason. */
static void metadata_of_another_issuer_are_the_reason(void **state) {
  (void)state;
  world w;
  char token[TOKEN];
  open_issuer(&w);
  open_log(&w);
  add_key(&w, "k1", "ES256");
  strcat(w.issuer_url, "/");
  trust_issuer(&w, (idem_http_opts){0});
  snprintf(token, sizeof token, "%s", token_of(&w, &w.keys[0], ""));
  w.issuer_url[strlen(w.issuer_url) - 1] = 0; /* the issuer itself knows of no slash */
  assert_int_equal(status_of(&w, token), 503);
  char wanted[256]; /* both are named: a slash is all that they differ by */
  snprintf(wanted, sizeof wanted,
           "%s/: where they are was asked for: its metadata is of another issuer, %s\n",
           w.issuer_url, w.issuer_url);
  if (!strstr(w.logged, wanted)) fail_msg("no %s in: %s", wanted, w.logged);
  close_world(&w);
}

static void options_that_make_no_sense_are_refused(void **state) {
  (void)state;
  world w;
  idem_http_issuer good = {.issuer = "https://as.example", .jwks_url = "https://as.example/k"};
  idem_http_issuer plain = {.issuer = "http://as.example"}, nobody = {.issuer = ""};
  idem_http_issuer plain_keys = {.issuer = "https://as.example", .jwks_url = "http://as.example/k"};
  idem_http_issuer missing = {.issuer = "https://as.example", .jwks_file = "/nonexistent/jwks"};
  static const char *const plain_servers[] = {"http://as.example", NULL};
  const idem_http_auth bad[] = {
      {.issuer_count = 0},
      {.issuers = &plain, .issuer_count = 1},
      {.issuers = &nobody, .issuer_count = 1},
      {.issuers = &plain_keys, .issuer_count = 1},
      {.issuers = &missing, .issuer_count = 1},
      {.issuers = &good, .issuer_count = 17},
      {.issuers = &good, .issuer_count = 1, .resource = "mcp"},
      {.issuers = &good, .issuer_count = 1, .required_scope = "a\"b"},
      {.issuers = &good, .issuer_count = 1, .introspection_url = "http://as.example/i"},
      {.issuers = &good, .issuer_count = 1, .authorization_servers = plain_servers},
      {.issuers = &good, .issuer_count = 1, .scope_implies = plain_servers}, /* no pair */
  };
  open_issuer(&w);
  idem_server_opts opts = {.name = "t", .version = "1"};
  idem_server_os(&opts);
  assert_int_equal(idem_server_new(&opts, &w.server), IDEM_OK);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    idem_http_opts http = {.auth = &bad[i]};
    idem_serve_opts serve = {.server = w.server, .http = &http};
    idem_listener *listener;
    if (idem_serve(&w.loop, "http://127.0.0.1:0/mcp", &serve, &listener) != IDEM_E_INVAL)
      fail_msg("row %zu", i);
    for (int turn = 0; turn < 5; turn++) uv_run(&w.loop, UV_RUN_NOWAIT);
  }
  close_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_has_a_token_is_let_in_under_its_name),
      cmocka_unit_test(every_way_to_sign_is_verified),
      cmocka_unit_test(who_has_none_is_told_where_to_get_one),
      cmocka_unit_test(metadata_are_at_both_places_for_everybody),
      cmocka_unit_test(metadata_name_who_gives_opaque_tokens),
      cmocka_unit_test(tokens_of_the_operator_open_as_ever),
      cmocka_unit_test(two_tokens_are_a_malformed_request),
      cmocka_unit_test(forged_tokens_are_refused_and_nothing_they_name_is_asked),
      cmocka_unit_test(a_curve_signs_for_no_other),
      cmocka_unit_test(a_token_has_one_form),
      cmocka_unit_test(tokens_for_others_or_for_another_time_are_refused),
      cmocka_unit_test(every_allocation_of_a_guard_may_fail),
      cmocka_unit_test(opaque_tokens_are_asked_about_once_in_a_while),
      cmocka_unit_test(who_lacks_a_scope_is_told_all_that_it_needs),
      cmocka_unit_test(metadata_of_another_issuer_are_the_reason),
      cmocka_unit_test(options_that_make_no_sense_are_refused),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  uv_library_shutdown(); /* its threads give back what OpenSSL has kept for them */
  return failed;
}
