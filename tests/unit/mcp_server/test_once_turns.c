/* test_once_turns.c - calls whose keys the store gives when the turn of their loop is over: they begin in the next one, and whatever
 * ends before that ends a call that has not begun. */
#include "keyed_tool.h"
#include "support/later_store.h"

#include "mcp_server/once.h"

#define KEY(key) "\"name\":\"t\",\"_meta\":{\"idem/key\":\"" key "\"}"

/* A server whose store answers later and whose turns are over after one look at the clock. */
typedef struct node {
  idem__store *inner, *store;
  idem_server *server;
  idem__mcp_worker *worker;
  idem_pool *pool;
  mcp_peer busy, peer;
  tool_state tool;
  unsigned woken;
} node;

static uint64_t hasty_clock(void *ctx) {
  static uint64_t now_ns;
  (void)ctx;
  return now_ns += 1000000;
}

static void nobody(void *user) { (void)user; }

static void count_wake(idem__mcp_worker *worker, void *user) {
  (void)worker;
  ++*(unsigned *)user;
}

static void pump(node *self) {
  while (later_store_pump(self->store)) idem__store_queue_run(self->worker->store_queue);
}

static void take_turns(node *self) {
  assert_int_equal(idem_pool_new(NULL, &self->pool), IDEM_OK);
  idem__pool_set_turns(self->pool, 1000000, hasty_clock, nobody, NULL);
  self->worker->pool = self->pool;
  self->worker->wake = count_wake;
  self->worker->wake_user = &self->woken;
}

static void open_node(node *self, idem__store *inner, idem_tool_fn fn) {
  *self = (node){.inner = inner, .server = mcp_test_server(NULL)};
  self->store = later_store_new(idem__store_ref(inner), &(later_store_opts){.seed = 1});
  assert_non_null(self->store);
  assert_int_equal(idem__server_use_store(self->server, self->store), IDEM_OK);
  idem_tool tool = {.name = "t",
                    .fn = fn,
                    .user = &self->tool,
                    .once = IDEM_ONCE_KEY,
                    .input_schema = "{\"type\":\"object\"}"};
  assert_int_equal(idem_server_add_tool(self->server, &tool, NULL, 0), IDEM_OK);
  mcp_peer_open(&self->busy, self->server, "2025-11-25");
  mcp_peer_open(&self->peer, self->server, "2025-11-25");
  self->worker = self->server->own_worker;
  pump(self);
  take_turns(self);
}

static void open_alone(node *self, idem_tool_fn fn) {
  idem__store *inner;
  assert_int_equal(idem__store_memory_new(&(idem__store_memory_opts){0}, &inner), IDEM_OK);
  open_node(self, inner, fn);
}

/* What is put off goes on, and what it asks of the store happens. */
static void next_turn(node *self) {
  idem__pool_new_turn(self->pool);
  idem__worker_deliver(self->worker);
  pump(self);
}

static void let_all_run(node *self) {
  for (int turn = 0; turn < 8; turn++) next_turn(self);
}

/* Its peers are closed. */
static void end_server(node *self) {
  self->worker->wake = NULL;
  idem_server_free(self->server);
  while (later_store_pump(self->store)) {
  }
  idem__store_unref(self->store);
  idem_pool_free(self->pool);
}

static void close_node(node *self) {
  mcp_peer_close(&self->peer);
  mcp_peer_close(&self->busy);
  end_server(self);
  idem__store_unref(self->inner);
}

/* A call of another's has the turn, and the peer's is put off. */
static void put_off(node *self) {
  assert_string_equal(mcp_peer_ask(&self->peer, "tools/call", KEY("late")), "");
  idem__pool_new_turn(self->pool);
  assert_false(idem__worker_turn_over(self->worker)); /* it has begun */
  pump(self);
  assert_int_equal(self->tool.runs, 0);
}

/* Nothing was done, and nothing is known of the key. */
static void expect_unrun(node *self) {
  let_all_run(self);
  assert_int_equal(self->tool.runs, 0);
  mcp_peer_ask(&self->busy, "tools/call", KEY("late"));
  pump(self);
  let_all_run(self);
  expect_in(mcp_peer_more(&self->busy), "\"ran\"");
  assert_int_equal(self->tool.runs, 1);
}

