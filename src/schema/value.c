/* value.c - copying, comparing and hashing JSON values; the sets behind enum and const.
 * Numbers are equal by value (1 and 1.0), objects whatever their order. Depth and work are bounded
 * by the caller's budget; large objects are compared through an index, never pair by pair. */
#include "schema.h"

/* Up to here a linear scan beats a hash table. */
#define SMALL_SET 8
#define SMALL_OBJECT 16

static uint32_t slot_count_for(uint32_t count) {
  uint32_t slots = 4;
  while (slots < count * 2) slots *= 2;
  return slots;
}

/* ------------------------------------------------------------------ copy */

/* Numbers are read with their text kept; those that fit an int64 need it no longer. */
static bool copy_scalar(region *memory, yyjson_val *value) {
  uint8_t type = (uint8_t)(value->tag & YYJSON_TYPE_MASK);
  size_t len = idem__length(value);
  if (type == YYJSON_TYPE_RAW) {
    number n = idem__number_of(value);
    if (n.form == NUMBER_INTEGER) {
      value->tag = YYJSON_TYPE_NUM | (n.integer < 0 ? YYJSON_SUBTYPE_SINT : YYJSON_SUBTYPE_UINT);
      value->uni.i64 = n.integer;
      return true;
    }
  }
  if (type != YYJSON_TYPE_STR && type != YYJSON_TYPE_RAW) return true;
  value->uni.str = idem__region_text(memory, value->uni.str, len);
  return value->uni.str != NULL;
}

yyjson_val *idem__value_copy(region *memory, yyjson_val *value) {
  size_t count = (size_t)(idem__next(value) - value);
  yyjson_val *copy = idem__region_get(memory, count * sizeof *copy);
  if (!copy) return NULL;
  memcpy(copy, value, count * sizeof *copy);
  for (size_t i = 0; i < count; i++)
    if (!copy_scalar(memory, &copy[i])) return NULL;
  return copy;
}

/* ------------------------------------------------------------------ hash */

static bool spend(value_budget *budget, uint64_t steps) {
  if (budget->steps < steps) {
    budget->steps = 0;
    budget->exhausted = true;
    return false;
  }
  budget->steps -= steps;
  return true;
}

static void hash_value(idem__hasher *hasher, yyjson_val *value, value_budget *budget);

/* Words before a value's own say what it is and how many follow: no two values are the same words. */
static void hash_head(idem__hasher *hasher, uint8_t kind, size_t len) {
  idem__hash_word(hasher, (uint64_t)len << 8 | kind);
}

static void hash_array(idem__hasher *hasher, yyjson_val *value, value_budget *budget) {
  size_t count = idem__length(value);
  yyjson_val *item = value + 1;
  hash_head(hasher, KIND_ARRAY, count);
  for (size_t i = 0; i < count && !budget->exhausted; i++, item = idem__next(item))
    hash_value(hasher, item, budget);
}

/* Members are hashed alone and added up, so that their order does not matter. */
static void hash_object(idem__hasher *hasher, yyjson_val *value, value_budget *budget) {
  uint64_t sum = 0;
  size_t count = idem__length(value);
  yyjson_val *key = value + 1;
  hash_head(hasher, KIND_OBJECT, count);
  for (size_t i = 0; i < count && !budget->exhausted; i++, key = idem__next(key + 1)) {
    idem__hasher member = idem__hash_begin(0);
    if (!spend(budget, idem__length(key) / 64)) return;
    idem__hash_text(&member, key->uni.str, idem__length(key));
    hash_value(&member, key + 1, budget);
    sum += idem__hash_end(member);
  }
  idem__hash_word(hasher, sum);
}

/* Digits are read one by one, also those that turn out to be zeros at the end. */
static uint64_t digit_steps(const yyjson_val *value) {
  return (value->tag & YYJSON_TYPE_MASK) == YYJSON_TYPE_RAW ? idem__length(value) / 16 : 0;
}

static void hash_number(idem__hasher *hasher, yyjson_val *value, value_budget *budget) {
  if (!spend(budget, digit_steps(value))) return;
  number n = idem__number_of(value);
  hash_head(hasher, KIND_NUMBER, 0);
  idem__number_hash(hasher, &n);
}

static void hash_string(idem__hasher *hasher, yyjson_val *value, value_budget *budget) {
  size_t len = idem__length(value);
  spend(budget, len / 64);
  hash_head(hasher, KIND_STRING, len);
  idem__hash_text(hasher, value->uni.str, len);
}

static void hash_value(idem__hasher *hasher, yyjson_val *value, value_budget *budget) {
  if (budget->depth == 0) budget->exhausted = true;
  if (!spend(budget, 1) || budget->exhausted) return;
  budget->depth--;
  switch (idem__kind(value)) {
  case KIND_NUMBER: hash_number(hasher, value, budget); break;
  case KIND_STRING: hash_string(hasher, value, budget); break;
  case KIND_ARRAY: hash_array(hasher, value, budget); break;
  case KIND_OBJECT: hash_object(hasher, value, budget); break;
  default: hash_head(hasher, 0, value->tag & YYJSON_TAG_MASK);
  }
  budget->depth++;
}

