/* config_auth.c - the key "auth": whose tokens callers show, and scopes. What a listener would refuse is told here, at its place
 * in the file. */
#include "config.h"

#include "regular_file.h"

#include <idem/uv.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JWKS_MAX ((size_t)262144) /* as a listener reads of them */
#define SCOPES_MAX ((size_t)2048) /* as a server and its listeners take them */

static const struct algorithm_name {
  const char *name;
  unsigned bit;
} algorithms[] = {{"ES256", IDEM_HTTP_ES256}, {"ES384", IDEM_HTTP_ES384},
                  {"RS256", IDEM_HTTP_RS256}, {"RS384", IDEM_HTTP_RS384},
                  {"RS512", IDEM_HTTP_RS512}, {"PS256", IDEM_HTTP_PS256},
                  {"PS384", IDEM_HTTP_PS384}, {"PS512", IDEM_HTTP_PS512},
                  {"EdDSA", IDEM_HTTP_EDDSA}, {"ES512", IDEM_HTTP_ES512}};

/* ------------------------------------------------------------------ scopes */

static const char *fitting(serve_config *self, yyjson_val *at, const char *scopes) {
  if (scopes && strlen(scopes) > SCOPES_MAX)
    source_fault(&self->source, at, "scopes: they are too long (%zu bytes at most)", SCOPES_MAX);
  return scopes;
}

const char *config_scopes(serve_config *self, yyjson_val *object) {
  yyjson_val *value = yyjson_obj_get(object, "scopes"), *item;
  size_t i, max;
  if (!value) return NULL;
  if (!self->auth)
    source_fault(&self->source, value,
                 "scopes need \"auth\": nobody else says what a caller's scopes are");
  if (yyjson_is_str(value)) return fitting(self, value, yyjson_get_str(value));
  self->scratch.len = 0;
  idem_status status = IDEM_OK;
  yyjson_arr_foreach(value, i, max, item) {
    if (i && status == IDEM_OK) status = idem_buf_puts(&self->scratch, " ");
    if (status == IDEM_OK)
      status = idem_buf_put(&self->scratch, yyjson_get_str(item), yyjson_get_len(item));
  }
  if (status != IDEM_OK)
    source_fault(&self->source, value, "scopes: %s",
                 idem_status_text(status)); /* else it is open */
  return fitting(
      self, value,
      memory_text(&self->memory, self->scratch.len ? self->scratch.data : "", self->scratch.len));
}

/* -------------------------------------------------------------------- URLs */

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

bool config_is_loopback_url(const char *url) {
  static const char *const hosts[] = {"http://127.", "http://localhost:", "http://localhost/",
                                      "http://[::1]"};
  for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
    if (begins(url, hosts[i])) return true;
  return strcmp(url, "http://localhost") == 0;
}

/* `bare`: no query may be in it. What is wrong with it otherwise is the listener's to judge. */
static const char *take_url(serve_config *self, yyjson_val *object, const char *name, bool bare,
                            const char *why) {
  yyjson_val *value = yyjson_obj_get(object, name);
  const char *url = yyjson_get_str(value), *fault;
  if (!url) return NULL;
  if (!begins(url, "https://") && !config_is_loopback_url(url))
    source_fault(&self->source, value, "auth: %s must be https, or http on loopback: %s", name,
                 why);
  else if (idem_http_check_url(url, bare, &fault) != IDEM_OK)
    source_fault(&self->source, value, "auth: %s: %s", name, fault);
  return url;
}

/* ------------------------------------------------------------------- parts */

/* As a listener would judge them. One without the means says so itself when it starts. */
static const char *fault_of_keys(const char *text, size_t len, unsigned bits) {
  const char *why;
  idem_status status = idem_http_check_keys(text, len, bits, &why);
  return status == IDEM_OK || status == IDEM_E_SYS ? NULL : why;
}

