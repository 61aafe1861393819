/* template.c - compiling templates: "{name}" is an argument, "{{" and "}}" are braces.
 * What becomes of them at a call is in expand.c. */
#include "template.h"

#include <ctype.h>
#include <string.h>

static bool is_name_char(char c) { return isalnum((unsigned char)c) || c == '_' || c == '-'; }

static void add_piece(word_template *self, const char *text, size_t len, bool is_name) {
  if (len) self->pieces[self->count++] = (piece){text, (uint32_t)len, is_name};
}

/* Reads "name}" behind a brace; returns its length with the brace, 0 if it is none. */
static size_t name_length(const char *text, const char *end) {
  const char *at = text;
  while (at < end && is_name_char(*at)) at++;
  return at > text && at < end && *at == '}' ? (size_t)(at - text) + 1 : 0;
}

/* A name, and the text before it, for each brace; the text behind them. */
static size_t most_pieces(const char *text, size_t len) {
  size_t count = 1;
  for (size_t i = 0; i < len; i++) count += text[i] == '{' || text[i] == '}' ? 2 : 0;
  return count;
}

const char *word_compile(word_template *self, const char *text, size_t len, config_memory *memory) {
  const char *end = text + len, *start = text;
  if (memchr(text, 0, len)) return "holds a NUL character";
  *self = (word_template){.pieces = memory_zeroed(memory, most_pieces(text, len), sizeof(piece))};
  for (const char *at = text; at < end;) {
    if (*at != '{' && *at != '}') {
      at++;
      continue;
    }
    add_piece(self, start, (size_t)(at - start), false);
    size_t taken = *at == '{' ? name_length(at + 1, end) : 0;
    if (at + 1 < end && at[1] == *at) {
      add_piece(self, at, 1, false);
      at += 2;
    } else if (taken) {
      add_piece(self, at + 1, taken - 1, true);
      at += 1 + taken;
    } else {
      return "has a brace that belongs to no {name}; write {{ or }} for the character";
    }
    start = at;
  }
  add_piece(self, start, (size_t)(end - start), false);
  memory_give_back(memory, self->pieces, self->count * sizeof(piece));
  return NULL;
}

static const char *compile_words(word_template **words, uint32_t *count, yyjson_val *value,
                                 config_memory *memory, yyjson_val **at) {
  yyjson_val *item;
  size_t i, max;
  *at = value;
  *count = yyjson_is_arr(value) ? (uint32_t)yyjson_arr_size(value) : 1;
  *words = memory_zeroed(memory, *count, sizeof(word_template));
  if (yyjson_is_str(value))
    return word_compile(*words, yyjson_get_str(value), yyjson_get_len(value), memory);
  yyjson_arr_foreach(value, i, max, item) {
    *at = item;
    const char *why =
        word_compile(&(*words)[i], yyjson_get_str(item), yyjson_get_len(item), memory);
    if (why) return why;
  }
  return NULL;
}

static const char *compile_slot(slot *self, yyjson_val *value, config_memory *memory,
                                yyjson_val **at) {
  if (!yyjson_is_obj(value)) return compile_words(&self->words, &self->count, value, memory, at);
  yyjson_val *otherwise = yyjson_obj_get(value, "else");
  self->condition = yyjson_get_str(yyjson_obj_get(value, "if"));
  const char *why =
      compile_words(&self->words, &self->count, yyjson_obj_get(value, "then"), memory, at);
  if (!why && otherwise)
    why = compile_words(&self->otherwise, &self->otherwise_count, otherwise, memory, at);
  return why;
}

static bool is_dashes(const slot *self) {
  if (self->condition || self->count != 1 || self->words[0].count != 1) return false;
  const piece *only = self->words[0].pieces;
  return !only->is_name && only->len == 2 && memcmp(only->text, "--", 2) == 0;
}

const char *template_compile(arguments_template *self, yyjson_val *array, config_memory *memory,
                             yyjson_val **at) {
  yyjson_val *item;
  size_t i, max;
  bool after_dashes = false;
  self->count = yyjson_arr_size(array);
  self->slots = memory_zeroed(memory, self->count, sizeof(slot));
  yyjson_arr_foreach(array, i, max, item) {
    const char *why = compile_slot(&self->slots[i], item, memory, at);
    if (why) return why;
    self->slots[i].after_dashes = after_dashes;
    after_dashes = after_dashes || is_dashes(&self->slots[i]);
  }
  return NULL;
}

/* -------------------------------------------------------------------------- names */

bool word_names(const word_template *self, name_fn see, void *user) {
  for (size_t i = 0; i < self->count; i++)
    if (self->pieces[i].is_name && !see(user, self->pieces[i].text, self->pieces[i].len))
      return false;
  return true;
}

static bool words_names(const word_template *words, size_t count, name_fn see, void *user) {
  for (size_t i = 0; i < count; i++)
    if (!word_names(&words[i], see, user)) return false;
  return true;
}

bool template_names(const arguments_template *self, name_fn see, void *user) {
  for (size_t i = 0; i < self->count; i++) {
    const slot *at = &self->slots[i];
    if (at->condition && !see(user, at->condition, strlen(at->condition))) return false;
    if (!words_names(at->words, at->count, see, user)) return false;
    if (!words_names(at->otherwise, at->otherwise_count, see, user)) return false;
  }
  return true;
}
