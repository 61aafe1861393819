/* test_flow.c - a client on its way to a token, played against servers that are a table of answers: every grant, what is
 * checked on the way, and that secrets go to nobody else. */
#include "flow_play.h"
#include "support/fault_alloc.h"

static void a_person_in_a_browser_leads_to_a_token(void **state) {
  (void)state;
  idem__auth_flow *flow = to_browser("Bearer");
  const char *url = idem__auth_step_of(flow)->url;
  assert_non_null(strstr(url, AS "/authorize?response_type=code&client_id=c%201"));
  assert_non_null(strstr(url, "code_challenge_method=S256"));
  assert_non_null(strstr(url, "scope=r%20w%20offline_access&prompt=consent"));
  assert_non_null(strstr(url, "resource=https%3A%2F%2Fmcp.example%2Fmcp"));
  come_back(flow, "&code=C" ISS);
  expect_form(flow, "grant_type=authorization_code&code=C&redirect_uri=");
  expect_form(flow, "code_verifier=");
  expect_form(flow, "client_id=c%201");
  take_token(flow);
  idem__auth_flow_free(flow);
}

static void the_challenge_names_the_scope(void **state) {
  (void)state;
  idem__auth_flow *flow = to_browser("Bearer scope=\"only\"");
  assert_non_null(strstr(idem__auth_step_of(flow)->url, "scope=only%20offline_access"));
  idem__auth_flow_free(flow);
}

static void an_answer_that_is_not_ours_goes_nowhere(void **state) {
  static const struct {
    const char *rest, *why;
  } rows[] = {{"&code=C", "does not say which"},
              {"&code=C&iss=https%3A%2F%2Fas.example%2F", "another authorization server"},
              {"&code=C&iss=https%3A%2F%2Fevil", "another authorization server"},
              {"&error=access_denied" ISS, "access_denied"},
              {"&state=x&code=C" ISS, "another state"},
              {ISS, "without a code"}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    idem__auth_flow *flow = to_browser("Bearer");
    come_back(flow, rows[i].rest);
    expect_failed(flow, rows[i].why);
  }
  idem__auth_flow *flow = to_browser("Bearer");
  idem__auth_redirected(flow, "code=C&state=guess", 18);
  expect_failed(flow, "another state");
}

static void metadata_of_somebody_else_are_refused(void **state) {
  idem__auth_opts opts = options(IDEM__AUTH_CODE);
  (void)state;
  idem__auth_flow *flow = start(&opts);
  refuse_with(flow, 401, "Bearer resource_metadata=\"https://mcp.example/meta\"", true);
  answer(flow, "https://mcp.example/meta", 200,
         "{\"resource\":\"https://evil/mcp\",\"authorization_servers\":[\"" AS "\"]}");
  expect_failed(flow, "another resource");
  flow = start_refused(&opts);
  answer(flow, METADATA "/mcp", 200, resource_document);
  answer(flow, AS "/.well-known/oauth-authorization-server", 404, "");
  answer(flow, AS "/.well-known/openid-configuration", 200,
         "{\"issuer\":\"https://other\",\"token_endpoint\":\"https://other/t\"}");
  expect_failed(flow, "of another (https://other, not https://as.example)");
  flow = start(&opts);
  refuse_with(flow, 401, "Bearer resource_metadata=\"http://169.254.169.254/\"", true);
  expect_failed(flow, "not https");
}

/* The origin is what the root place is made of, and no other. */
static void metadata_of_the_origin_are_at_the_root_place_alone(void **state) {
  static const char origin[] =
      "{\"resource\":\"https://mcp.example\",\"authorization_servers\":[\"" AS "\"]}";
  idem__auth_opts opts = options(IDEM__AUTH_CODE);
  (void)state;
  idem__auth_flow *flow = start_refused(&opts);
  answer(flow, METADATA "/mcp", 200, origin);
  expect_failed(flow, "another resource (https://mcp.example)");
  flow = start_refused(&opts);
  answer(flow, METADATA "/mcp", 404, "");
  answer(flow, METADATA, 200, origin);
  assert_string_equal(idem__auth_step_of(flow)->url, AS "/.well-known/oauth-authorization-server");
  idem__auth_flow_free(flow);
}

