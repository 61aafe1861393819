/* flow_grant.c - from a known client to a token: the ways of RFC 6749, 7636, 8628, 7523 and 8693, and refreshing. The
 * answer of a browser is checked for state and issuer before its code goes anywhere. */
#include "flow.h"

#include <string.h>

#define GRANT_PREFIX "urn:ietf:params:oauth:grant-type:"

static bool add(idem__auth_flow *flow, idem_buf *form, const char *name, const char *value) {
  return flow_good(flow, idem__auth_form_add(form, name, value));
}

/* Who is asked for more and cannot find out what would have a person allow the same again. */
static bool adds_something(idem__auth_flow *flow, const char *wanted) {
  bool same = flow->stepping && idem__auth_scope_has(flow->texts[TEXT_SCOPE], wanted);
  if (same) flow_fail(flow, "the server asks for more scopes, and does not say which");
  return !same;
}

/* The challenge's word comes first, then all that the resource knows; what was asked for before, and what the user
 * wants, is added. */
static bool choose_scope(idem__auth_flow *flow) {
  const char *asked = flow->texts[TEXT_CHALLENGED_SCOPE];
  if (!asked) asked = flow->resource_scopes;
  idem_status status;
  char *with_own =
      idem__auth_scope_union(&flow->alloc, asked, flow->texts[TEXT_OWN_SCOPE], &status);
  char *all = NULL;
  if (status == IDEM_OK)
    all = idem__auth_scope_union(&flow->alloc, flow->texts[TEXT_SCOPE], with_own, &status);
  bool person = flow->opts.grant == IDEM__AUTH_CODE || flow->opts.grant == IDEM__AUTH_DEVICE;
  bool offline =
      flow->opts.refresh && person && idem__auth_scope_has(flow->server.scopes, "offline_access");
  char *wanted =
      status == IDEM_OK
          ? idem__auth_scope_union(&flow->alloc, all, offline ? "offline_access" : NULL, &status)
          : NULL;
  bool good = flow_good(flow, status) && adds_something(flow, wanted) &&
              flow_copy(flow, TEXT_SCOPE, wanted);
  idem__free(&flow->alloc, with_own);
  idem__free(&flow->alloc, all);
  idem__free(&flow->alloc, wanted);
  return good;
}

/* ------------------------------------------------------------------- the code */

static bool put_challenge(idem__auth_flow *flow, char *out, size_t size) {
  uint8_t digest[IDEM_SHA256_BYTES];
  idem_sha256 sha;
  idem_buf text;
  idem_buf_fixed(&text, out, size - 1);
  idem_sha256_init(&sha);
  idem_sha256_add(&sha, flow->texts[TEXT_VERIFIER], strlen(flow->texts[TEXT_VERIFIER]));
  idem_sha256_end(&sha, digest);
  if (!flow_good(flow, idem_base64_encode(&text, digest, sizeof digest, IDEM_BASE64_URL)))
    return false;
  out[text.len] = 0;
  return true;
}

/* Without being told to ask, servers pass over a wish for offline access (OpenID Connect Core, 11). */
static const char *prompt(const idem__auth_flow *flow) {
  return idem__auth_scope_has(flow->texts[TEXT_SCOPE], "offline_access") ? "consent" : NULL;
}

static bool add_authorization_request(idem__auth_flow *flow, const char *challenge) {
  idem_buf *form = &flow->form;
  form->len = 0;
  return add(flow, form, "response_type", "code") &&
         add(flow, form, "client_id", flow->texts[TEXT_CLIENT_ID]) &&
         add(flow, form, "redirect_uri", flow->texts[TEXT_REDIRECT_URI]) &&
         add(flow, form, "code_challenge", challenge) &&
         add(flow, form, "code_challenge_method", "S256") &&
         add(flow, form, "state", flow->texts[TEXT_STATE]) &&
         add(flow, form, "scope", flow->texts[TEXT_SCOPE]) &&
         add(flow, form, "prompt", prompt(flow)) &&
         add(flow, form, "resource", flow->texts[TEXT_RESOURCE]);
}

