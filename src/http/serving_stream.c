/* serving_stream.c - the answer to a POST as an event stream. A protocol may number its events, and learn the
 * numbers later: then one message waits in hand, and what the engine says after it waits in the engine.
 * See docs/internals/http.md. */
#include "endpoint.h"

#define EVENT_KEEP ((size_t)64 * 1024)

static void put_bytes(idem__http_serving *serving, const char *bytes, size_t len) {
  if (serving->exchange && len) idem__http_stream_put(serving->exchange, bytes, len);
}

void idem__http_serving_comment(idem__http_serving *serving) {
  idem__http_stream_put(serving->exchange, IDEM__SSE_COMMENT, sizeof IDEM__SSE_COMMENT - 1);
  serving->stream_at_ms = idem__http_exchange_now(serving->exchange) + serving->rpc->opts.stream_ms;
}

static void begin_protocol_stream(idem__http_serving *serving) {
  const idem__http_protocol *protocol = idem__http_protocol_of(serving);
  idem_buf *event = &serving->rpc->event;
  if (!protocol->stream_begin) return;
  event->len = 0;
  serving->writing = serving->beginning =
      protocol->stream_begin(serving->state, event) == IDEM__HTTP_LATER;
  put_bytes(serving, event->data, event->len);
  event->len = 0;
}

static void put_head(idem__http_serving *serving) {
  serving->streaming = true;
  char text[1024];
  idem_buf lines;
  idem_buf_fixed(&lines, text, sizeof text - 1);
  idem_buf_puts(&lines, "X-Accel-Buffering: no\r\n");
  if (idem__http_protocol_of(serving)->headers)
    idem__http_protocol_of(serving)->headers(serving->state, &lines);
  text[lines.len] = 0;
  idem__http_stream_begin(serving->exchange, 200, "text/event-stream", text);
}

/* The first comment goes out at once. */
void idem__http_serving_commit(idem__http_serving *serving) {
  if (serving->streaming) return;
  put_head(serving);
  begin_protocol_stream(serving);
  idem__http_serving_comment(serving);
}

/* Who has ruled streams out reads no events of one, and cannot come back for it: not a byte is in it. */
void idem__http_serving_commit_empty(idem__http_serving *serving) {
  if (serving->accepts_stream)
    idem__http_serving_commit(serving);
  else if (!serving->streaming)
    put_head(serving);
}

/* ------------------------------------------------------------------- events */

static bool is_answer(const idem__http_serving *serving) {
  return serving->chunk.what.kind < IDEM_OUTGOING_CALL;
}

/* The message in hand is written. False: it was the answer, and the call is over. */
static bool end_event(idem__http_serving *serving) {
  bool answer = is_answer(serving);
  serving->in_hand = false;
  idem_chunk_free(&serving->chunk);
  if (!answer) return true;
  if (serving->exchange) idem__http_stream_end(serving->exchange);
  idem__http_serving_retire(serving);
  return false;
}

/* Also when nobody is there to read it: a protocol may keep it for one who comes back. */
static bool write_event(idem__http_serving *serving) {
  const idem__http_protocol *protocol = idem__http_protocol_of(serving);
  const idem_chunk *chunk = &serving->chunk;
  idem_buf *event = &serving->rpc->event;
  idem__http_when when = IDEM__HTTP_NOW;
  event->len = 0;
  if (protocol->event)
    when = protocol->event(serving->state, chunk->data, chunk->len, is_answer(serving), event);
  else if (idem__sse_put_event(event, "message", NULL, chunk->data, chunk->len) != IDEM_OK)
    when = IDEM__HTTP_REFUSED;
  if (when == IDEM__HTTP_NOW) put_bytes(serving, event->data, event->len);
  event->len = 0;
  idem_buf_trim(event, EVENT_KEEP);
  serving->writing = when == IDEM__HTTP_LATER;
  return serving->writing || end_event(serving);
}

bool idem__http_serving_event(idem__http_serving *serving, idem_chunk *chunk) {
  if (serving->exchange) idem__http_serving_commit(serving);
  serving->chunk = *chunk;
  serving->in_hand = true;
  return serving->writing || write_event(serving); /* its stream may have to begin first */
}

/* ------------------------------------------------------- what was written later */

/* False: the call is over. */
static bool go_on(idem__http_serving *serving) {
  bool begun = serving->beginning;
  serving->writing = serving->beginning = false;
  if (!serving->in_hand) return true;
  return begun ? write_event(serving) : end_event(serving);
}

/* What was asked meanwhile. */
static void catch_up(idem__http_serving *serving) {
  bool leaving = serving->leaving, cancelled = serving->cancelled;
  if (serving->writing) return;
  serving->leaving = serving->cancelled = false;
  if (leaving) idem__http_serving_leave(serving->state);
  idem__http_serving_look(serving);
  if (cancelled) idem__http_serving_cancelled(serving->state);
}

void idem__http_serving_write(void *protocol, const char *bytes, size_t len) {
  idem__http_serving *serving = IDEM_CONTAINER(protocol, idem__http_serving, state);
  put_bytes(serving, bytes, len);
  if (go_on(serving)) catch_up(serving);
}
