/* counting.h - an allocator that counts: in the steady state there should be nothing to count. */
#ifndef IDEM_BENCH_COUNTING_H
#define IDEM_BENCH_COUNTING_H

#include <idem/base.h>
#include <stdlib.h>

static size_t allocations;
static void *count_malloc(void *ctx, size_t size) {
  (void)ctx;
  allocations++;
  return malloc(size);
}
static void *count_realloc(void *ctx, void *ptr, size_t old_size, size_t size) {
  (void)ctx;
  (void)old_size;
  allocations++;
  return realloc(ptr, size);
}
static void count_free(void *ctx, void *ptr) {
  (void)ctx;
  free(ptr);
}
static const idem_alloc counting = {count_malloc, count_realloc, count_free, NULL};

#endif
