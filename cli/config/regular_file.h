/* regular_file.h - files that are opened without waiting. A FIFO in a file's place would be waited for until
 * someone writes to it, a device for ever. */
#ifndef IDEM_CLI_REGULAR_FILE_H
#define IDEM_CLI_REGULAR_FILE_H

#include <stdbool.h>
#include <stdio.h>

#define REGULAR_FILE_NOT "is no regular file"

/* For reading. NULL: *why says why, and errno does unless it is no file of a kind that can be read (then it is 0). */
FILE *regular_file_open(const char *path, const char **why);
/* The same of one with a secret in it, which must have no other name: nobody could say where that is, and who may
 * read it there. */
FILE *regular_file_open_secret(const char *path, const char **why);

/* A descriptor, or -1 with errno: ELOOP where a link is anywhere on the way. For paths that had none when they
 * were named: one was put there since. */
int regular_file_open_unlinked(const char *path, int flags);

#endif
