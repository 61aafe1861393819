/* mcp.h - what both roles of MCP share, for the server and the client: the version table, the
 * method table, content, headers and URI templates. It knows neither of them. See docs/internals/mcp.md. */
#ifndef IDEM_MCP_SHARED_H
#define IDEM_MCP_SHARED_H

#include "content.h"
#include "header.h"
#include "method_table.h"
#include "revision.h"
#include "uritemplate.h"

#endif
