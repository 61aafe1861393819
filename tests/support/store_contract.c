/* store_contract.c - the promises of src/store/store.h, for any kind of store: records, their time, their limits. */
#include "support/store_contract_play.h"

/* ---------------------------------------------------------------- records */

static void what_was_put_is_got_with_its_version(void **state) {
  reply made = put(*state, "a", "one", IDEM__STORE_ABSENT);
  assert_int_equal(made.answer.status, IDEM_OK);
  reply got = get(*state, "a");
  assert_int_equal(got.answer.status, IDEM_OK);
  assert_string_equal(got.bytes, "one");
  assert_true(got.answer.version == made.answer.version);
  assert_int_equal(get(*state, "b").answer.status, IDEM_E_NOTFOUND);
}

static void names_are_bytes_and_values_may_be_empty(void **state) {
  reply made = run(*state, (idem__store_op){.verb = IDEM__STORE_PUT,
                                            .name = "a\0b",
                                            .name_len = 3,
                                            .expect = IDEM__STORE_ABSENT});
  assert_int_equal(made.answer.status, IDEM_OK);
  assert_int_equal(get(*state, "a").answer.status, IDEM_E_NOTFOUND);
  reply got = run(*state, (idem__store_op){.verb = IDEM__STORE_GET, .name = "a\0b", .name_len = 3});
  assert_int_equal(got.answer.status, IDEM_OK);
  assert_int_equal(got.answer.len, 0);
}

static void a_name_that_cannot_be_is_refused(void **state) {
  static char huge[IDEM__STORE_NAME_MAX + 1];
  reply none = run(*state, (idem__store_op){.verb = IDEM__STORE_GET});
  assert_int_equal(none.answer.status, IDEM_E_INVAL);
  memset(huge, 'x', sizeof huge);
  reply long_one = run(*state, (idem__store_op){.verb = IDEM__STORE_PUT,
                                                .name = huge,
                                                .name_len = sizeof huge,
                                                .expect = IDEM__STORE_ANY});
  assert_int_equal(long_one.answer.status, IDEM_E_INVAL);
}

static void a_change_needs_the_version_it_was_made_from(void **state) {
  uint64_t first = put(*state, "a", "one", IDEM__STORE_ABSENT).answer.version;
  assert_int_equal(put(*state, "a", "two", IDEM__STORE_ABSENT).answer.status, IDEM_E_EXISTS);
  reply second = put(*state, "a", "two", first);
  assert_int_equal(second.answer.status, IDEM_OK);
  assert_true(second.answer.version != first);
  reply late = put(*state, "a", "three", first);
  assert_int_equal(late.answer.status, IDEM_E_STATE);
  assert_true(late.answer.version == second.answer.version);
  assert_string_equal(get(*state, "a").bytes, "two");
  assert_int_equal(put(*state, "a", "four", IDEM__STORE_ANY).answer.status, IDEM_OK);
  assert_int_equal(put(*state, "other", "x", first).answer.status, IDEM_E_NOTFOUND);
}

static void a_version_never_comes_again(void **state) {
  uint64_t first = put(*state, "a", "one", IDEM__STORE_ABSENT).answer.version;
  idem__store_op remove = {.verb = IDEM__STORE_REMOVE, .name = "a", .expect = first};
  assert_int_equal(run(*state, remove).answer.status, IDEM_OK);
  assert_int_equal(run(*state, remove).answer.status, IDEM_E_NOTFOUND);
  put(*state, "a", "one", IDEM__STORE_ABSENT);
  assert_int_equal(run(*state, remove).answer.status, IDEM_E_STATE);
  assert_int_equal(put(*state, "a", "two", first).answer.status, IDEM_E_STATE);
}

static void spaces_do_not_see_each_other(void **state) {
  put(*state, "a", "one", IDEM__STORE_ABSENT);
  reply other = run(
      *state, (idem__store_op){.verb = IDEM__STORE_GET, .space = IDEM__STORE_TASKS, .name = "a"});
  assert_int_equal(other.answer.status, IDEM_E_NOTFOUND);
}

/* ------------------------------------------------------------------- time */

static void a_record_goes_when_its_time_is_over(void **state) {
  put_for(*state, "short", 100);
  put_for(*state, "long", 1000);
  put_for(*state, "ever", 0);
  pass(*state, 99);
  assert_int_equal(get(*state, "short").answer.status, IDEM_OK);
  pass(*state, 1);
  assert_int_equal(get(*state, "short").answer.status, IDEM_E_NOTFOUND);
  assert_int_equal(get(*state, "long").answer.status, IDEM_OK);
  pass(*state, 100000);
  assert_int_equal(get(*state, "long").answer.status, IDEM_E_NOTFOUND);
  assert_int_equal(get(*state, "ever").answer.status, IDEM_OK);
}

