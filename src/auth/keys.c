/* keys.c - the public keys that an issuer publishes (RFC 7517), within bounds. Of each only what its kind is made of is kept
 * and handed on, so that neither a secret nor a word of its own about how to use it reaches the library for signatures. */
#include "bearer.h"

#include <string.h>

#define DEPTH_MAX 16u
#define RSA_BYTES_MIN 256u
#define RSA_BYTES_MAX 1024u
#define EXPONENT_BYTES_MAX 8u

/* ------------------------------------------------------------- algorithms */

typedef struct algorithm_row {
  const char *name;
  idem__key_kind kind;
} algorithm_row;

static const algorithm_row algorithms[IDEM__ALGORITHMS] = {
    [IDEM__ES256] = {"ES256", IDEM__KEY_P256},    [IDEM__ES384] = {"ES384", IDEM__KEY_P384},
    [IDEM__RS256] = {"RS256", IDEM__KEY_RSA},     [IDEM__RS384] = {"RS384", IDEM__KEY_RSA},
    [IDEM__RS512] = {"RS512", IDEM__KEY_RSA},     [IDEM__PS256] = {"PS256", IDEM__KEY_RSA},
    [IDEM__PS384] = {"PS384", IDEM__KEY_RSA},     [IDEM__PS512] = {"PS512", IDEM__KEY_RSA},
    [IDEM__EDDSA] = {"EdDSA", IDEM__KEY_ED25519}, [IDEM__ES512] = {"ES512", IDEM__KEY_P521},
};

idem__key_kind idem__algorithm_key(idem__algorithm algorithm) { return algorithms[algorithm].kind; }

const char *idem__algorithm_name(idem__algorithm algorithm) { return algorithms[algorithm].name; }

idem__signed idem__token_signed(const idem__token *token) {
  return (idem__signed){.text = token->text,
                        .len = token->len,
                        .signed_len = token->signed_len,
                        .signature = token->signature.data,
                        .signature_len = token->signature.len,
                        .algorithm = token->algorithm,
                        .algorithm_name = algorithms[token->algorithm].name};
}

idem__algorithm idem__algorithm_find(const char *name, size_t len) {
  size_t i = 0;
  while (i < IDEM__ALGORITHMS &&
         (strlen(algorithms[i].name) != len || memcmp(algorithms[i].name, name, len) != 0))
    i++;
  return (idem__algorithm)i;
}

/* ------------------------------------------------------------------- keys */

idem__key *idem__key_ref(idem__key *key) {
  if (key) atomic_fetch_add_explicit(&key->refs, 1, memory_order_relaxed);
  return key;
}

void idem__key_unref(idem__key *key) {
  if (!key || atomic_fetch_sub_explicit(&key->refs, 1, memory_order_acq_rel) != 1) return;
  idem_alloc alloc = key->alloc;
  if (key->handle) key->crypto->key_free(key->handle);
  idem__free(&alloc, key->id);
  idem__free(&alloc, key->jwk);
  idem__free(&alloc, key);
}

static bool suits(const idem__key *key, idem__algorithm algorithm) {
  return key->kind == idem__algorithm_key(algorithm) &&
         (key->only == IDEM__ALGORITHMS || key->only == algorithm);
}

/* A number or point, base64url: appended as a member if its bytes are so many. */
static bool put_bytes(idem_buf *out, yyjson_val *jwk, const char *name, size_t least, size_t most) {
  char room[RSA_BYTES_MAX + 1];
  idem_buf bytes;
  yyjson_val *value = yyjson_obj_get(jwk, name);
  const char *text = yyjson_get_str(value);
  idem_buf_fixed(&bytes, room, most);
  if (!text) return false;
  if (idem_base64_decode(&bytes, text, yyjson_get_len(value), IDEM_BASE64_URL) != IDEM_OK)
    return false;
  size_t zeros = 0; /* some write one before a number, which makes it no larger */
  while (most > least && zeros < bytes.len && room[zeros] == 0) zeros++;
  if (bytes.len - zeros < least) return false;
  return idem_buf_printf(out, ",\"%s\":\"%s\"", name, text) == IDEM_OK;
}

static bool put_rsa(idem_buf *out, yyjson_val *jwk, idem__key_kind *kind) {
  *kind = IDEM__KEY_RSA;
  return idem_buf_puts(out, "{\"kty\":\"RSA\"") == IDEM_OK &&
         put_bytes(out, jwk, "n", RSA_BYTES_MIN, RSA_BYTES_MAX) &&
         put_bytes(out, jwk, "e", 1, EXPONENT_BYTES_MAX);
}

static bool put_curve(idem_buf *out, yyjson_val *jwk, const char *type, const char *curve) {
  return idem_buf_printf(out, "{\"kty\":\"%s\",\"crv\":\"%s\"", type, curve) == IDEM_OK &&
         yyjson_equals_str(yyjson_obj_get(jwk, "crv"), curve);
}

