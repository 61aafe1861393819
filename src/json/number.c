/* number.c - what a JSON value is, and numbers however they are written.
 * yyjson keeps numbers it cannot hold exactly as raw text; these getters cope with both. */
#include "json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool idem__json_is_number(yyjson_val *val) {
  return val && (unsafe_yyjson_is_num(val) || unsafe_yyjson_is_raw(val));
}

const char *idem__json_type_name(yyjson_val *val) {
  if (!val) return "nothing";
  switch (unsafe_yyjson_get_type(val)) {
  case YYJSON_TYPE_NULL: return "null";
  case YYJSON_TYPE_BOOL: return "boolean";
  case YYJSON_TYPE_STR: return "string";
  case YYJSON_TYPE_ARR: return "array";
  case YYJSON_TYPE_OBJ: return "object";
  default: break;
  }
  return "number";
}

/* Raw tokens are valid JSON numbers, so strtod takes all of them or overflows to infinity. */
static bool raw_double(yyjson_val *val, double *out) {
  char text[128];
  size_t len = unsafe_yyjson_get_len(val);
  if (len >= sizeof text) return false;
  memcpy(text, val->uni.str, len);
  text[len] = '\0';
  *out = strtod(text, NULL);
  return isfinite(*out) != 0;
}

bool idem__json_number_of(const char *text, yyjson_val *out) {
  char memory[512]; /* used only by a yyjson that was built without its own reader of doubles */
  yyjson_alc pool;
  yyjson_alc_pool_init(&pool, memory, sizeof memory);
  return yyjson_read_number(text, out, YYJSON_READ_NOFLAG, &pool, NULL) != NULL;
}

bool idem__json_get_double(yyjson_val *val, double *out) {
  if (!val) return false;
  if (unsafe_yyjson_is_raw(val)) return raw_double(val, out);
  if (!unsafe_yyjson_is_num(val)) return false;
  *out = unsafe_yyjson_get_num(val);
  return true;
}

bool idem__json_get_int(yyjson_val *val, int64_t *out) {
  double number;
  if (!val || !idem__json_is_number(val)) return false;
  if (unsafe_yyjson_is_sint(val) || unsafe_yyjson_is_uint(val)) {
    if (unsafe_yyjson_is_uint(val) && val->uni.u64 > INT64_MAX) return false;
    *out = val->uni.i64;
    return true;
  }
  if (!idem__json_get_double(val, &number)) return false;
  /* Up to 2^53 every integer is a double; the cast is defined only within int64. */
  if (!(number >= -9007199254740992.0 && number <= 9007199254740992.0)) return false;
  *out = (int64_t)number;
  return (double)*out == number;
}
