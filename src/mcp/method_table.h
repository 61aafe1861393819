/* method_table.h - the methods of MCP that clients ask of servers, a row each: in which revisions, under which
 * capability, and what Mcp-Name holds. What runs them is the server's, what asks them the client's. */
#ifndef IDEM_MCP_METHOD_TABLE_H
#define IDEM_MCP_METHOD_TABLE_H

#include "revision.h"

typedef enum idem__capability {
  IDEM__CAP_NONE,
  IDEM__CAP_TOOLS,
  IDEM__CAP_RESOURCES,
  IDEM__CAP_PROMPTS,
  IDEM__CAP_COMPLETIONS,
  IDEM__CAP_LOGGING,
  IDEM__CAP_TASKS
} idem__capability;

/* Where 2026-07-28's Mcp-Name header comes from. */
typedef enum idem__name_source {
  IDEM__NAME_NONE,
  IDEM__NAME_NAME,
  IDEM__NAME_URI,
  IDEM__NAME_TASK
} idem__name_source;

/* Rows of the table. */
typedef enum idem__method_row {
  IDEM__METHOD_INITIALIZE,
  IDEM__METHOD_PING,
  IDEM__METHOD_DISCOVER,
  IDEM__METHOD_TOOLS_LIST,
  IDEM__METHOD_TOOLS_CALL,
  IDEM__METHOD_RESOURCES_LIST,
  IDEM__METHOD_TEMPLATES_LIST,
  IDEM__METHOD_RESOURCES_READ,
  IDEM__METHOD_SUBSCRIBE,
  IDEM__METHOD_UNSUBSCRIBE,
  IDEM__METHOD_LISTEN,
  IDEM__METHOD_PROMPTS_LIST,
  IDEM__METHOD_PROMPTS_GET,
  IDEM__METHOD_COMPLETE,
  IDEM__METHOD_SET_LEVEL,
  IDEM__METHOD_TASKS_GET,
  IDEM__METHOD_TASKS_CANCEL,
  IDEM__METHOD_TASKS_UPDATE,
  IDEM__METHOD_TASKS_RESULT,
  IDEM__METHOD_TASKS_LIST,
  IDEM__METHODS
} idem__method_row;

typedef struct idem__mcp_method {
  const char *name;
  uint32_t revisions; /* bits of idem_revision */
  idem__capability capability;
  idem__name_source name_source;
  bool before_initialize; /* a legacy peer may call it first */
} idem__mcp_method;

extern const idem__mcp_method idem__mcp_methods[IDEM__METHODS];
/* Asked twice it is as if asked once, and no program of a server's runs for it. NULL is not. */
bool idem__mcp_method_is_harmless(const idem__mcp_method *method);
/* NULL: it is none of MCP's. */
const idem__mcp_method *idem__mcp_method_find(const char *name, size_t len);
/* The value in params that Mcp-Name mirrors; NULL: the method has none, or params have not. */
yyjson_val *idem__mcp_method_subject(const idem__mcp_method *method, yyjson_val *params);

#endif
