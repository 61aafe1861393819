/* test_redis_cluster.c - the store in a real cluster of three primaries and three replicas, spread over parts: it keeps the contract of stores; every primary has
 * some of it; opened at any node it finds all of it, follows a part whose slot is moved under load, and goes on when a primary dies. */
#include "modules/redis/redis.h"
#include "support/redis_cluster.h"
#include "support/store_contract.h"
#include "support/unit.h"
#include "uv/redis.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern const idem__redis_module idem__redis_module_table;

/* Of the module: where a part lies. */
extern void redis_name_part(char *tag, size_t size, const char *stem, unsigned part,
                            unsigned parts);
extern unsigned redis_slot_of(const char *tag);

#define NODES REDIS_CLUSTER_NODES
#define PARTS 6u

typedef redis_cluster cluster;

/* ------------------------------------------------------------------- asking */

typedef struct answered {
  _Atomic int times;
  idem_status status;
  uint64_t version, number;
} answered;

static void on_answer(const idem__store_answer *answer, void *user) {
  answered *self = user;
  self->status = answer->status;
  self->version = answer->version;
  self->number = answer->number;
  atomic_fetch_add(&self->times, 1);
}

static answered ask_in(idem__store *store, idem__store_space space, idem__store_verb verb,
                       const char *name) {
  answered self = {.times = 0};
  idem__store_op op = {
      .verb = verb, .name = name, .name_len = strlen(name), .expect = IDEM__STORE_ANY};
  op.space = space;
  op.done = on_answer;
  op.user = &self;
  idem__store_run(store, &op);
  while (!atomic_load(&self.times)) sched_yield();
  return self;
}

static answered ask(idem__store *store, idem__store_verb verb, const char *name) {
  return ask_in(store, IDEM__STORE_SESSIONS, verb, name);
}

static idem__redis_carrier *opened;

static idem__store *open_at(const cluster *self, int i, const char *options) {
  char text[160], why[256] = "";
  idem__redis_url url;
  idem__store *store;
  idem__redis_times times = {.wait_ms = 20000, .grace_ms = 60000};
  snprintf(text, sizeof text, "redis://127.0.0.1:%s?%s", self->ports[i], options);
  assert_int_equal(idem__redis_url_parse(text, &url, why, sizeof why), IDEM_OK);
  assert_int_equal(idem__redis_open(&idem__redis_module_table, &url, &times, NULL, &store, &opened,
                                    why, sizeof why),
                   IDEM_OK);
  return store;
}

/* Which primary has the keys of the prefix. */
static int owner_of(cluster *self, const char *prefix) {
  char command[64];
  snprintf(command, sizeof command, "EXISTS {%s}:m", prefix);
  for (int i = 0; i < NODES; i++)
    if (self->nodes[i].pid && strcmp(redis_server_ask(&self->nodes[i], command), ":1") == 0)
      return i;
  return -1;
}

/* -------------------------------------------------------------------- promises */

static void hear(const idem__store_change *change, void *user) {
  (void)change;
  atomic_fetch_add((_Atomic unsigned *)user, 1);
}

static void every_node_leads_to_the_store(void **state) {
  cluster *self = *state;
  char options[32], name[16];
  for (int prefix = 0; prefix < 3; prefix++) {
    snprintf(options, sizeof options, "prefix=p%d&parts=%d", prefix, 2 * prefix + 1);
    _Atomic unsigned heard = 0;
    idem__store_watcher *watcher;
    idem__store *first = open_at(self, 0, options);
    assert_int_equal(ask(first, IDEM__STORE_PUT, "shared").status, IDEM_OK);
    assert_int_equal(idem__store_watch(first, IDEM__STORE_SESSIONS, hear, &heard, &watcher),
                     IDEM_OK);
    for (int i = 0; i < NODES; i++) {
      idem__store *store = open_at(self, i, options);
      snprintf(name, sizeof name, "n%d", i);
      assert_int_equal(ask(store, IDEM__STORE_GET, "shared").status, IDEM_OK);
      assert_int_equal(ask(store, IDEM__STORE_PUT, name).status, IDEM_OK);
      assert_int_equal(ask(first, IDEM__STORE_GET, name).status, IDEM_OK);
      idem__store_unref(store);
    }
    while (atomic_load(&heard) < NODES) sched_yield(); /* news reach every node */
    idem__store_unwatch(first, watcher);
    idem__store_unref(first);
  }
}

