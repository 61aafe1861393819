/* test_stdio.c - stdin and stdout may be anything, carry messages only, and are given back as they
 * were. */
#include "child.h"

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#define ASK "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subtract\",\"params\":[42,23]}\n"
#define ANSWER "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":19}"

static const char *const reference[] = {REFERENCE, NULL};

static void pipes_carry_requests_and_answers(void **state) {
  (void)state;
  child server = CHILD(REFERENCE);
  for (int i = 0; i < 3; i++) {
    child_send(server.in, ASK);
    child_expect_line(server.out, ANSWER);
  }
  assert_int_equal(child_end(&server), 0);
}

static void one_socket_may_be_both(void **state) {
  (void)state;
  int pair[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  child server = child_start_with(reference, pair[1], pair[1]);
  child_send(pair[0], ASK);
  child_expect_line(pair[0], ANSWER);
  shutdown(pair[0], SHUT_WR);
  assert_int_equal(child_end(&server), 0);
  assert_int_equal(fcntl(pair[1], F_GETFL) & O_NONBLOCK, 0);
  close(pair[0]);
  close(pair[1]);
}

static void a_terminal_may_be_both(void **state) {
  (void)state;
  int master, slave;
  struct termios raw = {0};
  cfmakeraw(&raw);
  assert_int_equal(openpty(&master, &slave, NULL, &raw, NULL), 0);
  child server = child_start_with(reference, slave, slave);
  child_send(master, ASK);
  child_expect_line(master, ANSWER);
  assert_int_equal(fcntl(slave, F_GETFL) & O_NONBLOCK, 0);
  kill(server.pid, SIGTERM);
  assert_int_equal(child_end(&server), 0);
  assert_int_equal(fcntl(slave, F_GETFL) & O_NONBLOCK, 0);
  close(master);
  close(slave);
}

static void files_may_be_both(void **state) {
  (void)state;
  FILE *in = tmpfile(), *out = tmpfile();
  assert_true(in && out);
  for (int i = 0; i < 1000; i++) fputs(ASK, in);
  fflush(in);
  rewind(in);
  child server = child_start_with(reference, fileno(in), fileno(out));
  assert_int_equal(child_end(&server), 0);
  rewind(out);
  char line[256];
  int answers = 0;
  while (fgets(line, sizeof line, out)) {
    assert_string_equal(line, ANSWER "\n");
    answers++;
  }
  assert_int_equal(answers, 1000);
  fclose(in);
  fclose(out);
}

/* The loop is in use while the request sleeps, so input comes through an idle handle. */
static void a_file_is_read_while_a_request_waits(void **state) {
  (void)state;
  FILE *in = tmpfile();
  assert_non_null(in);
  fputs("{\"jsonrpc\":\"2.0\",\"id\":\"s\",\"method\":\"sleep\",\"params\":[1000]}\n" ASK, in);
  fflush(in);
  rewind(in);
  child server = child_start_with((const char *const[]){REFERENCE, "--grace-ms", "600000", NULL},
                                  fileno(in), CHILD_PIPE);
  child_expect_line(server.out, ANSWER);
  child_expect_line(server.out, "{\"jsonrpc\":\"2.0\",\"id\":\"s\",\"result\":null}");
  assert_int_equal(child_end(&server), 0);
  fclose(in);
}

static void dev_null_is_an_empty_input_and_a_patient_output(void **state) {
  (void)state;
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  child server = child_start_with(reference, null, null);
  assert_int_equal(child_end(&server), 0);
  server = child_start_with(reference, CHILD_PIPE, null);
  child_send(server.in, ASK ASK);
  assert_int_equal(child_end(&server), 0);
  close(null);
}

static void a_closed_input_is_an_ended_one(void **state) {
  (void)state;
  child server = child_start_with(reference, CHILD_CLOSED, CHILD_PIPE);
  child_line_with(server.err, "stdin closed, shutting down gracefully");
  assert_int_equal(child_end(&server), 0);
}

/* One that was closed from the start is a mistake of whoever started it; logs must not land there either. */
static void a_server_without_an_output_does_not_start(void **state) {
  static const char memory[] = IDEM_BIN_DIR "/idem-memory";
  static const char *const other[] = {memory, NULL};
  static const char *const logged[] = {"/bin/sh", "-c", "IDEM_LOG=/dev/stderr exec \"$0\"",
                                       REFERENCE, NULL};
  static const char idem[] = IDEM_BIN_DIR "/idem";
  static const char *const served[] = {idem, "serve", "--stdio", "cli/verbs/starter.json", NULL};
  const char *const *const programs[] = {reference, other, logged, served};
  (void)state;
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    child server = child_start_with(programs[i], CHILD_PIPE, CHILD_CLOSED);
    child_line_with(server.err, "stdout is closed: there is nowhere to answer");
    assert_int_equal(child_end(&server), 1);
  }
  child server = child_start_with(reference, CHILD_CLOSED, CHILD_CLOSED);
  assert_int_equal(child_end(&server), 1);
}

