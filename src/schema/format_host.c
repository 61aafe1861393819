/* format_host.c - addresses and names of hosts, and e-mail addresses.
 * RFC 1123 for host names, RFC 5891 for labels that start with xn--, RFC 5321 and 6531 for mail. */
#include "format.h"

bool idem__format_ipv4(const char *text, size_t len, format_env *env) {
  (void)env;
  size_t at = 0;
  for (int part = 0; part < 4; part++) {
    size_t start = at;
    unsigned value = 0;
    while (at < len && at - start < 3 && idem__is_digit(text[at]))
      value = value * 10 + (unsigned)(text[at++] - '0');
    if (at == start || value > 255 || (at - start > 1 && text[start] == '0')) return false;
    if (part < 3 && (at == len || text[at++] != '.')) return false;
  }
  return at == len;
}

/* Groups of up to four digits; "::" stands for the missing ones; the end may be an IPv4 address. */
bool idem__format_ipv6(const char *text, size_t len, format_env *env) {
  size_t at = 0;
  int groups = 0;
  bool gap = false;
  if (len < 2 || (text[0] == ':' && text[1] != ':')) return false;
  while (at < len) {
    if (text[at] == ':') { /* only reached at the start and after a colon */
      if (gap || at + 1 >= len + (at > 0)) return false;
      gap = true;
      at += at == 0 ? 2 : 1;
      continue;
    }
    size_t start = at;
    while (at < len && at - start < 5 && idem__is_hex(text[at])) at++;
    if (at < len && text[at] == '.')
      return idem__format_ipv4(text + start, len - start, env) && (gap ? groups < 6 : groups == 6);
    if (at == start || at - start > 4 || ++groups > 8) return false;
    if (at == len) break;
    if (text[at++] != ':' || at == len) return false;
  }
  return gap ? groups < 8 : groups == 8;
}

static bool is_label(const char *label, size_t len, format_env *env) {
  if (len == 0 || len > 63 || label[0] == '-' || label[len - 1] == '-') return false;
  for (size_t i = 0; i < len; i++)
    if (!idem__is_alpha(label[i]) && !idem__is_digit(label[i]) && label[i] != '-') return false;
  bool encoded = len >= 4 && (label[0] | 32) == 'x' && (label[1] | 32) == 'n' && label[2] == '-' &&
                 label[3] == '-';
  return !encoded || idem__idna_label(label, len, env);
}

static bool is_domain(const char *text, size_t len, format_env *env,
                      bool (*label_ok)(const char *, size_t, format_env *)) {
  size_t start = 0;
  if (len == 0 || len > 253) return false;
  for (size_t i = 0; i <= len; i++) {
    if (i < len && text[i] != '.') continue;
    if (!label_ok(text + start, i - start, env)) return false;
    start = i + 1;
  }
  return true;
}

bool idem__format_hostname(const char *text, size_t len, format_env *env) {
  return is_domain(text, len, env, is_label);
}

/* ------------------------------------------------------------------ mail */

static bool is_atom_byte(char c, bool international) {
  if ((uint8_t)c >= 0x80) return international;
  return idem__is_alpha(c) || idem__is_digit(c) || (c && strchr("!#$%&'*+-/=?^_`{|}~", c));
}

static bool is_dot_atom(const char *text, size_t len, bool international) {
  bool dot = true;
  for (size_t i = 0; i < len; i++) {
    if (text[i] == '.') {
      if (dot) return false;
      dot = true;
    } else {
      if (!is_atom_byte(text[i], international)) return false;
      dot = false;
    }
  }
  return !dot;
}

/* The length of a quoted local part with its quotes, 0 when it is not one. */
static size_t quoted_length(const char *text, size_t len, bool international) {
  for (size_t i = 1; i < len; i++) {
    uint8_t c = (uint8_t)text[i];
    if (c == '"') return i + 1;
    if (c == '\\' && i + 1 < len) c = (uint8_t)text[++i];
    if (c < ' ' || c == 0x7f || (c >= 0x80 && !international)) return 0;
  }
  return 0;
}

static bool is_literal(const char *text, size_t len, format_env *env) {
  if (len < 3 || text[0] != '[' || text[len - 1] != ']') return false;
  if (len > 7 && memcmp(text, "[IPv6:", 6) == 0) return idem__format_ipv6(text + 6, len - 7, env);
  return idem__format_ipv4(text + 1, len - 2, env);
}

/* A label in Unicode: letters and digits beyond ASCII are taken as they come, but not the full
 * width signs and dots that only look like ASCII ones. */
static bool is_international_label(const char *label, size_t len, format_env *env) {
  bool ascii = true;
  if (len == 0 || len > 252) return false;
  for (size_t i = 0; i < len; i++) {
    uint8_t c = (uint8_t)label[i];
    if (c >= 0x80)
      ascii = false;
    else if (!idem__is_alpha(label[i]) && !idem__is_digit(label[i]) && c != '-')
      return false;
  }
  return ascii ? is_label(label, len, env) : label[0] != '-' && label[len - 1] != '-';
}

static bool is_mail(const char *text, size_t len, format_env *env, bool international) {
  size_t local = 0;
  if (len && text[0] == '"') {
    local = quoted_length(text, len, international);
  } else {
    while (local < len && text[local] != '@') local++;
    if (!is_dot_atom(text, local, international)) return false;
  }
  if (local == 0 || local > 64 || local >= len || text[local] != '@') return false;
  const char *domain = text + local + 1;
  size_t domain_len = len - local - 1;
  if (is_literal(domain, domain_len, env)) return true;
  return is_domain(domain, domain_len, env, international ? is_international_label : is_label);
}

bool idem__format_email(const char *text, size_t len, format_env *env) {
  return is_mail(text, len, env, false);
}

bool idem__format_idn_email(const char *text, size_t len, format_env *env) {
  return is_mail(text, len, env, true);
}
