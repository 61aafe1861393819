/* output.c - messages on their way out.
 * Answers of one loop turn are gathered into one chunk; a chunk that was taken belongs to the
 * driver but still counts as queued until it is freed. With whole framing a chunk is one message. */
#include "inside.h"

#include <string.h>

#define CHUNK_FULL 65536u
#define HEAD_MAX 48u
#define FIT_FROM 65536u

static idem__chunk *last_chunk(idem_conn *conn) {
  if (idem_list_empty(&conn->output) || conn->policy.framing == IDEM_FRAMING_WHOLE) return NULL;
  idem__chunk *chunk = IDEM_CONTAINER(conn->output.prev, idem__chunk, link);
  return chunk->buf.len < CHUNK_FULL ? chunk : NULL;
}

/* Room for the Content-Length header, guessed from the last one. */
static size_t head_room(const idem_conn *conn) {
  return conn->policy.framing == IDEM_FRAMING_CONTENT_LENGTH ? conn->last_head : 0;
}

static IDEM__INLINE idem_status begin(idem_conn *conn, idem__chunk **chunk, size_t *start) {
  idem__chunk *current = last_chunk(conn);
  if (!current) {
    current = idem__chunk_new(conn->pool);
    if (IDEM__UNLIKELY(!current)) return IDEM_E_NOMEM;
    current->conn = conn;
    current->buf.max = idem__output_bound(conn);
    idem_list_append(&conn->output, &current->link);
  }
  *chunk = current;
  *start = current->buf.len;
  idem_status status = idem_buf_reserve(&current->buf, head_room(conn));
  if (IDEM__UNLIKELY(status != IDEM_OK)) {
    idem__output_undo(conn, current, *start);
    return status;
  }
  current->buf.len += head_room(conn);
  return IDEM_OK;
}

idem_status idem__output_begin(idem_conn *conn, idem__chunk **chunk, size_t *start) {
  return begin(conn, chunk, start);
}

void idem__output_undo(idem_conn *conn, idem__chunk *chunk, size_t start) {
  (void)conn;
  chunk->buf.len = start;
  if (start) return;
  idem_list_remove(&chunk->link);
  idem__chunk_release(chunk);
}

/* Puts the header before the body; moves the body where the guess was wrong. */
IDEM__APART static idem_status put_content_length(idem_conn *conn, idem_buf *buf, size_t start) {
  char storage[HEAD_MAX];
  idem_buf head;
  size_t room = conn->last_head, body_len = buf->len - start - room;
  idem_buf_fixed(&head, storage, sizeof storage);
  idem_status status = idem__frame_put_head(IDEM__FRAME_CONTENT_LENGTH, &head, body_len);
  if (status == IDEM_OK) status = idem_buf_reserve(buf, HEAD_MAX);
  if (status != IDEM_OK) return status;
  if (head.len != room) memmove(buf->data + start + head.len, buf->data + start + room, body_len);
  memcpy(buf->data + start, head.data, head.len);
  buf->len = start + head.len + body_len;
  conn->last_head = (uint8_t)head.len; /* at most HEAD_MAX */
  return IDEM_OK;
}

static idem_status frame(idem_conn *conn, idem_buf *buf, size_t start) {
  switch (conn->policy.framing) {
  case IDEM_FRAMING_LINE: return idem__frame_put_tail(IDEM__FRAME_LINE, buf);
  case IDEM_FRAMING_CONTENT_LENGTH: return put_content_length(conn, buf, start);
  case IDEM_FRAMING_WHOLE: break;
  }
  return IDEM_OK;
}

static bool is_answer(idem_outgoing what) { return what.kind < IDEM_OUTGOING_CALL; }

static IDEM__INLINE idem_status end(idem_conn *conn, idem__chunk *chunk, size_t start,
                                    idem_outgoing what) {
  size_t body = start + head_room(conn);
  if (IDEM__UNLIKELY(conn->queued + (chunk->buf.len - start) > idem__output_hard_limit(conn))) {
    idem__output_undo(conn, chunk, start);
    return IDEM_E_LIMIT;
  }
  if (IDEM__UNLIKELY(idem__conn_traced(conn)))
    idem__conn_trace(conn, IDEM_OUT, chunk->buf.data + body, chunk->buf.len - body);
  if (IDEM__UNLIKELY(conn->layer != NULL) && conn->layer->trace)
    conn->layer->trace(conn, IDEM_OUT, chunk->buf.data + body, chunk->buf.len - body);
  idem_status status = frame(conn, &chunk->buf, start);
  if (IDEM__UNLIKELY(status != IDEM_OK)) {
    idem__output_undo(conn, chunk, start);
    return status;
  }
  size_t added = chunk->buf.len - start;
  chunk->counted += added;
  conn->queued += added;
  conn->put += added;
  chunk->what = start ? (idem_outgoing){IDEM_OUTGOING_SEVERAL, {0}} : what;
  if (IDEM__UNLIKELY(!is_answer(what))) {
    chunk->own += added;
    conn->own += added;
  }
  if (conn->policy.framing != IDEM_FRAMING_WHOLE) /* else the outer protocol counts its own */
    idem__metrics_add(conn->opts.metrics, IDEM__M_BYTES_OUT, added);
  else if (IDEM__UNLIKELY(conn->queued > FIT_FROM)) /* many small ones wait, each in a buffer */
    idem_buf_fit(&chunk->buf);
  idem__conn_wake(conn);
  return IDEM_OK;
}

