/* endpoint.c - POST a JSON-RPC message, get its answer.
 * Each request is a short visit to a pooled conn of the engine. An answer keeps its HTTP status as
 * long as it can: only a notification, or time, turns it into an event stream.
 * See docs/internals/http.md. */
#include "endpoint.h"

#include <string.h>

#define IDLE_CALLS 64
#define EVENT_KEEP ((size_t)64 * 1024)

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
  /* A conn that keeps its peer for life is a WebSocket's; the others are lent to visits. */
  bool lasting = peer && rpc->opts.accept;
  idem_status status =
      lasting ? rpc->opts.accept(rpc->opts.guest_user, &opts, out) : idem_conn_new(&opts, out);
  if (status == IDEM_OK) idem__conn_set_host(*out, rpc->opts.host);
  return status;
}

static const idem__http_guest *guest_of(const call *visit) {
  static const idem__http_guest none;
  return visit->rpc->opts.guest ? visit->rpc->opts.guest : &none;
}

static void end_guest(call *visit) {
  if (visit->begun && guest_of(visit)->end) guest_of(visit)->end(visit->guest);
  visit->begun = false;
}

static void set_detached(call *visit, bool detached) {
  if (visit->detached == detached) return;
  visit->detached = detached;
  visit->rpc->detached_count += detached ? 1 : -(size_t)1;
  if (guest_of(visit)->detached) guest_of(visit)->detached(visit->guest, detached);
}

/* The end of the conn tells handlers: what they look at, and that is the guest's, goes after it. */
static void free_call(call *visit) {
  idem_conn_free(visit->conn);
  set_detached(visit, false);
  end_guest(visit);
  if (guest_of(visit)->close) guest_of(visit)->close(visit->guest);
  idem__free(&visit->rpc->alloc, visit);
}

/* The call is over. Its conn may be on the stack (a reply is being sent), so whether it can be
 * used again is decided when it is wanted. */
static void retire(call *visit) {
  idem__http_rpc *rpc = visit->rpc;
  set_detached(visit, false);
  end_guest(visit);
  visit->exchange = NULL;
  idem__conn_lend_peer(visit->conn, NULL, NULL);
  idem__list_remove(&visit->link);
  visit->next = rpc->idle;
  rpc->idle = visit;
  rpc->idle_count++;
}

static call *pop_idle(idem__http_rpc *rpc) {
  call *visit = rpc->idle;
  rpc->idle = visit->next;
  rpc->idle_count--;
  return visit;
}

static void pump(call *visit);
static void set_time(call *visit);

/* There is room, or output: what the engine held back may go on, which its deadline says. */
static void look_again(call *visit) {
  pump(visit);
  if (visit->exchange) set_time(visit);
}

static void on_output(idem_conn *conn, void *user) {
  call *visit = user;
  idem__http_conn *http = visit->exchange ? idem__http_exchange_conn(visit->exchange) : NULL;
  (void)conn;
  look_again(visit);
  if (http) idem__http_conn_notify(http);
}

static bool on_admit(idem_conn *conn, void *user) {
  call *visit = user;
  (void)conn;
  if (!visit->exchange) return true;
  bool admitted =
      idem__limiter_take(visit->rpc->opts.limiter, idem__http_exchange_client(visit->exchange),
                         idem__http_exchange_now(visit->exchange), &visit->retry_s);
  if (admitted)
    visit->admitted = true;
  else
    visit->limited = true;
  return admitted;
}

static call *new_call(idem__http_rpc *rpc) {
  const idem__http_guest *guest = rpc->opts.guest;
  call *visit = idem__calloc(&rpc->alloc, sizeof *visit + (guest ? guest->size : 0));
  if (!visit) return NULL;
  visit->rpc = rpc;
  idem__list_init(&visit->link);
  idem_status status = idem__http_rpc_conn(rpc, visit, on_output, on_admit, NULL, &visit->conn);
  if (status == IDEM_OK && guest && guest->open) {
    status = guest->open(visit->guest, visit->conn, rpc->opts.guest_user);
    if (status != IDEM_OK) idem_conn_free(visit->conn);
  }
  if (status == IDEM_OK) return visit;
  idem__free(&rpc->alloc, visit);
  return NULL;
}

