/* test_serve_profiles.c - the tools of `idem serve` as plain JSON-RPC methods, on every transport. */
#include "serving.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char config[] =
    "{\"tools\":{\n"
    " \"join\":{\"args\":{\"a\":\"string\",\"n\":\"integer\",\"c?\":\"string\"},"
    "\"description\":\"Joins\",\"run\":[\"echo\",\"{a}\",\"{n}\",\"{c}\"]},\n"
    " \"data\":{\"run\":[\"echo\",\"{{\\\"k\\\":[1,2.50]}}\"],\"output\":\"json\"},\n"
    " \"rows\":{\"script\":\"s.sql\",\"query\":\"SELECT 7 AS x\"},\n"
    " \"fail\":{\"run\":[\"sh\",\"-c\",\"echo partly; echo because >&2; exit 3\"]},\n"
    " \"pick\":{\"args\":{\"level\":{\"type\":\"string\",\"enum\":[\"low\",\"high\"]}},"
    "\"run\":[\"echo\",\"{level}\"]},\n"
    " \"deep\":{\"input\":{\"type\":\"object\",\"properties\":{\"how\":{\"enum\":[\"a\",\"b\"]},"
    "\"size\":{\"enum\":[1,2]},\"list\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"
    "\"to\":{\"type\":\"object\",\"required\":[\"a/b~c\"],\"properties\":{\"a/b~c\":{\"type\":"
    "\"string\"}}}}},\"run\":[\"echo\",\"{how}\",\"{size}\"]},\n"
    " \"slow\":{\"run\":[\"sleep\",\"600\"]}}}";

static const char program[] = IDEM_BIN_DIR "/idem";
static serving self;

static void make(void) {
  serving_make(&self, config);
  serving_file(&self, "s.sql", "SELECT 1;");
}

static void begin(const char *profile, const char *flag, const char *value) {
  static char path[512];
  make();
  serving_path(&self, "idem.json", path, sizeof path);
  self.server = value ? CHILD(program, "serve", path, "--profile", profile, flag, value)
                      : CHILD(program, "serve", path, "--profile", profile, flag);
}

static void finish(void) {
  close(self.server.in);
  self.server.in = -1;
  child_rest(self.server.out);
  assert_int_equal(child_end(&self.server), 0);
  child_remove_folder(self.folder);
}

static void stop(void) {
  kill(self.server.pid, SIGTERM);
  finish();
}

static void params_are_arguments_by_name_or_position(void **state) {
  (void)state;
  begin("jsonrpc", "--stdio", NULL);
  expect_in(serving_ask(&self, "join", "{\"n\":7,\"a\":\"x; $(y)\"}"),
            "\"result\":\"x; $(y) 7\\n\"");
  expect_in(serving_ask(&self, "join", "[\"x\",7]"), "\"result\":\"x 7\\n\"");
  expect_in(serving_ask(&self, "join", "[\"x\",7,\"z\"]"), "\"result\":\"x 7 z\\n\"");
  const char *answer = serving_ask(&self, "join", "[\"-n\",7]");
  expect_in(answer, "\"code\":-32000");
  expect_in(answer, "must not begin with '-'");
  expect_in(serving_ask(&self, "joni", "[]"), "\"code\":-32601");
  expect_in(serving_ask(&self, "tools/call", "{\"name\":\"join\"}"), "\"code\":-32601");
  finish();
}

