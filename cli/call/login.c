/* login.c - see login.h. The lock on the file of tokens is held from the moment that tokens are about to be asked for until they
 * are kept, and not while a person is in a browser. */
#include "login.h"
#include "browser.h"
#include "cache.h"
#include "kept.h"
#include "token_clients.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LOCK_STEP_MS 20u
#define LOCK_MOST_MS 60000u

/* --------------------------------------------------------------------- what is kept */

/* The file as it is now; false: there is none that may be read. */
static bool look(call_login *self, text *out) {
  token_file file = token_store_read(&self->store, out);
  if (file == TOKEN_FILE_REFUSED && !self->warned) call_say("%s", self->store.why);
  self->warned = self->warned || file == TOKEN_FILE_REFUSED;
  return file == TOKEN_FILE_READ;
}

/* A token that --scope was not asked with is none for this call. */
static bool lacks_scope(const call_login *self, const text *kept) {
  return self->options->scope && kept_lacks_scope(kept, self->options->scope);
}

static void take_what_is_kept(call_login *self) {
  text now = {.data = NULL};
  kept_wipe(&self->seen);
  if (look(self, &now)) {
    text_put(&self->seen, now.data, now.len);
    if (lacks_scope(self, &now)) kept_drop_tokens(&now);
    if (idem_auth_take(self->auth, now.data, now.len) != IDEM_OK) kept_wipe(&self->seen);
  }
  kept_wipe(&now);
  text_free(&now);
}

/* ------------------------------------------------------------------------- the lock */

/* The file as it is under the lock. Without one a refresh token could be spent twice, or lost: where there is something to
 * lose, nothing is asked. NULL: go on. */
static const char *read_again(call_login *self, token_lock got) {
  if (got == TOKEN_LOCK_REFUSED && self->seen.len) return self->store.why;
  take_what_is_kept(self);
  return NULL;
}

static void on_lock_timer(uv_timer_t *timer) {
  call_login *self = timer->data;
  token_lock got = token_store_lock(&self->store);
  bool late = uv_now(self->loop) >= self->wait_until;
  if (got == TOKEN_LOCK_BUSY && !late) return;
  uv_timer_stop(timer);
  if (got == TOKEN_LOCK_BUSY) {
    idem_auth_loaded(self->auth, "another process has been busy with the tokens for a minute");
    return;
  }
  idem_auth_loaded(self->auth, read_again(self, got));
}

/* Two processes that saw the same token expire: the second waits, and finds what the first has got. */
static void load(idem_auth *auth, void *user) {
  call_login *self = user;
  token_lock got = token_store_lock(&self->store);
  idem_auth_hold(auth);
  if (got != TOKEN_LOCK_BUSY) {
    idem_auth_loaded(auth, read_again(self, got));
    return;
  }
  self->wait_until = uv_now(self->loop) + LOCK_MOST_MS;
  uv_timer_start(&self->waiting, on_lock_timer, LOCK_STEP_MS, LOCK_STEP_MS);
}

/* --------------------------------------------------------------------------- keeping */

static void tell_end(call_login *self, const text *kept) {
  char issuer[512], path[2400];
  if (!self->page || !kept_has_token(kept)) return;
  token_store_name(&self->store, path, sizeof path);
  call_say("logged in at %s; kept in %s",
           kept_says(kept, "client_issuer", issuer, sizeof issuer) ? issuer : "the server", path);
}

static void end_waiting(call_login *self) {
  self->over = true;
  paste_stop(self->pasted);
  self->pasted = NULL;
}

/* What was refused is forgotten, unless another process has got something newer meanwhile. */
static bool is_outdone(call_login *self, const text *ours) {
  text now = {.data = NULL};
  bool newer = !kept_has_token(ours) && look(self, &now) && kept_has_token(&now) &&
               (now.len != self->seen.len || memcmp(now.data, self->seen.data, now.len) != 0);
  kept_wipe(&now);
  text_free(&now);
  return newer;
}

/* With whom --client named, today or when it was kept. */
static void put_kept(const call_login *self, const char *kept, size_t len, text *out) {
  char named[512];
  text_put(out, kept, len);
  if (self->client.id)
    kept_name_client(out, self->client.id);
  else if (kept_says(&self->seen, "client", named, sizeof named))
    kept_name_client(out, named);
}

