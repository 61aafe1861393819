/* outside.c - a program that lies where confined programs cannot read: it may be run itself, but what it
 * brings along may not be reached. A shim of a version manager fails so in a way that tells nobody why. */
#include "bounds.h"

#include "confine.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_LINE 256 /* the kernel reads no more of it */

static bool may_run(const tool_config *tool, const char *path) {
  return confine_is_system(path) || bounds_within(path, tool->allow_read);
}

static bool may_read(const serve_config *self, const tool_config *tool, const char *path) {
  for (size_t i = 0; i < tool->inside_count; i++)
    if (bounds_beneath(path, tool->inside[i].folder)) return true;
  return may_run(tool, path) || bounds_beneath(path, self->source.folder) ||
         bounds_beneath(path, tool->cwd);
}

static bool is_last(const char *path, const char *name) {
  const char *slash = strrchr(path, '/');
  return strcmp(slash ? slash + 1 : path, name) == 0;
}

/* The folder that it was installed to: of DIR/bin/NAME it is DIR, unless that is somebody's home. */
static void folder_of(char path[PATH_MAX]) {
  const char *home = getenv("HOME");
  *strrchr(path, '/') = 0;
  if (!is_last(path, "bin") && !is_last(path, "shims")) return;
  char *slash = strrchr(path, '/');
  *slash = 0;
  bool private = !*path || (home && strcmp(path, home) == 0) || is_last(path, ".local");
  if (private) *slash = '/';
}

/* What the first line of a script says; false: it is none. */
static bool read_first_line(const char *path, char line[FIRST_LINE + 1]) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t len = fd >= 0 ? read(fd, line, FIRST_LINE) : 0;
  if (fd >= 0) close(fd);
  line[len > 0 ? len : 0] = 0;
  line[strcspn(line, "\n")] = 0;
  return strncmp(line, "#!", 2) == 0;
}

/* Who runs the script, by way of env, too; NULL: nobody can tell. *name is what its first line calls that. */
static const char *interpreter_in(serve_config *self, char *line, const char **name) {
  char *rest, *first = strtok_r(line + 2, " \t", &rest);
  *name = first;
  if (!first || !is_last(first, "env")) return first;
  *name = strtok_r(NULL, " \t", &rest);
  if (!*name || **name == '-' || strpbrk(*name, "/=")) *name = NULL;
  return *name ? config_search_path(self, *name) : NULL;
}

/* The kernel says "No such file or directory" of the script then, which is there. */
static void note_missing(serve_config *self, const tool_config *tool, const char *name) {
  yyjson_val *first = yyjson_arr_get_first(yyjson_obj_get(tool->definition, "run"));
  bool windows = name[strcspn(name, "\r")] != 0;
  source_note(&self->source, first,
              windows
                  ? "tool %s: the first line of %s, \"#!%.*s\", ends in a carriage return, and a "
                    "call would fail: save the file with Unix line ends"
                  : "tool %s: %s is run by %.*s, which is not there, and a call would fail: "
                    "install it or change the first line",
              tool->name, yyjson_get_str(first), (int)strcspn(name, "\r"), name);
}

static void note(serve_config *self, const tool_config *tool, const char *path, const char *how) {
  yyjson_val *run = yyjson_obj_get(tool->definition, "run");
  const char *word = yyjson_get_str(yyjson_arr_get_first(run));
  char folder[PATH_MAX];
  snprintf(folder, sizeof folder, "%s", path);
  folder_of(folder);
  source_note(
      &self->source, yyjson_arr_get_first(run),
      "tool %s: %s %s %s, and confined programs cannot reach what is around it: if it needs "
      "that, write \"allow\": {\"read\": [\"%s\"]}",
      tool->name, word, how, path, folder);
}

/* Many tools may run one program, which is looked at once. */
static found_program *found_as(const serve_config *self, const char *path) {
  found_program *one = self->programs;
  while (one && one->path != path) one = one->next;
  return one;
}

/* A script of one's own needs nothing else; what was found by its name alone, and what runs others, does. */
void bounds_note_outside(serve_config *self, const tool_config *tool) {
  yyjson_val *run = yyjson_obj_get(tool->definition, "run");
  const char *word = yyjson_get_str(yyjson_arr_get_first(run));
  char real[PATH_MAX], line[FIRST_LINE + 1];
  found_program *found = found_as(self, tool->program);
  if (found && found->plain) return;
  if (!tool->program || !word || !realpath(tool->program, real)) return;
  bool script = read_first_line(real, line);
  if (found) found->plain = !script && confine_is_system(real);
  bool brings = bounds_is_interpreter(word) || (script && !strchr(word, '/'));
  if (brings && !may_read(self, tool, real)) {
    note(self, tool, real, "is");
    return;
  }
  const char *name = NULL, *by = script ? interpreter_in(self, line, &name) : NULL;
  bool there = by && realpath(by, real);
  if (there && !may_run(tool, real)) note(self, tool, real, "is run by");
  if (!there && name) note_missing(self, tool, name);
}
