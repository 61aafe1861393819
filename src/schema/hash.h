/* hash.h - short strings as two words that together hold all their bytes, so that equality of short
 * names needs no memcmp. The hash of names and values is the one of src/base. */
#ifndef IDEM_SCHEMA_HASH_H
#define IDEM_SCHEMA_HASH_H

#include "../base/base.h"

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

#endif
