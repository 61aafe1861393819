/* test_redis.c - the store in Redis keeps the contract of stores, with a real Redis on a socket of the test's own; several
 * stores on one Redis see and tell each other, users and databases are kept apart, and what cannot be is refused with the
 * reason. */
#include "modules/redis/redis.h"
#include "store_asker.h"
#include "support/redis_server.h"
#include "support/store_contract.h"
#include "uv/redis.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

extern const idem__redis_module idem__redis_module_table;
static const idem__redis_module *const module = &idem__redis_module_table;

static redis_server server;
static unsigned stores;

static idem__store *open_url(const char *text) {
  char why[256] = "";
  idem__redis_url url;
  idem__store *store = NULL;
  idem_status status = idem__redis_url_parse(text, &url, why, sizeof why);
  if (status == IDEM_OK)
    status = idem__redis_open(module, &url, NULL, NULL, &store, NULL, why, sizeof why);
  if (status != IDEM_OK) print_error("%s\n", why);
  return store;
}

static idem__store *open_with(const char *options) {
  char text[256];
  snprintf(text, sizeof text, "redis+unix:%s?%s", server.socket, options);
  return open_url(text);
}

/* Keys of its own: as good as an empty Redis. */
static idem__store *make(size_t max_bytes) {
  char options[80];
  snprintf(options, sizeof options, "prefix=t%u&max_bytes=%zu", ++stores,
           max_bytes ? max_bytes : (size_t)1 << 30);
  idem__store *store = open_with(options);
  if (store) module->pass(store, 0); /* time goes by what the tests say */
  return store;
}

/* --------------------------------------------------------------- settling */

static void hear_mark(const idem__store_change *change, void *user) {
  (void)change;
  atomic_store((_Atomic bool *)user, true);
}

/* News come in their order: once this one is here, those before it were told. */
static void pump(idem__store *store) {
  _Atomic bool marked = false;
  idem__store_watcher *watcher;
  assert_int_equal(idem__store_watch(store, IDEM__STORE_NEWS, hear_mark, &marked, &watcher),
                   IDEM_OK);
  ask(store, (idem__store_op){.verb = IDEM__STORE_TELL, .space = IDEM__STORE_NEWS, .name = "mark"},
      NULL);
  while (!atomic_load(&marked)) sched_yield();
  idem__store_unwatch(store, watcher);
}

/* ------------------------------------------------------ several on one Redis */

static void two_stores_on_one_redis_see_and_tell_each_other(void **state) {
  char bytes[64];
  heard all = {0};
  idem__store_watcher *watcher;
  (void)state;
  idem__store *one = open_with("prefix=two"), *other = open_with("prefix=two");
  get(other, "a", NULL); /* it listens when it has answered */
  assert_int_equal(idem__store_watch(other, IDEM__STORE_SESSIONS, hear, &all, &watcher), IDEM_OK);
  uint64_t version = put(one, "a", "one", IDEM__STORE_ABSENT).version;
  assert_true(get(other, "a", bytes).version == version);
  assert_string_equal(bytes, "one");
  assert_int_equal(put(other, "a", "two", IDEM__STORE_ABSENT).status, IDEM_E_EXISTS);
  assert_int_equal(put(other, "a", "two", version).status, IDEM_OK);
  assert_int_equal(put(one, "a", "three", version).status, IDEM_E_STATE);
  ask(one, (idem__store_op){.verb = IDEM__STORE_TELL, .name = "uri:x"}, NULL);
  while (atomic_load(&all.puts) < 2 || atomic_load(&all.told) < 1) sched_yield();
  idem__store_unwatch(other, watcher);
  idem__store_unref(one);
  idem__store_unref(other);
}

static void prefixes_and_databases_do_not_see_each_other(void **state) {
  static const char *const others[] = {"prefix=mine2", "prefix=mine&db=3", "db=3"};
  (void)state;
  heard all = {0};
  idem__store_watcher *watcher;
  idem__store *mine = open_with("prefix=mine");
  assert_int_equal(idem__store_watch(mine, IDEM__STORE_SESSIONS, hear, &all, &watcher), IDEM_OK);
  assert_int_equal(put(mine, "a", "mine", IDEM__STORE_ABSENT).status, IDEM_OK);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    idem__store *other = open_with(others[i]);
    assert_int_equal(get(other, "a", NULL).status, IDEM_E_NOTFOUND);
    assert_int_equal(put(other, "a", "theirs", IDEM__STORE_ABSENT).status, IDEM_OK);
    pump(other);
    idem__store_unref(other);
  }
  pump(mine);
  assert_int_equal(atomic_load(&all.puts), 1);
  idem__store_unwatch(mine, watcher);
  idem__store_unref(mine);
}