/* A full disk, a folder: whoever started the server must see that it could not do its work. */
static void an_end_that_fails_is_a_failure(void **state) {
  (void)state;
  int full = open("/dev/full", O_WRONLY | O_CLOEXEC), folder = open("/", O_RDONLY | O_CLOEXEC);
  assert_true(full >= 0 && folder >= 0);
  child server = child_start_with(reference, CHILD_PIPE, full);
  child_send(server.in, ASK);
  child_line_with(server.err, "No space left on device");
  assert_int_equal(child_end(&server), 1);
  server = child_start_with(reference, folder, CHILD_PIPE);
  child_line_with(server.err, "Is a directory");
  assert_int_equal(child_end(&server), 1);
  server = child_start_with((const char *const[]){REFERENCE, "--help", NULL}, CHILD_CLOSED, full);
  assert_int_equal(child_end(&server), 1);
  close(full);
  close(folder);
}

/* Whoever asked has no answer, and whoever started the server should know why: it used to end as if all were well. */
static void an_output_nobody_reads_any_more_is_a_failure_that_is_told(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--log-level", "error");
  close(server.out);
  server.out = -1;
  child_send(server.in, ASK);
  child_line_with(server.err, "ERROR stdout is broken peer=stdio detail=Broken pipe");
  assert_int_equal(child_wait(&server), 1);
}

static void an_output_nobody_reads_is_no_failure_where_nothing_is_owed(void **state) {
  (void)state;
  child server = CHILD(REFERENCE);
  child_line_with(server.err, "listening on stdio:");
  close(server.out);
  server.out = -1;
  child_send(server.in, "{\"jsonrpc\":\"2.0\",\"method\":\"update\"}\n");
  assert_int_equal(child_end(&server), 0);
}

