/* test_challenge.c - what a WWW-Authenticate header says, in the spellings that servers use and in those they should not. */
#include "auth/auth.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

static idem_alloc alloc;

static idem__auth_challenge read_all(const char *header, idem_status expected) {
  idem__auth_challenge found = {.bearer = false};
  alloc = idem__alloc_or_default(NULL);
  assert_int_equal(idem__auth_challenge_read(&alloc, header, strlen(header), &found), expected);
  return found;
}

static void expect(const char *header, const char *metadata, const char *scope, const char *error) {
  idem__auth_challenge found = read_all(header, IDEM_OK);
  assert_true(found.bearer);
  if (metadata)
    assert_string_equal(found.resource_metadata, metadata);
  else
    assert_null(found.resource_metadata);
  if (scope)
    assert_string_equal(found.scope, scope);
  else
    assert_null(found.scope);
  if (error)
    assert_string_equal(found.error, error);
  else
    assert_null(found.error);
  idem__auth_challenge_deinit(&alloc, &found);
}

static void parameters_are_read_in_any_spelling(void **state) {
  (void)state;
  expect("Bearer", NULL, NULL, NULL);
  expect("Bearer scope=\"a b\", error=insufficient_scope", NULL, "a b", "insufficient_scope");
  expect("bearer  Resource_Metadata = \"https://x/y\" ,SCOPE=\"a\"", "https://x/y", "a", NULL);
  expect("Bearer scope=\"a \\\"quoted\\\" word\"", NULL, "a \"quoted\" word", NULL);
  expect("Bearer scope=\"\"", NULL, "", NULL);
  expect("Bearer resource_metadata=https://x:1/y?a=b, scope=files:read", "https://x:1/y?a=b",
         "files:read", NULL);
  expect("Bearer resource_metadata=http://127.0.0.1:7/m error=invalid_token",
         "http://127.0.0.1:7/m", NULL, "invalid_token");
}

static void other_schemes_do_not_speak_for_ours(void **state) {
  (void)state;
  expect("Basic realm=\"x\", scope=\"no\", Bearer scope=\"yes\"", NULL, "yes", NULL);
  expect("Negotiate YWJj==, Bearer error=\"invalid_token\", Digest scope=\"no\"", NULL, NULL,
         "invalid_token");
  idem__auth_challenge found = read_all("Basic realm=\"x\"", IDEM_OK);
  assert_false(found.bearer || found.dpop);
  found = read_all("DPoP algs=\"ES256\"", IDEM_OK);
  assert_true(found.dpop);
}

static void the_first_word_counts(void **state) {
  (void)state;
  expect("Bearer scope=\"a\", scope=\"b\", Bearer scope=\"c\"", NULL, "a", NULL);
}

static void what_is_no_header_is_refused(void **state) {
  static const char *const bad[] = {
      "Bearer scope=\"a",       "Bearer scope=", "Bearer scope=\"a\\", "=",
      "Bearer scope=\"a\x01\"", "Bearer (x)"};
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    idem__auth_challenge found = read_all(bad[i], IDEM_E_INVAL);
    idem__auth_challenge_deinit(&alloc, &found);
  }
  static char huge[9000];
  memset(huge, 'a', sizeof huge - 1);
  read_all(huge, IDEM_E_INVAL);
}

static void use(fault_alloc *fault, void *user) {
  (void)user;
  static const char header[] = "Bearer scope=\"a b\", error=\"e\", resource_metadata=\"https://x\"";
  idem__auth_challenge found = {.bearer = false};
  idem__auth_challenge_read(&fault->alloc, header, sizeof header - 1, &found);
  idem__auth_challenge_deinit(&fault->alloc, &found);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(use, NULL, 100) > 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parameters_are_read_in_any_spelling),
      cmocka_unit_test(other_schemes_do_not_speak_for_ours),
      cmocka_unit_test(the_first_word_counts),
      cmocka_unit_test(what_is_no_header_is_refused),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
