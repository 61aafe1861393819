/* test_serve_once.c - calls with a key over two processes of `idem serve` and one SQLite file: they run once, the
 * answer survives kill -9, and what a dead or stopped process ran is outcome-unknown, or runs again where the tool may. */
#include "serving.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char idem[] = IDEM_BIN_DIR "/idem";

/* `append` leaves a line for each run; `wait` ends when there is a file of that name. */
static const char config[] =
    "{\"concurrency\":2,\"tools\":{"
    "\"append\":{\"run\":[\"sh\",\"-c\",\"echo run >>out/runs; echo appended\"],"
    "\"allow\":{\"write\":[\"out\"]}},"
    "\"wait\":{\"run\":[\"sh\",\"-c\",\"echo run >>out/runs; test -e go || exec sleep 1000; echo "
    "gone\"],\"allow\":{\"write\":[\"out\"]}},"
    "\"slow\":{\"run\":[\"sh\",\"-c\",\"echo run >>out/runs; sleep 2; echo finished\"],"
    "\"allow\":{\"write\":[\"out\"]}},"
    "\"again\":{\"run\":[\"sh\",\"-c\",\"echo run >>out/runs; test -e go || exec sleep 1000; echo "
    "again\"],\"allow\":{\"write\":[\"out\"]},\"annotations\":{\"idempotentHint\":true}},"
    "\"stays\":{\"run\":[\"/usr/bin/python3\",\"stays.py\"],\"keep\":true,"
    "\"allow\":{\"write\":[\"out\"]}}}}";

/* Answers when there is a file `go`, as long as its input has not ended. */
static const char stays[] =
    "import json, os, sys, threading, time\n"
    "def run(id):\n"
    "    print('run', file=open('out/runs', 'a'))\n"
    "    while not os.path.exists('go'): time.sleep(0.01)\n"
    "    print(json.dumps({'jsonrpc': '2.0', 'id': id, 'result': 'stayed'}), flush=True)\n"
    "for line in sys.stdin:\n"
    "    message = json.loads(line)\n"
    "    if 'id' in message:\n"
    "        threading.Thread(target=run, args=(message['id'],), daemon=True).start()\n";

typedef struct world {
  serving files;
  char store[320];
} world;

typedef struct node {
  child server;
  char host[64];
} node;

static void set_up(world *self) {
  char path[300];
  serving_make(&self->files, config);
  serving_path(&self->files, "out", path, sizeof path);
  assert_int_equal(mkdir(path, 0700), 0);
  serving_path(&self->files, "store.db", path, sizeof path);
  snprintf(self->store, sizeof self->store, "sqlite:%s", path);
}

static node start_with_grace(const world *self, const char *grace_ms) {
  node made;
  char url[128], path[300];
  serving_path(&self->files, "idem.json", path, sizeof path);
  made.server = CHILD(idem, "serve", path, "--http", "127.0.0.1:0", "--store", self->store,
                      "--lease-ms", "1000", "--grace-ms", grace_ms);
  child_listening(&made.server, url, sizeof url);
  assert_int_equal(sscanf(url, "http://%63[^/]", made.host), 1);
  return made;
}

static node start(const world *self) { return start_with_grace(self, "1500"); }

static void stop(node *self, int signal) {
  kill(self->server.pid, signal);
  assert_int_equal(child_end(&self->server), signal == SIGKILL ? -SIGKILL : 0);
}

/* One connection, whose answer is read by child_rest. Without a key: NULL. */
static int send_call(const node *self, const char *tool, const char *key) {
  char url[80], body[512], head[640], line[64] = "";
  if (key) snprintf(line, sizeof line, "Idempotency-Key: %s\r\n", key);
  snprintf(url, sizeof url, "tcp://%s", self->host);
  int fd = child_connect(url);
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\","
           "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
           "\"io.modelcontextprotocol/clientCapabilities\":{}}}}",
           tool);
  snprintf(head, sizeof head,
           "POST /mcp HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Type: "
           "application/json\r\nAccept: application/json, text/event-stream\r\n"
           "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: %s\r\n"
           "%sContent-Length: %zu\r\n\r\n",
           self->host, tool, line, strlen(body));
  child_send(fd, head);
  child_send(fd, body);
  return fd;
}

