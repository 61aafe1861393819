/* idem/http.h - HTTP and WebSocket: who may ask a server, what else it serves, and how a client asks.
 * Options are plain data: hand them to idem_serve in idem_serve_opts and to idem_connect in idem_connect_opts (uv.h). Zero
 * means the default, and the defaults are the strict ones. Strings and lists are copied. */
#ifndef IDEM_HTTP_H
#define IDEM_HTTP_H

#include <idem/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A request before its body is read, for who decides whose it is. Lent for the call. */
typedef struct idem_http_caller idem_http_caller;
/* A header's value by name, without case, not NUL-terminated; NULL: absent, or there more than once. */
IDEM_API const char *idem_http_caller_header(const idem_http_caller *caller, const char *name,
                                             size_t *len);
/* The client's address, "192.0.2.7" or "2001:db8:0:0:0:0:0:1"; behind a trusted proxy as that says. */
IDEM_API const char *idem_http_caller_address(const idem_http_caller *caller);

/* For a function that cannot say yet who asks (a key must be fetched first): the request waits, its body unread,
 * until idem_http_resume; return IDEM_HTTP_LATER then. It goes with its connection and its time (waiting_ms, 503):
 * `on_gone` (may be NULL) is called when nobody waits any more, and the handle is yours all the same until
 * you resume it. What you need of the caller, copy. NULL: too many wait, or no memory; return 503. */
typedef struct idem_http_wait idem_http_wait;
IDEM_API idem_http_wait *idem_http_caller_wait(const idem_http_caller *caller,
                                               void (*on_gone)(void *user), void *user);
/* Says it, exactly once, as the function would have: 0 and the principal (NULL: ""), or the status to refuse
 * with. On the thread that asked, after the function has returned. Ends the handle, whether anybody waits
 * or not. */
IDEM_API void idem_http_resume(idem_http_wait *wait, int status, const char *principal);
#define IDEM_HTTP_LATER (-1)

/* Names the principal of a request: a text of at most `size` - 1 bytes with its NUL ("", as it is when
 * called: nobody in particular). Returns 0, or the status to refuse with: 401, 403, or another from
 * 400 to 599, or IDEM_HTTP_LATER. Called on the thread of each loop, for every request that needs a token where one is
 * set (after that token was right), so it must be quick and safe for several threads. */
#define IDEM_PRINCIPAL_MAX 255
typedef int (*idem_http_principal_fn)(const idem_http_caller *caller, char *principal, size_t size,
                                      void *user);

/* ------------------------------------------------------------------ routes */

/* Paths of your own beside the protocol's: a page, a feed, a document that must be public. Each request is given to the
 * function of its route, on the thread of the loop it came to (with several workers: on several at once).
 *
 * The exchange is the answer owed for a request. It ends exactly once: by idem_http_respond, by
 * idem_http_stream_end, or because nobody waits any more; then it is gone, and its pointer with it. A function
 * that can answer only later keeps it (idem_http_keep); one that returns without either has 500 sent for it. */
typedef struct idem_http_request idem_http_request; /* lent until the function returns */
typedef struct idem_http_exchange idem_http_exchange;

typedef enum idem_http_method {
  IDEM_HTTP_GET = 1,
  IDEM_HTTP_HEAD = 2,
  IDEM_HTTP_POST = 4,
  IDEM_HTTP_DELETE = 8,
  IDEM_HTTP_OPTIONS = 16,
  IDEM_HTTP_PUT = 32,
  IDEM_HTTP_PATCH = 64,
  IDEM_HTTP_OTHER = 128
} idem_http_method;

IDEM_API idem_http_method idem_http_request_method(const idem_http_request *request);
/* Texts of a request are what was sent, with nothing decoded, and not NUL-terminated. The query stands behind the
 * '?'; NULL: there is none. A header is found by its name, without case; NULL: absent, or there more than once. */
IDEM_API const char *idem_http_request_path(const idem_http_request *request, size_t *len);
IDEM_API const char *idem_http_request_query(const idem_http_request *request, size_t *len);
IDEM_API const char *idem_http_request_header(const idem_http_request *request, const char *name,
                                              size_t *len);
