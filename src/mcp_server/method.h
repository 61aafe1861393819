/* method.h - the methods of MCP: a row for each, and the functions that run them.
 * The table and the gate that every request passes are in method.c. */
#ifndef IDEM_MCP_METHOD_H
#define IDEM_MCP_METHOD_H

#include "nouns.h"

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

typedef void (*idem__method_run)(idem__context *context, yyjson_val *params);
typedef struct idem__mcp_method {
  const char *name;
  uint32_t revisions; /* bits of idem_revision */
  idem__capability capability;
  idem__name_source name_source;
  bool before_initialize; /* a legacy peer may call it first */
  idem__method_run run;
} idem__mcp_method;
/* A log level's name; -1: not one. */
int idem__level_parse(yyjson_val *val);
/* Registers every method and notification on the server's router. */
idem_status idem__methods_register(idem_server *server);

/* One for each row, in the file of its subject. */
void idem__run_initialize(idem__context *context, yyjson_val *params);
void idem__run_ping(idem__context *context, yyjson_val *params);
void idem__run_discover(idem__context *context, yyjson_val *params);
void idem__run_tools_list(idem__context *context, yyjson_val *params);
void idem__run_tools_call(idem__context *context, yyjson_val *params);
void idem__run_resources_list(idem__context *context, yyjson_val *params);
void idem__run_templates_list(idem__context *context, yyjson_val *params);
void idem__run_resources_read(idem__context *context, yyjson_val *params);
void idem__run_subscribe(idem__context *context, yyjson_val *params);
void idem__run_unsubscribe(idem__context *context, yyjson_val *params);
void idem__run_listen(idem__context *context, yyjson_val *params);
void idem__run_prompts_list(idem__context *context, yyjson_val *params);
void idem__run_prompts_get(idem__context *context, yyjson_val *params);
void idem__run_complete(idem__context *context, yyjson_val *params);
void idem__run_set_level(idem__context *context, yyjson_val *params);
void idem__run_tasks_get(idem__context *context, yyjson_val *params);
void idem__run_tasks_result(idem__context *context, yyjson_val *params);
void idem__run_tasks_list(idem__context *context, yyjson_val *params);
void idem__run_tasks_cancel(idem__context *context, yyjson_val *params);
void idem__run_tasks_update(idem__context *context, yyjson_val *params);

#endif
