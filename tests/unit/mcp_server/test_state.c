/* test_state.c - what a handler keeps between rounds comes back as it was, soon
 * enough, from the same principal and for the same question, or not at all; and
 * a task is its principal's alone. */
#include "mcp_server/mcp_server.h"
#include "support/mcp_fixture.h"
#include "support/mcp_schema.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

/* --------------------------------------------------------------------- a peer
 */

typedef struct line_peer {
  idem_conn *conn;
  mcp_schema *checker;
  char text[16384];
} line_peer;

static void on_trace(idem_conn *conn, idem_direction direction, const char *message, size_t len,
                     void *user) {
  (void)conn;
  mcp_schema_trace(((line_peer *)user)->checker, direction, message, len);
}

static void open_peer(line_peer *peer, idem__mcp_worker *hub, const char *principal) {
  peer->checker = mcp_schema_new();
  idem_conn_opts opts = {.on_trace = on_trace, .user = peer};
  assert_int_equal(idem__worker_accept(hub, &opts, principal, &peer->conn), IDEM_OK);
}

static void close_peer(line_peer *peer) {
  idem_conn_free(peer->conn);
  assert_true(mcp_schema_end(peer->checker));
}

/* What has come since. */
static const char *heard(line_peer *peer) {
  size_t len = 0;
  idem_chunk chunk;
  while (idem_conn_next_chunk(peer->conn, &chunk)) {
    assert_true(len + chunk.len < sizeof peer->text);
    memcpy(peer->text + len, chunk.data, chunk.len);
    len += chunk.len;
    idem_chunk_free(&chunk);
  }
  peer->text[len] = '\0';
  return peer->text;
}

#define CAN_ALL                                                                                    \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/"                                                                     \
  "clientCapabilities\":{\"elicitation\":{},\"roots\":{},"                                         \
  "\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}}"

static const char *ask(line_peer *peer, const char *method, const char *members) {
  char line[16384];
  int len =
      snprintf(line, sizeof line,
               "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{%s," CAN_ALL "}}\n",
               method, members);
  assert_int_equal(idem_conn_feed(peer->conn, line, (size_t)len), IDEM_OK);
  return heard(peer);
}

/* The value of a string member somewhere in the last answer. */
static void find_text(const line_peer *peer, const char *key, char *out, size_t size) {
  char mark[64];
  snprintf(mark, sizeof mark, "\"%s\":\"", key);
  const char *at = strstr(peer->text, mark);
  assert_non_null(at);
  at += strlen(mark);
  size_t len = strcspn(at, "\"");
  assert_true(len < size);
  memcpy(out, at, len);
  out[len] = '\0';
}

/* A server, a hub and a peer of it. */
typedef struct world {
  mcp_fixture fixture;
  idem__mcp_worker *hub;
  line_peer peer;
} world;

static void open_world(world *w, const idem_server_opts *opts, const char *principal) {
  *w = (world){0};
  assert_int_equal(mcp_fixture_open(&w->fixture, opts), IDEM_OK);
  assert_int_equal(idem__worker_new(w->fixture.server, NULL, NULL, &w->hub), IDEM_OK);
  w->fixture.server->own_worker = w->hub;
  open_peer(&w->peer, w->hub, principal);
}

static void close_world(world *w) {
  close_peer(&w->peer);
  mcp_fixture_close(&w->fixture);
}

/* ---------------------------------------------------------------- requestState
 */

static void get_state(line_peer *peer, char *sealed, size_t size) {
  assert_non_null(strstr(ask(peer, "tools/call", "\"name\":\"ask\""), "input_required"));
  find_text(peer, "requestState", sealed, size);
}

static const char *retry(line_peer *peer, const char *tool, const char *more, const char *sealed) {
  char members[8192];
  snprintf(members, sizeof members,
           "\"name\":\"%s\"%s,\"inputResponses\":{\"who\":{\"action\":"
           "\"accept\",\"content\":{"
           "\"name\":\"Ann\"}}},\"requestState\":\"%s\"",
           tool, more, sealed);
  return ask(peer, "tools/call", members);
}

