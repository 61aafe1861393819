/* test_serve_turns.c - many calls, few processes: everyone gets a turn, by tool and by client, and no
 * more programs run than the limit says. */
#include "serving.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOOLS 500
#define CALLS 1000
#define WAITING_KIB 16384 /* it is a third of that with sanitizers */
#define GREEDY 300
#define MODEST 20
#define AT_A_TIME 8

#define BUSY_BEFORE (2 * AT_A_TIME)          /* those that ran, and a round to spare */
#define GREEDY_BEFORE (BUSY_BEFORE + MODEST) /* and one for each of the other's */

/* Nobody gets a turn before all have asked. */
#define HELD "while [ ! -e go ]; do sleep 0.01; done"
/* Says that its turn has come, and whose it is, and runs until it or everybody is let go. */
#define HELD_EACH                                                                                  \
  "echo $1 $$ >>out/runs; while [ ! -e go ] && [ ! -e out/$$ ]; do sleep 0.01; done; [ -e go ] "   \
  "|| rm out/$$"

static const char program[] = IDEM_BIN_DIR "/idem";

static char *make_config(void) {
  char *config = NULL;
  size_t size;
  FILE *out = open_memstream(&config, &size);
  assert_non_null(out);
  fputs("{\"concurrency\":8,\"queue\":2000,\"tools\":{", out);
  fputs("\"t0\":{\"args\":{\"who\":\"string\"},\"run\":[\"sh\",\"-c\",\"" HELD_EACH
        "\",\"sh\",\"{who}\"],\"allow\":{\"write\":[\"out\"]}}",
        out);
  for (int i = 1; i < TOOLS; i++) fprintf(out, ",\"t%d\":{\"run\":[\"true\"]}", i);
  fputs("}}", out);
  assert_int_equal(fclose(out), 0);
  return config;
}

/* The first tool's programs do not end until they are let go. */
static void let_all_go(const serving *self) { serving_file(self, "go", ""); }

static void remove_file(const serving *self, const char *name) {
  char path[512];
  serving_path(self, name, path, sizeof path);
  unlink(path);
}

/* From now on they are held, and counted anew. */
static void hold(const serving *self) {
  remove_file(self, "go");
  remove_file(self, "out/runs");
}

/* The first tool's turns: how many there have been, how many of them are this one's, and the process of the one at
 * index `at`. */
typedef struct turns {
  int all, of_one;
  long pid;
} turns;

static turns look_at_turns(const serving *self, const char *one, int at) {
  char path[512], who[16];
  turns seen = {0};
  long pid;
  serving_path(self, "out/runs", path, sizeof path);
  FILE *file = fopen(path, "r");
  while (file && fscanf(file, "%15s %ld\n", who, &pid) == 2) {
    if (seen.all++ == at) seen.pid = pid;
    seen.of_one += strcmp(who, one) == 0;
  }
  if (file) fclose(file);
  return seen;
}

static void let_one_go(const serving *self, long pid) {
  char name[64];
  assert_true(pid > 1);
  snprintf(name, sizeof name, "out/%ld", pid);
  serving_file(self, name, "");
}

/* All that was sent before it has been taken. */
static void ping(int in, int out, int id) {
  char message[64], answer[64];
  snprintf(message, sizeof message, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n", id);
  snprintf(answer, sizeof answer, "\"id\":%d,", id);
  child_send(in, message);
  expect_in(child_line_with(out, "\"id\":"), answer);
}

/* ---------------------------------------------------------------------- many at once */

static void write_call(FILE *out, int id, int tool, const char *arguments) {
  fprintf(out,
          "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{\"name\":\"t%d\","
          "\"arguments\":%s}}\n",
          id, tool, tool == 0 ? arguments : "{}");
}

/* Written by a process of its own: the server may read no faster than it answers. The arguments are the first tool's. */
static pid_t send_calls(int fd, int count, int (*tool_of)(int index), const char *arguments) {
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid > 0) return pid;
  FILE *out = fdopen(dup(fd), "w");
  for (int i = 0; out && i < count; i++) write_call(out, 1000 + i, tool_of(i), arguments);
  _exit(out && fclose(out) == 0 ? 0 : 1);
}

static int answered_id(const char *line) {
  const char *id = strstr(line, "\"id\":");
  assert_non_null(id);
  expect_in(line, "\"result\"");
  expect_not_in(line, "isError");
  return (int)strtol(id + 5, NULL, 10);
}

