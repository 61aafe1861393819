/* conn.c - one peer: a state machine that takes bytes and time and gives bytes.
 * Entry points that may run callbacks stand between enter and leave, so that a conn freed in one of
 * them goes when the outermost returns. */
#include "inside.h"

#include <string.h>

/* "Content-Length: 100\r\n\r\n": the first guess at a header's length. */
#define FIRST_HEAD 23u
#define CUT_OFF "a request was cut off by the end of its connection"

uint64_t idem__conn_now_ns(idem_conn *conn) {
  if (IDEM__LIKELY(conn->opts.now_ns != NULL))
    conn->now_ns = conn->opts.now_ns(conn->opts.clock_ctx);
  return conn->now_ns;
}

/* ------------------------------------------------------------------- making */

static idem__frame_kind frame_kind(idem_framing framing) {
  switch (framing) {
  case IDEM_FRAMING_CONTENT_LENGTH: return IDEM__FRAME_CONTENT_LENGTH;
  case IDEM_FRAMING_WHOLE: return IDEM__FRAME_WHOLE;
  case IDEM_FRAMING_LINE: break;
  }
  return IDEM__FRAME_LINE;
}

static void init_lists(idem_conn *conn) {
  idem_list_init(&conn->requests);
  idem_list_init(&conn->settled);
  idem_list_init(&conn->held);
  idem_list_init(&conn->batches);
  idem_list_init(&conn->calls);
  idem_list_init(&conn->output);
  idem_list_init(&conn->taken);
  idem_map_init(&conn->owed, &conn->alloc, conn->opts.seed);
  idem_map_init(&conn->calls_by_id, &conn->alloc, conn->opts.seed);
  idem__heap_init(&conn->request_timers, &conn->alloc);
  idem__heap_init(&conn->call_timers, &conn->alloc);
}

static void init_framer(idem_conn *conn) {
  idem__frame_opts frame = {.kind = frame_kind(conn->policy.framing),
                            .max_message = conn->policy.limits.message_bytes,
                            .max_header = conn->policy.limits.header_bytes,
                            .guard_http = conn->policy.guard_http,
                            .alloc = &conn->alloc};
  idem__framer_init(&conn->framer, &frame);
}

static idem_status get_pool(idem_conn *conn) {
  if (conn->opts.pool) {
    conn->pool = conn->opts.pool;
    idem__pool_ref(conn->pool);
  } else {
    idem_status status = idem_pool_new(&conn->alloc, &conn->pool);
    if (status != IDEM_OK) return status;
  }
  conn->number = ++conn->pool->conns;
  return IDEM_OK;
}

IDEM__EARLY idem_status idem_conn_new(const idem_conn_opts *opts, idem_conn **out) {
  if (!idem__json_self_test()) return IDEM_E_STATE;
  idem_alloc alloc = idem__alloc_or_default(opts->alloc);
  idem_conn *conn = idem__calloc(&alloc, sizeof *conn);
  if (!conn) return IDEM_E_NOMEM;
  conn->alloc = alloc;
  conn->opts = *opts;
  conn->policy = opts->policy ? *opts->policy : idem_policy_preset(IDEM_PROFILE_JSONRPC);
  conn->next_call_id = 1;
  conn->frame_at_ms = conn->leave_at_ms = IDEM__NEVER;
  conn->in_flight_max = conn->policy.limits.in_flight;
  conn->last_head = FIRST_HEAD;
  init_lists(conn);
  init_framer(conn);
  const char *peer = opts->peer ? opts->peer : "";
  conn->peer = idem__strndup(&conn->alloc, peer, strlen(peer));
  if (!conn->peer || get_pool(conn) != IDEM_OK) {
    idem__free(&alloc, conn->peer);
    idem__free(&alloc, conn);
    return IDEM_E_NOMEM;
  }
  conn->active_ns = idem__conn_now_ns(conn);
  *out = conn;
  return IDEM_OK;
}

