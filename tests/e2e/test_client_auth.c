/* test_client_auth.c - an MCP client that is refused, and comes to a token. */
#include "auth_world.h"

#include "support/fault_alloc.h"

#include <stdio.h>
#include <string.h>

/* -------------------------------------------------------------------------- promises */

static void a_refused_request_is_sent_again_with_a_token(void **state) {
  (void)state;
  world in;
  world_begin(&in);
  assert_null(idem_auth_line(in.auth));
  world_call(&in, 1);
  assert_int_equal(in.fine, 1);
  assert_string_equal(idem_auth_line(in.auth), "Authorization: Bearer token-1");
  assert_string_equal(idem_auth_why(in.auth), "");
  assert_non_null(strstr(in.page, "code_challenge_method=S256"));
  assert_non_null(strstr(in.page, "scope=read"));
  assert_non_null(strstr(in.token_form, "code=sesame"));
  assert_non_null(strstr(in.token_form, "code_verifier="));
  assert_non_null(strstr(in.token_form, "resource=http%3A%2F%2F"));
  int posts = in.posts;
  world_call(&in, 1); /* and the next one has it from the start */
  assert_int_equal(in.posts, posts + 1);
  assert_int_equal(in.registered, 1);
  world_tear_down(&in);
}

static void requests_refused_together_wait_for_one_token(void **state) {
  (void)state;
  world in;
  world_begin(&in);
  world_call(&in, 1); /* which lists the tools first */
  in.good = 7;        /* no token is good any more, nor can one be refreshed */
  in.no_refresh = true;
  world_call(&in, 8);
  assert_int_equal(in.fine, 9);
  assert_int_equal(in.visits, 2);
  assert_int_equal(in.refreshed, 1);
  assert_int_equal(in.tokens, 3);
  world_tear_down(&in);
}

static void a_token_that_is_over_is_refreshed_without_a_person(void **state) {
  (void)state;
  world in;
  world_begin(&in);
  world_call(&in, 1);
  in.good = 7; /* and token-1 is not */
  world_call(&in, 4);
  assert_int_equal(in.fine, 5);
  assert_int_equal(in.refreshed, 1);
  assert_int_equal(in.visits, 1);
  assert_non_null(strstr(in.token_form, "refresh_token=again-1"));
  world_tear_down(&in);
}

static void a_refresh_token_that_is_over_is_forgotten(void **state) {
  (void)state;
  world in;
  world_begin(&in);
  world_call(&in, 1);
  in.good = 7;
  in.no_refresh = true;
  world_call(&in, 1);
  assert_int_equal(in.fine, 2);
  assert_int_equal(in.visits, 2);
  assert_null(strstr(in.kept, "again-1"));
  world_tear_down(&in);
}

static void more_scopes_are_asked_for_beside_the_old_ones(void **state) {
  (void)state;
  world in;
  world_begin(&in);
  in.scope = "write";
  world_call(&in, 1);
  assert_int_equal(in.fine, 1);
  assert_int_equal(in.visits, 2);
  assert_non_null(strstr(in.page, "scope=read%20write"));
  world_tear_down(&in);
}

static void what_was_kept_is_good_in_another_process(void **state) {
  (void)state;
  world in;
  world_begin(&in);
  world_call(&in, 1);
  assert_int_equal(in.saves, 1);
  idem_auth_free(in.auth);
  world_make_auth(&in, (idem_auth_opts){.kept = in.kept}); /* and nobody to ask */
  assert_string_equal(idem_auth_line(in.auth), "Authorization: Bearer token-1");
  in.good = 4;
  world_call(&in, 1);
  assert_int_equal(in.fine, 2);
  assert_int_equal(in.refreshed, 1);
  world_tear_down(&in);
}

static void load(idem_auth *auth, void *user) {
  const world *in = user;
  char kept[256];
  int len = snprintf(kept, sizeof kept, "{\"url\":\"%s\",\"access_token\":\"token-5\"}", in->mcp);
  assert_int_equal(idem_auth_take(auth, kept, (size_t)len), IDEM_OK);
}

static void what_another_process_has_got_is_used_first(void **state) {
  (void)state;
  world in;
  world_set_up(&in);
  world_make_auth(&in, (idem_auth_opts){.load = load});
  world_connect(&in, NULL);
  in.good = 5;
  world_call(&in, 1);
  assert_int_equal(in.fine, 1);
  assert_int_equal(in.tokens + in.found, 0);
  world_tear_down(&in);
}

