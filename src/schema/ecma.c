/* ecma.c - from ECMA-262 regular expressions (with the u flag) to PCRE2's syntax.
 * Everything the two spell differently is rewritten, and what only PCRE2 knows (inline flags,
 * comments, possessive repeats, \A \Q \Z ...) is refused, so that a pattern means here what it
 * means in a browser. Escaped punctuation is let through everywhere, as most schemas expect. */
#include "ecma.h"

#include <stdio.h>
#include <string.h>

typedef struct reader {
  const char *at, *end;
  idem_buf *out;
  const char *why;
  idem_status status;
  unsigned depth; /* open groups */
} reader;

#define WHITE_SPACE                                                                                \
  "\\x{9}-\\x{d}\\x{20}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"    \
  "\\x{3000}\\x{feff}"
#define NOT_WHITE_SPACE                                                                            \
  "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-"       \
  "\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{fefe}"          \
  "\\x{ff00}-\\x{10ffff}"

static bool refuse(reader *r, const char *why) {
  if (r->status == IDEM_OK) {
    r->status = IDEM_E_INVAL;
    r->why = why;
  }
  return false;
}

static bool put(reader *r, const char *text, size_t len) {
  if (r->status == IDEM_OK) r->status = idem_buf_put(r->out, text, len);
  return r->status == IDEM_OK;
}
#define PUT(r, literal) put((r), "" literal, sizeof(literal) - 1)

