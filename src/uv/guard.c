/* guard.c - requests with tokens: one that is known goes on at once, any other waits (decision 0013) while its key is fetched, a
 * thread looks at its signature, or a server is asked about it. One token is looked at once, however many bring it.
 * Everything that waits is bounded, of one client, too. See docs/internals/auth.md. */
#include "uv/guard.h"
#include "modules/jose/jose.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define WAITING_MAX                                                                                \
  896u /* requests of a loop; some of idem_http_opts.max_waiting is left for others */
#define CLIENT_WAITING_MAX 640u
#define JOBS_MAX 1024u /* on other threads, those of requests that have gone included */
#define CHALLENGE_BYTES 7168u

uint64_t idem__guard_now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec;
}

/* --------------------------------------------------------------- verdicts */

void idem__guard_refuse(idem__guard *guard, idem__http_judgment *verdict, int status,
                        const idem__bearer_challenge *challenge) {
  *verdict = (idem__http_judgment){.status = status, .why = challenge->why};
  if (status >= 500) return;
  guard->line.len = 0;
  if (idem__protected_challenge(&guard->protected_, &guard->line, challenge) == IDEM_OK)
    verdict->challenge = guard->line.data;
}

static void refuse_token(idem__guard *guard, idem__http_judgment *verdict, int status, bool proof,
                         const char *why) {
  idem__guard_refuse(
      guard, verdict, status,
      &(idem__bearer_challenge){
          .proof = proof, .error = "invalid_token", .why = why, .scope = guard->required_scope});
}

/* All that it has and all that it needs, so that who asks for that loses nothing. */
static void refuse_scope(idem__guard *guard, idem__http_judgment *verdict, const idem__grant *grant,
                         bool proof) {
  idem_buf all;
  idem_buf_init(&all, &guard->alloc, CHALLENGE_BYTES / 2);
  idem_status status = idem__scope_add(&all, grant->scope, strlen(grant->scope));
  if (status == IDEM_OK)
    status = idem__scope_add(&all, guard->required_scope, strlen(guard->required_scope));
  idem__guard_refuse(
      guard, verdict, 403,
      &(idem__bearer_challenge){.proof = proof,
                                .error = "insufficient_scope",
                                .why = "the token does not reach so far",
                                .scope = status == IDEM_OK ? all.data : guard->required_scope});
  verdict->reason = "insufficient-scope";
  idem_buf_deinit(&all);
}

/* A token that is bound to a key may be stolen, for all that it shows without a proof. */
static const char *showing_fault(const idem__guard *guard, const idem__grant *grant, bool proven) {
  if (grant->bound && !proven) return "the token is bound to a key: show it as DPoP, with a proof";
  if (!grant->bound && guard->protected_.wants_proofs)
    return "tokens must be bound to a key here (DPoP)";
  return NULL;
}

void idem__guard_let_in(idem__guard *guard, idem__http_judgment *verdict, idem__grant *grant,
                        bool proven) {
  const char *fault = showing_fault(guard, grant, proven);
  if (fault)
    refuse_token(guard, verdict, 401, proven, fault);
  else if (idem__scope_covers(grant->scope, guard->required_scope))
    *verdict = (idem__http_judgment){.principal = grant->principal, .grant = grant};
  else
    refuse_scope(guard, verdict, grant, proven);
}

/* --------------------------------------------------------------- askings */

/* Whoever comes with its token now begins anew. */
static void leave_map(idem__asking *asking) {
  idem_map *map = &asking->guard->by_digest;
  const char *key = (const char *)&asking->digest;
  if (idem_map_get(map, key, sizeof asking->digest) == asking)
    idem_map_remove(map, key, sizeof asking->digest);
}

static void free_asking(idem__asking *asking) {
  idem__guard *guard = asking->guard;
  leave_map(asking);
  if (guard->next_asking == &asking->link) guard->next_asking = asking->link.next;
  idem_list_remove(&asking->link);
  idem__token_deinit(&asking->token);
  idem__key_unref(asking->key);
  explicit_bzero(asking->text, asking->len);
  idem__free(&guard->alloc, asking);
}

static void free_waiter(idem__waiter *waiter) {
  idem__guard *guard = waiter->guard;
  idem_list_remove(&waiter->link);
  if (waiter->stay) waiter->stay->waiter = NULL;
  guard->waiting--;
  idem__free(&guard->alloc, waiter);
}

