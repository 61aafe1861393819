/* auth.c - the flow of src/auth on a loop: what it wants fetched is fetched, pages are shown, time passes; refused requests
 * wait for the end of it, all together. See docs/internals/uv.md and docs/internals/auth.md. */
#include "auth/auth.h"
#include "modules/jose/jose.h"
#include "uv/runtime.h"

#include <errno.h>
#include <idem/auth.h>
#include <idem/fetch.h>
#include <idem/mcp_client.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define WAITING_MAX 4096u /* refused requests at once */
#define BODY_BYTES 1048576u
#define ANSWER_MS 30000u
#define PAGE_MS 600000u
#define KEPT_BYTES 262144u

struct idem_auth {
  idem__runtime *runtime;
  idem_alloc alloc;
  idem_auth_opts opts; /* of its strings only those below are there */
  char *url, *ca_file, *proxy;
  idem__auth_flow *flow;
  const idem__jose_module *jose; /* NULL: there is no key */
  idem__jose_key *key;
  idem_fetch *fetch; /* under way, or NULL */
  uv_timer_t timer;
  idem_mcp_refusal **waiting;
  size_t waiting_count, waiting_room;
  bool running; /* for those that wait */
  bool driving, again;
  bool shown;    /* the person was told */
  bool unsafe;   /* random numbers cannot be had */
  bool closing;  /* freed when the timer has closed */
  bool anywhere; /* private addresses are asked, too */
  bool refused_address;
  char reason[256]; /* why the last fetch came to nothing */
  char why[768];
  idem__buf line;
};

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

static idem_status sign(const char *claims, size_t len, idem__buf *out, void *user) {
  const idem_auth *auth = user;
  char *token;
  idem_status status = auth->jose->sign(auth->key, claims, len, &token);
  if (status != IDEM_OK) return status;
  status = idem__buf_put(out, token, strlen(token));
  auth->jose->free_text(token);
  return status;
}

/* ------------------------------------------------------------------------ the end */

static void wipe(char *text, size_t len) {
  volatile char *at = text;
  while (len--) *at++ = 0;
}

static void free_auth(idem_auth *auth) {
  idem__runtime *runtime = auth->runtime;
  idem_alloc alloc = auth->alloc;
  idem__auth_flow_free(auth->flow);
  if (auth->jose) auth->jose->key_free(auth->key);
  if (auth->line.data) wipe(auth->line.data, auth->line.cap);
  idem__buf_deinit(&auth->line);
  idem__free(&alloc, auth->waiting);
  idem__free(&alloc, auth->url);
  idem__free(&alloc, auth->ca_file);
  idem__free(&alloc, auth->proxy);
  idem__free(&alloc, auth);
  idem__runtime_release(runtime);
}

static void on_timer_closed(uv_handle_t *handle) { free_auth(handle->data); }

/* Whoever waits hears of it; what that leads to may be anything, but the list is ours. */
static void end_waiting(idem_auth *auth, const char *line) {
  idem_mcp_refusal **waiting = auth->waiting;
  size_t count = auth->waiting_count;
  const char *const lines[] = {line, NULL};
  idem_alloc alloc = auth->alloc;
  auth->running = false;
  auth->waiting = NULL;
  auth->waiting_count = auth->waiting_room = 0;
  for (size_t i = 0; i < count; i++) {
    if (!line || idem_mcp_refusal_retry(waiting[i], lines) == IDEM_E_INVAL)
      idem_mcp_refusal_give_up(waiting[i]);
  }
  idem__free(&alloc, waiting);
}

void idem_auth_free(idem_auth *auth) {
  if (!auth || auth->closing) return;
  auth->closing = true;
  idem_fetch_cancel(auth->fetch);
  auth->fetch = NULL;
  end_waiting(auth, NULL);
  uv_close((uv_handle_t *)&auth->timer, on_timer_closed);
}

/* --------------------------------------------------------------------- one outcome */

static bool put_line(idem_auth *auth) {
  const char *value = idem__auth_authorization(auth->flow);
  if (auth->line.data) wipe(auth->line.data, auth->line.len);
  auth->line.len = 0;
  if (!value) return false;
  idem_status status = idem__buf_printf(&auth->line, "Authorization: %s", value);
  if (status == IDEM_OK) status = idem__buf_put(&auth->line, "", 1);
  if (status != IDEM_OK) auth->line.len = 0;
  const char *token = strchr(value, ' ');
  if (auth->opts.log && token) idem_log_add_secret(auth->opts.log, token + 1, strlen(token + 1));
  return status == IDEM_OK;
}

