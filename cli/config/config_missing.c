/* config_missing.c - what a tool's words say is started, and is not there: the script of `python3 find.py`, the program of
 * `timeout 5 serach`. A note, since a program may have another folder or PATH in mind; without it the first call may fail. The
 * program itself is looked for by config_program.c, who runs a script by program/outside.c. */
#include "config_shell.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Those whose own words are simple, and that look where we do. */
#define SIMPLE                                                                                     \
  " nohup setsid timeout nice ionice stdbuf time env sh bash dash zsh python python2 python3 "     \
  "perl ruby node nodejs php lua Rscript "

static const char *folder_of(const shell_check *self) {
  return self->tool->cwd ? self->tool->cwd : self->config->source.folder;
}

/* True, too, where it cannot be told: a path that is too long. */
static bool is_there(const shell_check *self, const char *name) {
  char path[PATH_MAX];
  int len = snprintf(path, sizeof path, "%s%s%s", *name == '/' ? "" : folder_of(self),
                     *name == '/' ? "" : "/", name);
  return len >= (int)sizeof path || access(path, F_OK) == 0;
}

static void note(const shell_check *self, size_t at, const char *name, bool script) {
  config_source *source = &self->config->source;
  if (script || strchr(name, '/'))
    source_note(source, self->words[at].at, "tool %s: there is no %s%s%s: a call may fail",
                self->tool->name, name, *name == '/' ? "" : " in ",
                *name == '/' ? "" : folder_of(self));
  else
    source_note(source, self->words[at].at,
                "tool %s: there is no program %s in PATH, and a call may fail: install it or "
                "write its path",
                self->tool->name, name);
}

/* bash looks in PATH for a script that is not in the folder. */
static bool can_be_found(const shell_check *self, const char *name) {
  return strchr(name, '/') == NULL && config_search_path(self->config, name);
}

/* ------------------------------------------------------------- who looks elsewhere than we do */

/* node adds an ending. */
static bool has_ending(const word_template *word) {
  size_t len;
  const char *text = config_beginning(word, &len), *slash = memrchr(text, '/', len);
  size_t from = slash ? (size_t)(slash + 1 - text) : 0;
  return memchr(text + from, '.', len - from) != NULL;
}

static bool begins(const word_template *word, const char *with) {
  size_t len;
  const char *text = config_beginning(word, &len);
  return len >= strlen(with) && memcmp(text, with, strlen(with)) == 0;
}

/* env is told another PATH or folder. */
static bool names_place(const word_template *word) {
  return begins(word, "PATH=") || begins(word, "-C") || begins(word, "--chdir");
}

static bool looks_elsewhere(const shell_check *self, size_t from, size_t at) {
  const word_template *program = self->words[from].word;
  if (config_is_named(" node nodejs ", program)) return !has_ending(self->words[at].word);
  if (!config_is_named(" env ", program)) return false;
  for (size_t i = from + 1; i < at; i++)
    if (names_place(self->words[i].word)) return true;
  return false;
}

void config_missing(const shell_check *self) {
  char name[256];
  bool script = false;
  size_t len, at = 0;
  while (at < self->count && config_is_named(SIMPLE, self->words[at].word)) {
    size_t from = at;
    at = config_started_at(self, at, &script);
    if (at >= self->count || looks_elsewhere(self, from, at) || self->words[at].maybe ||
        config_name_in(self->words[at].word))
      return;
    const char *text = config_beginning(self->words[at].word, &len);
    if (!len || len >= sizeof name || *text == '-') return;
    snprintf(name, sizeof name, "%.*s", (int)len, text);
    bool there = script || strchr(name, '/') ? is_there(self, name) : false;
    if (!there && !can_be_found(self, name)) note(self, at, name, script);
    if (script) return;
  }
}
