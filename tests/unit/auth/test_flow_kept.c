/* test_flow_kept.c - what a client keeps of its way to a token, for the next process and the next refusal: what is used again, what is
 * not shown to another server, and what is forgotten. */
#include "flow_play.h"

static void what_is_kept_goes_on_in_another_process(void **state) {
  idem__auth_opts opts = options(IDEM__AUTH_CODE);
  char text[1024];
  idem_buf kept;
  (void)state;
  idem__auth_flow *flow = logged_in("Bearer");
  idem_buf_fixed(&kept, text, sizeof text);
  assert_int_equal(idem__auth_flow_save(flow, &kept), IDEM_OK);
  idem__auth_flow_free(flow);
  flow = start(&opts);
  assert_int_equal(idem__auth_flow_take(flow, kept.data, kept.len), IDEM_OK);
  assert_string_equal(idem__auth_authorization(flow), "Bearer T1");
  refuse_with(flow, 401, "Bearer", true);
  expect_form(flow, "refresh_token=R1");
  expect_form(flow, "client_id=c%201");
  take_token(flow);
  /* Nothing of another server's, of what was changed, or of nobody's; and then nothing has changed. */
  static const char *const wrong[] = {"{}", "[]",
                                      "{\"url\":\"" URL "\",\"token_endpoint\":\"http://evil/\"}",
                                      "{\"url\":\"" URL "\",\"access_token\":\"two\\nlines\"}"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_int_equal(idem__auth_flow_take(flow, wrong[i], strlen(wrong[i])), IDEM_E_INVAL);
  assert_string_equal(idem__auth_authorization(flow), "Bearer T1");
  opts.url = "https://h/elsewhere";
  idem__auth_flow *other = start(&opts);
  assert_int_equal(idem__auth_flow_take(other, kept.data, kept.len), IDEM_E_INVAL);
  assert_null(idem__auth_authorization(other));
  idem__auth_flow_free(other);
  idem__auth_flow_free(flow);
}

static void a_flow_without_anything_can_be_kept(void **state) {
  idem__auth_opts opts = options(IDEM__AUTH_CODE);
  char text[1024];
  idem_buf kept;
  (void)state;
  idem__auth_flow *flow = start(&opts);
  idem_buf_fixed(&kept, text, sizeof text);
  assert_int_equal(idem__auth_flow_save(flow, &kept), IDEM_OK);
  assert_int_equal(idem__auth_flow_take(flow, kept.data, kept.len), IDEM_OK);
  assert_null(idem__auth_authorization(flow));
  idem__auth_flow_free(flow);
}

/* -------------------------------------------------------------- what is kept */

static idem__auth_flow *take_kept(const idem__auth_opts *opts, const char *rest) {
  char kept[512];
  idem__auth_flow *flow = start(opts);
  int len = snprintf(kept, sizeof kept,
                     "{\"url\":\"" URL "\",\"client_issuer\":\"" AS "\",\"token_endpoint\":\"" AS
                     "/token\",\"client_id\":\"c\"%s}",
                     rest);
  assert_int_equal(idem__auth_flow_take(flow, kept, (size_t)len), IDEM_OK);
  return flow;
}

static void a_refresh_token_survives_a_server_that_is_down(void **state) {
  static const struct {
    int status;
    const char *body, *why;
  } rows[] = {{503, "", "(503)"},
              {0, "", "does not answer"},
              {429, "{\"error\":\"slow_down\"}", "(429, slow_down)"},
              {401, "{\"error\":\"invalid_client\"}", "(401, invalid_client)"}};
  idem__auth_opts opts = options(IDEM__AUTH_CODE);
  (void)state;
  idem__auth_flow *flow = take_kept(&opts, ",\"access_token\":\"A\",\"refresh_token\":\"R0\"");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    refuse_with(flow, 401, "Bearer", true);
    expect_form(flow, "refresh_token=R0"); /* also without a token that could be over */
    answer(flow, AS "/token", rows[i].status, rows[i].body);
    const idem__auth_step *step = idem__auth_step_of(flow);
    assert_int_equal(step->want, IDEM__AUTH_FAILED);
    if (!strstr(step->why, rows[i].why)) fail_msg("%s", step->why);
  }
  refuse_with(flow, 401, "Bearer", true);
  take_token(flow);
  idem__auth_flow_free(flow);
}

