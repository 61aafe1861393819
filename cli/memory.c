/* memory.c - see memory.h: a chain of blocks, one a piece. */
#include "memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct memory_block {
  memory_block *before;
  max_align_t bytes[];
};

void *memory_zeroed(config_memory *self, size_t count, size_t size) {
  size_t most = (SIZE_MAX / 2 - sizeof(memory_block)) / (size ? size : 1);
  memory_block *block = count <= most ? calloc(1, sizeof *block + count * size) : NULL;
  if (!block) {
    fputs("idem: out of memory\n", stderr);
    exit(1);
  }
  block->before = self->last;
  self->last = block;
  return block->bytes;
}

char *memory_text(config_memory *self, const char *text, size_t len) {
  char *copy = memory_zeroed(self, len + 1, 1);
  memcpy(copy, text, len);
  return copy;
}

void memory_free(config_memory *self) {
  for (memory_block *block = self->last, *before; block; block = before) {
    before = block->before;
    free(block);
  }
  self->last = NULL;
}
