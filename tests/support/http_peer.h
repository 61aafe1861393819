/* http_peer.h - a whole HTTP server in memory, for tests: bytes in, bytes out, a fake clock.
 * Serves echo, fail, slow (answered when the test says so), chatty (a notification first) and the
 * notification `hello` at "/", plus /healthz and /metrics. */
#ifndef IDEM_TEST_HTTP_PEER_H
#define IDEM_TEST_HTTP_PEER_H

#include "http/rpc_endpoint.h"

typedef struct http_peer_opts {
  const idem_http_opts *http;
  const idem__http_rules *rules;
  const char *allow_headers, *allow_prefix, *expose_headers; /* of "/" */
  const idem_alloc *alloc;
  idem_log *log;
  size_t body_bytes;
  idem_code_set codes;
  uint64_t request_ms;          /* for a handler to answer; 0: no limit */
  size_t concurrency;           /* of a conn of the engine; 0: no limit */
  unsigned notification_status; /* of the policy */
  idem__shares *shares;         /* NULL: none are counted */
  bool not_loopback;
  const char *host; /* what is listened on */
  bool secret_path; /* who misses the endpoint is not told where it is */
  const char *from; /* the peer's address; NULL: 127.0.0.1 */
} http_peer_opts;

#define HTTP_PEER_SLOW 64
typedef struct http_peer {
  idem_alloc alloc;
  idem_router *router;
  idem__limiter *limiter;
  idem_metrics *metrics;
  idem__http_rpc *rpc;
  idem_http_server *server;
  idem_http_conn *conn;
  idem__http_admin admin;
  uint64_t now_ms;
  idem_request *slow[HTTP_PEER_SLOW]; /* requests kept */
  size_t slow_count;
  size_t cancelled; /* on_cancel calls of slow requests */
  size_t hellos;    /* notifications seen */
  size_t wakes;     /* on_output calls */
  char *output;     /* everything sent so far, NUL-terminated; malloc'd */
  size_t output_len, output_cap;
  idem_status status; /* the first failure of feed or expire */
} http_peer;

/* OK, or what could not be made; deinit is needed in both cases. */
idem_status http_peer_init(http_peer *peer, const http_peer_opts *opts);
void http_peer_deinit(http_peer *peer);
/* Ends the connection (if there is one) and opens another; forgets the output. */
idem_status http_peer_reconnect(http_peer *peer);
/* Feeds in pieces of `piece` bytes (0: all at once); takes the output after each. */
void http_peer_feed(http_peer *peer, const char *data, size_t len, size_t piece);
void http_peer_eof(http_peer *peer);
/* Moves the clock and lets what is due happen. */
void http_peer_wait(http_peer *peer, uint64_t ms);
/* Runs what is due now and collects output. */
void http_peer_settle(http_peer *peer);
/* Answers the oldest slow request with "done". */
void http_peer_answer_slow(http_peer *peer);
/* Drops the output so far. */
void http_peer_forget_output(http_peer *peer);
/* How often `text` occurs in the output. */
size_t http_peer_count(const http_peer *peer, const char *text);

#endif
