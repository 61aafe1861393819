/* test_sqlite_file.c - the file of a SQLite store: it survives its process, is its owner's alone, is shared by several stores,
 * and one that cannot be used is refused with the reason. */
#include "modules/sqlite/sqlite_records.h"
#include "sqlite_folder.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

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

/* So many pages may the file have; the writer is asleep. 0: as many as it likes. */
static void limit_pages(idem__store *store, unsigned pages) {
  char sql[64];
  snprintf(sql, sizeof sql, "PRAGMA max_page_count = %u", pages ? pages : 1000000);
  assert_int_equal(
      sqlite3_exec(IDEM_CONTAINER(store, sqlite_store, head)->database, sql, NULL, NULL, NULL),
      SQLITE_OK);
}

/* What is there is shown, what has no room is refused, and nobody need think that it may have happened. */
static void a_full_disk_is_a_full_store(void **state) {
  static char large[100000];
  char path[64], bytes[64];
  (void)state;
  name_file(path);
  idem__store *store = open_at(path, 0);
  assert_int_equal(put(store, "a", "one", IDEM__STORE_ABSENT).status, IDEM_OK);
  limit_pages(store, 1); /* which is less than there are: no more then */
  idem__store_op op = {.verb = IDEM__STORE_PUT, .name = "b", .bytes = large, .len = sizeof large};
  idem__store_answer full = ask(store, op, NULL);
  assert_int_equal(full.status, IDEM_E_LIMIT);
  assert_int_equal(full.number, IDEM__STORE_FULL_OUTSIDE);
  assert_int_equal(get(store, "a", bytes).status, IDEM_OK);
  assert_string_equal(bytes, "one");
  assert_int_equal(get(store, "b", NULL).status, IDEM_E_NOTFOUND);
  limit_pages(store, 0);
  assert_int_equal(ask(store, op, NULL).status, IDEM_OK);
  idem__store_unref(store);
}

static void run_sql(idem__store *store, const char *sql) {
  assert_int_equal(
      sqlite3_exec(IDEM_CONTAINER(store, sqlite_store, head)->database, sql, NULL, NULL, NULL),
      SQLITE_OK);
}

/* Nobody can find such a pair, so one is made; the writer is asleep. */
static void give_hash_of(idem__store *head, const char *name, const char *other) {
  const sqlite_store *store = IDEM_CONTAINER(head, sqlite_store, head);
  char sql[128];
  snprintf(sql, sizeof sql, "UPDATE records SET hash = %lld WHERE name = CAST('%s' AS BLOB)",
           (long long)sqlite_hash(store, IDEM__STORE_SESSIONS, other, strlen(other)), name);
  run_sql(head, sql);
  assert_int_equal(sqlite3_changes(store->database), 1);
}

static void two_names_with_one_hash_are_two_records(void **state) {
  char path[64], bytes[64];
  (void)state;
  name_file(path);
  idem__store *store = open_at(path, 0);
  assert_int_equal(put(store, "a", "one", IDEM__STORE_ABSENT).status, IDEM_OK);
  give_hash_of(store, "a", "b");
  assert_int_equal(get(store, "b", NULL).status, IDEM_E_NOTFOUND);
  assert_int_equal(put(store, "b", "two", IDEM__STORE_ABSENT).status, IDEM_OK);
  assert_int_equal(put(store, "b", "three", IDEM__STORE_ABSENT).status, IDEM_E_EXISTS);
  assert_int_equal(get(store, "b", bytes).status, IDEM_OK);
  assert_string_equal(bytes, "two");
  run_sql(store, "DELETE FROM records WHERE name = CAST('a' AS BLOB)");
  /* Its hash is free now; the name is not. Also for who opens the file later. */
  assert_int_equal(put(store, "b", "three", IDEM__STORE_ABSENT).status, IDEM_E_EXISTS);
  idem__store_unref(store);
  store = open_at(path, 0);
  assert_int_equal(put(store, "b", "three", IDEM__STORE_ABSENT).status, IDEM_E_EXISTS);
  assert_int_equal(put(store, "b", "three", IDEM__STORE_ANY).status, IDEM_OK);
  idem__store_op remove = {.verb = IDEM__STORE_REMOVE, .name = "b", .expect = IDEM__STORE_ANY};
  assert_int_equal(ask(store, remove, NULL).status, IDEM_OK);
  assert_int_equal(get(store, "b", NULL).status, IDEM_E_NOTFOUND);
  idem__store_unref(store);
}

