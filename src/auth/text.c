/* text.c - the small texts of OAuth: forms, URLs, scopes. Everything in them may be a stranger's. */
#include "auth.h"
#include "proof.h"

#include <string.h>

/* ------------------------------------------------------------------ forms */

static bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || idem__is_digit(c) || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

static idem_status put_encoded(idem_buf *out, const char *text) {
  idem_status status = IDEM_OK;
  for (; *text && status == IDEM_OK; text++)
    status = is_unreserved(*text) ? idem_buf_put(out, text, 1)
                                  : idem_buf_printf(out, "%%%02X", (unsigned)(uint8_t)*text);
  return status;
}

idem_status idem__auth_form_add(idem_buf *form, const char *name, const char *value) {
  if (!value) return IDEM_OK;
  idem_status status = form->len ? idem_buf_puts(form, "&") : IDEM_OK;
  if (status == IDEM_OK) status = put_encoded(form, name);
  if (status == IDEM_OK) status = idem_buf_puts(form, "=");
  return status == IDEM_OK ? put_encoded(form, value) : status;
}

/* Decodes in place; false: a broken escape, or what is no text. */
static bool decode(char *text, size_t *len) {
  size_t to = 0;
  for (size_t at = 0; at < *len; at++, to++) {
    text[to] = text[at] == '+' ? ' ' : text[at];
    if (text[at] != '%') continue;
    int high = at + 2 < *len ? idem_hex_value(text[at + 1]) : -1;
    int low = at + 2 < *len ? idem_hex_value(text[at + 2]) : -1;
    if (high < 0 || low < 0) return false;
    text[to] = (char)(high * 16 + low);
    at += 2;
  }
  *len = to;
  return !memchr(text, 0, to) && idem_utf8_valid(text, to);
}

static char *decoded(const idem_alloc *alloc, const char *text, size_t len) {
  char *copy = idem__strndup(alloc, text, len);
  if (copy && decode(copy, &len)) {
    copy[len] = 0;
    return copy;
  }
  idem__free(alloc, copy);
  return NULL;
}

char *idem__auth_form_get(const idem_alloc *alloc, const char *form, size_t len, const char *name) {
  size_t name_len = strlen(name), found_len = 0;
  if (!len) return NULL; /* of no form */
  const char *end = form + len, *found = NULL;
  for (const char *at = form; at < end;) {
    const char *stop = memchr(at, '&', (size_t)(end - at));
    if (!stop) stop = end;
    bool same =
        (size_t)(stop - at) > name_len && memcmp(at, name, name_len) == 0 && at[name_len] == '=';
    if (same && found) return NULL; /* which one is meant? */
    if (same) found = at + name_len + 1, found_len = (size_t)(stop - found);
    at = stop + 1;
  }
  return found ? decoded(alloc, found, found_len) : NULL;
}

/* ------------------------------------------------------------------- URLs */

static bool is_plain(const char *text) {
  for (; *text; text++)
    if ((uint8_t)*text <= ' ' || (uint8_t)*text >= 127 || strchr("\"<>\\^`{|}#", *text))
      return false;
  return true;
}

/* host, host:port, [v6] or [v6]:port. */
static bool parse_authority(const char *text, size_t len, idem__auth_url *url) {
  const char *end = text + len, *close = NULL;
  if (!len || memchr(text, '@', len)) return false;
  if (*text == '[' && !(close = memchr(text, ']', len))) return false;
  url->host = close ? text + 1 : text;
  const char *colon = memchr(close ? close : text, ':', (size_t)(end - (close ? close : text)));
  const char *host_end = close ? close : colon ? colon : end;
  url->host_len = (size_t)(host_end - url->host);
  if (close && close + 1 != end && colon != close + 1) return false;
  for (const char *at = colon ? colon + 1 : end; at < end; at++)
    if (!idem__is_digit(*at)) return false;
  return url->host_len && (!colon || (end - colon > 1 && end - colon <= 6));
}

