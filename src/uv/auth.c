/* auth.c - how a client comes to a token, on a loop: the flow of src/auth with its hooks, its beginning and its end.
 * See docs/internals/uv.md and docs/internals/auth.md. */
#include "auth.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* ------------------------------------------------------------- hooks of the flow */

static void random_bytes(void *bytes, size_t len, void *user) {
  idem_auth *auth = user;
  uint8_t *at = bytes;
  while (len > 0) {
    ssize_t got = getrandom(at, len, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      memset(at, 0, len);
      auth->unsafe = true; /* nothing that was made of it is used: see act */
      return;
    }
    at += got;
    len -= (size_t)got;
  }
}

static uint64_t now_s(void *user) {
  struct timespec now;
  (void)user;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec;
}

static idem_status sign(const char *claims, size_t len, idem_buf *out, void *user) {
  const idem_auth *auth = user;
  char *token;
  idem_status status = auth->jose->sign(auth->key, claims, len, &token);
  if (status != IDEM_OK) return status;
  status = idem_buf_put(out, token, strlen(token));
  auth->jose->free_text(token);
  return status;
}

/* ------------------------------------------------------------------------ the end */

void idem__auth_wipe(char *text, size_t len) {
  volatile char *at = text;
  while (len--) *at++ = 0;
}

static void free_auth(idem_auth *auth) {
  idem__runtime *runtime = auth->runtime;
  idem_alloc alloc = auth->alloc;
  idem__auth_flow_free(auth->flow);
  if (auth->jose) auth->jose->key_free(auth->key);
  idem__auth_forget_key(auth);
  if (auth->line.data) idem__auth_wipe(auth->line.data, auth->line.cap);
  idem_buf_deinit(&auth->line);
  if (auth->before) idem__auth_wipe(auth->before, strlen(auth->before));
  idem__free(&alloc, auth->before);
  idem__auth_challenge_deinit(&alloc, &auth->challenge);
  idem__free(&alloc, auth->waiting);
  idem__free(&alloc, auth->url);
  idem__free(&alloc, auth->ca_file);
  idem__free(&alloc, auth->proxy);
  idem__free(&alloc, auth);
  idem__runtime_release(runtime);
}

static void on_timer_closed(uv_handle_t *handle) { free_auth(handle->data); }

void idem_auth_free(idem_auth *auth) {
  if (!auth || auth->closing) return;
  auth->closing = true;
  idem_fetch_cancel(auth->fetch);
  auth->fetch = NULL;
  idem__auth_end_waiting(auth, NULL);
  uv_close((uv_handle_t *)&auth->timer, on_timer_closed);
}

/* ------------------------------------------------------------- what a program asks */

static void on_leaving(uv_timer_t *timer) { idem__auth_drive(timer->data); }

idem_status idem_auth_redirected(idem_auth *auth, const char *query, size_t len) {
  bool waits =
      auth->running && !auth->closing && idem__auth_step_of(auth->flow)->want == IDEM__AUTH_BROWSE;
  if (!waits) return IDEM_E_STATE;
  uv_timer_stop(&auth->timer);
  idem__auth_redirected(auth->flow, query, len);
  idem__auth_drive(auth);
  return IDEM_OK;
}

idem_status idem_auth_take(idem_auth *auth, const char *kept, size_t len) {
  idem_status status = idem__auth_flow_take(auth->flow, kept, len);
  if (status == IDEM_OK) idem__auth_put_line(auth);
  return status;
}

const char *idem_auth_line(const idem_auth *auth) {
  return auth->line.len ? auth->line.data : NULL;
}
const char *idem_auth_why(const idem_auth *auth) { return auth->why; }

idem_status idem_auth_log_out(idem_auth *auth,
                              void (*done)(idem_auth *auth, bool revoked, void *user)) {
  if (auth->running || auth->closing) return IDEM_E_STATE;
  auth->running = true;
  auth->on_left = done;
  idem__auth_revoke(auth->flow);
  idem__auth_put_line(auth);
  uv_timer_start(&auth->timer, on_leaving, 0, 0);
  return IDEM_OK;
}

/* --------------------------------------------------------------------------- making */

