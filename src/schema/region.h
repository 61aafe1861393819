/* region.h - memory handed out in order and given back all at once.
 * A program lives in one; a validation's scratch in another, which keeps its chunks between runs
 * so that the steady state allocates nothing. */
#ifndef IDEM_SCHEMA_REGION_H
#define IDEM_SCHEMA_REGION_H

#include "base/base.h"

typedef struct region_chunk {
  struct region_chunk *next;
  size_t size, used;
  max_align_t bytes[];
} region_chunk;

typedef struct region {
  const idem_alloc *alloc;
  region_chunk *first, *current;
  size_t chunk_size; /* of the next chunk */
} region;

typedef struct region_mark {
  region_chunk *chunk;
  size_t used;
} region_mark;

void idem__region_init(region *memory, const idem_alloc *alloc, size_t chunk_size);
void idem__region_deinit(region *memory);
void *idem__region_get_slow(region *memory, size_t size);
void idem__region_release(region *memory, region_mark mark);
char *idem__region_text(region *memory, const char *text, size_t len); /* adds a NUL */

/* Uninitialised memory for any type; NULL: no memory. */
static inline void *idem__region_get(region *memory, size_t size) {
  region_chunk *chunk = memory->current;
  size = size ? (size + 15) & ~(size_t)15 : 16;
  if (chunk && chunk->size - chunk->used >= size && size) {
    void *at = (char *)chunk->bytes + chunk->used;
    chunk->used += size;
    return at;
  }
  return idem__region_get_slow(memory, size);
}
static inline region_mark idem__region_marked(const region *memory) {
  return (region_mark){memory->current, memory->current ? memory->current->used : 0};
}
void *idem__region_zeroed(region *memory, size_t size);

#endif
