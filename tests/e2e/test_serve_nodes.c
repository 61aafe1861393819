/* test_serve_nodes.c - two processes of `idem serve` and one store, a SQLite file or a Redis: what changes at one is heard
 * by who listens at the other, in every era; a stream goes on at another node when its own is drained or dies; what ends
 * at one has ended at both. */
#include "node.h"
#include "serving.h"
#include "support/redis_server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ONE_TOOL "{\"tools\":{\"say\":{\"run\":[\"echo\",\"hello\"]}}}"
#define TWO_TOOLS                                                                                  \
  "{\"tools\":{\"say\":{\"run\":[\"echo\",\"hello\"]},\"also\":{\"run\":[\"true\"]}}}"

/* Each node has a configuration of its own; the store is both nodes'. */
typedef struct world {
  serving files[2];
  redis_server redis; /* where there is one */
  bool has_redis;
  char store[320];
} world;

static world *make_world(bool on_redis) {
  static world self;
  self.has_redis = on_redis;
  for (int i = 0; i < 2; i++) serving_make(&self.files[i], ONE_TOOL);
  if (on_redis) {
    assert_true(redis_server_start(&self.redis, NULL));
    snprintf(self.store, sizeof self.store, "redis+unix:%s?parts=5", self.redis.socket);
  } else {
    snprintf(self.store, sizeof self.store, "sqlite:%s/store.db", self.files[0].folder);
  }
  return &self;
}

static void end_world(world *self) {
  if (self->has_redis) redis_server_stop(&self->redis);
  for (int i = 0; i < 2; i++) child_remove_folder(self->files[i].folder);
}

/* A long lease: none is taken for dead that merely had to wait for a processor. */
static node start(const world *in, int which) {
  char path[300];
  serving_path(&in->files[which], "idem.json", path, sizeof path);
  return node_serve(path, in->store, "--lease-ms", "600000", "--drain-ms", "50", NULL);
}

static node start_shared(const world *in) {
  return node_of(CHILD(SHARED, "http://127.0.0.1:0/mcp", in->store));
}

#define CHANGED "notifications/tools/list_changed"
#define MODERN "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n"

static int subscribe(const node *self) {
  int fd =
      node_send(self, "POST /mcp", MODERN,
                "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"subscriptions/listen\",\"params\":{"
                "\"notifications\":{\"toolsListChanged\":true},\"_meta\":{"
                "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"t\",\"version\":\"1\"},"
                "\"io.modelcontextprotocol/clientCapabilities\":{}}}}");
  child_line_with(fd, "subscriptions/acknowledged");
  return fd;
}

/* The transport of 2024-11-05: its stream, and where it wants its messages. */
static int open_sse(const node *self, char verb[160]) {
  int fd = node_send(self, "GET /sse", "", "");
  const char *line = child_line_with(fd, "data: /message");
  snprintf(verb, 160, "POST %s", line + strlen("data: "));
  verb[strcspn(verb, "\r\n")] = 0;
  return fd;
}

static const char hello_2024[] =
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
    "\"2024-11-05\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}";

