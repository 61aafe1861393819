/* serve_options.c - the command line of `idem serve`: one row a flag.
 * Strict by default: what others than this machine could reach needs a token. */
#include "serve.h"

#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKEN_BYTES 65536
#define DEFAULT_HTTP "127.0.0.1:8420"

typedef bool (*flag_fn)(serve_options *self, const char *value);

static bool add_url(serve_options *self, const char *before, const char *address,
                    const char *after) {
  if (self->url_count == SERVE_URLS ||
      asprintf(&self->urls[self->url_count], "%s%s%s", before, address, after) < 0)
    return false;
  self->url_count++;
  return true;
}

static bool is_loopback(const char *address) {
  return strncmp(address, "127.", 4) == 0 || strncmp(address, "localhost:", 10) == 0 ||
         strncmp(address, "[::1]:", 6) == 0;
}

static bool add_address(serve_options *self, const char *scheme, const char *address,
                        const char *path) {
  if (!strchr(address, ':')) return false;
  if (!is_loopback(address)) self->exposed = true;
  return add_url(self, scheme, address, path);
}

/* ------------------------------------------------------------- one function a flag */

static bool add_http(serve_options *self, const char *value) {
  return add_address(self, "http://", value, "/mcp");
}
static bool add_ws(serve_options *self, const char *value) {
  return add_address(self, "ws://", value, "/mcp");
}
static bool add_tcp(serve_options *self, const char *value) {
  if (!is_loopback(value)) self->open = true;
  return add_address(self, "tcp://", value, "");
}
static bool add_unix(serve_options *self, const char *value) {
  return *value && add_url(self, "unix:", value, "");
}
static bool add_stdio(serve_options *self, const char *value) {
  (void)value;
  return add_url(self, "stdio:", "", "");
}

static bool add_text(serve_list *list, const char *text) {
  if (!*text || list->count == SERVE_LIST) return false;
  list->items[list->count++] = text;
  return true;
}
static bool add_host(serve_options *self, const char *value) {
  return add_text(&self->allow_hosts, value);
}
static bool add_origin(serve_options *self, const char *value) {
  return add_text(&self->allow_origins, value);
}

/* A file without a token would open the door: it is refused. */
static bool set_token_file(serve_options *self, const char *value) {
  FILE *file = self->token_text ? NULL : fopen(value, "r");
  if (!file) return false;
  self->token_text = calloc(1, TOKEN_BYTES);
  size_t len = self->token_text ? fread(self->token_text, 1, TOKEN_BYTES - 1, file) : 0;
  bool whole = len && feof(file) && !memchr(self->token_text, 0, len);
  fclose(file);
  if (!whole) return false;
  for (char *line = strtok(self->token_text, "\r\n"); line; line = strtok(NULL, "\r\n"))
    if (!add_text(&self->tokens, line)) return false;
  return self->tokens.count > 0;
}

static bool set_no_auth(serve_options *self, const char *value) {
  (void)value;
  return self->no_auth = true;
}
static bool set_check(serve_options *self, const char *value) {
  (void)value;
  return self->check = true;
}
static bool set_print_schema(serve_options *self, const char *value) {
  (void)value;
  return self->print_schema = true;
}
static bool set_access_log(serve_options *self, const char *value) {
  (void)value;
  return self->http.access_log = true;
}
static bool set_level(serve_options *self, const char *value) {
  return idem_log_level_parse(value, strlen(value), &self->log.level);
}
static bool set_format(serve_options *self, const char *value) {
  self->log.format = strcmp(value, "json") == 0 ? IDEM_LOG_JSON : IDEM_LOG_TEXT;
  return self->log.format == IDEM_LOG_JSON || strcmp(value, "text") == 0;
}
static bool set_dry_run(serve_options *self, const char *value) {
  self->dry_run = value;
  return *value;
}