static void save(idem_auth *auth, const char *kept, size_t len, void *user) {
  call_login *self = user;
  text ours = {.data = NULL};
  (void)auth;
  put_kept(self, kept, len, &ours);
  bool same = ours.len == self->seen.len && memcmp(ours.data, self->seen.data, ours.len) == 0;
  bool worth = kept_has_token(&ours) || self->seen.len;
  if (!same && worth && !self->warned && !is_outdone(self, &ours)) {
    if (token_store_write(&self->store, ours.data, ours.len))
      tell_end(self, &ours);
    else
      call_say("the tokens cannot be kept: %s", self->store.why);
    kept_wipe(&self->seen);
    text_put(&self->seen, ours.data, ours.len);
  }
  if (self->page || self->options->scope)
    cache_forget(self->target); /* who asks now may be shown other tools */
  kept_wipe(&ours);
  text_free(&ours);
  token_store_unlock(&self->store);
  end_waiting(self);
}

/* ------------------------------------------------------------------------ the person */

static bool state_of(const char *page, char *out, size_t size) {
  const char *query = strchr(page, '?');
  return query && callback_value(query + 1, strlen(query + 1), "state", out, size);
}

/* Only who was sent to the page knows the state that stands in it; the flow compares it once more. */
static bool is_answer(const char *query, size_t len, void *user) {
  const call_login *self = user;
  char wanted[128], got[128];
  if (!self->page || self->over || !state_of(self->page, wanted, sizeof wanted)) return false;
  if (!callback_value(query, len, "state", got, sizeof got)) return false;
  unsigned differs = strlen(wanted) != strlen(got);
  for (size_t i = 0; wanted[i] && got[i]; i++) differs |= (unsigned)(wanted[i] ^ got[i]);
  return !differs;
}

static void took_answer(const char *query, size_t len, void *user) {
  call_login *self = user;
  end_waiting(self);
  if (self->auth) (void)idem_auth_redirected(self->auth, query, len);
}

/* The whole address, or what stands behind its question mark. */
static bool took_paste(const char *line, size_t len, void *user) {
  call_login *self = user;
  const char *question = memchr(line, '?', len);
  if (question) {
    len -= (size_t)(question + 1 - line);
    line = question + 1;
  }
  const char *end = memchr(line, '#', len);
  if (end) len = (size_t)(end - line);
  while (len && strchr(" \t\r", line[len - 1])) len--;
  if (!len) return false;
  if (!is_answer(line, len, self)) {
    call_say("this is not the address that the browser ended at after the page above");
    return false;
  }
  char *copy = strndup(line, len);
  if (!copy) memory_exhausted();
  took_answer(copy, len, self);
  free(copy);
  return true;
}

static void show_page(const char *page) {
  fputs("\n  ", stderr);
  text_show_line(stderr, page, strlen(page), 65536);
  fputs("\n\n", stderr);
}

static bool may_paste(const call_login *self) {
  return !self->options->no_input && paste_possible();
}

static void tell_page(const call_login *self, const char *user_code) {
  call_say("%s wants to know who asks. Open this page in a browser%s:", self->target->url,
           user_code ? " on any machine" : "");
  show_page(self->page);
  if (user_code) {
    call_say("the code to type there, or to compare: %s", user_code);
    call_say("waiting for you to allow it; Ctrl-C gives up");
  } else {
    call_say("waiting for it to come back to %s; Ctrl-C gives up", callback_uri(self->back));
    if (may_paste(self))
      call_say("from a browser on another machine: paste the address that it ends at (not shown)");
  }
}

static void on_page(idem_auth *auth, const char *page, const char *user_code, void *user) {
  call_login *self = user;
  (void)auth;
  token_store_unlock(&self->store);
  free(self->page);
  self->page = strdup(page);
  if (!self->page) memory_exhausted();
  self->over = false;
  tell_page(self, user_code);
  if (self->options->open) browser_open(self->loop, page);
  if (user_code || !may_paste(self)) return;
  self->pasted = paste_start(self->loop, "address: ", took_paste, self);
}

/* --------------------------------------------------------------------------- opening */

static bool has_authorization(const call_target *target) {
  for (size_t i = 0; target->headers[i]; i++)
    if (strncasecmp(target->headers[i], "Authorization:", 14) == 0) return true;
  return target->token;
}

static bool refuse(const char *what, const char *why) {
  call_say("%s: %s", what, why);
  return false;
}

static bool asks_person(const call_options *options) { return options->login || options->device; }

static bool wants_login(const call_options *options) {
  return asks_person(options) || options->client || options->stored_only;
}

/* Tokens are for MCP over HTTP, and for who has none of another kind. */
static bool may_log_in(const call_login *self, bool *fits) {
  const char *url = self->target->url;
  bool web = url && (strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0);
  bool given = has_authorization(self->target);
  *fits = web && !given && self->options->profile == IDEM_PROFILE_MCP;
  if (*fits || !wants_login(self->options)) return true;
  if (given) return refuse("logging in", "there is a token or an Authorization header already");
  return refuse(self->target->said, "tokens are for MCP servers at http and https URLs");
}

