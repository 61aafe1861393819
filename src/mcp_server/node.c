/* node.c - see node.h. */
#include "node.h"
#include "server.h"
#include "worker.h"

#include <string.h>

#define LOOKS                                                                                      \
  8u /* renewals of its record for one look at the others': of a change nobody may have been told */

#define FRESH                                                                                      \
  16u /* this part of the time between two renewals a record that was seen is taken to be there */

static idem__store_op op_for(const idem_server *server, const char *id, idem__store_verb verb) {
  return (idem__store_op){.verb = verb,
                          .space = IDEM__STORE_NODES,
                          .name = id,
                          .name_len = IDEM__NODE_ID,
                          .now_ms = idem__server_wall_ms(server)};
}

/* In memory nothing of a server outlives it but by mistake: its record needs no time. */
static uint64_t time_to_live(const idem_server *server) {
  return server->store->kind->immediate ? 0 : server->opts.lease_ms;
}

void idem__node_put(idem_server *server) {
  char value[IDEM__NODE_VALUE];
  idem__lock_take(&server->node.lock); /* which our own watcher takes, too */
  memcpy(value, server->node.value, sizeof value);
  idem__lock_give(&server->node.lock);
  idem__store_op op = op_for(server, server->node.id, IDEM__STORE_PUT);
  op.expect = IDEM__STORE_ANY;
  op.ttl_ms = time_to_live(server);
  op.bytes = value;
  op.len = strlen(value);
  idem__store_run(server->store, &op);
}

/* Random as the server's seed is, and no other of this process has it. */
static void make_id(idem_server *server) {
  const uint64_t parts[] = {idem__router_seed(server->router), (uint64_t)(uintptr_t)server,
                            idem__server_wall_ms(server)};
  uint8_t digest[IDEM_SHA256_BYTES];
  idem_sha256 sha;
  idem_sha256_init(&sha);
  idem_sha256_add(&sha, parts, sizeof parts);
  idem_sha256_end(&sha, digest);
  idem__lock_take(&server->node.lock); /* watchers look at it */
  idem__text_hex(server->node.id, digest, IDEM__NODE_ID / 2);
  idem__lock_give(&server->node.lock);
}

/* ------------------------------------------------------------------- others */

uint32_t idem__node_number_of(const char *id) {
  uint32_t number = 0;
  for (size_t i = 0; i < 6; i++)
    number = number << 4 | (uint32_t)(id[i] <= '9' ? id[i] - '0' : id[i] - 'a' + 10);
  return number | 1; /* never 0 */
}

uint32_t idem__node_number(const idem_server *server) {
  return server->store_name && server->node.id[0] ? idem__node_number_of(server->node.id) : 0;
}

size_t idem__other_nodes_place(const idem__other_nodes *others, uint32_t number) {
  size_t first = 0, last = others->count;
  while (first < last) {
    size_t middle = first + (last - first) / 2;
    if (others->list[middle].number < number)
      first = middle + 1;
    else
      last = middle;
  }
  return first;
}

idem__other_node *idem__other_nodes_find(const idem__other_nodes *others, uint32_t number) {
  size_t at = idem__other_nodes_place(others, number);
  return at < others->count && others->list[at].number == number ? &others->list[at] : NULL;
}

bool idem__other_nodes_reserve(idem__other_nodes *others, const idem_alloc *alloc) {
  size_t room = others->room ? 2 * others->room : 16;
  if (others->count < others->room) return true;
  if (room > IDEM__NODES_KNOWN) return false;
  idem__other_node *list =
      idem__realloc(alloc, others->list, others->room * sizeof *list, room * sizeof *list);
  if (!list) return false;
  others->list = list;
  others->room = room;
  return true;
}

void idem__node_deinit(idem_server *server) {
  idem__free(&server->alloc, server->node.others.list);
  server->node.others = (idem__other_nodes){.list = NULL};
}

bool idem__node_lives(const idem_server *server, uint32_t number) {
  idem__node *node = (idem__node *)(uintptr_t)&server->node;
  idem__lock_take(&node->lock);
  bool lives = idem__other_nodes_find(&node->others, number) != NULL;
  idem__lock_give(&node->lock);
  return lives;
}

idem__node_glance idem__node_look_up(const idem_server *server, uint32_t number,
                                     char id[IDEM__NODE_ID + 1]) {
  idem__node *node = (idem__node *)(uintptr_t)&server->node;
  uint64_t now_ms = idem__server_wall_ms(server);
  uint64_t interval = idem__node_interval_ms(server) / FRESH;
  idem__node_glance glance = IDEM__NODE_UNKNOWN;
  id[0] = '\0';
  idem__lock_take(&node->lock);
  const idem__other_node *one = idem__other_nodes_find(&node->others, number);
  if (one) {
    glance = now_ms - one->seen_ms < interval ? IDEM__NODE_LIVES : IDEM__NODE_SEEN;
    memcpy(id, one->id, IDEM__NODE_ID);
    id[IDEM__NODE_ID] = '\0';
  }
  idem__lock_give(&node->lock);
  return glance;
}

