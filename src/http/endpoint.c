/* endpoint.c - POST a JSON-RPC message, get its answer.
 * Each request is a short serving to a pooled conn of the engine. An answer keeps its HTTP status as
 * long as it can: only a notification, or time, turns it into an event stream.
 * See docs/internals/http.md. */
#include "endpoint.h"

#include <string.h>

#define IDLE_SERVINGS 64

const idem__http_rules idem__http_rules_jsonrpc = {.event_streams = true};

/* ----------------------------------------------------------------- statuses */

uint16_t idem__http_status_for(const idem__http_rules *rules, idem_outgoing what) {
  if (what.kind != IDEM_OUTGOING_ERROR) return 200;
  for (size_t i = 0; i < rules->code_count; i++)
    if (rules->codes[i].code == what.code) return rules->codes[i].status;
  return what.code == IDEM_RPC_PARSE_ERROR || what.code == IDEM_RPC_INVALID_REQUEST ? 400 : 200;
}

/* -------------------------------------------------------------------- calls */

_Static_assert(sizeof(idem__ip) == IDEM__CLIENT_BYTES, "an address tells clients apart");

idem_status idem__http_rpc_conn(idem__http_rpc *rpc, void *user,
                                void (*on_output)(idem_conn *conn, void *user),
                                bool (*admit)(idem_conn *conn, void *user), const char *peer,
                                idem_conn **out) {
  idem_conn_opts opts = {.router = rpc->opts.router,
                         .policy = &rpc->policy,
                         .alloc = &rpc->alloc,
                         .pool = rpc->pool,
                         .now_ns = rpc->opts.now_ns,
                         .clock_ctx = rpc->opts.clock_ctx,
                         .on_output = on_output,
                         .admit = rpc->opts.limiter ? admit : NULL,
                         .user = user,
                         .log = rpc->opts.log,
                         .metrics = rpc->opts.metrics,
                         .peer = peer,
                         .seed = rpc->opts.seed};
  /* A conn that keeps its peer for life is a WebSocket's; the others are lent to servings. */
  bool lasting = peer && rpc->opts.accept;
  idem_status status =
      lasting ? rpc->opts.accept(rpc->opts.protocol_user, &opts, out) : idem_conn_new(&opts, out);
  if (status == IDEM_OK) idem__conn_set_host(*out, rpc->opts.host);
  return status;
}

const idem__http_protocol *idem__http_protocol_of(const idem__http_serving *serving) {
  static const idem__http_protocol none;
  return serving->rpc->opts.protocol ? serving->rpc->opts.protocol : &none;
}

static void end_protocol(idem__http_serving *serving) {
  if (serving->begun && idem__http_protocol_of(serving)->end)
    idem__http_protocol_of(serving)->end(serving->state);
  serving->begun = false;
}

static void set_detached(idem__http_serving *serving, bool detached) {
  if (serving->detached == detached) return;
  serving->detached = detached;
  serving->rpc->detached_count += detached ? 1 : -(size_t)1;
  if (idem__http_protocol_of(serving)->detached)
    idem__http_protocol_of(serving)->detached(serving->state, detached);
}

/* A message of the engine's that could not be written yet. */
static void drop_chunk(idem__http_serving *serving) {
  if (serving->in_hand) idem_chunk_free(&serving->chunk);
  serving->in_hand = serving->writing = serving->beginning = false;
  serving->leaving = serving->cancelled = false;
}

/* The end of the conn tells handlers: what they look at, and that is the protocol's, goes after it. */
static void free_serving(idem__http_serving *serving) {
  drop_chunk(serving);
  idem_conn_free(serving->conn);
  set_detached(serving, false);
  end_protocol(serving);
  if (idem__http_protocol_of(serving)->close)
    idem__http_protocol_of(serving)->close(serving->state);
  idem__free(&serving->rpc->alloc, serving);
}

/* The call is over. Its conn may be on the stack (a reply is being sent), so whether it can be
 * used again is decided when it is wanted. */
