/* test_once.c - calls with a key: which tools take one, what is stored before anybody hears it, what several servers that
 * share a store see of it, what a dead one leaves behind. The wire's side is in tests/transcripts/mcp_once.txt. */
#include "support/fault_alloc.h"
#include "support/later_store.h"
#include "support/mcp_peer.h"
#include "support/unit.h"

#include "mcp_server/mcp_server.h"
#include "mcp_server/once.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYED(name) "\"name\":\"" name "\",\"_meta\":{\"idem/key\":\"k\"}"
#define UNKEYED(name) "\"name\":\"" name "\""

typedef struct tool_state {
  unsigned runs;
  idem_request *kept;
  bool cancelled;
} tool_state;

static void expect_in(const char *answer, const char *part) {
  if (!strstr(answer, part)) fail_msg("no %s in: %s", part, answer);
}

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)request, (void)reason;
  ((tool_state *)user)->cancelled = true;
}

static void run_keep(idem_request *request, yyjson_val *arguments, void *user) {
  tool_state *self = user;
  (void)arguments;
  self->runs++;
  self->kept = request;
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancel, self);
}

/* As handlers do that have nothing to say any more; what waits for its turn has done nothing. */
static void on_cancel_drop(idem_request *request, idem_cancel_reason reason, void *user) {
  on_cancel(request, reason, user);
  idem_request_drop(request);
}

static void on_cancel_unbegun(idem_request *request, idem_cancel_reason reason, void *user) {
  idem_not_run(request);
  on_cancel_drop(request, reason, user);
}

static void run_dropping(idem_request *request, yyjson_val *arguments, void *user) {
  run_keep(request, arguments, user);
  idem_request_on_cancel(request, on_cancel_drop, user);
}

static void run_queued(idem_request *request, yyjson_val *arguments, void *user) {
  run_keep(request, arguments, user);
  idem_request_on_cancel(request, on_cancel_unbegun, user);
}

static void run_count(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments;
  ((tool_state *)user)->runs++;
  idem_tool_text(request, "ran", 3);
}

static void run_busy(idem_request *request, yyjson_val *arguments, void *user) {
  tool_state *self = user;
  (void)arguments;
  if (self->runs++ == 0) {
    idem_not_run(request);
    idem_tool_failed(request, "busy");
  } else {
    idem_tool_text(request, "ran", 3);
  }
}

static void add(idem_server *server, const char *name, idem_tool_fn fn, tool_state *state,
                idem_once once, const char *annotations) {
  idem_tool tool = {
      .name = name, .fn = fn, .user = state, .once = once, .annotations = annotations};
  assert_int_equal(idem_server_add_tool(server, &tool, NULL, 0), IDEM_OK);
}

/* ------------------------------------------------------------------- one server */

static void a_tool_may_want_a_key_or_none(void **state) {
  tool_state always = {0}, never = {0};
  idem_server *server = mcp_test_server(NULL);
  mcp_peer peer;
  (void)state;
  add(server, "always", run_count, &always, IDEM_ONCE_ALWAYS, NULL);
  add(server, "never", run_count, &never, IDEM_ONCE_NEVER, NULL);
  mcp_peer_open(&peer, server, "2025-11-25");
  mcp_peer_expect_part(&peer, "tools/call", UNKEYED("always"), "a key: this tool wants one");
  assert_int_equal(always.runs, 0);
  mcp_peer_expect_part(&peer, "tools/call", KEYED("always"), "\"ran\"");
  mcp_peer_expect_part(&peer, "tools/call", KEYED("always"), "\"idem/replayed\":true");
  assert_int_equal(always.runs, 1);
  mcp_peer_expect_part(&peer, "tools/call", KEYED("never"), "\"ran\"");
  mcp_peer_expect_part(&peer, "tools/call", KEYED("never"), "\"ran\"");
  assert_int_equal(never.runs, 2);
  /* Who says that it asks again would have it run twice. */
  mcp_peer_expect_part(&peer, "tools/call",
                       "\"name\":\"never\",\"_meta\":{\"idem/key\":\"k\",\"idem/repeat\":\"x\"}",
                       "outcome-unknown");
  assert_int_equal(never.runs, 2);
  mcp_peer_close_with(&peer, server);
}

