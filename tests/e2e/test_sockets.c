/* test_sockets.c - serving TCP and Unix sockets, to clients that are plain sockets. */
#include "child.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define ECHO "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[1]}\n"
#define ECHOED "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[1]}"

typedef struct served {
  child server;
  char url[128];
} served;

#define SERVE(...) serve(CHILD(__VA_ARGS__))
static served serve(child server) {
  served self = {.server = server};
  child_listening(&self.server, self.url, sizeof self.url);
  return self;
}

static void stop(served *self) {
  kill(self->server.pid, SIGTERM);
  assert_int_equal(child_end(&self->server), 0);
}

static void expect_refusal(child server) {
  child_line_with(server.err, "cannot listen");
  assert_int_equal(child_end(&server), 1);
}

static void ask(int fd) {
  child_send(fd, ECHO);
  child_expect_line(fd, ECHOED);
}

static void speak(const char *url) {
  int fd = child_connect(url);
  child_send(fd, ECHO ECHO);
  child_expect_line(fd, ECHOED);
  child_expect_line(fd, ECHOED);
  close(fd);
}

/* A folder of its own for a socket. */
typedef struct place {
  char folder[64], path[96];
} place;

static place make_place(void) {
  place self;
  child_make_folder(self.folder, sizeof self.folder);
  snprintf(self.path, sizeof self.path, "%s/socket", self.folder);
  return self;
}

static void several_addresses_are_served_at_once(void **state) {
  (void)state;
  char tcp[128], local[128];
  place at = make_place();
  child server = CHILD(REFERENCE, "--tcp", "127.0.0.1:0", "--unix", at.path, "--stdio");
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
  child_remove_folder(at.folder);
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
  served it = SERVE(REFERENCE, "--tcp", "localhost:0");
  speak(it.url);
  int port = 0;
  assert_int_equal(sscanf(it.url, "tcp://localhost:%d", &port), 1);
  int fd = connect_v6((uint16_t)port);
  assert_int_equal(fd >= 0, machine_has_v6());
  if (fd >= 0) {
    ask(fd);
    close(fd);
  }
  stop(&it);
}

static void a_taken_port_is_refused(void **state) {
  (void)state;
  served it = SERVE(REFERENCE, "--tcp", "127.0.0.1:0");
  expect_refusal(CHILD(REFERENCE, "--tcp", it.url + strlen("tcp://")));
  speak(it.url);
  stop(&it);
}

/* Connections of the last server linger in the kernel; the port can be had again all the same. */
static void a_port_can_be_had_again_at_once(void **state) {
  (void)state;
  served it = SERVE(REFERENCE, "--tcp", "127.0.0.1:0");
  int fd = child_connect(it.url);
  ask(fd);
  stop(&it);
  served second = SERVE(REFERENCE, "--tcp", it.url + strlen("tcp://"));
  speak(it.url);
  close(fd);
  stop(&second);
}

static void open_requests_are_answered_when_the_server_stops(void **state) {
  (void)state;
  served it = SERVE(REFERENCE, "--tcp", "127.0.0.1:0", "--grace-ms", "50");
  int fd = child_connect(it.url);
  child_send(fd, "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"sleep\",\"params\":[60000]}\n" ECHO);
  child_expect_line(fd, ECHOED);
  kill(it.server.pid, SIGTERM);
  child_expect_line(fd, "{\"jsonrpc\":\"2.0\",\"id\":9,\"error\":{\"code\":-32603,"
                        "\"message\":\"Internal error\"}}");
  assert_string_equal(child_rest(fd), "");
  close(fd);
  assert_int_equal(child_end(&it.server), 0);
}

static void a_half_closed_client_gets_its_answers(void **state) {
  (void)state;
  served it = SERVE(REFERENCE, "--tcp", "127.0.0.1:0");
  int fd = child_connect(it.url);
  child_send(fd, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sleep\",\"params\":[50]}\n");
  shutdown(fd, SHUT_WR);
  assert_string_equal(child_rest(fd), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}\n");
  close(fd);
  stop(&it);
}

static void reset(int fd) {
  assert_int_equal(
      setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger)),
      0);
  close(fd);
}

/* After the end of its input only errors are watched for. */
static void a_half_closed_client_that_goes_is_noticed(void **state) {
  (void)state;
  served it = SERVE(REFERENCE, "--tcp", "127.0.0.1:0", "--max-connections", "1");
  for (int i = 0; i < 2; i++) {
    int fd = child_connect(it.url);
    ask(fd);
    child_send(fd, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sleep\",\"params\":[600000]}\n");
    shutdown(fd, SHUT_WR);
    reset(fd);
    bool answered = false; /* by the only place there is */
    for (uint64_t until = child_now_ms() + 60000; !answered && child_now_ms() < until;) {
      int next = child_connect(it.url);
      struct pollfd reply = {.fd = next, .events = POLLIN};
      char byte;
      answered = send(next, ECHO, strlen(ECHO), MSG_NOSIGNAL) > 0 && poll(&reply, 1, 60000) > 0 &&
                 recv(next, &byte, 1, MSG_PEEK) == 1;
      shutdown(next, SHUT_WR);
      if (answered) assert_string_equal(child_rest(next), ECHOED "\n");
      close(next);
    }
    assert_true(answered);
  }
  stop(&it);
}

