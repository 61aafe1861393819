/* test_sockets.c - serving TCP and Unix sockets, to clients that are plain sockets. */
#include "child.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define ECHO "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[1]}\n"
#define ECHOED "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[1]}"

static void stop(child *server) {
  kill(server->pid, SIGTERM);
  assert_int_equal(child_end(server), 0);
}

static void speak(const char *url) {
  int fd = child_connect(url);
  child_send(fd, ECHO ECHO);
  child_expect_line(fd, ECHOED);
  child_expect_line(fd, ECHOED);
  close(fd);
}

static void several_addresses_are_served_at_once(void **state) {
  (void)state;
  char folder[64], path[96], tcp[128], local[128];
  child_make_folder(folder, sizeof folder);
  snprintf(path, sizeof path, "%s/socket", folder);
  child server = CHILD(REFERENCE, "--tcp", "127.0.0.1:0", "--unix", path, "--stdio");
  child_listening(&server, tcp, sizeof tcp);
  child_listening(&server, local, sizeof local);
  assert_memory_equal(tcp, "tcp://127.0.0.1:", 16);
  assert_null(strstr(tcp, ":0"));
  assert_memory_equal(local, "unix:/", 6);
  speak(tcp);
  speak(local);
  child_send(server.in, ECHO);
  child_expect_line(server.out, ECHOED);
  assert_int_equal(child_end(&server), 0); /* end of input on stdio ends all of it */
  child_remove_folder(folder);
}

