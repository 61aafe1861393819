/* flow.c - how a client comes to a token, one step at a time: what a refused request asks for begins it, an answer leads
 * on. See docs/internals/auth.md for the picture. */
#include "flow.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX 65536u /* bytes of a URL, form or header that is made here */
#define ATTEMPTS 3u     /* authorizations for one refused request; then somebody must look at it */

/* ------------------------------------------------------------------ pieces */

/* In memory of its own, cut at 511 bytes; NULL: there is none. */
static IDEM_PRINTF(2, 0) char *make_sentence(const idem__auth_flow *flow, const char *format,
                                             va_list args) {
  char sentence[512] = "";
  vsnprintf(sentence, sizeof sentence, format, args);
  return idem__strndup(&flow->alloc, sentence, strlen(sentence));
}

void flow_fail(idem__auth_flow *flow, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *why = make_sentence(flow, format, args);
  va_end(args);
  flow->state = FLOW_FAILED;
  idem__free(&flow->alloc, flow->texts[TEXT_WHY]);
  flow->texts[TEXT_WHY] = why;
  flow->step = (idem__auth_step){.want = IDEM__AUTH_FAILED, .why = why ? why : "no memory"};
}

void flow_note(idem__auth_flow *flow, const char *format, ...) {
  if (flow->texts[TEXT_TROUBLE]) return;
  va_list args;
  va_start(args, format);
  char *trouble = make_sentence(flow, format, args);
  va_end(args);
  flow->texts[TEXT_TROUBLE] = trouble;
  flow_good(flow, trouble ? IDEM_OK : IDEM_E_NOMEM);
}

bool flow_good(idem__auth_flow *flow, idem_status status) {
  if (status != IDEM_OK) flow_fail(flow, status == IDEM_E_NOMEM ? "no memory" : "it is too long");
  return status == IDEM_OK;
}

bool flow_set(idem__auth_flow *flow, flow_text which, const char *value, size_t len) {
  char *copy = value ? idem__strndup(&flow->alloc, value, len) : NULL;
  if (value && !copy) return flow_good(flow, IDEM_E_NOMEM);
  idem__free(&flow->alloc, flow->texts[which]);
  flow->texts[which] = copy;
  return true;
}

bool flow_copy(idem__auth_flow *flow, flow_text which, const char *value) {
  return flow_set(flow, which, value, value ? strlen(value) : 0);
}

/* 32 random bytes, as text: no guess finds it. */
bool flow_random_text(idem__auth_flow *flow, flow_text which) {
  uint8_t bytes[32];
  char text[64];
  idem_buf encoded;
  idem_buf_fixed(&encoded, text, sizeof text);
  flow->opts.random(bytes, sizeof bytes, flow->opts.user);
  return flow_good(flow, idem_base64_encode(&encoded, bytes, sizeof bytes, IDEM_BASE64_URL)) &&
         flow_set(flow, which, encoded.data, encoded.len);
}

bool flow_is_token(const char *text) {
  for (; text && *text; text++)
    if ((uint8_t)*text <= ' ' || (uint8_t)*text >= 127) return false;
  return true;
}

idem_status flow_make_bearer(idem__auth_flow *flow) {
  const char *token = flow->texts[TEXT_ACCESS_TOKEN];
  flow->bearer.len = 0;
  if (!token) return IDEM_OK;
  idem_status status =
      idem_buf_printf(&flow->bearer, "%s %s", flow->bound ? "DPoP" : "Bearer", token);
  if (status == IDEM_OK) status = idem_buf_put(&flow->bearer, "", 1);
  if (status == IDEM_OK)
    flow->bearer.len--;
  else
    flow->bearer.len = 0;
  return status;
}

static bool end_text(idem__auth_flow *flow, idem_buf *text) {
  bool good = flow_good(flow, idem_buf_put(text, "", 1));
  if (good) text->len--;
  return good;
}

static bool is_for_token(flow_state state) {
  return state == FLOW_TOKEN || state == FLOW_REFRESH || state == FLOW_DEVICE_POLL;
}

