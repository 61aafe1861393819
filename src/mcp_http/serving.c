/* serving.c - MCP's opinions about each POST: which session it belongs to, what its headers say,
 * which status an error of the protocol takes, where its events go. A serving of the JSON-RPC
 * endpoint (endpoint.c). */
#include "mcp_http.h"

#include <stdio.h>
#include <string.h>

/* Changes of the session that a notification made and the store has not confirmed. They outlive a serving that goes. */
typedef struct unconfirmed {
  idem_alloc alloc;
  struct mcp_serving *serving; /* NULL: nobody waits any more */
  unsigned changes;
} unconfirmed;

/* What MCP keeps with each mcp_serving. */
typedef struct mcp_serving {
  idem__mcp_peer peer;
  idem__mcp_endpoint *endpoint;
  const idem_http_request *request; /* while the message is being taken in */
  idem__http_session *session;      /* counted; NULL: none */
  bool new_session;                 /* its id goes into the answer's head */
  bool has_session_header;
  bool modern;      /* its header says so, as it must */
  bool bad_version; /* its header names a revision that is not served */
  bool numbered;    /* an event that its client can come back after was sent */
  uint16_t status;
  uint32_t stream; /* 0: not one yet */
  idem__session_post post;
  bool unavailable; /* nobody can say whether it is a session */
  idem__session_finding finding;
  idem__session_opening *opening;
  idem__edge_done opened; /* whom to tell then */
  void *opened_user;
  unconfirmed *unconfirmed;  /* NULL: nothing is */
  idem__session_event event; /* being kept, or the stream being numbered */
  const char *text;          /* the event's, lent */
  size_t text_len;
  char *long_principal; /* one that does not fit; NULL: it does */
  char *needed_scopes;  /* that its token lacks; NULL: none */
  char principal[2 * IDEM__SHA256_BYTES + 1];
} mcp_serving;

/* --------------------------------------------------------------- the edge */

static bool get_header(void *ctx, const char *name, const char **value, size_t *len) {
  const mcp_serving *serving = ctx;
  if (!serving->request) return false;
  idem__view found = idem__http_header_value(serving->request, name);
  *value = found.at;
  *len = found.len;
  return found.at != NULL;
}

static void set_status(void *ctx, int status) { ((mcp_serving *)ctx)->status = (uint16_t)status; }

/* Without memory the answer says 403 and not what for. */
static void need_scopes(void *ctx, const char *scopes) {
  mcp_serving *serving = ctx;
  const idem_alloc *alloc = &serving->endpoint->alloc;
  if (!serving->needed_scopes)
    serving->needed_scopes = idem__strndup(alloc, scopes, strlen(scopes));
}

static void on_confirmed(idem_status status, void *user) {
  unconfirmed *these = user;
  mcp_serving *serving = these->serving;
  if (serving && status != IDEM_OK) serving->unavailable = true;
  if (--these->changes) return;
  idem_alloc alloc = these->alloc;
  idem__free(&alloc, these);
  if (!serving) return;
  serving->unconfirmed = NULL;
  idem__http_serving_heard(serving);
}

/* Without memory nothing is changed, and the client is told so. */
static void change_unasked(mcp_serving *serving, const idem__session_change *change) {
  unconfirmed *these = serving->unconfirmed;
  if (!these) {
    these = idem__calloc(&serving->endpoint->alloc, sizeof *these);
    serving->unavailable |= !these;
    if (!these) return;
    *these = (unconfirmed){.alloc = serving->endpoint->alloc, .serving = serving};
    serving->unconfirmed = these;
  }
  these->changes++;
  idem__http_session_change(serving->session, serving->endpoint->queue, change, on_confirmed,
                            these);
}

/* A change that nobody asked about comes of a notification, which is acknowledged when the store has it: who goes on
 * at another process of the same store must find it there. */
