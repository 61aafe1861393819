/* store_contract.c - the promises of src/store/store.h, for any kind of store. */
#include "support/store_contract.h"

#include "support/unit.h"

#include <stdio.h>

/* ------------------------------------------------------------------ asking */

static const store_maker *maker;
static uint64_t now_ms;
static idem__store_queue *queue;

typedef struct told {
  unsigned count[IDEM__STORE_WAS_TOLD + 1];
  char name[64];
  uint64_t version;
} told;

typedef struct reply {
  idem__store_answer answer;
  char bytes[256];
  unsigned times;
} reply;

/* An operation that is waited for, and who looks at its items. */
typedef struct waited {
  reply got;
  idem__store_each each;
  void *user;
} waited;

static void on_done(const idem__store_answer *answer, void *user) {
  reply *got = &((waited *)user)->got;
  got->times++;
  got->answer = *answer;
  assert_true(answer->len < sizeof got->bytes);
  if (answer->len) memcpy(got->bytes, answer->bytes, answer->len);
  got->bytes[answer->len] = '\0';
}

static bool on_item(const idem__store_item *item, void *user) {
  const waited *one = user;
  return one->each(item, one->user);
}

static reply run(idem__store *store, idem__store_op op) {
  waited one = {.each = op.each, .user = op.user};
  if (op.name && !op.name_len) op.name_len = strlen(op.name);
  op.now_ms = now_ms;
  op.done = on_done;
  op.each = op.each ? on_item : NULL;
  op.user = &one;
  idem__store_submit(store, queue, &op, NULL);
  while (!one.got.times && maker->pump) {
    maker->pump(store);
    idem__store_queue_run(queue);
  }
  assert_int_equal(one.got.times, 1);
  return one.got;
}

static void pass(idem__store *store, uint64_t ms) {
  now_ms += ms;
  if (maker->pass) maker->pass(store, ms);
}

static reply put(idem__store *store, const char *name, const char *text, uint64_t expect) {
  return run(store, (idem__store_op){.verb = IDEM__STORE_PUT,
                                     .name = name,
                                     .bytes = text,
                                     .len = strlen(text),
                                     .expect = expect});
}

static reply get(idem__store *store, const char *name) {
  return run(store, (idem__store_op){.verb = IDEM__STORE_GET, .name = name});
}

static reply append(idem__store *store, const char *name, const char *text, size_t limit) {
  return run(store, (idem__store_op){.verb = IDEM__STORE_APPEND,
                                     .name = name,
                                     .bytes = text,
                                     .len = strlen(text),
                                     .limit = limit});
}

static void ignore_wake(void *user) { (void)user; }

static int make_store(void **state) {
  now_ms = 1000;
  *state = maker->make(0);
  if (idem__store_queue_new(&(idem__store_queue_opts){.wake = ignore_wake}, &queue) != IDEM_OK)
    return -1;
  return *state ? 0 : -1;
}

static int free_store(void **state) {
  idem__store_unref(*state);
  idem__store_queue_free(queue);
  return 0;
}

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

static void put_for(idem__store *store, const char *name, uint64_t ttl_ms) {
  reply made =
      run(store,
          (idem__store_op){
              .verb = IDEM__STORE_PUT, .name = name, .expect = IDEM__STORE_ANY, .ttl_ms = ttl_ms});
  assert_int_equal(made.answer.status, IDEM_OK);
}

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
  op.name = near("an");
  op.len = 1;
  assert_int_equal(run(small, op).answer.status, IDEM_OK); /* less is always possible */
  idem__store_unref(small);
}

/* ------------------------------------------------------------------- logs */

typedef struct seen {
  char text[512];
  uint64_t last;
  size_t most;
  size_t count;
} seen;

static bool see(const idem__store_item *item, void *user) {
  seen *all = user;
  size_t len = strlen(all->text);
  snprintf(all->text + len, sizeof all->text - len, "%.*s ", (int)item->len, item->bytes);
  all->last = item->number;
  return ++all->count != all->most;
}

static seen read_log(idem__store *store, const char *name, uint64_t after, size_t most) {
  seen all = {.most = most};
  run(store,
      (idem__store_op){
          .verb = IDEM__STORE_READ, .name = name, .after = after, .each = see, .user = &all});
  return all;
}

