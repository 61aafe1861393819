/* http.h - what src/http offers the others: HTTP/1.1, event streams and WebSocket without I/O.
 * A server holds what the connections of one thread share (checks, routes, pools); a conn is one TCP
 * connection: bytes in, owned chunks out, time passed in; an exchange is one answer owed.
 * See docs/internals/http.md. */
#ifndef IDEM_HTTP_PRIVATE_H
#define IDEM_HTTP_PRIVATE_H

#include "../json/grant.h"
#include "../rpc/rpc.h"
#include "checks.h"
#include "stream.h"
#include "view.h"

#include <idem/http.h>
#include <idem/rpc.h>

/* --------------------------------------------------------------- request */

/* Headers found while parsing, so that checks need no search. */
typedef enum idem__http_known {
  IDEM__H_OTHER,
  IDEM__H_HOST,
  IDEM__H_ORIGIN,
  IDEM__H_ACCEPT,
  IDEM__H_EXPECT,
  IDEM__H_UPGRADE,
  IDEM__H_USER_AGENT,
  IDEM__H_CONTENT_TYPE,
  IDEM__H_CONTENT_LENGTH,
  IDEM__H_CONTENT_ENCODING,
  IDEM__H_AUTHORIZATION,
  IDEM__H_TRANSFER_ENCODING,
  IDEM__H_LAST_EVENT_ID,
  IDEM__H_GIVEN, /* the first of those that a route's rules name */
  IDEM__H_KNOWN = IDEM__H_GIVEN + 5
} idem__http_known;
/* Headers that a protocol on top asks for with every request: small letters and hyphens, 4 to 31 of them, each of a length
 * of its own. A request has few of them and many others: its length tells which one a name may be. */
typedef struct idem__http_names {
  const char *list[IDEM__H_KNOWN - IDEM__H_GIVEN]; /* up to the first that is NULL */
  uint8_t by_length[32];                           /* place in the list and 1; 0: none */
} idem__http_names;
/* `given`: NULL: none. */
idem__http_known idem__http_known_header(const idem__http_names *given, const char *name,
                                         size_t len);

typedef struct idem__http_header {
  uint32_t name, name_len, value, value_len; /* offsets from `base` */
} idem__http_header;

#define IDEM__HTTP_HEADERS 100

/* One request as it arrived. Lives in the server's pool; views are valid until its handler returns. */
struct idem_http_request {
  const char *base;         /* the head's bytes: lent input, or head.data */
  idem_buf head;            /* the head, when it came in pieces */
  idem_buf body_copy;       /* the body, when it came in pieces */
  idem__view body;          /* what has come of it so far */
  idem__http_header target; /* value only */
  idem__view path, query;   /* the target's; query without its '?' */
  idem__view authority;     /* of an absolute-form target; else absent */
  size_t head_len;          /* set when the head is complete */
  size_t trailer_bytes;     /* names and values after the last chunk, and chunk extensions */
  uint64_t began_ms;
  idem_http_method method;
  uint8_t minor; /* HTTP/1.minor */
  bool in_value; /* parsing: the last header's value has begun */
  bool too_many; /* parsing: another one than there is room for has begun */
  bool keep_alive;
  bool in_use;                   /* its handler is on the stack */
  bool for_turn;                 /* held, for nothing but a turn */
  size_t held;                   /* bytes that count while it waits; 0: it does not */
  const idem__http_names *given; /* what IDEM__H_GIVEN and those behind it stand for */
  uint8_t known[IDEM__H_KNOWN];  /* index + 1 into headers; 0: absent */
  uint8_t known_count[IDEM__H_KNOWN];
  size_t header_count;
  idem__http_header headers[IDEM__HTTP_HEADERS];
  struct idem_http_request *next; /* in the pool */
};

