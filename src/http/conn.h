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
  idem_http_server *server;
  idem_chunk chunk; /* used instead of data when chunk.data is set */
  size_t len, cap;
  char data[];
} block;

/* A route as it is served: see route.c. */
typedef struct idem__http_copy idem__http_copy;
typedef struct idem__http_route {
  idem_http_route is; /* as it was given, its texts copied, defaults filled in */
  idem__http_binding binding;
  size_t path_len;
  unsigned methods; /* HEAD with GET */
  bool embedded;    /* an embedder's */
  size_t kept;      /* exchanges */
  idem_buf lines;   /* headers of every answer */
  idem__token_list tokens;
  const char **types;
  idem__http_copy *copies;
} idem__http_route;

struct idem_http_exchange {
  idem_http_conn *conn;
  idem__http_route *route; /* NULL: none was found */
  void *user;
  void (*on_abort)(idem_http_exchange *exchange, void *user);
  void *abort_user;
  bool (*on_input_end)(idem_http_exchange *exchange, void *user);
  void (*on_time)(idem_http_exchange *exchange, uint64_t now_ms, void *user);
  uint64_t at_ms;
  uint64_t began_ms;
  idem__ip client;
  idem_http_request *held;          /* kept beyond its handler; NULL: it is not */
  char *origin;                     /* an allowed one, to be named in the answer; else NULL */
  char *principal;                  /* as the embedder said; NULL: it was not asked */
  idem__grant *grant;               /* counted; NULL: none */
  char *challenge;                  /* of its refusal; NULL: the usual one */
  char *judge_lines;                /* headers of its answer, as its judge said; NULL: none */
  char *log_line;                   /* method and target, when they are to be logged; else NULL */
  const char *note;                 /* for the log */
  struct idem__http_logged *logged; /* the message it brought, for the log; NULL: none was read */
  uint64_t bytes;                   /* of its body: what came, or was said to come */
  uint16_t status;
  uint8_t minor;
  bool active, keep_alive, head_only, streaming;
  bool counted; /* among its client's shares, as one that came through a proxy */
  bool trusted; /* it brought one of the listener's tokens */
  bool kept;    /* by the function of an embedder's route; its user is what keeps it */
};

struct idem_http_conn {
  llhttp_t parser;
  idem_http_server *server;
  idem_http_request *request; /* being read; NULL between requests */
  idem_http_exchange exchange;
  idem__websocket *websocket;
  idem__http_stay *stay; /* NULL: nothing lasts by a token */
  block *first, *last;   /* output */
  idem_buf backlog;      /* input that waits for an answer to be given */
  size_t queued;
  uint64_t now_ms, last_ms;   /* last: bytes came or went */
  uint64_t heard_ms;          /* bytes came */
  idem__http_refusal refusal; /* of the request being read */
  void (*on_output)(idem_http_conn *conn, void *user);
  void *user;
  void (*on_room)(void *user); /* waits for output to be read */
  void *room_user;
  idem__http_stop_fn on_stop;
  void *stop_user;
  void (*on_time)(void *user, uint64_t now_ms); /* of the upgraded conn */
  void *time_user;
  uint64_t time_at_ms;
  uint64_t message_by_ms; /* a WebSocket's message that has begun must be whole; UINT64_MAX: none */
  uint64_t parting_ms;    /* when our goodbye to a WebSocket was said; 0: it was not */
  idem_http_wait *judging; /* who asks will be said later; NULL: it is known */
  uint64_t judge_by_ms;    /* judging: then it is too late */
  uint64_t final_ms;
  idem_status failed;    /* final */
  unsigned inside;       /* depth of the driver's calls */
  idem__half unfinished; /* see unfinished.c */
  bool closing, lingering, eof, discard, resume, resuming, upgrading, paused;
  bool judged; /* it was said who asks: its head is looked at further */
  bool heard;  /* a byte has come */
  bool final;  /* the server stops: the next request is the last, and comes by final_ms */
  idem__ip from;
  char peer[PEER_MAX];
};

