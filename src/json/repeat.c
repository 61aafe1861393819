/* repeat.c - members that a later one of the same name overshadows are taken out of a document, so that
 * whoever reads it afterwards, first or last, with our functions or yyjson's, reads the same value: the
 * last. Marked first, then dropped in place, in one walk. See docs/internals/json.md. */
#include "../base/hash.h"
#include "json.h"

#include <string.h>

#define FEW 16u /* members that are compared with each other; more go through a table */

static inline size_t key_len(const yyjson_val *key) { return (size_t)(key->tag >> YYJSON_TAG_BIT); }

static bool same_key(const yyjson_val *a, const yyjson_val *b) {
  return key_len(a) == key_len(b) && memcmp(a->uni.str, b->uni.str, key_len(a)) == 0;
}

/* ------------------------------------------------------------------- marking */

/* A key without a type is one that does not count. */
static void mark(yyjson_val *key) { key->tag &= ~(uint64_t)YYJSON_TAG_MASK; }
static bool is_marked(const yyjson_val *val) { return (val->tag & YYJSON_TYPE_MASK) == 0; }

static bool mark_few(yyjson_val *object) {
  bool found = false;
  yyjson_val *key = unsafe_yyjson_get_first(object);
  for (size_t count = unsafe_yyjson_get_len(object), i = 0; i < count; i++) {
    yyjson_val *earlier = unsafe_yyjson_get_first(object);
    for (size_t j = 0; j < i; j++) {
      if (same_key(earlier, key)) mark(earlier), found = true;
      earlier = unsafe_yyjson_get_next(earlier + 1);
    }
    key = unsafe_yyjson_get_next(key + 1);
  }
  return found;
}

/* Slots hold how far a key lies from its object; 0 is free. The hash is keyed: nobody can choose names that collide. */
static bool mark_in(uint32_t *slots, size_t mask, yyjson_val *object, yyjson_val *key) {
  size_t at = (size_t)idem__hash(key->uni.str, key_len(key), 0) & mask;
  while (slots[at] && !same_key(object + slots[at], key)) at = (at + 1) & mask;
  bool found = slots[at] != 0;
  if (found) mark(object + slots[at]);
  slots[at] = (uint32_t)(key - object);
  return found;
}

static idem_status mark_many(const yyjson_doc *doc, yyjson_val *object) {
  size_t count = unsafe_yyjson_get_len(object), cap = 4 * (size_t)FEW;
  if (object->uni.ofs / sizeof *object > UINT32_MAX) return IDEM_E_NOMEM;
  while (cap < 2 * count) cap *= 2;
  const yyjson_alc *alc = &doc->alc;
  uint32_t *slots = alc->malloc(alc->ctx, cap * sizeof *slots);
  if (!slots) return IDEM_E_NOMEM;
  memset(slots, 0, cap * sizeof *slots);
  bool found = false;
  yyjson_val *key = unsafe_yyjson_get_first(object);
  for (; count; count--) {
    found |= mark_in(slots, cap - 1, object, key);
    key = unsafe_yyjson_get_next(key + 1);
  }
  alc->free(alc->ctx, slots);
  return found ? IDEM_E_EXISTS : IDEM_OK;
}

static IDEM__INLINE bool is_object(const yyjson_val *val) {
  return (val->tag & YYJSON_TYPE_MASK) == YYJSON_TYPE_OBJ;
}

/* One of 64. Names of different lengths, first or last letters mostly have different ones: those of a namespace have their
 * beginning in common. */
static IDEM__INLINE unsigned mark_of(const yyjson_val *key) {
  const unsigned char *text = (const unsigned char *)key->uni.str;
  size_t len = key_len(key);
  return (unsigned)(5u * text[0] + text[len - (len != 0)] + 11 * len) & 63;
}

/* Of two members, as most have. */
static IDEM__INLINE bool is_suspect_pair(yyjson_val *object, yyjson_val **next) {
  yyjson_val *first = object + 1, *second = unsafe_yyjson_get_next(first + 1);
  if (unsafe_yyjson_is_ctn(first + 1))
    *next = first + 1;
  else
    *next = unsafe_yyjson_is_ctn(second + 1) ? second + 1 : second + 2;
  return key_len(first) == key_len(second) && *first->uni.str == *second->uni.str;
}

static IDEM__INLINE bool is_suspect_crowd(yyjson_val *object, yyjson_val **next) {
  uint64_t seen = 0;
  yyjson_val *key = object + 1, *inner = NULL;
  const yyjson_val *end = unsafe_yyjson_get_next(object);
  while (key < end) {
    unsigned bit = mark_of(key);
    if (IDEM__UNLIKELY(seen >> bit & 1)) return true;
    seen |= (uint64_t)1 << bit;
    key += 2;
    if (IDEM__LIKELY(!unsafe_yyjson_is_ctn(key - 1))) continue;
    if (!inner) inner = key - 1;
    key = unsafe_yyjson_get_next(key - 1);
  }
  *next = inner ? inner : key;
  return false;
}

