/* test_token.c - tokens taken apart and held against what they must say: a row for each attack, and those that are fine. */
#include "auth/bearer.h"
#include "jwt_text.h"

#include <stdio.h>
#include <stdlib.h>

#define NOW 1000000u
#define ISSUER "https://as.example"
#define OURS "https://mcp.example/mcp"
#define USUAL_HEADER "{\"alg\":\"ES256\",\"kid\":\"k1\",\"typ\":\"at+jwt\"}"
#define CLAIMS(more)                                                                               \
  "{\"iss\":\"" ISSUER "\",\"aud\":\"" OURS "\",\"sub\":\"alice\",\"exp\":1000600" more "}"

static const char *const issuers[] = {ISSUER, "https://second.example"};

static idem__token_rules usual_rules(void) {
  return (idem__token_rules){.issuers = issuers,
                             .issuer_count = 1,
                             .audience = OURS,
                             .skew_s = 30,
                             .principal_claim = "sub"};
}

/* What is said against it; NULL: nothing. */
static const char *fault_of(const char *header, const char *claims,
                            const idem__token_rules *rules) {
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem_buf text;
  idem__token token;
  const char *why = NULL;
  size_t issuer = 99;
  idem_buf_init(&text, &alloc, 1 << 20);
  write_jwt(&text, header, claims);
  idem_status status = idem__token_read(&alloc, text.data, text.len, &token, &why);
  if (status == IDEM_OK) {
    assert_int_equal(token.signature.len, 3);
    status = idem__token_check(rules, &token, NOW, &issuer, &why);
  }
  if (status == IDEM_OK) assert_true(issuer < rules->issuer_count);
  assert_true(status == IDEM_OK || (status == IDEM_E_INVAL && why && !strchr(why, '"')));
  idem__token_deinit(&token);
  idem_buf_deinit(&text);
  return status == IDEM_OK ? NULL : why;
}

static void expect_fault(const char *header, const char *claims, const char *words) {
  idem__token_rules rules = usual_rules();
  const char *why = fault_of(header, claims, &rules);
  if (!why || !strstr(why, words))
    fail_msg("%s %s: expected \"%s\", got \"%s\"", header, claims, words, why ? why : "nothing");
}

static void expect_fine(const char *header, const char *claims) {
  idem__token_rules rules = usual_rules();
  const char *why = fault_of(header, claims, &rules);
  if (why) fail_msg("%s %s: %s", header, claims, why);
}

static void what_could_be_signed_by_nobody_or_anybody_has_no_name(void **state) {
  (void)state;
  static const char *const names[] = {"none", "None",  "NONE",   "nOnE", "HS256", "HS384", "HS512",
                                      "",     "es256", "ES256K", "RS1",  "dir",   "ES521"};
  char header[128];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(header, sizeof header, "{\"alg\":\"%s\",\"kid\":\"k1\"}", names[i]);
    expect_fault(header, CLAIMS(""), "signed in a way that is not taken");
    assert_int_equal(idem__algorithm_find(names[i], strlen(names[i])), IDEM__ALGORITHMS);
  }
  expect_fault("{\"kid\":\"k1\"}", CLAIMS(""), "does not say how it is signed");
  expect_fault("{\"alg\":1}", CLAIMS(""), "does not say how it is signed");
  expect_fault("{\"alg\":\"ES256\",\"alg\":\"none\"}", CLAIMS(""), "twice");
  expect_fault("{\"alg\":\"ES256\",\"crit\":[\"b64\"],\"b64\":false}", CLAIMS(""), "crit");
  expect_fault("{\"alg\":\"ES256\",\"enc\":\"A256GCM\"}", CLAIMS(""), "encrypted");
}

static void only_ways_that_are_allowed_are_taken(void **state) {
  (void)state;
  idem__token_rules rules = usual_rules();
  rules.algorithms = 1u << IDEM__RS256 | 1u << IDEM__EDDSA;
  assert_non_null(fault_of(USUAL_HEADER, CLAIMS(""), &rules));
  assert_null(fault_of("{\"alg\":\"RS256\"}", CLAIMS(""), &rules));
  assert_null(fault_of("{\"alg\":\"EdDSA\"}", CLAIMS(""), &rules));
}

