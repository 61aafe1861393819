/* test_mcp_reference.c - idem-reference as an MCP server: its methods gated and wrapped, the dated
 * profiles, and the same over stdio, sockets, HTTP and WebSocket. */
#include "child.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define HELLO                                                                                      \
  "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"       \
  "\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}"
#define REQUEST(id, rest) "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"method\":" rest "}"
#define RESULT(id, rest) "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"result\":" rest "}"
#define SUBTRACT "\"subtract\",\"params\":{\"minuend\":42,\"subtrahend\":23}"
#define ECHO_TOOL                                                                                  \
  "\"tools/call\",\"params\":{\"name\":\"echo\",\"arguments\":{\"text\":\"h\\u00e9\"}}"

static void ask(const child *server, const char *message) {
  child_send(server->in, message);
  child_send(server->in, "\n");
}

static void expect(const child *server, const char *message, const char *answer) {
  ask(server, message);
  child_expect_line(server->out, answer);
}

/* The answer of 2026-07-28 ends with who the server is, and its version changes. */
static void expect_begin(const child *server, const char *message, const char *begin) {
  ask(server, message);
  const char *line = child_line(server->out);
  if (strncmp(line, begin, strlen(begin)) != 0) fail_msg("wanted %s..., got %s", begin, line);
  assert_non_null(strstr(line, "\"_meta\":{\"io.modelcontextprotocol/serverInfo\":{\"name\":"));
}

static void stop(child *server) {
  kill(server->pid, SIGTERM);
  assert_int_equal(child_end(server), 0);
}

static void expect_metrics(const char *url, const char *const *lines) {
  char address[128];
  snprintf(address, sizeof address, "tcp%.*s", (int)strcspn(strstr(url, "://") + 3, "/") + 3,
           strstr(url, "://"));
  int fd = child_connect(address);
  child_send(fd, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const char *text = child_rest(fd);
  for (; *lines; lines++)
    if (!strstr(text, *lines)) fail_msg("no %s in: %s", *lines, text);
  close(fd);
}

/* ----------------------------------------------------------------------- stdio */

static void the_codes_of_erlmcp_reach_mcp(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--profile", "mcp", "--codes", "erlmcp");
  ask(&server, REQUEST(1, SUBTRACT));
  assert_non_null(strstr(child_line(server.out), "\"id\":1,\"error\":{\"code\":-32005,"));
  ask(&server, HELLO);
  child_line(server.out);
  ask(&server, REQUEST(2, "\"tools/call\",\"params\":{\"name\":\"nosuch\"}"));
  assert_non_null(strstr(child_line(server.out), "\"id\":2,\"error\":{\"code\":-32002,"));
  ask(&server, REQUEST(3, "\"prompts/get\",\"params\":{\"name\":\"nosuch\"}"));
  assert_non_null(strstr(child_line(server.out), "\"id\":3,\"error\":{\"code\":-32003,"));
  ask(&server, REQUEST(4, "\"resources/read\",\"params\":{\"uri\":\"no:such\"}"));
  assert_non_null(strstr(child_line(server.out), "\"id\":4,\"error\":{\"code\":-32001,"));
  ask(&server, REQUEST(5, "\"tools/call\",\"params\":{\"name\":\"echo\",\"arguments\":{}}"));
  assert_non_null(strstr(child_line(server.out), "\"id\":5,\"error\":{\"code\":-32007,"));
  assert_int_equal(child_end(&server), 0);
}

static void the_log_says_why_a_request_was_refused(void **state) {
  static const struct {
    const char *message, *line;
  } rows[] = {
      {REQUEST(1, SUBTRACT), "id=1 method=subtract peer=stdio detail=not-initialized, "},
      {HELLO, NULL},
      {REQUEST(2, "\"tools/call\",\"params\":{\"name\":\"no\\u001bsuch\"}"),
       "id=2 method=tools/call peer=stdio detail=Unknown tool: no\\\\x1bsuch, "},
      {REQUEST(3, "\"resources/read\",\"params\":{\"uri\":\"file:///home/joe/x\"}"),
       "id=3 method=resources/read peer=stdio detail=Resource not found: file://[redacted], "},
      {REQUEST(4, "\"prompts/get\",\"params\":{\"name\":7}"),
       "id=4 method=prompts/get peer=stdio detail=Invalid params: name: expected string, received "
       "number, "},
      {REQUEST(5, "\"tools/list\",\"params\":[]"),
       "id=5 method=tools/list peer=stdio detail=Invalid params: params: expected object, received "
       "array, "},
      {HELLO, "method=initialize peer=stdio detail=already-initialized, "},
  };
  (void)state;
  child server = CHILD(REFERENCE, "--profile", "mcp");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ask(&server, rows[i].message);
    child_line(server.out);
    if (!rows[i].line) continue;
    const char *line = child_line_with(server.err, "WARN  a request was refused");
    if (!strstr(line, rows[i].line)) fail_msg("wanted %s in: %s", rows[i].line, line);
    assert_string_equal(line + strlen(line) - 6, " bytes");
  }
  assert_int_equal(child_end(&server), 0);
}

