/* watchers.h - who is told of changes by a store that tells on one thread of its own, as those in modules do. In a header,
 * since modules need nothing of libidem but headers. The store in memory tells on any thread and has its own
 * (src/store/memory_watch.c). */
#ifndef IDEM_MODULES_WATCHERS_H
#define IDEM_MODULES_WATCHERS_H

#include "../store/store.h"

#include <pthread.h>
#include <stdlib.h>

struct idem__store_watcher {
  idem_list link;
  idem__store_space space;
  idem__store_watch_fn fn;
  void *user;
};

typedef struct idem__watchers {
  pthread_mutex_t lock;
  pthread_cond_t quiet; /* no watcher, or another, is being told */
  idem_list list;
  idem__store_watcher *told; /* whose function runs */
} idem__watchers;

static inline void idem__watchers_init(idem__watchers *self) {
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->quiet, NULL);
  idem_list_init(&self->list);
  self->told = NULL;
}

static inline void idem__watchers_deinit(idem__watchers *self) {
  pthread_cond_destroy(&self->quiet);
  pthread_mutex_destroy(&self->lock);
}

/* The first watcher of the space behind `before` (NULL: of all), marked as being told. */
static inline idem__store_watcher *idem__watchers_next(idem__watchers *self,
                                                       idem__store_space space,
                                                       const idem__store_watcher *before) {
  pthread_mutex_lock(&self->lock);
  const idem_list *at = before ? before->link.next : self->list.next;
  self->told = NULL;
  for (; at != &self->list && !self->told; at = at->next) {
    idem__store_watcher *candidate = IDEM_CONTAINER(at, idem__store_watcher, link);
    if (candidate->space == space) self->told = candidate;
  }
  pthread_cond_broadcast(&self->quiet);
  idem__store_watcher *next = self->told;
  pthread_mutex_unlock(&self->lock);
  return next;
}

/* On the one thread that tells; without a lock while functions of others run. */
static inline void idem__watchers_tell(idem__watchers *self, const idem__store_change *change) {
  idem__store_watcher *watcher = NULL;
  while ((watcher = idem__watchers_next(self, change->space, watcher)))
    watcher->fn(change, watcher->user);
}

static inline idem_status idem__watchers_add(idem__watchers *self, idem__store_space space,
                                             idem__store_watch_fn fn, void *user,
                                             idem__store_watcher **out) {
  idem__store_watcher *watcher = calloc(1, sizeof *watcher);
  *out = watcher;
  if (!watcher) return IDEM_E_NOMEM;
  watcher->space = space;
  watcher->fn = fn;
  watcher->user = user;
  pthread_mutex_lock(&self->lock);
  idem_list_append(&self->list, &watcher->link);
  pthread_mutex_unlock(&self->lock);
  return IDEM_OK;
}

/* Its function does not run any more when this has returned. */
static inline void idem__watchers_remove(idem__watchers *self, idem__store_watcher *watcher) {
  pthread_mutex_lock(&self->lock);
  while (self->told == watcher) pthread_cond_wait(&self->quiet, &self->lock);
  idem_list_remove(&watcher->link);
  pthread_mutex_unlock(&self->lock);
  free(watcher);
}

#endif
