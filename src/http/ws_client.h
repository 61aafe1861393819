/* ws_client.h - the asking end of a WebSocket, without I/O: its handshake, then one message of a
 * conn a text frame, both ways. See docs/internals/http.md. */
#ifndef IDEM_HTTP_WS_CLIENT_H
#define IDEM_HTTP_WS_CLIENT_H

#include "http.h"

typedef struct idem__ws_client idem__ws_client;

typedef struct idem__ws_client_opts {
  const char *host;           /* the Host header: name and, unless it is the usual one, port */
  const char *target;         /* path and query */
  const char *const *headers; /* "Name: value"; NULL, or ends with NULL */
  idem_conn *conn;            /* with whole framing; lent. Its output is taken here */
  idem_buf *out;              /* bytes for the wire are added here; the caller takes them away */
  void (*random)(void *ctx, uint8_t *bytes, size_t len);
  void *random_ctx;
  const idem_alloc *alloc;
} idem__ws_client_opts;

/* False: a header with a line end, or one of the handshake's own. */
bool idem__ws_client_may_send(const char *const *headers);
/* Also writes the handshake. NOMEM, LIMIT; INVAL: a header that may not be sent. */
idem_status idem__ws_client_new(const idem__ws_client_opts *opts, idem__ws_client **out);
/* While the conn lives. Takes NULL. */
void idem__ws_client_free(idem__ws_client *client);
/* Feeds the conn with what the bytes mean. PROTO: the server does not want to (see fault), or broke
 * the protocol and was told. */
idem_status idem__ws_client_feed(idem__ws_client *client, const char *data, size_t len);
/* As idem__websocket_due; UINT64_MAX also before the handshake, which has a limit of its own. */
uint64_t idem__ws_client_due(idem__ws_client *client, uint64_t now_ms, uint64_t limit_ms);
/* Makes frames of the conn's output while `out` has room; says goodbye once the conn is done. */
idem_status idem__ws_client_pump(idem__ws_client *client);
bool idem__ws_client_open(const idem__ws_client *client); /* the handshake has succeeded */
/* Why it has not: "HTTP 401 Unauthorized: " and what the server said of it, a sentence, or "". */
#define IDEM__WS_FAULT 512
const char *idem__ws_client_fault(const idem__ws_client *client);

#endif
