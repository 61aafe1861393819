/* query.h - tools that run a SQLite query: bound parameters, read-only unless the file says
 * otherwise, limits on rows, time and size. */
#ifndef IDEM_CLI_QUERY_H
#define IDEM_CLI_QUERY_H

#include "config/config.h"
#include "service/call.h"
#include "service/slots.h"

#include <idem/mcp.h>

typedef struct query_tool {
  turns_tool brief_turns; /* the calls that wait */
  turns_tool lasting_turns;
  const tool_config *config;
  edition *edition;
  idem_list idle; /* sessions that were used before */
  size_t idle_count;
  bool quick;    /* it was, the last time on a thread */
  unsigned slow; /* times in a row that it took too long on the loop */
  bool lasting;  /* it kept a thread so long that others are to have one they need not wait for */
} query_tool;

void query_tool_init(query_tool *self, edition *owner, const tool_config *config);
void query_tool_deinit(query_tool *self);

/* Prepares every query once: false: one cannot work, and stderr says why. */
bool query_check(serve_config *config);
/* The handler; `user` is a query_tool. */
void query_tool_call(idem_request *request, yyjson_val *arguments, void *user);

#endif
