/* test_http.c - HTTP and WebSocket from outside: raw sockets, curl and node against idem-reference. */
#include "child.h"

#include "support/http_tricks.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BODY "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[1]}"
#define ECHOED "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[1]}"
#define POST                                                                                       \
  "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"                       \
  "Content-Length: 53\r\n\r\n" BODY
#define SLEEP                                                                                      \
  "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"                       \
  "Content-Length: 63\r\n\r\n"                                                                     \
  "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"sleep\",\"params\":{\"ms\":60000}}"

static void stop(child *server) {
  kill(server->pid, SIGTERM);
  assert_int_equal(child_end(server), 0);
}

/* "http://127.0.0.1:1/" as "tcp://127.0.0.1:1", for child_connect. */
static const char *tcp_of(const char *url) {
  static char text[128];
  const char *rest = strstr(url, "://");
  snprintf(text, sizeof text, "tcp%.*s", (int)(strcspn(rest + 3, "/") + 3), rest);
  return text;
}

/* Reads until `wanted` was seen `times` times; fails after a minute. */
static const char *read_until(int fd, const char *wanted, int times) {
  static char text[1 << 20];
  size_t len = 0;
  uint64_t end = child_now_ms() + 60000;
  for (;;) {
    int seen = 0;
    text[len] = 0;
    for (const char *at = text; (at = strstr(at, wanted)); at += strlen(wanted)) seen++;
    if (seen >= times) return text;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    uint64_t now = child_now_ms();
    if (now >= end || poll(&ready, 1, (int)(end - now)) != 1)
      fail_msg("no %d x %s in time, but: %.300s", times, wanted, text);
    ssize_t n = read(fd, text + len, sizeof text - 1 - len);
    if (n <= 0) fail_msg("the end came before %d x %s: %.300s", times, wanted, text);
    len += (size_t)n;
  }
}

static void expect_end(int fd) {
  char rest[4096];
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  ssize_t n = 1;
  while (n > 0 && poll(&ready, 1, 60000) == 1) n = read(fd, rest, sizeof rest);
  assert_true(n <= 0);
}

static child start_http(char *url, size_t size) {
  child server = CHILD(REFERENCE, "--http", "127.0.0.1:0");
  child_listening(&server, url, size);
  assert_memory_equal(url, "http://127.0.0.1:", 17);
  return server;
}

/* --------------------------------------------------------------------- sockets */

static void requests_are_answered_on_one_connection(void **state) {
  (void)state;
  char url[128];
  child server = start_http(url, sizeof url);
  int fd = child_connect(tcp_of(url));
  for (int i = 0; i < 3; i++) {
    child_send(fd, POST);
    read_until(fd, ECHOED, 1);
  }
  child_send(fd, POST POST POST POST);
  read_until(fd, ECHOED, 4);
  close(fd);
  stop(&server);
}

static void one_byte_at_a_time_is_answered(void **state) {
  (void)state;
  char url[128];
  child server = start_http(url, sizeof url);
  int fd = child_connect(tcp_of(url));
  for (const char *at = POST; *at; at++) assert_int_equal(write(fd, at, 1), 1);
  read_until(fd, ECHOED, 1);
  close(fd);
  stop(&server);
}

static void a_half_closed_socket_gets_its_answer_and_the_end(void **state) {
  (void)state;
  char url[128];
  child server = start_http(url, sizeof url);
  int fd = child_connect(tcp_of(url));
  child_send(fd, POST);
  assert_int_equal(shutdown(fd, SHUT_WR), 0);
  read_until(fd, ECHOED, 1);
  expect_end(fd);
  close(fd);
  stop(&server);
}

/* Sent whole, each on a connection of its own: one answer, and whatever is behind it is not another
 * request. */
