/* test_serve_http_tools.c - tools of `idem serve` that make one HTTP call, against a server of the
 * test's own: what is sent for kind and for hostile values, and what becomes of every answer. */
#include "serving.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static serving self;
static int listener;
static unsigned port;
static char seen[1 << 16]; /* the last request */

static const char config[] =
    "{\"tools\":{\n"
    " \"get\":{\"args\":{\"city\":\"string\",\"q?\":\"string\",\"tag?\":\"string[]\",\"id?\":"
    "\"string\"},\n"
    "  \"http\":{\"url\":\"http://127.0.0.1:%u/v1/{city}/now?fixed=1?&q={q}&tag={tag}\",\n"
    "   \"headers\":{\"X-Id\":\"id "
    "{id}\",\"Authorization\":{\"command\":[\"echo\",\"s3cr3t-value\"],"
    "\"prefix\":\"Bearer \"}}}},\n"
    " \"post\":{\"args\":{\"text\":\"string\",\"n?\":\"integer\",\"list?\":\"string[]\"},\n"
    "  \"http\":{\"url\":\"http://127.0.0.1:%u/p\",\"body\":{\"t\":\"{text}\",\"say\":\"<{text}>\","
    "\"n\":\"{n}\",\"deep\":[\"{list}\",7.50,null]}}},\n"
    " \"form\":{\"args\":{\"a\":\"string\",\"b?\":\"string\"},\"http\":{\"method\":\"PUT\","
    "\"url\":\"http://127.0.0.1:%u/f\",\"form\":{\"a b\":\"x {a}\",\"b\":\"{b}\"}}},\n"
    " \"json\":{\"args\":{\"what\":\"string\"},\"output\":\"json\",\"output_bytes\":1000,"
    "\n"
    "  \"output_schema\":{\"type\":\"object\",\"required\":[\"ok\"]},\n"
    "  \"http\":{\"url\":\"http://127.0.0.1:%u/{what}\",\"headers\":{\"X-Key\":{\"command\":"
    "[\"echo\",\"s3cr3t-value\"]}}}},\n"
    " \"typed\":{\"args\":{\"n\":\"number\",\"b\":\"boolean\",\"o?\":{\"type\":\"object\"}},"
    "\"http\":{\"url\":\"http://127.0.0.1:%u/{n}?b={b}&o={o}\"}},\n"
    " \"text\":{\"args\":{\"t\":\"string\"},\"http\":{\"url\":\"http://127.0.0.1:%u/t\",\"body\":"
    "\"say {t}\",\"headers\":{\"Content-Type\":\"text/plain\"}}},\n"
    " \"login\":{\"http\":{\"url\":\"http://127.0.0.1:%u/l\",\"form\":{\"user\":\"me\",\"pass\":"
    "{\"command\":[\"echo\",\"s3cr3t-value&x=1\"]}}}},\n"
    " \"send\":{\"args\":{\"t\":\"string\"},\"http\":{\"url\":\"http://127.0.0.1:%u/"
    "s\",\"form\":{\"t\":"
    "\"{t}\",\"token\":{\"command\":[\"echo\",\"s3cr3t-value\"]},\"last\":\"x\"}}},\n"
    " \"silent\":{\"idle_ms\":1000,\"http\":{\"url\":\"http://127.0.0.1:%u\"}}}}";

/* -------------------------------------------------------------------- the other side */

