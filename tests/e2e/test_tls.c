/* test_tls.c - https and wss: real clients, certificates that change, clients that must show one. */
#include "certificate.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BODY "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[1]}"
#define LOOKED_MS 2500 /* files are looked at once a second at most */
#define ECHOED "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[1]}"

/* Runs a program; its output in *text, its end. */
static int run(const char *const *argv, char *text, size_t size) {
  child client = child_start_with(argv, CHILD_CLOSED, CHILD_PIPE);
  snprintf(text, size, "%s", child_rest(client.out));
  return child_end(&client);
}
#define RUN(text, ...) run((const char *const[]){__VA_ARGS__, NULL}, text, sizeof(text))

static void make_certificate(const char *cert_file, const char *key_file, const char *name) {
  child_make_certificate(cert_file, key_file, name, "DNS:localhost,IP:127.0.0.1");
}

static void stop(child *server) {
  kill(server->pid, SIGTERM);
  assert_int_equal(child_end(server), 0);
}

static int ask(const char *url, const char *authority, char *text, size_t size) {
  return run((const char *const[]){"/usr/bin/env", "curl", "-sS", "--max-time", "10", "--cacert",
                                   authority, "-H", "Content-Type: application/json", "-d", BODY,
                                   url, NULL},
             text, size);
}

static void curl_is_answered_over_tls(void **state) {
  (void)state;
  char url[128], text[8192];
  child server = CHILD(REFERENCE, "--https", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key,
                       "--workers", "2");
  child_listening(&server, url, sizeof url);
  assert_memory_equal(url, "https://127.0.0.1:", 18);
  assert_int_equal(ask(url, cert, text, sizeof text), 0);
  assert_string_equal(text, ECHOED);
  char plain[128];
  snprintf(plain, sizeof plain, "http%s", url + 5);
  assert_true(RUN(text, "/usr/bin/env", "curl", "-sSf", "--max-time", "10", plain) != 0);
  assert_int_equal(RUN(text, "/usr/bin/env", "curl", "-sS", "--max-time", "10", "-w",
                       "%{http_code}", "-d", BODY, plain),
                   0);
  assert_non_null(strstr(text, "\"hint\":\"this port speaks HTTPS: use https://\"}}}400"));
  assert_int_equal(ask(url, cert, text, sizeof text), 0);
  stop(&server);
}

/* By a client that would do with less: who refuses is the server. */
static void versions_before_1_2_are_refused(void **state) {
  (void)state;
  static const char *const versions[] = {"-tls1", "-tls1_1", "-tls1_2", "-tls1_3"};
  char url[128], address[64];
  child server = CHILD(REFERENCE, "--https", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key);
  child_listening(&server, url, sizeof url);
  snprintf(address, sizeof address, "%.*s", (int)strcspn(url + 8, "/"), url + 8);
  for (int i = 0; i < 4; i++) {
    child client = CHILD("/usr/bin/env", "openssl", "s_client", "-connect", address, versions[i],
                         "-cipher", "ALL:@SECLEVEL=0");
    close(client.in);
    client.in = -1;
    bool refused = strstr(child_rest(client.err), "alert protocol version") != NULL;
    int status = child_end(&client);
    assert_int_equal(refused, i < 2);
    assert_int_equal(status != 0, i < 2);
  }
  stop(&server);
}

static void node_speaks_https_and_wss(void **state) {
  (void)state;
  static const char script[] = CHILD_NODE_WEBSOCKET
      "const [https, wss] = process.argv.slice(1); const big = 'x'.repeat(2000000);\n"
      "const ask = id => JSON.stringify({jsonrpc: '2.0', id, method: 'echo', params: [big]});\n"
      "const r = await fetch(https, {method: 'POST', body: ask(1),\n"
      "  headers: {'Content-Type': 'application/json'}});\n"
      "if ((await r.json()).result[0] !== big) { console.log('fetch'); process.exit(1); }\n"
      "await new Promise((resolve, reject) => { const socket = new WebSocket(wss); let seen = 0;\n"
      "  socket.onopen = () => { for (let i = 0; i < 5; i++) socket.send(ask(i)); };\n"
      "  socket.onmessage = e => { const m = JSON.parse(e.data);\n"
      "    if (m.id !== seen || m.result[0] !== big) reject(new Error('answer'));\n"
      "    if (++seen === 5) socket.close(1000); };\n"
      "  socket.onclose = e => e.code === 1000 ? resolve() : reject(new Error('close ' + "
      "e.code));\n"
      "  socket.onerror = () => reject(new Error('error')); });\n"
      "console.log('all well'); process.exit(0);\n";
  char https[128], wss[128], text[8192];
  child server = CHILD(REFERENCE, "--https", "127.0.0.1:0", "--wss", "127.0.0.1:0", "--tls-cert",
                       cert, "--tls-key", key);
  child_listening(&server, https, sizeof https);
  child_listening(&server, wss, sizeof wss);
  char authority[128];
  snprintf(authority, sizeof authority, "NODE_EXTRA_CA_CERTS=%s", cert);
  assert_int_equal(RUN(text, "/usr/bin/env", authority, "node", child_node_flag(),
                       "--input-type=module", "-e", script, https, wss),
                   0);
  assert_string_equal(text, "all well\n");
  stop(&server);
}

