/* secret_command.h - what a command prints, as a secret: run once in the life of the process. */
#ifndef IDEM_CLI_SECRET_COMMAND_H
#define IDEM_CLI_SECRET_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#define SECRET_BYTES ((size_t)65536)

/* Runs argv in the folder with the server's own environment, 10 s at most; `text` has room for
 * SECRET_BYTES. A command that was run before is not run again. False: `why` is a sentence. */
bool secret_command(const char *const *argv, const char *folder, char *text, size_t *len, char *why,
                    size_t size);
/* Whether it was run before, and is remembered. */
bool secret_command_known(const char *const *argv, const char *folder);

#endif