size_t idem__node_others(const idem_server *server) {
  idem__node *node = (idem__node *)(uintptr_t)&server->node;
  idem__lock_take(&node->lock);
  size_t count = node->others.count;
  idem__lock_give(&node->lock);
  return count ? count - 1 : 0;
}

/* With the lock held: the lists of which our peers must hear now that it has gone. */
static uint32_t forget(idem__node *node, idem__other_node *one) {
  idem__other_nodes *others = &node->others;
  uint32_t kinds = idem__node_missed(node, one);
  others->count--;
  memmove(one, one + 1, (size_t)(others->list + others->count - one) * sizeof *one);
  return kinds;
}

/* With the lock held: a place for one that is not among them; NULL: there is no room. */
static idem__other_node *add(idem_server *server, uint32_t number) {
  idem__other_nodes *others = &server->node.others;
  size_t at = idem__other_nodes_place(others, number);
  if (!idem__other_nodes_reserve(others, &server->alloc)) return NULL;
  idem__other_node *one = &others->list[at];
  memmove(one + 1, one, (others->count++ - at) * sizeof *one);
  *one = (idem__other_node){.number = number};
  return one;
}

/* With the lock held; true: it was not known. */
static bool note(idem_server *server, const char *id) {
  uint32_t number = idem__node_number_of(id);
  idem__other_node *known = idem__other_nodes_find(&server->node.others, number);
  idem__other_node *one = known ? known : add(server, number);
  if (one) memcpy(one->id, id, IDEM__NODE_ID);
  if (one) one->seen_ms = idem__server_wall_ms(server);
  return !known;
}

void idem__node_meet(idem_server *server, const char *id) {
  idem__node *node = &server->node;
  idem__lock_take(&node->lock);
  bool fresh = note(server, id);
  idem__lock_give(&node->lock);
  if (fresh) atomic_store(&node->look, true);
}

/* With the lock held: what one that comes or changes says of itself stands in its record, which is looked at soon. */
static void note_comer(idem__node *node, const char *id) {
  for (size_t i = 0; i < node->comer_count; i++)
    if (memcmp(node->comers[i], id, IDEM__NODE_ID) == 0) return;
  if (node->comer_count < IDEM__NODE_COMERS)
    memcpy(node->comers[node->comer_count++], id, IDEM__NODE_ID);
  else
    atomic_store(&node->look, true);
  atomic_store(&node->comes, true);
}

void idem__node_seen(idem_server *server, const char *id, size_t len, bool lives) {
  idem__node *node = &server->node;
  uint32_t number = len == IDEM__NODE_ID ? idem__node_number_of(id) : 0, kinds = 0;
  if (!number) return;
  idem__lock_take(&node->lock);
  idem__other_node *known = idem__other_nodes_find(&node->others, number);
  if (lives)
    (void)note(server, id);
  else if (known)
    kinds = forget(node, known);
  bool own = memcmp(id, node->id, IDEM__NODE_ID) == 0;
  if (lives && !own && node->shares) note_comer(node, id);
  idem__lock_give(&node->lock);
  if (own || !node->shares) return;
  if (kinds) idem__server_tell_lists(server, kinds);
  if (lives) idem__server_wake(server);
}

void idem__node_join(idem_server *server) {
  make_id(server);
  if (server->node.shares) idem__node_lists_take(server);
  idem__node_put(server);
}

bool idem__node_leave_op(const idem_server *server, idem__store_op *op) {
  *op = op_for(server, server->node.id, IDEM__STORE_REMOVE);
  op->expect = IDEM__STORE_ANY;
  return server->node.id[0] != '\0';
}

void idem__node_leave(idem_server *server) {
  idem__store_op op;
  if (!idem__node_leave_op(server, &op)) return;
  idem__store_run(server->store, &op);
  memset(server->node.id, 0, sizeof server->node.id);
}

bool idem__node_is_own(const idem_server *server, const char *id) {
  return strcmp(server->node.id, id) == 0;
}

/* ------------------------------------------------------------------ renewing */

uint64_t idem__node_interval_ms(const idem_server *server) {
  if (!server->node.id[0] || !time_to_live(server)) return UINT64_MAX;
  return server->opts.lease_ms / 4 + 1;
}

bool idem__server_store_gone(const idem_server *server) {
  idem__store *store = server->store;
  if (store->kind->reaches && !store->kind->reaches(store)) return true;
  return atomic_load_explicit(&server->node.store_gone, memory_order_relaxed);
}

static bool is_full(const idem__store_answer *answer) {
  bool told = answer->status == IDEM_E_LIMIT || answer->status == IDEM_OK;
  return told && answer->number == IDEM__STORE_FULL_OUTSIDE;
}

