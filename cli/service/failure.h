/* failure.h - a line in the operator's log for each call of a tool that failed: which, why, after what
 * time. Ten a second at most for the whole server; nothing that a caller sent or a program printed
 * is in it. See docs/internals/cli.md. */
#ifndef IDEM_CLI_FAILURE_H
#define IDEM_CLI_FAILURE_H

#include "config/config.h"

#include <idem/mcp.h>

/* The tool, its caller or what it reached is at fault: a warning. Before the request is answered. */
void failure_tell(idem_request *request, const tool_config *tool, const char *format, ...)
    IDEM_PRINTF(3, 4);
/* The server or its machine is: an error. */
void failure_tell_ours(idem_request *request, const tool_config *tool, const char *format, ...)
    IDEM_PRINTF(3, 4);
/* At the end of the server: says how many had no line. */
void failure_end(idem_log *log);

#endif
