/* test_sqlite.c - the store in a SQLite file keeps the contract of stores, also for what is written with many others and for
 * what it remembers of its own writing, and is bounded. Its file: test_sqlite_file.c. */
#include "sqlite_folder.h"

#include "support/store_contract.h"
#include <sqlite3.h>

/* Watchers have been told of what was answered when a second question comes back. */
static void pump(idem__store *store) {
  get(store, "-", NULL);
  get(store, "-", NULL);
}

/* ------------------------------------------------- what is written with many others */

/* All at once, so that the writer takes many of them together; waits for the last. */
static void run_many(idem__store *store, idem__store_op op, unsigned count, unsigned name_len,
                     idem_status status) {
  char name[4096], group[16];
  answered all[64];
  memset(all, 0, sizeof all);
  memset(name, 'x', sizeof name);
  assert_true(count <= sizeof all / sizeof *all);
  for (unsigned i = 0; i < count; i++) {
    int len = snprintf(name, sizeof name, "%c%u", op.name[0], i);
    name[len] = 'x';
    snprintf(group, sizeof group, "g%u", i);
    idem__store_op one = op;
    one.name = name;
    one.name_len = name_len;
    if (op.group) one.group = group;
    one.done = on_answer;
    one.user = &all[i];
    idem__store_run(store, &one);
  }
  for (unsigned i = 0; i < count; i++) {
    while (!atomic_load(&all[i].times)) sched_yield();
    assert_int_equal(all[i].answer.status, status);
  }
}

static void news_of_any_size_reach_all_who_share_the_file(void **state) {
  char path[64];
  heard here = {0}, there = {0};
  idem__store_watcher *watchers[2];
  (void)state;
  name_file(path);
  idem__store *one = open_at(path, 0), *other = open_at(path, 0);
  assert_int_equal(idem__store_watch(one, IDEM__STORE_NEWS, hear, &here, &watchers[0]), IDEM_OK);
  assert_int_equal(idem__store_watch(other, IDEM__STORE_NEWS, hear, &there, &watchers[1]), IDEM_OK);
  idem__store_op tell = {.verb = IDEM__STORE_TELL, .space = IDEM__STORE_NEWS, .name = "n"};
  for (int i = 0; i < 8; i++) run_many(one, tell, 64, 4096, IDEM_OK);
  run_many(other, tell, 64, 64, IDEM_OK);
  while (atomic_load(&here.told) < 9 * 64 || atomic_load(&there.told) < 9 * 64) sched_yield();
  idem__store_unwatch(one, watchers[0]);
  idem__store_unwatch(other, watchers[1]);
  idem__store_unref(one);
  idem__store_unref(other);
}

static void more_groups_than_are_kept_in_memory_are_counted(void **state) {
  char path[64];
  (void)state;
  name_file(path);
  idem__store *store = open_at(path, 0);
  idem__store_op op = {.verb = IDEM__STORE_PUT,
                       .space = IDEM__STORE_ONCE,
                       .name = "a",
                       .group = "",
                       .group_limit = 2};
  run_many(store, op, 64, 8, IDEM_OK);
  op.name = "b";
  run_many(store, op, 64, 8, IDEM_OK);
  op.name = "c";
  run_many(store, op, 64, 8, IDEM_E_LIMIT);
  idem__store_unref(store);
  store = open_at(path, 0); /* and in the file */
  run_many(store, op, 64, 8, IDEM_E_LIMIT);
  idem__store_op remove = op;
  remove.verb = IDEM__STORE_REMOVE;
  remove.expect = IDEM__STORE_ANY;
  remove.name = "a";
  run_many(store, remove, 64, 8, IDEM_OK);
  run_many(store, op, 64, 8, IDEM_OK);
  idem__store_unref(store);
}

static bool count_item(const idem__store_item *item, void *user) {
  (void)item;
  atomic_fetch_add(&((answered *)user)->times, 1);
  return true;
}

static void keys_can_be_listed_though_no_index_has_them(void **state) {
  answered self = {.times = 0};
  (void)state;
  idem__store *store = make(0);
  run_many(store, (idem__store_op){.verb = IDEM__STORE_PUT, .space = IDEM__STORE_ONCE, .name = "a"},
           64, 8, IDEM_OK);
  idem__store_run(store, &(idem__store_op){.verb = IDEM__STORE_LIST,
                                           .space = IDEM__STORE_ONCE,
                                           .each = count_item,
                                           .done = on_answer,
                                           .user = &self});
  while (atomic_load(&self.times) < 65) sched_yield();
  idem__store_unref(store);
}

