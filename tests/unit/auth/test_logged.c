/* test_logged.c - what a log says of a token's claims: what was asked for, scalars alone, a word each, nothing secret. */
#include "auth/bearer.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

static idem_status grant_logging(const idem_alloc *given, const char *claims, char *const *names,
                                 idem__grant **out) {
  idem_alloc alloc = idem__alloc_or_default(given);
  idem__token_rules rules = {
      .audience = "m", .principal_claim = "sub", .log_claims = names, .skew_s = 30};
  const char *why;
  char body[4096];
  snprintf(body, sizeof body, "{\"active\":true,\"aud\":\"m\",\"sub\":\"alice\"%s}", claims);
  return idem__introspected(&rules, &alloc, body, strlen(body), 1000, out, &why);
}

static void expect_logged(const char *claims, const char *wanted, char *const *names) {
  idem__grant *grant;
  assert_int_equal(grant_logging(NULL, claims, names, &grant), IDEM_OK);
  if (wanted)
    assert_string_equal(grant->logged, wanted);
  else
    assert_null(grant->logged);
  idem__grant_unref(grant);
}
#define NAMES(...) ((char *[]){__VA_ARGS__, NULL})

static void it_says_what_was_asked_for_in_that_order(void **state) {
  (void)state;
  static const char claims[] = ",\"client_id\":\"app-1\",\"level\":3.50,\"staff\":true";
  expect_logged(claims, " client_id=app-1 sub=alice", NAMES("client_id", "sub"));
  expect_logged(claims, " level=3.50 staff=true", NAMES("level", "not_there", "staff"));
  expect_logged(claims, NULL, NULL);
  expect_logged(claims, NULL, NAMES(NULL));
}

static void what_is_no_scalar_is_left_out(void **state) {
  (void)state;
  expect_logged(",\"a\":{\"b\":1},\"c\":[\"d\"],\"e\":null", NULL, NAMES("a", "c", "e"));
}

/* Readers differ in which of two they take. */
static void what_is_said_twice_is_left_out(void **state) {
  (void)state;
  expect_logged(",\"who\":\"a\",\"who\":\"b\"", " sub=alice", NAMES("who", "sub"));
}

static void no_value_passes_for_another_claim(void **state) {
  (void)state;
  expect_logged(",\"c\":\"x principal=admin\\n\\u202e\\\"\"",
                " c=x%20principal=admin%0A%E2%80%AE%22", NAMES("c"));
  expect_logged(",\"c\":\"\"", " c=", NAMES("c"));
}

static void what_looks_like_a_credential_is_hidden_however_long_it_is(void **state) {
  (void)state;
  char claims[2048], token[1024];
  memset(token, 'A', sizeof token);
  memcpy(token, "eyJhbGciOiJFUzI1NiJ9.", 21);
  token[1000] = '\0';
  snprintf(claims, sizeof claims, ",\"c\":\"%s\",\"d\":\"Bearer abcdef0123456789abcdef\"", token);
  expect_logged(claims, " c=[redacted] d=Bearer%20[redacted]", NAMES("c", "d"));
}

static void a_long_value_is_cut_and_hides_no_other(void **state) {
  (void)state;
  char claims[1024], blanks[300];
  idem__grant *grant;
  memset(blanks, ' ', sizeof blanks);
  blanks[299] = '\0';
  snprintf(claims, sizeof claims, ",\"a\":\"%s\",\"b\":\"%.*s\"", blanks, 100,
           "0123456789012345678901234567890123456789012345678901234567890123456789012345678901");
  assert_int_equal(grant_logging(NULL, claims, NAMES("a", "b", "sub"), &grant), IDEM_OK);
  assert_non_null(strstr(grant->logged,
                         "%20... b=01234567890123456789012345678901234567890123456789"
                         "0123456789012345678901... sub=alice"));
  assert_true(strlen(grant->logged) < 200);
  idem__grant_unref(grant);
}

/* Six of the longest names with the longest values fit. */
static void all_that_may_be_asked_for_is_shown(void **state) {
  (void)state;
  char names[6][65], claims[4096] = "", *list[7] = {NULL};
  idem__grant *grant;
  for (size_t i = 0; i < 6; i++) {
    memset(names[i], 'n', 64);
    names[i][63] = (char)('0' + i);
    names[i][64] = '\0';
    list[i] = names[i];
    assert_null(idem__logged_fault(names[i]));
    size_t at = strlen(claims);
    snprintf(claims + at, sizeof claims - at, ",\"%s\":\"%0100d\"", names[i], 7);
  }
  assert_int_equal(grant_logging(NULL, claims, list, &grant), IDEM_OK);
  assert_int_equal(strlen(grant->logged), 6 * (1 + 64 + 1 + 72 + 3));
  idem__grant_unref(grant);
}

static void names_that_no_log_shows_are_refused(void **state) {
  (void)state;
  static const char *const good[] = {
      "sub", "client_id", "azp", "https://x.example/claims/org", "urn:org:unit", "jti", "tid"};
  static const char *const bad[] = {"",    "a b",          "a=b",           "a\"b", "a%b",
                                    "cnf", "access_token", "client_secret", "a\nb", "password"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    if (idem__logged_fault(good[i])) fail_msg("%s: %s", good[i], idem__logged_fault(good[i]));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (!idem__logged_fault(bad[i])) fail_msg("%s is taken", bad[i]);
  char name[66];
  memset(name, 'n', sizeof name);
  name[65] = '\0';
  assert_non_null(idem__logged_fault(name));
  assert_null(idem__logged_fault(name + 1));
}

static void make_one(fault_alloc *fault, void *user) {
  idem__grant *grant;
  (void)user;
  idem_status status = grant_logging(&fault->alloc, "", NAMES("sub"), &grant);
  assert_true(status == IDEM_OK ? grant->logged != NULL : grant == NULL);
  idem__grant_unref(grant);
}

static void no_want_of_memory_leaks(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(make_one, NULL, 100) >= 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_says_what_was_asked_for_in_that_order),
      cmocka_unit_test(what_is_no_scalar_is_left_out),
      cmocka_unit_test(what_is_said_twice_is_left_out),
      cmocka_unit_test(no_value_passes_for_another_claim),
      cmocka_unit_test(what_looks_like_a_credential_is_hidden_however_long_it_is),
      cmocka_unit_test(a_long_value_is_cut_and_hides_no_other),
      cmocka_unit_test(all_that_may_be_asked_for_is_shown),
      cmocka_unit_test(names_that_no_log_shows_are_refused),
      cmocka_unit_test(no_want_of_memory_leaks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
