/* store_contract_told.c - more promises of src/store/store.h: logs, lists, and who is told of what. */
#include "support/store_contract_play.h"

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

int store_contract_run_told(const store_maker *which) {
  maker = which;
  const struct CMUnitTest promises[] = {
      PROMISE(entries_are_numbered_and_read_in_order),
      PROMISE(long_logs_are_read_whole),
      PROMISE(a_log_forgets_its_oldest_entries_first),
      PROMISE(log_and_counter_go_with_their_record),
      PROMISE(a_group_is_listed_by_birth_in_pages),
      PROMISE(watchers_of_a_space_hear_of_every_change),
      PROMISE(a_watcher_may_use_the_store),
  };
  return cmocka_run_group_tests_name(which->name, promises, NULL, NULL);
}
