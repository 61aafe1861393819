/* proof_key.c - the key of a proof (RFC 9449, 4.3), which it brings itself: public, of a kind that verifies something here, known by
 * its thumbprint (RFC 7638). And the thumbprint that a token names (`cnf`, RFC 7800). */
#include "proof.h"

#include <string.h>

/* ------------------------------------------------------------- thumbprints */

static bool put_member(idem_buf *out, const char *before, yyjson_val *jwk, const char *name) {
  return idem_buf_printf(out, "%s\"%s\":\"%s\"", before, name,
                         yyjson_get_str(yyjson_obj_get(jwk, name))) == IDEM_OK;
}

/* What a key is made of and nothing else, by name; each value is base64url or a name that was looked at. */
static bool put_canonical(idem_buf *out, yyjson_val *jwk, idem__key_kind kind) {
  static const char *const rsa[] = {"e", "kty", "n", NULL},
                           *const ec[] = {"crv", "kty", "x", "y", NULL},
                           *const okp[] = {"crv", "kty", "x", NULL};
  const char *const *names = kind == IDEM__KEY_RSA ? rsa : kind == IDEM__KEY_ED25519 ? okp : ec;
  bool fits = true;
  for (size_t i = 0; fits && names[i]; i++) fits = put_member(out, i ? "," : "{", jwk, names[i]);
  return fits && idem_buf_puts(out, "}") == IDEM_OK;
}

static bool take_thumbprint(yyjson_val *jwk, idem__key_kind kind,
                            uint8_t thumbprint[IDEM__THUMBPRINT_BYTES]) {
  char room[2048];
  idem_buf text;
  idem_sha256 sha;
  idem_buf_fixed(&text, room, sizeof room);
  if (!put_canonical(&text, jwk, kind)) return false;
  idem_sha256_init(&sha);
  idem_sha256_add(&sha, text.data, text.len);
  idem_sha256_end(&sha, thumbprint);
  return true;
}

/* -------------------------------------------------------------------- keys */

bool idem__proof_key(yyjson_val *jwk, idem_buf *out, idem__key_kind *kind,
                     uint8_t thumbprint[IDEM__THUMBPRINT_BYTES]) {
  static const char *const names[] = {"kty", "crv", "x", "y", "n", "e", NULL};
  return yyjson_is_obj(jwk) && !idem__jwk_is_private(jwk) && idem__token_says_once(jwk, names) &&
         idem__jwk_put(out, jwk, kind) && take_thumbprint(jwk, *kind, thumbprint);
}

/* ------------------------------------------------------------ confirmations */

static const char unclear[] =
    "the token is bound to a key in a way that is not understood here (cnf)";

bool idem__confirmation_read(yyjson_val *claims, bool *bound,
                             uint8_t thumbprint[IDEM__THUMBPRINT_BYTES], const char **why) {
  static const char *const once[] = {"cnf", NULL};
  char room[IDEM__THUMBPRINT_BYTES + 1];
  idem_buf bytes;
  yyjson_val *said = yyjson_obj_get(claims, "cnf"), *jkt = yyjson_obj_get(said, "jkt");
  idem_buf_fixed(&bytes, room, sizeof room);
  *bound = said != NULL;
  *why = unclear;
  if (!said) return true;
  /* Whatever stands beside it would have to hold as well. */
  if (!idem__token_says_once(claims, once) || yyjson_obj_size(said) != 1 || !yyjson_is_str(jkt))
    return false;
  if (idem_base64_decode(&bytes, yyjson_get_str(jkt), yyjson_get_len(jkt), IDEM_BASE64_URL) !=
          IDEM_OK ||
      bytes.len != IDEM__THUMBPRINT_BYTES)
    return false;
  memcpy(thumbprint, room, IDEM__THUMBPRINT_BYTES);
  return true;
}
