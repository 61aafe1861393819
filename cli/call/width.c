/* width.c - how many columns of a terminal a text takes: letters of East Asia and faces take two, marks that sit on another
 * letter none. Unicode's tables in the ranges that matter; one that is not there takes one column. */
#include "text.h"

#include <stdint.h>
#include <string.h>

typedef struct range {
  uint32_t from, to;
} range;

static const range marks[] = {
    {0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},   {0x64b, 0x65f},
    {0x900, 0x902},   {0xe31, 0xe31},   {0xe34, 0xe3a},   {0xe47, 0xe4e},   {0x1ab0, 0x1aff},
    {0x1dc0, 0x1dff}, {0x200b, 0x200f}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}};

static const range wide[] = {
    {0x1100, 0x115f},  {0x231a, 0x231b}, {0x23e9, 0x23ec},   {0x26a1, 0x26a1},   {0x2705, 0x2705},
    {0x274c, 0x274c},  {0x2e80, 0x303e}, {0x3041, 0x33ff},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},
    {0xa000, 0xa4cf},  {0xa960, 0xa97c}, {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6b},
    {0xff01, 0xff60},  {0xffe0, 0xffe6}, {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff},
    {0x20000, 0x3fffd}};

static bool is_in(const range *list, size_t count, uint32_t code) {
  for (size_t i = 0; i < count; i++)
    if (code >= list[i].from && code <= list[i].to) return true;
  return false;
}

static size_t columns_of(uint32_t code) {
  if (code < 0x300) return 1;
  if (is_in(marks, sizeof marks / sizeof *marks, code)) return 0;
  return is_in(wide, sizeof wide / sizeof *wide, code) ? 2 : 1;
}

/* The character that begins here, and how many bytes it has; the text is UTF-8. */
static size_t next(const unsigned char *at, size_t left, uint32_t *code) {
  size_t len = *at < 0xc0 ? 1 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
  if (len > left) len = left;
  *code = len == 1 ? *at : *at & (0x7fu >> len);
  for (size_t i = 1; i < len; i++) *code = *code << 6 | (at[i] & 0x3fu);
  return len;
}

/* How many bytes fit into so many columns. */
static size_t fitting(const char *data, size_t len, size_t columns) {
  size_t used = 0, i = 0;
  while (i < len) {
    uint32_t code;
    size_t bytes = next((const unsigned char *)data + i, len - i, &code);
    used += columns_of(code);
    if (used > columns) return i;
    i += bytes;
  }
  return len;
}

size_t text_width(const char *data, size_t len) {
  size_t width = 0;
  for (size_t i = 0; i < len;) {
    uint32_t code;
    i += next((const unsigned char *)data + i, len - i, &code);
    width += columns_of(code);
  }
  return width;
}

void text_escape_fit(text *self, const char *data, size_t len, size_t columns) {
  text shown = {.data = NULL};
  text_escape_cut(&shown, data, len, columns * 4);
  size_t fits = fitting(shown.data ? shown.data : "", shown.len, columns);
  if (fits < shown.len) fits = fitting(shown.data, shown.len, columns > 3 ? columns - 3 : 0);
  bool cut = fits < shown.len;
  text_put(self, shown.data, fits);
  if (cut) text_puts(self, "...");
  text_free(&shown);
}

void text_pad(text *self, size_t from, size_t column) {
  size_t width = text_width(self->data + from, self->len - from);
  do text_puts(self, " ");
  while (++width < column);
}
