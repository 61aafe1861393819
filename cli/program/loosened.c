/* loosened.c - what a changed file gives beyond what there was: by name, and of what is new beyond what is usual.
 * A key that opens something or sets a bound has its line here, and its row in the test. See bounds.h. */
#include "bounds.h"

#include "confine.h"

#include <stdio.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

static yyjson_val *member(const tool_config *tool, const char *name) {
  return tool ? yyjson_obj_get(tool->definition, name) : NULL;
}

static bool same(yyjson_val *one, yyjson_val *other) {
  return one && other ? yyjson_equals(one, other) : !one && !other;
}

/* ------------------------------------------------------------------------ more than */

/* How the log calls those who have more: what would be so is refused. */
typedef struct phrase {
  const char *is, *would_be;
} phrase;

static const phrase a_tool = {"a tool is given more than before",
                              "a tool would be given more than before"};
static const phrase a_resource = {"a resource is given more than before",
                                  "a resource would be given more than before"};
static const phrase a_prompt = {"a prompt is given more than before",
                                "a prompt would be given more than before"};
static const phrase programs = {"programs are given more than before",
                                "programs would be given more than before"};

/* What a tool has beyond what another one has; the other may be none. */
typedef struct comparison {
  const serve_config *config;
  const tool_config *tool;
  const tool_config *other;
  const phrase *phrase;
  const char *name;
  idem_log *log; /* NULL: it is only counted */
  bool refused;
  size_t found;
} comparison;

static void say(comparison *self, const char *what, const char *which) {
  self->found++;
  if (!self->log) return;
  idem_logf(self->log, self->refused ? IDEM_LOG_WARN : IDEM_LOG_INFO,
            self->refused ? self->phrase->would_be : self->phrase->is, "%s %s%.400s", self->name,
            what, which);
}

/* As the file names it where it can: logs show no absolute paths. */
static void say_path(comparison *self, const char *what, const char *path) {
  const char *folder = self->config->source.folder;
  size_t len = strlen(folder);
  say(self, what, bounds_beneath(path, folder) && path[len] ? path + len + 1 : path);
}

static bool may_read(const comparison *self, const char *path) {
  const tool_config *other = self->other;
  if (bounds_beneath(path, self->config->source.folder) || confine_is_system(path)) return true;
  if (!other || !other->is_program) return false;
  for (size_t i = 0; i < other->inside_count; i++)
    if (bounds_beneath(path, other->inside[i].folder)) return true;
  return bounds_beneath(path, other->cwd) || bounds_within(path, other->allow_read) ||
         bounds_within(path, other->allow_write);
}

static void reads_more(comparison *self) {
  const tool_config *tool = self->tool;
  for (size_t i = 0; tool->allow_read && tool->allow_read[i]; i++)
    if (!may_read(self, tool->allow_read[i])) say_path(self, "may read ", tool->allow_read[i]);
  for (size_t i = 0; i < tool->inside_count; i++)
    if (tool->inside[i].folder && !may_read(self, tool->inside[i].folder))
      say_path(self, "may read ", tool->inside[i].folder);
  if (tool->cwd && !may_read(self, tool->cwd)) say_path(self, "may read ", tool->cwd);
}

static void writes_more(comparison *self) {
  const char *const *held = self->other ? self->other->allow_write : NULL;
  for (size_t i = 0; self->tool->allow_write && self->tool->allow_write[i]; i++)
    if (!bounds_within(self->tool->allow_write[i], held))
      say_path(self, "may write ", self->tool->allow_write[i]);
}

/* A secret is any file or variable of the server's; a reference that was there before gives nothing new. */
static void knows_more(comparison *self) {
  yyjson_val *given = member(self->tool, "env"), *held = member(self->other, "env"), *key, *item;
  size_t i, max;
  idem_each_member(given, i, max, key, item) {
    bool secret = yyjson_is_obj(item) && !yyjson_obj_get(item, "claim") &&
                  !yyjson_obj_get(item, "principal"); /* those are the caller's own */
    if (secret && !same(item, yyjson_obj_get(held, yyjson_get_str(key))))
      say(self, "is given the secret ", yyjson_get_str(key));
  }
}

