/* fuzz_sse.c - any bytes as an event stream: whole and in pieces they give the same events; and any
 * text written as an event comes back as one. */
#include "http/http.h"

#include <stdlib.h>
#include <string.h>

#define MUST(condition)                                                                            \
  do {                                                                                             \
    if (!(condition)) abort();                                                                     \
  } while (0)

static void on_event(void *user, const idem__sse_event *event) {
  idem_buf *out = user;
  MUST(idem_buf_printf(out, "%zu %zu %zu:", event->event.len, event->id.len, event->data.len) ==
       IDEM_OK);
  MUST(idem_buf_put(out, event->event.at, event->event.len) == IDEM_OK);
  MUST(idem_buf_put(out, event->id.at, event->id.len) == IDEM_OK);
  MUST(idem_buf_put(out, event->data.at, event->data.len) == IDEM_OK);
}

static idem_buf play(const uint8_t *data, size_t size, unsigned seed, size_t max) {
  idem_buf out;
  idem__sse_parser parser;
  idem_buf_init(&out, NULL, (size_t)1 << 30);
  idem__sse_parser_init(&parser, NULL, max, on_event, &out);
  idem_status status = IDEM_OK;
  while (size && status == IDEM_OK) {
    size_t take = seed ? 1 + (seed = seed * 1103515245u + 12345u) / 65536u % 9u : size;
    if (take > size) take = size;
    status = idem__sse_parser_feed(&parser, (const char *)data, take);
    data += take;
    size -= take;
  }
  MUST(idem_buf_printf(&out, "retry %llu", (unsigned long long)parser.retry_ms) == IDEM_OK);
  idem__sse_parser_deinit(&parser);
  return out;
}

static void count_event(void *user, const idem__sse_event *event) {
  (void)event;
  ++*(size_t *)user;
}

static void write_and_read(const uint8_t *data, size_t size) {
  idem_buf out;
  idem__sse_parser parser;
  size_t events = 0;
  idem_buf_init(&out, NULL, (size_t)1 << 30);
  idem__sse_parser_init(&parser, NULL, (size_t)1 << 30, count_event, &events);
  MUST(idem__sse_put_event(&out, "message", NULL, (const char *)data, size) == IDEM_OK);
  MUST(idem__sse_parser_feed(&parser, out.data, out.len) == IDEM_OK);
  MUST(events == 1);
  idem__sse_parser_deinit(&parser);
  idem_buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  idem_buf whole = play(data, size, 0, (size_t)1 << 20);
  for (unsigned seed = 1; seed < 4; seed++) {
    idem_buf pieces = play(data, size, seed, (size_t)1 << 20);
    MUST(whole.len == pieces.len && memcmp(whole.data, pieces.data, whole.len) == 0);
    idem_buf_deinit(&pieces);
    pieces = play(data, size, seed, 16);
    idem_buf_deinit(&pieces);
  }
  idem_buf_deinit(&whole);
  write_and_read(data, size);
  return 0;
}
