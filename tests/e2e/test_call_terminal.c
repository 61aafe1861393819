/* test_call_terminal.c - `idem call` at a terminal: forms, progress, Ctrl-C, and nothing of a server's that is an
 * order to the terminal. The servers are those of tests/call/zoo.mjs and idem-conformance-server. */
#include "tty_child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char idem[] = IDEM_BIN_DIR "/idem";
static const char conformance[] = IDEM_BIN_DIR "/idem-conformance-server";
static const char zoo[] = IDEM_SOURCE_DIR "/tests/call/zoo.mjs";
#define NODE "/usr/bin/env", "node", zoo

static tty_child at; /* large */

static void expect_end(int status) {
  int got = tty_child_end(&at);
  if (got != status) fail_msg("exit status %d instead of %d: %s", got, status, at.shown);
}

static void expect_shown(const char *text) {
  if (!tty_child_has_shown(&at, text)) fail_msg("\"%s\" is not in: %s", text, at.shown);
}

/* ----------------------------------------------------------------------------- forms */

static void a_form_is_asked_field_by_field(void **state) {
  (void)state;
  TTY_CHILD(&at, idem, "call", "test_elicitation", "message=Who are you?", "--", conformance);
  tty_child_until(&at, "asks:");
  tty_child_until(&at, "Who are you?");
  tty_child_until(&at, "username (text): ");
  tty_child_type(&at, "adx\x7f");
  tty_child_type(&at, "a\r");
  tty_child_until(&at, "email (text): ");
  tty_child_type(&at, "\r");
  tty_child_until(&at, "this is needed");
  tty_child_type(&at, "ada@example.org\r");
  tty_child_until(&at, "send this?");
  tty_child_type(&at, "\r");
  expect_end(0);
  expect_shown("action=accept, content={\"username\":\"ada\",\"email\":\"ada@example.org\"}");
}

static void defaults_are_taken_by_enter_and_wrong_types_are_refused(void **state) {
  (void)state;
  TTY_CHILD(&at, idem, "call", "test_elicitation_sep1034_defaults", "--", conformance);
  tty_child_until(&at, "name (text, may be left out) [John Doe]: ");
  tty_child_type(&at, "\r");
  tty_child_until(&at, "age (whole number, may be left out) [30]: ");
  tty_child_type(&at, "old\r");
  tty_child_until(&at, "this is not one of these values");
  tty_child_type(&at, "1.5\r");
  tty_child_until(&at, "expected integer");
  tty_child_type(&at, "41\r");
  tty_child_until(&at, "[95.5]: ");
  tty_child_type(&at, "\r");
  tty_child_until(&at, "[active]: ");
  tty_child_type(&at, "\r");
  tty_child_until(&at, "(y or n, may be left out) [true]: ");
  tty_child_type(&at, "n\r");
  tty_child_until(&at, "send this?");
  tty_child_type(&at, "y\r");
  expect_end(0);
  expect_shown(
      "\"name\":\"John Doe\",\"age\":41,\"score\":95.5,\"status\":\"active\",\"verified\":false");
}

static void choices_are_made_by_number_name_or_arrow_keys(void **state) {
  (void)state;
  TTY_CHILD(&at, idem, "call", "test_elicitation_sep1330_enums", "--", conformance);
  tty_child_until(&at, "3  option3");
  tty_child_until(&at, "arrow keys, may be left out): ");
  tty_child_type(&at, "2\r");
  tty_child_until(&at, "3  Third Option");
  tty_child_until(&at, "arrow keys, may be left out): ");
  tty_child_type(&at, "\033[B");
  tty_child_until(&at, "1 First Option");
  tty_child_type(&at, "\033[A");
  tty_child_until(&at, "3 Third Option");
  tty_child_type(&at, "\r");
  tty_child_until(&at, "3  Option Three");
  tty_child_until(&at, "may be left out): ");
  tty_child_type(&at, "Option One\r");
  tty_child_until(&at, "numbers, with commas, may be left out): ");
  tty_child_type(&at, "1, 3\r");
  tty_child_until(&at, "numbers, with commas, may be left out): ");
  tty_child_type(&at, "4\r");
  tty_child_until(&at, "not one of these");
  tty_child_type(&at, "\r");
  tty_child_until(&at, "send this?");
  tty_child_type(&at, "\r");
  expect_end(0);
  expect_shown("\"untitledSingle\":\"option2\",\"titledSingle\":\"value3\",\"legacyEnum\":\"opt1\","
               "\"untitledMulti\":[\"option1\",\"option3\"]");
}

