/* test_http_routes.c - the example that has routes of its own does what the guide says. */
#include "child.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static child start(char *tcp, size_t size) {
  char url[128];
  child server = CHILD(IDEM_BIN_DIR "/http_routes", "http://127.0.0.1:0/rpc");
  child_listening(&server, url, sizeof url);
  snprintf(tcp, size, "tcp%.*s", (int)(strcspn(url + 7, "/") + 3), url + 4);
  return server;
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

#define ASK(path, more) "GET " path " HTTP/1.1\r\nHost: localhost\r\n" more "\r\n"
#define SAY                                                                                        \
  "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"                    \
  "Content-Length: 62\r\n\r\n"                                                                     \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"say\",\"params\":{\"text\":\"hi\"}}"

static void a_page_and_a_document_stand_beside_the_protocol(void **state) {
  (void)state;
  char tcp[128];
  child server = start(tcp, sizeof tcp);
  int fd = child_connect(tcp);
  child_send(fd, ASK("/", ""));
  const char *text = read_until(fd, "Say something");
  assert_non_null(strstr(text, "200 OK"));
  assert_non_null(strstr(text, "Content-Security-Policy: default-src 'self'\r\n"));
  child_send(fd, ASK("/", "If-None-Match: \"1\"\r\n"));
  read_until(fd, "304 Not Modified");
  child_send(fd, ASK("/.well-known/about", "Origin: https://elsewhere.example\r\n"));
  text = read_until(fd, "\"name\":\"http_routes\"");
  assert_non_null(strstr(text, "Access-Control-Allow-Origin: *\r\n"));
  child_send(fd, ASK("/feed", ""));
  read_until(fd, "401 Unauthorized");
  close(fd);
  kill(server.pid, SIGTERM);
  assert_int_equal(child_end(&server), 0);
}

static void a_feed_is_pushed_and_ends_with_the_server(void **state) {
  (void)state;
  char tcp[128];
  child server = start(tcp, sizeof tcp);
  int fd = child_connect(tcp), feed = child_connect(tcp), gone = child_connect(tcp);
  child_send(gone, ASK("/feed", "Authorization: Bearer operator\r\n"));
  read_until(gone, "200 OK");
  close(gone); /* nobody is told what it misses */
  child_send(feed, ASK("/feed", "Authorization: Bearer operator\r\n"));
  read_until(feed, "Transfer-Encoding: chunked");
  for (int i = 0; i < 3; i++) {
    child_send(fd, SAY);
    read_until(fd, "\"result\":true");
    read_until(feed, "data: hi\n\n");
  }
  kill(server.pid, SIGTERM);
  read_until(feed, "0\r\n\r\n");
  assert_int_equal(child_end(&server), 0);
  close(feed);
  close(fd);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_page_and_a_document_stand_beside_the_protocol),
      cmocka_unit_test(a_feed_is_pushed_and_ends_with_the_server),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