void idem__http_serving_retire(idem__http_serving *serving) {
  idem__http_rpc *rpc = serving->rpc;
  drop_chunk(serving);
  set_detached(serving, false);
  end_protocol(serving);
  serving->exchange = NULL;
  idem__conn_lend_peer(serving->conn, NULL, NULL);
  idem__list_remove(&serving->link);
  serving->next = rpc->idle;
  rpc->idle = serving;
  rpc->idle_count++;
}

static idem__http_serving *pop_idle(idem__http_rpc *rpc) {
  idem__http_serving *serving = rpc->idle;
  rpc->idle = serving->next;
  rpc->idle_count--;
  return serving;
}

static void pump(idem__http_serving *serving);
static void set_time(idem__http_serving *serving);

/* There is room, or output: what the engine held back may go on, which its deadline says. */
void idem__http_serving_look(idem__http_serving *serving) {
  pump(serving);
  if (serving->exchange) set_time(serving);
}

static void on_output(idem_conn *conn, void *user) {
  idem__http_serving *serving = user;
  idem_http_conn *http = serving->exchange ? idem__http_exchange_conn(serving->exchange) : NULL;
  (void)conn;
  idem__http_serving_look(serving);
  if (http) idem__http_conn_notify(http);
}

static bool on_admit(idem_conn *conn, void *user) {
  idem__http_serving *serving = user;
  (void)conn;
  if (!serving->exchange) return true;
  bool admitted =
      idem__limiter_take(serving->rpc->opts.limiter, idem__http_exchange_client(serving->exchange),
                         idem__http_exchange_now(serving->exchange), &serving->retry_s);
  if (admitted)
    serving->admitted = true;
  else
    serving->limited = true;
  return admitted;
}

static const idem__http_rules *rules_of(const idem__http_rpc *rpc) {
  return rpc->opts.rules ? rpc->opts.rules : &idem__http_rules_jsonrpc;
}

static void on_heard(idem_conn *conn, const idem__message *message) {
  const idem__http_serving *serving = idem_conn_user(conn);
  if (serving->exchange)
    idem__http_log_message(serving->exchange, message, rules_of(serving->rpc)->subjects);
}

static idem__http_serving *new_serving(idem__http_rpc *rpc) {
  const idem__http_protocol *protocol = rpc->opts.protocol;
  idem__http_serving *serving =
      idem__calloc(&rpc->alloc, sizeof *serving + (protocol ? protocol->size : 0));
  if (!serving) return NULL;
  serving->rpc = rpc;
  idem__list_init(&serving->link);
  idem_status status = idem__http_rpc_conn(rpc, serving, on_output, on_admit, NULL, &serving->conn);
  if (status == IDEM_OK && protocol && protocol->open) {
    status = protocol->open(serving->state, serving->conn, rpc->opts.protocol_user);
    if (status != IDEM_OK) idem_conn_free(serving->conn);
  }
  if (status == IDEM_OK) {
    idem__conn_set_heard(serving->conn, on_heard);
    return serving;
  }
  idem__free(&rpc->alloc, serving);
  return NULL;
}

static idem__http_serving *take_serving(idem__http_rpc *rpc) {
  while (rpc->idle_count > IDLE_SERVINGS) free_serving(pop_idle(rpc));
  while (rpc->idle) {
    idem__http_serving *serving = pop_idle(rpc);
    if (idem__conn_reusable(serving->conn)) return serving;
    free_serving(serving);
  }
  return new_serving(rpc);
}

/* ------------------------------------------------------------------- answers */

static void answer_headers(const idem__http_serving *serving, bool limited, idem__buf *out) {
  const idem__http_rules *rules = rules_of(serving->rpc);
  if (limited) idem__buf_printf(out, "Retry-After: %u\r\n", (unsigned)serving->retry_s);
  if (rules->add_headers) rules->add_headers(serving->exchange, out, rules->user);
  if (idem__http_protocol_of(serving)->headers)
    idem__http_protocol_of(serving)->headers(((idem__http_serving *)(uintptr_t)serving)->state,
                                             out);
}