IDEM_API const char *idem_http_request_body(const idem_http_request *request, size_t *len);

typedef void (*idem_http_serve_fn)(idem_http_exchange *exchange, const idem_http_request *request,
                                   void *user);

/* Zero is strict: what is not said otherwise is asked of whoever asks the protocol's path, too. Refusals have the JSON
 * bodies of the protocol's: 404 for a path that nobody serves, 405 with Allow for another method. */
typedef struct idem_http_route {
  const char *path; /* begins with '/'; compared as it is, without the query */
  bool
      below; /* and every path that goes on from it with a '/' ("/": all there are). Of several routes the longest
                       path has it, and one that fits exactly before any other */
  unsigned methods; /* of idem_http_method; HEAD comes with GET, OPTIONS is answered for you */
  idem_http_serve_fn serve;
  void *user;
  /* Who may ask: the bearers of the listener's tokens, whom its principal function lets in; or those of tokens and
   * a principal function of the route's own, which then stand alone; or everybody. */
  bool no_token;
  const char *const *tokens;
  idem_http_principal_fn principal;
  void *principal_user;
  const char *challenge; /* WWW-Authenticate of a 401; NULL: "Bearer" */
  bool any_host;         /* no matter under which name it is asked */
  bool
      any_origin; /* pages of any origin may ask and read the answer (CORS "*"), without credentials */
  bool no_rate_limit; /* a request takes nothing from its client's rate (rate_count) */
  /* CORS, as comma-separated lists: request headers beyond Authorization, Content-Type and Accept; the beginning of
   * others; response headers beyond Retry-After and WWW-Authenticate. NULL: none. */
  const char *allow_headers, *allow_prefix, *expose_headers;
  /* "Name: value", sent with every answer, refusals included; ends with NULL. One that is named Cache-Control or
   * Content-Security-Policy stands instead of "no-store" and of "default-src 'none'; frame-ancestors 'none'". */
  const char *const *headers;
  const char *const
      *types; /* what a body may be, "image/png"; "*" for any; NULL: application/json in UTF-8 */
  size_t body_bytes; /* 0: as long as a message may be, which is the most */
  /* Exchanges that are kept, on one loop; then 503. 0: 1,024 */
  size_t max_kept;
  uint64_t answer_ms; /* for a kept one to be answered or to become a stream, then 503; 0: 30,000 */
} idem_http_route;

/* An answer. Headers are "Name: value" and end with NULL; they stand instead of the route's of the same name, and
 * Content-Length, Transfer-Encoding, Connection, Date and Content-Type are not theirs to say. The body is copied
 * unless it `lasts`, until after the listener. Sent to HEAD, it is counted and left out. */
typedef struct idem_http_answer {
  int status;       /* of RFC 9110, from 200 on */
  const char *type; /* Content-Type; NULL: none */
  const char *const *headers;
  const void *body;
  size_t len;
  bool lasts;
} idem_http_answer;
/* Ends the exchange, also where it fails. INVAL: no such status or header; the client gets 500. */
IDEM_API idem_status idem_http_respond(idem_http_exchange *exchange,
                                       const idem_http_answer *answer);

/* Who asks, as the principal function said; NULL: none was asked. Valid while the exchange is. */
IDEM_API const char *idem_http_exchange_principal(const idem_http_exchange *exchange);
/* What their token says (idem_http_auth); NULL: it does not, or it was none. Valid as long. */
IDEM_API yyjson_val *idem_http_exchange_claim(const idem_http_exchange *exchange, const char *name);

/* Keeps an exchange beyond the route's function, which calls this, once. `on_gone` runs when nobody waits any more: the client
 * has left, the time (answer_ms) is over, the listener is stopping; the exchange is gone then. It does not run
 * after respond or stream_end. LIMIT: so many are kept already (max_kept); NOMEM: answer with 503.
 * What you need of the request, copy. */