idem__view idem__http_known_value(const idem_http_request *request, idem__http_known which);
/* By name, without case. Absent unless there is exactly one. */
idem__view idem__http_header_value(const idem_http_request *request, const char *name);
/* The same of one of the names given, by its place in their list; only where they are the ones of the caller's own rules. */
idem__view idem__http_given_value(const idem_http_request *request, size_t place);
/* Does the Accept header (absent: yes) admit this type? */
bool idem__http_accepts(const idem_http_request *request, const char *type);
/* Does Accept-Encoding (absent: no) admit this one? */
bool idem__http_accepts_encoding(const idem_http_request *request, const char *encoding);
/* Fills path, query and authority. False: not a target we serve. */
bool idem__http_split_target(idem_http_request *request);

/* ----------------------------------------------------------------- rules */

/* What a protocol wants of HTTP, as data. */
typedef struct idem__http_code_status {
  int64_t code;
  uint16_t status;
} idem__http_code_status;

/* A refusal before any handler: a status and a JSON-RPC error. */
struct idem__http_refusal {
  uint16_t status;     /* 0: not refused */
  int code;            /* JSON-RPC code; 0: IDEM_RPC_INVALID_REQUEST */
  const char *reason;  /* behaviour of errors: data.reason; NULL: no data */
  const char *why;     /* for the log alone; NULL: the reason */
  const char *what;    /* the same: what was refused; NULL: a request */
  bool told;           /* the log has its line */
  const char *cause;   /* for the message where rules want causes; NULL: the reason, in words */
  const char *hint;    /* the flag to add, for data.hint; NULL: none */
  char hint_value[96]; /* what to give it: the peer's own text, cut, escaped when written */
  bool close;          /* the connection cannot go on */
  bool looked;         /* for what is not there: the log hears of it at debug alone */
  const char *id;      /* of the request, its JSON; NULL: not known. A long one is left out */
  size_t id_len;
};

/* What a method is about, for the access log: " LABEL=" and the text in this member of params. */
typedef struct idem__http_subject {
  const char *method, *member, *label;
} idem__http_subject;

typedef struct idem__http_rules {
  const idem__http_names *names; /* headers that the protocol asks for; NULL: none */
  uint16_t notification_status;  /* an accepted notification; 0: 204 */
  uint16_t response_status;      /* a posted response; 0: 204; 400 and above: -32600 in the body */
  const idem__http_code_status *codes; /* status by error code; others are 200 */
  size_t code_count;
  bool event_streams;      /* an answer may become an event stream where Accept names it */
  bool disconnect_cancels; /* end of input from the peer cancels what it asked */
  bool outlives_peer;      /* work goes on when the connection is gone */
  bool causes;             /* messages of refusals name their cause */
  /* Looks at the head before the body is read. NULL: nothing more to check. */
  void (*check_head)(const idem_http_request *request, idem__http_refusal *refusal, void *user);
  /* Headers to add to the answer of an exchange: whole lines with CRLF. NULL: none. */
  idem_status (*add_headers)(idem_http_exchange *exchange, idem_buf *out, void *user);
  const idem__http_subject *subjects; /* ends with a NULL method; NULL: none */
  void *user;
} idem__http_rules;

/* "404 Not Found": the number with its usual words; NULL: not a status that is known here. */
const char *idem__http_reason(int status);
/* The same for a status of ours; 500 for one that is not known. */
idem__view idem__http_status_text(uint16_t status);

extern const idem__http_rules idem__http_rules_jsonrpc;
/* The status an answer gets: by its code, 400 for parse errors and invalid requests. */
uint16_t idem__http_status_for(const idem__http_rules *rules, idem_outgoing what);

/* ------------------------------------------------------------------- server */

/* Takes over a connection whose handshake succeeded; NULL refuses (no memory). */
typedef idem__websocket *(*idem__http_upgrade_fn)(idem_http_conn *conn,
                                                  const idem_http_request *request, void *user);

/* What only the route of a protocol has. Its function keeps exchanges by itself (on_abort and friends), and counts
 * messages, not requests, against rates. */
typedef struct idem__http_binding {
  bool told;                     /* whoever misses it is told its path */
  idem__http_upgrade_fn upgrade; /* GET with Upgrade: websocket; NULL: not offered */
  const idem__http_rules *rules; /* NULL: the plain JSON-RPC ones; borrowed */
} idem__http_binding;