static void look_at_keys(serve_config *self, yyjson_val *at, const char *path, unsigned bits) {
  const char *why = "out of memory";
  FILE *file = path ? regular_file_open(path, &why) : NULL;
  char *text = file ? malloc(JWKS_MAX + 1) : NULL;
  if (text) why = fault_of_keys(text, fread(text, 1, JWKS_MAX + 1, file), bits);
  if (path && why)
    source_fault(&self->source, at, "auth: jwks_file %s: %s", yyjson_get_str(at), why);
  free(text);
  if (file) fclose(file);
}

static unsigned take_algorithms(yyjson_val *object) {
  yyjson_val *list = yyjson_obj_get(object, "algorithms"), *item;
  unsigned bits = 0;
  size_t i, max;
  yyjson_arr_foreach(list, i, max, item) {
    for (size_t j = 0; j < sizeof algorithms / sizeof *algorithms; j++)
      if (yyjson_equals_str(item, algorithms[j].name)) bits |= algorithms[j].bit;
  }
  return bits;
}

static void take_issuer(serve_config *self, yyjson_val *value, auth_config *auth) {
  static const char why[] = "whoever can answer in its place can make tokens";
  yyjson_val *file = yyjson_obj_get(value, "jwks_file");
  bool found = !file && !yyjson_obj_get(value, "jwks"); /* its keys, by its name */
  auth->issuer.issuer = take_url(self, value, "issuer", found, why);
  auth->issuer.jwks_url = take_url(self, value, "jwks", false, why);
  if (file && yyjson_obj_get(value, "jwks"))
    source_fault(&self->source, file, "auth: give jwks or jwks_file, not both");
  if (file)
    auth->issuer.jwks_file = config_file(self, (config_owner){"server", "auth"}, file, "jwks_file");
  if (file) look_at_keys(self, file, auth->issuer.jwks_file, take_algorithms(value));
  auth->http.issuers = auth->issuer.issuer ? &auth->issuer : NULL;
  auth->http.issuer_count = auth->issuer.issuer ? 1 : 0;
}

static void take_introspection(serve_config *self, yyjson_val *value, auth_config *auth) {
  const tool_config owner = {.name = "introspection", .kind = "auth"};
  yyjson_val *secret = yyjson_obj_get(value, "secret");
  if (!value) return;
  auth->http.introspection_url =
      take_url(self, value, "url", false, "tokens and a secret go there");
  auth->http.introspection_id = config_text(value, "id");
  if (secret) auth->http.introspection_secret = config_secret(self, &owner, secret);
  auth->http.introspection_s = (uint32_t)config_number(value, "seconds", 0);
}

/* A list of texts, of which a listener would refuse some: told at their places. NULL: there is none. */
static const char *const *take_texts(serve_config *self, yyjson_val *auth, const char *name,
                                     idem_status (*check)(const char *text, const char **fault)) {
  yyjson_val *list = yyjson_obj_get(auth, name), *item;
  size_t i, max;
  const char *fault;
  const char **texts = memory_zeroed(&self->memory, yyjson_arr_size(list) + 1, sizeof *texts);
  yyjson_arr_foreach(list, i, max, item) {
    texts[i] = yyjson_get_str(item);
    if (check(texts[i], &fault) != IDEM_OK)
      source_fault(&self->source, item, "auth: %s: %s", name, fault);
  }
  return list ? texts : NULL;
}

static idem_status check_server(const char *url, const char **fault) {
  return idem_http_check_url(url, true, fault);
}

static void take_proofs(yyjson_val *value, auth_config *auth) {
  if (!value) return;
  auth->http.proofs =
      config_true(value, "required") ? IDEM_HTTP_PROOFS_REQUIRED : IDEM_HTTP_PROOFS_OFFERED;
  auth->http.proof_nonces = config_true(value, "nonce");
  auth->http.proof_algorithms = take_algorithms(value);
}

static void take_methods(serve_config *self, yyjson_val *methods, auth_config *auth) {
  yyjson_val *key, *value;
  size_t i, max, count = yyjson_obj_size(methods);
  auth->methods = memory_zeroed(&self->memory, count + 1, sizeof *auth->methods);
  idem_each_member(methods, i, max, key, value) {
    auth->methods[i] =
        (method_scopes){yyjson_get_str(key), fitting(self, value, yyjson_get_str(value))};
  }
  auth->method_count = count;
}

