/* test_nginx.c - behind a real proxy, with the configuration the guide gives: nginx on a Unix socket
 * in front of idem-reference, and of an MCP server whose tool tells how far it is. */
#include "child.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BODY "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[1]}"
#define ECHOED "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[1]}"

#define ROOM 8192

static const char around[] =
    "daemon off; master_process off; pid %s/pid; error_log stderr warn;\n"
    "events { worker_connections 64; }\n"
    "http {\n"
    "  access_log off;\n"
    "  client_body_temp_path %s/a; proxy_temp_path %s/b; fastcgi_temp_path %s/c;\n"
    "  uwsgi_temp_path %s/d; scgi_temp_path %s/e;\n"
    "  set_real_ip_from unix:; real_ip_header X-Forwarded-For;\n" /* clients of a socket file */
    "%s}\n";

static char folder[64], front[96], streams[128];
static child server, streaming, proxy;

static void replace(char text[ROOM], const char *what, const char *with) {
  char *at = strstr(text, what);
  if (!at) fail_msg("the guide's settings for nginx have no %s", what);
  char rest[ROOM];
  snprintf(rest, sizeof rest, "%s", at + strlen(what));
  int room = ROOM - (int)(at - text);
  assert_true(snprintf(at, (size_t)room, "%s%s", with, rest) < room);
}

/* What the guide tells people to write. */
static void read_guide(char text[ROOM]) {
  static char guide[1 << 16];
  FILE *file = fopen(IDEM_SOURCE_DIR "/docs/guide/http.md", "r");
  assert_non_null(file);
  guide[fread(guide, 1, sizeof guide - 1, file)] = 0;
  fclose(file);
  const char *from = strstr(guide, "```nginx\n"), *end = from ? strstr(from, "\n```\n") : NULL;
  assert_non_null(end);
  snprintf(text, ROOM, "%.*s\n", (int)(end - from - 9), from + 9);
}

/* At the socket file `front`; /mcp is forwarded by the same words to the server of streams. */
static void fit_settings(char text[ROOM], const char *url) {
  char location[ROOM], listen[128], target[160];
  snprintf(listen, sizeof listen, "listen unix:%s;", front);
  replace(text, "listen 80;", listen);
  const char *from = strstr(text, "  location / {"), *end = from ? strstr(from, "\n  }\n") : NULL;
  assert_non_null(end);
  snprintf(location, sizeof location, "%.*s", (int)(end + 5 - from), from);
  snprintf(target, sizeof target, "proxy_pass %s;", url);
  replace(text, "proxy_pass http://127.0.0.1:8420;", target);
  snprintf(target, sizeof target, "proxy_pass %s;", streams);
  replace(location, "proxy_pass http://127.0.0.1:8420;", target);
  replace(location, "location /", "location /mcp");
  strncat(location, "  location / {", ROOM - strlen(location) - 1);
  replace(text, "  location / {", location);
}

static int setup(void **state) {
  (void)state;
  char url[128], path[96], settings[ROOM];
  child_make_folder(folder, sizeof folder);
  server = CHILD(REFERENCE, "--http", "127.0.0.1:0", "--allow-host", "api.example",
                 "--trusted-proxy", "127.0.0.1", "--rate-limit", "20/1000");
  child_listening(&server, url, sizeof url);
  streaming = CHILD(IDEM_BIN_DIR "/progress", "http://127.0.0.1:0/mcp");
  child_listening(&streaming, streams, sizeof streams);
  snprintf(front, sizeof front, "%s/front", folder);
  read_guide(settings);
  fit_settings(settings, url);
  snprintf(path, sizeof path, "%s/nginx.conf", folder);
  FILE *file = fopen(path, "w");
  if (!file) return 1;
  fprintf(file, around, folder, folder, folder, folder, folder, folder, settings);
  fclose(file);
  proxy = CHILD("/usr/bin/env", "nginx", "-e", "stderr", "-p", folder, "-c", path);
  char target[128];
  snprintf(target, sizeof target, "unix:%s", front);
  uint64_t end = child_now_ms() + 60000;
  int fd = -1;
  while (fd < 0 && child_now_ms() < end) fd = child_try_connect(target);
  if (fd < 0) fail_msg("nginx did not start (is it installed?)");
  close(fd);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  kill(proxy.pid, SIGTERM);
  child_end(&proxy);
  kill(streaming.pid, SIGTERM);
  int status = child_end(&streaming);
  kill(server.pid, SIGTERM);
  status |= child_end(&server);
  for (int name = 'a'; name <= 'e'; name++) {
    char path[96];
    snprintf(path, sizeof path, "%s/%c", folder, (char)name);
    rmdir(path);
  }
  child_remove_folder(folder);
  return status;
}

static const char *ask(const char *host, const char *from) {
  static char text[8192];
  const char *const argv[] = {"/usr/bin/env",
                              "curl",
                              "-sS",
                              "-i",
                              "--max-time",
                              "10",
                              "--unix-socket",
                              front,
                              "-H",
                              "Content-Type: application/json",
                              "-H",
                              from,
                              "-d",
                              BODY,
                              host,
                              NULL};
  child client = child_start_with(argv, CHILD_CLOSED, CHILD_PIPE);
  snprintf(text, sizeof text, "%s", child_rest(client.out));
  assert_int_equal(child_end(&client), 0);
  return text;
}

