/* frame_play.h - plays bytes through a framer at every kind of split and compares what comes out.
 * Each piece lives in a block of its own size that is gone after MORE, so that a sanitizer sees a
 * framer that looks outside of what it was lent, or keeps it. */
#ifndef IDEM_TEST_FRAME_PLAY_H
#define IDEM_TEST_FRAME_PLAY_H

#include "frame/frame.h"

/* How the input is cut. From FRAME_PLAY_RANDOM on: pseudo-random pieces, empty ones among them. */
enum { FRAME_PLAY_WHOLE, FRAME_PLAY_WHOLE_WITH_EOF, FRAME_PLAY_BYTES, FRAME_PLAY_RANDOM };

const char *frame_event_name(idem__frame_event event);

/* Appends one line per event to `out`: its name, and for a message a space and its bytes. */
void frame_play(const idem__frame_opts *opts, const char *input, size_t len, unsigned split,
                idem__buf *out);

/* Fails the test unless every kind of split gives the expected text. */
void frame_expect(const idem__frame_opts *opts, const char *input, size_t len,
                  const char *expected);

#endif
