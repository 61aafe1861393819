/* memory.c - see memory.h: a chain of blocks, each cut into pieces from its beginning. */
#include "memory.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdnoreturn.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)64 << 10)

struct memory_block {
  memory_block *before;
  size_t used;
  size_t size;
  max_align_t bytes[];
};

noreturn void memory_exhausted(void) {
  fputs("idem: out of memory\n", stderr);
  exit(1);
}

static memory_block *add_block(config_memory *self, size_t least) {
  size_t size = least > BLOCK_BYTES / 4 ? least : BLOCK_BYTES;
  memory_block *block = calloc(1, sizeof *block + size);
  if (!block) memory_exhausted();
  block->size = size;
  block->before = self->last;
  self->last = block;
  return block;
}

static size_t whole_steps(size_t bytes) {
  size_t step = _Alignof(max_align_t);
  return (bytes + step - 1) / step * step;
}

void *memory_zeroed(config_memory *self, size_t count, size_t size) {
  memory_block *block = self->last;
  size_t bytes = SIZE_MAX / 4; /* more than there can be */
  if (!size || count < bytes / size) bytes = whole_steps(count * size);
  if (!block || block->size - block->used < bytes) block = add_block(self, bytes);
  void *piece = (char *)block->bytes + block->used;
  block->used += bytes;
  return piece;
}

char *memory_text(config_memory *self, const char *text, size_t len) {
  char *copy = memory_zeroed(self, len + 1, 1);
  memcpy(copy, text, len);
  return copy;
}

/* Nothing was written there, so it is still zeroed. */
void memory_give_back(config_memory *self, void *piece, size_t used) {
  memory_block *block = self->last;
  block->used = (size_t)((char *)piece - (char *)block->bytes) + whole_steps(used);
}

void memory_free(config_memory *self) {
  for (memory_block *block = self->last, *before; block; block = before) {
    before = block->before;
    free(block);
  }
  self->last = NULL;
}
