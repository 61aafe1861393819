/* guard_proof.c - requests whose token is bound to a key (RFC 9449): their proof is held against the request at once, its signature is
 * looked at by a thread once the token is known to be good, and then it must be one that was not shown before. So a proof costs a
 * signature only to who has a good token. See docs/internals/auth.md. */
#include "uv/guard.h"

#include <stdio.h>
#include <string.h>

struct idem__proving {
  idem__guard *guard;
  idem__waiter *waiter; /* NULL: nobody waits any more */
  idem__grant *grant;   /* of its token, once that is known */
  idem__proof proof;
  idem__verifying verifying;
  bool working;
  idem_status verified;
  size_t len;
  char text[];
};

/* --------------------------------------------------------------- verdicts */

static void refresh_key(idem__guard *guard) {
  if (guard->proof_rules.nonce_key && guard->key_of_nonces)
    guard->key_of_nonces(guard->key_user, guard->nonce_key);
}

static const char *nonce_line(idem__guard *guard) {
  char nonce[IDEM__NONCE_TEXT];
  if (!guard->proof_rules.nonce_key) return NULL;
  refresh_key(guard);
  idem__nonce_write(guard->proof_rules.nonce_key, idem__guard_now_s(), nonce);
  snprintf(guard->nonce_line, sizeof guard->nonce_line, "DPoP-Nonce: %s\r\n", nonce);
  return guard->nonce_line;
}

static void refuse(idem__guard *guard, idem__http_judgment *verdict, const char *error,
                   const char *why) {
  idem__guard_refuse(
      guard, verdict, 401,
      &(idem__bearer_challenge){
          .proof = true, .error = error, .why = why, .scope = guard->required_scope});
  verdict->headers = nonce_line(guard);
}

static void refuse_proof(idem__guard *guard, idem__http_judgment *verdict, const char *why) {
  refuse(guard, verdict, "invalid_dpop_proof", why);
}

/* It is not this proof's fault: another one may be as good as this, later. */
static void refuse_now(idem__http_judgment *verdict, int status, const char *why) {
  *verdict = (idem__http_judgment){.status = status, .why = why};
  if (status == 429) verdict->headers = "Retry-After: 1\r\n";
}

void idem__guard_share_nonces(idem__guard *guard, idem__nonce_key_fn fn, const void *user) {
  guard->key_of_nonces = fn;
  guard->key_user = user;
  if (guard->proof_rules.nonce_key) guard->proof_rules.nonce_key = guard->nonce_key;
}

/* ----------------------------------------------------------------- reading */

static void free_proving(idem__proving *proving) {
  idem__guard *guard = proving->guard;
  idem__proof_deinit(&proving->proof);
  idem__grant_unref(proving->grant);
  explicit_bzero(proving->text, proving->len);
  idem__free(&guard->alloc, proving);
}

static idem__proving *copy_proof(idem__guard *guard, const char *text, size_t len) {
  idem__proving *proving = idem__calloc(&guard->alloc, sizeof *proving + len + 1);
  if (!proving) return NULL;
  proving->guard = guard;
  proving->len = len;
  memcpy(proving->text, text, len);
  return proving;
}

/* For this request, this token, and now. */
static idem_status check(idem__proving *proving, const idem_http_caller *caller, const char *token,
                         size_t len, const char **why) {
  idem__guard *guard = proving->guard;
  char room[IDEM__TARGET_BYTES];
  idem__view path = idem__http_caller_path(caller);
  idem_buf target;
  idem_status status =
      idem__proof_read(&guard->alloc, proving->text, proving->len, &proving->proof, why);
  if (status != IDEM_OK) return status;
  *why = "the proof is for another URL (htu)";
  idem_buf_fixed(&target, room, sizeof room);
  if (idem__targets_put(&guard->targets, &target, path.at, path.len) != IDEM_OK)
    return IDEM_E_INVAL;
  idem__proof_request request = {.method = idem__http_caller_method(caller),
                                 .target = target.data,
                                 .token = token,
                                 .token_len = len};
  refresh_key(guard);
  return idem__proof_check(&guard->proof_rules, &proving->proof, &request, idem__guard_now_s(),
                           why);
}

static const char *header_fault(const idem_http_caller *caller, const char **text, size_t *len) {
  size_t count = idem__http_caller_count(caller, "DPoP");
  *text = idem_http_caller_header(caller, "DPoP", len);
  if (count > 1) return "there is more than one proof (DPoP)";
  if (!count || !*text || !*len) return "there is no proof (DPoP)";
  return *len > IDEM__PROOF_BYTES ? "the proof is longer than any that is taken" : NULL;
}

