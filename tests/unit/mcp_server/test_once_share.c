/* test_once_share.c - no principal has all idempotency keys: one that has its share is refused its next, keeps those it
 * has, and keeps nobody else from having some. */
#include "support/mcp_peer.h"
#include "support/unit.h"

#include "mcp_server/mcp_server.h"

#include <stdio.h>
#include <string.h>

static void run_count(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments;
  ++*(unsigned *)user;
  idem_tool_text(request, "ran", 3);
}

static void call(mcp_peer *peer, const char *key, const char *part) {
  char params[128];
  snprintf(params, sizeof params, "\"name\":\"t\",\"_meta\":{\"idem/key\":\"%s\"}", key);
  mcp_peer_expect_part(peer, "tools/call", params, part);
}

static void two_share_four(const idem_server_opts *opts) {
  unsigned runs = 0;
  idem_server *server = mcp_test_server(opts);
  idem_tool tool = {.name = "t", .fn = run_count, .user = &runs};
  mcp_peer one, other;
  assert_int_equal(idem_server_add_tool(server, &tool, NULL, 0), IDEM_OK);
  mcp_peer_open(&one, server, "2025-11-25");
  mcp_peer_open(&other, server, "2025-11-25");
  idem__mcp_peer_of(one.conn)->principal = "ann";
  idem__mcp_peer_of(other.conn)->principal = "bob";
  call(&one, "1", "\"ran\"");
  call(&one, "2", "\"ran\"");
  call(&one, "3", "too-many-keys-of-caller");
  call(&one, "3", "too-many-keys-of-caller"); /* which is not stored */
  call(&one, "1", "\"idem/replayed\":true");
  call(&other, "3", "\"ran\"");
  call(&other, "4", "\"ran\"");
  call(&other, "5", "too-many-keys");
  assert_int_equal(runs, 4);
  mcp_peer_close(&one);
  mcp_peer_close_with(&other, server);
}

static void a_principal_with_its_share_of_keys_is_refused_the_next(void **state) {
  (void)state;
  two_share_four(&(idem_server_opts){.max_keys = 4, .max_keys_each = 2});
}

static void a_share_is_half_unless_it_is_named(void **state) {
  (void)state;
  two_share_four(&(idem_server_opts){.max_keys = 4});
}

/* An Authorization header that nobody checks tells callers apart, but has no share of its own. */
static void whom_nobody_checks_share_one_part(void **state) {
  (void)state;
  unsigned runs = 0;
  idem_server *server = mcp_test_server(&(idem_server_opts){.max_keys = 4});
  idem_tool tool = {.name = "t", .fn = run_count, .user = &runs};
  mcp_peer one, other;
  assert_int_equal(idem_server_add_tool(server, &tool, NULL, 0), IDEM_OK);
  mcp_peer_open(&one, server, "2025-11-25");
  mcp_peer_open(&other, server, "2025-11-25");
  idem__mcp_peer_of(one.conn)->principal = "ann";
  idem__mcp_peer_of(other.conn)->principal = "bob";
  idem__mcp_peer_of(one.conn)->principal_claimed = true;
  idem__mcp_peer_of(other.conn)->principal_claimed = true;
  call(&one, "1", "\"ran\"");
  call(&other, "1", "\"ran\""); /* another caller's: it is another key */
  call(&one, "2", "too-many-keys-of-caller");
  call(&other, "2", "too-many-keys-of-caller");
  idem__mcp_peer_of(other.conn)->principal_claimed = false;
  call(&other, "2", "\"ran\"");
  assert_int_equal(runs, 3);
  mcp_peer_close(&one);
  mcp_peer_close_with(&other, server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_principal_with_its_share_of_keys_is_refused_the_next),
      cmocka_unit_test(a_share_is_half_unless_it_is_named),
      cmocka_unit_test(whom_nobody_checks_share_one_part),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