/* What there is can be read, and what needs no room is done. Until somebody knows better it is as it was. */
static void note_full(idem__mcp_worker *worker, const idem__store_answer *answer) {
  idem_server *server = worker->server;
  bool full = is_full(answer);
  if (!full && answer->status != IDEM_OK) return;
  if (atomic_exchange(&server->node.store_full, full) == full) return;
  idem__metrics_add(idem__worker_metrics(worker), full ? IDEM__M_STORE_FULL : IDEM__M_STORE_ROOM,
                    1);
  if (full)
    idem_logf(server->opts.log, IDEM_LOG_ERROR, "the store is full", "%s",
              answer->status == IDEM_OK
                  ? "its memory has no room: nothing new is kept; leases and sessions are renewed"
                  : "its disk or memory has no room: nothing new is kept, and no lease renewed");
  else
    idem_logf(server->opts.log, IDEM_LOG_INFO, "the store has room again", "%s", server->node.id);
}

/* For the log, which knows the connection's own reasons from whoever has it. */
static const char *why_silent(idem_status status) {
  bool later = status == IDEM_E_SYS || status == IDEM_E_TIMEOUT;
  return later ? "it is away, did not answer in time, or lacks replicas" : idem_status_text(status);
}

/* A line and a count for each change. */
static void note_store(idem__mcp_worker *worker, const idem__store_answer *answer) {
  idem_server *server = worker->server;
  idem__store *store = server->store;
  idem_status status = answer->status;
  bool gone = status != IDEM_OK && status != IDEM_E_NOTFOUND && !is_full(answer);
  note_full(worker, answer);
  if (store->kind->part) gone = !store->kind->reaches(store); /* where our record is says little */
  if (status == IDEM_E_CLOSED || atomic_exchange(&server->node.store_gone, gone) == gone) return;
  idem__metrics_add(idem__worker_metrics(worker), gone ? IDEM__M_STORE_SILENT : IDEM__M_STORE_HEARD,
                    1);
  if (gone)
    idem_logf(server->opts.log, IDEM_LOG_ERROR, "the store does not answer", "%s",
              why_silent(status));
  else
    idem_logf(server->opts.log, IDEM_LOG_INFO, "the store answers again", "%s", server->node.id);
  if (gone) return;
  atomic_store(&server->node.look, true); /* who knows what was not heard meanwhile */
  idem__identity_doubt(server);
}

/* Its time was over: whoever looked meanwhile took it for dead. From now on it is there again; what was
 * taken from it has other versions. */
static void on_touched(const idem__store_answer *answer, void *user) {
  idem__mcp_worker *worker = user;
  atomic_store(&worker->server->node.renewing, false);
  note_store(worker, answer);
  if (answer->status != IDEM_E_NOTFOUND) return;
  idem_logf(worker->server->opts.log, IDEM_LOG_WARN, "the lease of this process had ended", "%s",
            worker->server->node.id);
  idem__node_put(worker->server);
  idem__identity_doubt(worker->server); /* it may have gone with all others */
}

static void touch(idem__mcp_worker *worker) {
  idem_server *server = worker->server;
  idem__store_op op = op_for(server, server->node.id, IDEM__STORE_TOUCH);
  op.ttl_ms = time_to_live(server);
  op.done = on_touched;
  op.user = worker;
  idem__store_submit(server->store, worker->store_queue, &op, NULL);
}

/* One of the workers does it. */
void idem__node_renew(idem__mcp_worker *worker, uint64_t now_ms) {
  idem_server *server = worker->server;
  uint64_t interval = idem__node_interval_ms(server);
  uint64_t last = atomic_load(&server->node.renewed_ms);
  if (interval == UINT64_MAX || (last && now_ms < last + interval / 2)) return;
  if (!atomic_compare_exchange_strong(&server->node.renewed_ms, &last, now_ms)) return;
  if (atomic_exchange(&server->node.renewing, true)) return;
  if (atomic_fetch_add(&server->node.renewals, 1) % LOOKS == 0 ||
      atomic_load(&server->node.awaited))
    atomic_store(&server->node.look, true);
  idem__identity_tick(server);
  idem__node_deliver(worker);
  touch(worker);
}

void idem__node_renew_soon(idem_server *server) {
  atomic_store(&server->node.renew_soon, true);
  idem__server_wake(server);
}

void idem__node_renew_now(idem__mcp_worker *worker) {
  idem__node *node = &worker->server->node;
  if (!atomic_load(&node->renew_soon) || atomic_exchange(&node->renewing, true)) return;
  atomic_store(&node->renew_soon, false);
  touch(worker);
}

void idem__node_find(idem_server *server, idem__store_queue *queue, const char *id,
                     idem__store_done done, void *user) {
  idem__store_op op = op_for(server, id, IDEM__STORE_GET);
  op.done = done;
  op.user = user;
  idem__store_submit(server->store, queue, &op, NULL);
}
