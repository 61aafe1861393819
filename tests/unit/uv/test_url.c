/* test_url.c - addresses as people write them, without a socket. */
#include "support/unit.h"

#include "uv/runtime.h"

#include <stdio.h>

static void every_scheme_is_read(void **state) {
  (void)state;
  static const struct {
    const char *text;
    idem__scheme scheme;
    bool content_length, tls;
    const char *host, *path;
    uint16_t port;
  } good[] = {
      {"stdio:", IDEM__SCHEME_STDIO, false, false, "", "", 0},
      {"stdio+lsp:", IDEM__SCHEME_STDIO, true, false, "", "", 0},
      {"exec:", IDEM__SCHEME_EXEC, false, false, "", "", 0},
      {"exec+lsp:", IDEM__SCHEME_EXEC, true, false, "", "", 0},
      {"tcp://127.0.0.1:0", IDEM__SCHEME_TCP, false, false, "127.0.0.1", "", 0},
      {"tcp+lsp://[::1]:65535", IDEM__SCHEME_TCP, true, false, "::1", "", 65535},
      {"tls://example.org:1", IDEM__SCHEME_TCP, false, true, "example.org", "", 1},
      {"unix:/run/x", IDEM__SCHEME_UNIX, false, false, "", "/run/x", 0},
      {"unix:///run/x", IDEM__SCHEME_UNIX, false, false, "", "/run/x", 0},
      {"unix+lsp:x", IDEM__SCHEME_UNIX, true, false, "", "x", 0},
      {"http://h:80", IDEM__SCHEME_HTTP, false, false, "h", "/", 80},
      {"https://h:443/mcp", IDEM__SCHEME_HTTP, false, true, "h", "/mcp", 443},
      {"wss://[::1]:9/a/b", IDEM__SCHEME_WS, false, true, "::1", "/a/b", 9},
      {"admin://localhost:9", IDEM__SCHEME_ADMIN, false, false, "localhost", "/", 9},
  };
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    idem__url url;
    if (idem__url_parse(good[i].text, &url) != IDEM_OK) fail_msg("refused: %s", good[i].text);
    assert_int_equal(url.scheme, good[i].scheme);
    assert_int_equal(url.content_length, good[i].content_length);
    assert_int_equal(url.tls, good[i].tls);
    assert_string_equal(url.host, good[i].host);
    assert_string_equal(url.path, good[i].path);
    assert_int_equal(url.port, good[i].port);
  }
}

static void what_is_no_address_is_refused(void **state) {
  (void)state;
  static const char *const bad[] = {"",
                                    "stdio",
                                    "stdio:x",
                                    "STDIO:",
                                    "tcp://",
                                    "tcp://h",
                                    "tcp://:1",
                                    "tcp://h:",
                                    "tcp://h:65536",
                                    "tcp://h:-1",
                                    "tcp://h:1x",
                                    "tcp://::1:1",
                                    "tcp://[::1]1",
                                    "tcp://[::1",
                                    "tcp://h:000001",
                                    "unix:",
                                    "http://h/mcp",
                                    "http://h:1/?a",
                                    "http://h:1/a#b",
                                    "http://h:1/a b",
                                    "exec:/bin/sh",
                                    "ftp://h:1"};
  idem__url url;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (idem__url_parse(bad[i], &url) != IDEM_E_INVAL) fail_msg("accepted: %s", bad[i]);
  assert_int_equal(idem__url_parse(NULL, &url), IDEM_E_INVAL);
}

/* The last length that fits, and the first that does not. */
static void long_hosts_and_paths_are_refused_and_not_cut(void **state) {
  (void)state;
  idem__url url;
  char text[512];
  for (size_t len = 250; len < 260; len++) {
    snprintf(text, sizeof text, "tcp://%0*d:1", (int)len, 0);
    assert_int_equal(idem__url_parse(text, &url) == IDEM_OK, len < sizeof url.host);
  }
  for (size_t len = 100; len < 115; len++) {
    snprintf(text, sizeof text, "unix:%0*d", (int)len, 0);
    assert_int_equal(idem__url_parse(text, &url) == IDEM_OK, len < sizeof url.path);
  }
}

static void a_remote_address_keeps_its_target(void **state) {
  (void)state;
  idem__url url;
  const char *target;
  assert_int_equal(idem__url_parse_remote("wss://h/a?b", &url, &target), IDEM_OK);
  assert_int_equal(url.port, 443);
  assert_string_equal(target, "/a?b");
  assert_int_equal(idem__url_parse_remote("ws://[::1]", &url, &target), IDEM_OK);
  assert_int_equal(url.port, 80);
  assert_string_equal(url.host, "::1");
  assert_string_equal(target, "");
  assert_int_equal(idem__url_parse_remote("ws://h:8080?x", &url, &target), IDEM_OK);
  assert_int_equal(url.port, 8080);
  static const char *const bad[] = {"http://h",  "ws://",      "ws://u@h/",   "ws://h/ x",
                                    "ws://h/\n", "ws://h/#at", "ws://h:99999"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (idem__url_parse_remote(bad[i], &url, &target) != IDEM_E_INVAL)
      fail_msg("accepted: %s", bad[i]);
}

static void addresses_are_written_as_they_are_read(void **state) {
  (void)state;
  static const char *const texts[] = {"127.0.0.1:4242", "[::1]:9", "[fe80::1]:65535"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    idem__url url;
    idem__address list[IDEM__ADDRESSES];
    size_t count;
    char text[64];
    snprintf(text, sizeof text, "tcp://%s", texts[i]);
    assert_int_equal(idem__url_parse(text, &url), IDEM_OK);
    assert_int_equal(idem__address_literal(&url, list, &count), IDEM_OK);
    assert_int_equal(count, 1);
    idem__address_text(&list[0], text, sizeof text);
    assert_string_equal(text, texts[i]);
  }
}

static void localhost_is_both_and_a_name_is_asked_for(void **state) {
  (void)state;
  idem__url url;
  idem__address list[IDEM__ADDRESSES];
  size_t count;
  assert_int_equal(idem__url_parse("tcp://localhost:7", &url), IDEM_OK);
  assert_int_equal(idem__address_literal(&url, list, &count), IDEM_OK);
  assert_int_equal(count, 2);
  assert_int_equal(idem__address_port(&list[1]), 7);
  assert_int_equal(idem__url_parse("tcp://example.org:7", &url), IDEM_OK);
  assert_int_equal(idem__address_literal(&url, list, &count), IDEM_E_NOTFOUND);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_scheme_is_read),
      cmocka_unit_test(what_is_no_address_is_refused),
      cmocka_unit_test(long_hosts_and_paths_are_refused_and_not_cut),
      cmocka_unit_test(a_remote_address_keeps_its_target),
      cmocka_unit_test(addresses_are_written_as_they_are_read),
      cmocka_unit_test(localhost_is_both_and_a_name_is_asked_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
