/* web.h - what the files that serve HTTP share: the server of one loop, its connections, and the
 * threads that run the other loops. See docs/internals/uv.md. */
#ifndef IDEM_UV_WEB_H
#define IDEM_UV_WEB_H

#include "mcp_http/mcp_http.h"
#include "modules/tls/tls.h"
#include "uv/runtime.h"

#include <stdatomic.h>

typedef struct idem__worker idem__worker;

struct idem__web {
  idem_listener *listener;
  idem_metrics *metrics;
  bool own_metrics;
  idem__limiter *limiter;
  bool own_limiter;
  idem__shares *shares;
  bool own_shares;
  idem__http_server *server;
  idem__http_rpc *rpc;          /* plain JSON-RPC */
  idem__mcp_endpoint *endpoint; /* or MCP */
  idem__session_table *table;
  bool holds_sessions; /* as one of the loop's; else it is lent */
  char *path, *sse_path, *message_path;
  idem__http_route routes[5];
  idem__http_admin admin;
  struct idem__web_tls *tls; /* NULL: plain */
  idem__list peers;
  idem__list silent,
      waiting; /* who has never sent a byte; who is between requests, longest first */
  size_t count;
  idem__web *first;     /* whose port this is: itself, or where a worker's loop comes from */
  _Atomic size_t crowd; /* the first one's: connections of the port, on every loop */
  idem__list dirty;
  idem__heap deadlines;
  uint64_t armed_ms;
  uint64_t date_s;
  uv_prepare_t flusher; /* runs before the loop blocks, while `dirty` is not empty */
  uv_timer_t timer;
  uv_async_t worker_ended;
  idem__worker *workers;
  size_t worker_count, workers_running;
  int stop_step;
  bool stopping;
};

/* A connection: its socket, its state machine, and what the socket has not taken yet. */
typedef struct idem__web_peer {
  uv_poll_t poll;
  idem__web *web;
  idem__http_conn *conn;
  idem__list node;  /* in web->peers */
  idem__list dirty; /* in web->dirty */
  idem__list place; /* in web->silent or web->waiting, while it may give way */
  idem__timer deadline;
  idem__http_chunk chunk;
  size_t offset;                   /* how much of it is written */
  struct idem__tls_stream *secret; /* TLS; NULL: plain */
  int fd;
  int events;
  bool busy, shut, closed;
  bool counted; /* among its client's shares */
  idem__ip from;
} idem__web_peer;

void idem__web_peer_settle(idem__web_peer *peer);
void idem__web_peer_expire(idem__web_peer *peer);
void idem__web_peer_close(idem__web_peer *peer);
/* Looks at the peer before the loop blocks. */
void idem__web_mark(idem__web *web, idem__web_peer *peer);
void idem__web_arm(idem__web *web);
/* Milliseconds of the clock; also keeps the Date line right. */
uint64_t idem__web_now(idem__web *web);

/* web_tls.c: encryption between the socket and the conn. */
typedef struct idem__web_tls idem__web_tls;
typedef struct idem__tls_stream idem__tls_stream;
/* Loads the module and the files; logs what is wrong. */
idem_status idem__web_tls_open(idem__web *web);
void idem__web_tls_free(idem__web *web);
idem_status idem__tls_stream_open(idem__web_peer *peer);
void idem__tls_stream_free(idem__web_peer *peer);
/* Feeds the conn with what the bytes mean. False: the connection is over, once all is sent. */
bool idem__tls_stream_take(idem__web_peer *peer, const char *data, size_t len, uint64_t now);
/* As send_output, and what TLS itself has to say. False: the connection is lost. */
bool idem__tls_stream_send(idem__web_peer *peer, uint64_t now);
bool idem__tls_stream_unsent(const idem__web_peer *peer);
void idem__tls_stream_end(idem__web_peer *peer);
/* When a handshake that has not finished is given up; UINT64_MAX: it has. */
uint64_t idem__tls_stream_deadline(const idem__web_peer *peer);

/* workers.c */
/* For the thread that calls it, one of several that serve a port. */
void idem__workers_schedule_as_batch(void);
idem_status idem__workers_start(idem__web *web, const idem__url *url, size_t count);
void idem__workers_stop(idem__web *web);
/* Joins those that have ended. */
void idem__workers_reap(idem__web *web);
void idem__workers_free(idem__web *web);

#endif
