/* request.c - reading what a parsed request head says.
 * Header names are sorted into known ones while parsing; everything here works on borrowed views
 * of the head's bytes and allocates nothing. See docs/internals/http.md. */
#include "http.h"

#include <string.h>

idem__view idem__view_trim_ends(idem__view view) {
  while (view.len && (view.at[0] == ' ' || view.at[0] == '\t')) view.at++, view.len--;
  while (view.len && (view.at[view.len - 1] == ' ' || view.at[view.len - 1] == '\t')) view.len--;
  return view;
}

bool idem__view_is_token(idem__view text) {
  static const char marks[] = "!#$%&'*+-.^_`|~";
  for (size_t i = 0; i < text.len; i++) {
    char c = text.at[i];
    bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
    if (!plain && (!c || !strchr(marks, c))) return false;
  }
  return text.len > 0;
}

bool idem__view_next(idem__view *list, idem__view *element) {
  if (!list->at) return false;
  const char *comma = list->len ? memchr(list->at, ',', list->len) : NULL;
  size_t len = comma ? (size_t)(comma - list->at) : list->len;
  *element = idem__view_trim((idem__view){list->at, len});
  if (comma) {
    list->at += len + 1;
    list->len -= len + 1;
  } else {
    list->at = NULL;
    list->len = 0;
  }
  return true;
}

/* `want` holds small letters and hyphens; `name` is a token, which the parser has seen to: no other
 * byte of one becomes such a character when bit 0x20 is set. */
static inline bool same_eight(const char *name, const char *want) {
  uint64_t a, b;
  memcpy(&a, name, sizeof a);
  memcpy(&b, want, sizeof b);
  return (a | UINT64_C(0x2020202020202020)) == b;
}

static inline bool same_four(const char *name, const char *want) {
  uint32_t a, b;
  memcpy(&a, name, sizeof a);
  memcpy(&b, want, sizeof b);
  return (a | UINT32_C(0x20202020)) == b;
}

/* No name we know is shorter than four. The last words may overlap: the tail needs no loop. */
static bool same_name(const char *name, const char *want, size_t len) {
  if (len < 8) return same_four(name, want) && same_four(name + len - 4, want + len - 4);
  for (size_t at = 0; at + 8 < len; at += 8)
    if (!same_eight(name + at, want + at)) return false;
  return same_eight(name + len - 8, want + len - 8);
}

static inline idem__http_known match(const char *name, const char *want, size_t len,
                                     idem__http_known which) {
  return same_name(name, want, len) ? which : IDEM__H_OTHER;
}

static inline idem__http_known match_two(const char *name, size_t len, const char *want,
                                         idem__http_known which, const char *other,
                                         idem__http_known otherwise) {
  return same_name(name, want, len) ? which : match(name, other, len, otherwise);
}

static idem__http_known match_own(const char *name, size_t len) {
  switch (len) {
  case 4: return match(name, "host", len, IDEM__H_HOST);
  case 6: {
    idem__http_known which = match(name, "accept", len, IDEM__H_ACCEPT);
    if (which == IDEM__H_OTHER) which = match(name, "origin", len, IDEM__H_ORIGIN);
    return which ? which : match(name, "expect", len, IDEM__H_EXPECT);
  }
  case 7: return match(name, "upgrade", len, IDEM__H_UPGRADE);
  case 10: return match(name, "user-agent", len, IDEM__H_USER_AGENT);
  case 12: return match(name, "content-type", len, IDEM__H_CONTENT_TYPE);
  case 13:
    return match_two(name, len, "authorization", IDEM__H_AUTHORIZATION, "last-event-id",
                     IDEM__H_LAST_EVENT_ID);
  case 14: return match(name, "content-length", len, IDEM__H_CONTENT_LENGTH);
  case 16: return match(name, "content-encoding", len, IDEM__H_CONTENT_ENCODING);
  case 17: return match(name, "transfer-encoding", len, IDEM__H_TRANSFER_ENCODING);
  default: return IDEM__H_OTHER;
  }
}