static void open_listener(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof address;
  listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
  assert_int_equal(listen(listener, 80), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
  port = ntohs(address.sin_port);
}

static void wait_readable(int fd) {
  struct pollfd input = {.fd = fd, .events = POLLIN};
  assert_int_equal(poll(&input, 1, 60000), 1);
}

static size_t body_length(const char *head) {
  const char *at = strcasestr(head, "\r\ncontent-length:");
  return at ? strtoul(at + 17, NULL, 10) : 0;
}

/* Reads one request into `seen`. */
static void read_request(int fd) {
  size_t len = 0;
  for (seen[0] = 0;;) {
    const char *end = strstr(seen, "\r\n\r\n");
    if (end && len >= (size_t)(end + 4 - seen) + body_length(seen)) return;
    wait_readable(fd);
    ssize_t got = read(fd, seen + len, sizeof seen - 1 - len);
    assert_true(got > 0);
    len += (size_t)got;
    seen[len] = 0;
  }
}

/* The first one of a new connection. */
static int take_request(void) {
  wait_readable(listener);
  int fd = accept(listener, NULL, NULL);
  assert_true(fd >= 0);
  read_request(fd);
  return fd;
}

static void answer(int fd, const char *status, const char *headers, const char *body) {
  char head[512];
  snprintf(head, sizeof head, "HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %zu\r\n%s\r\n",
           status, strlen(body), headers);
  child_send(fd, head);
  child_send(fd, body);
  close(fd);
}

/* Calls, answers with this, gives back what the caller got. */
static const char *call(const char *tool, const char *arguments, const char *status,
                        const char *headers, const char *body) {
  int id = serving_send_call(&self, tool, arguments);
  answer(take_request(), status, headers, body);
  return serving_answer(&self, id);
}

static int start(void **state) {
  char text[4096];
  (void)state;
  open_listener();
  snprintf(text, sizeof text, config, port, port, port, port, port, port, port, port, port);
  unsetenv("http_proxy");
  unsetenv("all_proxy");
  unsetenv("ALL_PROXY");
  serving_make(&self, text);
  serving_start(&self);
  return 0;
}

static int end(void **state) {
  (void)state;
  close(listener);
  serving_end(&self);
  return 0;
}

/* --------------------------------------------------------------------------- promises */

static void values_are_encoded_for_their_place(void **state) {
  (void)state;
  expect_in(call("get",
                 "{\"city\":\"a/b?c#d e\\u00e9%2F\",\"q\":\"x&fixed=2+\\r\\nHost: evil\","
                 "\"tag\":[\"1&\",\"2\"],\"id\":\"7\"}",
                 "200 OK", "Content-Type: text/plain\r\n", "sunny"),
            "\"text\":\"sunny\"");
  expect_in(seen,
            "GET /v1/a%2Fb%3Fc%23d%20e%C3%A9%252F/now?fixed=1?&q=x%26fixed%3D2%2B%0D%0AHost%3A"
            "%20evil&tag=1%26&tag=2 HTTP/1.1\r\n");
  expect_in(seen, "\r\nX-Id: id 7\r\n");
  expect_in(seen, "\r\nAuthorization: Bearer s3cr3t-value\r\n");
}

static void what_is_absent_is_left_out(void **state) {
  (void)state;
  call("get", "{\"city\":\"x\"}", "200 OK", "", "");
  expect_in(seen, "GET /v1/x/now?fixed=1? HTTP/1.1\r\n");
  expect_not_in(seen, "X-Id");
}

static void no_value_leaves_its_place(void **state) {
  (void)state;
  static const char *const refused[][2] = {
      {"{\"city\":\"..\"}", "path element . or .."},
      {"{\"city\":\"../../admin\"}", "path element . or .."},
      {"{\"city\":\"a\\\\..\\\\b\"}", "path element . or .."},
      {"{\"city\":\".\"}", "path element . or .."},
      {"{\"city\":\"\"}", "must not be empty"},
      {"{\"city\":\"a\\r\\nb\"}", "line's end"},
      {"{\"city\":\"a\\u0000b\"}", "NUL"},
      {"{\"city\":\"x\",\"q\":\"a\\u0000b\"}", "NUL"},
      {"{\"city\":\"x\",\"id\":\"7\\r\\nX-Evil: 1\"}", "arguments.id: must not hold a line's end"},
      {"{\"city\":\"x\",\"id\":\"7\\nX-Evil: 1\"}", "line's end"},
  };
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    const char *said = serving_call(&self, "get", refused[i][0]);
    expect_in(said, "\"isError\":true");
    expect_in(said, refused[i][1]);
  }
}

