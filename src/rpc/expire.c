/* expire.c - time: when a conn wants to be looked at again, and what is over then. */
#include "inside.h"

static uint64_t idle_at(const idem_conn *conn) {
  uint64_t allowed = conn->policy.limits.idle_ms;
  return allowed && !conn->eof && idem__conn_idle(conn) ? conn->active_ns / 1000000u + allowed
                                                        : IDEM__NEVER;
}

static uint64_t earlier(uint64_t a, const idem__timer *timer) {
  return timer && timer->at_ms < a ? timer->at_ms : a;
}

IDEM__EARLY uint64_t idem_conn_deadline(const idem_conn *conn) {
  if (conn->failure != IDEM_OK) return idem_list_empty(&conn->calls) ? IDEM__NEVER : 0;
  if (idem__dispatch_ready(conn)) return 0;
  uint64_t at = conn->closed ? IDEM__NEVER : idle_at(conn);
  if (conn->frame_at_ms < at) at = conn->frame_at_ms;
  if (conn->leave_at_ms < at) at = conn->leave_at_ms;
  at = earlier(at, idem__heap_first(&conn->request_timers));
  at = earlier(at, idem__heap_first(&conn->call_timers));
  if (IDEM__LIKELY(!conn->layer) || !conn->layer->deadline) return at;
  uint64_t layer_at = conn->layer->deadline(conn);
  return layer_at < at ? layer_at : at;
}

static void expire_requests(idem_conn *conn, uint64_t now_ms) {
  for (;;) {
    idem__timer *timer = idem__heap_first(&conn->request_timers);
    if (!timer || timer->at_ms > now_ms) return;
    idem_request *request = IDEM_CONTAINER(timer, idem_request, timer);
    idem__answer answer = idem__answer_timed_out(request->codes);
    bool was_held = request->held;
    idem_request_log(request, NULL, IDEM_LOG_WARN, "a request ran out of time", NULL);
    idem__request_settle(request, &answer);
    idem__request_cancel(request, IDEM_CANCEL_DEADLINE);
    if (was_held) idem__request_end(request);
  }
}

static void expire_frame(idem_conn *conn, uint64_t now_ms) {
  if (conn->frame_at_ms > now_ms) return;
  conn->frame_at_ms = IDEM__NEVER;
  idem__conn_warn(conn, "a frame did not arrive in time and was dropped", NULL, 0, NULL);
  idem__framer_reset(&conn->framer);
}

static void expire_goodbye(idem_conn *conn, uint64_t now_ms) {
  if (conn->leave_at_ms > now_ms) return;
  idem__conn_note(conn, IDEM_LOG_INFO, "closing a connection that did not exit after shutdown",
                  NULL, NULL);
  idem__conn_exit(conn);
}

static void expire_idle(idem_conn *conn, uint64_t now_ms) {
  if (conn->closed || idle_at(conn) > now_ms) return;
  idem__conn_note(conn, IDEM_LOG_INFO, "closing an idle connection", NULL, NULL);
  idem_conn_close(conn);
}

idem_status idem_conn_expire(idem_conn *conn) {
  if (conn->depth) return IDEM_E_STATE;
  idem__conn_enter(conn);
  if (conn->failure != IDEM_OK) return idem__conn_leave(conn);
  idem__conn_now_ns(conn);
  uint64_t now_ms = idem__conn_clock_ms(conn);
  expire_requests(conn, now_ms);
  idem__call_expire(conn, now_ms);
  if (conn->layer && conn->layer->expire) conn->layer->expire(conn, now_ms);
  expire_frame(conn, now_ms);
  expire_goodbye(conn, now_ms);
  expire_idle(conn, now_ms);
  idem__dispatch_held(conn);
  return idem__conn_leave(conn);
}
