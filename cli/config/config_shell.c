/* config_shell.c - a value must not become a part of a program: {name} in the text of sh -c, in a script of
 * awk or sed, in SQL on a command line, or in what find, xargs and ssh start. Each is a fault that shows the
 * safe way, unless the tool says "unsafe": true. What a program of your own does with its words is not known here. */
#include "config.h"

#include <string.h>

/* Where in its words a program expects a program. */
typedef enum code_place {
  CODE_FLAG,   /* behind a flag of `letters` or `words` */
  CODE_FIRST,  /* the same, or the first word that is no option */
  CODE_BEHIND, /* every word behind the first that is no option */
  CODE_ALL,    /* every word from the first that is no option */
  CODE_EXEC    /* behind -exec and its like */
} code_place;

typedef struct interpreter {
  const char *names; /* with a blank before and behind each */
  code_place place;
  const char *letters; /* flags of one letter, alone or at the end of several */
  const char *words;   /* long flags, with blanks as above */
  const char *valued;  /* letters of flags that take the next word */
  bool many;           /* such flags may be repeated */
  unsigned own; /* the plain word with which another program's words begin; 0: all are its own */
  const char *way;
} interpreter;

#define BY_SCRIPT                                                                                  \
  "a shell reads it; name a program and its words, or a script of your own that takes values "     \
  "from \"env\""

static const interpreter interpreters[] = {
    {" sh bash dash ash ksh zsh fish ", CODE_FLAG, "c", " --command ", "", false, 0,
     "write \"$1\" in the text and give the value behind it: [\"sh\", \"-c\", \"echo \\\"$1\\\"\", "
     "\"sh\", \"{name}\"]"},
    {" python python2 python3 pypy3 ", CODE_FLAG, "c", " ", "", false, 0,
     "write sys.argv[1] in the text and give {name} as a word behind it"},
    {" perl ", CODE_FLAG, "eE", " ", "", true, 0,
     "write $ARGV[0] in the text and give {name} as a word behind it"},
    {" ruby ", CODE_FLAG, "e", " ", "", true, 0,
     "write ARGV[0] in the text and give {name} as a word behind it"},
    {" lua luajit ", CODE_FLAG, "e", " ", "", false, 0,
     "write a script that reads arg[1], and give it {name}"},
    {" node nodejs bun deno ", CODE_FLAG, "ep", " --eval --print ", "", false, 0,
     "write process.argv[1] in the text and give {name} as a word behind it"},
    {" php ", CODE_FLAG, "r", " --run ", "", false, 0,
     "write $argv[1] in the text and give {name} as a word behind it"},
    {" awk gawk mawk nawk ", CODE_FIRST, "e", " --source ", "vfF", true, 0,
     "give it by [\"-v\", \"name={name}\"] and write name in the text"},
    {" sed gsed ", CODE_FIRST, "e", " --expression ", "flE", true, 0,
     "sed takes no values; use awk with [\"-v\", \"name={name}\"], or a script of your own"},
    {" psql ", CODE_FLAG, "c", " --command ", "", true, 0,
     "give the SQL as \"stdin\" with :'name' in it, and the value by [\"-v\", \"name={name}\"]"},
    {" mysql mariadb ", CODE_FLAG, "e", " --execute ", "", true, 0,
     "mysql takes no values; use a script of your own that binds them"},
    {" sqlite3 ", CODE_BEHIND, "", " -cmd --cmd ", "", false, 0,
     "a tool with \"database\" and \"query\" binds it as :name"},
    {" ssh ", CODE_BEHIND, "", " ", "bcDEeFIiJLlmOopQRSWw", false, 0,
     "a shell reads it at the other end; give it as \"stdin\" to a program there"},
    {" xargs parallel ", CODE_ALL, "", " ", "adEIiLlnPs", false, 0,
     "name what is run yourself, and give values as \"stdin\""},
    {" find gfind ", CODE_EXEC, "", " -exec -execdir -ok -okdir ", "", false, 0,
     "name what is run yourself; a script of your own can take values from \"env\""},
    {" su runuser script ", CODE_FLAG, "c", " --command --session-command ", "", false, 0,
     BY_SCRIPT},
    {" flock ", CODE_FLAG, "c", " --command ", "wE", false, 2, BY_SCRIPT}, /* flock FILE -c TEXT */
    {" git ", CODE_FLAG, "c", " --config-env ", "C", true, 1,
     "some settings are run by a shell; write the setting out, or give the value by \"env\""},
    {" watch ", CODE_ALL, "", " ", "n", false, 0, "a shell reads it; call the program itself"},
    {" eval ", CODE_ALL, "", " ", "", false, 0, "call the program itself"},
};

