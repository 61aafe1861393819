/* serve_flags.c - see serve_flags.h. A flag's function takes its value in, or says why not. Strict by default: what others
 * than this machine could reach needs a token. */
#include "serve_flags.h"

#include "config/regular_file.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TOKEN_BYTES 65536

static bool add_url(serve_options *self, const char *scheme, const char *host, const char *rest,
                    const char *path) {
  self->why = "these are too many addresses";
  if (self->url_count == SERVE_URLS ||
      asprintf(&self->urls[self->url_count], "%s%s%s%s", scheme, host, rest, path) < 0)
    return false;
  self->url_count++;
  return true;
}

/* A name that only looks like an address of this machine may lead anywhere. */
static bool is_loopback(const char *address) {
  char host[16] = "";
  struct in_addr parsed;
  size_t len = strcspn(address, ":");
  if (len < sizeof host) memcpy(host, address, len);
  bool numbers = strncmp(host, "127.", 4) == 0 && inet_pton(AF_INET, host, &parsed) == 1;
  return numbers || strcmp(host, "localhost") == 0 || strncmp(address, "[::1]:", 6) == 0;
}

static bool is_port(const char *text) {
  size_t digits = strspn(text, "0123456789");
  return digits > 0 && digits < 6 && !text[digits] && strtoul(text, NULL, 10) <= 65535;
}

/* A port alone is this machine's, by both of its own addresses. */
static bool add_address(serve_options *self, const char *scheme, const char *address,
                        const char *path) {
  const char *colon = strrchr(address, ':');
  if (!is_port(colon ? colon + 1 : address)) return false;
  if (colon && !is_loopback(address)) self->exposed = true;
  return add_url(self, scheme, colon ? "" : "localhost:", address, path);
}

/* ------------------------------------------------------------- one function a flag */

bool serve_add_http(serve_options *self, const char *value) {
  return add_address(self, "http://", value, "/mcp");
}
static bool add_ws(serve_options *self, const char *value) {
  return add_address(self, "ws://", value, "/mcp");
}
static bool add_tcp(serve_options *self, const char *value) {
  if (strchr(value, ':') && !is_loopback(value)) self->open = true;
  return add_address(self, "tcp://", value, "");
}
static bool add_unix(serve_options *self, const char *value) {
  return *value && add_url(self, "unix:", value, "", "");
}
bool serve_add_stdio(serve_options *self, const char *value) {
  (void)value;
  return add_url(self, "stdio:", "", "", "");
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

/* "192.0.2.7", "10.0.0.0/8", "2001:db8::/32". */
static bool is_block(const char *text) {
  unsigned char parsed[sizeof(struct in6_addr)];
  char address[INET6_ADDRSTRLEN] = "";
  size_t len = strcspn(text, "/"), digits = text[len] ? strspn(text + len + 1, "0123456789") : 0;
  if (len < sizeof address) memcpy(address, text, len);
  bool four = inet_pton(AF_INET, address, parsed) == 1;
  if (!four && inet_pton(AF_INET6, address, parsed) != 1) return false;
  if (!text[len]) return true;
  return digits > 0 && digits < 4 && !text[len + 1 + digits] &&
         strtoul(text + len + 1, NULL, 10) <= (four ? 32u : 128u);
}
static bool add_proxy(serve_options *self, const char *value) {
  return is_block(value) && add_text(&self->trusted_proxies, value);
}

static bool set_client_header(serve_options *self, const char *value) {
  static const char marks[] = "!#$%&'*+-.^_`|~";
  for (const char *at = value; *at; at++)
    if (!isalnum((unsigned char)*at) && !strchr(marks, *at)) return false;
  self->http.client_header = value;
  return *value;
}

/* Of `most` at most; `end` is what follows. */
static bool read_count(const char *text, unsigned long most, unsigned long *count,
                       const char **end) {
  size_t digits = strspn(text, "0123456789");
  *count = strtoul(text, NULL, 10);
  *end = text + digits;
  return digits > 0 && digits < 13 && *count > 0 && *count <= most;
}

/* "100/10": messages, and in how many seconds. */
static bool set_rate_limit(serve_options *self, const char *value) {
  unsigned long count, seconds;
  const char *end;
  if (!read_count(value, 1000000, &count, &end) || *end != '/') return false;
  if (!read_count(end + 1, 86400, &seconds, &end) || *end) return false;
  self->http.rate_count = (uint32_t)count;
  self->http.rate_seconds = (uint32_t)seconds;
  return true;
}
static bool read_size(const char *text, unsigned long most, size_t *size) {
  unsigned long count;
  const char *end;
  if (!read_count(text, most, &count, &end) || *end) return false;
  *size = count;
  return true;
}
static bool set_max_sessions(serve_options *self, const char *value) {
  self->why = "a number, 1 to 1000000000";
  return read_size(value, 1000000000, &self->http.max_sessions);
}
static bool set_max_connections(serve_options *self, const char *value) {
  return read_size(value, 1000000, &self->max_connections);
}
static bool set_client_connections(serve_options *self, const char *value) {
  return read_size(value, 1000000, &self->client_connections);
}
static bool set_max_in_flight(serve_options *self, const char *value) {
  return read_size(value, 1000000, &self->http.max_in_flight);
}
static bool set_client_in_flight(serve_options *self, const char *value) {
  return read_size(value, 1000000, &self->http.max_in_flight_client);
}
static bool set_session_in_flight(serve_options *self, const char *value) {
  return read_size(value, 1000000, &self->http.max_in_flight_session);
}
static bool set_first(serve_options *self, const char *value) {
  size_t ms;
  if (!read_size(value, 86400000, &ms)) return false;
  self->http.first_ms = ms;
  return true;
}

static bool read_tokens(serve_options *self, FILE *file) {
  self->token_text = calloc(1, TOKEN_BYTES);
  if (!self->token_text) return false;
  size_t len = fread(self->token_text, 1, TOKEN_BYTES - 1, file);
  self->why = "it cannot be read as a text of less than 64 KiB";
  if (ferror(file) || !feof(file) || memchr(self->token_text, 0, len)) return false;
  self->why = "these are too many tokens";
  for (char *line = strtok(self->token_text, "\r\n"); line; line = strtok(NULL, "\r\n")) {
    if (!add_text(&self->tokens, line)) return false;
    if (self->tokens.count == 1 || strlen(line) < self->shortest_token)
      self->shortest_token = strlen(line);
  }
  return true;
}

/* A file without a token would open the door: it is refused. */
static bool set_token_file(serve_options *self, const char *value) {
  self->why = "one such file is enough";
  if (self->token_text) return false;
  FILE *file = regular_file_open_secret(value, &self->why);
  if (!file) return false;
  self->token_file = value;
  struct stat about;
  if (fstat(fileno(file), &about) == 0) self->token_mode = about.st_mode & 07777u;
  bool whole = read_tokens(self, file);
  fclose(file);
  if (whole && !self->tokens.count) self->why = "there is no token in it";
  return whole && self->tokens.count > 0;
}

static bool set_store(serve_options *self, const char *value) {
  self->store = value;
  self->why =
      "this flag wants memory:, sqlite:/PATH/FILE, redis://HOST:6379, rediss://HOST (TLS) or "
      "redis+unix:/PATH/SOCKET";
  static const char *const kinds[] = {"sqlite:", "redis://", "rediss://", "redis+unix:"};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strncmp(value, kinds[i], strlen(kinds[i])) == 0 && value[strlen(kinds[i])]) return true;
  return strcmp(value, "memory:") == 0;
}