static void a_server_of_before_is_its_own_authorization_server(void **state) {
  idem__auth_opts opts = options(IDEM__AUTH_CODE);
  (void)state;
  idem__auth_flow *flow = start(&opts);
  refuse_with(flow, 401, "", true);
  answer(flow, METADATA "/mcp", 404, "");
  answer(flow, METADATA, 404, "");
  answer(flow, "https://mcp.example/.well-known/oauth-authorization-server", 404, "");
  answer(flow, "https://mcp.example/register", 201, "{\"client_id\":\"c\"}");
  const char *url = idem__auth_step_of(flow)->url;
  assert_int_equal(strncmp(url, "https://mcp.example/authorize?", 30), 0);
  assert_null(strstr(url, "resource="));
  come_back(flow, "&code=C");
  answer(flow, "https://mcp.example/token", 200, token_document);
  assert_int_equal(idem__auth_step_of(flow)->want, IDEM__AUTH_DONE);
  idem__auth_flow_free(flow);
  opts.strict_resource = true;
  flow = start(&opts);
  refuse_with(flow, 401, "", true);
  answer(flow, METADATA "/mcp", 404, "");
  answer(flow, METADATA, 404, "");
  expect_failed(flow, "does not say who");
}

/* Another issuer's name in it would send that one's code to a token endpoint of this server's. */
static void a_server_without_resource_metadata_is_the_issuer_itself(void **state) {
  static const char *const issuers[] = {"https://mcp.example", "https://mcp.example/", AS,
                                        "https://mcp.example.evil", "https://mcp.example/x"};
  idem__auth_opts opts = options(IDEM__AUTH_CODE);
  (void)state;
  opts.client_id = "public";
  for (size_t i = 0; i < sizeof issuers / sizeof *issuers; i++) {
    char document[512];
    snprintf(document, sizeof document,
             "{\"issuer\":\"%s\",\"authorization_endpoint\":\"" AS "/authorize\","
             "\"token_endpoint\":\"https://mcp.example/token\"}",
             issuers[i]);
    idem__auth_flow *flow = start(&opts);
    refuse_with(flow, 401, "", true);
    answer(flow, METADATA "/mcp", 404, "");
    answer(flow, METADATA, 404, "");
    answer(flow, "https://mcp.example/.well-known/oauth-authorization-server", 200, document);
    if (i >= 2) {
      expect_failed(flow, "of another (");
      continue;
    }
    assert_int_equal(idem__auth_step_of(flow)->want, IDEM__AUTH_BROWSE);
    idem__auth_flow_free(flow);
  }
}

/* ------------------------------------------------------------- refused again */

static void more_scope_is_asked_for_once(void **state) {
  (void)state;
  idem__auth_flow *flow = logged_in("Bearer scope=\"r\"");
  refuse_with(flow, 403, "Bearer error=\"insufficient_scope\", scope=\"w\"", true);
  find_servers(flow); /* and the client is still known there */
  assert_non_null(strstr(idem__auth_step_of(flow)->url, "scope=r%20offline_access%20w"));
  come_back(flow, "&code=C" ISS);
  take_token(flow);
  refuse_with(flow, 403, "Bearer error=\"insufficient_scope\", scope=\"w\"", false);
  expect_failed(flow, "asked for already");
}

static void endless_refusals_end(void **state) {
  idem__auth_opts opts = options(IDEM__AUTH_CLIENT_CREDENTIALS);
  (void)state;
  opts.client_id = "me";
  opts.client_secret = "s";
  idem__auth_flow *flow = start(&opts);
  for (int i = 0; i < 3; i++) {
    refuse_with(flow, 401, "Bearer", i == 0);
    find_servers(flow);
    answer(flow, AS "/token", 200, "{\"access_token\":\"T\",\"token_type\":\"Bearer\"}");
    assert_int_equal(idem__auth_step_of(flow)->want, IDEM__AUTH_DONE);
  }
  refuse_with(flow, 401, "Bearer", false);
  expect_failed(flow, "3 authorizations");
}

static void a_refresh_token_is_used_and_forgotten_when_it_is_over(void **state) {
  (void)state;
  idem__auth_flow *flow = logged_in("Bearer");
  refuse_with(flow, 401, "Bearer error=\"invalid_token\"", true);
  assert_null(idem__auth_authorization(flow));
  expect_form(flow, "grant_type=refresh_token&refresh_token=R1");
  take_token(flow);
  refuse_with(flow, 401, "Bearer", true);
  answer(flow, AS "/token", 400, "{\"error\":\"invalid_grant\"}");
  find_servers(flow);
  assert_int_equal(idem__auth_step_of(flow)->want, IDEM__AUTH_BROWSE);
  idem__auth_flow_free(flow);
}

