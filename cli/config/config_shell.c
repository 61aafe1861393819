/* config_shell.c - a value must not become a part of a program: {name} in the text of sh -c, in a script of
 * awk or sed, in SQL on a command line, or in what find, xargs and ssh start. Each is a fault that shows the
 * safe way, unless the tool says "unsafe": true. What a program of your own does with its words is not known here. Which program
 * or script is started: config_started.c. */
#include "config_shell.h"

#include <pthread.h>
#include <string.h>

/* Where in its words a program expects a program. */
typedef enum code_place {
  CODE_FLAG,    /* behind a flag of `letters` or `words` */
  CODE_FIRST,   /* the same, or the first word that is no option */
  CODE_BEHIND,  /* every word behind the first that is no option */
  CODE_ALL,     /* every word from the first that is no option */
  CODE_EXEC,    /* behind -exec and its like */
  CODE_SHELL,   /* a flag says that there is a text: the first word then that is no option */
  CODE_BUNDLE,  /* behind a flag, and where letters without a dash say so */
  CODE_COMMAND, /* behind a flag before the command, and behind those of some commands */
  CODE_SETTING  /* behind such a flag, and every NAME=value */
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

#define BY_BINDING "it takes no values here; use a script of your own that binds them"

static const interpreter interpreters[] = {
    {" sh bash dash ash ksh mksh zsh yash fish rbash capsh ", CODE_SHELL, "c", " --command ", "oO",
     false, 0,
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
    {" awk gawk mawk nawk ", CODE_FIRST, "ef", " --source --file ", "vfF", true, 0,
     "give it by [\"-v\", \"name={name}\"] and write name in the text"},
    {" sed gsed ", CODE_FIRST, "ef", " --expression --file ", "flE", true, 0,
     "sed takes no values; use awk with [\"-v\", \"name={name}\"], or a script of your own"},
    {" psql ", CODE_FLAG, "c", " --command ", "", true, 0,
     "give the SQL as \"stdin\" with :'name' in it, and the value by [\"-v\", \"name={name}\"]"},
    {" mysql mariadb ", CODE_FLAG, "e", " --execute --init-command ", "", true, 0,
     "mysql takes no values; use a script of your own that binds them"},
    {" sqlite3 ", CODE_BEHIND, "", " -cmd --cmd ", "", false, 0,
     "a tool with \"database\" and \"query\" binds it as :name"},
    {" duckdb ", CODE_BEHIND, "cs", " -cmd -init ", "", true, 0, BY_BINDING},
    {" clickhouse-client mongosh mongo ", CODE_FLAG, "q", " --query --eval ", "", true, 0,
     BY_BINDING},
    {" ssh ", CODE_BEHIND, "o", " ", "bcDEeFIiJLlmOopQRSWw", true, 0,
     "a shell reads it at the other end; give it as \"stdin\" to a program there"},
    {" xargs parallel ", CODE_ALL, "", " ", "adEIiLlnPs", false, 0,
     "name what is run yourself, and give values as \"stdin\""},
    {" find gfind ", CODE_EXEC, "", " -exec -execdir -ok -okdir ", "", false, 0,
     "name what is run yourself; a script of your own can take values from \"env\""},
    {" su runuser script sg ", CODE_FLAG, "c", " --command --session-command ", "", false, 0,
     BY_SCRIPT},
    {" flock ", CODE_FLAG, "c", " --command ", "wE", false, 2, BY_SCRIPT}, /* flock FILE -c TEXT */
    {" git ", CODE_COMMAND, "c", " --config-env --exec-path ", "C", true, 1,
     "some settings and flags are run by a shell; write them out, or give the value by \"env\""},
    {" watch ", CODE_ALL, "", " ", "n", false, 0, "a shell reads it; call the program itself"},
    {" eval ", CODE_ALL, "", " ", "", false, 0, "call the program itself"},
    {" env ", CODE_FLAG, "S", " --split-string ", "uC", true, 1,
     "env makes words of it and runs them; name a program and its words"},
    {" tar gtar bsdtar ", CODE_BUNDLE, "IF",
     " --checkpoint-action --to-command --use-compress-program --info-script --new-volume-script "
     "--rsh-command --rmt-command ",
     "fbCgHIFKLNTVX", true, 0, BY_SCRIPT},
    {" make gmake ", CODE_SETTING, "Ef", " --eval --file --makefile ", "CIjloW", true, 0,
     "make runs what a setting says; give the value by \"env\", or list the choices (\"enum\")"},
    {" scp sftp ", CODE_FLAG, "oSD", " ", "", true, 0, BY_SCRIPT},
    {" rsync ", CODE_FLAG, "e", " --rsh --rsync-path ", "", true, 0, BY_SCRIPT},
    {" sort split zip man tcpdump ", CODE_FLAG, "",
     " --compress-program --filter --unzip-command -TT "
     "-P --pager -H --html -z ",
     "", true, 0, BY_SCRIPT},
    {" ansible ", CODE_FLAG, "a", " --args ", "", true, 0, BY_SCRIPT},
    {" nc ncat netcat ", CODE_FLAG, "ec", " --exec --sh-exec --lua-exec ", "", true, 0, BY_SCRIPT},
    {" socat tmux screen ", CODE_ALL, "", " ", "", false, 0, BY_SCRIPT},
    {" nix-shell ", CODE_FLAG, "pE", " --run --command ", "", true, 0, BY_SCRIPT},
    {" vi vim nvim view ex gvim vimdiff less ", CODE_FLAG, "c+", " --cmd ", "", true, 0, BY_SCRIPT},
    {" emacs emacsclient ", CODE_FLAG, "e", " --eval -eval --execute -execute --funcall -f ", "",
     true, 0, BY_SCRIPT},
    {" gdb lldb ", CODE_FLAG, "", " -ex -iex --ex --eval-command -eval-command -o -O --one-line ",
     "", true, 0, BY_SCRIPT},
    {" R Rscript julia octave expect guile elixir iex erl osascript groovy scala ghc sbcl clojure "
     "racket dc pwsh powershell ",
     CODE_FLAG, "ecE", " --eval -eval --expression --print -Command -EncodedCommand ", "", true, 0,
     "write a script that takes {name} as a word, or from \"env\""},
};

/* Programs that run what stands behind their own words: any program of the table counts there. */
#define WRAPPERS                                                                                   \
  " env timeout nice ionice nohup setsid stdbuf time sudo doas su flock chroot unshare busybox "   \
  "runuser docker podman kubectl watch script xargs find ssh parallel chrt taskset prlimit "       \
  "strace ltrace setarch linux32 linux64 i386 x86_64 setpriv nsenter capsh systemd-run bwrap "     \
  "firejail fakeroot proot valgrind perf gdb numactl cgexec xvfb-run dbus-run-session pkexec sg "  \
  "machinectl runcon unbuffer rlwrap gosu su-exec tini dumb-init chpst softlimit nix-shell "       \
  "nerdctl docker-compose oc lxc incus multipass toolbox "                                         \
  "lxc-attach systemd-inhibit choom uclampset chronic ifne entr toybox ip "

/* Programs that run none of their words. Any other may: behind it a shell with its flag counts. */
#define READERS                                                                                    \
  " echo printf cat ls wc head tail grep egrep fgrep rg ag man which whereis whatis apropos "      \
  "apt-cache dpkg rpm ps pgrep pidof stat file jq "

/* ------------------------------------------------------------------------- words */

static void see_words(shell_check *self, yyjson_val *value, const word_template *words,
                      size_t count, bool maybe) {
  for (size_t i = 0; i < count && self->count < WORDS_SEEN; i++)
    self->words[self->count++] =
        (seen_word){&words[i], yyjson_is_arr(value) ? yyjson_arr_get(value, i) : value, maybe};
}

static void see_run(shell_check *self, yyjson_val *run) {
  yyjson_val *item;
  size_t i, max;
  yyjson_arr_foreach(run, i, max, item) {
    const slot *at = &self->tool->run.slots[i];
    see_words(self, at->condition ? yyjson_obj_get(item, "then") : item, at->words, at->count,
              !yyjson_is_str(item));
    see_words(self, yyjson_obj_get(item, "else"), at->otherwise, at->otherwise_count, true);
  }
}

const piece *config_name_in(const word_template *word) {
  for (size_t i = 0; i < word->count; i++)
    if (word->pieces[i].is_name) return &word->pieces[i];
  return NULL;
}

const char *config_beginning(const word_template *word, size_t *len) {
  bool literal = word->count && !word->pieces[0].is_name;
  *len = literal ? word->pieces[0].len : 0;
  return literal ? word->pieces[0].text : "";
}

/* By the first character most are out. */
bool config_is_listed(const char *list, const char *text, size_t len) {
  for (const char *at = list; len && *text && (at = strchr(at, *text)); at++)
    if (at > list && at[-1] == ' ' && strncmp(at, text, len) == 0 && at[len] == ' ') return true;
  return false;
}

name_sieve config_sieve_bit(const char *text, size_t len) {
  unsigned kind = (unsigned char)text[0] * 7u + (unsigned char)text[len - 1] * 13u + (unsigned)len;
  return (name_sieve)1 << kind % 64;
}

name_sieve config_sieve(const char *list) {
  name_sieve all = 0;
  for (const char *at = list + 1, *blank; (blank = strchr(at, ' ')); at = blank + 1)
    if (blank > at) all |= config_sieve_bit(at, (size_t)(blank - at));
  return all;
}

size_t config_base_name(const char **text, size_t len) {
  const char *slash = memrchr(*text, '/', len);
  if (slash) {
    len -= (size_t)(slash + 1 - *text);
    *text = slash + 1;
  }
  const char *dot = memchr(*text, '.', len);
  return dot && dot > *text && dot[-1] >= '0' && dot[-1] <= '9' ? (size_t)(dot - *text) : len;
}

static name_sieve sieves[sizeof interpreters / sizeof *interpreters];
static pthread_once_t sieves_once = PTHREAD_ONCE_INIT;

static void make_sieves(void) {
  for (size_t i = 0; i < sizeof interpreters / sizeof *interpreters; i++)
    sieves[i] = config_sieve(interpreters[i].names);
}

static const interpreter *interpreter_of(const word_template *word) {
  size_t len;
  const char *text = config_beginning(word, &len);
  if (word->count != 1 || !len) return NULL;
  if (*text == '-') { /* a flag may name one: --entrypoint=/bin/sh */
    const char *equals = memchr(text, '=', len);
    if (!equals) return NULL;
    len -= (size_t)(equals + 1 - text);
    text = equals + 1;
  }
  len = config_base_name(&text, len);
  if (!len) return NULL;
  pthread_once(&sieves_once, make_sieves);
  name_sieve bit = config_sieve_bit(text, len);
  for (size_t i = 0; i < sizeof interpreters / sizeof *interpreters; i++)
    if (sieves[i] & bit && config_is_listed(interpreters[i].names, text, len))
      return &interpreters[i];
  return NULL;
}

/* ------------------------------------------------------------------------- faults */

void config_refuse_word(shell_check *self, const seen_word *where, const char *way) {
  const piece *name = config_name_in(where->word);
  if (!name) return;
  source_fault(&self->config->source, where->at,
               "tool %s: {%.*s} would be a part of a program here: %s; or say \"unsafe\": true",
               self->tool->name, (int)name->len, name->text, way);
}

static void refuse(shell_check *self, const seen_word *where, const interpreter *by) {
  config_refuse_word(self, where, by->way);
}

/* "-c", "-lc", "--command"; with `attached`, also what has its text in the same word. */
static bool is_flag(const interpreter *by, const char *text, size_t len, bool attached) {
  if (attached && len && *text == '+') return strchr(by->letters, '+') != NULL;
  if (len < 2 || *text != '-') return false;
  size_t word = text[1] == '-' ? strcspn(text, "=") : len;
  if (word > len) word = len;
  if (config_is_listed(by->words, text, word)) return true;
  if (text[1] == '-') return false;
  return strchr(by->letters, text[len - 1]) || (attached && strchr(by->letters, text[1]));
}

static bool takes_next(const interpreter *by, const char *text, size_t len) {
  return len == 2 && *text == '-' && strchr(by->valued, text[1]);
}

/* What is read as a text from here on: one word, and those before it that may be left out. The last of them. */
static size_t refuse_text(shell_check *self, size_t i, const interpreter *by) {
  for (; i < self->count; i++) {
    refuse(self, &self->words[i], by);
    if (!self->words[i].maybe) break;
  }
  return i;
}

/* Words behind a flag that takes a text; true: there was one. */
static bool check_flags(shell_check *self, size_t from, const interpreter *by) {
  bool found = false;
  unsigned plain = 0;
  for (size_t i = from; i < self->count; i++) {
    size_t len;
    const char *text = config_beginning(self->words[i].word, &len);
    bool split = config_name_in(self->words[i].word);
    if (by->own && takes_next(by, text, len))
      i++;
    else if (by->own && (!len || *text != '-') && ++plain == by->own)
      break;
    if (!is_flag(by, text, len, split)) continue;
    found = true;
    if (split)
      refuse(self, &self->words[i], by);
    else
      i = refuse_text(self, i + 1, by);
    if (by->place == CODE_FLAG && !by->many) return true; /* what follows is for the text to read */
  }
  return found;
}

/* The first word that is no option; `count` where there is none. */
static size_t first_plain(const shell_check *self, size_t from, const interpreter *by) {
  for (size_t i = from; i < self->count; i++) {
    size_t len;
    const char *text = config_beginning(self->words[i].word, &len);
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
    const char *text = config_beginning(self->words[i].word, &len);
    if (within) refuse(self, &self->words[i], by);
    if (len == 1 && (*text == ';' || *text == '+')) within = false;
    if (config_is_listed(by->words, text, len)) within = true;
  }
}

static bool says_text(const interpreter *by, const char *text, size_t len) {
  if (len > 1 && *text == '-' && text[1] != '-') return memchr(text, by->letters[0], len) != NULL;
  return is_flag(by, text, len, false);
}

/* Behind -c a shell goes on reading options, "--" as well: each word that has a value is refused until its
 * text has been seen, wherever among them that is. */
static void check_shell(shell_check *self, size_t from, const interpreter *by) {
  bool coded = false, last = false;
  for (size_t i = from; i < self->count; i++) {
    size_t len;
    const char *text = config_beginning(self->words[i].word, &len);
    bool option = !last && len && (*text == '-' || *text == '+');
    coded = coded || (!last && says_text(by, text, len));
    if (coded || (option && config_name_in(self->words[i].word))) refuse(self, &self->words[i], by);
    if (coded && !option && !self->words[i].maybe) return;
    if (coded && len <= 2 && option && (len == 1 || text[1] == '-')) last = true;
    if (option && len > 1 && text[1] != '-' && strchr(by->valued, text[len - 1])) {
      if (coded && i + 1 < self->count) refuse(self, &self->words[i + 1], by);
      i++;
    }
  }
}

bool config_is_closed(const shell_check *self, const piece *name) {
  yyjson_val *key, *schema;
  size_t i, max;
  idem_each_member(yyjson_obj_get(self->value, "args"), i, max, key, schema) {
    const char *text = yyjson_get_str(key);
    if (strncmp(text, name->text, name->len) != 0 || strcspn(text, "?") != name->len) continue;
    const char *type =
        yyjson_get_str(yyjson_is_str(schema) ? schema : yyjson_obj_get(schema, "type"));
    return yyjson_obj_get(schema, "enum") || yyjson_obj_get(schema, "const") ||
           (type && config_is_listed(" integer number boolean ", type, strlen(type)));
  }
  return false;
}

static void check_settings(shell_check *self, size_t from, const interpreter *by) {
  for (size_t i = from; i < self->count; i++) {
    size_t len;
    const char *text = config_beginning(self->words[i].word, &len);
    const piece *name = config_name_in(self->words[i].word);
    if (takes_next(by, text, len)) i++;
    bool setting = !len || (*text != '-' && memchr(text, '=', len));
    if (name && setting && !config_is_closed(self, name)) refuse(self, &self->words[i], by);
  }
}

/* tar cIf PROGRAM ARCHIVE: letters without a dash take the words behind them, one each. */
static void check_bundle(shell_check *self, size_t from, const interpreter *by) {
  size_t len = 0, next = from + 1;
  const char *text = from < self->count ? config_beginning(self->words[from].word, &len) : "";
  if (*text == '-') return;
  for (size_t i = 0; i < len && next < self->count; i++) {
    if (!strchr(by->valued, text[i])) continue;
    if (strchr(by->letters, text[i])) refuse(self, &self->words[next], by);
    next++;
  }
}

/* tar -cI{name}: the first letter that takes a value has the rest of the word. */
static void check_joined(shell_check *self, size_t from, const interpreter *by) {
  for (size_t i = from; i < self->count; i++) {
    size_t len;
    const char *text = config_beginning(self->words[i].word, &len);
    if (len < 3 || *text != '-' || text[1] == '-') continue;
    size_t first = strcspn(text + 1, by->valued) + 1;
    if (first == len - 1 && strchr(by->letters, text[first])) refuse(self, &self->words[i], by);
  }
}

/* Letters that name a program behind one command of git alone, and long flags that do behind any. */
static const char *letters_of(const word_template *command) {
  static const struct {
    const char *commands, *letters;
  } of[] = {{" clone ", "uc"}, {" rebase difftool ", "x"}, {" grep ", "O"}};
  size_t len;
  const char *text = config_beginning(command, &len);
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    if (config_is_listed(of[i].commands, text, len)) return of[i].letters;
  return "";
}

static void check_command(shell_check *self, size_t from, const interpreter *by) {
  interpreter flags = *by;
  flags.words = " --upload-pack --receive-pack --exec --extcmd --open-files-in-pager "
                "--config ";
  flags.valued = "Cc";
  flags.letters = "";
  flags.own = 0;
  size_t command = first_plain(self, from, &flags);
  if (command < self->count) flags.letters = letters_of(self->words[command].word);
  check_flags(self, command < self->count ? command + 1 : from, &flags);
}

static bool takes_flags_alone(const interpreter *by) {
  return by->place == CODE_FLAG || by->place == CODE_SETTING || by->place == CODE_BUNDLE ||
         by->place == CODE_COMMAND;
}

static void check_from(shell_check *self, size_t from, const interpreter *by) {
  if (by->place == CODE_EXEC || by->place == CODE_SHELL) {
    (by->place == CODE_EXEC ? check_exec : check_shell)(self, from, by);
    return;
  }
  if (by->place == CODE_SETTING) check_settings(self, from, by);
  if (by->place == CODE_BUNDLE) check_bundle(self, from, by);
  if (by->place == CODE_BUNDLE) check_joined(self, from, by);
  if (by->place == CODE_COMMAND) check_command(self, from, by);
  bool found = check_flags(self, from, by);
  if (takes_flags_alone(by) || (by->place == CODE_FIRST && found)) return;
  size_t first = first_plain(self, from, by);
  if (by->place == CODE_BEHIND) first++;
  size_t end = by->place == CODE_FIRST ? first + 1 : self->count;
  for (size_t i = first; i < end && i < self->count; i++) refuse(self, &self->words[i], by);
}

const char *config_program_named(const word_template *word, size_t *len) {
  const char *text = config_beginning(word, len);
  *len = config_name_in(word) ? 0 : config_base_name(&text, *len);
  return text;
}

bool config_is_named(const char *list, const word_template *word) {
  size_t len;
  const char *text = config_program_named(word, &len);
  return config_is_listed(list, text, len);
}

/* Behind a program that is not known a shell's name may be a word like any other; with -c behind it, it is not. */
static bool counts_anywhere(const interpreter *by) {
  return by->place == CODE_SHELL || by->place == CODE_BUNDLE ||
         (by->place == CODE_FLAG && !by->own);
}

/* The nearest interpreter speaks for its words: behind xargs stands sh -c as well. */
void config_shell(serve_config *self, yyjson_val *value, const tool_config *tool) {
  shell_check check; /* its words are many, and written as they are seen */
  check.config = self;
  check.tool = tool;
  check.value = value;
  check.count = 0;
  see_run(&check, yyjson_obj_get(value, "run"));
  if (!check.count) return;
  config_missing(&check);
  if (config_true(value, "unsafe")) return;
  bool wrapper = config_is_named(WRAPPERS, check.words[0].word);
  bool reader = !wrapper && config_is_named(READERS, check.words[0].word);
  for (size_t i = 0; i < check.count; i++) {
    const interpreter *by = interpreter_of(check.words[i].word);
    unsigned faults = self->source.faults;
    if (i && (reader || (!wrapper && by && !counts_anywhere(by)))) continue;
    if (by) check_from(&check, i + 1, by);
    if (self->source.faults != faults) return;
  }
  config_started(&check);
}
