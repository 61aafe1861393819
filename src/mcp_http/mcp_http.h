/* mcp_http.h - MCP over HTTP: what its files share. One shop for a server, shared by its threads;
 * one desk for each thread. See docs/internals/mcp_http.md. */
#ifndef IDEM_HTTP_MCP_H
#define IDEM_HTTP_MCP_H

#include "../mcp_server/mcp_server.h"
#include "http/http.h"

typedef struct idem__mcp_shop idem__mcp_shop; /* sessions, shared by threads */
typedef struct idem__mcp_desk idem__mcp_desk; /* one thread's side */

/* Zero means the default. */
typedef struct idem__mcp_shop_opts {
  idem_server *server;
  size_t max_sessions;      /* 10,000 */
  uint64_t session_idle_ms; /* 30 min */
  size_t log_bytes;         /* kept for resumption, a session; 256 KiB */
  bool stateless_legacy;    /* serve older revisions without a session, too */
  idem_metrics *metrics; /* sessions are counted here, with the shop's lock held; NULL: nowhere */
} idem__mcp_shop_opts;
idem_status idem__mcp_shop_new(const idem__mcp_shop_opts *opts, idem__mcp_shop **out);
void idem__mcp_shop_free(idem__mcp_shop *shop);
size_t idem__mcp_shop_sessions(idem__mcp_shop *shop);

typedef struct idem__mcp_desk_opts {
  idem__mcp_shop *shop;
  idem__mcp_hub *hub;
  idem__http_rpc_opts rpc;  /* router, rules, guest are the desk's */
  const char *message_path; /* of 2024-11-05's transport; borrowed; NULL: "/message" */
} idem__mcp_desk_opts;
idem_status idem__mcp_desk_new(const idem__mcp_desk_opts *opts, idem__mcp_desk **out);
void idem__mcp_desk_free(idem__mcp_desk *desk);
/* The route functions; user: the desk. */
void idem__mcp_serve(idem__http_exchange *exchange, const idem__http_request *request, void *user);
idem__websocket *idem__mcp_upgrade(idem__http_conn *conn, const idem__http_request *request,
                                   void *user);
/* 2024-11-05's transport (mcp_sse.c): GET the stream, POST a message. */
void idem__mcp_serve_sse(idem__http_exchange *exchange, const idem__http_request *request,
                         void *user);
void idem__mcp_serve_message(idem__http_exchange *exchange, const idem__http_request *request,
                             void *user);
/* Frees the streams that have ended, or all. */
void idem__sse_sweep(idem__mcp_desk *desk, bool all);
extern const idem__http_rules idem__mcp_rules;

/* --------------------------------------------------------------- sessions */

#define IDEM__SESSION_ID 32

/* An id that a POST has in flight, as the others of its session see it. */
typedef struct idem__claim {
  struct idem__claim *next; /* of the same POST */
  struct idem__asker *asker;
  size_t len;
  char *key;
} idem__claim;

/* A POST of a session: its handler may ask the client, whose answers come with another POST. */
typedef struct idem__asker {
  idem__mcp_desk *desk;
  idem_conn *conn;
  uint64_t first_call; /* of the ids reserved for it */
  idem__claim *claims; /* this and below: guarded by the lock of what is in flight */
  idem__claim first_claim;
  char first_key[40];
} idem__asker;
#define IDEM__CALLS_RESERVED 4096u

/* claims.c: what a session has in flight. The lock is for a few instructions; whoever holds it may take
 * the shop's, never the other way round. */
typedef struct idem__in_flight {
  idem__lock lock;
  idem__map claims; /* by the key of the id */
  idem__map askers; /* by first_call */
  uint64_t next_call;
} idem__in_flight;

/* The image of a legacy session: its record in the store, decoded, and what belongs to this process
 * alone (who is asking, open streams). Everything but `legacy`'s constants, atomics and what is in flight
 * is guarded by the shop's lock. */