static void a_server_that_moved_does_not_see_the_old_client(void **state) {
  (void)state;
  idem__auth_flow *flow = to_browser("Bearer");
  come_back(flow, "&code=C" ISS);
  answer(flow, AS "/token", 200, "{\"access_token\":\"T\",\"token_type\":\"Bearer\"}");
  refuse_with(flow, 401, "Bearer", true);
  find_new_server(flow, ",\"registration_endpoint\":\"" NEW "/r\"");
  assert_null(strstr(idem__auth_step_of(flow)->json, "c 1"));
  answer(flow, NEW "/r", 201, "{\"client_id\":\"c2\",\"client_secret\":\"s2\"}");
  assert_non_null(strstr(idem__auth_step_of(flow)->url, "client_id=c2"));
  idem__auth_flow_free(flow);
}

/* ... which says nothing of how clients show who they are. */
static void move(idem__auth_flow *flow) {
  refuse_with(flow, 401, "Bearer", true);
  find_new_server(flow, ",\"client_id_metadata_document_supported\":true");
}

static void a_secret_for_one_server_is_not_shown_to_the_next(void **state) {
  idem__auth_opts opts = options(IDEM__AUTH_CLIENT_CREDENTIALS);
  (void)state;
  opts.client_id = "robot";
  opts.client_secret = "s";
  idem__auth_flow *flow = start_found(&opts);
  answer(flow, AS "/token", 200, "{\"access_token\":\"T\",\"token_type\":\"Bearer\"}");
  idem_buf kept;
  idem_buf_init(&kept, NULL, 4096);
  assert_int_equal(idem__auth_flow_save(flow, &kept), IDEM_OK);
  move(flow);
  expect_failed(flow, "than the one that knows this client (" AS ")");
  flow = start(&opts); /* nor by the next process */
  assert_int_equal(idem__auth_flow_take(flow, kept.data, kept.len), IDEM_OK);
  move(flow);
  expect_failed(flow, "than the one that knows this client (" AS ")");
  idem_buf_deinit(&kept);
}

static void a_client_that_is_a_document_may_move(void **state) {
  idem__auth_opts opts = options(IDEM__AUTH_CODE);
  (void)state;
  opts.client_document = "https://me.example/client.json";
  idem__auth_flow *flow = start_found(&opts);
  come_back(flow, "&code=C" ISS);
  answer(flow, AS "/token", 200, "{\"access_token\":\"T\",\"token_type\":\"Bearer\"}");
  move(flow);
  assert_int_equal(idem__auth_step_of(flow)->want, IDEM__AUTH_BROWSE);
  idem__auth_flow_free(flow);
}

/* Keycloak and Entra list what clients with secrets may do, and take others all the same. */
static void a_client_without_a_secret_needs_no_leave(void **state) {
  idem__auth_opts opts = options(IDEM__AUTH_CODE);
  (void)state;
  opts.client_id = "public";
  idem__auth_flow *flow = start(&opts);
  move(flow);
  come_back(flow, "&code=C");
  expect_form(flow, "client_id=public");
  assert_null(strstr(idem__auth_step_of(flow)->form, "client_secret"));
  assert_null(idem__auth_step_of(flow)->authorization);
  idem__auth_flow_free(flow);
}

/* ------------------------------------------------------------------- others */

static void a_program_asks_as_itself(void **state) {
  idem__auth_opts opts = options(IDEM__AUTH_CLIENT_CREDENTIALS);
  (void)state;
  opts.client_id = "me:";
  opts.client_secret = "s&t";
  idem__auth_flow *flow = start_found(&opts);
  assert_string_equal(idem__auth_step_of(flow)->authorization,
                      "Basic bWUlM0E6cyUyNnQ="); /* me%3A:s%26t */
  assert_null(strstr(idem__auth_step_of(flow)->form, "s%26t"));
  take_token(flow);
  idem__auth_flow_free(flow);
  opts.client_secret = NULL;
  opts.sign = sign;
  flow = start_found(&opts);
  expect_form(
      flow,
      "client_assertion=signed.%7B%22iss%22%3A%22me%3A%22%2C%22sub%22%3A%22me%3A%22%2C%22aud%22");
  assert_null(idem__auth_step_of(flow)->authorization);
  take_token(flow);
  idem__auth_flow_free(flow);
}

static void an_assertion_is_shown_once(void **state) {
  idem__auth_opts opts = options(IDEM__AUTH_JWT_BEARER);
  (void)state;
  opts.assertion = "j.w.t";
  idem__auth_flow *flow = start_found(&opts);
  expect_form(flow,
              "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=j.w.t");
  answer(flow, AS "/token", 400, "{\"error\":\"invalid_grant\"}");
  expect_failed(flow, "invalid_grant");
}

