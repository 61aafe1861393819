/* serving.c - MCP's opinions about each POST: which session it belongs to, what its headers say,
 * which status an error of the protocol takes, where its events go. A serving of the JSON-RPC
 * endpoint (endpoint.c). */
#include "serving.h"
#include "mcp_server/result.h"

#include <stdio.h>
#include <string.h>

/* What came of a message that is not answered and the store has not confirmed: changes of the session, what was carried to
 * another process. They outlive a serving that goes. */
typedef struct unconfirmed {
  idem_alloc alloc;
  idem__mcp_serving *serving; /* NULL: nobody waits any more */
  unsigned changes;
} unconfirmed;

/* --------------------------------------------------------------- the edge */

/* What elements of a batch are judged by in other turns, when its request is gone: in one that may be a batch no other header counts. */
#define VERSION_HEADER "mcp-protocol-version"
typedef struct idem__mcp_left {
  bool keyed, versioned;
  size_t version_len;
  char version[64];
} left_headers;

static bool get_left(const left_headers *left, const char *name, const char **value, size_t *len) {
  if (!left || !left->versioned || strcmp(name, VERSION_HEADER) != 0) return false;
  *value = left->version;
  *len = left->version_len;
  return true;
}

static bool get_header(void *ctx, const char *name, const char **value, size_t *len) {
  const idem__mcp_serving *serving = ctx;
  const idem_http_request *request = serving->request;
  if (!request) return get_left(serving->left, name, value, len);
  idem__http_known which = idem__http_known_header(request->given, name, strlen(name));
  idem__view found = which >= IDEM__H_GIVEN ? idem__mcp_given(request, which - IDEM__H_GIVEN)
                                            : idem__http_header_value(request, name);
  *value = found.at;
  *len = found.len;
  return found.at != NULL;
}

static bool get_key(void *ctx, const char **value, size_t *len) {
  const idem__mcp_serving *serving = ctx;
  if (!serving->request) {
    *value = "";
    *len = 0;
    return serving->left && serving->left->keyed;
  }
  idem__view key = idem__mcp_key(serving->request);
  *value = key.at;
  *len = key.len;
  return key.at != NULL;
}

static void mark_replayed(void *ctx) { ((idem__mcp_serving *)ctx)->replayed = true; }

static void set_status(void *ctx, int status) {
  ((idem__mcp_serving *)ctx)->status = (uint16_t)status;
}

/* Without memory the answer says 403 and not what for. */
static void need_scopes(void *ctx, const char *scopes) {
  idem__mcp_serving *serving = ctx;
  const idem_alloc *alloc = &serving->endpoint->alloc;
  if (!serving->needed_scopes)
    serving->needed_scopes = idem__strndup(alloc, scopes, strlen(scopes));
}

static void on_confirmed(idem_status status, void *user) {
  unconfirmed *these = user;
  idem__mcp_serving *serving = these->serving;
  if (serving && status == IDEM_E_NOTFOUND)
    serving->owner_gone = true;
  else if (serving && status != IDEM_OK)
    serving->unavailable = true;
  if (--these->changes) return;
  idem_alloc alloc = these->alloc;
  idem__free(&alloc, these);
  if (!serving) return;
  serving->unconfirmed = NULL;
  idem__http_serving_heard(serving);
}

void idem__serving_confirmed(const idem__store_answer *answer, void *user) {
  on_confirmed(answer->status, user);
}

void *idem__serving_await(idem__mcp_serving *serving) {
  unconfirmed *these = serving->unconfirmed;
  if (!these) {
    these = idem__calloc(&serving->endpoint->alloc, sizeof *these);
    serving->unavailable |= !these;
    if (!these) return NULL;
    *these = (unconfirmed){.alloc = serving->endpoint->alloc, .serving = serving};
    serving->unconfirmed = these;
  }
  these->changes++;
  return these;
}