static void a_refusal_before_anything_was_done_is_not_stored(void **state) {
  tool_state self = {0};
  idem_server *server = mcp_test_server(NULL);
  mcp_peer peer;
  (void)state;
  add(server, "busy", run_busy, &self, IDEM_ONCE_KEY, NULL);
  mcp_peer_open(&peer, server, "2025-11-25");
  mcp_peer_expect_part(&peer, "tools/call", KEYED("busy"), "\"isError\":true");
  mcp_peer_expect_part(&peer, "tools/call", KEYED("busy"), "\"ran\"");
  mcp_peer_expect_part(&peer, "tools/call", KEYED("busy"), "\"idem/replayed\":true");
  assert_int_equal(self.runs, 2);
  mcp_peer_close_with(&peer, server);
}

static void a_lost_connection_does_not_stop_what_has_a_key(void **state) {
  tool_state self = {0};
  idem_server *server = mcp_test_server(NULL);
  mcp_peer first, second;
  (void)state;
  add(server, "keep", run_keep, &self, IDEM_ONCE_KEY, NULL);
  mcp_peer_open(&first, server, "2025-11-25");
  assert_string_equal(mcp_peer_ask(&first, "tools/call", KEYED("keep")), "");
  mcp_peer_close(&first);
  assert_false(self.cancelled);
  mcp_peer_open(&second, server, "2025-11-25");
  assert_string_equal(mcp_peer_ask(&second, "tools/call", KEYED("keep")), "");
  assert_int_equal(self.runs, 1);
  idem_tool_text(self.kept, "it happened", 11);
  expect_in(mcp_peer_more(&second), "it happened");
  mcp_peer_expect_part(&second, "tools/call", KEYED("keep"), "it happened");
  mcp_peer_close_with(&second, server);
}

static void a_server_that_ends_tells_the_handlers_of_calls_with_keys(void **state) {
  tool_state self = {0};
  idem_server *server = mcp_test_server(NULL);
  mcp_peer peer;
  (void)state;
  add(server, "keep", run_keep, &self, IDEM_ONCE_KEY, NULL);
  mcp_peer_open(&peer, server, "2025-11-25");
  assert_string_equal(mcp_peer_ask(&peer, "tools/call", KEYED("keep")), "");
  mcp_peer_close(&peer);
  idem__worker_free(server->own_worker);
  server->own_worker = NULL;
  assert_true(self.cancelled);
  idem_request_drop(self.kept);
  idem_server_free(server);
}

/* ------------------------------------------------------------------ broken off */

static void cancel_last(mcp_peer *peer) {
  char text[160];
  int len = snprintf(text, sizeof text,
                     "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
                     "\"params\":{\"requestId\":%u}}\n",
                     peer->asked);
  assert_int_equal(idem_conn_feed(peer->conn, text, (size_t)len), IDEM_OK);
}

/* Asked, cancelled by all, and asked again by another: "" where it runs again. */
static void expect_after_cancel(idem_tool_fn fn, const char *annotations, const char *part) {
  tool_state self = {0};
  idem_server *server = mcp_test_server(NULL);
  mcp_peer first, second;
  add(server, "t", fn, &self, IDEM_ONCE_KEY, annotations);
  mcp_peer_open(&first, server, "2025-11-25");
  mcp_peer_open(&second, server, "2025-11-25");
  assert_string_equal(mcp_peer_ask(&first, "tools/call", KEYED("t")), "");
  assert_string_equal(mcp_peer_ask(&second, "tools/call", KEYED("t")), "");
  cancel_last(&first);
  assert_false(self.cancelled);
  cancel_last(&second);
  idem__once_deliver(server->own_worker);
  assert_true(self.cancelled);
  const char *answer = mcp_peer_ask(&second, "tools/call", KEYED("t"));
  assert_null(strstr(answer, "replayed"));
  if (*part) {
    expect_in(answer, part);
    assert_int_equal(self.runs, 1);
  } else {
    assert_string_equal(answer, "");
    assert_int_equal(self.runs, 2);
    idem_tool_text(self.kept, "again", 5);
    expect_in(mcp_peer_more(&second), "again");
  }
  mcp_peer_close(&first);
  mcp_peer_close_with(&second, server);
}

static void what_all_have_cancelled_is_unknown(void **state) {
  (void)state;
  expect_after_cancel(run_dropping, NULL, "outcome-unknown");
}