static void change_session(void *ctx, const idem__session_change *change, idem__edge_done done,
                           void *user) {
  mcp_serving *serving = ctx;
  if (!done) {
    change_unasked(serving, change);
    return;
  }
  idem__http_session_change(serving->session, serving->endpoint->queue, change, done, user);
}

static idem_status join(mcp_serving *serving, idem__http_session *session);

static void on_opened(idem__http_session *session, idem_status status, void *user) {
  mcp_serving *serving = user;
  if (status == IDEM_OK) status = join(serving, session);
  if (status == IDEM_OK) {
    serving->new_session = true;
  } else if (session) { /* nobody will learn its id */
    idem__http_session_end(session);
    idem__http_session_unref(session);
  }
  serving->opened(status, serving->opened_user);
}

static void open_session(void *ctx, const idem__revision *revision, yyjson_val *params,
                         idem__edge_done done, void *user) {
  mcp_serving *serving = ctx;
  serving->opened = done;
  serving->opened_user = user;
  idem__http_session_open(&(idem__session_first){.table = serving->endpoint->table,
                                                 .queue = serving->endpoint->queue,
                                                 .principal = serving->peer.principal,
                                                 .now_ms = idem__conn_now_ms(serving->peer.conn),
                                                 .revision = revision,
                                                 .params = params},
                          on_opened, serving, &serving->opening);
}

/* Questions travel on the event stream of the request. One that began may be taken up again as long as
 * the session lives. */
static bool can_reach(void *ctx) {
  mcp_serving *serving = ctx;
  return idem__http_serving_streams(serving) && !(serving->session && serving->session->ended);
}

static const idem__edge edge = {
    .can_reach = can_reach,
    .header = get_header,
    .set_status = set_status,
    .need_scopes = need_scopes,
    .open_session = open_session,
    .change_session = change_session,
};

/* ------------------------------------------------------------------ answers */

/* An answer on its way to another thread. */
typedef struct carried {
  idem_alloc alloc;
  idem__mcp_endpoint *endpoint;
  idem__http_session *session; /* counted */
  uint64_t id;
  size_t len;
  char text[];
} carried;

static void free_carried(carried *answer) {
  idem_alloc alloc = answer->alloc;
  idem__free(&alloc, answer);
}

static void deliver_carried(void *arg) {
  carried *answer = arg;
  idem__in_flight_lock(answer->session);
  const idem__session_post *post = idem__post_of_call(answer->session, answer->id);
  idem_conn *target = post && post->endpoint == answer->endpoint ? post->conn : NULL;
  idem__in_flight_unlock(answer->session);
  if (target && idem__conn_message(target, answer->text, answer->len, NULL) == IDEM_OK) {
    idem__conn_tell_output(target);
  }
  idem__http_session_unref(answer->session);
  free_carried(answer);
}

static idem_status write_response(idem__buf *out, const idem__message *message) {
  idem__writer writer = idem__writer_on(out);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "jsonrpc", "2.0");
  idem__write_member_int(&writer, "id", message->id.integer);
  idem__write_member_value(&writer, "result", message->result);
  idem__write_member_value(&writer, "error", message->error);
  idem__write_object_end(&writer);
  return writer.status;
}

/* As long as the lock is held whoever asked is there, and so is its worker. */
static bool send_to_post(carried *answer) {
  idem__http_session *session = answer->session;
  bool sent = false;
  idem__http_session_ref(session); /* for the way */
  idem__in_flight_lock(session);
  const idem__session_post *post = idem__post_of_call(session, answer->id);
  if (post) {
    answer->endpoint = post->endpoint;
    sent = idem__worker_post(post->endpoint->worker, deliver_carried, answer) == IDEM_OK;
  }
  idem__in_flight_unlock(session);
  if (!sent) idem__http_session_unref(session);
  return sent;
}

