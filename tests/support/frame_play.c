/* frame_play.c - plays bytes through a framer at every kind of split and compares what comes out.
 * See frame_play.h. */
#include "frame_play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RANDOM_SPLITS = 40 };

const char *frame_event_name(idem__frame_event event) {
  static const char *const names[] = {
      [IDEM__FRAME_MORE] = "more",
      [IDEM__FRAME_MESSAGE] = "message",
      [IDEM__FRAME_OVERSIZE] = "oversize",
      [IDEM__FRAME_HEADER_TOO_LARGE] = "header-too-large",
      [IDEM__FRAME_MISSING_LENGTH] = "missing-length",
      [IDEM__FRAME_BAD_LENGTH] = "bad-length",
      [IDEM__FRAME_BAD_TYPE] = "bad-type",
      [IDEM__FRAME_BAD_CHARSET] = "bad-charset",
      [IDEM__FRAME_TRUNCATED] = "truncated",
      [IDEM__FRAME_HTTP] = "http",
      [IDEM__FRAME_NOMEM] = "no-memory",
  };
  return names[event];
}

static void put(idem_buf *out, const char *text, size_t len) {
  assert_int_equal(idem_buf_put(out, text, len), IDEM_OK);
}

/* A NUL is shown as \\0, so that what came out is text. */
static void put_message(idem_buf *out, const char *data, size_t len) {
  put(out, " ", 1);
  for (size_t i = 0; i < len; i++) put(out, data[i] ? data + i : "\\0", data[i] ? 1 : 2);
}

static void drain(idem__framer *framer, idem_buf *out) {
  idem__frame_event event;
  while ((event = idem__framer_next(framer)) != IDEM__FRAME_MORE) {
    const char *name = frame_event_name(event);
    put(out, name, strlen(name));
    if (event == IDEM__FRAME_MESSAGE) {
      assert_true(framer->len <= framer->opts.max_message);
      put_message(out, framer->data, framer->len);
    }
    put(out, "\n", 1);
  }
  assert_int_equal(framer->input_len, 0);
  assert_true(framer->partial.cap <= framer->partial.max);
}

static size_t piece_len(unsigned split, uint32_t *seed, size_t left) {
  if (split < FRAME_PLAY_BYTES) return left;
  if (split == FRAME_PLAY_BYTES) return 1;
  *seed = *seed * 1664525u + 1013904223u;
  size_t n = (*seed >> 8) % (split % 2 ? 7 : 60);
  return n < left ? n : left;
}

static void feed_piece(idem__framer *framer, const char *bytes, size_t len, bool eof,
                       idem_buf *out) {
  char *piece = malloc(len ? len : 1);
  assert_non_null(piece);
  memcpy(piece, bytes, len);
  idem__framer_feed(framer, len ? piece : NULL, len);
  if (eof) idem__framer_feed_eof(framer);
  drain(framer, out);
  free(piece);
}

void frame_play(const idem__frame_opts *opts, const char *input, size_t len, unsigned split,
                idem_buf *out) {
  idem__framer framer;
  uint32_t seed = split;
  idem__framer_init(&framer, opts);
  for (size_t at = 0; at < len;) {
    size_t n = piece_len(split, &seed, len - at);
    feed_piece(&framer, input + at, n, split == FRAME_PLAY_WHOLE_WITH_EOF, out);
    at += n;
  }
  idem__framer_feed_eof(&framer);
  drain(&framer, out);
  feed_piece(&framer, "", 0, true, out); /* after the end: nothing, for ever */
  assert_false(idem__framer_inside(&framer));
  idem__framer_deinit(&framer);
}

void frame_expect(const idem__frame_opts *opts, const char *input, size_t len,
                  const char *expected) {
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__frame_opts own = *opts;
  if (!own.alloc) own.alloc = &alloc;
  for (unsigned split = 0; split < FRAME_PLAY_RANDOM + RANDOM_SPLITS; split++) {
    idem_buf out;
    idem_buf_init(&out, &alloc, 1 << 24);
    frame_play(&own, input, len, split, &out);
    put(&out, "", 1);
    if (strcmp(out.data, expected) != 0) {
      print_error("split %u of:\n%.*s\n", split, (int)len, input);
      assert_string_equal(out.data, expected);
    }
    idem_buf_deinit(&out);
  }
}

void frame_expect_or_no_memory(fault_alloc *fault, const idem__frame_opts *opts, const char *input,
                               const char *expected) {
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__frame_opts own = *opts;
  idem_buf out;
  own.alloc = &fault->alloc;
  idem_buf_init(&out, &alloc, 1 << 16);
  frame_play(&own, input, strlen(input), FRAME_PLAY_BYTES, &out);
  put(&out, "", 1);
  assert_string_equal(out.data, fault->failures ? "no-memory\n" : expected);
  idem_buf_deinit(&out);
}

/* ----------------------------------------------------------------- by hand */

void frame_hand_open(frame_hand *hand, const idem__frame_opts *opts) {
  idem__frame_opts own = *opts;
  fault_alloc_init(&hand->fault);
  own.alloc = &hand->fault.alloc;
  idem__framer_init(&hand->framer, &own);
}

void frame_hand_close(frame_hand *hand) {
  idem__framer_deinit(&hand->framer);
  fault_alloc_assert_clean(&hand->fault);
}

void frame_hand_feed(frame_hand *hand, const char *text) {
  idem__framer_feed(&hand->framer, text, strlen(text));
}

void frame_hand_expect(frame_hand *hand, idem__frame_event event) {
  assert_string_equal(frame_event_name(idem__framer_next(&hand->framer)), frame_event_name(event));
}

void frame_hand_expect_draining(frame_hand *hand) {
  char piece[300];
  memset(piece, 'x', sizeof piece);
  size_t faults = 0;
  for (int i = 0; i < 1000; i++) {
    idem__framer_feed(&hand->framer, piece, sizeof piece);
    while (idem__framer_next(&hand->framer) == IDEM__FRAME_OVERSIZE) faults++;
    if (faults) assert_int_equal(hand->framer.partial.len, 0);
  }
  assert_int_equal(faults, 1);
  assert_int_equal(hand->framer.dropped, 1000 * sizeof piece);
  assert_true(hand->fault.peak_bytes <= hand->framer.opts.max_message + 1);
}