void idem__waiter_end(idem__waiter *waiter, const idem__http_judgment *verdict) {
  idem_http_wait *wait = waiter->wait;
  idem__proving_leave(waiter->proving);
  free_waiter(waiter);
  idem__http_resume(wait, verdict);
}

static void tell_stay(idem__waiter *waiter, const idem__asking *asking,
                      const idem__http_judgment *verdict) {
  idem__http_stay *stay = waiter->stay;
  free_waiter(waiter);
  idem__stay_told(asking->guard, stay, asking->text, verdict);
}

/* Something that was let in before, with a proof where the token is bound: to the same key still. */
static bool was_proven(const idem__http_stay *stay, const idem__grant *grant) {
  return grant->bound && stay->grant->bound &&
         idem__equal_secret(grant->key, stay->grant->key, sizeof grant->key);
}

/* Its token is good: who brought a proof as well waits for that. */
static void take_grant(idem__waiter *waiter, idem__asking *asking, idem__grant *grant) {
  idem__guard *guard = waiter->guard;
  idem__http_judgment verdict;
  if (waiter->stay) {
    idem__guard_let_in(guard, &verdict, grant, was_proven(waiter->stay, grant));
    tell_stay(waiter, asking, &verdict);
  } else if (!waiter->proving) {
    idem__guard_let_in(guard, &verdict, grant, false);
    idem__waiter_end(waiter, &verdict);
  } else if (idem__proving_fits(waiter->proving, grant, &verdict)) {
    idem_list_remove(&waiter->link);
    idem_list_append(&guard->provers, &waiter->link);
    waiter->asking = NULL;
    idem__proving_begin(waiter, grant);
  } else {
    idem__waiter_end(waiter, &verdict);
  }
}

/* Who hears of it may end others that wait for it: it lasts until all have heard, and whoever comes now begins anew. */
static void begin_telling(idem__asking *asking) {
  asking->step = IDEM__ASKING_TOLD;
  leave_map(asking);
}

void idem__asking_accept(idem__asking *asking, idem__grant *grant) {
  begin_telling(asking);
  while (!idem_list_empty(&asking->waiters))
    take_grant(IDEM_CONTAINER(asking->waiters.next, idem__waiter, link), asking, grant);
  free_asking(asking);
}

void idem__asking_refuse(idem__asking *asking, int status, const char *why) {
  begin_telling(asking);
  while (!idem_list_empty(&asking->waiters)) {
    idem__waiter *waiter = IDEM_CONTAINER(asking->waiters.next, idem__waiter, link);
    idem__http_judgment verdict;
    refuse_token(asking->guard, &verdict, status, waiter->proving != NULL, why);
    if (waiter->stay)
      tell_stay(waiter, asking, &verdict);
    else
      idem__waiter_end(waiter, &verdict);
  }
  free_asking(asking);
}

void idem__asking_fail(idem__asking *asking) {
  asking->step = IDEM__ASKING_FAILED;
  idem__guard_hurry(asking->guard);
}

/* Nobody waits for it any more. What a thread has begun to look at is remembered all the same. */
static void abandon(idem__asking *asking) {
  idem__guard *guard = asking->guard;
  bool asked = asking->step == IDEM__ASKING_SERVER;
  if (asking->step == IDEM__ASKING_TOLD) return;
  if (asking->step == IDEM__ASKING_SIGNATURE) {
    if (idem__verifier_cancel(&asking->verifying)) leave_map(asking);
    return;
  }
  idem_fetch_cancel(asking->fetch);
  free_asking(asking);
  if (!asked) return;
  guard->servers_asked--;
  idem__guard_next_turn(guard);
}

static void on_gone(void *user) {
  idem__waiter *waiter = user;
  idem__asking *asking = waiter->asking;
  idem_http_wait *wait = waiter->wait;
  idem__proving_leave(waiter->proving);
  free_waiter(waiter);
  idem_http_resume(wait, 503, NULL); /* nobody hears it: the handle goes */
  if (asking && idem_list_empty(&asking->waiters)) abandon(asking);
}

/* -------------------------------------------------------------- signatures */

static void close_verified(idem__guard *guard);

static void on_thread(idem__verifying *self) {
  idem__asking *asking = IDEM_CONTAINER(self, idem__asking, verifying);
  idem__signed token = idem__token_signed(&asking->token);
  asking->verified = asking->key->crypto->verify(asking->key->handle, &token);
}

static void unref_key(void *key) { idem__key_unref(key); }

