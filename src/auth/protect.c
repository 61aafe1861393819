/* protect.c - what a protected server says: its metadata (RFC 9728), and why it refuses (RFC 6750). And what the issuers that
 * it trusts say of themselves. */
#include "auth.h"
#include "bearer.h"

#include <string.h>

#define DEPTH_MAX 32u

static const char well_known[] = "/.well-known/oauth-protected-resource";

/* --------------------------------------------------------------- documents */

static idem_status put_string(idem_buf *out, const char *before, const char *text, size_t len) {
  idem_status status = idem_buf_put(out, before, strlen(before));
  return status == IDEM_OK ? idem_text_json_string(out, text, len) : status;
}

/* A list of none is left out (RFC 9728, 3.2). */
static idem_status put_issuers(const idem__protected *self, idem_buf *out) {
  if (!self->issuer_count) return IDEM_OK;
  idem_status status = idem_buf_puts(out, ",\"authorization_servers\":[");
  for (size_t i = 0; i < self->issuer_count && status == IDEM_OK; i++)
    status = put_string(out, i ? "," : "", self->issuers[i], strlen(self->issuers[i]));
  return status == IDEM_OK ? idem_buf_puts(out, "]") : status;
}

static bool has_scope(const char *scopes, const char *end, const char *scope, size_t len) {
  for (size_t at_len; scopes < end && *(scopes += strspn(scopes, " ")); scopes += at_len) {
    at_len = strcspn(scopes, " ");
    if (scopes < end && at_len == len && memcmp(scopes, scope, len) == 0) return true;
  }
  return false;
}

/* Each once, where it is first. */
static idem_status put_scopes(const char *scopes, idem_buf *out) {
  const char *before = "", *all = scopes;
  idem_status status = idem_buf_puts(out, ",\"scopes_supported\":[");
  for (size_t len; status == IDEM_OK && *(scopes += strspn(scopes, " ")); scopes += len) {
    len = strcspn(scopes, " ");
    if (has_scope(all, scopes, scopes, len)) continue;
    status = put_string(out, before, scopes, len);
    before = ",";
  }
  return status == IDEM_OK ? idem_buf_puts(out, "]") : status;
}

/* Words that stand between `before` and `after`, each of these algorithms. */
static idem_status put_algorithms(const idem__protected *self, idem_buf *out, const char *before,
                                  const char *between, const char *after) {
  idem_status status = idem_buf_put(out, before, strlen(before));
  const char *gap = "";
  for (unsigned i = 0; i < IDEM__ALGORITHMS && status == IDEM_OK; i++) {
    if (self->proof_algorithms && !(self->proof_algorithms >> i & 1u)) continue;
    status = idem_buf_printf(out, "%s%s", gap, idem__algorithm_name((idem__algorithm)i));
    gap = between;
  }
  return status == IDEM_OK ? idem_buf_put(out, after, strlen(after)) : status;
}

static idem_status put_proofs(const idem__protected *self, idem_buf *out) {
  if (!self->offers_proofs && !self->wants_proofs) return IDEM_OK;
  idem_status status =
      put_algorithms(self, out, ",\"dpop_signing_alg_values_supported\":[\"", "\",\"", "\"]");
  return status == IDEM_OK && self->wants_proofs
             ? idem_buf_puts(out, ",\"dpop_bound_access_tokens_required\":true")
             : status;
}

idem_status idem__protected_document(const idem__protected *self, idem_buf *out) {
  idem_status status = put_string(out, "{\"resource\":", self->resource, strlen(self->resource));
  if (status == IDEM_OK) status = put_issuers(self, out);
  if (status == IDEM_OK && self->scopes && *self->scopes) status = put_scopes(self->scopes, out);
  if (status == IDEM_OK && self->name)
    status = put_string(out, ",\"resource_name\":", self->name, strlen(self->name));
  if (status == IDEM_OK) status = put_proofs(self, out);
  return status == IDEM_OK ? idem_buf_puts(out, ",\"bearer_methods_supported\":[\"header\"]}")
                           : status;
}

/* ------------------------------------------------------------------ places */

/* A path that is "/" alone is none. */
static size_t path_of(const idem__auth_url *url) {
  size_t len = url->path_len;
  while (len && url->path[len - 1] == '/') len--;
  return len;
}

