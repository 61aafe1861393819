/* config_program.c - what a tool that runs a program is made of: the file, its words, its
 * environment. Nothing of it depends on a call; what cannot work is told at the start. */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ------------------------------------------------------------------------ program */

static bool can_run(const char *path) {
  struct stat about;
  return stat(path, &about) == 0 && S_ISREG(about.st_mode) && access(path, X_OK) == 0;
}

/* Many tools run the same program. */
static const char *find_among_others(const serve_config *self, const char *name) {
  for (const found_program *one = self->programs; one; one = one->next)
    if (strcmp(one->name, name) == 0) return one->path;
  return NULL;
}

const char *config_search_path(serve_config *self, const char *name) {
  const char *folders = getenv("PATH");
  for (const char *at = folders ? folders : "/usr/bin:/bin"; *at;) {
    size_t len = strcspn(at, ":");
    size_t size = len + strlen(name) + 2;
    char *path = memory_zeroed(&self->memory, size, 1);
    snprintf(path, size, "%.*s/%s", (int)len, at, name);
    if (*at == '/' && can_run(path)) return path;
    at += len + (at[len] == ':');
  }
  return NULL;
}

static const char *find_in_path(serve_config *self, const char *name) {
  const char *path = find_among_others(self, name);
  if (path || !(path = config_search_path(self, name))) return path;
  found_program *found = memory_zeroed(&self->memory, 1, sizeof *found);
  *found = (found_program){.next = self->programs, .name = name, .path = path};
  self->programs = found;
  return path;
}

static const char *at_path(serve_config *self, yyjson_val *first, const tool_config *tool) {
  const char *path = config_path(self, (config_owner){"tool", tool->name}, first, "program");
  struct stat about;
  if (!path || can_run(path)) return path;
  bool folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
  source_fault(&self->source, first, "tool %s: %s %s", tool->name, yyjson_get_str(first),
               folder ? "is a folder: name a program in it"
                      : "cannot be run: chmod +x makes a program of a file");
  return path;
}

/* What people usually meant by a name that is not in PATH. */
static const char *mend(const serve_config *self, const char *name) {
  char path[PATH_MAX];
  struct stat about;
  snprintf(path, sizeof path, "%s/%s", self->source.folder, name);
  bool here = stat(path, &about) == 0;
  if (here && S_ISDIR(about.st_mode)) return "here it is a folder: name a program in it";
  if (here) return "for the file in this folder write ./ before it";
  return strchr(name, ' ') ? "write each word by itself: [\"grep\", \"-n\"]"
                           : "install it or write its path";
}

static bool take_program(serve_config *self, yyjson_val *run, tool_config *tool) {
  yyjson_val *first = yyjson_arr_get_first(run);
  const slot *named = tool->run.slots;
  if (!yyjson_is_str(first) || named->words[0].count != 1 || named->words[0].pieces[0].is_name) {
    source_fault(&self->source, first, "tool %s: the program must be named here, without {}",
                 tool->name);
    return false;
  }
  const char *name = yyjson_get_str(first);
  tool->program = strchr(name, '/') ? at_path(self, first, tool) : find_in_path(self, name);
  if (!tool->program && !strchr(name, '/'))
    source_fault(&self->source, first, "tool %s: there is no program %s in PATH: %s", tool->name,
                 name, mend(self, name));
  return tool->program;
}

/* -------------------------------------------------------------------------- names */

static void take_inside(serve_config *self, yyjson_val *rules, tool_config *tool,
                        name_check *check) {
  yyjson_val *key, *folder;
  size_t i, max;
  if (!rules) return;
  tool->inside = memory_zeroed(&self->memory, yyjson_obj_size(rules) + 1, sizeof(inside_rule));
  idem_each_member(rules, i, max, key, folder) {
    check->at = key;
    name_check_see(check, yyjson_get_str(key), yyjson_get_len(key));
    tool->inside[tool->inside_count++] = (inside_rule){
        .argument = yyjson_get_str(key),
        .folder = config_path(self, (config_owner){"tool", tool->name}, folder, "folder"),
    };
  }
}

/* What a caller may know of paths: how they go on in these. */
static void take_folders(serve_config *self, tool_config *tool) {
  const char **folders = memory_zeroed(&self->memory, tool->inside_count + 2, sizeof *folders);
  size_t count = 0;
  for (size_t i = 0; i < tool->inside_count; i++)
    if (tool->inside[i].folder) folders[count++] = tool->inside[i].folder;
  folders[count] = self->source.folder;
  tool->folders = folders;
}

static void take_names(serve_config *self, yyjson_val *value, tool_config *tool) {
  name_check check;
  name_check_init(&check, self, tool);
  name_check_run(&check, yyjson_obj_get(value, "run"), &tool->run);
  if (tool->has_stdin) name_check_word(&check, yyjson_obj_get(value, "stdin"), &tool->stdin_text);
  take_inside(self, yyjson_obj_get(value, "inside"), tool, &check);
  name_check_deinit(&check);
}

/* ----------------------------------------------------------------------- together */

static bool take_words(serve_config *self, yyjson_val *value, tool_config *tool) {
  yyjson_val *run = yyjson_obj_get(value, "run"), *input = yyjson_obj_get(value, "stdin"), *at;
  const char *why = template_compile(&tool->run, run, &self->memory, &at);
  if (!why && input) {
    at = input;
    tool->has_stdin = true;
    why = word_compile(&tool->stdin_text, yyjson_get_str(input), yyjson_get_len(input),
                       &self->memory);
  }
  if (why)
    source_fault(&self->source, at, "tool %s: \"%s\" %s", tool->name, yyjson_get_str(at), why);
  return !why;
}