static void requests_pass(void **state) {
  (void)state;
  assert_non_null(strstr(ask("http://api.example/", "X-Forwarded-For: 192.0.2.9"), ECHOED));
  assert_non_null(strstr(ask("http://other.example/", "X-Forwarded-For: 192.0.2.9"),
                         "--allow-host other.example"));
}

static void clients_are_told_apart(void **state) {
  (void)state;
  int served = 0;
  while (served < 30 && strstr(ask("http://api.example/", "X-Forwarded-For: 192.0.2.1"), "200 OK"))
    served++;
  assert_int_equal(served, 20);
  assert_non_null(strstr(ask("http://api.example/", "X-Forwarded-For: 192.0.2.2"), "200 OK"));
  assert_non_null(strstr(ask("http://api.example/", "X-Forwarded-For: 192.0.2.1"), " 429 "));
  /* Who has used up its share does not get another by a header that nginx does not write. */
  assert_non_null(strstr(
      ask("http://api.example/", "X-Forwarded-For: 192.0.2.1\r\nForwarded: for=198.51.100.1"),
      " 429 "));
}

static void websockets_pass(void **state) {
  (void)state;
  char target[128];
  snprintf(target, sizeof target, "unix:%s", front);
  int fd = child_connect(target);
  child_send(fd,
             "GET / HTTP/1.1\r\nHost: api.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
             "X-Forwarded-For: 192.0.2.3\r\nSec-WebSocket-Version: 13\r\n"
             "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
  assert_non_null(strstr(child_line(fd), "101 Switching Protocols"));
  child_line_with(fd, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  char frame[128] = "\x81\xb5\x01\x01\x01\x01"; /* masked with ones; 53 bytes */
  for (size_t i = 0; i < 53; i++) frame[6 + i] = (char)(BODY[i] ^ 1);
  assert_int_equal(write(fd, frame, 59), 59);
  char answer[256] = "";
  size_t len = 0;
  while (!strstr(answer, "[1]}") && len < sizeof answer - 1) {
    ssize_t n = read(fd, answer + len, 1);
    assert_int_equal(n, 1);
    if (answer[len] != 0) len++;
  }
  assert_non_null(strstr(answer, ECHOED));
  close(fd);
}

/* Speaks HTTP/1.0 to nginx, so that the stream comes without chunks between its lines. */
static int count_down(unsigned from, unsigned step_ms) {
  char target[128], body[512], head[512];
  snprintf(target, sizeof target, "unix:%s", front);
  int len = snprintf(body, sizeof body,
                     "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{"
                     "\"name\":\"count_down\",\"arguments\":{\"from\":%u,\"step_ms\":%u},"
                     "\"_meta\":{\"progressToken\":\"p\","
                     "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                     "\"io.modelcontextprotocol/clientCapabilities\":{}}}}",
                     from, step_ms);
  snprintf(head, sizeof head,
           "POST /mcp HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
           "Mcp-Method: tools/call\r\nMcp-Name: count_down\r\nContent-Length: %d\r\n\r\n",
           len);
  int fd = child_connect(target);
  child_send(fd, head);
  child_send(fd, body);
  child_line_with(fd, "200 OK");
  child_line_with(fd, "text/event-stream");
  return fd;
}

static void expect_step(int fd, unsigned step) {
  char wanted[64];
  snprintf(wanted, sizeof wanted, "\"progress\":%u,", step);
  const char *line = child_line_with(fd, "notifications/progress");
  if (!strstr(line, wanted)) fail_msg("wanted %s in: %s", wanted, line);
}

static void a_long_stream_passes_whole_and_in_order(void **state) {
  (void)state;
  int fd = count_down(1000, 1);
  for (unsigned step = 1; step <= 1000; step++) expect_step(fd, step);
  assert_non_null(strstr(child_line_with(fd, "\"id\":7"), "Lift-off!"));
  child_rest(fd);
  close(fd);
}

static bool in_flight(unsigned wanted) {
  char target[128], line[64];
  snprintf(target, sizeof target, "tcp%s", streams + strlen("http"));
  *strstr(target, "/mcp") = 0;
  int fd = child_connect(target);
  child_send(fd, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  snprintf(line, sizeof line, "\nidem_requests_in_flight %u\n", wanted);
  bool found = strstr(child_rest(fd), line) != NULL;
  close(fd);
  return found;
}

/* The tool would run for a minute: its events do not wait for its end. When its reader leaves, nginx
 * leaves, too, and the tool is told; that takes as long as it takes, so we look again. */
static void events_pass_at_once_and_a_reader_that_leaves_is_noticed(void **state) {
  (void)state;
  int fd = count_down(1000, 60);
  for (unsigned step = 1; step <= 3; step++) expect_step(fd, step);
  assert_true(in_flight(1));
  close(fd);
  uint64_t end = child_now_ms() + 60000;
  while (!in_flight(0))
    if (child_now_ms() > end) fail_msg("the tool still runs");
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(requests_pass),
      cmocka_unit_test(clients_are_told_apart),
      cmocka_unit_test(websockets_pass),
      cmocka_unit_test(a_long_stream_passes_whole_and_in_order),
      cmocka_unit_test(events_pass_at_once_and_a_reader_that_leaves_is_noticed),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