const idem__jose_module *idem__auth_jose(idem_auth *auth) {
  char why[256] = "";
  if (auth->jose) return auth->jose;
  const idem__jose_module *jose = idem__module_load("jose", IDEM__JOSE_SYMBOL, why, sizeof why);
  if (!jose) idem_logf(auth->opts.log, IDEM_LOG_ERROR, "no signatures", "%s", why);
  auth->jose = jose;
  return jose;
}

static idem_status take_key(idem_auth *auth, const char *pem) {
  if (!pem) return IDEM_OK;
  const idem__jose_module *jose = idem__auth_jose(auth);
  return jose ? jose->key_new(pem, strlen(pem), &auth->key) : IDEM_E_SYS;
}

static idem_status make_flow(idem_auth *auth, const idem_auth_opts *opts) {
  idem__auth_opts flow = {.url = opts->url,
                          .grant = (idem__auth_grant)opts->grant,
                          .client_id = opts->client_id,
                          .client_secret = opts->client_secret,
                          .client_document = opts->client_document,
                          .client_name = opts->client_name,
                          .redirect_uri = opts->redirect_uri,
                          .scope = opts->scope,
                          .refresh = opts->refresh,
                          .assertion = opts->assertion,
                          .idp_token_endpoint = opts->idp_token_endpoint,
                          .idp_client_id = opts->idp_client_id,
                          .idp_client_secret = opts->idp_client_secret,
                          .idp_secret_post = opts->idp_secret_post,
                          .kept_only = opts->kept_only,
                          .strict_resource = opts->strict_resource,
                          .random = random_bytes,
                          .now_s = now_s,
                          .sign = auth->key ? sign : NULL,
                          .prove = idem__auth_prove,
                          .put_key = idem__auth_put_key,
                          .take_key = idem__auth_take_key,
                          .user = auth,
                          .alloc = &auth->alloc};
  return idem__auth_flow_new(&flow, &auth->flow);
}

static bool copy(idem_auth *auth, const char *from, char **to) {
  *to = from ? idem__strndup(&auth->alloc, from, strlen(from)) : NULL;
  return !from || *to;
}

static idem_status prepare(idem_auth *auth, const idem_auth_opts *opts) {
  idem__auth_url url;
  uint8_t byte;
  idem_status status = take_key(auth, opts->private_key);
  if (status == IDEM_OK) status = make_flow(auth, opts);
  if (status != IDEM_OK) return status;
  if (!copy(auth, opts->url, &auth->url) || !copy(auth, opts->ca_file, &auth->ca_file) ||
      !copy(auth, opts->proxy, &auth->proxy))
    return IDEM_E_NOMEM;
  auth->anywhere = opts->private_addresses ||
                   (idem__auth_url_parse(auth->url, &url) && idem__auth_url_is_loopback(&url));
  random_bytes(&byte, 1, auth);
  if (auth->unsafe) return IDEM_E_SYS;
  return opts->kept ? idem_auth_take(auth, opts->kept, strlen(opts->kept)) : IDEM_OK;
}

static bool needs_met(const idem_auth_opts *opts) {
  bool asserted = opts->grant == IDEM_AUTH_JWT_BEARER || opts->grant == IDEM_AUTH_ENTERPRISE;
  if (!opts->url || opts->grant > IDEM_AUTH_ENTERPRISE) return false;
  if (opts->grant == IDEM_AUTH_ENTERPRISE && !opts->idp_token_endpoint) return false;
  return !asserted || opts->assertion;
}

idem_status idem_auth_new(uv_loop_t *loop, const idem_auth_opts *opts, idem_auth **out) {
  idem__runtime *runtime;
  *out = NULL;
  if (!needs_met(opts)) return IDEM_E_INVAL;
  idem_status status = idem__runtime_get(loop, opts->alloc, &runtime);
  if (status != IDEM_OK) return status;
  idem_auth *auth = idem__calloc(opts->alloc, sizeof *auth);
  if (!auth) {
    idem__runtime_release(runtime);
    return IDEM_E_NOMEM;
  }
  auth->runtime = runtime;
  auth->alloc = idem__alloc_or_default(opts->alloc);
  auth->opts = *opts;
  idem_buf_init(&auth->line, &auth->alloc, IDEM__AUTH_KEPT_BYTES);
  status = prepare(auth, opts);
  if (status != IDEM_OK) {
    free_auth(auth);
    return status;
  }
  uv_timer_init(loop, &auth->timer);
  auth->timer.data = auth;
  *out = auth;
  return IDEM_OK;
}