static void every_primary_has_some_of_the_records(void **state) {
  cluster *self = *state;
  char name[16];
  idem__store *store = open_at(self, 0, "prefix=wide&parts=12");
  for (int i = 0; i < 300; i++) {
    snprintf(name, sizeof name, "n%d", i);
    assert_int_equal(ask(store, IDEM__STORE_PUT, name).status, IDEM_OK);
  }
  long all = 0;
  for (int i = 0; i < 3; i++) {
    long there = redis_cluster_keys(self, i, "{wide*}:r0:*");
    assert_in_range(there, 50, 150); /* four parts each */
    assert_int_equal(redis_cluster_keys(self, i, "{wide*}:m"), 4);
    all += there;
  }
  assert_int_equal(all, 300);
  idem__store_unref(store);
}

/* Records would be looked for where they are not. */
static void another_number_of_parts_is_refused_with_the_reason(void **state) {
  cluster *self = *state;
  char why[256];
  idem__store *store = open_at(self, 0, "prefix=counted&parts=5");
  assert_int_equal(ask(store, IDEM__STORE_PUT, "a").status, IDEM_OK);
  static const char *const others[] = {"prefix=counted&parts=1", "prefix=counted&parts=6"};
  for (int i = 0; i < 2; i++) {
    char name[STORE_NAME_ROOM];
    idem__store *other = open_at(self, i, others[i]);
    store_name_in(name, i ? 6 : 1, IDEM__STORE_SESSIONS, 0, "a");
    assert_int_equal(ask(other, IDEM__STORE_GET, name).status, IDEM_E_SYS);
    idem__redis_why(opened, why, sizeof why);
    if (!i) assert_non_null(strstr(why, "parts=5")); /* else it may be of another part */
    idem__store_unref(other);
  }
  assert_int_equal(ask(store, IDEM__STORE_GET, "a").status, IDEM_OK);
  idem__store_unref(store);
}

/* ------------------------------------------------------------------ a slot that moves */

#define MOVED 60     /* records, and as many that expire on the way */
#define BRIEF_MS 400 /* for which those live */

typedef struct move {
  const cluster *all;
  idem__store *store;
  char tag[64], slot[8];
  int from, into;
  char names[MOVED][STORE_NAME_ROOM], brief[MOVED][STORE_NAME_ROOM], late[MOVED][STORE_NAME_ROOM];
  char alone[STORE_NAME_ROOM];
  answered counted[MOVED][3], looked[MOVED], made[MOVED];
} move;

static void run(idem__store *store, idem__store_op op, const char *name, answered *into) {
  op.name = name;
  op.name_len = strlen(name);
  op.done = on_answer;
  op.user = into;
  idem__store_run(store, &op);
}

static void wait_for(answered *one) {
  while (!atomic_load(&one->times)) sched_yield();
  assert_int_equal(one->times, 1);
}

static void set_slot(const move *self, int node, const char *what, int other) {
  char command[160];
  snprintf(command, sizeof command, "CLUSTER SETSLOT %s %s %s", self->slot, what,
           self->all->ids[other]);
  redis_cluster_tell(self->all, node, command, "+OK");
}

static void carry(const move *self, const char *keys) {
  char command[480];
  snprintf(command, sizeof command, "MIGRATE 127.0.0.1 %s \"\" 0 5000 KEYS %s",
           self->all->ports[self->into], keys);
  redis_cluster_tell(self->all, self->from, command, "+"); /* OK, or NOKEY: it has expired */
}

static void carry_record(const move *self, const char *name) {
  char keys[256];
  snprintf(keys, sizeof keys, "{%s}:r0:%s {%s}:l0:%s", self->tag, name, self->tag, name);
  carry(self, keys);
}

