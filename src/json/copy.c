/* copy.c - a value that is kept: with all below it in one piece of memory, no larger than it must be. yyjson has the values below one
 * behind it, by distances, and their texts elsewhere, by pointers; so values are moved as they are and texts are pointed to anew. */
#include "json.h"

#include <string.h>

static bool has_text(yyjson_val *val) { return yyjson_is_str(val) || yyjson_is_raw(val); }

size_t idem__json_copy_size(yyjson_val *val) {
  size_t size = 0;
  const yyjson_val *end = unsafe_yyjson_get_next(val);
  for (yyjson_val *each = val; each < end; each++)
    size += sizeof *each + (has_text(each) ? unsafe_yyjson_get_len(each) + 1 : 0);
  return size;
}

void idem__json_copy(yyjson_val *val, yyjson_val *into) {
  size_t count = (size_t)((yyjson_val *)unsafe_yyjson_get_next(val) - val);
  char *text = (char *)(into + count);
  memcpy(into, val, count * sizeof *val);
  for (size_t i = 0; i < count; i++) {
    if (!has_text(&into[i])) continue;
    size_t len = unsafe_yyjson_get_len(&into[i]);
    memcpy(text, into[i].uni.str, len);
    text[len] = '\0';
    into[i].uni.str = text;
    text += len + 1;
  }
}
