/* era.h - which era a request belongs to, and what that one wants of it. */
#ifndef IDEM_MCP_ERA_H
#define IDEM_MCP_ERA_H

#include "nouns.h"

/* What a request of the newer era says in its _meta, as it may be looked for elsewhere too. */
#define IDEM__META_VERSION "io.modelcontextprotocol/protocolVersion"
#define IDEM__META_LOG_LEVEL "io.modelcontextprotocol/logLevel"

/* Finds its revision, and with it who asks and what that client can do; false: refused. */
bool idem__era_pass(idem__context *context, const idem__mcp_peer *peer);

#endif
