/* auth_refused.c - requests that were refused, and wait together until there is a token or none to be had.
 * See docs/internals/auth.md. */
#include "auth.h"

#include <stdio.h>
#include <string.h>

#define WAITING_MAX 4096u /* refused requests at once */

/* --------------------------------------------------------------------- the waiting */

/* Whoever waits hears of it; what that leads to may be anything, but the list is ours. */
void idem__auth_end_waiting(idem_auth *auth, const char *line) {
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

/* ------------------------------------------------------------------------ beginning */

static idem_status read_challenges(idem_auth *auth, const idem_mcp_refusal *refusal) {
  const char *header;
  idem__auth_challenge_deinit(&auth->alloc, &auth->challenge);
  for (size_t i = 0; i < 16 && (header = idem_mcp_refusal_header(refusal, "WWW-Authenticate", i));
       i++) {
    idem_status status =
        idem__auth_challenge_read(&auth->alloc, header, strlen(header), &auth->challenge);
    if (status == IDEM_E_NOMEM) return status;
  }
  return IDEM_OK; /* one that makes no sense is as good as none */
}

static bool line_changed(idem_auth *auth) {
  const char *before = auth->before;
  return auth->line.len && (!before || strcmp(before, auth->line.data) != 0);
}

static void forget_before(idem_auth *auth) {
  if (auth->before) idem__auth_wipe(auth->before, strlen(auth->before));
  idem__free(&auth->alloc, auth->before);
  auth->before = NULL;
}

/* What another process has got meanwhile is tried first. */
static void go_on(idem_auth *auth) {
  bool other = line_changed(auth);
  bool first = auth->first || auth->other;
  forget_before(auth);
  if (auth->closing) return;
  auth->other = other;
  if (auth->load_fault[0]) {
    idem__auth_give_up(auth, auth->load_fault);
  } else if (other) {
    idem__auth_be_done(auth);
  } else {
    idem__auth_refused(auth->flow, auth->refused_status, &auth->challenge, first);
    idem__auth_drive(auth);
  }
}

static void load(idem_auth *auth) {
  forget_before(auth);
  auth->load_fault[0] = 0;
  if (auth->line.len)
    auth->before = idem__strndup(&auth->alloc, auth->line.data, auth->line.len - 1);
  auth->loading = true;
  if (auth->opts.load) auth->opts.load(auth, auth->opts.user);
  auth->loading = false;
  if (!auth->held) go_on(auth);
}

void idem_auth_hold(idem_auth *auth) { auth->held = auth->loading; }

void idem_auth_loaded(idem_auth *auth, const char *why) {
  if (!auth->held) return;
  auth->held = false;
  snprintf(auth->load_fault, sizeof auth->load_fault, "%s", why ? why : "");
  if (!auth->loading) go_on(auth);
}

/* The server wants its nonce in the proof (RFC 9449, 9). It says nothing against the token. */
static bool lacks_nonce(const idem_auth *auth) {
  static const char bound[] = "Authorization: DPoP ";
  const char *error = auth->challenge.error;
  return error && strcmp(error, "use_dpop_nonce") == 0 && auth->line.len >= sizeof bound &&
         memcmp(auth->line.data, bound, sizeof bound - 1) == 0;
}

/* Before it there may have been no token, and a second time the nonce may have changed. */
static void retry_with_nonce(idem_auth *auth, const idem_mcp_refusal *refusal) {
  const char *nonce = idem_mcp_refusal_header(refusal, "DPoP-Nonce", 0);
  if (!idem__auth_resource_nonce(auth->flow, nonce)) {
    idem__auth_give_up(auth, "the server wants a nonce in proofs (DPoP), and does not say which");
  } else if (idem_mcp_refusal_count(refusal) > 3) {
    idem__auth_give_up(auth, "the server takes none of the nonces that it names for proofs (DPoP)");
  } else {
    auth->other = true;
    idem__auth_be_done(auth);
  }
}

static void begin(idem_auth *auth, const idem_mcp_refusal *refusal) {
  auth->running = true;
  auth->shown = false;
  auth->reason[0] = 0;
  auth->refused_status = idem_mcp_refusal_status(refusal);
  auth->first = idem_mcp_refusal_count(refusal) == 1;
  if (read_challenges(auth, refusal) != IDEM_OK)
    idem__auth_give_up(auth, "no memory");
  else if (lacks_nonce(auth))
    retry_with_nonce(auth, refusal);
  else
    load(auth);
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
