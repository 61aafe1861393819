/* mcp_client.h - the asking role of MCP, on conns of src/rpc and on what both roles share (src/mcp).
 * Here go: which era a server speaks, typed calls, rounds of questions and tasks driven to their end,
 * handlers for what servers ask. It must not know the server's folder, nor a transport.
 * See docs/internals/mcp_client.md. */
#ifndef IDEM_MCP_CLIENT_PRIVATE_H
#define IDEM_MCP_CLIENT_PRIVATE_H

#include "../mcp/mcp.h"

#endif
