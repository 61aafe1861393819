/* automaton_table.c - the table of an automaton whose sets of states are few.
 * Made when the schema is compiled and never changed, so threads share it without a lock; what
 * would become large stays with its instructions, which is slower and just as linear. */
#include <string.h>

#include "automaton.h"

/* Work on one pattern; a table that needs more would hardly fit. */
#define MAX_WORK 200000

/* One row: the instructions we can be at, and what was before. */
typedef struct row {
  uint64_t hash;
  const uint64_t *bits;
  bool begin, before; /* at the start of the text; after a word character */
} row;

typedef struct tabulation {
  automaton *a;
  region *scratch;
  regex_effort *effort;
  row *rows;
  uint32_t count, max_rows;
  uint16_t *cells;
  uint32_t *slots; /* row + 1 by hash */
  uint32_t slot_mask;
  uint32_t words;
  uint64_t *bits; /* of the row looked for */
  state_set now, all, next;
  uint64_t work;
  bool too_large;
} tabulation;

static bool spend(tabulation *t, uint64_t steps) {
  if (t->work < steps || !idem__effort_spend(t->effort, steps)) t->too_large = true;
  if (!t->too_large) t->work -= steps;
  return !t->too_large;
}

static bool same_row(const tabulation *t, const row *r, const row *wanted) {
  return r->hash == wanted->hash && r->begin == wanted->begin && r->before == wanted->before &&
         memcmp(r->bits, wanted->bits, t->words * sizeof *t->bits) == 0;
}

static void set_bits(tabulation *t, const state_set *set) {
  memset(t->bits, 0, t->words * sizeof *t->bits);
  for (uint32_t i = 0; i < set->count; i++)
    t->bits[set->list[i] / 64] |= (uint64_t)1 << (set->list[i] % 64);
}

static idem_status add_row(tabulation *t, row *made, uint32_t slot, uint32_t *index) {
  if (t->count == t->max_rows) {
    t->too_large = true;
    return IDEM_OK;
  }
  uint64_t *bits = idem__region_get(t->scratch, t->words * sizeof *bits);
  if (!bits) return IDEM_E_NOMEM;
  memcpy(bits, t->bits, t->words * sizeof *bits);
  made->bits = bits;
  *index = t->count++;
  t->rows[*index] = *made;
  t->slots[slot] = *index + 1;
  return IDEM_OK;
}

/* The row of a set of instructions, made when it is new. */
static idem_status find_row(tabulation *t, const state_set *set, bool begin, bool before,
                            uint32_t *index) {
  *index = STATE_DEAD;
  if (set->count == 0) return IDEM_OK;
  set_bits(t, set);
  row wanted = {.hash = idem__hash(t->bits, t->words * sizeof *t->bits, 0),
                .bits = t->bits,
                .begin = begin,
                .before = before};
  uint32_t slot = (uint32_t)wanted.hash & t->slot_mask;
  for (; t->slots[slot]; slot = (slot + 1) & t->slot_mask) {
    *index = t->slots[slot] - 1;
    if (same_row(t, &t->rows[*index], &wanted)) return IDEM_OK;
    if (!spend(t, 1)) return IDEM_OK;
  }
  return add_row(t, &wanted, slot, index);
}

static void load_row(tabulation *t, const row *r) {
  t->now.count = 0;
  for (uint32_t word = 0; word < t->words; word++)
    for (uint64_t left = r->bits[word]; left; left &= left - 1)
      idem__state_add(&t->now, word * 64 + (uint32_t)__builtin_ctzll(left));
}

/* The cells of the classes that are word characters, or of those that are not: what can be reached
 * before taking one is the same for all of them. */