static const char *rest(int fd) {
  const char *answer = child_rest(fd);
  close(fd);
  return answer;
}

static int runs(const world *self) {
  char path[300], line[64];
  int count = 0;
  serving_path(&self->files, "out/runs", path, sizeof path);
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file)) count++;
  if (file) fclose(file);
  return count;
}

/* Until the program has begun. */
static void await_run(const world *self, int count) {
  uint64_t until = child_now_ms() + 60000;
  while (runs(self) < count) {
    assert_true(child_now_ms() < until);
    poll(NULL, 0, 5);
  }
}

static void a_key_holds_across_processes_and_kill(void **state) {
  world self;
  (void)state;
  set_up(&self);
  node one = start(&self), other = start(&self);
  expect_in(rest(send_call(&one, "append", "k")), "appended");
  const char *answer = rest(send_call(&other, "append", "k"));
  expect_in(answer, "appended");
  expect_in(answer, "Idempotency-Replayed: true");
  stop(&one, SIGKILL);
  stop(&other, SIGKILL);
  node third = start(&self);
  expect_in(rest(send_call(&third, "append", "k")), "Idempotency-Replayed: true");
  assert_int_equal(runs(&self), 1);
  stop(&third, SIGTERM);
  child_remove_folder(self.files.folder);
}

static void what_another_process_runs_is_waited_for(void **state) {
  world self;
  (void)state;
  set_up(&self);
  node one = start(&self), other = start(&self);
  int first = send_call(&one, "append", "k");
  int second = send_call(&other, "append", "k");
  expect_in(rest(first), "appended");
  expect_in(rest(second), "appended");
  assert_int_equal(runs(&self), 1);
  stop(&one, SIGTERM);
  stop(&other, SIGTERM);
  child_remove_folder(self.files.folder);
}

static void what_a_dead_process_ran_is_unknown_or_runs_again(void **state) {
  world self;
  (void)state;
  set_up(&self);
  node one = start(&self), other = start(&self);
  int lost = send_call(&one, "wait", "k");
  await_run(&self, 1);
  int waiting = send_call(&other, "wait", "k");
  stop(&one, SIGKILL);
  close(lost);
  expect_in(rest(waiting), "outcome-unknown");
  expect_in(rest(send_call(&other, "wait", "k")), "outcome-unknown");
  assert_int_equal(runs(&self), 1);
  node third = start(&self);
  lost = send_call(&third, "again", "k");
  await_run(&self, 2);
  stop(&third, SIGKILL);
  close(lost);
  serving_file(&self.files, "go", "");
  expect_in(rest(send_call(&other, "again", "k")), "again");
  assert_int_equal(runs(&self), 3);
  stop(&other, SIGTERM);
  child_remove_folder(self.files.folder);
}

static const char *get(const node *self, const char *path) {
  char url[80], head[256];
  snprintf(url, sizeof url, "tcp://%s", self->host);
  int fd = child_connect(url);
  snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path,
           self->host);
  child_send(fd, head);
  return rest(fd);
}

static void expect_refused(const char *answer, const char *status, const char *reason) {
  expect_in(answer, status);
  expect_in(answer, "\"id\":7,\"error\"");
  expect_in(answer, reason);
  assert_int_equal(strstr(answer, "Retry-After: ") != NULL, strcmp(status, " 503 ") == 0);
}