static void what_all_have_cancelled_runs_again_where_it_may(void **state) {
  (void)state;
  expect_after_cancel(run_dropping, "{\"idempotentHint\":true}", "");
}

static void what_was_cancelled_before_it_began_leaves_nothing(void **state) {
  (void)state;
  expect_after_cancel(run_queued, NULL, "");
}

/* Who comes after all have cancelled, and before the handler has let go. */
static void expect_while_ending(const char *annotations, bool again) {
  tool_state self = {0};
  idem_server *server = mcp_test_server(NULL);
  mcp_peer first, second;
  add(server, "keep", run_keep, &self, IDEM_ONCE_KEY, annotations);
  mcp_peer_open(&first, server, "2025-11-25");
  mcp_peer_open(&second, server, "2025-11-25");
  assert_string_equal(mcp_peer_ask(&first, "tools/call", KEYED("keep")), "");
  cancel_last(&first);
  assert_true(self.cancelled);
  assert_string_equal(mcp_peer_ask(&second, "tools/call", KEYED("keep")), "");
  idem_request_drop(self.kept);
  assert_int_equal(self.runs, again ? 2 : 1);
  if (again) idem_tool_text(self.kept, "again", 5);
  expect_in(mcp_peer_more(&second), again ? "again" : "outcome-unknown");
  mcp_peer_expect_part(&first, "tools/call", KEYED("keep"), again ? "again" : "outcome-unknown");
  mcp_peer_close(&first);
  mcp_peer_close_with(&second, server);
}

static void who_joins_what_is_being_broken_off_is_told_so(void **state) {
  (void)state;
  expect_while_ending(NULL, false);
}

static void who_joins_what_is_being_broken_off_runs_it_where_it_may(void **state) {
  (void)state;
  expect_while_ending("{\"idempotentHint\":true}", true);
}

static void what_a_cancelled_handler_answers_all_the_same_is_stored(void **state) {
  tool_state self = {0};
  idem_server *server = mcp_test_server(NULL);
  mcp_peer peer;
  (void)state;
  add(server, "keep", run_keep, &self, IDEM_ONCE_KEY, NULL);
  mcp_peer_open(&peer, server, "2025-11-25");
  assert_string_equal(mcp_peer_ask(&peer, "tools/call", KEYED("keep")), "");
  cancel_last(&peer);
  assert_true(self.cancelled);
  idem_tool_text(self.kept, "done by then", 12);
  mcp_peer_expect_part(&peer, "tools/call", KEYED("keep"), "done by then");
  assert_int_equal(self.runs, 1);
  mcp_peer_close_with(&peer, server);
}

/* -------------------------------------------------------------- several servers */

typedef struct pair {
  idem__store *store;
  idem_server *server[2];
  mcp_peer peer[2];
  tool_state state[2];
} pair;

static void open_pair_with(pair *self, const idem_server_opts *opts, idem_tool_fn fn,
                           const char *annotations) {
  memset(self, 0, sizeof *self);
  assert_int_equal(idem__store_memory_new(&(idem__store_memory_opts){0}, &self->store), IDEM_OK);
  for (int i = 0; i < 2; i++) {
    self->server[i] = mcp_test_server(opts);
    assert_int_equal(idem__server_use_store(self->server[i], self->store), IDEM_OK);
    add(self->server[i], "t", fn, &self->state[i], IDEM_ONCE_KEY, annotations);
    mcp_peer_open(&self->peer[i], self->server[i], "2025-11-25");
  }
}

static void open_pair(pair *self, idem_tool_fn fn, const char *annotations) {
  open_pair_with(self, NULL, fn, annotations);
}

static void close_pair(pair *self, int from) {
  for (int i = from; i < 2; i++) mcp_peer_close_with(&self->peer[i], self->server[i]);
  idem__store_unref(self->store);
}

/* Its record in the store goes as it would with a process that died. */
static void kill_node(pair *self, int which) {
  idem__store_op op = {.verb = IDEM__STORE_REMOVE,
                       .space = IDEM__STORE_NODES,
                       .name = self->server[which]->node.id,
                       .name_len = IDEM__NODE_ID,
                       .expect = IDEM__STORE_ANY};
  assert_int_equal(idem__store_ask(self->store, &op, NULL).status, IDEM_OK);
}

