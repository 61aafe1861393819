/* words.h - see words.c. */
#ifndef IDEM_CLI_CALL_WORDS_H
#define IDEM_CLI_CALL_WORDS_H

#define CALL_WORDS_ARGUMENT                                                                        \
  "--call-words" /* of the executable; the scripts in share/completions use it */

/* Gets the words behind `call`, the last of them perhaps empty or half-written. Prints one candidate a line; the exit
 * status. */
int call_words(int argc, char **argv);

#endif
