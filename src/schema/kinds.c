/* kinds.c - the rules for numbers, strings, arrays and objects.
 * One pass over the members or items answers for all keywords; names are found by hash and
 * presence is a bit, so the cost is linear in the instance. */
#include "validate.h"

#define FEW_ITEMS 8

/* --------------------------------------------------------------- numbers */

static bool check_bounds(run *r, node_id id, const number_rules *rules, const number *n,
                         const yyjson_val *value, const frame *at) {
  bool good = true;
  const struct {
    bool broken;
    keyword k;
  } bounds[] = {
      {rules->has_minimum && idem__number_compare(n, &rules->minimum) < 0, KEYWORD_MINIMUM},
      {rules->has_maximum && idem__number_compare(n, &rules->maximum) > 0, KEYWORD_MAXIMUM},
      {rules->has_exclusive_minimum && idem__number_compare(n, &rules->exclusive_minimum) <= 0,
       KEYWORD_EXCLUSIVE_MINIMUM},
      {rules->has_exclusive_maximum && idem__number_compare(n, &rules->exclusive_maximum) >= 0,
       KEYWORD_EXCLUSIVE_MAXIMUM}};
  for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
    if (!bounds[i].broken) continue;
    good = idem__complain(r, id, value, at, (complaint){.k = bounds[i].k});
    if (!r->collect) return false;
  }
  return good;
}

/* Text such as -12.34: its integer part says enough, unless it is next to a bound. */
static bool is_raw_in_range(const number_rules *rules, const yyjson_val *value) {
  const char *text = value->uni.str;
  size_t len = idem__length(value), at = len && text[0] == '-';
  if (len > 18) return false;
  int64_t whole = 0;
  for (; at < len && text[at] >= '0' && text[at] <= '9'; at++)
    whole = whole * 10 + (text[at] - '0');
  bool negative = text[0] == '-';
  int64_t low = negative ? -whole : whole, high = low;
  if (at < len && text[at] == '.') {
    for (at++; at < len && text[at] >= '0' && text[at] <= '9';) at++;
    low -= negative;
    high += !negative;
  }
  return at == len && len > negative && low >= rules->low && high <= rules->high;
}

/* Most numbers are judged here, without becoming decimals. A no means only: look closer. */
static bool is_plainly_in_range(const number_rules *rules, const yyjson_val *value) {
  int64_t n = value->uni.i64;
  double real = value->uni.f64;
  switch (value->tag & YYJSON_TAG_MASK) {
  case YYJSON_TYPE_NUM | YYJSON_SUBTYPE_UINT:
    return rules->plain && n >= 0 && n >= rules->low && n <= rules->high;
  case YYJSON_TYPE_NUM | YYJSON_SUBTYPE_SINT:
    return rules->plain && n >= rules->low && n <= rules->high;
  case YYJSON_TYPE_NUM | YYJSON_SUBTYPE_REAL:
    return rules->plain_real && real >= rules->real_low && real <= rules->real_high &&
           real > rules->real_above && real < rules->real_below;
  case YYJSON_TYPE_RAW: return rules->plain && is_raw_in_range(rules, value);
  default: return false;
  }
}

/* What reading a number's text costs; most are short. */
static bool spend_digits(run *r, const yyjson_val *value) {
  bool raw = (value->tag & YYJSON_TYPE_MASK) == YYJSON_TYPE_RAW;
  return !raw || idem__length(value) < 16 || idem__run_spend(r, idem__length(value) / 16);
}

static bool check_multiple(run *r, node_id id, const number *n, const yyjson_val *value,
                           const frame *at) {
  const number *divisor = &r->schema->nodes[id].numbers->multiple;
  bool limit = false;
  if (!idem__run_spend(r, idem__number_multiple_steps(n, divisor))) return false;
  if (idem__number_multiple(n, divisor, &limit)) return true;
  if (limit) return idem__run_limit(r, "max_steps");
  return idem__complain(r, id, value, at, (complaint){.k = KEYWORD_MULTIPLE_OF});
}

