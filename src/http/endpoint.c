/* endpoint.c - the JSON-RPC endpoint: POST a message, get its answer.
 * Each request is a short serving (serving.c) to a pooled conn of the engine.
 * See docs/internals/http.md. */
#include "endpoint.h"

#include <string.h>

#define IDLE_SERVINGS 64

const idem__http_rules idem__http_rules_jsonrpc = {.event_streams = true};

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

void idem__http_serving_detach(idem__http_serving *serving, bool detached) {
  if (serving->detached == detached) return;
  serving->detached = detached;
  serving->rpc->detached_count += detached ? 1 : -(size_t)1;
  if (idem__http_protocol_of(serving)->detached)
    idem__http_protocol_of(serving)->detached(serving->state, detached);
}

static void forget_client(idem__http_serving *serving) {
  idem__conn_lend_peer(serving->conn, NULL, NULL);
  idem__free(&serving->rpc->alloc, serving->left);
  serving->left = NULL;
}

static idem__http_left *keep_client(const idem__http_serving *serving) {
  const idem_http_exchange *exchange = serving->exchange;
  const char *peer = idem__http_exchange_peer(exchange);
  size_t size = strlen(peer) + 1;
  idem__http_left *left = idem__malloc(&serving->rpc->alloc, sizeof *left + size);
  if (!left) return NULL;
  left->client = *idem__http_exchange_client(exchange);
  left->now_ms = idem__http_exchange_now(exchange);
  memcpy(left->peer, peer, size);
  return left;
}

/* What its client asked goes on as that client's: else to leave would be a way around every bound. */
void idem__http_serving_leave_exchange(idem__http_serving *serving) {
  idem__http_left *left = serving->left = keep_client(serving);
  idem__conn_lend_peer(serving->conn, left ? left->peer : NULL, left ? left->client.bytes : NULL);
  serving->exchange = NULL;
  idem__http_serving_detach(serving, true);
}

/* A message of the engine's that could not be written yet. */
static void drop_chunk(idem__http_serving *serving) {
  if (serving->in_hand) idem_chunk_free(&serving->chunk);
  serving->in_hand = serving->writing = serving->beginning = false;
  serving->leaving = serving->cancelled = serving->acknowledging = false;
}

