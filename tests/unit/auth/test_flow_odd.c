/* test_flow_odd.c - a client on its way to a token among servers that say less than they should, say it oddly, or are away for a moment. */
#include "flow_play.h"

/* ------------------------------------------------------- who the client is */

/* As a server has it that says nothing of how clients show who they are. */
static void find_silent_server(idem__auth_flow *flow) {
  answer(flow, "https://mcp.example/.well-known/oauth-protected-resource/mcp", 200,
         resource_document);
  answer(flow, AS "/.well-known/oauth-authorization-server", 200,
         "{\"issuer\":\"" AS "\",\"authorization_endpoint\":\"" AS "/authorize\","
         "\"token_endpoint\":\"" AS "/token\",\"code_challenge_methods_supported\":[\"S256\"],"
         "\"client_id_metadata_document_supported\":true}");
}

static void a_client_without_a_secret_needs_no_word_of_the_server(void **state) {
  (void)state;
  for (int document = 0; document < 2; document++) {
    idem__auth_opts opts = options(IDEM__AUTH_CODE);
    if (document)
      opts.client_document = "https://me.example/client.json";
    else
      opts.client_id = "me";
    idem__auth_flow *flow = start(&opts);
    refuse_with(flow, 401, "Bearer", true);
    find_silent_server(flow);
    assert_int_equal(idem__auth_step_of(flow)->want, IDEM__AUTH_BROWSE);
    come_back(flow, "&code=C");
    expect_form(flow, document ? "&client_id=https%3A%2F%2Fme.example" : "&client_id=me");
    assert_null(idem__auth_step_of(flow)->authorization);
    take_token(flow);
    idem__auth_flow_free(flow);
  }
}

static void a_client_shows_its_secret_or_key_where_nothing_is_said(void **state) {
  (void)state;
  for (int key = 0; key < 2; key++) {
    idem__auth_opts opts = options(IDEM__AUTH_CLIENT_CREDENTIALS);
    opts.client_id = "me";
    if (key)
      opts.sign = sign;
    else
      opts.client_secret = "s";
    idem__auth_flow *flow = start(&opts);
    refuse_with(flow, 401, "Bearer", true);
    find_silent_server(flow);
    if (key)
      expect_form(flow, "client_assertion=signed.");
    else
      assert_string_equal(idem__auth_step_of(flow)->authorization, "Basic bWU6cw==");
    take_token(flow);
    idem__auth_flow_free(flow);
  }
}

/* It would ask as anybody could, who knows its name. */
static void a_client_with_a_key_does_not_go_without(void **state) {
  idem__auth_opts opts = options(IDEM__AUTH_CLIENT_CREDENTIALS);
  (void)state;
  opts.client_id = "me";
  opts.sign = sign;
  idem__auth_flow *flow = start(&opts);
  refuse_with(flow, 401, "Bearer", true);
  answer(flow, "https://mcp.example/.well-known/oauth-protected-resource/mcp", 200,
         resource_document);
  answer(flow, AS "/.well-known/oauth-authorization-server", 200,
         "{\"issuer\":\"" AS "\",\"token_endpoint\":\"" AS "/token\","
         "\"token_endpoint_auth_methods_supported\":[\"none\",\"client_secret_post\"]}");
  expect_failed(flow, "takes none of the ways");
}

static void a_client_that_its_server_has_forgotten_is_forgotten(void **state) {
  (void)state;
  idem__auth_flow *flow = to_browser("Bearer");
  come_back(flow, "&code=C" ISS);
  answer(flow, AS "/token", 401, "{\"error\":\"invalid_client\"}");
  assert_int_equal(idem__auth_step_of(flow)->want, IDEM__AUTH_FAILED);
  refuse_with(flow, 401, "Bearer", true);
  find_servers(flow);
  answer(flow, AS "/register", 201, "{\"client_id\":\"c2\"}");
  assert_non_null(strstr(idem__auth_step_of(flow)->url, "client_id=c2"));
  idem__auth_flow_free(flow);
}

static void a_forgotten_device_registers_again_once(void **state) {
  static const char kept[] = "{\"url\":\"" URL "\",\"client_issuer\":\"" AS
                             "\",\"client_id\":\"old\",\"registered_for\":\"device\"}";
  idem__auth_opts opts = options(IDEM__AUTH_DEVICE);
  (void)state;
  idem__auth_flow *flow = start(&opts);
  assert_int_equal(idem__auth_flow_take(flow, kept, strlen(kept)), IDEM_OK);
  refuse_with(flow, 401, "Bearer", true);
  find_servers(flow);
  expect_form(flow, "client_id=old");
  answer(flow, AS "/device", 401, "{\"error\":\"invalid_client\"}");
  answer(flow, AS "/register", 201, "{\"client_id\":\"new\"}");
  expect_form(flow, "client_id=new");
  answer(flow, AS "/device", 400, "{\"error\":\"unauthorized_client\"}");
  expect_failed(flow, "unauthorized_client");
}

static void why_a_client_is_not_registered_is_said(void **state) {
  static const struct {
    int status;
    const char *body, *why;
  } rows[] = {{400, "{\"error\":\"invalid_redirect_uri\"}", "(400, invalid_redirect_uri)"},
              {400, "{\"error\":\"two words\"}", "(400, two words)"},
              {400, "{\"error\":\"two\\nlines\"}", "(400)"},
              {403, "<html>", "(403)"},
              {201, "<html>", "(201)"},
              {201, "{\"client_id\":7}", "without an id"},
              {0, "", "does not answer"}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    idem__auth_opts opts = options(IDEM__AUTH_CODE);
    idem__auth_flow *flow = start(&opts);
    refuse_with(flow, 401, "Bearer", true);
    find_servers(flow);
    answer(flow, AS "/register", rows[i].status, rows[i].body);
    expect_failed(flow, rows[i].why);
  }
}

