/* kept.c - see kept.h. */
#include "kept.h"

#include <string.h>
#include <yyjson.h>

static yyjson_doc *read_kept(const text *kept) {
  return kept->len ? yyjson_read(kept->data, kept->len, 0) : NULL;
}

bool kept_says(const text *kept, const char *name, char *out, size_t size) {
  yyjson_doc *doc = read_kept(kept);
  const char *value = yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(doc), name));
  bool there = value && snprintf(out, size, "%s", value) < (int)size;
  if (!there) *out = 0;
  yyjson_doc_free(doc);
  return there;
}

static bool has(const text *kept, const char *name) {
  yyjson_doc *doc = read_kept(kept);
  bool there = yyjson_is_str(yyjson_obj_get(yyjson_doc_get_root(doc), name));
  yyjson_doc_free(doc);
  return there;
}

bool kept_has_refresh_token(const text *kept) { return has(kept, "refresh_token"); }
bool kept_has_token(const text *kept) {
  return has(kept, "access_token") || kept_has_refresh_token(kept);
}

uint64_t kept_expires(const text *kept) {
  yyjson_doc *doc = read_kept(kept);
  yyjson_val *value = yyjson_obj_get(yyjson_doc_get_root(doc), "expires");
  uint64_t seconds = yyjson_is_uint(value) ? yyjson_get_uint(value) : UINT64_MAX;
  yyjson_doc_free(doc);
  return seconds;
}

void kept_wipe(text *kept) {
  volatile char *at = kept->data;
  for (size_t i = 0; i < kept->len; i++) at[i] = 0;
  kept->len = 0;
}
