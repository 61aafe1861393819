/* runtime.h - what the files of src/uv share: the runtime of a loop, peers, listeners, addresses. Only this folder includes uv.h.
 * See docs/internals/uv.md. */
#ifndef IDEM_UV_RUNTIME_H
#define IDEM_UV_RUNTIME_H

#include "http/http.h"
#include "uv/driver.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

/* ------------------------------------------------------------------ clock */

uint64_t idem__clock_ns(void *ctx); /* monotonic */
/* The same clock as it was at the last tick, up to 10 ms ago: never ahead of it, and a fifth of its cost. */
uint64_t idem__coarse_clock_ns(void *ctx);
/* Bytes that nobody can guess. */
void idem__os_random(void *ctx, void *bytes, size_t len);
static inline uint64_t idem__clock_ms(void) { return idem__clock_ns(NULL) / 1000000; }

/* -------------------------------------------------------------- addresses */

typedef enum idem__scheme {
  IDEM__SCHEME_STDIO,
  IDEM__SCHEME_TCP,
  IDEM__SCHEME_UNIX,
  IDEM__SCHEME_HTTP,  /* POST and WebSocket at a path */
  IDEM__SCHEME_WS,    /* WebSocket alone */
  IDEM__SCHEME_ADMIN, /* /healthz and /metrics alone */
  IDEM__SCHEME_EXEC   /* a program of ours, to connect to */
} idem__scheme;

typedef struct idem__url {
  idem__scheme scheme;
  bool content_length; /* the scheme ended in +lsp */
  bool tls;            /* https, wss, tls */
  uint16_t port;
  char host[256];                                         /* without brackets */
  char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* of the socket, or of HTTP */
} idem__url;

idem_status idem__url_parse(const char *text, idem__url *url); /* OK or INVAL */
/* "ws://host[:port][/path][?query]" or "wss://", to connect to: *target is path and query within
 * `text`, "" if there are none. */
idem_status idem__url_parse_remote(const char *text, idem__url *url, const char **target);

typedef struct idem__address {
  struct sockaddr_storage storage;
  socklen_t len;
} idem__address;
#define IDEM__ADDRESSES 8

/* Literals and "localhost" without asking anyone; then *count is at least 1. NOTFOUND: a name. */
idem_status idem__address_literal(const idem__url *url, idem__address *list, size_t *count);
/* "127.0.0.1:4242" or "[::1]:4242"; cut to fit. */
void idem__address_text(const idem__address *address, char *text, size_t size);
uint16_t idem__address_port(const idem__address *address);
void idem__address_set_port(idem__address *address, uint16_t port);
idem__address idem__address_of_path(const char *path);

/* ---------------------------------------------------------------- runtime */

typedef struct idem__peer idem__peer;
typedef struct idem__loop_worker idem__loop_worker;
typedef struct idem__fetcher idem__fetcher;

/* What all drivers of one loop share. Made with the first of them, gone with the last. */
struct idem__runtime {
  struct idem__runtime *next;
  uv_loop_t *loop;
  idem_alloc alloc;
  idem_pool *pool;
  size_t references;
  char *read_buffer;
  struct iovec pieces[IDEM__PIECES]; /* of the write that is being made */
  uv_prepare_t flusher;              /* runs before the loop blocks, while `dirty` is not empty */
  uv_check_t turns;                  /* after what was read: another turn begins */
  uv_idle_t late;                    /* while somebody waits for another turn */
  uv_timer_t timer; /* for the first of `deadlines` and for trimming; never keeps a loop alive */
  unsigned open_handles;
  idem_list dirty;
  idem_list trims;             /* what else to trim when the pool is: see idem__trim */
  idem_list programs;          /* the peers that are our children: see exec.c */
  idem_list attempts;          /* on their way to an address: see connect.c */
  idem_list openings;          /* the peers whose handshakes began there, over or not */
  idem__unfinished unfinished; /* of all who listen there, HTTP or not */
  idem__heap deadlines;
  const char *fault;              /* of the peer whose on_ready runs with a failure; else NULL */
  bool lent;                      /* somebody has the loop and may have put handles there */
  uint64_t armed_ms;              /* when `timer` fires; UINT64_MAX: it does not */
  uint64_t trim_ms;               /* when to give memory back; UINT64_MAX: nothing was taken */
  idem__loop_worker *mcp_workers; /* of MCP servers: see mcp.c */
  idem__fetcher *fetcher;         /* libcurl, once it was needed: see fetcher.c */
};