static bool holds_text(yyjson_val *list, const char *text) {
  yyjson_val *item;
  size_t i, max;
  yyjson_arr_foreach(list, i, max, item) if (yyjson_equals_str(item, text)) return true;
  return false;
}

static void is_passed_more(comparison *self) {
  yyjson_val *given = member(self->tool, "pass_env"), *item;
  yyjson_val *held = member(self->other, "pass_env");
  size_t i, max;
  yyjson_arr_foreach(given, i, max, item) {
    if (!holds_text(held, yyjson_get_str(item)))
      say(self, "is given the variable ", yyjson_get_str(item));
  }
}

static void program_has_more(comparison *self) {
  const tool_config *tool = self->tool, *other = self->other;
  knows_more(self);
  is_passed_more(self);
  if (other && other->is_program && other->unconfined) return;
  if (tool->unconfined) {
    say(self, "is not confined", "");
    return;
  }
  if (tool->allow_net && !(other && other->allow_net)) say(self, "may use the network", "");
  writes_more(self);
  reads_more(self);
}

static bool differs(const comparison *self, const char *const *parts, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!same(member(self->tool, parts[i]), member(self->other, parts[i]))) return true;
  return false;
}

static bool has_secret(const http_config *http) {
  bool found = false;
  for (size_t i = 0; i < http->header_count; i++) found = found || http->headers[i].secret;
  for (size_t i = 0; i < http->form_count; i++) found = found || http->form[i].secret;
  return found;
}

/* What is asked of it with the key, and with which values. */
static bool asks_other(const comparison *self) {
  static const char *const parts[] = {"http", "args", "input"};
  return differs(self, parts, COUNT(parts));
}

/* A service may be named that is sent what another one's key opens. */
static void request_has_more(comparison *self) {
  const http_config *http = self->tool->http;
  const http_config *held = self->other ? self->other->http : NULL;
  bool other_origin = !held || strcmp(http->origin, held->origin) != 0;
  if (!has_secret(http)) {
    if (other_origin) say(self, "asks ", http->origin);
    return;
  }
  yyjson_val *before = member(self->other, "http"), *now = member(self->tool, "http");
  if (other_origin || !same(yyjson_obj_get(now, "headers"), yyjson_obj_get(before, "headers")) ||
      !same(yyjson_obj_get(now, "form"), yyjson_obj_get(before, "form")))
    say(self, "sends a secret to ", http->origin);
  else if (asks_other(self))
    say(self, "has a secret and asks something else of ", http->origin);
}

/* A database, or the script of one. */
static void reads_other(comparison *self, const char *path, const char *before) {
  if (!path || bounds_beneath(path, self->config->source.folder)) return;
  if (!before || strcmp(path, before) != 0) say_path(self, "may read ", path);
}

static void query_has_more(comparison *self) {
  static const char *const parts[] = {"query", "args", "input"};
  const tool_config *tool = self->tool, *other = self->other;
  const char *held = other ? other->database : NULL;
  bool writes = tool->may_write && tool->database;
  bool wrote = writes && held && strcmp(tool->database, held) == 0 && other->may_write;
  if (writes && !wrote)
    say_path(self, "may write ", tool->database);
  else if (wrote && differs(self, parts, COUNT(parts)))
    say_path(self, "runs another statement and may write ", tool->database);
  if (!writes) reads_other(self, tool->database, held);
  reads_other(self, tool->script_path, other ? other->script_path : NULL);
}

static void has_more(comparison *self) {
  if (self->tool->is_program)
    program_has_more(self);
  else if (self->tool->http)
    request_has_more(self);
  else
    query_has_more(self);
}

static bool is_given_secret(const tool_config *tool) {
  yyjson_val *env = member(tool, "env"), *key, *item;
  size_t i, max;
  bool found = false;
  idem_each_member(env, i, max, key, item) {
    (void)key;
    found = found || yyjson_is_obj(item);
  }
  return found;
}

/* What makes it matter which program it is. NULL: what every tool has, a new one, too. */
static const char *privilege_of(const tool_config *tool) {
  if (tool->unconfined) return "is not confined";
  if (is_given_secret(tool)) return "has a secret";
  if (tool->allow_net) return "has the network";
  if (tool->allow_write && tool->allow_write[0]) return "has folders to write";
  return yyjson_arr_size(member(tool, "pass_env")) ? "has variables of the server" : NULL;
}