static void browse(idem__auth_flow *flow) {
  char challenge[64];
  const char *endpoint = flow->server.authorization_endpoint;
  if (!endpoint) {
    flow_fail(flow, "the authorization server has no authorization endpoint");
    return;
  }
  if (!flow_random_text(flow, TEXT_STATE) || !flow_random_text(flow, TEXT_VERIFIER) ||
      !put_challenge(flow, challenge, sizeof challenge) ||
      !add_authorization_request(flow, challenge))
    return;
  flow->url.len = 0;
  idem_status status = idem_buf_put(&flow->url, endpoint, strlen(endpoint));
  if (status == IDEM_OK) status = idem_buf_put(&flow->url, strchr(endpoint, '?') ? "&" : "?", 1);
  if (status == IDEM_OK) status = idem_buf_put(&flow->url, flow->form.data, flow->form.len);
  if (status == IDEM_OK) status = idem_buf_put(&flow->url, "", 1);
  if (!flow_good(flow, status)) return;
  flow->state = FLOW_BROWSE;
  flow->step = (idem__auth_step){.want = IDEM__AUTH_BROWSE, .url = flow->url.data};
}

/* RFC 9207: what another server answered must not go to this one. Compared as it is, nothing is made alike. */
static bool issuer_fits(const idem__auth_flow *flow, const char *iss) {
  if (!iss) return !flow->server.names_itself;
  return strcmp(iss, flow->server.issuer) == 0;
}

static void ask_for_token(idem__auth_flow *flow) {
  idem_buf *form = &flow->form;
  flow->redo = ask_for_token;
  form->len = 0;
  if (add(flow, form, "grant_type", "authorization_code") &&
      add(flow, form, "code", flow->texts[TEXT_CODE]) &&
      add(flow, form, "redirect_uri", flow->texts[TEXT_REDIRECT_URI]) &&
      add(flow, form, "code_verifier", flow->texts[TEXT_VERIFIER]) &&
      add(flow, form, "resource", flow->texts[TEXT_RESOURCE]) && flow_add_client(flow))
    flow_post(flow, FLOW_TOKEN, flow->server.token_endpoint);
}

typedef struct redirect {
  char *state, *iss, *error, *code;
} redirect;

/* A code may stand beside the error, and in it. */
static void redirect_refused(idem__auth_flow *flow, const redirect *got) {
  if (!flow_copy(flow, TEXT_CODE, got->code)) return;
  const char *error = flow_error(flow, got->error);
  flow_fail(flow, "the authorization server said: %.100s", error ? error : "no");
}

/* Mix-up (RFC 9207). Who sent the browser may put the code into any of it. */
static void redirect_misled(idem__auth_flow *flow, const redirect *got) {
  if (!flow_copy(flow, TEXT_CODE, got->code)) return;
  const char *from = got->iss ? flow_error(flow, got->iss) : "one that does not say which it is";
  flow_fail(flow,
            "the browser came back from another authorization server: from %.200s, not %.200s",
            from ? from : "(not shown)", flow->server.issuer);
}

static void judge_redirect(idem__auth_flow *flow, const redirect *got) {
  const char *expected = flow->texts[TEXT_STATE];
  size_t len = strlen(expected);
  if (!got->state || strlen(got->state) != len || !idem__equal_secret(got->state, expected, len))
    flow_fail(flow, "the browser came back with another state: this answer is not to our question");
  else if (!issuer_fits(flow, got->iss))
    redirect_misled(flow, got);
  else if (got->error)
    redirect_refused(flow, got);
  else if (!got->code)
    flow_fail(flow, "the browser came back without a code");
  else if (flow_copy(flow, TEXT_CODE, got->code))
    ask_for_token(flow);
}

