/* redis_cluster.c - see redis_cluster.h. */
#include "support/redis_cluster.h"

#include "support/unit.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define NODES REDIS_CLUSTER_NODES
#define SLOTS 16384
#define SOON_DEAD_MS "1000" /* they get to know each other soon, too */
#define ALIVE_MS "600000"

/* Ports of a cluster's own bus are 10,000 up unless told otherwise: free ones are taken for both. */
static void start_node(redis_cluster *self, int i) {
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
                             SOON_DEAD_MS,
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

void redis_cluster_tell(const redis_cluster *self, int node, const char *command,
                        const char *expected) {
  const char *answer = redis_server_ask(&self->nodes[node], command);
  if (strncmp(answer, expected, strlen(expected)) != 0) fail_msg("%s: %s", command, answer);
}

static void wait_until(const redis_cluster *self, int i, const char *command, const char *wanted) {
  while (!strstr(redis_server_ask(&self->nodes[i], command), wanted)) sched_yield();
}

static void wait_for_all(const redis_cluster *self, const char *wanted) {
  for (int i = 0; i < NODES; i++) wait_until(self, i, "CLUSTER INFO", wanted);
}

static void meet(redis_cluster *self, int i) {
  char command[160];
  snprintf(self->ids[i], sizeof self->ids[i], "%s",
           redis_server_ask(&self->nodes[i], "CLUSTER MYID"));
  snprintf(command, sizeof command, "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
  redis_cluster_tell(self, i, command, "+OK");
  snprintf(command, sizeof command, "CLUSTER MEET 127.0.0.1 %s %s", self->ports[0], self->buses[0]);
  if (i) redis_cluster_tell(self, i, command, "+OK");
}

static void set_timeout(const redis_cluster *self, const char *ms, int except) {
  for (int i = 0; i < NODES; i++) {
    char command[64];
    snprintf(command, sizeof command, "CONFIG SET cluster-node-timeout %s", ms);
    if (i != except) redis_cluster_tell(self, i, command, "+OK");
  }
}

void redis_cluster_mourn(const redis_cluster *self, int dead) {
  set_timeout(self, SOON_DEAD_MS, dead);
}

void redis_cluster_start(redis_cluster *self) {
  char command[160];
  for (int i = 0; i < NODES; i++) start_node(self, i);
  for (int i = 0; i < NODES; i++) meet(self, i);
  for (int i = 0; i < 3; i++) {
    snprintf(command, sizeof command, "CLUSTER ADDSLOTSRANGE %d %d", i * SLOTS / 3,
             (i + 1) * SLOTS / 3 - 1);
    redis_cluster_tell(self, i, command, "+OK");
  }
  wait_for_all(self, "cluster_known_nodes:6");
  wait_for_all(self, "cluster_state:ok");
  for (int i = 3; i < NODES; i++) {
    snprintf(command, sizeof command, "CLUSTER REPLICATE %s", self->ids[i - 3]);
    wait_until(self, i, command, "+OK");
  }
  for (int i = 3; i < NODES; i++) wait_until(self, i, "INFO replication", "master_link_status:up");
  set_timeout(self, ALIVE_MS, -1);
}

void redis_cluster_end(redis_cluster *self) {
  for (int i = 0; i < NODES; i++) redis_server_stop(&self->nodes[i]);
}

/* "*N" is the first line of the answer. */
long redis_cluster_keys(const redis_cluster *self, int node, const char *pattern) {
  char command[128];
  snprintf(command, sizeof command, "KEYS %s", pattern);
  return strtol(redis_server_ask(&self->nodes[node], command) + 1, NULL, 10);
}