static bool carry(mcp_serving *serving, const idem__message *message) {
  const idem_alloc *alloc = &serving->endpoint->alloc;
  idem__buf text;
  idem__buf_init(&text, alloc, idem__answer_bytes(serving->endpoint->worker->server));
  carried *answer = write_response(&text, message) == IDEM_OK
                        ? idem__malloc(alloc, sizeof *answer + text.len)
                        : NULL;
  if (answer) {
    *answer = (carried){.alloc = *alloc,
                        .session = serving->session,
                        .id = (uint64_t)message->id.integer,
                        .len = text.len};
    memcpy(answer->text, text.data, text.len);
  }
  idem__buf_deinit(&text);
  if (!answer) return false;
  bool sent = send_to_post(answer);
  if (!sent) free_carried(answer);
  return sent;
}

/* The client answers a question of ours: it goes to whoever asked it, on whichever thread. */
static bool on_response(idem_conn *conn, const idem__message *message) {
  mcp_serving *serving = IDEM__CONTAINER(idem__mcp_peer_of(conn), mcp_serving, peer);
  if (!serving->session || message->id.kind != IDEM__ID_INTEGER) return false;
  idem__in_flight_lock(serving->session);
  const idem__session_post *post =
      idem__post_of_call(serving->session, (uint64_t)message->id.integer);
  const idem__mcp_endpoint *endpoint = post ? post->endpoint : NULL;
  idem_conn *target = post ? post->conn : NULL;
  idem__in_flight_unlock(serving->session);
  if (!target || target == conn) return false;
  if (endpoint != serving->endpoint) return carry(serving, message);
  idem__conn_take_response(target, message);
  return true;
}

/* ------------------------------------------------------------- ids in flight */

/* Equal ids have equal keys; one too long for the room given comes from the allocator. */
typedef struct id_key {
  const idem_alloc *alloc;
  char *at;
  size_t len;
  char room[128];
} id_key;

static bool make_key(const idem__http_session *session, const idem__id *id, id_key *key) {
  bool usual = id->kind == IDEM__ID_INTEGER || id->kind == IDEM__ID_NUMBER;
  if (!usual && id->kind != IDEM__ID_STRING) return false;
  size_t most = idem__id_key_max(id);
  key->alloc = &session->table->alloc;
  key->at = most <= sizeof key->room ? key->room : idem__malloc(key->alloc, most);
  if (!key->at) return false;
  key->len = idem__id_key(id, key->at);
  return true;
}

static void free_key(id_key *key) {
  if (key->at != key->room) idem__free(key->alloc, key->at);
}

/* With the lock held: the mcp_serving of this session, on any thread, that has the id in flight. */
static mcp_serving *find_claim(const idem__http_session *session, const id_key *key) {
  idem__session_post *holder = idem__claim_holder(session, key->at, key->len);
  return holder ? IDEM__CONTAINER(holder, mcp_serving, post) : NULL;
}

/* This thread's mcp_serving of a session that owes an answer to an id; NULL: none. It stays: it is ours. */
static mcp_serving *find_owing(idem__http_session *session, const idem__mcp_endpoint *endpoint,
                               const idem__id *id) {
  id_key key;
  if (!make_key(session, id, &key)) return NULL;
  idem__in_flight_lock(session);
  mcp_serving *found = find_claim(session, &key);
  if (found && found->post.endpoint != endpoint) found = NULL;
  idem__in_flight_unlock(session);
  free_key(&key);
  return found && idem__conn_owes(found->peer.conn, id) ? found : NULL;
}

static void cancel_serving(mcp_serving *owing, const idem__id *id) {
  if (idem__conn_cancel_id(owing->peer.conn, id)) idem__http_serving_cancelled(owing);
}

/* A cancellation on its way to another thread, where the request may be. */
typedef struct far_cancel {
  idem_alloc alloc;
  idem__mcp_endpoint *endpoint;
  idem__http_session *session; /* counted */
  idem__id id;
  char bytes[];
} far_cancel;

