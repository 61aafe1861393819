/* session_mcp.h - the ends of a call to an MCP server, session_mcp_end.c, what it hears on its way, session_mcp_hear.c, and what was
 * remembered wrongly, session_mcp_stale.c. */
#ifndef IDEM_CLI_CALL_SESSION_MCP_H
#define IDEM_CLI_CALL_SESSION_MCP_H

#include "session.h"

void session_end_by_trouble(call_session *self, const idem_mcp_trouble *trouble);
/* A server that answers a call with an error has answered; anything else is a matter of the connection. */
void session_end_by_result(call_session *self, const idem_mcp_result *result);
/* What is to be heard of it. */
void session_observe(const call_session *self, idem_mcp_client_opts *opts);
/* By who it takes the caller for: 401 or 403. */
bool session_is_refused(int http_status);
/* Whether it failed because what was remembered of this server no longer holds, and the server has done nothing yet. */
bool session_is_stale(const call_session *self, const idem_mcp_result *result);
/* Then: forgets that, and closes. */
void session_begin_anew(call_session *self);
/* Of an error that ends the call: where it may be the memory's fault, that goes, and whoever asked is told. */
void session_doubt_memory(const call_session *self, const idem_mcp_result *result);

/* All of them are asked for, then the one that is wanted is called. */
void session_list_tools(call_session *self);
void session_unknown_tool(call_session *self, yyjson_val *tools);
/* The tool is not in this list: asks what it takes to be shown it. False: there is no token that could grow, or that has been
 * tried. */
bool session_knock(call_session *self, yyjson_val *tools);

#endif
