/* config_notes.c - what is allowed but hardly meant: an argument that nothing uses, a ~, a | or a * that no
 * shell will ever read. Told with the way out; served all the same. And what a profile
 * cannot keep. */
#include "config.h"

#include <string.h>

/* -------------------------------------------------------------- unused arguments */

static bool is_name_char(char c) {
  return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

#define NAME_MAX_SEEN 256 /* longer names are taken for used */

static void use(idem_map *used, const char *name, size_t len) {
  static char here;
  if (len && idem_map_put(used, name, len, &here) == IDEM_E_NOMEM) memory_exhausted();
}

/* "{name}" in a template. */
static void see_template(idem_map *used, const char *text, size_t len) {
  const char *end = text + len;
  for (const char *at = text; (at = memchr(at, '{', (size_t)(end - at)));) {
    size_t most = (size_t)(end - ++at) < NAME_MAX_SEEN ? (size_t)(end - at) : NAME_MAX_SEEN;
    const char *close = memchr(at, '}', most);
    if (close) use(used, at, (size_t)(close - at));
  }
}

/* ":name", "@name" or "$name" in a query. */
static void see_query(idem_map *used, const char *text, size_t len) {
  const char *end = text + len;
  for (const char *at = text; at < end; at++) {
    const char *from = at + 1, *to = from;
    if (!strchr(":@$", *at) || !*at) continue;
    while (to < end && is_name_char(*to)) to++;
    use(used, from, (size_t)(to - from));
    at = to - 1;
  }
}

static void see(idem_map *used, yyjson_val *value) {
  yyjson_val *key, *item;
  size_t i, max;
  if (yyjson_is_str(value)) see_template(used, yyjson_get_str(value), yyjson_get_len(value));
  if (yyjson_is_arr(value)) {
    yyjson_arr_foreach(value, i, max, item) see(used, item);
  }
  idem_each_member(value, i, max, key, item) {
    if (yyjson_equals_str(key, "if") && yyjson_is_str(item))
      use(used, yyjson_get_str(item), yyjson_get_len(item));
    see(used, item);
  }
}

static void see_tool(idem_map *used, yyjson_val *tool) {
  static const char *const places[] = {"run", "stdin", "env", "http"};
  yyjson_val *query = yyjson_obj_get(tool, "query");
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    see(used, yyjson_obj_get(tool, places[i]));
  if (yyjson_is_str(query)) see_query(used, yyjson_get_str(query), yyjson_get_len(query));
}

static const char *where_to(const tool_config *tool) {
  return tool->is_program ? "} in \"run\", \"stdin\" or \"env\""
         : tool->http     ? "} in \"http\""
                          : " in \"query\"";
}

static void note_unused(serve_config *self, const tool_config *tool, yyjson_val *value) {
  yyjson_val *args = yyjson_obj_get(value, "args"), *key, *item;
  size_t i, max;
  idem_map used;
  if (!args) args = yyjson_obj_get(yyjson_obj_get(value, "input"), "properties");
  idem_map_init(&used, NULL, 0);
  see_tool(&used, value);
  idem_each_member(args, i, max, key, item) {
    const char *name = yyjson_get_str(key);
    size_t len = yyjson_get_len(key);
    (void)item;
    if (len && name[len - 1] == '?') len--;
    if (len >= NAME_MAX_SEEN || idem_map_get(&used, name, len)) continue;
    source_note(&self->source, key,
                "tool %s: nothing uses the argument %.*s: write %s%.*s%s, or remove it", tool->name,
                (int)len, name, tool->query ? ":" : "{", (int)len, name, where_to(tool));
  }
  idem_map_deinit(&used);
}

/* ----------------------------------------------------------------------- home folders */

bool config_is_home(const char *text) {
  return text && text[0] == '~' && (!text[1] || text[1] == '/');
}

static void note_home(serve_config *self, const tool_config *tool, yyjson_val *value) {
  yyjson_val *key, *item;
  size_t i, max;
  if (yyjson_is_str(value) && config_is_home(yyjson_get_str(value)))
    source_note(&self->source, value,
                "tool %s: no shell reads \"%s\", and ~ stays a ~: write the whole path", tool->name,
                yyjson_get_str(value));
  if (yyjson_is_arr(value)) {
    yyjson_arr_foreach(value, i, max, item) note_home(self, tool, item);
  }
  if (yyjson_is_obj(value)) {
    idem_each_member(value, i, max, key, item) note_home(self, tool, item);
  }
}

/* -------------------------------------------------------------- what shells would read */

static bool is_one_of(const char *text, const char *const *list) {
  for (; *list; list++)
    if (strcmp(text, *list) == 0) return true;
  return false;
}

/* Those that compare have words of the same look; find has its own ";". */
static void note_operator(serve_config *self, const tool_config *tool, yyjson_val *run,
                          yyjson_val *item) {
  static const char *const operators[] = {"|",   "||", "&&", "&",  ">",   ">>",   "<",   "<<",
                                          "<<<", "2>", "1>", "&>", "2>>", "2>&1", ">&2", NULL};
  static const char *const comparing[] = {"expr", "test", "[", NULL};
  const char *program = yyjson_get_str(yyjson_arr_get_first(run)), *text = yyjson_get_str(item);
  if (!program || !text || !*text || !strchr("|&<>12", *text) || !is_one_of(text, operators))
    return;
  const char *slash = strrchr(program, '/');
  if (is_one_of(slash ? slash + 1 : program, comparing)) return;
  source_note(&self->source, item,
              "tool %s: no shell reads \"%s\", and %s gets it as a word: a tool runs one program, "
              "which may be a script with that line",
              tool->name, text, program);
}

/* Letters of a path with a star before its ending ("*.txt"), or in the place of a name. */
static bool is_pattern(const char *text) {
  const char *star = strchr(text, '*'), *letters = "abcdefghijklmnopqrstuvwxyz"
                                                   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
  if (!star || strspn(text, letters) != (size_t)(star - text)) return false;
  if (!star[1]) return star == text || star[-1] == '/';
  return star[1] == '.' && star[2] && star[2 + strspn(star + 2, letters)] == 0;
}

/* What stands behind an option is a pattern of the program's own, as in find -name. */
static void note_pattern(serve_config *self, const tool_config *tool, const char *before,
                         yyjson_val *item) {
  const char *text = yyjson_get_str(item);
  if (!text || !is_pattern(text) || (before && *before == '-')) return;
  source_note(&self->source, item,
              "tool %s: no shell reads \"%s\", and * stays a *: name the files, unless the program "
              "looks for them itself",
              tool->name, text);
}

/* The program itself is looked for, and told of if it is not there. */
static void note_words(serve_config *self, const tool_config *tool, yyjson_val *run) {
  const char *before = NULL;
  yyjson_val *item;
  size_t i, max;
  yyjson_arr_foreach(run, i, max, item) {
    if (i) {
      note_home(self, tool, item);
      note_operator(self, tool, run, item);
      note_pattern(self, tool, before, item);
    }
    before = yyjson_get_str(item);
  }
}

void config_notes(serve_config *self, const tool_config *tool) {
  yyjson_val *value = yyjson_obj_iter_get_val(tool->key);
  if (!tool->keep) note_unused(self, tool, value); /* else all are told to the program */
  note_words(self, tool, yyjson_obj_get(value, "run"));
  note_home(self, tool, yyjson_obj_get(value, "env"));
}

/* --------------------------------------------------------------- what needs the mcp profile */

/* Without it a key means nothing: who relied on one would order twice. */
bool config_suits_plain(serve_config *self) {
  for (size_t i = 0; i < self->shown_count; i++) {
    const tool_config *tool = &self->tools[i];
    yyjson_val *once = yyjson_obj_get(tool->definition, "once");
    if (once && tool->once == IDEM_ONCE_ALWAYS)
      source_fault(&self->source, once,
                   "tool %s: \"once\": \"always\" needs the mcp profile: as a plain method it "
                   "would run each time, whatever its key",
                   tool->name);
    if (once && tool->once == IDEM_ONCE_KEY)
      source_note(&self->source, once,
                  "tool %s: \"once\" needs the mcp profile: as a plain method it runs each time, "
                  "whatever its key",
                  tool->name);
  }
  return self->source.faults == 0;
}