struct idem_http_server {
  idem_alloc alloc;
  idem__host_list hosts, origins;
  bool check_hosts;
  char good_host[64]; /* the last one that was allowed: nearly always the next one, too */
  size_t good_host_len;
  idem__token_list tokens;
  idem__proxies proxies;
  size_t header_bytes, header_count, body_bytes, queued_bytes;
  uint64_t request_ms, request_most_ms, idle_ms, first_ms;
  uint64_t stream_ms;
  idem__shares *shares; /* NULL: none are counted */
  idem__limiter *limiter;
  idem_http_principal_fn principal;
  void *principal_user;
  idem__http_judge_fn judge;
  idem__http_stay_fn stays;
  void *judge_user;
  const char *judge_reads, *judge_says;
  char *challenge, *challenge_stem; /* NULL: "Bearer" */
  char *bound_stem;                 /* NULL: challenge_stem */
  bool access_log;
  uint64_t told_ms;    /* of refusals: when the second began, how many had a line in it, */
  size_t told, untold; /* and how many since then have not */
  idem__http_route *routes;
  size_t route_count, route_room;
  const idem__http_names *given_names; /* of headers, by the rules of a route; NULL: none */
  int port;
  idem_unknown_id unknown_id;
  idem_code_set codes;
  idem_error_detail detail;
  bool canonical;
  uint64_t (*now_ns)(void *ctx); /* NULL: none */
  void *clock_ctx;
  /* Of one in somebody's own loop: see own_loop.c. */
  idem__limiter *own_limiter;
  idem__http_tenant *tenants;
  size_t in_flight[3]; /* the most: of all, of a client, of a session */
  uint64_t seed;
  void (*wake)(void *user);
  void *wake_user;
  idem_log *log;
  idem_metrics *metrics;
  idem_http_request *free_requests;
  block *free_blocks;
  size_t free_request_count, free_block_count;
  size_t held, held_bytes; /* requests that wait before they begin */
  size_t max_held, max_held_bytes;
  uint64_t waiting_ms;
  idem__unfinished *unfinished; /* own_unfinished, or one that it shares with others of its loop */
  idem__unfinished own_unfinished;
  size_t max_unfinished_bytes;
  size_t users; /* the owner and every block out there */
  char date[48];
  size_t date_len;
  llhttp_settings_t settings;
};

/* server.c */
idem_http_request *idem__http_server_take_request(idem_http_server *server);
void idem__http_server_give_request(idem_http_server *server, idem_http_request *request);
block *idem__http_server_take_block(idem_http_server *server, size_t room);
void idem__http_server_give_block(block *out);

/* own_loop.c */
void idem__http_tenants_free(idem_http_server *server);

/* route.c */
void idem__http_routes_free(idem_http_server *server);
/* One that fits exactly, else the longest of those that hold what is below them; NULL: none. */
/* One that those may be told of who have missed it; NULL: none. */
const idem__http_route *idem__http_told_route(const idem_http_server *server);
idem__http_route *idem__http_find_route(const idem_http_server *server, idem__view path);
/* Lists of "Name: value". Good: each is a header that is not ours to say. */
bool idem__http_good_lines(const char *const *lines);
bool idem__http_good_value(const char *value);
bool idem__http_lines_name(const char *const *lines, idem__view name);
idem__view idem__http_line_name(const char *line);
idem_status idem__http_put_lines(idem_buf *out, const char *const *lines);
/* Those of `lines`, which end with CRLF each, that are not named. */
idem_status idem__http_put_others(idem_buf *out, idem__view lines, const char *const *named);

/* route_answer.c: the function of an embedder's route is called, and what comes of it is looked after. */
void idem__http_serve_embedded(idem_http_exchange *exchange, const idem_http_request *request);

/* What may come of a request's body. */
static inline size_t idem__http_body_most(const idem_http_conn *conn) {
  return conn->exchange.route ? conn->exchange.route->is.body_bytes : conn->server->body_bytes;
}