typedef struct idem__kept_session {
  idem__mcp_session legacy;
  idem__list link; /* in the shop */
  idem__list idle; /* among those that nobody holds, the first of them first */
  idem__mcp_shop *shop;
  unsigned refs;           /* the shop's and one for each user */
  _Atomic unsigned visits; /* POSTs of it under way */
  unsigned detached; /* of these, visits whose peer has gone: they do not keep it from ending */
  _Atomic bool ended;
  char id[IDEM__SESSION_ID + 1];
  char *principal;
  uint64_t version;     /* of the record it shows */
  unsigned busy;        /* changes and events of this process on their way to the store */
  bool had_stream;      /* a GET stream was open once: what it misses is kept */
  unsigned get_streams; /* open now */
  /* The GET stream that is told; NULL: the next that asks. */
  const struct idem__get_stream *teller;
  uint32_t told; /* the newest event a teller has sent */
  idem__in_flight in_flight;
} idem__kept_session;

void idem__shop_lock(idem__mcp_shop *shop);
void idem__shop_unlock(idem__mcp_shop *shop);
idem_server *idem__shop_server(const idem__mcp_shop *shop);
bool idem__shop_stateless(const idem__mcp_shop *shop);
/* Desks come and go; one of them acts for all where once is enough. */
void idem__shop_join(idem__mcp_shop *shop, idem__mcp_desk *desk);
void idem__shop_leave(idem__mcp_shop *shop, idem__mcp_desk *desk);
/* LIMIT: the shop is full of sessions in use. */
idem_status idem__kept_open(idem__mcp_shop *shop, const char *principal, uint64_t now_ms,
                            const idem__revision *revision, yyjson_val *params,
                            idem__kept_session **out);
/* Counted; NULL: unknown, ended, or somebody else's. */
idem__kept_session *idem__kept_find(idem__mcp_shop *shop, idem__view id, const char *principal,
                                    uint64_t now_ms);
void idem__kept_ref(idem__kept_session *session);
void idem__kept_unref(idem__kept_session *session);
/* One of its users has lost its peer, or no longer has. */
void idem__kept_detached(idem__kept_session *session, bool detached);
/* Lets sessions whose time is over end, whoever comes or does not. */
void idem__shop_tend(idem__mcp_shop *shop, uint64_t now_ms);
/* It is still in use. */
void idem__kept_alive(idem__kept_session *session, uint64_t now_ms);
/* No more requests; its streams end. */
void idem__kept_end(idem__kept_session *session);
/* Makes a change, here and in the store. */
idem_status idem__kept_change(idem__kept_session *session, const idem__session_change *change);

void idem__in_flight_init(idem__kept_session *session);
void idem__in_flight_deinit(idem__kept_session *session);
void idem__in_flight_lock(idem__kept_session *session);
void idem__in_flight_unlock(idem__kept_session *session);
/* Reserves ids for its questions; NOMEM. Leaving drops its claims, too. Both take the lock. */
idem_status idem__asker_join(idem__kept_session *session, idem__asker *asker);
void idem__asker_leave(idem__kept_session *session, idem__asker *asker);
/* With the lock held; who was found stays as long as it is. NULL: nobody. */
idem__asker *idem__asker_of_call(const idem__kept_session *session, uint64_t id);
idem__asker *idem__claim_holder(const idem__kept_session *session, const char *key, size_t len);
void idem__claim_add(idem__kept_session *session, idem__asker *asker, const char *key, size_t len);

/* mcp_log.c: the events of a session. Keeps one for its stream and writes it with its id. */
idem_status idem__kept_event_add(idem__kept_session *session, uint32_t stream, const char *text,
                                 size_t len, bool last, idem__buf *out);
/* Writes the events of a stream after a sequence number; *after moves on; true: the last was there. */
bool idem__kept_events_after(idem__kept_session *session, uint32_t stream, uint32_t *after,
                             idem__buf *out);
