/* once_key.c - see once_key.h. */
#include "once_key.h"

bool idem__once_is_key(const char *text, size_t len) {
  if (!len || len > IDEM__ONCE_KEY_MAX) return false;
  for (size_t i = 0; i < len; i++) {
    if (text[i] < '!' || text[i] > '~') return false;
  }
  return true;
}
