/* expand.c - a template and the arguments of one call become words.
 * An absent argument takes the whole slot with it; a list repeats its slot; one value is always a
 * part of one word. What could be read as an option is refused. */
#include "template.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool template_refuse(template_fault *fault, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(fault->sentence, sizeof fault->sentence, format, arguments);
  va_end(arguments);
  return false;
}

/* ------------------------------------------------------------------------- values */

static yyjson_val *value_of(const values *from, const piece *name) {
  yyjson_val *value = yyjson_obj_getn(from->arguments, name->text, name->len);
  return yyjson_is_null(value) ? NULL : value;
}

static bool put(idem_buf *out, const char *text, size_t len, const piece *name,
                template_fault *fault) {
  if (memchr(text, 0, len))
    return template_refuse(fault, "arguments.%.*s: must not hold a NUL character", (int)name->len,
                           name->text);
  if (idem_buf_put(out, text, len) == IDEM_OK) return true;
  return template_refuse(
      fault, "arguments.%.*s: too long to be an argument of a program (%zu bytes at most)",
      (int)name->len, name->text, out->max);
}

const char *whole_number_text(yyjson_val *value, char room[24]) {
  double number = yyjson_is_real(value) ? yyjson_get_real(value) : 0.5;
  if (!(number >= -9007199254740992.0 && number <= 9007199254740992.0)) return NULL;
  if ((double)(int64_t)number != number) return NULL;
  snprintf(room, 24, "%lld", (long long)number);
  return room;
}

/* Strings as they are, everything else as JSON writes it; whole numbers as integers. */
static bool put_value(idem_buf *out, yyjson_val *value, const piece *name, template_fault *fault) {
  char room[24];
  const char *whole = whole_number_text(value, room);
  if (whole) return put(out, whole, strlen(whole), name, fault);
  if (yyjson_is_str(value))
    return put(out, yyjson_get_str(value), yyjson_get_len(value), name, fault);
  if (yyjson_is_raw(value))
    return put(out, yyjson_get_raw(value), yyjson_get_len(value), name, fault);
  size_t len = 0;
  char *text = yyjson_val_write(value, 0, &len);
  bool fine = text ? put(out, text, len, name, fault) : template_refuse(fault, "out of memory");
  free(text);
  return fine;
}

/* `item` stands for a list's turn; NULL where the slot holds no list. */
static bool render(const word_template *self, const values *from, yyjson_val *item, idem_buf *out,
                   template_fault *fault) {
  for (size_t i = 0; i < self->count; i++) {
    const piece *at = &self->pieces[i];
    if (!at->is_name) {
      if (!put(out, at->text, at->len, at, fault)) return false;
      continue;
    }
    const char *instead = from->replace ? from->replace(from->user, at->text, at->len) : NULL;
    yyjson_val *value = value_of(from, at);
    if (item && yyjson_is_arr(value)) value = item;
    if (instead ? !put(out, instead, strlen(instead), at, fault)
                : value && !put_value(out, value, at, fault))
      return false;
  }
  return true;
}

bool word_render(const word_template *self, const values *from, idem_buf *out,
                 template_fault *fault) {
  return render(self, from, NULL, out, fault);
}

/* -------------------------------------------------------------------------- words */

/* For one more and the NULL. A call that waits holds its words, so they take what they need. */
static bool make_room(word_list *list) {
  if (list->count + 2 <= list->capacity) return true;
  size_t wanted = list->capacity ? list->capacity * 2 : 8;
  char **items = realloc(list->items, wanted * sizeof *items);
  if (!items) return false;
  list->items = items;
  list->capacity = wanted;
  return true;
}

bool word_list_add(word_list *list, const char *text, size_t len, template_fault *fault) {
  if (list->count == WORDS_MAX || list->bytes + len > WORDS_BYTES_MAX)
    return template_refuse(fault,
                           "arguments: more than a program can be given (%u words, %zu bytes)",
                           WORDS_MAX, WORDS_BYTES_MAX);
  char *copy = make_room(list) ? malloc(len + 1) : NULL;
  if (!copy) return template_refuse(fault, "out of memory");
  if (len) memcpy(copy, text, len);
  copy[len] = 0;
  list->items[list->count++] = copy;
  list->items[list->count] = NULL;
  list->bytes += len;
  return true;
}

