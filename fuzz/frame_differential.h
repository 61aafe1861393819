/* frame_differential.h - one input, cut in two ways, must give the same events.
 * The first bytes choose the split and the limits; the rest is played whole and in pieces. Shared
 * by the three fuzz_frame_ targets. */
#ifndef IDEM_FUZZ_FRAME_DIFFERENTIAL_H
#define IDEM_FUZZ_FRAME_DIFFERENTIAL_H

#include "frame/frame.h"

#include <stdlib.h>
#include <string.h>

/* Like assert, in every build. */
#define MUST(truth)                                                                                \
  do {                                                                                             \
    if (!(truth)) abort();                                                                         \
  } while (0)

typedef struct frame_trace {
  idem_buf text;
  size_t messages_len;
} frame_trace;

static void frame_trace_event(frame_trace *trace, const idem__framer *framer,
                              idem__frame_event event) {
  char head[1 + sizeof(size_t)] = {(char)event};
  size_t len = event == IDEM__FRAME_MESSAGE ? framer->len : 0;
  memcpy(head + 1, &len, sizeof len);
  MUST(event != IDEM__FRAME_NOMEM);
  MUST(len <= framer->opts.max_message);
  trace->messages_len += len;
  MUST(idem_buf_put(&trace->text, head, sizeof head) == IDEM_OK);
  MUST(idem_buf_put(&trace->text, framer->data, len) == IDEM_OK);
}

static void frame_trace_drain(frame_trace *trace, idem__framer *framer) {
  idem__frame_event event;
  while ((event = idem__framer_next(framer)) != IDEM__FRAME_MORE)
    frame_trace_event(trace, framer, event);
  MUST(framer->input_len == 0);
  MUST(framer->partial.cap <= framer->partial.max);
}

/* The piece is copied to a block of its own so that the sanitizer watches its ends. */
static void frame_trace_feed(frame_trace *trace, idem__framer *framer, const uint8_t *data,
                             size_t len) {
  char *piece = malloc(len ? len : 1);
  MUST(piece);
  memcpy(piece, data, len);
  idem__framer_feed(framer, piece, len);
  frame_trace_drain(trace, framer);
  free(piece);
}

/* `split` 0: whole; 1: byte by byte; otherwise pseudo-random pieces. */
static size_t frame_piece_len(uint8_t split, uint32_t *seed, size_t left) {
  if (split == 0) return left;
  *seed = *seed * 1664525u + 1013904223u;
  size_t n = split == 1 ? 1 : (*seed >> 8) % (1u + split);
  return n < left ? n : left;
}

static frame_trace frame_trace_play(const idem__frame_opts *opts, const uint8_t *data, size_t len,
                                    uint8_t split) {
  frame_trace trace = {{0}, 0};
  idem__framer framer;
  uint32_t seed = split;
  idem_buf_init(&trace.text, opts->alloc, SIZE_MAX / 2);
  idem__framer_init(&framer, opts);
  while (len) {
    size_t n = frame_piece_len(split, &seed, len);
    frame_trace_feed(&trace, &framer, data, n);
    data += n;
    len -= n;
  }
  idem__framer_feed_eof(&framer);
  frame_trace_drain(&trace, &framer);
  idem__framer_deinit(&framer);
  return trace;
}

static int frame_differential(idem__frame_kind kind, const uint8_t *data, size_t size) {
  if (size < 3) return 0;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__frame_opts opts = {.kind = kind,
                           .max_message = data[1] & 0x7f,
                           .max_header = 64 + (size_t)data[2],
                           .guard_http = data[1] >= 0x80,
                           .alloc = &alloc};
  frame_trace whole = frame_trace_play(&opts, data + 3, size - 3, 0);
  frame_trace cut = frame_trace_play(&opts, data + 3, size - 3, data[0] ? data[0] : 1);
  MUST(whole.messages_len <= size - 3);
  MUST(whole.text.len == cut.text.len);
  if (whole.text.len) MUST(memcmp(whole.text.data, cut.text.data, whole.text.len) == 0);
  idem_buf_deinit(&whole.text);
  idem_buf_deinit(&cut.text);
  return 0;
}

#endif