static bool set_key(serve_options *self, const char *value) {
  size_t ms;
  self->why = "milliseconds, 1 to 31622400000 (366 days)";
  if (!read_size(value, (size_t)366 * 86400000, &ms)) return false;
  self->key_ms = ms;
  return true;
}
static bool read_hour(const char *value, uint64_t *out) {
  size_t ms;
  if (!read_size(value, 3600000, &ms)) return false;
  *out = ms;
  return true;
}
static bool set_drain(serve_options *self, const char *value) {
  self->why = "milliseconds, 1 to 3600000";
  return read_hour(value, &self->drain_ms);
}
static bool set_grace(serve_options *self, const char *value) {
  self->why = "milliseconds, 1 to 3600000";
  return read_hour(value, &self->grace_ms);
}
static bool set_lease(serve_options *self, const char *value) {
  size_t ms;
  self->why = "milliseconds, 100 to 86400000";
  if (!read_size(value, 86400000, &ms) || ms < 100) return false;
  self->lease_ms = ms;
  return true;
}

static bool set_profile(serve_options *self, const char *value) {
  static const struct {
    const char *name;
    idem_profile profile;
  } rows[] = {
      {"mcp", IDEM_PROFILE_MCP}, {"jsonrpc", IDEM_PROFILE_JSONRPC}, {"lsp", IDEM_PROFILE_LSP}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (strcmp(rows[i].name, value) != 0) continue;
    self->profile = rows[i].profile;
    return true;
  }
  return false;
}

static bool set_codes(serve_options *self, const char *value) {
  self->codes = strcmp(value, "erlmcp") == 0 ? IDEM_CODES_ERLMCP : IDEM_CODES_STANDARD;
  self->codes_given = true;
  return self->codes == IDEM_CODES_ERLMCP || strcmp(value, "standard") == 0;
}