static void cancel_there(void *arg) {
  far_cancel *order = arg;
  mcp_serving *owing = find_owing(order->session, order->endpoint, &order->id);
  if (owing) cancel_serving(owing, &order->id);
  idem__http_session_unref(order->session);
  idem_alloc alloc = order->alloc;
  idem__free(&alloc, order);
}

/* With the lock of what is in flight held, so that the other endpoint is still there. Strings have a decoded text, too. */
static void send_far(const mcp_serving *serving, idem__mcp_endpoint *endpoint, const idem__id *id) {
  const idem_alloc *alloc = &serving->endpoint->alloc;
  size_t text_len = id->kind == IDEM__ID_STRING ? id->text_len : 0;
  far_cancel *order = idem__malloc(alloc, sizeof *order + id->raw_len + text_len);
  if (!order) return;
  *order =
      (far_cancel){.alloc = *alloc, .endpoint = endpoint, .session = serving->session, .id = *id};
  memcpy(order->bytes, id->raw, id->raw_len);
  if (text_len) memcpy(order->bytes + id->raw_len, id->text, text_len);
  order->id.raw = order->bytes;
  order->id.text = order->bytes + id->raw_len;
  order->id.text_len = text_len;
  idem__http_session_ref(order->session);
  if (idem__worker_post(endpoint->worker, cancel_there, order) == IDEM_OK) return;
  idem__http_session_unref(order->session); /* not the last: the serving holds it, too */
  idem__free(alloc, order);
}

/* Ids are a session's, but each POST has a conn of its own, and they may be on several threads. */
static bool in_flight_elsewhere(idem_conn *conn, const idem__id *id, bool cancel) {
  mcp_serving *serving = IDEM__CONTAINER(idem__mcp_peer_of(conn), mcp_serving, peer);
  id_key key;
  if (!serving->session || !make_key(serving->session, id, &key)) return false;
  idem__in_flight_lock(serving->session);
  mcp_serving *other = find_claim(serving->session, &key);
  if (other == serving) other = NULL;
  if (!other && !cancel) idem__claim_add(serving->session, &serving->post, key.at, key.len);
  bool far = other && other->endpoint != serving->endpoint;
  if (far && cancel) send_far(serving, other->endpoint, id);
  idem__in_flight_unlock(serving->session);
  free_key(&key);
  /* One of our own thread does not go away meanwhile. */
  if (other && cancel && !far) cancel_serving(other, id);
  return other != NULL;
}

/* -------------------------------------------------------------------- POSTs */

static void whose(const idem_conn *conn, idem__whose *out) {
  const mcp_serving *serving = IDEM__CONTAINER(idem__mcp_peer_of(conn), mcp_serving, peer);
  out->client = idem__mcp_peer_client(&serving->peer);
  out->session = serving->session ? serving->session->id : NULL;
}

static idem_status open_serving(void *at, idem_conn *conn, void *user) {
  mcp_serving *serving = at;
  serving->endpoint = user;
  idem__mcp_peer_init(&serving->peer, serving->endpoint->worker, conn);
  serving->peer.edge = &edge;
  serving->peer.edge_ctx = serving;
  idem__conn_attach(conn, &serving->peer, NULL);
  idem__conn_set_siblings(conn, &(idem__conn_siblings){.stray_response = on_response,
                                                       .in_flight_elsewhere = in_flight_elsewhere});
  idem__conn_set_whose(conn, whose);
  return IDEM_OK;
}

static void close_serving(void *at) { idem__mcp_peer_deinit(&((mcp_serving *)at)->peer); }

