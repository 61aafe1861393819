/* outcome.h - a line in the operator's log for each call of a tool that was answered or cancelled: which,
 * how long it took, for whom. Those that failed have theirs by failure.h. */
#ifndef IDEM_CLI_OUTCOME_H
#define IDEM_CLI_OUTCOME_H

#include "config/config.h"

#include <idem/mcp.h>

/* Where a person looks on, calls are worth a line at info, ten a second at most; else at debug. */
void outcome_begin(idem_log *log, bool watched);
/* Before the request is answered. */
void outcome_answered(idem_request *request, const tool_config *tool);
void outcome_cancelled(idem_request *request, const tool_config *tool);
/* At the end of the server: says how many had no line. */
void outcome_end(void);

#endif
