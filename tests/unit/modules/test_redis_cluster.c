/* test_redis_cluster.c - the store in a real cluster of three primaries and three replicas: it keeps the contract of stores; opened at any node it finds the one
 * that has it, follows it when its slot is moved, and goes on when its primary dies. */
#include "modules/redis/redis.h"
#include "support/redis_server.h"
#include "support/store_contract.h"
#include "support/unit.h"
#include "uv/redis.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern const idem__redis_module idem__redis_module_table;

#define NODES 6
#define SLOTS 16384

typedef struct cluster {
  redis_server nodes[NODES];
  char ports[NODES][8], buses[NODES][8], ids[NODES][41];
} cluster;

/* Ports of a cluster's own bus are 10,000 up unless told otherwise: free ones are taken for both. */
static void start_node(cluster *self, int i) {
  for (int tries = 0;; tries++) {
    snprintf(self->ports[i], sizeof self->ports[i], "%u", redis_server_free_port());
    snprintf(self->buses[i], sizeof self->buses[i], "%u", redis_server_free_port());
    const char *options[] = {"--port",
                             self->ports[i],
                             "--cluster-enabled",
                             "yes",
                             "--cluster-port",
                             self->buses[i],
                             "--cluster-node-timeout",
                             "1000",
                             "--cluster-replica-validity-factor",
                             "0",
                             "--repl-diskless-sync-delay",
                             "0",
                             NULL};
    if (redis_server_start(&self->nodes[i], options)) return;
    redis_server_stop(&self->nodes[i]);
    assert_true(tries < 5);
  }
}

static void tell(const cluster *self, int i, const char *command, const char *expected) {
  const char *answer = redis_server_ask(&self->nodes[i], command);
  if (strncmp(answer, expected, strlen(expected)) != 0) fail_msg("%s: %s", command, answer);
}

static void wait_until(const cluster *self, int i, const char *command, const char *wanted) {
  while (!strstr(redis_server_ask(&self->nodes[i], command), wanted)) sched_yield();
}

static void wait_for_all(const cluster *self, const char *wanted) {
  for (int i = 0; i < NODES; i++) wait_until(self, i, "CLUSTER INFO", wanted);
}

