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
static bool read_lists(const char *bytes, size_t len, idem__node_lists *lists) {
  char text[IDEM__NODE_VALUE], *at = text;
  if (len != sizeof text - 1) return false;
  memcpy(text, bytes, len);
  text[len] = '\0';
  if (strspn(text, "0123456789abcdef ") != len) return false;
  for (size_t i = 0; i < IDEM__LIST_KINDS; i++) lists->digests[i] = strtoull(at, &at, 16);
  return true;
}

/* All that live, as the store says. */
typedef struct looking {
  idem__mcp_worker *worker;
  uint64_t asked_ms;
  idem__other_nodes found;
  bool short_of_room; /* there are more */
} looking;

static bool see(const idem__store_item *item, void *user) {
  looking *self = user;
  if (item->name_len != IDEM__NODE_ID) return true;
  if (!idem__other_nodes_reserve(&self->found, &self->worker->server->alloc)) {
    self->short_of_room = true;
    return false;
  }
  idem__other_node *one = &self->found.list[self->found.count++];
  *one = (idem__other_node){.number = idem__node_number_of(item->name), .seen_ms = self->asked_ms};
  memcpy(one->id, item->name, IDEM__NODE_ID);
  one->told = read_lists(item->bytes, item->len, &one->lists);
  return true;
}

static int by_number(const void *left, const void *right) {
  const idem__other_node *a = left, *b = right;
  return (a->number > b->number) - (a->number < b->number);
}

/* One that changed differs from itself, one that came from us. */
static uint32_t news_of(const idem__node *node, const idem__other_node *one) {
  const idem__other_node *before = idem__other_nodes_find(&node->others, one->number);
  if (!one->told) return 0;
  return differing(before && before->told ? &before->lists : &node->lists, &one->lists);
}

/* With the lock held: which lists our peers should look at again. Of many there may be more than were found: who is not among them
 * is not known to have gone, nor to live. */
static uint32_t take_over(idem__node *node, looking *self) {
  uint32_t kinds = 0, own = idem__node_number_of(node->id);
  idem__other_nodes before = node->others, *found = &self->found;
  if (found->count) qsort(found->list, found->count, sizeof *found->list, by_number);
  for (size_t i = 0; i < found->count; i++)
    if (found->list[i].number != own) kinds |= news_of(node, &found->list[i]);
  for (size_t i = 0; i < before.count && !self->short_of_room; i++)
    if (!idem__other_nodes_find(found, before.list[i].number))
      kinds |= idem__node_missed(node, &before.list[i]);
  node->others = *found;
  *found = before; /* to be freed */
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
  idem__free(&server->alloc, self->found.list);
  idem__free(&server->alloc, self);
  atomic_store(&node->looking, false);
  if (kinds) idem__server_tell_lists(server, kinds);
  /* Where it failed the next renewal has it tried again. Others look, too, at what they may not have been told of. */
  if (answer->status != IDEM_OK) return;
  atomic_fetch_add(&node->looks, 1);
  idem__server_wake(server);
}

/* Who is listed among all need not be read by itself. */
static size_t take_comers(idem__node *node, char ids[IDEM__NODE_COMERS][IDEM__NODE_ID]) {
  atomic_store(&node->comes, false);
  idem__lock_take(&node->lock);
  size_t count = node->comer_count;
  if (ids) memcpy(ids, node->comers, sizeof node->comers);
  node->comer_count = 0;
  idem__lock_give(&node->lock);
  return count;
}

static void look(idem__mcp_worker *worker) {
  idem_server *server = worker->server;
  idem__node *node = &server->node;
  if (atomic_exchange(&node->looking, true)) return;
  atomic_store(&node->look, false);
  (void)take_comers(node, NULL);
  looking *self = idem__calloc(&server->alloc, sizeof *self);
  if (!self) {
    atomic_store(&node->looking, false);
    return;
  }
  self->worker = worker;
  self->asked_ms = idem__server_wall_ms(server);
  idem__store_op op = {.verb = IDEM__STORE_LIST,
                       .space = IDEM__STORE_NODES,
                       .now_ms = self->asked_ms,
                       .limit = IDEM__NODES_KNOWN + 1, /* so that one too many is seen */
                       .each = see,
                       .done = on_looked,
                       .user = self};
  idem__store_submit(server->store, worker->store_queue, &op, NULL);
}

/* ------------------------------------------------------------------- one that came */

typedef struct greeting {
  idem__mcp_worker *worker;
  char id[IDEM__NODE_ID];
} greeting;

/* With the lock held: as it says of itself; the lists that our peers should look at again. */
static uint32_t take_one(idem__node *node, const greeting *self, const idem__store_answer *answer) {
  idem__other_node one = {.number = idem__node_number_of(self->id)};
  idem__other_node *known = idem__other_nodes_find(&node->others, one.number);
  one.told = read_lists(answer->bytes, answer->len, &one.lists);
  uint32_t kinds = news_of(node, &one);
  if (known) known->told = one.told;
  if (known) known->lists = one.lists;
  return kinds;
}

/* Where nobody knows, all are looked at with the next renewal. */
static void on_greeted(const idem__store_answer *answer, void *user) {
  greeting self = *(greeting *)user;
  idem_server *server = self.worker->server;
  uint32_t kinds = 0;
  idem__free(&server->alloc, user);
  idem__lock_take(&server->node.lock);
  if (answer->status == IDEM_OK) kinds = take_one(&server->node, &self, answer);
  idem__lock_give(&server->node.lock);
  if (answer->status == IDEM_E_NOTFOUND) idem__node_seen(server, self.id, IDEM__NODE_ID, false);
  if (kinds) idem__server_tell_lists(server, kinds);
}

/* A node reads the record of who comes, and not those of all: of many nodes that start one after another each would have read all. */
static void greet(idem__mcp_worker *worker) {
  idem_server *server = worker->server;
  char ids[IDEM__NODE_COMERS][IDEM__NODE_ID];
  size_t count = take_comers(&server->node, ids);
  for (size_t i = 0; i < count; i++) {
    greeting *self = idem__malloc(&server->alloc, sizeof *self);
    if (!self) continue;
    self->worker = worker;
    memcpy(self->id, ids[i], sizeof self->id);
    idem__node_find(server, worker->store_queue, self->id, on_greeted, self);
  }
}

void idem__node_deliver(idem__mcp_worker *worker) {
  idem__node *node = &worker->server->node;
  if (!node->shares) return;
  if (atomic_exchange(&node->lists_changed, false) && take(worker->server))
    idem__node_put(worker->server);
  if (atomic_load(&node->look))
    look(worker);
  else if (atomic_load(&node->comes))
    greet(worker);
}