/* Programs that run what stands behind their own words. */
#define WRAPPERS                                                                                   \
  " env timeout nice ionice nohup setsid stdbuf time sudo doas su flock chroot unshare busybox "   \
  "runuser docker podman kubectl watch script xargs find ssh parallel chrt taskset "

#define WORDS_SEEN 256u /* of a tool; more are not looked at one by one */

typedef struct seen_word {
  const word_template *word;
  yyjson_val *at;
} seen_word;

typedef struct shell_check {
  serve_config *config;
  const tool_config *tool;
  seen_word words[WORDS_SEEN];
  size_t count;
} shell_check;

/* ------------------------------------------------------------------------- words */

static void see_words(shell_check *self, yyjson_val *value, const word_template *words,
                      size_t count) {
  for (size_t i = 0; i < count && self->count < WORDS_SEEN; i++)
    self->words[self->count++] =
        (seen_word){&words[i], yyjson_is_arr(value) ? yyjson_arr_get(value, i) : value};
}

static void see_run(shell_check *self, yyjson_val *run) {
  yyjson_val *item;
  size_t i, max;
  yyjson_arr_foreach(run, i, max, item) {
    const slot *at = &self->tool->run.slots[i];
    see_words(self, at->condition ? yyjson_obj_get(item, "then") : item, at->words, at->count);
    see_words(self, yyjson_obj_get(item, "else"), at->otherwise, at->otherwise_count);
  }
}

static const piece *name_in(const word_template *word) {
  for (size_t i = 0; i < word->count; i++)
    if (word->pieces[i].is_name) return &word->pieces[i];
  return NULL;
}

/* What a word begins with, before any value: "" where a value does. */
static const char *beginning(const word_template *word, size_t *len) {
  bool literal = word->count && !word->pieces[0].is_name;
  *len = literal ? word->pieces[0].len : 0;
  return literal ? word->pieces[0].text : "";
}

/* Every tool is held against every list when a file is read: by the first character most are out. */
static bool is_listed(const char *list, const char *text, size_t len) {
  for (const char *at = list; len && *text && (at = strchr(at, *text)); at++)
    if (at > list && at[-1] == ' ' && strncmp(at, text, len) == 0 && at[len] == ' ') return true;
  return false;
}

/* python3.11 is python3, and /usr/bin/awk is awk. */
static size_t base_name(const char **text, size_t len) {
  const char *slash = memrchr(*text, '/', len);
  if (slash) {
    len -= (size_t)(slash + 1 - *text);
    *text = slash + 1;
  }
  const char *dot = memchr(*text, '.', len);
  return dot && dot > *text && dot[-1] >= '0' && dot[-1] <= '9' ? (size_t)(dot - *text) : len;
}

static const interpreter *interpreter_of(const word_template *word) {
  size_t len;
  const char *text = beginning(word, &len);
  if (word->count != 1 || !len) return NULL;
  len = base_name(&text, len);
  for (size_t i = 0; i < sizeof interpreters / sizeof *interpreters; i++)
    if (is_listed(interpreters[i].names, text, len)) return &interpreters[i];
  return NULL;
}

/* ------------------------------------------------------------------------- faults */

