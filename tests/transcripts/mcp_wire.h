/* mcp_wire.h - MCP's transcripts over real transports: server and client in one process and on one
 * loop, so that the fixture can be told to act. mcp_wire_player.c plays; a *link* is the client's side of
 * a transport: mcp_wire_lines.c (stdio, TCP, Unix sockets, WebSocket), mcp_wire_http.c. */
#ifndef IDEM_TEST_MCP_WIRE_H
#define IDEM_TEST_MCP_WIRE_H

#include "support/peer.h"
#include "support/transcript.h"

#include <idem/uv.h>
#include <uv.h>

typedef struct mcp_wire mcp_wire;

typedef struct mcp_link {
  const char *name;
  bool ordered; /* messages come in the order in which they were sent */
  bool tells;   /* on_open tells of its conn */
  /* Before the server: the address it is to have. */
  void (*prepare)(mcp_wire *wire, char *url, size_t size);
  void (*open)(mcp_wire *wire);
  void (*send)(mcp_wire *wire, const char *message, size_t len);
  void (*end_input)(mcp_wire *wire);
  void (*close)(mcp_wire *wire); /* handles and descriptors */
  void (*restore)(void);         /* after the server; may be NULL */
} mcp_link;

/* A descriptor of the client's, watched by the loop; what came is in `data`. */
typedef struct mcp_pipe {
  uv_poll_t poll;
  int in, out; /* where we write, where we read */
  char *data;
  size_t len;
  bool eof;
  void (*on_data)(struct mcp_pipe *pipe); /* or the end has come */
  mcp_wire *wire;
} mcp_pipe;

struct mcp_wire {
  const transcript *script;
  const scenario *scene;
  const mcp_link *link;
  void *state; /* the link's */
  uv_loop_t loop;
  uv_timer_t patience;
  idem_listener *listener;
  idem_metrics *metrics;
  peer *peer; /* the server's side: the fixture, what it kept and saw */
  peer_list inbox;
  uint64_t sent; /* bytes on the wire */
  bool stopped, failed, late;
  bool ended; /* the server has, or its side of the conversation */
};

_Noreturn void mcp_wire_die(const char *what);
/* Runs the loop until something has happened; false: nothing does any more. */
bool mcp_wire_turn(mcp_wire *wire);
void mcp_wire_heard(mcp_wire *wire, const char *message, size_t len);
/* The date in "protocolVersion":"...", or "" */
void mcp_wire_date(const char *text, char *date, size_t size);

int mcp_wire_connect(const mcp_wire *wire); /* to the listener's address */
void mcp_pipe_open(mcp_pipe *pipe, mcp_wire *wire, int in, int out);
void mcp_pipe_write(mcp_pipe *pipe, const char *data, size_t len);
void mcp_pipe_drop(mcp_pipe *pipe, size_t len); /* so much of `data` */
void mcp_pipe_close(mcp_pipe *pipe, uv_close_cb closed);

extern const mcp_link mcp_link_stdio, mcp_link_tcp, mcp_link_unix, mcp_link_ws, mcp_link_http;

#endif
