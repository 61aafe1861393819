/* classes.c - sorts all characters into the classes a pattern cannot tell apart.
 * The ends of all ranges cut the code points into intervals; an interval and the properties a
 * character has decide in which sets it is, and characters in the same sets are one class. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "classes.h"

#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#define MAX_NAME 64
/* Asking PCRE2 about one character, in steps. */
#define PROPERTY_STEPS 16

/* ------------------------------------------------------------------ sets */

static bool grow_ranges(char_sets *sets, char_set *set) {
  uint32_t capacity = set->capacity ? set->capacity * 2 : 4;
  uint64_t *grown = idem__region_get(sets->scratch, capacity * sizeof *grown);
  if (!grown) return false;
  if (set->count) memcpy(grown, set->ranges, set->count * sizeof *grown);
  set->ranges = grown;
  set->capacity = capacity;
  return true;
}

idem_status idem__set_add(char_sets *sets, char_set *set, uint32_t first, uint32_t last) {
  if (set->count == set->capacity && !grow_ranges(sets, set)) return IDEM_E_NOMEM;
  set->ranges[set->count++] = (uint64_t)first << 32 | last;
  return IDEM_OK;
}

static idem_status compile_property(char_sets *sets, const char *name, pcre2_code **code) {
  char text[MAX_NAME + 8];
  int error;
  PCRE2_SIZE offset;
  int len = snprintf(text, sizeof text, "\\p{%s}", name);
  pcre2_compile_context *context = pcre2_compile_context_create(sets->general);
  if (!context) return IDEM_E_NOMEM;
  *code = pcre2_compile((PCRE2_SPTR)text, (size_t)len, PCRE2_UTF, &error, &offset, context);
  pcre2_compile_context_free(context);
  if (*code) return IDEM_OK;
  return error == PCRE2_ERROR_HEAP_FAILED ? IDEM_E_NOMEM : IDEM_E_NOTFOUND;
}

static idem_status find_property(char_sets *sets, const char *name, size_t len, uint32_t *index) {
  if (len > MAX_NAME) return IDEM_E_NOTFOUND;
  for (uint32_t i = 0; i < sets->property_count; i++)
    if (strlen(sets->names[i]) == len && memcmp(sets->names[i], name, len) == 0) {
      *index = i;
      return IDEM_OK;
    }
  if (sets->property_count == MAX_PROPERTIES) return IDEM_E_NOTFOUND;
  char *copy = idem__region_text(sets->scratch, name, len);
  if (!copy) return IDEM_E_NOMEM;
  pcre2_code *code;
  idem_status status = compile_property(sets, copy, &code);
  if (status != IDEM_OK) return status;
  *index = sets->property_count++;
  sets->names[*index] = copy;
  sets->properties[*index] = code;
  return IDEM_OK;
}

idem_status idem__set_add_property(char_sets *sets, char_set *set, const char *name, size_t len,
                                   bool having) {
  uint32_t index = 0;
  idem_status status = find_property(sets, name, len, &index);
  if (status != IDEM_OK) return status;
  if (having)
    set->having |= (uint8_t)(1u << index);
  else
    set->lacking |= (uint8_t)(1u << index);
  return IDEM_OK;
}

static void sift_down(uint64_t *heap, size_t at, size_t count) {
  for (size_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && heap[child + 1] > heap[child]) child++;
    if (heap[at] >= heap[child]) return;
    uint64_t swapped = heap[at];
    heap[at] = heap[child];
    heap[child] = swapped;
  }
}

/* By heap, in place: qsort may allocate behind the allocator's back. */
static void sort(uint64_t *list, size_t count) {
  for (size_t i = count / 2; i-- > 0;) sift_down(list, i, count);
  for (size_t end = count; end-- > 1;) {
    uint64_t largest = list[0];
    list[0] = list[end];
    list[end] = largest;
    sift_down(list, 0, end);
  }
}

static void merge_ranges(char_set *set) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < set->count; i++) {
    uint32_t first = (uint32_t)(set->ranges[i] >> 32), last = (uint32_t)set->ranges[i];
    uint32_t before = kept ? (uint32_t)set->ranges[kept - 1] : 0;
    if (!kept || first > before + 1)
      set->ranges[kept++] = set->ranges[i];
    else if (last > before)
      set->ranges[kept - 1] = (set->ranges[kept - 1] & ~(uint64_t)UINT32_MAX) | last;
  }
  set->count = kept;
}

static bool same_set(const char_set *a, const char_set *b) {
  return a->count == b->count && a->having == b->having && a->lacking == b->lacking &&
         a->negated == b->negated &&
         (a->count == 0 || memcmp(a->ranges, b->ranges, a->count * sizeof *a->ranges) == 0);
}