static void save(idem_auth *auth) {
  idem__buf kept;
  if (!auth->opts.save) return;
  idem__buf_init(&kept, &auth->alloc, KEPT_BYTES);
  if (idem__auth_flow_save(auth->flow, &kept) == IDEM_OK)
    auth->opts.save(auth, kept.data, kept.len, auth->opts.user);
  else
    idem_logf(auth->opts.log, IDEM_LOG_ERROR, "tokens could not be kept", "%s", auth->url);
  if (kept.data) wipe(kept.data, kept.cap);
  idem__buf_deinit(&kept);
}

static void give_up(idem_auth *auth, const char *why) {
  bool more = auth->reason[0];
  snprintf(auth->why, sizeof auth->why, "%s%s%s", why, more ? ": " : "", more ? auth->reason : "");
  idem_logf(auth->opts.log, IDEM_LOG_WARN, "a request was refused", "%s: %s", auth->url, auth->why);
  uv_timer_stop(&auth->timer);
  put_line(auth);
  save(auth);
  end_waiting(auth, NULL);
}

static void be_done(idem_auth *auth) {
  idem__buf line;
  uv_timer_stop(&auth->timer);
  auth->reason[0] = 0;
  if (!put_line(auth)) {
    give_up(auth, "no memory");
    return;
  }
  auth->why[0] = 0;
  save(auth);
  idem__buf_init(&line, &auth->alloc,
                 auth->line.len); /* it may be another before the last has it */
  bool copied = idem__buf_put(&line, auth->line.data, auth->line.len) == IDEM_OK;
  end_waiting(auth, copied ? line.data : NULL);
  if (line.data) wipe(line.data, line.len);
  idem__buf_deinit(&line);
}

/* --------------------------------------------------------------------------- steps */

static void drive(idem_auth *auth);

static bool is_public(const uint8_t *address, size_t len, void *user) {
  idem_auth *auth = user;
  bool may = idem__auth_address_is_public(address, len);
  if (!may) auth->refused_address = true;
  return may;
}

static void keep_reason(idem_auth *auth, const idem_fetch_answer *answer) {
  const char *why = auth->refused_address ? "its address is a private one" : answer->why;
  snprintf(auth->reason, sizeof auth->reason, "%s", why);
}

static void on_fetched(const idem_fetch_answer *answer, void *user) {
  idem_auth *auth = user;
  bool came = answer->status == IDEM_OK;
  auth->fetch = NULL;
  if (!came) keep_reason(auth, answer);
  idem__auth_fetched(auth->flow, came ? answer->http_status : 0, came ? answer->body : "",
                     came ? answer->body_len : 0);
  drive(auth);
}

/* The user named the server, so its own origin may be anywhere. */
static bool may_be_private(const idem_auth *auth, const char *url) {
  idem__auth_url own, other;
  if (auth->anywhere) return true;
  return idem__auth_url_parse(auth->url, &own) && idem__auth_url_parse(url, &other) &&
         idem__text_equal_nocase(own.origin, own.origin_len, other.origin, other.origin_len);
}

/* Secrets are in what is posted: that goes to the one place it was meant for. */
static idem_status fetch(idem_auth *auth, const idem__auth_step *step) {
  idem__buf line;
  const char *body = step->form ? step->form : step->json;
  const char *headers[4] = {"Accept: application/json"};
  size_t count = 1;
  idem__buf_init(&line, &auth->alloc, KEPT_BYTES);
  idem_status status = IDEM_OK;
  if (step->form) headers[count++] = "Content-Type: application/x-www-form-urlencoded";
  if (step->json) headers[count++] = "Content-Type: application/json";
  if (step->authorization) {
    status = idem__buf_printf(&line, "Authorization: %s", step->authorization);
    if (status == IDEM_OK) status = idem__buf_put(&line, "", 1);
    headers[count++] = line.data;
  }
  idem_fetch_opts opts = {.method = body ? "POST" : "GET",
                          .url = step->url,
                          .headers = headers,
                          .body = body,
                          .body_len = body ? strlen(body) : 0,
                          .max_bytes = BODY_BYTES,
                          .total_ms = ANSWER_MS,
                          .redirects = body ? IDEM_REDIRECTS_NONE : IDEM_REDIRECTS_SAME_ORIGIN,
                          .ca_file = auth->ca_file,
                          .proxy = auth->proxy,
                          .may_connect = may_be_private(auth, step->url) ? NULL : is_public,
                          .log = auth->opts.log,
                          .alloc = &auth->alloc};
  auth->refused_address = false;
  auth->reason[0] = 0;
  if (status == IDEM_OK)
    status = idem_fetch_start(auth->runtime->loop, &opts, on_fetched, auth, &auth->fetch);
  if (line.data) wipe(line.data, line.len);
  idem__buf_deinit(&line);
  return status;
}