static void a_touch_gives_time_and_keeps_the_version(void **state) {
  put_for(*state, "a", 100);
  uint64_t version = get(*state, "a").answer.version;
  idem__store_op touch = {.verb = IDEM__STORE_TOUCH, .name = "a", .ttl_ms = 100};
  for (int i = 0; i < 5; i++) {
    pass(*state, 60);
    reply touched = run(*state, touch);
    assert_int_equal(touched.answer.status, IDEM_OK);
    assert_true(touched.answer.version == version);
  }
  touch.ttl_ms = 10; /* and takes it */
  run(*state, touch);
  pass(*state, 10);
  assert_int_equal(run(*state, touch).answer.status, IDEM_E_NOTFOUND);
}

static idem__store_answer peek(idem__store *store, const char *name, uint64_t ttl_ms) {
  return run(store, (idem__store_op){.verb = IDEM__STORE_PEEK, .name = name, .ttl_ms = ttl_ms})
      .answer;
}

static void a_peek_tells_the_version_and_changes_nothing(void **state) {
  assert_int_equal(peek(*state, "a", 100).status, IDEM_E_NOTFOUND);
  put_for(*state, "a", 100);
  uint64_t version = get(*state, "a").answer.version;
  pass(*state, 99);
  idem__store_answer seen = peek(*state, "a", 1000);
  assert_int_equal(seen.status, IDEM_OK);
  assert_true(seen.version == version && seen.number == 0);
  pass(*state, 1);
  assert_int_equal(peek(*state, "a", 1000).status, IDEM_E_NOTFOUND);
}

/* ... so that who hears it need not touch: neither has less time than that, nor much more. */
static void a_peek_says_whether_a_touch_is_needed(void **state) {
  enum { LONG = 3600000 };
  put_for(*state, "a", LONG);
  put_for(*state, "ever", 0);
  assert_true(peek(*state, "a", LONG).number == 1);
  assert_true(peek(*state, "a", LONG * 2).number == 0);
  assert_true(peek(*state, "a", LONG / 2).number == 0);
  assert_true(peek(*state, "a", 0).number == 0);
  assert_true(peek(*state, "ever", 0).number == 1);
  assert_true(peek(*state, "ever", LONG).number == 0);
  unsigned passed = 0;
  for (; peek(*state, "a", LONG).number; passed++) pass(*state, 60000);
  assert_in_range(passed, 1, 4);
  pass(*state, LONG - 60000 - 1); /* of the last time it was said */
  assert_int_equal(get(*state, "a").answer.status, IDEM_OK);
}

/* ----------------------------------------------------------------- limits */

const char *store_name_in(char name[STORE_NAME_ROOM], unsigned parts, idem__store_space space,
                          unsigned part, const char *stem) {
  snprintf(name, STORE_NAME_ROOM, "%s", stem);
  for (unsigned i = 0;
       idem__store_spread_place(parts ? parts : 1, space, name, strlen(name)) != part; i++)
    snprintf(name, STORE_NAME_ROOM, "%.16s%u", stem, i);
  return name;
}

static size_t all_parts(size_t limit) { return limit * (maker->parts ? maker->parts : 1); }

/* Names that live together, each until the same stem is asked for again. */
static const char *near(const char *stem) {
  static char names[256][STORE_NAME_ROOM];
  return store_name_in(names[(unsigned char)*stem], maker->parts, IDEM__STORE_SESSIONS, 0, stem);
}

static void a_space_takes_no_more_records_than_the_limit(void **state) {
  idem__store_op op = {
      .verb = IDEM__STORE_PUT, .expect = IDEM__STORE_ABSENT, .limit = all_parts(2)};
  op.ttl_ms = 100;
  op.name = near("a");
  assert_int_equal(run(*state, op).answer.status, IDEM_OK);
  op.name = near("b");
  assert_int_equal(run(*state, op).answer.status, IDEM_OK);
  op.name = near("c");
  assert_int_equal(run(*state, op).answer.status, IDEM_E_LIMIT);
  op.name = near("b");
  op.expect = IDEM__STORE_ANY;
  assert_int_equal(run(*state, op).answer.status, IDEM_OK); /* it is there already */
  pass(*state, 100);
  op.name = near("c");
  assert_int_equal(run(*state, op).answer.status, IDEM_OK); /* the others are gone */
}

