/* rpc_endpoint.h - JSON-RPC at a path: POST a message and get the answer, or a WebSocket of messages; and what a protocol above
 * has to say of each POST. See docs/internals/http.md. */
#ifndef IDEM_HTTP_RPC_ENDPOINT_H
#define IDEM_HTTP_RPC_ENDPOINT_H

#include "http.h"

/* Something is known, is not to be, or will be known. */
typedef enum idem__http_when {
  IDEM__HTTP_NOW,
  IDEM__HTTP_REFUSED,
  IDEM__HTTP_LATER
} idem__http_when;

/* A protocol with opinions about each POST. It has `size` bytes of its own with each serving of a
 * POST to a conn of the engine: `open` and `close` frame the conn's life, `begin` and `end` each
 * serving's. What is NULL has no opinion. */
typedef struct idem__http_protocol {
  size_t size;
  idem_status (*open)(void *protocol, idem_conn *conn, void *user);
  void (*close)(void *protocol);
  /* NOW: its message is taken in. REFUSED: it has answered the exchange itself. LATER: the exchange is held;
   * idem__http_serving_begin follows, unless `end` comes first. The request is borrowed until `taken`. */
  idem__http_when (*begin)(void *protocol, idem_http_exchange *exchange,
                           const idem_http_request *request);
  /* Nobody will wait for what `begin` waits for: the message is taken in next, to be refused with its id. Whoever says
   * LATER has it. */
  void (*give_up)(void *protocol);
  /* It has waited for a turn, which it has now: what `begin` found may have ended meanwhile. */
  void (*turn)(void *protocol);
  /* The message is taken in; parts of a batch may run later. */
  void (*taken)(void *protocol);
  void (*end)(void *protocol);
  /* The status of an answer, or of nothing to answer with (`silent` names the message's kind). */
  uint16_t (*status)(void *protocol, uint16_t otherwise);
  uint16_t (*silent_status)(void *protocol, idem__message_kind kind);
  /* Something that came of what has no answer is not heard of yet: idem__http_serving_heard follows, unless
   * `end` comes first, and only then that status is asked for. */
  bool (*silent_waits)(void *protocol);
  /* Says why, where that status is a refusal. */
  void (*silent_refusal)(void *protocol, idem__message_kind kind, idem__http_refusal *refusal);
  /* What came cancelled itself all that it asked: nothing will be answered. May be NULL. */
  void (*cancelled)(void *protocol);
  /* More header lines with CRLF, before the head is sent. */
  void (*headers)(void *protocol, idem_buf *out);
  /* They are not known yet: no stream is begun because of the time. */
  bool (*headers_wait)(void *protocol);
  /* Writes the stream's first event, if there is one. LATER: idem__http_serving_write follows. */
  idem__http_when (*stream_begin)(void *protocol, idem_buf *out);
  /* Writes one event; where nobody reads it now, somebody may come back for it. REFUSED: it cannot. LATER:
   * idem__http_serving_write follows, until which the text is lent. */
  idem__http_when (*event)(void *protocol, const char *text, size_t len, bool last, idem_buf *out);
  /* The peer is gone: does the work go on? */
  bool (*outlives)(void *protocol);
  /* It has ended its input: does that cancel what it asked? */
  bool (*input_end_cancels)(void *protocol);
  /* The serving goes on without its peer, or no longer does. */
  void (*detached)(void *protocol, bool detached);
  /* Whoever it worked for will not come back. */
  bool (*orphaned)(void *protocol);
  /* The token of its stream has ended. True: its client may come back for the rest; else what runs is refused. */
  bool (*unauthorized)(void *protocol);
} idem__http_protocol;
/* What `begin` waited for is there: the message is taken in, or (not NULL) refused. */
void idem__http_serving_begin(void *protocol, const idem__http_refusal *refusal);
/* What silent_waits spoke of is heard of; also before it was asked. */
void idem__http_serving_heard(void *protocol);
/* What stream_begin or event waited for is there: bytes for the stream, perhaps none. */
void idem__http_serving_write(void *protocol, const char *bytes, size_t len);
/* Ends the event stream of a serving while its work goes on (protocol->outlives must hold). */
void idem__http_serving_leave(void *protocol);
/* The work of a serving was cancelled from elsewhere: ends the serving if nothing is owed any more. */
void idem__http_serving_cancelled(void *protocol);
idem_http_exchange *idem__http_serving_exchange(void *protocol); /* NULL: the peer is gone */
/* Messages that are no answers reach the peer, now or when it comes back for them. */
bool idem__http_serving_streams(void *protocol);

/* A JSON-RPC endpoint: POST a message, get the answer; or a WebSocket of messages. One a server. */
typedef struct idem__http_rpc idem__http_rpc;
typedef struct idem__http_rpc_opts {
  const idem_router *router;
  const idem_policy *policy;           /* copied; its framing is ignored */
  idem_pool *pool;                     /* NULL: one of its own */
  const idem__http_rules *rules;       /* NULL: the plain JSON-RPC ones */
  const idem__http_protocol *protocol; /* NULL: none */
  void *protocol_user;
  /* Makes the conn of a WebSocket; NULL: a plain one. */
  idem_status (*accept)(void *user, const idem_conn_opts *opts, idem_conn **out);
  /* The token of such a conn has ended: what can end well does, before the rest is refused. May be NULL. */
  void (*unauthorized)(void *user, idem_conn *conn);
  idem__limiter *limiter; /* NULL: no rate limit */
  uint64_t stream_ms;     /* until an answer becomes a stream, and between comments */
  uint64_t (*now_ns)(void *ctx);
  void *clock_ctx;
  void *host; /* idem__conn_set_host of its conns */
  idem_log *log;
  idem_metrics *metrics;
  const idem_alloc *alloc;
  uint64_t seed;
} idem__http_rpc_opts;
/* What a server has for an endpoint of its own. */
idem__http_rpc_opts idem__http_server_rpc_opts(const idem_http_server *server);
idem_status idem__http_rpc_new(const idem__http_rpc_opts *opts, idem__http_rpc **out);
/* Serves it at a path; `told`: whoever misses it is told where it is. */
idem_status idem__http_rpc_add(idem__http_rpc *rpc, idem_http_server *server, const char *path,
                               bool websocket_alone, bool told);
/* After the server's conns are gone. */
void idem__http_rpc_free(idem__http_rpc *rpc);
/* What no connection looks after any more: POSTs that go on without their peers have their time, those
 * of nobody end. Called when the deadline is over, and when somebody may have gone for good. */
uint64_t idem__http_rpc_deadline(const idem__http_rpc *rpc);
/* Some go on without a connection. */
bool idem__http_rpc_works_on(const idem__http_rpc *rpc);
void idem__http_rpc_tend(idem__http_rpc *rpc, uint64_t now_ms);
void idem__http_rpc_serve(idem_http_exchange *exchange, const idem_http_request *request,
                          void *user);
/* Takes the client's token for what is no message and works as hard: opening a stream, taking one
 * up, ending a session. False: there was none, and the exchange has been refused. */
bool idem__http_rpc_admit(idem__http_rpc *rpc, idem_http_exchange *exchange);
idem__websocket *idem__http_rpc_upgrade(idem_http_conn *conn, const idem_http_request *request,
                                        void *user);

#endif
