/* peer.c - a conn seen as MCP, and what a legacy handshake agreed with it. */
#include "context.h"
#include "server.h"
#include "session.h"
#include "worker.h"
#include "json/grant.h"

#include <string.h>

#define ESCAPED 6 /* a byte of a string in JSON text, at most */

/* ---------------------------------------------------------------- sessions */

/* Of initialize's params only what handlers may ask for: a session keeps it for as long as it lives. */
static idem_status write_hello(idem_buf *out, yyjson_val *params) {
  idem__writer writer = idem__writer_on(out);
  idem__write_object(&writer);
  idem__write_member_value(&writer, "clientInfo", yyjson_obj_get(params, "clientInfo"));
  idem__write_member_value(&writer, "capabilities", yyjson_obj_get(params, "capabilities"));
  idem__write_object_end(&writer);
  return writer.status;
}

/* In one piece: sessions are many, and a document has a head and room to spare. */
static idem__hello *new_hello(const idem_alloc *alloc, yyjson_val *root) {
  idem__hello *hello = idem__malloc(alloc, sizeof *hello + idem__json_copy_size(root));
  if (!hello) return NULL;
  hello->alloc = *alloc;
  atomic_init(&hello->refs, 1);
  idem__json_copy(root, hello->root);
  return hello;
}

static idem_status copy_hello(idem__mcp_session *session, yyjson_val *params) {
  yyjson_alc alc = idem__json_alc(&session->alloc);
  yyjson_doc *doc = NULL;
  idem_buf text;
  idem_buf_init(&text, &session->alloc, IDEM__HELLO_BYTES * ESCAPED);
  if (write_hello(&text, params) == IDEM_OK)
    doc = yyjson_read_opts(text.data, text.len, YYJSON_READ_BIGNUM_AS_RAW, &alc, NULL);
  if (doc) session->hello = new_hello(&session->alloc, yyjson_doc_get_root(doc));
  yyjson_doc_free(doc);
  idem_buf_deinit(&text);
  return session->hello ? IDEM_OK : IDEM_E_NOMEM;
}

void idem__hello_ref(idem__hello *hello) {
  atomic_fetch_add_explicit(&hello->refs, 1, memory_order_relaxed);
}

void idem__hello_unref(idem__hello *hello) {
  if (!hello || atomic_fetch_sub_explicit(&hello->refs, 1, memory_order_acq_rel) > 1) return;
  idem_alloc alloc = hello->alloc;
  idem__free(&alloc, hello);
}

idem_status idem__session_init(idem__mcp_session *session, const idem_alloc *alloc, uint64_t seed,
                               const idem__revision *revision, yyjson_val *params) {
  memset(session, 0, sizeof *session);
  session->alloc = idem__alloc_or_default(alloc);
  session->revision = revision;
  atomic_init(&session->log_level, -1);
  idem_map_init(&session->subscriptions, &session->alloc, seed);
  return copy_hello(session, params);
}

static void forget_subscriptions(idem__mcp_session *session) {
  size_t at = 0;
  for (char *uri; (uri = idem_map_next(&session->subscriptions, &at));) {
    idem__free(&session->alloc, uri);
  }
  idem_map_deinit(&session->subscriptions);
}

void idem__session_deinit(idem__mcp_session *session) {
  forget_subscriptions(session);
  idem__hello_unref(session->hello);
  session->hello = NULL;
}

bool idem__session_subscribed(const idem__mcp_session *session, const char *uri) {
  return idem_map_get(&session->subscriptions, uri, strlen(uri)) != NULL;
}

static idem_status subscribe(idem__mcp_session *session, const char *uri, size_t len, size_t max) {
  if (idem_map_get(&session->subscriptions, uri, len)) return IDEM_OK;
  if (session->subscriptions.count >= max || len > IDEM__SUBSCRIBED_URI_BYTES) return IDEM_E_LIMIT;
  if (session->subscribed_bytes + len > max * IDEM__SUBSCRIBED_URI_MEAN) return IDEM_E_LIMIT;
  char *copy = idem__strndup(&session->alloc, uri, len);
  if (!copy) return IDEM_E_NOMEM;
  idem_status status = idem_map_put(&session->subscriptions, copy, len, copy);
  if (status == IDEM_OK)
    session->subscribed_bytes += len;
  else
    idem__free(&session->alloc, copy);
  return status;
}

