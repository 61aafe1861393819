/* config_started.c - a value must not say which program or which script is run: `timeout 5 {name}`, `sh {name}`. One that is
 * one of some ("enum") may. What is not known of a program's words is let pass. */
#include "config_shell.h"

#include <string.h>

/* A program that starts another, or a script. */
typedef struct starter {
  const char *names;  /* with a blank before and behind each */
  const char *valued; /* letters of flags that take the next word */
  const char *none;   /* letters of flags with which it starts nothing that is named behind them */
  const char *longs;  /* long flags that take the next word, with blanks as above; NULL: any may */
  unsigned own;       /* plain words of its own before it */
  bool settings;      /* NAME=value may stand before it */
  bool script;
} starter;

static const starter starters[] = {
    {" nohup setsid setpriv valgrind chronic ifne busybox toybox linux32 linux64 tini dumb-init "
     "dbus-run-session systemd-inhibit ",
     "", "", NULL, 0, false, false},
    {" timeout ", "ks", "", NULL, 1, false, false},
    {" nice ", "n", "", NULL, 0, false, false},
    {" ionice ", "cn", "pPu", NULL, 0, false, false},
    {" choom uclampset ", "nmM", "p", NULL, 0, false, false},
    {" taskset chrt ", "TPD", "pm", NULL, 1, false, false},
    {" stdbuf ", "ioe", "", NULL, 0, false, false},
    {" time ", "fo", "", NULL, 0, false, false},
    {" env ", "uCS", "", NULL, 0, true, false},
    {" sudo ", "ugCDRTpUrth", "levK", NULL, 0, true, false},
    {" doas ", "uC", "L", NULL, 0, false, false},
    {" flock ", "wE", "cu", NULL, 1, false, false},
    {" chroot gosu su-exec setarch ", "", "", NULL, 1, false, false},
    {" strace ltrace ", "aAbDeEFIlnoOpPsSuUwxX", "", NULL, 0, false, false},
    {" fakeroot ", "lisb", "", NULL, 0, false, false},
    {" sh bash dash ash ksh mksh zsh yash fish rbash ", "oO", "cs", " --rcfile --init-file ", 0,
     false, true},
    {" python python2 python3 pypy3 ", "WX", "cm", " ", 0, false, true},
    {" perl ", "I", "eE", " ", 0, false, true},
    {" ruby ", "rICE", "ec", NULL, 0, false, true},
    {" node nodejs ", "rC", "epc", NULL, 0, false, true},
    {" php ", "cdztS", "rlwsBREFi", NULL, 0, false, true},
    {" lua luajit ", "el", "", " ", 0, false, true},
    {" tclsh expect Rscript osascript ", "", "ec", NULL, 0, false, true},
};

static const starter *starter_of(const word_template *word) {
  size_t len;
  const char *text = config_beginning(word, &len);
  if (config_name_in(word)) return NULL;
  len = config_base_name(&text, len);
  for (size_t i = 0; i < sizeof starters / sizeof *starters; i++)
    if (config_is_listed(starters[i].names, text, len)) return &starters[i];
  return NULL;
}

static bool is_option(const word_template *word, const char *text, size_t len) {
  return len && *text == '-' && (len > 1 || config_name_in(word)); /* "-" is a file */
}

static bool starts_nothing(const starter *by, const char *text, size_t len) {
  if (text[1] == '-') return false;
  for (size_t i = 1; i < len; i++)
    if (strchr(by->none, text[i])) return true;
  return false;
}

static bool may_take_next(const starter *by, const char *text, size_t len) {
  if (len < 3 || text[1] != '-' || memchr(text, '=', len)) return false;
  return !by->longs || config_is_listed(by->longs, text, len);
}

static bool takes_next(const starter *by, const char *text, size_t len) {
  return len == 2 && strchr(by->valued, text[1]);
}

/* The word that says what is started; `count` where there is none, or where it cannot be told. */
static size_t started_at(const shell_check *self, size_t from, const starter *by) {
  unsigned own = by->own;
  bool perhaps = false; /* a long flag's value */
  for (size_t i = from; i < self->count; i++) {
    size_t len;
    const word_template *word = self->words[i].word;
    const char *text = config_beginning(word, &len);
    if (is_option(word, text, len)) {
      if (starts_nothing(by, text, len)) return self->count;
      perhaps = may_take_next(by, text, len);
      i += takes_next(by, text, len);
      continue;
    }
    bool value = perhaps && config_name_in(word);
    perhaps = false;
    if (value || (by->settings && memchr(text, '=', len))) continue;
    if (self->words[i].maybe && !config_name_in(word)) return self->count;
    if (own-- == 0) return i;
  }
  return self->count;
}

/* One may start another: nice timeout 5 {name}. */
void config_started(shell_check *self) {
  const starter *by;
  for (size_t at = 0; at < self->count && (by = starter_of(self->words[at].word));) {
    at = started_at(self, at + 1, by);
    const piece *name = at < self->count ? config_name_in(self->words[at].word) : NULL;
    if (name && !config_is_closed(self, name))
      config_refuse_word(self, &self->words[at],
                         by->script ? "it says which script is run; name the script, or list the "
                                      "choices (\"enum\")"
                                    : "it says which program is run; name the program, or list "
                                      "the choices (\"enum\")");
    if (by->script || name) return;
  }
}