void flow_code_came(idem__auth_flow *flow, const char *query, size_t len) {
  const idem_alloc *alloc = &flow->alloc;
  redirect got = {.state = idem__auth_form_get(alloc, query, len, "state"),
                  .iss = idem__auth_form_get(alloc, query, len, "iss"),
                  .error = idem__auth_form_get(alloc, query, len, "error"),
                  .code = idem__auth_form_get(alloc, query, len, "code")};
  judge_redirect(flow, &got);
  char *all[] = {got.state, got.iss, got.error, got.code};
  for (size_t i = 0; i < 4; i++) idem__free(alloc, all[i]);
}

/* ----------------------------------------------------------------- the others */

static void ask_as_ourselves(idem__auth_flow *flow) {
  idem_buf *form = &flow->form;
  flow->redo = ask_as_ourselves;
  form->len = 0;
  if (add(flow, form, "grant_type", "client_credentials") &&
      add(flow, form, "scope", flow->texts[TEXT_SCOPE]) &&
      add(flow, form, "resource", flow->texts[TEXT_RESOURCE]) && flow_add_client(flow))
    flow_post(flow, FLOW_TOKEN, flow->server.token_endpoint);
}

static void ask_with_assertion(idem__auth_flow *flow) {
  bool own = flow->opts.grant == IDEM__AUTH_JWT_BEARER;
  const char *assertion = flow->texts[own ? TEXT_ASSERTION : TEXT_GRANTED_ASSERTION];
  idem_buf *form = &flow->form;
  flow->redo = ask_with_assertion;
  form->len = 0;
  if (add(flow, form, "grant_type", GRANT_PREFIX "jwt-bearer") &&
      add(flow, form, "assertion", assertion) &&
      add(flow, form, "scope", flow->texts[TEXT_SCOPE]) &&
      add(flow, form, "resource", flow->texts[TEXT_RESOURCE]) && flow_add_client(flow))
    flow_post(flow, FLOW_TOKEN, flow->server.token_endpoint);
}

/* RFC 8693 at the company's server: what it says of the user, for this authorization server. */
static void exchange(idem__auth_flow *flow) {
  idem_buf *form = &flow->form;
  form->len = 0;
  if (add(flow, form, "grant_type", GRANT_PREFIX "token-exchange") &&
      add(flow, form, "requested_token_type", "urn:ietf:params:oauth:token-type:id-jag") &&
      add(flow, form, "audience", flow->server.issuer) &&
      add(flow, form, "resource", flow->texts[TEXT_RESOURCE]) &&
      add(flow, form, "scope", flow->texts[TEXT_SCOPE]) &&
      add(flow, form, "subject_token", flow->texts[TEXT_ASSERTION]) &&
      add(flow, form, "subject_token_type", "urn:ietf:params:oauth:token-type:id_token") &&
      flow_add_idp_client(flow))
    flow_post(flow, FLOW_EXCHANGE, flow->texts[TEXT_IDP_TOKEN_ENDPOINT]);
}

static void ask_device(idem__auth_flow *flow) {
  idem_buf *form = &flow->form;
  form->len = 0;
  if (!flow->server.device_endpoint)
    flow_fail(flow, "the authorization server knows no devices");
  else if (add(flow, form, "scope", flow->texts[TEXT_SCOPE]) &&
           add(flow, form, "resource", flow->texts[TEXT_RESOURCE]) && flow_add_client(flow))
    flow_post(flow, FLOW_DEVICE, flow->server.device_endpoint);
}

void flow_begin_grant(idem__auth_flow *flow) {
  if (!choose_scope(flow)) return;
  switch (flow->opts.grant) {
  case IDEM__AUTH_CODE: browse(flow); return;
  case IDEM__AUTH_DEVICE: ask_device(flow); return;
  case IDEM__AUTH_CLIENT_CREDENTIALS: ask_as_ourselves(flow); return;
  case IDEM__AUTH_JWT_BEARER: ask_with_assertion(flow); return;
  case IDEM__AUTH_ENTERPRISE: exchange(flow); return;
  }
}

