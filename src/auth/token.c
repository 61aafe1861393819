/* token.c - a JWT taken apart (RFC 7515, RFC 7519), within bounds: what it says, not whether that is so.
 * Headers by which a token would bring its own key or say where one is (jwk, jku, x5c, x5u) have no reader here. */
#include "bearer.h"

#include <string.h>

#define HEADER_BYTES 4096u
#define DEPTH_MAX 16u

bool idem__token_is_text(const char *text, size_t len) {
  size_t end = len;
  while (end && text[end - 1] == '=') end--;
  for (size_t i = 0; i < end; i++) {
    char c = text[i];
    bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || idem__is_digit(c) || c == '-' ||
                c == '.' || c == '_' || c == '~' || c == '+' || c == '/';
    if (!fine) return false;
  }
  return end && len <= IDEM__TOKEN_BYTES;
}

bool idem__token_is_jwt(const char *text, size_t len) {
  size_t dots = 0;
  for (size_t i = 0; i < len; i++) dots += text[i] == '.';
  return dots == 2;
}

/* ------------------------------------------------------------------- parts */

static idem_status decode_part(const idem_alloc *alloc, const char *text, size_t len, size_t most,
                               idem__buf *out) {
  idem__buf_init(out, alloc, most);
  return idem__base64_decode(out, text, len, IDEM__BASE64_URL);
}

static yyjson_doc *read_object(const idem_alloc *alloc, const char *text, size_t len, size_t most,
                               idem_status *status) {
  idem__buf json;
  yyjson_alc alc = idem__json_alc(alloc);
  yyjson_doc *doc = NULL;
  *status = decode_part(alloc, text, len, most, &json);
  if (*status == IDEM_OK)
    doc = idem__json_read_text(json.len ? json.data : "", json.len, DEPTH_MAX, &alc, status);
  idem__buf_deinit(&json);
  if (!doc || yyjson_is_obj(yyjson_doc_get_root(doc))) return doc;
  yyjson_doc_free(doc);
  *status = IDEM_E_INVAL;
  return NULL;
}

/* Two members of one name are read differently by different readers: whoever looks at one wants there to be one. */
static bool says_once(yyjson_doc *doc, const char *const *names) {
  size_t index, count;
  yyjson_val *key, *val;
  unsigned seen = 0;
  idem_each_member(yyjson_doc_get_root(doc), index, count, key, val) {
    for (size_t i = 0; names[i]; i++) {
      if (!yyjson_equals_str(key, names[i])) continue;
      if (seen >> i & 1u) return false;
      seen |= 1u << i;
    }
    (void)val;
  }
  return true;
}

/* ------------------------------------------------------------------ header */

static const char *read_key_id(idem__token *token, yyjson_val *root) {
  yyjson_val *id = yyjson_obj_get(root, "kid");
  if (!id) return NULL;
  token->key_id = yyjson_get_str(id);
  token->key_id_len = yyjson_get_len(id);
  bool fine = token->key_id && token->key_id_len && token->key_id_len <= IDEM__KEY_ID_BYTES &&
              !memchr(token->key_id, 0, token->key_id_len);
  return fine ? NULL : "the token names its key in a way that no key is named";
}

/* What is wrong with it; NULL: nothing. */
static const char *read_header(idem__token *token) {
  static const char *const names[] = {"alg", "typ", "kid", "crit", "enc", NULL};
  yyjson_val *root = yyjson_doc_get_root(token->header);
  yyjson_val *algorithm = yyjson_obj_get(root, "alg");
  if (!says_once(token->header, names)) return "the header of the token says something twice";
  if (yyjson_obj_get(root, "crit")) return "the token asks for what is not understood here (crit)";
  if (yyjson_obj_get(root, "enc")) return "the token is encrypted";
  if (!yyjson_is_str(algorithm)) return "the token does not say how it is signed";
  token->algorithm = idem__algorithm_find(yyjson_get_str(algorithm), yyjson_get_len(algorithm));
  if (token->algorithm == IDEM__ALGORITHMS) return "the token is signed in a way that is not taken";
  return read_key_id(token, root);
}

/* ------------------------------------------------------------------- story */

static const char claims_fault[] =
    "the claims of the token are no JSON object, or say something twice";

static const char *read_parts(idem__token *token, const idem_alloc *alloc, idem_status *status) {
  static const char *const names[] = {"iss",   "aud", "exp", "nbf", "sub",
                                      "scope", "scp", "cnf", NULL};
  const char *text = token->text, *end = text + token->len;
  const char *first = memchr(text, '.', token->len);
  const char *second = first ? memchr(first + 1, '.', (size_t)(end - first - 1)) : NULL;
  *status = IDEM_E_INVAL;
  if (!second || memchr(second + 1, '.', (size_t)(end - second - 1))) return "the token is no JWT";
  token->signed_len = (size_t)(second - text);
  token->header = read_object(alloc, text, (size_t)(first - text), HEADER_BYTES, status);
  if (!token->header) return "the header of the token is no JSON object";
  const char *fault = read_header(token);
  *status = fault ? IDEM_E_INVAL : IDEM_OK;
  if (fault) return fault;
  token->claims =
      read_object(alloc, first + 1, (size_t)(second - first - 1), IDEM__TOKEN_BYTES, status);
  if (token->claims && !says_once(token->claims, names)) *status = IDEM_E_INVAL;
  if (*status != IDEM_OK) return claims_fault;
  *status = decode_part(alloc, second + 1, (size_t)(end - second - 1), IDEM__TOKEN_BYTES,
                        &token->signature);
  if (*status == IDEM_OK && !token->signature.len) *status = IDEM_E_INVAL;
  return "the token has no signature that could be read";
}

idem_status idem__token_read(const idem_alloc *alloc, const char *text, size_t len,
                             idem__token *token, const char **why) {
  idem_status status = IDEM_E_INVAL;
  *token = (idem__token){.text = text, .len = len, .algorithm = IDEM__ALGORITHMS};
  idem__buf_init(&token->signature, alloc, IDEM__TOKEN_BYTES);
  *why = "the token is longer than any that is taken";
  if (len <= IDEM__TOKEN_BYTES) *why = read_parts(token, alloc, &status);
  return status;
}

void idem__token_deinit(idem__token *token) {
  yyjson_doc_free(token->header);
  yyjson_doc_free(token->claims);
  if (token->signature.alloc) idem__buf_deinit(&token->signature);
  *token = (idem__token){.text = NULL};
}
