/* peer.h - a conn in memory, with a clock that the test moves and handlers that can misbehave.
 * It serves what idem-reference serves (behaviour on the wire, section 11) and, when asked, methods
 * that keep, forget, drop or answer twice. What our side is told is kept as lines of text. */
#ifndef IDEM_TEST_PEER_H
#define IDEM_TEST_PEER_H

#include "mcp_fixture.h"
#include "mcp_schema.h"
#include "peer_client.h"

struct fault_alloc;
struct idem__mcp_worker;

typedef struct peer_text {
  char *data; /* NUL-terminated, may hold NULs */
  size_t len;
} peer_text;

typedef struct peer_list {
  peer_text *items;
  size_t count;
  size_t cap;
  size_t taken; /* items before this one were handed out */
} peer_list;

typedef struct peer_kept {
  idem_request *request;
  char *id;
  uint64_t wake_ms; /* a sleeper answers then; 0: the test answers */
} peer_kept;

typedef struct peer {
  idem_router *router;
  idem_conn *conn;
  idem_policy policy;
  uint64_t now_ms;
  idem_status status; /* the first failure of the conn, or OK */
  bool freed;         /* the test freed the conn */
  char *out;          /* bytes sent, not yet cut into messages */
  size_t out_len;
  peer_list messages; /* what the peer would have received, unframed */
  peer_list seen;     /* what our side was told */
  peer_kept kept[4096];
  size_t kept_count;
  size_t calls_started;
  size_t calls_ended;
  bool malformed_output; /* the output did not follow its framing */
  mcp_fixture fixture;   /* where the peer is an MCP server */
  struct idem__mcp_worker *hub;
  bool woken; /* the worker has news to deliver */
  struct idem__store
      *later; /* a store that answers later, if the environment wants one; NULL: none */
  mcp_schema *checker;
  client_side *asking; /* where the peer is an MCP client; else NULL */
  client_web *web;     /* its way over HTTP; NULL: it speaks lines */
} peer;

typedef struct peer_opts {
  const idem_alloc *alloc;
  const idem_policy *policy;
  idem_profile profile; /* lsp: the built-ins are served */
  bool test_methods;
  idem_log *log;
  const idem_server_opts *server; /* be the MCP fixture, with these options; NULL: not */
  const client_setting *client;   /* be an MCP client; NULL: not */
  const char *principal;
  struct fault_alloc *memory; /* behind alloc, if it is one that fails; the fixture is spared */
  mcp_schema *checker;        /* told of every message; NULL: none */
} peer_opts;

/* On failure nothing needs closing. */
idem_status peer_open(peer *p, const peer_opts *opts);
/* Drops what was kept, frees the conn and the router and forgets everything. */
void peer_close(peer *p);

/* These return the conn's status and collect what came out. */
idem_status peer_feed(peer *p, const char *data, size_t len);
idem_status peer_feed_eof(peer *p);
/* Lets time pass: sleepers wake and deadlines expire in their order. */
void peer_advance(peer *p, uint64_t ms);
/* Does what an action of a transcript says; false if there is no such action. */
bool peer_act(peer *p, const char *action);
/* True when the conn has ended: it failed, or nothing more will come out. */
bool peer_ended(const peer *p);

/* The next one, lent until peer_close; NULL when there is none. */
const peer_text *peer_list_take(peer_list *list);
void peer_collect(peer *p);
/* A message of our side's, as it goes out. */
void peer_send(peer *p, const char *data, size_t len);
void peer_see(peer *p, const char *format, ...) IDEM_PRINTF(2, 3);

/* Shared with the methods (methods.c). */
const char *peer_status_word(idem_status status);
void peer_keep(peer *p, idem_request *request, uint64_t wake_ms);
/* A kept request by its id, NULL: none; taken, it is the caller's. */
idem_request *peer_kept_request(peer *p, const char *id, bool take);
void peer_saw_reply(peer *p, const char *id, idem_status status);
void peer_start_call(peer *p, const char *method, const char *params, uint64_t timeout_ms,
                     idem_response_fn fn, void *user);
idem_status peer_register_reference(peer *p);
idem_status peer_register_test(peer *p);

/* peer_mcp.c */
idem_status peer_open_mcp(peer *p, const peer_opts *opts, const idem_conn_opts *conn_opts);
void peer_close_mcp(peer *p);
bool peer_act_mcp(peer *p, const char *action);
void peer_deliver(peer *p);
/* Lets a store that answers later do so. */
void peer_wait(peer *p);

#endif
