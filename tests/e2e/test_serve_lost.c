/* test_serve_lost.c - a Redis that loses what it held while its nodes live, by FLUSHALL or since it was restarted without a file: the nodes
 * notice, agree on the new one, and say of what the old one held that it is gone. Nothing runs twice unnoticed. */
#include "node.h"
#include "serving.h"
#include "support/redis_server.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* `append` leaves a line for each run; `wait` does, and ends when there is a file `go`. */
static const char config[] =
    "{\"tools\":{\"append\":{\"run\":[\"sh\",\"-c\",\"echo run >>out/runs; echo appended\"],"
    "\"allow\":{\"write\":[\"out\"]}},"
    "\"wait\":{\"run\":[\"sh\",\"-c\",\"echo run >>out/runs; until test -e go; do sleep 0.02; "
    "done; echo waited\"],\"allow\":{\"write\":[\"out\"]}}}}";

#define SEEN "the store has lost what it held"
#define SELDOM "600000" /* a lease that is not renewed while a test runs */

typedef struct world {
  serving files;
  redis_server redis;
  char store[160], path[300];
} world;

static void set_up(world *self) {
  serving_make(&self->files, config);
  serving_folder(&self->files, "out");
  serving_path(&self->files, "idem.json", self->path, sizeof self->path);
  assert_true(redis_server_start(&self->redis, (const char *const[]){NULL}));
  snprintf(self->store, sizeof self->store, "redis+unix:%s", self->redis.socket);
}

static void tear_down(world *self) {
  redis_server_stop(&self->redis);
  child_remove_folder(self->files.folder);
}

static node start(const world *self, const char *lease_ms) {
  return node_serve(self->path, self->store, "--lease-ms", lease_ms, NULL);
}

static void flush(const world *self) {
  assert_string_equal(redis_server_ask(&self->redis, "FLUSHALL"), "+OK");
}

static int runs(const world *self) { return serving_runs(&self->files); }
static void await_run(const world *self, int count) { serving_await_runs(&self->files, count); }

/* `repeat` names the store that it was asked of first; NULL: it is the first time. */
static int send_call(const node *self, const char *tool, const char *key, const char *repeat) {
  char meta[256];
  snprintf(meta, sizeof meta, ",\"idem/key\":\"%s\"%s%s%s", key,
           repeat ? ",\"idem/repeat\":\"" : "", repeat ? repeat : "", repeat ? "\"" : "");
  return node_call(self, tool, "", meta);
}

static const char *call(const node *self, const char *tool, const char *key, const char *repeat) {
  return node_rest(send_call(self, tool, key, repeat));
}

static void expect_unknown(const char *answer) {
  expect_in(answer, " 409 ");
  expect_in(answer, "\"id\":7,\"error\"");
  expect_in(answer, "outcome-unknown");
}

/* As clients are told: where keys are kept. */
typedef struct place {
  char name[80];
} place;

static place place_of(const node *self) {
  static const char body[] =
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":{\"_meta\":{"
      "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
      "\"io.modelcontextprotocol/clientCapabilities\":{}}}}";
  static const char headers[] =
      "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: server/discover\r\n";
  place found;
  const char *at = strstr(node_rest(node_send(self, "POST /mcp", headers, body)), "\"store\":\"");
  assert_non_null(at);
  assert_int_equal(sscanf(at, "\"store\":\"%79[0-9a-f]", found.name), 1);
  return found;
}

static void expect_same_place(const node *one, const node *other, const place *before) {
  place here = place_of(one), there = place_of(other);
  assert_string_equal(here.name, there.name);
  assert_string_not_equal(here.name, before->name);
}

static void expect_session_gone(const node *self, const char *session) {
  const char *answer =
      node_post(self, session, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/list\"}");
  expect_in(answer, " 404 ");
  expect_in(answer, "\"id\":7");
}

static void expect_emptied(const node *self) {
  child_line_with(self->server.err, SEEN);
  expect_in(node_rest(node_send(self, "GET /metrics", "", "")), "\nidem_store_emptied_total 1\n");
}

/* By the heartbeat of one, from which the other hears; a stream of a session that is gone ends. */
static void nodes_of_a_redis_that_was_emptied_agree_on_the_new_one(void **state) {
  world in;
  char session[80];
  (void)state;
  set_up(&in);
  node one = start(&in, "1000"), other = start(&in, SELDOM);
  place before = place_of(&one);
  node_open_session(&one, "2025-11-25", "{}", session);
  int stream = node_listen(&other, session, NULL);
  expect_in(call(&one, "append", "k", NULL), "appended");
  flush(&in);
  expect_emptied(&one);
  expect_emptied(&other);
  expect_same_place(&one, &other, &before);
  node_rest(stream);
  expect_session_gone(&one, session);
  expect_session_gone(&other, session);
  expect_unknown(call(&one, "append", "k", before.name));
  expect_unknown(call(&other, "append", "k", before.name));
  assert_int_equal(runs(&in), 1);
  node third = start(&in, SELDOM);
  expect_same_place(&third, &other, &before);
  node_stop(&one, SIGTERM);
  node_stop(&other, SIGTERM);
  node_stop(&third, SIGTERM);
  tear_down(&in);
}

