/* call.h - what the calls of every kind of tool share: they hold their edition, and they answer in
 * the form of the profile that is served. */
#ifndef IDEM_CLI_CALL_H
#define IDEM_CLI_CALL_H

#include "config/config.h"
#include "failure.h"
#include "outcome.h"

#include <idem/mcp.h>

typedef struct edition edition;

/* A call holds the edition it began under from its start to its end. */
void edition_hold(edition *self);
void edition_release(edition *self);

/* Answers of a tool, by MCP or as a plain JSON-RPC method. Each ends the request. */
void reply_failed(idem_request *request, const char *sentence);
void reply_failed_because(idem_request *request, const char *format, ...) IDEM_PRINTF(2, 3);
void reply_tool(idem_request *request, const tool_config *tool, const idem_tool_result *result);
/* There is no room to wait for a turn; with a line in the log. */
void reply_busy(idem_request *request, const tool_config *tool);
/* Nobody wants the answer any more. `begun`: something may have been done. */
void reply_cancelled(idem_request *request, const tool_config *tool, bool begun);
/* "Internal error", and a line in the log. */
void reply_no_memory(idem_request *request, const tool_config *tool);
/* JSON text that a tool came to, as structured content, checked by its output schema. */
void reply_json(idem_request *request, const tool_config *tool, const char *text, size_t len);
/* Whether a value is what the tool's output schema allows; false: the request has failed with that. */
bool reply_keeps_promise(idem_request *request, const tool_config *tool, yyjson_val *value);

#endif
