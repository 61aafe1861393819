/* keyword.c - finds a keyword by its text.
 * The table is sorted by length, and the second bytes of names of one length differ well, so looking
 * through those costs a few nanoseconds and needs no generated hash. */
#include "keyword.h"

#include <string.h>

typedef struct keyword_row {
  const char *text;
  uint8_t vocabulary, drafts;
} keyword_row;

static const keyword_row rows[KEYWORD_COUNT] = {{"false", 0, 0},
#define K(name, text, vocabulary, draft) {text, VOCABULARY_##vocabulary, DRAFT_##draft},
                                                IDEM_SCHEMA_KEYWORDS(K)
#undef K
};

/* The first row of each length, from 2 on; what ends the longest is last. */
#define LENGTH_MIN 2
#define LENGTH_MAX 21
static const uint8_t firsts[LENGTH_MAX - LENGTH_MIN + 2] = {KEYWORD_IF,
                                                            KEYWORD_ID,
                                                            KEYWORD_REF,
                                                            KEYWORD_DEFS,
                                                            KEYWORD_FORMAT,
                                                            KEYWORD_SCHEMA,
                                                            KEYWORD_COMMENT,
                                                            KEYWORD_MIN_LENGTH,
                                                            KEYWORD_MULTIPLE_OF,
                                                            KEYWORD_DYNAMIC_REF,
                                                            KEYWORD_DEPENDENCIES,
                                                            KEYWORD_MIN_PROPERTIES,
                                                            KEYWORD_DYNAMIC_ANCHOR,
                                                            KEYWORD_ADDITIONAL_ITEMS,
                                                            KEYWORD_EXCLUSIVE_MINIMUM,
                                                            KEYWORD_DEPENDENT_REQUIRED,
                                                            KEYWORD_ADDITIONAL_PROPERTIES,
                                                            KEYWORD_ADDITIONAL_PROPERTIES,
                                                            KEYWORD_ADDITIONAL_PROPERTIES,
                                                            KEYWORD_UNEVALUATED_PROPERTIES,
                                                            KEYWORD_COUNT};

keyword idem__keyword_find(const char *text, size_t len) {
  if (len < LENGTH_MIN || len > LENGTH_MAX) return KEYWORD_NONE;
  for (int k = firsts[len - LENGTH_MIN]; k < firsts[len - LENGTH_MIN + 1]; k++)
    if (rows[k].text[1] == text[1] && memcmp(rows[k].text, text, len) == 0) return (keyword)k;
  return KEYWORD_NONE;
}

const char *idem__keyword_text(keyword k) { return rows[k].text; }
uint8_t idem__keyword_vocabulary(keyword k) { return rows[k].vocabulary; }
uint8_t idem__keyword_drafts(keyword k) { return rows[k].drafts; }
