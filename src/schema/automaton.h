/* automaton.h - regular patterns as automata, matched in time linear in the text.
 * A pattern becomes a list of instructions (Thompson's construction); where the states they can be
 * in together are few, also a table with one lookup a character. Both are read-only when made, so
 * threads share them; see docs/internals/schema.md. */
#ifndef IDEM_SCHEMA_AUTOMATON_H
#define IDEM_SCHEMA_AUTOMATON_H

#include "classes.h"

#define MAX_INSTRUCTIONS 4096

typedef enum instruction_kind {
  TAKE_SET,       /* one character of the set, then the next instruction */
  GO_EITHER,      /* to the next instruction and to the one at `other` */
  GO_TO,          /* to the one at `other` */
  MUST_BEGIN,     /* only at the start of the text */
  MUST_END,       /* only at its end */
  MUST_BREAK,     /* \b */
  MUST_NOT_BREAK, /* \B */
  ACCEPT
} instruction_kind;

typedef struct instruction {
  uint8_t kind;
  uint8_t set;
  int16_t other; /* how far to go, so that copies need no change */
} instruction;

/* Before which characters we are, for the instructions that take none. */
enum { AT_BEGIN = 1, AT_END = 2, AT_BREAK = 4, AT_NO_BREAK = 8 };

/* States of the table that are answers. */
enum { STATE_DEAD = 0, STATE_FOUND = 1, STATE_START = 2 };

typedef struct automaton {
  char_classes classes;
  const instruction *instructions; /* NULL where there is a table */
  uint32_t instruction_count;
  uint32_t word_set;     /* \w, where breaks is set */
  bool breaks;           /* \b or \B is there */
  bool anchored;         /* every match begins at the start of the text */
  bool named;            /* groups have names, which PCRE2 must judge */
  const uint16_t *table; /* state by state * columns + class; the last column is the end */
  uint32_t columns;
  size_t table_bytes;
} automaton;

/* A set of instructions in the order they were added. */
typedef struct state_set {
  uint16_t *list, *where;
  uint32_t count;
} state_set;

static inline bool idem__state_has(const state_set *set, uint32_t at) {
  return set->where[at] < set->count && set->list[set->where[at]] == at;
}
static inline void idem__state_add(state_set *set, uint32_t at) {
  if (idem__state_has(set, at)) return;
  set->where[at] = (uint16_t)set->count;
  set->list[set->count++] = (uint16_t)at;
}

/* Reads what idem__ecma_translate wrote. OK; NOTFOUND: not regular, or more than we take on: let
 * PCRE2 have it; NOMEM. *out must be given to idem__automaton_free. */
idem_status idem__automaton_read(region *memory, region *scratch, void *general, void *match_data,
                                 const char *text, size_t len, regex_effort *effort,
                                 automaton *out);
/* Makes the table, where it stays small. OK also when it does not; NOMEM. */
idem_status idem__automaton_tabulate(automaton *a, region *memory, region *scratch,
                                     regex_effort *effort);
void idem__automaton_free(automaton *a);

/* Memory of one thread for automata without a table, made when first needed. */
typedef struct state_memory {
  uint16_t *memory;
  state_set now, all, next;
} state_memory;

bool idem__state_memory_init(state_memory *states, const idem_alloc *alloc);
void idem__state_memory_deinit(state_memory *states, const idem_alloc *alloc);

/* All that can be reached from `from` without a character; true when ACCEPT is among it. */
bool idem__automaton_close(const automaton *a, const state_set *from, unsigned place,
                           state_set *all);
/* Where a character of the class leads. */
void idem__automaton_take(const automaton *a, const state_set *all, uint32_t which,
                          state_set *next);

/* OK; LIMIT: *steps ran out; NOMEM. Text that is not UTF-8 matches nothing from there on. */
idem_status idem__automaton_match(const automaton *a, const idem_alloc *alloc, state_memory *states,
                                  void *match_data, const char *text, size_t len, uint64_t *steps,
                                  bool *matched);

#endif
