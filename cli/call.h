/* call.h - what the calls of every kind of tool share: they hold their edition, and they answer in
 * the form of the profile that is served. */
#ifndef IDEM_CLI_CALL_H
#define IDEM_CLI_CALL_H

#include <idem/mcp.h>

typedef struct edition edition;

/* A call holds the edition it began under from its start to its end. */
void edition_hold(edition *self);
void edition_release(edition *self);

/* Answers of a tool, by MCP or as a plain JSON-RPC method. Each ends the request. */
void reply_failed(idem_request *request, const char *sentence);
void reply_tool(idem_request *request, const idem_tool_result *result);

#endif