/* Records go when their time is over, also while nobody asks for them: by Redis's clock. */
static void what_expires_is_told_without_a_question(void **state) {
  _Atomic bool gone = false;
  idem__store_watcher *watcher;
  (void)state;
  idem__store *store = open_with("prefix=expiring");
  assert_int_equal(idem__store_watch(store, IDEM__STORE_TASKS, hear_mark, &gone, &watcher),
                   IDEM_OK);
  idem__store_op op = {
      .verb = IDEM__STORE_PUT, .space = IDEM__STORE_TASKS, .name = "a", .ttl_ms = 1};
  assert_int_equal(ask(store, op, NULL).status, IDEM_OK);
  pump(store);
  atomic_store(&gone, false);
  while (!atomic_load(&gone)) sched_yield();
  idem__store_unwatch(store, watcher);
  assert_string_equal(redis_server_ask(&server, "ZCARD {expiring}:x1"), ":0");
  assert_string_equal(redis_server_ask(&server, "HGET {expiring}:m bytes"), "0");
  idem__store_unref(store);
}

static void scripts_that_redis_forgot_are_sent_again(void **state) {
  char bytes[64];
  (void)state;
  idem__store *store = open_with("prefix=scripts");
  assert_int_equal(put(store, "a", "one", IDEM__STORE_ABSENT).status, IDEM_OK);
  assert_string_equal(redis_server_ask(&server, "SCRIPT FLUSH"), "+OK");
  assert_int_equal(put(store, "a", "two", IDEM__STORE_ANY).status, IDEM_OK);
  assert_int_equal(get(store, "a", bytes).status, IDEM_OK);
  assert_string_equal(bytes, "two");
  idem__store_unref(store);
}

static bool count_item(const idem__store_item *item, void *user) {
  answered *self = user;
  self->bytes[0] = (char)item->len;
  return true;
}

/* Whoever wrote it there: what is not as our scripts leave it is not believed. */
static void what_others_put_under_our_keys_is_an_error_of_theirs(void **state) {
  (void)state;
  idem__store *store = open_with("prefix=odd");
  redis_server_ask(&server, "SET {odd}:r0:a text");
  assert_int_equal(get(store, "a", NULL).status, IDEM_E_SYS); /* WRONGTYPE */
  redis_server_ask(&server, "HSET {odd}:r0:b v text n many e 0");
  assert_int_equal(get(store, "b", NULL).status, IDEM_E_SYS); /* no version of ours */
  assert_int_equal(put(store, "c", "fine", IDEM__STORE_ABSENT).status, IDEM_OK);
  redis_server_ask(&server, "XADD {odd}:l0:c 7-0 d entry");
  redis_server_ask(&server, "HSET {odd}:r0:c l 99999999999999999999");
  idem__store_op read = {.verb = IDEM__STORE_READ, .name = "c", .each = count_item};
  assert_int_equal(ask(store, read, NULL).status, IDEM_E_SYS);
  assert_int_equal(put(store, "d", "fine", IDEM__STORE_ABSENT).status, IDEM_OK);
  idem__store_unref(store);
}

static void a_full_redis_is_a_full_store(void **state) {
  static char large[100000];
  (void)state;
  idem__store *store = open_with("prefix=full");
  assert_int_equal(put(store, "a", "one", IDEM__STORE_ABSENT).status, IDEM_OK);
  assert_string_equal(redis_server_ask(&server, "CONFIG SET maxmemory 1"), "+OK");
  idem__store_op op = {.verb = IDEM__STORE_PUT, .name = "b", .bytes = large, .len = sizeof large};
  idem__store_answer full = ask(store, op, NULL);
  assert_int_equal(full.status, IDEM_E_LIMIT);
  assert_int_equal(full.number, IDEM__STORE_FULL_OUTSIDE);
  assert_int_equal(get(store, "a", NULL).status, IDEM_OK);
  idem__store_op remove = {.verb = IDEM__STORE_REMOVE, .name = "a", .expect = IDEM__STORE_ANY};
  assert_int_equal(ask(store, remove, NULL).status, IDEM_OK);
  assert_string_equal(redis_server_ask(&server, "CONFIG SET maxmemory 0"), "+OK");
  assert_int_equal(ask(store, op, NULL).status, IDEM_OK);
  idem__store_unref(store);
}

