/* pattern.h - LIKE and GLOB as SQLite has them, but in time that can be ended: SQLite's own look at
 * nobody until they are done, and a pattern of some kilobytes keeps them busy for a minute. */
#ifndef IDEM_CLI_PATTERN_H
#define IDEM_CLI_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

/* What the characters of a pattern mean; 0: none means that. */
typedef struct pattern_kind {
  uint32_t any;    /* any number of characters */
  uint32_t one;    /* any one */
  uint32_t escape; /* the next one is itself */
  bool has_sets;   /* [a-z] and [^a-z] */
  bool folds_case; /* of ASCII */
} pattern_kind;

typedef enum pattern_answer { PATTERN_NO, PATTERN_YES, PATTERN_ENDED } pattern_answer;

/* Both end with NUL and may hold any bytes. `ended` is asked now and then; if it says true, that is
 * the answer. */
pattern_answer pattern_match(const pattern_kind *kind, const char *pattern, const char *text,
                             bool (*ended)(void *user), void *user);

/* The next character as SQLite reads it: what is no UTF-8 is U+FFFD, with all bytes that seem to
 * belong to it. 0: the end, which is not passed. */
uint32_t pattern_read(const unsigned char **at);

#endif
