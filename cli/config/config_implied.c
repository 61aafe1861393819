/* config_implied.c - what "scope_implies" says of scopes that nothing needs: a word with a slip in it grants nothing, and nobody
 * would notice before a caller is refused. */
#include "config.h"

#include <string.h>

#define IMPLIES_MAX 64u

typedef struct implied {
  yyjson_val *keys[IMPLIES_MAX], *values[IMPLIES_MAX];
  bool leads[IMPLIES_MAX]; /* to a scope that something needs */
  size_t count;
  const char *needed; /* all of these, with blanks between them */
} implied;

/* The next word at or behind *at; its length, 0: there are no more. */
static size_t next_word(const char **at) {
  *at += strspn(*at, " ");
  return strcspn(*at, " ");
}

static bool is_needed(const implied *self, const char *word, size_t len) {
  const char *at = self->needed;
  for (size_t found; (found = next_word(&at)); at += found)
    if (found == len && memcmp(at, word, len) == 0) return true;
  return false;
}

/* It is needed, or has such a one in it. */
static bool leads(const implied *self, const char *word, size_t len) {
  for (size_t i = 0; i < self->count; i++)
    if (self->leads[i] && yyjson_equals_strn(self->keys[i], word, len)) return true;
  return is_needed(self, word, len);
}

static bool leads_anywhere(const implied *self, yyjson_val *words) {
  const char *at = yyjson_get_str(words);
  for (size_t len; (len = next_word(&at)); at += len)
    if (leads(self, at, len)) return true;
  return false;
}

/* To the end of each chain, as a token's scopes are followed. */
static void follow(implied *self) {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < self->count; i++) {
      if (self->leads[i] || !leads_anywhere(self, self->values[i])) continue;
      self->leads[i] = changed = true;
    }
  }
}

void config_note_implied(serve_config *self) {
  yyjson_val *auth = yyjson_obj_get(yyjson_doc_get_root(self->source.doc), "auth"), *key, *value;
  size_t i, max;
  implied all = {.needed = self->auth && self->auth->http.scopes ? self->auth->http.scopes : ""};
  idem_each_member(yyjson_obj_get(auth, "scope_implies"), i, max, key, value) {
    if (all.count == IMPLIES_MAX || !yyjson_is_str(value)) continue;
    all.keys[all.count] = key;
    all.values[all.count++] = value;
  }
  follow(&all);
  for (i = 0; i < all.count; i++) {
    const char *at = yyjson_get_str(all.values[i]);
    for (size_t len; (len = next_word(&at)); at += len)
      if (!leads(&all, at, len))
        source_note(&self->source, all.values[i],
                    "auth: scope_implies: nothing needs the scope %.*s, which %s has in it",
                    (int)len, at, yyjson_get_str(all.keys[i]));
  }
}
