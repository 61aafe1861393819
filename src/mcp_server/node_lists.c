/* node_lists.c - what the nodes of a store list. A client may ask any of them, so it is told when the lists of any are
 * others than they were, or than those of the node it listens to: each node's record holds a digest of each of its
 * lists. See docs/internals/mcp_server.md. */
#include "node.h"
#include "server.h"
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------- its own */

static idem__node_lists lists_now(idem_server *server) {
  idem__node_lists lists;
  idem__server_lock(server);
  idem__registry *registry = server->registry;
  atomic_fetch_add_explicit(&registry->refs, 1, memory_order_relaxed);
  idem__server_unlock(server);
  for (size_t i = 0; i < IDEM__LIST_KINDS; i++)
    lists.digests[i] = idem__registry_digest(registry, (idem__list_kind)i);
  idem__registry_unref(registry);
  return lists;
}

static void write_lists(const idem__node_lists *lists, char text[IDEM__NODE_VALUE]) {
  for (size_t i = 0; i < IDEM__LIST_KINDS; i++) {
    snprintf(text + i * 17, 17, "%016llx", (unsigned long long)lists->digests[i]);
    text[i * 17 + 16] = ' ';
  }
  text[IDEM__NODE_VALUE - 1] = '\0';
}

/* True: they are others than the record says. */
static bool take(idem_server *server) {
  idem__node *node = &server->node;
  idem__node_lists lists = lists_now(server);
  idem__lock_take(&node->lock);
  bool changed = memcmp(&node->lists, &lists, sizeof lists) != 0;
  node->lists = lists;
  write_lists(&lists, node->value);
  idem__lock_give(&node->lock);
  return changed;
}

void idem__node_lists_take(idem_server *server) { (void)take(server); }

void idem__node_lists_changed(idem_server *server) {
  atomic_store(&server->node.lists_changed, true);
}

/* ----------------------------------------------------------------- the others' */

static uint32_t differing(const idem__node_lists *one, const idem__node_lists *other) {
  uint32_t kinds = 0;
  for (size_t i = 0; i < IDEM__LIST_KINDS; i++)
    if (one->digests[i] != other->digests[i]) kinds |= 1u << i;
  return kinds;
}

uint32_t idem__node_missed(const idem__node *node, const idem__other_node *gone) {
  return gone->told ? differing(&node->lists, &gone->lists) : 0;
}

/* One of an older version has no lists in its record. */
static bool read_lists(const idem__store_item *item, idem__node_lists *lists) {
  char text[IDEM__NODE_VALUE], *at = text;
  if (item->len != sizeof text - 1) return false;
  memcpy(text, item->bytes, item->len);
  text[item->len] = '\0';
  if (strspn(text, "0123456789abcdef ") != item->len) return false;
  for (size_t i = 0; i < IDEM__LIST_KINDS; i++) lists->digests[i] = strtoull(at, &at, 16);
  return true;
}

/* All that live, as the store says. */
typedef struct looking {
  idem__mcp_worker *worker;
  size_t count;
  idem__other_node found[IDEM__NODES_KNOWN];
} looking;

static bool see(const idem__store_item *item, void *user) {
  looking *self = user;
  if (item->name_len != IDEM__NODE_ID) return true;
  idem__other_node *one = &self->found[self->count++];
  one->number = idem__node_number_of(item->name);
  one->told = read_lists(item, &one->lists);
  return self->count < IDEM__NODES_KNOWN;
}

static const idem__other_node *find(const idem__other_node *all, size_t count, uint32_t number) {
  for (size_t i = 0; i < count; i++)
    if (all[i].number == number) return &all[i];
  return NULL;
}

/* One that changed differs from itself, one that came from us. */
static uint32_t news_of(const idem__node *node, const idem__other_node *one) {
  const idem__other_node *before = find(node->others, node->other_count, one->number);
  if (!one->told) return 0;
  return differing(before && before->told ? &before->lists : &node->lists, &one->lists);
}

/* With the lock held: which lists our peers should look at again. */
static uint32_t take_over(idem__node *node, const looking *self) {
  uint32_t kinds = 0, own = idem__node_number_of(node->id);
  for (size_t i = 0; i < self->count; i++)
    if (self->found[i].number != own) kinds |= news_of(node, &self->found[i]);
  for (size_t i = 0; i < node->other_count; i++)
    if (!find(self->found, self->count, node->others[i].number))
      kinds |= idem__node_missed(node, &node->others[i]);
  memcpy(node->others, self->found, self->count * sizeof *self->found);
  node->other_count = self->count;
  return kinds;
}

static void on_looked(const idem__store_answer *answer, void *user) {
  looking *self = user;
  idem_server *server = self->worker->server;
  idem__node *node = &server->node;
  uint32_t kinds = 0;
  idem__lock_take(&node->lock);
  if (answer->status == IDEM_OK) kinds = take_over(node, self);
  idem__lock_give(&node->lock);
  idem__free(&server->alloc, self);
  atomic_store(&node->looking, false);
  if (kinds) idem__server_tell_lists(server, kinds);
  /* Where it failed the next renewal has it tried again. Others look, too, at what they may not have been told of. */
  if (answer->status != IDEM_OK) return;
  atomic_fetch_add(&node->looks, 1);
  idem__server_wake(server);
}

static void look(idem__mcp_worker *worker) {
  idem_server *server = worker->server;
  idem__node *node = &server->node;
  if (atomic_exchange(&node->looking, true)) return;
  atomic_store(&node->look, false);
  looking *self = idem__calloc(&server->alloc, sizeof *self);
  if (!self) {
    atomic_store(&node->looking, false);
    return;
  }
  self->worker = worker;
  idem__store_op op = {.verb = IDEM__STORE_LIST,
                       .space = IDEM__STORE_NODES,
                       .now_ms = idem__server_wall_ms(server),
                       .limit = IDEM__NODES_KNOWN,
                       .each = see,
                       .done = on_looked,
                       .user = self};
  idem__store_submit(server->store, worker->store_queue, &op, NULL);
}

void idem__node_deliver(idem__mcp_worker *worker) {
  idem__node *node = &worker->server->node;
  if (!node->shares) return;
  if (atomic_exchange(&node->lists_changed, false) && take(worker->server))
    idem__node_put(worker->server);
  if (atomic_load(&node->look)) look(worker);
}
