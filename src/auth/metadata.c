/* metadata.c - documents in which servers say who protects them (RFC 9728) and how to ask for tokens (RFC 8414, OpenID
 * Connect Discovery): where they lie, and what of them may be believed. */
#include "auth.h"

#include <string.h>

#define DEPTH_MAX 32u

/* ----------------------------------------------------------------- places */

static char *join(const idem_alloc *alloc, const idem__auth_url *url, const char *before,
                  size_t path_len, const char *behind, idem_status *status) {
  idem_buf text;
  idem_buf_init(&text, alloc, url->origin_len + strlen(before) + path_len + strlen(behind) + 1);
  *status = idem_buf_put(&text, url->origin, url->origin_len);
  if (*status == IDEM_OK) *status = idem_buf_put(&text, before, strlen(before));
  if (*status == IDEM_OK) *status = idem_buf_put(&text, url->path, path_len);
  if (*status == IDEM_OK) *status = idem_buf_put(&text, behind, strlen(behind));
  char *made = *status == IDEM_OK ? idem__strndup(alloc, text.data, text.len) : NULL;
  if (!made) *status = IDEM_E_NOMEM;
  idem_buf_deinit(&text);
  return made;
}

static const char well_known[] = "/.well-known/oauth-protected-resource";

/* A path that is "/" alone is none. */
static size_t path_of(const idem__auth_url *url) {
  size_t len = url->path_len;
  while (len && url->path[len - 1] == '/') len--;
  return len;
}

char *idem__auth_resource_place(const idem_alloc *alloc, const char *resource, unsigned n,
                                idem_status *status) {
  idem__auth_url url;
  *status = IDEM_OK;
  if (!idem__auth_url_parse(resource, &url)) return NULL;
  size_t path = path_of(&url);
  if (!path) n++; /* the second place is the first */
  if (n == 0) return join(alloc, &url, well_known, path, "", status);
  return n == 1 ? join(alloc, &url, well_known, 0, "", status) : NULL;
}

char *idem__auth_server_place(const idem_alloc *alloc, const char *issuer, unsigned n,
                              idem_status *status) {
  static const char oauth[] = "/.well-known/oauth-authorization-server";
  static const char openid[] = "/.well-known/openid-configuration";
  idem__auth_url url;
  *status = IDEM_OK;
  if (!idem__auth_url_parse(issuer, &url)) return NULL;
  size_t path = path_of(&url);
  if (n == 0) return join(alloc, &url, oauth, path, "", status);
  if (n == 1) return join(alloc, &url, openid, path, "", status);
  return n == 2 && path ? join(alloc, &url, "", path, openid, status) : NULL;
}

/* ---------------------------------------------------------- whose they are */

static bool same_origin(const idem__auth_url *one, const idem__auth_url *other) {
  return idem__text_equal_nocase(one->origin, one->origin_len, other->origin, other->origin_len);
}

static bool same_path(const idem__auth_url *one, const idem__auth_url *other) {
  size_t len = path_of(one);
  return len == path_of(other) && memcmp(one->path, other->path, len) == 0;
}

/* A query of the server's URL need not be a part of who it is (RFC 8707, 2, would rather not have one). */
static bool is_server(const idem__auth_url *resource, const idem__auth_url *server) {
  bool same_query =
      !resource->query_len || (resource->query_len == server->query_len &&
                               memcmp(resource->query, server->query, resource->query_len) == 0);
  return same_query && same_origin(resource, server) && same_path(resource, server);
}

/* RFC 9728, 3.1, the other way round. */
static bool is_place_of(const idem__auth_url *place, const idem__auth_url *resource) {
  idem__auth_url without = *place;
  size_t len = sizeof well_known - 1;
  if (resource->query_len || place->path_len < len || memcmp(place->path, well_known, len) != 0)
    return false;
  without.path += len;
  without.path_len -= len;
  return (!without.path_len || *without.path == '/') && same_origin(&without, resource) &&
         same_path(&without, resource);
}

static bool lies_in(const idem__auth_url *server, const idem__auth_url *resource) {
  size_t len = path_of(resource);
  if (!same_origin(server, resource) || server->path_len < len) return false;
  if (memcmp(server->path, resource->path, len) != 0) return false;
  return server->path_len == len || server->path[len] == '/' || !len;
}

bool idem__auth_resource_fits(const char *text, const char *place, const char *url) {
  idem__auth_url resource, asked, server;
  if (!idem__auth_url_parse(text, &resource) || !idem__auth_url_parse(place, &asked) ||
      !idem__auth_url_parse(url, &server))
    return false;
  return is_server(&resource, &server) ||
         (is_place_of(&asked, &resource) && lies_in(&server, &resource));
}

/* ------------------------------------------------------------------ reading */