/* What a judge says of a request: that it may ask, and who does; the status to refuse it with; or IDEM_HTTP_LATER, as a
 * principal's function would. Texts and grant are lent for the call, but `why`, which lasts. */
#define IDEM__HTTP_TWO_CREDENTIALS "two-credentials" /* data.reason of who shows more than one */
typedef struct idem__http_judgment {
  int status; /* 0: it may */
  const char *principal;
  idem__grant *grant; /* NULL: none */
  const char
      *challenge;     /* WWW-Authenticate of the refusal; NULL: as the route or the server has it */
  const char *reason; /* data.reason of the refusal, which lasts; NULL: by its status */
  const char *why;    /* a sentence for data.hint and the log; NULL: none */
  const char *headers; /* more lines with CRLF for whatever is answered; NULL: none */
} idem__http_judgment;
typedef void (*idem__http_judge_fn)(const idem_http_caller *caller, idem__http_judgment *verdict,
                                    void *user);
/* An event stream or a WebSocket that lasts with the token it was opened with. Its judge hears of its beginning and of its end,
 * and has it end when the token does (stay.c). */
typedef struct idem__http_stay {
  idem_http_conn *conn;
  idem__grant *grant; /* counted */
  /* The judge's own. */
  idem_list link;
  void *waiter;
  uint64_t due_s;
  unsigned failures;
  bool over;
} idem__http_stay;
typedef void (*idem__http_stay_fn)(idem__http_stay *stay, bool begins, void *user);
/* The judge has heard of its end before this returns; the stay is gone. Not from inside the connection's functions. */
void idem__http_stay_over(idem__http_stay *stay, uint64_t now_ms);
/* Its caller has shown a newer token. */
void idem__http_conn_renew(idem_http_conn *conn, idem__grant *grant);
/* Says it after idem_http_caller_wait, as idem_http_resume does. */
void idem__http_resume(idem_http_wait *wait, const idem__http_judgment *verdict);
const idem__ip *idem__http_caller_client(const idem_http_caller *caller);
/* Of its Authorization header, which was found while the head was read. Absent unless there is exactly one. */
idem__view idem__http_caller_authorization(const idem_http_caller *caller);
/* What else it is judged by: its method by name, its path as it was sent, and how many headers of a name it has. */
const char *idem__http_caller_method(const idem_http_caller *caller);
idem__view idem__http_caller_path(const idem_http_caller *caller);
size_t idem__http_caller_count(const idem_http_caller *caller, const char *name);

/* What the connections of one thread share: checks, routes, free lists, the date line. */
typedef struct idem__http_server_opts {
  const idem_http_opts *http; /* NULL: all defaults. Copied; its routes are not looked at */
  size_t body_bytes;          /* a request's body; 0: 10,485,760 */
  int port;                   /* the listener's */
  bool loopback;              /* the listener's address is one */
  const char *host;           /* and what it listens on, as a Host names it; NULL: every address */
  idem_unknown_id unknown_id;
  idem_code_set codes;      /* of refusals */
  idem_error_detail detail; /* of their data */
  bool canonical;           /* their messages name no cause, whatever the rules of a route say */
  /* Judges whoever has none of the listener's tokens; the principal's function is not asked then. NULL: none. */
  idem__http_judge_fn judge;
  idem__http_stay_fn stays; /* told of what lasts with a grant of the judge's; NULL: nobody */
  void *judge_user;
  /* For CORS, lists: request headers that the judge looks at beside Authorization, and those that it adds to answers. They last.
   * NULL: none. */
  const char *judge_reads, *judge_says;
  const char *challenge; /* WWW-Authenticate of a 401; copied. NULL: "Bearer" */
  const char
      *challenge_stem;    /* what others that a protocol makes begin with; copied. NULL: "Bearer" */
  const char *bound_stem; /* ... for who has shown a token that is bound to a key; NULL: the same */
  idem__shares *shares;   /* of what comes through trusted proxies; NULL: no bound */
  idem__limiter *limiter; /* of requests to routes that are no protocol's; NULL: no limit */
  idem__unfinished *unfinished;  /* whom it shares unfinished_bytes with; NULL: nobody */
  uint64_t (*now_ns)(void *ctx); /* for the log; NULL: what the driver said last */
  void *clock_ctx;
  idem_log *log;
  idem_metrics *metrics;
  const idem_alloc *alloc;
} idem__http_server_opts;
/* INVAL: a list holds what is no host, origin or address. */
idem_status idem__http_server_new(const idem__http_server_opts *opts, idem_http_server **out);
/* Before serving. The route is copied. `binding` NULL: one of an embedder's. INVAL: no such path, a path that is served
 * already, or a header that is none; LIMIT: there are IDEM__HTTP_ROUTES. */