static void a_key_holds_for_all_who_share_the_store(void **state) {
  pair self;
  (void)state;
  open_pair(&self, run_count, NULL);
  mcp_peer_expect_part(&self.peer[0], "tools/call", KEYED("t"), "\"ran\"");
  mcp_peer_expect_part(&self.peer[1], "tools/call", KEYED("t"), "\"idem/replayed\":true");
  assert_int_equal(self.state[1].runs, 0);
  close_pair(&self, 0);
}

static void who_comes_elsewhere_while_it_runs_gets_its_answer(void **state) {
  pair self;
  (void)state;
  open_pair(&self, run_keep, NULL);
  assert_string_equal(mcp_peer_ask(&self.peer[0], "tools/call", KEYED("t")), "");
  assert_string_equal(mcp_peer_ask(&self.peer[1], "tools/call", KEYED("t")), "");
  assert_int_equal(self.state[1].runs, 0);
  idem_tool_text(self.state[0].kept, "from there", 10);
  expect_in(mcp_peer_more(&self.peer[0]), "from there");
  expect_in(mcp_peer_more(&self.peer[1]), "from there");
  close_pair(&self, 0);
}

static void deliver(pair *self) {
  for (int i = 0; i < 2; i++) idem__once_deliver(self->server[i]->own_worker);
}

static void begin_at_both(pair *self) {
  open_pair(self, run_dropping, NULL);
  assert_string_equal(mcp_peer_ask(&self->peer[0], "tools/call", KEYED("t")), "");
  assert_string_equal(mcp_peer_ask(&self->peer[1], "tools/call", KEYED("t")), "");
}

static void who_cancels_takes_nothing_from_who_waits_elsewhere(void **state) {
  pair self;
  (void)state;
  begin_at_both(&self);
  cancel_last(&self.peer[0]);
  deliver(&self);
  assert_false(self.state[0].cancelled);
  idem_tool_text(self.state[0].kept, "from there", 10);
  expect_in(mcp_peer_more(&self.peer[1]), "from there");
  close_pair(&self, 0);
}

/* Whoever goes last, the handler is told, and only then. */
static void what_is_cancelled_at_all_nodes_ends(void **state) {
  (void)state;
  for (int first = 0; first < 2; first++) {
    pair self;
    begin_at_both(&self);
    cancel_last(&self.peer[first]);
    deliver(&self);
    assert_false(self.state[0].cancelled);
    cancel_last(&self.peer[1 - first]);
    deliver(&self);
    assert_true(self.state[0].cancelled);
    mcp_peer_expect_part(&self.peer[1], "tools/call", KEYED("t"), "outcome-unknown");
    close_pair(&self, 0);
  }
}

/* Who came back to wait after all has left is counted anew. */
static void who_comes_back_to_wait_elsewhere_is_heard_of(void **state) {
  pair self;
  (void)state;
  begin_at_both(&self);
  cancel_last(&self.peer[1]);
  deliver(&self);
  assert_string_equal(mcp_peer_ask(&self.peer[1], "tools/call", KEYED("t")), "");
  deliver(&self);
  cancel_last(&self.peer[0]);
  deliver(&self);
  assert_false(self.state[0].cancelled);
  idem_tool_text(self.state[0].kept, "from there", 10);
  expect_in(mcp_peer_more(&self.peer[1]), "from there");
  close_pair(&self, 0);
}

