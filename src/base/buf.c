/* buf.c - a byte buffer that is born with a maximum.
 * Growth doubles, starts at 256 bytes and stops exactly at the maximum, so that nothing a peer
 * sends can make one larger than its owner allowed. See docs/internals/base.md. */
#include "base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SMALLEST = 256, PRINTF_STACK = 512 };

void idem_buf_init(idem_buf *buf, const idem_alloc *alloc, size_t max) {
  *buf = (idem_buf){.max = max, .alloc = alloc};
}

void idem_buf_deinit(idem_buf *buf) {
  idem__free(buf->alloc, buf->data);
  buf->data = NULL;
  buf->len = buf->cap = 0;
}

/* The smallest doubling that holds `need`, never past max. `need` is at most max. */
static size_t next_capacity(const idem_buf *buf, size_t need) {
  size_t cap = buf->cap < SMALLEST ? SMALLEST : buf->cap;
  while (cap < need) {
    if (cap > SIZE_MAX / 2) return buf->max;
    cap *= 2;
  }
  return cap < buf->max ? cap : buf->max;
}

idem_status idem_buf_grow(idem_buf *buf, size_t extra) {
  /* What a writer of JSON left of its working room may hold more than max. */
  if (buf->len > buf->max || extra > buf->max - buf->len) return IDEM_E_LIMIT;
  size_t need = buf->len + extra;
  if (need <= buf->cap) return IDEM_OK;
  size_t cap = next_capacity(buf, need);
  char *data = idem__realloc(buf->alloc, buf->data, buf->cap, cap);
  if (!data) return IDEM_E_NOMEM;
  buf->data = data;
  buf->cap = cap;
  return IDEM_OK;
}

/* Shrinking may fail like any other allocation; then the memory simply stays. */
static void shrink(idem_buf *buf, size_t keep) {
  char *data = idem__realloc(buf->alloc, buf->data, buf->cap, keep);
  if (!data) return;
  buf->data = data;
  buf->cap = keep;
}

void idem_buf_trim(idem_buf *buf, size_t keep) {
  if (buf->len || buf->cap <= keep) return;
  if (keep == 0)
    idem_buf_deinit(buf);
  else
    shrink(buf, keep);
}

void idem_buf_fit(idem_buf *buf) {
  if (buf->len && buf->len < buf->cap) shrink(buf, buf->len);
}

void idem_buf_consume(idem_buf *buf, size_t n) {
  if (n >= buf->len) {
    buf->len = 0;
    return;
  }
  memmove(buf->data, buf->data + n, buf->len - n);
  buf->len -= n;
}

/* vsnprintf wants room for a NUL that must not count against max, so a long text is formatted
 * beside the buffer first. */
static idem_status put_long(idem_buf *buf, size_t len, const char *format, va_list args)
    IDEM_PRINTF(3, 0);
static idem_status put_long(idem_buf *buf, size_t len, const char *format, va_list args) {
  idem_status status = idem_buf_reserve(buf, len);
  if (status != IDEM_OK) return status;
  char *text = idem__malloc(buf->alloc, len + 1);
  if (!text) return IDEM_E_NOMEM;
  vsnprintf(text, len + 1, format, args);
  status = idem_buf_put(buf, text, len);
  idem__free(buf->alloc, text);
  return status;
}

IDEM__EARLY idem_status idem_buf_vprintf(idem_buf *buf, const char *format, va_list args) {
  char text[PRINTF_STACK];
  va_list again;
  va_copy(again, args);
  int len = vsnprintf(text, sizeof text, format, args);
  idem_status status = IDEM_E_INVAL;
  if (len >= 0 && (size_t)len < sizeof text)
    status = idem_buf_put(buf, text, (size_t)len);
  else if (len >= 0)
    status = put_long(buf, (size_t)len, format, again);
  va_end(again);
  return status;
}

IDEM__EARLY idem_status idem_buf_printf(idem_buf *buf, const char *format, ...) {
  va_list args;
  va_start(args, format);
  idem_status status = idem_buf_vprintf(buf, format, args);
  va_end(args);
  return status;
}
