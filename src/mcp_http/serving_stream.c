/* serving_stream.c - the events of a POST: numbered and kept where its client may come back for them, and what
 * becomes of a serving whose connection is lost. */
#include "serving.h"

#define IDS_BYTES ((size_t)16 << 10)

static bool is_resumable(const idem__mcp_serving *serving) { return serving->session != NULL; }

/* An event without data, so that a client that loses the stream at once can come back. */
static void write_first(const idem__mcp_serving *serving, idem_buf *out) {
  if (!serving->post.stream) return; /* the session has ended: nobody will come back */
  if (!idem__revision_has(serving->session->legacy.revision, IDEM__R_PRIME_EVENT)) return;
  idem_buf_printf(out, "id: %llx-0\nretry: 500\ndata:\n\n",
                  (unsigned long long)serving->post.stream);
}

/* Asks for a number; the store may give it at once, and then `*number` is it. */
typedef struct number_now {
  bool given;
  uint32_t number;
} number_now;

static void on_number_now(uint32_t number, void *user) {
  *(number_now *)user = (number_now){.given = true, .number = number};
}

static void prepare_event(idem__mcp_serving *serving, uint32_t after, number_now *now) {
  serving->event = (idem__session_event){.session = serving->session,
                                         .queue = serving->endpoint->queue,
                                         .after = after,
                                         .added = on_number_now,
                                         .user = now};
}

static void set_stream(idem__mcp_serving *serving, uint32_t number) {
  idem__post_set_stream(serving->session, &serving->post,
                        idem__http_session_stream(serving->session, number));
}

static void on_stream_numbered(uint32_t number, void *user) {
  idem__mcp_serving *serving = user;
  char text[64];
  idem_buf out;
  idem_buf_fixed(&out, text, sizeof text);
  set_stream(serving, number);
  write_first(serving, &out);
  idem__http_serving_write(serving, out.data, out.len);
}

/* Whoever takes the stream up when we have died must know what was to be answered on it: a word whether that is an array, and the ids.
 * More than is usual is not kept. */
static void begin_numbering(idem__mcp_serving *serving) {
  idem_buf ids;
  idem_buf_init(&ids, &serving->endpoint->alloc, IDS_BYTES);
  idem_status status = idem_buf_put(&ids, idem__conn_gathers(serving->peer.conn) ? "b" : "s", 1);
  if (status == IDEM_OK) status = idem__post_write_ids(serving->session, &serving->post, &ids);
  idem__http_session_next_stream(&serving->event, ids.data, status == IDEM_OK ? ids.len : 0);
  idem_buf_deinit(&ids);
}

idem__http_when idem__mcp_stream_begin(void *at, idem_buf *out) {
  idem__mcp_serving *serving = at;
  number_now now = {.given = false};
  if (!is_resumable(serving)) return IDEM__HTTP_NOW;
  prepare_event(serving, 0, &now);
  begin_numbering(serving);
  serving->event.added = on_stream_numbered;
  serving->event.user = serving;
  if (!now.given) return IDEM__HTTP_LATER;
  set_stream(serving, now.number);
  write_first(serving, out);
  return IDEM__HTTP_NOW;
}

/* Where nobody is there to read it, whoever has come back is told. */
static idem__http_when write_numbered(idem__mcp_serving *serving, uint32_t number, idem_buf *out) {
  idem_status status = idem__session_event_write(out, serving->post.stream, number, serving->text,
                                                 serving->text_len);
  if (!idem__http_serving_exchange(serving)) idem__server_wake(serving->endpoint->worker->server);
  serving->numbered = true;
  return status == IDEM_OK ? IDEM__HTTP_NOW : IDEM__HTTP_REFUSED;
}

static void on_event_numbered(uint32_t number, void *user) {
  idem__mcp_serving *serving = user;
  idem_buf out;
  idem_buf_init(&out, &serving->endpoint->alloc,
                2 * idem__answer_bytes(serving->endpoint->worker->server));
  bool written = write_numbered(serving, number, &out) == IDEM__HTTP_NOW;
  idem__http_serving_write(serving, out.data, written ? out.len : 0);
  idem_buf_deinit(&out);
}

idem__http_when idem__mcp_stream_event(void *at, const char *text, size_t len, bool last,
                                       idem_buf *out) {
  idem__mcp_serving *serving = at;
  number_now now = {.given = false};
  serving->answered |= last;
  if (!is_resumable(serving) || !serving->post.stream) {
    idem_status status = idem__sse_put_event(out, "message", NULL, text, len);
    return status == IDEM_OK ? IDEM__HTTP_NOW : IDEM__HTTP_REFUSED;
  }
  serving->text = text;
  serving->text_len = len;
  prepare_event(serving, serving->event.after, &now);
  idem__http_session_add(&serving->event, serving->post.stream, text, len, last);
  serving->event.added = on_event_numbered;
  serving->event.user = serving;
  return now.given ? write_numbered(serving, now.number, out) : IDEM__HTTP_LATER;
}

/* What is cancelled has no answer, and its stream ends; where there should have been one somebody will ask for it. */
void idem__mcp_stream_left(idem__mcp_serving *serving) {
  idem__http_session *session = serving->session;
  if (!serving->post.stream || session->ended) return;
  if (serving->cancelled && !serving->answered)
    idem__http_session_end_stream(session, serving->post.stream, false);
  idem__session_table_lock(session->table);
  bool taken_up = session->resumed > 0;
  idem__session_table_unlock(session->table);
  if (taken_up) idem__server_wake(serving->endpoint->worker->server);
}

bool idem__mcp_serving_outlives(void *at) {
  const idem__mcp_serving *serving = at;
  return is_resumable(serving) && !serving->session->ended;
}

void idem__mcp_serving_detached(void *at, bool detached) {
  idem__mcp_serving *serving = at;
  if (serving->session) idem__http_session_detached(serving->session, detached);
  if (detached)
    idem__worker_wake(serving->endpoint->worker); /* its time is the worker's from now on */
  else
    idem__worker_rested(serving->endpoint->worker);
}

bool idem__mcp_serving_orphaned(void *at) {
  const idem__mcp_serving *serving = at;
  return serving->session && serving->session->ended;
}

bool idem__mcp_serving_leave_stream(idem__mcp_serving *serving) {
  /* Before 2025-11-25 a stream does not begin with an event: there is nothing to come back after yet. */
  bool primed = is_resumable(serving) &&
                idem__revision_has(serving->session->legacy.revision, IDEM__R_PRIME_EVENT);
  bool may = idem__http_serving_exchange(serving) && (primed || serving->numbered);
  if (may) idem__http_serving_leave(serving);
  return may;
}
