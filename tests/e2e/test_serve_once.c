/* test_serve_once.c - calls with a key over two processes of `idem serve` and one SQLite file: they run once, the
 * answer survives kill -9, and what a dead or stopped process ran is outcome-unknown, or runs again where the tool may. */
#include "node.h"
#include "serving.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One that is renewed, with room for a machine that stands still for two seconds. */
#define LEASE_MS 4000
#define LEASE "4000"

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

static void set_up(world *self) {
  char path[300];
  serving_make(&self->files, config);
  serving_folder(&self->files, "out");
  serving_path(&self->files, "store.db", path, sizeof path);
  snprintf(self->store, sizeof self->store, "sqlite:%s", path);
}

/* A long lease: none is taken for dead that merely had to wait for a processor. */
static node start_with_grace(const world *self, const char *grace_ms) {
  char path[300];
  serving_path(&self->files, "idem.json", path, sizeof path);
  return node_serve(path, self->store, "--lease-ms", "600000", "--grace-ms", grace_ms, NULL);
}

static node start(const world *self) { return start_with_grace(self, "1500"); }

/* When it dies, the others find out soon. */
static node start_mortal(const world *self) {
  char path[300];
  serving_path(&self->files, "idem.json", path, sizeof path);
  return node_serve(path, self->store, "--lease-ms", "1000", NULL);
}

/* Without a store: a server of its own, with one setting more. */
static node start_alone(const world *self, const char *name, const char *value) {
  char path[300];
  serving_path(&self->files, "idem.json", path, sizeof path);
  return node_serve(path, NULL, name, value, NULL);
}

/* One connection, whose answer is read by node_rest. Without a key: NULL. */
static int send_call(const node *self, const char *tool, const char *key) {
  char line[64] = "";
  if (key) snprintf(line, sizeof line, "Idempotency-Key: %s\r\n", key);
  return node_call(self, tool, line, "");
}

static int runs(const world *self) { return serving_runs(&self->files); }

static void a_key_holds_across_processes_and_kill(void **state) {
  world self;
  (void)state;
  set_up(&self);
  node one = start(&self), other = start(&self);
  expect_in(node_rest(send_call(&one, "append", "k")), "appended");
  const char *answer = node_rest(send_call(&other, "append", "k"));
  expect_in(answer, "appended");
  expect_in(answer, "Idempotency-Replayed: true");
  node_stop(&one, SIGKILL);
  node_stop(&other, SIGKILL);
  node third = start(&self);
  expect_in(node_rest(send_call(&third, "append", "k")), "Idempotency-Replayed: true");
  assert_int_equal(runs(&self), 1);
  node_stop(&third, SIGTERM);
  child_remove_folder(self.files.folder);
}

static void what_another_process_runs_is_waited_for(void **state) {
  world self;
  (void)state;
  set_up(&self);
  node one = start(&self), other = start(&self);
  int first = send_call(&one, "append", "k");
  int second = send_call(&other, "append", "k");
  expect_in(node_rest(first), "appended");
  expect_in(node_rest(second), "appended");
  assert_int_equal(runs(&self), 1);
  node_stop(&one, SIGTERM);
  node_stop(&other, SIGTERM);
  child_remove_folder(self.files.folder);
}

static void what_a_dead_process_ran_is_unknown_or_runs_again(void **state) {
  world self;
  (void)state;
  set_up(&self);
  node one = start_mortal(&self), other = start_mortal(&self);
  int lost = send_call(&one, "wait", "k");
  serving_await_runs(&self.files, 1);
  int waiting = send_call(&other, "wait", "k");
  node_stop(&one, SIGKILL);
  close(lost);
  expect_in(node_rest(waiting), "outcome-unknown");
  expect_in(node_rest(send_call(&other, "wait", "k")), "outcome-unknown");
  assert_int_equal(runs(&self), 1);
  node third = start_mortal(&self);
  lost = send_call(&third, "again", "k");
  serving_await_runs(&self.files, 2);
  node_stop(&third, SIGKILL);
  close(lost);
  serving_file(&self.files, "go", "");
  expect_in(node_rest(send_call(&other, "again", "k")), "again");
  assert_int_equal(runs(&self), 3);
  node_stop(&other, SIGTERM);
  child_remove_folder(self.files.folder);
}