static void tools_called_on_stdio_are_counted_by_name(void **state) {
  (void)state;
  char admin[128];
  child server = CHILD(REFERENCE, "--profile", "mcp", "--stdio", "--admin", "127.0.0.1:0");
  child_line_with(server.err, "listening on stdio:");
  child_listening(&server, admin, sizeof admin);
  ask(&server, HELLO);
  child_line(server.out);
  ask(&server, REQUEST(1, ECHO_TOOL));
  child_line(server.out);
  ask(&server, REQUEST(2, "\"tools/call\",\"params\":{\"name\":\"nosuch\"}"));
  child_line(server.out);
  expect_metrics(admin,
                 (const char *const[]){
                     "\nmcp_tool_calls_total{tool=\"echo\",status=\"ok\"} 1\n",
                     "\nmcp_tool_duration_seconds_count{tool=\"echo\"} 1\n",
                     "\nmcp_requests_total{method=\"tools/call\",status=\"ok\"} 1\n",
                     "\nmcp_requests_total{method=\"tools/call\",status=\"error\"} 1\n", NULL});
  stop(&server);
}

static void methods_wait_for_the_handshake(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--profile", "mcp");
  expect(
      &server, REQUEST(1, SUBTRACT),
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32600,\"message\":\"Invalid Request: not "
      "initialized; send initialize first, or io.modelcontextprotocol/protocolVersion in _meta\","
      "\"data\":{\"reason\":\"not-initialized\"}}}");
  ask(&server, HELLO);
  assert_non_null(strstr(child_line(server.out), "\"protocolVersion\":\"2025-06-18\""));
  expect(&server, REQUEST(2, SUBTRACT), RESULT(2, "{\"value\":19}"));
  assert_int_equal(child_end(&server), 0);
}

static void results_are_objects_of_the_revision(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--profile", "mcp");
  ask(&server, HELLO);
  child_line(server.out);
  expect(&server, REQUEST(1, "\"get_data\""), RESULT(1, "{\"value\":[\"hello\",5]}"));
  expect(&server, REQUEST(2, "\"echo\""), RESULT(2, "{\"value\":null}"));
  expect(&server, REQUEST(3, "\"echo\",\"params\":{\"a\":{},\"resultType\":1,\"_meta\":{\"b\":2}}"),
         RESULT(3, "{\"a\":{},\"resultType\":1,\"_meta\":{\"b\":2}}"));
  expect(&server, REQUEST(4, "\"sleep\",\"params\":{\"ms\":1}"), RESULT(4, "{\"value\":null}"));
  expect(&server, REQUEST(7, "\"sum\",\"params\":{\"numbers\":[1,2,4]}"),
         RESULT(7, "{\"value\":7}"));
  expect_begin(&server, REQUEST(5, "\"get_data\",\"params\":{" META "}"),
               "{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{\"resultType\":\"complete\",\"value\":"
               "[\"hello\",5],\"_meta\":{");
  expect_begin(&server, REQUEST(6, "\"echo\",\"params\":{\"a\":{},\"resultType\":1," META "}"),
               "{\"jsonrpc\":\"2.0\",\"id\":6,\"result\":{\"resultType\":\"complete\",\"a\":{},"
               "\"_meta\":{");
  assert_int_equal(child_end(&server), 0);
}

