/* test_client_attacks.c - servers, browsers and neighbours that want a client's code or tokens, or what is in its network: a table, and
 * what only a story tells. Whatever they do, nothing goes to a stranger, and the request is given up with a sentence. */
#include "auth_world.h"

#include <stdio.h>
#include <string.h>

/* ----------------------------------------------------------------------- the browser */

static void play_browser(browser how, const char *words) {
  world in;
  world_begin(&in);
  in.browser = how;
  world_call_in_vain(&in, words);
  assert_int_equal(in.tokens, 0); /* the code went nowhere */
  assert_int_equal(in.strangers, 0);
  world_tear_down(&in);
}

static void a_browser_with_another_state_issuer_or_no_is_not_believed(void **state) {
  (void)state;
  play_browser(OTHER_STATE, "another state");
  play_browser(OTHER_ISSUER, "another authorization server");
  play_browser(REFUSES, "access_denied");
}

static void play_metadata(const char *how, const char *words) {
  world in;
  world_begin(&in);
  in.metadata = how;
  world_call_in_vain(&in, words);
  assert_int_equal(in.visits + in.tokens + in.strangers, 0);
  world_tear_down(&in);
}

static void metadata_that_lead_elsewhere_end_it(void **state) {
  (void)state;
  play_metadata("redirect", "resource metadata could not be had");
  play_metadata("endless", "resource metadata could not be had");
  play_metadata("foreign", "of another resource");
  play_metadata("missing", "no resource metadata");
}

static void a_server_of_the_world_cannot_point_at_this_machine(void **state) {
  (void)state;
  world in;
  world_set_up(&in);
  world_make_auth(&in,
                  (idem_auth_opts){.url = "https://mcp.example/mcp", .on_page = world_on_page});
  world_connect(&in, NULL);
  world_call_in_vain(&in, "a private one");
  assert_int_equal(in.found, 0);
  world_tear_down(&in);
}

/* -------------------------------------------------------------------------- the table */

/* Names of this machine and its network, by which a server of the world would have us ask them. */
static void no_name_leads_to_this_machine_or_its_network(void **state) {
  static const char *const hosts[] = {
      "http://127.0.0.1",        "http://localhost",           "http://[::1]",
      "https://127.1",           "https://2130706433",         "https://0x7f000001",
      "https://0.0.0.0",         "https://[::ffff:127.0.0.1]", "https://[::ffff:7f00:1]",
      "https://169.254.169.254", "https://10.0.0.1",           "https://172.31.255.254",
      "https://192.168.1.1",     "https://100.64.0.1",         "https://[fe80::1]",
      "https://[fd00::1]",       "https://[64:ff9b::a00:1]",   "https://224.0.0.1",
  };
  (void)state;
  for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
    world in;
    char place[128];
    world_set_up(&in);
    snprintf(place, sizeof place, "%s:%d/prm", hosts[i], script_port(in.server));
    in.challenged = place;
    world_make_auth(&in,
                    (idem_auth_opts){.url = "https://mcp.example/mcp", .on_page = world_on_page});
    world_connect(&in, NULL);
    world_call_in_vain(&in, "a private one");
    assert_int_equal(in.found + in.strangers, 0);
    world_tear_down(&in);
  }
}

static void what_is_neither_https_nor_loopback_is_not_asked(void **state) {
  static const char *const places[] = {"http://as.example/prm", "ftp://127.0.0.1/prm",
                                       "file:///etc/passwd", "https://user:secret@as.example/prm",
                                       "//127.0.0.1/prm"};
  (void)state;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    world in;
    world_begin(&in);
    in.challenged = places[i];
    world_call_in_vain(&in, "may not be asked");
    assert_int_equal(in.found + in.strangers, 0);
    world_tear_down(&in);
  }
}