/* The caller's count of the session is the mcp_serving's then, unless there is no memory. */
static idem_status join(mcp_serving *serving, idem__http_session *session) {
  idem_conn *conn = serving->peer.conn;
  serving->post.endpoint = serving->endpoint;
  serving->post.conn = conn;
  idem_status status = idem__post_join(session, &serving->post);
  if (status != IDEM_OK) return status;
  atomic_fetch_add(&session->under_way, 1);
  serving->session = session;
  serving->peer.session = &session->legacy;
  idem__conn_count_calls_from(conn, serving->post.first_call);
  idem__conn_allow_batches(conn, idem__revision_has(session->legacy.revision, IDEM__R_BATCH));
  return IDEM_OK;
}

/* Nobody waits for what the store was asked. */
static void stop_waiting(mcp_serving *serving) {
  idem__store_forget(serving->finding.pending);
  if (serving->unconfirmed) serving->unconfirmed->serving = NULL;
  serving->unconfirmed = NULL;
  if (!serving->opening) return;
  idem__session_opening_abandon(serving->opening);
  serving->opened(IDEM_E_CLOSED, serving->opened_user);
}

static void leave(mcp_serving *serving) {
  idem__http_session *session = serving->session;
  stop_waiting(serving);
  if (!session) return;
  idem__session_event_forget(&serving->event);
  idem__post_leave(session, &serving->post);
  atomic_fetch_sub(&session->under_way, 1);
  serving->session = NULL;
  serving->peer.session = NULL;
  idem__http_session_unref(session);
}

static void end_serving(void *at) {
  mcp_serving *serving = at;
  leave(serving);
  serving->peer.assumed = NULL;
  serving->peer.principal = "";
  idem__free(&serving->endpoint->alloc, serving->long_principal);
  idem__free(&serving->endpoint->alloc, serving->needed_scopes);
  serving->long_principal = serving->needed_scopes = NULL;
  idem__mcp_peer_set_grant(&serving->peer, NULL);
  serving->request = NULL;
}

static void take_leave_of_request(void *at) { ((mcp_serving *)at)->request = NULL; }

static idem__http_when refuse(idem_http_exchange *exchange, const idem__http_refusal *refusal) {
  idem__http_refuse(exchange, refusal, NULL);
  return IDEM__HTTP_REFUSED;
}

/* The revision a legacy request without a session speaks: as its header says, or 2025-03-26. */
static const idem__revision *assumed(const mcp_serving *serving, bool has_header,
                                     const idem__revision *named) {
  if (!idem__session_table_stateless(serving->endpoint->table)) return NULL;
  if (!has_header) return idem__revision_find("2025-03-26", 10);
  return serving->modern ? NULL : named;
}

/* A version header that is not served is refused, unless the message itself may claim one: then the gate
 * compares the two. */
static bool version_fine(const mcp_serving *serving, bool has_header, const idem__revision *named) {
  if (!has_header) return true;
  return named && (serving->endpoint->worker->server->opts.revisions & named->bit);
}

/* Most are a token's digest or nothing, so that a mcp_serving that waits keeps no more room than for one. */
static bool name_principal(mcp_serving *serving, const idem_http_exchange *exchange,
                           const idem_http_request *request) {
  char text[IDEM__PRINCIPAL];
  serving->peer.principal_claimed =
      idem__mcp_principal(idem__http_exchange_conn(exchange), request, text);
  size_t len = strlen(text);
  char *to = serving->principal;
  if (len >= sizeof serving->principal)
    to = serving->long_principal = idem__malloc(&serving->endpoint->alloc, len + 1);
  if (!to) return false;
  memcpy(to, text, len + 1);
  serving->peer.principal = to;
  idem__mcp_peer_set_grant(&serving->peer,
                           idem__http_conn_grant(idem__http_exchange_conn(exchange)));
  return true;
}

static const idem__http_refusal unavailable = {.status = 503, .reason = "unavailable"};
static const idem__http_refusal no_session = {
    .status = 404,
    .reason = "not-initialized",
    .hint = "the session is unknown or has ended: initialize again"};

/* Why it may not begin; NULL: it may. Where the store does not say, its message is taken in all the same, so
 * that it is refused with its id. */