static void take_verified(idem__asking *asking) {
  idem__guard *guard = asking->guard;
  idem__grant *grant = NULL;
  const char *why = "the signature of the token is wrong";
  idem_status status = asking->verified;
  if (atomic_load_explicit(&asking->key->retired, memory_order_relaxed)) status = IDEM_E_INVAL;
  if (status == IDEM_OK)
    status = idem__token_grant(&guard->rules, &guard->alloc, &asking->token, &grant, &why);
  if (status == IDEM_OK) {
    idem__grant_vouch(grant, idem__key_ref(asking->key), unref_key);
    idem__remembered_add(&guard->remembered, asking->digest, grant, asking->key, UINT64_MAX);
    idem__asking_accept(asking, grant);
  } else {
    idem__asking_refuse(asking, status == IDEM_E_INVAL ? 401 : 503,
                        status == IDEM_E_INVAL ? why : "the token cannot be looked at now");
  }
  idem__grant_unref(grant);
}

static void on_asking_verified(idem__verifying *self) {
  idem__asking *asking = IDEM_CONTAINER(self, idem__asking, verifying);
  if (self->cancelled) asking->verified = IDEM_E_CANCELLED;
  take_verified(asking);
}

static void on_verified(void *user) {
  idem__guard *guard = user;
  for (idem__verifying *one; (one = idem__verified_next(&guard->verified));) {
    guard->jobs--;
    one->told(one);
  }
  if (guard->closing && !guard->jobs) close_verified(guard);
}

void idem__asking_verify(idem__asking *asking, idem__key *key) {
  idem__guard *guard = asking->guard;
  asking->key = idem__key_ref(key);
  asking->step = IDEM__ASKING_SIGNATURE;
  asking->verifying =
      (idem__verifying){.to = &guard->verified, .run = on_thread, .told = on_asking_verified};
  guard->jobs++;
  idem__verifier_queue(&asking->verifying);
}

/* ------------------------------------------------------------- newcomers */

static size_t count_client(const idem_list *waiters, const idem__ip *client) {
  size_t same = 0;
  for (const idem_list *at = waiters->next; at != waiters; at = at->next)
    same += memcmp(&IDEM_CONTAINER(at, idem__waiter, link)->client, client, sizeof *client) == 0;
  return same;
}

static bool may_wait(const idem__guard *guard, const idem__ip *client) {
  if (guard->waiting >= WAITING_MAX || guard->jobs >= JOBS_MAX) return false;
  if (guard->waiting < CLIENT_WAITING_MAX) return true;
  size_t same = count_client(&guard->provers, client);
  for (const idem_list *at = guard->askings.next; at != &guard->askings; at = at->next)
    same += count_client(&IDEM_CONTAINER(at, idem__asking, link)->waiters, client);
  return same < CLIENT_WAITING_MAX;
}

/* With its token's asking, or (NULL) for its proof alone. */
static idem__waiter *add_waiter(idem__guard *guard, idem__asking *asking,
                                const idem_http_caller *caller, idem__proving *proving) {
  idem__ip client = idem__ip_client(idem__http_caller_client(caller));
  if (!may_wait(guard, &client)) return NULL;
  idem__waiter *waiter = idem__malloc(&guard->alloc, sizeof *waiter);
  if (!waiter) return NULL;
  *waiter = (idem__waiter){.guard = guard, .asking = asking, .client = client, .proving = proving};
  waiter->wait = idem_http_caller_wait(caller, on_gone, waiter);
  if (!waiter->wait) {
    idem__free(&guard->alloc, waiter);
    return NULL;
  }
  idem_list_append(asking ? &asking->waiters : &guard->provers, &waiter->link);
  guard->waiting++;
  return waiter;
}

static idem__asking *new_asking(idem__guard *guard, idem__token_digest digest, const char *text,
                                size_t len) {
  idem__asking *asking = idem__malloc(&guard->alloc, sizeof *asking + len + 1);
  if (!asking) return NULL;
  *asking = (idem__asking){.guard = guard,
                           .digest = digest,
                           .step = IDEM__ASKING_KEYS,
                           .since_ms = idem__clock_ms(),
                           .len = len};
  memcpy(asking->text, text, len);
  asking->text[len] = '\0';
  idem_list_init(&asking->waiters);
  idem_list_append(&guard->askings, &asking->link);
  if (idem_map_put(&guard->by_digest, (const char *)&asking->digest, sizeof asking->digest,
                   asking) == IDEM_OK)
    return asking;
  free_asking(asking);
  return NULL;
}