void flow_refresh(idem__auth_flow *flow) {
  idem_buf *form = &flow->form;
  flow->redo = flow_refresh;
  form->len = 0;
  if (add(flow, form, "grant_type", "refresh_token") &&
      add(flow, form, "refresh_token", flow->texts[TEXT_REFRESH_TOKEN]) &&
      add(flow, form, "resource", flow->texts[TEXT_RESOURCE]) && flow_add_client(flow))
    flow_post(flow, FLOW_REFRESH, flow->server.token_endpoint);
}

/* -------------------------------------------------------------------- answers */

/* What is empty says nothing. */
static const char *text_of(yyjson_val *root, const char *name) {
  const char *text = flow_text_of(root, name);
  return text && *text ? text : NULL;
}

static uint64_t seconds_of(yyjson_val *root, const char *name, uint64_t usual) {
  int64_t seconds;
  yyjson_val *value = yyjson_obj_get(root, name);
  bool good = value && idem__json_get_int(value, &seconds) && seconds >= 0 && seconds < 1000000000;
  return good ? (uint64_t)seconds : usual;
}

/* What a person or program has just allowed stands alone; a refreshed token may leave the refresh token as it was. */
static bool take_refresh_token(idem__auth_flow *flow, const char *refresh) {
  if (!refresh && flow->state == FLOW_REFRESH) return true;
  return flow_copy(flow, TEXT_REFRESH_TOKEN, refresh);
}

static bool is_type(const char *type, const char *name) {
  return type && idem__text_equal_nocase(type, strlen(type), name, strlen(name));
}

/* A bound token where proofs were shown, and no other where the resource takes no other. */
static bool takes_type(const idem__auth_flow *flow, const char *type) {
  return is_type(type, "Bearer") ? !flow->needs_proof : flow->proving && is_type(type, "DPoP");
}

static void take_token(idem__auth_flow *flow, yyjson_val *root) {
  const char *token = text_of(root, "access_token"), *type = text_of(root, "token_type");
  if (!token || !flow_is_token(token) || !takes_type(flow, type)) {
    flow_fail(flow, "the authorization server gave no token of a kind that was asked for");
    return;
  }
  flow->bound = !is_type(type, "Bearer");
  uint64_t lives = seconds_of(root, "expires_in", UINT64_MAX);
  flow->expires_s = lives == UINT64_MAX ? UINT64_MAX : flow->opts.now_s(flow->opts.user) + lives;
  if (!take_refresh_token(flow, text_of(root, "refresh_token")) ||
      !flow_copy(flow, TEXT_ACCESS_TOKEN, token) || !flow_good(flow, flow_make_bearer(flow)))
    return;
  flow->state = FLOW_DONE;
  flow->step = (idem__auth_step){.want = IDEM__AUTH_DONE};
}

/* No longer than the code is good, however seldom the server wants to be asked. */
static void wait_for_device(idem__auth_flow *flow) {
  uint64_t now_s = flow->opts.now_s(flow->opts.user);
  if (now_s >= flow->device_until_s) {
    flow_fail(flow, "nobody entered the code in time");
    return;
  }
  uint64_t left_ms = (flow->device_until_s - now_s) * 1000;
  flow->state = FLOW_DEVICE_WAIT;
  flow->step =
      (idem__auth_step){.want = IDEM__AUTH_WAIT,
                        .wait_ms = flow->interval_ms < left_ms ? flow->interval_ms : left_ms,
                        .url = flow->url.data,
                        .user_code = flow->texts[TEXT_USER_CODE]};
}

static bool is(const char *error, const char *name) { return error && strcmp(error, name) == 0; }

/* A client that registered itself is no longer known there. */
static bool is_unknown(const idem__auth_flow *flow, const char *error) {
  return (is(error, "invalid_client") || is(error, "unauthorized_client")) &&
         flow->texts[TEXT_REGISTERED_FOR];
}

/* It registers anew: at once where no person has seen anything yet, else the next time. Not twice in a row. */
static void forget_client(idem__auth_flow *flow, const char *error) {
  bool at_once = flow->state == FLOW_DEVICE && !flow->registered;
  if (!flow_copy(flow, TEXT_CLIENT_ID, NULL)) return;
  if (at_once)
    flow_choose_client(flow);
  else
    flow_fail(flow, "the authorization server gave no token: %.100s", error);
}

