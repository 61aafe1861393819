/* servers.c - see servers.h. A row for each place; a file that is absent or broken hides no other. */
#include "servers.h"

#include "call.h"
#include "config/regular_file.h"
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_BYTES ((size_t)8 << 20)
#define MOST_SERVERS 4096u

/* Where a file stands: below the folder in hand, or below one of the user's. */
typedef enum place_base { BASE_HERE, BASE_HOME, BASE_CONFIG, BASE_MAC } place_base;
static const struct place {
  const char *owner;
  place_base base;
  const char *path;
} places[] = {
    {"this project", BASE_HERE, ".mcp.json"},
    {"Cursor, this project", BASE_HERE, ".cursor/mcp.json"},
    {"VS Code, this project", BASE_HERE, ".vscode/mcp.json"},
    {"Gemini CLI, this project", BASE_HERE, ".gemini/settings.json"},
    {"Zed, this project", BASE_HERE, ".zed/settings.json"},
    {"Roo Code, this project", BASE_HERE, ".roo/mcp.json"},
    {"Kiro, this project", BASE_HERE, ".kiro/settings/mcp.json"},
    {"Claude Code", BASE_HOME, ".claude.json"},
    {"Claude Desktop", BASE_CONFIG, "Claude/claude_desktop_config.json"},
    {"Claude Desktop", BASE_MAC, "Claude/claude_desktop_config.json"},
    {"Cursor", BASE_HOME, ".cursor/mcp.json"},
    {"VS Code", BASE_CONFIG, "Code/User/mcp.json"},
    {"VS Code", BASE_MAC, "Code/User/mcp.json"},
    {"VS Code", BASE_CONFIG, "Code/User/settings.json"},
    {"VS Code", BASE_MAC, "Code/User/settings.json"},
    {"VS Code Insiders", BASE_CONFIG, "Code - Insiders/User/mcp.json"},
    {"VSCodium", BASE_CONFIG, "VSCodium/User/mcp.json"},
    {"Windsurf", BASE_HOME, ".codeium/windsurf/mcp_config.json"},
    {"Zed", BASE_CONFIG, "zed/settings.json"},
    {"Gemini CLI", BASE_HOME, ".gemini/settings.json"},
    {"Cline", BASE_CONFIG,
     "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"},
    {"Roo Code", BASE_CONFIG,
     "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json"},
    {"LM Studio", BASE_HOME, ".lmstudio/mcp.json"},
    {"Amazon Q", BASE_HOME, ".aws/amazonq/mcp.json"},
    {"Kiro", BASE_HOME, ".kiro/settings/mcp.json"},
    {"Copilot CLI", BASE_HOME, ".copilot/mcp-config.json"},
    {"opencode", BASE_CONFIG, "opencode/opencode.json"},
};

/* ------------------------------------------------------------------------- files */

/* False: there is no such folder. */
static bool base_of(place_base base, char *path, size_t size) {
  const char *home = getenv("HOME"), *config = getenv("XDG_CONFIG_HOME");
  if (base == BASE_HERE) return snprintf(path, size, ".") > 0;
  if (base == BASE_CONFIG && config && *config == '/')
    return snprintf(path, size, "%s", config) < (int)size;
  if (!home || *home != '/') return false;
  static const char *const below[] = {
      [BASE_HOME] = "", [BASE_CONFIG] = "/.config", [BASE_MAC] = "/Library/Application Support"};
  return snprintf(path, size, "%s%s", home, below[base]) < (int)size;
}

/* The whole of a regular file, JSON with comments; NULL and why not. */
static yyjson_doc *read_document(const char *path, char *why, size_t size) {
  const char *refused = NULL;
  FILE *file = regular_file_open(path, &refused);
  if (!file) {
    snprintf(why, size, "%s", refused);
    return NULL;
  }
  char *data = malloc(FILE_BYTES);
  if (!data) memory_exhausted();
  size_t len = fread(data, 1, FILE_BYTES, file);
  bool whole = !ferror(file) && feof(file);
  yyjson_read_err fault = {0};
  yyjson_read_flag flags = YYJSON_READ_ALLOW_COMMENTS | YYJSON_READ_ALLOW_TRAILING_COMMAS;
  size_t skip = len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
  yyjson_doc *doc = whole ? yyjson_read_opts(data + skip, len - skip, flags, NULL, &fault) : NULL;
  if (!doc)
    snprintf(why, size, "%s (byte %zu)", whole ? fault.msg : "it is larger than 8 MiB",
             fault.pos + skip);
  fclose(file);
  free(data);
  return doc;
}

/* ----------------------------------------------------------------------- servers */

static yyjson_val *member(yyjson_val *object, const char *first, const char *second) {
  yyjson_val *value = yyjson_obj_get(object, first);
  return second ? yyjson_obj_get(value, second) : value;
}