#define IDEM__HTTP_ROUTES 256
idem_status idem__http_server_add(idem_http_server *server, const idem_http_route *is,
                                  const idem__http_binding *binding);
/* After its conns are gone; chunks may outlive it. */
void idem__http_server_free(idem_http_server *server);
/* Wall-clock seconds since 1970, for Date; without it no Date is sent. */
void idem__http_server_set_date(idem_http_server *server, uint64_t wall_s);
/* Gives pooled memory back. */
void idem__http_server_trim(idem_http_server *server);

/* What is served on top and has a time of its own: it goes with the server, which it was given to (OK). */
typedef struct idem__http_tenant {
  struct idem__http_tenant *next;
  uint64_t (*deadline)(void *user);
  void (*expire)(void *user, uint64_t now_ms); /* also where nothing is due: there may be news */
  void (*free)(void *user);
  void *user;
} idem__http_tenant;
idem_status idem__http_server_own(idem_http_server *server, const idem__http_tenant *tenant);
/* For tenants, whose deadline is over by then: has expire called soon, from any thread; and the limits of idem_http_opts. */
void idem__http_server_wake(const idem_http_server *server);
void idem__http_server_limit_work(const idem_http_server *server, idem_router *router);

/* ------------------------------------------------------------------ conn */

typedef struct idem__http_conn_opts {
  idem_http_server *server;
  const char *peer; /* for the log; copied, cut at 63 bytes */
  idem__ip from;    /* the socket's other end */
  /* Output or a changed deadline where a call of the driver's did not cause it. */
  void (*on_output)(idem_http_conn *conn, void *user);
  void *user;
  uint64_t now_ms;
} idem__http_conn_opts;

idem_status idem__http_conn_new(const idem__http_conn_opts *opts, idem_http_conn **out);
/* The peer is gone: what it asked is cancelled. */
void idem__http_conn_free(idem_http_conn *conn);
void *idem__http_conn_user(const idem_http_conn *conn);

/* Takes input; handlers run inside. What is bad is answered and the conn goes on or closes by
 * itself. A failure (NOMEM, LIMIT) means: free it. */
idem_status idem__http_conn_feed(idem_http_conn *conn, const char *data, size_t len,
                                 uint64_t now_ms);
idem_status idem__http_conn_feed_eof(idem_http_conn *conn, uint64_t now_ms);
/* False while answers must be read or given first. */
bool idem__http_conn_want_read(const idem_http_conn *conn);
bool idem__http_conn_waits(
    const idem_http_conn *conn); /* something has come, and waits for its turn */

/* Owned bytes to send; they count as queued until freed, and survive the conn and the server. Free
 * with the conn they came from, or with NULL when it is gone. */
bool idem__http_conn_next_chunk(idem_http_conn *conn, idem_http_chunk *chunk);
void idem__http_chunk_free(idem_http_conn *conn, idem_http_chunk *chunk, uint64_t now_ms);

uint64_t idem__http_conn_deadline(const idem_http_conn *conn); /* ms; UINT64_MAX: never */
idem_status idem__http_conn_expire(idem_http_conn *conn, uint64_t now_ms);
/* No more requests: answers what runs, then closes. */
void idem__http_conn_close(idem_http_conn *conn, uint64_t now_ms);
/* Like close, and what still runs is answered with an error now. */
void idem__http_conn_abort(idem_http_conn *conn, uint64_t now_ms);
/* True: send what there is, shut down the write side, and go on feeding until end of input or
 * until `finished`. */