/* -------------------------------------------------------------------- places */

static void a_page_in_a_well_known_place_is_no_metadata(void **state) {
  static const char *const pages[] = {"<!doctype html><title>Welcome</title>", "", "[]", "OK"};
  idem__auth_opts opts = options(IDEM__AUTH_CODE);
  (void)state;
  for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
    idem__auth_flow *flow = start(&opts);
    refuse_with(flow, 401, "Bearer", true);
    answer(flow, "https://mcp.example/.well-known/oauth-protected-resource/mcp", 200, pages[i]);
    answer(flow, "https://mcp.example/.well-known/oauth-protected-resource", 200,
           resource_document);
    answer(flow, AS "/.well-known/oauth-authorization-server", 200, pages[i]);
    answer(flow, AS "/.well-known/openid-configuration", 200, server_document);
    answer(flow, AS "/register", 201, "{\"client_id\":\"c\"}");
    assert_int_equal(idem__auth_step_of(flow)->want, IDEM__AUTH_BROWSE);
    idem__auth_flow_free(flow);
    flow = start(&opts);
    refuse_with(flow, 401, "Bearer resource_metadata=\"https://mcp.example/meta\"", true);
    answer(flow, "https://mcp.example/meta", 200, pages[i]);
    expect_failed(flow, "no resource metadata where the server says");
  }
}

/* -------------------------------------------------------------------- scopes */

/* All that the resource knows is asked for, once; then there is nothing to ask for. */
static void more_of_nobody_knows_what_is_not_asked_for(void **state) {
  static const char more[] = "Bearer error=\"insufficient_scope\"";
  (void)state;
  idem__auth_flow *flow = to_browser("Bearer scope=\"r\"");
  come_back(flow, "&code=C" ISS);
  take_token(flow);
  refuse_with(flow, 403, more, true);
  find_servers(flow);
  assert_non_null(strstr(idem__auth_step_of(flow)->url, "scope=r%20offline_access%20w"));
  come_back(flow, "&code=C" ISS);
  take_token(flow);
  refuse_with(flow, 403, more, false);
  find_servers(flow);
  expect_failed(flow, "does not say which");
}

/* ------------------------------------------------------------------- devices */

static idem__auth_flow *to_device(const char *more) {
  char said[256];
  idem__auth_opts opts = options(IDEM__AUTH_DEVICE);
  opts.client_id = "tv";
  idem__auth_flow *flow = start(&opts);
  refuse_with(flow, 401, "Bearer", true);
  find_servers(flow);
  snprintf(said, sizeof said,
           "{\"device_code\":\"D\",\"user_code\":\"ABCD\",\"verification_uri\":\"" AS "/go\",%s}",
           more);
  answer(flow, AS "/device", 200, said);
  assert_int_equal(idem__auth_step_of(flow)->want, IDEM__AUTH_WAIT);
  return flow;
}

/* RFC 8628, 3.5: a connection that fails is no answer. */
static void a_server_that_is_away_for_a_moment_ends_no_login(void **state) {
  static const int away[] = {0, 503, 429, 500};
  (void)state;
  idem__auth_flow *flow = to_device("\"interval\":2,\"expires_in\":100");
  for (uint64_t i = 0, wait_ms = 4000; i < 4; i++, wait_ms *= 2) {
    idem__auth_waited(flow);
    answer(flow, AS "/token", away[i], "");
    assert_int_equal(idem__auth_step_of(flow)->want, IDEM__AUTH_WAIT);
    assert_int_equal(idem__auth_step_of(flow)->wait_ms, wait_ms);
  }
  idem__auth_waited(flow);
  take_token(flow);
  idem__auth_flow_free(flow);
  flow = to_device("\"interval\":2,\"expires_in\":100");
  now += 100;
  idem__auth_waited(flow);
  answer(flow, AS "/token", 0, "");
  expect_failed(flow, "in time");
}

static void nobody_is_waited_for_longer_than_a_code_is_good(void **state) {
  (void)state;
  idem__auth_flow *flow = to_device("\"interval\":999999999,\"expires_in\":100");
  assert_int_equal(idem__auth_step_of(flow)->wait_ms, 100000);
  now += 100;
  idem__auth_waited(flow);
  answer(flow, AS "/token", 400, "{\"error\":\"authorization_pending\"}");
  expect_failed(flow, "in time");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_client_without_a_secret_needs_no_word_of_the_server),
      cmocka_unit_test(a_client_shows_its_secret_or_key_where_nothing_is_said),
      cmocka_unit_test(a_client_with_a_key_does_not_go_without),
      cmocka_unit_test(a_client_that_its_server_has_forgotten_is_forgotten),
      cmocka_unit_test(a_forgotten_device_registers_again_once),
      cmocka_unit_test(why_a_client_is_not_registered_is_said),
      cmocka_unit_test(a_page_in_a_well_known_place_is_no_metadata),
      cmocka_unit_test(more_of_nobody_knows_what_is_not_asked_for),
      cmocka_unit_test(a_server_that_is_away_for_a_moment_ends_no_login),
      cmocka_unit_test(nobody_is_waited_for_longer_than_a_code_is_good),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