/* By the connection that is made anew. */
static void nodes_of_a_redis_that_came_back_empty_agree_on_the_new_one(void **state) {
  world in;
  char session[80];
  (void)state;
  set_up(&in);
  node one = start(&in, SELDOM), other = start(&in, SELDOM);
  place before = place_of(&one);
  node_open_session(&one, "2025-11-25", "{}", session);
  expect_in(call(&one, "append", "k", NULL), "appended");
  redis_server_kill(&in.redis, SIGKILL);
  assert_true(redis_server_again(&in.redis));
  expect_emptied(&one);
  expect_emptied(&other);
  expect_same_place(&one, &other, &before);
  expect_session_gone(&other, session);
  expect_unknown(call(&other, "append", "k", before.name));
  assert_int_equal(runs(&in), 1);
  node_open_session(&one, "2025-11-25", "{}", session);
  expect_in(node_post(&other, session, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/list\"}"),
            " 200 ");
  node_stop(&one, SIGTERM);
  node_stop(&other, SIGTERM);
  tear_down(&in);
}

/* By a call that is repeated: nobody has noticed, and it does not run. */
static void what_is_repeated_before_anybody_noticed_does_not_run(void **state) {
  world in;
  (void)state;
  set_up(&in);
  node one = start(&in, SELDOM), other = start(&in, SELDOM);
  place before = place_of(&one);
  expect_in(call(&one, "append", "k", NULL), "appended");
  flush(&in);
  expect_unknown(call(&other, "append", "k", before.name));
  assert_int_equal(runs(&in), 1);
  expect_emptied(&other);
  expect_emptied(&one);
  expect_same_place(&one, &other, &before);
  node_stop(&one, SIGTERM);
  node_stop(&other, SIGTERM);
  tear_down(&in);
}

/* Its answer is kept in the new one, for all who come with its key. */
static void what_ran_meanwhile_is_kept(void **state) {
  world in;
  (void)state;
  set_up(&in);
  node one = start(&in, SELDOM), other = start(&in, SELDOM);
  int running = send_call(&one, "wait", "k", NULL);
  await_run(&in, 1);
  flush(&in);
  serving_file(&in.files, "go", "");
  expect_in(node_rest(running), "waited");
  const char *again = call(&other, "wait", "k", NULL);
  expect_in(again, "waited");
  expect_in(again, "Idempotency-Replayed: true");
  assert_int_equal(runs(&in), 1);
  node_stop(&one, SIGTERM);
  node_stop(&other, SIGTERM);
  tear_down(&in);
}

/* A call without a key, in a session that is gone: its client is told at once that nobody knows. */
static void what_ran_in_a_session_that_is_lost_is_unknown(void **state) {
  world in;
  char session[80], headers[128];
  (void)state;
  set_up(&in);
  node one = start(&in, "1000");
  node_open_session(&one, "2025-11-25", "{}", session);
  snprintf(headers, sizeof headers, "Mcp-Session-Id: %s\r\n", session);
  int running = node_send(&one, "POST /mcp", headers,
                          "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{"
                          "\"name\":\"wait\"}}");
  await_run(&in, 1);
  flush(&in);
  expect_unknown(node_rest(running));
  assert_int_equal(runs(&in), 1);
  node_stop(&one, SIGTERM);
  tear_down(&in);
}

/* Until a node has counted itself among those that wait for the one key there is. */
static void await_waiter(const world *self) {
  static const char count[] =
      "EVAL return(redis.call([[HGET]],redis.call([[KEYS]],[[{idem}:r4:*]])[1],[[c]])) 0";
  uint64_t until = child_now_ms() + 60000;
  while (strcmp(redis_server_ask(&self->redis, count), "1") != 0) {
    assert_true(child_now_ms() < until);
    poll(NULL, 0, 5);
  }
}

/* Who waits for another node's call sees its record go: it is not begun a second time. */
static void who_waits_for_what_is_lost_does_not_begin_it(void **state) {
  world in;
  (void)state;
  set_up(&in);
  node one = start(&in, SELDOM), other = start(&in, SELDOM);
  int running = send_call(&one, "wait", "k", NULL);
  await_run(&in, 1);
  int waiting = send_call(&other, "wait", "k", NULL);
  await_waiter(&in);
  flush(&in);
  expect_unknown(node_rest(waiting));
  assert_int_equal(runs(&in), 1);
  serving_file(&in.files, "go", "");
  node_rest(running);
  node_stop(&one, SIGTERM);
  node_stop(&other, SIGTERM);
  tear_down(&in);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nodes_of_a_redis_that_was_emptied_agree_on_the_new_one),
      cmocka_unit_test(nodes_of_a_redis_that_came_back_empty_agree_on_the_new_one),
      cmocka_unit_test(what_is_repeated_before_anybody_noticed_does_not_run),
      cmocka_unit_test(what_ran_meanwhile_is_kept),
      cmocka_unit_test(what_ran_in_a_session_that_is_lost_is_unknown),
      cmocka_unit_test(who_waits_for_what_is_lost_does_not_begin_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
