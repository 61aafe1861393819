/* redis_cluster.c - which node of a cluster has the store. All keys of a store have one hash tag, so it is one node at a time:
 * MOVED names it, and the others are known from CLUSTER SLOTS, asked for with every connection, for when that node is gone.
 * A server that is no cluster answers that question with an error, which is one answer of two. */
#include "redis_store.h"

#include <stdio.h>
#include <string.h>

/* A name or an address, and a port: text of another machine's, for getaddrinfo and the log. */
static bool set_node(redis_node *node, const char *host, size_t host_len, uint64_t port) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%";
  if (!host_len || host_len >= sizeof node->host || !port || port > 65535) return false;
  memcpy(node->host, host, host_len);
  node->host[host_len] = 0;
  snprintf(node->port, sizeof node->port, "%u", (unsigned)port);
  return strspn(node->host, plain) == host_len;
}

static void add_node(redis_store *store, const redisReply *node) {
  redis_node found;
  if (node->type != REDIS_REPLY_ARRAY || node->elements < 2) return;
  const redisReply *host = node->element[0], *port = node->element[1];
  if (host->type != REDIS_REPLY_STRING || port->type != REDIS_REPLY_INTEGER || port->integer < 0)
    return;
  if (!set_node(&found, host->str, (size_t)host->len, (uint64_t)port->integer)) return;
  for (unsigned i = 0; i < store->node_count; i++)
    if (memcmp(store->nodes[i].host, found.host, strlen(found.host) + 1) == 0 &&
        strcmp(store->nodes[i].port, found.port) == 0)
      return;
  if (store->node_count < REDIS_NODES) store->nodes[store->node_count++] = found;
}

/* [[first, last, [host, port, ...], ...], ...]: whoever has any slot, primaries and replicas. */
bool redis_learn_nodes(redis_store *store, const redisReply *reply) {
  if (reply->type == REDIS_REPLY_ERROR) return true; /* no cluster, or we may not know */
  if (reply->type != REDIS_REPLY_ARRAY) return false;
  store->node_count = 0;
  for (size_t i = 0; i < reply->elements; i++) {
    const redisReply *range = reply->element[i];
    if (range->type != REDIS_REPLY_ARRAY) return false;
    for (size_t k = 2; k < range->elements; k++) add_node(store, range->element[k]);
  }
  return true;
}

/* "MOVED 3999 HOST:PORT"; a host may be an IPv6 address, so the last colon counts. */
bool redis_learn_owner(redis_store *store, const char *text, size_t len) {
  const char *end = text + len, *at = memchr(text, ' ', len);
  if (!at || !(at = memchr(at + 1, ' ', (size_t)(end - at - 1)))) return false;
  const char *host = at + 1, *colon = memrchr(host, ':', (size_t)(end - host));
  uint64_t port = 0;
  if (!colon || end - colon < 2 || end - colon > 6) return false;
  for (const char *digit = colon + 1; digit < end; digit++) {
    if (*digit < '0' || *digit > '9') return false;
    port = port * 10 + (uint64_t)(*digit - '0');
  }
  if (!set_node(&store->owner, host, (size_t)(colon - host), port)) return false;
  store->owner_is_new = true;
  return true;
}

/* The node that was named last, once; then those that are known, in turn, and between them where the store was opened. */
bool redis_place(idem__store *head, idem__redis_line which, unsigned attempt, char *host,
                 size_t host_size, char *port, size_t port_size) {
  redis_store *store = redis_of(head);
  const redis_node *node = &store->owner;
  bool moved = which == IDEM__REDIS_COMMANDS && store->owner_is_new;
  if (moved) {
    store->owner_is_new = false;
  } else {
    if (!store->node_count || attempt % (store->node_count + 1) == 0) return false;
    node = &store->nodes[attempt % (store->node_count + 1) - 1];
  }
  return snprintf(host, host_size, "%s", node->host) < (int)host_size &&
         snprintf(port, port_size, "%s", node->port) < (int)port_size;
}
