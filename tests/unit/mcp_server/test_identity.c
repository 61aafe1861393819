/* test_identity.c - which store it is: servers that share one agree on what seals requestState and on the name of their keys, also when
 * the store has lost what it held. */
#include "keyed_tool.h"

#include "mcp_server/server.h"
#include "mcp_server/worker.h"
#include "support/later_store.h"
#include "support/mcp_peer.h"
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

typedef struct world {
  idem__store *inner, *later;
  idem_server *servers[2];
  mcp_peer peers[2]; /* with which each has a worker */
} world;

static const uint8_t first[IDEM__STATE_KEY_BYTES] = "what the store held at first";
static const uint8_t chosen[IDEM__STATE_KEY_BYTES] = "what the program has chosen....";

/* Never the same. */
static void count_up(void *ctx, void *bytes, size_t len) {
  static uint64_t next = 1;
  (void)ctx;
  memset(bytes, 0, len);
  memcpy(bytes, &next, len < sizeof next ? len : sizeof next);
  next++;
}

static void put(const world *in, const uint8_t secret[IDEM__STATE_KEY_BYTES], uint64_t expect) {
  idem__store_op op = idem__identity_op(IDEM__STORE_PUT);
  op.bytes = secret;
  op.len = IDEM__STATE_KEY_BYTES;
  op.expect = expect;
  assert_int_equal(idem__store_ask(in->inner, &op, NULL).status, IDEM_OK);
}

static void lose(const world *in) {
  idem__store_op op = idem__identity_op(IDEM__STORE_REMOVE);
  op.expect = IDEM__STORE_ANY;
  assert_int_equal(idem__store_ask(in->inner, &op, NULL).status, IDEM_OK);
}

static void join(world *in, idem__store *store, const uint8_t *state_key) {
  for (int i = 0; i < 2; i++) {
    idem_server_opts opts = {
        .random = count_up, .state_key = i ? state_key : NULL, .state_key_len = sizeof first};
    in->servers[i] = mcp_test_server(&opts);
    idem__identity_share(in->servers[i], first);
    assert_int_equal(idem__server_use_store(in->servers[i], store), IDEM_OK);
    if (!i) idem__identity_mark_all(in->servers[i]); /* as who made the store does */
    mcp_peer_open(&in->peers[i], in->servers[i], "2025-11-25");
  }
}

static void set_up(world *in, const uint8_t *state_key) {
  assert_int_equal(idem__store_memory_new(&(idem__store_memory_opts){0}, &in->inner), IDEM_OK);
  in->later = later_store_new(in->inner, &(later_store_opts){.seed = 1});
  put(in, first, IDEM__STORE_ABSENT);
  join(in, in->later, state_key);
}

static void tear_down(world *in) {
  for (int i = 0; i < 2; i++) mcp_peer_close_with(&in->peers[i], in->servers[i]);
  idem__store_unref(in->later); /* and with it the inner one */
}

static void settle(const world *in) {
  do {
    for (int i = 0; i < 2; i++) idem__worker_deliver(in->servers[i]->own_worker);
  } while (later_store_pump(in->later));
}

static bool agree(const world *in) {
  char names[2][IDEM__ONCE_STORE_ID + 1];
  uint8_t keys[2][IDEM__STATE_KEY_BYTES];
  for (int i = 0; i < 2; i++) {
    idem__server_keys_name(in->servers[i], names[i]);
    idem__server_state_key(in->servers[i], keys[i]);
  }
  assert_string_equal(names[0], names[1]);
  return memcmp(keys[0], keys[1], sizeof keys[0]) == 0;
}

static bool is(const idem_server *server, const uint8_t secret[IDEM__STATE_KEY_BYTES]) {
  idem__store_answer answer = {.bytes = (const char *)secret, .len = IDEM__STATE_KEY_BYTES};
  char name[IDEM__ONCE_STORE_ID + 1];
  idem__server_keys_name(server, name);
  return idem__identity_judge(name, &answer) == IDEM_OK;
}

static void expect_losses(const world *in, unsigned count) {
  for (int i = 0; i < 2; i++)
    assert_int_equal(atomic_load(&in->servers[i]->identity.losses), count);
}

static void what_is_in_doubt_and_holds_changes_nothing(void **state) {
  world in;
  (void)state;
  set_up(&in, NULL);
  idem__identity_doubt(in.servers[0]);
  settle(&in);
  assert_true(is(in.servers[0], first));
  assert_true(agree(&in));
  expect_losses(&in, 0);
  tear_down(&in);
}

/* One notices and writes another, of which the rest hear. */
static void a_store_that_lost_it_gets_another_which_all_take(void **state) {
  world in;
  (void)state;
  set_up(&in, NULL);
  lose(&in);
  idem__identity_doubt(in.servers[0]);
  settle(&in);
  assert_false(is(in.servers[0], first));
  assert_true(agree(&in));
  expect_losses(&in, 1);
  tear_down(&in);
}

