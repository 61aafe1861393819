/* serving.c - one POST while the engine answers it: its answer, its time, its waiting, and going on without its peer.
 * An answer keeps its HTTP status as long as it can: only a notification, or time, turns it into an event stream.
 * See docs/internals/http.md. */
#include "endpoint.h"

/* ----------------------------------------------------------------- statuses */

uint16_t idem__http_status_for(const idem__http_rules *rules, idem_outgoing what) {
  if (what.kind != IDEM_OUTGOING_ERROR) return 200;
  for (size_t i = 0; i < rules->code_count; i++)
    if (rules->codes[i].code == what.code) return rules->codes[i].status;
  return what.code == IDEM_RPC_PARSE_ERROR || what.code == IDEM_RPC_INVALID_REQUEST ? 400 : 200;
}

/* ------------------------------------------------------------------- answers */

#define LINES_ROOM 8192 /* of headers that the protocol adds, a challenge included */

static void answer_headers(const idem__http_serving *serving, bool limited, idem_buf *out) {
  const idem__http_rules *rules = idem__http_rpc_rules(serving->rpc);
  if (limited) idem_buf_printf(out, "Retry-After: %u\r\n", (unsigned)serving->retry_s);
  if (serving->refused) idem_buf_puts(out, "Retry-After: 1\r\n");
  if (rules->add_headers) rules->add_headers(serving->exchange, out, rules->user);
  if (idem__http_protocol_of(serving)->headers)
    idem__http_protocol_of(serving)->headers(((idem__http_serving *)(uintptr_t)serving)->state,
                                             out);
}

static void respond(idem__http_serving *serving, uint16_t status, idem_chunk *chunk) {
  char text[LINES_ROOM];
  idem_buf lines;
  bool limited = serving->limited && !serving->admitted;
  idem_buf_fixed(&lines, text, sizeof text - 1);
  answer_headers(serving, limited, &lines);
  text[lines.len] = 0;
  idem__http_respond(serving->exchange,
                     &(idem__http_answer){.status = limited ? 429 : status,
                                          .type = chunk ? "application/json" : NULL,
                                          .headers = lines.len ? text : NULL,
                                          .chunk = chunk});
  idem__http_serving_retire(serving);
}

static uint16_t status_of(const idem__http_serving *serving, const idem_chunk *chunk) {
  uint16_t status = idem__http_status_for(idem__http_rpc_rules(serving->rpc), chunk->what);
  if (serving->refused) return idem__http_going.status;
  if (idem__http_protocol_of(serving)->status)
    status = idem__http_protocol_of(serving)->status((void *)(uintptr_t)serving->state, status);
  return status;
}

static void finish(idem__http_serving *serving, idem_chunk *chunk) {
  respond(serving, status_of(serving, chunk), chunk);
}

/* Nothing is owed: a notification, a response, or a request cancelled without an answer. */
void idem__http_serving_finish_silent(idem__http_serving *serving, idem__message_kind kind) {
  const idem__http_rules *rules = idem__http_rpc_rules(serving->rpc);
  uint16_t status = kind == IDEM__RESPONSE ? rules->response_status : rules->notification_status;
  if (kind == IDEM__NOTIFICATION && serving->rpc->policy.notification_status)
    status = (uint16_t)serving->rpc->policy.notification_status;
  if (idem__http_protocol_of(serving)->silent_status)
    status = idem__http_protocol_of(serving)->silent_status(serving->state, kind);
  if (serving->streaming) {
    idem__http_stream_end(serving->exchange);
    idem__http_serving_retire(serving);
  } else if (status >= 400 && !serving->limited) {
    idem_http_exchange *exchange = serving->exchange;
    idem__http_refusal refusal = {.status = status};
    if (idem__http_protocol_of(serving)->silent_refusal)
      idem__http_protocol_of(serving)->silent_refusal(serving->state, kind, &refusal);
    idem__http_serving_retire(serving);
    idem__http_refuse(exchange, &refusal, NULL);
  } else {
    respond(serving, status ? status : 204, NULL);
  }
}

/* Ours to answer for, whatever it was. */
void idem__http_serving_finish_failed(idem__http_serving *serving, idem_status status) {
  idem_http_exchange *exchange = serving->exchange;
  bool streaming = serving->streaming;
  idem__http_refusal refusal = {
      .status = 500, .code = IDEM_RPC_INTERNAL_ERROR, .why = idem_status_text(status)};
  idem__http_serving_retire(serving);
  if (streaming)
    idem__http_stream_end(exchange);
  else
    idem__http_refuse(exchange, &refusal, NULL);
}

