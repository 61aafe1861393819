/* content_length.c - the language-server base protocol: header lines, a blank line, N bytes.
 * Works line by line, so a section is never held whole nor read twice; damage is left behind at the
 * next length that can be read. See docs/internals/frame.md. */
#include "parts.h"

#include <string.h>

enum {
  LENGTH_SECTION = IDEM__FRAME_START, /* between frames, or inside a header section */
  LENGTH_LINE_REST,                   /* the rest of a line too long to hold, section too large */
  LENGTH_SECTION_END,                 /* the blank line came */
  LENGTH_BODY,
  LENGTH_SKIP, /* a body nobody wants */
  LENGTH_SYNC  /* damage: looking for the next length */
};

/* ------------------------------------------------------------- sections and damage */

static void forget_section(idem__framer *framer) {
  bool reported = framer->section.fault_reported;
  framer->section = (idem__frame_section){.fault_reported = reported};
  framer->partial.len = 0;
}

static void start_section_at(idem__framer *framer, uint64_t length) {
  forget_section(framer);
  framer->section.has_length = true;
  framer->section.length = length;
  framer->state = LENGTH_SECTION;
}

/* Reports a fault unless this damaged region has had its error. */
static idem__frame_event report(idem__framer *framer, idem__frame_event fault) {
  if (framer->section.fault_reported) return IDEM__FRAME_MORE;
  framer->section.fault_reported = true;
  framer->dropped = framer->section.bytes + framer->partial.len;
  return fault;
}

static idem__frame_event damaged(idem__framer *framer, idem__frame_event fault) {
  idem__frame_event event = report(framer, fault);
  forget_section(framer);
  framer->sync = (idem__frame_sync){0};
  framer->state = LENGTH_SYNC;
  return event;
}

/* True when the line ends in `Content-Length:` digits; leaves the search ready to go on. */
static bool line_holds_length(idem__framer *framer, const char *line, size_t len, bool cut) {
  framer->sync = (idem__frame_sync){0};
  for (size_t i = 0; i < len; i++) idem__frame_sync_step(&framer->sync, line[i]);
  return !cut && idem__frame_sync_step(&framer->sync, '\n');
}

/* Looks for the next length from the start of this line on. */
static void search_from_line(idem__framer *framer, const char *line, size_t len, bool cut) {
  if (line_holds_length(framer, line, len, cut)) {
    start_section_at(framer, framer->sync.value);
    return;
  }
  forget_section(framer);
  framer->state = LENGTH_SYNC;
}

/* ------------------------------------------------------------------- header lines */

/* A line that is not the length: if the section turns out to have none, the last line that ends in
 * one (leftovers of a body longer than announced stand before it) is where the frame began. */
static void note_candidate(idem__framer *framer, const char *line, size_t len) {
  idem__frame_section *section = &framer->section;
  if (section->has_length || !line_holds_length(framer, line, len, false)) return;
  section->has_candidate = true;
  section->candidate = framer->sync.value;
  section->type_fault = IDEM__FRAME_MORE;
  section->malformed = false;
}

static void malformed_line(idem__framer *framer, const char *line, size_t len, bool cut) {
  if (framer->section.fault_reported) {
    search_from_line(framer, line, len, cut);
    return;
  }
  framer->section.has_candidate = false;
  framer->section.malformed = true;
  note_candidate(framer, line, len);
}

static idem__frame_event length_line(idem__framer *framer, uint64_t length) {
  idem__frame_section *section = &framer->section;
  if (section->has_length && section->length != length)
    return damaged(framer, IDEM__FRAME_BAD_LENGTH);
  section->has_length = true;
  section->length = length;
  return IDEM__FRAME_MORE;
}

static void type_line(idem__framer *framer, idem__frame_event fault, const char *line, size_t len) {
  if (framer->section.type_fault == IDEM__FRAME_MORE) framer->section.type_fault = fault;
  note_candidate(framer, line, len);
}

