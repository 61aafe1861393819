/* test_sqlite.c - the store in a SQLite file keeps the contract of stores, survives its process, is shared by several
 * stores on one file, and says what is wrong with a file it cannot use. */
#include "modules/sqlite/sqlite.h"
#include "support/store_contract.h"
#include "support/unit.h"

#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern const idem__sqlite_module idem__sqlite_module_table;
static const idem__sqlite_module *const module = &idem__sqlite_module_table;

static char folder[] = "/tmp/idem-sqlite-XXXXXX";
static unsigned files;

static void name_file(char path[64]) { snprintf(path, 64, "%s/%u.db", folder, ++files); }

static idem__store *open_at(const char *path, size_t max_bytes) {
  char why[256] = "";
  idem__store *store;
  idem__sqlite_opts opts = {.path = path, .max_bytes = max_bytes, .sync = IDEM__SQLITE_OFF};
  if (module->open(&opts, &store, why, sizeof why) != IDEM_OK) print_error("%s\n", why);
  return store;
}

static idem__store *make(size_t max_bytes) {
  char path[64];
  name_file(path);
  idem__store *store = open_at(path, max_bytes);
  if (store) module->pass(store, 0); /* time goes by what the tests say */
  return store;
}

/* ---------------------------------------------------------------- asking */

typedef struct answered {
  _Atomic int times;
  idem__store_answer answer;
  char bytes[64];
} answered;

static void on_answer(const idem__store_answer *answer, void *user) {
  answered *self = user;
  self->answer = *answer;
  size_t len = answer->len < sizeof self->bytes - 1 ? answer->len : sizeof self->bytes - 1;
  if (len) memcpy(self->bytes, answer->bytes, len);
  self->bytes[len] = 0;
  atomic_fetch_add(&self->times, 1);
}

static idem__store_answer ask(idem__store *store, idem__store_op op, char *bytes) {
  answered self = {.times = 0};
  op.done = on_answer;
  op.user = &self;
  if (op.name && !op.name_len) op.name_len = strlen(op.name);
  idem__store_run(store, &op);
  while (!atomic_load(&self.times)) sched_yield();
  if (bytes) memcpy(bytes, self.bytes, sizeof self.bytes);
  return self.answer;
}

static idem__store_answer put(idem__store *store, const char *name, const char *text,
                              uint64_t expect) {
  return ask(store,
             (idem__store_op){.verb = IDEM__STORE_PUT,
                              .name = name,
                              .bytes = text,
                              .len = strlen(text),
                              .expect = expect},
             NULL);
}

static idem__store_answer get(idem__store *store, const char *name, char *bytes) {
  return ask(store, (idem__store_op){.verb = IDEM__STORE_GET, .name = name}, bytes);
}

/* Watchers have been told of what was answered when a second question comes back. */
static void pump(idem__store *store) {
  get(store, "-", NULL);
  get(store, "-", NULL);
}

/* ------------------------------------------------------------------ files */

static void what_was_answered_is_there_in_the_next_process(void **state) {
  char path[64], bytes[64];
  (void)state;
  name_file(path);
  idem__store *store = open_at(path, 0);
  uint64_t version = put(store, "a", "one", IDEM__STORE_ABSENT).version;
  ask(store, (idem__store_op){.verb = IDEM__STORE_APPEND, .name = "a", .bytes = "x", .len = 1},
      NULL);
  idem__store_unref(store);
  store = open_at(path, 0);
  assert_true(get(store, "a", bytes).version == version);
  assert_string_equal(bytes, "one");
  assert_true(ask(store, (idem__store_op){.verb = IDEM__STORE_READ, .name = "a"}, NULL).number ==
              1);
  assert_true(put(store, "a", "two", version).version > version);
  idem__store_unref(store);
}

/* Writes until it is killed and says on a pipe what it was told had happened. */
static void write_for_ever(const char *path, int pipe) {
  idem__store *store = open_at(path, 0);
  for (unsigned i = 1;; i++) {
    char name[16];
    snprintf(name, sizeof name, "n%u", i);
    if (put(store, name, name, IDEM__STORE_ABSENT).status != IDEM_OK) _exit(1);
    if (write(pipe, &i, sizeof i) != sizeof i) _exit(1);
  }
}

