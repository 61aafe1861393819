/* expand.c - ${NAME} in mcpServers files, as assistants read it: ${NAME} and ${NAME:-DEFAULT}
 * (Claude Code, Gemini CLI), ${env:NAME}, ${userHome}, ${workspaceFolder} (VS Code, Cursor, Windsurf).
 * What has no value is a fault: an empty token would only fail later, and elsewhere. */
#include "target.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct variable {
  const char *name;
  size_t len;
  const char *fallback; /* NULL: none */
  size_t fallback_len;
} variable;

static variable read_variable(const char *body, size_t len) {
  variable made = {.name = body, .len = len};
  for (size_t i = 0; i + 1 < len; i++) {
    if (body[i] != ':' || body[i + 1] != '-') continue;
    made.len = i;
    made.fallback = body + i + 2;
    made.fallback_len = len - i - 2;
    break;
  }
  return made;
}

static bool is_named(const variable *self, const char *name) {
  return strlen(name) == self->len && strncmp(self->name, name, self->len) == 0;
}

/* A folder's name alone, the folder itself. */
static bool put_folder(text *out, bool name_alone) {
  char *here = getcwd(NULL, 0);
  const char *slash = here ? strrchr(here, '/') : NULL;
  if (here) text_puts(out, name_alone && slash ? slash + 1 : here);
  free(here);
  return here != NULL;
}

static bool put_environment(text *out, const variable *self, size_t skip) {
  char name[256];
  if (self->len - skip >= sizeof name) return false;
  memcpy(name, self->name + skip, self->len - skip);
  name[self->len - skip] = 0;
  const char *value = getenv(name);
  if (value && *value)
    text_puts(out, value);
  else if (self->fallback)
    text_put(out, self->fallback, self->fallback_len);
  else if (value)
    return true;
  return value || self->fallback;
}

static bool put_variable(text *out, const variable *self) {
  if (self->len > 4 && strncmp(self->name, "env:", 4) == 0) return put_environment(out, self, 4);
  if (is_named(self, "workspaceFolder") || is_named(self, "cwd")) return put_folder(out, false);
  if (is_named(self, "workspaceFolderBasename")) return put_folder(out, true);
  if (is_named(self, "pathSeparator") || is_named(self, "/")) return text_puts(out, "/"), true;
  if (is_named(self, "userHome"))
    return put_environment(out, &(variable){.name = "HOME", .len = 4}, 0);
  return put_environment(out, self, 0);
}

static void explain(const variable *self, char *why, size_t size) {
  if (self->len > 6 && strncmp(self->name, "input:", 6) == 0)
    snprintf(why, size, "${%.*s} is asked for by an editor; write ${env:NAME} and set that instead",
             (int)self->len, self->name);
  else
    snprintf(why, size, "the variable %.*s is not set", (int)self->len, self->name);
}

const char *target_expand(config_memory *memory, const char *given, char *why, size_t size) {
  text out = {.data = NULL};
  const char *at = given, *end;
  const char *made = NULL;
  text_puts(&out, "");
  while (*at) {
    const char *dollar = strstr(at, "${");
    end = dollar ? strchr(dollar, '}') : NULL;
    if (!end) break;
    variable one = read_variable(dollar + 2, (size_t)(end - dollar - 2));
    text_put(&out, at, (size_t)(dollar - at));
    if (!put_variable(&out, &one)) {
      explain(&one, why, size);
      goto done;
    }
    at = end + 1;
  }
  text_puts(&out, at);
  made = memory_text(memory, out.data, out.len);
done:
  text_free(&out);
  return made;
}