bool idem__check_number(run *r, node_id id, yyjson_val *value, const frame *at) {
  const number_rules *rules = r->schema->nodes[id].numbers;
  if (is_plainly_in_range(rules, value)) return true;
  if (!spend_digits(r, value)) return false;
  number n = idem__number_of(value);
  if (n.form == NUMBER_INTEGER && rules->plain && n.integer >= rules->low &&
      n.integer <= rules->high)
    return true;
  if (n.form == NUMBER_BAD) return idem__complain(r, id, value, at, (complaint){.k = KEYWORD_TYPE});
  if (n.form == NUMBER_LONG && !idem__run_spend(r, n.digits / 16)) return false;
  bool good = check_bounds(r, id, rules, &n, value, at);
  if ((!good && !r->collect) || !rules->has_multiple) return good;
  return check_multiple(r, id, &n, value, at) && good;
}

/* --------------------------------------------------------------- strings */

/* Bytes decide most cases: a code point takes one to four of them. */
static bool check_length(run *r, node_id id, const string_rules *rules, const yyjson_val *value,
                         const frame *at) {
  size_t bytes = idem__length(value);
  bool long_enough = bytes / 4 >= rules->min_length;
  bool short_enough = bytes <= rules->max_length;
  if (long_enough && short_enough) return true;
  if (!idem__run_spend(r, bytes / 64)) return false;
  uint64_t length = idem__code_points(value->uni.str, bytes);
  bool good = true;
  if (length < rules->min_length)
    good = idem__complain(r, id, value, at,
                          (complaint){.k = KEYWORD_MIN_LENGTH, .first = (size_t)length});
  if (!good && !r->collect) return false; /* a schema may ask for both and get neither */
  if (length > rules->max_length)
    good = idem__complain(r, id, value, at,
                          (complaint){.k = KEYWORD_MAX_LENGTH, .first = (size_t)length});
  return good;
}

static bool check_format(run *r, node_id id, const string_rules *rules, const yyjson_val *value,
                         const frame *at) {
  format_env env = {.label = rules->label, .matcher = &r->ctx->matcher, .alloc = &r->ctx->alloc};
  if (!idem__run_spend(r, idem__length(value) / 16)) return false;
  if (idem__format_check(rules->format, value->uni.str, idem__length(value), &env)) return true;
  if (env.no_memory) return idem__run_no_memory(r);
  if (env.limit) return idem__run_limit(r, "max_regex_steps");
  return idem__complain(r, id, value, at, (complaint){.k = KEYWORD_FORMAT});
}

bool idem__check_string(run *r, node_id id, yyjson_val *value, const frame *at) {
  const string_rules *rules = r->schema->nodes[id].strings;
  bool good = check_length(r, id, rules, value, at);
  if (rules->pattern && (good || r->collect) &&
      !idem__run_match(r, rules->pattern, value->uni.str, idem__length(value)))
    good =
        r->status == IDEM_OK && idem__complain(r, id, value, at, (complaint){.k = KEYWORD_PATTERN});
  if (rules->format && (good || r->collect)) good &= check_format(r, id, rules, value, at);
  return good;
}

/* ---------------------------------------------------------------- arrays */

static bool check_items(run *r, const array_rules *rules, yyjson_val *value, const frame *at,
                        marks *m) {
  bool good = true;
  size_t count = idem__length(value);
  size_t seen =
      rules->rest != NODE_NONE || rules->prefix_count > count ? count : rules->prefix_count;
  if (!idem__run_spend(r, seen / 8)) return false; /* for those that need no evaluation */
  yyjson_val *item = value + 1;
  for (size_t i = 0; i < seen; i++, item = idem__next(item)) {
    node_id child = i < rules->prefix_count ? rules->prefix[i] : rules->rest;
    frame inside = {.parent = at, .index = i};
    if (m) idem__mark(m, i);
    if (idem__evaluate_inside(r, child, item, &inside)) continue;
    if (!r->collect) return false;
    good = false;
  }
  return good;
}

static bool contains_item(run *r, node_id id, yyjson_val *item, const frame *at) {
  bool was_quiet = r->quiet, was_collecting = r->collect;
  r->quiet = true;
  r->collect = false;
  bool good = idem__evaluate(r, id, item, at, NULL) && r->status == IDEM_OK;
  r->quiet = was_quiet;
  r->collect = was_collecting && r->status == IDEM_OK;
  return good;
}

