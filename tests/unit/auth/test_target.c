/* test_target.c - which request a proof is for: URLs normalised as RFC 3986 says, and the URL of a request behind a proxy. */
#include "auth/proof.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <stdio.h>

static void expect_target(const char *url, const char *expected) {
  char room[512];
  idem_buf out;
  idem_buf_fixed(&out, room, sizeof room);
  idem_status status = idem__target_put(&out, url, strlen(url));
  if ((status == IDEM_OK) != (expected != NULL)) fail_msg("%s: %d", url, status);
  if (expected && strcmp(room, expected) != 0) fail_msg("%s: %s", url, room);
  if (!expected) return;
  out.len = 0; /* what is normal stays as it is */
  char again[512];
  snprintf(again, sizeof again, "%s", room);
  assert_int_equal(idem__target_put(&out, again, strlen(again)), IDEM_OK);
  assert_string_equal(room, again);
}

static void urls_are_written_in_one_way(void **state) {
  (void)state;
  expect_target("https://h", "https://h/");
  expect_target("https://h/", "https://h/");
  expect_target("HTTPS://H.Example/Path", "https://h.example/Path");
  expect_target("https://h:443/a", "https://h/a");
  expect_target("https://h:0443/a", "https://h/a");
  expect_target("https://h:80/a", "https://h:80/a");
  expect_target("http://h:80/a", "http://h/a");
  expect_target("http://h:443/a", "http://h:443/a");
  expect_target("http://[2001:DB8::1]:80/a", "http://[2001:db8::1]/a");
  expect_target("http://[::1]:8080", "http://[::1]:8080/");
  expect_target("https://h/a?b=c", "https://h/a");
  expect_target("https://h/a#b", "https://h/a");
  expect_target("https://h?x/y", "https://h/");
  expect_target("https://h/%7euser/%2f%3a%41", "https://h/~user/%2F%3AA");
  expect_target("https://h/a/./b/../c", "https://h/a/c");
  expect_target("https://h/a/%2e%2E/c/.", "https://h/c/");
  expect_target("https://h/../../a", "https://h/a");
  expect_target("https://h/a/..", "https://h/");
  expect_target("https://h/..", "https://h/");
  expect_target("https://h/...", "https://h/...");
  expect_target("https://h//a//", "https://h//a//");
  expect_target("https://h//..//a", "https://h//a");
}

static void what_is_no_url_is_none(void **state) {
  (void)state;
  static const char *const urls[] = {"",
                                     "/a",
                                     "h/a",
                                     "ftp://h/a",
                                     "https:/h",
                                     "https://",
                                     "https:///a",
                                     "https://u@h/a",
                                     "https://h/ ",
                                     "https://h/%",
                                     "https://h/%4",
                                     "https://h/%zz",
                                     "https://h:x/",
                                     "https://h/\x7f",
                                     "?https://h/",
                                     "https://h/\xc3\xa9"};
  for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) expect_target(urls[i], NULL);
  char room[64], longer[IDEM__TARGET_BYTES + 2];
  idem_buf out;
  memset(longer, 'a', sizeof longer - 1);
  longer[sizeof longer - 1] = 0;
  memcpy(longer, "https://h/", 10);
  idem_buf_fixed(&out, room, sizeof room);
  assert_int_equal(idem__target_put(&out, longer, sizeof longer - 1), IDEM_E_LIMIT);
  assert_int_equal(idem__target_put(&out, longer, 200), IDEM_E_LIMIT);
  assert_int_equal(idem__target_put(&out, "https://h/\0a", 12), IDEM_E_INVAL);
}

static void expect_request(const char *resource, const char *own, const char *path,
                           const char *expected) {
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__targets targets;
  char room[512];
  idem_buf out;
  idem_buf_fixed(&out, room, sizeof room);
  assert_int_equal(idem__targets_init(&targets, &alloc, resource, own), IDEM_OK);
  idem_status status = idem__targets_put(&targets, &out, path, strlen(path));
  if ((status == IDEM_OK) != (expected != NULL)) fail_msg("%s: %d", path, status);
  if (expected && strcmp(room, expected) != 0) fail_msg("%s %s %s: %s", resource, own, path, room);
  idem__targets_deinit(&targets, &alloc);
}

static void a_request_has_the_url_that_the_world_knows(void **state) {
  (void)state;
  expect_request("https://h/mcp", "/mcp", "/mcp", "https://h/mcp");
  expect_request("https://h/mcp", "/mcp", "/sse", "https://h/sse");
  expect_request("HTTPS://H:443/mcp", "/mcp", "/message", "https://h/message");
  /* A proxy puts something before every path. */
  expect_request("https://h/api/v1/mcp", "/mcp", "/mcp", "https://h/api/v1/mcp");
  expect_request("https://h/api/v1/mcp", "/mcp", "/sse", "https://h/api/v1/sse");
  /* It has another path for this one alone. */
  expect_request("https://h/", "/mcp", "/mcp", "https://h/");
  expect_request("https://h", "/mcp", "/sse", "https://h/sse");
  expect_request("https://h/tools", "/mcp", "/sse", "https://h/sse");
  expect_request("https://h/", "/", "/", "https://h/");
  expect_request("https://h/a/", "/", "/", "https://h/a/");
  expect_request("https://h/a/", "/", "/sse", "https://h/sse");
  /* Escapes are alike; dots are not taken away, so that a path with them is nobody's. */
  expect_request("https://h/mcp", "/mcp", "/%7ea/%2f", "https://h/~a/%2F");
  expect_request("https://h/mcp", "/mcp", "/x/../sse", "https://h/x/../sse");
  expect_request("https://h/mcp", "/mcp", "", NULL);
  expect_request("https://h/mcp", "/mcp", "*", NULL);
  expect_request("https://h/mcp", "/mcp", "/%", NULL);
}

static void init_once(fault_alloc *fault, void *user) {
  idem__targets targets;
  (void)user;
  idem_status status = idem__targets_init(&targets, &fault->alloc, "https://h/a/mcp", "/mcp");
  assert_true(status == IDEM_OK || status == IDEM_E_NOMEM);
  idem__targets_deinit(&targets, &fault->alloc);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  assert_int_equal(fault_alloc_sweep(init_once, NULL, 20), 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(urls_are_written_in_one_way),
      cmocka_unit_test(what_is_no_url_is_none),
      cmocka_unit_test(a_request_has_the_url_that_the_world_knows),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