/* Two run, the third waits for its turn: it has done nothing, so its key is free. Who asked hears what those hear who ask again. */
static void what_a_stopped_process_ran_is_unknown_and_what_waited_runs(void **state) {
  world self;
  (void)state;
  set_up(&self);
  node one = start(&self), other = start(&self);
  int calls[] = {send_call(&one, "wait", "a"), send_call(&one, "again", "b"), -1};
  await_run(&self, 2);
  calls[2] = send_call(&one, "append", "c");
  expect_in(get(&one, "/healthz"), " 200 "); /* which came later, so it was taken */
  stop(&one, SIGTERM);
  expect_refused(rest(calls[0]), " 409 ", "outcome-unknown");
  expect_refused(rest(calls[1]), " 503 ", "unavailable");
  expect_refused(rest(calls[2]), " 503 ", "unavailable");
  serving_file(&self.files, "go", "");
  expect_in(rest(send_call(&other, "wait", "a")), "outcome-unknown");
  assert_int_equal(runs(&self), 2);
  expect_in(rest(send_call(&other, "again", "b")), "again");
  const char *answer = rest(send_call(&other, "append", "c"));
  expect_in(answer, "appended");
  assert_null(strstr(answer, "Idempotency-Replayed"));
  assert_int_equal(runs(&self), 4);
  stop(&other, SIGTERM);
  child_remove_folder(self.files.folder);
}

/* Who gave no key is told as much: two were begun, of which one may be begun again, and the third was not. */
static void what_a_stopped_process_ran_without_a_key_is_told(void **state) {
  world self;
  (void)state;
  set_up(&self);
  node one = start(&self);
  int calls[] = {send_call(&one, "wait", NULL), send_call(&one, "again", NULL), -1};
  await_run(&self, 2);
  calls[2] = send_call(&one, "append", NULL);
  expect_in(get(&one, "/healthz"), " 200 "); /* which came later, so it was taken */
  stop(&one, SIGTERM);
  expect_refused(rest(calls[0]), " 409 ", "outcome-unknown");
  expect_refused(rest(calls[1]), " 503 ", "unavailable");
  expect_refused(rest(calls[2]), " 503 ", "unavailable");
  assert_int_equal(runs(&self), 2);
  child_remove_folder(self.files.folder);
}

/* Its client comes back elsewhere, and finds what it came to. */
static void a_call_whose_connection_is_gone_has_the_grace(void **state) {
  world self;
  (void)state;
  set_up(&self);
  node one = start_with_grace(&self, "60000"), other = start(&self);
  int lost = send_call(&one, "slow", "k");
  await_run(&self, 1);
  close(lost);
  uint64_t began = child_now_ms();
  stop(&one, SIGTERM);
  assert_true(child_now_ms() < began + 30000); /* when it has finished, not when the grace has */
  const char *answer = rest(send_call(&other, "slow", "k"));
  expect_in(answer, "finished");
  expect_in(answer, "Idempotency-Replayed: true");
  assert_int_equal(runs(&self), 1);
  stop(&other, SIGTERM);
  child_remove_folder(self.files.folder);
}

/* Holds the store's lock until it is sent a line. */
static child lock_store(const world *self) {
  static const char script[] = "import sqlite3, sys\n"
                               "store = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
                               "store.execute('BEGIN IMMEDIATE')\n"
                               "print('locked', flush=True)\n"
                               "sys.stdin.readline()\n"
                               "store.execute('COMMIT')\n";
  child made = CHILD("/usr/bin/python3", "-c", script, self->store + strlen("sqlite:"));
  child_line_with(made.out, "locked");
  return made;
}

static void reload(const node *self) {
  kill(self->server.pid, SIGHUP);
  child_line_with(self->server.err, "SIGHUP");
  child_line_with(self->server.err, "configuration reloaded");
}

/* It was taken under an edition of the file that nobody serves any more when the store answers. */
static void a_call_that_waits_for_the_store_is_run_as_it_began(void **state) {
  world self;
  (void)state;
  set_up(&self);
  node one = start_with_grace(&self, "1500");
  reload(&one); /* what it was started with stays anyway */
  child lock = lock_store(&self);
  int call = send_call(&one, "append", "k");
  expect_in(get(&one, "/healthz"), " 200 "); /* which came later, so it was taken */
  reload(&one);
  child_send(lock.in, "\n");
  assert_int_equal(child_end(&lock), 0);
  expect_in(rest(call), "appended");
  assert_int_equal(runs(&self), 1);
  stop(&one, SIGTERM);
  child_remove_folder(self.files.folder);
}