static void tokens_of_other_kinds_are_told_by_their_type(void **state) {
  (void)state;
  static const char *const fine[] = {"at+jwt", "AT+JWT", "application/at+jwt", "JWT", "jwt"};
  static const char *const others[] = {"dpop+jwt", "oauth-id-jag+jwt", "logout+jwt", "secevent+jwt",
                                       "",         "application/"};
  char header[128];
  for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
    snprintf(header, sizeof header, "{\"alg\":\"ES256\",\"typ\":\"%s\"}", fine[i]);
    expect_fine(header, CLAIMS(""));
  }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    snprintf(header, sizeof header, "{\"alg\":\"ES256\",\"typ\":\"%s\"}", others[i]);
    expect_fault(header, CLAIMS(""), "another kind");
  }
  expect_fault("{\"alg\":\"ES256\",\"typ\":7}", CLAIMS(""), "another kind");
  idem__token_rules rules = usual_rules();
  rules.access_tokens_alone = true;
  assert_null(fault_of(USUAL_HEADER, CLAIMS(""), &rules));
  assert_non_null(fault_of("{\"alg\":\"ES256\",\"typ\":\"JWT\"}", CLAIMS(""), &rules));
  assert_non_null(fault_of("{\"alg\":\"ES256\"}", CLAIMS(""), &rules));
}

static void issuer_and_audience_are_compared_exactly(void **state) {
  (void)state;
#define WITH(iss, aud) "{\"iss\":" iss ",\"aud\":" aud ",\"sub\":\"a\",\"exp\":1000600}"
  static const char *const bad_issuers[] = {WITH("\"https://as.example/\"", "\"" OURS "\""),
                                            WITH("\"https://AS.example\"", "\"" OURS "\""),
                                            WITH("\"https://evil.example\"", "\"" OURS "\""),
                                            WITH("[\"" ISSUER "\"]", "\"" OURS "\""),
                                            WITH("null", "\"" OURS "\""),
                                            "{\"aud\":\"" OURS "\",\"exp\":1000600}"};
  static const char *const bad_audiences[] = {
      WITH("\"" ISSUER "\"", "\"https://mcp.example\""),
      WITH("\"" ISSUER "\"", "\"" OURS "/\""),
      WITH("\"" ISSUER "\"", "[\"https://other.example\",7,[\"" OURS "\"]]"),
      WITH("\"" ISSUER "\"", "{\"a\":\"" OURS "\"}"),
      WITH("\"" ISSUER "\"", "[]"),
      "{\"iss\":\"" ISSUER "\",\"exp\":1000600}"};
  for (size_t i = 0; i < sizeof bad_issuers / sizeof *bad_issuers; i++)
    expect_fault(USUAL_HEADER, bad_issuers[i], "another issuer");
  for (size_t i = 0; i < sizeof bad_audiences / sizeof *bad_audiences; i++)
    expect_fault(USUAL_HEADER, bad_audiences[i], "another audience");
  expect_fine(USUAL_HEADER, WITH("\"" ISSUER "\"", "[\"https://other.example\",\"" OURS "\"]"));
  expect_fault(USUAL_HEADER, CLAIMS(",\"aud\":\"https://other.example\""), "twice");
  expect_fault(USUAL_HEADER, CLAIMS(",\"iss\":\"" ISSUER "\""), "twice");
}

static void a_token_has_its_time_and_clocks_may_differ_a_little(void **state) {
  (void)state;
#define TIMES(times) "{\"iss\":\"" ISSUER "\",\"aud\":\"" OURS "\",\"sub\":\"a\"" times "}"
  expect_fault(USUAL_HEADER, TIMES(",\"exp\":999970"), "expired");
  expect_fine(USUAL_HEADER, TIMES(",\"exp\":999971"));
  expect_fine(USUAL_HEADER, TIMES(",\"exp\":1000600.75"));
  expect_fine(USUAL_HEADER, TIMES(",\"exp\":1e300"));
  expect_fault(USUAL_HEADER, TIMES(""), "when it ends");
  expect_fault(USUAL_HEADER, TIMES(",\"exp\":0"), "when it ends");
  expect_fault(USUAL_HEADER, TIMES(",\"exp\":-1"), "no time");
  expect_fault(USUAL_HEADER, TIMES(",\"exp\":\"1000600\""), "no time");
  expect_fault(USUAL_HEADER, TIMES(",\"exp\":1000600,\"nbf\":\"0\""), "no time");
  expect_fault(USUAL_HEADER, TIMES(",\"exp\":1000600,\"nbf\":1000031"), "not valid yet");
  expect_fine(USUAL_HEADER, TIMES(",\"exp\":1000600,\"nbf\":1000030"));
}

