/* read.c - reading JSON with bounds, and finding a value's own bytes again.
 * yyjson copies the text once and leaves every string at its source offset, so the place of a
 * decoded key tells where its value's token begins. The self-test guards that reliance. */
#include "json.h"

#include <stdatomic.h>
#include <string.h>

IDEM__HOT yyjson_doc *idem__json_read(const char *text, size_t len, idem__arena *arena,
                                      idem_status *status) {
  yyjson_alc alc = idem__arena_alc(arena);
  yyjson_read_err error;
  /* Without READ_INSITU yyjson does not write to the text; its signature predates const. */
  union {
    const char *in;
    char *out;
  } source = {text};
  yyjson_doc *doc = yyjson_read_opts(source.out, len, YYJSON_READ_BIGNUM_AS_RAW, &alc, &error);
  *status = IDEM_OK;
  if (!doc && error.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION && !arena->over_limit) {
    *status = IDEM_E_NOMEM;
  }
  return doc;
}

size_t idem__json_read_estimate(size_t len) {
  /* The copy of the text, and a value for every six bytes: what yyjson asks for first. */
  size_t values = len / 6 + 16;
  return len + values * sizeof(yyjson_val) + 128;
}

size_t idem__json_read_bound(size_t len) {
  return len > SIZE_MAX / 64 ? SIZE_MAX / 2 : len * 32 + 4096;
}

bool idem__json_depth_within(const yyjson_doc *doc, size_t text_len, size_t limit) {
  if (limit > IDEM__JSON_DEPTH_MAX) limit = IDEM__JSON_DEPTH_MAX;
  if (text_len / 2 <= limit) return true; /* each level costs two bytes */
  const yyjson_val *ends[IDEM__JSON_DEPTH_MAX];
  size_t depth = 0;
  yyjson_val *val = doc->root, *end = val + doc->val_read;
  for (; val < end; val++) {
    if (!unsafe_yyjson_is_ctn(val)) continue;
    while (depth && val >= ends[depth - 1]) depth--;
    if (depth == limit) return false;
    ends[depth++] = (const yyjson_val *)(const void *)((const char *)val + val->uni.ofs);
  }
  return true;
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* From just behind an opening quote to just behind the closing one. */
static const char *skip_string(const char *at, const char *end) {
  while (at < end && *at != '"') at += *at == '\\' ? 2 : 1;
  return at < end ? at + 1 : end;
}

IDEM__COLD static const char *skip_container(const char *at, const char *end) {
  size_t depth = 0;
  do {
    char c = *at++;
    if (c == '"')
      at = skip_string(at, end);
    else if (c == '[' || c == '{')
      depth++;
    else if (c == ']' || c == '}')
      depth--;
  } while (depth && at < end);
  return at;
}

static const char *skip_value(const char *at, const char *end) {
  /* Most ids are short numbers, and no number of a member is at the end. */
  while ((unsigned char)(*at - '0') <= 9) at++;
  if (at == end || *at == ',' || *at == '}') return at;
  if (*at == '"') return skip_string(at + 1, end);
  if (*at == '[' || *at == '{') return skip_container(at, end);
  while (at < end && *at != ',' && *at != '}' && *at != ']' && !is_blank(*at)) at++;
  return at;
}

/* From the first byte of a key to just behind its closing quote. */
static inline const char *skip_key(const char *at, const char *end, size_t decoded_len) {
  /* A quote inside a key has a backslash before it; so without one this ends it. */
  const char *quote = at + decoded_len;
  if (*quote == '"' && quote[-1] != '\\') return quote + 1;
  return skip_string(at, end);
}

IDEM__HOT void idem__json_raw_after(const yyjson_doc *doc, const char *text, size_t text_len,
                                    const yyjson_val *key, const char **raw, size_t *raw_len) {
  const char *end = text + text_len;
  size_t key_len = (size_t)(key->tag >> YYJSON_TAG_BIT);
  const char *at = skip_key(text + (key->uni.str - doc->str_pool), end, key_len);
  if (end - at > 1 && at[0] == ':' && at[1] > ' ')
    at++; /* nothing stands between */
  else
    while (at < end && (is_blank(*at) || *at == ':')) at++;
  const char *stop = at < end ? skip_value(at, end) : at;
  *raw = at;
  *raw_len = (size_t)(stop - at);
}

IDEM__COLD static bool check_offsets(void) {
  static const char text[] = " {\"\\u0061b\" : -1.50e+03 , \"x\":[{\"i\\\"d\": \"\\u00e9\" }]}";
  static const idem_alloc zero;
  idem_alloc alloc = idem__alloc_or_default(&zero);
  char block[1024];
  idem__arena arena;
  idem_status status;
  idem__arena_init(&arena, &alloc, block, sizeof block, sizeof block);
  yyjson_doc *doc = idem__json_read(text, sizeof text - 1, &arena, &status);
  if (!doc) return false;
  yyjson_val *first = unsafe_yyjson_get_first(doc->root);
  yyjson_val *inner = unsafe_yyjson_get_first(yyjson_arr_get(yyjson_obj_get(doc->root, "x"), 0));
  const char *raw;
  size_t len;
  idem__json_raw_after(doc, text, sizeof text - 1, first, &raw, &len);
  bool good = len == 9 && memcmp(raw, "-1.50e+03", 9) == 0;
  idem__json_raw_after(doc, text, sizeof text - 1, inner, &raw, &len);
  return good && len == 8 && memcmp(raw, "\"\\u00e9\"", 8) == 0;
}

bool idem__json_self_test(void) {
  enum { UNKNOWN, GOOD, BAD };
  static _Atomic int verdict = UNKNOWN;
  int known = atomic_load_explicit(&verdict, memory_order_relaxed);
  if (known == UNKNOWN) {
    known = check_offsets() ? GOOD : BAD;
    atomic_store_explicit(&verdict, known, memory_order_relaxed);
  }
  return known == GOOD;
}
