/* test_socket_bounds.c - what strangers may have of a server's sockets, with TLS and without: a short time to say
 * something, a share of the connections, and no place that who speaks could have. Clients of this machine have no
 * share, so the test has a network of its own, where there are others. */
#include "certificate.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define ECHO "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[1]}\n"
#define ECHOED "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[1]}"
#define HEALTH "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define HEALTHY "\"status\":\"ok\""
#define FIRST_MS 2000
#define HANDSHAKE_MS 15000 /* less than a server waits for one */

static bool left_out;

/* ----------------------------------------------------------------- a network of our own */

static void write_text(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (write(fd, text, strlen(text)) < 0) print_message("cannot write to %s\n", path);
  close(fd);
}

/* As who we are, where only root may have a network. */
static bool unshare_as_user(void) {
  char uids[48], gids[48];
  snprintf(uids, sizeof uids, "%u %u 1", (unsigned)getuid(), (unsigned)getuid());
  snprintf(gids, sizeof gids, "%u %u 1", (unsigned)getgid(), (unsigned)getgid());
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  write_text("/proc/self/setgroups", "deny");
  write_text("/proc/self/uid_map", uids);
  write_text("/proc/self/gid_map", gids);
  return true;
}

static void name_interface(struct ifreq *request, const char *name) {
  *request = (struct ifreq){.ifr_ifindex = 0};
  snprintf(request->ifr_name, sizeof request->ifr_name, "%s", name);
}

/* 192.0.2.1, which is for documents and examples, beside 127.0.0.1. */
static bool set_addresses(int fd) {
  struct ifreq request;
  struct sockaddr_in outer = {.sin_family = AF_INET, .sin_addr = {htonl(0xc0000201)}};
  name_interface(&request, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (ioctl(fd, SIOCSIFFLAGS, &request) != 0) return false;
  name_interface(&request, "lo:1");
  memcpy(&request.ifr_addr, &outer, sizeof outer);
  return ioctl(fd, SIOCSIFADDR, &request) == 0;
}

static bool make_network(void) {
  if (unshare(CLONE_NEWNET) != 0 && !unshare_as_user()) return false;
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  bool made = fd >= 0 && set_addresses(fd);
  if (fd >= 0) close(fd);
  return made;
}

/* An address that is not this machine's own alone; false: there is none. */
static bool outer_address(struct sockaddr_in *found) {
  struct ifaddrs *all, *one;
  bool has = false;
  assert_int_equal(getifaddrs(&all), 0);
  for (one = all; one && !has; one = one->ifa_next) {
    if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET) continue;
    memcpy(found, one->ifa_addr, sizeof *found);
    has = ntohl(found->sin_addr.s_addr) >> 24 != 127;
  }
  freeifaddrs(all);
  return has;
}

/* A machine that lets nobody make a network may have an address that serves as well. */
static struct sockaddr_in need_outer_address(void) {
  struct sockaddr_in outer = {.sin_family = AF_INET};
  const char *ci = getenv("CI");
  if (outer_address(&outer)) return outer;
  if (ci && strcmp(ci, "true") == 0 && getuid() == 0)
    fail_msg("no network can be made here, there is no address but loopback, and CI is true");
  print_message("NOT TESTED: no network can be made here, and there is no address but loopback\n");
  left_out = true;
  skip();
  return outer;
}

/* ------------------------------------------------------------------------- both sides */

static int connect_to(struct sockaddr_in to, const char *url) {
  to.sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1));
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
  return fd;
}

static int connect_here(const char *url) {
  return connect_to(
      (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}}, url);
}

/* A client that shakes hands. */
static child secure_client(const char *url) {
  char address[64];
  snprintf(address, sizeof address, "127.0.0.1:%d", atoi(strrchr(url, ':') + 1));
  return CHILD("/usr/bin/env", "openssl", "s_client", "-quiet", "-connect", address);
}

static void ask(const child *client, bool web) {
  child_send(client->in, web ? HEALTH : ECHO);
  child_line_with(client->out, web ? HEALTHY : ECHOED);
}

static void leave(child *client) {
  kill(client->pid, SIGTERM);
  child_end(client);
}

static void expect_open(int fd) {
  struct pollfd state = {.fd = fd, .events = POLLIN};
  assert_int_equal(poll(&state, 1, 50), 0);
}

static void expect_end(int fd) {
  child_rest(fd);
  close(fd);
}

static void stop(child *server) {
  kill(server->pid, SIGTERM);
  assert_int_equal(child_end(server), 0);
}

/* ------------------------------------------------------------------------------ shares */

/* Three of four for one client: the fourth is for others, and nobody gives way to who has its share. */
static void check_share(const char *flag, const char *refusal) {
  struct sockaddr_in outer = need_outer_address();
  char url[128];
  int fds[3];
  child server =
      CHILD(REFERENCE, flag, "0.0.0.0:0", "--max-connections", "4", "--client-connections", "3",
            "--first-ms", "60000", "--tls-cert", cert, "--tls-key", key);
  child_listening(&server, url, sizeof url);
  int other = connect_here(url);
  for (int i = 0; i < 3; i++) fds[i] = connect_to(outer, url);
  for (int i = 0; i < 3; i++) {
    int refused = connect_to(outer, url);
    assert_memory_equal(child_rest(refused), refusal, strlen(refusal));
    close(refused);
  }
  expect_open(other);
  for (int i = 0; i < 3; i++) expect_open(fds[i]);
  close(other), close(fds[0]), close(fds[1]), close(fds[2]);
  stop(&server);
}

