/* idna.c - what an xn-- label stands for, and whether IDNA 2008 allows it.
 * Punycode (RFC 3492) is decoded; the code points must be letters, marks or digits (PCRE2 knows
 * their categories), and the contextual rules of RFC 5892 appendix A are applied here. */
#include "format.h"

#define MAX_POINTS 63

static int digit_value(char c) {
  if (c >= 'a' && c <= 'z') return c - 'a';
  if (c >= 'A' && c <= 'Z') return c - 'A';
  return idem__is_digit(c) ? c - '0' + 26 : -1;
}

static uint32_t adapt(uint32_t delta, uint32_t points, bool first) {
  delta = first ? delta / 700 : delta / 2;
  delta += delta / points;
  uint32_t k = 0;
  for (; delta > 455; k += 36) delta /= 35;
  return k + 36 * delta / (delta + 38);
}

/* One generalised variable-length integer (RFC 3492 section 6.2). */
static bool read_delta(const char **at, const char *end, uint32_t bias, uint32_t *i) {
  uint32_t weight = 1;
  for (uint32_t k = 36;; k += 36) {
    int digit = *at < end ? digit_value(*(*at)++) : -1;
    if (digit < 0 || (uint32_t)digit > (0x7fffffff - *i) / weight) return false;
    *i += (uint32_t)digit * weight;
    uint32_t threshold = k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias;
    if ((uint32_t)digit < threshold) return true;
    if (weight > 0x7fffffff / (36 - threshold)) return false;
    weight *= 36 - threshold;
  }
}

