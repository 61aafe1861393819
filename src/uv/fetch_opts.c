/* fetch_opts.c - see fetch_opts.h. What frames a message is not the caller's to say. */
#include "uv/fetch_opts.h"

#include <string.h>

bool idem__fetch_header_is(const char *header, const char *name) {
  size_t len = strlen(name);
  return strcspn(header, ":") == len && idem__text_equal_nocase(header, len, name, len);
}

static bool is_token(const char *text, size_t len) {
  static const char marks[] = "!#$%&'*+-.^_`|~";
  for (size_t i = 0; i < len; i++) {
    char c = text[i], lower = idem__ascii_lower(c);
    if (!(lower >= 'a' && lower <= 'z') && !(c >= '0' && c <= '9') && !strchr(marks, c))
      return false;
  }
  return len > 0;
}

static bool good_header(const char *header) {
  static const char *const framing[] = {
      "Content-Length", "Transfer-Encoding", "Connection",      "Upgrade", "TE", "Trailer",
      "Expect",         "Keep-Alive",        "Proxy-Connection"};
  size_t name = strcspn(header, ":");
  if (!header[name] || !is_token(header, name) || strpbrk(header, "\r\n")) return false;
  for (size_t i = 0; i < sizeof framing / sizeof *framing; i++)
    if (idem__fetch_header_is(header, framing[i])) return false;
  return true;
}

bool idem__fetch_opts_good(const idem_fetch_opts *opts) {
  if (!opts->url || (opts->method && !is_token(opts->method, strlen(opts->method)))) return false;
  if (!opts->on_head != !opts->on_data) return false;
  for (const char *const *header = opts->headers; header && *header; header++)
    if (!good_header(*header)) return false;
  return true;
}

static bool copy_text(const idem_alloc *alloc, const char **text) {
  if (!*text) return true;
  *text = idem__strndup(alloc, *text, strlen(*text));
  return *text != NULL;
}

static bool copy_headers(const idem_alloc *alloc, idem_fetch_opts *to, const char *const *headers) {
  size_t count = 0, kept = 0;
  while (headers && headers[count]) count++;
  const char **copies = idem__calloc(alloc, (count + 2) * sizeof *copies);
  to->headers = copies;
  if (!copies) return false;
  bool agent = false, fine = true;
  for (; fine && kept < count; kept++) {
    agent |= idem__fetch_header_is(headers[kept], "User-Agent");
    copies[kept] = headers[kept];
    fine = copy_text(alloc, &copies[kept]);
  }
  if (!fine || agent) return fine;
  copies[kept] = "User-Agent: idem/" IDEM_VERSION;
  return copy_text(alloc, &copies[kept]);
}

/* Each field is ours or NULL at every moment, so that a half copy can be freed. */
bool idem__fetch_opts_copy(const idem_alloc *alloc, idem_fetch_opts *to,
                           const idem_fetch_opts *from) {
  const char *const given[] = {from->method ? from->method : "GET", from->proxy, from->ca_file,
                               from->cert_file, from->key_file};
  const char **const copies[] = {&to->method, &to->proxy, &to->ca_file, &to->cert_file,
                                 &to->key_file};
  *to = *from;
  to->method = to->body = to->proxy = to->ca_file = to->cert_file = to->key_file = NULL;
  to->headers = NULL;
  for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
    *copies[i] = given[i];
    if (!copy_text(alloc, copies[i])) return false;
  }
  if (from->body && !(to->body = idem__strndup(alloc, from->body, from->body_len))) return false;
  return copy_headers(alloc, to, from->headers);
}

static void free_text(const idem_alloc *alloc, const char *text) {
  idem__free(alloc, (void *)(uintptr_t)text);
}

void idem__fetch_opts_free(const idem_alloc *alloc, idem_fetch_opts *opts) {
  const char *const texts[] = {opts->method,  opts->body,      opts->proxy,
                               opts->ca_file, opts->cert_file, opts->key_file};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) free_text(alloc, texts[i]);
  for (size_t i = 0; opts->headers && opts->headers[i]; i++) free_text(alloc, opts->headers[i]);
  idem__free(alloc, (void *)(uintptr_t)opts->headers);
}
