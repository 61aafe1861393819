/* text.c - see text.h. */
#include "text.h"

#include "config/memory.h"

#include <idem/text.h>

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ----------------------------------------------------------------------- growing */

static void make_room(text *self, size_t more) {
  if (more >= SIZE_MAX / 2 - self->len) memory_exhausted();
  size_t wanted = self->len + more + 1;
  if (wanted <= self->room) return;
  size_t room = self->room * 2 > wanted ? self->room * 2 : wanted + 64;
  char *data = realloc(self->data, room);
  if (!data) memory_exhausted();
  self->data = data;
  self->room = room;
}

void text_put(text *self, const char *data, size_t len) {
  make_room(self, len);
  if (len) memcpy(self->data + self->len, data, len);
  self->len += len;
  self->data[self->len] = 0;
}

void text_puts(text *self, const char *words) { text_put(self, words, strlen(words)); }

void text_printf(text *self, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int len = vsnprintf(NULL, 0, format, args);
  if (len > 0) {
    make_room(self, (size_t)len);
    vsnprintf(self->data + self->len, (size_t)len + 1, format, again);
    self->len += (size_t)len;
  }
  va_end(again);
  va_end(args);
}

void text_free(text *self) {
  free(self->data);
  *self = (text){.data = NULL};
}

/* ---------------------------------------------------------------------- escaping */

/* The character at data[0..len) and its bytes; 0: these are no UTF-8. */
static size_t decode(const unsigned char *data, size_t len, uint32_t *code) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t more = data[0] < 0x80                      ? 1
                : data[0] >= 0xc2 && data[0] < 0xe0 ? 2
                : data[0] >= 0xe0 && data[0] < 0xf0 ? 3
                : data[0] >= 0xf0 && data[0] < 0xf5 ? 4
                                                    : 0;
  if (!more || more > len) return 0;
  *code = more == 1 ? data[0] : data[0] & (0x7fu >> more);
  for (size_t i = 1; i < more; i++) {
    if ((data[i] & 0xc0) != 0x80) return 0;
    *code = *code << 6 | (data[i] & 0x3fu);
  }
  bool fine = *code >= least[more] && *code <= 0x10ffff && (*code < 0xd800 || *code > 0xdfff);
  return fine ? more : 0;
}

static bool is_dangerous(uint32_t code) {
  if (code < 0x20 || (code >= 0x7f && code <= 0x9f)) return true;
  if (code < 0x61c) return code == 0xad;
  return code == 0x61c || code == 0x180e || (code >= 0x200b && code <= 0x200f) ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) ||
         code == 0xfeff || (code >= 0xe0000 && code <= 0xe0fff);
}

/* Zero-width joiners are parts of letters and faces in many scripts. */
static bool may_stay(uint32_t code, text_form form) {
  if (form == TEXT_LINES && (code == '\n' || code == '\t')) return true;
  return code == 0x200c || code == 0x200d || !is_dangerous(code);
}

static void put_escape(text *self, uint32_t code) {
  switch (code) {
  case '\n': text_puts(self, "\\n"); break;
  case '\r': text_puts(self, "\\r"); break;
  case '\t': text_puts(self, "\\t"); break;
  default: text_printf(self, code < 0x80 ? "\\x%02x" : "\\u{%04x}", (unsigned)code);
  }
}

static size_t put_character(text *self, const char *data, size_t len, text_form form) {
  uint32_t code = 0;
  size_t used = decode((const unsigned char *)data, len, &code);
  if (!used)
    text_printf(self, "\\x%02x", (unsigned)(unsigned char)*data);
  else if (may_stay(code, form))
    text_put(self, data, used);
  else if (!(code == '\r' && form == TEXT_LINES && len > 1 && data[1] == '\n'))
    put_escape(self, code);
  return used ? used : 1;
}

static size_t plain_run(const char *data, size_t len) {
  size_t i = 0;
  while (i < len && data[i] >= 0x20 && data[i] < 0x7f) i++;
  return i;
}

void text_escape(text *self, const char *data, size_t len, text_form form) {
  for (size_t i = 0; i < len;) {
    size_t run = plain_run(data + i, len - i);
    if (run) text_put(self, data + i, run);
    i += run;
    if (i < len) i += put_character(self, data + i, len - i, form);
  }
}

static const idem_log *keeper;

void text_hide_by(const idem_log *log) { keeper = log; }

void text_put_hidden(text *self, const char *data, size_t len) {
  idem_buf clean;
  idem_buf_init(&clean, NULL, 16 * len + 64); /* each letter may become "[redacted]" */
  if (keeper && len && idem_log_hide(keeper, &clean, data, len) != IDEM_OK) memory_exhausted();
  text_put(self, keeper ? clean.data : data, keeper ? clean.len : len);
  idem_buf_deinit(&clean);
}

static void escape_cut(text *self, const text *from, size_t max) {
  size_t begin = self->len, i = 0;
  while (i < from->len) {
    size_t before = self->len;
    i += put_character(self, from->data + i, from->len - i, TEXT_LINE);
    if (self->len - begin <= max) continue;
    self->len = before;
    text_puts(self, "...");
    return;
  }
}

void text_escape_cut(text *self, const char *data, size_t len, size_t max) {
  text shown = {.data = NULL};
  text_put_hidden(&shown, data, len);
  escape_cut(self, &shown, max);
  text_free(&shown);
}

void text_show(FILE *out, const char *data, size_t len) {
  text clean = {.data = NULL}, shown = {.data = NULL};
  if (out == stderr) {
    text_put_hidden(&clean, data, len);
    data = clean.data, len = clean.len;
  }
  if (isatty(fileno(out))) {
    text_escape(&shown, data, len, TEXT_LINES);
    data = shown.data, len = shown.len;
  }
  if (len) fwrite(data, 1, len, out);
  text_free(&shown);
  text_free(&clean);
}

void text_show_line(FILE *out, const char *data, size_t len, size_t max) {
  text shown = {.data = NULL};
  text_escape_cut(&shown, data, len, max);
  if (shown.len) fwrite(shown.data, 1, shown.len, out);
  text_free(&shown);
}

/* ------------------------------------------------------------------------ base64 */

/* In either alphabet, padded or not: a server may have been careless, and its bytes are still to be seen. */
bool text_base64(text *self, const char *data, size_t len) {
  idem_buf digits, bytes;
  while (len && data[len - 1] == '=') len--;
  idem_buf_init(&digits, NULL, len + 1);
  idem_buf_init(&bytes, NULL, len + 1);
  if (idem_buf_put(&digits, data, len) != IDEM_OK) memory_exhausted();
  for (size_t i = 0; i < len; i++)
    if (data[i] == '+' || data[i] == '/') digits.data[i] = data[i] == '+' ? '-' : '_';
  idem_status status = idem_base64_decode(&bytes, digits.data, len, IDEM_BASE64_URL);
  if (status == IDEM_E_NOMEM) memory_exhausted();
  if (status == IDEM_OK) text_put(self, bytes.data, bytes.len);
  idem_buf_deinit(&digits);
  idem_buf_deinit(&bytes);
  return status == IDEM_OK;
}
