/* header.h - the headers of 2026-07-28 that mirror the message: Mcp-Method, Mcp-Name, and Mcp-Param-*
 * for what a tool's schema marks with x-mcp-header. */
#ifndef IDEM_MCP_HEADER_H
#define IDEM_MCP_HEADER_H

#include "registry.h"

/* One argument that a header mirrors. */
typedef struct idem__header_rule {
  char *header; /* "mcp-param-region", lower case */
  char **path;  /* property names from the root, NULL-terminated */
  char type;    /* 's'tring, 'i'nteger, 'b'oolean */
} idem__header_rule;
/* Finds x-mcp-header annotations; INVAL with `why` when one breaks a rule. */
idem_status idem__header_rules(idem_server *server, yyjson_val *schema, idem__tool_entry *tool,
                               char *why, size_t why_len);
void idem__header_rules_free(idem__tool_entry *tool, const idem_alloc *alloc);
/* Checks Mcp-Method against the message; false: refused. */
bool idem__headers_check_method(idem__context *context);
/* Checks Mcp-Name, where the method has one; false: refused. */
bool idem__headers_check(idem__context *context, yyjson_val *params);
/* Checks Mcp-Param-*; false: refused. */
bool idem__headers_check_params(idem__context *context, const idem__tool_entry *tool,
                                yyjson_val *arguments);

#endif