static void errors_are_errors_as_elsewhere(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--profile", "mcp");
  ask(&server, HELLO);
  child_line(server.out);
  expect(
      &server, REQUEST(1, "\"fail\""),
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32603,\"message\":\"Internal error\"}}");
  expect(&server, REQUEST(2, "\"raise\",\"params\":{\"code\":7,\"message\":\"m\",\"data\":[null]}"),
         "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":7,\"message\":\"m\",\"data\":[null]}}");
  expect(
      &server, REQUEST(3, "\"nope\""),
      "{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-32601,\"message\":\"Method not found\","
      "\"data\":{\"method\":\"nope\"}}}");
  assert_int_equal(child_end(&server), 0);
}

static void there_is_a_tool_a_resource_and_a_prompt(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--profile", "mcp-2025-11-25");
  ask(&server, HELLO);
  assert_non_null(strstr(child_line(server.out), "\"protocolVersion\":\"2025-11-25\""));
  expect(&server, REQUEST(1, ECHO_TOOL),
         RESULT(1, "{\"content\":[{\"type\":\"text\",\"text\":\"h\xc3\xa9\"}]}"));
  ask(&server, REQUEST(2, "\"resources/read\",\"params\":{\"uri\":\"test://static-text\"}"));
  assert_non_null(strstr(child_line(server.out), "\"uri\":\"test://static-text\""));
  ask(&server, REQUEST(3, "\"prompts/get\",\"params\":{\"name\":\"hello\"}"));
  assert_non_null(strstr(child_line(server.out), "\"role\":\"user\""));
  assert_int_equal(child_end(&server), 0);
}

static void a_dated_profile_serves_its_revision_alone(void **state) {
  (void)state;
  child older = CHILD(REFERENCE, "--profile", "mcp-2025-11-25");
  ask(&older, REQUEST(1, "\"get_data\",\"params\":{" META "}"));
  assert_non_null(strstr(child_line(older.out), "\"supported\":[\"2025-11-25\"]"));
  assert_int_equal(child_end(&older), 0);
  child newer = CHILD(REFERENCE, "--profile", "mcp-2026-07-28");
  ask(&newer, HELLO);
  assert_non_null(strstr(child_line(newer.out), "\"supported\":[\"2026-07-28\"]"));
  assert_int_equal(child_end(&newer), 0);
}

/* ------------------------------------------------------------- other transports */

static void subscriptions_end_with_a_result_when_the_server_stops(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--profile", "mcp");
  ask(&server, REQUEST(7, "\"subscriptions/listen\",\"params\":{\"notifications\":{"
                          "\"toolsListChanged\":true}," META "}"));
  assert_non_null(strstr(child_line(server.out), "subscriptions/acknowledged"));
  kill(server.pid, SIGTERM);
  const char *line = child_line(server.out);
  assert_non_null(strstr(line, "\"id\":7,\"result\":{\"resultType\":\"complete\""));
  assert_non_null(strstr(line, "io.modelcontextprotocol/subscriptionId\":7"));
  child_expect_line(server.out, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
                                "\"params\":{\"requestId\":7}}");
  assert_int_equal(child_end(&server), 0);
}

static void sockets_and_frames_are_served_too(void **state) {
  (void)state;
  char url[128];
  child server =
      CHILD(REFERENCE, "--profile", "mcp", "--framing", "content-length", "--tcp", "127.0.0.1:0");
  child_listening(&server, url, sizeof url);
  int fd = child_connect(url);
  static const char message[] = REQUEST(1, "\"get_data\",\"params\":{" META "}");
  char head[64];
  snprintf(head, sizeof head, "Content-Length: %zu\r\n\r\n", sizeof message - 1);
  child_send(fd, head);
  child_send(fd, message);
  assert_memory_equal(child_line(fd), "Content-Length: ", 16);
  close(fd);
  stop(&server);
}