static void urgent_data_is_no_end(void **state) {
  (void)state;
  served it = SERVE(REFERENCE, "--tcp", "127.0.0.1:0");
  int fd = child_connect(it.url);
  ask(fd);
  child_send(fd, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sleep\",\"params\":[50]}\n");
  assert_int_equal(send(fd, "!", 1, MSG_OOB), 1);
  shutdown(fd, SHUT_WR);
  assert_string_equal(child_rest(fd), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}\n");
  close(fd);
  stop(&it);
}

/* ------------------------------------------------------------------------- Unix sockets */

static void a_unix_socket_is_its_owners_alone_and_goes_with_the_server(void **state) {
  (void)state;
  place at = make_place();
  served it = SERVE(REFERENCE, "--unix", at.path);
  struct stat made;
  assert_int_equal(stat(at.path, &made), 0);
  assert_int_equal(made.st_mode & 0777, 0600);
  stop(&it);
  assert_int_equal(access(at.path, F_OK), -1);
  child_remove_folder(at.folder);
}

static void a_stale_socket_is_replaced_and_a_live_one_is_not(void **state) {
  (void)state;
  place at = make_place();
  served it = SERVE(REFERENCE, "--unix", at.path);
  expect_refusal(CHILD(REFERENCE, "--unix", at.path));
  speak(it.url);
  kill(it.server.pid, SIGKILL);
  assert_int_equal(child_end(&it.server), -SIGKILL);
  assert_int_equal(access(at.path, F_OK), 0);
  it = SERVE(REFERENCE, "--unix", at.path);
  speak(it.url);
  stop(&it);
  child_remove_folder(at.folder);
}

