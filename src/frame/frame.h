/* frame.h - cutting a byte stream into messages: lines, Content-Length frames, or whole.
 * Sans-I/O and JSON-free: bytes go in, frames and faults come out, one at a time, at any split of
 * the input. A frame that lies whole inside one fed piece is lent without copying.
 * See docs/internals/frame.md. */
#ifndef IDEM_FRAME_PRIVATE_H
#define IDEM_FRAME_PRIVATE_H

#include "../base/base.h"

typedef enum idem__frame_kind {
  IDEM__FRAME_LINE,           /* LF ends a message, one CR before it dropped, blank lines skipped */
  IDEM__FRAME_CONTENT_LENGTH, /* behaviour of the language-server base protocol */
  IDEM__FRAME_WHOLE           /* everything until end of input is one message (HTTP, WebSocket) */
} idem__frame_kind;

typedef enum idem__frame_event {
  IDEM__FRAME_MORE,     /* all input taken; nothing more to report */
  IDEM__FRAME_MESSAGE,  /* `data`, `len` hold one message, borrowed until the next call */
  IDEM__FRAME_OVERSIZE, /* a message past max_message; its bytes are drained */
  IDEM__FRAME_HEADER_TOO_LARGE,
  IDEM__FRAME_MISSING_LENGTH,
  IDEM__FRAME_BAD_LENGTH,
  IDEM__FRAME_BAD_TYPE,    /* Content-Type is not the JSON-RPC one; body skipped */
  IDEM__FRAME_BAD_CHARSET, /* charset is not utf-8; body skipped */
  IDEM__FRAME_TRUNCATED,   /* end of input inside a Content-Length header or body */
  IDEM__FRAME_HTTP,        /* a web page is talking to us (see guard_http): close the conn */
  IDEM__FRAME_NOMEM /* no memory to hold a partial frame; the frame is lost, the conn must end */
} idem__frame_event;

typedef struct idem__frame_opts {
  idem__frame_kind kind;
  size_t max_message;
  size_t max_header; /* header section, Content-Length framing */
  bool guard_http;   /* socket listeners: an HTTP request line first, or Host:/Origin: in a frame */
  const idem_alloc *alloc;
} idem__frame_opts;

/* What the header section under way has said so far (Content-Length framing). */
typedef struct idem__frame_section {
  size_t bytes;                 /* of its complete lines, line ends included */
  uint64_t length;              /* Content-Length, if has_length */
  uint64_t candidate;           /* a length found in the middle of a line, if has_candidate */
  idem__frame_event type_fault; /* what Content-Type got wrong; MORE: nothing */
  bool has_length;
  bool has_candidate;
  bool malformed;      /* a line that is no header came, and no length after it */
  bool draining;       /* past max_header: read on for its length only */
  bool fault_reported; /* this damaged region has had its one error */
} idem__frame_section;

/* Progress of the search for `Content-Length:` digits CRLF in a damaged region. */
typedef struct idem__frame_sync {
  unsigned matched;
  uint64_t value;
} idem__frame_sync;

typedef struct idem__framer {
  idem__frame_opts opts;
  idem_buf partial;  /* the frame so far, when it spans feeds */
  const char *input; /* what was fed and not yet taken */
  size_t input_len;
  const char *data; /* the message of the last FRAME_MESSAGE */
  size_t len;
  size_t
      dropped; /* the last fault's size, for the log: what came of it so far; of a refused body what was announced */
  bool eof;
  /* state of the framings; private to src/frame */
  int state;
  bool partial_lent;  /* the last message lies in `partial`: emptied by the next call */
  bool first_line;    /* the HTTP guard has yet to look at the first line */
  uint64_t body_left; /* Content-Length: bytes of a refused body still to skip */
  idem__frame_section section;
  idem__frame_sync sync;
} idem__framer;

void idem__framer_init(idem__framer *framer, const idem__frame_opts *opts);
void idem__framer_deinit(idem__framer *framer);
/* Lends input. The previous piece must have been drained by next() returning MORE. */
void idem__framer_feed(idem__framer *framer, const char *data, size_t len);
/* No more input will come; may follow a feed() at once. next() then reports an unterminated last
 * line (LINE), TRUNCATED (CONTENT_LENGTH) or the whole message (WHOLE; also an empty one), then
 * MORE for ever. */
void idem__framer_feed_eof(idem__framer *framer);
/* The next event. Call until MORE. */
idem__frame_event idem__framer_next(idem__framer *framer);
/* True when next() could only answer MORE: saves the call after the last line of a piece. */
static inline bool idem__framer_drained(const idem__framer *framer) {
  return framer->input_len == 0 && framer->opts.kind == IDEM__FRAME_LINE && !framer->eof &&
         !framer->partial_lent;
}
/* True while part of a frame has arrived: the frame time-out runs. Also while a refused
 * Content-Length body is skipped, so that an absurd length cannot deafen the conn for ever. */
bool idem__framer_is_inside(const idem__framer *framer);
static inline bool idem__framer_inside(const idem__framer *framer) {
  if (framer->opts.kind == IDEM__FRAME_LINE && !framer->partial.len) return false; /* mostly */
  return idem__framer_is_inside(framer);
}
/* Drops the partial frame and starts afresh (frame time-out). Not while input is lent. */
void idem__framer_reset(idem__framer *framer);
/* Gives back memory kept for large frames, if none is under way. */
void idem__framer_trim(idem__framer *framer);

/* Output: appends the bytes that go before / after a message of body_len bytes. */
idem_status idem__frame_put_head(idem__frame_kind kind, idem_buf *out, size_t body_len);
idem_status idem__frame_put_tail(idem__frame_kind kind, idem_buf *out);

#endif
