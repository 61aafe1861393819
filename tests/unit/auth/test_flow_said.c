/* test_flow_said.c - what an authorization server says of a refusal is shown, but for what it was told in confidence. */
#include "flow_play.h"

/* Fails as expect_failed does, and the sentence holds nothing of the secret. */
static void expect_silence(idem__auth_flow *flow, const char *part, const char *secret) {
  const char *why = idem__auth_step_of(flow)->why;
  assert_non_null(why);
  if (strstr(why, secret)) fail_msg("\"%s\" shows \"%s\"", why, secret);
  expect_failed(flow, part);
}

static void a_repeated_code_is_not_shown(void **state) {
  static const char *const answers[] = {"{\"error\":\"SECRETcode\"}",
                                        "{\"error\":\"bad code SECRETcode of yours\"}"};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    idem__auth_flow *flow = to_browser("Bearer");
    come_back(flow, "&code=SECRETcode" ISS);
    answer(flow, AS "/token", 400, answers[i]);
    expect_silence(flow, "gave no token (400)", "SECRET");
  }
}

static void a_repeated_code_of_a_refusal_is_not_shown(void **state) {
  (void)state;
  idem__auth_flow *flow = to_browser("Bearer");
  come_back(flow, "&error=SECRETcode&code=SECRETcode" ISS);
  expect_silence(flow, "the authorization server said: no", "SECRET");
}

static void a_repeated_refresh_token_is_not_shown(void **state) {
  (void)state;
  idem__auth_flow *flow = to_browser("Bearer");
  come_back(flow, "&code=C" ISS);
  answer(flow, AS "/token", 200,
         "{\"access_token\":\"SECRETaccess\",\"token_type\":\"bearer\",\"refresh_token\":"
         "\"SECRETrefreshtoken\"}");
  refuse_with(flow, 401, "Bearer", true);
  answer(flow, AS "/token", 400, "{\"error\":\"SECRETrefreshtoken\"}");
  expect_silence(flow, "did not refresh the token (400)", "SECRET");
}

/* The beginning of a long one, too, and the whole of a short one. */
static void a_repeated_client_secret_is_not_shown(void **state) {
  static const struct {
    const char *secret, *error;
  } cases[] = {{"SECRETs", "no:SECRETs"},
               {"SECRETthatislongerthanwhatiskept", "SECRETthatislonger..."},
               {"SECRETs", "Basic cm9ib3Q6U0VDUkVUcw=="}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char body[128];
    idem__auth_opts opts = options(IDEM__AUTH_CLIENT_CREDENTIALS);
    opts.client_id = "robot";
    opts.client_secret = cases[i].secret;
    idem__auth_flow *flow = start(&opts);
    refuse_with(flow, 401, "Bearer", true);
    find_servers(flow);
    snprintf(body, sizeof body, "{\"error\":\"%s\"}", cases[i].error);
    answer(flow, AS "/token", 401, body);
    expect_silence(flow, "gave no token (401)", i == 2 ? "Basic" : "SECRET");
  }
}

static void a_repeated_signature_is_not_shown(void **state) {
  (void)state;
  idem__auth_opts opts = options(IDEM__AUTH_CLIENT_CREDENTIALS);
  opts.client_id = "robot-with-a-key";
  opts.sign = sign;
  idem__auth_flow *flow = start(&opts);
  refuse_with(flow, 401, "Bearer", true);
  find_servers(flow);
  expect_form(flow, "client_assertion=signed.");
  answer(flow, AS "/token", 401, "{\"error\":\"robot-with-a-key\"}");
  expect_silence(flow, "gave no token (401)", "robot-with-a-key");
}

static void a_scope_that_is_the_token_is_not_shown(void **state) {
  (void)state;
  idem__auth_flow *flow = to_browser("Bearer scope=\"SECRETaccess\"");
  come_back(flow, "&code=C" ISS);
  answer(flow, AS "/token", 200, "{\"access_token\":\"SECRETaccess\",\"token_type\":\"bearer\"}");
  refuse_with(flow, 403, "Bearer error=\"insufficient_scope\", scope=\"SECRETaccess\"", true);
  expect_silence(flow, "which the token was asked for already", "SECRET");
}

/* The words of the RFCs are shown whatever the secret is; others in its characters alone. */
static void what_tells_nothing_is_shown(void **state) {
  static const struct {
    const char *body, *why;
  } cases[] = {{"{\"error\":\"invalid_scope\"}", "gave no token: invalid_scope"},
               {"{\"error\":\"over quota\"}", "gave no token: over quota"},
               {"{\"error\":\"qu\\u001b[31mota\"}", "gave no token (400)"},
               {"{\"error\":\"it was \\\"x\\\"\"}", "gave no token (400)"},
               {"{\"error\":\"\"}", "gave no token (400)"}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    idem__auth_flow *flow = to_browser("Bearer");
    come_back(flow, "&code=s" ISS);
    answer(flow, AS "/token", 400, cases[i].body);
    expect_failed(flow, cases[i].why);
  }
}

static void a_refused_registration_says_why(void **state) {
  static const struct {
    const char *body, *why;
  } cases[] = {
      {"{\"error\":\"invalid_redirect_uri\",\"error_description\":\"\\\"http\\\" is not "
       "taken\\n\"}",
       "(400, invalid_redirect_uri: 'http' is not taken?)"},
      {"{\"error\":\"invalid_client_metadata\"}", "(400, invalid_client_metadata)"},
      {"{\"error\":7,\"error_description\":\"\\u001b[31m\"}", "(400: ?[31m)"},
      {"<html>", "did not register the client (400)"},
      {"", "did not register the client (400)"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    idem__auth_opts opts = options(IDEM__AUTH_CODE);
    idem__auth_flow *flow = start(&opts);
    refuse_with(flow, 401, "Bearer", true);
    find_servers(flow);
    answer(flow, AS "/register", 400, cases[i].body);
    expect_failed(flow, cases[i].why);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_repeated_code_is_not_shown),
      cmocka_unit_test(a_repeated_code_of_a_refusal_is_not_shown),
      cmocka_unit_test(a_repeated_refresh_token_is_not_shown),
      cmocka_unit_test(a_repeated_client_secret_is_not_shown),
      cmocka_unit_test(a_repeated_signature_is_not_shown),
      cmocka_unit_test(a_scope_that_is_the_token_is_not_shown),
      cmocka_unit_test(what_tells_nothing_is_shown),
      cmocka_unit_test(a_refused_registration_says_why),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
