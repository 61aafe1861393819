/* template.h - texts and argument lists with {name} where a value goes.
 * A value is always a part of one word: it can neither become two words nor, unless the template
 * says `--` before it, an option. No shell is involved anywhere. See docs/internals/cli.md. */
#ifndef IDEM_CLI_TEMPLATE_H
#define IDEM_CLI_TEMPLATE_H

#include "memory.h"

#include <idem/text.h>
#include <yyjson.h>

/* Literal text, or the name of an argument. */
typedef struct piece {
  const char *text;
  uint32_t len;
  bool is_name;
} piece;

typedef struct word_template {
  piece *pieces;
  size_t count;
} word_template;

/* Words that come and go together. With `condition`, `words` if that argument is true, else
 * `otherwise`. */
typedef struct slot {
  const char *condition;
  word_template *words;
  word_template *otherwise;
  uint32_t count;
  uint32_t otherwise_count;
  bool after_dashes; /* a word "--" stands before it: nothing here is taken for an option */
} slot;

typedef struct arguments_template {
  slot *slots;
  size_t count;
} arguments_template;

/* The words a template became. */
typedef struct word_list {
  char **items; /* ends with NULL */
  size_t count;
  size_t capacity;
  size_t bytes;
} word_list;

#define WORD_MAX ((size_t)131071) /* what Linux takes as one argument, its NUL not counted */
#define WORDS_MAX 4096u
#define WORDS_BYTES_MAX ((size_t)1 << 20)

/* NULL, or what is wrong with the text, which must live as long as the memory does. */
const char *word_compile(word_template *self, const char *text, size_t len, config_memory *memory);
const char *template_compile(arguments_template *self, yyjson_val *array, config_memory *memory,
                             yyjson_val **at);
/* Calls `see` for each name; stops and returns false when it does. */
typedef bool (*name_fn)(void *user, const char *name, size_t len);
bool word_names(const word_template *self, name_fn see, void *user);
bool template_names(const arguments_template *self, name_fn see, void *user);

/* Why a value cannot stand where it would: a sentence for the model. */
typedef struct template_fault {
  char sentence[320];
} template_fault;
/* Writes the sentence; always false. */
bool template_refuse(template_fault *fault, const char *format, ...) IDEM_PRINTF(2, 3);

/* Where a value comes from: NULL is absent. */
typedef struct values {
  yyjson_val *arguments;
  /* Takes the place of an argument, or NULL; for those that name files. */
  const char *(*replace)(void *user, const char *name, size_t len);
  void *user;
} values;

/* Appends the text; an absent value counts as empty. False: no room or a value that is no text. */
bool word_render(const word_template *self, const values *from, idem_buf *out,
                 template_fault *fault);
/* Fills the list, to be freed with word_list_free either way. */
bool template_expand(const arguments_template *self, const values *from, word_list *out,
                     template_fault *fault);
bool word_list_add(word_list *self, const char *text, size_t len, template_fault *fault);
void word_list_free(word_list *self);

/* A whole number that was written with a fraction or an exponent (1.0, 1e2), as programs read integers; NULL: it is none. */
const char *whole_number_text(yyjson_val *value, char room[24]);

#endif
