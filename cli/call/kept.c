/* kept.c - see kept.h. */
#include "kept.h"

#include "config/memory.h"

#include <stdlib.h>
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

bool kept_client(const text *kept, char *out, size_t size) {
  return kept_says(kept, "client", out, size) || kept_says(kept, "client_id", out, size);
}

static void replace(text *kept, yyjson_mut_doc *with) {
  char *written = with ? yyjson_mut_write(with, 0, NULL) : NULL;
  kept_wipe(kept);
  if (written) text_puts(kept, written);
  free(written);
}

void kept_name_client(text *kept, const char *id) {
  yyjson_doc *doc = read_kept(kept);
  yyjson_mut_doc *copy = doc ? yyjson_doc_mut_copy(doc, NULL) : NULL;
  if (!copy) memory_exhausted();
  yyjson_mut_obj_add_str(copy, yyjson_mut_doc_get_root(copy), "client", id);
  replace(kept, copy);
  yyjson_mut_doc_free(copy);
  yyjson_doc_free(doc);
}

bool kept_is_public(const text *kept) {
  yyjson_doc *doc = read_kept(kept);
  yyjson_val *method = yyjson_obj_get(yyjson_doc_get_root(doc), "method");
  bool none = yyjson_is_uint(method) && yyjson_get_uint(method) == 0;
  yyjson_doc_free(doc);
  return none;
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

static bool has_word(const char *words, const char *word, size_t len) {
  for (; *words; words += strspn(words, " ")) {
    size_t each = strcspn(words, " ");
    if (each == len && memcmp(words, word, len) == 0) return true;
    words += each;
  }
  return false;
}

bool kept_lacks_scope(const text *kept, const char *wanted) {
  char asked[4096];
  kept_says(kept, "scope", asked, sizeof asked);
  for (; *wanted; wanted += strspn(wanted, " ")) {
    size_t len = strcspn(wanted, " ");
    if (len && !has_word(asked, wanted, len)) return true;
    wanted += len;
  }
  return false;
}

void kept_drop_tokens(text *kept) {
  static const char *const names[] = {"access_token", "refresh_token", "expires"};
  yyjson_doc *doc = read_kept(kept);
  yyjson_mut_doc *copy = doc ? yyjson_doc_mut_copy(doc, NULL) : NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    yyjson_mut_obj_remove_key(yyjson_mut_doc_get_root(copy), names[i]);
  replace(kept, copy);
  yyjson_mut_doc_free(copy);
  yyjson_doc_free(doc);
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