static void on_room(void *user) { idem__http_serving_look(user); }

/* A stream waits for a slow reader; a single answer does not, it is the last the peer gets until it
 * has read. */
static bool may_take(idem__http_serving *serving) {
  if (!serving->streaming || !serving->exchange) return true;
  return idem__http_conn_has_room(idem__http_exchange_conn(serving->exchange), on_room, serving);
}

/* What is no answer can only travel on a stream; so does everything once there is one, and what is kept for
 * whoever comes back. */
static bool travels(const idem__http_serving *serving, bool answer) {
  if (!serving->exchange) return serving->detached;
  return serving->streaming || (!answer && serving->accepts_stream);
}

/* Who takes event streams alone gets one; what is refused keeps its status. */
static bool wants_event(const idem__http_serving *serving, const idem_chunk *chunk) {
  return serving->exchange && serving->stream_only && status_of(serving, chunk) == 200;
}

/* False: the call is over. */
static bool take_chunk(idem__http_serving *serving, idem_chunk *chunk) {
  bool answer = chunk->what.kind < IDEM_OUTGOING_CALL;
  if (travels(serving, answer) || wants_event(serving, chunk)) {
    return idem__http_serving_event(serving, chunk);
  }
  if (serving->exchange && answer) {
    finish(serving, chunk);
    return false;
  }
  idem_chunk_free(chunk);
  return true;
}

/* Moves what the engine has said to the peer, one message after the other. */
void idem__http_serving_pump(idem__http_serving *serving) {
  idem_chunk chunk;
  while (!serving->writing && may_take(serving) && idem_conn_next_chunk(serving->conn, &chunk)) {
    if (!take_chunk(serving, &chunk)) return;
  }
}

/* --------------------------------------------------------------------- time */

static void set_time(idem__http_serving *serving) {
  uint64_t at = idem_conn_deadline(serving->conn);
  if (serving->accepts_stream && serving->stream_at_ms < at) at = serving->stream_at_ms;
  idem__http_set_time(serving->exchange, at);
}

/* There is room, or output: what the engine held back may go on, which its deadline says. */
void idem__http_serving_look(idem__http_serving *serving) {
  idem__http_serving_pump(serving);
  if (serving->exchange) set_time(serving);
}

/* It becomes a stream, or shows that it is there. A head that is not known yet is looked at again. */
static void show_life(idem__http_serving *serving, uint64_t now_ms) {
  const idem__http_protocol *protocol = idem__http_protocol_of(serving);
  if (serving->streaming)
    idem__http_serving_comment(serving);
  else if (protocol->headers_wait && protocol->headers_wait(serving->state))
    serving->stream_at_ms = now_ms + serving->rpc->opts.stream_ms;
  else
    idem__http_serving_commit(serving);
}

static void on_time(idem_http_exchange *exchange, uint64_t now_ms, void *user) {
  idem__http_serving *serving = user;
  (void)exchange;
  if (idem_conn_deadline(serving->conn) <= now_ms) {
    idem_status status = idem_conn_expire(serving->conn);
    if (status != IDEM_OK) {
      idem__http_serving_finish_failed(serving, status);
      return;
    }
    idem__http_serving_pump(serving);
    if (!serving->exchange) return;
  }
  if (serving->accepts_stream && serving->stream_at_ms <= now_ms) show_life(serving, now_ms);
  set_time(serving);
}

static void on_abort(idem_http_exchange *exchange, void *user) {
  idem__http_serving *serving = user;
  (void)exchange;
  bool outlives = idem__http_rpc_rules(serving->rpc)->outlives_peer;
  if (idem__http_protocol_of(serving)->outlives)
    outlives = idem__http_protocol_of(serving)->outlives(serving->state);
  if (outlives) { /* runs on; its answer goes nowhere */
    idem__http_serving_leave_exchange(serving);
    return;
  }
  serving->exchange = NULL;
  idem__http_serving_detach(serving, false);
  idem_list_remove(&serving->link);
  idem__http_serving_free(serving);
}

/* Who only ended its input still reads. Whether it does shows only when something is sent: one that
 * has gone answers a comment with a reset. */