static void a_company_vouches_for_its_user(void **state) {
  idem__auth_opts opts = options(IDEM__AUTH_ENTERPRISE);
  (void)state;
  opts.client_id = "me";
  opts.client_secret = "s";
  opts.assertion = "id.token";
  opts.idp_token_endpoint = "https://idp.example/token";
  opts.idp_client_id = "at-idp";
  idem__auth_flow *flow = start_found(&opts);
  expect_form(flow, "audience=https%3A%2F%2Fas.example&resource=");
  expect_form(flow, "subject_token=id.token");
  assert_null(idem__auth_step_of(flow)
                  ->authorization); /* our secret at one server is nothing for another */
  answer(
      flow, "https://idp.example/token", 200,
      "{\"access_token\":\"jag\",\"issued_token_type\":\"urn:ietf:params:oauth:token-type:id-jag\","
      "\"token_type\":\"N_A\"}");
  expect_form(flow, "assertion=jag");
  assert_non_null(idem__auth_step_of(flow)->authorization);
  take_token(flow);
  idem__auth_flow_free(flow);
}

/* Each of the two servers is shown the secret that it knows, and no other. */
static void a_company_may_want_to_know_the_client(void **state) {
  idem__auth_opts opts = options(IDEM__AUTH_ENTERPRISE);
  (void)state;
  opts.client_id = "me";
  opts.client_secret = "here";
  opts.assertion = "id.token";
  opts.idp_token_endpoint = "https://idp.example/token";
  opts.idp_client_id = "at idp";
  opts.idp_client_secret = "th:ere";
  for (int post = 0; post < 2; post++) {
    opts.idp_secret_post = post;
    idem__auth_flow *flow = start(&opts);
    refuse_with(flow, 401, "Bearer", true);
    find_servers(flow);
    const idem__auth_step *step = idem__auth_step_of(flow);
    assert_null(strstr(step->form, "here&"));
    if (post) {
      assert_null(step->authorization);
      expect_form(flow, "client_id=at%20idp&client_secret=th%3Aere");
    } else { /* "at%20idp:th%3Aere" */
      assert_string_equal(step->authorization, "Basic YXQlMjBpZHA6dGglM0FlcmU=");
      assert_null(strstr(step->form, "client_id"));
    }
    answer(flow, "https://idp.example/token", 200, "{\"access_token\":\"jag\"}");
    assert_string_equal(idem__auth_step_of(flow)->authorization, "Basic bWU6aGVyZQ==");
    take_token(flow);
    idem__auth_flow_free(flow);
  }
}

static void a_company_that_refuses_the_client_is_quoted_without_its_secret(void **state) {
  idem__auth_opts opts = options(IDEM__AUTH_ENTERPRISE);
  (void)state;
  opts.client_id = "me";
  opts.client_secret = "s";
  opts.assertion = "id.token";
  opts.idp_token_endpoint = "https://idp.example/token";
  opts.idp_client_id = "at-idp";
  opts.idp_client_secret = "hush-hush-hush-hush";
  idem__auth_flow *flow = start(&opts);
  refuse_with(flow, 401, "Bearer", true);
  find_servers(flow);
  answer(flow, "https://idp.example/token", 401, "{\"error\":\"invalid_client\"}");
  expect_failed(flow, "gave no assertion (401: invalid_client)");
  flow = start(&opts);
  refuse_with(flow, 401, "Bearer", true);
  find_servers(flow);
  answer(flow, "https://idp.example/token", 401, "{\"error\":\"no hush-hush-hush-hush\"}");
  expect_failed(flow, "gave no assertion (401)");
}

static void a_device_waits_for_its_person(void **state) {
  idem__auth_opts opts = options(IDEM__AUTH_DEVICE);
  (void)state;
  opts.client_id = "tv";
  idem__auth_flow *flow = start_found(&opts);
  answer(flow, AS "/device", 200,
         "{\"device_code\":\"D\",\"user_code\":\"ABCD\",\"verification_uri\":\"" AS
         "/go\",\"interval\":2,\"expires_in\":100}");
  const idem__auth_step *step = idem__auth_step_of(flow);
  assert_int_equal(step->want, IDEM__AUTH_WAIT);
  assert_string_equal(step->user_code, "ABCD");
  assert_string_equal(step->url, AS "/go");
  assert_int_equal(step->wait_ms, 2000);
  idem__auth_waited(flow);
  answer(flow, AS "/token", 400, "{\"error\":\"slow_down\"}");
  assert_int_equal(idem__auth_step_of(flow)->wait_ms, 7000);
  idem__auth_waited(flow);
  expect_form(flow, "device_code=D&resource=https%3A%2F%2Fmcp.example%2Fmcp&client_id=tv");
  take_token(flow);
  refuse_with(flow, 401, "", true);
  idem__auth_flow_free(flow);
  flow = start_found(&opts);
  answer(flow, AS "/device", 200,
         "{\"device_code\":\"D\",\"user_code\":\"ABCD\",\"verification_uri\":\"" AS "/go\"}");
  now += 600;
  idem__auth_waited(flow);
  answer(flow, AS "/token", 400, "{\"error\":\"authorization_pending\"}");
  expect_failed(flow, "in time");
}