static void take_implied(serve_config *self, yyjson_val *given, auth_config *auth) {
  yyjson_val *key, *value;
  size_t i, max, at = 0;
  const char **pairs = memory_zeroed(&self->memory, 2 * yyjson_obj_size(given) + 1, sizeof *pairs);
  idem_each_member(given, i, max, key, value) {
    pairs[at++] = yyjson_get_str(key);
    pairs[at++] = yyjson_get_str(value);
  }
  if (given) auth->http.scope_implies = pairs;
}

/* Everything that there is to ask for. */
static void gather(serve_config *self, idem_buf *out, const char *scopes) {
  if (!scopes || !*scopes) return;
  if (out->len) idem_buf_puts(out, " ");
  idem_buf_put(out, scopes, strlen(scopes));
  (void)self;
}

void config_auth_offer(serve_config *self) {
  auth_config *auth = self->auth;
  if (!auth) return;
  self->scratch.len = 0;
  gather(self, &self->scratch, auth->http.required_scope);
  for (size_t i = 0; i < auth->method_count; i++)
    gather(self, &self->scratch, auth->methods[i].scopes);
  for (size_t i = 0; i < self->shown_count; i++)
    gather(self, &self->scratch, self->tools[i].scopes);
  for (size_t i = 0; i < self->resource_count; i++)
    gather(self, &self->scratch, self->resources[i].scopes);
  for (size_t i = 0; i < self->prompt_count; i++)
    gather(self, &self->scratch, self->prompts[i].scopes);
  if (self->scratch.len)
    auth->http.scopes = memory_text(&self->memory, self->scratch.data, self->scratch.len);
}

/* Nothing of it was refused by the schema; else that was told, and its parts are not what they are read as. */
static bool is_whole(const serve_config *self, yyjson_val *object) {
  yyjson_val *key, *value;
  size_t i, max;
  idem_each_member(object, i, max, key, value) {
    if (source_is_broken(&self->source, value) || source_is_broken(&self->source, key))
      return false;
  }
  return true;
}

void config_auth(serve_config *self, yyjson_val *value) {
  if (!value) return;
  auth_config *auth = self->auth = memory_zeroed(&self->memory, 1, sizeof *auth);
  if (!is_whole(self, value)) return;
  yyjson_val *authorities = yyjson_obj_get(value, "ca_file");
  take_issuer(self, value, auth);
  take_introspection(self, yyjson_obj_get(value, "introspection"), auth);
  /* Beside the issuer; of opaque tokens nobody else says where they are had. */
  auth->http.authorization_servers = take_texts(self, value, "authorization_servers", check_server);
  take_proofs(yyjson_obj_get(value, "dpop"), auth);
  auth->http.algorithms = take_algorithms(value);
  take_methods(self, yyjson_obj_get(value, "methods"), auth);
  take_implied(self, yyjson_obj_get(value, "scope_implies"), auth);
  auth->http.log_claims = take_texts(self, value, "log_claims", idem_http_check_claim);
  auth->http.resource = take_url(self, value, "resource", true, "tokens would travel in the clear");
  auth->http.audience = config_text(value, "audience");
  auth->http.principal_claim = config_text(value, "principal");
  auth->http.required_scope = config_scopes(self, value);
  auth->http.skew_s = (uint32_t)config_number(value, "skew_seconds", 0);
  auth->http.access_tokens_alone = config_true(value, "access_tokens_alone");
  auth->http.private_addresses = config_true(value, "private_addresses");
  auth->http.name = self->title ? self->title : self->name;
  if (authorities)
    auth->http.ca_file =
        config_file(self, (config_owner){"server", "auth"}, authorities, "ca_file");
  if (!auth->issuer.issuer && !auth->http.introspection_url)
    source_fault(&self->source, value, "auth: needs an issuer, or introspection");
  else if (!auth->issuer.issuer && !auth->http.authorization_servers)
    source_note(&self->source, value,
                "auth: clients are not told where to get tokens: name authorization_servers");
}
