/* test_serve_transports.c - `idem serve` on every transport, on all of them at once, and the one it
 * chooses when it is told none. */
#include "serving.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static const char program[] = IDEM_BIN_DIR "/idem";

static const char config[] = "{\"tools\":{\"say\":{\"run\":[\"printf\",\"%s\",\"said {what}\"],"
                             "\"args\":{\"what\":\"string\"}}}}";

#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define CALL(what)                                                                                 \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"say\","          \
  "\"arguments\":{\"what\":\"" what "\"}," META "}}"

static int make(void **state) {
  static serving self;
  serving_make(&self, config);
  *state = &self;
  return 0;
}

static int clean_up(void **state) {
  child_remove_folder(((serving *)*state)->folder);
  return 0;
}

static void end_by_signal(child *server) {
  kill(server->pid, SIGTERM);
  assert_int_equal(child_end(server), 0);
}

/* Reads until it is there; what comes may hold any bytes. */
static void read_answer(int fd, const char *wanted) {
  char text[16384];
  size_t len = 0;
  while (!memmem(text, len, wanted, strlen(wanted))) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (poll(&ready, 1, 60000) != 1) fail_msg("no %s in time, but %.*s", wanted, (int)len, text);
    ssize_t got = read(fd, text + len, sizeof text - len);
    if (got <= 0) fail_msg("the end came before %s: %.*s", wanted, (int)len, text);
    len += (size_t)got;
  }
}

/* ------------------------------------------------------------------- one way of asking each */

static void ask_lines(const char *url) {
  int fd = child_connect(url);
  child_send(fd, CALL("over a socket") "\n");
  expect_in(child_line(fd), "said over a socket");
  close(fd);
}

static int connect_web(const char *url) {
  char tcp[128];
  const char *rest = strstr(url, "://");
  expect_in(url, "/mcp");
  snprintf(tcp, sizeof tcp, "tcp%.*s", (int)(strcspn(rest + 3, "/") + 3), rest);
  return child_connect(tcp);
}

static void ask_http(const char *url, const char *headers, const char *wanted) {
  char text[2048];
  int fd = connect_web(url);
  snprintf(text, sizeof text,
           "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
           "Mcp-Method: tools/call\r\nMcp-Name: say\r\n%sContent-Length: %zu\r\n\r\n%s",
           headers, sizeof CALL("by POST") - 1, CALL("by POST"));
  child_send(fd, text);
  read_answer(fd, wanted);
  close(fd);
}