#define IDEM__FAULT 512 /* bytes of a sentence that says what kept a peer from opening */
#define IDEM__READ_BYTES ((size_t)64 * 1024)

idem__runtime *idem__runtime_find(const uv_loop_t *loop); /* NULL: there is none */
idem_status idem__runtime_get(uv_loop_t *loop, const idem_alloc *alloc, idem__runtime **out);
void idem__runtime_release(idem__runtime *runtime);
/* One of its handles, counted in open_handles, is closed. */
void idem__runtime_handle_closed(idem__runtime *runtime);
void idem__fetcher_close(idem__fetcher *fetcher); /* takes NULL */
/* mcp.c: a conn of an MCP server. */
idem_status idem__runtime_accept(idem__runtime *runtime, idem_server *server,
                                 const idem_conn_opts *opts, idem_conn **out);
struct idem__mcp_worker;
idem_status idem__runtime_worker(idem__runtime *runtime, idem_server *server,
                                 struct idem__mcp_worker **out);
/* The sessions of a server whose worker there is, shared by the HTTP listeners of the loop; the first one's
 * options hold. Each gives it back. */
struct idem__session_table;
struct idem__session_table_opts;
idem_status idem__runtime_sessions(idem__runtime *runtime,
                                   const struct idem__session_table_opts *opts,
                                   struct idem__session_table **out);
void idem__runtime_release_sessions(idem__runtime *runtime, const idem_server *server);
void idem__runtime_close_workers(idem__runtime *runtime);
/* Those who listen for changes are told that it is over. */
void idem__runtime_end_subscriptions(idem__runtime *runtime, const idem_server *server);
/* Calls with a key or tasks run on this loop, perhaps without a connection. */
bool idem__runtime_works(const idem__runtime *runtime, const idem_server *server);
/* The listener is looked at (idem__listener_look) when some such work has ended. */
void idem__runtime_await_rest(const idem__runtime *runtime, const idem_server *server,
                              struct idem_listener *listener);
/* Has idem__runtime_flush settle the driver before the loop blocks. */
void idem__runtime_mark(idem__runtime *runtime, idem__driver *driver);
/* Sends what handlers have left in the machines since the last look. */
void idem__runtime_flush(idem__runtime *runtime);
/* Ends what is overdue; then arms the timer for what comes next. */
void idem__runtime_expire(idem__runtime *runtime);
/* The next moment expire has something to do. */
uint64_t idem__runtime_deadline(const idem__runtime *runtime);
void idem__runtime_arm(idem__runtime *runtime);
/* Memory of the loop is given back in a moment: the pool's, and what its trims run for. */
void idem__runtime_trim_later(idem__runtime *runtime);
typedef struct idem__trim {
  idem_list node; /* in the runtime's */
  void (*run)(struct idem__trim *trim);
} idem__trim;

/* ------------------------------------------------------------------ peers */

/* What stands between a wire's bytes and the messages of a conn with whole framing. */
typedef struct idem__codec {
  /* Feeds the conn with what the bytes mean; statuses as for idem_conn_feed. */
  idem_status (*feed)(idem__peer *peer, const char *data, size_t len);
  /* Puts the conn's output into peer->out as far as it has room, and the end when there is one. */
  idem_status (*pump)(idem__peer *peer);
  /* What it wants beyond the conn, if it does: an earlier deadline, not to be done yet. */
  void (*look)(idem__peer *peer, idem__wants *wants);
  bool (*open)(const idem__peer *peer); /* its handshake has succeeded */
  const char *(*fault)(const idem__peer *peer);
  void (*free)(idem__peer *peer); /* the conn still lives */
} idem__codec;