static bool decode(const char *text, size_t len, uint32_t *points, uint32_t *count) {
  size_t basic = len;
  while (basic > 0 && text[basic - 1] != '-') basic--;
  *count = 0;
  for (size_t i = 0; i + 1 < basic; i++) {
    char c = text[i]; /* host names are compared without case */
    points[(*count)++] = (uint8_t)(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  const char *at = text + basic, *end = text + len;
  uint32_t n = 128, i = 0, bias = 72;
  while (at < end) {
    uint32_t before = i;
    if (*count == MAX_POINTS || !read_delta(&at, end, bias, &i)) return false;
    uint32_t now = ++*count;
    bias = adapt(i - before, now, before == 0);
    n += i / now;
    i %= now;
    if (n > 0x10ffff || (n >= 0xd800 && n <= 0xdfff)) return false;
    memmove(points + i + 1, points + i, (now - 1 - i) * sizeof *points);
    points[i++] = n;
  }
  return *count > 0;
}

static size_t put_utf8(uint32_t code, char *out) {
  if (code < 0x80) {
    out[0] = (char)code;
    return 1;
  }
  size_t tail = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static const uint8_t heads[] = {0, 0xc0, 0xe0, 0xf0};
  out[0] = (char)(heads[tail] | code >> (6 * tail));
  for (size_t i = 1; i <= tail; i++) out[i] = (char)(0x80 | (code >> (6 * (tail - i)) & 0x3f));
  return tail + 1;
}

/* ------------------------------------------------------- contextual rules */

static bool in(uint32_t code, uint32_t first, uint32_t last) {
  return code >= first && code <= last;
}
static bool is_greek(uint32_t c) { return in(c, 0x370, 0x3ff) || in(c, 0x1f00, 0x1fff); }
static bool is_hebrew(uint32_t c) { return in(c, 0x591, 0x5f4) || in(c, 0xfb1d, 0xfb4f); }
static bool is_japanese(uint32_t c) { /* Hiragana, Katakana or Han, U+30FB itself excepted */
  return in(c, 0x3041, 0x309f) || (in(c, 0x30a1, 0x30ff) && c != 0x30fb && c != 0x30fc) ||
         in(c, 0x31f0, 0x31ff) || c == 0x3005 || c == 0x3007 || in(c, 0x3400, 0x4dbf) ||
         in(c, 0x4e00, 0x9fff) || in(c, 0x20000, 0x323af);
}

/* Canonical combining class 9. */
static bool is_virama(uint32_t c) {
  static const uint32_t viramas[] = {
      0x94d,   0x9cd,   0xa4d,   0xacd,   0xb4d,   0xbcd,   0xc4d,   0xccd,   0xd3b,   0xd3c,
      0xd4d,   0xdca,   0xe3a,   0xeba,   0xf84,   0x1039,  0x103a,  0x1714,  0x1734,  0x17d2,
      0x1a60,  0x1b44,  0x1baa,  0x1bab,  0x1bf2,  0x1bf3,  0x2d7f,  0xa806,  0xa82c,  0xa8c4,
      0xa953,  0xa9c0,  0xaaf6,  0xabed,  0x10a3f, 0x11046, 0x1107f, 0x110b9, 0x11133, 0x11134,
      0x111c0, 0x11235, 0x112ea, 0x1134d, 0x11442, 0x114c2, 0x115bf, 0x1163f, 0x116b6, 0x1172b,
      0x11839, 0x119e0, 0x11a34, 0x11a47, 0x11a99, 0x11c3f, 0x11d44, 0x11d45, 0x11d97};
  for (size_t i = 0; i < sizeof viramas / sizeof *viramas; i++)
    if (viramas[i] == c) return true;
  return false;
}

/* Scripts whose letters join: an approximation of Joining_Type by blocks. */
static bool is_joining(uint32_t c) {
  return in(c, 0x620, 0x64a) || in(c, 0x66e, 0x6d3) || in(c, 0x6fa, 0x6ff) || in(c, 0x710, 0x74f) ||
         in(c, 0x750, 0x77f) || in(c, 0x7ca, 0x7ea) || in(c, 0x8a0, 0x8c9) ||
         in(c, 0x1807, 0x18aa) || in(c, 0xa840, 0xa871);
}
static bool is_transparent(uint32_t c) {
  return in(c, 0x64b, 0x65f) || c == 0x670 || in(c, 0x6d6, 0x6ed) || in(c, 0x730, 0x74a);
}

static bool joiner_ok(const uint32_t *p, uint32_t count, uint32_t i) {
  if (i > 0 && is_virama(p[i - 1])) return true;
  if (p[i] == 0x200d) return false;
  uint32_t left = i, right = i + 1;
  while (left > 0 && is_transparent(p[left - 1])) left--;
  while (right < count && is_transparent(p[right])) right++;
  return left > 0 && is_joining(p[left - 1]) && right < count && is_joining(p[right]);
}

static bool has(const uint32_t *p, uint32_t count, bool (*test)(uint32_t)) {
  for (uint32_t i = 0; i < count; i++)
    if (test(p[i])) return true;
  return false;
}
static bool is_arabic_digit(uint32_t c) { return in(c, 0x660, 0x669); }
static bool is_extended_digit(uint32_t c) { return in(c, 0x6f0, 0x6f9); }

/* Exceptions of RFC 5892 section 2.6 that the categories would let through. */
static bool is_disallowed(uint32_t c) {
  return c == 0x640 || c == 0x7fa || c == 0x302e || c == 0x302f || in(c, 0x3031, 0x3035) ||
         c == 0x303b || in(c, 0x1100, 0x11ff) || in(c, 0xa960, 0xa97c) || in(c, 0xd7b0, 0xd7fb) ||
         in(c, 0x180b, 0x180e) || in(c, 0xfe00, 0xfe0f);
}

static bool point_ok(const uint32_t *p, uint32_t count, uint32_t i) {
  switch (p[i]) {
  case 0xb7: return i > 0 && i + 1 < count && p[i - 1] == 'l' && p[i + 1] == 'l';
  case 0x375: return i + 1 < count && is_greek(p[i + 1]);
  case 0x5f3:
  case 0x5f4: return i > 0 && is_hebrew(p[i - 1]);
  case 0x30fb: return has(p, count, is_japanese);
  case 0x200c:
  case 0x200d: return joiner_ok(p, count, i);
  default: break;
  }
  if (is_arabic_digit(p[i])) return !has(p, count, is_extended_digit);
  return !is_disallowed(p[i]);
}

bool idem__idna_label(const char *label, size_t len, format_env *env) {
  uint32_t points[MAX_POINTS + 1], count;
  char text[MAX_POINTS * 4];
  size_t text_len = 0;
  if (!decode(label + 4, len - 4, points, &count)) return false;
  if (count >= 4 && points[2] == '-' && points[3] == '-') return false;
  if (points[0] == '-' || points[count - 1] == '-') return false;
  for (uint32_t i = 0; i < count; i++) {
    if (!point_ok(points, count, i)) return false;
    text_len += put_utf8(points[i], text + text_len);
  }
  bool matched = false;
  idem_status status = idem__regex_match(env->label, env->matcher, text, text_len, &matched);
  if (status == IDEM_E_NOMEM) env->no_memory = true;
  if (status == IDEM_E_LIMIT) env->limit = true;
  return matched;
}