static void a_token_that_is_bound_to_a_key_is_no_bearer_token(void **state) {
  (void)state;
  expect_fault(USUAL_HEADER, CLAIMS(",\"cnf\":{\"jkt\":\"x\"}"), "bound to a key");
  expect_fault(USUAL_HEADER, CLAIMS(",\"cnf\":{\"x5t#S256\":\"x\"}"), "bound to a key");
}

static void a_key_is_named_by_a_word_and_nothing_is_made_of_it(void **state) {
  (void)state;
  expect_fine("{\"alg\":\"ES256\",\"kid\":\"../../etc/passwd\"}", CLAIMS(""));
  expect_fine("{\"alg\":\"ES256\",\"kid\":\"' OR 1=1 --\"}", CLAIMS(""));
  expect_fault("{\"alg\":\"ES256\",\"kid\":7}", CLAIMS(""), "names its key");
  expect_fault("{\"alg\":\"ES256\",\"kid\":\"\"}", CLAIMS(""), "names its key");
  expect_fault("{\"alg\":\"ES256\",\"kid\":\"a\\u0000b\"}", CLAIMS(""), "names its key");
  char header[512], name[258];
  memset(name, 'k', sizeof name);
  name[257] = '\0';
  snprintf(header, sizeof header, "{\"alg\":\"ES256\",\"kid\":\"%s\"}", name);
  expect_fault(header, CLAIMS(""), "names its key");
}

static void what_is_no_token_is_refused(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  static const char *const texts[] = {"",
                                      "a",
                                      ".",
                                      "..",
                                      "a.b.c",
                                      "...",
                                      "e30.e30.AAAA",
                                      "e30.e30.",
                                      ".e30.AAAA",
                                      "e30..AAAA",
                                      "eyJhbGciOiJFUzI1NiJ9.bm8.AAAA",
                                      "eyJhbGciOiJFUzI1NiJ9.W10.AAAA",
                                      "eyJhbGciOiJFUzI1NiJ9.e30.AAAA.AAAA",
                                      "eyJhbGciOiJFUzI1NiJ9.e30.A",
                                      "eyJhbGciOiJFUzI1NiJ9=.e30.AAAA"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    idem__token token;
    const char *why = NULL;
    if (idem__token_read(&alloc, texts[i], strlen(texts[i]), &token, &why) != IDEM_E_INVAL || !why)
      fail_msg("%s", texts[i]);
    idem__token_deinit(&token);
  }
  assert_false(idem__token_is_text("", 0));
  assert_false(idem__token_is_text("=", 1));
  assert_false(idem__token_is_text("a b", 3));
  assert_false(idem__token_is_text("a\"b", 3));
  assert_false(idem__token_is_text("a=b", 3));
  assert_true(idem__token_is_text("a-._~+/9==", 10));
}

static void a_huge_token_is_not_looked_at(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  size_t len = IDEM__TOKEN_BYTES + 1;
  char *text = malloc(len);
  idem__token token;
  const char *why;
  assert_non_null(text);
  memset(text, 'A', len);
  assert_false(idem__token_is_text(text, len));
  assert_true(idem__token_is_text(text, len - 1));
  assert_int_equal(idem__token_read(&alloc, text, len, &token, &why), IDEM_E_INVAL);
  assert_non_null(strstr(why, "longer"));
  idem__token_deinit(&token);
  free(text);
}

/* ------------------------------------------------------------------ grants */

static idem_status grant_of(const char *claims, idem__token_rules rules, idem__grant **out) {
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem_buf text;
  idem__token token;
  const char *why;
  idem_buf_init(&text, &alloc, 1 << 20);
  write_jwt(&text, USUAL_HEADER, claims);
  assert_int_equal(idem__token_read(&alloc, text.data, text.len, &token, &why), IDEM_OK);
  idem_status status = idem__token_grant(&rules, &alloc, &token, out, &why);
  idem__token_deinit(&token);
  idem_buf_deinit(&text);
  return status;
}