/* What a tool has, it gives to what it runs. One that is new has been told of. */
static void runs_other(comparison *self) {
  static const char *const parts[] = {"run", "env", "stdin", "cwd", "args", "input"};
  const tool_config *tool = self->tool, *other = self->other;
  if (!tool->is_program || !other || !other->is_program) return;
  if (tool->unconfined && !other->unconfined) return;
  const char *privilege = privilege_of(tool);
  if (privilege &&
      (strcmp(tool->program, other->program) != 0 || differs(self, parts, COUNT(parts))))
    say(self, privilege, " and runs something else");
}

/* ---------------------------------------------------------------------- looser than */

static void takes_code(comparison *self) {
  if (self->tool->is_program && yyjson_is_true(member(self->tool, "unsafe")) &&
      !yyjson_is_true(member(self->other, "unsafe")))
    say(self, "takes values as parts of programs (unsafe)", "");
}

static void shows_more(comparison *self) {
  if (yyjson_equals_str(member(self->other, "stderr"), "hide") &&
      !yyjson_equals_str(member(self->tool, "stderr"), "hide"))
    say(self, "shows its stderr", "");
  if (self->other && self->other->own_tmpdir && !self->tool->own_tmpdir)
    say(self, "shares a temporary folder among its calls", "");
}

static bool has_argument(const tool_config *tool, const char *name) {
  yyjson_val *args = member(tool, "args"), *key, *item;
  size_t i, max, len = strlen(name);
  if (!args) return yyjson_obj_get(yyjson_obj_get(member(tool, "input"), "properties"), name);
  idem_each_member(args, i, max, key, item) {
    (void)item;
    if (strncmp(yyjson_get_str(key), name, len) == 0 &&
        strspn(yyjson_get_str(key) + len, "?") == strlen(yyjson_get_str(key) + len))
      return true;
  }
  return false;
}

static const char *inside_of(const tool_config *tool, const char *argument) {
  for (size_t i = 0; i < tool->inside_count; i++)
    if (strcmp(tool->inside[i].argument, argument) == 0) return tool->inside[i].folder;
  return NULL;
}

/* Another program's argument of that name may mean something else; who can tell. */
static void names_more_files(comparison *self) {
  const tool_config *other = self->other;
  for (size_t i = 0; other && i < other->inside_count; i++) {
    const char *argument = other->inside[i].argument;
    const char *folder = inside_of(self->tool, argument);
    if (has_argument(self->tool, argument) && !bounds_beneath(folder, other->inside[i].folder))
      say(self, folder ? "takes more files as " : "takes any file as ", argument);
  }
}

/* Without one before: more than what is usual. */
static void raised(comparison *self, const char *what, uint64_t now, uint64_t before) {
  char which[96];
  snprintf(which, sizeof which, "%s %llu, not %llu", what, (unsigned long long)now,
           (unsigned long long)before);
  if (now > before) say(self, "has ", which);
}

static void limits_raised(comparison *self) {
  const tool_config *tool = self->tool, *other = self->other;
  tool_config usual = {.deadline_ms = config_usual_deadline(tool),
                       .idle_ms = CONFIG_IDLE_MS,
                       .output_bytes = CONFIG_OUTPUT_BYTES,
                       .max_rows = CONFIG_MAX_ROWS,
                       .processes = CONFIG_PROCESSES};
  if (!other || other->is_program != tool->is_program || !other->query != !tool->query)
    other = &usual;
  raised(self, "deadline_ms", tool->deadline_ms, other->deadline_ms);
  raised(self, "idle_ms", tool->idle_ms, other->idle_ms);
  raised(self, "output_bytes", tool->output_bytes, other->output_bytes);
  raised(self, "processes", tool->processes, other->processes);
  if (tool->query) raised(self, "max_rows", tool->max_rows, other->max_rows);
}

/* Others could use it. */
static void needs_less(comparison *self, const char *now, const char *before) {
  if (before && *before && (!now || strcmp(now, before) != 0)) say(self, "needs other scopes", "");
}