/* One line of the section without its line end; `cut` when the line is longer than can be held. */
static idem__frame_event header_line(idem__framer *framer, const char *line, size_t len, bool cut) {
  uint64_t length = 0;
  switch (idem__frame_header(line, len, &length)) {
  case IDEM__HEADER_LENGTH:
    return cut ? damaged(framer, IDEM__FRAME_BAD_LENGTH) : length_line(framer, length);
  case IDEM__HEADER_BAD_LENGTH: return damaged(framer, IDEM__FRAME_BAD_LENGTH);
  case IDEM__HEADER_BAD_TYPE: type_line(framer, IDEM__FRAME_BAD_TYPE, line, len); break;
  case IDEM__HEADER_BAD_CHARSET: type_line(framer, IDEM__FRAME_BAD_CHARSET, line, len); break;
  case IDEM__HEADER_MALFORMED: malformed_line(framer, line, len, cut); break;
  case IDEM__HEADER_BROWSER:
    if (framer->opts.guard_http) return idem__frame_end(framer, IDEM__FRAME_HTTP);
    note_candidate(framer, line, len);
    break;
  case IDEM__HEADER_TYPE:
  case IDEM__HEADER_OTHER: note_candidate(framer, line, len);
  }
  return IDEM__FRAME_MORE;
}

static idem__frame_event complete_line(idem__framer *framer, const char *line, size_t len) {
  if (len && line[len - 1] == '\r') len--;
  if (len == 0) {
    framer->state = LENGTH_SECTION_END;
    return IDEM__FRAME_MORE;
  }
  if (framer->first_line) {
    framer->first_line = false;
    if (idem__frame_is_http(line, len)) return idem__frame_end(framer, IDEM__FRAME_HTTP);
  }
  return header_line(framer, line, len, false);
}

/* ------------------------------------------------------------------- the section */

/* The section has reached its limit without ending. Its lines are still read, one at a time, so
 * that its body can be skipped; a section that was no header to begin with is searched instead. */
static idem__frame_event section_too_large(idem__framer *framer) {
  idem__frame_section *section = &framer->section;
  if (framer->first_line) {
    framer->first_line = false;
    if (idem__frame_begins_http(framer->partial.data, framer->partial.len))
      return idem__frame_end(framer, IDEM__FRAME_HTTP);
  }
  idem__frame_event event = report(framer, IDEM__FRAME_HEADER_TOO_LARGE);
  section->draining = true;
  if (section->malformed && !section->has_length)
    search_from_line(framer, framer->partial.data, framer->partial.len, true);
  return event;
}

/* One line of a section past its limit is itself past it: judged by its beginning. */
static idem__frame_event line_too_long(idem__framer *framer) {
  framer->state = LENGTH_LINE_REST;
  idem__frame_event event = header_line(framer, framer->partial.data, framer->partial.len, true);
  framer->partial.len = 0;
  return event;
}

/* Bytes the line under way may take, its LF included. */
static size_t line_room(const idem__framer *framer) {
  size_t max = framer->opts.max_header;
  return framer->section.draining ? max : max - framer->section.bytes;
}

/* The line ends after n bytes of input, within its room. */
static idem__frame_event end_line(idem__framer *framer, size_t n) {
  const char *line = framer->input;
  size_t len = framer->partial.len + n;
  if (!framer->section.draining) framer->section.bytes += len + 1;
  if (framer->partial.len == 0) {
    idem__frame_take(framer, n + 1);
    return complete_line(framer, line, len);
  }
  if (!idem__frame_hold(framer, n)) return idem__frame_end(framer, IDEM__FRAME_NOMEM);
  idem__frame_take(framer, 1);
  idem__frame_event event = complete_line(framer, framer->partial.data, len);
  framer->partial.len = 0;
  return event;
}

static idem__frame_event read_section(idem__framer *framer) {
  size_t room = line_room(framer);
  size_t window = idem__frame_min(framer->input_len, room - framer->partial.len);
  const char *end = window ? memchr(framer->input, '\n', window) : NULL;
  if (end) return end_line(framer, (size_t)(end - framer->input));
  if (!idem__frame_hold(framer, window)) return idem__frame_end(framer, IDEM__FRAME_NOMEM);
  if (framer->partial.len < room) return IDEM__FRAME_MORE;
  return framer->section.draining ? line_too_long(framer) : section_too_large(framer);
}

static void skip_line_rest(idem__framer *framer) {
  const char *end = memchr(framer->input, '\n', framer->input_len);
  idem__frame_take(framer, end ? (size_t)(end - framer->input) + 1 : framer->input_len);
  if (end) framer->state = LENGTH_SECTION;
}