void word_list_free(word_list *self) {
  for (size_t i = 0; i < self->count; i++) free(self->items[i]);
  free(self->items);
  *self = (word_list){.items = NULL};
}

static bool is_number(yyjson_val *value) { return yyjson_is_num(value) || yyjson_is_raw(value); }

/* A number right after its option, as in ["--offset", "{offset}"], may be negative. */
static bool may_begin_with_dash(const slot *within, size_t index, yyjson_val *value) {
  return within->after_dashes || (index > 0 && is_number(value));
}

static bool add_word(const slot *within, const word_template *words, size_t index,
                     const values *from, yyjson_val *item, word_list *out, template_fault *fault) {
  const word_template *self = &words[index];
  idem_buf text;
  idem_buf_init(&text, NULL, WORD_MAX);
  bool fine = render(self, from, item, &text, fault);
  if (fine && self->count && self->pieces[0].is_name && text.len && text.data[0] == '-') {
    const piece *name = self->pieces;
    yyjson_val *value = value_of(from, name);
    if (!may_begin_with_dash(within, index, item && yyjson_is_arr(value) ? item : value))
      fine = template_refuse(
          fault, "arguments.%.*s: must not begin with '-': it would be taken for an option",
          (int)name->len, name->text);
  }
  fine = fine && word_list_add(out, text.data, text.len, fault);
  idem_buf_deinit(&text);
  return fine;
}

static bool add_words(const slot *within, const word_template *words, size_t count,
                      const values *from, yyjson_val *item, word_list *out, template_fault *fault) {
  for (size_t i = 0; i < count; i++)
    if (!add_word(within, words, i, from, item, out, fault)) return false;
  return true;
}

/* ------------------------------------------------------------------------- slots */

typedef struct survey {
  const values *from;
  bool absent;
  yyjson_val *list; /* the first argument of the words that is a list */
  const char *list_name;
  bool two_lists;
} survey;

static bool look(void *user, const char *name, size_t len) {
  survey *self = user;
  yyjson_val *value = value_of(self->from, &(piece){name, (uint32_t)len, true});
  if (!value) self->absent = true;
  if (!yyjson_is_arr(value)) return true;
  if (self->list && self->list != value) self->two_lists = true;
  self->list = value;
  self->list_name = name;
  return true;
}

static bool expand_words(const slot *within, const word_template *words, size_t count,
                         const values *from, word_list *out, template_fault *fault) {
  survey seen = {.from = from};
  for (size_t i = 0; i < count; i++) word_names(&words[i], look, &seen);
  if (seen.absent) return true;
  if (seen.two_lists) return template_refuse(fault, "arguments: two lists cannot share one place");
  if (!seen.list) return add_words(within, words, count, from, NULL, out, fault);
  yyjson_val *item;
  size_t i, max;
  yyjson_arr_foreach(seen.list, i, max, item) {
    if (!add_words(within, words, count, from, item, out, fault)) return false;
  }
  return true;
}

static bool expand_slot(const slot *self, const values *from, word_list *out,
                        template_fault *fault) {
  bool holds = true;
  if (self->condition) {
    piece name = {self->condition, (uint32_t)strlen(self->condition), true};
    yyjson_val *value = value_of(from, &name);
    holds = value && !yyjson_is_false(value);
  }
  return holds ? expand_words(self, self->words, self->count, from, out, fault)
               : expand_words(self, self->otherwise, self->otherwise_count, from, out, fault);
}

bool template_expand(const arguments_template *self, const values *from, word_list *out,
                     template_fault *fault) {
  *out = (word_list){.items = NULL};
  for (size_t i = 0; i < self->count; i++)
    if (!expand_slot(&self->slots[i], from, out, fault)) return false;
  return true;
}