static bool on_input_end(idem_http_exchange *exchange, void *user) {
  idem__http_serving *serving = user;
  (void)exchange;
  bool cancels = idem__http_rpc_rules(serving->rpc)->disconnect_cancels;
  if (idem__http_protocol_of(serving)->input_end_cancels)
    cancels = idem__http_protocol_of(serving)->input_end_cancels(serving->state);
  if (cancels || !serving->streaming) return cancels;
  idem__http_serving_comment(serving);
  set_time(serving);
  return false;
}

/* Who can come back for the rest does so with another token; else what it asked is over. */
static void end_unauthorized(idem__http_serving *serving) {
  const idem__http_protocol *protocol = idem__http_protocol_of(serving);
  if (protocol->unauthorized && protocol->unauthorized(serving->state)) return;
  if (serving->exchange) idem__conn_revoke(serving->conn);
}

/* The server is going: there is time for the answer, or there is not. */
static void on_stop(void *user, idem__http_stop how) {
  idem__http_serving *serving = user;
  if (how == IDEM__HTTP_STOP_SOON) return;
  if (how == IDEM__HTTP_STOP_UNAUTHORIZED)
    end_unauthorized(serving);
  else
    idem_conn_abort(serving->conn);
  idem__http_serving_pump(serving);
}

void idem__http_serving_wait(idem__http_serving *serving) {
  idem__http_conn_on_stop(idem__http_exchange_conn(serving->exchange), on_stop, serving);
  serving->stream_at_ms = idem__http_exchange_now(serving->exchange) + serving->rpc->opts.stream_ms;
  idem__http_exchange_set_user(serving->exchange, serving);
  idem__http_on_abort(serving->exchange, on_abort, serving);
  idem__http_on_input_end(serving->exchange, on_input_end);
  idem__http_on_time(serving->exchange, UINT64_MAX, on_time);
  set_time(serving);
}

/* ------------------------------------------------------- waiting to begin */

const idem__http_refusal idem__http_no_memory = {
    .status = 503, .reason = "unavailable", .why = "no memory"};
const idem__http_refusal idem__http_going = {
    .status = 503, .reason = "unavailable", .why = "the server is going"};

void idem__http_serving_refuse(idem__http_serving *serving, const idem__http_refusal *refusal) {
  idem_http_exchange *exchange = serving->exchange;
  idem__http_serving_retire(serving);
  idem__http_refuse(exchange, refusal, NULL);
}

static void on_abort_waiting(idem_http_exchange *exchange, void *user) {
  (void)exchange;
  idem__http_serving_retire(user);
}

/* What waits to begin is taken in all the same, to be refused with its id. */
static void on_stop_waiting(void *user, idem__http_stop how) {
  idem__http_serving *serving = user;
  if (how != IDEM__HTTP_STOP_NOW) return;
  if (serving->acknowledging) {
    idem__http_serving_refuse(serving, &idem__http_going);
  } else if (!idem_list_empty(&serving->late.link)) {
    idem__http_serving_refuse_late(serving);
  } else {
    idem__http_protocol_of(serving)->give_up(serving->state);
    idem__http_serving_begin_at_once(serving);
  }
}

/* What it waits for has its own bounds in time. */
static void wait_for_protocol(idem__http_serving *serving) {
  idem_http_exchange *exchange = serving->exchange;
  idem__http_exchange_set_user(exchange, serving);
  idem__http_on_abort(exchange, on_abort_waiting, serving);
  idem__http_on_input_end(exchange, on_input_end);
  idem__http_conn_on_stop(idem__http_exchange_conn(exchange), on_stop_waiting, serving);
}

void idem__http_serving_wait_for_turn(idem__http_serving *serving) { wait_for_protocol(serving); }

bool idem__http_serving_wait_to_begin(idem__http_serving *serving,
                                      const idem_http_request *request) {
  if (idem__http_hold(serving->exchange, request) != IDEM_OK) {
    idem__http_protocol_of(serving)->give_up(serving->state);
    return false;
  }
  wait_for_protocol(serving);
  return true;
}

void idem__http_serving_acknowledge(idem__http_serving *serving, idem__message_kind kind) {
  const idem__http_protocol *protocol = idem__http_protocol_of(serving);
  serving->acknowledging = protocol->silent_waits && protocol->silent_waits(serving->state);
  serving->silent_kind = kind;
  if (serving->acknowledging)
    wait_for_protocol(serving);
  else
    idem__http_serving_finish_silent(serving, kind);
}