/* The section is complete and has a length: body or refusal. */
static idem__frame_event begin_body(idem__framer *framer) {
  idem__frame_section *section = &framer->section;
  idem__frame_event fault = section->type_fault;
  if (fault == IDEM__FRAME_MORE && section->length > framer->opts.max_message)
    fault = IDEM__FRAME_OVERSIZE;
  size_t announced = section->length < SIZE_MAX ? (size_t)section->length : SIZE_MAX;
  bool skip = section->draining || fault != IDEM__FRAME_MORE;
  if (section->draining) fault = IDEM__FRAME_MORE; /* has had its error */
  section->fault_reported = false;
  framer->body_left = section->length;
  framer->state = skip ? LENGTH_SKIP : LENGTH_BODY;
  forget_section(framer);
  if (fault != IDEM__FRAME_MORE) framer->dropped = announced;
  return fault;
}

static idem__frame_event end_section(idem__framer *framer) {
  idem__frame_section *section = &framer->section;
  if (section->has_length) return begin_body(framer);
  if (!section->has_candidate) return damaged(framer, IDEM__FRAME_MISSING_LENGTH);
  section->has_length = true;
  section->length = section->candidate;
  return report(framer, IDEM__FRAME_MISSING_LENGTH);
}

/* ---------------------------------------------------------------- body and damage */

static idem__frame_event read_body(idem__framer *framer) {
  size_t left = (size_t)framer->body_left;
  if (framer->partial.len == 0 && framer->input_len >= left) {
    const char *body = framer->input;
    if (left) idem__frame_take(framer, left);
    framer->state = LENGTH_SECTION;
    return idem__frame_lend(framer, body, left);
  }
  size_t n = idem__frame_min(left, framer->input_len);
  if (!idem__frame_hold(framer, n)) return idem__frame_end(framer, IDEM__FRAME_NOMEM);
  framer->body_left -= n;
  if (framer->body_left) return IDEM__FRAME_MORE;
  framer->state = LENGTH_SECTION;
  return idem__frame_lend_partial(framer, framer->partial.len);
}

static void skip_body(idem__framer *framer) {
  size_t n = framer->input_len;
  if (n > framer->body_left) n = (size_t)framer->body_left;
  idem__frame_take(framer, n);
  framer->body_left -= n;
  if (framer->body_left == 0) framer->state = LENGTH_SECTION;
}

static void search(idem__framer *framer) {
  for (size_t i = 0; i < framer->input_len; i++) {
    if (!idem__frame_sync_step(&framer->sync, framer->input[i])) continue;
    framer->dropped += i;
    idem__frame_take(framer, i + 1);
    start_section_at(framer, framer->sync.value);
    return;
  }
  framer->dropped += framer->input_len;
  framer->input_len = 0;
}

/* -------------------------------------------------------------------- entry points */

static idem__frame_event step(idem__framer *framer) {
  switch (framer->state) {
  case LENGTH_SECTION: return read_section(framer);
  case LENGTH_SECTION_END: return end_section(framer);
  case LENGTH_BODY: return read_body(framer);
  case LENGTH_LINE_REST: skip_line_rest(framer); break;
  case LENGTH_SKIP: skip_body(framer); break;
  default: search(framer);
  }
  return IDEM__FRAME_MORE;
}

/* States that have something to do without further input. */
static bool ready(const idem__framer *framer) {
  if (framer->state == LENGTH_SECTION_END) return true;
  return (framer->state == LENGTH_BODY || framer->state == LENGTH_SKIP) && framer->body_left == 0;
}

static bool section_begun(const idem__framer *framer) {
  return framer->section.bytes || framer->section.has_length || framer->partial.len;
}

static idem__frame_event end_of_input(idem__framer *framer) {
  bool inside =
      framer->state == LENGTH_BODY ||
      (framer->state == LENGTH_SECTION && !framer->section.draining && section_begun(framer));
  return idem__frame_end(framer, inside ? IDEM__FRAME_TRUNCATED : IDEM__FRAME_MORE);
}

idem__frame_event idem__frame_content_length_next(idem__framer *framer) {
  while (framer->input_len || ready(framer)) {
    idem__frame_event event = step(framer);
    if (event != IDEM__FRAME_MORE) return event;
  }
  return framer->eof ? end_of_input(framer) : IDEM__FRAME_MORE;
}

bool idem__frame_content_length_inside(const idem__framer *framer) {
  if (framer->state == LENGTH_SECTION) return section_begun(framer) && !framer->partial_lent;
  return framer->state != LENGTH_SYNC;
}
