/* mcp_asker.h - an MCP client whose server is the test: what it sends is taken, what it hears is written, the clock
 * is set. Every end of a call is put down as a line. */
#ifndef IDEM_TEST_MCP_ASKER_H
#define IDEM_TEST_MCP_ASKER_H

#include "support/fault_alloc.h"

#include <idem/mcp_client.h>

#define ASKER_TEXT 262144

typedef struct mcp_asker {
  fault_alloc fault;
  idem_mcp_client *client;
  idem_conn *conn;
  const struct idem__mcp_link *link; /* the client's from the beginning; NULL: none */
  uint64_t now_ms;
  bool ready;            /* on_ready has run */
  idem_status status;    /* with this */
  char sent[ASKER_TEXT]; /* since it was looked at last */
  char told[ASKER_TEXT]; /* what the client's functions were told, a line each */
} mcp_asker;

/* Options of the test's own may be NULL; their user is the asker. False: no memory (of a sweep). */
bool mcp_asker_open(mcp_asker *self, const idem_mcp_client_opts *opts);
void mcp_asker_close(mcp_asker *self);
/* All that was sent since the last look. */
const char *mcp_asker_sent(mcp_asker *self);
/* One line of the server's. */
void mcp_asker_hear(mcp_asker *self, const char *line);
void mcp_asker_wait(mcp_asker *self, uint64_t ms);
/* What was told since the last look. */
const char *mcp_asker_told(mcp_asker *self);
void mcp_asker_note(mcp_asker *self, const char *format, ...) IDEM_PRINTF(2, 3);
/* A result as a line: "ok {...}", "remote -32602 text", "timeout text"; `user` is the asker. */
void mcp_asker_on_result(idem_mcp_client *client, const idem_mcp_result *result, void *user);
/* Handshakes that succeed. */
void mcp_asker_be_modern(mcp_asker *self);
void mcp_asker_be_legacy(mcp_asker *self, const char *revision);

#endif
