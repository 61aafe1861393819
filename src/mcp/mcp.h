/* mcp.h - what both roles of MCP share, for the server and the client: the version table and URI
 * templates. It knows neither of them. See docs/internals/mcp.md. */
#ifndef IDEM_MCP_SHARED_H
#define IDEM_MCP_SHARED_H

#include "revision.h"
#include "uritemplate.h"

#endif
