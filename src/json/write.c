/* write.c - compact JSON straight into an output buffer.
 * yyjson's writer allocates its result; here its allocator is the tail of the buffer itself, so
 * nothing is copied afterwards. Values of small.c's kind do not come here. */
#include "json.h"

#include <string.h>

typedef struct tail {
  idem_buf *out;
  size_t max;         /* the buffer's own, while the writer has more */
  idem_status status; /* why there was no room */
} tail;

/* The writer wants room for every byte of a string as an escape, and much for every value, before it knows
 * better. It may have that for the time of writing; what it wrote must keep to the buffer's own maximum. Memory
 * of the caller's does not grow. */
static tail begin(idem_buf *out) {
  tail self = {.out = out, .max = out->max, .status = IDEM_OK};
  if (out->alloc) out->max = out->max > SIZE_MAX / 64 ? SIZE_MAX / 2 : out->max * 32 + 4096;
  return self;
}

static void *tail_malloc(void *ctx, size_t size) {
  tail *self = ctx;
  self->status = idem_buf_reserve(self->out, size);
  return self->status == IDEM_OK ? self->out->data + self->out->len : NULL;
}

static void *tail_realloc(void *ctx, void *ptr, size_t old_size, size_t size) {
  (void)ptr;
  tail *self = ctx;
  idem_buf *out = self->out;
  size_t len = out->len;
  /* What was written so far lies behind len; growing must carry it along. */
  out->len += old_size;
  self->status = size > old_size ? idem_buf_grow(out, size - old_size) : IDEM_OK;
  out->len = len;
  return self->status == IDEM_OK ? out->data + len : NULL;
}

static void tail_free(void *ctx, void *ptr) {
  (void)ctx;
  (void)ptr;
}

static yyjson_alc tail_alc(tail *self) {
  return (yyjson_alc){tail_malloc, tail_realloc, tail_free, self};
}

static idem_status end(const tail *self, const char *text, size_t len) {
  idem_buf *out = self->out;
  out->max = self->max;
  if (!text) return self->status == IDEM_OK ? IDEM_E_INVAL : self->status;
  return out->len <= out->max && len <= out->max - out->len ? IDEM_OK : IDEM_E_LIMIT;
}

idem_status idem__json_put_any(idem_buf *out, const yyjson_val *val) {
  tail self = begin(out);
  yyjson_alc alc = tail_alc(&self);
  size_t len = 0;
  const char *text = yyjson_val_write_opts(val, 0, &alc, &len, NULL);
  idem_status status = end(&self, text, len);
  if (status == IDEM_OK) out->len += len;
  return status;
}

idem_status idem__json_put_mut(idem_buf *out, const yyjson_mut_val *val) {
  tail self = begin(out);
  yyjson_alc alc = tail_alc(&self);
  size_t len = 0;
  const char *text = yyjson_mut_val_write_opts(val, 0, &alc, &len, NULL);
  idem_status status = end(&self, text, len);
  if (status != IDEM_OK) return status;
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

idem_status idem__json_put_text(idem_buf *out, const char *text, size_t len, size_t max_depth) {
  idem__arena arena;
  idem_status status;
  idem__arena_init(&arena, out->alloc, NULL, 0, idem__json_read_bound(len));
  yyjson_alc alc = idem__arena_alc(&arena);
  yyjson_doc *doc = idem__json_read_text(text, len, max_depth, &alc, &status);
  if (doc) status = idem__json_put(out, doc->root);
  idem__arena_deinit(&arena);
  return status;
}