/* Its head is not judged to the end: who asks is being found out, or was said and not looked at yet. */
static inline bool idem__http_waits_for_judge(const idem_http_conn *conn) {
  return conn->judging || conn->judged;
}

/* head.c: judges a complete head; fills the conn's refusal and exchange, unless conn->judging says that who
 * asks will be known later: then take_judgment, and the rest of it. */
void idem__http_judge(idem_http_conn *conn, idem_http_request *request);
bool idem__http_take_judgment(idem_http_conn *conn, const idem__http_judgment *verdict);
void idem__http_judge_rest(idem_http_conn *conn, idem_http_request *request);

/* later.c */
struct idem_http_caller {
  idem_http_conn *conn;
  const idem_http_request *request;
  char address[IDEM__IP_TEXT];
};
/* Nobody waits for who asks any more. */
void idem__http_judge_gone(idem_http_conn *conn);

/* hold.c: what was lent to a request becomes its own. */
idem_status idem__http_own_request(idem_http_request *request);
bool idem__http_own_body(idem_http_request *request);
bool idem__http_may_wait(idem_http_server *server, size_t bytes);

/* output.c */
#define IDEM__HTTP_COPY ((size_t)32 * 1024) /* larger answers are sent as they are */
/* A block with this much room at the end of the queue. */
block *idem__http_room_for(idem_http_conn *conn, size_t len);
/* Appends to the conn's output. A failure is also kept in conn->failed. */
idem_status idem__http_put(idem_http_conn *conn, const char *data, size_t len);
/* Takes the chunk, whatever happens. */
void idem__http_put_chunk(idem_http_conn *conn, idem_chunk *chunk);

/* reply.c */
void idem__http_exchange_drop(idem_http_exchange *exchange);
void idem__http_give_share(idem_http_exchange *exchange);
/* The answer has been given: close, or go on with the backlog. */
void idem__http_exchange_ended(idem_http_exchange *exchange);

/* The lines that every answer has unless its route says otherwise. */
idem__view idem__http_usual_lines(void);
void idem__http_serve_options(idem_http_exchange *exchange, const idem_http_request *request);

/* stay.c: what has begun and will last, where it came with a token that ends; its end is told once, however often. */
void idem__http_stay_begin(idem_http_conn *conn);
void idem__http_stay_end(idem_http_conn *conn);

/* unfinished.c: after each of the driver's calls; others may have to give way. */
void idem__http_count_unfinished(idem_http_conn *conn);
void idem__http_uncount_unfinished(idem_http_conn *conn);

/* h1_parser.c */
#define IDEM__H1_DRAIN ((size_t)64 * 1024) /* body of a refused request we read to keep the conn */
void idem__h1_settings(llhttp_settings_t *settings);
/* Ends parsing, for a callback: the refusal is answered and the connection closed. Returns -1. */
int idem__h1_stop(idem_http_conn *conn, uint16_t status, int code, const char *reason);

/* h1.c */
idem_status idem__h1_parse(idem_http_conn *conn, const char *data, size_t len);
/* Input that waits until an answer is given, and taking it up. */
idem_status idem__h1_keep_backlog(idem_http_conn *conn, const char *data, size_t len);
idem_status idem__h1_resume(idem_http_conn *conn);
/* Answers what could not be parsed or would take too long to, and closes. */
void idem__h1_refuse_and_close(idem_http_conn *conn);
void idem__http_begin_closing(idem_http_conn *conn);

/* conn.c: what it has begun is refused, and nothing more is read. */
void idem__http_give_way(idem_http_conn *conn, uint64_t now_ms);

/* access_log.c */
void idem__http_log_access(const idem_http_exchange *exchange, size_t bytes);
/* The peer went before its answer. */
void idem__http_log_gone(idem_http_exchange *exchange);
void idem__http_log_refusal(const idem_http_exchange *exchange, const idem__http_refusal *refusal);
void idem__http_log_begin(idem_http_exchange *exchange, idem_http_request *request);

#endif