/* The end of the conn tells handlers: what they look at, and that is the protocol's, goes after it. */
void idem__http_serving_free(idem__http_serving *serving) {
  drop_chunk(serving);
  idem_list_remove(&serving->late.link);
  idem_conn_free(serving->conn);
  idem__free(&serving->rpc->alloc, serving->left);
  idem__http_serving_detach(serving, false);
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
  idem_list_remove(&serving->late.link);
  idem__http_serving_detach(serving, false);
  end_protocol(serving);
  serving->exchange = NULL;
  forget_client(serving);
  idem_list_remove(&serving->link);
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

/* Its message is taken in: an answer will come, or nothing is owed. */
static void settle_taken(idem__http_serving *serving) {
  if (idem_conn_in_flight(serving->conn) || idem_conn_queued(serving->conn))
    idem__http_serving_wait(serving);
  else if (serving->asked)
    idem__http_serving_finish_cancelled(serving);
  else
    idem__http_serving_acknowledge(serving, serving->silent_kind);
}

/* A batch that went on in other turns is taken in when it waits for none any more. */
static void see_rest_of_batch(idem__http_serving *serving) {
  if (!serving->in_batch || idem__conn_waits(serving->conn)) return;
  serving->in_batch = false;
  if (idem_conn_in_flight(serving->conn) || idem_conn_queued(serving->conn)) return;
  if (serving->detached)
    idem__http_serving_cancelled(serving->state);
  else if (serving->exchange)
    settle_taken(serving);
}

static void on_output(idem_conn *conn, void *user) {
  idem__http_serving *serving = user;
  idem_http_conn *http = serving->exchange ? idem__http_exchange_conn(serving->exchange) : NULL;
  bool in_batch = serving->in_batch;
  (void)conn;
  idem__http_serving_look(serving);
  if (in_batch) see_rest_of_batch(serving);
  if (http) idem__http_conn_notify(http);
}

/* Where there was no memory to keep whose it is, nothing more of it is begun. */
static bool admit_left(idem__http_serving *serving) {
  const idem__http_left *left = serving->left;
  if (!left) return false;
  uint64_t now_ms = idem__conn_clock(serving->conn) / 1000000u;
  if (now_ms < left->now_ms) now_ms = left->now_ms; /* there is no clock */
  return idem__limiter_take(serving->rpc->opts.limiter, &left->client, now_ms, &serving->retry_s);
}

static bool on_admit(idem_conn *conn, void *user) {
  idem__http_serving *serving = user;
  (void)conn;
  if (!serving->exchange) return admit_left(serving);
  bool admitted =
      idem__limiter_take(serving->rpc->opts.limiter, idem__http_exchange_client(serving->exchange),
                         idem__http_exchange_now(serving->exchange), &serving->retry_s);
  if (admitted)
    serving->admitted = true;
  else
    serving->limited = true;
  return admitted;
}

const idem__http_rules *idem__http_rpc_rules(const idem__http_rpc *rpc) {
  return rpc->opts.rules ? rpc->opts.rules : &idem__http_rules_jsonrpc;
}

/* What a notification of its will be refused for; NULL: for nothing that is known by now. */
static const char *refusal_of(const idem__http_serving *serving) {
  const idem__http_protocol *protocol = idem__http_protocol_of(serving);
  void *state = ((idem__http_serving *)(uintptr_t)serving)->state;
  idem__http_refusal refusal = {.status = 0};
  if (!protocol->silent_status || !protocol->silent_refusal) return NULL;
  if (protocol->silent_status(state, IDEM__NOTIFICATION) < 400) return NULL;
  protocol->silent_refusal(state, IDEM__NOTIFICATION, &refusal);
  return refusal.reason;
}

static void on_heard(idem_conn *conn, const idem__message *message) {
  idem__http_serving *serving = idem_conn_user(conn);
  serving->asked |= message->kind == IDEM__REQUEST;
  if (message->kind == IDEM__NOTIFICATION) idem__conn_drop_notifications(conn, refusal_of(serving));
  if (serving->exchange)
    idem__http_log_message(serving->exchange, message,
                           idem__http_rpc_rules(serving->rpc)->subjects);
}

static idem__http_serving *new_serving(idem__http_rpc *rpc) {
  const idem__http_protocol *protocol = rpc->opts.protocol;
  idem__http_serving *serving =
      idem__calloc(&rpc->alloc, sizeof *serving + (protocol ? protocol->size : 0));
  if (!serving) return NULL;
  serving->rpc = rpc;
  idem_list_init(&serving->link);
  idem_list_init(&serving->late.link);
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
  while (rpc->idle_count > IDLE_SERVINGS) idem__http_serving_free(pop_idle(rpc));
  while (rpc->idle) {
    idem__http_serving *serving = pop_idle(rpc);
    if (idem__conn_reusable(serving->conn)) return serving;
    idem__http_serving_free(serving);
  }
  return new_serving(rpc);
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

/* The body was read, and so its id is echoed. */
static void refuse_accept(const idem__http_rpc *rpc, idem_http_exchange *exchange,
                          const idem_http_request *request) {
  idem__http_refusal refusal = {.status = 406,
                                .reason = "unavailable",
                                .cause = "Accept names neither JSON nor event streams",
                                .hint = "Accept: application/json, text/event-stream"};
  idem_messages *messages = NULL;
  if (request->body.len)
    idem_messages_read(request->body.at, request->body.len, &rpc->policy, &rpc->alloc, &messages);
  if (messages && !idem_messages_is_batch(messages)) {
    const idem_message *first = idem_messages_at(messages, 0);
    refusal.id = first->kind == IDEM_MESSAGE_REQUEST ? first->id : NULL;
    refusal.id_len = first->id_len;
    idem__http_log_words(exchange, first);
  }
  idem__http_refuse(exchange, &refusal, NULL);
  idem_messages_free(messages);
}

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
    idem__http_serving_finish_failed(serving, status);
    return;
  }
  idem__http_serving_pump(serving);
  if (serving->exchange != exchange || serving->detached) return; /* answered, or left */
  serving->in_batch = idem__conn_waits(serving->conn);
  serving->silent_kind = kind;
  settle_taken(serving);
}

static void take_in_late(idem__late *late) {
  idem__http_serving *serving = IDEM_CONTAINER(late, idem__http_serving, late);
  const idem__http_protocol *protocol = idem__http_protocol_of(serving);
  if (protocol->turn) protocol->turn(serving->state);
  idem__http_serve_held(serving->exchange, take_in, serving);
}

/* ------------------------------------------------------------ turns that do not come */

/* Whoever asked is told so, with its id, and nothing of it is begun. */
static void refuse_in(idem__http_serving *serving, const idem_http_request *request,
                      const idem__http_refusal *refusal) {
  const idem_http_exchange *exchange = serving->exchange;
  idem__message_kind kind = IDEM__INVALID;
  serving->refused = true;
  idem__conn_lend_peer(serving->conn, idem__http_exchange_peer(exchange),
                       idem__http_exchange_client(serving->exchange)->bytes);
  idem__conn_refuse_new(serving->conn, IDEM__UNAVAILABLE);
  if (take_message(serving, request, &kind) == IDEM_OK) idem__http_serving_pump(serving);
  if (serving->exchange != exchange) return;
  if (kind == IDEM__RESPONSE)
    idem__http_serving_acknowledge(serving, kind); /* nothing was to be begun */
  else
    idem__http_serving_refuse(serving, refusal);
}

