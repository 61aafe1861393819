/* test_serve_failures.c - what the operator's log says of calls that failed: which tool, why, after what
 * time, for whom; and nothing that was sent, printed or secret. */
#include "serving.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define VALUE "v4lue-of-the-caller"
#define FLOOD 60

static const char program[] = IDEM_BIN_DIR "/idem";
static serving self;
static int unheard; /* a port that nobody listens on */

static const char config[] =
    "{\"concurrency\":4,\"queue\":100,\"tools\":{\n"
    " \"exits\":{\"args\":{\"t\":\"string\"},\"run\":[\"sh\",\"-c\",\"echo $1; echo $1 $KEY >&2; "
    "exit 3\",\"sh\",\"--\",\"{t}\"],\"env\":{\"KEY\":{\"file\":\"key\"}}},\n"
    " \"dies\":{\"run\":[\"sh\",\"-c\",\"kill -SEGV $$\"]},\n"
    " \"slow\":{\"run\":[\"sleep\",\"1000\"],\"deadline_ms\":100},\n"
    " \"silent\":{\"run\":[\"sleep\",\"1000\"],\"idle_ms\":100},\n"
    " \"floods\":{\"run\":[\"yes\"],\"output_bytes\":1000},\n"
    " \"hangs\":{\"run\":[\"sh\",\"-c\",\"sleep 1000 & echo progress: 1 $PPID $! >&2; wait\"],"
    "\"progress\":true,\"deadline_ms\":3000},\n"
    " \"no_program\":{\"run\":[\"./no_program\"]},\n"
    " \"no_json\":{\"args\":{\"t\":\"string\"},\"run\":[\"echo\",\"{t}\"],\"output\":\"json\"},\n"
    " \"bad_json\":{\"args\":{\"t\":\"string\"},\"run\":[\"printf\",\"\\\"%%s\\\"\",\"{t}\"],"
    "\"output\":\"json\",\"output_schema\":{\"type\":\"object\"}},\n"
    " \"counts\":{\"args\":{\"n\":\"integer\"},\"run\":[\"echo\",\"{n}\"]},\n"
    " \"asks\":{\"args\":{\"t\":\"string\"},\"script\":\"s.sql\","
    "\"query\":\"SELECT json_extract('{}', :t)\"},\n"
    " \"fetches\":{\"args\":{\"t\":\"string\"},\"http\":{\"url\":\"http://127.0.0.1:%u/{t}\"}}}}";

static unsigned take_port(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof address;
  unheard = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(unheard, (struct sockaddr *)&address, sizeof address), 0);
  assert_int_equal(getsockname(unheard, (struct sockaddr *)&address, &len), 0);
  return ntohs(address.sin_port);
}

static void make(void) {
  char text[4096], path[512];
  snprintf(text, sizeof text, config, take_port());
  unsetenv("http_proxy");
  unsetenv("all_proxy");
  unsetenv("ALL_PROXY");
  serving_make(&self, text);
  serving_file(&self, "key", "open-sesame-4711\n");
  serving_file(&self, "s.sql", "SELECT 1;");
  serving_file(&self, "no_program", "echo\n");
  serving_path(&self, "no_program", path, sizeof path);
  assert_int_equal(chmod(path, 0700), 0);
}

static int start(void **state) {
  (void)state;
  make();
  serving_start(&self);
  return 0;
}

static int end(void **state) {
  (void)state;
  serving_end(&self);
  close(unheard);
  return 0;
}

/* Calls, and expects a line of this level that says so, with the id of the call. */
static void expect_line(const char *tool, const char *arguments, const char *level,
                        const char *why) {
  char detail[256], id[64];
  int asked = serving_send_call(&self, tool, arguments);
  serving_answer(&self, asked);
  const char *line = child_line_with(self.server.err, "method=tools/call");
  snprintf(detail, sizeof detail, "detail=%s: %s", tool, why);
  snprintf(id, sizeof id, " id=%d method=tools/call peer=stdio ", asked);
  expect_in(line, level);
  expect_in(line, id);
  expect_in(line, detail);
  expect_not_in(line, VALUE);
  expect_not_in(line, "sesame");
}

