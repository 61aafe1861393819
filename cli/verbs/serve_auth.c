/* serve_auth.c - whether the command line and the file's "auth" go together: what would leave a server open, or tokens in the
 * clear, is said before anything is served. */
#include "serve.h"

#include <stdio.h>
#include <string.h>

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

void serve_auth_explain(const serve_options *self, const serve_config *config) {
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
  if (config->auth && self->no_auth)
    note("--no-auth", "tokens are asked for all the same, by \"auth\" in the file");
}
