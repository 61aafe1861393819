/* pattern_help.h - one pattern on every matcher: with a table, with states only, in PCRE2.
 * Shared by the differential test and the fuzz target. */
#ifndef IDEM_TEST_PATTERN_HELP_H
#define IDEM_TEST_PATTERN_HELP_H

#include "schema/regex.h"

enum { BY_TABLE, BY_STATES, BY_PCRE2, MATCHER_KINDS };

typedef struct pattern_trio {
  idem_alloc alloc;
  region memory;
  regex_matcher matcher;
  regex *by[MATCHER_KINDS];
  idem_status status[MATCHER_KINDS];
} pattern_trio;

/* Effort decides who takes a pattern: without cells there is no table, without steps no automaton. */
static inline void trio_init(pattern_trio *t, const char *pattern, size_t len) {
  *t = (pattern_trio){.alloc = idem__alloc_or_default(NULL)};
  idem__region_init(&t->memory, &t->alloc, 4096);
  idem__matcher_init(&t->matcher, &t->alloc);
  for (int kind = 0; kind < MATCHER_KINDS; kind++) {
    regex_effort effort = REGEX_EFFORT;
    if (kind == BY_STATES) effort.cells = 0;
    if (kind == BY_PCRE2) effort.steps = 0;
    t->status[kind] =
        idem__regex_compile(&t->memory, pattern, len, 8192, &effort, &t->by[kind], NULL, 0);
  }
}

static inline void trio_deinit(pattern_trio *t) {
  for (int kind = 0; kind < MATCHER_KINDS; kind++) idem__regex_free(t->by[kind]);
  idem__matcher_deinit(&t->matcher);
  idem__region_deinit(&t->memory);
}

/* Whether all that come to an answer give the same one; *compared: PCRE2 was among them. */
static inline bool trio_agrees(pattern_trio *t, const char *text, size_t len, bool *compared) {
  bool answers[MATCHER_KINDS] = {false}, known[MATCHER_KINDS] = {false};
  for (int kind = 0; kind < MATCHER_KINDS; kind++) {
    t->matcher.steps_left = 100000;
    known[kind] = idem__regex_match(t->by[kind], &t->matcher, text, len, &answers[kind]) == IDEM_OK;
  }
  *compared = known[BY_PCRE2];
  if (known[BY_TABLE] && known[BY_STATES] && answers[BY_TABLE] != answers[BY_STATES]) return false;
  return !*compared || ((!known[BY_TABLE] || answers[BY_TABLE] == answers[BY_PCRE2]) &&
                        (!known[BY_STATES] || answers[BY_STATES] == answers[BY_PCRE2]));
}

#endif
