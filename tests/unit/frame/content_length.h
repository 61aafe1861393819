/* content_length.h - what the tests of Content-Length framing share: limits, a good frame, filling. */
#ifndef IDEM_TEST_CONTENT_LENGTH_H
#define IDEM_TEST_CONTENT_LENGTH_H

#include "support/frame_play.h"

static const idem__frame_opts plain = {
    .kind = IDEM__FRAME_CONTENT_LENGTH, .max_message = 20, .max_header = 128};

#define GOOD "Content-Length: 2\r\n\r\n{}"
#define PAD32 "01234567890123456789012345678901"
#define PAD128 PAD32 PAD32 PAD32 PAD32

#endif