static void shake_hands(const node *self, int stream, const char *verb) {
  expect_in(node_rest(node_send(self, verb, "", hello_2024)), " 202 ");
  child_line_with(stream, "\"id\":1");
  expect_in(node_rest(node_send(self, verb, "",
                                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}")),
            " 202 ");
  expect_in(
      node_rest(node_send(self, verb, "", "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}")),
      " 202 ");
  child_line_with(stream, "\"id\":2");
}

/* ------------------------------------------------------------------ list changes */

static void lists_of_one_node_are_news_at_the_other(bool on_redis) {
  static const char *const revisions[] = {"2025-03-26", "2025-06-18", "2025-11-25"};
  world *in = make_world(on_redis);
  node one = start(in, 0), other = start(in, 1);
  char sessions[3][80], verb[160];
  int streams[5];
  for (int i = 0; i < 3; i++) {
    node_open_session(&one, revisions[i], "{}", sessions[i]);
    streams[i] = node_listen(&other, sessions[i], NULL);
  }
  streams[3] = subscribe(&other);
  streams[4] = open_sse(&other, verb);
  shake_hands(&other, streams[4], verb);
  serving_file(&in->files[0], "idem.json", TWO_TOOLS);
  for (int i = 0; i < 5; i++) child_line_with(streams[i], CHANGED);
  /* The other's own change later, too: who asked it in between has its old list. */
  serving_file(&in->files[1], "idem.json", TWO_TOOLS);
  for (int i = 0; i < 5; i++) child_line_with(streams[i], CHANGED);
  for (int i = 0; i < 5; i++) close(streams[i]);
  node_stop(&one, SIGTERM);
  node_stop(&other, SIGTERM);
  end_world(in);
}

static void lists_of_one_node_are_news_at_the_other_by_sqlite(void **state) {
  (void)state;
  lists_of_one_node_are_news_at_the_other(false);
}

static void lists_of_one_node_are_news_at_the_other_by_redis(void **state) {
  (void)state;
  lists_of_one_node_are_news_at_the_other(true);
}

/* One that comes with other lists is news, and that it went again; one that lists the same is none. */
static void a_node_that_lists_otherwise_is_news(void **state) {
  (void)state;
  world *in = make_world(false);
  node one = start(in, 0);
  int stream = subscribe(&one);
  node same = start(in, 1);
  node_stop(&same, SIGKILL);
  serving_file(&in->files[1], "idem.json", TWO_TOOLS);
  node unlike = start(in, 1);
  child_line_with(stream, CHANGED);
  node_stop(&unlike, SIGTERM);
  child_line_with(stream, CHANGED);
  close(stream);
  node_stop(&one, SIGTERM);
  end_world(in);
}

/* ----------------------------------------------------------------------- streams */

static void change_thing(const node *self, const char *session) {
  expect_in(node_post(self, session,
                      "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"tools/call\",\"params\":{"
                      "\"name\":\"change\",\"arguments\":{}}}"),
            "told");
}

static void subscribe_to_thing(const node *self, const char *session) {
  expect_in(node_post(self, session,
                      "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"resources/subscribe\","
                      "\"params\":{\"uri\":\"test:thing\"}}"),
            "\"result\"");
}

/* The number of the next event with data on a stream. */
static unsigned next_event(int stream, const char *wanted) {
  unsigned number = 0;
  for (uint64_t until = child_now_ms() + 60000;;) {
    const char *line = child_line(stream);
    assert_true(child_now_ms() < until); /* comments come for ever */
    if (strncmp(line, "id: 0-", 6) == 0) number = (unsigned)strtoul(line + 6, NULL, 16);
    if (strncmp(line, "data: ", 6) == 0) {
      expect_in(line, wanted);
      return number;
    }
  }
}

/* A session that is changed from everywhere at once: four threads each of two nodes write one record. */
static void changes_of_one_session_are_all_made(bool on_redis) {
  enum { CHANGES = 64 };
  world *in = make_world(on_redis);
  node nodes[2];
  int asked[CHANGES];
  char session[80], headers[128], body[160];
  for (int i = 0; i < 2; i++)
    nodes[i] = node_of(CHILD(SHARED, "http://127.0.0.1:0/mcp", in->store, "4"));
  node_open_session(&nodes[0], "2025-11-25", "{}", session);
  snprintf(headers, sizeof headers, "Mcp-Session-Id: %s\r\n", session);
  for (int i = 0; i < CHANGES; i++) {
    snprintf(body, sizeof body,
             "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"resources/subscribe\",\"params\":{"
             "\"uri\":\"test:thing\"}}",
             i);
    asked[i] = node_send(&nodes[i % 2], "POST /mcp", headers, body);
  }
  for (int i = 0; i < CHANGES; i++) expect_in(node_rest(asked[i]), "\"result\":{}");
  for (int i = 0; i < 2; i++) node_stop(&nodes[i], SIGTERM);
  end_world(in);
}

static void changes_of_one_session_are_all_made_by_sqlite(void **state) {
  (void)state;
  changes_of_one_session_are_all_made(false);
}

static void changes_of_one_session_are_all_made_by_redis(void **state) {
  (void)state;
  changes_of_one_session_are_all_made(true);
}

/* A stream that moved is told by one node: each event has one number. */
static void a_stream_that_moved_hears_everything_once(bool on_redis) {
  world *in = make_world(on_redis);
  node one = start_shared(in), other = start_shared(in);
  char session[80], last[32];
  node_open_session(&one, "2025-11-25", "{}", session);
  subscribe_to_thing(&one, session);
  int stream = node_listen(&one, session, NULL);
  change_thing(&other, session);
  unsigned first = next_event(stream, "test:thing");
  close(stream);
  snprintf(last, sizeof last, "0-%x", first);
  stream = node_listen(&other, session, last);
  change_thing(&one, session); /* which has looked at the session, and knows that it moved */
  assert_int_equal(next_event(stream, "test:thing"), first + 1);
  change_thing(&other, session);
  assert_int_equal(next_event(stream, "test:thing"), first + 2);
  close(stream);
  /* What nobody listens for is kept, for whoever takes the stream up. */
  change_thing(&one, session);
  stream = node_listen(&one, session, "0-2");
  child_line_with(stream, "test:thing");
  close(stream);
  node_stop(&one, SIGTERM);
  node_stop(&other, SIGTERM);
  end_world(in);
}

static void a_stream_that_moved_hears_everything_once_by_sqlite(void **state) {
  (void)state;
  a_stream_that_moved_hears_everything_once(false);
}

static void a_stream_that_moved_hears_everything_once_by_redis(void **state) {
  (void)state;
  a_stream_that_moved_hears_everything_once(true);
}

/* Nobody kept what was told after a node died: who listened there is told to look at everything. */
static void who_listened_at_a_dead_node_is_told_to_look_again(void **state) {
  (void)state;
  world *in = make_world(false);
  node one = start(in, 0), other = start_shared(in);
  char session[80];
  node_open_session(&other, "2025-11-25", "{}", session);
  subscribe_to_thing(&other, session);
  int stream = node_listen(&one, session, NULL);
  node_stop(&one, SIGTERM);
  close(stream);
  change_thing(&other, session);
  stream = node_listen(&other, session, NULL);
  child_line_with(stream, CHANGED);
  child_line_with(stream, "test:thing");
  close(stream);
  node_stop(&other, SIGTERM);
  end_world(in);
}

/* Draining: its stream ends with the place to come back to, and goes on from there at the other node. */
static void a_drained_node_sends_its_streams_elsewhere(bool on_redis) {
  world *in = make_world(on_redis);
  node one = start(in, 0), other = start_shared(in);
  char session[80], last[32] = "";
  node_open_session(&one, "2025-11-25", "{}", session);
  subscribe_to_thing(&other, session);
  int stream = node_listen(&one, session, NULL), listener = subscribe(&one);
  change_thing(&other, session);
  unsigned first = next_event(stream, "test:thing");
  kill(one.server.pid, SIGTERM);
  const char *rest = child_rest(stream);
  const char *place = strstr(rest, "id: ");
  assert_non_null(place);
  assert_int_equal(sscanf(place, "id: %31[0-9a-f-]", last), 1);
  expect_in(place, "\nretry: ");
  assert_int_equal(strtoul(last + 2, NULL, 16), first);
  expect_in(child_rest(listener), "\"id\":3,\"result\":");
  assert_int_equal(child_end(&one.server), 0);
  close(stream);
  close(listener);
  change_thing(&other, session);
  stream = node_listen(&other, session, last);
  child_line_with(stream, "test:thing");
  close(stream);
  node_stop(&other, SIGTERM);
  end_world(in);
}

static void a_drained_node_sends_its_streams_elsewhere_by_sqlite(void **state) {
  (void)state;
  a_drained_node_sends_its_streams_elsewhere(false);
}

static void a_drained_node_sends_its_streams_elsewhere_by_redis(void **state) {
  (void)state;
  a_drained_node_sends_its_streams_elsewhere(true);
}

/* DELETE at one node: the stream at the other ends, and so does what runs there. */
static void a_session_that_ends_at_one_node_ends_its_streams_at_the_other(bool on_redis) {
  world *in = make_world(on_redis);
  node one = start_shared(in), other = start_shared(in);
  char session[80], headers[128];
  node_open_session(&one, "2025-11-25", "{}", session);
  int stream = node_listen(&one, session, NULL);
  snprintf(headers, sizeof headers, "Mcp-Session-Id: %s\r\n", session);
  int call = node_send(&one, "POST /mcp", headers,
                       "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"tools/call\",\"params\":{"
                       "\"name\":\"wait\",\"arguments\":{\"ms\":600000},"
                       "\"_meta\":{\"progressToken\":1}}}");
  child_line_with(one.server.err, "waiting");
  expect_in(node_rest(node_send(&other, "DELETE /mcp", headers, "")), " 204 ");
  child_rest(stream);
  expect_in(child_rest(call), "\"id\":8,\"error\"");
  close(stream);
  close(call);
  node_stop(&one, SIGTERM);
  node_stop(&other, SIGTERM);
  end_world(in);
}

static void a_session_that_ends_at_one_node_ends_its_streams_at_the_other_by_sqlite(void **state) {
  (void)state;
  a_session_that_ends_at_one_node_ends_its_streams_at_the_other(false);
}

static void a_session_that_ends_at_one_node_ends_its_streams_at_the_other_by_redis(void **state) {
  (void)state;
  a_session_that_ends_at_one_node_ends_its_streams_at_the_other(true);
}

/* -------------------------------------------------------- the transport of 2024 */

/* The header of a message that is carried goes with it: it runs once, wherever it is posted. */
static void post_with_key(const node *one, const node *other, const char *verb, int stream) {
  static const char call[] = "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\","
                             "\"params\":{\"name\":\"say\",\"arguments\":{}}}";
  char body[200];
  snprintf(body, sizeof body, call, 31);
  expect_in(node_rest(node_send(other, verb, "Idempotency-Key: k\r\n", body)), " 202 ");
  expect_in(child_line_with(stream, "\"id\":31"), "hello");
  snprintf(body, sizeof body, call, 32);
  expect_in(node_rest(node_send(one, verb, "Idempotency-Key: k\r\n", body)), " 202 ");
  expect_in(child_line_with(stream, "\"id\":32"), "\"idem/replayed\":true");
  snprintf(body, sizeof body, call, 33);
  expect_in(node_rest(node_send(other, verb, "Idempotency-Key: \"k\"\r\n", body)), " 202 ");
  expect_in(child_line_with(stream, "\"id\":33"), "\"idem/replayed\":true");
}

/* A message of any length, posted to the node that has not the stream. */
static void what_is_posted_to_one_node_reaches_the_stream_of_another(bool on_redis) {
  static char large[200000];
  world *in = make_world(on_redis);
  node one = start(in, 0), other = start(in, 1);
  char verb[160];
  int stream = open_sse(&one, verb);
  shake_hands(&other, stream, verb);
  post_with_key(&one, &other, verb, stream);
  int len = snprintf(
      large, sizeof large,
      "{\"jsonrpc\":\"2.0\",\"id\":\"large\",\"method\":\"ping\",\"params\":{\"_meta\":{\"x\":\"");
  memset(large + len, 'x', sizeof large - 10 - (size_t)len);
  snprintf(large + sizeof large - 10, 10, "\"}}}");
  expect_in(node_rest(node_send(&other, verb, "", large)), " 202 ");
  child_line_with(stream, "\"id\":\"large\",\"result\"");
  /* Somebody else's word for it is not taken, and refused as by the node that has the stream. */
  const node *both[] = {&one, &other};
  for (int i = 0; i < 2; i++) {
    const char *theirs =
        node_rest(node_send(both[i], verb, "Authorization: Bearer another\r\n",
                            "{\"jsonrpc\":\"2.0\",\"id\":\"theirs\",\"method\":\"ping\"}"));
    expect_in(theirs, " 404 ");
    expect_in(theirs, "unknown-session");
    expect_in(theirs, "\"id\":\"theirs\"");
  }
  expect_in(node_rest(node_send(&other, verb, "",
                                "{\"jsonrpc\":\"2.0\",\"id\":\"ours\",\"method\":\"ping\"}")),
            " 202 ");
  expect_not_in(child_line_with(stream, "\"result\""), "theirs");
  node_stop(&one, SIGTERM);
  close(stream);
  /* At once when it is known, which takes as long as news do. */
  const char *refused;
  do
    refused = node_rest(
        node_send(&other, verb, "", "{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"ping\"}"));
  while (strstr(refused, " 202 "));
  expect_in(refused, " 404 ");
  expect_in(refused, "\"id\":77,\"error\"");
  expect_in(refused, "owner-gone");
  node_stop(&other, SIGTERM);
  end_world(in);
}

static void what_is_posted_to_one_node_reaches_the_stream_of_another_by_sqlite(void **state) {
  (void)state;
  what_is_posted_to_one_node_reaches_the_stream_of_another(false);
}

static void what_is_posted_to_one_node_reaches_the_stream_of_another_by_redis(void **state) {
  (void)state;
  what_is_posted_to_one_node_reaches_the_stream_of_another(true);
}

/* ------------------------------------------------------------------ rate limits */

static int allowed(const node *self) {
  const char *answer = node_rest(
      node_send(self, "POST /mcp", "", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"));
  return strstr(answer, " 429 ") == NULL;
}

/* Forty a minute, whichever node is asked; with blocks of five two nodes may let twenty more through. */
static void a_rate_limit_is_one_for_all_nodes(bool on_redis) {
  world *in = make_world(on_redis);
  char path[300];
  serving_path(&in->files[0], "idem.json", path, sizeof path);
  node one = node_serve(path, in->store, "--rate-limit", "40/600", NULL);
  node other = node_serve(path, in->store, "--rate-limit", "40/600", NULL);
  int passed = 0;
  for (int i = 0; i < 45; i++) passed += allowed(&one) + allowed(&other);
  assert_in_range(passed, 40, 60);
  node_stop(&one, SIGTERM);
  node_stop(&other, SIGKILL);
  end_world(in);
}

static void a_rate_limit_is_one_for_all_nodes_by_sqlite(void **state) {
  (void)state;
  a_rate_limit_is_one_for_all_nodes(false);
}

static void a_rate_limit_is_one_for_all_nodes_by_redis(void **state) {
  (void)state;
  a_rate_limit_is_one_for_all_nodes(true);
}

/* Without the store each goes on with its share, and nobody is refused for it. */
static void while_the_store_is_away_a_node_has_its_share_of_the_limit(void **state) {
  (void)state;
  world *in = make_world(true);
  char path[300];
  serving_path(&in->files[0], "idem.json", path, sizeof path);
  node one = node_serve(path, in->store, "--rate-limit", "40/600", NULL);
  int streams[2] = {subscribe(&one)};
  serving_path(&in->files[1], "idem.json", path, sizeof path);
  serving_file(&in->files[1], "idem.json", TWO_TOOLS);
  node other = node_serve(path, in->store, "--rate-limit", "40/600", NULL);
  child_line_with(streams[0], CHANGED); /* it knows the other */
  streams[1] = subscribe(&other);
  serving_file(&in->files[0], "idem.json", TWO_TOOLS);
  child_line_with(streams[1], CHANGED);
  for (int i = 0; i < 2; i++) close(streams[i]);
  redis_server_kill(&in->redis, SIGKILL);
  child_line_with(one.server.err, "the store is lost");
  child_line_with(other.server.err, "the store is lost");
  int passed = 0;
  for (int i = 0; i < 45; i++) passed += allowed(&one) + allowed(&other);
  assert_in_range(passed, 40, 60);
  node_stop(&one, SIGTERM);
  node_stop(&other, SIGTERM);
  end_world(in);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_of_one_node_are_news_at_the_other_by_sqlite),
      cmocka_unit_test(lists_of_one_node_are_news_at_the_other_by_redis),
      cmocka_unit_test(a_node_that_lists_otherwise_is_news),
      cmocka_unit_test(changes_of_one_session_are_all_made_by_sqlite),
      cmocka_unit_test(changes_of_one_session_are_all_made_by_redis),
      cmocka_unit_test(a_stream_that_moved_hears_everything_once_by_sqlite),
      cmocka_unit_test(a_stream_that_moved_hears_everything_once_by_redis),
      cmocka_unit_test(who_listened_at_a_dead_node_is_told_to_look_again),
      cmocka_unit_test(a_drained_node_sends_its_streams_elsewhere_by_sqlite),
      cmocka_unit_test(a_drained_node_sends_its_streams_elsewhere_by_redis),
      cmocka_unit_test(a_session_that_ends_at_one_node_ends_its_streams_at_the_other_by_sqlite),
      cmocka_unit_test(a_session_that_ends_at_one_node_ends_its_streams_at_the_other_by_redis),
      cmocka_unit_test(what_is_posted_to_one_node_reaches_the_stream_of_another_by_sqlite),
      cmocka_unit_test(what_is_posted_to_one_node_reaches_the_stream_of_another_by_redis),
      cmocka_unit_test(a_rate_limit_is_one_for_all_nodes_by_sqlite),
      cmocka_unit_test(a_rate_limit_is_one_for_all_nodes_by_redis),
      cmocka_unit_test(while_the_store_is_away_a_node_has_its_share_of_the_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
