/* crowd.c - the connections of a port, on all loops that serve it: when there are as many as may be, who
 * has waited longest for nothing gives way, whichever loop it is on. A loop closes its own connections
 * only; it tells the loop whose turn it is, and lets the newcomer in. See docs/internals/uv.md. */
#include "uv/web.h"

static size_t get(const _Atomic size_t *value) {
  return atomic_load_explicit(value, memory_order_relaxed);
}

/* --------------------------------------------------------------------- queues */

static void show(idem__web_queue *queue, size_t count) {
  const idem_list *first = queue->peers.next;
  uint64_t since_ns =
      first == &queue->peers ? 0 : IDEM_CONTAINER(first, idem__web_peer, place)->since_ns;
  atomic_store_explicit(&queue->count, count, memory_order_relaxed);
  atomic_store_explicit(&queue->since_ns, since_ns, memory_order_relaxed);
}

static size_t over(const idem__web *web) {
  size_t crowd = get(&web->first->crowd), most = web->listener->opts.max_connections;
  return crowd > most ? crowd - most : 0;
}

/* Where nobody could give way when it was time to, somebody can now. */
void idem__crowd_place(idem__web_peer *peer, idem__web_queue *queue) {
  idem__web_queue *old = peer->queue;
  if (old == queue) return;
  idem_list_remove(&peer->place);
  if (old) show(old, get(&old->count) - 1);
  peer->queue = queue;
  if (!queue) return;
  peer->since_ns = peer->web->now_ns;
  idem_list_append(&queue->peers, &peer->place);
  show(queue, get(&queue->count) + 1);
  if (over(peer->web) > 0) uv_async_send(&peer->web->news);
}

static bool close_longest(idem__web *web) {
  const idem_list *from =
      idem_list_empty(&web->silent.peers) ? &web->waiting.peers : &web->silent.peers;
  if (idem_list_empty(from)) return false;
  idem__metrics_add(web->metrics, IDEM__M_REFUSED_CONNECTIONS, 1);
  idem__driver_close(&IDEM_CONTAINER(from->next, idem__web_peer, place)->driver);
  return true;
}

/* ---------------------------------------------------------------------- loops */

void idem__crowd_join(idem__web *web) {
  idem__lock_take(&web->first->loops_lock);
  idem_list_append(&web->first->loops, &web->loop);
  idem__lock_give(&web->first->loops_lock);
}

void idem__crowd_leave(idem__web *web) {
  idem__lock_take(&web->first->loops_lock);
  idem_list_remove(&web->loop);
  idem__lock_give(&web->first->loops_lock);
}

/* With the lock held: the loop whose first one has waited longest; NULL: nobody waits. */
static idem__web *find_longest(const idem__web *first, bool silent) {
  uint64_t longest = UINT64_MAX;
  idem__web *found = NULL;
  for (idem_list *at = first->loops.next; at != &first->loops; at = at->next) {
    idem__web *web = IDEM_CONTAINER(at, idem__web, loop);
    const idem__web_queue *queue = silent ? &web->silent : &web->waiting;
    uint64_t since_ns = atomic_load_explicit(&queue->since_ns, memory_order_relaxed);
    if (get(&queue->count) == 0 || since_ns >= longest) continue;
    longest = since_ns;
    found = web;
  }
  return found;
}

/* Whose turn it is. It is told, unless it asks itself: then one of its own is leaving. The handle of a loop
 * that is in the list is open. */
static bool is_next(idem__web *web) {
  idem__web *first = web->first, *found = NULL;
  idem__lock_take(&first->loops_lock);
  if (over(web) > first->leaving) {
    found = find_longest(first, true);
    if (!found) found = find_longest(first, false);
  }
  if (found == web) first->leaving++;
  if (found && found != web) uv_async_send(&found->news);
  idem__lock_give(&first->loops_lock);
  return found == web;
}

static void has_left(idem__web *first) {
  idem__lock_take(&first->loops_lock);
  first->leaving--;
  idem__lock_give(&first->loops_lock);
}

void idem__crowd_give_way(idem__web *web) {
  for (bool closed = true; closed && over(web) > 0 && is_next(web);) {
    closed = close_longest(web);
    has_left(web->first);
  }
}

/* There may be others who were let in and for whom somebody is still to go. */
bool idem__crowd_make_room(idem__web *web) {
  const idem__web *first = web->first;
  size_t may_go = 0;
  idem__lock_take(&web->first->loops_lock);
  for (idem_list *at = first->loops.next; at != &first->loops; at = at->next) {
    const idem__web *one = IDEM_CONTAINER(at, idem__web, loop);
    may_go += get(&one->silent.count) + get(&one->waiting.count);
  }
  idem__lock_give(&web->first->loops_lock);
  if (may_go < over(web)) return false;
  idem__crowd_give_way(web);
  return true;
}