static const char given_up[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/idem/cancelled\","
                               "\"params\":{" KEYED("t") "}}\n";

static void give_up(mcp_peer *peer) {
  assert_int_equal(idem_conn_feed(peer->conn, given_up, sizeof given_up - 1), IDEM_OK);
}

/* Its connection is gone, and its word comes to another node; also before the connection is seen to go. */
static void what_is_given_up_by_its_key_ends_at_whichever_node_it_runs(void **state) {
  (void)state;
  for (int late = 0; late < 2; late++) {
    pair self;
    open_pair(&self, run_dropping, NULL);
    assert_string_equal(mcp_peer_ask(&self.peer[0], "tools/call", KEYED("t")), "");
    if (late) give_up(&self.peer[1]);
    assert_false(self.state[0].cancelled);
    mcp_peer_close(&self.peer[0]);
    if (!late) assert_false(self.state[0].cancelled);
    if (!late) give_up(&self.peer[1]);
    deliver(&self);
    assert_true(self.state[0].cancelled);
    mcp_peer_open(&self.peer[0], self.server[0], "2025-11-25");
    close_pair(&self, 0);
  }
}

static uint64_t wall;
static uint64_t read_wall(void *ctx) {
  (void)ctx;
  return wall;
}

/* The time of a key counts from when it has its answer. */
static void what_takes_longer_than_keys_are_kept_runs_once_all_the_same(void **state) {
  pair self;
  (void)state;
  wall = 1000;
  open_pair_with(&self, &(idem_server_opts){.key_ms = 5000, .wall_ms = read_wall}, run_keep, NULL);
  assert_string_equal(mcp_peer_ask(&self.peer[0], "tools/call", KEYED("t")), "");
  wall = 3600000;
  assert_string_equal(mcp_peer_ask(&self.peer[1], "tools/call", KEYED("t")), "");
  assert_int_equal(self.state[1].runs, 0);
  idem_tool_text(self.state[0].kept, "at last", 7);
  expect_in(mcp_peer_more(&self.peer[1]), "at last");
  close_pair(&self, 0);
}

static void a_dead_node_leaves_an_unknown_outcome_and_can_store_nothing(void **state) {
  pair self;
  (void)state;
  open_pair(&self, run_keep, NULL);
  assert_string_equal(mcp_peer_ask(&self.peer[0], "tools/call", KEYED("t")), "");
  assert_string_equal(mcp_peer_ask(&self.peer[1], "tools/call", KEYED("t")), "");
  kill_node(&self, 0); /* who waits there hears of it at once */
  expect_in(mcp_peer_more(&self.peer[1]), "outcome-unknown");
  idem_tool_text(self.state[0].kept, "too late", 8); /* it was alive after all */
  expect_in(mcp_peer_more(&self.peer[0]),
            "\"reason\":\"unavailable\""); /* others were told otherwise */
  mcp_peer_expect_part(&self.peer[1], "tools/call", KEYED("t"), "outcome-unknown");
  mcp_peer_expect_part(&self.peer[0], "tools/call", KEYED("t"), "outcome-unknown");
  assert_int_equal(self.state[1].runs, 0);
  close_pair(&self, 0);
}

/* Who had come to the dead one meanwhile is told what all are. */
static void who_joined_what_was_taken_away_hears_what_the_store_has(void **state) {
  pair self;
  mcp_peer third;
  (void)state;
  open_pair(&self, run_keep, NULL);
  mcp_peer_open(&third, self.server[0], "2025-11-25");
  assert_string_equal(mcp_peer_ask(&self.peer[0], "tools/call", KEYED("t")), "");
  kill_node(&self, 0);
  mcp_peer_expect_part(&self.peer[1], "tools/call", KEYED("t"), "outcome-unknown");
  assert_string_equal(mcp_peer_ask(&third, "tools/call", KEYED("t")), "");
  idem_tool_text(self.state[0].kept, "too late", 8);
  expect_in(mcp_peer_more(&third), "outcome-unknown");
  mcp_peer_close(&third);
  close_pair(&self, 0);
}

static void what_is_idempotent_runs_again_where_its_node_died(void **state) {
  pair self;
  (void)state;
  open_pair(&self, run_keep, "{\"idempotentHint\":true}");
  assert_string_equal(mcp_peer_ask(&self.peer[0], "tools/call", KEYED("t")), "");
  kill_node(&self, 0);
  assert_string_equal(mcp_peer_ask(&self.peer[1], "tools/call", KEYED("t")), "");
  assert_int_equal(self.state[1].runs, 1);
  idem_tool_text(self.state[1].kept, "again", 5);
  expect_in(mcp_peer_more(&self.peer[1]), "again");
  idem_tool_text(self.state[0].kept, "too late", 8);
  mcp_peer_more(&self.peer[0]);
  mcp_peer_expect_part(&self.peer[0], "tools/call", KEYED("t"), "again");
  close_pair(&self, 0);
}

static void end_first(pair *self) {
  mcp_peer_close(&self->peer[0]);
  assert_false(self->state[0].cancelled);
  idem__worker_free(self->server[0]->own_worker);
  self->server[0]->own_worker = NULL;
  assert_true(self->state[0].cancelled);
  idem_server_free(self->server[0]);
}

static void what_a_server_that_ends_breaks_off_is_unknown(void **state) {
  pair self;
  (void)state;
  open_pair(&self, run_dropping, NULL);
  assert_string_equal(mcp_peer_ask(&self.peer[0], "tools/call", KEYED("t")), "");
  end_first(&self);
  mcp_peer_expect_part(&self.peer[1], "tools/call", KEYED("t"), "outcome-unknown");
  assert_int_equal(self.state[1].runs, 0);
  close_pair(&self, 1);
}

static void what_a_server_that_ends_had_not_begun_runs_elsewhere(void **state) {
  pair self;
  (void)state;
  open_pair(&self, run_queued, NULL);
  assert_string_equal(mcp_peer_ask(&self.peer[0], "tools/call", KEYED("t")), "");
  end_first(&self);
  assert_string_equal(mcp_peer_ask(&self.peer[1], "tools/call", KEYED("t")), "");
  assert_int_equal(self.state[1].runs, 1);
  idem_tool_text(self.state[1].kept, "here", 4);
  expect_in(mcp_peer_more(&self.peer[1]), "here");
  close_pair(&self, 1);
}

/* ------------------------------------------------------------ a store in trouble */

static void what_the_store_did_not_take_is_told_when_it_has(void **state) {
  tool_state self = {0};
  idem__store *inner;
  idem_server *server = mcp_test_server(NULL);
  mcp_peer peer;
  (void)state;
  assert_int_equal(idem__store_memory_new(&(idem__store_memory_opts){0}, &inner), IDEM_OK);
  idem__store *later = later_store_new(inner, &(later_store_opts){.seed = 1});
  assert_int_equal(idem__server_use_store(server, later), IDEM_OK);
  add(server, "keep", run_keep, &self, IDEM_ONCE_KEY, NULL);
  mcp_peer_open(&peer, server, "2025-11-25");
  assert_string_equal(mcp_peer_ask(&peer, "tools/call", KEYED("keep")), "");
  while (later_store_pump(later)) idem__store_queue_run(server->own_worker->store_queue);
  assert_int_equal(self.runs, 1);
  later_store_fail(later, IDEM_E_SYS);
  idem_tool_text(self.kept, "it ran", 6);
  while (later_store_pump(later)) idem__store_queue_run(server->own_worker->store_queue);
  expect_in(mcp_peer_more(&peer), "\"reason\":\"unavailable\""); /* it would go with this process */
  mcp_peer_expect_part(&peer, "tools/call", KEYED("keep"), "\"reason\":\"unavailable\"");
  later_store_fail(later, IDEM_OK);
  assert_true(idem__once_waits(server->own_worker));
  idem__once_tick(server->own_worker);
  while (later_store_pump(later)) idem__store_queue_run(server->own_worker->store_queue);
  assert_false(idem__once_waits(server->own_worker));
  assert_string_equal(mcp_peer_ask(&peer, "tools/call", KEYED("keep")), "");
  while (later_store_pump(later)) idem__store_queue_run(server->own_worker->store_queue);
  expect_in(mcp_peer_more(&peer), "it ran");
  assert_int_equal(self.runs, 1);
  mcp_peer_close_with(&peer, server);
  idem__store_unref(later);
}

static void a_store_that_does_not_answer_refuses_calls_with_keys_alone(void **state) {
  tool_state self = {0};
  idem__store *inner;
  idem_server *server = mcp_test_server(NULL);
  mcp_peer peer;
  (void)state;
  assert_int_equal(idem__store_memory_new(&(idem__store_memory_opts){0}, &inner), IDEM_OK);
  idem__store *later = later_store_new(inner, &(later_store_opts){.seed = 1});
  assert_int_equal(idem__server_use_store(server, later), IDEM_OK);
  add(server, "count", run_count, &self, IDEM_ONCE_KEY, NULL);
  mcp_peer_open(&peer, server, "2025-11-25");
  while (later_store_pump(later)) idem__store_queue_run(server->own_worker->store_queue);
  later_store_fail(later, IDEM_E_TIMEOUT);
  mcp_peer_ask(&peer, "tools/call", KEYED("count"));
  while (later_store_pump(later)) idem__store_queue_run(server->own_worker->store_queue);
  expect_in(mcp_peer_more(&peer), "\"reason\":\"unavailable\"");
  mcp_peer_expect_part(&peer, "tools/call", UNKEYED("count"), "\"ran\"");
  assert_int_equal(self.runs, 1);
  mcp_peer_close_with(&peer, server);
  idem__store_unref(later);
}

static void pump(idem_server *server, idem__store *later) {
  while (later_store_pump(later)) idem__store_queue_run(server->own_worker->store_queue);
}

/* It happened and nobody heard: the record names a server that lives and does not run it. */
static void a_key_that_may_be_ours_is_given_back(void **state) {
  tool_state runs[2] = {{0}};
  idem_server *servers[2];
  mcp_peer peers[2];
  idem__store *inner;
  (void)state;
  assert_int_equal(idem__store_memory_new(&(idem__store_memory_opts){0}, &inner), IDEM_OK);
  idem__store *later = later_store_new(idem__store_ref(inner), &(later_store_opts){.seed = 1});
  for (int i = 0; i < 2; i++) {
    servers[i] = mcp_test_server(NULL);
    assert_int_equal(idem__server_use_store(servers[i], i ? inner : later), IDEM_OK);
    add(servers[i], "t", run_count, &runs[i], IDEM_ONCE_KEY, NULL);
    mcp_peer_open(&peers[i], servers[i], "2025-11-25");
  }
  pump(servers[0], later);
  later_store_lose(later, IDEM_E_SYS);
  assert_string_equal(mcp_peer_ask(&peers[0], "tools/call", KEYED("t")), "");
  pump(servers[0], later);
  expect_in(mcp_peer_more(&peers[0]), "\"reason\":\"unavailable\"");
  mcp_peer_expect_part(&peers[0], "tools/call", KEYED("t"), "\"reason\":\"unavailable\"");
  assert_string_equal(mcp_peer_ask(&peers[1], "tools/call", KEYED("t")), ""); /* it waits */
  idem__once_tick(servers[0]->own_worker);
  pump(servers[0], later); /* nobody hears of it once more */
  assert_true(idem__once_waits(servers[0]->own_worker));
  later_store_lose(later, IDEM_OK);
  idem__once_tick(servers[0]->own_worker);
  pump(servers[0], later);
  assert_false(idem__once_waits(servers[0]->own_worker));
  idem__once_tick(servers[1]->own_worker);
  expect_in(mcp_peer_more(&peers[1]), "\"ran\"");
  assert_int_equal(runs[0].runs, 0);
  assert_int_equal(runs[1].runs, 1);
  for (int i = 0; i < 2; i++) mcp_peer_close_with(&peers[i], servers[i]);
  idem__store_unref(later);
  idem__store_unref(inner);
}

static void a_store_that_does_not_answer_is_told_of_until_it_does(void **state) {
  idem__store *inner;
  idem_server *server = mcp_test_server(NULL);
  mcp_peer peer;
  (void)state;
  assert_int_equal(idem__store_memory_new(&(idem__store_memory_opts){0}, &inner), IDEM_OK);
  idem__store *later = later_store_new(inner, &(later_store_opts){.seed = 1});
  assert_int_equal(idem__server_use_store(server, later), IDEM_OK);
  mcp_peer_open(&peer, server, "2025-11-25");
  idem__mcp_worker *worker = server->own_worker;
  uint64_t now = 1, step = idem__node_interval_ms(server);
  const struct {
    idem_status says;
    bool gone;
  } turns[] = {{IDEM_OK, false}, {IDEM_E_SYS, true}, {IDEM_E_TIMEOUT, true}, {IDEM_OK, false}};
  for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
    later_store_fail(later, turns[i].says);
    assert_true(idem__worker_deadline(worker) <= now);
    idem__worker_expire(worker, now);
    while (later_store_pump(later)) idem__store_queue_run(worker->store_queue);
    assert_int_equal(idem__server_store_gone(server), turns[i].gone);
    now += step;
  }
  mcp_peer_close_with(&peer, server);
  idem__store_unref(later);
}

