/* bounds.c - see bounds.h. A program that may write the file it is confined by is confined by nothing:
 * the next reading gives it what it wrote. The kernel cannot be told to spare a file in a folder that may be
 * written, so such a configuration is refused. */
#include "bounds.h"

#include "confine.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOW_MAX 512u

/* What a faulty file names nowhere is beneath nothing: its faults are told all at once. */
static bool is_beneath(const char *path, const char *folder) {
  if (!path || !folder) return false;
  size_t len = strlen(folder);
  while (len && folder[len - 1] == '/') len--;
  return strncmp(path, folder, len) == 0 && (!path[len] || path[len] == '/');
}

bool bounds_within(const char *path, const char *const *folders) {
  for (size_t i = 0; folders && folders[i]; i++)
    if (is_beneath(path, folders[i])) return true;
  return false;
}

/* A member of its definition; hidden ones have no more than what they run. */
static yyjson_val *member(const tool_config *tool, const char *name) {
  if (!tool || tool->hidden) return NULL;
  return yyjson_obj_get(yyjson_obj_iter_get_val(tool->key), name);
}

static bool same(yyjson_val *one, yyjson_val *other) {
  return one && other ? yyjson_equals(one, other) : !one && !other;
}

/* ------------------------------------------------------------------------ more than */

/* What a tool has beyond what another one has; the other may be none. */
typedef struct comparison {
  const serve_config *config;
  const tool_config *tool;
  const tool_config *other;
  char how[HOW_MAX]; /* as it stands behind the tool's name */
} comparison;

static bool say(comparison *self, const char *what, const char *which) {
  snprintf(self->how, sizeof self->how, "%s%.400s", what, which);
  return true;
}

/* As the file names it where it can: logs show no absolute paths. */
static bool say_path(comparison *self, const char *what, const char *path) {
  const char *folder = self->config->source.folder;
  size_t len = strlen(folder);
  return say(self, what, is_beneath(path, folder) && path[len] ? path + len + 1 : path);
}

static bool may_read(const comparison *self, const char *path) {
  const tool_config *other = self->other;
  if (is_beneath(path, self->config->source.folder) || confine_is_system(path)) return true;
  if (!other || !other->is_program) return false;
  for (size_t i = 0; i < other->inside_count; i++)
    if (is_beneath(path, other->inside[i].folder)) return true;
  return is_beneath(path, other->cwd) || bounds_within(path, other->allow_read) ||
         bounds_within(path, other->allow_write);
}

static bool reads_more(comparison *self) {
  const tool_config *tool = self->tool;
  for (size_t i = 0; tool->allow_read && tool->allow_read[i]; i++)
    if (!may_read(self, tool->allow_read[i]))
      return say_path(self, "may read ", tool->allow_read[i]);
  for (size_t i = 0; i < tool->inside_count; i++)
    if (tool->inside[i].folder && !may_read(self, tool->inside[i].folder))
      return say_path(self, "may read ", tool->inside[i].folder);
  return tool->cwd && !may_read(self, tool->cwd) && say_path(self, "may read ", tool->cwd);
}

static bool writes_more(comparison *self) {
  const char *const *held = self->other ? self->other->allow_write : NULL;
  for (size_t i = 0; self->tool->allow_write && self->tool->allow_write[i]; i++)
    if (!bounds_within(self->tool->allow_write[i], held))
      return say_path(self, "may write ", self->tool->allow_write[i]);
  return false;
}

/* A secret is any file or variable of the server's; a reference that was there before gives nothing new. */
static bool knows_more(comparison *self) {
  yyjson_val *given = member(self->tool, "env"), *held = member(self->other, "env"), *key, *item;
  size_t i, max;
  idem__each_member(given, i, max, key, item) {
    if (yyjson_is_obj(item) && !same(item, yyjson_obj_get(held, yyjson_get_str(key))))
      return say(self, "is given the secret ", yyjson_get_str(key));
  }
  return false;
}