static void a_registered_client_that_is_forgotten_registers_again(void **state) {
  idem__auth_opts opts = options(IDEM__AUTH_CODE);
  (void)state;
  idem__auth_flow *flow = take_kept(
      &opts, ",\"refresh_token\":\"R0\",\"registered_for\":\"http://127.0.0.1:7/callback\"");
  refuse_with(flow, 401, "Bearer", true);
  answer(flow, AS "/token", 401, "{\"error\":\"invalid_client\"}");
  find_servers(flow);
  answer(flow, AS "/register", 201, "{\"client_id\":\"new\"}");
  assert_non_null(strstr(idem__auth_step_of(flow)->url, "client_id=new"));
  idem__auth_flow_free(flow);
}

static void a_client_is_used_for_the_way_back_it_was_registered_with(void **state) {
  static const struct {
    const char *way;
    bool again;
  } rows[] = {{"http://127.0.0.1:7/callback", false},
              {"http://127.0.0.1:8/callback", true},
              {"device", true}};
  idem__auth_opts opts = options(IDEM__AUTH_CODE);
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char rest[128];
    snprintf(rest, sizeof rest, ",\"registered_for\":\"%s\"", rows[i].way);
    idem__auth_flow *flow = take_kept(&opts, rest);
    refuse_with(flow, 401, "Bearer", true);
    find_servers(flow);
    assert_int_equal(idem__auth_step_of(flow)->want == IDEM__AUTH_FETCH, rows[i].again);
    idem__auth_flow_free(flow);
  }
}

static void what_is_kept_alone_asks_nobody(void **state) {
  idem__auth_opts opts = options(IDEM__AUTH_DEVICE);
  (void)state;
  opts.kept_only = true;
  idem__auth_flow *flow = start_refused(&opts);
  expect_failed(flow, "no token that is kept");
  flow = take_kept(&opts, ",\"access_token\":\"A\",\"refresh_token\":\"R0\"");
  refuse_with(flow, 403, "Bearer error=\"insufficient_scope\", scope=\"w\"", true);
  assert_int_equal(idem__auth_step_of(flow)->want, IDEM__AUTH_FAILED);
  assert_non_null(strstr(idem__auth_step_of(flow)->why, "the scope \"w\""));
  assert_string_equal(idem__auth_authorization(flow), "Bearer A"); /* good for all else */
  refuse_with(flow, 401, "Bearer", true);
  answer(flow, AS "/token", 400, "{\"error\":\"invalid_grant\"}");
  expect_failed(flow, "no token that is kept");
}

/* Else the next refusal would show it to a server that never gave it. */
static void no_refresh_token_of_before_stays_beside_a_new_login(void **state) {
  (void)state;
  idem__auth_flow *flow = logged_in("Bearer");
  refuse_with(flow, 403, "Bearer error=\"insufficient_scope\", scope=\"more\"", true);
  find_new_server(flow, ",\"registration_endpoint\":\"" NEW "/r\"");
  answer(flow, NEW "/r", 201, "{\"client_id\":\"c2\"}");
  come_back(flow, "&code=C");
  answer(flow, NEW "/t", 200, "{\"access_token\":\"T2\",\"token_type\":\"Bearer\"}");
  refuse_with(flow, 401, "Bearer", true);
  assert_null(idem__auth_step_of(flow)->form); /* a GET: all begins anew */
  idem__auth_flow_free(flow);
}