typedef struct idem_http_keep_opts {
  void (*on_gone)(void *user);
  /* A stream whose reader was too slow can be written again. NULL: nobody wants to know. */
  void (*on_room)(idem_http_exchange *exchange, void *user);
  void *user;
} idem_http_keep_opts;
IDEM_API idem_status idem_http_keep(idem_http_exchange *exchange, const idem_http_keep_opts *opts);

/* A body that comes in pieces, from a kept exchange: its head, without body and len. One of text/event-stream is kept
 * alive with a comment every stream_ms. A client that ends its input has left a stream; a listener that stops
 * ends it. INVAL: as respond, and the exchange has ended with 500. CLOSED: HEAD asked, and has its answer; the
 * exchange has ended. */
IDEM_API idem_status idem_http_stream_begin(idem_http_exchange *exchange,
                                            const idem_http_answer *head);
/* Appends bytes, all or none. LIMIT: more than queued_bytes are unread: nothing was added, and on_room tells when to
 * go on. Drop it, or end the stream of a reader who is too slow; one who reads nothing for idle_ms is cut off. Any other
 * failure is the connection's, and on_gone follows. */
IDEM_API idem_status idem_http_stream_write(idem_http_exchange *exchange, const void *data,
                                            size_t len);
IDEM_API void idem_http_stream_end(idem_http_exchange *exchange);

/* A file in memory, as a route's function: GET and HEAD, If-None-Match, Accept-Encoding. `user` is a file, which is lent
 * until after the listener. Give the route a Cache-Control ("no-cache" asks again each time, which costs a 304). */
typedef struct idem_http_file {
  const char *type;     /* Content-Type */
  const char *etag;     /* with its quotes; NULL: none */
  const char *encoding; /* Content-Encoding of `body`: "gzip", "br"; NULL: none */
  const void *body;
  size_t len;
  const void *plain; /* for who does not take the encoding; NULL: it gets 406 */
  size_t plain_len;
} idem_http_file;
IDEM_API void idem_http_serve_file(idem_http_exchange *exchange, const idem_http_request *request,
                                   void *user);

/* ----------------------------------- tokens of an authorization server */

/* Whose tokens are taken, and where the keys are that verify them. */
typedef struct idem_http_issuer {
  const char *issuer; /* exactly as tokens name it (`iss`): https, or http on loopback */
  /* Its keys, a JWKS: a file, for use without a network; or a URL; or, without either, where its metadata say. */
  const char *jwks_file;
  const char *jwks_url;
} idem_http_issuer;

/* Ways to sign. "none" and those with a shared secret cannot be asked for. */
typedef enum idem_http_algorithm {
  IDEM_HTTP_ES256 = 1,
  IDEM_HTTP_ES384 = 2,
  IDEM_HTTP_RS256 = 4,
  IDEM_HTTP_RS384 = 8,
  IDEM_HTTP_RS512 = 16,
  IDEM_HTTP_PS256 = 32,
  IDEM_HTTP_PS384 = 64,
  IDEM_HTTP_PS512 = 128,
  IDEM_HTTP_EDDSA = 256, /* with Ed25519 */
  IDEM_HTTP_ES512 = 512
} idem_http_algorithm;

/* Tokens that are bound to a key (`cnf` with `jkt`; RFC 9449, DPoP): each request must bring a proof that the caller has it. */
typedef enum idem_http_proofs {
  IDEM_HTTP_PROOFS_TAKEN = 0, /* who has such a token shows it so; nobody is told of it */
  IDEM_HTTP_PROOFS_OFFERED =
      1, /* metadata and challenges say so: clients that can, ask for such tokens */
  IDEM_HTTP_PROOFS_REQUIRED = 2 /* no other tokens are taken, but `tokens` */
} idem_http_proofs;

