/* auth_proof.c - the key that tokens are bound to (RFC 9449): made when a server first wants proofs, kept with the tokens.
 * See docs/internals/auth.md. */
#include "auth.h"

#include <string.h>

void idem__auth_forget_key(idem_auth *auth) {
  if (auth->jose) auth->jose->key_free(auth->proof_key);
  if (auth->proof_pem) idem__auth_wipe(auth->proof_pem, strlen(auth->proof_pem));
  idem__free(&auth->alloc, auth->proof_pem);
  auth->proof_key = NULL;
  auth->proof_pem = NULL;
}

idem_status idem__auth_take_key(const char *pem, size_t len, void *user) {
  idem_auth *auth = user;
  idem__jose_key *key;
  const idem__jose_module *jose = idem__auth_jose(auth);
  if (!jose) return IDEM_E_SYS;
  if (auth->proof_pem && strlen(auth->proof_pem) == len && memcmp(auth->proof_pem, pem, len) == 0)
    return IDEM_OK;
  char *copy = idem__strndup(&auth->alloc, pem, len);
  if (!copy) return IDEM_E_NOMEM;
  idem_status status = jose->key_new(pem, len, &key);
  if (status != IDEM_OK) {
    idem__auth_wipe(copy, len);
    idem__free(&auth->alloc, copy);
    return status;
  }
  idem__auth_forget_key(auth);
  auth->proof_key = key;
  auth->proof_pem = copy;
  return IDEM_OK;
}

static idem_status make_key(idem_auth *auth) {
  char *pem;
  const idem__jose_module *jose = idem__auth_jose(auth);
  if (!jose) return IDEM_E_SYS;
  idem_status status = jose->generate(&pem);
  if (status == IDEM_OK) status = idem__auth_take_key(pem, strlen(pem), auth);
  jose->free_text(pem);
  return status;
}

idem_status idem__auth_prove(const char *claims, size_t len, idem_buf *out, void *user) {
  idem_auth *auth = user;
  char *proof = NULL;
  idem_status status = auth->proof_key ? IDEM_OK : make_key(auth);
  if (status == IDEM_OK) status = auth->jose->prove(auth->proof_key, claims, len, &proof);
  if (status == IDEM_OK) status = idem_buf_put(out, proof, strlen(proof));
  if (proof) auth->jose->free_text(proof);
  return status;
}

idem_status idem__auth_put_key(idem_buf *out, void *user) {
  const idem_auth *auth = user;
  return auth->proof_pem ? idem_buf_put(out, auth->proof_pem, strlen(auth->proof_pem))
                         : IDEM_E_STATE;
}

void idem_auth_sending(idem_auth *auth, idem_mcp_sending *sending) {
  idem_buf line;
  if (auth->closing) return;
  idem_buf_init(&line, &auth->alloc, 16384);
  idem_status status = idem_buf_puts(&line, "DPoP: ");
  if (status == IDEM_OK)
    status = idem__auth_proof(auth->flow, idem_mcp_sending_method(sending),
                              idem_mcp_sending_url(sending), &line);
  if (status == IDEM_OK) status = idem_buf_put(&line, "", 1);
  if (status == IDEM_OK) status = idem_mcp_sending_add(sending, line.data);
  if (status != IDEM_OK && status != IDEM_E_STATE)
    idem_logf(auth->opts.log, IDEM_LOG_ERROR, "a proof could not be made", "%s: %s", auth->url,
              idem_status_text(status));
  idem_buf_deinit(&line);
}

void idem_auth_answered(idem_auth *auth, const idem_mcp_answered *answered) {
  if (!auth->closing)
    (void)idem__auth_resource_nonce(auth->flow,
                                    idem_mcp_answered_header(answered, "DPoP-Nonce", 0));
}