static const idem__http_refusal *enter(mcp_serving *serving, idem__http_session *session,
                                       idem_status status) {
  if (status == IDEM_E_NOTFOUND) return &no_session;
  serving->unavailable = serving->peer.unavailable = session == NULL;
  if (!session) return NULL;
  if (join(serving, session) != IDEM_OK) {
    idem__http_session_unref(session);
    return &unavailable;
  }
  return serving->bad_version ? &serving->endpoint->bad_version : NULL;
}

/* The session was looked for while the exchange was held. */
static void on_found_later(idem__http_session *session, idem_status status, void *user) {
  mcp_serving *serving = user;
  idem__http_serving_begin(serving, enter(serving, session, status));
}

typedef struct found_now {
  mcp_serving *serving;
  bool found;
  const idem__http_refusal *refusal;
} found_now;

static void on_found_now(idem__http_session *session, idem_status status, void *user) {
  found_now *now = user;
  now->found = true;
  now->refusal = enter(now->serving, session, status);
}

/* The answer may be there at once. */
static idem__http_when find_session(mcp_serving *serving, idem_http_exchange *exchange,
                                    idem__view id) {
  found_now now = {.serving = serving};
  idem__session_finding *finding = &serving->finding;
  *finding = (idem__session_finding){.table = serving->endpoint->table,
                                     .queue = serving->endpoint->queue,
                                     .principal = serving->peer.principal,
                                     .found = on_found_now,
                                     .user = &now};
  idem__http_session_find(finding, id, idem__http_exchange_now(exchange));
  finding->found = on_found_later;
  finding->user = serving;
  if (!now.found) return IDEM__HTTP_LATER;
  return now.refusal ? refuse(exchange, now.refusal) : IDEM__HTTP_NOW;
}

static idem__http_when begin_serving(void *at, idem_http_exchange *exchange,
                                     const idem_http_request *request) {
  mcp_serving *serving = at;
  idem__view id = idem__http_given_value(request, IDEM__MCP_H_SESSION);
  idem__view version = idem__http_given_value(request, IDEM__MCP_H_VERSION);
  const idem__revision *named = version.at ? idem__revision_find(version.at, version.len) : NULL;
  bool modern = serving->modern = named && idem__revision_has(named, IDEM__R_MODERN);
  serving->request = request;
  serving->status = 0;
  serving->stream = 0;
  serving->new_session = serving->numbered = false;
  serving->bad_version = !version_fine(serving, version.at != NULL, named);
  serving->unavailable = serving->peer.unavailable = false;
  serving->peer.assumed = NULL;
  idem__conn_allow_batches(serving->peer.conn, false);
  if (!name_principal(serving, exchange, request)) return refuse(exchange, &unavailable);
  serving->has_session_header = id.at != NULL;
  if (id.at && !modern) return find_session(serving, exchange, id);
  if (!id.at) serving->peer.assumed = assumed(serving, version.at != NULL, named);
  if (serving->peer.assumed && idem__revision_has(serving->peer.assumed, IDEM__R_BATCH)) {
    idem__conn_allow_batches(serving->peer.conn, true);
  }
  return IDEM__HTTP_NOW;
}

static uint16_t answer_status(void *at, uint16_t otherwise) {
  const mcp_serving *serving = at;
  if (serving->status) return serving->status;
  /* What is no message at all is 400; errors of handlers travel with 200. */
  return otherwise;
}

/* What is not answered belongs to a session, where the era has them. */
static bool belongs(const mcp_serving *serving, idem__message_kind kind) {
  if (serving->session) return true;
  return kind != IDEM__RESPONSE && (serving->modern || serving->peer.assumed);
}

static uint16_t silent_status(void *at, idem__message_kind kind) {
  const mcp_serving *serving = at;
  if (serving->unavailable) return 503;
  if (serving->bad_version || !belongs(serving, kind)) return 400;
  return 202;
}

