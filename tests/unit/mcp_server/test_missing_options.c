/* test_missing_options.c - an MCP server that cannot be made says what it lacks. */
#include "support/unit.h"

#include <idem/mcp.h>

#include <stdio.h>
#include <string.h>

static char logged[512];

static void on_line(void *ctx, const char *line, size_t len) {
  (void)ctx;
  snprintf(logged, sizeof logged, "%.*s", (int)len, line);
}

static void some_bytes(void *ctx, void *bytes, size_t len) {
  (void)ctx;
  memset(bytes, 7, len);
}

static void expect_missing(idem_server_opts opts, const char *words) {
  idem_server *server = (idem_server *)&opts; /* is made NULL */
  idem_log *log;
  assert_int_equal(idem_server_new(&opts, &server), IDEM_E_INVAL); /* without a log, too */
  assert_null(server);
  assert_int_equal(idem_log_new(&(idem_log_opts){.write = on_line}, &log), IDEM_OK);
  opts.log = log;
  logged[0] = 0;
  assert_int_equal(idem_server_new(&opts, &server), IDEM_E_INVAL);
  assert_non_null(strstr(logged, words));
  idem_log_free(log);
}

static void what_is_missing_is_named(void **state) {
  (void)state;
  idem_server_opts whole = {.name = "n", .version = "1", .random = some_bytes};
  idem_server *server;
  assert_int_equal(idem_server_new(&whole, &server), IDEM_OK);
  idem_server_free(server);
  expect_missing((idem_server_opts){.version = "1", .random = some_bytes}, "its name is missing");
  expect_missing((idem_server_opts){.name = "n", .random = some_bytes}, "its version is missing");
  expect_missing((idem_server_opts){.name = "n", .version = "1"},
                 "random is missing: idem_server_os(&opts) of idem/uv.h fills it in");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_missing_is_named)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
