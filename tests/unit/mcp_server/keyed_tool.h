/* keyed_tool.h - what the tests of calls with a key share: tools that count their runs and end in the ways a tool can,
 * and a caller that cancels. */
#ifndef IDEM_TEST_KEYED_TOOL_H
#define IDEM_TEST_KEYED_TOOL_H

#include "support/mcp_peer.h"
#include "support/unit.h"

#include "mcp_server/mcp_server.h"

#include <stdio.h>
#include <string.h>

#define KEYED(name) "\"name\":\"" name "\",\"_meta\":{\"idem/key\":\"k\"}"
#define UNKEYED(name) "\"name\":\"" name "\""

typedef struct tool_state {
  unsigned runs;
  idem_request *kept;
  bool cancelled;
} tool_state;

static inline void expect_in(const char *answer, const char *part) {
  if (!strstr(answer, part)) fail_msg("no %s in: %s", part, answer);
}

static inline void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)request, (void)reason;
  ((tool_state *)user)->cancelled = true;
}

static inline void run_keep(idem_request *request, yyjson_val *arguments, void *user) {
  tool_state *self = user;
  (void)arguments;
  self->runs++;
  self->kept = request;
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancel, self);
}

/* As handlers do that have nothing to say any more; what waits for its turn has done nothing. */
static inline void on_cancel_drop(idem_request *request, idem_cancel_reason reason, void *user) {
  on_cancel(request, reason, user);
  idem_request_drop(request);
}

static inline void on_cancel_unbegun(idem_request *request, idem_cancel_reason reason, void *user) {
  idem_not_run(request);
  on_cancel_drop(request, reason, user);
}

static inline void run_dropping(idem_request *request, yyjson_val *arguments, void *user) {
  run_keep(request, arguments, user);
  idem_request_on_cancel(request, on_cancel_drop, user);
}

static inline void run_queued(idem_request *request, yyjson_val *arguments, void *user) {
  run_keep(request, arguments, user);
  idem_request_on_cancel(request, on_cancel_unbegun, user);
}

static inline void run_count(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments;
  ((tool_state *)user)->runs++;
  idem_tool_text(request, "ran", 3);
}

static inline void add_tool(idem_server *server, const char *name, idem_tool_fn fn,
                            tool_state *state, idem_once once, const char *annotations) {
  idem_tool tool = {
      .name = name, .fn = fn, .user = state, .once = once, .annotations = annotations};
  assert_int_equal(idem_server_add_tool(server, &tool, NULL, 0), IDEM_OK);
}

/* The caller takes back what it asked last. */
static inline void cancel_last(mcp_peer *peer) {
  char text[160];
  int len = snprintf(text, sizeof text,
                     "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
                     "\"params\":{\"requestId\":%u}}\n",
                     peer->asked);
  assert_int_equal(idem_conn_feed(peer->conn, text, (size_t)len), IDEM_OK);
}

#endif
