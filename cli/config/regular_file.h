/* regular_file.h - files that are opened without waiting. A FIFO in a file's place would be waited for until
 * someone writes to it, a device for ever. */
#ifndef IDEM_CLI_REGULAR_FILE_H
#define IDEM_CLI_REGULAR_FILE_H

#include <stdbool.h>
#include <stdio.h>

#define REGULAR_FILE_NOT "is no regular file"

/* For reading. NULL: *why says why, and errno does unless it is no file of a kind that can be read (then it is 0). */
FILE *regular_file_open(const char *path, const char **why);

#endif
