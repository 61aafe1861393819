/* words.h - what a shell may offer behind `idem serve ... --dry-run`: names of tools, then of arguments. */
#ifndef IDEM_CLI_WORDS_H
#define IDEM_CLI_WORDS_H

#include <stdbool.h>

#define WORDS_ARGUMENT "--words" /* of the executable; the scripts in share/completions use it */

/* Gets the words behind `serve`, the last of them perhaps empty or half-written. Prints one
 * candidate a line; the exit status. */
int words_print(int argc, char **argv);

/* The names of a configuration's tools, or the arguments of one of them that the line has not; and of its prompts. False: that is
 * no such file. */
bool words_of_tools(const char *path, const char *tool, int argc, char **argv);
bool words_of_prompts(const char *path);

#endif