static idem_status fill_cells(tabulation *t, uint32_t index, bool after) {
  automaton *a = t->a;
  const row r = t->rows[index];
  unsigned place = (r.begin ? AT_BEGIN : 0) | (r.before != after ? AT_BREAK : AT_NO_BREAK);
  bool found = idem__automaton_close(a, &t->now, place, &t->all);
  for (uint32_t c = 0; c < a->classes.count && !t->too_large; c++) {
    if (a->breaks && idem__class_in(&a->classes, a->word_set, c) != after) continue;
    uint32_t next = STATE_FOUND;
    if (!spend(t, 1 + t->all.count + t->words)) break;
    if (!found) {
      idem__automaton_take(a, &t->all, c, &t->next);
      idem_status status = find_row(t, &t->next, false, a->breaks && after, &next);
      if (status != IDEM_OK) return status;
    }
    t->cells[(size_t)index * a->columns + c] = (uint16_t)next;
  }
  return IDEM_OK;
}

static void fill_end(tabulation *t, uint32_t index) {
  const row *r = &t->rows[index];
  unsigned place = AT_END | (r->begin ? AT_BEGIN : 0) | (r->before ? AT_BREAK : AT_NO_BREAK);
  bool found = idem__automaton_close(t->a, &t->now, place, &t->all);
  size_t cell = (size_t)index * t->a->columns + t->a->columns - 1;
  t->cells[cell] = found ? STATE_FOUND : STATE_DEAD;
}

static idem_status fill_row(tabulation *t, uint32_t index) {
  load_row(t, &t->rows[index]);
  idem_status status = fill_cells(t, index, false);
  if (status == IDEM_OK && t->a->breaks) status = fill_cells(t, index, true);
  if (spend(t, t->words + t->all.count)) fill_end(t, index);
  return status;
}

static bool init_sets(tabulation *t) {
  size_t size = t->a->instruction_count * sizeof(uint16_t);
  state_set *sets[] = {&t->now, &t->all, &t->next};
  for (size_t i = 0; i < 3; i++) {
    sets[i]->list = idem__region_zeroed(t->scratch, size);
    sets[i]->where = idem__region_zeroed(t->scratch, size);
    if (!sets[i]->list || !sets[i]->where) return false;
  }
  return true;
}

static bool tabulation_init(tabulation *t) {
  t->a->columns = t->a->classes.count + 1;
  t->max_rows = t->effort->cells / t->a->columns;
  t->words = (t->a->instruction_count + 63) / 64;
  for (t->slot_mask = 16; t->slot_mask < t->max_rows * 2;) t->slot_mask *= 2;
  t->slots = idem__region_zeroed(t->scratch, t->slot_mask * sizeof *t->slots);
  t->slot_mask--;
  t->rows = idem__region_get(t->scratch, t->max_rows * sizeof *t->rows);
  t->cells = idem__region_get(t->scratch, t->effort->cells * sizeof *t->cells);
  t->bits = idem__region_get(t->scratch, t->words * sizeof *t->bits);
  t->work = MAX_WORK;
  return t->slots && t->rows && t->cells && t->bits && init_sets(t);
}

static idem_status keep_table(tabulation *t, region *memory) {
  automaton *a = t->a;
  size_t size = (size_t)t->count * a->columns * sizeof *t->cells;
  uint16_t *table = idem__region_get(memory, size);
  if (!table) return IDEM_E_NOMEM;
  memcpy(table, t->cells, size);
  a->table = table;
  a->table_bytes = size;
  a->instructions = NULL;
  return IDEM_OK;
}

idem_status idem__automaton_tabulate(automaton *a, region *memory, region *scratch,
                                     regex_effort *effort) {
  tabulation t = {.a = a, .scratch = scratch, .effort = effort};
  if (effort->cells < (a->classes.count + 1) * 4) return IDEM_OK;
  if (!tabulation_init(&t)) return IDEM_E_NOMEM;
  memset(t.cells, 0, 2 * (size_t)a->columns * sizeof *t.cells); /* the answers are never left */
  t.count = STATE_START;
  idem__state_add(&t.next, 0);
  uint32_t start;
  idem_status status = find_row(&t, &t.next, true, false, &start);
  for (uint32_t i = STATE_START; status == IDEM_OK && i < t.count && !t.too_large; i++)
    status = fill_row(&t, i);
  if (status != IDEM_OK || t.too_large) return status;
  return keep_table(&t, memory);
}