/* Whoever waits for a lock says later that it has it. */
static void load_later(idem_auth *auth, void *user) {
  world *in = user;
  in->held++;
  idem_auth_hold(auth);
}

static void what_is_kept_may_come_later(void **state) {
  (void)state;
  world in;
  world_set_up(&in);
  world_make_auth(&in, (idem_auth_opts){.load = load_later, .on_page = world_on_page});
  world_connect(&in, NULL);
  in.good = 5;
  assert_int_equal(
      idem_mcp_call_tool_json(in.client, "tool", "{}", 2, NULL, world_on_result, &in, NULL),
      IDEM_OK);
  while (!in.held) uv_run(&in.loop, UV_RUN_ONCE);
  assert_int_equal(in.found + in.visits, 0);
  load(in.auth, &in);
  idem_auth_loaded(in.auth, NULL);
  idem_auth_loaded(in.auth, NULL); /* once is enough */
  while (!in.ended) uv_run(&in.loop, UV_RUN_ONCE);
  assert_int_equal(in.fine, 1);
  assert_int_equal(in.tokens + in.found, 0);
  in.good = 6;
  in.held = 0;
  assert_int_equal(idem_mcp_read(in.client, "a:b", NULL, world_on_result, &in, NULL), IDEM_OK);
  while (!in.held) uv_run(&in.loop, UV_RUN_ONCE);
  idem_auth_loaded(in.auth, "nobody gives the lock back");
  while (in.ended < 2) uv_run(&in.loop, UV_RUN_ONCE);
  assert_int_equal(in.fine, 1);
  assert_string_equal(idem_auth_why(in.auth), "nobody gives the lock back");
  in.held = 0; /* and one that goes while it is waited for */
  assert_int_equal(idem_mcp_read(in.client, "a:b", NULL, world_on_result, &in, NULL), IDEM_OK);
  while (!in.held) uv_run(&in.loop, UV_RUN_ONCE);
  idem_auth_free(in.auth);
  in.auth = NULL;
  while (in.ended < 3) uv_run(&in.loop, UV_RUN_ONCE);
  world_tear_down(&in);
}

static void on_left(idem_auth *auth, bool revoked, void *user) {
  world *in = user;
  assert_null(idem_auth_line(auth));
  in->left = revoked ? 2 : 1;
}

static void who_logs_out_is_a_stranger_again(void **state) {
  (void)state;
  world in;
  world_begin(&in);
  world_call(&in, 1);
  assert_int_equal(idem_auth_log_out(in.auth, on_left), IDEM_OK);
  assert_int_equal(idem_auth_log_out(in.auth, on_left), IDEM_E_STATE);
  while (!in.left) uv_run(&in.loop, UV_RUN_ONCE);
  assert_int_equal(in.left, 2);
  assert_int_equal(in.revoked, 1);
  in.browser = REFUSES;
  in.good = 7;
  world_call(&in, 1);
  assert_int_equal(in.fine, 1);
  assert_int_equal(in.refreshed, 0);
  world_tear_down(&in);
}

static void nobody_to_ask_and_nobody_back_are_said(void **state) {
  (void)state;
  world in;
  world_set_up(&in);
  world_make_auth(&in, (idem_auth_opts){.url = NULL});
  world_connect(&in, NULL);
  world_call_in_vain(&in, "nobody can be asked");
  idem_auth_free(in.auth);
  world_make_auth(&in, (idem_auth_opts){.on_page = world_on_page, .page_ms = 1});
  in.browser = LEAVES;
  world_call_in_vain(&in, "nobody came back");
  in.browser = HONEST; /* a further request begins anew */
  world_call(&in, 1);
  assert_int_equal(in.visits, 2);
  world_tear_down(&in);
}

static void a_person_may_take_longer_than_a_server(void **state) {
  (void)state;
  world in;
  world_begin(&in);
  in.browser = LEAVES;
  const idem_mcp_call_opts opts = {.idle_ms = 1500};
  assert_int_equal(idem_mcp_read(in.client, "a:b", &opts, world_on_result, &in, NULL), IDEM_OK);
  while (!in.visits) uv_run(&in.loop, UV_RUN_ONCE);
  uint64_t until = uv_now(&in.loop) + 2000;
  while (uv_now(&in.loop) < until) uv_run(&in.loop, UV_RUN_ONCE);
  assert_int_equal(in.ended, 0);
  world_come_back(&in);
  while (!in.ended) uv_run(&in.loop, UV_RUN_ONCE);
  assert_int_equal(in.fine, 1);
  world_tear_down(&in);
}

