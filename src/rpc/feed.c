/* feed.c - bytes and messages that come to a conn: into frames, from frames to messages, now or in another turn.
 * See turn.c for what waits, docs/internals/rpc.md for the order in which things happen. */
#include "inside.h"

static bool stopped(const idem_conn *conn) { return conn->closed || conn->free_later; }

/* True when at least one frame came to its end. */
static IDEM__INLINE bool take_frames(idem_conn *conn) {
  bool progress = false;
  while (!stopped(conn)) {
    if (IDEM__UNLIKELY(!idem__turn_goes_on(conn)) && idem__turn_put_off(conn, progress)) break;
    idem__frame_event event = idem__framer_next(&conn->framer);
    if (event == IDEM__FRAME_MORE) break;
    progress = true;
    if (IDEM__LIKELY(event == IDEM__FRAME_MESSAGE)) {
      idem__dispatch_text(conn, conn->framer.data, conn->framer.len);
      if (IDEM__LIKELY(idem__framer_drained(&conn->framer))) break;
    } else {
      idem__refuse_frame(conn, event, conn->framer.dropped);
    }
  }
  return progress;
}

/* ... of what waited, or is the last. */
IDEM__COLD static bool take_last_frames(idem_conn *conn) { return take_frames(conn); }

/* The time for one frame begins with its first byte. */
static IDEM__INLINE void watch_frame(idem_conn *conn, bool progress) {
  uint64_t allowed = conn->policy.limits.frame_ms;
  if (IDEM__LIKELY(!idem__framer_inside(&conn->framer)) || !allowed || stopped(conn) ||
      idem__turn_waits(conn)) { /* its rest may be there, and is not looked at yet */
    conn->frame_at_ms = IDEM__NEVER;
  } else if (progress || conn->frame_at_ms == IDEM__NEVER) {
    conn->frame_at_ms = idem__conn_clock_ms(conn) + allowed;
  }
}

/* The memory of a large frame goes back when the pool's for large messages has. */
static void trim_framer(idem_conn *conn) {
  if (!conn->pool->large_credit) idem__framer_trim(&conn->framer);
}

static idem_status may_feed(const idem_conn *conn) {
  if (IDEM__UNLIKELY(conn->depth)) return IDEM_E_STATE;
  if (IDEM__UNLIKELY(conn->failure != IDEM_OK)) return conn->failure;
  return IDEM__UNLIKELY(conn->closed || conn->eof) ? IDEM_E_CLOSED : IDEM_OK;
}

IDEM__HOT idem_status idem_conn_feed(idem_conn *conn, const char *data, size_t len) {
  idem_status status = may_feed(conn);
  if (IDEM__UNLIKELY(status != IDEM_OK)) return status;
  idem__conn_enter(conn);
  conn->active_ns = idem__conn_now_ns(conn);
  idem__metrics_add(conn->opts.metrics, IDEM__M_BYTES_IN, len);
  if (IDEM__UNLIKELY(idem__turn_waits(conn))) {
    if (!idem__turn_keep(conn, data, len)) idem__conn_fail(conn, IDEM_E_NOMEM);
    return idem__conn_leave(conn);
  }
  idem__framer_feed(&conn->framer, data, len);
  bool progress = take_frames(conn);
  if (IDEM__UNLIKELY(!idem_list_empty(&conn->held))) idem__dispatch_held(conn);
  watch_frame(conn, progress);
  trim_framer(conn);
  return idem__conn_leave(conn);
}

idem_status idem__conn_message(idem_conn *conn, const char *text, size_t len,
                               idem__message_kind *kind) {
  idem_status status = may_feed(conn);
  if (IDEM__UNLIKELY(status != IDEM_OK)) return status;
  idem__conn_enter(conn);
  conn->active_ns = idem__conn_now_ns(conn);
  conn->last_kind = IDEM__INVALID;
  conn->params_refused = false;
  if (len > conn->policy.limits.message_bytes)
    idem__refuse_frame(conn, IDEM__FRAME_OVERSIZE, len);
  else
    idem__dispatch_text(conn, text, len);
  idem__dispatch_held(conn);
  if (kind) *kind = conn->last_kind;
  return idem__conn_leave(conn);
}

IDEM__COLD static bool take_rest(idem_conn *conn) {
  idem__rest *rest = conn->rest;
  if (!rest) return false;
  if (conn->closed) idem__conn_set_refuses(conn, IDEM__UNAVAILABLE);
  if (rest->batch.batch) idem__dispatch_rest_of_batch(conn);
  if (rest->batch.batch) return false;
  if (rest->at == rest->bytes.len) {
    idem__turn_rest_taken(conn);
    return false;
  }
  size_t from = rest->at;
  rest->at = rest->bytes.len; /* unless some of it is put off again */
  idem__framer_feed(&conn->framer, rest->bytes.data + from, rest->bytes.len - from);
  bool progress = take_last_frames(conn);
  if (!rest->batch.batch && (idem_list_empty(&rest->late.link) || stopped(conn))) {
    idem__framer_feed(&conn->framer, NULL, 0);
    idem__turn_rest_taken(conn);
  }
  return progress;
}

/* What waits for a turn gets none: it is refused, as what is held is. (In a handler of its own nobody reads for it.) */
IDEM__COLD void idem__conn_refuse_rest(idem_conn *conn, idem__reason reason) {
  idem__conn_set_refuses(conn, reason);
  if (conn->depth > 1 || stopped(conn) || conn->failure != IDEM_OK) return;
  idem_list_remove(&conn->rest->late.link);
  conn->going_on = true;
  take_rest(conn);
  conn->going_on = false;
}

IDEM__COLD static void end_input(idem_conn *conn) {
  idem__framer_feed_eof(&conn->framer);
  take_last_frames(conn);
  conn->eof = true;
  conn->frame_at_ms = IDEM__NEVER;
  idem__call_close_all(conn);
  idem__dispatch_held(conn);
  if (conn->leaving) idem__conn_exit(conn);
}

idem_status idem_conn_feed_eof(idem_conn *conn) {
  idem_status status = may_feed(conn);
  if (IDEM__UNLIKELY(status != IDEM_OK)) return status;
  conn->eof_waits = idem__turn_waits(conn);
  if (conn->eof_waits) return IDEM_OK;
  idem__conn_enter(conn);
  idem__conn_now_ns(conn);
  end_input(conn);
  return idem__conn_leave(conn);
}

/* Another turn: for what waits, as far as it goes. Whoever reads for the conn looks at it again. */
IDEM__COLD void idem__conn_go_on(idem__late *late) {
  idem_conn *conn = IDEM_CONTAINER(late, idem__rest, late)->conn;
  idem__conn_enter(conn);
  idem__conn_now_ns(conn);
  conn->going_on = true;
  idem__dispatch_held(conn); /* older than the rest */
  bool over = !idem_list_empty(&conn->rest->late.link);
  bool progress = !over && take_rest(conn);
  conn->going_on = false;
  if (conn->eof_waits && !idem__turn_waits(conn) && !stopped(conn)) end_input(conn);
  if (!over) idem__dispatch_held(conn);
  watch_frame(conn, progress);
  idem__conn_end_failed(conn);
  bool gone = conn->free_later;
  idem__conn_leave(conn);
  if (!gone) idem__conn_wake(conn);
}
