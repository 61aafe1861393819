/* auth_drive.c - what a flow wants, done on a loop: fetching, pages that a person is to open, time; and what comes of it.
 * See docs/internals/auth.md. */
#include "auth.h"

#include <stdio.h>
#include <string.h>

#define BODY_BYTES 1048576u
#define ANSWER_MS 30000u
#define PAGE_MS 600000u

/* --------------------------------------------------------------------- one outcome */

bool idem__auth_put_line(idem_auth *auth) {
  const char *value = idem__auth_authorization(auth->flow);
  if (auth->line.data) idem__auth_wipe(auth->line.data, auth->line.len);
  auth->line.len = 0;
  if (!value) return false;
  idem_status status = idem_buf_printf(&auth->line, "Authorization: %s", value);
  if (status == IDEM_OK) status = idem_buf_put(&auth->line, "", 1);
  if (status != IDEM_OK) auth->line.len = 0;
  const char *token = strchr(value, ' ');
  if (auth->opts.log && token) idem_log_add_secret(auth->opts.log, token + 1, strlen(token + 1));
  return status == IDEM_OK;
}

static void save(idem_auth *auth) {
  idem_buf kept;
  if (!auth->opts.save) return;
  idem_buf_init(&kept, &auth->alloc, IDEM__AUTH_KEPT_BYTES);
  if (idem__auth_flow_save(auth->flow, &kept) == IDEM_OK)
    auth->opts.save(auth, kept.data, kept.len, auth->opts.user);
  else
    idem_logf(auth->opts.log, IDEM_LOG_ERROR, "tokens could not be kept", "%s", auth->url);
  if (kept.data) idem__auth_wipe(kept.data, kept.cap);
  idem_buf_deinit(&kept);
}

void idem__auth_give_up(idem_auth *auth, const char *why) {
  bool more = auth->reason[0];
  snprintf(auth->why, sizeof auth->why, "%s%s%s", why, more ? ": " : "", more ? auth->reason : "");
  idem_logf(auth->opts.log, IDEM_LOG_WARN, "a request was refused", "%s: %s", auth->url, auth->why);
  uv_timer_stop(&auth->timer);
  idem__auth_put_line(auth);
  save(auth);
  idem__auth_end_waiting(auth, NULL);
}

void idem__auth_be_done(idem_auth *auth) {
  idem_buf line;
  uv_timer_stop(&auth->timer);
  auth->reason[0] = 0;
  if (!idem__auth_put_line(auth)) {
    idem__auth_give_up(auth, "no memory");
    return;
  }
  auth->why[0] = 0;
  save(auth);
  idem_buf_init(&line, &auth->alloc, auth->line.len); /* it may be another before the last has it */
  bool copied = idem_buf_put(&line, auth->line.data, auth->line.len) == IDEM_OK;
  idem__auth_end_waiting(auth, copied ? line.data : NULL);
  if (line.data) idem__auth_wipe(line.data, line.len);
  idem_buf_deinit(&line);
}

/* --------------------------------------------------------------------------- steps */

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
  if (came) idem__auth_server_nonce(auth->flow, idem_fetch_header(answer, "DPoP-Nonce"));
  idem__auth_fetched(auth->flow, came ? answer->http_status : 0, came ? answer->body : "",
                     came ? answer->body_len : 0);
  idem__auth_drive(auth);
}

/* The user named the server, so its own origin may be anywhere. */
static bool may_be_private(const idem_auth *auth, const char *url) {
  idem__auth_url own, other;
  if (auth->anywhere) return true;
  return idem__auth_url_parse(auth->url, &own) && idem__auth_url_parse(url, &other) &&
         idem__text_equal_nocase(own.origin, own.origin_len, other.origin, other.origin_len);
}

static idem_status put_header(idem_buf *line, const char *name, const char *value) {
  idem_status status = idem_buf_printf(line, "%s: %s", name, value);
  return status == IDEM_OK ? idem_buf_put(line, "", 1) : status;
}

/* Secrets are in what is posted: that goes to the one place it was meant for. */
static idem_status fetch(idem_auth *auth, const idem__auth_step *step) {
  idem_buf line, proof;
  const char *body = step->form ? step->form : step->json;
  const char *headers[5] = {"Accept: application/json"};
  size_t count = 1;
  idem_buf_init(&line, &auth->alloc, IDEM__AUTH_KEPT_BYTES);
  idem_buf_init(&proof, &auth->alloc, 16384);
  idem_status status = IDEM_OK;
  if (step->form) headers[count++] = "Content-Type: application/x-www-form-urlencoded";
  if (step->json) headers[count++] = "Content-Type: application/json";
  if (step->authorization) {
    status = put_header(&line, "Authorization", step->authorization);
    headers[count++] = line.data;
  }
  if (status == IDEM_OK && step->proof) {
    status = put_header(&proof, "DPoP", step->proof);
    headers[count++] = proof.data;
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
  if (line.data) idem__auth_wipe(line.data, line.len);
  idem_buf_deinit(&line);
  idem_buf_deinit(&proof);
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
  idem__auth_give_up(timer->data, "nobody came back from the browser");
}

static void on_waited(uv_timer_t *timer) {
  idem_auth *auth = timer->data;
  idem__auth_waited(auth->flow);
  idem__auth_drive(auth);
}

static void show(idem_auth *auth, const idem__auth_step *step) {
  bool browse = step->want == IDEM__AUTH_BROWSE;
  if (!auth->opts.on_page) {
    idem__auth_give_up(auth, "a person has to allow this in a browser, and nobody can be asked");
    return;
  }
  uint64_t page_ms = auth->opts.page_ms ? auth->opts.page_ms : PAGE_MS;
  uv_timer_start(&auth->timer, browse ? on_late : on_waited, browse ? page_ms : step->wait_ms, 0);
  if (auth->shown) return;
  auth->shown = true;
  auth->opts.on_page(auth, step->url, step->user_code, auth->opts.user);
}

/* Only who logs out comes to where nothing is left to do. */
static void leave(idem_auth *auth) {
  void (*done)(idem_auth *, bool, void *) = auth->on_left;
  if (!done) {
    idem__auth_give_up(auth, "nothing is known of how to go on");
    return;
  }
  auth->on_left = NULL;
  auth->running = false;
  done(auth, idem__auth_revoked(auth->flow), auth->opts.user);
}

static void act(idem_auth *auth) {
  const idem__auth_step *step = idem__auth_step_of(auth->flow);
  if (auth->unsafe) {
    idem__auth_give_up(auth, "there are no random numbers");
    return;
  }
  switch (step->want) {
  case IDEM__AUTH_FETCH: begin_fetch(auth, step); return;
  case IDEM__AUTH_BROWSE:
  case IDEM__AUTH_WAIT: show(auth, step); return;
  case IDEM__AUTH_DONE: idem__auth_be_done(auth); return;
  case IDEM__AUTH_FAILED: idem__auth_give_up(auth, step->why); return;
  case IDEM__AUTH_IDLE: leave(auth); return;
  }
}

void idem__auth_drive(idem_auth *auth) {
  auth->again = true;
  if (auth->driving) return;
  auth->driving = true;
  while (auth->again && auth->running && !auth->closing) {
    auth->again = false;
    act(auth);
  }
  auth->driving = false;
}