static void refuse(shell_check *self, const seen_word *where, const interpreter *by) {
  const piece *name = name_in(where->word);
  if (!name) return;
  source_fault(&self->config->source, where->at,
               "tool %s: {%.*s} would be a part of a program here: %s; or say \"unsafe\": true",
               self->tool->name, (int)name->len, name->text, by->way);
}

/* "-c", "-lc", "--command"; with `attached`, also what has its text in the same word. */
static bool is_flag(const interpreter *by, const char *text, size_t len, bool attached) {
  if (len < 2 || *text != '-') return false;
  size_t word = text[1] == '-' ? strcspn(text, "=") : len;
  if (word > len) word = len;
  if (is_listed(by->words, text, word)) return true;
  if (text[1] == '-') return false;
  return strchr(by->letters, text[attached ? 1 : len - 1]) && *by->letters;
}

static bool takes_next(const interpreter *by, const char *text, size_t len) {
  return len == 2 && *text == '-' && strchr(by->valued, text[1]);
}

/* Words behind a flag that takes a text; true: there was one. */
static bool check_flags(shell_check *self, size_t from, const interpreter *by) {
  bool found = false;
  unsigned plain = 0;
  for (size_t i = from; i < self->count; i++) {
    size_t len;
    const char *text = beginning(self->words[i].word, &len);
    bool split = name_in(self->words[i].word);
    if (by->own && takes_next(by, text, len))
      i++;
    else if (by->own && (!len || *text != '-') && ++plain == by->own)
      break;
    if (!is_flag(by, text, len, split)) continue;
    found = true;
    if (split)
      refuse(self, &self->words[i], by);
    else if (i + 1 < self->count)
      refuse(self, &self->words[++i], by);
    if (by->place == CODE_FLAG && !by->many) return true; /* what follows is for the text to read */
  }
  return found;
}

/* The first word that is no option; `count` where there is none. */
static size_t first_plain(const shell_check *self, size_t from, const interpreter *by) {
  for (size_t i = from; i < self->count; i++) {
    size_t len;
    const char *text = beginning(self->words[i].word, &len);
    if (takes_next(by, text, len))
      i++;
    else if (!len || *text != '-')
      return i;
  }
  return self->count;
}

static void check_exec(shell_check *self, size_t from, const interpreter *by) {
  bool within = false;
  for (size_t i = from; i < self->count; i++) {
    size_t len;
    const char *text = beginning(self->words[i].word, &len);
    if (within) refuse(self, &self->words[i], by);
    if (len == 1 && (*text == ';' || *text == '+')) within = false;
    if (is_listed(by->words, text, len)) within = true;
  }
}

static void check_from(shell_check *self, size_t from, const interpreter *by) {
  if (by->place == CODE_EXEC) {
    check_exec(self, from, by);
    return;
  }
  bool found = check_flags(self, from, by);
  if (by->place == CODE_FLAG || (by->place == CODE_FIRST && found)) return;
  size_t first = first_plain(self, from, by);
  if (by->place == CODE_BEHIND) first++;
  size_t end = by->place == CODE_FIRST ? first + 1 : self->count;
  for (size_t i = first; i < end && i < self->count; i++) refuse(self, &self->words[i], by);
}

static bool is_wrapper(const word_template *word) {
  size_t len;
  const char *text = beginning(word, &len);
  len = base_name(&text, len);
  return is_listed(WRAPPERS, text, len);
}

/* The nearest interpreter speaks for its words: behind xargs stands sh -c as well. */
void config_shell(serve_config *self, yyjson_val *value, const tool_config *tool) {
  shell_check check = {.config = self, .tool = tool};
  if (config_true(value, "unsafe")) return;
  see_run(&check, yyjson_obj_get(value, "run"));
  bool wrapped = true;
  for (size_t i = 0; i < check.count && wrapped; i++) {
    const interpreter *by = interpreter_of(check.words[i].word);
    unsigned faults = self->source.faults;
    if (by) check_from(&check, i + 1, by);
    if (self->source.faults != faults) return;
    if (i == 0) wrapped = is_wrapper(check.words[0].word);
  }
}
