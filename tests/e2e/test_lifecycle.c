/* test_lifecycle.c - how a server begins and ends: log lines, signals, grace, exit codes. */
#include "child.h"

#include <fcntl.h>
#include <idem/base.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLEEP "{\"jsonrpc\":\"2.0\",\"id\":\"s\",\"method\":\"sleep\",\"params\":{\"ms\":60000}}\n"
#define SLEEP_FAILED                                                                               \
  "{\"jsonrpc\":\"2.0\",\"id\":\"s\",\"error\":{\"code\":-32603,\"message\":\"Internal error\"}}"
#define ECHO "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[1]}\n"
#define ECHOED "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[1]}"

static void close_input(child *server) {
  close(server->in);
  server->in = -1;
}

static void the_first_lines_tell_version_pid_level_sink_and_address(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--log-level", "info");
  const char *line = child_line(server.err);
  char pid[32];
  snprintf(pid, sizeof pid, "pid %ld", (long)server.pid);
  assert_non_null(strstr(line, "version 0."));
  assert_non_null(strstr(line, pid));
  assert_non_null(strstr(line, "level info"));
  assert_non_null(strstr(line, "sink stderr"));
  assert_non_null(strstr(child_line(server.err), "listening on stdio:"));
  assert_int_equal(child_end(&server), 0);
}

static void end_of_input_ends_the_server(void **state) {
  (void)state;
  child server = CHILD(REFERENCE);
  child_send(server.in, ECHO);
  close_input(&server);
  child_expect_line(server.out, ECHOED);
  child_line_with(server.err, "stdin closed, shutting down gracefully");
  assert_int_equal(child_end(&server), 0);
}

static void what_was_asked_before_the_end_of_input_is_answered(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--grace-ms", "600000");
  child_send(server.in, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sleep\",\"params\":[50]}");
  close_input(&server);
  child_expect_line(server.out, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}");
  assert_int_equal(child_end(&server), 0);
}

/* More than a pipe holds waits for a reader that comes only after the input has ended, for as long as the grace. */
static void answers_wait_for_a_reader_after_the_end_of_input(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--grace-ms", "600000");
  enum { COUNT = 5000 };
  for (int i = 0; i < COUNT; i++) child_send(server.in, ECHO);
  close_input(&server);
  child_line_with(server.err, "stdin closed");
  for (int i = 0; i < COUNT; i++) child_expect_line(server.out, ECHOED);
  assert_int_equal(child_end(&server), 0);
}

static void what_cannot_finish_is_answered_with_an_error(void **state) {
  (void)state;
  child server = CHILD(REFERENCE);
  child_send(server.in, SLEEP);
  close_input(&server);
  child_expect_line(server.out, SLEEP_FAILED);
  assert_int_equal(child_wait(&server), 0);
}

/* At once: nothing runs that would need the grace. */
static void end_with(int number) {
  child server = CHILD(REFERENCE, "--grace-ms", "600000");
  child_send(server.in, ECHO);
  child_expect_line(server.out, ECHOED);
  kill(server.pid, number);
  assert_int_equal(child_wait(&server), 0);
}

static void sigterm_sigint_and_sighup_end_an_idle_server(void **state) {
  (void)state;
  end_with(SIGTERM);
  end_with(SIGINT);
  end_with(SIGHUP);
}

/* The signal comes at every moment around the one at which the server goes back to reading. */
static void no_moment_misses_a_signal(void **state) {
  (void)state;
  for (int i = 0; i < 40; i++) {
    child server = CHILD(REFERENCE);
    child_line_with(server.err, "listening on");
    for (int k = 0; k < i; k++) child_send(server.in, ECHO);
    if (i % 2) child_expect_line(server.out, ECHOED);
    kill(server.pid, SIGTERM);
    assert_int_equal(child_wait(&server), 0);
  }
}