static void start_cluster(cluster *self) {
  char command[160];
  for (int i = 0; i < NODES; i++) start_node(self, i);
  for (int i = 0; i < NODES; i++) {
    snprintf(self->ids[i], sizeof self->ids[i], "%s",
             redis_server_ask(&self->nodes[i], "CLUSTER MYID"));
    snprintf(command, sizeof command, "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
    tell(self, i, command, "+OK");
    if (i) {
      snprintf(command, sizeof command, "CLUSTER MEET 127.0.0.1 %s %s", self->ports[0],
               self->buses[0]);
      tell(self, i, command, "+OK");
    }
  }
  for (int i = 0; i < 3; i++) {
    snprintf(command, sizeof command, "CLUSTER ADDSLOTSRANGE %d %d", i * SLOTS / 3,
             (i + 1) * SLOTS / 3 - 1);
    tell(self, i, command, "+OK");
  }
  wait_for_all(self, "cluster_known_nodes:6");
  wait_for_all(self, "cluster_state:ok");
  for (int i = 3; i < NODES; i++) {
    snprintf(command, sizeof command, "CLUSTER REPLICATE %s", self->ids[i - 3]);
    wait_until(self, i, command, "+OK");
  }
  for (int i = 3; i < NODES; i++) wait_until(self, i, "INFO replication", "master_link_status:up");
}

static void end_cluster(cluster *self) {
  for (int i = 0; i < NODES; i++) redis_server_stop(&self->nodes[i]);
}

/* ------------------------------------------------------------------- asking */

typedef struct answered {
  _Atomic int times;
  idem_status status;
  uint64_t version;
} answered;

static void on_answer(const idem__store_answer *answer, void *user) {
  answered *self = user;
  self->status = answer->status;
  self->version = answer->version;
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

static idem__store *open_at(const cluster *self, int i, const char *options) {
  char text[160], why[256] = "";
  idem__redis_url url;
  idem__store *store;
  idem__redis_times times = {.wait_ms = 20000, .grace_ms = 60000};
  snprintf(text, sizeof text, "redis://127.0.0.1:%s?%s", self->ports[i], options);
  assert_int_equal(idem__redis_url_parse(text, &url, why, sizeof why), IDEM_OK);
  assert_int_equal(idem__redis_open(&idem__redis_module_table, &url, &times, NULL, &store, NULL,
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
    snprintf(options, sizeof options, "prefix=p%d", prefix);
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

/* While its keys are in two places nothing happens to it; then it goes on where they are. */
static void the_store_is_followed_when_its_slot_is_moved(void **state) {
  cluster *self = *state;
  char command[256], slot[16];
  answered waits = {.times = 0};
  idem__store *store = open_at(self, 0, "prefix=mover");
  answered before = ask(store, IDEM__STORE_PUT, "a");
  int from = owner_of(self, "mover"), into = (from + 1) % 3;
  snprintf(slot, sizeof slot, "%s",
           redis_server_ask(&self->nodes[0], "CLUSTER KEYSLOT {mover}:m") + 1);
  snprintf(command, sizeof command, "CLUSTER SETSLOT %s IMPORTING %s", slot, self->ids[from]);
  tell(self, into, command, "+OK");
  snprintf(command, sizeof command, "CLUSTER SETSLOT %s MIGRATING %s", slot, self->ids[into]);
  tell(self, from, command, "+OK");
  idem__store_op op = {.verb = IDEM__STORE_PUT, .name = "b", .name_len = 1};
  op.done = on_answer;
  op.user = &waits;
  idem__store_run(store, &op);
  snprintf(command, sizeof command,
           "MIGRATE 127.0.0.1 %s \"\" 0 5000 KEYS {mover}:m {mover}:x0 {mover}:r0:a {mover}:g0:",
           self->ports[into]);
  tell(self, from, command, "+OK");
  snprintf(command, sizeof command, "CLUSTER SETSLOT %s NODE %s", slot, self->ids[into]);
  tell(self, into, command, "+OK");
  tell(self, from, command, "+OK");
  while (!atomic_load(&waits.times)) sched_yield();
  assert_int_equal(waits.status, IDEM_OK);
  assert_true(waits.version > before.version);
  assert_true(ask(store, IDEM__STORE_GET, "a").version == before.version);
  assert_int_equal(owner_of(self, "mover"), into);
  idem__store_unref(store);
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

/* Acknowledged before, there after: a replica had it, and while nobody was primary operations waited. */
static void the_store_goes_on_when_its_primary_dies(void **state) {
  cluster *self = *state;
  idem__store *store = open_at(self, 0, "prefix=survivor&replicas=1");
  answered before = ask(store, IDEM__STORE_PUT, "a");
  assert_int_equal(before.status, IDEM_OK);
  int owner = owner_of(self, "survivor");
  assert_true(owner >= 0 && owner < 3);
  redis_server_kill(&self->nodes[owner], SIGKILL);
  answered now;
  do now = ask(store, IDEM__STORE_GET, "a");
  while (now.status == IDEM_E_SYS);
  assert_int_equal(now.status, IDEM_OK);
  assert_true(now.version == before.version);
  assert_int_equal(ask(store, IDEM__STORE_PUT, "b").status,
                   IDEM_E_SYS); /* it has no replica left */
  idem__store_unref(store);
  store = open_at(self, (owner + 1) % 3, "prefix=survivor");
  assert_int_equal(ask(store, IDEM__STORE_PUT, "c").status, IDEM_OK);
  idem__store_unref(store);
}

/* -------------------------------------------------------------------- the contract */

static cluster all;

/* Keys of its own, at one node or another. */
static idem__store *make(size_t max_bytes) {
  static int stores;
  char options[80];
  snprintf(options, sizeof options, "prefix=t%d&max_bytes=%zu", ++stores,
           max_bytes ? max_bytes : (size_t)1 << 30);
  idem__store *store = open_at(&all, stores % 3, options);
  if (store) idem__redis_module_table.pass(store, 0); /* time goes by what the tests say */
  return store;
}

/* News come in their order: once this one is here, those before it were told. */
static void pump(idem__store *store) {
  _Atomic unsigned heard = 0;
  answered told = {.times = 0};
  idem__store_watcher *watcher;
  assert_int_equal(idem__store_watch(store, IDEM__STORE_NEWS, hear, &heard, &watcher), IDEM_OK);
  idem__store_op op = {
      .verb = IDEM__STORE_TELL, .space = IDEM__STORE_NEWS, .name = "m", .name_len = 1};
  op.done = on_answer;
  op.user = &told;
  idem__store_run(store, &op);
  while (!atomic_load(&heard) || !atomic_load(&told.times)) sched_yield();
  idem__store_unwatch(store, watcher);
}

static int take_cluster(void **state) {
  *state = &all;
  return 0;
}

int main(void) {
  const store_maker redis = {.name = "store.redis.cluster",
                             .make = make,
                             .pump = pump,
                             .pass = idem__redis_module_table.pass};

  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_node_leads_to_the_store),
      cmocka_unit_test(the_store_is_followed_when_its_slot_is_moved),
      cmocka_unit_test(a_change_that_no_replica_has_is_unknown),
      cmocka_unit_test(the_store_goes_on_when_its_primary_dies),
  };
  start_cluster(&all);
  int failed = store_contract_run(&redis) + cmocka_run_group_tests(tests, take_cluster, NULL);
  end_cluster(&all);
  return failed;
}