static void entries_are_numbered_and_read_in_order(void **state) {
  put(*state, "a", "", IDEM__STORE_ABSENT);
  assert_true(append(*state, "a", "x", 0).answer.number == 1);
  assert_true(append(*state, "a", "y", 0).answer.number == 2);
  assert_true(append(*state, "a", "z", 0).answer.number == 3);
  assert_string_equal(read_log(*state, "a", 0, 0).text, "x y z ");
  assert_string_equal(read_log(*state, "a", 1, 0).text, "y z ");
  assert_string_equal(read_log(*state, "a", 3, 0).text, "");
  assert_string_equal(read_log(*state, "a", 0, 2).text, "x y ");
  reply end = run(*state, (idem__store_op){.verb = IDEM__STORE_READ, .name = "a"});
  assert_true(end.answer.number == 3);
}

static void long_logs_are_read_whole(void **state) {
  put(*state, "a", "", IDEM__STORE_ABSENT);
  for (int i = 0; i < 100; i++) append(*state, "a", "e", 0);
  seen all = read_log(*state, "a", 0, 0);
  assert_int_equal(all.count, 100);
  assert_true(all.last == 100);
}

static void a_log_forgets_its_oldest_entries_first(void **state) {
  static char large[2048];
  memset(large, 'l', sizeof large - 1);
  put(*state, "a", "", IDEM__STORE_ABSENT);
  for (int i = 0; i < 50; i++) append(*state, "a", "entry", 512);
  seen all = read_log(*state, "a", 0, 0);
  assert_in_range(all.count, 2, 49);
  assert_true(all.last == 50);
  /* What can never fit has a number, so that nobody takes another entry for it. */
  assert_true(append(*state, "a", large, 512).answer.number == 51);
  assert_true(read_log(*state, "a", 0, 0).last == 50);
  assert_true(append(*state, "a", "next", 512).answer.number == 52);
}

static void log_and_counter_go_with_their_record(void **state) {
  assert_int_equal(append(*state, "a", "x", 0).answer.status, IDEM_E_NOTFOUND);
  put(*state, "a", "", IDEM__STORE_ABSENT);
  append(*state, "a", "x", 0);
  idem__store_op count = {.verb = IDEM__STORE_COUNT, .name = "a", .after = 5};
  assert_true(run(*state, count).answer.number == 0);
  assert_true(run(*state, count).answer.number == 5);
  put(*state, "a", "changed", IDEM__STORE_ANY);
  assert_true(run(*state, count).answer.number == 10);
  count.after = (uint64_t)1 << 32;
  assert_true(run(*state, count).answer.number == 15);
  count.after = 0; /* asks for it */
  assert_true(run(*state, count).answer.number == 15 + ((uint64_t)1 << 32));
  count.after = 5;
  assert_string_equal(read_log(*state, "a", 0, 0).text, "x ");
  run(*state, (idem__store_op){.verb = IDEM__STORE_REMOVE, .name = "a", .expect = IDEM__STORE_ANY});
  assert_int_equal(run(*state, count).answer.status, IDEM_E_NOTFOUND);
  put(*state, "a", "", IDEM__STORE_ABSENT);
  assert_true(run(*state, count).answer.number == 0);
  assert_string_equal(read_log(*state, "a", 0, 0).text, "");
  assert_true(append(*state, "a", "y", 0).answer.number == 1);
}

/* ------------------------------------------------------------------- lists */

static void a_group_is_listed_by_birth_in_pages(void **state) {
  char name[16];
  for (unsigned i = 0; i < 80; i++) {
    snprintf(name, sizeof name, "n%u", i);
    run(*state, (idem__store_op){.verb = IDEM__STORE_PUT,
                                 .name = name,
                                 .group = i % 2 ? "odd" : "even",
                                 .bytes = name,
                                 .len = strlen(name),
                                 .expect = IDEM__STORE_ABSENT});
  }
  seen page = {.most = 0};
  idem__store_op list = {.verb = IDEM__STORE_LIST, .group = "odd", .limit = 3, .each = see};
  list.user = &page;
  run(*state, list);
  assert_string_equal(page.text, "n1 n3 n5 ");
  list.after = page.last;
  page = (seen){.most = 0};
  run(*state, list);
  assert_string_equal(page.text, "n7 n9 n11 ");
  page = (seen){.most = 0};
  list.limit = 0;
  list.after = 0;
  run(*state, list);
  assert_int_equal(page.count, 40);
  page = (seen){.most = 0};
  list.group = "neither";
  run(*state, list);
  assert_int_equal(page.count, 0);
}