static call *take_call(idem__http_rpc *rpc) {
  while (rpc->idle_count > IDLE_CALLS) free_call(pop_idle(rpc));
  while (rpc->idle) {
    call *visit = pop_idle(rpc);
    if (idem__conn_reusable(visit->conn)) return visit;
    free_call(visit);
  }
  return new_call(rpc);
}

/* ------------------------------------------------------------------- streams */

/* Also when nobody is there to read it: a guest may keep it for one who comes back. */
static void put_event(call *visit, const char *text, size_t len, bool last) {
  idem__buf *event = &visit->rpc->event;
  const idem__http_guest *guest = guest_of(visit);
  event->len = 0;
  idem_status status = guest->event ? guest->event(visit->guest, text, len, last, event)
                                    : idem__sse_put_event(event, "message", NULL, text, len);
  if (status == IDEM_OK && visit->exchange)
    idem__http_stream_put(visit->exchange, event->data, event->len);
  event->len = 0;
  idem__buf_trim(event, EVENT_KEEP);
}

static void put_comment(call *visit) {
  idem__http_stream_put(visit->exchange, IDEM__SSE_COMMENT, sizeof IDEM__SSE_COMMENT - 1);
  visit->stream_at_ms = idem__http_exchange_now(visit->exchange) + visit->rpc->opts.stream_ms;
}

static void begin_guest_stream(call *visit) {
  idem__buf *event = &visit->rpc->event;
  if (!guest_of(visit)->stream_begin) return;
  event->len = 0;
  guest_of(visit)->stream_begin(visit->guest, event);
  if (event->len) idem__http_stream_put(visit->exchange, event->data, event->len);
  event->len = 0;
}

/* From here on the status is 200, whatever comes. The first comment goes out at once. */
static void commit_stream(call *visit) {
  if (visit->streaming) return;
  visit->streaming = true;
  char text[1024];
  idem__buf lines;
  idem__buf_fixed(&lines, text, sizeof text - 1);
  idem__buf_puts(&lines, "X-Accel-Buffering: no\r\n");
  if (guest_of(visit)->headers) guest_of(visit)->headers(visit->guest, &lines);
  text[lines.len] = 0;
  idem__http_stream_begin(visit->exchange, 200, "text/event-stream", text);
  begin_guest_stream(visit);
  put_comment(visit);
}

/* ------------------------------------------------------------------- answers */

static const idem__http_rules *rules_of(const idem__http_rpc *rpc) {
  return rpc->opts.rules ? rpc->opts.rules : &idem__http_rules_jsonrpc;
}

static void answer_headers(const call *visit, bool limited, idem__buf *out) {
  const idem__http_rules *rules = rules_of(visit->rpc);
  if (limited) idem__buf_printf(out, "Retry-After: %u\r\n", (unsigned)visit->retry_s);
  if (rules->add_headers) rules->add_headers(visit->exchange, out, rules->user);
  if (guest_of(visit)->headers) guest_of(visit)->headers(((call *)(uintptr_t)visit)->guest, out);
}

static void respond(call *visit, uint16_t status, idem_chunk *chunk) {
  char text[1024];
  idem__buf lines;
  bool limited = visit->limited && !visit->admitted;
  idem__buf_fixed(&lines, text, sizeof text - 1);
  answer_headers(visit, limited, &lines);
  text[lines.len] = 0;
  idem__http_respond(visit->exchange,
                     &(idem__http_answer){.status = limited ? 429 : status,
                                          .type = chunk ? "application/json" : NULL,
                                          .headers = lines.len ? text : NULL,
                                          .chunk = chunk});
  retire(visit);
}

static void finish(call *visit, idem_chunk *chunk) {
  if (visit->streaming) {
    put_event(visit, chunk->data, chunk->len, true);
    idem_chunk_free(chunk);
    idem__http_stream_end(visit->exchange);
    retire(visit);
    return;
  }
  uint16_t status = idem__http_status_for(rules_of(visit->rpc), chunk->what);
  if (guest_of(visit)->status) status = guest_of(visit)->status(visit->guest, status);
  respond(visit, status, chunk);
}

