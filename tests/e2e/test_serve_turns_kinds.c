/* test_serve_turns_kinds.c - HTTP calls and queries of many clients: everyone gets a turn there, too, and
 * quick queries need not wait for slow ones. */
#include "serving.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define AT_A_TIME 64 /* HTTP calls */
#define GREEDY 100
#define SLOW_GREEDY 60
#define SLOW_BEFORE                                                                                \
  24 /* six times four threads: two wait and run, two seconds stood still, two to spare */

static const char program[] = IDEM_BIN_DIR "/idem";

static int connect_ready(const char *url) {
  int fd = child_connect(url);
  child_send(fd, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
                 "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":"
                 "\"t\",\"version\":\"1\"}}}\n");
  expect_in(child_line(fd), "serverInfo");
  child_send(fd, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
  return fd;
}

static void send_call(int fd, int id, const char *tool, const char *value) {
  char message[256];
  snprintf(message, sizeof message,
           "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\","
           "\"arguments\":{\"v\":\"%s\"}}}\n",
           id, tool, value);
  child_send(fd, message);
}

typedef struct scene {
  serving files;
  child server;
  int greedy;
  int modest;
} scene;

static void scene_start(scene *self, const char *config) {
  char url[128], path[512];
  serving_make(&self->files, config);
  serving_file(&self->files, "s.sql", "CREATE TABLE t (a);");
  serving_path(&self->files, "idem.json", path, sizeof path);
  self->server = CHILD(program, "serve", path, "--tcp", "127.0.0.1:0");
  child_listening(&self->server, url, sizeof url);
  self->greedy = connect_ready(url);
  self->modest = connect_ready(url);
}

static void scene_end(scene *self) {
  close(self->greedy);
  close(self->modest);
  kill(self->server.pid, SIGTERM);
  assert_int_equal(child_end(&self->server), 0);
  child_remove_folder(self->files.folder);
}

/* ------------------------------------------------------------------------- HTTP calls */

static int listen_somewhere(unsigned *port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
  assert_int_equal(listen(fd, 200), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
  *port = ntohs(address.sin_port);
  return fd;
}

/* The next request, which waits for its answer; true: it is the modest client's. */
static bool take_request(int listener, int *request) {
  struct pollfd input = {.fd = listener, .events = POLLIN};
  char head[4096];
  assert_int_equal(poll(&input, 1, 60000), 1);
  *request = accept(listener, NULL, NULL);
  input.fd = *request;
  assert_int_equal(poll(&input, 1, 60000), 1);
  ssize_t got = read(*request, head, sizeof head - 1);
  assert_true(got > 0);
  head[got] = 0;
  return strstr(head, "modest");
}

static void answer_request(int request) {
  child_send(request, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
  close(request);
}

/* The greedy one has all slots and the queue; two slots become free. */
static void a_greedy_client_leaves_http_calls_to_another(void **state) {
  scene self;
  char config[256];
  unsigned port;
  int requests[GREEDY + 1], count = 0;
  (void)state;
  int listener = listen_somewhere(&port);
  snprintf(config, sizeof config,
           "{\"queue\":200,\"tools\":{\"get\":{\"args\":{\"v\":\"string\"},\"http\":{\"url\":"
           "\"http://127.0.0.1:%u/{v}\"}}}}",
           port);
  scene_start(&self, config);
  for (int i = 0; i < GREEDY; i++) send_call(self.greedy, 100 + i, "get", "greedy");
  while (count < AT_A_TIME) assert_false(take_request(listener, &requests[count++]));
  send_call(self.modest, 7, "get", "modest");
  child_send(self.modest, "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"ping\"}\n");
  expect_in(child_line(self.modest), "\"id\":8,"); /* the call is there by now */
  answer_request(requests[0]);
  answer_request(requests[1]);
  bool first = take_request(listener, &requests[count++]);
  bool second = take_request(listener, &requests[count++]);
  assert_true(first || second);
  answer_request(requests[first ? count - 2 : count - 1]);
  expect_in(child_line(self.modest), "\"text\":\"ok\"");
  for (int i = 2; i < count; i++) close(requests[i]);
  close(listener);
  scene_end(&self);
}

/* Those that wait are forgotten when their client goes. */
static void http_calls_that_wait_can_be_cancelled(void **state) {
  scene self;
  char config[256], message[128];
  unsigned port;
  int requests[AT_A_TIME], last;
  (void)state;
  int listener = listen_somewhere(&port);
  snprintf(config, sizeof config,
           "{\"tools\":{\"get\":{\"args\":{\"v\":\"string\"},\"http\":{\"url\":"
           "\"http://127.0.0.1:%u/{v}\"}}}}",
           port);
  scene_start(&self, config);
  for (int i = 0; i < GREEDY; i++) send_call(self.greedy, 100 + i, "get", "greedy");
  for (int i = 0; i < AT_A_TIME; i++) take_request(listener, &requests[i]);
  for (int i = AT_A_TIME; i < GREEDY; i++) {
    snprintf(message, sizeof message,
             "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
             "\"requestId\":%d}}\n",
             100 + i);
    child_send(self.greedy, message);
  }
  child_send(self.greedy, "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"ping\"}\n");
  child_line_with(self.greedy, "\"id\":8,");
  send_call(self.modest, 7, "get", "modest");
  answer_request(requests[0]);
  assert_true(take_request(listener, &last));
  close(last);
  for (int i = 1; i < AT_A_TIME; i++) close(requests[i]);
  close(listener);
  scene_end(&self);
}

/* ---------------------------------------------------------------------------- queries */

/* Asks and waits, until some milliseconds have passed. */
static void talk_for_ms(scene *self, uint64_t ms) {
  uint64_t began = child_now_ms();
  do {
    child_send(self->greedy, "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"ping\"}\n");
    child_line_with(self->greedy, "\"id\":8,");
  } while (child_now_ms() - began < ms);
}

/* Many that run until their client goes, for all threads several times; then some that take no time. The first
 * few begin one after another, so that the server finds at different moments that they last. */
static void a_quick_query_does_not_wait_for_slow_ones(void **state) {
  scene self;
  (void)state;
  scene_start(
      &self,
      "{\"tools\":{\"slow\":{\"args\":{\"v\":\"string\"},\"script\":\"s.sql\","
      "\"deadline_ms\":600000,\"query\":\"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i"
      " + 1 FROM n) SELECT max(i) AS m FROM n WHERE i <> :v\"},\"quick\":{\"args\":{\"v\":"
      "\"string\"},\"script\":\"s.sql\",\"query\":\"SELECT :v AS v\"}}}");
  for (int i = 0; i < 12; i++) {
    send_call(self.greedy, 100 + i, "slow", "x");
    talk_for_ms(&self, i < 3 ? 12 : 0);
  }
  talk_for_ms(&self, 300);
  for (int i = 0; i < 5; i++) {
    send_call(self.modest, i, "quick", "mine");
    expect_in(child_line(self.modest), "\"rows\":[{\"v\":\"mine\"}]");
  }
  scene_end(&self);
}

/* Of slow ones, those of another client take turns with the greedy one's. Each runs for a second, so that not many pass
 * while we stand still. */
static void a_greedy_client_s_slow_queries_leave_turns_to_another(void **state) {
  scene self;
  (void)state;
  scene_start(&self,
              "{\"tools\":{\"slow\":{\"args\":{\"v\":\"string\"},\"script\":\"s.sql\","
              "\"deadline_ms\":1000,\"query\":\"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i"
              " + 1 FROM n) SELECT max(i) AS m FROM n WHERE i <> :v\"}}}");
  for (int i = 0; i < SLOW_GREEDY; i++) send_call(self.greedy, 100 + i, "slow", "x");
  child_line_with(self.greedy, "took longer than 1000 ms");
  send_call(self.modest, 7, "slow", "y");
  expect_in(child_line(self.modest), "took longer than 1000 ms");
  child_send(self.greedy, "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"ping\"}\n");
  int answered = 1;
  while (!strstr(child_line(self.greedy), "\"id\":8,")) answered++;
  print_message("%d of the greedy one's came before it\n", answered);
  assert_in_range(answered, 1, SLOW_BEFORE);
  scene_end(&self);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_greedy_client_leaves_http_calls_to_another),
      cmocka_unit_test(http_calls_that_wait_can_be_cancelled),
      cmocka_unit_test(a_quick_query_does_not_wait_for_slow_ones),
      cmocka_unit_test(a_greedy_client_s_slow_queries_leave_turns_to_another),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
