/* paste.h - lines that a person pastes at the terminal while something else is waited for.
 * Read on a thread of the pool; the loop goes on. */
#ifndef IDEM_CLI_CALL_PASTE_H
#define IDEM_CLI_CALL_PASTE_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

typedef struct paste paste;

/* `took` gets a line, on the loop, and says whether it was the one; if not, another is read. Nothing that is typed is shown. NULL:
 * no thread can be had. Where there is no terminal it waits for nothing. Ctrl-C is the signal, as elsewhere. */
paste *paste_start(uv_loop_t *loop, const char *prompt,
                   bool (*took)(const char *line, size_t len, void *user), void *user);
/* Whether there is a terminal to paste at. */
bool paste_possible(void);
/* Ends it, and is gone. Takes NULL. */
void paste_stop(paste *self);

#endif
