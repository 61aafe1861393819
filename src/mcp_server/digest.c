/* digest.c - the digest of a JSON value by what it says: members in the order of their names, numbers by their value. Two
 * texts that say the same have the same one. See once.h. */
#include "once.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 512u
#define CANONICAL_MAX ((size_t)256 << 20)

typedef struct digesting {
  const idem_alloc *alloc;
  idem_buf text;
} digesting;

static idem_status put_any(digesting *self, yyjson_val *val, unsigned depth);

static int by_name(const void *one, const void *other) {
  yyjson_val *a = *(yyjson_val *const *)one, *b = *(yyjson_val *const *)other;
  size_t len = yyjson_get_len(a), other_len = yyjson_get_len(b);
  int order = memcmp(yyjson_get_str(a), yyjson_get_str(b), len < other_len ? len : other_len);
  if (order) return order;
  if (len != other_len) return len < other_len ? -1 : 1;
  return a < b ? -1 : a > b; /* a name that is there twice keeps its order */
}

static idem_status put_member(digesting *self, yyjson_val *key, unsigned depth) {
  idem_status status = idem__json_put(&self->text, key);
  if (status == IDEM_OK) status = idem_buf_put(&self->text, ":", 1);
  return status == IDEM_OK ? put_any(self, yyjson_obj_iter_get_val(key), depth) : status;
}

static idem_status put_sorted(digesting *self, yyjson_val **keys, size_t count, unsigned depth) {
  idem_status status = idem_buf_put(&self->text, "{", 1);
  qsort(keys, count, sizeof *keys, by_name);
  for (size_t i = 0; i < count && status == IDEM_OK; i++) {
    if (i) status = idem_buf_put(&self->text, ",", 1);
    if (status == IDEM_OK) status = put_member(self, keys[i], depth);
  }
  return status == IDEM_OK ? idem_buf_put(&self->text, "}", 1) : status;
}

#define FEW 16

static idem_status put_object(digesting *self, yyjson_val *object, unsigned depth) {
  yyjson_val *few[FEW], **keys = few;
  size_t count = yyjson_obj_size(object), i = 0;
  if (count > FEW) keys = idem__malloc(self->alloc, count * sizeof(yyjson_val *));
  if (!keys) return IDEM_E_NOMEM;
  yyjson_obj_iter iter = yyjson_obj_iter_with(object);
  for (yyjson_val *key; (key = yyjson_obj_iter_next(&iter));) keys[i++] = key;
  idem_status status = put_sorted(self, keys, i, depth);
  if (keys != few) idem__free(self->alloc, keys);
  return status;
}

static idem_status put_array(digesting *self, yyjson_val *array, unsigned depth) {
  idem_status status = idem_buf_put(&self->text, "[", 1);
  yyjson_arr_iter iter = yyjson_arr_iter_with(array);
  bool first = true;
  for (yyjson_val *item; status == IDEM_OK && (item = yyjson_arr_iter_next(&iter));) {
    if (!first) status = idem_buf_put(&self->text, ",", 1);
    first = false;
    if (status == IDEM_OK) status = put_any(self, item, depth);
  }
  return status == IDEM_OK ? idem_buf_put(&self->text, "]", 1) : status;
}

/* 1, 1.0 and 1e0 are one number. */
static idem_status put_number(digesting *self, yyjson_val *number) {
  int64_t whole;
  if (idem__json_get_int(number, &whole))
    return idem_buf_printf(&self->text, "%lld", (long long)whole);
  return idem__json_put_any(&self->text, number);
}

static idem_status put_any(digesting *self, yyjson_val *val, unsigned depth) {
  if (depth > DEPTH_MAX) return IDEM_E_LIMIT;
  if (yyjson_is_obj(val)) return put_object(self, val, depth + 1);
  if (yyjson_is_arr(val)) return put_array(self, val, depth + 1);
  if (idem__json_is_number(val)) return put_number(self, val);
  return idem__json_put_any(&self->text, val);
}

idem_status idem__digest_value(const idem_alloc *alloc, yyjson_val *val,
                               uint8_t digest[IDEM_SHA256_BYTES]) {
  digesting self = {.alloc = alloc};
  idem_sha256 sha;
  idem_buf_init(&self.text, alloc, CANONICAL_MAX);
  idem_status status = val ? put_any(&self, val, 0) : IDEM_OK;
  idem_sha256_init(&sha);
  idem_sha256_add(&sha, self.text.data, self.text.len);
  idem_sha256_end(&sha, digest);
  idem_buf_deinit(&self.text);
  return status;
}