static void a_json_body_keeps_types_and_quotes(void **state) {
  (void)state;
  call("post", "{\"text\":\"\\\",\\\"admin\\\":true\",\"n\":5,\"list\":[\"a\",\"b\"]}", "200 OK",
       "", "");
  expect_in(seen, "POST /p HTTP/1.1\r\n");
  expect_in(seen, "\r\nContent-Type: application/json\r\n");
  expect_in(seen,
            "\r\n\r\n{\"t\":\"\\\",\\\"admin\\\":true\",\"say\":\"<\\\",\\\"admin\\\":true>\","
            "\"n\":5,\"deep\":[[\"a\",\"b\"],7.50,null]}");
  call("post", "{\"text\":\"x\"}", "200 OK", "", "");
  expect_in(seen, "\r\n\r\n{\"t\":\"x\",\"say\":\"<x>\",\"deep\":[7.50,null]}");
}

static void a_form_is_encoded(void **state) {
  (void)state;
  call("form", "{\"a\":\"1&b=2\"}", "200 OK", "", "");
  expect_in(seen, "PUT /f HTTP/1.1\r\n");
  expect_in(seen, "\r\nContent-Type: application/x-www-form-urlencoded\r\n");
  expect_in(seen, "\r\n\r\na%20b=x%201%26b%3D2");
  expect_not_in(seen, "&b=");
}

static void values_of_every_type_are_written_as_json_writes_them(void **state) {
  (void)state;
  call("typed", "{\"n\":-1.5,\"b\":true,\"o\":{\"a\":[1,\"&\"]}}", "200 OK", "", "");
  expect_in(seen, "GET /-1.5?b=true&o=%7B%22a%22%3A%5B1%2C%22%26%22%5D%7D HTTP/1.1\r\n");
  call("typed", "{\"n\":1e2,\"b\":true}", "200 OK", "", "");
  expect_in(seen, "GET /100?b=true HTTP/1.1\r\n");
  call("typed", "{\"n\":123456789012345678901234567890,\"b\":false}", "200 OK", "", "");
  expect_in(seen, "GET /123456789012345678901234567890?b=false HTTP/1.1\r\n");
}

static void a_body_of_text_and_a_secret_in_a_form(void **state) {
  (void)state;
  call("text", "{\"t\":\"a&b\"}", "200 OK", "", "");
  expect_in(seen, "\r\nContent-Type: text/plain\r\n");
  expect_in(seen, "\r\n\r\nsay a&b");
  call("login", "{}", "200 OK", "", "");
  expect_in(seen, "\r\n\r\nuser=me&pass=s3cr3t-value%26x%3D1");
}

/* What the file says is sent whole, or not at all: a caller does not decide where it ends. */
static void a_form_that_has_no_room_is_not_sent(void **state) {
  (void)state;
  enum { most = 10485760, head = 2 };
  static const int left[] = {0, 1, 4, 7, 9, 12, 18, 19, 25};
  for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
    struct pollfd next = {.fd = listener, .events = POLLIN};
    size_t bytes = most - head - (size_t)left[i], blanks = bytes / 3;
    char *arguments = NULL;
    assert_true(
        asprintf(&arguments, "{\"t\":\"%*s%.*s\"}", (int)blanks, "", (int)(bytes % 3), "aaa") > 0);
    const char *said = serving_answer(&self, serving_send_call(&self, "send", arguments));
    expect_in(said, "the form is too long");
    assert_int_equal(poll(&next, 1, 0), 0);
    free(arguments);
  }
}

/* Who asks for more at a time waits for its turn. */
static void at_most_64_calls_are_under_way(void **state) {
  enum { MOST = 64 };
  int fds[MOST + 1];
  (void)state;
  for (int i = 0; i <= MOST; i++) serving_send_call(&self, "get", "{\"city\":\"x\"}");
  for (int i = 0; i < MOST; i++) fds[i] = take_request();
  serving_ask(&self, "ping", "{}");
  struct pollfd more = {.fd = listener, .events = POLLIN};
  assert_int_equal(poll(&more, 1, 100), 0);
  answer(fds[0], "200 OK", "", "late");
  fds[MOST] = take_request();
  for (int i = 1; i <= MOST; i++) answer(fds[i], "200 OK", "", "late");
  for (int i = 0; i <= MOST; i++)
    expect_in(child_line_with(self.server.out, "\"late\""), "\"result\"");
}