/* ----------------------------------------------------- what was written a moment ago */

static idem__store_answer put_for(idem__store *store, const char *name, uint64_t expect,
                                  uint64_t ttl_ms) {
  return ask(
      store,
      (idem__store_op){.verb = IDEM__STORE_PUT, .name = name, .expect = expect, .ttl_ms = ttl_ms},
      NULL);
}

#define DAY_MS ((uint64_t)86400000)

static void a_version_is_of_its_own_record_alone(void **state) {
  (void)state;
  idem__store *store = make(0);
  uint64_t version = put(store, "a", "one", IDEM__STORE_ABSENT).version;
  assert_int_equal(put(store, "b", "two", version).status, IDEM_E_NOTFOUND);
  uint64_t other = put(store, "b", "two", IDEM__STORE_ABSENT).version;
  assert_int_equal(put(store, "a", "three", other).status, IDEM_E_STATE);
  assert_int_equal(put(store, "a", "three", version).status, IDEM_OK);
  assert_int_equal(put(store, "a", "four", version).status, IDEM_E_STATE);
  idem__store_unref(store);
}

static void a_change_gives_the_time_that_it_says(void **state) {
  (void)state;
  idem__store *store = make(0);
  uint64_t version = put_for(store, "longer", IDEM__STORE_ABSENT, DAY_MS).version;
  module->pass(store, DAY_MS / 2);
  version = put_for(store, "longer", version, DAY_MS).version;
  module->pass(store, DAY_MS - 1);
  assert_int_equal(get(store, "longer", NULL).status, IDEM_OK);
  version = put_for(store, "longer", version, 1000).version;
  module->pass(store, 999);
  assert_true(get(store, "longer", NULL).version == version);
  module->pass(store, 1);
  assert_int_equal(get(store, "longer", NULL).status, IDEM_E_NOTFOUND);
  assert_int_equal(put_for(store, "longer", version, DAY_MS).status, IDEM_E_NOTFOUND);
  assert_int_equal(put_for(store, "longer", IDEM__STORE_ABSENT, DAY_MS).status, IDEM_OK);
  idem__store_unref(store);
}

/* What a store remembers of its own writing is no longer so when another has written. */
static void what_another_did_counts_before_what_is_remembered(void **state) {
  char path[64];
  (void)state;
  name_file(path);
  idem__store *one = open_at(path, 0), *other = open_at(path, 0);
  uint64_t version = put(one, "a", "one", IDEM__STORE_ABSENT).version;
  idem__store_op remove = {.verb = IDEM__STORE_REMOVE, .name = "a", .expect = version};
  assert_int_equal(ask(other, remove, NULL).status, IDEM_OK);
  assert_int_equal(put(one, "a", "two", version).status, IDEM_E_NOTFOUND);
  uint64_t again = put(other, "a", "one", IDEM__STORE_ABSENT).version;
  assert_true(again > version);
  assert_int_equal(put(one, "a", "two", version).status, IDEM_E_STATE);
  for (int i = 0; i < 8; i++) { /* versions come from one clock */
    uint64_t next = put(i % 2 ? one : other, "a", "three", again).version;
    assert_true(next > again);
    again = next;
  }
  idem__store_unref(one);
  idem__store_unref(other);
}

/* --------------------------------------------------------------------- bounds */