/* A refresh token that is over is forgotten, and a person or program asked again; so is a client that the server no longer
 * knows, if it was registered. Any other refusal may be a passing one, and leaves what is kept alone. */
static void refresh_refused(idem__auth_flow *flow, const char *error, int status) {
  bool unknown = is_unknown(flow, error);
  if (!is(error, "invalid_grant") && !unknown) {
    flow_fail(flow, "the authorization server did not refresh the token (%d%s%.100s)", status,
              error ? ", " : "", error ? error : "");
    return;
  }
  if (unknown && !flow_copy(flow, TEXT_CLIENT_ID, NULL)) return;
  if (flow_copy(flow, TEXT_REFRESH_TOKEN, NULL)) flow_begin(flow);
}

static void take_error(idem__auth_flow *flow, const char *error, int status) {
  bool polling = flow->state == FLOW_DEVICE_POLL;
  if (polling && is(error, "slow_down")) flow->interval_ms += 5000;
  if (polling && (is(error, "authorization_pending") || is(error, "slow_down"))) {
    wait_for_device(flow);
  } else if (flow->state == FLOW_REFRESH) {
    refresh_refused(flow, error, status);
  } else if (is_unknown(flow, error)) {
    forget_client(flow, error);
  } else if (error) {
    flow_fail(flow, "the authorization server gave no token: %.100s", error);
  } else {
    flow_fail(flow, "the authorization server gave no token (%d)", status);
  }
}

static yyjson_doc *read_answer(idem__auth_flow *flow, const char *body, size_t len) {
  yyjson_alc alc = idem__json_alc(&flow->alloc);
  idem_status status;
  return idem__json_read_text(body, len, 32, &alc, &status);
}

/* The server wants its nonce in the proof, and has just said which (RFC 9449, 8). */
static bool lacks_nonce(idem__auth_flow *flow, const char *error) {
  bool again = flow->proving && !flow->nonce_tried && flow->texts[TEXT_SERVER_NONCE] &&
               is(error, "use_dpop_nonce");
  flow->nonce_tried = again;
  return again;
}

/* The person may be in the browser all the while: a server that is away for a moment is asked again, more seldom each time (RFC 8628,
 * 3.5). */
static bool is_away(const idem__auth_flow *flow, int status) {
  return flow->state == FLOW_DEVICE_POLL && (status == 0 || status == 429 || status >= 500);
}

static void ask_more_seldom(idem__auth_flow *flow) {
  flow->interval_ms *= 2;
  wait_for_device(flow);
}

void flow_token_came(idem__auth_flow *flow, int status, const char *body, size_t len) {
  yyjson_doc *doc = read_answer(flow, body, len);
  yyjson_val *root = yyjson_doc_get_root(doc);
  if (lacks_nonce(flow, text_of(root, "error")))
    flow->redo(flow);
  else if (is_away(flow, status))
    ask_more_seldom(flow);
  else if (status == 0)
    flow_fail(flow, "the authorization server does not answer");
  else if (status == 200 && doc)
    take_token(flow, root);
  else
    take_error(flow, flow_error(flow, text_of(root, "error")), status);
  yyjson_doc_free(doc);
}

static void idp_refused(idem__auth_flow *flow, int status, const char *said) {
  const char *error = flow_error(flow, said);
  flow_fail(flow, "the identity provider gave no assertion (%d%s%.100s)", status, error ? ": " : "",
            error ? error : "");
}

