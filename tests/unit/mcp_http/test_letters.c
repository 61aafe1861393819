/* test_letters.c - letters for a process whose store is in trouble while it takes them: what was acknowledged is opened once,
 * whatever the store said, did or lost. */
#include "support/mcp_web.h"
#include "support/unit.h"

#include "mcp_server/server.h"

#include <stdio.h>
#include <string.h>

#define STEPS 6 /* more than taking a letter takes */
#define LETTER_MS 60000u
#define UP_MS 1000000000u /* its machine is up for so long */
#define COMMENT_MS 15000u
#define IDLE_MS 1800000u

typedef struct world {
  idem__store *store;
  mcp_web one, other; /* the store answers `one` later */
  mcp_web_conn stream;
  char target[128];
} world;

/* A stream at `one`, which hears of nothing until it is let to. */
static void open_world(world *in) {
  static const later_store_opts later = {.seed = 4};
  in->store = mcp_web_store();
  mcp_web_open(&in->one, &(mcp_web_opts){.store = in->store, .later = &later});
  mcp_web_open(&in->other, &(mcp_web_opts){.store = in->store});
  assert_int_equal(idem__server_name_store(in->one.own.server, "shared"), IDEM_OK);
  assert_int_equal(idem__server_name_store(in->other.own.server, "shared"), IDEM_OK);
  in->other.fixture->drawn = 100; /* ids of its own */
  in->one.now_ms += UP_MS;
  mcp_web_connect(&in->one, &in->stream);
  mcp_web_open_sse(&in->stream, "", in->target);
  mcp_web_deliver(&in->one);
  mcp_web_deliver(&in->other);
  later_store_hold(in->one.later, true);
}

static void close_world(world *in) {
  later_store_hold(in->one.later, false);
  mcp_web_disconnect(&in->stream);
  mcp_web_close(&in->other);
  mcp_web_close(&in->one);
  idem__store_unref(in->store);
}

static void post(world *in, int id) {
  char body[64];
  snprintf(body, sizeof body, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}", id);
  mcp_web_expect(mcp_web_ask(&in->other, "POST", in->target, "", body), "202 Accepted");
}

/* It asks its store what comes next, and hears of one answer. */
static void step(world *in) {
  if (atomic_exchange(&in->one.woken, false)) idem__worker_deliver(in->one.mcp);
  later_store_hold(in->one.later, false);
  later_store_pump(in->one.later);
  later_store_hold(in->one.later, true);
}

/* Its store was away and is there again. */
static void look(world *in) {
  static const idem__store_change away = {
      .event = IDEM__STORE_WAS_AWAY, .space = IDEM__STORE_KEYS, .name = ""};
  later_store_hold(in->one.later, false);
  idem__identity_on_change(&away, in->one.own.server);
  mcp_web_settle(&in->stream);
}

static size_t records(const world *in) {
  return idem__store_memory_records(in->store, IDEM__STORE_LETTERS);
}

static void expect_done(const world *in) {
  assert_int_equal(records(in), 0);
  assert_int_equal(in->one.table->letters_taken.count, 0);
  assert_true(idem_list_empty(&in->one.table->letters_back));
  assert_int_equal(atomic_load(&in->one.own.server->node.awaited), 0);
}

typedef void (*maker)(idem__store *store, idem_status status);

/* What is asked in that step has no answer that says whether it happened. */
static void take_in_trouble(int at, maker makes, idem_status status) {
  world in;
  open_world(&in);
  post(&in, 77);
  for (int i = 0; i < STEPS; i++) {
    makes(in.one.later, i == at ? status : IDEM_OK);
    step(&in);
  }
  makes(in.one.later, IDEM_OK);
  look(&in);
  look(&in); /* once more changes nothing */
  if (mcp_web_times(&in.stream, "\"id\":77") != 1)
    fail_msg("step %d, %s: %s", at, idem_status_text(status), in.stream.output);
  expect_done(&in);
  close_world(&in);
}

static void a_letter_is_opened_once_whatever_the_store_says(void **state) {
  static const idem_status all[] = {IDEM_E_TIMEOUT, IDEM_E_SYS, IDEM_E_CLOSED, IDEM_E_LIMIT};
  static const maker makers[] = {later_store_lose, later_store_fail, later_store_away};
  (void)state;
  for (int at = 0; at < STEPS; at++)
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
      for (size_t k = 0; k < sizeof makers / sizeof *makers; k++)
        take_in_trouble(at, makers[k], all[i]);
}