/* What can be said of it without its key; NULL: nothing against it. */
static const char *fault_of(idem__asking *asking, idem_status *status) {
  idem__guard *guard = asking->guard;
  const char *why = "tokens of this kind are not taken";
  bool jwt = idem__token_is_jwt(asking->text, asking->len);
  *status = jwt || guard->introspection_url ? IDEM_OK : IDEM_E_INVAL;
  if (!jwt || !guard->issuer_count) return *status == IDEM_OK ? NULL : why;
  *status = idem__token_read(&guard->alloc, asking->text, asking->len, &asking->token, &why);
  if (*status == IDEM_OK)
    *status = idem__token_check(&guard->rules, &asking->token, idem__guard_now_s(), &asking->issuer,
                                &why);
  return *status == IDEM_OK ? NULL : why;
}

/* Somebody waits for it: the next step, none of which ends before this returns. */
static void begin(idem__asking *asking) {
  idem__guard *guard = asking->guard;
  if (!asking->token.claims) {
    idem__asking_introspect(asking);
    return;
  }
  idem__key_source *source = &guard->sources[asking->issuer];
  idem__key *key = idem__key_set_find(&source->keys, &asking->token);
  if (!key && source->jwks_file) {
    idem__source_look(source);
    key = idem__key_set_find(&source->keys, &asking->token);
  }
  if (key)
    idem__asking_verify(asking, key);
  else
    idem__source_want(source);
}

static const char too_many[] = "too many tokens are being looked at";

/* Takes the proof. */
static void ask(idem__guard *guard, const idem_http_caller *caller, idem__token_digest digest,
                idem__view token, idem__proving *proving, idem__http_judgment *verdict) {
  idem_status status = IDEM_OK;
  idem__asking *asking = idem_map_get(&guard->by_digest, (const char *)&digest, sizeof digest);
  bool known = asking != NULL;
  if (!asking) asking = new_asking(guard, digest, token.at, token.len);
  const char *why = known || !asking ? NULL : fault_of(asking, &status);
  if (why && status == IDEM_E_INVAL)
    refuse_token(guard, verdict, 401, proving != NULL, why);
  else if (!asking || status != IDEM_OK || !add_waiter(guard, asking, caller, proving))
    refuse_token(guard, verdict, 503, false, too_many);
  else
    verdict->status = IDEM_HTTP_LATER;
  if (verdict->status != IDEM_HTTP_LATER) idem__proving_leave(proving);
  if (!known && asking && verdict->status != IDEM_HTTP_LATER)
    free_asking(asking);
  else if (!known && asking)
    begin(asking);
}

/* Its token is known; takes the proof. */
static void ask_proof(idem__guard *guard, const idem_http_caller *caller, idem__grant *grant,
                      idem__proving *proving, idem__http_judgment *verdict) {
  idem__waiter *waiter = NULL;
  if (idem__proving_fits(proving, grant, verdict)) {
    waiter = add_waiter(guard, NULL, caller, proving);
    if (!waiter) refuse_token(guard, verdict, 503, true, too_many);
  }
  if (!waiter) {
    idem__proving_leave(proving);
    return;
  }
  verdict->status = IDEM_HTTP_LATER;
  idem__proving_begin(waiter, grant);
}

/* Others may have asked for it in the meantime: then theirs is the answer, too. */
bool idem__guard_ask_again(idem__guard *guard, idem__http_stay *stay) {
  const char *text = stay->grant->token;
  size_t len = strlen(text);
  idem__token_digest digest = idem__remembered_digest(&guard->remembered, text, len);
  idem__asking *asking = idem_map_get(&guard->by_digest, (const char *)&digest, sizeof digest);
  bool known = asking != NULL;
  idem__waiter *waiter =
      guard->waiting < WAITING_MAX ? idem__calloc(&guard->alloc, sizeof *waiter) : NULL;
  if (waiter && !asking) asking = new_asking(guard, digest, text, len);
  if (!waiter || !asking) {
    idem__free(&guard->alloc, waiter);
    return false;
  }
  *waiter = (idem__waiter){.guard = guard, .asking = asking, .stay = stay};
  stay->waiter = waiter;
  idem_list_append(&asking->waiters, &waiter->link);
  guard->waiting++;
  if (!known) begin(asking);
  return true;
}

void idem__guard_ask_no_more(idem__http_stay *stay) {
  idem__waiter *waiter = stay->waiter;
  if (!waiter) return;
  idem__asking *asking = waiter->asking;
  free_waiter(waiter);
  if (idem_list_empty(&asking->waiters)) abandon(asking);
}

