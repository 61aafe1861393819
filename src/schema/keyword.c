/* keyword.c - finds a keyword by its text.
 * The table is small and its first bytes differ well within one length, so a scan by length and
 * second byte costs a few nanoseconds and needs no generated hash. */
#include "keyword.h"

#include <string.h>

typedef struct keyword_row {
  const char *text;
  uint8_t len, vocabulary, drafts;
} keyword_row;

static const keyword_row rows[KEYWORD_COUNT] = {{"false", 5, 0, 0},
#define K(name, text, vocabulary, draft)                                                           \
  {text, sizeof(text) - 1, VOCABULARY_##vocabulary, DRAFT_##draft},
                                                IDEM_SCHEMA_KEYWORDS(K)
#undef K
};

keyword idem__keyword_find(const char *text, size_t len) {
  if (len < 2 || len > 21) return KEYWORD_NONE;
  for (int k = KEYWORD_NONE + 1; k < KEYWORD_COUNT; k++) {
    const keyword_row *row = &rows[k];
    if (row->len == len && row->text[1] == text[1] && memcmp(row->text, text, len) == 0)
      return (keyword)k;
  }
  return KEYWORD_NONE;
}

const char *idem__keyword_text(keyword k) { return rows[k].text; }
uint8_t idem__keyword_vocabulary(keyword k) { return rows[k].vocabulary; }
uint8_t idem__keyword_drafts(keyword k) { return rows[k].drafts; }