static void expect_sound(const char *path) {
  sqlite3 *database;
  sqlite3_stmt *statement;
  assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
  assert_int_equal(sqlite3_prepare_v2(database, "PRAGMA integrity_check", -1, &statement, NULL),
                   SQLITE_OK);
  assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
  assert_string_equal((const char *)sqlite3_column_text(statement, 0), "ok");
  sqlite3_finalize(statement);
  sqlite3_close(database);
}

static void nothing_that_was_answered_is_lost_with_its_process(void **state) {
  char path[64], bytes[64], name[16];
  unsigned last = 0, number;
  int ends[2];
  (void)state;
  name_file(path);
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) write_for_ever(path, ends[1]);
  close(ends[1]);
  while (last < 50 && read(ends[0], &number, sizeof number) == sizeof number) last = number;
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  while (read(ends[0], &number, sizeof number) == sizeof number) last = number;
  close(ends[0]);
  assert_true(last >= 50);
  expect_sound(path);
  idem__store *store = open_at(path, 0);
  for (unsigned i = 1; i <= last; i++) {
    snprintf(name, sizeof name, "n%u", i);
    assert_int_equal(get(store, name, bytes).status, IDEM_OK);
    assert_string_equal(bytes, name);
  }
  idem__store_unref(store);
}

static void a_file_is_for_its_owner_alone(void **state) {
  char path[64], wal[80];
  struct stat found;
  (void)state;
  name_file(path);
  idem__store *store = open_at(path, 0);
  put(store, "a", "one", IDEM__STORE_ABSENT);
  snprintf(wal, sizeof wal, "%s-wal", path);
  assert_int_equal(stat(path, &found), 0);
  assert_int_equal(found.st_mode & 0777, 0600);
  assert_int_equal(stat(wal, &found), 0);
  assert_int_equal(found.st_mode & 0777, 0600);
  idem__store_unref(store);
}

static void expect_refused(const char *path, const char *reason) {
  char why[256] = "";
  idem__store *store = NULL;
  idem__sqlite_opts opts = {.path = path};
  assert_int_equal(module->open(&opts, &store, why, sizeof why), IDEM_E_INVAL);
  assert_null(store);
  if (!strstr(why, reason)) fail_msg("\"%s\" does not say \"%s\"", why, reason);
}

static void a_file_that_others_reach_is_refused(void **state) {
  char path[64], other[80];
  (void)state;
  name_file(path);
  idem__store_unref(open_at(path, 0));
  static const mode_t open_to[] = {0644, 0602, 0640};
  for (size_t i = 0; i < sizeof open_to / sizeof *open_to; i++) {
    assert_int_equal(chmod(path, open_to[i]), 0);
    expect_refused(path, "chmod 600");
  }
  assert_int_equal(chmod(path, 0600), 0);
  snprintf(other, sizeof other, "%s.link", path);
  assert_int_equal(symlink(path, other), 0);
  expect_refused(other, "a symbolic link");
  assert_int_equal(unlink(other), 0);
  assert_int_equal(link(path, other), 0);
  expect_refused(path, "a hard link");
  assert_int_equal(unlink(other), 0);
  idem__store_unref(open_at(path, 0));
}

static void what_is_no_store_is_refused_with_the_reason(void **state) {
  char path[64];
  sqlite3 *database;
  (void)state;
  name_file(path);
  assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
  sqlite3_exec(database, "CREATE TABLE mine(x)", NULL, NULL, NULL);
  sqlite3_close(database);
  assert_int_equal(chmod(path, 0600), 0);
  expect_refused(path, "not a store of this version");
  name_file(path);
  idem__store_unref(open_at(path, 0));
  assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
  sqlite3_exec(database, "PRAGMA user_version = 2", NULL, NULL,
               NULL); /* one that was never released */
  sqlite3_close(database);
  expect_refused(path, "not a store of this version");
  name_file(path);
  FILE *file = fopen(path, "w");
  fputs("this is not a database, but long enough to be looked at as if it were one", file);
  fclose(file);
  assert_int_equal(chmod(path, 0600), 0);
  expect_refused(path, "not a database");
  expect_refused("/nowhere/at/all.db", "No such file");
  name_file(path);
  assert_int_equal(mkfifo(path, 0600), 0);
  expect_refused(path, "not a regular file");
}

/* ----------------------------------------------------------- two on one file */

typedef struct heard {
  _Atomic unsigned puts, told;
} heard;

