/* web_options.c - the flags of idem-reference that concern HTTP and WebSocket. */
#include "reference.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKEN_BYTES 65536

bool add_http(options *parsed, const char *value) { return add_address(parsed, "http://", value); }
bool add_ws(options *parsed, const char *value) { return add_address(parsed, "ws://", value); }
bool add_https(options *parsed, const char *value) {
  return add_address(parsed, "https://", value);
}
bool add_wss(options *parsed, const char *value) { return add_address(parsed, "wss://", value); }
bool add_tls(options *parsed, const char *value) { return add_address(parsed, "tls://", value); }
bool set_tls_cert(options *parsed, const char *value) {
  parsed->http.tls_cert = value;
  return *value;
}
bool set_tls_key(options *parsed, const char *value) {
  parsed->http.tls_key = value;
  return *value;
}
bool set_tls_client_ca(options *parsed, const char *value) {
  parsed->http.tls_client_ca = value;
  return *value;
}
bool add_admin(options *parsed, const char *value) {
  return add_address(parsed, "admin://", value);
}

static bool add_text(text_list *list, const char *text) {
  if (!*text || list->count == REFERENCE_LIST) return false;
  list->items[list->count++] = text;
  return true;
}

bool add_trusted_proxy(options *parsed, const char *value) {
  return add_text(&parsed->trusted_proxies, value);
}
bool set_client_header(options *parsed, const char *value) {
  parsed->http.client_header = value;
  return *value;
}
bool add_allow_host(options *parsed, const char *value) {
  return add_text(&parsed->allow_hosts, value);
}
bool add_allow_origin(options *parsed, const char *value) {
  return add_text(&parsed->allow_origins, value);
}

bool set_access_log(options *parsed, const char *value) {
  (void)value;
  return parsed->http.access_log = true;
}

static bool parse_number(const char *text, char **end, unsigned long *number) {
  errno = 0;
  *number = strtoul(text, end, 10);
  return errno == 0 && *text >= '0' && *text <= '9' && *number > 0 && *number <= UINT32_MAX;
}

bool set_workers(options *parsed, const char *value) {
  char *end;
  unsigned long number;
  if (!parse_number(value, &end, &number) || *end || number > 256) return false;
  parsed->http.workers = (unsigned)number;
  return true;
}

bool set_rate_limit(options *parsed, const char *value) {
  char *end;
  unsigned long count, seconds;
  if (!parse_number(value, &end, &count) || *end != '/') return false;
  if (!parse_number(end + 1, &end, &seconds) || *end) return false;
  parsed->http.rate_count = (uint32_t)count;
  parsed->http.rate_seconds = (uint32_t)seconds;
  return true;
}

static bool split_tokens(options *parsed) {
  for (char *line = strtok(parsed->token_text, "\r\n"); line; line = strtok(NULL, "\r\n"))
    if (!add_text(&parsed->tokens, line)) return false;
  return parsed->tokens.count > 0;
}

/* A FIFO would be waited for until someone writes to it. */
static FILE *open_regular(const char *path) {
  struct stat about;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return NULL;
  if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) return fdopen(fd, "r");
  close(fd);
  return NULL;
}

/* A file without a token would open the door: it is refused. */
bool set_token_file(options *parsed, const char *value) {
  if (parsed->token_text) return false;
  FILE *file = open_regular(value);
  if (!file) return false;
  char *text = parsed->token_text = calloc(1, TOKEN_BYTES);
  size_t len = text ? fread(text, 1, TOKEN_BYTES - 1, file) : 0;
  bool whole = len && feof(file) && !ferror(file) && !memchr(text, 0, len);
  fclose(file);
  return whole && split_tokens(parsed);
}

static const char *const *list_of(const text_list *list) {
  return list->count ? list->items : NULL;
}

/* "http://HOST:PORT" of an MCP server is "http://HOST:PORT/mcp". */
static bool add_path(char **url) {
  if (strncmp(*url, "http", 4) != 0 && strncmp(*url, "ws", 2) != 0) return true;
  size_t size = strlen(*url) + sizeof "/mcp";
  char *longer = realloc(*url, size);
  if (!longer) return false;
  *url = longer;
  snprintf(longer + size - sizeof "/mcp", sizeof "/mcp", "/mcp");
  return true;
}

bool settle_http(options *parsed) {
  const char *token = getenv("IDEM_TOKEN");
  if (!parsed->tokens.count && token) add_text(&parsed->tokens, token);
  parsed->http.tokens = list_of(&parsed->tokens);
  parsed->http.allow_hosts = list_of(&parsed->allow_hosts);
  parsed->http.allow_origins = list_of(&parsed->allow_origins);
  parsed->http.trusted_proxies = list_of(&parsed->trusted_proxies);
  if (parsed->profile != IDEM_PROFILE_MCP) return true;
  parsed->http.stateless_legacy = true;
  bool settled = true;
  for (size_t i = 0; settled && i < parsed->url_count; i++) settled = add_path(&parsed->urls[i]);
  return settled;
}