static void params_that_do_not_fit_are_named(void **state) {
  static const struct {
    const char *params, *wanted;
  } rows[] = {
      {"[\"x\",7,\"z\",1]", "\"param\":\"[3]\",\"expected\":\"nothing\",\"received\":\"number\"}"},
      {"[\"x\",\"seven\"]", "\"param\":\"[1]\",\"expected\":\"integer\",\"received\":\"string\"}"},
      {"{\"a\":\"x\"}", "\"param\":\"n\",\"expected\":\"integer\",\"received\":\"nothing\"}"},
      {"{\"a\":\"x\",\"n\":1,\"d\":0}",
       "\"param\":\"d\",\"expected\":\"only known properties\",\"received\":\"number\"}"},
  };
  static const struct {
    const char *params, *wanted;
  } deep[] = {
      {"{\"how\":\"fast\"}", "\"param\":\"how\",\"expected\":\"one of the accepted values\","
                             "\"received\":\"fast\",\"accepted\":[\"a\",\"b\"]}"},
      {"{\"how\":7}", "\"received\":\"number\",\"accepted\":[\"a\",\"b\"]}"},
      {"{\"size\":3}", "\"param\":\"size\",\"expected\":\"one of 1, 2\",\"received\":\"number\"}"},
      {"{\"list\":[\"x\",1]}",
       "\"param\":\"list[1]\",\"expected\":\"string\",\"received\":\"number\"}"},
      {"{\"to\":{}}", "\"param\":\"to.a/b~c\",\"expected\":\"string\",\"received\":\"nothing\"}"},
      {"[\"a\",1,[],{}]", "\"param\":\"[3].a/b~c\",\"expected\":\"string\""},
  };
#define CLOSED "\"expected\":\"one of the accepted values\",\"received\":"
  static const struct {
    const char *params, *wanted;
  } closed[] = {
      {"{}", "\"param\":\"level\"," CLOSED "\"nothing\",\"accepted\":[\"low\",\"high\"]}"},
      {"{\"level\":7}", CLOSED "\"number\",\"accepted\":[\"low\",\"high\"]}"},
      {"[\"middle\"]", "\"param\":\"[0]\"," CLOSED "\"middle\",\"accepted\":[\"low\",\"high\"]}"},
  };
  (void)state;
  begin("jsonrpc", "--stdio", NULL);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *answer = serving_ask(&self, "join", rows[i].params);
    expect_in(answer, "\"code\":-32602,\"message\":\"Invalid params\",\"data\":{");
    expect_in(answer, rows[i].wanted);
    expect_in(child_line_with(self.server.err, "arguments of a tool were refused"), " bytes");
  }
  for (size_t i = 0; i < sizeof deep / sizeof *deep; i++)
    expect_in(serving_ask(&self, "deep", deep[i].params), deep[i].wanted);
  for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
    expect_in(serving_ask(&self, "pick", closed[i].params), closed[i].wanted);
  finish();
}

/* A line of more than ten megabytes. */
static void expect_too_large(const char *path) {
  static char line[10485762];
  memset(line, 'x', sizeof line - 1);
  self.server = CHILD(program, "serve", path, "--stdio");
  child_send(self.server.in, line);
  close(self.server.in);
  self.server.in = -1;
  expect_in(child_line(self.server.out),
            "\"code\":-32012,\"message\":\"Message too large\",\"data\":{\"maxSize\":10485760,"
            "\"unit\":\"bytes\"}");
  assert_int_equal(child_end(&self.server), 0);
}

static void errors_have_the_codes_of_the_flag_or_of_the_file(void **state) {
  char path[512];
  (void)state;
  begin("jsonrpc", "--codes", "erlmcp");
  expect_in(serving_ask(&self, "join", "{}"),
            "\"code\":-32007,\"message\":\"Validation failed\",\"data\":{\"details\":\"params: ");
  finish();
  serving_make(&self, "{\"codes\":\"erlmcp\",\"tools\":{\"t\":{\"run\":[\"true\"]}}}");
  serving_path(&self, "idem.json", path, sizeof path);
  self.server = CHILD(program, "serve", path, "--stdio");
  expect_in(serving_ask(&self, "tools/list", "{}"),
            "\"code\":-32005,\"message\":\"Server not initialized\"}");
  close(self.server.in);
  self.server.in = -1;
  assert_int_equal(child_end(&self.server), 0);
  expect_too_large(path);
  self.server = CHILD(program, "serve", path, "--stdio", "--codes", "standard");
  expect_in(serving_ask(&self, "tools/list", "{}"), "\"code\":-32600");
  finish();
}

