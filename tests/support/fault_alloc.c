/* fault_alloc.c - an allocator that counts, remembers and fails on demand.
 * Each block carries its size and a mark in front, so that a wrong old size or a pointer that was
 * never ours is noticed at once. */
#include "fault_alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARK_LIVE = 0x1de41de4, MARK_DEAD = 0x0dead0de };

typedef struct header {
  size_t size;
  size_t mark;
} header;

/* The header is padded to the strictest alignment, so that what follows it is aligned too. */
enum {
  HEADER =
      (sizeof(header) + _Alignof(max_align_t) - 1) / _Alignof(max_align_t) * _Alignof(max_align_t)
};

static void fail(const char *sentence, size_t a, size_t b) {
  fprintf(stderr, "fault_alloc: %s (%zu, %zu)\n", sentence, a, b);
  abort();
}

static header *header_of(void *ptr) {
  header *head = (header *)(void *)((char *)ptr - HEADER);
  if (head->mark == MARK_DEAD) fail("a block was used after it was freed", head->size, 0);
  if (head->mark != MARK_LIVE) fail("a pointer that was never given out", head->mark, 0);
  return head;
}

static bool refuses(fault_alloc *fault, size_t old_size, size_t size) {
  fault->calls++;
  bool by_count = fault->fail_at && (fault->calls == fault->fail_at ||
                                     (fault->fail_ever_after && fault->calls > fault->fail_at));
  bool by_size = fault->limit_bytes && (size > fault->limit_bytes ||
                                        fault->live_bytes - old_size > fault->limit_bytes - size);
  if (by_count || by_size) fault->failures++;
  return by_count || by_size;
}

static void account(fault_alloc *fault, size_t old_size, size_t size) {
  fault->live_bytes = fault->live_bytes - old_size + size;
  if (fault->live_bytes > fault->peak_bytes) fault->peak_bytes = fault->live_bytes;
}

static void *fault_malloc(void *ctx, size_t size) {
  fault_alloc *fault = ctx;
  if (size == 0) fail("malloc was asked for nothing", size, fault->calls);
  if (refuses(fault, 0, size)) return NULL;
  header *head = malloc(HEADER + size);
  if (!head) return NULL;
  *head = (header){.size = size, .mark = MARK_LIVE};
  /* Not zero: code that relies on fresh memory being zero shows itself. */
  memset((char *)head + HEADER, 0xa5, size);
  fault->live_blocks++;
  account(fault, 0, size);
  return (char *)head + HEADER;
}

static void fault_free(void *ctx, void *ptr) {
  fault_alloc *fault = ctx;
  if (!ptr) fail("free was called with NULL", 0, 0);
  header *head = header_of(ptr);
  account(fault, head->size, 0);
  fault->live_blocks--;
  head->mark = MARK_DEAD;
  free(head);
}

/* Always moves, so that a pointer kept across a realloc is noticed by the sanitizer. */
static void *fault_realloc(void *ctx, void *ptr, size_t old_size, size_t size) {
  fault_alloc *fault = ctx;
  if (!ptr || size == 0) fail("realloc of nothing or to nothing", old_size, size);
  header *head = header_of(ptr);
  if (head->size != old_size) fail("realloc with a wrong old size", head->size, old_size);
  if (refuses(fault, old_size, size)) return NULL;
  header *moved = malloc(HEADER + size);
  if (!moved) return NULL;
  *moved = (header){.size = size, .mark = MARK_LIVE};
  memset((char *)moved + HEADER, 0xa5, size);
  memcpy((char *)moved + HEADER, ptr, old_size < size ? old_size : size);
  account(fault, old_size, size);
  head->mark = MARK_DEAD;
  free(head);
  return (char *)moved + HEADER;
}

void fault_alloc_init(fault_alloc *fault) {
  *fault = (fault_alloc){.alloc = {fault_malloc, fault_realloc, fault_free, fault}};
}

void fault_alloc_fail_in(fault_alloc *fault, size_t n) {
  fault->fail_at = n ? fault->calls + n : 0;
  fault->fail_ever_after = false;
}

void fault_alloc_fail_from(fault_alloc *fault, size_t n) {
  fault_alloc_fail_in(fault, n);
  fault->fail_ever_after = true;
}

void fault_alloc_assert_clean(const fault_alloc *fault) {
  if (fault->live_blocks == 0 && fault->live_bytes == 0) return;
  fprintf(stderr, "fault_alloc: with call %zu of %zu failing:\n", fault->fail_at, fault->calls);
  fail("leaked blocks and bytes", fault->live_blocks, fault->live_bytes);
}

static size_t sweep(fault_scenario scenario, void *user, size_t max_runs, bool ever_after) {
  for (size_t n = 1; n <= max_runs; n++) {
    fault_alloc fault;
    fault_alloc_init(&fault);
    fault.fail_at = n;
    fault.fail_ever_after = ever_after;
    scenario(&fault, user);
    fault_alloc_assert_clean(&fault);
    if (fault.failures == 0) return n - 1;
  }
  fail("the sweep did not end within its runs", max_runs, 0);
  return max_runs;
}

size_t fault_alloc_sweep(fault_scenario scenario, void *user, size_t max_runs) {
  return sweep(scenario, user, max_runs, false);
}

size_t fault_alloc_sweep_ever_after(fault_scenario scenario, void *user, size_t max_runs) {
  return sweep(scenario, user, max_runs, true);
}