/* Nothing is owed: a notification, a response, or a request cancelled without an answer. */
static void finish_silent(call *visit, idem__message_kind kind) {
  const idem__http_rules *rules = rules_of(visit->rpc);
  uint16_t status = kind == IDEM__RESPONSE ? rules->response_status : rules->notification_status;
  if (guest_of(visit)->silent_status) status = guest_of(visit)->silent_status(visit->guest, kind);
  if (visit->streaming) {
    idem__http_stream_end(visit->exchange);
    retire(visit);
  } else if (status >= 400) {
    idem__http_exchange *exchange = visit->exchange;
    retire(visit);
    idem__http_refuse(exchange, &(idem__http_refusal){.status = status}, NULL);
  } else {
    respond(visit, status ? status : 204, NULL);
  }
}

/* Ours to answer for, whatever it was. */
static void finish_failed(call *visit, idem_status status) {
  idem__http_exchange *exchange = visit->exchange;
  bool streaming = visit->streaming;
  idem__http_refusal refusal = {
      .status = 500, .code = IDEM_RPC_INTERNAL_ERROR, .why = idem_status_text(status)};
  retire(visit);
  if (streaming)
    idem__http_stream_end(exchange);
  else
    idem__http_refuse(exchange, &refusal, NULL);
}

/* A message of ours that is no answer: it can only travel on a stream. */
static void send_along(call *visit, idem_chunk *chunk) {
  if (visit->accepts_stream) {
    commit_stream(visit);
    put_event(visit, chunk->data, chunk->len, false);
  }
  idem_chunk_free(chunk);
}

static void on_room(void *user) { look_again(user); }

/* A stream waits for a slow reader; a single answer does not, it is the last the peer gets until it
 * has read. */
static bool may_take(call *visit) {
  if (!visit->streaming || !visit->exchange) return true;
  return idem__http_conn_has_room(idem__http_exchange_conn(visit->exchange), on_room, visit);
}

/* Moves what the engine has said to the peer. The call is over after its answer. */
static void pump(call *visit) {
  idem_chunk chunk;
  while (may_take(visit) && idem_conn_next_chunk(visit->conn, &chunk)) {
    bool answer = chunk.what.kind < IDEM_OUTGOING_CALL;
    if (visit->exchange && answer) {
      finish(visit, &chunk);
      return;
    }
    if (visit->exchange) {
      send_along(visit, &chunk);
    } else {
      if (visit->detached) put_event(visit, chunk.data, chunk.len, answer);
      idem_chunk_free(&chunk);
    }
    if (visit->detached && answer) {
      retire(visit);
      return;
    }
  }
}

/* --------------------------------------------------------------------- time */

static void set_time(call *visit) {
  uint64_t at = idem_conn_deadline(visit->conn);
  if (visit->accepts_stream && visit->stream_at_ms < at) at = visit->stream_at_ms;
  idem__http_set_time(visit->exchange, at);
}

static void on_time(idem__http_exchange *exchange, uint64_t now_ms, void *user) {
  call *visit = user;
  (void)exchange;
  if (idem_conn_deadline(visit->conn) <= now_ms) {
    idem_status status = idem_conn_expire(visit->conn);
    if (status != IDEM_OK) {
      finish_failed(visit, status);
      return;
    }
    pump(visit);
    if (!visit->exchange) return;
  }
  if (visit->accepts_stream && visit->stream_at_ms <= now_ms) {
    if (visit->streaming)
      put_comment(visit);
    else
      commit_stream(visit);
  }
  set_time(visit);
}

static void on_abort(idem__http_exchange *exchange, void *user) {
  call *visit = user;
  (void)exchange;
  visit->exchange = NULL;
  idem__conn_lend_peer(visit->conn, NULL, NULL);
  bool outlives = rules_of(visit->rpc)->outlives_peer;
  if (guest_of(visit)->outlives) outlives = guest_of(visit)->outlives(visit->guest);
  set_detached(visit, outlives);
  if (outlives) return; /* runs on; its answer goes nowhere */
  idem__list_remove(&visit->link);
  free_call(visit);
}

/* Who only ended its input still reads. Whether it does shows only when something is sent: one that
 * has gone answers a comment with a reset. */