/* ----------------------------------------------------------------- changes */

static void note(const idem__store_change *change, void *user) {
  told *all = user;
  all->count[change->event]++;
  all->version = change->version;
  snprintf(all->name, sizeof all->name, "%.*s", (int)change->name_len, change->name);
}

static void settle(idem__store *store) {
  if (maker->pump) maker->pump(store);
}

static void watchers_of_a_space_hear_of_every_change(void **state) {
  told all = {.version = 0}, tasks = {.version = 0};
  idem__store_watcher *watcher, *other;
  assert_int_equal(idem__store_watch(*state, IDEM__STORE_SESSIONS, note, &all, &watcher), IDEM_OK);
  assert_int_equal(idem__store_watch(*state, IDEM__STORE_TASKS, note, &tasks, &other), IDEM_OK);
  uint64_t version = put(*state, "a", "", IDEM__STORE_ABSENT).answer.version;
  settle(*state);
  assert_int_equal(all.count[IDEM__STORE_WAS_PUT], 1);
  assert_string_equal(all.name, "a");
  assert_true(all.version == version);
  put(*state, "a", "", IDEM__STORE_ABSENT); /* refused: no change */
  append(*state, "a", "x", 0);
  run(*state, (idem__store_op){.verb = IDEM__STORE_TELL, .name = "uri:x"});
  settle(*state);
  assert_int_equal(all.count[IDEM__STORE_WAS_PUT], 1);
  assert_int_equal(all.count[IDEM__STORE_WAS_APPENDED], 1);
  assert_int_equal(all.count[IDEM__STORE_WAS_TOLD], 1);
  assert_string_equal(all.name, "uri:x");
  run(*state, (idem__store_op){.verb = IDEM__STORE_REMOVE, .name = "a", .expect = IDEM__STORE_ANY});
  put_for(*state, "b", 10);
  pass(*state, 10);
  get(*state, "b");
  settle(*state);
  assert_int_equal(all.count[IDEM__STORE_WAS_REMOVED], 1);
  assert_int_equal(all.count[IDEM__STORE_WAS_EXPIRED], 1);
  assert_string_equal(all.name, "b");
  idem__store_unwatch(*state, watcher);
  put(*state, "c", "", IDEM__STORE_ABSENT);
  settle(*state);
  assert_int_equal(all.count[IDEM__STORE_WAS_PUT], 2); /* a and b */
  for (size_t i = 0; i < sizeof tasks.count / sizeof tasks.count[0]; i++)
    assert_int_equal(tasks.count[i], 0);
  idem__store_unwatch(*state, other);
}

/* A function may use the store it is told by; it must not wait there, for it may run on the store's own thread. */
static void write_down(const idem__store_change *change, void *user) {
  if (change->event != IDEM__STORE_WAS_PUT) return;
  idem__store_run(user, &(idem__store_op){.verb = IDEM__STORE_APPEND,
                                          .name = "diary",
                                          .name_len = 5,
                                          .bytes = "saw it",
                                          .len = 6,
                                          .now_ms = now_ms});
}

static void a_watcher_may_use_the_store(void **state) {
  idem__store_watcher *watcher;
  put(*state, "diary", "", IDEM__STORE_ABSENT);
  assert_int_equal(idem__store_watch(*state, IDEM__STORE_SESSIONS, write_down, *state, &watcher),
                   IDEM_OK);
  put(*state, "a", "", IDEM__STORE_ABSENT);
  settle(*state);
  idem__store_unwatch(*state, watcher);
  assert_string_equal(read_log(*state, "diary", 0, 0).text, "saw it ");
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
#define PROMISE(name) cmocka_unit_test_setup_teardown(name, make_store, free_store)
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
      PROMISE(entries_are_numbered_and_read_in_order),
      PROMISE(long_logs_are_read_whole),
      PROMISE(a_log_forgets_its_oldest_entries_first),
      PROMISE(log_and_counter_go_with_their_record),
      PROMISE(a_group_is_listed_by_birth_in_pages),
      PROMISE(watchers_of_a_space_hear_of_every_change),
      PROMISE(a_watcher_may_use_the_store),
      PROMISE(an_answer_is_got_at_once_where_the_store_is_immediate),
  };
  return cmocka_run_group_tests_name(which->name, promises, NULL, NULL);
}
