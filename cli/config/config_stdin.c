/* config_stdin.c - a value must not be a part of a program that is read from stdin: `sh` and `psql` without a script of their own
 * take what they are given there for one. */
#include "config_shell.h"

#include <limits.h>
#include <string.h>

/* A program that reads another from its stdin, unless its words have one. */
typedef struct reader {
  const char *names;   /* with a blank before and behind each */
  const char *letters; /* of flags behind which it has one, unless that is stdin, ... */
  const char *words;   /* ... long ones */
  const char *valued;  /* letters of other flags that take the next word */
  unsigned plain; /* so many words that are no options are no program yet; UINT_MAX: none ever is */
  const char *asked; /* letters with which it reads stdin all the same */
} reader;

static const reader readers[] = {
    {" sh bash dash ash ksh mksh zsh yash fish rbash ", "c", " --command ", "oO", 0, "s"},
    {" python python2 python3 pypy3 ", "cm", " ", "WX", 0, ""},
    {" perl ", "eE", " ", "I", 0, ""},
    {" ruby ", "e", " ", "rIC", 0, ""},
    {" node nodejs ", "ep", " --eval --print ", "rC", 0, ""},
    {" php ", "rRBE", " --run ", "cdz", 0, ""},
    {" lua luajit ", "e", " ", "l", 0, ""},
    {" tclsh expect guile gnuplot ", "ce", " ", "", 0, ""},
    {" psql ", "cf", " --command --file ", "dhpUvFPRoL", UINT_MAX, ""},
    {" mysql mariadb ", "e", " --execute ", "hPuSDp", UINT_MAX, ""},
    {" sqlite3 ", "", " ", "", 1, ""},
    {" duckdb ", "cf", " ", "", 1, ""},
    {" clickhouse-client ", "q", " --query ", "hu", UINT_MAX, ""},
    {" mongosh mongo ", "", " --eval --file ", "u", 1, ""},
    {" ssh ", "N", " ", "bcDEeFIiJLlmOopQRSWw", 1, ""},
    {" bc dc ed ", "", " ", "", UINT_MAX, ""},
    {" at batch ", "f", " ", "qt", UINT_MAX, ""},
};

/* Programs that read one from stdin with `-f -` alone. */
#define FILE_READERS " awk gawk mawk nawk sed gsed make gmake "

static bool is_stdin(const char *text, size_t len) {
  return config_is_listed(" - /dev/stdin /proc/self/fd/0 /dev/fd/0 ", text, len);
}

/* -f - and -f/dev/stdin */
static bool reads_file(const shell_check *self, size_t from) {
  for (size_t i = from; i < self->count; i++) {
    size_t len;
    const char *text = config_beginning(self->words[i].word, &len);
    if (len > 2 && memcmp(text, "-f", 2) == 0 && is_stdin(text + 2, len - 2)) return true;
    if (len != 2 || memcmp(text, "-f", 2) != 0 || i + 1 == self->count) continue;
    text = config_beginning(self->words[i + 1].word, &len);
    if (is_stdin(text, len)) return true;
  }
  return false;
}

typedef enum said { SAYS_NOTHING, SAYS_STDIN, SAYS_PROGRAM } said;

static said of_value(const char *text, size_t len) {
  return is_stdin(text, len) ? SAYS_STDIN : SAYS_PROGRAM;
}

/* What is given behind its flag: in the same word, or the next one, which is taken then. */
static said of_next(const shell_check *self, size_t *i, const char *rest, size_t len) {
  if (len) return of_value(rest, len);
  if (*i + 1 >= self->count) return SAYS_PROGRAM;
  const char *text = config_beginning(self->words[++*i].word, &len);
  return of_value(text, len);
}

/* "-c", "-Atc", "-dfacts": up to the first letter that takes the rest of the word, or the next. */
static said of_letters(const shell_check *self, size_t *i, const reader *by) {
  size_t len;
  const char *text = config_beginning(self->words[*i].word, &len);
  for (size_t at = 1; at < len; at++) {
    if (strchr(by->asked, text[at])) return SAYS_STDIN;
    if (strchr(by->letters, text[at])) return of_next(self, i, text + at + 1, len - at - 1);
    if (!strchr(by->valued, text[at])) continue;
    *i += at + 1 == len;
    return SAYS_NOTHING;
  }
  return SAYS_NOTHING;
}

static said of_word(const shell_check *self, size_t *i, const reader *by) {
  size_t len;
  const char *text = config_beginning(self->words[*i].word, &len);
  const char *equals = memchr(text, '=', len);
  size_t name = equals ? (size_t)(equals - text) : len;
  if (config_is_listed(" --rcfile --init-file ", text, len)) ++*i;
  if (!config_is_listed(by->words, text, name)) return SAYS_NOTHING;
  if (equals) return of_value(equals + 1, len - name - 1);
  return of_next(self, i, "", 0);
}

static bool reads_it(const shell_check *self, size_t from, const reader *by) {
  unsigned plain = 0;
  for (size_t i = from; i < self->count; i++) {
    size_t len;
    const char *text = config_beginning(self->words[i].word, &len);
    if (is_stdin(text, len)) return true;
    if (len > 1 && *text == '+') continue;
    if (len < 2 || *text != '-') {
      if (plain++ == by->plain) return false;
      continue;
    }
    bool word = text[1] == '-' || config_is_listed(by->words, text, len);
    said what = word ? of_word(self, &i, by) : of_letters(self, &i, by);
    if (what != SAYS_NOTHING) return what == SAYS_STDIN;
  }
  return true;
}

/* Every value in the text that may be anything. */
static void refuse(shell_check *self, const char *program) {
  const word_template *text = &self->tool->stdin_text;
  for (size_t i = 0; i < text->count; i++) {
    const piece *name = &text->pieces[i];
    if (!name->is_name || config_is_closed(self, name)) continue;
    source_fault(
        &self->config->source, yyjson_obj_get(self->value, "stdin"),
        "tool %s: {%.*s} would be a part of a program here: %s reads one from stdin; name a "
        "script that reads the value from stdin or \"env\"; or say \"unsafe\": true",
        self->tool->name, (int)name->len, name->text, program);
    return;
  }
}

static const reader *reader_of(const word_template *word) {
  for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
    if (config_is_named(readers[i].names, word)) return &readers[i];
  return NULL;
}

/* The word with which its command begins that is run elsewhere; `count`: there is none. */
static size_t remote_command(const shell_check *self, size_t from, const reader *by) {
  bool host = false;
  for (size_t i = from; i < self->count; i++) {
    size_t len;
    const char *text = config_beginning(self->words[i].word, &len);
    if (len < 2 || *text != '-') {
      if (host) return i;
      host = true;
    } else {
      i += len == 2 && strchr(by->valued, text[1]);
    }
  }
  return self->count;
}

bool config_stdin(shell_check *self, size_t at) {
  if (!self->tool->has_stdin || at >= self->count) return false;
  const word_template *word = self->words[at].word;
  const reader *by = reader_of(word);
  bool reads = by ? reads_it(self, at + 1, by)
                  : config_is_named(FILE_READERS, word) && reads_file(self, at + 1);
  if (reads) refuse(self, word->pieces[0].text);
  if (by && !reads && config_is_named(" ssh ", word))
    return config_stdin(self, remote_command(self, at + 1, by));
  return reads;
}
