/* chance.c - numbers from a seed, and texts that are changed by them. */
#include "attack.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

uint64_t chance_mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t chance_next(chance *luck) {
  luck->state += 0x9e3779b97f4a7c15u;
  return chance_mix(luck->state, 0);
}

unsigned chance_below(chance *luck, unsigned bound) {
  return (unsigned)((chance_next(luck) >> 33) % bound);
}

bool chance_one_in(chance *luck, unsigned count) { return chance_below(luck, count) == 0; }

/* -------------------------------------------------------------------------- texts */

static void text_room(text *of, size_t more) {
  if (of->len + more + 1 <= of->cap) return;
  of->cap = (of->len + more + 1) * 2;
  of->data = realloc(of->data, of->cap);
  if (!of->data) abort();
}

void text_add(text *to, const char *data, size_t len) {
  text_room(to, len);
  if (len) memcpy(to->data + to->len, data, len);
  to->len += len;
  to->data[to->len] = 0;
}

void text_printf(text *to, const char *format, ...) {
  va_list list, again;
  va_start(list, format);
  va_copy(again, list);
  int len = vsnprintf(NULL, 0, format, list);
  va_end(list);
  if (len < 0) abort();
  text_room(to, (size_t)len);
  vsnprintf(to->data + to->len, (size_t)len + 1, format, again);
  va_end(again);
  to->len += (size_t)len;
}

void text_cut(text *of, size_t from_begin) {
  if (!of->data) return;
  of->len -= from_begin;
  memmove(of->data, of->data + from_begin, of->len);
  of->data[of->len] = 0;
}

void text_free(text *of) {
  free(of->data);
  *of = (text){.data = NULL};
}

/* ---------------------------------------------------------------------- mutations */

static void insert(text *of, size_t at, const char *data, size_t len) {
  text_room(of, len);
  memmove(of->data + at + len, of->data + at, of->len - at + 1);
  memcpy(of->data + at, data, len);
  of->len += len;
}

static void remove_bytes(text *of, size_t at, size_t len) {
  memmove(of->data + at, of->data + at + len, of->len - at - len + 1);
  of->len -= len;
}

static void replace_byte(text *of, size_t at, chance *luck, bool keep_lines) {
  char byte = (char)chance_below(luck, 256);
  if (keep_lines && (of->data[at] == '\n' || byte == '\n')) return;
  of->data[at] = byte;
}

static void insert_something(text *of, size_t at, chance *luck) {
  static const char *const pieces[] = {
      "\"",    "\\", "{", "}",    "[",    "]",      ",",  ":",    "\\u0000",      "\\ud800",
      "1e999", "-",  "0", "null", "\xff", "\r",     "\t", "\x7f", "\xc3",         " ",
      ";",     "=",  "a", "9",    "\x01", "\"id\"", "//", "\0",   "\xef\xbb\xbf", "chunked",
      "close"};
  const char *piece = CHANCE_OF(luck, pieces);
  insert(of, at, piece, *piece ? strlen(piece) : 1);
}

static void repeat_something(text *of, size_t at, chance *luck, bool keep_lines) {
  size_t len = chance_below(luck, 24) + 1;
  char copy[32];
  if (len > of->len - at) len = of->len - at;
  memcpy(copy, of->data + at, len);
  if (keep_lines && memchr(copy, '\n', len)) return;
  for (unsigned i = chance_below(luck, 4) + 1; i; i--) insert(of, at, copy, len);
}

static void remove_something(text *of, size_t at, chance *luck, bool keep_lines) {
  size_t len = chance_below(luck, 8) + 1;
  if (len > of->len - at) len = of->len - at;
  if (keep_lines && memchr(of->data + at, '\n', len)) return;
  remove_bytes(of, at, len);
}

void text_mutate(text *of, chance *luck, bool keep_lines) {
  for (unsigned i = chance_below(luck, 4) + 1; i && of->len; i--) {
    size_t at = chance_below(luck, (unsigned)of->len);
    switch (chance_below(luck, 5)) {
    case 0: replace_byte(of, at, luck, keep_lines); break;
    case 1: insert_something(of, at, luck); break;
    case 2: repeat_something(of, at, luck, keep_lines); break;
    case 3: remove_something(of, at, luck, keep_lines); break;
    default:
      if (!keep_lines && chance_one_in(luck, 4)) remove_bytes(of, at, of->len - at);
    }
  }
}