static void ask_websocket(const char *url) {
  static const char message[] = CALL("in a frame");
  int fd = connect_web(url);
  child_send(fd,
             "GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
             "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
  read_answer(fd, "\r\n\r\n");
  /* One final text frame, masked with zeros, its length in two bytes. */
  const unsigned char head[8] = {0x81, 0x80 | 126, (sizeof message - 1) / 256,
                                 (sizeof message - 1) % 256};
  assert_int_equal(write(fd, head, sizeof head), sizeof head);
  child_send(fd, message);
  read_answer(fd, "said in a frame");
  close(fd);
}

static void ask_stdio(const child *server) {
  child_send(server->in, CALL("on stdin") "\n");
  expect_in(child_line(server->out), "said on stdin");
}

/* ---------------------------------------------------------------------------------- promises */

static child start(void **state, const char *first, const char *second) {
  char path[512];
  serving_path(*state, "idem.json", path, sizeof path);
  return CHILD(program, "serve", path, first, second);
}

static void each_transport_serves_alone(void **state) {
  char url[128], path[512];
  serving_path(*state, "socket", path, sizeof path);
  const char *const flags[][2] = {
      {"--http", "0"}, {"--ws", "127.0.0.1:0"}, {"--tcp", "0"}, {"--unix", path}};
  for (size_t i = 0; i < 4; i++) {
    child server = start(state, flags[i][0], flags[i][1]);
    child_listening(&server, url, sizeof url);
    if (i == 0) ask_http(url, "", "said by POST");
    if (i < 2) ask_websocket(url);
    if (i >= 2) ask_lines(url);
    end_by_signal(&server);
  }
  assert_int_equal(access(path, F_OK), -1);
}

static void all_of_them_serve_at_once(void **state) {
  char urls[4][128], path[512], socket_path[512];
  serving_path(*state, "idem.json", path, sizeof path);
  serving_path(*state, "socket", socket_path, sizeof socket_path);
  child server = CHILD(program, "serve", path, "--http", "0", "--ws", "0", "--tcp", "0", "--unix",
                       socket_path, "--stdio");
  for (size_t i = 0; i < 4; i++) child_listening(&server, urls[i], sizeof urls[i]);
  for (int round = 0; round < 2; round++) {
    ask_http(urls[0], "", "said by POST");
    ask_websocket(urls[0]);
    ask_websocket(urls[1]);
    ask_lines(urls[2]);
    ask_lines(urls[3]);
    ask_stdio(&server);
  }
  assert_int_equal(child_end(&server), 0); /* at the end of stdin: who started it is gone */
}

static void a_token_is_asked_for_where_it_can_be(void **state) {
  char url[128], path[512], tokens[512];
  serving_path(*state, "idem.json", path, sizeof path);
  serving_path(*state, "tokens", tokens, sizeof tokens);
  serving_file(*state, "tokens", "first-token-0123456789\nsecond-token-0123456789\n");
  child server = CHILD(program, "serve", path, "--http", "0.0.0.0:0", "--token-file", tokens);
  child_listening(&server, url, sizeof url);
  ask_http(url, "", "HTTP/1.1 401 ");
  ask_http(url, "Authorization: Bearer third-token-0123456789\r\n", "HTTP/1.1 401 ");
  ask_http(url, "Authorization: Bearer second-token-0123456789\r\n", "said by POST");
  end_by_signal(&server);
}

static void a_pipe_or_socket_as_stdin_is_spoken_to(void **state) {
  int pair[2];
  char path[512];
  serving_path(*state, "idem.json", path, sizeof path);
  child piped = CHILD(program, "serve", path);
  ask_stdio(&piped);
  assert_int_equal(child_end(&piped), 0);

  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const char *const argv[] = {program, "serve", path, NULL};
  child socketed = child_start_with(argv, pair[1], pair[1]);
  close(pair[1]);
  child_send(pair[0], CALL("on one socket") "\n");
  expect_in(child_line(pair[0]), "said on one socket");
  close(pair[0]);
  assert_int_equal(child_end(&socketed), 0);
}

/* Whoever has the port: the server cannot, and says which it wanted. */
static int occupy_default_port(void) {
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(8420), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0)
    assert_int_equal(listen(fd, 1), 0);
  return fd;
}

static void expect_default_port(const char *path, int in) {
  const char *const argv[] = {program, "serve", path, NULL};
  child server = child_start_with(argv, in, CHILD_PIPE);
  expect_in(child_line_with(server.err, "http://localhost:8420/mcp"), "another program is there");
  assert_int_equal(child_end(&server), 1);
}

static void otherwise_it_serves_port_8420_of_this_machine(void **state) {
  int terminal, other, nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  int port = occupy_default_port();
  char path[512];
  serving_path(*state, "idem.json", path, sizeof path);
  assert_int_equal(openpty(&terminal, &other, NULL, NULL, NULL), 0);
  expect_default_port(path, nothing);
  expect_default_port(path, other);
  close(terminal);
  close(other);
  close(nothing);
  close(port);
}

static void ask_as(const char *url, const char *host, const char *origin, const char *wanted) {
  char text[512];
  int fd = connect_web(url);
  snprintf(text, sizeof text, "GET /healthz HTTP/1.1\r\nHost: %s\r\n%s%s%s\r\n", host,
           origin ? "Origin: " : "", origin ? origin : "", origin ? "\r\n" : "");
  child_send(fd, text);
  read_answer(fd, wanted);
  close(fd);
}

/* Names that others know this server by beside its own, pages that may ask, and a line for each request. */
static void hosts_and_origins_are_those_that_were_named(void **state) {
  char path[512], url[128];
  serving_path(*state, "idem.json", path, sizeof path);
  child server = CHILD(program, "serve", path, "--http", "127.0.0.1:0", "--allow-host",
                       "tools.example", "--allow-origin", "app.example", "--access-log");
  child_listening(&server, url, sizeof url);
  ask_as(url, "tools.example", NULL, "HTTP/1.1 200 OK");
  ask_as(url, "localhost", NULL, "HTTP/1.1 200 OK");
  ask_as(url, "127.0.0.1", NULL, "HTTP/1.1 200 OK");
  ask_as(url, "evil.example", NULL, "HTTP/1.1 403 ");
  ask_as(url, "tools.example", "https://app.example",
         "Access-Control-Allow-Origin: https://app.example");
  ask_as(url, "tools.example", "https://evil.example", "HTTP/1.1 403 ");
  expect_in(child_line_with(server.err, " request peer=\"http 127.0.0.1:"), "GET /healthz 200 ");
  end_by_signal(&server);
}