/* A conn and its output on the way: the machine of stdio, sockets and programs. */
/* Whom a listener's peer belongs to. */
typedef struct idem__client {
  idem__ip ip;
  bool counted; /* among its client's connections */
} idem__client;

struct idem__peer {
  idem__driver driver;
  const idem_serve_opts *opts;
  idem_listener *listener; /* NULL for one we connected to */
  idem__client client;     /* of a listener's */
  idem_conn *conn;         /* NULL once lingering or closed */
  /* idem_connect_opts.on_trace; NULL: nobody wants to see */
  void (*on_trace)(idem_conn *conn, idem_direction direction, const char *message, size_t len,
                   void *user);
  idem_chunk chunks[IDEM__PIECES];
  size_t chunk_count;
  size_t chunk_offset;      /* how much of the first one is written; with a codec: of `out` */
  const idem__codec *codec; /* NULL: the wire's bytes are the conn's */
  void *codec_state;
  idem_buf out;
  uint64_t first_by_ms;   /* who has not said a word by then goes; 0: no hurry */
  uint64_t message_by_ms; /* a codec's message that has begun must be whole; 0, UINT64_MAX: none */
  uint64_t last_by_ms;    /* what a closed client has left to say is taken by then; 0: no hurry */
  idem_ready_fn on_ready; /* of idem_connect, until it has run */
  void *ready_user;
  idem_close_reason reason;
  idem_status open_failure;           /* why it did not come to that, if it is known */
  idem__half unfinished;              /* of a listener's: what its conn holds of half a message */
  bool draining;                      /* we stopped reading for good */
  bool broken;                        /* TLS said so */
  bool used;                          /* a byte has come or gone */
  void (*on_freed)(idem__peer *peer); /* frees the memory the peer is part of */
};

static inline idem__peer *idem__peer_of(idem__driver *driver) {
  return IDEM_CONTAINER(driver, idem__peer, driver);
}
/* Of zeroed memory whose driver's wire and io, opts, listener and on_freed are set. */
void idem__peer_init(idem__peer *peer, idem__runtime *runtime);
/* Makes the conn. On failure there is a peer to discard. */
idem_status idem__peer_open(idem__peer *peer, const idem_policy *policy, const char *name);
/* Tells its on_trace of every message from now on. */
void idem__peer_trace(idem__peer *peer);
/* Ends one that has no conn, by its wire. */
void idem__peer_discard(idem__peer *peer);

/* ---------------------------------------------------------------- sockets */

/* The wire of a non-blocking socket. */
typedef struct idem__socket {
  idem__driver *driver;
  uv_poll_t poll;
  int fd;
  int events;
  bool wants_read, wants_write;
  uint64_t probe_ms;           /* whoever ended its input is asked for at this pace; 0: not */
  struct idem__secure *secure; /* TLS; NULL: plain */
} idem__socket;

extern const idem__wire idem__socket_wire;
/* Takes the descriptor unless it fails: SYS. The driver's wire and io are set. */
idem_status idem__socket_init(idem__socket *self, idem__driver *driver, uv_loop_t *loop, int fd);
/* Bytes that were written wait inside. */
bool idem__socket_holds(const idem__socket *self);
/* After the driver is gone. */
void idem__socket_deinit(idem__socket *self);

/* A peer on a socket. */
typedef struct idem__socket_peer {
  idem__peer peer;
  idem__socket socket;
  idem_serve_opts own_opts[]; /* one for a connected peer, which has no listener to hold it */
} idem__socket_peer;

/* Takes the non-blocking socket; closes it on failure. `opts` is copied when there is no listener. */
idem_status idem__socket_open(idem__runtime *runtime, idem_listener *listener,
                              const idem_serve_opts *opts, const idem_policy *policy, int fd,
                              const char *name, idem__peer **out);

