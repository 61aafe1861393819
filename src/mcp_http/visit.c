/* visit.c - MCP's opinions about each POST: which session it belongs to, what its headers say,
 * which status an error of the protocol takes, where its events go. A guest of the JSON-RPC
 * endpoint (endpoint.c). */
#include "mcp_http.h"

#include <stdio.h>
#include <string.h>

/* What MCP keeps with each visit. */
typedef struct visit {
  idem__mcp_peer peer;
  idem__mcp_desk *desk;
  const idem__http_request *request; /* while the message is being taken in */
  idem__kept_session *session;       /* counted; NULL: none */
  bool new_session;                  /* its id goes into the answer's head */
  bool has_session_header;
  bool modern; /* its header says so, as it must */
  uint16_t status;
  uint32_t stream; /* 0: not one yet */
  idem__asker asker;
  char *long_principal; /* one that does not fit; NULL: it does */
  char principal[2 * IDEM__SHA256_BYTES + 1];
} visit;

/* --------------------------------------------------------------- the edge */

static bool get_header(void *ctx, const char *name, const char **value, size_t *len) {
  const visit *guest = ctx;
  if (!guest->request) return false;
  idem__view found = idem__http_header_value(guest->request, name);
  *value = found.at;
  *len = found.len;
  return found.at != NULL;
}

static void set_status(void *ctx, int status) { ((visit *)ctx)->status = (uint16_t)status; }

static idem_status change_session(void *ctx, const idem__session_change *change) {
  visit *guest = ctx;
  return idem__kept_change(guest->session, change);
}

static idem_status join(visit *guest, idem__kept_session *session);

static idem_status open_session(void *ctx, const idem__revision *revision, yyjson_val *params,
                                idem__mcp_session **out) {
  visit *guest = ctx;
  idem__kept_session *session;
  idem_status status =
      idem__kept_open(guest->desk->shop, guest->peer.principal, idem__conn_now_ms(guest->peer.conn),
                      revision, params, &session);
  if (status != IDEM_OK) return status;
  status = join(guest, session);
  if (status != IDEM_OK) { /* nobody will learn its id */
    idem__kept_end(session);
    idem__kept_unref(session);
    return status;
  }
  guest->new_session = true;
  *out = &session->legacy;
  return IDEM_OK;
}

/* Questions travel on the event stream of the request. One that began may be taken up again as long as
 * the session lives. */