static const char *const *take_paths(serve_config *self, const tool_config *tool,
                                     yyjson_val *list) {
  yyjson_val *item;
  size_t i, max, count = 0;
  static const char *const none[] = {NULL};
  if (!list) return none;
  const char **paths = memory_zeroed(&self->memory, yyjson_arr_size(list) + 1, sizeof *paths);
  yyjson_arr_foreach(list, i, max, item) {
    paths[count] = config_path(self, (config_owner){"tool", tool->name}, item, "allow");
    if (paths[count]) count++;
  }
  return paths;
}

static void take_allow(serve_config *self, yyjson_val *value, tool_config *tool) {
  yyjson_val *allow = yyjson_obj_get(value, "allow");
  tool->unconfined = yyjson_is_false(yyjson_obj_get(value, "confine"));
  tool->allow_net = config_true(allow, "net");
  tool->allow_read = take_paths(self, tool, yyjson_obj_get(allow, "read"));
  tool->allow_write = take_paths(self, tool, yyjson_obj_get(allow, "write"));
}

static void take_exit_ok(yyjson_val *list, tool_config *tool) {
  yyjson_val *item;
  size_t i, max;
  tool->exit_ok[0] = !list;
  yyjson_arr_foreach(list, i, max, item) {
    unsigned long status = strtoul(yyjson_get_raw(item), NULL, 10) & 255u;
    tool->exit_ok[status >> 6] |= UINT64_C(1) << (status & 63u);
  }
}

static void take_errors(serve_config *self, yyjson_val *value, tool_config *tool) {
  static const char *const names[] = {[ERRORS_SHOW] = "show",
                                      [ERRORS_HIDE] = "hide",
                                      [ERRORS_LOG] = "log",
                                      [ERRORS_WITH] = "with",
                                      [ERRORS_MERGE] = "merge"};
  yyjson_val *mode = yyjson_obj_get(value, "stderr");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (yyjson_equals_str(mode, names[i])) tool->errors = (errors_mode)i;
  if (tool->errors < ERRORS_WITH) return;
  if (tool->output_json)
    source_fault(&self->source, mode, "tool %s: JSON with something beside it is none: remove %s",
                 tool->name, "\"stderr\" or \"output\"");
  if (tool->errors == ERRORS_MERGE && tool->progress)
    source_fault(&self->source, mode,
                 "tool %s: progress is read from stderr, which \"merge\" makes output: write "
                 "\"with\"",
                 tool->name);
}

static bool see_any(void *user, const char *name, size_t len) {
  (void)user, (void)name, (void)len;
  return false;
}

static bool has_conditions(const arguments_template *run) {
  for (size_t i = 0; i < run->count; i++)
    if (run->slots[i].condition) return true;
  return false;
}

/* It is started once, for all calls: nothing of a call can be in how it is started. */
static void check_kept(serve_config *self, yyjson_val *value, const tool_config *tool) {
  static const char *const senseless[] = {"stdin", "exit_ok", "progress", "tmpdir", "unsafe"};
  yyjson_val *run = yyjson_obj_get(value, "run"), *at;
  if (!template_names(&tool->run, see_any, NULL) || has_conditions(&tool->run))
    source_fault(&self->source, run,
                 "tool %s: a program that stays (keep) is started once, so its words cannot hold "
                 "arguments; it is told them with each call",
                 tool->name);
  for (size_t i = 0; i < tool->env_count; i++)
    if (tool->env[i].value)
      source_fault(&self->source, yyjson_obj_get(value, "env"),
                   "tool %s: a program that stays (keep) has the same variables for all calls",
                   tool->name);
  for (size_t i = 0; i < sizeof senseless / sizeof *senseless; i++)
    if ((at = source_key(value, senseless[i], strlen(senseless[i]))))
      source_fault(&self->source, at, "tool %s: \"%s\" means nothing beside \"keep\"", tool->name,
                   senseless[i]);
  if (tool->errors >= ERRORS_WITH)
    source_fault(&self->source, yyjson_obj_get(value, "stderr"),
                 "tool %s: stderr of a program that stays (keep) belongs to no call: show, hide or "
                 "log",
                 tool->name);
}

bool config_program(serve_config *self, yyjson_val *value, tool_config *tool) {
  yyjson_val *cwd = yyjson_obj_get(value, "cwd");
  const char *output = config_text(value, "output"), *tmpdir = config_text(value, "tmpdir");
  tool->output_json = output && strcmp(output, "json") == 0;
  tool->own_tmpdir = tmpdir && strcmp(tmpdir, "call") == 0;
  tool->progress = config_true(value, "progress");
  tool->processes = config_number(value, "processes", CONFIG_PROCESSES);
  take_errors(self, value, tool);
  take_exit_ok(yyjson_obj_get(value, "exit_ok"), tool);
  take_allow(self, value, tool);
  tool->cwd = cwd ? config_path(self, (config_owner){"tool", tool->name}, cwd, "folder")
                  : self->source.folder;
  if (!take_words(self, value, tool)) return false;
  take_names(self, value, tool);
  take_folders(self, tool);
  config_shell(self, value, tool);
  bool found = take_program(self, yyjson_obj_get(value, "run"), tool);
  bool fine = config_environment(self, value, tool) && found;
  tool->keep = config_true(value, "keep");
  if (tool->keep) check_kept(self, value, tool);
  return fine;
}
