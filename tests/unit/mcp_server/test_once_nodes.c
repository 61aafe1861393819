/* test_once_nodes.c - calls with a key at servers that share a store: whoever asks where, it runs once; who waits
 * elsewhere is heard; what a dead server leaves behind. */
#include "keyed_tool.h"

#include "mcp_server/once.h"

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
    add_tool(self->server[i], "t", fn, &self->state[i], IDEM_ONCE_KEY, annotations);
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

/* It runs at the first, and somebody waits for it at the second, too. */
static void begin_at_both(pair *self, idem_tool_fn fn) {
  open_pair(self, fn, NULL);
  for (int i = 0; i < 2; i++)
    assert_string_equal(mcp_peer_ask(&self->peer[i], "tools/call", KEYED("t")), "");
  assert_int_equal(self->state[1].runs, 0);
}

static void who_comes_elsewhere_while_it_runs_gets_its_answer(void **state) {
  pair self;
  (void)state;
  begin_at_both(&self, run_keep);
  idem_tool_text(self.state[0].kept, "from there", 10);
  expect_in(mcp_peer_more(&self.peer[0]), "from there");
  expect_in(mcp_peer_more(&self.peer[1]), "from there");
  close_pair(&self, 0);
}

static void deliver(pair *self) {
  for (int i = 0; i < 2; i++) idem__once_deliver(self->server[i]->own_worker);
}

