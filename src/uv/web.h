/* web.h - what the files that serve HTTP share: the server of one loop, its connections, and the
 * threads that run the other loops. See docs/internals/uv.md. */
#ifndef IDEM_UV_WEB_H
#define IDEM_UV_WEB_H

#include "mcp_http/mcp_http.h"
#include "uv/runtime.h"

#include <stdatomic.h>

typedef struct idem__worker idem__worker;

/* Connections of one loop that may give way, longest first. Its thread has the list; the rest is for the
 * other loops of the port to look at. */
typedef struct idem__web_queue {
  idem_list peers;
  _Atomic size_t count;
  _Atomic uint64_t since_ns; /* the first one's time */
} idem__web_queue;

struct idem__web {
  idem_listener *listener;
  idem_metrics *metrics;
  bool own_metrics;
  idem__limiter *limiter;
  bool own_limiter;
  idem__rates *rates; /* where the limit is shared with other processes */
  idem__shares *shares;
  bool own_shares;
  idem_http_server *server;
  idem__http_rpc *rpc;          /* plain JSON-RPC */
  idem__mcp_endpoint *endpoint; /* or MCP */
  idem__session_table *table;
  bool holds_sessions; /* as one of the loop's; else it is lent */
  char *sse_path, *message_path;
  idem__http_admin admin, live;
  struct idem__guard *guard; /* of tokens; NULL: none is wanted */
  uv_close_cb closed;        /* when it and the handle are */
  idem_list peers;
  idem__web_queue silent, waiting; /* who has never sent a byte; who is between requests */
  size_t count;
  idem__web *first;      /* whose port this is: itself, or where a worker's loop comes from */
  _Atomic size_t crowd;  /* the first one's: connections of the port, on every loop */
  size_t leaving;        /* the first one's: those of them that are being closed to make room */
  idem__lock loops_lock; /* the first one's, over its loops */
  idem_list loops;
  idem_list loop; /* its place among them */
  idem__trim trim;
  uint64_t now_ms; /* as of the turn that runs */
  uint64_t now_ns; /* the same, to tell apart who came in one millisecond */
  uint64_t date_s;
  uv_async_t news; /* a worker has ended, or somebody is to give way */
  idem__worker *workers;
  size_t worker_count, workers_running;
  int stop_step;
  bool stopping;
};

/* An HTTP connection. */
typedef struct idem__web_peer {
  idem__driver driver; /* its node is in web->peers */
  idem__socket socket;
  idem__web *web;
  idem_http_conn *conn;
  idem_list place; /* in a queue, while it may give way */
  idem__web_queue *queue;
  uint64_t since_ns;
  idem_http_chunk chunk;
  size_t offset; /* how much of it is written */
  bool counted;  /* among its client's shares */
  idem__ip from;
} idem__web_peer;

/* Milliseconds of the clock, also in now_ms; keeps the Date line right. */
uint64_t idem__web_now(idem__web *web);

/* crowd.c */
/* From when its handle is open until it is closed. */
void idem__crowd_join(idem__web *web);
void idem__crowd_leave(idem__web *web);
/* Puts a connection at the end of a queue, or in none (NULL). */
void idem__crowd_place(idem__web_peer *peer, idem__web_queue *queue);
/* For a newcomer, who is counted already: who has waited longest, on any loop, goes. False: too few wait. */
bool idem__crowd_make_room(idem__web *web);
/* While there are more than may be: closes its own that have waited longest of all, or tells the loop whose
 * turn it is. On news, too. */
void idem__crowd_give_way(idem__web *web);

/* workers.c */
/* For the thread that calls it, one of several that serve a port. */
void idem__workers_schedule_as_batch(void);
idem_status idem__workers_start(idem__web *web, const idem__url *url, size_t count);
void idem__workers_stop(idem__web *web);
/* Joins those that have ended. */
void idem__workers_reap(idem__web *web);
void idem__workers_free(idem__web *web);

#endif