void *idem_conn_user(const idem_conn *conn) { return conn->opts.user; }
const idem_policy *idem_conn_policy(const idem_conn *conn) { return &conn->policy; }
const char *idem_conn_peer(const idem_conn *conn) {
  return conn->peer_lent ? conn->peer_lent : conn->peer;
}
void idem__conn_set_host(idem_conn *conn, void *host) { conn->host = host; }
void *idem__conn_host(const idem_conn *conn) { return conn->host; }
void idem__conn_set_driver(idem_conn *conn, void *driver) { conn->driver = driver; }
void *idem__conn_driver(const idem_conn *conn) { return conn->driver; }
void idem__conn_set_host_data(idem_conn *conn, void *data) { conn->host_data = data; }
void *idem__conn_host_data(const idem_conn *conn) { return conn->host_data; }
void idem__conn_set_trace(idem_conn *conn,
                          void (*on_trace)(idem_conn *conn, idem_direction direction,
                                           const char *message, size_t len, void *user)) {
  conn->opts.on_trace = on_trace;
}
void idem__conn_lend_peer(idem_conn *conn, const char *peer, const void *client) {
  conn->peer_lent = peer;
  conn->client_lent = client;
}
void idem__conn_set_client(idem_conn *conn, const void *address) {
  memcpy(conn->client_address, address, IDEM__CLIENT_BYTES);
  conn->has_client_address = true;
}
const void *idem__conn_client(const idem_conn *conn) { return conn->client_lent; }
const void *idem__conn_address(const idem_conn *conn) {
  if (conn->client_lent) return conn->client_lent;
  return conn->has_client_address ? conn->client_address : NULL;
}
size_t idem_conn_in_flight(const idem_conn *conn) { return conn->in_flight; }
size_t idem_conn_pending_calls(const idem_conn *conn) { return conn->call_count; }

/* ------------------------------------------------------------------- ending */

/* The request may be freed here, and another conn may end. */
static void part(idem_conn *conn, idem_request *request) {
  idem_pool *pool = conn->pool;
  pool->parting = request;
  pool->parting_conn = conn;
  idem__request_cancel(request, IDEM_CANCEL_CLOSED);
  pool->parting = NULL;
}

/* Who guards it decides afterwards whether it goes on. */
static void tell_gone(idem_request *request) {
  if (request->id.kind == IDEM__ID_ABSENT) return;
  idem_request_log(request, &request->conn->pool->gone, IDEM_LOG_INFO,
                   request->guard ? "the peer of a request has gone" : "a request was cancelled",
                   request->guard ? "it may go on for its key" : "its peer has gone");
}

static void forget_requests(idem_conn *conn, idem_list *list) {
  while (!idem_list_empty(list)) {
    idem_request *request = IDEM_CONTAINER(list->next, idem_request, link);
    bool was_held = request->held;
    if (request->refusal) {
      idem__refusal_forget(request);
      continue;
    }
    if (!request->settled) {
      tell_gone(request);
      idem__request_forget(request);
    }
    idem_list_remove(&request->link);
    request->conn = NULL;
    if (was_held) {
      idem__request_end(request);
    } else if (!request->cancelled) {
      part(conn, request);
    }
  }
}

IDEM__COLD static void free_now(idem_conn *conn) {
  conn->closed = conn->free_later = true; /* callbacks see that it is going, */
  conn->depth++;                          /* and cannot free it again */
  idem__call_close_all(conn);
  forget_requests(conn, &conn->held);
  forget_requests(conn, &conn->requests);
  forget_requests(conn, &conn->settled);
  while (!idem_list_empty(&conn->batches)) {
    idem__batch_free(IDEM_CONTAINER(conn->batches.next, idem__batch, link));
  }
  const idem__attachment_kind *kind = conn->attachment_kind;
  if (kind && kind->free) kind->free(conn->attachment);
  idem__conn_tell_end(conn);
  idem__output_free(conn);
  idem__framer_deinit(&conn->framer);
  idem__turn_deinit(conn);
  idem_map_deinit(&conn->owed);
  idem_map_deinit(&conn->calls_by_id);
  idem__heap_deinit(&conn->request_timers);
  idem__heap_deinit(&conn->call_timers);
  idem__pool_unref(conn->pool);
  idem_alloc alloc = conn->alloc;
  idem__free(&alloc, conn->peer);
  idem__free(&alloc, conn);
}

