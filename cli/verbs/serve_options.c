/* serve_options.c - the command line of `idem serve`: from words to options, and what follows from them: where to serve, who
 * may ask, the page. */
#include "serve_flags.h"

#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_HTTP "localhost:8420"

/* ------------------------------------------------------------------------ the walk */

static bool unknown_flag(const char *text, size_t len) {
  const char *near = serve_flag_suggest(text, len);
  fprintf(stderr, "idem serve: there is no flag %.*s", (int)len, text);
  if (near) fprintf(stderr, "; did you mean %s?", near);
  fputs("\ntry: idem help serve\n", stderr);
  return false;
}

static bool refuse(const char *what, const char *about) {
  usage_fault(&serve_verb, what, about);
  return false;
}

/* How much of a value may be shown: a store's has a password behind its scheme, perhaps. */
static int shown_of(const serve_flag *one, const char *value) {
  size_t scheme = strcspn(value, ":@");
  if (strcmp(one->name, "--store") != 0 || !value[scheme]) return 300;
  return value[scheme] == ':' && scheme < 16 ? (int)(scheme + strspn(value + scheme, ":/")) : 0;
}

/* Says which value it was and why, or what a value looks like. */
static bool refuse_value(const serve_options *self, const serve_flag *one, const char *value) {
  char what[512];
  int shown = shown_of(one, value);
  snprintf(what, sizeof what, "%s %.*s%s", one->name, shown, value,
           (size_t)shown < strlen(value) ? "..." : "");
  char form[128];
  snprintf(form, sizeof form, "this flag wants %s", one->value);
  return refuse(what, self->why ? self->why : form);
}

static bool take_flag(serve_options *self, int argc, char **argv, int *index) {
  const char *text = argv[*index], *value = NULL;
  size_t len = strcspn(text, "=");
  const serve_flag *one = serve_flag_find(text, len);
  if (!one) return unknown_flag(text, len);
  if (text[len]) value = text + len + 1;
  if (!one->value && value) return refuse("this flag takes no value", text);
  if (one->value && !value) value = *index + 1 < argc ? argv[++*index] : NULL;
  if (one->value && !value) return refuse("a value is missing after", text);
  self->why = NULL;
  return one->set(self, value) || refuse_value(self, one, value);
}

/* What follows --dry-run TOOL are its arguments. */
static bool take_word(serve_options *self, char **argv, int argc, int *index) {
  bool is_value = self->dry_run && strchr(argv[*index], '=');
  if (!is_value && self->path)
    return refuse(self->dry_run ? "a file is there already, and an argument is NAME=VALUE"
                                : "one file is enough",
                  argv[*index]);
  if (!is_value) {
    self->path = argv[*index];
    return true;
  }
  self->dry_run_values = argv + *index;
  self->dry_run_count = argc - *index;
  *index = argc;
  return true;
}

static bool serves_stdio(const serve_options *self) {
  for (size_t i = 0; i < self->url_count; i++)
    if (strcmp(self->urls[i], "stdio:") == 0) return true;
  return false;
}

/* A file is surely meant to be read. /dev/null is what services are given; who named an address
 * expects no more of it. */
static bool ignores_input(const serve_options *self, const struct stat *input, bool chosen) {
  if (serves_stdio(self)) return false;
  return S_ISREG(input->st_mode) || (chosen && S_ISCHR(input->st_mode) && !isatty(STDIN_FILENO));
}

/* A host starts us with a pipe; a person at a terminal wants an address. */
static bool choose_transport(serve_options *self) {
  struct stat about;
  bool open = fstat(STDIN_FILENO, &about) == 0, chosen = self->url_count == 0, fine = true;
  bool piped = open && (S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode));
  if (chosen) fine = piped ? serve_add_stdio(self, NULL) : serve_add_http(self, DEFAULT_HTTP);
  self->ignores_input = open && ignores_input(self, &about, chosen);
  return fine;
}

