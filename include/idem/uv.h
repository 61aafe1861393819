/* idem/uv.h - the engine on libuv: stdio, TCP and Unix sockets, HTTP, child processes, addressed by URL.
 * Everything belongs to the loop it was made on and is called on that loop's thread. */
#ifndef IDEM_UV_H
#define IDEM_UV_H

#include <idem/http.h>
#include <idem/mcp.h>
#include <idem/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* libuv's, whose header is no strict C11: who makes a loop includes <uv.h>, who is handed one need not. */
typedef struct uv_loop_s uv_loop_t;

typedef struct idem_listener idem_listener;

/* What is served, to whom, and how. Zero means the default. */
typedef struct idem_serve_opts {
  const idem_router *router; /* what can be asked; not with `server` */
  idem_server *server;       /* an MCP server; its router and policy are used */
  const idem_policy *policy; /* stdio+lsp: sets its framing; sockets set guard_http */
  idem_log *log;
  idem_metrics *metrics;
  const idem_alloc *alloc; /* for conns; what a loop's conns share comes from the first one's */
  uint64_t grace_ms;       /* how long a shutdown waits for running requests; 0: 1,500 */
  /* idem_run alone: how long /healthz says "stopping" before that, while everybody is still served, so that whoever
   * shares out requests sends them elsewhere; 0: not at all. */
  uint64_t drain_ms;
  size_t max_connections; /* over all workers; 0: 1,000. Then who waits gives way */
  /* Of one client by its address, or as a trusted proxy names it; not of this machine or of the
   * proxy itself. 0: a quarter of max_connections, and at least 8. */
  size_t client_connections;
  const idem_http_opts *http; /* http:// and ws://: who may ask, limits, workers; NULL: defaults */
  /* Where `server` keeps what outlives a request: sessions of revisions before 2026-07-28 with their events, tasks, keys of calls
   * with their answers, news of changes, and the key of requestState unless it was given one. NULL and "memory:": in this process, gone with it.
   * "sqlite:/path": in a file, for the processes of one machine that name it; "?sync=full" behind it survives a loss
   * of power, too, "normal" (unless told otherwise) the death of any process; with "off" a loss of power may break the file.
   * "redis://[USER@]HOST[:PORT][/DATABASE]", "rediss://" (TLS) and "redis+unix:/PATH": in a Redis or Valkey, for all who name it;
   * behind "?", joined by "&": password_file=PATH or password_env=NAME (never in the URL itself), prefix=NAME of its keys,
   * db=NUMBER, replicas=NUMBER that must have a change before it is acknowledged, parts=NUMBER in a cluster, max_bytes=NUMBER, ca=FILE with rediss. A server has
   * one store, chosen when it is first served. INVAL: another is in use, there is no server, or it is no such
   * URL. SYS: it cannot be opened (logged). */
  const char *store;
  bool shutdown_ends_server; /* the lsp `shutdown` over a socket stops the server, too */
  /* A peer came or went: one pair a conn. May be NULL. */
  void (*on_open)(idem_conn *conn, void *user);
  void (*on_close)(idem_conn *conn, void *user);
  void (*on_protocol_error)(idem_conn *conn, const idem_protocol_error *error, void *user);
  /* idem_run alone: the loop is there, before anything is served on it; handles of yours may go on
   * it. And SIGHUP came, after the log was opened anew: with this, it ends the server only where the
   * terminal that it was started on has gone. */
  void (*on_loop)(uv_loop_t *loop, void *user);
  /* idem_run alone: this is served now, with its real port. */
  void (*on_listening)(const char *url, void *user);
  void (*on_hangup)(void *user);
  void *user;
} idem_serve_opts;

/* Whether a store can be named so, as `idem_serve_opts.store`, as far as it can be known without opening it: its words, its
 * file's folder, the file or variable of its password. INVAL: it is no such URL. SYS: something is not there. `why`, of `size`
 * bytes, says what, as the log does at the start; of a URL that is none it shows nothing, since a password may be in it. Not of a file that this
 * process has open as its store: to look at it would take its locks away. */
IDEM_API idem_status idem_check_store(const char *store, char *why, size_t size);

/* Serves on `loop`. URLs: "stdio:" "stdio+lsp:" (descriptors 0 and 1 of this process),
 * "tcp://127.0.0.1:PORT" "tcp://[::1]:PORT" (port 0: any free one; localhost: both), "unix:/path".
 * "tls://HOST:PORT" is tcp behind TLS (http->tls_cert and tls_key). "tcp+lsp://", "tls+lsp://"
 * and "unix+lsp:" frame with Content-Length; "http://HOST:PORT/path" (POST, and
 * WebSocket where it is asked for), "ws://HOST:PORT/path" (WebSocket alone), both also as "https://"
 * and "wss://" (http->tls_cert and tls_key), "admin://HOST:PORT"
 * (/healthz, and /metrics of every listener of the process that has metrics). opts, its policy and its http are copied.
 * INVAL: not such a URL, or http holds what is no host or address. SYS: the address cannot be had (logged). The listener is valid until its stop has
 * finished. */
