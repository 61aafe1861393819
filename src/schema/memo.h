/* memo.h - what a long validation remembers: which containers a subschema has already judged. */
#ifndef IDEM_SCHEMA_MEMO_H
#define IDEM_SCHEMA_MEMO_H

#include "base/base.h"

/* Verdicts by subschema and value. A slot has the last of those that fall on it, so that it is bounded; the way back
 * to a value that several branches look at is short, and finds it there. */
typedef struct memo {
  uint64_t *slots; /* pairs and verdict; 0: free */
  uint32_t capacity;
  uint32_t shift; /* of a hash to a slot; 0: not in use */
} memo;

/* Forgets, with room for so many values. False: no memory; then nothing is remembered. */
bool idem__memo_begin(memo *self, const idem_alloc *alloc, uint64_t values);
void idem__memo_deinit(memo *self, const idem_alloc *alloc);

/* `offset` is that of the value from the whole instance. */
static inline uint64_t idem__memo_key(uint32_t subschema, uint32_t offset) {
  return ((uint64_t)subschema + 1) << 33 | (uint64_t)offset << 1;
}
static inline uint64_t *idem__memo_slot(const memo *self, uint64_t key) {
  return &self->slots[(key * 0x9e3779b97f4a7c15u) >> self->shift];
}

#endif
