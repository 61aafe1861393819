/* compile_rules.c - the keywords about one kind of value: numbers, strings, arrays.
 * Each group becomes a struct in the program's region; compile_object.c does the same for objects.
 */
#include <math.h>

#include "draft_node.h"

/* ----------------------------------------------------------- plain keywords */

idem_status idem__compile_count(compiler *c, yyjson_val *value, node_id self, keyword k,
                                uint64_t *out) {
  number n = idem__number_of(value);
  if (idem__number_to_count(&n, out)) return IDEM_OK;
  if (n.form == NUMBER_BAD || n.negative || !idem__number_is_integer(&n))
    return idem__compile_fail(c, IDEM_E_INVAL, self, k, "must be a non-negative integer");
  *out = UINT64_MAX - 1; /* beyond any size there is */
  return IDEM_OK;
}

static idem_status optional_count(draft_node *d, keyword k, uint64_t *out) {
  return d->k[k] ? idem__compile_count(d->c, d->k[k], d->self, k, out) : IDEM_OK;
}

static uint8_t kind_named(yyjson_val *name) {
  static const struct {
    const char *name;
    uint8_t kind;
  } kinds[] = {{"null", KIND_NULL},       {"boolean", KIND_BOOLEAN}, {"number", KIND_NUMBER},
               {"integer", KIND_INTEGER}, {"string", KIND_STRING},   {"array", KIND_ARRAY},
               {"object", KIND_OBJECT}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (yyjson_equals_str(name, kinds[i].name)) return kinds[i].kind;
  return 0;
}

#define TYPE_NAMES "string, integer, number, boolean, array, object, null"

idem_status idem__draft_type(draft_node *d) {
  yyjson_val *type = d->k[KEYWORD_TYPE];
  if (!type) return IDEM_OK;
  uint8_t mask = 0;
  if (yyjson_is_str(type)) {
    mask = kind_named(type);
  } else if (yyjson_is_arr(type)) {
    size_t i, max;
    yyjson_val *name;
    yyjson_arr_foreach(type, i, max, name) {
      uint8_t kind = yyjson_is_str(name) ? kind_named(name) : 0;
      if (!kind) return idem__draft_wrong(d, KEYWORD_TYPE, "made of " TYPE_NAMES);
      mask |= kind;
    }
  }
  if (!mask) return idem__draft_wrong(d, KEYWORD_TYPE, "one of " TYPE_NAMES ", or a list of them");
  if (mask & KIND_NUMBER) mask &= (uint8_t)~KIND_INTEGER;
  d->made.kinds = mask;
  return IDEM_OK;
}

/* --------------------------------------------------------------- numbers */

static idem_status read_number(draft_node *d, keyword k, bool *has, number *out) {
  yyjson_val *value = d->k[k];
  if (!value) return IDEM_OK;
  number n = idem__number_of(value);
  if (n.form == NUMBER_BAD) return idem__draft_wrong(d, k, "a number");
  if (n.form == NUMBER_LONG) { /* its digits must outlive the document */
    n.text = idem__region_text(idem__draft_memory(d), n.text, n.text_len);
    if (!n.text) return idem__compile_no_memory(d->c);
  }
  *out = n;
  *has = true;
  return IDEM_OK;
}

/* Folds an integer bound into the inclusive range; false when it is no plain integer. */
static bool fold_bound(bool has, const number *bound, int64_t shift, bool lower, number_rules *r) {
  if (!has) return true;
  if (bound->form != NUMBER_INTEGER) return false;
  if ((shift > 0 && bound->integer == INT64_MAX) || (shift < 0 && bound->integer == INT64_MIN))
    return false;
  int64_t value = bound->integer + shift;
  if (lower && value > r->low) r->low = value;
  if (!lower && value < r->high) r->high = value;
  return true;
}

#define EXACT_MAX (INT64_C(1) << 53) /* integers up to it are doubles */

/* The double that is this bound, exactly or as its shortest spelling: rounding keeps order, so
 * comparing doubles then decides as comparing decimals would. */
static bool as_double(bool has, const number *bound, double *out) {
  if (!has) return true;
  char text[64];
  yyjson_val value;
  if (bound->form == NUMBER_LONG) return false;
  if (bound->form == NUMBER_INTEGER && bound->integer >= -EXACT_MAX &&
      bound->integer <= EXACT_MAX) {
    *out = (double)bound->integer;
    return true;
  }
  idem__number_print(bound, text, sizeof text);
  if (!idem__json_number_of(text, &value)) return false;
  double real = yyjson_get_num(&value);
  yyjson_val back = {.tag = YYJSON_TYPE_NUM | YYJSON_SUBTYPE_REAL, .uni.f64 = real};
  number n = idem__number_of(&back);
  *out = real;
  return idem__number_equal(&n, bound);
}

static void find_real_range(number_rules *r) {
  r->real_low = r->real_above = -HUGE_VAL;
  r->real_high = r->real_below = HUGE_VAL;
  r->plain_real = !r->has_multiple && as_double(r->has_minimum, &r->minimum, &r->real_low) &&
                  as_double(r->has_maximum, &r->maximum, &r->real_high) &&
                  as_double(r->has_exclusive_minimum, &r->exclusive_minimum, &r->real_above) &&
                  as_double(r->has_exclusive_maximum, &r->exclusive_maximum, &r->real_below);
}

static void find_plain_range(number_rules *r) {
  r->low = INT64_MIN;
  r->high = INT64_MAX;
  r->plain = !r->has_multiple && fold_bound(r->has_minimum, &r->minimum, 0, true, r) &&
             fold_bound(r->has_maximum, &r->maximum, 0, false, r) &&
             fold_bound(r->has_exclusive_minimum, &r->exclusive_minimum, 1, true, r) &&
             fold_bound(r->has_exclusive_maximum, &r->exclusive_maximum, -1, false, r);
}

idem_status idem__draft_numbers(draft_node *d) {
  number_rules *r = NULL;
  if (d->k[KEYWORD_MINIMUM] || d->k[KEYWORD_MAXIMUM] || d->k[KEYWORD_EXCLUSIVE_MINIMUM] ||
      d->k[KEYWORD_EXCLUSIVE_MAXIMUM] || d->k[KEYWORD_MULTIPLE_OF]) {
    r = idem__region_zeroed(idem__draft_memory(d), sizeof *r);
    if (!r) return idem__compile_no_memory(d->c);
  } else {
    return IDEM_OK;
  }
  idem_status status = read_number(d, KEYWORD_MINIMUM, &r->has_minimum, &r->minimum);
  if (status == IDEM_OK) status = read_number(d, KEYWORD_MAXIMUM, &r->has_maximum, &r->maximum);
  if (status == IDEM_OK)
    status =
        read_number(d, KEYWORD_EXCLUSIVE_MINIMUM, &r->has_exclusive_minimum, &r->exclusive_minimum);
  if (status == IDEM_OK)
    status =
        read_number(d, KEYWORD_EXCLUSIVE_MAXIMUM, &r->has_exclusive_maximum, &r->exclusive_maximum);
  if (status == IDEM_OK)
    status = read_number(d, KEYWORD_MULTIPLE_OF, &r->has_multiple, &r->multiple);
  number zero = {.form = NUMBER_INTEGER};
  if (status == IDEM_OK && r->has_multiple && idem__number_compare(&r->multiple, &zero) <= 0)
    status = idem__draft_wrong(d, KEYWORD_MULTIPLE_OF, "greater than 0");
  if (status != IDEM_OK) return status;
  find_plain_range(r);
  find_real_range(r);
  d->made.numbers = r;
  return IDEM_OK;
}

/* --------------------------------------------------------------- strings */

static void keep_pattern(compiler *c, regex *pattern) {
  idem__regex_link(pattern, c->schema->patterns);
  c->schema->patterns = pattern;
}

/* Schemas repeat their patterns, and compiling one is dear; the last few are looked through. */
static const regex *known_pattern(const compiler *c, const yyjson_val *text) {
  int left = 32;
  for (regex *r = c->schema->patterns; r && left > 0; r = idem__regex_next(r), left--)
    if (r != c->label && yyjson_equals_str((yyjson_val *)(uintptr_t)text, idem__regex_source(r)))
      return r;
  return NULL;
}

idem_status idem__compile_pattern(compiler *c, yyjson_val *value, node_id self, keyword k,
                                  const regex **out) {
  if (!yyjson_is_str(value))
    return idem__compile_fail(c, IDEM_E_INVAL, self, k, "must be a string");
  if ((*out = known_pattern(c, value))) return IDEM_OK;
  char why[160] = "";
  regex *pattern;
  idem_status status =
      idem__regex_compile(&c->schema->memory, value->uni.str, idem__length(value),
                          c->max_pattern_bytes, &c->effort, &pattern, why, sizeof why);
  if (status == IDEM_E_NOMEM) return idem__compile_no_memory(c);
  if (status == IDEM_E_LIMIT && idem__length(value) > c->max_pattern_bytes)
    return idem__compile_fail(c, status, self, k, "the pattern is too long (max_pattern_bytes)");
  if (status == IDEM_E_LIMIT)
    return idem__compile_fail(c, status, self, k, "the patterns together are too large");
  if (status != IDEM_OK)
    return idem__compile_fail(c, status, self, k, "not a regular expression: %s", why);
  keep_pattern(c, pattern);
  *out = pattern;
  return IDEM_OK;
}

/* What an A-label may decode to: letters, marks and digits that are stable under case folding,
 * not starting with a mark. The contextual rules are in format_host.c. */
static const char label_pattern[] =
    "^(?!\\p{M})[\\p{Ll}\\p{Lo}\\p{Lm}\\p{Mn}\\p{Mc}\\p{Nd}\\-\\x{b7}\\x{375}\\x{5f3}\\x{5f4}"
    "\\x{6fd}\\x{6fe}\\x{f0b}\\x{3007}\\x{30fb}\\x{200c}\\x{200d}]+$";

static idem_status find_label(compiler *c, const regex **out) {
  if (!c->label) {
    regex *made;
    idem_status status =
        idem__regex_compile_own(&c->schema->memory, label_pattern, &c->effort, &made);
    if (status == IDEM_E_LIMIT)
      return idem__compile_fail(c, status, NODE_NONE, KEYWORD_FORMAT,
                                "the patterns together are too large");
    if (status != IDEM_OK) return idem__compile_no_memory(c);
    keep_pattern(c, made);
    c->label = made;
  }
  *out = c->label;
  return IDEM_OK;
}

static idem_status read_format(draft_node *d, string_rules *r) {
  yyjson_val *format = d->k[KEYWORD_FORMAT];
  const dialect *speech = &d->c->scopes[d->at.scope].speech;
  if (!format) return IDEM_OK;
  if (!yyjson_is_str(format)) return idem__draft_wrong(d, KEYWORD_FORMAT, "a string");
  if (!d->c->assert_formats && !(speech->vocabularies & VOCABULARY_FORMAT_ASSERT)) return IDEM_OK;
  r->format = idem__format_find(format->uni.str, idem__length(format));
  return idem__format_wants_label(r->format) ? find_label(d->c, &r->label) : IDEM_OK;
}

idem_status idem__draft_strings(draft_node *d) {
  if (!d->k[KEYWORD_MIN_LENGTH] && !d->k[KEYWORD_MAX_LENGTH] && !d->k[KEYWORD_PATTERN] &&
      !d->k[KEYWORD_FORMAT])
    return IDEM_OK;
  string_rules *r = idem__region_zeroed(idem__draft_memory(d), sizeof *r);
  if (!r) return idem__compile_no_memory(d->c);
  r->max_length = UINT64_MAX;
  idem_status status = optional_count(d, KEYWORD_MIN_LENGTH, &r->min_length);
  if (status == IDEM_OK) status = optional_count(d, KEYWORD_MAX_LENGTH, &r->max_length);
  if (status == IDEM_OK && d->k[KEYWORD_PATTERN])
    status =
        idem__compile_pattern(d->c, d->k[KEYWORD_PATTERN], d->self, KEYWORD_PATTERN, &r->pattern);
  if (status == IDEM_OK) status = read_format(d, r);
  d->made.strings = r;
  return status;
}

/* ---------------------------------------------------------------- arrays */

static idem_status read_items(draft_node *d, array_rules *r) {
  bool old = d->c->scopes[d->at.scope].speech.draft == DRAFT_7;
  bool tuple = old && d->k[KEYWORD_ITEMS] && yyjson_is_arr(d->k[KEYWORD_ITEMS]);
  r->prefix_keyword = old ? KEYWORD_ITEMS : KEYWORD_PREFIX_ITEMS;
  r->rest_keyword = tuple ? KEYWORD_ADDITIONAL_ITEMS : KEYWORD_ITEMS;
  idem_status status = IDEM_OK;
  if (tuple && idem__length(d->k[KEYWORD_ITEMS]) == 0) {
    r->prefix_count = 0; /* draft-07 has no lower bound on the list */
  } else if (tuple || d->k[KEYWORD_PREFIX_ITEMS]) {
    status = idem__draft_list(d, r->prefix_keyword, &r->prefix, &r->prefix_count);
  }
  if (status == IDEM_OK) status = idem__draft_child(d, r->rest_keyword, &r->rest);
  return status;
}

static idem_status read_contains(draft_node *d, array_rules *r) {
  if (!d->k[KEYWORD_CONTAINS]) return IDEM_OK;
  idem_status status = idem__draft_child(d, KEYWORD_CONTAINS, &r->contains);
  if (status == IDEM_OK) status = optional_count(d, KEYWORD_MIN_CONTAINS, &r->min_contains);
  if (status == IDEM_OK) status = optional_count(d, KEYWORD_MAX_CONTAINS, &r->max_contains);
  return status;
}

idem_status idem__draft_arrays(draft_node *d) {
  if (!d->k[KEYWORD_ITEMS] && !d->k[KEYWORD_PREFIX_ITEMS] && !d->k[KEYWORD_CONTAINS] &&
      !d->k[KEYWORD_MIN_ITEMS] && !d->k[KEYWORD_MAX_ITEMS] && !d->k[KEYWORD_UNIQUE_ITEMS])
    return IDEM_OK;
  array_rules *r = idem__region_zeroed(idem__draft_memory(d), sizeof *r);
  if (!r) return idem__compile_no_memory(d->c);
  *r = (array_rules){.rest = NODE_NONE,
                     .contains = NODE_NONE,
                     .min_contains = 1,
                     .max_contains = UINT64_MAX,
                     .max_items = UINT64_MAX};
  idem_status status = read_items(d, r);
  if (status == IDEM_OK) status = read_contains(d, r);
  if (status == IDEM_OK) status = optional_count(d, KEYWORD_MIN_ITEMS, &r->min_items);
  if (status == IDEM_OK) status = optional_count(d, KEYWORD_MAX_ITEMS, &r->max_items);
  yyjson_val *unique = d->k[KEYWORD_UNIQUE_ITEMS];
  if (status == IDEM_OK && unique && !yyjson_is_bool(unique))
    status = idem__draft_wrong(d, KEYWORD_UNIQUE_ITEMS, "true or false");
  r->unique = unique && yyjson_is_true(unique);
  d->made.arrays = r;
  return status;
}