static void keys_that_are_given_at_once_begin_in_turns(void **state) {
  static const char *const keys[] = {KEY("1"), KEY("2"), KEY("3"), KEY("4"), KEY("5")};
  node self;
  (void)state;
  open_alone(&self, run_count);
  for (size_t i = 0; i < 5; i++)
    assert_string_equal(mcp_peer_ask(&self.peer, "tools/call", keys[i]), "");
  idem__pool_new_turn(self.pool);
  pump(&self);
  for (unsigned before = 0; before < 5;) {
    assert_in_range(self.tool.runs, before + 1, before + 2);
    before = self.tool.runs;
    assert_true(before == 5 || self.woken > 0);
    self.woken = 0;
    next_turn(&self);
  }
  const char *answers = mcp_peer_more(&self.peer);
  for (size_t i = 0; i < 5; i++) {
    answers = strstr(answers, "\"ran\"");
    assert_non_null(answers++);
  }
  close_node(&self);
}

static void one_that_is_cancelled_before_its_turn_does_not_run(void **state) {
  node self;
  (void)state;
  open_alone(&self, run_count);
  put_off(&self);
  cancel_last(&self.peer);
  expect_unrun(&self);
  assert_string_equal(mcp_peer_more(&self.peer), "");
  close_node(&self);
}

static void one_whose_client_goes_before_its_turn_does_not_run(void **state) {
  node self;
  (void)state;
  open_alone(&self, run_count);
  put_off(&self);
  mcp_peer_close(&self.peer);
  expect_unrun(&self);
  mcp_peer_open(&self.peer, self.server, "2025-11-25");
  close_node(&self);
}

static void one_whose_client_goes_is_run_for_who_joined_it(void **state) {
  node self;
  (void)state;
  open_alone(&self, run_count);
  put_off(&self);
  assert_string_equal(mcp_peer_ask(&self.busy, "tools/call", KEY("late")), "");
  mcp_peer_close(&self.peer);
  let_all_run(&self);
  expect_in(mcp_peer_more(&self.busy), "\"ran\"");
  assert_int_equal(self.tool.runs, 1);
  mcp_peer_open(&self.peer, self.server, "2025-11-25");
  close_node(&self);
}

static void who_comes_with_other_arguments_is_refused_in_its_turn(void **state) {
  node self;
  (void)state;
  open_alone(&self, run_count);
  put_off(&self);
  assert_string_equal(
      mcp_peer_ask(&self.busy, "tools/call", KEY("late") ",\"arguments\":{\"other\":1}"), "");
  let_all_run(&self);
  expect_in(mcp_peer_more(&self.busy), "\"reason\":\"key-reused\"");
  expect_in(mcp_peer_more(&self.peer), "\"ran\"");
  assert_int_equal(self.tool.runs, 1);
  close_node(&self);
}

/* Who asked is told that it may ask again. */
static void expect_ended_by(void (*end)(idem_conn *conn)) {
  node self;
  open_alone(&self, run_count);
  put_off(&self);
  end(self.peer.conn);
  expect_in(mcp_peer_more(&self.peer), "\"reason\":\"unavailable\"");
  expect_unrun(&self);
  close_node(&self);
}

static void one_that_is_aborted_before_its_turn_does_not_run(void **state) {
  (void)state;
  expect_ended_by(idem_conn_abort);
}

static void one_whose_session_ends_before_its_turn_does_not_run(void **state) {
  (void)state;
  expect_ended_by(idem__conn_orphan);
}

/* The server drains: what it has taken in has its turn. */
static void one_whose_client_asks_no_more_has_its_turn(void **state) {
  node self;
  (void)state;
  open_alone(&self, run_count);
  put_off(&self);
  idem_conn_close(self.peer.conn);
  let_all_run(&self);
  expect_in(mcp_peer_more(&self.peer), "\"ran\"");
  assert_int_equal(self.tool.runs, 1);
  close_node(&self);
}