/* Whether two of its names may be the same: most objects need no closer look. *next: where more objects may come. */
static IDEM__INLINE bool is_suspect(yyjson_val *object, yyjson_val **next) {
  size_t count = unsafe_yyjson_get_len(object);
  if (count < 2) return false;
  return count == 2 ? is_suspect_pair(object, next) : is_suspect_crowd(object, next);
}

static idem_status mark_object(const yyjson_doc *doc, yyjson_val *object) {
  if (unsafe_yyjson_get_len(object) > FEW) return mark_many(doc, object);
  return mark_few(object) ? IDEM_E_EXISTS : IDEM_OK;
}

IDEM__APART static idem_status mark_closely(const yyjson_doc *doc, yyjson_val *val,
                                            const yyjson_val *end) {
  idem_status found = IDEM_OK;
  while (val < end) {
    yyjson_val *object = val++;
    if (!is_object(object) || !is_suspect(object, &val)) continue;
    idem_status status = mark_object(doc, object);
    if (status == IDEM_E_NOMEM) return status;
    if (status != IDEM_OK) found = status;
  }
  return found;
}

IDEM__HOT idem_status idem__json_mark_repeated(const yyjson_doc *doc, yyjson_val *val) {
  if (!unsafe_yyjson_is_ctn(val)) return IDEM_OK;
  const yyjson_val *end = unsafe_yyjson_get_next(val);
  while (val < end) {
    yyjson_val *object = val++;
    if (is_object(object) && IDEM__UNLIKELY(is_suspect(object, &val)))
      return mark_closely(doc, object, end);
  }
  return IDEM_OK;
}

/* Containers alone can be too deep or repeat a name, so what lies flat in an object is passed over as its names are
 * looked at. */
IDEM__APART idem_status idem__json_look_through(const yyjson_doc *doc, size_t outer, size_t limit) {
  const yyjson_val *ends[IDEM__JSON_DEPTH_MAX + 1];
  size_t depth = 0;
  idem_status found = IDEM_OK;
  yyjson_val *val = doc->root;
  const yyjson_val *end = ends[0] = val + doc->val_read;
  if (limit > IDEM__JSON_DEPTH_MAX) limit = IDEM__JSON_DEPTH_MAX;
  while (val < end) {
    yyjson_val *at = val++;
    if (!unsafe_yyjson_is_ctn(at)) continue;
    while (at >= ends[depth]) depth--;
    if (depth == limit) return IDEM_E_LIMIT;
    ends[++depth] = unsafe_yyjson_get_next(at);
    if (depth <= outer || !is_object(at) || IDEM__LIKELY(!is_suspect(at, &val))) continue;
    idem_status status = mark_object(doc, at);
    if (status == IDEM_E_NOMEM) return status;
    if (status != IDEM_OK) found = status;
  }
  return found;
}

/* ------------------------------------------------------------------ dropping */

/* A container that is being moved keeps where it ended in the place of its length in bytes. */
static void open_container(yyjson_val *to, yyjson_val *from) {
  to->uni.ptr = (char *)from + from->uni.ofs;
}
static bool ends_at(const yyjson_val *open, const yyjson_val *from) {
  return open->uni.ptr == (const void *)from;
}
static void close_container(yyjson_val *open, const yyjson_val *to) {
  open->uni.ofs = (size_t)((const char *)to - (const char *)open);
}

IDEM__COLD void idem__json_drop_marked(yyjson_doc *doc) {
  yyjson_val *open[IDEM__JSON_DEPTH_MAX];
  size_t depth = 0;
  yyjson_val *from = doc->root, *to = from;
  const yyjson_val *end = from + doc->val_read;
  while (from < end) {
    if (is_marked(from)) { /* only members are: something is open */
      open[depth - 1]->tag -= (uint64_t)1 << YYJSON_TAG_BIT;
      from = unsafe_yyjson_get_next(from + 1);
    } else {
      bool inner = unsafe_yyjson_is_ctn(from);
      yyjson_val moved = *from;
      if (inner) open_container(&moved, from);
      *to = moved;
      if (inner) open[depth++] = to;
      to++, from++;
    }
    while (depth && ends_at(open[depth - 1], from)) close_container(open[--depth], to);
  }
  doc->val_read = (size_t)(to - doc->root);
}

idem_status idem__json_keep_last(yyjson_doc *doc, yyjson_val *val) {
  idem_status status = idem__json_mark_repeated(doc, val);
  if (status == IDEM_E_EXISTS) idem__json_drop_marked(doc);
  return status == IDEM_E_EXISTS ? IDEM_OK : status;
}
