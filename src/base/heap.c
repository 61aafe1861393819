/* heap.c - the deadlines of a conn or a server, earliest first.
 * An intrusive binary heap: a timer knows its place, so moving and removing one needs no search and
 * no memory. See docs/internals/base.md. */
#include "base.h"

#include <assert.h>

enum { SMALLEST = 16 };

void idem__heap_init(idem__heap *heap, const idem_alloc *alloc) {
  *heap = (idem__heap){.alloc = alloc};
}

void idem__heap_deinit(idem__heap *heap) {
  for (size_t i = 1; i <= heap->count; i++) heap->items[i]->index = 0;
  idem__free(heap->alloc, heap->items);
  heap->items = NULL;
  heap->count = heap->cap = 0;
}

static void settle(idem__heap *heap, idem__timer *timer, size_t index) {
  heap->items[index] = timer;
  timer->index = index;
}

static size_t sift_up(idem__heap *heap, idem__timer *timer, size_t index) {
  while (index > 1 && timer->at_ms < heap->items[index / 2]->at_ms) {
    settle(heap, heap->items[index / 2], index);
    index /= 2;
  }
  settle(heap, timer, index);
  return index;
}

static void sift_down(idem__heap *heap, idem__timer *timer, size_t index) {
  for (size_t child; (child = index * 2) <= heap->count; index = child) {
    if (child < heap->count && heap->items[child + 1]->at_ms < heap->items[child]->at_ms) child++;
    if (timer->at_ms <= heap->items[child]->at_ms) break;
    settle(heap, heap->items[child], index);
  }
  settle(heap, timer, index);
}

static void restore(idem__heap *heap, idem__timer *timer, size_t index) {
  if (sift_up(heap, timer, index) == index) sift_down(heap, timer, index);
}

/* items[0] is never used, so count + 1 places are taken. */
static idem_status make_room(idem__heap *heap) {
  if (heap->count + 1 < heap->cap) return IDEM_OK;
  size_t cap = heap->cap ? heap->cap * 2 : SMALLEST;
  if (cap > SIZE_MAX / sizeof *heap->items) return IDEM_E_NOMEM;
  idem__timer **items = idem__realloc(heap->alloc, heap->items, heap->cap * sizeof *heap->items,
                                      cap * sizeof *heap->items);
  if (!items) return IDEM_E_NOMEM;
  heap->items = items;
  heap->cap = cap;
  return IDEM_OK;
}

idem_status idem__heap_put(idem__heap *heap, idem__timer *timer, uint64_t at_ms) {
  if (timer->index) {
    assert(heap->items[timer->index] == timer);
    timer->at_ms = at_ms;
    restore(heap, timer, timer->index);
    return IDEM_OK;
  }
  idem_status status = make_room(heap);
  if (status != IDEM_OK) return status;
  timer->at_ms = at_ms;
  sift_up(heap, timer, ++heap->count);
  return IDEM_OK;
}

IDEM__EARLY void idem__heap_remove(idem__heap *heap, idem__timer *timer) {
  size_t index = timer->index;
  if (index == 0) return;
  assert(index <= heap->count && heap->items[index] == timer);
  idem__timer *last = heap->items[heap->count--];
  timer->index = 0;
  if (last != timer) restore(heap, last, index);
}

idem__timer *idem__heap_first(const idem__heap *heap) {
  return heap->count ? heap->items[1] : NULL;
}