static void unsubscribe(idem__mcp_session *session, const char *uri, size_t len) {
  char *copy = idem_map_remove(&session->subscriptions, uri, len);
  if (copy) session->subscribed_bytes -= len;
  idem__free(&session->alloc, copy);
}

idem_status idem__session_apply(idem__mcp_session *session, const idem__session_change *change,
                                size_t max_subscriptions) {
  switch (change->kind) {
  case IDEM__SESSION_INITIALIZED: atomic_store(&session->initialized, true); break;
  case IDEM__SESSION_LEVEL: atomic_store(&session->log_level, change->level); break;
  case IDEM__SESSION_LISTENS:
    if (change->uri_len == IDEM__NODE_ID) memcpy(session->listener, change->uri, IDEM__NODE_ID);
    break;
  case IDEM__SESSION_SUBSCRIBE:
    return subscribe(session, change->uri, change->uri_len, max_subscriptions);
  case IDEM__SESSION_UNSUBSCRIBE: unsubscribe(session, change->uri, change->uri_len); break;
  }
  return IDEM_OK;
}

void idem__session_change_for(idem__mcp_peer *peer, const idem__session_change *change,
                              idem__edge_done done, void *user) {
  if (peer->edge) {
    peer->edge->change_session(peer->edge_ctx, change, done, user);
    return;
  }
  idem_status status =
      idem__session_apply(peer->session, change, peer->worker->server->opts.max_subscriptions);
  if (done) done(status, user);
}

/* ------------------------------------------------------------------- peers */

idem_status idem__mcp_peer_init(idem__mcp_peer *peer, idem__mcp_worker *worker, idem_conn *conn) {
  memset(peer, 0, sizeof *peer);
  peer->worker = worker;
  peer->conn = conn;
  peer->principal = "";
  idem_list_init(&peer->link);
  idem__conn_on_abort(conn, idem__context_abort);
  return IDEM_OK;
}

void idem__mcp_peer_set_grant(idem__mcp_peer *peer, idem__grant *grant) {
  if (peer->grant == grant) return;
  idem__grant_ref(grant);
  idem__grant_unref(peer->grant);
  peer->grant = grant;
}

void idem__mcp_peer_deinit(idem__mcp_peer *peer) {
  idem__mcp_peer_set_grant(peer, NULL);
  idem_list_remove(&peer->link);
  if (peer->session == &peer->own) idem__session_deinit(&peer->own);
  peer->session = NULL;
}

const char *idem__mcp_peer_client(const idem__mcp_peer *peer) {
  return peer->principal_claimed ? NULL : peer->principal;
}

static void whose(const idem_conn *conn, idem__whose *out) {
  out->client = idem__mcp_peer_client(idem__mcp_peer_of(conn));
}

/* One at an edge is its transport's, and outlives the conn. */
static void free_line_peer(void *attachment) {
  idem__mcp_peer *peer = attachment;
  if (peer->edge) return;
  idem_alloc alloc = peer->worker->alloc;
  idem__mcp_peer_deinit(peer);
  idem__free(&alloc, peer);
}

const idem__attachment_kind idem__mcp_peer_kind = {free_line_peer};

idem_status idem__worker_accept(idem__mcp_worker *worker, const idem_conn_opts *opts,
                                const char *principal, idem_conn **out) {
  idem_conn_opts ours = *opts;
  ours.router = worker->server->router;
  if (!ours.policy) ours.policy = &worker->server->policy;
  if (!ours.log) ours.log = worker->server->opts.log;
  idem__server_admit_limits(worker->server, &ours.policy->limits);
  size_t name_len = principal ? strlen(principal) : 0;
  idem__mcp_peer *peer = idem__malloc(&worker->alloc, sizeof *peer + name_len + 1);
  if (!peer) return IDEM_E_NOMEM;
  idem_status status = idem_conn_new(&ours, out);
  if (status != IDEM_OK) {
    idem__free(&worker->alloc, peer);
    return status;
  }
  idem__mcp_peer_init(peer, worker, *out);
  if (name_len) {
    char *name = (char *)(peer + 1);
    memcpy(name, principal, name_len + 1);
    peer->principal = name;
  }
  idem__conn_attach(*out, &idem__mcp_peer_kind, peer);
  idem__conn_set_whose(*out, whose);
  return IDEM_OK;
}
