/* test_checks.c - who may ask: hosts, origins, tokens, proxies, rates. */
#include "support/fault_alloc.h"
#include "support/http_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static idem__view view(const char *text) { return (idem__view){text, strlen(text)}; }

/* ------------------------------------------------------------ hosts, origins */

static bool host(const char *const *list, const char *text) {
  idem__host_list hosts;
  assert_int_equal(idem__host_list_init(&hosts, NULL, list), IDEM_OK);
  bool allowed = idem__host_allowed(&hosts, view(text), 8420);
  idem__host_list_deinit(&hosts, NULL);
  return allowed;
}

static bool origin(const char *const *list, const char *text) {
  idem__host_list hosts;
  assert_int_equal(idem__host_list_init(&hosts, NULL, list), IDEM_OK);
  bool allowed = idem__origin_allowed(&hosts, view(text), 8420);
  idem__host_list_deinit(&hosts, NULL);
  return allowed;
}

static void the_default_hosts_are_loopback_names_on_any_port(void **state) {
  (void)state;
  static const char *const good[] = {"localhost",    "localhost:8420", "LocalHost:1",
                                     "localhost.",   "localhost.:99",  "127.0.0.1",
                                     "127.0.0.1:80", "[::1]",          "[::1]:8420"};
  static const char *const bad[] = {"",
                                    "evil.example",
                                    "localhost.evil.example",
                                    "127.0.0.1.nip.io",
                                    "127.0.0.2",
                                    "localhost..",
                                    "localhost:",
                                    "localhost:x",
                                    "localhost:99999",
                                    "::1",
                                    "[::1",
                                    "localhost@evil.com",
                                    "evil.com#localhost",
                                    "localhost /",
                                    "[::1]x",
                                    ":80",
                                    "localhost:80:80",
                                    "0.0.0.0",
                                    "[::ffff:127.0.0.1]"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_true(host(NULL, good[i]));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (host(NULL, bad[i])) fail_msg("%s was allowed", bad[i]);
}

static void a_host_entry_says_which_port(void **state) {
  (void)state;
  static const char *const plain[] = {"api.example.", NULL};
  static const char *const port[] = {"api.example:443", NULL};
  static const char *const any[] = {"API.example:*", NULL};
  assert_true(host(plain, "api.example") && host(plain, "api.example:8420"));
  assert_false(host(plain, "api.example:443"));
  assert_true(host(port, "API.EXAMPLE.:443"));
  assert_false(host(port, "api.example") || host(port, "api.example:8420"));
  assert_true(host(any, "api.example") && host(any, "api.example:1"));
  assert_false(host(any, "localhost") || host(any, "xapi.example"));
}

static void a_bad_list_entry_is_refused(void **state) {
  (void)state;
  static const char *const bad[] = {
      "",     ":80",     "a b",       "host:",     "host:port", "host:*:*",
      "[::1", "http://", "user@host", "host/path", "*"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const char *const list[] = {bad[i], NULL};
    idem__host_list hosts;
    if (idem__host_list_init(&hosts, NULL, list) != IDEM_E_INVAL) fail_msg("%s was taken", bad[i]);
  }
}

static void origins_follow_the_list_and_null_is_never_one(void **state) {
  (void)state;
  static const char *const secure[] = {"https://app.example", "null.example:*", NULL};
  assert_true(origin(NULL, "http://localhost") && origin(NULL, "http://LOCALHOST:3000"));
  assert_true(origin(NULL, "https://127.0.0.1:8080") && origin(NULL, "http://[::1]:9"));
  assert_false(origin(NULL, "null") || origin(NULL, "") || origin(NULL, "localhost"));
  assert_false(origin(NULL, "http://evil.example") || origin(NULL, "http://localhost.evil"));
  assert_false(origin(NULL, "http://localhost/path") || origin(NULL, "http://"));
  assert_false(origin(NULL, "http://localhost http://evil.example"));
  assert_true(origin(secure, "https://app.example") && origin(secure, "HTTPS://app.example:8420"));
  assert_false(origin(secure, "http://app.example") || origin(secure, "https://app.example:1"));
  assert_true(origin(secure, "http://null.example:1"));
  /* An entry without a scheme means pages of the web. */
  static const char *const app[] = {"tauri://localhost", NULL};
  assert_false(origin(NULL, "javascript://localhost") || origin(NULL, "data://localhost"));
  assert_false(origin(NULL, "file://localhost") || origin(NULL, "ftp://127.0.0.1:21"));
  assert_false(origin(NULL, "httpx://localhost") || origin(NULL, "ht://localhost"));
  assert_false(origin(secure, "javascript://null.example"));
  assert_true(origin(app, "tauri://localhost"));
  assert_false(origin(app, "http://localhost"));
  assert_false(origin(secure, "null"));
}

/* ------------------------------------------------------------------- tokens */

static void any_of_the_tokens_opens(void **state) {
  (void)state;
  static const char *const tokens[] = {"alpha-token", "beta", NULL};
  const idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__token_list list;
  assert_int_equal(idem__token_list_init(&list, &alloc, tokens, NULL), IDEM_OK);
  assert_true(idem__token_allowed(&list, view("Bearer alpha-token")));
  assert_true(idem__token_allowed(&list, view("bearer  beta ")));
  static const char *const bad[] = {
      "Bearer ",         "Bearer alph", "Bearer alpha-tokenx",     "Basic beta", "Bearerbeta",
      "Bearer betabeta", "beta",        "Bearer alpha-token,beta", "",           "Bearer BETA"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (idem__token_allowed(&list, view(bad[i]))) fail_msg("%s opened", bad[i]);
  assert_false(idem__token_allowed(&list, (idem__view){NULL, 0}));
  idem__token_list_deinit(&list, &alloc);
}

/* ---------------------------------------------------------------- addresses */

static void addresses_are_read_and_others_are_not(void **state) {
  (void)state;
  static const char *const good[] = {"1.2.3.4",
                                     "::",
                                     "::1",
                                     "1::",
                                     "fe80::1",
                                     "[2001:db8::7]",
                                     "1:2:3:4:5:6:7:8",
                                     "::ffff:1.2.3.4",
                                     "1:2:3:4:5:6:1.2.3.4"};
  static const char *const bad[] = {
      "",        "1.2.3",    "1.2.3.4.5",         "1.2.3.256",     "01.2.3.4",
      ":",       ":::",      "1::2::3",           "1:2:3:4:5:6:7", "12345::",
      "g::",     "1.2.3.4 ", "1:2:3:4:5:6:7:8:9", "::1.2.3",       "1:2:3:4:5:6:7:1.2.3.4",
      "unknown", "1:"};
  idem__ip address;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    if (!idem__ip_parse(view(good[i]), &address)) fail_msg("%s was not read", good[i]);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (idem__ip_parse(view(bad[i]), &address)) fail_msg("%s was read", bad[i]);
}

static bool inside(const char *block_text, const char *address_text) {
  idem__ip_block block;
  idem__ip address;
  assert_true(idem__ip_block_parse(view(block_text), &block));
  assert_true(idem__ip_parse(view(address_text), &address));
  return idem__ip_in(&block, 1, &address);
}

static void blocks_hold_their_addresses(void **state) {
  (void)state;
  assert_true(inside("10.0.0.0/8", "10.255.1.2") && inside("10.1.2.3", "10.1.2.3"));
  assert_true(inside("0.0.0.0/0", "1.2.3.4") && inside("10.0.0.0/9", "10.127.0.1"));
  assert_false(inside("10.0.0.0/8", "11.0.0.1") || inside("10.0.0.0/9", "10.128.0.1"));
  assert_false(inside("0.0.0.0/0", "2001:db8::1") || inside("10.1.2.3", "10.1.2.4"));
  assert_true(inside("2001:db8::/32", "2001:db8:1::1") && inside("::1", "::1"));
  assert_false(inside("2001:db8::/32", "2001:db9::1"));
  idem__ip_block block;
  assert_false(idem__ip_block_parse(view("10.0.0.0/33"), &block));
  assert_false(idem__ip_block_parse(view("10.0.0.0/"), &block));
  assert_false(idem__ip_block_parse(view("::/129"), &block));
}

/* ------------------------------------------------------------------ limiter */

static void a_bucket_empties_and_fills_again(void **state) {
  (void)state;
  idem__limiter *limiter;
  idem__ip one, two;
  uint32_t retry = 0;
  assert_int_equal(idem__limiter_new(NULL, 5, 10, 0, 1, &limiter), IDEM_OK);
  assert_true(idem__ip_parse(view("1.2.3.4"), &one));
  assert_true(idem__ip_parse(view("1.2.3.5"), &two));
  for (int i = 0; i < 5; i++) assert_true(idem__limiter_take(limiter, &one, 1000, &retry));
  assert_false(idem__limiter_take(limiter, &one, 1000, &retry));
  assert_int_equal(retry, 2);
  assert_true(idem__limiter_take(limiter, &two, 1000, &retry));
  assert_false(idem__limiter_take(limiter, &one, 2999, &retry));
  assert_int_equal(retry, 1);
  assert_true(idem__limiter_take(limiter, &one, 3000, &retry));
  for (int i = 0; i < 5; i++) assert_true(idem__limiter_take(limiter, &one, 60000, &retry));
  assert_false(idem__limiter_take(limiter, &one, 60000, &retry));
  idem__limiter_free(limiter);
}

static void an_ipv6_network_is_one_client(void **state) {
  (void)state;
  idem__limiter *limiter;
  idem__ip one, two, three;
  uint32_t retry;
  assert_int_equal(idem__limiter_new(NULL, 1, 1, 0, 1, &limiter), IDEM_OK);
  assert_true(idem__ip_parse(view("2001:db8:0:1::1"), &one));
  assert_true(idem__ip_parse(view("2001:db8:0:1::2"), &two));
  assert_true(idem__ip_parse(view("2001:db8:0:2::1"), &three));
  assert_true(idem__limiter_take(limiter, &one, 5, &retry));
  assert_false(idem__limiter_take(limiter, &two, 5, &retry));
  assert_true(idem__limiter_take(limiter, &three, 5, &retry));
  idem__limiter_free(limiter);
}

static void many_clients_do_not_free_the_one_who_is_limited(void **state) {
  (void)state;
  idem__limiter *limiter;
  idem__ip greedy, other;
  uint32_t retry;
  assert_int_equal(idem__limiter_new(NULL, 10, 10, 64, 99, &limiter), IDEM_OK);
  assert_true(idem__ip_parse(view("9.9.9.9"), &greedy));
  while (idem__limiter_take(limiter, &greedy, 1, &retry)) continue;
  for (int i = 0; i < 10000; i++) { /* each takes one token: fuller buckets than the greedy one's */
    char text[32];
    snprintf(text, sizeof text, "10.%d.%d.1", i / 256, i % 256);
    assert_true(idem__ip_parse(view(text), &other));
    idem__limiter_take(limiter, &other, 1, &retry);
  }
  assert_false(idem__limiter_take(limiter, &greedy, 1, &retry));
  idem__limiter_free(limiter);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_default_hosts_are_loopback_names_on_any_port),
      cmocka_unit_test(a_host_entry_says_which_port),
      cmocka_unit_test(a_bad_list_entry_is_refused),
      cmocka_unit_test(origins_follow_the_list_and_null_is_never_one),
      cmocka_unit_test(any_of_the_tokens_opens),
      cmocka_unit_test(addresses_are_read_and_others_are_not),
      cmocka_unit_test(blocks_hold_their_addresses),
      cmocka_unit_test(a_bucket_empties_and_fills_again),
      cmocka_unit_test(an_ipv6_network_is_one_client),
      cmocka_unit_test(many_clients_do_not_free_the_one_who_is_limited),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