/* A server whose callers show access tokens (OAuth 2.1, RFC 9728, RFC 6750, RFC 9068): JWTs, or opaque ones that an endpoint is
 * asked about. Its metadata are served at the two well-known paths; refusals say where (401, 403 insufficient_scope). The
 * bearers of `tokens` are let in as ever, and may do everything. For listeners of idem_serve.
 *
 * A JWT must have the issuer, the audience, a time that has not run out, and the signature of one of its issuer's keys; keys
 * that the token itself brings or names (jwk, jku, x5c, x5u) are never looked at. A key that is not known has the keys fetched
 * again, at most every ten seconds, while its requests wait. Keys are fetched once for all loops of a process that ask the same place by the
 * same allocator, those of other listeners included; what was verified is remembered until it ends, by each loop for itself.
 *
 * A token that is bound to a key opens only as "DPoP" with a proof: signed by that key, for this method and URL (of the resource,
 * whatever Host says) and this token, of the last 30 seconds and skew_s, shown once. Listeners of one resource in a process
 * know each other's proofs. A token that is bound in another way (`x5t#S256`) is refused. */
typedef struct idem_http_auth {
  const char *
      resource; /* this server's URL as clients have it; NULL: the listener's own, if that is on loopback */
  const char *audience; /* what tokens must say (`aud`), alone or in a list; NULL: the resource */
  const idem_http_issuer *issuers;
  size_t issuer_count;
  unsigned algorithms;      /* bits of idem_http_algorithm; 0: all */
  uint32_t skew_s;          /* by how much clocks may differ; 0: 30 */
  bool access_tokens_alone; /* `typ` must be at+jwt (RFC 9068) */
  const char *
      principal_claim; /* who asks; NULL: "sub". With several issuers the issuer stands before it */
  const char *required_scope; /* words: whoever lacks one is refused everything */
  const char *scopes;         /* words that the metadata offer; NULL: required_scope */
  /* Pairs: a scope, and the words that who has it has, too; theirs count likewise. At most 64, ends with NULL; NULL: a scope is itself alone. */
  const char *const *scope_implies;
  /* Claims that lines of the log show behind who asked (" client_id=abc"), where they are a text, a number or a boolean: the access
   * log, HTTP's refusals of who was known, the calls of `idem serve`, idem_logged_claims. At most 6 names of 64 bytes, as idem_http_check_claim
   * takes them; of a value 72 bytes. Ends with NULL; NULL: none. */
  const char *const *log_claims;
  const char *name; /* of the server, for people */
  /* Tokens that are no JWTs (RFC 7662): who is asked, as whom. NULL: such tokens are refused. */
  const char *introspection_url;
  const char *introspection_id;
  const char *introspection_secret;
  uint32_t introspection_s; /* how long an answer holds at most; 0: 60 */
  /* Where clients get tokens, for the metadata, beside the issuers: of opaque tokens nobody else says it. At most 16, ends with
   * NULL; NULL: the issuers alone. */
  const char *const *authorization_servers;
  idem_http_proofs proofs;
  unsigned proof_algorithms; /* bits of idem_http_algorithm; 0: all */
  bool
      proof_nonces; /* a proof must have a nonce of this server's, which are good for a minute or two */
  const char *ca_file; /* PEM: whom to trust; NULL: the system's authorities */
  const char *proxy;   /* as in idem_client_opts */
  bool
      private_addresses; /* what issuers' metadata name may be in a private network. What is named here may be anyway */
} idem_http_auth;

/* ----------------------------------------------------------------- serving */

/* Lists end with NULL. An entry of a host list is `host` (the listener's port or none),
 * `host:port` (that one) or `host:*` (any); an origin entry may begin with a scheme
 * (`https://host`), and then only that scheme matches, else http and https. Compared without case, one trailing dot
 * ignored. */
