/* test_codes.c - what a code is: allowed, called, whose, how grave. */
#include "rpc/rpc.h"
#include "support/unit.h"

#include <string.h>

static void applications_raise_what_is_theirs(void **state) {
  (void)state;
  assert_true(idem_code_allowed(IDEM_CODES_STANDARD, 7));
  assert_true(idem_code_allowed(IDEM_CODES_STANDARD, -32602));
  assert_true(idem_code_allowed(IDEM_CODES_STANDARD, -32050));
  assert_false(idem_code_allowed(IDEM_CODES_STANDARD, -32500));
  assert_false(idem_code_allowed(IDEM_CODES_MODERN, -32002));
  assert_false(idem_code_allowed(IDEM_CODES_MODERN, -32050));
  assert_true(idem_code_allowed(IDEM_CODES_ERLMCP, -32012));
}

static void codes_have_names(void **state) {
  (void)state;
  assert_string_equal(idem_code_name(IDEM_CODES_STANDARD, -32700), "Parse error");
  assert_string_equal(idem_code_name(IDEM_CODES_ERLMCP, -32001), "Resource not found");
  assert_string_equal(idem_code_name(IDEM_CODES_ERLMCP, -32005), "Server not initialized");
  assert_string_equal(idem_code_name(IDEM_CODES_ERLMCP, -32012), "Message too large");
  assert_string_equal(idem_code_name(IDEM_CODES_STANDARD, -32002), "Resource not found");
  assert_null(idem_code_name(IDEM_CODES_MODERN, -32002));
  assert_string_equal(idem_code_name(IDEM_CODES_MODERN, -32020), "Header mismatch");
  assert_string_equal(idem_code_name(IDEM_CODES_MODERN, -32021),
                      "Missing required client capability");
  assert_string_equal(idem_code_name(IDEM_CODES_MODERN, -32022), "Unsupported protocol version");
  assert_null(idem_code_name(IDEM_CODES_STANDARD, -32022));
  assert_null(idem_code_name(IDEM_CODES_ERLMCP, -32013));
  assert_null(idem_code_name(IDEM_CODES_ERLMCP, -32000));
  assert_null(idem_code_name(IDEM_CODES_STANDARD, -32005));
}

static void codes_belong_to_someone(void **state) {
  (void)state;
  assert_int_equal(idem_code_class_of(IDEM_CODES_STANDARD, -32603), IDEM_CODE_PROTOCOL);
  assert_int_equal(idem_code_class_of(IDEM_CODES_STANDARD, -32800), IDEM_CODE_PROTOCOL);
  assert_int_equal(idem_code_class_of(IDEM_CODES_STANDARD, -32005), IDEM_CODE_SERVER);
  assert_int_equal(idem_code_class_of(IDEM_CODES_ERLMCP, -32005), IDEM_CODE_PROTOCOL);
  assert_int_equal(idem_code_class_of(IDEM_CODES_MODERN, -32021), IDEM_CODE_PROTOCOL);
  assert_int_equal(idem_code_class_of(IDEM_CODES_STANDARD, -32500), IDEM_CODE_RESERVED);
  assert_int_equal(idem_code_class_of(IDEM_CODES_STANDARD, 1), IDEM_CODE_APPLICATION);
}

static void codes_are_as_grave_as_their_line_in_the_log(void **state) {
  (void)state;
  assert_int_equal(idem_code_severity(-32603), IDEM_LOG_ERROR);
  assert_int_equal(idem_code_severity(-32602), IDEM_LOG_WARN);
  assert_int_equal(idem_code_severity(42), IDEM_LOG_DEBUG);
}

/* Clients show the message, and models read it. */
static void each_refusal_names_its_cause_where_the_policy_wants_that(void **state) {
  static const char start[] = "Invalid Request: ";
  (void)state;
  idem_policy plain = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  idem_policy lsp = idem_policy_preset(IDEM_PROFILE_LSP);
  idem_policy mcp = idem_policy_preset(IDEM_PROFILE_MCP), own = mcp;
  own.codes = IDEM_CODES_ERLMCP;
  for (int i = IDEM__NOT_AN_OBJECT; i <= IDEM__UNAVAILABLE; i++) {
    idem__reason reason = (idem__reason)i;
    const char *said = idem__answer_invalid_request(&mcp, reason).message;
    assert_non_null(said);
    assert_memory_equal(said, start, sizeof start - 1);
    assert_in_range(strlen(said), sizeof start, 256);
    assert_null(idem__answer_invalid_request(&plain, reason).message);
    assert_null(idem__answer_invalid_request(&lsp, reason).message);
    assert_null(idem__answer_invalid_request(&own, reason).message);
    assert_null(idem__answer_invalid_request(NULL, reason).message);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(applications_raise_what_is_theirs),
      cmocka_unit_test(codes_have_names),
      cmocka_unit_test(codes_belong_to_someone),
      cmocka_unit_test(codes_are_as_grave_as_their_line_in_the_log),
      cmocka_unit_test(each_refusal_names_its_cause_where_the_policy_wants_that),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