static inline idem__http_known match_given(const idem__http_names *given, const char *name,
                                           size_t len) {
  size_t place = len < sizeof given->by_length ? given->by_length[len] : 0;
  return place && same_name(name, given->list[place - 1], len)
             ? (idem__http_known)(IDEM__H_GIVEN + place - 1)
             : IDEM__H_OTHER;
}

idem__http_known idem__http_known_header(const idem__http_names *given, const char *name,
                                         size_t len) {
  idem__http_known which = given ? match_given(given, name, len) : IDEM__H_OTHER;
  return which != IDEM__H_OTHER ? which : match_own(name, len);
}

static idem__view value_at(const idem_http_request *request, size_t index) {
  const idem__http_header *header = &request->headers[index];
  return idem__view_trim((idem__view){request->base + header->value, header->value_len});
}

idem__view idem__http_known_value(const idem_http_request *request, idem__http_known which) {
  if (!request->known[which]) return (idem__view){NULL, 0};
  return value_at(request, (size_t)request->known[which] - 1);
}

static idem__view search_value(const idem_http_request *request, const char *name,
                               size_t name_len) {
  idem__view found = {NULL, 0};
  for (size_t i = 0; i < request->header_count; i++) {
    const idem__http_header *header = &request->headers[i];
    if (!idem__text_equal_nocase(request->base + header->name, header->name_len, name, name_len))
      continue;
    if (found.at) return (idem__view){NULL, 0};
    found = value_at(request, i);
  }
  return found;
}

static idem__view only_value(const idem_http_request *request, idem__http_known which) {
  if (request->known_count[which] != 1) return (idem__view){NULL, 0};
  return value_at(request, (size_t)request->known[which] - 1);
}

idem__view idem__http_given_value(const idem_http_request *request, size_t place) {
  return only_value(request, (idem__http_known)(IDEM__H_GIVEN + place));
}

idem__view idem__http_header_value(const idem_http_request *request, const char *name) {
  size_t len = strlen(name);
  idem__http_known which = idem__http_known_header(request->given, name, len);
  return which == IDEM__H_OTHER ? search_value(request, name, len) : only_value(request, which);
}

/* ---------------------------------------------------------------- Accept */

/* "0", "0.", "0.000": anything else is some weight. */
static bool is_zero(idem__view value) {
  for (size_t i = 0; i < value.len; i++)
    if (value.at[i] != '0' && (value.at[i] != '.' || i != 1)) return false;
  return value.len > 0 && value.len <= 5 && value.at[0] == '0';
}

/* `parameters` begin with their semicolon, or are nothing. */
static bool quality_is_zero(idem__view parameters) {
  while (parameters.len) {
    parameters.at++, parameters.len--;
    const char *semicolon = parameters.len ? memchr(parameters.at, ';', parameters.len) : NULL;
    size_t len = semicolon ? (size_t)(semicolon - parameters.at) : parameters.len;
    idem__view one = idem__view_trim((idem__view){parameters.at, len});
    if (one.len > 2 && idem__text_equal_nocase(one.at, 2, "q=", 2))
      return is_zero((idem__view){one.at + 2, one.len - 2});
    parameters.at += len, parameters.len -= len;
  }
  return false;
}

static idem__view media_type(idem__view element, idem__view *parameters) {
  const char *semicolon = element.len ? memchr(element.at, ';', element.len) : NULL;
  size_t len = semicolon ? (size_t)(semicolon - element.at) : element.len;
  *parameters = (idem__view){element.at + len, element.len - len};
  return idem__view_trim((idem__view){element.at, len});
}