static bool holds_text(yyjson_val *list, const char *text) {
  yyjson_val *item;
  size_t i, max;
  yyjson_arr_foreach(list, i, max, item) if (yyjson_equals_str(item, text)) return true;
  return false;
}

static bool is_passed_more(comparison *self) {
  yyjson_val *given = member(self->tool, "pass_env"), *item;
  yyjson_val *held = member(self->other, "pass_env");
  size_t i, max;
  yyjson_arr_foreach(given, i, max, item) {
    if (!holds_text(held, yyjson_get_str(item)))
      return say(self, "is given the variable ", yyjson_get_str(item));
  }
  return false;
}

static bool program_has_more(comparison *self) {
  const tool_config *tool = self->tool, *other = self->other;
  if (knows_more(self) || is_passed_more(self)) return true;
  if (other && other->is_program && other->unconfined) return false;
  if (tool->unconfined) return say(self, "is not confined", "");
  if (tool->allow_net && !(other && other->allow_net)) return say(self, "may use the network", "");
  return writes_more(self) || reads_more(self);
}

static bool has_secret(const http_config *http) {
  bool found = false;
  for (size_t i = 0; i < http->header_count; i++) found = found || http->headers[i].secret;
  for (size_t i = 0; i < http->form_count; i++) found = found || http->form[i].secret;
  return found;
}

/* A service may be named that is sent what another one's key opens. */
static bool request_has_more(comparison *self) {
  const http_config *http = self->tool->http;
  const http_config *held = self->other ? self->other->http : NULL;
  if (!has_secret(http)) return false;
  yyjson_val *before = member(self->other, "http"), *now = member(self->tool, "http");
  if (held && strcmp(http->origin, held->origin) == 0 &&
      same(yyjson_obj_get(now, "headers"), yyjson_obj_get(before, "headers")) &&
      same(yyjson_obj_get(now, "form"), yyjson_obj_get(before, "form")))
    return false;
  return say(self, "sends a secret to ", http->origin);
}

static bool query_has_more(comparison *self) {
  const tool_config *tool = self->tool, *other = self->other;
  if (!tool->may_write || !tool->database) return false;
  if (other && other->may_write && other->database && strcmp(tool->database, other->database) == 0)
    return false;
  return say_path(self, "may write ", tool->database);
}

static bool has_more(comparison *self) {
  if (self->tool->is_program) return program_has_more(self);
  return self->tool->http ? request_has_more(self) : query_has_more(self);
}

/* Whoever has no bounds has those of what it runs. */
static bool runs_other(comparison *self) {
  const tool_config *tool = self->tool, *other = self->other;
  if (!tool->is_program || !tool->unconfined || !other || !other->unconfined) return false;
  static const char *const parts[] = {"run", "env", "stdin", "cwd"};
  bool differs = strcmp(tool->program, other->program) != 0 || tool->hidden != other->hidden ||
                 (tool->hidden && !same(tool->key, other->key)); /* it is what a hidden one runs */
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    differs = differs || !same(member(tool, parts[i]), member(other, parts[i]));
  return differs && say(self, "is not confined and runs something else", "");
}

/* -------------------------------------------------------------------------- reloads */

/* Files are mostly changed in few places: the next one is tried first. */
static const tool_config *find_tool(const serve_config *self, const char *name, size_t *at) {
  for (size_t i = 0; i < self->tool_count; i++) {
    const tool_config *tool = &self->tools[(*at + i) % self->tool_count];
    if (strcmp(tool->name, name) != 0) continue;
    *at = (size_t)(tool - self->tools) + 1;
    return tool;
  }
  return NULL;
}