static void who_cancels_takes_nothing_from_who_waits_elsewhere(void **state) {
  pair self;
  (void)state;
  begin_at_both(&self, run_dropping);
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
    begin_at_both(&self, run_dropping);
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
  begin_at_both(&self, run_dropping);
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

static uint64_t wall;
static uint64_t read_wall(void *ctx) {
  (void)ctx;
  return wall;
}

/* A node that died while it waited is counted in the record for good. */
static void leave_dead_waiter(const pair *self) {
  size_t at = 0;
  const idem__once *once = idem_map_next(&self->server[0]->onces->by_name, &at);
  assert_non_null(once);
  idem__store_op op = idem__once_op(once, IDEM__STORE_COUNT);
  op.after = 1;
  assert_int_equal(idem__store_ask(self->store, &op, NULL).status, IDEM_OK);
}

static void pass(pair *self, uint64_t ms) {
  wall += ms;
  for (int i = 0; i < 2; i++) idem__once_tick(self->server[i]->own_worker);
}

static void open_with_clock(pair *self) {
  wall = 1000;
  open_pair_with(self, &(idem_server_opts){.lease_ms = 4000, .wall_ms = read_wall}, run_dropping,
                 NULL);
  assert_string_equal(mcp_peer_ask(&self->peer[0], "tools/call", KEYED("t")), "");
  leave_dead_waiter(self);
}

static void who_died_while_it_waited_does_not_keep_a_call_running(void **state) {
  pair self;
  (void)state;
  open_with_clock(&self);
  cancel_last(&self.peer[0]);
  deliver(&self);
  pass(&self, 4999);
  assert_false(self.state[0].cancelled);
  pass(&self, 1);
  assert_true(self.state[0].cancelled);
  close_pair(&self, 0);
}

/* ... and takes nothing from who waits beside it. */
static void who_waits_beside_a_dead_one_is_heard_of(void **state) {
  pair self;
  (void)state;
  open_with_clock(&self);
  assert_string_equal(mcp_peer_ask(&self.peer[1], "tools/call", KEYED("t")), "");
  cancel_last(&self.peer[0]);
  deliver(&self);
  for (int i = 0; i < 20; i++) pass(&self, 1000);
  assert_false(self.state[0].cancelled);
  cancel_last(&self.peer[1]); /* the last who lives */
  deliver(&self);
  for (int i = 0; i < 10; i++) pass(&self, 1000);
  assert_true(self.state[0].cancelled);
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
  begin_at_both(&self, run_keep);
  kill_node(&self, 0); /* who waits there hears of it at once */
  expect_in(mcp_peer_more(&self.peer[1]), "outcome-unknown");
  idem_tool_text(self.state[0].kept, "too late", 8); /* it was alive after all */
  const char *told = mcp_peer_more(&self.peer[0]);   /* others were told otherwise */
  expect_in(told, "\"reason\":\"unavailable\"");
  expect_in(told, "was taken for dead");
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

/* The record of the key, as it is now. */
typedef struct snapshot {
  uint8_t name[IDEM_SHA256_BYTES];
  char bytes[512];
  size_t len;
} snapshot;

static void on_read(const idem__store_answer *answer, void *user) {
  snapshot *it = user;
  assert_int_equal(answer->status, IDEM_OK);
  assert_true(answer->len && answer->len <= sizeof it->bytes);
  memcpy(it->bytes, answer->bytes, it->len = answer->len);
}

static idem__store_op op_on(const snapshot *it, idem__store_verb verb) {
  return (idem__store_op){.verb = verb,
                          .space = IDEM__STORE_ONCE,
                          .name = (const char *)it->name,
                          .name_len = sizeof it->name};
}

static void take_snapshot(const pair *self, snapshot *it) {
  idem__once_name_of("", "tools/call", "t", 1, &(idem__once_key){"k", 1}, it->name);
  idem__store_op op = op_on(it, IDEM__STORE_GET);
  op.done = on_read;
  op.user = it;
  assert_int_equal(idem__store_ask(self->store, &op, NULL).status, IDEM_OK);
}

/* The store has it as it was then: a replica that had no more took over. */
static void roll_back(const pair *self, const snapshot *it) {
  idem__store_op op = op_on(it, IDEM__STORE_PUT);
  op.bytes = it->bytes;
  op.len = it->len;
  op.expect = IDEM__STORE_ANY;
  assert_int_equal(idem__store_ask(self->store, &op, NULL).status, IDEM_OK);
}

/* It ran at the first, which answered and lives; the store has only that it began. */
static void lose_answer(pair *self, const char *annotations) {
  snapshot begun;
  open_pair(self, run_keep, annotations);
  assert_string_equal(mcp_peer_ask(&self->peer[0], "tools/call", KEYED("t")), "");
  take_snapshot(self, &begun);
  idem_tool_text(self->state[0].kept, "first", 5);
  expect_in(mcp_peer_more(&self->peer[0]), "first");
  roll_back(self, &begun);
}

static void tick(const pair *self) {
  for (int i = 0; i < 2; i++) idem__once_tick(self->server[i]->own_worker);
}

static void what_ran_and_was_lost_is_unknown_where_it_ran(void **state) {
  pair self;
  (void)state;
  lose_answer(&self, NULL);
  mcp_peer_expect_part(&self.peer[0], "tools/call", KEYED("t"), "outcome-unknown");
  mcp_peer_expect_part(&self.peer[1], "tools/call", KEYED("t"), "outcome-unknown");
  assert_int_equal(self.state[0].runs, 1);
  close_pair(&self, 0);
}

/* Its node lives, and would be waited for as long as it does. */
static void who_waits_for_what_was_lost_is_told_elsewhere(void **state) {
  pair self;
  (void)state;
  lose_answer(&self, NULL);
  assert_string_equal(mcp_peer_ask(&self.peer[1], "tools/call", KEYED("t")), "");
  tick(&self);
  expect_in(mcp_peer_more(&self.peer[1]), "outcome-unknown");
  mcp_peer_expect_part(&self.peer[0], "tools/call", KEYED("t"), "outcome-unknown");
  assert_int_equal(self.state[0].runs + self.state[1].runs, 1);
  close_pair(&self, 0);
}

static void count_told(const idem__store_change *change, void *user) {
  if (change->event == IDEM__STORE_WAS_TOLD) ++*(unsigned *)user;
}

/* What is told all nodes hear: a key that is waited for is asked about less and less often, until there is a reason. */
static void who_waits_long_asks_its_owner_seldom(void **state) {
  pair self;
  unsigned told = 0;
  idem__store_watcher *watcher;
  (void)state;
  begin_at_both(&self, run_keep);
  assert_int_equal(idem__store_watch(self.store, IDEM__STORE_ONCE, count_told, &told, &watcher),
                   IDEM_OK);
  for (int i = 0; i < 64; i++) tick(&self);
  assert_in_range(told, 1, 7); /* it was 64 */
  unsigned before = told;
  tick(&self);
  assert_int_equal(told, before);
  idem__once_doubt_owners(self.server[1]); /* the store was away */
  tick(&self);
  assert_int_equal(told, before + 1);
  idem__store_unwatch(self.store, watcher);
  idem_tool_text(self.state[0].kept, "late", 4);
  expect_in(mcp_peer_more(&self.peer[0]), "late");
  expect_in(mcp_peer_more(&self.peer[1]), "late");
  close_pair(&self, 0);
}

static void what_is_idempotent_runs_again_where_it_was_lost(void **state) {
  pair self;
  (void)state;
  lose_answer(&self, "{\"idempotentHint\":true}");
  assert_string_equal(mcp_peer_ask(&self.peer[1], "tools/call", KEYED("t")), "");
  tick(&self);
  assert_int_equal(self.state[1].runs, 1);
  idem_tool_text(self.state[1].kept, "again", 5);
  expect_in(mcp_peer_more(&self.peer[1]), "again");
  mcp_peer_expect_part(&self.peer[0], "tools/call", KEYED("t"), "again");
  close_pair(&self, 0);
}

/* Its node is asked, and has it. */
static void who_waits_for_what_runs_goes_on_waiting(void **state) {
  pair self;
  (void)state;
  begin_at_both(&self, run_keep);
  for (int i = 0; i < 3; i++) tick(&self);
  assert_string_equal(mcp_peer_more(&self.peer[1]), "");
  idem_tool_text(self.state[0].kept, "from there", 10);
  expect_in(mcp_peer_more(&self.peer[1]), "from there");
  close_pair(&self, 0);
}

/* Nobody has the key in hand; what is told about an older version of it, or in other words, concerns nobody. */
static void news_of_another_version_end_nothing(void **state) {
  pair self;
  snapshot begun;
  char news[IDEM_SHA256_BYTES + 1 + 8 + IDEM__NODE_ID] = {0};
  (void)state;
  begin_at_both(&self, run_keep);
  take_snapshot(&self, &begun);
  memcpy(news, begun.name, sizeof begun.name);
  for (const char *kind = "nqx"; *kind; kind++) {
    news[IDEM_SHA256_BYTES] = *kind;
    idem__once_on_news(self.server[1], news, sizeof news);
    idem__once_on_news(self.server[1], news, sizeof news - 1);
  }
  deliver(&self);
  assert_string_equal(mcp_peer_more(&self.peer[1]), "");
  idem_tool_text(self.state[0].kept, "from there", 10);
  expect_in(mcp_peer_more(&self.peer[1]), "from there");
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

/* What its operator reads is no fault of the store. */
static void who_waits_at_a_server_that_ends_hears_that_it_goes(void **state) {
  pair self;
  (void)state;
  begin_at_both(&self, run_keep);
  idem__once_forget_worker(self.server[1]->own_worker);
  const char *told = mcp_peer_more(&self.peer[1]);
  expect_in(told, "\"reason\":\"unavailable\"");
  expect_in(told, "the server is going");
  idem_tool_text(self.state[0].kept, "from there", 10);
  close_pair(&self, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_a_server_that_ends_breaks_off_is_unknown),
      cmocka_unit_test(what_a_server_that_ends_had_not_begun_runs_elsewhere),
      cmocka_unit_test(who_waits_at_a_server_that_ends_hears_that_it_goes),
      cmocka_unit_test(a_key_holds_for_all_who_share_the_store),
      cmocka_unit_test(who_comes_elsewhere_while_it_runs_gets_its_answer),
      cmocka_unit_test(who_cancels_takes_nothing_from_who_waits_elsewhere),
      cmocka_unit_test(what_is_cancelled_at_all_nodes_ends),
      cmocka_unit_test(who_comes_back_to_wait_elsewhere_is_heard_of),
      cmocka_unit_test(who_died_while_it_waited_does_not_keep_a_call_running),
      cmocka_unit_test(who_waits_beside_a_dead_one_is_heard_of),
      cmocka_unit_test(what_is_given_up_by_its_key_ends_at_whichever_node_it_runs),
      cmocka_unit_test(what_takes_longer_than_keys_are_kept_runs_once_all_the_same),
      cmocka_unit_test(a_dead_node_leaves_an_unknown_outcome_and_can_store_nothing),
      cmocka_unit_test(who_joined_what_was_taken_away_hears_what_the_store_has),
      cmocka_unit_test(what_is_idempotent_runs_again_where_its_node_died),
      cmocka_unit_test(what_ran_and_was_lost_is_unknown_where_it_ran),
      cmocka_unit_test(who_waits_for_what_was_lost_is_told_elsewhere),
      cmocka_unit_test(who_waits_long_asks_its_owner_seldom),
      cmocka_unit_test(what_is_idempotent_runs_again_where_it_was_lost),
      cmocka_unit_test(who_waits_for_what_runs_goes_on_waiting),
      cmocka_unit_test(news_of_another_version_end_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
