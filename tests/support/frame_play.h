/* frame_play.h - plays bytes through a framer at every kind of split and compares what comes out.
 * Each piece lives in a block of its own size that is gone after MORE, so that a sanitizer sees a
 * framer that looks outside of what it was lent, or keeps it. */
#ifndef IDEM_TEST_FRAME_PLAY_H
#define IDEM_TEST_FRAME_PLAY_H

#include "frame/frame.h"
#include "support/fault_alloc.h"

/* How the input is cut. From FRAME_PLAY_RANDOM on: pseudo-random pieces, empty ones among them. */
enum { FRAME_PLAY_WHOLE, FRAME_PLAY_WHOLE_WITH_EOF, FRAME_PLAY_BYTES, FRAME_PLAY_RANDOM };

const char *frame_event_name(idem__frame_event event);

/* Appends one line per event to `out`: its name, and for a message a space and its bytes. */
void frame_play(const idem__frame_opts *opts, const char *input, size_t len, unsigned split,
                idem_buf *out);

/* Fails the test unless every kind of split gives the expected text. */
void frame_expect(const idem__frame_opts *opts, const char *input, size_t len,
                  const char *expected);

/* One run of a sweep, byte by byte: what is expected, or nothing but the want of memory. */
void frame_expect_or_no_memory(fault_alloc *fault, const idem__frame_opts *opts, const char *input,
                               const char *expected);

/* A framer that is fed by hand, with memory that is counted. */
typedef struct frame_hand {
  fault_alloc fault;
  idem__framer framer;
} frame_hand;
void frame_hand_open(frame_hand *hand, const idem__frame_opts *opts);
/* Fails the test unless all memory came back. */
void frame_hand_close(frame_hand *hand);
void frame_hand_feed(frame_hand *hand, const char *text);
/* Fails the test unless this is the next event. */
void frame_hand_expect(frame_hand *hand, idem__frame_event event);

/* Feeds far more than a message may hold: it is reported once, counted and not held. */
void frame_hand_expect_draining(frame_hand *hand);

#endif
