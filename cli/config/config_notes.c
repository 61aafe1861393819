/* config_notes.c - what is allowed but hardly meant: an argument that nothing uses, a ~ that no shell
 * will ever read. Told with the way out; served all the same. */
#include "config.h"

#include <string.h>

/* -------------------------------------------------------------- unused arguments */

static bool is_name_char(char c) {
  return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* "{name}" in a template; ":name", "@name" or "$name" in a query. */
static bool text_uses(const char *text, size_t text_len, const char *name, size_t len, bool sql) {
  const char *end = text + text_len;
  for (const char *at = text; (at = memmem(at, (size_t)(end - at), name, len)); at++) {
    char before = at > text ? at[-1] : 0, behind = at + len < end ? at[len] : 0;
    if (sql ? before && strchr(":@$", before) && !is_name_char(behind)
            : before == '{' && behind == '}')
      return true;
  }
  return false;
}

static bool uses(yyjson_val *value, const char *name, size_t len, bool sql) {
  yyjson_val *key, *item;
  size_t i, max;
  if (yyjson_is_str(value))
    return text_uses(yyjson_get_str(value), yyjson_get_len(value), name, len, sql);
  if (yyjson_equals_strn(yyjson_obj_get(value, "if"), name, len)) return true;
  if (yyjson_is_arr(value)) {
    yyjson_arr_foreach(value, i, max, item) if (uses(item, name, len, sql)) return true;
  }
  if (yyjson_is_obj(value)) {
    idem__each_member(value, i, max, key, item) if (uses(item, name, len, sql)) return true;
  }
  return false;
}

static bool tool_uses(yyjson_val *tool, const char *name, size_t len) {
  static const char *const places[] = {"run", "stdin", "env", "http"};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (uses(yyjson_obj_get(tool, places[i]), name, len, false)) return true;
  return uses(yyjson_obj_get(tool, "query"), name, len, true);
}

static const char *where_to(const tool_config *tool) {
  return tool->is_program ? "} in \"run\", \"stdin\" or \"env\""
         : tool->http     ? "} in \"http\""
                          : " in \"query\"";
}

static void note_unused(serve_config *self, const tool_config *tool, yyjson_val *value) {
  yyjson_val *args = yyjson_obj_get(value, "args"), *key, *item;
  size_t i, max;
  if (!args) args = yyjson_obj_get(yyjson_obj_get(value, "input"), "properties");
  idem__each_member(args, i, max, key, item) {
    const char *name = yyjson_get_str(key);
    size_t len = yyjson_get_len(key);
    (void)item;
    if (len && name[len - 1] == '?') len--;
    if (tool_uses(value, name, len)) continue;
    source_note(&self->source, key,
                "tool %s: nothing uses the argument %.*s: write %s%.*s%s, or remove it", tool->name,
                (int)len, name, tool->query ? ":" : "{", (int)len, name, where_to(tool));
  }
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
    idem__each_member(value, i, max, key, item) note_home(self, tool, item);
  }
}

/* The program itself is looked for, and told of if it is not there. */
static void note_words(serve_config *self, const tool_config *tool, yyjson_val *run) {
  yyjson_val *item;
  size_t i, max;
  yyjson_arr_foreach(run, i, max, item) if (i) note_home(self, tool, item);
}

void config_notes(serve_config *self, const tool_config *tool) {
  yyjson_val *value = yyjson_obj_iter_get_val(tool->key);
  note_unused(self, tool, value);
  note_words(self, tool, yyjson_obj_get(value, "run"));
  note_home(self, tool, yyjson_obj_get(value, "env"));
}
