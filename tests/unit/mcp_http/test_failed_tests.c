/* test_failed_tests.c - a test that fails is the only one that does: cmocka leaves it by a jump, so its servers stay
 * behind, unclosed, in a frame that is gone. Those after it must neither meet them nor wait for them. */
#include "support/mcp_web.h"
#include "support/unit.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

static const later_store_opts later = {.seed = 3};

/* A session of a store that answers later is begun, so that the store has been asked and may be asked again. */
static void begin(mcp_web *web) {
  char session[64];
  mcp_web_open(web, &(mcp_web_opts){.later = &later});
  mcp_web_hello(web, "", session);
}

static void fails_with_a_server_open(void **state) {
  (void)state;
  mcp_web web;
  begin(&web);
  fail_msg("as it should");
}

static void fails_while_its_store_owes_an_answer(void **state) {
  (void)state;
  mcp_web first, second;
  begin(&first);
  begin(&second);
  later_store_hold(second.later, true);
  free(mcp_web_ask(&second, "DELETE", "/mcp", "Mcp-Session-Id: nobody's\r\n", NULL));
  fail_msg("as it should");
}

static void holds(void **state) {
  (void)state;
  mcp_web web;
  begin(&web);
  mcp_web_close(&web);
}

/* In a process of its own, since what failed is never freed: how many of the tests failed. */
static void run_apart(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fails_with_a_server_open),
      cmocka_unit_test(holds),
      cmocka_unit_test(fails_while_its_store_owes_an_answer),
      cmocka_unit_test(holds),
  };
  int nowhere = open("/dev/null", O_WRONLY);
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  alarm(30);
  _exit(cmocka_run_group_tests(tests, NULL, NULL));
}

static void those_after_a_failed_test_run_and_hold(void **state) {
  (void)state;
  int status = 0;
  pid_t child = fork();
  assert_true(child >= 0);
  if (!child) run_apart();
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(those_after_a_failed_test_run_and_hold)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
