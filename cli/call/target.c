/* target.c - see target.h. Four kinds, told apart by their looks alone: URL, file, name, command.
 * Nothing is connected to or started here. */
#include "target.h"
#include "secret.h"
#include "servers.h"
#include "text.h"

#include "config/regular_file.h"

#include <errno.h>
#include <idem/schema.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORDS_MAX 4096u
#define TOKEN_BYTES 65536

static const char *const schemes[] = {"http", "https",   "ws",      "wss",  "tcp",
                                      "tls",  "tcp+lsp", "tls+lsp", "unix", "unix+lsp"};
#define SCHEME_COUNT (sizeof schemes / sizeof *schemes)
static const char *const no_headers[] = {NULL};

static bool fault(const char *what, const char *why) {
  text shown = {.data = NULL};
  text_escape(&shown, what, strlen(what), TEXT_LINE);
  call_say("%s: %s", shown.data ? shown.data : "", why);
  text_free(&shown);
  return false;
}

/* -------------------------------------------------------------------------- URLs */

static size_t scheme_length(const char *word) {
  size_t len = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+");
  if (strncmp(word + len, "://", 3) == 0) return len;
  bool local = len >= 4 && strncmp(word, "unix", 4) == 0 && word[len] == ':';
  return local ? len : 0;
}

static bool take_url(call_target *self, const char *word, size_t len) {
  for (size_t i = 0; i < SCHEME_COUNT; i++) {
    if (strlen(schemes[i]) != len || strncmp(schemes[i], word, len) != 0) continue;
    self->url = word;
    return true;
  }
  char why[160];
  const char *near = idem_schema_suggest(word, len, schemes, SCHEME_COUNT);
  snprintf(why, sizeof why, "there is no such scheme; %s%s",
           near ? "did you mean " : "there are http, https, ws, wss, tcp, tls and unix",
           near ? near : "");
  return fault(word, why);
}

/* "localhost:8420/mcp" is nearly always meant for HTTP. */
static bool looks_like_host(const char *word) {
  const char *colon = strchr(word, ':');
  size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
  return digits && (!colon[1 + digits] || colon[1 + digits] == '/');
}

/* ----------------------------------------------------------------------- idem.json */

/* This very program, started as a server of the file. */
static bool take_configuration(call_target *self, const char *path) {
  char *program = realpath("/proc/self/exe", NULL);
  const char **argv = memory_zeroed(&self->memory, 6, sizeof *argv);
  argv[0] = program ? memory_text(&self->memory, program, strlen(program)) : "idem";
  argv[1] = "serve";
  argv[2] = "--stdio";
  argv[3] = "--log-level=warn";
  argv[4] = path;
  self->argv = argv;
  free(program);
  return true;
}

typedef enum file_kind { FILE_NONE, FILE_CONFIGURATION, FILE_SERVERS, FILE_PROGRAM } file_kind;

/* A file of servers has no tools of its own. */
static file_kind kind_of_file(const char *path) {
  known_servers found;
  struct stat about;
  if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return FILE_NONE;
  yyjson_doc *doc = yyjson_read_file(
      path, YYJSON_READ_ALLOW_COMMENTS | YYJSON_READ_ALLOW_TRAILING_COMMAS, NULL, NULL);
  yyjson_val *root = yyjson_doc_get_root(doc);
  bool own = yyjson_obj_get(root, "tools") || yyjson_obj_get(root, "resources") ||
             yyjson_obj_get(root, "prompts");
  file_kind kind = !own && servers_of(root) ? FILE_SERVERS : FILE_CONFIGURATION;
  if (!doc && access(path, X_OK) == 0) kind = FILE_PROGRAM;
  yyjson_doc_free(doc);
  if (kind == FILE_SERVERS && servers_find(&found, path)) {
    call_say("%s names servers; call one of them with --config %s NAME:", path, path);
    servers_list(&found, stderr, 20);
    servers_free(&found);
  }
  return kind;
}

static bool no_file(const char *word, int error) {
  fault(word, strerror(error));
  if (error == ENOENT) fprintf(stderr, "make one with: idem init %s\n", word);
  return false;
}

/* A word without a slash or ".json" is a name, whatever lies in the folder. */
static bool take_file(call_target *self, const char *word, bool *taken) {
  struct stat about;
  size_t len = strlen(word);
  bool placed = strchr(word, '/') || strcmp(word, ".") == 0 || strcmp(word, "..") == 0;
  *taken = placed || (len > 5 && strcmp(word + len - 5, ".json") == 0);
  if (!*taken) return false;
  if (stat(word, &about) == 0 && S_ISDIR(about.st_mode)) {
    char *path = memory_zeroed(&self->memory, len + 12, 1);
    snprintf(path, len + 12, "%s/idem.json", word);
    return take_file(self, path, taken);
  }
  switch (kind_of_file(word)) {
  case FILE_CONFIGURATION: return take_configuration(self, word);
  case FILE_SERVERS: return false;
  case FILE_PROGRAM:
    return fault(word, "this is a program, not a file of ours; it stands last, behind --");
  default: return no_file(word, errno ? errno : ENOENT);
  }
}