idem_status idem__protected_paths(const idem__protected *self, const idem_alloc *alloc,
                                  char *paths[2]) {
  idem__auth_url url;
  idem_buf text;
  paths[0] = paths[1] = NULL;
  if (!idem__auth_url_parse(self->resource, &url)) return IDEM_E_INVAL;
  paths[0] = idem__strndup(alloc, well_known, sizeof well_known - 1);
  if (!paths[0] || !path_of(&url)) return paths[0] ? IDEM_OK : IDEM_E_NOMEM;
  idem_buf_init(&text, alloc, sizeof well_known + url.path_len);
  idem_status status = idem_buf_put(&text, well_known, sizeof well_known - 1);
  if (status == IDEM_OK) status = idem_buf_put(&text, url.path, path_of(&url));
  if (status == IDEM_OK) paths[1] = idem__strndup(alloc, text.data, text.len);
  idem_buf_deinit(&text);
  return paths[1] ? IDEM_OK : IDEM_E_NOMEM;
}

static idem_status put_place(const idem__protected *self, idem_buf *out) {
  idem__auth_url url;
  if (!idem__auth_url_parse(self->resource, &url)) return IDEM_E_INVAL;
  return idem_buf_printf(out, " resource_metadata=\"%.*s%s%.*s\"", (int)url.origin_len, url.origin,
                         well_known, (int)path_of(&url), url.path);
}

/* -------------------------------------------------------------- challenges */

static idem_status put_member(idem_buf *out, const char *name, const char *value) {
  return value && *value ? idem_buf_printf(out, ", %s=\"%s\"", name, value) : IDEM_OK;
}

/* The other way to show a token, in a word. */
static idem_status put_beside(const idem__protected *self, idem_buf *out, bool proof) {
  if (proof || !self->offers_proofs) return IDEM_OK;
  return put_algorithms(self, out, ", DPoP algs=\"", " ", "\"");
}

idem_status idem__protected_challenge(const idem__protected *self, idem_buf *out,
                                      const idem__bearer_challenge *challenge) {
  bool proof = challenge->proof || self->wants_proofs;
  idem_status status = proof ? idem_buf_puts(out, "DPoP") : idem_buf_puts(out, "Bearer");
  if (status == IDEM_OK) status = put_place(self, out);
  if (status == IDEM_OK) status = put_member(out, "scope", challenge->scope);
  if (status == IDEM_OK) status = put_member(out, "error", challenge->error);
  if (status == IDEM_OK) status = put_member(out, "error_description", challenge->why);
  if (status == IDEM_OK && proof) status = put_algorithms(self, out, ", algs=\"", " ", "\"");
  if (status == IDEM_OK && !challenge->alone) status = put_beside(self, out, proof);
  if (status == IDEM_OK) status = idem_buf_put(out, "", 1);
  if (status == IDEM_OK) out->len--;
  return status;
}

/* ----------------------------------------------------------------- issuers */

bool idem__issuer_may_be_private(const char *issuer, const char *url) {
  idem__auth_url own, other;
  if (!idem__auth_url_parse(issuer, &own) || !idem__auth_url_parse(url, &other)) return false;
  return idem__auth_url_is_loopback(&own) ||
         idem__text_equal_nocase(own.origin, own.origin_len, other.origin, other.origin_len);
}

/* For the log: who differs by a slash alone is hard to see otherwise. */
static void say_issuer(char said[IDEM__ISSUER_SAID], yyjson_val *issuer) {
  size_t len = yyjson_get_len(issuer);
  if (!yyjson_is_str(issuer)) return;
  if (len >= IDEM__ISSUER_SAID) len = IDEM__ISSUER_SAID - 1;
  memcpy(said, yyjson_get_str(issuer), len);
  said[len] = 0;
}

idem_status idem__issuer_read(const idem_alloc *alloc, const char *issuer, const char *body,
                              size_t len, char **jwks_url, char said[IDEM__ISSUER_SAID],
                              const char **why) {
  yyjson_alc alc = idem__json_alc(alloc);
  idem_status status;
  *jwks_url = NULL;
  said[0] = 0;
  *why = "its metadata is not a JSON object";
  yyjson_doc *doc = idem__json_read_text(body, len, DEPTH_MAX, &alc, &status);
  if (!doc) return status;
  yyjson_val *root = yyjson_doc_get_root(doc), *place = yyjson_obj_get(root, "jwks_uri");
  const char *url = yyjson_get_str(place);
  status = IDEM_E_INVAL;
  if (!yyjson_equals_str(yyjson_obj_get(root, "issuer"), issuer)) {
    *why = "its metadata is of another issuer";
    say_issuer(said, yyjson_obj_get(root, "issuer"));
  } else if (!url || strlen(url) != yyjson_get_len(place) || !idem__auth_url_is_safe(url)) {
    *why = "its metadata names no place of keys that may be asked";
  } else {
    *jwks_url = idem__strndup(alloc, url, strlen(url));
    status = *jwks_url ? IDEM_OK : IDEM_E_NOMEM;
  }
  yyjson_doc_free(doc);
  return status;
}
