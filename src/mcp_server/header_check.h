/* header_check.h - the headers of 2026-07-28 against the message. */
#ifndef IDEM_MCP_HEADER_CHECK_H
#define IDEM_MCP_HEADER_CHECK_H

#include "registry.h"

/* Checks Mcp-Method against the message; false: refused. */
bool idem__headers_check_method(idem__context *context);
/* Checks Mcp-Name, where the method has one; false: refused. */
bool idem__headers_check(idem__context *context, yyjson_val *params);
/* Checks Mcp-Param-*; false: refused. */
bool idem__headers_check_params(idem__context *context, const idem__tool_entry *tool,
                                yyjson_val *arguments);

#endif