static bool on_input_end(idem__http_exchange *exchange, void *user) {
  call *visit = user;
  (void)exchange;
  bool cancels = rules_of(visit->rpc)->disconnect_cancels;
  if (guest_of(visit)->input_end_cancels)
    cancels = guest_of(visit)->input_end_cancels(visit->guest);
  if (cancels || !visit->streaming) return cancels;
  put_comment(visit);
  set_time(visit);
  return false;
}

/* The server is going: there is time for the answer, or there is not. */
static void on_stop(void *user, bool now) {
  call *visit = user;
  if (!now) return;
  idem_conn_abort(visit->conn);
  pump(visit);
}

static void wait_for_answer(call *visit) {
  idem__http_conn_on_stop(idem__http_exchange_conn(visit->exchange), on_stop, visit);
  visit->stream_at_ms = idem__http_exchange_now(visit->exchange) + visit->rpc->opts.stream_ms;
  idem__http_exchange_set_user(visit->exchange, visit);
  idem__http_on_abort(visit->exchange, on_abort, visit);
  idem__http_on_input_end(visit->exchange, on_input_end);
  idem__http_on_time(visit->exchange, UINT64_MAX, on_time);
  set_time(visit);
}

void idem__http_visit_leave(void *guest) {
  call *visit = IDEM__CONTAINER(guest, call, guest);
  idem__http_exchange *exchange = visit->exchange;
  if (!exchange || !visit->accepts_stream) return;
  commit_stream(visit);
  visit->exchange = NULL;
  set_detached(visit, true);
  idem__conn_lend_peer(visit->conn, NULL, NULL);
  idem__http_stream_end(exchange);
}

void idem__http_visit_cancelled(void *guest) {
  call *visit = IDEM__CONTAINER(guest, call, guest);
  if (!visit->begun || idem_conn_in_flight(visit->conn) || idem_conn_queued(visit->conn)) return;
  if (visit->exchange) {
    finish_silent(visit, IDEM__NOTIFICATION);
  } else if (visit->detached) {
    retire(visit);
  }
}

bool idem__http_visit_streams(void *guest) {
  const call *visit = IDEM__CONTAINER(guest, call, guest);
  return visit->exchange ? visit->accepts_stream : visit->streaming;
}

/* -------------------------------------------------- visits without a connection */

#define TEND_MS 1000u

uint64_t idem__http_rpc_deadline(const idem__http_rpc *rpc) {
  return rpc->detached_count ? rpc->tended_ms + TEND_MS : UINT64_MAX;
}

/* Nobody is there to read its answers; they are kept for one who may come back, or go nowhere. */
static void settle_detached(call *visit) {
  pump(visit);
  if (visit->detached) idem__http_visit_cancelled(visit->guest); /* where there is no answer */
}

static void tend(call *visit, uint64_t now_ms) {
  const idem__http_guest *guest = guest_of(visit);
  bool orphaned = visit->begun && guest->orphaned && guest->orphaned(visit->guest);
  if (orphaned && !idem__conn_aborted(visit->conn)) {
    idem_conn_abort(visit->conn); /* answers, tells the handlers; may retire the visit */
    if (visit->detached) settle_detached(visit);
  } else if (visit->detached && idem_conn_deadline(visit->conn) <= now_ms) {
    if (idem_conn_expire(visit->conn) == IDEM_OK)
      settle_detached(visit);
    else
      retire(visit);
  }
}

/* Handlers that are told may end other visits: each waits for its turn in a list of its own. */
void idem__http_rpc_tend(idem__http_rpc *rpc, uint64_t now_ms) {
  idem__list looked_at;
  idem__list_init(&looked_at);
  rpc->tended_ms = now_ms;
  while (!idem__list_empty(&rpc->active)) {
    call *visit = IDEM__CONTAINER(rpc->active.next, call, link);
    idem__list_remove(&visit->link);
    idem__list_append(&looked_at, &visit->link);
    tend(visit, now_ms);
  }
  while (!idem__list_empty(&looked_at)) {
    idem__list *link = looked_at.next;
    idem__list_remove(link);
    idem__list_append(&rpc->active, link);
  }
}

