/* serve_auth.c - whether the command line and the file's "auth" go together: what would leave a server open, or tokens in the
 * clear, is said before anything is served. */
#include "serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define GOOD_TOKEN 16u /* bytes */

static bool refuse(const char *what, const char *why) {
  fprintf(stderr, "idem serve: %s: %s\n", what, why);
  return false;
}

static void note(const char *what, const char *why) {
  fprintf(stderr, "idem serve: note: %s: %s\n", what, why);
}

static bool asks_for_tokens(const serve_options *self, const serve_config *config) {
  return config->auth || self->tokens.count;
}

/* Other than that of a port. */
static bool has_wildcard(const char *origin) {
  const char *star = strchr(origin, '*');
  return star && (star == origin || star[-1] != ':' || star[1]);
}

/* Any page that a person opens could use what their browser holds. */
static bool origins_are_named(const serve_options *self) {
  for (size_t i = 0; i < self->allow_origins.count; i++)
    if (has_wildcard(self->allow_origins.items[i]))
      return refuse("--allow-origin with a wildcard",
                    "every page that a person opens could ask with their credentials; name the "
                    "origins");
  return true;
}

static bool has_scopes(const serve_config *config) {
  for (size_t i = 0; i < config->shown_count; i++)
    if (config->tools[i].scopes) return true;
  return config->auth && config->auth->method_count;
}

static bool auth_fits(const serve_options *self, const serve_config *config) {
  if (self->exposed && !config->auth->http.resource)
    return refuse("auth: resource is missing",
                  "give the URL by which clients know this server; their tokens are for it");
  if (self->profile != IDEM_PROFILE_MCP && has_scopes(config))
    return refuse("auth: scopes hold for MCP alone", "serve plain methods without them");
  return true;
}

static bool is_web(const char *url) {
  return strncmp(url, "http:", 5) == 0 || strncmp(url, "ws:", 3) == 0;
}

bool serve_auth_may_open(const serve_options *self) {
  return !self->needs_auth ||
         refuse("others than this machine could reach that address",
                "give --token-file FILE, or --no-auth to let anyone in, or \"auth\" in the file");
}

bool serve_auth_fits(const serve_options *self, const serve_config *config) {
  if (!config->auth && !serve_auth_may_open(self)) return false;
  return origins_are_named(self) && (!config->auth || auth_fits(self, config));
}

/* ------------------------------------------------------------------ by which URL */

/* "http://host:8420/mcp": its host and port end where the path begins. */
typedef struct url_parts {
  const char *host, *path;
  size_t host_len; /* without the port */
  long port;
} url_parts;

static url_parts split(const char *url) {
  const char *mark = strstr(url, "://"), *host = mark ? mark + 3 : url;
  const char *path = host + strcspn(host, "/");
  const char *name_end = *host == '[' ? host + strcspn(host, "]/") : host;
  const char *colon = memchr(name_end, ':', (size_t)(path - name_end));
  bool secure = strncmp(url, "https:", 6) == 0;
  return (url_parts){.host = host,
                     .path = path,
                     .host_len = (size_t)((colon ? colon : path) - host),
                     .port = colon    ? strtol(colon + 1, NULL, 10)
                             : secure ? 443
                                      : 80};
}

static bool is_this_machine(const url_parts *url) {
  static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strlen(names[i]) == url->host_len && strncasecmp(url->host, names[i], url->host_len) == 0)
      return true;
  return false;
}

/* Port 0 is any; and only who asks this machine itself asks by the port that is listened on. */
static bool is_reached_by(const char *served, const char *resource) {
  url_parts here = split(served), known = split(resource);
  return strcmp(here.path, known.path) == 0 &&
         (!is_this_machine(&known) || !here.port || here.port == known.port);
}

/* Clients ask for tokens for the URL that they use, and those are for another resource then. A proxy may change it. */
static void explain_resource(const serve_options *self, const char *resource) {
  const char *served = NULL;
  for (size_t i = 0; i < self->url_count; i++) {
    if (!is_web(self->urls[i])) continue;
    if (is_reached_by(self->urls[i], resource)) return;
    served = self->urls[i];
  }
  if (!served || self->trusted_proxies.count) return;
  fprintf(stderr,
          "idem serve: note: auth: resource is %s: %s is served, and tokens that clients get for "
          "that are refused\n",
          resource, served);
}

static void warn(idem_log *log, const char *what, const char *why) {
  if (log)
    idem_logf(log, IDEM_LOG_WARN, what, "%s", why);
  else
    note(what, why);
}

void serve_auth_warn(const serve_options *self, idem_log *log) {
  char why[400];
  if (!self->token_file) return;
  snprintf(why, sizeof why, "--token-file %.200s has mode %03o: chmod 600", self->token_file,
           self->token_mode);
  if (self->token_mode & 04u) warn(log, "every user of this machine can read the tokens", why);
  if (self->token_mode & 02u) warn(log, "every user of this machine can write the tokens", why);
  snprintf(why, sizeof why,
           "--token-file %.200s has one of %zu bytes; %zu at least are hard to guess, such as "
           "openssl rand -hex 16 prints",
           self->token_file, self->shortest_token, (size_t)GOOD_TOKEN);
  if (self->shortest_token < GOOD_TOKEN) warn(log, "a token is short", why);
}

void serve_auth_explain(const serve_options *self, const serve_config *config) {
  serve_auth_warn(self, NULL);
  if (asks_for_tokens(self, config) && self->exposed && !self->trusted_proxies.count)
    note("tokens would travel in the clear",
         "others than this machine reach an address without TLS; let a proxy with TLS stand before "
         "it, and name that by --trusted-proxy");
  for (size_t i = 0; config->auth && i < self->url_count; i++)
    if (!is_web(self->urls[i]))
      note(self->urls[i], "\"auth\" holds for HTTP alone: whoever reaches this may do everything");
  if (config->auth && config->auth->http.proofs == IDEM_HTTP_PROOFS_REQUIRED && self->tokens.count)
    note("dpop: required", "the tokens of --token-file open all the same, without a proof");
  if (config->auth && self->trusted_proxies.count && !config->auth->http.resource)
    note("auth: resource is missing",
         "through a proxy clients know this server by another URL, and their tokens and proofs are "
         "for that");
  if (config->auth && config->auth->http.resource)
    explain_resource(self, config->auth->http.resource);
  if (config->auth && self->no_auth)
    note("--no-auth", "tokens are asked for all the same, by \"auth\" in the file");
}
