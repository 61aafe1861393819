/* session_mcp.h - the ends of a call to an MCP server, session_mcp_end.c, what it hears on its way, session_mcp_hear.c, what is
 * remembered, session_mcp_stale.c, and names that are not there, session_mcp_names.c. */
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
/* Keeps what the server speaks and its tools, a list that was asked for; and for completion what a look has found. */
void session_remember(const call_session *self, const idem_mcp_result *list);
void session_remember_names(const call_session *self);
/* What the server told last time spares it the question. False: it is asked. */
bool session_learn(const call_session *self);
/* The same where the question has not reached a server that is away for a moment. */
bool session_learn_anyway(const call_session *self, const idem_mcp_result *result);
/* Whether it failed because what was remembered of this server no longer holds, and the server has done nothing yet. */
bool session_is_stale(const call_session *self, const idem_mcp_result *result);
/* The same of a list, which may be asked for again whatever it was. */
bool session_list_is_stale(const call_session *self, const idem_mcp_result *result);
/* Then: forgets that, and closes. */
void session_begin_anew(call_session *self);
/* Whether an answer may come of an old list of tools: it is asked for anew then, and this answer stands where that has nothing new to
 * say. */
bool session_doubts_list(const call_session *self, const idem_mcp_result *result);
/* Copies it to `answer`. */
void session_keep_answer(call_session *self, const idem_mcp_result *result);
void session_free_answer(call_session *self);
/* The server's schema of today refuses what was `sent`, and has `made` something else of the same words. */
bool session_may_call_again(const call_session *self, yyjson_val *schema);
/* --read, --prompt, --complete, --method: asks. */
void session_begin_other(call_session *self);
/* The same for a prompt, once its name and its arguments' are known to be there; where not, that is the end. */
void session_begin_prompt(call_session *self);
/* True: the answer says that there is no such resource, or that there are no tools. What there is, is asked for, told, and the end. */
bool session_look_for_resource(call_session *self, const idem_mcp_result *result);
bool session_has_no_tools(call_session *self, const idem_mcp_result *result);
/* Of an error that ends the call: where it may be the memory's fault, that goes, and whoever asked is told. */
void session_doubt_memory(const call_session *self, const idem_mcp_result *result);

/* All of them are asked for, then the one that is wanted is called. */
void session_list_tools(call_session *self);
void session_unknown_tool(call_session *self, yyjson_val *tools);
/* The tool is not in this list: asks what it takes to be shown it. False: there is no token that could grow, or that has been
 * tried. */
bool session_knock(call_session *self, yyjson_val *tools);

#endif
