/* session_mcp.h - the ends of a call to an MCP server: see session_mcp_end.c. */
#ifndef IDEM_CLI_CALL_SESSION_MCP_H
#define IDEM_CLI_CALL_SESSION_MCP_H

#include "session.h"

void session_end_by_trouble(call_session *self, const idem_mcp_trouble *trouble);
/* A server that answers a call with an error has answered; anything else is a matter of the connection. */
void session_end_by_result(call_session *self, const idem_mcp_result *result);
/* Whether it failed because what was remembered of this server no longer holds, and the server has done nothing yet. */
bool session_is_stale(const call_session *self, const idem_mcp_result *result);
/* Then: forgets that, and closes. */
void session_begin_anew(call_session *self);

#endif
