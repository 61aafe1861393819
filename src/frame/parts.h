/* parts.h - what the files of src/frame share among themselves and with nobody else.
 * One next() per framing, taking and holding of input, and the readers of header lines.
 * See docs/internals/frame.md. */
#ifndef IDEM_FRAME_PARTS_H
#define IDEM_FRAME_PARTS_H

#include "frame.h"

/* Every framing starts in its state 0. The end is shared: only MORE comes after it. */
enum { IDEM__FRAME_START = 0, IDEM__FRAME_END = 100, IDEM__FRAME_SUSPECT = 101 };

idem__frame_event idem__frame_line_next(idem__framer *framer);
IDEM__APART idem__frame_event idem__frame_content_length_next(idem__framer *framer);
IDEM__APART idem__frame_event idem__frame_whole_next(idem__framer *framer);
bool idem__frame_line_inside(const idem__framer *framer);
bool idem__frame_content_length_inside(const idem__framer *framer);

static inline void idem__frame_take(idem__framer *framer, size_t n) {
  framer->input += n;
  framer->input_len -= n;
}
static inline size_t idem__frame_min(size_t a, size_t b) { return a < b ? a : b; }

/* Moves n bytes of input to `partial`; false when there is no memory. */
bool idem__frame_hold(idem__framer *framer, size_t n);
/* Ends the stream: drops what is held and answers `event`; only MORE follows. */
IDEM__COLD idem__frame_event idem__frame_end(idem__framer *framer, idem__frame_event event);
/* Hands out bytes as a message. */
idem__frame_event idem__frame_lend(idem__framer *framer, const char *data, size_t len);
/* Hands out the first `len` bytes of `partial`, which the next call empties. */
idem__frame_event idem__frame_lend_partial(idem__framer *framer, size_t len);

/* --------------------------------------------------------- HTTP guard (guard.c) */

/* A complete line: METHOD SP target SP HTTP/..., or the start of a TLS handshake. */
IDEM__COLD bool idem__frame_is_http(const char *line, size_t len);
/* The beginning of a line too long to be seen whole: could it be a request line? */
bool idem__frame_begins_http(const char *start, size_t len);

/* ------------------------------------------------------- header lines (header.c) */

typedef enum idem__header_kind {
  IDEM__HEADER_MALFORMED, /* not NAME ":" VALUE */
  IDEM__HEADER_OTHER,
  IDEM__HEADER_LENGTH,
  IDEM__HEADER_BAD_LENGTH,
  IDEM__HEADER_TYPE,
  IDEM__HEADER_BAD_TYPE,
  IDEM__HEADER_BAD_CHARSET,
  IDEM__HEADER_BROWSER /* Host: or Origin: */
} idem__header_kind;

bool idem__frame_is_token(char byte);
/* Reads one header line without its line end; *length is set for HEADER_LENGTH. */
idem__header_kind idem__frame_header(const char *line, size_t len, uint64_t *length);
/* Steps a search over one byte; true at the line end that completes `Content-Length:` digits. */
bool idem__frame_sync_step(idem__frame_sync *sync, char byte);

#endif