static bool silent_waits(void *at) { return ((const mcp_serving *)at)->unconfirmed != NULL; }

static void silent_refusal(void *at, idem__message_kind kind, idem__http_refusal *refusal) {
  const mcp_serving *serving = at;
  if (serving->unavailable) {
    *refusal = unavailable;
  } else if (serving->bad_version) {
    *refusal = serving->endpoint->bad_version;
  } else if (!belongs(serving, kind)) {
    refusal->reason = "not-initialized";
    refusal->hint = "send the Mcp-Session-Id that initialize gave";
  }
}

static void add_headers(void *at, idem__buf *out) {
  mcp_serving *serving = at;
  if (serving->unavailable) idem__buf_puts(out, "Retry-After: 1\r\n");
  if (serving->needed_scopes && serving->status == 403) {
    const idem_http_exchange *exchange = idem__http_serving_exchange(serving);
    const char *stem = idem__http_conn_challenge(idem__http_exchange_conn(exchange));
    idem__buf_printf(out, "WWW-Authenticate: %s, error=\"insufficient_scope\", scope=\"%s\"\r\n",
                     stem, serving->needed_scopes);
  }
  if (!serving->new_session) return;
  idem__buf_printf(out, "Mcp-Session-Id: %s\r\n", serving->session->id);
}

/* ------------------------------------------------------------------- streams */

static bool is_resumable(const mcp_serving *serving) { return serving->session != NULL; }

/* An event without data, so that a client that loses the stream at once can come back. */
static void write_first(const mcp_serving *serving, idem__buf *out) {
  if (!serving->stream) return; /* the session has ended: nobody will come back */
  if (!idem__revision_has(serving->session->legacy.revision, IDEM__R_PRIME_EVENT)) return;
  idem__buf_printf(out, "id: %x-0\nretry: 500\ndata:\n\n", (unsigned)serving->stream);
}

/* Asks for a number; the store may give it at once, and then `*number` is it. */
typedef struct number_now {
  bool given;
  uint32_t number;
} number_now;

static void on_number_now(uint32_t number, void *user) {
  *(number_now *)user = (number_now){.given = true, .number = number};
}

static void prepare_event(mcp_serving *serving, number_now *now) {
  serving->event = (idem__session_event){.session = serving->session,
                                         .queue = serving->endpoint->queue,
                                         .added = on_number_now,
                                         .user = now};
}

static void on_stream_numbered(uint32_t number, void *user) {
  mcp_serving *serving = user;
  char text[64];
  idem__buf out;
  idem__buf_fixed(&out, text, sizeof text);
  serving->stream = number;
  write_first(serving, &out);
  idem__http_serving_write(serving, out.data, out.len);
}

static idem__http_when stream_begin(void *at, idem__buf *out) {
  mcp_serving *serving = at;
  number_now now = {.given = false};
  if (!is_resumable(serving)) return IDEM__HTTP_NOW;
  prepare_event(serving, &now);
  idem__http_session_next_stream(&serving->event);
  serving->event.added = on_stream_numbered;
  serving->event.user = serving;
  if (!now.given) return IDEM__HTTP_LATER;
  serving->stream = now.number;
  write_first(serving, out);
  return IDEM__HTTP_NOW;
}

/* Where nobody is there to read it, whoever has come back is told. */
static idem__http_when write_numbered(mcp_serving *serving, uint32_t number, idem__buf *out) {
  idem_status status =
      idem__session_event_write(out, serving->stream, number, serving->text, serving->text_len);
  if (!idem__http_serving_exchange(serving)) idem__server_wake(serving->endpoint->worker->server);
  serving->numbered = true;
  return status == IDEM_OK ? IDEM__HTTP_NOW : IDEM__HTTP_REFUSED;
}