static void hear(const idem__store_change *change, void *user) {
  heard *all = user;
  if (change->event == IDEM__STORE_WAS_PUT) atomic_fetch_add(&all->puts, 1);
  if (change->event == IDEM__STORE_WAS_TOLD) atomic_fetch_add(&all->told, 1);
}

static void two_stores_on_one_file_see_and_tell_each_other(void **state) {
  char path[64], bytes[64];
  heard all = {0};
  idem__store_watcher *watcher;
  (void)state;
  name_file(path);
  idem__store *one = open_at(path, 0), *other = open_at(path, 0);
  assert_int_equal(idem__store_watch(other, IDEM__STORE_SESSIONS, hear, &all, &watcher), IDEM_OK);
  uint64_t version = put(one, "a", "one", IDEM__STORE_ABSENT).version;
  assert_true(get(other, "a", bytes).version == version);
  assert_string_equal(bytes, "one");
  assert_int_equal(put(other, "a", "two", IDEM__STORE_ABSENT).status, IDEM_E_EXISTS);
  assert_int_equal(put(other, "a", "two", version).status, IDEM_OK);
  assert_int_equal(put(one, "a", "three", version).status, IDEM_E_STATE);
  ask(one, (idem__store_op){.verb = IDEM__STORE_TELL, .name = "uri:x"}, NULL);
  while (atomic_load(&all.puts) < 2 || atomic_load(&all.told) < 1)
    sched_yield(); /* without a question */
  idem__store_unwatch(other, watcher);
  idem__store_unref(one);
  idem__store_unref(other);
}

/* Somebody else holds the file for longer than one waits: nobody knows, and the next time it works. */
static void a_file_that_another_holds_is_waited_for_and_given_up(void **state) {
  char path[64], why[256];
  sqlite3 *database;
  idem__store *store;
  (void)state;
  name_file(path);
  idem__sqlite_opts opts = {.path = path, .busy_ms = 1};
  assert_int_equal(module->open(&opts, &store, why, sizeof why), IDEM_OK);
  assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
  assert_int_equal(sqlite3_exec(database, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
  assert_int_equal(put(store, "a", "one", IDEM__STORE_ABSENT).status, IDEM_E_SYS);
  assert_int_equal(get(store, "a", NULL).status, IDEM_E_NOTFOUND); /* readers need not wait */
  sqlite3_exec(database, "ROLLBACK", NULL, NULL, NULL);
  assert_int_equal(put(store, "a", "one", IDEM__STORE_ABSENT).status, IDEM_OK);
  sqlite3_close(database);
  idem__store_unref(store);
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

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  char path[96];
  static const char *const endings[] = {"", "-wal", "-shm"};
  (void)state;
  for (unsigned i = 1; i <= files; i++)
    for (int j = 0; j < 3; j++) {
      snprintf(path, sizeof path, "%s/%u.db%s", folder, i, endings[j]);
      unlink(path);
    }
  return rmdir(folder);
}

int main(void) {
  const store_maker sqlite = {
      .name = "store.sqlite", .make = make, .pump = pump, .pass = idem__sqlite_module_table.pass};
  const struct CMUnitTest own[] = {
      cmocka_unit_test(what_was_answered_is_there_in_the_next_process),
      cmocka_unit_test(nothing_that_was_answered_is_lost_with_its_process),
      cmocka_unit_test(a_file_is_for_its_owner_alone),
      cmocka_unit_test(a_file_that_others_reach_is_refused),
      cmocka_unit_test(what_is_no_store_is_refused_with_the_reason),
      cmocka_unit_test(two_stores_on_one_file_see_and_tell_each_other),
      cmocka_unit_test(a_file_that_another_holds_is_waited_for_and_given_up),
      cmocka_unit_test(news_of_any_size_reach_all_who_share_the_file),
      cmocka_unit_test(more_groups_than_are_kept_in_memory_are_counted),
      cmocka_unit_test(keys_can_be_listed_though_no_index_has_them),
      cmocka_unit_test(a_version_is_of_its_own_record_alone),
      cmocka_unit_test(a_change_gives_the_time_that_it_says),
      cmocka_unit_test(what_another_did_counts_before_what_is_remembered),
      cmocka_unit_test(a_queue_that_is_full_refuses),
      cmocka_unit_test(what_is_open_when_the_store_goes_ends_once),
  };
  if (make_folder(NULL) != 0) return 1;
  int failed = store_contract_run(&sqlite);
  return failed + cmocka_run_group_tests(own, NULL, remove_folder);
}
