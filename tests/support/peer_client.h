/* peer_client.h - the peer of transcripts as an MCP client, on a line or over HTTP: what a program asks is an action, what
 * its functions are told is seen. See docs/internals/tests.md. */
#ifndef IDEM_TEST_PEER_CLIENT_H
#define IDEM_TEST_PEER_CLIENT_H

#include <idem/mcp_client.h>

struct peer;

/* What a scenario says of its client. */
typedef struct client_setting {
  idem_mcp_client_opts opts;
  bool http; /* the way of src/mcp_http, without I/O */
  bool form, url,
      sampling; /* there are handlers: they keep the question until an action answers it */
} client_setting;

typedef struct client_side client_side;
typedef struct client_web client_web;

/* The client and its conn, which is the peer's. On failure peer_close_client is still to be called. */
idem_status peer_open_client(struct peer *p, const client_setting *setting, const idem_alloc *alloc,
                             const idem_conn_opts *conn);
/* After the conn. */
void peer_close_client(struct peer *p);
bool peer_act_client(struct peer *p, const char *action);

/* peer_client_web.c: requests are messages, what begins with a request's number is its answer. */
idem_status peer_open_web(struct peer *p, idem_mcp_client *client, const idem_alloc *alloc,
                          idem_conn_opts *conn);
void peer_web_feed(struct peer *p, const char *data, size_t len);
void peer_web_pump(struct peer *p);
uint64_t peer_web_deadline(const struct peer *p);
/* Before the conn is freed; then what is left, after the client. */
void peer_web_leave(struct peer *p);
void peer_web_free(struct peer *p);

#endif
