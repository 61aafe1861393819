/* memory.h - memory that lives as long as the configuration, given back in one go.
 * Running out of it ends the program: there is nothing to serve without a configuration. */
#ifndef IDEM_CLI_MEMORY_H
#define IDEM_CLI_MEMORY_H

#include <stddef.h>
#include <stdnoreturn.h>

typedef struct memory_block memory_block;
typedef struct config_memory {
  memory_block *last;
} config_memory;

void *memory_zeroed(config_memory *self, size_t count, size_t size);
char *memory_text(config_memory *self, const char *text, size_t len);
/* The end of the newest piece, from `used` bytes on, was not needed. */
void memory_give_back(config_memory *self, void *piece, size_t used);
void memory_free(config_memory *self);
/* Says so, and ends the program. */
noreturn void memory_exhausted(void);

#endif