static void a_secret_of_the_programs_own_is_not_kept(void **state) {
  idem__auth_opts opts = options(IDEM__AUTH_CLIENT_CREDENTIALS);
  char text[1024];
  idem_buf kept;
  (void)state;
  opts.client_id = "c";
  opts.client_secret = "hush";
  idem__auth_flow *flow = start_found(&opts);
  take_token(flow);
  idem_buf_fixed(&kept, text, sizeof text);
  assert_int_equal(idem__auth_flow_save(flow, &kept), IDEM_OK);
  assert_null(memmem(kept.data, kept.len, "hush", 4));
  idem__auth_flow_free(flow);
  flow = start(&opts); /* and is there again in the next process */
  assert_int_equal(idem__auth_flow_take(flow, kept.data, kept.len), IDEM_OK);
  refuse_with(flow, 401, "Bearer", true);
  expect_form(flow, "refresh_token=R1");
  assert_string_equal(idem__auth_step_of(flow)->authorization, "Basic YzpodXNo");
  idem__auth_flow_free(flow);
  opts.client_id = "another";
  flow = start(&opts);
  assert_int_equal(idem__auth_flow_take(flow, kept.data, kept.len), IDEM_E_INVAL);
  idem__auth_flow_free(flow);
}

static void a_kept_client_without_its_secret_or_key_is_said(void **state) {
  idem__auth_opts opts = options(IDEM__AUTH_CODE);
  (void)state;
  for (int method = IDEM__AUTH_BASIC; method <= IDEM__AUTH_PRIVATE_KEY_JWT; method++) {
    char rest[64];
    snprintf(rest, sizeof rest, ",\"method\":%d,\"refresh_token\":\"R0\"", method);
    idem__auth_flow *flow = take_kept(&opts, rest);
    refuse_with(flow, 401, "Bearer", true);
    expect_failed(flow, "secret or key is needed");
  }
}

static void who_logs_out_has_the_server_forget_it_too(void **state) {
  static const int statuses[] = {200, 503, 0};
  idem__auth_opts opts = options(IDEM__AUTH_DEVICE);
  (void)state;
  for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
    idem__auth_flow *flow = take_kept(
        &opts, ",\"access_token\":\"A\",\"refresh_token\":\"R0\",\"revocation_endpoint\":\"" AS
               "/revoke\"");
    idem__auth_revoke(flow);
    expect_form(flow, "token=R0&token_type_hint=refresh_token&client_id=c");
    answer(flow, AS "/revoke", statuses[i], "");
    assert_int_equal(idem__auth_revoked(flow), statuses[i] == 200);
    assert_int_equal(idem__auth_step_of(flow)->want, IDEM__AUTH_IDLE);
    assert_null(idem__auth_authorization(flow));
    idem__auth_flow_free(flow);
  }
  idem__auth_flow *flow = take_kept(&opts, ",\"access_token\":\"A\"");
  idem__auth_revoke(flow); /* nobody to ask */
  assert_int_equal(idem__auth_step_of(flow)->want, IDEM__AUTH_IDLE);
  assert_false(idem__auth_revoked(flow));
  idem__auth_flow_free(flow);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_kept_goes_on_in_another_process),
      cmocka_unit_test(a_flow_without_anything_can_be_kept),
      cmocka_unit_test(a_refresh_token_survives_a_server_that_is_down),
      cmocka_unit_test(a_registered_client_that_is_forgotten_registers_again),
      cmocka_unit_test(a_client_is_used_for_the_way_back_it_was_registered_with),
      cmocka_unit_test(what_is_kept_alone_asks_nobody),
      cmocka_unit_test(no_refresh_token_of_before_stays_beside_a_new_login),
      cmocka_unit_test(a_secret_of_the_programs_own_is_not_kept),
      cmocka_unit_test(a_kept_client_without_its_secret_or_key_is_said),
      cmocka_unit_test(who_logs_out_has_the_server_forget_it_too),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
