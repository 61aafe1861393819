/* redis_cluster.h - a cluster of the distribution's Redis for a test's own: three primaries and a replica of each, which are three
 * further on, on free ports of this machine. What does not work fails the test. */
#ifndef IDEM_TEST_REDIS_CLUSTER_H
#define IDEM_TEST_REDIS_CLUSTER_H

#include "support/redis_server.h"

#define REDIS_CLUSTER_NODES 6

typedef struct redis_cluster {
  redis_server nodes[REDIS_CLUSTER_NODES];
  char ports[REDIS_CLUSTER_NODES][8], buses[REDIS_CLUSTER_NODES][8], ids[REDIS_CLUSTER_NODES][41];
} redis_cluster;

/* Waits until every replica copies its primary. */
void redis_cluster_start(redis_cluster *self);
void redis_cluster_end(redis_cluster *self);
/* One that was killed is taken for dead by the others; until then none is, however long it stands still. */
void redis_cluster_mourn(const redis_cluster *self, int dead);
/* One of them is told something, and answers with what begins so. */
void redis_cluster_tell(const redis_cluster *self, int node, const char *command,
                        const char *expected);
/* How many keys it has that match. */
long redis_cluster_keys(const redis_cluster *self, int node, const char *pattern);

#endif