bool idem__http_conn_closing(const idem_http_conn *conn);
/* True: nothing will come of this conn any more; free it. */
bool idem__http_conn_finished(const idem_http_conn *conn);
/* No request is being read or answered. */
bool idem__http_conn_idle(const idem_http_conn *conn);
/* Nothing but perhaps a part of a head is there: it may be closed if another needs its place. */
bool idem__http_conn_may_go(const idem_http_conn *conn);
bool idem__http_conn_silent(const idem_http_conn *conn); /* no byte has ever come */
/* One of the trusted proxies, whose connections are many clients'. */
bool idem__http_server_trusts(const idem_http_server *server, const idem__ip *who);

/* A whole "503, try later" answer for a connection there is no room for. */
extern const char idem__http_busy[];
extern const size_t idem__http_busy_len;
/* ... and what is sent to who speaks HTTP where TLS is spoken. */
extern const char idem__http_plain[];
extern const size_t idem__http_plain_len;

/* -------------------------------------------------------------- exchange */

/* The answer owed for one request. Ended by respond, refuse or stream_end, exactly once; then the
 * pointer is dead. If the peer goes first, `on_abort` runs and the pointer is dead after it. */
typedef struct idem__http_answer {
  uint16_t status;
  const char *type;    /* Content-Type; NULL: none */
  const char *headers; /* more header lines with CRLF; NULL: none */
  const char *body;
  size_t len;
  bool lasts;        /* the body: it is sent as it is */
  idem_chunk *chunk; /* instead of body: taken and freed */
  idem__view policy; /* instead of the route's own lines; absent: those */
} idem__http_answer;
void idem__http_respond(idem_http_exchange *exchange, const idem__http_answer *answer);
/* `headers`: more lines; with a 405 they say what is allowed instead of the route. NULL: none. */
void idem__http_refuse(idem_http_exchange *exchange, const idem__http_refusal *refusal,
                       const char *headers);
void idem__http_on_abort(idem_http_exchange *exchange,
                         void (*fn)(idem_http_exchange *exchange, void *user), void *user);
/* `fn` runs at the time given (UINT64_MAX: not). */
void idem__http_on_time(idem_http_exchange *exchange, uint64_t at_ms,
                        void (*fn)(idem_http_exchange *exchange, uint64_t now_ms, void *user));
void idem__http_set_time(idem_http_exchange *exchange, uint64_t at_ms);
/* The peer has ended its input and may be there still: `fn`, with the exchange's user, says whether that
 * cancels what it asked. Without one the route's rules do. */
void idem__http_on_input_end(idem_http_exchange *exchange,
                             bool (*fn)(idem_http_exchange *exchange, void *user));
const idem__ip *idem__http_exchange_client(const idem_http_exchange *exchange);
const char *idem__http_exchange_peer(const idem_http_exchange *exchange);
uint64_t idem__http_exchange_now(const idem_http_exchange *exchange);
void idem__http_exchange_set_user(idem_http_exchange *exchange, void *user);
/* The message that a request brought, for its line in the log: what is asked of whom under which id. Of
 * several the first. */
void idem__http_log_message(idem_http_exchange *exchange, const idem__message *message,
                            const idem__http_subject *subjects);

/* The same of one that no conn has read, since it is refused, and for the line of that. */
void idem__http_log_words(idem_http_exchange *exchange, const idem_message *message);

/* Keeps the request of an exchange beyond its handler, which calls this: until the exchange ends, or has been
 * served at last. LIMIT: too many wait already, or too much; NOMEM. */
idem_status idem__http_hold(idem_http_exchange *exchange, const idem_http_request *lent);
/* The same for a turn of the loop's: counted by its bytes alone, since every connection may have one that waits so. */
idem_status idem__http_hold_for_turn(idem_http_exchange *exchange, const idem_http_request *lent);
/* Calls it as the route's function is called, with the request that was held and then is no longer. */
void idem__http_serve_held(idem_http_exchange *exchange, idem_http_serve_fn fn, void *user);
void idem__http_let_go(idem_http_exchange *exchange);

/* A body of unknown length. begin sends the head; the connection is not kept for HTTP/1.0. stream_head takes it from an
 * answer without a body. */
