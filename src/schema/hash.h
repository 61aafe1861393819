/* hash.h - the hash of property names, constants and array items.
 * Multiply-and-fold over 16 bytes at a time, seeded per schema. Short strings are read as two words
 * that together hold all their bytes, so equality of short names needs no memcmp. */
#ifndef IDEM_SCHEMA_HASH_H
#define IDEM_SCHEMA_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

__extension__ typedef unsigned __int128 idem__wide;

static inline uint64_t idem__mix(uint64_t a, uint64_t b) {
  idem__wide product = (idem__wide)(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xd6e8feb86659fd93u);
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t idem__load8(const char *p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}
static inline uint64_t idem__load4(const char *p) {
  uint32_t v;
  memcpy(&v, p, 4);
  return v;
}

/* A seed that nobody outside knows: where things lie in memory. The fuzz targets get the same in every
 * run instead, so that what one found is found again. */
static inline uint64_t idem__seed_from(const void *heap, const void *stack) {
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  heap = stack = NULL;
#endif
  return idem__mix((uint64_t)(uintptr_t)heap, (uint64_t)(uintptr_t)stack);
}

/* The two words of a string: all of it up to 16 bytes, its ends beyond. */
typedef struct idem__words {
  uint64_t head, tail;
} idem__words;

static inline idem__words idem__text_words(const char *text, size_t len) {
  if (len >= 8) return (idem__words){idem__load8(text), idem__load8(text + len - 8)};
  if (len >= 4) return (idem__words){idem__load4(text), idem__load4(text + len - 4)};
  if (len == 0) return (idem__words){0, 0};
  return (idem__words){(uint64_t)(uint8_t)text[0] | (uint64_t)(uint8_t)text[len >> 1] << 8,
                       (uint64_t)(uint8_t)text[len - 1]};
}

static inline uint64_t idem__text_hash(const char *text, size_t len, idem__words words,
                                       uint64_t seed) {
  uint64_t hash = idem__mix(words.head ^ seed, words.tail ^ len);
  if (len > 16)
    for (size_t at = 8; at + 8 < len; at += 8)
      hash = idem__mix(hash, idem__load8(text + at) ^ seed);
  return hash;
}

#endif
