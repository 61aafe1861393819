/* line.c - one message a line, the hot path of stdio and plain sockets.
 * A line inside one piece is lent where it lies; each byte is looked at once, however the input is
 * cut. The limit counts the message, not its line end. See docs/internals/frame.md. */
#include "parts.h"

#include <string.h>

enum {
  LINE_TEXT = IDEM__FRAME_START,
  LINE_BLANKS, /* past the limit, nothing but blanks so far: neither held nor refused yet */
  LINE_DRAIN   /* refused: skipped up to its LF */
};

static inline bool is_blank(const char *text, size_t len) {
  if (IDEM__LIKELY(len && *text == '{')) return false;
  for (size_t i = 0; i < len; i++)
    if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r') return false;
  return true;
}

/* The guard's look at a first line that is too long: its beginning must do. The part looked at
 * does not depend on how the input was cut. */
static bool overlong_is_http(idem__framer *framer, size_t n) {
  char start[64];
  size_t want = idem__frame_min(sizeof start, framer->opts.max_message + 1);
  size_t held = idem__frame_min(framer->partial.len, want);
  size_t more = idem__frame_min(n, want - held);
  if (held) memcpy(start, framer->partial.data, held);
  memcpy(start + held, framer->input, more);
  return idem__frame_begins_http(start, held + more);
}

/* The line held, with n more bytes of input, is past the limit. Its LF is left to skip(). */
IDEM__COLD static idem__frame_event overflow(idem__framer *framer, size_t n) {
  bool blank = is_blank(framer->partial.data, framer->partial.len) && is_blank(framer->input, n);
  if (!blank && framer->first_line) {
    framer->first_line = false;
    if (overlong_is_http(framer, n)) return idem__frame_end(framer, IDEM__FRAME_HTTP);
  }
  framer->dropped = framer->partial.len + n;
  framer->partial.len = 0;
  idem__frame_take(framer, n);
  framer->state = blank ? LINE_BLANKS : LINE_DRAIN;
  return blank ? IDEM__FRAME_MORE : IDEM__FRAME_OVERSIZE;
}

/* A complete line within the limit. MORE means it was blank. */
static IDEM__INLINE idem__frame_event deliver(idem__framer *framer, const char *line, size_t len) {
  if (is_blank(line, len)) return IDEM__FRAME_MORE;
  if (framer->first_line) {
    framer->first_line = false;
    if (idem__frame_is_http(line, len)) return idem__frame_end(framer, IDEM__FRAME_HTTP);
  }
  return idem__frame_lend(framer, line, len);
}

IDEM__APART static idem__frame_event deliver_partial(idem__framer *framer, size_t len) {
  idem__frame_event event = deliver(framer, framer->partial.data, len);
  if (event == IDEM__FRAME_MESSAGE)
    framer->partial_lent = true;
  else
    framer->partial.len = 0;
  return event;
}

/* A line that began in an earlier piece ends after n bytes of this one. */
IDEM__APART static idem__frame_event finish_held(idem__framer *framer, size_t n) {
  size_t len = framer->partial.len + n;
  char last = n ? framer->input[n - 1] : framer->partial.data[framer->partial.len - 1];
  if (last == '\r') len--;
  if (len > framer->opts.max_message) return overflow(framer, n);
  if (!idem__frame_hold(framer, n)) return idem__frame_end(framer, IDEM__FRAME_NOMEM);
  idem__frame_take(framer, 1);
  return deliver_partial(framer, len);
}

/* The line ends after n bytes of input. */
static IDEM__INLINE idem__frame_event finish_line(idem__framer *framer, size_t n) {
  if (framer->partial.len) return finish_held(framer, n);
  const char *line = framer->input;
  size_t len = n;
  if (len && (line[len - 1] == '\r')) len--;
  if (len > framer->opts.max_message) return overflow(framer, n);
  idem__frame_take(framer, n + 1);
  return deliver(framer, line, len);
}

/* No line end in sight: the input is held, unless that would pass the limit. */
IDEM__APART static idem__frame_event hold_rest(idem__framer *framer) {
  size_t n = framer->input_len;
  size_t room = framer->opts.max_message + 1 - framer->partial.len;
  /* The byte past the limit is fine as long as it may turn out to be the CR of the line end. */
  bool fits = n < room || (n == room && framer->input[n - 1] == '\r');
  if (!fits) return overflow(framer, n);
  return idem__frame_hold(framer, n) ? IDEM__FRAME_MORE
                                     : idem__frame_end(framer, IDEM__FRAME_NOMEM);
}

/* Skips n bytes of a line past the limit; one that proves not to be blank is refused now. */
IDEM__COLD static idem__frame_event skip(idem__framer *framer, size_t n, bool ended) {
  bool refuse = framer->state == LINE_BLANKS && !is_blank(framer->input, n);
  if (refuse) framer->first_line = false;
  framer->dropped += n;
  idem__frame_take(framer, n + ended);
  if (ended)
    framer->state = LINE_TEXT;
  else if (refuse)
    framer->state = LINE_DRAIN;
  return refuse ? IDEM__FRAME_OVERSIZE : IDEM__FRAME_MORE;
}

IDEM__COLD static idem__frame_event last_line(idem__framer *framer) {
  size_t len = framer->partial.len;
  framer->state = IDEM__FRAME_END;
  if (len == 0) return IDEM__FRAME_MORE;
  if (framer->partial.data[len - 1] == '\r') len--;
  return deliver_partial(framer, len);
}

IDEM__HOT idem__frame_event idem__frame_line_next(idem__framer *framer) {
  while (framer->input_len) {
    const char *end = memchr(framer->input, '\n', framer->input_len);
    size_t n = end ? (size_t)(end - framer->input) : framer->input_len;
    idem__frame_event event;
    if (framer->state != LINE_TEXT)
      event = skip(framer, n, end != NULL);
    else if (end != NULL)
      event = finish_line(framer, n);
    else
      event = hold_rest(framer);
    if (event != IDEM__FRAME_MORE) return event;
  }
  return framer->eof ? last_line(framer) : IDEM__FRAME_MORE;
}

/* A refused line is not waited for: its LF ends it whenever it comes, and starting afresh in the
 * middle of it would only make a second fault of its rest. */
bool idem__frame_line_inside(const idem__framer *framer) {
  return framer->state == LINE_TEXT && framer->partial.len > 0 && !framer->partial_lent;
}