static void begin_fetch(idem_auth *auth, const idem__auth_step *step) {
  idem_status status = fetch(auth, step);
  if (status == IDEM_OK) return;
  snprintf(auth->reason, sizeof auth->reason, "%s", idem_status_text(status));
  idem__auth_fetched(auth->flow, 0, "", 0);
  auth->again = true;
}

static void on_late(uv_timer_t *timer) {
  give_up(timer->data, "nobody came back from the browser");
}

static void on_waited(uv_timer_t *timer) {
  idem_auth *auth = timer->data;
  idem__auth_waited(auth->flow);
  drive(auth);
}

static void show(idem_auth *auth, const idem__auth_step *step) {
  bool browse = step->want == IDEM__AUTH_BROWSE;
  if (!auth->opts.on_page) {
    give_up(auth, "a person has to allow this in a browser, and nobody can be asked");
    return;
  }
  uint64_t page_ms = auth->opts.page_ms ? auth->opts.page_ms : PAGE_MS;
  uv_timer_start(&auth->timer, browse ? on_late : on_waited, browse ? page_ms : step->wait_ms, 0);
  if (auth->shown) return;
  auth->shown = true;
  auth->opts.on_page(auth, step->url, step->user_code, auth->opts.user);
}

static void act(idem_auth *auth) {
  const idem__auth_step *step = idem__auth_step_of(auth->flow);
  if (auth->unsafe) {
    give_up(auth, "there are no random numbers");
    return;
  }
  switch (step->want) {
  case IDEM__AUTH_FETCH: begin_fetch(auth, step); return;
  case IDEM__AUTH_BROWSE:
  case IDEM__AUTH_WAIT: show(auth, step); return;
  case IDEM__AUTH_DONE: be_done(auth); return;
  case IDEM__AUTH_FAILED: give_up(auth, step->why); return;
  case IDEM__AUTH_IDLE: give_up(auth, "nothing is known of how to go on"); return;
  }
}

/* What happens inside a function of the program's is taken up when that has returned. */
static void drive(idem_auth *auth) {
  auth->again = true;
  if (auth->driving) return;
  auth->driving = true;
  while (auth->again && auth->running && !auth->closing) {
    auth->again = false;
    act(auth);
  }
  auth->driving = false;
}

/* ------------------------------------------------------------------------ refusals */

static bool add_waiting(idem_auth *auth, idem_mcp_refusal *refusal) {
  if (auth->waiting_count == WAITING_MAX) return false;
  if (auth->waiting_count == auth->waiting_room) {
    size_t room = auth->waiting_room ? auth->waiting_room * 2 : 4;
    idem_mcp_refusal **more = idem__calloc(&auth->alloc, room * sizeof *more);
    if (!more) return false;
    if (auth->waiting_count) memcpy(more, auth->waiting, auth->waiting_count * sizeof *more);
    idem__free(&auth->alloc, auth->waiting);
    auth->waiting = more;
    auth->waiting_room = room;
  }
  auth->waiting[auth->waiting_count++] = refusal;
  return true;
}

static idem_status read_challenges(const idem_auth *auth, const idem_mcp_refusal *refusal,
                                   idem__auth_challenge *challenge) {
  const char *header;
  idem_status status = IDEM_OK;
  for (size_t i = 0; i < 16 && (header = idem_mcp_refusal_header(refusal, "WWW-Authenticate", i));
       i++) {
    status = idem__auth_challenge_read(&auth->alloc, header, strlen(header), challenge);
    if (status == IDEM_E_NOMEM) return status;
  }
  return IDEM_OK; /* one that makes no sense is as good as none */
}

