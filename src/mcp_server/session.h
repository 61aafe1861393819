/* session.h - one conn seen as MCP, and what a legacy handshake agreed with it.
 * A transport that is not a line is told and asked through an edge. */
#ifndef IDEM_MCP_SESSION_H
#define IDEM_MCP_SESSION_H

#include "node.h"

/* What a legacy client said of itself, clientInfo and capabilities, counted, since handlers look at them
 * after the session has gone. */
#define IDEM__HELLO_BYTES ((size_t)64 * 1024)
typedef struct idem__hello {
  _Atomic unsigned refs;
  idem_alloc alloc;
  yyjson_val root[]; /* an object, with all that it holds behind it */
} idem__hello;
void idem__hello_ref(idem__hello *hello);
void idem__hello_unref(idem__hello *hello); /* NULL is fine */

/* What a legacy handshake agreed. A line peer has its own; HTTP keeps them by id. */
struct idem__mcp_session {
  idem_alloc alloc;
  const idem__revision *revision;
  const char *name;         /* tells it from every other of its server; its owner's */
  _Atomic bool initialized; /* notifications/initialized came */
  _Atomic int log_level;    /* idem_mcp_level; -1: the peer set none */
  /* The id of the node where it hears what it did not ask for; "": none yet. HTTP guards it with its own lock. */
  char listener[IDEM__NODE_ID + 1];
  idem__hello *hello;     /* for client_info and capabilities */
  idem_map subscriptions; /* uri -> owned copy; HTTP guards it with its own lock */
  size_t subscribed_bytes;
};
#define IDEM__SUBSCRIBED_URI_BYTES ((size_t)8 * 1024)
#define IDEM__SUBSCRIBED_URI_MEAN ((size_t)256)
/* Makes one from initialize's params; the revision is agreed. */
idem_status idem__session_init(idem__mcp_session *session, const idem_alloc *alloc, uint64_t seed,
                               const idem__revision *revision, yyjson_val *params);
void idem__session_deinit(idem__mcp_session *session);
bool idem__session_subscribed(const idem__mcp_session *session, const char *uri);

/* What may change in a session after its handshake. */
typedef enum idem__session_change_kind {
  IDEM__SESSION_INITIALIZED,
  IDEM__SESSION_LEVEL,
  IDEM__SESSION_SUBSCRIBE,
  IDEM__SESSION_UNSUBSCRIBE,
  IDEM__SESSION_LISTENS /* at the node whose id is `uri` */
} idem__session_change_kind;
typedef struct idem__session_change {
  idem__session_change_kind kind;
  int level;
  const char *uri;
  size_t uri_len;
} idem__session_change;
/* Makes a change; one that was made already is made again to no effect. LIMIT: `max_subscriptions`
 * are there, the uri is longer than IDEM__SUBSCRIBED_URI_BYTES, or all together are longer than so many of
 * IDEM__SUBSCRIBED_URI_MEAN; NOMEM. */
idem_status idem__session_apply(idem__mcp_session *session, const idem__session_change *change,
                                size_t max_subscriptions);
/* Said once: now, or later, when the request it was about may be gone. */
typedef void (*idem__edge_done)(idem_status status, void *user);
/* The same for a peer's session, wherever that is kept; `done` may be NULL. */
void idem__session_change_for(idem__mcp_peer *peer, const idem__session_change *change,
                              idem__edge_done done, void *user);

/* What a transport that is not a line tells and is told. NULL for line peers. */
typedef struct idem__edge {
  /* A request header by lower-case name; false: absent. */
  bool (*header)(void *ctx, const char *name, const char **value, size_t *len);
  /* The key that came with the request; false: none. NULL: there are none here. */
  bool (*key)(void *ctx, const char **value, size_t *len);
  /* The answer was given before, to another request with its key. May be NULL. */
  void (*replayed)(void *ctx);
  /* A question would reach the client, now or when it comes back. */
  bool (*can_reach)(void *ctx);
  /* The HTTP status of an error that no handler made; never for an element of a batch. */
  void (*set_status)(void *ctx, int status);
  /* ... that was made since the token reaches less than these scopes. */
  void (*need_scopes)(void *ctx, const char *scopes);
  /* initialize succeeded: keep the session (made with idem__session_init by the callee) and make it the
   * peer's. */
  void (*open_session)(void *ctx, const idem__revision *revision, yyjson_val *params,
                       idem__edge_done done, void *user);
  /* Makes a change in a session that others share. */
  void (*change_session)(void *ctx, const idem__session_change *change, idem__edge_done done,
                         void *user);
} idem__edge;

/* One conn seen as MCP, and attached to it. */
extern const idem__attachment_kind idem__mcp_peer_kind;
struct idem__mcp_peer {
  idem_list link; /* in worker->peers, for line peers with a session */
  idem__mcp_worker *worker;
  idem_conn *conn;
  idem__mcp_session *session; /* NULL: no legacy handshake yet */
  idem__mcp_session own;      /* a line peer's */
  char name[24];              /* ... and its name */
  const char *principal;      /* "" when there is none; borrowed from the transport */
  struct idem__grant *grant;  /* what its token says, counted; NULL: none does */
  const idem__edge *edge;
  void *edge_ctx;
  const idem__revision *assumed; /* legacy service without a session (HTTP); NULL: none */
  bool principal_claimed; /* nobody has checked it: good to tell peers apart, not to share out by */
  bool unavailable;       /* nobody can say whether it has a session: what it asks is refused */
  bool unknown_session;   /* it names one that is not, or no longer */
};
idem_status idem__mcp_peer_init(idem__mcp_peer *peer, idem__mcp_worker *worker, idem_conn *conn);
void idem__mcp_peer_deinit(idem__mcp_peer *peer);
/* In place of the one it had; counted here. NULL: none. */
void idem__mcp_peer_set_grant(idem__mcp_peer *peer, struct idem__grant *grant);
/* The name by which a share is counted; NULL: none that was checked. */
const char *idem__mcp_peer_client(const idem__mcp_peer *peer);

static inline idem__mcp_peer *idem__mcp_peer_of(const idem_conn *conn) {
  return conn ? idem__conn_attachment(conn, &idem__mcp_peer_kind) : NULL;
}

#endif