idem__proving *idem__proving_new(idem__guard *guard, const idem_http_caller *caller,
                                 const char *token, size_t len, idem__http_judgment *verdict) {
  const char *text, *why;
  size_t text_len;
  const char *fault = header_fault(caller, &text, &text_len);
  if (fault) {
    refuse_proof(guard, verdict, fault);
    return NULL;
  }
  idem__proving *proving = copy_proof(guard, text, text_len);
  idem_status status = proving ? check(proving, caller, token, len, &why) : IDEM_E_NOMEM;
  if (status == IDEM_OK) return proving;
  if (status == IDEM_E_STATE)
    refuse(guard, verdict, "use_dpop_nonce", why);
  else if (status == IDEM_E_INVAL)
    refuse_proof(guard, verdict, why);
  else
    refuse_now(verdict, 503, "the proof cannot be looked at now");
  if (proving) free_proving(proving);
  return NULL;
}

bool idem__proving_fits(idem__proving *proving, const idem__grant *grant,
                        idem__http_judgment *verdict) {
  idem__guard *guard = proving->guard;
  const char *fault = NULL;
  if (!grant->bound)
    fault = guard->protected_.wants_proofs ? "tokens must be bound to a key here (DPoP)"
                                           : "the token is bound to no key: show it as Bearer";
  else if (!idem__equal_secret(grant->key, proving->proof.thumbprint, sizeof grant->key))
    fault = "the token is bound to another key than that of the proof";
  else if (!idem__guard_can_verify(guard))
    fault = "the token is bound to a key, and proofs of that cannot be verified here";
  if (fault) refuse(guard, verdict, "invalid_token", fault);
  return !fault;
}

/* ---------------------------------------------------------------- verifying */

static void on_thread(idem__verifying *self) {
  idem__proving *proving = IDEM_CONTAINER(self, idem__proving, verifying);
  proving->verified = idem__proof_verify(&proving->proof, proving->guard->crypto);
}

/* Shown for the first time; else *verdict. */
static bool is_new(idem__proving *proving, idem__http_judgment *verdict) {
  idem__guard *guard = proving->guard;
  const idem__proof *proof = &proving->proof;
  switch (idem__proofs_add(guard->proofs, proof->number, proving->grant->principal,
                           idem__guard_now_s(), idem__proof_ends_s(&guard->proof_rules, proof))) {
  case IDEM__REPLAY_NEW: return true;
  case IDEM__REPLAY_SEEN: refuse_proof(guard, verdict, "the proof was shown before (jti)"); break;
  case IDEM__REPLAY_SHARE:
    refuse_now(verdict, 429, "more proofs were shown for this caller than are remembered");
    break;
  default: refuse_now(verdict, 503, "more proofs were shown than are remembered"); break;
  }
  return false;
}

static void judge(idem__proving *proving, idem__http_judgment *verdict) {
  idem__guard *guard = proving->guard;
  if (proving->verified == IDEM_E_INVAL) {
    refuse_proof(guard, verdict, "the signature of the proof is wrong");
  } else if (proving->verified != IDEM_OK) {
    refuse_now(verdict, 503, "the proof cannot be looked at now");
  } else if (is_new(proving, verdict)) {
    idem__guard_let_in(guard, verdict, proving->grant, true);
    if (proving->proof.nonce == IDEM__NONCE_AGED) verdict->headers = nonce_line(guard);
  }
}

static void on_verified(idem__verifying *self) {
  idem__proving *proving = IDEM_CONTAINER(self, idem__proving, verifying);
  idem__waiter *waiter = proving->waiter;
  idem__http_judgment verdict;
  proving->working = false;
  if (self->cancelled) proving->verified = IDEM_E_CANCELLED;
  if (!waiter) {
    free_proving(proving);
    return;
  }
  judge(proving, &verdict);
  idem__grant *grant = idem__grant_ref(proving->grant); /* which the verdict names */
  idem__waiter_end(waiter, &verdict);                   /* and the proving with it */
  idem__grant_unref(grant);
}

void idem__proving_begin(idem__waiter *waiter, idem__grant *grant) {
  idem__proving *proving = waiter->proving;
  idem__guard *guard = proving->guard;
  proving->waiter = waiter;
  proving->grant = idem__grant_ref(grant);
  proving->verifying =
      (idem__verifying){.to = &guard->verified, .run = on_thread, .told = on_verified};
  proving->working = true;
  guard->jobs++;
  idem__verifier_queue(&proving->verifying);
}

void idem__proving_leave(idem__proving *proving) {
  if (!proving) return;
  proving->waiter = NULL;
  if (!proving->working)
    free_proving(proving);
  else
    (void)idem__verifier_cancel(&proving->verifying);
}