static void ctrl_d_declines_and_ctrl_c_gives_no_answer(void **state) {
  (void)state;
  TTY_CHILD(&at, idem, "call", "test_elicitation", "message=x", "--", conformance);
  tty_child_until(&at, "username (text): ");
  tty_child_type(&at, "\x04");
  expect_end(0);
  expect_shown("action=decline");
  TTY_CHILD(&at, idem, "call", "test_elicitation", "message=x", "--", conformance);
  tty_child_until(&at, "username (text): ");
  tty_child_type(&at, "\x03");
  expect_end(0);
  expect_shown("action=cancel");
}

static void a_second_ctrl_c_leaves_a_server_that_asks_for_ever(void **state) {
  (void)state;
  TTY_CHILD(&at, idem, "call", "--no-cache", "go", "--", NODE, "asks-forever");
  tty_child_until(&at, "question 1");
  tty_child_until(&at, "a (text, may be left out): ");
  tty_child_type(&at, "\x03");
  tty_child_until(&at, "question 2");
  tty_child_until(&at, "a (text, may be left out): ");
  tty_child_type(&at, "\x03");
  tty_child_until(&at, "cancelled; the server is told");
  expect_end(5);
}

static void a_secret_is_not_echoed(void **state) {
  (void)state;
  TTY_CHILD(&at, idem, "call", "--no-cache", "go", "--", NODE, "asks-secret");
  tty_child_until(&at, "password (text): ");
  tty_child_type(&at, "swordfish\r");
  tty_child_until(&at, "send this?");
  assert_false(tty_child_has_shown(&at, "swordfish"));
  tty_child_type(&at, "\r");
  expect_end(0);
  expect_shown("length 9");
}

static void a_page_is_shown_in_full_and_not_opened_unasked(void **state) {
  (void)state;
  TTY_CHILD(&at, idem, "call", "--no-cache", "go", "--", NODE, "asks-url");
  tty_child_until(&at, "https://example.org/a/long/path?with=everything&token=\\u{202e}x");
  tty_child_until(&at, "[n]o: ");
  tty_child_type(&at, "x\r");
  tty_child_until(&at, "[n]o: ");
  tty_child_type(&at, "n\r");
  expect_end(0);
  expect_shown("action decline");
  TTY_CHILD(&at, idem, "call", "--no-cache", "go", "--", NODE, "asks-url");
  tty_child_until(&at, "[n]o: ");
  tty_child_type(&at, "a\r");
  expect_end(0);
  expect_shown("action accept");
}

/* A call that ends while its form is open takes the form with it. */
static void a_form_ends_with_its_call(void **state) {
  (void)state;
  TTY_CHILD(&at, idem, "call", "--no-cache", "--deadline", "1s", "test_elicitation", "message=x",
            "--", conformance);
  tty_child_until(&at, "username (text): ");
  tty_child_until(&at, "deadline");
  expect_end(5);
}

/* -------------------------------------------------------------------------- progress */

static void progress_is_a_bar_with_the_servers_message(void **state) {
  (void)state;
  TTY_CHILD(&at, idem, "call", "--no-cache", "go", "--", NODE, "steps");
  tty_child_until(&at, "[######");
  tty_child_until(&at, "step \\x1b[2J");
  expect_end(0);
  expect_shown("\r\033[K");
  expect_shown("well");
}

/* ---------------------------------------------------------------------------- Ctrl-C */

static void ctrl_c_cancels_and_says_so(void **state) {
  (void)state;
  TTY_CHILD(&at, idem, "call", "--no-cache", "go", "--", NODE, "tells-cancel");
  tty_child_until(&at, "the call is here");
  tty_child_type(&at, "\x03");
  tty_child_until(&at, "cancelled; the server is told");
  expect_end(5);
  assert_int_equal(access("told", F_OK), 0); /* by the server, in the folder in hand */
}

static void a_second_ctrl_c_leaves_at_once(void **state) {
  uint64_t begin = child_now_ms();
  (void)state;
  TTY_CHILD(&at, idem, "call", "--no-cache", "go", "--", NODE, "tells-cancel-stays");
  tty_child_until(&at, "the call is here");
  tty_child_type(&at, "\x03");
  tty_child_until(&at, "cancelled; the server is told");
  tty_child_type(&at, "\x03");
  expect_end(5);
  assert_true(child_now_ms() - begin < 60000);
}