IDEM_API idem_status idem_serve(uv_loop_t *loop, const char *url, const idem_serve_opts *opts,
                                idem_listener **listener);
/* Whether a listener could verify anything with these keys, a JWKS as text (idem_http_issuer.jwks_file), by one of these algorithms
 * (idem_http_auth.algorithms). INVAL: *why is a sentence; SYS: there is no module for signatures; NOMEM. */
IDEM_API idem_status idem_http_check_keys(const char *jwks, size_t len, unsigned algorithms,
                                          const char **why);
/* Whether a listener could use such a URL in its idem_http_auth, and tokens are safe with it (https, or http on loopback); `bare`: as
 * `resource`, or as an issuer whose keys are looked for, which have no query. INVAL: *why is a sentence. */
IDEM_API idem_status idem_http_check_url(const char *url, bool bare, const char **why);
/* Whether a log could show such a claim (idem_http_auth.log_claims). INVAL: *why is a sentence. */
IDEM_API idem_status idem_http_check_claim(const char *name, const char **why);
/* The address in use, with the real port: "tcp://127.0.0.1:41234". */
IDEM_API const char *idem_listener_url(const idem_listener *listener);
/* Stops accepting, lets running requests finish for grace_ms, answers the rest with an error,
 * flushes, closes, then calls `stopped` (may be NULL) and frees the listener. A second call before
 * that does nothing, and its `stopped` is not called. */
IDEM_API void idem_listener_stop(idem_listener *listener, void (*stopped)(void *user), void *user);

/* What a connected conn is made of. Zero means the default. */
typedef struct idem_connect_opts {
  const idem_router *router; /* what the other side may ask; not with `server`; NULL: nothing */
  idem_server *server;       /* an MCP server for the other side to ask */
  const idem_policy *policy; /* NULL: plain JSON-RPC; +lsp sets its framing */
  idem_log *log;
  idem_metrics *metrics;
  const idem_alloc *alloc;        /* as in idem_serve_opts */
  const idem_client_opts *client; /* headers, trust, proxy, time, a program; NULL: defaults */
  /* The conn came or went: one pair. May be NULL. */
  void (*on_open)(idem_conn *conn, void *user);
  void (*on_close)(idem_conn *conn, void *user);
  void (*on_protocol_error)(idem_conn *conn, const idem_protocol_error *error, void *user);
  /* Every message, whole and unframed, as it comes and goes; see idem_conn_opts. */
  void (*on_trace)(idem_conn *conn, idem_direction direction, const char *message, size_t len,
                   void *user);
  /* What a program ("exec:") writes to its stderr, as it comes: any bytes, split anywhere. */
  void (*on_stderr)(idem_conn *conn, const char *data, size_t len, void *user);
  void *user;
} idem_connect_opts;

/* Connects as a client (or as a peer that also serves). on_ready runs once: with a conn, or with
 * NULL and why not; never from inside this call, and not at all when it fails itself (INVAL: not a
 * URL to connect to, or client holds what is no header; NOMEM; SYS: a module is missing, logged).
 * TIMEOUT after 30 s. opts is copied, but not what it points to, policy and client excepted. The conn
 * lives until it is closed; on_close of opts tells.
 *
 * "http://host[:port]/path" and "https://": each message is POSTed; answers come as JSON or as an
 * event stream, which is taken up again where it broke off if its events have ids. There is no
 * connection to be ready for: on_ready runs at once, a server that cannot be reached fails each call,
 * and limits.idle_ms closes nothing. An HTTP error ends its call with REMOTE: the error in its body
 * if there is one, else code -32000, "HTTP 404 Not Found" and {"status":404} as data (429, 503: also
 * "retryAfter", seconds).
 *
 * "ws://host[:port]/path" and "wss://": one message a text frame; on_ready runs after the handshake
 * (PROTO: the server refused it; SYS: its certificate is not trusted). "tls://HOST:PORT": TCP behind
 * TLS, likewise.
 *
 * "exec:" and "exec+lsp:" start the program that client->argv names and speak with it over its stdin and
 * stdout; no text of a URL ever names a program. It is started inside this call (SYS: it cannot be,
 * logged; INVAL: there is no argv). It leads a process group of its own. When the conn is closed, or the
 * program ends its output, its input ends; if it is not gone after client->exit_ms its group gets SIGTERM,
 * and after as long again SIGKILL. When the program has ended, all that is left of its group is killed.
 * on_close runs when the program has ended, and idem_conn_close_reason then tells how.
 * limits.idle_ms closes nothing. Its end is noticed by SIGCHLD through libuv: a process that waits
 * for any child (waitpid -1) takes the exit status away. */
typedef void (*idem_ready_fn)(idem_conn *conn, idem_status status, void *user);
IDEM_API idem_status idem_connect(uv_loop_t *loop, const char *url, const idem_connect_opts *opts,
                                  idem_ready_fn on_ready, void *user);