/* A text member; *status: NOMEM, or INVAL where it is something else or has a NUL. */
static char *take_text(const idem_alloc *alloc, yyjson_val *root, const char *name,
                       idem_status *status) {
  yyjson_val *value = yyjson_obj_get(root, name);
  if (*status != IDEM_OK || !value || yyjson_is_null(value)) return NULL;
  const char *text = yyjson_get_str(value);
  size_t len = yyjson_get_len(value);
  if (!text || memchr(text, 0, len)) {
    *status = IDEM_E_INVAL;
    return NULL;
  }
  char *copy = idem__strndup(alloc, text, len);
  if (!copy) *status = IDEM_E_NOMEM;
  return copy;
}

static bool lists(yyjson_val *root, const char *name, const char *wanted) {
  yyjson_arr_iter all = yyjson_arr_iter_with(yyjson_obj_get(root, name));
  for (yyjson_val *one; (one = yyjson_arr_iter_next(&all));)
    if (yyjson_equals_str(one, wanted)) return true;
  return false;
}

/* A list of words as one text; other things in it are passed over. */
static char *take_words(const idem_alloc *alloc, yyjson_val *root, const char *name,
                        idem_status *status) {
  yyjson_arr_iter all = yyjson_arr_iter_with(yyjson_obj_get(root, name));
  idem_buf words;
  if (*status != IDEM_OK) return NULL;
  idem_buf_init(&words, alloc, 65536);
  for (yyjson_val *one; *status == IDEM_OK && (one = yyjson_arr_iter_next(&all));) {
    const char *word = yyjson_get_str(one);
    if (!word || !*word || strlen(word) != yyjson_get_len(one) || strchr(word, ' ')) continue;
    if (words.len) *status = idem_buf_puts(&words, " ");
    if (*status == IDEM_OK) *status = idem_buf_put(&words, word, strlen(word));
  }
  char *text = *status == IDEM_OK && words.len ? idem__strndup(alloc, words.data, words.len) : NULL;
  if (*status == IDEM_OK && words.len && !text) *status = IDEM_E_NOMEM;
  idem_buf_deinit(&words);
  return text;
}

static yyjson_doc *read_object(const idem_alloc *alloc, const char *body, size_t len,
                               idem_status *status, const char **why) {
  yyjson_alc alc = idem__json_alc(alloc);
  yyjson_doc *doc = idem__json_read_text(body, len, DEPTH_MAX, &alc, status);
  if (doc && yyjson_is_obj(yyjson_doc_get_root(doc))) return doc;
  if (doc) *status = IDEM_E_INVAL;
  yyjson_doc_free(doc);
  *why = "its metadata is not a JSON object";
  return NULL;
}

/* ---------------------------------------------------------- protected resources */

/* NULL: it is none that may be asked. *status: NOMEM. */
static char *take_server(const idem_alloc *alloc, yyjson_val *value, idem_status *status) {
  const char *text = yyjson_get_str(value);
  if (!text || strlen(text) != yyjson_get_len(value) || !idem__auth_url_is_safe(text)) return NULL;
  char *copy = idem__strndup(alloc, text, strlen(text));
  if (!copy) *status = IDEM_E_NOMEM;
  return copy;
}

static void take_servers(const idem_alloc *alloc, yyjson_val *list, idem__auth_resource *out,
                         idem_status *status) {
  yyjson_arr_iter all = yyjson_arr_iter_with(list);
  size_t count = 0;
  for (yyjson_val *one;
       *status == IDEM_OK && count <= IDEM__AUTH_OTHERS && (one = yyjson_arr_iter_next(&all));) {
    char **place = count ? &out->others[count - 1] : &out->server;
    *place = take_server(alloc, one, status);
    if (*place) count++;
  }
}

static bool read_resource(const idem_alloc *alloc, yyjson_val *root, idem__auth_resource *out,
                          idem_status *status, const char **why) {
  out->resource = take_text(alloc, root, "resource", status);
  out->scopes = take_words(alloc, root, "scopes_supported", status);
  out->binds = yyjson_get_bool(yyjson_obj_get(root, "dpop_bound_access_tokens_required"));
  *why = "its metadata names no resource";
  if (*status != IDEM_OK || !out->resource) return false;
  *why = "its metadata names no authorization server that may be asked";
  take_servers(alloc, yyjson_obj_get(root, "authorization_servers"), out, status);
  return *status == IDEM_OK && out->server;
}

idem_status idem__auth_resource_read(const idem_alloc *alloc, const char *body, size_t len,
                                     idem__auth_resource *out, const char **why) {
  idem_status status = IDEM_OK;
  *out = (idem__auth_resource){.resource = NULL};
  yyjson_doc *doc = read_object(alloc, body, len, &status, why);
  bool good = doc && read_resource(alloc, yyjson_doc_get_root(doc), out, &status, why);
  yyjson_doc_free(doc);
  if (good) return IDEM_OK;
  idem__auth_resource_deinit(alloc, out);
  return status == IDEM_OK ? IDEM_E_INVAL : status;
}

void idem__auth_resource_deinit(const idem_alloc *alloc, idem__auth_resource *resource) {
  idem__free(alloc, resource->resource);
  idem__free(alloc, resource->server);
  for (size_t i = 0; i < IDEM__AUTH_OTHERS; i++) idem__free(alloc, resource->others[i]);
  idem__free(alloc, resource->scopes);
  *resource = (idem__auth_resource){.resource = NULL};
}