/* Reads until it is there; what comes may hold any bytes. */
static void read_answer(int fd, const char *wanted) {
  char text[16384];
  size_t len = 0;
  while (!memmem(text, len, wanted, strlen(wanted))) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (poll(&ready, 1, 60000) != 1) fail_msg("no %s in time, but %zu bytes", wanted, len);
    ssize_t got = read(fd, text + len, sizeof text - len);
    if (got <= 0) fail_msg("the end came before %s: %.*s", wanted, (int)len, text);
    len += (size_t)got;
  }
}

static int connect_http(const char *url) {
  char tcp[128];
  const char *rest = strstr(url, "://");
  assert_non_null(strstr(url, "/mcp"));
  snprintf(tcp, sizeof tcp, "tcp%.*s", (int)(strcspn(rest + 3, "/") + 3), rest);
  return child_connect(tcp);
}

static void post(int fd, const char *headers, const char *body) {
  char text[2048];
  snprintf(text, sizeof text,
           "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Accept: application/json, text/event-stream\r\n%sContent-Length: %zu\r\n\r\n%s",
           headers, strlen(body), body);
  child_send(fd, text);
}

static void http_answers_old_calls_without_a_session(void **state) {
  (void)state;
  char url[128];
  child server = CHILD(REFERENCE, "--http", "127.0.0.1:0", "--profile", "mcp");
  child_listening(&server, url, sizeof url);
  int fd = connect_http(url);
  post(fd, "", REQUEST(1, ECHO_TOOL));
  read_answer(fd, RESULT(1, "{\"content\":[{\"type\":\"text\",\"text\":\"h\xc3\xa9\"}]}"));
  post(fd, "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subtract\r\n",
       REQUEST(2, "\"subtract\",\"params\":{\"minuend\":42,\"subtrahend\":23," META "}"));
  read_answer(fd, "\"result\":{\"resultType\":\"complete\",\"value\":19,");
  close(fd);
  stop(&server);
}

static void websockets_are_served_at_the_same_path(void **state) {
  (void)state;
  char url[128];
  child server = CHILD(REFERENCE, "--ws", "127.0.0.1:0", "--profile", "mcp");
  child_listening(&server, url, sizeof url);
  int fd = connect_http(url);
  child_send(fd,
             "GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
             "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
  read_answer(fd, "\r\n\r\n");
  static const char message[] = REQUEST(1, "\"get_data\",\"params\":{" META "}");
  /* One final text frame, masked with zeros, its length in two bytes. */
  const unsigned char head[8] = {0x81, 0x80 | 126, sizeof message / 256,
                                 (sizeof message - 1) % 256};
  assert_int_equal(write(fd, head, sizeof head), sizeof head);
  child_send(fd, message);
  read_answer(fd, "\"value\":[\"hello\",5]");
  close(fd);
  stop(&server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(methods_wait_for_the_handshake),
      cmocka_unit_test(the_codes_of_erlmcp_reach_mcp),
      cmocka_unit_test(the_log_says_why_a_request_was_refused),
      cmocka_unit_test(tools_called_on_stdio_are_counted_by_name),
      cmocka_unit_test(results_are_objects_of_the_revision),
      cmocka_unit_test(errors_are_errors_as_elsewhere),
      cmocka_unit_test(there_is_a_tool_a_resource_and_a_prompt),
      cmocka_unit_test(a_dated_profile_serves_its_revision_alone),
      cmocka_unit_test(subscriptions_end_with_a_result_when_the_server_stops),
      cmocka_unit_test(sockets_and_frames_are_served_too),
      cmocka_unit_test(http_answers_old_calls_without_a_session),
      cmocka_unit_test(websockets_are_served_at_the_same_path),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