/* The number of the newest event; a number for a new stream (0 is the GET stream; 0: none to be had). */
uint32_t idem__kept_sequence(idem__kept_session *session);
uint32_t idem__kept_next_stream(idem__kept_session *session);
/* Sessions without an open GET stream that had one keep a notification for later. */
void idem__shop_keep_notification(idem__mcp_desk *desk, const char *uri, const char *text,
                                  size_t len);

/* mcp_session.c, for mcp_log.c */
struct idem__mcp_shop {
  idem_alloc alloc;
  idem__mcp_shop_opts opts;
  idem__store *store;
  idem__store_watcher *watcher;
  _Atomic uint64_t now_ms; /* the newest time anybody told */
  idem__lock lock;
  idem__map by_id;
  idem__list sessions; /* all */
  idem__list idle;     /* those that nobody uses, least recently used first */
  idem__list desks;
  _Atomic unsigned orphans; /* how often a session ended that had visits: desks look for theirs */
  idem__map sse_lines;      /* streams of 2024-11-05 by id: see mcp_sse.c */
};
void idem__shop_make_id(const idem__mcp_shop *shop, char id[IDEM__SESSION_ID + 1]);
/* An operation on a session's record. */
idem__store_op idem__kept_op(const idem__kept_session *session, idem__store_verb verb);
/* Counts one more user; with the lock held. */
void idem__kept_hold(idem__kept_session *session);
/* Around a change of our own, of which the store's watchers then tell us nothing new. */
void idem__kept_busy(idem__kept_session *session, bool begin);

/* mcp_record.c: a session as bytes. With the lock held. */
idem_status idem__record_write(const idem__kept_session *session, idem__buf *out);
/* Makes an image of a record, or (into an image) takes over what may change. INVAL: not a session of
 * ours. */
idem_status idem__record_read(idem__mcp_shop *shop, const char *text, size_t len,
                              idem__kept_session *into, idem__kept_session **out);
idem__kept_session *idem__kept_new(idem__mcp_shop *shop, const char *principal,
                                   const idem__revision *revision, yyjson_val *params);
void idem__kept_destroy(idem__kept_session *session);

/* ------------------------------------------------------------ GET streams */

typedef struct idem__get_stream {
  idem__list link; /* in desk->streams */
  idem__mcp_desk *desk;
  idem__http_exchange *exchange;
  idem__kept_session *session;
  uint32_t stream;
  uint32_t after;
  uint64_t comment_ms;
} idem__get_stream;
void idem__get_stream_open(idem__mcp_desk *desk, idem__http_exchange *exchange,
                           idem__kept_session *session, uint32_t stream, uint32_t after,
                           const char *first_event);
/* Sends what its session has kept for it. */
void idem__get_stream_flush(idem__get_stream *stream);
void idem__get_streams_flush(idem__mcp_desk *desk);
/* Each message nobody asked for goes to one stream of a session, on whichever loop: the newest. */
bool idem__get_stream_tells(idem__get_stream *stream);
void idem__get_streams_end(idem__mcp_desk *desk);

struct idem__mcp_desk {
  idem__list link; /* in the shop */
  idem__mcp_hearer hearer;
  const char *message_path;
  const char *upgrading; /* the principal of the WebSocket being made */
  idem__mcp_shop *shop;
  idem__mcp_hub *hub;
  idem_alloc alloc;
  idem__http_rpc *rpc;
  unsigned orphans; /* as the shop said when we last looked */
  idem__list streams;
  idem__list sse_lines; /* see mcp_sse.c */
  uint64_t stream_ms;
};

/* Who asks: as the embedder says, or who the bearer of this token is, or "". */
#define IDEM__PRINCIPAL (IDEM_PRINCIPAL_MAX + 1)
void idem__mcp_principal(const idem__http_conn *conn, const idem__http_request *request,
                         char out[IDEM__PRINCIPAL]);

#endif
