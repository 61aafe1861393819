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
/* keep_pass_on.c: whether a program of the edition before runs, and is what `next` of the edition to come would start;
 * then it becomes that edition's, and `next` can be freed. */
bool kept_stays(const kept_program *self, const kept_program *next);
void kept_pass_on(kept_program *self, const kept_program *next);
/* Whose it is: it may have been passed on. */
bool kept_is_of(const kept_program *self, const edition *owner);
/* What the files of its words are by now, as a number. */
uint64_t kept_files(const tool_config *tool);
/* Another edition is served: it ends when its last call has. */
void kept_retire(kept_program *self);
/* It has no process any more, or no loop runs. */
void kept_free(kept_program *self);

/* A call that has its slot. */
void kept_call(call *self);
/* Nobody waits for its answer any more; it is gone afterwards. */
void kept_cancel(call *self);

#endif