/* ----------------------------------------------------------------- what is hostile */

static void no_order_of_a_server_reaches_the_terminal(void **state) {
  (void)state;
  TTY_CHILD(&at, idem, "call", "--no-cache", "go", "--", NODE, "escapes");
  expect_end(0);
  expect_shown("\\x1b[2J\\x1b]0;owned\\x07\\u{202e}elif\\u{2069}");
  assert_false(tty_child_has_shown(&at, "\033[2J"));
  TTY_CHILD(&at, idem, "call", "--no-cache", "--", NODE, "escapes");
  expect_end(0);
  expect_shown("zoo\\x1b[2J");
  assert_false(tty_child_has_shown(&at, "\033[2J"));
  TTY_CHILD(&at, idem, "call", "--no-cache", "--raw", "go", "--", NODE, "escapes");
  expect_end(0);
  assert_false(tty_child_has_shown(&at, "\033[2J"));
}

/* Nor one of a name that is only suggested, or stands in a file of servers. */
static void no_order_in_a_name_reaches_the_terminal(void **state) {
  (void)state;
  TTY_CHILD(&at, idem, "call", "--no-cache", "gone", "--", NODE, "escapes");
  expect_end(2);
  expect_shown("did you mean gone\\x1bc?");
  assert_false(tty_child_has_shown(&at, "\033c"));
  FILE *file = fopen("servers.json", "w");
  assert_non_null(file);
  fputs("{\"mcpServers\": {\"a\\u001bc\": {\"command\": \"true\"},"
        " \"b\": {\"command\": \"true\", \"env\": {\"K\\u001bc\": 5}}}}",
        file);
  fclose(file);
  static const char *const names[] = {"a", "nothing", "b"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    TTY_CHILD(&at, idem, "call", "--no-cache", "--config", "servers.json", names[i]);
    expect_end(2);
    expect_shown("\\x1bc");
    assert_false(tty_child_has_shown(&at, "\033c"));
  }
}

static void an_image_is_shown_where_the_terminal_can(void **state) {
  (void)state;
  setenv("KITTY_WINDOW_ID", "1", 1);
  TTY_CHILD(&at, idem, "call", "test_image_content", "--", conformance);
  expect_end(0);
  expect_shown("\033_Ga=T,f=100,q=2,m=0;");
  unsetenv("KITTY_WINDOW_ID");
}

static void a_result_of_100_mib_ends_in_a_sentence_and_bounded_memory(void **state) {
  (void)state;
  TTY_CHILD(&at, idem, "call", "--no-cache", "go", "--", NODE, "huge");
  expect_end(3);
  expect_shown("the server sends too much");
  if (at.rss_kb > 700000) fail_msg("it took %ld KiB", at.rss_kb);
}

static int go_home(void **state) {
  static char folder[256];
  child_make_folder(folder, sizeof folder);
  *state = folder;
  setenv("HOME", folder, 1);
  setenv("XDG_CACHE_HOME", folder, 1);
  setenv("XDG_CONFIG_HOME", folder, 1);
  return chdir(folder);
}

static int leave_home(void **state) {
  if (chdir("/") != 0) return -1;
  child_remove_folder(*state);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_form_is_asked_field_by_field),
      cmocka_unit_test(defaults_are_taken_by_enter_and_wrong_types_are_refused),
      cmocka_unit_test(choices_are_made_by_number_name_or_arrow_keys),
      cmocka_unit_test(ctrl_d_declines_and_ctrl_c_gives_no_answer),
      cmocka_unit_test(a_second_ctrl_c_leaves_a_server_that_asks_for_ever),
      cmocka_unit_test(a_secret_is_not_echoed),
      cmocka_unit_test(a_page_is_shown_in_full_and_not_opened_unasked),
      cmocka_unit_test(a_form_ends_with_its_call),
      cmocka_unit_test(progress_is_a_bar_with_the_servers_message),
      cmocka_unit_test(ctrl_c_cancels_and_says_so),
      cmocka_unit_test(a_second_ctrl_c_leaves_at_once),
      cmocka_unit_test(no_order_of_a_server_reaches_the_terminal),
      cmocka_unit_test(no_order_in_a_name_reaches_the_terminal),
      cmocka_unit_test(an_image_is_shown_where_the_terminal_can),
      cmocka_unit_test(a_result_of_100_mib_ends_in_a_sentence_and_bounded_memory),
  };
  return cmocka_run_group_tests(tests, go_home, leave_home);
}