static void the_end_of_a_program_is_told(void **state) {
  (void)state;
  expect_line("exits", "{\"t\":\"" VALUE "\"}", "WARN  a tool call failed ",
              "ended with exit status 3, after ");
  expect_line("dies", "{}", "WARN  a tool call failed ", "was ended by signal 11 (");
  expect_line("slow", "{}", "WARN  a tool call failed ",
              "was stopped: it took longer than 100 ms (deadline_ms), after ");
  expect_line("silent", "{}", "WARN  a tool call failed ",
              "was stopped: it wrote nothing for 100 ms (idle_ms), after ");
  expect_line("floods", "{}", "WARN  a tool call failed ",
              "was stopped: more than 1000 bytes (output_bytes), after ");
}

static void what_the_operator_must_mend_is_an_error(void **state) {
  (void)state;
  expect_line("no_program", "{}", "ERROR a tool call failed ",
              "could not be started, Exec format error; a script needs");
}

static void json_that_is_none_is_told_without_quoting_it(void **state) {
  (void)state;
  expect_line("no_json", "{\"t\":\"" VALUE "\"}", "WARN  a tool call failed ", "no JSON: ");
  expect_line("bad_json", "{\"t\":\"" VALUE "\"}", "WARN  a tool call failed ",
              "its JSON breaks its output_schema: output: expected object");
}

static void refused_arguments_are_told_by_name(void **state) {
  (void)state;
  expect_line("counts", "{\"n\":\"" VALUE "\"}", "WARN  arguments of a tool were refused ",
              "arguments.n: expected integer");
  expect_line("no_json", "{\"t\":\"-" VALUE "\"}", "WARN  a tool call failed ",
              "refused, arguments.t: must not begin with '-'");
}

/* SQLite's own sentence quotes the path. */
static void queries_and_http_calls_are_told_without_their_values(void **state) {
  (void)state;
  expect_in(serving_call(&self, "asks", "{\"t\":\"" VALUE "\"}"), VALUE);
  child_line_with(self.server.err, "detail=asks: ");
  expect_line("asks", "{\"t\":\"" VALUE "\"}", "WARN  a tool call failed ",
              "the query failed: SQL logic error, after ");
  expect_line("fetches", "{\"t\":\"" VALUE "\"}", "WARN  a tool call failed ", "the call failed: ");
}

static void what_went_well_has_no_line(void **state) {
  (void)state;
  int asked = serving_send_call(&self, "counts", "{\"n\":1}");
  expect_in(serving_answer(&self, asked), "1\\n");
  expect_line("dies", "{}", "WARN  a tool call failed ", "was ended by signal 11 (");
}

/* -------------------------------------------------------------- servers of their own */

static size_t count(const char *text, const char *wanted) {
  size_t found = 0;
  for (; (text = strstr(text, wanted)); text++) found++;
  return found;
}

static void a_flood_of_failures_is_counted_not_written(void **state) {
  (void)state;
  start(NULL);
  uint64_t began = child_now_ms();
  for (int i = 0; i < FLOOD; i++) serving_send_call(&self, "no_json", "{\"t\":\"-\"}");
  serving_answer(&self, self.next_id - 1);
  uint64_t seconds = (child_now_ms() - began) / 1000 + 1;
  close(self.server.in);
  self.server.in = -1;
  child_rest(self.server.out);
  const char *log = child_rest(self.server.err);
  size_t lines = count(log, "a tool call failed id="), left_out = 0;
  for (const char *at = log; (at = strstr(at, "similar records suppressed detail="));) {
    at += strlen("similar records suppressed detail=");
    left_out += strtoul(at, NULL, 10);
  }
  assert_int_equal(lines + left_out, FLOOD);
  assert_true(lines <= 10 * seconds);
  assert_int_equal(child_end(&self.server), 0);
  child_remove_folder(self.folder);
  close(unheard);
}