static void an_auth_that_goes_leaves_no_request_waiting(void **state) {
  (void)state;
  world in;
  world_begin(&in);
  in.browser = FREES;
  world_call(&in, 3);
  assert_int_equal(in.fine, 0);
  assert_int_equal(in.http_status, 401);
  world_tear_down(&in);
}

static void a_client_that_goes_while_its_request_waits_is_no_matter(void **state) {
  (void)state;
  world in;
  world_begin(&in);
  in.browser = LEAVES;
  assert_int_equal(
      idem_mcp_call_tool_json(in.client, "tool", "{}", 2, NULL, world_on_result, &in, NULL),
      IDEM_OK);
  while (!in.visits) uv_run(&in.loop, UV_RUN_ONCE);
  world_tear_down(&in); /* the client first */
  assert_int_equal(in.ended, 1);
}

static void options_that_cannot_be_are_refused(void **state) {
  (void)state;
  uv_loop_t loop;
  idem_auth *auth;
  assert_int_equal(uv_loop_init(&loop), 0);
  const idem_auth_opts wrong[] = {{.url = NULL},
                                  {.url = "ftp://a/", .redirect_uri = "http://127.0.0.1/"},
                                  {.url = "https://a/"},
                                  {.url = "https://a/", .grant = IDEM_AUTH_JWT_BEARER},
                                  {.url = "https://a/", .grant = (idem_auth_grant)9},
                                  {.url = "https://a/", .grant = IDEM_AUTH_DEVICE, .kept = "[]"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_int_equal(idem_auth_new(&loop, &wrong[i], &auth), IDEM_E_INVAL);
  uv_run(&loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&loop), 0);
}

/* It may have ended by the time it has come back. */
static void on_page_without_memory(idem_auth *auth, const char *page, const char *user_code,
                                   void *user) {
  world *in = user;
  (void)auth, (void)user_code;
  snprintf(in->page, sizeof in->page, "%s", page);
  world_come_back(in);
}

/* The client has memory, the way to a token has not. */
static void log_in(fault_alloc *fault, void *user) {
  world in;
  (void)user;
  world_set_up(&in);
  world_connect(&in, NULL);
  idem_auth_opts opts = {.url = in.mcp,
                         .redirect_uri = "http://127.0.0.1:9/back",
                         .on_page = on_page_without_memory,
                         .save = world_save,
                         .user = &in,
                         .alloc = &fault->alloc};
  idem_status status = idem_auth_new(&in.loop, &opts, &in.auth);
  assert_true(status == IDEM_OK || (status == IDEM_E_NOMEM && !in.auth));
  world_call(&in, 1);
  in.good = 7; /* and once more, with what it has by then */
  world_call(&in, 1);
  if (fault->failures == 0) assert_int_equal(in.fine, 2);
  world_tear_down(&in);
}

static void a_login_without_memory_ends(void **state) {
  (void)state;
  size_t once = fault_alloc_sweep(log_in, NULL, 1000);
  print_message("  %zu failures survived\n", once);
  assert_true(once > 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_refused_request_is_sent_again_with_a_token),
      cmocka_unit_test(requests_refused_together_wait_for_one_token),
      cmocka_unit_test(a_token_that_is_over_is_refreshed_without_a_person),
      cmocka_unit_test(a_refresh_token_that_is_over_is_forgotten),
      cmocka_unit_test(more_scopes_are_asked_for_beside_the_old_ones),
      cmocka_unit_test(what_was_kept_is_good_in_another_process),
      cmocka_unit_test(what_another_process_has_got_is_used_first),
      cmocka_unit_test(what_is_kept_may_come_later),
      cmocka_unit_test(who_logs_out_is_a_stranger_again),
      cmocka_unit_test(nobody_to_ask_and_nobody_back_are_said),
      cmocka_unit_test(a_person_may_take_longer_than_a_server),
      cmocka_unit_test(an_auth_that_goes_leaves_no_request_waiting),
      cmocka_unit_test(a_client_that_goes_while_its_request_waits_is_no_matter),
      cmocka_unit_test(options_that_cannot_be_are_refused),
      cmocka_unit_test(a_login_without_memory_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
