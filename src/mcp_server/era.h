/* era.h - which era a request belongs to, and what that one wants of it. */
#ifndef IDEM_MCP_ERA_H
#define IDEM_MCP_ERA_H

#include "nouns.h"

/* Finds its revision, and with it who asks and what that client can do; false: refused. */
bool idem__era_pass(idem__context *context, const idem__mcp_peer *peer);
/* A log level's name; -1: not one. */
int idem__level_parse(yyjson_val *val);

#endif