static void what_a_program_that_stays_ran_when_its_server_stopped_is_unknown(void **state) {
  world self;
  (void)state;
  set_up(&self);
  serving_file(&self.files, "stays.py", stays);
  node one = start(&self), other = start(&self);
  int lost = send_call(&one, "stays", "k");
  await_run(&self, 1);
  stop(&one, SIGTERM);
  expect_not_in(rest(lost), "its program has ended");
  serving_file(&self.files, "go", "");
  expect_in(rest(send_call(&other, "stays", "k")), "outcome-unknown");
  assert_int_equal(runs(&self), 1);
  stop(&other, SIGTERM);
  child_remove_folder(self.files.folder);
}

/* ... and what does not end within it is broken off. */
static void a_call_without_a_connection_has_no_more_than_the_grace(void **state) {
  world self;
  (void)state;
  set_up(&self);
  node one = start_with_grace(&self, "300"), other = start(&self);
  int lost = send_call(&one, "wait", "k");
  await_run(&self, 1);
  close(lost);
  stop(&one, SIGTERM);
  expect_in(rest(send_call(&other, "wait", "k")), "outcome-unknown");
  stop(&other, SIGTERM);
  child_remove_folder(self.files.folder);
}

static void a_program_that_stays_has_the_grace_for_its_calls(void **state) {
  world self;
  char path[300], url[128];
  node one;
  (void)state;
  set_up(&self);
  serving_file(&self.files, "stays.py", stays);
  serving_path(&self.files, "idem.json", path, sizeof path);
  one.server = CHILD(idem, "serve", path, "--http", "127.0.0.1:0", "--grace-ms", "600000");
  child_listening(&one.server, url, sizeof url);
  assert_int_equal(sscanf(url, "http://%63[^/]", one.host), 1);
  int running = send_call(&one, "stays", "k");
  await_run(&self, 1);
  kill(one.server.pid, SIGTERM);
  child_line_with(one.server.err, "shutting down gracefully");
  struct pollfd early = {.fd = running, .events = POLLIN};
  assert_int_equal(poll(&early, 1, 300), 0);
  serving_file(&self.files, "go", "");
  expect_in(rest(running), "stayed");
  assert_int_equal(child_end(&one.server), 0);
  child_remove_folder(self.files.folder);
}

/* Who shares out requests hears of it before anybody is turned away. */
static void a_server_that_is_to_stop_says_so_while_it_serves(void **state) {
  world self;
  char path[300], url[128];
  node one;
  (void)state;
  set_up(&self);
  serving_path(&self.files, "idem.json", path, sizeof path);
  one.server = CHILD(idem, "serve", path, "--http", "127.0.0.1:0", "--drain-ms", "600000");
  child_listening(&one.server, url, sizeof url);
  assert_int_equal(sscanf(url, "http://%63[^/]", one.host), 1);
  expect_in(get(&one, "/healthz"), " 200 ");
  kill(one.server.pid, SIGTERM);
  child_line_with(one.server.err, "not ready any more");
  expect_in(get(&one, "/healthz"), "{\"status\":\"stopping\"}");
  expect_in(get(&one, "/healthz/live"), " 200 ");
  expect_in(rest(send_call(&one, "append", "k")), "appended");
  kill(one.server.pid, SIGTERM); /* at once, then */
  assert_int_equal(child_end(&one.server), 128 + SIGTERM);
  child_remove_folder(self.files.folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_key_holds_across_processes_and_kill),
      cmocka_unit_test(what_another_process_runs_is_waited_for),
      cmocka_unit_test(what_a_dead_process_ran_is_unknown_or_runs_again),
      cmocka_unit_test(what_a_stopped_process_ran_is_unknown_and_what_waited_runs),
      cmocka_unit_test(what_a_stopped_process_ran_without_a_key_is_told),
      cmocka_unit_test(a_call_whose_connection_is_gone_has_the_grace),
      cmocka_unit_test(a_call_that_waits_for_the_store_is_run_as_it_began),
      cmocka_unit_test(a_call_without_a_connection_has_no_more_than_the_grace),
      cmocka_unit_test(what_a_program_that_stays_ran_when_its_server_stopped_is_unknown),
      cmocka_unit_test(a_program_that_stays_has_the_grace_for_its_calls),
      cmocka_unit_test(a_server_that_is_to_stop_says_so_while_it_serves),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
