/* uritemplate_match.c - from a URI back to the variables of its template.
 * Worked out from the end: for each step of the template a row of bits says from which positions the
 * rest of the URI can be read. Then one walk from the start takes the longest value each time. So no
 * template and no URI makes it take more than (steps x length) time; nothing is ever tried twice.
 *
 * {name} and {+name} stand for at least one character, since a handler counts on them; the other
 * operators' variables may be missing, each or all. */
#include "uritemplate.h"

#include <string.h>

enum { WORD_BITS = 64, LOCAL_WORDS = 256, LOCAL_TOKENS = 256 };

typedef struct matcher {
  const idem__uri_template *pattern;
  idem__uri_token *tokens; /* the URI's */
  size_t len;              /* tokens */
  uint64_t *rows;
  size_t words; /* of a row */
} matcher;

/* -------------------------------------------------------------------- rows */

/* Row 0 is never reached, row 1 is the end, row 2 is scratch. A literal has one row from there on, an
 * expression two for each of its variables: one while nothing was written yet, one after. */
enum { ROW_NEVER, ROW_END, ROW_VALUE, ROW_FIRST };

static uint64_t *row(const matcher *m, size_t index) { return m->rows + index * m->words; }

static bool get_bit(const uint64_t *bits, size_t at) {
  return bits[at / WORD_BITS] >> (at % WORD_BITS) & 1;
}

static void set_bit(uint64_t *bits, size_t at) {
  bits[at / WORD_BITS] |= UINT64_C(1) << (at % WORD_BITS);
}

static size_t rows_of_part(const idem__uri_part *part) { return part->how ? 2 * part->count : 1; }

/* Without a first character the expression has to bring at least one of its own. */
static bool may_be_absent(const idem__uri_operator *how) { return how->first != 0; }

/* What follows variable `index` of an expression that starts at row `start` and is followed by row
 * `next`: the row of the variable behind it, or of the next part. */
static const uint64_t *row_after(const matcher *m, const idem__uri_part *part, size_t start,
                                 size_t next, size_t index, bool written) {
  if (index + 1 < part->count) return row(m, start + 2 * (index + 1) + written);
  return row(m, written || may_be_absent(part->how) ? next : (size_t)ROW_NEVER);
}

/* ------------------------------------------------------------------ tokens */

static bool tokens_at(const matcher *m, size_t at, size_t first, size_t count) {
  return count <= m->len - at &&
         memcmp(m->tokens + at, m->pattern->tokens + first, count * sizeof m->tokens[0]) == 0;
}

static bool allows(const idem__uri_spec *spec, idem__uri_token token) {
  if (token < 128) return spec->allowed[token / 32] >> token % 32 & 1;
  return token != IDEM__URI_BAD;
}

/* Prefixes count characters: the bytes behind the first of a UTF-8 sequence are free. */
static unsigned cost_of(idem__uri_token token) {
  return token >= IDEM__URI_ENCODED && (token & 0xc0) == 0x80 ? 0 : 1;
}

static unsigned most_characters(const idem__uri_spec *spec) {
  return spec->prefix ? spec->prefix : UINT32_MAX / 2;
}

/* Behind the first character or separator and the name: where the value begins. False: this variable
 * is not written here. */
static bool value_start(const matcher *m, const idem__uri_part *part, const idem__uri_spec *spec,
                        size_t at, bool written, size_t *start) {
  const idem__uri_operator *how = part->how;
  char lead = written ? how->separator : how->first;
  if (lead && (at == m->len || m->tokens[at++] != (idem__uri_token)lead)) return false;
  if (how->named && !spec->explode) {
    if (!tokens_at(m, at, spec->name_at, spec->name_tokens)) return false;
    at += spec->name_tokens;
    bool equals = at < m->len && m->tokens[at] == '=';
    if (!equals && !how->bare) return false;
    if (equals) at++;
  }
  *start = at;
  return true;
}

/* A name of ";" without "=" has no value: what follows it must not be taken for one. */
static bool is_bare(const matcher *m, const idem__uri_part *part, const idem__uri_spec *spec,
                    size_t start) {
  return part->how->bare && !spec->explode && m->tokens[start - 1] != '=';
}

