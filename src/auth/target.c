/* target.c - which request a proof is for (RFC 9449, 4.3): its URL as the world has it, normalised as RFC 3986 says. What a request
 * says of its host is not asked: behind a proxy the configured URL counts, and a client could say anything. */
#include "auth.h"
#include "proof.h"

#include <string.h>

static bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || idem__is_digit(c) || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

/* ------------------------------------------------------------------- paths */

/* Escapes of what needs none are undone, the others have capitals (RFC 3986, 6.2.2). INVAL: a broken one. */
static idem_status put_characters(idem_buf *out, const char *path, size_t len) {
  static const char digits[] = "0123456789ABCDEF";
  idem_status status = IDEM_OK;
  for (size_t i = 0; i < len && status == IDEM_OK; i++) {
    if (path[i] != '%') {
      status = idem_buf_put(out, path + i, 1);
      continue;
    }
    int high = i + 2 < len ? idem_hex_value(path[i + 1]) : -1;
    int low = i + 2 < len ? idem_hex_value(path[i + 2]) : -1;
    if (high < 0 || low < 0) return IDEM_E_INVAL;
    char c = (char)(high * 16 + low), escape[3] = {'%', digits[high], digits[low]};
    status = is_unreserved(c) ? idem_buf_put(out, &c, 1) : idem_buf_put(out, escape, 3);
    i += 2;
  }
  return status;
}

static size_t drop_segment(const char *path, size_t len) {
  while (len && path[len - 1] != '/') len--;
  return len ? len - 1 : 0;
}

/* "." and ".." as directories have them (RFC 3986, 5.2.4); in place, for it only grows shorter. */
static size_t remove_dots(char *path, size_t len) {
  size_t made = 0;
  for (size_t at = 0; at < len;) { /* each begins with a slash */
    const char *slash = memchr(path + at + 1, '/', len - at - 1);
    size_t end = slash ? (size_t)(slash - path) : len, size = end - at;
    bool one = size == 2 && path[at + 1] == '.';
    bool two = size == 3 && path[at + 1] == '.' && path[at + 2] == '.';
    if (two) made = drop_segment(path, made);
    if (!one && !two) {
      memmove(path + made, path + at, size);
      made += size;
    } else if (end == len) {
      path[made++] = '/';
    }
    at = end;
  }
  return made;
}

static idem_status put_path(idem_buf *out, const char *path, size_t len, bool dots) {
  size_t before = out->len;
  if (!len) return idem_buf_puts(out, "/");
  idem_status status = put_characters(out, path, len);
  if (status == IDEM_OK && dots)
    out->len = before + remove_dots(out->data + before, out->len - before);
  return status;
}

/* ----------------------------------------------------------------- origins */

static idem_status put_lower(idem_buf *out, const char *text, size_t len) {
  idem_status status = IDEM_OK;
  for (size_t i = 0; i < len && status == IDEM_OK; i++) {
    char c = idem__ascii_lower(text[i]);
    status = idem_buf_put(out, &c, 1);
  }
  return status;
}

/* Without the port that its scheme has anyway. */
static idem_status put_port(idem_buf *out, const idem__auth_url *url, const char *port) {
  const char *usual = url->secure ? "443" : "80", *end = url->origin + url->origin_len;
  while (end - port > 1 && *port == '0') port++;
  size_t len = (size_t)(end - port);
  if (len == strlen(usual) && memcmp(port, usual, len) == 0) return IDEM_OK;
  return idem_buf_printf(out, ":%.*s", (int)len, port);
}

static idem_status put_origin(idem_buf *out, const idem__auth_url *url) {
  const char *end = url->host + url->host_len, *all = url->origin + url->origin_len;
  bool bracketed = end < all && *end == ']';
  idem_status status =
      idem_buf_printf(out, "http%s://%s", url->secure ? "s" : "", bracketed ? "[" : "");
  if (status == IDEM_OK) status = put_lower(out, url->host, url->host_len);
  if (status == IDEM_OK && bracketed) status = idem_buf_puts(out, "]");
  end += bracketed;
  if (status == IDEM_OK && end < all) status = put_port(out, url, end + 1);
  return status;
}

static idem_status end_text(idem_buf *out, idem_status status) {
  if (status == IDEM_OK) status = idem_buf_put(out, "", 1);
  if (status == IDEM_OK) out->len--;
  return status;
}

idem_status idem__target_put(idem_buf *out, const char *url, size_t len) {
  char text[IDEM__TARGET_BYTES];
  idem__auth_url parts;
  size_t end = 0;
  while (end < len && url[end] != '?' && url[end] != '#') end++;
  if (end >= sizeof text) return IDEM_E_LIMIT;
  if (!end || memchr(url, 0, end)) return IDEM_E_INVAL;
  memcpy(text, url, end);
  text[end] = '\0';
  if (!idem__auth_url_parse(text, &parts)) return IDEM_E_INVAL;
  idem_status status = put_origin(out, &parts);
  if (status == IDEM_OK) status = put_path(out, parts.path, parts.path_len, true);
  return end_text(out, status);
}

/* ----------------------------------------------------------------- requests */

/* A proxy may have put something before the listener's path: then it does so before the others, too. */
static idem_status put_base(idem_buf *out, const idem__auth_url *url, const char *path) {
  size_t own = strlen(path);
  idem_status status = put_origin(out, url);
  bool below =
      own > 1 && url->path_len > own && memcmp(url->path + url->path_len - own, path, own) == 0;
  if (status == IDEM_OK && below) status = put_path(out, url->path, url->path_len - own, true);
  return status;
}

static char *copy(const idem_alloc *alloc, const idem_buf *text) {
  return idem__strndup(alloc, text->data, text->len);
}

idem_status idem__targets_init(idem__targets *self, const idem_alloc *alloc, const char *resource,
                               const char *path) {
  char room[IDEM__TARGET_BYTES];
  idem__auth_url url;
  idem_buf text;
  *self = (idem__targets){.resource = NULL};
  idem_buf_fixed(&text, room, sizeof room);
  idem_status status = idem__target_put(&text, resource, strlen(resource));
  if (status == IDEM_OK && !idem__auth_url_parse(resource, &url)) status = IDEM_E_INVAL;
  if (status != IDEM_OK) return status == IDEM_E_LIMIT ? IDEM_E_INVAL : status;
  self->resource = copy(alloc, &text);
  text.len = 0;
  status = put_base(&text, &url, path);
  if (status == IDEM_OK) self->base = copy(alloc, &text);
  self->path = idem__strndup(alloc, path, strlen(path));
  if (status != IDEM_OK) return status == IDEM_E_LIMIT ? IDEM_E_INVAL : status;
  return self->resource && self->base && self->path ? IDEM_OK : IDEM_E_NOMEM;
}

void idem__targets_deinit(idem__targets *self, const idem_alloc *alloc) {
  idem__free(alloc, self->resource);
  idem__free(alloc, self->base);
  idem__free(alloc, self->path);
  *self = (idem__targets){.resource = NULL};
}

idem_status idem__targets_put(const idem__targets *self, idem_buf *out, const char *path,
                              size_t len) {
  bool own = strlen(self->path) == len && memcmp(self->path, path, len) == 0;
  if (!len || *path != '/') return IDEM_E_INVAL;
  if (own) return end_text(out, idem_buf_put(out, self->resource, strlen(self->resource)));
  idem_status status = idem_buf_put(out, self->base, strlen(self->base));
  if (status == IDEM_OK) status = put_path(out, path, len, false);
  return end_text(out, status);
}
