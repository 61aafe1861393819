/* test_serve_terminal.c - `idem serve` on a terminal: it ends with it, and SIGHUP from anybody else reloads. */
#include "serving.h"
#include "tty_child.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIG "{\"tools\":{\"say\":{\"run\":[\"echo\"]}}}"

static const char program[] = IDEM_BIN_DIR "/idem";
static tty_child at; /* large */
static char config[512], pipe_path[512];
static int words = -1; /* of a server whose stderr is this pipe */

static int setup(void **state) {
  static serving self;
  serving_make(&self, CONFIG);
  serving_path(&self, "idem.json", config, sizeof config);
  serving_path(&self, "words", pipe_path, sizeof pipe_path);
  *state = &self;
  if (mkfifo(pipe_path, 0600) != 0) return 1;
  words = open(pipe_path, O_RDWR | O_CLOEXEC);
  return words < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1); /* what a shell leaves is ours to await */
}

static int teardown(void **state) {
  const serving *self = *state;
  close(words);
  child_remove_folder(self->folder);
  return 0;
}

static int end_of(pid_t pid) {
  child one = {.pid = pid, .in = -1, .out = -1, .err = -1};
  return child_end(&one);
}

static void closing_the_terminal_ends_it(void **state) {
  (void)state;
  TTY_CHILD(&at, program, "serve", config, "--http", "127.0.0.1:0");
  tty_child_until(&at, "listening on");
  kill(at.pid, SIGHUP); /* an operator's, with the terminal there */
  tty_child_until(&at, "reading the configuration again");
  tty_child_until(&at, "configuration reloaded");
  close(at.fd);
  assert_int_equal(end_of(at.pid), 0);
}

/* A shell of a person's, and the server as a job of it that they do not wait for. */
static pid_t start_in_background(const char *then) {
  char line[2048];
  TTY_CHILD(&at, "/usr/bin/env", "bash", "--norc", "--noprofile", "-i");
  snprintf(line, sizeof line, "%s serve %s --http 127.0.0.1:0 2>%s & %s\n", program, config,
           pipe_path, then);
  tty_child_type(&at, line);
  const char *pid = strstr(child_line_with(words, "idem started"), "pid ");
  assert_non_null(pid);
  pid_t server = (pid_t)strtol(pid + 4, NULL, 10);
  child_line_with(words, "listening on");
  return server;
}

/* In the background the kernel does not tell it: its shell does. */
static void closing_the_terminal_ends_what_runs_in_the_background(void **state) {
  (void)state;
  pid_t server = start_in_background("");
  close(at.fd);
  child_line_with(words, "shutting down gracefully");
  end_of(at.pid);
  assert_int_equal(end_of(server), 0);
}

/* It was let go of: SIGHUP is an operator's, long after the terminal is gone. */
static void what_outlives_its_terminal_reloads_as_before(void **state) {
  (void)state;
  pid_t server = start_in_background("disown");
  tty_child_type(&at, "exit\n");
  assert_int_equal(end_of(at.pid), 0);
  close(at.fd);
  kill(server, SIGHUP);
  child_line_with(words, "reading the configuration again");
  child_line_with(words, "configuration reloaded");
  kill(server, SIGTERM);
  assert_int_equal(end_of(server), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(closing_the_terminal_ends_it),
      cmocka_unit_test(closing_the_terminal_ends_what_runs_in_the_background),
      cmocka_unit_test(what_outlives_its_terminal_reloads_as_before),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