static void a_client_has_a_share_over_tcp(void **state) {
  (void)state;
  check_share("--tcp", "");
}
static void a_client_has_a_share_over_tls(void **state) {
  (void)state;
  check_share("--tls", "");
}
static void a_client_has_a_share_over_http(void **state) {
  (void)state;
  check_share("--http", "HTTP/1.1 503 ");
}
static void a_client_has_a_share_over_https(void **state) {
  (void)state;
  check_share("--https", "");
}

/* Who leaves gives its place back to its client; the server notices a while later. */
static void check_return(const char *flag) {
  struct sockaddr_in outer = need_outer_address();
  char url[128];
  child server = CHILD(REFERENCE, flag, "0.0.0.0:0", "--client-connections", "1", "--first-ms",
                       "60000", "--tls-cert", cert, "--tls-key", key);
  child_listening(&server, url, sizeof url);
  for (int i = 0; i < 5; i++) {
    uint64_t until = child_now_ms() + 60000;
    struct pollfd one = {.events = POLLIN};
    bool in;
    do {
      one.fd = connect_to(outer, url);
      in = poll(&one, 1, 50) == 0;
      close(one.fd);
    } while (!in && child_now_ms() < until);
    assert_true(in);
  }
  stop(&server);
}

static void who_leaves_gives_the_share_back(void **state) {
  static const char *const flags[] = {"--tcp", "--tls", "--http", "--https"};
  (void)state;
  for (size_t i = 0; i < 4; i++) check_return(flags[i]);
}

/* ----------------------------------------------------------------------------- silence */

/* Before a handshake and after one; who has said something may wait. */
static void silence_over_tls_has_a_short_time(void **state) {
  char urls[2][128];
  child known[2], shaken[2],
      server = CHILD(REFERENCE, "--tls", "127.0.0.1:0", "--https", "127.0.0.1:0", "--first-ms",
                     "2000", "--tls-cert", cert, "--tls-key", key);
  (void)state;
  for (int i = 0; i < 2; i++) child_listening(&server, urls[i], sizeof urls[i]);
  for (int i = 0; i < 2; i++) {
    known[i] = secure_client(urls[i]);
    ask(&known[i], i == 1);
  }
  uint64_t begun = child_now_ms();
  int silent[2] = {connect_here(urls[0]), connect_here(urls[1])};
  for (int i = 0; i < 2; i++) shaken[i] = secure_client(urls[i]);
  for (int i = 0; i < 2; i++) expect_end(silent[i]);
  assert_in_range(child_now_ms() - begun, FIRST_MS / 2, HANDSHAKE_MS);
  for (int i = 0; i < 2; i++) assert_string_equal(child_rest(shaken[i].out), "");
  assert_in_range(child_now_ms() - begun, FIRST_MS / 2, HANDSHAKE_MS);
  for (int i = 0; i < 2; i++) child_end(&shaken[i]);
  for (int i = 0; i < 2; i++) {
    ask(&known[i], i == 1);
    leave(&known[i]);
  }
  stop(&server);
}

/* Two places, both of silent ones: the first gives way first, and then the second. */
static void check_giving_way(const char *flag, bool web) {
  char url[128];
  child client[2], server = CHILD(REFERENCE, flag, "127.0.0.1:0", "--max-connections", "2",
                                  "--first-ms", "60000", "--tls-cert", cert, "--tls-key", key);
  child_listening(&server, url, sizeof url);
  int silent[2] = {connect_here(url), connect_here(url)};
  expect_open(silent[0]);
  for (int i = 0; i < 2; i++) {
    client[i] = secure_client(url);
    ask(&client[i], web);
    expect_end(silent[i]);
    if (i == 0) expect_open(silent[1]);
  }
  if (!web) expect_end(connect_here(url)); /* nobody is silent now */
  for (int i = 0; i < 2; i++) {
    ask(&client[i], web);
    leave(&client[i]);
  }
  stop(&server);
}

static void the_oldest_silent_one_gives_way_over_tls(void **state) {
  (void)state;
  check_giving_way("--tls", false);
}
static void the_oldest_silent_one_gives_way_over_https(void **state) {
  (void)state;
  check_giving_way("--https", true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_client_has_a_share_over_tcp),
      cmocka_unit_test(a_client_has_a_share_over_tls),
      cmocka_unit_test(a_client_has_a_share_over_http),
      cmocka_unit_test(a_client_has_a_share_over_https),
      cmocka_unit_test(who_leaves_gives_the_share_back),
      cmocka_unit_test(silence_over_tls_has_a_short_time),
      cmocka_unit_test(the_oldest_silent_one_gives_way_over_tls),
      cmocka_unit_test(the_oldest_silent_one_gives_way_over_https),
  };
  signal(SIGPIPE, SIG_IGN);
  if (!make_network()) print_message("no network of our own: the machine's is used\n");
  int failed = cmocka_run_group_tests(tests, certificate_set_up, certificate_tear_down);
  return failed == 0 && left_out ? 77 : failed;
}