static bool check_contains(run *r, node_id id, const array_rules *rules, yyjson_val *value,
                           const frame *at, marks *m) {
  uint64_t found = 0;
  size_t count = idem__length(value);
  if (!idem__run_spend(r, count / 8)) return false;
  yyjson_val *item = value + 1;
  for (size_t i = 0; i < count && r->status == IDEM_OK; i++, item = idem__next(item)) {
    frame inside = {.parent = at, .index = i};
    if (!contains_item(r, rules->contains, item, &inside)) continue;
    found++;
    if (m)
      idem__mark(m, i);
    else if (found >= rules->min_contains && rules->max_contains == UINT64_MAX)
      return true;
  }
  if (r->status != IDEM_OK) return false;
  keyword k = found > rules->max_contains ? KEYWORD_MAX_CONTAINS
              : rules->min_contains == 1  ? KEYWORD_CONTAINS
                                          : KEYWORD_MIN_CONTAINS;
  if (found >= rules->min_contains && found <= rules->max_contains) return true;
  return idem__complain(r, id, value, at, (complaint){.k = k, .first = (size_t)found});
}

static bool unique_pair(run *r, yyjson_val *a, yyjson_val *b) {
  value_budget budget = {.depth = r->depth, .steps = r->steps, .scratch = &r->ctx->scratch};
  bool equal = idem__value_equal(a, b, &budget);
  r->steps = budget.steps;
  if (budget.no_memory) return idem__run_no_memory(r);
  if (budget.exhausted) return idem__run_limit(r, budget.steps ? "max_depth" : "max_steps");
  return !equal;
}

static bool unique_few(run *r, yyjson_val *value, size_t *first, size_t *second) {
  yyjson_val *items[FEW_ITEMS], *item = value + 1;
  size_t count = idem__length(value);
  for (size_t i = 0; i < count; i++, item = idem__next(item)) {
    items[i] = item;
    for (size_t j = 0; j < i; j++) {
      if (unique_pair(r, items[j], item)) continue;
      *first = j;
      *second = i;
      return false;
    }
  }
  return true;
}

/* Small, for the table of a large array is larger than a cache: the offset of the item from the
 * array, 0 for a free slot, and half of its hash. */
typedef struct unique_slot {
  uint32_t offset, hash;
} unique_slot;

static size_t position_of(yyjson_val *array, const yyjson_val *item) {
  size_t i = 0;
  for (yyjson_val *at = array + 1; at < item; at = idem__next(at)) i++;
  return i;
}

static bool hash_item(run *r, yyjson_val *item, uint64_t *hash) {
  value_budget budget = {.depth = r->depth, .steps = r->steps, .scratch = &r->ctx->scratch};
  *hash = idem__value_hash(item, &budget);
  r->steps = budget.steps;
  if (budget.exhausted) return idem__run_limit(r, budget.steps ? "max_depth" : "max_steps");
  return true;
}

/* Each item goes into a hash table; a long chain of collisions is paid for in steps. */
static bool unique_many(run *r, yyjson_val *value, size_t *first, size_t *second) {
  size_t count = idem__length(value), mask = 16;
  while (mask < count * 2) mask *= 2;
  if ((size_t)(idem__next(value) - value) > UINT32_MAX) return idem__run_limit(r, "max_steps");
  unique_slot *slots = idem__region_zeroed(&r->ctx->scratch, mask * sizeof *slots);
  if (!slots) return idem__run_no_memory(r);
  mask--;
  yyjson_val *item = value + 1;
  for (size_t i = 0; i < count; i++, item = idem__next(item)) {
    uint64_t hash;
    if (!hash_item(r, item, &hash)) return false;
    size_t at = (size_t)hash & mask;
    for (; slots[at].offset; at = (at + 1) & mask) {
      yyjson_val *other = value + slots[at].offset;
      if (!idem__run_spend(r, 1)) return false;
      if (slots[at].hash != hash >> 32 || unique_pair(r, other, item)) continue;
      *first = r->quiet ? 0 : position_of(value, other);
      *second = i;
      return false;
    }
    slots[at] = (unique_slot){(uint32_t)(item - value), (uint32_t)(hash >> 32)};
  }
  return true;
}

static bool check_unique(run *r, node_id id, yyjson_val *value, const frame *at) {
  size_t count = idem__length(value), first = 0, second = 0;
  if (count < 2) return true;
  region_mark mark = idem__region_marked(&r->ctx->scratch);
  bool good = count <= FEW_ITEMS ? unique_few(r, value, &first, &second)
                                 : unique_many(r, value, &first, &second);
  idem__region_release(&r->ctx->scratch, mark);
  if (good || r->status != IDEM_OK) return good;
  return idem__complain(r, id, value, at,
                        (complaint){.k = KEYWORD_UNIQUE_ITEMS, .first = first, .second = second});
}