static void a_group_takes_no_more_records_than_its_limit(void **state) {
  idem__store_op op = {
      .verb = IDEM__STORE_PUT, .expect = IDEM__STORE_ABSENT, .group_limit = all_parts(2)};
  op.ttl_ms = 100;
  op.group = "ours";
  op.name = near("a");
  assert_int_equal(run(*state, op).answer.status, IDEM_OK);
  op.name = near("b");
  assert_int_equal(run(*state, op).answer.status, IDEM_OK);
  op.name = near("c");
  reply full = run(*state, op);
  assert_int_equal(full.answer.status, IDEM_E_LIMIT);
  assert_int_equal(full.answer.number, 1); /* the group, not the space */
  op.group = "theirs";
  assert_int_equal(run(*state, op).answer.status, IDEM_OK);
  op.group = "ours";
  op.name = near("b");
  op.expect = IDEM__STORE_ANY;
  assert_int_equal(run(*state, op).answer.status, IDEM_OK); /* it is there already */
  op.verb = IDEM__STORE_REMOVE;
  assert_int_equal(run(*state, op).answer.status, IDEM_OK);
  op.verb = IDEM__STORE_PUT;
  op.name = near("d");
  assert_int_equal(run(*state, op).answer.status, IDEM_OK);
  op.name = near("e");
  assert_int_equal(run(*state, op).answer.status, IDEM_E_LIMIT);
  pass(*state, 110);
  assert_int_equal(run(*state, op).answer.status, IDEM_OK); /* the others are gone */
}

static void a_full_store_takes_nothing_and_loses_nothing(void **state) {
  (void)state;
  static char big[4096];
  idem__store *small = maker->make(all_parts(16384));
  idem__store_op op = {.verb = IDEM__STORE_PUT, .expect = IDEM__STORE_ANY, .bytes = big};
  op.len = sizeof big;
  idem_status status = IDEM_OK;
  char name[8];
  unsigned kept = 0;
  for (unsigned i = 0; i < 8 && status == IDEM_OK; i++) {
    snprintf(name, sizeof name, "%cn", 'a' + (int)i);
    op.name = near(name);
    op.name_len = 0;
    status = run(small, op).answer.status;
    kept += status == IDEM_OK;
  }
  assert_int_equal(status, IDEM_E_LIMIT);
  assert_in_range(kept, 1, 3);
  /* What room was promised to is kept, and counts. */
  op.name = near("an");
  op.len = sizeof big - 1;
  assert_int_equal(run(small, op).answer.status, IDEM_OK);
  static char larger[16384];
  op.bytes = larger;
  op.len = sizeof larger;
  assert_int_equal(run(small, op).answer.status, IDEM_E_LIMIT);
  op.owed = true;
  assert_int_equal(run(small, op).answer.status, IDEM_OK);
  op.owed = false;
  op.name = near("zn");
  op.bytes = "z";
  op.len = 1;
  assert_int_equal(run(small, op).answer.status, IDEM_E_LIMIT);
  op.name = near("an");
  op.len = 1;
  assert_int_equal(run(small, op).answer.status, IDEM_OK); /* less is always possible */
  idem__store_unref(small);
}

static void an_answer_is_got_at_once_where_the_store_is_immediate(void **state) {
  idem__store *store = *state;
  char bytes[16];
  idem_buf value;
  put(store, "a", "one", IDEM__STORE_ABSENT);
  idem_buf_fixed(&value, bytes, sizeof bytes);
  idem__store_op op = {.verb = IDEM__STORE_GET, .name = "a", .name_len = 1, .now_ms = now_ms};
  idem__store_answer answer = idem__store_ask(store, &op, &value);
  assert_int_equal(answer.status, store->kind->immediate ? IDEM_OK : IDEM_E_SYS);
  if (!store->kind->immediate) return;
  assert_memory_equal(bytes, "one", 3);
  idem_buf_fixed(&value, bytes, 2);
  assert_int_equal(idem__store_ask(store, &op, &value).status, IDEM_E_LIMIT);
}

int store_contract_run(const store_maker *which) {
  maker = which;
  const struct CMUnitTest promises[] = {
      PROMISE(what_was_put_is_got_with_its_version),
      PROMISE(names_are_bytes_and_values_may_be_empty),
      PROMISE(a_name_that_cannot_be_is_refused),
      PROMISE(a_change_needs_the_version_it_was_made_from),
      PROMISE(a_version_never_comes_again),
      PROMISE(spaces_do_not_see_each_other),
      PROMISE(a_record_goes_when_its_time_is_over),
      PROMISE(a_touch_gives_time_and_keeps_the_version),
      PROMISE(a_peek_tells_the_version_and_changes_nothing),
      PROMISE(a_peek_says_whether_a_touch_is_needed),
      PROMISE(a_space_takes_no_more_records_than_the_limit),
      PROMISE(a_group_takes_no_more_records_than_its_limit),
      PROMISE(a_full_store_takes_nothing_and_loses_nothing),
      PROMISE(an_answer_is_got_at_once_where_the_store_is_immediate),
  };
  return cmocka_run_group_tests_name(which->name, promises, NULL, NULL) +
         store_contract_run_told(which);
}