static bool set_may_loosen(serve_options *self, const char *value) {
  (void)value;
  return self->may_loosen = true;
}
static bool set_no_auth(serve_options *self, const char *value) {
  (void)value;
  return self->no_auth = true;
}
static bool set_page(serve_options *self, const char *value) {
  (void)value;
  return self->page_anywhere = true;
}
static bool set_no_page(serve_options *self, const char *value) {
  (void)value;
  return self->no_page = true;
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

static const serve_flag flags[] = {
    {"where to serve (any of these, at once)", "--http", "[HOST:]PORT",
     "http://HOST:PORT/mcp, and WebSocket there", serve_add_http},
    {NULL, "--ws", "[HOST:]PORT", "WebSocket alone, at ws://HOST:PORT/mcp", add_ws},
    {NULL, "--tcp", "[HOST:]PORT", "lines over TCP", add_tcp},
    {NULL, "--unix", "PATH", "lines over a Unix socket", add_unix},
    {NULL, "--stdio", NULL, "lines on stdin and stdout, also beside addresses", serve_add_stdio},
    {NULL, "--profile", "mcp|jsonrpc|lsp",
     "what is spoken there: MCP, or tools as plain methods (mcp)", set_profile},
    {NULL, "--codes", "standard|erlmcp", "numbers and texts of errors (standard, or the file's)",
     set_codes},
    {"who may ask", "--token-file", "FILE", "bearer tokens, one a line, any of which opens",
     set_token_file},
    {NULL, "--no-auth", NULL, "let others than this machine in without a token", set_no_auth},
    {NULL, "--allow-host", "HOST[:PORT|:*]", "a Host to answer to; may be repeated", add_host},
    {NULL, "--allow-origin", "HOST[:PORT|:*]", "whose pages may ask; may be repeated", add_origin},
    {NULL, "--trusted-proxy", "ADDRESS[/BITS]", "a proxy that may name the client; may be repeated",
     add_proxy},
    {NULL, "--client-header", "NAME", "where a proxy names the client (X-Forwarded-For)",
     set_client_header},
    {"how much one may ask for", "--rate-limit", "N/SECONDS", "messages a client may send",
     set_rate_limit},
    {NULL, "--max-connections", "N", "at once, on each address (1000)", set_max_connections},
    {NULL, "--client-connections", "N", "of one client that is not this machine (a quarter)",
     set_client_connections},
    {NULL, "--max-sessions", "N", "of all clients and processes of a store (10000)",
     set_max_sessions},
    {NULL, "--max-in-flight", "N", "calls under way, of all (65536)", set_max_in_flight},
    {NULL, "--client-in-flight", "N", "calls under way, of one client (16384)",
     set_client_in_flight},
    {NULL, "--session-in-flight", "N", "calls under way, of one session (1024)",
     set_session_in_flight},
    {NULL, "--first-ms", "N", "until a connection must say something (10000)", set_first},
    {"what is kept", "--store", "URL",
     "where sessions, tasks and keys are kept (memory:)\n"
     "memory:                      in this process\n"
     "sqlite:/var/lib/idem/s.db    in a file, for the processes of this machine\n"
     "redis://10.0.0.5:6379        in Redis or Valkey, for those of several\n"
     "rediss://redis.example.org   the same behind TLS\n"
     "redis+unix:/run/redis.sock   the same by a socket",
     set_store},
    {NULL, "--key-ms", "N", "for how long the answer of a call with a key (86400000)", set_key},
    {NULL, "--lease-ms", "N", "until a process that is silent is taken for dead (10000)",
     set_lease},
    {NULL, "--drain-ms", "N", "/healthz says so before SIGTERM stops the server (0)", set_drain},
    {NULL, "--grace-ms", "N", "for calls that run to finish, then (1500)", set_grace},
    {"what a changed file may do", "--reload-may-loosen", NULL,
     "give tools more than they had, without a new start", set_may_loosen},
    {"what a person sees", "--page", NULL, "the page at / also where others could reach it",
     set_page},
    {NULL, "--no-page", NULL, "no page at /, no feed, no operator's key", set_no_page},
    {"what is told", "--access-log", NULL, "one line a request", set_access_log},
    {NULL, "--log-level", "debug|info|warn|error", "the least that is logged (info)", set_level},
    {NULL, "--log-format", "text|json", "for people or for programs (text)", set_format},
    {"instead of serving", "--check", NULL, "say what is wrong with the file", set_check},
    {NULL, "--dry-run", "TOOL [NAME=VALUE...]", "show what a call would run", set_dry_run},
    {NULL, "--print-schema", NULL, "print the file's JSON Schema", set_print_schema},
};
#define FLAG_COUNT (sizeof flags / sizeof *flags)

/* Further lines of it stand below the first. */
static void put_about(const char *left, const char *about) {
  for (const char *end; (end = strchr(about, '\n')); about = end + 1, left = "")
    printf("  %-34s %.*s\n", left, (int)(end - about), about);
  printf("  %-34s %s\n", left, about);
}

void serve_options_help(void) {
  for (size_t i = 0; i < FLAG_COUNT; i++) {
    char left[64];
    const serve_flag *one = &flags[i];
    if (one->heading) printf("\n%s:\n", one->heading);
    snprintf(left, sizeof left, "%s %s", one->name, one->value ? one->value : "");
    put_about(left, one->about);
  }
  printf("  %-34s %s\n", "-h, --help", "this text");
}

const serve_flag *serve_flag_find(const char *text, size_t len) {
  for (size_t i = 0; i < FLAG_COUNT; i++)
    if (strlen(flags[i].name) == len && strncmp(flags[i].name, text, len) == 0) return &flags[i];
  return NULL;
}

const char *serve_flag_suggest(const char *text, size_t len) {
  const char *names[FLAG_COUNT];
  for (size_t i = 0; i < FLAG_COUNT; i++) names[i] = flags[i].name;
  return idem_schema_suggest(text, len, names, FLAG_COUNT);
}
