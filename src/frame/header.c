/* header.c - reading one header line of Content-Length framing, and finding one in damage.
 * Three headers matter: the length, the type, and those only a browser sends. Everything here
 * looks at each byte once and holds nothing. See docs/internals/frame.md. */
#include "parts.h"

#include <string.h>

/* Lengths from 2^63 on overflow somebody's integer, so we refuse them as the number they are. */
#define MAX_LENGTH ((uint64_t)INT64_MAX)

typedef struct span {
  const char *text;
  size_t len;
} span;

static bool is_blank(char byte) { return byte == ' ' || byte == '\t'; }
static char lower(char byte) { return byte >= 'A' && byte <= 'Z' ? (char)(byte + 32) : byte; }

static bool is(span text, const char *name) {
  return idem__text_equal_nocase(text.text, text.len, name, strlen(name));
}

static span trim(span text) {
  for (; text.len && is_blank(text.text[0]); text.len--) text.text++;
  while (text.len && is_blank(text.text[text.len - 1])) text.len--;
  return text;
}

/* Splits at the first `byte`: returns what is before it and leaves what is after it. */
static span cut(span *text, char byte) {
  const char *at = memchr(text->text, byte, text->len);
  span before = {text->text, at ? (size_t)(at - text->text) : text->len};
  size_t gone = before.len + (at != NULL);
  text->text += gone;
  text->len -= gone;
  return before;
}

bool idem__frame_is_token(char byte) {
  if (idem__is_digit(byte) || (lower(byte) >= 'a' && lower(byte) <= 'z')) return true;
  return byte && strchr("!#$%&'*+-.^_`|~", byte) != NULL;
}

/* ---------------------------------------------------------------------- length */

/* Adds a digit; false when the number passes MAX_LENGTH. */
static bool add_digit(uint64_t *value, char digit) {
  uint64_t unit = (uint64_t)(digit - '0');
  if (*value > (MAX_LENGTH - unit) / 10) return false;
  *value = *value * 10 + unit;
  return true;
}

static bool parse_length(span value, uint64_t *length) {
  uint64_t number = 0;
  if (value.len == 0) return false;
  for (size_t i = 0; i < value.len; i++)
    if (!idem__is_digit(value.text[i]) || !add_digit(&number, value.text[i])) return false;
  *length = number;
  return true;
}

/* ------------------------------------------------------------------------ type */

/* One parameter value, up to the `;` after it; a quoted one loses its quotes. False when a quote
 * is left open or something follows the closing one. A backslash inside quotes is kept: no charset
 * that we accept needs one. */
static bool parameter_value(span *rest, span *value) {
  *rest = trim(*rest);
  if (rest->len == 0 || rest->text[0] != '"') {
    *value = trim(cut(rest, ';'));
    return true;
  }
  size_t end = 1;
  while (end < rest->len && rest->text[end] != '"') end += rest->text[end] == '\\' ? 2 : 1;
  if (end >= rest->len) return false;
  *value = (span){rest->text + 1, end - 1};
  rest->text += end + 1;
  rest->len -= end + 1;
  return trim(cut(rest, ';')).len == 0;
}

static idem__header_kind check_type(span value) {
  if (!is(trim(cut(&value, ';')), "application/vscode-jsonrpc")) return IDEM__HEADER_BAD_TYPE;
  while (trim(value).len) {
    span before = value;
    span name = cut(&value, '=');
    if (memchr(name.text, ';', name.len)) { /* a parameter without a value */
      value = before;
      name = cut(&value, ';');
      if (is(trim(name), "charset")) return IDEM__HEADER_BAD_CHARSET;
      continue;
    }
    bool charset = is(trim(name), "charset");
    span text = {NULL, 0};
    if (!parameter_value(&value, &text))
      return charset ? IDEM__HEADER_BAD_CHARSET : IDEM__HEADER_BAD_TYPE;
    if (charset && !is(text, "utf-8") && !is(text, "utf8")) return IDEM__HEADER_BAD_CHARSET;
  }
  return IDEM__HEADER_TYPE;
}

/* ------------------------------------------------------------------------ line */

static idem__header_kind check_length(span value, uint64_t *length) {
  return parse_length(trim(value), length) ? IDEM__HEADER_LENGTH : IDEM__HEADER_BAD_LENGTH;
}

idem__header_kind idem__frame_header(const char *line, size_t len, uint64_t *length) {
  /* The spelling everybody sends is most of the cost of a small frame: compare it whole. */
  static const char usual[] = "Content-Length:";
  size_t usual_len = sizeof usual - 1;
  if (len >= usual_len && memcmp(line, usual, usual_len) == 0)
    return check_length((span){line + usual_len, len - usual_len}, length);
  size_t name_len = 0;
  while (name_len < len && idem__frame_is_token(line[name_len])) name_len++;
  if (name_len == 0 || name_len == len || line[name_len] != ':') return IDEM__HEADER_MALFORMED;
  span name = {line, name_len};
  span value = {line + name_len + 1, len - name_len - 1};
  if (is(name, "content-length")) return check_length(value, length);
  if (is(name, "content-type")) return check_type(value);
  if (is(name, "host") || is(name, "origin")) return IDEM__HEADER_BROWSER;
  return IDEM__HEADER_OTHER;
}

/* ------------------------------------------------------------------------ sync */

static const char sync_name[] = "content-length:";
enum {
  SYNC_NAME_LEN = sizeof sync_name - 1,
  SYNC_BLANKS = SYNC_NAME_LEN, /* the whole name was read; blanks, then a digit */
  SYNC_DIGITS,
  SYNC_BLANKS_AFTER,
  SYNC_CR
};

/* The name holds only one `c`, its first letter, so a search that fails starts anew at this byte.
 */
static bool sync_restart(idem__frame_sync *sync, char byte) {
  sync->matched = lower(byte) == sync_name[0];
  return false;
}

static bool sync_goto(idem__frame_sync *sync, unsigned matched) {
  sync->matched = matched;
  return false;
}

/* After at least one digit: more digits, blanks, the line end. */
static bool sync_tail(idem__frame_sync *sync, char byte) {
  if (byte == '\n') return true;
  if (sync->matched == SYNC_CR) return sync_restart(sync, byte);
  if (byte == '\r') return sync_goto(sync, SYNC_CR);
  if (is_blank(byte)) return sync_goto(sync, SYNC_BLANKS_AFTER);
  if (sync->matched == SYNC_DIGITS && idem__is_digit(byte) && add_digit(&sync->value, byte))
    return false;
  return sync_restart(sync, byte);
}

bool idem__frame_sync_step(idem__frame_sync *sync, char byte) {
  if (sync->matched < SYNC_NAME_LEN) {
    if (lower(byte) != sync_name[sync->matched]) return sync_restart(sync, byte);
    return sync_goto(sync, sync->matched + 1);
  }
  if (sync->matched > SYNC_BLANKS) return sync_tail(sync, byte);
  if (is_blank(byte)) return false;
  if (!idem__is_digit(byte)) return sync_restart(sync, byte);
  sync->value = (uint64_t)(byte - '0');
  return sync_goto(sync, SYNC_DIGITS);
}
