/* mcp_server.h - what src/mcp_server offers the folders above it: servers, workers, peers and
 * their sessions, requests seen as MCP, and what peers are told. The folder's own files include what they need of it.
 * The nouns stand in nouns.h. See docs/internals/mcp_server.md. */
#ifndef IDEM_MCP_SERVER_PRIVATE_H
#define IDEM_MCP_SERVER_PRIVATE_H

#include "context.h"
#include "notify.h"
#include "server.h"
#include "session.h"
#include "wait.h"
#include "worker.h"

#endif