static void expect_opened(line_peer *peer, const char *sealed) {
  const char *answer = retry(peer, "ask", "", sealed);
  if (!strstr(answer, "accept Ann kept")) fail_msg("%s", answer);
}

static void expect_refused(line_peer *peer, const char *sealed) {
  const char *answer = retry(peer, "ask", "", sealed);
  if (!strstr(answer, "\"code\":-32602") || !strstr(answer, "requestState")) fail_msg("%s", answer);
}

static void what_was_kept_comes_back(void **state) {
  (void)state;
  world w;
  char sealed[512];
  open_world(&w, NULL, "alice");
  get_state(&w.peer, sealed, sizeof sealed);
  expect_opened(&w.peer, sealed);
  expect_opened(&w.peer, sealed); /* and again: it is good for a while, not for once */
  close_world(&w);
}

static void a_seal_that_was_touched_is_refused(void **state) {
  (void)state;
  world w;
  char sealed[512], touched[512];
  open_world(&w, NULL, "alice");
  get_state(&w.peer, sealed, sizeof sealed);
  size_t len = strlen(sealed);
  for (size_t i = 0; i < len; i++) {
    memcpy(touched, sealed, len + 1);
    touched[i] = touched[i] == 'A' ? 'B' : 'A';
    expect_refused(&w.peer, touched);
  }
  for (size_t cut = 0; cut < len; cut++) {
    memcpy(touched, sealed, len);
    touched[cut] = '\0';
    expect_refused(&w.peer, touched);
  }
  close_world(&w);
}

static void a_seal_is_good_for_a_while_only(void **state) {
  (void)state;
  world w;
  char sealed[512];
  open_world(&w, &(idem_server_opts){.state_ms = 1000}, "alice");
  get_state(&w.peer, sealed, sizeof sealed);
  w.fixture.wall_ms += 999;
  expect_opened(&w.peer, sealed);
  w.fixture.wall_ms += 1;
  expect_refused(&w.peer, sealed);
  close_world(&w);
}

/* MUST elicitation.bound 2026-07-28 */
static void a_seal_is_one_principals(void **state) {
  (void)state;
  world w;
  line_peer bob, nobody;
  char sealed[512];
  open_world(&w, NULL, "alice");
  open_peer(&bob, w.hub, "bob");
  open_peer(&nobody, w.hub, NULL);
  get_state(&w.peer, sealed, sizeof sealed);
  expect_refused(&bob, sealed);
  expect_refused(&nobody, sealed);
  expect_opened(&w.peer, sealed);
  close_peer(&bob);
  close_peer(&nobody);
  close_world(&w);
}

static void a_seal_is_for_one_question(void **state) {
  (void)state;
  world w;
  char sealed[512];
  open_world(&w, NULL, "alice");
  get_state(&w.peer, sealed, sizeof sealed);
  assert_non_null(strstr(retry(&w.peer, "later", "", sealed), "\"code\":-32602"));
  assert_non_null(strstr(retry(&w.peer, "ask", ",\"arguments\":{}", sealed), "\"code\":-32602"));
  assert_non_null(strstr(retry(&w.peer, "ask", ",\"more\":1", sealed), "\"code\":-32602"));
  close_world(&w);
}

static void another_process_with_the_key_opens_it(void **state) {
  (void)state;
  static const char old[] = "0123456789abcdef0123456789abcdef",
                    new[] = "fedcba9876543210fedcba98765432";
  static const char third[] = "ffffffffffffffffffffffffffffffff";
  idem_server_opts with_old = {.state_key = old, .state_key_len = 32};
  idem_server_opts rotated = {
      .state_key = third, .state_key_len = 32, .state_key_old = old, .state_key_old_len = 32};
  idem_server_opts foreign = {.state_key = third, .state_key_len = 32};
  world one, same, later, other;
  char sealed[512];
  open_world(&one, &with_old, "alice");
  open_world(&same, &with_old, "alice");
  open_world(&later, &rotated, "alice");
  open_world(&other, &foreign, "alice");
  get_state(&one.peer, sealed, sizeof sealed);
  expect_opened(&same.peer, sealed);
  expect_opened(&later.peer, sealed);
  expect_refused(&other.peer, sealed);
  get_state(&later.peer, sealed, sizeof sealed); /* sealed with the new key */
  expect_opened(&other.peer, sealed);
  expect_refused(&one.peer, sealed);
  close_world(&one);
  close_world(&same);
  close_world(&later);
  close_world(&other);
  mcp_fixture fixture;
  idem_server_opts weak = {.state_key = new, .state_key_len = 30};
  assert_int_equal(mcp_fixture_open(&fixture, &weak), IDEM_E_INVAL);
}