static int64_t number_of(idem__store *store, const char *sql) {
  sqlite3_stmt *statement;
  sqlite3 *database = IDEM_CONTAINER(store, sqlite_store, head)->database;
  assert_int_equal(sqlite3_prepare_v2(database, sql, -1, &statement, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
  int64_t number = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  return number;
}

static idem__store_answer put_key(idem__store *store, const char *name, uint64_t ttl_ms,
                                  uint64_t expect) {
  return ask(store,
             (idem__store_op){.verb = IDEM__STORE_PUT,
                              .space = IDEM__STORE_ONCE,
                              .name = name,
                              .limit = 3,
                              .ttl_ms = ttl_ms,
                              .expect = expect},
             NULL);
}

/* Keys are in no index by their time: what says when they are due leaves none, and takes none that was given more. */
static void keys_go_when_their_time_is_over(void **state) {
  (void)state;
  idem__store *store = make(0);
  uint64_t first = put_key(store, "first", 1000, IDEM__STORE_ABSENT).version;
  assert_int_equal(put_key(store, "second", 1000, IDEM__STORE_ABSENT).status, IDEM_OK);
  assert_int_equal(put_key(store, "third", 5000, IDEM__STORE_ABSENT).status, IDEM_OK);
  assert_int_equal(put_key(store, "fourth", 1000, IDEM__STORE_ABSENT).status, IDEM_E_LIMIT);
  assert_int_equal(put_key(store, "first", 9000, first).status, IDEM_OK);
  module->pass(store, 1000);
  assert_int_equal(put_key(store, "fourth", 1000, IDEM__STORE_ABSENT).status, IDEM_OK);
  assert_true(number_of(store, "SELECT count(*) FROM records WHERE space = 4") == 3);
  module->pass(store, 4000);
  assert_int_equal(put_key(store, "second", 0, IDEM__STORE_ABSENT).status, IDEM_OK);
  assert_true(number_of(store, "SELECT count(*) FROM records WHERE space = 4") == 2);
  module->pass(store, 4000);
  assert_int_equal(put_key(store, "first", 1000, IDEM__STORE_ABSENT).status, IDEM_OK);
  assert_true(number_of(store, "SELECT count(*) FROM due") == 1);
  assert_true(number_of(store, "SELECT count4 FROM totals") == 2);
  idem__store_unref(store);
}

/* What is made for a day and then given a minute or two, one after another: few rows say when they are due. */
static void few_rows_say_when_keys_are_due(void **state) {
  (void)state;
  idem__store *store = make(0);
  idem__store_op op = {.verb = IDEM__STORE_PUT, .space = IDEM__STORE_ONCE};
  for (unsigned i = 0; i < 500; i++) {
    char name[16];
    snprintf(name, sizeof name, "k%u", i);
    op.name = name;
    op.ttl_ms = 86400000;
    op.expect = IDEM__STORE_ABSENT;
    op.expect = ask(store, op, NULL).version;
    op.ttl_ms = i % 2 ? 60000 : 120000;
    assert_int_equal(ask(store, op, NULL).status, IDEM_OK);
    module->pass(store, 10);
  }
  assert_in_range(number_of(store, "SELECT count(*) FROM due"), 1, 20);
  module->pass(store, 600000);
  op.name = "last"; /* who writes sweeps, some at a time */
  op.expect = IDEM__STORE_ABSENT;
  for (int i = 0; i < 40; i++, op.expect = IDEM__STORE_ANY)
    assert_int_equal(ask(store, op, NULL).status, IDEM_OK);
  assert_int_equal(number_of(store, "SELECT count(*) FROM records WHERE space = 4"), 1);
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

/* More than the cache holds: pages are written before their transaction ends, and some of them again. */
#define LARGE ((size_t)60 * 1024)
#define LARGE_COUNT 400

static void put_large(idem__store *store, char fill) {
  static answered all[LARGE_COUNT];
  static char bytes[LARGE];
  memset(all, 0, sizeof all);
  memset(bytes, fill, sizeof bytes);
  for (unsigned i = 0; i < LARGE_COUNT; i++) {
    char name[16];
    idem__store_op op = {.verb = IDEM__STORE_PUT, .name = name, .bytes = bytes, .len = LARGE};
    op.name_len = (size_t)snprintf(name, sizeof name, "l%u", i);
    op.expect = IDEM__STORE_ANY;
    op.done = on_answer;
    op.user = &all[i];
    idem__store_run(store, &op);
  }
  for (unsigned i = 0; i < LARGE_COUNT; i++) {
    while (!atomic_load(&all[i].times)) sched_yield();
    if (all[i].answer.status != IDEM_OK) _exit(1);
  }
}

static void a_transaction_larger_than_the_cache_survives_its_process(void **state) {
  char path[64], bytes[64], name[16], said = 0;
  int ends[2];
  (void)state;
  name_file(path);
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    idem__store *store = open_at(path, 0);
    put_large(store, 'a');
    put_large(store, 'b');
    if (write(ends[1], "x", 1) != 1) _exit(1);
    pause();
  }
  close(ends[1]);
  assert_int_equal(read(ends[0], &said, 1), 1);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  close(ends[0]);
  expect_sound(path);
  idem__store *store = open_at(path, 0);
  for (unsigned i = 0; i < LARGE_COUNT; i++) {
    snprintf(name, sizeof name, "l%u", i);
    idem__store_answer answer = get(store, name, bytes);
    assert_true(answer.status == IDEM_OK && answer.len == LARGE && bytes[0] == 'b');
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
  expect_refused(path, "not a store of idem");
  name_file(path);
  idem__store_unref(open_at(path, 0));
  assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
  sqlite3_exec(database, "PRAGMA user_version = 2", NULL, NULL,
               NULL); /* one that was never released */
  sqlite3_close(database);
  expect_refused(path, "not a store of this version");
  expect_refused(path, "move it away");
  expect_refused(path, "keys in it are forgotten");
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

/* The writer has it. */
static bool is_taken(idem__store *head) {
  sqlite_store *store = IDEM_CONTAINER(head, sqlite_store, head);
  pthread_mutex_lock(&store->lock);
  bool taken = store->count == 0;
  pthread_mutex_unlock(&store->lock);
  return taken;
}

static void note_status(const idem__store_answer *answer, void *user) {
  *(idem_status *)user = answer->status;
}

/* A process that stops has a moment, not as long as it would wait otherwise. */
static void a_store_that_ends_does_not_wait_for_who_holds_its_file(void **state) {
  char path[64], why[256];
  sqlite3 *database;
  idem__store *store;
  idem_status status = IDEM_OK;
  (void)state;
  name_file(path);
  idem__sqlite_opts opts = {.path = path, .busy_ms = 600000};
  assert_int_equal(module->open(&opts, &store, why, sizeof why), IDEM_OK);
  assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
  assert_int_equal(sqlite3_exec(database, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
  store->kind->run(store, &(idem__store_op){.verb = IDEM__STORE_PUT,
                                            .name = "a",
                                            .name_len = 1,
                                            .expect = IDEM__STORE_ABSENT,
                                            .done = note_status,
                                            .user = &status});
  while (!is_taken(store)) sched_yield();
  time_t began = time(NULL);
  idem__store_unref(store);
  assert_int_equal(status, IDEM_E_SYS);
  assert_true(time(NULL) - began < 60);
  sqlite3_close(database);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_was_answered_is_there_in_the_next_process),
      cmocka_unit_test(a_full_disk_is_a_full_store),
      cmocka_unit_test(two_names_with_one_hash_are_two_records),
      cmocka_unit_test(keys_go_when_their_time_is_over),
      cmocka_unit_test(few_rows_say_when_keys_are_due),
      cmocka_unit_test(nothing_that_was_answered_is_lost_with_its_process),
      cmocka_unit_test(a_transaction_larger_than_the_cache_survives_its_process),
      cmocka_unit_test(a_file_is_for_its_owner_alone),
      cmocka_unit_test(a_file_that_others_reach_is_refused),
      cmocka_unit_test(what_is_no_store_is_refused_with_the_reason),
      cmocka_unit_test(two_stores_on_one_file_see_and_tell_each_other),
      cmocka_unit_test(a_file_that_another_holds_is_waited_for_and_given_up),
      cmocka_unit_test(a_store_that_ends_does_not_wait_for_who_holds_its_file),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
