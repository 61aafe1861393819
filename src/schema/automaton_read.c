/* automaton_read.c - from the text that ecma.c wrote for PCRE2 to instructions.
 * That text has few spellings left, and whoever is in doubt here says NOTFOUND: PCRE2 then takes
 * the pattern or refuses it. Jumps are relative, so a part is repeated by copying it. */
#include <string.h>

#include "automaton.h"

#define MAX_NESTING 100
#define MAX_REPEAT 65535
#define ENDLESS UINT32_MAX

typedef struct reader {
  const char *at, *end;
  region *scratch;
  char_sets sets;
  instruction *code, *spare;
  uint32_t count;
  automaton *made;
  idem_status status;
} reader;

static bool fail(reader *r, idem_status status) {
  if (r->status == IDEM_OK) r->status = status;
  return false;
}
static bool decline(reader *r) { return fail(r, IDEM_E_NOTFOUND); }
static bool check(reader *r, idem_status status) { return status == IDEM_OK || fail(r, status); }

static bool starts_with(const reader *r, const char *text) {
  size_t len = strlen(text);
  return (size_t)(r->end - r->at) >= len && memcmp(r->at, text, len) == 0;
}

static bool skip(reader *r, const char *text) {
  if (!starts_with(r, text)) return false;
  r->at += strlen(text);
  return true;
}

/* ---------------------------------------------------------- instructions */

static bool emit(reader *r, instruction_kind kind, uint32_t set, int64_t other) {
  if (r->count == MAX_INSTRUCTIONS) return decline(r);
  r->code[r->count++] =
      (instruction){.kind = (uint8_t)kind, .set = (uint8_t)set, .other = (int16_t)other};
  return true;
}

/* Puts a choice in front of what was emitted since `start`. */
static bool insert_choice(reader *r, uint32_t start, uint32_t other) {
  if (!emit(r, GO_EITHER, 0, 0)) return false;
  memmove(r->code + start + 1, r->code + start, (r->count - 1 - start) * sizeof *r->code);
  r->code[start] = (instruction){.kind = GO_EITHER, .other = (int16_t)other};
  return idem__effort_spend(r->sets.effort, (r->count - start) / 8) || decline(r);
}

static bool emit_copy(reader *r, uint32_t size) {
  if (r->count + size > MAX_INSTRUCTIONS) return decline(r);
  memcpy(r->code + r->count, r->spare, size * sizeof *r->code);
  r->count += size;
  return true;
}

/* What was emitted since `start`, as often as `min` to `max` times. */
static bool repeat(reader *r, uint32_t start, uint32_t min, uint32_t max) {
  uint32_t size = r->count - start;
  uint64_t copies = max == ENDLESS ? (uint64_t)min + 1 : max;
  if (copies * (size + 2) > MAX_INSTRUCTIONS && copies > 1) return decline(r);
  if (!idem__effort_spend(r->sets.effort, copies * size / 8 + 1)) return decline(r);
  memcpy(r->spare, r->code + start, size * sizeof *r->code);
  r->count = start;
  for (uint32_t i = 0; i < min; i++)
    if (!emit_copy(r, size)) return false;
  if (max == ENDLESS && min > 0) return emit(r, GO_EITHER, 0, -(int64_t)size);
  if (max == ENDLESS)
    return emit(r, GO_EITHER, 0, size + 2) && emit_copy(r, size) &&
           emit(r, GO_TO, 0, -(int64_t)size - 1);
  for (uint32_t left = max - min; left > 0; left--)
    if (!emit(r, GO_EITHER, 0, (int64_t)left * (size + 1)) || !emit_copy(r, size)) return false;
  return true;
}

/* ------------------------------------------------------------------ sets */

static bool emit_set(reader *r, char_set *set) {
  uint32_t index = 0;
  return check(r, idem__set_close(&r->sets, set, &index)) && emit(r, TAKE_SET, index, 0);
}

static bool add(reader *r, char_set *set, uint32_t first, uint32_t last) {
  return check(r, idem__set_add(&r->sets, set, first, last));
}

static bool add_digits(reader *r, char_set *set, bool negated) {
  if (!negated) return add(r, set, '0', '9');
  return add(r, set, 0, '0' - 1) && add(r, set, '9' + 1, LAST_CODE_POINT);
}

static bool add_word(reader *r, char_set *set, bool negated) {
  if (negated)
    return add(r, set, 0, '0' - 1) && add(r, set, '9' + 1, 'A' - 1) &&
           add(r, set, 'Z' + 1, '_' - 1) && add(r, set, '_' + 1, 'a' - 1) &&
           add(r, set, 'z' + 1, LAST_CODE_POINT);
  return add(r, set, '0', '9') && add(r, set, 'A', 'Z') && add(r, set, '_', '_') &&
         add(r, set, 'a', 'z');
}

static bool add_property(reader *r, char_set *set, bool having) {
  const char *close = memchr(r->at, '}', (size_t)(r->end - r->at));
  if (r->at == r->end || *r->at != '{' || !close) return decline(r);
  const char *name = r->at + 1;
  r->at = close + 1;
  return check(r, idem__set_add_property(&r->sets, set, name, (size_t)(close - name), having));
}