static void every_trick_gets_its_one_answer(void **state) {
  (void)state;
  char url[128];
  child server = start_http(url, sizeof url);
  for (size_t i = 0; i < sizeof tricks / sizeof *tricks; i++) {
    int fd = child_connect(tcp_of(url)), answers = 0;
    child_send(fd, tricks[i].text);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    const char *text = child_rest(fd);
    for (const char *at = text; (at = strstr(at, "HTTP/1.1 ")); at++) answers++;
    if (answers != 1 || !strstr(text, tricks[i].status) || !strstr(text, tricks[i].contains))
      fail_msg("%s: %s", tricks[i].name, text);
    close(fd);
  }
  int fd = child_connect(tcp_of(url));
  child_send(fd, BODY "\n"); /* nor lines */
  assert_non_null(strstr(child_rest(fd), "HTTP/1.1 400 Bad Request"));
  close(fd);
  fd = child_connect(tcp_of(url));
  child_send(fd, POST);
  read_until(fd, ECHOED, 1);
  close(fd);
  stop(&server);
}

static void a_burst_of_a_thousand_is_answered_in_order(void **state) {
  (void)state;
  char url[128];
  child server = start_http(url, sizeof url);
  int fd = child_connect(tcp_of(url));
  char *burst = malloc(1000 * 220), *at = burst;
  assert_non_null(burst);
  for (int i = 0; i < 1000; i++) {
    char body[96];
    int len = snprintf(body, sizeof body, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"echo\"}", i);
    at += snprintf(at, 220,
                   "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                   "Content-Length: %d\r\n\r\n%s",
                   len, body);
  }
  pid_t writer = fork();
  if (writer == 0) {
    for (char *from = burst; from < at;) {
      ssize_t n = write(fd, from, (size_t)(at - from));
      if (n <= 0) _exit(1);
      from += n;
    }
    _exit(0);
  }
  const char *text = read_until(fd, "HTTP/1.1 200 OK", 1000);
  for (int i = 0; i < 999; i++) { /* the last body may still be on its way */
    char want[32];
    snprintf(want, sizeof want, "\"id\":%d,\"result\"", i);
    text = strstr(text, want);
    assert_non_null(text);
  }
  free(burst);
  close(fd);
  stop(&server);
}

/* ------------------------------------------------------------------- lifecycle */

static void stopping_answers_what_cannot_finish(void **state) {
  (void)state;
  char url[128];
  child server = start_http(url, sizeof url);
  int fd = child_connect(tcp_of(url));
  child_send(fd, SLEEP);
  int idle = child_connect(tcp_of(url));
  child_send(idle, POST);
  read_until(idle, ECHOED, 1);
  kill(server.pid, SIGTERM);
  read_until(fd, "\"id\":2,\"error\":{\"code\":-32603", 1);
  expect_end(idle);
  assert_int_equal(child_wait(&server), 0);
  close(fd);
  close(idle);
}