/* A lease or a session that could not be renewed would end for what others have kept. */
static void who_is_there_is_renewed_in_a_full_redis(void **state) {
  (void)state;
  idem__store *store = open_with("prefix=renewed");
  module->pass(store, 0);
  idem__store_op op = {.verb = IDEM__STORE_PUT, .name = "a", .ttl_ms = 1000};
  uint64_t version = ask(store, op, NULL).version;
  op.verb = IDEM__STORE_TOUCH;
  assert_int_equal(ask(store, op, NULL).number, 0);
  assert_string_equal(redis_server_ask(&server, "CONFIG SET maxmemory 1"), "+OK");
  for (int i = 0; i < 5; i++) {
    module->pass(store, 900);
    idem__store_answer renewed = ask(store, op, NULL);
    assert_int_equal(renewed.status, IDEM_OK);
    assert_int_equal(renewed.number, IDEM__STORE_FULL_OUTSIDE);
    assert_true(renewed.version == version);
  }
  assert_int_equal(put(store, "b", "new", IDEM__STORE_ABSENT).status, IDEM_E_LIMIT);
  module->pass(store, 1001); /* nobody renews it: it goes, full or not */
  assert_int_equal(get(store, "a", NULL).status, IDEM_E_NOTFOUND);
  assert_string_equal(redis_server_ask(&server, "CONFIG SET maxmemory 0"), "+OK");
  assert_int_equal(put(store, "a", "new", IDEM__STORE_ABSENT).status, IDEM_OK);
  assert_int_equal(ask(store, op, NULL).number, 0);
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

/* -------------------------------------------------------------------- users */

static void write_secret(char path[128], const char *text, mode_t mode) {
  snprintf(path, 128, "%s/secret", server.folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
  assert_int_equal(chmod(path, mode), 0);
}

static void expect_at(const char *text, idem_status status) {
  idem__store *store = open_url(text);
  assert_non_null(store);
  assert_int_equal(get(store, "a", NULL).status, status);
  idem__store_unref(store);
}

/* As docs/guide/serve.md gives it: for every database and every part. */
static void a_user_has_its_keys_and_no_others(void **state) {
  static const char *const own[] = {"acl", "acl&db=3", "acl&parts=2", "acl&db=4&parts=3"},
                           *const others[] = {"acl2", "acl2&db=3", "ac&parts=2"};
  char path[128], text[320];
  (void)state;
  redis_server_ask(&server, "ACL SETUSER idem on >open-sesame resetkeys ~{acl}:* ~{acl[/#]*}:* "
                            "resetchannels &{acl}:* &{acl[/#]*}:* +@all -@admin -@dangerous");
  write_secret(path, "open-sesame\n", 0600);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
    redis_server_ask(&server, "DEL {acl}:m");
    snprintf(text, sizeof text, "redis+unix:idem@%s?password_file=%s&prefix=%s", server.socket,
             path, own[i]);
    expect_at(text, IDEM_E_NOTFOUND);
  }
  redis_server_ask(&server, "DEL {acl}:m");
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    snprintf(text, sizeof text, "redis+unix:idem@%s?password_file=%s&prefix=%s", server.socket,
             path, others[i]);
    expect_at(text, IDEM_E_SYS);
  }
  setenv("IDEM_TEST_PASSWORD", "open-sesame", 1);
  snprintf(text, sizeof text, "redis+unix:idem@%s?password_env=IDEM_TEST_PASSWORD&prefix=acl",
           server.socket);
  expect_at(text, IDEM_E_NOTFOUND);
  write_secret(path, "wrong", 0600);
  snprintf(text, sizeof text, "redis+unix:idem@%s?prefix=acl&password_file=%s", server.socket,
           path);
  expect_at(text, IDEM_E_SYS);
}

/* ----------------------------------------------------------------------- names */

static void expect_bad(const char *text, idem_status status, const char *reason) {
  char why[256] = "";
  idem__redis_url url;
  assert_int_equal(idem__redis_url_parse(text, &url, why, sizeof why), status);
  if (!strstr(why, reason)) fail_msg("\"%s\": \"%s\" does not say \"%s\"", text, why, reason);
  assert_string_equal(url.password, "");
}