/* Without memory nothing is changed, and the client is told so. */
static void change_unasked(idem__mcp_serving *serving, const idem__session_change *change) {
  void *these = idem__serving_await(serving);
  if (these)
    idem__http_session_change(serving->session, serving->endpoint->queue, change, on_confirmed,
                              these);
}

/* A change that nobody asked about comes of a notification, which is acknowledged when the store has it: who goes on
 * at another process of the same store must find it there. */
static void change_session(void *ctx, const idem__session_change *change, idem__edge_done done,
                           void *user) {
  idem__mcp_serving *serving = ctx;
  if (!done) {
    change_unasked(serving, change);
    return;
  }
  idem__http_session_change(serving->session, serving->endpoint->queue, change, done, user);
}

static idem_status join(idem__mcp_serving *serving, idem__http_session *session);

static void on_opened(idem__http_session *session, idem_status status, void *user) {
  idem__mcp_serving *serving = user;
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
  idem__mcp_serving *serving = ctx;
  serving->opened = done;
  serving->opened_user = user;
  idem__http_session_open(&(idem__session_first){.table = serving->endpoint->table,
                                                 .queue = serving->endpoint->queue,
                                                 .principal = serving->peer.principal,
                                                 .claimed = serving->peer.principal_claimed,
                                                 .now_ms = idem__conn_now_ms(serving->peer.conn),
                                                 .revision = revision,
                                                 .params = params},
                          on_opened, serving, &serving->opening);
}

/* Questions travel on the event stream of the request. One that began may be taken up again as long as
 * the session lives. */
static bool can_reach(void *ctx) {
  idem__mcp_serving *serving = ctx;
  return idem__http_serving_streams(serving) && !(serving->session && serving->session->ended);
}

static const idem__edge edge = {
    .can_reach = can_reach,
    .header = get_header,
    .key = get_key,
    .replayed = mark_replayed,
    .set_status = set_status,
    .need_scopes = need_scopes,
    .open_session = open_session,
    .change_session = change_session,
};

/* -------------------------------------------------------------------- POSTs */

static void whose(const idem_conn *conn, idem__whose *out) {
  const idem__mcp_serving *serving =
      IDEM_CONTAINER(idem__mcp_peer_of(conn), idem__mcp_serving, peer);
  out->client = idem__mcp_peer_client(&serving->peer);
  out->session = serving->session ? serving->session->id : NULL;
}

static idem_status open_serving(void *at, idem_conn *conn, void *user) {
  idem__mcp_serving *serving = at;
  serving->endpoint = user;
  idem__mcp_peer_init(&serving->peer, serving->endpoint->worker, conn);
  serving->peer.edge = &edge;
  serving->peer.edge_ctx = serving;
  idem__conn_attach(conn, &idem__mcp_peer_kind, &serving->peer);
  idem__conn_set_siblings(conn, &idem__mcp_siblings);
  idem__conn_set_whose(conn, whose);
  return IDEM_OK;
}

static void close_serving(void *at) { idem__mcp_peer_deinit(&((idem__mcp_serving *)at)->peer); }