static const char *status_of(const char *url, const char *header) {
  static char text[64];
  char health[160];
  snprintf(health, sizeof health, "%.*s/healthz", (int)(strlen(url) - strlen("/mcp")), url);
  child client = CHILD("/usr/bin/env", "curl", "-sg", "--max-time", "10", "-o", "/dev/null", "-w",
                       "%{http_code}", "-H", header, health);
  snprintf(text, sizeof text, "%s", child_rest(client.out));
  assert_int_equal(child_end(&client), 0);
  return text;
}

/* What idem printed is what one asks, on any address of this machine. */
static void the_address_that_was_printed_is_answered(void **state) {
  char path[512], url[128];
  serving_path(*state, "idem.json", path, sizeof path);
  for (int named = 0; named < 2; named++) {
    const char *const argv[] = {program,         "serve",       path,
                                "--http",        "127.0.0.2:0", named ? "--allow-host" : NULL,
                                "tools.example", NULL};
    child server = child_start(argv);
    child_listening(&server, url, sizeof url);
    assert_string_equal(status_of(url, "X-Usual: host"), "200");
    assert_string_equal(status_of(url, "Host: 127.0.0.3"), "403");
    end_by_signal(&server);
  }
}

/* Its clients are told by their own address, and hosts are checked there as well. */
static void ipv6_is_served_and_guarded_like_ipv4(void **state) {
  char path[512], url[128];
  serving_path(*state, "idem.json", path, sizeof path);
  child server = CHILD(program, "serve", path, "--http", "[::1]:0", "--access-log");
  child_listening(&server, url, sizeof url);
  assert_memory_equal(url, "http://[::1]:", 13);
  assert_string_equal(status_of(url, "X-Usual: host"), "200");
  assert_string_equal(status_of(url, "Host: evil.example"), "403");
  expect_in(child_line_with(server.err, " request peer=\"http [::1]:"), "GET /healthz 200 ");
  end_by_signal(&server);
}

static void others_are_let_in_without_a_token_if_asked_for(void **state) {
  char path[512], url[128];
  serving_path(*state, "idem.json", path, sizeof path);
  child server = CHILD(program, "serve", path, "--http", "0.0.0.0:0", "--no-auth");
  expect_in(child_line_with(server.err, "everybody who reaches this may use it"), "WARN ");
  child_listening(&server, url, sizeof url);
  assert_memory_equal(url, "http://0.0.0.0:", 15);
  ask_http(url, "", "said by POST");
  end_by_signal(&server);
}

/* By both of its addresses: where a client looks up localhost, it may try ::1 alone. */
static void a_port_alone_is_on_localhost(void **state) {
  char path[512], url[128];
  serving_path(*state, "idem.json", path, sizeof path);
  child server = CHILD(program, "serve", path, "--http", "0");
  child_listening(&server, url, sizeof url);
  assert_memory_equal(url, "http://localhost:", 17);
  ask_http(url, "", "said by POST");
  end_by_signal(&server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_transport_serves_alone),
      cmocka_unit_test(all_of_them_serve_at_once),
      cmocka_unit_test(a_token_is_asked_for_where_it_can_be),
      cmocka_unit_test(a_pipe_or_socket_as_stdin_is_spoken_to),
      cmocka_unit_test(otherwise_it_serves_port_8420_of_this_machine),
      cmocka_unit_test(hosts_and_origins_are_those_that_were_named),
      cmocka_unit_test(the_address_that_was_printed_is_answered),
      cmocka_unit_test(ipv6_is_served_and_guarded_like_ipv4),
      cmocka_unit_test(others_are_let_in_without_a_token_if_asked_for),
      cmocka_unit_test(a_port_alone_is_on_localhost),
  };
  return cmocka_run_group_tests(tests, make, clean_up);
}