idem_status idem__set_close(char_sets *sets, char_set *set, uint32_t *index) {
  if (!idem__effort_spend(sets->effort, sets->count / 8 + (uint64_t)set->count * 4))
    return IDEM_E_NOTFOUND;
  sort(set->ranges, set->count);
  merge_ranges(set);
  for (*index = 0; *index < sets->count; ++*index)
    if (same_set(&sets->sets[*index], set)) return IDEM_OK;
  if (sets->count == MAX_SETS) return IDEM_E_NOTFOUND;
  sets->sets[sets->count++] = *set;
  return IDEM_OK;
}

/* --------------------------------------------------------------- classes */

static bool in_ranges(const char_set *set, uint32_t code) {
  uint32_t low = 0, high = set->count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if ((uint32_t)set->ranges[middle] < code)
      low = middle + 1;
    else
      high = middle;
  }
  return low < set->count && (uint32_t)(set->ranges[low] >> 32) <= code;
}

static bool in_set(const char_set *set, uint32_t code, uint32_t having) {
  bool in = in_ranges(set, code) || (set->having & having) || (set->lacking & ~having);
  return in != set->negated;
}

/* Where intervals begin; sorted, without twins. */
static idem_status cut_intervals(const char_sets *sets, uint64_t **cuts, size_t *count) {
  size_t ranges = 0;
  for (uint32_t i = 0; i < sets->count; i++) ranges += sets->sets[i].count;
  uint64_t *list = idem__region_get(sets->scratch, (2 * ranges + 2) * sizeof *list);
  if (!list) return IDEM_E_NOMEM;
  size_t used = 0, kept = 0;
  list[used++] = 0;
  list[used++] = 128; /* ASCII has a table of its own */
  for (uint32_t i = 0; i < sets->count; i++)
    for (uint32_t j = 0; j < sets->sets[i].count; j++) {
      list[used++] = sets->sets[i].ranges[j] >> 32;
      list[used++] = (sets->sets[i].ranges[j] & UINT32_MAX) + 1;
    }
  if (!idem__effort_spend(sets->effort, used * 4)) return IDEM_E_NOTFOUND;
  sort(list, used);
  for (size_t i = 0; i < used; i++)
    if ((!kept || list[kept - 1] != list[i]) && list[i] <= LAST_CODE_POINT) list[kept++] = list[i];
  *cuts = list;
  *count = kept;
  return IDEM_OK;
}

/* In which sets a character is, as bits. */
typedef struct signature {
  uint64_t bits[(MAX_SETS + 63) / 64];
} signature;

static signature sign(const char_sets *sets, uint32_t code, uint32_t having) {
  signature made = {{0}};
  for (uint32_t i = 0; i < sets->count; i++)
    if (in_set(&sets->sets[i], code, having)) made.bits[i / 64] |= (uint64_t)1 << (i % 64);
  return made;
}

static idem_status find_class(signature *known, uint32_t *count, const signature *wanted,
                              uint8_t *which) {
  uint32_t i = 0;
  while (i < *count && memcmp(&known[i], wanted, sizeof *wanted) != 0) i++;
  if (i == MAX_CLASSES) return IDEM_E_NOTFOUND;
  if (i == *count) known[(*count)++] = *wanted;
  *which = (uint8_t)i;
  return IDEM_OK;
}

static idem_status sort_intervals(char_sets *sets, region *memory, const uint64_t *cuts,
                                  size_t count, signature *known, char_classes *out) {
  uint32_t combinations = 1u << out->property_count;
  uint64_t work = (uint64_t)count * combinations * (sets->count + 16);
  if (!idem__effort_spend(sets->effort, work)) return IDEM_E_NOTFOUND;
  uint32_t *starts = idem__region_get(memory, count * sizeof *starts);
  uint8_t *intervals = idem__region_get(memory, count * combinations);
  if (!starts || !intervals) return IDEM_E_NOMEM;
  idem_status status = IDEM_OK;
  for (size_t i = 0; i < count && status == IDEM_OK; i++) {
    starts[i] = (uint32_t)cuts[i];
    for (uint32_t having = 0; having < combinations && status == IDEM_OK; having++) {
      signature wanted = sign(sets, starts[i], having);
      status = find_class(known, &out->count, &wanted, &intervals[i * combinations + having]);
    }
  }
  out->starts = starts;
  out->intervals = intervals;
  out->interval_count = (uint32_t)count;
  return status;
}