static void a_file_that_is_no_socket_is_left_alone(void **state) {
  (void)state;
  place at = make_place();
  close(open(at.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  expect_refusal(CHILD(REFERENCE, "--unix", at.path));
  assert_int_equal(access(at.path, F_OK), 0);
  child_remove_folder(at.folder);
}

static void a_socket_file_of_someone_else_is_not_removed(void **state) {
  (void)state;
  place at = make_place();
  served it = SERVE(REFERENCE, "--unix", at.path);
  unlink(at.path);
  close(open(at.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  stop(&it);
  assert_int_equal(access(at.path, F_OK), 0);
  child_remove_folder(at.folder);
}

/* -------------------------------------------------------------------------------- limits */

static void connections_beyond_the_maximum_are_closed(void **state) {
  (void)state;
  served it = SERVE(REFERENCE, "--tcp", "127.0.0.1:0", "--max-connections", "2");
  int silent[3] = {child_connect(it.url), child_connect(it.url), child_connect(it.url)};
  int first = child_connect(it.url), second = child_connect(it.url);
  ask(first); /* who has never said a word gives way to who does */
  ask(second);
  for (int i = 0; i < 3; i++) {
    assert_string_equal(child_rest(silent[i]), "");
    close(silent[i]);
  }
  int third = child_connect(it.url);
  assert_string_equal(child_rest(third), "");
  child_line_with(it.server.err, "max_connections reached");
  ask(first);
  ask(second);
  close(third);
  shutdown(first, SHUT_WR); /* its end makes room for another */
  assert_string_equal(child_rest(first), "");
  close(first);
  int fourth = -1;
  for (bool answered = false; !answered;) {
    if (fourth >= 0) close(fourth);
    fourth = child_connect(it.url);
    struct pollfd reply = {.fd = fourth, .events = POLLIN};
    char byte;
    answered = send(fourth, ECHO, strlen(ECHO), MSG_NOSIGNAL) > 0 && poll(&reply, 1, 60000) > 0 &&
               recv(fourth, &byte, 1, MSG_PEEK) == 1;
  }
  child_expect_line(fourth, ECHOED);
  close(fourth);
  close(second);
  stop(&it);
}

static void running_out_of_descriptors_is_survived(void **state) {
  (void)state;
  static const char command[] = "ulimit -n 24; exec " REFERENCE " --tcp 127.0.0.1:0";
  served it = SERVE("/bin/sh", "-c", command);
  int fds[40];
  for (int i = 0; i < 40; i++) fds[i] = child_connect(it.url);
  child_line_with(it.server.err, "cannot accept for now");
  ask(fds[0]);
  for (int i = 0; i < 39; i++) close(fds[i]);
  ask(fds[39]); /* the last in the queue is accepted once there is room */
  close(fds[39]);
  stop(&it);
}

/* ------------------------------------------------------------------------- hostile peers */

static void post_to(const char *framing) {
  served it = SERVE(REFERENCE, "--tcp", "127.0.0.1:0", "--framing", framing);
  int fd = child_connect(it.url);
  child_send(fd, "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://example.com\r\n"
                 "Content-Type: text/plain\r\nContent-Length: 58\r\n\r\n" ECHO);
  assert_null(strstr(child_rest(fd), "result"));
  close(fd);
  stop(&it);
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
  served it = SERVE(REFERENCE, "--tcp", "127.0.0.1:0", "--grace-ms", "600000");
  int deaf = child_connect(it.url), other = child_connect(it.url);
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
  assert_true(child_rss_kb(it.server.pid) < 160 * 1024L);
  ask(other); /* and the others are served */
  close(deaf);
  close(other);
  kill(it.server.pid, SIGTERM);
  assert_int_equal(child_wait(&it.server), 0);
}

static void expect_end(int fd) {
  char byte;
  assert_int_equal(read(fd, &byte, 1), 0);
  close(fd);
}

/* Whoever has said something may wait. */
static void who_says_nothing_has_a_short_time(void **state) {
  (void)state;
  char tcp[128], local[128];
  place at = make_place();
  child server = CHILD(REFERENCE, "--tcp", "127.0.0.1:0", "--unix", at.path, "--first-ms", "100");
  child_listening(&server, tcp, sizeof tcp);
  child_listening(&server, local, sizeof local);
  int known = child_connect(tcp);
  ask(known);
  expect_end(child_connect(tcp));
  expect_end(child_connect(local));
  ask(known);
  close(known);
  kill(server.pid, SIGTERM);
  assert_int_equal(child_end(&server), 0);
  child_remove_folder(at.folder);
}

#define NOTE "{\"jsonrpc\":\"2.0\",\"method\":\"echo\"}"
#define TOO_FAST                                                                                   \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32000,\"message\":\"Rate limited\","         \
  "\"data\":{\"reason\":\"rate-limited\"}}}"

/* A new connection is the same client; elements of a batch count, and notifications. */
static void expect_rate_limit(const char *url) {
  int one = child_connect(url), other = child_connect(url);
  ask(one);
  child_send(other, "[" NOTE "," NOTE "]\n");
  ask(other);
  child_send(other, ECHO);
  child_expect_line(other, TOO_FAST);
  child_send(one, ECHO);
  child_expect_line(one, TOO_FAST);
  close(one), close(other);
}

static void the_rate_limit_holds_on_stdio(void **state) {
  (void)state;
  char admin[128];
  child server = CHILD(REFERENCE, "--stdio", "--admin", "127.0.0.1:0", "--rate-limit", "2/3600");
  child_line_with(server.err, "listening on stdio:");
  child_listening(&server, admin, sizeof admin);
  child_send(server.in, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"get_data\"}\n");
  child_expect_line(server.out, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[\"hello\",5]}");
  child_send(server.in, "{\"jsonrpc\":\"2.0\",\"method\":\"update\"}\n"
                        "{\"jsonrpc\":\"2.0\",\"method\":\"update\"}\n"
                        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"get_data\"}\n");
  assert_non_null(strstr(child_line(server.out), "\"id\":2,\"error\":{\"code\":-32000,"));
  child_line_with(server.err, "WARN  a notification was dropped method=update peer=stdio "
                              "detail=rate-limited, ");
  char address[128];
  snprintf(address, sizeof address, "tcp%s", strstr(admin, "://"));
  address[strcspn(address + 6, "/") + 6] = 0;
  int fd = child_connect(address);
  child_send(fd, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  assert_non_null(strstr(child_rest(fd), "\nidem_rate_limited_total 2\n"));
  close(fd);
  assert_int_equal(child_end(&server), 0);
}

static void the_rate_limit_holds_on_sockets(void **state) {
  (void)state;
  char tcp[128], local[128];
  place at = make_place();
  child server =
      CHILD(REFERENCE, "--tcp", "127.0.0.1:0", "--unix", at.path, "--rate-limit", "4/3600");
  child_listening(&server, tcp, sizeof tcp);
  child_listening(&server, local, sizeof local);
  expect_rate_limit(tcp);
  expect_rate_limit(local);
  kill(server.pid, SIGTERM);
  assert_int_equal(child_end(&server), 0);
  child_remove_folder(at.folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(several_addresses_are_served_at_once),
      cmocka_unit_test(localhost_is_both_loopback_addresses),
      cmocka_unit_test(a_taken_port_is_refused),
      cmocka_unit_test(who_says_nothing_has_a_short_time),
      cmocka_unit_test(the_rate_limit_holds_on_sockets),
      cmocka_unit_test(the_rate_limit_holds_on_stdio),
      cmocka_unit_test(a_port_can_be_had_again_at_once),
      cmocka_unit_test(open_requests_are_answered_when_the_server_stops),
      cmocka_unit_test(a_half_closed_client_gets_its_answers),
      cmocka_unit_test(a_half_closed_client_that_goes_is_noticed),
      cmocka_unit_test(urgent_data_is_no_end),
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
