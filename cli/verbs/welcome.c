/* welcome.c - see welcome.h. All of it is the operator's own text; what a terminal could take for an order
 * is escaped all the same. */
#include "welcome.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define OTHER_LINES 14u /* that are not names */
#define ASK_LINES 2u    /* and where there is something to ask */
#define LEAST_NAMES 5u
#define LEAST_WIDTH 20u /* of the column of names */
#define MOST_WIDTH 40u  /* a longer one pushes what is said of it */

typedef struct page {
  FILE *out;
  size_t lines; /* names that are still shown */
  size_t width;
  size_t name_width;
  size_t left_out;
} page;

/* ------------------------------------------------------------------------ names */

/* The first line, cut to what fits. */
static void put_line(const page *self, const char *text, size_t room) {
  char storage[1024];
  idem_buf line;
  idem_buf_fixed(&line, storage, sizeof storage);
  size_t len = strcspn(text, "\r\n");
  size_t max = room < sizeof storage / 8 ? room : sizeof storage / 8;
  idem_text_escape(&line, text, len, len > max && max > 3 ? max - 3 : max);
  fprintf(self->out, "%.*s", (int)line.len, line.data);
}

static void put_name(page *self, const char *name, const char *about) {
  if (!self->lines) {
    self->left_out++;
    return;
  }
  self->lines--;
  fprintf(self->out, "  %-*s ", (int)self->name_width, name);
  size_t len = strlen(name), taken = (len > self->name_width ? len : self->name_width) + 3;
  if (about) put_line(self, about, self->width > taken + 20 ? self->width - taken : 20);
  fputc('\n', self->out);
}

static void widen(page *self, const char *name, const char *about) {
  size_t len = strlen(name);
  if (about && len > self->name_width && len <= MOST_WIDTH) self->name_width = len;
}

/* Everything that has a name, in order. */
static void each_name(page *self, const serve_config *config,
                      void (*see)(page *self, const char *name, const char *about)) {
  char uri[160];
  for (size_t i = 0; i < config->shown_count; i++) {
    const tool_config *tool = &config->tools[i];
    see(self, tool->name, tool->description ? tool->description : tool->title);
  }
  for (size_t i = 0; i < config->resource_count; i++) {
    const resource_config *one = &config->resources[i];
    snprintf(uri, sizeof uri, "idem://%.128s%s", one->name, one->is_directory ? "/..." : "");
    see(self, uri, one->description ? one->description : one->title);
  }
  for (size_t i = 0; i < config->prompt_count; i++) {
    const prompt_config *one = &config->prompts[i];
    snprintf(uri, sizeof uri, "%.128s (prompt)", one->name);
    see(self, uri, one->description ? one->description : one->title);
  }
}

static void put_names(page *self, const serve_config *config) {
  self->name_width = LEAST_WIDTH;
  each_name(self, config, widen);
  each_name(self, config, put_name);
  if (self->left_out) fprintf(self->out, "  and %zu more: idem list\n", self->left_out);
}

/* ----------------------------------------------------------------------- addresses */

static const char *web_url(const serve_options *options) {
  for (size_t i = 0; options && i < options->url_count; i++)
    if (strncmp(options->urls[i], "http", 4) == 0) return options->urls[i];
  return NULL;
}

static void put_addresses(const page *self, const serve_options *options) {
  for (size_t i = 0; options && i < options->url_count; i++)
    fprintf(self->out, "at        %s\n", options->urls[i]);
}

/* ----------------------------------------------------------------------- settings */

/* Whether the word `idem` starts this very program. */
static bool is_in_path(const char *program) {
  const char *folders = getenv("PATH");
  for (const char *at = folders ? folders : ""; *at;) {
    char path[1024];
    size_t len = strcspn(at, ":");
    snprintf(path, sizeof path, "%.*s/idem", (int)(len < 900 ? len : 0), at);
    char *real = realpath(path, NULL);
    bool same = real && strcmp(real, program) == 0;
    free(real);
    if (same) return true;
    at += len + (at[len] == ':');
  }
  return false;
}

/* What starts this program from a shell in this folder; the caller frees it. NULL: the word `idem` does. */
static char *program_path(void) {
  char *program = realpath("/proc/self/exe", NULL);
  if (!program || !is_in_path(program)) return program;
  free(program);
  return NULL;
}

static void put_string(idem_buf *out, const char *text) {
  idem_text_json_string(out, text, strlen(text));
}

static void put_command(idem_buf *out, const char *path) {
  char *program = program_path(), *file = realpath(path, NULL);
  idem_buf_puts(out, "{\"command\": ");
  put_string(out, program ? program : "idem");
  idem_buf_puts(out, ", \"args\": [\"serve\", ");
  put_string(out, file ? file : path);
  idem_buf_puts(out, "]}");
  free(program);
  free(file);
}

