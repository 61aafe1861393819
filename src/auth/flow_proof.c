/* flow_proof.c - tokens that are bound to a key (RFC 9449, DPoP): who shows one proves with each request that the key is theirs. Asked
 * for where a server wants it; nonces of either server are put into the next proof. */
#include "flow.h"

#include <string.h>

#define NONCE_MAX 512u
#define PROOF_MAX 8192u

/* ------------------------------------------------------------------------- wanting */

/* What the resource asks for the authorization server must be able to give, by the algorithm that we have. */
bool flow_choose_proof(idem__auth_flow *flow) {
  bool asked = flow->asked_proof || flow->needs_proof;
  flow->proving = asked && flow->opts.prove && flow->server.binds;
  if (flow->proving || !flow->needs_proof) return true;
  flow_fail(flow, flow->opts.prove ? "the server wants proofs with its tokens (DPoP), and the "
                                     "authorization server does not say that it binds them by ES256"
                                   : "the server wants proofs with its tokens (DPoP), which cannot "
                                     "be made here");
  return false;
}

static void keep_nonce(idem__auth_flow *flow, flow_text which, const char *nonce) {
  if (nonce && *nonce && strlen(nonce) <= NONCE_MAX && flow_is_token(nonce))
    flow_copy(flow, which, nonce);
}

void idem__auth_server_nonce(idem__auth_flow *flow, const char *nonce) {
  bool token =
      flow->state == FLOW_TOKEN || flow->state == FLOW_REFRESH || flow->state == FLOW_DEVICE_POLL;
  if (token) keep_nonce(flow, TEXT_SERVER_NONCE, nonce);
}

bool idem__auth_resource_nonce(idem__auth_flow *flow, const char *nonce) {
  keep_nonce(flow, TEXT_RESOURCE_NONCE, nonce);
  return flow->bound && flow->bearer.len && flow->texts[TEXT_RESOURCE_NONCE];
}

/* ------------------------------------------------------------------------- proving */

static idem_status put_text(idem_buf *out, const char *name, const char *text, size_t len) {
  idem_status status = idem_buf_printf(out, ",\"%s\":", name);
  return status == IDEM_OK ? idem_text_json_string(out, text, len) : status;
}

/* Which proof this is, so that it is good once. */
static idem_status put_number(const idem__auth_flow *flow, idem_buf *out) {
  uint8_t bytes[16];
  flow->opts.random(bytes, sizeof bytes, flow->opts.user);
  idem_status status = idem_buf_puts(out, "{\"jti\":\"");
  if (status == IDEM_OK) status = idem_base64_encode(out, bytes, sizeof bytes, IDEM_BASE64_URL);
  return status == IDEM_OK ? idem_buf_puts(out, "\"") : status;
}

static idem_status put_hash(idem_buf *out, const char *token) {
  uint8_t digest[IDEM_SHA256_BYTES];
  idem_sha256 sha;
  idem_sha256_init(&sha);
  idem_sha256_add(&sha, token, strlen(token));
  idem_sha256_end(&sha, digest);
  idem_status status = idem_buf_puts(out, ",\"ath\":\"");
  if (status == IDEM_OK) status = idem_base64_encode(out, digest, sizeof digest, IDEM_BASE64_URL);
  return status == IDEM_OK ? idem_buf_puts(out, "\"") : status;
}

/* RFC 9449, 4.2. With `token` it is for the resource, and says for which token. */
static idem_status put_claims(const idem__auth_flow *flow, idem_buf *out, const char *method,
                              const char *url, const char *token) {
  const char *nonce = flow->texts[token ? TEXT_RESOURCE_NONCE : TEXT_SERVER_NONCE];
  idem_status status = put_number(flow, out);
  if (status == IDEM_OK) status = put_text(out, "htm", method, strlen(method));
  if (status == IDEM_OK) status = put_text(out, "htu", url, strcspn(url, "?#"));
  if (status == IDEM_OK)
    status = idem_buf_printf(out, ",\"iat\":%llu",
                             (unsigned long long)flow->opts.now_s(flow->opts.user));
  if (status == IDEM_OK && nonce) status = put_text(out, "nonce", nonce, strlen(nonce));
  if (status == IDEM_OK && token) status = put_hash(out, token);
  return status == IDEM_OK ? idem_buf_puts(out, "}") : status;
}

static idem_status prove(const idem__auth_flow *flow, const char *method, const char *url,
                         const char *token, idem_buf *out) {
  idem_buf claims;
  idem_buf_init(&claims, &flow->alloc, PROOF_MAX);
  idem_status status = put_claims(flow, &claims, method, url, token);
  if (status == IDEM_OK) status = flow->opts.prove(claims.data, claims.len, out, flow->opts.user);
  idem_buf_deinit(&claims);
  return status;
}

bool flow_put_proof(idem__auth_flow *flow, const char *url) {
  flow->proof.len = 0;
  idem_status status = prove(flow, "POST", url, NULL, &flow->proof);
  if (status == IDEM_OK) status = idem_buf_put(&flow->proof, "", 1);
  if (status == IDEM_OK || status == IDEM_E_NOMEM) return flow_good(flow, status);
  flow_fail(flow, "the server wants proofs with its tokens (DPoP), which cannot be made here");
  return false;
}

idem_status idem__auth_proof(const idem__auth_flow *flow, const char *method, const char *url,
                             idem_buf *out) {
  if (!flow->bound || !flow->bearer.len) return IDEM_E_STATE;
  return prove(flow, method, url, flow->texts[TEXT_ACCESS_TOKEN], out);
}

/* ------------------------------------------------------------------------- keeping */

idem_status flow_save_key(const idem__auth_flow *flow, idem_buf *out) {
  idem_buf pem;
  if (!flow->bound || !flow->opts.put_key) return IDEM_OK;
  idem_buf_init(&pem, &flow->alloc, PROOF_MAX);
  idem_status status = flow->opts.put_key(&pem, flow->opts.user);
  if (status == IDEM_OK) status = put_text(out, "proof_key", pem.data, pem.len);
  if (pem.data) flow_wipe(pem.data, pem.cap);
  idem_buf_deinit(&pem);
  return status;
}

bool flow_take_key(idem__auth_flow *flow, const char *pem) {
  if (pem &&
      (!flow->opts.take_key || flow->opts.take_key(pem, strlen(pem), flow->opts.user) != IDEM_OK))
    return false;
  flow->bound = flow->proving = pem != NULL;
  return true;
}
