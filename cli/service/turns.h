/* turns.h - the calls that wait. Turns go round the clients and round the tools alternately, so that
 * neither one busy client nor one busy tool can starve the others. */
#ifndef IDEM_CLI_TURNS_H
#define IDEM_CLI_TURNS_H

#include <idem/containers.h>
#include <idem/mcp.h>

typedef struct lane lane;

/* In each tool. */
typedef struct turns_tool {
  idem_list link; /* among the tools that have calls waiting */
  idem_list lanes;
} turns_tool;

/* In each call. */
typedef struct turns_call {
  idem_list link;
  lane *lane;                  /* NULL: it does not wait */
  const idem_request *request; /* whose answer it will be, while it waits */
} turns_call;

typedef struct turns {
  idem_list clients;
  idem_list tools;
  size_t count;
  bool by_tool; /* whose round the next turn is */
} turns;

void turns_init(turns *self);
void turns_tool_init(turns_tool *tool);
/* Who asks is told by the request. False: no memory. */
bool turns_add(turns *self, turns_call *waiting, turns_tool *tool, const idem_request *request);
void turns_remove(turns *self, turns_call *waiting);
/* Whose turn it is of those whose clients read their answers; it waits no longer. NULL: there is none. */
turns_call *turns_take(turns *self);
/* The same of all that wait, whoever reads or not: for the end. */
turns_call *turns_take_any(turns *self);
/* Takes the last call of the client with the most, if that is more than who asks has and would have:
 * one client cannot fill the queue for all. NULL: there is no such client. */
turns_call *turns_displace(turns *self, const idem_request *request);

#endif
