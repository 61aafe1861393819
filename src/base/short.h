/* short.h - texts of a few bytes, as ids, names of methods and most strings are: a call would cost more than their bytes. */
#ifndef IDEM_BASE_SHORT_H
#define IDEM_BASE_SHORT_H

#include "base.h"

#include <string.h>

#define IDEM__SHORT 64u /* from here on a call is worth it */

static IDEM__INLINE void idem__copy_short(char *to, const char *from, size_t len) {
  for (; len >= 16; len -= 16, to += 16, from += 16) memcpy(to, from, 16);
  if (len & 8) memcpy(to, from, 8), to += 8, from += 8;
  if (len & 4) memcpy(to, from, 4), to += 4, from += 4;
  if (len & 2) memcpy(to, from, 2), to += 2, from += 2;
  if (len & 1) *to = *from;
}

static IDEM__INLINE void idem__copy(char *to, const char *from, size_t len) {
  if (IDEM__LIKELY(len < IDEM__SHORT))
    idem__copy_short(to, from, len);
  else
    memcpy(to, from, len);
}

/* Two of the same length, by eights; the last of them overlap. */
static IDEM__INLINE bool idem__same(const char *a, const char *b, size_t len) {
  uint64_t x, y, differ = 0;
  if (len < 8) {
    for (size_t i = 0; i < len; i++) differ |= (uint64_t)(a[i] ^ b[i]);
    return differ == 0;
  }
  for (size_t at = 0; at < len; at += 8) {
    size_t from = at + 8 <= len ? at : len - 8;
    memcpy(&x, a + from, 8);
    memcpy(&y, b + from, 8);
    if (x != y) return false;
  }
  return true;
}

#endif
