/* classes.h - the characters of one pattern, sorted into classes that it cannot tell apart.
 * An automaton then has a few columns instead of a million. Unicode properties are asked of PCRE2
 * one character at a time, so that both matchers know the same Unicode. */
#ifndef IDEM_SCHEMA_CLASSES_H
#define IDEM_SCHEMA_CLASSES_H

#include "effort.h"
#include "region.h"

#define MAX_PROPERTIES 4
#define MAX_SETS 255
#define MAX_CLASSES 255
#define LAST_CODE_POINT 0x10ffff

/* One set as the pattern names it: ranges and properties, perhaps all of it negated. */
typedef struct char_set {
  uint64_t *ranges; /* first code point << 32 | last; sorted and apart once closed */
  uint32_t count, capacity;
  uint8_t having, lacking; /* a bit per property */
  bool negated;
} char_set;

/* The sets of a pattern while it is read. */
typedef struct char_sets {
  region *scratch;
  regex_effort *effort;
  void *general; /* pcre2_general_context, for the properties */
  char_set sets[MAX_SETS];
  uint32_t count;
  char *names[MAX_PROPERTIES];
  void *properties[MAX_PROPERTIES]; /* pcre2_code: \p{NAME} */
  uint32_t property_count;
} char_sets;

typedef struct char_classes {
  uint8_t ascii[128];
  uint32_t count;            /* of classes */
  uint32_t interval_count;   /* of code points that no range tells apart */
  const uint32_t *starts;    /* where each interval begins */
  const uint8_t *intervals;  /* class by interval << property_count | properties it has */
  const uint64_t *members;   /* by set: a bit per class */
  uint32_t set_count, words; /* words: of one set's bits */
  uint32_t property_count;
  void *properties[MAX_PROPERTIES];
} char_classes;

/* OK; NOTFOUND: more than we take on; NOMEM. */
idem_status idem__set_add(char_sets *sets, char_set *set, uint32_t first, uint32_t last);
idem_status idem__set_add_property(char_sets *sets, char_set *set, const char *name, size_t len,
                                   bool having);
/* Sorts the set and finds its index; equal sets share one. */
idem_status idem__set_close(char_sets *sets, char_set *set, uint32_t *index);
/* Takes the properties over into *out, also on failure. */
idem_status idem__classes_build(char_sets *sets, region *memory, void *match_data,
                                char_classes *out);
void idem__classes_free(char_classes *classes);
size_t idem__classes_bytes(const char_classes *classes);

static inline bool idem__class_in(const char_classes *classes, uint32_t set, uint32_t which) {
  return classes->members[(size_t)set * classes->words + which / 64] >> (which % 64) & 1;
}

/* Reads one code point of UTF-8; false where it is none. */
bool idem__next_code_point(const char **at, const char *end, uint32_t *code);
/* The class of a character. `match_data` (PCRE2's) is needed only where there are properties;
 * CLASS_UNKNOWN: no memory. */
#define CLASS_UNKNOWN UINT32_MAX
uint32_t idem__class_of(const char_classes *classes, uint32_t code, void *match_data);

#endif