static const struct flag {
  const char *name;
  bool takes_value;
  flag_fn set;
} flags[] = {
    {"--http", true, add_http},
    {"--ws", true, add_ws},
    {"--tcp", true, add_tcp},
    {"--unix", true, add_unix},
    {"--stdio", false, add_stdio},
    {"--token-file", true, set_token_file},
    {"--no-auth", false, set_no_auth},
    {"--allow-host", true, add_host},
    {"--allow-origin", true, add_origin},
    {"--access-log", false, set_access_log},
    {"--log-level", true, set_level},
    {"--log-format", true, set_format},
    {"--check", false, set_check},
    {"--print-schema", false, set_print_schema},
    {"--dry-run", true, set_dry_run},
};
#define FLAG_COUNT (sizeof flags / sizeof *flags)

/* ------------------------------------------------------------------------ the walk */

static bool unknown_flag(const char *text, size_t len) {
  const char *names[FLAG_COUNT];
  for (size_t i = 0; i < FLAG_COUNT; i++) names[i] = flags[i].name;
  const char *near = idem_schema_suggest(text, len, names, FLAG_COUNT);
  fprintf(stderr, "idem serve: there is no flag %.*s", (int)len, text);
  if (near) fprintf(stderr, "; did you mean %s?", near);
  fputs("\ntry: idem help serve\n", stderr);
  return false;
}

static bool take_flag(serve_options *self, int argc, char **argv, int *index) {
  const char *text = argv[*index], *value = NULL;
  size_t len = strcspn(text, "="), i = 0;
  while (i < FLAG_COUNT && (strlen(flags[i].name) != len || strncmp(flags[i].name, text, len) != 0))
    i++;
  if (i == FLAG_COUNT) return unknown_flag(text, len);
  if (text[len]) value = text + len + 1;
  if (!flags[i].takes_value && value)
    return usage_fault(&serve_verb, "this flag takes no value", text), false;
  if (flags[i].takes_value && !value) value = *index + 1 < argc ? argv[++*index] : NULL;
  if (flags[i].takes_value && !value)
    return usage_fault(&serve_verb, "a value is missing after", text), false;
  if (flags[i].set(self, value)) return true;
  return usage_fault(&serve_verb, "not a value for this flag", text), false;
}

/* What follows --dry-run TOOL are its arguments. */
static bool take_word(serve_options *self, char **argv, int argc, int *index) {
  bool is_value = self->dry_run && strchr(argv[*index], '=');
  if (!is_value && self->path)
    return usage_fault(&serve_verb, "one file is enough", argv[*index]), false;
  if (!is_value) {
    self->path = argv[*index];
    return true;
  }
  self->dry_run_values = argv + *index;
  self->dry_run_count = argc - *index;
  *index = argc;
  return true;
}

/* A host starts us with a pipe; a person at a terminal wants an address. */
static bool choose_transport(serve_options *self) {
  struct stat about;
  if (self->url_count > 0) return true;
  bool piped =
      fstat(STDIN_FILENO, &about) == 0 && (S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode));
  return piped ? add_stdio(self, NULL) : add_http(self, DEFAULT_HTTP);
}

static bool guard(const serve_options *self) {
  if (!self->exposed || self->no_auth || (self->tokens.count && !self->open)) return true;
  usage_fault(&serve_verb, "others than this machine could reach that address",
              self->open ? "TCP asks nobody for a token; use --http, or --no-auth to allow it"
                         : "give --token-file FILE, or --no-auth to let anyone in");
  return false;
}

static const char *const *list_of(const serve_list *list) {
  return list->count ? list->items : NULL;
}

bool serve_options_parse(serve_options *self, int argc, char **argv, int *code) {
  *self = (serve_options){.log = {.level = IDEM_LOG_INFO}};
  *code = 2;
  for (int i = 0; i < argc; i++) {
    bool is_flag = argv[i][0] == '-' && argv[i][1];
    if (is_flag ? !take_flag(self, argc, argv, &i) : !take_word(self, argv, argc, &i)) return false;
  }
  if (!self->path) self->path = "idem.json";
  self->http.tokens = list_of(&self->tokens);
  self->http.allow_hosts = list_of(&self->allow_hosts);
  self->http.allow_origins = list_of(&self->allow_origins);
  return choose_transport(self) && guard(self);
}

void serve_options_free(serve_options *self) {
  for (size_t i = 0; i < self->url_count; i++) free(self->urls[i]);
  free(self->token_text);
}
