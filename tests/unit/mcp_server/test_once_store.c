/* test_once_store.c - calls with a key while the store is in trouble: it does not take what is told, does not answer, or
 * its answers are lost. */
#include "keyed_tool.h"
#include "support/later_store.h"

#include "mcp_server/once.h"

/* A server with a store of its own or a share in one, and its caller. */
typedef struct node {
  idem__store *store;
  idem_server *server;
  mcp_peer peer;
  tool_state tool;
} node;

static idem__store *in_memory(void) {
  idem__store *store;
  assert_int_equal(idem__store_memory_new(&(idem__store_memory_opts){0}, &store), IDEM_OK);
  return store;
}

/* What is asked of it happens when the node is pumped. */
static idem__store *later(idem__store *inner) {
  idem__store *store = later_store_new(inner, &(later_store_opts){.seed = 1});
  assert_non_null(store);
  return store;
}

/* Takes the store over. */
static void open_node_with(node *self, idem__store *store, idem_tool_fn fn,
                           const idem_server_opts *opts) {
  *self = (node){.store = store, .server = mcp_test_server(opts)};
  assert_int_equal(idem__server_use_store(self->server, store), IDEM_OK);
  add_tool(self->server, "t", fn, &self->tool, IDEM_ONCE_KEY, NULL);
  mcp_peer_open(&self->peer, self->server, "2025-11-25");
}

static void open_node(node *self, idem__store *store, idem_tool_fn fn) {
  open_node_with(self, store, fn, NULL);
}

static void close_node(node *self) {
  mcp_peer_close_with(&self->peer, self->server);
  idem__store_unref(self->store);
}

static void pump(node *self) {
  while (later_store_pump(self->store))
    idem__store_queue_run(self->server->own_worker->store_queue);
}

static void play_not_taken(idem_status says) {
  node self;
  open_node(&self, later(in_memory()), run_keep);
  assert_string_equal(mcp_peer_ask(&self.peer, "tools/call", KEYED("t")), "");
  pump(&self);
  assert_int_equal(self.tool.runs, 1);
  later_store_fail(self.store, says);
  idem_tool_text(self.tool.kept, "it ran", 6);
  pump(&self);
  expect_in(mcp_peer_more(&self.peer),
            "\"reason\":\"unavailable\""); /* it would go with this process */
  mcp_peer_expect_part(&self.peer, "tools/call", KEYED("t"), "\"reason\":\"unavailable\"");
  later_store_fail(self.store, IDEM_OK);
  assert_true(idem__once_waits(self.server->own_worker));
  idem__once_tick(self.server->own_worker);
  pump(&self);
  assert_false(idem__once_waits(self.server->own_worker));
  assert_string_equal(mcp_peer_ask(&self.peer, "tools/call", KEYED("t")), "");
  pump(&self);
  expect_in(mcp_peer_more(&self.peer), "it ran");
  assert_int_equal(self.tool.runs, 1);
  close_node(&self);
}

static void what_the_store_did_not_take_is_told_when_it_has(void **state) {
  (void)state;
  play_not_taken(IDEM_E_SYS);
}

/* Lines of the log that say that answers wait, or are lost. */
typedef struct log_lines {
  unsigned waiting, lost;
} log_lines;

static void on_line(void *ctx, const char *line, size_t len) {
  log_lines *self = ctx;
  (void)len;
  if (strstr(line, "wait for the store")) self->waiting++;
  if (strstr(line, "is not kept")) self->lost++;
}

static void an_outage_is_told_once_however_long_it_is(void **state) {
  log_lines lines = {0};
  idem_log *log;
  node self;
  (void)state;
  assert_int_equal(idem_log_new(&(idem_log_opts){.write = on_line, .write_ctx = &lines}, &log),
                   IDEM_OK);
  open_node_with(&self, later(in_memory()), run_keep, &(idem_server_opts){.log = log});
  for (unsigned outage = 1; outage <= 2; outage++) {
    char members[80];
    snprintf(members, sizeof members, "\"name\":\"t\",\"_meta\":{\"idem/key\":\"%u\"}", outage);
    assert_string_equal(mcp_peer_ask(&self.peer, "tools/call", members), "");
    pump(&self);
    later_store_fail(self.store, IDEM_E_SYS);
    idem_tool_text(self.tool.kept, "it ran", 6);
    for (int i = 0; i < 5; i++) {
      idem__once_tick(self.server->own_worker);
      pump(&self);
    }
    expect_in(mcp_peer_more(&self.peer), "\"reason\":\"unavailable\"");
    assert_int_equal(lines.waiting, outage);
    later_store_fail(self.store, IDEM_OK);
    idem__once_tick(self.server->own_worker);
    pump(&self);
    assert_false(idem__once_waits(self.server->own_worker));
  }
  assert_int_equal(lines.lost, 0);
  close_node(&self);
  idem_log_free(log);
}