bool bounds_loosened(const serve_config *before, const serve_config *now, idem_log *log,
                     idem_log_level level) {
  bool loosened = false;
  size_t at = 0;
  for (size_t i = 0; i < now->tool_count; i++) {
    comparison one = {.config = now, .tool = &now->tools[i]};
    one.other = find_tool(before, one.tool->name, &at);
    if (!has_more(&one) && !runs_other(&one)) continue;
    loosened = true;
    idem_logf(log, level, "a tool is given more than before", "%s %s", one.tool->name, one.how);
  }
  return loosened;
}

/* -------------------------------------------------------------------------- the file */

static void refuse(serve_config *self, const tool_config *tool, const char *folder,
                   const char *what) {
  source_fault(&self->source, tool->key, "tool %s: allow: write: %s %s", tool->name, folder, what);
}

/* As it is named, and where that leads. */
static bool holds_configuration(const serve_config *self, const char *folder) {
  char real[PATH_MAX];
  return is_beneath(self->source.folder, folder) ||
         (realpath(self->source.path, real) && is_beneath(real, folder));
}

/* By its name, also with a version behind: python3.11. */
static bool is_interpreter(const char *program) {
  static const char *const names[] = {"sh",     "bash",   "dash", "ash",  "ksh",  "zsh",
                                      "fish",   "python", "perl", "ruby", "node", "php",
                                      "nodejs", "lua",    "deno", "tclsh"};
  if (!program) return false;
  const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t len = strlen(names[i]);
    if (strncmp(name, names[i], len) == 0 && !name[len + strspn(name + len, "0123456789.")])
      return true;
  }
  return false;
}

/* What an interpreter is told to run: its first word that is no flag. */
static bool runs_script_in(const tool_config *tool, const char *folder) {
  yyjson_val *run = member(tool, "run"), *item;
  char path[PATH_MAX], real[PATH_MAX];
  size_t i, max;
  if (!yyjson_is_arr(run) || !is_interpreter(yyjson_get_str(yyjson_arr_get_first(run))))
    return false;
  yyjson_arr_foreach(run, i, max, item) {
    const char *word = yyjson_get_str(item);
    if (i == 0 || !word || *word == '-') continue;
    snprintf(path, sizeof path, "%s%s%s", *word == '/' || !tool->cwd ? "" : tool->cwd,
             *word == '/' || !tool->cwd ? "" : "/", word);
    return realpath(path, real) && is_beneath(real, folder);
  }
  return false;
}

/* One that another tool runs with more than the writer has. */
static const tool_config *holds_program(const serve_config *self, const tool_config *writer,
                                        const char *folder) {
  for (size_t i = 0; i < self->tool_count; i++) {
    comparison one = {.config = self, .tool = &self->tools[i], .other = writer};
    if (!one.tool->is_program || one.tool == writer) continue;
    if ((is_beneath(one.tool->program, folder) || runs_script_in(one.tool, folder)) &&
        has_more(&one))
      return one.tool;
  }
  return NULL;
}

static const char *holds_command(const serve_config *self, const char *folder) {
  for (const found_program *one = self->commands; one; one = one->next)
    if (is_beneath(one->path, folder)) return one->name;
  return NULL;
}

static bool holds_secret(const serve_config *self, const char *folder) {
  for (const found_program *one = self->secret_files; one; one = one->next)
    if (is_beneath(one->path, folder)) return true;
  return false;
}

static void check_folder(serve_config *self, const tool_config *tool, const char *folder) {
  const tool_config *other;
  char what[HOW_MAX];
  if (is_beneath("/proc", folder) || is_beneath(folder, "/proc")) {
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

bool bounds_check(serve_config *self) {
  unsigned faults = self->source.faults;
  for (size_t i = 0; i < self->tool_count; i++) {
    const tool_config *tool = &self->tools[i];
    if (!tool->is_program || tool->unconfined) continue;
    for (size_t j = 0; tool->allow_write && tool->allow_write[j]; j++)
      check_folder(self, tool, tool->allow_write[j]);
  }
  return self->source.faults == faults;
}
