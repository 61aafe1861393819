/* format_uri.c - URIs and URI templates, by the grammars of RFC 3986 and RFC 6570. */
#include "format.h"

static bool is_unreserved(char c) {
  return idem__is_alpha(c) || idem__is_digit(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

static bool is_sub_delimiter(char c) { return c != 0 && strchr("!$&'()*+,;=", c); }

/* Characters of a URI part, percent-encoded triplets included; `more` lists what else it allows. */
static bool is_made_of(const char *text, size_t len, const char *more) {
  for (size_t i = 0; i < len; i++) {
    char c = text[i];
    if (is_unreserved(c) || is_sub_delimiter(c) || (c != 0 && strchr(more, c))) continue;
    if (c != '%' || i + 2 >= len || !idem__is_hex(text[i + 1]) || !idem__is_hex(text[i + 2]))
      return false;
    i += 2;
  }
  return true;
}

static bool is_ip_future(const char *text, size_t len) {
  size_t at = 1;
  if (len < 4 || (text[0] != 'v' && text[0] != 'V')) return false;
  while (at < len && idem__is_hex(text[at])) at++;
  if (at == 1 || at + 1 >= len || text[at] != '.') return false;
  for (at++; at < len; at++)
    if (!is_unreserved(text[at]) && !is_sub_delimiter(text[at]) && text[at] != ':') return false;
  return true;
}

static bool is_port(const char *text, size_t len) {
  for (size_t i = 0; i < len; i++)
    if (!idem__is_digit(text[i])) return false;
  return true;
}

static bool is_host_and_port(const char *text, size_t len, format_env *env) {
  if (len && text[0] == '[') {
    const char *close = memchr(text, ']', len);
    if (!close) return false;
    size_t inside = (size_t)(close - text) - 1, after = len - inside - 2;
    if (!idem__format_ipv6(text + 1, inside, env) && !is_ip_future(text + 1, inside)) return false;
    return after == 0 || (close[1] == ':' && is_port(close + 2, after - 1));
  }
  const char *colon = len ? memchr(text, ':', len) : NULL;
  size_t host = colon ? (size_t)(colon - text) : len;
  return is_made_of(text, host, "") && (!colon || is_port(colon + 1, len - host - 1));
}

static bool is_authority(const char *text, size_t len, format_env *env) {
  const char *at = len ? memchr(text, '@', len) : NULL;
  if (!at) return is_host_and_port(text, len, env);
  size_t user = (size_t)(at - text);
  return is_made_of(text, user, ":") && is_host_and_port(at + 1, len - user - 1, env);
}

static size_t until(const char *text, size_t len, const char *stops) {
  size_t i = 0;
  while (i < len && !(text[i] && strchr(stops, text[i]))) i++;
  return i;
}

/* What follows the scheme: authority, path, query, fragment. */
static bool is_rest(const char *text, size_t len, format_env *env) {
  if (len >= 2 && text[0] == '/' && text[1] == '/') {
    size_t authority = until(text + 2, len - 2, "/?#");
    if (!is_authority(text + 2, authority, env)) return false;
    text += 2 + authority;
    len -= 2 + authority;
  }
  size_t path = until(text, len, "?#");
  if (!is_made_of(text, path, ":@/")) return false;
  text += path;
  len -= path;
  const char *hash = len ? memchr(text, '#', len) : NULL;
  size_t query = hash ? (size_t)(hash - text) : len;
  if (query && !is_made_of(text + 1, query - 1, ":@/?")) return false;
  return !hash || is_made_of(hash + 1, len - query - 1, ":@/?");
}

static size_t scheme_length(const char *text, size_t len) {
  size_t i = 0;
  while (i < len &&
         (idem__is_alpha(text[i]) || (i > 0 && (idem__is_digit(text[i]) || text[i] == '+' ||
                                                text[i] == '-' || text[i] == '.'))))
    i++;
  return i > 0 && i < len && text[i] == ':' ? i + 1 : 0;
}

bool idem__format_uri(const char *text, size_t len, format_env *env) {
  size_t scheme = scheme_length(text, len);
  return scheme && is_rest(text + scheme, len - scheme, env);
}

/* Without a scheme, the first segment of a path must not look like one. */
bool idem__format_uri_reference(const char *text, size_t len, format_env *env) {
  if (scheme_length(text, len)) return idem__format_uri(text, len, env);
  size_t segment = until(text, len, "/?#");
  if (segment && memchr(text, ':', segment)) return false;
  return is_rest(text, len, env);
}

/* ------------------------------------------------------------- templates */

static bool is_literal_byte(char c) {
  uint8_t b = (uint8_t)c;
  return b > ' ' && b != 0x7f && !strchr("\"<>\\^`{|}%", c);
}

static bool read_triplet(const char *at, const char *end) {
  return end - at >= 3 && at[0] == '%' && idem__is_hex(at[1]) && idem__is_hex(at[2]);
}

/* varname: letters, digits, '_' and triplets, in parts joined by single dots. */
static bool read_name(const char **at, const char *end) {
  bool part = false;
  for (; *at < end; ++*at) {
    if (idem__is_alpha(**at) || idem__is_digit(**at) || **at == '_') {
      part = true;
    } else if (read_triplet(*at, end)) {
      *at += 2;
      part = true;
    } else if (**at == '.' && part) {
      part = false;
    } else {
      break;
    }
  }
  return part;
}

static bool read_modifier(const char **at, const char *end) {
  if (*at < end && **at == '*') ++*at;
  if (*at == end || **at != ':') return true;
  const char *digits = ++*at;
  while (*at < end && idem__is_digit(**at)) ++*at;
  return *at > digits && *at - digits <= 4 && *digits != '0';
}

static bool read_expression(const char **at, const char *end) {
  ++*at;
  if (*at < end && **at && strchr("+#./;?&=,!@|", **at)) ++*at;
  for (;;) {
    if (!read_name(at, end) || !read_modifier(at, end) || *at == end) return false;
    if (**at == '}') break;
    if (**at != ',') return false;
    ++*at;
  }
  ++*at;
  return true;
}

bool idem__format_uri_template(const char *text, size_t len, format_env *env) {
  (void)env;
  const char *at = text, *end = text + len;
  while (at < end) {
    if (*at == '{') {
      if (!read_expression(&at, end)) return false;
    } else if (read_triplet(at, end)) {
      at += 3;
    } else if (*at && is_literal_byte(*at)) {
      at++;
    } else {
      return false;
    }
  }
  return true;
}
