/* fuzz_frame_line.c - any bytes through the line framer, whole and in pieces: the same events.
 * Without the guard they must also be those of a model that sees the whole input and splits it
 * naively. See frame_differential.h. */
#include "frame_differential.h"

static bool blank(const char *line, size_t len) {
  while (len && strchr(" \t\r", line[len - 1]) && line[len - 1]) len--;
  return len == 0;
}

/* What one line must become; the framer stands in to carry the message. */
static void model_line(frame_trace *trace, idem__framer *framer, const char *line, size_t len) {
  if (len && line[len - 1] == '\r') len--;
  if (blank(line, len)) return;
  framer->data = line;
  framer->len = len;
  bool fits = len <= framer->opts.max_message;
  frame_trace_event(trace, framer, fits ? IDEM__FRAME_MESSAGE : IDEM__FRAME_OVERSIZE);
}

static frame_trace model(const idem__frame_opts *opts, const char *text, size_t len) {
  frame_trace trace = {{0}, 0};
  idem__framer framer = {.opts = *opts};
  idem_buf_init(&trace.text, opts->alloc, SIZE_MAX / 2);
  while (len) {
    const char *end = memchr(text, '\n', len);
    size_t n = end ? (size_t)(end - text) : len;
    model_line(&trace, &framer, text, n);
    text += n + (end != NULL);
    len -= n + (end != NULL);
  }
  return trace;
}

static void compare_with_model(const uint8_t *data, size_t size) {
  idem_alloc alloc = idem__alloc_or_default(NULL);
  const idem__frame_opts opts = {
      .kind = IDEM__FRAME_LINE, .max_message = data[0] & 0x7f, .alloc = &alloc};
  frame_trace real = frame_trace_play(&opts, data + 1, size - 1, 0);
  frame_trace wanted = model(&opts, (const char *)data + 1, size - 1);
  MUST(real.text.len == wanted.text.len);
  if (real.text.len) MUST(memcmp(real.text.data, wanted.text.data, real.text.len) == 0);
  idem_buf_deinit(&real.text);
  idem_buf_deinit(&wanted.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size) compare_with_model(data, size);
  return frame_differential(IDEM__FRAME_LINE, data, size);
}