static bool needs_character(const idem__uri_part *part, const idem__uri_spec *spec, bool written) {
  return spec->explode || (!written && !part->how->first);
}

/* --------------------------------------------------------------- backwards */

/* From where can a value be read so that `after` can go on? `not_empty`: one character or more. */
static void fill_value_row(const matcher *m, const idem__uri_spec *spec, const uint64_t *after,
                           bool not_empty) {
  uint64_t *bits = row(m, ROW_VALUE);
  unsigned most = most_characters(spec), far = UINT32_MAX, here;
  memset(bits, 0, m->words * sizeof *bits);
  for (size_t at = m->len + 1; at-- > 0; far = here) {
    bool more = at < m->len && allows(spec, m->tokens[at]) && far != UINT32_MAX;
    unsigned longer = more ? far + cost_of(m->tokens[at]) : UINT32_MAX;
    here = get_bit(after, at) ? 0 : longer;
    if ((not_empty ? longer : here) <= most) set_bit(bits, at);
  }
}

static void fill_variable_row(const matcher *m, const idem__uri_part *part, size_t start,
                              size_t next, size_t index, bool written) {
  const idem__uri_spec *spec = &m->pattern->specs[part->at + index];
  const uint64_t *then = row_after(m, part, start, next, index, true);
  uint64_t *bits = row(m, start + 2 * index + written);
  memcpy(bits, row_after(m, part, start, next, index, written), m->words * sizeof *bits);
  fill_value_row(m, spec, then, needs_character(part, spec, written));
  for (size_t at = 0; at <= m->len; at++) {
    size_t value;
    if (!value_start(m, part, spec, at, written, &value)) continue;
    bool ends =
        is_bare(m, part, spec, value) ? get_bit(then, value) : get_bit(row(m, ROW_VALUE), value);
    if (ends) set_bit(bits, at);
  }
}

static void fill_literal_row(const matcher *m, const idem__uri_part *part, size_t start,
                             size_t next) {
  for (size_t at = 0; at + part->count <= m->len; at++) {
    if (get_bit(row(m, next), at + part->count) && tokens_at(m, at, part->at, part->count)) {
      set_bit(row(m, start), at);
    }
  }
}

static void fill_part(const matcher *m, const idem__uri_part *part, size_t start, size_t next) {
  if (!part->how) {
    fill_literal_row(m, part, start, next);
    return;
  }
  for (size_t index = part->count; index-- > 0;) {
    fill_variable_row(m, part, start, next, index, true);
    fill_variable_row(m, part, start, next, index, false);
  }
}

/* Fills all rows and tells whether the whole URI can be read. Each part's first row is in `starts`;
 * the one behind the last is the end. */
static bool fill_rows(const matcher *m, size_t *starts) {
  const idem__uri_template *pattern = m->pattern;
  size_t next = ROW_FIRST;
  for (size_t i = 0; i < pattern->part_count; i++) {
    starts[i] = next;
    next += rows_of_part(&pattern->parts[i]);
  }
  starts[pattern->part_count] = ROW_END;
  set_bit(row(m, ROW_END), m->len);
  for (size_t i = pattern->part_count; i-- > 0;) {
    fill_part(m, &pattern->parts[i], starts[i], starts[i + 1]);
  }
  return get_bit(row(m, starts[0]), 0);
}

/* --------------------------------------------------------------- forwards */

typedef struct values {
  idem__arena *arena;
  idem__uri_variable *items;
  size_t lens[IDEM__URI_VARIABLES_MAX];
  bool cut[IDEM__URI_VARIABLES_MAX]; /* as long as its {name:n} allows: the value may go on */
  size_t count;
} values;

static char *put_token(char *out, idem__uri_token token, bool as_it_stands) {
  static const char digits[] = "0123456789ABCDEF";
  if (token < 128 || !as_it_stands) {
    *out = (char)(token & 0xff);
    return out + 1;
  }
  out[0] = '%', out[1] = digits[token >> 4 & 15], out[2] = digits[token & 15];
  return out + 3;
}

