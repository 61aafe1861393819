/* conn.h - the insides of server and conn, for the files of this folder alone.
 * An idle connection is one of these structs and nothing else: requests being parsed and blocks of
 * output come from the server's free lists and go back there. See docs/internals/http.md. */
#ifndef IDEM_HTTP_CONN_H
#define IDEM_HTTP_CONN_H

#include "http.h"

#include <llhttp.h>

#define PEER_MAX 64

/* Output bytes, or an answer of the engine's sent as it is. */
typedef struct block {
  struct block *next;
  idem__http_server *server;
  idem_chunk chunk; /* used instead of data when chunk.data is set */
  size_t len, cap;
  char data[];
} block;

struct idem__http_exchange {
  idem__http_conn *conn;
  const idem__http_route *route; /* NULL: none was found */
  void *user;
  void (*on_abort)(idem__http_exchange *exchange, void *user);
  void *abort_user;
  bool (*on_input_end)(idem__http_exchange *exchange, void *user);
  void (*on_time)(idem__http_exchange *exchange, uint64_t now_ms, void *user);
  uint64_t at_ms;
  uint64_t began_ms;
  idem__ip client;
  idem__http_request *held;         /* kept beyond its handler; NULL: it is not */
  char *origin;                     /* an allowed one, to be named in the answer; else NULL */
  char *principal;                  /* as the embedder said; NULL: it was not asked */
  char *log_line;                   /* method and target, when they are to be logged; else NULL */
  const char *note;                 /* for the log */
  struct idem__http_logged *logged; /* the message it brought, for the log; NULL: none was read */
  uint16_t status;
  uint8_t minor;
  bool active, keep_alive, head_only, streaming;
  bool counted; /* among its client's shares, as one that came through a proxy */
};

struct idem__http_conn {
  llhttp_t parser;
  idem__http_server *server;
  idem__http_request *request; /* being read; NULL between requests */
  idem__http_exchange exchange;
  idem__websocket *websocket;
  block *first, *last; /* output */
  idem__buf backlog;   /* input that waits for an answer to be given */
  size_t queued;
  uint64_t now_ms, last_ms;   /* last: bytes came or went */
  uint64_t heard_ms;          /* bytes came */
  idem__http_refusal refusal; /* of the request being read */
  void (*on_output)(idem__http_conn *conn, void *user);
  void *user;
  void (*on_room)(void *user); /* waits for output to be read */
  void *room_user;
  void (*on_stop)(void *user, bool now);
  void *stop_user;
  void (*on_time)(void *user, uint64_t now_ms); /* of the upgraded conn */
  void *time_user;
  uint64_t time_at_ms;
  uint64_t message_by_ms; /* a WebSocket's message that has begun must be whole; UINT64_MAX: none */
  uint64_t parting_ms;    /* when our goodbye to a WebSocket was said; 0: it was not */
  idem_http_wait *judging; /* who asks will be said later; NULL: it is known */
  uint64_t judge_by_ms;    /* judging: then it is too late */
  idem_status failed;      /* final */
  unsigned inside;         /* depth of the driver's calls */
  idem__list unfinished;   /* in the server's, while it has such bytes */
  size_t unfinished_bytes; /* see unfinished.c */
  bool closing, lingering, eof, discard, resume, upgrading;
  bool judged; /* it was said who asks: its head is looked at further */
  bool heard;  /* a byte has come */
  idem__ip from;
  char peer[PEER_MAX];
};

struct idem__http_server {
  idem_alloc alloc;
  idem__host_list hosts, origins;
  bool check_hosts;
  char good_host[64]; /* the last one that was allowed: nearly always the next one, too */
  size_t good_host_len;
  char **tokens;
  size_t *token_lens;
  size_t token_count;
  idem__proxies proxies;
  size_t header_bytes, header_count, body_bytes, queued_bytes;
  uint64_t request_ms, request_most_ms, idle_ms, first_ms;
  idem__shares *shares; /* NULL: none are counted */
  idem_http_principal_fn principal;
  void *principal_user;
  bool access_log;
  uint64_t told_ms;    /* of refusals: when the second began, how many had a line in it, */
  size_t told, untold; /* and how many since then have not */
  const idem__http_route *routes;
  const idem__http_name *given_names; /* of headers, by the rules of a route; NULL: none */
  size_t route_count;
  int port;
  idem_unknown_id unknown_id;
  uint64_t (*now_ns)(void *ctx); /* NULL: none */
  void *clock_ctx;
  idem_log *log;
  idem_metrics *metrics;
  idem__http_request *free_requests;
  block *free_blocks;
  size_t free_request_count, free_block_count;
  size_t held, held_bytes; /* requests that wait before they begin */
  size_t max_held, max_held_bytes;
  uint64_t waiting_ms;
  idem__list unfinished; /* conns with half a message, who began first in front */
  size_t unfinished_bytes, max_unfinished_bytes;
  size_t users; /* the owner and every block out there */
  char date[48];
  size_t date_len;
  llhttp_settings_t settings;
};

/* server.c */
idem__http_request *idem__http_server_take_request(idem__http_server *server);
void idem__http_server_give_request(idem__http_server *server, idem__http_request *request);
block *idem__http_server_take_block(idem__http_server *server, size_t room);
void idem__http_server_give_block(block *out);

/* head.c: judges a complete head; fills the conn's refusal and exchange, unless conn->judging says that who
 * asks will be known later: then take_principal, and the rest of it. */
void idem__http_judge(idem__http_conn *conn, idem__http_request *request);
bool idem__http_take_principal(idem__http_conn *conn, int status, const char *principal);
void idem__http_judge_rest(idem__http_conn *conn, idem__http_request *request);

/* later.c */
struct idem_http_caller {
  idem__http_conn *conn;
  const idem__http_request *request;
  char address[IDEM__IP_TEXT];
};
/* Nobody waits for who asks any more. */
void idem__http_judge_gone(idem__http_conn *conn);

/* hold.c: what was lent to a request becomes its own. */
idem_status idem__http_own_request(idem__http_request *request);
bool idem__http_own_body(idem__http_request *request);
bool idem__http_may_wait(idem__http_server *server, size_t bytes);

/* reply.c */
void idem__http_exchange_drop(idem__http_exchange *exchange);
void idem__http_give_share(idem__http_exchange *exchange);
/* Appends to the conn's output. A failure is also kept in conn->failed. */
idem_status idem__http_put(idem__http_conn *conn, const char *data, size_t len);
/* The answer has been given: close, or go on with the backlog. */
void idem__http_exchange_ended(idem__http_exchange *exchange);

void idem__http_serve_options(idem__http_exchange *exchange, const idem__http_request *request);

/* unfinished.c: after each of the driver's calls; others may have to give way. */
void idem__http_count_unfinished(idem__http_conn *conn);
void idem__http_uncount_unfinished(idem__http_conn *conn);

/* h1.c */
void idem__http_begin_closing(idem__http_conn *conn);
/* What it has begun is refused, and nothing more is read. */
void idem__http_give_way(idem__http_conn *conn, uint64_t now_ms);
void idem__h1_settings(llhttp_settings_t *settings);

/* access_log.c */
void idem__http_log_access(const idem__http_exchange *exchange, size_t bytes);
/* The peer went before its answer. */
void idem__http_log_gone(idem__http_exchange *exchange);
void idem__http_log_refusal(const idem__http_exchange *exchange, const idem__http_refusal *refusal);
void idem__http_log_begin(idem__http_exchange *exchange, idem__http_request *request);

#endif