static void a_signal_gives_running_requests_their_grace(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--grace-ms", "100");
  child_send(server.in,
             SLEEP "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"sleep\",\"params\":[1]}\n");
  child_expect_line(server.out, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":null}");
  kill(server.pid, SIGTERM);
  child_expect_line(server.out, SLEEP_FAILED);
  assert_int_equal(child_end(&server), 0);
}

static void a_second_signal_ends_it_at_once(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--grace-ms", "600000");
  child_send(server.in, SLEEP ECHO);
  child_expect_line(server.out, ECHOED);
  kill(server.pid, SIGTERM);
  child_line_with(server.err,
                  "shutting down gracefully detail=signal Terminated; 1 connection; calls "
                  "that run have 600000 ms to finish (grace_ms)");
  kill(server.pid, SIGTERM);
  assert_int_equal(child_wait(&server), 128 + SIGTERM);
}

/* Sends until the server takes no more, without ever reading its answers. */
static void fill(int fd) {
  fcntl(fd, F_SETFL, O_NONBLOCK);
  struct pollfd room = {.fd = fd, .events = POLLOUT};
  char line[4096];
  int head = snprintf(line, sizeof line,
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\","
                      "\"params\":[\"");
  memset(line + head, 'x', sizeof line - (size_t)head);
  static const char tail[] = {'"', ']', '}', '\n'};
  memcpy(line + sizeof line - sizeof tail, tail, sizeof tail);
  while (poll(&room, 1, 300) > 0) {
    size_t sent = 0;
    while (sent < sizeof line) {
      ssize_t n = write(fd, line + sent, sizeof line - sent);
      if (n > 0) sent += (size_t)n;
      if (n <= 0 && poll(&room, 1, 300) <= 0) return;
    }
  }
}

static void a_peer_that_does_not_read_cannot_grow_memory(void **state) {
  (void)state;
  child server = CHILD(REFERENCE);
  child_line_with(server.err, "listening on");
  fill(server.in);
  /* 16 MiB may be queued; with sanitizers memory is kept a while, so the bound is a wide one. */
  assert_true(child_rss_kb(server.pid) < 160 * 1024L);
  kill(server.pid, SIGTERM);
  assert_int_equal(child_wait(&server), 0);
}

static void a_peer_that_reads_late_gets_every_answer(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--grace-ms", "600000");
  enum { COUNT = 20000 };
  pid_t writer = fork();
  if (writer == 0) {
    for (int i = 0; i < COUNT; i++) child_send(server.in, ECHO);
    _exit(0);
  }
  close_input(&server);
  child_line_with(server.err, "listening on");
  struct pollfd full = {.fd = server.out, .events = POLLIN};
  assert_int_equal(poll(&full, 1, 60000), 1);
  static char answers[COUNT * sizeof ECHOED];
  size_t len = 0;
  ssize_t n;
  while ((n = read(server.out, answers + len, sizeof answers - len)) > 0) len += (size_t)n;
  assert_int_equal(len, COUNT * sizeof ECHOED);
  assert_int_equal(waitpid(writer, NULL, 0), writer);
  assert_int_equal(child_end(&server), 0);
}

static void work_that_never_ends_does_not_keep_the_server(void **state) {
  (void)state;
  child server = CHILD(CARELESS);
  child_send(server.in, "{\"jsonrpc\":\"2.0\",\"id\":\"s\",\"method\":\"stall\"}\n");
  close_input(&server);
  child_expect_line(server.out, SLEEP_FAILED);
  assert_int_equal(child_wait(&server), 0);
}

/* A server on stdio blocks in read when nothing but input can make progress; whoever was given the loop
 * once may have something there at any time. */
static void handles_that_keep_no_loop_alive_are_served_on_stdio(void **state) {
  (void)state;
  child server = CHILD(CARELESS);
  for (int i = 0; i < 3; i++) {
    child_send(server.in, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"quiet_timer\"}\n");
    child_expect_line(server.out, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"in time\"}");
    child_send(server.in, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"print\"}\n");
    child_expect_line(server.out, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":\"printed\"}");
  }
  close_input(&server);
  assert_int_equal(child_end(&server), 0);
}

