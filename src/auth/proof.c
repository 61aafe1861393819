/* proof.c - what a proof must say (RFC 9449, 4.3): made with the key that it brings, for this request, this token, and now. All that can
 * be said without a signature is said first, so that what is not for us costs none. */
#include "proof.h"

#include <string.h>

static idem_status refuse(const char **why, const char *sentence) {
  *why = sentence;
  return IDEM_E_INVAL;
}

/* ----------------------------------------------------------------- reading */

static bool is_proof(const idem__token *token) {
  yyjson_val *type = yyjson_obj_get(yyjson_doc_get_root(token->header), "typ");
  return yyjson_is_str(type) &&
         idem__text_equal_nocase(yyjson_get_str(type), yyjson_get_len(type), "dpop+jwt", 8);
}

/* Of two keys the same jti means two proofs. */
static void number_it(idem__proof *proof, yyjson_val *jti) {
  idem_sha256 sha;
  idem_sha256_init(&sha);
  idem_sha256_add(&sha, proof->thumbprint, sizeof proof->thumbprint);
  idem_sha256_add(&sha, yyjson_get_str(jti), yyjson_get_len(jti));
  idem_sha256_end(&sha, proof->number);
}

static idem_status take_apart(idem__proof *proof, const char **why) {
  yyjson_val *header = yyjson_doc_get_root(proof->token.header);
  yyjson_val *claims = yyjson_doc_get_root(proof->token.claims);
  yyjson_val *jti = yyjson_obj_get(claims, "jti"), *iat = yyjson_obj_get(claims, "iat");
  if (!is_proof(&proof->token)) return refuse(why, "the proof is of another kind (typ)");
  if (!idem__proof_key(yyjson_obj_get(header, "jwk"), &proof->jwk, &proof->kind, proof->thumbprint))
    return refuse(why, "the proof brings no public key that can verify anything here (jwk)");
  if (idem__algorithm_key(proof->token.algorithm) != proof->kind)
    return refuse(why, "the proof is signed in a way that does not go with its key");
  if (!yyjson_is_str(jti) || !yyjson_get_len(jti))
    return refuse(why, "the proof has no number (jti)");
  if (yyjson_get_len(jti) > IDEM__PROOF_NUMBER_MAX)
    return refuse(why, "the number of the proof is too long (jti)");
  if (!iat || !idem__claim_time(claims, "iat", 0, &proof->made_s))
    return refuse(why, "the proof does not say when it was made (iat)");
  number_it(proof, jti);
  return IDEM_OK;
}

idem_status idem__proof_read(const idem_alloc *alloc, const char *text, size_t len,
                             idem__proof *proof, const char **why) {
  *proof = (idem__proof){.nonce = IDEM__NONCE_NONE};
  idem_buf_init(&proof->jwk, alloc, IDEM__PROOF_BYTES);
  idem_status status = idem__token_read_proof(alloc, text, len, &proof->token, why);
  if (status != IDEM_OK) return status;
  status = idem_buf_reserve(&proof->jwk, 2048); /* after that only a fault of the key's is one */
  return status == IDEM_OK ? take_apart(proof, why) : status;
}

void idem__proof_deinit(idem__proof *proof) {
  idem__token_deinit(&proof->token);
  if (proof->jwk.alloc) idem_buf_deinit(&proof->jwk);
}

/* ---------------------------------------------------------------- checking */

static bool is_for_target(yyjson_val *htu, const char *target) {
  char room[IDEM__TARGET_BYTES];
  idem_buf text;
  idem_buf_fixed(&text, room, sizeof room);
  return yyjson_is_str(htu) &&
         idem__target_put(&text, yyjson_get_str(htu), yyjson_get_len(htu)) == IDEM_OK &&
         strcmp(room, target) == 0;
}

static bool is_for_token(yyjson_val *ath, const char *token, size_t len) {
  char room[64];
  uint8_t digest[IDEM_SHA256_BYTES];
  idem_sha256 sha;
  idem_buf text;
  idem_sha256_init(&sha);
  idem_sha256_add(&sha, token, len);
  idem_sha256_end(&sha, digest);
  idem_buf_fixed(&text, room, sizeof room - 1);
  if (idem_base64_encode(&text, digest, sizeof digest, IDEM_BASE64_URL) != IDEM_OK) return false;
  room[text.len] = '\0';
  return yyjson_equals_str(ath, room);
}

static bool has_nonce(const idem__proof_rules *rules, idem__proof *proof, yyjson_val *nonce,
                      uint64_t now_s) {
  if (!rules->nonce_key) return true;
  if (yyjson_is_str(nonce))
    proof->nonce =
        idem__nonce_read(rules->nonce_key, yyjson_get_str(nonce), yyjson_get_len(nonce), now_s);
  return proof->nonce != IDEM__NONCE_NONE;
}

uint64_t idem__proof_ends_s(const idem__proof_rules *rules, const idem__proof *proof) {
  return proof->made_s + IDEM__PROOF_AGE_S + rules->skew_s + 1;
}

idem_status idem__proof_check(const idem__proof_rules *rules, idem__proof *proof,
                              const idem__proof_request *request, uint64_t now_s,
                              const char **why) {
  yyjson_val *claims = yyjson_doc_get_root(proof->token.claims);
  if (rules->algorithms && !(rules->algorithms >> proof->token.algorithm & 1u))
    return refuse(why, "the proof is signed in a way that is not taken");
  if (!yyjson_equals_str(yyjson_obj_get(claims, "htm"), request->method))
    return refuse(why, "the proof is for another method (htm)");
  if (!is_for_target(yyjson_obj_get(claims, "htu"), request->target))
    return refuse(why, "the proof is for another URL (htu)");
  if (!is_for_token(yyjson_obj_get(claims, "ath"), request->token, request->token_len))
    return refuse(why, "the proof is for another token (ath)");
  if (proof->made_s > now_s + rules->skew_s)
    return refuse(why, "the proof was made in the future (iat): clocks differ");
  if (now_s >= idem__proof_ends_s(rules, proof))
    return refuse(why, "the proof is too old (iat), or clocks differ");
  if (has_nonce(rules, proof, yyjson_obj_get(claims, "nonce"), now_s)) return IDEM_OK;
  *why = "the proof needs the nonce that this answer brings";
  return IDEM_E_STATE;
}

idem_status idem__proof_verify(const idem__proof *proof, const idem__crypto *crypto) {
  void *key = NULL;
  idem__signed text = idem__token_signed(&proof->token);
  idem_status status = crypto->key_new(proof->kind, proof->jwk.data, proof->jwk.len - 1, &key);
  if (status == IDEM_OK) status = crypto->verify(key, &text);
  if (key) crypto->key_free(key);
  return status;
}
