/* text.c - UTF-8 and the escaping of what a peer sent.
 * Whatever reaches a log line or a metric passes through here first, so that no byte of it can end
 * a line, move a cursor or turn the reading direction. See docs/internals/base.md. */
#include "base.h"

#include <string.h>

/* --------------------------------------------------------------- UTF-8 */

static inline bool continues(unsigned char byte) { return (byte & 0xc0) == 0x80; }

/* Sequences of three and four bytes: the second byte's range depends on the first (no overlong
 * forms, no surrogates, nothing past U+10FFFF). */
static bool second_byte_fits(unsigned char first, unsigned char second) {
  if (first == 0xe0) return second >= 0xa0 && second <= 0xbf;
  if (first == 0xed) return second >= 0x80 && second <= 0x9f;
  if (first == 0xf0) return second >= 0x90 && second <= 0xbf;
  if (first == 0xf4) return second >= 0x80 && second <= 0x8f;
  return continues(second);
}

size_t idem_utf8_decode(const char *text, size_t len, uint32_t *code) {
  const unsigned char *p = (const unsigned char *)text;
  if (len == 0) return 0;
  if (p[0] < 0x80) {
    *code = p[0];
    return 1;
  }
  if (p[0] < 0xc2 || p[0] > 0xf4) return 0;
  if (p[0] < 0xe0) {
    if (len < 2 || !continues(p[1])) return 0;
    *code = (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
    return 2;
  }
  size_t need = p[0] < 0xf0 ? 3 : 4;
  if (len < need || !second_byte_fits(p[0], p[1]) || !continues(p[2])) return 0;
  if (need == 3) {
    *code = (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
    return 3;
  }
  if (!continues(p[3])) return 0;
  *code = (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3f) << 12 |
          (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3f);
  return 4;
}

/* How many of the next bytes are ASCII, looking at eight at a time. */
static size_t ascii_run(const char *text, size_t len) {
  size_t i = 0;
  for (uint64_t word; len - i >= sizeof word; i += sizeof word) {
    memcpy(&word, text + i, sizeof word);
    if (word & 0x8080808080808080u) break;
  }
  while (i < len && (unsigned char)text[i] < 0x80) i++;
  return i;
}

bool idem_utf8_valid(const char *text, size_t len) {
  for (size_t i = 0; i < len;) {
    i += ascii_run(text + i, len - i);
    uint32_t code;
    while (i < len && (unsigned char)text[i] >= 0x80) {
      size_t used = idem_utf8_decode(text + i, len - i, &code);
      if (used == 0) return false;
      i += used;
    }
  }
  return true;
}

size_t idem_utf8_cut(const char *text, size_t len, size_t max) {
  if (len <= max) return len;
  size_t cut = max;
  /* A sequence has at most three continuation bytes; more of them is no UTF-8 and cut anywhere. */
  for (int back = 0; back < 3 && cut > 0 && continues((unsigned char)text[cut]); back++) cut--;
  return continues((unsigned char)text[cut]) ? max : cut;
}

bool idem__text_equal_nocase(const char *a, size_t a_len, const char *b, size_t b_len) {
  if (a_len != b_len) return false;
  if (a_len == 0 || memcmp(a, b, a_len) == 0) return true; /* nearly always */
  for (size_t i = 0; i < a_len; i++)
    if (idem__ascii_lower(a[i]) != idem__ascii_lower(b[i])) return false;
  return true;
}

void idem__text_hex(char *text, const uint8_t *bytes, size_t len) {
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < len; i++) {
    *text++ = digits[bytes[i] >> 4];
    *text++ = digits[bytes[i] & 15];
  }
  *text = '\0';
}

/* ------------------------------------------------------------ escaping */

/* C0, DEL, C1, the line and paragraph separators, and every mark that turns the direction of text:
 * U+061C, U+200E, U+200F, U+202A..U+202E, U+2066..U+2069. Also the byte order mark, which is
 * invisible. */
static bool must_escape(uint32_t code) {
  if (code < 0x20 || (code >= 0x7f && code <= 0x9f)) return true;
  if (code < 0x61c) return false;
  return code == 0x61c || code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

/* The next character at text[0..len): how many bytes it takes, and whether it may be written as it
 * is. An invalid byte takes one byte and sets *code to INVALID. */
enum { INVALID = 0x110000 };
static size_t next_character(const char *text, size_t len, uint32_t *code) {
  size_t used = idem_utf8_decode(text, len, code);
  if (used) return used;
  *code = INVALID;
  return 1;
}

#define EVERY_BYTE(value) ((value)*UINT64_C(0x0101010101010101))
static inline uint64_t zero_bytes(uint64_t word) {
  return (word - EVERY_BYTE(0x01u)) & ~word & EVERY_BYTE(0x80u);
}

/* Are these eight bytes all printable ASCII without a backslash and a quotation mark? */
static inline bool plain_word(uint64_t word) {
  uint64_t below_space = (word - EVERY_BYTE(0x20u)) & ~word;
  uint64_t marks = zero_bytes(word ^ EVERY_BYTE(0x22u)) | zero_bytes(word ^ EVERY_BYTE(0x5cu)) |
                   zero_bytes(word ^ EVERY_BYTE(0x7fu));
  return !((word | below_space | marks) & EVERY_BYTE(0x80u));
}

/* How many of the next bytes are printable ASCII that need no escape in either form. */
static size_t plain_run(const char *text, size_t len) {
  size_t i = 0;
  for (uint64_t word; len - i >= sizeof word; i += sizeof word) {
    memcpy(&word, text + i, sizeof word);
    if (!plain_word(word)) break;
  }
  while (i < len && text[i] >= 0x20 && text[i] < 0x7f && text[i] != '\\' && text[i] != '"') i++;
  return i;
}

static idem_status put_code_escape(idem_buf *out, uint32_t code, unsigned char byte) {
  switch (code) {
  case '\n': return idem_buf_puts(out, "\\n");
  case '\r': return idem_buf_puts(out, "\\r");
  case '\t': return idem_buf_puts(out, "\\t");
  case '\\': return idem_buf_puts(out, "\\\\");
  default: break;
  }
  if (code < 0x80 || code == INVALID) return idem_buf_printf(out, "\\x%02x", (unsigned)byte);
  return idem_buf_printf(out, "\\u{%04x}", (unsigned)code);
}

static idem_status put_json_escape(idem_buf *out, uint32_t code) {
  switch (code) {
  case '"': return idem_buf_puts(out, "\\\"");
  case '\\': return idem_buf_puts(out, "\\\\");
  case '\n': return idem_buf_puts(out, "\\n");
  case '\r': return idem_buf_puts(out, "\\r");
  case '\t': return idem_buf_puts(out, "\\t");
  case INVALID: return idem_buf_puts(out, "\xef\xbf\xbd");
  default: return idem_buf_printf(out, "\\u%04x", (unsigned)code);
  }
}

/* Text in either form: runs that need no escape as they are, the rest a character at a time. */
static IDEM__INLINE idem_status put_escaped(idem_buf *out, const char *text, size_t len,
                                            bool json) {
  idem_status status = IDEM_OK;
  for (size_t i = 0; i < len && status == IDEM_OK;) {
    size_t run = plain_run(text + i, len - i);
    if (run) {
      status = idem_buf_put(out, text + i, run);
      i += run;
      continue;
    }
    uint32_t code;
    size_t used = next_character(text + i, len - i, &code);
    if (code != INVALID && code != '\\' && !(json && code == '"') && !must_escape(code))
      status = idem_buf_put(out, text + i, used);
    else if (json)
      status = put_json_escape(out, code);
    else
      status = put_code_escape(out, code, (unsigned char)text[i]);
    i += used;
  }
  return status;
}

IDEM__EARLY idem_status idem_text_escape(idem_buf *out, const char *text, size_t len, size_t max) {
  size_t before = out->len, cut = idem_utf8_cut(text, len, max);
  idem_status status = put_escaped(out, text, cut, false);
  if (status == IDEM_OK && cut < len) status = idem_buf_puts(out, "...");
  if (status != IDEM_OK) out->len = before;
  return status;
}

idem_status idem_text_json_string(idem_buf *out, const char *text, size_t len) {
  size_t before = out->len;
  idem_status status = idem_buf_puts(out, "\"");
  if (status == IDEM_OK) status = put_escaped(out, text, len, true);
  if (status == IDEM_OK) status = idem_buf_puts(out, "\"");
  if (status != IDEM_OK) out->len = before;
  return status;
}

/* Whether it would end a word, or be mistaken for the mark of one. */
static bool breaks_word(uint32_t code) {
  return code == INVALID || must_escape(code) ||
         (code < 0x80 && strchr(" \"'%\\", (int)code) != NULL);
}

idem_status idem_text_word(idem_buf *out, const char *text, size_t len, size_t max) {
  size_t before = out->len, i = 0, left = max;
  idem_status status = IDEM_OK;
  while (i < len && status == IDEM_OK) {
    uint32_t code;
    size_t used = next_character(text + i, len - i, &code);
    bool breaks = breaks_word(code);
    size_t needed = breaks ? 3 * used : used;
    if (needed > left) break;
    for (size_t j = 0; breaks && j < used && status == IDEM_OK; j++)
      status = idem_buf_printf(out, "%%%02X", (unsigned)(uint8_t)text[i + j]);
    if (!breaks) status = idem_buf_put(out, text + i, used);
    left -= needed;
    i += used;
  }
  if (status == IDEM_OK && i < len) status = idem_buf_puts(out, "...");
  if (status != IDEM_OK) out->len = before;
  return status;
}
