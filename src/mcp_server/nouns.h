/* nouns.h - the nouns of this folder by name, for headers that only point to them.
 *
 * A revision is a row of the version table; a registry is an immutable snapshot of what is served; a
 * worker is what one thread's peers share; a peer is one conn seen as MCP; a session is what a legacy
 * handshake agreed; a context is one request seen as MCP, whatever its era; a task is what a request
 * may become. After the context is made nothing asks "which era" except through its revision's
 * flags. See docs/internals/mcp_server.md. */
#ifndef IDEM_MCP_NOUNS_H
#define IDEM_MCP_NOUNS_H

#include "../json/build.h"
#include "../mcp/mcp.h"

typedef struct idem__mcp_worker idem__mcp_worker;
typedef struct idem__mcp_peer idem__mcp_peer;
typedef struct idem__mcp_session idem__mcp_session;
typedef struct idem__context idem__context;
typedef struct idem__registry idem__registry;
typedef struct idem__task idem__task;

#endif