/* What most items of arrays are costs no word more than its own: what kind it is goes into the seed. */
static uint64_t hash_integer(int64_t integer) {
  idem__hasher hasher = idem__hash_begin(KIND_NUMBER);
  idem__hash_word(&hasher, (uint64_t)integer);
  return idem__hash_end(hasher);
}

uint64_t idem__value_hash(yyjson_val *value, value_budget *budget) {
  uint8_t kind = idem__kind(value);
  if (budget->depth && kind == KIND_STRING) {
    size_t len = idem__length(value);
    if (!spend(budget, 1 + len / 64)) return 0;
    return idem__hash(value->uni.str, len, KIND_STRING);
  }
  if (budget->depth && kind == KIND_NUMBER) {
    number n = idem__number_of(value);
    if (n.form == NUMBER_INTEGER) return spend(budget, 1) ? hash_integer(n.integer) : 0;
  }
  idem__hasher hasher = idem__hash_begin(0);
  hash_value(&hasher, value, budget);
  return idem__hash_end(hasher);
}

/* ----------------------------------------------------------------- equality */

static bool same_text(const yyjson_val *a, const yyjson_val *b) {
  return idem__length(a) == idem__length(b) && memcmp(a->uni.str, b->uni.str, idem__length(a)) == 0;
}

static bool equal_arrays(yyjson_val *a, yyjson_val *b, value_budget *budget) {
  size_t count = idem__length(a);
  if (count != idem__length(b)) return false;
  for (a++, b++; count; count--, a = idem__next(a), b = idem__next(b))
    if (!idem__value_equal(a, b, budget)) return false;
  return true;
}

/* The keys of an object by hash: from a small scan, or from a table in the scratch region. */
typedef struct key_index {
  yyjson_val *object;
  yyjson_val **slots;
  uint32_t mask;
} key_index;

static bool index_keys(key_index *index, yyjson_val *object, value_budget *budget) {
  size_t count = idem__length(object);
  *index = (key_index){.object = object};
  if (count <= SMALL_OBJECT) return true;
  if (count > UINT32_MAX / 4 || !spend(budget, count)) return false;
  index->mask = slot_count_for((uint32_t)count) - 1;
  index->slots = idem__region_zeroed(budget->scratch, ((size_t)index->mask + 1) * sizeof(void *));
  if (!index->slots) {
    budget->no_memory = true;
    return false;
  }
  yyjson_val *key = object + 1;
  for (size_t i = 0; i < count; i++, key = idem__next(key + 1)) {
    if (!spend(budget, idem__length(key) / 64)) return false;
    uint32_t slot = (uint32_t)idem__hash(key->uni.str, idem__length(key), 0) & index->mask;
    while (index->slots[slot] && spend(budget, 1)) slot = (slot + 1) & index->mask;
    if (budget->exhausted) return false;
    index->slots[slot] = key;
  }
  return true;
}

static yyjson_val *index_find(const key_index *index, const yyjson_val *key, value_budget *budget) {
  size_t compared = idem__length(key) / 64;
  if (!index->slots) {
    size_t count = idem__length(index->object);
    if (compared && !spend(budget, compared * count)) return NULL;
    yyjson_val *other = index->object + 1;
    for (; count; count--, other = idem__next(other + 1))
      if (same_text(key, other)) return other + 1;
    return NULL;
  }
  if (!spend(budget, compared)) return NULL;
  uint32_t slot = (uint32_t)idem__hash(key->uni.str, idem__length(key), 0) & index->mask;
  for (; index->slots[slot] && spend(budget, 1); slot = (slot + 1) & index->mask)
    if (same_text(key, index->slots[slot])) return index->slots[slot] + 1;
  return NULL;
}

static bool equal_objects(yyjson_val *a, yyjson_val *b, value_budget *budget) {
  size_t count = idem__length(a);
  if (count != idem__length(b)) return false;
  region_mark mark = idem__region_marked(budget->scratch);
  key_index index;
  bool equal = index_keys(&index, b, budget);
  yyjson_val *key = a + 1;
  for (size_t i = 0; equal && i < count; i++, key = idem__next(key + 1)) {
    yyjson_val *other = index_find(&index, key, budget);
    equal = other && idem__value_equal(key + 1, other, budget);
  }
  idem__region_release(budget->scratch, mark);
  return equal;
}

static bool equal_numbers(const yyjson_val *a, const yyjson_val *b, value_budget *budget) {
  if (a->tag == b->tag && a->uni.u64 == b->uni.u64 &&
      (a->tag & YYJSON_TYPE_MASK) == YYJSON_TYPE_NUM)
    return true;
  if (!spend(budget, digit_steps(a) + digit_steps(b))) return false;
  number x = idem__number_of(a), y = idem__number_of(b);
  return idem__number_equal(&x, &y);
}

