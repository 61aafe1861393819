/* alloc.c - one allocator in hand instead of malloc everywhere.
 * Every object is made with an idem_alloc and gives all its memory back to it; this file turns
 * "NULL or zero" into the C library's functions. See docs/internals/base.md. */
#include "base.h"

#include <stdlib.h>
#include <string.h>

static IDEM__EARLY void *libc_malloc(void *ctx, size_t size) {
  (void)ctx;
  return malloc(size);
}

static IDEM__EARLY void *libc_realloc(void *ctx, void *ptr, size_t old_size, size_t size) {
  (void)ctx;
  (void)old_size;
  return realloc(ptr, size);
}

static IDEM__EARLY void libc_free(void *ctx, void *ptr) {
  (void)ctx;
  free(ptr);
}

static const idem_alloc libc_alloc = {libc_malloc, libc_realloc, libc_free, NULL};

static const idem_alloc *usable(const idem_alloc *alloc) {
  return alloc && alloc->malloc ? alloc : &libc_alloc;
}

idem_alloc idem__alloc_or_default(const idem_alloc *alloc) { return *usable(alloc); }

void *idem__malloc(const idem_alloc *alloc, size_t size) {
  if (size == 0) return NULL;
  alloc = usable(alloc);
  return alloc->malloc(alloc->ctx, size);
}

IDEM__EARLY void *idem__calloc(const idem_alloc *alloc, size_t size) {
  void *ptr = idem__malloc(alloc, size);
  if (ptr) memset(ptr, 0, size);
  return ptr;
}

void *idem__realloc(const idem_alloc *alloc, void *ptr, size_t old_size, size_t size) {
  if (!ptr) return idem__malloc(alloc, size);
  alloc = usable(alloc);
  if (size == 0) {
    alloc->free(alloc->ctx, ptr);
    return NULL;
  }
  return alloc->realloc(alloc->ctx, ptr, old_size, size);
}

void idem__free(const idem_alloc *alloc, void *ptr) {
  if (!ptr) return;
  alloc = usable(alloc);
  alloc->free(alloc->ctx, ptr);
}

IDEM__EARLY char *idem__strndup(const idem_alloc *alloc, const char *text, size_t len) {
  if (len == SIZE_MAX) return NULL;
  char *copy = idem__malloc(alloc, len + 1);
  if (!copy) return NULL;
  if (len) memcpy(copy, text, len);
  copy[len] = '\0';
  return copy;
}
