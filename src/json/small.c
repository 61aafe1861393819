/* small.c - writing values of few parts, which is what most answers are.
 * yyjson's writer sets up and grows its buffer for documents of any size; for a handful of values
 * that costs more than the writing. What needs thought (escapes, doubles) is left to it, so the
 * bytes are the same either way. */
#include "../base/short.h"
#include "json.h"

#include <string.h>

/* Past this many values yyjson's writer is the faster one. */
#define SMALL_VALUES 64
/* What a value takes beside its text: 20 digits or two quotes, a sign, the ends
 * of all levels. */
#define SLACK (32u + SMALL_VALUES)

/* -------------------------------------------------------------------- text */

/* yyjson marks the strings it read that stood in the text without escapes: they are valid, and
 * written as they are. */
static inline bool has_no_escapes(yyjson_val *val) {
  return unsafe_yyjson_get_tag(val) == (YYJSON_TYPE_STR | YYJSON_SUBTYPE_NOESC);
}

/* ------------------------------------------------------------------ values */

/* Each of these puts values at `at` and returns where they end; NULL: not for
 * us, or no room before `limit`. */
static IDEM__INLINE char *put_string(char *at, const char *limit, yyjson_val *val) {
  size_t len = unsafe_yyjson_get_len(val);
  if (!has_no_escapes(val) || (size_t)(limit - at) < len + SLACK) return NULL;
  at[0] = '"';
  idem__copy(at + 1, val->uni.str, len);
  at[len + 1] = '"';
  return at + len + 2;
}

IDEM__APART static char *put_integer(char *at, yyjson_val *val) {
  char digits[20];
  size_t first = sizeof digits;
  uint64_t number = val->uni.u64;
  if (unsafe_yyjson_is_sint(val) && val->uni.i64 < 0) {
    *at++ = '-';
    number = 0 - number;
  }
  do {
    digits[--first] = (char)('0' + number % 10);
    number /= 10;
  } while (number);
  memcpy(at, digits + first, sizeof digits - first);
  return at + (sizeof digits - first);
}

static inline char *put_word(char *at, const char *word, size_t len) {
  memcpy(at, word, len);
  return at + len;
}

/* A number whose text was kept. Values that were not read may have any text there. */
static char *put_raw(char *at, yyjson_val *val) {
  size_t len = unsafe_yyjson_get_len(val);
  if (!len || len > 24) return NULL;
  for (size_t i = 0; i < len; i++) {
    char c = val->uni.str[i];
    if ((c < '0' || c > '9') && c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E')
      return NULL;
    at[i] = c;
  }
  return at + len;
}

static char *put_scalar(char *at, const char *limit, yyjson_val *val) {
  if ((size_t)(limit - at) < SLACK) return NULL;
  switch (unsafe_yyjson_get_type(val)) {
  case YYJSON_TYPE_RAW: return put_raw(at, val);
  case YYJSON_TYPE_NULL: return put_word(at, "null", 4);
  case YYJSON_TYPE_BOOL:
    return unsafe_yyjson_get_bool(val) ? put_word(at, "true", 4) : put_word(at, "false", 5);
  case YYJSON_TYPE_NUM: return unsafe_yyjson_is_real(val) ? NULL : put_integer(at, val);
  default: break;
  }
  return NULL;
}

static char *put_object(char *at, const char *limit, yyjson_val *val);
static char *put_array(char *at, const char *limit, yyjson_val *val);

static IDEM__INLINE char *put_value(char *at, const char *limit, yyjson_val *val) {
  if (unsafe_yyjson_is_str(val)) return put_string(at, limit, val);
  if (unsafe_yyjson_is_obj(val)) return put_object(at, limit, val);
  return unsafe_yyjson_is_arr(val) ? put_array(at, limit, val) : put_scalar(at, limit, val);
}

/* Behind the last member stands a comma too many: the bracket takes its place.
 */
IDEM__HOT static char *put_object(char *at, const char *limit, yyjson_val *val) {
  if ((size_t)(limit - at) < SLACK) return NULL;
  yyjson_val *key = unsafe_yyjson_get_first(val);
  size_t left = unsafe_yyjson_get_len(val);
  if (!left) return put_word(at, "{}", 2);
  for (*at++ = '{'; left; left--) {
    if (!(at = put_string(at, limit, key))) return NULL;
    *at++ = ':';
    if (!(at = put_value(at, limit, key + 1))) return NULL;
    *at++ = ',';
    key = unsafe_yyjson_get_next(key + 1);
  }
  at[-1] = '}';
  return at;
}

static char *put_array(char *at, const char *limit, yyjson_val *val) {
  if ((size_t)(limit - at) < SLACK) return NULL;
  yyjson_val *item = unsafe_yyjson_get_first(val);
  size_t left = unsafe_yyjson_get_len(val);
  if (!left) return put_word(at, "[]", 2);
  for (*at++ = '['; left; left--) {
    if (!(at = put_value(at, limit, item))) return NULL;
    *at++ = ',';
    item = unsafe_yyjson_get_next(item);
  }
  at[-1] = ']';
  return at;
}

/* ------------------------------------------------------------------ choice */

/* A document's values lie one after the other; a container knows where it ends.
 */
static inline yyjson_val *end_of(yyjson_val *val) {
  return unsafe_yyjson_is_ctn(val) ? unsafe_yyjson_get_next(val) : val + 1;
}

/* How much room the values take at most, if they are for us. */
static size_t room_for(yyjson_val *val, yyjson_val *end) {
  size_t room = 0;
  for (; val < end; val++) {
    room += SLACK;
    if (unsafe_yyjson_is_str(val)) room += unsafe_yyjson_get_len(val);
  }
  return room;
}

static IDEM__INLINE char *try_small(idem_buf *out, yyjson_val *val) {
  return out->data ? put_value(out->data + out->len, out->data + out->cap, val) : NULL;
}

/* The first try was in vain: for lack of room, or because the value is not for
 * us. */
IDEM__COLD static char *try_again(idem_buf *out, yyjson_val *val, yyjson_val *end) {
  size_t room = room_for(val, end);
  if (room <= out->cap - out->len || idem_buf_reserve(out, room) != IDEM_OK) return NULL;
  return try_small(out, val);
}

IDEM__HOT idem_status idem__json_put(idem_buf *out, const yyjson_val *val) {
  /* yyjson's getters predate const; nothing is written to the value. */
  union {
    const yyjson_val *in;
    yyjson_val *out;
  } source = {val};
  yyjson_val *end = end_of(source.out);
  if (end - source.out > SMALL_VALUES) return idem__json_put_any(out, val);
  char *at = try_small(out, source.out);
  if (!at) at = try_again(out, source.out, end);
  if (!at) return idem__json_put_any(out, val);
  out->len = (size_t)(at - out->data);
  return IDEM_OK;
}