yyjson_val *servers_of(yyjson_val *root) {
  static const char *const names[][2] = {{"mcpServers", NULL}, {"servers", NULL},
                                         {"mcp", "servers"},   {"context_servers", NULL},
                                         {"mcp", NULL},        {"mcp.servers", NULL}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    yyjson_val *found = member(root, names[i][0], names[i][1]);
    if (yyjson_is_obj(found)) return found;
  }
  return NULL;
}

static void add(known_servers *self, const known_server *one) {
  if (self->count == MOST_SERVERS) return;
  if (self->count == self->room) {
    size_t room = self->room ? self->room * 2 : 32;
    known_server *items = realloc(self->items, room * sizeof *items);
    if (!items) memory_exhausted();
    self->items = items;
    self->room = room;
  }
  self->items[self->count++] = *one;
}

static void add_all(known_servers *self, yyjson_val *servers, const char *path, const char *owner) {
  yyjson_obj_iter at;
  yyjson_val *key;
  if (!yyjson_obj_iter_init(servers, &at)) return;
  while ((key = yyjson_obj_iter_next(&at))) {
    yyjson_val *entry = yyjson_obj_iter_get_val(key);
    if (!yyjson_is_obj(entry) || strlen(yyjson_get_str(key)) != yyjson_get_len(key)) continue;
    add(self, &(known_server){yyjson_get_str(key), path, owner, entry});
  }
}

/* Claude Code keeps servers of a folder beside those of the user. */
static void add_project(known_servers *self, yyjson_val *root, const char *path) {
  char *here = getcwd(NULL, 0);
  yyjson_val *project = here ? member(root, "projects", here) : NULL;
  add_all(self, member(project, "mcpServers", NULL), path, "Claude Code, this folder");
  free(here);
}

static void take_document(known_servers *self, yyjson_doc *doc, const char *path,
                          const char *owner) {
  yyjson_val *root = yyjson_doc_get_root(doc);
  const char *kept = memory_text(&self->memory, path, strlen(path));
  self->docs[self->doc_count++] = doc;
  add_project(self, root, kept);
  add_all(self, servers_of(root), kept, owner);
}

/* A file that is there and cannot be read is told of: its server would be missed. */
static void look_at(known_servers *self, const struct place *place) {
  char folder[2048], path[4096], why[256];
  if (!base_of(place->base, folder, sizeof folder)) return;
  if (place->base == BASE_HERE)
    snprintf(path, sizeof path, "%s", place->path);
  else
    snprintf(path, sizeof path, "%s/%s", folder, place->path);
  if (access(path, F_OK) != 0) return;
  yyjson_doc *doc = read_document(path, why, sizeof why);
  if (doc)
    take_document(self, doc, path, place->owner);
  else
    call_say("%s (%s) is passed over: %s", path, place->owner, why);
}

static bool look_at_one(known_servers *self, const char *path) {
  char why[256];
  yyjson_doc *doc = read_document(path, why, sizeof why);
  if (!doc) {
    call_say("%s: %s", path, why);
    return false;
  }
  if (!servers_of(yyjson_doc_get_root(doc))) {
    call_say("%s: there is no \"mcpServers\" in it", path);
    yyjson_doc_free(doc);
    return false;
  }
  take_document(self, doc, path, path);
  return true;
}

bool servers_find(known_servers *self, const char *config) {
  *self = (known_servers){.items = NULL};
  if (config) return look_at_one(self, config);
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) look_at(self, &places[i]);
  return true;
}

void servers_free(known_servers *self) {
  for (size_t i = 0; i < self->doc_count; i++) yyjson_doc_free(self->docs[i]);
  free(self->items);
  memory_free(&self->memory);
}

const known_server *servers_named(const known_servers *self, const char *name) {
  const known_server *found = NULL;
  for (size_t i = 0; i < self->count; i++) {
    const known_server *one = &self->items[i];
    if (strcmp(one->name, name) != 0) continue;
    if (!found) found = one;
    if (yyjson_equals(found->entry, one->entry)) continue;
    call_say("%s is taken from %s; %s has another of that name (--config FILE chooses)", name,
             found->path, one->path);
    break;
  }
  return found;
}

/* Names of a file that may have come with somebody else's project. */
static void put_known(const known_server *self, FILE *out) {
  text name = {.data = NULL};
  text_escape_cut(&name, self->name, strlen(self->name), 64);
  fprintf(out, "  %-20s ", name.data ? name.data : "");
  text_show_line(out, self->path, strlen(self->path), 4096);
  fputc('\n', out);
  text_free(&name);
}

void servers_list(const known_servers *self, FILE *out, size_t most) {
  for (size_t i = 0; i < self->count && i < most; i++) put_known(&self->items[i], out);
  if (self->count > most) fprintf(out, "  and %zu more\n", self->count - most);
}
