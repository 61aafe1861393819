/* mcp_fixture.h - a fixed MCP server for transcripts, fuzzing and threads: a tool, resource or prompt
 * for each thing a handler can do. Time and randomness are the test's, so that the same conversation
 * gives the same bytes. docs/internals/tests.md lists what it serves. */
#ifndef IDEM_TEST_MCP_FIXTURE_H
#define IDEM_TEST_MCP_FIXTURE_H

#include <idem/mcp.h>

typedef struct mcp_fixture {
  idem_server *server;
  uint64_t wall_ms;
  unsigned drawn; /* how often randomness was asked for */
  /* The tools `slow` and `job` and the resource `slow:` hand their request over; NULL: it is dropped. */
  void (*keep)(idem_request *request, void *user);
  void *user;
} mcp_fixture;

/* Options other than what the server says of itself are kept; with `random` come wall_ms and
 * os_ctx of the caller's. On failure nothing needs closing. */
idem_status mcp_fixture_open(mcp_fixture *fixture, const idem_server_opts *opts);
void mcp_fixture_close(mcp_fixture *fixture);
/* A tool that says its name; EXISTS when there is one. */
idem_status mcp_fixture_add_tool(mcp_fixture *fixture, const char *name);
idem_status mcp_fixture_add_resource(mcp_fixture *fixture, const char *uri, bool is_template);
idem_status mcp_fixture_add_prompt(mcp_fixture *fixture, const char *name);

#endif