static void a_tool_that_is_taken_away_before_its_turn_is_still_called(void **state) {
  node self;
  (void)state;
  open_alone(&self, run_count);
  put_off(&self);
  assert_int_equal(idem_server_remove_tool(self.server, "t"), IDEM_OK);
  idem__worker_deliver(self.worker);
  let_all_run(&self);
  expect_in(mcp_peer_more(&self.peer), "\"ran\"");
  assert_int_equal(self.tool.runs, 1);
  close_node(&self);
}

/* Another server finds no key of one that is gone: it would not know whether it ran. */
static void a_server_that_ends_gives_back_what_waits_for_a_turn(void **state) {
  node first, second;
  (void)state;
  open_alone(&first, run_count);
  open_node(&second, idem__store_ref(first.inner), run_count);
  put_off(&first);
  mcp_peer_close(&first.peer);
  mcp_peer_close(&first.busy);
  end_server(&first);
  assert_string_equal(mcp_peer_ask(&second.peer, "tools/call", KEY("late")), "");
  pump(&second);
  let_all_run(&second);
  expect_in(mcp_peer_more(&second.peer), "\"ran\"");
  assert_int_equal(first.tool.runs, 0);
  assert_int_equal(second.tool.runs, 1);
  close_node(&second);
  idem__store_unref(first.inner);
}

/* ---------------------------------------------------------- who lacks something */

#define CROWD 40

static void run_asking(idem_request *request, yyjson_val *arguments, void *user) {
  idem_ask ask = {.key = "r", .kind = IDEM_ASK_ROOTS};
  (void)arguments;
  ((tool_state *)user)->runs++;
  idem_needs_input(request, &ask, 1, NULL, 0);
}

static const idem__once *only_once(const node *self) {
  size_t at = 0;
  return idem_map_next(&self->server->onces->by_name, &at);
}

/* None of them can be asked. The key goes from one to the next, and the others wait on where they are: were all to begin anew each
 * time, the key would be another one in the table. */
static void many_who_lack_something_join_once_each(void **state) {
  node self;
  mcp_peer crowd[CROWD];
  (void)state;
  open_alone(&self, run_asking);
  for (size_t i = 0; i < CROWD; i++) {
    mcp_peer_open(&crowd[i], self.server, "2025-11-25");
    assert_string_equal(mcp_peer_ask(&crowd[i], "tools/call", KEY("k")), "");
  }
  const idem__once *key = only_once(&self);
  assert_non_null(key);
  for (unsigned steps = 0; self.tool.runs < CROWD && steps < 100 * CROWD; steps++) {
    assert_ptr_equal(only_once(&self), key);
    idem__pool_new_turn(self.pool);
    idem__worker_deliver(self.worker);
    if (later_store_pump(self.store)) idem__store_queue_run(self.worker->store_queue);
  }
  let_all_run(&self);
  assert_int_equal(self.tool.runs, CROWD);
  assert_null(only_once(&self));
  for (size_t i = 0; i < CROWD; i++) {
    expect_in(mcp_peer_more(&crowd[i]), "a client that can be asked");
    mcp_peer_close(&crowd[i]);
  }
  close_node(&self);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keys_that_are_given_at_once_begin_in_turns),
      cmocka_unit_test(one_that_is_cancelled_before_its_turn_does_not_run),
      cmocka_unit_test(one_whose_client_goes_before_its_turn_does_not_run),
      cmocka_unit_test(one_whose_client_goes_is_run_for_who_joined_it),
      cmocka_unit_test(who_comes_with_other_arguments_is_refused_in_its_turn),
      cmocka_unit_test(one_that_is_aborted_before_its_turn_does_not_run),
      cmocka_unit_test(one_whose_session_ends_before_its_turn_does_not_run),
      cmocka_unit_test(one_whose_client_asks_no_more_has_its_turn),
      cmocka_unit_test(a_tool_that_is_taken_away_before_its_turn_is_still_called),
      cmocka_unit_test(a_server_that_ends_gives_back_what_waits_for_a_turn),
      cmocka_unit_test(many_who_lack_something_join_once_each),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
