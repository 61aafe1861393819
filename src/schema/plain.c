/* plain.c - patterns such as ^[A-Z]{3}-\d+$, matched in one pass.
 * A pattern is plain when it is anchored at its start and made of repeated ASCII sets in which no
 * run can take a character that a later one might need: then the greedy match is the only one.
 * Most patterns in tool schemas are; they cost no PCRE2 and cannot be catastrophic. */
#include "plain.h"

#include <string.h>

#define MAX_RUNS 64

typedef struct reader {
  const char *at, *end;
  plain_run runs[MAX_RUNS];
  uint32_t count;
  bool to_end;
} reader;

static void set_add(plain_run *run, uint8_t first, uint8_t last) {
  for (unsigned c = first; c <= last; c++) run->set[c >> 6] |= (uint64_t)1 << (c & 63);
}

/* \d, \w and escaped punctuation; anything else is not plain. */
static bool read_escape(reader *r, plain_run *run, int *single) {
  if (++r->at == r->end) return false;
  char c = *r->at++;
  *single = -1;
  if (c == 'd' || c == 'w') set_add(run, '0', '9');
  if (c == 'w') {
    set_add(run, 'a', 'z');
    set_add(run, 'A', 'Z');
    set_add(run, '_', '_');
  }
  if (c == 'd' || c == 'w') return true;
  if ((uint8_t)c >= 128 || c < ' ' || !strchr("^$\\.*+?()[]{}|/-_@:#,;=&%!~'\"<> ", c))
    return false;
  *single = (uint8_t)c;
  set_add(run, (uint8_t)c, (uint8_t)c);
  return true;
}

static bool read_range_end(reader *r, plain_run *run, int first) {
  r->at++;
  if (first < 0 || r->at == r->end || (uint8_t)*r->at >= 128) return false;
  int last = (uint8_t)*r->at;
  plain_run ignored = {{0, 0}, 0, 0};
  if (last == '\\') {
    if (!read_escape(r, &ignored, &last) || last < 0) return false;
  } else {
    r->at++;
  }
  if (last < first) return false;
  set_add(run, (uint8_t)first, (uint8_t)last);
  return true;
}

static bool read_class(reader *r, plain_run *run) {
  r->at++;
  if (r->at < r->end && (*r->at == '^' || *r->at == ']')) return false;
  while (r->at < r->end && *r->at != ']') {
    int single = (uint8_t)*r->at;
    if (single >= 128 || single < ' ') return false;
    if (single == '\\') {
      if (!read_escape(r, run, &single)) return false;
    } else {
      r->at++;
      set_add(run, (uint8_t)single, (uint8_t)single);
    }
    if (r->end - r->at >= 2 && r->at[0] == '-' && r->at[1] != ']')
      if (!read_range_end(r, run, single)) return false;
  }
  if (r->at == r->end) return false;
  r->at++;
  return true;
}

static bool read_number(reader *r, uint32_t *value) {
  const char *start = r->at;
  for (*value = 0; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
    if (*value > 10000) return false;
    *value = *value * 10 + (uint32_t)(*r->at - '0');
  }
  return r->at > start;
}

static bool read_braces(reader *r, plain_run *run) {
  r->at++;
  if (!read_number(r, &run->min)) return false;
  run->max = run->min;
  if (r->at < r->end && *r->at == ',') {
    r->at++;
    if (r->at < r->end && *r->at == '}')
      run->max = UINT32_MAX;
    else if (!read_number(r, &run->max))
      return false;
  }
  return r->at < r->end && *r->at++ == '}' && run->min <= run->max;
}

static bool read_repeat(reader *r, plain_run *run) {
  run->min = run->max = 1;
  if (r->at == r->end || !strchr("*+?{", *r->at)) return true;
  char c = *r->at;
  if (c == '{') {
    if (!read_braces(r, run)) return false;
  } else {
    r->at++;
    run->min = c == '+';
    run->max = c == '?' ? 1 : UINT32_MAX;
  }
  return r->at == r->end || !strchr("*+?{", *r->at); /* lazy or doubled: not ours */
}

static bool read_run(reader *r) {
  if (r->count == MAX_RUNS) return false;
  plain_run *run = &r->runs[r->count++];
  *run = (plain_run){{0, 0}, 1, 1};
  int single;
  char c = *r->at;
  if ((uint8_t)c >= 128 || c < ' ' || strchr("^$.*+?(){}|]", c)) return false;
  if (c == '[') {
    if (!read_class(r, run)) return false;
  } else if (c == '\\') {
    if (!read_escape(r, run, &single)) return false;
  } else {
    set_add(run, (uint8_t)c, (uint8_t)c);
    r->at++;
  }
  return read_repeat(r, run);
}

/* No run of variable length may share a character with what can follow it. */
static bool greedy_is_exact(const reader *r) {
  for (uint32_t i = 0; i < r->count; i++) {
    if (r->runs[i].min == r->runs[i].max) continue;
    for (uint32_t next = i + 1; next < r->count; next++) {
      if ((r->runs[i].set[0] & r->runs[next].set[0]) | (r->runs[i].set[1] & r->runs[next].set[1]))
        return false;
      if (r->runs[next].min > 0) break;
    }
  }
  return true;
}

static bool read_pattern(reader *r) {
  if (r->at == r->end) return true;
  if (*r->at++ != '^') return false;
  while (r->at < r->end) {
    if (*r->at == '$' && r->at + 1 == r->end) {
      r->to_end = true;
      break;
    }
    if (!read_run(r)) return false;
  }
  return greedy_is_exact(r);
}

idem_status idem__plain_compile(region *memory, const char *text, size_t len, plain_pattern **out) {
  reader r = {.at = text, .end = text + len};
  *out = NULL;
  if ((len && memchr(text, 0, len)) || !read_pattern(&r)) return IDEM_OK;
  plain_pattern *pattern = idem__region_get(memory, sizeof *pattern);
  plain_run *runs = idem__region_get(memory, r.count * sizeof *runs);
  if (!pattern || !runs) return IDEM_E_NOMEM;
  if (r.count) memcpy(runs, r.runs, r.count * sizeof *runs);
  *pattern = (plain_pattern){.runs = runs, .count = r.count, .to_end = r.to_end};
  *out = pattern;
  return IDEM_OK;
}

bool idem__plain_match(const plain_pattern *pattern, const char *text, size_t len) {
  size_t at = 0;
  for (uint32_t i = 0; i < pattern->count; i++) {
    const plain_run *run = &pattern->runs[i];
    size_t start = at;
    size_t stop = len - at > run->max ? at + run->max : len;
    uint64_t low = run->set[0], high = run->set[1];
    for (; at < stop; at++) {
      uint8_t c = (uint8_t)text[at];
      if (!(((c < 64 ? low : high) >> (c & 63)) & (c < 128))) break;
    }
    if (at - start < run->min) return false;
  }
  return !pattern->to_end || at == len;
}