/* Exploded pairs stay as they are written: decoded, one could not tell where a pair ends. */
static idem_status read_value(const matcher *m, const idem__uri_part *part,
                              const idem__uri_spec *spec, size_t at, size_t end, values *out,
                              char **value, size_t *len) {
  bool as_it_stands = part->how->named && spec->explode;
  char *text = idem__arena_malloc(out->arena, 3 * (end - at) + 1), *next = text;
  if (!text) return IDEM_E_NOMEM;
  while (at < end) next = put_token(next, m->tokens[at++], as_it_stands);
  *next = '\0';
  *value = text;
  *len = (size_t)(next - text);
  return idem_utf8_valid(text, *len) ? IDEM_OK : IDEM_E_NOTFOUND;
}

/* A variable that is written twice has one value: the shorter one must be a prefix of the other and
 * come from a {name:n}. */
static idem_status merge_value(values *out, size_t i, char *value, size_t len, bool cut) {
  bool newer = len > out->lens[i];
  size_t shorter = newer ? out->lens[i] : len;
  bool shorter_cut = newer ? out->cut[i] : cut;
  if (memcmp(out->items[i].value, value, shorter) != 0) return IDEM_E_NOTFOUND;
  if (len != out->lens[i] && !shorter_cut) return IDEM_E_NOTFOUND;
  if (newer) {
    out->items[i].value = value;
    out->lens[i] = len;
    out->cut[i] = cut;
  } else if (len == out->lens[i]) {
    out->cut[i] = out->cut[i] && cut;
  }
  return IDEM_OK;
}

static bool may_go_on(const matcher *m, const idem__uri_spec *spec, size_t at, size_t end) {
  unsigned characters = 0;
  while (at < end) characters += cost_of(m->tokens[at++]);
  return spec->prefix && characters == spec->prefix;
}

static idem_status add_value(const matcher *m, const idem__uri_part *part,
                             const idem__uri_spec *spec, size_t at, size_t end, values *out) {
  char *value;
  size_t len;
  bool cut = may_go_on(m, spec, at, end);
  idem_status status = read_value(m, part, spec, at, end, out, &value, &len);
  if (status != IDEM_OK) return status;
  for (size_t i = 0; i < out->count; i++) {
    const idem__uri_variable *known = &out->items[i];
    if (known->name_len == spec->name_len && !memcmp(known->name, spec->name, spec->name_len)) {
      return merge_value(out, i, value, len, cut);
    }
  }
  out->items[out->count] = (idem__uri_variable){spec->name, spec->name_len, value};
  out->lens[out->count] = len;
  out->cut[out->count++] = cut;
  return IDEM_OK;
}

/* The longest value at `at` after which `then` can go on; false: there is none. */
static bool longest_value(const matcher *m, const idem__uri_spec *spec, const uint64_t *then,
                          size_t at, bool not_empty, size_t *end) {
  bool found = false;
  unsigned cost = 0, most = most_characters(spec);
  for (size_t here = at;; here++) {
    if (get_bit(then, here) && !(not_empty && here == at)) {
      *end = here;
      found = true;
    }
    if (here == m->len || !allows(spec, m->tokens[here])) return found;
    if ((cost += cost_of(m->tokens[here])) > most) return found;
  }
}

static bool find_value(const matcher *m, const idem__uri_part *part, const idem__uri_spec *spec,
                       const uint64_t *then, size_t at, bool written, size_t *start, size_t *end) {
  if (!value_start(m, part, spec, at, written, start)) return false;
  if (is_bare(m, part, spec, *start)) {
    *end = *start;
    return get_bit(then, *end);
  }
  return longest_value(m, spec, then, *start, needs_character(part, spec, written), end);
}

static idem_status walk_expression(const matcher *m, const idem__uri_part *part, size_t start,
                                   size_t next, size_t *at, values *out) {
  bool written = false;
  idem_status status = IDEM_OK;
  for (size_t index = 0; index < part->count && status == IDEM_OK; index++) {
    const idem__uri_spec *spec = &m->pattern->specs[part->at + index];
    const uint64_t *then = row_after(m, part, start, next, index, true);
    size_t value, end;
    if (!find_value(m, part, spec, then, *at, written, &value, &end)) continue;
    status = add_value(m, part, spec, value, end, out);
    *at = end;
    written = true;
  }
  return status;
}

