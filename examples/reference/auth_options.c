/* auth_options.c - the flags of idem-reference for tokens of an authorization server: whose are taken, and what they must say. */
#include "reference.h"

#include <stdlib.h>

#define SECRET_VARIABLE "IDEM_INTROSPECTION_SECRET" /* not a flag: those are seen by everybody */

bool add_issuer(options *parsed, const char *value) {
  if (!*value || parsed->auth.issuer_count == REFERENCE_ISSUERS) return false;
  parsed->issuers[parsed->auth.issuer_count++].issuer = value;
  return true;
}

/* Both are about the issuer named last. */
static idem_http_issuer *last_issuer(options *parsed) {
  size_t count = parsed->auth.issuer_count;
  return count ? &parsed->issuers[count - 1] : NULL;
}
bool set_jwks_url(options *parsed, const char *value) {
  idem_http_issuer *issuer = last_issuer(parsed);
  if (issuer) issuer->jwks_url = value;
  return issuer && *value;
}
bool set_jwks_file(options *parsed, const char *value) {
  idem_http_issuer *issuer = last_issuer(parsed);
  if (issuer) issuer->jwks_file = value;
  return issuer && *value;
}

bool set_resource(options *parsed, const char *value) {
  parsed->auth.resource = value;
  return *value;
}
bool set_audience(options *parsed, const char *value) {
  parsed->auth.audience = value;
  return *value;
}
bool set_scope(options *parsed, const char *value) {
  parsed->auth.required_scope = value;
  return *value;
}
bool set_principal_claim(options *parsed, const char *value) {
  parsed->auth.principal_claim = value;
  return *value;
}
bool set_introspection(options *parsed, const char *value) {
  parsed->auth.introspection_url = value;
  return *value;
}
bool set_introspection_client(options *parsed, const char *value) {
  parsed->auth.introspection_id = value;
  return *value;
}

/* What the others say means nothing where nobody's tokens are taken. */
bool settle_auth(options *parsed) {
  idem_http_auth *auth = &parsed->auth;
  bool wanted = auth->issuer_count || auth->introspection_url;
  if (!wanted)
    return !auth->resource && !auth->audience && !auth->required_scope && !auth->principal_claim &&
           !auth->introspection_id;
  auth->issuers = parsed->issuers;
  auth->introspection_secret = getenv(SECRET_VARIABLE);
  parsed->http.auth = auth;
  return true;
}