/* -------------------------------------------------------------- a client that reads late */

#define LARGE 1000000u
enum { CALLS = 96 };

typedef struct lines {
  char head[64]; /* of the line that is being read */
  size_t len, results, others;
} lines;

static void see_line(lines *seen_lines) {
  bool result = strstr(seen_lines->head, "\"result\"") != NULL;
  seen_lines->results += result;
  seen_lines->others += !result;
  *seen_lines = (lines){.results = seen_lines->results, .others = seen_lines->others};
}

static void read_lines(int fd, lines *seen_lines) {
  static char bytes[1 << 16];
  ssize_t got = read(fd, bytes, sizeof bytes);
  assert_true(got > 0);
  for (ssize_t i = 0; i < got; i++) {
    if (bytes[i] == '\n')
      see_line(seen_lines);
    else if (seen_lines->len < sizeof seen_lines->head - 1)
      seen_lines->head[seen_lines->len++] = bytes[i];
  }
}

/* Its answers are three times what may be queued for it. Once as much waits as may, no further call begins; what is
 * under way then is kept. */
static void a_client_that_reads_late_gets_every_answer(void **state) {
  static char large[LARGE + 1];
  lines said = {.len = 0};
  (void)state;
  memset(large, 'x', LARGE);
  for (int i = 0; i < CALLS; i++) serving_send_call(&self, "get", "{\"city\":\"x\"}");
  struct pollfd both[2] = {{.fd = listener, .events = POLLIN},
                           {.fd = self.server.out, .events = POLLIN}};
  int begun = 0;
  for (; begun < 64 || poll(both, 1, 300) > 0; begun++) answer(take_request(), "200 OK", "", large);
  assert_true(begun < CALLS);
  while (said.results + said.others < CALLS) {
    assert_true(poll(both, 2, 60000) > 0);
    if (both[0].revents) answer(take_request(), "200 OK", "", large);
    if (both[1].revents) read_lines(self.server.out, &said);
  }
  assert_int_equal(said.results, CALLS);
  expect_in(serving_ask(&self, "ping", "{}"), "\"result\"");
}

static void json_is_structured_and_checked(void **state) {
  (void)state;
  expect_in(call("json", "{\"what\":\"a\"}", "200 OK", "", "{\"ok\":1.50}"),
            "\"structuredContent\":{\"ok\":1.5");
  expect_in(call("json", "{\"what\":\"a\"}", "200 OK", "", "{\"no\":1}"),
            "JSON that its output_schema does not allow");
  expect_in(call("json", "{\"what\":\"a\"}", "200 OK", "", "<html>"), "did not get JSON");
  expect_in(call("json", "{\"what\":\"a\"}", "204 No Content", "", ""), "the answer is empty");
}

static void a_failure_is_told_without_secrets(void **state) {
  (void)state;
  char large[8001];
  memset(large, 'x', sizeof large - 1);
  large[sizeof large - 1] = 0;
  const char *said =
      call("get", "{\"city\":\"x\"}", "403 Forbidden", "", "no: Bearer s3cr3t-value is bad");
  expect_in(said, "\"isError\":true");
  expect_in(said, "get: the server answered with status 403: no: ");
  expect_not_in(said, "s3cr3t");
  said = call("get", "{\"city\":\"x\"}", "500 Oh", "", large);
  expect_in(said, "status 500");
  assert_true(strlen(said) < 3000);
  said = call("json", "{\"what\":\"a\"}", "200 OK", "", large);
  expect_in(said, "larger than 1000 bytes (output_bytes)\"");
}