/* RFC 7518, 6.2.1.2: a coordinate has the length of its curve, zeros included. */
static bool put_ec(idem_buf *out, yyjson_val *jwk, idem__key_kind *kind) {
  static const struct {
    const char *name;
    size_t bytes;
    idem__key_kind kind;
  } curves[] = {
      {"P-256", 32, IDEM__KEY_P256}, {"P-384", 48, IDEM__KEY_P384}, {"P-521", 66, IDEM__KEY_P521}};
  for (size_t i = 0; i < sizeof curves / sizeof *curves; i++) {
    size_t size = curves[i].bytes;
    if (!yyjson_equals_str(yyjson_obj_get(jwk, "crv"), curves[i].name)) continue;
    *kind = curves[i].kind;
    return put_curve(out, jwk, "EC", curves[i].name) && put_bytes(out, jwk, "x", size, size) &&
           put_bytes(out, jwk, "y", size, size);
  }
  return false;
}

static bool put_okp(idem_buf *out, yyjson_val *jwk, idem__key_kind *kind) {
  *kind = IDEM__KEY_ED25519;
  return put_curve(out, jwk, "OKP", "Ed25519") && put_bytes(out, jwk, "x", 32, 32);
}

bool idem__jwk_put(idem_buf *out, yyjson_val *jwk, idem__key_kind *kind) {
  yyjson_val *type = yyjson_obj_get(jwk, "kty");
  bool made = yyjson_equals_str(type, "RSA")   ? put_rsa(out, jwk, kind)
              : yyjson_equals_str(type, "EC")  ? put_ec(out, jwk, kind)
              : yyjson_equals_str(type, "OKP") ? put_okp(out, jwk, kind)
                                               : false;
  return made && idem_buf_put(out, "}", 2) == IDEM_OK;
}

/* It is for signatures, as far as it says. */
static bool is_for_signatures(yyjson_val *jwk) {
  yyjson_val *use = yyjson_obj_get(jwk, "use"), *operations = yyjson_obj_get(jwk, "key_ops");
  if (use && !yyjson_equals_str(use, "sig")) return false;
  if (!operations) return true;
  yyjson_arr_iter all = yyjson_arr_iter_with(operations);
  for (yyjson_val *one; (one = yyjson_arr_iter_next(&all));)
    if (yyjson_equals_str(one, "verify")) return true;
  return false;
}