static idem_auth_grant grant_of(const call_login *self) {
  if (self->options->login) return IDEM_AUTH_CODE;
  bool own = self->client.secret || self->client.key;
  return own && !self->options->device && !self->options->stored_only ? IDEM_AUTH_CLIENT_CREDENTIALS
                                                                      : IDEM_AUTH_DEVICE;
}

/* The port of the last time, where it is free: servers compare redirect URIs. */
static bool listen_for_browser(call_login *self) {
  const callback_hooks hooks = {.is_answer = is_answer, .took = took_answer, .user = self};
  const char *wanted = self->options->redirect;
  char before[512];
  if (!wanted && kept_says(&self->seen, "registered_for", before, sizeof before) &&
      callback_fits(before))
    self->back = callback_start(self->loop, before, &hooks, NULL);
  if (!self->back) self->back = callback_start(self->loop, wanted, &hooks, self->log);
  return self->back ||
         refuse(wanted ? wanted : "127.0.0.1", "nobody can listen there for the browser");
}

static bool make_auth(call_login *self) {
  const call_options *options = self->options;
  bool document = secret_client_is_document(&self->client);
  idem_auth_opts opts = {.url = self->target->url,
                         .grant = grant_of(self),
                         .client_id = document ? NULL : self->client.id,
                         .client_document = document ? self->client.id : NULL,
                         .client_secret = self->client.secret,
                         .private_key = self->client.key,
                         .client_name = "idem call",
                         .redirect_uri = self->back ? callback_uri(self->back) : NULL,
                         .scope = options->scope,
                         .refresh = true,
                         .private_addresses = options->private_issuer,
                         .ca_file = options->ca_file,
                         .on_page = asks_person(options) ? on_page : NULL,
                         .load = load,
                         .save = save,
                         .user = self,
                         .log = self->log};
  opts.kept_only = !asks_person(options) && opts.grant != IDEM_AUTH_CLIENT_CREDENTIALS;
  idem_status status = idem_auth_new(self->loop, &opts, &self->auth);
  if (status == IDEM_OK) return true;
  if (status == IDEM_E_INVAL && self->client.key)
    return refuse("--client", "the key is no private key in PEM of P-256 or RSA");
  return refuse(self->target->url, idem_status_text(status));
}

/* Without --client: what was kept of another client may be used, too, but it must be clear of which. */
static bool choose_client(call_login *self) {
  token_clients *all = memory_zeroed(&self->target->memory, 1, sizeof *all);
  size_t plain = strlen(self->store.stem);
  if (self->client.id || asks_person(self->options)) return true;
  self->unclear = !token_clients_choose(&self->store, all);
  self->borrowed = strlen(self->store.stem) != plain;
  return !self->unclear || refuse(self->target->url, self->store.why);
}

/* False: there is a file, or a folder, that may not be used; or one of several clients must be named. */
static bool find_kept(call_login *self, bool *found) {
  text kept = {.data = NULL};
  *found = false;
  if (!token_store_open(&self->store, self->target->url, self->client.id))
    return refuse("tokens", self->store.why);
  if (!choose_client(self)) return false;
  *found = look(self, &kept) && kept_has_token(&kept);
  text_put(&self->seen, kept.data ? kept.data : "", kept.len);
  kept_wipe(&kept);
  text_free(&kept);
  return !self->warned;
}

static void tell_borrowed(const call_login *self) {
  char name[512];
  kept_client(&self->seen, name, sizeof name);
  call_say("with the token that is kept of the client %s", name);
}

static bool begin_login(call_login *self) {
  uv_timer_init(self->loop, &self->waiting);
  self->waiting.data = self;
  self->opened = true;
  if (self->options->login && !listen_for_browser(self)) return false;
  if (!make_auth(self)) return false;
  take_what_is_kept(self);
  if (asks_person(self->options) && idem_auth_line(self->auth))
    call_say("a login is kept, and is used while it is good (--logout forgets it)");
  if (self->borrowed && self->options->verbose) tell_borrowed(self);
  return true;
}

/* A call that does not care for a login goes on without, whatever is wrong with what is kept; but not where it is open as whom. */
bool login_open(call_login *self, const call_options *options, call_target *target, uv_loop_t *loop,
                idem_log *log) {
  bool fits, found, optional = !wants_login(options);
  *self = (call_login){.options = options,
                       .target = target,
                       .loop = loop,
                       .log = log,
                       .store = {.folder = -1, .lock = -1}};
  if (!may_log_in(self, &fits)) return false;
  if (!fits) return true;
  if (options->client && !secret_client(&target->memory, options->client, &self->client))
    return false;
  if (!find_kept(self, &found)) return optional && !self->unclear;
  bool own = self->client.secret || self->client.key;
  if (found || asks_person(options) || (own && !options->stored_only)) return begin_login(self);
  return optional || refuse(target->url, "nobody is logged in there: --login");
}