static void a_grant_says_who_and_what_for(void **state) {
  (void)state;
  idem__token_rules rules = usual_rules();
  idem__grant *grant;
  assert_int_equal(
      grant_of(CLAIMS(",\"scope\":\"read  write read\",\"groups\":[\"a\"]"), rules, &grant),
      IDEM_OK);
  assert_string_equal(grant->principal, "alice");
  assert_string_equal(grant->scope, "read write");
  assert_int_equal(grant->ends_s, 1000630);
  assert_true(yyjson_is_arr(idem__grant_claim(grant, "groups")));
  assert_null(idem__grant_claim(grant, "nothing"));
  idem__grant_unref(grant);
  assert_int_equal(grant_of(CLAIMS(",\"scp\":[\"a\",\"b\",7,\"c\\\"d\"]"), rules, &grant), IDEM_OK);
  assert_string_equal(grant->scope, "a b");
  idem__grant_unref(grant);
  rules.principal_claim = "email";
  assert_int_equal(grant_of(CLAIMS(",\"email\":\"a@b.example\""), rules, &grant), IDEM_OK);
  assert_string_equal(grant->principal, "a@b.example");
  idem__grant_unref(grant);
  /* Readers differ in which of two they take. */
  assert_int_equal(grant_of(CLAIMS(",\"email\":\"a@b.example\",\"email\":\"c@d\""), rules, &grant),
                   IDEM_E_INVAL);
}

static void of_two_issuers_each_has_principals_of_its_own(void **state) {
  (void)state;
  idem__token_rules rules = usual_rules();
  idem__grant *grant;
  rules.issuer_count = 2;
  assert_int_equal(grant_of(CLAIMS(""), rules, &grant), IDEM_OK);
  assert_string_equal(grant->principal, ISSUER " alice");
  idem__grant_unref(grant);
}

static void a_token_that_does_not_say_who_grants_nothing(void **state) {
  (void)state;
  static const char *const claims[] = {
      "{\"exp\":1}", "{\"exp\":1,\"sub\":7}", "{\"exp\":1,\"sub\":\"\"}",
      "{\"exp\":1,\"sub\":\"a\\u0000b\"}", "{\"exp\":1,\"sub\":\"a\\nb\"}"};
  idem__grant *grant;
  for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
    assert_int_equal(grant_of(claims[i], usual_rules(), &grant), IDEM_E_INVAL);
    assert_null(grant);
  }
  char text[512], name[257];
  memset(name, 'n', sizeof name);
  name[256] = '\0';
  snprintf(text, sizeof text, "{\"exp\":1,\"sub\":\"%s\"}", name); /* cut it could be another's */
  assert_int_equal(grant_of(text, usual_rules(), &grant), IDEM_E_INVAL);
  snprintf(text, sizeof text, "{\"exp\":1,\"sub\":\"%s\"}", name + 1);
  assert_int_equal(grant_of(text, usual_rules(), &grant), IDEM_OK);
  idem__grant_unref(grant);
}

static void what_a_server_says_of_a_token_is_checked_as_well(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__token_rules rules = usual_rules();
  idem__grant *grant;
  const char *why;
  static const char *const bad[] = {
      "",
      "[]",
      "{}",
      "{\"active\":false}",
      "{\"active\":\"true\",\"aud\":\"" OURS "\",\"sub\":\"a\"}",
      "{\"active\":true,\"sub\":\"a\"}",
      "{\"active\":true,\"aud\":\"https://x\",\"sub\":\"a\"}",
      "{\"active\":true,\"aud\":\"" OURS "\",\"iss\":\"https://x\",\"sub\":\"a\"}",
      "{\"active\":true,\"aud\":\"" OURS "\",\"exp\":5,\"sub\":\"a\"}",
      "{\"active\":true,\"aud\":\"" OURS "\",\"exp\":\"soon\",\"sub\":\"a\"}",
      "{\"active\":true,\"aud\":\"" OURS "\",\"nbf\":4000000000,\"sub\":\"a\"}",
      "{\"active\":true,\"aud\":\"" OURS "\",\"exp\":4000000001,\"nbf\":4000000000,\"sub\":\"a\"}",
      "{\"active\":true,\"aud\":\"" OURS "\",\"nbf\":\"now\",\"sub\":\"a\"}",
      "{\"active\":true,\"aud\":\"" OURS "\",\"sub\":\"a\",\"active\":false}",
      "{\"active\":true,\"aud\":\"" OURS "\",\"aud\":\"" OURS "\",\"sub\":\"a\"}",
      "{\"active\":true,\"aud\":\"" OURS "\",\"sub\":\"a\",\"cnf\":{}}",
      "{\"active\":true,\"aud\":\"" OURS "\"}"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    if (idem__introspected(&rules, &alloc, bad[i], strlen(bad[i]), NOW, &grant, &why) !=
        IDEM_E_INVAL)
      fail_msg("%s", bad[i]);
    assert_null(grant);
  }
  static const char good[] = "{\"active\":true,\"aud\":\"" OURS "\",\"sub\":\"a\",\"scope\":\"x\"}";
  assert_int_equal(idem__introspected(&rules, &alloc, good, sizeof good - 1, NOW, &grant, &why),
                   IDEM_OK);
  assert_string_equal(grant->principal, "a");
  assert_string_equal(grant->scope, "x");
  idem__grant_unref(grant);
  /* It has begun, by our clock or by theirs. */
  static const char begun[] =
      "{\"active\":true,\"aud\":[\"https://x\",\"" OURS "\"],\"nbf\":%u,\"sub\":\"a\"}";
  char text[256];
  snprintf(text, sizeof text, begun, (unsigned)(NOW + rules.skew_s));
  assert_int_equal(idem__introspected(&rules, &alloc, text, strlen(text), NOW, &grant, &why),
                   IDEM_OK);
  idem__grant_unref(grant);
  /* Where the server to ask is all that was named, it may say whose token it is. */
  static const char whose[] =
      "{\"active\":true,\"aud\":\"" OURS "\",\"sub\":\"a\",\"iss\":\"https://x\"}";
  rules.issuer_count = 0;
  assert_int_equal(idem__introspected(&rules, &alloc, whose, sizeof whose - 1, NOW, &grant, &why),
                   IDEM_OK);
  idem__grant_unref(grant);
}

