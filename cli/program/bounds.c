/* bounds.c - see bounds.h. A program that may write the file it is confined by is confined by nothing:
 * the next reading gives it what it wrote. The kernel cannot be told to spare a file in a folder that may be
 * written, so such a configuration is refused. */
#include "bounds.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOW_MAX 512u

/* What a faulty file names nowhere is beneath nothing: its faults are told all at once. */
bool bounds_beneath(const char *path, const char *folder) {
  if (!path || !folder) return false;
  size_t len = strlen(folder);
  while (len && folder[len - 1] == '/') len--;
  return strncmp(path, folder, len) == 0 && (!path[len] || path[len] == '/');
}

bool bounds_within(const char *path, const char *const *folders) {
  for (size_t i = 0; folders && folders[i]; i++)
    if (bounds_beneath(path, folders[i])) return true;
  return false;
}

/* -------------------------------------------------------------------------- the file */

static void refuse(serve_config *self, const tool_config *tool, const char *folder,
                   const char *what) {
  source_fault(&self->source, tool->key, "tool %s: allow: write: %s %s", tool->name, folder, what);
}

static bool holds_configuration(const serve_config *self, const char *folder) {
  return bounds_beneath(self->source.folder, folder) || bounds_on_way(self->source.path, folder);
}

/* By its name, also with a version behind: python3.11. */
bool bounds_is_interpreter(const char *program) {
  static const char *const names[] = {
      "sh", "bash", "dash", "ash", "ksh", "zsh", "fish", "python", "perl", "ruby", "node", "php",
      "nodejs", "lua", "deno", "tclsh", "awk", "gawk", "mawk", "make",
      /* and who runs others */
      "env", "timeout", "nice", "ionice", "nohup", "setsid", "stdbuf", "chrt", "taskset", "flock"};
  if (!program) return false;
  const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t len = strlen(names[i]);
    if (strncmp(name, names[i], len) == 0 && !name[len + strspn(name + len, "0123456789.")])
      return true;
  }
  return false;
}

/* python -m NAME finds NAME in the folder it runs in before all others: who may write there decides what it is. */
static bool runs_module_in(const tool_config *tool, const char *name, const char *folder) {
  char path[PATH_MAX];
  if (!tool->cwd) return false;
  if (bounds_beneath(tool->cwd, folder)) return true;
  size_t start = strlen(tool->cwd);
  int len = snprintf(path, sizeof path - 3, "%s/%s", tool->cwd, name);
  if (len < 0 || (size_t)len >= sizeof path - 3) return true;
  for (char *at = path + start; *at; at++)
    if (*at == '.') *at = '/';
  if (access(path, F_OK) == 0 && bounds_on_way(path, folder)) return true;
  memcpy(path + len, ".py", 4);
  return access(path, F_OK) == 0 && bounds_on_way(path, folder);
}

static bool is_python(const char *program) {
  const char *slash = strrchr(program, '/');
  return strncmp(slash ? slash + 1 : program, "python", 6) == 0;
}

/* The module that a Python among these words is to run, by "-m", "NAME" or "-mNAME"; NULL: none. */
static const char *module_of(yyjson_val *run) {
  bool python = false, named = false;
  yyjson_val *item;
  size_t i, max;
  yyjson_arr_foreach(run, i, max, item) {
    const char *word = yyjson_get_str(item);
    if (!word) return NULL;
    if (named) return word;
    named = python && strcmp(word, "-m") == 0;
    if (python && strncmp(word, "-m", 2) == 0 && word[2]) return word + 2;
    if (python && *word != '-') return NULL; /* a script, and what follows is its own */
    python = python || is_python(word);
  }
  return NULL;
}

/* What an interpreter is told to run is one of its words; which, only it knows. */
static bool runs_script_in(const tool_config *tool, const char *folder) {
  yyjson_val *run = yyjson_obj_get(tool->definition, "run"), *item;
  char path[PATH_MAX];
  size_t i, max;
  if (!yyjson_is_arr(run) || !bounds_is_interpreter(yyjson_get_str(yyjson_arr_get_first(run))))
    return false;
  const char *module = module_of(run);
  if (module && runs_module_in(tool, module, folder)) return true;
  yyjson_arr_foreach(run, i, max, item) {
    const char *word = yyjson_get_str(item);
    if (i == 0 || !word || *word == '-') continue;
    snprintf(path, sizeof path, "%s%s%s", *word == '/' || !tool->cwd ? "" : tool->cwd,
             *word == '/' || !tool->cwd ? "" : "/", word);
    if (access(path, F_OK) == 0 && bounds_on_way(path, folder)) return true;
  }
  return false;
}