/* ---------------------------------------------------------------------------- shutdown */

static void send_framed(int fd, const char *body) {
  char message[512];
  snprintf(message, sizeof message, "Content-Length: %zu\r\n\r\n%s", strlen(body), body);
  child_send(fd, message);
}

#define SHUTDOWN "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"shutdown\"}"
#define EXIT "{\"jsonrpc\":\"2.0\",\"method\":\"exit\"}"

static void exit_after_shutdown_ends_a_server_on_stdio(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--profile", "lsp");
  send_framed(server.in, SHUTDOWN);
  send_framed(server.in, EXIT);
  assert_non_null(strstr(child_rest(server.out), "Shutting down gracefully"));
  const char *log = child_rest(server.err);
  assert_non_null(strstr(log, "INFO  shutdown was asked for id=1 method=shutdown peer=stdio"));
  assert_null(strstr(log, "did not exit"));
  assert_int_equal(child_wait(&server), 0);
}

static void damaged_frames_are_told_with_their_size(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--profile", "lsp");
  child_send(server.in, "Content-Length: x\r\n\r\n");
  child_line_with(server.err, "detail=bad-content-length, 19 bytes");
  child_send(server.in, "Content-Length: 2\r\nContent-Type: text/plain\r\n\r\n{}");
  child_line_with(server.err, "detail=unsupported-content-type, 2 bytes");
  child_send(server.in, "Content-Length: 99999999\r\n\r\n");
  child_line_with(server.err, "detail=oversize, 99999999 bytes");
  child_end(&server);
}

static void shutdown_without_exit_ends_a_server_on_stdio_after_two_seconds(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--profile", "lsp");
  uint64_t began = child_now_ms();
  send_framed(server.in, SHUTDOWN);
  assert_non_null(strstr(child_rest(server.out), "Shutting down gracefully"));
  assert_true(child_now_ms() - began >= 1900);
  const char *log = child_rest(server.err);
  assert_non_null(strstr(log, "INFO  closing a connection that did not exit after shutdown"));
  assert_int_equal(child_wait(&server), 0);
}

static void shutdown_over_a_socket_ends_that_conn_only(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--profile", "lsp", "--tcp", "127.0.0.1:0");
  char url[128];
  child_listening(&server, url, sizeof url);
  int first = child_connect(url), second = child_connect(url);
  send_framed(first, SHUTDOWN);
  send_framed(first, EXIT);
  assert_non_null(strstr(child_rest(first), "Shutting down gracefully"));
  send_framed(second, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"get_data\"}");
  assert_memory_equal(child_line(second), "Content-Length: ", 16);
  close(first);
  close(second);
  kill(server.pid, SIGTERM);
  assert_int_equal(child_end(&server), 0);
}

static void shutdown_over_a_socket_ends_the_server_where_allowed(void **state) {
  (void)state;
  child server =
      CHILD(REFERENCE, "--profile", "lsp", "--tcp", "127.0.0.1:0", "--shutdown-ends-server");
  char url[128];
  child_listening(&server, url, sizeof url);
  int fd = child_connect(url);
  send_framed(fd, "{\"jsonrpc\":\"2.0\",\"method\":\"shutdown\"}");
  send_framed(fd, EXIT);
  assert_string_equal(child_rest(fd), "");
  assert_int_equal(child_wait(&server), 0);
  close(fd);
}

/* --------------------------------------------------------------------------------- logs */

static void read_file(const char *path, char *text, size_t size) {
  FILE *file = fopen(path, "re");
  assert_non_null(file);
  text[fread(text, 1, size - 1, file)] = 0;
  fclose(file);
}