/* Secrets are in what is posted: a token endpoint that sends it on, or never ends, gets it once and nobody else does. */
static void a_token_endpoint_cannot_pass_a_code_on(void **state) {
  static const struct {
    const char *how, *words;
  } rows[] = {{"token-redirect", "gave no token (307)"}, {"token-endless", "does not answer"}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    world in;
    world_begin(&in);
    in.metadata = rows[i].how;
    world_call_in_vain(&in, rows[i].words);
    assert_int_equal(in.tokens, in.visits); /* once for each code */
    assert_int_equal(in.strangers, 0);
    world_tear_down(&in);
  }
}

/* -------------------------------------------------------------------------- stories */

/* While a person is in the browser of one server, another challenge names a second issuer: the code goes to the first. */
static void a_second_issuer_does_not_get_the_code_of_the_first(void **state) {
  (void)state;
  world in;
  char place[96];
  world_begin(&in);
  world_call(&in, 1);
  in.good = 7; /* what was got is over, and cannot be refreshed */
  in.no_refresh = true;
  in.browser = LEAVES;
  assert_int_equal(idem_mcp_read(in.client, "a:b", NULL, world_on_result, &in, NULL), IDEM_OK);
  while (in.visits < 2) uv_run(&in.loop, UV_RUN_ONCE);
  snprintf(place, sizeof place, "%s/prm", in.elsewhere);
  in.challenged = place;
  int posts = in.posts;
  assert_int_equal(idem_mcp_read(in.client, "c:d", NULL, world_on_result, &in, NULL), IDEM_OK);
  while (in.posts == posts) uv_run(&in.loop, UV_RUN_ONCE);
  world_come_back(&in);
  while (in.ended < 3) uv_run(&in.loop, UV_RUN_ONCE);
  assert_int_equal(in.fine, 3);
  assert_int_equal(in.strangers, 0);
  assert_int_equal(in.visits, 2);
  assert_non_null(strstr(in.token_form, "code=sesame"));
  world_tear_down(&in);
}

/* All that is said, at every level. */
typedef struct heard {
  char text[1 << 18];
  size_t len;
} heard;

static void hear(void *user, const char *line, size_t len) {
  heard *all = user;
  assert_true(all->len + len < sizeof all->text);
  memcpy(all->text + all->len, line, len);
  all->len += len;
  all->text[all->len] = 0;
}

static void no_secret_is_in_a_log_or_a_sentence(void **state) {
  static const char *const secrets[] = {"token-1", "token-8", "again-1",
                                        "again-8", "sesame",  "code_verifier"};
  static heard all;
  idem_log *log;
  idem_log_opts opts = {.level = IDEM_LOG_DEBUG, .write = hear, .write_ctx = &all};
  (void)state;
  world in;
  assert_int_equal(idem_log_new(&opts, &log), IDEM_OK);
  world_set_up(&in);
  in.log = log;
  world_make_auth(&in, (idem_auth_opts){.on_page = world_on_page, .log = log});
  world_connect(&in, NULL);
  world_call(&in, 1); /* a login */
  in.good = 7;
  world_call(&in, 1); /* a refresh */
  in.good = 9;
  in.no_refresh = true;
  in.browser = REFUSES;
  world_call(&in, 1); /* and its end */
  hear(&all, idem_auth_why(in.auth), strlen(idem_auth_why(in.auth)));
  assert_non_null(strstr(all.text, "access_denied"));
  for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++)
    if (strstr(all.text, secrets[i])) fail_msg("%s is in: %s", secrets[i], all.text);
  world_tear_down(&in);
  idem_log_free(log);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_browser_with_another_state_issuer_or_no_is_not_believed),
      cmocka_unit_test(metadata_that_lead_elsewhere_end_it),
      cmocka_unit_test(a_server_of_the_world_cannot_point_at_this_machine),
      cmocka_unit_test(no_name_leads_to_this_machine_or_its_network),
      cmocka_unit_test(what_is_neither_https_nor_loopback_is_not_asked),
      cmocka_unit_test(a_token_endpoint_cannot_pass_a_code_on),
      cmocka_unit_test(a_second_issuer_does_not_get_the_code_of_the_first),
      cmocka_unit_test(no_secret_is_in_a_log_or_a_sentence),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