/* Another process may have got a token meanwhile. */
static bool loaded(idem_auth *auth) {
  if (!auth->opts.load) return false;
  char *before =
      auth->line.len ? idem__strndup(&auth->alloc, auth->line.data, auth->line.len - 1) : NULL;
  auth->opts.load(auth, auth->opts.user);
  bool other = auth->line.len && (!before || strcmp(before, auth->line.data) != 0);
  if (before) wipe(before, strlen(before));
  idem__free(&auth->alloc, before);
  return other;
}

static void begin(idem_auth *auth, const idem_mcp_refusal *refusal) {
  idem__auth_challenge challenge = {.bearer = false};
  int status = idem_mcp_refusal_status(refusal);
  unsigned count = idem_mcp_refusal_count(refusal);
  auth->running = true;
  auth->shown = false;
  auth->reason[0] = 0;
  idem_status read = read_challenges(auth, refusal, &challenge);
  bool other = read == IDEM_OK && status == 401 && count == 1 && loaded(auth);
  if (!auth->closing && read != IDEM_OK) {
    give_up(auth, "no memory");
  } else if (!auth->closing && other) {
    be_done(auth);
  } else if (!auth->closing) {
    idem__auth_refused(auth->flow, status, &challenge, count == 1);
    drive(auth);
  }
  idem__auth_challenge_deinit(&auth->alloc, &challenge);
}

void idem_auth_refused(idem_auth *auth, idem_mcp_refusal *refusal) {
  bool outdated = idem_mcp_refusal_outdated(refusal) && idem_mcp_refusal_count(refusal) == 1;
  const char *const lines[] = {auth->line.len ? auth->line.data : NULL, NULL};
  if (auth->closing) {
    idem_mcp_refusal_give_up(refusal);
  } else if (!auth->running && outdated && auth->line.len) {
    if (idem_mcp_refusal_retry(refusal, lines) == IDEM_E_INVAL) idem_mcp_refusal_give_up(refusal);
  } else if (!add_waiting(auth, refusal)) {
    snprintf(auth->why, sizeof auth->why, "too many requests wait for a token");
    idem_mcp_refusal_give_up(refusal);
  } else {
    idem_mcp_refusal_keep(refusal);
    if (!auth->running) begin(auth, refusal);
  }
}

idem_status idem_auth_redirected(idem_auth *auth, const char *query, size_t len) {
  bool waits =
      auth->running && !auth->closing && idem__auth_step_of(auth->flow)->want == IDEM__AUTH_BROWSE;
  if (!waits) return IDEM_E_STATE;
  uv_timer_stop(&auth->timer);
  idem__auth_redirected(auth->flow, query, len);
  drive(auth);
  return IDEM_OK;
}

idem_status idem_auth_take(idem_auth *auth, const char *kept, size_t len) {
  idem_status status = idem__auth_flow_take(auth->flow, kept, len);
  if (status == IDEM_OK) put_line(auth);
  return status;
}

const char *idem_auth_line(const idem_auth *auth) {
  return auth->line.len ? auth->line.data : NULL;
}
const char *idem_auth_why(const idem_auth *auth) { return auth->why; }

/* --------------------------------------------------------------------------- making */

static idem_status take_key(idem_auth *auth, const char *pem) {
  char why[256] = "";
  if (!pem) return IDEM_OK;
  const idem__jose_module *jose = idem__module_load("jose", IDEM__JOSE_SYMBOL, why, sizeof why);
  if (jose && jose->version != IDEM__JOSE_VERSION) {
    snprintf(why, sizeof why, "idem-jose.so is not a module of this version");
    jose = NULL;
  }
  if (!jose) {
    idem_logf(auth->opts.log, IDEM_LOG_ERROR, "no signatures", "%s", why);
    return IDEM_E_SYS;
  }
  auth->jose = jose;
  return jose->key_new(pem, strlen(pem), &auth->key);
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
                          .strict_resource = opts->strict_resource,
                          .random = random_bytes,
                          .now_s = now_s,
                          .sign = auth->key ? sign : NULL,
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
  idem__buf_init(&auth->line, &auth->alloc, KEPT_BYTES);
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