/* --------------------------------------------------------------------- digests */

static void digest_of(const char *json, uint8_t digest[IDEM_SHA256_BYTES]) {
  idem_alloc alloc = idem__alloc_or_default(NULL);
  yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)json, strlen(json),
                                     YYJSON_READ_BIGNUM_AS_RAW, NULL, NULL);
  assert_non_null(doc);
  assert_int_equal(idem__digest_value(&alloc, yyjson_doc_get_root(doc), digest), IDEM_OK);
  yyjson_doc_free(doc);
}

static bool say_the_same(const char *one, const char *other) {
  uint8_t a[IDEM_SHA256_BYTES], b[IDEM_SHA256_BYTES];
  digest_of(one, a);
  digest_of(other, b);
  return memcmp(a, b, sizeof a) == 0;
}

static void a_digest_tells_what_is_said_not_how(void **state) {
  (void)state;
  assert_true(
      say_the_same("{\"a\":1,\"b\":[true,null]}", " { \"b\" : [true , null], \"a\": 1.0 }"));
  assert_true(say_the_same("{\"a\":\"\\u0041\"}", "{\"a\":\"A\"}"));
  assert_true(say_the_same("[10,0]", "[1e1,0.0]"));
  assert_false(say_the_same("{\"a\":1}", "{\"a\":\"1\"}"));
  assert_false(say_the_same("[1,2]", "[2,1]"));
  assert_false(say_the_same("{\"a\":{}}", "{\"a\":[]}"));
  assert_false(say_the_same("[1.5]", "[1.25]"));
  assert_false(say_the_same("[123456789012345678901]", "[123456789012345678902]"));
}

