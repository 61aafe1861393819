/* test_flow_find.c - a client that looks for who gives tokens: one place that is broken hides no other, nor does one
 * authorization server of several. */
#include "flow_play.h"

#define RESOURCE_PLACE "https://mcp.example/.well-known/oauth-protected-resource"
#define SERVER_PLACE AS "/.well-known/oauth-authorization-server"
#define OPENID_PLACE AS "/.well-known/openid-configuration"
#define TWO "https://two.example"

static idem__auth_flow *refused(void) {
  idem__auth_opts opts = options(IDEM__AUTH_CODE);
  opts.client_id = "known";
  idem__auth_flow *flow = start(&opts);
  refuse_with(flow, 401, "Bearer", true);
  return flow;
}

static void expect_browser(idem__auth_flow *flow, const char *url) {
  const idem__auth_step *step = idem__auth_step_of(flow);
  assert_int_equal(step->want, IDEM__AUTH_BROWSE);
  assert_int_equal(strncmp(step->url, url, strlen(url)), 0);
  idem__auth_flow_free(flow);
}

static const struct {
  int status;
  const char *body;
} broken[] = {{503, ""}, {500, "{}"}, {200, "<html>"}, {200, "[]"}, {200, "{\"a\":1}"}};
#define BROKEN (sizeof broken / sizeof *broken)

static void a_broken_place_of_the_resource_hides_no_other(void **state) {
  (void)state;
  for (size_t i = 0; i < BROKEN; i++) {
    idem__auth_flow *flow = refused();
    answer(flow, RESOURCE_PLACE "/mcp", broken[i].status, broken[i].body);
    answer(flow, RESOURCE_PLACE, 200, resource_document);
    answer(flow, SERVER_PLACE, 200, server_document);
    expect_browser(flow, AS "/authorize?");
  }
}

static void a_broken_place_of_the_server_hides_no_other(void **state) {
  (void)state;
  for (size_t i = 0; i < BROKEN; i++) {
    idem__auth_flow *flow = refused();
    answer(flow, RESOURCE_PLACE "/mcp", 200, resource_document);
    answer(flow, SERVER_PLACE, broken[i].status, broken[i].body);
    answer(flow, OPENID_PLACE, 200, server_document);
    expect_browser(flow, AS "/authorize?");
  }
}

/* What was broken is the reason, and not that the last place is empty; nobody else is believed then. */
static void the_first_trouble_is_the_reason(void **state) {
  (void)state;
  idem__auth_flow *flow = refused();
  answer(flow, RESOURCE_PLACE "/mcp", 200, "{\"a\":1}");
  answer(flow, RESOURCE_PLACE, 404, "");
  expect_failed(flow, "its metadata names no resource");
  flow = refused();
  answer(flow, RESOURCE_PLACE "/mcp", 200, resource_document);
  answer(flow, SERVER_PLACE, 404, "");
  answer(flow, OPENID_PLACE, 200, "{\"a\":1}");
  expect_failed(flow, "its metadata lacks the issuer");
  flow = refused();
  answer(flow, RESOURCE_PLACE "/mcp", 200, resource_document);
  answer(flow, SERVER_PLACE, 503, "");
  answer(flow, OPENID_PLACE, 404, "");
  expect_failed(flow, "could not be had");
}

static void a_place_that_the_challenge_names_is_the_only_one(void **state) {
  (void)state;
  idem__auth_opts opts = options(IDEM__AUTH_CODE);
  idem__auth_flow *flow = start(&opts);
  refuse_with(flow, 401, "Bearer resource_metadata=\"https://mcp.example/m\"", true);
  answer(flow, "https://mcp.example/m", 503, "");
  expect_failed(flow, "could not be had");
}

/* ------------------------------------------------------------- several servers */

#define NAMES(servers) "{\"resource\":\"" URL "\",\"authorization_servers\":[" servers "]}"
static const char names_two[] = NAMES("\"" TWO "\",\"" AS "\"");