idem__http_exchange *idem__http_visit_exchange(void *guest) {
  return IDEM__CONTAINER(guest, call, guest)->exchange;
}

/* ------------------------------------------------------------- entry points */

static bool accepts_stream(idem__http_rpc *rpc, const idem__http_request *request) {
  if (!rules_of(rpc)->event_streams || !request->known[IDEM__H_ACCEPT]) return false;
  idem__view value = idem__http_known_value(request, IDEM__H_ACCEPT);
  bool rememberable = request->known_count[IDEM__H_ACCEPT] == 1 && value.len <= sizeof rpc->accept;
  if (rememberable && value.len == rpc->accept_len && memcmp(value.at, rpc->accept, value.len) == 0)
    return rpc->accept_streams;
  bool streams = idem__http_accepts_exactly(request, "text/event-stream");
  if (!rememberable) return streams;
  memcpy(rpc->accept, value.at, value.len);
  rpc->accept_len = value.len;
  rpc->accept_streams = streams;
  return streams;
}

/* False: the guest has answered. */
static bool begin_guest(call *visit, const idem__http_request *request) {
  const idem__http_guest *guest = guest_of(visit);
  visit->begun = true;
  if (!guest->begin || guest->begin(visit->guest, visit->exchange, request)) return true;
  retire(visit);
  return false;
}

void idem__http_rpc_serve(idem__http_exchange *exchange, const idem__http_request *request,
                          void *user) {
  idem__http_rpc *rpc = user;
  call *visit = take_call(rpc);
  if (!visit) {
    static const idem__http_refusal no_memory = {
        .status = 503, .reason = "unavailable", .why = "no memory"};
    idem__http_refuse(exchange, &no_memory, NULL);
    return;
  }
  idem__list_append(&rpc->active, &visit->link);
  visit->exchange = exchange;
  visit->streaming = visit->admitted = visit->limited = false;
  visit->accepts_stream = accepts_stream(rpc, request);
  if (!begin_guest(visit, request)) return;
  idem__conn_lend_peer(visit->conn, idem__http_exchange_peer(exchange),
                       idem__http_exchange_client(exchange)->bytes);
  idem__message_kind kind;
  const char *body = request->body.len ? request->body.at : "";
  idem_status status = idem__conn_message(visit->conn, body, request->body.len, &kind);
  if (status != IDEM_OK) {
    finish_failed(visit, status);
    return;
  }
  pump(visit);
  if (visit->exchange != exchange || visit->detached) return; /* answered, or left */
  if (idem_conn_in_flight(visit->conn) == 0 && idem_conn_queued(visit->conn) == 0)
    finish_silent(visit, kind);
  else
    wait_for_answer(visit);
}

bool idem__http_rpc_admit(idem__http_rpc *rpc, idem__http_exchange *exchange) {
  char header[48];
  uint32_t retry_s;
  if (!rpc->opts.limiter ||
      idem__limiter_take(rpc->opts.limiter, idem__http_exchange_client(exchange),
                         idem__http_exchange_now(exchange), &retry_s))
    return true;
  idem__metrics_add(rpc->opts.metrics, IDEM__M_RATE_LIMITED, 1);
  idem__buf lines;
  idem__buf_fixed(&lines, header, sizeof header - 1);
  idem__buf_printf(&lines, "Retry-After: %u\r\n", (unsigned)retry_s);
  header[lines.len] = 0;
  idem__http_refuse(exchange, &(idem__http_refusal){.status = 429, .reason = "rate-limited"},
                    header);
  return false;
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

void idem__http_rpc_free(idem__http_rpc *rpc) {
  if (!rpc) return;
  while (!idem__list_empty(&rpc->active)) {
    call *visit = IDEM__CONTAINER(rpc->active.next, call, link);
    idem__list_remove(&visit->link);
    free_call(visit);
  }
  while (rpc->idle) free_call(pop_idle(rpc));
  idem__buf_deinit(&rpc->event);
  if (rpc->pool != rpc->opts.pool) idem_pool_free(rpc->pool);
  idem_alloc alloc = rpc->alloc;
  idem__free(&alloc, rpc);
}