static void a_redirect_stays_at_home(void **state) {
  (void)state;
  int id = serving_send_call(&self, "json", "{\"what\":\"a\"}");
  answer(take_request(), "302 Found", "Location: /b\r\n", "");
  int fd = take_request();
  expect_in(seen, "GET /b HTTP/1.1\r\n");
  expect_in(seen, "X-Key: s3cr3t-value");
  answer(fd, "302 Found", "Location: http://localhost:1/steal\r\n", "");
  const char *said = serving_answer(&self, id);
  expect_in(said, "\"isError\":true");
  expect_not_in(said, "s3cr3t");
  said = call("json", "{\"what\":\"a\"}", "302 Found", "Location: file:///etc/passwd\r\n", "");
  expect_in(said, "\"isError\":true");
}

static void a_redirect_in_circles_is_told_as_that(void **state) {
  (void)state;
  int id = serving_send_call(&self, "json", "{\"what\":\"a\"}");
  for (int i = 0; i < 6; i++) answer(take_request(), "302 Found", "Location: /a\r\n", "");
  const char *said = serving_answer(&self, id);
  expect_in(said, "redirected too often");
  expect_not_in(said, "larger than");
}

/* Whoever reads a request and leaves may have carried it out. */
static void what_a_kept_connection_lost_is_not_sent_again(void **state) {
  (void)state;
  struct pollfd next = {.fd = listener, .events = POLLIN};
  int id = serving_send_call(&self, "post", "{\"text\":\"one\"}");
  int fd = take_request();
  child_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  expect_in(serving_answer(&self, id), "\"ok\"");
  id = serving_send_call(&self, "post", "{\"text\":\"two\"}");
  read_request(fd);
  expect_in(seen, "\"t\":\"two\"");
  close(fd);
  const char *said = serving_answer(&self, id);
  expect_in(said, "\"isError\":true");
  expect_in(said, "it may have been carried out");
  assert_int_equal(poll(&next, 1, 0), 0);
  expect_in(call("post", "{\"text\":\"three\"}", "200 OK", "", "fine"), "fine");
  expect_in(seen, "\"t\":\"three\"");
}

static void silence_and_cancelling_end_a_call(void **state) {
  (void)state;
  char byte, message[128];
  int id = serving_send_call(&self, "silent", "{}");
  int fd = take_request();
  expect_in(seen, "GET / HTTP/1.1\r\n");
  const char *said = serving_answer(&self, id);
  expect_in(said, "no whole answer within");
  assert_int_equal(read(fd, &byte, 1), 0); /* it has hung up */
  close(fd);
  id = serving_send_call(&self, "get", "{\"city\":\"x\"}");
  fd = take_request();
  snprintf(message, sizeof message,
           "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
           "cancelled\",\"params\":{\"requestId\":%d}}\n",
           id);
  child_send(self.server.in, message);
  wait_readable(fd);
  assert_int_equal(read(fd, &byte, 1), 0);
  close(fd);
  expect_in(serving_ask(&self, "ping", "{}"), "\"result\"");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_are_encoded_for_their_place),
      cmocka_unit_test(what_is_absent_is_left_out),
      cmocka_unit_test(no_value_leaves_its_place),
      cmocka_unit_test(a_json_body_keeps_types_and_quotes),
      cmocka_unit_test(a_form_is_encoded),
      cmocka_unit_test(values_of_every_type_are_written_as_json_writes_them),
      cmocka_unit_test(a_body_of_text_and_a_secret_in_a_form),
      cmocka_unit_test(a_form_that_has_no_room_is_not_sent),
      cmocka_unit_test(at_most_64_calls_are_under_way),
      cmocka_unit_test(a_client_that_reads_late_gets_every_answer),
      cmocka_unit_test(json_is_structured_and_checked),
      cmocka_unit_test(a_failure_is_told_without_secrets),
      cmocka_unit_test(a_redirect_stays_at_home),
      cmocka_unit_test(a_redirect_in_circles_is_told_as_that),
      cmocka_unit_test(what_a_kept_connection_lost_is_not_sent_again),
      cmocka_unit_test(silence_and_cancelling_end_a_call),
  };
  return cmocka_run_group_tests(tests, start, end);
}