idem_status idem__http_stream_head(idem_http_exchange *exchange, const idem__http_answer *head);
idem_status idem__http_stream_begin(idem_http_exchange *exchange, uint16_t status, const char *type,
                                    const char *headers);
idem_status idem__http_stream_put(idem_http_exchange *exchange, const char *data, size_t len);
void idem__http_stream_end(idem_http_exchange *exchange);
/* True: it was HEAD that asked for an event stream, and all of it has been said. */
bool idem__http_head_of_events(idem_http_exchange *exchange);

/* Appends a JSON-RPC error object. */
/* `causes`: the message names the cause. */
idem_status idem__http_put_error(idem_buf *out, const idem__http_refusal *refusal,
                                 idem_code_set codes, bool causes, idem_unknown_id unknown_id,
                                 idem_error_detail detail);

/* Takes the client's token; false: there was none, and the exchange has been refused. */
bool idem__http_admit(idem__limiter *limiter, idem_http_exchange *exchange);

/* -------------------------------------------------------- the upgraded conn */

/* For upgrade functions: the conn's queue of bytes, and when to look again. */
idem_status idem__http_conn_put(idem_http_conn *conn, const char *data, size_t len);
/* Tells the driver about output, unless one of its calls is running. */
void idem__http_conn_notify(idem_http_conn *conn);
size_t idem__http_conn_queued(const idem_http_conn *conn);
/* False: too much is queued; `fn` (once) runs when there is room again. */
bool idem__http_conn_has_room(idem_http_conn *conn, void (*fn)(void *user), void *user);
/* What has come on a WebSocket waits for its turn: nothing more is read until it goes on. */
void idem__http_conn_pause(idem_http_conn *conn, bool paused);
void idem__http_conn_go_on(idem_http_conn *conn);
/* When the upgraded conn wants `fn` called; UINT64_MAX: not. */
void idem__http_conn_set_time(idem_http_conn *conn, uint64_t at_ms,
                              void (*fn)(void *user, uint64_t now_ms), void *user);
/* How the upgraded conn, or the exchange's owner, is told to come to an end. */
typedef enum idem__http_stop {
  IDEM__HTTP_STOP_SOON,        /* what runs is answered first */
  IDEM__HTTP_STOP_NOW,         /* ... with an error */
  IDEM__HTTP_STOP_UNAUTHORIZED /* the same: the token it was opened with has ended */
} idem__http_stop;
typedef void (*idem__http_stop_fn)(void *user, idem__http_stop how);
void idem__http_conn_on_stop(idem_http_conn *conn, idem__http_stop_fn fn, void *user);
idem_http_conn *idem__http_exchange_conn(const idem_http_exchange *exchange);
uint64_t idem__http_conn_now(const idem_http_conn *conn);
const idem__ip *idem__http_conn_client(const idem_http_conn *conn);
const char *idem__http_conn_peer(const idem_http_conn *conn);
/* Who asks, as the embedder said, while the exchange lasts (and in an upgrade function); NULL: it was
 * not asked. */
const char *idem__http_conn_principal(const idem_http_conn *conn);
/* What their token grants, as long; NULL: it was no such token. */
idem__grant *idem__http_conn_grant(const idem_http_conn *conn);
/* What WWW-Authenticate begins with where a protocol refuses. */
const char *idem__http_conn_challenge(const idem_http_conn *conn);
/* Whoever came through has shown a token, or was asked for by the embedder. */
bool idem__http_conn_checks_who(const idem_http_conn *conn);

/* ------------------------------------------------------------------- admin */

/* GET /healthz; user: an idem__http_admin. */
typedef struct idem__http_admin {
  /* NULL: healthy. Otherwise a word for what is wrong, sent with 503. */
  const char *(*health)(void *ctx);
  void *health_ctx;
} idem__http_admin;
void idem__http_serve_health(idem_http_exchange *exchange, const idem_http_request *request,
                             void *user);
/* Answers GET /metrics with what was rendered; NULL: with 503. */
void idem__http_respond_metrics(idem_http_exchange *exchange, const char *text, size_t len);

#endif