static void put(move *self, const char *name, const char *group, uint64_t ttl_ms) {
  answered made = {.times = 0}, written = {.times = 0};
  run(self->store, (idem__store_op){.verb = IDEM__STORE_PUT, .group = group, .ttl_ms = ttl_ms},
      name, &made);
  run(self->store, (idem__store_op){.verb = IDEM__STORE_APPEND, .bytes = "entry", .len = 5}, name,
      &written);
  wait_for(&made);
  wait_for(&written);
  assert_true(made.status == IDEM_OK && written.status == IDEM_OK);
}

/* All records of the part: some are here to stay, some for a moment, in a group of their own. Each has a log, and one is in no
 * group, so that all keys that an operation names are there: it is begun while the slot moves, and finds others gone. */
static void fill_part(move *self) {
  char stem[16];
  for (int i = 0; i < MOVED; i++) {
    snprintf(stem, sizeof stem, "k%d-", i);
    store_name_in(self->names[i], PARTS, IDEM__STORE_SESSIONS, 1, stem);
    *stem = 'b';
    store_name_in(self->brief[i], PARTS, IDEM__STORE_SESSIONS, 1, stem);
    *stem = 'l';
    store_name_in(self->late[i], PARTS, IDEM__STORE_SESSIONS, 1, stem);
    put(self, self->names[i], "stay", 0);
  }
  put(self, store_name_in(self->alone, PARTS, IDEM__STORE_SESSIONS, 1, "alone"), NULL, 0);
  for (int i = 0; i < MOVED; i++) put(self, self->brief[i], "brief", BRIEF_MS);
}

static uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void count_each(move *self, int time) {
  for (int i = 0; i < MOVED; i++)
    run(self->store, (idem__store_op){.verb = IDEM__STORE_COUNT, .after = 1}, self->names[i],
        &self->counted[i][time]);
}

/* Groups first, the records one by one while they are counted, looked at and made, and what belongs to all at last. */
static void move_slot(move *self) {
  char keys[400];
  uint64_t gone_ms = now_ms() + BRIEF_MS;
  set_slot(self, self->into, "IMPORTING", self->from);
  set_slot(self, self->from, "MIGRATING", self->into);
  count_each(self, 1);
  snprintf(keys, sizeof keys, "{%s}:g0:brief", self->tag);
  carry(self, keys);
  while (now_ms() <= gone_ms) sched_yield();
  for (int i = 0; i < MOVED; i++) {
    run(self->store, (idem__store_op){.verb = IDEM__STORE_GET}, self->brief[i], &self->looked[i]);
    run(self->store, (idem__store_op){.verb = IDEM__STORE_PUT, .group = "stay"}, self->late[i],
        &self->made[i]);
    carry_record(self, self->names[i]);
    carry_record(self, self->brief[i]);
  }
  carry_record(self, self->alone);
  snprintf(keys, sizeof keys, "{%s}:g0:stay {%s}:g0: {%s}:x0 {%s}:m", self->tag, self->tag,
           self->tag, self->tag);
  carry(self, keys);
  count_each(self, 2);
  set_slot(self, self->into, "NODE", self->into);
  set_slot(self, self->from, "NODE", self->into);
}

static void expect_all_there(move *self) {
  for (int i = 0; i < MOVED; i++) {
    for (int time = 0; time < 3; time++) {
      wait_for(&self->counted[i][time]);
      assert_int_equal(self->counted[i][time].status, IDEM_OK);
    }
    wait_for(&self->looked[i]);
    assert_true(self->looked[i].status == IDEM_OK || self->looked[i].status == IDEM_E_NOTFOUND);
    wait_for(&self->made[i]);
    assert_int_equal(self->made[i].status, IDEM_OK);
    answered last = {.times = 0};
    run(self->store, (idem__store_op){.verb = IDEM__STORE_COUNT, .after = 1}, self->names[i],
        &last);
    wait_for(&last);
    assert_int_equal(last.number, 3); /* each was counted once */
  }
}