/* ------------------------------------------------------------------------
 * tasks */

static void derive(const char *state_key, const char *purpose, uint8_t out[IDEM__STATE_KEY_BYTES]) {
  idem_server_opts opts = {.state_key = state_key, .state_key_len = 32};
  mcp_fixture fixture;
  assert_int_equal(mcp_fixture_open(&fixture, &opts), IDEM_OK);
  idem__server_derive_key(fixture.server, purpose, out);
  mcp_fixture_close(&fixture);
}

static void other_keys_are_made_of_it_that_tell_nothing_of_each_other(void **state) {
  (void)state;
  static const char one[] = "0123456789abcdef0123456789abcdef",
                    two[] = "0123456789abcdef0123456789abcdeg";
  uint8_t key[IDEM__STATE_KEY_BYTES], other[IDEM__STATE_KEY_BYTES];
  derive(one, "a", key);
  derive(one, "a", other); /* in another process */
  assert_memory_equal(key, other, sizeof key);
  derive(one, "b", other);
  assert_memory_not_equal(key, other, sizeof key);
  derive(two, "a", other);
  assert_memory_not_equal(key, other, sizeof key);
}

static void expect_no_task(line_peer *peer, const char *method, const char *id) {
  char members[256];
  snprintf(members, sizeof members, "\"taskId\":\"%s\",\"inputResponses\":{}", id);
  const char *answer = ask(peer, method, members);
  if (!strstr(answer, "\"code\":-32602")) fail_msg("%s: %s", method, answer);
}

static void a_task_is_its_principals_alone(void **state) {
  (void)state;
  world w;
  line_peer bob;
  char id[64], members[256];
  open_world(&w, NULL, "alice");
  open_peer(&bob, w.hub, "bob");
  ask(&w.peer, "tools/call", "\"name\":\"job_ask\"");
  find_text(&w.peer, "taskId", id, sizeof id);
  expect_no_task(&bob, "tasks/get", id);
  expect_no_task(&bob, "tasks/update", id);
  expect_no_task(&bob, "tasks/cancel", id);
  snprintf(members, sizeof members, "\"notifications\":{\"taskIds\":[\"%s\"]}", id);
  assert_non_null(strstr(ask(&bob, "subscriptions/listen", members), "acknowledged"));
  snprintf(members, sizeof members,
           "\"taskId\":\"%s\",\"inputResponses\":{\"who\":{\"action\":"
           "\"accept\",\"content\":{"
           "\"name\":\"Ann\"}}}",
           id);
  assert_non_null(strstr(ask(&w.peer, "tasks/update", members), "\"complete\""));
  snprintf(members, sizeof members, "\"taskId\":\"%s\"", id);
  assert_non_null(strstr(ask(&w.peer, "tasks/get", members), "accept Ann kept"));
  assert_string_equal(heard(&bob), "");
  close_peer(&bob);
  close_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_was_kept_comes_back),
      cmocka_unit_test(a_seal_that_was_touched_is_refused),
      cmocka_unit_test(a_seal_is_good_for_a_while_only),
      cmocka_unit_test(a_seal_is_one_principals),
      cmocka_unit_test(a_seal_is_for_one_question),
      cmocka_unit_test(another_process_with_the_key_opens_it),
      cmocka_unit_test(other_keys_are_made_of_it_that_tell_nothing_of_each_other),
      cmocka_unit_test(a_task_is_its_principals_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
