/* frame.c - the framer: what the three framings share, and the way to each of them.
 * Input is lent and taken from the front; what must outlive a feed moves to `partial`, whose
 * maximum bounds what a peer can make us hold. See docs/internals/frame.md. */
#include "parts.h"

/* No setting makes the header limit so small that a plain length does not fit. */
#define LEAST_MAX_HEADER 64
/* What `partial` keeps between large frames. */
#define KEEP_PARTIAL 4096

/* ---------------------------------------------------------------- shared parts */

bool idem__frame_hold(idem__framer *framer, size_t n) {
  if (idem_buf_put(&framer->partial, framer->input, n) != IDEM_OK) return false;
  idem__frame_take(framer, n);
  return true;
}

idem__frame_event idem__frame_end(idem__framer *framer, idem__frame_event event) {
  framer->state = IDEM__FRAME_END;
  framer->partial.len = 0;
  framer->input_len = 0;
  return event;
}

idem__frame_event idem__frame_lend(idem__framer *framer, const char *data, size_t len) {
  framer->data = len ? data : "";
  framer->len = len;
  return IDEM__FRAME_MESSAGE;
}

idem__frame_event idem__frame_lend_partial(idem__framer *framer, size_t len) {
  framer->partial_lent = true;
  return idem__frame_lend(framer, framer->partial.data, len);
}

/* ---------------------------------------------------------------- entry points */

void idem__framer_init(idem__framer *framer, const idem__frame_opts *opts) {
  *framer = (idem__framer){.opts = *opts, .input = "", .first_line = opts->guard_http};
  if (framer->opts.max_message > SIZE_MAX / 2) framer->opts.max_message = SIZE_MAX / 2;
  if (framer->opts.max_header < LEAST_MAX_HEADER) framer->opts.max_header = LEAST_MAX_HEADER;
  size_t max = framer->opts.max_message + 1; /* a line's CR is held until its LF comes */
  if (opts->kind == IDEM__FRAME_CONTENT_LENGTH && framer->opts.max_header > max)
    max = framer->opts.max_header;
  idem_buf_init(&framer->partial, opts->alloc, max);
}

void idem__framer_deinit(idem__framer *framer) {
  idem_buf_deinit(&framer->partial);
  *framer = (idem__framer){.state = IDEM__FRAME_END};
}

void idem__framer_feed(idem__framer *framer, const char *data, size_t len) {
  framer->input = len ? data : "";
  framer->input_len = len;
}

void idem__framer_feed_eof(idem__framer *framer) { framer->eof = true; }

IDEM__HOT idem__frame_event idem__framer_next(idem__framer *framer) {
  if (framer->partial_lent) {
    framer->partial_lent = false;
    framer->partial.len = 0;
  }
  if (framer->state == IDEM__FRAME_SUSPECT) return idem__frame_end(framer, IDEM__FRAME_HTTP);
  if (framer->state == IDEM__FRAME_END) return idem__frame_end(framer, IDEM__FRAME_MORE);
  switch (framer->opts.kind) {
  case IDEM__FRAME_LINE: return idem__frame_line_next(framer);
  case IDEM__FRAME_CONTENT_LENGTH: return idem__frame_content_length_next(framer);
  case IDEM__FRAME_WHOLE: break;
  }
  return idem__frame_whole_next(framer);
}

bool idem__framer_is_inside(const idem__framer *framer) {
  if (framer->state >= IDEM__FRAME_END) return false;
  if (framer->opts.kind == IDEM__FRAME_LINE) return idem__frame_line_inside(framer);
  if (framer->opts.kind == IDEM__FRAME_CONTENT_LENGTH)
    return idem__frame_content_length_inside(framer);
  return framer->partial.len > 0 && !framer->partial_lent;
}

void idem__framer_reset(idem__framer *framer) {
  if (framer->state >= IDEM__FRAME_END) return;
  /* The rest of a request line must not come in as a fresh first line the guard would pass. */
  bool suspect = framer->first_line && !framer->partial_lent &&
                 idem__frame_begins_http(framer->partial.data, framer->partial.len);
  framer->state = suspect ? IDEM__FRAME_SUSPECT : IDEM__FRAME_START;
  framer->partial_lent = false;
  framer->partial.len = 0;
  framer->body_left = 0;
  framer->section = (idem__frame_section){0};
  framer->sync = (idem__frame_sync){0};
}

void idem__framer_trim(idem__framer *framer) {
  if (framer->partial.len == 0) idem_buf_trim(&framer->partial, KEEP_PARTIAL);
}

/* ---------------------------------------------------------------------- output */

idem_status idem__frame_put_head(idem__frame_kind kind, idem_buf *out, size_t body_len) {
  static const char name[] = "Content-Length: ";
  if (kind != IDEM__FRAME_CONTENT_LENGTH) return IDEM_OK;
  char head[sizeof name + 24 + 4];
  char *at = head + sizeof head;
  for (const char *end = "\n\r\n\r"; *end; end++) *--at = *end;
  do {
    *--at = (char)('0' + body_len % 10);
    body_len /= 10;
  } while (body_len);
  for (size_t i = sizeof name - 1; i > 0; i--) *--at = name[i - 1];
  return idem_buf_put(out, at, (size_t)(head + sizeof head - at));
}

idem_status idem__frame_put_tail(idem__frame_kind kind, idem_buf *out) {
  return kind == IDEM__FRAME_LINE ? idem_buf_puts(out, "\n") : IDEM_OK;
}