static void on_event_numbered(uint32_t number, void *user) {
  mcp_serving *serving = user;
  idem__buf out;
  idem__buf_init(&out, &serving->endpoint->alloc,
                 2 * idem__answer_bytes(serving->endpoint->worker->server));
  bool written = write_numbered(serving, number, &out) == IDEM__HTTP_NOW;
  idem__http_serving_write(serving, out.data, written ? out.len : 0);
  idem__buf_deinit(&out);
}

static idem__http_when put_event(void *at, const char *text, size_t len, bool last,
                                 idem__buf *out) {
  mcp_serving *serving = at;
  number_now now = {.given = false};
  if (!is_resumable(serving) || !serving->stream) {
    idem_status status = idem__sse_put_event(out, "message", NULL, text, len);
    return status == IDEM_OK ? IDEM__HTTP_NOW : IDEM__HTTP_REFUSED;
  }
  serving->text = text;
  serving->text_len = len;
  prepare_event(serving, &now);
  idem__http_session_add(&serving->event, serving->stream, text, len, last);
  serving->event.added = on_event_numbered;
  serving->event.user = serving;
  return now.given ? write_numbered(serving, now.number, out) : IDEM__HTTP_LATER;
}

static bool outlives(void *at) {
  const mcp_serving *serving = at;
  return is_resumable(serving) && !serving->session->ended;
}

static void note_detached(void *at, bool detached) {
  mcp_serving *serving = at;
  if (serving->session) idem__http_session_detached(serving->session, detached);
  if (detached)
    idem__worker_wake(serving->endpoint->worker); /* its time is the worker's from now on */
}

static bool is_orphaned(void *at) {
  const mcp_serving *serving = at;
  return serving->session && serving->session->ended;
}

/* Disconnecting is cancelling from 2026-07-28 on; before, who ended its input still wants its answer. */
static bool input_end_cancels(void *at) { return ((const mcp_serving *)at)->modern; }

/* The answer may be fetched later; the stream that waits for it is closed. */
static void leave_stream(idem__mcp_peer *peer) {
  mcp_serving *serving = IDEM__CONTAINER(peer, mcp_serving, peer);
  /* Before 2025-11-25 a stream does not begin with an event: there is nothing to come back after yet. */
  bool primed = is_resumable(serving) &&
                idem__revision_has(serving->session->legacy.revision, IDEM__R_PRIME_EVENT);
  if (primed || serving->numbered) idem__http_serving_leave(serving);
}

const idem__http_protocol idem__mcp_protocol = {
    .size = sizeof(mcp_serving),
    .open = open_serving,
    .close = close_serving,
    .begin = begin_serving,
    .taken = take_leave_of_request,
    .end = end_serving,
    .status = answer_status,
    .silent_status = silent_status,
    .silent_waits = silent_waits,
    .silent_refusal = silent_refusal,
    .headers = add_headers,
    .stream_begin = stream_begin,
    .event = put_event,
    .outlives = outlives,
    .input_end_cancels = input_end_cancels,
    .detached = note_detached,
    .orphaned = is_orphaned,
};

void idem_leave_stream(idem_request *request) {
  idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(request));
  if (peer && peer->edge == &edge) leave_stream(peer);
}

bool idem__mcp_principal(const idem_http_conn *conn, const idem_http_request *request,
                         char out[IDEM__PRINCIPAL]) {
  const char *told = idem__http_conn_principal(conn);
  idem__view token = idem__http_known_value(request, IDEM__H_AUTHORIZATION);
  uint8_t digest[IDEM__SHA256_BYTES];
  idem__sha256 sha;
  out[0] = '\0';
  if (told) snprintf(out, IDEM__PRINCIPAL, "%s", told);
  if (told || !token.at) return false;
  idem__sha256_init(&sha);
  idem__sha256_add(&sha, token.at, token.len);
  idem__sha256_end(&sha, digest);
  for (size_t i = 0; i < sizeof digest; i++) snprintf(out + i * 2, 3, "%02x", digest[i]);
  return !idem__http_conn_checks_who(conn);
}