typedef struct idem_http_opts {
  const char *const
      *allow_hosts; /* names beside this machine's, which are always allowed: localhost,
                                     127.0.0.1 and [::1] on any port, and the one host that is
                                     listened on. NULL: on a loopback address these alone; elsewhere
                                     every Host is accepted */
  const char *const *allow_origins; /* who may ask from a browser, CORS included; NULL: localhost,
                                       127.0.0.1, [::1] on any port. Pages of a listener on loopback
                                       may always ask it */
  const char *const *tokens;        /* bearer tokens, any of which opens; NULL: no token asked */
  /* Who asks (idem_principal in mcp.h); sessions, tasks and requestState belong to them alone. NULL:
   * whoever sends the same Authorization header is the same. */
  idem_http_principal_fn principal;
  void *principal_user;
  const idem_http_auth *auth; /* or an authorization server's tokens say it; NULL: they do not */
  const char *const *trusted_proxies; /* addresses or CIDR blocks that may name the client */
  /* The one header they name it in, which they must set or clear in every request: "Forwarded" in
   * the form of RFC 7239, any other as a list of addresses. NULL: "X-Forwarded-For". */
  const char *client_header;
  const char *tls_cert; /* https:// and wss://: PEM files, read again when they change */
  const char *tls_key;
  const char *tls_client_ca; /* whose client certificates are wanted; NULL: none are asked for */
  uint32_t rate_count;       /* messages a client may send, on any transport ... */
  uint32_t rate_seconds;     /* ... in this time; 0: no limit */
  size_t rate_clients;       /* clients remembered; 0: 4,096 */
  size_t header_bytes;       /* request line and header section; 0: 65,536 */
  size_t header_count;       /* 0: 100, which is also the most */
  uint64_t request_ms; /* for a request or WebSocket message to arrive once begun; 0: 30,000. Each
                        * 16 bytes that have come earn a millisecond more, ... */
  uint64_t request_most_ms; /* ... up to this; 0: 120,000 */
  uint64_t first_ms;        /* for the first byte of a connection, of sockets too; 0: 10,000 */
  uint64_t idle_ms;         /* between requests; 0: 300,000 */
  uint64_t stream_ms;       /* between comments of an event stream; 0: 15,000 */
  size_t queued_bytes;      /* unread answers of one connection before it is not read; 0: 1 MiB */
  /* Requests of a loop that wait before they begin: for who may ask, or for their session. Who comes past these
   * is refused with 503. */
  size_t max_waiting;   /* 0: 1,024 */
  size_t waiting_bytes; /* heads and bodies of them and of those that wait for a turn; 0: 64 MiB */
  uint64_t waiting_ms;  /* for who may ask (idem_http_caller_wait); 0: 10,000, with `auth` 25,000 */
  /* What a loop keeps of messages that are not whole yet, where it is more than 64 KiB of a connection: bodies, WebSocket
   * messages, lines and frames of TCP, TLS and Unix sockets, and what was sent behind a request that is not answered yet, all together. Past it whoever has been at it for longest is refused: 503,
   * the close code 1013, or on a socket an error with an unknown id (unavailable) and the end of the connection. 0: 256 MiB */
  size_t unfinished_bytes;
  bool access_log;  /* one line a request, at info */
  bool no_admin;    /* /healthz and /metrics are not served here, but on an "admin://" URL alone */
  unsigned workers; /* event loops, one thread each; 0: 1 */
  /* Requests whose handlers are at work, tasks and calls whose connection has gone included; who is past
   * its bound is refused (too-many-in-flight). A client is who the principal function names, or the bearer
   * of one of `tokens`, or an address: a header that nobody checks makes none. They hold for the server or router, wherever its requests come
   * from. A client's arguments may also take a quarter of the router's parse_bytes_total, no more. */
  size_t max_in_flight;         /* of all; 0: 65,536 */
  size_t max_in_flight_client;  /* of one client; 0: 16,384 */
  size_t max_in_flight_session; /* of one session of MCP before 2026-07-28; 0: 1,024 */
  /* MCP servers: sessions of revisions before 2026-07-28. The listeners of one server on one loop share
   * them; the first one's settings hold. */
  size_t max_sessions; /* 0: 10,000; then one that nobody uses ends for who comes */
  /* A principal's share: who has more loses its own oldest idle session before anybody else loses one. All whom nobody
   * has checked are one principal. 0: half, rounded up */
  size_t max_sessions_each;
  uint64_t session_idle_ms; /* then a session ends; 0: 30 min */
  bool stateless_legacy;    /* also answer older revisions that bring no session */
  /* The two paths of 2024-11-05's transport: a GET opens the stream, messages are posted to the other.
   * NULL: "/sse" and "/message"; "" for the first: not served. */
  const char *sse_path;
  const char *message_path;
  /* Of your own, at every URL but "admin://"; 256 at most. What `user` points to must outlive the listener. A path of the
   * protocol's, or two that are the same: INVAL. */
  const idem_http_route *routes;
  size_t route_count;
} idem_http_opts;