static bool check_item_count(run *r, node_id id, const array_rules *rules, yyjson_val *value,
                             const frame *at) {
  size_t count = idem__length(value);
  if (count < rules->min_items)
    return idem__complain(r, id, value, at, (complaint){.k = KEYWORD_MIN_ITEMS, .first = count});
  if (count > rules->max_items)
    return idem__complain(r, id, value, at, (complaint){.k = KEYWORD_MAX_ITEMS, .first = count});
  return true;
}

bool idem__check_array(run *r, node_id id, yyjson_val *value, const frame *at, marks *m) {
  const array_rules *rules = r->schema->nodes[id].arrays;
  bool good = check_item_count(r, id, rules, value, at);
  uint32_t references = r->references;
  r->references = r->max_references;
  if ((good || r->collect) && (rules->prefix_count || rules->rest != NODE_NONE))
    good &= check_items(r, rules, value, at, m);
  if ((good || r->collect) && rules->contains != NODE_NONE)
    good &= check_contains(r, id, rules, value, at, m);
  r->references = references;
  if ((good || r->collect) && rules->unique) good &= check_unique(r, id, value, at);
  return good;
}

/* --------------------------------------------------------------- objects */

/* One object at work: which of the known names it has. */
typedef struct object_check {
  run *r;
  node_id id;
  const object_rules *rules;
  yyjson_val *value;
  const frame *at;
  marks *m;
  uint64_t few;
  uint64_t *present;
  uint32_t guess; /* the property after the last one: callers often keep the schema's order */
} object_check;

static bool has_name(const object_check *o, uint32_t index) {
  return o->present[index / 64] >> (index % 64) & 1;
}

static bool check_patterns(object_check *o, yyjson_val *key, const frame *inside, bool *known) {
  bool good = true;
  for (uint32_t i = 0; i < o->rules->pattern_count; i++) {
    const pattern_property *p = &o->rules->patterns[i];
    if (!idem__run_spend(o->r, 1)) return false;
    if (!idem__run_match(o->r, p->pattern, key->uni.str, idem__length(key))) continue;
    *known = true;
    if (idem__evaluate(o->r, p->node, key + 1, inside, NULL)) continue;
    if (!o->r->collect) return false;
    good = false;
  }
  return good && o->r->status == IDEM_OK;
}

static bool check_additional(object_check *o, yyjson_val *key, const frame *inside) {
  if (o->r->schema->nodes[o->rules->additional].verdict == NODE_FALSE)
    return idem__complain(o->r, o->id, key, inside,
                          (complaint){.k = KEYWORD_ADDITIONAL_PROPERTIES, .rules = o->rules});
  return idem__evaluate(o->r, o->rules->additional, key + 1, inside, NULL);
}

static uint32_t find_name(object_check *o, const yyjson_val *key) {
  const char *name = key->uni.str;
  size_t len = idem__length(key);
  uint32_t index = o->guess;
  if (index >= o->rules->property_count ||
      !idem__property_is(&o->rules->properties[index], name, len, idem__text_words(name, len)))
    index = idem__property_find(o->rules, name, len);
  if (index != UINT32_MAX) o->guess = index + 1;
  return index;
}

static bool check_member(object_check *o, yyjson_val *key, size_t position) {
  frame inside = {.parent = o->at, .key = key};
  const object_rules *rules = o->rules;
  bool good = true, known = false;
  size_t len = idem__length(key);
  if (len >= 64 && !idem__run_spend(o->r, len / 64)) return false;
  uint32_t index = rules->property_count ? find_name(o, key) : UINT32_MAX;
  if (index != UINT32_MAX) {
    o->present[index / 64] |= (uint64_t)1 << (index % 64);
    known = rules->properties[index].node != NODE_NONE;
    if (known) good = idem__evaluate_inside(o->r, rules->properties[index].node, key + 1, &inside);
  }
  if (rules->pattern_count && (good || o->r->collect))
    good &= check_patterns(o, key, &inside, &known);
  if (!known && rules->additional != NODE_NONE && (good || o->r->collect)) {
    good &= check_additional(o, key, &inside);
    known = true;
  }
  if (rules->names != NODE_NONE && (good || o->r->collect))
    good &= idem__evaluate(o->r, rules->names, key, &inside, NULL);
  if (known && o->m) idem__mark(o->m, position);
  return good;
}

