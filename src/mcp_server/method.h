/* method.h - the functions that run the methods of MCP, one for each row of src/mcp/method_table.c.
 * Which runs which, and the gate that every request passes, are in method.c. */
#ifndef IDEM_MCP_METHOD_H
#define IDEM_MCP_METHOD_H

#include "nouns.h"

typedef void (*idem__method_run)(idem__context *context, yyjson_val *params);
/* A log level's name; -1: not one. */
int idem__level_parse(yyjson_val *val);
/* Names the levels there are. */
void idem__reply_bad_level(idem__context *context, const char *param, yyjson_val *received);
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