bool idem__auth_url_parse(const char *text, idem__auth_url *url) {
  *url = (idem__auth_url){.origin = text};
  if (!is_plain(text)) return false;
  size_t scheme = strcspn(text, ":");
  url->secure = idem__text_equal_nocase(text, scheme, "https", 5);
  if (!url->secure && !idem__text_equal_nocase(text, scheme, "http", 4)) return false;
  if (strncmp(text + scheme, "://", 3) != 0) return false;
  const char *authority = text + scheme + 3;
  size_t authority_len = strcspn(authority, "/?");
  if (!parse_authority(authority, authority_len, url)) return false;
  url->origin_len = (size_t)(authority + authority_len - text);
  url->path = authority + authority_len;
  url->path_len = strcspn(url->path, "?");
  url->query = url->path + url->path_len;
  if (*url->query) url->query++;
  url->query_len = strlen(url->query);
  return true;
}

bool idem__auth_url_is_loopback(const idem__auth_url *url) {
  if (idem__text_equal_nocase(url->host, url->host_len, "localhost", 9)) return true;
  if (url->host_len == 3 && memcmp(url->host, "::1", 3) == 0) return true;
  unsigned dots = 0;
  for (size_t i = 0; i < url->host_len; i++) {
    if (url->host[i] == '.') dots++;
    if (url->host[i] != '.' && !idem__is_digit(url->host[i])) return false;
  }
  return dots == 3 && url->host_len > 4 && memcmp(url->host, "127.", 4) == 0;
}

bool idem__auth_url_is_safe(const char *text) {
  idem__auth_url url;
  return idem__auth_url_parse(text, &url) && (url.secure || idem__auth_url_is_loopback(&url));
}

/* Proofs are compared with it (target.c). */
static const char *name_fault(const char *text) {
  char room[IDEM__TARGET_BYTES];
  idem_buf normal;
  idem_buf_fixed(&normal, room, sizeof room);
  idem_status status = idem__target_put(&normal, text, strlen(text));
  if (status == IDEM_E_LIMIT) return "it is too long";
  return status == IDEM_OK ? NULL : "it has a % that begins no escape";
}

const char *idem__auth_url_fault(const char *text, bool bare) {
  idem__auth_url url;
  if (strchr(text, '#')) return "it has a fragment (#)";
  if (!idem__auth_url_parse(text, &url)) return "it is no URL of a server";
  if (!bare) return NULL;
  return strchr(text, '?') ? "it has a query (?)" : name_fault(text);
}

/* ----------------------------------------------------------------- scopes */

/* The next word behind *at; its length, 0: there are no more. */
static size_t next_word(const char **at) {
  if (!*at) return 0;
  *at += strspn(*at, " ");
  return strcspn(*at, " ");
}

static bool has_word(const char *whole, const char *word, size_t len) {
  for (size_t found; (found = next_word(&whole)); whole += found)
    if (found == len && memcmp(whole, word, len) == 0) return true;
  return false;
}

bool idem__auth_scope_has(const char *whole, const char *part) {
  for (size_t len; (len = next_word(&part)); part += len)
    if (!has_word(whole, part, len)) return false;
  return true;
}

static idem_status add_words(idem_buf *out, const char *words) {
  idem_status status = IDEM_OK;
  for (size_t len; status == IDEM_OK && (len = next_word(&words)); words += len) {
    status = idem_buf_put(out, "", 1); /* a text, for has_word */
    out->len--;
    if (status != IDEM_OK || has_word(out->data, words, len)) continue;
    if (out->len) status = idem_buf_puts(out, " ");
    if (status == IDEM_OK) status = idem_buf_put(out, words, len);
  }
  return status;
}

char *idem__auth_scope_union(const idem_alloc *alloc, const char *one, const char *other,
                             idem_status *status) {
  idem_buf both;
  idem_buf_init(&both, alloc, (one ? strlen(one) : 0) + (other ? strlen(other) : 0) + 3);
  *status = add_words(&both, one);
  if (*status == IDEM_OK) *status = add_words(&both, other);
  char *text = *status == IDEM_OK && both.len ? idem__strndup(alloc, both.data, both.len) : NULL;
  if (*status == IDEM_OK && both.len && !text) *status = IDEM_E_NOMEM;
  idem_buf_deinit(&both);
  return text;
}