/* ---------------------------------------------------------------- memory fails */

static void fill(idem_server *server) {
  static tool_state self;
  idem_tool tool = {.name = "count", .fn = run_count, .user = &self};
  (void)idem_server_add_tool(server, &tool, NULL, 0);
}

static void empty(idem_server *server) { (void)idem_server_remove_tool(server, "count"); }

static void nothing_is_left_where_memory_fails(void **state) {
  (void)state;
  mcp_test_sweep(&(mcp_test_life){.fill = fill,
                                  .questions = {{"tools/call", KEYED("count")},
                                                {"tools/call", KEYED("count")},
                                                {"tools/call", UNKEYED("count")}},
                                  .empty = empty});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_tool_may_want_a_key_or_none),
      cmocka_unit_test(a_refusal_before_anything_was_done_is_not_stored),
      cmocka_unit_test(a_lost_connection_does_not_stop_what_has_a_key),
      cmocka_unit_test(a_server_that_ends_tells_the_handlers_of_calls_with_keys),
      cmocka_unit_test(what_all_have_cancelled_is_unknown),
      cmocka_unit_test(what_all_have_cancelled_runs_again_where_it_may),
      cmocka_unit_test(what_was_cancelled_before_it_began_leaves_nothing),
      cmocka_unit_test(who_joins_what_is_being_broken_off_is_told_so),
      cmocka_unit_test(who_joins_what_is_being_broken_off_runs_it_where_it_may),
      cmocka_unit_test(what_a_cancelled_handler_answers_all_the_same_is_stored),
      cmocka_unit_test(what_a_server_that_ends_breaks_off_is_unknown),
      cmocka_unit_test(what_a_server_that_ends_had_not_begun_runs_elsewhere),
      cmocka_unit_test(a_key_holds_for_all_who_share_the_store),
      cmocka_unit_test(who_comes_elsewhere_while_it_runs_gets_its_answer),
      cmocka_unit_test(who_cancels_takes_nothing_from_who_waits_elsewhere),
      cmocka_unit_test(what_is_cancelled_at_all_nodes_ends),
      cmocka_unit_test(who_comes_back_to_wait_elsewhere_is_heard_of),
      cmocka_unit_test(what_is_given_up_by_its_key_ends_at_whichever_node_it_runs),
      cmocka_unit_test(what_takes_longer_than_keys_are_kept_runs_once_all_the_same),
      cmocka_unit_test(a_dead_node_leaves_an_unknown_outcome_and_can_store_nothing),
      cmocka_unit_test(who_joined_what_was_taken_away_hears_what_the_store_has),
      cmocka_unit_test(what_is_idempotent_runs_again_where_its_node_died),
      cmocka_unit_test(what_the_store_did_not_take_is_told_when_it_has),
      cmocka_unit_test(a_store_that_does_not_answer_refuses_calls_with_keys_alone),
      cmocka_unit_test(a_key_that_may_be_ours_is_given_back),
      cmocka_unit_test(a_store_that_does_not_answer_is_told_of_until_it_does),
      cmocka_unit_test(a_digest_tells_what_is_said_not_how),
      cmocka_unit_test(nothing_is_left_where_memory_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