/* By the name that the file has for it; one without a slash was found in PATH. */
static bool is_named_in(serve_config *self, yyjson_val *name, const char *folder) {
  const char *path = yyjson_get_str(name);
  return path && strchr(path, '/') && bounds_on_way(config_join(self, path), folder);
}

static bool runs_program_in(serve_config *self, const tool_config *tool, const char *folder) {
  yyjson_val *run = yyjson_obj_get(tool->definition, "run");
  return bounds_beneath(tool->program, folder) || runs_script_in(tool, folder) ||
         is_named_in(self, yyjson_arr_get_first(run), folder);
}

/* One that another tool runs with more than the writer has. */
static const tool_config *holds_program(serve_config *self, const tool_config *writer,
                                        const char *folder) {
  for (size_t i = 0; i < self->tool_count; i++) {
    const tool_config *tool = &self->tools[i];
    if (!tool->is_program || tool == writer) continue;
    if (runs_program_in(self, tool, folder) && bounds_has_more(self, tool, writer)) return tool;
  }
  return NULL;
}

static const char *holds_command(const serve_config *self, const char *folder) {
  for (const found_program *one = self->commands; one; one = one->next)
    if (bounds_on_way(one->path, folder)) return one->name;
  return NULL;
}

static bool holds_secret(const serve_config *self, const char *folder) {
  for (const found_program *one = self->secret_files; one; one = one->next)
    if (bounds_on_way(one->path, folder)) return true;
  return false;
}

static void check_folder(serve_config *self, const tool_config *tool, const char *folder) {
  const tool_config *other;
  char what[HOW_MAX];
  if (bounds_beneath("/proc", folder) || bounds_beneath(folder, "/proc")) {
    refuse(self, tool, folder, "reaches other processes through /proc: name a folder of files");
  } else if (holds_configuration(self, folder)) {
    refuse(self, tool, folder,
           "holds this configuration, by which the program could free itself: name another folder, "
           "or keep the configuration elsewhere");
  } else if ((other = holds_program(self, tool, folder))) {
    snprintf(what, sizeof what, "holds the program of %.200s, which may do more", other->name);
    refuse(self, tool, folder, what);
  } else if (holds_command(self, folder)) {
    refuse(self, tool, folder, "holds the command of a secret, which is not confined");
  } else if (holds_secret(self, folder)) {
    refuse(
        self, tool, folder,
        "holds the file of a secret, which the program could read and change: keep it elsewhere");
  }
}

/* What a program may cut short is not mapped: see query_files.c. */
static void note_databases(serve_config *self, const tool_config *writer, const char *folder) {
  for (size_t i = 0; i < self->tool_count; i++) {
    tool_config *tool = &self->tools[i];
    yyjson_val *name = yyjson_obj_get(tool->definition, "database");
    if (bounds_on_way(tool->database, folder) || is_named_in(self, name, folder))
      tool->database_writer = writer->name;
  }
}

/* A file with two names may have one where a program writes. */
static void check_links(serve_config *self) {
  struct stat about;
  if (stat(self->source.path, &about) != 0 || about.st_nlink < 2) return;
  for (size_t i = 0; i < self->tool_count; i++) {
    const tool_config *tool = &self->tools[i];
    if (!tool->is_program || tool->unconfined || !tool->allow_write || !tool->allow_write[0])
      continue;
    source_fault(
        &self->source, tool->key,
        "tool %s: allow: write: this configuration has another name (a hard link), by which the "
        "program might change it: copy it",
        tool->name);
    return;
  }
}

bool bounds_check(serve_config *self) {
  unsigned faults = self->source.faults;
  check_links(self);
  for (size_t i = 0; i < self->tool_count; i++) {
    const tool_config *tool = &self->tools[i];
    if (!tool->is_program || tool->unconfined) continue;
    if (self->source.faults == faults) bounds_note_outside(self, tool);
    for (size_t j = 0; tool->allow_write && tool->allow_write[j]; j++) {
      check_folder(self, tool, tool->allow_write[j]);
      note_databases(self, tool, tool->allow_write[j]);
    }
  }
  return self->source.faults == faults;
}