/* ------------------------------------------------------- authorization servers */

static unsigned read_methods(yyjson_val *root) {
  static const char name[] = "token_endpoint_auth_methods_supported";
  static const char *const methods[] = {[IDEM__AUTH_NONE] = "none",
                                        [IDEM__AUTH_BASIC] = "client_secret_basic",
                                        [IDEM__AUTH_POST] = "client_secret_post",
                                        [IDEM__AUTH_PRIVATE_KEY_JWT] = "private_key_jwt"};
  unsigned found = 0;
  if (!yyjson_obj_get(root, name)) return 1u << IDEM__AUTH_BASIC; /* RFC 8414, 2 */
  for (unsigned i = 0; i < sizeof methods / sizeof *methods; i++)
    if (lists(root, name, methods[i])) found |= 1u << i;
  return found;
}

static bool endpoints_are_safe(const idem__auth_server *server) {
  const char *const all[] = {server->issuer,          server->authorization_endpoint,
                             server->token_endpoint,  server->registration_endpoint,
                             server->device_endpoint, server->revocation_endpoint};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i] && !idem__auth_url_is_safe(all[i])) return false;
  return true;
}

static idem_status read_server(const idem_alloc *alloc, yyjson_val *root, idem__auth_server *out) {
  idem_status status = IDEM_OK;
  out->issuer = take_text(alloc, root, "issuer", &status);
  out->authorization_endpoint = take_text(alloc, root, "authorization_endpoint", &status);
  out->token_endpoint = take_text(alloc, root, "token_endpoint", &status);
  out->registration_endpoint = take_text(alloc, root, "registration_endpoint", &status);
  out->device_endpoint = take_text(alloc, root, "device_authorization_endpoint", &status);
  out->revocation_endpoint = take_text(alloc, root, "revocation_endpoint", &status);
  out->scopes = take_words(alloc, root, "scopes_supported", &status);
  out->methods = read_methods(root);
  out->silent_on_methods = !yyjson_obj_get(root, "token_endpoint_auth_methods_supported");
  out->s256 = lists(root, "code_challenge_methods_supported", "S256");
  out->binds = lists(root, "dpop_signing_alg_values_supported", "ES256");
  out->names_itself =
      yyjson_get_bool(yyjson_obj_get(root, "authorization_response_iss_parameter_supported"));
  out->takes_documents =
      yyjson_get_bool(yyjson_obj_get(root, "client_id_metadata_document_supported"));
  return status;
}

idem_status idem__auth_server_read(const idem_alloc *alloc, const char *body, size_t len,
                                   idem__auth_server *out, const char **why) {
  idem_status status = IDEM_OK;
  *out = (idem__auth_server){.issuer = NULL};
  yyjson_doc *doc = read_object(alloc, body, len, &status, why);
  if (!doc) return status;
  status = read_server(alloc, yyjson_doc_get_root(doc), out);
  yyjson_doc_free(doc);
  *why = "its metadata has a member of a wrong kind";
  if (status == IDEM_OK && (!out->issuer || !out->token_endpoint)) {
    *why = "its metadata lacks the issuer or the token endpoint";
    status = IDEM_E_INVAL;
  }
  if (status == IDEM_OK && !endpoints_are_safe(out)) {
    *why = "its metadata names an endpoint that is not https";
    status = IDEM_E_INVAL;
  }
  if (status != IDEM_OK) idem__auth_server_deinit(alloc, out);
  return status;
}

idem_status idem__auth_server_default(const idem_alloc *alloc, const char *origin,
                                      idem__auth_server *out) {
  idem__auth_url url;
  idem_status status = IDEM_OK;
  *out = (idem__auth_server){.methods = 1u << IDEM__AUTH_NONE | 1u << IDEM__AUTH_BASIC |
                                        1u << IDEM__AUTH_POST,
                             .silent_on_methods = true,
                             .s256 = true};
  if (!idem__auth_url_parse(origin, &url)) return IDEM_E_INVAL;
  out->issuer = join(alloc, &url, "", 0, "", &status);
  if (status == IDEM_OK)
    out->authorization_endpoint = join(alloc, &url, "/authorize", 0, "", &status);
  if (status == IDEM_OK) out->token_endpoint = join(alloc, &url, "/token", 0, "", &status);
  if (status == IDEM_OK)
    out->registration_endpoint = join(alloc, &url, "/register", 0, "", &status);
  if (status != IDEM_OK) idem__auth_server_deinit(alloc, out);
  return status;
}

void idem__auth_server_deinit(const idem_alloc *alloc, idem__auth_server *server) {
  idem__free(alloc, server->issuer);
  idem__free(alloc, server->authorization_endpoint);
  idem__free(alloc, server->token_endpoint);
  idem__free(alloc, server->registration_endpoint);
  idem__free(alloc, server->device_endpoint);
  idem__free(alloc, server->revocation_endpoint);
  idem__free(alloc, server->scopes);
  *server = (idem__auth_server){.issuer = NULL};
}