/* --------------------------------------------------------------- the judge */

/* The token behind a scheme; nothing: it is of another one. */
static idem__view shown_by(idem__view value, const char *scheme) {
  size_t len = strlen(scheme);
  if (value.len <= len || !idem__text_equal_nocase(value.at, len, scheme, len))
    return (idem__view){NULL, 0};
  idem__view token = {value.at + len, value.len - len};
  while (token.len && *token.at == ' ') token.at++, token.len--;
  while (token.len && token.at[token.len - 1] == ' ') token.len--;
  return token;
}

void idem__guard_refresh(idem__guard *guard, uint64_t now_s) {
  if (now_s < guard->refresh_s) return;
  guard->refresh_s = now_s + IDEM__GUARD_KEYS_S;
  for (size_t i = 0; i < guard->issuer_count; i++) idem__source_refresh(&guard->sources[i]);
}

static void judge_token(idem__guard *guard, const idem_http_caller *caller, idem__view token,
                        bool proof, idem__http_judgment *verdict) {
  uint64_t now_s = idem__guard_now_s();
  idem__token_digest digest = idem__remembered_digest(&guard->remembered, token.at, token.len);
  idem__proving *proving = NULL;
  if (proof && !(proving = idem__proving_new(guard, caller, token.at, token.len, verdict))) return;
  idem__guard_refresh(guard, now_s);
  idem__grant *grant = idem__remembered_find(&guard->remembered, digest, now_s);
  if (grant && proving) {
    ask_proof(guard, caller, grant, proving, verdict);
  } else if (grant) {
    idem__guard_let_in(guard, verdict, grant, false);
  } else if (idem__token_is_text(token.at, token.len)) { /* what is remembered was */
    ask(guard, caller, digest, token, proving, verdict);
  } else {
    refuse_token(guard, verdict, 401, proof, "that is no token");
    idem__proving_leave(proving);
  }
}

/* RFC 6750, 3.1: such a request is malformed. */
static void refuse_two(idem__guard *guard, idem__http_judgment *verdict) {
  idem__guard_refuse(guard, verdict, 400,
                     &(idem__bearer_challenge){.error = "invalid_request",
                                               .why = "one Authorization header",
                                               .scope = guard->required_scope});
  verdict->reason = IDEM__HTTP_TWO_CREDENTIALS;
}

void idem__guard_judge(const idem_http_caller *caller, idem__http_judgment *verdict, void *user) {
  idem__guard *guard = user;
  idem__view shown = idem__http_caller_authorization(caller);
  idem__view token = shown_by(shown, "Bearer ");
  bool proof = !token.len;
  if (proof) token = shown_by(shown, "DPoP ");
  if (!token.len && idem__http_caller_count(caller, "authorization") > 1)
    refuse_two(guard, verdict);
  else if (!token.len) /* who shows nothing is told nothing but where to go (RFC 6750, 3.1) */
    idem__guard_refuse(guard, verdict, 401,
                       &(idem__bearer_challenge){.scope = guard->required_scope});
  else if (token.len > IDEM__TOKEN_BYTES)
    refuse_token(guard, verdict, 401, proof, "the token is longer than any that is taken");
  else
    judge_token(guard, caller, token, proof, verdict);
}

/* ----------------------------------------------------------------- the end */

static void free_guard(idem__guard *guard) {
  idem_alloc alloc = guard->alloc;
  for (size_t i = 0; i < guard->issuer_count && guard->sources; i++)
    idem__source_close(&guard->sources[i]);
  idem__remembered_deinit(&guard->remembered);
  idem_map_deinit(&guard->by_digest);
  idem_buf_deinit(&guard->line);
  idem__proofs_release(guard->proofs);
  idem__guard_free_options(guard);
  explicit_bzero(guard->nonce_key, sizeof guard->nonce_key);
  idem__free(&alloc, guard);
}

static void count_closed(idem__guard *guard) {
  if (--guard->handles) return;
  void (*closed)(void *user) = guard->closed;
  void *user = guard->closed_user;
  free_guard(guard);
  closed(user);
}

static void on_handle_closed(uv_handle_t *handle) { count_closed(handle->data); }

static void on_verified_closed(uv_handle_t *handle) {
  count_closed(((idem__verified *)handle->data)->user);
}