/* ---------------------------------------------------------------- servers by name */

/* Fills in one known server; `from` and `why` are for a fault's sentence. */
typedef struct reading {
  call_target *target;
  const known_server *server;
  bool quiet;
} reading;

static bool refuse(const reading *self, const char *what, const char *why) {
  if (!self->quiet)
    call_say("%s in %s: %s%s%s", self->server->name, self->server->path, what, *what ? ": " : "",
             why);
  return false;
}

static const char *expanded(const reading *self, const char *what, yyjson_val *value) {
  char why[300] = "it must be a text";
  const char *given = yyjson_get_str(value), *made = NULL;
  if (given && strlen(given) == yyjson_get_len(value))
    made = target_expand(&self->target->memory, given, why, sizeof why);
  if (!made) refuse(self, what, why);
  return made;
}

/* The words of `command` (a text, or all of them in an array) and of `args`. */
static bool read_command(const reading *self, yyjson_val *command, yyjson_val *args) {
  size_t count = 0, all = yyjson_arr_size(command) + yyjson_arr_size(args) + 2;
  if (all > WORDS_MAX) return refuse(self, "args", "these are too many words");
  const char **argv = memory_zeroed(&self->target->memory, all, sizeof *argv);
  if (yyjson_is_str(command) && !(argv[count++] = expanded(self, "command", command))) return false;
  yyjson_val *lists[] = {command, args}, *word;
  for (size_t i = 0; i < 2; i++) {
    yyjson_arr_iter at;
    if (!yyjson_arr_iter_init(lists[i], &at)) continue;
    while ((word = yyjson_arr_iter_next(&at)))
      if (!(argv[count++] = expanded(self, "args", word))) return false;
  }
  self->target->argv = argv;
  return count > 0 || refuse(self, "command", "there is none");
}

static bool is_overridden(const char *assignment, yyjson_val *env) {
  size_t len = strcspn(assignment, "=");
  return yyjson_obj_getn(env, assignment, len) != NULL;
}

/* Ours, with the file's on top. */
static bool read_environment(const reading *self, yyjson_val *env) {
  size_t ours = 0, count = 0;
  yyjson_obj_iter at;
  yyjson_val *key;
  if (!yyjson_obj_iter_init(env, &at)) return true;
  while (environ[ours]) ours++;
  size_t all = ours + yyjson_obj_size(env) + 1;
  const char **made = memory_zeroed(&self->target->memory, all, sizeof *made);
  for (size_t i = 0; i < ours; i++)
    if (!is_overridden(environ[i], env)) made[count++] = environ[i];
  while ((key = yyjson_obj_iter_next(&at))) {
    const char *value = expanded(self, yyjson_get_str(key), yyjson_obj_iter_get_val(key));
    if (!value) return false;
    size_t len = yyjson_get_len(key) + strlen(value) + 2;
    char *one = memory_zeroed(&self->target->memory, len, 1);
    snprintf(one, len, "%s=%s", yyjson_get_str(key), value);
    made[count++] = one;
  }
  self->target->environment = made;
  return true;
}

static bool read_headers(const reading *self, yyjson_val *headers) {
  size_t count = 0;
  yyjson_obj_iter at;
  yyjson_val *key;
  if (!yyjson_obj_iter_init(headers, &at)) return true;
  const char **made =
      memory_zeroed(&self->target->memory, yyjson_obj_size(headers) + 1, sizeof *made);
  while ((key = yyjson_obj_iter_next(&at))) {
    const char *value = expanded(self, yyjson_get_str(key), yyjson_obj_iter_get_val(key));
    if (!value) return false;
    size_t len = yyjson_get_len(key) + strlen(value) + 3;
    char *one = memory_zeroed(&self->target->memory, len, 1);
    snprintf(one, len, "%s: %s", yyjson_get_str(key), value);
    made[count++] = one;
  }
  self->target->headers = made;
  return true;
}

static yyjson_val *first_of(yyjson_val *entry, const char *const *names) {
  for (; *names; names++) {
    yyjson_val *value = yyjson_obj_get(entry, *names);
    if (value) return value;
  }
  return NULL;
}

static bool read_url(const reading *self, yyjson_val *url) {
  const char *type = yyjson_get_str(yyjson_obj_get(self->server->entry, "type"));
  if (!type) type = yyjson_get_str(yyjson_obj_get(self->server->entry, "transport"));
  self->target->url = expanded(self, "url", url);
  self->target->event_stream = type && strcmp(type, "sse") == 0;
  return self->target->url && read_headers(self, yyjson_obj_get(self->server->entry, "headers"));
}

