/* idem/http.h - HTTP and WebSocket: who may ask a server, and how a client asks.
 * Plain data: hand it to idem_serve in idem_serve_opts and to idem_connect in idem_connect_opts (uv.h). Zero means the
 * default, and the defaults are the strict ones. Strings and lists are copied. */
#ifndef IDEM_HTTP_H
#define IDEM_HTTP_H

#include <idem/base.h>

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

/* Lists end with NULL. An entry of a host list is `host` (the listener's port or none),
 * `host:port` (that one) or `host:*` (any); an origin entry may begin with a scheme
 * (`https://host`), and then only that scheme matches, else http and https. Compared without case, one trailing dot
 * ignored. */
typedef struct idem_http_opts {
  const char *const *allow_hosts; /* NULL: on a loopback address localhost, 127.0.0.1, [::1] on any
                                     port; elsewhere every Host is accepted */
  const char *const *allow_origins; /* who may ask from a browser, CORS included; NULL: localhost,
                                       127.0.0.1, [::1] on any port */
  const char *const *tokens;        /* bearer tokens, any of which opens; NULL: no token asked */
  /* Who asks (idem_principal in mcp.h); sessions, tasks and requestState belong to them alone. NULL:
   * whoever sends the same Authorization header is the same. */
  idem_http_principal_fn principal;
  void *principal_user;
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
  size_t waiting_bytes; /* heads and bodies of them; 0: 64 MiB */
  uint64_t waiting_ms;  /* for who may ask (idem_http_caller_wait); 0: 10,000 */
  /* What a loop keeps of bodies and WebSocket messages that are not whole yet, where it is more than 64 KiB of a
   * connection. Past it whoever has been at it for longest is refused, with 503 or the close code 1013.
   * 0: 256 MiB */
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
  size_t max_sessions;      /* 0: 10,000 */
  uint64_t session_idle_ms; /* then a session ends; 0: 30 min */
  bool stateless_legacy;    /* also answer older revisions that bring no session */
  /* The two paths of 2024-11-05's transport: a GET opens the stream, messages are posted to the other.
   * NULL: "/sse" and "/message"; "" for the first: not served. */
  const char *sse_path;
  const char *message_path;
} idem_http_opts;

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