idem_status idem__output_end(idem_conn *conn, idem__chunk *chunk, size_t start,
                             idem_outgoing what) {
  return end(conn, chunk, start, what);
}

static idem_outgoing what_is(const idem__answer *answer) {
  return (idem_outgoing){answer->is_error ? IDEM_OUTGOING_ERROR : IDEM_OUTGOING_RESULT,
                         {answer->code}};
}

/* begin and end are inlined here, on the path of every answer, and called by everyone else. */
IDEM__HOT static idem_status try_answer(idem_conn *conn, const idem__id *id,
                                        const idem__answer *answer) {
  idem__chunk *chunk = NULL; /* the thread sanitizer hides from gcc that begin sets both */
  size_t start = 0;
  idem_status status = begin(conn, &chunk, &start);
  if (IDEM__UNLIKELY(status != IDEM_OK)) return status;
  status = idem__answer_put(&chunk->buf, &conn->policy, id, answer);
  if (IDEM__UNLIKELY(status != IDEM_OK)) {
    idem__output_undo(conn, chunk, start);
    return status;
  }
  return end(conn, chunk, start, what_is(answer));
}

IDEM__COLD static idem_status answer_instead(idem_conn *conn, const idem__id *id,
                                             idem_status status) {
  idem__answer instead = idem__answer_code(IDEM_RPC_INTERNAL_ERROR);
  idem_status second = try_answer(conn, id, &instead);
  if (second != IDEM_OK) idem__conn_fail(conn, second);
  return status;
}

IDEM__HOT idem_status idem__output_answer(idem_conn *conn, const idem__id *id,
                                          const idem__answer *answer) {
  if (IDEM__UNLIKELY(conn->failure != IDEM_OK)) return conn->failure;
  idem_status status = try_answer(conn, id, answer);
  return IDEM__LIKELY(status == IDEM_OK) ? IDEM_OK : answer_instead(conn, id, status);
}

void idem__output_free(idem_conn *conn) {
  while (!idem_list_empty(&conn->output)) {
    idem__chunk *chunk = IDEM_CONTAINER(conn->output.next, idem__chunk, link);
    idem_list_remove(&chunk->link);
    idem__chunk_release(chunk);
  }
  while (!idem_list_empty(&conn->taken)) {
    idem__chunk *chunk = IDEM_CONTAINER(conn->taken.next, idem__chunk, link);
    idem_list_remove(&chunk->link);
    chunk->conn = NULL;
  }
}

IDEM__HOT bool idem_conn_next_chunk(idem_conn *conn, idem_chunk *chunk) {
  conn->woken = false;
  if (idem_list_empty(&conn->output)) return false;
  idem__chunk *first = IDEM_CONTAINER(conn->output.next, idem__chunk, link);
  idem_list_remove(&first->link);
  idem_list_append(&conn->taken, &first->link);
  conn->taken_out += first->buf.len;
  *chunk = (idem_chunk){first->buf.data, first->buf.len, first->what, first};
  return true;
}

IDEM__HOT void idem_chunk_free(idem_chunk *chunk) {
  if (!chunk || !chunk->owner) return;
  idem__chunk *owner = chunk->owner;
  idem_conn *conn = owner->conn;
  chunk->owner = NULL;
  idem_list_remove(&owner->link);
  if (conn) {
    conn->queued -= owner->counted;
    conn->own -= owner->own;
    /* Writes end between feeds: the last time seen is an old one. */
    conn->active_ns = idem__conn_now_ns(conn);
  }
  idem__chunk_release(owner);
}

size_t idem_conn_queued(const idem_conn *conn) { return conn->queued; }

bool idem_conn_want_read(const idem_conn *conn) {
  if (conn->closed || conn->eof || conn->failure != IDEM_OK) return false;
  if (IDEM__UNLIKELY(idem__turn_waits(conn))) return false;
  /* Reading pauses for a peer that does not read its answers. While answers to our own calls are
   * awaited, or only messages of our own are queued, it goes on: two peers that both pause would
   * wait for each other for ever. Requests are then held back, not handled. */
  return idem__output_has_room(conn) || conn->call_count > 0 ||
         conn->queued - conn->gathered == conn->own;
}
