/* memo.c - see memo.h. */
#include "memo.h"

#include <string.h>

#define LEAST_BITS 10
#define MOST_BITS 16 /* half a megabyte */

bool idem__memo_begin(memo *self, const idem_alloc *alloc, uint64_t values) {
  uint32_t bits = LEAST_BITS; /* containers alone are remembered: a slot for each second value */
  while (bits < MOST_BITS && (uint64_t)1 << bits < values / 2) bits++;
  uint32_t count = (uint32_t)1 << bits;
  if (count > self->capacity) {
    uint64_t *slots = idem__malloc(alloc, count * sizeof *slots);
    if (!slots) return false;
    idem__memo_deinit(self, alloc);
    self->slots = slots;
    self->capacity = count;
  }
  memset(self->slots, 0, count * sizeof *self->slots);
  self->shift = 64 - bits;
  return true;
}

void idem__memo_deinit(memo *self, const idem_alloc *alloc) {
  idem__free(alloc, self->slots);
  *self = (memo){0};
}