static void respond(idem__http_serving *serving, uint16_t status, idem_chunk *chunk) {
  char text[1024];
  idem__buf lines;
  bool limited = serving->limited && !serving->admitted;
  idem__buf_fixed(&lines, text, sizeof text - 1);
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
  uint16_t status = idem__http_status_for(rules_of(serving->rpc), chunk->what);
  if (idem__http_protocol_of(serving)->status)
    status = idem__http_protocol_of(serving)->status((void *)(uintptr_t)serving->state, status);
  return status;
}

static void finish(idem__http_serving *serving, idem_chunk *chunk) {
  respond(serving, status_of(serving, chunk), chunk);
}

/* Nothing is owed: a notification, a response, or a request cancelled without an answer. */
static void finish_silent(idem__http_serving *serving, idem__message_kind kind) {
  const idem__http_rules *rules = rules_of(serving->rpc);
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
static void finish_failed(idem__http_serving *serving, idem_status status) {
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
static void pump(idem__http_serving *serving) {
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

static void on_time(idem_http_exchange *exchange, uint64_t now_ms, void *user) {
  idem__http_serving *serving = user;
  (void)exchange;
  if (idem_conn_deadline(serving->conn) <= now_ms) {
    idem_status status = idem_conn_expire(serving->conn);
    if (status != IDEM_OK) {
      finish_failed(serving, status);
      return;
    }
    pump(serving);
    if (!serving->exchange) return;
  }
  if (serving->accepts_stream && serving->stream_at_ms <= now_ms) {
    if (serving->streaming)
      idem__http_serving_comment(serving);
    else
      idem__http_serving_commit(serving);
  }
  set_time(serving);
}

static void on_abort(idem_http_exchange *exchange, void *user) {
  idem__http_serving *serving = user;
  (void)exchange;
  serving->exchange = NULL;
  idem__conn_lend_peer(serving->conn, NULL, NULL);
  bool outlives = rules_of(serving->rpc)->outlives_peer;
  if (idem__http_protocol_of(serving)->outlives)
    outlives = idem__http_protocol_of(serving)->outlives(serving->state);
  set_detached(serving, outlives);
  if (outlives) return; /* runs on; its answer goes nowhere */
  idem__list_remove(&serving->link);
  free_serving(serving);
}

/* Who only ended its input still reads. Whether it does shows only when something is sent: one that
 * has gone answers a comment with a reset. */
static bool on_input_end(idem_http_exchange *exchange, void *user) {
  idem__http_serving *serving = user;
  (void)exchange;
  bool cancels = rules_of(serving->rpc)->disconnect_cancels;
  if (idem__http_protocol_of(serving)->input_end_cancels)
    cancels = idem__http_protocol_of(serving)->input_end_cancels(serving->state);
  if (cancels || !serving->streaming) return cancels;
  idem__http_serving_comment(serving);
  set_time(serving);
  return false;
}

/* The server is going: there is time for the answer, or there is not. */
static void on_stop(void *user, bool now) {
  idem__http_serving *serving = user;
  if (!now) return;
  idem_conn_abort(serving->conn);
  pump(serving);
}

static void wait_for_answer(idem__http_serving *serving) {
  idem__http_conn_on_stop(idem__http_exchange_conn(serving->exchange), on_stop, serving);
  serving->stream_at_ms = idem__http_exchange_now(serving->exchange) + serving->rpc->opts.stream_ms;
  idem__http_exchange_set_user(serving->exchange, serving);
  idem__http_on_abort(serving->exchange, on_abort, serving);
  idem__http_on_input_end(serving->exchange, on_input_end);
  idem__http_on_time(serving->exchange, UINT64_MAX, on_time);
  set_time(serving);
}

/* ------------------------------------------------------- waiting to begin */

static const idem__http_refusal no_memory = {
    .status = 503, .reason = "unavailable", .why = "no memory"};

static void refuse_waiting(idem__http_serving *serving, const idem__http_refusal *refusal) {
  idem_http_exchange *exchange = serving->exchange;
  idem__http_serving_retire(serving);
  idem__http_refuse(exchange, refusal, NULL);
}

static void on_abort_waiting(idem_http_exchange *exchange, void *user) {
  (void)exchange;
  idem__http_serving_retire(user);
}

static void on_stop_waiting(void *user, bool now) {
  static const idem__http_refusal going = {
      .status = 503, .reason = "unavailable", .why = "the server is going"};
  if (now) refuse_waiting(user, &going);
}

/* What it waits for has its own bounds in time. */
static void wait_to_begin(idem__http_serving *serving, const idem_http_request *request) {
  static const idem__http_refusal too_many = {
      .status = 503, .reason = "unavailable", .why = "too many requests wait"};
  idem_http_exchange *exchange = serving->exchange;
  idem_status status = idem__http_hold(exchange, request);
  if (status != IDEM_OK) {
    refuse_waiting(serving, status == IDEM_E_LIMIT ? &too_many : &no_memory);
    return;
  }
  idem__http_exchange_set_user(exchange, serving);
  idem__http_on_abort(exchange, on_abort_waiting, serving);
  idem__http_on_input_end(exchange, on_input_end);
  idem__http_conn_on_stop(idem__http_exchange_conn(exchange), on_stop_waiting, serving);
}

void idem__http_serving_leave(void *protocol) {
  idem__http_serving *serving = IDEM__CONTAINER(protocol, idem__http_serving, state);
  idem_http_exchange *exchange = serving->exchange;
  if (!exchange || !serving->accepts_stream) return;
  idem__http_serving_commit(serving);
  serving->leaving = serving->writing; /* whoever is to come back needs what is being written */
  if (serving->leaving) return;
  serving->exchange = NULL;
  set_detached(serving, true);
  idem__conn_lend_peer(serving->conn, NULL, NULL);
  idem__http_stream_end(exchange);
}

void idem__http_serving_cancelled(void *protocol) {
  idem__http_serving *serving = IDEM__CONTAINER(protocol, idem__http_serving, state);
  serving->cancelled = serving->writing; /* then this is looked at again */
  if (!serving->begun || idem_conn_in_flight(serving->conn) || idem_conn_queued(serving->conn))
    return;
  if (serving->exchange) {
    if (serving->accepts_stream) idem__http_serving_commit(serving); /* empty: it was a request */
    serving->cancelled = serving->writing;
    if (!serving->cancelled) finish_silent(serving, IDEM__NOTIFICATION);
  } else if (serving->detached) {
    idem__http_serving_retire(serving);
  }
}

bool idem__http_serving_streams(void *protocol) {
  const idem__http_serving *serving = IDEM__CONTAINER(protocol, idem__http_serving, state);
  return serving->exchange ? serving->accepts_stream : serving->streaming;
}

/* -------------------------------------------------- servings without a connection */

#define TEND_MS 1000u

uint64_t idem__http_rpc_deadline(const idem__http_rpc *rpc) {
  return rpc->detached_count ? rpc->tended_ms + TEND_MS : UINT64_MAX;
}

/* Nobody is there to read its answers; they are kept for one who may come back, or go nowhere. */
static void settle_detached(idem__http_serving *serving) {
  pump(serving);
  if (serving->detached)
    idem__http_serving_cancelled(serving->state); /* where there is no answer */
}

static void tend(idem__http_serving *serving, uint64_t now_ms) {
  const idem__http_protocol *protocol = idem__http_protocol_of(serving);
  bool orphaned = serving->begun && protocol->orphaned && protocol->orphaned(serving->state);
  if (orphaned && !idem__conn_aborted(serving->conn)) {
    idem_conn_abort(serving->conn); /* answers, tells the handlers; may retire the serving */
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
  idem__list looked_at;
  idem__list_init(&looked_at);
  rpc->tended_ms = now_ms;
  while (!idem__list_empty(&rpc->active)) {
    idem__http_serving *serving = IDEM__CONTAINER(rpc->active.next, idem__http_serving, link);
    idem__list_remove(&serving->link);
    idem__list_append(&looked_at, &serving->link);
    tend(serving, now_ms);
  }
  while (!idem__list_empty(&looked_at)) {
    idem__list *link = looked_at.next;
    idem__list_remove(link);
    idem__list_append(&rpc->active, link);
  }
}

idem_http_exchange *idem__http_serving_exchange(void *protocol) {
  return IDEM__CONTAINER(protocol, idem__http_serving, state)->exchange;
}

/* ------------------------------------------------------------- entry points */

/* No Accept, like anything, means that everything is fine. */
static unsigned judge_accept(const idem_http_request *request) {
  unsigned found = 0;
  if (idem__http_accepts(request, "application/json")) found |= IDEM__TAKES_JSON;
  if (idem__http_accepts(request, "text/event-stream")) found |= IDEM__TAKES_STREAM;
  return found;
}

static unsigned takes(idem__http_rpc *rpc, const idem_http_request *request) {
  const unsigned any = IDEM__TAKES_JSON | IDEM__TAKES_STREAM;
  if (!request->known[IDEM__H_ACCEPT]) return any;
  idem__view value = idem__http_known_value(request, IDEM__H_ACCEPT);
  bool once = request->known_count[IDEM__H_ACCEPT] == 1;
  bool rememberable = once && value.len <= sizeof rpc->accept;
  if (once && !value.len) return any;
  if (rememberable && value.len == rpc->accept_len && memcmp(value.at, rpc->accept, value.len) == 0)
    return rpc->accept_takes;
  unsigned found = judge_accept(request);
  if (!rememberable) return found;
  memcpy(rpc->accept, value.at, value.len);
  rpc->accept_len = value.len;
  rpc->accept_takes = found;
  return found;
}

static const idem__http_refusal not_acceptable = {
    .status = 406, .reason = "unavailable", .hint = "Accept: application/json, text/event-stream"};

/* The request goes back to its connection after this, and then is another's. */
static idem_status take_message(idem__http_serving *serving, const idem_http_request *request,
                                idem__message_kind *kind) {
  const idem__http_protocol *protocol = idem__http_protocol_of(serving);
  const char *body = request->body.len ? request->body.at : "";
  idem_status status = idem__conn_message(serving->conn, body, request->body.len, kind);
  if (protocol->taken) protocol->taken(serving->state);
  return status;
}

/* The protocol has said that it may begin. */
static void take_in(idem_http_exchange *exchange, const idem_http_request *request, void *user) {
  idem__http_serving *serving = user;
  idem__message_kind kind;
  idem__conn_lend_peer(serving->conn, idem__http_exchange_peer(exchange),
                       idem__http_exchange_client(exchange)->bytes);
  idem_status status = take_message(serving, request, &kind);
  if (status != IDEM_OK) {
    finish_failed(serving, status);
    return;
  }
  pump(serving);
  if (serving->exchange != exchange || serving->detached) return; /* answered, or left */
  if (idem_conn_in_flight(serving->conn) == 0 && idem_conn_queued(serving->conn) == 0)
    finish_silent(serving, kind);
  else
    wait_for_answer(serving);
}

static void begin(idem__http_serving *serving, idem_http_exchange *exchange,
                  const idem_http_request *request) {
  const idem__http_protocol *protocol = idem__http_protocol_of(serving);
  serving->begun = true;
  switch (protocol->begin ? protocol->begin(serving->state, exchange, request) : IDEM__HTTP_NOW) {
  case IDEM__HTTP_NOW: take_in(exchange, request, serving); break;
  case IDEM__HTTP_REFUSED: idem__http_serving_retire(serving); break;
  case IDEM__HTTP_LATER: wait_to_begin(serving, request); break;
  }
}

void idem__http_rpc_serve(idem_http_exchange *exchange, const idem_http_request *request,
                          void *user) {
  idem__http_rpc *rpc = user;
  unsigned what = takes(rpc, request);
  idem__http_serving *serving = what ? take_serving(rpc) : NULL;
  if (!serving) {
    idem__http_refuse(exchange, what ? &no_memory : &not_acceptable, NULL);
    return;
  }
  idem__list_append(&rpc->active, &serving->link);
  serving->exchange = exchange;
  serving->streaming = serving->admitted = serving->limited = false;
  serving->accepts_stream = rules_of(rpc)->event_streams && (what & IDEM__TAKES_STREAM);
  serving->stream_only = serving->accepts_stream && !(what & IDEM__TAKES_JSON);
  begin(serving, exchange, request);
}

void idem__http_serving_begin(void *protocol, const idem__http_refusal *refusal) {
  idem__http_serving *serving = IDEM__CONTAINER(protocol, idem__http_serving, state);
  idem_http_exchange *exchange = serving->exchange;
  if (refusal)
    refuse_waiting(serving, refusal);
  else
    idem__http_serve_held(exchange, take_in, serving);
}

bool idem__http_rpc_admit(idem__http_rpc *rpc, idem_http_exchange *exchange) {
  return idem__http_admit(rpc->opts.limiter, exchange);
}

idem_status idem__http_rpc_new(const idem__http_rpc_opts *opts, idem__http_rpc **out) {
  *out = NULL;
  idem__http_rpc *rpc = idem__calloc(opts->alloc, sizeof *rpc);
  if (!rpc) return IDEM_E_NOMEM;
  rpc->alloc = idem__alloc_or_default(opts->alloc);
  rpc->opts = *opts;
  rpc->policy = opts->policy ? *opts->policy : idem_policy_preset(IDEM_PROFILE_JSONRPC);
  rpc->policy.framing = IDEM_FRAMING_WHOLE;
  rpc->policy.guard_http = false;
  rpc->policy.limits.idle_ms = 0; /* the connection's own limits stand above these */
  rpc->policy.limits.frame_ms = 0;
  if (!rpc->opts.stream_ms) rpc->opts.stream_ms = 15000;
  idem__list_init(&rpc->active);
  idem__buf_init(&rpc->event, &rpc->alloc, rpc->policy.limits.queued_output_bytes * 2);
  rpc->pool = opts->pool;
  if (!rpc->pool && idem_pool_new(&rpc->alloc, &rpc->pool) != IDEM_OK) {
    idem__free(opts->alloc, rpc);
    return IDEM_E_NOMEM;
  }
  *out = rpc;
  return IDEM_OK;
}

idem_status idem__http_rpc_add(idem__http_rpc *rpc, idem_http_server *server, const char *path,
                               bool websocket_alone, bool told) {
  idem_http_route route = {.path = path,
                           .methods = websocket_alone ? 0 : IDEM_HTTP_POST,
                           .serve = idem__http_rpc_serve,
                           .user = rpc};
  idem__http_binding binding = {
      .told = told, .upgrade = idem__http_rpc_upgrade, .rules = rpc->opts.rules};
  return idem__http_server_add(server, &route, &binding);
}

void idem__http_rpc_free(idem__http_rpc *rpc) {
  if (!rpc) return;
  while (!idem__list_empty(&rpc->active)) {
    idem__http_serving *serving = IDEM__CONTAINER(rpc->active.next, idem__http_serving, link);
    idem__list_remove(&serving->link);
    free_serving(serving);
  }
  while (rpc->idle) free_serving(pop_idle(rpc));
  idem__buf_deinit(&rpc->event);
  if (rpc->pool != rpc->opts.pool) idem_pool_free(rpc->pool);
  idem_alloc alloc = rpc->alloc;
  idem__free(&alloc, rpc);
}