/* The second was heard of while the first waits for its store. */
static void letters_of_a_stream_keep_their_order(void **state) {
  world in;
  (void)state;
  open_world(&in);
  later_store_away(in.one.later, IDEM_E_SYS);
  post(&in, 77);
  for (int i = 0; i < STEPS; i++) step(&in);
  later_store_away(in.one.later, IDEM_OK);
  post(&in, 78);
  for (int i = 0; i < STEPS; i++) step(&in);
  assert_int_equal(mcp_web_times(&in.stream, "\"id\":78"), 0);
  look(&in);
  const char *first = strstr(in.stream.output, "\"id\":77");
  const char *second = strstr(in.stream.output, "\"id\":78");
  assert_non_null(first);
  assert_true(second > first);
  expect_done(&in);
  close_world(&in);
}

/* It was not told of any, or the store did not show more at once. */
static void letters_nobody_told_of_are_found(void **state) {
  enum { COUNT = 200 };
  world in;
  mcp_web_conn second;
  (void)state;
  open_world(&in);
  idem__store_unwatch(in.store, in.one.table->letters);
  for (int i = 0; i < COUNT; i++) post(&in, 1000 + i);
  mcp_web_connect(&in.one, &second);
  mcp_web_open_sse(&second, "", in.target);
  for (int i = 0; i < COUNT; i++) post(&in, 1000 + i);
  look(&in);
  mcp_web_settle(&second);
  assert_int_equal(mcp_web_times(&in.stream, "\"id\":1"), COUNT);
  assert_int_equal(mcp_web_times(&second, "\"id\":1"), COUNT);
  expect_done(&in);
  mcp_web_disconnect(&second);
  assert_int_equal(idem__store_watch(in.store, IDEM__STORE_LETTERS, idem__letters_on_change,
                                     in.one.table, &in.one.table->letters),
                   IDEM_OK);
  close_world(&in);
}

/* One that cannot be removed is forgotten when it is not in the store any more. */
static void what_is_in_hand_goes_with_its_letter(void **state) {
  world in;
  (void)state;
  open_world(&in);
  post(&in, 77);
  step(&in);
  later_store_fail(in.one.later, IDEM_E_TIMEOUT);
  for (int i = 0; i < STEPS; i++) step(&in);
  assert_int_equal(in.one.table->letters_taken.count, 1);
  assert_int_equal(records(&in), 1);
  in.one.own.wall_ms += 2 * LETTER_MS;
  later_store_fail(in.one.later, IDEM_OK);
  later_store_hold(in.one.later, true);
  idem__letters_look(in.one.endpoint);
  later_store_fail(in.one.later, IDEM_E_TIMEOUT);
  later_store_hold(in.one.later, false);
  mcp_web_settle(&in.stream);
  assert_int_equal(mcp_web_times(&in.stream, "\"id\":77"), 1);
  later_store_fail(in.one.later, IDEM_OK);
  look(&in);
  assert_int_equal(mcp_web_times(&in.stream, "\"id\":77"), 1);
  expect_done(&in);
  close_world(&in);
}

/* Nobody asked that process for a session, so it has no other time than its driver's. */
static void a_stream_whose_posts_come_elsewhere_is_in_use(void **state) {
  world in;
  (void)state;
  open_world(&in);
  later_store_hold(in.one.later, false);
  for (uint64_t since = 0; since < 2 * IDLE_MS; since += 10 * COMMENT_MS) {
    post(&in, 77);
    for (int i = 0; i < 10; i++) {
      in.one.now_ms += COMMENT_MS;
      mcp_web_settle(&in.stream);
    }
  }
  assert_int_equal(mcp_web_times(&in.stream, "\"id\":77"), 2 * IDLE_MS / (10 * COMMENT_MS));
  assert_int_equal(in.one.table->sse_lines.count, 1);
  in.one.now_ms += IDLE_MS;
  mcp_web_settle(&in.stream);
  assert_int_equal(in.one.table->sse_lines.count, 0);
  close_world(&in);
}

/* Its peer goes, and the server with it or later. */
static void taking_may_end_at_every_step(void **state) {
  (void)state;
  for (int steps = 0; steps < STEPS; steps++)
    for (int fails = 0; fails < 2; fails++) {
      world in;
      open_world(&in);
      post(&in, 77);
      for (int i = 0; i < steps; i++) step(&in);
      if (fails) later_store_fail(in.one.later, IDEM_E_SYS);
      step(&in);
      close_world(&in);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_letter_is_opened_once_whatever_the_store_says),
      cmocka_unit_test(letters_of_a_stream_keep_their_order),
      cmocka_unit_test(letters_nobody_told_of_are_found),
      cmocka_unit_test(what_is_in_hand_goes_with_its_letter),
      cmocka_unit_test(a_stream_whose_posts_come_elsewhere_is_in_use),
      cmocka_unit_test(taking_may_end_at_every_step),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