/* ------------------------------------------------- HTTP in a loop of your own */

/* With libuv nothing of this is needed: idem_serve takes "http://" addresses (uv.h). Without it a server and its connections are
 * machines: bytes go in, owned chunks come out, and each says when it must be called again. A server and all that came
 * from it belong to one thread; several threads have a server each, and may share routers and MCP servers.
 * Times are milliseconds of the server's clock.
 *
 *   bytes from the peer        idem_http_conn_feed; at their end _feed_eof; read only while _want_read
 *   room to write              idem_http_conn_next_chunk, write, idem_http_chunk_free once it is written
 *   time                       idem_http_conn_deadline and _expire, idem_http_server_deadline and _expire
 *   the end                    _closing: once all is written, end the output (SHUT_WR), go on reading; _finished: free it
 *
 * After each of these calls look again at all of them. examples/epoll_http.c is such a loop. */
typedef struct idem_http_server idem_http_server;
typedef struct idem_http_conn idem_http_conn;

typedef struct idem_http_server_opts {
  const idem_http_opts *
      http; /* who may ask, limits, routes; NULL: defaults. Workers, TLS, connections and admin paths
                                 are yours to care for */
  int port;          /* the listener's: entries of host lists without a port mean this one */
  bool loopback;     /* the listener's address is one: Host is checked without a list, too. Another
                        address than 127.0.0.1 and [::1] is to be named in allow_hosts */
  size_t body_bytes; /* 0: 10,485,760 */
  uint64_t (*now_ns)(void *ctx); /* a monotonic clock, also for the requests; must be given */
  void *clock_ctx;
  /* From any thread: have idem_http_server_expire called soon on the server's. NULL: nothing happens
   * on another, and the deadline says it. */
  void (*wake)(void *user);
  void *wake_user;
  idem_log *log;
  idem_metrics *metrics;
  const idem_alloc *alloc;
  uint64_t seed; /* random bits, mixed into hash tables */
} idem_http_server_opts;
/* INVAL: no clock, or a list holds what is no host, origin, token, address or route; NOMEM. */
IDEM_API idem_status idem_http_server_new(const idem_http_server_opts *opts,
                                          idem_http_server **out);
/* After its conns; chunks may outlive it. */
IDEM_API void idem_http_server_free(idem_http_server *server);
/* Before the first connection. As in idem_http_opts.routes; LIMIT: there are 256. */
IDEM_API idem_status idem_http_server_add_route(idem_http_server *server,
                                                const idem_http_route *route);
/* JSON-RPC at a path: POST and WebSocket. The router must outlive the server; policy NULL: plain JSON-RPC. After
 * a failure free the server. MCP: idem_http_server_add_mcp (mcp_http.h). */
IDEM_API idem_status idem_http_server_add_router(idem_http_server *server, const char *path,
                                                 const idem_router *router,
                                                 const idem_policy *policy);
/* What no connection looks after: when to call expire (UINT64_MAX: not), and doing it. At any time, too, as after `wake`. */
IDEM_API uint64_t idem_http_server_deadline(const idem_http_server *server);
IDEM_API void idem_http_server_expire(idem_http_server *server);
/* For the Date header, once a second; without it none is sent. */
IDEM_API void idem_http_server_set_date(idem_http_server *server, uint64_t unix_seconds);

typedef struct idem_http_conn_opts {
  const char *address; /* the other end's, "192.0.2.7" or "2001:db8::1"; NULL: it has none */
  const char *peer;    /* for the log, cut at 63 bytes; NULL: the address */
  /* There is output or another deadline, and none of your calls caused it: mark the conn and look after it at the end of
   * the turn. Do not free it here. */
  void (*on_output)(idem_http_conn *conn, void *user);
  void *user;
} idem_http_conn_opts;
/* INVAL: not an address; NOMEM. */
IDEM_API idem_status idem_http_conn_new(idem_http_server *server, const idem_http_conn_opts *opts,
                                        idem_http_conn **out);
