/* effort.h - what the patterns of one schema may cost while it is compiled. */
#ifndef IDEM_SCHEMA_EFFORT_H
#define IDEM_SCHEMA_EFFORT_H

#include "base/base.h"

/* Steps spent on automata: when none are left, the next patterns go to PCRE2. Bytes of
 * compiled patterns: when none are left, the schema is refused. Cells of one table: a pattern whose
 * table would need more is matched without. */
typedef struct regex_effort {
  uint64_t steps;
  size_t bytes;
  uint32_t cells;
} regex_effort;

#define REGEX_EFFORT                                                                               \
  (regex_effort) { .steps = 20000000, .bytes = (size_t)32 << 20, .cells = 8192 }

static inline bool idem__effort_spend(regex_effort *effort, uint64_t steps) {
  if (effort->steps < steps) {
    effort->steps = 0;
    return false;
  }
  effort->steps -= steps;
  return true;
}

#endif