void idem__http_serving_heard(void *protocol) {
  idem__http_serving *serving = IDEM_CONTAINER(protocol, idem__http_serving, state);
  if (!serving->acknowledging) return; /* its message is being taken in, or has an answer */
  idem_http_conn *conn = idem__http_exchange_conn(serving->exchange);
  idem__http_serving_finish_silent(serving, serving->silent_kind);
  idem__http_conn_notify(conn);
}

void idem__http_serving_leave(void *protocol) {
  idem__http_serving *serving = IDEM_CONTAINER(protocol, idem__http_serving, state);
  idem_http_exchange *exchange = serving->exchange;
  if (!exchange || !serving->accepts_stream) return;
  idem__http_serving_commit(serving);
  serving->leaving = serving->writing; /* whoever is to come back needs what is being written */
  if (serving->leaving) return;
  idem__http_serving_leave_exchange(serving);
  idem__http_stream_end(exchange);
}

void idem__http_serving_cancelled(void *protocol) {
  idem__http_serving *serving = IDEM_CONTAINER(protocol, idem__http_serving, state);
  serving->cancelled = serving->writing; /* then this is looked at again */
  if (!serving->begun || idem_conn_in_flight(serving->conn) || idem_conn_queued(serving->conn))
    return;
  if (serving->exchange) {
    idem__http_serving_commit_empty(serving); /* it was a request */
    serving->cancelled = serving->writing;
    if (!serving->cancelled) idem__http_serving_finish_silent(serving, IDEM__NOTIFICATION);
  } else if (serving->detached) {
    idem__http_serving_retire(serving);
  }
}

void idem__http_serving_finish_cancelled(idem__http_serving *serving) {
  const idem__http_protocol *protocol = idem__http_protocol_of(serving);
  if (protocol->cancelled) protocol->cancelled(serving->state);
  idem__http_serving_wait(serving);
  idem__http_serving_cancelled(serving->state);
}

bool idem__http_serving_streams(void *protocol) {
  const idem__http_serving *serving = IDEM_CONTAINER(protocol, idem__http_serving, state);
  return serving->exchange ? serving->accepts_stream : serving->streaming;
}

/* -------------------------------------------------- servings without a connection */

#define TEND_MS 1000u

uint64_t idem__http_rpc_deadline(const idem__http_rpc *rpc) {
  return rpc->detached_count ? rpc->tended_ms + TEND_MS : UINT64_MAX;
}

bool idem__http_rpc_works_on(const idem__http_rpc *rpc) { return rpc->detached_count > 0; }

/* Nobody is there to read its answers; they are kept for one who may come back, or go nowhere. */
static void settle_detached(idem__http_serving *serving) {
  idem__http_serving_pump(serving);
  if (serving->detached)
    idem__http_serving_cancelled(serving->state); /* where there is no answer */
}

static void tend(idem__http_serving *serving, uint64_t now_ms) {
  const idem__http_protocol *protocol = idem__http_protocol_of(serving);
  bool taken =
      serving->begun && idem_list_empty(&serving->late.link); /* else it is told so in its turn */
  bool orphaned = taken && protocol->orphaned && protocol->orphaned(serving->state);
  if (orphaned && !idem__conn_aborted(serving->conn)) {
    idem__conn_orphan(serving->conn); /* answers, tells the handlers; may retire the serving */
    if (serving->detached) settle_detached(serving);
  } else if (serving->detached && idem_conn_deadline(serving->conn) <= now_ms) {
    if (idem_conn_expire(serving->conn) == IDEM_OK)
      settle_detached(serving);
    else
      idem__http_serving_retire(serving);
  }
}

/* Handlers that are told may end other servings: each waits for its turn in a list of its own. */
void idem__http_rpc_tend(idem__http_rpc *rpc, uint64_t now_ms) {
  idem_list looked_at;
  idem_list_init(&looked_at);
  rpc->tended_ms = now_ms;
  while (!idem_list_empty(&rpc->active)) {
    idem__http_serving *serving = IDEM_CONTAINER(rpc->active.next, idem__http_serving, link);
    idem_list_remove(&serving->link);
    idem_list_append(&looked_at, &serving->link);
    tend(serving, now_ms);
  }
  while (!idem_list_empty(&looked_at)) {
    idem_list *link = looked_at.next;
    idem_list_remove(link);
    idem_list_append(&rpc->active, link);
  }
}

idem_http_exchange *idem__http_serving_exchange(void *protocol) {
  return IDEM_CONTAINER(protocol, idem__http_serving, state)->exchange;
}
