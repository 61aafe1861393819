/* mcp_peer.h - an MCP client in memory, as small as a test can use: it opens a conn to a server in
 * the revision wanted, asks, and gives back what came. Randomness and time are the test's. */
#ifndef IDEM_TEST_MCP_PEER_H
#define IDEM_TEST_MCP_PEER_H

#include "mcp_schema.h"

#include <idem/mcp.h>

typedef struct mcp_peer {
  idem_conn *conn;
  const char *date; /* the revision it speaks */
  bool modern;
  unsigned asked;
  char *answer;
  size_t answer_len;
  mcp_schema
      *checker; /* every message against the schema of its revision; NULL where memory fails */
} mcp_peer;

/* A server named "test", version "1"; members of `opts` that are set are kept. */
idem_server *mcp_test_server(const idem_server_opts *opts);

/* Speaks `date` from now on; the handshake of a legacy revision is done here. */
void mcp_peer_open(mcp_peer *peer, idem_server *server, const char *date);
/* ... on a conn with a policy of its own. */
void mcp_peer_open_by(mcp_peer *peer, idem_server *server, const char *date,
                      const idem_policy *policy);
void mcp_peer_close(mcp_peer *peer);
/* ... the server's last peer. */
void mcp_peer_close_with(mcp_peer *peer, idem_server *server);
/* Sends a request with these members of params ("" for none) and returns the bytes that came back,
 * without line end, lent until the next call; "" when nothing came. */
const char *mcp_peer_ask(mcp_peer *peer, const char *method, const char *members);
/* What has come since: for answers that take their time. */
const char *mcp_peer_more(mcp_peer *peer);
/* Asks, and compares what stands behind the id: "result":... or "error":... */
void mcp_peer_expect(mcp_peer *peer, const char *method, const char *members, const char *wanted);
/* Asks, and looks for a part of the answer. */
void mcp_peer_expect_part(mcp_peer *peer, const char *method, const char *members,
                          const char *part);
/* Asks, and is told which member of params is wrong. */
void mcp_peer_expect_bad_param(mcp_peer *peer, const char *method, const char *members,
                               const char *param, const char *expected, const char *received);

/* The same for runs in which memory fails: nothing is asserted, an answer may be missing. A failed
 * open (false) needs no close. */
idem_status mcp_test_server_try(const idem_server_opts *opts, idem_server **out);
bool mcp_peer_try_open(mcp_peer *peer, idem_server *server, const char *date,
                       const idem_alloc *alloc);
void mcp_peer_try(mcp_peer *peer, const char *method, const char *members);

/* A short life of a server: it is filled, asked and emptied. */
typedef struct mcp_test_life {
  void (*fill)(idem_server *server); /* memory may fail */
  struct mcp_test_question {
    const char *method, *members;
  } questions[8]; /* up to one without a method */
  void (*empty)(idem_server *server);
} mcp_test_life;
/* Lives it in the newest and the oldest revision with each allocation failing in turn: whatever comes
 * back, nothing is left. */
void mcp_test_sweep(const mcp_test_life *life);

/* What every complete result of 2026-07-28 ends with. */
#define MCP_TEST_INFO                                                                              \
  "\"_meta\":{\"io.modelcontextprotocol/serverInfo\":{\"name\":\"test\",\"version\":\"1\"}}"

#endif