static void sighup_with_listeners_reopens_the_log(void **state) {
  (void)state;
  char folder[64], log[96], moved[96], text[8192];
  child_make_folder(folder, sizeof folder);
  snprintf(log, sizeof log, "%s/log", folder);
  snprintf(moved, sizeof moved, "%s/log.1", folder);
  setenv("IDEM_LOG", log, 1);
  char address[128];
  snprintf(address, sizeof address, "%s/socket", folder);
  child server = CHILD(REFERENCE, "--unix", address, "--stdio");
  unsetenv("IDEM_LOG");
  child_send(server.in, ECHO);
  child_expect_line(server.out, ECHOED); /* it serves, so its log is open */
  pid_t server_pid = server.pid;
  assert_int_equal(rename(log, moved), 0);
  kill(server.pid, SIGHUP);
  while (access(log, F_OK) != 0) { /* an answer is a turn of its loop */
    child_send(server.in, ECHO);
    child_expect_line(server.out, ECHOED);
  }
  assert_int_equal(child_end(&server), 0);
  read_file(moved, text, sizeof text);
  char sink[192];
  snprintf(sink, sizeof sink, ", pid %d, level info, sink %s\n", (int)server_pid, log);
  assert_non_null(strstr(text, sink));
  assert_non_null(strstr(text, "INFO  idem started detail=version " IDEM_VERSION ", pid "));
  assert_null(strstr(text, "stdin closed"));
  read_file(log, text, sizeof text);
  snprintf(sink, sizeof sink, "INFO  log reopened detail=%s\n", log);
  assert_non_null(strstr(text, sink));
  assert_non_null(strstr(text, "stdin closed"));
  child_remove_folder(folder);
}

static void a_log_that_cannot_be_opened_anew_goes_on_in_the_old_file(void **state) {
  (void)state;
  char folder[64], log[96], moved[80], text[8192];
  child_make_folder(folder, sizeof folder);
  snprintf(log, sizeof log, "%s/log", folder);
  snprintf(moved, sizeof moved, "%s-moved", folder);
  setenv("IDEM_LOG", log, 1);
  child server = CHILD(REFERENCE, "--tcp", "127.0.0.1:0", "--stdio");
  unsetenv("IDEM_LOG");
  child_send(server.in, ECHO);
  child_expect_line(server.out, ECHOED);
  assert_int_equal(rename(folder, moved), 0);
  snprintf(log, sizeof log, "%s/log", moved);
  kill(server.pid, SIGHUP);
  do { /* an answer is a turn of its loop */
    child_send(server.in, ECHO);
    child_expect_line(server.out, ECHOED);
    read_file(log, text, sizeof text);
  } while (!strstr(text, "cannot open the log file anew, keeping the old one"));
  assert_int_equal(child_end(&server), 0);
  read_file(log, text, sizeof text);
  assert_non_null(strstr(text, "stdin closed"));
  child_remove_folder(moved);
}

static void a_log_file_that_cannot_be_opened_is_one_warning(void **state) {
  (void)state;
  setenv("IDEM_LOG", "/nonexistent/folder/log", 1);
  child server = CHILD(REFERENCE);
  unsetenv("IDEM_LOG");
  assert_non_null(strstr(child_line(server.err), "IDEM_LOG"));
  assert_non_null(strstr(child_line(server.err), "sink stderr"));
  assert_int_equal(child_end(&server), 0);
}

static void a_stderr_that_nobody_reads_does_not_stop_the_server(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--log-level", "debug");
  for (int i = 0; i < 2000; i++) {
    child_send(server.in, "{\"jsonrpc\":\"2.0\",\"method\":\"update\"}\n" ECHO);
    child_expect_line(server.out, ECHOED);
  }
  static char text[1 << 18];
  assert_true(read(server.err, text, sizeof text) > 0); /* there is room again */
  child_send(server.in, "{\"jsonrpc\":\"2.0\",\"method\":\"update\"}\n" ECHO);
  child_expect_line(server.out, ECHOED);
  assert_non_null(
      strstr(child_line_with(server.err, "log lines were dropped"), "nobody read them"));
  assert_int_equal(child_end(&server), 0);
}