/* http://HOST:PORT/mcp is /rpc for methods; lsp has a framing of its own. */
static bool fit_url(char **url, idem_profile profile) {
  size_t len = strlen(*url), scheme = strcspn(*url, ":");
  bool web = strncmp(*url, "http:", 5) == 0 || strncmp(*url, "ws:", 3) == 0;
  char *fitted = NULL;
  if (profile == IDEM_PROFILE_MCP || (profile == IDEM_PROFILE_JSONRPC && !web)) return true;
  if (asprintf(&fitted, "%.*s%s%.*s%s", (int)scheme, *url, web ? "" : "+lsp",
               (int)(len - scheme - (web ? 4 : 0)), *url + scheme, web ? "/rpc" : "") < 0)
    return false;
  free(*url);
  *url = fitted;
  return true;
}

/* Whether tokens of an authorization server are asked for is known when the file is read. */
static bool guard(serve_options *self) {
  if (!self->exposed || self->no_auth || (self->tokens.count && !self->open)) return true;
  self->needs_auth = !self->open;
  return self->needs_auth ||
         refuse("others than this machine could reach that address",
                "TCP asks nobody for a token; use --http, or --no-auth to allow it");
}

static const char *const *list_of(const serve_list *list) {
  return list->count ? list->items : NULL;
}

/* No process of ours is to inherit it, not even the one that starts programs. */
static void take_page_key(serve_options *self) {
  const char *given = getenv("IDEM_PAGE_KEY");
  if (!given) return;
  self->page_key = strdup(given);
  unsetenv("IDEM_PAGE_KEY");
}

/* The page is for people at this machine, unless it is asked for. */
static bool serves_page(const serve_options *self) {
  bool web = false;
  for (size_t i = 0; i < self->url_count; i++) web |= strncmp(self->urls[i], "http:", 5) == 0;
  return web && self->profile == IDEM_PROFILE_MCP && !self->no_page &&
         (!self->exposed || self->page_anywhere);
}

bool serve_options_parse(serve_options *self, int argc, char **argv, int *code) {
  *self = (serve_options){.profile = IDEM_PROFILE_MCP, .log = {.level = IDEM_LOG_INFO}};
  *code = 2;
  for (int i = 0; i < argc; i++) {
    bool is_flag = argv[i][0] == '-' && argv[i][1];
    if (is_flag ? !take_flag(self, argc, argv, &i) : !take_word(self, argv, argc, &i)) return false;
  }
  if (!self->path) self->path = "idem.json";
  self->http.tokens = list_of(&self->tokens);
  self->http.allow_hosts = list_of(&self->allow_hosts);
  self->http.allow_origins = list_of(&self->allow_origins);
  self->http.trusted_proxies = list_of(&self->trusted_proxies);
  bool fine = serve_options_name_files(self) && choose_transport(self) && guard(self);
  if (fine && self->store && self->profile != IDEM_PROFILE_MCP)
    fine = refuse("a store keeps sessions and tasks, which plain methods have not", "--store");
  for (size_t i = 0; i < self->url_count; i++)
    fine = fine && fit_url(&self->urls[i], self->profile);
  self->page = serves_page(self);
  take_page_key(self);
  return fine;
}

bool serve_options_glance(int argc, char **argv, const char **path, const char **tool) {
  bool dry_run = strncmp(argv[argc - 1], "--dry-run=", 10) == 0;
  *path = "idem.json";
  *tool = NULL;
  for (int i = 0; i < argc - 1; i++) {
    const char *word = argv[i], *value = NULL;
    size_t len = strcspn(word, "=");
    const serve_flag *one = serve_flag_find(word, len);
    if (word[len]) value = word + len + 1;
    if (one && one->value && !value && i + 1 < argc - 1) value = argv[++i];
    if (one && strcmp(one->name, "--dry-run") == 0) {
      dry_run = true;
      *tool = value;
    } else if (!one && *word != '-' && !value) {
      *path = word;
    }
  }
  return dry_run;
}

void serve_options_free(serve_options *self) {
  for (size_t i = 0; i < self->url_count; i++) free(self->urls[i]);
  for (size_t i = 0; i < sizeof self->store_files / sizeof *self->store_files; i++)
    free(self->store_files[i]);
  free(self->token_text);
  free(self->page_key);
}
