/* target.h - whom a call goes to: an address, or a command to start, with what belongs to it. */
#ifndef IDEM_CLI_CALL_TARGET_H
#define IDEM_CLI_CALL_TARGET_H

#include "call.h"
#include "config/memory.h"

typedef struct call_target {
  config_memory memory;
  const char *said;               /* as it was written; of a command all its words */
  const char *url;                /* NULL: a command */
  const char *const *argv;        /* ends with NULL */
  const char *const *environment; /* NAME=VALUE of the whole child; NULL: ours */
  const char *folder;
  const char *const *headers; /* ends with NULL; never NULL */
  const char *token;
  bool event_stream; /* its file says that it speaks HTTP+SSE */
} call_target;

/* False: stderr has said why, and the exit status is 2. Free either way. */
bool target_find(call_target *self, const call_options *options);
void target_free(call_target *self);
/* The same of a target's words alone, saying nothing: for completion. */
bool target_glance(call_target *self, const char *target, const char *config);

/* What ${...} in a file of `known` servers stands for, or NULL and a sentence in `why`. */
const char *target_expand(config_memory *memory, const char *given, char *why, size_t size);

#endif
