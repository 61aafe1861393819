/* mcp_web.h - an MCP server behind HTTP in memory, for tests: the fixture's server with sessions, a
 * fake clock, and as many connections as wanted. Several may share a store, like machines. */
#ifndef IDEM_TEST_MCP_WEB_H
#define IDEM_TEST_MCP_WEB_H

#include "mcp_http/mcp_http.h"
#include "support/later_store.h"
#include "support/mcp_fixture.h"
#include "support/unit.h"

typedef struct mcp_web_opts {
  idem_server_opts server;
  idem__session_table_opts table; /* its server is filled in */
  const idem_http_opts *http;
  idem__http_judge_fn judge; /* NULL: none */
  idem__http_stay_fn stays;
  void *judge_user;
  idem__limiter *limiter;      /* NULL: none */
  idem_log *log;               /* of its conns and its HTTP server; NULL: none */
  idem__store *store;          /* NULL: one of its own */
  idem__session_table *shared; /* another thread's table of `fixture`; NULL: its own */
  mcp_fixture *fixture;        /* NULL: its own */
  /* The store is asked through one that answers later; NULL: as IDEM_LATER_STORE of the environment, a
   * seed, says. */
  const later_store_opts *later;
} mcp_web_opts;

typedef struct mcp_web {
  mcp_fixture own;
  mcp_fixture *fixture;
  bool own_fixture, own_table;
  idem__mcp_worker *mcp;
  idem__session_table *table;
  idem__mcp_endpoint *endpoint;
  idem_http_server *server;
  uint64_t now_ms;
  _Atomic bool woken;
  idem__store *later;   /* NULL: the store answers at once */
  struct mcp_web *next; /* of those whose stores answer later */
} mcp_web;

typedef struct mcp_web_conn {
  mcp_web *web;
  idem_http_conn *conn;
  char *output; /* everything so far, NUL-terminated */
  size_t len;
} mcp_web_conn;

/* A test that fails is left by a jump, and its servers are never closed: the next one begins without them. */
int mcp_web_forget(void **state);
#undef cmocka_unit_test
#define cmocka_unit_test(test) cmocka_unit_test_setup(test, mcp_web_forget)

/* These assert that there is memory. */
void mcp_web_open(mcp_web *web, const mcp_web_opts *opts);
void mcp_web_close(mcp_web *web); /* after its conns */
/* A store for several, the caller's. */
idem__store *mcp_web_store(void);
/* Two servers that share a store, as two machines would. */
typedef struct mcp_web_pair {
  idem__store *store;
  mcp_web first, second;
} mcp_web_pair;
void mcp_web_pair_open(mcp_web_pair *both);
void mcp_web_pair_close(mcp_web_pair *both);
/* Lets what woke the server happen. */
void mcp_web_deliver(mcp_web *web);

void mcp_web_connect(mcp_web *web, mcp_web_conn *conn);
void mcp_web_disconnect(mcp_web_conn *conn);
/* Sends a request: `headers` are lines with CRLF, both types accepted unless they say otherwise, `body` may be NULL. */
void mcp_web_send(mcp_web_conn *conn, const char *method, const char *target, const char *headers,
                  const char *body);
/* Runs what is due, collects output. */
void mcp_web_settle(mcp_web_conn *conn);
/* How often this has come. */
size_t mcp_web_times(const mcp_web_conn *conn, const char *text);
/* On a connection of its own: what came back, to be freed. */
char *mcp_web_ask(mcp_web *web, const char *method, const char *target, const char *headers,
                  const char *body);
/* It holds this text; frees it. */
void mcp_web_expect(char *answer, const char *text);
/* The header line with the session's id in an answer to initialize, "Mcp-Session-Id: ..."; frees the answer. */
void mcp_web_session(char *answer, char line[64]);
/* Shakes hands at /mcp and gives a header line with the session's id, "Mcp-Session-Id: ...". */
void mcp_web_hello(mcp_web *web, const char *headers, char line[64]);
/* Asks for the event stream of 2024-11-05 and gives where it says to post. */
void mcp_web_open_sse(mcp_web_conn *conn, const char *headers, char target[128]);
/* Makes it a WebSocket at /mcp, and sends a message on one. */
void mcp_web_upgrade(mcp_web_conn *conn, const char *headers);
void mcp_web_send_text(mcp_web_conn *conn, const char *text);

#endif