bool idem__jwk_is_private(yyjson_val *jwk) {
  static const char *const names[] = {"d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (yyjson_obj_get(jwk, names[i])) return true;
  return false;
}

/* ------------------------------------------------------------------- sets */

typedef struct set_reader {
  const idem_alloc *alloc;
  const idem__crypto *crypto;
  const idem__key_set *old;
  idem__key_set *set;
} set_reader;

static bool same_id(const idem__key *key, const char *id, size_t len) {
  if (!key->id || !id) return !key->id && !id;
  return strlen(key->id) == len && memcmp(key->id, id, len) == 0;
}

static idem__key *find_same(const set_reader *self, const char *id, size_t id_len,
                            idem__algorithm only, const char *jwk) {
  for (size_t i = 0; i < self->old->count; i++) {
    idem__key *key = self->old->keys[i];
    if (key->only == only && same_id(key, id, id_len) && strcmp(key->jwk, jwk) == 0) return key;
  }
  return NULL;
}

static idem_status make_key(const set_reader *self, idem__key_kind kind, idem__algorithm only,
                            const char *id, size_t id_len, const idem_buf *jwk, idem__key **out) {
  idem__key *key = *out = idem__calloc(self->alloc, sizeof *key);
  if (!key) return IDEM_E_NOMEM;
  atomic_init(&key->refs, 1);
  key->alloc = *self->alloc;
  key->crypto = self->crypto;
  key->kind = kind;
  key->only = only;
  key->jwk = idem__strndup(self->alloc, jwk->data, jwk->len - 1);
  key->id = id ? idem__strndup(self->alloc, id, id_len) : NULL;
  if (!key->jwk || (id && !key->id)) return IDEM_E_NOMEM;
  return self->crypto->key_new(kind, key->jwk, jwk->len - 1, &key->handle);
}

/* Keys that nothing can be done with are passed over: INVAL. */
static idem_status add_key(const set_reader *self, yyjson_val *entry) {
  char room[2048];
  idem_buf jwk;
  idem__key_kind kind;
  idem_buf_fixed(&jwk, room, sizeof room);
  yyjson_val *named = yyjson_obj_get(entry, "alg"), *kid = yyjson_obj_get(entry, "kid");
  const char *id = yyjson_get_str(kid);
  size_t id_len = yyjson_get_len(kid);
  idem__algorithm only =
      named ? idem__algorithm_find(yyjson_get_str(named) ? yyjson_get_str(named) : "",
                                   yyjson_get_len(named))
            : IDEM__ALGORITHMS;
  if (!is_for_signatures(entry) || idem__jwk_is_private(entry)) return IDEM_E_INVAL;
  if (!idem__jwk_put(&jwk, entry, &kind)) return IDEM_E_INVAL;
  if (named && (only == IDEM__ALGORITHMS || idem__algorithm_key(only) != kind)) return IDEM_E_INVAL;
  if (kid && (!id || !id_len || id_len > IDEM__KEY_ID_BYTES || memchr(id, 0, id_len)))
    return IDEM_E_INVAL;
  idem__key *key = idem__key_ref(find_same(self, id, id_len, only, jwk.data));
  idem_status status = key ? IDEM_OK : make_key(self, kind, only, id, id_len, &jwk, &key);
  if (status == IDEM_OK)
    self->set->keys[self->set->count++] = key;
  else
    idem__key_unref(key);
  return status;
}

static idem_status add_keys(const set_reader *self, yyjson_val *keys) {
  yyjson_arr_iter all = yyjson_arr_iter_with(keys);
  idem_status status = IDEM_OK;
  for (yyjson_val *one;
       status != IDEM_E_NOMEM && !self->set->cut && (one = yyjson_arr_iter_next(&all));) {
    self->set->cut = self->set->count == IDEM__KEYS_MAX;
    if (!self->set->cut) status = add_key(self, one);
  }
  return status == IDEM_E_NOMEM ? status : IDEM_OK;
}

void idem__key_set_deinit(idem__key_set *set) {
  for (size_t i = 0; i < set->count; i++) idem__key_unref(set->keys[i]);
  set->count = 0;
}

/* Why none of them can verify anything: what is known to be a mistake of who gave them is said first. */
static const char *fault_of(yyjson_val *keys) {
  yyjson_arr_iter all = yyjson_arr_iter_with(keys);
  const char *fault = "there is no key among its keys that could verify anything";
  for (yyjson_val *one; (one = yyjson_arr_iter_next(&all));) {
    if (yyjson_equals_str(yyjson_obj_get(one, "kty"), "oct"))
      return "its keys are secrets that are shared (oct), by which nothing is verified";
    if (idem__jwk_is_private(one))
      return "its keys are private ones: whoever verifies has their public parts alone";
    if (!is_for_signatures(one)) fault = "its keys are for something else than signatures (use)";
  }
  return fault;
}

bool idem__key_set_serves(const idem__key_set *set, unsigned taken) {
  for (size_t i = 0; i < set->count; i++) {
    const idem__key *key = set->keys[i];
    for (unsigned each = 0; each < IDEM__ALGORITHMS; each++)
      if ((taken >> each & 1u) && suits(key, (idem__algorithm)each)) return true;
  }
  return !taken;
}

static bool holds(const idem__key_set *set, const idem__key *key) {
  for (size_t i = 0; i < set->count; i++)
    if (set->keys[i] == key) return true;
  return false;
}

/* What the issuer has taken back does not hold any more, whoever has seen it. */
static void replace(idem__key_set *set, const idem__key_set *next) {
  for (size_t i = 0; i < set->count; i++)
    if (!holds(next, set->keys[i]))
      atomic_store_explicit(&set->keys[i]->retired, true, memory_order_relaxed);
  idem__key_set_deinit(set);
  *set = *next;
}

idem_status idem__key_set_read(idem__key_set *set, const idem_alloc *alloc,
                               const idem__crypto *crypto, const char *body, size_t len,
                               const char **why) {
  idem__key_set next = {.count = 0};
  set_reader reader = {.alloc = alloc, .crypto = crypto, .old = set, .set = &next};
  yyjson_alc alc = idem__json_alc(alloc);
  idem_status status = IDEM_E_INVAL;
  *why = "its keys are more than are looked at";
  if (len > IDEM__JWKS_BYTES) return status;
  *why = "its keys are no JSON object with a list of keys";
  yyjson_doc *doc = idem__json_read_text(body, len, DEPTH_MAX, &alc, &status);
  if (!doc) return status;
  yyjson_val *keys = yyjson_obj_get(yyjson_doc_get_root(doc), "keys");
  status = yyjson_is_arr(keys) ? add_keys(&reader, keys) : IDEM_E_INVAL;
  if (status == IDEM_OK && !next.count) {
    *why = fault_of(keys);
    status = IDEM_E_INVAL;
  }
  yyjson_doc_free(doc);
  if (status == IDEM_OK)
    replace(set, &next);
  else
    idem__key_set_deinit(&next);
  return status;
}

idem__key *idem__key_set_find(const idem__key_set *set, const idem__token *token) {
  idem__key *found = NULL;
  for (size_t i = 0; i < set->count; i++) {
    idem__key *key = set->keys[i];
    if (!suits(key, token->algorithm)) continue;
    if (token->key_id && key->id && same_id(key, token->key_id, token->key_id_len)) return key;
    if (token->key_id) continue;
    if (found) return NULL; /* which one is meant? */
    found = key;
  }
  return found;
}
