/* whole.c - everything until end of input is one message (an HTTP body, a WebSocket message).
 * The outer protocol has done the framing; what is left is the limit. See docs/internals/frame.md.
 */
#include "parts.h"

enum { WHOLE_TAKING = IDEM__FRAME_START, WHOLE_DRAINING };

static idem__frame_event refuse(idem__framer *framer) {
  framer->dropped = framer->partial.len + framer->input_len;
  framer->partial.len = 0;
  framer->input_len = 0;
  framer->state = WHOLE_DRAINING;
  return IDEM__FRAME_OVERSIZE;
}

static idem__frame_event finish(idem__framer *framer) {
  framer->state = IDEM__FRAME_END;
  if (framer->partial.len) return idem__frame_lend_partial(framer, framer->partial.len);
  size_t len = framer->input_len;
  framer->input_len = 0;
  return idem__frame_lend(framer, framer->input, len);
}

idem__frame_event idem__frame_whole_next(idem__framer *framer) {
  if (framer->state == WHOLE_DRAINING) {
    framer->dropped += framer->input_len;
    framer->input_len = 0;
    return IDEM__FRAME_MORE;
  }
  if (framer->input_len > framer->opts.max_message - framer->partial.len) return refuse(framer);
  bool in_place = framer->eof && framer->partial.len == 0;
  if (!in_place && !idem__frame_hold(framer, framer->input_len))
    return idem__frame_end(framer, IDEM__FRAME_NOMEM);
  return framer->eof ? finish(framer) : IDEM__FRAME_MORE;
}
