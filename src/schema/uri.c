/* uri.c - resolves a reference against a base URI (RFC 3986 section 5.2).
 * Texts are compared byte for byte afterwards; nothing is normalised beyond dot segments. */
#include "schema.h"

typedef struct part {
  const char *text;
  size_t len;
  bool present;
} part;

typedef struct uri {
  part scheme, authority, path, query, fragment;
} uri;

static bool is_scheme_byte(char c, bool first) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
  return !first && ((c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.');
}

static size_t until(const char *text, size_t len, const char *stops) {
  size_t i = 0;
  while (i < len && !(text[i] && strchr(stops, text[i]))) i++;
  return i;
}

static void take(const char **text, size_t *len, size_t skip, size_t count, part *out) {
  *out = (part){*text + skip, count, true};
  *text += skip + count;
  *len -= skip + count;
}

static uri split(const char *text, size_t len) {
  uri u = {0};
  size_t scheme = 0;
  while (scheme < len && is_scheme_byte(text[scheme], scheme == 0)) scheme++;
  if (scheme > 0 && scheme < len && text[scheme] == ':') {
    take(&text, &len, 0, scheme, &u.scheme);
    text++;
    len--;
  }
  if (len >= 2 && text[0] == '/' && text[1] == '/')
    take(&text, &len, 2, until(text + 2, len - 2, "/?#"), &u.authority);
  take(&text, &len, 0, until(text, len, "?#"), &u.path);
  if (len && *text == '?') take(&text, &len, 1, until(text + 1, len - 1, "#"), &u.query);
  if (len && *text == '#') take(&text, &len, 1, len - 1, &u.fragment);
  return u;
}

/* Section 5.2.4, in place: segments are copied down, ".." steps back to the previous slash. */
static size_t remove_dot_segments(char *path, size_t len) {
  size_t in = 0, out = 0;
  while (in < len) {
    size_t start = in;
    bool slash = path[in] == '/';
    if (slash) in++;
    size_t name = in;
    while (in < len && path[in] != '/') in++;
    size_t name_len = in - name;
    bool last = in == len;
    bool dot = name_len == 1 && path[name] == '.';
    bool dots = name_len == 2 && path[name] == '.' && path[name + 1] == '.';
    if (!dot && !dots) {
      memmove(path + out, path + start, in - start);
      out += in - start;
      continue;
    }
    if (dots) {
      while (out > 0 && path[out - 1] != '/') out--;
      if (out > 0) out--;
    }
    if (last && slash) path[out++] = '/';
  }
  return out;
}

static char *put_part(char *to, const char *before, const part *p, const char *after) {
  if (!p->present) return to;
  for (; *before; before++) *to++ = *before;
  if (p->len) memcpy(to, p->text, p->len);
  to += p->len;
  for (; *after; after++) *to++ = *after;
  return to;
}

/* Section 5.2.3: the base's path up to its last slash, then the reference's. */
static char *put_merged_path(char *to, const uri *base, const part *path) {
  size_t keep = base->path.len;
  while (keep > 0 && base->path.text[keep - 1] != '/') keep--;
  if (base->authority.present && base->path.len == 0) *to++ = '/';
  if (keep) memcpy(to, base->path.text, keep);
  to += keep;
  if (path->len) memcpy(to, path->text, path->len);
  return to + path->len;
}

static char *put_path(char *to, const uri *base, const uri *ref, bool own) {
  char *start = to;
  if (own || (ref->path.len && ref->path.text[0] == '/')) {
    memcpy(to, ref->path.text, ref->path.len);
    to += ref->path.len;
  } else if (ref->path.len == 0) {
    memcpy(to, base->path.text, base->path.len);
    return to + base->path.len;
  } else {
    to = put_merged_path(to, base, &ref->path);
  }
  return start + remove_dot_segments(start, (size_t)(to - start));
}

char *idem__uri_resolve(region *memory, const char *base, size_t base_len, const char *reference,
                        size_t reference_len, size_t *out_len) {
  if (base_len == 0) {
    *out_len = reference_len;
    return idem__region_text(memory, reference, reference_len);
  }
  char *out = idem__region_get(memory, base_len + reference_len + 8);
  if (!out) return NULL;
  uri from = split(base, base_len), ref = split(reference, reference_len);
  const uri *scheme = ref.scheme.present ? &ref : &from;
  bool own_authority = ref.scheme.present || ref.authority.present;
  const uri *authority = own_authority ? &ref : &from;
  bool own_query = own_authority || ref.path.len > 0 || ref.query.present;
  char *to = put_part(out, "", &scheme->scheme, ":");
  to = put_part(to, "//", &authority->authority, "");
  to = put_path(to, &from, &ref, own_authority);
  to = put_part(to, "?", own_query ? &ref.query : &from.query, "");
  to = put_part(to, "#", &ref.fragment, "");
  *to = 0;
  *out_len = (size_t)(to - out);
  return out;
}