static void a_description_that_is_too_long_for_the_codes_is_told_at_its_place(void **state) {
  char path[512];
  static char text[12000];
  (void)state;
  snprintf(
      text, sizeof text,
      "{\"codes\":\"erlmcp\",\"tools\":{\"t\":{\"run\":[\"true\"],\"description\":\"%010001d\"}}}",
      0);
  serving_make(&self, text);
  serving_path(&self, "idem.json", path, sizeof path);
  child checked = CHILD(program, "serve", "--check", path);
  expect_in(child_rest(checked.err),
            "tool t: its description exceeds the maximum length: 10001 bytes of 10000");
  assert_int_equal(child_end(&checked), 1);
  checked = CHILD(program, "serve", "--check", path, "--codes", "standard");
  expect_in(child_rest(checked.out), "fine");
  assert_int_equal(child_end(&checked), 0);
  child_remove_folder(self.folder);
}

static void results_are_content_and_failures_errors(void **state) {
  (void)state;
  begin("jsonrpc", "--stdio", NULL);
  expect_in(serving_ask(&self, "data", "{}"), "\"result\":{\"k\":[1,2.5");
  expect_in(serving_ask(&self, "rows", "[]"), "\"result\":{\"rows\":[{\"x\":7}],\"row_count\":1");
  child_send(self.server.in, "{\"jsonrpc\":\"2.0\",\"id\":\"none\",\"method\":\"rows\"}\n");
  expect_in(child_line(self.server.out), "\"id\":\"none\",\"result\":{\"rows\"");
  const char *answer = serving_ask(&self, "fail", "{}");
  expect_in(answer, "\"code\":-32000,\"message\":\"Tool failed\"");
  expect_in(answer,
            "\"details\":\"partly\\n\\nfail ended with exit status 3\\nstderr: because\\n\"");
  finish();
}

static void methods_follow_the_file(void **state) {
  (void)state;
  begin("jsonrpc", "--stdio", NULL);
  expect_in(serving_ask(&self, "rows", "[]"), "\"result\"");
  serving_file(&self, "idem.json", "{\"tools\":{\"new\":{\"run\":[\"echo\",\"new\"]}}}");
  child_line_with(self.server.err, "configuration reloaded");
  expect_in(serving_ask(&self, "rows", "[]"),
            "\"code\":-32601,\"message\":\"Method not found\",\"data\":{\"method\":\"rows\"}");
  expect_in(serving_ask(&self, "new", "[]"), "\"result\":\"new\\n\"");
  serving_file(&self, "idem.json", config);
  child_line_with(self.server.err, "configuration reloaded");
  expect_in(serving_ask(&self, "rows", "[]"), "\"result\"");
  finish();
}

static void read_whole(int fd, char *into, size_t len) {
  for (size_t at = 0; at < len;) {
    ssize_t got = read(fd, into + at, len - at);
    assert_true(got > 0);
    at += (size_t)got;
  }
  into[len] = 0;
}

static const char *framed(int fd, const char *body) {
  char message[1024];
  static char answer[4096];
  size_t len = 0;
  snprintf(message, sizeof message, "Content-Length: %zu\r\n\r\n%s", strlen(body), body);
  child_send(fd, message);
  int reply = fd == self.server.in ? self.server.out : fd;
  assert_int_equal(sscanf(child_line(reply), "Content-Length: %zu", &len), 1);
  child_line(reply);
  assert_true(len < sizeof answer);
  read_whole(reply, answer, len);
  return answer;
}

static void lsp_has_its_framing_and_its_own_methods(void **state) {
  (void)state;
  begin("lsp", "--stdio", NULL);
  expect_in(framed(self.server.in,
                   "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"join\",\"params\":[\"x\",1]}"),
            "\"result\":\"x 1\\n\"");
  const char *methods =
      framed(self.server.in, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"describeMethods\"}");
  expect_in(methods, "{\"name\":\"join\",\"params\":[\"a: string\",\"n: integer\",\"c: string\"]");
  expect_in(methods, "{\"name\":\"rows\",\"params\":[],\"returns\":\"object\"}");
  expect_in(methods, "{\"name\":\"data\",\"params\":[],\"returns\":\"any\"}");
  finish();
}