/* That it has none says nothing of the answer's size. */
static void what_a_store_without_room_did_not_take_is_told_when_it_has(void **state) {
  (void)state;
  play_not_taken(IDEM_E_LIMIT);
}

/* The next key is refused before anything runs. */
static void a_call_that_got_its_key_has_its_answer_kept_in_a_full_store(void **state) {
  static char text[20000];
  node self;
  idem__store *store;
  (void)state;
  memset(text, 'x', sizeof text);
  assert_int_equal(
      idem__store_memory_new(&(idem__store_memory_opts){.max_bytes = sizeof text / 2}, &store),
      IDEM_OK);
  open_node(&self, later(store), run_keep);
  assert_string_equal(mcp_peer_ask(&self.peer, "tools/call", KEYED("t")), "");
  pump(&self);
  idem_tool_text(self.tool.kept, text, sizeof text);
  pump(&self);
  expect_in(mcp_peer_more(&self.peer), "xxxx");
  assert_string_equal(mcp_peer_ask(&self.peer, "tools/call", KEYED("t")), "");
  pump(&self);
  expect_in(mcp_peer_more(&self.peer), "xxxx");
  mcp_peer_ask(&self.peer, "tools/call", "\"name\":\"t\",\"_meta\":{\"idem/key\":\"other\"}");
  pump(&self);
  expect_in(mcp_peer_more(&self.peer), "\"reason\":\"too-many-keys\"");
  assert_int_equal(self.tool.runs, 1);
  close_node(&self);
}

static void a_store_that_does_not_answer_refuses_calls_with_keys_alone(void **state) {
  node self;
  (void)state;
  open_node(&self, later(in_memory()), run_count);
  pump(&self);
  later_store_fail(self.store, IDEM_E_TIMEOUT);
  mcp_peer_ask(&self.peer, "tools/call", KEYED("t"));
  pump(&self);
  const char *told = mcp_peer_more(&self.peer);
  expect_in(told, "\"reason\":\"unavailable\"");
  expect_in(told, "the store does not answer");
  mcp_peer_expect_part(&self.peer, "tools/call", UNKEYED("t"), "\"ran\"");
  assert_int_equal(self.tool.runs, 1);
  close_node(&self);
}

static void what_has_no_memory_does_not_blame_the_store(void **state) {
  node self;
  (void)state;
  open_node(&self, later(in_memory()), run_count);
  pump(&self);
  later_store_fail(self.store, IDEM_E_NOMEM);
  mcp_peer_ask(&self.peer, "tools/call", KEYED("t"));
  pump(&self);
  const char *told = mcp_peer_more(&self.peer);
  expect_in(told, "\"reason\":\"unavailable\"");
  expect_in(told, "there is no memory for it");
  assert_int_equal(self.tool.runs, 0);
  close_node(&self);
}

/* It happened and nobody heard: the record names a server that lives and does not run it. */
static void a_key_that_may_be_ours_is_given_back(void **state) {
  node first, second;
  idem__store *inner = in_memory();
  (void)state;
  open_node(&first, later(idem__store_ref(inner)), run_count);
  open_node(&second, inner, run_count);
  pump(&first);
  later_store_lose(first.store, IDEM_E_SYS);
  assert_string_equal(mcp_peer_ask(&first.peer, "tools/call", KEYED("t")), "");
  pump(&first);
  expect_in(mcp_peer_more(&first.peer), "\"reason\":\"unavailable\"");
  mcp_peer_expect_part(&first.peer, "tools/call", KEYED("t"), "\"reason\":\"unavailable\"");
  assert_string_equal(mcp_peer_ask(&second.peer, "tools/call", KEYED("t")), ""); /* it waits */
  idem__once_tick(first.server->own_worker);
  pump(&first); /* nobody hears of it once more */
  assert_true(idem__once_waits(first.server->own_worker));
  later_store_lose(first.store, IDEM_OK);
  idem__once_tick(first.server->own_worker);
  pump(&first);
  assert_false(idem__once_waits(first.server->own_worker));
  idem__once_tick(second.server->own_worker);
  expect_in(mcp_peer_more(&second.peer), "\"ran\"");
  assert_int_equal(first.tool.runs, 0);
  assert_int_equal(second.tool.runs, 1);
  close_node(&first);
  close_node(&second);
}

/* Who asked has gone before the key was ours, and the store does not take it back: nothing ran, so it may, later. */
static void a_key_that_could_not_be_given_back_runs_later(void **state) {
  node self;
  (void)state;
  open_node(&self, later(in_memory()), run_count);
  pump(&self);
  assert_string_equal(mcp_peer_ask(&self.peer, "tools/call", KEYED("t")), "");
  cancel_last(&self.peer);
  later_store_fail(self.store, IDEM_E_SYS);
  pump(&self);
  assert_true(idem__once_waits(self.server->own_worker));
  later_store_fail(self.store, IDEM_OK);
  idem__once_tick(self.server->own_worker);
  pump(&self);
  assert_string_equal(mcp_peer_ask(&self.peer, "tools/call", KEYED("t")), "");
  pump(&self);
  expect_in(mcp_peer_more(&self.peer), "\"ran\"");
  assert_int_equal(self.tool.runs, 1);
  close_node(&self);
}

