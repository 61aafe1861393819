/* pattern.c - methods whose names have values in them: "list.{action}".
 * Only asked where no name fits. A value ends at a separator or where the pattern goes on, so a name is
 * walked through once and never back. See docs/internals/rpc.md. */
#include "inside.h"

#include <string.h>

#define PATTERNS 256u
#define PATTERN_BYTES 256u
#define PATTERN_VALUES 8u
#define MATCHED_BYTES 1024u

/* ------------------------------------------------------------------ checking */

static bool is_word(char c) {
  char small = (char)(c | 0x20);
  return (small >= 'a' && small <= 'z') || idem__is_digit(c) || c == '_';
}

/* The length of "{name}" at `at`; 0: it is none. */
static size_t value_at(const char *at) {
  size_t len = 1;
  if (*at != '{') return 0;
  while (is_word(at[len])) len++;
  return len > 1 && at[len] == '}' ? len + 1 : 0;
}

/* The first value of that name. */
static const char *find_value(const char *pattern, const char *name, size_t len) {
  for (const char *at = pattern; (at = strchr(at, '{')) != NULL; at += value_at(at))
    if (value_at(at) == len + 2 && memcmp(at + 1, name, len) == 0) return at;
  return NULL;
}

static bool is_pattern(const char *text) {
  size_t values = 0;
  const char *at = text;
  if (strlen(text) > PATTERN_BYTES) return false;
  while (*at) {
    size_t len = value_at(at);
    if (!len && (*at == '{' || *at == '}')) return false;
    if (len && (at[len] == '{' || ++values > PATTERN_VALUES)) return false;
    at += len ? len : 1;
  }
  return values > 0;
}

/* Only of what is_pattern accepts otherwise. */
static bool names_differ(const char *pattern) {
  for (const char *at = pattern; (at = strchr(at, '{')) != NULL; at += value_at(at))
    if (find_value(pattern, at + 1, value_at(at) - 2) != at) return false;
  return true;
}

/* ------------------------------------------------------------------ matching */

/* How much of the name a value takes that `next` follows in the pattern. */
static size_t value_length(const char *name, size_t len, char next) {
  size_t taken = 0;
  while (taken < len && name[taken] != '.' && name[taken] != '/' && (!next || name[taken] != next))
    taken++;
  return taken;
}

/* Where the value that begins at `wanted` in the pattern lies in the name; NULL for `wanted`: whether the name fits. */
static bool match(const char *pattern, const char *name, size_t len, const char *wanted,
                  const char **found, size_t *found_len) {
  size_t at = 0;
  while (*pattern) {
    size_t skip = value_at(pattern);
    if (!skip) {
      if (at == len || name[at++] != *pattern++) return false;
      continue;
    }
    size_t taken = value_length(name + at, len - at, pattern[skip]);
    if (!taken) return false;
    if (pattern == wanted) {
      *found = name + at;
      *found_len = taken;
      return true;
    }
    at += taken;
    pattern += skip;
  }
  return at == len;
}

const idem__method *idem__pattern_find(const idem_router *router, const char *name, size_t len) {
  if (len > MATCHED_BYTES) return NULL;
  for (size_t i = 0; i < router->pattern_count; i++)
    if (match(router->patterns[i]->name, name, len, NULL, NULL, NULL)) return router->patterns[i];
  return NULL;
}

const char *idem_request_value(const idem_request *request, const char *name, size_t *len) {
  const idem__method *method = request->method;
  const char *found = NULL;
  *len = 0;
  if (!method || !method->is_pattern) return NULL;
  const char *wanted = find_value(method->name, name, strlen(name));
  if (wanted) match(method->name, request->name, request->name_len, wanted, &found, len);
  return found;
}

/* --------------------------------------------------------------- registering */

/* It is a name, too, under which a peer may ask; its values must be found in it like in any other. */
static bool fits_itself(const char *pattern) {
  return match(pattern, pattern, strlen(pattern), NULL, NULL, NULL);
}

static idem_status make_room(idem_router *router) {
  if (router->patterns) return router->pattern_count < PATTERNS ? IDEM_OK : IDEM_E_LIMIT;
  router->patterns = idem__calloc(&router->alloc, PATTERNS * sizeof *router->patterns);
  return router->patterns ? IDEM_OK : IDEM_E_NOMEM;
}

idem_status idem_router_pattern(idem_router *router, const char *pattern, idem_method_fn fn,
                                void *user) {
  if (!is_pattern(pattern) || !names_differ(pattern) || !fits_itself(pattern)) return IDEM_E_INVAL;
  idem_status status = make_room(router);
  if (status == IDEM_OK) status = idem_router_method(router, pattern, fn, user);
  if (status != IDEM_OK) return status;
  idem__method *method = idem_map_get(&router->methods, pattern, strlen(pattern));
  method->is_pattern = true;
  router->patterns[router->pattern_count++] = method;
  return IDEM_OK;
}
