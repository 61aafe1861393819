/* flow_said.c - what an authorization server says of a refusal, as far as it may be shown: in the characters that RFC 6749
 * allows, and without what it was told in confidence. Some repeat the token, the code or the secret that they refuse. */
#include "flow.h"

#include <stdio.h>
#include <string.h>

#define RUN                                                                                        \
  16u /* characters in a row of a secret are too many, even where the rest is cut off or encoded */
#define SAID_MAX 300u /* of a server's words */

/* Words that are known tell nothing, whatever the secret is. */
static bool is_known(const char *error) {
  static const char *const words[] = {
      "invalid_request",     "invalid_client",          "invalid_grant",
      "unauthorized_client", "unsupported_grant_type",  "unsupported_response_type",
      "invalid_scope",       "invalid_target",          "access_denied",
      "server_error",        "temporarily_unavailable", "authorization_pending",
      "slow_down",           "expired_token",           "use_dpop_nonce",
      "invalid_dpop_proof",  "invalid_redirect_uri",    "invalid_client_metadata"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcmp(error, words[i]) == 0) return true;
  return false;
}

static bool is_allowed(char character) {
  return character >= ' ' && character <= '~' && character != '"' && character != '\\';
}

static bool is_of(const char *run, const char *secret, size_t len) {
  for (size_t i = 0; i + RUN <= len; i++)
    if (memcmp(run, secret + i, RUN) == 0) return true;
  return false;
}

/* The secret itself, or a part of it that is long enough to be of use. */
static bool repeats(const char *text, size_t text_len, const char *secret, size_t len) {
  if (!len) return false;
  for (size_t i = 0; i + len <= text_len; i++)
    if (memcmp(text + i, secret, len) == 0) return true;
  for (size_t i = 0; i + RUN <= text_len; i++)
    if (is_of(text + i, secret, len)) return true;
  return false;
}

/* The client's own signature is made anew for each request and kept in its form alone. */
static bool repeats_assertion(const idem__auth_flow *flow, const char *text, size_t len) {
  char *assertion =
      idem__auth_form_get(&flow->alloc, flow->form.data, flow->form.len, "client_assertion");
  bool found = assertion && repeats(text, len, assertion, strlen(assertion));
  if (assertion) flow_wipe(assertion, strlen(assertion));
  idem__free(&flow->alloc, assertion);
  return found;
}

static bool repeats_secret(const idem__auth_flow *flow, const char *text, size_t len) {
  static const flow_text secrets[] = {
      TEXT_OWN_CLIENT_SECRET, TEXT_CLIENT_SECRET, TEXT_IDP_CLIENT_SECRET, TEXT_ASSERTION,
      TEXT_GRANTED_ASSERTION, TEXT_STATE,         TEXT_VERIFIER,          TEXT_CODE,
      TEXT_DEVICE_CODE,       TEXT_ACCESS_TOKEN,  TEXT_REFRESH_TOKEN};
  for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++) {
    const char *secret = flow->texts[secrets[i]];
    if (secret && repeats(text, len, secret, strlen(secret))) return true;
  }
  return repeats(text, len, flow->header.data, flow->header.len) ||
         repeats_assertion(flow, text, len);
}

static bool may_be_shown(const idem__auth_flow *flow, const char *text) {
  size_t len = strlen(text);
  return len && len <= SAID_MAX && !repeats_secret(flow, text, len);
}

const char *flow_error(const idem__auth_flow *flow, const char *error) {
  if (!error || is_known(error)) return error;
  for (const char *at = error; *at; at++)
    if (!is_allowed(*at)) return NULL;
  return may_be_shown(flow, error) ? error : NULL;
}

const char *flow_scope(const idem__auth_flow *flow, const char *scope) {
  return may_be_shown(flow, scope) ? scope : "(not shown)";
}

/* What is not allowed in a sentence is made visible: many servers quote what they were sent. */
void flow_said(const idem__auth_flow *flow, yyjson_val *root, char out[FLOW_SAID]) {
  const char *error = flow_error(flow, flow_text_of(root, "error"));
  const char *sentence = flow_text_of(root, "error_description");
  if (sentence && !may_be_shown(flow, sentence)) sentence = NULL;
  snprintf(out, FLOW_SAID, "%s%.80s%s%.300s", error ? ", " : "", error ? error : "",
           sentence ? ": " : "", sentence ? sentence : "");
  for (char *at = out; *at; at++)
    if (!is_allowed(*at)) *at = *at == '"' ? '\'' : '?';
}