static const char *get(const node *self, const char *request) {
  return node_rest(node_send(self, request, "", ""));
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
  serving_await_runs(&self.files, 2);
  calls[2] = send_call(&one, "append", "c");
  expect_in(get(&one, "GET /healthz"), " 200 "); /* which came later, so it was taken */
  node_stop(&one, SIGTERM);
  expect_refused(node_rest(calls[0]), " 409 ", "outcome-unknown");
  expect_refused(node_rest(calls[1]), " 503 ", "unavailable");
  expect_refused(node_rest(calls[2]), " 503 ", "unavailable");
  serving_file(&self.files, "go", "");
  expect_in(node_rest(send_call(&other, "wait", "a")), "outcome-unknown");
  assert_int_equal(runs(&self), 2);
  expect_in(node_rest(send_call(&other, "again", "b")), "again");
  const char *answer = node_rest(send_call(&other, "append", "c"));
  expect_in(answer, "appended");
  assert_null(strstr(answer, "Idempotency-Replayed"));
  assert_int_equal(runs(&self), 4);
  node_stop(&other, SIGTERM);
  child_remove_folder(self.files.folder);
}

/* Who gave no key is told as much: two were begun, of which one may be begun again, and the third was not. */
static void what_a_stopped_process_ran_without_a_key_is_told(void **state) {
  world self;
  (void)state;
  set_up(&self);
  node one = start(&self);
  int calls[] = {send_call(&one, "wait", NULL), send_call(&one, "again", NULL), -1};
  serving_await_runs(&self.files, 2);
  calls[2] = send_call(&one, "append", NULL);
  expect_in(get(&one, "GET /healthz"), " 200 "); /* which came later, so it was taken */
  node_stop(&one, SIGTERM);
  expect_refused(node_rest(calls[0]), " 409 ", "outcome-unknown");
  expect_refused(node_rest(calls[1]), " 503 ", "unavailable");
  expect_refused(node_rest(calls[2]), " 503 ", "unavailable");
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
  serving_await_runs(&self.files, 1);
  close(lost);
  uint64_t began = child_now_ms();
  node_stop(&one, SIGTERM);
  assert_true(child_now_ms() < began + 30000); /* when it has finished, not when the grace has */
  const char *answer = node_rest(send_call(&other, "slow", "k"));
  expect_in(answer, "finished");
  expect_in(answer, "Idempotency-Replayed: true");
  assert_int_equal(runs(&self), 1);
  node_stop(&other, SIGTERM);
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
  expect_in(get(&one, "GET /healthz"), " 200 "); /* which came later, so it was taken */
  reload(&one);
  child_send(lock.in, "\n");
  assert_int_equal(child_end(&lock), 0);
  expect_in(node_rest(call), "appended");
  assert_int_equal(runs(&self), 1);
  node_stop(&one, SIGTERM);
  child_remove_folder(self.files.folder);
}

/* For longer than a lease, nobody has a word to say. */
static void expect_silence(int fd) {
  struct pollfd early = {.fd = fd, .events = POLLIN};
  assert_int_equal(poll(&early, 1, LEASE_MS * 3 / 2), 0);
}

