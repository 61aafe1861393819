/* plain.h - patterns simple enough to match by one pass without backtracking. */
#ifndef IDEM_SCHEMA_PLAIN_H
#define IDEM_SCHEMA_PLAIN_H

#include "region.h"

/* A run of bytes from one set of ASCII characters. */
typedef struct plain_run {
  uint64_t set[2];
  uint32_t min, max; /* max UINT32_MAX: no end */
} plain_run;

typedef struct plain_pattern {
  const plain_run *runs;
  uint32_t count;
  bool to_end; /* the pattern ends with $ */
} plain_pattern;

/* OK with *out NULL when the pattern is not plain; NOMEM. */
idem_status idem__plain_compile(region *memory, const char *text, size_t len, plain_pattern **out);
bool idem__plain_match(const plain_pattern *pattern, const char *text, size_t len);

#endif