void flow_exchanged(idem__auth_flow *flow, int status, const char *body, size_t len) {
  yyjson_doc *doc = read_answer(flow, body, len);
  const char *assertion = text_of(yyjson_doc_get_root(doc), "access_token");
  yyjson_val *type = yyjson_obj_get(yyjson_doc_get_root(doc), "issued_token_type");
  if (status == 0)
    flow_fail(flow, "the identity provider does not answer");
  else if (status != 200 || !assertion ||
           (type && !yyjson_equals_str(type, "urn:ietf:params:oauth:token-type:id-jag")))
    idp_refused(flow, status, text_of(yyjson_doc_get_root(doc), "error"));
  else if (flow_copy(flow, TEXT_GRANTED_ASSERTION, assertion))
    ask_with_assertion(flow);
  yyjson_doc_free(doc);
}

static void show_device(idem__auth_flow *flow, yyjson_val *root) {
  const char *code = text_of(root, "device_code"), *shown = text_of(root, "user_code");
  const char *url = text_of(root, "verification_uri");
  const char *whole = text_of(root, "verification_uri_complete");
  if (whole && idem__auth_url_is_safe(whole)) url = whole;
  if (!code || !shown || !flow_is_token(shown) || !url || !idem__auth_url_is_safe(url)) {
    flow_fail(flow, "the authorization server did not say what to show");
    return;
  }
  flow->interval_ms = seconds_of(root, "interval", 5) * 1000;
  if (flow->interval_ms < 1000) flow->interval_ms = 1000;
  flow->device_until_s = flow->opts.now_s(flow->opts.user) + seconds_of(root, "expires_in", 600);
  flow->url.len = 0;
  idem_status status = idem_buf_put(&flow->url, url, strlen(url) + 1);
  if (!flow_good(flow, status) || !flow_copy(flow, TEXT_DEVICE_CODE, code) ||
      !flow_copy(flow, TEXT_USER_CODE, shown))
    return;
  wait_for_device(flow);
}

void flow_device_came(idem__auth_flow *flow, int status, const char *body, size_t len) {
  yyjson_doc *doc = read_answer(flow, body, len);
  if (status == 0)
    flow_fail(flow, "the authorization server does not answer");
  else if (status == 200 && doc)
    show_device(flow, yyjson_doc_get_root(doc));
  else
    take_error(flow, flow_error(flow, text_of(yyjson_doc_get_root(doc), "error")), status);
  yyjson_doc_free(doc);
}

void flow_device_poll(idem__auth_flow *flow) {
  idem_buf *form = &flow->form;
  flow->redo = flow_device_poll;
  form->len = 0;
  if (add(flow, form, "grant_type", GRANT_PREFIX "device_code") &&
      add(flow, form, "device_code", flow->texts[TEXT_DEVICE_CODE]) &&
      add(flow, form, "resource", flow->texts[TEXT_RESOURCE]) && flow_add_client(flow))
    flow_post(flow, FLOW_DEVICE_POLL, flow->server.token_endpoint);
}

/* ------------------------------------------------------------------- the end of it */

static void rest(idem__auth_flow *flow) {
  flow->state = FLOW_IDLE;
  flow->step = (idem__auth_step){.want = IDEM__AUTH_IDLE};
}

/* With the refresh token servers give up what came of it, too (RFC 7009, 2.1). */
void idem__auth_revoke(idem__auth_flow *flow) {
  const char *refresh = flow->texts[TEXT_REFRESH_TOKEN];
  const char *token = refresh ? refresh : flow->texts[TEXT_ACCESS_TOKEN];
  const char *endpoint = flow->server.revocation_endpoint;
  flow->revoked = false;
  flow->form.len = 0;
  if (token && endpoint && add(flow, &flow->form, "token", token) &&
      add(flow, &flow->form, "token_type_hint", refresh ? "refresh_token" : "access_token") &&
      flow_add_client(flow))
    flow_post(flow, FLOW_REVOKE, endpoint);
  if (flow->state != FLOW_REVOKE) rest(flow);
  flow_set(flow, TEXT_REFRESH_TOKEN, NULL, 0);
  flow_set(flow, TEXT_ACCESS_TOKEN, NULL, 0);
  flow->bearer.len = 0;
}

void flow_revoked(idem__auth_flow *flow, int status) {
  flow->revoked = status == 200;
  rest(flow);
}