static bool check_members(object_check *o) {
  bool good = true;
  size_t count = idem__length(o->value);
  yyjson_val *key = o->value + 1;
  if (!idem__run_spend(o->r, count)) return false; /* a name is looked up for each */
  uint32_t references = o->r->references;
  o->r->references = o->r->max_references;
  for (size_t i = 0; i < count && (good || o->r->collect); i++, key = idem__next(key + 1))
    good &= check_member(o, key, i);
  o->r->references = references;
  return good;
}

static bool check_required(object_check *o) {
  bool good = true;
  for (uint32_t word = 0; word < o->rules->words; word++) {
    uint64_t missing = o->rules->required[word] & ~o->present[word];
    for (; missing; missing &= missing - 1) {
      uint32_t index = word * 64 + (uint32_t)__builtin_ctzll(missing);
      good =
          idem__complain(o->r, o->id, o->value, o->at,
                         (complaint){.k = KEYWORD_REQUIRED, .name = &o->rules->properties[index]});
      if (!o->r->collect) return false;
    }
  }
  return good;
}

static bool check_dependent_names(object_check *o) {
  bool good = true;
  for (uint32_t i = 0; i < o->rules->dependent_names_count; i++) {
    const dependent_names *d = &o->rules->dependent_names[i];
    if (!idem__run_spend(o->r, 1)) return false;
    if (!has_name(o, d->trigger)) continue;
    if (!idem__run_spend(o->r, d->count)) return false;
    for (uint32_t j = 0; j < d->count; j++) {
      if (has_name(o, d->names[j])) continue;
      good = idem__complain(o->r, o->id, o->value, o->at,
                            (complaint){.k = (keyword)d->keyword,
                                        .name = &o->rules->properties[d->names[j]],
                                        .needer = &o->rules->properties[d->trigger]});
      if (!o->r->collect) return false;
    }
  }
  return good;
}

static bool check_dependent_schemas(object_check *o) {
  bool good = true;
  if (!idem__run_spend(o->r, o->rules->dependent_schema_count)) return false;
  for (uint32_t i = 0; i < o->rules->dependent_schema_count; i++) {
    const dependent_schema *d = &o->rules->dependent_schemas[i];
    if (!has_name(o, d->trigger)) continue;
    if (idem__evaluate(o->r, d->node, o->value, o->at, o->m)) continue;
    if (!o->r->collect) return false;
    good = false;
  }
  return good;
}

static bool check_member_count(object_check *o) {
  size_t count = idem__length(o->value);
  keyword k = count < o->rules->min_properties ? KEYWORD_MIN_PROPERTIES : KEYWORD_MAX_PROPERTIES;
  if (count >= o->rules->min_properties && count <= o->rules->max_properties) return true;
  return idem__complain(o->r, o->id, o->value, o->at, (complaint){.k = k, .first = count});
}

static bool check_object_parts(object_check *o) {
  const object_rules *rules = o->rules;
  bool good = check_members(o);
  if (rules->required_count && (good || o->r->collect)) good &= check_required(o);
  if (good || o->r->collect) good &= check_member_count(o);
  if (rules->dependent_names_count && (good || o->r->collect)) good &= check_dependent_names(o);
  if (rules->dependent_schema_count && (good || o->r->collect)) good &= check_dependent_schemas(o);
  return good;
}

bool idem__check_object(run *r, node_id id, yyjson_val *value, const frame *at, marks *m) {
  object_check o = {
      .r = r, .id = id, .rules = r->schema->nodes[id].objects, .value = value, .at = at, .m = m};
  o.present = &o.few;
  if (o.rules->words <= 1) return check_object_parts(&o);
  region_mark mark = idem__region_marked(&r->ctx->scratch);
  o.present = idem__region_zeroed(&r->ctx->scratch, o.rules->words * sizeof *o.present);
  bool good = o.present && idem__run_spend(r, o.rules->words) ? check_object_parts(&o)
                                                              : idem__run_no_memory(r);
  idem__region_release(&r->ctx->scratch, mark);
  return good;
}
