/* write.c - compact JSON straight into an output buffer.
 * yyjson's writer allocates its result; here its allocator is the tail of the buffer itself, so
 * nothing is copied afterwards. Values of small.c's kind do not come here. */
#include "json.h"

#include <string.h>

static void *tail_malloc(void *ctx, size_t size) {
  idem__buf *out = ctx;
  if (idem__buf_reserve(out, size) != IDEM_OK) return NULL;
  return out->data + out->len;
}

static void *tail_realloc(void *ctx, void *ptr, size_t old_size, size_t size) {
  (void)ptr;
  idem__buf *out = ctx;
  size_t len = out->len;
  /* What was written so far lies behind len; growing must carry it along. */
  out->len += old_size;
  idem_status status = size > old_size ? idem__buf_grow(out, size - old_size) : IDEM_OK;
  out->len = len;
  return status == IDEM_OK ? out->data + len : NULL;
}

static void tail_free(void *ctx, void *ptr) {
  (void)ctx;
  (void)ptr;
}

static idem_status write_status(const idem__buf *out, const yyjson_write_err *error) {
  if (error->code != YYJSON_WRITE_ERROR_MEMORY_ALLOCATION) return IDEM_E_INVAL;
  return out->len >= out->max ? IDEM_E_LIMIT : IDEM_E_NOMEM;
}

idem_status idem__json_put_any(idem__buf *out, const yyjson_val *val) {
  yyjson_alc tail = {tail_malloc, tail_realloc, tail_free, out};
  yyjson_write_err error;
  size_t len;
  if (!yyjson_val_write_opts(val, 0, &tail, &len, &error)) return write_status(out, &error);
  out->len += len;
  return IDEM_OK;
}

idem_status idem__json_put_mut(idem__buf *out, const yyjson_mut_val *val) {
  yyjson_alc tail = {tail_malloc, tail_realloc, tail_free, out};
  yyjson_write_err error;
  size_t len;
  if (!yyjson_mut_val_write_opts(val, 0, &tail, &len, &error)) return write_status(out, &error);
  /* Raw values are the application's own text: a newline in one would break line framing. */
  if (memchr(out->data + out->len, '\n', len)) return IDEM_E_INVAL;
  out->len += len;
  return IDEM_OK;
}

yyjson_doc *idem__json_read_text(const char *text, size_t len, size_t max_depth,
                                 const yyjson_alc *alc, idem_status *status) {
  union {
    const char *in;
    char *out;
  } source = {text};
  yyjson_read_err error;
  yyjson_doc *doc = yyjson_read_opts(source.out, len, YYJSON_READ_NUMBER_AS_RAW, alc, &error);
  *status = IDEM_OK;
  if (doc && idem__json_depth_within(doc, len, max_depth)) return doc;
  *status = !doc && error.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION ? IDEM_E_NOMEM : IDEM_E_INVAL;
  yyjson_doc_free(doc);
  return NULL;
}

idem_status idem__json_put_text(idem__buf *out, const char *text, size_t len, size_t max_depth) {
  idem__arena arena;
  idem_status status;
  idem__arena_init(&arena, out->alloc, NULL, 0, SIZE_MAX / 2);
  yyjson_alc alc = idem__arena_alc(&arena);
  yyjson_doc *doc = idem__json_read_text(text, len, max_depth, &alc, &status);
  if (doc) status = idem__json_put(out, doc->root);
  idem__arena_deinit(&arena);
  return status;
}