static void refuse_late(idem_http_exchange *exchange, const idem_http_request *request,
                        void *user) {
  (void)exchange;
  refuse_in(user, request, &idem__http_going);
}

void idem__http_serving_refuse_late(idem__http_serving *serving) {
  idem_list_remove(&serving->late.link);
  idem__http_serve_held(serving->exchange, refuse_late, serving);
}

static void wait_for_turn(idem__http_serving *serving) {
  serving->late.run = take_in_late;
  idem__http_serving_wait_for_turn(serving);
  idem__pool_put_off(serving->rpc->pool, &serving->late);
}

/* The turn is over: what was asked is held until another. Where it cannot be, it is refused: to work on it now would let
 * many hold up the loop for as long as they like. */
static bool put_off(idem__http_serving *serving, const idem_http_request *request) {
  static const idem__http_refusal full = {
      .status = 503, .reason = "unavailable", .why = "too much waits for a turn"};
  idem_pool *pool = serving->rpc->pool;
  if (IDEM__LIKELY(!idem__pool_turn_over(pool, idem__conn_clock(serving->conn)))) return false;
  if (idem__http_hold_for_turn(serving->exchange, request) != IDEM_OK) {
    refuse_in(serving, request, &full);
    return true;
  }
  wait_for_turn(serving);
  return true;
}

/* -------------------------------------------------------------------- beginning */

static void begin(idem__http_serving *serving, idem_http_exchange *exchange,
                  const idem_http_request *request) {
  const idem__http_protocol *protocol = idem__http_protocol_of(serving);
  serving->begun = true;
  switch (protocol->begin ? protocol->begin(serving->state, exchange, request) : IDEM__HTTP_NOW) {
  case IDEM__HTTP_NOW:
    if (!put_off(serving, request)) take_in(exchange, request, serving);
    break;
  case IDEM__HTTP_REFUSED: idem__http_serving_retire(serving); break;
  case IDEM__HTTP_LATER:
    if (!idem__http_serving_wait_to_begin(serving, request)) take_in(exchange, request, serving);
    break;
  }
}

void idem__http_rpc_serve(idem_http_exchange *exchange, const idem_http_request *request,
                          void *user) {
  idem__http_rpc *rpc = user;
  unsigned what = takes(rpc, request);
  idem__http_serving *serving = what ? take_serving(rpc) : NULL;
  if (!what) {
    refuse_accept(rpc, exchange, request);
    return;
  }
  if (!serving) {
    idem__http_refuse(exchange, &idem__http_no_memory, NULL);
    return;
  }
  idem_list_append(&rpc->active, &serving->link);
  serving->exchange = exchange;
  serving->streaming = serving->admitted = serving->limited = false;
  serving->asked = serving->in_batch = serving->refused = false;
  serving->accepts_stream = idem__http_rpc_rules(rpc)->event_streams && (what & IDEM__TAKES_STREAM);
  serving->stream_only = serving->accepts_stream && !(what & IDEM__TAKES_JSON);
  begin(serving, exchange, request);
}

void idem__http_serving_begin_at_once(idem__http_serving *serving) {
  idem__http_serve_held(serving->exchange, take_in, serving);
}

void idem__http_serving_begin(void *protocol, const idem__http_refusal *refusal) {
  idem__http_serving *serving = IDEM_CONTAINER(protocol, idem__http_serving, state);
  if (refusal)
    idem__http_serving_refuse(serving, refusal);
  else if (idem__pool_turn_over(serving->rpc->pool, idem__conn_clock(serving->conn)))
    wait_for_turn(serving); /* what many waited for comes for all of them at once */
  else
    idem__http_serving_begin_at_once(serving);
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
  idem_list_init(&rpc->active);
  idem_buf_init(&rpc->event, &rpc->alloc, rpc->policy.limits.queued_output_bytes * 2);
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
  while (!idem_list_empty(&rpc->active)) {
    idem__http_serving *serving = IDEM_CONTAINER(rpc->active.next, idem__http_serving, link);
    idem_list_remove(&serving->link);
    idem__http_serving_free(serving);
  }
  while (rpc->idle) idem__http_serving_free(pop_idle(rpc));
  idem_buf_deinit(&rpc->event);
  if (rpc->pool != rpc->opts.pool) idem_pool_free(rpc->pool);
  idem_alloc alloc = rpc->alloc;
  idem__free(&alloc, rpc);
}