/* What is asked is kept by the flow until the answer is there. */
static void ask(idem__auth_flow *flow, flow_state state, const char *url, bool post) {
  bool secret = flow->header.len;
  idem__auth_step step = {.want = IDEM__AUTH_FETCH};
  if (!idem__auth_url_is_safe(url)) {
    flow_fail(flow, "%.200s may not be asked: it is not https", url);
    return;
  }
  if (url != flow->url.data) {
    flow->url.len = 0;
    if (!flow_good(flow, idem_buf_put(&flow->url, url, strlen(url)))) return;
  }
  bool proof = flow->proving && is_for_token(state);
  if (proof && !flow_put_proof(flow, url)) return;
  if (!end_text(flow, &flow->url) || (post && !end_text(flow, &flow->form)) ||
      (secret && !end_text(flow, &flow->header)))
    return;
  step.url = flow->url.data;
  if (post && state == FLOW_REGISTER)
    step.json = flow->form.data;
  else if (post)
    step.form = flow->form.data;
  if (secret) step.authorization = flow->header.data;
  if (proof) step.proof = flow->proof.data;
  flow->state = state;
  flow->step = step;
}

void flow_fetch(idem__auth_flow *flow, flow_state state, const char *url) {
  flow->header.len = 0;
  ask(flow, state, url, false);
}

void flow_post(idem__auth_flow *flow, flow_state state, const char *url) {
  ask(flow, state, url, true);
}

/* ----------------------------------------------------------------- refusals */

static void forget_token(idem__auth_flow *flow) {
  flow_set(flow, TEXT_ACCESS_TOKEN, NULL, 0);
  flow->bearer.len = 0;
}

/* More of the same would come to the same. */
static bool adds_nothing(const idem__auth_flow *flow, int status,
                         const idem__auth_challenge *challenge) {
  return status == 403 && flow->texts[TEXT_ACCESS_TOKEN] && challenge->scope &&
         idem__auth_scope_has(flow->texts[TEXT_SCOPE], challenge->scope);
}

/* From the start, where that is allowed. */
void flow_begin(idem__auth_flow *flow) {
  const char *scope = flow->texts[TEXT_CHALLENGED_SCOPE];
  if (!flow->opts.kept_only)
    flow_find(flow);
  else if (flow->texts[TEXT_ACCESS_TOKEN] && scope)
    flow_fail(flow, "the server asks for the scope \"%.200s\", which the kept token has not",
              flow_scope(flow, scope));
  else
    flow_fail(flow, "no token that is kept is good for this server");
}

void idem__auth_refused(idem__auth_flow *flow, int status, const idem__auth_challenge *challenge,
                        bool first) {
  bool lacks_scope = challenge->error && strcmp(challenge->error, "insufficient_scope") == 0;
  if (status == 403 && !lacks_scope) {
    flow_fail(flow, "the server refuses this to whoever the token stands for (403)");
    return;
  }
  if (adds_nothing(flow, status, challenge)) {
    flow_fail(flow,
              "the server asks for the scope \"%.200s\", which the token was asked for already",
              flow_scope(flow, challenge->scope));
    return;
  }
  if (first) flow->attempts = 0;
  if (first) flow->registered = false;
  if (++flow->attempts > ATTEMPTS) {
    flow_fail(flow, "%u authorizations did not satisfy the server", ATTEMPTS);
    return;
  }
  flow->place = 0;
  flow->state = FLOW_IDLE;
  flow->stepping = status == 403 && flow->texts[TEXT_ACCESS_TOKEN];
  if (!flow_copy(flow, TEXT_CHALLENGED_SCOPE, challenge->scope) ||
      !flow_copy(flow, TEXT_CHALLENGED_METADATA, challenge->resource_metadata))
    return;
  flow->asked_proof = challenge->dpop;
  flow->needs_proof = challenge->dpop && !challenge->bearer;
  if (status == 401) forget_token(flow);
  if (status == 401 && first && flow->texts[TEXT_REFRESH_TOKEN] && flow->server.token_endpoint)
    flow_refresh(flow);
  else
    flow_begin(flow);
}

/* ------------------------------------------------------------------ answers */

void idem__auth_fetched(idem__auth_flow *flow, int status, const char *body, size_t len) {
  switch (flow->state) {
  case FLOW_FIND_RESOURCE: flow_resource_fetched(flow, status, body, len); return;
  case FLOW_FIND_SERVER: flow_server_fetched(flow, status, body, len); return;
  case FLOW_REGISTER: flow_registered(flow, status, body, len); return;
  case FLOW_EXCHANGE: flow_exchanged(flow, status, body, len); return;
  case FLOW_DEVICE: flow_device_came(flow, status, body, len); return;
  case FLOW_DEVICE_POLL:
  case FLOW_TOKEN:
  case FLOW_REFRESH: flow_token_came(flow, status, body, len); return;
  case FLOW_REVOKE: flow_revoked(flow, status); return;
  default: return; /* nobody asked */
  }
}

