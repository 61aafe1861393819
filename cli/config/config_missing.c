/* config_missing.c - what a tool's words say is started, and is not there: the script of `python3 find.py`, the program of
 * `timeout 5 serach`. A note, since a program may have another folder or PATH in mind; without it the first call would fail. The
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

static bool is_there(const shell_check *self, const char *name) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s%s%s", *name == '/' ? "" : folder_of(self),
           *name == '/' ? "" : "/", name);
  return access(path, F_OK) == 0;
}

static void note(const shell_check *self, size_t at, const char *name, bool script) {
  config_source *source = &self->config->source;
  if (script || strchr(name, '/'))
    source_note(source, self->words[at].at, "tool %s: there is no %s%s%s: a call would fail",
                self->tool->name, name, *name == '/' ? "" : " in ",
                *name == '/' ? "" : folder_of(self));
  else
    source_note(source, self->words[at].at,
                "tool %s: there is no program %s in PATH, and a call would fail: install it or "
                "write its path",
                self->tool->name, name);
}

/* bash looks in PATH for a script that is not in the folder. */
static bool can_be_found(const shell_check *self, const char *name) {
  return strchr(name, '/') == NULL && config_search_path(self->config, name);
}

void config_missing(const shell_check *self) {
  char name[256];
  bool script = false;
  size_t len, at = 0;
  while (at < self->count && config_is_named(SIMPLE, self->words[at].word)) {
    at = config_started_at(self, at, &script);
    if (at >= self->count || self->words[at].maybe || config_name_in(self->words[at].word)) return;
    const char *text = config_beginning(self->words[at].word, &len);
    if (!len || len >= sizeof name || *text == '-') return;
    snprintf(name, sizeof name, "%.*s", (int)len, text);
    bool there = script || strchr(name, '/') ? is_there(self, name) : false;
    if (!there && !can_be_found(self, name)) note(self, at, name, script);
    if (script) return;
  }
}
