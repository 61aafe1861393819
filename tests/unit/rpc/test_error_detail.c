/* test_error_detail.c - how much of what idem says of an error goes out: all of it, reason and hint, or nothing. What an
 * application says is its own at every level. */
#include "http/http.h"
#include "rpc/rpc.h"
#include "support/unit.h"

#include <string.h>

enum { LEVELS = 3, LINE = 512 };

#define OWN(text)                                                                                  \
  { IDEM__VALUE_OWN, (text), sizeof(text) - 1, NULL }
#define MEMBER(key, text)                                                                          \
  { IDEM__VALUE_MEMBER, (text), sizeof(text) - 1, (key) }

typedef struct row {
  idem__value value;
  bool raised;
  const char *data[LEVELS]; /* full, reason, none; "": no data */
} row;

#define RICH                                                                                       \
  "{\"reason\":\"r\",\"retryAfter\":7,\"hint\":\"do \\\"this\\\"\",\"more\":{\"reason\":\"x\"}}"

static const row rows[] = {
    {MEMBER("reason", "bad-version"),
     false,
     {"{\"reason\":\"bad-version\"}", "{\"reason\":\"bad-version\"}", ""}},
    {MEMBER("method", "nope"), false, {"{\"method\":\"nope\"}", "", ""}},
    {OWN("{\"reason\":\"r\",\"hint\":\"h\"}"),
     false,
     {"{\"reason\":\"r\",\"hint\":\"h\"}", "{\"reason\":\"r\",\"hint\":\"h\"}", ""}},
    {OWN("{\"hint\":\"h\",\"reason\":\"r\"}"),
     false,
     {"{\"hint\":\"h\",\"reason\":\"r\"}", "{\"reason\":\"r\",\"hint\":\"h\"}", ""}},
    {OWN("{\"reason\":\"r\",\"scopes\":[\"a\"]}"),
     false,
     {"{\"reason\":\"r\",\"scopes\":[\"a\"]}", "{\"reason\":\"r\"}", ""}},
    {OWN(RICH), false, {RICH, "{\"reason\":\"r\",\"hint\":\"do \\\"this\\\"\"}", ""}},
    {OWN("{\"param\":\"b\",\"expected\":\"number\"}"),
     false,
     {"{\"param\":\"b\",\"expected\":\"number\"}", "", ""}},
    {OWN("{\"a\":{\"reason\":\"inner\"}}"), false, {"{\"a\":{\"reason\":\"inner\"}}", "", ""}},
    {OWN("{\"reason\":7}"), false, {"{\"reason\":7}", "", ""}},
    /* An application's, by the helper for plain text and as JSON. */
    {OWN("{\"details\":\"d\"}"),
     true,
     {"{\"details\":\"d\"}", "{\"details\":\"d\"}", "{\"details\":\"d\"}"}},
    {{IDEM__VALUE_FOREIGN, "[1, {\"reason\":2}]", 17, NULL},
     false,
     {"[1,{\"reason\":2}]", "[1,{\"reason\":2}]", "[1,{\"reason\":2}]"}},
};

static void expect_line(const idem_buf *out, const char *code, const char *data) {
  char wanted[LINE];
  snprintf(wanted, sizeof wanted, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{%s%s%s}}", code,
           *data ? ",\"data\":" : "", data);
  if (out->len != strlen(wanted) || memcmp(out->data, wanted, out->len) != 0)
    fail_msg("%.*s\n  instead of %s", (int)out->len, out->data, wanted);
}

static void each_level_says_what_it_says(void **state) {
  (void)state;
  static const idem__id unknown;
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    for (int level = 0; level < LEVELS; level++) {
      idem__answer answer = {
          .is_error = true, .code = -32000, .message = "m", .value = rows[i].value};
      answer.raised = rows[i].raised;
      idem_buf out;
      idem_buf_init(&out, NULL, LINE);
      policy.error_detail = (idem_error_detail)level;
      assert_int_equal(idem__answer_put(&out, &policy, &unknown, &answer), IDEM_OK);
      expect_line(&out, "\"code\":-32000,\"message\":\"m\"", rows[i].data[level]);
      idem_buf_deinit(&out);
    }
  }
}

/* What HTTP refuses before anybody has read the message is said at the same levels. */
static void refusals_of_http_go_by_it(void **state) {
  (void)state;
  static const idem__http_refusal refusal = {
      .status = 415, .reason = "r", .hint = "Content-Type: application/json"};
  static const char data[] = "{\"reason\":\"r\",\"hint\":\"Content-Type: application/json\"}";
  static const char *const wanted[LEVELS] = {data, data, ""};
  for (int level = 0; level < LEVELS; level++) {
    idem_buf out;
    idem_buf_init(&out, NULL, LINE);
    assert_int_equal(idem__http_put_error(&out, &refusal, IDEM_CODES_STANDARD, false,
                                          IDEM_UNKNOWN_ID_NULL, (idem_error_detail)level),
                     IDEM_OK);
    expect_line(&out, "\"code\":-32600,\"message\":\"Invalid Request\"", wanted[level]);
    idem_buf_deinit(&out);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_level_says_what_it_says),
      cmocka_unit_test(refusals_of_http_go_by_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