bool idem__value_equal(yyjson_val *a, yyjson_val *b, value_budget *budget) {
  uint8_t kind = idem__kind(a);
  if (kind != idem__kind(b)) return false;
  if (budget->depth == 0) budget->exhausted = true;
  if (!spend(budget, 1) || budget->exhausted) return false;
  bool equal;
  budget->depth--;
  switch (kind) {
  case KIND_NUMBER: equal = equal_numbers(a, b, budget); break;
  case KIND_STRING:
    spend(budget, idem__length(a) / 64);
    equal = same_text(a, b);
    break;
  case KIND_ARRAY: equal = equal_arrays(a, b, budget); break;
  case KIND_OBJECT: equal = equal_objects(a, b, budget); break;
  default: equal = a->tag == b->tag;
  }
  budget->depth++;
  return equal;
}

/* ---------------------------------------------------------------------- sets */

idem_status idem__value_set_build(region *memory, yyjson_val *const *values, uint32_t count,
                                  value_budget *budget, value_set *out) {
  *out = (value_set){.count = count};
  if (count > UINT32_MAX / 4) return IDEM_E_LIMIT;
  yyjson_val **list = idem__region_get(memory, count * sizeof *list);
  if (!list) return IDEM_E_NOMEM;
  for (uint32_t i = 0; i < count; i++) {
    list[i] = values[i];
    out->kinds |= idem__kind(values[i]);
  }
  out->values = list;
  if (count <= SMALL_SET) return IDEM_OK;
  out->slot_mask = slot_count_for(count) - 1;
  uint32_t *slots = idem__region_zeroed(memory, ((size_t)out->slot_mask + 1) * sizeof *slots);
  uint64_t *hashes = idem__region_get(memory, count * sizeof *hashes);
  if (!slots || !hashes) return IDEM_E_NOMEM;
  for (uint32_t i = 0; i < count; i++) {
    hashes[i] = idem__value_hash(list[i], budget);
    if (budget->exhausted) return IDEM_E_LIMIT;
    uint32_t slot = (uint32_t)hashes[i] & out->slot_mask;
    bool twin = false; /* the same value listed again would only lengthen the chain */
    for (; slots[slot] && spend(budget, 1); slot = (slot + 1) & out->slot_mask) {
      uint32_t other = slots[slot] - 1;
      twin = hashes[other] == hashes[i] && idem__value_equal(list[other], list[i], budget);
      if (twin) break;
    }
    if (budget->exhausted) return budget->no_memory ? IDEM_E_NOMEM : IDEM_E_LIMIT;
    if (twin) continue;
    slots[slot] = i + 1;
  }
  out->slots = slots;
  out->hashes = hashes;
  return IDEM_OK;
}

static bool small_set_has(const value_set *set, yyjson_val *value, uint8_t kind,
                          value_budget *budget) {
  if (kind == KIND_STRING) {
    size_t len = idem__length(value);
    for (uint32_t i = 0; i < set->count; i++) {
      yyjson_val *one = set->values[i];
      if (idem__kind(one) != KIND_STRING || idem__length(one) != len) continue;
      if (len >= 64 && !spend(budget, len / 64)) return false;
      if (memcmp(one->uni.str, value->uni.str, len) == 0) return true;
    }
    return false;
  }
  for (uint32_t i = 0; i < set->count; i++)
    if (idem__value_equal(set->values[i], value, budget)) return true;
  return false;
}

bool idem__value_set_has(const value_set *set, yyjson_val *value, value_budget *budget) {
  uint8_t kind = idem__kind(value);
  if (!(set->kinds & kind)) return false;
  if (!set->slots) return small_set_has(set, value, kind, budget);
  uint64_t hash = idem__value_hash(value, budget);
  if (budget->exhausted) return false;
  uint32_t slot = (uint32_t)hash & set->slot_mask;
  for (; set->slots[slot]; slot = (slot + 1) & set->slot_mask) {
    uint32_t i = set->slots[slot] - 1;
    if (!spend(budget, 1)) return false;
    if (set->hashes[i] == hash && idem__value_equal(set->values[i], value, budget)) return true;
  }
  return false;
}

/* ---------------------------------------------------------------- properties */

uint32_t idem__property_find(const object_rules *rules, const char *name, size_t len) {
  idem__words words = idem__text_words(name, len);
  if (!rules->slots) {
    for (uint32_t i = 0; i < rules->property_count; i++)
      if (idem__property_is(&rules->properties[i], name, len, words)) return i;
    return UINT32_MAX;
  }
  uint32_t slot = (uint32_t)idem__hash(name, len, 0) & rules->slot_mask;
  for (; rules->slots[slot]; slot = (slot + 1) & rules->slot_mask) {
    uint32_t i = rules->slots[slot] - 1;
    if (idem__property_is(&rules->properties[i], name, len, words)) return i;
  }
  return UINT32_MAX;
}
