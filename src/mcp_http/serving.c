/* serving.c - MCP's opinions about each POST: which session it belongs to, what its headers say,
 * which status an error of the protocol takes, where its events go. A serving of the JSON-RPC
 * endpoint (endpoint.c). */
#include "mcp_http.h"

#include <stdio.h>
#include <string.h>

/* What MCP keeps with each mcp_serving. */
typedef struct mcp_serving {
  idem__mcp_peer peer;
  idem__mcp_endpoint *endpoint;
  const idem__http_request *request; /* while the message is being taken in */
  idem__http_session *session;       /* counted; NULL: none */
  bool new_session;                  /* its id goes into the answer's head */
  bool has_session_header;
  bool modern; /* its header says so, as it must */
  uint16_t status;
  uint32_t stream; /* 0: not one yet */
  idem__session_post post;
  char *long_principal; /* one that does not fit; NULL: it does */
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

static idem_status change_session(void *ctx, const idem__session_change *change) {
  mcp_serving *serving = ctx;
  return idem__http_session_change(serving->session, change);
}

static idem_status join(mcp_serving *serving, idem__http_session *session);

static idem_status open_session(void *ctx, const idem__revision *revision, yyjson_val *params,
                                idem__mcp_session **out) {
  mcp_serving *serving = ctx;
  idem__http_session *session;
  idem_status status =
      idem__http_session_open(serving->endpoint->table, serving->peer.principal,
                              idem__conn_now_ms(serving->peer.conn), revision, params, &session);
  if (status != IDEM_OK) return status;
  status = join(serving, session);
  if (status != IDEM_OK) { /* nobody will learn its id */
    idem__http_session_end(session);
    idem__http_session_unref(session);
    return status;
  }
  serving->new_session = true;
  *out = &session->legacy;
  return IDEM_OK;
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
  idem__buf_init(&text, alloc, SIZE_MAX / 4);
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

/* -------------------------------------------------------------------- visits */

static void whose(const idem_conn *conn, idem__whose *out) {
  const mcp_serving *serving = IDEM__CONTAINER(idem__mcp_peer_of(conn), mcp_serving, peer);
  out->client = serving->peer.principal;
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
  atomic_fetch_add(&session->visits, 1);
  serving->session = session;
  serving->peer.session = &session->legacy;
  idem__conn_count_calls_from(conn, serving->post.first_call);
  idem__conn_allow_batches(conn, idem__revision_has(session->legacy.revision, IDEM__R_BATCH));
  return IDEM_OK;
}

static void leave(mcp_serving *serving) {
  idem__http_session *session = serving->session;
  if (!session) return;
  idem__post_leave(session, &serving->post);
  atomic_fetch_sub(&session->visits, 1);
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
  serving->long_principal = NULL;
  serving->request = NULL;
}

static bool refuse(idem__http_exchange *exchange, uint16_t status, const char *reason) {
  idem__http_refuse(exchange, &(idem__http_refusal){.status = status, .reason = reason}, NULL);
  return false;
}

/* The revision a legacy request without a session speaks: as its header says, or 2025-03-26. */
static const idem__revision *assumed(const mcp_serving *serving, idem__view version) {
  if (!idem__session_table_stateless(serving->endpoint->table)) return NULL;
  if (!version.at) return idem__revision_find("2025-03-26", 10);
  const idem__revision *revision = idem__revision_find(version.at, version.len);
  return revision && !idem__revision_has(revision, IDEM__R_MODERN) ? revision : NULL;
}

/* A version header that no revision has is refused, unless the message itself claims one: then the
 * gate compares the two. */
static bool version_fine(idem__view version, const idem__http_session *session) {
  if (!version.at || !session) return true;
  return idem__revision_find(version.at, version.len) != NULL;
}

/* Most are a token's digest or nothing, so that a mcp_serving that waits keeps no more room than for one. */
static bool name_principal(mcp_serving *serving, const idem__http_exchange *exchange,
                           const idem__http_request *request) {
  char text[IDEM__PRINCIPAL];
  idem__mcp_principal(idem__http_exchange_conn(exchange), request, text);
  size_t len = strlen(text);
  char *to = serving->principal;
  if (len >= sizeof serving->principal)
    to = serving->long_principal = idem__malloc(&serving->endpoint->alloc, len + 1);
  if (!to) return false;
  memcpy(to, text, len + 1);
  serving->peer.principal = to;
  return true;
}

static bool begin_serving(void *at, idem__http_exchange *exchange,
                          const idem__http_request *request) {
  mcp_serving *serving = at;
  idem__view id = idem__http_header_value(request, "mcp-session-id");
  idem__view version = idem__http_header_value(request, "mcp-protocol-version");
  const idem__revision *named = version.at ? idem__revision_find(version.at, version.len) : NULL;
  bool modern = serving->modern = named && idem__revision_has(named, IDEM__R_MODERN);
  serving->request = request;
  serving->status = 0;
  serving->stream = 0;
  serving->new_session = false;
  serving->peer.assumed = NULL;
  idem__conn_allow_batches(serving->peer.conn, false);
  if (!name_principal(serving, exchange, request)) return refuse(exchange, 503, "unavailable");
  serving->has_session_header = id.at != NULL;
  if (id.at && !modern) {
    idem__http_session *session = idem__http_session_find(
        serving->endpoint->table, id, serving->peer.principal, idem__http_exchange_now(exchange));
    if (!session) return refuse(exchange, 404, "not-initialized");
    if (join(serving, session) != IDEM_OK) {
      idem__http_session_unref(session);
      return refuse(exchange, 503, "unavailable");
    }
    if (!version_fine(version, session)) return refuse(exchange, 400, "bad-version");
  } else if (!id.at) {
    serving->peer.assumed = assumed(serving, version);
  }
  return true;
}

static uint16_t answer_status(void *at, uint16_t otherwise) {
  const mcp_serving *serving = at;
  if (serving->status) return serving->status;
  /* What is no message at all is 400; errors of handlers travel with 200. */
  return otherwise;
}

static uint16_t silent_status(void *at, idem__message_kind kind) {
  const mcp_serving *serving = at;
  if (kind == IDEM__RESPONSE && !serving->session) return 400;
  return 202;
}

static void add_headers(void *at, idem__buf *out) {
  mcp_serving *serving = at;
  if (!serving->new_session) return;
  idem__buf_printf(out, "Mcp-Session-Id: %s\r\n", serving->session->id);
}

/* ------------------------------------------------------------------- streams */

static bool is_resumable(const mcp_serving *serving) { return serving->session != NULL; }

static void stream_begin(void *at, idem__buf *out) {
  mcp_serving *serving = at;
  if (!is_resumable(serving)) return;
  serving->stream = idem__http_session_next_stream(serving->session);
  if (!serving->stream) return; /* the session has ended: nobody will come back */
  if (!idem__revision_has(serving->session->legacy.revision, IDEM__R_PRIME_EVENT)) return;
  /* An event without data, so that a client that loses the stream at once can come back. */
  idem__buf_printf(out, "id: %x-0\nretry: 500\ndata:\n\n", (unsigned)serving->stream);
}

static idem_status put_event(void *at, const char *text, size_t len, bool last, idem__buf *out) {
  mcp_serving *serving = at;
  if (!is_resumable(serving) || !serving->stream) {
    return idem__sse_put_event(out, "message", NULL, text, len);
  }
  idem_status status =
      idem__http_session_event_add(serving->session, serving->stream, text, len, last, out);
  if (!idem__http_serving_exchange(serving)) idem__server_wake(serving->endpoint->worker->server);
  return status;
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
  if (is_resumable(serving)) idem__http_serving_leave(serving);
}

const idem__http_protocol idem__mcp_protocol = {
    .size = sizeof(mcp_serving),
    .open = open_serving,
    .close = close_serving,
    .begin = begin_serving,
    .end = end_serving,
    .status = answer_status,
    .silent_status = silent_status,
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

void idem__mcp_principal(const idem__http_conn *conn, const idem__http_request *request,
                         char out[IDEM__PRINCIPAL]) {
  const char *told = idem__http_conn_principal(conn);
  idem__view token = idem__http_known_value(request, IDEM__H_AUTHORIZATION);
  uint8_t digest[IDEM__SHA256_BYTES];
  idem__sha256 sha;
  out[0] = '\0';
  if (told) snprintf(out, IDEM__PRINCIPAL, "%s", told);
  if (told || !token.at) return;
  idem__sha256_init(&sha);
  idem__sha256_add(&sha, token.at, token.len);
  idem__sha256_end(&sha, digest);
  for (size_t i = 0; i < sizeof digest; i++) snprintf(out + i * 2, 3, "%02x", digest[i]);
}