/* ------------------------------------------------------------------ scopes */

static void scopes_are_sets_of_words(void **state) {
  (void)state;
  char room[32];
  idem_buf out;
  assert_true(idem__scope_covers("a b", "b a"));
  assert_true(idem__scope_covers("", NULL));
  assert_true(idem__scope_covers("", ""));
  assert_false(idem__scope_covers("ab", "a"));
  assert_false(idem__scope_covers("a", "a b"));
  idem_buf_fixed(&out, room, sizeof room);
  assert_int_equal(idem__scope_add(&out, "a b", 3), IDEM_OK);
  assert_int_equal(idem__scope_add(&out, " c  a \x01 \" ", 11), IDEM_OK);
  assert_string_equal(out.data, "a b c");
  assert_int_equal(idem__scope_add(&out, "123456789012345678901234567890", 30), IDEM_E_LIMIT);
  assert_string_equal(out.data, "a b c");
  assert_true(idem__scope_is_good("mcp:read https://x/y"));
  assert_false(idem__scope_is_good("a\"b"));
  assert_false(idem__scope_is_good("a\\b"));
  assert_false(idem__scope_is_good("a\nb"));
}

/* --------------------------------------------------------------- no memory */

static idem_status read_and_grant(const idem_alloc *alloc, const char *text, size_t len) {
  idem__token_rules rules = usual_rules();
  idem__token token;
  idem__grant *grant = NULL;
  const char *why;
  size_t issuer;
  idem_status status = idem__token_read(alloc, text, len, &token, &why);
  if (status == IDEM_OK) status = idem__token_check(&rules, &token, NOW, &issuer, &why);
  if (status == IDEM_OK) status = idem__token_grant(&rules, alloc, &token, &grant, &why);
  idem__grant_unref(grant);
  idem__token_deinit(&token);
  return status;
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  jwt_sweep(read_and_grant, USUAL_HEADER, CLAIMS(",\"scope\":\"a b\""));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_could_be_signed_by_nobody_or_anybody_has_no_name),
      cmocka_unit_test(only_ways_that_are_allowed_are_taken),
      cmocka_unit_test(tokens_of_other_kinds_are_told_by_their_type),
      cmocka_unit_test(issuer_and_audience_are_compared_exactly),
      cmocka_unit_test(a_token_has_its_time_and_clocks_may_differ_a_little),
      cmocka_unit_test(a_token_that_is_bound_to_a_key_is_no_bearer_token),
      cmocka_unit_test(a_key_is_named_by_a_word_and_nothing_is_made_of_it),
      cmocka_unit_test(what_is_no_token_is_refused),
      cmocka_unit_test(a_huge_token_is_not_looked_at),
      cmocka_unit_test(a_grant_says_who_and_what_for),
      cmocka_unit_test(of_two_issuers_each_has_principals_of_its_own),
      cmocka_unit_test(a_token_that_does_not_say_who_grants_nothing),
      cmocka_unit_test(what_a_server_says_of_a_token_is_checked_as_well),
      cmocka_unit_test(scopes_are_sets_of_words),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