/* Nothing is looked for again later: the store was not even asked. */
static void a_key_that_the_store_was_never_asked_for_is_in_no_doubt(void **state) {
  node self;
  (void)state;
  open_node(&self, later(in_memory()), run_count);
  pump(&self);
  later_store_away(self.store, IDEM_E_SYS);
  assert_string_equal(mcp_peer_ask(&self.peer, "tools/call", KEYED("t")), "");
  pump(&self);
  expect_in(mcp_peer_more(&self.peer), "\"reason\":\"unavailable\"");
  assert_false(idem__once_waits(self.server->own_worker));
  later_store_away(self.store, IDEM_OK);
  assert_string_equal(mcp_peer_ask(&self.peer, "tools/call", KEYED("t")), "");
  pump(&self);
  expect_in(mcp_peer_more(&self.peer), "\"ran\"");
  close_node(&self);
}

#define TASK "\"name\":\"slow\",\"task\":{},\"_meta\":{\"idem/key\":\"k\"}"

/* False: there were not so many steps to go. */
static bool leave_after(unsigned steps) {
  node self;
  mcp_peer caller;
  open_node(&self, later(in_memory()), run_keep);
  idem_tool slow = {.name = "slow",
                    .fn = run_keep,
                    .user = &self.tool,
                    .once = IDEM_ONCE_KEY,
                    .task = IDEM_TASK_OPTIONAL};
  assert_int_equal(idem_server_add_tool(self.server, &slow, NULL, 0), IDEM_OK);
  mcp_peer_open(&caller, self.server, "2025-11-25");
  pump(&self);
  assert_string_equal(mcp_peer_ask(&caller, "tools/call", TASK), "");
  bool so_many = true;
  for (unsigned i = 0; i < steps && so_many; i++) {
    so_many = later_store_pump(self.store);
    idem__store_queue_run(self.server->own_worker->store_queue);
  }
  mcp_peer_close(&caller);
  pump(&self);
  unsigned before = self.tool.runs;
  assert_true(before <= 1);
  mcp_peer_ask(&self.peer, "tools/call", TASK); /* it comes back */
  pump(&self);
  expect_in(mcp_peer_more(&self.peer), "\"taskId\":");
  assert_int_equal(self.tool.runs, 1);
  idem_tool_text(self.tool.kept, "done", 4);
  pump(&self);
  close_node(&self);
  return so_many;
}

static void who_leaves_while_its_task_begins_finds_it_again(void **state) {
  unsigned steps = 0;
  (void)state;
  while (leave_after(steps)) steps++;
  assert_true(steps >= 2); /* the key, the task */
}

static void a_store_that_does_not_answer_is_told_of_until_it_does(void **state) {
  node self;
  (void)state;
  open_node(&self, later(in_memory()), run_count);
  idem__mcp_worker *worker = self.server->own_worker;
  uint64_t now = 1, step = idem__node_interval_ms(self.server);
  const struct {
    idem_status says;
    bool gone;
  } turns[] = {{IDEM_OK, false}, {IDEM_E_SYS, true}, {IDEM_E_TIMEOUT, true}, {IDEM_OK, false}};
  for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
    later_store_fail(self.store, turns[i].says);
    assert_true(idem__worker_deadline(worker) <= now);
    idem__worker_expire(worker, now);
    pump(&self);
    assert_int_equal(idem__server_store_gone(self.server), turns[i].gone);
    now += step;
  }
  close_node(&self);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_the_store_did_not_take_is_told_when_it_has),
      cmocka_unit_test(an_outage_is_told_once_however_long_it_is),
      cmocka_unit_test(what_a_store_without_room_did_not_take_is_told_when_it_has),
      cmocka_unit_test(a_call_that_got_its_key_has_its_answer_kept_in_a_full_store),
      cmocka_unit_test(a_store_that_does_not_answer_refuses_calls_with_keys_alone),
      cmocka_unit_test(what_has_no_memory_does_not_blame_the_store),
      cmocka_unit_test(a_key_that_may_be_ours_is_given_back),
      cmocka_unit_test(a_key_that_could_not_be_given_back_runs_later),
      cmocka_unit_test(a_key_that_the_store_was_never_asked_for_is_in_no_doubt),
      cmocka_unit_test(who_leaves_while_its_task_begins_finds_it_again),
      cmocka_unit_test(a_store_that_does_not_answer_is_told_of_until_it_does),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