static void put_address(idem_buf *out, const char *url, bool token) {
  idem_buf_puts(out, "{\"type\": \"http\", \"url\": ");
  put_string(out, url);
  if (token) idem_buf_puts(out, ", \"headers\": {\"Authorization\": \"Bearer TOKEN\"}");
  idem_buf_puts(out, "}");
}

static void put_settings(const page *self, const serve_config *config, const char *path,
                         const serve_options *options) {
  char storage[8192];
  idem_buf text;
  const char *url = web_url(options);
  if (options && options->profile != IDEM_PROFILE_MCP) return;
  idem_buf_fixed(&text, storage, sizeof storage);
  idem_buf_puts(&text, "settings  {\"mcpServers\": {");
  put_string(&text, config->name);
  idem_buf_puts(&text, ": ");
  if (options && url)
    put_address(&text, url, options->tokens.count);
  else
    put_command(&text, path);
  if (idem_buf_puts(&text, "}}\n") == IDEM_OK) fwrite(text.data, 1, text.len, self->out);
}

/* ------------------------------------------------------------------------- trying */

/* What an argument could be, for a call that is only looked at. */
static const char *example_of(yyjson_val *type) {
  const char *name =
      yyjson_is_obj(type) ? yyjson_get_str(yyjson_obj_get(type, "type")) : yyjson_get_str(type);
  if (!name || strcmp(name, "string") == 0) return "TEXT";
  if (strcmp(name, "boolean") == 0) return "true";
  return strcmp(name, "integer") == 0 || strcmp(name, "number") == 0 ? "1" : "TEXT";
}

static void put_program(const page *self, const char *word) {
  char *program = program_path();
  fprintf(self->out, "%-10s%s ", word, program ? program : "idem");
  free(program);
}

/* A dry run starts nothing, whatever the tool. */
static void put_try(const page *self, const serve_config *config, const char *path) {
  yyjson_val *key, *value;
  size_t i, max;
  if (!config->shown_count) return;
  const tool_config *tool = &config->tools[0];
  put_program(self, "try");
  fputs("serve ", self->out);
  if (strcmp(path, "idem.json") != 0) fprintf(self->out, "%s ", path);
  fprintf(self->out, "--dry-run %s", tool->name);
  idem_each_member(yyjson_obj_get(yyjson_obj_iter_get_val(tool->key), "args"), i, max, key, value) {
    size_t len = yyjson_get_len(key);
    if (len && yyjson_get_str(key)[len - 1] == '?') continue;
    if (yyjson_obj_get(value, "default")) continue;
    fprintf(self->out, " %s=%s", yyjson_get_str(key), example_of(value));
  }
  fputc('\n', self->out);
}

static void put_curl(const page *self, const serve_options *options, const char *url) {
  static const char plain[] = " -d '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\"}'\n";
  fprintf(self->out, "ask       curl %s -H 'Content-Type: application/json'", url);
  if (options->tokens.count) fputs(" -H 'Authorization: Bearer TOKEN'", self->out);
  fprintf(self->out, plain, options->profile == IDEM_PROFILE_LSP ? "listMethods" : "rpc.discover");
}

/* What can be pasted into a shell, and is answered. */
static void put_ask(const page *self, const serve_options *options) {
  const char *url = web_url(options);
  if (!url) return;
  if (options->profile != IDEM_PROFILE_MCP) {
    put_curl(self, options, url);
    return;
  }
  put_program(self, "ask");
  fprintf(self->out, "call %s%s\n", url, options->tokens.count ? " --token-file FILE" : "");
}

/* -------------------------------------------------------------------------- whole */

static page open_page(FILE *out, size_t others) {
  struct winsize size;
  page made = {.out = out, .lines = SIZE_MAX, .width = 100};
  if (!isatty(fileno(out)) || ioctl(fileno(out), TIOCGWINSZ, &size) != 0) return made;
  size_t rows = size.ws_row ? size.ws_row : 24;
  made.lines = rows > others + LEAST_NAMES ? rows - others : LEAST_NAMES;
  made.width = size.ws_col ? size.ws_col : 80;
  return made;
}

void welcome(FILE *out, const edition *served, const char *path, const serve_options *options) {
  const serve_config *config = &served->config;
  page self = open_page(out, OTHER_LINES + (web_url(options) ? ASK_LINES : 0));
  char counts[CONFIG_COUNTS], bounds[CONFINE_BRIEF];
  put_line(&self, config->title ? config->title : config->name, self.width);
  fprintf(out, ": %s\n\n", config_counts(config, counts));
  if (config->shown_count || config->resource_count || config->prompt_count) {
    put_names(&self, config);
    fputc('\n', out);
  }
  put_addresses(&self, options);
  if (confinement_brief(&served->bounds, bounds)) fprintf(out, "bounds    %s\n", bounds);
  put_try(&self, config, path);
  put_ask(&self, options);
  put_settings(&self, config, path, options);
  fflush(out);
}