static void a_key_that_the_program_chose_stays(void **state) {
  uint8_t before[IDEM__STATE_KEY_BYTES], after[IDEM__STATE_KEY_BYTES];
  world in;
  (void)state;
  set_up(&in, chosen);
  idem__server_state_key(in.servers[1], before);
  lose(&in);
  idem__identity_doubt(in.servers[1]);
  settle(&in);
  idem__server_state_key(in.servers[1], after);
  assert_memory_equal(before, after, sizeof before);
  assert_false(is(in.servers[1], first));
  assert_false(agree(&in));
  tear_down(&in);
}

/* Nobody knows: nothing is believed, and the next renewal asks again. */
static void a_store_that_does_not_say_is_asked_again(void **state) {
  world in;
  (void)state;
  set_up(&in, NULL);
  lose(&in);
  settle(&in);
  for (int i = 0; i < 2; i++) assert_false(is(in.servers[i], first)); /* their watchers heard */
  expect_losses(&in, 1);
  lose(&in);
  later_store_fail(in.later, IDEM_E_SYS);
  settle(&in);
  expect_losses(&in, 1);
  later_store_fail(in.later, IDEM_OK);
  settle(&in);
  expect_losses(&in, 1);
  for (int i = 0; i < 2; i++) idem__identity_tick(in.servers[i]);
  settle(&in);
  expect_losses(&in, 2);
  assert_true(agree(&in));
  tear_down(&in);
}

/* Its server has noticed between taking the call and taking its key: that it agrees with the store again says nothing of the call. */
static void a_repetition_is_of_the_store_that_it_names(void **state) {
  tool_state tool = {0};
  char name[IDEM__ONCE_STORE_ID + 1], members[160];
  world in;
  (void)state;
  set_up(&in, NULL);
  add_tool(in.servers[0], "tool", run_count, &tool, IDEM_ONCE_KEY, NULL);
  idem__server_keys_name(in.servers[0], name);
  snprintf(members, sizeof members,
           "\"name\":\"tool\",\"_meta\":{\"idem/key\":\"k\",\"idem/repeat\":\"%s\"}", name);
  mcp_peer_ask(&in.peers[0], "tools/call", members);
  lose(&in);
  put(&in, chosen, IDEM__STORE_ABSENT);
  idem__identity_share(in.servers[0], chosen);
  settle(&in);
  assert_non_null(strstr(mcp_peer_more(&in.peers[0]), "outcome-unknown"));
  assert_int_equal(tool.runs, 0);
  tear_down(&in);
}

/* -------------------------------------------------------- one part of several */

enum { PARTS = 5 };

static void set_up_parts(world *in) {
  idem__store *parts[PARTS], *spread;
  for (int i = 0; i < PARTS; i++)
    assert_int_equal(idem__store_memory_new(&(idem__store_memory_opts){0}, &parts[i]), IDEM_OK);
  assert_int_equal(
      idem__store_spread_new(&(idem__store_spread_opts){.parts = parts, .count = PARTS}, &spread),
      IDEM_OK);
  *in = (world){.inner = spread, .later = spread};
  idem__store_op op = idem__identity_op(IDEM__STORE_PUT);
  op.bytes = first;
  op.len = sizeof first;
  idem__store_run(spread, &op);
  join(in, spread, NULL);
}

/* What it held of us, as far as we look for it. */
static void lose_part(const world *in, unsigned part) {
  char name[16];
  const idem__identity *identity = &in->servers[0]->identity;
  int len = snprintf(name, sizeof name, "part-%u", identity->marks[part]);
  idem__store_op op = {.verb = IDEM__STORE_REMOVE,
                       .space = IDEM__STORE_KEYS,
                       .name = name,
                       .name_len = (size_t)len,
                       .expect = IDEM__STORE_ANY};
  assert_int_equal(idem__store_ask(idem__store_spread_at(in->inner, part), &op, NULL).status,
                   IDEM_OK);
}

static void renew(const world *in) {
  for (int round = 0; round < 4; round++) {
    for (int i = 0; i < 2; i++) {
      if (round == 0) idem__identity_tick(in->servers[i]);
      idem__worker_deliver(in->servers[i]->own_worker);
    }
  }
}

static void each_part_that_lost_what_it_held_is_noticed(void **state) {
  (void)state;
  for (unsigned part = 0; part < PARTS; part++) {
    world in;
    set_up_parts(&in);
    assert_int_equal(in.servers[0]->identity.parts, PARTS);
    for (int i = 0; i < 3; i++) renew(&in);
    expect_losses(&in, 0);
    lose_part(&in, part);
    for (int i = 0; i < 3; i++) renew(&in);
    expect_losses(&in, 1);
    assert_false(is(in.servers[0], first));
    assert_true(agree(&in));
    tear_down(&in);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_in_doubt_and_holds_changes_nothing),
      cmocka_unit_test(a_store_that_lost_it_gets_another_which_all_take),
      cmocka_unit_test(a_key_that_the_program_chose_stays),
      cmocka_unit_test(a_store_that_does_not_say_is_asked_again),
      cmocka_unit_test(a_repetition_is_of_the_store_that_it_names),
      cmocka_unit_test(each_part_that_lost_what_it_held_is_noticed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