static int64_t number_in(const char *path, const char *sql) {
  sqlite3 *database;
  sqlite3_stmt *statement;
  assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
  assert_int_equal(sqlite3_prepare_v2(database, sql, -1, &statement, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
  int64_t number = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  sqlite3_close(database);
  return number;
}

/* A key as it is taken, as its answer comes, and as it is changed once more. */
static void use_key(idem__store *store, const char *name, const size_t lens[3]) {
  static char bytes[8192];
  idem__store_op op = {.verb = IDEM__STORE_PUT, .space = IDEM__STORE_ONCE, .name = name};
  op.bytes = bytes;
  op.expect = IDEM__STORE_ABSENT;
  for (int i = 0; i < 3; i++) {
    op.len = lens[i];
    idem__store_answer answer = ask(store, op, NULL);
    assert_int_equal(answer.status, IDEM_OK);
    op.expect = answer.version;
    op.verb = IDEM__STORE_GET;
    assert_int_equal(ask(store, op, NULL).len, lens[i]);
    op.verb = IDEM__STORE_PUT;
  }
}

static const size_t key_lens[][3] = {{68, 258, 258},  {68, 258, 10}, {68, 68, 258},
                                     {68, 250, 4000}, {68, 5000, 0}, {68, 1200, 100},
                                     {0, 57, 58},     {68, 200, 201}};
enum { KEY_LENS = sizeof key_lens / sizeof *key_lens };

/* Room that is left for answers is counted like them, whatever becomes of it. */
static void what_keys_take_is_counted_and_given_back(void **state) {
  char path[64], name[16];
  (void)state;
  name_file(path);
  idem__store *store = open_at(path, 0);
  for (unsigned i = 0; i < KEY_LENS * 3; i++) {
    snprintf(name, sizeof name, "k%02u", i);
    use_key(store, name, key_lens[i % KEY_LENS]);
  }
  static const char taken[] =
      "SELECT sum(128 + length(name) + length(value) + length(room)) FROM records";
  assert_true(number_in(path, "SELECT bytes FROM totals") == number_in(path, taken));
  assert_true(number_in(path, "SELECT sum(length(room)) FROM records") > 0);
  assert_true(number_in(path, "SELECT max(length(room)) FROM records") <= 1024);
  for (unsigned i = 0; i < KEY_LENS * 3; i++) {
    idem__store_op op = {.verb = IDEM__STORE_REMOVE, .space = IDEM__STORE_ONCE, .name = name};
    op.expect = IDEM__STORE_ANY;
    snprintf(name, sizeof name, "k%02u", i);
    assert_int_equal(ask(store, op, NULL).status, IDEM_OK);
  }
  assert_true(number_in(path, "SELECT bytes FROM totals") == 0);
  idem__store_unref(store);
}

static void a_queue_that_is_full_refuses(void **state) {
  char path[64], why[256];
  static char large[2048];
  idem__store *store;
  (void)state;
  name_file(path);
  idem__sqlite_opts opts = {.path = path, .queued_bytes = 1024};
  assert_int_equal(module->open(&opts, &store, why, sizeof why), IDEM_OK);
  idem__store_answer answer = ask(
      store,
      (idem__store_op){.verb = IDEM__STORE_PUT, .name = "a", .bytes = large, .len = sizeof large},
      NULL);
  assert_int_equal(answer.status, IDEM_E_LIMIT);
  assert_int_equal(get(store, "a", NULL).status, IDEM_E_NOTFOUND);
  idem__store_unref(store);
}

static void what_is_open_when_the_store_goes_ends_once(void **state) {
  answered all[200];
  (void)state;
  idem__store *store = make(0);
  memset(all, 0, sizeof all);
  for (int i = 0; i < 200; i++)
    idem__store_run(store, &(idem__store_op){.verb = IDEM__STORE_PUT,
                                             .name = "a",
                                             .name_len = 1,
                                             .expect = IDEM__STORE_ANY,
                                             .done = on_answer,
                                             .user = &all[i]});
  idem__store_unref(store);
  for (int i = 0; i < 200; i++) {
    assert_int_equal(all[i].times, 1);
    assert_true(all[i].answer.status == IDEM_OK || all[i].answer.status == IDEM_E_CLOSED);
  }
}

int main(void) {
  const store_maker sqlite = {
      .name = "store.sqlite", .make = make, .pump = pump, .pass = idem__sqlite_module_table.pass};
  const struct CMUnitTest own[] = {
      cmocka_unit_test(news_of_any_size_reach_all_who_share_the_file),
      cmocka_unit_test(more_groups_than_are_kept_in_memory_are_counted),
      cmocka_unit_test(keys_can_be_listed_though_no_index_has_them),
      cmocka_unit_test(a_version_is_of_its_own_record_alone),
      cmocka_unit_test(a_change_gives_the_time_that_it_says),
      cmocka_unit_test(what_another_did_counts_before_what_is_remembered),
      cmocka_unit_test(what_keys_take_is_counted_and_given_back),
      cmocka_unit_test(a_queue_that_is_full_refuses),
      cmocka_unit_test(what_is_open_when_the_store_goes_ends_once),
  };
  if (make_folder(NULL) != 0) return 1;
  int failed = store_contract_run(&sqlite);
  return failed + cmocka_run_group_tests(own, NULL, remove_folder);
}