static void a_name_that_cannot_be_is_refused_with_the_reason(void **state) {
  char path[128], text[256];
  (void)state;
  expect_bad("redis://", IDEM_E_INVAL, "redis://HOST:PORT");
  expect_bad("redis://:6379", IDEM_E_INVAL, "redis://HOST:PORT");
  expect_bad("redis://host:0", IDEM_E_INVAL, "redis://HOST:PORT");
  expect_bad("redis://host:70000", IDEM_E_INVAL, "redis://HOST:PORT");
  expect_bad("redis://[::1", IDEM_E_INVAL, "redis://HOST:PORT");
  expect_bad("redis://host/first", IDEM_E_INVAL, "a number");
  expect_bad("redis://host/3?db=4", IDEM_E_INVAL, "one database");
  expect_bad("redis://host?max_bytes=1", IDEM_E_INVAL, "4096 at least");
  expect_bad("redis://user:secret@host", IDEM_E_INVAL, "does not belong in a URL");
  expect_bad("redis://:secret@host", IDEM_E_INVAL, "does not belong in a URL");
  expect_bad("redis://user:sec/ret@host", IDEM_E_INVAL, "does not belong in a URL");
  expect_bad("redis://user@host", IDEM_E_INVAL, "password_file");
  expect_bad("redis://host?password=secret", IDEM_E_INVAL, "password_file");
  expect_bad("redis://host?ca=/x", IDEM_E_INVAL, "rediss");
  expect_bad("redis://host?parts=0", IDEM_E_INVAL, "1 to 64");
  expect_bad("redis://host?parts=65", IDEM_E_INVAL, "1 to 64");
  expect_bad("redis+unix:relative", IDEM_E_INVAL, "redis+unix:/PATH");
  expect_bad("redis+tcp://host", IDEM_E_INVAL, "redis://HOST:PORT");
  expect_bad("redis://host?password_env=IDEM_TEST_NOT_SET", IDEM_E_SYS, "not set");
  expect_bad("redis://host?password_file=/nowhere", IDEM_E_SYS, "No such file");
  write_secret(path, "open-sesame", 0644);
  snprintf(text, sizeof text, "redis://host?password_file=%s", path);
  expect_bad(text, IDEM_E_SYS, "chmod 600");
  write_secret(path, "\n", 0600);
  expect_bad(text, IDEM_E_SYS, "no password");
}

static void a_name_says_where_and_how(void **state) {
  char why[256] = "";
  idem__redis_url url;
  (void)state;
  assert_int_equal(idem__redis_url_parse("rediss://[::1]:7000/5?prefix=a.b-c_1&ca=/ca.pem", &url,
                                         why, sizeof why),
                   IDEM_OK);
  assert_true(url.tls);
  assert_string_equal(url.host, "::1");
  assert_string_equal(url.port, "7000");
  assert_int_equal(url.database, 5);
  assert_string_equal(url.prefix, "a.b-c_1");
  assert_string_equal(url.ca_file, "/ca.pem");
  assert_int_equal(idem__redis_url_parse("redis://host", &url, why, sizeof why), IDEM_OK);
  assert_string_equal(url.port, "6379");
  idem__store *store;
  snprintf(url.prefix, sizeof url.prefix, "{x}");
  assert_int_equal(idem__redis_open(module, &url, NULL, NULL, &store, NULL, why, sizeof why),
                   IDEM_E_INVAL);
  assert_non_null(strstr(why, "prefix"));
}

/* Of the module: where a part lies. */
extern void redis_name_part(char *tag, size_t size, const char *stem, unsigned part,
                            unsigned parts);
extern unsigned redis_slot_of(const char *tag);

/* So that nodes with equal stretches of slots have equally many; and no store of another number has the same tag. */
static void every_part_has_a_stretch_of_slots_of_its_own(void **state) {
  static const char *const stems[] = {"idem", "x", "a.long-prefix_of.many-letters/15"};
  char tag[96], number[16];
  (void)state;
  assert_int_equal(redis_slot_of("123456789"), 0x31c3); /* as the specification says */
  for (size_t s = 0; s < sizeof stems / sizeof *stems; s++) {
    for (unsigned parts = 1; parts <= IDEM__STORE_PARTS_MAX; parts++) {
      uint64_t seen = 0;
      snprintf(number, sizeof number, "#%u.", parts);
      for (unsigned part = 0; part < parts; part++) {
        redis_name_part(tag, sizeof tag, stems[s], part, parts);
        assert_true(part ? strstr(tag, number) != NULL : strcmp(tag, stems[s]) == 0);
        uint64_t stretch = (uint64_t)1 << (redis_slot_of(tag) * parts / 16384);
        assert_false(seen & stretch);
        seen |= stretch;
      }
    }
  }
}