static void a_client_may_be_a_document(void **state) {
  idem__auth_opts opts = options(IDEM__AUTH_CODE);
  (void)state;
  opts.client_document = "https://me.example/client.json";
  idem__auth_flow *flow = start_found(&opts);
  assert_non_null(
      strstr(idem__auth_step_of(flow)->url, "client_id=https%3A%2F%2Fme.example%2Fclient.json"));
  idem__auth_flow_free(flow);
}

static void tokens_that_would_break_a_header_are_refused(void **state) {
  static const char *const bad[] = {"{\"access_token\":\"a\\r\\nX: y\",\"token_type\":\"Bearer\"}",
                                    "{\"access_token\":\"\",\"token_type\":\"Bearer\"}",
                                    "{\"access_token\":\"T\",\"token_type\":\"mac\"}",
                                    "{\"access_token\":\"T\"}",
                                    "{\"access_token\":7,\"token_type\":\"Bearer\"}",
                                    "[]",
                                    "nothing"};
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    idem__auth_flow *flow = to_browser("Bearer");
    come_back(flow, "&code=C" ISS);
    answer(flow, AS "/token", 200, bad[i]);
    expect_failed(flow, "token");
  }
}

/* ------------------------------------------------------------------ no memory */

static void play(fault_alloc *fault, void *user) {
  idem__auth_opts opts = options(IDEM__AUTH_CLIENT_CREDENTIALS);
  idem__auth_challenge challenge = {.bearer = true};
  idem__auth_flow *flow;
  (void)user;
  opts.client_id = "me";
  opts.client_secret = "s";
  opts.scope = "x";
  opts.alloc = &fault->alloc;
  if (idem__auth_flow_new(&opts, &flow) != IDEM_OK) return;
  idem__auth_refused(flow, 401, &challenge, true);
  const char *const bodies[] = {resource_document, server_document, token_document};
  for (int i = 0; i < 3; i++) idem__auth_fetched(flow, 200, bodies[i], strlen(bodies[i]));
  idem__auth_want want = idem__auth_step_of(flow)->want;
  assert_true(want == IDEM__AUTH_DONE || want == IDEM__AUTH_FAILED);
  idem__auth_flow_free(flow);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(play, NULL, 500) > 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_person_in_a_browser_leads_to_a_token),
      cmocka_unit_test(the_challenge_names_the_scope),
      cmocka_unit_test(an_answer_that_is_not_ours_goes_nowhere),
      cmocka_unit_test(metadata_of_somebody_else_are_refused),
      cmocka_unit_test(metadata_of_the_origin_are_at_the_root_place_alone),
      cmocka_unit_test(a_server_of_before_is_its_own_authorization_server),
      cmocka_unit_test(more_scope_is_asked_for_once),
      cmocka_unit_test(endless_refusals_end),
      cmocka_unit_test(a_refresh_token_is_used_and_forgotten_when_it_is_over),
      cmocka_unit_test(a_server_that_moved_does_not_see_the_old_client),
      cmocka_unit_test(a_server_without_resource_metadata_is_the_issuer_itself),
      cmocka_unit_test(a_secret_for_one_server_is_not_shown_to_the_next),
      cmocka_unit_test(a_client_that_is_a_document_may_move),
      cmocka_unit_test(a_client_without_a_secret_needs_no_leave),
      cmocka_unit_test(a_program_asks_as_itself),
      cmocka_unit_test(an_assertion_is_shown_once),
      cmocka_unit_test(a_company_vouches_for_its_user),
      cmocka_unit_test(a_company_may_want_to_know_the_client),
      cmocka_unit_test(a_company_that_refuses_the_client_is_quoted_without_its_secret),
      cmocka_unit_test(a_device_waits_for_its_person),
      cmocka_unit_test(a_client_may_be_a_document),
      cmocka_unit_test(tokens_that_would_break_a_header_are_refused),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