/* Nothing is left, and nothing was counted wrongly: not the bytes, not the groups. */
static void expect_nothing_left(move *self) {
  char command[400];
  for (int i = 0; i < MOVED; i++) {
    assert_int_equal(ask(self->store, IDEM__STORE_REMOVE, self->names[i]).status, IDEM_OK);
    assert_int_equal(ask(self->store, IDEM__STORE_REMOVE, self->late[i]).status, IDEM_OK);
    while (ask(self->store, IDEM__STORE_GET, self->brief[i]).status != IDEM_E_NOTFOUND)
      sched_yield();
  }
  assert_int_equal(ask(self->store, IDEM__STORE_REMOVE, self->alone).status, IDEM_OK);
  snprintf(command, sizeof command, "HGET {%s}:m bytes", self->tag);
  assert_string_equal(redis_server_ask(&self->all->nodes[self->into], command), "0");
  snprintf(command, sizeof command, "EXISTS {%s}:x0 {%s}:g0:stay {%s}:g0:brief {%s}:g0:", self->tag,
           self->tag, self->tag, self->tag);
  assert_string_equal(redis_server_ask(&self->all->nodes[self->into], command), ":0");
}

/* While its keys are in two places nothing happens to a part; then it goes on where they are. The others do not wait for it. */
static void a_part_is_followed_when_its_slot_is_moved_under_load(void **state) {
  static move self;
  char other[STORE_NAME_ROOM], key[80];
  self = (move){.all = *state, .store = open_at(*state, 0, "prefix=mover&parts=6")};
  redis_name_part(self.tag, sizeof self.tag, "mover", 1, PARTS);
  snprintf(self.slot, sizeof self.slot, "%u", redis_slot_of(self.tag));
  fill_part(&self);
  snprintf(key, sizeof key, "{%s}:m", self.tag);
  while (redis_cluster_keys(self.all, self.from, key) != 1) self.from++;
  self.into = (self.from + 1) % 3;
  count_each(&self, 0);
  move_slot(&self);
  store_name_in(other, PARTS, IDEM__STORE_SESSIONS, 0, "x");
  assert_int_equal(ask(self.store, IDEM__STORE_PUT, other).status, IDEM_OK);
  expect_all_there(&self);
  assert_int_equal(redis_cluster_keys(self.all, self.into, key), 1);
  expect_nothing_left(&self);
  idem__store_unref(self.store);
}

/* Its replica stands still: what is done is not acknowledged. */
static void a_change_that_no_replica_has_is_unknown(void **state) {
  cluster *self = *state;
  idem__store *store = open_at(self, 0, "prefix=careful&replicas=1");
  assert_int_equal(ask(store, IDEM__STORE_PUT, "a").status, IDEM_OK);
  int owner = owner_of(self, "careful");
  assert_true(owner >= 0 && owner < 3);
  redis_server_kill(&self->nodes[owner + 3], SIGSTOP);
  assert_int_equal(ask(store, IDEM__STORE_PUT, "b").status, IDEM_E_SYS);
  assert_int_equal(ask(store, IDEM__STORE_GET, "b").status, IDEM_OK); /* it happened */
  /* What a key came to is not told before it lasts, by nobody. */
  idem__store *other = open_at(self, 1, "prefix=careful&replicas=1");
  assert_int_equal(ask_in(store, IDEM__STORE_ONCE, IDEM__STORE_PUT, "k").status, IDEM_E_SYS);
  assert_int_equal(ask_in(other, IDEM__STORE_ONCE, IDEM__STORE_GET, "k").status, IDEM_E_SYS);
  redis_server_kill(&self->nodes[owner + 3], SIGCONT);
  while (ask(store, IDEM__STORE_PUT, "c").status == IDEM_E_SYS) continue;
  assert_int_equal(ask_in(other, IDEM__STORE_ONCE, IDEM__STORE_GET, "k").status, IDEM_OK);
  idem__store_unref(other);
  idem__store_unref(store);
}