static void a_server_that_cannot_be_used_hides_no_other(void **state) {
  static const char other[] = "{\"issuer\":\"https://x\",\"token_endpoint\":\"https://x/t\"}";
  static const char old[] = "{\"issuer\":\"" TWO "\",\"token_endpoint\":\"" TWO "/t\"}";
  static const struct {
    int first, second;
    const char *body;
  } cases[] = {{0, -1, ""}, {404, 404, ""}, {503, 404, ""}, {200, -1, other}, {200, -1, old}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    idem__auth_flow *flow = refused();
    answer(flow, RESOURCE_PLACE "/mcp", 200, names_two);
    answer(flow, TWO "/.well-known/oauth-authorization-server", cases[i].first, cases[i].body);
    if (cases[i].second >= 0)
      answer(flow, TWO "/.well-known/openid-configuration", cases[i].second, "");
    answer(flow, SERVER_PLACE, 200, server_document);
    expect_browser(flow, AS "/authorize?");
  }
}

static void what_may_not_be_asked_is_passed_over(void **state) {
  (void)state;
  idem__auth_flow *flow = refused();
  answer(flow, RESOURCE_PLACE "/mcp", 200, NAMES("\"http://two.example\",7,\"" AS "\""));
  answer(flow, SERVER_PLACE, 200, server_document);
  expect_browser(flow, AS "/authorize?");
}

static void four_servers_are_asked_and_the_first_is_the_reason(void **state) {
  (void)state;
  idem__auth_flow *flow = refused();
  answer(flow, RESOURCE_PLACE "/mcp", 200,
         NAMES("\"https://s1\",\"https://s2\",\"https://s3\",\"https://s4\",\"https://s5\""));
  answer(flow, "https://s1/.well-known/oauth-authorization-server", 200,
         "{\"issuer\":\"https://x\",\"token_endpoint\":\"https://x/t\"}");
  answer(flow, "https://s2/.well-known/oauth-authorization-server", 0, "");
  answer(flow, "https://s3/.well-known/oauth-authorization-server", 0, "");
  answer(flow, "https://s4/.well-known/oauth-authorization-server", 0, "");
  expect_failed(flow, "are of another (https://x, not https://s1)");
}

/* Who has logged in there is not led elsewhere when it is away for a moment. */
static void who_is_known_at_one_stays_with_it(void **state) {
  (void)state;
  idem__auth_opts opts = options(IDEM__AUTH_CODE);
  idem__auth_flow *flow = start(&opts);
  refuse_with(flow, 401, "Bearer", true);
  answer(flow, RESOURCE_PLACE "/mcp", 200, NAMES("\"" AS "\",\"" TWO "\""));
  answer(flow, SERVER_PLACE, 200, server_document);
  answer(flow, AS "/register", 201, "{\"client_id\":\"c 1\"}");
  come_back(flow, "&code=C" ISS);
  answer(flow, AS "/token", 200, "{\"access_token\":\"T1\",\"token_type\":\"bearer\"}");
  refuse_with(flow, 401, "Bearer", true);
  answer(flow, RESOURCE_PLACE "/mcp", 200, NAMES("\"" AS "\",\"" TWO "\""));
  answer(flow, SERVER_PLACE, 0, "");
  expect_failed(flow, "could not be had");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_broken_place_of_the_resource_hides_no_other),
      cmocka_unit_test(a_broken_place_of_the_server_hides_no_other),
      cmocka_unit_test(the_first_trouble_is_the_reason),
      cmocka_unit_test(a_place_that_the_challenge_names_is_the_only_one),
      cmocka_unit_test(a_server_that_cannot_be_used_hides_no_other),
      cmocka_unit_test(what_may_not_be_asked_is_passed_over),
      cmocka_unit_test(four_servers_are_asked_and_the_first_is_the_reason),
      cmocka_unit_test(who_is_known_at_one_stays_with_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