static int count_descriptors(pid_t pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%ld/fd", (long)pid);
  DIR *folder = opendir(path);
  int count = 0;
  assert_non_null(folder);
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

static void clients_that_vanish_leave_no_descriptor_behind(void **state) {
  (void)state;
  char url[128];
  child server = start_http(url, sizeof url);
  int fd = child_connect(tcp_of(url));
  child_send(fd, POST);
  read_until(fd, ECHOED, 1);
  int before = count_descriptors(server.pid);
  for (int i = 0; i < 200; i++) {
    int gone = child_connect(tcp_of(url));
    child_send(gone, i % 3 == 0 ? SLEEP : i % 3 == 1 ? "POST / HTTP/1.1\r\nHost: lo" : POST);
    struct linger reset = {.l_onoff = i % 3 == 0 || i % 2, .l_linger = 0}; /* one who only ends its
                                           input still wants the answer */
    setsockopt(gone, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(gone);
  }
  uint64_t end = child_now_ms() + 60000;
  int after;
  do {
    child_send(fd, POST);
    read_until(fd, ECHOED, 1);
    after = count_descriptors(server.pid);
  } while (after > before && child_now_ms() < end);
  assert_int_equal(after, before);
  close(fd);
  stop(&server);
}

/* A connection that is in use for as long as it is open. */
static int open_websocket(const char *url) {
  int fd = child_connect(tcp_of(url));
  child_send(fd,
             "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
             "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
  read_until(fd, "HTTP/1.1 101 ", 1);
  return fd;
}

/* A thousand who say nothing do not lock the others out. */
static void who_says_nothing_gives_way(void **state) {
  (void)state;
  char url[128];
  child server = CHILD(REFERENCE, "--http", "127.0.0.1:0", "--max-connections", "3");
  child_listening(&server, url, sizeof url);
  int busy = open_websocket(url), one = child_connect(tcp_of(url));
  child_send(one, POST);
  read_until(one, ECHOED, 1);
  int silent = child_connect(tcp_of(url)), two = child_connect(tcp_of(url));
  child_send(two, POST);
  read_until(two, ECHOED, 1);
  expect_end(silent);
  child_send(one, POST); /* who has spoken is still there, and now came last */
  read_until(one, ECHOED, 1);
  int three = child_connect(tcp_of(url));
  child_send(three, POST);
  read_until(three, ECHOED, 1);
  expect_end(two);
  child_send(one, POST);
  read_until(one, ECHOED, 1);
  for (int i = 0; i < 50; i++) close(child_connect(tcp_of(url)));
  child_send(busy, "\x89\x80\x01\x01\x01\x01");
  read_until(busy, "\x8a", 1);
  close(busy), close(one), close(silent), close(two), close(three);
  stop(&server);
}

static void over_the_cap_a_connection_is_politely_refused(void **state) {
  (void)state;
  char url[128];
  child server = CHILD(REFERENCE, "--http", "127.0.0.1:0", "--max-connections", "2");
  child_listening(&server, url, sizeof url);
  int one = open_websocket(url), two = open_websocket(url);
  int three = child_connect(tcp_of(url));
  read_until(three, "HTTP/1.1 503 Service Unavailable", 1);
  expect_end(three);
  close(three);
  close(two);
  uint64_t end = child_now_ms() + 60000;
  const char *text = "503";
  while (strstr(text, "503") && child_now_ms() < end) { /* until the free place is noticed */
    int four = child_connect(tcp_of(url));
    child_send(four, POST);
    text = read_until(four, "}", 1);
    close(four);
  }
  assert_null(strstr(text, "503"));
  close(one);
  stop(&server);
}

/* However the kernel spreads them over the loops. */
static void the_cap_is_one_for_all_workers(void **state) {
  (void)state;
  char url[128];
  int fds[8];
  child server =
      CHILD(REFERENCE, "--http", "127.0.0.1:0", "--max-connections", "8", "--workers", "2");
  child_listening(&server, url, sizeof url);
  for (int i = 0; i < 8; i++) {
    fds[i] = open_websocket(url);
  }
  for (int i = 0; i < 8; i++) {
    int more = child_connect(tcp_of(url));
    read_until(more, "HTTP/1.1 503 Service Unavailable", 1);
    close(more);
  }
  for (int i = 0; i < 8; i++) close(fds[i]);
  stop(&server);
}

/* Asks until the line is there; another loop may not have come to it yet. */
static void expect_metric(const char *url, const char *line) {
  uint64_t end = child_now_ms() + 60000;
  for (bool found = false; !found;) {
    int fd = child_connect(tcp_of(url));
    child_send(fd, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    const char *text = child_rest(fd);
    found = strstr(text, line) != NULL;
    if (!found && child_now_ms() > end) fail_msg("no%sin: %s", line, text);
    close(fd);
  }
}

/* What /metrics says on a connection that stays open. */
static const char *read_metrics(int fd) {
  static char text[1 << 16];
  size_t len = 0, whole = sizeof text;
  child_send(fd, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  while (len < whole) {
    ssize_t n = recv(fd, text + len, sizeof text - 1 - len, 0);
    assert_true(n > 0);
    len += (size_t)n;
    text[len] = '\0';
    const char *body = strstr(text, "\r\n\r\n"), *size = strstr(text, "Content-Length: ");
    if (body && size) whole = (size_t)(body + 4 - text) + strtoul(size + 16, NULL, 10);
  }
  return text;
}

/* So many beside the one that asks. */
static void expect_connections(int admin, int count) {
  char line[64];
  uint64_t end = child_now_ms() + 60000;
  snprintf(line, sizeof line, "\nidem_connections %d\n", count + 1);
  while (!strstr(read_metrics(admin), line))
    if (child_now_ms() > end) fail_msg("no %s", line);
}

/* The kernel spreads them over the loops as it likes: whichever loop a newcomer comes to, who has waited
 * longest goes, on whichever loop that is. */
static void who_says_nothing_gives_way_on_any_loop(void **state) {
  (void)state;
  enum { MOST = 8, ROUNDS = 8 };
  char url[128], admin[128];
  child server = CHILD(REFERENCE, "--http", "127.0.0.1:0", "--max-connections", "8", "--workers",
                       "4", "--first-ms", "600000", "--admin", "127.0.0.1:0");
  child_listening(&server, url, sizeof url);
  child_listening(&server, admin, sizeof admin);
  int watch = child_connect(tcp_of(admin));
  for (int round = 0; round < ROUNDS; round++) {
    int silent[MOST], asking[MOST];
    expect_connections(watch, 0);
    for (int i = 0; i < MOST; i++) silent[i] = child_connect(tcp_of(url));
    expect_connections(watch, MOST);
    for (int i = 0; i < MOST; i++) {
      asking[i] = child_connect(tcp_of(url));
      child_send(asking[i], POST);
      read_until(asking[i], ECHOED, 1);
    }
    for (int i = 0; i < MOST; i++) {
      expect_end(silent[i]);
      close(silent[i]);
    }
    for (int i = 0; i < MOST; i++) { /* nobody who spoke had to go */
      child_send(asking[i], POST);
      read_until(asking[i], ECHOED, 1);
    }
    for (int i = 0; i < MOST; i++) close(asking[i]);
  }
  close(watch);
  stop(&server);
}

/* How many threads of a process let others finish before they run. */
static int patient_threads(pid_t pid) {
  char path[64];
  int count = 0;
  snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
  DIR *tasks = opendir(path);
  assert_non_null(tasks);
  for (const struct dirent *entry; (entry = readdir(tasks));) {
    long thread = strtol(entry->d_name, NULL, 10);
    if (thread > 0 && sched_getscheduler((pid_t)thread) == (SCHED_BATCH | SCHED_RESET_ON_FORK))
      count++;
  }
  closedir(tasks);
  return count;
}

static void workers_share_a_port_and_two_servers_do_not(void **state) {
  (void)state;
  char url[128];
  child server = CHILD(REFERENCE, "--http", "127.0.0.1:0", "--workers", "3");
  child_listening(&server, url, sizeof url);
  for (int i = 0; i < 40; i++) {
    int fd = child_connect(tcp_of(url));
    child_send(fd, POST);
    read_until(fd, ECHOED, 1);
    close(fd);
  }
  assert_int_equal(patient_threads(server.pid), 3);
  char address[64];
  snprintf(address, sizeof address, "%s", tcp_of(url) + 6);
  child second = CHILD(REFERENCE, "--http", address, "--workers", "2");
  child_line_with(second.err, "cannot listen");
  assert_int_equal(child_end(&second), 1);
  int fd = child_connect(tcp_of(url));
  child_send(fd, SLEEP);
  expect_metric(url, "\nidem_requests_in_flight 1\n"); /* on whichever loop it is */
  expect_metric(url, "\nmcp_requests_total{method=\"echo\",status=\"ok\"} 40\n");
  kill(server.pid, SIGTERM);
  read_until(fd, "\"id\":2,\"error\":{\"code\":-32603", 1);
  assert_int_equal(child_end(&server), 0);
  close(fd);
}

static void health_and_metrics_have_an_address_of_their_own(void **state) {
  (void)state;
  char url[128], admin[128];
  child server = CHILD(REFERENCE, "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0");
  child_listening(&server, url, sizeof url);
  child_listening(&server, admin, sizeof admin);
  int fd = child_connect(tcp_of(url));
  child_send(fd, POST);
  read_until(fd, ECHOED, 1);
  int other = child_connect(tcp_of(admin));
  child_send(other, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  read_until(other, "{\"status\":\"ok\"}", 1);
  child_send(other, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  read_until(other, "mcp_requests_total{method=\"echo\",status=\"ok\"} 1\n", 1);
  child_send(other, POST);
  read_until(other, "HTTP/1.1 404 ", 1);
  close(other);
  close(fd);
  stop(&server);
}

/* Whatever a process serves, its counters are in one place. */
static void metrics_count_every_transport(void **state) {
  (void)state;
  char tcp[128], unixed[128], admin[128], folder[64], path[96];
  child_make_folder(folder, sizeof folder);
  snprintf(path, sizeof path, "%s/socket", folder);
  child server =
      CHILD(REFERENCE, "--stdio", "--tcp", "127.0.0.1:0", "--unix", path, "--admin", "127.0.0.1:0");
  child_line_with(server.err, "listening on stdio:");
  child_listening(&server, tcp, sizeof tcp);
  child_listening(&server, unixed, sizeof unixed);
  child_listening(&server, admin, sizeof admin);
  child_send(server.in, BODY "\n");
  read_until(server.out, ECHOED, 1);
  expect_metric(admin, "\nmcp_requests_total{method=\"echo\",status=\"ok\"} 1\n");
  expect_metric(admin, "\nmcp_request_duration_seconds_count{method=\"echo\"} 1\n");
  int fd = child_connect(tcp), other = child_connect(unixed);
  child_send(fd, BODY "\n");
  read_until(fd, ECHOED, 1);
  child_send(other, BODY "\nnonsense\n");
  read_until(other, "-32700", 1);
  expect_metric(admin, "\nmcp_requests_total{method=\"echo\",status=\"ok\"} 3\n");
  expect_metric(admin, "\nidem_errors_total{code=\"-32700\"} 1\n");
  child_send(fd, "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"sleep\",\"params\":{\"ms\":60000}}\n");
  expect_metric(admin, "\nidem_requests_in_flight 1\n");
  struct linger reset = {.l_onoff = 1};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  close(fd);
  expect_metric(admin, "\nmcp_requests_total{method=\"sleep\",status=\"cancelled\"} 1\n");
  close(other);
  stop(&server);
}

/* --------------------------------------------------------------- real clients */

/* Runs the program; its whole output, and that it ended well. */
static const char *output_of(const char *const *argv) {
  child client = child_start_with(argv, CHILD_CLOSED, CHILD_PIPE);
  static char text[65536];
  snprintf(text, sizeof text, "%s", child_rest(client.out));
  int status = child_end(&client);
  if (status != 0) fail_msg("%s ended with %d: %s", argv[0], status, text);
  return text;
}
#define OUTPUT(...) output_of((const char *const[]){__VA_ARGS__, NULL})

static void curl_is_answered(void **state) {
  (void)state;
  char url[128], folder[64], path[96];
  child_make_folder(folder, sizeof folder);
  snprintf(path, sizeof path, "%s/token", folder);
  int fd = open(path, O_WRONLY | O_CREAT, 0600);
  assert_true(fd >= 0 && write(fd, "first\nsecond\n", 13) == 13);
  close(fd);
  child server = CHILD(REFERENCE, "--http", "127.0.0.1:0", "--token-file", path);
  child_listening(&server, url, sizeof url);
  const char *text = OUTPUT("/usr/bin/env", "curl", "-sS", "-i", "--max-time", "10", "-H",
                            "Content-Type: application/json", "-d", BODY, url);
  assert_non_null(strstr(text, "HTTP/1.1 401 Unauthorized"));
  text = OUTPUT("/usr/bin/env", "curl", "-sS", "--max-time", "10", "-H",
                "Content-Type: application/json", "-H", "Authorization: Bearer second", "-d", BODY,
                url);
  assert_string_equal(text, ECHOED);
  text = OUTPUT("/usr/bin/env", "curl", "-sS", "--max-time", "10", "-H",
                "Content-Type: application/json", "-H", "Authorization: Bearer first", "-H",
                "Transfer-Encoding: chunked", "-H", "Expect: 100-continue", "-d", BODY, url);
  assert_string_equal(text, ECHOED);
  text = OUTPUT("/usr/bin/env", "curl", "-sS", "-i", "--max-time", "10", "-H", "Host: evil.example",
                "-H", "Content-Type: application/json", "-d", BODY, url);
  assert_non_null(strstr(text, "--allow-host evil.example"));
  stop(&server);
  child_remove_folder(folder);
}

static void the_token_may_stand_in_the_environment(void **state) {
  (void)state;
  char url[128];
  child server = CHILD("/usr/bin/env", "IDEM_TOKEN=hush", REFERENCE, "--http", "127.0.0.1:0",
                       "--admin", "127.0.0.1:0");
  static const char get[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n",
                    token[] = "Authorization: Bearer hush\r\n";
  for (int i = 0; i < 2; i++) { /* also where health and metrics are served alone */
    child_listening(&server, url, sizeof url);
    int fd = child_connect(tcp_of(url));
    child_send(fd, get);
    child_send(fd, "\r\n");
    read_until(fd, "HTTP/1.1 401 Unauthorized", 1);
    child_send(fd, get);
    child_send(fd, token);
    child_send(fd, "\r\n");
    read_until(fd, "HTTP/1.1 200 OK", 1);
    close(fd);
  }
  stop(&server);
}

static void the_rate_limit_is_kept_per_client(void **state) {
  (void)state;
  char url[128];
  child server = CHILD(REFERENCE, "--http", "127.0.0.1:0", "--rate-limit", "2/100",
                       "--trusted-proxy", "127.0.0.1", "--workers", "2");
  child_listening(&server, url, sizeof url);
  static const char *const clients[] = {"X-Forwarded-For: 1.2.3.4", "X-Forwarded-For: 1.2.3.5"};
  for (size_t i = 0; i < 6; i++) {
    const char *text =
        OUTPUT("/usr/bin/env", "curl", "-sS", "-i", "--max-time", "10", "-H", clients[i / 3], "-H",
               "Content-Type: application/json", "-d", BODY, url);
    assert_non_null(strstr(text, i % 3 < 2 ? "HTTP/1.1 200 OK" : "HTTP/1.1 429 "));
    if (i % 3 == 2) {
      assert_non_null(strstr(text, "Retry-After: "));
      assert_non_null(strstr(text, "\"id\":1,\"error\""));
    }
  }
  stop(&server);
}

static void node_fetch_and_websocket_are_answered(void **state) {
  (void)state;
  static const char script[] = CHILD_NODE_WEBSOCKET
      "const [http, ws] = process.argv.slice(1);\n"
      "const post = (body, headers = {}) => fetch(http, {method: 'POST', body,\n"
      "  headers: {'Content-Type': 'application/json', ...headers}});\n"
      "const check = (name, ok) => { if (!ok) { console.log('FAILED ' + name); process.exit(1); } "
      "};\n"
      "const ask = id => JSON.stringify({jsonrpc: '2.0', id, method: 'echo', params: "
      "['\\u00e9\\n']});\n"
      "const r = await post(ask('x'));\n"
      "check('fetch', r.status === 200 && (await r.json()).result[0] === '\\u00e9\\n');\n"
      "const n = await post(JSON.stringify({jsonrpc: '2.0', method: 'update'}));\n"
      "check('notification', n.status === 204 && (await n.text()) === '');\n"
      "const many = await Promise.all([...Array(50).keys()].map(i => post(ask(i)).then(r => "
      "r.json())));\n"
      "check('many', many.every((m, i) => m.id === i));\n"
      "const big = 'x'.repeat(3000000);\n"
      "const b = await (await post(JSON.stringify({jsonrpc: '2.0', id: 1, method: 'echo', params: "
      "[big]}))).json();\n"
      "check('big', b.result[0] === big);\n"
      "const talk = url => new Promise((resolve, reject) => {\n"
      "  const socket = new WebSocket(url); let seen = 0;\n"
      "  socket.onopen = () => { for (let i = 0; i < 100; i++) socket.send(ask(i));\n"
      "    socket.send(JSON.stringify({jsonrpc: '2.0', id: 100, method: 'echo', params: [big]})); "
      "};\n"
      "  socket.onmessage = e => { const m = JSON.parse(e.data);\n"
      "    if (m.id !== seen++) reject(new Error('order'));\n"
      "    if (seen === 101) { if (m.result[0] !== big) reject(new Error('big')); "
      "socket.close(1000); } };\n"
      "  socket.onclose = e => e.code === 1000 && seen === 101 ? resolve() : reject(new "
      "Error('close ' + e.code));\n"
      "  socket.onerror = () => reject(new Error('error'));\n"
      "});\n"
      "await talk(ws); await talk(http.replace('http', 'ws'));\n"
      "console.log('all well'); process.exit(0);\n";
  char http[128], ws[128];
  child server = CHILD(REFERENCE, "--http", "127.0.0.1:0", "--ws", "127.0.0.1:0");
  child_listening(&server, http, sizeof http);
  child_listening(&server, ws, sizeof ws);
  assert_memory_equal(ws, "ws://127.0.0.1:", 15);
  const char *text = OUTPUT("/usr/bin/env", "node", child_node_flag(), "--input-type=module", "-e",
                            script, http, ws);
  assert_string_equal(text, "all well\n");
  stop(&server);
}

static void bad_flags_do_not_start(void **state) {
  (void)state;
  static const char *const bad[][3] = {
      {"--rate-limit", "5", NULL}, {"--workers", "0", NULL}, {"--token-file", "/nonexistent", NULL},
      {"--http", "nowhere", NULL}, {"--tcp", "99999", NULL}, {"--nonsense", "1", NULL}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    child server = CHILD(REFERENCE, bad[i][0], bad[i][1]);
    assert_int_equal(child_end(&server), 2);
  }
  child server = CHILD(REFERENCE, "--token-file", "/nonexistent");
  child_line_with(server.err, "No such file or directory: /nonexistent");
  assert_int_equal(child_end(&server), 2);
  server = CHILD(REFERENCE, "--http", "127.0.0.1:0", "--allow-host", "a b");
  child_line_with(server.err, "cannot serve");
  assert_int_equal(child_end(&server), 1);
  server = CHILD(REFERENCE, "--http", "127.0.0.1:0", "--trusted-proxy", "a.b", "--workers", "2");
  child_line_with(server.err, "cannot serve");
  assert_int_equal(child_end(&server), 1);
}

/* As idem does. */
static void a_port_alone_is_on_this_machine(void **state) {
  (void)state;
  char url[128];
  child server = CHILD(REFERENCE, "--http", "0");
  child_listening(&server, url, sizeof url);
  assert_memory_equal(url, "http://localhost:", 17);
  stop(&server);
  assert_memory_equal(OUTPUT(REFERENCE, "-V"), "idem-reference ", 15);
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGCHLD, SIG_DFL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(requests_are_answered_on_one_connection),
      cmocka_unit_test(one_byte_at_a_time_is_answered),
      cmocka_unit_test(a_half_closed_socket_gets_its_answer_and_the_end),
      cmocka_unit_test(every_trick_gets_its_one_answer),
      cmocka_unit_test(a_burst_of_a_thousand_is_answered_in_order),
      cmocka_unit_test(stopping_answers_what_cannot_finish),
      cmocka_unit_test(clients_that_vanish_leave_no_descriptor_behind),
      cmocka_unit_test(who_says_nothing_gives_way),
      cmocka_unit_test(who_says_nothing_gives_way_on_any_loop),
      cmocka_unit_test(over_the_cap_a_connection_is_politely_refused),
      cmocka_unit_test(the_cap_is_one_for_all_workers),
      cmocka_unit_test(workers_share_a_port_and_two_servers_do_not),
      cmocka_unit_test(health_and_metrics_have_an_address_of_their_own),
      cmocka_unit_test(metrics_count_every_transport),
      cmocka_unit_test(curl_is_answered),
      cmocka_unit_test(the_token_may_stand_in_the_environment),
      cmocka_unit_test(the_rate_limit_is_kept_per_client),
      cmocka_unit_test(node_fetch_and_websocket_are_answered),
      cmocka_unit_test(bad_flags_do_not_start),
      cmocka_unit_test(a_port_alone_is_on_this_machine),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