void idem_conn_free(idem_conn *conn) {
  if (!conn) return;
  if (conn->depth)
    conn->free_later = true;
  else
    free_now(conn);
}

void idem__conn_enter(idem_conn *conn) {
  conn->depth++;
  conn->woken = false; /* whoever calls us looks for chunks afterwards */
}

idem_status idem__conn_leave(idem_conn *conn) {
  idem__conn_end_failed(conn);
  if (--conn->depth == 0 && IDEM__UNLIKELY(conn->free_later)) {
    free_now(conn);
    return IDEM_E_CLOSED;
  }
  return conn->failure;
}

void idem__conn_leave_waking(idem_conn *conn) {
  idem__conn_end_failed(conn);
  bool outermost = conn->depth == 1, gone = outermost && conn->free_later;
  idem__conn_leave(conn);
  if (!outermost || gone) return;
  if (!idem_list_empty(&conn->output) || idem_conn_done(conn)) idem__conn_wake(conn);
}

void idem__conn_fail(idem_conn *conn, idem_status status) {
  if (conn->failure != IDEM_OK) return;
  conn->failure = status;
  conn->closed = true;
  idem__conn_note(conn, IDEM_LOG_WARN, "the connection cannot go on", idem_status_text(status),
                  NULL);
  idem__conn_wake(conn);
}

void idem__conn_wake(idem_conn *conn) {
  if (conn->depth || conn->woken || !conn->opts.on_output) return;
  conn->woken = true;
  conn->opts.on_output(conn, conn->opts.user);
}

/* What no handler has seen is answered; what it would have done is not done. */
static void settle_held(idem_request *request, const idem__answer *answer) {
  if (request->refusal) {
    idem__refusal_send(request);
    return;
  }
  idem_request_log(request, NULL, IDEM_LOG_INFO, CUT_OFF, "it had not begun");
  idem__request_settle(request, answer);
  idem__request_end(request);
}

static void settle_all_held(idem_conn *conn, const idem__answer *answer) {
  while (!idem_list_empty(&conn->held))
    settle_held(IDEM_CONTAINER(conn->held.next, idem_request, link), answer);
}

static idem__answer closing_answer(const idem_conn *conn) {
  return conn->leaving ? idem__answer_invalid_request(&conn->policy, IDEM__UNAVAILABLE)
                       : idem__answer_code(IDEM_RPC_INTERNAL_ERROR);
}

void idem__conn_settle_held(idem_request *request) {
  idem__answer answer = closing_answer(request->conn);
  settle_held(request, &answer);
}

/* Answers leave in the order of their requests where one runs at a time: then what waits goes on waiting for it. */
static bool keeps_order(const idem_conn *conn) {
  return conn->policy.concurrency == 1 && conn->running;
}

void idem__conn_set_refuses(idem_conn *conn, idem__reason reason) {
  if (!conn->refuses) conn->refuses = (uint8_t)reason;
  conn->in_flight_max = 0;
}

void idem__conn_refuse_new(idem_conn *conn, idem__reason reason) {
  if (!idem__turn_waits(conn)) {
    idem__conn_set_refuses(conn, reason);
    return;
  }
  idem__conn_enter(conn);
  idem__conn_refuse_rest(conn, reason);
  idem__conn_leave(conn);
}

bool idem__conn_refuses(const idem_conn *conn) { return conn->refuses != 0; }