static bool read_hex(reader *r, uint32_t *code) {
  if (!skip(r, "{")) return decline(r);
  for (*code = 0; r->at < r->end && *r->at != '}'; r->at++) {
    char c = *r->at;
    uint32_t digit = c >= '0' && c <= '9' ? (uint32_t)(c - '0') : (uint32_t)(c - 'a' + 10);
    if (digit > 15 || *code > LAST_CODE_POINT) return decline(r);
    *code = *code * 16 + digit;
  }
  return skip(r, "}") && *code <= LAST_CODE_POINT ? true : decline(r);
}

/* One thing of a class or by itself: a character (*single) or a whole set of them. */
static bool read_escape(reader *r, char_set *set, int64_t *single) {
  *single = -1;
  if (++r->at == r->end) return decline(r);
  char c = *r->at++;
  uint32_t code = 0;
  switch (c) {
  case 'd': return add_digits(r, set, false);
  case 'D': return add_digits(r, set, true);
  case 'w': return add_word(r, set, false);
  case 'W': return add_word(r, set, true);
  case 'p': return add_property(r, set, true);
  case 'P': return add_property(r, set, false);
  case 'x':
    if (!read_hex(r, &code)) return false;
    *single = code;
    return true;
  default: break;
  }
  bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  if (letter || (uint8_t)c >= 0x80) return decline(r);
  *single = (uint8_t)c;
  return true;
}

static bool read_character(reader *r, char_set *set, int64_t *single) {
  if (*r->at == '\\') return read_escape(r, set, single);
  uint32_t code = 0;
  if (!idem__next_code_point(&r->at, r->end, &code)) return decline(r);
  *single = code;
  return true;
}

/* A character, or a range of them. A hyphen after a range is read differently by different people,
 * so PCRE2 decides what it means. */
static bool read_class_part(reader *r, char_set *set, bool *after_range) {
  int64_t first, last;
  bool hyphen = *r->at == '-';
  if (!read_character(r, set, &first)) return false;
  bool closing = r->at < r->end && *r->at == ']';
  if (hyphen && *after_range && !closing) return decline(r);
  *after_range = false;
  bool range = r->end - r->at >= 2 && r->at[0] == '-' && r->at[1] != ']';
  if (!range) return first < 0 || add(r, set, (uint32_t)first, (uint32_t)first);
  r->at++;
  char_set ignored = {.count = 0};
  if (first < 0 || !read_character(r, &ignored, &last) || last < first) return decline(r);
  *after_range = true;
  return add(r, set, (uint32_t)first, (uint32_t)last);
}

static bool read_class(reader *r) {
  char_set set = {.count = 0};
  bool after_range = false;
  r->at++;
  set.negated = skip(r, "^");
  if (starts_with(r, "]")) return decline(r);
  while (r->at < r->end && *r->at != ']')
    if (!read_class_part(r, &set, &after_range)) return false;
  if (!skip(r, "]")) return decline(r);
  return emit_set(r, &set);
}

/* ----------------------------------------------------------------- terms */

static bool read_alternatives(reader *r, unsigned nesting);

static bool skip_group_name(reader *r) {
  const char *close = memchr(r->at, '>', (size_t)(r->end - r->at));
  if (!close || starts_with(r, "=") || starts_with(r, "!")) return decline(r);
  r->at = close + 1;
  r->made->named = true;
  return true;
}

static bool read_group(reader *r, unsigned nesting) {
  if (nesting == MAX_NESTING) return decline(r);
  if (skip(r, "(?!)")) { /* what ecma.c makes of [], which nothing matches */
    char_set none = {.count = 0};
    return emit_set(r, &none);
  }
  if (skip(r, "(?<")) {
    if (!skip_group_name(r)) return false;
  } else if (!skip(r, "(?:")) {
    r->at++;
    if (starts_with(r, "?") || starts_with(r, "*")) return decline(r);
  }
  return read_alternatives(r, nesting + 1) && (skip(r, ")") || decline(r));
}

static bool read_break(reader *r, bool negated) {
  char_set word = {.count = 0};
  r->at += 2;
  r->made->breaks = true;
  return add_word(r, &word, false) &&
         check(r, idem__set_close(&r->sets, &word, &r->made->word_set)) &&
         emit(r, negated ? MUST_NOT_BREAK : MUST_BREAK, 0, 0);
}

static bool read_single(reader *r) {
  char_set set = {.count = 0};
  int64_t single;
  if (!read_character(r, &set, &single)) return false;
  if (single >= 0 && !add(r, &set, (uint32_t)single, (uint32_t)single)) return false;
  return emit_set(r, &set);
}

static bool read_atom(reader *r, unsigned nesting, bool *repeatable) {
  *repeatable = false;
  if (skip(r, "^")) return emit(r, MUST_BEGIN, 0, 0);
  if (skip(r, "$")) return emit(r, MUST_END, 0, 0);
  if (starts_with(r, "\\b")) return read_break(r, false);
  if (starts_with(r, "\\B")) return read_break(r, true);
  *repeatable = true;
  switch (*r->at) {
  case '(': return read_group(r, nesting);
  case '[': return read_class(r);
  case '*':
  case '+':
  case '?':
  case '{': return decline(r);
  default: return read_single(r);
  }
}