/* TLS from now on: before anything was read or written. Takes the session, also when it fails; the
 * handshake must be over by then. */
struct idem__tls_module;
struct idem__tls_session;
idem_status idem__socket_secure(idem__socket *self, const struct idem__tls_module *module,
                                struct idem__tls_session *session, uint64_t open_by_ms);

/* Ends those programs of a loop, patiently, that owe no answer to a call of ours. */
void idem__exec_stop_idle(const uv_loop_t *loop);
/* Ends the programs of a loop, patiently or at once. False: there are none (any more). */
bool idem__exec_stop(const uv_loop_t *loop, bool at_once);

/* -------------------------------------------------------------- listeners */

/* clients.c: what each client of a listener may take. The others are in clients.h. */
typedef struct idem__clients idem__clients;
void idem__clients_leave(idem__clients *self, const idem__client *client);
bool idem__clients_limited(const idem__clients *self);
/* Takes a token of the rate limit; for who is limited. */
bool idem__clients_admit(idem__clients *self, const idem__client *client);

#define IDEM__GRACE_MS 1500 /* with the last flush, well within two seconds */

typedef struct idem__accept_point {
  uv_poll_t poll;
  int fd;
  bool polled;
  idem_listener *listener;
} idem__accept_point;

struct idem_listener {
  idem__runtime *runtime;
  idem_serve_opts opts;
  idem_policy policy;
  idem__scheme scheme;
  struct idem__web *web;       /* HTTP and WebSocket; else NULL */
  struct idem__tls_files *tls; /* of tls://, https:// and wss://; else NULL */
  idem__clients *clients;      /* of sockets without HTTP; else NULL */
  struct idem__web *first; /* a worker's: whose port, rate limiter, sessions and room it shares */
  bool reuse_port;         /* one of several loops on this port */
  char *url;
  idem_list peers;
  size_t peer_count;
  size_t unfinished_bytes; /* that the loop may hold of halves of messages */
  uint64_t probe_ms;       /* how often a peer that has ended its input is asked for; 0: never */
  idem__accept_point points[2]; /* localhost has two addresses */
  size_t point_count;
  uv_timer_t retry; /* accepting again after the system ran out of something */
  uv_timer_t grace;
  idem_list resting; /* among those that wait for the end of what works without a connection */
  int grace_step;
  unsigned open_handles;
  uint64_t warned_ms;
  uint64_t unwarned;
  bool stopping;
  bool closing;
  bool counted; /* its counters are among those of /metrics */
  char unix_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
  uint64_t unix_device, unix_inode;
  void (*stopped)(void *user);
  void *stopped_user;
  /* For idem_run: input has ended or the peer asked for shutdown. */
  void (*on_finish)(void *user);
  /* And: stdin or stdout has failed, other than by who left. */
  void (*on_failure)(void *user);
  void *finish_user;
};

idem_status idem__listener_bind(idem_listener *listener, const idem__url *url);
/* Logs `what` and the URL it was given, which is no secret of a peer's; `detail` may be NULL. */
void idem__listener_tell(const idem_listener *listener, idem_log_level level, const char *what,
                         const char *detail);
void idem__listener_accept(idem__accept_point *point);
/* Everybody who has connected; nobody can any more. Before the points are closed. */
void idem__listener_accept_last(idem_listener *listener);
void idem__listener_unlink(idem_listener *listener);
/* Gives what runs grace_ms to finish, then ends it. */
void idem__listener_begin_grace(idem_listener *listener);
void idem__listener_peer_gone(idem_listener *listener);
/* The stdio peer's input has ended. */
void idem__listener_input_ended(idem_listener *listener);
/* A peer's descriptor cannot be read or written, a full disk for example. */
void idem__listener_end_failed(idem_listener *listener);
void idem__listener_shutdown_asked(idem_listener *listener);

/* --------------------------------------------------------- HTTP, WebSocket */

