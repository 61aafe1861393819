/* scratch.h - takes away a temporary folder with everything that programs left in it. */
#ifndef IDEM_CLI_SCRATCH_H
#define IDEM_CLI_SCRATCH_H

/* Nobody may be at work in it any more. Links are removed, not followed. */
void scratch_remove(const char *path);

#endif