/* Its lease is of a few seconds: to whoever waits it is alive, while it serves and while it goes. */
static void a_process_renews_its_lease_until_it_has_ended(void **state) {
  world self;
  char path[300];
  (void)state;
  set_up(&self);
  serving_file(&self.files, "stays.py", stays);
  serving_path(&self.files, "idem.json", path, sizeof path);
  node one = node_serve(path, self.store, "--lease-ms", LEASE, "--grace-ms", "600000", NULL);
  node other = start(&self);
  int running = send_call(&one, "stays", "k");
  serving_await_runs(&self.files, 1);
  int waiting = send_call(&other, "stays", "k");
  expect_silence(waiting);
  kill(one.server.pid, SIGTERM);
  child_line_with(one.server.err, "shutting down gracefully");
  expect_silence(waiting);
  serving_file(&self.files, "go", "");
  expect_in(node_rest(running), "stayed");
  expect_in(node_rest(waiting), "stayed");
  assert_int_equal(runs(&self), 1);
  assert_int_equal(child_end(&one.server), 0);
  node_stop(&other, SIGTERM);
  child_remove_folder(self.files.folder);
}

static void what_a_program_that_stays_ran_when_its_server_stopped_is_unknown(void **state) {
  world self;
  (void)state;
  set_up(&self);
  serving_file(&self.files, "stays.py", stays);
  node one = start(&self), other = start(&self);
  int lost = send_call(&one, "stays", "k");
  serving_await_runs(&self.files, 1);
  node_stop(&one, SIGTERM);
  expect_not_in(node_rest(lost), "its program has ended");
  serving_file(&self.files, "go", "");
  expect_in(node_rest(send_call(&other, "stays", "k")), "outcome-unknown");
  assert_int_equal(runs(&self), 1);
  node_stop(&other, SIGTERM);
  child_remove_folder(self.files.folder);
}

/* ... and what does not end within it is broken off. */
static void a_call_without_a_connection_has_no_more_than_the_grace(void **state) {
  world self;
  (void)state;
  set_up(&self);
  node one = start_with_grace(&self, "300"), other = start(&self);
  int lost = send_call(&one, "wait", "k");
  serving_await_runs(&self.files, 1);
  close(lost);
  node_stop(&one, SIGTERM);
  expect_in(node_rest(send_call(&other, "wait", "k")), "outcome-unknown");
  node_stop(&other, SIGTERM);
  child_remove_folder(self.files.folder);
}

static void a_program_that_stays_has_the_grace_for_its_calls(void **state) {
  world self;
  (void)state;
  set_up(&self);
  serving_file(&self.files, "stays.py", stays);
  node one = start_alone(&self, "--grace-ms", "600000");
  int running = send_call(&one, "stays", "k");
  serving_await_runs(&self.files, 1);
  kill(one.server.pid, SIGTERM);
  child_line_with(one.server.err, "shutting down gracefully");
  struct pollfd early = {.fd = running, .events = POLLIN};
  assert_int_equal(poll(&early, 1, 300), 0);
  serving_file(&self.files, "go", "");
  expect_in(node_rest(running), "stayed");
  assert_int_equal(child_end(&one.server), 0);
  child_remove_folder(self.files.folder);
}

/* Who shares out requests hears of it before anybody is turned away. */
static void a_server_that_is_to_stop_says_so_while_it_serves(void **state) {
  world self;
  (void)state;
  set_up(&self);
  node one = start_alone(&self, "--drain-ms", "600000");
  expect_in(get(&one, "GET /healthz"), " 200 ");
  kill(one.server.pid, SIGTERM);
  child_line_with(one.server.err, "not ready any more");
  expect_in(get(&one, "GET /healthz"), "{\"status\":\"stopping\"}");
  expect_in(get(&one, "GET /healthz/live"), " 200 ");
  expect_in(node_rest(send_call(&one, "append", "k")), "appended");
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
      cmocka_unit_test(a_process_renews_its_lease_until_it_has_ended),
      cmocka_unit_test(a_call_without_a_connection_has_no_more_than_the_grace),
      cmocka_unit_test(what_a_program_that_stays_ran_when_its_server_stopped_is_unknown),
      cmocka_unit_test(a_program_that_stays_has_the_grace_for_its_calls),
      cmocka_unit_test(a_server_that_is_to_stop_says_so_while_it_serves),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