static void an_input_that_does_not_block_works_as_well(void **state) {
  (void)state;
  int ends[2];
  assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  child server = child_start_with(reference, ends[0], CHILD_PIPE);
  for (int i = 0; i < 3; i++) {
    child_send(ends[1], ASK);
    child_expect_line(server.out, ANSWER);
  }
  close(ends[1]);
  assert_int_equal(child_end(&server), 0);
  assert_int_equal(fcntl(ends[0], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
  close(ends[0]);
}

static void flags_of_inherited_pipes_are_left_alone(void **state) {
  (void)state;
  int in[2], out[2];
  assert_int_equal(pipe2(in, O_CLOEXEC), 0);
  assert_int_equal(pipe2(out, O_CLOEXEC), 0);
  child server = child_start_with(reference, in[0], out[1]);
  child_send(in[1], "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"sleep\",\"params\":[1]}\n" ASK);
  child_line(out[0]);
  child_line(out[0]);
  assert_int_equal((fcntl(in[0], F_GETFL) | fcntl(out[1], F_GETFL)) & O_NONBLOCK, 0);
  close(in[1]);
  assert_int_equal(child_end(&server), 0);
  assert_int_equal((fcntl(in[0], F_GETFL) | fcntl(out[1], F_GETFL)) & O_NONBLOCK, 0);
  close(in[0]);
  close(out[0]);
  close(out[1]);
}

/* A pipe that cannot be opened again: then the shared flag must change, and change back. */
static child start_on_closed_pipe(const char *program, int out[2]) {
  assert_int_equal(pipe2(out, O_CLOEXEC), 0);
  assert_int_equal(fchmod(out[1], 0), 0);
  child_obey_modes(true);
  child server = child_start_with((const char *const[]){program, NULL}, CHILD_PIPE, out[1]);
  child_obey_modes(false);
  child_line_with(server.err, "listening on");
  assert_int_equal(fcntl(out[1], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
  return server;
}

static void expect_flag_put_back(child *server, int out[2], int code) {
  assert_int_equal(child_wait(server), code);
  assert_int_equal(fcntl(out[1], F_GETFL) & O_NONBLOCK, 0);
  close(out[0]);
  close(out[1]);
}

static void a_flag_that_had_to_change_is_put_back(void **state) {
  (void)state;
  int out[2];
  child server = start_on_closed_pipe(REFERENCE, out);
  child_send(server.in, ASK);
  child_expect_line(out[0], ANSWER);
  kill(server.pid, SIGTERM);
  expect_flag_put_back(&server, out, 0);
  server = start_on_closed_pipe(CARELESS, out);
  child_send(server.in, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"leave\"}\n");
  expect_flag_put_back(&server, out, 3);
  server = start_on_closed_pipe(CARELESS, out);
  child_send(server.in, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"stall\"}\n"
                        "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"print\"}\n");
  child_expect_line(out[0], "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":\"printed\"}");
  kill(server.pid, SIGINT);
  child_line_with(server.err, "shutting down gracefully");
  kill(server.pid, SIGINT);
  expect_flag_put_back(&server, out, 128 + SIGINT);
}

static void content_length_frames_come_and_go(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--profile", "lsp");
  const char body[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"version\"}";
  char message[256];
  snprintf(message, sizeof message, "Content-Length: %zu\r\n\r\n%s", sizeof body - 1, body);
  child_send(server.in, message);
  assert_memory_equal(child_line(server.out), "Content-Length: ", 16);
  child_expect_line(server.out, "");
  close(server.in);
  server.in = -1;
  assert_non_null(strstr(child_rest(server.out), "\"version\":\""));
  assert_int_equal(child_end(&server), 0);
}

/* One request runs at a time here, so the others wait when the input ends: whoever pipes a file of them gets all answers. */
static void requests_that_wait_at_the_end_of_input_are_answered_in_order(void **state) {
  static const char *const bodies[] = {
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sleep\",\"params\":{\"ms\":100}}",
      "{\"jsonrpc\":\"1.0\",\"id\":2,\"method\":\"echo\"}",
      "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"echo\",\"params\":[3]}"};
  static const char *const answers[] = {"\"id\":1,\"result\":null}",
                                        "\"id\":2,\"error\":{\"code\":-32600",
                                        "\"id\":3,\"result\":[3]}"};
  char message[256];
  (void)state;
  child server = CHILD(REFERENCE, "--profile", "lsp", "--grace-ms", "600000");
  for (size_t i = 0; i < 3; i++) {
    snprintf(message, sizeof message, "Content-Length: %zu\r\n\r\n%s", strlen(bodies[i]),
             bodies[i]);
    child_send(server.in, message);
  }
  close(server.in);
  server.in = -1;
  const char *at = child_rest(server.out);
  for (size_t i = 0; i < 3; i++) {
    at = strstr(at, answers[i]);
    assert_non_null(at);
  }
  assert_int_equal(child_end(&server), 0);
}

/* --------------------------------------------------------------------- stdout discipline */

static void what_a_handler_prints_lands_on_stderr(void **state) {
  (void)state;
  child server = CHILD(CARELESS);
  child_send(server.in, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"print\"}\n");
  child_expect_line(server.out, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"printed\"}");
  child_line_with(server.err, "this was printed");
  child_send(server.in, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"print_unfinished\"}\n");
  child_expect_line(server.out, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":\"printed\"}");
  close(server.in);
  server.in = -1;
  /* Descriptors are given back, so what main prints afterwards is its own affair. */
  assert_string_equal(child_rest(server.out), "after serving\n");
  assert_non_null(strstr(child_rest(server.err), "no newline here"));
  assert_int_equal(child_end(&server), 0);
}

static void what_was_printed_before_serving_lands_on_stderr(void **state) {
  (void)state;
  child server = CHILD(CARELESS);
  child_line_with(server.err, "a banner before serving");
  assert_int_equal(child_end(&server), 0);
}

static void a_handlers_child_cannot_eat_the_input(void **state) {
  (void)state;
  child server = CHILD(CARELESS);
  child_send(server.in, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"child\"}\n"
                        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"print\"}\n");
  child_expect_line(server.out, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"child ended\"}");
  child_expect_line(server.out, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":\"printed\"}");
  child_send(server.in, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"child\"}\n");
  child_expect_line(server.out, "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":\"child ended\"}");
  child_line_with(server.err, "from the child");
  assert_int_equal(child_end(&server), 0);
}

static void exit_in_a_handler_leaves_flags_and_output_clean(void **state) {
  (void)state;
  int out[2];
  assert_int_equal(pipe2(out, O_CLOEXEC), 0);
  child server = child_start_with((const char *const[]){CARELESS, NULL}, CHILD_PIPE, out[1]);
  child_send(server.in, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"print_unfinished\"}\n"
                        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"leave\"}\n");
  assert_int_equal(child_wait(&server), 3);
  assert_int_equal(fcntl(out[1], F_GETFL) & O_NONBLOCK, 0);
  close(out[1]);
  assert_null(strstr(child_rest(out[0]), "no newline"));
  close(out[0]);
}

static void the_first_server_of_the_readme_subtracts(void **state) {
  (void)state;
  child server = CHILD(IDEM_BIN_DIR "/first_server");
  child_send(server.in, ASK);
  child_expect_line(server.out, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":19.0}");
  assert_int_equal(child_end(&server), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pipes_carry_requests_and_answers),
      cmocka_unit_test(one_socket_may_be_both),
      cmocka_unit_test(a_terminal_may_be_both),
      cmocka_unit_test(files_may_be_both),
      cmocka_unit_test(a_file_is_read_while_a_request_waits),
      cmocka_unit_test(dev_null_is_an_empty_input_and_a_patient_output),
      cmocka_unit_test(a_closed_input_is_an_ended_one),
      cmocka_unit_test(a_server_without_an_output_does_not_start),
      cmocka_unit_test(an_end_that_fails_is_a_failure),
      cmocka_unit_test(an_output_nobody_reads_any_more_is_a_failure_that_is_told),
      cmocka_unit_test(an_output_nobody_reads_is_no_failure_where_nothing_is_owed),
      cmocka_unit_test(an_input_that_does_not_block_works_as_well),
      cmocka_unit_test(flags_of_inherited_pipes_are_left_alone),
      cmocka_unit_test(a_flag_that_had_to_change_is_put_back),
      cmocka_unit_test(content_length_frames_come_and_go),
      cmocka_unit_test(requests_that_wait_at_the_end_of_input_are_answered_in_order),
      cmocka_unit_test(what_a_handler_prints_lands_on_stderr),
      cmocka_unit_test(what_was_printed_before_serving_lands_on_stderr),
      cmocka_unit_test(a_handlers_child_cannot_eat_the_input),
      cmocka_unit_test(exit_in_a_handler_leaves_flags_and_output_clean),
      cmocka_unit_test(the_first_server_of_the_readme_subtracts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
