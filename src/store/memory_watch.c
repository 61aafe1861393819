/* memory_watch.c - who is told of changes in the store in memory.
 * Functions run on the thread that made the change and outside every lock, so that they may use the
 * store; whoever unwatches waits for one that is running. See docs/internals/store.md. */
#include "memory.h"

#ifndef __STDC_NO_THREADS__
#include <threads.h>
#endif

/* The watcher after this one, marked as running; the one before is let go. NULL: no more. */
static idem__store_watcher *next_watcher(idem__store_memory *memory, idem__store_space space,
                                         idem__store_watcher *before) {
  idem_list *watchers = &memory->rooms[space].watchers;
  idem__store_watcher *next = NULL;
  idem__lock_take(&memory->lock);
  for (idem_list *at = before ? before->link.next : watchers->next; at != watchers && !next;
       at = at->next) {
    idem__store_watcher *candidate = IDEM_CONTAINER(at, idem__store_watcher, link);
    if (!candidate->leaving) next = candidate;
  }
  if (next) next->running++;
  if (before) before->running--;
  idem__lock_give(&memory->lock);
  return next;
}

void idem__store_tell(idem__store_memory *memory, const idem__store_change *change) {
  idem__store_watcher *watcher = NULL;
  while ((watcher = next_watcher(memory, change->space, watcher))) {
    watcher->fn(change, watcher->user);
  }
}

idem_status idem__store_memory_watch(idem__store *store, idem__store_space space,
                                     idem__store_watch_fn fn, void *user,
                                     idem__store_watcher **out) {
  idem__store_memory *memory = IDEM_CONTAINER(store, idem__store_memory, head);
  idem__store_watcher *watcher = idem__calloc(&memory->alloc, sizeof *watcher);
  *out = watcher;
  if (!watcher) return IDEM_E_NOMEM;
  watcher->fn = fn;
  watcher->user = user;
  idem__lock_take(&memory->lock);
  idem_list_append(&memory->rooms[space].watchers, &watcher->link);
  idem__lock_give(&memory->lock);
  return IDEM_OK;
}

/* It stays in the list while its function runs, so that whoever told it finds the next one. */
static bool try_leave(idem__store_memory *memory, idem__store_watcher *watcher) {
  idem__lock_take(&memory->lock);
  watcher->leaving = true;
  bool idle = watcher->running == 0;
  if (idle) idem_list_remove(&watcher->link);
  idem__lock_give(&memory->lock);
  return idle;
}

void idem__store_memory_unwatch(idem__store *store, idem__store_watcher *watcher) {
  idem__store_memory *memory = IDEM_CONTAINER(store, idem__store_memory, head);
  while (!try_leave(memory, watcher)) {
#ifndef __STDC_NO_THREADS__
    thrd_yield();
#endif
  }
  idem__free(&memory->alloc, watcher);
}