static void a_changed_certificate_is_used_without_dropping_anyone(void **state) {
  (void)state;
  char url[128], text[8192], address[64], next_cert[96], next_key[96];
  child server = CHILD(REFERENCE, "--https", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key);
  child_listening(&server, url, sizeof url);
  snprintf(address, sizeof address, "%.*s", (int)strcspn(url + 8, "/"), url + 8);
  child old = CHILD("/usr/bin/env", "openssl", "s_client", "-quiet", "-connect", address);
  static const char request[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  child_send(old.in, request);
  child_line_with(old.out, "\"status\":\"ok\"");
  snprintf(next_cert, sizeof next_cert, "%s/next_cert.pem", folder);
  snprintf(next_key, sizeof next_key, "%s/next_key.pem", folder);
  make_certificate(next_cert, next_key, "second");
  char copy[96];
  snprintf(copy, sizeof copy, "%s/authority.pem", folder);
  assert_int_equal(RUN(text, "/usr/bin/env", "cp", next_cert, copy), 0);
  assert_int_equal(rename(next_key, key), 0);
  assert_int_equal(rename(next_cert, cert), 0);
  uint64_t end = child_now_ms() + 60000;
  int status;
  do status = ask(url, copy, text, sizeof text);
  while (status != 0 && child_now_ms() < end);
  assert_int_equal(status, 0);
  assert_string_equal(text, ECHOED);
  child_send(old.in, request);
  child_line_with(old.out, "\"status\":\"ok\"");
  kill(old.pid, SIGTERM);
  child_end(&old);
  stop(&server);
}

static void clients_must_show_a_certificate_where_one_is_wanted(void **state) {
  (void)state;
  char url[128], text[8192], mine[96], my_key[96];
  snprintf(mine, sizeof mine, "%s/client.pem", folder);
  snprintf(my_key, sizeof my_key, "%s/client_key.pem", folder);
  make_certificate(mine, my_key, "client");
  child server = CHILD(REFERENCE, "--https", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key,
                       "--tls-client-ca", mine);
  child_listening(&server, url, sizeof url);
  assert_true(ask(url, cert, text, sizeof text) != 0);
  assert_int_equal(RUN(text, "/usr/bin/env", "curl", "-sS", "--max-time", "10", "--cacert", cert,
                       "--cert", mine, "--key", my_key, "-H", "Content-Type: application/json",
                       "-d", BODY, url),
                   0);
  assert_string_equal(text, ECHOED);
  assert_true(RUN(text, "/usr/bin/env", "curl", "-sS", "--max-time", "10", "--cacert", cert,
                  "--cert", cert, "--key", key, url) != 0); /* of another authority */
  stop(&server);
}

/* ------------------------------------------------------------- a peer that does not read */

#define LARGE ((size_t)6 << 20) /* more than sockets hold */

static bool pass_on(int from, int to) {
  static char bytes[65536];
  ssize_t got = read(from, bytes, sizeof bytes);
  for (ssize_t done = 0, n; done < got; done += n)
    if ((n = write(to, bytes + done, (size_t)(got - done))) < 0) return false;
  return got > 0;
}

/* Between a client and the server: once the client has said a lot, nothing of the server's is read until
 * it cannot send any more. */
static void relay(int client, int server) {
  struct pollfd ends[2] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
  size_t said = 0;
  int waiting = 0, before = 0;
  for (bool held = true;;) {
    bool wait = held && said > LARGE / 2;
    ends[1].fd = wait ? -1 : server;
    int found = poll(ends, 2, wait ? 20 : -1);
    if (found == 0 && ioctl(server, FIONREAD, &waiting) == 0) {
      held = waiting == 0 || waiting != before;
      before = waiting;
    }
    if (ends[0].revents && found > 0) {
      if (!pass_on(client, server)) ends[0].fd = -1;
      said += 65536;
    }
    if (ends[1].revents && found > 0 && !pass_on(server, client)) return;
  }
}

static unsigned listen_somewhere(int *listener) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof address;
  *listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(*listener, (struct sockaddr *)&address, sizeof address), 0);
  assert_int_equal(listen(*listener, 1), 0);
  assert_int_equal(getsockname(*listener, (struct sockaddr *)&address, &len), 0);
  return ntohs(address.sin_port);
}

/* A process of its own; *port is where it takes its one client. */
static pid_t start_relay(const char *url, unsigned *port) {
  char address[64];
  int listener;
  snprintf(address, sizeof address, "tcp://%.*s", (int)strcspn(strstr(url, "://") + 3, "/"),
           strstr(url, "://") + 3);
  *port = listen_somewhere(&listener);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    int server = child_connect(address), client = accept(listener, NULL, NULL);
    relay(client, server);
    _exit(0);
  }
  close(listener);
  return pid;
}

