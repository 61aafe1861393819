/* short.h - texts of a few bytes, as ids, names of methods and most strings are: a call would cost more than their bytes. */
#ifndef IDEM_BASE_SHORT_H
#define IDEM_BASE_SHORT_H

#include "base.h"

#include <string.h>

#define IDEM__SHORT 64u /* from here on a call is worth it */

/* The last ones of a size overlap those before: two copies do for any length between two sizes. */
#define IDEM__COPY_ENDS(to, from, len, size)                                                       \
  (memcpy(to, from, size), memcpy((to) + (len) - (size), (from) + (len) - (size), size))

static IDEM__INLINE void idem__copy_short(char *to, const char *from, size_t len) {
  if (len >= 16) {
    for (size_t at = 0; at + 16 < len; at += 16) memcpy(to + at, from + at, 16);
    memcpy(to + len - 16, from + len - 16, 16);
  } else if (len >= 8) {
    IDEM__COPY_ENDS(to, from, len, 8);
  } else if (len >= 4) {
    IDEM__COPY_ENDS(to, from, len, 4);
  } else if (len) {
    to[0] = from[0];
    if (len > 1) IDEM__COPY_ENDS(to, from, len, 2);
  }
}

static IDEM__INLINE void idem__copy(char *to, const char *from, size_t len) {
  if (IDEM__LIKELY(len < IDEM__SHORT))
    idem__copy_short(to, from, len);
  else
    memcpy(to, from, len);
}

static IDEM__INLINE bool idem__same_four(const char *a, const char *b) {
  uint32_t x, y;
  memcpy(&x, a, 4);
  memcpy(&y, b, 4);
  return x == y;
}

/* Two of the same length, by eights or fours; the last of them overlap. */
static IDEM__INLINE bool idem__same(const char *a, const char *b, size_t len) {
  uint64_t x, y;
  if (len < 4) return !len || (*a == *b && (len == 1 || memcmp(a + len - 2, b + len - 2, 2) == 0));
  if (len < 8) return idem__same_four(a, b) && idem__same_four(a + len - 4, b + len - 4);
  for (size_t at = 0; at < len; at += 8) {
    size_t from = at + 8 <= len ? at : len - 8;
    memcpy(&x, a + from, 8);
    memcpy(&y, b + from, 8);
    if (x != y) return false;
  }
  return true;
}

#endif