/* The peer is gone: what it asked is cancelled. */
IDEM_API void idem_http_conn_free(idem_http_conn *conn);
IDEM_API void *idem_http_conn_user(const idem_http_conn *conn);
/* Handlers run inside. What is bad is answered, and the conn goes on or closes by itself. A failure (NOMEM, LIMIT, TIMEOUT)
 * means that it has finished. */
IDEM_API idem_status idem_http_conn_feed(idem_http_conn *conn, const char *data, size_t len);
IDEM_API idem_status idem_http_conn_feed_eof(idem_http_conn *conn);
/* False while answers must be given or read first. */
IDEM_API bool idem_http_conn_want_read(const idem_http_conn *conn);

/* Bytes to send, yours until freed. They count as queued until then, and survive the conn and the server: free them with
 * the conn they came from, or with NULL when it is gone. */
typedef struct idem_http_chunk {
  const char *data;
  size_t len;
  void *owner; /* private; NULL: none */
} idem_http_chunk;
IDEM_API bool idem_http_conn_next_chunk(idem_http_conn *conn, idem_http_chunk *chunk);
IDEM_API void idem_http_chunk_free(idem_http_conn *conn, idem_http_chunk *chunk);

IDEM_API uint64_t
idem_http_conn_deadline(const idem_http_conn *conn); /* UINT64_MAX: never; 0: now */
IDEM_API idem_status idem_http_conn_expire(idem_http_conn *conn);
/* No more requests but one that may be on its way: answers what runs, then closes; where nothing runs within a second, by
 * idem_http_conn_deadline. abort: what still runs is answered with an error now, and nothing is waited for. */
IDEM_API void idem_http_conn_close(idem_http_conn *conn);
IDEM_API void idem_http_conn_abort(idem_http_conn *conn);
IDEM_API bool idem_http_conn_closing(const idem_http_conn *conn);
IDEM_API bool idem_http_conn_finished(const idem_http_conn *conn);

/* ------------------------------------------------------------------ asking */

/* idem_connect to "http://", "https://", "ws://", "wss://" and "tls://". */
typedef struct idem_client_opts {
  const char *const *headers; /* "Name: value", sent with every request; ends with NULL */
  const char *token;          /* sent as "Authorization: Bearer ..." and kept out of the log */
  const char *ca_file;        /* PEM: whom to trust; NULL: the system's authorities */
  const char *cert_file;      /* PEM: a client certificate and its key */
  const char *key_file;
  bool no_verify;      /* trust any certificate: for experiments */
  const char *proxy;   /* HTTP: "http://host:port"; NULL: http_proxy, https_proxy, all_proxy of the
                          environment; "": none. no_proxy of the environment holds for all */
  uint64_t connect_ms; /* until there is a connection, handshakes included; 0: 10,000 for HTTP,
                          30,000 for the others */
  uint64_t total_ms;   /* HTTP: for one message and its answer; 0: no limit but the call's own */
  uint64_t idle_ms;    /* HTTP: without a byte of an awaited answer; 0: 300,000 */
  size_t max_requests; /* HTTP: calls under way at once, the others wait; 0: 32 */
  /* exec: the program and its arguments, as they are: no shell looks at them. argv[0] is looked for in
   * PATH unless it has a slash. Both end with NULL. */
  const char *const *argv;
  const char *const *environment; /* exec: "NAME=value"; NULL: this process's */
  const char *folder;             /* exec: where it starts; NULL: where this process is */
  uint64_t exit_ms; /* exec: how long it may take to end once its input has; then it gets SIGTERM,
                       and after as long again SIGKILL. 0: 2,000 */
  bool redirect_elsewhere; /* HTTP: follow 307 and 308 to other origins (never from https to http),
                              where no header, token or certificate of yours goes; else such a
                              redirect is an error */
} idem_client_opts;

#ifdef __cplusplus
}
#endif
#endif