void idem_conn_close(idem_conn *conn) {
  if (conn->closed && idem_list_empty(&conn->calls)) return;
  idem__answer answer = closing_answer(conn);
  idem__conn_enter(conn);
  if (IDEM__UNLIKELY(idem__turn_waits(conn))) idem__conn_refuse_rest(conn, IDEM__UNAVAILABLE);
  conn->closed = true;
  idem__call_close_all(conn);
  if (!keeps_order(conn)) settle_all_held(conn, &answer);
  idem__conn_leave_waking(conn);
}

static void cut_off(idem_request *request, const idem__answer *answer) {
  idem__request_settle(request, request->cut_off ? request->cut_off(request) : answer);
  idem__request_cancel(request, IDEM_CANCEL_CLOSED);
}

/* The layer above may know better what to say; where it left the request open nobody is asked again. */
static void abort_request(idem_request *request, const idem__answer *answer, bool tell) {
  bool first = !request->aborted;
  request->aborted = true;
  if (first) idem_request_log(request, NULL, IDEM_LOG_INFO, CUT_OFF, "it had begun");
  bool (*on_abort)(idem_request *) = first && tell ? request->conn->on_abort : NULL;
  if (!on_abort || !on_abort(request)) cut_off(request, answer);
}

static void abort_with(idem_conn *conn, const idem__answer *answer, idem__reason rest, bool tell) {
  idem__conn_enter(conn);
  if (IDEM__UNLIKELY(idem__turn_waits(conn))) idem__conn_refuse_rest(conn, rest);
  conn->aborted = conn->closed = true;
  idem__call_close_all(conn);
  while (!idem_list_empty(&conn->requests))
    abort_request(IDEM_CONTAINER(conn->requests.next, idem_request, link), answer, tell);
  settle_all_held(conn, answer);
  idem__conn_leave_waking(conn);
}

void idem_conn_abort(idem_conn *conn) {
  idem__answer answer = idem__answer_code(IDEM_RPC_INTERNAL_ERROR);
  abort_with(conn, &answer, IDEM__UNAVAILABLE, true);
}

void idem__conn_orphan(idem_conn *conn) {
  idem__answer answer = idem__answer_invalid_request(&conn->policy, IDEM__UNAVAILABLE);
  conn->orphaned = true;
  abort_with(conn, &answer, IDEM__UNAVAILABLE, true);
}

void idem__conn_revoke(idem_conn *conn) {
  idem__answer answer = idem__answer_invalid_request(&conn->policy, IDEM__UNAUTHORIZED);
  abort_with(conn, &answer, IDEM__UNAUTHORIZED, false);
}

bool idem__conn_reusable(const idem_conn *conn) {
  return conn->failure == IDEM_OK && !conn->closed && !conn->leaving && !conn->refuses &&
         !conn->eof && !conn->depth && idem__conn_idle(conn) && idem_list_empty(&conn->requests) &&
         idem_list_empty(&conn->settled);
}

bool idem_conn_done(const idem_conn *conn) {
  if (conn->failure != IDEM_OK) return true;
  return (conn->eof || conn->closed) && conn->in_flight == 0 && idem_list_empty(&conn->held) &&
         idem_list_empty(&conn->output);
}

void idem__conn_exit(idem_conn *conn) {
  if (conn->left) return;
  conn->left = true;
  conn->leave_at_ms = IDEM__NEVER;
  idem_conn_close(conn);
  if (conn->opts.on_shutdown) conn->opts.on_shutdown(conn, conn->opts.user);
}

/* Whoever asked may still say goodbye: many clients do, and take a closed conn for a crash. */
void idem__conn_shutdown_asked(idem_conn *conn) {
  uint64_t allowed = conn->policy.limits.exit_ms;
  if (conn->leaving) return;
  conn->leaving = true;
  conn->in_flight_max = 0;
  if (allowed) conn->leave_at_ms = idem__conn_clock_ms(conn) + allowed;
  if (conn->eof) idem__conn_exit(conn);
}
