/* token.c - a JWT taken apart (RFC 7515, RFC 7519), within bounds: what it says, not whether that is so. Access tokens and proofs
 * (RFC 9449) are both JWTs. Headers by which a token would bring its own key or say where one is (jwk, jku, x5c, x5u) have no
 * reader here; that of a proof is proof_key.c's. Each part has one spelling: base64url is decoded strictly. */
#include "proof.h"

#include <string.h>

#define HEADER_BYTES 4096u
#define DEPTH_MAX 16u

/* A bit for each: + - . / and digits, then letters, _ and ~. */
static const uint64_t token_characters[2] = {0x03ffe80000000000, 0x47fffffe87fffffe};

bool idem__token_is_text(const char *text, size_t len) {
  size_t end = len;
  while (end && text[end - 1] == '=') end--;
  bool fine = end && len <= IDEM__TOKEN_BYTES;
  for (size_t i = 0; fine && i < end; i++) {
    uint8_t c = (uint8_t)text[i];
    fine = c < 128 && token_characters[c / 64] >> c % 64 & 1;
  }
  return fine;
}

bool idem__token_is_jwt(const char *text, size_t len) {
  size_t dots = 0;
  for (size_t i = 0; i < len; i++) dots += text[i] == '.';
  return dots == 2;
}

/* ------------------------------------------------------------------- parts */

static idem_status decode_part(const idem_alloc *alloc, const char *text, size_t len, size_t most,
                               idem_buf *out) {
  idem_buf_init(out, alloc, most);
  idem_status status = idem_base64_decode(out, text, len, IDEM_BASE64_URL);
  return status == IDEM_E_LIMIT ? IDEM_E_INVAL : status;
}

static yyjson_doc *read_object(const idem_alloc *alloc, const char *text, size_t len, size_t most,
                               idem_status *status) {
  idem_buf json;
  yyjson_alc alc = idem__json_alc(alloc);
  yyjson_doc *doc = NULL;
  *status = decode_part(alloc, text, len, most, &json);
  if (*status == IDEM_OK)
    doc = idem__json_read_text(json.len ? json.data : "", json.len, DEPTH_MAX, &alc, status);
  idem_buf_deinit(&json);
  if (!doc || yyjson_is_obj(yyjson_doc_get_root(doc))) return doc;
  yyjson_doc_free(doc);
  *status = IDEM_E_INVAL;
  return NULL;
}

/* Two members of one name are read differently by different readers: whoever looks at one wants there to be one. */
bool idem__token_says_once(yyjson_val *object, const char *const *names) {
  size_t index, count;
  yyjson_val *key, *val;
  unsigned seen = 0;
  idem_each_member(object, index, count, key, val) {
    for (size_t i = 0; names[i]; i++) {
      if (!yyjson_equals_str(key, names[i])) continue;
      if (seen >> i & 1u) return false;
      seen |= 1u << i;
    }
    (void)val;
  }
  return true;
}

/* ------------------------------------------------------------------- kinds */

/* What is wrong with one, as a sentence. */
typedef struct token_kind {
  size_t most;                                          /* bytes of it */
  const char *const *header_names, *const *claim_names; /* each once, or it is refused */
  const char *too_long, *no_jwt, *header, *twice, *critical, *encrypted, *unsigned_, *algorithm;
  const char *claims, *signature;
} token_kind;

/* The same of both, whatever it is called. */
#define SENTENCES(what)                                                                            \
  .too_long = "the " what " is longer than any that is taken", .no_jwt = "the " what " is no JWT", \
  .header = "the header of the " what " is no JSON object",                                        \
  .twice = "the header of the " what " says something twice",                                      \
  .critical = "the " what " asks for what is not understood here (crit)",                          \
  .encrypted = "the " what " is encrypted",                                                        \
  .unsigned_ = "the " what " does not say how it is signed",                                       \
  .algorithm = "the " what " is signed in a way that is not taken",                                \
  .claims = "the claims of the " what " are no JSON object, or say something twice",               \
  .signature = "the " what " has no signature that could be read"

