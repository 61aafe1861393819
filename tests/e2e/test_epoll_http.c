/* test_epoll_http.c - the example that serves MCP over HTTP in a loop of its own, without libuv. */
#include "child.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static child start(char *tcp, size_t size) {
  char url[128];
  child server = CHILD(IDEM_BIN_DIR "/epoll_http");
  child_listening(&server, url, sizeof url);
  snprintf(tcp, size, "tcp%.*s", (int)(strcspn(url + 7, "/") + 3), url + 4);
  return server;
}

static void stop(child *server) {
  kill(server->pid, SIGTERM);
  assert_int_equal(child_end(server), 0);
}

/* Reads until `wanted` was seen; fails after a minute. */
static const char *read_until(int fd, const char *wanted) {
  static char text[1 << 16];
  size_t len = 0;
  uint64_t end = child_now_ms() + 60000;
  for (text[0] = 0; !strstr(text, wanted); text[len] = 0) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    uint64_t now = child_now_ms();
    if (now >= end || poll(&ready, 1, (int)(end - now)) != 1)
      fail_msg("no %s in time, but: %.300s", wanted, text);
    ssize_t n = read(fd, text + len, sizeof text - 1 - len);
    if (n <= 0) fail_msg("the end came before %s: %.300s", wanted, text);
    len += (size_t)n;
  }
  return text;
}

static void post(int fd, const char *headers, const char *body) {
  char text[4096];
  snprintf(text, sizeof text,
           "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Accept: application/json, text/event-stream\r\nContent-Length: %zu\r\n%s\r\n%s",
           strlen(body), headers, body);
  child_send(fd, text);
}

#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"t\",\"version\":\"1\"},"                     \
  "\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define ROLL(id, more)                                                                             \
  "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"method\":\"tools/call\",\"params\":{\"name\":\"roll\","   \
  "\"arguments\":{\"sides\":1}" more "}}"
#define HEADERS "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: roll\r\n"
#define ROLLED "{\"type\":\"text\",\"text\":\"1\"}"

static void a_tool_is_called_on_one_connection_after_another(void **state) {
  (void)state;
  char tcp[128];
  child server = start(tcp, sizeof tcp);
  for (int i = 0; i < 3; i++) {
    int fd = child_connect(tcp);
    for (int j = 0; j < 3; j++) {
      post(fd, HEADERS, ROLL(7, "," META));
      read_until(fd, ROLLED);
    }
    close(fd);
  }
  int fd = child_connect(tcp);
  child_send(fd, "GET /mcp HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  read_until(fd, "403 Forbidden");
  close(fd);
  stop(&server);
}

/* The example has room for 256: who is not there any more has given its place back. */
static void a_session_has_its_stream_beside_many_who_come_and_go(void **state) {
  (void)state;
  char tcp[128], session[128], text[512];
  child server = start(tcp, sizeof tcp);
  int fd = child_connect(tcp), stream = child_connect(tcp);
  post(fd, "",
       "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
       "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
       "\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}");
  const char *line =
      strstr(read_until(fd, "\"protocolVersion\":\"2025-11-25\""), "Mcp-Session-Id: ");
  assert_non_null(line);
  snprintf(session, sizeof session, "%.*s", (int)(strcspn(line, "\n") + 1), line);
  post(fd, session, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
  read_until(fd, "202 Accepted");
  snprintf(text, sizeof text,
           "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n%s\r\n", session);
  child_send(stream, text);
  read_until(stream, "text/event-stream");
  for (int i = 0; i < 300; i++) close(child_connect(tcp));
  post(fd, session, ROLL(2, ""));
  read_until(fd, ROLLED);
  kill(server.pid, SIGTERM);
  read_until(stream, "0\r\n\r\n");
  close(fd);
  close(stream);
  assert_int_equal(child_end(&server), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_tool_is_called_on_one_connection_after_another),
      cmocka_unit_test(a_session_has_its_stream_beside_many_who_come_and_go),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
