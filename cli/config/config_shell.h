/* config_shell.h - the words of a tool's program, looked at for values that would be a part of a program: config_shell.c for
 * texts, config_started.c for what is started. */
#ifndef IDEM_CLI_CONFIG_SHELL_H
#define IDEM_CLI_CONFIG_SHELL_H

#include "config.h"

#define WORDS_SEEN 256u /* of a tool; more are not looked at one by one */

typedef struct seen_word {
  const word_template *word;
  yyjson_val *at;
  bool maybe; /* it may be left out */
} seen_word;

typedef struct shell_check {
  serve_config *config;
  const tool_config *tool;
  yyjson_val *value;
  seen_word words[WORDS_SEEN];
  size_t count;
} shell_check;

/* The first value in a word; NULL: none. */
const piece *config_name_in(const word_template *word);
/* What a word begins with, before any value: "" where a value does. */
const char *config_beginning(const word_template *word, size_t *len);
/* `list` has a blank before and behind each. */
bool config_is_listed(const char *list, const char *text, size_t len);
/* Every tool is held against every row of some tables when a file is read. A row's sieve has a bit for each kind of name that
 * it lists; one whose sieve lacks a name's bit does not list it. The sieves of a table are made once. */
typedef uint64_t name_sieve;
name_sieve config_sieve(const char *list);
name_sieve config_sieve_bit(const char *text, size_t len);
/* python3.11 is python3, and /usr/bin/awk is awk. */
size_t config_base_name(const char **text, size_t len);
/* The program that a word names; length 0: none, or a value has a part in that. */
const char *config_program_named(const word_template *word, size_t *len);
/* The word is one of these programs, and no value has a part in that. */
bool config_is_named(const char *list, const word_template *word);
/* An argument that is one of some, or a number, says nothing of its own. */
bool config_is_closed(const shell_check *self, const piece *name);
/* Says that its value would be a part of a program, and the safe way. */
void config_refuse_word(shell_check *self, const seen_word *where, const char *way);

void config_started(shell_check *self);
/* Where the program at this word names what it starts, a program or a script; `count`: nowhere, or it cannot be told. */
size_t config_started_at(const shell_check *self, size_t at, bool *script);
/* Notes a program or script that a word names and that is not there. */
void config_missing(const shell_check *self);
/* The program at this word; true: it reads what its stdin says as a program. */
bool config_stdin(shell_check *self, size_t at);

#endif