/* One Redis can have them, too: it may become a cluster. Who names no number finds the one that is there. */
static void parts_on_one_redis_are_found_again(void **state) {
  char text[256], why[256], bytes[64];
  idem__redis_url url;
  (void)state;
  idem__store *store = open_with("prefix=later&parts=4");
  for (int i = 0; i < 20; i++) {
    snprintf(text, sizeof text, "n%d", i);
    assert_int_equal(put(store, text, "one", IDEM__STORE_ABSENT).status, IDEM_OK);
  }
  idem__store_unref(store);
  idem__redis_carrier *carrier;
  snprintf(text, sizeof text, "redis+unix:%s?prefix=later", server.socket);
  assert_int_equal(idem__redis_url_parse(text, &url, why, sizeof why), IDEM_OK);
  idem__redis_times first = {.first_alone = true};
  assert_int_equal(idem__redis_open(module, &url, &first, NULL, &store, &carrier, why, sizeof why),
                   IDEM_OK);
  get(store, "n0", NULL);
  assert_int_equal(idem__redis_parts(carrier), 4);
  assert_int_equal(idem__redis_complete(carrier, &url, NULL, 4, &store), IDEM_OK);
  for (int i = 0; i < 20; i++) {
    snprintf(text, sizeof text, "n%d", i);
    assert_int_equal(get(store, text, bytes).status, IDEM_OK);
  }
  idem__store_unref(store);
}

/* As they were before parts were counted. */
static void a_store_without_a_number_has_one_part(void **state) {
  (void)state;
  idem__store *store = open_with("prefix=early");
  assert_int_equal(put(store, "a", "one", IDEM__STORE_ABSENT).status, IDEM_OK);
  idem__store_unref(store);
  assert_string_equal(redis_server_ask(&server, "HDEL {early}:m parts"), ":1");
  store = open_with("prefix=early&parts=2");
  idem__store *first = idem__store_spread_at(store, 0);
  assert_int_equal(get(first, "a", NULL).status, IDEM_E_SYS);
  idem__store_unref(store);
  store = open_with("prefix=early");
  assert_int_equal(get(store, "a", NULL).status, IDEM_OK);
  idem__store_unref(store);
}

static void a_redis_that_is_not_there_is_an_error_at_once(void **state) {
  char why[256] = "";
  idem__redis_url url;
  idem__store *store;
  idem__redis_carrier *carrier;
  (void)state;
  assert_int_equal(idem__redis_url_parse("redis+unix:/nowhere/at/all", &url, why, sizeof why),
                   IDEM_OK);
  assert_int_equal(idem__redis_open(module, &url, NULL, NULL, &store, &carrier, why, sizeof why),
                   IDEM_OK);
  assert_int_equal(get(store, "a", NULL).status, IDEM_E_SYS);
  idem__redis_why(carrier, why, sizeof why);
  assert_non_null(strstr(why, "No such file"));
  idem__store_unref(store);
}

int main(void) {
  const store_maker redis = {
      .name = "store.redis", .make = make, .pump = pump, .pass = idem__redis_module_table.pass};
  const struct CMUnitTest own[] = {
      cmocka_unit_test(two_stores_on_one_redis_see_and_tell_each_other),
      cmocka_unit_test(prefixes_and_databases_do_not_see_each_other),
      cmocka_unit_test(what_expires_is_told_without_a_question),
      cmocka_unit_test(scripts_that_redis_forgot_are_sent_again),
      cmocka_unit_test(what_others_put_under_our_keys_is_an_error_of_theirs),
      cmocka_unit_test(a_full_redis_is_a_full_store),
      cmocka_unit_test(who_is_there_is_renewed_in_a_full_redis),
      cmocka_unit_test(what_is_open_when_the_store_goes_ends_once),
      cmocka_unit_test(a_user_has_its_keys_and_no_others),
      cmocka_unit_test(a_name_that_cannot_be_is_refused_with_the_reason),
      cmocka_unit_test(a_name_says_where_and_how),
      cmocka_unit_test(every_part_has_a_stretch_of_slots_of_its_own),
      cmocka_unit_test(parts_on_one_redis_are_found_again),
      cmocka_unit_test(a_store_without_a_number_has_one_part),
      cmocka_unit_test(a_redis_that_is_not_there_is_an_error_at_once),
  };
  if (!redis_server_start(&server, NULL)) return 1;
  int failed = store_contract_run(&redis) + cmocka_run_group_tests(own, NULL, NULL);
  redis_server_stop(&server);
  return failed;
}