/* How closely a range names a type: 3 by its name, 2 by its kind, 1 as anything, 0 not at all. */
static unsigned closeness(idem__view range, const char *type) {
  if (idem__view_is(range, type, strlen(type))) return 3;
  if (idem__view_eq(range, "*/*")) return 1;
  const char *slash = strchr(type, '/');
  size_t major = (size_t)(slash - type) + 1;
  bool kind = range.len == major + 1 && range.at[major] == '*' &&
              idem__text_equal_nocase(range.at, major, type, major);
  return kind ? 2 : 0;
}

/* What the closest range so far says of a type (RFC 9110, 12.5.1: the most specific one counts). */
typedef struct verdict {
  unsigned closeness;
  bool accepted;
} verdict;

static void judge_list(idem__view list, const char *type, verdict *found) {
  idem__view element, parameters;
  while (idem__view_next(&list, &element)) {
    unsigned close = closeness(media_type(element, &parameters), type);
    if (!close || close < found->closeness) continue;
    bool before = close == found->closeness && found->accepted;
    *found = (verdict){close, before || !quality_is_zero(parameters)};
  }
}

/* Nearly always there is one such header, and it has been found already; several are one list. */
static bool accepts(const idem_http_request *request, const char *type) {
  verdict found = {0, false};
  if (request->known_count[IDEM__H_ACCEPT] == 1) {
    idem__view list = idem__http_known_value(request, IDEM__H_ACCEPT);
    judge_list(list, type, &found);
    return found.accepted || !list.len;
  }
  for (size_t i = 0; i < request->header_count; i++) {
    const idem__http_header *header = &request->headers[i];
    if (!idem__text_equal_nocase(request->base + header->name, header->name_len, "accept", 6))
      continue;
    idem__view list = {request->base + header->value, header->value_len};
    judge_list(list, type, &found); /* which trims each element */
  }
  return found.accepted;
}

bool idem__http_accepts(const idem_http_request *request, const char *type) {
  return !request->known[IDEM__H_ACCEPT] || accepts(request, type);
}

bool idem__http_accepts_encoding(const idem_http_request *request, const char *encoding) {
  idem__view list = idem__http_header_value(request, "accept-encoding"), element, parameters;
  bool any = false;
  while (idem__view_next(&list, &element)) {
    idem__view name = media_type(element, &parameters);
    if (idem__view_is(name, encoding, strlen(encoding))) return !quality_is_zero(parameters);
    if (idem__view_eq(name, "*")) any = !quality_is_zero(parameters);
  }
  return any;
}

/* ---------------------------------------------------------------- target */

static void split_query(idem_http_request *request, idem__view path) {
  const char *mark = path.len ? memchr(path.at, '?', path.len) : NULL;
  request->query = (idem__view){NULL, 0};
  if (mark) {
    size_t len = (size_t)(mark - path.at);
    request->query = (idem__view){mark + 1, path.len - len - 1};
    path.len = len;
  }
  request->path = path;
}

static size_t scheme_length(idem__view target) {
  if (target.len >= 7 && idem__text_equal_nocase(target.at, 7, "http://", 7)) return 7;
  if (target.len >= 8 && idem__text_equal_nocase(target.at, 8, "https://", 8)) return 8;
  return 0;
}

bool idem__http_split_target(idem_http_request *request) {
  idem__view target = {request->base + request->target.value, request->target.value_len};
  request->authority = (idem__view){NULL, 0};
  if (target.len && target.at[0] == '/') {
    split_query(request, target);
    return true;
  }
  if (target.len == 1 && target.at[0] == '*') {
    split_query(request, target);
    return request->method == IDEM_HTTP_OPTIONS;
  }
  size_t skip = scheme_length(target);
  if (!skip) return false;
  idem__view rest = {target.at + skip, target.len - skip};
  size_t len = 0;
  while (len < rest.len && rest.at[len] != '/' && rest.at[len] != '?') len++;
  request->authority = (idem__view){rest.at, len};
  rest.at += len, rest.len -= len;
  split_query(request, rest.len && rest.at[0] == '/' ? rest : IDEM__VIEW("/"));
  return len > 0;
}