/* Zed once wrote a command as an object. */
static bool read_server(const reading *self) {
  static const char *const urls[] = {"url", "httpUrl", "serverUrl", NULL};
  static const char *const envs[] = {"env", "environment", NULL};
  yyjson_val *entry = self->server->entry, *url = first_of(entry, urls);
  yyjson_val *command = yyjson_obj_get(entry, "command");
  if (yyjson_is_obj(command)) {
    entry = command;
    command = yyjson_obj_get(entry, "path");
  }
  if (!command && url) return read_url(self, url);
  if (!command) return refuse(self, "", "it has neither a command nor a url");
  yyjson_val *folder = yyjson_obj_get(entry, "cwd");
  if (folder && !(self->target->folder = expanded(self, "cwd", folder))) return false;
  return read_command(self, command, yyjson_obj_get(entry, "args")) &&
         read_environment(self, first_of(entry, envs));
}

static const char *near_name(const known_servers *servers, const char *word) {
  const char **names = calloc(servers->count + 1, sizeof *names);
  if (!names) return NULL;
  for (size_t i = 0; i < servers->count; i++) names[i] = servers->items[i].name;
  const char *near = idem_schema_suggest(word, strlen(word), names, servers->count);
  free(names);
  return near;
}

static bool no_scheme(const char *word) {
  char why[200];
  snprintf(why, sizeof why, "did you mean http://%.150s%s?", word, strchr(word, '/') ? "" : "/mcp");
  return fault(word, why);
}

/* Who stands beside a configuration has often left it out. */
static void suggest_file(const char *word) {
  struct stat about;
  if (stat("idem.json", &about) == 0 && S_ISREG(about.st_mode))
    fprintf(stderr, "for a tool of idem.json in this folder: idem call idem.json %.100s\n", word);
}

static bool unknown_name(const known_servers *servers, const char *word) {
  const char *near = near_name(servers, word);
  char why[200];
  snprintf(why, sizeof why, "there is no server of that name%s%.64s%s",
           near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
  fault(word, why);
  if (servers->count) fputs("there are:\n", stderr);
  servers_list(servers, stderr, 20);
  if (!servers->count)
    fputs("a target is a URL, an idem.json, a name in an assistant's mcpServers file (none was "
          "found; --config FILE names one), or -- COMMAND\n",
          stderr);
  suggest_file(word);
  return false;
}

static bool take_name(call_target *self, const char *word, const char *config, bool quiet) {
  known_servers servers;
  bool fine = servers_find(&servers, config);
  const known_server *found = fine ? servers_named(&servers, word) : NULL;
  if (fine && !found && !quiet) unknown_name(&servers, word);
  fine = found && read_server(&(reading){self, found, quiet});
  servers_free(&servers);
  return fine;
}

/* ----------------------------------------------------------------------- the whole */

/* The first line of a file that others cannot read either. */
static bool read_token(call_target *self, const char *path) {
  char line[TOKEN_BYTES];
  const char *why = "there is no token in it";
  FILE *file = regular_file_open_secret(path, &why);
  size_t len = file && fgets(line, sizeof line, file) ? strcspn(line, "\r\n") : 0;
  if (file) fclose(file);
  if (!len) return fault(path, why);
  self->token = memory_text(&self->memory, line, len);
  return true;
}

/* The command line's headers come last: they are the nearest. */
static void join_headers(call_target *self, const call_options *options) {
  size_t count = 0;
  while (self->headers[count]) count++;
  if (!options->header_count) return;
  const char **all = memory_zeroed(&self->memory, count + options->header_count + 1, sizeof *all);
  memcpy(all, self->headers, count * sizeof *all);
  memcpy(all + count, options->headers, options->header_count * sizeof *all);
  self->headers = all;
}

static const char *join_words(call_target *self, const char *const *words) {
  text joined = {.data = NULL};
  for (size_t i = 0; words[i]; i++) text_printf(&joined, "%s%s", i ? " " : "", words[i]);
  const char *kept = memory_text(&self->memory, joined.data, joined.len);
  text_free(&joined);
  return kept;
}

static bool take_word(call_target *self, const char *word, const char *config) {
  bool taken;
  size_t scheme = scheme_length(word);
  if (config) return take_name(self, word, config, false);
  if (scheme) return take_url(self, word, scheme);
  if (looks_like_host(word) && access(word, F_OK) != 0) return no_scheme(word);
  if (take_file(self, word, &taken)) return true;
  return !taken && take_name(self, word, NULL, false);
}

bool target_find(call_target *self, const call_options *options) {
  *self = (call_target){.headers = no_headers, .said = options->target};
  if (options->command)
    self->argv = (const char *const *)options->command;
  else if (!take_word(self, options->target, options->config))
    return false;
  if (self->argv) self->said = join_words(self, self->argv);
  join_headers(self, options);
  if (options->token_command)
    self->token = secret_of_command(&self->memory, "--token-command", options->token_command);
  if (options->token_command) return self->token;
  return !options->token_file || read_token(self, options->token_file);
}

bool target_glance(call_target *self, const char *target, const char *config) {
  struct stat about;
  *self = (call_target){.headers = no_headers, .said = target};
  if (!config && scheme_length(target)) return (self->url = target) != NULL;
  if (!config && stat(target, &about) == 0 && S_ISREG(about.st_mode))
    return take_configuration(self, target);
  return take_name(self, target, config, true);
}

void target_free(call_target *self) { memory_free(&self->memory); }
