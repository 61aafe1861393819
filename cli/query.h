/* query.h - tools that run a SQLite query: bound parameters, read-only unless the file says
 * otherwise, limits on rows, time and size. */
#ifndef IDEM_CLI_QUERY_H
#define IDEM_CLI_QUERY_H

#include "call.h"
#include "config.h"

#include <idem/mcp.h>

typedef struct query_tool {
  const tool_config *config;
  edition *edition;
} query_tool;

/* Prepares every query once: false: one cannot work, and stderr says why. */
bool query_check(serve_config *config);
/* The handler; `user` is a query_tool. */
void query_tool_call(idem_request *request, yyjson_val *arguments, void *user);

#endif
