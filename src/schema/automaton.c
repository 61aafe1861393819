/* automaton.c - runs an automaton: by its table, or by all states it can be in at once.
 * Without a table a character costs one step for each instruction reached, at most as many as the
 * pattern has; nothing is tried twice at one place. */
#include "automaton.h"

#include <string.h>

void idem__automaton_free(automaton *a) { idem__classes_free(&a->classes); }

bool idem__state_memory_init(state_memory *states, const idem_alloc *alloc) {
  if (states->memory) return true;
  states->memory = idem__calloc(alloc, (size_t)6 * MAX_INSTRUCTIONS * sizeof *states->memory);
  if (!states->memory) return false;
  state_set *sets[] = {&states->now, &states->all, &states->next};
  for (size_t i = 0; i < 3; i++) {
    sets[i]->list = states->memory + 2 * i * MAX_INSTRUCTIONS;
    sets[i]->where = sets[i]->list + MAX_INSTRUCTIONS;
  }
  return true;
}

void idem__state_memory_deinit(state_memory *states, const idem_alloc *alloc) {
  idem__free(alloc, states->memory);
  *states = (state_memory){.memory = NULL};
}

static bool may_pass(uint8_t kind, unsigned place) {
  switch (kind) {
  case MUST_BEGIN: return place & AT_BEGIN;
  case MUST_END: return place & AT_END;
  case MUST_BREAK: return place & AT_BREAK;
  case MUST_NOT_BREAK: return place & AT_NO_BREAK;
  default: return false;
  }
}

bool idem__automaton_close(const automaton *a, const state_set *from, unsigned place,
                           state_set *all) {
  all->count = 0;
  for (uint32_t i = 0; i < from->count; i++) idem__state_add(all, from->list[i]);
  for (uint32_t i = 0; i < all->count; i++) {
    uint32_t at = all->list[i];
    const instruction *in = &a->instructions[at];
    switch (in->kind) {
    case TAKE_SET: break;
    case ACCEPT: return true;
    case GO_EITHER: idem__state_add(all, at + 1); /* fall through */
    case GO_TO: idem__state_add(all, (uint32_t)((int64_t)at + in->other)); break;
    default:
      if (may_pass(in->kind, place)) idem__state_add(all, at + 1);
    }
  }
  return false;
}

void idem__automaton_take(const automaton *a, const state_set *all, uint32_t which,
                          state_set *next) {
  next->count = 0;
  if (!a->anchored) idem__state_add(next, 0);
  for (uint32_t i = 0; i < all->count; i++) {
    const instruction *in = &a->instructions[all->list[i]];
    if (in->kind == TAKE_SET && idem__class_in(&a->classes, in->set, which))
      idem__state_add(next, all->list[i] + 1u);
  }
}

/* ------------------------------------------------------------------ match */

/* The next character's class; `columns - 1` at the end. OK; INVAL: not UTF-8; NOMEM. */
static inline idem_status next_class(const automaton *a, void *match_data, const char **at,
                                     const char *end, uint32_t *which) {
  uint8_t c = (uint8_t) * *at;
  if (c < 128) {
    *which = a->classes.ascii[c];
    ++*at;
    return IDEM_OK;
  }
  uint32_t code;
  if (!idem__next_code_point(at, end, &code)) return IDEM_E_INVAL;
  *which = idem__class_of(&a->classes, code, match_data);
  return *which == CLASS_UNKNOWN ? IDEM_E_NOMEM : IDEM_OK;
}

static idem_status match_table(const automaton *a, void *match_data, const char *at,
                               const char *end, bool *matched) {
  uint32_t state = STATE_START;
  while (at < end) {
    uint32_t which;
    idem_status status = next_class(a, match_data, &at, end, &which);
    if (status != IDEM_OK) return status;
    state = a->table[state * a->columns + which];
    if (state < STATE_START) {
      *matched = state == STATE_FOUND;
      return IDEM_OK;
    }
  }
  *matched = a->table[state * a->columns + a->columns - 1] == STATE_FOUND;
  return IDEM_OK;
}

static unsigned break_at(bool before, bool after) {
  return before != after ? AT_BREAK : AT_NO_BREAK;
}

static idem_status match_states(const automaton *a, state_memory *states, void *match_data,
                                const char *at, const char *end, uint64_t *steps, bool *matched) {
  bool before = false; /* a word character */
  unsigned begin = AT_BEGIN;
  states->now.count = 0;
  idem__state_add(&states->now, 0);
  for (;;) {
    bool ending = at == end;
    uint32_t which = 0;
    idem_status status = ending ? IDEM_OK : next_class(a, match_data, &at, end, &which);
    if (status != IDEM_OK) return status;
    bool after = !ending && a->breaks && idem__class_in(&a->classes, a->word_set, which);
    unsigned place = begin | (ending ? AT_END : 0) | break_at(before, after);
    *matched = idem__automaton_close(a, &states->now, place, &states->all);
    uint64_t cost = states->all.count + 1;
    if (*steps < cost) {
      *steps = 0;
      *matched = false;
      return IDEM_E_LIMIT;
    }
    *steps -= cost;
    if (*matched || ending || states->all.count == 0) return IDEM_OK;
    idem__automaton_take(a, &states->all, which, &states->now);
    before = after;
    begin = 0;
  }
}

idem_status idem__automaton_match(const automaton *a, const idem_alloc *alloc, state_memory *states,
                                  void *match_data, const char *text, size_t len, uint64_t *steps,
                                  bool *matched) {
  const char *end = text + len;
  *matched = false;
  idem_status status;
  if (a->table)
    status = match_table(a, match_data, text, end, matched);
  else if (!idem__state_memory_init(states, alloc))
    status = IDEM_E_NOMEM;
  else
    status = match_states(a, states, match_data, text, end, steps, matched);
  return status == IDEM_E_INVAL ? IDEM_OK : status;
}