static void logs_can_be_json(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--log-format", "json");
  const char *line = child_line(server.err);
  assert_int_equal(line[0], '{');
  assert_int_equal(line[strlen(line) - 1], '}');
  assert_int_equal(child_end(&server), 0);
}

/* -------------------------------------------------------------------------- bad beginnings */

static int complains(child server, const char *about) {
  assert_non_null(strstr(child_rest(server.err), about));
  return child_end(&server);
}

static void a_wrong_command_line_ends_with_2(void **state) {
  (void)state;
  assert_int_equal(complains(CHILD(REFERENCE, "--nonsense"), "try: idem-reference --help"), 2);
  assert_int_equal(complains(CHILD(REFERENCE, "--profile", "x"), "--profile"), 2);
  assert_int_equal(complains(CHILD(REFERENCE, "--profile"), "missing"), 2);
  assert_int_equal(complains(CHILD(REFERENCE, "--tcp", "127.0.0.1:99999"), "--tcp"), 2);
}

static void what_cannot_start_ends_with_1(void **state) {
  (void)state;
  assert_int_equal(complains(CHILD(REFERENCE, "--tcp", ":1"), "not an address"), 1);
  assert_int_equal(complains(CHILD(REFERENCE, "--unix", "/nonexistent/a"), "cannot listen"), 1);
}

static void help_and_version_go_to_stdout(void **state) {
  (void)state;
  child help = CHILD(REFERENCE, "--help"), version = CHILD(REFERENCE, "--version");
  assert_non_null(strstr(child_rest(help.out), "--profile"));
  assert_non_null(strstr(child_rest(version.out), "idem-reference 0."));
  assert_int_equal(child_end(&help), 0);
  assert_int_equal(child_end(&version), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_first_lines_tell_version_pid_level_sink_and_address),
      cmocka_unit_test(end_of_input_ends_the_server),
      cmocka_unit_test(what_was_asked_before_the_end_of_input_is_answered),
      cmocka_unit_test(answers_wait_for_a_reader_after_the_end_of_input),
      cmocka_unit_test(what_cannot_finish_is_answered_with_an_error),
      cmocka_unit_test(sigterm_sigint_and_sighup_end_an_idle_server),
      cmocka_unit_test(no_moment_misses_a_signal),
      cmocka_unit_test(a_signal_gives_running_requests_their_grace),
      cmocka_unit_test(a_second_signal_ends_it_at_once),
      cmocka_unit_test(a_peer_that_does_not_read_cannot_grow_memory),
      cmocka_unit_test(a_peer_that_reads_late_gets_every_answer),
      cmocka_unit_test(work_that_never_ends_does_not_keep_the_server),
      cmocka_unit_test(handles_that_keep_no_loop_alive_are_served_on_stdio),
      cmocka_unit_test(exit_after_shutdown_ends_a_server_on_stdio),
      cmocka_unit_test(shutdown_without_exit_ends_a_server_on_stdio_after_two_seconds),
      cmocka_unit_test(shutdown_over_a_socket_ends_that_conn_only),
      cmocka_unit_test(shutdown_over_a_socket_ends_the_server_where_allowed),
      cmocka_unit_test(sighup_with_listeners_reopens_the_log),
      cmocka_unit_test(a_log_that_cannot_be_opened_anew_goes_on_in_the_old_file),
      cmocka_unit_test(a_log_file_that_cannot_be_opened_is_one_warning),
      cmocka_unit_test(a_stderr_that_nobody_reads_does_not_stop_the_server),
      cmocka_unit_test(logs_can_be_json),
      cmocka_unit_test(a_wrong_command_line_ends_with_2),
      cmocka_unit_test(damaged_frames_are_told_with_their_size),
      cmocka_unit_test(what_cannot_start_ends_with_1),
      cmocka_unit_test(help_and_version_go_to_stdout),
  };
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