static idem_status walk(const matcher *m, const size_t *starts, values *out) {
  idem_status status = IDEM_OK;
  size_t at = 0;
  for (size_t i = 0; i < m->pattern->part_count && status == IDEM_OK; i++) {
    const idem__uri_part *part = &m->pattern->parts[i];
    if (part->how)
      status = walk_expression(m, part, starts[i], starts[i + 1], &at, out);
    else
      at += part->count;
  }
  return status;
}

/* ------------------------------------------------------------------ public */

/* Most templates are ruled out by how they begin, before anything is allocated. */
static bool begins_alike(const idem__uri_template *pattern, const char *uri, size_t len) {
  const idem__uri_part *first = &pattern->parts[0];
  if (!pattern->part_count || first->how) return true;
  for (size_t i = 0; i < first->count; i++) {
    idem__uri_token token;
    if (!len) return false;
    size_t took = idem__uri_token_read(uri, len, &token);
    if (token != pattern->tokens[first->at + i]) return false;
    uri += took;
    len -= took;
  }
  return true;
}

static void read_tokens(matcher *m, const char *uri, size_t len) {
  for (m->len = 0; len; m->len++) {
    size_t took = idem__uri_token_read(uri, len, &m->tokens[m->len]);
    uri += took;
    len -= took;
  }
}

static idem_status read_values(const matcher *m, const size_t *starts, idem__arena *arena,
                               idem__uri_variable **variables, size_t *count) {
  values found = {.arena = arena};
  found.items = idem__arena_malloc(arena, (m->pattern->spec_count + 1) * sizeof *found.items);
  if (!found.items) return IDEM_E_NOMEM;
  idem_status status = walk(m, starts, &found);
  *variables = found.items;
  *count = found.count;
  return status;
}

/* The values are read in any case: a URI does not match when one of them is no text. */
static idem_status match_in(const matcher *m, idem__arena *arena, idem__uri_variable **variables,
                            size_t *count) {
  size_t starts[IDEM__URI_PARTS_MAX + 1] = {0}, ignored_count;
  idem__uri_variable *ignored;
  idem__arena own;
  if (!fill_rows(m, starts)) return IDEM_E_NOTFOUND;
  if (arena) return read_values(m, starts, arena, variables, count);
  idem__arena_init(&own, &m->pattern->alloc, NULL, 0, (size_t)1 << 20);
  idem_status status = read_values(m, starts, &own, &ignored, &ignored_count);
  idem__arena_deinit(&own);
  return status;
}

static size_t count_rows(const idem__uri_template *pattern) {
  size_t count = ROW_FIRST;
  for (size_t i = 0; i < pattern->part_count; i++) count += rows_of_part(&pattern->parts[i]);
  return count;
}

idem_status idem__uri_template_match(const idem__uri_template *pattern, const char *uri, size_t len,
                                     idem__arena *arena, idem__uri_variable **variables,
                                     size_t *count) {
  uint64_t local[LOCAL_WORDS];
  idem__uri_token local_tokens[LOCAL_TOKENS];
  const idem_alloc *alloc = arena ? arena->alloc : &pattern->alloc;
  if (len > IDEM__URI_MATCH_MAX || !begins_alike(pattern, uri, len)) return IDEM_E_NOTFOUND;
  matcher m = {pattern, local_tokens, 0, local, len / WORD_BITS + 1};
  size_t row_bytes = count_rows(pattern) * m.words * sizeof *m.rows;
  bool on_stack = row_bytes <= sizeof local && len <= LOCAL_TOKENS;
  if (!on_stack) {
    m.rows = idem__malloc(alloc, row_bytes + len * sizeof *m.tokens);
    if (!m.rows) return IDEM_E_NOMEM;
    m.tokens = (idem__uri_token *)(void *)((char *)m.rows + row_bytes);
  }
  memset(m.rows, 0, row_bytes);
  read_tokens(&m, uri, len);
  idem_status status = match_in(&m, arena, variables, count);
  if (!on_stack) idem__free(alloc, m.rows);
  return status;
}