static const char *const token_header[] = {"alg", "typ", "kid", "crit", "enc", NULL};
static const char *const token_claims[] = {"iss",   "aud", "exp", "nbf", "sub",
                                           "scope", "scp", "cnf", NULL};
static const token_kind access_token = {.most = IDEM__TOKEN_BYTES,
                                        .header_names = token_header,
                                        .claim_names = token_claims,
                                        SENTENCES("token")};

static const char *const proof_header[] = {"alg", "typ", "jwk", "crit", "enc", NULL};
static const char *const proof_claims[] = {"jti", "htm", "htu", "iat", "ath", "nonce", NULL};
static const token_kind proof = {.most = IDEM__PROOF_BYTES,
                                 .header_names = proof_header,
                                 .claim_names = proof_claims,
                                 SENTENCES("proof")};

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
static const char *read_header(const token_kind *kind, idem__token *token) {
  yyjson_val *root = yyjson_doc_get_root(token->header);
  yyjson_val *algorithm = yyjson_obj_get(root, "alg");
  if (!idem__token_says_once(root, kind->header_names)) return kind->twice;
  if (yyjson_obj_get(root, "crit")) return kind->critical;
  if (yyjson_obj_get(root, "enc")) return kind->encrypted;
  if (!yyjson_is_str(algorithm)) return kind->unsigned_;
  token->algorithm = idem__algorithm_find(yyjson_get_str(algorithm), yyjson_get_len(algorithm));
  if (token->algorithm == IDEM__ALGORITHMS) return kind->algorithm;
  return kind == &access_token ? read_key_id(token, root) : NULL; /* a proof brings its key */
}

/* ------------------------------------------------------------------- story */

static const char *read_parts(const token_kind *kind, idem__token *token, const idem_alloc *alloc,
                              idem_status *status) {
  const char *text = token->text, *end = text + token->len;
  const char *first = memchr(text, '.', token->len);
  const char *second = first ? memchr(first + 1, '.', (size_t)(end - first - 1)) : NULL;
  *status = IDEM_E_INVAL;
  if (!second || memchr(second + 1, '.', (size_t)(end - second - 1))) return kind->no_jwt;
  token->signed_len = (size_t)(second - text);
  token->header = read_object(alloc, text, (size_t)(first - text), HEADER_BYTES, status);
  if (!token->header) return kind->header;
  const char *fault = read_header(kind, token);
  *status = fault ? IDEM_E_INVAL : IDEM_OK;
  if (fault) return fault;
  token->claims = read_object(alloc, first + 1, (size_t)(second - first - 1), kind->most, status);
  if (token->claims &&
      !idem__token_says_once(yyjson_doc_get_root(token->claims), kind->claim_names))
    *status = IDEM_E_INVAL;
  if (*status != IDEM_OK) return kind->claims;
  *status =
      decode_part(alloc, second + 1, (size_t)(end - second - 1), kind->most, &token->signature);
  if (*status == IDEM_OK && !token->signature.len) *status = IDEM_E_INVAL;
  return kind->signature;
}

static idem_status read_token(const token_kind *kind, const idem_alloc *alloc, const char *text,
                              size_t len, idem__token *token, const char **why) {
  idem_status status = IDEM_E_INVAL;
  *token = (idem__token){.text = text, .len = len, .algorithm = IDEM__ALGORITHMS};
  idem_buf_init(&token->signature, alloc, kind->most);
  *why = kind->too_long;
  if (len <= kind->most) *why = read_parts(kind, token, alloc, &status);
  return status;
}

idem_status idem__token_read(const idem_alloc *alloc, const char *text, size_t len,
                             idem__token *token, const char **why) {
  return read_token(&access_token, alloc, text, len, token, why);
}

idem_status idem__token_read_proof(const idem_alloc *alloc, const char *text, size_t len,
                                   idem__token *token, const char **why) {
  return read_token(&proof, alloc, text, len, token, why);
}

void idem__token_deinit(idem__token *token) {
  yyjson_doc_free(token->header);
  yyjson_doc_free(token->claims);
  if (token->signature.alloc) idem_buf_deinit(&token->signature);
  *token = (idem__token){.text = NULL};
}