static int connect_v6(uint16_t port) {
  struct sockaddr_in6 address = {
      .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT, .sin6_port = htons(port)};
  int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

static bool machine_has_v6(void) {
  struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool has = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
  if (fd >= 0) close(fd);
  return has;
}

static void localhost_is_both_loopback_addresses(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--tcp", "localhost:0");
  char url[128];
  child_listening(&server, url, sizeof url);
  speak(url);
  int port = 0;
  assert_int_equal(sscanf(url, "tcp://localhost:%d", &port), 1);
  int fd = connect_v6((uint16_t)port);
  assert_int_equal(fd >= 0, machine_has_v6());
  if (fd >= 0) {
    child_send(fd, ECHO);
    child_expect_line(fd, ECHOED);
    close(fd);
  }
  stop(&server);
}

static void a_taken_port_is_refused(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--tcp", "127.0.0.1:0");
  char url[128];
  child_listening(&server, url, sizeof url);
  child second = CHILD(REFERENCE, "--tcp", url + strlen("tcp://"));
  child_line_with(second.err, "cannot listen");
  assert_int_equal(child_end(&second), 1);
  speak(url);
  stop(&server);
}

/* Connections of the last server linger in the kernel; the port can be had again all the same. */
static void a_port_can_be_had_again_at_once(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--tcp", "127.0.0.1:0");
  char url[128];
  child_listening(&server, url, sizeof url);
  int fd = child_connect(url);
  child_send(fd, ECHO);
  child_expect_line(fd, ECHOED);
  stop(&server);
  child second = CHILD(REFERENCE, "--tcp", url + strlen("tcp://"));
  child_line_with(second.err, "listening on");
  speak(url);
  close(fd);
  stop(&second);
}

static void open_requests_are_answered_when_the_server_stops(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--tcp", "127.0.0.1:0", "--grace-ms", "50");
  char url[128];
  child_listening(&server, url, sizeof url);
  int fd = child_connect(url);
  child_send(fd, "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"sleep\",\"params\":[60000]}\n" ECHO);
  child_expect_line(fd, ECHOED);
  kill(server.pid, SIGTERM);
  child_expect_line(fd, "{\"jsonrpc\":\"2.0\",\"id\":9,\"error\":{\"code\":-32603,"
                        "\"message\":\"Internal error\"}}");
  assert_string_equal(child_rest(fd), "");
  close(fd);
  assert_int_equal(child_end(&server), 0);
}

static void a_half_closed_client_gets_its_answers(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--tcp", "127.0.0.1:0");
  char url[128];
  child_listening(&server, url, sizeof url);
  int fd = child_connect(url);
  child_send(fd, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sleep\",\"params\":[50]}\n");
  shutdown(fd, SHUT_WR);
  assert_string_equal(child_rest(fd), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}\n");
  close(fd);
  stop(&server);
}

/* ------------------------------------------------------------------------- Unix sockets */

static void a_unix_socket_is_its_owners_alone_and_goes_with_the_server(void **state) {
  (void)state;
  char folder[64], path[96], url[128];
  child_make_folder(folder, sizeof folder);
  snprintf(path, sizeof path, "%s/socket", folder);
  child server = CHILD(REFERENCE, "--unix", path);
  child_listening(&server, url, sizeof url);
  struct stat made;
  assert_int_equal(stat(path, &made), 0);
  assert_int_equal(made.st_mode & 0777, 0600);
  stop(&server);
  assert_int_equal(access(path, F_OK), -1);
  child_remove_folder(folder);
}

static void a_stale_socket_is_replaced_and_a_live_one_is_not(void **state) {
  (void)state;
  char folder[64], path[96], url[128];
  child_make_folder(folder, sizeof folder);
  snprintf(path, sizeof path, "%s/socket", folder);
  child server = CHILD(REFERENCE, "--unix", path);
  child_listening(&server, url, sizeof url);
  child second = CHILD(REFERENCE, "--unix", path);
  child_line_with(second.err, "cannot listen");
  assert_int_equal(child_end(&second), 1);
  speak(url);
  kill(server.pid, SIGKILL);
  assert_int_equal(child_end(&server), -SIGKILL);
  assert_int_equal(access(path, F_OK), 0);
  server = CHILD(REFERENCE, "--unix", path);
  child_listening(&server, url, sizeof url);
  speak(url);
  stop(&server);
  child_remove_folder(folder);
}

static void a_file_that_is_no_socket_is_left_alone(void **state) {
  (void)state;
  char folder[64], path[96];
  child_make_folder(folder, sizeof folder);
  snprintf(path, sizeof path, "%s/precious", folder);
  close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  child server = CHILD(REFERENCE, "--unix", path);
  child_line_with(server.err, "cannot listen");
  assert_int_equal(child_end(&server), 1);
  assert_int_equal(access(path, F_OK), 0);
  child_remove_folder(folder);
}

static void a_socket_file_of_someone_else_is_not_removed(void **state) {
  (void)state;
  char folder[64], path[96], url[128];
  child_make_folder(folder, sizeof folder);
  snprintf(path, sizeof path, "%s/socket", folder);
  child server = CHILD(REFERENCE, "--unix", path);
  child_listening(&server, url, sizeof url);
  unlink(path);
  close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  stop(&server);
  assert_int_equal(access(path, F_OK), 0);
  child_remove_folder(folder);
}

/* -------------------------------------------------------------------------------- limits */

static void connections_beyond_the_maximum_are_closed(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--tcp", "127.0.0.1:0", "--max-connections", "2");
  char url[128];
  child_listening(&server, url, sizeof url);
  int first = child_connect(url), second = child_connect(url), third = child_connect(url);
  assert_string_equal(child_rest(third), "");
  child_line_with(server.err, "max_connections reached");
  child_send(first, ECHO);
  child_expect_line(first, ECHOED);
  child_send(second, ECHO);
  child_expect_line(second, ECHOED);
  close(third);
  shutdown(first, SHUT_WR); /* its end makes room for another */
  assert_string_equal(child_rest(first), "");
  close(first);
  int fourth = -1;
  for (bool answered = false; !answered;) {
    if (fourth >= 0) close(fourth);
    fourth = child_connect(url);
    struct pollfd reply = {.fd = fourth, .events = POLLIN};
    char byte;
    answered = send(fourth, ECHO, strlen(ECHO), MSG_NOSIGNAL) > 0 && poll(&reply, 1, 20000) > 0 &&
               recv(fourth, &byte, 1, MSG_PEEK) == 1;
  }
  child_expect_line(fourth, ECHOED);
  close(fourth);
  close(second);
  stop(&server);
}

static void running_out_of_descriptors_is_survived(void **state) {
  (void)state;
  static const char command[] = "ulimit -n 24; exec " REFERENCE " --tcp 127.0.0.1:0";
  child server = CHILD("/bin/sh", "-c", command);
  char url[128];
  child_listening(&server, url, sizeof url);
  int fds[40];
  for (int i = 0; i < 40; i++) fds[i] = child_connect(url);
  child_line_with(server.err, "cannot accept for now");
  child_send(fds[0], ECHO);
  child_expect_line(fds[0], ECHOED);
  for (int i = 0; i < 39; i++) close(fds[i]);
  child_send(fds[39], ECHO); /* the last in the queue is accepted once there is room */
  child_expect_line(fds[39], ECHOED);
  close(fds[39]);
  stop(&server);
}

/* ------------------------------------------------------------------------- hostile peers */

static void post_to(const char *framing) {
  child server = CHILD(REFERENCE, "--tcp", "127.0.0.1:0", "--framing", framing);
  char url[128];
  child_listening(&server, url, sizeof url);
  int fd = child_connect(url);
  child_send(fd, "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://example.com\r\n"
                 "Content-Type: text/plain\r\nContent-Length: 58\r\n\r\n" ECHO);
  assert_null(strstr(child_rest(fd), "result"));
  close(fd);
  stop(&server);
}

static void an_http_post_to_a_line_port_is_closed(void **state) {
  (void)state;
  post_to("line");
}
static void an_http_post_to_a_content_length_port_is_closed(void **state) {
  (void)state;
  post_to("content-length");
}

static void a_client_that_does_not_read_cannot_grow_memory(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--tcp", "127.0.0.1:0");
  char url[128];
  child_listening(&server, url, sizeof url);
  int deaf = child_connect(url), other = child_connect(url);
  static char line[65536];
  int head = snprintf(line, sizeof line,
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[\"");
  memset(line + head, 'x', sizeof line - (size_t)head);
  static const char tail[] = {'"', ']', '}', '\n'};
  memcpy(line + sizeof line - sizeof tail, tail, sizeof tail);
  fcntl(deaf, F_SETFL, O_NONBLOCK);
  struct pollfd room = {.fd = deaf, .events = POLLOUT};
  size_t at = 0;
  while (poll(&room, 1, 300) > 0) { /* until it takes no more */
    ssize_t n = send(deaf, line + at, sizeof line - at, MSG_NOSIGNAL);
    if (n > 0) at = (at + (size_t)n) % sizeof line;
  }
  assert_true(child_rss_kb(server.pid) < 160 * 1024L);
  child_send(other, ECHO); /* and the others are served */
  child_expect_line(other, ECHOED);
  close(deaf);
  close(other);
  uint64_t took;
  kill(server.pid, SIGTERM);
  assert_int_equal(child_end_timed(&server, &took), 0);
  assert_true(took < 2000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(several_addresses_are_served_at_once),
      cmocka_unit_test(localhost_is_both_loopback_addresses),
      cmocka_unit_test(a_taken_port_is_refused),
      cmocka_unit_test(a_port_can_be_had_again_at_once),
      cmocka_unit_test(open_requests_are_answered_when_the_server_stops),
      cmocka_unit_test(a_half_closed_client_gets_its_answers),
      cmocka_unit_test(a_unix_socket_is_its_owners_alone_and_goes_with_the_server),
      cmocka_unit_test(a_stale_socket_is_replaced_and_a_live_one_is_not),
      cmocka_unit_test(a_file_that_is_no_socket_is_left_alone),
      cmocka_unit_test(a_socket_file_of_someone_else_is_not_removed),
      cmocka_unit_test(connections_beyond_the_maximum_are_closed),
      cmocka_unit_test(running_out_of_descriptors_is_survived),
      cmocka_unit_test(an_http_post_to_a_line_port_is_closed),
      cmocka_unit_test(an_http_post_to_a_content_length_port_is_closed),
      cmocka_unit_test(a_client_that_does_not_read_cannot_grow_memory),
  };
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