/* Acknowledged before, there after: a replica had it, and while nobody was primary operations waited. Records of the other primaries are served meanwhile. */
static void the_store_goes_on_when_a_primary_dies(void **state) {
  cluster *self = *state;
  char names[PARTS][STORE_NAME_ROOM], key[80], tag[64];
  answered before[PARTS], now;
  bool lost[PARTS];
  idem__store *store = open_at(self, 0, "prefix=survivor&replicas=1&parts=6");
  for (unsigned i = 0; i < PARTS; i++) {
    store_name_in(names[i], PARTS, IDEM__STORE_SESSIONS, i, "a");
    before[i] = ask(store, IDEM__STORE_PUT, names[i]);
    assert_int_equal(before[i].status, IDEM_OK);
  }
  int owner = owner_of(self, "survivor");
  assert_true(owner >= 0 && owner < 3);
  for (unsigned i = 0; i < PARTS; i++) {
    redis_name_part(tag, sizeof tag, "survivor", i, PARTS);
    snprintf(key, sizeof key, "{%s}:m", tag);
    lost[i] = redis_cluster_keys(self, owner, key) == 1;
  }
  redis_server_kill(&self->nodes[owner], SIGKILL);
  for (unsigned i = 0; i < PARTS; i++)
    if (!lost[i]) assert_int_equal(ask(store, IDEM__STORE_PUT, names[i]).status, IDEM_OK);
  assert_true(store->kind->reaches(store)); /* two of three are there */
  redis_cluster_mourn(self, owner);
  for (unsigned i = 0; i < PARTS; i++) {
    if (!lost[i]) continue;
    do now = ask(store, IDEM__STORE_GET, names[i]);
    while (now.status == IDEM_E_SYS);
    assert_int_equal(now.status, IDEM_OK);
    assert_true(now.version == before[i].version);
    assert_int_equal(ask(store, IDEM__STORE_PUT, names[i]).status,
                     IDEM_E_SYS); /* it has no replica left */
  }
  idem__store_unref(store);
  store = open_at(self, (owner + 1) % 3, "prefix=survivor&parts=6");
  for (unsigned i = 0; i < PARTS; i++)
    assert_int_equal(ask(store, IDEM__STORE_PUT, names[i]).status, IDEM_OK);
  idem__store_unref(store);
}

/* -------------------------------------------------------------------- the contract */

static cluster all;

static void pass(idem__store *store, uint64_t ms) {
  for (unsigned i = 0; i < PARTS; i++)
    idem__redis_module_table.pass(idem__store_spread_at(store, i), ms);
}

/* Keys of its own, at one node or another. */
static idem__store *make(size_t max_bytes) {
  static int stores;
  char options[80];
  snprintf(options, sizeof options, "prefix=t%d&parts=%u&max_bytes=%zu", ++stores, PARTS,
           max_bytes ? max_bytes : (size_t)1 << 30);
  idem__store *store = open_at(&all, stores % 3, options);
  if (store) pass(store, 0); /* time goes by what the tests say */
  return store;
}

/* News of a part come in their order: once this one is here, those before it were told. */
static void pump(idem__store *store) {
  _Atomic unsigned heard = 0;
  answered told[PARTS] = {{.times = 0}};
  char names[PARTS][STORE_NAME_ROOM];
  idem__store_watcher *watcher;
  assert_int_equal(idem__store_watch(store, IDEM__STORE_NEWS, hear, &heard, &watcher), IDEM_OK);
  for (unsigned i = 0; i < PARTS; i++)
    run(store, (idem__store_op){.verb = IDEM__STORE_TELL, .space = IDEM__STORE_NEWS},
        store_name_in(names[i], PARTS, IDEM__STORE_NEWS, i, "m"), &told[i]);
  for (unsigned i = 0; i < PARTS; i++) wait_for(&told[i]);
  while (atomic_load(&heard) < PARTS) sched_yield();
  idem__store_unwatch(store, watcher);
}

static int take_cluster(void **state) {
  *state = &all;
  return 0;
}

int main(void) {
  const store_maker redis = {
      .name = "store.redis.cluster", .make = make, .pump = pump, .pass = pass, .parts = PARTS};

  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_node_leads_to_the_store),
      cmocka_unit_test(every_primary_has_some_of_the_records),
      cmocka_unit_test(another_number_of_parts_is_refused_with_the_reason),
      cmocka_unit_test(a_part_is_followed_when_its_slot_is_moved_under_load),
      cmocka_unit_test(a_change_that_no_replica_has_is_unknown),
      cmocka_unit_test(the_store_goes_on_when_a_primary_dies),
  };
  redis_cluster_start(&all);
  int failed = store_contract_run(&redis) + cmocka_run_group_tests(tests, take_cluster, NULL);
  redis_cluster_end(&all);
  return failed;
}