/* It is told to end its program, then to kill it; 7 s after the deadline it is ended itself. The program must have begun
 * by the deadline. */
static void a_hand_that_hangs_is_given_up_with_all_it_runs(void **state) {
  long hand = 0, sleeper = 0;
  (void)state;
  start(NULL);
  int id = serving_send_call(&self, "hangs", "{}");
  const char *told = strstr(child_line_with(self.server.out, "\"message\":\""), "\"message\":\"");
  assert_int_equal(sscanf(told, "\"message\":\"%ld %ld\"", &hand, &sleeper), 2);
  assert_int_equal(kill((pid_t)hand, SIGSTOP), 0);
  expect_in(serving_answer(&self, id), "took longer than 3000 ms (deadline_ms)");
  expect_gone(hand);
  expect_gone(sleeper);
  expect_in(serving_call(&self, "counts", "{\"n\":1}"), "1\\n");
  end(NULL);
}

static void a_line_names_the_peer_over_http(void **state) {
  char path[512], host[64], url[128], request[512];
  static const char body[] = "{\"jsonrpc\":\"2.0\",\"id\":\"a b\",\"method\":\"dies\"}";
  (void)state;
  make();
  serving_path(&self, "idem.json", path, sizeof path);
  self.server = CHILD(program, "serve", path, "--profile", "jsonrpc", "--http", "127.0.0.1:0",
                      "--log-format", "json");
  const char *line = child_line_with(self.server.err, "listening on http://");
  assert_int_equal(sscanf(strstr(line, "http://"), "http://%63[0-9.:]", host), 1);
  snprintf(url, sizeof url, "tcp://%s", host);
  int fd = child_connect(url);
  snprintf(request, sizeof request,
           "POST /rpc HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
           "Connection: close\r\nContent-Length: %zu\r\n\r\n%s",
           sizeof body - 1, body);
  child_send(fd, request);
  expect_in(child_rest(fd), "was ended by signal 11");
  close(fd);
  line = child_line_with(self.server.err, "\"a tool call failed\"");
  expect_in(line, "\"severity\":\"warn\"");
  expect_in(line, "\"method\":\"dies\",\"id\":\"\\\"a b\\\"\",\"peer\":\"http 127.0.0.1:");
  expect_in(line, "\"detail\":\"dies: was ended by signal 11 (");
  assert_int_equal(kill(self.server.pid, SIGTERM), 0);
  assert_int_equal(child_end(&self.server), 0);
  child_remove_folder(self.folder);
  close(unheard);
}

/* A server for each group: ten lines a second are all there are. */
int main(void) {
  const struct CMUnitTest programs[] = {
      cmocka_unit_test(the_end_of_a_program_is_told),
      cmocka_unit_test(what_the_operator_must_mend_is_an_error),
  };
  const struct CMUnitTest others[] = {
      cmocka_unit_test(json_that_is_none_is_told_without_quoting_it),
      cmocka_unit_test(refused_arguments_are_told_by_name),
      cmocka_unit_test(queries_and_http_calls_are_told_without_their_values),
      cmocka_unit_test(what_went_well_has_no_line),
  };
  const struct CMUnitTest alone[] = {
      cmocka_unit_test(a_flood_of_failures_is_counted_not_written),
      cmocka_unit_test(a_line_names_the_peer_over_http),
      cmocka_unit_test(a_hand_that_hangs_is_given_up_with_all_it_runs),
  };
  int failed = cmocka_run_group_tests(programs, start, end);
  failed += cmocka_run_group_tests(others, start, end);
  return failed + cmocka_run_group_tests(alone, NULL, NULL);
}
