/* test_description.c - how long the description of a tool may be is checked when it is added. */
#include "support/mcp_peer.h"
#include "support/unit.h"

#include <stdlib.h>

static void done(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_tool_text(request, "done", 4);
}

/* A tool whose description has `len` bytes. */
static idem_status add(idem_server *server, size_t len, char *why, size_t why_len) {
  char *text = malloc(len + 1);
  assert_non_null(text);
  memset(text, 'd', len);
  text[len] = '\0';
  idem_status status = idem_server_add_tool(
      server, &(idem_tool){.name = "t", .description = text, .fn = done}, why, why_len);
  free(text);
  return status;
}

static void expect_limit(idem_server_opts *opts, size_t most, const char *sentence) {
  char why[200] = "";
  idem_server *server = mcp_test_server(opts);
  assert_int_equal(add(server, most + 1, why, sizeof why), IDEM_E_LIMIT);
  assert_string_equal(why, sentence);
  assert_int_equal(add(server, most + 1, NULL, 0), IDEM_E_LIMIT);
  assert_int_equal(add(server, most, why, sizeof why), IDEM_OK);
  idem_server_free(server);
}

static void a_description_within_the_servers_limit_is_taken(void **state) {
  (void)state;
  expect_limit(&(idem_server_opts){.max_description_bytes = 10}, 10,
               "tool t: its description exceeds the maximum length: 11 bytes of 10");
  expect_limit(&(idem_server_opts){.codes = IDEM_CODES_ERLMCP}, 10000,
               "tool t: its description exceeds the maximum length: 10001 bytes of 10000");
  expect_limit(&(idem_server_opts){.codes = IDEM_CODES_ERLMCP, .max_description_bytes = 20}, 20,
               "tool t: its description exceeds the maximum length: 21 bytes of 20");
}

static void without_a_limit_any_description_is_taken(void **state) {
  (void)state;
  idem_server *server = mcp_test_server(NULL);
  assert_int_equal(add(server, 100000, NULL, 0), IDEM_OK);
  assert_int_equal(idem_server_remove_tool(server, "t"), IDEM_OK);
  assert_int_equal(idem_server_add_tool(server, &(idem_tool){.name = "t", .fn = done}, NULL, 0),
                   IDEM_OK);
  idem_server_free(server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_description_within_the_servers_limit_is_taken),
      cmocka_unit_test(without_a_limit_any_description_is_taken),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