/* The last thread has told. */
static void close_verified(idem__guard *guard) {
  if (!guard->verifies) return;
  guard->verifies = false;
  idem__verified_close(&guard->verified, on_verified_closed);
  idem__verifier_leave();
}

void idem__guard_close(idem__guard *guard, void (*closed)(void *user), void *user) {
  guard->closing = true;
  guard->closed = closed;
  guard->closed_user = user;
  for (size_t i = 0; i < guard->issuer_count; i++) idem__source_close(&guard->sources[i]);
  if (guard->handles > 1) uv_close((uv_handle_t *)&guard->news, on_handle_closed);
  uv_close((uv_handle_t *)&guard->timer, on_handle_closed);
  if (!guard->jobs)
    close_verified(guard);
  else
    uv_ref((uv_handle_t *)&guard->verified.told); /* the loop waits for what is under way */
}

/* ------------------------------------------------------------------ making */

const idem__crypto *idem__guard_crypto(idem_log *log) {
  char why[256] = "";
  const idem__jose_module *jose = idem__module_load("jose", IDEM__JOSE_SYMBOL, why, sizeof why);
  if (jose) return jose->crypto;
  idem_logf(log, IDEM_LOG_ERROR, "no signatures", "%s", why);
  return NULL;
}

static idem_status join_verifier(idem__guard *guard) {
  if (idem__verifier_join() != IDEM_OK) return IDEM_E_SYS;
  if (idem__verified_init(&guard->verified, guard->runtime->loop, on_verified, guard) != IDEM_OK) {
    idem__verifier_leave();
    return IDEM_E_SYS;
  }
  guard->verifies = true;
  guard->handles++;
  return IDEM_OK;
}

/* What needs no signatures is not made to load what looks at them. */
bool idem__guard_can_verify(idem__guard *guard) {
  if (guard->crypto || guard->cannot_verify) return guard->crypto != NULL;
  guard->crypto = idem__guard_crypto(guard->log);
  if (guard->crypto && join_verifier(guard) != IDEM_OK) guard->crypto = NULL;
  guard->cannot_verify = !guard->crypto;
  return guard->crypto != NULL;
}

static idem_status prepare(idem__guard *guard, const idem_http_auth *opts, const char *url) {
  uint64_t secret[2];
  if (getrandom(secret, sizeof secret, 0) != sizeof secret) return IDEM_E_SYS;
  idem__remembered_init(&guard->remembered, &guard->alloc, secret);
  idem_map_init(&guard->by_digest, &guard->alloc, secret[1]);
  bool needed = opts->issuer_count || opts->proofs != IDEM_HTTP_PROOFS_TAKEN;
  if (needed && !idem__guard_can_verify(guard)) return IDEM_E_SYS;
  idem_status status = idem__guard_take(guard, opts, url);
  for (size_t i = 0; i < guard->issuer_count && status == IDEM_OK; i++) {
    idem__key_source *source = &guard->sources[i];
    status = idem__shared_keys_join(source);
    if (status != IDEM_OK) break;
    idem__source_refresh(source);
    if (source->jwks_file &&
        (!source->keys.count || !idem__key_set_serves(&source->keys, guard->rules.algorithms)))
      status = IDEM_E_INVAL;
  }
  guard->refresh_s = idem__guard_now_s() + IDEM__GUARD_KEYS_S;
  return status;
}

idem_status idem__guard_new(idem__runtime *runtime, const idem_http_auth *opts, const char *url,
                            idem_log *log, idem__guard **out) {
  idem__guard *guard = idem__calloc(&runtime->alloc, sizeof *guard);
  *out = NULL;
  if (!guard) return IDEM_E_NOMEM;
  guard->runtime = runtime;
  guard->alloc = runtime->alloc;
  guard->log = log;
  idem_list_init(&guard->askings);
  idem_list_init(&guard->stays);
  guard->stays_due_s = UINT64_MAX;
  idem_list_init(&guard->provers);
  idem_list_init(&guard->remembered.oldest);
  idem_buf_init(&guard->line, &guard->alloc, CHALLENGE_BYTES);
  uv_timer_init(runtime->loop, &guard->timer);
  guard->timer.data = guard->news.data = guard;
  guard->handles = 1;
  *out = guard; /* its handles must be closed, whatever comes */
  if (uv_async_init(runtime->loop, &guard->news, idem__guard_on_news) != 0) return IDEM_E_SYS;
  guard->handles = 2;
  uv_unref((uv_handle_t *)&guard->news);
  return prepare(guard, opts, url);
}