/* A person is asked once in a run: whoever did not want to, or could not, is not shown the page again. */
static bool was_in_vain(const call_login *self) { return self->page && *login_why(self); }

static void take_refusal(const call_login *self, idem_mcp_refusal *refusal) {
  if (self->knocking) idem_mcp_refusal_not_again(refusal);
  idem_auth_refused(self->auth, refusal);
}

/* Neither a step up nor the wish for a nonce says anything against the token. */
static bool names_other(const idem_mcp_refusal *refusal) {
  const char *line;
  for (size_t i = 0; (line = idem_mcp_refusal_header(refusal, "WWW-Authenticate", i)); i++)
    if (strstr(line, "insufficient_scope") || strstr(line, "use_dpop_nonce")) return true;
  return false;
}

/* A page was allowed for this request, and the token that came of it is not good either: nor would the next one be. */
static bool is_hopeless(const call_login *self, const idem_mcp_refusal *refusal) {
  return self->page && self->over && idem_mcp_refusal_status(refusal) == 401 &&
         idem_mcp_refusal_count(refusal) > 1 && !idem_mcp_refusal_outdated(refusal) &&
         !names_other(refusal);
}

static void keep_challenge(call_login *self, const idem_mcp_refusal *refusal) {
  const char *said = idem_mcp_refusal_header(refusal, "WWW-Authenticate", 0);
  snprintf(self->challenge, sizeof self->challenge, "%.1000s", said ? said : "");
}

static void on_refused(idem_mcp_client *client, idem_mcp_refusal *refusal, void *user) {
  call_login *self = login_of(user);
  (void)client;
  keep_challenge(self, refusal);
  if (is_hopeless(self, refusal)) self->hopeless = true;
  if (self->auth && !was_in_vain(self) && !self->hopeless)
    take_refusal(self, refusal);
  else
    idem_mcp_refusal_give_up(refusal);
}

static void on_sending(idem_mcp_client *client, idem_mcp_sending *sending, void *user) {
  const call_login *self = login_of(user);
  (void)client;
  if (self->auth) idem_auth_sending(self->auth, sending);
}

static void on_answered(idem_mcp_client *client, const idem_mcp_answered *answered, void *user) {
  const call_login *self = login_of(user);
  (void)client;
  if (self->auth) idem_auth_answered(self->auth, answered);
}

/* The target's headers with the token's behind them. */
static const char *const *headers_with(call_login *self) {
  size_t count = 0;
  const char *line = self->auth ? idem_auth_line(self->auth) : NULL;
  if (!line) return self->target->headers;
  while (self->target->headers[count]) count++;
  const char **all = memory_zeroed(&self->target->memory, count + 2, sizeof *all);
  memcpy(all, self->target->headers, count * sizeof *all);
  all[count] = memory_text(&self->target->memory, line, strlen(line));
  return all;
}

void login_declare(call_login *self, idem_mcp_client_opts *opts, idem_client_opts *wire) {
  opts->on_refused = on_refused;
  if (!self->auth) return;
  opts->on_sending = on_sending;
  opts->on_answered = on_answered;
  wire->headers = headers_with(self);
}

void login_lend(call_login *self) {
  const char *line = self->auth ? idem_auth_line(self->auth) : NULL;
  if (line && strncmp(line, "Authorization: DPoP ", 20) == 0)
    call_say("--bench: the server wants a proof with each request (DPoP), which is not made here");
  self->target->headers = headers_with(self);
}

void login_note(const call_login *self) {
  if (self->auth && asks_person(self->options) && !self->page && !idem_auth_line(self->auth))
    call_say("the server did not ask who you are: nobody is logged in");
}

const char *login_why(const call_login *self) {
  if (self->hopeless) return "the server refuses the token that it has just asked for (401)";
  return self->auth ? idem_auth_why(self->auth) : "";
}

void login_flags(const call_login *self, char *out, size_t size) {
  char name[512];
  bool open = kept_is_public(&self->seen);
  if (self->borrowed && kept_client(&self->seen, name, sizeof name))
    snprintf(out, size, "--client %.200s%s", name, open ? " --login" : ":REFERENCE");
  else
    snprintf(out, size, "--login");
}

void login_close(call_login *self) {
  if (self->closed) return;
  self->closed = true;
  end_waiting(self);
  idem_auth_free(self->auth);
  self->auth = NULL;
  callback_stop(self->back);
  self->back = NULL;
  token_store_close(&self->store);
  if (self->opened) uv_close((uv_handle_t *)&self->waiting, NULL);
  kept_wipe(&self->seen);
  text_free(&self->seen);
  free(self->page);
  self->page = NULL;
}