static bool read_number(reader *r, uint32_t *value) {
  const char *start = r->at;
  for (*value = 0; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
    *value = *value * 10 + (uint32_t)(*r->at - '0');
    if (*value > MAX_REPEAT) return decline(r);
  }
  return r->at > start || decline(r);
}

static bool read_braces(reader *r, uint32_t *min, uint32_t *max) {
  if (!read_number(r, min)) return false;
  *max = *min;
  if (skip(r, ",")) {
    if (starts_with(r, "}"))
      *max = ENDLESS;
    else if (!read_number(r, max))
      return false;
  }
  return (skip(r, "}") && *min <= *max) || decline(r);
}

static bool read_repeat(reader *r, uint32_t start, bool repeatable) {
  uint32_t min = 0, max = ENDLESS;
  if (r->at == r->end || !strchr("*+?{", *r->at)) return true;
  if (!repeatable) return decline(r);
  char c = *r->at++;
  if (c == '+') min = 1;
  if (c == '?') max = 1;
  if (c == '{' && !read_braces(r, &min, &max)) return false;
  skip(r, "?"); /* which match is found first does not matter: only whether there is one */
  return repeat(r, start, min, max);
}

static bool read_sequence(reader *r, unsigned nesting) {
  while (r->at < r->end && *r->at != '|' && *r->at != ')') {
    uint32_t start = r->count;
    bool repeatable;
    if (!read_atom(r, nesting, &repeatable) || !read_repeat(r, start, repeatable)) return false;
  }
  return true;
}

/* Each alternative but the last ends with a jump; until the end is known, they form a chain. */
static bool read_alternatives(reader *r, unsigned nesting) {
  uint32_t chain = 0;
  for (;;) {
    uint32_t start = r->count;
    if (!read_sequence(r, nesting)) return false;
    if (!skip(r, "|")) break;
    if (!insert_choice(r, start, r->count - start + 2)) return false;
    if (!emit(r, GO_TO, 0, (int64_t)chain)) return false;
    chain = r->count;
  }
  while (chain) {
    uint32_t at = chain - 1;
    chain = (uint32_t)r->code[at].other;
    r->code[at].other = (int16_t)(r->count - at);
  }
  return true;
}

/* ----------------------------------------------------------------- whole */

/* Whether no match can begin after the start: then nothing is left without ^ before it. */
static bool is_anchored(const reader *r, state_set *from, state_set *all) {
  idem__state_add(from, 0);
  if (idem__automaton_close(r->made, from, AT_END | AT_BREAK | AT_NO_BREAK, all)) return false;
  for (uint32_t i = 0; i < all->count; i++)
    if (r->code[all->list[i]].kind == TAKE_SET) return false;
  return true;
}

static bool find_anchored(reader *r) {
  size_t size = r->count * sizeof(uint16_t);
  state_set from = {.count = 0}, all = {.count = 0};
  from.list = idem__region_zeroed(r->scratch, size);
  from.where = idem__region_zeroed(r->scratch, size);
  all.list = idem__region_zeroed(r->scratch, size);
  all.where = idem__region_zeroed(r->scratch, size);
  if (!from.list || !from.where || !all.list || !all.where) return fail(r, IDEM_E_NOMEM);
  r->made->anchored = is_anchored(r, &from, &all);
  return true;
}

static bool keep(reader *r, region *memory, void *match_data) {
  automaton *made = r->made;
  made->instructions = r->code;
  made->instruction_count = r->count;
  return find_anchored(r) &&
         check(r, idem__classes_build(&r->sets, memory, match_data, &made->classes));
}

static bool reader_init(reader *r) {
  size_t size = MAX_INSTRUCTIONS * sizeof *r->code;
  r->code = idem__region_get(r->scratch, size);
  r->spare = idem__region_get(r->scratch, size);
  return (r->code && r->spare) || fail(r, IDEM_E_NOMEM);
}

idem_status idem__automaton_read(region *memory, region *scratch, void *general, void *match_data,
                                 const char *text, size_t len, regex_effort *effort,
                                 automaton *out) {
  *out = (automaton){.columns = 0};
  reader r = {.at = text, .end = text + len, .scratch = scratch, .made = out};
  r.sets = (char_sets){.scratch = scratch, .effort = effort, .general = general};
  if (!idem__effort_spend(effort, len + 64)) return IDEM_E_NOTFOUND;
  bool done = reader_init(&r) && read_alternatives(&r, 0) && (r.at == r.end || decline(&r)) &&
              emit(&r, ACCEPT, 0, 0) && keep(&r, memory, match_data);
  if (!done) {
    if (out->classes.property_count == 0) { /* not yet handed over */
      memcpy(out->classes.properties, r.sets.properties, sizeof r.sets.properties);
      out->classes.property_count = r.sets.property_count;
    }
    idem__automaton_free(out);
  }
  return r.status;
}
