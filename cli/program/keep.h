/* keep.h - programs that stay ("keep": true): started once, asked many times in lines of JSON-RPC on their stdin and
 * stdout. The method is the tool's name, params its arguments. Runners, bounds, turns and slots are those of every program;
 * the conn is the engine's. On the loop of the server's one thread. See docs/internals/cli.md. */
#ifndef IDEM_CLI_KEEP_H
#define IDEM_CLI_KEEP_H

#include "program.h"

/* Of an edition, for all of its tools that name the same program. NULL: no memory. */
typedef struct kept_program kept_program;
kept_program *kept_new(program_tool *first);
/* The tools' limits: the longest pause, the largest answer. */
void kept_join(kept_program *self, const tool_config *tool);
/* Whether two tools of a file can share one. */
bool kept_is_shared(const tool_config *one, const tool_config *other);
/* Another edition is served: it ends when its last call has. */
void kept_retire(kept_program *self);
/* It has no process any more, or no loop runs. */
void kept_free(kept_program *self);

/* A call that has its slot. */
void kept_call(call *self);
/* Nobody waits for its answer any more; it is gone afterwards. */
void kept_cancel(call *self);

#endif