static bool can_reach(void *ctx) {
  visit *guest = ctx;
  return idem__http_visit_streams(guest) && !(guest->session && guest->session->ended);
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
  idem__mcp_desk *desk;
  idem__kept_session *session; /* counted */
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
  const idem__asker *asker = idem__asker_of_call(answer->session, answer->id);
  idem_conn *target = asker && asker->desk == answer->desk ? asker->conn : NULL;
  idem__in_flight_unlock(answer->session);
  if (target && idem__conn_message(target, answer->text, answer->len, NULL) == IDEM_OK) {
    idem__conn_tell_output(target);
  }
  idem__kept_unref(answer->session);
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

/* As long as the lock is held whoever asked is there, and so is its hub. */
static bool post_to_asker(carried *answer) {
  idem__kept_session *session = answer->session;
  bool sent = false;
  idem__kept_ref(session); /* for the way */
  idem__in_flight_lock(session);
  const idem__asker *asker = idem__asker_of_call(session, answer->id);
  if (asker) {
    answer->desk = asker->desk;
    sent = idem__hub_post(asker->desk->hub, deliver_carried, answer) == IDEM_OK;
  }
  idem__in_flight_unlock(session);
  if (!sent) idem__kept_unref(session);
  return sent;
}

static bool carry(visit *guest, const idem__message *message) {
  const idem_alloc *alloc = &guest->desk->alloc;
  idem__buf text;
  idem__buf_init(&text, alloc, SIZE_MAX / 4);
  carried *answer = write_response(&text, message) == IDEM_OK
                        ? idem__malloc(alloc, sizeof *answer + text.len)
                        : NULL;
  if (answer) {
    *answer = (carried){.alloc = *alloc,
                        .session = guest->session,
                        .id = (uint64_t)message->id.integer,
                        .len = text.len};
    memcpy(answer->text, text.data, text.len);
  }
  idem__buf_deinit(&text);
  if (!answer) return false;
  bool sent = post_to_asker(answer);
  if (!sent) free_carried(answer);
  return sent;
}

/* The client answers a question of ours: it goes to whoever asked it, on whichever thread. */
static bool on_response(idem_conn *conn, const idem__message *message) {
  visit *guest = IDEM__CONTAINER(idem__mcp_peer_of(conn), visit, peer);
  if (!guest->session || message->id.kind != IDEM__ID_INTEGER) return false;
  idem__in_flight_lock(guest->session);
  const idem__asker *asker = idem__asker_of_call(guest->session, (uint64_t)message->id.integer);
  const idem__mcp_desk *desk = asker ? asker->desk : NULL;
  idem_conn *target = asker ? asker->conn : NULL;
  idem__in_flight_unlock(guest->session);
  if (!target || target == conn) return false;
  if (desk != guest->desk) return carry(guest, message);
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

static bool make_key(const idem__kept_session *session, const idem__id *id, id_key *key) {
  bool usual = id->kind == IDEM__ID_INTEGER || id->kind == IDEM__ID_NUMBER;
  if (!usual && id->kind != IDEM__ID_STRING) return false;
  size_t most = idem__id_key_max(id);
  key->alloc = &session->shop->alloc;
  key->at = most <= sizeof key->room ? key->room : idem__malloc(key->alloc, most);
  if (!key->at) return false;
  key->len = idem__id_key(id, key->at);
  return true;
}

static void free_key(id_key *key) {
  if (key->at != key->room) idem__free(key->alloc, key->at);
}

/* With the lock held: the visit of this session, on any thread, that has the id in flight. */
static visit *find_claim(const idem__kept_session *session, const id_key *key) {
  idem__asker *holder = idem__claim_holder(session, key->at, key->len);
  return holder ? IDEM__CONTAINER(holder, visit, asker) : NULL;
}

/* This thread's visit of a session that owes an answer to an id; NULL: none. It stays: it is ours. */
static visit *find_owing(idem__kept_session *session, const idem__mcp_desk *desk,
                         const idem__id *id) {
  id_key key;
  if (!make_key(session, id, &key)) return NULL;
  idem__in_flight_lock(session);
  visit *found = find_claim(session, &key);
  if (found && found->asker.desk != desk) found = NULL;
  idem__in_flight_unlock(session);
  free_key(&key);
  return found && idem__conn_owes(found->peer.conn, id) ? found : NULL;
}

static void cancel_visit(visit *owing, const idem__id *id) {
  if (idem__conn_cancel_id(owing->peer.conn, id)) idem__http_visit_cancelled(owing);
}

/* A cancellation on its way to another thread, where the request may be. */
typedef struct far_cancel {
  idem_alloc alloc;
  idem__mcp_desk *desk;
  idem__kept_session *session; /* counted */
  idem__id id;
  char bytes[];
} far_cancel;

static void cancel_there(void *arg) {
  far_cancel *order = arg;
  visit *owing = find_owing(order->session, order->desk, &order->id);
  if (owing) cancel_visit(owing, &order->id);
  idem__kept_unref(order->session);
  idem_alloc alloc = order->alloc;
  idem__free(&alloc, order);
}

/* With the lock of what is in flight held, so that the other desk is still there. Strings have a decoded text, too. */
static void send_far(const visit *guest, idem__mcp_desk *desk, const idem__id *id) {
  const idem_alloc *alloc = &guest->desk->alloc;
  size_t text_len = id->kind == IDEM__ID_STRING ? id->text_len : 0;
  far_cancel *order = idem__malloc(alloc, sizeof *order + id->raw_len + text_len);
  if (!order) return;
  *order = (far_cancel){.alloc = *alloc, .desk = desk, .session = guest->session, .id = *id};
  memcpy(order->bytes, id->raw, id->raw_len);
  if (text_len) memcpy(order->bytes + id->raw_len, id->text, text_len);
  order->id.raw = order->bytes;
  order->id.text = order->bytes + id->raw_len;
  order->id.text_len = text_len;
  idem__kept_ref(order->session);
  if (idem__hub_post(desk->hub, cancel_there, order) == IDEM_OK) return;
  idem__kept_unref(order->session); /* not the last: the guest holds it, too */
  idem__free(alloc, order);
}

/* Ids are a session's, but each POST has a conn of its own, and they may be on several threads. */
static bool in_flight_elsewhere(idem_conn *conn, const idem__id *id, bool cancel) {
  visit *guest = IDEM__CONTAINER(idem__mcp_peer_of(conn), visit, peer);
  id_key key;
  if (!guest->session || !make_key(guest->session, id, &key)) return false;
  idem__in_flight_lock(guest->session);
  visit *other = find_claim(guest->session, &key);
  if (other == guest) other = NULL;
  if (!other && !cancel) idem__claim_add(guest->session, &guest->asker, key.at, key.len);
  bool far = other && other->desk != guest->desk;
  if (far && cancel) send_far(guest, other->desk, id);
  idem__in_flight_unlock(guest->session);
  free_key(&key);
  /* One of our own thread does not go away meanwhile. */
  if (other && cancel && !far) cancel_visit(other, id);
  return other != NULL;
}

/* -------------------------------------------------------------------- visits */

static void whose(const idem_conn *conn, idem__whose *out) {
  const visit *guest = IDEM__CONTAINER(idem__mcp_peer_of(conn), visit, peer);
  out->client = guest->peer.principal;
  out->session = guest->session ? guest->session->id : NULL;
}

static idem_status open_visit(void *at, idem_conn *conn, void *user) {
  visit *guest = at;
  guest->desk = user;
  idem__mcp_peer_init(&guest->peer, guest->desk->hub, conn);
  guest->peer.edge = &edge;
  guest->peer.edge_ctx = guest;
  idem__conn_attach(conn, &guest->peer, NULL);
  idem__conn_set_siblings(conn, &(idem__conn_siblings){.stray_response = on_response,
                                                       .in_flight_elsewhere = in_flight_elsewhere});
  idem__conn_set_whose(conn, whose);
  return IDEM_OK;
}

static void close_visit(void *at) { idem__mcp_peer_deinit(&((visit *)at)->peer); }

/* The caller's count of the session is the visit's then, unless there is no memory. */
static idem_status join(visit *guest, idem__kept_session *session) {
  idem_conn *conn = guest->peer.conn;
  guest->asker.desk = guest->desk;
  guest->asker.conn = conn;
  idem_status status = idem__asker_join(session, &guest->asker);
  if (status != IDEM_OK) return status;
  atomic_fetch_add(&session->visits, 1);
  guest->session = session;
  guest->peer.session = &session->legacy;
  idem__conn_count_calls_from(conn, guest->asker.first_call);
  idem__conn_allow_batches(conn, idem__revision_has(session->legacy.revision, IDEM__R_BATCH));
  return IDEM_OK;
}

static void leave(visit *guest) {
  idem__kept_session *session = guest->session;
  if (!session) return;
  idem__asker_leave(session, &guest->asker);
  atomic_fetch_sub(&session->visits, 1);
  guest->session = NULL;
  guest->peer.session = NULL;
  idem__kept_unref(session);
}

static void end_visit(void *at) {
  visit *guest = at;
  leave(guest);
  guest->peer.assumed = NULL;
  guest->peer.principal = "";
  idem__free(&guest->desk->alloc, guest->long_principal);
  guest->long_principal = NULL;
  guest->request = NULL;
}

static bool refuse(idem__http_exchange *exchange, uint16_t status, const char *reason) {
  idem__http_refuse(exchange, &(idem__http_refusal){.status = status, .reason = reason}, NULL);
  return false;
}

/* The revision a legacy request without a session speaks: as its header says, or 2025-03-26. */
static const idem__revision *assumed(const visit *guest, idem__view version) {
  if (!idem__shop_stateless(guest->desk->shop)) return NULL;
  if (!version.at) return idem__revision_find("2025-03-26", 10);
  const idem__revision *revision = idem__revision_find(version.at, version.len);
  return revision && !idem__revision_has(revision, IDEM__R_MODERN) ? revision : NULL;
}

/* A version header that no revision has is refused, unless the message itself claims one: then the
 * gate compares the two. */
static bool version_fine(idem__view version, const idem__kept_session *session) {
  if (!version.at || !session) return true;
  return idem__revision_find(version.at, version.len) != NULL;
}

/* Most are a token's digest or nothing, so that a visit that waits keeps no more room than for one. */
static bool name_principal(visit *guest, const idem__http_exchange *exchange,
                           const idem__http_request *request) {
  char text[IDEM__PRINCIPAL];
  idem__mcp_principal(idem__http_exchange_conn(exchange), request, text);
  size_t len = strlen(text);
  char *to = guest->principal;
  if (len >= sizeof guest->principal)
    to = guest->long_principal = idem__malloc(&guest->desk->alloc, len + 1);
  if (!to) return false;
  memcpy(to, text, len + 1);
  guest->peer.principal = to;
  return true;
}

static bool begin_visit(void *at, idem__http_exchange *exchange,
                        const idem__http_request *request) {
  visit *guest = at;
  idem__view id = idem__http_header_value(request, "mcp-session-id");
  idem__view version = idem__http_header_value(request, "mcp-protocol-version");
  const idem__revision *named = version.at ? idem__revision_find(version.at, version.len) : NULL;
  bool modern = guest->modern = named && idem__revision_has(named, IDEM__R_MODERN);
  guest->request = request;
  guest->status = 0;
  guest->stream = 0;
  guest->new_session = false;
  guest->peer.assumed = NULL;
  idem__conn_allow_batches(guest->peer.conn, false);
  if (!name_principal(guest, exchange, request)) return refuse(exchange, 503, "unavailable");
  guest->has_session_header = id.at != NULL;
  if (id.at && !modern) {
    idem__kept_session *session = idem__kept_find(guest->desk->shop, id, guest->peer.principal,
                                                  idem__http_exchange_now(exchange));
    if (!session) return refuse(exchange, 404, "not-initialized");
    if (join(guest, session) != IDEM_OK) {
      idem__kept_unref(session);
      return refuse(exchange, 503, "unavailable");
    }
    if (!version_fine(version, session)) return refuse(exchange, 400, "bad-version");
  } else if (!id.at) {
    guest->peer.assumed = assumed(guest, version);
  }
  return true;
}

static uint16_t answer_status(void *at, uint16_t otherwise) {
  const visit *guest = at;
  if (guest->status) return guest->status;
  /* What is no message at all is 400; errors of handlers travel with 200. */
  return otherwise;
}

static uint16_t silent_status(void *at, idem__message_kind kind) {
  const visit *guest = at;
  if (kind == IDEM__RESPONSE && !guest->session) return 400;
  return 202;
}

static void add_headers(void *at, idem__buf *out) {
  visit *guest = at;
  if (!guest->new_session) return;
  idem__buf_printf(out, "Mcp-Session-Id: %s\r\n", guest->session->id);
}

/* ------------------------------------------------------------------- streams */

static bool is_resumable(const visit *guest) { return guest->session != NULL; }

static void stream_begin(void *at, idem__buf *out) {
  visit *guest = at;
  if (!is_resumable(guest)) return;
  guest->stream = idem__kept_next_stream(guest->session);
  if (!guest->stream) return; /* the session has ended: nobody will come back */
  if (!idem__revision_has(guest->session->legacy.revision, IDEM__R_PRIME_EVENT)) return;
  /* An event without data, so that a client that loses the stream at once can come back. */
  idem__buf_printf(out, "id: %x-0\nretry: 500\ndata:\n\n", (unsigned)guest->stream);
}

static idem_status put_event(void *at, const char *text, size_t len, bool last, idem__buf *out) {
  visit *guest = at;
  if (!is_resumable(guest) || !guest->stream) {
    return idem__sse_put_event(out, "message", NULL, text, len);
  }
  idem_status status = idem__kept_event_add(guest->session, guest->stream, text, len, last, out);
  if (!idem__http_visit_exchange(guest)) idem__server_wake(guest->desk->hub->server);
  return status;
}

static bool outlives(void *at) {
  const visit *guest = at;
  return is_resumable(guest) && !guest->session->ended;
}

static void note_detached(void *at, bool detached) {
  visit *guest = at;
  if (guest->session) idem__kept_detached(guest->session, detached);
  if (detached) idem__hub_wake(guest->desk->hub); /* its time is the hub's from now on */
}

static bool is_orphaned(void *at) {
  const visit *guest = at;
  return guest->session && guest->session->ended;
}

/* Disconnecting is cancelling from 2026-07-28 on; before, who ended its input still wants its answer. */
static bool input_end_cancels(void *at) { return ((const visit *)at)->modern; }

/* The answer may be fetched later; the stream that waits for it is closed. */
static void leave_stream(idem__mcp_peer *peer) {
  visit *guest = IDEM__CONTAINER(peer, visit, peer);
  if (is_resumable(guest)) idem__http_visit_leave(guest);
}

const idem__http_guest idem__mcp_guest = {
    .size = sizeof(visit),
    .open = open_visit,
    .close = close_visit,
    .begin = begin_visit,
    .end = end_visit,
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