static bool put_code_point(reader *r, uint32_t code) {
  char text[16];
  int len = snprintf(text, sizeof text, "\\x{%x}", (unsigned)code);
  return put(r, text, (size_t)len);
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool read_hex(reader *r, size_t digits, uint32_t *value) {
  *value = 0;
  if ((size_t)(r->end - r->at) < digits) return false;
  for (size_t i = 0; i < digits; i++) {
    int digit = idem_hex_value(r->at[i]);
    if (digit < 0) return false;
    *value = *value * 16 + (uint32_t)digit;
  }
  r->at += digits;
  return true;
}

/* ----------------------------------------------------------- escapes */

/* PCRE2 knows the short names of general categories only. */
static const char *const categories[][2] = {{"Letter", "L"},
                                            {"Cased_Letter", "L&"},
                                            {"Uppercase_Letter", "Lu"},
                                            {"Lowercase_Letter", "Ll"},
                                            {"Titlecase_Letter", "Lt"},
                                            {"LC", "L&"},
                                            {"Modifier_Letter", "Lm"},
                                            {"Other_Letter", "Lo"},
                                            {"Mark", "M"},
                                            {"Combining_Mark", "M"},
                                            {"Nonspacing_Mark", "Mn"},
                                            {"Spacing_Mark", "Mc"},
                                            {"Enclosing_Mark", "Me"},
                                            {"Number", "N"},
                                            {"Decimal_Number", "Nd"},
                                            {"digit", "Nd"},
                                            {"Letter_Number", "Nl"},
                                            {"Other_Number", "No"},
                                            {"Punctuation", "P"},
                                            {"punct", "P"},
                                            {"Connector_Punctuation", "Pc"},
                                            {"Dash_Punctuation", "Pd"},
                                            {"Open_Punctuation", "Ps"},
                                            {"Close_Punctuation", "Pe"},
                                            {"Initial_Punctuation", "Pi"},
                                            {"Final_Punctuation", "Pf"},
                                            {"Other_Punctuation", "Po"},
                                            {"Symbol", "S"},
                                            {"Math_Symbol", "Sm"},
                                            {"Currency_Symbol", "Sc"},
                                            {"Modifier_Symbol", "Sk"},
                                            {"Other_Symbol", "So"},
                                            {"Separator", "Z"},
                                            {"Space_Separator", "Zs"},
                                            {"Line_Separator", "Zl"},
                                            {"Paragraph_Separator", "Zp"},
                                            {"Other", "C"},
                                            {"Control", "Cc"},
                                            {"cntrl", "Cc"},
                                            {"Format", "Cf"},
                                            {"Surrogate", "Cs"},
                                            {"Private_Use", "Co"},
                                            {"Unassigned", "Cn"}};

static bool put_property_name(reader *r, const char *name, size_t len) {
  for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
    if (strlen(categories[i][0]) == len && memcmp(categories[i][0], name, len) == 0)
      return put(r, categories[i][1], strlen(categories[i][1]));
  return put(r, name, len);
}

/* \p{Letter}, \p{Script=Greek}, \p{General_Category=Lu}, \p{Emoji} */
static bool read_property(reader *r, char p) {
  const char *close =
      r->at < r->end && *r->at == '{' ? memchr(r->at, '}', (size_t)(r->end - r->at)) : NULL;
  if (!close || close == r->at + 1) return refuse(r, "\\p needs a property name in braces");
  const char *name = r->at + 1;
  for (const char *c = name; c < close; c++)
    if (!is_letter(*c) && !idem__is_digit(*c) && *c != '_' && *c != '=')
      return refuse(r, "a bad character in a property name");
  r->at = close + 1;
  put(r, p == 'p' ? "\\p{" : "\\P{", 3);
  const char *equals = memchr(name, '=', (size_t)(close - name));
  if (equals) {
    size_t key = (size_t)(equals - name);
    bool category = (key == 2 && memcmp(name, "gc", 2) == 0) ||
                    (key == 16 && memcmp(name, "General_Category", 16) == 0);
    if (!category) {
      put(r, name, key);
      PUT(r, ":");
    }
    name = equals + 1;
  }
  put_property_name(r, name, (size_t)(close - name));
  return PUT(r, "}");
}

static bool read_unicode(reader *r) {
  uint32_t code = 0;
  if (r->at < r->end && *r->at == '{') {
    const char *start = ++r->at;
    for (; r->at < r->end && idem_hex_value(*r->at) >= 0 && code <= 0x10ffff; r->at++)
      code = code * 16 + (uint32_t)idem_hex_value(*r->at);
    if (r->at == start || r->at == r->end || *r->at != '}' || code > 0x10ffff)
      return refuse(r, "a bad \\u{...} escape");
    r->at++;
  } else if (!read_hex(r, 4, &code)) {
    return refuse(r, "\\u needs four hexadecimal digits");
  }
  uint32_t low = 0;
  if (code >= 0xd800 && code < 0xdc00 && r->end - r->at >= 6 && memcmp(r->at, "\\u", 2) == 0) {
    r->at += 2;
    if (!read_hex(r, 4, &low) || low < 0xdc00 || low > 0xdfff)
      return refuse(r, "half a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  if (code >= 0xd800 && code <= 0xdfff) return refuse(r, "half a surrogate pair");
  return put_code_point(r, code);
}

static bool read_control(reader *r) {
  if (r->at == r->end || !is_letter(*r->at)) return refuse(r, "\\c needs a letter");
  return put_code_point(r, (uint32_t)*r->at++ % 32);
}

/* \1 to \99 outside a class; \g{N} so that PCRE2 never takes it for an octal number. */
static bool read_back_reference(reader *r, char first) {
  unsigned value = (unsigned)(first - '0');
  while (r->at < r->end && idem__is_digit(*r->at) && value < 1000)
    value = value * 10 + (unsigned)(*r->at++ - '0');
  char text[16];
  int len = snprintf(text, sizeof text, "\\g{%u}", value);
  return put(r, text, (size_t)len);
}

static bool read_named_reference(reader *r) {
  const char *close =
      r->at < r->end && *r->at == '<' ? memchr(r->at, '>', (size_t)(r->end - r->at)) : NULL;
  if (!close) return refuse(r, "\\k needs a group name");
  PUT(r, "\\k");
  bool done = put(r, r->at, (size_t)(close + 1 - r->at));
  r->at = close + 1;
  return done;
}

static bool read_white_space(reader *r, char c, bool in_class) {
  if (in_class) return c == 's' ? PUT(r, WHITE_SPACE) : PUT(r, NOT_WHITE_SPACE);
  return c == 's' ? PUT(r, "[" WHITE_SPACE "]") : PUT(r, "[^" WHITE_SPACE "]");
}

static bool read_hex_pair(reader *r) {
  uint32_t code;
  if (!read_hex(r, 2, &code)) return refuse(r, "\\x needs two hexadecimal digits");
  return put_code_point(r, code);
}

static bool read_escape(reader *r, bool in_class) {
  if (++r->at == r->end) return refuse(r, "a lone backslash at the end");
  char c = *r->at++;
  switch (c) {
  case 'd':
  case 'D':
  case 'w':
  case 'W': { /* ASCII in both */ char text[2] = {'\\', c}; return put(r, text, 2);
  }
  case 's':
  case 'S': return read_white_space(r, c, in_class);
  case 't': return PUT(r, "\\x{9}");
  case 'n': return PUT(r, "\\x{a}");
  case 'v': return PUT(r, "\\x{b}");
  case 'f': return PUT(r, "\\x{c}");
  case 'r': return PUT(r, "\\x{d}");
  case 'b': return in_class ? PUT(r, "\\x{8}") : PUT(r, "\\b");
  case 'B': return in_class ? refuse(r, "\\B inside a class") : PUT(r, "\\B");
  case 'c': return read_control(r);
  case 'u': return read_unicode(r);
  case 'x': return read_hex_pair(r);
  case 'p':
  case 'P': return read_property(r, c);
  case 'k': return in_class ? refuse(r, "\\k inside a class") : read_named_reference(r);
  case '0':
    if (r->at < r->end && idem__is_digit(*r->at)) return refuse(r, "an octal escape");
    return PUT(r, "\\x{0}");
  default: break;
  }
  if (idem__is_digit(c))
    return in_class ? refuse(r, "a digit escape inside a class") : read_back_reference(r, c);
  if (is_letter(c)) return refuse(r, "an escape that ECMA-262 does not have");
  if ((uint8_t)c >= 0x80) return put(r, &c, 1); /* the rest of the character follows by itself */
  char text[2] = {'\\', c};
  return put(r, text, 2);
}

/* ------------------------------------------------------------ classes */

static bool read_class(reader *r) {
  r->at++;
  bool negated = r->at < r->end && *r->at == '^';
  if (negated) r->at++;
  if (r->at < r->end && *r->at == ']') {
    r->at++;
    return negated ? PUT(r, "[\\x{0}-\\x{10ffff}]") : PUT(r, "(?!)");
  }
  if (negated)
    PUT(r, "[^");
  else
    PUT(r, "[");
  while (r->at < r->end && *r->at != ']' && r->status == IDEM_OK) {
    if (*r->at == '\\') {
      read_escape(r, true);
    } else if (*r->at == '[') { /* PCRE2 would look for [:alpha:] */
      PUT(r, "\\[");
      r->at++;
    } else {
      put(r, r->at++, 1);
    }
  }
  if (r->at == r->end) return refuse(r, "a class without its closing bracket");
  r->at++;
  return PUT(r, "]");
}

/* ----------------------------------------------- groups and repeats */

static bool is_quantifier(const char *at, const char *end, size_t *len) {
  const char *p = at + 1;
  const char *digits = p;
  while (p < end && idem__is_digit(*p)) p++;
  if (p == digits) return false;
  if (p < end && *p == ',')
    for (p++; p < end && idem__is_digit(*p);) p++;
  if (p == end || *p != '}') return false;
  *len = (size_t)(p + 1 - at);
  return true;
}

static bool read_repeat(reader *r, bool *repeatable) {
  size_t len = 1;
  if (*r->at == '{' && !is_quantifier(r->at, r->end, &len)) { /* a plain brace */
    r->at++;
    *repeatable = true;
    return PUT(r, "\\{");
  }
  if (!*repeatable) return refuse(r, "nothing to repeat");
  *repeatable = false;
  put(r, r->at, len);
  r->at += len;
  if (r->at < r->end && *r->at == '?') put(r, r->at++, 1);
  return r->status == IDEM_OK;
}

static bool read_group(reader *r) {
  static const char *const known[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?<"};
  r->depth++;
  if (r->end - r->at < 2 || r->at[1] != '?') {
    r->at++;
    return PUT(r, "(");
  }
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    size_t len = strlen(known[i]);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, known[i], len) != 0) continue;
    put(r, r->at, len);
    r->at += len;
    if (i < 5) return true;
    while (r->at < r->end && *r->at != '>') put(r, r->at++, 1);
    if (r->at == r->end) return refuse(r, "a group name without its end");
    return put(r, r->at++, 1);
  }
  return refuse(r, "a group that ECMA-262 does not have");
}

static void read_one(reader *r, bool *repeatable) {
  char c = *r->at;
  bool was_repeatable = *repeatable;
  *repeatable = true;
  switch (c) {
  case '\\': read_escape(r, false); return;
  case '[': read_class(r); return;
  case '.':
    PUT(r, "[^\\x{a}\\x{d}\\x{2028}\\x{2029}]");
    r->at++;
    return;
  case '(':
    *repeatable = false;
    read_group(r);
    return;
  case ')':
    if (r->depth == 0)
      refuse(r, "a closing parenthesis too many");
    else
      r->depth--;
    break;
  case '*':
  case '+':
  case '?':
  case '{':
    *repeatable = was_repeatable;
    read_repeat(r, repeatable);
    return;
  case ']':
  case '}': PUT(r, "\\"); break;
  case '|':
  case '^':
  case '$': *repeatable = false; break;
  default: break;
  }
  put(r, r->at++, 1);
}

idem_status idem__ecma_translate(const char *text, size_t len, idem_buf *out, const char **why) {
  reader r = {.at = text, .end = text + len, .out = out};
  bool repeatable = false;
  if (len && memchr(text, 0, len)) refuse(&r, "a NUL character");
  while (r.at < r.end && r.status == IDEM_OK) read_one(&r, &repeatable);
  if (r.depth) refuse(&r, "a group without its closing parenthesis");
  *why = r.why;
  return r.status;
}