/* Runs `work` on another thread, then `after` on the loop, where the request must be answered. The
 * request is kept for you. `work` must not touch the request or the conn. `after` runs exactly once,
 * also when the request was cancelled or its conn is gone: reply or drop there. On failure (NOMEM,
 * SYS) nothing is kept and neither function runs. */
typedef void (*idem_work_fn)(void *job);
typedef void (*idem_after_fn)(idem_request *request, void *job);
IDEM_API idem_status idem_offload(uv_loop_t *loop, idem_request *request, idem_work_fn work,
                                  idem_after_fn after, void *job);
/* Makes libuv's threads now, once for the process: for programs that would rather not start than find out later that there
 * are none to be had, where libuv would end the process (idem_offload looks, too). OK; SYS: they cannot be had. */
IDEM_API idem_status idem_offload_ready(void);

/* Shows every message of every conn on this loop to `fn`, whichever way it comes: see idem_pool_trace. NULL: to nobody.
 * NOTFOUND: nothing is served or connected to there. */
IDEM_API idem_status idem_loop_trace(uv_loop_t *loop, idem_trace_fn fn, void *user);
/* Adds what all listeners of the process have counted that have metrics (as /metrics shows it). */
IDEM_API void idem_process_metrics(idem_metrics_sums *sums);

/* What to give a libuv timer that sets itself again, to run at `at_ms` by the clock that says `now_ms`: at least 1. libuv before 1.45
 * runs a timer of no time again in the same turn, before it looks at anything else, so that one which stays due would have the loop
 * for itself, and what it waits for would never be heard. */
static inline uint64_t idem_timer_ms(uint64_t at_ms, uint64_t now_ms) {
  return at_ms > now_ms ? at_ms - now_ms : 1;
}

/* The loop a conn of this runtime runs on. */
IDEM_API uv_loop_t *idem_conn_loop(const idem_conn *conn);
/* The loop a request is handled on, also once it is a task and its conn is gone. Ask in the handler. */
IDEM_API uv_loop_t *idem_request_loop(const idem_request *request);
/* Why a conn of this runtime ended: ask in on_close. What it points to is lent until that returns. */
typedef struct idem_close_reason {
  const char
      *text;       /* one line: "exit status 3", "Connection reset by peer", "closed"; never NULL */
  int exit_status; /* of a program; -1: it did not exit by itself, or there is none */
  int signal;      /* that ended a program; 0: none */
  bool asked;      /* a program that ended since its conn was closed here, or the loop stops */
  bool server_stops;  /* a program that idem_run ended, be there calls or not, since it stops */
  const char *errors; /* the last bytes of its stderr, any bytes, at most 4,096; NULL: no program */
  size_t errors_len;
} idem_close_reason;
IDEM_API idem_close_reason idem_conn_close_reason(const idem_conn *conn);
/* A pointer of yours that stays with a conn of this runtime; NULL at first. (idem_conn_user is the
 * runtime's own here. The runtime frees its conns: end one with idem_conn_close or _abort.) */
IDEM_API void idem_conn_set_data(idem_conn *conn, void *data);
IDEM_API void *idem_conn_data(const idem_conn *conn);

/* Serves one or more URLs on a loop of its own until end of input (stdio), SIGINT or SIGTERM (on
 * stdio alone without on_hangup SIGHUP, too, and where the terminal that it was started on is gone; else
 * that reopens the log), then shuts down gracefully; a second
 * signal ends the process at once. opts->log NULL: a log as idem_log_open makes it, at level info.
 * Returns the process's exit code: 0, or 1 for what could not start and when stdin or stdout fails
 * (a full disk, a reader who left what is owed to it); does not return when offloaded work outlasts the grace, but
 * exits with it. One at a time in a process. */
IDEM_API int idem_run(const char *const *urls, size_t count, const idem_serve_opts *opts);

/* A log that writes to stderr or to the file named by the environment variable IDEM_LOG (checked
 * now; on failure one warning and stderr), coloured only on a terminal without NO_COLOR. */
typedef struct idem_log_setup {
  idem_log_level level; /* 0 is debug: set it */
  idem_log_format format;
  bool no_color;
} idem_log_setup;
/* NOMEM. Freed with idem_log_free. */
IDEM_API idem_status idem_log_open(const idem_log_setup *setup, idem_log **out);
/* Whether a person looks on: that log goes to a terminal. */
IDEM_API bool idem_log_is_watched(void);
/* Opens the log's file anew (SIGHUP after log rotation). */
IDEM_API void idem_log_reopen(idem_log *log);
/* Fills in what an MCP server needs of the operating system: randomness and the time of day. */
IDEM_API void idem_server_os(idem_server_opts *opts);
/* Fills holes among descriptors 0 to 2, so that no file that is opened next becomes the stdout that is missing. At
 * the beginning of a program; idem_serve does it for "stdio:". */
IDEM_API void idem_stdio_fill_holes(void);
/* Random bits for seeds. */
IDEM_API uint64_t idem_random_seed(void);

#ifdef __cplusplus
}
#endif
#endif