/* The caller's count of the session is the idem__mcp_serving's then, unless there is no memory. */
static idem_status join(idem__mcp_serving *serving, idem__http_session *session) {
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
static void stop_waiting(idem__mcp_serving *serving) {
  idem__store_forget(serving->finding.pending);
  if (serving->unconfirmed) serving->unconfirmed->serving = NULL;
  serving->unconfirmed = NULL;
  if (!serving->opening) return;
  idem__session_opening_abandon(serving->opening);
  serving->opened(IDEM_E_CLOSED, serving->opened_user);
}

static void leave(idem__mcp_serving *serving) {
  idem__http_session *session = serving->session;
  stop_waiting(serving);
  if (!session) return;
  idem__session_event_forget(&serving->event);
  idem__post_leave(session, &serving->post);
  idem__mcp_stream_left(serving);
  atomic_fetch_sub(&session->under_way, 1);
  serving->session = NULL;
  serving->peer.session = NULL;
  idem__http_session_unref(session);
}

static void end_serving(void *at) {
  idem__mcp_serving *serving = at;
  leave(serving);
  serving->peer.assumed = NULL;
  serving->peer.principal = "";
  idem__free(&serving->endpoint->alloc, serving->long_principal);
  idem__free(&serving->endpoint->alloc, serving->needed_scopes);
  idem__free(&serving->endpoint->alloc, serving->left);
  serving->left = NULL;
  serving->long_principal = serving->needed_scopes = NULL;
  idem__mcp_peer_set_grant(&serving->peer, NULL);
  serving->request = NULL;
}

/* A version that is too long is none, cut off or not. */
static left_headers *keep_headers(idem__mcp_serving *serving) {
  const char *value;
  size_t len;
  left_headers *left = idem__calloc(&serving->endpoint->alloc, sizeof *left);
  if (!left) return NULL;
  left->keyed = get_key(serving, &value, &len);
  left->versioned = get_header(serving, VERSION_HEADER, &value, &len);
  left->version_len = left->versioned && len < sizeof left->version ? len : 0;
  if (left->version_len) memcpy(left->version, value, len);
  return left;
}

static void take_leave_of_request(void *at) {
  idem__mcp_serving *serving = at;
  if (idem__conn_waits(serving->peer.conn)) {
    serving->left = keep_headers(serving);
    if (!serving->left) idem__conn_refuse_new(serving->peer.conn, IDEM__UNAVAILABLE);
  }
  serving->request = NULL;
}

static idem__http_when refuse(idem_http_exchange *exchange, const idem__http_refusal *refusal) {
  idem__http_refuse(exchange, refusal, NULL);
  return IDEM__HTTP_REFUSED;
}

/* The revision a legacy request without a session speaks: as its header says, or 2025-03-26. NULL: not served so. */
static const idem__revision *assumed(const idem__mcp_serving *serving, bool has_header,
                                     const idem__revision *named) {
  const idem__revision *spoken = has_header ? named : idem__revision_find("2025-03-26", 10);
  if (!idem__session_table_stateless(serving->endpoint->table) || serving->modern) return NULL;
  bool served = spoken && (serving->endpoint->worker->server->opts.revisions & spoken->bit);
  return served ? spoken : NULL;
}

/* A version header that is not served is refused, unless the message itself may claim one: then the gate
 * compares the two. */
static bool version_fine(const idem__mcp_serving *serving, bool has_header,
                         const idem__revision *named) {
  if (!has_header) return true;
  return named && (serving->endpoint->worker->server->opts.revisions & named->bit);
}

/* Most are a token's digest or nothing, so that a idem__mcp_serving that waits keeps no more room than for one. */
static bool name_principal(idem__mcp_serving *serving, const idem_http_exchange *exchange,
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

const idem__http_refusal idem__mcp_store_away = {.status = 503,
                                                 .code = IDEM_RPC_INTERNAL_ERROR,
                                                 .reason = "unavailable",
                                                 .cause = IDEM__UNAVAILABLE_CAUSE};
static const idem__http_refusal unavailable = {.status = 503, .reason = "unavailable"};
static const idem__http_refusal no_session = {.status = 404,
                                              .reason = "unknown-session",
                                              .cause = "the session is unknown or has ended",
                                              .hint = "initialize again"};

/* Why it may not begin; NULL: it may. Where the store does not say, where there is no such session or no such version,
 * its message is taken in all the same, without a session, so that it is refused with its id. */
static const idem__http_refusal *enter(idem__mcp_serving *serving, idem__http_session *session,
                                       idem_status status) {
  serving->peer.unknown_session = !session && status == IDEM_E_NOTFOUND;
  serving->unavailable = serving->peer.unavailable = !session && !serving->peer.unknown_session;
  if (session && serving->bad_version) idem__http_session_unref(session);
  if (!session) idem__conn_allow_batches(serving->peer.conn, true); /* each of several, too */
  if (!session || serving->bad_version) return NULL;
  if (join(serving, session) != IDEM_OK) {
    idem__http_session_unref(session);
    return &unavailable;
  }
  return NULL;
}

/* The session was looked for while the exchange was held. */
static void on_found_later(idem__http_session *session, idem_status status, void *user) {
  idem__mcp_serving *serving = user;
  idem__http_serving_begin(serving, enter(serving, session, status));
}

/* It may have ended while its request waited for a turn. */
static void see_session(void *at) {
  idem__mcp_serving *serving = at;
  if (idem__mcp_serving_orphaned(serving)) serving->peer.unknown_session = true;
}

static void give_up(void *at) {
  idem__mcp_serving *serving = at;
  stop_waiting(serving);
  enter(serving, NULL, IDEM_E_CLOSED);
}

typedef struct found_now {
  idem__mcp_serving *serving;
  bool found;
  const idem__http_refusal *refusal;
} found_now;

static void on_found_now(idem__http_session *session, idem_status status, void *user) {
  found_now *now = user;
  now->found = true;
  now->refusal = enter(now->serving, session, status);
}

/* The answer may be there at once. */
static idem__http_when find_session(idem__mcp_serving *serving, idem_http_exchange *exchange,
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
  idem__mcp_serving *serving = at;
  idem__view id = idem__mcp_given(request, IDEM__MCP_H_SESSION);
  idem__view version = idem__mcp_given(request, IDEM__MCP_H_VERSION);
  const idem__revision *named = version.at ? idem__revision_find(version.at, version.len) : NULL;
  bool modern = serving->modern = named && idem__revision_has(named, IDEM__R_MODERN);
  serving->request = request;
  serving->status = 0;
  serving->faulty = false;
  serving->post.stream = 0;
  serving->new_session = serving->numbered = serving->replayed = serving->owner_gone = false;
  serving->answered = serving->cancelled = false;
  serving->bad_version = !version_fine(serving, version.at != NULL, named);
  serving->unavailable = serving->peer.unavailable = serving->peer.unknown_session = false;
  serving->peer.assumed = NULL;
  idem__conn_allow_batches(serving->peer.conn, serving->bad_version);
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
  idem__mcp_serving *serving = at;
  serving->faulty = !serving->status && otherwise == 400;
  if (serving->status) return serving->status;
  if (serving->peer.unknown_session) return 404;                 /* no message at all, or several */
  if (otherwise == 200 && serving->peer.unavailable) return 503; /* several */
  if (otherwise == 200 && serving->bad_version) return 400;
  /* Params that are no object hold no claim, which the header promised. */
  if (serving->modern && idem__conn_params_refused(serving->peer.conn)) return 400;
  /* What is no message at all is 400; errors of handlers travel with 200. */
  return otherwise;
}

/* What is not answered belongs to a session, where the era has them. */
static bool belongs(const idem__mcp_serving *serving, idem__message_kind kind) {
  if (serving->session) return true;
  return kind != IDEM__RESPONSE && (serving->modern || serving->peer.assumed);
}

/* The session lives, so not 404, by which clients begin a new one; nor 410, which speaks of the endpoint. */
static const idem__http_refusal owner_gone = {.status = 409,
                                              .reason = "owner-gone",
                                              .cause = "the process that asked this has ended",
                                              .hint = "call again: nobody waits for this answer"};

static uint16_t silent_status(void *at, idem__message_kind kind) {
  const idem__mcp_serving *serving = at;
  if (serving->unavailable) return 503;
  if (serving->owner_gone) return owner_gone.status;
  if (serving->peer.unknown_session) return 404;
  if (serving->bad_version || !belongs(serving, kind)) return 400;
  return 202;
}

static bool silent_waits(void *at) { return ((const idem__mcp_serving *)at)->unconfirmed != NULL; }

static void silent_refusal(void *at, idem__message_kind kind, idem__http_refusal *refusal) {
  const idem__mcp_serving *serving = at;
  if (serving->unavailable) {
    *refusal = idem__mcp_store_away;
  } else if (serving->owner_gone) {
    *refusal = owner_gone;
  } else if (serving->peer.unknown_session) {
    *refusal = no_session;
  } else if (serving->bad_version) {
    *refusal = serving->endpoint->bad_version;
  } else if (!belongs(serving, kind)) {
    refusal->reason = "not-initialized";
    refusal->hint = "send the Mcp-Session-Id that initialize gave";
  }
}

static void note_cancelled(void *at) { ((idem__mcp_serving *)at)->cancelled = true; }

/* 429: of keys. A rate says its own time. */
static bool asks_to_wait(const idem__mcp_serving *serving) {
  bool away = serving->unavailable && !serving->faulty;
  return away || serving->status == 503 || serving->status == 429;
}

static void add_headers(void *at, idem_buf *out) {
  idem__mcp_serving *serving = at;
  if (asks_to_wait(serving)) idem_buf_puts(out, "Retry-After: 1\r\n");
  if (serving->replayed) idem_buf_puts(out, "Idempotency-Replayed: true\r\n");
  if (serving->needed_scopes && serving->status == 403) {
    const idem_http_exchange *exchange = idem__http_serving_exchange(serving);
    const char *stem = idem__http_conn_challenge(idem__http_exchange_conn(exchange));
    idem_buf_printf(out, "WWW-Authenticate: %s, error=\"insufficient_scope\", scope=\"%s\"\r\n",
                    stem, serving->needed_scopes);
  }
  if (!serving->new_session) return;
  idem_buf_printf(out, "Mcp-Session-Id: %s\r\n", serving->session->id);
}

/* A client that reads initialize's result without the id of its session can never use it. */
static bool headers_wait(void *at) { return ((const idem__mcp_serving *)at)->opening != NULL; }

/* Disconnecting is cancelling from 2026-07-28 on; before, who ended its input still wants its answer. */
static bool input_end_cancels(void *at) { return ((const idem__mcp_serving *)at)->modern; }

/* A stream that only tells ends with its result; any other may be taken up again where its session has kept it. */
static bool end_unauthorized(void *at) {
  idem__mcp_serving *serving = at;
  idem__listeners_end(serving->endpoint->worker, serving->peer.conn);
  return idem__mcp_serving_leave_stream(serving);
}

const idem__http_protocol idem__mcp_protocol = {
    .size = sizeof(idem__mcp_serving),
    .open = open_serving,
    .close = close_serving,
    .begin = begin_serving,
    .give_up = give_up,
    .taken = take_leave_of_request,
    .end = end_serving,
    .status = answer_status,
    .silent_status = silent_status,
    .silent_waits = silent_waits,
    .silent_refusal = silent_refusal,
    .cancelled = note_cancelled,
    .headers = add_headers,
    .headers_wait = headers_wait,
    .stream_begin = idem__mcp_stream_begin,
    .event = idem__mcp_stream_event,
    .outlives = idem__mcp_serving_outlives,
    .input_end_cancels = input_end_cancels,
    .detached = idem__mcp_serving_detached,
    .turn = see_session,
    .orphaned = idem__mcp_serving_orphaned,
    .unauthorized = end_unauthorized,
};

void idem_leave_stream(idem_request *request) {
  idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(request));
  if (peer && peer->edge == &edge)
    idem__mcp_serving_leave_stream(IDEM_CONTAINER(peer, idem__mcp_serving, peer));
}

bool idem__mcp_principal(const idem_http_conn *conn, const idem_http_request *request,
                         char out[IDEM__PRINCIPAL]) {
  const char *told = idem__http_conn_principal(conn);
  idem__view token = idem__http_known_value(request, IDEM__H_AUTHORIZATION);
  uint8_t digest[IDEM_SHA256_BYTES];
  idem_sha256 sha;
  out[0] = '\0';
  if (told) snprintf(out, IDEM__PRINCIPAL, "%s", told);
  if (told || !token.at) return false;
  idem_sha256_init(&sha);
  idem_sha256_add(&sha, token.at, token.len);
  idem_sha256_end(&sha, digest);
  idem__text_hex(out, digest, sizeof digest);
  return !idem__http_conn_checks_who(conn);
}