static idem_status list_members(const char_sets *sets, region *memory, const signature *known,
                                char_classes *out) {
  out->words = (out->count + 63) / 64;
  out->set_count = sets->count;
  size_t size = (size_t)sets->count * out->words * sizeof(uint64_t);
  uint64_t *members = idem__region_zeroed(memory, size ? size : 1);
  if (!members) return IDEM_E_NOMEM;
  for (uint32_t set = 0; set < sets->count; set++)
    for (uint32_t c = 0; c < out->count; c++)
      if (known[c].bits[set / 64] >> (set % 64) & 1)
        members[(size_t)set * out->words + c / 64] |= (uint64_t)1 << (c % 64);
  out->members = members;
  return IDEM_OK;
}

idem_status idem__classes_build(char_sets *sets, region *memory, void *match_data,
                                char_classes *out) {
  *out = (char_classes){.property_count = sets->property_count};
  memcpy(out->properties, sets->properties, sizeof out->properties);
  sets->property_count = 0;
  uint64_t *cuts = NULL;
  size_t count = 0;
  idem_status status = cut_intervals(sets, &cuts, &count);
  if (status != IDEM_OK) return status;
  signature *known = idem__region_get(sets->scratch, MAX_CLASSES * sizeof *known);
  if (!known) return IDEM_E_NOMEM;
  status = sort_intervals(sets, memory, cuts, count, known, out);
  if (status == IDEM_OK) status = list_members(sets, memory, known, out);
  if (status != IDEM_OK) return status;
  uint64_t asked = (uint64_t)128 * PROPERTY_STEPS * out->property_count;
  if (!idem__effort_spend(sets->effort, 128 + asked)) return IDEM_E_NOTFOUND;
  for (uint32_t c = 0; c < 128; c++) {
    uint32_t which = idem__class_of(out, c, match_data);
    if (which == CLASS_UNKNOWN) return IDEM_E_NOMEM;
    out->ascii[c] = (uint8_t)which;
  }
  return IDEM_OK;
}

void idem__classes_free(char_classes *classes) {
  for (uint32_t i = 0; i < classes->property_count; i++) pcre2_code_free(classes->properties[i]);
  classes->property_count = 0;
}

size_t idem__classes_bytes(const char_classes *classes) {
  size_t intervals = (size_t)classes->interval_count << classes->property_count;
  return sizeof *classes + intervals + classes->interval_count * sizeof *classes->starts +
         (size_t)classes->set_count * classes->words * sizeof *classes->members +
         classes->property_count * (size_t)256;
}

/* --------------------------------------------------------------- reading */

bool idem__next_code_point(const char **at, const char *end, uint32_t *code) {
  static const uint32_t smallest[] = {0, 0x80, 0x800, 0x10000};
  uint8_t head = (uint8_t) * (*at)++;
  *code = head;
  if (head < 0x80) return true;
  size_t tail = head >= 0xf0 ? 3 : head >= 0xe0 ? 2 : 1;
  if (head < 0xc2 || head > 0xf4 || (size_t)(end - *at) < tail) return false;
  *code = head & (0x3fu >> tail);
  for (size_t i = 0; i < tail; i++, ++*at) {
    if (((uint8_t) * *at & 0xc0) != 0x80) return false;
    *code = *code << 6 | ((uint8_t) * *at & 0x3f);
  }
  bool surrogate = *code >= 0xd800 && *code <= 0xdfff;
  return *code >= smallest[tail] && *code <= LAST_CODE_POINT && !surrogate;
}

static size_t put_code_point(uint32_t code, uint8_t *out) {
  static const uint8_t heads[] = {0, 0xc0, 0xe0, 0xf0};
  size_t tail = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  out[0] = (uint8_t)(heads[tail] | code >> (6 * tail));
  for (size_t i = 1; i <= tail; i++) out[i] = (uint8_t)(0x80 | (code >> (6 * (tail - i)) & 0x3f));
  return tail + 1;
}

static bool ask_properties(const char_classes *classes, uint32_t code, void *match_data,
                           uint32_t *having) {
  uint8_t text[4];
  size_t len = put_code_point(code, text);
  for (uint32_t i = 0; i < classes->property_count; i++) {
    int answer =
        pcre2_match(classes->properties[i], text, len, 0, PCRE2_NO_UTF_CHECK, match_data, NULL);
    if (answer < 0 && answer != PCRE2_ERROR_NOMATCH) return false; /* no memory for its frames */
    if (answer >= 0) *having |= 1u << i;
  }
  return true;
}

uint32_t idem__class_of(const char_classes *classes, uint32_t code, void *match_data) {
  uint32_t low = 0, high = classes->interval_count;
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    if (classes->starts[middle] <= code)
      low = middle;
    else
      high = middle;
  }
  size_t row = (size_t)low << classes->property_count;
  if (!classes->property_count) return classes->intervals[row];
  uint32_t having = 0;
  if (!ask_properties(classes, code, match_data, &having)) return CLASS_UNKNOWN;
  return classes->intervals[row | having];
}