static void is_looser(comparison *self) {
  needs_less(self, self->tool->scopes, self->other ? self->other->scopes : NULL);
  has_more(self);
  runs_other(self);
  takes_code(self);
  names_more_files(self);
  shows_more(self);
  limits_raised(self);
}

/* ------------------------------------------------------------------------- resources */

static bool includes_pattern(const resource_config *self, const char *pattern) {
  for (size_t i = 0; self->include && self->include[i]; i++)
    if (strcmp(self->include[i], pattern) == 0) return true;
  return !self->include;
}

static bool includes_more(const resource_config *now, const resource_config *before) {
  if (!now->include) return before->include;
  for (size_t i = 0; now->include[i]; i++)
    if (!includes_pattern(before, now->include[i])) return true;
  return false;
}

static const resource_config *find_resource(const serve_config *self, const char *name) {
  for (size_t i = 0; i < self->resource_count; i++)
    if (strcmp(self->resources[i].name, name) == 0) return &self->resources[i];
  return NULL;
}

/* What lies beside the configuration a new tool could read, too. */
static void serves_more(comparison *self, const resource_config *now,
                        const resource_config *before) {
  bool kept = before && (before->is_directory ? bounds_beneath(now->path, before->path)
                                              : strcmp(now->path, before->path) == 0);
  bool wider = before && before->is_directory && !kept && bounds_beneath(before->path, now->path);
  if (wider || (!kept && !bounds_beneath(now->path, self->config->source.folder)))
    say_path(self, "serves ", now->path);
  if (kept && before->is_directory && now->is_directory && includes_more(now, before))
    say(self, "includes more files", "");
  raised(self, "max_bytes", now->max_bytes, before ? before->max_bytes : CONFIG_MAX_BYTES);
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

bool bounds_has_more(const serve_config *config, const tool_config *tool,
                     const tool_config *other) {
  comparison one = {.config = config, .tool = tool, .other = other};
  has_more(&one);
  return one.found > 0;
}

static void compare_tools(comparison *self, const serve_config *before) {
  const serve_config *now = self->config;
  size_t at = 0;
  self->phrase = &a_tool;
  for (size_t i = 0; i < now->tool_count; i++) {
    self->tool = &now->tools[i];
    self->name = self->tool->name;
    self->other = find_tool(before, self->name, &at);
    is_looser(self);
  }
}

static void compare_resources(comparison *self, const serve_config *before) {
  const serve_config *now = self->config;
  self->phrase = &a_resource;
  for (size_t i = 0; i < now->resource_count; i++) {
    self->name = now->resources[i].name;
    const resource_config *held = find_resource(before, self->name);
    serves_more(self, &now->resources[i], held);
    needs_less(self, now->resources[i].scopes, held ? held->scopes : NULL);
  }
}

static const prompt_config *find_prompt(const serve_config *self, const char *name) {
  for (size_t i = 0; i < self->prompt_count; i++)
    if (strcmp(self->prompts[i].name, name) == 0) return &self->prompts[i];
  return NULL;
}

static void compare_prompts(comparison *self, const serve_config *before) {
  const serve_config *now = self->config;
  self->phrase = &a_prompt;
  for (size_t i = 0; i < now->prompt_count; i++) {
    self->name = now->prompts[i].name;
    const prompt_config *held = find_prompt(before, self->name);
    needs_less(self, now->prompts[i].scopes, held ? held->scopes : NULL);
  }
}

static yyjson_val *auth_of(const serve_config *self) {
  return yyjson_obj_get(yyjson_doc_get_root(self->source.doc), "auth");
}

static void compare_limits(comparison *self, const serve_config *before) {
  const serve_config *now = self->config;
  self->phrase = &programs;
  self->name = "the server";
  raised(self, "concurrency", now->concurrency, before->concurrency);
  raised(self, "queue", now->queue, before->queue);
  if (!same(auth_of(now), auth_of(before))) say(self, "has another \"auth\"", "");
}

bool bounds_loosened(const serve_config *before, const serve_config *now, idem_log *log,
                     bool refused) {
  comparison one = {.config = now, .log = log, .refused = refused};
  compare_tools(&one, before);
  compare_resources(&one, before);
  compare_prompts(&one, before);
  compare_limits(&one, before);
  return one.found > 0;
}