/* The others get one each, and the last of them two. */
static int half_to_one_tool(int index) {
  int other = index - CALLS / 2 + 1;
  return other <= 0 ? 0 : other < TOOLS ? other : TOOLS - 1;
}
static int always_the_first(int index) { return index * 0; }
static int one_of_two(int index) { return index % 2; }

static int count_descriptors(pid_t pid) {
  char path[64];
  int count = 0;
  snprintf(path, sizeof path, "/proc/%ld/fd", (long)pid);
  DIR *folder = opendir(path);
  assert_non_null(folder);
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

/* One more has come. */
static void note_answer(serving *self, bool seen[CALLS], int *of_others) {
  int index = answered_id(child_line_with(self->server.out, "\"id\":")) - 1000;
  assert_true(index >= 0 && index < CALLS && !seen[index]);
  seen[index] = true;
  *of_others += index >= CALLS / 2;
}

/* One of the busy tool's is let go whenever nothing but these runs: time plays no part in who comes first. */
static int busy_before_last(serving *self, bool seen[CALLS]) {
  struct pollfd output = {.fd = self->server.out, .events = POLLIN};
  int of_others = 0, gone = 0;
  uint64_t until = child_now_ms() + 300000;
  while (of_others < CALLS / 2) {
    assert_true(child_now_ms() < until);
    if (poll(&output, 1, 5) == 1) {
      note_answer(self, seen, &of_others);
      continue;
    }
    turns had = look_at_turns(self, "busy", gone);
    if (had.all < gone + AT_A_TIME) continue;
    let_one_go(self, had.pid);
    gone++;
  }
  return look_at_turns(self, "busy", 0).all;
}

static void a_busy_tool_does_not_starve_the_others(void **state) {
  serving *self = *state;
  bool seen[CALLS] = {false};
  int of_others = 0, left = 0;
  hold(self);
  pid_t sender = send_calls(self->server.in, CALLS, half_to_one_tool, "{\"who\":\"busy\"}");
  int status;
  assert_int_equal(waitpid(sender, &status, 0), sender);
  assert_int_equal(status, 0);
  ping(self->server.in, self->server.out, 999);
  int before = busy_before_last(self, seen);
  print_message("%d of the busy tool's calls came before the last of the others'\n", before);
  assert_in_range(before, AT_A_TIME, BUSY_BEFORE);
  let_all_go(self);
  for (int i = 0; i < CALLS; i++) left += !seen[i];
  while (left-- > 0) note_answer(self, seen, &of_others);
  assert_int_equal(of_others, 0);
  assert_true(processes_below_us().runners <= AT_A_TIME);
  int descriptors = count_descriptors(self->server.pid);
  print_message("%d descriptors after calls of %d tools\n", descriptors, TOOLS);
  assert_true(descriptors < TOOLS / 4);
}

/* One runs until it is let go, the others wait; the ping comes after all of them. */
static void a_thousand_calls_wait_in_little_memory(void **state) {
  serving self;
  (void)state;
  serving_make(&self, "{\"concurrency\":1,\"queue\":2000,\"tools\":{\"t0\":{\"run\":[\"sh\",\"-c\","
                      "\"" HELD "\"]}}}");
  serving_start(&self);
  long before = child_rss_kb(self.server.pid);
  pid_t sender = send_calls(self.server.in, CALLS, always_the_first, "{}");
  assert_int_equal(waitpid(sender, NULL, 0), sender);
  serving_ask(&self, "ping", "{}");
  long grown = child_rss_kb(self.server.pid) - before;
  print_message("%d calls that wait take %ld KiB\n", CALLS, grown);
  assert_true(grown < WAITING_KIB);
  assert_int_equal(kill(self.server.pid, SIGTERM), 0);
  assert_int_equal(child_end(&self.server), 0);
  child_remove_folder(self.folder);
}

/* ------------------------------------------------------------------------- two clients */

static int connect_ready(const char *url) {
  int fd = child_connect(url);
  child_send(fd, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
                 "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":"
                 "\"t\",\"version\":\"1\"}}}\n");
  expect_in(child_line(fd), "serverInfo");
  child_send(fd, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
  return fd;
}

/* How many turns the greedy one had before the modest one had all of its own: one goes, and one comes. */
static int greedy_before_modest(const serving *self) {
  turns had;
  for (int gone = 0;; gone++) {
    serving_await_runs(self, gone + AT_A_TIME);
    had = look_at_turns(self, "modest", gone);
    if (had.of_one == MODEST / 2) return had.all - had.of_one;
    let_one_go(self, had.pid);
  }
}

/* The greedy one is ahead, and has more calls of the same tool than the other has. */
static void a_greedy_client_does_not_starve_another(void **state) {
  serving *self = *state;
  char url[128], path[512];
  serving_path(self, "idem.json", path, sizeof path);
  child server = CHILD(program, "serve", path, "--tcp", "127.0.0.1:0");
  child_listening(&server, url, sizeof url);
  int greedy = connect_ready(url), modest = connect_ready(url);
  hold(self);
  pid_t sender = send_calls(greedy, GREEDY, always_the_first, "{\"who\":\"greedy\"}");
  assert_int_equal(waitpid(sender, NULL, 0), sender);
  ping(greedy, greedy, 4);
  pid_t other = send_calls(modest, MODEST, one_of_two, "{\"who\":\"modest\"}");
  assert_int_equal(waitpid(other, NULL, 0), other);
  ping(modest, modest, 4);
  int before = greedy_before_modest(self);
  print_message("%d of the greedy client's calls came before the last of the modest one's\n",
                before);
  assert_in_range(before, AT_A_TIME, GREEDY_BEFORE);
  let_all_go(self);
  for (int i = 0; i < MODEST; i++) answered_id(child_line_with(modest, "\"id\":"));
  for (int i = 0; i < GREEDY; i++) answered_id(child_line_with(greedy, "\"id\":"));
  close(greedy);
  close(modest);
  kill(server.pid, SIGTERM);
  assert_int_equal(child_end(&server), 0);
}

/* -------------------------------------------------------------- two clients by address */

#define WAITING 3               /* as the configuration says */
#define POSTS (1 + WAITING + 1) /* one runs, one is too many */

static int connect_from(const char *url, const char *address) {
  struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
  const char *port = strrchr(url, ':');
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_non_null(port);
  to.sin_port = htons((uint16_t)strtol(port + 1, NULL, 10));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_int_equal(inet_pton(AF_INET, address, &from.sin_addr), 1);
  assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
  return fd;
}

/* Each call may have a session of its own. */
static void shake_hands(const char *url, const char *address, const char *header, char *line,
                        size_t size) {
  static const char body[] =
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
      "\"2025-11-25\",\"capabilities\":{}}}";
  char text[1024];
  int fd = connect_from(url, address);
  snprintf(text, sizeof text,
           "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Accept: application/json, text/event-stream\r\nConnection: close\r\n%s"
           "Content-Length: %zu\r\n\r\n%s",
           header, sizeof body - 1, body);
  child_send(fd, text);
  const char *id = strstr(child_rest(fd), "Mcp-Session-Id: ");
  assert_non_null(id);
  snprintf(line, size, "%s%.*s\r\n", header, (int)strcspn(id, "\r"), id);
  close(fd);
}

static int post_in_session(const char *url, const char *address, const char *header) {
  static const char body[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\","
                             "\"params\":{\"name\":\"hold\",\"arguments\":{}}}";
  char line[256], text[1024];
  shake_hands(url, address, header, line, sizeof line);
  int fd = connect_from(url, address);
  snprintf(text, sizeof text,
           "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Accept: application/json, text/event-stream\r\nConnection: close\r\n%s"
           "Content-Length: %zu\r\n\r\n%s",
           line, sizeof body - 1, body);
  child_send(fd, text);
  return fd;
}

static int post_call(const char *url, const char *address, const char *header) {
  static const char mcp[] =
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"hold\","
      "\"arguments\":{},\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
      "\"io.modelcontextprotocol/clientCapabilities\":{}}}}";
  static const char plain[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hold\"}";
  const char *path = strrchr(url, '/'), *body = strcmp(path, "/mcp") == 0 ? mcp : plain;
  char text[1024];
  int fd = connect_from(url, address);
  snprintf(text, sizeof text,
           "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
           "Mcp-Method: tools/call\r\nMcp-Name: hold\r\nConnection: close\r\n%s"
           "Content-Length: %zu\r\n\r\n%s",
           path, header, strlen(body), body);
  child_send(fd, text);
  return fd;
}

/* One of them is told to come back later, and is done with. */
static void expect_one_is_told(struct pollfd *posts, size_t count, int modest) {
  struct pollfd all[POSTS + 1];
  memcpy(all, posts, count * sizeof *posts);
  all[count] = (struct pollfd){.fd = modest, .events = POLLIN};
  assert_true(poll(all, (nfds_t)count + 1, 60000) > 0);
  if (all[count].revents) fail_msg("not the greedy one: %s", child_rest(modest));
  for (size_t i = 0; i < count; i++) {
    if (!all[i].revents) continue;
    expect_in(child_rest(posts[i].fd), "the server is busy");
    close(posts[i].fd);
    posts[i].fd = -1;
    return;
  }
}

/* A greedy client is told, one who asks for little is not, however they are told apart. */
static void greedy_and_modest_by(int (*post)(const char *url, const char *address,
                                             const char *header),
                                 const char *flag, const char *value,
                                 const char *const addresses[2], const char *const headers[2]) {
  serving self;
  char url[128], path[512];
  struct pollfd posts[POSTS];
  serving_make(&self, "{\"concurrency\":1,\"queue\":3,\"tools\":{\"hold\":{\"run\":[\"sh\",\"-c\","
                      "\"" HELD "\"]}}}");
  serving_path(&self, "idem.json", path, sizeof path);
  child server = CHILD(program, "serve", path, "--http", "127.0.0.1:0", flag, value);
  child_listening(&server, url, sizeof url);
  for (int i = 0; i < POSTS; i++)
    posts[i] = (struct pollfd){.fd = post(url, addresses[0], headers[0]), .events = POLLIN};
  expect_one_is_told(posts, POSTS, -1);
  int modest = post(url, addresses[1], headers[1]);
  expect_one_is_told(posts, POSTS, modest);
  serving_file(&self, "go", "");
  expect_in(child_rest(modest), "\"result\":");
  close(modest);
  for (int i = 0; i < POSTS; i++) {
    if (posts[i].fd < 0) continue;
    expect_in(child_rest(posts[i].fd), "\"result\":");
    close(posts[i].fd);
  }
  kill(server.pid, SIGTERM);
  assert_int_equal(child_end(&server), 0);
  child_remove_folder(self.folder);
}

static void greedy_and_modest(const char *flag, const char *value, const char *const addresses[2],
                              const char *const headers[2]) {
  greedy_and_modest_by(post_call, flag, value, addresses, headers);
}

/* Each POST is a connection of its own; it is the address that has many. */
static void a_client_s_posts_count_together(void **state) {
  (void)state;
  static const char *const profiles[] = {"mcp", "jsonrpc"};
  for (size_t i = 0; i < 2; i++)
    greedy_and_modest("--profile", profiles[i], (const char *const[]){"127.0.0.1", "127.0.0.2"},
                      (const char *const[]){"", ""});
}

static void a_trusted_proxy_s_clients_are_told_apart(void **state) {
  (void)state;
  greedy_and_modest(
      "--trusted-proxy", "127.0.0.0/8", (const char *const[]){"127.0.0.1", "127.0.0.1"},
      (const char *const[]){"X-Forwarded-For: 192.0.2.1\r\n", "X-Forwarded-For: 192.0.2.2\r\n"});
}

static void an_address_is_one_client_whatever_sessions_it_has(void **state) {
  (void)state;
  greedy_and_modest_by(
      post_in_session, "--trusted-proxy", "127.0.0.0/8",
      (const char *const[]){"127.0.0.1", "127.0.0.1"},
      (const char *const[]){"X-Forwarded-For: 192.0.2.1\r\n", "X-Forwarded-For: 192.0.2.2\r\n"});
}

static int start(void **state) {
  static serving self;
  char *config = make_config();
  serving_make(&self, config);
  serving_folder(&self, "out");
  free(config);
  serving_start(&self);
  *state = &self;
  return 0;
}

static int end(void **state) {
  serving_end(*state);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_busy_tool_does_not_starve_the_others),
      cmocka_unit_test(a_thousand_calls_wait_in_little_memory),
      cmocka_unit_test(a_greedy_client_does_not_starve_another),
      cmocka_unit_test(a_client_s_posts_count_together),
      cmocka_unit_test(a_trusted_proxy_s_clients_are_told_apart),
      cmocka_unit_test(an_address_is_one_client_whatever_sessions_it_has),
  };
  return cmocka_run_group_tests(tests, start, end);
}