void idem__auth_redirected(idem__auth_flow *flow, const char *query, size_t len) {
  if (flow->state == FLOW_BROWSE) flow_code_came(flow, query, len);
}

void idem__auth_waited(idem__auth_flow *flow) {
  if (flow->state == FLOW_DEVICE_WAIT) flow_device_poll(flow);
}

/* ----------------------------------------------------------------- lifetime */

const idem__auth_step *idem__auth_step_of(const idem__auth_flow *flow) { return &flow->step; }

const char *idem__auth_authorization(const idem__auth_flow *flow) {
  return flow->bearer.len ? flow->bearer.data : NULL;
}

uint64_t idem__auth_expires(const idem__auth_flow *flow) { return flow->expires_s; }
bool idem__auth_revoked(const idem__auth_flow *flow) { return flow->revoked; }

static bool copy_options(idem__auth_flow *flow, const idem__auth_opts *opts) {
  const char *const given[] = {[TEXT_URL] = opts->url,
                               [TEXT_OWN_CLIENT_ID] = opts->client_id,
                               [TEXT_OWN_CLIENT_SECRET] = opts->client_secret,
                               [TEXT_CLIENT_DOCUMENT] = opts->client_document,
                               [TEXT_CLIENT_NAME] = opts->client_name ? opts->client_name : "idem",
                               [TEXT_REDIRECT_URI] = opts->redirect_uri,
                               [TEXT_OWN_SCOPE] = opts->scope,
                               [TEXT_ASSERTION] = opts->assertion,
                               [TEXT_IDP_TOKEN_ENDPOINT] = opts->idp_token_endpoint,
                               [TEXT_IDP_CLIENT_ID] = opts->idp_client_id,
                               [TEXT_IDP_CLIENT_SECRET] = opts->idp_client_secret};
  for (size_t i = 0; i < sizeof given / sizeof *given; i++)
    if (!flow_copy(flow, (flow_text)i, given[i])) return false;
  return true;
}

idem_status idem__auth_flow_new(const idem__auth_opts *opts, idem__auth_flow **out) {
  idem__auth_url url;
  *out = NULL;
  if (!opts->url || !opts->random || !opts->now_s || !idem__auth_url_parse(opts->url, &url) ||
      (opts->grant == IDEM__AUTH_CODE && !opts->redirect_uri))
    return IDEM_E_INVAL;
  idem_alloc alloc = idem__alloc_or_default(opts->alloc);
  idem__auth_flow *flow = idem__calloc(&alloc, sizeof *flow);
  if (!flow) return IDEM_E_NOMEM;
  flow->alloc = alloc;
  flow->opts = *opts;
  flow->expires_s = UINT64_MAX;
  idem_buf *buffers[] = {&flow->url, &flow->form, &flow->header, &flow->proof, &flow->bearer};
  for (size_t i = 0; i < 5; i++) idem_buf_init(buffers[i], &flow->alloc, TEXT_MAX);
  if (!copy_options(flow, opts)) {
    idem__auth_flow_free(flow);
    return IDEM_E_NOMEM;
  }
  *out = flow;
  return IDEM_OK;
}

/* Secrets are not left to whoever gets the memory next. */
void flow_wipe(char *text, size_t len) {
  volatile char *at = text;
  while (len--) *at++ = 0;
}

void idem__auth_flow_free(idem__auth_flow *flow) {
  if (!flow) return;
  idem_alloc alloc = flow->alloc;
  for (size_t i = 0; i < TEXT_COUNT; i++) {
    if (flow->texts[i]) flow_wipe(flow->texts[i], strlen(flow->texts[i]));
    idem__free(&alloc, flow->texts[i]);
  }
  idem_buf *buffers[] = {&flow->url, &flow->form, &flow->header, &flow->proof, &flow->bearer};
  for (size_t i = 0; i < 5; i++) {
    flow_wipe(buffers[i]->data, buffers[i]->cap);
    idem_buf_deinit(buffers[i]);
  }
  idem__free(&alloc, flow->resource_scopes);
  flow_forget_others(flow);
  idem__auth_server_deinit(&alloc, &flow->server);
  idem__free(&alloc, flow);
}
