/* region.c - chunks of memory in a list; see region.h.
 * Releasing to a mark keeps the chunks for the next run; only deinit gives them back. */
#include "region.h"

#include <string.h>

void idem__region_init(region *memory, const idem_alloc *alloc, size_t chunk_size) {
  *memory = (region){.alloc = alloc, .chunk_size = chunk_size};
}

void idem__region_deinit(region *memory) {
  region_chunk *chunk = memory->first;
  while (chunk) {
    region_chunk *next = chunk->next;
    idem__free(memory->alloc, chunk);
    chunk = next;
  }
  memory->first = memory->current = NULL;
}

static region_chunk *add_chunk(region *memory, size_t size) {
  size_t want = memory->chunk_size > size ? memory->chunk_size : size;
  if (want > SIZE_MAX - sizeof(region_chunk)) return NULL;
  region_chunk *chunk = idem__malloc(memory->alloc, sizeof *chunk + want);
  if (!chunk) return NULL;
  chunk->size = want;
  chunk->used = 0;
  chunk->next = NULL;
  if (memory->chunk_size < (size_t)1 << 20) memory->chunk_size *= 2;
  if (memory->current) {
    chunk->next = memory->current->next;
    memory->current->next = chunk;
  } else {
    memory->first = chunk;
  }
  return chunk;
}

void *idem__region_get_slow(region *memory, size_t size) {
  if (size == 0 || size > SIZE_MAX / 2) return NULL; /* 0: rounding up wrapped around */
  region_chunk *next = memory->current ? memory->current->next : memory->first;
  if (next && next->size >= size)
    next->used = 0;
  else if (!(next = add_chunk(memory, size)))
    return NULL;
  memory->current = next;
  next->used = size;
  return next->bytes;
}

void idem__region_release(region *memory, region_mark mark) {
  memory->current = mark.chunk ? mark.chunk : memory->first;
  if (memory->current) memory->current->used = mark.used;
}

void *idem__region_zeroed(region *memory, size_t size) {
  void *at = idem__region_get(memory, size);
  if (at) memset(at, 0, size);
  return at;
}

char *idem__region_text(region *memory, const char *text, size_t len) {
  char *copy = idem__region_get(memory, len + 1);
  if (!copy) return NULL;
  if (len) memcpy(copy, text, len);
  copy[len] = 0;
  return copy;
}