static const char call[] =
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"join\",\"params\":[\"x\",1]}";

static void sockets_serve_them_too(void **state) {
  (void)state;
  char url[600], line[256];
  begin("jsonrpc", "--tcp", "127.0.0.1:0");
  child_listening(&self.server, url, sizeof url);
  int fd = child_connect(url);
  snprintf(line, sizeof line, "%s\n", call);
  child_send(fd, line);
  expect_in(child_line(fd), "\"result\":\"x 1\\n\"");
  close(fd);
  stop();
  char path[512];
  make();
  char config_path[512];
  serving_path(&self, "idem.json", config_path, sizeof config_path);
  serving_path(&self, "s", path, sizeof path);
  self.server = CHILD(program, "serve", config_path, "--profile", "lsp", "--unix", path);
  child_listening(&self.server, url, sizeof url);
  snprintf(url, sizeof url, "unix:%s", path);
  fd = child_connect(url);
  expect_in(framed(fd, call), "\"result\":\"x 1\\n\"");
  close(fd);
  stop();
}

/* Connects to the host of an http:// or ws:// URL whose path is /rpc. */
static int connect_web(const char *flag) {
  char url[256], address[300];
  begin("jsonrpc", flag, "127.0.0.1:0");
  child_listening(&self.server, url, sizeof url);
  char *path = strstr(url + 7, "/rpc");
  assert_non_null(path);
  *path = 0;
  snprintf(address, sizeof address, "tcp://%s", strstr(url, "://") + 3);
  return child_connect(address);
}

static void http_serves_them_too(void **state) {
  (void)state;
  char request[1024];
  int fd = connect_web("--http");
  child_send(fd, "GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n");
  snprintf(request, sizeof request,
           "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Connection: close\r\nContent-Length: %zu\r\n\r\n%s",
           strlen(call), call);
  child_send(fd, request);
  const char *answers = child_rest(fd);
  expect_in(answers, "the endpoint is /rpc");
  expect_in(answers, "\"result\":\"x 1\\n\"");
  close(fd);
  stop();
}

static void websocket_serves_them_too(void **state) {
  (void)state;
  char frame[256] = {(char)0x81, (char)(0x80 | (sizeof call - 1))}, answer[128] = "";
  int fd = connect_web("--ws");
  child_send(fd, "GET /rpc HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
                 "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                 "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n");
  expect_in(child_line(fd), "101 Switching Protocols");
  while (child_line(fd)[0]) {
  }
  memcpy(frame + 6, call, sizeof call - 1); /* masked with zeros */
  assert_int_equal(write(fd, frame, 6 + sizeof call - 1), 6 + sizeof call - 1);
  read_whole(fd, answer, 2);
  assert_int_equal((unsigned char)answer[0], 0x81);
  size_t len = (unsigned char)answer[1];
  assert_true(len < 126);
  read_whole(fd, answer, len);
  expect_in(answer, "\"result\":\"x 1\\n\"");
  close(fd);
  stop();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(params_are_arguments_by_name_or_position),
      cmocka_unit_test(params_that_do_not_fit_are_named),
      cmocka_unit_test(errors_have_the_codes_of_the_flag_or_of_the_file),
      cmocka_unit_test(a_description_that_is_too_long_for_the_codes_is_told_at_its_place),
      cmocka_unit_test(results_are_content_and_failures_errors),
      cmocka_unit_test(methods_follow_the_file),
      cmocka_unit_test(lsp_has_its_framing_and_its_own_methods),
      cmocka_unit_test(sockets_serve_them_too),
      cmocka_unit_test(http_serves_them_too),
      cmocka_unit_test(websocket_serves_them_too),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