/* How many x came in one run, the longest; reads until the end or `wanted` of them. */
static size_t count_x(int fd, size_t wanted) {
  static char bytes[65536];
  size_t count = 0;
  ssize_t got;
  while (count < wanted && (got = read(fd, bytes, sizeof bytes)) > 0)
    for (ssize_t i = 0; i < got && count < wanted; i++) count = bytes[i] == 'x' ? count + 1 : 0;
  return count;
}

/* Asks for an echo of a lot through the relay; the head is sent before it, and a line's end after. */
static void expect_whole_echo(const char *url, const char *head) {
  char address[32], *message = malloc(LARGE + 256);
  unsigned port;
  pid_t between = start_relay(url, &port);
  assert_non_null(message);
  int at = snprintf(message, 256,
                    "%s{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[\"", head);
  memset(message + at, 'x', LARGE);
  memcpy(message + at + LARGE, "\"]}\n", 5);
  snprintf(address, sizeof address, "127.0.0.1:%u", port);
  child client = CHILD("/usr/bin/env", "openssl", "s_client", "-quiet", "-connect", address);
  child_send(client.in, message);
  assert_int_equal(count_x(client.out, LARGE), LARGE);
  kill(client.pid, SIGTERM);
  child_end(&client);
  kill(between, SIGKILL);
  assert_int_equal(waitpid(between, NULL, 0), between);
  free(message);
}

static void what_a_slow_peer_does_not_take_waits_encrypted(void **state) {
  (void)state;
  char https[128], tls[128], head[160];
  child server = CHILD(REFERENCE, "--https", "127.0.0.1:0", "--tls", "127.0.0.1:0", "--tls-cert",
                       cert, "--tls-key", key);
  child_listening(&server, https, sizeof https);
  child_listening(&server, tls, sizeof tls);
  assert_memory_equal(https, "https:", 6);
  assert_memory_equal(tls, "tls:", 4);
  snprintf(head, sizeof head,
           "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Content-Length: %zu\r\n\r\n",
           strchr(https + 8, '/'), strlen(BODY) + 1 + LARGE);
  expect_whole_echo(tls, "");
  expect_whole_echo(https, head);
  stop(&server);
}

static void without_good_files_it_does_not_start(void **state) {
  (void)state;
  child server = CHILD(REFERENCE, "--https", "127.0.0.1:0");
  child_line_with(server.err, "cannot serve");
  assert_int_equal(child_end(&server), 1);
  server = CHILD(REFERENCE, "--https", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", cert);
  child_line_with(server.err, "cannot serve");
  assert_int_equal(child_end(&server), 1);
}

/* As a certificate, a key, an authority, a file of tokens. */
static void a_fifo_in_a_file_s_place_is_not_waited_for(void **state) {
  (void)state;
  char fifo[96], text[8192], url[128];
  snprintf(fifo, sizeof fifo, "%s/fifo", folder);
  assert_int_equal(mkfifo(fifo, 0600), 0);
  const char *const flags[][3] = {{fifo, key, cert}, {cert, fifo, cert}, {cert, key, fifo}};
  for (size_t i = 0; i < 3; i++) {
    child server = CHILD(REFERENCE, "--https", "127.0.0.1:0", "--tls-cert", flags[i][0],
                         "--tls-key", flags[i][1], "--tls-client-ca", flags[i][2]);
    child_line_with(server.err, "is no regular file");
    assert_int_equal(child_end(&server), 1);
  }
  child server = CHILD(REFERENCE, "--http", "127.0.0.1:0", "--token-file", fifo);
  assert_non_null(strstr(child_rest(server.err), "--token-file"));
  assert_int_equal(child_end(&server), 2);
  server = CHILD(REFERENCE, "--https", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key);
  child_listening(&server, url, sizeof url);
  char authority[96];
  snprintf(authority, sizeof authority, "%s/before.pem", folder);
  assert_int_equal(RUN(text, "/usr/bin/env", "cp", cert, authority), 0);
  assert_int_equal(rename(fifo, cert), 0);
  uint64_t end = child_now_ms() + LOOKED_MS; /* by then it was looked at more than once */
  while (child_now_ms() < end) {
    assert_int_equal(ask(url, authority, text, sizeof text), 0);
    assert_string_equal(text, ECHOED);
  }
  kill(server.pid, SIGTERM);
  assert_non_null(strstr(child_rest(server.err), "is no regular file"));
  assert_int_equal(child_end(&server), 0);
  assert_int_equal(unlink(cert), 0);
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(curl_is_answered_over_tls),
      cmocka_unit_test(versions_before_1_2_are_refused),
      cmocka_unit_test(node_speaks_https_and_wss),
      cmocka_unit_test(a_changed_certificate_is_used_without_dropping_anyone),
      cmocka_unit_test(clients_must_show_a_certificate_where_one_is_wanted),
      cmocka_unit_test(what_a_slow_peer_does_not_take_waits_encrypted),
      cmocka_unit_test(without_good_files_it_does_not_start),
      cmocka_unit_test(a_fifo_in_a_file_s_place_is_not_waited_for),
  };
  return cmocka_run_group_tests(tests, certificate_set_up, certificate_tear_down);
}