/* What serves HTTP on one loop. Its handles count as the listener's. */
typedef struct idem__web idem__web;
idem_status idem__web_open(idem_listener *listener, idem__web **out);
/* The port is known; the URL is set. Starts the other workers, if there are to be any. */
idem_status idem__web_started(idem__web *web, const idem__url *url, bool loopback, int port);
/* Takes the socket, whatever happens. */
void idem__web_accept(idem__web *web, int fd, const idem__address *from);
/* Connections of its port, on every loop. */
size_t idem__web_count(const idem__web *web);
/* /healthz of every listener says so. From any thread. */
void idem__web_set_draining(bool now);
/* The steps of stopping: finish, answer with an error, cut off. */
void idem__web_stop(idem__web *web, int step);
/* No connection is left and the workers have ended. */
bool idem__web_idle(const idem__web *web);
/* What it was asked goes on without a connection. */
bool idem__web_works_on(const idem__web *web);
/* Closes its handle; then `closed` runs. */
void idem__web_close(idem__web *web, uv_close_cb closed);
void idem__web_free(idem__web *web);
/* The end of the last connection or worker is near: look whether all is idle. */
void idem__listener_look(idem_listener *listener);
/* Serves on a loop of a worker's what the first one serves. */
idem_status idem__serve_worker(uv_loop_t *loop, const char *url, const idem_serve_opts *opts,
                               idem__web *first, idem_listener **out);

/* Opens the store that `store` names, for a server that has none yet; see idem_serve_opts. */
idem_status idem__store_join(const idem_serve_opts *opts);
/* Nothing is served any more: the others who share it hear of it, before the process ends. */
void idem__store_leave(const idem_serve_opts *opts);
/* A module's table, loaded for good; NULL: `why` says what is missing. */
const void *idem__module_load(const char *name, const char *symbol, char *why, size_t size);

bool idem__url_is_web(const char *text);
/* Whether /metrics is served there. */
bool idem__url_counts(const char *text, const idem_serve_opts *opts);
/* Every counter of the process's listeners, for /metrics on any thread. */
idem_status idem__web_metrics_add(idem_metrics *metrics);
void idem__web_metrics_remove(idem_metrics *metrics);
idem_status idem__web_metrics_render(char **text, size_t *len, idem_metrics **owner);
void idem__web_metrics_done(void); /* after a render that went well */

/* ------------------------------------------------------------------ stdio */

typedef enum idem__output_kind {
  IDEM__OUTPUT_NONE,   /* descriptor 1 was closed */
  IDEM__OUTPUT_SOCKET, /* asked not to block with each write */
  IDEM__OUTPUT_POLLED, /* a pipe or terminal whose description does not block */
  IDEM__OUTPUT_PLAIN   /* a file or device: never blocks for long */
} idem__output_kind;

/* What descriptors 0 and 1 were, while stdio is served. */
typedef struct idem__stdio_ends {
  int in;  /* -1: it was closed */
  int out; /* -1: it was closed */
  idem__output_kind kind;
  bool mask_sigpipe; /* the process would die of it */
} idem__stdio_ends;

/* Moves descriptors 0 and 1 aside. STATE: they are taken already; SYS. */
idem_status idem__stdio_take(idem__stdio_ends *ends);
void idem__stdio_give_back(void);
/* Async-signal-safe: makes a blocking read return, and does not let another one block. */
void idem__stdio_interrupt(void);
bool idem__stdio_interrupted(void);
/* Async-signal-safe: puts flags of inherited descriptors back. */
void idem__stdio_restore_flags(void);
idem_status idem__stdio_open(idem_listener *listener);
/* One turn without the loop: reads (and blocks) when nothing but input can make progress; `ignored`
 * is a handle of the caller's that does not count. False: there is something for the loop to do. */
bool idem__stdio_turn(idem_listener *listener, const uv_async_t *ignored);
/* After turns without it, before the loop runs: has the loop watch what the peer waits for. */
void idem__stdio_join_loop(idem_listener *listener);

/* "stderr" or "file", for the first line of a log. */
const char *idem__log_sink_name(void);
#endif
