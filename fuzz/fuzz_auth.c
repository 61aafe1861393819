/* fuzz_auth.c - a client on its way to a token among servers that say anything: the input is a script of refusals, answers
 * and browsers. Whatever they say, no request goes to what is neither https nor loopback, a token is one line of visible
 * characters, and no code is sent anywhere without our state. */
#include "auth/auth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(condition)                                                                            \
  do {                                                                                             \
    if (!(condition)) abort();                                                                     \
  } while (0)

static void roll(void *bytes, size_t len, void *user) {
  (void)user;
  memset(bytes, 7, len);
}

static uint64_t clock_s(void *user) {
  (void)user;
  return 1000;
}

static idem_status sign(const char *claims, size_t len, idem_buf *out, void *user) {
  (void)user;
  return idem_buf_put(out, claims, len < 8 ? len : 8);
}

static idem_status put_key(idem_buf *out, void *user) {
  (void)user;
  return idem_buf_puts(out, "key");
}

static idem_status take_key(const char *pem, size_t len, void *user) {
  (void)pem, (void)user;
  return len < 100 ? IDEM_OK : IDEM_E_INVAL;
}

/* A nonce is a server's word as well, and a proof has nothing but it from outside. */
static void prove(idem__auth_flow *flow, const char *text, size_t len) {
  char nonce[600];
  idem_buf proof;
  snprintf(nonce, sizeof nonce, "%.*s", len < 599 ? (int)len : 599, text);
  idem__auth_server_nonce(flow, nonce);
  (void)idem__auth_resource_nonce(flow, nonce);
  idem_buf_init(&proof, NULL, 1 << 16);
  (void)idem__auth_proof(flow, "POST", "https://mcp.example/mcp", &proof);
  idem_buf_deinit(&proof);
}

static void check(const idem__auth_flow *flow) {
  const idem__auth_step *step = idem__auth_step_of(flow);
  const char *token = idem__auth_authorization(flow);
  if (step->want == IDEM__AUTH_FETCH) MUST(idem__auth_url_is_safe(step->url));
  if (step->want == IDEM__AUTH_FAILED) MUST(step->why && *step->why);
  if (step->want == IDEM__AUTH_DONE) MUST(token);
  for (; token && *token; token++) MUST((uint8_t)*token >= ' ' && (uint8_t)*token < 127);
  if (step->want == IDEM__AUTH_FETCH && step->form && strstr(step->form, "code_verifier="))
    MUST(strstr(step->form, "grant_type=authorization_code"));
}

static void refuse(idem__auth_flow *flow, int status, const char *header, size_t len) {
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__auth_challenge challenge = {.bearer = false};
  (void)idem__auth_challenge_read(&alloc, header, len, &challenge);
  idem__auth_refused(flow, status, &challenge, status == 401);
  idem__auth_challenge_deinit(&alloc, &challenge);
}

/* One line of the script: what happens, then its text. */
static void happen(idem__auth_flow *flow, char what, const char *text, size_t len) {
  idem_buf kept;
  switch (what) {
  case 'r': refuse(flow, 401, text, len); break;
  case 'f': refuse(flow, 403, text, len); break;
  case 'o': idem__auth_fetched(flow, 200, text, len); break;
  case 'c': idem__auth_fetched(flow, 201, text, len); break;
  case 'n': idem__auth_fetched(flow, 404, text, len); break;
  case 'e': idem__auth_fetched(flow, 400, text, len); break;
  case 'x': idem__auth_fetched(flow, 0, "", 0); break;
  case 'b': idem__auth_redirected(flow, text, len); break;
  case 'w': idem__auth_waited(flow); break;
  case 'p': prove(flow, text, len); break;
  case 'l': idem__auth_revoke(flow); break;
  case 't': (void)idem__auth_flow_take(flow, text, len); break;
  case 's':
    idem_buf_init(&kept, NULL, 1 << 20);
    if (idem__auth_flow_save(flow, &kept) == IDEM_OK)
      MUST(idem__auth_flow_take(flow, kept.data, kept.len) != IDEM_E_NOMEM);
    idem_buf_deinit(&kept);
    break;
  default: break;
  }
  check(flow);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size) return 0;
  idem__auth_opts opts = {.url = "https://mcp.example/mcp",
                          .grant = (idem__auth_grant)(data[0] % 5),
                          .redirect_uri = "http://127.0.0.1:7/c",
                          .refresh = data[0] & 8,
                          .assertion = "a.b.c",
                          .idp_token_endpoint = "https://idp.example/t",
                          .client_id = data[0] & 16 ? "me" : NULL,
                          .client_secret = data[0] & 32 ? "s" : NULL,
                          .sign = data[0] & 64 ? sign : NULL,
                          .prove = data[0] & 128 ? sign : NULL,
                          .put_key = put_key,
                          .take_key = take_key,
                          .kept_only = data[0] % 7 == 0,
                          .random = roll,
                          .now_s = clock_s};
  idem__auth_flow *flow;
  MUST(idem__auth_flow_new(&opts, &flow) == IDEM_OK);
  const char *at = (const char *)data + 1, *end = (const char *)data + size;
  while (at < end) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop) stop = end;
    if (stop > at) happen(flow, *at, at + 1, (size_t)(stop - at) - 1);
    at = stop + 1;
  }
  idem__auth_flow_free(flow);
  return 0;
}
