/* client.h - what the ways out (connect*.c) share beyond runtime.h: copied options, and how the
 * conns of HTTP and WebSocket are made. */
#ifndef IDEM_UV_CLIENT_H
#define IDEM_UV_CLIENT_H

#include "uv/runtime.h"

#include "http/http_client.h"
#include "rpc/rpc.h"

/* A copy of the user's, its strings ours. */
typedef struct idem__client_opts {
  idem_client_opts opts; /* headers and token are in `headers` */
  const char **headers;  /* the token among them; ends with NULL */
  size_t token_len;
} idem__client_opts;

/* `from` may be NULL. NOMEM; INVAL: a line end in the token. Deinit also after a failure. */
idem_status idem__client_opts_init(idem__client_opts *client, const idem_alloc *alloc,
                                   const idem_client_opts *from);
void idem__client_opts_deinit(idem__client_opts *client, const idem_alloc *alloc);
void idem__client_hide_token(const idem__client_opts *client, idem_log *log);

/* What a peer is made of, connected or accepted. */
static inline idem_serve_opts idem__peer_opts_of(const idem_connect_opts *opts) {
  return (idem_serve_opts){.router = opts->router,
                           .server = opts->server,
                           .policy = opts->policy,
                           .log = opts->log,
                           .metrics = opts->metrics,
                           .alloc = opts->alloc,
                           .on_open = opts->on_open,
                           .on_close = opts->on_close,
                           .on_protocol_error = opts->on_protocol_error,
                           .user = opts->user};
}

/* Ends an idem_connect to a socket that has not told its on_ready yet: that runs now, with CANCELLED. From a timer of the loop alone.
 * Does nothing where there is none, as for HTTP and programs, which are connected within a turn. */
void idem__connect_cancel(idem__runtime *runtime, idem_ready_fn on_ready, const void *user);

/* Takes its own reference of the runtime. Statuses as for idem_connect. The hooks of a protocol on top (NULL: none)
 * and their user must outlive the conn. */
idem_status idem__connect_http(idem__runtime *runtime, const char *url,
                               const idem_connect_opts *opts, const idem__http_hooks *hooks,
                               void *hooks_user, idem_ready_fn on_ready, void *user);

/* The same for a program, which is started now. */
idem_status idem__connect_exec(idem__runtime *runtime, const idem__url *url,
                               const idem_connect_opts *opts, idem_ready_fn on_ready, void *user);

/* Makes a fresh peer a WebSocket: the handshake is written, messages follow. `target` is path and
 * query. The peer's policy has whole framing. */
idem_status idem__peer_websocket(idem__peer *peer, const idem__url *url, const char *target,
                                 const char *const *headers);

#endif
