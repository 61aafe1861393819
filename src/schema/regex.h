/* regex.h - patterns as ECMA-262 means them, matched within bounds.
 * What is regular runs on matchers of our own in linear time; the rest (references to groups,
 * lookaround) goes to PCRE2, every item it tries charged to the matcher's steps. A compiled pattern
 * is read-only; a matcher belongs to one thread. */
#ifndef IDEM_SCHEMA_REGEX_H
#define IDEM_SCHEMA_REGEX_H

#include "automaton.h"

typedef struct regex regex;

/* Compiles `text` into the region. OK; INVAL: `why` says what is wrong; LIMIT: longer than
 * `max_bytes`, or no bytes of the effort are left; NOMEM. *out must be given to idem__regex_free. */
idem_status idem__regex_compile(region *memory, const char *text, size_t len, size_t max_bytes,
                                regex_effort *effort, regex **out, char *why, size_t why_size);
/* A pattern in PCRE2's own syntax: ours, never a user's. */
idem_status idem__regex_compile_own(region *memory, const char *text, regex_effort *effort,
                                    regex **out);
void idem__regex_free(regex *pattern);
regex *idem__regex_next(const regex *pattern);
void idem__regex_link(regex *pattern, regex *next);
/* The source text, for messages. */
const char *idem__regex_source(const regex *pattern);

/* Whether a match takes time linear in the text: no backtracking. */
bool idem__regex_is_linear(const regex *pattern);

/* Whether `text` is a regular expression, for the format of that name. */
idem_status idem__regex_check(const idem_alloc *alloc, const char *text, size_t len, bool *valid);

/* What a thread needs to match: scratch, and what is left of the budget. */
typedef struct regex_matcher {
  const idem_alloc *alloc;
  void *context; /* pcre2_match_context, made when first needed */
  void *data;    /* pcre2_match_data */
  void *general; /* pcre2_general_context */
  state_memory states;
  uint64_t steps_left; /* backtracking, and automata without a table */
} regex_matcher;

void idem__matcher_init(regex_matcher *matcher, const idem_alloc *alloc);
void idem__matcher_deinit(regex_matcher *matcher);
/* OK: *matched is the answer; LIMIT: the budget is spent; NOMEM. `text` must be valid UTF-8. */
idem_status idem__regex_match(const regex *pattern, regex_matcher *matcher, const char *text,
                              size_t len, bool *matched);

#endif
